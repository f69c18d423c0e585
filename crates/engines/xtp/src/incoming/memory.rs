//! Where the bytes of a stream lie: in the application's ring, or in the areas that it has posted.
//!
//! Nothing is kept twice: a byte of the stream has one place from its arrival until it is consumed, and the memory is
//! the application's. Always true: the byte at offset `o` of a ring lies at `(base + o) mod bytes`, up to where a
//! larger ring takes over, if one was lent; areas are filled one after the other, without a gap.
//= X-4

use core::iter::FusedIterator;
use core::ops::Range;
use pinnace_core::{BufferId, BufferRange};
use std::collections::VecDeque;

/// The memory behind a stream.
#[derive(Debug)]
pub(super) enum Memory {
    /// There is none yet, or none any more.
    None,
    /// Used round and round.
    Ring(Ring),
    /// Used once each.
    Areas(Box<Areas>),
}

#[derive(Debug)]
pub(super) struct Ring {
    buffer: BufferId,
    bytes: u32,
    /// Where the next byte to be consumed lies.
    at: u32,
    /// What takes over, and the ring before this one.
    succession: Option<Box<Succession>>,
}

/// Rings before and after a ring. Bytes stay where they were put: a ring that is too small is used up to its end, and not
/// again.
#[derive(Debug)]
enum Succession {
    /// The larger ring, and the offset of the stream that lies at its start.
    Next { buffer: BufferId, bytes: u32, from: u64 },
    /// The smaller ring, which nobody has taken back yet.
    Last(BufferId),
}

#[derive(Debug)]
pub(super) struct Areas {
    areas: VecDeque<Area>,
    /// Bytes of all of them, used or not.
    bytes: u64,
    /// The offset of the stream at which the next area begins.
    end: u64,
}

#[derive(Debug)]
struct Area {
    buffer: BufferId,
    offset: u64,
    /// As it was posted.
    bytes: u64,
    low: u64,
    high: u64,
}

impl Areas {
    fn forget(&mut self, area: &Area) -> BufferId {
        self.bytes = self.bytes.saturating_sub(area.bytes);
        area.buffer
    }
}

impl Ring {
    /// The offset of the stream at which the ring begins again.
    fn end(&self, dseq: u64) -> u64 {
        dseq.saturating_add(u64::from(self.bytes - self.at))
    }
}

impl Memory {
    /// A ring in which the next byte to be consumed lies at `at`, below `bytes`.
    pub(super) fn ring(buffer: BufferId, bytes: u32, at: u32) -> Self {
        Self::Ring(Ring { buffer, bytes, at, succession: None })
    }

    /// Whether there is a ring, and a larger one could take over from its end: bytes have come up to `hseq`.
    pub(super) fn is_outgrown(&self, dseq: u64, hseq: u64) -> bool {
        matches!(self, Self::Ring(ring) if ring.succession.is_none() && hseq <= ring.end(dseq))
    }

    /// Bytes of the ring and of the one that takes over, or of the areas.
    pub(super) fn bytes(&self) -> u64 {
        let ring = match self {
            Self::None => return 0,
            Self::Areas(areas) => return areas.bytes,
            Self::Ring(ring) => ring,
        };
        let next = match ring.succession.as_deref() {
            Some(&Succession::Next { bytes, .. }) => bytes,
            _ => 0,
        };
        u64::from(ring.bytes) + u64::from(next)
    }

    /// Lends a larger ring to one that is [outgrown](Self::is_outgrown).
    pub(super) fn succeed(&mut self, dseq: u64, buffer: BufferId, bytes: u32) {
        if let Self::Ring(ring) = self {
            let from = ring.end(dseq);
            ring.succession = Some(Box::new(Succession::Next { buffer, bytes, from }));
        }
    }

    /// Gives back a ring that a larger one has taken over from.
    pub(super) fn take_outgrown(&mut self) -> Option<BufferId> {
        let Self::Ring(ring) = self else { return None };
        let Some(Succession::Last(buffer)) = ring.succession.as_deref() else { return None };
        let buffer = *buffer;
        ring.succession = None;
        Some(buffer)
    }

    /// Appends an area to those posted, unless there is a ring instead. `dseq` is the next byte to be consumed.
    pub(super) fn post(&mut self, dseq: u64, buffer: BufferId, offset: u64, len: u64) {
        if matches!(self, Self::None) {
            *self = Self::Areas(Box::new(Areas { areas: VecDeque::new(), bytes: 0, end: dseq }));
        }
        let Self::Areas(areas) = self else { return };
        let low = areas.end;
        areas.end = low.saturating_add(len);
        areas.bytes = areas.bytes.saturating_add(len);
        areas.areas.push_back(Area { buffer, offset, bytes: len, low, high: areas.end });
    }

    /// Gives back the first area if all of it lies below `dseq`, or if `is_over`.
    pub(super) fn pop_area(&mut self, dseq: u64, is_over: bool) -> Option<BufferId> {
        let Self::Areas(areas) = self else { return None };
        let area = areas.areas.pop_front_if(|area| area.high <= dseq || is_over)?;
        Some(areas.forget(&area))
    }

