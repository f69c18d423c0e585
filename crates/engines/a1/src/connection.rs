//! A connection: its two halves, what it owes the peer, and how far setting up, changing and closing have come.

use crate::incoming::{Due, Incoming, Policy};
use crate::numbers::Numbers;
use crate::outgoing::{Next, Opening, Outgoing};
use crate::setup::ACCEPT_BYTES;
use crate::shared::{DataPlace, Reply, Sender, Shared};
use crate::{CastId, ConnectionId, Event, Failure, Status, qos};
use core::num::NonZeroU32;
use core::time::Duration;
use pinnace_core::{
    Address, Allowance, ContextKey, ControllerKind, IntervalSet, RttConfig, RttEstimator, Seq32, Time, TimerHandle,
};
use pinnace_wire::a1::{self, CloseCode, Group, HEADER_BYTES, Header, Qos};
use std::collections::VecDeque;

/// So much later than what is said over the connection may come what the group has sent before: another socket's queue, another
/// way through the network.
pub(crate) const GROUP_DELAY: Duration = Duration::from_millis(10);

/// Which end opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Opener,
    Acceptor,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// OPEN goes out until it is answered.
    Opening,
    /// ACCEPT waits until the application has joined the group, or has not.
    Joining,
    /// Blocks go both ways.
    Open,
    /// CLOSE goes out until it is answered.
    Closing,
    /// It is over, and CLOSE is answered.
    TimeWait(Time),
    /// It is over, and kept for the application alone.
    Over,
}

/// OPEN, QOS or CLOSE, which go out again until they are answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeated {
    /// It is to leave now.
    pub(crate) is_due: bool,
    /// How often it has left.
    pub(crate) sent: u32,
    /// When it leaves again.
    pub(crate) next_at: Option<Time>,
}

/// Repetitions of OPEN, QOS, CLOSE.
const MOST_REPETITIONS: u32 = 8;

impl Repeated {
    /// It is to leave for the first time.
    pub(crate) fn start() -> Self {
        Self { is_due: true, ..Self::default() }
    }

    pub(crate) fn on_sent(&mut self, now: Time, rto: Duration) {
        self.is_due = false;
        self.next_at = Some(now + rto.saturating_mul(1 << self.sent.min(MOST_REPETITIONS)));
        self.sent += 1;
    }

    /// It was answered, or is given up.
    pub(crate) fn stop(&mut self) {
        (self.is_due, self.next_at) = (false, None);
    }

    /// Makes it due if its time has come. False: it has been repeated as often as may be.
    pub(crate) fn expire(&mut self, now: Time) -> bool {
        if self.next_at.is_some_and(|at| at <= now) {
            self.next_at = None;
            self.repeat();
            return self.is_due;
        }
        true
    }

    /// It is to leave again, if it has not been repeated as often as may be.
    pub(crate) fn repeat(&mut self) {
        self.is_due = self.sent <= MOST_REPETITIONS;
    }
}

/// A change of our record (specs/a1.md, 1.1, QoS change).
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    /// Of the newest change.
    pub(crate) epoch: u32,
    /// The record that the peer has been asked for, and the first block under it.
    pub(crate) asked: Option<(Qos, u64)>,
    pub(crate) qos: Repeated,
    /// The record to ask for when that is over.
    pub(crate) wanted: Option<Qos>,
    /// The peer's change that had come when it was asked last.
    pub(crate) asked_at: u32,
}

/// What has been said to a change of the peer's record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) epoch: u32,
    pub(crate) qos: Qos,
    pub(crate) sequence: u32,
    /// It has left before.
    pub(crate) has_left: bool,
}

/// SYNCs whose answers may still come: with one every 100 ms a round trip may take 6 s. Mostly there is one.
const STAMPS: usize = 64;

/// The explicit measurement of the round trip, and who is there at all.
//= A-8
#[derive(Debug)]
pub(crate) struct Sync {
    pub(crate) is_due: bool,
    pub(crate) last_at: Time,
    /// Blocks that had left then.
    pub(crate) sent: u64,
    /// Since when nothing has been heard, as far as that counts against the peer, now that something was asked.
    pub(crate) asked_since: Option<Time>,
    stamps: VecDeque<(u32, Time)>,
    newest: Option<u32>,
}

impl Sync {
    fn new(now: Time) -> Self {
        Self { is_due: false, last_at: now, sent: 0, asked_since: None, stamps: VecDeque::new(), newest: None }
    }

