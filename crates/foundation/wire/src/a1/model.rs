//! What datagrams say.

use super::{COOKIE_BYTES, Ranges};
use core::net::{Ipv4Addr, SocketAddrV4};
use core::num::{NonZeroU16, NonZeroU32};

/// What kind of datagram it is. The numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A connection is asked for.
    Open = 1,
    /// The connection is there.
    Accept = 2,
    /// There will be no connection, or not without a cookie.
    Reject = 3,
    /// A block.
    Data = 4,
    /// What has been received.
    Ack = 5,
    /// What is missing.
    Nack = 6,
    /// The sender measures the round trip.
    Sync = 7,
    /// The answer.
    SyncReply = 8,
    /// The connection ends.
    Close = 9,
    /// The answer.
    CloseReply = 10,
    /// The quality of service changes.
    Qos = 11,
    /// The answer.
    QosReply = 12,
}

impl Kind {
    /// The kind of a number on the wire.
    pub const fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Open,
            2 => Self::Accept,
            3 => Self::Reject,
            4 => Self::Data,
            5 => Self::Ack,
            6 => Self::Nack,
            7 => Self::Sync,
            8 => Self::SyncReply,
            9 => Self::Close,
            10 => Self::CloseReply,
            11 => Self::Qos,
            12 => Self::QosReply,
            _ => return None,
        })
    }
}

/// What all datagrams say. The [module](super) tells what `sequence` and `edge` are in each type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The receiver's identifier of the connection; of OPEN the opener's own, of DATA to a group the group's.
    pub connection: NonZeroU32,
    /// A block number.
    pub sequence: u32,
    /// Blocks below this may be sent, by who reads it.
    pub edge: u32,
    /// Microseconds of the sender's clock, modulo 2^32; of replies and ACKs those of what they answer.
    pub stamp: u32,
    /// It has a checksum. OPEN and REJECT always have; of ACCEPT, QOS and QOS_REPLY their record says it.
    pub is_checked: bool,
    /// It was sent before.
    pub is_retransmitted: bool,
}

/// An address of A1: a host and a port, of 32 bits each. It maps to an IPv4 address and a UDP port.
///
/// ```
/// use pinnace_wire::a1::Address;
/// let address = Address::from_bits(0x7f00_0001_0000_1b59);
/// assert_eq!(address.socket(), "127.0.0.1:7001".parse().ok());
/// assert_eq!(Address { host: 0xf000_0001, port: 7001 }.socket(), None, "a name for an IPv6 host");
/// ```
//= A-14
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The host; 0 if it is not told, or any.
    pub host: u32,
    /// The port.
    pub port: u32,
}

impl Address {
    /// The address of 64 bits, the host in the upper ones.
    pub const fn from_bits(bits: u64) -> Self {
        Self { host: (bits >> 32) as u32, port: bits as u32 }
    }

    /// The 64 bits.
    pub const fn bits(self) -> u64 {
        (self.host as u64) << 32 | self.port as u64
    }

    /// Whether the host is one of 240.0.0.0/4, which only name IPv6 hosts in a local table.
    pub const fn is_mapped(self) -> bool {
        self.host >> 28 == 0xf
    }

    /// The IPv4 address and the UDP port, if it has them: not if the host [is mapped](Self::is_mapped), nor if UDP has no
    /// such port.
    pub const fn socket(self) -> Option<SocketAddrV4> {
        if self.is_mapped() || self.port > u16::MAX as u32 {
            return None;
        }
        Some(SocketAddrV4::new(Ipv4Addr::from_bits(self.host), self.port as u16))
    }
}

impl From<SocketAddrV4> for Address {
    fn from(socket: SocketAddrV4) -> Self {
        Self { host: socket.ip().to_bits(), port: socket.port().into() }
    }
}

/// A quality of service. Averages in bytes a second, bursts and sizes in bytes; a rate of 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Qos {
    /// Datagrams have checksums.
    pub has_checksum: bool,
    /// What is lost is sent again.
    pub has_retransmission: bool,
    /// 0 is the most urgent.
    pub priority: u8,
    /// Bytes of a block, as the peer says: anything.
    pub block_size: u32,
    /// How fast the sender of the record sends.
    pub send_average: u64,
    /// And how much at once.
    pub send_burst: u32,
    /// How fast it receives.
    pub receive_average: u64,
    /// And how much at once.
    pub receive_burst: u32,
    /// The largest message that it sends.
    pub largest_sent: u32,
    /// The largest that it receives.
    pub largest_received: u32,
    /// Messages under way.
    pub outstanding: u32,
    /// Extension: blocks of an unreliable message that are older than so many microseconds are not sent; 0: never.
    pub deadline: u32,
}

/// 16 to 64 bytes that prove an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cookie<'a>(&'a [u8]);

impl<'a> Cookie<'a> {
    /// A cookie of these bytes, if they are neither too few nor too many.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        COOKIE_BYTES.contains(&bytes.len()).then_some(Self(bytes))
    }

    /// The bytes.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

impl core::fmt::Debug for Cookie<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An IP multicast group that carries the data of a sender once for all sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    identifier: NonZeroU32,
    socket: SocketAddrV4,
}

