//! A delay that differs from packet to packet.

use crate::{Exits, Node, Packet};
use core::time::Duration;
use pinnace_core::{Random, Time};

/// Lets every packet go on after a random time, evenly spread from none to a limit. Keeps the order unless told otherwise:
/// a queue somewhere is the usual cause.
#[derive(Clone, Debug)]
pub struct Jitter {
    most: Duration,
    keep_order: bool,
    last: Time,
}

impl Jitter {
    /// From no delay to `most`.
    pub fn new(most: Duration) -> Self {
        Self { most, keep_order: true, last: Time::ZERO }
    }

    /// Lets packets overtake each other.
    #[must_use]
    pub fn out_of_order(mut self) -> Self {
        self.keep_order = false;
        self
    }
}

impl Node for Jitter {
    fn enter(&mut self, packet: Packet, random: &mut Random, exits: &mut Exits) {
        let nanos = u64::try_from(self.most.as_nanos()).unwrap_or(u64::MAX);
        let mut at = exits.now() + Duration::from_nanos(random.below(nanos.saturating_add(1)));
        if self.keep_order {
            at = at.max(self.last);
            self.last = at;
        }
        exits.forward_at(at, packet);
    }
}
