//! The receiving half.
//!
//! The application posts buffers; requests name them to the sender (Z-3, Z-13); units come, mostly into the place that
//! [`plan_receive`](Receiver::plan_receive) foresaw (Z-18); block acknowledgements say what has come ([`report`]).

mod incoming;
mod plan;
mod report;
mod transmit;
mod unplaced;

use crate::liveness::Liveness;
use crate::path::Path;
use crate::{Config, Event, Failure, ReceiverCounters, Refused};
use core::time::Duration;
use incoming::{Incoming, Rejected, State};
use pinnace_core::{BufferId, BufferRange, Placed, PollAt, Segment, Time, unwrap32};
use pinnace_wire::zcrp::{TRAILER_BYTES, Unit};
use report::Report;
use std::collections::VecDeque;
use unplaced::{Unplaced, UnplacedUnits};

/// How often the newest acknowledgement is repeated at the end, and how far apart (Z-15).
const FAREWELLS: u32 = 2;
const FAREWELL_INTERVAL: Duration = Duration::from_millis(20);

/// How long an urgent acknowledgement lets an answer of the application's go first, on a duplex channel.
const COURTESY: Duration = Duration::from_micros(10);

/// The receiving half is being closed: it says the newest acknowledgement again, and answers duplicates meanwhile.
#[derive(Debug)]
struct Farewell {
    left: u32,
    next: Time,
}

/// The receiving half of ZCRP.
#[derive(Debug)]
pub struct Receiver {
    config: Config,
    counters: ReceiverCounters,
    /// Messages from `base` on; `base` is the lowest that is not complete (Z-14).
    messages: VecDeque<Incoming>,
    base: u64,
    /// Messages of which some units have come, but not all.
    begun: usize,
    /// Messages below this have been requested.
    requested: u64,
    /// When the first repetition of a request is due. Never late.
    request_timer: Option<Time>,
    /// Repetitions due now, from this message on.
    repeating: Option<u64>,
    /// Data bytes of every unit but the last, `F`, once a unit has shown it.
    fragment: Option<u32>,
    /// Last units that came before that.
    unplaced: UnplacedUnits,
    /// Bytes of the datagrams of the newest read: the best guess for the next.
    stride: usize,
    /// The unit that the newest one announced.
    announced: Option<(u64, u32)>,
    /// Units of the message that completed last, and the buffer posted for it: the best guess for the next.
    usual: Option<(u32, u32)>,
    report: Report,
    liveness: Liveness,
    /// Something has come that only the peer sends, see [`Config::peer_unproven`].
    is_proven: bool,
    flow_due: bool,
    held: bool,
    /// Since when requests wait for company.
    waiting_since: Option<Time>,
    closed: Option<Failure>,
    farewell: Option<Farewell>,
    events: VecDeque<Event>,
}

impl Receiver {
    /// A receiver that has posted nothing.
    pub fn new(config: Config) -> Self {
        let config = config.asking_in_time();
        Self {
            counters: ReceiverCounters::default(),
            messages: VecDeque::new(),
            base: 0,
            begun: 0,
            requested: 0,
            request_timer: None,
            repeating: None,
            fragment: None,
            unplaced: UnplacedUnits::default(),
            stride: 0,
            announced: None,
            usual: None,
            report: Report::new(&config),
            liveness: Liveness::new(config.peer_timeout),
            is_proven: !config.peer_unproven,
            flow_due: false,
            held: false,
            waiting_since: None,
            closed: None,
            farewell: None,
            events: VecDeque::new(),
            config,
        }
    }

    /// Posts `capacity` bytes of `buffer` for the next message and returns its number (Z-4, Z-17).
    ///
    /// # Errors
    /// [`Refused`], without taking a number.
    //= Z-4
    //= Z-17
    pub fn post(&mut self, now: Time, buffer: BufferId, capacity: u32) -> Result<u64, Refused> {
        self.check_room(1)?;
        let number = self.next_number();
        self.messages.push_back(Incoming::new(buffer, capacity));
        self.update_liveness(now);
        Ok(number)
    }

    /// Whether `count` more messages can be posted.
    ///
    /// # Errors
    /// Why not.
    pub fn check_room(&self, count: usize) -> Result<(), Refused> {
        self.config.check_room(self.closed, self.messages.len(), count)
    }

    /// The number that the next [`Receiver::post`] takes.
    pub fn next_number(&self) -> u64 {
        self.base + self.messages.len() as u64
    }

    /// While held, requests wait until a datagram is full or none is outstanding: the application is still posting.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// The application answers messages on the same channel: for a moment, acknowledgements let its answers go first.
    pub(crate) fn expect_answers(&mut self) {
        self.report.set_courtesy(COURTESY);
    }

    /// What has been seen so far.
    pub fn counters(&self) -> ReceiverCounters {
        self.counters
    }

