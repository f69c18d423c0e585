//! The endpoints of listeners, by their addresses.
//!
//! Always true: an endpoint lasts as long as a listener of it, or a stream that came to it, and meanwhile its address is
//! listened at by it alone. So a server that closes its listener and makes it anew, while its streams go on, has it back. Who
//! is the last to let go of it says its last words.

use super::pair::Control;
use super::request::Takes;
use pinnace::link::UdpOptions;
use pinnace::qmp::{Endpoint, Listener, Options};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// What a listener that has been closed may take to go, here or with a companion that says its last words, and how often it is
/// looked whether it has gone.
const GOING: Duration = Duration::from_millis(500);
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
                Err((_, true)) if begin.elapsed() < GOING => thread::sleep(LOOK),
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
        endpoint.leave(LAST_WORDS);
    }

    /// An error comes with whether it may pass.
    fn try_listen(
        &self,
        at: SocketAddr,
        control: &Arc<Control>,
        options: &Options,
    ) -> Result<(Listener, Arc<Endpoint>), (io::Error, bool)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (at, options.udp.v6_only);
        let before = known.get(&key);
        let endpoint = before.and_then(|before| before.endpoint.upgrade());
        let listener = match &endpoint {
            Some(endpoint) => endpoint.listen(at.port()),
            None => Listener::bind(at, options),
        };
        let listener = listener.map_err(|error| {
            // Whether somebody who has the port from elsewhere is going cannot be seen.
            let may_pass = before.map_or(error.kind() == io::ErrorKind::AddrInUse, Known::is_going);
            (error, may_pass)
        })?;
        let endpoint = endpoint.unwrap_or_else(|| Arc::new(listener.endpoint().clone()));
        known.retain(|_, known| known.endpoint.strong_count() > 0);
        known.insert(key, Known { endpoint: Arc::downgrade(&endpoint), control: Arc::downgrade(control) });
        Ok((listener, endpoint))
    }
}
