//! State that one thread or task has at a time, while the others wait no longer than they want.
//!
//! Always true: what is taken comes back when its guard is dropped, and the next who waits is woken then.

use crate::lock::lock;
use pinnace_runtime::{Waiting, Wakers};
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Instant;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Turn<T> {
    place: Mutex<Place<T>>,
    freed: Condvar,
}

#[derive(Debug)]
struct Place<T> {
    /// `None` while somebody has it.
    state: Option<Box<T>>,
    threads: usize,
    tasks: Wakers,
}

/// Whoever has it.
pub(crate) struct Held<'a, T> {
    turn: &'a Turn<T>,
    state: Option<Box<T>>,
}

impl<T> Turn<T> {
    pub(crate) fn new(state: T) -> Self {
        let place = Place { state: Some(Box::new(state)), threads: 0, tasks: Wakers::default() };
        Self { place: Mutex::new(place), freed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Place<T>> {
        lock(&self.place)
    }

    /// Holds what was [detached](Held::detach).
    pub(crate) fn hold(&self, state: Box<T>) -> Held<'_, T> {
        Held { turn: self, state: Some(state) }
    }

    /// Waits for the state. `None`: the deadline has passed.
    pub(crate) fn take(&self, deadline: Option<Instant>) -> Option<Held<'_, T>> {
        let mut place = self.lock();
        loop {
            if let Some(state) = place.state.take() {
                return Some(self.hold(state));
            }
            place.threads += 1;
            place = match deadline {
                None => self.freed.wait(place).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    self.freed.wait_timeout(place, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            place.threads -= 1;
            if place.state.is_none() && deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return None;
            }
        }
    }

    /// The same, for tasks.
    pub(crate) async fn take_async(&self) -> Held<'_, T> {
        let mut waiting = Waiting::default();
        poll_fn(|context| {
            let mut place = self.lock();
            if let Some(state) = place.state.take() {
                return Poll::Ready(self.hold(state));
            }
            let old = place.tasks.add(&mut waiting, context.waker());
            drop(place);
            drop(old);
            Poll::Pending
        })
        .await
    }
}

impl<T> Held<'_, T> {
    /// The state, for somebody who will [hold](Turn::hold) it; nobody else has a turn before.
    pub(crate) fn detach(mut self) -> Option<Box<T>> {
        self.state.take()
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.state.as_ref().expect("it is there until it is dropped")
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.state.as_mut().expect("it is there until it is dropped")
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        let Some(state) = self.state.take() else { return };
        let mut place = self.turn.lock();
        place.state = Some(state);
        if place.threads > 0 {
            self.turn.freed.notify_one();
        }
        // All: one of them may have gone away, and the others would wait for ever.
        let tasks = std::mem::take(&mut place.tasks);
        drop(place);
        tasks.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_task_that_has_stopped_waiting_is_not_kept() {
        let turn = Turn::new(1);
        let held = turn.take(None).unwrap();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        {
            let mut waits = std::pin::pin!(turn.take_async());
            assert!(waits.as_mut().poll(&mut context).is_pending());
            assert!(!turn.lock().tasks.is_empty());
        }
        assert!(turn.lock().tasks.is_empty());
        drop(held);
    }

    #[test]
    fn one_has_it_and_the_others_wait_as_long_as_they_want() {
        let turn = Arc::new(Turn::new(1));
        let mut held = turn.take(None).unwrap();
        *held += 1;
        assert!(turn.take(Some(Instant::now() + Duration::from_millis(5))).is_none());
        let waiting = {
            let turn = Arc::clone(&turn);
            std::thread::spawn(move || *turn.take(None).unwrap())
        };
        let task = {
            let turn = Arc::clone(&turn);
            std::thread::spawn(move || pollster::block_on(async { *turn.take_async().await }))
        };
        std::thread::sleep(Duration::from_millis(20));
        drop(held);
        assert_eq!((waiting.join().unwrap(), task.join().unwrap()), (2, 2));
    }
}