    /// Whether a message is under way.
    pub fn is_busy(&self) -> bool {
        if self.closed.is_some() { self.farewell.is_some() } else { !self.messages.is_empty() }
    }

    /// Whether some units of a message have come, and not all.
    pub fn has_begun(&self) -> bool {
        self.begun > 0
    }

    /// Ends the receiver: what is under way fails. The newest acknowledgement is repeated twice, and duplicates are
    /// answered meanwhile; then [`Event::ReceiverClosed`] comes.
    //= Z-15
    pub fn close(&mut self, now: Time) {
        if self.closed.is_none() {
            self.fail_all(Failure::Closed);
            // What has not been reported yet is said first, and is then the newest.
            let left = FAREWELLS + u32::from(self.report.is_unreported());
            self.farewell = Some(Farewell { left, next: now + FAREWELL_INTERVAL });
            self.report.repeat();
        }
    }

    fn fail_all(&mut self, failure: Failure) {
        self.closed = Some(failure);
        for (index, message) in self.messages.iter_mut().enumerate() {
            if message.state != State::Complete {
                let number = self.base + index as u64;
                // A buffer that nothing has come for is no message.
                self.counters.messages_failed += u64::from(message.state == State::Begun);
                message.state = State::Failed;
                self.events.push_back(Event::Received { number, buffer: message.buffer, result: Err(failure) });
            }
        }
        self.begun = 0;
        self.unplaced = UnplacedUnits::default();
        self.request_timer = None;
        self.repeating = None;
        self.announced = None;
        self.flow_due = false;
    }

