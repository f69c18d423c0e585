//! ZCRP datagrams (specs/zcrp.md, section 1).
//!
//! Everything but the data is a trailer. A unit ends with 28 bytes, offsets from the end of the datagram:
//!
//! | offset | size | field |
//! |---|---|---|
//! | -28 | 4 | message number |
//! | -24 | 4 | unit number |
//! | -20 | 4 | sequence number |
//! | -16 | 4 | next message number |
//! | -12 | 4 | next unit number |
//! | -8 | 4 | length: data bytes in this unit |
//! | -4 | 1 | flags: 1 has-next, 2 is-last, 4 refused, 8 idle |
//! | -3 | 3 | zero |
//!
//! A control datagram begins with a count and its numbers, and ends with a type byte (bit 7 set) and three zeros. Bit 7 of
//! the byte at -4 therefore tells the two apart, so that instances in both directions can share one channel (Z-1).

use crate::{Malformed, be32};

/// Bytes of a unit's trailer.
pub const TRAILER_BYTES: usize = 28;
/// The smallest unit datagram size `U` that carries data.
pub const MIN_UNIT_BYTES: usize = TRAILER_BYTES + 1;
/// The largest unit datagram size `U`: UDP's payload over IPv4.
pub const MAX_UNIT_BYTES: usize = 65_507;
/// The smallest control datagram.
pub const MIN_CONTROL_BYTES: usize = 12;
/// The largest control datagram that a sender accepts.
pub const MAX_CONTROL_BYTES: usize = 65_504;
/// What a receiver sends at most by default (`C`).
pub const DEFAULT_CONTROL_BYTES: usize = 512;
/// The numbers of one block acknowledgement span less than this.
pub const MAX_BLOCK_SPAN: u32 = 1 << 16;

const HAS_NEXT: u8 = 1;
const IS_LAST: u8 = 2;
const REFUSED: u8 = 4;
const IDLE: u8 = 8;
const CONTROL: u8 = 0x80;

const POSITIVE: u8 = 0x81;
const NEGATIVE: u8 = 0x82;
const REQUEST: u8 = 0x83;
const FLOW: u8 = 0x84;

/// The trailer of a unit that carries data, or refuses a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Message number.
    pub message: u32,
    /// Unit number within the message, from 0.
    pub unit: u32,
    /// Sequence number of this transmission.
    pub sequence: u32,
    /// Message and unit number of the unit that follows on the channel (Z-7).
    pub next: Option<(u32, u32)>,
    /// Data bytes.
    pub length: u32,
    /// This is the last unit of its message (Z-5).
    pub is_last: bool,
    /// The message does not fit the buffer named in the request (Z-16).
    pub refused: bool,
}

/// What the tail of a datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trailer {
    /// A unit.
    Unit(Unit),
    /// The sender has nothing that was requested; the number of its next send (Z-21).
    Idle {
        /// Number of the sender's next send.
        message: u32,
    },
    /// A control datagram: parse it whole with [`Control::parse`].
    Control,
}

impl Trailer {
    /// Reads the last 28 bytes of a datagram of `datagram` bytes.
    ///
    /// # Errors
    /// [`Malformed`] if the fields contradict each other or the size of the datagram.
    pub fn parse(tail: &[u8; TRAILER_BYTES], datagram: usize) -> Result<Self, Malformed> {
        let flags = tail[24];
        if flags & CONTROL != 0 {
            return Ok(Self::Control);
        }
        if flags & !(HAS_NEXT | IS_LAST | REFUSED | IDLE) != 0 {
            return Err(Malformed::Unknown);
        }
        if !(TRAILER_BYTES..=MAX_UNIT_BYTES).contains(&datagram) {
            return Err(Malformed::Size);
        }
        let message = be32(tail, 0);
        let length = be32(tail, 20);
        let room = (datagram - TRAILER_BYTES) as u32;
        if flags & IDLE != 0 {
            let alone = flags == IDLE && length == 0 && room == 0;
            return if alone { Ok(Self::Idle { message }) } else { Err(Malformed::Contradiction) };
        }
        let unit = Unit {
            message,
            unit: be32(tail, 4),
            sequence: be32(tail, 8),
            next: (flags & HAS_NEXT != 0).then(|| (be32(tail, 12), be32(tail, 16))),
            length,
            is_last: flags & IS_LAST != 0,
            refused: flags & REFUSED != 0,
        };
        if length > room {
            return Err(Malformed::Length);
        }
        if !unit.is_last && (length != room || length == 0) {
            // Only a last unit may be short or padded.
            return Err(Malformed::Length);
        }
        let empty_tail = unit.is_last && unit.unit > 0 && length == 0;
        let odd_refusal = unit.refused && !(unit.is_last && unit.unit == 0 && length == 0);
        if empty_tail || odd_refusal {
            return Err(Malformed::Contradiction);
        }
        Ok(Self::Unit(unit))
    }
}

impl Unit {
    /// The trailer as it travels.
    pub fn encode(&self) -> [u8; TRAILER_BYTES] {
        let (next_message, next_unit) = self.next.unwrap_or((0, 0));
        let flags = if self.next.is_some() { HAS_NEXT } else { 0 }
            | if self.is_last { IS_LAST } else { 0 }
            | if self.refused { REFUSED } else { 0 };
        let mut bytes = [0; TRAILER_BYTES];
        let words = [self.message, self.unit, self.sequence, next_message, next_unit, self.length];
        for (slot, word) in bytes.chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_be_bytes());
        }
        bytes[24] = flags;
        bytes
    }
}

/// The idle datagram for a sender whose next send has number `message` (Z-21).
pub fn encode_idle(message: u32) -> [u8; TRAILER_BYTES] {
    let mut bytes = [0; TRAILER_BYTES];
    bytes[..4].copy_from_slice(&message.to_be_bytes());
    bytes[24] = IDLE;
    bytes
}