    /// A datagram leaves whose stamp will be echoed. If nothing comes, nothing has been heard `since` then.
    pub(crate) fn on_sent(&mut self, now: Time, stamp: u32, since: Time) {
        if self.stamps.len() == STAMPS {
            self.stamps.pop_front();
        }
        self.stamps.push_back((stamp, now));
        self.newest = Some(stamp);
        self.asked_since.get_or_insert(since);
    }

    /// A stamp that no datagram has had, though another may have left in the same microsecond: it tells the answers to an
    /// OPEN with its cookie from those to the same OPEN without.
    pub(crate) fn new_stamp(&self, now: Time) -> u32 {
        let stamp = stamp(now);
        match self.newest {
            Some(newest) if !Seq32::new(newest).before(Seq32::new(stamp)) => newest.wrapping_add(1),
            _ => stamp,
        }
    }

    /// Echoes of what has left so far are none.
    pub(crate) fn forget(&mut self) {
        self.stamps.clear();
    }

    /// The round trip that an echo gives; `None` if the stamp was not sent, or its echo has come.
    pub(crate) fn on_echo(&mut self, now: Time, stamp: u32) -> Option<Duration> {
        let place = self.stamps.iter().position(|(sent, _)| *sent == stamp)?;
        self.stamps.remove(place).map(|(_, at)| now.since(at))
    }
}

/// The sender's clock, as the wire has it.
pub(crate) fn stamp(now: Time) -> u32 {
    (now.as_nanos() / 1000) as u32
}

/// Bytes of a datagram beside the block, with the headers of IP and UDP, for congestion control.
const OVERHEAD: u32 = HEADER_BYTES as u32;
/// SYNC leaves at least once in 16 windows: it is due after one less, because the train that comes to that may be a window long.
const WINDOWS_A_SYNC: u64 = 15;
/// A peer that is not heard of is asked so often, and several times before it is given up, which may be after half of the time
/// that it may be silent: a question can be lost.
const ASK_EVERY: Duration = Duration::from_secs(1);
pub(crate) const QUESTIONS: u32 = 8;

