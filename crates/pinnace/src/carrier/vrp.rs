//! A connection over VRP: frames under a contract, one association each way.
//!
//! Always true: frames of nobody but the peer are delivered, and all of them; where order is wanted, a frame waits for those
//! before it as long as they are worth it, and whoever receives it is told if they did not come, and which come late; what
//! the connection says itself may not be lost, and is told to no application; whoever sends is told of a frame that is lost
//! beyond its contract, because its receiver has refused it or is gone: by its delivery, or if nobody has that any more, by
//! the next call that sends, flushes or closes. Where the service is best effort that is no loss to tell of.

mod words;

use super::alarm::within;
use super::early::{Incoming, NUMBERS, PATIENCE};
use super::in_vain::InVain;
use super::received::Position;
use super::room::{self, Bounded, Looks};
use super::turn::{Held, Turn};
use super::{
    Awaited, Carry, LOOK, MOST_AHEAD, Received, ReceivedInto, Sending, Special, farewell, last_words, left, looking,
    looks_ahead, place,
};
use crate::endpoint::ConnectionError;
use crate::lock::{Lock, Locked};
use crate::rendezvous::{Control, Kind};
use crate::service::{Method, Reliability, Service};
use crate::vrp::{Contract, Failure, Frame, Losses, Outline, Receiver, Sender};
use crate::{Error, Message, Unsent};
use pinnace_vrp::Void;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// After so long the end is said again that was refused.
const REFUSED: Duration = Duration::from_millis(20);
/// So many signs of life may be lost one after the other.
const SIGNS: u32 = 4;
/// A sender of VRP to which nothing comes back shows so often at least that it is there, if it sends nothing; or not at all.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// Who receives one way knows of its peer for so long at least.
pub(crate) const LEAST_LIFE: Duration = Duration::from_secs(SIGN_OF_LIFE.as_secs() * SIGNS as u64);

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
    /// A peer of which nothing has come for so long is gone, if it can be asked, or shows by itself that it is there.
    longest_silence: Option<Duration>,
    /// Words of ours that were refused.
    unheard: AtomicU32,
    /// The end, once it was said, and as long as nobody knows whether the peer has heard it.
    said: Lock<Option<crate::vrp::Sending>>,
    voids: words::Voids,
    /// What is announced is not forgotten before the next message comes.
    has_time_for_the_next: bool,
    /// Messages wait for those before them only as long as the service says: what is lost of a word comes too late then, and
    /// some are said twice.
    is_short_of_time: bool,
    terms: Lock<Terms>,
    incoming: Turn<Incoming>,
    /// The peer has not shown that it is there for too long.
    has_fallen_silent: AtomicBool,
    /// What had not arrived was given up: whoever waits for it waits in vain.
    is_given_up: AtomicBool,
    looks: Looks,
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
    /// Messages of this length follow each other so soon that each can be announced.
    foretold: Option<u64>,
    /// The end has been reached, behind which nothing is sent.
    is_over: bool,
}

