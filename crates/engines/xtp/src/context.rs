//! A context: one end of an association, with an outgoing and an incoming stream (specs/xtp.md, 3.1).
//!
//! Always true: the context is in the engine's table under [`Context::key`]; its timer fires no later than
//! [`Context::next_date`]; the application is told of its end once.

use crate::incoming::Incoming;
use crate::outgoing::{Asking, Outgoing, Terms};
use crate::patience::{KeepAlive, Silence};
use crate::shared::{Place, Shared};
use crate::space::Space;
use crate::validation::Proof;
use crate::{ContextId, ControlBlock, Event, Failure, ListenerId, Service, XtpCounters};
use core::time::Duration;
use pinnace_core::{Address, ContextKey, Time, TimerHandle, step_below};
use pinnace_wire::xtp::{Codec, Header, Key, Kind, Options};
use std::collections::VecDeque;
use std::sync::Arc;

/// After so long a transaction's request is acknowledged without the response (specs/xtp.md, 3.9).
const RESPONSE_TIME: Duration = Duration::from_millis(20);
/// Between two questions whether there is room again, or a datagram was delivered, no more time passes, save where WTIMER is
/// longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// WTIMER doubles at most so often.
const MOST_DOUBLINGS: u32 = 4;
/// Time-wait lasts no longer.
const LONGEST_TIME_WAIT: Duration = Duration::from_secs(30);
/// So many FIRSTs without an answer are as large as they may be, and as many are of each smaller size.
const FIRSTS_OF_A_SIZE: u32 = 2;
/// For so many CTIMEOUTs the same byte may be missing at a peer that answers.
const STANDSTILL_TIMEOUTS: u32 = 3;
/// Bytes of a BTAG.
const TAG_BYTES: usize = 8;

/// Who began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Sent the FIRST.
    Initiator,
    /// Was sent it.
    Responder,
}

/// Where a context is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing has been put out.
    Fresh,
    /// Packets go and come.
    Active,
    /// Both ends are done; late packets are answered until then.
    TimeWait(Time),
    /// Nothing more goes or comes; the application may still read.
    Over,
}

/// How far the reading of a stream has come. It never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reading {
    /// More is wanted.
    #[default]
    GoesOn,
    /// RCLOSE has been said.
    Closed,
    /// The same, and whatever is missing will never be read.
    BrokenOff,
}

impl Reading {
    pub(crate) fn close(&mut self) {
        *self = (*self).max(Self::Closed);
    }

    pub(crate) fn break_off(&mut self) {
        *self = Self::BrokenOff;
    }

    pub(crate) fn is_closed(self) -> bool {
        self >= Self::Closed
    }

    pub(crate) fn is_broken_off(self) -> bool {
        self == Self::BrokenOff
    }
}

/// What becomes of the FIRST of our stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct First {
    /// It is to be sent: at first, or again.
    pub(crate) is_due: bool,
    /// It has left before.
    pub(crate) has_left: bool,
    /// It has no data, whatever is queued meanwhile: the application has called [`Xtp::connect`](crate::Xtp::connect).
    pub(crate) is_alone: bool,
}

impl First {
    /// Whether it is to go again.
    pub(crate) fn is_repeated(self) -> bool {
        self.is_due && self.has_left
    }
}

/// The END that is to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EndDue {
    #[default]
    No,
    /// It goes with the status that is due: both ends are done.
    InStatus,
    /// It goes alone: a forced close.
    Alone,
}

/// Who still needs a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Holder {
    #[default]
    Application,
    /// The application has forgotten it.
    Engine,
    /// The same, and it is in the engine's list of those in time-wait.
    Resting,
}

