//! A connection over VRP: frames under a contract, one association each way.
//!
//! Always true: frames of nobody but the peer are delivered, and all of them; where order is wanted, a frame waits for those
//! before it as long as they are worth it, and whoever receives it is told if they did not come, and which come late; what
//! the connection says itself may not be lost, and is told to no application; whoever sends is told of a frame that is lost
//! beyond its contract, because its receiver has refused it or is gone: by its delivery, or if nobody has that any more, by
//! the next call that sends, flushes or closes. Where the service is best effort that is no loss to tell of.

use super::alarm::{Alarm, within};
use super::received::Position;
use super::room::{self, Bounded};
use super::silence::Silence;
use super::turn::{Held, Turn};
use super::{Carry, LOOK, Received, ReceivedInto, Sending, Special, farewell, left, place};
use crate::endpoint::ConnectionError;
use crate::rendezvous::{Control, Kind};
use crate::service::{Method, Reliability, Service};
use crate::vrp::{Contract, Failure, Frame, Losses, Receiver, Sender};
use crate::{Error, Message, Unsent};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// How long a frame waits for those before it, if nothing says how long they are worth waiting for. Longer than a sender
/// goes on with a receiver that is silent; what its receiver refuses never comes.
const PATIENCE: Duration = Duration::from_secs(30);
/// At most so long, if its receiver has refused some meanwhile: what it waits for may be one of these.
const REFUSED_PATIENCE: Duration = Duration::from_secs(1);
/// After so long the end is said again that was refused.
const REFUSED: Duration = Duration::from_millis(20);
/// So many signs of life may be lost one after the other.
const SIGNS: u32 = 4;
/// Numbers of frames, after which they begin again.
const NUMBERS: u64 = 1 << 15;
/// No frame is waited for by so many behind it: its sender lets none be further ahead of one that is under way.
const FAR: u64 = NUMBERS / 4;

/// The ways of a connection that it has.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// Where the sender sends to.
    pub(crate) to: Option<SocketAddr>,
    pub(crate) out: Option<Sender>,
    pub(crate) back: Option<Receiver>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Vrp {
    to: Option<SocketAddr>,
    out: Option<Sender>,
    back: Option<Receiver>,
    nonce: u64,
    /// A peer of which nothing has come for so long is gone, if it shows that it is there and cannot be asked.
    longest_silence: Option<Duration>,
    /// Words of ours that were refused.
    unheard: AtomicU32,
    terms: Mutex<Terms>,
    incoming: Turn<Incoming>,
}

/// What a service says about each frame.
#[derive(Clone, Debug, Default)]
struct Terms {
    contract: Option<Contract>,
    /// Where the last critical byte ends.
    critical_end: u64,
    deadline: Option<Duration>,
    lifespan: Option<Duration>,
    /// A whole frame may be lost as well as a part of one.
    is_best_effort: bool,
    /// The end has been reached, behind which nothing is sent.
    is_over: bool,
}

impl Terms {
    fn of(service: &Service) -> Self {
        let (deadline, lifespan) = (service.deadline, service.lifespan);
        let is_best_effort = service.reliability == Reliability::BestEffort;
        let of = |contract: Contract| {
            let critical_end = critical(&contract).iter().map(|range| range.end).max().unwrap_or(0);
            Self { contract: Some(contract), critical_end, deadline, lifespan, is_best_effort, is_over: false }
        };
        match &service.reliability {
            Reliability::Full => Self { deadline, lifespan, ..Self::default() },
            Reliability::Bounded(contract) => of(contract.clone()),
            Reliability::BestEffort => of(Contract::new().loss_percent(100.0).any_run()),
        }
    }
}

fn critical(contract: &Contract) -> Vec<std::ops::Range<u64>> {
    contract.clone().into_terms().critical
}

/// The contract for a frame of `len` bytes: what is critical of larger ones may lie behind its end.
fn fitting(contract: &Contract, len: u64) -> Contract {
    let terms = contract.clone().into_terms();
    let mut fitting = Contract::new().loss_rate(terms.rate.unwrap_or(0)).run_bytes(terms.run_bytes.unwrap_or(0));
    if let Some(floor) = terms.floor {
        fitting = fitting.adaptive_from_percent(f64::from(floor) * 100.0 / 255.0);
    }
    for range in terms.critical {
        fitting = fitting.critical(range.start.min(len)..range.end.min(len));
    }
    fitting
}

