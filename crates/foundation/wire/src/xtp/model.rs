//! What packets say, whatever the codec.

use super::Spans;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::Range;

/// How packets are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    /// XTP 4.0, which Wireshark decodes.
    #[default]
    Xtp40,
    /// A reconstruction of revision 3.6, with CXOR.
    Xtp36,
}

/// The option bits of a packet: the upper 16 of the 24 bits of XTP 4.0.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Options(u16);

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident = $bit:literal,)*) => {
        impl Options {
            $($(#[$doc])* pub const $name: Self = Self($bit);)*

            const NAMES: &'static [(&'static str, u16)] = &[$((stringify!($name), $bit)),*];
        }
    };
}

options! {
    /// The data are not summed.
    NOCHECK = 0x4000,
    /// Never set, and ignored.
    EDGE = 0x2000,
    /// Nothing is repeated.
    NOERR = 0x1000,
    /// Multicast.
    MULTI = 0x0800,
    /// The allocation covers posted buffers only.
    RES = 0x0400,
    /// The sort field counts.
    SORT = 0x0200,
    /// The sender ignores the allocation.
    NOFLOW = 0x0100,
    /// A new gap is reported unasked.
    FASTNAK = 0x0080,
    /// A status is asked for, at once.
    SREQ = 0x0040,
    /// A status is asked for when the data up to here have been delivered.
    DREQ = 0x0020,
    /// The sender of the packet wants no more of the peer's stream.
    RCLOSE = 0x0010,
    /// The stream of the sender of the packet ends.
    WCLOSE = 0x0008,
    /// A message ends.
    EOM = 0x0004,
    /// The association ends.
    END = 0x0002,
    /// Eight bytes of the user's come before the data, and a message begins.
    BTAG = 0x0001,
}

impl Options {
    /// No option.
    pub const NONE: Self = Self(0);
    /// Every bit that is defined.
    pub const ALL: Self = Self(0x7fff);
    /// What is the same in all packets of a stream (specs/xtp.md, 3.9).
    pub const OF_STREAM: Self = Self(0x5f80);

    /// The options of 16 bits, or `None` if an undefined one is set.
    pub const fn from_bits(bits: u16) -> Option<Self> {
        if bits & !Self::ALL.0 == 0 { Some(Self(bits)) } else { None }
    }

    /// The 16 bits.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether all of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Both, if `condition`.
    #[must_use]
    pub const fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { self.with(other) } else { self }
    }

    /// These without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl core::fmt::Debug for Options {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut separator = "";
        for (name, bit) in Self::NAMES {
            if self.0 & bit != 0 {
                write!(f, "{separator}{name}")?;
                separator = " ";
            }
        }
        if separator.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

impl core::ops::BitOr for Options {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

/// What kind of packet it is. The numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Data of a stream.
    Data = 0,
    /// A status.
    Cntl = 1,
    /// The beginning of an association.
    First = 2,
    /// A status with spans (xtp40).
    Ecntl = 3,
    /// A status with the responder's key (xtp40).
    Tcntl = 5,
    /// Joining a multicast group (xtp40).
    Jcntl = 7,
    /// A diagnosis.
    Diag = 8,
}

/// Names a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Return: the key is the receiver's of the packet. Otherwise the sender's.
    pub rtn: bool,
    /// The key without RTN: 63 bits (xtp40) or 31 (xtp36), never 0 in a header.
    pub value: u64,
}

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The codec it came in, or goes out in.
    pub codec: Codec,
    /// Whose packet it is.
    pub key: Key,
    /// Its options.
    pub options: Options,
    /// Its kind.
    pub kind: Kind,
    /// Priority, lower first: 16 bits in xtp40, and 0 without [`Options::SORT`].
    pub sort: u32,
    /// Guards against old packets.
    pub sync: u32,
    /// Number of the first user byte, or one past the last one ever sent: 64 bits (xtp40) or 32 (xtp36).
    pub seq: u64,
    /// The next byte to be delivered to the user (xtp36, otherwise 0).
    pub dseq: u32,
}

/// Two hosts and their ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostPair {
    /// aformat 1.
    V4 {
        /// Where the FIRST goes.
        destination: Ipv4Addr,
        /// Where it comes from.
        source: Ipv4Addr,
    },
    /// aformat 6.
    V6 {
        /// Where the FIRST goes.
        destination: Ipv6Addr,
        /// Where it comes from.
        source: Ipv6Addr,
    },
}

/// An address segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressSegment {
    /// The hosts; unspecified ones are 0.
    pub hosts: HostPair,
    /// The port that listens.
    pub destination_port: u16,
    /// The port that sends.
    pub source_port: u16,
}

impl AddressSegment {
    /// Its length in a packet, in bytes.
    pub const fn bytes(&self) -> usize {
        match self.hosts {
            HostPair::V4 { .. } => super::ADDRESS4_BYTES,
            HostPair::V6 { .. } => super::ADDRESS6_BYTES,
        }
    }
}

/// The address of a FIRST or a JCNTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstAddress {
    /// One that we understand.
    Known(AddressSegment),
    /// A format that we do not know: answered with [`Value::AddressFormat`].
    Unknown,
}

