//! What happened in one attachment to a pool. Counted where it is rare: the common path has no counter.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that several threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) failed_allocs: Counter,
    pub(crate) busy_zones: Counter,
    pub(crate) deferred_frees: Counter,
    pub(crate) lost_races: Counter,
    pub(crate) corrupt_words: Counter,
    pub(crate) swept_clients: Counter,
    pub(crate) swept_blocks: Counter,
    pub(crate) broken_locks: Counter,
    pub(crate) repaired_bits: Counter,
}
