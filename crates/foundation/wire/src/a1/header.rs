//! The header: what every datagram begins with, how long it is, and how it is summed.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | type |
//! | 1 | 1 | flags: 1 RETRANSMITTED, 2 START, 4 END, 8 CHECKED, 16 RELIABLE, 32 MULTICAST |
//! | 2 | 2 | checksum: Internet checksum of the datagram with this field 0, if CHECKED; otherwise 0 |
//! | 4 | 4 | connection, not 0 |
//! | 8 | 4 | sequence |
//! | 12 | 4 | message number (DATA, otherwise 0) |
//! | 16 | 2 | index of the block in the message (DATA, otherwise 0) |
//! | 18 | 2 | count of the blocks of the message (DATA, otherwise 0) |
//! | 20 | 4 | edge |
//! | 24 | 4 | stamp |
//! | 28 | 4 | length: bytes after the header |
//!
//! Which flags a type may have:
//!
//! | flag | where |
//! |---|---|
//! | RETRANSMITTED | everywhere, but not with MULTICAST in DATA: repairs do not go to the group |
//! | START, END | in DATA, exactly in the first and the last block of a message |
//! | CHECKED | everywhere, and always in OPEN and REJECT |
//! | RELIABLE | in DATA |
//! | MULTICAST | in DATA and ACCEPT |

use super::{
    Block, CHANGE_BYTES, CLOSE_BYTES, COOKIE_BYTES, GROUP_BYTES, Header, Kind, LENGTH_BYTES, MAX_BLOCK_BYTES,
    RANGE_BYTES, REJECT_BYTES, SETUP_BYTES,
};
use crate::checksum::Internet;
use crate::{Malformed, be16, be32};
use core::num::NonZeroU32;
use core::ops::Range;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;
/// Where the checksum lies in a datagram.
pub const CHECK_AT: usize = 2;

//= A-5
pub(super) const RETRANSMITTED: u8 = 1;
pub(super) const START: u8 = 2;
pub(super) const END: u8 = 4;
pub(super) const CHECKED: u8 = 8;
pub(super) const RELIABLE: u8 = 16;
pub(super) const MULTICAST: u8 = 32;
const DEFINED: u8 = RETRANSMITTED | START | END | CHECKED | RELIABLE | MULTICAST;

/// A header that was read, and what is needed to check its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The header.
    pub header: Header,
    /// The type.
    pub kind: Kind,
    /// Of DATA, and of no other.
    block: Option<Block>,
    /// MULTICAST in ACCEPT.
    has_joined: bool,
    /// Bytes of the body.
    length: usize,
}

impl Head {
    /// Reads the first [`HEADER_BYTES`] of a datagram of `datagram` bytes; what else is in `head` is ignored.
    /// `is_padded`: the link may have added bytes behind the datagram (Ethernet); otherwise the length agrees exactly.
    ///
    /// # Errors
    ///
    /// The type or a flag is not defined, or the type does not have the flag or always has it; the connection is 0, a field
    /// that is not used is not 0, a block index is not below its count; or the length is not the datagram's, or is
    /// impossible for the type.
    #[inline]
    pub fn parse(head: &[u8], datagram: usize, is_padded: bool) -> Result<Self, Malformed> {
        let bytes: &[u8; HEADER_BYTES] = head.first_chunk().ok_or(Malformed::Size)?;
        let kind = Kind::from_wire(bytes[0]).ok_or(Malformed::Unknown)?;
        let flags = bytes[1];
        if flags & !DEFINED != 0 {
            return Err(Malformed::Unknown);
        }
        let header = Header {
            connection: NonZeroU32::new(be32(bytes, 4)).ok_or(Malformed::Contradiction)?,
            sequence: be32(bytes, 8),
            edge: be32(bytes, 20),
            stamp: be32(bytes, 24),
            is_checked: flags & CHECKED != 0,
            is_retransmitted: flags & RETRANSMITTED != 0,
        };
        if !header.is_checked && be16(bytes, CHECK_AT) != 0 {
            return Err(Malformed::Contradiction);
        }
        let length = be32(bytes, 28);
        let block = if kind == Kind::Data {
            Some(read_block(bytes, &header, flags, length)?)
        } else {
            check_control(bytes, &header, kind, flags, length)?;
            None
        };
        // Widened, so that no length wraps where `usize` has 32 bits.
        let whole = HEADER_BYTES as u64 + u64::from(length);
        if whole > datagram as u64 || (whole < datagram as u64 && !is_padded) {
            return Err(Malformed::Length);
        }
        let has_joined = kind == Kind::Accept && flags & MULTICAST != 0;
        Ok(Self { header, kind, block, has_joined, length: length as usize })
    }

    /// What the header of DATA says of its block; of other types nothing.
    #[inline]
    pub const fn block(&self) -> Option<&Block> {
        self.block.as_ref()
    }

