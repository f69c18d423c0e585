//! What the application takes, in order: bytes of a message, or the message in its buffer.

use super::messages::Message;
use super::{Incoming, Part};
use pinnace_core::BufferRange;

impl Incoming {
    /// What the application can take now. Bits of its status hold for the first byte (START, LOST), or for the last (END).
    //= A-17
    //= A-21
    pub(crate) fn readable(&self) -> Option<Part> {
        self.part().map(|(part, _)| part)
    }

    /// Whether something has been lost behind what was consumed last, which the next part will say if there is one: all
    /// that is ever seen of messages that are lost at the end.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Where the messages lie that have come whole, and of which nothing has been consumed, in order; empty ones lie nowhere.
    pub(crate) fn unread(&self) -> impl Iterator<Item = BufferRange> + '_ {
        let has_come = |message: &&Message| message.full_end() <= self.expected as i64;
        let is_whole = |message: &&Message| {
            let (base, end) = (message.base, message.full_end());
            !message.is_begun
                && base >= self.next as i64
                && message.end() == end
                && !self.holes.overlaps(base as u64..end as u64)
        };
        self.messages.known().take_while(has_come).filter(is_whole).filter_map(Message::all)
    }

    /// The part, and one past its last block.
    fn part(&self) -> Option<(Part, u64)> {
        let message = self.messages.front()?;
        if self.next >= self.expected {
            return None;
        }
        let block_bytes = self.policy.block_bytes;
        let next = self.next as i64;
        let end = (message.end().max(0) as u64).min(self.expected);
        let high = self.holes.min().map_or(end, |hole| hole.min(end));
        let is_over = message.end() <= self.expected as i64;
        let is_last = high as i64 == message.full_end();
        let offset = message.offset(next, block_bytes) + u64::from(self.within);
        let len = (message.offset(high as i64, block_bytes).saturating_sub(offset)) as u32;
        let range = message.buffer.filter(|_| len > 0).map(|buffer| BufferRange::new(buffer, offset, len));
        let part = Part {
            range,
            starts: next == message.base && self.within == 0,
            ends: is_last,
            is_lost: self.is_lost || message.is_after_loss,
            is_whole: !message.is_begun && is_over && (high >= end || self.holes.covers(high..end)),
            is_final: is_over || high < end,
        };
        Some((part, high))
    }

    /// The application has taken the first `bytes` bytes of [`Incoming::readable`]; 0 takes an empty message.
    //= A-9
    pub(crate) fn consume(&mut self, bytes: u32) {
        let Some((part, high)) = self.part() else { return };
        debug_assert!(bytes <= part.len());
        let block_bytes = u64::from(self.policy.block_bytes);
        let Some(message) = self.messages.front_mut() else { return };
        match part.range {
            Some(range) if bytes < range.len => {
                if bytes == 0 {
                    return;
                }
                let offset = range.offset + u64::from(bytes);
                self.next = (message.base + (offset / block_bytes) as i64).max(0) as u64;
                self.within = (offset % block_bytes) as u32;
            }
            _ => (self.next, self.within) = (high, 0),
        }
        (message.is_begun, message.is_after_loss) = (true, false);
        self.is_lost = false;
        self.settle();
    }

    /// Consumes the message in front, if its part is whole ([`Part::is_whole`]): the buffer is the caller's now, to be
    /// given back to whoever made it. Raw messages with gaps are not whole; they are read part by part.
    pub(crate) fn take_message(&mut self) -> Option<Part> {
        let (part, high) = self.part().filter(|(part, _)| part.is_whole)?;
        self.messages.take_buffer();
        (self.next, self.within, self.is_lost) = (high, 0, false);
        if let Some(message) = self.messages.front_mut() {
            (message.is_begun, message.is_after_loss) = (true, false);
        }
        self.settle();
        Some(part)
    }

    /// Consumes all that can be read: nobody will.
    //= A-9
    pub(crate) fn discard(&mut self) {
        while let Some(part) = self.readable() {
            self.consume(part.len());
        }
    }

    /// Passes over what is lost, and forgets messages of which nothing is left.
    pub(super) fn settle(&mut self) {
        loop {
            if self.holes.min().is_some_and(|hole| hole <= self.next) {
                self.next = self.holes.first_missing_from(self.next);
                self.holes.pop_front_below(self.next);
                self.is_lost = true;
            }
            let is_over = self.messages.front().is_some_and(|message| message.end() <= self.next as i64);
            if !is_over {
                break;
            }
            if let Some(message) = self.messages.pop_front() {
                self.released.extend(message.buffer);
            }
        }
    }
}
