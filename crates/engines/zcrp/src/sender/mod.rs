//! The sending half.
//!
//! Two lists, as in the paper (Z-8): *units to send* is the unit announced, then what has to be sent again, then the
//! messages that have been requested, in order; *units in transit* is [`Transit`]. A message moves from the queue to the
//! first list when a request names it (Z-3), and ends when every unit is acknowledged (Z-15).

mod outgoing;
mod sizing;
mod transit;
mod transmit;

use crate::liveness::Liveness;
use crate::path::Path;
use crate::{Config, Event, Failure, Refused, SenderCounters, UnitSize};
use core::time::Duration;
use outgoing::{EarlyRequests, Outgoing, State};
use pinnace_core::{
    BufferId, Congestion, DeliveryRate, Pacer, PollAt, Random, Reordering, RttConfig, RttEstimator, SpuriousLoss, Time,
    Windowed, unwrap32,
};
use pinnace_wire::zcrp::{Block, Control, MAX_UNIT_BYTES, MIN_UNIT_BYTES, Pairs, TRAILER_BYTES};
use sizing::Sizing;
use std::collections::VecDeque;
use transit::{Fate, Run, Timeouts, Transit};

/// How long a request for messages that nobody has sent waits for its answer: less than its repetition takes.
const IDLE_ANSWER_DELAY: Duration = Duration::from_millis(20);
/// The time-out is doubled up to this.
const BACK_OFF_CAP: Duration = Duration::from_secs(1);
/// Requests come at least once a second: after so long without one they are not said to come all the time.
const PASSED_OVER_PAUSE: Duration = Duration::from_secs(3);
/// For how long the fastest that arrived is remembered.
const RATE_WINDOW: Duration = Duration::from_millis(100);

/// One unit of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnitRef {
    message: u64,
    unit: u32,
}

/// The sending half of ZCRP.
#[derive(Debug)]
pub struct Sender {
    config: Config,
    counters: SenderCounters,
    /// Data bytes in every unit but the last, `F`; 0 until it is chosen.
    fragment: u32,
    sizing: Sizing,
    /// Messages from `base` on.
    messages: VecDeque<Outgoing>,
    base: u64,
    early: EarlyRequests,
    /// Messages that no request has named yet.
    waiting: usize,
    /// Requested messages with units that have never been sent.
    ready: VecDeque<u64>,
    /// Bytes of those units' datagrams.
    ready_bytes: u64,
    /// Units to send again: message, first and last unit, half-open.
    again: VecDeque<(u64, u32, u32)>,
    /// The unit that the last one announced.
    announced: Option<UnitRef>,
    transit: Transit,
    rtt: RttEstimator,
    /// No sequence number from here on has been reported as received. Only those measure the round trip: a report of one before may
    /// repeat what was lost, and the time since is that of the loss.
    measured_to: u64,
    /// What measures the round trip in place of a late acknowledgement.
    awaited: Option<Awaited>,
    /// The time-out that a late acknowledgement suggests. It counts until there is a measure.
    presumed: Duration,
    /// When the oldest transmission may have been unanswered for too long. Never late.
    timer: Option<Time>,
    /// When the time-out was last doubled, and what it had been: what had left before then keeps it.
    backed_off: Option<(Time, Duration)>,
    /// The next unit goes whatever the windows say: a time-out asks what has become of everything before it.
    probing: bool,
    congestion: Box<dyn Congestion>,
    delivery: DeliveryRate,
    /// Whether the path keeps the order, and what may only be late.
    order: Reordering,
    /// Bytes a second that have arrived of late.
    fastest: Windowed<u64>,
    pacer: Pacer,
    /// Sending goes on then.
    paced_until: Option<Time>,
    liveness: Liveness,
    /// When messages without a request are announced next, if there are any (Z-21).
    idle_due: Option<Time>,
    /// A request named only messages that nobody has sent: when to say so, if that is still so then.
    idle_answer: Option<Time>,
    /// Since when later messages have been requested, but never the first of all that have not ended; and when the last time.
    passed_over: Option<(Time, Time)>,
    held: bool,
    /// Since when a train waits to become fuller.
    held_since: Option<Time>,
    closed: Option<Failure>,
    events: VecDeque<Event>,
}

