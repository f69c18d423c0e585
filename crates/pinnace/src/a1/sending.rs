//! What is on its way out.
//!
//! Always true: a message that was queued is sent before those that are queued after it; one that was not is given back.

use super::Connection;
use super::exchange::{Exchange, Lane, Way};
use super::port::{Call, End, deadline};
use super::{Failure, Refused, Status};
use crate::attempts::{Attempts, Unqueued};
use crate::zcrp::Progress;
use crate::{Error, Message, Unsent};
use pinnace_a1::Output;
use pinnace_core::BufferId;
use pinnace_runtime::{WaitError, Waiting};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
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

/// Why a message was not queued; if there was no room, where, and how often there had been some.
pub(super) type Unsendable<M> = Unqueued<M, (Way, u64)>;

/// What a refusal of the engine means to the sender of a message.
fn unqueued<M>(call: &mut Call<'_>, way: Way, message: M, refused: Refused) -> Unsendable<M> {
    let error = match (refused, way) {
        (Refused::Full, _) => Error::WindowFull(status_of(call, way)),
        // What has happened says more than that it is over.
        (Refused::NoConnection, Way::One(place, _)) => {
            let failure = call.state.association(place).and_then(|association| association.failure());
            failure.map_or(Error::CallRefused(refused), Error::ConnectionFailed)
        }
        _ => Error::CallRefused(refused),
    };
    let room = call.state.lane(way).map_or(0, |lane| lane.room);
    Unqueued { message, error, full_at: (refused == Refused::Full).then_some((way, room)) }
}

/// The status as it is, without telling the application of it; of many, what any of them says.
fn status_of(call: &Call<'_>, way: Way) -> Status {
    let status = |id| call.engine.facts(call.now, id).map_or(Status::NONE, |facts| facts.status);
    match way {
        Way::One(_, id) => status(id),
        Way::Many(cast) => call.engine.sinks(cast).into_iter().map(status).reduce(|a, b| a | b).unwrap_or_default(),
    }
}

/// Hands the engine a message; returns its ticket, and where what is under way is kept.
fn send<'a>(call: &'a mut Call<'_>, way: Way, buffer: BufferId, len: usize) -> Result<(u64, &'a mut Lane), Refused> {
    let output = Output::new(buffer, len as u64);
    let ticket = match way {
        Way::One(_, id) => call.engine.send(call.now, id, output),
        Way::Many(cast) => call.engine.cast_send(call.now, cast, output),
    }?;
    call.state.lane(way).map(|lane| (ticket, lane)).ok_or(Refused::NoConnection)
}

/// Queues a message to a connection, or a set of sinks, that is here. Returns its ticket.
pub(super) fn queue(
    call: &mut Call<'_>,
    way: Way,
    mut message: Message,
    is_tracked: bool,
    attempts: Attempts<'_>,
) -> Result<u64, Unsendable<Message>> {
    if let Err(error) = attempts.check() {
        return Err(Unqueued { message, error, full_at: None });
    }
    let len = message.len();
    // SAFETY: the message moves into its lane, which keeps it, untouched, until the event that takes the buffer out of the
    // table again.
    let buffer = unsafe { message.lend(call.memory) };
    match send(call, way, buffer, len) {
        Ok((ticket, lane)) => {
            lane.lend(ticket, message, is_tracked);
            Ok(ticket)
        }
        Err(refused) => {
            call.memory.remove(buffer);
            Err(unqueued(call, way, message, refused))
        }
    }
}

/// Queues a copy, in storage of the socket's. It is not made before it is known that it can be sent: it may be large, and
/// others wait meanwhile.
pub(super) fn copy(call: &mut Call<'_>, way: Way, bytes: &[u8]) -> Result<(), Unsendable<()>> {
    let may_be_sent = match way {
        Way::One(_, id) => call.engine.check_send(id, bytes.len() as u64),
        Way::Many(cast) => call.engine.check_cast_send(cast, bytes.len() as u64),
    };
    if let Err(refused) = may_be_sent {
        return Err(unqueued(call, way, (), refused));
    }
    let Some(buffer) = call.memory.allocate_copy(bytes) else {
        let error = Error::io("cannot copy bytes", io::ErrorKind::OutOfMemory.into());
        return Err(Unqueued { message: (), error, full_at: None });
    };
    match send(call, way, buffer, bytes.len()) {
        Ok((_, lane)) => {
            lane.copy();
            Ok(())
        }
        Err(refused) => {
            call.memory.give_back(buffer);
            Err(unqueued(call, way, (), refused))
        }
    }
}

