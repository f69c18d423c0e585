//! One engine driven by hand: a test, or a fuzzer, is its peer, its clock and its memory.
//!
//! The driver does what the runtime does (plan, read into the planned slots, handle, move, transmit, events), and checks
//! on the way what always holds: slots and moves stay inside their buffers, what a read dirties is still missing, the
//! drain rule is kept, every date is in the future once the timer has been handled.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use core::time::Duration;
use pinnace_core::{
    Address, BufferId, BufferRange, Driven, Ecn, Move, Placed, PollAt, ReceivePlan, RxMeta, Slot, Time, Train,
    TrainLimits,
};
use pinnace_wire::zcrp::{Control, TRAILER_BYTES, Trailer, Unit};
use pinnace_zcrp::{Config, Event, Receiver, Refused, Sender, Zcrp};

/// Bytes behind every buffer that nobody may touch.
pub const GUARD: usize = 64;
/// What they hold.
pub const GUARD_BYTE: u8 = 0xA5;
/// Polls without an end: the engine goes round in circles.
const MANY: usize = 100_000;

/// An engine, its clock and its memory.
pub struct Half {
    pub engine: Driven<Zcrp>,
    pub now: Time,
    pub buffers: Vec<Vec<u8>>,
    /// What it has sent and nobody has taken yet, each with its train.
    pub sent: Vec<(usize, Vec<u8>)>,
    pub events: Vec<Event>,
    trains: usize,
    limits: TrainLimits,
    /// Datagrams that one read may bring.
    pub coalesce: usize,
}

impl Half {
    pub fn new(engine: Zcrp) -> Self {
        Self {
            engine: Driven::new(engine),
            now: Time::ZERO,
            buffers: Vec::new(),
            sent: Vec::new(),
            events: Vec::new(),
            trains: 0,
            limits: TrainLimits::GSO,
            coalesce: 64,
        }
    }

    pub fn sender(config: &Config) -> Self {
        Self::new(Zcrp::new(Some(Sender::new(config.clone(), Time::ZERO)), None))
    }

    pub fn receiver(config: &Config) -> Self {
        Self::new(Zcrp::new(None, Some(Receiver::new(config.clone()))))
    }

    /// One datagram a train, one a read.
    pub fn plain(mut self) -> Self {
        self.limits = TrainLimits::SINGLE;
        self.coalesce = 1;
        self
    }

    pub fn buffer(&mut self, bytes: Vec<u8>) -> BufferId {
        let id = BufferId::new(self.buffers.len() as u32);
        self.buffers.push(bytes);
        id
    }

    /// Queues a message without looking at what the engine does about it.
    pub fn try_send(&mut self, data: &[u8]) -> Result<u64, Refused> {
        let mut bytes = data.to_vec();
        bytes.extend_from_slice(&[GUARD_BYTE; GUARD]);
        let buffer = self.buffer(bytes);
        let now = self.now;
        let result = self.engine.call(|e| e.sender_mut().expect("a sender").send(now, buffer, data.len() as u32));
        self.drain();
        result
    }

    pub fn send(&mut self, data: &[u8]) -> u64 {
        self.try_send(data).expect("the sender takes a message")
    }

    pub fn try_post(&mut self, capacity: usize) -> Result<u64, Refused> {
        let buffer = self.buffer(vec![GUARD_BYTE; capacity + GUARD]);
        let now = self.now;
        let result = self.engine.call(|e| e.receiver_mut().expect("a receiver").post(now, buffer, capacity as u32));
        self.drain();
        result
    }

    pub fn post(&mut self, capacity: usize) -> u64 {
        self.try_post(capacity).expect("the receiver takes a buffer")
    }

    /// A call of the application, and what follows from it.
    pub fn call<R>(&mut self, call: impl FnOnce(&mut Zcrp) -> R) -> R {
        let result = self.engine.call(call);
        self.drain();
        result
    }