/// What has come.
#[derive(Debug)]
struct Incoming {
    /// Who sends; `None` until it has said who it is.
    source: Option<SocketAddr>,
    is_ordered: bool,
    patience: Duration,
    /// The number of the next frame, counted on without end.
    next: Option<u64>,
    /// Frames that came before their turn, and when the first of them did.
    early: BTreeMap<u64, crate::vrp::Received>,
    since: Option<Instant>,
    silence: Silence,
    /// Makes the descriptor readable when it is time to look again.
    alarm: Option<Alarm>,
    /// Numbers of the connection's own words that came before their turn.
    words: BTreeSet<u64>,
    /// Frames of the peer's refused, of which it is known that they are missing.
    refused: u64,
    /// More have been refused.
    is_hurried: bool,
    /// Messages that whoever received them had no room for.
    again: VecDeque<Received>,
    /// The number behind the last frame.
    end: Option<u64>,
    /// It was no end in order.
    is_broken_off: bool,
    /// Numbers before it of words that were lost.
    unheard: u64,
    asked: Option<crate::vrp::Sending>,
}

impl Incoming {
    /// Nobody has been heard.
    fn new(is_ordered: bool, patience: Duration) -> Self {
        Self {
            source: None,
            is_ordered,
            patience,
            next: None,
            early: BTreeMap::new(),
            since: None,
            silence: Silence::new(),
            alarm: None,
            words: BTreeSet::new(),
            refused: 0,
            is_hurried: false,
            again: VecDeque::new(),
            end: None,
            is_broken_off: false,
            unheard: 0,
            asked: None,
        }
    }

    /// The whole number of a frame: the nearest to the next one.
    fn unwrap_number(&self, number: u16) -> u64 {
        let number = u64::from(number);
        let Some(next) = self.next else { return number + NUMBERS };
        let ahead = (number + NUMBERS - next % NUMBERS) % NUMBERS;
        if ahead < NUMBERS / 2 { next + ahead } else { (next + ahead).saturating_sub(NUMBERS) }
    }

    /// Everything below `next` has come, or is not waited for any longer. Returns how many messages those are that were
    /// expected, and have not come.
    fn advance(&mut self, next: u64) -> u64 {
        let before = self.next.unwrap_or(next).min(next);
        let mut words = 0;
        if !self.words.is_empty() {
            let behind = self.words.split_off(&next);
            words = std::mem::replace(&mut self.words, behind).into_iter().filter(|number| *number >= before).count()
                as u64;
        }
        let mut next = next.max(self.next.unwrap_or(next));
        let missed = next - before - words;
        while self.words.remove(&next) {
            next += 1;
        }
        self.next = Some(next);
        missed
    }

    /// A word of the connection's own has come.
    fn on_word(&mut self, number: u64) {
        match self.next {
            Some(next) if number == next => {
                self.advance(number + 1);
            }
            Some(next) if number > next => {
                self.words.insert(number);
            }
            _ => {}
        }
    }

    fn patience(&self) -> Duration {
        if self.is_hurried { self.patience.min(REFUSED_PATIENCE) } else { self.patience }
    }

    /// Messages that are missing before the end, once it has been said.
    fn missing(&self) -> u64 {
        match (self.end, self.next) {
            (Some(end), Some(next)) if self.is_ordered => {
                let words = self.words.range(next..end.max(next)).count() as u64;
                end.saturating_sub(next).saturating_sub(words + self.unheard)
            }
            _ => 0,
        }
    }

    /// A frame that is due.
    fn due(&mut self, now: Instant) -> Option<Received> {
        let first = *self.early.first_key_value()?.0;
        let is_next = self.next.is_none_or(|next| first <= next);
        // Behind the end nothing comes, and what is so far behind the newest has been given up.
        let newest = self.early.last_key_value().map_or(first, |(newest, _)| *newest);
        let is_over = self.end.is_some() || self.next.is_some_and(|next| newest.saturating_sub(next) > FAR);
        let is_late = is_over || self.since.is_none_or(|since| since + self.patience() <= now);
        if self.is_ordered && !is_next && !is_late {
            return None;
        }
        let is_late = self.is_ordered && self.next.is_some_and(|next| first < next);
        let missed = if is_late { 0 } else { self.advance(first) };
        let missed = if self.is_ordered { missed } else { 0 };
        self.advance(first + 1);
        let frame = self.early.remove(&first)?;
        self.since = (!self.early.is_empty()).then_some(now);
        Some(Received::frame(frame, Position { missed, is_late }))
    }

