//! A message with which a thread of the library goes on.
//!
//! Always true: the message is here until it has ended, and is taken once.

use crate::lock::lock;
use crate::{Error, Message, Unsent};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Later {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    /// `None` while the thread has it, and once it was taken.
    message: Option<Message>,
    result: Option<Result<(), Error>>,
    waker: Option<Waker>,
}

impl Later {
    pub(super) fn new(message: Message) -> Self {
        let state = State { message: Some(message), result: None, waker: None };
        Self { state: Mutex::new(state), ended: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The message, for the thread.
    pub(super) fn take(&self) -> Option<Message> {
        self.lock().message.take()
    }

    /// It has ended so.
    pub(super) fn end(&self, message: Message, result: Result<(), Error>) {
        let mut state = self.lock();
        (state.message, state.result) = (Some(message), Some(result));
        let waker = state.waker.take();
        drop(state);
        self.ended.notify_all();
        if let Some(waker) = waker {
            pinnace_runtime::wake(waker);
        }
    }

    /// Waits for the end. `None`: the deadline has passed.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> Option<Result<Message, Unsent>> {
        let mut state = self.lock();
        while state.result.is_none() {
            state = match super::left(deadline) {
                None => self.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => return None,
                Some(left) => self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        taken(&mut state)
    }

    /// The same, for tasks.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Message, Unsent>> {
        let mut state = self.lock();
        if let Some(result) = taken(&mut state) {
            return Poll::Ready(result);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

fn taken(state: &mut State) -> Option<Result<Message, Unsent>> {
    let result = state.result.as_mut()?;
    let result = std::mem::replace(result, Err(Error::Timeout));
    Some(match (state.message.take(), result) {
        (Some(message), Ok(())) => Ok(message),
        (message, Ok(())) => Err(Unsent::new(message, Error::Timeout)),
        (message, Err(error)) => Err(Unsent::new(message, error)),
    })
}
