//! A receiver driven by hand: a test is its senders, its clock and its memory.
//!
//! On the way it is checked that slots and moves stay inside storage the engine has, that no frame's sender gets more
//! bytes than came from it, and that the drain rule is kept.

#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use core::time::Duration;
use pinnace_core::{
    Address, BufferId, BufferRange, Driven, Ecn, Move, Placed, PollAt, ReceivePlan, RxMeta, Slot, Storage, Time, Train,
    TrainLimits,
};
use pinnace_vrp::{Config, Delivery, Event, Incoming, IncomingCounters, Vrp};
use pinnace_wire::vrp::{Control, ControlWriter, Header, Tag};
use std::collections::BTreeMap;

/// The sender of most tests.
pub const ALICE: Address = Address::Node(1);
pub const BOB: Address = Address::Node(2);
/// The receiver's own address.
pub const HERE: Address = Address::Node(99);
const MANY: usize = 100_000;
/// What fresh storage holds.
pub const STALE: u8 = 0xA5;

#[derive(Debug, Default)]
pub struct Memory {
    pub buffers: Vec<Option<Vec<u8>>>,
    pub allocations: usize,
    pub released: Vec<BufferId>,
    pub is_full: bool,
}

impl Storage for Memory {
    fn allocate(&mut self, len: u64, early: &[(u64, Vec<u8>)]) -> Option<BufferId> {
        if self.is_full {
            return None;
        }
        let mut buffer = vec![STALE; len as usize];
        for (offset, bytes) in early {
            buffer[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        self.allocations += 1;
        self.buffers.push(Some(buffer));
        Some(BufferId::new(self.buffers.len() as u32 - 1))
    }

    fn release(&mut self, buffer: BufferId) {
        self.released.push(buffer);
    }
}

impl Memory {
    fn write(&mut self, to: BufferRange, bytes: &[u8]) {
        if self.released.contains(&to.buffer) {
            return;
        }
        let buffer = self.buffers[to.buffer.index() as usize].as_mut().expect("storage that was given back");
        buffer[to.offset as usize..to.end() as usize].copy_from_slice(bytes);
    }

    fn end_read(&mut self) {
        for buffer in self.released.drain(..) {
            let gone = self.buffers[buffer.index() as usize].take();
            assert!(gone.is_some(), "{buffer:?} was released twice");
        }
    }
}

pub struct Half {
    pub engine: Driven<Vrp>,
    pub now: Time,
    pub memory: Memory,
    /// To whom, from where, and what.
    pub sent: Vec<(Address, Option<Address>, Vec<u8>)>,
    pub events: Vec<Event>,
    /// Bytes from every sender, and to it: in all, and for each frame number.
    traffic: BTreeMap<(Address, Option<u16>), (usize, usize)>,
    /// Sends are held back: several reads share an answer.
    pub hold: bool,
}

impl Half {
    pub fn new(config: Config) -> Self {
        Self {
            engine: Driven::new(Vrp::incoming(Incoming::new(config, Time::ZERO))),
            now: Time::ZERO,
            memory: Memory::default(),
            sent: Vec::new(),
            events: Vec::new(),
            traffic: BTreeMap::new(),
            hold: false,
        }
    }

    pub fn rx(&self) -> &Incoming {
        match self.engine.engine() {
            Vrp::Incoming(incoming) => incoming,
            Vrp::Outgoing(_) => panic!("not a receiver"),
        }
    }

    pub fn counters(&self) -> IncomingCounters {
        self.rx().counters()
    }

    pub fn call(&mut self, call: impl FnOnce(&mut Incoming)) {
        self.engine.call(|engine| call(engine.as_incoming().expect("a receiver")));
        self.drain();
    }

    pub fn drain(&mut self) {
        let mut train = Train::new(TrainLimits::SINGLE);
        for turn in 0.. {
            assert!(turn < MANY, "sends without an end");
            train.reset(TrainLimits::SINGLE);
            if !self.engine.poll_transmit(self.now, &mut train) {
                break;
            }
            let (to, from) = (train.destination(), train.source());
            let mut sent = Vec::new();
            train.for_each_datagram(|_| &[], |datagram| sent.push((to, from, datagram.to_vec())));
            for (.., datagram) in &sent {
                assert!(datagram.len() <= 1472 && Control::parse(datagram).is_ok_and(|control| !control.is_cut()));
                let control = Control::parse(datagram).expect("a control packet");
                let is_pong = control.tags().any(|tag| matches!(tag, Tag::Pong(_)));
                for frame in [None, Some(control.frame())] {
                    let (received, said) = self.traffic.entry((to, frame)).or_default();
                    *said += if is_pong && frame.is_some() { 0 } else { datagram.len() };
                    assert!(said <= received, "{to}, frame {frame:?}: {said} bytes for {received}");
                }
            }
            self.sent.extend(sent);
        }
        while let Some(event) = self.engine.poll_event() {
            if let Event::Released(buffer) = event {
                self.memory.release(buffer);
                self.memory.end_read();
            }
            self.events.push(event);
        }
    }

    /// One read: equal datagrams, the last may be shorter.
    pub fn read(&mut self, source: Address, ecn: Ecn, datagrams: &[Vec<u8>]) {
        let bytes = datagrams.concat();
        let segment = datagrams.first().map_or(0, Vec::len);
        for datagram in datagrams {
            let number = datagram.first_chunk().map(|head| match Header::parse(head) {
                Header::Data { frame, .. } | Header::Control { frame } => frame,
            });
            self.traffic.entry((source, None)).or_default().0 += datagram.len();
            if number.is_some() {
                self.traffic.entry((source, number)).or_default().0 += datagram.len();
            }
        }
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
                let end = self.memory.buffers[range.buffer.index() as usize].as_ref().map(Vec::len);
                assert!(end.is_some_and(|end| range.end() <= end as u64), "{range:?} of {end:?}");
                self.memory.write(BufferRange { len: take as u32, ..*range }, &bytes[at..at + take]);
            }
            if take > 0 {
                pieces.push(&bytes[at..at + take]);
            }
            at += take;
        }
        let meta = RxMeta { source, destination: Some(HERE), ecn };
        let mut moves: Vec<Move> = Vec::new();
        let mut placed = Placed::new(plan.slots(), &pieces, bytes.len(), segment, &mut moves);
        placed = placed.with_storage(&mut self.memory);
        self.engine.handle_datagrams(self.now, &meta, &mut placed);
        for Move { at, to } in moves {
            self.memory.write(to, &bytes[at..at + to.len as usize]);
        }
        self.memory.end_read();
        if !self.hold {
            self.drain();
        }
    }