    /// When to look again, where nothing is due.
    fn look_at(&self, now: Instant) -> Instant {
        match self.since {
            Some(since) => since + self.patience(),
            None => self.silence.asks_at(now, Duration::ZERO),
        }
    }

    /// Nobody waits any more for what is early, or finds out whether a silent peer is there; but an event loop may.
    fn set_alarm(&mut self, now: Instant, waker: impl FnOnce() -> Option<Waker>) {
        let at = self.look_at(now);
        // One that has come may have been taken for what was looked for in vain: that wakes once more, and at once.
        if at <= now || self.alarm.as_ref().map(Alarm::at) != Some(at) {
            self.alarm = waker().map(|waker| Alarm::set(at, &waker));
        }
    }

    /// Whether nothing more comes.
    fn is_over(&self) -> bool {
        self.early.is_empty() && self.end.is_some()
    }

    /// What a receiver is told then.
    fn outcome(&self) -> Result<Option<Received>, Error> {
        if self.is_broken_off { Err(ConnectionError::BrokenOff { method: Method::Vrp }.into()) } else { Ok(None) }
    }
}

impl Vrp {
    /// `source`: who sends, and the number of its first frame, which was taken; otherwise it is the first who says the nonce.
    pub(crate) fn new(ways: Ways, nonce: u64, service: &Service, source: Option<(SocketAddr, u16)>) -> Self {
        let patience = service.lifespan.or(service.deadline).unwrap_or(PATIENCE);
        let incoming = Incoming {
            source: source.map(|(source, _)| source),
            next: source.map(|(_, number)| u64::from(number) + NUMBERS + 1),
            ..Incoming::new(service.order, patience)
        };
        let Ways { to, out, back } = ways;
        let (terms, incoming) = (Mutex::new(Terms::of(service)), Turn::new(incoming));
        Self { to, out, back, nonce, longest_silence: None, unheard: AtomicU32::new(0), terms, incoming }
    }

    /// The peer shows so often that it is there, if it sends nothing else: `timeout` is how long it may be silent, or some
    /// of these signs, which may be lost.
    pub(crate) fn with_signs_of_life(self, signs: Duration, timeout: Duration) -> Self {
        // Whoever shows itself less often is forgotten before.
        let is_in_time = signs * 2 <= timeout;
        Self { longest_silence: is_in_time.then(|| timeout.max(signs * SIGNS)), ..self }
    }

