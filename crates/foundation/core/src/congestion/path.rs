//! What a sender knows of its path: congestion control, the rate of delivery, and the pace that follows from both.

use super::{AckSample, Congestion, ControllerKind, DeliveryRate, Late, Reordering};
use crate::{Pacer, Time};

/// Congestion control of a stream that has sent something. Always true: the pace is the controller's.
#[derive(Debug)]
pub struct Path {
    /// What may be in flight.
    pub congestion: Box<dyn Congestion>,
    /// Of what was sent over it.
    pub delivery: DeliveryRate,
    /// When datagrams may leave.
    pub pacer: Pacer,
    /// Whether it keeps the order, and what may only be late.
    pub order: Reordering,
    mss: u64,
}

impl Path {
    /// A path whose datagrams have at most `mss` bytes.
    pub fn new(kind: ControllerKind, mss: u64, now: Time) -> Self {
        let congestion = kind.build(mss, now);
        let (delivery, pacer, order) = (DeliveryRate::new(), Pacer::new(None, 2 * mss), Reordering::default());
        let mut path = Self { congestion, delivery, pacer, order, mss };
        path.set_pace(now);
        path
    }

    /// `bytes` leave, with `in_flight` before them.
    pub fn on_sent(&mut self, now: Time, bytes: u64, in_flight: u64) {
        self.congestion.on_sent(now, bytes, in_flight);
        if self.pacer.rate().is_some() {
            self.pacer.take(now, bytes);
        }
    }

    /// Nothing was heard in time.
    pub fn on_timeout(&mut self, now: Time) {
        self.congestion.on_timeout(now);
        self.set_pace(now);
    }

    /// `bytes` seem to be lost, the newest of which left at `sent_at`; [`Path::on_feedback`] follows.
    pub fn on_noticed(&mut self, now: Time, bytes: u64, sent_at: Time) {
        if bytes > 0 {
            self.order.on_noticed(now, bytes, sent_at);
        }
    }

    /// All of that has arrived late; [`Path::on_feedback`] follows.
    pub fn on_late(&mut self, now: Time, late: impl IntoIterator<Item = Late>) {
        for Late { noticed_at, bytes, doubled } in late {
            self.delivery.on_doubled(doubled);
            if let Some(spurious) = self.order.on_late(now, noticed_at, bytes) {
                self.congestion.on_spurious_loss(&spurious);
            }
        }
    }

    /// The peer has said what it lacks, and what it has.
    pub fn on_feedback(&mut self, now: Time, ack: Option<AckSample>, in_flight_after: u64) {
        if let Some(rtt) = ack.and_then(|ack| ack.rtt) {
            self.order.on_round_trip(now, rtt);
        }
        while let Some(loss) = self.order.poll(now, in_flight_after) {
            self.congestion.on_loss(&loss);
        }
        if let Some(ack) = ack {
            self.congestion.on_ack(&ack);
        }
        self.set_pace(now);
    }

    fn set_pace(&mut self, now: Time) {
        self.pacer.follow(now, self.congestion.pacing_rate(), self.mss, 65_535);
    }
}
