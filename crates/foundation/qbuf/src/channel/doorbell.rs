//! Doorbells: an eventfd that one side rings to wake the other, which polls it.
//!
//! Always true: nothing here waits but [`poll`], and that not beyond its timeout. That a bell is non-blocking is a property of the
//! file, and the file is shared: a peer can take it away. So each read says for itself that it does not wait. A write cannot say
//! so (the kernel refuses): it looks for room and makes the bell non-blocking again before. A peer could make it wait only by
//! filling the counter to its brim (2^64 - 2) *and* taking the property away in the instant between.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;

pub(super) use crate::host::{bell as create, silence};

/// Rings: `bell` is readable from now on. That a full counter refuses is no error: such a bell is readable already.
#[cold]
pub(super) fn ring(bell: BorrowedFd<'_>) {
    if is_ready(bell, PollFlags::OUT) && rustix::fs::fcntl_setfl(bell, OFlags::NONBLOCK).is_ok() {
        let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
    }
}

/// Whether the bell has been rung and not silenced.
pub(super) fn rings(bell: BorrowedFd<'_>) -> bool {
    is_ready(bell, PollFlags::IN)
}

fn is_ready(bell: BorrowedFd<'_>, flags: PollFlags) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::from_borrowed_fd(bell, flags)], Some(&now)) == Ok(1)
}

/// Waits until `bell` rings, a signal comes, or `timeout` passes.
pub(super) fn poll(bell: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let timeout = Timespec { tv_sec: timeout.as_secs().min(3600) as i64, tv_nsec: timeout.subsec_nanos().into() };
    match rustix::event::poll(&mut [PollFd::from_borrowed_fd(bell, PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
