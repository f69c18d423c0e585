//! The station behind an IP address: the kernel's routes and neighbour table, asked through netlink, so that a connection
//! over Ethernet can be asked for by IP address (specs/qmp.md, section "Ethernet").
//!
//! Always true: what is not on the same link is refused, never guessed; the wait has an end.

use super::interface::Interface;
use crate::ether::{Mac, Neighbour};
use netlink_packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr as NetlinkAddress};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

/// Nobody listens to what is sent to this port ("discard"); the kernel only has to find out where to send it.
const DISCARD: u16 = 9;
/// How long to wait before the table is looked at again: at first, and at most.
const WAITS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];
/// The kernel gives up after three questions, one a second; then it has to be made to ask again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// No answer about one route or one neighbour is longer.
const ANSWER_BYTES: usize = 16 << 10;

/// The station that `ip` is the address of. If the kernel does not know it, it is made to ask, for at most `within`.
///
/// # Errors
/// `InvalidInput` for what is not one other host (this host's own addresses too), and for link-local addresses of IPv6,
/// which do not say which link; `HostUnreachable` for what is behind a gateway, or not on Ethernet:
/// a frame reaches one link only; `TimedOut` if nobody answers; whatever the kernel says if there is no route.
///
/// ```
/// use pinnace_link::neighbour;
/// use std::time::Duration;
/// let error = neighbour("127.0.0.1".parse().unwrap(), Duration::from_secs(1)).unwrap_err();
/// assert!(error.to_string().contains("this host"), "{error}");
/// ```
pub fn neighbour(ip: IpAddr, within: Duration) -> io::Result<Neighbour> {
    let ip = ip.to_canonical();
    let deadline = Instant::now().checked_add(within);
    if ip.is_unspecified() || ip.is_multicast() {
        return Err(invalid(format!("{ip} is not one host")));
    }
    if matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
        return Err(invalid(format!("{ip} does not say on which link: name the station as LINK-ADDRESS%INTERFACE")));
    }
    let mut netlink = Netlink::open()?;
    let route = netlink.route(ip)?;
    let Interface { name, mac: own, .. } = netlink.ethernet(route.interface, ip)?;
    let mut ask = Ask { to: ip, from: route.local, last: None, failure: None };
    let mut wait = WAITS[0];
    let mac = loop {
        match netlink.entry(route.interface, ip)? {
            // What the kernel writes where it does not ask.
            Entry::Valid(mac) if mac == own => {
                let text = format!("{name}, which leads to {ip}, asks for no link addresses (NOARP)");
                return Err(unreachable(text));
            }
            Entry::Valid(mac) => break mac,
            Entry::Stale(mac) => {
                // It is used meanwhile; if the station has gone, the next look will find another.
                ask.again();
                break mac;
            }
            Entry::None | Entry::Asking => ask.again(),
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(ask.timed_out(&name, within));
        }
        thread::sleep(wait.min(left.unwrap_or(wait)));
        wait = (wait * 2).min(WAITS[1]);
    };
    Ok(Neighbour { interface: route.interface, name, mac, local: route.local })
}

/// The way to a host on the same link.
struct Route {
    interface: u32,
    local: IpAddr,
}

/// What the neighbour table says of a host.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    None,
    /// The kernel is asking, or has given up.
    Asking,
    Valid(Mac),
    /// It was so once.
    Stale(Mac),
}

/// Makes the kernel look for a host.
struct Ask {
    to: IpAddr,
    from: IpAddr,
    last: Option<Instant>,
    /// Why the last datagram did not leave.
    failure: Option<io::Error>,
}

impl Ask {
    fn again(&mut self) {
        if self.last.is_none_or(|last| last.elapsed() >= ASK_AGAIN) {
            self.send();
        }
    }

    fn send(&mut self) {
        self.last = Some(Instant::now());
        let sent = UdpSocket::bind((self.from, 0)).and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.send_to(&[], (self.to, DISCARD))
        });
        self.failure = sent.err();
    }

    fn timed_out(&self, interface: &str, within: Duration) -> io::Error {
        let mut text = format!("nobody on {interface} has said within {within:?} that it is {}", self.to);
        if let Some(failure) = &self.failure {
            text.push_str(&format!(" (a UDP datagram to it, to make the kernel ask, did not leave: {failure})"));
        }
        io::Error::new(io::ErrorKind::TimedOut, text)
    }
}

/// A conversation with the kernel: it answers within the call that asks.
struct Netlink {
    socket: Socket,
    answer: Vec<u8>,
}

impl Netlink {
    fn open() -> io::Result<Self> {
        let socket = Socket::new(NETLINK_ROUTE)?;
        socket.connect(&NetlinkAddress::new(0, 0))?;
        Ok(Self { socket, answer: vec![0; ANSWER_BYTES] })
    }

