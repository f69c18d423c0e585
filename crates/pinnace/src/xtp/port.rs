//! Endpoints: the engine on a socket, or on any link.

use super::exchange::Exchange;
use super::groups::Groups;
use super::options::Path;
use super::{Carrier, ControlBlock, Options, ether};
use crate::counters::Seen;
pub(super) use crate::network::{NOWHERE, canonical, deadline, resolve, resolve_peer, resolve_to};
use crate::network::{host_of, route, same_family};
use crate::{Error, wrapped};
use pinnace_core::{Address, Time};
use pinnace_link::{CaptureOptions, GroupsLink, Ip36Link, Link, UdpLink};
use pinnace_runtime::{EndpointConfig, WaitError};
use pinnace_xtp::{Config, Xtp};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

pub(super) type Port = pinnace_runtime::Endpoint<Xtp, Box<dyn Link>, Exchange>;
/// An endpoint, for whoever waits for something of one association.
pub(super) type About<'a> = pinnace_runtime::About<'a, Xtp, Box<dyn Link>, Exchange>;
pub(super) type Call<'a> = pinnace_runtime::Call<'a, Xtp, Exchange>;

/// How long the end of an endpoint waits for what is under way.
const LINGER: Duration = Duration::from_secs(1);
/// And for resets that are said again: a little longer than the engine takes for that.
pub(super) const FAREWELL: Duration = Duration::from_millis(200);
/// How often the last END is said again, and how long after each time, with a round trip, its peer may ask for it.
const PARTINGS: u32 = 3;
const PARTING: Duration = Duration::from_millis(10);
const LONGEST_PARTING: Duration = Duration::from_millis(300);
/// How often somebody looks whether all of them have been.
const LOOK: Duration = Duration::from_millis(5);

/// What all handles of an endpoint share.
#[derive(Debug)]
pub(super) struct End {
    pub(super) port: Port,
    pub(super) local: SocketAddr,
    /// The only one that the link talks with.
    peer: Option<SocketAddr>,
    names: Names,
    pub(super) groups: Groups,
    pub(super) block: ControlBlock,
    /// How much is queued to a group, if nobody has chosen that.
    pub(super) group_queue: Option<u32>,
    pub(super) longest_message: u64,
    pub(super) asks_after_writes: bool,
    pub(super) warnings: Vec<String>,
}

/// How a link that hears everybody names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// By address and port.
    Sockets,
    /// By address: ports are the protocol's own.
    Hosts,
    /// As stations seen through this interface.
    Stations(u32),
}

/// A link, and what is known of it.
pub(super) struct Bound {
    pub(super) link: Box<dyn Link>,
    pub(super) path: Path,
    pub(super) local: SocketAddr,
    pub(super) peer: Option<SocketAddr>,
    pub(super) names: Names,
    pub(super) groups: Groups,
    pub(super) warnings: Vec<String>,
}

impl Bound {
    /// A link of the application's own.
    pub(super) fn over(link: Box<dyn Link>, local: SocketAddr, peer: Option<SocketAddr>, carrier: Carrier) -> Self {
        let end = peer.unwrap_or(local).ip();
        let is_local = end.is_loopback() || (peer.is_some() && end.is_unspecified());
        let path = Path { datagram: link.max_datagram(), receive_buffer: None, is_local };
        let names = match carrier {
            Carrier::Udp => Names::Sockets,
            Carrier::Ip36 => Names::Hosts,
        };
        Self { link, path, local, peer, names, groups: Groups::Given, warnings: Vec::new() }
    }
}

