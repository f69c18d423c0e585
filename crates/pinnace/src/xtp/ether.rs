//! Ethernet below the engine (specs/qmp.md, Ethernet): interfaces by their IP address, stations by theirs.

use super::Options;
use super::groups::Groups;
use super::options::Path;
use super::port::{self, Bound, Names};
use crate::Error;
use pinnace_core::Address;
use pinnace_link::{CaptureOptions, EtherLink, EtherOptions, Link, Neighbour, neighbour};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How long the kernel may ask for the station behind an address.
const RESOLVE: Duration = Duration::from_secs(3);

/// A link over an interface of this host, whose address is `local`.
pub(super) fn bind(interface: &str, local: SocketAddr, options: &Options) -> Result<Bound, Error> {
    let failed = |error| Error::io(format!("cannot use the interface {interface}"), error);
    let sizes = EtherOptions { receive_buffer: options.udp.receive_buffer, send_buffer: options.udp.send_buffer };
    let link = EtherLink::bind(interface, &sizes).map_err(failed)?;
    let (names, warnings) = (Names::Stations(link.interface()), link.warnings());
    let receive_buffer = Some(link.receive_buffer_bytes());
    let path = Path { datagram: link.max_datagram(), receive_buffer, is_local: false };
    let ends = CaptureOptions::ether(link.mac(), link.mac());
    let link = port::captured(link, ends, options)?;
    let groups = Groups::None("groups are reached over UDP");
    Ok(Bound { link, path, local, peer: None, names, groups, warnings })
}

/// The interface with this address of this host.
pub(crate) fn interface_of(local: IpAddr) -> Result<String, Error> {
    let failed = |error| Error::listen(local, error);
    let all = if_addrs::get_if_addrs().map_err(failed)?;
    all.into_iter().find(|interface| interface.ip() == local).map(|interface| interface.name).ok_or_else(|| {
        let why = "no interface of this host has this address: name one that has";
        failed(io::Error::new(io::ErrorKind::AddrNotAvailable, why))
    })
}

/// The first IPv4 address of an interface.
pub(crate) fn ipv4_of(interface: &str) -> Option<Ipv4Addr> {
    let all = if_addrs::get_if_addrs().ok()?;
    all.into_iter().filter(|found| found.name == interface).find_map(|found| match found.ip() {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    })
}

/// The station behind `ip`, as the kernel finds it.
pub(super) fn find(ip: IpAddr) -> Result<Neighbour, Error> {
    neighbour(ip, RESOLVE).map_err(|error| Error::io(format!("cannot find the station of {ip}"), error))
}

/// How the engine names the station behind `ip`, seen through this interface.
pub(super) fn station(interface: u32, ip: IpAddr) -> Result<Address, Error> {
    let found = find(ip)?;
    if found.interface == interface {
        return Ok(found.address());
    }
    let why = format!("it is seen through the interface {}, which is another endpoint's", found.name);
    Err(Error::io(format!("cannot reach {ip}"), io::Error::new(io::ErrorKind::HostUnreachable, why)))
}