impl Sender {
    /// A sender whose life begins at `now`.
    pub fn new(config: Config, now: Time) -> Self {
        let config = config.asking_in_time();
        let mut random = Random::from_seed(config.seed);
        let rtt = RttEstimator::new(RttConfig {
            least_spread: RttConfig::LEAST_SPREAD,
            extra: config.ack_delay,
            floor: config.timeout_floor,
            cap: Duration::from_secs(60),
            back_off_cap: BACK_OFF_CAP,
            initial: Duration::from_millis(200),
            ..RttConfig::default()
        });
        let mut sender = Self {
            counters: SenderCounters::default(),
            fragment: 0,
            sizing: Sizing::default(),
            messages: VecDeque::new(),
            base: 0,
            early: EarlyRequests::new(),
            waiting: 0,
            ready: VecDeque::new(),
            ready_bytes: 0,
            again: VecDeque::new(),
            announced: None,
            transit: Transit::new(random.next_u64() as u32),
            rtt,
            measured_to: 0,
            awaited: None,
            presumed: Duration::ZERO,
            timer: None,
            backed_off: None,
            probing: false,
            congestion: config.congestion.build(1472, now),
            delivery: DeliveryRate::new(),
            order: Reordering::default(),
            fastest: Windowed::largest(RATE_WINDOW.as_nanos() as u64),
            pacer: Pacer::unlimited(),
            paced_until: None,
            liveness: Liveness::new(config.peer_timeout),
            idle_due: None,
            idle_answer: None,
            passed_over: None,
            held: false,
            held_since: None,
            closed: None,
            events: VecDeque::new(),
            config,
        };
        sender.liveness.peer_reports_idle = sender.config.peer_reports_idle;
        sender.sizing.stays = matches!(sender.config.unit_size, UnitSize::Fixed(_));
        if let UnitSize::Fixed(bytes) | UnitSize::Whole(bytes) = sender.config.unit_size {
            sender.set_unit_bytes(bytes, now);
        }
        sender
    }

    fn set_unit_bytes(&mut self, bytes: usize, now: Time) {
        let bytes = bytes.clamp(MIN_UNIT_BYTES, MAX_UNIT_BYTES);
        self.fragment = (bytes - TRAILER_BYTES) as u32;
        self.congestion = self.config.congestion.build(bytes as u64, now);
        self.set_pace(now);
    }

    /// Queues `size` bytes of `buffer` as the next message and returns its number (Z-4, Z-17).
    ///
    /// # Errors
    /// [`Refused`], without taking a number.
    //= Z-4
    //= Z-17
    pub fn send(&mut self, now: Time, buffer: BufferId, size: u32) -> Result<u64, Refused> {
        self.check_room(1)?;
        if self.fragment == 0
            && let UnitSize::UpTo(most) = self.config.unit_size
        {
            self.set_unit_bytes(UnitSize::for_messages_of(size, most, 65_493), now);
        }
        let number = self.next_number();
        self.messages.push_back(Outgoing::new(buffer, size, self.fragment));
        match self.early.take(number) {
            Some(capacity) => self.on_requested(number, capacity),
            None => {
                self.waiting += 1;
                //= Z-21
                // The first announcement goes at once: it introduces the sender to a receiver that listens.
                self.idle_due.get_or_insert(now);
            }
        }
        self.update_liveness(now);
        Ok(number)
    }

    /// Whether `count` more messages can be queued.
    ///
    /// # Errors
    /// Why not.
    pub fn check_room(&self, count: usize) -> Result<(), Refused> {
        self.config.check_room(self.closed, self.messages.len(), count)
    }

    /// The number that the next [`Sender::send`] takes.
    pub fn next_number(&self) -> u64 {
        self.base + self.messages.len() as u64
    }

    /// The unit datagram size `U`, once it is chosen. It gets smaller where the first units show that the path loses all of
    /// that size.
    pub fn unit_bytes(&self) -> Option<usize> {
        (self.fragment > 0).then_some(self.fragment as usize + TRAILER_BYTES)
    }

