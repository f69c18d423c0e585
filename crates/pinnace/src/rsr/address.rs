//! Internet addresses, as startpoints name them.

use crate::network::{route, with_port};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address at which others most likely reach a socket that is bound to this one.
pub(super) fn reachable(bound: SocketAddr) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        return bound;
    }
    // Addresses for documentation: nobody has them, and the route to them leads away from here.
    let v4 = || route((Ipv4Addr::new(192, 0, 2, 1), 0).into());
    let v6 = || route((Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1), 0).into());
    // A socket for every IPv6 address hears IPv4, too, unless the system was told otherwise.
    let found = v4().or_else(|error| if bound.is_ipv6() { v6() } else { Err(error) });
    with_port(found.unwrap_or_else(|_| (Ipv4Addr::LOCALHOST, 0).into()), bound.port())
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
