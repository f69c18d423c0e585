//! A control structure of its own for tests and models: without shared memory, and with processes that are dead when the
//! test says so.

use crate::counters::Counters;
use crate::layout::{BLOCKS, ClientSlot, Header, Line, Tables, Variant, Zone};
use crate::owner::{ClientId, Kind, Word};
use crate::recovery::{self, Identity, Judge, Swept, Waiting};
use crate::sync::{Ordering, Shared32, Shared64};
use crate::zone::{ALL, free_by_words};
use crate::{locked, lockfree};
use std::time::Instant;

/// The pool, its allocator, and what is counted.
#[derive(Debug)]
pub(crate) struct World {
    header: Header,
    clients: Vec<ClientSlot>,
    zones: Vec<Zone>,
    pub(crate) variant: Variant,
    pub(crate) counters: Counters,
}

/// Only these pids are dead.
#[derive(Debug)]
pub(crate) struct Dead(pub(crate) Vec<u32>);

impl Judge for Dead {
    fn is_dead(&self, identity: Identity, _: u64) -> bool {
        self.0.contains(&identity.pid())
    }
}

impl World {
    pub(crate) fn new(variant: Variant, zones: usize, clients: usize) -> Self {
        let header = Header {
            magic: Shared64::new(0),
            version: Shared32::new(0),
            variant: Shared32::new(0),
            zones: Shared32::new(0),
            block_shift: Shared32::new(0),
            flags: Shared32::new(0),
            sweeper: Shared32::new(0),
            deferred: Line(Shared64::new(0)),
        };
        let client =
            || ClientSlot { identity: Shared64::new(0), namespace: Shared64::new(0), generation: Shared32::new(0) };
        let zone = || Zone {
            lock: Shared32::new(0),
            bitmap: Shared32::new(ALL),
            deferred: Shared32::new(0),
            words: Line(std::array::from_fn(|_| Shared64::new(0))),
        };
        Self {
            header,
            clients: (0..clients).map(|_| client()).collect(),
            zones: (0..zones).map(|_| zone()).collect(),
            variant,
            counters: Counters::default(),
        }
    }

    pub(crate) fn tables(&self) -> Tables<'_> {
        Tables { header: &self.header, clients: &self.clients, zones: &self.zones }
    }

    /// A process with that number takes a slot.
    pub(crate) fn enter(&self, pid: u32) -> ClientId {
        recovery::enter(self.tables(), Identity::new(pid, 7), 1).expect("there is room")
    }

    pub(crate) fn alloc(&self, me: ClientId, blocks: u32) -> Option<Run> {
        let (tables, counters, owned) = (self.tables(), &self.counters, Word::owned(Kind::User, blocks, me));
        let (zone, first) = match self.variant {
            Variant::Locked => locked::alloc(tables, owned, 0, counters),
            Variant::LockFree => lockfree::alloc(tables, owned, 0, counters),
        }?;
        Some(Run { zone, first, blocks, word: Word(self.word(zone, first).load(Ordering::Acquire)) })
    }

    /// Whether the run was there to be freed.
    pub(crate) fn free(&self, me: ClientId, run: &Run) -> bool {
        match self.variant {
            Variant::Locked => locked::free(self.tables(), me, run.zone, run.first, run.word, &self.counters),
            Variant::LockFree => lockfree::free(self.tables(), me, run.zone, run.first, run.word),
        }
    }

    pub(crate) fn sweep(&self, me: ClientId, dead: &[u32]) -> Swept {
        self.sweep_at(me, dead, (&Waiting::default(), Instant::now()))
    }

    pub(crate) fn sweep_at(&self, me: ClientId, dead: &[u32], waiting: (&Waiting, Instant)) -> Swept {
        recovery::sweep(self.tables(), me, self.variant, &Dead(dead.to_vec()), &self.counters, waiting)
    }

    pub(crate) fn word(&self, zone: usize, block: u32) -> &Shared64 {
        &self.zones[zone].words.0[block as usize]
    }

    pub(crate) fn zone(&self, zone: usize) -> &Zone {
        &self.zones[zone]
    }

    /// Panics unless bitmaps, words and locks agree, and exactly `taken` blocks are taken.
    pub(crate) fn audit(&self, taken: u32) {
        let mut free_blocks = 0;
        for (index, zone) in self.zones.iter().enumerate() {
            let (free, bitmap) = (free_by_words(zone), zone.bitmap.load(Ordering::Acquire));
            assert_eq!(free & !bitmap, 0, "zone {index} hides free blocks: {zone:?}");
            if self.variant == Variant::Locked {
                assert_eq!(bitmap & !free, 0, "zone {index} offers blocks that are taken: {zone:?}");
            }
            assert_eq!(zone.lock.load(Ordering::Acquire), 0, "zone {index} is locked");
            free_blocks += free.count_ones();
        }
        assert_eq!(self.header.sweeper.load(Ordering::Acquire), 0, "a sweep never ended");
        assert_eq!(free_blocks + taken, (self.zones.len() * BLOCKS) as u32, "blocks leaked: {:?}", self.zones);
    }
}

/// What was allocated.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) zone: usize,
    pub(crate) first: u32,
    pub(crate) blocks: u32,
    pub(crate) word: Word,
}
