//! The network below an engine, as every protocol sees it: how far it leads, who it is shared with, and its addresses.

use crate::Error;
use pinnace_core::ControllerKind;
use pinnace_link::{Link, UdpLink, UdpOptions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes of the largest packet that every network is taken to carry.
const CARRIED_ANYWHERE: usize = 1500;

/// A port for who asks for a way, and sends nothing.
const DISCARD: u16 = 9;

/// What kind of network lies between the peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// [`Profile::Cluster`] on loopback addresses, otherwise [`Profile::Internet`].
    #[default]
    Auto,
    /// Shared with others: congestion control and pacing.
    Internet,
    /// Ours alone: the paper's fixed window, few acknowledgements, short time-outs.
    Cluster,
}

/// Bytes in transit on a cluster: more leaves the caches, less makes both ends wait for each other.
const CLUSTER_WINDOW: u64 = 2 << 20;

/// What the settings of an engine depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// The largest datagram that crosses in one piece, in bytes.
    pub(crate) datagram: usize,
    /// Bytes of receive buffer, if known; the other end's is taken to be as large.
    pub(crate) receive_buffer: Option<usize>,
    /// Whether it leads to this very host.
    pub(crate) is_local: bool,
}

impl Path {
    /// To the socket's peer, or to whoever sends to it. (Sockets without internet addresses do not leave the host.)
    pub(crate) fn of_udp(link: &UdpLink) -> Self {
        let end = link.peer_address().or(link.local_address());
        Self {
            datagram: link.max_datagram(),
            receive_buffer: Some(link.receive_buffer_bytes()),
            is_local: end.is_none_or(|end| end.ip().is_loopback()),
        }
    }

    /// The path of a link of which nothing else is known.
    pub(crate) fn over(link: &dyn Link) -> Self {
        Self { datagram: link.max_datagram(), receive_buffer: None, is_local: true }
    }

    /// Bytes of the largest datagram that is sent to `peer` on trust: what the path carries, as far as this host knows, where
    /// that is all there is of it; beyond a router no more than every network carries.
    pub(crate) fn datagram_toward(&self, peer: SocketAddr, profile: Profile) -> usize {
        match self.is_cluster(profile) || is_neighbour(peer.ip()) {
            true => self.datagram,
            false => self.datagram.min(carried_anywhere(peer.ip())),
        }
    }

    /// Bytes of the largest datagram that may come to a socket bound to `local`: what the widest of its interfaces carries. Who
    /// sends knows the way better, and sends less.
    pub(crate) fn datagram_to(&self, local: SocketAddr) -> usize {
        let own = |interface: &if_addrs::Interface| {
            !interface.is_loopback() && (local.ip().is_unspecified() || local.ip().to_canonical() == interface.ip())
        };
        let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
        let neighbours = interfaces.iter().filter(|interface| own(interface)).filter_map(neighbour);
        let carried = neighbours.filter_map(|neighbour| UdpLink::connect(None, neighbour, &UdpOptions::default()).ok());
        carried.map(|link| link.max_datagram()).max().unwrap_or(0).max(self.datagram)
    }

    /// Whether it is ours alone.
    pub(crate) fn is_cluster(&self, profile: Profile) -> bool {
        match profile {
            Profile::Auto => self.is_local,
            Profile::Internet => false,
            Profile::Cluster => true,
        }
    }

    /// Bytes that may be in transit on a closed network.
    pub(crate) fn cluster_window(&self) -> u64 {
        let half = self.receive_buffer.map_or(CLUSTER_WINDOW, |bytes| (bytes / 2) as u64);
        CLUSTER_WINDOW.min(half.max(65_536))
    }

    /// The congestion controller where nobody has named one. BBR does not take random loss for congestion, which cubic
    /// does: forty times slower at 1 % of loss.
    pub(crate) fn congestion(&self, profile: Profile) -> ControllerKind {
        if self.is_cluster(profile) {
            ControllerKind::Fixed { window: self.cluster_window() }
        } else {
            ControllerKind::Bbr
        }
    }
}

