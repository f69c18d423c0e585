//! How long nothing has come of a peer, counted over all waits: it is asked whether it is there after [`SILENCE`], however
//! short they were.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// After so much silence the peer is asked whether it is there.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Silence {
    epoch: Instant,
    /// Since when nothing has come, as far as anybody has looked, or since the peer was asked: in nanoseconds from then on; 0
    /// if something has come.
    since: AtomicU64,
}

impl Silence {
    pub(super) fn new() -> Self {
        Self { epoch: Instant::now(), since: AtomicU64::new(0) }
    }

    /// Something has come.
    pub(super) fn end(&self) {
        if self.since.load(Ordering::Relaxed) != 0 {
            self.since.store(0, Ordering::Relaxed);
        }
    }

    /// When the peer has to be asked, now that nothing has come for `waited`.
    pub(super) fn asks_at(&self, now: Instant, waited: Duration) -> Instant {
        if self.since.load(Ordering::Relaxed) == 0 {
            self.begin(now.checked_sub(waited).unwrap_or(now));
        }
        self.epoch + Duration::from_nanos(self.since.load(Ordering::Relaxed)) + SILENCE
    }

    /// Whether that is now; then it is not before as much silence again.
    pub(super) fn is_due(&self, now: Instant, waited: Duration) -> bool {
        let is_due = self.asks_at(now, waited) <= now;
        if is_due {
            self.begin(now);
        }
        is_due
    }

    fn begin(&self, at: Instant) {
        let since = at.saturating_duration_since(self.epoch).as_nanos() as u64;
        self.since.store(since.max(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_waits_count_as_much_as_a_long_one() {
        let silence = Silence::new();
        let at = |ms| silence.epoch + Duration::from_millis(ms);
        let second = Duration::from_secs(1);
        assert!(!silence.is_due(at(1500), second), "from 500 ms on");
        assert_eq!(silence.asks_at(at(1600), Duration::ZERO), at(2500));
        assert!(!silence.is_due(at(2499), second) && silence.is_due(at(2500), second));
        assert!(!silence.is_due(at(2500), second), "it was asked");
        assert_eq!(silence.asks_at(at(3000), second), at(4500));
        silence.end();
        assert_eq!(silence.asks_at(at(9000), Duration::ZERO), at(11_000));
    }
}
