//! One engine driven by hand: whoever uses it is its peers, its clock and its memory.
//!
//! The driver does what the runtime does (plan, read into the planned slots, handle, move, transmit, events), and checks
//! on the way what always holds: slots, moves and payload stay inside memory that the engine has; memory comes back once;
//! the drain rule is kept; timers come to an end. What holds for one engine only says its [`Subject`].

use core::ops::Range;
use core::time::Duration;
use pinnace_core::{
    Address, BufferId, BufferRange, Driven, Ecn, Engine, Move, Placed, PollAt, ReceivePlan, RxMeta, Slot, Source,
    Storage, Time, Train, TrainLimits,
};
use pinnace_sim::Sums;
use std::collections::BTreeMap;

/// Polls without an end: the engine goes round in circles.
const MANY: usize = 100_000;
/// What fresh storage holds: not what arrives, and not zeros.
pub const STALE: u8 = 0xA5;

/// Memory by name. A name is never given twice.
#[derive(Debug, Default)]
pub struct Memory {
    buffers: Vec<Option<Buffer>>,
    /// Bytes of storage that the engine has asked for and not given back.
    pub lent: u64,
    /// How often the engine has got storage.
    pub allocations: usize,
    /// There is no storage now.
    pub is_full: bool,
}

#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    /// The engine has asked for it; the others are the application's.
    is_lent: bool,
}

impl Memory {
    /// Memory of the application, which an engine may use from now on.
    pub fn add(&mut self, bytes: Vec<u8>) -> BufferId {
        self.insert(bytes, false)
    }

    fn insert(&mut self, bytes: Vec<u8>, is_lent: bool) -> BufferId {
        self.buffers.push(Some(Buffer { bytes, is_lent }));
        BufferId::new(self.buffers.len() as u32 - 1)
    }

    /// What a buffer holds, as long as it is there.
    pub fn bytes(&self, buffer: BufferId) -> Option<&[u8]> {
        self.buffers.get(buffer.index() as usize)?.as_ref().map(|buffer| &*buffer.bytes)
    }

    fn take(&mut self, id: BufferId, is_lent: bool) -> Vec<u8> {
        let buffer = self.buffers[id.index() as usize].take();
        let buffer = buffer.unwrap_or_else(|| panic!("{id:?} was given back twice"));
        assert_eq!(buffer.is_lent, is_lent, "{id:?} is of the other kind");
        buffer.bytes
    }

    /// Takes back the newest buffer, of which the engine has not heard; its name is given again.
    pub fn forget(&mut self, buffer: BufferId) {
        assert_eq!(self.buffers.len(), buffer.index() as usize + 1, "{buffer:?} is not the newest");
        self.buffers.pop();
    }

    /// The memory is the application's again.
    pub fn end(&mut self, buffer: BufferId) -> Vec<u8> {
        self.take(buffer, false)
    }

    /// Storage that the engine had asked for has come back.
    pub fn end_lent(&mut self, buffer: BufferId) -> Vec<u8> {
        let bytes = self.take(buffer, true);
        self.lent -= bytes.len() as u64;
        bytes
    }

    /// What a buffer holds, to write.
    pub fn bytes_mut(&mut self, buffer: BufferId) -> Option<&mut [u8]> {
        self.buffers.get_mut(buffer.index() as usize)?.as_mut().map(|buffer| &mut *buffer.bytes)
    }

    /// How many buffers there have been, ended ones included.
    pub fn count(&self) -> usize {
        self.buffers.len()
    }

    /// How many buffers have not ended.
    pub fn kept(&self) -> usize {
        self.buffers.iter().flatten().count()
    }

    fn place(&self, range: BufferRange) -> Range<usize> {
        let bytes = self.bytes(range.buffer).unwrap_or_else(|| panic!("{range:?} is not the engine's memory"));
        assert!(range.end() <= bytes.len() as u64, "{range:?} leaves a buffer of {} bytes", bytes.len());
        range.offset as usize..range.end() as usize
    }

    /// The bytes of a range.
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
            buffer.bytes[place.start..place.start + bytes.len()].copy_from_slice(bytes);
        }
    }
}

impl Storage for Memory {
    fn allocate(&mut self, len: u64, early: &[(u64, Vec<u8>)]) -> Option<BufferId> {
        if self.is_full {
            return None;
        }
        assert!(len <= 1 << 26, "{len} bytes are more than any limit of a test");
        self.lent += len;
        self.allocations += 1;
        let name = self.insert(vec![STALE; len as usize], true);
        for (offset, bytes) in early {
            self.write(BufferRange::new(name, *offset, bytes.len() as u32), bytes);
        }
        Some(name)
    }

