//! The engine: contexts on one socket, found by their keys, served in order of their priority.
//!
//! Always true: a context is in the table, on the wheel and in the queue, or in none of them; whatever touches a context
//! settles it ([`Xtp::settle`]) before the call ends.
//= X-1
//= X-24

use crate::accept::Listener;
use crate::context::{Context, EndDue, First, Holder, Phase, Reading, Role};
use crate::ended::EndedBy;
use crate::incoming::{AreaBytes, Incoming, Keeping, Policy};
use crate::multicast::Groups;
use crate::outgoing::{Outgoing, PathConfig};
use crate::shared::Shared;
use crate::space::Space;
use crate::validation::Proof;
use crate::{Config, ContextId, ControlBlock, Event, Failure, ListenerId, Service, XtpCounters};
use core::time::Duration;
use pinnace_core::{
    Address, ContextKey, ContextTable, ControllerKind, Engine, KeyLayout, PathEvent, Placed, PollAt, ReceivePlan,
    RxMeta, Time, Train, TranslationMap,
};
use pinnace_wire::xtp::{Codec, Header, Options};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// XTP on one socket: any number of contexts that were opened here or accepted from others.
#[derive(Debug)]
pub struct Xtp {
    pub(crate) shared: Shared,
    pub(crate) contexts: ContextTable<Box<Context>>,
    /// Contexts by what the peer calls them: its address, and its own key.
    pub(crate) by_peer: TranslationMap<(Address, u64)>,
    pub(crate) listeners: BTreeMap<ListenerId, Listener>,
    pub(crate) ports: BTreeMap<u16, ListenerId>,
    pub(crate) next_listener: u32,
    /// Accepted contexts whose peer had not shown that it is there when they were last looked at, in order of acceptance.
    pub(crate) half_open: VecDeque<ContextKey>,
    /// Contexts in time-wait that the application has forgotten, in the order in which they came to that; some may have gone
    /// since.
    pub(crate) resting: VecDeque<ContextKey>,
    /// What the key of the next context is made of, if it has been told already.
    pub(crate) next_entropy: Option<u64>,
    /// Contexts that the read under way has touched.
    pub(crate) touched: Vec<ContextKey>,
    /// The block of the newest context that was opened: most are alike, and share it.
    pub(crate) newest_block: Option<Arc<ControlBlock>>,
    /// Where the newest data went: the next are expected there.
    pub(crate) newest: Option<ContextKey>,
    pub(crate) groups: Groups,
    /// Set while the endpoint says good-bye, and after: whether the application was told.
    pub(crate) is_shut_down: Option<bool>,
}

/// What a new context is born with.
pub(crate) struct Birth {
    pub(crate) role: Role,
    pub(crate) phase: Phase,
    pub(crate) peer: Address,
    pub(crate) from: Option<Address>,
    /// The number of the first byte of both streams.
    pub(crate) start: u64,
    pub(crate) service: Service,
}

impl Xtp {
    /// An engine without contexts.
    pub fn new(config: Config, now: Time) -> Self {
        let layout = match config.codec {
            Codec::Xtp40 => KeyLayout::XTP40,
            Codec::Xtp36 => KeyLayout::XTP36,
        };
        let contexts = ContextTable::new(layout, config.limits.contexts);
        let mut shared = Shared::new(config, now);
        Self {
            by_peer: TranslationMap::new(shared.secrets.draw()),
            contexts,
            listeners: BTreeMap::new(),
            ports: BTreeMap::new(),
            next_listener: 0,
            half_open: VecDeque::new(),
            resting: VecDeque::new(),
            next_entropy: None,
            touched: Vec::new(),
            newest_block: None,
            newest: None,
            groups: Groups::default(),
            is_shut_down: None,
            shared,
        }
    }

    /// What has been seen so far.
    pub fn counters(&self) -> XtpCounters {
        self.shared.counters
    }

    /// The smoothed round trip of the context that has heard a status last.
    pub fn round_trip(&self) -> Option<Duration> {
        self.shared.round_trip
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Contexts, those in time-wait included.
    pub fn contexts(&self) -> usize {
        self.contexts.len()
    }

    /// Bytes of storage that the driver allocated and that are not released.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes
    }

