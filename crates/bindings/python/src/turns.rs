//! What one thread does at a time, for as long as it takes; the others wait for their turns, as long as they said.

use pinnace::Error;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Turns {
    is_taken: Mutex<bool>,
    freed: Condvar,
}

/// The turn of a thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Takes the turn when it is free, if it is so soon.
    pub(crate) fn take(&self, within: Duration) -> Result<Turn<'_>, Error> {
        let waited = self.freed.wait_timeout_while(self.lock(), within, |is_taken| *is_taken);
        let mut is_taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        if std::mem::replace(&mut *is_taken, true) { Err(Error::Timeout) } else { Ok(Turn(self)) }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.freed.notify_one();
    }
}