    /// Bytes of the body: of DATA, those of the block.
    #[inline]
    pub const fn body_bytes(&self) -> usize {
        self.length
    }

    /// Bytes of the datagram. What lies behind them is padding of the link.
    #[inline]
    pub const fn datagram_bytes(&self) -> usize {
        HEADER_BYTES + self.length
    }

    pub(super) const fn has_joined(&self) -> bool {
        self.has_joined
    }

    /// The bytes of the datagram that [`Head::verify`] wants: all, or none if it is not checked.
    #[inline]
    pub const fn summed(&self) -> Range<usize> {
        0..if self.header.is_checked { self.datagram_bytes() } else { 0 }
    }

    /// Whether the checksum is right, if there is one. `pieces` are the bytes of [`Head::summed`], cut in any way.
    #[inline]
    pub fn verify<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> bool {
        let mut sum = Internet::new();
        let mut len = 0;
        for piece in pieces {
            sum.add(piece);
            len += piece.len();
        }
        len == self.summed().len() && (!self.header.is_checked || sum.finish() == 0)
    }
}

#[inline]
fn read_block(bytes: &[u8; HEADER_BYTES], header: &Header, flags: u8, length: u32) -> Result<Block, Malformed> {
    let block = Block::new(be32(bytes, 12), be16(bytes, 16), be16(bytes, 18)).ok_or(Malformed::Contradiction)?;
    let block = block.reliable(flags & RELIABLE != 0).to_group(flags & MULTICAST != 0);
    if flags & (START | END) != ends(&block) || (block.is_group() && (header.is_retransmitted || header.edge != 0)) {
        return Err(Malformed::Contradiction);
    }
    // Only an empty message has an empty block.
    if length > MAX_BLOCK_BYTES || (length == 0 && block.count() != 1) {
        return Err(Malformed::Length);
    }
    Ok(block)
}

/// The flags of a block that its place in the message tells.
#[inline]
const fn ends(block: &Block) -> u8 {
    (if block.is_start() { START } else { 0 }) | (if block.is_end() { END } else { 0 })
}

/// Checks what is not the same in all types but DATA.
fn check_control(
    bytes: &[u8; HEADER_BYTES],
    header: &Header,
    kind: Kind,
    flags: u8,
    length: u32,
) -> Result<(), Malformed> {
    let of_data = be32(bytes, 12) | be32(bytes, 16);
    let allowed = RETRANSMITTED | CHECKED | if kind == Kind::Accept { MULTICAST } else { 0 };
    let is_always_checked = matches!(kind, Kind::Open | Kind::Reject);
    if of_data != 0 || flags & !allowed != 0 || (is_always_checked && !header.is_checked) {
        return Err(Malformed::Contradiction);
    }
    if kind == Kind::Reject && (header.edge != 0 || header.sequence != 0) {
        return Err(Malformed::Contradiction);
    }
    let length = length as usize;
    let longest_open = SETUP_BYTES + LENGTH_BYTES + COOKIE_BYTES.end() + GROUP_BYTES;
    let is_possible = match kind {
        Kind::Open => (SETUP_BYTES..=longest_open).contains(&length),
        Kind::Accept => length == SETUP_BYTES,
        Kind::Reject => (REJECT_BYTES..=REJECT_BYTES + usize::from(u16::MAX)).contains(&length),
        // A NACK that names nothing still tells a sequence and an edge.
        Kind::Ack | Kind::Nack => length.is_multiple_of(RANGE_BYTES),
        Kind::Qos | Kind::QosReply => length == CHANGE_BYTES,
        Kind::Close | Kind::CloseReply => length == CLOSE_BYTES,
        Kind::Data | Kind::Sync | Kind::SyncReply => length == 0,
    };
    if is_possible { Ok(()) } else { Err(Malformed::Length) }
}

impl Header {
    /// The header of a datagram with a body of `length` bytes. The checksum is 0. CHECKED is as the header says, or as
    /// `flags` do.
    #[inline]
    pub(super) fn encode(&self, kind: Kind, flags: u8, block: Option<&Block>, length: u32) -> [u8; HEADER_BYTES] {
        let mut flags = flags;
        if self.is_retransmitted {
            flags |= RETRANSMITTED;
        }
        if self.is_checked {
            flags |= CHECKED;
        }
        let (mut message, mut place, mut edge) = (0, 0, self.edge);
        if let Some(block) = block {
            message = block.message();
            place = u32::from(block.index()) << 16 | u32::from(block.count());
            flags |= ends(block) | if block.is_reliable() { RELIABLE } else { 0 };
            if block.is_group() {
                flags = flags & !RETRANSMITTED | MULTICAST;
                edge = 0;
            }
        }
        let first = u32::from(kind as u8) << 24 | u32::from(flags) << 16;
        let words = [first, self.connection.get(), self.sequence, message, place, edge, self.stamp, length];
        let mut bytes = [0; HEADER_BYTES];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }
}
