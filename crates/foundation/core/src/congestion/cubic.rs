//! CUBIC (RFC 9438): TCP's congestion control, with HyStart++ (RFC 9406) to leave slow start.
//!
//! After a loss the window falls to 0.7 of what it was and then follows a cubic curve that is flat where the loss
//! was, so long fat paths are filled again in constant time; where that would be slower than TCP Reno, it keeps Reno's
//! pace. Always true: it falls at most once a round trip, grows only by acknowledgements of a window that was in use, and
//! is never below two packets.

use core::time::Duration;

use super::{AckSample, Congestion, LossSample, bytes_per_second, initial_window};
use crate::Time;

/// The curve's steepness, in packets a second cubed.
const C: f64 = 0.4;
/// What a loss leaves of the window.
const BETA: f64 = 0.7;
/// Reno's growth for the same average with `BETA`, in packets a round trip.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The CUBIC controller.
#[derive(Clone, Debug)]
pub struct Cubic {
    mss: u64,
    window: u64,
    /// The window at which slow start ends.
    threshold: u64,
    /// The window before the last reduction, where the curve is flat.
    w_max: f64,
    /// The window just before the last reduction, as it was.
    w_prior: f64,
    /// Time in seconds from the start of the curve to its flat part.
    k: f64,
    /// When the present curve began; none until the first acknowledgement after a reduction.
    epoch: Option<Time>,
    /// What Reno would have by now.
    w_est: f64,
    /// Growth of less than a byte, kept for the next acknowledgement.
    fraction: f64,
    /// Losses of packets sent up to here belong to a reduction already made.
    recovery_until: Option<Time>,
    last_ack: Time,
    smoothed: Option<Duration>,
    slow_start: HyStart,
}

impl Cubic {
    /// A controller in slow start whose datagrams carry at most `mss` bytes.
    pub fn new(mss: u64) -> Self {
        let mss = mss.clamp(1, 1 << 32);
        Self {
            mss,
            window: initial_window(mss),
            threshold: u64::MAX,
            w_max: 0.0,
            w_prior: 0.0,
            k: 0.0,
            epoch: None,
            w_est: 0.0,
            fraction: 0.0,
            recovery_until: None,
            last_ack: Time::ZERO,
            smoothed: None,
            slow_start: HyStart::new(),
        }
    }

    /// Whether the window still doubles every round trip.
    pub fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// One congestion event, of packets sent at `sent_at` or before.
    fn reduce(&mut self, now: Time, sent_at: Time) {
        if self.recovery_until.is_some_and(|until| sent_at <= until) {
            return;
        }
        self.recovery_until = Some(now);
        let window = self.window as f64;
        // Fast convergence: who loses below its old peak makes room for a newcomer.
        self.w_max = if window < self.w_max { window * (1.0 + BETA) / 2.0 } else { window };
        self.w_prior = window;
        self.window = ((window * BETA) as u64).max(2 * self.mss);
        self.threshold = self.window;
        self.epoch = None;
        self.fraction = 0.0;
    }

    /// Growth of congestion avoidance for `acked` bytes.
    fn follow_the_curve(&mut self, now: Time, acked: u64) {
        let (mss, window) = (self.mss as f64, self.window as f64);
        let epoch = *self.epoch.get_or_insert_with(|| {
            if window >= self.w_max {
                self.w_max = window;
            }
            self.k = ((self.w_max - window) / mss / C).cbrt();
            self.w_est = window;
            now
        });
        let rtt = self.smoothed.unwrap_or(Duration::ZERO);
        let curve = |at: Duration| C * (at.as_secs_f64() - self.k).powi(3) * mss + self.w_max;
        let elapsed = now.since(epoch);

        let alpha = if self.w_est >= self.w_prior { 1.0 } else { ALPHA };
        self.w_est += alpha * mss * acked as f64 / window;

        if curve(elapsed) < self.w_est {
            self.window = self.window.max(self.w_est as u64);
            return;
        }
        // The curve one round trip ahead, at most half as much again.
        let ahead = curve(elapsed + rtt).clamp(window, window * 1.5);
        self.fraction += (ahead - window) * acked as f64 / window;
        self.window = self.window.saturating_add(self.fraction as u64);
        self.fraction = self.fraction.fract();
    }
}

