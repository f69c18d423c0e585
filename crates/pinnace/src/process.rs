//! What a process has one of.
//!
//! Always true: it is made when it is first needed, and is there as long as the process is; a child made by `fork` begins
//! anew, and never waits for a lock that a thread of its parent held.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct OfProcess<T: 'static> {
    /// That of this process, or of its nearest ancestor that had one.
    nearest: AtomicPtr<Own<T>>,
}

#[derive(Debug)]
struct Own<T: 'static> {
    process: u32,
    value: T,
    /// That of an ancestor, which nobody uses any more: so that it does not look like a leak.
    _inherited: Option<&'static Self>,
}

impl<T> OfProcess<T> {
    pub(crate) const fn new() -> Self {
        Self { nearest: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl<T: Default + Send + Sync> OfProcess<T> {
    /// That of this process.
    pub(crate) fn get(&'static self) -> &'static T {
        let process = std::process::id();
        let mut nearest = self.nearest.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or what was made below, which is never freed, and only shared.
            match unsafe { nearest.as_ref() } {
                Some(own) if own.process == process => return &own.value,
                // No lock guards this: a thread of the parent might have had it.
                _inherited => {
                    let fresh = Box::into_raw(Box::new(Own { process, value: T::default(), _inherited }));
                    nearest = match self.nearest.compare_exchange(nearest, fresh, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(_) => fresh,
                        Err(others) => {
                            // SAFETY: made just now, and nobody else has seen it.
                            drop(unsafe { Box::from_raw(fresh) });
                            others
                        }
                    };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

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
}
