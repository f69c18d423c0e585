//! Internet addresses, as startpoints name them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The address at which others most likely reach a socket that is bound to this one.
pub(super) fn reachable(bound: SocketAddr) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        return bound;
    }
    // Connecting a UDP socket sends nothing, and says which address the route away from here has. These are addresses
    // for documentation: nobody has them.
    let away = |local: SocketAddr, remote: SocketAddr| -> io::Result<SocketAddr> {
        let socket = UdpSocket::bind(local)?;
        socket.connect(remote)?;
        socket.local_addr()
    };
    let v4 = || away((Ipv4Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::new(192, 0, 2, 1), 9).into());
    let documentation = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
    let v6 = || away((Ipv6Addr::UNSPECIFIED, 0).into(), (documentation, 9).into());
    // A socket for every IPv6 address hears IPv4, too, unless the system was told otherwise.
    let found = v4().or_else(|error| if bound.is_ipv6() { v6() } else { Err(error) });
    let mut found = found.unwrap_or_else(|_| (Ipv4Addr::LOCALHOST, 0).into());
    found.set_port(bound.port());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_never_nowhere() {
        for bound in ["0.0.0.0:7", "[::]:7", "127.0.0.1:7", "[::1]:7"] {
            let bound: SocketAddr = bound.parse().unwrap();
            let named = reachable(bound);
            assert!(!named.ip().is_unspecified() && named.port() == 7, "{bound}: {named}");
            assert!(bound.ip().is_unspecified() || named == bound);
        }
    }
}
