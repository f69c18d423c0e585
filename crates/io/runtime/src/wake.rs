//! Sleeping on descriptors, and waking whoever does.
//!
//! Always true: a signal is never lost, whether it comes before the sleeper sleeps or while it does; many signals before a
//! sleeper looks are one. Linux: an eventfd and `ppoll`, or, where the network device is polled first, an epoll descriptor of
//! the eventfd and the link; other Unix systems: a pipe and `poll`, with millisecond timeouts.

use pinnace_link::Descriptors;
use std::fs::File;
use std::io::{self, Read, Write};
#[cfg(target_os = "linux")]
use std::os::fd::FromRawFd;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
#[cfg(target_os = "linux")]
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Packets that the device hands over at once, as the kernel does by itself; more needs privileges.
#[cfg(target_os = "linux")]
const POLL_BUDGET: u16 = 64;

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
    /// Of an eventfd that others have as well: whether it is non-blocking is theirs, too.
    #[cfg(target_os = "linux")]
    is_shared: bool,
    /// The other end of a pipe; of what others ring there is none.
    #[cfg(not(target_os = "linux"))]
    write: Option<File>,
}

impl WakeFd {
    /// A descriptor that is not readable yet.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    #[cfg(target_os = "linux")]
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers; the result is checked before use.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and nobody else owns it.
        Ok(Self { read: File::from(unsafe { OwnedFd::from_raw_fd(fd) }), is_shared: false })
    }

    /// A descriptor that is not readable yet.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    #[cfg(not(target_os = "linux"))]
    pub fn new() -> io::Result<Self> {
        let (read, write) = io::pipe()?;
        for fd in [read.as_raw_fd(), write.as_raw_fd()] {
            // SAFETY: `fd` is open; F_SETFL takes an integer.
            if unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { read: File::from(OwnedFd::from(read)), write: Some(File::from(OwnedFd::from(write))) })
    }

    /// Makes the descriptor readable.
    pub fn signal(&self) {
        #[cfg(target_os = "linux")]
        if self.is_shared && !self.can(libc::POLLOUT) {
            return;
        }
        // Fails only when it is full of signals, which is as good as one.
        #[cfg(target_os = "linux")]
        let _ = (&self.read).write(&1u64.to_ne_bytes());
        #[cfg(not(target_os = "linux"))]
        let _ = self.write.as_ref().unwrap_or(&self.read).write(&[1]);
    }

    /// Makes the descriptor unreadable until the next signal.
    pub fn clear(&self) {
        #[cfg(target_os = "linux")]
        if !self.is_shared || !self.read_without_waiting() && self.can(libc::POLLIN) {
            let _ = (&self.read).read(&mut [0; 8]);
        }
        #[cfg(not(target_os = "linux"))]
        while (&self.read).read(&mut [0; 512]).is_ok_and(|len| len == 512) {}
    }

    /// Takes what was signalled, if anything was, whatever others have made of the eventfd. False: the kernel (before 5.12) does
    /// not know how.
    #[cfg(target_os = "linux")]
    fn read_without_waiting(&self) -> bool {
        let mut count = [0u8; 8];
        let into = libc::iovec { iov_base: count.as_mut_ptr().cast(), iov_len: count.len() };
        // SAFETY: one live iovec, as the call is told, of bytes that live; -1 is the offset that means none.
        let read = unsafe { libc::preadv2(self.read.as_raw_fd(), &raw const into, 1, -1, libc::RWF_NOWAIT) };
        read >= 0 || !matches!(io::Error::last_os_error().raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS))
    }

    /// Whether a read, or a write, does not wait now, and would fail if it had to: others may have made it otherwise.
    #[cfg(target_os = "linux")]
    fn can(&self, what: libc::c_short) -> bool {
        let mut entry = libc::pollfd { fd: self.read.as_raw_fd(), events: what, revents: 0 };
        // SAFETY: one entry, as the call is told.
        let is_ready = unsafe { libc::poll(&raw mut entry, 1, 0) } == 1;
        // SAFETY: the descriptor is open; F_SETFL takes an integer.
        is_ready && unsafe { libc::fcntl(entry.fd, libc::F_SETFL, libc::O_NONBLOCK) } == 0
    }

    /// The descriptor to sleep on.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

