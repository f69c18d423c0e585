//! How messages come: from the peer of an accepted connection, or from the sinks of a socket.
//!
//! Of one peer, messages are read where they lie, so that what was not read occupies the window. Of several, whole
//! messages are taken in turn, and one that is read by parts is read to its end before the next.
//!
//! Always true: sinks that have ended are passed over as long as another lives; nobody waits longer than [`SLICE`] without
//! looking which sinks there are.

use crate::errors::Errno;
use crate::kept::lock;
use pinnace::Error;
use pinnace::a1::{Connection, Received, Recycler, Sink, Socket, Status};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// A sink that is added meanwhile is heard after so long.
const SLICE: Duration = Duration::from_millis(50);

/// What was received, and whose it is.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) memory: Vec<u8>,
    /// Bytes before it have been handed out.
    pub(super) from: usize,
    status: Status,
    source: Connection,
}

impl Message {
    fn new(received: Received, source: &Connection) -> Self {
        let Received { data, status } = received;
        Self { memory: data, from: 0, status, source: source.clone() }
    }

    /// As [`Taken::told`].
    pub(super) fn told(&self) -> Status {
        told(self.status, &self.source)
    }

    pub(super) fn recycler(&self) -> Recycler {
        self.source.recycler()
    }

    /// Copies as much as there is room for.
    fn read(&mut self, into: &mut [u8]) -> Taken {
        let rest = &self.memory[self.from..];
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        let is_all = len == rest.len();
        let keeps = |bit: Status| Status::NONE.with_if(self.status.contains(bit), bit);
        let status = keeps(Status::START) | keeps(Status::LOST);
        let status = if is_all { status | keeps(Status::END) } else { status };
        self.from += len;
        self.status = keeps(Status::END);
        Taken { len, status, source: Some(self.source.clone()) }
    }

    fn is_over(&self) -> bool {
        self.from >= self.memory.len()
    }
}

/// Bytes that were copied, and what is known of them. 0 bytes without START: the peer has closed.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) len: usize,
    pub(super) status: Status,
    source: Option<Connection>,
}

impl Taken {
    const CLOSED: Self = Self { len: 0, status: Status::PEER_CLOSED, source: None };

    /// With what is known of the connection that they came from.
    pub(super) fn told(&self) -> Status {
        self.source.as_ref().map_or(self.status, |source| told(self.status, source))
    }
}

/// The status of what was received, with what is known of its connection: but the end is told when everything was read.
fn told(status: Status, source: &Connection) -> Status {
    let now = source.status();
    let keeps = |bit: Status| Status::NONE.with_if(now.contains(bit), bit);
    let bits = [Status::WINDOW_FULL, Status::RATE_EXCEEDED, Status::QOS_PENDING, Status::QOS_CHANGED];
    bits.into_iter().fold(status, |told, bit| told | keeps(bit))
}

/// The state of receiving on a socket with sinks.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Messages that were read in part.
    begun: Mutex<VecDeque<Message>>,
    /// Whose turn it is.
    turn: AtomicUsize,
}

/// Whether there is something to read, now or never.
pub(super) fn is_receivable(connection: &Connection) -> bool {
    connection.readable().is_some() || connection.result().is_some()
}

/// Bytes from the peer of an accepted connection.
pub(super) fn read(connection: &Connection, into: &mut [u8], waits: bool) -> Result<Taken, Errno> {
    let read = if waits { connection.recv_into(into) } else { connection.try_recv_into(into) };
    Ok(taken(read?, connection))
}

fn taken((len, status): (usize, Status), connection: &Connection) -> Taken {
    let is_end = status.contains(Status::PEER_CLOSED);
    Taken { len, status, source: (!is_end).then(|| connection.clone()) }
}

/// A message from the peer of an accepted connection; `None`: it has closed.
pub(super) fn take(connection: &Connection, waits: bool) -> Result<Option<Message>, Errno> {
    let received = if waits { connection.recv() } else { connection.try_recv() };
    Ok(received?.map(|received| Message::new(received, connection)))
}

impl Inbox {
    /// Whether receiving would not wait.
    pub(super) fn is_receivable(&self, socket: &Socket) -> bool {
        let sinks = socket.sinks();
        !lock(&self.begun).is_empty()
            || sinks.iter().any(|sink| sink.readable().is_some())
            || (!sinks.is_empty() && sinks.iter().all(|sink| sink.result().is_some()))
    }

