//! Where datagrams come from and go to, for every kind of link.
//!
//! An engine compares, stores and returns addresses; it never resolves or opens one.

use core::net::SocketAddr;

/// A peer's address on some link. Ordered, so that tables keyed by it iterate in the same order in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// The one peer of a connected link; the link knows who it is.
    Peer,
    /// UDP, and IP protocol 36 (whose port is 0).
    Inet(SocketAddr),
    /// An Ethernet station seen through one interface.
    Ethernet {
        /// Interface index on this host.
        interface: u32,
        /// The station's MAC address.
        mac: [u8; 6],
    },
    /// A node of the simulator or an endpoint in shared memory.
    Node(u32),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Inet(address)
    }
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Peer => f.write_str("the connected peer"),
            Self::Inet(address) => address.fmt(f),
            Self::Ethernet { interface, mac: [a, b, c, d, e, g] } => {
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}%{interface}")
            }
            Self::Node(number) => write!(f, "node {number}"),
        }
    }
}

/// The two ECN bits of an IP header (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not understand ECN.
    #[default]
    NotCapable = 0b00,
    /// ECN capable, codepoint 1 (used by L4S).
    Capable1 = 0b01,
    /// ECN capable, codepoint 0.
    Capable0 = 0b10,
    /// A router on the path is congested.
    Congested = 0b11,
}

impl Ecn {
    /// Reads the low two bits of a type-of-service or traffic-class byte.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b01 => Self::Capable1,
            0b10 => Self::Capable0,
            0b11 => Self::Congested,
            _ => Self::NotCapable,
        }
    }
}
