//! A receiver [driven by hand](pinnace_testing::hand): a test is its senders, its clock and its memory.
//!
//! On the way it is checked that no frame's sender gets more bytes than came from it.

#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use core::time::Duration;
use pinnace_core::{Address, Ecn, Time, TrainLimits};
use pinnace_testing::hand::{Hand, Returned, Sent, Subject, Traffic};
use pinnace_vrp::{Config, Delivery, Event, Incoming, IncomingCounters, Vrp};
use pinnace_wire::vrp::{Control, ControlWriter, Header, Tag};
use std::collections::BTreeMap;

/// The sender of most tests.
pub const ALICE: Address = Address::Node(1);
pub const BOB: Address = Address::Node(2);
/// The receiver's own address.
pub const HERE: Address = Address::Node(99);

/// What always holds of a receiver.
#[derive(Default)]
pub struct Endpoint {
    /// Bytes from every sender, and to it: in all, and for each frame number.
    traffic: BTreeMap<(Address, Option<u16>), (usize, usize)>,
}

impl Subject for Endpoint {
    type Engine = Vrp;

    fn returned(event: &Event) -> Returned {
        match event {
            Event::Released(buffer) => Returned::Storage(*buffer),
            _ => Returned::Nothing,
        }
    }

    fn on_read(&mut self, source: Address, datagram: &[u8]) {
        let number = datagram.first_chunk().map(|head| match Header::parse(head) {
            Header::Data { frame, .. } | Header::Control { frame } => frame,
        });
        self.traffic.entry((source, None)).or_default().0 += datagram.len();
        if number.is_some() {
            self.traffic.entry((source, number)).or_default().0 += datagram.len();
        }
    }

    fn on_sent(&mut self, _: &Vrp, Sent { to, bytes, .. }: &Sent, _: Traffic) {
        let control = Control::parse(bytes).expect("a control packet");
        assert!(bytes.len() <= 1472 && !control.is_cut());
        let is_pong = control.tags().any(|tag| matches!(tag, Tag::Pong(_)));
        for frame in [None, Some(control.frame())] {
            let (received, said) = self.traffic.entry((*to, frame)).or_default();
            *said += if is_pong && frame.is_some() { 0 } else { bytes.len() };
            assert!(said <= received, "{to}, frame {frame:?}: {said} bytes for {received}");
        }
    }
}

pinnace_testing::half! {
    /// A receiver, its clock and its memory.
    pub struct Half(Endpoint);
}

impl Half {
    pub fn new(config: Config) -> Self {
        let mut hand = Hand::new(Vrp::incoming(Incoming::new(config, Time::ZERO)), Endpoint::default());
        hand.destination = Some(HERE);
        hand.limits = TrainLimits::SINGLE;
        Self(hand)
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
        self.0.call(|engine, _| call(engine.as_incoming().expect("a receiver")));
    }

    pub fn feed_from(&mut self, source: Address, datagram: &[u8]) {
        self.0.read(source, Ecn::NotCapable, &[datagram.to_vec()]);
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

    pub fn millis(&mut self, millis: u64) {
        self.advance(Duration::from_millis(millis));
    }

    /// What was sent since the last look.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        self.take_sent().into_iter().map(|sent| sent.bytes).collect()
    }

    /// The same, in words.
    pub fn said(&mut self) -> Vec<String> {
        self.take().iter().map(|datagram| say(datagram)).collect()
    }

    pub fn deliveries(&mut self) -> Vec<Delivery> {
        let received = |event| if let Event::Received(delivery) = event { Some(delivery) } else { None };
        self.take_events().into_iter().filter_map(received).collect()
    }

    /// The bytes of a delivered frame, with its holes made zero.
    pub fn content(&self, delivery: &Delivery) -> Vec<u8> {
        let mut bytes = self.memory.bytes(delivery.buffer).expect("the storage is there").to_vec();
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
        self.feed(datagram);
        self.said()
    }
}
