//! A delay that differs from packet to packet.

use crate::{Exits, Node, Packet};
use core::time::Duration;
use pinnace_core::{Random, Time};

/// Lets every packet go on after a random time, evenly spread from none to a limit. Keeps the order: a queue somewhere is
/// the usual cause.
#[derive(Clone, Debug)]
pub struct Jitter {
    most: Duration,
    last: Time,
}

impl Jitter {
    /// From no delay to `most`.
    pub fn new(most: Duration) -> Self {
        Self { most, last: Time::ZERO }
    }
}

impl Node for Jitter {
    fn enter(&mut self, packet: Packet, random: &mut Random, exits: &mut Exits) {
        let nanos = u64::try_from(self.most.as_nanos()).unwrap_or(u64::MAX);
        let at = exits.now() + Duration::from_nanos(random.below(nanos.saturating_add(1)));
        self.last = at.max(self.last);
        exits.forward_at(self.last, packet);
    }
}
