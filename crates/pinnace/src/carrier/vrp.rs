//! A connection over VRP: frames under a contract, one association each way.
//!
//! Always true: frames of nobody but the peer are delivered, and all of them; where order is wanted, a frame waits for those
//! before it as long as they are worth it, and whoever receives it is told if they did not come, and which come late; what
//! the connection says itself may not be lost, and is told to no application.

use super::alarm::within;
use super::received::Position;
use super::room::{self, Bounded};
use super::turn::{Held, Turn};
use super::{Carry, Received, Sending, Special, farewell};
use crate::endpoint::ConnectionError;
use crate::rendezvous::{Control, Kind};
use crate::service::{Method, Reliability, Service};
use crate::vrp::{Contract, Failure, Frame, Receiver, Sender};
use crate::{Error, Message, Unsent};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After so much silence the peer is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(2);
/// How long a frame waits for those before it, if nothing says how long they are worth waiting for. Longer than a sender
/// goes on with a receiver that is silent; what its receiver refuses never comes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Numbers of frames, after which they begin again.
const NUMBERS: u64 = 1 << 15;

/// The ways of a connection that it has.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    pub(crate) out: Option<Sender>,
    pub(crate) back: Option<Receiver>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Vrp {
    out: Option<Sender>,
    back: Option<Receiver>,
    nonce: u64,
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
}

impl Terms {
    fn of(service: &Service) -> Self {
        let (deadline, lifespan) = (service.deadline, service.lifespan);
        let of = |contract: Contract| {
            let critical_end = critical(&contract).iter().map(|range| range.end).max().unwrap_or(0);
            Self { contract: Some(contract), critical_end, deadline, lifespan }
        };
        match &service.reliability {
            Reliability::Full => Self { contract: None, critical_end: 0, deadline, lifespan },
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
    /// Messages that whoever received them had no room for.
    again: VecDeque<Received>,
    /// The number behind the last frame.
    end: Option<u64>,
    asked: Option<crate::vrp::Sending>,
}

impl Incoming {
    /// The whole number of a frame: the nearest to the next one.
    fn unwrap_number(&self, number: u16) -> u64 {
        let number = u64::from(number);
        let Some(next) = self.next else { return number + NUMBERS };
        let ahead = (number + NUMBERS - next % NUMBERS) % NUMBERS;
        if ahead < NUMBERS / 2 { next + ahead } else { (next + ahead).saturating_sub(NUMBERS) }
    }

    /// A frame that is due.
    fn due(&mut self, now: Instant) -> Option<Received> {
        let first = *self.early.first_key_value()?.0;
        let is_next = self.next.is_none_or(|next| first <= next);
        let is_late = self.since.is_none_or(|since| since + self.patience <= now);
        if self.is_ordered && !is_next && !is_late {
            return None;
        }
        let (missed, is_late) = match self.next {
            Some(next) if self.is_ordered => (first.saturating_sub(next), first < next),
            _ => (0, false),
        };
        self.next = Some(self.next.unwrap_or(0).max(first + 1));
        let frame = self.early.remove(&first)?;
        self.since = (!self.early.is_empty()).then_some(now);
        Some(Received::frame(frame, Position { missed, is_late }))
    }

    /// When to look again, where nothing is due.
    fn look_at(&self, now: Instant) -> Instant {
        match self.since {
            Some(since) => since + self.patience,
            None => now + SILENCE,
        }
    }

    /// Whether nothing more comes.
    fn is_over(&self) -> bool {
        self.early.is_empty() && self.end.is_some()
    }
}

impl Vrp {
    /// `source`: who sends, and the number of its first frame, which was taken; otherwise it is the first who says the nonce.
    pub(crate) fn new(ways: Ways, nonce: u64, service: &Service, source: Option<(SocketAddr, u16)>) -> Self {
        let patience = service.lifespan.or(service.deadline).unwrap_or(PATIENCE);
        let incoming = Incoming {
            source: source.map(|(source, _)| source),
            is_ordered: service.order,
            patience,
            next: source.map(|(_, number)| u64::from(number) + NUMBERS + 1),
            early: BTreeMap::new(),
            since: None,
            again: VecDeque::new(),
            end: None,
            asked: None,
        };
        let (Ways { out, back }, terms, incoming) = (ways, Mutex::new(Terms::of(service)), Turn::new(incoming));
        Self { out, back, nonce, terms, incoming }
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
        let number = incoming.unwrap_number(frame.number());
        if Control::may_be(&frame, self.nonce)
            && let Ok(control) = Control::parse(&frame, Some(self.nonce))
        {
            incoming.source = Some(frame.source());
            match control.kind {
                Kind::Open => incoming.next = incoming.next.max(Some(number + 1)),
                Kind::End => incoming.end = Some(number),
                Kind::Alive => {}
            }
            if incoming.next == Some(number) {
                incoming.next = Some(number + 1);
            }
            return None;
        }
        if incoming.source.is_some() && incoming.early.is_empty() && incoming.next == Some(number) {
            incoming.next = Some(number + 1);
            return Some(frame);
        }
        if incoming.source.is_some() {
            incoming.early.insert(number, frame);
            incoming.since = incoming.since.or_else(|| Some(Instant::now()));
        }
        None
    }

    /// Finds out whether the peer that has been silent is there, if there is a way to it.
    fn ask(&self, incoming: &mut Incoming) -> Result<(), Error> {
        if self.out.is_none() || !incoming.early.is_empty() {
            return Ok(());
        }
        if let Some(asked) = incoming.asked.take() {
            match asked.probe() {
                None => {
                    incoming.asked = Some(asked);
                    return Ok(());
                }
                // Whoever refuses is there.
                Some(Err(Error::FrameFailed(Failure::Refused))) | Some(Ok(())) => {}
                Some(Err(error)) => return Err(error),
            }
        }
        incoming.asked = Some(self.open(&Control::new(Kind::Alive, self.nonce))?);
        Ok(())
    }

    fn take(&self, deadline: Option<Instant>) -> Result<Held<'_, Incoming>, Error> {
        self.incoming.take(deadline).ok_or(Error::Timeout)
    }
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
        let terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
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
        drop(terms);
        out.send_if_room(frame).map(Sending::Vrp)
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
        if let Some(again) = incoming.again.pop_front() {
            return Ok(Some(again));
        }
        loop {
            let now = Instant::now();
            if let Some(received) = incoming.due(now) {
                return Ok(Some(received));
            }
            if incoming.is_over() {
                return Ok(None);
            }
            let until = incoming.look_at(now);
            let until = deadline.map_or(until, |deadline| deadline.min(until));
            let found = back.recv_timeout(until.saturating_duration_since(Instant::now()))?;
            match found {
                Some(frame) => {
                    if let Some(frame) = self.on_frame(&mut incoming, frame) {
                        return Ok(Some(Received::frame(frame, Position::default())));
                    }
                }
                None if deadline.is_some_and(|deadline| deadline <= Instant::now()) => return Err(Error::Timeout),
                None => self.ask(&mut incoming)?,
            }
        }
    }

