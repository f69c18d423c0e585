//! BBR: congestion control from a model of the path instead of from its losses.
//!
//! The model is the largest delivery rate of the last ten rounds and the smallest round trip of the last ten seconds;
//! the sender paces at that rate and keeps about twice their product in flight. It starts by doubling (*startup*) until
//! the rate no longer grows, empties the queue that this has built (*drain*), then probes for more in a cycle of eight
//! round trips (*probe bandwidth*), and looks at the bare round trip for 200 ms every ten seconds (*probe rtt*).
//!
//! Random loss is no sign of congestion here: below a fifth of what is sent it changes nothing. Above that it bounds the
//! bytes in flight (`loss_bound`), and what arrives of a probe is no longer more than the model, which falls with every
//! cycle. Senders that share a short queue cannot tell their own losses from random ones, so whoever knows that the path
//! loses more has to say so: up to that share is made up for by the gains, as far as it is really lost. Always true: the
//! window holds at least four packets, and the bound never falls below one bandwidth-delay product of what was really
//! delivered.
//!
//! After Cardwell and others, BBR version 1, with the aggregation estimate and the idea of a bound of version 2.

use core::time::Duration;

use super::loss_bound::LossBound;
use super::{AckSample, Congestion, LossSample, SpuriousLoss, bytes_per_second, initial_window};
use crate::{Time, Windowed, mix64};

/// Gains in 1/256.
const UNITY: u32 = 256;
/// 2 / ln 2: doubles the delivery rate every round.
const STARTUP: u32 = 739;
const DRAIN: u32 = UNITY * UNITY / STARTUP;
const CYCLE: [u32; 8] = [320, 192, UNITY, UNITY, UNITY, UNITY, UNITY, UNITY];
const WINDOW: u32 = 2 * UNITY;

const RATE_WINDOW_ROUNDS: u64 = 10;
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_LASTS: Duration = Duration::from_millis(200);
/// Rounds without a quarter more of delivery rate after which the pipe counts as full.
const FULL_PIPE_ROUNDS: u32 = 3;
/// Rounds after which the start-up of what is limited by the application is paced by the model as well.
const HASTY_ROUNDS: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth {
        phase: usize,
        since: Time,
    },
    /// `window`: what there was before.
    ProbeRtt {
        until: Option<Time>,
        window: u64,
    },
}

/// The BBR controller.
#[derive(Clone, Debug)]
pub struct Bbr {
    mss: u64,
    mode: Mode,
    rate: Windowed<u64>,
    min_rtt: Option<Duration>,
    min_rtt_at: Time,
    round: u64,
    /// The round ends with the acknowledgement of something sent after this much was delivered.
    round_ends: u64,
    /// What was sent before this much was delivered, and in the look at the bare round trip, left with a small window.
    limited_below: u64,
    pipe: FullPipe,
    aggregation: Aggregation,
    loss: LossBound,
    lost_since_ack: bool,
    /// After a time-out the window stays small until something is acknowledged.
    timed_out: bool,
    window: u64,
    pacing_rate: u64,
    started_at: Time,
}

impl Bbr {
    /// The largest share that a path may be said to lose by itself, in percent.
    pub const MOST_PATH_LOSS: u8 = 50;

    /// A controller in startup at `now` whose datagrams carry at most `mss` bytes.
    pub fn new(mss: u64, now: Time) -> Self {
        Self::over_loss(mss, now, 0)
    }

    /// The same over a path that loses up to `percent` of what is sent by itself, at most [`Self::MOST_PATH_LOSS`].
    pub fn over_loss(mss: u64, now: Time, percent: u8) -> Self {
        let mss = mss.clamp(1, 1 << 32);
        let window = initial_window(mss).max(4 * mss);
        Self {
            mss,
            mode: Mode::Startup,
            rate: Windowed::largest(RATE_WINDOW_ROUNDS),
            min_rtt: None,
            min_rtt_at: now,
            round: 0,
            round_ends: 0,
            limited_below: 0,
            pipe: FullPipe::default(),
            aggregation: Aggregation::new(now),
            loss: LossBound::new(percent.min(Self::MOST_PATH_LOSS)),
            lost_since_ack: false,
            timed_out: false,
            window,
            pacing_rate: scale(window.saturating_mul(1_000), STARTUP),
            started_at: now,
        }
    }

