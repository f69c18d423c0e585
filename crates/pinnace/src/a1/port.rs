//! The engine on a socket, or on any link.

use super::exchange::Exchange;
use super::groups::Groups;
use super::node::Node;
use super::options::{self, Path};
use super::{Options, Qos};
use crate::counters::Seen;
use crate::{Error, faulty};
use pinnace_a1::A1;
use pinnace_core::{Address, Time};
use pinnace_link::{Capture, CaptureOptions, Link, UdpLink};
use pinnace_runtime::EndpointConfig;
use std::fs::File;
use std::io::{self, BufWriter};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

pub(super) type Port = pinnace_runtime::Endpoint<Node, Box<dyn Link>, Exchange>;
pub(super) type Call<'a> = pinnace_runtime::Call<'a, Node, Exchange>;

/// What all handles of a socket share.
#[derive(Debug)]
pub(super) struct End {
    pub(super) port: Port,
    pub(super) local: SocketAddr,
    /// The only one that the link talks with.
    peer: Option<SocketAddr>,
    /// The most that any connection may have, with a block size.
    pub(super) max_qos: Qos,
    pub(super) linger: Duration,
    pub(super) warnings: Vec<String>,
}

/// A link, and what is known of it.
pub(super) struct Bound {
    link: Box<dyn Link>,
    groups: Groups,
    path: Path,
    local: SocketAddr,
    peer: Option<SocketAddr>,
    warnings: Vec<String>,
}

impl Bound {
    /// A link of the application's own.
    pub(super) fn over(link: Box<dyn Link>, local: SocketAddr, peer: Option<SocketAddr>) -> Self {
        let end = peer.unwrap_or(local).ip();
        let is_local = end.is_loopback() || (peer.is_some() && end.is_unspecified());
        let path = Path { datagram: link.max_datagram(), receive_buffer: None, is_local };
        Self { link, groups: Groups::default(), path, local, peer, warnings: Vec::new() }
    }

    /// A UDP socket that hears everybody, at `address`.
    pub(super) fn udp(address: SocketAddr, options: &Options) -> Result<Self, Error> {
        let failed = |error| Error::io(format!("cannot listen on {address}"), error);
        let link = UdpLink::bind(address, &options.udp()).map_err(failed)?;
        let local = link.local_address().ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
        let (path, warnings) = (Path::of_udp(&link), link.warnings());
        let (link, groups) = Groups::of_udp(link, options).map_err(failed)?;
        let link = captured(link, CaptureOptions::new(local, local), options)?;
        Ok(Self { link, groups, path, local, peer: None, warnings })
    }
}

/// The link, behind a capture and with faults if the options ask for them. (Where everybody is heard, each datagram names its peer.)
fn captured(link: Box<dyn Link>, ends: CaptureOptions, options: &Options) -> Result<Box<dyn Link>, Error> {
    let Some(path) = &options.capture else { return Ok(faulty(link, options.fault.as_ref())) };
    let capture = File::create(path)
        .and_then(|file| Capture::new(link, BufWriter::new(file), ends))
        .map_err(|error| Error::io(format!("cannot write the capture {}", path.display()), error))?;
    Ok(faulty(capture, options.fault.as_ref()))
}

/// Puts the engine on a link.
pub(super) fn start(bound: Bound, max_qos: Qos, options: &Options) -> Result<End, Error> {
    let Bound { link, groups, path, local, peer, warnings } = bound;
    let max_qos = path.fill(max_qos);
    options::check(&max_qos)?;
    let engine = A1::new(options.config(&path, local, max_qos), Time::ZERO);
    let endpoint = EndpointConfig { idle: options.idle, worker: options.worker, ..EndpointConfig::default() };
    let port = Port::new(Node::new(engine, groups), link, Exchange::default(), endpoint)
        .map_err(|error| Error::io("cannot start the socket", error))?;
    port.publish("a1", |node, numbers| Seen::look(&**node, numbers));
    Ok(End { port, local, peer, max_qos, linger: options.linger, warnings })
}

impl End {
    /// How the engine names `to`.
    pub(super) fn name(&self, to: SocketAddr) -> Result<Address, Error> {
        match self.peer {
            Some(peer) if canonical(peer) == canonical(to) => Ok(Address::Peer),
            // The link knows where it leads, nobody else does.
            Some(peer) if peer.port() == 0 => Ok(Address::Peer),
            Some(peer) => {
                let why = format!("this socket talks with {peer} only: use another one");
                let error = io::Error::new(io::ErrorKind::InvalidInput, why);
                Err(Error::io(format!("cannot connect to {to}"), error))
            }
            None => Ok(canonical(to).into()),
        }
    }

    /// The internet address of a peer, as far as it has one.
    pub(super) fn address_of(&self, peer: Address) -> SocketAddr {
        match peer {
            Address::Inet(address) => address,
            Address::Peer => self.peer.unwrap_or(NOWHERE),
            _ => NOWHERE,
        }
    }

    /// The record with the largest block that this end may have, if it says none.
    pub(super) fn fill(&self, qos: Qos) -> Qos {
        if qos.block_size > 0 { qos } else { Qos { block_size: self.max_qos.block_size, ..qos } }
    }
}

/// Where a link without internet addresses is.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

/// IPv4 that was mapped into IPv6 is IPv4.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Drop for End {
    /// Nobody is left to wait for anything: what was queued has a little time, then the peers are told.
    //= A-18
    fn drop(&mut self) {
        let _ = self.port.wait_until(|state| state.is_quiet().then_some(()), deadline(self.linger));
        let _ = self.port.call(|Call { now, engine, .. }| engine.shut_down(now));
    }
}

pub(super) fn resolve(address: impl ToSocketAddrs) -> Result<SocketAddr, Error> {
    let failed = |error| Error::io("cannot resolve the address", error);
    let mut addresses = address.to_socket_addrs().map_err(failed)?;
    addresses.next().ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))
}

/// The moment `timeout` from now, or never if that is beyond all clocks.
pub(super) fn deadline(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// The local address that the system reaches `peer` from: a datagram socket finds out without a datagram.
pub(super) fn route(peer: SocketAddr) -> Result<SocketAddr, Error> {
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let local = std::net::UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((peer.ip(), if peer.port() == 0 { 9 } else { peer.port() }))?;
        socket.local_addr()
    });
    let local = local.map_err(|error| Error::io(format!("cannot reach {peer}"), error))?;
    Ok(SocketAddr::new(local.ip(), 0))
}