/// Where a link without internet addresses is.
pub(crate) const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

/// As links name addresses: IPv4 that was mapped into IPv6 is IPv4, and an address of one link alone says of which.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    let SocketAddr::V6(v6) = address else { return address };
    match v6.ip().to_ipv4_mapped() {
        Some(v4) => (v4, v6.port()).into(),
        None => SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id()).into(),
    }
}

/// The same address at another port; one of a link alone stays one of that link.
pub(crate) fn with_port(address: SocketAddr, port: u16) -> SocketAddr {
    let mut address = canonical(address);
    address.set_port(port);
    address
}

/// The host of an address: it, at no port.
pub(crate) fn host_of(address: SocketAddr) -> SocketAddr {
    with_port(address, 0)
}

/// Whose share of what is scarce an address takes: its host's, or where hosts have as many addresses as they like, its network's.
pub(crate) fn share_of(address: SocketAddr) -> IpAddr {
    match canonical(address).ip() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !0 << 64).into(),
        ip => ip,
    }
}

/// The first address of that name.
pub(crate) fn resolve(address: impl ToSocketAddrs) -> Result<SocketAddr, Error> {
    let mut addresses = address.to_socket_addrs().map_err(unresolved)?;
    addresses.next().ok_or_else(|| unresolved(io::ErrorKind::AddrNotAvailable.into()))
}

/// The address of a peer who is reached over UDP: of a name with several, as `localhost` has them, the first whose port is
/// open, or that does not say that it is closed within 0.3 s (10 ms on this host). Each but the last is asked with an empty
/// datagram, which every protocol drops.
///
/// ```
/// use std::net::{SocketAddr, UdpSocket};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let listener = UdpSocket::bind("127.0.0.1:0")?;
/// let names = [([127, 0, 0, 2], listener.local_addr()?.port()).into(), listener.local_addr()?];
/// let names: [SocketAddr; 2] = names;
/// assert_eq!(pinnace::resolve_peer(&names[..])?, listener.local_addr()?);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the name does not resolve.
pub fn resolve_peer(name: impl ToSocketAddrs) -> Result<SocketAddr, Error> {
    let mut found = name.to_socket_addrs().map_err(unresolved)?;
    let first = found.next().ok_or_else(|| unresolved(io::ErrorKind::AddrNotAvailable.into()))?;
    Ok(first_open(first, &found.collect::<Vec<_>>()))
}

/// The address of that name to which `way` knows one: as [`resolve_peer`] if it `is_udp`, otherwise the first. If it knows
/// none, why not to the first of all.
pub(crate) fn resolve_to<T>(
    address: impl ToSocketAddrs,
    is_udp: bool,
    way: impl Fn(SocketAddr) -> Result<T, Error>,
) -> Result<(SocketAddr, T), Error> {
    let mut why = None;
    let mut reached = Vec::new();
    for to in address.to_socket_addrs().map_err(unresolved)?.map(canonical) {
        match way(to) {
            Ok(_) => reached.push(to),
            Err(error) => why = why.or(Some(error)),
        }
    }
    match reached.split_first() {
        Some((&first, others)) => {
            let to = if is_udp { first_open(first, others) } else { first };
            Ok((to, way(to)?))
        }
        None => Err(why.unwrap_or_else(|| unresolved(io::ErrorKind::AddrNotAvailable.into()))),
    }
}

/// How long another host may take to say that a port is closed.
const PATIENCE: Duration = Duration::from_millis(300);
/// The same of this host, which says so while it is asked.
const PATIENCE_HERE: Duration = Duration::from_millis(10);

/// The last is not asked: whoever connects to it finds out.
fn first_open(first: SocketAddr, others: &[SocketAddr]) -> SocketAddr {
    let Some((&last, between)) = others.split_last() else { return first };
    let mut asked = [first].into_iter().chain(between.iter().copied());
    asked.find(|&address| !is_closed(address)).unwrap_or(last)
}