    /// Bytes of a message from any sink.
    pub(super) fn read(&self, socket: &Socket, into: &mut [u8], waits: bool) -> Result<Taken, Errno> {
        loop {
            if let Some(taken) = self.rest(into) {
                return Ok(taken);
            }
            let sinks = socket.sinks();
            let read = match &sinks[..] {
                [] => return Err(Errno(libc::ENOTCONN)),
                [sink] if waits => sink.recv_into_timeout(into, SLICE).map(|read| taken(read, sink)),
                [sink] => sink.try_recv_into(into).map(|read| taken(read, sink)),
                _ => self.any(&sinks, waits).map(|message| match message {
                    Some(message) => self.begin(message, into),
                    None => Taken::CLOSED,
                }),
            };
            match read {
                Err(Error::Timeout) if waits => {}
                read => return Ok(read?),
            }
        }
    }

    /// A message from any sink; `None`: all have closed.
    pub(super) fn take(&self, socket: &Socket, waits: bool) -> Result<Option<Message>, Errno> {
        loop {
            if let Some(message) = lock(&self.begun).pop_front() {
                return Ok(Some(message));
            }
            let sinks = socket.sinks();
            let taken = match &sinks[..] {
                [] => return Err(Errno(libc::ENOTCONN)),
                [sink] => {
                    let received = if waits { sink.recv_timeout(SLICE) } else { sink.try_recv() };
                    received.map(|received| received.map(|received| Message::new(received, sink)))
                }
                _ => self.any(&sinks, waits),
            };
            match taken {
                Err(Error::Timeout) if waits => {}
                taken => return Ok(taken?),
            }
        }
    }

    /// More of a message that was begun.
    fn rest(&self, into: &mut [u8]) -> Option<Taken> {
        let mut begun = lock(&self.begun);
        let message = begun.front_mut()?;
        let taken = message.read(into);
        if message.is_over() {
            let over = begun.pop_front();
            drop(begun);
            over.into_iter().for_each(recycle);
        }
        Some(taken)
    }

    fn begin(&self, mut message: Message, into: &mut [u8]) -> Taken {
        let taken = message.read(into);
        if message.is_over() {
            recycle(message);
        } else {
            lock(&self.begun).push_back(message);
        }
        taken
    }

    /// The next message of several sinks, in turn; `None`: all have closed. The error is that of the last that has failed,
    /// if none is left, or a time-out.
    fn any(&self, sinks: &[Sink], waits: bool) -> Result<Option<Message>, Error> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % sinks.len();
        let (before, after) = sinks.split_at(first);
        let in_turn = || after.iter().chain(before);
        let mut ends = Ends::default();
        for sink in in_turn() {
            if let Some(message) = ends.look(sink, sink.try_recv()) {
                return Ok(Some(message));
            }
        }
        if ends.living == 0 || !waits {
            return ends.result();
        }
        // Several at once: each wakes this thread, and those that are not taken are left as they are.
        let waker = Waker::from(Arc::new(Sleeper(thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut waiting: Vec<Pin<Box<_>>> = in_turn().map(|sink| Box::pin(sink.recv_async())).collect();
        for is_last in [false, true] {
            let mut ends = Ends::default();
            for (sink, waiting) in in_turn().zip(&mut waiting) {
                if sink.result().is_some() && sink.readable().is_none() {
                    continue;
                }
                match waiting.as_mut().poll(&mut context) {
                    Poll::Pending => {}
                    Poll::Ready(received) => {
                        // Whatever it is, the others are looked at anew afterwards.
                        return match ends.look(sink, received) {
                            Some(message) => Ok(Some(message)),
                            None => Err(Error::Timeout),
                        };
                    }
                }
            }
            if !is_last {
                thread::park_timeout(SLICE);
            }
        }
        Err(Error::Timeout)
    }
}

fn recycle(message: Message) {
    let recycler = message.recycler();
    recycler.recycle(message.memory);
}

/// How the sinks that had no message are.
#[derive(Debug, Default)]
struct Ends {
    living: usize,
    failure: Option<Error>,
}

impl Ends {
    fn look(&mut self, sink: &Sink, received: Result<Option<Received>, Error>) -> Option<Message> {
        match received {
            Ok(Some(received)) => return Some(Message::new(received, sink)),
            Ok(None) => {}
            Err(Error::Timeout) => self.living += 1,
            Err(error) => self.failure = Some(error),
        }
        None
    }

    fn result(self) -> Result<Option<Message>, Error> {
        match self.failure {
            _ if self.living > 0 => Err(Error::Timeout),
            Some(failure) => Err(failure),
            None => Ok(None),
        }
    }
}

/// A thread that waits for several at once.
struct Sleeper(Thread);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