/// Whether there may be room again.
pub(super) fn has_room(state: &mut Exchange, (way, room): (Way, u64)) -> Option<()> {
    let is_closed = match way {
        Way::One(place, _) => state.association(place).is_some_and(|association| association.closed.is_some()),
        Way::Many(_) => false,
    };
    (is_closed || state.lane(way).is_none_or(|lane| lane.room != room)).then_some(())
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

    /// The same, with other attempts.
    pub(crate) fn send_attempting(&self, message: Message, attempts: Attempts<'_>) -> Result<Sending, Unsent> {
        let ticket = self.send_until(message, true, attempts)?;
        Ok(self.sending(ticket))
    }

    /// The same, for tasks.
    pub(crate) async fn send_attempting_async(
        &self,
        message: Message,
        attempts: Attempts<'_>,
    ) -> Result<Sending, Unsent> {
        let ticket = self.send_until_async(message, true, attempts).await?;
        Ok(self.sending(ticket))
    }

    /// Has everybody who waits look again whether it is over. Behind this nothing is queued unless it was set.
    pub(crate) fn look_again(&self) {
        self.line.end.port.notify();
    }

    fn sending(&self, ticket: u64) -> Sending {
        Sending::new(&self.line.end, self.way(), ticket)
    }

    pub(crate) fn send_until(&self, message: Message, is_tracked: bool, attempts: Attempts<'_>) -> Result<u64, Unsent> {
        attempts.queue(&self.line.about(), message, |message| self.queue(message, is_tracked, attempts), has_room)
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
            .queue_async(&self.line.about(), message, |message| self.queue(message, is_tracked, attempts), has_room)
            .await
    }

    fn way(&self) -> Way {
        Way::One(self.line.place, self.line.id)
    }

    fn queue(
        &self,
        message: Message,
        is_tracked: bool,
        attempts: Attempts<'_>,
    ) -> Result<Result<u64, Unsendable<Message>>, Unsent> {
        let queued = self.line.end.port.call(|mut call| queue(&mut call, self.way(), message, is_tracked, attempts));
        queued.map_err(|error| Unsent::new(None, error))
    }

    /// Queues a copy of `bytes`, in memory that the socket uses again and again: for messages that are small, or whose
    /// memory is needed at once. Otherwise as [`Connection::send`].
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_copy(&self, bytes: &[u8], full: Full) -> Result<(), Error> {
        Attempts::from(full).queue(&self.line.about(), (), |()| self.queue_copy(bytes), has_room)
    }

    /// Like [`Connection::send_copy`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn send_copy_async(&self, bytes: &[u8]) -> Result<(), Error> {
        Attempts::Until(None).queue_async(&self.line.about(), (), |()| self.queue_copy(bytes), has_room).await
    }

    fn queue_copy(&self, bytes: &[u8]) -> Result<Result<(), Unsendable<()>>, Error> {
        Ok(self.line.end.port.call(|mut call| copy(&mut call, self.way(), bytes))?)
    }

    /// Queues many messages in few calls, and waits where the window is full. All of them have been queued when it
    /// returns.
    ///
    /// # Errors
    /// The messages that were not queued, and why.
    pub fn send_all(&self, messages: Vec<Message>) -> Result<(), (Vec<Message>, Error)> {
        let attempts = Attempts::Until(None);
        let queue = |call: &mut Call<'_>, message| queue(call, self.way(), message, false, attempts).map(drop);
        attempts.queue_all(&self.line.about(), messages, queue, has_room)
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
        self.line.about().wait_until(|state| self.flushed(state), deadline)?
    }

    /// Like [`Connection::flush`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::flush`].
    pub async fn flush_async(&self) -> Result<(), Error> {
        self.line.about().wait(|state| self.flushed(state)).await?
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
        match end.port.about(way.topic()).wait_until(|state| taken(state, way, ticket), deadline) {
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
        Way::One(place, _) => {
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
        let polled = end.port.about(way.topic()).poll_wait(context, waiting, |state| taken(state, way, ticket));
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