/// Whether there is no way to that address, or its host says that nobody has the UDP port.
fn is_closed(address: SocketAddr) -> bool {
    let ask = || {
        let socket = UdpSocket::bind(unspecified(address))?;
        let patience = if address.ip().is_loopback() { PATIENCE_HERE } else { PATIENCE };
        socket.set_read_timeout(Some(patience))?;
        socket.connect(address)?;
        socket.send(&[])?;
        socket.recv(&mut [0])
    };
    let is_silence =
        |kind| matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted);
    ask().is_err_and(|error| !is_silence(error.kind()))
}

/// Every address of the family of that one, at no port.
fn unspecified(of: SocketAddr) -> SocketAddr {
    match of {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

fn unresolved(error: io::Error) -> Error {
    Error::io("cannot resolve the address", error)
}

/// Refuses an address of another family than a socket bound to `local` reaches. One of IPv6 that is bound to every address
/// reaches IPv4, too.
pub(crate) fn same_family(local: SocketAddr, to: SocketAddr) -> io::Result<()> {
    let (own, other) = (canonical(local).ip(), canonical(to).ip());
    if own.is_ipv4() == other.is_ipv4() || own == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        return Ok(());
    }
    let why =
        format!("{other} is of another family than {own}, which the socket is bound to: bind it to [::] for both");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Bytes of the largest datagram that every network is taken to carry to `ip` in one piece.
fn carried_anywhere(ip: IpAddr) -> usize {
    CARRIED_ANYWHERE - if ip.to_canonical().is_ipv4() { 28 } else { 48 }
}

/// An address on the network of `interface` that is not its own, whether or not anybody has it: the way there is that network
/// alone.
fn neighbour(interface: &if_addrs::Interface) -> Option<SocketAddr> {
    match &interface.addr {
        // The first and the last of a network are no host's.
        if_addrs::IfAddr::V4(ours) if ours.prefixlen < 31 => {
            let (first, ip) = (u32::from(ours.ip) & u32::from(ours.netmask), u32::from(ours.ip));
            let ip = if ip == first + 1 { first + 2 } else { first + 1 };
            Some((Ipv4Addr::from(ip), DISCARD).into())
        }
        if_addrs::IfAddr::V6(ours) if ours.prefixlen < 127 => {
            let scope = interface.index.filter(|_| ours.ip.is_unicast_link_local()).unwrap_or(0);
            Some(SocketAddrV6::new(Ipv6Addr::from(u128::from(ours.ip) ^ 1), DISCARD, 0, scope).into())
        }
        _ => None,
    }
}

/// Whether no router carries packets to this address, which is of no network but its link's.
pub(crate) fn is_of_one_link(peer: IpAddr) -> bool {
    matches!(peer, IpAddr::V6(peer) if peer.is_unicast_link_local())
}

/// Whether an address is on a network of one of our interfaces.
pub(crate) fn is_neighbour(peer: IpAddr) -> bool {
    if is_of_one_link(peer) {
        return true;
    }
    let peer = peer.to_canonical();
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    interfaces.iter().filter(|interface| !interface.is_loopback()).any(|interface| match (&interface.addr, peer) {
        (if_addrs::IfAddr::V4(ours), IpAddr::V4(peer)) => {
            let mask = u32::from(ours.netmask);
            mask != 0 && mask & u32::from(ours.ip) == mask & u32::from(peer)
        }
        (if_addrs::IfAddr::V6(ours), IpAddr::V6(peer)) => {
            let mask = u128::from(ours.netmask);
            mask != 0 && mask & u128::from(ours.ip) == mask & u128::from(peer)
        }
        _ => false,
    })
}

/// Who connects to the unspecified address means this host, as with sockets.
pub(crate) fn as_connected(to: SocketAddr) -> SocketAddr {
    match to.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), to.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), to.port()),
        _ => to,
    }
}

/// The local address, at no port, that the system reaches `peer` from: a datagram socket finds out without a packet.
pub(crate) fn route(peer: SocketAddr) -> io::Result<SocketAddr> {
    let peer = with_port(peer, if peer.port() == 0 { DISCARD } else { peer.port() });
    let socket = UdpSocket::bind(unspecified(peer))?;
    socket.connect(peer)?;
    Ok(host_of(socket.local_addr()?))
}

