//! One engine driven by hand: a script is its peers, its clock and its memory.
//!
//! The driver does what the runtime does (plan, read into the planned slots, handle, move, transmit, events), and checks
//! on the way what always holds: slots, moves and payload stay inside memory that the engine has; it never keeps more than
//! its limits; nobody is sent more bytes than came from there; the drain rule is kept; timers come to an end.

use core::ops::Range;
use core::time::Duration;
use pinnace_core::{
    Address, BufferId, BufferRange, Driven, Ecn, Move, Placed, PollAt, ReceivePlan, RxMeta, Slot, Storage, Time, Train,
    TrainLimits,
};
use pinnace_vrp::{Config, Delivery, Event, FrameId, Incoming, Outgoing, Vrp};
use pinnace_wire::vrp::{Control, Header, Tag};
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
    /// Names of that storage.
    pub lent_names: Vec<BufferId>,
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

    /// Storage that the engine had asked for has come back.
    pub fn end_lent(&mut self, buffer: BufferId) -> Vec<u8> {
        let at = self.lent_names.iter().position(|name| *name == buffer);
        self.lent_names.swap_remove(at.unwrap_or_else(|| panic!("{buffer:?} was not lent, or came back twice")));
        let bytes = self.end(buffer);
        self.lent -= bytes.len() as u64;
        bytes
    }

    fn place(&self, range: BufferRange) -> Range<usize> {
        let bytes = self.bytes(range.buffer).unwrap_or_else(|| panic!("{range:?} is not the engine's memory"));
        assert!(range.end() <= bytes.len() as u64, "{range:?} leaves a buffer of {} bytes", bytes.len());
        range.offset as usize..range.end() as usize
    }

    fn payload(&self, range: BufferRange) -> &[u8] {
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
    fn allocate(&mut self, len: u64, early: &[(u64, Vec<u8>)]) -> Option<BufferId> {
        if self.is_full {
            return None;
        }
        assert!(len <= 1 << 26, "{len} bytes are more than any limit of a script");
        let name = self.add(vec![STALE; len as usize]);
        self.lent += len;
        self.lent_names.push(name);
        for (offset, bytes) in early {
            assert!(offset + bytes.len() as u64 <= len, "an early piece leaves its frame");
            self.write(BufferRange::new(name, *offset, bytes.len() as u32), bytes);
        }
        Some(name)
    }

    fn release(&mut self, buffer: BufferId) {
        self.end_lent(buffer);
    }
}

/// A datagram that an engine has sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Counts the trains.
    pub train: usize,
    pub bytes: Vec<u8>,
    pub to: Address,
    pub ecn: Ecn,
}

/// An engine, its clock and its memory.
pub struct Half {
    pub engine: Driven<Vrp>,
    pub now: Time,
    pub memory: Memory,
    /// What it has sent and nobody has taken yet.
    pub sent: Vec<Sent>,
    pub events: Vec<Event>,
    /// Bytes from and to every peer of an incoming endpoint.
    traffic: BTreeMap<Address, (u64, u64)>,
    trains: usize,
}

impl Half {
    pub fn outgoing(config: Config) -> Self {
        Self::new(Vrp::outgoing(Outgoing::new(config, Time::ZERO)))
    }

    pub fn incoming(config: Config) -> Self {
        Self::new(Vrp::incoming(Incoming::new(config, Time::ZERO)))
    }

    fn new(engine: Vrp) -> Self {
        Self {
            engine: Driven::new(engine),
            now: Time::ZERO,
            memory: Memory::default(),
            sent: Vec::new(),
            events: Vec::new(),
            traffic: BTreeMap::new(),
            trains: 0,
        }
    }

    /// The sending role, to look at.
    pub fn tx(&self) -> &Outgoing {
        match self.engine.engine() {
            Vrp::Outgoing(outgoing) => outgoing,
            Vrp::Incoming(_) => panic!("this is no sender"),
        }
    }

    /// The receiving role, to look at.
    pub fn rx(&self) -> &Incoming {
        match self.engine.engine() {
            Vrp::Incoming(incoming) => incoming,
            Vrp::Outgoing(_) => panic!("this is no receiver"),
        }
    }

    /// A call of the application, and what follows from it.
    pub fn call<R>(&mut self, call: impl FnOnce(&mut Vrp, Time) -> R) -> R {
        let now = self.now;
        let result = self.engine.call(|engine| call(engine, now));
        self.drain();
        result
    }

    pub fn close(&mut self) {
        self.call(|engine, now| match engine {
            Vrp::Outgoing(outgoing) => outgoing.close(now),
            Vrp::Incoming(incoming) => incoming.close(now),
        });
    }

    /// The application is done with a frame.
    pub fn release(&mut self, id: FrameId, buffer: BufferId) {
        self.memory.end_lent(buffer);
        self.call(|engine, _| {
            if let Vrp::Incoming(incoming) = engine {
                incoming.release(id);
            }
        });
    }

    /// Polls until nothing comes.
    pub fn drain(&mut self) {
        let mut train = Train::new(TrainLimits::GSO);
        for turn in 0.. {
            assert!(turn < MANY, "sends without an end");
            train.reset(TrainLimits::GSO);
            if !self.engine.poll_transmit(self.now, &mut train) {
                break;
            }
            self.trains += 1;
            assert!(train.segments() <= TrainLimits::GSO.segments, "a train of {} datagrams", train.segments());
            let Self { memory, sent, trains, .. } = self;
            let (to, ecn) = (train.destination(), train.ecn());
            train.for_each_datagram(
                |range| memory.payload(range),
                |bytes| sent.push(Sent { train: *trains, bytes: bytes.to_vec(), to, ecn }),
            );
            self.check_sent();
        }
        for turn in 0.. {
            assert!(turn < MANY, "events without an end");
            let Some(event) = self.engine.poll_event() else { break };
            match &event {
                Event::Sent { buffer, .. } => drop(self.memory.end(*buffer)),
                Event::Released(buffer) => drop(self.memory.end_lent(*buffer)),
                Event::Received(delivery) => check_delivery(delivery),
                _ => {}
            }
            self.events.push(event);
        }
        self.check_limits();
    }

