//! A host: an engine under the drain rule, its memory, its socket and its faults.
//!
//! It does what the runtime does with a real link, step by step: plan, read into the planned slots, place, handle, move,
//! transmit until nothing comes, collect events until nothing comes.
//!
//! Always true: between two steps the engine is drained, unless the link is blocked; what waits in the socket is bounded by
//! the receive buffer.

use crate::memory::Memory;
use crate::packet::{Fate, Packet};
use crate::sums::Sums;
use core::time::Duration;
use pinnace_core::{
    Address, BufferId, Driven, Engine, Move, PathEvent, Placed, PollAt, Random, ReceivePlan, RxMeta, Slot, Source,
    Time, Train, TrainLimits,
};
use std::collections::{BTreeMap, VecDeque};

/// A host of a simulation, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(u32);

impl HostId {
    /// Host `index`, counted from 0 in the order of [`crate::Simulation::add_host`].
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// Its number.
    pub const fn index(self) -> u32 {
        self.0
    }

    /// The address that it has unless given others.
    pub const fn address(self) -> Address {
        Address::Node(self.0)
    }
}

impl core::fmt::Display for HostId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "host {}", self.0)
    }
}

/// Which datagrams one read may bring together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coalesce {
    /// None: every read brings one.
    Never,
    /// Those that left in one train (what a train is on loopback and between virtual machines).
    Trains,
    /// All of equal size from the same source, with a short last one (what GRO does with what came over a wire).
    Flow,
}

/// What a host's network stack is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostConfig {
    /// What one train may hold.
    pub train_limits: TrainLimits,
    /// Which datagrams that wait one read brings together.
    pub coalesce: Coalesce,
    /// The most datagrams of one read.
    pub datagrams_per_read: usize,
    /// Reads that are handled before the engine may answer.
    pub reads_per_batch: usize,
    /// How long the host waits after an arrival for more to come (interrupt moderation).
    pub read_delay: Duration,
    /// How long the host is busy after a read.
    pub read_cost: Duration,
    /// Bytes that wait in the socket; more is lost.
    pub receive_buffer: usize,
    /// The largest datagram that the host's own link takes, in bytes; a larger one is refused at once.
    pub max_datagram: usize,
    /// Whether the link lets the network cut what is too large from then on when it has been told that something is, as the
    /// links over IP do (those over Ethernet cannot).
    pub fragments: bool,
    /// Whether the socket is connected: what comes from others than its peer never reaches the engine.
    pub is_connected: bool,
}

impl Default for HostConfig {
    /// Linux with offloads, infinitely fast, with a receive buffer of 4 MiB.
    fn default() -> Self {
        Self {
            train_limits: TrainLimits::GSO,
            coalesce: Coalesce::Trains,
            datagrams_per_read: 64,
            reads_per_batch: 1,
            read_delay: Duration::ZERO,
            read_cost: Duration::ZERO,
            receive_buffer: 4 << 20,
            max_datagram: 65_507,
            fragments: true,
            is_connected: false,
        }
    }
}

impl HostConfig {
    /// Without offloads: one datagram a train, one a read.
    pub fn plain() -> Self {
        Self { train_limits: TrainLimits::SINGLE, coalesce: Coalesce::Never, datagrams_per_read: 1, ..Self::default() }
    }
}

pinnace_core::counters! {
    /// What a host has seen.
    pub struct HostCounters {
        /// Trains sent.
        trains_sent,
        /// Datagrams sent.
        datagrams_sent,
        /// Bytes sent, headers of lower layers not counted.
        bytes_sent,
        /// Trains that found the link blocked.
        sends_blocked,
        /// Reads that brought something.
        reads,
        /// Reads that brought more than one datagram.
        reads_coalesced,
        /// Datagrams received.
        datagrams_received,
        /// Bytes received, headers of lower layers not counted.
        bytes_received,
        /// Datagrams lost because the receive buffer was full.
        receive_buffer_drops,
        /// Datagrams of others than the peer that the socket is connected to.
        strangers_dropped,
        /// Bytes that a read put into application memory, rightly or not.
        bytes_placed,
        /// Bytes that had to be moved to application memory after the read.
        bytes_moved,
        /// Times that the timer of the engine ran out.
        timeouts,
        /// Events that the engine reported.
        events,
        /// Ranges of application memory, and storage to release, that the engine named and that do not exist: defects.
        bad_ranges,
    }
}

