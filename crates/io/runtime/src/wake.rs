//! Sleeping on descriptors, and waking whoever does.
//!
//! Always true: a signal is never lost, whether it comes before the sleeper sleeps or while it does; many signals before a
//! sleeper looks are one. Linux: an eventfd and `ppoll`; other Unix systems: a pipe and `poll`, with millisecond timeouts.

use pinnace_link::Descriptors;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

/// A descriptor that is readable from a signal until it is cleared.
///
/// ```
/// use pinnace_runtime::WakeFd;
/// # fn main() -> std::io::Result<()> {
/// let wake = WakeFd::new()?;
/// wake.signal();
/// wake.clear();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WakeFd {
    read: File,
    #[cfg(not(target_os = "linux"))]
    write: File,
}

impl WakeFd {
    /// A descriptor that is not readable yet.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    #[cfg(target_os = "linux")]
    pub fn new() -> io::Result<Self> {
        use std::os::fd::{FromRawFd, OwnedFd};
        // SAFETY: takes no pointers; the result is checked before use.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and nobody else owns it.
        Ok(Self { read: File::from(unsafe { OwnedFd::from_raw_fd(fd) }) })
    }

    /// A descriptor that is not readable yet.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    #[cfg(not(target_os = "linux"))]
    pub fn new() -> io::Result<Self> {
        use std::os::fd::OwnedFd;
        let (read, write) = io::pipe()?;
        for fd in [read.as_raw_fd(), write.as_raw_fd()] {
            // SAFETY: `fd` is open; F_SETFL takes an integer.
            if unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { read: File::from(OwnedFd::from(read)), write: File::from(OwnedFd::from(write)) })
    }

    /// Makes the descriptor readable.
    pub fn signal(&self) {
        // Fails only when it is full of signals, which is as good as one.
        #[cfg(target_os = "linux")]
        let _ = (&self.read).write(&1u64.to_ne_bytes());
        #[cfg(not(target_os = "linux"))]
        let _ = (&self.write).write(&[1]);
    }

    /// Makes the descriptor unreadable until the next signal.
    pub fn clear(&self) {
        #[cfg(target_os = "linux")]
        let _ = (&self.read).read(&mut [0; 8]);
        #[cfg(not(target_os = "linux"))]
        while (&self.read).read(&mut [0; 512]).is_ok_and(|len| len == 512) {}
    }

    /// The descriptor to sleep on.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

/// Of an eventfd that others signal.
#[cfg(target_os = "linux")]
impl From<std::os::fd::OwnedFd> for WakeFd {
    fn from(eventfd: std::os::fd::OwnedFd) -> Self {
        Self { read: File::from(eventfd) }
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

/// Sleeps until the link is ready (to be written to as well, if `writable`), or `wake` is signalled, or `timeout` is
/// over. Returns whether `wake` was signalled. May return early.
pub(crate) fn sleep(link: Descriptors, writable: bool, wake: &WakeFd, timeout: Option<Duration>) -> bool {
    let entry = |fd: RawFd, events: libc::c_short| libc::pollfd { fd, events, revents: 0 };
    let shared = writable && link.readable == link.writable;
    let mut entries = [
        entry(wake.as_fd().as_raw_fd(), libc::POLLIN),
        entry(link.readable, if shared { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN }),
        // Negative descriptors are passed over.
        entry(if writable && !shared { link.writable } else { -1 }, libc::POLLOUT),
    ];
    poll(&mut entries, timeout) && entries[0].revents != 0
}

/// Returns whether something is ready.
#[cfg(target_os = "linux")]
fn poll(entries: &mut [libc::pollfd; 3], timeout: Option<Duration>) -> bool {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().min(1 << 30) as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `entries` has as many entries as the call is told, `timeout` is null or points to a live timespec, and a
    // null signal mask changes nothing.
    unsafe { libc::ppoll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout, std::ptr::null()) > 0 }
}

/// Returns whether something is ready.
#[cfg(not(target_os = "linux"))]
fn poll(entries: &mut [libc::pollfd; 3], timeout: Option<Duration>) -> bool {
    let millis =
        timeout.map_or(-1, |timeout| timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as libc::c_int);
    // SAFETY: `entries` has as many entries as the call is told.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, millis) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const NO_LINK: Descriptors = Descriptors { readable: -1, writable: -1 };

    #[test]
    fn a_signal_before_the_sleep_is_not_lost_and_two_are_one() {
        let wake = WakeFd::new().unwrap();
        wake.signal();
        wake.signal();
        assert!(sleep(NO_LINK, true, &wake, None));
        wake.clear();
        let before = Instant::now();
        assert!(!sleep(NO_LINK, false, &wake, Some(Duration::from_millis(20))));
        assert!(before.elapsed() >= Duration::from_millis(19));
    }

    #[test]
    fn a_writable_link_ends_the_sleep_only_if_asked_for() {
        use std::os::unix::net::UnixDatagram;
        let (socket, _peer) = UnixDatagram::pair().unwrap();
        let fd = socket.as_raw_fd();
        let wake = WakeFd::new().unwrap();
        let before = Instant::now();
        assert!(!sleep(Descriptors { readable: fd, writable: fd }, true, &wake, Some(Duration::from_secs(20))));
        assert!(!sleep(Descriptors { readable: -1, writable: fd }, true, &wake, Some(Duration::from_secs(20))));
        assert!(before.elapsed() < Duration::from_secs(10));
        assert!(!sleep(Descriptors { readable: fd, writable: fd }, false, &wake, Some(Duration::from_millis(5))));
        assert!(before.elapsed() >= Duration::from_millis(5));
    }
}
