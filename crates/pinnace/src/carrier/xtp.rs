//! A connection over XTP: messages of a reliable stream, or of one that repeats nothing.
//!
//! Two of XTP's services carry connections. *Connection* is the reliable one. *IsoStream* is best effort, large messages and
//! small ones: each begins a packet of its own, leaves within the congestion window and the rate, and is never repeated; its
//! number and length ([`tags`]) keep its boundaries and tell what is missing. The others are not used here, on purpose
//! (docs/src/explain.md says it to users): a datagram (UnackDgram) has a context, an address and a traffic specifier in every
//! packet, 40 bytes, where a tag has 8, and nothing that holds it back on a path that is congested; an acknowledged one and a
//! transaction set up and close each time what is open here anyway; bulk data are handed over when a buffer is full, not
//! when a message ends.
//!
//! Always true: where an application's message ends, the stream marks the end of a message (EOM); what is lost of an
//! IsoStream is a hole in its message or, with the message's first packet, all of it, and never joins two messages.

use super::again::Again;
use super::in_vain::InVain;
use super::sending::in_its_place;
use super::silence::Silence;
use super::tags::{self, Tag};
use super::turn::{Held, Turn};
use super::watch::Watch;
use super::{Carry, Received, ReceivedInto, Sending, Special, place};
use crate::endpoint::ConnectionError;
use crate::service::{Method, Service};
use crate::xtp::Copied;
use crate::{Error, Message, Unsent, xtp};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Xtp {
    connection: xtp::Connection,
    /// The most bytes of a message that is collected.
    longest: u64,
    /// Where nothing is repeated.
    numbers: Option<Numbers>,
    again: Again,
    /// As far as nobody receives.
    silence: Silence,
    watch: Watch,
}

/// Whether the peer of an association is there, as far as is known; a silent one is asked.
pub(super) fn check(connection: &xtp::Connection, silence: &Silence) -> Result<(), Error> {
    match connection.outcome() {
        Some(Err(failure)) => return Err(Error::ContextFailed(failure)),
        // Both streams have ended, or the peer has gone behind its own.
        Some(Ok(())) => return Err(Error::ContextRefused(xtp::Refused::NoContext)),
        None => {}
    }
    if silence.is_due(Instant::now(), Duration::ZERO) {
        // What has ended in order needs no answer.
        let _ = connection.ask(false);
    }
    Ok(())
}

/// An error if the peer has gone before its own end, and so has not heard ours, although everything may have arrived.
pub(super) fn check_farewell(connection: &xtp::Connection) -> Result<(), Error> {
    let failure = connection.failure().filter(|_| !connection.is_all_there());
    failure.map_or(Ok(()), |failure| Err(Error::ContextFailed(failure)))
}

/// Whoever sends or receives where messages are numbered.
#[derive(Debug)]
struct Numbers {
    /// The number of the next message to be sent.
    sending: Turn<u32>,
    /// Of the next that should come.
    receiving: Turn<u32>,
    /// Something was lost behind the last message that came.
    is_end_missing: AtomicBool,
}

impl Numbers {
    fn new() -> Self {
        Self { sending: Turn::new(0), receiving: Turn::new(0), is_end_missing: AtomicBool::new(false) }
    }

    /// So many bytes have come, of which the first `len` are a message, if it is one.
    fn on_came(&self, came: usize, len: Option<usize>) {
        // One byte stands for none.
        let is_all = len.is_some_and(|len| came <= len.max(1));
        self.is_end_missing.store(!is_all, Ordering::Relaxed);
    }

    /// The next message. The outer `None`: what came was none.
    fn sorted(&self, received: Option<xtp::Received>, next: &mut u32) -> Option<Option<Received>> {
        let Some(received) = received else { return Some(None) };
        let came = received.data.len();
        let sorted = tags::sort(received, next);
        self.on_came(came, sorted.as_ref().map(|message| message.len()));
        sorted.map(Some)
    }
}