/// One end of an association.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) key: ContextKey,
    pub(crate) role: Role,
    pub(crate) phase: Phase,
    pub(crate) service: Service,
    pub(crate) listener: Option<ListenerId>,
    /// Where packets come from and go to.
    pub(crate) peer: Address,
    /// The local address that the peer wrote to.
    pub(crate) from: Option<Address>,
    /// Our key as a number.
    pub(crate) my_key: u64,
    /// The peer's: of an initiator's FIRST, or a responder's xkey; 0 if not known.
    pub(crate) peer_key: u64,
    pub(crate) block: Arc<ControlBlock>,
    /// What every packet of our stream carries.
    pub(crate) options: Options,
    pub(crate) space: Space,
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,
    /// The most user bytes of a packet, for us, the path and the peer.
    pub(crate) maxdata: u32,
    /// The newest sync heard.
    pub(crate) recv_sync: u32,
    /// The clock of the newest CNTL heard (xtp36).
    pub(crate) peer_time: u32,
    /// Anything has been heard.
    pub(crate) heard: bool,
    pub(crate) proof: Proof,
    /// Windows, or an address that may be forged, keep data back until something happens.
    pub(crate) is_blocked: bool,
    pub(crate) first: First,
    /// A status is due, with this echo.
    pub(crate) owed: Option<u32>,
    /// Statuses are due with these echoes when the data up to there are delivered (DREQ), in order of arrival.
    pub(crate) deferred: VecDeque<(u64, u32)>,
    /// A control packet that asks is due.
    pub(crate) ask_due: Option<Asking>,
    /// The application asks, with the packets that end there.
    pub(crate) asks_at: VecDeque<(u64, Asking)>,
    /// The stream of the application ends; WCLOSE has left.
    pub(crate) wclose_sent: bool,
    pub(crate) wclose_heard: bool,
    /// RCLOSE goes with WCLOSE (abbreviated close).
    pub(crate) is_abbreviated: bool,
    /// Whether we read the peer's stream: where not, RCLOSE goes with every packet.
    pub(crate) reading: Reading,
    /// Whether the peer reads ours, as its RCLOSE says: what it lacks when it breaks off is not repeated.
    pub(crate) peer_reading: Reading,
    pub(crate) end_due: EndDue,
    /// The application's answer is waited for before a status that is asked for leaves: a transaction's response takes its
    /// place, other data share its train.
    pub(crate) answer_by: Option<Time>,
    /// The application answers at once what it receives.
    pub(crate) is_answering: bool,
    /// Since when WTIMER runs, and how often it has expired in a row.
    pub(crate) waiting: Option<Time>,
    pub(crate) expiries: u32,
    /// How many questions in a row have been answered, and the window is shut as before, or a datagram not delivered.
    pub(crate) answers_in_vain: u8,
    /// CTIMER.
    pub(crate) last_heard: Time,
    /// The handshake of CTIMER, and how much of a silence the application bears.
    pub(crate) silence: Option<Box<Silence>>,
    pub(crate) paced_until: Option<Time>,
    /// Since when the receive ring is empty.
    pub(crate) ring_idle_since: Option<Time>,
    pub(crate) ring_bytes: u64,
    /// When what an idle context can do without is let go.
    pub(crate) rest_at: Option<Time>,
    pub(crate) timer: Option<(TimerHandle, Time)>,
    pub(crate) place: Option<Place>,
    /// The application has been told of the end.
    pub(crate) is_told: bool,
    pub(crate) holder: Holder,
    pub(crate) failure: Option<Failure>,
}

impl Context {
    pub(crate) fn id(&self) -> ContextId {
        ContextId(self.key)
    }

    /// The application has said something: the FIRST leaves, if it has not been made.
    pub(crate) fn begin(&mut self, now: Time) {
        if self.phase == Phase::Fresh {
            self.first.is_due = true;
            self.phase = Phase::Active;
            // Nobody owed us a word before.
            self.last_heard = now;
        }
    }

    /// RCLOSE, and whatever is missing will never be read.
    pub(crate) fn stop_reading(&mut self) {
        if !self.reading.is_broken_off() && !self.incoming.is_complete() {
            self.reading.break_off();
            if self.phase == Phase::Active && self.heard {
                self.owe_unasked();
            }
        }
    }

