//! The socket of a context: a descriptor that the application sees and may wait on.
//!
//! Always true: the application's own sockets are not closed, and none of their flags and options is changed; they are
//! bound or connected where they are not yet, because nothing else could be done with them.

use super::address::{of_storage, to_storage};
use crate::errors::Errno;
use libc::{c_int, c_void, sockaddr_storage, socklen_t};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Bytes of receive buffer to ask for: datagrams weigh more in it than their bytes.
const RECEIVE_BUFFER: c_int = 4 << 20;

/// A datagram socket.
#[derive(Debug)]
pub(super) struct Socket {
    fd: RawFd,
    /// It is the library's. Not an `OwnedFd`: an application that closes it all the same has made a mistake, and that is no
    /// reason to abort.
    is_own: bool,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_own {
            // SAFETY: takes no pointers; nobody uses the descriptor any more.
            unsafe { libc::close(self.fd) };
        }
    }
}

fn last() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

fn check(result: c_int) -> Result<c_int, Errno> {
    if result < 0 { Err(last()) } else { Ok(result) }
}

fn fresh(family: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: takes no pointers; the result is checked.
    let fd = check(unsafe { libc::socket(family, libc::SOCK_DGRAM, libc::IPPROTO_UDP) })?;
    // SAFETY: just made, and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the descriptor is open. A failure changes nothing that matters.
    unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    let bytes = RECEIVE_BUFFER;
    let (value, len) = ((&raw const bytes).cast::<c_void>(), size_of::<c_int>() as socklen_t);
    // SAFETY: the value lives through the call. A smaller buffer serves, too.
    unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, value, len) };
    Ok(socket)
}

