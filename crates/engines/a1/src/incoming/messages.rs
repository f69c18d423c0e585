//! The messages that are under way or not consumed, and the storage behind them.
//!
//! A block says number, index and count of its message, and so where the message begins and ends in the direction. Always
//! true: no two messages overlap, their blocks are in the order of their numbers, and messages with successive numbers
//! touch. In raw mode a message may end early: its sender dropped what was too old, and those blocks never had numbers.
//!
//! There is memory for messages of which a block has come, however far ahead their numbers are: a peer that makes us keep one
//! has sent its block. Reliable: those from the first that is not consumed on, as far as none between them is unknown, are in
//! a row, so that a number tells the place; those behind an unknown one are set aside until it comes. Raw: they come in order.

use pinnace_core::{BufferId, BufferRange, unwrap32};
use std::collections::{BTreeMap, VecDeque};

/// Message 0, when numbers are put on a line: low enough to wrap backwards.
const ORIGIN: u64 = 1 << 32;

/// Bytes that every message counts for at least: what is known of it, and what its storage takes beside its bytes.
pub(crate) const LEAST_COST: u64 = 256;

/// What a block says of its message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Number of the message, on a line.
    pub(super) message: u64,
    /// Number of the block.
    pub(super) number: i64,
    /// Number of the block with index 0. It may lie before the direction begins, if that was joined.
    pub(super) base: i64,
    /// Blocks of the message.
    pub(super) count: u32,
    /// Bytes of the message: its last block tells.
    pub(super) size: Option<u64>,
}

impl Claim {
    fn end(&self) -> i64 {
        self.base + i64::from(self.count)
    }
}

/// How a claim agrees with what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The message is known.
    Known,
    /// It is new.
    New,
    /// It cannot be true.
    Contradiction,
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    number: u64,
    /// Number of the block with index 0.
    pub(super) base: i64,
    /// Blocks, as it says.
    pub(super) count: u32,
    /// Blocks that have a number: less if the sender dropped the rest.
    blocks: u32,
    /// Bytes of the message, once its last block has come.
    size: u64,
    capacity: u64,
    /// Where it lies. An empty message has no bytes, and one that was taken is somebody else's.
    pub(super) buffer: Option<BufferId>,
    /// Blocks that never had numbers were dropped before its first (raw).
    pub(super) is_after_loss: bool,
    /// Something of it has been consumed.
    pub(super) is_begun: bool,
}

impl Message {
    /// Whether it can be what a block speaks of. Its storage does not grow with the largest message, which may have been
    /// smaller when its first block came.
    fn agrees(&self, claim: &Claim) -> bool {
        (self.base, self.count) == (claim.base, claim.count) && claim.size.is_none_or(|size| size <= self.capacity)
    }

    /// One past its last block, or past the last that has a number.
    pub(super) fn end(&self) -> i64 {
        self.base + i64::from(self.blocks)
    }

    /// One past its last block.
    pub(super) fn full_end(&self) -> i64 {
        self.base + i64::from(self.count)
    }

    /// Where the bytes before block `number` end; those of the last block must have come, if `number` lies behind it.
    pub(super) fn offset(&self, number: i64, block_bytes: u32) -> u64 {
        if number >= self.full_end() {
            return self.size;
        }
        u64::try_from(number - self.base).unwrap_or(0) * u64::from(block_bytes)
    }

    /// Where block `number` lies, as much of it as has room.
    pub(super) fn place(&self, number: i64, block_bytes: u32) -> Option<BufferRange> {
        let offset = u64::try_from(number - self.base).ok()? * u64::from(block_bytes);
        let len = self.capacity.saturating_sub(offset).min(u64::from(block_bytes)) as u32;
        Some(BufferRange::new(self.buffer?, offset, len)).filter(|range| range.len > 0)
    }

    /// Where all of it lies, once its last block has come.
    pub(super) fn all(&self) -> Option<BufferRange> {
        Some(BufferRange::new(self.buffer?, 0, u32::try_from(self.size).ok()?))
    }

    /// What it counts for beside its storage.
    fn beside(&self) -> u64 {
        LEAST_COST.saturating_sub(self.capacity)
    }

