//! Addresses: which are this host's, who listens at them, and which port numbers those get who connect.
//!
//! Always true: at most one listener takes an address, as with sockets; every number is given to one channel at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;

/// An address that somebody listens at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// `None`: every address of the family, and with IPv6 also those of IPv4.
    ip: Option<IpAddr>,
    is_v4: bool,
}

impl Place {
    fn of(address: SocketAddr) -> Self {
        let ip = address.ip().to_canonical();
        // `::ffff:0.0.0.0` is every address of IPv4.
        Self { ip: (!ip.is_unspecified()).then_some(ip), is_v4: ip.is_ipv4() }
    }

    /// Whether it is told of who connects to `ip`, and how exactly it asked.
    fn takes(self, ip: IpAddr) -> Option<u8> {
        match self.ip {
            Some(own) => (own == ip).then_some(2),
            None if self.is_v4 == ip.is_ipv4() => Some(1),
            // IPv6 takes IPv4, and not the other way round.
            None => (!self.is_v4).then_some(0),
        }
    }

    /// Whether both would be told of the same.
    fn overlaps(self, other: Self) -> bool {
        match (self.ip, other.ip) {
            (Some(ip), _) => other.takes(ip).is_some(),
            (None, Some(ip)) => self.takes(ip).is_some(),
            (None, None) => true,
        }
    }
}

/// Who listens where.
#[derive(Debug, Default)]
pub(super) struct Registry {
    ports: BTreeMap<u16, Vec<(Place, u64)>>,
}

impl Registry {
    /// Notes a listener. False: somebody listens there, or at a part of it.
    pub(super) fn add(&mut self, address: SocketAddr, listener: u64) -> bool {
        let place = Place::of(address);
        let at_port = self.ports.entry(address.port()).or_default();
        if at_port.iter().any(|(other, _)| other.overlaps(place)) {
            return false;
        }
        at_port.push((place, listener));
        true
    }

    pub(super) fn remove(&mut self, address: SocketAddr, listener: u64) {
        if let Some(at_port) = self.ports.get_mut(&address.port()) {
            at_port.retain(|&(_, other)| other != listener);
            if at_port.is_empty() {
                self.ports.remove(&address.port());
            }
        }
    }

    /// Who listens for who connects to `ip`, an address of this host, and `port`.
    pub(super) fn find(&self, ip: IpAddr, port: u16) -> Option<u64> {
        let at_port = self.ports.get(&port)?;
        let takers = at_port.iter().filter_map(|(place, listener)| Some((place.takes(ip)?, *listener)));
        Some(takers.max()?.1)
    }
}

/// Where a packet to `to` comes from, as the kernel would choose.
fn source_of(to: IpAddr, scope: u32) -> Option<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Nothing is sent.
    socket.connect(with_port(to, 9, scope)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Whether `ip` is one of this host's addresses.
pub(super) fn is_local(ip: IpAddr, scope: u32) -> bool {
    if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return false;
    }
    ip.is_loopback() || source_of(ip, scope) == Some(ip) || {
        // A second address of an interface is not its own source; but where one may bind to others' addresses, that one
        // can bind says nothing.
        let family = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
        let says = fs::read_to_string(format!("/proc/sys/net/{family}/ip_nonlocal_bind")).unwrap_or_default();
        says.trim() != "1" && UdpSocket::bind(with_port(ip, 0, scope)).is_ok()
    }
}

/// The address of who connects to `to`.
pub(super) fn source_for(to: IpAddr, scope: u32) -> IpAddr {
    match to {
        IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_loopback() => to,
        _ => source_of(to, scope).unwrap_or(to),
    }
}

pub(super) fn with_port(ip: IpAddr, port: u16, scope: u32) -> SocketAddr {
    let mut address = SocketAddr::new(ip, port);
    if let SocketAddr::V6(v6) = &mut address {
        v6.set_scope_id(scope);
    }
    address
}

/// An address as who listens at `listener` sees it: in its own family.
pub(super) fn as_seen_at(listener: SocketAddr, address: SocketAddr) -> SocketAddr {
    match (listener, address.ip()) {
        (SocketAddr::V6(_), IpAddr::V4(ip)) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        _ => address,
    }
}

pub(super) fn scope_of(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    }
}

/// The lowest port that needs no privilege.
pub(super) fn first_unprivileged_port() -> u16 {
    fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(1024)
}

