//! A listener that serves several senders, until the command is interrupted.
//!
//! Always true: where the system has no descriptors left, those who are served go on, the others wait as they do for a place, and the
//! user is told.

use crate::bare::PATIENCE;
use crate::exit::{self, Error};
use crate::interrupt;
use crate::output;
use crate::thread;
use crate::transport;
use pinnace::zcrp::{Listener, Options, Successor, Unaccepted};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Senders served at once; more wait as long as their time-outs let them.
pub(crate) const AT_ONCE: usize = 16;

/// Descriptors that serving one may take: of the endpoint (a socket, one that is tried, and two to wake threads), and of the files and
/// folders that are open at a time.
const DESCRIPTORS: usize = 8;

/// Serves each sender that `accept` gives on a thread of its own, and numbers them from 1. Ends when the port or the command does,
/// and waits for those who are served then. `warn` says what matters to the user.
pub(crate) fn serve<C: Send + 'static>(
    mut listener: Listener,
    options: &Options,
    warn: impl Fn(&str),
    accept: fn(Listener) -> Result<(C, Successor), Unaccepted>,
    serve_one: impl Fn(u64, C, &Place<'_>) + Sync,
) -> Result<(), Error> {
    let (places, serve_one, address) = (Places::default(), &serve_one, listener.local_addr()?);
    let mut shortage = Shortage { places: &places, before: open_descriptors(), warn: &warn, is_told: false };
    std::thread::scope(|scope| {
        let mut number = 0;
        let error = loop {
            let (place, (channel, successor)) = match shortage.next(listener, accept) {
                Ok(next) => next,
                Err(error) => break error,
            };
            number += 1;
            let serving = std::thread::Builder::new().spawn_scoped(scope, move || serve_one(number, channel, &place));
            if let Err(error) = serving {
                warn(&format!("sender {number} is not served: {}", thread::refused(&error)));
            }
            let next = match transport::interruptible(move || successor.wait()) {
                Ok(Err(error)) if is_shortage(&error) => shortage.bind(address, options, error),
                Ok(next) => next.map_err(Error::from),
                Err(error) => Err(error),
            };
            listener = match next {
                Ok(listener) => listener,
                Err(error) => break error,
            };
        };
        if !error.is_wanted() && output::check().is_ok() && places.are_taken() {
            // The command ends with it when they have ended, which may take long.
            warn(&format!("no more senders are taken: {error}"));
        }
        Err(error)
    })
}

/// The same with one sender after the other; to the next the port is closed meanwhile.
pub(crate) fn serve_in_turn<C: Send + 'static>(
    mut listener: Listener,
    options: &Options,
    warn: impl Fn(&str),
    accept: fn(Listener) -> Result<C, pinnace::Error>,
    serve_one: impl Fn(u64, C, &Place<'_>),
) -> Result<(), Error> {
    let (places, address) = (Places::default(), listener.local_addr()?);
    let mut shortage = Shortage { places: &places, before: open_descriptors(), warn: &warn, is_told: false };
    let mut number = 0;
    loop {
        let next = match transport::interruptible(move || accept(listener))? {
            Ok(channel) => {
                number += 1;
                serve_one(number, channel, &places.take()?);
                shortage.is_told = false;
                Listener::bind(address, options)
            }
            Err(error) => Err(error),
        };
        listener = match next {
            Err(error) if is_shortage(&error) => shortage.bind(address, options, error)?,
            next => next?,
        };
    }
}

/// Whether the system has no descriptors left, for this program or for all.
fn is_shortage(error: &pinnace::Error) -> bool {
    error.system().is_some_and(exit::lacks_descriptors)
}

/// That descriptors are missing for the next sender: waits for them, and tells the user once, until nobody is served any more.
struct Shortage<'a> {
    places: &'a Places,
    /// Descriptors that were open when nobody was served.
    before: usize,
    warn: &'a dyn Fn(&str),
    is_told: bool,
}