/// Where a message may have lost its end, what was lost of those behind it comes with it, and the rest of one of them: so many
/// bytes more than that one has.
const LOST_BEHIND: u64 = 16 << 20;

/// The tag of a message of one byte that stands for an empty one, of which there are none here.
const EMPTY: [u8; 8] = *b"PNCEnone";

/// What came where a message should.
fn whole(received: Option<xtp::Received>) -> Result<Option<Received>, Error> {
    match received {
        Some(received) if received.btag == Some(EMPTY) => Ok(Some(Received::bytes(Vec::new(), Vec::new()))),
        Some(received) if received.eom => Ok(Some(Received::bytes(received.data, received.holes))),
        // The stream has ended behind the last message.
        None => Ok(None),
        Some(_) => Err(ConnectionError::Unfinished { method: Method::Xtp }.into()),
    }
}

/// A message, or what is sent in its place.
enum Outgoing {
    Itself(Message),
    InPlaceOf(Message),
}

impl Outgoing {
    fn new(message: Message) -> Self {
        // A stream has no empty messages.
        if message.is_empty() { Self::InPlaceOf(message) } else { Self::Itself(message) }
    }

    /// How it is sent: with its number, where there are numbers.
    fn options(&self, number: Option<u32>) -> xtp::SendOptions {
        match (number, self) {
            (Some(number), Self::Itself(message)) => xtp::SendOptions::tagged(Tag::new(number, message.len()).encode()),
            (Some(number), Self::InPlaceOf(_)) => xtp::SendOptions::tagged(Tag::new(number, 0).encode()),
            (None, Self::Itself(_)) => xtp::SendOptions::MESSAGE,
            (None, Self::InPlaceOf(_)) => xtp::SendOptions::tagged(EMPTY),
        }
    }

    /// It comes back.
    fn unsent(self, error: impl Into<Error>) -> Unsent {
        let (Self::Itself(message) | Self::InPlaceOf(message)) = self;
        Unsent::new(message, error)
    }

    /// What is sent, and what comes back instead of it.
    fn split(self) -> (Message, Option<Message>) {
        match self {
            Self::Itself(message) => (message, None),
            Self::InPlaceOf(message) => (Message::from_vec(vec![0]), Some(message)),
        }
    }
}

/// What has become of it.
fn begun(instead_of: Option<Message>, sent: Result<xtp::Sending, Unsent>) -> Result<Sending, Unsent> {
    match instead_of {
        Some(message) => in_its_place(message, sent),
        None => Ok(Sending::Xtp(sent?, None)),
    }
}

/// A message with this number has been queued.
fn count(number: Option<Held<'_, u32>>) {
    if let Some(mut number) = number {
        *number = number.wrapping_add(1);
    }
}

impl Xtp {
    /// `timeout`: how long the peer may be silent.
    pub(crate) fn new(connection: xtp::Connection, timeout: Duration) -> Self {
        let is_numbered = connection.service() == xtp::Service::IsoStream;
        let numbers = is_numbered.then(Numbers::new);
        let (again, silence, watch) = (Again::default(), Silence::new(timeout), Watch::default());
        Self { connection, longest: u64::MAX, numbers, again, silence, watch }
    }

    /// Messages of no more than `longest` bytes each are collected from now on.
    pub(super) fn limit(&mut self, longest: u64) {
        let behind = if self.numbers.is_some() { longest.saturating_add(LOST_BEHIND) } else { 0 };
        self.longest = longest.saturating_add(behind);
    }

