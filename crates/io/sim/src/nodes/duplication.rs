//! Packets that arrive twice.

use crate::{Exits, Fate, Node, Packet};
use core::time::Duration;
use pinnace_core::Random;

/// Doubles some packets.
#[derive(Clone, Debug)]
pub struct Duplication {
    probability: f64,
    after: Duration,
}

impl Duplication {
    /// Doubles a packet with this probability (0 to 1); the copy follows at once.
    pub fn new(probability: f64) -> Self {
        Self { probability, after: Duration::ZERO }
    }

    /// Lets the copy come this much later.
    #[must_use]
    pub fn after(mut self, after: Duration) -> Self {
        self.after = after;
        self
    }
}

impl Node for Duplication {
    fn enter(&mut self, packet: Packet, random: &mut Random, exits: &mut Exits) {
        if random.chance(self.probability) {
            exits.note(&packet, Fate::Duplicated);
            exits.forward(packet.clone());
            exits.forward_at(exits.now() + self.after, packet);
        } else {
            exits.forward(packet);
        }
    }
}
