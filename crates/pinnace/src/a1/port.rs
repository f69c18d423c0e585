//! The engine on a socket, or on any link.

use super::exchange::Exchange;
use super::groups::Groups;
use super::node::Node;
use super::options::{self, Path};
use super::{Options, Qos};
use crate::counters::Seen;
use crate::network::{NOWHERE, same_family};
pub(super) use crate::network::{canonical, deadline, resolve, resolve_peer, resolve_to};
use crate::{Error, wrapped};
use pinnace_a1::{A1, Config};
use pinnace_core::{Address, Time};
use pinnace_link::{CaptureOptions, Link, UdpLink};
use pinnace_runtime::{EndpointConfig, WaitError};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub(super) type Port = pinnace_runtime::Endpoint<Node, Box<dyn Link>, Exchange>;
/// A socket, for whoever waits for something of one connection.
pub(super) type About<'a> = pinnace_runtime::About<'a, Node, Box<dyn Link>, Exchange>;
pub(super) type Call<'a> = pinnace_runtime::Call<'a, Node, Exchange>;

/// How soon to look whether the answer to an abort has come.
const LOOK: Duration = Duration::from_millis(5);

/// What all handles of a socket share.
#[derive(Debug)]
pub(super) struct End {
    pub(super) port: Port,
    pub(super) local: SocketAddr,
    /// The only one that the link talks with.
    peer: Option<SocketAddr>,
    /// The most that any connection may have, with a block size.
    pub(super) max_qos: Qos,
    /// The block of a connection of ours that says none.
    block: u32,
    pub(super) linger: Duration,
    pub(super) warnings: Vec<String>,
}

/// A link, and what is known of it.
pub(super) struct Bound {
    link: Box<dyn Link>,
    groups: Groups,
    path: Path,
    /// Bytes of the largest datagram with a block, of connections that we open, and of those that are opened to us.
    largest: (usize, usize),
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
        let largest = (path.datagram, path.datagram);
        Self { link, groups: Groups::default(), path, largest, local, peer, warnings: Vec::new() }
    }

    /// A UDP socket that hears everybody, at `address`.
    pub(super) fn udp(address: SocketAddr, options: &Options) -> Result<Self, Error> {
        let failed = |error| Error::listen(address, error);
        let link = UdpLink::bind(address, &options.udp(true)).map_err(failed)?;
        let local = link.local_address().ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
        let (path, warnings) = (Path::of_udp(&link), link.warnings());
        let (link, groups) = Groups::of_udp(link, options).map_err(failed)?;
        // Where everybody is heard, each datagram names its peer.
        let ends = Some(CaptureOptions::new(local, local));
        let link = wrapped(link, ends, options.capture.as_deref(), options.fault.as_ref())?;
        let largest = (path.datagram, path.datagram_to(local));
        Ok(Self { link, groups, path, largest, local, peer: None, warnings })
    }

    /// A UDP socket that talks with `peer` alone.
    pub(super) fn connected(peer: SocketAddr, options: &Options) -> Result<Self, Error> {
        let failed = |error| Error::io(format!("cannot open a socket to {peer}"), error);
        let link = UdpLink::connect(None, peer, &options.udp(false)).map_err(failed)?;
        let local = link.local_address().ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
        let (path, warnings) = (Path::of_udp(&link), link.warnings());
        let ends = Some(CaptureOptions::new(local, peer));
        let link = wrapped(link, ends, options.capture.as_deref(), options.fault.as_ref())?;
        let largest = path.datagram_toward(peer, options.profile);
        let groups = Groups::default();
        Ok(Self { link, groups, path, largest: (largest, largest), local, peer: Some(peer), warnings })
    }
}

/// Puts the engine on a link.
pub(super) fn start(bound: Bound, max_qos: Qos, options: &Options) -> Result<End, Error> {
    let Bound { link, groups, path, largest, local, peer, warnings } = bound;
    let own = options::fill_evenly(max_qos, largest.0);
    options::check(&own)?;
    let max_qos = options::fill(max_qos, largest.1);
    options::check(&max_qos)?;
    // Only of one peer is it known whom a report of the network is about.
    let config = Config { trusts_reports: peer.is_some(), ..options.config(&path, local, max_qos) };
    let engine = A1::new(config, Time::ZERO);
    let endpoint = EndpointConfig { idle: options.idle, worker: options.worker, ..EndpointConfig::default() };
    let port = Port::new(Node::new(engine, groups), link, Exchange::default(), endpoint)
        .map_err(|error| Error::io("cannot start the socket", error))?;
    port.publish("a1", |node, numbers| Seen::look(&**node, numbers));
    Ok(End { port, local, peer, max_qos, block: own.block_size, linger: options.linger, warnings })
}

impl End {
    /// Whether it talks with more than one peer.
    pub(super) fn reaches_many(&self) -> bool {
        self.peer.is_none()
    }

    /// How the engine names `to`.
    pub(super) fn name(&self, to: SocketAddr) -> Result<Address, Error> {
        let failed = |error| Error::io(format!("cannot connect to {to}"), error);
        match self.peer {
            Some(peer) if canonical(peer) == canonical(to) => Ok(Address::Peer),
            // The link knows where it leads, nobody else does.
            Some(peer) if peer.port() == 0 => Ok(Address::Peer),
            Some(peer) => {
                let why = format!("this socket talks with {peer} only: use another one");
                Err(failed(io::Error::new(io::ErrorKind::InvalidInput, why)))
            }
            None => same_family(self.local, to).map(|()| canonical(to).into()).map_err(failed),
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

    /// Answers peers that close again, as long as they may, and tells those again that were not heard to know of the end of
    /// theirs, at most `timeout`. True if nobody needs either any more.
    pub(super) fn part(&self, timeout: Duration) -> bool {
        let until = deadline(timeout);
        loop {
            let left = self.port.call(|Call { now, engine, .. }| engine.parting(now));
            // Of a socket that is of no use nobody gets an answer.
            let Ok(Some(left)) = left else { return true };
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                return false;
            }
            // Who answers an abort may do so long before it would be said again.
            let parts_at = now + left.min(LOOK);
            let wait = until.map_or(parts_at, |until| until.min(parts_at));
            if let Err(WaitError::Endpoint(_)) = self.port.wait_until(|_| None::<()>, Some(wait)) {
                return true;
            }
        }
    }

    /// The record of a connection that is opened, with this end's block if it says none.
    pub(super) fn fill(&self, qos: Qos) -> Qos {
        if qos.block_size > 0 { qos } else { Qos { block_size: self.block, ..qos } }
    }
}

impl Drop for End {
    /// Nobody is left to wait for anything: what was queued has a little time, then the peers are told.
    //= A-18
    fn drop(&mut self) {
        let _ = self.port.wait_until(|state| state.is_quiet().then_some(()), deadline(self.linger));
        let _ = self.port.call(|Call { now, engine, .. }| engine.shut_down(now));
    }
}
