//! How evenly blocks come: the interarrival jitter of RFC 3550, its 99th percentile, and how late blocks are.
//!
//! A block's delay is the time between when it was due, by the sender's clock, and its arrival, by ours; the clocks need not
//! agree, since delays are only compared. Blocks that are due together count once.
//!
//! Always true: memory does not depend on how many blocks there are.

use crate::exit::Error;
use hdrhistogram::Histogram;
use std::time::Duration;

/// Whatever is longer is ten minutes, in microseconds.
const LONGEST: u64 = 600_000_000;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub(crate) struct Evenness {
    /// Milliseconds: the smoothed difference between the delays of blocks that follow each other (RFC 3550, 6.4.1).
    pub(crate) jitter_ms: f64,
    /// The 99th percentile of these differences.
    pub(crate) jitter_p99_ms: f64,
    /// The 99th percentile of how much later than the quickest a block came: what a player has to keep ahead.
    pub(crate) late_p99_ms: f64,
    /// The latest.
    pub(crate) late_max_ms: f64,
}

/// Takes arrivals.
#[derive(Debug)]
pub(crate) struct Jitter {
    /// When the last one came and was due, in microseconds.
    last: Option<(i64, i64)>,
    quickest: Option<i64>,
    smooth: f64,
    differences: Histogram<u64>,
    lateness: Histogram<u64>,
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}

impl Jitter {
    pub(crate) fn new() -> Result<Self, Error> {
        let histogram = || {
            Histogram::new_with_bounds(1, LONGEST, 3).map_err(|error| Error::failed(format!("no histogram: {error}")))
        };
        Ok(Self { last: None, quickest: None, smooth: 0.0, differences: histogram()?, lateness: histogram()? })
    }

    /// A block has come that was due at `due` after the beginning; returns how much later than the quickest so far.
    /// Another beginning: [`Jitter::restart`].
    pub(crate) fn arrive(&mut self, at: Duration, due: Duration) -> Duration {
        let (at, due) = (micros(at), micros(due));
        let delay = at - due;
        let quickest = *self.quickest.get_or_insert(delay);
        self.quickest = Some(quickest.min(delay));
        let late = u64::try_from(delay - quickest).unwrap_or(0);
        if let Some((last_at, last_due)) = self.last {
            if last_due == due {
                return Duration::from_micros(late);
            }
            let difference = (delay - (last_at - last_due)).unsigned_abs();
            self.smooth += (difference as f64 - self.smooth) / 16.0;
            self.differences.saturating_record(difference);
        }
        self.lateness.saturating_record(late);
        self.last = Some((at, due));
        Duration::from_micros(late)
    }

    /// What comes next has nothing to do with what came before.
    pub(crate) fn restart(&mut self) {
        (self.last, self.quickest) = (None, None);
    }

    /// Over everything so far.
    pub(crate) fn evenness(&self) -> Evenness {
        let millis = |micros: u64| micros as f64 / 1e3;
        Evenness {
            jitter_ms: self.smooth / 1e3,
            jitter_p99_ms: millis(self.differences.value_at_quantile(0.99)),
            late_p99_ms: millis(self.lateness.value_at_quantile(0.99)),
            late_max_ms: millis(self.lateness.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn even_arrivals_have_none() {
        let mut jitter = Jitter::new().unwrap();
        for n in 0..1000 {
            assert!(jitter.arrive(ms(500 + 20 * n), ms(20 * n)).is_zero());
        }
        assert_eq!(jitter.evenness(), Evenness::default());
    }

    #[test]
    fn jitter_is_that_of_rfc_3550() {
        let mut jitter = Jitter::new().unwrap();
        jitter.arrive(ms(0), ms(0));
        jitter.arrive(ms(28), ms(20));
        // J = 0 + (8 - 0) / 16.
        assert!((jitter.evenness().jitter_ms - 0.5).abs() < 1e-9);
        jitter.arrive(ms(40), ms(40));
        // J = 0.5 + (8 - 0.5) / 16.
        let found = jitter.evenness();
        assert!((found.jitter_ms - 0.968_75).abs() < 1e-9, "{found:?}");
        assert!((found.jitter_p99_ms - 8.0).abs() < 0.1 && (found.late_max_ms - 8.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn one_in_two_hundred_does_not_show_in_the_percentile() {
        let mut jitter = Jitter::new().unwrap();
        for n in 0..2000 {
            jitter.arrive(ms(20 * n + if n % 400 == 99 { 300 } else { 1 }), ms(20 * n));
        }
        let found = jitter.evenness();
        assert!(found.jitter_p99_ms < 1.0 && found.late_p99_ms < 1.0 && found.late_max_ms > 250.0, "{found:?}");
    }

    #[test]
    fn blocks_due_together_count_once_and_strange_times_do_no_harm() {
        let mut jitter = Jitter::new().unwrap();
        jitter.arrive(ms(0), ms(0));
        jitter.arrive(ms(10), ms(0));
        assert_eq!(jitter.evenness().jitter_p99_ms, 0.0);
        jitter.arrive(ms(20), Duration::MAX);
        jitter.arrive(ms(30), ms(3));
        jitter.restart();
        jitter.arrive(Duration::MAX, ms(3));
        assert!(jitter.evenness().jitter_p99_ms > 1000.0);
    }
}
