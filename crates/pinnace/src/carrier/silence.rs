//! How long nothing has come of a peer, counted over all waits: after a while it is asked whether it is there, however short
//! they were.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// After so much silence the peer is asked whether it is there, or after half of what it may be silent.
const MOST: Duration = Duration::from_secs(2);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Silence {
    epoch: Instant,
    interval: Duration,
    /// Since when nothing has come, as far as anybody has looked, or since the peer was asked: in nanoseconds from then on; 0
    /// if something has come.
    since: AtomicU64,
}

impl Silence {
    /// Of a peer that is gone when it has been silent for `timeout`.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { epoch: Instant::now(), interval: MOST.min(timeout / 2), since: AtomicU64::new(0) }
    }

    /// After so much silence the peer is asked.
    pub(super) fn interval(&self) -> Duration {
        self.interval
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
        self.epoch + Duration::from_nanos(self.since.load(Ordering::Relaxed)) + self.interval
    }

    /// Whether that is now; then it is not before as much silence again.
    pub(super) fn is_due(&self, now: Instant, waited: Duration) -> bool {
        let is_due = self.asks_at(now, waited) <= now;
        if is_due {
            self.begin(now);
        }
        is_due
    }

    /// It is to be looked again after `rest`, and not only after as much silence as before.
    pub(super) fn look_in(&self, now: Instant, rest: Duration) {
        if rest < self.interval {
            let since = now.checked_sub(self.interval - rest).unwrap_or(now);
            self.since.fetch_min(self.as_since(since), Ordering::Relaxed);
        }
    }

    fn begin(&self, at: Instant) {
        self.since.store(self.as_since(at), Ordering::Relaxed);
    }

    fn as_since(&self, at: Instant) -> u64 {
        (at.saturating_duration_since(self.epoch).as_nanos() as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_waits_count_as_much_as_a_long_one() {
        let silence = Silence::new(Duration::from_secs(10));
        let at = |ms| silence.epoch + Duration::from_millis(ms);
        let second = Duration::from_secs(1);
        assert!(!silence.is_due(at(1500), second), "from 500 ms on");
        assert_eq!(silence.asks_at(at(1600), Duration::ZERO), at(2500));
        assert!(!silence.is_due(at(2499), second) && silence.is_due(at(2500), second));
        assert!(!silence.is_due(at(2500), second), "it was asked");
        assert_eq!(silence.asks_at(at(3000), second), at(4500));
        silence.end();
        assert_eq!(silence.asks_at(at(9000), Duration::ZERO), at(11_000));
        silence.look_in(at(9000), Duration::from_millis(300));
        assert_eq!(silence.asks_at(at(9000), Duration::ZERO), at(9300));
        silence.look_in(at(9300), Duration::from_secs(5));
        assert_eq!(silence.asks_at(at(9300), Duration::ZERO), at(9300), "no later than it would be");
        silence.look_in(at(9200), Duration::from_secs(1));
        assert_eq!(silence.asks_at(at(9300), Duration::ZERO), at(9300), "nor than another wanted to look");
    }

    #[test]
    fn who_may_be_silent_for_a_short_time_only_is_asked_at_half_of_it() {
        let silence = Silence::new(Duration::from_secs(1));
        let at = |ms| silence.epoch + Duration::from_millis(ms);
        assert_eq!(silence.asks_at(at(100), Duration::ZERO), at(600));
    }
}
