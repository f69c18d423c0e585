//! The edge to the kernel: options, socket names, control messages.
//!
//! Always true: what is read from a control buffer lies within the length that the kernel gave; a name that the kernel
//! writes is read only as the family that it says it is.

mod outgoing;
mod packet;
mod path;

use crate::LinkCounters;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use libc::{c_int, socklen_t};

pub(crate) use crate::socket::{canonical, option, set_option};
pub(crate) use outgoing::{MAX_PIECES, Outgoing};
pub(crate) use packet::FrameKind;
pub(crate) use path::{Family, Refusal, datagram_family, discover, foreign_family, mtu_of, route};

/// Not in every version of the C library's headers.
pub(crate) const UDP_SEGMENT: c_int = 103;
/// See [`UDP_SEGMENT`].
pub(crate) const UDP_GRO: c_int = 104;

/// `sendmsg`, straight from the kernel: the C library's own is a point at which a thread may be cancelled, which costs two
/// atomic operations a call in every process with threads, and nobody is cancelled here.
///
/// # Safety
/// As for `sendmsg`: what `message` points to must be there.
pub(crate) unsafe fn send_message(fd: RawFd, message: &libc::msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's promise; the kernel only reads.
    (unsafe { libc::syscall(libc::SYS_sendmsg, fd, &raw const *message, flags) }) as isize
}

/// `sendmmsg`, as [`send_message`].
///
/// # Safety
/// As for `sendmmsg`: what the messages point to must be there.
pub(crate) unsafe fn send_messages(fd: RawFd, messages: &mut [libc::mmsghdr], flags: c_int) -> isize {
    // SAFETY: the caller's promise; the kernel writes to the lengths of the messages alone.
    (unsafe { libc::syscall(libc::SYS_sendmmsg, fd, messages.as_mut_ptr(), messages.len(), flags) }) as isize
}

/// `recvmsg`, as [`send_message`].
///
/// # Safety
/// As for `recvmsg`: what `message` points to must be there, and nobody else's.
pub(crate) unsafe fn receive_message(fd: RawFd, message: &mut libc::msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's promise.
    (unsafe { libc::syscall(libc::SYS_recvmsg, fd, &raw mut *message, flags) }) as isize
}

/// What the kernel says of a buffer is twice what was asked for: it counts its own bookkeeping.
pub(crate) fn halved(option: io::Result<c_int>) -> usize {
    option.ok().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0) / 2
}

/// One of a socket's two buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Buffer {
    Receive,
    Send,
}

/// Asks for a buffer of `wanted` bytes; returns what was given. If that is less, `warnings` says what would change it.
pub(crate) fn size_buffer(fd: RawFd, wanted: usize, buffer: Buffer, warnings: &mut Vec<String>) -> usize {
    let (name, force, what, limit) = match buffer {
        Buffer::Receive => (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, "receive", "rmem_max"),
        Buffer::Send => (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, "send", "wmem_max"),
    };
    let ask = c_int::try_from(wanted).unwrap_or(c_int::MAX);
    let given = || halved(option(fd, libc::SOL_SOCKET, name));
    if given() >= wanted {
        return given();
    }
    let _ = set_option(fd, libc::SOL_SOCKET, name, ask);
    if given() < wanted {
        let _ = set_option(fd, libc::SOL_SOCKET, force, ask);
    }
    let given = given();
    if given < wanted {
        warnings.push(format!(
            "the {what} buffer has {given} bytes instead of {wanted}: run `sysctl -w net.core.{limit}={wanted}`"
        ));
    }
    given
}

/// A socket address as the kernel knows it.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    // Large enough for `sockaddr_in` and `sockaddr_ll` too, and aligned like them.
    raw: libc::sockaddr_in6,
    len: socklen_t,
}

impl Name {
    /// Room for the kernel to write to.
    pub(crate) fn room() -> Self {
        // SAFETY: all zeros is a valid `sockaddr_in6`.
        Self { raw: unsafe { zeroed() }, len: size_of::<libc::sockaddr_in6>() as socklen_t }
    }

    /// `address`, for a socket of family IPv6 (`v6`) or IPv4. None for an IPv6 address on an IPv4 socket.
    pub(crate) fn new(address: SocketAddr, v6: bool) -> Option<Self> {
        let mut name = Self::room();
        match address {
            SocketAddr::V4(v4) if !v6 => {
                let raw = (&raw mut name.raw).cast::<libc::sockaddr_in>();
                // SAFETY: `sockaddr_in6` is larger than `sockaddr_in` and as aligned; all its bytes are initialised.
                let raw = unsafe { &mut *raw };
                raw.sin_family = libc::AF_INET as libc::sa_family_t;
                raw.sin_port = v4.port().to_be();
                raw.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                name.len = size_of::<libc::sockaddr_in>() as socklen_t;
            }
            SocketAddr::V4(v4) => name.fill_v6(v4.ip().to_ipv6_mapped(), v4.port(), 0),
            SocketAddr::V6(v6_address) if v6 => {
                name.fill_v6(*v6_address.ip(), v6_address.port(), v6_address.scope_id());
            }
            SocketAddr::V6(_) => return None,
        }
        Some(name)
    }

