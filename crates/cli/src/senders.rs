//! A listener that serves several senders at once, until the command is interrupted.

use crate::exit::Error;
use crate::interrupt;
use crate::transport;
use pinnace::zcrp::{Listener, Successor};
use std::sync::{Condvar, Mutex, PoisonError};

/// Senders served at once; more wait.
const AT_ONCE: usize = 16;

/// Serves each sender that `accept` gives on a thread of its own, and numbers them from 1; in turn, if they must not come at once.
/// Ends when the port or the command does, and waits for those who are served then.
pub(crate) fn serve<C: Send + 'static>(
    mut listener: Listener,
    accept: fn(Listener) -> Result<(C, Successor), pinnace::Error>,
    in_turn: bool,
    serve_one: impl Fn(u64, C) + Sync,
) -> Result<(), Error> {
    let (places, serve_one) = (Places::default(), &serve_one);
    std::thread::scope(|scope| {
        for number in 1.. {
            let place = places.take()?;
            let (channel, successor) = transport::interruptible(move || accept(listener))??;
            let serve_one = move || {
                let _place = place;
                serve_one(number, channel);
            };
            if in_turn {
                serve_one();
            } else {
                scope.spawn(serve_one);
            }
            listener = transport::interruptible(move || successor.wait())??;
        }
        Ok(())
    })
}

/// Counts the senders that are served.
#[derive(Default)]
struct Places {
    taken: Mutex<usize>,
    freed: Condvar,
}

impl Places {
    /// Waits until there is one.
    fn take(&self) -> Result<Place<'_>, Error> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken == AT_ONCE {
            interrupt::check()?;
            taken = self.freed.wait_timeout(taken, interrupt::LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        *taken += 1;
        Ok(Place(self))
    }
}

/// One of [`AT_ONCE`], given back when it is dropped.
struct Place<'a>(&'a Places);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}
