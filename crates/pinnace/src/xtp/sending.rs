//! What is on its way out.
//!
//! Always true: a message that was queued either came whole to the peer, or its sender is told why not.

use super::Failure;
use super::exchange::Exchange;
use super::port::{Call, End, deadline};
use crate::attempts::Unqueued;
use crate::places::{Place, topic};
use crate::zcrp::Progress;
use crate::{Error, Message, Unsent};
use pinnace_runtime::{WaitError, Waiting};
use pinnace_xtp::{ContextId, Output, Refused};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// How a message, or a piece of one, is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendOptions {
    /// A message ends behind these bytes (EOM).
    pub eom: bool,
    /// Eight bytes of the user's, told with the message that begins here (BTAG).
    pub btag: Option<[u8; 8]>,
    /// The last packet asks for a status (SREQ). The machine asks by itself often enough, unless
    /// [`ControlBlock::sreq_every`](super::ControlBlock::sreq_every) is 0.
    pub sreq: bool,
    /// The last packet asks for a status when the peer's application has taken the bytes (DREQ).
    pub dreq: bool,
}

impl SendOptions {
    /// A whole message.
    pub const MESSAGE: Self = Self { eom: true, btag: None, sreq: false, dreq: false };
    /// Bytes of a stream without boundaries, or of a message that goes on.
    pub const BYTES: Self = Self { eom: false, ..Self::MESSAGE };

    /// A whole message with a tag.
    pub const fn tagged(btag: [u8; 8]) -> Self {
        Self { btag: Some(btag), ..Self::MESSAGE }
    }
}

impl Default for SendOptions {
    fn default() -> Self {
        Self::MESSAGE
    }
}

/// What a refusal of the engine means to the sender of a message.
fn unqueued<M>(state: &mut Exchange, place: Place, message: M, refused: Refused) -> Unqueued<M> {
    let association = state.association(place);
    let full_at =
        (refused == Refused::Full).then(|| association.as_ref().map_or(0, |association| association.lane.ended()));
    let error = match (refused, association.and_then(|association| association.failure())) {
        // What has happened says more than that it is over.
        (Refused::Closed | Refused::NoContext, Some(failure)) => Error::ContextFailed(failure),
        _ => Error::ContextRefused(refused),
    };
    Unqueued { message, error, full_at }
}

/// Queues a message of an association that is here. Returns its number.
pub(super) fn queue(
    call: &mut Call<'_>,
    place: Place,
    id: ContextId,
    message: Message,
    options: &SendOptions,
) -> Result<u64, Unqueued<Message>> {
    queue_next(call, place, id, message, options, false)
}

/// Whether there will be room for so many bytes, and is none. What nothing is sent on any more says so itself.
fn is_full(call: &mut Call<'_>, place: Place, id: ContextId, bytes: u64) -> bool {
    call.engine.queue_room(id) < bytes
        && call.state.association(place).is_some_and(|association| !association.is_finished)
}

/// Queues a copy of a head and a message behind it, or neither.
pub(super) fn queue_behind(
    call: &mut Call<'_>,
    place: Place,
    id: ContextId,
    head: &[u8],
    message: Message,
    options: &SendOptions,
) -> Result<u64, Unqueued<Message>> {
    if head.is_empty() {
        return queue(call, place, id, message, options);
    }
    let copied = match is_full(call, place, id, (head.len() + message.len()) as u64) {
        true => Err(unqueued(call.state, place, (), Refused::Full)),
        false => copy(call, place, id, head, false),
    };
    match copied {
        Ok(_) => queue_next(call, place, id, message, options, true),
        Err(Unqueued { error, full_at, .. }) => Err(Unqueued { message, error, full_at }),
    }
}

/// `joins`: it belongs to what was queued before, for which there was room.
fn queue_next(
    call: &mut Call<'_>,
    place: Place,
    id: ContextId,
    mut message: Message,
    options: &SendOptions,
    joins: bool,
) -> Result<u64, Unqueued<Message>> {
    let Call { now, engine, memory, state } = call;
    let len = message.len();
    // SAFETY: the message moves into the association's lane, which keeps it, untouched, until the event that takes the
    // buffer out of the table again.
    let buffer = unsafe { message.lend(memory) };
    let output = Output {
        eom: options.eom,
        btag: options.btag,
        asks: options.sreq,
        asks_when_delivered: options.dreq,
        joins,
        ..Output::bytes(buffer, len as u64)
    };
    let refused = match (engine.send(*now, id, output), state.association(place)) {
        (Ok(ticket), Some(association)) => return Ok(association.lane.begin(ticket, message)),
        (Ok(_), None) => Refused::NoContext,
        (Err(refused), _) => refused,
    };
    memory.remove(buffer);
    Err(unqueued(state, place, message, refused))
}

/// A stream has room for copies when this part of its queue is free.
pub(super) const CRUMB: u32 = 4;

