//! A distance: every packet takes the same time.

use crate::{Exits, Node, Packet};
use core::time::Duration;
use pinnace_core::Random;

/// Lets every packet go on after the same time.
#[derive(Clone, Debug)]
pub struct Delay {
    delay: Duration,
}

impl Delay {
    /// A distance of `delay`.
    pub fn new(delay: Duration) -> Self {
        Self { delay }
    }
}

impl Node for Delay {
    fn enter(&mut self, packet: Packet, _: &mut Random, exits: &mut Exits) {
        exits.forward_at(exits.now() + self.delay, packet);
    }
}
