//! [`Ip36Link`] on Linux.
//!
//! A train leaves by `sendmmsg`, gathered from application memory: the kernel segments nothing that is not TCP or UDP. A
//! read brings one packet, scattered into application memory; the header that the kernel delivers with a packet of IPv4
//! lands in the link's own memory in front, so that a plan begins at the transport's header. An address is the host alone,
//! and the link if it is one of that link alone: the port is 0.
//!
//! Always true: while a link lives it is the only one of its network namespace that owns protocol 36 of its address (it
//! holds the abstract Unix socket `pinnace-ip36-ADDRESS`); nothing is handed up that was not sent to that address, nor, on
//! a connected link, that the peer did not send, not even what was queued before the socket was bound.

use super::Ip36Options;
use crate::sys::{self, Buffer, Control, Family, Name, Outgoing, Refusal, canonical, mtu_of, route};
use crate::{BufferTable, Descriptors, Link, LinkCounters, PathMtu, ReadBuffer, ReadOutcome, Received, SendOutcome};
use libc::c_int;
use pinnace_core::{Address, Ecn, ReceivePlan, RxMeta, Train, TrainLimits};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixListener};

/// The protocol number that IANA gave XTP.
const PROTOCOL: u8 = 36;
/// The header of IPv4 without options.
const HEADER_V4: usize = 20;
/// The header of IPv6.
const HEADER_V6: usize = 40;
/// No IP packet is longer, its header included (IPv4) or not (IPv6).
const LARGEST_PACKET: usize = 65_535;
/// What is assumed of a path of which nothing is known.
const ASSUMED_MTU: usize = 1500;
/// Datagrams a train: one `sendmmsg`.
const SEGMENTS: usize = 32;
/// Packets for others thrown away in one call, before the driver may do something else.
const STRANGERS_A_READ: usize = 64;

/// A link over raw IP. See the [crate documentation](crate).
///
/// ```
/// use pinnace_link::{Ip36Link, Ip36Options, Link};
/// match Ip36Link::bind("127.0.36.1".parse().unwrap(), &Ip36Options::default()) {
///     Ok(link) => assert_eq!((link.datagrams_per_read(), link.local_address().is_loopback()), (1, true)),
///     // Without CAP_NET_RAW; the error says so.
///     Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
/// }
/// ```
pub struct Ip36Link {
    socket: OwnedFd,
    /// Held as long as the address is ours.
    _name: Ownership,
    family: Family,
    /// At no port; with the number of its interface if it is an address of one link alone.
    local: SocketAddr,
    /// The only one that this link talks with; the kernel knows it too.
    peer: Option<SocketAddr>,
    path_mtu: PathMtu,
    max_datagram: usize,
    ecn: bool,
    receive_buffer: usize,
    warnings: Vec<String>,
    counters: LinkCounters,
    last_drops: u32,
    to: Name,
    out: Outgoing,
    read: Incoming,
}

/// What a read needs beside the plan.
struct Incoming {
    from: Name,
    control: Control,
    header: [u8; HEADER_V4],
    /// The header's piece and those of the plan.
    pieces: Vec<libc::iovec>,
    scratch: Vec<u8>,
}

// SAFETY: the pointers in `pieces` are only used within the call that laid them out.
unsafe impl Send for Incoming {}

/// One packet, as far as its network header tells.
struct Packet {
    /// Bytes behind the network header.
    bytes: usize,
    source: SocketAddr,
    /// At no port.
    destination: SocketAddr,
    ecn: Ecn,
    truncated: bool,
}

