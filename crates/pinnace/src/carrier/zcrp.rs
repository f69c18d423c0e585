//! A connection over ZCRP: messages into buffers that are posted ahead, in pieces ([`pieces`](super::pieces)).
//!
//! Always true: so many buffers wait as [`buffers`] says, whoever receives; a message that fits one of them is delivered
//! where it was received, and is copied once otherwise; what the connection says itself is told to no application.

use super::alarm::within;
use super::in_vain::InVain;
use super::pieces::{self, Pool, buffers};
use super::room::{self, Bounded, Looks};
use super::silence::Silence;
use super::turn::{Held, Turn};
use super::{
    Awaited, Carry, MOST_AHEAD, Received, ReceivedInto, Sending, Special, at_most, farewell, last_words, looking,
    looks_ahead, place,
};
use crate::endpoint::ConnectionError;
use crate::lock::{Lock, Locked};
use crate::rendezvous::{Control, Kind};
use crate::service::{Method, Service};
use crate::zcrp::{Failure, Progress, Receiver, Receiving, Refused, Sender};
use crate::{Error, Message, Unsent, memory};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often whoever connects looks whether the peer has been heard of.
const HEARD: Duration = Duration::from_millis(2);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Zcrp {
    sender: Sender,
    receiver: Receiver,
    nonce: u64,
    /// Bytes of a piece to the peer.
    piece: usize,
    longest: u64,
    pool: Arc<Pool>,
    /// Held while the pieces of a message are queued, which belong together.
    sending: Lock<Phase>,
    incoming: Turn<Incoming>,
    /// The peer has not answered for too long, as one of the halves knows. The other would find out by itself, and late.
    is_gone: AtomicBool,
    silence: Silence,
    looks: Looks,
}

/// How far sending is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// Nothing more is queued.
    Over,
    /// The end is queued, too.
    EndQueued,
    /// What had not arrived was given up.
    GivenUp,
}

/// What is to come.
#[derive(Debug, Default)]
struct Incoming {
    posted: VecDeque<Receiving>,
    /// The pieces of a message that has not come whole.
    partial: Vec<u8>,
    /// It is longer than the limit, or than there is memory for, so that its other pieces are of no use.
    is_too_long: bool,
    /// Messages that whoever received them had no room for, or that came before what was looked for.
    again: VecDeque<Received>,
    /// What has failed behind them.
    failed: Option<Error>,
    has_ended: bool,
    /// That was no end in order.
    is_broken_off: bool,
    /// The last question whether the peer is there, if it was not answered.
    asked: Option<crate::zcrp::Sending>,
}

impl Incoming {
    /// What came before, and waits.
    fn ready(&mut self) -> Option<Result<Option<Received>, Error>> {
        self.again.pop_front().map(|received| Ok(Some(received))).or_else(|| self.failed.take().map(Err))
    }
}

impl Zcrp {
    /// `piece`: the bytes of a piece, which both ends have agreed on; `timeout`: how long the peer may be silent. Nothing is received before [`Zcrp::invite`].
    pub(crate) fn new(halves: (Sender, Receiver), nonce: u64, piece: u32, longest: u64, timeout: Duration) -> Self {
        let (sender, receiver) = halves;
        let incoming = Turn::new(Incoming::default());
        let (pool, sending) = (Pool::new(piece), Lock::default());
        let (is_gone, silence, looks) = (AtomicBool::new(false), Silence::new(timeout), Looks::new());
        let piece = piece as usize;
        Self { sender, receiver, nonce, piece, longest, pool, sending, incoming, is_gone, silence, looks }
    }

    /// Messages in pieces of no more than `longest` bytes each are collected from now on.
    pub(super) fn limit(&mut self, longest: u64) {
        self.longest = longest;
    }

    /// Whether messages of so many bytes are one piece, which is not copied.
    pub(crate) fn is_in_place(&self, largest: u64) -> bool {
        largest < self.piece as u64
    }

    /// Asks for messages. Whoever connects says OPEN first: the other end throws away what comes before the introduction,
    /// and requests that were lost are repeated only after the time-out of a path that nobody has measured yet.
    pub(crate) fn invite(&self) -> Result<(), Error> {
        match self.incoming.take(None) {
            Some(mut incoming) => self.post(&mut incoming),
            None => Ok(()),
        }
    }