/// A link that hears everybody, at `address`.
pub(super) fn bind(address: SocketAddr, options: &Options) -> Result<Bound, Error> {
    let failed = |error| Error::listen(address, error);
    match options.carrier {
        Carrier::Udp => {
            let link = UdpLink::bind(address, &options.udp(true)).map_err(failed)?;
            let local = link.local_address().ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
            let (path, warnings) = (Path::of_udp(&link), link.warnings());
            let ends = CaptureOptions::new(local, local);
            let (link, groups) = match options.groups_at(local) {
                Err(why) => (captured(link, ends, options)?, Groups::None(why)),
                Ok(multicast) => {
                    let (link, memberships) = GroupsLink::new(link, &options.udp(true), &multicast).map_err(failed)?;
                    (captured(link, ends, options)?, Groups::joined_by(memberships))
                }
            };
            Ok(Bound { link, path, local, peer: None, names: Names::Sockets, groups, warnings })
        }
        Carrier::Ip36 => {
            // Whoever sends does it, too.
            let failed = |error| Error::io(format!("cannot open IP protocol 36 on {}", address.ip()), error);
            let link = Ip36Link::bind_at(address, &options.ip36()).map_err(failed)?;
            let path = Path {
                datagram: link.max_datagram(),
                receive_buffer: Some(link.receive_buffer_bytes()),
                is_local: link.local_address().is_loopback(),
            };
            let warnings = link.warnings();
            let link = captured(link, CaptureOptions::ip36(address.ip(), address.ip()), options)?;
            let groups = Groups::None("groups are reached over UDP");
            Ok(Bound { link, path, local: address, peer: None, names: Names::Hosts, groups, warnings })
        }
    }
}

/// A UDP link at a port that the system picks, on every address of this host.
pub(super) fn client(options: &Options) -> Result<Bound, Error> {
    if options.carrier == Carrier::Ip36 {
        let why = "protocol 36 is bound to one address of this host: use Endpoint::bind or Endpoint::client_of";
        return Err(Error::io("cannot open an endpoint", io::Error::new(io::ErrorKind::InvalidInput, why)));
    }
    bind((Ipv6Addr::UNSPECIFIED, 0).into(), options).or_else(|_| bind((Ipv4Addr::UNSPECIFIED, 0).into(), options))
}

/// A link to `peer` alone.
pub(super) fn client_of(peer: SocketAddr, options: &Options) -> Result<Bound, Error> {
    let failed = |error| Error::io(format!("cannot open a socket to {peer}"), error);
    match options.carrier {
        Carrier::Udp => {
            let link = UdpLink::connect(None, peer, &options.udp(false)).map_err(failed)?;
            let local = link.local_address().ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
            let (path, warnings) = (Path::of_udp(&link), link.warnings());
            let link = captured(link, CaptureOptions::new(local, peer), options)?;
            let groups = Groups::None("this endpoint talks with one peer only: use Endpoint::bind");
            Ok(Bound { link, path, local, peer: Some(peer), names: Names::Sockets, groups, warnings })
        }
        Carrier::Ip36 => bind(route(peer).map_err(failed)?, options),
    }
}

/// The link, behind a capture and with faults if the options ask for them. (Where everybody is heard, each packet names its peer.)
pub(super) fn captured(
    link: impl Link + 'static,
    ends: CaptureOptions,
    options: &Options,
) -> Result<Box<dyn Link>, Error> {
    wrapped(link, Some(ends), options.capture.as_deref(), options.fault.as_ref())
}

/// Puts the engine on a link.
pub(super) fn start(bound: Bound, options: &Options) -> Result<End, Error> {
    let block = options.default_block(&bound.path);
    let end = start_as(bound, options, block, |config| config)?;
    end.port.publish("xtp", Seen::look);
    Ok(end)
}