    fn terms(&self) -> MutexGuard<'_, Terms> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn out(&self) -> Result<&Sender, Error> {
        self.out.as_ref().ok_or_else(|| one_way("send back"))
    }

    fn back(&self) -> Result<&Receiver, Error> {
        self.back.as_ref().ok_or_else(|| one_way("receive"))
    }

    /// Sends a word of the connection's own.
    pub(crate) fn open(&self, control: &Control) -> Result<crate::vrp::Sending, Error> {
        let frame = Frame::new(Message::from_vec(control.encode())).with_contract(Contract::reliable());
        self.out()?.send(frame).map_err(|unsent| unsent.error)
    }

    /// Puts a frame where it belongs; returns it if it is due at once.
    fn on_frame(&self, incoming: &mut Incoming, frame: crate::vrp::Received) -> Option<crate::vrp::Received> {
        if incoming.source.is_some_and(|source| source != frame.source()) {
            return None;
        }
        incoming.silence.end();
        let number = incoming.unwrap_number(frame.number());
        if Control::may_be(&frame, self.nonce)
            && let Ok(control) = Control::parse(&frame, Some(self.nonce))
        {
            incoming.source = Some(frame.source());
            match control.kind {
                Kind::Open if incoming.next.is_none_or(|next| next <= number) => incoming.next = Some(number),
                Kind::End => (incoming.end, incoming.unheard) = (Some(number), control.piece.into()),
                Kind::Abort => (incoming.end, incoming.is_broken_off) = (Some(number), true),
                Kind::Open | Kind::Alive => {}
            }
            incoming.on_word(number);
            return None;
        }
        if incoming.source.is_some() && incoming.early.is_empty() && incoming.next == Some(number) {
            incoming.advance(number + 1);
            return Some(frame);
        }
        if incoming.source.is_some() {
            incoming.early.insert(number, frame);
            incoming.since = incoming.since.or_else(|| Some(Instant::now()));
        }
        None
    }

    /// A frame that is due, where it is known how long others are worth waiting for.
    fn due(&self, back: &Receiver, incoming: &mut Incoming, now: Instant) -> Option<Received> {
        if !incoming.early.is_empty() {
            let refused = incoming.source.map_or(0, |source| back.refused(source));
            incoming.is_hurried = refused != incoming.refused;
            let due = incoming.due(now);
            // Those that were missing may be as many of the refused, and the others be missing further on.
            let missed = due.as_ref().map_or(0, Received::missed);
            incoming.refused = incoming.refused.saturating_add(missed).min(refused);
            return due;
        }
        None
    }

    /// Finds out whether the peer that has been silent is there, if there is a way to it or it shows it by itself.
    fn ask(&self, incoming: &mut Incoming) -> Result<(), Error> {
        if !incoming.early.is_empty() {
            return Ok(());
        }
        if self.out.is_none() {
            return self.look_for_signs(incoming.source);
        }
        if let Some(asked) = incoming.asked.take() {
            match asked.probe() {
                None => {
                    incoming.asked = Some(asked);
                    return Ok(());
                }
                // Whoever refuses is there. That nobody took this is nothing to tell the application.
                Some(Err(Error::FrameFailed(Failure::Refused))) => self.unheard(asked),
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    drop(asked.wait());
                    return Err(error);
                }
            }
        }
        incoming.asked = Some(self.open(&Control::new(Kind::Alive, self.nonce))?);
        Ok(())
    }

    /// Finds out whether the peer that cannot be asked shows that it is there.
    fn look_for_signs(&self, source: Option<SocketAddr>) -> Result<(), Error> {
        let (Some(longest), Some(source)) = (self.longest_silence, source) else { return Ok(()) };
        match self.back()?.silence_of(source) {
            Some(silence) if silence < longest => Ok(()),
            // Of whom nothing is known any more has been silent for longer.
            _ => Err(Error::FrameFailed(Failure::PeerGone)),
        }
    }

    /// The error that tells of frames that were lost, unless nobody was promised any.
    fn told(&self, losses: Option<Losses>) -> Result<(), Error> {
        let Some(Losses { frames, failure }) = losses else { return Ok(()) };
        if self.terms().is_best_effort {
            return Ok(());
        }
        let peer = self.to.map_or_else(|| "the peer".to_owned(), |to| to.to_string());
        Err(ConnectionError::Undelivered { method: Method::Vrp, peer, messages: frames, why: why(failure) }.into())
    }

    /// Whether all that was sent has arrived, now that nothing is under way.
    fn arrived(&self) -> Result<(), Error> {
        self.told(self.out.as_ref().and_then(Sender::take_losses))
    }

    /// A word of the connection's own was lost, of which the application need not know; but its number is missing.
    fn unheard(&self, word: crate::vrp::Sending) {
        drop(word.wait());
        self.unheard.fetch_add(1, Ordering::Relaxed);
    }

    /// Says that this is the end. The peer may refuse it with all that was before: then it has to be said again.
    fn end(&self) -> Result<crate::vrp::Sending, Error> {
        let piece = self.unheard.load(Ordering::Relaxed);
        self.open(&Control { piece, ..Control::new(Kind::End, self.nonce) })
    }

    /// Whether the peer knows of the end, or can not be told; otherwise it has refused it.
    fn is_told(&self, end: crate::vrp::Sending) -> bool {
        match end.probe() {
            Some(Err(Error::FrameFailed(Failure::Refused))) => {
                self.unheard(end);
                false
            }
            // Who is gone need not be told, and nobody that it was not.
            Some(_) => {
                drop(end.wait());
                true
            }
            None => true,
        }
    }

    fn unreachable(&self) -> u64 {
        self.out.as_ref().map_or(0, |out| out.counters().unreachable_reports)
    }

    fn say_end(&self, deadline: Option<Instant>) -> Result<(), Error> {
        loop {
            let end = self.end()?;
            farewell(deadline, |until| self.out()?.flush_until(until), || self.unreachable())?;
            if self.is_told(end) {
                return Ok(());
            }
            if left(deadline).is_some_and(|left| left < REFUSED) {
                return self.told(Some(Losses { frames: 1, failure: Failure::Refused }));
            }
            std::thread::sleep(REFUSED);
        }
    }

    async fn say_end_async(&self) -> Result<(), Error> {
        let before = self.unreachable();
        loop {
            let end = self.end()?;
            loop {
                match within(Instant::now() + LOOK, self.out()?.flush_async()).await {
                    Some(flushed) => break flushed?,
                    None if self.unreachable() > before => return Ok(()),
                    None => {}
                }
            }
            if self.is_told(end) {
                return Ok(());
            }
            within(Instant::now() + REFUSED, std::future::pending::<()>()).await;
        }
    }

    /// The next message.
    fn come(
        &self,
        back: &Receiver,
        incoming: &mut Incoming,
        deadline: Option<Instant>,
    ) -> Result<Option<Received>, Error> {
        if let Some(again) = incoming.again.pop_front() {
            return Ok(Some(again));
        }
        loop {
            let now = Instant::now();
            if let Some(received) = self.due(back, incoming, now) {
                return Ok(Some(received));
            }
            if incoming.is_over() {
                return incoming.outcome();
            }
            let until = incoming.look_at(now);
            let until = deadline.map_or(until, |deadline| deadline.min(until));
            match back.recv_until(Some(until))? {
                Some(frame) => {
                    if let Some(frame) = self.on_frame(incoming, frame) {
                        return Ok(Some(Received::frame(frame, Position::default())));
                    }
                }
                None => {
                    let now = Instant::now();
                    if incoming.silence.is_due(now, Duration::ZERO) {
                        self.ask(incoming)?;
                    }
                    if deadline.is_some_and(|deadline| deadline <= now) {
                        incoming.set_alarm(now, || back.waker());
                        return Err(Error::Timeout);
                    }
                }
            }
        }
    }

    /// The same, for tasks.
    async fn come_async(&self, back: &Receiver, incoming: &mut Incoming) -> Result<Option<Received>, Error> {
        if let Some(again) = incoming.again.pop_front() {
            return Ok(Some(again));
        }
        loop {
            let now = Instant::now();
            if let Some(received) = self.due(back, incoming, now) {
                return Ok(Some(received));
            }
            if incoming.is_over() {
                return incoming.outcome();
            }
            match within(incoming.look_at(now), back.recv_async()).await {
                None => {
                    if incoming.silence.is_due(Instant::now(), Duration::ZERO) {
                        self.ask(incoming)?;
                    }
                }
                Some(frame) => {
                    if let Some(frame) = self.on_frame(incoming, frame?) {
                        return Ok(Some(Received::frame(frame, Position::default())));
                    }
                }
            }
        }
    }

    fn take(&self, deadline: Option<Instant>) -> Result<Held<'_, Incoming>, Error> {
        self.incoming.take(deadline).ok_or(Error::Timeout)
    }
}

