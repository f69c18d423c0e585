//! Bytes delivered per interval: the line of a plot.

use core::time::Duration;
use pinnace_core::Time;

/// Bytes per interval of equal length, from the beginning on.
///
/// Always true: it has at most [`Timeline::MAX_INTERVALS`] entries. Where a run is longer, neighbours are added together
/// and the interval doubles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    interval: Duration,
    bytes: Vec<u64>,
}

impl Timeline {
    /// The most entries.
    pub const MAX_INTERVALS: usize = 65_536;

    /// Counts per `interval` (at least a microsecond).
    pub fn new(interval: Duration) -> Self {
        Self { interval: interval.max(Duration::from_micros(1)), bytes: Vec::new() }
    }

    /// The length of an interval.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Bytes per interval.
    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    /// Bytes in all.
    pub fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// The middle of every interval in seconds, and the bits per second in it.
    pub fn rates(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let seconds = self.interval.as_secs_f64();
        self.bytes
            .iter()
            .enumerate()
            .map(move |(index, &bytes)| ((index as f64 + 0.5) * seconds, bytes as f64 * 8.0 / seconds))
    }

    pub(crate) fn add(&mut self, now: Time, bytes: u64) {
        let mut index = self.index(now);
        while index >= Self::MAX_INTERVALS as u128 {
            self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.interval *= 2;
            index = self.index(now);
        }
        let index = index as usize;
        if self.bytes.len() <= index {
            self.bytes.resize(index + 1, 0);
        }
        self.bytes[index] += bytes;
    }

    fn index(&self, now: Time) -> u128 {
        u128::from(now.as_nanos()) / self.interval.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_get_longer_intervals() {
        let mut line = Timeline::new(Duration::from_millis(1));
        for i in 0..65_536u64 {
            line.add(Time::from_nanos(i * 1_000_000), 1);
        }
        assert_eq!((line.bytes().len(), line.interval()), (65_536, Duration::from_millis(1)));
        line.add(Time::from_nanos(65_536_000_000), 5);
        assert_eq!((line.bytes().len(), line.interval()), (32_769, Duration::from_millis(2)));
        assert_eq!((line.bytes()[0], line.bytes()[32_768], line.total()), (2, 5, 65_541));
        assert_eq!(line.rates().next(), Some((0.001, 8000.0)));
        line.add(Time::MAX, 1);
        assert_eq!(line.total(), 65_542);
    }
}
