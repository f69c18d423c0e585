//! The largest packet that a path carries.
//!
//! As with IPv4 and UDP where nothing may be cut (DF), which is how the links of this project begin: what is too large is
//! dropped, and its sender is told, or not (a black hole). A link that is told lets the network cut what it sends from then on
//! ([`HostConfig::fragments`](crate::HostConfig::fragments)), because most engines cannot cut a datagram in two once it is
//! numbered; so do the hosts here. A cut packet stays whole in the simulation: the headers of its fragments take no time, and
//! it is lost as one, not more often than others.

use crate::packet::HEADER_BYTES;
use crate::{Exits, Fate, Node, Packet};
use pinnace_core::{Random, Time};

/// Drops packets that are too large and may not be cut, and tells the sender as ICMP does (or not).
#[derive(Clone, Debug)]
pub struct Mtu {
    bytes: u32,
    changes: Vec<(Time, u32)>,
    silent: bool,
    reported_train: Option<u64>,
}

impl Mtu {
    /// Carries IP packets of at most `bytes`, headers included: 1500 lets 1472 bytes of UDP payload pass.
    pub fn new(bytes: u32) -> Self {
        Self { bytes, changes: Vec::new(), silent: false, reported_train: None }
    }

    /// From `time` on another limit holds.
    #[must_use]
    pub fn change_at(mut self, time: Time, bytes: u32) -> Self {
        self.changes.push((time, bytes));
        self.changes.sort_by_key(|&(time, _)| time);
        self
    }

    /// A black hole: drops without telling anybody.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.silent = true;
        self
    }

    fn limit(&self, now: Time) -> u32 {
        self.changes.iter().rev().find(|&&(time, _)| time <= now).map_or(self.bytes, |&(_, bytes)| bytes)
    }
}

impl Node for Mtu {
    fn enter(&mut self, packet: Packet, _: &mut Random, exits: &mut Exits) {
        let limit = self.limit(exits.now());
        if packet.wire_bytes() <= limit as usize || packet.may_be_cut {
            exits.forward(packet);
            return;
        }
        exits.note(&packet, Fate::TooLarge);
        // A train is refused once, however many packets it has.
        if !self.silent && !packet.injected && self.reported_train.replace(packet.train) != Some(packet.train) {
            exits.report_too_large(&packet, limit.saturating_sub(HEADER_BYTES as u32));
        }
    }
}
