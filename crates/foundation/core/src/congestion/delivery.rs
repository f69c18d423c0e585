//! Delivery rate: how fast the path took what was sent, measured by acknowledgements.
//!
//! Cheng and others' estimator: a packet remembers how much had been delivered when it was sent; its acknowledgement
//! divides what was delivered since by the longer of the time it took to send that much and the time it took to
//! acknowledge it. Bursts of acknowledgements therefore never look like a fast path. Always true: the rate is at most
//! the rate at which the same bytes were sent.

use core::time::Duration;

use super::{AckSample, bytes_per_second};
use crate::Time;

/// What a transmission remembers until it is acknowledged. One per transmission, or one per train.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeliveryStamp {
    /// When it was sent.
    pub sent_at: Time,
    /// Bytes delivered when it was sent.
    pub delivered: u64,
    /// When the newest of those were acknowledged.
    pub delivered_at: Time,
    /// When the first packet of the flight it belongs to was sent.
    pub first_sent_at: Time,
    /// Sent while there was less to send than the path would have taken.
    pub app_limited: bool,
}

/// Follows what is delivered and makes the [`AckSample`]s of a connection.
#[derive(Clone, Debug, Default)]
pub struct DeliveryRate {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Samples are application limited until this much is delivered.
    app_limited_until: Option<u64>,
    /// The acknowledgement being taken in: the stamp of its newest packet, and its bytes.
    newest: Option<DeliveryStamp>,
    acked_bytes: u64,
    min_rtt: Option<Duration>,
}

impl DeliveryRate {
    /// Nothing sent, nothing delivered.
    pub fn new() -> Self {
        Self::default()
    }

    /// A transmission leaves at `now`, with `in_flight` bytes on their way before it. Keep the stamp with it.
    pub fn on_sent(&mut self, now: Time, _bytes: u64, in_flight: u64) -> DeliveryStamp {
        if in_flight == 0 {
            // The path stood still: the time of silence is not part of any flight.
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        DeliveryStamp {
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited_until.is_some(),
        }
    }

    /// The sender ran out of things to send while the window was open, with `in_flight` bytes on their way.
    pub fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = Some(self.delivered.saturating_add(in_flight).max(1));
    }

    /// A transmission of `bytes` was acknowledged for the first time. Follow a batch with [`finish`](Self::finish).
    pub fn on_packet_acked(&mut self, now: Time, bytes: u64, stamp: &DeliveryStamp) {
        self.delivered = self.delivered.saturating_add(bytes);
        self.delivered_at = self.delivered_at.max(now);
        self.acked_bytes = self.acked_bytes.saturating_add(bytes);
        let newer = |newest: DeliveryStamp| (stamp.delivered, stamp.sent_at) >= (newest.delivered, newest.sent_at);
        if self.newest.is_none_or(newer) {
            self.newest = Some(*stamp);
        }
    }

    /// So many bytes among them were repeated before what had left first arrived: the path takes them a second time.
    pub fn on_doubled(&mut self, bytes: u64) {
        self.delivered = self.delivered.saturating_add(bytes);
    }

    /// Ends a batch of acknowledgements; `None` if it acknowledged nothing.
    ///
    /// `rtt` is the round trip of an unambiguous packet among them, `in_flight_after` what is still on its way.
    pub fn finish(&mut self, now: Time, rtt: Option<Duration>, in_flight_after: u64) -> Option<AckSample> {
        let stamp = self.newest.take()?;
        let acked_bytes = core::mem::take(&mut self.acked_bytes);
        if self.app_limited_until.is_some_and(|until| self.delivered > until) {
            self.app_limited_until = None;
        }
        self.first_sent_at = self.first_sent_at.max(stamp.sent_at);
        let sending = stamp.sent_at.since(stamp.first_sent_at);
        let acknowledging = now.since(stamp.delivered_at);
        let flight = sending.max(acknowledging);
        // An interval shorter than any round trip saw an acknowledgement of an earlier copy, not the path.
        self.min_rtt = self.min_rtt.into_iter().chain(rtt).min();
        let long_enough = self.min_rtt.is_none_or(|shortest| flight >= shortest);
        let rate = bytes_per_second(self.delivered - stamp.delivered, flight).filter(|_| long_enough);
        Some(AckSample {
            now,
            acked_bytes,
            rtt,
            delivered: self.delivered,
            delivered_at_send: stamp.delivered,
            sent_at: stamp.sent_at,
            delivery_rate: rate,
            app_limited: stamp.app_limited,
            in_flight_after,
        })
    }

    /// Bytes delivered in all.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Whether what is sent now counts as limited by the application.
    pub const fn app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }
}
