//! Addresses, as C has them and as the engine does.

use super::types::adrseg;
use crate::errors::Errno;
use libc::{sockaddr_storage, socklen_t};
use pinnace_xtp::{AddressSegment, HostPair};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

const IPV4: u8 = 1;
const IPV6: u8 = 6;

/// An internet address; `None` if there is none (AF_UNSPEC).
pub(crate) fn of_storage(storage: &sockaddr_storage) -> Result<Option<SocketAddr>, Errno> {
    match i32::from(storage.ss_family) {
        libc::AF_UNSPEC => Ok(None),
        libc::AF_INET => {
            // SAFETY: the family says that it is one, and the storage is large enough for either.
            let v4 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok(Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let address = SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id);
            Ok(Some(address.into()))
        }
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// IPv4 that was mapped into IPv6 is IPv4; an address of one link alone says of which.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    let SocketAddr::V6(v6) = address else { return address };
    v6.ip().to_ipv4_mapped().map_or(address, |v4| (v4, v6.port()).into())
}

/// As C has it, and its length.
pub(crate) fn to_storage(address: SocketAddr) -> (sockaddr_storage, socklen_t) {
    // SAFETY: all zero is a valid address of no family.
    let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
    let len = match address {
        SocketAddr::V4(address) => {
            // SAFETY: the storage is large enough and aligned for every kind of address.
            let v4 = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in>() };
            v4.sin_family = libc::AF_INET as _;
            v4.sin_port = address.port().to_be();
            v4.sin_addr.s_addr = u32::from(*address.ip()).to_be();
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(address) => {
            // SAFETY: as above.
            let v6 = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in6>() };
            v6.sin6_family = libc::AF_INET6 as _;
            v6.sin6_port = address.port().to_be();
            v6.sin6_addr.s6_addr = address.ip().octets();
            v6.sin6_flowinfo = address.flowinfo();
            v6.sin6_scope_id = address.scope_id();
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as socklen_t)
}

impl adrseg {
    /// IPv4, and nothing else is known.
    pub(super) const UNKNOWN: Self =
        Self { alen: 16, adomain: 1, aformat: IPV4, dst: [0; 16], src: [0; 16], dport: 0, sport: 0 };

    pub(super) fn is_valid(&self) -> bool {
        matches!(self.adomain, 0 | 1) && matches!(self.aformat, 0 | IPV4 | IPV6)
    }

    fn ip(&self, bytes: &[u8; 16]) -> IpAddr {
        if self.aformat == IPV6 {
            Ipv6Addr::from(*bytes).into()
        } else {
            Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()
        }
    }

    /// The host that listens; unspecified if it is not said.
    pub(super) fn destination(&self) -> IpAddr {
        self.ip(&self.dst)
    }

    pub(super) fn source(&self) -> IpAddr {
        self.ip(&self.src)
    }

    /// The segment of a FIRST to `peer`: what is not said here is taken from there.
    pub(super) fn to_peer(self, peer: SocketAddr, local_port: u16) -> AddressSegment {
        let said = |ip: IpAddr| Some(ip).filter(|ip| !ip.is_unspecified() && ip.is_ipv4() == peer.is_ipv4());
        let hosts = match (said(self.destination()).unwrap_or(peer.ip()), said(self.source())) {
            (IpAddr::V4(destination), Some(IpAddr::V4(source))) => HostPair::V4 { destination, source },
            (IpAddr::V4(destination), _) => HostPair::V4 { destination, source: Ipv4Addr::UNSPECIFIED },
            (IpAddr::V6(destination), Some(IpAddr::V6(source))) => HostPair::V6 { destination, source },
            (IpAddr::V6(destination), _) => HostPair::V6 { destination, source: Ipv6Addr::UNSPECIFIED },
        };
        let destination_port = if self.dport == 0 { peer.port() } else { self.dport };
        AddressSegment { hosts, destination_port, source_port: local_port }
    }

    /// The segment that a listener matches.
    pub(super) fn to_listen(self) -> AddressSegment {
        let hosts = match self.destination() {
            IpAddr::V4(destination) => HostPair::V4 { destination, source: Ipv4Addr::UNSPECIFIED },
            IpAddr::V6(destination) => HostPair::V6 { destination, source: Ipv6Addr::UNSPECIFIED },
        };
        AddressSegment { hosts, destination_port: self.dport, source_port: 0 }
    }

    /// What a FIRST says about its source.
    pub(super) fn set_source(&mut self, segment: &AddressSegment) {
        self.sport = segment.source_port;
        self.src = [0; 16];
        match segment.hosts {
            HostPair::V4 { source, .. } if self.aformat != IPV6 => self.src[..4].copy_from_slice(&source.octets()),
            HostPair::V6 { source, .. } if self.aformat == IPV6 => self.src = source.octets(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_one_link_comes_back_with_its_link() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (from, to) in
            [("[fe80::1%7]:9", "[fe80::1%7]:9"), ("[::ffff:1.2.3.4]:9", "1.2.3.4:9"), ("1.2.3.4:9", "1.2.3.4:9")]
        {
            let (storage, len) = to_storage(canonical(address(from)));
            assert_eq!(of_storage(&storage).ok().flatten(), Some(address(to)));
            assert_eq!(len as usize, if address(to).is_ipv4() { 16 } else { 28 });
        }
    }
}
