//! By kqueue, which stays readable for what has come until it is asked for its events.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{null, null_mut};

/// Descriptors looked at in one call: with more that are readable at once the kqueue is so, too.
const AT_ONCE: usize = 8;

/// See the [module](super).
#[derive(Debug)]
pub(crate) struct Readable(OwnedFd);

impl Readable {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::kqueue() };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else's.
        let queue = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is open; F_SETFD takes an integer.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(queue))
    }

    /// From now on when `fd` is, too, until that is closed.
    pub(crate) fn add(&self, fd: RawFd) -> io::Result<()> {
        let mut change = event();
        change.ident = fd as usize;
        change.filter = libc::EVFILT_READ;
        change.flags = libc::EV_ADD;
        // SAFETY: one live change, as the call is told, and no room for events.
        if unsafe { libc::kevent(self.as_raw_fd(), &raw const change, 1, null_mut(), 0, null()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Whoever has found nothing calls it before somebody sleeps: only who asks for the events makes the kqueue look whether
    /// what has come is there still. What is stays an event, for these ask for levels.
    pub(crate) fn settle(&self) {
        let mut events = [event(); AT_ONCE];
        // SAFETY: all zeros is a time, which is none.
        let now: libc::timespec = unsafe { zeroed() };
        // SAFETY: no changes, room for as many events as the call is told, and a live time.
        unsafe {
            libc::kevent(self.as_raw_fd(), null(), 0, events.as_mut_ptr(), AT_ONCE as _, &raw const now);
        }
    }

    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn event() -> libc::kevent {
    // SAFETY: integers and a pointer that nobody follows; zeros are a value.
    unsafe { zeroed() }
}