    /// The application forgets the context.
    pub(crate) fn let_go(&mut self) {
        if self.holder == Holder::Application {
            self.holder = Holder::Engine;
        }
    }

    /// A packet of ours that is not DIAG: key, options of the stream, sort, sync.
    //= X-6
    pub(crate) fn header(&self, kind: Kind, options: Options, sync: u32, seq: u64) -> Header {
        let codec = self.codec();
        let key = match self.role {
            Role::Responder => Key { rtn: true, value: self.peer_key },
            Role::Initiator if self.peer_key != 0 => Key { rtn: true, value: self.peer_key },
            Role::Initiator => Key { rtn: false, value: self.my_key },
        };
        let sort = if self.options.contains(Options::SORT) { self.block.sort_value } else { 0 };
        let dseq = if codec == Codec::Xtp36 { self.space.number(self.incoming.dseq()) as u32 } else { 0 };
        Header { codec, key, options: self.options | options, kind, sort, sync, seq, dseq }
    }

    pub(crate) fn codec(&self) -> Codec {
        self.space.codec()
    }

    /// Whether it is one end of a stream to a group: the sender's, or a receiver's.
    pub(crate) fn is_group(&self) -> bool {
        self.service.is_group()
    }

    /// The most user bytes of a packet of ours, of a FIRST or of DATA.
    pub(crate) fn most_bytes(&self, shared: &Shared, is_first: bool) -> u32 {
        self.most_bytes_of(shared, is_first, shared.config.has_messages)
    }

    /// The most user bytes of a datagram, which is one FIRST.
    //= X-21
    pub(crate) fn most_of_datagram(&self, shared: &Shared, is_tagged: bool) -> u32 {
        self.most_bytes_of(shared, true, is_tagged)
    }

    fn most_bytes_of(&self, shared: &Shared, is_first: bool, is_tagged: bool) -> u32 {
        let codec = self.codec();
        let (first, traffic) = (self.block.address_segment.bytes(), codec.traffic_bytes());
        let before =
            codec.header_bytes() + if is_first { first + traffic } else { 0 } + if is_tagged { TAG_BYTES } else { 0 };
        let datagram = shared.datagram_bytes(self.peer);
        let datagram = if is_first { self.datagram_of_first(datagram) } else { datagram };
        let room = codec.data_before_tail(datagram.saturating_sub(before));
        // A datagram is one packet, however large.
        let paced = self.outgoing.paced_bytes().filter(|_| !self.service.is_datagram()).unwrap_or(u32::MAX);
        self.maxdata.min(room.min(u32::MAX as usize) as u32).min(paced).max(1)
    }

    /// Bytes of the datagram that is a FIRST, of so many that may be. Where it has found no answer the path may lose all that are
    /// so large, and nobody says so; of the others nothing is known yet, so this is no doubt of the path.
    fn datagram_of_first(&self, most: usize) -> usize {
        if self.heard || self.service.is_datagram() {
            return most;
        }
        let step = |bytes: usize| step_below(bytes.try_into().unwrap_or(u32::MAX)).map_or(bytes, |fits| fits as usize);
        (0..self.expiries / FIRSTS_OF_A_SIZE).fold(most, |bytes, _| step(bytes))
    }

    /// Data leave at the smaller rate and burst of what each end allows (specs/xtp.md, 3.12).
    //= X-19
    pub(crate) fn limit_rate(&mut self, now: Time, peer_takes: (u32, u32)) {
        let smaller = |own: u32, peer: u32| [own, peer].into_iter().filter(|rate| *rate > 0).min();
        let rate = smaller(self.block.output_rate, peer_takes.0).unwrap_or(0);
        let burst = smaller(self.block.output_burst, peer_takes.1).unwrap_or(0);
        self.outgoing.set_rate(now, rate.into(), burst.into(), peer_takes);
    }

