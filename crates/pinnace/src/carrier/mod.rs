//! What carries the messages of a connection: one mechanism, implemented once a method.
//!
//! A [`Carrier`] is a connection of a method, and a [`Sending`] a message on its way there. Both are enums, so that a call
//! costs a comparison: no allocation, no thread and no copy that the method would not make itself.
//!
//! | method | a message is | both ways | what is lost |
//! |---|---|---|---|
//! | XTP | a message of a stream (EOM); of IsoStream with its number and length (BTAG) | yes | nothing; of IsoStream, what the path loses |
//! | QMP | its length and its bytes in a stream | yes | nothing |
//! | shared memory | the same, in a channel of the daemon | yes | nothing |
//! | ZCRP | one message, or several of a fixed size and one that is shorter | yes | nothing |
//! | VRP | a frame | a way each | what the contract allows |
//! | A1 | a message | yes | what its windows allow |
//! | A1, to several | a message, to each of them | no | the same |
//!
//! Always true: a carrier gives back each message that it was given, or goes on with it; a message is received once.

mod a1;
mod again;
mod alarm;
mod cast;
mod early;
mod framed;
mod in_vain;
mod later;
mod pieces;
mod received;
mod room;
mod sending;
mod silence;
mod tags;
mod turn;
mod vrp;
mod watch;
mod writer;
mod xtp;
mod zcrp;

pub(crate) use a1::{A1, most_of, qos_of};
pub(crate) use alarm::{Alarm, within};
pub(crate) use cast::{Cast, most_from_many, qos_to_many};
pub(crate) use framed::Framed;
pub(crate) use in_vain::{InVain, MOST_READS};
pub(crate) use pieces::{MOST_IN_PLACE, MOST_PIECE, is_piece, most_piece, piece_bytes};
pub use received::{Received, ReceivedInto};
pub(crate) use room::{LOOK as LOOK_FOR_BREAK, UnderWay};
pub use sending::Delivered;
pub(crate) use sending::Sending;
#[cfg(any(test, fuzzing))]
pub(crate) use tags::sort;
pub(crate) use turn::Turn;
pub(crate) use vrp::{LEAST_LIFE, SIGN_OF_LIFE, Vrp, Ways};
pub(crate) use writer::dead;
pub(crate) use xtp::{Xtp, programmed};
pub(crate) use zcrp::Zcrp;

use crate::endpoint::ConnectionError;
use crate::service::{Method, Service};
use crate::{Error, Message, Unsent};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// What a message may differ in from the connection's service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Special {
    /// What may be lost of it.
    pub(crate) contract: Option<crate::vrp::Contract>,
    /// When it is of no use any more, from the call on.
    pub(crate) deadline: Option<Duration>,
    /// When it is dropped, from the call on.
    pub(crate) lifespan: Option<Duration>,
}

/// What a peer may still say that matters, where both ends were closed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Nothing, or what nobody receives any more.
    Nothing,
    /// That it has heard that this was no end in order: it may have no room for that word before it receives.
    Acknowledgement,
    /// Its end, which wants an answer, or wants it again.
    End,
    /// Its end again, for so long, if it has not heard that we have it.
    Repetitions(Duration),
}

impl Awaited {
    /// After the end has come. Some repetitions of it may be lost.
    fn repetitions(round_trip: Option<Duration>) -> Self {
        Self::Repetitions(Duration::from_millis(40) + 4 * round_trip.unwrap_or(Duration::from_millis(40)))
    }
}

/// What a carrier does. Every method of it may be called by many threads at a time.
pub(crate) trait Carry: Sync {
    /// Begins to send a message; waits while the method's queue is full, and gives the message back with [`Error::Timeout`] when
    /// the deadline has passed.
    fn send(&self, message: Message, special: Option<&Special>, deadline: Option<Instant>) -> Result<Sending, Unsent>;

    /// The same without waiting: an error that [`Error::would_block`] knows, if it would have had to.
    fn try_send(&self, message: Message, special: Option<&Special>) -> Result<Sending, Unsent>;

    /// The same, for tasks: the future waits. Dropped, it has sent nothing.
    fn send_async(
        &self,
        message: Message,
        special: Option<&Special>,
    ) -> impl Future<Output = Result<Sending, Unsent>> + Send;

    /// Why a message of so many bytes will not be sent. Methods without a limit of their own need not say.
    fn check_length(&self, _bytes: u64) -> Result<(), Error> {
        Ok(())
    }