    pub(crate) fn new_context(&mut self, now: Time, birth: &Birth, block: Arc<ControlBlock>) -> Option<ContextKey> {
        while self.contexts.next_key(0).is_none() && self.end_oldest_time_wait(now) {}
        let shared = &mut self.shared;
        let codec = shared.config.codec;
        let service = birth.service;
        let options = block.stream_options(service);
        let is_group = service.is_group();
        let keeping = match service {
            Service::IsoStream | Service::UnackDgram | Service::UnackMulticast => Keeping::NoError,
            _ if block.go_back_n => Keeping::GoBackN,
            _ => Keeping::Selective,
        };
        let policy = Policy {
            // No more is promised than there is room for.
            rwindow: block.rwindow.min(block.rbufsize.max(1)),
            most_rwindow: match service {
                Service::Transaction | Service::Connection | Service::Multicast if block.has_usual_window() => {
                    shared.config.most_window
                }
                _ => 0,
            },
            keeping,
            is_reserved: service == Service::BulkData,
            areas: match service {
                Service::BulkData => AreaBytes::default(),
                _ => AreaBytes { most: shared.config.area_bytes, least: shared.config.least_area_bytes },
            },
            max_spans: shared.config.limits.spans,
            max_boundaries: shared.config.limits.boundaries,
            maxdata: block.maxdata,
            is_one_message: service == Service::Transaction,
        };
        let mut options = options.with_if(is_group, Options::MULTI);
        if block.listen_flags.contains(Options::FASTNAK) && !options.contains(Options::NOERR) {
            // The peer reports gaps unasked, too.
            options = options | Options::FASTNAK;
        }
        let path = PathConfig {
            // Nobody tells what has become of a stream without answers: only its rate bounds it.
            congestion: match service {
                Service::UnackMulticast => ControllerKind::Fixed { window: u64::MAX },
                _ => shared.config.congestion,
            },
            initial_timeout: block.wtimer,
            rate: block.output_rate.into(),
            burst: block.output_burst.into(),
            ..PathConfig::default()
        };
        let outgoing = Outgoing::new(shared.secrets.draw() as u32, &path);
        let is_datagram = service.is_datagram();
        let context = Context {
            key: ContextKey { slot: 0, instance: 0 },
            role: birth.role,
            phase: birth.phase,
            service,
            listener: None,
            peer: birth.peer,
            from: birth.from,
            my_key: 0,
            peer_key: 0,
            options,
            space: Space::new(codec, birth.start),
            outgoing,
            incoming: Incoming::new(policy),
            maxdata: block.maxdata,
            block,
            recv_sync: 0,
            peer_time: 0,
            heard: false,
            proof: Proof::default(),
            is_blocked: false,
            first: First::default(),
            owed: None,
            deferred: VecDeque::new(),
            ask_due: None,
            asks_at: VecDeque::new(),
            wclose_sent: false,
            wclose_heard: false,
            is_abbreviated: is_datagram,
            reading: Reading::default(),
            peer_reading: Reading::default(),
            end_due: EndDue::default(),
            answer_by: None,
            is_answering: false,
            waiting: None,
            expiries: 0,
            answers_in_vain: 0,
            last_heard: now,
            silence: None,
            paced_until: None,
            ring_idle_since: None,
            ring_bytes: 0,
            rest_at: None,
            timer: None,
            place: None,
            is_told: false,
            holder: Holder::default(),
            failure: None,
        };
        let entropy = self.next_entropy.take().unwrap_or_else(|| shared.secrets.draw());
        let key = self.contexts.insert(Box::new(context), entropy).ok()?;
        let my_key = self.contexts.layout().pack(key)?;
        let context = self.contexts.lookup_mut(key)?;
        context.key = key;
        context.my_key = my_key;
        Some(key)
    }

    /// The context that a packet names.
    //= X-2
    pub(crate) fn lookup(&self, header: &Header, source: Address) -> Option<ContextKey> {
        let key = if header.key.rtn {
            self.contexts.layout().unpack(header.key.value)?
        } else {
            self.by_peer.lookup(&(source, header.key.value))?
        };
        let context = self.contexts.lookup(key)?;
        // A context that is over is kept for the application alone.
        (context.peer == source && context.phase != Phase::Over && context.phase != Phase::Fresh).then_some(key)
    }

    pub(crate) fn settle_touched(&mut self, now: Time) {
        let mut touched = core::mem::take(&mut self.touched);
        for key in touched.drain(..) {
            self.settle(now, key);
        }
        self.touched = touched;
    }

