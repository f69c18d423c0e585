//! An association, for applications: its life and its sending half.

use super::exchange::{Association, Exchange};
use super::port::{About, Call, End, deadline};
use super::reading::Partial;
use super::sending;
use super::{AddressSegment, Close, ControlBlock, Facts, Patience, SendOptions, Sending, Service};
use crate::attempts::{Attempts, Unqueued};
use crate::copies::Copies;
use crate::lock::lock;
use crate::places::{Place, topic};
use crate::{Error, Message, Unsent};
use pinnace_core::Address;
use pinnace_xtp::{ContextId, Refused};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A stream each way, of the service Connection, IsoStream or BulkData; or one stream, to a group
/// ([`Endpoint::open_group`](super::Endpoint::open_group)) or from one who sends to it.
///
/// Calls may come from any thread; share it in an [`Arc`]. Both directions have messages (EOM), which may carry a tag of
/// eight bytes (BTAG); who does not need them reads and writes bytes, also as [`std::io::Read`] and [`std::io::Write`].
///
/// Dropping it closes the association in the background: what was queued is still sent, what was not read is dropped.
pub struct Connection {
    pub(super) end: Arc<End>,
    pub(super) place: Place,
    pub(super) id: ContextId,
    service: Service,
    peer: Address,
    address: AddressSegment,
    /// The peer has begun it.
    pub(super) is_accepted: bool,
    pub(super) partial: Mutex<Partial>,
    /// The last packet of every write asks for a status.
    pub(super) asks_after_writes: bool,
    /// The application reads no more, and the peer is not told.
    pub(super) is_shut: AtomicBool,
    pub(crate) copies: Copies,
}

impl Connection {
    pub(super) fn new(
        end: &Arc<End>,
        (place, id): (Place, ContextId),
        service: Service,
        peer: Address,
        address: AddressSegment,
    ) -> Self {
        let partial = Mutex::default();
        let asks_after_writes = end.asks_after_writes;
        Self {
            end: Arc::clone(end),
            place,
            id,
            service,
            peer,
            address,
            is_accepted: false,
            partial,
            asks_after_writes,
            is_shut: AtomicBool::new(false),
            copies: Copies::default(),
        }
    }