impl std::fmt::Debug for Ip36Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ip36Link")
            .field("descriptor", &self.socket)
            .field("local", &self.local)
            .field("peer", &self.peer)
            .field("max_datagram", &self.max_datagram)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Ip36Link {
    /// A link that owns protocol 36 of the address `local` of this host and hears everybody.
    ///
    /// # Errors
    /// `InvalidInput` for the unspecified address, for multicast, and for an address of one link alone (fe80::/10), which
    /// [`Ip36Link::bind_at`] takes; `AddrInUse` if the address has an owner, `PermissionDenied` without `CAP_NET_RAW`;
    /// anything that the kernel says of the address.
    pub fn bind(local: IpAddr, options: &Ip36Options) -> io::Result<Self> {
        Self::bind_at(of_host(local), options)
    }

    /// The same for any address: the scope of one of a link alone (`fe80::1%3`) says of which, and each of its links has an
    /// owner of its own. The port means nothing.
    ///
    /// # Errors
    /// As [`Ip36Link::bind`].
    pub fn bind_at(local: SocketAddr, options: &Ip36Options) -> io::Result<Self> {
        let local = unscoped(host(local));
        check(local, "bind one of this host's addresses (`ip address` lists them)")?;
        let family = if local.is_ipv4() { Family::V4 } else { Family::V6 };
        // Who has no right to it is told that, whoever has the address.
        let socket = raw_socket(family)?;
        let name = own(local)?;
        let fd = socket.as_raw_fd();
        let to = host_name(local, family)?;
        to.bind(fd)?;
        let mut link = Self {
            socket,
            _name: name,
            family,
            local,
            peer: None,
            path_mtu: options.path_mtu,
            max_datagram: 0,
            ecn: options.ecn,
            receive_buffer: 0,
            warnings: Vec::new(),
            counters: LinkCounters::default(),
            last_drops: 0,
            to,
            out: Outgoing::new(),
            read: Incoming {
                from: Name::room(),
                control: Control::new(),
                header: [0; HEADER_V4],
                pieces: Vec::new(),
                scratch: Vec::new(),
            },
        };
        link.set_up(options)?;
        link.refresh_mtu();
        Ok(link)
    }

    /// A link to `peer` alone, from `local` or from the address that the system routes from. It owns protocol 36 of that
    /// address as a bound one does.
    ///
    /// # Errors
    /// As [`Ip36Link::bind`], and if there is no way to the peer.
    pub fn connect(local: Option<IpAddr>, peer: IpAddr, options: &Ip36Options) -> io::Result<Self> {
        let peer = host(of_host(peer));
        check(peer, "name one host as the peer")?;
        let local = match local {
            Some(local) => local,
            None => route(peer)?.0,
        };
        let mut link = Self::bind(local, options)?;
        link.to = host_name(peer, link.family)?;
        link.to.connect(link.fd())?;
        link.peer = Some(peer);
        link.refresh_mtu();
        Ok(link)
    }

    /// Sets the options of the socket. Those that only make things better may fail.
    fn set_up(&mut self, options: &Ip36Options) -> io::Result<()> {
        let fd = self.fd();
        let set = |level, name, value| sys::set_option(fd, level, name, value);
        let _ = set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        if self.family == Family::V6 {
            // What the header of IPv4 says for itself.
            set(libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            if options.ecn {
                let _ = set(libc::SOL_IPV6, libc::IPV6_RECVTCLASS, 1);
            }
        }
        sys::discover(fd, self.family, options.path_mtu)?;
        self.receive_buffer = sys::size_buffer(fd, options.receive_buffer, Buffer::Receive, &mut self.warnings);
        // Of raw IP the kernel queues twice as much as of UDP, which is more than the queue of an interface takes: what that
        // drops nobody is told.
        sys::size_buffer(fd, options.send_buffer / 2, Buffer::Send, &mut self.warnings);
        Ok(())
    }

    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The address that this link owns.
    pub fn local_address(&self) -> IpAddr {
        self.local.ip()
    }

    /// The one peer of a connected link.
    pub fn peer_address(&self) -> Option<IpAddr> {
        self.peer.map(|peer| peer.ip())
    }

    /// Bytes of receive buffer that the system gave, counted as they were asked for.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer
    }

    /// What the system refused, in plain words, each with the command that would change it.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// Whether the kernel may cut datagrams ([`Link::allow_fragmentation`]).
    pub fn fragments(&self) -> bool {
        self.path_mtu == PathMtu::Fragment
    }

    /// Bytes that a packet of `mtu` bytes carries behind the network header.
    fn payload(&self, mtu: usize) -> usize {
        match self.family {
            Family::V6 => mtu.saturating_sub(HEADER_V6).min(LARGEST_PACKET),
            _ => mtu.min(LARGEST_PACKET).saturating_sub(HEADER_V4),
        }
    }

    fn refresh_mtu(&mut self) {
        let mtu = match self.peer {
            Some(_) => mtu_of(self.fd(), self.family != Family::V6),
            None if self.local.ip().is_loopback() => Some(65_536),
            None => None,
        };
        self.max_datagram = self.payload(mtu.unwrap_or(ASSUMED_MTU));
    }

    /// Where a train goes: `self.to` names it. True if it has to be said, false if the kernel knows; None if it is of
    /// another family, which says nothing of the link.
    fn address(&mut self, destination: Address) -> io::Result<Option<bool>> {
        let address = match destination {
            Address::Peer if self.peer.is_some() => return Ok(Some(false)),
            Address::Peer => return Err(io::Error::new(io::ErrorKind::NotConnected, "the link has no peer")),
            Address::Inet(address) => host(address),
            _ => return Err(invalid(format!("{destination} is no internet address"))),
        };
        match self.peer {
            Some(peer) if peer == address => Ok(Some(false)),
            Some(_) => Err(invalid("the link is connected to another peer")),
            None => {
                let Ok(name) = host_name(address, self.family) else { return Ok(None) };
                self.to = name;
                Ok(Some(true))
            }
        }
    }

    /// What a refusal means.
    fn refused(&mut self, refusal: Refusal, size: usize) -> io::Result<SendOutcome> {
        match refusal {
            Refusal::TooLarge => {
                self.refresh_mtu();
                // A link that hears everybody does not know the path until it is refused.
                let path = self.to.address().filter(|_| self.peer.is_none());
                let mtu = path.and_then(|to| route(to).ok()).and_then(|(_, mtu)| mtu);
                let fits = mtu.map_or(self.max_datagram, |mtu| self.payload(mtu));
                Ok(SendOutcome::TooLarge((fits < size).then_some(fits as u32)))
            }
            refusal => refusal.outcome(&mut self.counters),
        }
    }

    /// Some kernels refuse the ECN control message. True if that may have been why, and it is not sent any more.
    fn give_up_ecn(&mut self, train: &Train) -> bool {
        let used = self.ecn && train.ecn() != Ecn::NotCapable;
        self.ecn &= !used;
        used
    }

    /// `is_unmarked`: it was refused with the mark, and goes without now.
    fn send_each(&mut self, train: &Train, memory: &BufferTable, is_unmarked: bool) -> io::Result<SendOutcome> {
        let Some(named) = self.address(train.destination())? else { return self.refused(Refusal::Unreachable, 0) };
        let tos =
            (self.ecn && train.ecn() != Ecn::NotCapable).then_some((self.family == Family::V6, train.ecn() as u8));
        self.out.set_control(None, tos, None);
        if !self.out.gather_singly(train, memory, named.then_some(&mut self.to)) {
            return self.refused(Refusal::Other, 0);
        }
        let mut done = self.out.resume(train);
        let mut lost = 0;
        let fd = self.socket.as_raw_fd();
        loop {
            let calls = &mut self.counters.send_calls;
            // SAFETY: `gather_singly` laid the messages out: pieces in the train and in memory that the table vouches for, a
            // name in `self.to`; none of it moves in this loop.
            let Some(refusal) = (unsafe { self.out.send_singly(fd, &mut done, calls) }) else { break };
            if matches!(refusal, Refusal::Unwilling) && !is_unmarked && self.give_up_ecn(train) {
                self.out.interrupt(train, done);
                return self.send_each(train, memory, true);
            }
            // It need not have been the mark.
            self.ecn |= is_unmarked;
            match refusal {
                Refusal::Blocked | Refusal::QueueFull => {
                    self.out.interrupt(train, done);
                    return self.refused(Refusal::Blocked, 0);
                }
                Refusal::Unwilling | Refusal::Other => {
                    self.refused(refusal, 0)?;
                    done += 1;
                    lost += 1;
                }
                refusal => return self.refused(refusal, train.segment_size()),
            }
        }
        self.counters.count_train(train, lost);
        Ok(SendOutcome::Sent)
    }

    /// Reads one packet into the slots of `plan`. None if it was not for us.
    fn receive_packet(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> RawRead {
        let v4 = self.family == Family::V4;
        let slots = pool.lay_out_spans(plan, memory);
        let read = &mut self.read;
        read.pieces.clear();
        if v4 {
            read.pieces.push(libc::iovec { iov_base: read.header.as_mut_ptr().cast(), iov_len: HEADER_V4 });
        }
        let room = sys::MAX_PIECES - read.pieces.len();
        read.pieces.extend_from_slice(&slots[..slots.len().min(room)]);
        let mut message = sys::header();
        if !v4 {
            read.from = Name::room();
            read.from.attach(&mut message);
        }
        message.msg_iov = read.pieces.as_mut_ptr();
        message.msg_iovlen = read.pieces.len() as _;
        read.control.attach_room(&mut message);
        // SAFETY: the slots are memory that the pool and the table vouch for; header, name and control lie in `self.read`
        // and stay there.
        let bytes = unsafe { sys::receive_message(self.socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
        let Ok(bytes) = usize::try_from(bytes) else { return RawRead::Refused(Refusal::last()) };
        let truncated = message.msg_flags & libc::MSG_TRUNC != 0;
        let mut packet = if v4 {
            self.read.unwrap_v4(bytes, truncated, pool)
        } else {
            self.read.from.address().map(|source| Packet {
                bytes,
                source: host(source),
                destination: self.local,
                ecn: Ecn::NotCapable,
                truncated,
            })
        };
        self.take_control(message.msg_controllen as _, packet.as_mut());
        RawRead::Packet(
            packet.filter(|packet| {
                packet.destination == self.local && self.peer.is_none_or(|peer| peer == packet.source)
            }),
        )
    }

    fn take_control(&mut self, len: usize, mut packet: Option<&mut Packet>) {
        for (level, kind, value) in self.read.control.messages(len) {
            match (level, kind) {
                (libc::SOL_IPV6, libc::IPV6_TCLASS) => {
                    let bits = sys::first(value).map_or(0, i32::from_ne_bytes);
                    if let Some(packet) = &mut packet {
                        packet.ecn = Ecn::from_bits(bits as u8);
                    }
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    sys::count_drops(value, &mut self.last_drops, &mut self.counters);
                }
                _ => {
                    if let (Some(packet), Some(to)) = (&mut packet, sys::destination(level, kind, value)) {
                        packet.destination = to;
                    }
                }
            }
        }
    }
}

/// What came of a `recvmsg`.
enum RawRead {
    /// A packet, if it was for us.
    Packet(Option<Packet>),
    /// None if the call was only interrupted.
    Refused(Option<Refusal>),
}

impl Incoming {
    /// What the header of an IPv4 packet of `bytes` bytes says. None if it is none, or not of this protocol.
    fn unwrap_v4(&mut self, bytes: usize, truncated: bool, pool: &mut ReadBuffer) -> Option<Packet> {
        let head = Header::parse(&self.header).filter(|head| head.len <= bytes)?;
        if head.len > HEADER_V4 {
            self.shift(bytes - HEADER_V4, head.len - HEADER_V4, pool);
        }
        Some(Packet {
            bytes: bytes - head.len,
            source: of_host(head.source),
            destination: of_host(head.destination),
            ecn: head.ecn,
            truncated,
        })
    }

    /// IP options, `options` bytes of them, have landed in front of the transport's header, where the plan did not expect
    /// them: the rest moves up. Rare enough to be copied.
    fn shift(&mut self, landed: usize, options: usize, pool: &mut ReadBuffer) {
        let mut pieces = Vec::new();
        // SAFETY: they have just been read into, in memory that is borrowed meanwhile and that nobody else writes to.
        unsafe { pool.pieces(landed, &mut pieces) };
        self.scratch.clear();
        for piece in pieces {
            self.scratch.extend_from_slice(piece);
        }
        // SAFETY: as above; nobody looks at it before the read is handed on.
        unsafe { pool.scatter(self.scratch.get(options..).unwrap_or_default()) };
    }
}

/// What matters of a header of IPv4.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    /// Its bytes, options included.
    len: usize,
    ecn: Ecn,
    source: IpAddr,
    destination: IpAddr,
}

impl Header {
    fn parse(bytes: &[u8; HEADER_V4]) -> Option<Self> {
        let &[first, tos, _, _, _, _, _, _, _, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3] = bytes;
        let len = usize::from(first & 0x0F) * 4;
        (first >> 4 == 4 && len >= HEADER_V4 && protocol == PROTOCOL).then(|| Self {
            len,
            ecn: Ecn::from_bits(tos),
            source: Ipv4Addr::new(s0, s1, s2, s3).into(),
            destination: Ipv4Addr::new(d0, d1, d2, d3).into(),
        })
    }
}

impl Link for Ip36Link {
    fn train_limits(&self) -> TrainLimits {
        TrainLimits { segments: SEGMENTS, ..TrainLimits::GSO }
    }

    fn max_datagram(&self) -> usize {
        self.max_datagram
    }

    fn datagrams_per_read(&self) -> usize {
        1
    }

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        if train.is_empty() { Ok(SendOutcome::Sent) } else { self.send_each(train, memory, false) }
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        for _ in 0..STRANGERS_A_READ {
            let packet = match self.receive_packet(plan, memory, pool) {
                RawRead::Packet(Some(packet)) => packet,
                RawRead::Packet(None) => {
                    self.counters.datagrams_from_strangers += 1;
                    continue;
                }
                RawRead::Refused(None) => continue,
                RawRead::Refused(Some(Refusal::TooLarge)) => {
                    self.refresh_mtu();
                    continue;
                }
                RawRead::Refused(Some(refusal)) => return refusal.read_outcome(&mut self.counters),
            };
            let source = if self.peer.is_some() { Address::Peer } else { packet.source.into() };
            let read = Received {
                bytes: packet.bytes,
                segment: packet.bytes,
                meta: RxMeta { source, destination: Some(packet.destination.into()), ecn: packet.ecn },
                truncated: packet.truncated,
            };
            self.counters.count_read(&read);
            return Ok(ReadOutcome::Received(read));
        }
        Ok(ReadOutcome::Empty)
    }

    fn allow_fragmentation(&mut self) -> bool {
        if self.fragments() || sys::discover(self.fd(), self.family, PathMtu::Fragment).is_err() {
            return false;
        }
        self.path_mtu = PathMtu::Fragment;
        true
    }

    fn descriptors(&self) -> Descriptors {
        Descriptors::new(self.fd(), self.fd())
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

/// A host as an address of this link: without a port.
fn of_host(ip: IpAddr) -> SocketAddr {
    SocketAddr::new(ip, 0)
}

/// The host of an address, under the one name that it has here.
fn host(address: SocketAddr) -> SocketAddr {
    let mut address = canonical(address);
    address.set_port(0);
    address
}

fn host_name(host: SocketAddr, family: Family) -> io::Result<Name> {
    let other_family = || invalid(format!("{} is of another family", host.ip()));
    match (family, host) {
        (Family::V4, SocketAddr::V4(_)) | (Family::V6, SocketAddr::V6(_)) => {
            Name::new(host, family == Family::V6).ok_or_else(other_family)
        }
        // A raw socket of IPv6 carries no IPv4.
        _ => Err(other_family()),
    }
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.into())
}

/// Only an address of one link alone says of which: the kernel names all others without.
fn unscoped(host: SocketAddr) -> SocketAddr {
    match host {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => host,
        _ => of_host(host.ip()),
    }
}

/// One process owns protocol 36 of an address, so it must be one address.
fn check(host: SocketAddr, advice: &str) -> io::Result<()> {
    let ip = host.ip();
    if ip.is_unspecified() || ip.is_multicast() {
        return Err(invalid(format!("IP protocol 36 is owned address by address, and {ip} is not one host: {advice}")));
    }
    if let SocketAddr::V6(v6) = host
        && v6.ip().is_unicast_link_local()
        && v6.scope_id() == 0
    {
        let why =
            format!("{ip} is an address of one link alone, and may be one of each: say of which, as {ip}%INTERFACE");
        return Err(invalid(why));
    }
    Ok(())
}

/// The name of an address. To the kernel sockets of another kind have names of their own, and which kind another program takes is
/// not said anywhere: so this is one of each.
type Ownership = (UnixDatagram, UnixListener);

/// Takes the name that stands for protocol 36 of `local` in this network namespace.
fn own(local: SocketAddr) -> io::Result<Ownership> {
    let local = match local {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
        _ => local.ip().to_string(),
    };
    let name = format!("pinnace-ip36-{local}");
    let address = UnixAddress::from_abstract_name(&name)?;
    let taken =
        UnixDatagram::bind_addr(&address).and_then(|datagram| Ok((datagram, UnixListener::bind_addr(&address)?)));
    taken.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            let text =
                format!("IP protocol 36 of {local} has an owner already (Unix socket @{name}; `ss -xap` shows it)");
            io::Error::new(io::ErrorKind::AddrInUse, text)
        }
        _ => error,
    })
}