/// Of an eventfd that others signal. Neither signals nor clearing wait, also if one of them has made it a blocking one. (A
/// signal would if he did so in the middle of it, with the counter full.) Elsewhere than on Linux nobody makes such
/// descriptors.
impl From<OwnedFd> for WakeFd {
    fn from(eventfd: OwnedFd) -> Self {
        Self {
            read: File::from(eventfd),
            #[cfg(target_os = "linux")]
            is_shared: true,
            #[cfg(not(target_os = "linux"))]
            write: None,
        }
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

/// Where the threads of one role sleep, one at a time.
#[derive(Debug)]
pub(crate) struct Bed {
    wake: WakeFd,
    /// Of the descriptor that was slept on last; a link may have another one later.
    #[cfg(target_os = "linux")]
    device: Mutex<Option<Device>>,
}

/// A descriptor, and how its device is polled, if it can be.
#[cfg(target_os = "linux")]
type Device = (RawFd, Option<Arc<DevicePoll>>);

impl Bed {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            wake: WakeFd::new()?,
            #[cfg(target_os = "linux")]
            device: Mutex::default(),
        })
    }

    /// Ends the sleep of now, or the next one.
    pub(crate) fn signal(&self) {
        self.wake.signal();
    }

    /// Sleeps until the link is ready (to be written to as well, if `writable`), or `beside` is readable, or it is signalled, or
    /// `timeout` is over. May return early.
    pub(crate) fn sleep(
        &self,
        link: Descriptors,
        writable: bool,
        beside: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) {
        #[cfg(target_os = "linux")]
        if let Some(most) = link.busy_poll
            && !writable
            && beside.is_none()
            && link.readable >= 0
            // The kernel polls to the end, whatever the timeout.
            && timeout.is_none_or(|timeout| timeout >= most)
            && let Some(device) = self.device(link.readable, most)
        {
            if device.sleep(timeout) {
                self.wake.clear();
            }
            return;
        }
        if sleep(link, writable, beside, &self.wake, timeout) {
            self.wake.clear();
        }
    }

    #[cfg(target_os = "linux")]
    fn device(&self, readable: RawFd, most: Duration) -> Option<Arc<DevicePoll>> {
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        if device.as_ref().is_none_or(|(of, _)| *of != readable) {
            *device = Some((readable, DevicePoll::new(&self.wake, readable, most).ok().map(Arc::new)));
        }
        device.as_ref().and_then(|(_, poll)| poll.clone())
    }

    /// Whether who sleeps here polls the device first: then there is no use in looking before.
    pub(crate) fn polls_device(&self) -> bool {
        #[cfg(target_os = "linux")]
        return matches!(*self.device.lock().unwrap_or_else(PoisonError::into_inner), Some((_, Some(_))));
        #[cfg(not(target_os = "linux"))]
        false
    }
}

/// An epoll descriptor of the link and the waking descriptor, which polls the network device before it sleeps.
///
/// The thread that polls takes the device's work from the processor that sent the datagrams, where the kernel would do it in
/// the sender's time; reads that do not wait cannot, they give it back at once.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct DevicePoll {
    epoll: OwnedFd,
}

