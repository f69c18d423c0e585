//! How much of a pool one process may have for itself.
//!
//! Always true: a process that allocates and receives through this library never has more than its share, so whoever watches
//! over the pool and takes everything from one who has more takes it from nobody who keeps to the rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// The share of a process, for all its attachments to one pool. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    /// `None`: all of the pool, and nothing needs to be counted.
    most: Option<i64>,
    /// Signed: a word that somebody scribbled over may say that more goes than came.
    held: Arc<AtomicI64>,
}

impl Share {
    /// That many percent of a pool of so many blocks.
    pub(crate) fn new(percent: u8, blocks: u32) -> Self {
        let most = (percent < 100).then(|| i64::from(blocks) * i64::from(percent) / 100);
        Self { most, held: Arc::default() }
    }

    /// Counts blocks that come. False: they would be too many.
    #[inline]
    pub(crate) fn take(&self, blocks: u32) -> bool {
        let Some(most) = self.most else { return true };
        if self.held.fetch_add(blocks.into(), Relaxed) + i64::from(blocks) <= most {
            return true;
        }
        self.give_back(blocks);
        false
    }

    /// Counts blocks that go.
    #[inline]
    pub(crate) fn give_back(&self, blocks: u32) {
        if self.most.is_some() {
            self.held.fetch_sub(blocks.into(), Relaxed);
        }
    }
}