/// Queues a copy of as much of `bytes` as there is room for, in storage of the endpoint's. Returns how much.
pub(super) fn copy(
    call: &mut Call<'_>,
    place: Place,
    id: ContextId,
    bytes: &[u8],
    asks: bool,
) -> Result<usize, Unqueued<()>> {
    // Crumbs are not worth a packet.
    let crumb = u64::from(call.engine.block(id).map_or(0, |block| block.wbufsize / CRUMB));
    if is_full(call, place, id, crumb.min(bytes.len() as u64)) {
        return Err(unqueued(call.state, place, (), Refused::Full));
    }
    let Call { now, engine, memory, state } = call;
    let bytes = &bytes[..engine.queue_room(id).min(bytes.len() as u64) as usize];
    let Some(buffer) = memory.allocate_copy(bytes) else {
        let error = io::Error::from(io::ErrorKind::OutOfMemory);
        return Err(Unqueued { message: (), error: Error::io("cannot copy bytes", error), full_at: None });
    };
    let output = Output { asks, ..Output::bytes(buffer, bytes.len() as u64) };
    let refused = match (engine.send(*now, id, output), state.association(place)) {
        (Ok(ticket), Some(association)) => {
            let number = association.lane.begin(ticket, Message::from_vec(Vec::new()));
            association.lane.abandon(number);
            return Ok(bytes.len());
        }
        (result, _) => result.err().unwrap_or(Refused::NoContext),
    };
    memory.give_back(buffer);
    Err(unqueued(state, place, (), refused))
}

/// A message on its way out. Dropping it lets the message go on, and its buffer be freed at the end; what then becomes
/// of it is told by [`Connection::flush`](super::Connection::flush) and
/// [`Connection::wait_closed`](super::Connection::wait_closed).
#[derive(Debug)]
pub struct Sending {
    end: Option<Arc<End>>,
    place: Place,
    number: u64,
    waiting: Waiting,
}

impl Sending {
    pub(super) fn new(end: &Arc<End>, place: Place, number: u64) -> Self {
        Self { end: Some(Arc::clone(end)), place, number, waiting: Waiting::default() }
    }

    /// Waits until the peer has acknowledged the message (of a stream without errors, or an unacknowledged datagram:
    /// until it has left), and returns it. The waiting thread does the work.
    ///
    /// # Errors
    /// [`Unsent`], with the message, if it did not arrive, and why.
    pub fn wait(mut self) -> Result<Message, Unsent> {
        let (place, number) = (self.place, self.number);
        let Some(end) = self.end.take() else { return Err(Unsent::new(None, Error::Timeout)) };
        match end.port.about(topic(place)).wait_until(|state| state.take_sent(place, number), None) {
            Ok(outcome) => finish(outcome),
            Err(error) => Err(Unsent::new(None, error)),
        }
    }

    /// Like [`Sending::wait`], for at most `timeout`; gives itself back if that is not enough.
    pub fn wait_timeout(mut self, timeout: Duration) -> Progress<Self, Result<Message, Unsent>> {
        let (place, number) = (self.place, self.number);
        let Some(end) = self.end.take() else { return Progress::Ended(Err(Unsent::new(None, Error::Timeout))) };
        match end.port.about(topic(place)).wait_until(|state| state.take_sent(place, number), deadline(timeout)) {
            Ok(outcome) => Progress::Ended(finish(outcome)),
            Err(WaitError::Timeout) => {
                self.end = Some(end);
                Progress::UnderWay(self)
            }
            Err(error) => Progress::Ended(Err(Unsent::new(None, error))),
        }
    }

    /// How the message ended, if it has. Never blocks, and is the same every time: the message stays here.
    ///
    /// # Errors
    /// The inner error says why it did not arrive.
    pub fn probe(&self) -> Option<Result<(), Error>> {
        let end = self.end.as_ref()?;
        // One turn of the engine, so that asking in a loop makes progress.
        match end.port.wait_until(|state| state.outcome(self.place, self.number), Some(Instant::now())) {
            Ok(outcome) => Some(outcome.map_err(Error::ContextFailed)),
            Err(WaitError::Timeout) => None,
            Err(error) => Some(Err(error.into())),
        }
    }
}

fn finish((message, result): (Message, Result<(), Failure>)) -> Result<Message, Unsent> {
    match result {
        Ok(()) => Ok(message),
        Err(failure) => Err(Unsent::new(message, Error::ContextFailed(failure))),
    }
}

impl Future for Sending {
    type Output = Result<Message, Unsent>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (place, number) = (self.place, self.number);
        let Self { end, waiting, .. } = &mut *self;
        let Some(end) = end else { return Poll::Ready(Err(Unsent::new(None, Error::Timeout))) };
        let polled = end.port.about(topic(place)).poll_wait(context, waiting, |state| state.take_sent(place, number));
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
            end.port.inspect(|_, _, state| state.abandon(self.place, self.number));
        }
    }
}