/// How many time-outs a peer has, behind the answer to its CLOSE, to ask again: three repetitions come within seven, and it has
/// measured for itself. No path is so short that nobody has to be waited for, and none so long that somebody would be for ever.
const PARTING_TIMEOUTS: u32 = 8;
const SHORTEST_PARTING: Duration = Duration::from_millis(50);
const LONGEST_PARTING: Duration = Duration::from_secs(3);
/// A timer that has not fired by its date does so soon.
const TIMER_LATE: Duration = Duration::from_millis(1);
/// How often a CLOSE 1 leaves, if nobody answers it, before whoever goes on needs to wait for an answer no longer.
const ABORTS_A_PARTING: u32 = 3;
/// What a time-out is of the first sample; and no time-out is shorter than this.
const TIMEOUTS_A_SAMPLE: u32 = 3;
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(10);

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) key: ContextKey,
    pub(crate) my_id: NonZeroU32,
    /// What the peer calls it; our own name until it is known.
    pub(crate) peer_id: NonZeroU32,
    pub(crate) role: Role,
    pub(crate) phase: Phase,
    pub(crate) peer: Address,
    /// The address of ours that the peer writes to.
    pub(crate) from: Option<Address>,
    pub(crate) source: a1::Address,
    pub(crate) destination: a1::Address,
    /// Our record, as it is in force.
    pub(crate) qos: Qos,
    /// What the application asked for last: ours, but for what the peer has lowered.
    pub(crate) wish: Qos,
    pub(crate) peer_qos: Qos,
    /// Ours is the maximum, but for what the peer's OPEN has lowered.
    pub(crate) is_lowered: bool,
    /// The record of our ACCEPT.
    pub(crate) accepted: Option<Box<(Qos, u32)>>,
    pub(crate) group: Option<Group>,
    pub(crate) has_joined: bool,
    pub(crate) cast: Option<CastId>,
    /// Its new blocks go to the group. (Those that the group sent before it joined go to it alone.)
    pub(crate) is_in_step: bool,
    /// The group's number of its first block.
    pub(crate) group_base: u64,
    /// The group has sent the blocks below: the peer may have them, though they have not left here, and may never.
    pub(crate) group_sent: u64,
    /// When the newest of its blocks left for the group.
    pub(crate) group_left_at: Time,
    /// Blocks that the peer has from the group, and that have not left here.
    pub(crate) heard: IntervalSet,
    pub(crate) out_numbers: Numbers,
    pub(crate) in_numbers: Numbers,
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,
    /// What the peer has said of blocks that may still come from its group.
    pub(crate) said: Option<SaidSent>,
    pub(crate) rtt: RttEstimator,
    /// The peer has shown that it receives at its address.
    pub(crate) is_validated: bool,
    /// What may leave before that.
    pub(crate) allowance: Allowance,
    pub(crate) open: Repeated,
    pub(crate) cookie: Vec<u8>,
    pub(crate) accept_due: Option<u32>,
    pub(crate) sync: Sync,
    /// The stamps of the SYNCs to answer: every one measures a round trip.
    pub(crate) sync_replies_due: VecDeque<u32>,
    /// The newest stamp of a DATA or SYNC.
    pub(crate) peer_stamp: Option<u32>,
    pub(crate) change: Change,
    pub(crate) answered: Option<Box<Answered>>,
    pub(crate) qos_reply_due: Option<u32>,
    /// CLOSE leaves when everything is acknowledged, or then.
    pub(crate) close_by: Option<Time>,
    pub(crate) close: Repeated,
    pub(crate) close_code: CloseCode,
    /// The CLOSEs to answer: every one is.
    pub(crate) close_replies_due: VecDeque<(CloseCode, u32)>,
    /// The code that was answered last.
    pub(crate) close_replied: Option<CloseCode>,
    /// When the first and the last CLOSE were answered.
    pub(crate) close_replied_at: Option<(Time, Time)>,
    /// Our own has been repeated as often as may be, and nobody has answered.
    pub(crate) close_is_unanswered: bool,
    /// When its OPEN came, or was called for.
    pub(crate) begun_at: Time,
    pub(crate) last_heard: Time,
    /// The application was told that there is no room.
    pub(crate) wants_room: bool,
    /// It holds up the other sinks, and is cut off then.
    pub(crate) cut_off_at: Option<Time>,
    /// Holding up its group: when it is left behind if it has not got on.
    pub(crate) left_behind_at: Option<Time>,
    /// How far it had got when last looked at for that: acknowledged, and to be sent; and since when.
    pub(crate) got_to: (u64, u64, Time),
    /// A sink of a set: it has no room, but has done with something since it had none.
    pub(crate) gets_on: bool,
    pub(crate) qos_has_changed: bool,
    pub(crate) peer_has_closed: bool,
    /// The listener's application has not taken it.
    pub(crate) is_waiting: bool,
    pub(crate) control_place: Option<u64>,
    pub(crate) data_place: Option<DataPlace>,
    pub(crate) timer: Option<(TimerHandle, Time)>,
    /// When the rate lets the next block leave.
    pub(crate) paced_at: Option<Time>,
    /// Bytes of storage that are counted.
    pub(crate) bytes: u64,
    /// What its small messages count for beside it.
    pub(crate) beside: u64,
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) skipped: u64,
    pub(crate) is_told: bool,
    pub(crate) is_released: bool,
    /// It is released when it has ended.
    pub(crate) is_abandoned: bool,
    /// Nobody reads: what comes counts as read.
    pub(crate) discards: bool,
    pub(crate) failure: Option<Failure>,
}

/// A SYNC or a CLOSE of a raw sender to a group, which has overtaken blocks: they come another way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SaidSent {
    /// When those that have not come are lost.
    pub(crate) at: Time,
    pub(crate) header: Header,
    pub(crate) is_close: bool,
}

/// What a connection is born with.
pub(crate) struct Birth {
    pub(crate) role: Role,
    pub(crate) phase: Phase,
    pub(crate) peer: Address,
    pub(crate) from: Option<Address>,
    pub(crate) source: a1::Address,
    pub(crate) destination: a1::Address,
    pub(crate) qos: Qos,
    pub(crate) group: Option<Group>,
    /// The number of our first block.
    pub(crate) start: u32,
}