    /// Gives back the last area, filled or not.
    pub(super) fn take_last_area(&mut self) -> Option<BufferId> {
        let Self::Areas(areas) = self else { return None };
        let buffer = areas.areas.pop_back().map(|area| areas.forget(&area));
        if areas.areas.is_empty() {
            *self = Self::None;
        }
        buffer
    }

    /// Where byte `dseq` lies in the first area, and how many bytes of the area are there from it on.
    pub(super) fn first_area(&self, dseq: u64) -> Option<BufferRange> {
        let Self::Areas(areas) = self else { return None };
        let area = areas.areas.front()?;
        let into = dseq.checked_sub(area.low)?;
        let len = u32::try_from(area.high.checked_sub(dseq)?).ok()?;
        Some(BufferRange::new(area.buffer, area.offset + into, len))
    }

    /// Ends the first area before `high`, and lets those behind it begin earlier. Nothing may have come into what they
    /// lose.
    pub(super) fn cut_first_area(&mut self, high: u64) {
        let Self::Areas(areas) = self else { return };
        let Some(first) = areas.areas.front_mut() else { return };
        let cut = first.high.saturating_sub(high);
        first.high -= cut;
        areas.end -= cut;
        for area in areas.areas.iter_mut().skip(1) {
            area.low -= cut;
            area.high -= cut;
        }
    }

    /// Gives back the ring, the oldest first.
    pub(super) fn take_ring(&mut self) -> Option<BufferId> {
        if let Some(last) = self.take_outgrown() {
            return Some(last);
        }
        let Self::Ring(ring) = self else { return None };
        let taken = ring.buffer;
        *self = match ring.succession.as_deref() {
            Some(&Succession::Next { buffer, bytes, .. }) => Self::ring(buffer, bytes, 0),
            _ => Self::None,
        };
        Some(taken)
    }

    /// One past the last byte of the stream that has a place, `None` if there is no memory.
    pub(super) fn end(&self, dseq: u64) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Ring(ring) => Some(match ring.succession.as_deref() {
                Some(Succession::Next { bytes, from, .. }) => from.saturating_add((*bytes).into()),
                _ => dseq.saturating_add(ring.bytes.into()),
            }),
            Self::Areas(areas) => Some(areas.end),
        }
    }

    /// `bytes` more have been consumed, all of which had a place; the next one to be consumed is `dseq`.
    pub(super) fn consume(&mut self, dseq: u64, bytes: u64) {
        let Self::Ring(ring) = self else { return };
        let at = u64::from(ring.at) + bytes;
        if at < u64::from(ring.bytes) {
            ring.at = at as u32;
            return;
        }
        ring.at = (at - u64::from(ring.bytes)) as u32;
        if let Some(&Succession::Next { buffer, bytes, from }) = ring.succession.as_deref() {
            let last = core::mem::replace(&mut ring.buffer, buffer);
            let at = (dseq - from) as u32;
            (ring.bytes, ring.at) = (bytes, if at < bytes { at } else { 0 });
            ring.succession = Some(Box::new(Succession::Last(last)));
        }
    }

    /// Where bytes `range` of the stream lie, in order: stretches of the stream and their places. All of them have to be
    /// at `dseq` or behind and below [`Memory::end`]; what has no place is left out.
    pub(super) fn parts(&self, dseq: u64, range: Range<u64>) -> Parts<'_> {
        Parts { memory: self, dseq, low: range.start, high: range.end }
    }
}

/// Stretches of a stream and their places: [`Memory::parts`].
#[derive(Clone, Debug)]
pub(super) struct Parts<'a> {
    memory: &'a Memory,
    dseq: u64,
    low: u64,
    high: u64,
}

impl Iterator for Parts<'_> {
    type Item = (u64, BufferRange);

    fn next(&mut self) -> Option<(u64, BufferRange)> {
        if self.low >= self.high {
            return None;
        }
        let low = self.low;
        let most = (self.high - low).min(u64::from(u32::MAX));
        let (buffer, offset, room) = match self.memory {
            Memory::None => return None,
            Memory::Ring(ring) => {
                // No remainder: it would cost more than all the rest.
                let (ahead, bytes) = (u64::from(ring.at) + low.checked_sub(self.dseq)?, u64::from(ring.bytes));
                match ring.succession.as_deref() {
                    Some(Succession::Next { buffer, bytes: larger, from }) if ahead >= bytes => {
                        (*buffer, low - from, (from + u64::from(*larger)).checked_sub(low)?)
                    }
                    _ => {
                        let at = if ahead >= bytes { ahead - bytes } else { ahead };
                        (ring.buffer, at, bytes.checked_sub(at)?)
                    }
                }
            }
            Memory::Areas(areas) => {
                let area = areas.areas.get(areas.areas.partition_point(|area| area.high <= low))?;
                let into = low.checked_sub(area.low)?;
                (area.buffer, area.offset + into, area.high - low)
            }
        };
        let len = most.min(room);
        self.low = low + len;
        (len > 0).then(|| (low, BufferRange::new(buffer, offset, len as u32)))
    }
}

impl FusedIterator for Parts<'_> {}