    /// Bytes that DATA may have beside the header and the user's: xtp36 pads to a multiple of 4 and adds a trailer; a tag
    /// may come before the data.
    fn extra_bytes(&self, shared: &Shared) -> usize {
        let tail = if self.codec() == Codec::Xtp36 { 7 } else { 0 };
        tail + if shared.config.has_messages { TAG_BYTES } else { 0 }
    }

    /// Whether data leave whatever the peer has allowed.
    //= X-8
    pub(crate) fn ignores_alloc(&self) -> bool {
        let has_waited = || self.silence.as_deref().is_some_and(Silence::has_waited);
        self.options.contains(Options::NOFLOW) && (!self.block.holds_back || has_waited())
    }

    /// How data are sent now.
    pub(crate) fn terms(&self, shared: &Shared) -> Terms {
        let header = self.codec().header_bytes();
        let mut max = match self.service.is_datagram() {
            true => self.most_of_datagram(shared, self.outgoing.is_tagged()),
            false => self.most_bytes(shared, self.first.is_due),
        };
        if !self.is_trusted(shared) {
            max = max.min(self.data_left(shared, header + self.extra_bytes(shared)).min(u64::from(u32::MAX)) as u32);
        }
        Terms {
            max,
            largest: self.most_bytes(shared, false),
            overhead: header as u32,
            is_held: shared.is_held,
            no_flow: self.ignores_alloc(),
            no_error: self.options.contains(Options::NOERR),
            ask_every: match self.service {
                Service::Transaction | Service::UnackMulticast => 0,
                Service::Multicast if self.block.mc_sreqs > 0 => self.block.mc_sreqs.into(),
                _ => self.block.sreq_every,
            },
            go_back_n: self.block.go_back_n,
        }
    }

    /// A status is due, which answers the packet with this sync.
    pub(crate) fn owe(&mut self, echo: u32) {
        self.owed = Some(echo);
        self.answer_by = None;
    }

    /// The sync of a packet whose DREQ has become due.
    pub(crate) fn pop_deferred(&mut self) -> Option<u32> {
        let dseq = self.incoming.dseq();
        self.deferred.pop_front_if(|(point, _)| *point <= dseq).map(|(_, sync)| sync)
    }

    /// A status is due that nobody asked for; whoever was never heard of is told nothing.
    pub(crate) fn owe_unasked(&mut self) {
        if self.owed.is_none() && self.heard {
            self.owe(self.recv_sync);
        }
    }

    /// The incoming stream has become complete (specs/xtp.md, 3.8 and 3.9).
    pub(crate) fn on_complete(&mut self, now: Time) {
        self.reading.close();
        if self.service == Service::Transaction && self.role == Role::Responder {
            // The response may take the place of the status.
            if self.outgoing.end().is_none() {
                self.owed = None;
                self.answer_by = Some(now + RESPONSE_TIME);
            } else {
                // It was early, and did not say so.
                self.owe_unasked();
            }
        } else {
            self.owe_unasked();
        }
    }

    /// Bytes of outputs that have not come back. What is never repeated is kept until it has left.
    pub(crate) fn waiting(&self) -> u64 {
        let unsent = self.outgoing.queued() - self.outgoing.sent();
        if self.options.contains(Options::NOERR) { unsent } else { self.outgoing.held() }
    }

    /// Whether the peer's stream needs nothing more of us.
    pub(crate) fn is_incoming_done(&self) -> bool {
        self.incoming.is_complete() || (self.reading.is_broken_off() && self.wclose_heard)
    }

    /// Whether bytes have been sent that the peer may still acknowledge.
    fn lacks_acknowledgement(&self) -> bool {
        !self.peer_reading.is_broken_off() && self.outgoing.acked() < self.outgoing.sent()
    }

    /// Whether a stream that is one message has not been said to its end: it must not end so that it looks whole.
    pub(crate) fn is_unfinished_message(&self) -> bool {
        self.service == Service::Transaction && self.outgoing.end().is_none()
    }

    /// Both streams are at their ends, as far as this end is concerned.
    pub(crate) fn is_done(&self) -> bool {
        self.is_incoming_done() && self.peer_reading.is_closed() && !self.lacks_acknowledgement()
    }