impl Socket {
    /// A new one, for IPv4 until something else is wanted of it.
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self { fd: fresh(libc::AF_INET)?.into_raw_fd(), is_own: true })
    }

    /// The application's: a UDP socket.
    pub(super) fn of_application(fd: RawFd) -> Result<Self, Errno> {
        let socket = Self { fd, is_own: false };
        if socket.option(libc::SO_TYPE)? != libc::SOCK_DGRAM {
            return Err(Errno(libc::EPROTOTYPE));
        }
        // Nothing but an internet address is of use.
        socket.local()?;
        Ok(socket)
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.fd
    }

    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }

    fn option(&self, name: c_int) -> Result<c_int, Errno> {
        let mut value: c_int = 0;
        let mut len = size_of::<c_int>() as socklen_t;
        let at = (&raw mut value).cast::<c_void>();
        // SAFETY: value and length live through the call.
        check(unsafe { libc::getsockopt(self.fd, libc::SOL_SOCKET, name, at, &raw mut len) })?;
        Ok(value)
    }

    fn name(
        &self,
        call: unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut socklen_t) -> c_int,
    ) -> Result<Option<SocketAddr>, Errno> {
        // SAFETY: all zero is a valid address of no family.
        let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
        let mut len = size_of::<sockaddr_storage>() as socklen_t;
        // SAFETY: name and length live through the call, and the length is right.
        check(unsafe { call(self.fd, (&raw mut storage).cast(), &raw mut len) })?;
        of_storage(&storage)
    }

    /// What it is bound to; port 0: nothing.
    pub(super) fn local(&self) -> Result<SocketAddr, Errno> {
        self.name(libc::getsockname)?.ok_or(Errno(libc::EAFNOSUPPORT))
    }

    /// Whom it is connected to.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.name(libc::getpeername).ok().flatten()
    }

    /// Sees to it that addresses like this can be used: one of our own becomes a socket of the other family, under the
    /// same descriptor.
    fn suit(&mut self, address: IpAddr) -> Result<bool, Errno> {
        let local = self.local()?;
        if local.is_ipv4() == address.is_ipv4() {
            return Ok(false);
        }
        if address.is_ipv4() {
            // An IPv6 socket carries IPv4 as well.
            return Ok(true);
        }
        if !self.is_own || local.port() != 0 {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        let is_blocking = !self.is_nonblocking();
        let other = fresh(libc::AF_INET6)?;
        // SAFETY: both descriptors are open, and the one that is replaced is ours.
        check(unsafe { libc::dup2(other.as_raw_fd(), self.fd) })?;
        // SAFETY: the descriptor is open.
        unsafe {
            libc::fcntl(self.fd, libc::F_SETFD, libc::FD_CLOEXEC);
            if !is_blocking {
                let flags = libc::fcntl(self.fd, libc::F_GETFL);
                libc::fcntl(self.fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
            }
        }
        Ok(false)
    }

    /// Binds it, if it is not bound; it has to be bound to `port` then (0: any).
    pub(super) fn bind(&mut self, host: IpAddr, port: u16) -> Result<(), Errno> {
        let is_mapped = self.suit(host)?;
        let local = self.local()?;
        if local.port() != 0 {
            return if port == 0 || local.port() == port { Ok(()) } else { Err(Errno(libc::EINVAL)) };
        }
        let (name, len) = to_storage(SocketAddr::new(suited(host, is_mapped), port));
        // SAFETY: the name lives through the call, and the length is its.
        check(unsafe { libc::bind(self.fd, (&raw const name).cast(), len) }).map(drop)
    }

    /// Connects it.
    pub(super) fn connect(&mut self, peer: SocketAddr) -> Result<(), Errno> {
        let is_mapped = self.suit(peer.ip())?;
        let peer = if is_mapped { SocketAddr::new(suited(peer.ip(), true), peer.port()) } else { peer };
        let (name, len) = to_storage(peer);
        // SAFETY: the name lives through the call, and the length is its.
        check(unsafe { libc::connect(self.fd, (&raw const name).cast(), len) }).map(drop)
    }

    pub(super) fn is_nonblocking(&self) -> bool {
        // SAFETY: takes no pointers; a descriptor that is closed has no flags.
        let flags = unsafe { libc::fcntl(self.fd, libc::F_GETFL) };
        flags >= 0 && flags & libc::O_NONBLOCK != 0
    }

    /// Waits until there is something to read (or to write), at most so long.
    pub(super) fn wait(&self, writes: bool, timeout: Option<Duration>) -> Result<(), Errno> {
        let events = if writes { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
        let mut entry = libc::pollfd { fd: self.fd, events, revents: 0 };
        check(poll(&mut entry, timeout))?;
        if entry.revents & libc::POLLNVAL != 0 { Err(Errno(libc::EBADF)) } else { Ok(()) }
    }
}

#[cfg(target_os = "linux")]
fn poll(entry: &mut libc::pollfd, timeout: Option<Duration>) -> c_int {
    let timeout = timeout.map(|left| libc::timespec {
        tv_sec: left.as_secs().min(60) as libc::time_t,
        tv_nsec: left.subsec_nanos() as _,
    });
    let at = timeout.as_ref().map_or(std::ptr::null(), |timeout| &raw const *timeout);
    // SAFETY: one entry and a time, which live through the call.
    unsafe { libc::ppoll(&raw mut *entry, 1, at, std::ptr::null()) }
}

#[cfg(not(target_os = "linux"))]
fn poll(entry: &mut libc::pollfd, timeout: Option<Duration>) -> c_int {
    // Rounded up: a timer does not fire early.
    let millis = timeout.map_or(-1, |left| left.as_nanos().div_ceil(1_000_000).min(60_000) as c_int);
    // SAFETY: one entry, which lives through the call.
    unsafe { libc::poll(&raw mut *entry, 1, millis) }
}

fn suited(host: IpAddr, is_mapped: bool) -> IpAddr {
    match host {
        IpAddr::V4(v4) if is_mapped && v4.is_unspecified() => Ipv6Addr::UNSPECIFIED.into(),
        IpAddr::V4(v4) if is_mapped => v4.to_ipv6_mapped().into(),
        host => host,
    }
}

/// Every address of the family that `host` is of.
pub(super) fn everywhere(host: IpAddr) -> IpAddr {
    if host.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}