    /// Buffers wait for what comes.
    fn post(&self, incoming: &mut Incoming) -> Result<(), Error> {
        while incoming.posted.len() < buffers(self.pool.piece() as u32) {
            self.pool.stock()?;
            incoming.posted.push_back(self.receiver.post(self.pool.take()).map_err(|unsent| unsent.error)?);
        }
        Ok(())
    }

    /// The same, where none waits any more: each was lost to a failure, which is what there is to say.
    fn repost(&self, incoming: &mut Incoming) -> Result<(), Error> {
        if !incoming.posted.is_empty() {
            return Ok(());
        }
        self.check_gone()?;
        self.post(incoming)
    }

    /// What has come in the first buffer. `None`: nothing for the application, or not the end of its message.
    fn on_piece(&self, incoming: &mut Incoming, message: Message) -> Result<Option<Received>, Error> {
        // What has come has come, even if nothing more can: that is told when there is nothing else.
        let _ = self.post(incoming);
        incoming.asked = None;
        let is_last = message.len() < self.pool.piece();
        let is_whole = is_last && incoming.partial.is_empty() && !incoming.is_too_long;
        if is_last
            && Control::may_be(&message, self.nonce)
            && let Ok(control) = Control::parse(&message, Some(self.nonce))
            // What was given up may have begun.
            && (is_whole || control.kind == Kind::Abort)
        {
            incoming.has_ended |= matches!(control.kind, Kind::End | Kind::Abort);
            incoming.is_broken_off |= control.kind == Kind::Abort;
            self.looks.hear(incoming.has_ended);
            self.pool.give_back(message);
            return Ok(None);
        }
        if is_whole {
            return Ok(Some(Received::posted(message, Arc::downgrade(&self.pool))));
        }
        if incoming.is_too_long {
            incoming.is_too_long = !is_last;
            self.pool.give_back(message);
            return Ok(None);
        }
        if (incoming.partial.len() + message.len()) as u64 > self.longest {
            (incoming.partial, incoming.is_too_long) = (Vec::new(), !is_last);
            self.pool.give_back(message);
            return Err(Error::MessageTooLong(self.longest));
        }
        if let Err(error) = memory::make_room(&mut incoming.partial, message.len()) {
            (incoming.partial, incoming.is_too_long) = (Vec::new(), !is_last);
            self.pool.give_back(message);
            return Err(error);
        }
        incoming.partial.extend_from_slice(&message);
        self.pool.give_back(message);
        Ok(is_last.then(|| Received::bytes(std::mem::take(&mut incoming.partial), Vec::new())))
    }

    /// An error if the peer has broken off what we send, for which somebody has `waited`.
    fn check_peer(&self, waited: Duration) -> Result<(), Error> {
        self.looks.check(waited, || self.look_for_break())
    }

    /// Nothing more comes.
    fn end(&self, incoming: &Incoming) -> Result<Option<Received>, Error> {
        if incoming.is_broken_off { Err(ConnectionError::BrokenOff { method: Method::Zcrp }.into()) } else { Ok(None) }
    }

    /// An error if the peer has not answered what it was asked, or sent.
    fn check_answer(&self, incoming: &mut Incoming) -> Result<(), Error> {
        if let Some(asked) = incoming.asked.take() {
            match asked.probe() {
                None => incoming.asked = Some(asked),
                Some(result) => drop(result?),
            }
        }
        self.check_gone()
    }

    /// An error if something was sent that the peer has not answered for too long. Nothing more can be.
    fn check_gone(&self) -> Result<(), Error> {
        let is_gone = || matches!(self.sender.closed(), Some(Failure::PeerGone | Failure::Swallowed));
        if self.is_gone.load(Ordering::Relaxed) || is_gone() { Err(Error::Failed(Failure::PeerGone)) } else { Ok(()) }
    }

    /// Why nothing more comes.
    fn failed(&self, error: Error) -> Error {
        if let Error::Failed(failure) | Error::Refused(Refused::Closed(failure)) = &error
            && matches!(failure, Failure::PeerGone | Failure::Swallowed)
        {
            self.is_gone.store(true, Ordering::Relaxed);
        }
        error
    }

    /// Finds out whether the peer that has been silent is there.
    fn ask(&self, incoming: &mut Incoming) -> Result<(), Error> {
        self.check_answer(incoming)?;
        if incoming.asked.is_none() {
            incoming.asked = Some(self.control(Kind::Alive)?);
        }
        Ok(())
    }