    /// Draws the conclusions of whatever has happened to a context: END, timers, the queue, the end.
    pub(crate) fn settle(&mut self, now: Time, key: ContextKey) {
        let Some(context) = self.contexts.lookup_mut(key) else { return };
        let shared = &mut self.shared;
        if context.role == Role::Initiator && context.peer_key != 0 && !context.proof.is_validated {
            // For DIAGs that answer packets with the peer's key.
            context.proof.is_validated = true;
            self.by_peer.insert((context.peer, context.peer_key), key);
        }
        if context.is_group() {
            self.groups.settle(now, shared, context);
        } else if context.phase == Phase::Active {
            shared.start_clock(now);
            if context.incoming.is_complete() && !context.reading.is_closed() {
                // New memory was all that the end of a stream without errors waited for.
                context.on_complete(now);
                shared.tell_readable(context.id());
            }
            let has_left = !context.first.is_due && context.outgoing.end() == Some(context.outgoing.sent());
            if context.service == Service::UnackDgram && has_left {
                context.phase = Phase::Over;
                context.conclude(shared, Ok(()));
            } else if context.is_done()
                && !context.awaits_delivery()
                && (context.deferred.is_empty() || !context.service.is_datagram())
            {
                let echo = context.owed.unwrap_or(context.recv_sync);
                context.end_with_status(now, shared, echo);
            }
        }
        context.update_wait(now, shared, false);
        if context.phase == Phase::Over && context.end_due != EndDue::Alone {
            let (name, holder) = ((context.peer, context.peer_key), context.holder);
            context.stand_down(shared);
            if context.peer_key != 0 && self.by_peer.lookup(&name) == Some(key) {
                self.by_peer.remove(&name);
            }
            if holder != Holder::Application {
                self.forget(key);
                return;
            }
        }
        let Some(context) = self.contexts.lookup_mut(key) else { return };
        context.make_ready(&mut self.shared);
        context.arm(&mut self.shared);
        if context.holder == Holder::Engine && matches!(context.phase, Phase::TimeWait(_)) {
            context.holder = Holder::Resting;
            if self.resting.len() > 2 * self.contexts.len() {
                self.resting.retain(|key| self.contexts.lookup(*key).is_some());
            }
            self.resting.push_back(key);
        }
    }

    /// Where the table is full, the context that has waited for late packets for longest gives way: its FIRST is still known
    /// for a repetition. False if there is none.
    //= X-24
    fn end_oldest_time_wait(&mut self, now: Time) -> bool {
        while let Some(key) = self.resting.pop_front() {
            let Some(context) = self.contexts.lookup_mut(key) else { continue };
            if let (Phase::TimeWait(until), Role::Responder) = (context.phase, context.role) {
                context.remember_end(&mut self.shared, now, EndedBy::Peer, until);
            }
            context.phase = Phase::Over;
            self.settle(now, key);
            return true;
        }
        false
    }

    /// Takes a context out of everything.
    pub(crate) fn forget(&mut self, key: ContextKey) {
        let Some(mut context) = self.contexts.remove(key) else { return };
        context.stand_down(&mut self.shared);
        if let Some((timer, _)) = context.timer.take() {
            self.shared.wheel.cancel(timer);
        }
        context.wait_for_pace(None, &mut self.shared);
        let name = (context.peer, context.peer_key);
        if context.peer_key != 0 && self.by_peer.lookup(&name) == Some(key) {
            self.by_peer.remove(&name);
        }
        while let Some(buffer) = context.incoming.release() {
            context.give_back(&mut self.shared, buffer);
        }
        if self.newest == Some(key) {
            self.newest = None;
        }
    }

    /// Where there are too many contexts whose peers have not shown that they are there, the oldest give way.
    pub(crate) fn make_room_half_open(&mut self, now: Time) {
        let most = self.shared.config.limits.half_open.max(1);
        if self.half_open.len() < most {
            return;
        }
        let contexts = &self.contexts;
        self.half_open.retain(|key| {
            contexts.lookup(*key).is_some_and(|context| !context.is_there() && context.phase == Phase::Active)
        });
        if self.half_open.len() < most {
            return;
        }
        // Some at once, so that a flood does not search them all each time.
        for _ in 0..(most / 32).max(1) {
            let Some(key) = self.half_open.pop_front() else { break };
            let Some(context) = self.contexts.lookup_mut(key) else { continue };
            self.shared.counters.contexts_evicted += 1;
            // A datagram that was delivered is so once, though its FIRST may be said again because no answer came.
            if context.service == Service::AckDgram && context.incoming.is_complete() {
                let until = now + context.time_wait();
                context.remember_end(&mut self.shared, now, EndedBy::Peer, until);
            }
            context.phase = Phase::Over;
            context.conclude(&mut self.shared, Err(Failure::Abandoned));
            // The application may take long to find out, and may still read what has come; but where memory is short, others
            // need it sooner.
            while self.shared.bytes > self.shared.config.limits.bytes / 2
                && let Some(buffer) = context.incoming.release()
            {
                context.give_back(&mut self.shared, buffer);
            }
            self.settle(now, key);
        }
    }
}

impl Context {
    /// Nothing of the association is left, and its FIRST shall be known until then.
    //= X-10
    pub(crate) fn remember_end(&self, shared: &mut Shared, now: Time, by: EndedBy, until: Time) {
        let name = (self.peer, self.peer_key);
        shared.ended.remember(now, name, (self.space.start(), by), until, shared.config.limits.ended);
    }

