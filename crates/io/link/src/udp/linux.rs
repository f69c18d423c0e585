//! [`UdpLink`] on Linux: one system call a train, one a coalesced read, no copy and no allocation in between.
//!
//! Always true: a send that a path refused to segment was sent singly in the same call, so a fallback loses nothing; where
//! a link hears everybody, what one path refuses changes nothing for the others; a train that left in part before the
//! socket was full goes on where it stopped when the same train is offered again.

mod beside;
mod opening;
mod unsegmented;

use super::{ASSUMED_MTU, HEADERS_V4, HEADERS_V6, MAX_PAYLOAD, Offload, PathMtu};
use crate::sys::{self, Control, Family, Name, Outgoing, Refusal, canonical, mtu_of, route};
use crate::{BufferTable, Descriptors, Link, LinkCounters, ReadBuffer, ReadOutcome, Received, SendOutcome};
use libc::c_int;
use pinnace_core::{Address, Ecn, ReceivePlan, RxMeta, Train, TrainLimits};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;
use std::time::Instant;
use unsegmented::Unsegmented;

/// Datagrams of strangers thrown away in one call, before the driver may do something else.
const STRANGERS_A_READ: usize = 64;
/// After so many looks that found nothing the errors that are queued at a caller's socket are taken, so many at most.
const LOOKS_AN_ERROR: u32 = 16;
const ERRORS_A_LOOK: usize = 16;
/// Datagrams a train when they leave one by one, in one `sendmmsg`.
const SINGLE_SEGMENTS: usize = 32;
/// The kernel segments no packet of more than 65,535 bytes, its own headers and Ethernet's included; it sends a larger
/// train as single packets without saying so.
const LARGEST_PACKET: usize = 65_535 - 14;

/// A UDP link. See the [module documentation](crate).
///
/// ```
/// use pinnace_core::{Address, ReceivePlan, Train};
/// use pinnace_link::{BufferTable, Link, ReadBuffer, ReadOutcome, SendOutcome, UdpLink, UdpOptions};
/// # fn main() -> std::io::Result<()> {
/// let options = UdpOptions::default();
/// let mut listener = UdpLink::bind("127.0.0.1:0".parse().unwrap(), &options)?;
/// let mut caller = UdpLink::connect(None, listener.local_address().unwrap(), &options)?;
///
/// let memory = BufferTable::new();
/// let mut train = Train::new(caller.train_limits());
/// train.begin(Address::Peer, 5);
/// train.inline(b"hello");
/// train.end_segment();
/// assert_eq!(caller.send(&train, &memory)?, SendOutcome::Sent);
///
/// let mut plan = ReceivePlan::new();
/// plan.reset(listener.datagrams_per_read());
/// plan.top_up(ReadBuffer::READ_BYTES);
/// let mut pool = ReadBuffer::new();
/// let ReadOutcome::Received(read) = listener.receive(&plan, &memory, &mut pool)? else { panic!("nothing came") };
/// assert_eq!(pool.pooled(read.bytes), b"hello");
/// # Ok(())
/// # }
/// ```
pub struct UdpLink {
    read_fd: RawFd,
    write_fd: RawFd,
    /// Keeps the descriptors open; None if they are the caller's.
    socket: Option<UdpSocket>,
    /// The caller's, to be closed with the link.
    kept: Option<[OwnedFd; 2]>,
    family: Family,
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    /// The kernel knows the peer: sends need no name, and strangers are kept out.
    connected: bool,
    settling: u32,
    /// Source of sends whose train names none, where the kernel would choose another than the peer wrote to.
    pinned: Option<IpAddr>,
    last_seen: Option<(SocketAddr, IpAddr)>,
    path_mtu: PathMtu,
    busy_poll: Option<Duration>,
    max_datagram: usize,
    segments: usize,
    coalescing: bool,
    /// Control messages are the kernel's own. Of AF_UNIX they are the peer's: descriptors, which this process would have to keep.
    heeds_control: bool,
    /// Where trains were refused to be segmented: of each destination by itself, while there is no one peer.
    unsegmented: Unsegmented,
    ecn: bool,
    /// What a connected socket of ours marks its datagrams with by itself, and whether the last train wanted another mark.
    marks: Ecn,
    marks_differ: bool,
    stage_below: usize,
    receive_buffer: usize,
    warnings: Vec<String>,
    counters: LinkCounters,
    last_drops: u32,
    /// Looks at a caller's socket that found nothing.
    empty_looks: u32,
    to: Name,
    from: Name,
    out: Outgoing,
    control: Control,
}

