//! Ethernet frames of EtherType 0x817D, without TCP/IP and beside it (specs/qmp.md, section "Ethernet"). On Linux only.
//!
//! A frame of this type is nothing to TCP/IP, nor are its packets to a link: both share the interface and its queue.

mod address;
#[cfg(target_os = "linux")]
mod linux;

use pinnace_core::Address;
use std::io;
use std::net::IpAddr;

#[cfg(not(target_os = "linux"))]
pub use crate::elsewhere::{EtherLink, neighbour};
pub use address::{EtherAddress, EtherAddressError};
#[cfg(target_os = "linux")]
pub use linux::{EtherLink, neighbour};

/// A station's address.
type Mac = [u8; 6];

/// How a link over Ethernet is set up.
#[derive(Clone, Debug)]
pub struct EtherOptions {
    /// Bytes of receive buffer to ask for. A protocol's window should stay at or below half of what was given
    /// ([`EtherLink::receive_buffer_bytes`]): the kernel counts its own bookkeeping too.
    pub receive_buffer: usize,
    /// Bytes of send buffer to ask for.
    pub send_buffer: usize,
}

impl Default for EtherOptions {
    fn default() -> Self {
        Self { receive_buffer: 4 << 20, send_buffer: 1 << 20 }
    }
}

/// A station on the same link as an interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The index of the interface that it is seen through.
    pub interface: u32,
    /// The name of that interface.
    pub name: String,
    /// The station's MAC address.
    pub mac: [u8; 6],
    /// The address of this host that the station sees.
    pub local: IpAddr,
}

impl Neighbour {
    /// The address that a link over that interface knows the station by.
    pub fn address(&self) -> Address {
        Address::Ethernet { interface: self.interface, mac: self.mac }
    }
}

fn absent(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no interface {name} (`ip link` lists them)"))
}
