//! The endpoints of this process.
//!
//! Always true: a number is given once, also across `fork`, whose child starts with no endpoints; no lock is held while an
//! endpoint is closed, or while C's code runs.

use super::incoming::Incoming;
use super::outgoing::Outgoing;
use crate::errors::{self, Errno};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

/// What is open.
#[derive(Debug, Default)]
pub(super) struct Registry {
    shut: Mutex<bool>,
    outgoing: Mutex<BTreeMap<usize, Arc<Outgoing>>>,
    incoming: Mutex<BTreeMap<usize, Arc<Incoming>>>,
}

/// An endpoint of either kind.
pub(super) trait Kind: Sized {
    fn table(registry: &Registry) -> &Mutex<BTreeMap<usize, Arc<Self>>>;
}

impl Kind for Outgoing {
    fn table(registry: &Registry) -> &Mutex<BTreeMap<usize, Arc<Self>>> {
        &registry.outgoing
    }
}

impl Kind for Incoming {
    fn table(registry: &Registry) -> &Mutex<BTreeMap<usize, Arc<Self>>> {
        &registry.incoming
    }
}

/// Numbers look like addresses that nothing has: small, and aligned.
const STEP: usize = 16;

static NEXT: AtomicUsize = AtomicUsize::new(STEP);
static CURRENT: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());

/// That of this process.
pub(super) fn current() -> &'static Registry {
    static HOOKS: Once = Once::new();
    let known = CURRENT.load(Ordering::Acquire);
    if !known.is_null() {
        // SAFETY: what was stored there was leaked.
        return unsafe { &*known };
    }
    HOOKS.call_once(|| {
        // SAFETY: both functions are there as long as the library is. If there is no room for them, nothing is closed at
        // exit, and a child must not use the library.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
    let fresh = Box::into_raw(Box::<Registry>::default());
    match CURRENT.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: leaked just now.
        Ok(_) => unsafe { &*fresh },
        Err(other) => {
            // SAFETY: `fresh` was made above and nobody has seen it; `other` was leaked by whoever was first.
            unsafe {
                drop(Box::from_raw(fresh));
                &*other
            }
        }
    }
}

/// The parent's endpoints are not the child's: their threads are gone, and their locks may be held for ever.
extern "C" fn in_child() {
    CURRENT.store(std::ptr::null_mut(), Ordering::Release);
}

extern "C" fn at_exit() {
    errors::guard((), || {
        let known = CURRENT.load(Ordering::Acquire);
        if !known.is_null() {
            // SAFETY: leaked when it was stored. A handler may be what calls `exit`, or never end: nobody waits for it.
            unsafe { &*known }.close_all(false);
        }
        Ok(())
    });
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// Endpoints may be opened (again).
    pub(super) fn init(&self) {
        *lock(&self.shut) = false;
    }

    /// Closes everything, and opens nothing from now on.
    pub(super) fn shut_down(&self) {
        *lock(&self.shut) = true;
        self.close_all(true);
    }

    /// Takes an endpoint in; its number.
    pub(super) fn add<K: Kind>(&self, endpoint: Arc<K>) -> Result<usize, Errno> {
        let shut = lock(&self.shut);
        if *shut {
            return Err(Errno(libc::ECANCELED));
        }
        let number = NEXT.fetch_add(STEP, Ordering::Relaxed);
        lock(K::table(self)).insert(number, endpoint);
        Ok(number)
    }

    /// The open endpoint of this number.
    pub(super) fn find<K: Kind>(&self, number: usize) -> Result<Arc<K>, Errno> {
        lock(K::table(self)).get(&number).cloned().ok_or_else(|| missing(number))
    }

    /// The endpoint of this number, which nobody finds any more.
    pub(super) fn remove<K: Kind>(&self, number: usize) -> Result<Arc<K>, Errno> {
        lock(K::table(self)).remove(&number).ok_or_else(|| missing(number))
    }

    fn close_all(&self, wait: bool) {
        // Statements of their own: the lock must be free while they are closed.
        let incoming = std::mem::take(&mut *lock(&self.incoming));
        let outgoing = std::mem::take(&mut *lock(&self.outgoing));
        // Incoming ones last: what outgoing ones of this process have to say may be for them.
        outgoing.values().for_each(|endpoint| endpoint.close());
        incoming.values().for_each(|endpoint| endpoint.close(wait));
    }
}

/// There was one, or never.
fn missing(number: usize) -> Errno {
    let was = number != 0 && number.is_multiple_of(STEP) && number < NEXT.load(Ordering::Relaxed);
    Errno(if was { libc::ECANCELED } else { libc::EINVAL })
}
