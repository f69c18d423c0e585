//! One engine driven by hand: whoever uses it is its peers, its clock and its memory.
//!
//! The driver does what the runtime does (plan, read into the planned slots, handle, move, transmit, events), and checks
//! on the way what always holds: slots, moves and payload stay inside memory that the engine has; memory comes back once;
//! what is sent parses; the drain rule is kept; timers come to an end.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "every user uses its own part")]

pub mod liar;

use core::ops::Range;
use core::time::Duration;
use pinnace_a1::{A1, Config, Event};
use pinnace_core::{
    Address, BufferId, BufferRange, ChecksumKind, Driven, Ecn, Move, Placed, PollAt, ReceivePlan, RxMeta, Slot,
    Storage, Summing, Time, Train, TrainLimits,
};
use pinnace_wire::a1::{Body, HEADER_BYTES, Head, Header, Kind};
use pinnace_wire::checksum::Internet;
use std::collections::BTreeMap;

/// Polls without an end: the engine goes round in circles.
const MANY: usize = 100_000;
/// What fresh storage holds: not what arrives, and not zeros.
const STALE: u8 = 0xA5;

/// Memory by name. A name is never given twice.
#[derive(Debug, Default)]
pub struct Memory {
    buffers: Vec<Option<Vec<u8>>>,
    /// Bytes of storage that the engine has asked for and not given back.
    pub lent: u64,
    /// There is no storage now.
    pub is_full: bool,
}

impl Memory {
    pub fn add(&mut self, bytes: Vec<u8>) -> BufferId {
        self.buffers.push(Some(bytes));
        BufferId::new(self.buffers.len() as u32 - 1)
    }

    pub fn bytes(&self, buffer: BufferId) -> Option<&[u8]> {
        self.buffers.get(buffer.index() as usize)?.as_deref()
    }

    /// The memory is the application's again.
    pub fn end(&mut self, buffer: BufferId) -> Vec<u8> {
        let bytes = self.buffers[buffer.index() as usize].take();
        bytes.unwrap_or_else(|| panic!("{buffer:?} was given back twice"))
    }

    fn place(&self, range: BufferRange) -> Range<usize> {
        let bytes = self.bytes(range.buffer).unwrap_or_else(|| panic!("{range:?} is not the engine's memory"));
        assert!(range.end() <= bytes.len() as u64, "{range:?} leaves a buffer of {} bytes", bytes.len());
        range.offset as usize..range.end() as usize
    }

    pub fn payload(&self, range: BufferRange) -> &[u8] {
        if range.len == 0 {
            return &[];
        }
        let place = self.place(range);
        self.bytes(range.buffer).map_or(&[], |bytes| &bytes[place])
    }

    fn write(&mut self, at: BufferRange, bytes: &[u8]) {
        let place = self.place(at);
        if let Some(buffer) = &mut self.buffers[at.buffer.index() as usize] {
            buffer[place.start..place.start + bytes.len()].copy_from_slice(bytes);
        }
    }
}

impl Storage for Memory {
    fn allocate(&mut self, len: u64, _: &[(u64, Vec<u8>)]) -> Option<BufferId> {
        if self.is_full {
            return None;
        }
        assert!(len <= 1 << 26, "{len} bytes are more than anybody allows");
        self.lent += len;
        Some(self.add(vec![STALE; len as usize]))
    }

    fn release(&mut self, buffer: BufferId) {
        self.lent -= self.end(buffer).len() as u64;
    }
}

#[derive(Default)]
struct Sums(Internet);

impl Summing for Sums {
    fn start(&mut self, _: ChecksumKind) {
        *self = Self::default();
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.add(bytes);
    }

    fn finish(&mut self) -> u32 {
        self.0.finish().into()
    }
}

/// A datagram that was sent.
#[derive(Clone, Debug)]
pub struct Got {
    pub to: Address,
    pub head: Head,
    pub bytes: Vec<u8>,
}

impl Got {
    pub fn parse(to: Address, bytes: &[u8]) -> Self {
        let head = Head::parse(&bytes[..HEADER_BYTES], bytes.len(), false).expect("what is sent parses");
        assert!(!head.header.is_checked || head.verify([&bytes[head.summed()]]));
        let got = Self { to, head, bytes: bytes.to_vec() };
        got.body();
        got
    }

    pub fn body(&self) -> Option<Body<'_>> {
        let is_control = self.head.block().is_none();
        is_control.then(|| Body::parse(&self.head, &self.bytes[HEADER_BYTES..]).expect("what is sent parses"))
    }

    pub fn kind(&self) -> Kind {
        self.head.kind
    }

    pub fn header(&self) -> &Header {
        &self.head.header
    }
}

/// An engine, its clock and its memory.
pub struct Half {
    pub engine: Driven<A1>,
    pub now: Time,
    pub memory: Memory,
    /// What it has sent and nobody has taken yet.
    pub sent: Vec<Got>,
    pub events: Vec<Event>,
    /// Bytes of datagrams, to and from every address.
    pub traffic: BTreeMap<Address, Traffic>,
    pub limits: TrainLimits,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub received: u64,
    pub sent: u64,
}

