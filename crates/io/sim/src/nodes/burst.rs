//! Losses in bursts: the model of Gilbert (1960) and Elliott (1963).

use crate::{Exits, Fate, Node, Packet};
use pinnace_core::Random;

/// Two states, good and bad, that change from packet to packet.
///
/// With `loss_good` 0 and `loss_bad` 1 the mean burst has `1 / leave` packets, and `enter / (enter + leave)` of all are
/// lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability that the bad state follows the good one.
    pub enter: f64,
    /// Probability that the good state follows the bad one.
    pub leave: f64,
    /// Probability of loss in the bad state.
    pub loss_bad: f64,
    /// Probability of loss in the good state.
    pub loss_good: f64,
}

impl GilbertElliott {
    /// Everything is lost in the bad state, nothing in the good one.
    pub fn new(enter: f64, leave: f64) -> Self {
        Self { enter, leave, loss_bad: 1.0, loss_good: 0.0 }
    }
}

/// Drops packets in bursts.
#[derive(Clone, Debug)]
pub struct BurstLoss {
    model: GilbertElliott,
    bad: bool,
}

impl BurstLoss {
    /// Starts in the good state.
    pub fn new(model: GilbertElliott) -> Self {
        Self { model, bad: false }
    }
}

impl Node for BurstLoss {
    fn enter(&mut self, packet: Packet, random: &mut Random, exits: &mut Exits) {
        let change = if self.bad { self.model.leave } else { self.model.enter };
        self.bad ^= random.chance(change);
        let loss = if self.bad { self.model.loss_bad } else { self.model.loss_good };
        if random.chance(loss) {
            exits.note(&packet, Fate::LostBurst);
        } else {
            exits.forward(packet);
        }
    }
}