impl std::fmt::Debug for UdpLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpLink")
            .field("descriptors", &self.descriptors())
            .field("local", &self.local)
            .field("peer", &self.peer)
            .field("train_limits", &self.train_limits())
            .field("max_datagram", &self.max_datagram)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl UdpLink {
    /// The socket, if it is this link's own, to set options of it.
    pub(super) fn own_socket(&self) -> io::Result<&UdpSocket> {
        let refused = || io::Error::new(io::ErrorKind::Unsupported, "options of a caller's socket are not changed");
        self.socket.as_ref().ok_or_else(refused)
    }

    /// From now on lets the kernel cut what the path does not carry: for protocols whose datagram size is fixed while a
    /// message is under way, when the path shrinks.
    ///
    /// # Errors
    /// If the descriptor is the caller's: its options are not changed.
    pub fn allow_fragmentation(&mut self) -> io::Result<()> {
        if self.socket.is_none() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "options of a caller's socket are not changed"));
        }
        sys::discover(self.write_fd, self.family, PathMtu::Fragment)?;
        self.path_mtu = PathMtu::Fragment;
        Ok(())
    }

    /// Whether the kernel may cut datagrams ([`UdpLink::allow_fragmentation`]).
    pub fn fragments(&self) -> bool {
        self.path_mtu == PathMtu::Fragment
    }

    /// Bytes of receive buffer that the system gave, counted as they were asked for.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer
    }

    /// What the system refused, in plain words, each with the command that would change it.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// The address that this link is bound to; None for sockets without one.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.local
    }

    /// The one peer, if there is one and it has an internet address.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.peer
    }

    fn name(&self, address: SocketAddr) -> io::Result<Name> {
        Name::new(address, self.family == Family::V6)
            .filter(|_| self.family != Family::Unix)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("{address} is of another family")))
    }

    /// Whether what leaves for `address` is IPv4.
    fn is_v4(&self, address: Option<SocketAddr>) -> bool {
        self.family == Family::V4 || address.is_some_and(|address| address.is_ipv4())
    }

    fn refresh_mtu(&mut self) {
        if self.family == Family::Unix {
            let room = sys::option(self.write_fd, libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0);
            // The kernel keeps 32 bytes of the send buffer for itself.
            self.max_datagram = MAX_PAYLOAD.min(usize::try_from(room).unwrap_or(0).saturating_sub(32));
            return;
        }
        let v4 = self.is_v4(self.peer);
        let mtu = match (self.connected, self.peer) {
            (true, _) => mtu_of(self.write_fd, v4),
            (false, Some(peer)) => route(peer).ok().and_then(|(_, mtu)| mtu),
            (false, None) if self.local.is_some_and(|local| local.ip().is_loopback()) => Some(65_536),
            (false, None) => None,
        };
        self.max_datagram = payload(mtu.unwrap_or(ASSUMED_MTU), v4);
    }

    /// A caller's socket may queue what went wrong (`IP_RECVERR`, time stamps). Nobody else takes it while the socket is lent,
    /// and until it is taken whoever waits for the socket wakes at once. Called after a look that found nothing.
    fn look_at_errors(&mut self) {
        if self.socket.is_some() || self.family == Family::Unix {
            return;
        }
        self.empty_looks = self.empty_looks.wrapping_add(1);
        if !self.empty_looks.is_multiple_of(LOOKS_AN_ERROR) {
            return;
        }
        for _ in 0..ERRORS_A_LOOK {
            // SAFETY: a message without pieces, a name or control: nothing is written.
            if unsafe {
                sys::receive_message(self.read_fd, &mut sys::header(), libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
            } < 0
            {
                return;
            }
        }
    }

    /// Bytes of the largest train that crosses in one piece.
    fn train_bytes(&self) -> usize {
        LARGEST_PACKET - if self.is_v4(self.peer) { HEADERS_V4 } else { HEADERS_V6 }
    }

    /// Where a train goes. True if `self.to` names it, false if the kernel knows; None if it is of a family that the socket
    /// cannot reach, which says nothing of the link.
    fn address(&mut self, destination: Address) -> io::Result<Option<bool>> {
        match destination {
            Address::Peer if self.connected => Ok(Some(false)),
            Address::Peer if self.peer.is_some() => Ok(Some(true)),
            Address::Peer => Err(io::Error::new(io::ErrorKind::NotConnected, "the link has no peer yet")),
            Address::Inet(address) => {
                let address = canonical(address);
                if self.connected && self.peer == Some(address) {
                    return Ok(Some(false));
                }
                if self.peer != Some(address) {
                    if self.peer.is_some() {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidInput,
                            "the link is connected to another peer",
                        ));
                    }
                    let Ok(name) = self.name(address) else { return Ok(None) };
                    self.to = name;
                }
                Ok(Some(true))
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{destination} is no internet address"))),
        }
    }

    /// Whether the socket marks datagrams so by itself. A mark that is wanted again and again becomes the one of a connected
    /// socket: the kernel looks the route up anew for each send that brings its own.
    fn marks_as(&mut self, ecn: Ecn, v4: bool) -> bool {
        let differs = ecn != self.marks;
        if !differs || !std::mem::replace(&mut self.marks_differ, true) || !self.connected || self.socket.is_none() {
            self.marks_differ = differs;
            return !differs;
        }
        let (level, kind) = if v4 { (libc::SOL_IP, libc::IP_TOS) } else { (libc::SOL_IPV6, libc::IPV6_TCLASS) };
        if sys::set_option(self.write_fd, level, kind, c_int::from(ecn as u8)).is_err() {
            return false;
        }
        // The kernel takes a mark for a type of service, and ranks it lower.
        let _ = sys::set_option(self.write_fd, libc::SOL_SOCKET, libc::SO_PRIORITY, 0);
        (self.marks, self.marks_differ) = (ecn, false);
        true
    }

    fn lay_control(&mut self, train: &Train, named: bool, segment: Option<u16>) {
        if self.family == Family::Unix {
            self.out.set_control(None, None, None);
            return;
        }
        let v4 = if named { self.is_v4(self.to.address()) } else { self.is_v4(self.peer) };
        let ecn = if self.ecn { train.ecn() } else { Ecn::NotCapable };
        let tos = (!self.marks_as(ecn, v4)).then_some((!v4, ecn as u8));
        let source = match train.source() {
            Some(Address::Inet(source)) => Some(canonical(source).ip()),
            _ => self.pinned,
        };
        let bound = self.local.map(|local| local.ip());
        let source = source
            .filter(|ip| ip.is_ipv4() == v4 && !ip.is_unspecified() && Some(*ip) != bound && self.socket.is_some());
        self.out.set_control(segment, tos, source);
    }

    /// A train has left, but for `lost` of its datagrams; `old` is a refusal that was told first, and not about this train.
    fn sent(&mut self, train: &Train, lost: usize, old: Option<&Refusal>) -> io::Result<SendOutcome> {
        self.counters.count_train(train, lost);
        match old {
            Some(Refusal::Unreachable) => self.refused(Refusal::Unreachable, 0),
            _ => Ok(SendOutcome::Sent),
        }
    }

    /// Whether a refusal may be about what was sent before: a connected socket answers the next call with what ICMP said,
    /// which anybody can forge, and sends nothing. It has told it then, and can be asked again.
    fn may_be_old(&mut self, refusal: &Refusal, size: usize) -> bool {
        match refusal {
            Refusal::Unreachable | Refusal::Other => self.connected,
            Refusal::TooLarge if self.connected => {
                self.refresh_mtu();
                size <= self.max_datagram
            }
            _ => false,
        }
    }

    /// Bytes of the largest datagram that reaches whoever `self.to` names in one piece: a link that hears everybody does
    /// not know their paths until they refuse.
    fn fits(&mut self) -> usize {
        self.refresh_mtu();
        let of_path = self.one_of_many().and_then(|to| Some(payload(route(to).ok()?.1?, to.is_ipv4())));
        of_path.unwrap_or(self.max_datagram)
    }

    /// Where a train goes, if the link has more than one peer.
    fn one_of_many(&self) -> Option<SocketAddr> {
        self.to.address().filter(|_| !self.has_one_peer())
    }

    fn has_one_peer(&self) -> bool {
        self.peer.is_some() || self.connected
    }

    /// Whose path the train takes; nobody's, where the peer has no internet address.
    fn toward(&self) -> IpAddr {
        self.one_of_many().or(self.peer).map_or(Ipv4Addr::UNSPECIFIED.into(), |to| to.ip())
    }

    /// What a refusal means that has nothing to do with offload.
    fn refused(&mut self, refusal: Refusal, size: usize) -> io::Result<SendOutcome> {
        match refusal {
            Refusal::TooLarge => {
                let fits = self.fits();
                Ok(SendOutcome::TooLarge((fits < size).then_some(fits as u32)))
            }
            refusal => refusal.outcome(&mut self.counters),
        }
    }

    /// Sends every datagram of a train as one, in as few calls as the kernel needs.
    fn send_singly(&mut self, train: &Train, memory: &BufferTable, named: bool) -> io::Result<SendOutcome> {
        self.send_each(train, memory, named, false)
    }

    /// `is_unmarked`: it was refused with the mark, and goes without now.
    fn send_each(
        &mut self,
        train: &Train,
        memory: &BufferTable,
        named: bool,
        is_unmarked: bool,
    ) -> io::Result<SendOutcome> {
        self.lay_control(train, named, None);
        if !self.out.gather_singly(train, memory, named.then_some(&mut self.to)) {
            return self.refused(Refusal::Other, 0);
        }
        let mut done = self.out.resume(train);
        let (mut lost, mut old) = (0, None);
        let fd = self.write_fd;
        loop {
            let calls = &mut self.counters.send_calls;
            // SAFETY: `gather_singly` laid the messages out: pieces in the train and in memory that the table vouches for, a
            // name in `self.to`; none of it moves in this loop.
            let Some(refusal) = (unsafe { self.out.send_singly(fd, &mut done, calls) }) else { break };
            if matches!(refusal, Refusal::Unwilling) && !is_unmarked && self.give_up_ecn(train) {
                self.out.interrupt(train, done);
                return self.send_each(train, memory, named, true);
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
                refusal if old.is_none() && self.may_be_old(&refusal, train.segment_size()) => old = Some(refusal),
                refusal => return self.refused(refusal, train.segment_size()),
            }
        }
        if lost == train.segments() {
            return Ok(SendOutcome::Sent);
        }
        self.sent(train, lost, old.as_ref())
    }

    /// Some kernels refuse the ECN control message. True if that may have been why, and it is not sent any more. They also
    /// refuse to send to port 0, which whoever forges a source can name.
    fn give_up_ecn(&mut self, train: &Train) -> bool {
        let is_nowhere = matches!(train.destination(), Address::Inet(to) if to.port() == 0);
        let used = self.ecn && train.ecn() != Ecn::NotCapable && !is_nowhere;
        self.ecn &= !used;
        used
    }

    /// Whether the kernel is asked to cut this train up.
    fn segments_train(&mut self, train: &Train) -> bool {
        let size = train.segment_size();
        let may_fit = train.segments() <= self.segments && train.bytes() <= self.train_bytes();
        // Mostly there is none, and no clock to look at.
        if !may_fit || self.unsegmented.is_empty() {
            return may_fit;
        }
        size < self.unsegmented.below(Instant::now(), self.toward())
    }

    /// A path refused to segment: send singly now, and do not ask again for a while.
    fn fall_back(&mut self, train: &Train, memory: &BufferTable, named: bool) -> io::Result<SendOutcome> {
        let errors = self.counters.send_errors;
        let outcome = self.send_singly(train, memory, named)?;
        if outcome != SendOutcome::Sent || self.counters.send_errors > errors {
            return Ok(outcome);
        }
        self.counters.offload_fallbacks += 1;
        // They go as fragments, which cannot be segmented as well; smaller ones can.
        let from = if train.segment_size() > self.fits() { train.segment_size() } else { 0 };
        self.unsegmented.note(Instant::now(), self.toward(), from);
        Ok(outcome)
    }

    fn take_control(&mut self, len: usize, read: &mut Received) {
        for (level, kind, value) in self.control.messages(len) {
            match (level, kind) {
                (libc::SOL_UDP, sys::UDP_GRO) => {
                    if let Some(size) = sys::first(value).map(i32::from_ne_bytes)
                        && size > 0
                    {
                        read.segment = (size as usize).min(read.bytes);
                    }
                }
                (libc::SOL_IP, libc::IP_TOS) => {
                    read.meta.ecn = value.first().map_or(Ecn::NotCapable, |bits| Ecn::from_bits(*bits));
                }
                (libc::SOL_IPV6, libc::IPV6_TCLASS) => {
                    let bits = sys::first(value).map_or(0, i32::from_ne_bytes);
                    read.meta.ecn = Ecn::from_bits(bits as u8);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    sys::count_drops(value, &mut self.last_drops, &mut self.counters);
                }
                _ => {
                    if let Some(mut to) = sys::destination(level, kind, value) {
                        to.set_port(self.local.map_or(0, |local| local.port()));
                        read.meta.destination = Some(to.into());
                    }
                }
            }
        }
    }
}

