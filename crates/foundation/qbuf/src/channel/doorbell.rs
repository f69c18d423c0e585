//! Doorbells: an eventfd that one side rings to wake the other, which polls it.
//!
//! Always true: nothing here waits but [`poll`], and that not beyond its timeout. Both descriptors are non-blocking, which is a property of
//! the file that both processes share: a peer that takes it away and fills the counter to its brim (2^64 - 2) makes a ring wait
//! until somebody reads. Whoever must not depend on a hostile peer even so, rings from a thread that can be left waiting.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A bell that has not been rung.
pub(super) fn create() -> io::Result<OwnedFd> {
    // SAFETY: plain system call; the descriptor it returns is ours alone.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Rings: `bell` is readable from now on. That a full counter refuses is no error: such a bell is readable already.
#[cold]
pub(super) fn ring(bell: BorrowedFd<'_>) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: `one` is eight readable bytes.
    let _ = unsafe { libc::write(bell.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// Silences the bell.
pub(super) fn silence(bell: BorrowedFd<'_>) {
    let mut count = [0u8; 8];
    // SAFETY: `count` is eight writable bytes.
    let _ = unsafe { libc::read(bell.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
}

/// Waits until `bell` rings, a signal comes, or `timeout` passes.
pub(super) fn poll(bell: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let mut entry = libc::pollfd { fd: bell.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let timeout = libc::timespec { tv_sec: timeout.as_secs().min(3600) as libc::time_t, tv_nsec: timeout.subsec_nanos().into() };
    // SAFETY: one valid entry, and a timeout that outlives the call.
    if unsafe { libc::ppoll(&raw mut entry, 1, &raw const timeout, std::ptr::null()) } >= 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        error => Err(error),
    }
}
