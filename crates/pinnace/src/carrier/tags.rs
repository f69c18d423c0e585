//! What each message of an XTP stream that repeats nothing says of itself, in the eight bytes of its tag (BTAG).
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | number of the message in its direction, from 0, modulo 2^32 |
//! | 4 | 4 | its bytes; 0: the one byte that is sent stands for none |
//!
//! The tag goes with a message's first packet, and the mark of its end (EOM) with its last: each of them may be lost. So where
//! an end is missing, the bytes up to the next tag are the message, a hole, and whatever was lost whole behind it; the
//! length tells them apart. What has no tag has lost its first packet, and with it the place where it begins.
//!
//! Always true: a message that is delivered begins and ends where it was sent to; one whose first packet is lost is not
//! delivered, and is counted with the next that is.

use super::Received;
use super::received::Position;
use crate::xtp;
use std::ops::Range;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    number: u32,
    len: u32,
}

impl Tag {
    /// Of a message that [`Message`](crate::Message) can hold.
    pub(super) fn new(number: u32, len: usize) -> Self {
        Self { number, len: u32::try_from(len).unwrap_or(u32::MAX) }
    }

    pub(super) fn encode(self) -> [u8; 8] {
        (u64::from(self.number) | u64::from(self.len) << 32).to_le_bytes()
    }

    pub(super) fn parse(bytes: [u8; 8]) -> Self {
        let both = u64::from_le_bytes(bytes);
        Self { number: both as u32, len: (both >> 32) as u32 }
    }

    /// Bytes of the message, of those that have come up to where the next begins; `None`: the stream has ended before.
    pub(super) fn within(self, came: usize) -> Option<usize> {
        let len = self.len as usize;
        (len <= came).then_some(len)
    }

    /// How many messages are missing before this one, where `next` was expected.
    pub(super) fn missed(self, next: &mut u32) -> u64 {
        let ahead = self.number.wrapping_sub(*next);
        if ahead >= 1 << 31 {
            // It was said before. A peer that counts backwards is believed nothing.
            return 0;
        }
        *next = self.number.wrapping_add(1);
        ahead.into()
    }
}

/// What lies below `len` of holes.
pub(super) fn clipped(mut holes: Vec<Range<usize>>, len: usize) -> Vec<Range<usize>> {
    holes.retain(|hole| hole.start < len);
    if let Some(last) = holes.last_mut() {
        last.end = last.end.min(len);
    }
    holes
}

/// The message that has come, where `next` was expected. `None`: what came is no message, or not all of one.
pub(crate) fn sort(received: xtp::Received, next: &mut u32) -> Option<Received> {
    let tag = Tag::parse(received.btag?);
    let len = tag.within(received.data.len())?;
    let mut data = received.data;
    data.truncate(len);
    let position = Position { missed: tag.missed(next), is_late: false };
    Some(Received::bytes(data, clipped(received.holes, len)).at(position))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came(tag: Option<Tag>, len: usize, hole: Range<usize>) -> xtp::Received {
        let holes = if hole.is_empty() { Vec::new() } else { vec![1..2, hole] };
        xtp::Received { data: vec![7; len], btag: tag.map(Tag::encode), holes, eom: true }
    }

    #[test]
    fn tags_read_back() {
        for tag in [Tag::new(0, 0), Tag::new(u32::MAX, 1), Tag::new(7, u32::MAX as usize)] {
            assert_eq!(Tag::parse(tag.encode()), tag);
        }
        assert_eq!(Tag::new(1, 2).encode(), [1, 0, 0, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn a_message_ends_where_it_was_sent_to_and_what_is_missing_is_counted() {
        let mut next = 0;
        let first = sort(came(Some(Tag::new(0, 10)), 10, 0..0), &mut next).unwrap();
        assert_eq!((first.len(), first.missed(), first.is_whole(), next), (10, 0, true, 1));
        // Its last packet was lost, and so were messages 2 and 3.
        let cut = sort(came(Some(Tag::new(1, 30)), 70, 20..70), &mut next).unwrap();
        assert_eq!((cut.len(), cut.missed(), cut.holes()), (30, 0, &[1..2, 20..30][..]));
        // Its first packet was lost.
        assert!(sort(came(None, 40, 2..20), &mut next).is_none());
        let behind = sort(came(Some(Tag::new(5, 0)), 1, 0..0), &mut next).unwrap();
        assert_eq!((behind.len(), behind.missed(), next), (0, 3, 6));
        // A hole behind its end.
        let other = sort(came(Some(Tag::new(6, 10)), 30, 10..30), &mut next).unwrap();
        assert_eq!((other.len(), other.bytes_lost()), (10, 1));
        // The stream ended in the midst of it.
        assert!(sort(came(Some(Tag::new(7, 30)), 20, 0..0), &mut next).is_none());
        assert_eq!(next, 7);
    }

    #[test]
    fn numbers_begin_again_and_a_peer_that_counts_backwards_is_not_believed() {
        let mut next = u32::MAX;
        assert_eq!((Tag::new(1, 1).missed(&mut next), next), (2, 2));
        assert_eq!((Tag::new(1, 1).missed(&mut next), next), (0, 2));
        assert_eq!((Tag::new(2 + (1 << 31), 1).missed(&mut next), next), (0, 2));
    }
}