    /// The association ends without a time-wait: a FIRST that comes again is known for as long as one would last.
    pub(crate) fn remember_first(&self, shared: &mut Shared, now: Time, by: EndedBy) {
        if self.role == Role::Responder && !self.is_group() {
            self.remember_end(shared, now, by, now + self.time_wait());
        }
    }

    /// A buffer of the incoming half is not needed any more: a ring or an area that the driver allocated, or a posted one.
    pub(crate) fn give_back(&mut self, shared: &mut Shared, buffer: pinnace_core::BufferId) {
        if self.ring_bytes > 0 {
            self.uncount(shared);
            shared.events.push_back(Event::Released { buffer });
        } else {
            shared.events.push_back(Event::Filled { context: self.id(), buffer });
        }
    }

    /// Storage of the driver's is not ours any more.
    pub(crate) fn uncount(&mut self, shared: &mut Shared) {
        // Of two rings, one is left, and of areas those that have not been taken.
        let bytes = self.ring_bytes - self.incoming.lent_bytes().min(self.ring_bytes);
        shared.bytes -= bytes;
        self.ring_bytes -= bytes;
    }

    /// Both ends are done: END in a status, then time-wait.
    //= X-20
    pub(crate) fn end_with_status(&mut self, now: Time, shared: &mut Shared, echo: u32) {
        self.owe(echo);
        self.end_due = EndDue::InStatus;
        self.phase = Phase::TimeWait(now + self.time_wait());
        self.conclude(shared, Ok(()));
    }
}

/// Packets with fewer user bytes are copied: that costs less than to name a place for each.
const WORTH_PLANNING: u32 = 512;

impl Engine for Xtp {
    type Event = Event;

    fn handle_datagrams(&mut self, now: Time, meta: &RxMeta, rx: &mut Placed<'_>) {
        if self.is_shut_down.is_none() {
            self.read(now, meta, rx);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        // Also after the good-bye to all others.
        self.shared.say_farewells(now);
        if self.is_shut_down.is_none() {
            self.expire(now);
        }
    }

    fn handle_path_event(&mut self, now: Time, event: PathEvent) {
        match event {
            // Anybody can forge it: mostly WTIMER finds out.
            PathEvent::Unreachable => {
                self.shared.counters.unreachable_reports += 1;
                self.on_unreachable(now);
            }
            PathEvent::TooLarge { to, fits } => self.shared.on_too_large(now, to, fits),
        }
    }

    fn handle_hold(&mut self, held: bool) {
        self.shared.is_held = held;
        if !held {
            let mut keys = core::mem::take(&mut self.shared.held);
            for key in keys.drain(..) {
                if let Some(context) = self.contexts.lookup_mut(key) {
                    context.is_blocked = false;
                    context.make_ready(&mut self.shared);
                }
            }
            self.shared.held = keys;
        }
    }

    fn plan_receive(&self, plan: &mut ReceivePlan) {
        let newest = self.newest.and_then(|key| self.contexts.lookup(key));
        if let Some(context) = newest.filter(|context| context.incoming.expected_size() >= WORTH_PLANNING) {
            let codec = self.shared.config.codec;
            let tail = codec.tail_bytes(context.incoming.expected_size() as usize);
            context.incoming.plan(plan, codec.header_bytes(), tail);
        }
    }

    fn poll_transmit(&mut self, now: Time, train: &mut Train) -> bool {
        self.transmit(now, train)
    }

    fn handle_left(&mut self, now: Time) {
        self.on_left(now);
    }

    fn poll_at(&self) -> PollAt {
        if !self.shared.events.is_empty() || !self.shared.diags.is_empty() || !self.shared.queue.is_empty() {
            return PollAt::Now;
        }
        if self.is_shut_down == Some(false) {
            return PollAt::Now;
        }
        let farewells = PollAt::at(self.shared.farewells.next_at());
        let paced = PollAt::at(self.shared.paced.first().map(|(at, _)| at));
        PollAt::at(self.shared.wheel.next_at()).min(self.groups.poll_at()).min(farewells).min(paced)
    }

    //= X-19
    fn bears(&self, late: Duration) -> bool {
        let first = self.shared.paced.first().and_then(|(_, key)| self.contexts.lookup(key));
        first.is_none_or(|first| first.outgoing.bears(late))
    }

    fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.shared.events.pop_front() {
            return Some(event);
        }
        if self.is_shut_down == Some(false) && self.shared.diags.is_empty() && self.shared.queue.is_empty() {
            self.is_shut_down = Some(true);
            return Some(Event::ShutDown);
        }
        None
    }
}

/// A context, as the application knows it.
impl From<ContextId> for ContextKey {
    fn from(id: ContextId) -> Self {
        id.0
    }
}
