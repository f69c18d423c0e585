//! What has arrived and not yet been handled.
//!
//! Always true: no more than [`MOST_FRAMES`] frames wait, and no more than [`MOST_BYTES`] bytes unless it is one frame.
//! Whoever brings more waits, which holds back the peer.

use super::method::{Arrival, Undelivered};
use crate::lock::lock;
use crate::network::deadline;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const MOST_FRAMES: usize = 256;
const MOST_BYTES: usize = 64 << 20;

/// A frame that waits for its handler.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) arrival: Arrival,
    pub(super) method: Arc<str>,
    /// Bytes of the frame.
    pub(super) len: usize,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    deliveries: VecDeque<Delivery>,
    bytes: usize,
    closed: bool,
}

impl State {
    fn has_room(&self, bytes: usize) -> bool {
        self.deliveries.is_empty() || (self.deliveries.len() < MOST_FRAMES && self.bytes + bytes <= MOST_BYTES)
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn push(&self, delivery: Delivery, patience: Duration) -> Result<(), Undelivered> {
        let deadline = deadline(patience);
        let mut state = self.lock();
        while !state.closed && !state.has_room(delivery.len) {
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(Undelivered::Full);
            }
            state = self.emptied.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.closed {
            return Err(Undelivered::Closed);
        }
        state.bytes += delivery.len;
        state.deliveries.push_back(delivery);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// The next frame; waits for it. `None` when the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<Delivery> {
        let mut state = self.lock();
        loop {
            if let Some(delivery) = state.deliveries.pop_front() {
                state.bytes -= delivery.len;
                drop(state);
                self.emptied.notify_all();
                return Some(delivery);
            }
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Nothing is taken any more. What was taken stays to be handled.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }
}
