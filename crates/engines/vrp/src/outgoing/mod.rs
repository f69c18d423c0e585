//! The sending role (specs/vrp.md, section 3).
//!
//! A frame waits until the path has been measured (V-S3) and until it is its turn to begin; then its header goes out, and
//! its packets side by side with those of other frames (V-S12), within the frame's window (V-S5) and what the congestion
//! controller allows. What is under way is kept once, in the order in which it left ([`Flights`]): that is the
//! retransmission timer of every header and packet.
//!
//! Always true: every frame that [`Outgoing::send`] took ends with one [`Event::Sent`].

mod announced;
mod answers;
mod flights;
mod frame;
mod header;
mod path;
mod rate;
mod timeouts;
mod transmit;

use crate::{Config, Event, Failure, FrameSpec, OutgoingCounters, Refused, Sent};
pub use announced::Void;
use core::time::Duration;
use flights::{Flight, Flights};
use frame::{OutFrame, State};
use path::Carried;
use pinnace_core::{
    Congestion, DeliveryRate, Pacer, PathEvent, PollAt, Random, Reordering, RttConfig, RttEstimator, Time, TimerWheel,
};
use pinnace_wire::vrp::{FRAME_NUMBERS, HEADER_BYTES};
use rate::AllowedRate;
use std::collections::{BTreeMap, VecDeque};

/// No frame is begun whose number is more than this ahead of one whose header is unanswered (V-S2).
const NUMBERS_AHEAD: u16 = 2048;
/// Where numbers tell the order, none is begun that is more than this ahead of one under way: well within the half of all
/// numbers in which an earlier one is known from a later one.
const ORDER_AHEAD: u16 = 4096;
/// Frames side by side at least, where there are so many.
const SIDE_BY_SIDE: usize = 16;
/// Frames side by side at most: what a receiver takes by default, less those that wait to be closed.
const BEGUN_AT_MOST: usize = 512;
/// Frames that take turns packet by packet, so that a lost train is a short run of each, and yet the next packet of each
/// follows soon: the receiver decides about a packet when it sees a later one of the same frame. Further frames wait for
/// one of these to end, or to have had its stint.
const SENDING_TOGETHER: usize = 8;
/// Frames of so many bytes begin whatever large ones are under way: they overtake them.
const SMALL: u64 = 16 * 1024;
/// The first time-out of a PING, before anything is known (V-S10).
const INITIAL_TIMEOUT: Duration = Duration::from_millis(200);
const TIMEOUT_CAP: Duration = Duration::from_secs(2);
/// PINGs of which a PONG is still believed.
const PINGS_KEPT: usize = 24;
/// How often FRAME_CLOSE is sent when the endpoint closes.
const FAREWELLS: u32 = 2;
/// FRAME_CLOSE tags wait for a header to ride in, but no more of them than fit one packet.
const CLOSES_WAITING: usize = 480;
/// Stands for the slot of frames that have not begun, where timers name frames.
const NOT_BEGUN: usize = usize::MAX;

/// Whether the path has been measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    /// INIT, and nobody has asked.
    Unknown,
    /// A PING is under way.
    Measuring { since: Time, repeat_at: Time, timeout: Duration },
    /// OK.
    Open,
}

/// Bytes of a full packet's datagram.
fn full_datagram(config: &Config) -> usize {
    HEADER_BYTES + usize::from(config.packet_bytes)
}

