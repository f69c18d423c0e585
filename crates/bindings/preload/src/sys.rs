//! System calls for the library's own use, without the C library's wrappers (some of which this library replaces).
//!
//! Always true: nothing here allocates, locks or calls a replaced function, so all of it may run in a signal handler and
//! between fork and exec. Each call answers with the value or the error number; `errno` is the caller's business.

use core::ffi::{c_int, c_long, c_short, c_void};
use core::mem::{MaybeUninit, size_of};
use core::sync::atomic::AtomicI32;

/// A value, or an error number.
pub(crate) type Outcome<T = c_int> = Result<T, c_int>;

/// The thread's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: the pointer to the thread's errno is always valid.
    unsafe { *libc::__errno_location() }
}

/// Sets the thread's `errno`.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the pointer to the thread's errno is always valid.
    unsafe { *libc::__errno_location() = value }
}

fn check(value: c_long) -> Outcome {
    if value == -1 { Err(errno()) } else { Ok(value as c_int) }
}

macro_rules! call {
    ($number:ident $(, $argument:expr)*) => {
        // SAFETY: every pointer among the arguments comes from a reference that lives through the call, with its true length.
        check(unsafe { libc::syscall(libc::$number $(, $argument)*) })
    };
}

pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Outcome {
    call!(SYS_socket, domain, kind, protocol)
}

pub(crate) fn close(fd: c_int) {
    let _ = call!(SYS_close, fd);
}

pub(crate) fn bind(fd: c_int, address: &[u8]) -> Outcome {
    call!(SYS_bind, fd, address.as_ptr(), address.len())
}

pub(crate) fn connect(fd: c_int, address: &[u8]) -> Outcome {
    call!(SYS_connect, fd, address.as_ptr(), address.len())
}

pub(crate) fn listen(fd: c_int, backlog: c_int) -> Outcome {
    call!(SYS_listen, fd, backlog)
}

/// Accepts, and says who it is: the bytes of the peer's address.
pub(crate) fn accept4(fd: c_int, address: &mut [u8; 128], flags: c_int) -> Outcome<(c_int, &[u8])> {
    let mut len = address.len() as libc::socklen_t;
    let accepted = call!(SYS_accept4, fd, address.as_mut_ptr(), &raw mut len, flags)?;
    Ok((accepted, &address[..(len as usize).min(address.len())]))
}

pub(crate) fn shutdown(fd: c_int, how: c_int) -> Outcome {
    call!(SYS_shutdown, fd, how)
}

/// Which of a socket's two addresses.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Own,
    Peer,
}

/// The bytes of a socket's address.
pub(crate) fn address(fd: c_int, end: End, buffer: &mut [u8; 128]) -> Outcome<&[u8]> {
    let mut len = buffer.len() as libc::socklen_t;
    match end {
        End::Own => call!(SYS_getsockname, fd, buffer.as_mut_ptr(), &raw mut len)?,
        End::Peer => call!(SYS_getpeername, fd, buffer.as_mut_ptr(), &raw mut len)?,
    };
    Ok(&buffer[..(len as usize).min(buffer.len())])
}

/// Plain data that the kernel may fill with any bytes.
pub(crate) trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for [u8; 16] {}
impl Plain for c_int {}
impl Plain for u64 {}
impl Plain for libc::timeval {}
impl Plain for libc::linger {}
impl Plain for libc::ucred {}

/// A socket option of a fixed size.
pub(crate) fn option<T: Plain>(fd: c_int, level: c_int, name: c_int) -> Outcome<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    call!(SYS_getsockopt, fd, level, name, value.as_mut_ptr(), &raw mut len)?;
    // SAFETY: all zeroes is a value of every `Plain` type, and so is whatever the kernel wrote over it.
    Ok(unsafe { value.assume_init() })
}

/// Sets a socket option of a fixed size.
pub(crate) fn set_option<T: Plain>(fd: c_int, level: c_int, name: c_int, value: &T) -> Outcome {
    call!(SYS_setsockopt, fd, level, name, &raw const *value, size_of::<T>())
}

