//! What is known of the path: round trip, congestion, and the pace; and whether it loses all that is large.
//!
//! The round trip outlives everything else, in 16 bytes: an idle context of a hundred thousand keeps nothing more.
//= X-12
//= X-23

use core::time::Duration;
use pinnace_core::{ControllerKind, Pacer, Time, step_below};

/// How a stream treats its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathConfig {
    /// The congestion controller.
    pub(crate) congestion: ControllerKind,
    /// WTIMER before the first sample.
    pub(crate) initial_timeout: Duration,
    /// WTIMER is never shorter.
    pub(crate) floor: Duration,
    /// User bytes a second; 0: no limit.
    pub(crate) rate: u64,
    /// User bytes at once; 0: what the rate sends in 10 ms.
    pub(crate) burst: u64,
}

impl Default for PathConfig {
    /// The defaults of the specification (3.13), CUBIC, no limit.
    fn default() -> Self {
        Self {
            congestion: ControllerKind::Cubic,
            initial_timeout: Duration::from_millis(250),
            floor: Duration::from_millis(10),
            rate: 0,
            burst: 0,
        }
    }
}

/// Jacobson's estimate in as few bytes as it needs; [`pinnace_core::RttEstimator`] with its configuration takes 264.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    /// Smoothed round trip and mean deviation in nanoseconds; 0: no sample yet.
    smoothed: u64,
    deviation: u64,
}

impl RoundTrip {
    /// No honest round trip is longer than an hour, and no sum of such overflows.
    const MOST: u64 = 3_600_000_000_000;

    pub(super) fn on_sample(&mut self, sample: Duration) {
        let sample = u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX).clamp(1, Self::MOST);
        if self.smoothed == 0 {
            *self = Self { smoothed: sample, deviation: sample / 2 };
        } else {
            self.deviation = self.deviation - self.deviation / 4 + self.smoothed.abs_diff(sample) / 4;
            self.smoothed = (self.smoothed - self.smoothed / 8 + sample / 8).max(1);
        }
    }

    pub(super) fn smoothed(&self) -> Option<Duration> {
        (self.smoothed > 0).then(|| Duration::from_nanos(self.smoothed))
    }

    /// The round trip and four deviations.
    pub(super) fn timeout(&self) -> Option<Duration> {
        (self.smoothed > 0).then(|| Duration::from_nanos(self.smoothed + 4 * self.deviation))
    }
}

/// So often bytes are repeated in larger ones until the path is taken to lose all of those.
const MOST_REPETITIONS: u32 = 5;

/// Whether large datagrams get lost in silence, because nobody reports that they do not fit (RFC 4821): the first bytes that
/// the peer lacks leave in such again and again, its answers come, and say that nothing like it has. At first those are
/// doubted that are larger than 1,200 bytes, and when they are not sent any more, those beyond 548 ([`step_below`]).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubt {
    /// The first byte that is missing.
    at: u64,
    /// How often it has been repeated since a large datagram has arrived.
    repetitions: u32,
    /// Datagrams with more bytes are large.
    most: u32,
}

impl Doubt {
    /// The byte at `at`, which is the first that is missing, leaves again in a datagram with so many bytes of headers and data.
    pub(super) fn on_repeated(&mut self, at: u64, bytes: u32) {
        let Some(most) = step_below(bytes) else { return };
        self.repetitions = if (self.at, self.most) == (at, most) { self.repetitions + 1 } else { 1 };
        (self.at, self.most) = (at, most);
    }

    /// A datagram with so many bytes has arrived.
    pub(super) fn on_arrived(&mut self, bytes: u32) {
        if bytes > self.most {
            self.repetitions = 0;
        }
    }

    /// What the path is taken to carry, if there have been enough repetitions of the byte at `at`, which has not arrived.
    pub(super) fn take(&mut self, at: u64) -> Option<u32> {
        let is_settled = self.at == at && self.repetitions >= MOST_REPETITIONS;
        is_settled.then(|| {
            self.repetitions = 0;
            self.most
        })
    }
}

/// How long the same first byte has been missing that leaves again and again, whatever its datagram's size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standstill {
    /// That byte.
    at: u64,
    /// When it was repeated for the first time.
    since: Time,
    repetitions: u32,
}

impl Standstill {
    /// The byte at `at`, which is the first that is missing, leaves again.
    pub(super) fn on_repeated(&mut self, now: Time, at: u64) {
        if self.at != at || self.repetitions == 0 {
            *self = Self { at, since: now, repetitions: 0 };
        }
        self.repetitions = self.repetitions.saturating_add(1);
    }

    /// Whether the byte at `at` is still the one that is missing, has been for so long, and was repeated often enough: one that
    /// waits for its turn all the time is not lost.
    pub(super) fn is_over(&self, now: Time, at: u64, patience: Duration) -> bool {
        self.at == at && self.repetitions >= MOST_REPETITIONS && now.since(self.since) >= patience
    }
}

/// The limit on user bytes.
#[derive(Debug)]
pub(super) struct Limit {
    pub(super) pacer: Pacer,
    /// The peer's part in it: rate and burst; 0: no limit.
    pub(super) peer_takes: (u32, u32),
}

/// A limit, where there is one, or something to keep.
pub(super) fn limit(rate: u64, burst: u64, peer_takes: (u32, u32)) -> Option<Box<Limit>> {
    (rate > 0 || peer_takes != (0, 0)).then(|| {
        let pacer = Pacer::new((rate > 0).then_some(rate), burst_of(rate, burst));
        Box::new(Limit { pacer, peer_takes })
    })
}

pub(super) fn burst_of(rate: u64, burst: u64) -> u64 {
    if burst == 0 { rate / 100 } else { burst }
}