impl Group {
    /// A group, if the address is one of multicast and the port is not 0.
    pub const fn new(identifier: NonZeroU32, socket: SocketAddrV4) -> Option<Self> {
        if socket.ip().is_multicast() && socket.port() != 0 { Some(Self { identifier, socket }) } else { None }
    }

    /// The `connection` of its DATA.
    pub const fn identifier(&self) -> NonZeroU32 {
        self.identifier
    }

    /// Where its DATA go.
    pub const fn socket(&self) -> SocketAddrV4 {
        self.socket
    }
}

/// The body of an OPEN. Its connection identifier is that of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open<'a> {
    /// Whom it calls. The host is informative.
    pub destination: Address,
    /// Who calls. Informative.
    pub source: Address,
    /// What the opener wants.
    pub qos: Qos,
    /// What a [`Reject::Cookie`] asked for.
    pub cookie: Option<Cookie<'a>>,
    /// The data of the opener also go to this group.
    pub group: Option<Group>,
}

/// The body of an ACCEPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Whom the OPEN called, as the acceptor sees it: its `destination` is the opener. Informative.
    pub destination: Address,
    /// Who accepts. Informative.
    pub source: Address,
    /// The acceptor's identifier of the connection.
    pub identifier: NonZeroU32,
    /// The quality of service in force, from the acceptor's end.
    pub qos: Qos,
    /// The acceptor joined the group.
    pub has_joined: bool,
}

/// Why there will be no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum RejectCode {
    /// Nobody listens there.
    NoListener = 1,
    /// The qualities of service are too different.
    Qos = 2,
    /// No more connections are possible.
    NoResources = 3,
    /// The OPEN makes no sense.
    Malformed = 5,
    /// The opener may not.
    NotAuthorised = 6,
}

impl RejectCode {
    /// The code of a number on the wire. 4, which asks for a cookie, is none.
    pub const fn from_wire(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::NoListener,
            2 => Self::Qos,
            3 => Self::NoResources,
            5 => Self::Malformed,
            6 => Self::NotAuthorised,
            _ => return None,
        })
    }
}

/// The body of a REJECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject<'a> {
    /// The same OPEN is wanted again, with this behind it.
    Cookie(Cookie<'a>),
    /// No.
    Refused {
        /// Why.
        code: RejectCode,
        /// The same, for people.
        text: &'a str,
    },
}

/// What the header of DATA says of its block. Always true: the index is below the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    message: u32,
    index: u16,
    count: NonZeroU16,
    is_reliable: bool,
    is_group: bool,
}

impl Block {
    /// A block, if the index is below the count. It is neither reliable nor a group's.
    pub const fn new(message: u32, index: u16, count: u16) -> Option<Self> {
        match NonZeroU16::new(count) {
            Some(count) if index < count.get() => {
                Some(Self { message, index, count, is_reliable: false, is_group: false })
            }
            _ => None,
        }
    }

    /// The same of a connection with or without retransmission.
    #[must_use]
    pub const fn reliable(self, is_reliable: bool) -> Self {
        Self { is_reliable, ..self }
    }

    /// The same to a group, or not.
    #[must_use]
    pub const fn to_group(self, is_group: bool) -> Self {
        Self { is_group, ..self }
    }

    /// Number of the message.
    pub const fn message(&self) -> u32 {
        self.message
    }

    /// Index of the block in it.
    pub const fn index(&self) -> u16 {
        self.index
    }

    /// How many blocks it has.
    pub const fn count(&self) -> u16 {
        self.count.get()
    }

    /// Whether the message begins with it.
    pub const fn is_start(&self) -> bool {
        self.index == 0
    }

    /// Whether the message ends with it.
    pub const fn is_end(&self) -> bool {
        self.index == self.count.get() - 1
    }

    /// Whether it is sent again if it is lost.
    pub const fn is_reliable(&self) -> bool {
        self.is_reliable
    }

    /// Whether it was sent to a group: `connection` is the group's identifier, and there is no edge.
    pub const fn is_group(&self) -> bool {
        self.is_group
    }
}

/// The body of QOS and QOS_REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Counts the changes of one end, from 1. 0 is an old one, whatever came before.
    pub epoch: u32,
    /// The record; in the reply as it was accepted.
    pub qos: Qos,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum CloseCode {
    /// Everything was sent.
    Normal = 0,
    /// At once.
    Aborted = 1,
}

impl CloseCode {
    /// The code of a number on the wire.
    pub const fn from_wire(number: u16) -> Option<Self> {
        match number {
            0 => Some(Self::Normal),
            1 => Some(Self::Aborted),
            _ => None,
        }
    }
}

/// What follows the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A connection is asked for.
    Open(Open<'a>),
    /// It is there.
    Accept(Accept),
    /// It will not be.
    Reject(Reject<'a>),
    /// A block. Its bytes are the body.
    Data(Block),
    /// Received beyond `sequence`, of which [`Header::sequence`] itself is missing.
    Ack(Ranges<'a>),
    /// Missing from `sequence` on; if there is none, it is as good as an ACK.
    Nack(Ranges<'a>),
    /// The round trip is measured.
    Sync,
    /// The answer.
    SyncReply,
    /// The connection ends.
    Close(CloseCode),
    /// The answer.
    CloseReply(CloseCode),
    /// The quality of service changes.
    Qos(Change),
    /// The answer.
    QosReply(Change),
}
