//! How much of the pool each of its clients has.

use pinnace_qbuf::{BLOCKS, ClientId, Holding, Pool, Stats};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How old a count may be for those who only want to know.
const FRESH: Duration = Duration::from_millis(20);

/// Blocks of one client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// It has them.
    pub(super) held: u64,
    /// They are on their way to it.
    pub(super) incoming: u64,
}

/// A count of the pool.
#[derive(Debug)]
pub(super) struct Census {
    at: Option<Instant>,
    shares: BTreeMap<ClientId, Share>,
    pub(super) stats: Stats,
}

impl Census {
    pub(super) fn new() -> Self {
        Self { at: None, shares: BTreeMap::new(), stats: Stats::default() }
    }

    /// Counts.
    pub(super) fn take(&mut self, pool: &Pool) {
        self.shares.clear();
        let blocks = pool.options().zones * BLOCKS as u32;
        let mut block = 0;
        while block < blocks {
            let Some(owner) = pool.owner(block) else {
                block += 1;
                continue;
            };
            let share = self.shares.entry(owner.client).or_default();
            match owner.holding {
                Holding::InTransit => share.incoming += u64::from(owner.blocks),
                // What is being freed waits for others.
                Holding::Changing => {}
                Holding::User | Holding::Raw | Holding::Engine => share.held += u64::from(owner.blocks),
            }
            block += owner.blocks.max(1);
        }
        self.stats = pool.stats();
        self.at = Some(Instant::now());
    }

    /// Counts, if the last count is old.
    pub(super) fn refresh(&mut self, pool: &Pool) {
        if self.at.is_none_or(|at| at.elapsed() > FRESH) {
            self.take(pool);
        }
    }

    pub(super) fn of(&self, client: ClientId) -> Share {
        self.shares.get(&client).copied().unwrap_or_default()
    }
}