pub(crate) fn fcntl(fd: c_int, command: c_int, argument: c_int) -> Outcome {
    call!(SYS_fcntl, fd, command, argument)
}

pub(crate) fn dup3(old: c_int, new: c_int, flags: c_int) -> Outcome {
    call!(SYS_dup3, old, new, flags)
}

pub(crate) fn epoll_create(flags: c_int) -> Outcome {
    call!(SYS_epoll_create1, flags)
}

pub(crate) fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, events: u32, data: u64) -> Outcome {
    let event = libc::epoll_event { events, u64: data };
    call!(SYS_epoll_ctl, epoll, operation, fd, &raw const event)
}

pub(crate) fn open(path: &core::ffi::CStr, flags: c_int) -> Outcome {
    call!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags | libc::O_CLOEXEC, 0)
}

pub(crate) fn read(fd: c_int, buffer: &mut [u8]) -> Outcome<usize> {
    call!(SYS_read, fd, buffer.as_mut_ptr(), buffer.len()).map(|count| count as usize)
}

pub(crate) fn write(fd: c_int, bytes: &[u8]) -> Outcome<usize> {
    call!(SYS_write, fd, bytes.as_ptr(), bytes.len()).map(|count| count as usize)
}

pub(crate) fn getdents(fd: c_int, buffer: &mut [u8]) -> Outcome<usize> {
    call!(SYS_getdents64, fd, buffer.as_mut_ptr(), buffer.len()).map(|count| count as usize)
}

pub(crate) fn readlink<'a>(path: &core::ffi::CStr, buffer: &'a mut [u8]) -> Outcome<&'a [u8]> {
    let len = call!(SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), buffer.as_mut_ptr(), buffer.len())?;
    Ok(&buffer[..(len as usize).min(buffer.len())])
}

pub(crate) fn send(fd: c_int, bytes: &[u8]) -> Outcome<usize> {
    let none: *const c_void = core::ptr::null();
    call!(SYS_sendto, fd, bytes.as_ptr(), bytes.len(), libc::MSG_NOSIGNAL, none, 0).map(|count| count as usize)
}

pub(crate) fn recv(fd: c_int, buffer: &mut [u8]) -> Outcome<usize> {
    let none: *mut c_void = core::ptr::null_mut();
    call!(SYS_recvfrom, fd, buffer.as_mut_ptr(), buffer.len(), 0, none, none).map(|count| count as usize)
}

/// Receives a message and the first descriptor that comes with it, close-on-exec; further ones are closed.
pub(crate) fn recv_descriptor(fd: c_int, buffer: &mut [u8]) -> Outcome<(usize, Option<c_int>)> {
    // Room for one descriptor, aligned as a control message has to be.
    let mut control = [0_u64; 4];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: zeroes are a message without anything; then everything that it points to is set, and lives through the call.
    let mut message = unsafe {
        let mut message: libc::msghdr = core::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        // Not CMSG_SPACE: in what aligns the next message the kernel would find room for a second one.
        message.msg_controllen = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
        message
    };
    let count = call!(SYS_recvmsg, fd, &raw mut message, libc::MSG_CMSG_CLOEXEC)?;
    // SAFETY: the kernel has filled `control` as far as it says; a control message of this kind has a descriptor in it.
    let descriptor = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let is_rights = !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_RIGHTS
            && (*header).cmsg_len as usize >= libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
        is_rights.then(|| libc::CMSG_DATA(header).cast::<c_int>().read_unaligned())
    };
    Ok((count as usize, descriptor))
}

/// Which file a descriptor is: device and inode.
pub(crate) fn identity(fd: c_int) -> Outcome<(u64, u64)> {
    let mut facts = MaybeUninit::<libc::stat>::zeroed();
    call!(SYS_fstat, fd, facts.as_mut_ptr())?;
    // SAFETY: all zeroes is a value of it, and so is what the kernel wrote over it.
    let facts = unsafe { facts.assume_init() };
    Ok((facts.st_dev, facts.st_ino))
}

