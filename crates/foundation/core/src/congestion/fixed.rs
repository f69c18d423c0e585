//! A window that never moves: what the papers had, and what closed networks and shared memory want.

use super::{AckSample, Congestion, LossSample, SpuriousLoss};
use crate::Time;

/// A fixed window and no pacing. Loss, marks and time-outs change nothing: for paths that are nobody else's.
///
/// ```
/// use pinnace_core::{Congestion, Fixed};
/// assert_eq!(Fixed::new(1 << 20).window(), 1 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct Fixed {
    window: u64,
}

impl Fixed {
    /// A window of `window` bytes.
    pub const fn new(window: u64) -> Self {
        Self { window }
    }
}

impl Congestion for Fixed {
    fn on_sent(&mut self, _now: Time, _bytes: u64, _in_flight: u64) {}
    fn on_ack(&mut self, _ack: &AckSample) {}
    fn on_loss(&mut self, _loss: &LossSample) {}
    fn on_spurious_loss(&mut self, _late: &SpuriousLoss) {}
    fn on_timeout(&mut self, _now: Time) {}
    fn on_ecn(&mut self, _now: Time, _ce_count: u64) {}

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    fn name(&self) -> &'static str {
        "fixed"
    }
}