/// Whether a host takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Alive,
    /// The process is gone; the machine may still say so to whoever writes.
    Dead {
        tells: bool,
    },
}

/// The most trains or events that come of one drain: an engine that makes more goes round in circles.
const DRAIN_LIMIT: usize = 1_000_000;

/// A host.
pub(crate) struct Host<E: Engine> {
    pub(crate) id: HostId,
    pub(crate) address: Address,
    pub(crate) peer: Option<Address>,
    pub(crate) driven: Driven<E>,
    pub(crate) memory: Memory,
    pub(crate) config: HostConfig,
    pub(crate) counters: HostCounters,
    pub(crate) state: State,
    pub(crate) frozen_until: Time,
    pub(crate) blocked_until: Time,
    /// The application takes no events.
    pub(crate) deaf: bool,
    pub(crate) events: VecDeque<E::Event>,
    pub(crate) outbox: Vec<Outgoing>,
    /// What the application asked to be woken for, in order.
    pub(crate) wakes: BTreeMap<(Time, u64), u64>,
    pub(crate) wake_count: u64,
    pub(crate) random: Random,
    /// The engine goes round in circles.
    pub(crate) circling: bool,
    queue: VecDeque<Packet>,
    queued_bytes: usize,
    reports: VecDeque<PathEvent>,
    /// What it sends from now on may be cut by the network.
    may_be_cut: bool,
    read_at: Time,
    busy_until: Time,
    held: bool,
    train: Train,
    plan: ReceivePlan,
    moves: Vec<Move>,
    /// Storage released during this read: the names mean nothing any more, the memory is still looked at.
    released: Vec<BufferId>,
    read: Vec<u8>,
    scratch: Vec<u8>,
}

/// A train that left, as its datagrams.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) source: Option<Address>,
    pub(crate) destination: Address,
    pub(crate) ecn: pinnace_core::Ecn,
    pub(crate) may_be_cut: bool,
    pub(crate) datagrams: Vec<Vec<u8>>,
}

