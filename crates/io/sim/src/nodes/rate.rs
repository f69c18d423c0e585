//! A line of limited speed with a queue before it.

use crate::{Exits, Fate, Node, Packet};
use pinnace_core::{Ecn, Random, Time};

/// Sends packets one after the other at a fixed rate; what waits beyond the length of the queue is dropped (drop-tail).
///
/// With a [bucket](Rate::bucket) that is full, packets take no time until it is empty.
///
/// Exact: the time that a packet takes is kept as a fraction, so nothing is gained or lost over many of them. Counts the
/// headers of IP and UDP. The packet on the line counts as queued; an idle line takes a packet of any size.
#[derive(Clone, Debug)]
pub struct Rate {
    bits_per_second: u64,
    queue_bytes: u64,
    mark_above: u64,
    bucket_bytes: u64,
    /// When the bucket would be full again and the line free, in nanoseconds times `bits_per_second`.
    full_at: u128,
}

const NANOS: u128 = 1_000_000_000;

impl Rate {
    /// A line of `bits_per_second` (at least 1) with an endless queue.
    pub fn new(bits_per_second: u64) -> Self {
        Self {
            bits_per_second: bits_per_second.max(1),
            queue_bytes: u64::MAX,
            mark_above: u64::MAX,
            bucket_bytes: 0,
            full_at: 0,
        }
    }

    /// Limits the queue to so many bytes.
    #[must_use]
    pub fn queue(mut self, bytes: u64) -> Self {
        self.queue_bytes = bytes;
        self
    }

    /// So many bytes pass at once after a pause, as through a token bucket: such are the lines of most who sell them.
    #[must_use]
    pub fn bucket(mut self, bytes: u64) -> Self {
        self.bucket_bytes = bytes;
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
        let bucket = u128::from(self.bucket_bytes) * 8 * NANOS;
        let waiting = (self.full_at.saturating_sub(now + bucket)).div_ceil(8 * NANOS);
        let bytes = packet.wire_bytes() as u128;
        if waiting > 0 && waiting + bytes > u128::from(self.queue_bytes) {
            exits.note(&packet, Fate::QueueFull);
            return;
        }
        if waiting > u128::from(self.mark_above) && packet.ecn != Ecn::NotCapable {
            packet.ecn = Ecn::Congested;
            exits.note(&packet, Fate::Marked);
        }
        self.full_at = self.full_at.max(now) + bytes * 8 * NANOS;
        let done = self.full_at.saturating_sub(bucket).max(now).div_ceil(rate);
        exits.forward_at(Time::from_nanos(u64::try_from(done).unwrap_or(u64::MAX)), packet);
    }
}