    pub fn feed_from(&mut self, source: Address, datagram: &[u8]) {
        self.read(source, Ecn::NotCapable, &[datagram.to_vec()]);
    }

    /// One datagram of Alice's.
    pub fn feed(&mut self, datagram: &[u8]) {
        self.feed_from(ALICE, datagram);
    }

    /// One datagram of Alice's, and everything that is answered.
    pub fn ask(&mut self, datagram: &[u8]) -> Vec<Vec<u8>> {
        self.feed(datagram);
        self.take()
    }

    pub fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        for turn in 0.. {
            assert!(turn < MANY, "timers without an end");
            let at = match self.engine.poll_at() {
                PollAt::Now => self.now,
                PollAt::Time(at) => at,
                PollAt::Ingress => break,
            };
            if at > end {
                break;
            }
            self.now = self.now.max(at);
            self.engine.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    pub fn millis(&mut self, millis: u64) {
        self.advance(Duration::from_millis(millis));
    }

    /// What was sent since the last look.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        self.sent.drain(..).map(|(.., datagram)| datagram).collect()
    }

    pub fn take_events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.events)
    }

    pub fn deliveries(&mut self) -> Vec<Delivery> {
        let received = |event| if let Event::Received(delivery) = event { Some(delivery) } else { None };
        self.take_events().into_iter().filter_map(received).collect()
    }

    /// The bytes of a delivered frame, with its holes made zero.
    pub fn content(&self, delivery: &Delivery) -> Vec<u8> {
        let mut bytes = self.memory.buffers[delivery.buffer.index() as usize].clone().expect("the storage is there");
        assert_eq!(bytes.len(), delivery.size as usize);
        for hole in &delivery.holes {
            bytes[hole.start as usize..hole.end as usize].fill(0);
        }
        bytes
    }
}

/// Byte `at` of frame `number`: never zero, and never what fresh storage holds.
fn byte(number: u16, at: usize) -> u8 {
    (at * 7 + at / 160 + usize::from(number)) as u8 % 160 + 1
}

/// The bytes of frame `number`.
pub fn content(number: u16, size: usize) -> Vec<u8> {
    (0..size).map(|at| byte(number, at)).collect()
}

/// A control packet.
pub fn control(number: u16, tags: &[Tag<'_>]) -> Vec<u8> {
    padded(number, tags, 0)
}

pub fn padded(number: u16, tags: &[Tag<'_>], len: usize) -> Vec<u8> {
    let mut bytes = vec![0; 65_000];
    let mut writer = ControlWriter::new(&mut bytes, number);
    assert!(tags.iter().all(|tag| writer.push(tag)));
    writer.pad_to(len);
    let len = writer.finish();
    bytes.truncate(len);
    bytes
}

/// A frame header, padded as senders pad it, with its contract and whatever else.
pub fn header(number: u16, size: u32, packet_bytes: u16, tags: &[Tag<'_>]) -> Vec<u8> {
    let create = Tag::FrameCreate { frame: number, size, packet_bytes };
    padded(number, &[&[create], tags].concat(), 64)
}

pub fn raw_data(number: u16, packet: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Header::Data { frame: number, packet }.encode().to_vec();
    bytes.extend_from_slice(data);
    bytes
}

/// Data packet `packet` of a frame of `size` bytes in packets of `packet_bytes`.
pub fn data(number: u16, size: usize, packet_bytes: usize, packet: u32) -> Vec<u8> {
    let low = packet as usize * packet_bytes;
    let high = (low + packet_bytes).min(size);
    let bytes: Vec<u8> = (low..high).map(|at| byte(number, at)).collect();
    raw_data(number, packet, &bytes)
}

/// What a control packet says, in order.
pub fn say(datagram: &[u8]) -> String {
    let control = Control::parse(datagram).expect("a control packet");
    let tags = control.tags().map(|tag| match tag {
        Tag::FrameOk(_) => "ok".into(),
        Tag::FrameRefused(_) => "refused".into(),
        Tag::MissingHeader(_) => "missing".into(),
        Tag::Ack(packet) => format!("ack {packet}"),
        Tag::SingleAck(packet) => format!("single {packet}"),
        Tag::Nack(packet) => format!("nack {packet}"),
        Tag::LossReport(ranges) => {
            let ranges = ranges.iter().map(|(first, count)| format!(" {first}+{count}"));
            format!("lost{}", ranges.collect::<String>())
        }
        Tag::EcnEcho(count) => format!("ce {count}"),
        Tag::Pong(_) => "pong".into(),
        other => format!("{other:?}"),
    });
    format!("{}: {}", control.frame(), tags.collect::<Vec<_>>().join(", "))
}

impl Half {
    /// One datagram of Alice's, and what is answered in words.
    pub fn hear(&mut self, datagram: &[u8]) -> Vec<String> {
        self.ask(datagram).iter().map(|datagram| say(datagram)).collect()
    }
}