    /// The next message, `None` at the end; [`Error::Timeout`] when the deadline has passed.
    fn recv(&self, deadline: Option<Instant>) -> Result<Option<Received>, Error>;

    /// The same, for tasks.
    fn recv_async(&self) -> impl Future<Output = Result<Option<Received>, Error>> + Send;

    /// The next message into `buffer`: its length, and its holes. Longer ones are an error, and the next to be
    /// received again.
    fn recv_into(&self, buffer: &mut [u8], deadline: Option<Instant>) -> Result<Option<ReceivedInto>, Error>;

    /// The same, for tasks.
    fn recv_into_async(&self, buffer: &mut [u8]) -> impl Future<Output = Result<Option<ReceivedInto>, Error>> + Send;

    /// Waits until what was sent has arrived.
    fn flush(&self, deadline: Option<Instant>) -> Result<(), Error>;

    /// The same, for tasks.
    fn flush_async(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// What is sent from now on is sent so. The error says what cannot be changed.
    fn set_service(&self, service: &Service) -> Result<(), String>;

    /// Whether nothing is repeated that is lost, so that nothing can be promised of any message.
    fn repeats_nothing(&self) -> bool {
        false
    }

    /// An error if nothing comes this way. Methods with both ways need not look.
    fn check_receives(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Messages that were sent behind the last one that was received, and before the end, and have not come.
    fn missing_at_end(&self) -> u64 {
        0
    }

    /// An error if the peer has broken off, although nobody receives: for whoever waits for what was sent. Waits for nothing
    /// itself. Methods whose sendings fail by themselves then need not look.
    fn look_for_break(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The bytes of the message that is the next to be received again, as far as is known.
    fn waiting_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether the peer has ended what it sends, in order, as far as is known: also if nobody has received that.
    fn has_heard_end(&self) -> bool {
        false
    }

    /// Whether something is known to be lost behind the last message that was received.
    fn is_end_missing(&self) -> bool {
        false
    }

    /// To the peer and back, once that has been measured; of many peers the longest.
    fn round_trip(&self) -> Option<Duration>;

    /// An error if the peer has gone or has broken off, as far as is known. One that has been silent is asked, and it will be
    /// known later. Waits for nothing.
    fn check(&self) -> Result<(), Error>;

    /// A descriptor that becomes readable when something may have come: clear it first, then take what is there.
    fn descriptor(&self) -> Result<BorrowedFd<'_>, Error>;

    /// Makes the descriptor unreadable until something comes.
    fn clear(&self);

    /// No more is sent: waits, until the deadline, for what was sent to arrive, and tells the peer.
    fn close(&self, deadline: Option<Instant>) -> Result<(), Error>;

    /// Whoever called does something else now: the peer, which may wait for an answer, gets it at once all the same. Methods
    /// whose peers wait for nothing then need not see to it.
    fn hand_over(&self) {}

    /// Nobody uses the connection any more: where the end of it is one for both ways, says so, and waits a little for the answer.
    fn leave(&self) {}

    /// What the peer may still say, after the end of what we send, that matters although nobody receives any more. Methods that
    /// see to it themselves need not say.
    fn awaited(&self) -> Awaited {
        Awaited::Nothing
    }

    /// Ends at once: what has not arrived is given up, and the peer is told, until the deadline, that this is no end in order.
    fn abort(&self, deadline: Instant);

    /// The same as [`close`](Self::close), for tasks, and without a deadline.
    fn close_async(&self) -> impl Future<Output = Result<(), Error>> + Send {
        async {
            loop {
                match self.close(Some(Instant::now())) {
                    // Then what the peer makes of the end is to be looked at still.
                    Err(Error::Timeout) => self.flush_async().await?,
                    told => return told,
                }
            }
        }
    }
}

/// A connection of one of the methods.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// XTP.
    Xtp(Xtp),
    /// QMP, or the daemon's shared memory.
    Framed(Framed),
    /// ZCRP.
    Zcrp(Zcrp),
    /// VRP.
    Vrp(Vrp),
    /// A1.
    A1(A1),
    /// A1, to several receivers.
    Cast(Box<Cast>),
}

/// Does the same with whichever it is.
macro_rules! each {
    ($self:ident, $carrier:ident => $call:expr) => {
        match $self {
            Self::Xtp($carrier) => $call,
            Self::Framed($carrier) => $call,
            Self::Zcrp($carrier) => $call,
            Self::Vrp($carrier) => $call,
            Self::A1($carrier) => $call,
            Self::Cast($carrier) => $call,
        }
    };
}

impl Carry for Carrier {
    fn send(&self, message: Message, special: Option<&Special>, deadline: Option<Instant>) -> Result<Sending, Unsent> {
        each!(self, carrier => carrier.send(message, special, deadline))
    }

    fn try_send(&self, message: Message, special: Option<&Special>) -> Result<Sending, Unsent> {
        each!(self, carrier => carrier.try_send(message, special))
    }

    async fn send_async(&self, message: Message, special: Option<&Special>) -> Result<Sending, Unsent> {
        each!(self, carrier => carrier.send_async(message, special).await)
    }

    fn check_length(&self, bytes: u64) -> Result<(), Error> {
        each!(self, carrier => carrier.check_length(bytes))
    }

    fn recv(&self, deadline: Option<Instant>) -> Result<Option<Received>, Error> {
        each!(self, carrier => carrier.recv(deadline))
    }

    async fn recv_async(&self) -> Result<Option<Received>, Error> {
        each!(self, carrier => carrier.recv_async().await)
    }

    fn recv_into(&self, buffer: &mut [u8], deadline: Option<Instant>) -> Result<Option<ReceivedInto>, Error> {
        each!(self, carrier => carrier.recv_into(buffer, deadline))
    }

    async fn recv_into_async(&self, buffer: &mut [u8]) -> Result<Option<ReceivedInto>, Error> {
        each!(self, carrier => carrier.recv_into_async(buffer).await)
    }

    fn flush(&self, deadline: Option<Instant>) -> Result<(), Error> {
        each!(self, carrier => carrier.flush(deadline))
    }

    async fn flush_async(&self) -> Result<(), Error> {
        each!(self, carrier => carrier.flush_async().await)
    }

    fn set_service(&self, service: &Service) -> Result<(), String> {
        each!(self, carrier => carrier.set_service(service))
    }

    fn repeats_nothing(&self) -> bool {
        each!(self, carrier => carrier.repeats_nothing())
    }

    fn check_receives(&self) -> Result<(), Error> {
        each!(self, carrier => carrier.check_receives())
    }

    fn missing_at_end(&self) -> u64 {
        each!(self, carrier => carrier.missing_at_end())
    }

    fn look_for_break(&self) -> Result<(), Error> {
        each!(self, carrier => carrier.look_for_break())
    }

    fn waiting_bytes(&self) -> Option<u64> {
        each!(self, carrier => carrier.waiting_bytes())
    }

    fn has_heard_end(&self) -> bool {
        each!(self, carrier => carrier.has_heard_end())
    }

    fn is_end_missing(&self) -> bool {
        each!(self, carrier => carrier.is_end_missing())
    }

    fn round_trip(&self) -> Option<Duration> {
        each!(self, carrier => carrier.round_trip())
    }

    fn check(&self) -> Result<(), Error> {
        each!(self, carrier => carrier.check())
    }

    fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        each!(self, carrier => carrier.descriptor())
    }

    fn clear(&self) {
        each!(self, carrier => carrier.clear());
    }

    fn close(&self, deadline: Option<Instant>) -> Result<(), Error> {
        each!(self, carrier => carrier.close(deadline))
    }

    fn hand_over(&self) {
        each!(self, carrier => carrier.hand_over());
    }

    fn leave(&self) {
        each!(self, carrier => carrier.leave());
    }

    fn awaited(&self) -> Awaited {
        each!(self, carrier => carrier.awaited())
    }

    fn abort(&self, deadline: Instant) {
        each!(self, carrier => carrier.abort(deadline));
    }

    async fn close_async(&self) -> Result<(), Error> {
        each!(self, carrier => carrier.close_async().await)
    }
}

impl Carrier {
    /// What carries the connection.
    pub(crate) fn method(&self) -> Method {
        match self {
            Self::Xtp(_) => Method::Xtp,
            Self::Framed(framed) => framed.method(),
            Self::Zcrp(_) => Method::Zcrp,
            Self::Vrp(_) => Method::Vrp,
            Self::A1(_) | Self::Cast(_) => Method::A1,
        }
    }