    fn fill_v6(&mut self, ip: Ipv6Addr, port: u16, scope: u32) {
        self.raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        self.raw.sin6_port = port.to_be();
        self.raw.sin6_addr.s6_addr = ip.octets();
        self.raw.sin6_scope_id = scope;
    }

    /// The address, mapped ones as IPv4. None if the kernel wrote no internet address.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match c_int::from(self.raw.sin6_family) {
            libc::AF_INET => {
                // SAFETY: see `new`; the kernel said that this is a `sockaddr_in`.
                let raw = unsafe { &*(&raw const self.raw).cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(self.raw.sin6_addr.s6_addr);
                let port = u16::from_be(self.raw.sin6_port);
                Some(canonical(SocketAddrV6::new(ip, port, 0, self.raw.sin6_scope_id).into()))
            }
            _ => None,
        }
    }

    /// Lets `header` point to this name, which must then stay where it is.
    pub(crate) fn attach(&mut self, header: &mut libc::msghdr) {
        header.msg_name = (&raw mut self.raw).cast();
        header.msg_namelen = self.len;
    }

    /// The family of a socket.
    pub(crate) fn own(fd: RawFd) -> io::Result<Self> {
        let mut name = Self::room();
        // SAFETY: the pointer and the length are those of `name.raw`; the kernel cuts what is longer.
        let done = unsafe { libc::getsockname(fd, (&raw mut name.raw).cast(), &raw mut name.len) };
        if done == 0 { Ok(name) } else { Err(io::Error::last_os_error()) }
    }

    /// The peer of a connected socket.
    pub(crate) fn peer(fd: RawFd) -> io::Result<Self> {
        let mut name = Self::room();
        // SAFETY: as in `own`.
        let done = unsafe { libc::getpeername(fd, (&raw mut name.raw).cast(), &raw mut name.len) };
        if done == 0 { Ok(name) } else { Err(io::Error::last_os_error()) }
    }

    /// Binds a socket.
    pub(crate) fn bind(&self, fd: RawFd) -> io::Result<()> {
        // SAFETY: the pointer and the length are those of `self.raw`.
        let done = unsafe { libc::bind(fd, (&raw const self.raw).cast(), self.len) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Connects a socket.
    pub(crate) fn connect(&self, fd: RawFd) -> io::Result<()> {
        // SAFETY: the pointer and the length are those of `self.raw`.
        let done = unsafe { libc::connect(fd, (&raw const self.raw).cast(), self.len) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// An empty message header.
pub(crate) fn header() -> libc::msghdr {
    // SAFETY: all zeros is a valid `msghdr`: null pointers with lengths of zero.
    unsafe { zeroed() }
}

/// Room for control messages, aligned as the kernel wants it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Control {
    bytes: [u8; Self::ROOM],
    len: usize,
}

const HEADER: usize = size_of::<libc::cmsghdr>();

const fn aligned(len: usize) -> usize {
    len.next_multiple_of(size_of::<usize>())
}

impl Control {
    /// Enough for a segment size, a type-of-service byte, packet information and a drop counter, twice.
    const ROOM: usize = 256;

    pub(crate) const fn new() -> Self {
        Self { bytes: [0; Self::ROOM], len: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends a message.
    pub(crate) fn push(&mut self, level: c_int, kind: c_int, value: &[u8]) {
        let space = aligned(HEADER) + aligned(value.len());
        assert!(self.len + space <= Self::ROOM, "the control buffer is too small");
        // SAFETY: all zeros is a valid `cmsghdr` (which has private padding on some C libraries).
        let mut head: libc::cmsghdr = unsafe { zeroed() };
        head.cmsg_len = (aligned(HEADER) + value.len()) as _;
        head.cmsg_level = level;
        head.cmsg_type = kind;
        let at = self.bytes[self.len..].as_mut_ptr();
        // SAFETY: the assertion above: there is room for the header.
        unsafe { at.cast::<libc::cmsghdr>().write_unaligned(head) };
        let low = self.len + aligned(HEADER);
        self.bytes[low..low + value.len()].copy_from_slice(value);
        self.len += space;
    }

    /// Lets `header` send what was pushed; the buffer must then stay where it is.
    pub(crate) fn attach(&mut self, header: &mut libc::msghdr) {
        if self.len > 0 {
            header.msg_control = self.bytes.as_mut_ptr().cast();
            header.msg_controllen = self.len as _;
        }
    }

    /// Lets `header` receive into the whole buffer, which must then stay where it is.
    pub(crate) fn attach_room(&mut self, header: &mut libc::msghdr) {
        header.msg_control = self.bytes.as_mut_ptr().cast();
        header.msg_controllen = Self::ROOM as _;
    }

    /// The messages that the kernel wrote into the first `len` bytes: level, kind, value.
    pub(crate) fn messages(&self, len: usize) -> impl Iterator<Item = (c_int, c_int, &[u8])> {
        let bytes = &self.bytes[..len.min(Self::ROOM)];
        let mut at = 0;
        std::iter::from_fn(move || {
            let rest = bytes.get(at..).filter(|rest| rest.len() >= HEADER)?;
            // SAFETY: there are enough bytes for a header, and every bit pattern is one.
            let head = unsafe { rest.as_ptr().cast::<libc::cmsghdr>().read_unaligned() };
            let end: usize = head.cmsg_len as _;
            let value = rest.get(aligned(HEADER)..end)?;
            at += aligned(end);
            Some((head.cmsg_level, head.cmsg_type, value))
        })
    }
}

/// The first `N` bytes of a control message's value.
pub(crate) fn first<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    value.first_chunk().copied()
}

/// Takes in what `SO_RXQ_OVFL` says: datagrams for which the socket had no room since it was opened, modulo 2^32. `last` is
/// what it said before.
pub(crate) fn count_drops(value: &[u8], last: &mut u32, counters: &mut LinkCounters) {
    if let Some(drops) = first(value).map(u32::from_ne_bytes) {
        counters.receive_buffer_drops += u64::from(drops.wrapping_sub(*last));
        *last = drops;
    }
}

/// A socket below UDP. `what_needs` begins the sentence that whoever has no right to one is told.
pub(crate) fn raw_socket(domain: c_int, kind: c_int, protocol: c_int, what_needs: &str) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        let error = io::Error::last_os_error();
        return Err(match error.kind() {
            io::ErrorKind::PermissionDenied => io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("{what_needs} the capability CAP_NET_RAW: run as root, or `setcap cap_net_raw+ep PROGRAM`"),
            ),
            _ => error,
        });
    }
    // SAFETY: the kernel has just opened it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The value of a packet-information message that makes the kernel send from `ip`.
pub(crate) fn push_source(control: &mut Control, ip: IpAddr) {
    match ip {
        IpAddr::V4(v4) => {
            // `in_pktinfo`: interface, local address, address in the header. The middle one is used for sending.
            let mut value = [0; 12];
            value[4..8].copy_from_slice(&v4.octets());
            control.push(libc::SOL_IP, libc::IP_PKTINFO, &value);
        }
        IpAddr::V6(v6) => {
            let mut value = [0; 20];
            value[..16].copy_from_slice(&v6.octets());
            control.push(libc::SOL_IPV6, libc::IPV6_PKTINFO, &value);
        }
    }
}

/// The address in the header of an arriving datagram, from a packet-information message; one of a link alone says of which,
/// as in names.
pub(crate) fn destination(level: c_int, kind: c_int, value: &[u8]) -> Option<SocketAddr> {
    match (level, kind) {
        (libc::SOL_IP, libc::IP_PKTINFO) => {
            let info: [u8; 12] = first(value)?;
            Some((Ipv4Addr::from(first::<4>(&info[8..])?), 0).into())
        }
        (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
            let ip = Ipv6Addr::from(first::<16>(value)?);
            let interface = u32::from_ne_bytes(first(value.get(16..)?)?);
            let scope = if ip.is_unicast_link_local() { interface } else { 0 };
            Some(canonical(SocketAddrV6::new(ip, 0, 0, scope).into()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_come_out_as_they_went_in_and_never_beyond_the_end() {
        let mut control = Control::new();
        control.push(17, UDP_SEGMENT, &1472u16.to_ne_bytes());
        push_source(&mut control, Ipv6Addr::LOCALHOST.into());
        let seen: Vec<_> = control.messages(control.len).map(|(l, k, v)| (l, k, v.to_vec())).collect();
        assert_eq!(seen[0], (17, UDP_SEGMENT, 1472u16.to_ne_bytes().to_vec()));
        let (level, kind, value) = &seen[1];
        assert_eq!(destination(*level, *kind, value), Some((Ipv6Addr::LOCALHOST, 0).into()));
        for len in 0..control.len {
            assert!(control.messages(len).count() < 3);
        }
        assert_eq!(control.messages(HEADER + 1).count(), 0);
    }

    #[test]
    fn names_survive_the_kernels_form() {
        for text in ["127.0.0.1:9", "[::1]:65535", "[fe80::1%3]:7"] {
            let address: SocketAddr = text.parse().unwrap();
            let name = Name::new(address, address.is_ipv6()).unwrap();
            assert_eq!(name.address(), Some(address));
        }
        let v4: SocketAddr = "10.1.2.3:4".parse().unwrap();
        assert_eq!(Name::new(v4, true).unwrap().address(), Some(v4));
        assert!(Name::new("[::1]:1".parse().unwrap(), false).is_none());
    }
}