impl Connection {
    pub(crate) fn new(
        now: Time,
        birth: &Birth,
        key: ContextKey,
        my_id: NonZeroU32,
        congestion: ControllerKind,
    ) -> Self {
        let Birth { role, phase, peer, from, source, destination, qos, group, start } = *birth;
        let terms = qos::sending(&qos, &qos);
        let nothing = Opening { terms, edge: 0, message: 0, overhead: OVERHEAD, congestion };
        let mut policy = qos::receiving(&qos, &qos, false);
        policy.window = 0;
        Self {
            key,
            my_id,
            peer_id: my_id,
            role,
            phase,
            peer,
            from,
            source,
            destination,
            qos,
            wish: qos,
            peer_qos: Qos::default(),
            is_lowered: role == Role::Acceptor,
            accepted: None,
            group,
            has_joined: false,
            cast: None,
            is_in_step: false,
            group_base: 0,
            group_sent: 0,
            group_left_at: Time::ZERO,
            heard: IntervalSet::new(),
            out_numbers: Numbers::new(start),
            in_numbers: Numbers::new(0),
            outgoing: Outgoing::new(&nothing),
            incoming: Incoming::new(policy),
            said: None,
            rtt: RttEstimator::new(RttConfig { least_spread: RttConfig::LEAST_SPREAD, ..RttConfig::default() }),
            is_validated: role == Role::Opener,
            allowance: Allowance::default(),
            open: if role == Role::Opener { Repeated::start() } else { Repeated::default() },
            cookie: Vec::new(),
            accept_due: None,
            sync: Sync::new(now),
            sync_replies_due: VecDeque::new(),
            peer_stamp: None,
            change: Change::default(),
            answered: None,
            qos_reply_due: None,
            close_by: None,
            close: Repeated::default(),
            close_code: CloseCode::Normal,
            close_replies_due: VecDeque::new(),
            close_replied: None,
            close_replied_at: None,
            close_is_unanswered: false,
            begun_at: now,
            last_heard: now,
            wants_room: false,
            cut_off_at: None,
            left_behind_at: None,
            got_to: (0, 0, now),
            gets_on: false,
            qos_has_changed: false,
            peer_has_closed: false,
            is_waiting: false,
            control_place: None,
            data_place: None,
            timer: None,
            paced_at: None,
            bytes: 0,
            beside: 0,
            lost: 0,
            repeated: 0,
            skipped: 0,
            is_told: false,
            is_released: false,
            is_abandoned: false,
            discards: false,
            failure: None,
        }
    }

    pub(crate) fn id(&self) -> ConnectionId {
        ConnectionId(self.key)
    }

    /// Both records are known: the halves begin. `edge`: blocks that the peer lets leave; `message`: the number of the
    /// first message.
    pub(crate) fn begin(&mut self, peer_start: u32, edge: u64, message: u32, joins: bool, congestion: ControllerKind) {
        let terms = qos::sending(&self.qos, &self.peer_qos);
        self.in_numbers = Numbers::new(peer_start);
        self.outgoing = Outgoing::new(&Opening { terms, edge, message, overhead: OVERHEAD, congestion });
        self.incoming = Incoming::new(qos::receiving(&self.qos, &self.peer_qos, joins));
    }

    /// A message to send has a deadline, if blocks are not repeated.
    pub(crate) fn deadline(&self, now: Time) -> Option<Time> {
        let is_due = !self.qos.has_retransmission && self.qos.deadline > 0;
        is_due.then(|| now + Duration::from_micros(self.qos.deadline.into()))
    }

    /// Blocks, acknowledgements and measurements may leave.
    pub(crate) fn is_talking(&self) -> bool {
        self.phase == Phase::Open && self.is_validated
    }

    /// A SYNC may leave: also before the peer has shown that it receives at its address, since the answer shows it. (Otherwise
    /// nothing would ever leave, if the peer has nothing to send, and its own SYNC was lost.) ACCEPT leaves before.
    fn may_measure(&self) -> bool {
        self.phase == Phase::Open && self.largest_allowed() >= HEADER_BYTES
    }

    /// When the next SYNC leaves of itself.
    //= A-8
    fn next_sync(&self, shared: &Shared) -> Option<Time> {
        if !self.may_measure() {
            return None;
        }
        let config = &shared.config;
        // Who asks for blocks again does so once in a round trip, and has to know how long that is now.
        let sends = self.outgoing.terms().window > 0 && self.outgoing.needs_sync();
        if sends || self.incoming.has_gaps() {
            Some(self.sync.last_at + config.sync_every)
        } else if self.sync.asked_since.is_some() {
            // Who has asked is waiting for an answer, however seldom it asks.
            Some(self.sync.last_at + ASK_EVERY.min(config.silence / QUESTIONS))
        } else if config.idle.is_zero() {
            None
        } else {
            Some(self.last_heard.max(self.sync.last_at) + config.idle)
        }
    }

