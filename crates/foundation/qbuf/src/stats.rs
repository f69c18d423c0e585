//! Who has how much of a pool, and what happened to this client in it.

use crate::layout::BLOCKS;
use crate::owner::{Kind, Word};
use crate::pool::Pool;
use crate::recovery;
use crate::sync::Ordering;
use crate::zone::{ALL, free_by_words};

/// A pool, counted; while others work in it, approximately. Names are the same everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Zones of the pool.
    pub zones: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Blocks of the pool.
    pub blocks: u64,
    /// Blocks that nobody has.
    pub free_blocks: u64,
    /// Blocks that applications have.
    pub user_blocks: u64,
    /// Blocks that transports have.
    pub engine_blocks: u64,
    /// Blocks under way through a channel.
    pub transit_blocks: u64,
    /// Blocks that wait for their zone's lock, to be freed.
    pub deferred_blocks: u64,
    /// Free blocks that the bitmaps do not show; the next sweep puts that right.
    pub hidden_blocks: u64,
    /// Zones that are locked.
    pub locked_zones: u64,
    /// Clients of the pool.
    pub clients: u64,
    /// Allocations of this client that found nothing.
    pub failed_allocs: u64,
    /// Locked zones that this client passed by.
    pub busy_zones: u64,
    /// Frees that this client left to others.
    pub deferred_frees: u64,
    /// Blocks that another client took a moment before this one.
    pub lost_races: u64,
    /// Words that were not what they should be: somebody wrote where it should not.
    pub corrupt_words: u64,
    /// Dead clients that this one swept away.
    pub swept_clients: u64,
    /// Blocks that they had.
    pub swept_blocks: u64,
    /// Locks of the dead that this client broke.
    pub broken_locks: u64,
    /// Bits of bitmaps that this client put right.
    pub repaired_bits: u64,
}

impl Pool {
    /// Counts the pool.
    pub fn stats(&self) -> Stats {
        let inner = &*self.0;
        let (tables, counters) = (inner.map.tables(), &inner.counters);
        let mut stats = Stats {
            zones: u64::from(self.options().zones),
            block_bytes: self.options().block_bytes as u64,
            blocks: u64::from(self.options().zones) * BLOCKS as u64,
            clients: u64::from(recovery::clients(tables)),
            failed_allocs: counters.failed_allocs.value(),
            busy_zones: counters.busy_zones.value(),
            deferred_frees: counters.deferred_frees.value(),
            lost_races: counters.lost_races.value(),
            corrupt_words: counters.corrupt_words.value(),
            swept_clients: counters.swept_clients.value(),
            swept_blocks: counters.swept_blocks.value(),
            broken_locks: counters.broken_locks.value(),
            repaired_bits: counters.repaired_bits.value(),
            ..Stats::default()
        };
        for zone in tables.zones {
            let free = free_by_words(zone);
            let bitmap = zone.bitmap.load(Ordering::Acquire);
            stats.free_blocks += u64::from(free.count_ones());
            stats.hidden_blocks += u64::from((free & !bitmap & ALL).count_ones());
            stats.locked_zones += u64::from(zone.lock.load(Ordering::Relaxed) != 0);
            for (first, word) in (0..).zip(&zone.words.0) {
                let word = Word(word.load(Ordering::Acquire));
                let count = match word.kind() {
                    Some(Kind::User | Kind::Raw) => &mut stats.user_blocks,
                    Some(Kind::Engine) => &mut stats.engine_blocks,
                    Some(Kind::Transit) => &mut stats.transit_blocks,
                    Some(Kind::Deferred | Kind::Claim | Kind::Freeing) => &mut stats.deferred_blocks,
                    Some(Kind::Free | Kind::Body) | None => continue,
                };
                *count += u64::from(word.blocks(first));
            }
        }
        stats
    }
}