impl Congestion for Cubic {
    fn on_sent(&mut self, _now: Time, _bytes: u64, _in_flight: u64) {}

    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            self.smoothed = Some(self.smoothed.map_or(rtt, |old| (old * 7 + rtt) / 8));
        }
        let since_last = ack.now.since(self.last_ack);
        self.last_ack = ack.now;
        // Half in slow start, where the window doubles in a round trip; three quarters later, because trains are coarse. Of
        // two packets and nine tenths, two are less, and all that fits.
        let used = ack.in_flight_after.saturating_add(ack.acked_bytes);
        let needed = if self.in_slow_start() { self.window / 2 } else { self.window / 4 * 3 };
        let in_use = used >= needed || used.saturating_add(self.mss) > self.window;
        if ack.app_limited || !in_use {
            // The curve stands still while the window is not what limits.
            self.epoch = self.epoch.map(|epoch| epoch + since_last);
            return;
        }
        if self.recovery_until.is_some_and(|until| ack.sent_at <= until) {
            return;
        }
        if self.in_slow_start() {
            let (growth, done) = self.slow_start.on_ack(ack);
            self.window = self.window.saturating_add(growth).min(self.threshold);
            if done {
                self.threshold = self.window;
            }
        } else {
            self.follow_the_curve(ack.now, ack.acked_bytes);
        }
    }

    fn on_loss(&mut self, loss: &LossSample) {
        self.reduce(loss.now, loss.sent_at);
    }

    fn on_timeout(&mut self, now: Time) {
        if self.window > 2 * self.mss {
            // A time-out that repeats says nothing new about the window that was too large.
            self.recovery_until = None;
            self.reduce(now, now);
        }
        // Nor does the loss of what was sent meanwhile: slow start ends where it was to end after the first.
        self.recovery_until = Some(now);
        self.window = 2 * self.mss;
        self.slow_start = HyStart::new();
    }

    fn on_ecn(&mut self, now: Time, ce_count: u64) {
        if ce_count == 0 {
            return;
        }
        // The marked packets were sent about a round trip ago.
        let sent_at = now.as_nanos().saturating_sub(self.smoothed.unwrap_or_default().as_nanos() as u64);
        self.reduce(now, Time::from_nanos(sent_at));
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        let rate = bytes_per_second(self.window, self.smoothed?)?;
        let ahead = if self.in_slow_start() { rate.saturating_mul(2) } else { rate.saturating_add(rate / 4) };
        Some(ahead.max(self.mss))
    }

    fn name(&self) -> &'static str {
        "cubic"
    }
}

/// Slow start that watches the round trip (RFC 9406): when it grows, the path's queue does, and growth slows down
/// before it overflows.
#[derive(Clone, Debug)]
struct HyStart {
    round_ends: u64,
    last_round_min: Duration,
    round_min: Duration,
    samples: u32,
    /// In conservative slow start: the round trip it began with, and the rounds it has lasted.
    conservative: Option<(Duration, u32)>,
}

impl HyStart {
    const MIN_THRESHOLD: Duration = Duration::from_millis(4);
    const MAX_THRESHOLD: Duration = Duration::from_millis(16);
    const SAMPLES: u32 = 8;
    const GROWTH_DIVISOR: u64 = 4;
    const ROUNDS: u32 = 5;

    const fn new() -> Self {
        Self { round_ends: 0, last_round_min: Duration::MAX, round_min: Duration::MAX, samples: 0, conservative: None }
    }

    /// How many bytes the window grows, and whether slow start is over.
    fn on_ack(&mut self, ack: &AckSample) -> (u64, bool) {
        let mut done = false;
        if ack.delivered_at_send >= self.round_ends {
            self.round_ends = ack.delivered;
            self.last_round_min = self.round_min;
            self.round_min = Duration::MAX;
            self.samples = 0;
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
                done = *rounds >= Self::ROUNDS;
            }
        }
        if let Some(rtt) = ack.rtt {
            self.round_min = self.round_min.min(rtt);
            self.samples += 1;
        }
        if self.samples >= Self::SAMPLES && self.round_min < Duration::MAX && self.last_round_min < Duration::MAX {
            let threshold = (self.last_round_min / 8).clamp(Self::MIN_THRESHOLD, Self::MAX_THRESHOLD);
            match self.conservative {
                None if self.round_min >= self.last_round_min + threshold => {
                    self.conservative = Some((self.round_min, 0));
                }
                Some((began, _)) if self.round_min < began => self.conservative = None,
                _ => {}
            }
        }
        let divisor = if self.conservative.is_some() { Self::GROWTH_DIVISOR } else { 1 };
        (ack.acked_bytes / divisor, done)
    }
}