    fn release(&mut self, buffer: BufferId) {
        self.end_lent(buffer);
    }
}

/// A datagram that was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// When.
    pub at: Time,
    /// Counts the trains.
    pub train: usize,
    /// To whom.
    pub to: Address,
    /// From where, if the engine says so.
    pub from: Option<Address>,
    /// Its mark.
    pub ecn: Ecn,
    /// All of it.
    pub bytes: Vec<u8>,
}

/// Bytes of datagrams from and to an address.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// From there.
    pub received: u64,
    /// There.
    pub sent: u64,
}

/// Memory that an event gives back.
#[derive(Clone, Copy, Debug)]
pub enum Returned {
    /// None.
    Nothing,
    /// The application's.
    Lent(BufferId),
    /// What the engine had asked for.
    Storage(BufferId),
}

type EventOf<S> = <<S as Subject>::Engine as Engine>::Event;

/// What the tests of one engine know of it.
pub trait Subject {
    /// The engine.
    type Engine: Engine;

    /// Once a timer has been handled, the next one is in the future.
    const TIMERS_MOVE_ON: bool = false;

    /// Memory that an event gives back.
    fn returned(event: &EventOf<Self>) -> Returned;

    /// Looks at a datagram that has just been sent, which `traffic` with its destination includes.
    fn on_sent(&mut self, _engine: &Self::Engine, _sent: &Sent, _traffic: Traffic) {}

    /// Looks at a datagram that arrives.
    fn on_read(&mut self, _source: Address, _datagram: &[u8]) {}

    /// Looks at an event.
    fn on_event(&mut self, _event: &EventOf<Self>) {}

    /// Looks at the engine when nothing is left to do.
    fn check(&self, _engine: &Self::Engine, _memory: &Memory) {}
}

/// An engine, its clock and its memory.
pub struct Hand<S: Subject> {
    /// The engine, under the drain rule.
    pub engine: Driven<S::Engine>,
    /// The clock.
    pub now: Time,
    /// Its memory, and the application's that it may use.
    pub memory: Memory,
    /// What it has sent and nobody has taken yet.
    pub sent: Vec<Sent>,
    /// What it has said and nobody has taken yet.
    pub events: Vec<EventOf<S>>,
    /// By peer.
    pub traffic: BTreeMap<Address, Traffic>,
    /// Of its trains.
    pub limits: TrainLimits,
    /// Datagrams that one read may bring.
    pub coalesce: usize,
    /// Where reads say that they came to.
    pub destination: Option<Address>,
    /// Nothing is sent after a read until [`Hand::drain`]: several reads share an answer.
    pub holds_back: bool,
    /// So much later than the clock says do its trains leave.
    pub lateness: Duration,
    /// What its tests know of it.
    pub subject: S,
    trains: usize,
}

impl<S: Subject> core::fmt::Debug for Hand<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Hand").field("now", &self.now).finish_non_exhaustive()
    }
}

impl<S: Subject> Hand<S> {
    /// At time zero.
    pub fn new(engine: S::Engine, subject: S) -> Self {
        Self {
            engine: Driven::new(engine),
            now: Time::ZERO,
            memory: Memory::default(),
            sent: Vec::new(),
            events: Vec::new(),
            traffic: BTreeMap::new(),
            limits: TrainLimits::GSO,
            coalesce: 64,
            destination: None,
            holds_back: false,
            lateness: Duration::ZERO,
            subject,
            trains: 0,
        }
    }

    /// A call of the application, and what follows from it.
    pub fn call<R>(&mut self, call: impl FnOnce(&mut S::Engine, Time) -> R) -> R {
        let now = self.now;
        let result = self.engine.call(|engine| call(engine, now));
        self.drain();
        result
    }

