//! What is on its way out.
//!
//! Always true: a message that was queued is sent before those that are queued after it; one that was not is given back.

use super::Connection;
use super::exchange::{Exchange, Way};
use super::node::Node;
use super::port::{Call, End, deadline};
use super::{Failure, Refused, Status};
use crate::attempts::{Attempts, Unqueued};
use crate::places::Place;
use crate::zcrp::Progress;
use crate::{Error, Message, Unsent};
use pinnace_a1::{ConnectionId, Output};
use pinnace_core::Time;
use pinnace_runtime::{WaitError, Waiting};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// What to do when the window is full.
//= A-16
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Full {
    /// Wait until there is room.
    #[default]
    Block,
    /// Return [`Error::WindowFull`] at once.
    Report,
}

impl From<Full> for Attempts<'_> {
    fn from(full: Full) -> Self {
        match full {
            Full::Block => Self::Until(None),
            Full::Report => Self::AtOnce,
        }
    }
}

/// What a refusal of the engine means to the sender of a message.
fn unqueued<M>(call: &mut Call<'_>, place: Place, id: ConnectionId, message: M, refused: Refused) -> Unqueued<M> {
    let association = call.state.association(place);
    let failure = association.as_ref().and_then(|association| association.failure());
    let room = association.map_or(0, |association| association.lane.room);
    let (error, full_at) = match (refused, failure) {
        (Refused::Full, _) => (Error::WindowFull(status_of(call.engine, call.now, id)), Some(room)),
        // What has happened says more than that it is over.
        (Refused::NoConnection, Some(failure)) => (Error::ConnectionFailed(failure), None),
        _ => (Error::CallRefused(refused), None),
    };
    Unqueued { message, error, full_at }
}

/// The status as it is, without telling the application of it.
pub(super) fn status_of(engine: &Node, now: Time, id: ConnectionId) -> Status {
    engine.facts(now, id).map_or(Status::NONE, |facts| facts.status)
}

/// Queues a message of a connection that is here. Returns its ticket.
pub(super) fn queue(
    call: &mut Call<'_>,
    place: Place,
    id: ConnectionId,
    mut message: Message,
    is_tracked: bool,
) -> Result<u64, Unqueued<Message>> {
    let len = message.len();
    // SAFETY: the message moves into the association's lane, which keeps it, untouched, until the event that takes the
    // buffer out of the table again.
    let buffer = unsafe { message.lend(call.memory) };
    let refused = match (call.engine.send(call.now, id, Output::new(buffer, len as u64)), call.state.association(place))
    {
        (Ok(ticket), Some(association)) => {
            association.lane.lend(ticket, message, is_tracked);
            return Ok(ticket);
        }
        (Ok(_), None) => Refused::NoConnection,
        (Err(refused), _) => refused,
    };
    call.memory.remove(buffer);
    Err(unqueued(call, place, id, message, refused))
}

/// Queues a copy, in storage of the socket's.
fn copy(call: &mut Call<'_>, place: Place, id: ConnectionId, bytes: &[u8]) -> Result<(), Unqueued<()>> {
    let Some(buffer) = call.memory.allocate_copy(bytes) else {
        let error = Error::io("cannot copy bytes", io::ErrorKind::OutOfMemory.into());
        return Err(Unqueued { message: (), error, full_at: None });
    };
    let output = Output::new(buffer, bytes.len() as u64);
    let refused = match (call.engine.send(call.now, id, output), call.state.association(place)) {
        (Ok(_), Some(association)) => {
            association.lane.copy();
            return Ok(());
        }
        (Ok(_), None) => Refused::NoConnection,
        (Err(refused), _) => refused,
    };
    call.memory.give_back(buffer);
    Err(unqueued(call, place, id, (), refused))
}

impl Connection {
    /// Queues a message (its first [`Message::len`] bytes, which are not copied), and lets it go on by itself; its memory
    /// is freed when it has arrived, which [`Connection::flush`] waits for. If the window is full ([`Full::Block`]) waits
    /// until there is room.
    ///
    /// # Errors
    /// [`Unsent`] gives the message back, with the reason: [`Error::WindowFull`] ([`Full::Report`]),
    /// [`Refused::TooLarge`], or the connection has ended.
    //= A-2, A-16
    pub fn send(&self, message: impl Into<Message>, full: Full) -> Result<(), Unsent> {
        self.send_until(message.into(), false, full.into()).map(drop)
    }

    /// Like [`Connection::send`], waiting for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::send`], and [`Error::Timeout`].
    pub fn send_timeout(&self, message: impl Into<Message>, timeout: Duration) -> Result<(), Unsent> {
        self.send_until(message.into(), false, Attempts::Until(deadline(timeout))).map(drop)
    }

