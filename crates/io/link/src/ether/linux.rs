//! [`EtherLink`] on Linux.
//!
//! A train leaves by `sendmmsg`, gathered from application memory: the kernel segments nothing that is not TCP or UDP. A
//! read brings one frame, scattered into application memory; the kernel makes and takes away the Ethernet header, so that a
//! plan begins at the transport's header. The medium pads short frames: a datagram may be longer than it was sent, and only
//! the protocol in it knows. A frame has no room for ECN bits.
//!
//! Always true: while a link lives it is the only one of its network namespace that owns the EtherType on its interface (it
//! holds the abstract Unix socket `pinnace-ether-INTERFACE`); nothing is handed up that another interface received (a VLAN
//! on top of this one, say), or that was not sent to this interface's own address.

mod interface;
mod neighbour;

pub use neighbour::neighbour;

use super::{EtherOptions, Mac};
use crate::sys::{self, Buffer, Control, FrameKind, Name, Outgoing, Refusal};
use crate::{BufferTable, Descriptors, Link, LinkCounters, ReadBuffer, ReadOutcome, Received, SendOutcome};
use interface::Interface;
use libc::c_int;
use pinnace_core::{Address, Ecn, ReceivePlan, RxMeta, Train, TrainLimits};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};

/// `PACKET_IGNORE_OUTGOING`, which the C library's crate does not have.
const IGNORE_OUTGOING: c_int = 23;
/// Frames a train: one `sendmmsg`.
const SEGMENTS: usize = 32;
/// Frames for others thrown away in one call, before the driver may do something else.
const STRANGERS_A_READ: usize = 64;
/// A send buffer that follows the interface's queue becomes no smaller.
const LEAST_SEND_BUFFER: usize = 16 << 10;
/// Trains that find room before a send buffer that followed the interface's queue gets its size back.
const TRAINS_AT_EASE: u32 = 1024;

/// A link over Ethernet. See the [crate documentation](crate).
///
/// ```
/// use pinnace_link::{EtherLink, EtherOptions};
/// use std::io::ErrorKind;
/// // The loopback interface is not Ethernet, and without CAP_NET_RAW there is no link at all; the errors say so.
/// let error = EtherLink::bind("lo", &EtherOptions::default()).unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::PermissionDenied), "{error}");
/// ```
pub struct EtherLink {
    socket: OwnedFd,
    /// Held as long as the EtherType is ours.
    _name: UnixDatagram,
    interface: Interface,
    receive_buffer: usize,
    send_buffer: SendBuffer,
    warnings: Vec<String>,
    counters: LinkCounters,
    last_drops: u32,
    to: Name,
    out: Outgoing,
    from: Name,
    control: Control,
}

/// How large a send buffer is. An interface's queue may be shorter than it; then the kernel throws frames away that the
/// socket still takes, and the socket stays writable. A smaller buffer fills up first, and says when there is room again.
#[derive(Debug)]
struct SendBuffer {
    /// Bytes that the system gave, counted as they were asked for.
    given: usize,
    /// Trains until it has that size again.
    until_ease: u32,
}

/// One frame, as far as the kernel tells.
struct Frame {
    bytes: usize,
    source: Mac,
    truncated: bool,
}

/// What came of a `recvmsg`.
enum RawRead {
    /// A frame, if it was for us.
    Frame(Option<Frame>),
    /// This host's own.
    Outgoing,
    /// None if the call was only interrupted.
    Refused(Option<Refusal>),
}

