//! The streams of the application's sockets, by the number that the kernel gave those (SO_COOKIE).
//!
//! Always true: nobody but its pump has a stream for longer than the lock is held, so it ends with its pump.

use pinnace::qmp::{Patience, Stream};
use rustix::net::sockopt::socket_cookie;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    known: Arc<Mutex<BTreeMap<u64, Weak<Stream>>>>,
}

/// A stream can be named for as long as this lives.
#[derive(Debug)]
pub(super) struct Named {
    streams: Streams,
    number: u64,
}

impl Streams {
    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Weak<Stream>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Knows a stream by the application's socket.
    pub(super) fn name(&self, application: &OwnedFd, stream: &Arc<Stream>) -> io::Result<Named> {
        let number = socket_cookie(application)?;
        self.known().insert(number, Arc::downgrade(stream));
        Ok(Named { streams: self.clone(), number })
    }

    /// Says how long the other host of a stream may be silent. False: there is no such stream here.
    pub(super) fn bear(&self, number: u64, patience: Patience) -> bool {
        let known = self.known();
        known.get(&number).and_then(Weak::upgrade).is_some_and(|stream| stream.set_patience(patience).is_ok())
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.streams.known().remove(&self.number);
    }
}