/// Whether a datagram is a control datagram, going by bit 7 of the byte at -4; `None` if it is too short to say.
pub fn is_control(datagram: &[u8]) -> Option<bool> {
    let at = datagram.len().checked_sub(4)?;
    Some(datagram[at] & CONTROL != 0)
}

/// A control datagram, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// Intervals of sequence numbers of alternating sign.
    Acknowledgement(Block<'a>),
    /// The receiver has buffers for these messages (Z-3).
    Request(Pairs<'a>),
    /// A hint: highest message number the receiver will queue, and bytes of bounce memory free.
    Flow {
        /// Highest message number that the receiver will queue.
        highest: u32,
        /// Bytes of bounce memory free.
        bounce: u32,
    },
}

/// The intervals of a block acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    positive: bool,
    numbers: &'a [u8],
}

/// The (message number, buffer size) pairs of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs<'a> {
    pairs: &'a [u8],
}

impl<'a> Control<'a> {
    /// Parses a whole control datagram.
    ///
    /// # Errors
    /// [`Malformed`] if a length lies, the type is unknown, or the numbers of a block descend or span 2^16 or more.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, Malformed> {
        let size = datagram.len();
        if !(MIN_CONTROL_BYTES..=MAX_CONTROL_BYTES).contains(&size) || !size.is_multiple_of(4) {
            return Err(Malformed::Size);
        }
        let length = be32(datagram, 0) as usize;
        let body = &datagram[4..size - 4];
        let words = |count: usize| count.checked_mul(4).and_then(|bytes| body.get(..bytes)).ok_or(Malformed::Length);
        match datagram[size - 4] {
            kind @ (POSITIVE | NEGATIVE) => {
                let numbers = words(length.checked_add(1).ok_or(Malformed::Length)?)?;
                let first = be32(numbers, 0);
                let mut last = 0;
                for number in numbers.chunks_exact(4).map(|n| be32(n, 0).wrapping_sub(first)) {
                    if number < last || number >= MAX_BLOCK_SPAN {
                        return Err(Malformed::Contradiction);
                    }
                    last = number;
                }
                Ok(Self::Acknowledgement(Block { positive: kind == POSITIVE, numbers }))
            }
            REQUEST => {
                let pairs = words(length.checked_mul(2).ok_or(Malformed::Length)?)?;
                if pairs.is_empty() { Err(Malformed::Length) } else { Ok(Self::Request(Pairs { pairs })) }
            }
            FLOW => {
                let pair = if length == 1 { words(2)? } else { return Err(Malformed::Length) };
                Ok(Self::Flow { highest: be32(pair, 0), bounce: be32(pair, 4) })
            }
            _ => Err(Malformed::Unknown),
        }
    }
}

impl<'a> Block<'a> {
    /// The intervals: `(low, high, positive)`, half-open, in rising order; empty ones included.
    pub fn intervals(&self) -> impl Iterator<Item = (u32, u32, bool)> + use<'a> {
        let (numbers, mut positive) = (self.numbers, !self.positive);
        numbers.chunks_exact(4).zip(numbers.chunks_exact(4).skip(1)).map(move |(low, high)| {
            positive = !positive;
            (be32(low, 0), be32(high, 0), positive)
        })
    }
}

impl<'a> Pairs<'a> {
    /// `(message number, buffer size)`, in the order of the datagram.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + use<'a> {
        self.pairs.chunks_exact(8).map(|pair| (be32(pair, 0), be32(pair, 4)))
    }
}

/// Writes a control datagram of at most `capacity` bytes into a buffer of the caller's.
#[derive(Debug)]
pub struct ControlWriter<'b> {
    bytes: &'b mut [u8],
    used: usize,
}

impl<'b> ControlWriter<'b> {
    /// Starts a datagram in `bytes`, whose length bounds it.
    pub fn new(bytes: &'b mut [u8]) -> Self {
        debug_assert!(bytes.len() >= MIN_CONTROL_BYTES + 4);
        let mut writer = Self { bytes, used: 0 };
        writer.word(0);
        writer
    }

    fn word(&mut self, word: u32) {
        self.bytes[self.used..self.used + 4].copy_from_slice(&word.to_be_bytes());
        self.used += 4;
    }

    fn finish(self, kind: u8, length: usize) -> &'b [u8] {
        let Self { bytes, used } = self;
        bytes[..4].copy_from_slice(&(length as u32).to_be_bytes());
        bytes[used..used + 4].copy_from_slice(&[kind, 0, 0, 0]);
        &bytes[..used + 4]
    }

    /// Whether `words` more numbers fit before the trailer.
    pub fn has_room(&self, words: usize) -> bool {
        self.used + 4 * words + 4 <= self.bytes.len()
    }

    /// Adds a number (a block acknowledgement's edge, or half a pair).
    pub fn push(&mut self, word: u32) {
        self.word(word);
    }

    /// Numbers written so far.
    pub fn words(&self) -> usize {
        self.used / 4 - 1
    }

    /// Ends a block acknowledgement whose first interval has this sign. At least one number must have been written.
    pub fn acknowledgement(self, positive: bool) -> &'b [u8] {
        let length = self.words().saturating_sub(1);
        self.finish(if positive { POSITIVE } else { NEGATIVE }, length)
    }

    /// Ends a request.
    pub fn request(self) -> &'b [u8] {
        let length = self.words() / 2;
        self.finish(REQUEST, length)
    }

    /// Ends a flow hint, whose one pair has been written.
    pub fn flow(self) -> &'b [u8] {
        self.finish(FLOW, 1)
    }
}

#[cfg(test)]
mod tests;
