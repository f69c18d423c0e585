//! The contexts of this process, by the addresses of their structures, and when each has something to do.
//!
//! Always true: the next date is the first of an ordered set, nothing is searched; a context whose structure may have been
//! changed by the application since its last call is on a list, and on it once; no lock is held while a context is used,
//! save its own. A child process made by `fork` starts with no contexts.
//= X-9

use super::context::{Context, Due};
use super::types::xtpctx;
use crate::errors::Errno;
use crate::kept::lock;
use pinnace_runtime::OfProcess;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// A context; `None` once it has been closed.
pub(super) type Slot = Arc<Mutex<Option<Context>>>;

#[derive(Debug)]
pub(super) struct Registry {
    epoch: Instant,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    contexts: BTreeMap<usize, Entry>,
    /// Nanoseconds since the epoch, and whose they are; 0: there is something to tell.
    dates: BTreeSet<(u64, usize)>,
    /// Contexts that have been used since the application last asked for the next date.
    touched: Vec<usize>,
}

#[derive(Debug)]
struct Entry {
    slot: Slot,
    descriptor: i32,
    date: Option<u64>,
    is_touched: bool,
}

impl Table {
    fn set_date(&mut self, address: usize, date: Option<u64>) {
        let Some(entry) = self.contexts.get_mut(&address) else { return };
        if entry.date != date {
            if let Some(old) = entry.date {
                self.dates.remove(&(old, address));
            }
            if let Some(date) = date {
                self.dates.insert((date, address));
            }
            entry.date = date;
        }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self { epoch: Instant::now(), table: Mutex::default() }
    }
}

/// That of this process.
pub(super) fn current() -> &'static Registry {
    static REGISTRY: OfProcess<Registry> = OfProcess::new();
    REGISTRY.get()
}

impl Registry {
    /// Takes in a context that `make` makes, unless there is one at this address, or on its socket.
    pub(super) fn add(&self, address: usize, make: impl FnOnce() -> Result<Context, Errno>) -> Result<(), Errno> {
        let mut table = lock(&self.table);
        if table.contexts.contains_key(&address) {
            return Err(Errno(libc::EBUSY));
        }
        let context = make()?;
        let descriptor = context.descriptor();
        let entry = Entry { slot: Arc::new(Mutex::new(Some(context))), descriptor, date: None, is_touched: true };
        table.contexts.insert(address, entry);
        table.touched.push(address);
        Ok(())
    }

    /// A context whose association has ended gives its structure up to a new one; what is returned is its socket, if it was
    /// made here, which it closes.
    pub(super) fn retire(&self, address: usize) -> Option<i32> {
        let slot = self.find(address).ok()?;
        let mut held = slot.try_lock().ok()?;
        if !held.as_ref()?.has_ended() {
            return None;
        }
        let context = held.take()?;
        drop(held);
        self.remove(address).ok()?;
        context.own_socket()
    }

    /// Whether a context of this process has this socket.
    pub(super) fn has_socket(&self, descriptor: i32) -> bool {
        lock(&self.table).contexts.values().any(|entry| entry.descriptor == descriptor)
    }

    pub(super) fn find(&self, address: usize) -> Result<Slot, Errno> {
        let table = lock(&self.table);
        table.contexts.get(&address).map(|entry| Arc::clone(&entry.slot)).ok_or(Errno(libc::EINVAL))
    }

    pub(super) fn remove(&self, address: usize) -> Result<Slot, Errno> {
        let mut table = lock(&self.table);
        table.set_date(address, None);
        table.contexts.remove(&address).map(|entry| entry.slot).ok_or(Errno(libc::EINVAL))
    }

    /// A call on a context is over.
    pub(super) fn update(&self, address: usize, due: Option<Due>, touches: bool) {
        let date = self.date(due);
        let mut table = lock(&self.table);
        table.set_date(address, date);
        let Table { contexts, touched, .. } = &mut *table;
        if let Some(entry) = contexts.get_mut(&address).filter(|entry| touches && !entry.is_touched) {
            entry.is_touched = true;
            touched.push(address);
        }
    }

    fn date(&self, due: Option<Due>) -> Option<u64> {
        Some(match due? {
            Due::News => 0,
            // 0 says something else.
            Due::In(rest) => (self.now() + u64::try_from(rest.as_nanos()).unwrap_or(u64::MAX / 2)).max(1),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX / 2)
    }

    /// Contexts that were touched, and those whose date has come: each once.
    fn due(&self) -> Vec<(usize, Slot)> {
        let now = self.now();
        let mut table = lock(&self.table);
        let mut due = std::mem::take(&mut table.touched);
        for address in &due {
            if let Some(entry) = table.contexts.get_mut(address) {
                entry.is_touched = false;
            }
        }
        due.extend(table.dates.range((1, 0)..=(now, usize::MAX)).map(|(_, address)| *address));
        due.sort_unstable();
        due.dedup();
        let slot = |address: usize| Some((address, Arc::clone(&table.contexts.get(&address)?.slot)));
        due.into_iter().filter_map(slot).collect()
    }

    /// Lets happen what is due; then says which context has the next date, and when.
    pub(super) fn next(&self) -> Option<(NonNull<xtpctx>, Duration)> {
        for (address, slot) in self.due() {
            let mut held = match slot.try_lock() {
                Ok(held) => held,
                Err(TryLockError::Poisoned(held)) => held.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    // Whoever has it sees to its timers, and to its date.
                    lock(&self.table).set_date(address, None);
                    continue;
                }
            };
            let Some(context) = held.as_mut() else { continue };
            let served = context.enter().and_then(|()| {
                if context.may_listen() {
                    // What is wrong, if anything, the application hears from `xf_input`.
                    let _ = context.listen();
                }
                context.serve()
            });
            // As above.
            let _ = served;
            context.mirror();
            self.update(address, context.rest(), false);
        }
        let table = lock(&self.table);
        let (date, address) = *table.dates.first()?;
        let pointer = NonNull::new(std::ptr::with_exposed_provenance_mut::<xtpctx>(address))?;
        // A date that has passed meanwhile is nothing to tell: who is told that there is waits for it.
        let rest = match date {
            0 => Duration::ZERO,
            date => Duration::from_nanos(date.saturating_sub(self.now()).max(1)),
        };
        Some((pointer, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: usize = 4096;

    /// One with a context that has this date, and is left alone.
    fn with_date(date: u64) -> Registry {
        let registry = Registry::default();
        let slot = Arc::new(Mutex::new(None));
        let mut table = lock(&registry.table);
        table.contexts.insert(ADDRESS, Entry { slot, descriptor: -1, date: None, is_touched: false });
        table.set_date(ADDRESS, Some(date));
        drop(table);
        registry
    }

    //= X-9 test
    #[test]
    fn a_date_that_has_passed_is_nothing_to_tell() {
        let registry = with_date(1);
        while registry.now() <= 1 {}
        let (context, rest) = registry.next().unwrap();
        assert_eq!(context.addr().get(), ADDRESS);
        assert!(rest > Duration::ZERO && rest <= Duration::from_micros(1), "{rest:?}");
    }

    #[test]
    fn what_there_is_to_tell_is_told_at_once() {
        let (_, rest) = with_date(0).next().unwrap();
        assert_eq!(rest, Duration::ZERO);
    }
}