    /// Whether a datagram of ours is acknowledged by END alone, which comes when it is delivered: a status before it says only
    /// that it has arrived.
    //= X-7
    pub(crate) fn awaits_delivery(&self) -> bool {
        let asks_so = |(_, asking): &(u64, Asking)| *asking == Asking::Deferred;
        self.service == Service::AckDgram && self.role == Role::Initiator && self.asks_at.front().is_some_and(asks_so)
    }

    /// Whether WCLOSE is to be said in a packet without data.
    fn is_close_due(&self, terms: &Terms) -> bool {
        !self.wclose_sent
            && !self.first.is_due
            && self.outgoing.end() == Some(self.outgoing.sent())
            && !self.outgoing.has_to_send(terms)
    }

    /// A control packet that is due for its own sake: WCLOSE, or a status that nobody asked for while packets were held.
    pub(crate) fn control_due(&self, terms: &Terms) -> bool {
        let is_silent = matches!(self.service, Service::UnackDgram | Service::UnackMulticast)
            || (self.service == Service::Transaction && self.role == Role::Initiator && self.wclose_sent);
        self.is_close_due(terms) || (!is_silent && self.outgoing.is_ask_owed(terms))
    }

    /// Whether WTIMER runs (specs/xtp.md, 3.5, a to e).
    //= X-11
    fn waits(&self, shared: &Shared) -> bool {
        // Groups have buckets instead.
        if self.phase != Phase::Active || self.service == Service::UnackDgram || self.is_group() {
            return false;
        }
        let initiator_unheard = self.role == Role::Initiator && !self.heard;
        let is_lossy = self.options.contains(Options::NOERR);
        let terms = self.terms(shared);
        initiator_unheard
            || self.outgoing.is_ask_missing()
            || (self.wclose_sent && !self.peer_reading.is_closed())
            || self.awaits_delivery()
            || (!is_lossy && self.lacks_acknowledgement())
            || (!(is_lossy && terms.no_flow) && self.outgoing.waits_for_room(&terms))
            || (!self.is_trusted(shared) && self.outgoing.has_to_send(&terms))
            || self.has_to_prove(shared)
    }

    /// WTIMER starts, goes on or stops, after something has changed. `restart`: an answer has come.
    pub(crate) fn update_wait(&mut self, now: Time, shared: &Shared, restart: bool) {
        // The answer to a first question comes a round trip after it, however long ago left what else is not acknowledged.
        let restart = self.outgoing.begins_to_ask() || restart;
        if !self.waits(shared) {
            if self.waiting.take().is_some() {
                self.rest_at = Some(now + shared.config.limits.ring_idle);
            }
            self.expiries = 0;
        } else if restart || self.waiting.is_none() {
            self.waiting = Some(now);
        }
        if self.options.contains(Options::NOFLOW) && self.block.holds_back && self.outgoing.is_beyond_alloc() {
            self.silence.get_or_insert_default().wait_for_room(now);
        }
        let acked = self.owes_acknowledgement().then(|| self.outgoing.acked());
        if let Some(silence) = &mut self.silence {
            silence.note(now, acked);
        }
    }

    /// Whether anything is queued that the peer has not acknowledged, and still may.
    fn owes_acknowledgement(&self) -> bool {
        !self.peer_reading.is_broken_off() && self.outgoing.acked() < self.outgoing.queued()
    }

    /// Whether the peer has answered for long enough, and nothing of what it lacks gets through. Whoever does not read shuts
    /// its window, and is waited for.
    pub(crate) fn is_at_standstill(&self, now: Time) -> bool {
        let patience = self.block.ctimeout.saturating_mul(STANDSTILL_TIMEOUTS);
        self.lacks_acknowledgement() && !self.is_group() && self.outgoing.is_at_standstill(now, patience)
    }

    /// When the application has waited long enough for an acknowledgement.
    pub(crate) fn overdue_at(&self) -> Option<Time> {
        self.silence.as_ref()?.overdue_at()
    }

