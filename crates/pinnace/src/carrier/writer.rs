//! Messages written to a channel of shared memory, each behind its length.
//!
//! Always true: one message is written at a time, and whole: if a message that must not wait, or no longer, has begun and
//! there is no more room, a thread of the library goes on with it, and the others wait for their turn.

use super::Sending;
use super::alarm::within;
use super::later::Later;
use super::turn::{Held, Turn};
use crate::endpoint::ConnectionError;
use crate::qmp::{End, Stream};
use crate::service::Method;
use crate::{Error, Message, Unsent};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of the length.
pub(super) const HEAD_BYTES: usize = 8;
/// A message up to here is copied behind its length: that is cheaper than two pieces.
pub(super) const MOST_COPIED: usize = 4 << 10;
/// Whoever waits looks so often whether the connection is closed, or was given up.
const LOOK: Duration = Duration::from_millis(100);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Writer {
    stream: Arc<Stream>,
    turn: Turn<()>,
    /// Nothing more begins to be written.
    is_closing: AtomicBool,
    /// Nobody has the connection any more.
    is_over: AtomicBool,
}

/// What a message has come to that found room.
enum Begun {
    Done(Message),
    /// Up to here; the length counts.
    Until(Message, usize),
    /// It has not begun.
    Full(Message),
}

impl Writer {
    pub(super) fn new(stream: Arc<Stream>) -> Arc<Self> {
        let no = || AtomicBool::new(false);
        Arc::new(Self { stream, turn: Turn::new(()), is_closing: no(), is_over: no() })
    }

