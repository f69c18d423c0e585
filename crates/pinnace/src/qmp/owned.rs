//! Endpoints that only one process can have: protocol 36 on an address, Ethernet on an interface. All sockets of the process
//! share them.

use super::{Endpoint, Options};
use crate::xtp::qmp::WeakEndpoint;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{process, thread};

/// What is owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Protocol 36 on an address of this host, at no port.
    Host(SocketAddr),
    /// Ethernet on an interface.
    Interface(String),
}

/// An endpoint that somebody uses or has used, and who can use it: a child process cannot, nor can another network
/// namespace.
#[derive(Debug)]
struct Owned {
    place: Place,
    process: u32,
    /// Of the thread that made it.
    namespace: u64,
    endpoint: WeakEndpoint,
    options: Arc<Options>,
}

static OWNED: Mutex<Vec<Owned>> = Mutex::new(Vec::new());

/// How long an endpoint may take to end whose last handle is gone.
const ENDING: Duration = Duration::from_secs(3);

/// The network namespace of the calling thread; 0 if the system does not say.
fn namespace() -> u64 {
    std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |file| file.ino())
}

/// The endpoint of this process at `place`, or the one that `make` makes. `None`: everybody has one of their own.
pub(super) fn get(place: Option<Place>, make: impl Fn() -> io::Result<Endpoint>) -> io::Result<Endpoint> {
    let Some(place) = place else { return make() };
    let (process, namespace) = (process::id(), namespace());
    let is_it = |it: &Owned| it.place == place && it.process == process && it.namespace == namespace;
    let mut owned = OWNED.lock().unwrap_or_else(PoisonError::into_inner);
    let found = owned.iter().position(is_it);
    if let Some(found) = found.and_then(|index| owned.get(index))
        && let Some(inner) = found.endpoint.upgrade()
    {
        return Ok(Endpoint { inner, options: found.options.clone() });
    }
    if let Some(index) = found {
        owned.swap_remove(index);
    }
    let until = Instant::now() + ENDING;
    let endpoint = loop {
        match make() {
            // The one before is still saying good-bye.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && found.is_some() && Instant::now() < until => {
                thread::sleep(Duration::from_millis(5));
            }
            result => break result?,
        }
    };
    let options = endpoint.options.clone();
    owned.push(Owned { place, process, namespace, endpoint: endpoint.inner.downgrade(), options });
    Ok(endpoint)
}