    /// Bytes of storage that it has.
    pub(super) fn held(&self) -> u64 {
        if self.buffer.is_some() { self.capacity } else { 0 }
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Messages {
    is_reliable: bool,
    /// Reliable: those with the numbers from `first` on, without a gap. Raw: all.
    row: VecDeque<Message>,
    /// Those behind an unknown one, by their numbers, all of which are above that of the first unknown one. Raw: empty.
    aside: BTreeMap<u64, Message>,
    /// Number of the first message in the row, or of that which comes next; a lower bound if that is not known.
    first: u64,
    /// Where the message `first` begins, if that is known; raw: it begins there or later.
    anchor: Option<i64>,
    /// Bytes of storage.
    allocated: u64,
    /// What small messages count for beside their storage.
    beside: u64,
}

impl Messages {
    pub(super) fn new(is_reliable: bool, joins: bool) -> Self {
        Self {
            is_reliable,
            row: VecDeque::new(),
            aside: BTreeMap::new(),
            first: ORIGIN,
            anchor: (!joins).then_some(0),
            allocated: 0,
            beside: 0,
        }
    }

    /// As if all messages before `number` had been consumed.
    #[cfg(test)]
    pub(super) fn starting_at(number: u64) -> Self {
        Self { first: number, ..Self::new(true, false) }
    }

    /// Messages that there is memory for.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.row.capacity() + self.aside.len()
    }

    /// Whether none had to be set aside.
    #[cfg(test)]
    pub(super) fn is_in_order(&self) -> bool {
        self.aside.is_empty()
    }

    /// Puts a message number of the wire on a line.
    pub(super) fn number(&self, wire: u32) -> u64 {
        let behind = self.aside.last_key_value().map_or_else(|| self.row_end(), |(last, _)| last + 1);
        unwrap32(behind, wire)
    }

    /// Number of the first message that is not in the row.
    #[inline]
    fn row_end(&self) -> u64 {
        self.first + self.row.len() as u64
    }

    pub(super) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// What small messages count for beside that.
    pub(super) fn beside(&self) -> u64 {
        self.beside
    }

    /// The message that is consumed next, if it is known.
    #[inline]
    pub(super) fn front(&self) -> Option<&Message> {
        self.row.front()
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut Message> {
        self.row.front_mut()
    }

    /// Messages from the first on, as long as nothing between them is unknown.
    pub(super) fn known(&self) -> impl Iterator<Item = &Message> {
        self.row.iter()
    }

    /// Messages from `number` on, as long as nothing between them is unknown.
    pub(super) fn known_from(&self, number: u64) -> impl Iterator<Item = &Message> {
        let skip = if self.is_reliable {
            usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX)
        } else {
            self.row.len().saturating_sub(1)
        };
        // One of both is empty: an unknown message is between them.
        let aside = self.aside.range(number..).zip(number..).take_while(|((number, _), next)| *number == next);
        self.row.range(skip.min(self.row.len())..).chain(aside.map(|((_, message), _)| message))
    }

    /// How the claim of a block that has not come before agrees with what is known.
    #[inline]
    pub(super) fn judge(&self, claim: &Claim) -> Standing {
        if !self.is_reliable {
            return self.judge_raw(claim);
        }
        if let Some(known) = self.get(claim.message) {
            return if known.agrees(claim) { Standing::Known } else { Standing::Contradiction };
        }
        if self.fits_behind(claim) && self.fits_before(claim) { Standing::New } else { Standing::Contradiction }
    }

    #[inline]
    fn get(&self, number: u64) -> Option<&Message> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.row.get(index).or_else(|| self.aside.get(&number))
    }

    /// Whether the nearest known message below that of the claim leaves as many blocks between them as it must.
    fn fits_behind(&self, claim: &Claim) -> bool {
        let anchor = || self.anchor.map(|base| (self.first - 1, base));
        match self.nearest_below(claim.message).or_else(anchor) {
            Some((number, end)) => {
                let between = claim.message.checked_sub(number + 1).and_then(|between| i64::try_from(between).ok());
                between.is_some_and(|between| fits(between, claim.base - end))
            }
            // Nothing is known of the first message of a group. (`fits_before` implies the latter.)
            None => self.aside.is_empty() || claim.message >= self.first,
        }
    }

    /// The same of the nearest known message above it, which is none of the row.
    fn fits_before(&self, claim: &Claim) -> bool {
        let Some((_, successor)) = self.aside.range(claim.message..).next() else { return true };
        let between = i64::try_from(successor.number - claim.message - 1).unwrap_or(i64::MAX);
        fits(between, successor.base - claim.end())
    }