pub(crate) fn pid() -> libc::pid_t {
    call!(SYS_getpid).unwrap_or(-1)
}

/// A number in memory of its own, which a child finds to be 0 when it has a copy of its parent's memory.
pub(crate) fn forgotten_by_children() -> Option<*mut AtomicI32> {
    const PAGE: usize = 4096;
    let none: *mut c_void = core::ptr::null_mut();
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, at no address of ours.
    let place = unsafe { libc::mmap(none, PAGE, access, kind, -1, 0) };
    if place == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: it was mapped just now, with this size, and nobody else knows it.
    unsafe {
        if libc::madvise(place, PAGE, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(place, PAGE);
            return None;
        }
    }
    Some(place.cast())
}

/// What has happened to a descriptor by now.
pub(crate) fn poll_now(fd: c_int, events: c_short) -> c_short {
    let mut poll = libc::pollfd { fd, events, revents: 0 };
    let time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let none: *const c_void = core::ptr::null();
    let _ = call!(SYS_ppoll, &raw mut poll, 1, &raw const time, none, 0);
    poll.revents
}

/// The bytes that a socket has to read.
pub(crate) fn unread(fd: c_int) -> usize {
    let mut count: c_int = 0;
    match call!(SYS_ioctl, fd, libc::FIONREAD, &raw mut count) {
        Ok(_) => count.max(0) as usize,
        Err(_) => 0,
    }
}

pub(crate) fn euid() -> libc::uid_t {
    // SAFETY: it has no conditions.
    unsafe { libc::geteuid() }
}

/// A number that nobody can guess; without the kernel's help one that differs from call to call.
pub(crate) fn random() -> u32 {
    let mut bytes = [0_u8; 4];
    match call!(SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), libc::GRND_NONBLOCK) {
        Ok(4) => u32::from_ne_bytes(bytes),
        _ => {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: `time` lives through the call.
            unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
            (time.tv_nsec as u32).wrapping_mul(0x9e37_79b1)
        }
    }
}

/// Time that goes on evenly.
pub(crate) fn milliseconds() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// The soft limit of descriptors.
pub(crate) fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 { limit.rlim_cur } else { 1024 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::pipe;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn of_several_descriptors_one_is_received() {
        let (here, there) = UnixStream::pair().expect("two sockets");
        let pipes = [pipe(), pipe()].map(|pipe| pipe.expect("a pipe"));
        let numbers = pipes.each_ref().map(|(_, writer)| writer.as_raw_fd());
        let mut control = [0_u64; 3];
        let mut part = libc::iovec { iov_base: c"OK".as_ptr().cast_mut().cast(), iov_len: 2 };
        // SAFETY: zeroes are a message without anything; then everything that it points to is set, and lives through the call; a
        // control message with two descriptors has 24 bytes.
        let sent = unsafe {
            let mut message: libc::msghdr = core::mem::zeroed();
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_LEN(size_of_val(&numbers) as u32) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = message.msg_controllen;
            libc::CMSG_DATA(header).cast::<[c_int; 2]>().write_unaligned(numbers);
            libc::sendmsg(there.as_raw_fd(), &raw const message, 0)
        };
        assert_eq!(sent, 2);
        let readers = pipes.map(|(reader, _)| reader);
        let mut bytes = [0; 8];
        let (count, descriptor) = recv_descriptor(here.as_raw_fd(), &mut bytes).expect("it has come");
        let hang_ups = || readers.each_ref().map(|reader| poll_now(reader.as_raw_fd(), 0) & libc::POLLHUP != 0);
        assert_eq!((&bytes[..count], hang_ups()), (&b"OK"[..], [false, true]), "the second is nobody's");
        close(descriptor.expect("the first"));
        assert_eq!(hang_ups(), [true; 2]);
    }
}
