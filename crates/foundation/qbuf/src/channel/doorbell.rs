//! Doorbells: an eventfd that one side rings to wake the other, which polls it.
//!
//! Always true: nothing here waits but [`poll`], and that not beyond its timeout. Both descriptors are non-blocking, which is a
//! property of the file, and the file is shared: a peer that takes it away *and* fills the counter to its brim (2^64 - 2) makes
//! one ring wait. Reading shared memory cannot cause that.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// A bell that has not been rung.
pub(super) fn create() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Rings: `bell` is readable from now on. That a full counter refuses is no error: such a bell is readable already.
#[cold]
pub(super) fn ring(bell: BorrowedFd<'_>) {
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// Like [`ring`], for who watches over processes that he does not trust: also if one has made the bell a waiting one and filled
/// it, this does not wait. (To make it wait one would have to do both in the instant between these calls.)
#[cold]
pub(super) fn ring_without_waiting(bell: BorrowedFd<'_>) {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A full one rings already.
    let has_room = rustix::event::poll(&mut [PollFd::from_borrowed_fd(bell, PollFlags::OUT)], Some(&now)) == Ok(1);
    if has_room && rustix::fs::fcntl_setfl(bell, rustix::fs::OFlags::NONBLOCK).is_ok() {
        ring(bell);
    }
}

/// Silences the bell.
pub(super) fn silence(bell: BorrowedFd<'_>) {
    let _ = rustix::io::read(bell, &mut [0u8; 8]);
}

/// Waits until `bell` rings, a signal comes, or `timeout` passes.
pub(super) fn poll(bell: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let timeout = Timespec { tv_sec: timeout.as_secs().min(3600) as i64, tv_nsec: timeout.subsec_nanos().into() };
    match rustix::event::poll(&mut [PollFd::from_borrowed_fd(bell, PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
