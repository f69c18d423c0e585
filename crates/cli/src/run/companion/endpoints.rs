//! The endpoints of listeners, by their addresses.
//!
//! Always true: an endpoint lasts as long as a listener of it, or a stream that came to it, and meanwhile its address is
//! listened at by it alone. So a server that closes its listener and makes it anew, while its streams go on, has it back. Who
//! is the last to let go of it says its last words.

use super::pair::Control;
use super::request::Takes;
use pinnace::link::UdpOptions;
use pinnace::qmp::{Endpoint, Listener, Options};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// What a listener that has been closed may take to go, here or with a companion that says its last words, and how often it is
/// looked whether it has gone.
const GOING: Duration = Duration::from_millis(500);
/// What such a companion may take until it says that it goes. Of anybody else who has the port no more is waited for.
const NOTICE: Duration = Duration::from_millis(30);
const LOOK: Duration = Duration::from_millis(5);
/// What the last bytes of the last streams have to reach the other side.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Known {
    endpoint: Weak<Endpoint>,
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
    /// By address, and whether IPv4 is left to others.
    known: Mutex<BTreeMap<(SocketAddr, bool), Known>>,
}

impl Endpoints {
    /// Listens at an address for as long as `control` lasts. What it answers with beside is to be kept with every stream, and
    /// to be let go of by [`Endpoints::release`].
    pub(super) fn listen(
        &self,
        (at, takes): (SocketAddr, Takes),
        control: &Arc<Control>,
        options: &Options,
    ) -> io::Result<(Listener, Arc<Endpoint>)> {
        let udp = UdpOptions { v6_only: takes == Takes::V6, ..options.udp.clone() };
        let options = &Options { udp, ..options.clone() };
        let begin = Instant::now();
        loop {
            match self.try_listen(at, control, options) {
                Err((_, Some(limit))) if begin.elapsed() < limit => thread::sleep(LOOK),
                Err((error, _)) => return Err(error),
                Ok(listening) => return Ok(listening),
            }
        }
    }

    /// Lets go of an endpoint. Whoever is the last to do so has its ends said again: nobody answers who asks for them later.
    /// Meanwhile it is there for a listener that is made anew.
    pub(super) fn release(&self, endpoint: Arc<Endpoint>) {
        // Under the lock there is a last one, also where all let go at the same moment.
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::strong_count(&endpoint) > 1 {
            drop(endpoint);
            return;
        }
        drop(known);
        // Whoever starts the program anew waits for it, and for nobody else.
        let _going = Going::say(endpoint.local_addr());
        endpoint.leave(LAST_WORDS);
        drop(endpoint);
    }

    /// An error comes with how long it may last, if it may pass.
    fn try_listen(
        &self,
        at: SocketAddr,
        control: &Arc<Control>,
        options: &Options,
    ) -> Result<(Listener, Arc<Endpoint>), (io::Error, Option<Duration>)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (at, options.udp.v6_only);
        let before = known.get(&key);
        let endpoint = before.and_then(|before| before.endpoint.upgrade());
        let listener = match &endpoint {
            Some(endpoint) => endpoint.listen(at.port()),
            None => Listener::bind(at, options),
        };
        let listener = listener.map_err(|error| {
            let limit = match before {
                Some(before) => before.is_going().then_some(GOING),
                None if error.kind() != io::ErrorKind::AddrInUse => None,
                None => Some(if Going::is_said(at) { GOING } else { NOTICE }),
            };
            (error, limit)
        })?;
        let endpoint = endpoint.unwrap_or_else(|| Arc::new(listener.endpoint().clone()));
        known.retain(|_, known| known.endpoint.strong_count() > 0);
        known.insert(key, Known { endpoint: Arc::downgrade(&endpoint), control: Arc::downgrade(control) });
        Ok((listener, endpoint))
    }
}

/// The name, beside a UDP port, that says: whoever has the port is about to go. It is taken as long as this lives.
#[derive(Debug)]
struct Going {
    _socket: OwnedFd,
}

impl Going {
    /// If the name is taken it is said already.
    fn say(at: SocketAddr) -> io::Result<Self> {
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
