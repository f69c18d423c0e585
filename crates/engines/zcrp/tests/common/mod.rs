//! One sender and one receiver on an emulated network, with messages whose content is checked.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

pub mod half;

use core::time::Duration;
use pinnace_core::{BufferId, Random, Time};
use pinnace_sim::{Coalesce, HostConfig, HostId, Inbox, NetworkConfig, Outcome, Simulation};
use pinnace_zcrp::{Config, Event, Failure, Receiver, Sender, Zcrp};
use std::collections::BTreeMap;

pub const SENDER: HostId = HostId::new(0);
pub const RECEIVER: HostId = HostId::new(1);

/// A transfer under way.
pub struct World {
    pub sim: Simulation<Zcrp>,
    sizes: Vec<u32>,
    sent: Vec<BufferId>,
    posted: Vec<BufferId>,
    seed: u64,
}

/// What both ends know at the end.
#[derive(Debug, PartialEq, Eq)]
pub struct Ends {
    pub sent: BTreeMap<u64, Result<(), Failure>>,
    pub received: BTreeMap<u64, Result<u32, Failure>>,
}

/// The content of message `number`: different in every byte position, message and seed.
pub fn content(seed: u64, number: u64, size: u32) -> Vec<u8> {
    let mut random = Random::from_seed(seed ^ (number << 32) ^ 0x5EED);
    let mut bytes = Vec::with_capacity(size as usize + 8);
    while bytes.len() < size as usize {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(size as usize);
    bytes
}

impl World {
    pub fn new(seed: u64, config: &Config, network: &str) -> Self {
        Self::with_network(seed, config, &network.parse().expect("a valid network"))
    }

    pub fn with_network(seed: u64, config: &Config, network: &NetworkConfig) -> Self {
        Self::with_networks(seed, config, network, network)
    }

    /// The same, where units and control datagrams meet different things.
    pub fn with_networks(seed: u64, config: &Config, there: &NetworkConfig, back: &NetworkConfig) -> Self {
        let host = HostConfig { coalesce: Coalesce::Trains, ..HostConfig::default() };
        Self::with_hosts(seed, config, host, there, back)
    }

    /// The same, on such hosts.
    pub fn with_hosts(
        seed: u64,
        config: &Config,
        host: HostConfig,
        there: &NetworkConfig,
        back: &NetworkConfig,
    ) -> Self {
        Self::with_configs(seed, [config, config], host, there, back)
    }

    /// The same, with a configuration for each half.
    pub fn with_configs(
        seed: u64,
        [sender, receiver]: [&Config; 2],
        host: HostConfig,
        there: &NetworkConfig,
        back: &NetworkConfig,
    ) -> Self {
        let sender = Config { seed, ..sender.clone() };
        let sender = Zcrp::new(Some(Sender::new(sender, Time::ZERO)), None);
        let receiver = Zcrp::new(None, Some(Receiver::new(receiver.clone())));
        let mut sim = Simulation::new(seed);
        sim.add_host_with(sender, Inbox::default(), host);
        sim.add_host_with(receiver, Inbox::default(), host);
        sim.link(SENDER, RECEIVER, there, back);
        Self { sim, sizes: Vec::new(), sent: Vec::new(), posted: Vec::new(), seed }
    }

    pub fn send(&mut self, size: u32) -> u64 {
        let number = self.sent.len() as u64;
        let buffer = self.sim.add_buffer(SENDER, content(self.seed, number, size));
        let now = self.sim.now();
        let taken = self.sim.call(SENDER, |engine| engine.sender_mut().unwrap().send(now, buffer, size));
        assert_eq!(taken, Ok(number), "numbers are in call order");
        self.sent.push(buffer);
        self.sizes.push(size);
        number
    }

    pub fn post(&mut self, capacity: u32) -> u64 {
        let number = self.posted.len() as u64;
        // Room behind the buffer shows that nothing is written beyond it.
        let buffer = self.sim.add_buffer(RECEIVER, vec![0xA5; capacity as usize + 64]);
        let now = self.sim.now();
        let taken = self.sim.call(RECEIVER, |engine| engine.receiver_mut().unwrap().post(now, buffer, capacity));
        assert_eq!(taken, Ok(number), "numbers are in call order");
        self.posted.push(buffer);
        number
    }

    /// What both ends have been told so far. Everything is told at most once.
    pub fn ends(&self) -> Ends {
        let mut ends = Ends { sent: BTreeMap::new(), received: BTreeMap::new() };
        for (_, event) in self.sim.application(SENDER).events.iter() {
            if let Event::Sent { number, result, .. } = event {
                assert!(ends.sent.insert(*number, *result).is_none(), "send {number} ended twice");
            }
        }
        for (_, event) in self.sim.application(RECEIVER).events.iter() {
            if let Event::Received { number, result, .. } = event {
                assert!(ends.received.insert(*number, *result).is_none(), "receive {number} ended twice");
            }
        }
        ends
    }

    /// Runs until every message has ended at both ends, or `seconds` have passed.
    pub fn run(&mut self, seconds: u64) -> Ends {
        let (sends, posts) = (self.sent.len(), self.posted.len());
        let deadline = self.sim.now() + Duration::from_secs(seconds);
        let ended = |sim: &Simulation<Zcrp>| {
            let count = |host, received: bool| {
                let events = &sim.application(host).events;
                events.iter().filter(|(_, e)| matches!(e, Event::Received { .. }) == received).count()
            };
            count(SENDER, false) >= sends && count(RECEIVER, true) >= posts
        };
        let outcome = self.sim.run_until(deadline, ended);
        assert!(!matches!(outcome, Outcome::Livelock(_)), "seed {}", self.seed);
        self.ends()
    }

    /// Z-20: what completed is whole, intact and of the right size; nothing beyond a buffer was touched; a message that
    /// the sender believes delivered was received.
    pub fn check(&self, ends: &Ends) {
        for (&number, result) in &ends.received {
            let buffer = self.sim.buffer(RECEIVER, self.posted[number as usize]);
            let capacity = buffer.len() - 64;
            assert_eq!(buffer[capacity..], [0xA5; 64], "seed {}: message {number} overran its buffer", self.seed);
            if let Ok(size) = result {
                assert_eq!(*size, self.sizes[number as usize], "seed {}: size of message {number}", self.seed);
                let expected = content(self.seed, number, *size);
                assert!(buffer[..*size as usize] == expected, "seed {}: message {number} was altered", self.seed);
            }
        }
        for (number, result) in &ends.sent {
            if result.is_ok() {
                let received = ends.received.get(number);
                assert!(matches!(received, Some(Ok(_))), "seed {}: {number} acknowledged, but {received:?}", self.seed);
            }
        }
    }

    /// All messages arrived at both ends.
    pub fn check_all_arrived(&mut self, seconds: u64) {
        let ends = self.run(seconds);
        self.check(&ends);
        let failed: Vec<_> = ends.received.iter().filter(|(_, r)| r.is_err()).collect();
        assert!(failed.is_empty(), "seed {}: {failed:?}", self.seed);
        assert_eq!(ends.received.len(), self.posted.len(), "seed {}: receives that ended", self.seed);
        assert_eq!(ends.sent.len(), self.sent.len(), "seed {}: sends that ended", self.seed);
        assert!(ends.sent.values().all(Result::is_ok), "seed {}: {:?}", self.seed, ends.sent);
    }

    pub fn sender(&self) -> &Sender {
        self.sim.engine(SENDER).sender().unwrap()
    }

    pub fn receiver(&self) -> &Receiver {
        self.sim.engine(RECEIVER).receiver().unwrap()
    }
}