impl Terms {
    fn of(service: &Service) -> Self {
        let (deadline, lifespan) = (service.deadline, service.lifespan);
        let is_best_effort = service.reliability == Reliability::BestEffort;
        let same = Self { deadline, lifespan, is_best_effort, foretold: service.foretold_bytes(), ..Self::default() };
        let of = |contract: Contract| {
            let critical_end = critical(&contract).iter().map(|range| range.end).max().unwrap_or(0);
            Self { contract: Some(contract), critical_end, ..same.clone() }
        };
        match &service.reliability {
            Reliability::Full => same,
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

impl Vrp {
    /// `source`: who sends, and the number of its first frame, which was taken; otherwise it is the first who says the nonce.
    /// `timeout`: how long the peer may be silent.
    pub(crate) fn new(
        ways: Ways,
        nonce: u64,
        service: &Service,
        source: Option<(SocketAddr, u16)>,
        timeout: Duration,
    ) -> Self {
        let patience = service.lifespan.or(service.deadline).unwrap_or(PATIENCE);
        let incoming = Incoming {
            source: source.map(|(source, _)| source),
            next: source.map(|(_, number)| u64::from(number) + NUMBERS + 1),
            ..Incoming::new(service.order, patience, timeout)
        };
        let Ways { to, out, back } = ways;
        let is_asked = out.is_some();
        let (terms, incoming) = (Lock::new(Terms::of(service)), Turn::new(incoming));
        Self {
            to,
            out,
            back,
            nonce,
            longest_silence: is_asked.then_some(timeout),
            unheard: AtomicU32::new(0),
            said: Lock::default(),
            voids: words::Voids::default(),
            has_time_for_the_next: timeout >= words::LEAST_LIFE,
            is_short_of_time: service.lifespan.or(service.deadline).is_some(),
            terms,
            incoming,
            has_fallen_silent: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            looks: Looks::new(),
        }
    }

    /// The peer shows so often that it is there, if it sends nothing else: `timeout` is how long it may be silent, or some
    /// of these signs, which may be lost.
    pub(crate) fn with_signs_of_life(self, signs: Duration, timeout: Duration) -> Self {
        let longest = timeout.max(SIGNS * signs.min(SIGN_OF_LIFE));
        // Whoever shows itself less often is forgotten before.
        Self { longest_silence: (signs * 2 <= longest).then_some(longest), ..self }
    }

    fn terms(&self) -> Locked<'_, Terms> {
        self.terms.lock()
    }

    fn out(&self) -> Result<&Sender, Error> {
        self.out.as_ref().ok_or_else(|| one_way("send back"))
    }

    fn back(&self) -> Result<&Receiver, Error> {
        self.back.as_ref().ok_or_else(|| one_way("receive"))
    }

    /// An error if the peer has broken off what we send, for which somebody has `waited`.
    fn check_peer(&self, waited: Duration) -> Result<(), Error> {
        self.looks.check(waited, || self.look_for_break())
    }

    /// An error if what had not arrived was given up here: whoever waits for it waits in vain.
    fn check_own(&self) -> Result<(), Error> {
        if self.is_given_up.load(Ordering::Relaxed) { Err(ConnectionError::Closed.into()) } else { Ok(()) }
    }

    fn is_gone(&self) -> bool {
        self.has_fallen_silent.load(Ordering::Relaxed) || self.out.as_ref().is_some_and(Sender::is_peer_gone)
    }

    /// An error if whoever receives has heard nothing for too long. Frames sent now would have a life of their own.
    fn check_silence(&self) -> Result<(), Error> {
        let is_gone = self.has_fallen_silent.load(Ordering::Relaxed);
        if is_gone { Err(Error::FrameFailed(Failure::PeerGone)) } else { Ok(()) }
    }

    /// An error if the peer has not answered for too long. The protocol would try anew with each frame.
    fn check_gone(&self) -> Result<(), Error> {
        if self.is_gone() { Err(Error::FrameFailed(Failure::PeerGone)) } else { Ok(()) }
    }

    /// Waits until nothing is under way, unless one of the ends breaks off.
    fn flush_out(&self, out: &Sender, deadline: Option<Instant>) -> Result<(), Error> {
        looking(deadline, room::LOOK, |until| out.flush_until(until), || self.look_for_break().err().map(Err))?;
        self.check_own()
    }

    /// The same, for tasks.
    async fn flush_out_async(&self, out: &Sender) -> Result<(), Error> {
        loop {
            match within(Instant::now() + room::LOOK, out.flush_async()).await {
                Some(flushed) => return flushed.and_then(|()| self.check_own()),
                None => self.look_for_break()?,
            }
        }
    }

    /// Puts a frame where it belongs; returns it if it is due at once.
    fn on_frame(&self, incoming: &mut Incoming, frame: crate::vrp::Received) -> Option<Received> {
        if incoming.source.is_some_and(|source| source != frame.source()) {
            return None;
        }
        incoming.silence.end();
        incoming.gone = None;
        let number = incoming.unwrap_number(frame.number());
        if Control::may_be(&frame, self.nonce)
            && let Ok(control) = Control::parse(&frame, Some(self.nonce))
        {
            incoming.source = Some(frame.source());
            match control.kind {
                Kind::Open if incoming.next.is_none_or(|next| next <= number) => incoming.next = Some(number),
                Kind::End => (incoming.end, incoming.unheard) = (Some(number), control.piece.into()),
                Kind::Abort => (incoming.end, incoming.is_broken_off) = (Some(number), true),
                Kind::Alive if let Some(number) = words::given_up_of(control.piece) => {
                    let number = incoming.unwrap_number(number);
                    incoming.on_given_up(number);
                }
                Kind::Alive if let Some(void) = words::void_of(control.piece) => {
                    let number = incoming.unwrap_number(void.number);
                    // It is said again where time is short, or a word was refused.
                    let is_new = incoming.next.is_none_or(|next| next <= number) && !incoming.words.contains(&number);
                    incoming.on_word(number);
                    let refused = self.back.as_ref().map_or(0, |back| back.refused(frame.source()));
                    incoming.refused = (incoming.refused + u64::from(is_new && void.was_refused)).min(refused);
                }
                Kind::Open | Kind::Alive => {}
            }
            self.looks.hear(incoming.end.is_some());
            incoming.on_word(number);
            return None;
        }
        if incoming.source.is_some() && incoming.early.is_empty() && incoming.next == Some(number) {
            incoming.advance(number + 1);
            return Some(Received::frame(frame, Position::default()));
        }
        if incoming.source.is_some() {
            let now = Instant::now();
            incoming.early.insert(number, (frame, now));
            incoming.since.get_or_insert(now);
        }
        None
    }

    /// A frame that is due, where it is known how long others are worth waiting for.
    fn due(&self, back: &Receiver, incoming: &mut Incoming, now: Instant) -> Option<Received> {
        if !incoming.early.is_empty() {
            let refused = incoming.source.map_or(0, |source| back.refused(source));
            incoming.is_hurried = refused > incoming.refused;
            if incoming.gives_up(now) {
                self.gather(back, incoming);
            }
            let due = incoming.due(now);
            // Those that were missing may be as many of the refused, and the others be missing further on.
            let missed = due.as_ref().map_or(0, Received::missed);
            incoming.refused = incoming.refused.saturating_add(missed).min(refused);
            return due;
        }
        None
    }

    /// Takes what has come: that is not missing, however long nobody has looked, and however late it is.
    fn gather(&self, back: &Receiver, incoming: &mut Incoming) {
        // What fails here fails for whoever receives, too.
        let _ = back.progress();
        for _ in 0..back.waiting() {
            let Some(frame) = back.take() else { break };
            let came = self.on_frame(incoming, frame);
            incoming.again.extend(came);
        }
    }

    /// Finds out whether the peer that has been silent is there, if there is a way to it or it shows it by itself.
    fn ask(&self, incoming: &mut Incoming) -> Result<(), Error> {
        match self.find_out(incoming) {
            // What has come is received first, without what is missing before it.
            Err(error) if !incoming.early.is_empty() => {
                incoming.gone = Some(error);
                Ok(())
            }
            result => result,
        }
    }

    fn find_out(&self, incoming: &mut Incoming) -> Result<(), Error> {
        let now = Instant::now();
        if let Some(out) = &self.out
            && !self.owes_answer(incoming)?
        {
            // Who acknowledges what we send is there; and a question takes a number among the messages, where it may be lost.
            // So is who has answered a question, but for no longer: or every second one would go unasked.
            let interval = incoming.silence.interval();
            let rest = out.silence().map_or(Duration::ZERO, |silence| interval.saturating_sub(silence));
            // Also what the last question has made void: who hears nothing but questions would count from there for ever.
            self.tell();
            if rest.is_zero() {
                incoming.asked = Some((self.open(&Control::new(Kind::Alive, self.nonce))?, now));
            } else {
                incoming.silence.look_in(now, rest);
            }
        }
        self.look_for_signs(incoming, now)
    }

    /// Whether the peer was asked, and has not answered yet.
    fn owes_answer(&self, incoming: &mut Incoming) -> Result<bool, Error> {
        if let Some((asked, since)) = incoming.asked.take() {
            match asked.probe() {
                None => {
                    incoming.asked = Some((asked, since));
                    return Ok(true);
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
        Ok(false)
    }

    /// Finds out whether the peer shows that it is there. Who was asked has half of its time to answer.
    fn look_for_signs(&self, incoming: &Incoming, now: Instant) -> Result<(), Error> {
        let Some(longest) = self.longest_silence.filter(|_| self.out.is_some() || incoming.source.is_some()) else {
            return Ok(());
        };
        let sent = self.back.as_ref().zip(incoming.source).and_then(|(back, source)| back.silence_of(source));
        let answered = self.out.as_ref().and_then(Sender::silence);
        // Of whom nothing is known any more has been silent for longer.
        let silence = sent.into_iter().chain(answered).min().unwrap_or(longest);
        let asked = incoming.asked.as_ref().map_or(longest, |(_, since)| now.saturating_duration_since(*since));
        let rest = longest.saturating_sub(silence).max((longest / 2).saturating_sub(asked));
        if rest.is_zero() {
            self.has_fallen_silent.store(true, Ordering::Relaxed);
            return self.check_gone();
        }
        incoming.silence.look_in(now, rest);
        Ok(())
    }

    /// The error that tells of frames that were lost.
    fn told(&self, losses: Option<Losses>) -> Result<(), Error> {
        let Some(Losses { frames, failure }) = losses else { return Ok(()) };
        let peer = self.to.map_or_else(|| "the peer".to_owned(), |to| to.to_string());
        let (is_gone, why) = (failure == Failure::PeerGone, why(failure));
        Err(ConnectionError::Undelivered { method: Method::Vrp, peer, messages: frames, is_gone, why }.into())
    }

    /// Whether all that was sent has arrived, now that nothing is under way.
    fn arrived(&self) -> Result<(), Error> {
        self.told(self.out.as_ref().and_then(Sender::take_losses))?;
        self.check_gone()
    }

    pub(crate) fn unreachable(&self) -> u64 {
        self.out.as_ref().map_or(0, |out| out.counters().unreachable_reports)
    }

    /// The next message, or the end, if it is there.
    fn ready(&self, back: &Receiver, incoming: &mut Incoming, now: Instant) -> Option<Result<Option<Received>, Error>> {
        if let Some(received) = incoming.again.pop_front().or_else(|| self.due(back, incoming, now)) {
            return Some(Ok(Some(received)));
        }
        if let Some(error) = incoming.gone.take() {
            return Some(Err(error));
        }
        incoming.is_over().then(|| incoming.outcome())
    }

    /// The next message.
    fn come(
        &self,
        back: &Receiver,
        incoming: &mut Incoming,
        deadline: Option<Instant>,
    ) -> Result<Option<Received>, Error> {
        let mut in_vain = InVain::default();
        loop {
            let now = Instant::now();
            if let Some(ready) = self.ready(back, incoming, now) {
                return ready;
            }
            let is_gone = self.is_gone();
            if is_gone && !incoming.early.is_empty() && incoming.gone.is_none() {
                // What has come is due now: nothing comes before it.
                incoming.gone = Some(Error::FrameFailed(Failure::PeerGone));
                continue;
            }
            let until = if is_gone { now } else { incoming.look_at(now) };
            let until = deadline.map_or(until, |deadline| deadline.min(until));
            match back.recv_until(Some(until))? {
                Some(frame) => {
                    if let Some(received) = self.on_frame(incoming, frame) {
                        return Ok(Some(received));
                    }
                    // Others may send without a pause, and the peer nothing.
                    if !in_vain.is_enough() {
                        continue;
                    }
                }
                // What has come is received all the same.
                None if is_gone && incoming.early.is_empty() => return Err(Error::FrameFailed(Failure::PeerGone)),
                None => {}
            }
            let now = Instant::now();
            if incoming.silence.is_due(now, Duration::ZERO) {
                self.ask(incoming)?;
            }
            if let Some(ready) = self.ready(back, incoming, now) {
                // What has come may be due now.
                return ready;
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                incoming.set_alarm(now, || back.waker());
                return Err(Error::Timeout);
            }
        }
    }

    /// The same, for tasks.
    async fn come_async(&self, back: &Receiver, incoming: &mut Incoming) -> Result<Option<Received>, Error> {
        let mut in_vain = InVain::default();
        loop {
            let now = Instant::now();
            if let Some(ready) = self.ready(back, incoming, now) {
                return ready;
            }
            let is_gone = self.is_gone();
            if is_gone && !incoming.early.is_empty() && incoming.gone.is_none() {
                // What has come is due now: nothing comes before it.
                incoming.gone = Some(Error::FrameFailed(Failure::PeerGone));
                continue;
            }
            let until = if is_gone { now } else { incoming.look_at(now) };
            match within(until, back.recv_async()).await {
                None if is_gone && incoming.early.is_empty() => return Err(Error::FrameFailed(Failure::PeerGone)),
                None => {}
                Some(frame) => {
                    if let Some(received) = self.on_frame(incoming, frame?) {
                        return Ok(Some(received));
                    }
                    // Others may send without a pause, and the peer nothing.
                    if !in_vain.pass().await {
                        continue;
                    }
                }
            }
            if incoming.silence.is_due(Instant::now(), Duration::ZERO) {
                self.ask(incoming)?;
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
            "it has no room for so much at once beside what its application has not taken: let it receive, and send again what \
             it lacks; smaller messages wait for room"
        }
        Failure::PeerGone => "it has not answered for too long: check that it runs, and connect again",
        Failure::Swallowed => "the path has begun to lose all packets of their size, though it carries smaller ones: connect again",
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
        if let Err(error) = self.check_peer(waited).and_then(|()| self.check_silence()) {
            return Err(Unsent::new(message, error));
        }
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
            (None, Some(contract)) if terms.is_best_effort => {
                frame = frame.with_contract(contract.clone()).expendable();
            }
            (None, Some(contract)) => frame = frame.with_contract(contract.clone()),
            (None, None) => {}
        }
        if let Some(deadline) = special.and_then(|special| special.deadline).or(terms.deadline) {
            frame = frame.repeat_for(deadline.saturating_sub(waited));
        }
        if let Some(lifespan) = special.and_then(|special| special.lifespan).or(terms.lifespan) {
            self.tell_what_is_given_up();
            frame = frame.give_up_after(lifespan.saturating_sub(waited));
        }
        let is_foretold = terms.foretold == Some(len) && special.is_none();
        let outline = is_foretold.then(|| frame.outline());
        let sent = out.send_if_room(frame);
        if sent.is_ok() {
            self.foretell(out, outline);
        }
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

    fn wait_for_room(&self, len: usize, until: Instant) -> Result<(), Error> {
        self.out()?.wait_for_room(len, until)
    }

    async fn wait_for_room_async(&self, len: usize) -> Result<(), Error> {
        within(Instant::now() + room::LOOK, self.out()?.wait_for_room_async(len)).await.unwrap_or(Ok(()))
    }

    fn progress(&self) -> Result<(), Error> {
        self.out()?.progress()
    }
}

impl Carry for Vrp {
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
        self.flush_out(out, deadline)?;
        self.settle_voids();
        self.arrived()
    }

    async fn flush_async(&self) -> Result<(), Error> {
        let Some(out) = &self.out else { return Ok(()) };
        self.flush_out_async(out).await?;
        self.settle_voids();
        self.arrived()
    }

    fn set_service(&self, service: &Service) -> Result<(), String> {
        let mut terms = self.terms();
        *terms = Terms { is_over: terms.is_over, ..Terms::of(service) };
        if let Some(out) = &self.out {
            out.set_rate(service.limit());
        }
        Ok(())
    }

    fn check_receives(&self) -> Result<(), Error> {
        self.back().map(drop)
    }

    fn missing_at_end(&self) -> u64 {
        self.incoming.take(Some(Instant::now())).map_or(0, |incoming| incoming.missing())
    }

    fn is_end_missing(&self) -> bool {
        self.missing_at_end() > 0
    }

    /// What came before is kept.
    fn look_for_break(&self) -> Result<(), Error> {
        self.check_own()?;
        self.tell();
        let Some(back) = &self.back else { return Ok(()) };
        let now = Instant::now();
        // Who has its turn finds out.
        let Some(mut incoming) = self.incoming.take(Some(now)) else { return Ok(()) };
        let mut has_taken = false;
        // What others send counts as well: a flood of that must not keep it here.
        for _ in 0..MOST_AHEAD {
            if incoming.is_broken_off || !looks_ahead(incoming.kept()) {
                break;
            }
            // What has failed here fails for whoever receives, too.
            let Ok(Some(frame)) = back.recv_until(Some(now)) else { break };
            let came = self.on_frame(&mut incoming, frame);
            incoming.again.extend(came);
            has_taken = true;
        }
        // Whoever sleeps on the descriptor does not see what was taken here.
        if let Some(waker) = back.waker().filter(|_| has_taken) {
            waker.wake();
        }
        if incoming.is_broken_off { Err(ConnectionError::BrokenOff { method: Method::Vrp }.into()) } else { Ok(()) }
    }

    fn waiting_bytes(&self) -> Option<u64> {
        let incoming = self.incoming.take(Some(Instant::now()))?;
        incoming.again.front().map(|received| received.len() as u64)
    }

    fn has_heard_end(&self) -> bool {
        self.looks.has_heard_end()
    }

    fn round_trip(&self) -> Option<Duration> {
        self.out.as_ref().and_then(Sender::round_trip)
    }

    fn check(&self) -> Result<(), Error> {
        self.look_for_break()?;
        self.check_gone()?;
        let now = Instant::now();
        if let Some(mut incoming) = self.incoming.take(Some(now))
            && incoming.silence.is_due(now, Duration::ZERO)
        {
            self.ask(&mut incoming)?;
        }
        Ok(())
    }

    fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        self.back()?.readiness_fd()
    }

    fn clear(&self) {}

    fn close(&self, deadline: Option<Instant>) -> Result<(), Error> {
        let Some(out) = &self.out else { return Ok(()) };
        self.terms().is_over = true;
        self.check_peer(Duration::ZERO)?;
        // Behind all the others, so that nothing is behind the end.
        self.flush_out(out, deadline)?;
        // What is lost makes it no end in order, of which the peer is told when the connection goes.
        self.told(out.take_untold())?;
        self.check_gone()?;
        self.say_end(deadline)?;
        self.check_own()?;
        self.arrived()
    }

    fn hand_over(&self) {
        if let Some(out) = &self.out {
            out.hand_over();
        }
        if let Some(back) = &self.back {
            back.hand_over();
        }
    }

    fn awaited(&self) -> Awaited {
        let is_broken = self.back.is_none() || self.look_for_break().is_err();
        let Some(incoming) = self.incoming.take(Some(Instant::now())) else { return Awaited::Nothing };
        if is_broken || !incoming.again.is_empty() || !incoming.early.is_empty() {
            return Awaited::Nothing;
        }
        let round_trip = self.out.as_ref().and_then(Sender::round_trip);
        if incoming.end.is_some() { Awaited::repetitions(round_trip) } else { Awaited::End }
    }

    fn abort(&self, deadline: Instant) {
        self.terms().is_over = true;
        if self.is_given_up.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(out) = &self.out {
            // The peer hears of it at once, and not after all the others.
            out.withdraw();
            let before = self.unreachable();
            if let Ok(_told) = self.open(&Control::new(Kind::Abort, self.nonce)) {
                let flush = |until| out.flush_until(until);
                last_words(deadline, flush, (before, || self.unreachable()), || out.counters().controls_received);
            }
        }
        // Whoever receives waits no longer.
        if let Some(back) = &self.back {
            back.begin_close();
        }
    }

    async fn close_async(&self) -> Result<(), Error> {
        let Some(out) = &self.out else { return Ok(()) };
        self.terms().is_over = true;
        self.check_peer(Duration::ZERO)?;
        self.flush_out_async(out).await?;
        self.told(out.take_untold())?;
        self.check_gone()?;
        self.say_end_async().await?;
        self.check_own()?;
        self.arrived()
    }
}

#[cfg(test)]
mod tests;
