//! Packets with flipped bits.

use crate::{Exits, Fate, Node, Packet};
use pinnace_core::Random;

/// Damages some packets. The checksum of the receiving host catches them, so they are lost; or, to try an engine without
/// that protection, they go on with one or three flipped bits.
#[derive(Clone, Debug)]
pub struct Corruption {
    probability: f64,
    through: bool,
}

impl Corruption {
    /// Damages a packet with this probability (0 to 1).
    pub fn new(probability: f64) -> Self {
        Self { probability, through: false }
    }

    /// Lets damaged packets go on.
    #[must_use]
    pub fn let_through(mut self) -> Self {
        self.through = true;
        self
    }
}

impl Node for Corruption {
    fn enter(&mut self, mut packet: Packet, random: &mut Random, exits: &mut Exits) {
        if !random.chance(self.probability) {
            exits.forward(packet);
        } else if self.through {
            flip_bits(&mut packet, random);
            exits.note(&packet, Fate::Altered);
            exits.forward(packet);
        } else {
            exits.note(&packet, Fate::Corrupted);
        }
    }
}

/// Flips one or three bits.
pub(super) fn flip_bits(packet: &mut Packet, random: &mut Random) {
    let mut data = packet.data().to_vec();
    let bits = data.len() as u64 * 8;
    if bits == 0 {
        return;
    }
    // An odd number of flips, so that they never cancel out.
    for _ in 0..=2 * random.below(2) {
        let bit = random.below(bits) as usize;
        data[bit / 8] ^= 1 << (bit % 8);
    }
    packet.set_data(&data);
}
