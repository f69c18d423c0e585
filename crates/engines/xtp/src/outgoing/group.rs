//! The sending half of a stream to a group (specs/xtp.md, X-22).
//!
//! Nobody speaks for all receivers. What one bucket says all have counts as arrived, but stays where it can be repeated
//! until the bytes are let go; a later bucket may say that somebody lacks them after all.
//= X-22

use super::asks::Named;
use super::{Active, Outgoing};
use core::time::Duration;
use pinnace_core::Time;

/// What all receivers together have said, its numbers as stream offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard<'a> {
    /// All have everything below.
    pub(crate) rseq: u64,
    /// What all have beyond it.
    pub(crate) spans: &'a [(u64, u64)],
    /// What everybody takes.
    pub(crate) alloc: u64,
    /// The ask that was answered.
    pub(crate) echo: u32,
    /// Bytes below are not held any more.
    pub(crate) held_from: u64,
}

impl Outgoing {
    /// A bucket is closed. Returns how many bytes are to be repeated.
    pub(crate) fn on_group(&mut self, now: Time, heard: &Heard<'_>) -> u64 {
        let Named::Ask { number, .. } = self.asks.named(heard.echo) else { return 0 };
        let asked_at = self.asks.asked_at(heard.echo);
        self.asks.answered(heard.echo);
        let rseq = heard.rseq.min(self.sent);
        if !self.has_status || heard.alloc > self.alloc {
            self.has_status = true;
            self.alloc = heard.alloc;
        }
        let held_from = heard.held_from.min(rseq).max(self.acked);
        self.acked = held_from;
        let Some(active) = self.active.as_deref_mut() else { return 0 };
        let Active { flights, path, .. } = active;
        let mut deliver = |bytes: u64, stamp: &_| path.delivery.on_packet_acked(now, bytes, stamp);
        let before = self.asks.first_unanswered();
        flights.ack_span((held_from, rseq), before, &mut deliver);
        for &(low, high) in heard.spans {
            flights.ack_span((low, high.min(self.sent)), before, &mut deliver);
        }
        let mut lost = flights.overtake(now, number.max(flights.newest_acked()), true);
        let mut low = rseq;
        for &(span_low, span_high) in heard.spans {
            flights.retract(low, span_low, number, &mut lost);
            low = span_high;
        }
        flights.retract(low, self.sent, number, &mut lost);
        if self.go_back_n {
            flights.go_back(&mut lost);
        }
        flights.ack_below(held_from, before, |_, _| {});
        let in_flight_after = flights.bytes();
        path.on_late(now, flights.latecomers.drain());
        path.on_noticed(now, lost.wire, lost.sent_at);
        // The loop that congestion control closes is as long as the bucket was open.
        let ack = path.delivery.finish(now, asked_at.map(|at| now.since(at)), in_flight_after);
        path.on_feedback(now, ack, in_flight_after);
        lost.bytes
    }

    /// Whether a packet with this sync has asked, and no later one has been answered.
    pub(crate) fn is_open_ask(&self, echo: u32) -> bool {
        matches!(self.asks.named(echo), Named::Ask { is_newer: true, .. })
    }

    /// How long ago the packet with this sync asked, if an answer to it measures the round trip.
    //= X-12
    pub(crate) fn round_trip_of(&self, now: Time, echo: u32) -> Option<Duration> {
        match self.asks.named(echo) {
            Named::Ask { asked_at, is_newer: true, .. } => asked_at.map(|at| now.since(at)),
            _ => None,
        }
    }

    /// Nobody will ever say what has become of what was sent (service 5): it is not held any more.
    pub(crate) fn forget_sent(&mut self) {
        self.abandon();
        self.acked = self.sent;
    }

    /// Where the stream of somebody who joins now begins: with the first message that is held whole, or else with what is
    /// sent next.
    pub(crate) fn joint(&self) -> u64 {
        if self.acked == 0 {
            return 0;
        }
        self.chunks.first_end_from(self.acked).filter(|end| *end <= self.sent).unwrap_or(self.sent)
    }

    /// Bytes below may be sent.
    pub(crate) fn alloc(&self) -> u64 {
        self.alloc
    }

    /// Whether there was no status so far.
    pub(crate) fn is_unheard(&self) -> bool {
        !self.has_status
    }
}