    /// While held, only full trains leave, unless nothing is in transit: the application is still queueing.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// What has been seen so far.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// The smoothed round trip, once it was measured.
    pub fn round_trip(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// Whether a message is under way.
    pub fn is_busy(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Ends the sender: what is under way fails (Z-15).
    pub fn close(&mut self) {
        self.fail_all(Failure::Closed);
    }

    /// Takes back what was queued last and has not begun to travel: it fails, and what is sent next has its numbers, and the
    /// receiver's buffers for them, so that it travels in its place.
    //= Z-3
    pub fn withdraw(&mut self, now: Time) {
        let (fragment, mut requested) = (self.fragment, Vec::new());
        while let Some(message) = self.messages.pop_back_if(|message| !message.has_begun()) {
            let (number, buffer) = (self.next_number(), message.buffer);
            match message.capacity {
                None => self.waiting -= 1,
                Some(capacity) => {
                    self.ready_bytes -= message.unsent_bytes(fragment);
                    requested.push((number, capacity));
                }
            }
            self.counters.messages_failed += 1;
            self.events.push_back(Event::Sent { number, buffer, result: Err(Failure::Closed) });
        }
        let next = self.next_number();
        self.ready.retain(|number| *number < next);
        // Those further on are requested again.
        requested.retain(|(number, _)| *number < next + Config::REQUESTS_AHEAD);
        requested.into_iter().for_each(|(number, capacity)| self.early.insert(number, capacity));
        self.update_liveness(now);
    }

    fn fail_all(&mut self, failure: Failure) {
        if self.closed.is_some() {
            return;
        }
        self.closed = Some(failure);
        for (index, message) in self.messages.iter().enumerate() {
            if message.state != State::Ended {
                let number = self.base + index as u64;
                self.counters.messages_failed += 1;
                self.events.push_back(Event::Sent { number, buffer: message.buffer, result: Err(failure) });
            }
        }
        self.base = self.next_number();
        self.messages.clear();
        self.waiting = 0;
        self.ready.clear();
        self.ready_bytes = 0;
        self.again.clear();
        self.announced = None;
        self.transit.clear();
        self.events.push_back(Event::SenderClosed(failure));
    }

    fn message(&self, number: u64) -> Option<&Outgoing> {
        self.messages.get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    fn message_mut(&mut self, number: u64) -> Option<&mut Outgoing> {
        self.messages.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    pub(crate) fn limits_amplification(&self) -> bool {
        self.config.limit_amplification
    }

    /// A control datagram came. Returns whether it is one.
    pub(crate) fn handle_control(&mut self, now: Time, datagram: &[u8], path: &mut Path) -> bool {
        let Ok(control) = Control::parse(datagram) else {
            self.counters.datagrams_malformed += u64::from(self.closed.is_none());
            return false;
        };
        if self.closed.is_some() {
            return true;
        }
        if path.is_limited()
            && let Control::Acknowledgement(block) = &control
        {
            if !self.is_answer(block) {
                // A guess would have the next unit sent, or the same one again.
                self.liveness.on_heard(now);
                return true;
            }
            path.prove();
        }
        //= Z-19
        match control {
            Control::Acknowledgement(_) => self.liveness.on_answered(now),
            Control::Request(_) | Control::Flow { .. } => self.liveness.on_heard(now),
        }
        if self.sizing.is_known() {
            // Whatever it says: nobody asks again for a message of which something has arrived.
            self.sizing.on_asked();
        }
        match control {
            Control::Acknowledgement(block) => self.on_acknowledgement(now, block),
            Control::Request(pairs) => self.on_request(now, pairs),
            Control::Flow { .. } => {
                //= Z-21
                self.counters.flow_hints_received += 1;
                self.liveness.peer_reports_idle = true;
            }
        }
        self.step_down(now);
        self.update_liveness(now);
        true
    }

    /// Whether a block says that something has arrived, and names nothing but what has been sent. More would be a guess: of
    /// 2^16 blocks that each span 2^16 numbers one is right.
    //= Z-6
    fn is_answer(&self, block: &Block<'_>) -> bool {
        let mut has_arrived = false;
        for (low, high, positive) in block.intervals() {
            let (low, high) = self.numbers(low, high);
            if !self.transit.has_sent(low, high) {
                return false;
            }
            has_arrived |= positive && low < high;
        }
        has_arrived
    }

    /// The sequence numbers of an interval, unwrapped.
    fn numbers(&self, low: u32, high: u32) -> (u64, u64) {
        let from = unwrap32(self.transit.next(), low);
        (from, from + u64::from(high.wrapping_sub(low)))
    }

    //= Z-3
    //= Z-13
    fn on_request(&mut self, now: Time, pairs: Pairs<'_>) {
        self.counters.requests_received += 1;
        let next = self.next_number();
        let mut ahead_only = true;
        let mut highest = None;
        for (number, capacity) in pairs.iter() {
            let number = unwrap32(next, number);
            highest = highest.max(Some(number));
            if number >= next + Config::REQUESTS_AHEAD {
                self.counters.requests_ignored += 1;
            } else if number >= next {
                self.early.insert(number, capacity);
            } else {
                ahead_only = false;
                match self.message(number) {
                    Some(message) if message.state == State::Waiting => {
                        self.waiting -= 1;
                        self.on_requested(number, capacity);
                    }
                    // Nothing of it had arrived when that was asked (Z-13).
                    Some(message) if message.state == State::Sending && message.has_begun() => self.sizing.on_asked(),
                    _ => {}
                }
            }
        }
        if ahead_only {
            //= Z-21
            // The receiver waits for messages that nobody has sent. Most are sent in a moment, and then the answer would
            // only be in the way.
            self.idle_answer.get_or_insert(now + IDLE_ANSWER_DELAY);
        }
        self.watch_pairing(now, highest);
    }

    /// Requests come in the order of the messages, and again until they are answered. Who asks for later ones all the time,
    /// and never for the first, has had that one already: from a sender before this one. Who asks all the time for those alone
    /// that have ended is not who has had them: it was started again. They would wait for each other without end.
    //= Z-19
    fn watch_pairing(&mut self, now: Time, highest: Option<u64>) {
        if self.messages.front().is_none_or(|first| first.state != State::Waiting) {
            self.passed_over = None;
        } else if highest.is_some_and(|highest| highest != self.base) {
            let (since, newest) = self.passed_over.unwrap_or((now, now));
            // Two strays are not all the time.
            let since = if newest + PASSED_OVER_PAUSE < now { now } else { since };
            self.passed_over = Some((since, now));
            if since + self.config.peer_timeout <= now {
                self.fail_all(Failure::PeerGone);
            }
        }
    }

    fn on_requested(&mut self, number: u64, capacity: u32) {
        let fragment = self.fragment;
        if let Some(message) = self.message_mut(number) {
            message.request(capacity);
            let bytes = message.unsent_bytes(fragment);
            self.ready_bytes += bytes;
            self.ready.push_back(number);
        }
    }

    fn on_acknowledgement(&mut self, now: Time, block: Block<'_>) {
        self.counters.acknowledgements_received += 1;
        let mut newest_sent = None;
        let mut has_arrived = false;
        for (low, high, positive) in block.intervals() {
            let (low, high) = self.numbers(low, high);
            if positive {
                has_arrived |= self.on_delivered(now, low, high, &mut newest_sent);
            } else {
                self.on_lost(now, low, high);
            }
        }
        let rtt = newest_sent.map(|sent_at| now - sent_at);
        let in_flight_after = self.transit.bytes_in_flight();
        if let Some(rtt) = rtt {
            self.rtt.on_sample(now, rtt);
            self.order.on_round_trip(now, rtt);
        }
        if has_arrived {
            self.rtt.reset_back_off();
            // The timer was set by an older, longer estimate, perhaps.
            self.timer = self.timer.map(|timer| timer.min(now + self.timeout()));
        }
        while let Some(loss) = self.order.poll(now, in_flight_after) {
            self.congestion.on_loss(&loss);
        }
        if let Some(sample) = self.delivery.finish(now, rtt, in_flight_after) {
            if let Some(rate) = sample.delivery_rate {
                self.fastest.insert(now.as_nanos(), rate);
            }
            self.congestion.on_ack(&sample);
        }
        self.forget_settled(now);
        self.set_pace(now);
    }

    /// Returns whether any of it is news, and when the newest of what measures the round trip left.
    //= Z-8
    //= Z-15
    fn on_delivered(&mut self, now: Time, low: u64, high: u64, newest_sent: &mut Option<Time>) -> bool {
        if let Some(awaited) = self.awaited.take_if(|awaited| (low..high).contains(&awaited.number))
            && now - awaited.sent_at <= awaited.most
        {
            *newest_sent = Some(awaited.sent_at);
        }
        let fragment = self.fragment;
        let Self {
            transit,
            messages,
            base,
            delivery,
            congestion,
            order,
            events,
            counters,
            measured_to,
            sizing,
            ready_bytes,
            ..
        } = self;
        let (mut is_news, mut late, mut has_unsent) = (false, None, false);
        let (mut knows_present, mut back_to) = (false, None);
        transit.decide(now, low, high, Fate::Acknowledged, |run| {
            // Also what was reported lost: the path has carried it. What a time-out gave up does not open the window again, or
            // where every time-out is too short all would be sent again and again.
            if run.fate != Fate::Expired {
                delivery.on_packet_acked(now, run.total_bytes(), &run.stamp);
            }
            // What was cut anew had not been missed.
            let is_present = sizing.is_present(run.first);
            if run.fate == Fate::Expired && is_present {
                // It was the time-out that was for nothing; no bytes were told as lost.
                order.on_waited_for(now, run.decided_at);
                congestion.on_spurious_loss(&SpuriousLoss { now, noticed_at: run.decided_at, bytes: 0 });
            }
            if run.fate == Fate::GivenUp && is_present {
                // Every transmission has a number of its own, so it is certain which one has arrived.
                counters.units_late += u64::from(run.count);
                if let Some(spurious) = order.on_late(now, run.decided_at, run.total_bytes()) {
                    congestion.on_spurious_loss(&spurious);
                }
            }
            is_news = true;
            if run.end() > *measured_to {
                *measured_to = run.end();
                // What was given up may have come in time, and only the first report of it was lost.
                match run.fate {
                    Fate::InTransit => *newest_sent = Some(run.stamp.sent_at),
                    _ if is_present => late = Some(*run),
                    _ => {}
                }
            }
            sizing.on_arrived(run.bytes);
            let Some(message) = run.message.checked_sub(*base).and_then(|index| messages.get_mut(index as usize))
            else {
                return true;
            };
            let (low, high) = run.units();
            let was_cut_to = sizing.fragment_at(run.first, fragment);
            let is_one_unit = message.is_one_unit_of(was_cut_to);
            if !is_one_unit {
                if !is_present {
                    back_to = Some(was_cut_to);
                    return true;
                }
                knows_present = true;
            }
            if message.state != State::Ended && (message.acknowledge(low, high) || is_one_unit) {
                if message.next_unit < message.units {
                    // It has arrived as a whole before it was cut.
                    *ready_bytes -= message.unsent_bytes(fragment);
                    message.next_unit = message.units;
                    has_unsent = true;
                }
                //= Z-16
                let refused = message.state == State::Refusing;
                message.state = State::Ended;
                if refused {
                    counters.messages_failed += 1;
                } else {
                    counters.messages_sent += 1;
                }
                let result = if refused { Err(Failure::TooLong) } else { Ok(()) };
                events.push_back(Event::Sent { number: run.message, buffer: message.buffer, result });
            }
            true
        });
        if let Some(run) = late {
            let most = now - run.stamp.sent_at;
            self.presumed = (3 * most + self.config.ack_delay).min(BACK_OFF_CAP);
            // One at a time: what is sent again and again would put off the measure for ever.
            let is_awaited = self.awaited.as_ref().is_some_and(|awaited| now - awaited.sent_at <= awaited.most);
            if !is_awaited
                && let Some((number, sent_at)) = self.transit.newest_of(run.message, run.units().1 - 1)
                && number >= run.end()
            {
                // A quarter more, because no two round trips are alike.
                self.awaited = Some(Awaited { number, sent_at, most: most + most / 4 });
            }
        }
        if has_unsent {
            let Self { ready, messages, base, .. } = self;
            ready.retain(|number| {
                let message = number.checked_sub(*base).and_then(|index| messages.get(index as usize));
                message.is_some_and(|message| message.state != State::Ended)
            });
        }
        while self.messages.front().is_some_and(|message| message.state == State::Ended) {
            self.messages.pop_front();
            self.base += 1;
        }
        // Who kept what was cut before acknowledges what is cut anew as a copy of it.
        if let Some(fragment) = back_to.filter(|_| !self.sizing.is_known()) {
            self.cut_to(now, fragment);
            self.sizing.on_known();
        } else if knows_present {
            self.sizing.on_known();
        }
        is_news
    }

    /// Cuts anew what has not ended, into units that carry `fragment` bytes.
    fn cut_to(&mut self, now: Time, fragment: u32) {
        self.sizing.on_cut(self.transit.next(), self.fragment);
        self.transit.give_up(now);
        self.again.clear();
        self.announced = None;
        self.awaited = None;
        self.ready.clear();
        self.ready_bytes = 0;
        for (number, message) in (self.base..).zip(&mut self.messages) {
            if message.state == State::Ended {
                continue;
            }
            message.cut(fragment);
            if message.capacity.is_some() {
                self.ready.push_back(number);
                self.ready_bytes += message.unsent_bytes(fragment);
            }
        }
        self.set_unit_bytes(fragment as usize + TRAILER_BYTES, now);
        // What the path does with others is not known yet.
        self.rtt.reset_back_off();
        (self.backed_off, self.timer) = (None, None);
    }

    /// Goes on with smaller units where the path loses all of this size.
    fn step_down(&mut self, now: Time) {
        if let Some(fragment) = self.sizing.smaller(self.fragment) {
            self.cut_to(now, fragment);
        }
    }

    /// Moves reported losses back to the units to send.
    //= Z-8
    fn on_lost(&mut self, now: Time, low: u64, high: u64) {
        let unit = self.fragment + TRAILER_BYTES as u32;
        let Self { transit, again, counters, order, sizing, .. } = self;
        transit.decide(now, low, high, Fate::GivenUp, |run| {
            let (low, high) = run.units();
            again.push_back((run.message, low, high));
            counters.units_reported_lost += u64::from(run.count);
            order.on_noticed(now, run.total_bytes(), run.stamp.sent_at);
            sizing.on_lost(now, run.stamp.sent_at, run.bytes, unit);
            true
        });
    }

    /// What was sent again, and has arrived, is remembered for a time-out more: to know whether it was lost at all.
    fn forget_settled(&mut self, now: Time) {
        let until = Time::from_nanos(now.as_nanos().saturating_sub(self.timeout().as_nanos() as u64));
        let Self { transit, messages, base, sizing, .. } = self;
        transit.forget(Config::MAX_TRANSIT / 2, until, |run| {
            // How long units were before matters until that is known, and whether a message was one of them.
            let is_present = sizing.is_present(run.first);
            if is_present { is_settled(messages, *base, run) } else { has_ended(messages, *base, run) }
        });
    }

    fn set_pace(&mut self, now: Time) {
        let unit = u64::from(self.fragment) + TRAILER_BYTES as u64;
        let rate = [self.congestion.pacing_rate(), self.config.rate].into_iter().flatten().min();
        // At most one system call's worth.
        self.pacer.follow(now, rate, unit, 65_535);
    }

    /// Whether progress depends on the peer (Z-19).
    fn update_liveness(&mut self, now: Time) {
        let idle_peer = self.liveness.peer_reports_idle && !self.messages.is_empty();
        let open = self.closed.is_none();
        self.liveness.set_outstanding(now, open && self.has_begun(), open && idle_peer);
    }

    /// Whether a unit is in transit, or waits to be sent again.
    fn has_begun(&self) -> bool {
        self.transit.units_in_flight() > 0 || !self.again.is_empty()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time, path: &Path) {
        if self.closed.is_some() {
            return;
        }
        if self.liveness.deadline().is_some_and(|deadline| deadline <= now) {
            //= Z-19
            let is_swallowed = self.sizing.is_swallowed() && self.liveness.is_heard_in_vain();
            self.fail_all(if is_swallowed { Failure::Swallowed } else { Failure::PeerGone });
            return;
        }
        if self.timer.is_some_and(|timer| timer <= now) {
            self.on_timer(now, path);
        }
        if self.paced_until.is_some_and(|until| until <= now) {
            self.paced_until = None;
        }
    }

    /// How long to wait for an acknowledgement.
    //= Z-12
    fn timeout(&self) -> Duration {
        let presumed = if self.rtt.smoothed().is_none() { self.presumed } else { Duration::ZERO };
        self.rtt.timeout().max(presumed)
    }

    fn timeouts(&self) -> Timeouts {
        let since = self.timeout();
        // An acknowledgement has ended the doubling for all.
        let doubled = self.backed_off.filter(|_| self.rtt.doublings() > 0);
        let (doubled_at, before) = doubled.unwrap_or((Time::ZERO, since));
        Timeouts { doubled_at, before, since }
    }

    /// The units of a flight expire one after the other, as they left. The time-out is doubled, and the windows shrink, at
    /// the first of them only: the rest says nothing new. One unit then goes in any case, because its acknowledgement tells
    /// of everything before it, while what else is in transit may keep the windows closed.
    //= Z-8
    //= Z-12
    fn on_timer(&mut self, now: Time, path: &Path) {
        let timeouts = self.timeouts();
        let unit = self.fragment + TRAILER_BYTES as u32;
        let Self { transit, again, counters, messages, base, sizing, .. } = self;
        let mut newest = None;
        transit.expire(now, &timeouts, |run| {
            if is_settled(messages, *base, run) {
                // It was sent again in vain, and nobody misses it.
                return;
            }
            let (low, high) = run.units();
            again.push_back((run.message, low, high));
            counters.units_timed_out += u64::from(run.count);
            newest = newest.max(Some(run.stamp.sent_at));
            sizing.on_lost(now, run.stamp.sent_at, run.bytes, unit);
        });
        if let Some(newest) = newest {
            counters.timeouts += 1;
            if self.backed_off.is_none_or(|(at, _)| newest >= at) {
                self.backed_off = Some((now, self.timeout()));
                self.rtt.back_off();
                // Of a unit that is alone because nobody knows the peer, a loss says as little of the path as that of a SYN,
                // and there is no smaller window.
                if !path.is_limited() {
                    self.congestion.on_timeout(now);
                    self.set_pace(now);
                }
                self.probing = true;
            }
        }
        self.timer = self.transit.expires_at(&self.timeouts());
        self.step_down(now);
        self.update_liveness(now);
    }

    /// Whether the network should cut what is too large for it, because it seems to lose that in silence and units can get no
    /// smaller any more.
    pub(crate) fn may_be_cut(&self) -> bool {
        self.sizing.is_known() && self.sizing.is_swallowed()
    }

    pub(crate) fn on_malformed(&mut self) {
        self.counters.datagrams_malformed += 1;
    }

    pub(crate) fn handle_unreachable(&mut self) {
        self.counters.unreachable_reports += 1;
    }

    pub(crate) fn poll_at(&self, path: &Path) -> PollAt {
        if self.closed.is_some() {
            return PollAt::Ingress;
        }
        let timer = self.timer.filter(|_| self.transit.units_in_flight() > 0);
        PollAt::at(timer)
            .min(PollAt::at(self.paced_until))
            .min(PollAt::at(self.hold_ends()))
            .min(PollAt::at(self.idle_due.filter(|_| self.waiting > 0 && self.may_idle(path))))
            .min(PollAt::at(self.idle_answer))
            .min(PollAt::at(self.liveness.deadline()))
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// The newest transmission of a unit of which one before was acknowledged, late. If that was so because the path is long,
/// then this one will be, too, though nobody needs it any more: without it no time-out would ever reach such a round trip.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    number: u64,
    sent_at: Time,
    /// The round trip is no longer than that; what says more repeats a report that was lost.
    most: Duration,
}

/// Whether the message of a run has ended.
fn has_ended(messages: &VecDeque<Outgoing>, base: u64, run: &Run) -> bool {
    let Some(index) = run.message.checked_sub(base) else { return true };
    messages.get(index as usize).is_none_or(|message| message.state == State::Ended)
}

/// Whether every unit of a run has been acknowledged, under whichever number.
fn is_settled(messages: &VecDeque<Outgoing>, base: u64, run: &Run) -> bool {
    let (low, high) = run.units();
    let Some(index) = run.message.checked_sub(base) else { return true };
    messages.get(index as usize).is_none_or(|message| message.acknowledged(low, high))
}

#[cfg(test)]
impl Sender {
    /// As if so many messages had been sent and had ended.
    pub(crate) fn skip_to(&mut self, number: u64) {
        self.base = number;
    }
}
