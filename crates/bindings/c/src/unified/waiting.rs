//! Waiting as C says it: milliseconds, 0 for not at all, less for as long as it takes.

use crate::errors::Failure;
use libc::c_int;
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

/// Calls `step`, which waits as long as it is told, until it has something.
pub(super) fn until<T>(
    limit: impl Into<Limit>,
    is_closed: impl Fn() -> bool,
    mut step: impl FnMut(Duration) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let Limit { timeout_ms, deadline } = limit.into();
    loop {
        if is_closed() {
            return Err(Failure::new(libc::ECANCELED, "another thread has closed this meanwhile"));
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