    /// The next numbered message into memory of the caller's; `None`: it does not go without a copy between.
    fn copy_numbered(
        &self,
        buffer: &mut [u8],
        deadline: Option<Instant>,
        numbers: &Numbers,
    ) -> Result<Option<Option<ReceivedInto>>, Error> {
        let mut next = numbers.receiving.take(deadline).ok_or(Error::Timeout)?;
        let mut in_vain = InVain::default();
        loop {
            let (came, btag, holes) = match self.connection.copy_message(buffer, deadline) {
                Ok(Copied::Message { len, btag, holes }) => (len, btag, holes),
                Ok(Copied::Ended) => return Ok(Some(None)),
                // What is too long here may be more than its message.
                Ok(Copied::Nothing) | Err(Error::MessageTooLong(_)) => return Ok(None),
                Err(error) => return Err(error),
            };
            let tag = btag.map(Tag::parse);
            let len = tag.and_then(|tag| tag.within(came));
            numbers.on_came(came, len);
            if let (Some(tag), Some(len)) = (tag, len) {
                let (holes, missed) = (tags::clipped(holes, len), tag.missed(&mut next));
                return Ok(Some(Some(ReceivedInto { holes, missed, ..ReceivedInto::whole(len) })));
            }
            if in_vain.is_over(deadline) {
                self.watch.signal();
                return Err(Error::Timeout);
            }
        }
    }

    /// As [`Carry::recv_async`], for a message of at most `most` bytes.
    pub(crate) async fn recv_within_async(&self, most: u64) -> Result<Option<Received>, Error> {
        if let Some(received) = self.again.take() {
            return Ok(Some(received));
        }
        let Some(numbers) = &self.numbers else { return whole(self.connection.recv_within_async(most).await?) };
        let mut next = numbers.receiving.take_async().await;
        let mut in_vain = InVain::default();
        loop {
            if let Some(sorted) = numbers.sorted(self.connection.recv_within_async(most).await?, &mut next) {
                return Ok(sorted);
            }
            in_vain.pass().await;
        }
    }
}

impl Carry for Xtp {
    fn send(&self, message: Message, _: Option<&Special>, deadline: Option<Instant>) -> Result<Sending, Unsent> {
        let outgoing = Outgoing::new(message);
        let mut number = None;
        if let Some(numbers) = &self.numbers {
            number = numbers.sending.take(deadline);
            if number.is_none() {
                return Err(outgoing.unsent(Error::Timeout));
            }
        }
        let options = outgoing.options(number.as_deref().copied());
        let (message, instead_of) = outgoing.split();
        let begun = begun(instead_of, self.connection.send_behind(&[], message, &options, deadline))?;
        count(number);
        Ok(begun)
    }

    fn try_send(&self, message: Message, _: Option<&Special>) -> Result<Sending, Unsent> {
        let outgoing = Outgoing::new(message);
        let mut number = None;
        if let Some(numbers) = &self.numbers {
            number = numbers.sending.take(Some(Instant::now()));
            if number.is_none() {
                // Whoever has the turn waits for room.
                return Err(outgoing.unsent(ConnectionError::Full { method: Method::Xtp }));
            }
        }
        let options = outgoing.options(number.as_deref().copied());
        let (message, instead_of) = outgoing.split();
        let begun = begun(instead_of, self.connection.try_send(message, &options))?;
        count(number);
        Ok(begun)
    }

    async fn send_async(&self, message: Message, _: Option<&Special>) -> Result<Sending, Unsent> {
        let outgoing = Outgoing::new(message);
        let number = match &self.numbers {
            Some(numbers) => Some(numbers.sending.take_async().await),
            None => None,
        };
        let options = outgoing.options(number.as_deref().copied());
        let (message, instead_of) = outgoing.split();
        let begun = begun(instead_of, self.connection.send_async(message, &options).await)?;
        count(number);
        Ok(begun)
    }

    fn recv(&self, deadline: Option<Instant>) -> Result<Option<Received>, Error> {
        if let Some(received) = self.again.take() {
            return Ok(Some(received));
        }
        let Some(numbers) = &self.numbers else { return whole(self.connection.recv_within(self.longest, deadline)?) };
        let mut next = numbers.receiving.take(deadline).ok_or(Error::Timeout)?;
        let mut in_vain = InVain::default();
        loop {
            if let Some(sorted) = numbers.sorted(self.connection.recv_within(self.longest, deadline)?, &mut next) {
                return Ok(sorted);
            }
            if in_vain.is_over(deadline) {
                self.watch.signal();
                return Err(Error::Timeout);
            }
        }
    }