    /// Polls until nothing comes.
    pub fn drain(&mut self) {
        let Self { engine, now, buffers, sent, trains, limits, .. } = self;
        let mut train = Train::new(*limits);
        for turn in 0.. {
            assert!(turn < MANY, "sends without an end");
            train.reset(*limits);
            if !engine.poll_transmit(*now, &mut train) {
                break;
            }
            *trains += 1;
            assert!(train.segments() <= limits.segments, "a train of {} datagrams", train.segments());
            let payload = |range: BufferRange| &buffers[range.buffer.index() as usize][inside(range, buffers)];
            train.for_each_datagram(payload, |datagram| sent.push((*trains, datagram.to_vec())));
        }
        while let Some(event) = self.engine.poll_event() {
            self.events.push(event);
            assert!(self.events.len() < 10 * MANY, "events without an end");
        }
    }

    /// One read: equal datagrams, the last may be shorter.
    pub fn read(&mut self, datagrams: &[Vec<u8>]) {
        let bytes = datagrams.concat();
        let segment = datagrams.first().map_or(0, Vec::len);
        let mut plan = ReceivePlan::new();
        plan.reset(self.coalesce);
        self.engine.plan_receive(&mut plan);
        plan.top_up(65_535.max(bytes.len()));
        let mut pieces: Vec<&[u8]> = Vec::new();
        let mut at = 0;
        for slot in plan.slots() {
            if let Slot::Payload(range) = slot {
                // The whole slot must be fit to receive, whatever comes.
                let place = inside(*range, &self.buffers);
                let take = range.len.min((bytes.len() - at) as u32) as usize;
                self.buffers[range.buffer.index() as usize][place.start..place.start + take]
                    .copy_from_slice(&bytes[at..at + take]);
            }
            let take = slot.len().min(bytes.len() - at);
            if take > 0 {
                pieces.push(&bytes[at..at + take]);
            }
            at += take;
        }
        let meta = RxMeta { source: Address::Peer, destination: None, ecn: Ecn::NotCapable };
        let mut moves: Vec<Move> = Vec::new();
        let mut placed = Placed::new(plan.slots(), &pieces, bytes.len(), segment, &mut moves);
        self.engine.handle_datagrams(self.now, &meta, &mut placed);
        for Move { at, to } in moves {
            let place = inside(to, &self.buffers);
            self.buffers[to.buffer.index() as usize][place].copy_from_slice(&bytes[at..at + to.len as usize]);
        }
        for buffer in &self.buffers {
            assert_eq!(buffer[buffer.len() - GUARD..], [GUARD_BYTE; GUARD], "bytes behind a buffer were touched");
        }
        self.drain();
    }

    /// One datagram.
    pub fn feed(&mut self, datagram: &[u8]) {
        self.read(&[datagram.to_vec()]);
    }

    /// The clock goes on to `time`; timers that run out on the way are handled.
    pub fn advance_to(&mut self, time: Time) {
        for turn in 0.. {
            assert!(turn < MANY, "timers without an end");
            let at = match self.engine.poll_at() {
                PollAt::Now => self.now,
                PollAt::Time(at) => at,
                PollAt::Ingress => break,
            };
            if at > time {
                break;
            }
            self.now = self.now.max(at);
            self.engine.handle_timeout(self.now);
            self.drain();
        }
        self.now = self.now.max(time);
    }

    pub fn advance(&mut self, time: Duration) {
        self.advance_to(self.now + time);
    }

    pub fn millis(&mut self, millis: u64) {
        self.advance(Duration::from_millis(millis));
    }

