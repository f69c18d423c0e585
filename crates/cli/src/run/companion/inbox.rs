//! What a pump is told by others.
//!
//! Always true: what is told to a pump that is known ([`Endpoints`](super::endpoints::Endpoints)) is done.

use super::Busy;
use super::carried::Carried;
use super::pair::{Control, Family};
use pinnace::qmp::{Endpoint, Listener, WakeFd};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a pump is to do.
#[derive(Debug)]
pub(super) enum Command {
    Open(Open),
    Listen(Listen),
    /// A stream that it has accepted, and that waited to be handed over. `None`: nobody wanted it.
    Carry(Option<Box<Carried>>),
    /// Nobody is left who could want it: say the last words, once its streams have ended.
    End(#[expect(dead_code, reason = "it counts as long as it lives")] Busy),
}

/// Open a stream, and give it to whoever asked.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) control: Arc<Control>,
    pub(super) family: Family,
    pub(super) to: SocketAddr,
    /// How long an answer is waited for.
    pub(super) patience: Duration,
    pub(super) busy: Busy,
}

/// Accept streams, and hand them over, as long as whoever asked is there.
#[derive(Debug)]
pub(super) struct Listen {
    pub(super) listener: Listener,
    pub(super) control: Arc<Control>,
    pub(super) family: Family,
    /// The abstract name that they are handed over at.
    pub(super) name: String,
    pub(super) _busy: Busy,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) endpoint: Endpoint,
    commands: Mutex<Vec<Command>>,
    /// Readable when there are some.
    pub(super) wake: WakeFd,
}

impl Inbox {
    pub(super) fn new(endpoint: Endpoint) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { endpoint, commands: Mutex::default(), wake: WakeFd::new()? }))
    }

    fn commands(&self) -> MutexGuard<'_, Vec<Command>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, command: Command) {
        self.commands().push(command);
        self.wake.signal();
    }

    pub(super) fn take(&self) -> Vec<Command> {
        self.wake.clear();
        std::mem::take(&mut *self.commands())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commands().is_empty()
    }
}
