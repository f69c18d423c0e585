//! What is on its way out.
//!
//! Always true: a message that was queued is sent before those that are queued after it; one that was not is given back.

use super::Connection;
use super::exchange::{Exchange, Place, Way};
use super::node::Node;
use super::port::{Call, End, Port, deadline};
use super::{Failure, Refused, Status};
use crate::endpoint::ConnectionError;
use crate::zcrp::Progress;
use crate::{Error, Message, Unsent};
use pinnace_a1::{ConnectionId, Output};
use pinnace_core::Time;
use pinnace_runtime::{WaitError, Waiting};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// How long somebody waits whose message finds no room, which it does again and again.
pub(super) struct Patience<'a> {
    full: Full,
    deadline: Option<Instant>,
    has_looked: bool,
    /// It was ended by whoever has set this.
    is_over: Option<&'a AtomicBool>,
}

impl<'a> Patience<'a> {
    pub(super) fn new(full: Full, deadline: Option<Instant>) -> Self {
        Self { full, deadline, has_looked: false, is_over: None }
    }

    /// Until then, or until somebody sets this and has everybody look again.
    pub(super) fn unless(deadline: Option<Instant>, is_over: &'a AtomicBool) -> Self {
        Self { is_over: Some(is_over), ..Self::new(Full::Block, deadline) }
    }

    fn is_over(&self) -> bool {
        self.is_over.is_some_and(|is_over| is_over.load(Ordering::SeqCst))
    }

    fn check(&self) -> Result<(), Error> {
        if self.is_over() { Err(ConnectionError::Closed.into()) } else { Ok(()) }
    }

    /// It was not queued for `error`; `full_at` is where there was no room. Returns when it is worth another attempt.
    pub(super) fn wait<R: Copy>(
        &mut self,
        port: &Port,
        error: Error,
        full_at: Option<R>,
        mut has_room: impl FnMut(&mut Exchange, R) -> Option<()>,
    ) -> Result<(), Error> {
        match (full_at, self.full) {
            (Some(room), Full::Block) => {
                let look = |state: &mut Exchange| has_room(state, room).or_else(|| self.is_over().then_some(()));
                port.wait_until(look, self.deadline)?;
                self.check()
            }
            // What has been acknowledged meanwhile makes room.
            (Some(_), Full::Report) if !std::mem::replace(&mut self.has_looked, true) => {
                port.progress()?;
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// The same, for tasks, and without a deadline.
    pub(super) async fn wait_async<R: Copy>(
        &self,
        port: &Port,
        error: Error,
        full_at: Option<R>,
        mut has_room: impl FnMut(&mut Exchange, R) -> Option<()>,
    ) -> Result<(), Error> {
        let Some(room) = full_at else { return Err(error) };
        port.wait(|state| has_room(state, room).or_else(|| self.is_over().then_some(()))).await?;
        self.check()
    }
}

/// Why a message was not queued.
pub(super) struct Unqueued<M> {
    pub(super) message: M,
    pub(super) error: Error,
    /// If the window is full: how often there had been room before.
    pub(super) full_at: Option<u64>,
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
    if let Some(copy) = call.memory.take(buffer) {
        call.memory.recycle(copy);
    }
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
        self.send_until(message.into(), false, Patience::new(full, None)).map(drop)
    }

    /// Like [`Connection::send`], waiting for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::send`], and [`Error::Timeout`].
    pub fn send_timeout(&self, message: impl Into<Message>, timeout: Duration) -> Result<(), Unsent> {
        self.send_until(message.into(), false, Patience::new(Full::Block, deadline(timeout))).map(drop)
    }

    /// Like [`Connection::send`]; what it returns tells when the message has arrived, and gives its memory back.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_tracked(&self, message: impl Into<Message>, full: Full) -> Result<Sending, Unsent> {
        let ticket = self.send_until(message.into(), true, Patience::new(full, None))?;
        Ok(self.sending(ticket))
    }

    /// The same, waiting until a deadline at most, or until `is_over` is set and [looked at](Self::look_again).
    pub(crate) fn send_unless(
        &self,
        message: Message,
        deadline: Option<Instant>,
        is_over: &AtomicBool,
    ) -> Result<Sending, Unsent> {
        let ticket = self.send_until(message, true, Patience::unless(deadline, is_over))?;
        Ok(self.sending(ticket))
    }

    /// The same, for tasks.
    pub(crate) async fn send_unless_async(&self, message: Message, is_over: &AtomicBool) -> Result<Sending, Unsent> {
        let ticket = self.send_until_async(message, true, Patience::unless(None, is_over)).await?;
        Ok(self.sending(ticket))
    }

    /// Has everybody who waits look again whether it is over.
    pub(crate) fn look_again(&self) {
        self.line.end.port.notify();
    }

    fn sending(&self, ticket: u64) -> Sending {
        Sending::new(&self.line.end, Way::One(self.line.place), ticket)
    }

    fn send_until(&self, mut message: Message, is_tracked: bool, mut patience: Patience<'_>) -> Result<u64, Unsent> {
        loop {
            let Unqueued { message: unsent, error, full_at } = match self.queue(message, is_tracked)? {
                Ok(ticket) => return Ok(ticket),
                Err(unqueued) => unqueued,
            };
            if let Err(error) = self.wait_for_room(&mut patience, error, full_at) {
                return Err(Unsent::new(unsent, error));
            }
            message = unsent;
        }
    }

    /// Like [`Connection::send`], for tasks: the future waits for room.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn send_async(&self, message: impl Into<Message>) -> Result<(), Unsent> {
        self.send_until_async(message.into(), false, Patience::new(Full::Block, None)).await.map(drop)
    }