    pub(crate) fn wait_until(&self) -> Option<Time> {
        let doubled = |times: u32| self.outgoing.timeout().saturating_mul(1 << times.min(MOST_DOUBLINGS));
        let wait = doubled(self.expiries);
        // That there is room again is said unasked (3.6), and that a datagram was delivered when it is; who asks meanwhile
        // does so in case that was lost.
        let pause =
            if self.outgoing.is_ask_missing() { wait } else { doubled(self.answers_in_vain.into()).min(LONGEST_PAUSE) };
        self.waiting.map(|since| since + wait.max(pause))
    }

    /// A packet of the peer has come: it is there.
    pub(crate) fn on_heard(&mut self, now: Time) {
        self.last_heard = now;
        if let Some(silence) = &mut self.silence {
            silence.handshake_since = None;
            self.silence.take_if(|silence| silence.is_over());
        }
    }

    pub(crate) fn handshake_since(&self) -> Option<Time> {
        self.silence.as_ref()?.handshake_since
    }

    /// When CTIMER or CTIMEOUT is over.
    pub(crate) fn silent_until(&self) -> Time {
        let (asked_at, ctimeout) = (self.last_heard + self.block.ctimer, self.block.ctimeout);
        let keep_alive = self.silence.as_ref().and_then(|silence| silence.patience.keep_alive);
        let keep_alive = keep_alive.filter(|_| !self.owes_acknowledgement());
        match (self.handshake_since(), keep_alive) {
            (None, None) => asked_at,
            (None, Some(KeepAlive { idle, .. })) => asked_at.min(self.last_heard + idle),
            // Keep-alive may have asked early, of a peer that then came to owe an acknowledgement.
            (Some(since), None) => (since + ctimeout).max(asked_at + ctimeout),
            (Some(since), Some(KeepAlive { limit, .. })) => {
                (since + limit).min((since + ctimeout).max(asked_at + ctimeout))
            }
        }
    }

    pub(crate) fn time_wait(&self) -> Duration {
        let expiries = self.block.retry_count.max(1).saturating_mul(32);
        self.outgoing.timeout().saturating_mul(expiries).min(LONGEST_TIME_WAIT)
    }

    /// When something happens of itself.
    //= X-9
    pub(crate) fn next_date(&self, shared: &Shared) -> Option<Time> {
        let ring = self.ring_idle_since.map(|since| since + shared.config.limits.ring_idle);
        match self.phase {
            Phase::Fresh | Phase::Over => ring,
            Phase::TimeWait(until) => earlier(ring, Some(until)),
            Phase::Active => {
                let waiting = earlier(self.wait_until(), self.answer_by);
                let paced = self.paced_until.filter(|at| !shared.paced.has(self.key, *at));
                let sending = earlier(paced, self.rest_at);
                // Groups have dates of their own.
                let silent = if self.is_group() { None } else { Some(self.silent_until()) };
                earlier(earlier(ring, earlier(silent, self.overdue_at())), earlier(waiting, sending))
            }
        }
    }

    /// Data wait until then. By a rate that was said they do so exactly: its burst may have no room for what is earned while
    /// a timer of the wheel is late.
    //= X-19
    pub(crate) fn wait_for_pace(&mut self, until: Option<Time>, shared: &mut Shared) {
        if self.paced_until != until {
            shared.paced.change(self.key, self.paced_until, until.filter(|_| self.outgoing.is_limited()));
            self.paced_until = until;
        }
    }

    /// Sees to it that the timer fires in time. It may fire too early: then it is set again.
    pub(crate) fn arm(&mut self, shared: &mut Shared) {
        let Some(date) = self.next_date(shared) else { return };
        match &mut self.timer {
            Some((_, at)) if *at <= date => {}
            Some((handle, at)) if shared.wheel.reschedule(*handle, date) => *at = date,
            timer => *timer = Some((shared.wheel.insert(date, self.key), date)),
        }
    }

