//! A line of limited speed with a queue before it.

use crate::{Exits, Fate, Node, Packet};
use pinnace_core::{Ecn, Random, Time};

/// Sends packets one after the other at a fixed rate; what waits beyond the length of the queue is dropped (drop-tail).
///
/// Exact: the time that a packet takes is kept as a fraction, so nothing is gained or lost over many of them. Counts the
/// headers of IP and UDP. The packet on the line counts as queued; an idle line takes a packet of any size.
#[derive(Clone, Debug)]
pub struct Rate {
    bits_per_second: u64,
    queue_bytes: u64,
    mark_above: u64,
    /// When the line is free, in nanoseconds times `bits_per_second`.
    free: u128,
}

const NANOS: u128 = 1_000_000_000;

impl Rate {
    /// A line of `bits_per_second` (at least 1) with an endless queue.
    pub fn new(bits_per_second: u64) -> Self {
        Self { bits_per_second: bits_per_second.max(1), queue_bytes: u64::MAX, mark_above: u64::MAX, free: 0 }
    }

    /// Limits the queue to so many bytes.
    #[must_use]
    pub fn queue(mut self, bytes: u64) -> Self {
        self.queue_bytes = bytes;
        self
    }

    /// Marks packets that can be marked (ECN) when more than so many bytes wait.
    #[must_use]
    pub fn mark_above(mut self, bytes: u64) -> Self {
        self.mark_above = bytes;
        self
    }
}

impl Node for Rate {
    fn enter(&mut self, mut packet: Packet, _: &mut Random, exits: &mut Exits) {
        let rate = u128::from(self.bits_per_second);
        let now = u128::from(exits.now().as_nanos()) * rate;
        let waiting = (self.free.saturating_sub(now)).div_ceil(8 * NANOS);
        let bytes = packet.wire_bytes() as u128;
        if waiting > 0 && waiting + bytes > u128::from(self.queue_bytes) {
            exits.note(&packet, Fate::QueueFull);
            return;
        }
        if waiting > u128::from(self.mark_above) && packet.ecn != Ecn::NotCapable {
            packet.ecn = Ecn::Congested;
            exits.note(&packet, Fate::Marked);
        }
        self.free = self.free.max(now) + bytes * 8 * NANOS;
        let done = self.free.div_ceil(rate);
        exits.forward_at(Time::from_nanos(u64::try_from(done).unwrap_or(u64::MAX)), packet);
    }
}
