//! By epoll, which looks at the descriptors whenever it is looked at.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// See the [module](super).
#[derive(Debug)]
pub(crate) struct Readable(OwnedFd);

impl Readable {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// From now on when `fd` is, too, until that is closed.
    pub(crate) fn add(&self, fd: RawFd) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: `event` lives until the call is over.
        if unsafe { libc::epoll_ctl(self.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Whoever has found nothing calls it before somebody sleeps.
    pub(crate) fn settle(&self) {}

    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