    /// The model's bare round trip.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    #[cfg(test)]
    pub(super) fn starts_up(&self) -> bool {
        self.mode == Mode::Startup
    }

    /// Bytes that fill the path `gain / 256` times, by the model.
    fn bandwidth_delay(&self, gain: u32) -> Option<u64> {
        let (rate, rtt) = (self.rate.value()?, self.min_rtt?);
        let product = u128::from(rate) * rtt.as_nanos() / 1_000_000_000;
        Some(scale(u64::try_from(product).unwrap_or(u64::MAX), gain))
    }

    fn pacing_gain(&self) -> u32 {
        match self.mode {
            Mode::Startup => STARTUP,
            Mode::Drain => DRAIN,
            Mode::ProbeBandwidth { phase, .. } => match CYCLE[phase % CYCLE.len()] {
                // Probes alone: with the whole cycle made up for, what it lost itself would count as the path's.
                more if more > UNITY => self.loss.make_up(more),
                gain => gain,
            },
            Mode::ProbeRtt { .. } => UNITY,
        }
    }

    fn window_gain(&self) -> u32 {
        match self.mode {
            // Twice what fills the path doubles the rate every round just as well as 2 / ln 2 times, and does not flood a
            // queue as long as the path.
            Mode::Startup | Mode::Drain | Mode::ProbeBandwidth { .. } => self.loss.make_up(WINDOW),
            Mode::ProbeRtt { .. } => UNITY / 2,
        }
    }

    /// Whether the window of a look at the bare round trip has bounded what `ack` acknowledges: its rate says little about the path.
    fn is_limited(&self, ack: &AckSample) -> bool {
        matches!(self.mode, Mode::ProbeRtt { .. }) || ack.delivered_at_send < self.limited_below
    }

    /// Whether a new round begins with `ack`. Those of a look at the bare round trip are not counted: on a short path it takes many,
    /// and the model would forget the rate.
    fn count_round(&mut self, ack: &AckSample) -> bool {
        let begins = ack.delivered_at_send >= self.round_ends;
        if begins {
            self.round_ends = ack.delivered;
            self.round += u64::from(!self.is_limited(ack));
        }
        begins
    }

    fn advance_mode(&mut self, ack: &AckSample) {
        let full = |gain| self.bandwidth_delay(gain).unwrap_or(u64::MAX);
        match self.mode {
            Mode::Startup if self.pipe.full => self.mode = Mode::Drain,
            Mode::Drain if ack.in_flight_after <= full(UNITY) => self.probe_bandwidth(ack.now),
            Mode::ProbeBandwidth { phase, since } => {
                let rtt = self.min_rtt.unwrap_or(Duration::ZERO);
                let elapsed = ack.now.since(since);
                let gain = self.pacing_gain();
                let next = if gain > UNITY {
                    // Until the probe has really filled the path by that much, or has overfilled it.
                    let probed =
                        self.lost_since_ack || ack.in_flight_after.saturating_add(ack.acked_bytes) >= full(gain);
                    elapsed > rtt && (probed || elapsed > rtt * 4)
                } else if gain < UNITY {
                    elapsed > rtt || ack.in_flight_after <= full(UNITY)
                } else {
                    elapsed > rtt
                };
                if next {
                    self.mode = Mode::ProbeBandwidth { phase: (phase + 1) % CYCLE.len(), since: ack.now };
                }
            }
            _ => {}
        }
    }

    /// Enters the cycle anywhere but in the phase that drains: flows that started together should not probe together.
    fn probe_bandwidth(&mut self, now: Time) {
        let phase = 2 + (mix64(now.as_nanos() ^ self.started_at.as_nanos().rotate_left(32)) % 7) as usize;
        self.mode = Mode::ProbeBandwidth { phase: phase % CYCLE.len(), since: now };
    }

