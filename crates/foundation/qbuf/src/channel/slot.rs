//! What a slot says: a few bytes, or which blocks of the pool change hands.
//!
//! | word | inline | blocks |
//! |---|---|---|
//! | 0 | 1, and the length in bits 8 to 15 | 2 |
//! | 1 | the bytes, little-endian | the first block, and 2^32 times the bytes used |
//!
//! Requirement B-13: a slot is copied out once, and the copy becomes a [`Message`] or an error.

use core::ops::Deref;

use super::ring::{Corrupt, SLOT_WORDS, Words};
use crate::Passed;

/// Longest message that travels in the slot itself, in bytes.
pub const INLINE_MAX: usize = 8 * (SLOT_WORDS - 1);

const INLINE: u64 = 1;
const BLOCKS: u64 = 2;

/// A short message, taken out of its slot.
#[derive(Clone, Copy)]
pub struct Inline {
    len: u8,
    bytes: [u8; INLINE_MAX],
}

impl Deref for Inline {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl core::fmt::Debug for Inline {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Inline").field(&&**self).finish()
    }
}

/// What a slot says, once it was checked.
#[derive(Debug)]
pub(crate) enum Message {
    Inline(Inline),
    Blocks(Passed),
}

/// The words of a short message, and how many of them must be written. `bytes` is at most [`INLINE_MAX`] long.
#[inline]
pub(crate) fn inline(bytes: &[u8]) -> (Words, usize) {
    let mut words = [0; SLOT_WORDS];
    words[0] = INLINE | (bytes.len() as u64) << 8;
    let mut used = 1;
    for (word, chunk) in words[1..].iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_le_bytes(whole);
        used += 1;
    }
    (words, used)
}

/// The words of blocks that change hands.
#[inline]
pub(crate) fn blocks(passed: Passed) -> [u64; 2] {
    [BLOCKS, u64::from(passed.block) | u64::from(passed.len) << 32]
}

/// Reads a slot's private copy.
//= B-13
#[inline]
pub(crate) fn parse(words: &Words) -> Result<Message, Corrupt> {
    match words[0] & 0xff {
        BLOCKS if words[0] == BLOCKS => {
            Ok(Message::Blocks(Passed { block: words[1] as u32, len: (words[1] >> 32) as u32 }))
        }
        INLINE if words[0] >> 16 == 0 && words[0] >> 8 <= INLINE_MAX as u64 => {
            let mut bytes = [0; INLINE_MAX];
            for (chunk, word) in bytes.chunks_exact_mut(8).zip(&words[1..]) {
                chunk.copy_from_slice(&word.to_le_bytes());
            }
            Ok(Message::Inline(Inline { len: (words[0] >> 8) as u8, bytes }))
        }
        _ => Err(Corrupt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_message_comes_back_whatever_its_length() {
        let bytes: Vec<u8> = (1..=INLINE_MAX as u8).collect();
        for len in 0..=INLINE_MAX {
            let (words, used) = inline(&bytes[..len]);
            assert_eq!(used, 1 + len.div_ceil(8));
            let Ok(Message::Inline(found)) = parse(&words) else { panic!("{len} bytes were refused") };
            assert_eq!(&*found, &bytes[..len]);
        }
    }

    //= B-13 test
    #[test]
    fn a_slot_that_says_nonsense_is_corrupt() {
        for first in [0, 3, 1 | 57 << 8, 1 | 1 << 16, 2 | 1 << 8, 2 | 1 << 63, u64::MAX] {
            let mut words = [0; SLOT_WORDS];
            words[0] = first;
            assert!(parse(&words).is_err(), "{first:#x} was taken");
        }
    }
}
