//! What only Linux has, as it is on other systems: raw IP and Ethernet, which nobody can open there.
//!
//! Always true: there is no link of these types, so nothing can be asked of one; whoever wants one is told what to use
//! instead ([`io::ErrorKind::Unsupported`]).

use crate::ether::{EtherOptions, Neighbour};
use crate::ip36::Ip36Options;
use crate::{BufferTable, Descriptors, Link, LinkCounters, ReadBuffer, ReadOutcome, SendOutcome};
use pinnace_core::{Address, ReceivePlan, Train, TrainLimits};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

fn only_on_linux(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{what} only on Linux: use UDP"))
}

fn no_ip36<T>() -> io::Result<T> {
    Err(only_on_linux("IP protocol 36 is had"))
}

fn no_ethernet<T>() -> io::Result<T> {
    Err(only_on_linux("Ethernet frames are sent"))
}

macro_rules! link_of_nobody {
    ($name:ident) => {
        impl Link for $name {
            fn train_limits(&self) -> TrainLimits {
                match *self {}
            }

            fn max_datagram(&self) -> usize {
                match *self {}
            }

            fn datagrams_per_read(&self) -> usize {
                match *self {}
            }

            fn send(&mut self, _: &Train, _: &BufferTable) -> io::Result<SendOutcome> {
                match *self {}
            }

            fn receive(&mut self, _: &ReceivePlan, _: &BufferTable, _: &mut ReadBuffer) -> io::Result<ReadOutcome> {
                match *self {}
            }

            fn descriptors(&self) -> Descriptors {
                match *self {}
            }

            fn counters(&self) -> LinkCounters {
                match *self {}
            }
        }
    };
}

/// A link over raw IP: on Linux only.
#[derive(Debug)]
pub enum Ip36Link {}

link_of_nobody!(Ip36Link);

impl Ip36Link {
    /// A link that owns protocol 36 of an address.
    ///
    /// # Errors
    /// Always.
    pub fn bind(_: IpAddr, _: &Ip36Options) -> io::Result<Self> {
        no_ip36()
    }

    /// The same for any address.
    ///
    /// # Errors
    /// Always.
    pub fn bind_at(_: SocketAddr, _: &Ip36Options) -> io::Result<Self> {
        no_ip36()
    }

    /// A link to one peer alone.
    ///
    /// # Errors
    /// Always.
    pub fn connect(_: Option<IpAddr>, _: IpAddr, _: &Ip36Options) -> io::Result<Self> {
        no_ip36()
    }

    /// The address that this link owns.
    pub fn local_address(&self) -> IpAddr {
        match *self {}
    }

    /// The one peer of a connected link.
    pub fn peer_address(&self) -> Option<IpAddr> {
        match *self {}
    }

    /// Bytes of receive buffer that the system gave.
    pub fn receive_buffer_bytes(&self) -> usize {
        match *self {}
    }

    /// What the system refused.
    pub fn warnings(&self) -> Vec<String> {
        match *self {}
    }

    /// Whether the kernel may cut datagrams.
    pub fn fragments(&self) -> bool {
        match *self {}
    }
}

/// A link over Ethernet: on Linux only.
#[derive(Debug)]
pub enum EtherLink {}

link_of_nobody!(EtherLink);

impl EtherLink {
    /// A link that owns EtherType 0x817D on an interface.
    ///
    /// # Errors
    /// Always.
    pub fn bind(_: &str, _: &EtherOptions) -> io::Result<Self> {
        no_ethernet()
    }

    /// The interface's index on this host.
    pub fn interface(&self) -> u32 {
        match *self {}
    }

    /// What the interface is called.
    pub fn interface_name(&self) -> &str {
        match *self {}
    }

    /// The interface's MAC address.
    pub fn mac(&self) -> [u8; 6] {
        match *self {}
    }

    /// The address that other stations reach this one at.
    pub fn local_address(&self) -> Address {
        match *self {}
    }

    /// Bytes of receive buffer that the system gave.
    pub fn receive_buffer_bytes(&self) -> usize {
        match *self {}
    }

    /// What the system refused.
    pub fn warnings(&self) -> Vec<String> {
        match *self {}
    }
}

/// The station that an IP address is that of: asked for on Linux only.
///
/// # Errors
/// Always.
pub fn neighbour(_: IpAddr, _: Duration) -> io::Result<Neighbour> {
    no_ethernet()
}
