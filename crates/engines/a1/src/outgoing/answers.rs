//! What the peer says, and what its silence means.

use super::blocks::Lost;
use super::{Active, MAX_WINDOW, Outgoing};
use core::time::Duration;
use pinnace_core::{Time, step_below};

/// Repetitions without an answer after which the peer is given up.
const MAX_REPETITIONS: u32 = 8;
/// So many repetitions of the oldest block, each followed by an answer that it has not come, are no chance.
const MOST_TRIES: u32 = 12;

/// What an ACK has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Blocks that it is the first to acknowledge.
    pub(crate) newly: u64,
    /// It speaks of what was never sent, or of a window that cannot be; nothing of it has been used.
    pub(crate) invalid: bool,
}

/// What a NACK has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nacked {
    /// Blocks that are to be repeated because of it.
    pub(crate) newly: u64,
    /// It speaks of what was never sent; nothing of it has been used.
    pub(crate) invalid: bool,
}

/// What the retransmission time-out means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// It has not expired.
    Nothing,
    /// The oldest block goes again.
    Repeat,
    /// The last repetition was not answered either.
    GivenUp,
}

impl Outgoing {
    /// An ACK came. `ranges` have arrived beyond `next_expected`; raw mode has none. The edge never goes back.
    pub(crate) fn on_ack(&mut self, now: Time, next_expected: u64, ranges: &[(u64, u64)], edge: u64) -> Acked {
        let acked = self.learn(now, next_expected, ranges, edge);
        if !acked.invalid {
            self.restart(now);
        }
        acked
    }

    /// A SYNC_REPLY came, or a NACK, whose ranges go to [`Outgoing::on_nack`]. It says as much, and is no ACK unless it
    /// acknowledges something: whoever answers questions and gets no blocks is waited for no longer than whoever says nothing.
    pub(crate) fn on_report(&mut self, now: Time, next_expected: u64, edge: u64) -> Acked {
        let acked = self.learn(now, next_expected, &[], edge);
        if acked.newly > 0 {
            self.restart(now);
        } else if !acked.invalid
            && next_expected == self.acked
            && let Some(active) = self.active.as_deref_mut()
            && active.tried_at.is_some_and(|at| now.since(at) >= self.timing.rtt)
        {
            (active.tried_at, active.tries) = (None, active.tries.saturating_add(1));
        }
        acked
    }

    /// What was waited for has been heard.
    fn restart(&mut self, now: Time) {
        self.heard_at = now;
        self.repetitions = 0;
        self.is_forced = false;
    }

    fn learn(&mut self, now: Time, next_expected: u64, ranges: &[(u64, u64)], edge: u64) -> Acked {
        let ranges = if self.agreement.current().reliable { ranges } else { &[] };
        if next_expected > self.sent || edge > next_expected + MAX_WINDOW || self.speaks_of_unsent(ranges) {
            return Acked { invalid: true, newly: 0 };
        }
        self.edge = self.edge.max(edge);
        let mut newly = 0;
        if let Some(active) = self.active.as_deref_mut() {
            let Active { blocks, path, progress_at, futile, tried_at, tries, .. } = active;
            blocks.latecomers.begin(now, &path.order);
            let largest = &mut self.largest_arrived;
            let mut deliver = |wire: u64, stamp: &_| {
                *largest = (*largest).max(wire as u32);
                path.delivery.on_packet_acked(now, wire, stamp);
            };
            newly += blocks.acknowledge_below(next_expected, &mut deliver);
            for &(low, high) in ranges {
                newly += blocks.acknowledge(low, high, &mut deliver);
            }
            // Whoever has the block that it expects no longer expects it.
            newly += blocks.acknowledge_below(blocks.first_missing(), &mut deliver);
            self.acked = self.acked.max(blocks.first_missing());
            if newly > 0 {
                let sample = self.sample.take();
                path.on_late(now, blocks.latecomers.drain());
                let ack = path.delivery.finish(now, sample, blocks.bytes());
                path.on_feedback(now, ack, blocks.bytes());
                (*progress_at, *futile, *tried_at, *tries) = (now, 0, None, 0);
            }
        }
        Acked { newly, invalid: false }
    }

    /// A datagram came that says nothing but an edge. One that cannot be true changes nothing.
    pub(crate) fn on_edge(&mut self, edge: u64) {
        if edge <= self.acked + MAX_WINDOW {
            self.edge = self.edge.max(edge);
        }
    }

