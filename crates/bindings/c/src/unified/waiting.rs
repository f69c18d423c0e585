//! Waiting as C says it: milliseconds, 0 for not at all, less for as long as it takes.

use crate::errors::Failure;
use crate::kept::lock;
use libc::c_int;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So soon is noticed that another thread has closed what is waited on.
const SLICE: Duration = Duration::from_millis(200);

/// Milliseconds as a time; less than 0 is as long as it takes.
pub(super) fn time(timeout_ms: c_int) -> Duration {
    u64::try_from(timeout_ms).map_or(Duration::MAX, Duration::from_millis)
}

/// How long a call may take that waits more than once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// As C said it.
    timeout_ms: c_int,
    deadline: Option<Instant>,
}

impl From<c_int> for Limit {
    fn from(timeout_ms: c_int) -> Self {
        Self { timeout_ms, deadline: Instant::now().checked_add(time(timeout_ms)) }
    }
}

/// What one thread does at a time, for as long as it takes; the others wait for their turns, as long as they said.
#[derive(Debug, Default)]
pub(super) struct Turns {
    is_taken: Mutex<bool>,
    freed: Condvar,
}

/// The turn of a thread, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Takes the turn when it is free; `None` if it is not so soon.
    pub(super) fn take(&self, within: Duration) -> Option<Turn<'_>> {
        let waited = self.freed.wait_timeout_while(lock(&self.is_taken), within, |is_taken| *is_taken);
        let mut is_taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        (!std::mem::replace(&mut *is_taken, true)).then(|| Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.is_taken) = false;
        self.0.freed.notify_one();
    }
}

/// Why whoever waited on what another thread has closed did so in vain.
pub(super) fn closed_meanwhile() -> Failure {
    Failure::new(libc::ECANCELED, "another thread has closed this meanwhile")
}

/// Calls `step`, which waits as long as it is told, until it has something.
pub(super) fn until<T>(
    limit: impl Into<Limit>,
    is_closed: impl Fn() -> bool,
    mut step: impl FnMut(Duration) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let Limit { timeout_ms, deadline } = limit.into();
    loop {
        if is_closed() {
            return Err(closed_meanwhile());
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        if let Some(result) = step(slice)? {
            return Ok(result);
        }
        if left.is_some_and(|left| left <= slice) {
            return Err(Failure::new(libc::EAGAIN, format!("nothing has happened within {timeout_ms} ms")));
        }
    }
}