#[cfg(target_os = "linux")]
impl DevicePoll {
    /// Linux 6.9 at least.
    fn new(wake: &WakeFd, readable: RawFd, most: Duration) -> io::Result<Self> {
        let check = |result: libc::c_int| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) };
        // SAFETY: takes no pointers; the result is checked before use.
        let epoll = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: just made, and nobody else owns it.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        // SAFETY: a structure of integers, of which zeros are a value.
        let mut params: libc::epoll_params = unsafe { std::mem::zeroed() };
        params.busy_poll_usecs = most.as_micros().min(1_000) as u32;
        params.busy_poll_budget = POLL_BUDGET;
        // SAFETY: the call reads one `epoll_params`, which lives.
        check(unsafe { libc::ioctl(epoll.as_raw_fd(), libc::EPIOCSPARAMS, &raw const params) })?;
        for (fd, is_wake) in [(readable, 0), (wake.as_fd().as_raw_fd(), 1)] {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: is_wake };
            // SAFETY: `event` lives; the kernel checks the descriptors.
            check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) })?;
        }
        Ok(Self { epoll })
    }

    /// Returns whether it was signalled.
    fn sleep(&self, timeout: Option<Duration>) -> bool {
        let timeout = timeout.map(timespec);
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        let (epoll, most) = (self.epoll.as_raw_fd(), events.len() as libc::c_int);
        // SAFETY: the kernel writes at most `most` events, `timeout` is null or points to a live timespec, and a null signal
        // mask changes nothing. Not every C library has a function for it.
        let ready = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                epoll,
                events.as_mut_ptr(),
                most,
                timeout,
                std::ptr::null::<u8>(),
                0usize,
            )
        };
        let ready = usize::try_from(ready).unwrap_or(0);
        events.iter().take(ready).any(|event| event.u64 == 1)
    }
}

#[cfg(target_os = "linux")]
fn timespec(time: Duration) -> libc::timespec {
    libc::timespec { tv_sec: time.as_secs().min(1 << 30) as libc::time_t, tv_nsec: time.subsec_nanos() as libc::c_long }
}

fn entry(fd: RawFd, events: libc::c_short) -> libc::pollfd {
    libc::pollfd { fd, events, revents: 0 }
}

/// Whether a descriptor is readable now.
pub(crate) fn is_readable(fd: BorrowedFd<'_>) -> bool {
    poll(&mut [entry(fd.as_raw_fd(), libc::POLLIN)], Some(Duration::ZERO))
}

/// Sleeps until the link is ready (to be written to as well, if `writable`), or `beside` is readable, or `wake` is signalled, or
/// `timeout` is over. Returns whether `wake` was signalled. May return early.
fn sleep(
    link: Descriptors,
    writable: bool,
    beside: Option<BorrowedFd<'_>>,
    wake: &WakeFd,
    timeout: Option<Duration>,
) -> bool {
    let shared = writable && link.readable == link.writable;
    let mut entries = [
        entry(wake.as_fd().as_raw_fd(), libc::POLLIN),
        entry(link.readable, if shared { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN }),
        // Negative descriptors are passed over.
        entry(if writable && !shared { link.writable } else { -1 }, libc::POLLOUT),
        entry(beside.map_or(-1, |beside| beside.as_raw_fd()), libc::POLLIN),
    ];
    poll(&mut entries, timeout) && entries[0].revents != 0
}

/// Returns whether something is ready.
#[cfg(target_os = "linux")]
fn poll(entries: &mut [libc::pollfd], timeout: Option<Duration>) -> bool {
    let timeout = timeout.map(timespec);
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `entries` has as many entries as the call is told, `timeout` is null or points to a live timespec, and a
    // null signal mask changes nothing.
    unsafe { libc::ppoll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout, std::ptr::null()) > 0 }
}