    /// Every datagram sent since the last look.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        self.sent.drain(..).map(|(_, datagram)| datagram).collect()
    }

    /// The units among them, with their data.
    pub fn take_units(&mut self) -> Vec<(Unit, Vec<u8>)> {
        self.take().iter().filter_map(|datagram| parse_unit(datagram)).collect()
    }

    /// The block acknowledgements among them.
    pub fn take_acks(&mut self) -> Vec<Vec<(u32, u32, bool)>> {
        self.take().iter().filter_map(|datagram| parse_ack(datagram)).collect()
    }

    /// The requests among them.
    pub fn take_requests(&mut self) -> Vec<Vec<(u32, u32)>> {
        self.take().iter().filter_map(|datagram| parse_request(datagram)).collect()
    }

    pub fn take_events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.events)
    }

    pub fn tx(&self) -> &Sender {
        self.engine.engine().sender().expect("a sender")
    }

    pub fn rx(&self) -> &Receiver {
        self.engine.engine().receiver().expect("a receiver")
    }
}

/// Where a range lies in its buffer, without the guard.
fn inside(range: BufferRange, buffers: &[Vec<u8>]) -> core::ops::Range<usize> {
    let buffer = &buffers[range.buffer.index() as usize];
    assert!(range.end() <= (buffer.len() - GUARD) as u64, "{range:?} leaves a buffer of {}", buffer.len() - GUARD);
    range.offset as usize..range.end() as usize
}

pub fn parse_unit(datagram: &[u8]) -> Option<(Unit, Vec<u8>)> {
    let tail = datagram.last_chunk::<TRAILER_BYTES>()?;
    match Trailer::parse(tail, datagram.len()) {
        Ok(Trailer::Unit(unit)) => Some((unit, datagram[..unit.length as usize].to_vec())),
        _ => None,
    }
}

pub fn is_idle(datagram: &[u8]) -> bool {
    let tail = datagram.last_chunk::<TRAILER_BYTES>();
    tail.is_some_and(|tail| matches!(Trailer::parse(tail, datagram.len()), Ok(Trailer::Idle { .. })))
}

pub fn parse_ack(datagram: &[u8]) -> Option<Vec<(u32, u32, bool)>> {
    match Control::parse(datagram) {
        Ok(Control::Acknowledgement(block)) => Some(block.intervals().collect()),
        _ => None,
    }
}

pub fn parse_request(datagram: &[u8]) -> Option<Vec<(u32, u32)>> {
    match Control::parse(datagram) {
        Ok(Control::Request(pairs)) => Some(pairs.iter().collect()),
        _ => None,
    }
}

pub fn is_flow(datagram: &[u8]) -> bool {
    matches!(Control::parse(datagram), Ok(Control::Flow { .. }))
}

/// A control datagram: words, then type and zeros.
pub fn control(kind: u8, words: &[u32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    bytes.extend_from_slice(&[kind, 0, 0, 0]);
    bytes
}

/// A request for these (message, buffer size) pairs.
pub fn request(pairs: &[(u32, u32)]) -> Vec<u8> {
    let mut words = vec![pairs.len() as u32];
    words.extend(pairs.iter().flat_map(|&(number, capacity)| [number, capacity]));
    control(0x83, &words)
}

/// `[numbers[0], numbers[1])` were received (or lost), the next interval the opposite, and so on.
pub fn ack(positive: bool, numbers: &[u32]) -> Vec<u8> {
    let mut words = vec![numbers.len() as u32 - 1];
    words.extend_from_slice(numbers);
    control(if positive { 0x81 } else { 0x82 }, &words)
}

/// A flow hint.
pub fn flow() -> Vec<u8> {
    control(0x84, &[1, 1023, 65_536])
}

/// A unit as it travels.
pub fn unit(unit: &Unit, data: &[u8], padding: usize) -> Vec<u8> {
    let mut bytes = data.to_vec();
    bytes.resize(data.len() + padding, 0);
    bytes.extend_from_slice(&unit.encode());
    bytes
}

/// Unit `number` of `message`, transmission `sequence`, that announces the unit behind it unless it is the last.
pub fn plain_unit(message: u32, number: u32, sequence: u32, data: &[u8], is_last: bool) -> Vec<u8> {
    let next = (!is_last).then_some((message, number.wrapping_add(1)));
    let length = data.len() as u32;
    unit(&Unit { message, unit: number, sequence, next, length, is_last, refused: false }, data, 0)
}
