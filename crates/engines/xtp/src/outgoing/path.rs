//! What is known of the path: round trip, congestion, and the pace; and whether it loses all that is large.
//!
//! The round trip outlives everything else, in 16 bytes: an idle context of a hundred thousand keeps nothing more.
//= X-12
//= X-23

use core::time::Duration;
use pinnace_core::{ControllerKind, Pacer};

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

/// Nobody takes a path for one that does not carry datagrams of so many bytes, unless it says so (RFC 9000, 14).
pub(crate) const SAFE_DATAGRAM: u32 = 1200;
/// So often bytes are repeated in larger ones until the path is taken to lose all of those.
const MOST_REPETITIONS: u32 = 5;

/// Whether larger datagrams than [`SAFE_DATAGRAM`] get lost in silence, because nobody reports that they do not fit (RFC 4821):
/// the first bytes that the peer lacks leave in such again and again, its answers come, and say that nothing like it has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubt {
    /// The first byte that is missing.
    at: u64,
    /// How often it has been repeated since a large datagram has arrived.
    repetitions: u32,
}

impl Doubt {
    /// Whether a datagram with so many bytes of headers and data is large.
    pub(super) fn concerns(bytes: u32) -> bool {
        bytes > SAFE_DATAGRAM
    }

    /// The byte at `at`, which is the first that is missing, leaves again in a large datagram.
    pub(super) fn on_repeated(&mut self, at: u64) {
        self.repetitions = if self.at == at { self.repetitions + 1 } else { 1 };
        self.at = at;
    }

    /// A large datagram has arrived.
    pub(super) fn dispel(&mut self) {
        self.repetitions = 0;
    }

    /// Whether there have been enough repetitions of the byte at `at`, which has not arrived.
    pub(super) fn is_settled(&self, at: u64) -> bool {
        self.at == at && self.repetitions >= MOST_REPETITIONS
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