/// Sends frames to one destination.
#[derive(Debug)]
pub struct Outgoing {
    config: Config,
    counters: OutgoingCounters,
    random: Random,
    epoch: u32,
    next_number: u16,
    next_ticket: u64,
    path: Path,
    carried: Carried,
    /// Frames whose receiver is asked what there is of them.
    questions: VecDeque<(usize, u64)>,
    /// When a PONG came last.
    ponged_at: Option<Time>,
    /// When a PING says that this end is there, and how long the next one is waited for.
    alive_at: Option<Time>,
    alive_wait: Duration,
    /// The newest PINGs: what they say, when they left, and the bytes of their datagrams.
    pings: VecDeque<([u8; 8], Time, u32)>,
    rtt: RttEstimator,
    congestion: Box<dyn Congestion>,
    delivery: DeliveryRate,
    /// Whether the path keeps the order, and what may only be late.
    order: Reordering,
    pacer: Pacer,
    paced_until: Option<Time>,
    flights: Flights,
    /// Bytes of the largest datagram of the frames that have begun, and at least of a full packet.
    largest: usize,
    /// Frames that have begun, by slot.
    slots: Vec<Option<Box<OutFrame>>>,
    free: Vec<usize>,
    by_number: BTreeMap<u16, usize>,
    /// Bytes of the frames that have begun and that have not left yet: of large frames, and of small ones.
    unsent_bytes: [u64; 2],
    /// Frames that have not begun.
    waiting: VecDeque<Box<OutFrame>>,
    /// Frames whose header was unanswered when it was last looked at, in the order of their numbers.
    unanswered: VecDeque<(usize, u64)>,
    /// Headers to send: slot and ticket.
    headers: VecDeque<(usize, u64)>,
    /// Packets to send again: slot, ticket, packet.
    again: VecDeque<(usize, u64, u32)>,
    /// Copies of last packets, sent to be on the safe side.
    echoes: VecDeque<(usize, u64, u32)>,
    /// Frames with packets that were never sent.
    ready: VecDeque<(usize, u64)>,
    /// Of those, while a train is written: the frames whose next packet is too short for it.
    put_off: Vec<(usize, u64)>,
    turn: u64,
    /// The application is still queueing.
    is_held: bool,
    /// What was queued was worth a train: all of it leaves before anything is held back again.
    is_leaving: bool,
    timers: TimerWheel<(usize, u64)>,
    allowed: AllowedRate,
    /// How many of the frames that have begun are only announced.
    announcements: usize,
    /// The announced number that no frame has come with, until somebody is told.
    void: Option<Void>,
    /// Numbers of frames that were too late, where order counts, until somebody is told.
    given_up: VecDeque<u16>,
    /// Frames whose rate in force is to be told.
    rates: VecDeque<(usize, u64)>,
    /// Numbers of frames that have ended and not been closed.
    closes: VecDeque<u16>,
    close_at: Option<Time>,
    /// The endpoint is being closed: how often it still says good-bye.
    farewell: Option<u32>,
    farewell_closes: Vec<u16>,
    /// Packets of it that have left.
    farewell_sent: usize,
    closed: bool,
    /// The newest answer to anything.
    heard_at: Time,
    probe: Probe,
    /// Of the read being handled.
    batch: Batch,
    scratch: Vec<u8>,
    events: VecDeque<Event>,
}

/// What a silent peer was asked with.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    /// How often, since it was heard of then.
    count: u32,
    heard_at: Time,
    /// When last.
    at: Time,
}

/// What a batch of answers says together.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    rtt: Option<Duration>,
    /// Of the answer being handled.
    answered: Option<Answered>,
}

/// What an answer acknowledges that left last.
#[derive(Clone, Copy, Debug)]
struct Answered {
    sent_at: Time,
    /// It was sent once, and acknowledged by name.
    is_measure: bool,
}

impl Batch {
    /// Of what left together one that is a measure is enough.
    fn on_answered(&mut self, sent_at: Time, is_measure: bool) {
        let new = (sent_at, is_measure);
        if self.answered.is_none_or(|old| (old.sent_at, old.is_measure) < new) {
            self.answered = Some(Answered { sent_at, is_measure });
        }
    }
}

