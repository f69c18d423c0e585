//! The lists of ACK and NACK.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | low: the first block |
//! | 4 | 4 | high: one past the last block |

use super::{HEADER_BYTES, RANGE_BYTES};
use crate::be32;

/// Ranges of block numbers, `low` and `high` of each.
///
/// Always true of what was parsed: no range is empty, and each lies ahead of [`super::Header::sequence`], by less than 2^31.
/// They may come in any order, and overlap.
#[derive(Clone, Copy)]
pub struct Ranges<'a>(Form<'a>);

#[derive(Clone, Copy)]
enum Form<'a> {
    Wire(&'a [[u8; RANGE_BYTES]]),
    Own(&'a [(u32, u32)]),
}

impl<'a> Ranges<'a> {
    /// No ranges.
    pub const EMPTY: Self = Self(Form::Own(&[]));

    /// Ranges to be written. Whoever writes them sees to it that they lie ahead of the sequence.
    pub const fn from_slice(ranges: &'a [(u32, u32)]) -> Self {
        Self(Form::Own(ranges))
    }

    /// Ranges as they came, not yet checked.
    pub(super) const fn from_wire(ranges: &'a [[u8; RANGE_BYTES]]) -> Self {
        Self(Form::Wire(ranges))
    }

    /// How many a datagram of at most `datagram_bytes` has room for.
    pub const fn max_count(datagram_bytes: usize) -> usize {
        datagram_bytes.saturating_sub(HEADER_BYTES) / RANGE_BYTES
    }

    /// Whether every range has a block, and lies ahead of `sequence`, which `is_beyond` leaves out, in serial order.
    pub fn lie_ahead_of(&self, sequence: u32, is_beyond: bool) -> bool {
        let least = u32::from(is_beyond);
        self.iter().all(|(low, high)| {
            let (low, high) = (low.wrapping_sub(sequence), high.wrapping_sub(sequence));
            least <= low && low < high && high < 1 << 31
        })
    }

    /// The first `count` of them, if there are so many.
    #[must_use]
    pub fn first(self, count: usize) -> Self {
        Self(match self.0 {
            Form::Wire(ranges) => Form::Wire(&ranges[..count.min(ranges.len())]),
            Form::Own(ranges) => Form::Own(&ranges[..count.min(ranges.len())]),
        })
    }

    /// How many.
    pub const fn len(&self) -> usize {
        match self.0 {
            Form::Wire(ranges) => ranges.len(),
            Form::Own(ranges) => ranges.len(),
        }
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `low` and `high` of each.
    #[inline]
    pub const fn iter(&self) -> RangeIter<'a> {
        RangeIter { ranges: *self, at: 0 }
    }

    fn range(&self, at: usize) -> Option<(u32, u32)> {
        match self.0 {
            Form::Wire(ranges) => ranges.get(at).map(|range| (be32(range, 0), be32(range, 4))),
            Form::Own(ranges) => ranges.get(at).copied(),
        }
    }
}

impl Default for Ranges<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for Ranges<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Ranges<'_> {}

impl core::fmt::Debug for Ranges<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for Ranges<'a> {
    type Item = (u32, u32);
    type IntoIter = RangeIter<'a>;

    fn into_iter(self) -> RangeIter<'a> {
        self.iter()
    }
}

/// Yields `low` and `high` of each range.
#[derive(Clone, Debug)]
pub struct RangeIter<'a> {
    ranges: Ranges<'a>,
    at: usize,
}

impl Iterator for RangeIter<'_> {
    type Item = (u32, u32);

    #[inline]
    fn next(&mut self) -> Option<(u32, u32)> {
        let range = self.ranges.range(self.at)?;
        self.at += 1;
        Some(range)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.ranges.len() - self.at;
        (left, Some(left))
    }
}

impl ExactSizeIterator for RangeIter<'_> {}