    /// What has just been sent says what its role may say, and no more than was heard.
    fn check_sent(&mut self) {
        let is_incoming = matches!(self.engine.engine(), Vrp::Incoming(_));
        for Sent { bytes, to, .. } in self.sent.iter().rev().take_while(|sent| sent.train == self.trains) {
            if is_incoming {
                check_answer(bytes);
                let Some((received, sent)) = self.traffic.get_mut(to) else { panic!("{to} has sent nothing") };
                *sent += bytes.len() as u64;
                assert!(*sent <= *received, "{received} bytes came from {to}, {sent} went there");
            } else {
                assert_eq!(*to, Address::Peer);
            }
        }
    }

    fn check_limits(&self) {
        let Vrp::Incoming(incoming) = self.engine.engine() else { return };
        let limits = &incoming.config().limits;
        assert!(incoming.frames() <= limits.frames, "{} frames are kept", incoming.frames());
        assert!(incoming.bytes() <= limits.bytes, "{} bytes are kept", incoming.bytes());
        assert!(self.memory.lent <= limits.bytes, "{} bytes of storage are in use", self.memory.lent);
        assert!(self.memory.lent <= incoming.bytes(), "storage of {} bytes is not counted", self.memory.lent);
    }

    /// One read: equal datagrams, the last may be shorter.
    pub fn read(&mut self, source: Address, ecn: Ecn, datagrams: &[Vec<u8>]) {
        let bytes = datagrams.concat();
        self.traffic.entry(source).or_default().0 += bytes.len() as u64;
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
        let meta = RxMeta { source, destination: None, ecn };
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
        }
        self.now = self.now.max(time);
    }

    pub fn advance(&mut self, time: Duration) {
        self.advance_to(self.now + time);
    }

    /// What it has sent since the last look.
    pub fn take(&mut self) -> Vec<Sent> {
        core::mem::take(&mut self.sent)
    }
}

/// What a receiver sends: small control packets with tags that only receivers send.
fn check_answer(bytes: &[u8]) {
    assert!(bytes.len() <= 1472, "an answer of {} bytes", bytes.len());
    let control = Control::parse(bytes).expect("an answer parses");
    assert!(!control.is_cut());
    for tag in control.tags() {
        assert!(
            matches!(
                tag,
                Tag::Pong(_)
                    | Tag::Ack(_)
                    | Tag::SingleAck(_)
                    | Tag::Nack(_)
                    | Tag::FrameOk(_)
                    | Tag::FrameRefused(_)
                    | Tag::MissingHeader(_)
                    | Tag::LossReport(_)
                    | Tag::EcnEcho(_)
            ),
            "a receiver does not say {tag:?}"
        );
    }
}

/// What a sender sends: data, or control packets with tags that only senders send.
pub fn check_request(bytes: &[u8]) {
    let head = bytes.first_chunk().expect("a packet has a header");
    let Header::Control { .. } = Header::parse(head) else { return };
    let control = Control::parse(bytes).expect("a control packet parses");
    assert!(!control.is_cut());
    for tag in control.tags() {
        assert!(
            matches!(
                tag,
                Tag::Ping(_)
                    | Tag::FrameCreate { .. }
                    | Tag::ConsLoss(_)
                    | Tag::LossRate(_)
                    | Tag::FrameClose(_)
                    | Tag::CriticalPacket(_)
                    | Tag::CriticalInterval { .. }
                    | Tag::Window(_)
                    | Tag::InlineData(_)
                    | Tag::LossRateFloor(_)
                    | Tag::LossRateNow { .. }
                    | Tag::Epoch(_)
            ),
            "a sender does not say {tag:?}"
        );
    }
}

/// The contract (V-R18), from what the delivery itself says.
fn check_delivery(delivery: &Delivery) {
    let Delivery { size, packet_bytes, loss, holes, contract, window, .. } = delivery;
    let packets = if *size == 0 { 0 } else { size.div_ceil(u32::from(*packet_bytes)) };
    assert_eq!((loss.packets, loss.is_complete), (packets, true));
    assert!(*window >= 1 && *window <= packets.max(1), "a window of {window} over {packets} packets");
    assert_eq!(*holes, loss.holes(u64::from(*size), *packet_bytes));
    let mut end = None;
    let (mut lost, mut longest) = (0, 0);
    for range in &loss.ranges {
        assert!(range.start < range.end && range.end <= packets && end.is_none_or(|end| end < range.start));
        end = Some(range.end);
        lost += range.end - range.start;
        longest = longest.max(range.end - range.start);
        assert!(!contract.critical.overlaps(u64::from(range.start)..u64::from(range.end)), "a critical packet is lost");
    }
    assert_eq!((loss.lost, loss.longest_run), (lost, longest));
    assert!(longest <= u32::from(contract.run), "{longest} packets lost in a row, with {contract:?}");
    let most = contract.max_lost(*window);
    // A window with the most losses begins where losses begin, or ends where they end.
    for range in &loss.ranges {
        for low in [range.start, range.end.saturating_sub(*window)] {
            let high = low.saturating_add(*window);
            let within: u32 =
                loss.ranges.iter().map(|range| range.end.min(high).saturating_sub(range.start.max(low))).sum();
            assert!(within <= most, "{within} of {window} packets lost, with {contract:?}");
        }
    }
}