    /// When the peer is given up.
    pub(crate) fn silent_at(&self, shared: &Shared) -> Option<Time> {
        if self.phase != Phase::Open {
            return None;
        }
        // Who has not shown that it is there has been asked with ACCEPT.
        let since = if self.is_validated { self.sync.asked_since } else { Some(self.last_heard) };
        since.map(|since| since + shared.config.silence)
    }

    pub(crate) fn sync_is_due(&self, now: Time, shared: &Shared) -> bool {
        let windows = self.outgoing.terms().window.saturating_mul(WINDOWS_A_SYNC);
        self.may_measure()
            && (self.sync.is_due
                || self.next_sync(shared).is_some_and(|at| at <= now)
                || (self.outgoing.has_passed_window() && self.sync.sent < self.outgoing.sent())
                || (windows > 0 && self.outgoing.sent() - self.sync.sent >= windows))
    }

    /// An ACCEPT is due, and may leave.
    pub(crate) fn accept_may_leave(&self) -> bool {
        self.accept_due.is_some() && self.largest_allowed() >= ACCEPT_BYTES
    }

    /// An ACK or a NACK of one range may leave. Of a sender whose data come from its group, they do so as soon as it has
    /// been answered, whether or not its address is validated.
    //= A-15
    pub(crate) fn list_may_leave(&self) -> bool {
        self.largest_allowed() >= HEADER_BYTES + 8
    }

    /// When a raw sink has had the time to read what its group was sent, if it has not said that it has: a CLOSE over its
    /// connection, which it may read first, would end that.
    //= A-15
    //= A-18
    pub(crate) fn arrives_at(&self) -> Option<Time> {
        let is_on_its_way = self.group_sent > 0
            && !self.qos.has_retransmission
            && self.phase == Phase::Open
            && self.outgoing.acked() < self.outgoing.sent();
        is_on_its_way.then(|| self.group_left_at + GROUP_DELAY)
    }

    /// Whether something is to be said that is no block.
    pub(crate) fn has_control(&self, now: Time, shared: &Shared) -> bool {
        match self.phase {
            Phase::Opening => self.open.is_due,
            Phase::Joining | Phase::Over => false,
            Phase::Open => {
                self.accept_may_leave()
                    || (self.is_validated
                        && (!self.sync_replies_due.is_empty()
                            || self.qos_reply_due.is_some()
                            || self.change.qos.is_due))
                    || self.sync_is_due(now, shared)
                    || (self.list_may_leave()
                        && (self.incoming.ack_due(now, self.rtt.smoothed()) == Due::Now
                            || self.incoming.nack_due(now, self.rtt.smoothed()) == Due::Now))
            }
            Phase::Closing => self.accept_may_leave() || self.close.is_due || !self.close_replies_due.is_empty(),
            Phase::TimeWait(_) => !self.close_replies_due.is_empty(),
        }
    }

    /// The next block that this connection sends itself: a repetition, or a new one, unless that goes to its group.
    pub(crate) fn next_block(&mut self, now: Time) -> Next {
        if !self.is_talking() {
            return Next::Nothing;
        }
        match self.outgoing.next_repair(now) {
            Next::Nothing if !self.outgoing.has_repairs() => {}
            next => return next,
        }
        if self.is_in_step {
            return Next::Nothing;
        }
        self.pass_heard(now);
        self.outgoing.next_new(now)
    }

    /// What the peer has from its group does not leave here as well.
    //= A-7
    //= A-15
    fn pass_heard(&mut self, now: Time) {
        if !self.heard.is_empty() {
            self.outgoing.pass_to(now, self.heard.first_missing_from(self.outgoing.sent()));
            self.heard.pop_front_below(self.outgoing.sent());
        }
    }

    /// Whether a block has left before: to the group, while this sink could not yet have it from there.
    //= A-5
    pub(crate) fn has_left_to_group(&self, number: u64) -> bool {
        self.qos.has_retransmission && number < self.group_sent
    }

