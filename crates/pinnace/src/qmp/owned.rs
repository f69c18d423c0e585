//! Endpoints that only one process can have: protocol 36 on an address, Ethernet on an interface. All sockets of the process
//! share them.

use super::{Endpoint, Options};
use crate::lock::lock;
use crate::xtp::qmp::WeakEndpoint;
use pinnace_runtime::OfProcess;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, thread};

/// What is owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Protocol 36 on an address of this host, at no port.
    Host(SocketAddr),
    /// Ethernet on an interface.
    Interface(String),
}

/// An endpoint that somebody uses or has used, and who can use it: another network namespace cannot.
#[derive(Debug)]
struct Owned {
    place: Place,
    /// Of the thread that made it.
    namespace: u64,
    endpoint: WeakEndpoint,
    options: Arc<Options>,
}

/// A child process can use none of its parent's.
static OWNED: OfProcess<Mutex<Vec<Owned>>> = OfProcess::new();

/// How long an endpoint may take to end whose last handle is gone.
const ENDING: Duration = Duration::from_secs(3);

/// The network namespace of the calling thread; 0 if the system does not say.
fn namespace() -> u64 {
    std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |file| file.ino())
}

/// The endpoint of this process at `place`, or the one that `make` makes. `None`: everybody has one of their own.
pub(super) fn get(place: Option<Place>, make: impl Fn() -> io::Result<Endpoint>) -> io::Result<Endpoint> {
    let Some(place) = place else { return make() };
    let namespace = namespace();
    let is_it = |it: &Owned| it.place == place && it.namespace == namespace;
    let mut owned = lock(OWNED.get());
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
    owned.push(Owned { place, namespace, endpoint: endpoint.inner.downgrade(), options });
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_waits_for_no_thread_of_its_parent() {
        // As if a thread had it at the fork, of which the child has no copy.
        let held = lock(OWNED.get());
        // SAFETY: the child uses nothing of other threads but memory, which the C library makes usable in it, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let place = Some(Place::Interface("none".to_owned()));
            let is_refused = get(place, || Err(io::ErrorKind::NotFound.into())).is_err();
            // SAFETY: ends the child, which is this function's own, at once.
            unsafe { libc::_exit(if is_refused { 0 } else { 1 }) };
        }
        drop(held);
        let (begin, mut status) = (Instant::now(), -1);
        // SAFETY: the child is this test's own, and the pointer that of `status`.
        while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
            if begin.elapsed() > Duration::from_secs(10) {
                // SAFETY: as above.
                unsafe { libc::kill(child, libc::SIGKILL) };
            }
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(status, 0, "it was answered");
    }
}
