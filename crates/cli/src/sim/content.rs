//! What simulated messages consist of: bytes that follow from seed, message and place, so that any piece of any message
//! can be told from every other.

use core::ops::Range;
use pinnace_core::mix64;

const WORD: usize = 8;

/// The content of all messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content(u64);

impl Content {
    pub(super) const fn new(seed: u64) -> Self {
        Self(mix64(seed))
    }

    /// Message `number`, of `size` bytes.
    pub(super) fn message(self, number: usize, size: u32) -> Vec<u8> {
        self.piece(number, 0, size as usize)
    }

    /// `len` bytes of message `number` from `offset` on.
    pub(super) fn piece(self, number: usize, offset: usize, len: usize) -> Vec<u8> {
        let (first, skipped) = (offset / WORD, offset % WORD);
        let words = first..(offset + len).div_ceil(WORD);
        let mut bytes = Vec::with_capacity(len + WORD);
        words.for_each(|index| bytes.extend_from_slice(&self.word(number, index)));
        bytes.drain(..skipped.min(bytes.len()));
        bytes.truncate(len);
        bytes
    }

    /// Whether `bytes` are what message `number` has from `offset` on.
    pub(super) fn is_at(self, number: usize, offset: usize, bytes: &[u8]) -> bool {
        let head = (WORD - offset % WORD) % WORD;
        let (head, rest) = bytes.split_at(head.min(bytes.len()));
        let at = offset % WORD;
        let starts = head.is_empty() || self.word(number, offset / WORD)[at..at + head.len()] == *head;
        let first = (offset + head.len()) / WORD;
        starts && (first..).zip(rest.chunks(WORD)).all(|(index, word)| self.word(number, index)[..word.len()] == *word)
    }

    /// Whether `bytes` are message `number` but for `holes`, which are in rising order.
    pub(super) fn is_but_for(self, number: usize, bytes: &[u8], holes: &[Range<u64>]) -> bool {
        let lows = core::iter::once(0).chain(holes.iter().map(|hole| hole.end as usize));
        let highs = holes.iter().map(|hole| hole.start as usize).chain([bytes.len()]);
        lows.zip(highs).all(|(low, high)| bytes.get(low..high).is_some_and(|part| self.is_at(number, low, part)))
    }

    fn word(self, number: usize, index: usize) -> [u8; WORD] {
        mix64(mix64(self.0 ^ number as u64) ^ index as u64).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_known_and_nothing_else_is() {
        let content = Content::new(7);
        let message = content.message(3, 100);
        assert_eq!(message.len(), 100);
        for low in 0..100 {
            for high in low..=100 {
                assert!(content.is_at(3, low, &message[low..high]), "{low}..{high}");
                assert_eq!(content.piece(3, low, high - low), message[low..high], "{low}..{high}");
                if high - low >= WORD {
                    assert!(!content.is_at(3, low + 1, &message[low..high]), "{low}..{high}");
                    assert!(!content.is_at(4, low, &message[low..high]), "{low}..{high}");
                    assert!(!Content::new(8).is_at(3, low, &message[low..high]), "{low}..{high}");
                }
            }
        }
        let mut torn = message.clone();
        torn[10..20].fill(0);
        torn[99] ^= 1;
        assert!(content.is_but_for(3, &torn, &[10..20, 99..100]));
        assert!(content.is_but_for(3, &message, &[]) && content.is_but_for(3, &[], &[]));
        for (first, second) in [(10..20, 100..100), (11..20, 99..100), (10..19, 99..100), (10..200, 200..200)] {
            let holes = [first, second];
            assert!(!content.is_but_for(3, &torn, &holes), "{holes:?}");
        }
    }
}