    /// Writes from `at` on, until `write` has no room. Returns where it has come to.
    fn write_from(
        message: &Message,
        mut at: usize,
        mut write: impl FnMut(&[u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<usize> {
        let (head, end) = ((message.len() as u64).to_le_bytes(), HEAD_BYTES + message.len());
        while at < end {
            let taken = if at == 0 && message.len() <= MOST_COPIED {
                let mut both = [0; HEAD_BYTES + MOST_COPIED];
                both[..HEAD_BYTES].copy_from_slice(&head);
                both[HEAD_BYTES..end].copy_from_slice(message);
                write(&both[..end])?
            } else if at < HEAD_BYTES {
                write(&head[at..])?
            } else {
                write(message.rest_of_part(at - HEAD_BYTES))?
            };
            let Some(taken) = taken else { break };
            at += taken;
        }
        Ok(at)
    }

    /// Why a write has failed.
    fn lost(&self, error: io::Error) -> Error {
        // Then it is nobody else's doing.
        if self.is_over.load(Ordering::Relaxed) { ConnectionError::Closed.into() } else { gone(&self.stream, error) }
    }

    /// Waits for its turn, and for room, until the deadline.
    pub(super) fn send(self: &Arc<Self>, message: Message, deadline: Option<Instant>) -> Result<Sending, Unsent> {
        let mut message = message;
        loop {
            if self.is_closing.load(Ordering::Relaxed) {
                return Err(Unsent::new(message, ConnectionError::Closed));
            }
            let now = Instant::now();
            let until = deadline.map_or(now + LOOK, |deadline| deadline.min(now + LOOK));
            // Whoever has the turn waits for room.
            if let Some(turn) = self.turn.take(Some(until)) {
                message = match (self.begin(message, until)?, deadline) {
                    (Begun::Done(message), _) => return Ok(Sending::Done(message)),
                    (Begun::Full(message), _) => message,
                    (Begun::Until(message, at), None) => return self.write_rest(message, at),
                    (Begun::Until(message, at), Some(deadline)) => {
                        return self.write_until(message, at, turn, deadline);
                    }
                };
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(Unsent::new(message, Error::Timeout));
            }
        }
    }

    /// Whoever sends waits for the rest of a message that has begun: it ends, or the stream does.
    fn write_rest(&self, message: Message, at: usize) -> Result<Sending, Unsent> {
        match Self::write_from(&message, at, |bytes| self.stream.write(bytes).map(Some)) {
            Ok(_) => Ok(Sending::Done(message)),
            Err(error) => Err(Unsent::new(message, self.lost(error))),
        }
    }

    /// Whoever sends waits until then, and a thread goes on.
    fn write_until(
        self: &Arc<Self>,
        message: Message,
        at: usize,
        turn: Held<'_, ()>,
        deadline: Instant,
    ) -> Result<Sending, Unsent> {
        match Self::write_from(&message, at, |bytes| self.stream.write_until(bytes, deadline)) {
            Ok(at) if at == HEAD_BYTES + message.len() => Ok(Sending::Done(message)),
            Ok(at) => Ok(self.write_later(message, at, turn)),
            Err(error) => Err(Unsent::new(message, self.lost(error))),
        }
    }

    /// What there is room for until then.
    fn begin(&self, message: Message, deadline: Instant) -> Result<Begun, Unsent> {
        match Self::write_from(&message, 0, |bytes| self.stream.write_until(bytes, deadline)) {
            Ok(0) => Ok(Begun::Full(message)),
            Ok(at) if at == HEAD_BYTES + message.len() => Ok(Begun::Done(message)),
            Ok(at) => Ok(Begun::Until(message, at)),
            Err(error) => Err(Unsent::new(message, self.lost(error))),
        }
    }

    /// The inner error: there was no room until then.
    fn begin_until(self: &Arc<Self>, message: Message, deadline: Instant) -> Result<Result<Sending, Message>, Unsent> {
        // Whoever has the turn waits for room.
        let Some(turn) = self.turn.take(Some(deadline)) else { return Ok(Err(message)) };
        match self.begin(message, deadline)? {
            Begun::Done(message) => Ok(Ok(Sending::Done(message))),
            Begun::Full(message) => Ok(Err(message)),
            Begun::Until(message, at) => Ok(Ok(self.write_later(message, at, turn))),
        }
    }

    /// A thread goes on with a message that has begun.
    fn write_later(self: &Arc<Self>, message: Message, at: usize, turn: Held<'_, ()>) -> Sending {
        let later = Arc::new(Later::new(message));
        let (this, its, turn) = (Arc::clone(self), Arc::clone(&later), turn.detach().unwrap_or_default());
        let go_on = move || {
            let _turn = this.turn.hold(turn);
            this.go_on(&its, at);
        };
        match std::thread::Builder::new().name("pinnace-write".into()).spawn(go_on) {
            Ok(_) => {}
            // What has begun ends; otherwise the stream would.
            Err(_) => {
                let _turn = self.turn.hold(Box::new(()));
                self.go_on(&later, at);
            }
        }
        Sending::Later(later)
    }

    fn go_on(&self, later: &Later, at: usize) {
        let Some(message) = later.take() else { return };
        let write = |bytes: &[u8]| loop {
            if self.is_over.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if let Some(taken) = self.stream.write_until(bytes, Instant::now() + LOOK)? {
                return Ok(Some(taken));
            }
        };
        let result = Self::write_from(&message, at, write).map(drop).map_err(|error| self.lost(error));
        later.end(message, result);
    }

    /// Does not wait.
    pub(super) fn try_send(self: &Arc<Self>, message: Message) -> Result<Sending, Unsent> {
        let full = ConnectionError::Full { method: Method::SharedMemory };
        self.begin_until(message, Instant::now())?.map_err(|message| Unsent::new(message, full))
    }

    /// As a task.
    pub(super) async fn send_async(self: &Arc<Self>, mut message: Message) -> Result<Sending, Unsent> {
        loop {
            if self.is_closing.load(Ordering::Relaxed) {
                return Err(Unsent::new(message, ConnectionError::Closed));
            }
            message = match self.begin_until(message, Instant::now())? {
                Ok(sending) => return Ok(sending),
                Err(message) => message,
            };
            // Somebody may write: then there is room in the end, but not for us.
            drop(within(Instant::now() + LOOK, self.turn.take_async()).await);
            self.stream.writable().await;
        }
    }

    /// Waits until nothing is written any more.
    pub(super) fn flush(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.turn.take(deadline).map(drop).ok_or(Error::Timeout)
    }

    /// The same, for tasks.
    pub(super) async fn flush_async(&self) {
        drop(self.turn.take_async().await);
    }

    /// The end is written behind everything else.
    pub(super) fn finish(&self, deadline: Option<Instant>) -> Result<(), Error> {
        let _turn = self.turn.take(deadline).ok_or(Error::Timeout)?;
        let is_told = self.stream.finish_until(deadline);
        if self.is_over.load(Ordering::Relaxed) {
            return Err(ConnectionError::Closed.into());
        }
        if is_told { Ok(()) } else { Err(Error::Timeout) }
    }

    /// Nothing more is to be written behind what has begun.
    pub(super) fn stop(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Nobody has the connection any more: what is being written is given up.
    pub(super) fn give_up(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Why there is nobody to write to, or nothing more to read, in the light of how the peer has ended what it sends: a write
/// alone finds out only that nobody reads.
pub(super) fn gone(stream: &Stream, error: io::Error) -> Error {
    let method = Method::SharedMemory;
    let is_of_peer = matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
    match stream.peer_end().filter(|_| is_of_peer) {
        Some(end) => ended(end),
        None => ConnectionError::Lost { method, source: error }.into(),
    }
}

/// What to say of a peer that reads no more, and has ended so what it sends.
pub(super) fn ended(end: End) -> Error {
    let method = Method::SharedMemory;
    match end {
        End::InOrder => ConnectionError::Left { method }.into(),
        End::Reset => ConnectionError::BrokenOff { method }.into(),
        End::Died => dead().into(),
    }
}

/// The same of one that was killed.
pub(crate) fn dead() -> ConnectionError {
    let source = io::Error::new(io::ErrorKind::TimedOut, "the peer's process is dead");
    ConnectionError::Lost { method: Method::SharedMemory, source }
}
