//! Congestion control, and the pace that follows from it.

use pinnace_core::{AckSample, Congestion, ControllerKind, DeliveryRate, LossSample, Pacer, Time};

/// Congestion control of a direction in which something has left.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) congestion: Box<dyn Congestion>,
    pub(super) delivery: DeliveryRate,
    pub(super) pacer: Pacer,
    mss: u64,
}

impl Path {
    /// A path whose datagrams have at most `mss` bytes.
    pub(super) fn new(kind: ControllerKind, mss: u64, now: Time) -> Self {
        let congestion = kind.build(mss, now);
        let mut path = Self { congestion, delivery: DeliveryRate::new(), pacer: Pacer::new(None, 2 * mss), mss };
        path.follow(now);
        path
    }

    /// `bytes` leave, with `in_flight` before them.
    pub(super) fn on_sent(&mut self, now: Time, bytes: u64, in_flight: u64) {
        self.congestion.on_sent(now, bytes, in_flight);
        if self.pacer.rate().is_some() {
            self.pacer.take(now, bytes);
        }
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        self.congestion.on_timeout(now);
        self.follow(now);
    }

    pub(super) fn on_loss(&mut self, loss: &LossSample) {
        self.congestion.on_loss(loss);
        self.follow(loss.now);
    }

    pub(super) fn on_ack(&mut self, ack: &AckSample) {
        self.congestion.on_ack(ack);
        self.follow(ack.now);
    }

    fn follow(&mut self, now: Time) {
        let rate = self.congestion.pacing_rate();
        if rate != self.pacer.rate() {
            self.pacer.set_rate(now, rate);
            // A train every millisecond, at least two datagrams, at most one system call's worth.
            let burst = rate.unwrap_or(u64::MAX) / 1000;
            self.pacer.set_burst(now, burst.clamp(2 * self.mss, 65_535.max(2 * self.mss)));
        }
    }
}
