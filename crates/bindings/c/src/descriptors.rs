//! The numbers by which C knows QMP's sockets and QBUF's channels: descriptors of the system's, so that they are like no
//! other's and may be polled.
//!
//! Always true: a number in the table is open, unless C has closed it with `close`; a child process starts with an empty
//! table, whatever its parent had; what is open when the process exits is closed, and what was written to closed sockets has
//! [`AT_EXIT`] to arrive.

use crate::errors::Errno;
use crate::kept::{Kept, Place, Table, lock};
use crate::qbuf::{Buffers, Handles};
use crate::qmp::{Conversation, Socket};
use libc::c_int;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// How long the exit of the process waits for peers that have not acknowledged everything.
const AT_EXIT: Duration = Duration::from_secs(5);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(5);

/// A number that is C's: a duplicate, so that `close` by mistake takes nothing from the library.
#[derive(Debug)]
pub(crate) struct Number {
    number: c_int,
    is_open: AtomicBool,
}

impl Number {
    /// A number for what `descriptor` is.
    pub(crate) fn of(descriptor: impl AsFd) -> Result<Self, Errno> {
        let duplicate = descriptor.as_fd().try_clone_to_owned().map_err(|error| Errno::from(&error))?;
        Ok(Self { number: duplicate.into_raw_fd(), is_open: AtomicBool::new(true) })
    }

    pub(crate) fn get(&self) -> c_int {
        self.number
    }

    /// C has closed it, and the number is somebody else's.
    fn forget(&self) {
        self.is_open.store(false, Ordering::Relaxed);
    }
}

impl AsRawFd for Number {
    fn as_raw_fd(&self) -> c_int {
        self.number
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if *self.is_open.get_mut() {
            // SAFETY: it was made in `of`, and is closed once.
            unsafe { libc::close(self.number) };
        }
    }
}

/// What a number is.
#[derive(Clone, Debug)]
pub(crate) enum Descriptor {
    Socket(Arc<Socket>),
    Buffers(Arc<Buffers>),
}

impl Descriptor {
    fn number(&self) -> &Number {
        match self {
            Self::Socket(socket) => socket.number(),
            Self::Buffers(buffers) => buffers.number(),
        }
    }
}

/// All of a process.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    table: Table<Descriptor>,
    handles: Handles,
    /// Sockets that were closed while threads waited on them: these have them still.
    in_use: Mutex<Vec<Weak<Socket>>>,
}

impl Kept for Descriptors {
    const AT_EXIT: fn(&'static Self) = Self::end;

    fn place() -> &'static Place<Self> {
        static PLACE: Place<Descriptors> = Place::new();
        &PLACE
    }
}

/// Those of this process.
pub(crate) fn current() -> &'static Descriptors {
    Descriptors::current()
}

impl Descriptors {
    /// What C calls by this number.
    pub(crate) fn find(&self, number: c_int) -> Result<Descriptor, Errno> {
        let found = usize::try_from(number).ok().and_then(|number| self.table.find(number));
        found.ok_or(Errno(libc::EBADF))
    }

    /// The socket of this number.
    pub(crate) fn socket(&self, number: c_int) -> Result<Arc<Socket>, Errno> {
        match self.find(number) {
            Ok(Descriptor::Socket(socket)) => Ok(socket),
            Ok(Descriptor::Buffers(_)) => Err(Errno(libc::ENOTSOCK)),
            Err(error) if is_open(number) => Err(Errno(if error.0 == libc::EBADF { libc::ENOTSOCK } else { error.0 })),
            Err(error) => Err(error),
        }
    }

    /// The handles of QBUF.
    pub(crate) fn handles(&self) -> &Handles {
        &self.handles
    }

    /// Takes one in; its number.
    pub(crate) fn insert(&self, descriptor: Descriptor) -> c_int {
        let number = descriptor.number().get();
        let stale = self.table.insert(number as usize, descriptor);
        if let Some(stale) = stale {
            // `close` was called, or the number would not have been given again.
            stale.number().forget();
        }
        number
    }

    /// Takes one out. It is closed when nobody uses it any more.
    pub(crate) fn remove(&self, number: c_int) -> Result<Descriptor, Errno> {
        let found = usize::try_from(number).ok().and_then(|number| self.table.remove(number));
        if let Some(Descriptor::Socket(socket)) = &found
            && Arc::strong_count(socket) > 1
        {
            let mut in_use = lock(&self.in_use);
            in_use.retain(|socket| socket.strong_count() > 0);
            in_use.push(Arc::downgrade(socket));
        }
        found.ok_or(Errno(libc::EBADF))
    }

    /// All of them end at once, also those that threads wait on, which would end with these and so never.
    fn end(&self) {
        let until = Instant::now() + AT_EXIT;
        let open = self.table.take_all().into_values().filter_map(|descriptor| match descriptor {
            Descriptor::Socket(socket) => Some(socket),
            Descriptor::Buffers(_) => None,
        });
        let mut sockets: Vec<_> = open.collect();
        sockets.extend(std::mem::take(&mut *lock(&self.in_use)).iter().filter_map(Weak::upgrade));
        let is_held = |socket: &Arc<Socket>| Arc::strong_count(socket) > 1;
        let held: Vec<_> = sockets.iter().filter_map(|socket| socket.end_at_exit(is_held(socket))).collect();
        drop(sockets);
        while !held.iter().all(|conversation: &Arc<Conversation>| conversation.has_arrived()) && Instant::now() < until
        {
            std::thread::sleep(LOOK);
        }
        pinnace::qmp::settle(until.saturating_duration_since(Instant::now()));
    }
}

/// Whether the system knows this number.
fn is_open(number: c_int) -> bool {
    // SAFETY: takes no pointers; a bad number is an error.
    number >= 0 && unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0
}
