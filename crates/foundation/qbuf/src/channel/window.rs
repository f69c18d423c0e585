//! How much of the pool may be on its way in one direction of a channel, so that a reader who does not read keeps its writer
//! waiting and not everybody who needs blocks.
//!
//! A direction may have a part of what is free at present. That is the dynamic threshold of shared-memory switches (Choudhury
//! and Hahne, 1998): one stream alone gets much, many that stand still get less each, and something is always left.
//!
//! A pool whose processes may have all of it each is nobody else's: there the slots of the ring are the only limit.
//!
//! Always true: with nothing on its way a message may go, whatever its size, so nobody waits for what will not happen.

use std::time::{Duration, Instant};

use crate::Pool;

/// One part in so many of the free blocks.
const PART: u64 = 4;
/// This much may be on its way however little is free.
const LEAST: u64 = 16;
/// How old a count of what is free may be for who waits.
const STALE: Duration = Duration::from_millis(1);

/// The blocks that one side has sent and the other has not taken.
#[derive(Debug)]
pub(super) struct Window {
    /// Others need blocks of the pool as well.
    is_shared_out: bool,
    /// Blocks of the message in each slot: at most those of a zone.
    blocks: Box<[u8]>,
    /// Slots that are counted: from here to the producer's tail, at most as many as the ring has.
    from: u64,
    on_their_way: u64,
    /// What may be on its way, as was last found.
    most: u64,
    /// `from` and `on_their_way` then.
    looked: (u64, u64),
    /// When that was.
    counted: Instant,
    turn: u64,
}

impl Window {
    pub(super) fn new(slots: u32, pool: &Pool) -> Self {
        let is_shared_out = pool.options().share_percent < 100;
        Self {
            is_shared_out,
            blocks: vec![0; slots as usize].into(),
            from: 0,
            on_their_way: 0,
            most: LEAST,
            looked: (0, 0),
            counted: Instant::now(),
            turn: 0,
        }
    }

    fn index(&self, position: u64) -> usize {
        // Slots are a power of two.
        position as usize & (self.blocks.len() - 1)
    }

    /// Notes the blocks of the message that is written next, at `position`.
    #[inline]
    pub(super) fn note(&mut self, position: u64, blocks: u32) {
        if !self.is_shared_out {
            return;
        }
        // The ring has room, so what was in this slot has arrived, also if nobody has looked since.
        self.retire((position + 1).saturating_sub(self.blocks.len() as u64));
        let index = self.index(position);
        self.blocks[index] = blocks as u8;
        self.on_their_way += u64::from(blocks);
    }

    /// What was before `head` has arrived.
    #[inline]
    fn retire(&mut self, head: u64) {
        // Messages in their descriptors are not counted: there may have been more of them than slots.
        let slots = head.saturating_sub(self.from).min(self.blocks.len() as u64);
        for position in self.from..self.from + slots {
            let index = self.index(position);
            self.on_their_way -= u64::from(std::mem::take(&mut self.blocks[index]));
        }
        self.from = self.from.max(head);
    }

    /// Whether another message may go, as far as is known.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.on_their_way < self.most || self.on_their_way == 0 || !self.is_shared_out
    }

    /// The same after what was before `head` has arrived, and a look at what is free.
    pub(super) fn look(&mut self, head: u64, pool: &Pool) -> bool {
        if !self.is_shared_out {
            return true;
        }
        self.retire(head);
        // Counting touches what others write: once for each thing that has changed here, and now and then for what has changed
        // elsewhere, also for who spins.
        let now = (self.from, self.on_their_way);
        if std::mem::replace(&mut self.looked, now) != now || self.counted.elapsed() >= STALE {
            self.counted = Instant::now();
            self.turn = self.turn.wrapping_add(1);
            self.most = (pool.estimate_free(self.turn) / PART).max(LEAST);
        }
        self.is_open()
    }
}
