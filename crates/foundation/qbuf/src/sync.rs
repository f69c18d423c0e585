//! The atomics that shared memory is made of: the processor's, or those of `loom` under `cfg(loom)`, which tries every
//! interleaving of a small model.
//!
//! Always true: nothing else of this crate names an atomic type for what lies in shared memory. Tests (without `loom`)
//! count every access and can end a "process" at any of them (module `crash`).

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
                if crash::lives() { self.0.load(order) } else { 0 }
            }

            #[inline]
            pub(crate) fn store(&self, value: $int, order: Ordering) {
                if crash::lives() {
                    self.0.store(value, order);
                }
            }

            /// Whether the word held `expected`, and now holds `new`.
            #[inline]
            pub(crate) fn replace(&self, expected: $int, new: $int) -> bool {
                crash::lives()
                    && self.0.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
            }

            #[inline]
            pub(crate) fn swap(&self, value: $int) -> $int {
                if crash::lives() { self.0.swap(value, Ordering::AcqRel) } else { 0 }
            }

            /// Sets the bits of `mask`.
            #[inline]
            pub(crate) fn set(&self, mask: $int) {
                if crash::lives() {
                    self.0.fetch_or(mask, Ordering::AcqRel);
                }
            }

            /// Clears the bits of `mask`.
            #[inline]
            pub(crate) fn clear(&self, mask: $int) {
                if crash::lives() {
                    self.0.fetch_and(!mask, Ordering::AcqRel);
                }
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

/// Ends what a test does at its n-th access to shared memory, as `kill -9` would: destructors may run, but nothing of
/// what they do reaches shared memory.
#[cfg(test)]
pub(crate) mod crash {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    #[derive(Clone, Copy)]
    enum Fate {
        Immortal,
        DiesAfter(u32),
        Dead,
    }

    thread_local! {
        static FATE: Cell<Fate> = const { Cell::new(Fate::Immortal) };
    }

    struct Killed;

    pub(crate) fn lives() -> bool {
        FATE.with(|fate| match fate.get() {
            Fate::Immortal => true,
            Fate::DiesAfter(0) => {
                fate.set(Fate::Dead);
                resume_unwind(Box::new(Killed));
            }
            Fate::DiesAfter(more) => {
                fate.set(Fate::DiesAfter(more - 1));
                true
            }
            Fate::Dead => false,
        })
    }

    /// Runs `work`, which dies before its access number `accesses` (from 0). `None`: it died.
    pub(crate) fn after<R>(accesses: u32, work: impl FnOnce() -> R) -> Option<R> {
        FATE.with(|fate| fate.set(Fate::DiesAfter(accesses)));
        let outcome = catch_unwind(AssertUnwindSafe(work));
        FATE.with(|fate| fate.set(Fate::Immortal));
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
    pub(crate) fn lives() -> bool {
        true
    }
}
