//! Round-trip estimation and the retransmission time-out that follows from it.
//!
//! Jacobson's smoothed round trip and mean deviation: `D` moves first, towards `|R - M|`, then `R` towards `M`; the
//! first measure gives `R = M`, `D = M / 2`. The time-out is `R + deviations * D + extra`, inside a floor and a cap,
//! and doubles while nothing is heard. Karn's rule is the caller's half: it passes only measures of packets that were
//! sent once. Always true: `floor <= timeout <= cap`, and no measure makes any of it overflow.
//!
//! One estimator serves all protocols; what differs is an [`RttConfig`].
//= Z-12
//= V-S10
//= X-12
//= A-8

use core::time::Duration;

use crate::{Time, Windowed};

/// How an [`RttEstimator`] weighs its samples and bounds its time-out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RttConfig {
    /// A new sample moves the smoothed round trip by the difference divided by this. At least 1.
    pub smoothing: u32,
    /// The same for the mean deviation. At least 1.
    pub deviation_smoothing: u32,
    /// How many deviations the time-out adds.
    pub deviations: u32,
    /// The deviations of an estimate count as so much at least: where no round trip differs from the others they go to nothing,
    /// and a packet more in a queue would be a time-out.
    pub least_spread: Duration,
    /// Added to every estimate: what the peer may wait before it answers.
    pub extra: Duration,
    /// No time-out is shorter.
    pub floor: Duration,
    /// No time-out is longer, doubled or not.
    pub cap: Duration,
    /// Doubling stops here, though an estimate may be longer by itself.
    pub back_off_cap: Duration,
    /// How often a time-out may double in a row.
    pub max_doublings: u32,
    /// The time-out before the first sample.
    pub initial: Duration,
    /// How far back [`RttEstimator::minimum`] looks.
    pub minimum_window: Duration,
}

impl RttConfig {
    /// The [`least_spread`](Self::least_spread) where the peer answers by a timer of its own: the acknowledgement of what is alone at
    /// the end of a flight takes exactly the round trip and that timer ([`extra`](Self::extra)), and what timers, processors and
    /// a queue of some packets add.
    pub const LEAST_SPREAD: Duration = Duration::from_millis(1);
}

impl Default for RttConfig {
    /// Jacobson's gains, 1/8 and 1/4; 10 ms to 60 s; 250 ms before the first sample.
    fn default() -> Self {
        Self {
            smoothing: 8,
            deviation_smoothing: 4,
            deviations: 4,
            least_spread: Duration::ZERO,
            extra: Duration::ZERO,
            floor: Duration::from_millis(10),
            cap: Duration::from_secs(60),
            back_off_cap: Duration::from_secs(60),
            max_doublings: 16,
            initial: Duration::from_millis(250),
            minimum_window: Duration::from_secs(10),
        }
    }
}

/// What is known about the round trip of a path.
///
/// ```
/// use core::time::Duration;
/// use pinnace_core::{RttConfig, RttEstimator, Time};
/// let mut rtt = RttEstimator::new(RttConfig::default());
/// assert_eq!(rtt.timeout(), Duration::from_millis(250));
/// rtt.on_sample(Time::ZERO, Duration::from_millis(40));
/// assert_eq!(rtt.timeout(), Duration::from_millis(40 + 4 * 20));
/// rtt.back_off();
/// assert_eq!(rtt.timeout(), Duration::from_millis(240));
/// ```
#[derive(Clone, Debug)]
pub struct RttEstimator {
    config: RttConfig,
    /// Smoothed round trip and mean deviation, in nanoseconds.
    estimate: Option<Estimate>,
    /// The same as the time-out sees them: [`RttEstimator::inflate`] doubles these.
    inflated: Option<Estimate>,
    latest: Duration,
    minimum: Windowed<Duration>,
    doublings: u32,
    inflated_at: Option<Time>,
}

/// A smoothed round trip and its mean deviation, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    round_trip: u64,
    deviation: u64,
}

impl Estimate {
    fn first(measure: u64) -> Self {
        Self { round_trip: measure, deviation: measure / 2 }
    }

    fn moved(self, measure: u64, config: &RttConfig) -> Self {
        Self {
            round_trip: blend(self.round_trip, measure, config.smoothing),
            deviation: blend(self.deviation, self.round_trip.abs_diff(measure), config.deviation_smoothing),
        }
    }
}

impl RttEstimator {
    /// An estimator without samples.
    pub fn new(config: RttConfig) -> Self {
        Self {
            config,
            estimate: None,
            inflated: None,
            latest: Duration::ZERO,
            minimum: Windowed::smallest(nanos(config.minimum_window)),
            doublings: 0,
            inflated_at: None,
        }
    }

