//! Messages that whoever received them had no room for: they are received again, by any thread.

use super::Received;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

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
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.front().map(|received| received.len() as u64)
    }

    pub(super) fn take(&self) -> Option<Received> {
        if !self.is_any() {
            return None;
        }
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let received = messages.pop_front();
        self.is_any.store(!messages.is_empty(), Ordering::Release);
        received
    }

    pub(super) fn put_back(&self, received: Received) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.push_front(received);
        self.is_any.store(true, Ordering::Release);
    }
}