    /// Like [`Connection::send_tracked`], for tasks: the future waits for room.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn send_tracked_async(&self, message: impl Into<Message>) -> Result<Sending, Unsent> {
        let ticket = self.send_until_async(message.into(), true, Patience::new(Full::Block, None)).await?;
        Ok(self.sending(ticket))
    }

    async fn send_until_async(
        &self,
        mut message: Message,
        is_tracked: bool,
        patience: Patience<'_>,
    ) -> Result<u64, Unsent> {
        let port = &self.line.end.port;
        loop {
            let Unqueued { message: unsent, error, full_at } = match self.queue(message, is_tracked)? {
                Ok(ticket) => return Ok(ticket),
                Err(unqueued) => unqueued,
            };
            let has_room = |state: &mut Exchange, room| self.has_room(state, room);
            if let Err(error) = patience.wait_async(port, error, full_at, has_room).await {
                return Err(Unsent::new(unsent, error));
            }
            message = unsent;
        }
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
        let line = &self.line;
        let mut patience = Patience::new(full, None);
        loop {
            match line.end.port.call(|mut call| copy(&mut call, line.place, line.id, bytes))? {
                Ok(()) => return Ok(()),
                Err(Unqueued { error, full_at, .. }) => self.wait_for_room(&mut patience, error, full_at)?,
            }
        }
    }

    /// Like [`Connection::send_copy`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn send_copy_async(&self, bytes: &[u8]) -> Result<(), Error> {
        let line = &self.line;
        loop {
            match line.end.port.call(|mut call| copy(&mut call, line.place, line.id, bytes))? {
                Ok(()) => return Ok(()),
                Err(Unqueued { full_at: Some(room), .. }) => {
                    line.end.port.wait(|state| self.has_room(state, room)).await?;
                }
                Err(Unqueued { error, .. }) => return Err(error),
            }
        }
    }

    /// Queues many messages in few calls, and waits where the window is full. All of them have been queued when it
    /// returns.
    ///
    /// # Errors
    /// The messages that were not queued, and why.
    pub fn send_all(&self, messages: Vec<Message>) -> Result<(), (Vec<Message>, Error)> {
        let (line, mut patience) = (&self.line, Patience::new(Full::Block, None));
        let mut left = messages.into_iter();
        let mut next = left.next();
        while next.is_some() {
            let many = |mut call: Call<'_>| {
                while let Some(message) = next.take().or_else(|| left.next()) {
                    if let Err(unqueued) = queue(&mut call, line.place, line.id, message, false) {
                        return Some(unqueued);
                    }
                }
                None
            };
            let refused = match line.end.port.call(many) {
                Ok(None) => break,
                Ok(Some(refused)) => refused,
                Err(error) => return Err((left.collect(), error.into())),
            };
            let Unqueued { message, error, full_at } = refused;
            if let Err(error) = self.wait_for_room(&mut patience, error, full_at) {
                return Err((std::iter::once(message).chain(left).collect(), error));
            }
            next = Some(message);
        }
        Ok(())
    }

    fn wait_for_room(&self, patience: &mut Patience<'_>, error: Error, full_at: Option<u64>) -> Result<(), Error> {
        patience.wait(&self.line.end.port, error, full_at, |state, room| self.has_room(state, room))
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
        self.line.end.port.wait_until(|state| self.flushed(state), None)?
    }

    /// Like [`Connection::flush`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::flush`], and [`Error::Timeout`].
    pub fn flush_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.line.end.port.wait_until(|state| self.flushed(state), deadline(timeout))?
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