    fn follow_min_rtt(&mut self, ack: &AckSample, round_begins: bool) {
        let expired = ack.now.since(self.min_rtt_at) > MIN_RTT_WINDOW;
        if let Some(rtt) = ack.rtt
            && (expired || self.min_rtt.is_none_or(|least| rtt <= least))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = ack.now;
        } else if ack.app_limited
            && let (Some(rtt), Some(least)) = (ack.rtt, self.min_rtt)
            && rtt <= least + least / 16
        {
            // Silence had emptied the queue, and the bare round trip is still what it was.
            self.min_rtt_at = ack.now;
        }
        if let Mode::ProbeRtt { until, window } = self.mode {
            match until {
                None if ack.in_flight_after <= self.probe_rtt_window() => {
                    self.mode = Mode::ProbeRtt { until: Some(ack.now + PROBE_RTT_LASTS), window };
                }
                Some(until) if round_begins && ack.now >= until => {
                    self.min_rtt_at = ack.now;
                    self.limited_below = ack.delivered.saturating_add(ack.in_flight_after);
                    self.window = self.window.max(window);
                    if self.pipe.full {
                        self.probe_bandwidth(ack.now);
                    } else {
                        self.mode = Mode::Startup;
                    }
                }
                _ => {}
            }
        } else if expired && self.pipe.full && !ack.app_limited {
            // What is limited by the application leaves the queue empty by itself, and measures without being asked.
            self.mode = Mode::ProbeRtt { until: None, window: self.window };
        }
    }

    fn probe_rtt_window(&self) -> u64 {
        self.bandwidth_delay(UNITY / 2).unwrap_or(0).max(4 * self.mss)
    }

    fn steer(&mut self, ack: &AckSample) {
        let Some(rate) = self.rate.value() else {
            if let Some(rtt) = self.min_rtt
                && let Some(rate) = bytes_per_second(self.window, rtt)
            {
                self.pacing_rate = scale(rate, STARTUP).max(self.mss);
            }
            return;
        };
        // One percent less than the model, so that a small error does not stand as a queue.
        let target = scale(rate, self.pacing_gain());
        let target = (target - target / 100).max(self.mss);
        // A start is hardly paced, as a short transfer should not take longer for it. But what is limited by the application
        // may never fill the path, and would flood its queue with every burst.
        if self.pipe.full || target > self.pacing_rate || (ack.app_limited && self.round >= HASTY_ROUNDS) {
            self.pacing_rate = target;
        }

        let Some(filled) = self.bandwidth_delay(self.window_gain()) else { return };
        let quantum = (self.pacing_rate / 1_000).clamp(2 * self.mss, (2 * self.mss).max(65_536));
        // While it starts up, every round acknowledges more than the rate so far explains: that is no aggregation.
        let extra = if self.pipe.full { self.aggregation.extra() } else { 0 };
        let target = filled.saturating_add(extra).saturating_add(3 * quantum);
        self.window = if self.pipe.full {
            self.window.saturating_add(ack.acked_bytes).min(target)
        } else if self.window < target || ack.delivered < initial_window(self.mss) {
            self.window.saturating_add(ack.acked_bytes)
        } else {
            self.window
        };
        if let Some(bound) = self.loss.bound() {
            self.window = self.window.min(bound);
        }
        if matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.window = self.window.min(self.probe_rtt_window());
        }
        self.window = self.window.max(4 * self.mss);
    }
}