impl Outgoing {
    /// An endpoint that has sent nothing.
    //= V-S1
    //= V-S2
    pub fn new(config: Config, now: Time) -> Self {
        let mut random = Random::from_seed(config.seed);
        let rtt = RttEstimator::new(RttConfig {
            smoothing: 8,
            deviation_smoothing: 8,
            deviations: 4,
            floor: config.timeout_floor,
            cap: TIMEOUT_CAP,
            back_off_cap: TIMEOUT_CAP,
            initial: INITIAL_TIMEOUT,
            ..RttConfig::default()
        });
        let full = full_datagram(&config);
        let mut outgoing = Self {
            epoch: random.next_u32(),
            next_number: (random.next_u32() as u16) % FRAME_NUMBERS,
            random,
            next_ticket: 0,
            path: Path::Unknown,
            carried: Carried::default(),
            questions: VecDeque::new(),
            ponged_at: None,
            alive_at: None,
            alive_wait: INITIAL_TIMEOUT,
            pings: VecDeque::new(),
            rtt,
            congestion: config.congestion.build(full as u64, now),
            delivery: DeliveryRate::new(),
            order: Reordering::default(),
            pacer: Pacer::unlimited(),
            paced_until: None,
            flights: Flights::new(),
            largest: full,
            slots: Vec::new(),
            free: Vec::new(),
            by_number: BTreeMap::new(),
            unsent_bytes: [0; 2],
            waiting: VecDeque::new(),
            unanswered: VecDeque::new(),
            headers: VecDeque::new(),
            again: VecDeque::new(),
            echoes: VecDeque::new(),
            ready: VecDeque::new(),
            put_off: Vec::new(),
            turn: 0,
            is_held: false,
            is_leaving: false,
            timers: TimerWheel::new(now),
            allowed: AllowedRate::new(),
            announcements: 0,
            void: None,
            given_up: VecDeque::new(),
            rates: VecDeque::new(),
            closes: VecDeque::new(),
            close_at: None,
            farewell: None,
            farewell_closes: Vec::new(),
            farewell_sent: 0,
            closed: false,
            heard_at: now,
            probe: Probe::default(),
            batch: Batch::default(),
            scratch: Vec::new(),
            events: VecDeque::new(),
            counters: OutgoingCounters::default(),
            config,
        };
        outgoing.set_pace(now);
        outgoing
    }

    /// Measures the first round trip ([`Event::Opened`]). A send does it by itself.
    //= V-S3
    pub fn open(&mut self, now: Time) {
        if self.path == Path::Unknown && self.farewell.is_none() && !self.closed {
            self.path = Path::Measuring { since: now, repeat_at: now + INITIAL_TIMEOUT, timeout: INITIAL_TIMEOUT };
            self.ask();
        }
    }

    /// Queues a frame and returns its ticket; [`Event::Sent`] tells how it ended.
    ///
    /// # Errors
    /// [`Refused`]; nothing is sent.
    //= V-S4
    pub fn send(&mut self, now: Time, frame: FrameSpec) -> Result<u64, Refused> {
        if self.closed || self.farewell.is_some() {
            return Err(Refused::Closed);
        }
        if self.frames_under_way() >= self.config.max_frames {
            return Err(Refused::TooMany);
        }
        if let Some(ticket) = self.fill_announced(now, &frame) {
            return Ok(ticket);
        }
        let ticket = self.next_ticket;
        let mut frame = OutFrame::new(ticket, frame, &self.config)?;
        header::check(&self.config, &frame, self.carried.limit())?;
        if self.config.in_order {
            self.void_announced();
        }
        self.next_ticket += 1;
        frame.timer = frame.give_up_at.map(|at| self.timers.insert(at, (NOT_BEGUN, ticket)));
        self.waiting.push_back(Box::new(frame));
        self.open(now);
        self.begin_waiting(now);
        Ok(ticket)
    }

    /// The most bytes a second that leave, headers of UDP and IP not counted ([`Config::rate`]).
    pub fn rate(&self) -> Option<u64> {
        self.config.rate
    }

    /// Sets it anew, for what leaves from now on.
    pub fn set_rate(&mut self, now: Time, rate: Option<u64>) {
        self.config.rate = rate;
        self.set_pace(now);
    }

    /// While held, what is new waits for fuller trains, unless nothing is under way: the application is still queueing.
    pub(crate) fn hold(&mut self, held: bool) {
        self.is_held = held;
    }

    /// Ends the endpoint: frames under way fail with `Closed`; [`Event::OutgoingClosed`] comes when all is said.
    //= V-S4
    pub fn close(&mut self, _now: Time) {
        if self.closed || self.farewell.is_some() {
            return;
        }
        if matches!(self.path, Path::Measuring { .. }) {
            self.events.push_back(Event::Opened(Err(Failure::Closed)));
        }
        self.fail_all(Failure::Closed);
        self.carried.stop();
        self.pings.clear();
        self.path = Path::Unknown;
        self.alive_at = None;
        self.farewell_closes = self.closes.drain(..).collect();
        self.close_at = None;
        self.farewell = Some(if self.farewell_closes.is_empty() { 0 } else { FAREWELLS });
        self.end_farewell();
    }

    /// Gives up all frames under way: they fail, and their receiver is told. Others may be sent, and need not wait for them.
    //= V-S4
    pub fn withdraw(&mut self) {
        self.fail_all(Failure::Closed);
    }