    /// Waits for the first message, in which the peer says who it is.
    pub(crate) async fn opened(&self) -> Result<Control, Error> {
        let mut incoming = self.incoming.take_async().await;
        let message = incoming.posted.front_mut().ok_or_else(no_buffers)?.await;
        incoming.posted.pop_front();
        let message = message.map_err(|unsent| unsent.error)?;
        let _ = self.post(&mut incoming);
        Control::parse(&message, Some(self.nonce)).map_err(|_| no_buffers())
    }

    /// Says OPEN, and waits until the peer has been heard of: it has asked for messages, or has OPEN.
    pub(crate) fn open(&self, control: &Control, deadline: Instant) -> Result<(), Error> {
        let opening = self.say(control)?;
        self.invite()?;
        let is_asked = || self.sender.counters().requests_received > 0;
        let flush = |until| self.sender.flush_until(until);
        looking(Some(deadline), HEARD, flush, || is_asked().then_some(Ok(())))?;
        opening.probe().map_or(Ok(()), |sent| sent.map(drop))
    }

    fn sending(&self) -> Locked<'_, Phase> {
        self.sending.lock()
    }

    /// An error if what had not arrived was given up here: whoever waits for it waits in vain.
    fn check_own(&self) -> Result<(), Error> {
        if *self.sending() == Phase::GivenUp { Err(ConnectionError::Closed.into()) } else { Ok(()) }
    }

    fn stop_sending(&self) {
        let mut phase = self.sending();
        if *phase == Phase::Open {
            *phase = Phase::Over;
        }
    }

    pub(crate) fn unreachable(&self) -> u64 {
        self.sender.counters().unreachable_reports
    }

    /// The end goes behind all that is queued, once.
    fn queue_end(&self) -> Result<(), Error> {
        let mut phase = self.sending();
        if !matches!(*phase, Phase::EndQueued | Phase::GivenUp) {
            let end = Message::from_vec(Control::new(Kind::End, self.nonce).encode());
            drop(self.sender.send(end).map_err(|unsent| unsent.error)?);
            *phase = Phase::EndQueued;
        }
        Ok(())
    }

    fn control(&self, kind: Kind) -> Result<crate::zcrp::Sending, Error> {
        self.say(&Control::new(kind, self.nonce))
    }

    /// Sends a word of the connection's own.
    fn say(&self, control: &Control) -> Result<crate::zcrp::Sending, Error> {
        let phase = self.sending();
        if *phase == Phase::GivenUp {
            return Err(ConnectionError::Closed.into());
        }
        self.sender.send(Message::from_vec(control.encode())).map_err(|unsent| unsent.error)
    }

    /// The next message.
    fn come(&self, incoming: &mut Incoming, deadline: Option<Instant>) -> Result<Option<Received>, Error> {
        if let Some(ready) = incoming.ready() {
            return ready;
        }
        let mut in_vain = InVain::default();
        while !incoming.has_ended {
            self.repost(incoming)?;
            let first = incoming.posted.pop_front().ok_or_else(no_buffers)?;
            let wait = at_most(self.silence.interval(), deadline);
            match first.wait_timeout(wait) {
                Progress::Ended(Ok(message)) => {
                    self.silence.end();
                    if let Some(received) = self.on_piece(incoming, message)? {
                        return Ok(Some(received));
                    }
                    if !incoming.has_ended && in_vain.is_over(deadline) {
                        self.receiver.signal_readiness();
                        return Err(Error::Timeout);
                    }
                }
                Progress::Ended(Err(unsent)) => return Err(self.failed(unsent.error)),
                Progress::UnderWay(first) => {
                    incoming.posted.push_front(first);
                    let now = Instant::now();
                    // Many short waits are as long as one.
                    if self.silence.is_due(now, wait) {
                        self.ask(incoming)?;
                    } else {
                        self.check_answer(incoming)?;
                    }
                    if deadline.is_some_and(|deadline| deadline <= now) {
                        return Err(Error::Timeout);
                    }
                }
            }
        }
        self.end(incoming)
    }

    /// The same, for tasks.
    async fn come_async(&self, incoming: &mut Incoming) -> Result<Option<Received>, Error> {
        if let Some(ready) = incoming.ready() {
            return ready;
        }
        let mut in_vain = InVain::default();
        while !incoming.has_ended {
            self.repost(incoming)?;
            let first = incoming.posted.front_mut().ok_or_else(no_buffers)?;
            let asks = self.silence.asks_at(Instant::now(), Duration::ZERO);
            let Some(message) = within(asks, first).await else {
                if self.silence.is_due(Instant::now(), Duration::ZERO) {
                    self.ask(incoming)?;
                }
                continue;
            };
            self.silence.end();
            incoming.posted.pop_front();
            if let Some(received) = self.on_piece(incoming, message.map_err(|unsent| self.failed(unsent.error))?)? {
                return Ok(Some(received));
            }
            in_vain.pass().await;
        }
        self.end(incoming)
    }

    fn take(&self, deadline: Option<Instant>) -> Result<Held<'_, Incoming>, Error> {
        self.incoming.take(deadline).ok_or(Error::Timeout)
    }
}

