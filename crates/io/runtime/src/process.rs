//! What a process has one of.
//!
//! Always true: it is made when it is first needed, and is there as long as the process is; a child made by `fork` begins
//! anew, and never waits for a lock that a thread of its parent held.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// What every process has one of, for a static: made when it is first needed, and there as long as the process is. A child
/// made by `fork` begins anew, whatever its parent had, since the parent's threads are gone there and its locks may be held
/// for ever.
///
/// ```
/// use pinnace_runtime::OfProcess;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// static CALLS: OfProcess<AtomicU32> = OfProcess::new();
/// assert!(CALLS.known().is_none());
/// CALLS.get().fetch_add(1, Ordering::Relaxed);
/// assert_eq!(CALLS.get().load(Ordering::Relaxed), 1);
/// ```
#[derive(Debug)]
pub struct OfProcess<T: 'static> {
    /// That of this process, or of its nearest ancestor that had one.
    nearest: AtomicPtr<Own<T>>,
}

#[derive(Debug)]
struct Own<T: 'static> {
    /// [`FORKS`] of the process whose it is.
    forks: u32,
    value: T,
    /// That of an ancestor, which nobody uses any more: so that it does not look like a leak.
    _inherited: Option<&'static Self>,
}

/// Tells a process from its ancestors, without a system call: it changes in every child.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Whether it does.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

impl<T> OfProcess<T> {
    /// None yet.
    pub const fn new() -> Self {
        Self { nearest: AtomicPtr::new(ptr::null_mut()) }
    }

    /// That of this process, if it has been made.
    pub fn known(&'static self) -> Option<&'static T> {
        self.nearest().filter(|own| own.is_current()).map(|own| &own.value)
    }

    fn nearest(&'static self) -> Option<&'static Own<T>> {
        // SAFETY: null, or what `begin` made, which is never freed, and only shared.
        unsafe { self.nearest.load(Ordering::Acquire).as_ref() }
    }
}

impl<T> Default for OfProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Default + Send + Sync> OfProcess<T> {
    /// That of this process; it begins with the default.
    pub fn get(&'static self) -> &'static T {
        self.known().unwrap_or_else(|| self.begin())
    }

    #[cold]
    fn begin(&'static self) -> &'static T {
        // Two threads may both do it: then it changes twice.
        if !IS_WATCHED.load(Ordering::Acquire) {
            // SAFETY: the function is there as long as the library is. If there is no room for it, a child must not use it.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            IS_WATCHED.store(true, Ordering::Release);
        }
        let inherited = self.nearest().filter(|own| !own.is_current());
        let before = inherited.map_or(ptr::null_mut(), |own| ptr::from_ref(own).cast_mut());
        let own = Own { forks: FORKS.load(Ordering::Relaxed), value: T::default(), _inherited: inherited };
        let fresh = Box::into_raw(Box::new(own));
        // No lock guards this: a thread of the parent might have had it.
        let own = match self.nearest.compare_exchange(before, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(others) => {
                // SAFETY: made just now, and nobody else has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                others
            }
        };
        // SAFETY: it is never freed, and only shared.
        unsafe { &(*own).value }
    }
}

impl<T> Own<T> {
    fn is_current(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_have_the_same() {
        static COUNT: OfProcess<AtomicU32> = OfProcess::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| COUNT.get().fetch_add(1, Ordering::Relaxed));
            }
        });
        assert_eq!(COUNT.get().load(Ordering::Relaxed), 8);
    }

    #[test]
    fn a_child_begins_anew() {
        static COUNT: OfProcess<AtomicU32> = OfProcess::new();
        COUNT.get().store(5, Ordering::Relaxed);
        // SAFETY: the child allocates, which the allocator's own handlers of fork allow, and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_new = COUNT.known().is_none() && COUNT.get().load(Ordering::Relaxed) == 0;
            // SAFETY: ends the child, and nothing of the parent's.
            unsafe { libc::_exit(i32::from(!is_new)) };
        }
        let mut status = 0;
        // SAFETY: a child of this process's, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!((status, COUNT.get().load(Ordering::Relaxed)), (0, 5));
    }
}
