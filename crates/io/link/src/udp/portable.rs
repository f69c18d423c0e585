//! [`PortableUdpLink`]: UDP through the standard library, one datagram at a time, copied. What [`crate::UdpLink`] is on
//! systems other than Linux; there on Linux too, to be tested and compared.
//!
//! Needs a Unix, for descriptors to sleep on.
//!
//! Always true: a peer of IPv4 has one name, on a socket of IPv6 as well, which says another to the system.

use super::{ASSUMED_MTU, HEADERS_V4, HEADERS_V6, MAX_PAYLOAD, UdpOptions};
use crate::socket::{canonical, option, set_option};
use crate::{BufferTable, Descriptors, Link, LinkCounters, ReadBuffer, ReadOutcome, Received, SendOutcome};
use pinnace_core::{Address, BufferRange, Ecn, ReceivePlan, RxMeta, Train, TrainLimits};
use std::io::{self, ErrorKind};
use std::mem::{ManuallyDrop, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Every system gives as much as this.
const LEAST_BUFFER: usize = 128 << 10;

/// UDP without the offloads of Linux. See [`crate::UdpLink`] for the methods they share.
#[derive(Debug)]
pub struct PortableUdpLink {
    /// Never dropped as a socket: `owned` says whether the descriptor is ours to close.
    read: ManuallyDrop<UdpSocket>,
    write: ManuallyDrop<UdpSocket>,
    owned: bool,
    /// The caller's, to be closed with the link.
    kept: Option<[OwnedFd; 2]>,
    /// The caller's, and without a peer.
    unconnected: bool,
    /// Of IPv6.
    is_v6: bool,
    receive_buffer: usize,
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    staging: Box<[u8]>,
    counters: LinkCounters,
}

impl Drop for PortableUdpLink {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: nothing uses the socket after this; `write` is the same descriptor and is not dropped.
            unsafe { ManuallyDrop::drop(&mut self.read) };
        }
    }
}