impl<'a> Shortage<'a> {
    /// The next sender, and its place.
    fn next<C: Send + 'static>(
        &mut self,
        mut listener: Listener,
        accept: fn(Listener) -> Result<(C, Successor), Unaccepted>,
    ) -> Result<(Place<'a>, (C, Successor)), Error> {
        self.is_told &= self.places.are_taken();
        let place = self.places.take()?;
        loop {
            while !self.has_descriptors() {
                self.wait(&Error::io("cannot open what serving it takes", &Errno::MFILE.into()))?;
            }
            match transport::interruptible(move || accept(listener))? {
                Ok(accepted) => {
                    self.places.is_full.store(false, Ordering::Relaxed);
                    return Ok((place, accepted));
                }
                // Somebody else took them in between.
                Err(Unaccepted { error, listener: Some(again) }) if is_shortage(&error) => {
                    self.wait(&error.into())?;
                    listener = *again;
                }
                Err(unaccepted) => return Err(unaccepted.error.into()),
            }
        }
    }

    /// Whether there are as many descriptors as all who have a place may take: whoever is served could fail for want of them as
    /// well, and has not opened all of his yet. They are counted: to open some, to see whether it can be done, would take them from
    /// others.
    fn has_descriptors(&self) -> bool {
        let wanted = self.before + self.places.taken() * DESCRIPTORS;
        getrlimit(Resource::Nofile).current.is_none_or(|most| wanted as u64 <= most)
    }

    /// The port again, which was lost for `error`.
    fn bind(&mut self, address: SocketAddr, options: &Options, error: pinnace::Error) -> Result<Listener, Error> {
        let mut error = error;
        loop {
            self.wait(&error.into())?;
            error = match Listener::bind(address, options) {
                Err(error) if is_shortage(&error) => error,
                bound => return Ok(bound?),
            };
        }
    }

    /// Waits a moment, in which one who is served may end; whoever is idle is asked to.
    fn wait(&mut self, error: &Error) -> Result<(), Error> {
        interrupt::check()?;
        if !std::mem::replace(&mut self.is_told, true) {
            (self.warn)(&format!("nobody else is served until descriptors are free again: {error}"));
        }
        self.places.is_full.store(true, Ordering::Relaxed);
        std::thread::sleep(interrupt::LOOK);
        Ok(())
    }
}

/// How many descriptors this program has open, as far as the system tells.
fn open_descriptors() -> usize {
    let listed = ["/proc/self/fd", "/dev/fd"].into_iter().find_map(|folder| std::fs::read_dir(folder).ok());
    listed.map_or(0, Iterator::count)
}

/// Counts the senders that are served.
#[derive(Default)]
struct Places {
    taken: Mutex<usize>,
    freed: Condvar,
    /// All are taken, or there are no descriptors for another, and there may be somebody who waits.
    is_full: AtomicBool,
}

impl Places {
    /// Waits until there is one.
    fn take(&self) -> Result<Place<'_>, Error> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken == AT_ONCE {
            interrupt::check()?;
            self.is_full.store(true, Ordering::Relaxed);
            taken = self.freed.wait_timeout(taken, interrupt::LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.is_full.store(false, Ordering::Relaxed);
        *taken += 1;
        Ok(Place(self))
    }

    fn taken(&self) -> usize {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn are_taken(&self) -> bool {
        self.taken() > 0
    }
}

/// One of [`AT_ONCE`], given back when it is dropped.
pub(crate) struct Place<'a>(&'a Places);

impl Place<'_> {
    /// Whether there is no other one.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_full.load(Ordering::Relaxed)
    }

    /// Whether one that has shown nothing since then gives way: whoever forges senders must not take all places for as long as
    /// a silent peer is waited for.
    pub(crate) fn is_needed_more(&self, since: Instant) -> bool {
        self.is_wanted() && since.elapsed() >= PATIENCE
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}
