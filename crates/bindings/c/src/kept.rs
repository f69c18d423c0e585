//! What the library keeps for a process, and the numbers by which C knows what is kept.
//!
//! Always true: what is kept is made when it is first needed and is there as long as the process is; a child made by `fork`
//! starts with nothing, whatever its parent had, since the parent's threads are gone there and its locks may be held for
//! ever; no lock of a [`Table`] is held while what was in it is closed.

use pinnace_runtime::OfProcess;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, RwLock, RwLockWriteGuard};

/// What every process has one of, and ends when it exits; it begins with the default.
pub(crate) trait Kept: Default + Send + Sync + 'static {
    /// What is to be done with it when the process exits.
    const AT_EXIT: fn(&'static Self);

    /// Where it is.
    fn place() -> &'static Place<Self>;

    /// That of this process.
    fn current() -> &'static Self {
        let place = Self::place();
        place.own.known().unwrap_or_else(|| place.begin())
    }
}

/// A static that holds that of this process.
#[derive(Debug)]
pub(crate) struct Place<T: 'static> {
    own: OfProcess<T>,
    hook: Once,
}

impl<T: Kept> Place<T> {
    pub(crate) const fn new() -> Self {
        Self { own: OfProcess::new(), hook: Once::new() }
    }

    #[cold]
    fn begin(&'static self) -> &'static T {
        self.hook.call_once(|| {
            // SAFETY: the function is there as long as the library is. If there is no room for it, nothing is closed at exit.
            unsafe { libc::atexit(at_exit::<T>) };
        });
        self.own.get()
    }
}

extern "C" fn at_exit<T: Kept>() {
    if let Some(known) = T::place().own.known() {
        // A panic must not unwind into C, and there is nobody to be told.
        let _ = catch_unwind(AssertUnwindSafe(|| T::AT_EXIT(known)));
    }
}

/// Things by their numbers.
#[derive(Debug)]
pub(crate) struct Table<V> {
    entries: RwLock<BTreeMap<usize, V>>,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self { entries: RwLock::default() }
    }
}

impl<V> Table<V> {
    /// All of them, for a look and a change in one.
    pub(crate) fn entries(&self) -> RwLockWriteGuard<'_, BTreeMap<usize, V>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, number: usize) -> Option<V>
    where
        V: Clone,
    {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// Takes one in. Returns what had its number before.
    pub(crate) fn insert(&self, number: usize, value: V) -> Option<V> {
        self.entries().insert(number, value)
    }

    /// Takes one out, which nobody finds any more.
    pub(crate) fn remove(&self, number: usize) -> Option<V> {
        self.entries().remove(&number)
    }

    /// Takes all of them out.
    pub(crate) fn take_all(&self) -> BTreeMap<usize, V> {
        std::mem::take(&mut *self.entries())
    }
}

/// Numbers of the library's own: each is given once, in a process and in those that it forks, so that one whose thing is
/// gone is an error and nothing worse.
#[derive(Debug)]
pub(crate) struct Numbers {
    next: AtomicUsize,
    step: usize,
}

impl Numbers {
    /// The multiples of `step`, from the first.
    pub(crate) const fn new(step: usize) -> Self {
        Self { next: AtomicUsize::new(step), step }
    }

    /// The next that is at most `largest`, if there is one.
    pub(crate) fn give(&self, largest: usize) -> Option<usize> {
        let after = |next: usize| if next <= largest { next.checked_add(self.step) } else { None };
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).ok()
    }

    /// Whether something has, or had, this number.
    pub(crate) fn has_given(&self, number: usize) -> bool {
        number != 0 && number.is_multiple_of(self.step) && number < self.next.load(Ordering::Relaxed)
    }
}

/// A lock whose holder may have panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
