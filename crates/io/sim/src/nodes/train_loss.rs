//! Trains that are lost as a whole: a full ring, a failed segmentation.

use crate::{Exits, Fate, Node, Packet};
use pinnace_core::{Random, mix64};

/// Drops all packets of a train, or none.
#[derive(Clone, Debug)]
pub struct TrainLoss {
    probability: f64,
    salt: Option<u64>,
}

impl TrainLoss {
    /// Drops a train with this probability (0 to 1).
    pub fn new(probability: f64) -> Self {
        Self { probability, salt: None }
    }
}

impl Node for TrainLoss {
    fn enter(&mut self, packet: Packet, random: &mut Random, exits: &mut Exits) {
        // The verdict follows from the number of the train, so that packets which others have come between share it.
        let salt = *self.salt.get_or_insert_with(|| random.next_u64());
        if Random::from_seed(mix64(salt ^ mix64(packet.train))).chance(self.probability) {
            exits.note(&packet, Fate::LostTrain);
        } else {
            exits.forward(packet);
        }
    }
}
