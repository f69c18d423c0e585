//! The atomics that shared memory is made of: the processor's, or those of `loom` under `cfg(loom)`, which tries every
//! interleaving of a small model.
//!
//! Always true: nothing else of this crate names an atomic type for what lies in shared memory. Tests (without `loom`)
//! count every access and can end a "process" at any of them, see [`crash`].

#[cfg(loom)]
use loom::sync::atomic as inner;
#[cfg(not(loom))]
use std::sync::atomic as inner;

pub(crate) use inner::Ordering;

macro_rules! shared_word {
    ($(#[$doc:meta])* $name:ident, $atomic:ident, $int:ty) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Debug)]
        pub(crate) struct $name(inner::$atomic);

        #[allow(dead_code, reason = "not every width needs every operation")]
        impl $name {
            #[cfg(any(loom, test))]
            pub(crate) fn new(value: $int) -> Self {
                Self(inner::$atomic::new(value))
            }

            #[inline]
            pub(crate) fn load(&self, order: Ordering) -> $int {
                crash::point();
                self.0.load(order)
            }

            #[inline]
            pub(crate) fn store(&self, value: $int, order: Ordering) {
                crash::point();
                self.0.store(value, order);
            }

            /// Whether the word held `expected`, and now holds `new`.
            #[inline]
            pub(crate) fn replace(&self, expected: $int, new: $int) -> bool {
                crash::point();
                self.0.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
            }

            #[inline]
            pub(crate) fn swap(&self, value: $int) -> $int {
                crash::point();
                self.0.swap(value, Ordering::AcqRel)
            }

            /// Sets the bits of `mask`.
            #[inline]
            pub(crate) fn set(&self, mask: $int) {
                crash::point();
                self.0.fetch_or(mask, Ordering::AcqRel);
            }

            /// Clears the bits of `mask`.
            #[inline]
            pub(crate) fn clear(&self, mask: $int) {
                crash::point();
                self.0.fetch_and(!mask, Ordering::AcqRel);
            }
        }
    };
}

shared_word!(
    /// 32 bits of shared memory.
    Shared32, AtomicU32, u32
);
shared_word!(
    /// 64 bits of shared memory.
    Shared64, AtomicU64, u64
);

/// Ends a thread of a test at its n-th access to shared memory, as `kill -9` would: nothing is cleaned up.
#[cfg(test)]
pub(crate) mod crash {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    thread_local! {
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    struct Killed;

    pub(crate) fn point() {
        LEFT.with(|left| match left.get() {
            None => {}
            Some(0) => {
                left.set(None);
                resume_unwind(Box::new(Killed));
            }
            Some(more) => left.set(Some(more - 1)),
        });
    }

    /// Runs `work`, which dies before its access number `accesses` (from 0). `None`: it died.
    pub(crate) fn after<R>(accesses: u32, work: impl FnOnce() -> R) -> Option<R> {
        LEFT.with(|left| left.set(Some(accesses)));
        let outcome = catch_unwind(AssertUnwindSafe(work));
        LEFT.with(|left| left.set(None));
        match outcome {
            Ok(done) => Some(done),
            Err(reason) if reason.is::<Killed>() => None,
            Err(reason) => resume_unwind(reason),
        }
    }
}

#[cfg(not(test))]
pub(crate) mod crash {
    #[inline(always)]
    pub(crate) fn point() {}
}