    /// When something happens of itself, but for blocks that wait for their rate.
    pub(crate) fn next_date(&self, now: Time, shared: &Shared) -> Option<Time> {
        let at = |due| if let Due::At(at) = due { Some(at) } else { None };
        match self.phase {
            Phase::Opening => self.open.next_at,
            Phase::Joining | Phase::Over => None,
            Phase::Closing => self.close.next_at,
            Phase::TimeWait(until) => Some(until),
            Phase::Open => {
                // One by one: an array of them takes longer to go through than to compute.
                let mut date = None;
                let mut consider = |other: Option<Time>| date = earlier(date, other);
                // One that is due is on its way, and no timer's any more.
                consider(self.next_sync(shared).filter(|at| *at > now));
                consider(self.silent_at(shared));
                consider(self.outgoing.expires_at());
                consider(self.outgoing.stale_at());
                consider(self.outgoing.futile_at(shared.config.silence));
                consider(at(self.incoming.ack_due(now, self.rtt.smoothed())));
                consider(at(self.incoming.nack_due(now, self.rtt.smoothed())));
                consider(self.change.qos.next_at);
                consider(self.said.as_ref().map(|said| said.at));
                consider(self.close_by);
                consider(self.close_by.and(self.arrives_at()).filter(|at| *at > now));
                consider(self.cut_off_at);
                consider(self.left_behind_at);
                date
            }
        }
    }

    /// Queues the connection for what it has to send, and sees to it that the timer fires in time.
    pub(crate) fn make_ready(&mut self, now: Time, shared: &mut Shared) {
        // First: what is too old to leave may have to be told of.
        let next = self.next_block(now);
        if self.control_place.is_none() && self.has_control(now, shared) {
            self.control_place = Some(shared.queue.push_control(self.key));
        }
        let is_new = !self.outgoing.has_repairs();
        if let Some(place) = self.data_place.filter(|place| !matches!(next, Next::Block(_)) || place.1 != is_new) {
            shared.queue.remove_data(place);
            self.data_place = None;
        }
        if self.data_place.is_none() && matches!(next, Next::Block(_)) {
            self.data_place = Some(shared.queue.push_data(self.qos.priority, is_new, Sender::Connection(self.key)));
        }
        let paced = match next {
            Next::At(at) => Some(at),
            _ if self.is_in_step => match self.outgoing.next_new(now) {
                Next::At(at) => Some(at),
                _ => None,
            },
            _ => None,
        };
        self.wait_for_rate(paced, shared);
        let Some(date) = self.next_date(now, shared) else { return };
        // It may fire too early: then it is set again.
        match &mut self.timer {
            Some((_, at)) if *at <= date => {}
            Some((handle, at)) if shared.wheel.reschedule(*handle, date) => *at = date,
            timer => *timer = Some((shared.wheel.insert(date, self.key), date)),
        }
    }

    fn wait_for_rate(&mut self, until: Option<Time>, shared: &mut Shared) {
        shared.paced.change(self.key, self.paced_at, until);
        self.paced_at = until;
    }

    pub(crate) fn stand_down(&mut self, shared: &mut Shared) {
        self.wait_for_rate(None, shared);
        if let Some(place) = self.control_place.take() {
            shared.queue.remove_control(place);
        }
        if let Some(place) = self.data_place.take() {
            shared.queue.remove_data(place);
        }
    }

    /// Both records or one of them have changed.
    pub(crate) fn follow_records(&mut self, now: Time, from_block: u64) {
        self.outgoing.set_terms(now, from_block, &qos::sending(&self.qos, &self.peer_qos));
        self.follow_records_in();
    }

    pub(crate) fn follow_records_in(&mut self) {
        let policy = self.receiving();
        self.incoming.set_limits(policy.window, policy.max_message);
    }

    /// How this end receives: what the peer's newest record was answered with is what it may send.
    pub(crate) fn receiving(&self) -> Policy {
        let Some(answered) = self.answered.as_deref() else { return qos::receiving(&self.qos, &self.peer_qos, false) };
        // That is also where the peer has lowered our record before, and has sent a larger one of its own since.
        let allowed = answered.qos.largest_sent.min(self.wish.largest_received);
        let own = Qos { largest_received: self.qos.largest_received.max(allowed), ..self.qos };
        qos::receiving(&own, &answered.qos, false)
    }