/// What has happened to a frame that is lost, and what to do about it.
fn why(failure: Failure) -> String {
    match failure {
        Failure::Refused => {
            "it has no room, because its application does not take what came before: let it receive, and send again what it \
             lacks; who waits for each delivery, or flushes now and then, never sends so far ahead"
        }
        Failure::PeerGone => "it has not answered for too long: check that it runs, and connect again",
        _ => "it has answered what cannot be, as after a restart: connect again",
    }
    .to_owned()
}

fn one_way(what: &str) -> Error {
    let what = format!("{what}: the service has one direction; say direction=duplex");
    ConnectionError::Cannot { method: Method::Vrp, what }.into()
}

impl Bounded for Vrp {
    fn begin(&self, message: Message, special: Option<&Special>, waited: Duration) -> Result<Sending, Unsent> {
        let out = match self.out() {
            Ok(out) => out,
            Err(error) => return Err(Unsent::new(message, error)),
        };
        let len = message.len() as u64;
        let mut frame = Frame::new(message);
        // Held until the frame has its place, before the end or not at all.
        let terms = self.terms();
        if terms.is_over {
            return Err(Unsent::new(frame.into_message(), ConnectionError::Closed));
        }
        match (special.and_then(|special| special.contract.as_ref()), &terms.contract) {
            (Some(contract), _) => frame = frame.with_contract(fitting(contract, len)),
            (None, Some(contract)) if terms.critical_end > len => frame = frame.with_contract(fitting(contract, len)),
            (None, Some(contract)) => frame = frame.with_contract(contract.clone()),
            (None, None) => {}
        }
        if let Some(deadline) = special.and_then(|special| special.deadline).or(terms.deadline) {
            frame = frame.repeat_for(deadline.saturating_sub(waited));
        }
        if let Some(lifespan) = special.and_then(|special| special.lifespan).or(terms.lifespan) {
            frame = frame.give_up_after(lifespan.saturating_sub(waited));
        }
        let sent = out.send_if_room(frame);
        drop(terms);
        sent.map(Sending::Vrp).map_err(|mut unsent| {
            // It may be losses that are in the way, and not only once they have been told of.
            if unsent.error.would_block()
                && let Err(error) = self.told(out.take_untold())
            {
                unsent.error = error;
            }
            unsent
        })
    }

