//! One endpoint: a socket with a sender, a receiver, or both (Z-1).

use super::exchange::{Exchange, KnownPeer};
use super::open_link::OpenLink;
use super::options::Path;
use super::{Options, Receiver, Sender};
use crate::counters::Seen;
use crate::network::resolve_peer;
pub(super) use crate::network::{deadline, resolve};
use crate::{Error, wrapped};
use pinnace_link::{CaptureOptions, Link, UdpLink};
use pinnace_runtime::{Endpoint, EndpointConfig};
use pinnace_zcrp::{Config, Zcrp};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

pub(super) type Port = Endpoint<Zcrp, Box<dyn Link>, Exchange>;

/// Which halves an endpoint has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Halves {
    /// They are opened later.
    Neither,
    Sender,
    Receiver,
    Both,
}

/// What a peer has sent before the endpoint was made: what may be answered to it.
#[derive(Clone, Copy)]
pub(super) struct Introduction {
    pub(super) bytes: usize,
}

/// Puts the engine on a connected link.
pub(super) fn open(link: UdpLink, peer: SocketAddr, options: &Options, halves: Halves) -> Result<Port, Error> {
    let config = options.config(&Path::of_udp(&link));
    let ends = link.local_address().zip(Some(peer));
    start(captured(link, ends, options)?, config, options, halves, None, Arc::new(peer.into()))
}

/// Puts the engine on a link whose peer has introduced itself, over a path such as `path`; `ends`: we and the peer, as far
/// as is known.
pub(super) fn accepted(
    link: OpenLink,
    ends: Option<(SocketAddr, SocketAddr)>,
    path: &Path,
    options: &Options,
    halves: Halves,
    introduction: Introduction,
) -> Result<Port, Error> {
    let config = Config { limit_amplification: true, peer_unproven: true, ..options.config(path) };
    let known = link.known_peer();
    start(captured(link, ends, options)?, config, options, halves, Some(introduction), known)
}

/// The link, behind a capture and with faults if the options ask for them.
fn captured(
    link: impl Link + 'static,
    ends: Option<(SocketAddr, SocketAddr)>,
    options: &Options,
) -> Result<Box<dyn Link>, Error> {
    let ends = ends.map(|(local, peer)| CaptureOptions::new(local, peer));
    wrapped(link, ends, options.capture.as_deref(), options.fault.as_ref())
}

/// Puts the engine on any link.
pub(super) fn start(
    link: Box<dyn Link>,
    config: Config,
    options: &Options,
    halves: Halves,
    introduction: Option<Introduction>,
    peer: KnownPeer,
) -> Result<Port, Error> {
    let sender = matches!(halves, Halves::Sender | Halves::Both)
        .then(|| pinnace_zcrp::Sender::new(config.clone(), pinnace_core::Time::ZERO));
    let receiver = matches!(halves, Halves::Receiver | Halves::Both).then(|| pinnace_zcrp::Receiver::new(config));
    let mut engine = Zcrp::new(sender, receiver);
    if let Some(Introduction { bytes }) = introduction {
        engine.introduce(bytes);
    }
    let endpoint = EndpointConfig { idle: options.idle, worker: options.worker, ..EndpointConfig::default() };
    let port = Endpoint::new(engine, link, Exchange { peer, ..Exchange::default() }, endpoint)
        .map_err(|error| Error::io("cannot start the endpoint", error))?;
    port.publish("zcrp", Seen::look);
    Ok(port)
}

fn connect_link(peer: impl ToSocketAddrs, options: &Options) -> Result<(UdpLink, SocketAddr), Error> {
    let peer = resolve_peer(peer)?;
    let link = UdpLink::connect(None, peer, &options.udp(false))
        .map_err(|error| Error::io(format!("cannot open a socket to {peer}"), error))?;
    Ok((link, peer))
}

/// Both halves on a connected socket, to a peer of the same kind; `introduced`: bytes that it has sent before, if it was not
/// asked to.
pub(crate) fn connected(
    link: UdpLink,
    peer: SocketAddr,
    options: &Options,
    introduced: Option<usize>,
) -> Result<(Sender, Receiver), Error> {
    let introduction = introduced.map(|bytes| Introduction { bytes });
    // The rendezvous has made sure that the address is the peer's, so nobody is flooded in its name.
    let config = Config { peer_reports_idle: true, ..options.config(&Path::of_udp(&link)) };
    let ends = link.local_address().zip(Some(peer));
    let link = captured(link, ends, options)?;
    let port = start(link, config, options, Halves::Both, introduction, Arc::new(peer.into()))?;
    Ok((Sender::new(port.clone()), Receiver::new(port)))
}

/// Opens a sending endpoint to `peer`.
pub(super) fn connect_sender(peer: impl ToSocketAddrs, options: &Options) -> Result<Sender, Error> {
    let (link, peer) = connect_link(peer, options)?;
    Ok(Sender::new(open(link, peer, options, Halves::Sender)?))
}

/// Opens an endpoint that sends to `peer` and receives from it.
///
/// # Errors
/// If the address does not resolve, or the system has no socket for it.
pub fn connect(peer: impl ToSocketAddrs, options: &Options) -> Result<(Sender, Receiver), Error> {
    let (link, peer) = connect_link(peer, options)?;
    let port = open(link, peer, options, Halves::Both)?;
    Ok((Sender::new(port.clone()), Receiver::new(port)))
}

/// A sender and a receiver on any connected link: for middlewares, and for links of one's own.
///
/// # Errors
/// If the system has no descriptors left.
pub fn over(link: Box<dyn Link>, config: Config, options: &Options) -> Result<(Sender, Receiver), Error> {
    let port = start(link, config, options, Halves::Both, None, KnownPeer::default())?;
    Ok((Sender::new(port.clone()), Receiver::new(port)))
}