    /// Whether something is to be sent, but for pacing and windows.
    pub(crate) fn has_to_send(&self, shared: &Shared) -> bool {
        if self.is_group() && self.role == Role::Responder {
            // What a receiver says goes to the group, at its own time.
            return false;
        }
        if self.end_due == EndDue::Alone {
            return true;
        }
        match self.phase {
            Phase::Over => false,
            Phase::TimeWait(_) => self.owed.is_some() && self.may_say(shared),
            Phase::Fresh | Phase::Active => {
                let terms = self.terms(shared);
                let is_question_due = !self.first.is_due && (self.ask_due.is_some() || self.control_due(&terms));
                (self.first.is_due && !self.is_first_paced())
                    || (self.owed.is_some() && self.may_say(shared))
                    || (is_question_due && self.may_ask(shared))
                    || (self.paced_until.is_none() && !self.is_blocked && self.outgoing.has_to_send(&terms))
            }
        }
    }

    /// Whether the FIRST is to go again, as soon as the traffic specifier allows.
    pub(crate) fn is_first_paced(&self) -> bool {
        self.first.is_repeated() && self.paced_until.is_some()
    }

    /// Queues the context to send, if it has something to.
    pub(crate) fn make_ready(&mut self, shared: &mut Shared) {
        if self.place.is_none() && self.has_to_send(shared) {
            let sort = if self.options.contains(Options::SORT) { self.block.sort_value } else { 0 };
            self.place = Some(shared.queue.push(sort, self.key));
        }
    }

    pub(crate) fn stand_down(&mut self, shared: &mut Shared) {
        if let Some(place) = self.place.take() {
            shared.queue.remove(place);
        }
    }

    /// Outputs that are needed no longer.
    pub(crate) fn report_sent(&mut self, shared: &mut Shared) {
        if self.awaits_delivery() {
            return;
        }
        while let Some(done) = self.outgoing.poll_done() {
            let (context, ticket, buffer) = (self.id(), done.ticket, done.buffer);
            let delivered = !done.is_cut;
            shared.events.push_back(Event::Sent { context, ticket, buffer, delivered });
        }
    }

    /// The peer has stopped reading: nothing is repeated any more, and no output that is left will be delivered. Who wants
    /// nothing of the peer either has nothing left to wait for.
    pub(crate) fn give_up(&mut self, shared: &mut Shared) {
        self.report_sent(shared);
        self.peer_reading.break_off();
        self.failure = Some(Failure::StoppedReading);
        let context = self.id();
        for done in self.outgoing.drain() {
            let (ticket, buffer) = (done.ticket, done.buffer);
            shared.events.push_back(Event::Sent { context, ticket, buffer, delivered: false });
        }
        if self.reading.is_broken_off() || self.is_abbreviated {
            self.reading.break_off();
            self.conclude(shared, Err(Failure::StoppedReading));
        }
    }

    /// The end: told to the application once, with all outputs that are left.
    pub(crate) fn conclude(&mut self, shared: &mut Shared, result: Result<(), Failure>) {
        if self.is_told {
            return;
        }
        self.is_told = true;
        self.report_sent(shared);
        let result = self.failure.map_or(result, Err);
        let context = self.id();
        // An end without an error acknowledges what no number can: a message of no bytes, or one that nobody answers.
        let delivered = result.is_ok();
        for done in self.outgoing.drain() {
            let (ticket, buffer) = (done.ticket, done.buffer);
            shared.events.push_back(Event::Sent { context, ticket, buffer, delivered });
        }
        XtpCounters::count(&mut shared.counters, result.is_ok());
        if self.service != Service::UnackDgram || self.role == Role::Initiator {
            shared.tell_readable(context);
            shared.events.push_back(Event::Closed { context, result });
        }
    }
}

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (date, None) | (None, date) => date,
    }
}

impl XtpCounters {
    fn count(counters: &mut Self, is_well: bool) {
        if is_well {
            counters.contexts_closed += 1;
        } else {
            counters.contexts_failed += 1;
        }
    }
}