    /// Like [`Connection::send`]; what it returns tells when the message has arrived, and gives its memory back.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_tracked(&self, message: impl Into<Message>, full: Full) -> Result<Sending, Unsent> {
        let ticket = self.send_until(message.into(), true, full.into())?;
        Ok(self.sending(ticket))
    }

    /// The same, waiting until a deadline at most, or until `is_over` is set and [looked at](Self::look_again).
    pub(crate) fn send_unless(
        &self,
        message: Message,
        deadline: Option<Instant>,
        is_over: &AtomicBool,
    ) -> Result<Sending, Unsent> {
        let ticket = self.send_until(message, true, Attempts::Unless(deadline, is_over))?;
        Ok(self.sending(ticket))
    }

    /// The same, for tasks.
    pub(crate) async fn send_unless_async(&self, message: Message, is_over: &AtomicBool) -> Result<Sending, Unsent> {
        let ticket = self.send_until_async(message, true, Attempts::Unless(None, is_over)).await?;
        Ok(self.sending(ticket))
    }

    /// Has everybody who waits look again whether it is over.
    pub(crate) fn look_again(&self) {
        self.line.end.port.notify();
    }

    fn sending(&self, ticket: u64) -> Sending {
        Sending::new(&self.line.end, Way::One(self.line.place), ticket)
    }

    pub(crate) fn send_until(&self, message: Message, is_tracked: bool, attempts: Attempts<'_>) -> Result<u64, Unsent> {
        attempts.queue(
            &self.line.end.port,
            message,
            |message| self.queue(message, is_tracked),
            |state, room| self.has_room(state, room),
        )
    }

    /// Like [`Connection::send`], for tasks: the future waits for room.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn send_async(&self, message: impl Into<Message>) -> Result<(), Unsent> {
        self.send_until_async(message.into(), false, Attempts::Until(None)).await.map(drop)
    }

    /// Like [`Connection::send_tracked`], for tasks: the future waits for room.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn send_tracked_async(&self, message: impl Into<Message>) -> Result<Sending, Unsent> {
        let ticket = self.send_until_async(message.into(), true, Attempts::Until(None)).await?;
        Ok(self.sending(ticket))
    }

    async fn send_until_async(
        &self,
        message: Message,
        is_tracked: bool,
        attempts: Attempts<'_>,
    ) -> Result<u64, Unsent> {
        attempts
            .queue_async(
                &self.line.end.port,
                message,
                |message| self.queue(message, is_tracked),
                |state, room| self.has_room(state, room),
            )
            .await
    }

    fn queue(&self, message: Message, is_tracked: bool) -> Result<Result<u64, Unqueued<Message>>, Unsent> {
        let line = &self.line;
        line.end
            .port
            .call(|mut call| queue(&mut call, line.place, line.id, message, is_tracked))
            .map_err(|error| Unsent::new(None, error))
    }

    /// Queues a copy of `bytes`, in memory that the socket uses again and again: for messages that are small, or whose
    /// memory is needed at once. Otherwise as [`Connection::send`].
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_copy(&self, bytes: &[u8], full: Full) -> Result<(), Error> {
        Attempts::from(full).queue(
            &self.line.end.port,
            (),
            |()| self.queue_copy(bytes),
            |state, room| self.has_room(state, room),
        )
    }

    /// Like [`Connection::send_copy`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn send_copy_async(&self, bytes: &[u8]) -> Result<(), Error> {
        Attempts::Until(None)
            .queue_async(&self.line.end.port, (), |()| self.queue_copy(bytes), |state, room| self.has_room(state, room))
            .await
    }

    fn queue_copy(&self, bytes: &[u8]) -> Result<Result<(), Unqueued<()>>, Error> {
        let line = &self.line;
        Ok(line.end.port.call(|mut call| copy(&mut call, line.place, line.id, bytes))?)
    }

    /// Queues many messages in few calls, and waits where the window is full. All of them have been queued when it
    /// returns.
    ///
    /// # Errors
    /// The messages that were not queued, and why.
    pub fn send_all(&self, messages: Vec<Message>) -> Result<(), (Vec<Message>, Error)> {
        let line = &self.line;
        let queue = |call: &mut Call<'_>, message| queue(call, line.place, line.id, message, false).map(drop);
        let has_room = |state: &mut Exchange, room| self.has_room(state, room);
        Attempts::Until(None).queue_all(&line.end.port, messages, queue, has_room)
    }

    fn has_room(&self, state: &mut Exchange, room: u64) -> Option<()> {
        state
            .association(self.line.place)
            .is_none_or(|association| association.lane.room != room || association.closed.is_some())
            .then_some(())
    }

    /// Waits until everything that was queued has arrived (without retransmission: has left).
    ///
    /// # Errors
    /// [`Error::ConnectionFailed`] if something did not.
    pub fn flush(&self) -> Result<(), Error> {
        self.flush_until(None)
    }

    /// Like [`Connection::flush`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::flush`], and [`Error::Timeout`].
    pub fn flush_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.flush_until(deadline(timeout))
    }

    pub(crate) fn flush_until(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.line.end.port.wait_until(|state| self.flushed(state), deadline)?
    }

    /// Like [`Connection::flush`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::flush`].
    pub async fn flush_async(&self) -> Result<(), Error> {
        self.line.end.port.wait(|state| self.flushed(state)).await?
    }

    fn flushed(&self, state: &mut Exchange) -> Option<Result<(), Error>> {
        let association = state.association(self.line.place)?;
        if !association.lane.is_quiet() && association.closed.is_none() {
            return None;
        }
        Some(match association.failure() {
            _ if association.lane.undelivered() == 0 => Ok(()),
            Some(failure) => Err(Error::ConnectionFailed(failure)),
            // Too old, or the peer has closed.
            None => Err(Error::CallRefused(Refused::NoConnection)),
        })
    }
}

