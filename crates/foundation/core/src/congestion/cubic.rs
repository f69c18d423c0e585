//! CUBIC (RFC 9438): TCP's congestion control, with HyStart++ (RFC 9406) to leave slow start.
//!
//! After a loss the window falls to 0.7 of what it was and then follows a cubic curve that is flat where the loss
//! was, so long fat paths are filled again in constant time; where that would be slower than TCP Reno, it keeps Reno's
//! pace. Always true: it falls at most once a round trip, grows only by acknowledgements of a window that was in use, and
//! is never below two packets. A reduction for what arrives after all is taken back (RFC 4015).

use core::time::Duration;

use super::{AckSample, Congestion, LossSample, SpuriousLoss, bytes_per_second, initial_window};
use crate::Time;
use std::collections::VecDeque;

/// The curve's steepness, in packets a second cubed.
const C: f64 = 0.4;
/// What a loss leaves of the window.
const BETA: f64 = 0.7;
/// Reno's growth for the same average with `BETA`, in packets a round trip.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Reductions that can be taken back. What is found out later than after so many was long ago.
const MOST_REDUCTIONS: usize = 8;

/// A reduction, which may have been for nothing.
#[derive(Clone, Copy, Debug)]
struct Reduction {
    /// The losses noticed from here until the next reduction are its.
    noticed_at: Time,
    /// Losses of packets sent up to here belong to it.
    recovery_until: Time,
    /// The window before it, and what was taken from it.
    before: u64,
    taken: u64,
    /// The threshold and the peaks before it.
    threshold: u64,
    w_max: f64,
    w_prior: f64,
    /// Bytes lost, of which so many arrived.
    lost: u64,
    late: u64,
}

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
    /// The newest reductions, in order.
    reductions: VecDeque<Reduction>,
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
            reductions: VecDeque::new(),
            last_ack: Time::ZERO,
            smoothed: None,
            slow_start: HyStart::new(),
        }
    }

    /// Whether the window still doubles every round trip.
    pub fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// One congestion event, of packets sent at `sent_at` or before. Returns whether it is one of its own.
    fn reduce(&mut self, now: Time, sent_at: Time) -> bool {
        if self.recovery_until.is_some_and(|until| sent_at <= until) {
            return false;
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
        true
    }

    /// What a reduction now would have to be taken back to.
    fn remember(&self, now: Time, noticed_at: Time, lost: u64) -> Reduction {
        let Self { window, threshold, w_max, w_prior, .. } = *self;
        Reduction {
            noticed_at,
            recovery_until: now,
            before: window,
            taken: 0,
            threshold,
            w_max,
            w_prior,
            lost,
            late: 0,
        }
    }

    /// The window has been reduced after `was`.
    fn push_reduction(&mut self, was: Reduction) {
        if self.reductions.len() == MOST_REDUCTIONS {
            self.reductions.pop_front();
        }
        self.reductions.push_back(Reduction { taken: was.before.saturating_sub(self.window), ..was });
    }

    /// All that a reduction was for has arrived: those after it were made from too small a window.
    fn take_back(&mut self, index: usize) {
        let Some(was) = self.reductions.remove(index) else { return };
        for later in self.reductions.range_mut(index..) {
            later.before = later.before.saturating_add(was.taken);
            later.threshold = later.threshold.max(was.threshold);
        }
        // What it has grown meanwhile was given for what had been taken.
        self.window = self.window.max(self.window.saturating_add(was.taken).min(was.before));
        self.epoch = None;
        self.fraction = 0.0;
        if index == self.reductions.len() {
            self.threshold = self.threshold.max(was.threshold);
            self.w_max = self.w_max.max(was.w_max);
            self.w_prior = was.w_prior;
            // What else of that time is lost has not been answered.
            self.recovery_until = self.reductions.back().map(|last| last.recovery_until);
        }
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
        let was = self.remember(loss.now, loss.noticed_at, loss.lost_bytes);
        if self.reduce(loss.now, loss.sent_at) {
            self.push_reduction(was);
        } else if let Some(last) = self.reductions.back_mut() {
            last.lost = last.lost.saturating_add(loss.lost_bytes);
        }
    }

    fn on_spurious_loss(&mut self, late: &SpuriousLoss) {
        let behind = self.reductions.partition_point(|reduction| reduction.noticed_at <= late.noticed_at);
        let Some(index) = behind.checked_sub(1) else { return };
        let reduction = &mut self.reductions[index];
        reduction.late = reduction.late.saturating_add(late.bytes);
        if reduction.late >= reduction.lost {
            self.take_back(index);
        }
    }

    fn on_timeout(&mut self, now: Time) {
        // Whatever arrives of what it was for, the time was too short (RFC 4015).
        let was = self.remember(now, now, 0);
        let is_new = self.window > 2 * self.mss;
        if is_new {
            // A time-out that repeats says nothing new about the window that was too large.
            self.recovery_until = None;
            self.reduce(now, now);
        }
        // Nor does the loss of what was sent meanwhile: slow start ends where it was to end after the first.
        self.recovery_until = Some(now);
        self.window = 2 * self.mss;
        self.slow_start = HyStart::new();
        if is_new {
            self.push_reduction(was);
        } else if let Some(last) = self.reductions.back_mut() {
            last.recovery_until = now;
        }
    }

    fn on_ecn(&mut self, now: Time, ce_count: u64) {
        if ce_count == 0 {
            return;
        }
        // The marked packets were sent about a round trip ago.
        let sent_at = now.as_nanos().saturating_sub(self.smoothed.unwrap_or_default().as_nanos() as u64);
        if self.reduce(now, Time::from_nanos(sent_at)) {
            // The path is full, whatever has arrived late.
            self.reductions.clear();
        }
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
