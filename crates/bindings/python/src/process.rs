//! What belongs to a process, and not to the children that it forks.
//!
//! A child made by `os.fork` has copies of its parent's objects, and the same sockets, but none of the threads that serve them;
//! locks may be held there for ever. Always true: in a child nothing of the library is used, or dropped, that was made before
//! it was forked; whoever tries is told.

use crate::{buffer, errors};
use pyo3::prelude::*;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between the process that loaded the module and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    buffer::begin_in_child();
}

/// Counts forks from now on.
pub(crate) fn watch_forks() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the function is there as long as the module, which Python never unloads, and does what is allowed in a child.
        // Without memory for it forks are not noticed.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Something of the process that made it.
#[derive(Debug)]
pub(crate) struct Owned<T> {
    /// `None` once it was taken.
    it: Option<T>,
    forks: u32,
}

impl<T> Owned<T> {
    pub(crate) fn new(it: T) -> Self {
        Self { it: Some(it), forks: FORKS.load(Ordering::Relaxed) }
    }

    fn is_at_home(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// It, for everything that may be done with it; an exception in a child.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&T> {
        self.it.as_ref().filter(|_| self.is_at_home()).ok_or_else(|| errors::of_another_process(py))
    }

    /// It, to read what does not change.
    pub(crate) fn seen(&self) -> &T {
        self.it.as_ref().expect("it is taken only when it is dropped")
    }

    /// It, to be dropped; nothing in a child.
    pub(crate) fn take(&mut self) -> Option<T> {
        let it = self.it.take();
        if self.is_at_home() {
            return it;
        }
        std::mem::forget(it);
        None
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
