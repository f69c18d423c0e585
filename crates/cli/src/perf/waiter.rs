//! How the transports that are not ours wait: the same three ways as ours.

use super::protocol::IdleChoice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long an adaptive wait looks before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// After so long a spinning thread lets others run between looks.
const POLITE: Duration = Duration::from_micros(5);

/// The state of one wait.
pub(super) struct Waiter {
    idle: IdleChoice,
    since: Option<Instant>,
    patience: Option<Duration>,
}

impl Waiter {
    pub(super) fn new(idle: IdleChoice) -> Self {
        Self { idle, since: None, patience: None }
    }

    /// No wait for reading is longer than this.
    pub(super) fn for_at_most(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// Whether system calls do the waiting.
    pub(super) fn blocks(&self) -> bool {
        self.idle == IdleChoice::Block
    }

    /// It came: the wait is over.
    pub(super) fn done(&mut self) {
        self.since = None;
    }

    /// Returns when it is worth looking again whether there is something to read: false if it has taken too long.
    pub(super) fn readable(&mut self, socket: &impl AsFd) -> io::Result<bool> {
        self.wait(socket, PollFlags::IN, self.patience)
    }

    /// Returns when it is worth looking again whether there is room to write.
    pub(super) fn writable(&mut self, socket: &impl AsFd) -> io::Result<()> {
        self.wait(socket, PollFlags::OUT, None).map(|_| ())
    }

    fn wait(&mut self, socket: &impl AsFd, what: PollFlags, patience: Option<Duration>) -> io::Result<bool> {
        let now = Instant::now();
        let waited = now - *self.since.get_or_insert(now);
        if patience.is_some_and(|patience| waited >= patience) {
            self.since = None;
            return Ok(false);
        }
        let sleep = match self.idle {
            IdleChoice::Block => true,
            IdleChoice::Spin => false,
            IdleChoice::Adaptive => waited >= SPIN,
        };
        if sleep {
            let timeout = patience.and_then(|patience| Timespec::try_from(patience - waited).ok());
            match poll(&mut [PollFd::new(socket, what)], timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        } else if waited >= POLITE {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
        Ok(true)
    }
}