/// Returns whether something is ready.
#[cfg(not(target_os = "linux"))]
fn poll(entries: &mut [libc::pollfd], timeout: Option<Duration>) -> bool {
    let millis =
        timeout.map_or(-1, |timeout| timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as libc::c_int);
    // SAFETY: `entries` has as many entries as the call is told.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, millis) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const NO_LINK: Descriptors = Descriptors::new(-1, -1);

    #[test]
    fn a_signal_before_the_sleep_is_not_lost_and_two_are_one() {
        let wake = WakeFd::new().unwrap();
        wake.signal();
        wake.signal();
        assert!(sleep(NO_LINK, true, None, &wake, None));
        wake.clear();
        let before = Instant::now();
        assert!(!sleep(NO_LINK, false, None, &wake, Some(Duration::from_millis(20))));
        assert!(before.elapsed() >= Duration::from_millis(19));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_link_may_have_another_descriptor_whose_device_is_polled_then() {
        let bed = Bed::new().unwrap();
        let [first, second] = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        first.send_to(b"unread", first.local_addr().unwrap()).unwrap();
        let sleep = |socket: &std::net::UdpSocket, most| {
            let fd = socket.as_raw_fd();
            let before = Instant::now();
            let link = Descriptors { busy_poll: Some(Duration::from_micros(1)), ..Descriptors::new(fd, fd) };
            bed.sleep(link, false, None, Some(Duration::from_millis(most)));
            assert!(bed.device.lock().unwrap().as_ref().is_some_and(|(of, _)| *of == fd));
            before.elapsed()
        };
        assert!(sleep(&first, 10_000) < Duration::from_secs(5));
        if !bed.polls_device() {
            pinnace_testing::skip::host("this kernel (before 6.9) polls no device for epoll");
            return;
        }
        assert!(sleep(&second, 20) >= Duration::from_millis(19));
        second.send_to(b"here", second.local_addr().unwrap()).unwrap();
        assert!(sleep(&second, 10_000) < Duration::from_secs(5));
        assert!(bed.polls_device());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_eventfd_that_others_made_blocking_waits_for_nobody() {
        // SAFETY: takes no pointers; a descriptor that is none is refused below.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: just made, and nobody else owns it.
        let wake = WakeFd::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            wake.clear();
            wake.signal();
            assert!(sleep(NO_LINK, false, None, &wake, Some(Duration::ZERO)));
            wake.clear();
            assert!(!sleep(NO_LINK, false, None, &wake, Some(Duration::ZERO)));
            // To the brim.
            (&wake.read).write_all(&(u64::MAX - 1).to_ne_bytes()).unwrap();
            // SAFETY: `fd` is open as long as `wake` lives; F_SETFL takes an integer.
            assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFL, 0) }, 0);
            wake.signal();
            wake.clear();
            done.send(()).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(10)).expect("it waits");
    }

    #[test]
    fn a_writable_link_ends_the_sleep_only_if_asked_for() {
        use std::os::unix::net::UnixDatagram;
        let (socket, _peer) = UnixDatagram::pair().unwrap();
        let fd = socket.as_raw_fd();
        let wake = WakeFd::new().unwrap();
        let before = Instant::now();
        assert!(!sleep(Descriptors::new(fd, fd), true, None, &wake, Some(Duration::from_secs(20))));
        assert!(!sleep(Descriptors::new(-1, fd), true, None, &wake, Some(Duration::from_secs(20))));
        assert!(before.elapsed() < Duration::from_secs(10));
        assert!(!sleep(Descriptors::new(fd, fd), false, None, &wake, Some(Duration::from_millis(5))));
        assert!(before.elapsed() >= Duration::from_millis(5));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn polling_the_device_a_bed_hears_signals_arrivals_and_the_timeout() {
        use std::net::UdpSocket;
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let fd = socket.as_raw_fd();
        let link = Descriptors { busy_poll: Some(Duration::from_micros(50)), ..Descriptors::new(fd, fd) };
        let bed = Bed::new().unwrap();
        let slept = |timeout| {
            let before = Instant::now();
            bed.sleep(link, false, None, timeout);
            before.elapsed()
        };
        assert!(slept(Some(Duration::from_millis(20))) >= Duration::from_millis(19));
        if !bed.polls_device() {
            pinnace_testing::skip::host("this kernel has no EPIOCSPARAMS (Linux 6.9)");
            return;
        }
        bed.signal();
        slept(None);
        assert!(slept(Some(Duration::from_millis(20))) >= Duration::from_millis(19), "one signal is one sleep");
        sender.send_to(b"now", socket.local_addr().unwrap()).unwrap();
        slept(None);
        slept(None);
        socket.recv(&mut [0; 8]).unwrap();
        // Shorter than the polling, and for a link that can be written to: the kernel does not poll there.
        assert!(slept(Some(Duration::from_micros(10))) < Duration::from_secs(5));
        bed.sleep(link, true, None, None);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5));
                bed.signal();
            });
            slept(None);
        });
    }
}