    /// Asks one thing; the answer is one message.
    fn ask(&mut self, question: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
        let mut message = NetlinkMessage::from(question);
        message.header.flags = NLM_F_REQUEST;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let len = self.socket.recv(&mut &mut self.answer[..], libc::MSG_DONTWAIT)?;
        let answer = self.answer.get(..len).unwrap_or_default();
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(answer).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::InnerMessage(message) => Ok(message),
            NetlinkPayload::Error(error) => Err(error.to_io()),
            other => Err(unexpected(&other)),
        }
    }

    /// The way to `ip`, if no other host has to carry what goes there.
    fn route(&mut self, ip: IpAddr) -> io::Result<Route> {
        let mut question = RouteMessage::default();
        (question.header.address_family, question.header.destination_prefix_length) = match ip {
            IpAddr::V4(_) => (AddressFamily::Inet, 32),
            IpAddr::V6(_) => (AddressFamily::Inet6, 128),
        };
        question.attributes.push(RouteAttribute::Destination(ip.into()));
        let answer = match self.ask(RouteNetlinkMessage::GetRoute(question)) {
            Ok(RouteNetlinkMessage::NewRoute(route)) => route,
            Ok(other) => return Err(unexpected(&other)),
            Err(error) => return Err(io::Error::new(error.kind(), format!("there is no route to {ip}: {error}"))),
        };
        read_route(ip, &answer)
    }

    /// The interface that leads to `ip`, if it is Ethernet.
    fn ethernet(&self, interface: u32, ip: IpAddr) -> io::Result<Interface> {
        match Interface::of_index(self.socket.as_raw_fd(), interface) {
            Ok(Some(interface)) => Ok(interface),
            Ok(None) => Err(unreachable(format!("the interface that leads to {ip} is gone"))),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err(unreachable(format!("no Ethernet leads to {ip}: {error}")))
            }
            Err(error) => Err(error),
        }
    }

    fn entry(&mut self, interface: u32, ip: IpAddr) -> io::Result<Entry> {
        let mut question = NeighbourMessage::default();
        question.header.family = if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        question.header.ifindex = interface;
        question.attributes.push(NeighbourAttribute::Destination(ip.into()));
        match self.ask(RouteNetlinkMessage::GetNeighbour(question)) {
            Ok(RouteNetlinkMessage::NewNeighbour(neighbour)) => Ok(read_entry(&neighbour)),
            Ok(other) => Err(unexpected(&other)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Entry::None),
            Err(error) => Err(error),
        }
    }
}

fn read_route(ip: IpAddr, answer: &RouteMessage) -> io::Result<Route> {
    match answer.header.kind {
        RouteType::Unicast => {}
        RouteType::Local => {
            return Err(invalid(format!("{ip} is an address of this host, and frames do not come back")));
        }
        RouteType::Broadcast | RouteType::Anycast | RouteType::Multicast => {
            return Err(invalid(format!("{ip} is not one host")));
        }
        _ => return Err(unreachable(format!("there is no route to {ip}"))),
    }
    let (mut interface, mut local) = (None, None);
    for attribute in &answer.attributes {
        match attribute {
            RouteAttribute::Gateway(gateway) => {
                let text = match gateway {
                    RouteAddress::Inet(gateway) => behind(ip, &gateway.to_string()),
                    RouteAddress::Inet6(gateway) => behind(ip, &gateway.to_string()),
                    _ => behind(ip, "of another kind"),
                };
                return Err(unreachable(text));
            }
            RouteAttribute::Via(_) => return Err(unreachable(behind(ip, "of another family"))),
            RouteAttribute::Oif(index) => interface = Some(*index),
            RouteAttribute::PrefSource(RouteAddress::Inet(source)) => local = Some(IpAddr::V4(*source)),
            RouteAttribute::PrefSource(RouteAddress::Inet6(source)) => local = Some(IpAddr::V6(*source)),
            _ => {}
        }
    }
    let interface = interface.ok_or_else(|| unreachable(format!("the route to {ip} leads to no interface")))?;
    // Without an address of its own, the kernel sends from whichever it likes.
    let any = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    Ok(Route { interface, local: local.unwrap_or(any) })
}

fn behind(ip: IpAddr, gateway: &str) -> String {
    format!("{ip} is behind the gateway {gateway}, and Ethernet frames reach one link only: use UDP")
}

fn read_entry(neighbour: &NeighbourMessage) -> Entry {
    let mac = neighbour.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(bytes) => Mac::try_from(bytes.as_slice()).ok(),
        _ => None,
    });
    match (neighbour.header.state, mac) {
        (NeighbourState::Reachable | NeighbourState::Permanent | NeighbourState::Noarp, Some(mac)) => Entry::Valid(mac),
        (NeighbourState::Delay | NeighbourState::Probe, Some(mac)) => Entry::Valid(mac),
        (NeighbourState::Stale, Some(mac)) => Entry::Stale(mac),
        _ => Entry::Asking,
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn unreachable(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::HostUnreachable, what)
}

fn unexpected(answer: &impl std::fmt::Debug) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the kernel answered something else: {answer:?}"))
}