/// The moment `timeout` from now, or never if that is beyond all clocks.
pub(crate) fn deadline(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// A number that nobody can guess, and no other endpoint has.
pub(crate) fn random_seed() -> u64 {
    // Without the system's randomness the clock and the process still differ between endpoints.
    getrandom::u64().unwrap_or_else(|_| {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH);
        clock.map_or(0, |time| time.as_nanos() as u64) ^ u64::from(std::process::id()) << 32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Closes the port of `socket` to everyone, and keeps it: a port given back is the next one of another test.
    fn close(socket: &UdpSocket) {
        socket.connect("127.0.0.1:9").unwrap();
    }

    #[test]
    fn of_the_addresses_of_a_name_the_first_whose_port_is_open_is_taken() {
        let sockets = ["127.0.0.1:0", "127.0.0.2:0", "127.0.0.3:0"].map(|at| UdpSocket::bind(at).unwrap());
        let [first, second, third] = [0, 1, 2].map(|at| sockets[at].local_addr().unwrap());
        assert_eq!(first_open(first, &[]), first);
        assert_eq!(first_open(first, &[second, third]), first);
        close(&sockets[0]);
        assert_eq!(first_open(first, &[second, third]), second);
        close(&sockets[1]);
        assert_eq!(first_open(first, &[second, third]), third);
        // Nobody is anywhere: whoever connects is told so.
        close(&sockets[2]);
        assert_eq!(first_open(first, &[second, third]), third);
    }

    #[test]
    fn of_the_addresses_to_which_there_is_a_way_the_first_whose_port_is_open_is_taken() {
        let sockets = ["127.0.0.2:0", "127.0.0.3:0"].map(|at| UdpSocket::bind(at).unwrap());
        let [closed, open] = [0, 1].map(|at| sockets[at].local_addr().unwrap());
        let names = ["[::1]:9".parse().unwrap(), closed, open];
        close(&sockets[0]);
        let way =
            |to: SocketAddr| if to.is_ipv4() { Ok(()) } else { Err(unresolved(io::ErrorKind::Unsupported.into())) };
        assert_eq!(resolve_to(&names[..], true, way).unwrap().0, names[2]);
        assert_eq!(
            resolve_to(&names[..], false, way).unwrap().0,
            names[1],
            "nobody asks at a UDP port for another carrier"
        );
        let error = resolve_to(&names[..1], true, way).unwrap_err();
        assert!(error.to_string().contains("unsupported"), "{error}");
    }

    #[test]
    fn only_what_is_bound_to_every_address_reaches_both_families() {
        let reaches = |local: &str, to: &str| same_family(local.parse().unwrap(), to.parse().unwrap()).is_ok();
        let (v4, v6, mapped) = ("192.0.2.1:5", "[2001:db8::1]:5", "[::ffff:192.0.2.1]:5");
        for (local, reached) in [
            ("[::]:7", [true, true, true]),
            ("0.0.0.0:7", [true, false, true]),
            ("192.0.2.2:7", [true, false, true]),
            ("[::ffff:192.0.2.2]:7", [true, false, true]),
            ("[2001:db8::2]:7", [false, true, false]),
        ] {
            assert_eq!([v4, v6, mapped].map(|to| reaches(local, to)), reached, "{local}");
        }
    }

    #[test]
    fn mapped_addresses_are_shown_as_what_they_are_and_a_link_is_remembered() {
        for (address, shown) in [
            ("[::ffff:192.0.2.1]:5", "192.0.2.1:5"),
            ("[2001:db8::1]:5", "[2001:db8::1]:5"),
            ("[fe80::1%3]:5", "[fe80::1%3]:5"),
            ("192.0.2.1:5", "192.0.2.1:5"),
        ] {
            assert_eq!(canonical(address.parse().unwrap()).to_string(), shown);
        }
    }
}