    /// Takes an unambiguous measure, that is one of a packet that was sent once (Karn). Ends the back-off.
    pub fn on_sample(&mut self, now: Time, rtt: Duration) {
        let measure = nanos(rtt).min(MAX_NANOS);
        let Self { config, estimate, inflated, .. } = self;
        for estimate in [estimate, inflated] {
            *estimate = Some(estimate.map_or(Estimate::first(measure), |old| old.moved(measure, config)));
        }
        self.latest = rtt;
        self.minimum.insert(now.as_nanos(), rtt);
        self.reset_back_off();
    }

    /// Doubles the time-out: it has expired.
    pub fn back_off(&mut self) {
        self.doublings = self.doublings.saturating_add(1).min(self.config.max_doublings);
    }

    /// Ends the doubling: something was acknowledged, be it ambiguous as a measure.
    pub fn reset_back_off(&mut self) {
        self.doublings = 0;
    }

    /// Doubles the round trip and the deviation that the time-out is made of, each up to the cap, and says whether it did: at
    /// most once a round trip. Only samples bring them down again, step by step.
    ///
    /// VRP's way of backing off.
    //= V-S5
    pub fn inflate(&mut self, now: Time) -> bool {
        let (Some(old), cap) = (self.inflated, nanos(self.config.cap)) else { return false };
        if self.inflated_at.is_some_and(|at| now.since(at) < Duration::from_nanos(old.round_trip)) {
            return false;
        }
        self.inflated_at = Some(now);
        let doubled = |nanos: u64| (nanos * 2).min(cap.max(nanos));
        self.inflated = Some(Estimate { round_trip: doubled(old.round_trip), deviation: doubled(old.deviation) });
        true
    }

    /// How long to wait for an answer before repeating.
    pub fn timeout(&self) -> Duration {
        let config = &self.config;
        let estimate = self.inflated.map_or(config.initial, |Estimate { round_trip, deviation }| {
            let spread = deviation.saturating_mul(u64::from(config.deviations)).max(nanos(config.least_spread));
            Duration::from_nanos(round_trip.saturating_add(spread)).saturating_add(config.extra)
        });
        let single = estimate.max(config.floor);
        let doubled = single.saturating_mul(1_u32.checked_shl(self.doublings).unwrap_or(u32::MAX));
        doubled.min(config.back_off_cap.max(single)).min(config.cap)
    }

    /// The smoothed round trip, once there is a sample.
    pub fn smoothed(&self) -> Option<Duration> {
        self.estimate.map(|estimate| Duration::from_nanos(estimate.round_trip))
    }

    /// The mean deviation, once there is a sample.
    pub fn deviation(&self) -> Option<Duration> {
        self.estimate.map(|estimate| Duration::from_nanos(estimate.deviation))
    }

    /// The newest sample.
    pub fn latest(&self) -> Option<Duration> {
        self.estimate.map(|_| self.latest)
    }

    /// The smallest sample of the last [`RttConfig::minimum_window`].
    pub fn minimum(&self) -> Option<Duration> {
        self.minimum.value()
    }

    /// How often the time-out has doubled since something was last acknowledged.
    pub fn doublings(&self) -> u32 {
        self.doublings
    }

    /// The configuration it was made with.
    pub fn config(&self) -> &RttConfig {
        &self.config
    }
}