    fn wait_for_room(&self, len: usize) -> Result<(), Error> {
        self.out()?.wait_for_room(len)
    }

    async fn wait_for_room_async(&self, len: usize) -> Result<(), Error> {
        self.out()?.wait_for_room_async(len).await
    }

    fn progress(&self) -> Result<(), Error> {
        self.out()?.progress()
    }
}

impl Carry for Vrp {
    fn send(&self, message: Message, special: Option<&Special>) -> Result<Sending, Unsent> {
        room::send(self, message, special)
    }

    fn try_send(&self, message: Message, special: Option<&Special>) -> Result<Sending, Unsent> {
        room::try_send(self, message, special)
    }

    async fn send_async(&self, message: Message, special: Option<&Special>) -> Result<Sending, Unsent> {
        room::send_async(self, message, special).await
    }

    fn recv(&self, deadline: Option<Instant>) -> Result<Option<Received>, Error> {
        let back = self.back()?;
        let mut incoming = self.take(deadline)?;
        self.come(back, &mut incoming, deadline)
    }

    async fn recv_async(&self) -> Result<Option<Received>, Error> {
        let back = self.back()?;
        let mut incoming = self.incoming.take_async().await;
        self.come_async(back, &mut incoming).await
    }

    fn recv_into(&self, buffer: &mut [u8], deadline: Option<Instant>) -> Result<Option<ReceivedInto>, Error> {
        let back = self.back()?;
        let mut incoming = self.take(deadline)?;
        let received = self.come(back, &mut incoming, deadline)?;
        place(received, buffer, |received| incoming.again.push_front(received))
    }

    async fn recv_into_async(&self, buffer: &mut [u8]) -> Result<Option<ReceivedInto>, Error> {
        let back = self.back()?;
        let mut incoming = self.incoming.take_async().await;
        let received = self.come_async(back, &mut incoming).await?;
        place(received, buffer, |received| incoming.again.push_front(received))
    }

    fn flush(&self, deadline: Option<Instant>) -> Result<(), Error> {
        let Some(out) = &self.out else { return Ok(()) };
        out.flush_until(deadline)?;
        self.arrived()
    }

    async fn flush_async(&self) -> Result<(), Error> {
        let Some(out) = &self.out else { return Ok(()) };
        out.flush_async().await?;
        self.arrived()
    }

    fn set_service(&self, service: &Service) -> Result<(), String> {
        let mut terms = self.terms();
        *terms = Terms { is_over: terms.is_over, ..Terms::of(service) };
        Ok(())
    }

    fn missing_at_end(&self) -> u64 {
        self.incoming.take(Some(Instant::now())).map_or(0, |incoming| incoming.missing())
    }

    fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        self.back()?.readiness_fd()
    }

    fn clear(&self) {}

    fn close(&self, deadline: Option<Instant>) -> Result<(), Error> {
        if self.out.is_none() {
            return Ok(());
        }
        self.terms().is_over = true;
        // Behind all the others, so that nothing is behind the end.
        self.out()?.flush_until(deadline)?;
        let told = self.told(self.out()?.take_untold());
        told.and(self.say_end(deadline))?;
        self.arrived()
    }

    fn abort(&self, deadline: Instant) {
        self.terms().is_over = true;
        let told = self.open(&Control::new(Kind::Abort, self.nonce));
        if let (Some(out), Ok(_told)) = (&self.out, told) {
            let _ = out.flush_until(Some(deadline));
        }
    }

    async fn close_async(&self) -> Result<(), Error> {
        let Some(out) = &self.out else { return Ok(()) };
        self.terms().is_over = true;
        out.flush_async().await?;
        let told = self.told(out.take_untold());
        told.and(self.say_end_async().await)?;
        self.arrived()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(next: u64) -> Incoming {
        Incoming { next: Some(next), ..Incoming::new(true, PATIENCE) }
    }

    #[test]
    fn words_that_overtake_messages_leave_no_gap() {
        let mut incoming = incoming(10);
        // 10 and 11 are messages that are repeated, 12 and 13 are words.
        incoming.on_word(13);
        incoming.on_word(12);
        assert_eq!((incoming.advance(11), incoming.next), (1, Some(11)));
        assert_eq!((incoming.advance(12), incoming.next), (1, Some(14)));
        incoming.on_word(14);
        assert_eq!((incoming.next, incoming.words.len()), (Some(15), 0));
        // One that came before, and is of no use.
        incoming.on_word(3);
        assert!(incoming.words.is_empty());
        // 15 to 19 are not waited for: 17 was no message.
        incoming.on_word(17);
        assert_eq!((incoming.advance(20), incoming.next, incoming.words.len()), (4, Some(20), 0));
    }

    /// What is due of frames 10, 12 and 15, of which the first has come: how many are missing before each.
    fn due_of(mut incoming: Incoming, now: Instant) -> Vec<(u64, bool)> {
        for number in [12, 15] {
            incoming.early.insert(number, crate::vrp::Received::numbered(number as u16));
        }
        std::iter::from_fn(|| incoming.due(now)).map(|due| (due.missed(), due.is_late())).collect()
    }

    #[test]
    fn frames_behind_a_gap_wait_unless_nothing_can_fill_it() {
        let now = Instant::now();
        let of = |end, newest: Option<u64>| {
            let mut incoming = Incoming { since: Some(now), end, ..incoming(11) };
            incoming.early.extend(newest.map(|newest| (newest, crate::vrp::Received::numbered(newest as u16))));
            due_of(incoming, now)
        };
        assert_eq!(of(None, None), []);
        assert_eq!(of(None, Some(11 + FAR)), [], "11 may still be under way");
        assert_eq!(of(None, Some(12 + FAR)), [(1, false)], "11 is not, and 13 may be");
        assert_eq!(of(Some(16), None), [(1, false), (2, false)], "nothing comes behind the end");
        let patient = Incoming { since: Some(now), ..incoming(11) };
        assert_eq!(due_of(patient, now + PATIENCE), [(1, false)]);
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Woken(AtomicU32);

    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_event_loop_is_woken_though_the_alarm_came_while_it_looked() {
        let woken = std::sync::Arc::new(Woken::default());
        let times = || woken.0.load(Ordering::Relaxed);
        let begin = Instant::now();
        let mut incoming = Incoming { since: Some(begin), patience: Duration::from_millis(20), ..incoming(11) };
        let set =
            |incoming: &mut Incoming, now| incoming.set_alarm(now, || Some(Waker::from(std::sync::Arc::clone(&woken))));
        set(&mut incoming, begin);
        while times() == 0 {
            assert!(begin.elapsed() < Duration::from_secs(10), "the alarm comes");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Its sign was cleared by whoever looked, and found nothing due yet.
        set(&mut incoming, Instant::now());
        assert_eq!(times(), 2);
    }

    #[test]
    fn what_is_missing_before_the_end_are_messages() {
        let mut incoming = incoming(10);
        assert_eq!(incoming.missing(), 0);
        incoming.on_word(12);
        incoming.end = Some(15);
        incoming.on_word(15);
        assert_eq!(incoming.missing(), 4, "10, 11, 13 and 14");
        incoming.unheard = 2;
        assert_eq!(incoming.missing(), 2);
        incoming.advance(15);
        assert_eq!((incoming.next, incoming.missing()), (Some(16), 0));
        assert_eq!(Incoming { is_ordered: false, next: Some(3), ..incoming }.missing(), 0);
    }
}
