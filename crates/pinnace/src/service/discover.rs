//! What can be found out of a path without sending anything.

use super::{Path, PathClass, Service};
use crate::daemon::Client;
use crate::network::{as_connected, is_neighbour, is_of_one_link, with_port};
use pinnace_link::{Link, UdpLink, UdpOptions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

impl Path {
    /// The path to a peer, as far as this host knows it. Nothing is sent.
    ///
    /// | | from |
    /// |---|---|
    /// | class | host, if the route leads back to this host's own address; otherwise internet: only who runs a network knows that it is a cluster, and says so in the service |
    /// | datagram | the MTU of the route |
    /// | shared memory | whether the peer is on this host and a daemon serves this process |
    /// | Ethernet | whether the peer's address is on a network of one of our interfaces, and we may send frames |
    /// | multicast | whether the peer is on this host or such a network |
    ///
    /// Round trip and loss are assumed, as in [`Path::of_class`]; to a neighbour 1 ms and 0.1 %. The rate is not known.
    ///
    /// ```
    /// use pinnace::service::{Path, PathClass};
    /// let path = Path::toward("127.0.0.1:4747".parse()?)?;
    /// assert_eq!(path.class, PathClass::Host);
    /// assert!(path.datagram > 60_000 && !path.ethernet);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there is no route.
    pub fn toward(peer: SocketAddr) -> io::Result<Self> {
        let peer = as_connected(peer);
        // A port is wanted, and which one makes no difference: nothing is sent.
        let port = if peer.port() == 0 { 9 } else { peer.port() };
        let link = UdpLink::connect(None, with_port(peer, port), &UdpOptions::default())?;
        let local = link.local_address().map(|local| local.ip());
        let datagram = link.max_datagram();
        if peer.ip().is_loopback() || local.is_some_and(|local| same(local, peer.ip())) {
            let shared_memory = Client::current().is_some();
            return Ok(Self { datagram, shared_memory, multicast: true, ..Self::of_class(PathClass::Host) });
        }
        let internet = Self { datagram, ..Self::of_class(PathClass::Internet) };
        if !is_neighbour(peer.ip()) {
            return Ok(internet);
        }
        let (round_trip, loss) = (Duration::from_millis(1), 0.001);
        // The station of an address of one link alone is not looked for: it would take the link as well.
        let ethernet = !is_of_one_link(peer.ip()) && may_send_frames();
        Ok(Self { round_trip, loss, ethernet, multicast: true, ..internet })
    }
}

impl Path {
    /// The path that a service is judged by: the one [toward](Path::toward) a peer, or of the Internet without one, and of
    /// the class that the service says, if it says one ([`Path::declared`]). Whoever connects, and whoever only asks what
    /// would be chosen, has the same.
    ///
    /// ```
    /// use pinnace::service::{Path, PathClass};
    /// let path = Path::of_service(&"path=internet".parse()?, Some("127.0.0.1:4747".parse()?))?;
    /// assert_eq!((path.class, path.loss), (PathClass::Internet, 0.01));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there is no route.
    pub fn of_service(service: &Service, peer: Option<SocketAddr>) -> io::Result<Self> {
        let found = peer.map_or_else(|| Ok(Self::of_class(PathClass::Internet)), Self::toward)?;
        Ok(match service.path_class() {
            Some(class) if peer.is_some() => found.declared(class),
            Some(class) => Self::of_class(class),
            None => found,
        })
    }
}

impl Path {
    /// The path that a service to several receivers is judged by: of all of theirs ([`Path::of_service`]) what is worst.
    ///
    /// ```
    /// use pinnace::service::Path;
    /// let peers = ["127.0.0.1:4747".parse()?, "127.0.0.1:4748".parse()?];
    /// assert_eq!(Path::of_receivers(&"multicast=2".parse()?, &peers)?, Path::toward(peers[0])?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there is no route to one of them.
    pub fn of_receivers(service: &Service, peers: &[SocketAddr]) -> io::Result<Self> {
        let mut paths = peers.iter().map(|peer| Self::of_service(service, Some(*peer)));
        let first = paths.next().unwrap_or_else(|| Self::of_service(service, None))?;
        paths.try_fold(first, |all, path| Ok(all.worst(&path?)))
    }

    /// Of each property what is worse.
    fn worst(&self, other: &Self) -> Self {
        Self {
            class: self.class.max(other.class),
            round_trip: self.round_trip.max(other.round_trip),
            loss: self.loss.max(other.loss),
            datagram: self.datagram.min(other.datagram),
            rate: [self.rate, other.rate].into_iter().flatten().min(),
            shared_memory: self.shared_memory && other.shared_memory,
            ethernet: self.ethernet && other.ethernet,
            multicast: self.multicast && other.multicast,
        }
    }
}

/// Whether two addresses are the same, one of them perhaps written as the other family has it.
fn same(a: IpAddr, b: IpAddr) -> bool {
    a.to_canonical() == b.to_canonical()
}

/// Whether this process has `CAP_NET_RAW`.
#[cfg(target_os = "linux")]
fn may_send_frames() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_RAW))
}

#[cfg(not(target_os = "linux"))]
fn may_send_frames() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unspecified_address_is_this_host() {
        for peer in ["0.0.0.0:9", "[::]:9"] {
            assert_eq!(Path::toward(peer.parse().unwrap()).unwrap().class, PathClass::Host, "{peer}");
        }
    }

    #[test]
    fn loopback_is_this_host_and_a_far_address_is_not() {
        let here = Path::toward("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_eq!((here.class, here.ethernet, here.multicast), (PathClass::Host, false, true));
        // Where there is no route, the error says so.
        if let Ok(far) = Path::toward("192.0.2.7:1".parse().unwrap()) {
            assert_eq!((far.class, far.shared_memory), (PathClass::Internet, false));
            assert!((500..=9000).contains(&far.datagram), "{far:?}");
        }
    }

    #[test]
    fn every_address_of_this_host_is_this_host() {
        for interface in if_addrs::get_if_addrs().unwrap() {
            let IpAddr::V4(ip) = interface.ip() else { continue };
            let path = Path::toward(SocketAddr::new(ip.into(), 7)).unwrap();
            assert_eq!(path.class, PathClass::Host, "{ip}");
        }
    }
}