impl Half {
    pub fn new(config: Config) -> Self {
        Self {
            engine: Driven::new(A1::new(config, Time::ZERO)),
            now: Time::ZERO,
            memory: Memory::default(),
            sent: Vec::new(),
            events: Vec::new(),
            traffic: BTreeMap::new(),
            limits: TrainLimits::GSO,
        }
    }

    pub fn a1(&self) -> &A1 {
        self.engine.engine()
    }

    /// A call of the application, and what follows from it.
    pub fn call<R>(&mut self, call: impl FnOnce(&mut A1, Time) -> R) -> R {
        let now = self.now;
        let result = self.engine.call(|engine| call(engine, now));
        self.drain();
        result
    }

    /// Polls until nothing comes.
    pub fn drain(&mut self) {
        let mut train = Train::new(self.limits);
        for turn in 0.. {
            assert!(turn < MANY, "sends without an end");
            train.reset(self.limits);
            if !self.engine.poll_transmit(self.now, &mut train) {
                break;
            }
            let Self { memory, sent, traffic, .. } = self;
            train.fill_checksum(|range| memory.payload(range), &mut Sums::default());
            let to = train.destination();
            train.for_each_datagram(
                |range| memory.payload(range),
                |bytes| {
                    traffic.entry(to).or_default().sent += bytes.len() as u64;
                    sent.push(Got::parse(to, bytes));
                },
            );
        }
        for turn in 0.. {
            assert!(turn < MANY, "events without an end");
            let Some(event) = self.engine.poll_event() else { break };
            match &event {
                Event::Sent { buffer, .. } | Event::Cast { buffer, .. } => drop(self.memory.end(*buffer)),
                Event::Released { buffer } => self.memory.release(*buffer),
                _ => {}
            }
            self.events.push(event);
        }
        let (bytes, limits) = (self.a1().bytes(), &self.a1().config().limits);
        assert!(bytes <= limits.bytes, "{bytes} bytes are kept");
        assert!(self.a1().connections() <= limits.connections);
        assert_eq!(self.memory.lent, bytes, "storage that is not counted");
    }

    /// One read: equal datagrams, the last may be shorter.
    pub fn read(&mut self, source: Address, datagrams: &[Vec<u8>]) {
        let bytes = datagrams.concat();
        self.traffic.entry(source).or_default().received += bytes.len() as u64;
        let segment = datagrams.first().map_or(0, Vec::len);
        let mut plan = ReceivePlan::new();
        plan.reset(64);
        self.engine.plan_receive(&mut plan);
        plan.top_up(65_535.max(bytes.len()));
        let mut pieces: Vec<&[u8]> = Vec::new();
        let mut at = 0;
        for slot in plan.slots() {
            let take = slot.len().min(bytes.len() - at);
            if let Slot::Payload(range) = slot {
                // The whole slot must be fit to receive, whatever comes.
                self.memory.place(*range);
                self.memory.write(*range, &bytes[at..at + take]);
            }
            if take > 0 {
                pieces.push(&bytes[at..at + take]);
            }
            at += take;
        }
        let meta = RxMeta { source, destination: None, ecn: Ecn::NotCapable };
        let mut moves: Vec<Move> = Vec::new();
        let mut placed =
            Placed::new(plan.slots(), &pieces, bytes.len(), segment, &mut moves).with_storage(&mut self.memory);
        self.engine.handle_datagrams(self.now, &meta, &mut placed);
        for Move { at, to } in moves {
            // Storage may have been released after the move was noted.
            if self.memory.bytes(to.buffer).is_some() {
                self.memory.write(to, &bytes[at..at + to.len as usize]);
            }
        }
        self.drain();
    }

    /// One datagram.
    pub fn feed(&mut self, source: Address, datagram: &[u8]) {
        if !datagram.is_empty() {
            self.read(source, &[datagram.to_vec()]);
        }
    }

    /// When a timer runs out.
    pub fn next_timer(&self) -> Option<Time> {
        match self.engine.poll_at() {
            PollAt::Now => Some(self.now),
            PollAt::Time(at) => Some(at.max(self.now)),
            PollAt::Ingress => None,
        }
    }

    /// The clock goes on to `time`; timers that run out on the way are handled.
    pub fn advance_to(&mut self, time: Time) {
        let (mut turns, mut turns_now) = (0, 0);
        while let Some(at) = self.next_timer().filter(|at| *at <= time) {
            turns += 1;
            turns_now = if at > self.now { 0 } else { turns_now + 1 };
            assert!(turns_now < 1000, "the timer of {at:?} does not go off");
            assert!(turns < MANY, "timers without an end");
            self.now = at;
            self.engine.handle_timeout(self.now);
            self.drain();
        }
        self.now = self.now.max(time);
    }

    pub fn advance(&mut self, time: Duration) {
        self.advance_to(self.now + time);
    }

    /// What it has sent since the last look.
    pub fn take(&mut self) -> Vec<Got> {
        core::mem::take(&mut self.sent)
    }
}