    fn message(&self, number: u64) -> Option<&Incoming> {
        self.messages.get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    pub(crate) fn limits_amplification(&self) -> bool {
        self.config.limit_amplification
    }

    /// Whether what comes is of the peer, see [`Config::peer_unproven`].
    pub(crate) fn knows_peer(&self) -> bool {
        self.is_proven
    }

    /// The sender has introduced itself before this receiver was made.
    //= Z-21
    pub(crate) fn on_introduced(&mut self) {
        self.liveness.peer_reports_idle = true;
        self.flow_due = true;
    }

    /// What came makes the link hear nobody else any more (Z-21): from now on the peer's silence counts.
    //= Z-21
    pub(crate) fn prove_peer(&mut self) {
        self.is_proven = true;
    }

    pub(crate) fn on_malformed(&mut self) {
        self.counters.datagrams_malformed += 1;
    }

    /// The sender has nothing that was requested (Z-21), and will send `next`.
    //= Z-21
    pub(crate) fn handle_idle(&mut self, now: Time, next: u32) {
        if self.closed.is_some() {
            return;
        }
        self.counters.idles_received += 1;
        if unwrap32(self.base, next) >= self.base {
            self.liveness.on_heard(now);
        }
        // Otherwise it is late, or of a sender that was started again at the same port: that the one before is still there
        // does not follow.
        // The first is answered by a hint in any case: then the sender knows that this receiver speaks of idleness as well,
        // and does not wait without end if it goes before it ever has nothing to request.
        let is_first = !core::mem::replace(&mut self.liveness.peer_reports_idle, true);
        if is_first || self.messages.back().is_none_or(|message| message.state != State::Posted) {
            self.flow_due = true;
        }
        self.update_liveness(now);
    }

    /// A unit came.
    //= Z-14
    //= Z-18
    pub(crate) fn handle_unit(&mut self, now: Time, unit: &Unit, segment: &Segment, rx: &mut Placed<'_>) {
        let Some(sequence) = self.report.locate(unit.sequence) else {
            //= Z-6
            self.counters.units_stale += 1;
            return;
        };
        if self.closed.is_some() && self.farewell.is_none() {
            return;
        }
        self.liveness.on_answered(now);
        self.prove_peer();
        self.stride = segment.len;
        self.announced = unit.next.map(|(message, next)| (unwrap32(self.base, message), next));
        let number = unwrap32(self.base, unit.message);
        if number < self.base {
            self.on_duplicate(now, sequence);
            return;
        }
        let known = self.message(number).is_some_and(|message| message.state != State::Failed);
        if number >= self.requested || !known {
            self.counters.units_unrequested += 1;
            return;
        }
        if unit.refused {
            self.on_refused(now, number, sequence);
            return;
        }
        let Some(offset) = self.offset_of(unit, segment.len - TRAILER_BYTES) else {
            return;
        };
        let is_unplaced = self.fragment.is_none() && unit.is_last && unit.unit > 0;
        let index = (number - self.base) as usize;
        let message = &mut self.messages[index];
        if is_unplaced && message.misses(unit.unit) && !self.unplaced.has_room(unit.length) {
            self.counters.units_unplaceable += 1;
            return;
        }
        let fresh = message.state == State::Posted;
        match message.accept(unit, offset) {
            Ok(complete) => {
                self.begun += usize::from(fresh);
                let payload = 0..unit.length as usize;
                let copied = if is_unplaced {
                    let data = rx.pieces(segment, payload).collect::<Vec<_>>().concat();
                    self.unplaced.keep(Unplaced {
                        message: number,
                        unit: unit.unit,
                        data,
                        room: segment.len - TRAILER_BYTES,
                    });
                    unit.length
                } else {
                    rx.settle(segment, payload, BufferRange::new(message.buffer, offset, unit.length))
                };
                if !unit.is_last && self.fragment.replace(unit.length).is_none() {
                    self.place_kept(unit.length, rx);
                }
                self.counters.units_in_place += u64::from(copied == 0);
                self.counters.units_copied += u64::from(copied > 0);
                self.counters.bytes_copied += u64::from(copied);
                self.counters.bytes_received += u64::from(unit.length);
                self.report.on_kept(now, sequence, unit.length);
                if complete {
                    self.on_complete(now, number);
                }
            }
            Err(Rejected::Duplicate) => self.on_duplicate(now, sequence),
            Err(Rejected::Contradictory) => self.counters.units_contradictory += 1,
        }
        if unit.next.is_none() {
            //= Z-11
            self.report.hurry(now);
        }
    }

    /// Takes in the datagrams after `unit` for as long as each is exactly what was announced, full, and in its place.
    /// Returns how many there were, and the first that is something else. The same as handling them one by one, for a
    /// fraction of the time.
    pub(crate) fn handle_run(&mut self, now: Time, unit: &Unit, rx: &mut Placed<'_>) -> (u32, Option<Segment>) {
        let number = unwrap32(self.base, unit.message);
        let fragment = unit.length;
        let plain = |message: &&Incoming| message.is_plain_after(unit.unit);
        let begins = self.closed.is_none()
            && self.fragment == Some(fragment)
            && unit.next == Some((unit.message, unit.unit.wrapping_add(1)))
            && self.report.is_highest(unit.sequence);
        let Some(message) = self.message(number).filter(|_| begins).filter(plain) else {
            return (0, None);
        };
        let (buffer, capacity) = (message.buffer, u64::from(message.capacity));
        let mut expected = *unit;
        let mut count = 0;
        let stray = loop {
            let Some(segment) = rx.next_segment() else { break None };
            expected.unit = expected.unit.wrapping_add(1);
            expected.sequence = expected.sequence.wrapping_add(1);
            expected.next = Some((unit.message, expected.unit.wrapping_add(1)));
            let to = BufferRange::new(buffer, u64::from(expected.unit) * u64::from(fragment), fragment);
            let is_expected = segment.len == Self::datagram_bytes(fragment)
                && to.end() <= capacity
                && rx.tail::<TRAILER_BYTES>(&segment) == Some(expected.encode())
                && rx.is_in_place(&segment, to);
            if !is_expected {
                break Some(segment);
            }
            count += 1;
        };
        if count > 0 {
            let bytes = u64::from(count) * u64::from(fragment);
            self.messages[(number - self.base) as usize].prefix += count;
            self.announced = Some((number, unit.unit + count + 1));
            self.counters.units_in_place += u64::from(count);
            self.counters.bytes_received += bytes;
            self.report.on_kept_run(now, count, bytes);
        }
        (count, stray)
    }

    /// `F` is known: what was kept goes to its place.
    fn place_kept(&mut self, fragment: u32, rx: &mut Placed<'_>) {
        for Unplaced { message, unit, data, .. } in self.unplaced.take() {
            let offset = u64::from(unit) * u64::from(fragment);
            if let Some(message) = self.messages.get_mut((message - self.base) as usize) {
                message.ends_at(offset + data.len() as u64);
                rx.restore(data, message.buffer, offset);
            }
        }
    }

    /// Where a unit's data belongs, if its number and length agree with the fragment size. Of a last unit that comes before that
    /// is known: where it belongs at least. Its datagram has `room` bytes for data.
    fn offset_of(&mut self, unit: &Unit, room: usize) -> Option<u64> {
        match self.fragment {
            // Not even padding makes the last one longer than the others: it is of a time when those had another length.
            Some(fragment) if room > fragment as usize || (!unit.is_last && unit.length != fragment) => {
                // A message of one unit fits any fragment size that has not been contradicted.
                self.counters.units_contradictory += 1;
                None
            }
            Some(fragment) => Some(u64::from(unit.unit) * u64::from(fragment)),
            None if unit.is_last => Some(u64::from(unit.unit) * u64::from(unit.length.max(1))),
            None if self.unplaced.agree_with(unit.length, |number| self.message(number).map(|m| m.capacity)) => {
                Some(u64::from(unit.unit) * u64::from(unit.length))
            }
            None => {
                self.counters.units_contradictory += 1;
                None
            }
        }
    }

    fn on_duplicate(&mut self, now: Time, sequence: u64) {
        //= Z-14
        self.counters.units_duplicate += 1;
        // The same number again has been doubled by the network, and the sender does not wait.
        if self.report.on_kept(now, sequence, 0) {
            self.report.hurry(now);
        }
    }

    //= Z-16
    fn on_refused(&mut self, now: Time, number: u64, sequence: u64) {
        let message = &mut self.messages[(number - self.base) as usize];
        if message.state == State::Begun {
            self.counters.units_contradictory += 1;
            return;
        }
        if message.state == State::Complete {
            self.on_duplicate(now, sequence);
            return;
        }
        message.state = State::Complete;
        let buffer = message.buffer;
        self.counters.messages_failed += 1;
        self.events.push_back(Event::Received { number, buffer, result: Err(Failure::TooLong) });
        self.report.on_kept(now, sequence, 0);
        self.report.hurry(now);
        self.advance();
    }

    fn on_complete(&mut self, now: Time, number: u64) {
        let message = &mut self.messages[(number - self.base) as usize];
        message.state = State::Complete;
        self.begun -= 1;
        let (units, size) = message.extent();
        self.usual = Some((units, message.capacity));
        self.counters.messages_received += 1;
        self.events.push_back(Event::Received { number, buffer: message.buffer, result: Ok(size) });
        //= Z-11
        self.report.hurry(now);
        self.advance();
    }

    /// Forgets the messages in front that have ended.
    fn advance(&mut self) {
        while self.messages.front().is_some_and(|message| message.state == State::Complete) {
            self.messages.pop_front();
            self.base += 1;
        }
    }

    /// The datagrams of one read have been handled.
    pub(crate) fn end_read(&mut self, now: Time) {
        let (units, delay) = (self.config.reorder_units, self.config.reorder_delay);
        self.counters.units_reported_lost += self.report.judge_gaps(now, units, delay);
        self.update_liveness(now);
    }

    /// Whether progress depends on the peer (Z-19).
    fn update_liveness(&mut self, now: Time) {
        // Anybody can introduce anybody: then nobody is known to be there who could disappear.
        let idle_peer = self.liveness.peer_reports_idle && self.is_proven && !self.messages.is_empty();
        let open = self.closed.is_none();
        self.liveness.set_outstanding(now, open && self.begun > 0, open && idle_peer);
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.liveness.deadline().is_some_and(|deadline| deadline <= now) && self.closed.is_none() {
            //= Z-19
            let failure = if self.liveness.is_heard_in_vain() { Failure::Swallowed } else { Failure::PeerGone };
            self.fail_all(failure);
            self.events.push_back(Event::ReceiverClosed(failure));
            return;
        }
        if let Some(farewell) = &mut self.farewell
            && farewell.next <= now
        {
            farewell.left -= 1;
            farewell.next = now + FAREWELL_INTERVAL;
            if farewell.left == 0 {
                self.farewell = None;
                self.events.push_back(Event::ReceiverClosed(Failure::Closed));
            } else {
                self.report.repeat();
            }
        }
        if self.report.timer_expired(now, self.config.ack_delay)
            && self.announced.is_some_and(|(number, _)| self.message(number).is_some())
        {
            self.report.lose_patience();
        }
        self.end_read(now);
        if self.request_timer.is_some_and(|timer| timer <= now) {
            self.repeating = Some(self.base);
            self.request_timer = None;
        }
    }

    pub(crate) fn handle_unreachable(&mut self) {
        self.counters.unreachable_reports += 1;
    }

    pub(crate) fn poll_at(&self, path: &Path) -> PollAt {
        if self.closed.is_some() {
            let report = self.farewell.as_ref().and(self.report.due_at(&self.config)).filter(|_| !self.is_muted(path));
            return PollAt::at(self.farewell.as_ref().map(|farewell| farewell.next)).min(PollAt::at(report));
        }
        // What may not be sent yet waits for the peer, not for a date.
        let report = self.report.due_at(&self.config).filter(|_| !self.is_muted(path));
        PollAt::at(report)
            .min(PollAt::at(self.asks_at(path).filter(|_| self.repeating.is_some())))
            .min(PollAt::at(self.request_timer))
            .min(PollAt::at(self.requests_wait_until()))
            .min(PollAt::at(self.liveness.deadline()))
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Bytes of a datagram with `data` bytes of data.
    fn datagram_bytes(data: u32) -> usize {
        data as usize + TRAILER_BYTES
    }
}

#[cfg(test)]
impl Receiver {
    /// As if so many messages had been posted and had ended.
    pub(crate) fn skip_to(&mut self, number: u64) {
        self.base = number;
        self.requested = number;
    }
}