fn no_buffers() -> Error {
    ConnectionError::Unfinished { method: Method::Zcrp }.into()
}

impl Bounded for Zcrp {
    fn begin(&self, message: Message, _: Option<&Special>, waited: Duration) -> Result<Sending, Unsent> {
        if let Err(error) = self.check_peer(waited) {
            return Err(Unsent::new(message, error));
        }
        let phase = self.sending();
        if *phase != Phase::Open {
            return Err(Unsent::new(message, ConnectionError::Closed));
        }
        if self.is_gone.load(Ordering::Relaxed) {
            return Err(Unsent::new(message, Error::Failed(Failure::PeerGone)));
        }
        if message.len() < self.piece {
            return self.sender.send_if_room(message).map(Sending::Zcrp);
        }
        if !self.sender.has_room(message.len()) {
            return Err(Unsent::new(message, Error::Refused(Refused::TooMany)));
        }
        let (whole, parts) = pieces::split(message, self.piece);
        let mut queued = VecDeque::with_capacity(parts.len());
        for part in parts {
            match self.sender.send(part) {
                Ok(sending) => queued.push_back(sending),
                Err(unsent) => {
                    drop((queued, unsent.message));
                    return Err(Unsent::new(Arc::try_unwrap(whole).ok(), unsent.error));
                }
            }
        }
        Ok(Sending::Pieces(queued, whole))
    }

    fn wait_for_room(&self, len: usize, until: Instant) -> Result<(), Error> {
        self.sender.wait_for_room(len, until)
    }

    async fn wait_for_room_async(&self, len: usize) -> Result<(), Error> {
        within(Instant::now() + room::LOOK, self.sender.wait_for_room_async(len)).await.unwrap_or(Ok(()))
    }

    fn progress(&self) -> Result<(), Error> {
        self.sender.progress()
    }
}

impl Carry for Zcrp {
    fn send(&self, message: Message, special: Option<&Special>, deadline: Option<Instant>) -> Result<Sending, Unsent> {
        room::send(self, message, special, deadline)
    }

    fn try_send(&self, message: Message, special: Option<&Special>) -> Result<Sending, Unsent> {
        room::try_send(self, message, special)
    }

    async fn send_async(&self, message: Message, special: Option<&Special>) -> Result<Sending, Unsent> {
        room::send_async(self, message, special).await
    }

    fn recv(&self, deadline: Option<Instant>) -> Result<Option<Received>, Error> {
        let mut incoming = self.take(deadline)?;
        self.come(&mut incoming, deadline)
    }

    async fn recv_async(&self) -> Result<Option<Received>, Error> {
        let mut incoming = self.incoming.take_async().await;
        self.come_async(&mut incoming).await
    }

    fn recv_into(&self, buffer: &mut [u8], deadline: Option<Instant>) -> Result<Option<ReceivedInto>, Error> {
        let mut incoming = self.take(deadline)?;
        let received = self.come(&mut incoming, deadline)?;
        place(received, buffer, |received| incoming.again.push_front(received))
    }

    async fn recv_into_async(&self, buffer: &mut [u8]) -> Result<Option<ReceivedInto>, Error> {
        let mut incoming = self.incoming.take_async().await;
        let received = self.come_async(&mut incoming).await?;
        place(received, buffer, |received| incoming.again.push_front(received))
    }

    fn flush(&self, deadline: Option<Instant>) -> Result<(), Error> {
        looking(deadline, room::LOOK, |until| self.sender.flush_until(until), || self.look_for_break().err().map(Err))?;
        self.check_own()?;
        self.check_gone()
    }

    async fn flush_async(&self) -> Result<(), Error> {
        loop {
            match within(Instant::now() + room::LOOK, self.sender.flush_async()).await {
                Some(flushed) => return flushed.and_then(|()| self.check_own()).and_then(|()| self.check_gone()),
                None => self.look_for_break()?,
            }
        }
    }

