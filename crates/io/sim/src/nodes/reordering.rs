//! Packets that others overtake.

use crate::{Exits, Fate, Node, Packet};
use core::time::Duration;
use pinnace_core::Random;

/// Holds some packets back for a time; what comes meanwhile overtakes them.
#[derive(Clone, Debug)]
pub struct Reordering {
    probability: f64,
    by: Duration,
}

impl Reordering {
    /// Holds a packet back with this probability (0 to 1), for the time `by`.
    pub fn new(probability: f64, by: Duration) -> Self {
        Self { probability, by }
    }
}

impl Node for Reordering {
    fn enter(&mut self, packet: Packet, random: &mut Random, exits: &mut Exits) {
        if random.chance(self.probability) {
            exits.note(&packet, Fate::HeldBack);
            exits.forward_at(exits.now() + self.by, packet);
        } else {
            exits.forward(packet);
        }
    }
}
