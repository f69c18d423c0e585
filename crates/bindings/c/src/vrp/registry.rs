//! The endpoints of this process.
//!
//! Always true: a number is given once, also across `fork`, whose child starts with no endpoints; no lock is held while an
//! endpoint is closed, or while C's code runs.

use super::incoming::Incoming;
use super::outgoing::Outgoing;
use crate::errors::Errno;
use crate::kept::{Kept, Numbers, Place, Table, lock};
use std::sync::{Arc, Mutex};

/// What is open.
#[derive(Debug, Default)]
pub(super) struct Registry {
    shut: Mutex<bool>,
    outgoing: Table<Arc<Outgoing>>,
    incoming: Table<Arc<Incoming>>,
}

/// An endpoint of either kind.
pub(super) trait Kind: Sized {
    fn table(registry: &Registry) -> &Table<Arc<Self>>;
}

impl Kind for Outgoing {
    fn table(registry: &Registry) -> &Table<Arc<Self>> {
        &registry.outgoing
    }
}

impl Kind for Incoming {
    fn table(registry: &Registry) -> &Table<Arc<Self>> {
        &registry.incoming
    }
}

/// Numbers look like addresses that nothing has: small, and aligned.
static NUMBERS: Numbers = Numbers::new(16);

impl Kept for Registry {
    // A handler may be what calls `exit`, or never end: nobody waits for it.
    const AT_EXIT: fn(&'static Self) = |registry| registry.close_all(false);

    fn place() -> &'static Place<Self> {
        static PLACE: Place<Registry> = Place::new();
        &PLACE
    }
}

/// That of this process.
pub(super) fn current() -> &'static Registry {
    Registry::current()
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
        let number = NUMBERS.give(usize::MAX).ok_or(Errno(libc::EMFILE))?;
        K::table(self).insert(number, endpoint);
        Ok(number)
    }

    /// The open endpoint of this number.
    pub(super) fn find<K: Kind>(&self, number: usize) -> Result<Arc<K>, Errno> {
        K::table(self).find(number).ok_or_else(|| missing(number))
    }

    /// The endpoint of this number, which nobody finds any more.
    pub(super) fn remove<K: Kind>(&self, number: usize) -> Result<Arc<K>, Errno> {
        K::table(self).remove(number).ok_or_else(|| missing(number))
    }

    fn close_all(&self, wait: bool) {
        let (incoming, outgoing) = (self.incoming.take_all(), self.outgoing.take_all());
        // Incoming ones last: what outgoing ones of this process have to say may be for them.
        outgoing.values().for_each(|endpoint| endpoint.close());
        incoming.values().for_each(|endpoint| endpoint.close(wait));
    }
}

/// There was one, or never.
fn missing(number: usize) -> Errno {
    Errno(if NUMBERS.has_given(number) { libc::ECANCELED } else { libc::EINVAL })
}