impl std::fmt::Debug for EtherLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtherLink")
            .field("descriptor", &self.socket)
            .field("interface", &self.interface)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl EtherLink {
    /// A link that owns EtherType 0x817D on `interface` and hears every station. The interface may be down: nothing comes
    /// until it is up.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`, `NotFound` if there is no such interface, `InvalidInput` if it is not
    /// Ethernet, `AddrInUse` if the EtherType has an owner there.
    pub fn bind(interface: &str, options: &EtherOptions) -> io::Result<Self> {
        let socket = packet_socket()?;
        let fd = socket.as_raw_fd();
        let interface = Interface::find(fd, interface)?;
        let name = own(&interface.name)?;
        let mut warnings = Vec::new();
        if !interface.is_up {
            warnings.push(format!("the interface {0} is down: run `ip link set {0} up`", interface.name));
        }
        // Those that only make things better may fail.
        let _ = sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        let _ = sys::set_option(fd, libc::SOL_PACKET, IGNORE_OUTGOING, 1);
        let receive_buffer = sys::size_buffer(fd, options.receive_buffer, Buffer::Receive, &mut warnings);
        let given = sys::size_buffer(fd, options.send_buffer, Buffer::Send, &mut warnings);
        // Until now the socket was of no protocol, so nothing is queued in it.
        let to = Name::of_station(interface.index, None);
        to.bind(fd)?;
        Ok(Self {
            socket,
            _name: name,
            interface,
            receive_buffer,
            send_buffer: SendBuffer { given, until_ease: 0 },
            warnings,
            counters: LinkCounters::default(),
            last_drops: 0,
            to,
            out: Outgoing::new(),
            from: Name::room(),
            control: Control::new(),
        })
    }

    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The interface's index on this host: the one in every [`Address::Ethernet`] of this link.
    pub fn interface(&self) -> u32 {
        self.interface.index
    }

    /// What the interface was called when the link was made, or last in trouble.
    pub fn interface_name(&self) -> &str {
        &self.interface.name
    }

    /// The interface's MAC address.
    pub fn mac(&self) -> [u8; 6] {
        self.interface.mac
    }

    /// The address that other stations of the same link reach this one at (with their own interface's index).
    pub fn local_address(&self) -> Address {
        self.station(self.interface.mac)
    }

    /// Bytes of receive buffer that the system gave, counted as they were asked for.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer
    }

    /// What the system refused and what is not as it should be, in plain words, each with the command that would change it.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    fn station(&self, mac: Mac) -> Address {
        Address::Ethernet { interface: self.interface.index, mac }
    }

    /// Asks again what the interface is like: its MTU may have changed, and its address.
    ///
    /// # Errors
    /// `NotFound` if it is gone, which makes the link useless: another one of the same name is another interface.
    fn refresh(&mut self) -> io::Result<()> {
        match Interface::of_index(self.fd(), self.interface.index)? {
            Some(interface) => self.interface = interface,
            None => {
                let text = format!("the interface {} is gone", self.interface.name);
                return Err(io::Error::new(io::ErrorKind::NotFound, text));
            }
        }
        Ok(())
    }

    /// Lets `self.to` name the station that a train goes to.
    fn address(&mut self, destination: Address) -> io::Result<()> {
        match destination {
            Address::Ethernet { interface, mac } if interface == self.interface.index => {
                self.to = Name::of_station(interface, Some(mac));
                Ok(())
            }
            Address::Ethernet { .. } => {
                let text = format!("{destination} is seen through another interface than {}", self.interface.index);
                Err(invalid(text))
            }
            Address::Peer => Err(io::Error::new(io::ErrorKind::NotConnected, "the link has no peer")),
            _ => Err(invalid(format!("{destination} is no Ethernet station"))),
        }
    }

    /// What a refusal means.
    fn refused(&mut self, refusal: Refusal, size: usize) -> io::Result<SendOutcome> {
        if matches!(refusal, Refusal::Unreachable | Refusal::TooLarge) {
            self.refresh()?;
        }
        match refusal {
            Refusal::TooLarge => {
                let fits = self.max_datagram();
                Ok(SendOutcome::TooLarge((fits < size).then_some(fits as u32)))
            }
            refusal => refusal.outcome(&mut self.counters),
        }
    }

    /// Reads one frame into the slots of `plan`.
    fn receive_frame(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> RawRead {
        let slots = pool.lay_out_spans(plan, memory);
        let mut message = sys::header();
        self.from = Name::room();
        self.from.attach(&mut message);
        message.msg_iov = slots.as_mut_ptr();
        message.msg_iovlen = slots.len().min(sys::MAX_PIECES) as _;
        self.control.attach_room(&mut message);
        // SAFETY: the slots are memory that the pool and the table vouch for; name and control lie in `self` and stay there.
        let bytes = unsafe { sys::receive_message(self.socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
        let Ok(bytes) = usize::try_from(bytes) else { return RawRead::Refused(Refusal::last()) };
        for (level, kind, value) in self.control.messages(message.msg_controllen as _) {
            if (level, kind) == (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) {
                sys::count_drops(value, &mut self.last_drops, &mut self.counters);
            }
        }
        let truncated = message.msg_flags & libc::MSG_TRUNC != 0;
        match self.from.station() {
            Some((_, FrameKind::Outgoing, _)) => RawRead::Outgoing,
            Some((interface, FrameKind::Host, source)) if interface == self.interface.index => {
                RawRead::Frame(Some(Frame { bytes, source, truncated }))
            }
            _ => RawRead::Frame(None),
        }
    }
}

impl SendBuffer {
    /// The interface's queue has no room, the socket still has. True if a socket with a smaller buffer will say when to go
    /// on; otherwise most of what is queued is not from this link, and nobody will.
    fn follow_queue(&mut self, socket: RawFd) -> bool {
        let mut queued: c_int = 0;
        // SAFETY: the call writes one `int`.
        let done = unsafe { libc::ioctl(socket, libc::TIOCOUTQ as _, &raw mut queued) };
        // The kernel doubles what it is asked for.
        let wanted = usize::try_from(queued).unwrap_or(0) / 8 * 3;
        if done != 0 || wanted < LEAST_SEND_BUFFER {
            return false;
        }
        self.until_ease = TRAINS_AT_EASE;
        sys::set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, wanted as c_int).is_ok()
    }

    /// A train found room.
    fn ease(&mut self, socket: RawFd) {
        if self.until_ease > 0 {
            self.until_ease -= 1;
            if self.until_ease == 0 {
                // What was given once is not complained of now.
                sys::size_buffer(socket, self.given, Buffer::Send, &mut Vec::new());
            }
        }
    }
}

impl Link for EtherLink {
    fn train_limits(&self) -> TrainLimits {
        TrainLimits { segments: SEGMENTS, ..TrainLimits::GSO }
    }

    fn max_datagram(&self) -> usize {
        self.interface.mtu.min(ReadBuffer::READ_BYTES)
    }

    fn datagrams_per_read(&self) -> usize {
        1
    }

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        if train.is_empty() {
            return Ok(SendOutcome::Sent);
        }
        self.address(train.destination())?;
        self.out.set_control(None, None, None);
        if !self.out.gather_singly(train, memory, Some(&mut self.to)) {
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
            let is_lost = match refusal {
                Refusal::Unwilling | Refusal::Other => true,
                Refusal::QueueFull => !self.send_buffer.follow_queue(fd),
                _ => false,
            };
            if is_lost {
                self.refused(Refusal::Other, 0)?;
                done += 1;
                lost += 1;
                continue;
            }
            if matches!(refusal, Refusal::Blocked | Refusal::QueueFull) {
                self.out.interrupt(train, done);
            }
            return self.refused(refusal, train.segment_size());
        }
        self.send_buffer.ease(fd);
        self.counters.count_train(train, lost);
        Ok(SendOutcome::Sent)
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        for _ in 0..STRANGERS_A_READ {
            let frame = match self.receive_frame(plan, memory, pool) {
                RawRead::Frame(Some(frame)) => frame,
                RawRead::Frame(None) => {
                    self.counters.datagrams_from_strangers += 1;
                    continue;
                }
                RawRead::Outgoing | RawRead::Refused(None) => continue,
                RawRead::Refused(Some(refusal)) => {
                    if matches!(refusal, Refusal::Unreachable | Refusal::TooLarge | Refusal::Other) {
                        self.refresh()?;
                    }
                    return refusal.read_outcome(&mut self.counters);
                }
            };
            let source = self.station(frame.source);
            let read = Received {
                bytes: frame.bytes,
                segment: frame.bytes,
                meta: RxMeta { source, destination: Some(self.local_address()), ecn: Ecn::NotCapable },
                truncated: frame.truncated,
            };
            self.counters.count_read(&read);
            return Ok(ReadOutcome::Received(read));
        }
        Ok(ReadOutcome::Empty)
    }

    fn descriptors(&self) -> Descriptors {
        Descriptors::new(self.fd(), self.fd())
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.into())
}

/// Takes the name that stands for the EtherType on `interface` in this network namespace.
fn own(interface: &str) -> io::Result<UnixDatagram> {
    let name = format!("pinnace-ether-{interface}");
    let address = UnixAddress::from_abstract_name(&name)?;
    UnixDatagram::bind_addr(&address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            let text = format!(
                "EtherType {:#06x} of {interface} has an owner already (Unix socket @{name}; `ss -xap` shows it)",
                crate::ETHER_TYPE
            );
            io::Error::new(io::ErrorKind::AddrInUse, text)
        }
        _ => error,
    })
}

//= Q-1
/// A socket that gets nothing until it is bound: it is of no protocol yet. Bound to one EtherType, it takes no other
/// protocol's frames, and leaves them all alone.
fn packet_socket() -> io::Result<OwnedFd> {
    sys::raw_socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0, "Ethernet frames need")
}