    /// The endpoint, to wait for something of this association.
    pub(super) fn about(&self) -> About<'_> {
        self.end.port.about(topic(self.place))
    }

    /// What is half read. A panic elsewhere leaves it whole.
    pub(super) fn partial(&self) -> MutexGuard<'_, Partial> {
        lock(&self.partial)
    }

    /// Its service.
    pub fn service(&self) -> Service {
        self.service
    }

    /// Who is at the other end; `[::]:0` if the link has no internet addresses.
    pub fn peer(&self) -> SocketAddr {
        self.end.address_of(self.peer)
    }

    /// The addresses and ports that the FIRST said.
    pub fn address(&self) -> AddressSegment {
        self.address
    }

    /// Sends the FIRST now, if nothing has been sent, and waits until the peer has answered. Not needed: the first
    /// message sets the association up.
    ///
    /// # Errors
    /// [`Error::ContextFailed`] if it refuses, or does not answer.
    pub fn establish(&self) -> Result<(), Error> {
        self.begin()?;
        self.about().wait_until(|state| self.established(state), None)?
    }

    /// Like [`Connection::establish`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::establish`], and [`Error::Timeout`].
    pub fn establish_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.begin()?;
        self.about().wait_until(|state| self.established(state), deadline(timeout))?
    }

    /// Like [`Connection::establish`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::establish`].
    pub async fn establish_async(&self) -> Result<(), Error> {
        self.begin()?;
        self.about().wait(|state| self.established(state)).await?
    }

    /// Sends the FIRST, and does not wait for the answer.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        self.call(|Call { now, engine, .. }| engine.connect(now, self.id))
    }

    fn established(&self, state: &mut Exchange) -> Option<Result<(), Error>> {
        self.of(state, |association| match association.closed {
            Some(Err(failure)) => Some(Err(Error::ContextFailed(failure))),
            Some(Ok(())) => Some(Ok(())),
            None => association.is_connected.then_some(Ok(())),
        })
    }

    /// What `look` finds in the association, which is here as long as this handle.
    fn of<R>(&self, state: &mut Exchange, look: impl FnOnce(&mut Association) -> Option<R>) -> Option<R> {
        state.association(self.place).and_then(look)
    }

    /// A call that the engine may refuse.
    pub(super) fn call<R>(&self, call: impl FnOnce(Call<'_>) -> Result<R, Refused>) -> Result<R, Error> {
        let call = |this: Call<'_>| {
            let failure = this.state.association(self.place).and_then(|association| association.failure());
            // What has happened says more than that it is over.
            call(this).map_err(|refused| failure.map_or(Error::ContextRefused(refused), Error::ContextFailed))
        };
        self.end.port.call(call)?
    }

    /// Queues a message (its first [`Message::len`] bytes, which are not copied). Waits while the queue is full
    /// ([`ControlBlock::wbufsize`]).
    ///
    /// # Errors
    /// [`Unsent`] gives the message back, with the reason.
    pub fn send(&self, message: impl Into<Message>) -> Result<Sending, Unsent> {
        self.send_with(message, &SendOptions::MESSAGE)
    }

    /// Queues bytes without the end of a message behind them. Otherwise as [`Connection::send`].
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_bytes(&self, bytes: impl Into<Message>) -> Result<Sending, Unsent> {
        self.send_with(bytes, &SendOptions::BYTES)
    }

    /// Queues a message, or a part of one, as `options` say. Otherwise as [`Connection::send`].
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_with(&self, message: impl Into<Message>, options: &SendOptions) -> Result<Sending, Unsent> {
        self.send_behind(&[], message.into(), options, None)
    }

    /// As [`Connection::send_with`], but does not wait for room.
    ///
    /// # Errors
    /// As [`Connection::send`]; [`Refused::Full`] if the queue is full.
    pub fn try_send(&self, message: impl Into<Message>, options: &SendOptions) -> Result<Sending, Unsent> {
        self.try_send_behind(&[], message.into(), options)
    }

    /// As [`Connection::send_with`], for tasks: the future waits for room, and gives what is to be awaited for the
    /// message to arrive.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn send_async(&self, message: impl Into<Message>, options: &SendOptions) -> Result<Sending, Unsent> {
        self.send_behind_async(&[], message.into(), options).await
    }

    /// As [`Connection::send_with`], behind a copy of `head`: nothing comes in between, and what is refused is both. Waits for
    /// room until the deadline.
    pub(crate) fn send_behind(
        &self,
        head: &[u8],
        message: Message,
        options: &SendOptions,
        deadline: Option<Instant>,
    ) -> Result<Sending, Unsent> {
        self.send_with_attempts(head, message, options, Attempts::Until(deadline))
    }

    /// The same without waiting, as [`Connection::try_send`].
    pub(crate) fn try_send_behind(
        &self,
        head: &[u8],
        message: Message,
        options: &SendOptions,
    ) -> Result<Sending, Unsent> {
        self.send_with_attempts(head, message, options, Attempts::AtOnce)
    }

    fn send_with_attempts(
        &self,
        head: &[u8],
        message: Message,
        options: &SendOptions,
        attempts: Attempts<'_>,
    ) -> Result<Sending, Unsent> {
        let queued = attempts.queue(
            &self.about(),
            message,
            |message| self.queue(head, message, options),
            |state, ended| self.has_room(state, ended),
        );
        queued.map(|number| self.sending(number))
    }

    /// The same for tasks, as [`Connection::send_async`].
    pub(crate) async fn send_behind_async(
        &self,
        head: &[u8],
        message: Message,
        options: &SendOptions,
    ) -> Result<Sending, Unsent> {
        let queue = |message| self.queue(head, message, options);
        Ok(self.sending(
            Attempts::Until(None)
                .queue_async(&self.about(), message, queue, |state, ended| self.has_room(state, ended))
                .await?,
        ))
    }

    fn queue(
        &self,
        head: &[u8],
        message: Message,
        options: &SendOptions,
    ) -> Result<Result<u64, Unqueued<Message>>, Unsent> {
        self.end
            .port
            .call(|mut call| sending::queue_behind(&mut call, self.place, self.id, head, message, options))
            .map_err(|error| Unsent::new(None, error))
    }

    pub(super) fn sending(&self, number: u64) -> Sending {
        Sending::new(&self.end, self.place, number)
    }

    /// What is left of a context of one message that goes on by itself.
    pub(super) fn into_sending(self, number: u64) -> Sending {
        self.sending(number)
    }

    /// Queues many messages in few calls, and waits where the queue is full. All of them have been queued when it
    /// returns.
    ///
    /// # Errors
    /// The messages that were not queued, and why.
    pub fn send_all(&self, messages: Vec<Message>) -> Result<Vec<Sending>, (Vec<Message>, Error)> {
        self.send_all_with(messages, &SendOptions::MESSAGE)
    }

    /// Like [`Connection::send_all`], with options that hold for each of the messages.
    ///
    /// # Errors
    /// As [`Connection::send_all`].
    pub fn send_all_with(
        &self,
        messages: Vec<Message>,
        options: &SendOptions,
    ) -> Result<Vec<Sending>, (Vec<Message>, Error)> {
        let mut numbers = Vec::with_capacity(messages.len());
        let queue = |call: &mut Call<'_>, message| {
            numbers.push(sending::queue(call, self.place, self.id, message, options)?);
            Ok(())
        };
        let has_room = |state: &mut Exchange, ended| self.has_room(state, ended);
        let queued = Attempts::Until(None).queue_all(&self.about(), messages, queue, has_room);
        // With an error they are dropped: nobody asks for those that were queued before it.
        let sendings = numbers.into_iter().map(|number| self.sending(number)).collect();
        queued.map(|()| sendings)
    }

    /// Waits until everything that was queued has arrived.
    ///
    /// # Errors
    /// [`Error::ContextFailed`] if something did not.
    pub fn flush(&self) -> Result<(), Error> {
        self.flush_until(None)
    }

    pub(crate) fn flush_until(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.about().wait_until(|state| self.flushed(state), deadline)?
    }

    /// Like [`Connection::flush`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::flush`].
    pub async fn flush_async(&self) -> Result<(), Error> {
        self.about().wait(|state| self.flushed(state)).await?
    }

    /// What [`Connection::flush`] would return now; `None`: it would wait.
    pub(crate) fn try_flush(&self) -> Option<Result<(), Error>> {
        self.end.port.inspect(|_, _, state| self.flushed(state))
    }

    pub(super) fn flushed(&self, state: &mut Exchange) -> Option<Result<(), Error>> {
        self.of(state, |association| {
            let failure = association.failure().unwrap_or(super::Failure::Aborted);
            let is_over = association.lane.is_quiet() || association.closed.is_some();
            let is_lost = association.lane.has_losses();
            is_over.then_some(if is_lost { Err(Error::ContextFailed(failure)) } else { Ok(()) })
        })
    }

    /// Asks the peer for a status, in a packet of its own: at once, or when its application has taken what it got.
    ///
    /// # Errors
    /// If the association is over.
    pub fn ask(&self, when_delivered: bool) -> Result<(), Error> {
        self.call(|Call { now, engine, .. }| engine.ask(now, self.id, when_delivered))
    }

    /// The outgoing stream ends behind what is queued; the incoming one goes on. As [`Close::Full`].
    ///
    /// # Errors
    /// If the association is over.
    pub fn finish(&self) -> Result<(), Error> {
        self.close(Close::Full)
    }

    /// Begins to close: [`Close::Full`] once both ends have, [`Close::Abbreviated`] without reading what still comes,
    /// [`Close::Forced`] at once. [`Connection::wait_closed`] waits for it.
    ///
    /// # Errors
    /// If the association is over.
    pub fn close(&self, how: Close) -> Result<(), Error> {
        self.call(|Call { now, engine, state, .. }| {
            engine.close(now, self.id, how)?;
            state.finish(self.place);
            Ok(())
        })?;
        // Whoever waits for room waits in vain.
        self.about().notify();
        Ok(())
    }

    /// No more is read: the peer drops what it has not sent, and is told so if it sends on.
    ///
    /// # Errors
    /// If the association is over.
    pub fn stop_reading(&self) -> Result<(), Error> {
        self.call(|Call { now, engine, .. }| engine.stop_reading(now, self.id))
    }

    /// Waits until both streams have ended: everything that was queued has arrived then, and so has everything that the
    /// peer sent. Close first.
    ///
    /// # Errors
    /// [`Error::ContextFailed`] if it did not end so.
    pub fn wait_closed(&self) -> Result<(), Error> {
        self.about().wait_until(|state| self.closed(state), None)?
    }

    /// Like [`Connection::wait_closed`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::wait_closed`], and [`Error::Timeout`].
    pub fn wait_closed_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.about().wait_until(|state| self.closed(state), deadline(timeout))?
    }

    /// Like [`Connection::wait_closed`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::wait_closed`].
    pub async fn wait_closed_async(&self) -> Result<(), Error> {
        self.about().wait(|state| self.closed(state)).await?
    }

    fn closed(&self, state: &mut Exchange) -> Option<Result<(), Error>> {
        self.of(state, |association| association.closed.map(|result| result.map_err(Error::ContextFailed)))
    }

    /// How the context is programmed.
    ///
    /// # Errors
    /// If it is gone.
    pub fn block(&self) -> Result<ControlBlock, Error> {
        let block = self.end.port.inspect(|engine, _, _| engine.block(self.id).cloned());
        block.ok_or(Error::ContextRefused(Refused::NoContext))
    }

    /// Programs it anew: what the block says about sending holds from the next packet on. Service and addresses stay as
    /// they are.
    ///
    /// # Errors
    /// If the block cannot be had, or the context is gone.
    pub fn set_block(&self, block: ControlBlock) -> Result<(), Error> {
        self.call(|Call { now, engine, .. }| engine.set_block(now, self.id, block))
    }

    /// How long the peer may be silent from now on, where that is less than the block's CTIMER and CTIMEOUT: afterwards the
    /// association ends as that of a peer that does not answer.
    ///
    /// # Errors
    /// If the context is gone.
    pub fn set_patience(&self, patience: Patience) -> Result<(), Error> {
        self.call(|Call { now, engine, .. }| engine.set_patience(now, self.id, patience))
    }

    /// Keys, sequence numbers and spans, as they look on the wire.
    ///
    /// # Errors
    /// If the context is gone.
    pub fn facts(&self) -> Result<Facts, Error> {
        let facts = self.end.port.inspect(|engine, _, _| engine.facts(self.id));
        facts.ok_or(Error::ContextRefused(Refused::NoContext))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.end.port.call(|Call { now, engine, state, .. }| {
            engine.release(now, self.id);
            state.release(self.place);
        });
        if self.service.is_group() {
            self.end.groups.tidy(&self.end.port);
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("service", &self.service).field("peer", &self.peer()).finish_non_exhaustive()
    }
}
