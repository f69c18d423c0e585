//! Losses without any pattern.

use crate::{Exits, Fate, Node, Packet};
use pinnace_core::Random;

/// Drops every packet with the same probability, whatever happened to others.
#[derive(Clone, Debug)]
pub struct Loss {
    probability: f64,
}

impl Loss {
    /// Drops with this probability (0 to 1).
    pub fn new(probability: f64) -> Self {
        Self { probability }
    }
}

impl Node for Loss {
    fn enter(&mut self, packet: Packet, random: &mut Random, exits: &mut Exits) {
        if random.chance(self.probability) {
            exits.note(&packet, Fate::LostRandom);
        } else {
            exits.forward(packet);
        }
    }
}