    /// A NACK came; its sequence and edge have gone to [`Outgoing::on_report`]. What it names is repeated, unless it has
    /// arrived or left less than a round trip ago. Raw mode repeats nothing.
    ///
    /// One that names what is to be repeated anyway is an answer, and no ACK: where the last ACK was lost, blocks that have
    /// arrived count as under way, and may hold back for ever what it asks for, unless the time-out comes.
    //= A-7
    pub(crate) fn on_nack(&mut self, now: Time, ranges: &[(u64, u64)]) -> Nacked {
        if self.speaks_of_unsent(ranges) {
            return Nacked { invalid: true, newly: 0 };
        }
        let Some(active) = self.active.as_deref_mut().filter(|_| self.agreement.current().reliable) else {
            return Nacked::default();
        };
        let Active { blocks, path, loaded, .. } = active;
        // A path that has filled up is not answered faster because it was once empty: asked for meanwhile, a block would
        // go out again and again.
        let rtt = (self.timing.rtt, (*loaded).max(self.timing.rtt));
        let mut lost = Lost::default();
        // What is named twice costs time twice: never more than naming everything once.
        let mut budget = self.sent - self.acked;
        for &(low, high) in ranges {
            let low = low.max(self.acked);
            let high = high.min(low.saturating_add(budget));
            budget -= high.saturating_sub(low);
            blocks.lose(now, low, high, rtt, &mut lost);
        }
        if lost.wire > 0 {
            path.on_noticed(now, lost.wire, lost.sent_at);
            path.on_feedback(now, None, blocks.bytes());
        }
        if lost.blocks > 0 {
            self.restart(now);
        }
        self.repetitions = 0;
        Nacked { newly: lost.blocks, invalid: false }
    }

    fn speaks_of_unsent(&self, ranges: &[(u64, u64)]) -> bool {
        ranges.iter().any(|&(low, high)| low >= high || high > self.sent)
    }

    /// When [`Outgoing::expire`] has to be called, if nothing is heard before.
    pub(crate) fn expires_at(&self) -> Option<Time> {
        // A repetition that waits for the rate has not had its chance yet.
        let is_waiting =
            self.agreement.current().reliable && self.acked < self.sent && !self.is_forced && !self.is_over;
        is_waiting.then(|| self.heard_at + self.timing.rto.saturating_mul(1 << self.repetitions))
    }

    /// When the peer is given up although it answers: it has asked for blocks again and again, and gets none, as on a path
    /// that carries short datagrams only. `patience`: without a block that arrives.
    pub(crate) fn futile_at(&self, patience: Duration) -> Option<Time> {
        let active = self.active.as_deref().filter(|active| active.futile >= MAX_REPETITIONS && self.acked < self.sent);
        active.map(|active| active.progress_at + patience)
    }

    /// Whether the peer answers, and the oldest block does not reach it however often it is repeated, which some paths do not
    /// carry because it is large.
    pub(crate) fn is_swallowed(&self) -> bool {
        let active = self.active.as_deref().filter(|active| active.tries >= MOST_TRIES && self.acked < self.sent);
        active.and_then(|active| active.blocks.oldest_wire()).is_some_and(|bytes| step_below(bytes).is_some())
    }

    /// The same, and nothing as large has ever reached it: nothing will come of waiting.
    pub(crate) fn is_too_large(&self) -> bool {
        let oldest = self.active.as_deref().and_then(|active| active.blocks.oldest_wire());
        self.is_swallowed() && oldest.is_some_and(|bytes| bytes > self.largest_arrived)
    }

    /// The time-out, if it has expired: the oldest block that is not acknowledged goes again, as soon as the rate lets it
    /// and whatever is under way.
    pub(crate) fn expire(&mut self, now: Time) -> Expired {
        if self.expires_at().is_none_or(|at| now < at) {
            return Expired::Nothing;
        }
        if self.repetitions == MAX_REPETITIONS {
            return Expired::GivenUp;
        }
        self.repetitions += 1;
        self.is_forced = true;
        if let Some(Active { blocks, path, .. }) = self.active.as_deref_mut() {
            blocks.lose_oldest(now);
            path.on_timeout(now);
        }
        Expired::Repeat
    }
}