/// Puts the engine on a link, with the control block of all contexts for which none is given, and with a configuration
/// that `adjust` changes.
pub(super) fn start_as(
    bound: Bound,
    options: &Options,
    block: ControlBlock,
    adjust: impl FnOnce(Config) -> Config,
) -> Result<End, Error> {
    let Bound { link, path, local, peer, names, groups, warnings } = bound;
    let engine = Xtp::new(adjust(options.config(&path, Some(local))), Time::ZERO);
    let endpoint = EndpointConfig { idle: options.idle, worker: options.worker, ..EndpointConfig::default() };
    let port = Port::new(engine, link, Exchange::default(), endpoint)
        .map_err(|error| Error::io("cannot start the endpoint", error))?;
    let (asks_after_writes, longest_message) = (false, options.longest_message);
    let group_queue = options.group_queue();
    Ok(End { port, local, peer, names, groups, block, group_queue, longest_message, asks_after_writes, warnings })
}

impl End {
    /// Whether it reaches many, over UDP.
    pub(super) fn is_udp(&self) -> bool {
        self.peer.is_none() && matches!(self.names, Names::Sockets)
    }

    /// How the engine names `to`.
    pub(super) fn name(&self, to: SocketAddr) -> Result<Address, Error> {
        let failed = |error| Error::io(format!("cannot send to {to}"), error);
        if self.peer.is_none() && !matches!(self.names, Names::Stations(_)) {
            same_family(self.local, to).map_err(failed)?;
        }
        match self.peer {
            Some(peer) if canonical(peer) == canonical(to) => Ok(Address::Peer),
            // The link knows where it leads, nobody else does.
            Some(peer) if peer.port() == 0 => Ok(Address::Peer),
            Some(peer) => {
                let why = format!("this endpoint talks with {peer} only: use another one, or Endpoint::client");
                Err(failed(io::Error::new(io::ErrorKind::InvalidInput, why)))
            }
            None => match self.names {
                Names::Sockets => Ok(canonical(to).into()),
                Names::Hosts => Ok(host_of(to).into()),
                Names::Stations(interface) => ether::station(interface, to.ip()),
            },
        }
    }

    /// Whether resets are still to be said again.
    pub(super) fn is_saying_farewell(&self) -> bool {
        self.port.inspect(|engine, _, _| engine.farewells() > 0)
    }

    /// Works until no reset is to be said again, at most `timeout`. True if none is.
    pub(super) fn say_farewell(&self, timeout: Duration) -> bool {
        let until = deadline(timeout);
        while self.is_saying_farewell() {
            if until.is_some_and(|until| until <= Instant::now()) {
                return false;
            }
            if let Err(WaitError::Endpoint(_)) = self.port.wait_until(|_| None::<()>, deadline(LOOK)) {
                return false;
            }
        }
        true
    }

    /// Says the last END again, several times within three round trips and a little more.
    pub(super) fn part(&self) {
        for wait in (0..).map_while(|said| self.say_ends(said)) {
            if let Err(WaitError::Endpoint(_)) = self.port.wait_until(|_| None::<()>, deadline(wait)) {
                return;
            }
        }
    }

    /// Says the last END once more, if it has been said again fewer than [`PARTINGS`] times; how long to wait until the next
    /// time, or `None` if there is none to be said.
    pub(super) fn say_ends(&self, said: u32) -> Option<Duration> {
        if said >= PARTINGS {
            return None;
        }
        let trip = self.port.call(|Call { now, engine, .. }| engine.repeat_ends(now));
        Some((trip.ok().flatten()? + PARTING).min(LONGEST_PARTING))
    }

    /// The internet address of a peer, as far as it has one.
    pub(super) fn address_of(&self, peer: Address) -> SocketAddr {
        match peer {
            Address::Inet(address) => address,
            Address::Peer => self.peer.unwrap_or(NOWHERE),
            _ => NOWHERE,
        }
    }
}

impl Drop for End {
    /// Nobody is left to wait for anything: what was queued has a little time, then the peers are told. Those who were told
    /// of a reset may not have heard it.
    fn drop(&mut self) {
        let _ = self.port.wait_until(|state| state.is_quiet().then_some(()), deadline(LINGER));
        self.say_farewell(FAREWELL);
        let _ = self.port.call(|Call { now, engine, .. }| engine.shut_down(now));
    }
}
