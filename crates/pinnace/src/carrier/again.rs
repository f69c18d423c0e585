//! Messages that whoever received them had no room for: they are received again, by any thread.

use super::Received;
use crate::lock::lock;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Again {
    messages: Mutex<VecDeque<Received>>,
    /// Looked at first: mostly there are none.
    is_any: AtomicBool,
}

impl Again {
    pub(super) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// The bytes of the next one.
    pub(super) fn first_bytes(&self) -> Option<u64> {
        let messages = lock(&self.messages);
        messages.front().map(|received| received.len() as u64)
    }

    pub(super) fn take(&self) -> Option<Received> {
        if !self.is_any() {
            return None;
        }
        let mut messages = lock(&self.messages);
        let received = messages.pop_front();
        self.is_any.store(!messages.is_empty(), Ordering::Release);
        received
    }

    pub(super) fn put_back(&self, received: Received) {
        let mut messages = lock(&self.messages);
        messages.push_front(received);
        self.is_any.store(true, Ordering::Release);
    }
}