impl PortableUdpLink {
    /// A link on a new socket bound to `local`, which hears everybody.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn bind(local: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let socket = open(local)?;
        // Systems differ in what they do by themselves.
        if local.is_ipv6() && (options.v6_only || local.ip().is_unspecified()) {
            set_option(socket.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, options.v6_only.into())?;
        }
        Self::on(socket, local, options)
    }

    /// A link bound to `at`, beside others that are.
    #[cfg_attr(target_os = "linux", allow(dead_code, reason = "where it is the UDP link, groups are heard on it"))]
    pub(super) fn bind_shared(at: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let socket = open(at)?;
        set_option(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        Self::on(socket, at, options)
    }

    /// The socket, if it is this link's own, to set options of it.
    #[cfg_attr(target_os = "linux", allow(dead_code, reason = "where it is the UDP link, it sends to groups"))]
    pub(super) fn own_socket(&self) -> io::Result<&UdpSocket> {
        let refused = || io::Error::new(ErrorKind::Unsupported, "options of a caller's socket are not changed");
        if self.owned { Ok(&self.read) } else { Err(refused()) }
    }

    /// A link on a new socket, bound to `at`.
    fn on(socket: UdpSocket, at: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let fd = socket.as_raw_fd();
        let (name, len) = name_of(at);
        // SAFETY: the name and its length are those of `name_of`.
        if unsafe { libc::bind(fd, (&raw const name).cast(), len) } < 0 {
            return Err(io::Error::last_os_error());
        }
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        // SAFETY: `fd` stays open as long as the link; only `read` closes it.
        let write = ManuallyDrop::new(unsafe { UdpSocket::from_raw_fd(fd) });
        let mut link = Self::new(ManuallyDrop::new(socket), write);
        link.is_v6 = local.is_ipv6();
        link.local = Some(canonical(local));
        link.owned = true;
        link.receive_buffer = size_buffer(fd, libc::SO_RCVBUF, options.receive_buffer);
        size_buffer(fd, libc::SO_SNDBUF, options.send_buffer);
        Ok(link)
    }

    /// A link to `peer` alone, on the port of this one: not every system has such.
    ///
    /// # Errors
    /// Always.
    pub fn connect_beside(&self, _peer: SocketAddr, _options: &UdpOptions) -> io::Result<Self> {
        Err(io::Error::new(ErrorKind::Unsupported, "a port has one socket here"))
    }

    /// What others have sent to a peer's own link: here there is none.
    pub fn take_strays(&mut self, _each: impl FnMut(SocketAddr, &[u8])) {}

    /// Whether what is read next came from a peer that has a link of its own: here none has.
    pub fn next_is_from(&self, _peer: SocketAddr) -> bool {
        false
    }

    /// A link in the place of this one: not every system has such.
    ///
    /// # Errors
    /// Always.
    pub fn bind_again(&self, _bound: SocketAddr, _options: &UdpOptions) -> io::Result<Self> {
        Err(io::Error::new(ErrorKind::Unsupported, "a port has one socket here"))
    }

    /// A link to `peer` alone.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn connect(local: Option<SocketAddr>, peer: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let mut link = Self::bind(local.unwrap_or(SocketAddr::new(any, 0)), options)?;
        link.connect_to(peer)?;
        Ok(link)
    }

    /// Makes `peer` the only one that this link talks with.
    ///
    /// # Errors
    /// If there is no way to the peer, or if the descriptor is the caller's.
    pub fn connect_to(&mut self, peer: SocketAddr) -> io::Result<()> {
        if !self.owned {
            return Err(io::Error::new(ErrorKind::Unsupported, "a caller's socket is not connected elsewhere"));
        }
        self.write.connect(self.named(peer))?;
        self.local = self.write.local_addr().ok().map(canonical);
        self.peer = Some(canonical(peer));
        Ok(())
    }

    /// A link over a connected datagram socket of the caller, whose flags are not changed.
    ///
    /// # Errors
    /// If the descriptor is not that of a socket.
    ///
    /// # Safety
    /// `fd` must stay open as long as the link lives.
    pub unsafe fn from_borrowed_fd(fd: RawFd, options: &UdpOptions) -> io::Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::from_descriptors(fd, fd, options) }
    }

    /// As [`PortableUdpLink::from_borrowed_fd`], reading from one socket and writing to another.
    ///
    /// # Errors
    /// If one of the descriptors is not that of a socket.
    ///
    /// # Safety
    /// Both must stay open as long as the link lives.
    pub unsafe fn from_descriptors(read_fd: RawFd, write_fd: RawFd, _options: &UdpOptions) -> io::Result<Self> {
        // SAFETY: open by the caller's promise, and never closed here.
        let (read, write) = unsafe { (UdpSocket::from_raw_fd(read_fd), UdpSocket::from_raw_fd(write_fd)) };
        let mut link = Self::new(ManuallyDrop::new(read), ManuallyDrop::new(write));
        link.read.take_error()?;
        link.write.take_error()?;
        let local = link.read.local_addr().ok();
        link.is_v6 = local.is_some_and(|local| local.is_ipv6());
        link.local = local.map(canonical);
        link.peer = link.read.peer_addr().ok().map(canonical);
        Ok(link)
    }

    /// The same, of sockets that are closed with the link.
    ///
    /// # Errors
    /// As [`PortableUdpLink::from_descriptors`].
    pub fn from_sockets(read: OwnedFd, write: OwnedFd, options: &UdpOptions) -> io::Result<Self> {
        // SAFETY: the link keeps both.
        let mut link = unsafe { Self::from_descriptors(read.as_raw_fd(), write.as_raw_fd(), options)? };
        link.kept = Some([read, write]);
        Ok(link)
    }

    /// A link over a bound UDP socket of the caller that has no peer, and hears everybody.
    ///
    /// # Errors
    /// If the descriptor is not that of a socket.
    ///
    /// # Safety
    /// `fd` must stay open as long as the link lives.
    pub unsafe fn from_unconnected_fd(fd: RawFd, options: &UdpOptions) -> io::Result<Self> {
        // SAFETY: the caller's promise.
        let mut link = unsafe { Self::from_borrowed_fd(fd, options)? };
        link.unconnected = true;
        link.peer = None;
        Ok(link)
    }

    fn new(read: ManuallyDrop<UdpSocket>, write: ManuallyDrop<UdpSocket>) -> Self {
        let staging = vec![0; ReadBuffer::READ_BYTES].into_boxed_slice();
        Self {
            read,
            write,
            owned: false,
            kept: None,
            unconnected: false,
            is_v6: false,
            receive_buffer: LEAST_BUFFER,
            local: None,
            peer: None,
            staging,
            counters: LinkCounters::default(),
        }
    }

    /// Fragmentation cannot be switched here; systems other than Linux allow it unless told otherwise.
    ///
    /// # Errors
    /// Never.
    pub fn allow_fragmentation(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Bytes of receive buffer that the system gave, at most as many as were asked for; of a caller's socket a cautious guess.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer
    }

    /// What works less well than it could.
    pub fn warnings(&self) -> Vec<String> {
        vec!["this system's offloads are not used: one system call a datagram".to_owned()]
    }

    /// The address that this link is bound to.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.local
    }

    /// The one peer, if there is one and it has an internet address.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// As the socket's family names it.
    fn named(&self, address: SocketAddr) -> SocketAddr {
        match canonical(address) {
            SocketAddr::V4(v4) if self.is_v6 => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
            address => address,
        }
    }

    fn connected(&self) -> bool {
        self.peer.is_some() || !(self.owned || self.unconnected)
    }

    fn send_one(&self, bytes: &[u8], to: Option<SocketAddr>) -> io::Result<()> {
        match to {
            Some(to) if self.owned => self.write.send_to(bytes, to).map(drop),
            None if self.owned => self.write.send(bytes).map(drop),
            to => {
                let (fd, name) = (self.write.as_raw_fd(), to.map(name_of));
                let (name, len) =
                    name.as_ref().map_or((std::ptr::null(), 0), |(name, len)| ((&raw const *name).cast(), *len));
                // SAFETY: the pointers and the lengths are those of `bytes` and of the name. The caller's socket may be a
                // blocking one, so this call says that it must not block.
                let sent =
                    unsafe { libc::sendto(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT, name, len) };
                if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
            }
        }
    }

    fn receive_one(&mut self) -> io::Result<(usize, Option<SocketAddr>)> {
        if self.owned {
            return self.read.recv_from(&mut self.staging).map(|(bytes, from)| (bytes, Some(from)));
        }
        let into = &mut self.staging;
        // SAFETY: all zeros is a valid `sockaddr_storage`.
        let mut from: libc::sockaddr_storage = unsafe { zeroed() };
        let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        // SAFETY: the pointers and the lengths are those of `into` and of `from`; not blocking as in `send_one`.
        let read = unsafe {
            let (fd, from) = (self.read.as_raw_fd(), (&raw mut from).cast());
            libc::recvfrom(fd, into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT, from, &raw mut len)
        };
        if read < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((read as usize, if self.unconnected { address_of(&from) } else { None }))
    }
}

