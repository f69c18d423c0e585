//! What happened when: payload delivered, datagrams of data sent again, and datagrams lost, per interval.
//!
//! Always true: at most [`Line::MOST`] intervals are kept; in a longer run ten become one, so that intervals stay round.

use core::time::Duration;

/// One interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Payload bytes that reached the receiver for the first time.
    pub(crate) bytes: u64,
    /// Datagrams of data sent again.
    pub(crate) resent: u64,
    /// Datagrams that the network lost, both ways.
    pub(crate) lost: u64,
}

impl Moment {
    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.resent += other.resent;
        self.lost += other.lost;
    }
}

/// Intervals of equal length, from the beginning on.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    interval: Duration,
    moments: Vec<Moment>,
}

impl Line {
    const MOST: usize = 50_000;

    /// A line in the finest steps.
    pub(super) fn new() -> Self {
        Self { interval: Duration::from_millis(1), moments: Vec::new() }
    }

    /// The length of an interval.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// The intervals, in order.
    pub(crate) fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// When the interval ends that [`Line::push`] takes next.
    pub(super) fn next_end(&self) -> Duration {
        self.interval * (self.moments.len() as u32 + 1)
    }

    /// Adds the next interval.
    pub(super) fn push(&mut self, moment: Moment) {
        self.moments.push(moment);
        if self.moments.len() >= Self::MOST {
            *self = self.folded(10);
        }
    }

    /// So many intervals made one.
    fn folded(&self, by: usize) -> Self {
        let by = by.max(1);
        let moments = self.moments.chunks(by).map(|chunk| {
            chunk.iter().fold(Moment::default(), |mut sum, moment| {
                sum.add(moment);
                sum
            })
        });
        Self { interval: self.interval * by as u32, moments: moments.collect() }
    }

    /// In intervals of 100 ms; of a round part of it if that makes few, of a multiple if it makes more than `most`.
    pub(crate) fn readable(&self, most: usize) -> Self {
        let total = self.interval.as_millis() as usize * self.moments.len();
        let round = [1, 2, 5, 10, 20, 50].into_iter().find(|step| total / step <= 20);
        let longer = (0..).flat_map(|power| [100, 200, 500].map(|step| step * 10_usize.pow(power)));
        // A day in milliseconds is enough for every run.
        let longer = longer.take(24).find(|&step| total.div_ceil(step) <= most);
        let step = round.or(longer).unwrap_or(100);
        self.folded(step.div_ceil(self.interval.as_millis() as usize))
    }

    /// The rate of a moment in bits per second.
    pub(crate) fn rate(&self, moment: &Moment) -> f64 {
        moment.bytes as f64 * 8.0 / self.interval.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(milliseconds: usize) -> Line {
        let mut line = Line::new();
        for _ in 0..milliseconds {
            line.push(Moment { bytes: 10, resent: 1, lost: 0 });
        }
        line
    }

    #[test]
    fn intervals_are_round_and_few_enough_to_read() {
        for (run, interval, count) in [(7, 1, 7), (60, 5, 12), (900, 50, 18), (3000, 100, 30), (40_000, 1000, 40)] {
            let line = line(run).readable(60);
            assert_eq!((line.interval(), line.moments().len()), (Duration::from_millis(interval), count), "{run} ms");
        }
        assert_eq!(line(900).readable(60).moments()[0], Moment { bytes: 500, resent: 50, lost: 0 });
    }

    #[test]
    fn long_runs_keep_their_sum_in_bounded_memory() {
        let long = line(200_000);
        assert!(long.moments().len() < Line::MOST);
        assert_eq!(long.moments().iter().map(|moment| moment.bytes).sum::<u64>(), 2_000_000);
    }
}