/// An hour: no honest round trip is longer, and sums of it cannot overflow.
const MAX_NANOS: u64 = 3_600_000_000_000;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// `old` moved towards `new` by the difference divided by `weight`.
fn blend(old: u64, new: u64, weight: u32) -> u64 {
    let weight = u64::from(weight.max(1));
    if new >= old { old + (new - old) / weight } else { old - (old - new) / weight }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn vrp() -> RttConfig {
        RttConfig { deviation_smoothing: 8, initial: ms(200), cap: ms(2000), back_off_cap: ms(2000), ..<_>::default() }
    }

    //= V-S10 test
    #[test]
    fn vrp_moves_the_deviation_first() {
        let mut rtt = RttEstimator::new(vrp());
        assert_eq!(rtt.timeout(), ms(200));
        rtt.on_sample(Time::ZERO, ms(80));
        assert_eq!((rtt.smoothed(), rtt.deviation()), (Some(ms(80)), Some(ms(40))));
        assert_eq!(rtt.timeout(), ms(240));
        rtt.on_sample(Time::ZERO, ms(160));
        // D = 7/8 * 40 + 1/8 * |80 - 160|, with the old RTT; RTT = 7/8 * 80 + 1/8 * 160.
        assert_eq!((rtt.smoothed(), rtt.deviation()), (Some(ms(90)), Some(ms(45))));
        assert_eq!(rtt.timeout(), ms(270));
        for _ in 0..200 {
            rtt.on_sample(Time::ZERO, Duration::from_micros(100));
        }
        assert_eq!(rtt.timeout(), ms(10), "the floor");
    }

    //= V-S5 test
    #[test]
    fn vrp_doubles_what_its_timeout_is_made_of_at_most_once_a_round_trip() {
        let mut rtt = RttEstimator::new(vrp());
        assert!(!rtt.inflate(Time::ZERO), "nothing to double yet");
        rtt.on_sample(Time::ZERO, ms(80));
        let mut now = Time::ZERO;
        assert!(rtt.inflate(now));
        assert_eq!(rtt.timeout(), ms(160 + 4 * 80));
        now += ms(159);
        assert!(!rtt.inflate(now));
        // D = 7/8 * 80 + 1/8 * |160 - 80|, RTT = 7/8 * 160 + 1/8 * 80.
        rtt.on_sample(now, ms(80));
        assert_eq!(rtt.timeout(), ms(150 + 4 * 80));
        assert_eq!(rtt.smoothed(), Some(ms(80)), "what is known of the path stays");
        for _ in 0..20 {
            now += ms(2000);
            assert!(rtt.inflate(now));
        }
        assert_eq!(rtt.timeout(), ms(2000), "the cap");
        for _ in 0..200 {
            rtt.on_sample(now, ms(80));
        }
        assert!(rtt.timeout() < ms(81), "samples undo it");
    }

    //= Z-12 test
    #[test]
    fn zcrp_adds_the_acknowledgement_timer_and_backs_off_to_a_second() {
        let config =
            RttConfig { extra: ms(5), floor: ms(20), initial: ms(200), back_off_cap: ms(1000), ..<_>::default() };
        let mut rtt = RttEstimator::new(config);
        let expected = [200, 400, 800, 1000, 1000];
        for millis in expected {
            assert_eq!(rtt.timeout(), ms(millis));
            rtt.back_off();
        }
        rtt.reset_back_off();
        assert_eq!(rtt.timeout(), ms(200));
        rtt.on_sample(Time::ZERO, ms(10));
        assert_eq!(rtt.timeout(), ms(10 + 4 * 5 + 5));
        rtt.on_sample(Time::ZERO, ms(4000));
        rtt.on_sample(Time::ZERO, ms(4000));
        let long = rtt.timeout();
        assert!(long > ms(1000), "a long path is not cut to the back-off's cap");
        rtt.back_off();
        assert_eq!(rtt.timeout(), long);
    }

    //= X-12 test
    #[test]
    fn doubling_stops_after_the_configured_number() {
        let xtp = RttConfig { max_doublings: 4, ..<_>::default() };
        let a1 = RttConfig { max_doublings: 8, cap: Duration::MAX, back_off_cap: Duration::MAX, ..<_>::default() };
        for (config, factor) in [(xtp, 16), (a1, 256)] {
            let mut rtt = RttEstimator::new(config);
            for _ in 0..20 {
                rtt.back_off();
            }
            assert_eq!(rtt.timeout(), ms(250) * factor);
            rtt.on_sample(Time::ZERO, ms(8));
            assert_eq!(rtt.timeout(), ms(8 + 4 * 4), "a sample ends the back-off");
        }
    }

    #[test]
    fn the_default_gains_are_an_eighth_and_a_quarter() {
        let mut rtt = RttEstimator::new(RttConfig::default());
        rtt.on_sample(Time::ZERO, ms(80));
        rtt.on_sample(Time::ZERO, ms(160));
        assert_eq!((rtt.smoothed(), rtt.deviation()), (Some(ms(90)), Some(ms(50))));
        rtt.on_sample(Time::ZERO, ms(10));
        assert_eq!((rtt.smoothed(), rtt.deviation()), (Some(ms(80)), Some(Duration::from_micros(57_500))));
    }

    #[test]
    fn the_minimum_forgets() {
        let mut rtt = RttEstimator::new(RttConfig::default());
        let mut now = Time::ZERO;
        rtt.on_sample(now, ms(5));
        for _ in 0..120 {
            now += ms(100);
            rtt.on_sample(now, ms(9));
        }
        assert_eq!((rtt.minimum(), rtt.latest()), (Some(ms(9)), Some(ms(9))));
    }

    proptest! {
        #[test]
        fn the_timeout_stays_between_floor_and_cap(
            samples in prop::collection::vec(any::<u64>(), 0..40),
            doublings in 0_u32..100,
        ) {
            let config = RttConfig { cap: ms(2000), ..<_>::default() };
            let mut rtt = RttEstimator::new(config);
            for (step, sample) in samples.into_iter().enumerate() {
                rtt.on_sample(Time::from_nanos(step as u64), Duration::from_nanos(sample));
                rtt.inflate(Time::from_nanos(step as u64));
            }
            for _ in 0..doublings {
                rtt.back_off();
            }
            prop_assert!(rtt.timeout() >= config.floor && rtt.timeout() <= config.cap);
        }
    }
}
