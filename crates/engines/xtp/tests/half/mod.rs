//! An endpoint of XTP [driven by hand](pinnace_testing::hand), and what it sends.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "every user uses its own part")]

mod packet;
pub mod scene;

pub use packet::{Got, Packet, fill};

use pinnace_core::{Address, Time};
use pinnace_testing::hand::{Hand, Memory, Returned, Sent, Subject, Traffic};
use pinnace_xtp::{Config, Event, Xtp};
use std::collections::BTreeMap;

/// What always holds of XTP: what is sent parses, and what is kept is counted and limited.
#[derive(Default)]
pub struct Endpoint {
    /// Bytes that went to every address, each datagram counted with 28 of lower headers.
    pub counted_sent: BTreeMap<Address, u64>,
}

impl Subject for Endpoint {
    type Engine = Xtp;

    fn returned(event: &Event) -> Returned {
        match event {
            Event::Sent { buffer, .. } | Event::Filled { buffer, .. } => Returned::Lent(*buffer),
            Event::Released { buffer } => Returned::Storage(*buffer),
            _ => Returned::Nothing,
        }
    }

    fn on_sent(&mut self, engine: &Xtp, sent: &Sent, _: Traffic) {
        Got::parse(engine.config().codec, &sent.bytes);
        *self.counted_sent.entry(sent.to).or_default() += counted(&sent.bytes);
    }

    fn check(&self, engine: &Xtp, memory: &Memory) {
        let (bytes, limits) = (engine.bytes(), &engine.config().limits);
        assert!(bytes <= limits.bytes, "{bytes} bytes are kept");
        assert!(engine.contexts() <= limits.contexts);
        assert_eq!(memory.lent, bytes, "storage that is not counted");
    }
}

/// A datagram with 28 bytes of lower headers.
pub fn counted(datagram: &[u8]) -> u64 {
    datagram.len() as u64 + 28
}

pinnace_testing::half! {
    /// An endpoint, its clock and its memory.
    pub struct Half(Endpoint);
}

impl Half {
    pub fn new(config: Config) -> Self {
        Self(Hand::new(Xtp::new(config, Time::ZERO), Endpoint::default()))
    }

    pub fn xtp(&self) -> &Xtp {
        self.engine.engine()
    }

    /// The application has taken all datagrams that it was told of.
    pub fn release_datagrams(&mut self) {
        for event in &self.events.split_off(0) {
            if let Event::Datagram { buffer, len, .. } = event {
                let len = *len;
                if let Some(buffer) = buffer {
                    self.memory.end_lent(*buffer);
                }
                self.call(|engine, _| engine.release_datagrams(1, len));
            }
            self.events.push(event.clone());
        }
    }

    /// What went to an address, each datagram [counted] with its lower headers.
    pub fn counted_sent(&self, address: Address) -> u64 {
        self.subject.counted_sent.get(&address).copied().unwrap_or(0)
    }

    /// What it has sent since the last look.
    pub fn take(&mut self) -> Vec<Got> {
        let codec = self.xtp().config().codec;
        self.take_sent().iter().map(|sent| Got::parse(codec, &sent.bytes)).collect()
    }
}
