//! What the library keeps for a process, and the numbers by which C knows what is kept.
//!
//! Always true: what is kept is made when it is first needed and is there as long as the process is; a child made by `fork`
//! starts with nothing, whatever its parent had, since the parent's threads are gone there and its locks may be held for
//! ever; no lock of a [`Table`] is held while what was in it is closed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, RwLock, RwLockWriteGuard};

/// What every process has one of; it begins with the default.
pub(crate) trait Kept: Default + Send + Sync + 'static {
    /// What is to be done with it when the process exits.
    const AT_EXIT: Option<fn(&'static Self)> = None;

    /// Where it is.
    fn place() -> &'static Place<Self>;

    /// That of this process.
    fn current() -> &'static Self {
        let place = Self::place();
        place.known().unwrap_or_else(|| place.begin())
    }
}

/// A static that holds that of this process.
#[derive(Debug)]
pub(crate) struct Place<T: 'static> {
    known: AtomicPtr<Own<T>>,
    /// That of the nearest ancestor which had one.
    inherited: AtomicPtr<Own<T>>,
    hooks: Once,
}

#[derive(Debug)]
struct Own<T: 'static> {
    value: T,
    /// That of an ancestor, which nobody uses any more: so that it does not look like a leak.
    _inherited: Option<&'static Self>,
}

impl<T: Kept> Place<T> {
    pub(crate) const fn new() -> Self {
        let (known, inherited) = (AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut()));
        Self { known, inherited, hooks: Once::new() }
    }

    fn known(&self) -> Option<&'static T> {
        // SAFETY: what was stored there was leaked.
        unsafe { self.known.load(Ordering::Acquire).as_ref() }.map(|own| &own.value)
    }

    #[cold]
    fn begin(&self) -> &'static T {
        self.hooks.call_once(|| {
            // SAFETY: both functions are there as long as the library is. If there is no room for them, nothing is closed
            // at exit, and a child must not use the library.
            unsafe {
                if T::AT_EXIT.is_some() {
                    libc::atexit(at_exit::<T>);
                }
                libc::pthread_atfork(None, None, Some(in_child::<T>));
            }
        });
        // SAFETY: what was stored there was leaked.
        let inherited = unsafe { self.inherited.load(Ordering::Acquire).as_ref() };
        let fresh = Box::into_raw(Box::new(Own { value: T::default(), _inherited: inherited }));
        match self.known.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: leaked just now.
            Ok(_) => unsafe { &(*fresh).value },
            Err(other) => {
                // SAFETY: `fresh` was made above and nobody has seen it; `other` was leaked by whoever was first.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &(*other).value
                }
            }
        }
    }
}

extern "C" fn in_child<T: Kept>() {
    let place = T::place();
    let parents = place.known.swap(ptr::null_mut(), Ordering::AcqRel);
    if !parents.is_null() {
        place.inherited.store(parents, Ordering::Release);
    }
}

extern "C" fn at_exit<T: Kept>() {
    if let (Some(end), Some(known)) = (T::AT_EXIT, T::place().known()) {
        // A panic must not unwind into C, and there is nobody to be told.
        let _ = catch_unwind(AssertUnwindSafe(|| end(known)));
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