    fn end_farewell(&mut self) {
        if self.farewell == Some(0) {
            self.farewell = None;
            self.closed = true;
            self.events.push_back(Event::OutgoingClosed);
        }
    }

    /// All that have not begun fail.
    fn fail_waiting(&mut self, failure: Failure) {
        while let Some(frame) = self.waiting.pop_front() {
            if let Some(timer) = frame.timer {
                self.timers.cancel(timer);
            }
            self.report(&frame, Err(failure));
        }
    }

    fn fail_all(&mut self, failure: Failure) {
        self.fail_waiting(failure);
        for slot in 0..self.slots.len() {
            if self.slots[slot].is_some() {
                self.fail(slot, failure);
            }
        }
    }

    /// What has been seen so far.
    pub fn counters(&self) -> OutgoingCounters {
        self.counters
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// When an answer of the peer came last, or the engine began.
    pub fn heard(&self) -> Time {
        self.heard_at
    }

    /// The smoothed round trip, once it was measured.
    pub fn round_trip(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// The retransmission time-out now.
    pub fn timeout(&self) -> Duration {
        self.rtt.timeout()
    }

    /// Frames under way.
    pub fn frames_under_way(&self) -> usize {
        self.waiting.len() + self.by_number.len()
    }

    /// What the congestion controller allows: bytes in flight, and bytes a second.
    pub fn congestion(&self) -> (u64, Option<u64>) {
        (self.congestion.window(), self.congestion.pacing_rate())
    }

    /// Bytes that may be in flight: whatever the controller says, two packets, or nothing would ever come behind a lost one
    /// that makes the receiver ask for it.
    fn window(&self) -> u64 {
        self.congestion.window().max(2 * self.largest as u64)
    }

    fn frame(&self, slot: usize, ticket: u64) -> Option<&OutFrame> {
        self.slots.get(slot)?.as_deref().filter(|frame| frame.ticket == ticket)
    }

    fn frame_mut(&mut self, slot: usize, ticket: u64) -> Option<&mut OutFrame> {
        self.slots.get_mut(slot)?.as_deref_mut().filter(|frame| frame.ticket == ticket)
    }

    /// Begins the frames whose turn it is: enough to fill the path, and small ones at once (V-S12).
    //= V-S2
    //= V-S12
    fn begin_waiting(&mut self, now: Time) {
        if self.path != Path::Open {
            return;
        }
        // A round trip's worth, for the headers to be answered, and no more than leaves in a second: a receiver takes a
        // frame for dead of which nothing comes for long.
        let window = self.window();
        let enough = window.saturating_mul(2).min(self.pacer.rate().unwrap_or(u64::MAX));
        while let Some(&(slot, ticket)) = self.unanswered.front() {
            if self.frame(slot, ticket).is_some_and(|frame| frame.state == State::Announced) {
                break;
            }
            self.unanswered.pop_front();
        }
        let mut index = 0;
        while index < self.waiting.len() && self.by_number.len() < BEGUN_AT_MOST {
            let is_small = self.waiting[index].is_small();
            let has_room = self.by_number.len() < SIDE_BY_SIDE || self.unsent_bytes[usize::from(is_small)] < enough;
            if !has_room {
                if self.config.in_order {
                    break;
                }
                // Only small frames behind it may go; a long queue of large ones is not searched to its end each time.
                index += 1;
                if index > 64 {
                    break;
                }
                continue;
            }
            let Some(number) = self.take_number() else { break };
            let Some(frame) = self.waiting.remove(index) else { break };
            self.begin(now, frame, number);
        }
    }

    /// The next free number, if a frame may begin with it.
    fn take_number(&mut self) -> Option<u16> {
        // Neither begun frames nor waiting closes are as many as there are numbers.
        let is_taken = |number: &u16| self.by_number.contains_key(number) || self.closes.contains(number);
        let mut numbers = (0..FRAME_NUMBERS).map(|step| (self.next_number + step) % FRAME_NUMBERS);
        let number = numbers.find(|number| !is_taken(number))?;
        let oldest = self.unanswered.front().and_then(|&(slot, ticket)| self.frame(slot, ticket));
        if oldest.is_some_and(|oldest| number.wrapping_sub(oldest.number) % FRAME_NUMBERS > NUMBERS_AHEAD) {
            return None;
        }
        // All of them lie in front of it: the first behind it in the circle of numbers is the oldest.
        let oldest = self.by_number.range(number..).chain(&self.by_number).next().map_or(number, |(oldest, _)| *oldest);
        if self.config.in_order && number.wrapping_sub(oldest) % FRAME_NUMBERS > ORDER_AHEAD {
            return None;
        }
        self.next_number = (number + 1) % FRAME_NUMBERS;
        Some(number)
    }

    fn begin(&mut self, now: Time, mut frame: Box<OutFrame>, number: u16) {
        frame.number = number;
        frame.heard_at = now;
        let limit = self.carried.limit();
        if !self.fit(&mut frame) {
            // Nobody has heard of the number, and the next frame has it.
            self.next_number = number;
            if let Some(timer) = frame.timer {
                self.timers.cancel(timer);
            }
            self.report(&frame, Err(Failure::Swallowed));
            return;
        }
        header::write(&self.config, &mut frame, limit, self.epoch, &mut self.closes);
        if self.closes.is_empty() {
            self.close_at = None;
        }
        frame.header_queued = true;
        let ticket = frame.ticket;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        if let Some(timer) = frame.timer {
            self.timers.cancel(timer);
        }
        frame.served_at = now;
        frame.timer = Some(self.timers.insert(frame.looks_at(now, &self.config), (slot, ticket)));
        self.by_number.insert(number, slot);
        frame.unsent = if frame.inline { 0 } else { frame.size };
        self.unsent_bytes[usize::from(frame.is_small())] += u64::from(frame.unsent);
        self.allowed.on_begin(&frame);
        let largest = frame.largest_datagram();
        self.slots[slot] = Some(frame);
        if largest > self.largest {
            self.largest = largest;
            self.set_pace(now);
        }
        self.unanswered.push_back((slot, ticket));
        self.headers.push_back((slot, ticket));
    }

    /// Takes a frame out: nothing of it counts as under way any more; its number waits to be closed.
    fn end(&mut self, slot: usize) -> Option<Box<OutFrame>> {
        let frame = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        self.by_number.remove(&frame.number);
        self.unsent_bytes[usize::from(frame.is_small())] -= u64::from(frame.unsent);
        self.allowed.on_end(&frame);
        let least = self.full();
        if self.largest > least && frame.largest_datagram() == self.largest {
            let others = self.slots.iter().flatten().map(|frame| frame.largest_datagram());
            if others.clone().all(|bytes| bytes < self.largest) {
                self.largest = others.fold(least, usize::max);
            }
        }
        for id in frame.flights().chain([frame.header_flight]) {
            self.flights.settle(id);
        }
        if let Some(timer) = frame.timer {
            self.timers.cancel(timer);
        }
        if frame.state == State::Announced {
            // What its header was to close must be closed by another: it has not left, or perhaps never arrived. Closing a
            // frame twice does no harm.
            self.closes.extend(&frame.header_closes);
        }
        self.closes.push_back(frame.number);
        Some(frame)
    }

    fn fail(&mut self, slot: usize, failure: Failure) {
        if let Some(frame) = self.end(slot) {
            self.report(&frame, Err(failure));
        }
    }

    fn report(&mut self, frame: &OutFrame, result: Result<Sent, Failure>) {
        if frame.is_announced {
            // Nobody has sent it.
            self.on_announced_in_vain(frame, result.err());
            return;
        }
        match &result {
            Ok(sent) => {
                self.counters.frames_sent += 1;
                self.counters.packets_lost += sent.loss.as_ref().map_or(0, |loss| u64::from(loss.lost));
            }
            Err(_) => self.counters.frames_failed += 1,
        }
        self.events.push_back(Event::Sent { ticket: frame.ticket, buffer: frame.buffer, result });
    }

    /// Has the frame a share of the next train, if it has something new to send?
    fn make_ready(&mut self, slot: usize) {
        let Some(frame) = self.slots[slot].as_deref().filter(|frame| !frame.is_ready && frame.has_new()) else {
            return;
        };
        let sent = self.counters.bytes_sent;
        // Those who began, and small ones, go before those who wait; but nobody waits for ever.
        let longest_waiting = self.ready.get(SENDING_TOGETHER).and_then(|&(slot, ticket)| self.frame(slot, ticket));
        let patience = (2 * self.window().min(u64::MAX / 2)).min(self.pacer.rate().unwrap_or(u64::MAX) / 2);
        let must_queue = longest_waiting.is_some_and(|frame| sent - frame.ready_since > patience);
        let at = match (must_queue, frame.next > 0, frame.is_small()) {
            (false, true, _) => SENDING_TOGETHER - 1,
            (false, false, true) => self.behind_small(),
            _ => usize::MAX,
        };
        let Some(frame) = self.slots[slot].as_deref_mut() else { return };
        (frame.is_ready, frame.ready_since) = (true, sent);
        self.ready.insert(at.min(self.ready.len()), (slot, frame.ticket));
    }

    /// Where a small frame takes its place: behind those that take turns, and the small ones that came before.
    fn behind_small(&self) -> usize {
        let is_small = |&(slot, ticket): &(usize, u64)| self.frame(slot, ticket).is_some_and(OutFrame::is_small);
        let (mut low, mut high) = (SENDING_TOGETHER - 1, self.ready.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.ready.get(middle).is_some_and(is_small) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    fn queue_header(&mut self, slot: usize) {
        if let Some(frame) = self.slots[slot].as_deref_mut()
            && !frame.header_queued
        {
            frame.header_queued = true;
            self.headers.push_back((slot, frame.ticket));
        }
    }

    /// The controller reckons in packets of the endpoint's size. Where a frame's own are so much larger that the window has to
    /// be more than the controller's, it leaves in a round trip all the same: at the controller's pace a packet might wait
    /// for longer than its receiver does. In bytes a second.
    fn least_pace(&self) -> u64 {
        let (window, round_trip) = (self.window(), self.rtt.smoothed().unwrap_or(INITIAL_TIMEOUT));
        if window <= self.congestion.window() {
            return 0;
        }
        u64::try_from(u128::from(window) * 1_000_000_000 / round_trip.as_nanos().max(1)).unwrap_or(u64::MAX)
    }

    fn set_pace(&mut self, now: Time) {
        let pace = self.congestion.pacing_rate().map(|rate| rate.max(self.least_pace()));
        let rate = [pace, self.config.rate].into_iter().flatten().min();
        self.pacer.follow(now, rate, self.largest as u64, self.config.burst);
    }

    /// A transmission counts as lost for the congestion controller.
    fn note_loss(&mut self, now: Time, flight: &Flight) {
        self.order.on_noticed(now, u64::from(flight.bytes), flight.stamp.sent_at);
    }

    /// So many bytes have arrived that seemed to be lost since `lost_at`.
    fn on_late(&mut self, now: Time, lost_at: Time, bytes: u64) {
        if let Some(late) = self.order.on_late(now, lost_at, bytes) {
            self.congestion.on_spurious_loss(&late);
        }
    }

    /// What a batch of answers, or a time-out, means for the pace.
    fn end_batch(&mut self, now: Time) {
        let Batch { rtt, answered: _ } = core::mem::take(&mut self.batch);
        let in_flight_after = self.flights.bytes();
        while let Some(loss) = self.order.poll(now, in_flight_after) {
            self.congestion.on_loss(&loss);
        }
        if let Some(sample) = self.delivery.finish(now, rtt, in_flight_after) {
            self.congestion.on_ack(&sample);
        }
        self.set_pace(now);
        self.start_close_timer(now);
        self.begin_waiting(now);
    }

    pub(crate) fn handle_path_event(&mut self, _now: Time, event: PathEvent) {
        //= V-S4
        if event == PathEvent::Unreachable {
            self.counters.unreachable_reports += 1;
        }
    }

    pub(crate) fn poll_at(&self) -> PollAt {
        if self.closed {
            return PollAt::Ingress;
        }
        let ping = match self.path {
            Path::Measuring { since, repeat_at, .. } => Some(repeat_at.min(since + self.config.life_timeout)),
            Path::Unknown | Path::Open => None,
        };
        PollAt::at(ping)
            .min(PollAt::at(self.flights.oldest().map(self.deadline())))
            .min(PollAt::at(self.probe_at()))
            .min(PollAt::at(self.timers.next_at()))
            .min(PollAt::at(self.paced_until))
            .min(PollAt::at(self.close_at))
            .min(PollAt::at(self.alive_at))
            .min(PollAt::at(self.carried.retry_at()))
            .min(PollAt::at(self.allowed.due_at()))
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
