//! What a sender knows of its path: congestion control, the rate of delivery, and the pace that follows from both.

use super::{AckSample, Congestion, ControllerKind, DeliveryRate, LossSample};
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
    mss: u64,
}

impl Path {
    /// A path whose datagrams have at most `mss` bytes.
    pub fn new(kind: ControllerKind, mss: u64, now: Time) -> Self {
        let congestion = kind.build(mss, now);
        let mut path = Self { congestion, delivery: DeliveryRate::new(), pacer: Pacer::new(None, 2 * mss), mss };
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

    /// The peer has said what it lost, and what it has.
    pub fn on_feedback(&mut self, now: Time, loss: Option<LossSample>, ack: Option<AckSample>) {
        if let Some(loss) = loss {
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