/// A message on its way out. Dropping it lets the message go on, and its memory be freed at the end.
#[derive(Debug)]
pub struct Sending {
    end: Option<Arc<End>>,
    way: Way,
    ticket: u64,
    waiting: Waiting,
}

impl Sending {
    pub(super) fn new(end: &Arc<End>, way: Way, ticket: u64) -> Self {
        Self { end: Some(Arc::clone(end)), way, ticket, waiting: Waiting::default() }
    }

    /// Waits until the peer has acknowledged the message (without retransmission: until it has left), and returns it. The
    /// waiting thread does the work.
    ///
    /// # Errors
    /// [`Unsent`], with the message, if it did not arrive, and why.
    pub fn wait(self) -> Result<Message, Unsent> {
        match self.wait_until(None) {
            Progress::Ended(result) => result,
            Progress::UnderWay(_) => Err(Unsent::new(None, Error::Timeout)),
        }
    }

    /// Like [`Sending::wait`], for at most `timeout`; gives itself back if that is not enough.
    pub fn wait_timeout(self, timeout: Duration) -> Progress<Self, Result<Message, Unsent>> {
        self.wait_until(deadline(timeout))
    }

    fn wait_until(mut self, deadline: Option<Instant>) -> Progress<Self, Result<Message, Unsent>> {
        let (way, ticket) = (self.way, self.ticket);
        let Some(end) = self.end.take() else { return Progress::Ended(Err(Unsent::new(None, Error::Timeout))) };
        match end.port.wait_until(|state| taken(state, way, ticket), deadline) {
            Ok(outcome) => Progress::Ended(finish(outcome)),
            Err(WaitError::Timeout) => {
                self.end = Some(end);
                Progress::UnderWay(self)
            }
            Err(error) => Progress::Ended(Err(Unsent::new(None, error))),
        }
    }
}

/// A message, and how it has ended.
type Outcome = (Message, Result<(), Error>);

fn taken(state: &mut Exchange, way: Way, ticket: u64) -> Option<Outcome> {
    let (message, is_delivered) = state.lane(way)?.take(ticket)?;
    let result = match way {
        _ if is_delivered => Ok(()),
        Way::One(place) => {
            let ended = state.association(place).and_then(|association| association.ended());
            Err(Error::ConnectionFailed(match ended {
                Some(Err(failure)) => failure,
                // We end well only when everything is acknowledged: the peer has closed before it had this.
                Some(Ok(())) => Failure::AbortedByPeer,
                None => Failure::Aborted,
            }))
        }
        Way::Many(_) => {
            let why = io::Error::new(io::ErrorKind::NotConnected, "none of them has it, and none is left");
            Err(Error::io("cannot send to the sinks", why))
        }
    };
    state.tidy_way(way);
    Some((message, result))
}

fn finish((message, result): Outcome) -> Result<Message, Unsent> {
    match result {
        Ok(()) => Ok(message),
        Err(error) => Err(Unsent::new(message, error)),
    }
}

impl Future for Sending {
    type Output = Result<Message, Unsent>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (way, ticket) = (self.way, self.ticket);
        let Self { end, waiting, .. } = &mut *self;
        let Some(end) = end else { return Poll::Ready(Err(Unsent::new(None, Error::Timeout))) };
        let polled = end.port.poll_wait(context, waiting, |state| taken(state, way, ticket));
        let Poll::Ready(outcome) = polled else { return Poll::Pending };
        self.end = None;
        Poll::Ready(match outcome {
            Ok(outcome) => finish(outcome),
            Err(error) => Err(Unsent::new(None, error)),
        })
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end.port.inspect(|_, _, state| {
                if let Some(lane) = state.lane(self.way) {
                    lane.abandon(self.ticket);
                }
                state.tidy_way(self.way);
            });
        }
    }
}