impl Congestion for Bbr {
    fn on_sent(&mut self, now: Time, _bytes: u64, in_flight: u64) {
        if in_flight == 0 && matches!(self.mode, Mode::ProbeBandwidth { .. }) {
            // After silence: go on at the rate of the model, and do not count the silence as aggregation.
            self.aggregation.restart(now);
            if let Some(rate) = self.rate.value() {
                self.pacing_rate = rate.max(self.mss);
            }
        }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.timed_out = false;
        let round_begins = self.count_round(ack);
        let is_limited = ack.app_limited || self.is_limited(ack);
        if let Some(rate) = ack.delivery_rate
            && (!is_limited || self.rate.value().is_none_or(|best| rate >= best))
        {
            self.rate.insert(self.round, rate);
        }
        self.aggregation.on_ack(ack, self.rate.value().unwrap_or(0), self.round, self.window);
        if round_begins {
            let filled = self.bandwidth_delay(UNITY).unwrap_or(0).max(4 * self.mss);
            let in_flight = ack.in_flight_after.saturating_add(ack.acked_bytes);
            // More was on its way than the model explains, and that did not come faster: the path is full, even if the
            // application then had no more. Sources of bursts would never leave start-up, and flood the queue each time.
            let overfilled = filled.saturating_add(filled / 4).max(2 * initial_window(self.mss));
            if !ack.app_limited || in_flight >= overfilled {
                self.pipe.on_round(self.rate.value().unwrap_or(0));
            }
            if self.loss.on_round(ack.delivered, self.mss, in_flight, filled) {
                self.pipe.overflow();
            }
        }
        self.advance_mode(ack);
        self.follow_min_rtt(ack, round_begins);
        self.steer(ack);
        self.lost_since_ack = false;
    }

    fn on_loss(&mut self, loss: &LossSample) {
        self.lost_since_ack = true;
        self.loss.on_loss(loss.lost_bytes);
    }

    fn on_spurious_loss(&mut self, late: &SpuriousLoss) {
        if self.loss.on_late(late.bytes) && self.pipe.reopen() && !matches!(self.mode, Mode::ProbeRtt { .. }) {
            // It was not the queue that ended the start.
            self.mode = Mode::Startup;
        }
    }

    fn on_timeout(&mut self, _now: Time) {
        self.timed_out = true;
    }

    fn on_ecn(&mut self, _now: Time, ce_count: u64) {
        if ce_count > 0 {
            self.loss.on_mark();
        }
    }

    fn window(&self) -> u64 {
        if self.timed_out { self.window.min(4 * self.mss) } else { self.window }
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_rate)
    }

    fn name(&self) -> &'static str {
        "bbr"
    }
}

/// Sees that the delivery rate has stopped growing.
#[derive(Clone, Debug, Default)]
struct FullPipe {
    rate: u64,
    rounds: u32,
    full: bool,
    /// Only losses say so.
    by_loss: bool,
}

impl FullPipe {
    /// So much was lost that it must be full.
    fn overflow(&mut self) {
        self.by_loss |= !self.full;
        self.full = true;
    }

    /// Nothing was lost after all. Returns whether it is not known to be full any more.
    fn reopen(&mut self) -> bool {
        let reopens = self.by_loss;
        if reopens {
            *self = Self::default();
        }
        reopens
    }

    fn on_round(&mut self, rate: u64) {
        if self.full {
            return;
        }
        if rate >= self.rate.saturating_add(self.rate / 4) {
            self.rate = rate;
            self.rounds = 0;
            return;
        }
        self.rounds += 1;
        self.full = self.rounds >= FULL_PIPE_ROUNDS;
    }
}

/// How much more than the rate explains is acknowledged at once: batched acknowledgements need that much more window.
#[derive(Clone, Debug)]
struct Aggregation {
    since: Time,
    acked: u64,
    extra: Windowed<u64>,
}

impl Aggregation {
    fn new(now: Time) -> Self {
        Self { since: now, acked: 0, extra: Windowed::largest(RATE_WINDOW_ROUNDS) }
    }

    fn restart(&mut self, now: Time) {
        self.since = now;
        self.acked = 0;
    }

    fn on_ack(&mut self, ack: &AckSample, rate: u64, round: u64, window: u64) {
        let expected = |since| u128::from(rate) * ack.now.since(since).as_nanos() / 1_000_000_000;
        let mut explained = u64::try_from(expected(self.since)).unwrap_or(u64::MAX);
        if self.acked <= explained {
            self.restart(ack.now);
            explained = 0;
        }
        self.acked = self.acked.saturating_add(ack.acked_bytes);
        let extra = (self.acked - explained.min(self.acked)).min(window);
        self.extra.insert(round, extra);
    }

    fn extra(&self) -> u64 {
        self.extra.value().unwrap_or(0)
    }
}

fn scale(value: u64, gain: u32) -> u64 {
    u64::try_from(u128::from(value) * u128::from(gain) / u128::from(UNITY)).unwrap_or(u64::MAX)
}