/// The services, with their numbers on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Service {
    /// Unacknowledged datagram.
    UnackDgram = 1,
    /// Acknowledged datagram.
    AckDgram = 2,
    /// Transaction.
    Transaction = 3,
    /// Reliable unicast stream: Connection, IsoStream and BulkData of the paper.
    #[default]
    Stream = 4,
    /// Unacknowledged multicast stream.
    UnackMulticast = 5,
    /// Reliable multicast stream.
    Multicast = 6,
}

impl Service {
    /// The service of a number.
    pub const fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::UnackDgram,
            2 => Self::AckDgram,
            3 => Self::Transaction,
            4 => Self::Stream,
            5 => Self::UnackMulticast,
            6 => Self::Multicast,
            _ => return None,
        })
    }
}

/// A traffic specifier. Rates in bytes a second, bursts and sizes in bytes; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of the service, known or not.
    pub service: u8,
    /// The most user bytes of a packet that the sender of the specifier takes.
    pub maxdata: u32,
    /// How fast it takes them.
    pub inrate: u32,
    /// And how many at once.
    pub inburst: u32,
    /// How fast it will send.
    pub outrate: u32,
    /// And how many at once.
    pub outburst: u32,
}

/// The traffic specifier of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstTraffic {
    /// One that we understand. In xtp36 a FIRST has no specifier: this is the service alone, with no limits.
    Known(Traffic),
    /// A format that we do not know: answered with [`Value::TrafficFormat`].
    Unknown,
}

/// The rate and the clock of an xtp36 CNTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// What the sender of the CNTL can take, in bytes a second; 0: no limit.
    pub rate: u32,
    /// And how many bytes at once.
    pub burst: u32,
    /// Its time in units of 20 ms.
    pub time: u32,
    /// The `time` of the newest CNTL that it received; 0: none.
    pub techo: u32,
}

/// What a receiver has: CNTL, ECNTL, TCNTL, and the first part of JCNTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'a> {
    /// One past the last byte of the contiguous ones.
    pub rseq: u64,
    /// Bytes below this may be sent.
    pub alloc: u64,
    /// The sync of the packet that asked.
    pub echo: u32,
    /// Ranges received beyond `rseq`.
    pub spans: Spans<'a>,
    /// The responder's key, RTN masked; 0 or absent: not told.
    pub xkey: u64,
    /// What the responder takes (TCNTL, JCNTL).
    pub traffic: Option<FirstTraffic>,
    /// Rate and clock (xtp36).
    pub clock: Option<Clock>,
    /// One past the highest byte received (xtp36; in xtp40 the end of the last span, or `rseq`).
    pub hseq: u64,
}

/// What follows the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Data of a stream.
    Data {
        /// Eight bytes of the user's; a message begins.
        btag: Option<[u8; 8]>,
        /// Where the user's bytes lie in the datagram.
        data: Range<usize>,
    },
    /// The beginning of an association.
    First {
        /// To whom, and from whom.
        address: FirstAddress,
        /// The service, and how fast.
        traffic: FirstTraffic,
        /// Eight bytes of the user's; a message begins.
        btag: Option<[u8; 8]>,
        /// Where the user's bytes lie in the datagram.
        data: Range<usize>,
    },
    /// What the peer has received.
    Status(Status<'a>),
    /// Joining a group, or the answer to it.
    Join {
        /// rseq, alloc, echo, xkey, traffic.
        status: Status<'a>,
        /// The group.
        address: FirstAddress,
    },
    /// A diagnosis.
    Diag {
        /// What happened ([`Code`]), known or not.
        code: u32,
        /// Why ([`Value`]), known or not.
        value: u32,
        /// For people; any bytes.
        text: &'a [u8],
    },
}

/// The codes of DIAG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Code {
    /// The context was refused.
    ContextRefused = 1,
    /// The context was abandoned.
    ContextAbandoned = 2,
    /// There is no such context.
    InvalidContext = 3,
    /// The request was refused.
    RequestRefused = 4,
    /// The join was refused.
    JoinRefused = 5,
    /// The protocol was violated.
    ProtocolError = 6,
    /// The packet was too large.
    MaximumPacketSize = 7,
}

/// The values of DIAG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Value {
    /// Nothing more is said.
    Unspecified = 0,
    /// Nobody listens there.
    NoListener = 1,
    /// Options are not possible.
    OptionsRefused = 2,
    /// The address format is not known.
    AddressFormat = 3,
    /// The address makes no sense. Never sent.
    MalformedAddress = 4,
    /// The traffic format is not known.
    TrafficFormat = 5,
    /// The traffic is too much.
    TrafficRefused = 6,
    /// The traffic makes no sense. Never sent.
    MalformedTraffic = 7,
    /// The service is not offered.
    NoProvider = 8,
    /// There is no room.
    NoResource = 9,
    /// The host is going down.
    GoingDown = 10,
    /// Bytes were asked for that are no longer held.
    InvalidRetransmission = 11,
    /// The context cannot do that now.
    ImproperState = 12,
    /// The join was denied.
    JoinDenied = 13,
}
