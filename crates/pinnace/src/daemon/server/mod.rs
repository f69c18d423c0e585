//! The serving side: one loop, in one thread, that waits for nobody.
//!
//! Always true: every send and receive is non-blocking; who does not read is dropped; everything that a client can make grow
//! has a limit in [`Limits`](super::Limits).

mod address;
mod admission;
mod bridges;
mod census;
mod channels;
mod client;
mod events;
mod place;
mod requests;
mod serving;

use super::DaemonOptions;
use crate::lock::lock;
use admission::Admission;
use pinnace_qbuf::{Pool, PoolOptions};
use place::Place;
use rustix::event::EventfdFlags;
use serving::Serving;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Mutex;

/// A daemon: a pool, and the socket at which it is shared.
///
/// It serves while [`run`](Self::run) runs. When it is dropped its socket is gone; its clients go on with the pool and the
/// channels that they have.
#[derive(Debug)]
pub struct Daemon {
    place: Place,
    pool: Pool,
    stop: OwnedFd,
    serving: Mutex<Serving>,
}

impl Daemon {
    /// Makes the pool and the socket. A socket that nobody serves any more is replaced.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] with the process that serves there already; [`io::ErrorKind::PermissionDenied`] if
    /// others could replace the socket; [`io::ErrorKind::InvalidInput`] if options make no sense; what the system refuses.
    pub fn bind(options: &DaemonOptions) -> io::Result<Self> {
        options.check()?;
        let path = options.socket.clone().unwrap_or_else(super::default_path);
        let place = Place::take(&path, options.mode, options.group)?;
        raise_descriptors();
        let share_percent = options.pool.share_percent.min(options.limits.blocks_per_client_percent);
        let pool = Pool::create(&PoolOptions { share_percent, ..options.pool })?;
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let admission = Admission::new(rustix::fd::AsFd::as_fd(&place.listening), options.group)?;
        let listening = place.listening.try_clone()?;
        let serving = Serving::new(listening, stop.try_clone()?, pool.clone(), admission, options)?;
        Ok(Self { place, pool, stop, serving: Mutex::new(serving) })
    }

    /// Serves, until [`stop`](Self::stop) is called.
    ///
    /// # Errors
    /// If the system no longer lets it wait.
    pub fn run(&self) -> io::Result<()> {
        lock(&self.serving).run()
    }

    /// Ends [`run`](Self::run), from any thread; also one that has yet to begin.
    pub fn stop(&self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }

    /// Where it serves.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// The pool that it shares.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

/// Every client and every channel costs descriptors: as many as we may have.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
