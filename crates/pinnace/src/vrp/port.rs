//! Endpoints: an engine in one role on a socket, or on any link.

use super::exchange::{Arrivals, Sends};
use super::options::Path;
use super::{Options, Receiver, Sender};
use crate::counters::Seen;
pub(super) use crate::network::deadline;
use crate::network::{resolve, resolve_peer};
use crate::{Error, wrapped};
use pinnace_core::Time;
use pinnace_link::{CaptureOptions, Link, UdpLink};
use pinnace_runtime::{Endpoint, EndpointConfig, EventSink};
use pinnace_vrp::{Config, Event, Incoming, Outgoing, Vrp};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::BorrowedFd;
use std::time::Duration;

pub(super) type OutgoingPort = Endpoint<Vrp, Box<dyn Link>, Sends>;
pub(super) type IncomingPort = Endpoint<Vrp, Box<dyn Link>, Arrivals>;

/// How long a close waits to have said good-bye.
pub(super) const CLOSING_TIME: Duration = Duration::from_secs(1);

/// A sender and a receiver on links of one's own, for middlewares such as [`Fault`](pinnace_link::Fault). The links need
/// not belong together; see also [`Sender::over`] and [`Receiver::over`].
///
/// ```
/// use pinnace::link::{MemoryLink, MemoryOptions};
/// use pinnace::vrp;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (here, there) = MemoryLink::pair(&MemoryOptions::default())?;
/// let (sender, receiver) = vrp::over(Box::new(here), Box::new(there), &vrp::Options::default())?;
/// let sending = sender.send(b"ahoy".to_vec())?;
/// assert_eq!(&*receiver.recv()?, b"ahoy");
/// sending.wait()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the system has no descriptors left.
pub fn over(outgoing: Box<dyn Link>, incoming: Box<dyn Link>, options: &Options) -> Result<(Sender, Receiver), Error> {
    Ok((Sender::over(outgoing, options)?, Receiver::over(incoming, options)?))
}

fn endpoint(options: &Options) -> EndpointConfig {
    EndpointConfig { idle: options.idle, worker: options.worker, ..EndpointConfig::default() }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("cannot start the endpoint", error)
}

/// Puts a sending engine on a link.
pub(super) fn send_over(link: Box<dyn Link>, config: Config, options: &Options) -> Result<OutgoingPort, Error> {
    let engine = Vrp::outgoing(Outgoing::new(config, Time::ZERO));
    let port = Endpoint::new(engine, link, Sends::default(), endpoint(options)).map_err(failed)?;
    port.publish("vrp", Seen::look);
    Ok(port)
}

/// Puts a receiving engine on a link. It answers from now on, whether somebody waits or not.
pub(super) fn receive_over(link: Box<dyn Link>, config: Config, options: &Options) -> Result<IncomingPort, Error> {
    let engine = Vrp::incoming(Incoming::new(config, Time::ZERO));
    let port = Endpoint::new(engine, link, Arrivals::within(&options.limits), endpoint(options)).map_err(failed)?;
    port.publish("vrp", Seen::look);
    // The end of a call is where an endpoint starts its background thread.
    port.call(|_| ())?;
    Ok(port)
}

/// Turns without a pause for whoever reads by itself: it has other things to do, too.
const MOST_TURNS: usize = 64;

/// The background thread leaves the reading to the caller. Returns the descriptor to poll.
pub(super) fn read_by_caller<S>(port: &Endpoint<Vrp, Box<dyn Link>, S>) -> Result<BorrowedFd<'_>, Error>
where
    S: EventSink<Event> + Send + 'static,
{
    let descriptor = port.with_link(|link| link.descriptors().readable);
    if descriptor < 0 {
        return Err(Error::io("the link has no descriptor", std::io::ErrorKind::Unsupported.into()));
    }
    port.set_worker_reads(false)?;
    // SAFETY: the link has it open, and lives as long as the endpoint, which is borrowed.
    Ok(unsafe { BorrowedFd::borrow_raw(descriptor) })
}

/// Reads until nothing comes, or others should have their turn.
pub(super) fn progress<S>(port: &Endpoint<Vrp, Box<dyn Link>, S>) -> Result<(), Error>
where
    S: EventSink<Event> + Send + 'static,
{
    for _ in 0..MOST_TURNS {
        if !port.progress()? {
            break;
        }
    }
    Ok(())
}

/// A link to `peer` alone, and what is known of the path.
pub(super) fn connect(peer: impl ToSocketAddrs, options: &Options) -> Result<(Box<dyn Link>, Path), Error> {
    let peer = resolve_peer(peer)?;
    let link = UdpLink::connect(None, peer, &options.udp(false))
        .map_err(|error| Error::io(format!("cannot open a socket to {peer}"), error))?;
    let path = Path::of_udp(&link);
    Ok((captured(link, Some(peer), options)?, path))
}

/// A link that hears everybody.
pub(super) struct Bound {
    pub(super) link: Box<dyn Link>,
    pub(super) path: Path,
    pub(super) address: SocketAddr,
    pub(super) warnings: Vec<String>,
}

/// A socket bound to `address`.
pub(super) fn bind(address: impl ToSocketAddrs, options: &Options) -> Result<Bound, Error> {
    let address = resolve(address)?;
    let failed = |error| Error::listen(address, error);
    let link = UdpLink::bind(address, &options.udp(true)).map_err(failed)?;
    let address = link.local_address().ok_or_else(|| failed(std::io::ErrorKind::AddrNotAvailable.into()))?;
    let (path, warnings) = (Path::of_udp(&link), link.warnings());
    Ok(Bound { link: captured(link, None, options)?, path, address, warnings })
}

/// A socket bound to every address of this host: IPv6 and IPv4, or what there is of them.
pub(super) fn bind_all(port: u16, options: &Options) -> Result<Bound, Error> {
    bind((Ipv6Addr::UNSPECIFIED, port), options).or_else(|error| match error {
        // Not for a port that is taken: that is not the family's fault.
        Error::Listen { source, .. } if source.kind() != std::io::ErrorKind::AddrInUse => {
            bind((Ipv4Addr::UNSPECIFIED, port), options)
        }
        error => Err(error),
    })
}

/// The link, behind a capture and with faults if the options ask for them. (Where everybody is heard, each packet names its peer.)
fn captured(link: UdpLink, peer: Option<SocketAddr>, options: &Options) -> Result<Box<dyn Link>, Error> {
    let ends = link.local_address().map(|local| CaptureOptions::new(local, peer.unwrap_or(local)));
    wrapped(link, ends, options.capture.as_deref(), options.fault.as_ref())
}
