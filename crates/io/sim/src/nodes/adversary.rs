//! Somebody who sees the traffic and sends what he likes.

use super::corruption::flip_bits;
use crate::packet::Position;
use crate::{Exits, Fate, Node, Packet};
use core::time::Duration;
use pinnace_core::{Address, Random, Time};
use std::collections::VecDeque;

/// What an adversary does.
#[derive(Clone, Debug)]
pub struct AdversaryConfig {
    /// Datagrams a second.
    pub rate: f64,
    /// The address he sends from. `None` forges the address of the datagram he saw (or, having seen none, sends from
    /// the address in [`AdversaryConfig::UNKNOWN`]).
    pub source: Option<Address>,
    /// How often he sends random bytes, against the other two.
    pub garbage: u32,
    /// How often he sends a datagram again that he has seen.
    pub replay: u32,
    /// How often he sends a datagram that he has seen, with one or three flipped bits.
    pub bit_flip: u32,
    /// When he starts.
    pub low: Time,
    /// When he stops.
    pub high: Time,
    /// Bytes of the longest random datagram.
    pub longest: usize,
    /// Datagrams he remembers: the latest.
    pub memory: usize,
}

impl AdversaryConfig {
    /// The third address that an adversary uses unless told otherwise. No host has it.
    pub const UNKNOWN: Address = Address::Node(u32::MAX);
}

impl Default for AdversaryConfig {
    /// A thousand datagrams a second of all three kinds from a third address, without end.
    fn default() -> Self {
        Self {
            rate: 1000.0,
            source: Some(Self::UNKNOWN),
            garbage: 1,
            replay: 1,
            bit_flip: 1,
            low: Time::ZERO,
            high: Time::MAX,
            longest: 1472,
            memory: 64,
        }
    }
}

/// Injects garbage, replays and altered datagrams into the ways it is part of. Lets all others pass untouched.
#[derive(Debug)]
pub struct Adversary {
    config: AdversaryConfig,
    exits: Vec<Position>,
    seen: VecDeque<Packet>,
    /// Where a datagram of a third address may go: the latest destination that was seen on each way.
    destinations: Vec<Option<Address>>,
    next: Time,
    sent: u64,
}

/// Injected packets have numbers of their own, from here on.
const NUMBERS: u64 = 1 << 63;

impl Adversary {
    /// An adversary on every way that he becomes part of.
    pub fn new(config: AdversaryConfig) -> Self {
        let next = config.low;
        Self { config, exits: Vec::new(), seen: VecDeque::new(), destinations: Vec::new(), next, sent: 0 }
    }

    fn make(&mut self, random: &mut Random, now: Time) -> Option<Packet> {
        let AdversaryConfig { garbage, replay, bit_flip, .. } = self.config;
        let kind = random.below(u64::from(garbage) + u64::from(replay) + u64::from(bit_flip));
        self.sent += 1;
        let mut packet = if kind < u64::from(garbage) || self.seen.is_empty() {
            self.garbage(random)?
        } else {
            let mut packet = self.seen[random.below(self.seen.len() as u64) as usize].clone();
            if kind >= u64::from(garbage) + u64::from(replay) {
                flip_bits(&mut packet, random);
            }
            packet
        };
        packet.number = NUMBERS + self.sent;
        packet.train = packet.number;
        packet.injected = true;
        packet.sent_at = now;
        if let Some(source) = self.config.source {
            packet.source = source;
        }
        Some(packet)
    }

    fn garbage(&self, random: &mut Random) -> Option<Packet> {
        let way = random.below(self.exits.len() as u64) as usize;
        let exit = *self.exits.get(way)?;
        // Nobody has spoken yet: hosts are found by their first address.
        let destination = self.destinations[way].unwrap_or(Address::Node(exit.to.index()));
        let source = self.seen.iter().rev().find(|seen| seen.position == exit).map(|seen| seen.source);
        let mut data = vec![0; 1 + random.below(self.config.longest.max(1) as u64) as usize];
        for chunk in data.chunks_mut(8) {
            let bytes = random.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        Some(Packet::new(0, source.unwrap_or(AdversaryConfig::UNKNOWN), destination, exit, &data))
    }
}

impl Node for Adversary {
    fn enter(&mut self, packet: Packet, _: &mut Random, exits: &mut Exits) {
        if !packet.injected {
            if let Some(way) = self.exits.iter().position(|exit| *exit == packet.position) {
                self.destinations[way] = Some(packet.destination);
            }
            if self.config.memory > 0 {
                if self.seen.len() >= self.config.memory {
                    self.seen.pop_front();
                }
                self.seen.push_back(packet.clone());
            }
        }
        exits.forward(packet);
    }

    fn poll_at(&self) -> Option<Time> {
        (self.config.rate > 0.0 && self.next < self.config.high && !self.exits.is_empty()).then_some(self.next)
    }

    fn on_timeout(&mut self, random: &mut Random, exits: &mut Exits) {
        if let Some(packet) = self.make(random, exits.now()) {
            exits.note(&packet, Fate::Injected);
            exits.forward(packet);
        }
        // At least a nanosecond, or he would stop the clock.
        let mean = 1e9 / self.config.rate;
        let nanos = (mean * (0.5 + random.unit_f64())).clamp(1.0, 1e18) as u64;
        self.next = exits.now() + Duration::from_nanos(nanos);
    }

    fn attach(&mut self, exit: Position) {
        self.exits.push(exit);
        self.destinations.push(None);
    }
}
