//! What a stream has copied between the application's memory and the transport's, for those who want to know.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that were copied between the application's memory and the transport's. Where the transport has moved them in its own
/// is for its counters to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// On their way out: those that were written. Qbufs are passed as they are.
    pub written: u64,
    /// On their way in: those that were read, and those of qbufs that they did not arrive in.
    pub read: u64,
}

/// The same, as it is counted.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    written: AtomicU64,
    read: AtomicU64,
}

impl Copies {
    pub(crate) fn count_written(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn count_read(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn so_far(&self) -> Copied {
        Copied { written: self.written.load(Relaxed), read: self.read.load(Relaxed) }
    }
}