/// Asks for a buffer of so many bytes, or of as many as the system grants. Returns what was granted.
fn size_buffer(fd: RawFd, name: libc::c_int, wanted: usize) -> usize {
    let mut ask = wanted;
    // Linux gives what it may; others refuse what is too much.
    while set_option(fd, libc::SOL_SOCKET, name, libc::c_int::try_from(ask).unwrap_or(libc::c_int::MAX)).is_err()
        && ask > LEAST_BUFFER
    {
        ask /= 2;
    }
    let given = option(fd, libc::SOL_SOCKET, name).map_or(LEAST_BUFFER, |given| usize::try_from(given).unwrap_or(0));
    // Linux doubles it for what it needs itself.
    let given = if cfg!(target_os = "linux") { given / 2 } else { given };
    given.min(wanted)
}

/// A new socket for addresses like `at`.
fn open(at: SocketAddr) -> io::Result<UdpSocket> {
    let family = if at.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(family, libc::SOCK_DGRAM, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else's.
    let socket = unsafe { UdpSocket::from_raw_fd(fd) };
    // Not every system does both at once.
    // SAFETY: the descriptor is open; F_SETFD takes an integer.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

/// An address as the system knows it, and its length.
fn name_of(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeros is a valid `sockaddr_storage`.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let len = match address {
        SocketAddr::V4(v4) => {
            // SAFETY: the storage has room for every kind of address, is aligned for it, and initialised.
            let raw = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in>() };
            raw.sin_family = libc::AF_INET as libc::sa_family_t;
            raw.sin_port = v4.port().to_be();
            raw.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above.
            let raw = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in6>() };
            raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            raw.sin6_port = v6.port().to_be();
            raw.sin6_addr.s6_addr = v6.ip().octets();
            raw.sin6_scope_id = v6.scope_id();
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as libc::socklen_t)
}

/// The internet address that the system has written.
fn address_of(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the system says that this is one, and the storage has room for it and is aligned.
            let raw = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let raw = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let (ip, port) = (Ipv6Addr::from(raw.sin6_addr.s6_addr), u16::from_be(raw.sin6_port));
            Some(SocketAddrV6::new(ip, port, raw.sin6_flowinfo, raw.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn is_unreachable(error: &io::Error) -> bool {
    use ErrorKind::{
        BrokenPipe, ConnectionRefused, ConnectionReset, HostUnreachable, NetworkDown, NetworkUnreachable, NotConnected,
    };
    matches!(
        error.kind(),
        ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | NetworkUnreachable
            | NetworkDown
            | NotConnected
            | BrokenPipe
    )
}

/// Whether a read failed because of the link itself. No ICMP message says any of this: it would come back for ever.
fn is_useless(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EOPNOTSUPP | libc::EINVAL | libc::EIO)
    )
}

/// Whether the system has no room at the moment.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM))
}

impl Link for PortableUdpLink {
    fn train_limits(&self) -> TrainLimits {
        TrainLimits::SINGLE
    }

    fn max_datagram(&self) -> usize {
        let loopback = |address: Option<SocketAddr>| address.is_some_and(|address| address.ip().is_loopback());
        let headers = if self.local.is_none_or(|local| local.is_ipv4()) { HEADERS_V4 } else { HEADERS_V6 };
        // Other systems' loopback has an MTU of 16,384; 9,216 is the largest datagram that macOS takes by default.
        if loopback(self.peer) || loopback(self.local) { 9216 - headers } else { ASSUMED_MTU - headers }
            .min(MAX_PAYLOAD)
    }

    fn datagrams_per_read(&self) -> usize {
        1
    }

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        let to = match train.destination() {
            Address::Peer if self.connected() => None,
            Address::Inet(address) if self.peer == Some(canonical(address)) => None,
            Address::Inet(address) if !self.connected() => Some(self.named(address)),
            other => return Err(io::Error::new(ErrorKind::NotConnected, format!("no way to {other}"))),
        };
        let mut result = Ok(());
        let (mut calls, mut sent) = (0, 0);
        train.for_each_datagram(
            |range: BufferRange| memory.bytes(range),
            |datagram| {
                // What follows a refusal is lost: a train of one, which is the limit here, has nothing to follow.
                if result.is_ok() {
                    calls += 1;
                    result = self.send_one(datagram, to);
                    sent += if result.is_ok() { datagram.len() as u64 } else { 0 };
                }
            },
        );
        self.counters.send_calls += calls;
        self.counters.bytes_sent += sent;
        match result {
            Ok(()) => {
                self.counters.trains_sent += 1;
                self.counters.datagrams_sent += calls;
                Ok(SendOutcome::Sent)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                self.counters.sends_blocked += 1;
                Ok(SendOutcome::Blocked)
            }
            Err(error) if is_full(&error) => {
                self.counters.sends_blocked += 1;
                Ok(SendOutcome::Blocked)
            }
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => Ok(SendOutcome::TooLarge(None)),
            Err(error) if is_unreachable(&error) => {
                self.counters.unreachable_reports += 1;
                Ok(SendOutcome::Unreachable)
            }
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => Err(error),
            Err(_) => {
                self.counters.send_errors += 1;
                Ok(SendOutcome::Sent)
            }
        }
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        loop {
            let (bytes, from) = match self.receive_one() {
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(ReadOutcome::Empty),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_full(&error) => return Ok(ReadOutcome::Empty),
                Err(error) if is_useless(&error) => return Err(error),
                // What ICMP said, which has many words for it.
                Err(_) => {
                    self.counters.unreachable_reports += 1;
                    return Ok(ReadOutcome::Unreachable);
                }
            };
            let from = from.map(canonical);
            if self.peer.is_some() && from.is_some() && from != self.peer {
                self.counters.datagrams_from_strangers += 1;
                continue;
            }
            pool.lay_out(plan, memory, |_, _| ());
            // SAFETY: it has just been laid out, in memory that is borrowed, and that whoever lent it promised not to look at.
            let fitted = unsafe { pool.scatter(&self.staging[..bytes]) };
            let source = from.filter(|_| self.peer.is_none()).map_or(Address::Peer, Address::Inet);
            let meta = RxMeta { source, destination: None, ecn: Ecn::NotCapable };
            let read = Received { bytes: fitted, segment: fitted, meta, truncated: fitted < bytes };
            self.counters.count_read(&read);
            return Ok(ReadOutcome::Received(read));
        }
    }

    fn descriptors(&self) -> Descriptors {
        Descriptors::new(self.read.as_raw_fd(), self.write.as_raw_fd())
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}