    fn set_service(&self, service: &Service) -> Result<(), String> {
        // Nothing else that a service says changes what this protocol does.
        if service.in_place && !self.is_in_place(service.largest_bytes()) {
            return Err("its buffers were agreed on for shorter messages: connect anew".to_owned());
        }
        Ok(())
    }

    /// What came before is kept.
    fn look_for_break(&self) -> Result<(), Error> {
        self.check_own()?;
        // Who has its turn finds out.
        let Some(mut incoming) = self.incoming.take(Some(Instant::now())) else { return Ok(()) };
        for _ in 0..MOST_AHEAD {
            let waiting = incoming.again.iter().map(|received| received.len());
            if incoming.is_broken_off || incoming.failed.is_some() || !looks_ahead(waiting) {
                break;
            }
            let Some(first) = incoming.posted.pop_front() else { break };
            let came = match first.wait_timeout(Duration::ZERO) {
                Progress::Ended(Ok(message)) => self.on_piece(&mut incoming, message),
                Progress::Ended(Err(unsent)) => Err(self.failed(unsent.error)),
                Progress::UnderWay(first) => {
                    incoming.posted.push_front(first);
                    break;
                }
            };
            match came {
                Ok(received) => incoming.again.extend(received),
                // Behind the end nothing is missing.
                Err(_) if incoming.has_ended => break,
                Err(error) => incoming.failed = Some(error),
            }
            // Whoever sleeps on the descriptor does not see what was taken here.
            self.receiver.signal_readiness();
        }
        self.end(&incoming).map(drop)
    }

    fn waiting_bytes(&self) -> Option<u64> {
        let incoming = self.incoming.take(Some(Instant::now()))?;
        incoming.again.front().map(|received| received.len() as u64)
    }

    fn has_heard_end(&self) -> bool {
        self.looks.has_heard_end()
    }

    fn round_trip(&self) -> Option<Duration> {
        self.sender.round_trip()
    }

    fn check(&self) -> Result<(), Error> {
        self.look_for_break()?;
        self.check_gone()?;
        if self.silence.is_due(Instant::now(), Duration::ZERO)
            && let Some(mut incoming) = self.incoming.take(Some(Instant::now()))
        {
            self.ask(&mut incoming)?;
        }
        Ok(())
    }

    fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        self.receiver.readiness_fd()
    }

    fn clear(&self) {
        self.receiver.clear_readiness();
    }

    fn close(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.stop_sending();
        self.check_peer(Duration::ZERO)?;
        let flushed = self.flush(deadline);
        let before = self.unreachable();
        if matches!(flushed, Ok(()) | Err(Error::Timeout)) {
            self.queue_end()?;
        }
        flushed?;
        let flush = |until| self.sender.flush_until(until);
        farewell(deadline, flush, (before, || self.unreachable()), || self.look_for_break())?;
        self.check_own()
    }

    fn hand_over(&self) {
        self.sender.hand_over();
    }

    fn awaited(&self) -> Awaited {
        if *self.sending() == Phase::GivenUp {
            let is_told = !matches!(self.sender.flush_until(Some(Instant::now())), Err(Error::Timeout));
            return if is_told { Awaited::Nothing } else { Awaited::Acknowledgement };
        }
        let is_broken = self.look_for_break().is_err();
        let Some(incoming) = self.incoming.take(Some(Instant::now())) else { return Awaited::Nothing };
        let is_unwanted = !incoming.again.is_empty() || !incoming.partial.is_empty();
        if is_broken || is_unwanted || incoming.failed.is_some() {
            return Awaited::Nothing;
        }
        if incoming.has_ended { Awaited::repetitions(self.sender.round_trip()) } else { Awaited::End }
    }

    fn abort(&self, deadline: Instant) {
        if std::mem::replace(&mut *self.sending(), Phase::GivenUp) == Phase::GivenUp {
            return;
        }
        // Nobody else sends from now on. With no lock held: a task that finds out here what has failed may look at this, too.
        self.sender.withdraw();
        let before = self.unreachable();
        // The peer hears of it behind what has begun to travel, and not behind all that was queued.
        let told = self.sender.send(Message::from_vec(Control::new(Kind::Abort, self.nonce).encode()));
        if told.is_ok() {
            let heard = || self.sender.counters().acknowledgements_received;
            last_words(deadline, |until| self.sender.flush_until(until), (before, || self.unreachable()), heard);
        }
        // Whoever receives waits no longer.
        let _ = self.receiver.begin_close();
    }
}
