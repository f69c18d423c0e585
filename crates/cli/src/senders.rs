//! A listener that serves several senders, until the command is interrupted.

use crate::exit::{Error, Exit};
use crate::interrupt;
use crate::output::{self, Output};
use crate::transport;
use pinnace::zcrp::{Listener, Options, Successor};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Senders served at once; more wait as long as their time-outs let them.
const AT_ONCE: usize = 16;

/// Serves each sender that `accept` gives on a thread of its own, and numbers them from 1. Ends when the port or the command does,
/// and waits for those who are served then.
pub(crate) fn serve<C: Send + 'static>(
    mut listener: Listener,
    output: &Output,
    accept: fn(Listener) -> Result<(C, Successor), pinnace::Error>,
    serve_one: impl Fn(u64, C, &Place<'_>) + Sync,
) -> Result<(), Error> {
    let (places, serve_one) = (Places::default(), &serve_one);
    let next = |listener| -> Result<_, Error> {
        let place = places.take()?;
        Ok((place, transport::interruptible(move || accept(listener))??))
    };
    std::thread::scope(|scope| {
        let mut number = 0;
        let error = loop {
            let (place, (channel, successor)) = match next(listener) {
                Ok(next) => next,
                Err(error) => break error,
            };
            number += 1;
            scope.spawn(move || serve_one(number, channel, &place));
            listener = match transport::interruptible(move || successor.wait()) {
                Ok(Ok(listener)) => listener,
                Ok(Err(error)) => break error.into(),
                Err(error) => break error,
            };
        };
        if error.exit != Exit::Interrupted && output::check().is_ok() && places.are_taken() {
            // The command ends with it when they have ended, which may take long.
            output.warn(format_args!("no more senders are taken: {error}"));
        }
        Err(error)
    })
}

/// The same with one sender after the other; to the next the port is closed meanwhile.
pub(crate) fn serve_in_turn<C: Send + 'static>(
    mut listener: Listener,
    options: &Options,
    accept: fn(Listener) -> Result<C, pinnace::Error>,
    serve_one: impl Fn(u64, C, &Place<'_>),
) -> Result<(), Error> {
    let (places, address) = (Places::default(), listener.local_addr()?);
    let mut number = 0;
    loop {
        let channel = transport::interruptible(move || accept(listener))??;
        number += 1;
        serve_one(number, channel, &places.take()?);
        listener = Listener::bind(address, options)?;
    }
}

/// Counts the senders that are served.
#[derive(Default)]
struct Places {
    taken: Mutex<usize>,
    freed: Condvar,
    /// All are taken, and there may be somebody who waits.
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

    fn are_taken(&self) -> bool {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) > 0
    }
}

/// One of [`AT_ONCE`], given back when it is dropped.
pub(crate) struct Place<'a>(&'a Places);

impl Place<'_> {
    /// Whether there is no other one.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_full.load(Ordering::Relaxed)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}
