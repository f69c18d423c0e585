//! One descriptor for an event loop: readable when the socket is, or while frames wait for their handler.

use crate::errors::Errno;
use libc::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Two descriptors as one, to be polled.
#[derive(Debug)]
pub(super) struct Ready {
    joined: OwnedFd,
}

impl Ready {
    #[cfg(target_os = "linux")]
    pub(super) fn new(descriptors: [BorrowedFd<'_>; 2]) -> Result<Self, Errno> {
        // SAFETY: takes no pointers; the result is checked before use.
        let joined = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if joined < 0 {
            return Err(last());
        }
        // SAFETY: just made, and nobody else owns it.
        let joined = unsafe { OwnedFd::from_raw_fd(joined) };
        for descriptor in descriptors {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            let (epoll, added) = (joined.as_raw_fd(), descriptor.as_raw_fd());
            // SAFETY: both descriptors are open, and the event lives through the call.
            if unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, added, &raw mut event) } != 0 {
                return Err(last());
            }
        }
        Ok(Self { joined })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn new(descriptors: [BorrowedFd<'_>; 2]) -> Result<Self, Errno> {
        // SAFETY: takes no pointers; the result is checked before use.
        let joined = unsafe { libc::kqueue() };
        if joined < 0 {
            return Err(last());
        }
        // SAFETY: just made, and nobody else owns it.
        let joined = unsafe { OwnedFd::from_raw_fd(joined) };
        for descriptor in descriptors {
            // SAFETY: all zero is a valid `kevent`.
            let mut change: libc::kevent = unsafe { std::mem::zeroed() };
            change.ident = descriptor.as_raw_fd() as _;
            change.filter = libc::EVFILT_READ as _;
            change.flags = libc::EV_ADD as _;
            let none = std::ptr::null();
            // SAFETY: one change, which lives through the call, and no place for events.
            if unsafe { libc::kevent(joined.as_raw_fd(), &raw const change, 1, std::ptr::null_mut(), 0, none) } != 0 {
                return Err(last());
            }
        }
        Ok(Self { joined })
    }

    pub(super) fn descriptor(&self) -> c_int {
        self.joined.as_raw_fd()
    }
}

fn last() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}