impl Link for UdpLink {
    fn train_limits(&self) -> TrainLimits {
        let is_refused = || !self.unsegmented.is_empty() && self.unsegmented.refuses_all(self.toward());
        let is_single = self.segments <= 1 || (self.has_one_peer() && is_refused());
        let segments = if is_single { SINGLE_SEGMENTS } else { self.segments };
        TrainLimits { bytes: self.train_bytes(), segments, ..TrainLimits::GSO }
    }

    fn max_datagram(&self) -> usize {
        self.max_datagram
    }

    fn datagrams_per_read(&self) -> usize {
        if self.coalescing { Offload::of_this_kernel().segments.max(64) } else { 1 }
    }

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        if train.is_empty() {
            return Ok(SendOutcome::Sent);
        }
        let Some(named) = self.address(train.destination())? else { return self.refused(Refusal::Unreachable, 0) };
        let (segments, size) = (train.segments(), train.segment_size());
        let offload = segments > 1;
        if offload && !self.segments_train(train) {
            return self.send_singly(train, memory, named);
        }
        let (mut old, mut is_unmarked) = (None, false);
        loop {
            self.lay_control(train, named, offload.then_some(size as u16));
            if !self.out.gather(train, memory, offload && size < self.stage_below) {
                return self.refused(Refusal::Other, 0);
            }
            let message = self.out.message(named.then_some(&mut self.to));
            self.counters.send_calls += 1;
            // SAFETY: `gather` laid the message out: pieces in `self.out`, in the train and in memory that the table
            // vouches for, a name in `self.to`; none of it has moved since, and the kernel only reads it.
            if unsafe { sys::send_message(self.write_fd, &message, Outgoing::FLAGS) } >= 0 {
                return self.sent(train, 0, old.as_ref());
            }
            match Refusal::last() {
                None => {}
                Some(refusal) if old.is_none() && self.may_be_old(&refusal, size) => old = Some(refusal),
                // Without the mark first: there is one kernel, but many paths, and one that does not segment says so again.
                Some(Refusal::Unwilling) if self.give_up_ecn(train) => is_unmarked = true,
                Some(refusal) => {
                    // It need not have been the mark.
                    self.ecn |= is_unmarked;
                    return match refusal {
                        Refusal::TooLarge | Refusal::Unwilling if offload => self.fall_back(train, memory, named),
                        refusal => self.refused(refusal, size),
                    };
                }
            }
        }
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        let slots = pool.lay_out_spans(plan, memory);
        let used = slots.len().min(sys::MAX_PIECES);
        let checked = (!self.connected || self.settling > 0) && self.family != Family::Unix;
        for _ in 0..STRANGERS_A_READ {
            let mut header = sys::header();
            if checked {
                self.from = Name::room();
                self.from.attach(&mut header);
            }
            header.msg_iov = slots.as_mut_ptr();
            header.msg_iovlen = used as _;
            if self.heeds_control {
                self.control.attach_room(&mut header);
            }
            // SAFETY: the slots are memory that the pool and the table vouch for; name and control lie in `self` and stay there.
            let read = unsafe { sys::receive_message(self.read_fd, &mut header, libc::MSG_DONTWAIT) };
            if read < 0 {
                match Refusal::last() {
                    None => {}
                    Some(Refusal::TooLarge) => self.refresh_mtu(),
                    Some(refusal) => {
                        if matches!(refusal, Refusal::Blocked | Refusal::QueueFull) {
                            self.settling = self.settling.saturating_sub(1);
                            self.look_at_errors();
                        }
                        return refusal.read_outcome(&mut self.counters);
                    }
                }
                continue;
            }
            let bytes = read as usize;
            let source = if checked { self.from.address() } else { None };
            if self.peer.is_some() && source.is_some() && source != self.peer {
                self.counters.datagrams_from_strangers += 1;
                continue;
            }
            let meta = RxMeta {
                source: match source {
                    Some(source) if self.peer.is_none() => source.into(),
                    _ => Address::Peer,
                },
                destination: None,
                ecn: Ecn::NotCapable,
            };
            let truncated = header.msg_flags & libc::MSG_TRUNC != 0;
            let mut read = Received { bytes, segment: bytes, meta, truncated };
            self.take_control(header.msg_controllen as _, &mut read);
            if let (Some(source), Some(Address::Inet(to))) = (source, read.meta.destination) {
                self.last_seen = Some((source, to.ip()));
            }
            self.counters.count_read(&read);
            return Ok(ReadOutcome::Received(read));
        }
        Ok(ReadOutcome::Empty)
    }

    fn allow_fragmentation(&mut self) -> bool {
        !self.fragments() && Self::allow_fragmentation(self).is_ok()
    }

    fn descriptors(&self) -> Descriptors {
        Descriptors { readable: self.read_fd, writable: self.write_fd, busy_poll: self.busy_poll }
    }

    fn counters(&self) -> LinkCounters {
        LinkCounters { bytes_staged: self.out.staged(), ..self.counters }
    }
}

fn payload(mtu: usize, v4: bool) -> usize {
    mtu.saturating_sub(if v4 { HEADERS_V4 } else { HEADERS_V6 }).min(MAX_PAYLOAD)
}
