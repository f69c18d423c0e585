//! An endpoint of A1 [driven by hand](pinnace_testing::hand), and what it sends.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "every user uses its own part")]

pub mod liar;

use pinnace_a1::{A1, Address as Name, Config, Event, Qos};
use pinnace_core::{Address, ControllerKind, Time};
use pinnace_testing::hand::{Hand, Memory, Returned, Sent, Subject, Traffic};
use pinnace_wire::a1::{Body, HEADER_BYTES, Head, Header, Kind};

/// Who speaks to the engine, and where that listens.
pub const PEER: Address = Address::Node(1);
pub const PORT: u32 = 7;

pub fn record() -> Qos {
    Qos {
        has_retransmission: true,
        priority: 128,
        block_size: 100,
        largest_sent: 10_000,
        largest_received: 10_000,
        outstanding: 4,
        ..Qos::default()
    }
}

pub fn config(max: Qos) -> Config {
    Config {
        max_qos: max,
        local: Name { host: 0, port: PORT },
        congestion: ControllerKind::Fixed { window: 1 << 20 },
        seed: 5,
        ..Config::default()
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

impl From<Sent> for Got {
    fn from(sent: Sent) -> Self {
        Self::parse(sent.to, &sent.bytes)
    }
}

/// What always holds of A1: what is sent parses, and what is kept is counted and limited.
pub struct Endpoint;

impl Subject for Endpoint {
    type Engine = A1;

    fn returned(event: &Event) -> Returned {
        match event {
            Event::Sent { buffer, .. } | Event::Cast { buffer, .. } => Returned::Lent(*buffer),
            Event::Released { buffer } => Returned::Storage(*buffer),
            _ => Returned::Nothing,
        }
    }

    fn on_sent(&mut self, _: &A1, sent: &Sent, _: Traffic) {
        Got::parse(sent.to, &sent.bytes);
    }

    fn check(&self, engine: &A1, memory: &Memory) {
        let (bytes, limits) = (engine.bytes(), &engine.config().limits);
        assert!(bytes <= limits.bytes, "{bytes} bytes are kept");
        assert!(engine.connections() <= limits.connections);
        assert_eq!(memory.lent, bytes, "storage that is not counted");
    }
}

pinnace_testing::half! {
    /// An endpoint, its clock and its memory.
    pub struct Half(Endpoint);
}

impl Half {
    pub fn new(config: Config) -> Self {
        Self(Hand::new(A1::new(config, Time::ZERO), Endpoint))
    }

    pub fn a1(&self) -> &A1 {
        self.engine.engine()
    }

    /// What it has sent since the last look.
    pub fn take(&mut self) -> Vec<Got> {
        self.take_sent().into_iter().map(Got::from).collect()
    }
}