    /// Number and end of the nearest known message below `number`.
    fn nearest_below(&self, number: u64) -> Option<(u64, i64)> {
        let aside = self.aside.range(..number).next_back().map(|(_, message)| message);
        let nearest = aside.or_else(|| self.row.back().filter(|last| last.number < number))?;
        Some((nearest.number, nearest.end()))
    }

    /// Raw: a block belongs to the last message, or to a later one.
    fn judge_raw(&self, claim: &Claim) -> Standing {
        match self.row.back() {
            Some(last) if last.number == claim.message && last.agrees(claim) => Standing::Known,
            Some(last) if last.number == claim.message => Standing::Contradiction,
            Some(last) if claim.message < last.number => Standing::Contradiction,
            _ if self.row.is_empty() && self.anchor.is_some() && claim.message < self.first => Standing::Contradiction,
            // `anchor` is one past the highest block that has come.
            _ if self.anchor.is_some_and(|least| claim.base < least) => Standing::Contradiction,
            _ => Standing::New,
        }
    }

    /// Makes a new message known.
    pub(super) fn insert(&mut self, claim: &Claim, buffer: Option<BufferId>, capacity: u64) {
        let mut message = Message {
            number: claim.message,
            base: claim.base,
            count: claim.count,
            blocks: claim.count,
            size: 0,
            capacity,
            buffer,
            is_after_loss: false,
            is_begun: false,
        };
        self.allocated += capacity;
        self.beside += message.beside();
        if !self.is_reliable {
            let mut is_next = self.anchor.is_none() || claim.message == self.first;
            if let Some(last) = self.row.back_mut() {
                is_next = claim.message == last.number + 1 && claim.base >= last.end();
                last.blocks = last.blocks.min(u32::try_from(claim.base - last.base).unwrap_or(u32::MAX));
            }
            message.is_after_loss = !is_next;
            self.row.push_back(message);
            return;
        }
        if self.anchor.is_none() {
            // The row is empty until the first one is known.
            if self.aside.is_empty() {
                // Every message before it has at least one block.
                self.first = claim.message - claim.base.max(0) as u64;
            }
            if claim.base <= 0 {
                (self.first, self.anchor) = (claim.message, Some(claim.base));
            }
        }
        if claim.message != self.row_end() {
            self.aside.insert(claim.message, message);
            return;
        }
        self.row.push_back(message);
        while let Some(next) = self.aside.remove(&self.row_end()) {
            self.row.push_back(next);
        }
    }

    /// A block of a known message came; returns its place.
    pub(super) fn on_block(&mut self, claim: &Claim, len: u32, block_bytes: u32) -> Option<BufferRange> {
        let message = if self.is_reliable {
            let index = usize::try_from(claim.message.checked_sub(self.first)?).ok()?;
            match self.row.get_mut(index) {
                Some(message) => message,
                None => self.aside.get_mut(&claim.message)?,
            }
        } else {
            self.anchor = Some(claim.number + 1);
            self.row.back_mut()?
        };
        if let Some(size) = claim.size {
            message.size = size;
        }
        let offset = u64::try_from(claim.number - claim.base).unwrap_or(0) * u64::from(block_bytes);
        message.buffer.map(|buffer| BufferRange::new(buffer, offset, len))
    }

    /// Forgets the first message.
    pub(super) fn pop_front(&mut self) -> Option<Message> {
        let message = self.row.pop_front()?;
        self.first = message.number + 1;
        if self.is_reliable {
            self.anchor = Some(message.end());
        }
        self.allocated -= message.held();
        self.beside -= message.beside();
        Some(message)
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self, released: &mut VecDeque<BufferId>) {
        let all = core::mem::take(&mut self.row).into_iter().chain(core::mem::take(&mut self.aside).into_values());
        released.extend(all.filter_map(|message| message.buffer));
        (self.allocated, self.beside) = (0, 0);
    }

    /// Takes the buffer of the first message: it is somebody else's.
    pub(super) fn take_buffer(&mut self) -> Option<BufferId> {
        let buffer = self.row.front_mut()?.buffer.take()?;
        self.allocated -= self.row.front()?.capacity;
        Some(buffer)
    }
}

/// Whether so many messages can share so many blocks: each has at least one.
fn fits(messages: i64, blocks: i64) -> bool {
    messages <= blocks && (messages > 0 || blocks == 0)
}