impl<E: Engine> Host<E> {
    pub(crate) fn new(id: HostId, engine: E, config: HostConfig, random: Random) -> Self {
        Self {
            id,
            address: id.address(),
            peer: None,
            driven: Driven::new(engine),
            memory: Memory::default(),
            config,
            counters: HostCounters::default(),
            state: State::Alive,
            frozen_until: Time::ZERO,
            blocked_until: Time::ZERO,
            deaf: false,
            events: VecDeque::new(),
            outbox: Vec::new(),
            wakes: BTreeMap::new(),
            wake_count: 0,
            random,
            circling: false,
            queue: VecDeque::new(),
            queued_bytes: 0,
            reports: VecDeque::new(),
            may_be_cut: false,
            read_at: Time::ZERO,
            busy_until: Time::ZERO,
            held: false,
            train: Train::new(config.train_limits),
            plan: ReceivePlan::new(),
            moves: Vec::new(),
            released: Vec::new(),
            read: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Forgets everything but the name, as a process does that starts again.
    pub(crate) fn restart(&mut self, engine: E) {
        let fresh = Self::new(self.id, engine, self.config, self.random.fork());
        let old = core::mem::replace(self, fresh);
        self.address = old.address;
        self.peer = old.peer;
        self.counters = old.counters;
        self.wake_count = old.wake_count;
        // Names of buffers stay unique, and the test may still look at the old ones.
        self.memory = old.memory;
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.state == State::Alive
    }

    /// Stops for good.
    pub(crate) fn kill(&mut self, tells: bool) {
        self.state = State::Dead { tells };
        self.queue.clear();
        self.queued_bytes = 0;
        self.reports.clear();
        self.events.clear();
        self.outbox.clear();
        self.wakes.clear();
    }

    /// A datagram reached the socket, which is connected to `peer` if it is connected; returns why it was dropped, if it was.
    pub(crate) fn arrive(&mut self, now: Time, peer: Option<Address>, packet: Packet) -> Option<Fate> {
        if self.config.is_connected && peer != Some(packet.source) {
            self.counters.strangers_dropped += 1;
            return Some(Fate::Stranger);
        }
        if self.queued_bytes + packet.data().len() > self.config.receive_buffer {
            self.counters.receive_buffer_drops += 1;
            return Some(Fate::ReceiveBufferFull);
        }
        if self.queue.is_empty() {
            self.read_at = now + self.config.read_delay;
        }
        self.queued_bytes += packet.data().len();
        self.queue.push_back(packet);
        None
    }

    /// The network said something about the path.
    pub(crate) fn report(&mut self, event: PathEvent) {
        self.reports.push_back(event);
    }

    /// Whether something waits that [`Host::step`] will handle.
    fn has_input(&self) -> bool {
        !self.queue.is_empty() || !self.reports.is_empty()
    }

    /// When [`Host::step`] has something to do.
    pub(crate) fn poll_at(&self, now: Time) -> Option<Time> {
        if !self.is_alive() || self.circling {
            return None;
        }
        let input = (!self.reports.is_empty())
            .then_some(self.busy_until)
            .or_else(|| (!self.queue.is_empty()).then_some(self.read_at.max(self.busy_until)));
        let timer = self.timer(now).map(|time| time.max(self.busy_until));
        let wake = self.wakes.first_key_value().map(|(&(time, _), _)| time.max(self.busy_until));
        let link = self.held.then_some(self.blocked_until);
        let events = (!self.events.is_empty() && !self.deaf).then_some(now);
        let first = [input, timer, wake, link, events].into_iter().flatten().min()?;
        Some(first.max(self.frozen_until).max(now))
    }

    /// When the engine's timer runs out. A blocked link comes first: an engine that has something to send would ask for
    /// the same moment again and again.
    fn timer(&self, now: Time) -> Option<Time> {
        match self.driven.poll_at() {
            _ if self.held => None,
            PollAt::Now => Some(now),
            PollAt::Time(Time::MAX) | PollAt::Ingress => None,
            PollAt::Time(time) => Some(time),
        }
    }

    /// Does what is due now, but for the application. Returns the packets that were read, for the trace.
    pub(crate) fn step(&mut self, now: Time, delivered: &mut Vec<Packet>) {
        if self.held && self.blocked_until <= now {
            self.held = false;
            self.flush_train(now);
            self.drain(now);
        }
        if self.busy_until <= now && self.has_input() {
            while let Some(event) = self.reports.pop_front() {
                self.may_be_cut |= self.config.fragments && matches!(event, PathEvent::TooLarge { .. });
                self.driven.handle_path_event(now, event);
            }
            if self.read_at <= now {
                for _ in 0..self.config.reads_per_batch.max(1) {
                    if !self.read(now, delivered) {
                        break;
                    }
                }
            }
            self.drain(now);
        }
        if self.busy_until <= now && self.timer(now).is_some_and(|time| time <= now) {
            self.counters.timeouts += 1;
            self.driven.handle_timeout(now);
            self.drain(now);
        }
    }

    /// The next thing that the application asked to be woken for, if it is due.
    pub(crate) fn wake(&mut self, now: Time) -> Option<u64> {
        let entry = self.wakes.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// Polls until nothing comes: the drain rule.
    pub(crate) fn drain(&mut self, now: Time) {
        for round in 0.. {
            if round == DRAIN_LIMIT {
                self.circling = true;
                return;
            }
            if self.held {
                // The link has not taken the last train yet.
                self.driven.transmit_blocked();
                break;
            }
            self.train.reset(self.config.train_limits);
            if !self.driven.poll_transmit(now, &mut self.train) {
                break;
            }
            if self.blocked_until > now {
                self.counters.sends_blocked += 1;
                self.held = true;
            } else {
                self.flush_train(now);
            }
        }
        for round in 0.. {
            if round == DRAIN_LIMIT {
                self.circling = true;
                return;
            }
            let Some(event) = self.driven.poll_event() else { break };
            self.counters.events += 1;
            self.events.push_back(event);
        }
    }

    /// Copies the train's datagrams together and puts them where the simulation picks them up.
    fn flush_train(&mut self, now: Time) {
        let (train, memory, counters) = (&self.train, &self.memory, &mut self.counters);
        // Reported where it is sent, so that the datagrams cut below are right.
        let bad = train.parts().iter().any(|part| match part {
            pinnace_core::Part::Payload(range) => memory.bytes(*range).is_none(),
            pinnace_core::Part::Inline { .. } => false,
        });
        if bad {
            counters.bad_ranges += 1;
            debug_assert!(!bad, "{} sends application memory that does not exist", self.id);
            return;
        }
        self.train.fill_checksum(|range| memory.bytes(range).unwrap_or_default(), &mut Sums::default());
        let train = &self.train;
        let mut datagrams = Vec::with_capacity(train.segments());
        train.for_each_datagram(|range| memory.bytes(range).unwrap_or_default(), |data| datagrams.push(data.to_vec()));
        debug_assert_eq!(datagrams.len(), train.segments());
        if train.segment_size() > self.config.max_datagram
            && datagrams.iter().any(|d| d.len() > self.config.max_datagram)
        {
            let fits = u32::try_from(self.config.max_datagram).ok();
            self.reports.push_back(PathEvent::TooLarge { to: self.train.destination(), fits });
            return;
        }
        self.may_be_cut |= self.config.fragments && self.driven.engine().may_be_cut();
        counters.trains_sent += 1;
        counters.datagrams_sent += datagrams.len() as u64;
        counters.bytes_sent += train.bytes() as u64;
        self.outbox.push(Outgoing {
            source: train.source(),
            destination: train.destination(),
            ecn: train.ecn(),
            may_be_cut: self.may_be_cut,
            datagrams,
        });
        if self.train.is_awaited() {
            self.driven.handle_left(now);
        }
    }

    /// How many of the waiting datagrams the next read brings.
    fn coalesced(&self) -> usize {
        let Some(first) = self.queue.front() else { return 0 };
        let size = first.data().len();
        let (mut count, mut bytes) = (1, size);
        let most = self.config.datagrams_per_read.max(1);
        if self.config.coalesce == Coalesce::Never || size == 0 {
            return count;
        }
        for packet in self.queue.iter().skip(1) {
            let len = packet.data().len();
            let same = (packet.source, packet.destination, packet.ecn) == (first.source, first.destination, first.ecn)
                && (self.config.coalesce == Coalesce::Flow || packet.train == first.train);
            if count >= most || !same || len == 0 || len > size || bytes + len > 65_535 {
                break;
            }
            count += 1;
            bytes += len;
            if len < size {
                break;
            }
        }
        count
    }

    /// One read: as `recvmsg` with `UDP_GRO` into the slots of a plan.
    fn read(&mut self, now: Time, delivered: &mut Vec<Packet>) -> bool {
        let count = self.coalesced();
        let Some(first) = self.queue.front() else { return false };
        let segment = first.data().len();
        let meta = RxMeta {
            source: if Some(first.source) == self.peer { Address::Peer } else { first.source },
            destination: Some(first.destination),
            ecn: first.ecn,
        };
        self.read.clear();
        for packet in self.queue.drain(..count) {
            self.queued_bytes -= packet.data().len();
            self.read.extend_from_slice(packet.data());
            delivered.push(packet);
        }
        let total = self.read.len();
        self.counters.reads += 1;
        self.counters.reads_coalesced += u64::from(count > 1);
        self.counters.datagrams_received += count as u64;
        self.counters.bytes_received += total as u64;

        let most = if self.config.coalesce == Coalesce::Never { 1 } else { self.config.datagrams_per_read.max(1) };
        self.plan.reset(most);
        self.driven.plan_receive(&mut self.plan);
        // A forged datagram may be longer than any that UDP carries.
        self.plan.top_up(total.max(65_535));
        self.scatter();
        self.handle(now, &meta, total, segment);
        self.carry_out_moves();
        self.busy_until = self.busy_until.max(now) + self.config.read_cost;
        true
    }

    /// Writes the bytes of the read into the slots that lie in application memory.
    fn scatter(&mut self) {
        let mut rest = &self.read[..];
        for slot in self.plan.slots() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at(slot.len().min(rest.len()));
            rest = later;
            if let Slot::Payload(range) = slot {
                if let Some(memory) = self.memory.bytes_mut(*range) {
                    memory[..now.len()].copy_from_slice(now);
                    self.counters.bytes_placed += now.len() as u64;
                } else {
                    self.counters.bad_ranges += 1;
                    debug_assert!(false, "{} plans to receive into memory that does not exist: {range:?}", self.id);
                }
            }
        }
    }

    /// Shows the engine what the read brought, where it lies.
    fn handle(&mut self, now: Time, meta: &RxMeta, total: usize, segment: usize) {
        let mut pieces = Vec::with_capacity(self.plan.slots().len().min(total));
        let mut at = 0;
        for slot in self.plan.slots() {
            let len = slot.len().min(total - at);
            if len == 0 {
                break;
            }
            let pooled = &self.read[at..at + len];
            pieces.push(match slot {
                Slot::Payload(range) => self.memory.bytes(*range).map_or(pooled, |memory| &memory[..len]),
                Slot::Pooled(_) => pooled,
            });
            at += len;
        }
        self.moves.clear();
        let mut fresh = self.memory.fresh();
        let mut placed =
            Placed::new(self.plan.slots(), &pieces, total, segment, &mut self.moves).with_storage(&mut fresh);
        self.driven.handle_datagrams(now, meta, &mut placed);
        self.memory.settle(fresh.buffers);
        let strangers = fresh.released.iter().filter(|id| !self.memory.is_allocated(**id)).count() as u64;
        self.counters.bad_ranges += fresh.bad_ranges + strangers;
        debug_assert_eq!(fresh.bad_ranges, 0, "{} has early bytes that lie outside of the storage", self.id);
        debug_assert_eq!(strangers, 0, "{} releases what it did not allocate: {:?}", self.id, fresh.released);
        self.released.extend(fresh.released.into_iter().filter(|id| self.memory.is_allocated(*id)));
    }

    /// Carries out the moves as if all at once, then frees what was released. The sources are taken from memory where
    /// slots lay in memory, as a real driver has to do it: a plan with overlapping slots shows here as it would there.
    fn carry_out_moves(&mut self) {
        self.scratch.clear();
        for step in &self.moves {
            gather(&self.plan, &self.memory, &self.read, step, &mut self.scratch);
        }
        let mut at = 0;
        for step in &self.moves {
            let len = step.to.len as usize;
            if self.released.contains(&step.to.buffer) {
                // A message may end in the read that brings its last bytes: they go nowhere.
            } else if let Some(memory) = self.memory.bytes_mut(step.to) {
                memory.copy_from_slice(&self.scratch[at..at + len]);
                self.counters.bytes_moved += len as u64;
            } else {
                self.counters.bad_ranges += 1;
                debug_assert!(false, "{} moves bytes to memory that does not exist: {:?}", self.id, step.to);
            }
            at += len;
        }
        for id in &self.released {
            self.memory.take(*id);
        }
        self.released.clear();
    }
}

/// Appends the bytes of a move's source to `into`.
fn gather(plan: &ReceivePlan, memory: &Memory, read: &[u8], step: &Move, into: &mut Vec<u8>) {
    let mut at = match &step.from {
        Source::Read(at) => *at,
        Source::Kept(bytes) => return into.extend_from_slice(bytes),
    };
    let (mut len, mut base) = (step.to.len as usize, 0);
    for slot in plan.slots() {
        if len == 0 {
            return;
        }
        let (low, take) = (at - base, len.min((base + slot.len()).saturating_sub(at)));
        if take > 0 {
            let user = match slot {
                Slot::Payload(range) => memory.bytes(*range).and_then(|bytes| bytes.get(low..low + take)),
                Slot::Pooled(_) => None,
            };
            // The read keeps a copy of everything, and what lies beyond it is zeros.
            match user.or_else(|| read.get(at..at + take)) {
                Some(bytes) => into.extend_from_slice(bytes),
                None => into.resize(into.len() + take, 0),
            }
            at += take;
            len -= take;
        }
        base += slot.len();
    }
    into.resize(into.len() + len, 0);
}