    async fn recv_async(&self) -> Result<Option<Received>, Error> {
        let back = self.back()?;
        let mut incoming = self.incoming.take_async().await;
        if let Some(again) = incoming.again.pop_front() {
            return Ok(Some(again));
        }
        loop {
            let now = Instant::now();
            if let Some(received) = incoming.due(now) {
                return Ok(Some(received));
            }
            if incoming.is_over() {
                return Ok(None);
            }
            match within(incoming.look_at(now), back.recv_async()).await {
                None => self.ask(&mut incoming)?,
                Some(frame) => {
                    if let Some(frame) = self.on_frame(&mut incoming, frame?) {
                        return Ok(Some(Received::frame(frame, Position::default())));
                    }
                }
            }
        }
    }

    fn put_back(&self, received: Received) {
        if let Some(mut incoming) = self.incoming.take(None) {
            incoming.again.push_front(received);
        }
    }

    fn flush(&self, deadline: Option<Instant>) -> Result<(), Error> {
        let Some(out) = &self.out else { return Ok(()) };
        out.flush_until(deadline)
    }

    async fn flush_async(&self) -> Result<(), Error> {
        match &self.out {
            Some(out) => out.flush_async().await,
            None => Ok(()),
        }
    }

    fn set_service(&self, service: &Service) -> Result<(), String> {
        *self.terms.lock().unwrap_or_else(PoisonError::into_inner) = Terms::of(service);
        Ok(())
    }

    fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        self.back()?.readiness_fd()
    }

    fn clear(&self) {}

    fn close(&self, deadline: Option<Instant>) -> Result<(), Error> {
        if self.out.is_none() {
            return Ok(());
        }
        // Behind all the others, so that nothing is behind the end.
        self.flush(deadline)?;
        drop(self.open(&Control::new(Kind::End, self.nonce))?);
        let unreachable = || self.out.as_ref().map_or(0, |out| out.counters().unreachable_reports);
        farewell(deadline, |until| self.flush(until), unreachable)
    }
}