fn raw_socket(family: Family) -> io::Result<OwnedFd> {
    let domain = if family == Family::V6 { libc::AF_INET6 } else { libc::AF_INET };
    sys::raw_socket(domain, libc::SOCK_RAW, c_int::from(PROTOCOL), "IP protocol 36 needs")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [u8; HEADER_V4] = [0x46, 0xA2, 0, 90, 1, 2, 0x40, 0, 64, 36, 9, 9, 10, 0, 0, 1, 10, 0, 0, 2];

    #[test]
    fn a_header_is_of_version_4_and_this_protocol_and_long_enough() {
        let header = Header::parse(&HEADER).unwrap();
        let (source, destination) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        assert_eq!(header, Header { len: 24, ecn: Ecn::Capable0, source, destination });
        for (at, value) in [(0, 0x65), (0, 0x44), (0, 0x40), (9, 17), (9, 0)] {
            let mut bad = HEADER;
            bad[at] = value;
            assert_eq!(Header::parse(&bad), None, "{at} {value}");
        }
    }

    #[test]
    fn options_are_taken_out_of_the_way_and_lying_lengths_dropped() {
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.pooled(3);
        plan.top_up(ReadBuffer::READ_BYTES);
        for options in [0, 4, 40] {
            let mut pool = ReadBuffer::new();
            pool.lay_out(&plan, &BufferTable::new(), |_, _| ());
            let mut landed = vec![0xEE; options];
            landed.extend_from_slice(b"header and data");
            // SAFETY: nothing but pooled memory was laid out.
            unsafe { pool.scatter(&landed) };
            let mut header = HEADER;
            header[0] = 0x40 + 5 + (options / 4) as u8;
            let mut incoming = Incoming {
                from: Name::room(),
                control: Control::new(),
                header,
                pieces: Vec::new(),
                scratch: Vec::new(),
            };
            let packet = incoming.unwrap_v4(HEADER_V4 + landed.len(), false, &mut pool).unwrap();
            let mut pieces = Vec::new();
            // SAFETY: as above.
            unsafe { pool.pieces(packet.bytes, &mut pieces) };
            assert_eq!(pieces, [&b"hea"[..], b"der and data"]);
            for bytes in 0..HEADER_V4 + options {
                assert!(incoming.unwrap_v4(bytes, true, &mut ReadBuffer::new()).is_none(), "{bytes}");
            }
        }
    }

    #[test]
    fn a_host_has_one_name() {
        let mapped: SocketAddr = "[::ffff:10.0.0.1]:99".parse().unwrap();
        assert_eq!(host(mapped), "10.0.0.1:0".parse().unwrap());
        let scoped: SocketAddr = "[fe80::1%3]:7".parse().unwrap();
        assert_eq!(host(scoped), "[fe80::1%3]:0".parse().unwrap());
        assert!(host_name("10.0.0.1:0".parse().unwrap(), Family::V6).is_err());
        assert!(host_name("[::1]:0".parse().unwrap(), Family::V4).is_err());
    }
}