    /// Polls until nothing comes.
    ///
    /// # Panics
    ///
    /// If that has no end, or what always holds does not.
    pub fn drain(&mut self) {
        let mut train = Train::new(self.limits);
        for turn in 0.. {
            assert!(turn < MANY, "sends without an end");
            train.reset(self.limits);
            if !self.engine.poll_transmit(self.now, &mut train) {
                break;
            }
            self.trains += 1;
            assert!(train.segments() <= self.limits.segments, "a train of {} datagrams", train.segments());
            let Self { engine, memory, sent, traffic, subject, .. } = self;
            train.fill_checksum(|range| memory.payload(range), &mut Sums::default());
            let at = self.now + self.lateness;
            let (to, from, ecn) = (train.destination(), train.source(), train.ecn());
            train.for_each_datagram(
                |range| memory.payload(range),
                |bytes| {
                    let traffic = traffic.entry(to).or_default();
                    traffic.sent += bytes.len() as u64;
                    let datagram = Sent { at, train: self.trains, to, from, ecn, bytes: bytes.to_vec() };
                    subject.on_sent(engine.engine(), &datagram, *traffic);
                    sent.push(datagram);
                },
            );
            if train.is_awaited() {
                self.engine.handle_left(at);
            }
        }
        for turn in 0.. {
            assert!(turn < MANY, "events without an end");
            let Some(event) = self.engine.poll_event() else { break };
            match S::returned(&event) {
                Returned::Nothing => {}
                Returned::Lent(buffer) => drop(self.memory.end(buffer)),
                Returned::Storage(buffer) => drop(self.memory.end_lent(buffer)),
            }
            self.subject.on_event(&event);
            self.events.push(event);
        }
        self.subject.check(self.engine.engine(), &self.memory);
    }

    /// One read: equal datagrams, the last may be shorter.
    pub fn read(&mut self, source: Address, ecn: Ecn, datagrams: &[Vec<u8>]) {
        let bytes = datagrams.concat();
        self.traffic.entry(source).or_default().received += bytes.len() as u64;
        datagrams.iter().for_each(|datagram| self.subject.on_read(source, datagram));
        let segment = datagrams.first().map_or(0, Vec::len);
        let mut plan = ReceivePlan::new();
        plan.reset(self.coalesce);
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
        let meta = RxMeta { source, destination: self.destination, ecn };
        let mut moves: Vec<Move> = Vec::new();
        let mut placed =
            Placed::new(plan.slots(), &pieces, bytes.len(), segment, &mut moves).with_storage(&mut self.memory);
        self.engine.handle_datagrams(self.now, &meta, &mut placed);
        for Move { from, to } in moves {
            // Storage may have been released after the move was noted.
            if self.memory.bytes(to.buffer).is_some() {
                self.memory.write(
                    to,
                    match &from {
                        Source::Read(at) => &bytes[*at..at + to.len as usize],
                        Source::Kept(kept) => kept,
                    },
                );
            }
        }
        if !self.holds_back {
            self.drain();
        }
    }

    /// One datagram, without a mark.
    pub fn feed(&mut self, source: Address, datagram: &[u8]) {
        if !datagram.is_empty() {
            self.read(source, Ecn::NotCapable, &[datagram.to_vec()]);
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
    ///
    /// # Panics
    ///
    /// If a timer does not go off, or what always holds does not.
    pub fn advance_to(&mut self, time: Time) {
        let (mut turns, mut turns_now) = (0, 0);
        while let Some(at) = self.next_timer().filter(|at| *at <= time) {
            turns += 1;
            turns_now = if at > self.now { 0 } else { turns_now + 1 };
            assert!(turns_now < 1000, "the timer of {at:?} does not go off");
            assert!(turns < 100 * MANY, "timers without an end");
            self.now = at;
            self.engine.handle_timeout(self.now);
            self.drain();
            if S::TIMERS_MOVE_ON {
                let next = self.next_timer();
                assert!(next.is_none_or(|at| at > self.now), "{next:?} is due after the timer was handled");
            }
        }
        self.now = self.now.max(time);
    }

    /// The clock goes on for `time`.
    pub fn advance(&mut self, time: Duration) {
        self.advance_to(self.now + time);
    }

    /// What it has sent since the last look.
    pub fn take_sent(&mut self) -> Vec<Sent> {
        core::mem::take(&mut self.sent)
    }

    /// What it has said since the last look.
    pub fn take_events(&mut self) -> Vec<EventOf<S>> {
        core::mem::take(&mut self.events)
    }
}

/// Declares a struct around a [`Hand`] of a [`Subject`], and what the tests of one engine add to it as its own methods.
#[macro_export]
macro_rules! half {
    ($(#[$attribute:meta])* $visible:vis struct $name:ident($subject:ty);) => {
        $(#[$attribute])*
        $visible struct $name($crate::hand::Hand<$subject>);

        impl ::core::ops::Deref for $name {
            type Target = $crate::hand::Hand<$subject>;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl ::core::ops::DerefMut for $name {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }
    };
}