    /// The connection ends here, as far as the application is concerned. What was received may still be read.
    pub(crate) fn conclude(&mut self, shared: &mut Shared, result: Result<(), Failure>) {
        if self.is_told {
            return;
        }
        self.is_told = true;
        self.outgoing.abort();
        // Nothing is told of a connection behind its end.
        self.report_done(shared);
        self.failure = result.as_ref().err().cloned();
        let connection = self.id();
        if result.is_ok() {
            shared.counters.connections_closed += 1;
        } else {
            shared.counters.connections_failed += 1;
        }
        shared.tell_readable(connection);
        shared.events.push_back(Event::Closed { connection, result });
        self.change = Change { epoch: self.change.epoch, ..Change::default() };
        self.close_by = None;
        if self.has_joined
            && self.role == Role::Acceptor
            && let Some(group) = self.group.take()
        {
            shared.events.push_back(Event::Leave { group });
        }
    }

    /// Whether nothing of the peer is known but an OPEN from its address, and nothing is to be sent to it.
    pub(crate) fn may_be_nobodys(&self) -> bool {
        !self.is_validated && self.outgoing.is_quiet()
    }

    /// The end that this side has said is known to the peer, or never will be.
    pub(crate) fn end_closing(&mut self, shared: &mut Shared) {
        if !self.is_told {
            if self.outgoing.is_flushed() {
                // What was not waited for has arrived all the same.
                self.failure.take_if(|failure| *failure == Failure::LingerOver);
            }
            let result = self.failure.take().map_or(Ok(()), Err);
            self.conclude(shared, result);
        }
    }

    /// CLOSE goes out; nothing else does.
    pub(crate) fn say_close(&mut self, code: CloseCode) {
        // What was said before is only repeated.
        let is_again = self.phase == Phase::Closing && self.close_code == code;
        let sent = if is_again { self.close.sent } else { 0 };
        self.phase = Phase::Closing;
        self.close_code = code;
        self.close = Repeated { sent, ..Repeated::start() };
    }

    /// A CLOSE that leaves once, whatever becomes of it.
    pub(crate) fn last_words(&mut self, now: Time) -> Option<Reply> {
        let mut bytes = Vec::new();
        self.accept_due = None;
        self.close_replies_due.clear();
        self.write_farewell(now, &mut bytes);
        (!bytes.is_empty()).then_some(Reply { to: self.peer, from: self.from, bytes })
    }

    /// Until when the peer may say its CLOSE again, because the answer was lost, or has to be told again of the end that is
    /// said here.
    //= A-18
    pub(crate) fn parts_at(&self, now: Time) -> Option<Time> {
        if self.phase == Phase::Closing && self.close_code == CloseCode::Aborted {
            // Nobody is told again who has not been heard of for long. And timers may be late.
            let is_told_again = self.failure != Some(Failure::Abandoned) && self.close.sent < ABORTS_A_PARTING;
            return self.close.next_at.filter(|_| is_told_again).map(|at| at.max(now + TIMER_LATE));
        }
        let (first, last) = self.close_replied_at.filter(|_| self.is_told)?;
        let timeout = match self.rtt.smoothed() {
            Some(_) => self.rtt.timeout(),
            // All of it took a round trip at least, so on a short path nobody waits as long as on one that is not known.
            None => {
                let age = first.since(self.begun_at);
                age.saturating_mul(TIMEOUTS_A_SAMPLE).max(SHORTEST_TIMEOUT).min(self.rtt.timeout())
            }
        };
        let wait = timeout.saturating_mul(PARTING_TIMEOUTS).clamp(SHORTEST_PARTING, LONGEST_PARTING);
        Some(last + wait)
    }

    /// The bits that do not belong to a block.
    //= A-17
    pub(crate) fn status(&self, now: Time) -> Status {
        let is_aborted = !matches!(self.failure, None | Some(Failure::Unfinished | Failure::LingerOver));
        Status::NONE
            .with_if(self.peer_has_closed, Status::PEER_CLOSED)
            .with_if(is_aborted, Status::ABORTED)
            .with_if(self.phase == Phase::Open && self.outgoing.is_full(), Status::WINDOW_FULL)
            .with_if(self.outgoing.is_rate_exceeded(now), Status::RATE_EXCEEDED)
            .with_if(self.change.asked.is_some() || self.outgoing.is_change_pending(), Status::QOS_PENDING)
            .with_if(self.qos_has_changed, Status::QOS_CHANGED)
    }
}

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (date, None) | (None, date) => date,
    }
}