    async fn recv_async(&self) -> Result<Option<Received>, Error> {
        self.recv_within_async(self.longest).await
    }

    fn recv_into(&self, buffer: &mut [u8], deadline: Option<Instant>) -> Result<Option<ReceivedInto>, Error> {
        let has_again = self.again.is_any();
        if let (false, Some(numbers)) = (has_again, &self.numbers) {
            if let Some(copied) = self.copy_numbered(buffer, deadline, numbers)? {
                return Ok(copied);
            }
        } else if !has_again {
            // One byte may stand for none.
            let (mut one, most) = ([0], buffer.len() as u64);
            let copied = self.connection.copy_message(if most == 0 { &mut one } else { buffer }, deadline);
            // That byte is none of the caller's.
            let copied = copied.map_err(|error| match error {
                Error::MessageTooLong(_) => Error::MessageTooLong(most),
                error => error,
            });
            match copied? {
                Copied::Ended => return Ok(None),
                Copied::Nothing => {}
                Copied::Message { btag, .. } if btag == Some(EMPTY) => return Ok(Some(ReceivedInto::default())),
                Copied::Message { len, .. } if len as u64 > most => {
                    self.again.put_back(Received::bytes(one.to_vec(), Vec::new()));
                    return Err(Error::MessageTooLong(most));
                }
                Copied::Message { len, holes, .. } => {
                    return Ok(Some(ReceivedInto { holes, ..ReceivedInto::whole(len) }));
                }
            }
        }
        place(self.recv(deadline)?, buffer, |received| self.again.put_back(received))
    }

    async fn recv_into_async(&self, buffer: &mut [u8]) -> Result<Option<ReceivedInto>, Error> {
        place(self.recv_async().await?, buffer, |received| self.again.put_back(received))
    }

    fn flush(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.connection.flush_until(deadline)
    }

    async fn flush_async(&self) -> Result<(), Error> {
        self.connection.flush_async().await
    }

    fn set_service(&self, service: &Service) -> Result<(), String> {
        let block = self.connection.block().map_err(|error| error.to_string())?;
        self.connection.set_block(programmed(block, service)).map_err(|error| error.to_string())
    }

    fn repeats_nothing(&self) -> bool {
        self.numbers.is_some()
    }

    fn has_heard_end(&self) -> bool {
        self.connection.is_all_there()
    }

    fn is_end_missing(&self) -> bool {
        self.numbers.as_ref().is_some_and(|numbers| numbers.is_end_missing.load(Ordering::Relaxed))
    }

    fn waiting_bytes(&self) -> Option<u64> {
        self.again.first_bytes().or_else(|| self.connection.waiting_bytes())
    }

    fn round_trip(&self) -> Option<Duration> {
        self.connection.facts().ok()?.round_trip
    }

    fn check(&self) -> Result<(), Error> {
        check(&self.connection, &self.silence)
    }

    fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        self.watch.descriptor(|| self.connection.watch())
    }

    fn clear(&self) {
        self.watch.clear();
    }

    fn close(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.connection.finish()?;
        self.flush(deadline)?;
        check_farewell(&self.connection)
    }

    fn abort(&self, _: Instant) {
        // What is over already needs no end.
        let _ = self.connection.close(xtp::Close::Forced);
        self.connection.forget();
    }
}

/// The block with what a service says about sending.
pub(crate) fn programmed(mut block: xtp::ControlBlock, service: &Service) -> xtp::ControlBlock {
    let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX).max(1);
    // Bits a second are bytes in eight. What is not said any more does not hold any more.
    (block.output_rate, block.output_burst) =
        service.kept_rate().map_or((0, 0), |(rate, burst)| (narrow(rate / 8), narrow(burst)));
    block.sort_value = service.priority.map_or(0, u32::from);
    block.mode_flags = match service.priority {
        Some(_) => block.mode_flags.with(xtp::Flags::SORT),
        None => block.mode_flags.without(xtp::Flags::SORT),
    };
    block
}
