//! The endpoints that are there, by what they are for, and the pumps that serve them ([`Pump`]).
//!
//! Always true: an endpoint that is known has a pump, which does what it is told; meanwhile its address is listened at by it alone,
//! and streams to its peer are opened by it. So a server that closes its listener and makes it anew, while its streams go on,
//! has it back.

use super::inbox::{Command, Inbox};
use super::pair::Control;
use super::pump::Pump;
use super::request::Takes;
use super::{Busy, Shared};
use pinnace::link::UdpOptions;
use pinnace::qmp::{Endpoint, Listener, Options};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// What a listener that has been closed may take to go, here or with a companion that says its last words, and how often it is
/// looked whether it has gone.
const GOING: Duration = Duration::from_millis(500);
/// What such a companion may take until it says that it goes. Of anybody else who has the port no more is waited for.
const NOTICE: Duration = Duration::from_millis(30);
const LOOK: Duration = Duration::from_millis(5);

/// What an endpoint is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// Streams that are opened to this address.
    To(SocketAddr),
    /// Listeners at this address; true: IPv4 is left to others.
    At(SocketAddr, bool),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::To(peer) => peer.fmt(f),
            Self::At(at, _) => write!(f, "listeners at {at}"),
        }
    }
}

#[derive(Debug)]
struct Known {
    inbox: Arc<Inbox>,
    /// The last listener's.
    control: Weak<Control>,
}

impl Known {
    fn is_going(&self) -> bool {
        self.control.upgrade().is_none_or(|control| control.has_ended())
    }
}

#[derive(Debug, Default)]
pub(super) struct Endpoints {
    known: Mutex<BTreeMap<Place, Known>>,
}

impl Endpoints {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Place, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The endpoint that leads to an address: the one that is there already, or a new one.
    pub(super) fn to(&self, shared: &Arc<Shared>, peer: SocketAddr) -> io::Result<Arc<Inbox>> {
        let mut known = self.known();
        let place = Place::To(peer);
        if let Some(found) = known.get(&place) {
            return Ok(Arc::clone(&found.inbox));
        }
        let inbox = Inbox::new(Endpoint::client_of(peer, &shared.options)?)?;
        Pump::start(shared, place.clone(), &inbox)?;
        known.insert(place, Known { inbox: Arc::clone(&inbox), control: Weak::new() });
        Ok(inbox)
    }

    /// Listens at an address, for as long as `control` lasts, on the endpoint that is there already, or a new one.
    pub(super) fn listen(
        &self,
        shared: &Arc<Shared>,
        (at, takes): (SocketAddr, Takes),
        control: &Arc<Control>,
    ) -> io::Result<(Listener, Arc<Inbox>)> {
        let begin = Instant::now();
        loop {
            match self.try_listen(shared, (at, takes), control) {
                Err((_, Some(limit))) if begin.elapsed() < limit => thread::sleep(LOOK),
                Err((error, _)) => return Err(error),
                Ok(listening) => return Ok(listening),
            }
        }
    }

    /// An error comes with how long it may last, if it may pass.
    fn try_listen(
        &self,
        shared: &Arc<Shared>,
        (at, takes): (SocketAddr, Takes),
        control: &Arc<Control>,
    ) -> Result<(Listener, Arc<Inbox>), (io::Error, Option<Duration>)> {
        let mut known = self.known();
        let place = Place::At(at, takes == Takes::V6);
        let before = known.get_mut(&place);
        let listening = match &before {
            Some(before) => {
                before.inbox.endpoint.listen(at.port()).map(|listener| (listener, Arc::clone(&before.inbox)))
            }
            None => begin(shared, &place, at),
        };
        let (listener, inbox) = listening.map_err(|error| {
            let limit = match &before {
                Some(before) => before.is_going().then_some(GOING),
                None if error.kind() != io::ErrorKind::AddrInUse => None,
                None => Some(if Going::is_said(at) { GOING } else { NOTICE }),
            };
            (error, limit)
        })?;
        known.insert(place, Known { inbox: Arc::clone(&inbox), control: Arc::downgrade(control) });
        Ok((listener, inbox))
    }

    /// A pump is about to end. False: somebody has something for it to do.
    pub(super) fn retire(&self, place: &Place, inbox: &Arc<Inbox>) -> bool {
        let mut known = self.known();
        let is_known = is_at(&known, place, inbox);
        // Whoever has it may tell it something. Here are the pump's and the one that is known.
        let is_wanted = Arc::strong_count(inbox) > 1 + usize::from(is_known) || !inbox.is_empty();
        if is_known && !is_wanted {
            known.remove(place);
        }
        !is_wanted
    }

    /// Nobody is left who could want any of them.
    pub(super) fn end(&self, shared: &Arc<Shared>) {
        for known in self.known().values() {
            known.inbox.tell(Command::End(Busy::always(shared)));
        }
    }

    /// Nobody else is to have this one.
    pub(super) fn forget(&self, place: &Place, inbox: &Arc<Inbox>) {
        let mut known = self.known();
        if is_at(&known, place, inbox) {
            known.remove(place);
        }
    }
}

fn is_at(known: &BTreeMap<Place, Known>, place: &Place, inbox: &Arc<Inbox>) -> bool {
    known.get(place).is_some_and(|known| Arc::ptr_eq(&known.inbox, inbox))
}

/// A listener on an endpoint of its own, and a pump for it.
fn begin(shared: &Arc<Shared>, place: &Place, at: SocketAddr) -> io::Result<(Listener, Arc<Inbox>)> {
    let udp = UdpOptions { v6_only: matches!(place, Place::At(_, true)), ..shared.options.udp.clone() };
    let listener = Listener::bind(at, &Options { udp, ..shared.options.clone() })?;
    let endpoint = listener.endpoint().ok_or(io::ErrorKind::Unsupported)?;
    let inbox = Inbox::new(endpoint.clone())?;
    Pump::start(shared, place.clone(), &inbox)?;
    Ok((listener, inbox))
}

/// The name, beside a UDP port, that says: whoever has the port is about to go. It is taken as long as this lives.
#[derive(Debug)]
pub(super) struct Going {
    _socket: OwnedFd,
}

impl Going {
    /// If the name is taken it is said already.
    pub(super) fn say(at: SocketAddr) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrUnix::new_abstract_name(format!("pinnace/1G/{}", at.port()).as_bytes())?)?;
        Ok(Self { _socket: socket })
    }

    fn is_said(at: SocketAddr) -> bool {
        Self::say(at).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_goes_says_so() {
        // No socket has this port.
        let at = SocketAddr::from(([127, 0, 0, 1], 0));
        assert!(!Going::is_said(at) && !Going::is_said(at));
        let going = Going::say(at).expect("a name");
        assert!(Going::is_said(at));
        drop(going);
        assert!(!Going::is_said(at));
    }
}
