//! State that is held while an engine is called.
//!
//! Always true: the tasks that such a call wakes are woken when the state is free again. Some executors run them where they
//! are woken, and they may want the same state.

use pinnace_runtime::WakeLater;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a mutex holds, also behind a thread that panicked: nothing is left half changed where these are used.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

/// Whoever holds it.
pub(crate) struct Locked<'a, T> {
    // In this order: it is free before anybody is woken.
    state: MutexGuard<'a, T>,
    _tasks: WakeLater,
}

impl<T> Lock<T> {
    pub(crate) fn new(state: T) -> Self {
        Self(Mutex::new(state))
    }

    pub(crate) fn lock(&self) -> Locked<'_, T> {
        Locked { state: lock(&self.0), _tasks: WakeLater::begin() }
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.state
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.state
    }
}