    /// No memory is had from now on for messages of more than `longest` bytes, which are refused, where the method would collect
    /// as much of them as the peer sends. Frames of VRP, and messages of A1, have limits that were agreed on.
    pub(crate) fn limit(&mut self, longest: u64) {
        match self {
            Self::Xtp(carrier) => carrier.limit(longest),
            Self::Framed(carrier) => carrier.limit(longest),
            Self::Zcrp(carrier) => carrier.limit(longest),
            Self::Vrp(_) | Self::A1(_) | Self::Cast(_) => {}
        }
    }

    /// What has gone wrong, in the light of what the peer has said: whoever does not answer may have closed or broken off before,
    /// and each method has its own words for it.
    #[cold]
    pub(crate) fn explained(&self, error: Error) -> Error {
        if !error.is_of_absent_peer() {
            return error;
        }
        if let Err(broken) = self.look_for_break() {
            return broken;
        }
        if error.is_of_end() || self.has_heard_end() {
            return ConnectionError::Left { method: self.method() }.into();
        }
        error
    }
}

/// Copies what was received, if anything, or hands it to `put_back` if it is too long: it is the next to be received again.
/// Whoever has a turn keeps it until then: another would take what comes behind, and hold up this one.
fn place(
    received: Option<Received>,
    buffer: &mut [u8],
    put_back: impl FnOnce(Received),
) -> Result<Option<ReceivedInto>, Error> {
    let Some(received) = received else { return Ok(None) };
    let (len, most) = (received.len(), buffer.len() as u64);
    let Some(to) = buffer.get_mut(..len) else {
        put_back(received);
        return Err(Error::MessageTooLong(most));
    };
    to.copy_from_slice(&received);
    Ok(Some(received.told()))
}

/// How often, at least, it is looked whether a peer that is told the end has gone itself.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until the peer knows that this is the end, behind all that was sent. One whose host says that it has closed its
/// socket needs to know nothing more: more often than it had `before` the end was said. Of one that has broken off, `check`
/// says so.
fn farewell(
    deadline: Option<Instant>,
    flush: impl Fn(Option<Instant>) -> Result<(), Error>,
    (before, unreachable): (u64, impl Fn() -> u64),
    check: impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    looking(deadline, LOOK, flush, || if unreachable() > before { Some(Ok(())) } else { check().err().map(Err) })
}

/// How long a peer over a slow path may take to hear that this is no end in order.
const LONGEST_LAST_WORDS: Duration = Duration::from_secs(2);

/// Waits until the peer knows that this is no end in order, until the deadline; and over a slow path, as long as something
/// comes back (`heard` counts that), a while longer. Whoever has others to serve, and a deadline that has passed, waits for
/// nothing.
fn last_words(
    deadline: Instant,
    flush: impl Fn(Option<Instant>) -> Result<(), Error>,
    (before, unreachable): (u64, impl Fn() -> u64),
    heard: impl Fn() -> u64,
) {
    let (begin, mut until) = (Instant::now(), deadline);
    let patience = deadline.saturating_duration_since(begin);
    loop {
        let heard_before = heard();
        let told = farewell(Some(until), &flush, (before, &unreachable), || Ok(()));
        let is_slow = matches!(told, Err(Error::Timeout)) && heard() > heard_before;
        if !is_slow || patience.is_zero() || begin.elapsed() >= LONGEST_LAST_WORDS {
            return;
        }
        until = Instant::now() + patience;
    }
}

/// Waits as `flush` does, and `look`s so often, and more often at first, whether it has come to something else.
fn looking(
    deadline: Option<Instant>,
    often: Duration,
    flush: impl Fn(Option<Instant>) -> Result<(), Error>,
    look: impl Fn() -> Option<Result<(), Error>>,
) -> Result<(), Error> {
    let mut pause = often / 32;
    loop {
        let until = Instant::now() + pause;
        pause = often.min(pause * 2);
        let is_last = deadline.is_some_and(|deadline| deadline <= until);
        let flushed = flush(if is_last { deadline } else { Some(until) });
        if !matches!(flushed, Err(Error::Timeout)) {
            return flushed;
        }
        match look() {
            Some(found) => return found,
            None if is_last => return flushed,
            None => {}
        }
    }
}

/// Messages that wait to be received while it is looked for what comes behind them: nobody may ever want them.
const MOST_AHEAD: usize = 64;
/// Their bytes; one message goes alone, however long it is.
const MOST_BYTES_AHEAD: usize = 8 << 20;

/// Whether another one may come beside those of so many bytes each.
fn looks_ahead(waiting: impl Iterator<Item = usize>) -> bool {
    let (count, bytes) = waiting.take(MOST_AHEAD).fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
    count < MOST_AHEAD && bytes < MOST_BYTES_AHEAD
}

/// What is left until then; `None`: for ever.
pub(crate) fn left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}

/// What is left of `most` until the deadline.
pub(crate) fn at_most(most: Duration, deadline: Option<Instant>) -> Duration {
    left(deadline).map_or(most, |left| left.min(most))
}