/// Port numbers for those who connect.
#[derive(Debug)]
pub(super) struct Ports {
    range: RangeInclusive<u16>,
    next: u16,
    used: BTreeSet<u16>,
}

impl Ports {
    /// From the same range as the kernel's.
    pub(super) fn of_system() -> Self {
        let said = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let mut words = said.split_ascii_whitespace().map(str::parse::<u16>);
        let range = match (words.next(), words.next()) {
            (Some(Ok(low)), Some(Ok(high))) if 0 < low && low <= high => low..=high,
            _ => 32_768..=60_999,
        };
        Self::new(range)
    }

    fn new(range: RangeInclusive<u16>) -> Self {
        Self { next: *range.start(), range, used: BTreeSet::new() }
    }

    /// One that no channel has. `None`: all are in use.
    pub(super) fn take(&mut self) -> Option<u16> {
        for _ in 0..self.range.len() {
            let port = self.next;
            self.next = if port == *self.range.end() { *self.range.start() } else { port + 1 };
            if self.used.insert(port) {
                return Some(port);
            }
        }
        None
    }

    pub(super) fn give_back(&mut self, port: u16) {
        self.used.remove(&port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn found(registry: &Registry, to: &str) -> Option<u64> {
        let to = address(to);
        registry.find(to.ip().to_canonical(), to.port())
    }

    #[test]
    fn listeners_are_found_as_sockets_are() {
        let mut registry = Registry::default();
        assert!(registry.add(address("127.0.0.1:7001"), 1));
        assert!(registry.add(address("[::1]:7001"), 2));
        assert!(registry.add(address("0.0.0.0:7002"), 3));
        assert!(registry.add(address("[::]:7003"), 4));
        assert!(registry.add(address("[::ffff:127.0.0.1]:7004"), 5));
        for (to, who) in [
            ("127.0.0.1:7001", Some(1)),
            ("[::ffff:127.0.0.1]:7001", Some(1)),
            ("127.0.0.2:7001", None),
            ("[::1]:7001", Some(2)),
            ("192.0.2.7:7002", Some(3)),
            ("[2001:db8::1]:7002", None),
            ("192.0.2.7:7003", Some(4)),
            ("[2001:db8::1]:7003", Some(4)),
            ("127.0.0.1:7004", Some(5)),
            ("127.0.0.1:7005", None),
        ] {
            assert_eq!(found(&registry, to), who, "{to}");
        }
        registry.remove(address("[::]:7003"), 4);
        assert_eq!(found(&registry, "192.0.2.7:7003"), None);
    }

    #[test]
    fn two_listeners_do_not_share_an_address() {
        for (first, second, both) in [
            ("127.0.0.1:1", "127.0.0.1:1", false),
            ("127.0.0.1:1", "127.0.0.1:2", true),
            ("127.0.0.1:1", "127.0.0.2:1", true),
            ("127.0.0.1:1", "0.0.0.0:1", false),
            ("127.0.0.1:1", "[::]:1", false),
            ("127.0.0.1:1", "[::ffff:127.0.0.1]:1", false),
            ("[::1]:1", "0.0.0.0:1", true),
            ("[::1]:1", "[::]:1", false),
            ("0.0.0.0:1", "[::]:1", false),
        ] {
            for (first, second) in [(first, second), (second, first)] {
                let mut registry = Registry::default();
                assert!(registry.add(address(first), 1));
                assert_eq!(registry.add(address(second), 2), both, "{first} and {second}");
            }
        }
    }

    #[test]
    fn an_address_of_this_host_is_told_from_others() {
        for local in ["127.0.0.1", "127.1.2.3", "::1"] {
            assert!(is_local(local.parse().unwrap(), 0), "{local}");
        }
        for other in ["192.0.2.1", "8.8.8.8", "224.0.0.1", "255.255.255.255", "ff02::1", "2001:db8::1"] {
            assert!(!is_local(other.parse().unwrap(), 0), "{other}");
        }
        assert_eq!(source_for("127.1.2.3".parse().unwrap(), 0), IpAddr::from(Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn a_port_number_is_given_once() {
        let mut ports = Ports::new(10..=12);
        assert_eq!([ports.take(), ports.take(), ports.take(), ports.take()], [Some(10), Some(11), Some(12), None]);
        ports.give_back(11);
        assert_eq!([ports.take(), ports.take()], [Some(11), None]);
    }
}
