//! A path that is cut for a while.

use crate::{Exits, Fate, Node, Packet};
use pinnace_core::{Random, Time};

/// Drops everything from one moment until another.
#[derive(Clone, Debug)]
pub struct Partition {
    low: Time,
    high: Time,
}

impl Partition {
    /// Cut from `low` on until before `high`.
    pub fn new(low: Time, high: Time) -> Self {
        Self { low, high }
    }
}

impl Node for Partition {
    fn enter(&mut self, packet: Packet, _: &mut Random, exits: &mut Exits) {
        if (self.low..self.high).contains(&exits.now()) {
            exits.note(&packet, Fate::Partitioned);
        } else {
            exits.forward(packet);
        }
    }
}
