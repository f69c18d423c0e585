//! The messages of a direction in the order of their numbers, and how they are cut into blocks.
//!
//! Always true: the messages have consecutive numbers, given when they are queued; those before `next` need no new block;
//! the blocks of a message get consecutive numbers when they leave for the first time, or are dropped instead.
//= A-6
//= A-20

use core::fmt;
use pinnace_core::{BufferId, BufferRange, Time};
use std::collections::VecDeque;

/// Blocks of the longest message.
const MAX_BLOCKS: u64 = 65_535;

/// A message of the application, named not touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// What [`Done`] says when it is no longer needed.
    pub(crate) ticket: u64,
    pub(crate) buffer: BufferId,
    /// Of the first byte in the buffer.
    pub(crate) offset: u64,
    /// Bytes; 0 is a message too.
    pub(crate) len: u64,
    /// Raw mode: what has not left by then is dropped.
    pub(crate) deadline: Option<Time>,
}

/// A message that is no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) ticket: u64,
    pub(crate) buffer: BufferId,
    /// All of it was acknowledged; in raw mode: all of it has left.
    pub(crate) delivered: bool,
}

/// Why a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Longer than the largest message of the terms.
    TooLarge,
    /// It would have more than 65,535 blocks.
    TooManyBlocks,
    /// [`super::Outgoing::is_full`].
    Full,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the message is longer than the largest one agreed on",
            Self::TooManyBlocks => "the message has more than 65,535 blocks",
            Self::Full => "the window is full",
        })
    }
}

/// A block that may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Its place in the direction, from 0.
    pub(crate) number: u64,
    /// The wire number of its message.
    pub(crate) message: u32,
    pub(crate) index: u16,
    pub(crate) count: u16,
    /// 0 bytes: an empty message.
    pub(crate) place: BufferRange,
    pub(crate) is_repetition: bool,
    /// The first of its message.
    pub(crate) starts: bool,
    /// The last of its message.
    pub(crate) ends: bool,
}

#[derive(Debug)]
struct Entry {
    ticket: u64,
    offset: u64,
    len: u64,
    deadline: Option<Time>,
    /// Number of its first block, once that has left.
    first: u64,
    buffer: BufferId,
    number: u32,
    count: u16,
    /// Blocks that have left.
    sent: u16,
    is_dropped: bool,
}

impl Entry {
    fn block(&self, number: u64, index: u16, block_bytes: u32, is_repetition: bool) -> Block {
        let low = u64::from(index) * u64::from(block_bytes);
        let len = (self.len - low).min(u64::from(block_bytes)) as u32;
        Block {
            number,
            message: self.number,
            index,
            count: self.count,
            place: BufferRange::new(self.buffer, self.offset + low, len),
            is_repetition,
            starts: index == 0,
            ends: index + 1 == self.count,
        }
    }

    fn unsent(&self) -> u64 {
        if self.is_dropped { 0 } else { u64::from(self.count - self.sent) }
    }

    fn is_stale(&self, now: Time) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }
}

/// The queue of messages.
#[derive(Debug)]
pub(super) struct Messages {
    queue: VecDeque<Entry>,
    /// The first message with a block that has never left.
    next: usize,
    /// The wire number of the next message queued.
    number: u32,
    unsent: u64,
    block_bytes: u32,
}

impl Messages {
    pub(super) fn new(block_bytes: u32, number: u32) -> Self {
        Self { queue: VecDeque::new(), next: 0, number, unsent: 0, block_bytes: block_bytes.max(1) }
    }

    /// Messages that are not done.
    pub(super) fn len(&self) -> u64 {
        self.queue.len() as u64
    }

    /// The wire number of the next message.
    pub(super) fn next_number(&self) -> u32 {
        self.number
    }

    /// Blocks that have never left.
    pub(super) fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Queues `message`.
    //= A-10
    pub(super) fn push(&mut self, message: &Message) -> Result<(), Refused> {
        let blocks = message.len.div_ceil(u64::from(self.block_bytes)).max(1);
        if blocks > MAX_BLOCKS {
            return Err(Refused::TooManyBlocks);
        }
        self.queue.push_back(Entry {
            ticket: message.ticket,
            offset: message.offset,
            len: message.len,
            deadline: message.deadline,
            first: 0,
            buffer: message.buffer,
            number: self.number,
            count: blocks as u16,
            sent: 0,
            is_dropped: false,
        });
        self.number = self.number.wrapping_add(1);
        self.unsent += blocks;
        Ok(())
    }

    /// The next new block, which gets this `number`.
    pub(super) fn fresh(&self, number: u64) -> Option<Block> {
        let entry = self.queue.get(self.next)?;
        Some(entry.block(number, entry.sent, self.block_bytes, false))
    }

    /// The block `index` of `message`, which has left as `number`.
    pub(super) fn again(&self, number: u64, message: u32, index: u16) -> Option<Block> {
        let place = message.wrapping_sub(self.queue.front()?.number);
        let entry = self.queue.get(place as usize).filter(|entry| index < entry.sent)?;
        Some(entry.block(number, index, self.block_bytes, true))
    }

    /// The next new block leaves as `number`.
    pub(super) fn advance(&mut self, number: u64) {
        let Some(entry) = self.queue.get_mut(self.next) else { return };
        if entry.sent == 0 {
            entry.first = number;
        }
        entry.sent += 1;
        self.unsent -= 1;
        self.next += usize::from(entry.sent == entry.count);
    }

    /// When the message that is next becomes stale.
    pub(super) fn stale_at(&self) -> Option<Time> {
        self.queue.get(self.next).and_then(|entry| entry.deadline)
    }

    /// Drops what has not left of the messages that are next, as long as they are stale. Returns how many blocks.
    pub(super) fn drop_stale(&mut self, now: Time) -> u64 {
        let before = self.unsent;
        while let Some(entry) = self.queue.get_mut(self.next).filter(|entry| entry.is_stale(now)) {
            self.unsent -= entry.unsent();
            entry.is_dropped = true;
            self.next += 1;
        }
        before - self.unsent
    }

    /// The oldest message, if nothing of it is needed: its blocks are below `acked`, or, where `is_sent_enough`, have left
    /// or been dropped. With `is_over` whatever has become of it.
    pub(super) fn pop_done(&mut self, acked: u64, is_sent_enough: bool, is_over: bool) -> Option<Done> {
        let entry = self.queue.front()?;
        let has_left = entry.sent == entry.count;
        let delivered = has_left && (is_sent_enough || entry.first + u64::from(entry.count) <= acked);
        if !delivered && !entry.is_dropped && !is_over {
            return None;
        }
        let done = Done { ticket: entry.ticket, buffer: entry.buffer, delivered };
        self.unsent -= entry.unsent();
        self.queue.pop_front();
        self.next = self.next.saturating_sub(1);
        Some(done)
    }

    /// Gives memory back that is not in use.
    pub(super) fn shrink(&mut self) {
        self.queue.shrink_to_fit();
    }

    /// Bytes on the heap.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.queue.capacity() * size_of::<Entry>()
    }
}
