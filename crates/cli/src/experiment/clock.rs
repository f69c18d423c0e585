//! Times of functions that take nanoseconds to milliseconds.
//!
//! Always true: everything that is compared takes its turn in every round, warmed up before it is timed; what counts is the
//! median of the rounds, and beside it stands the range of their middle half.

use super::measure::Effort;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Something to time, run so many times.
pub(super) type Timed<'a> = Box<dyn FnMut(usize) + 'a>;

/// How long one sample takes, about.
const SAMPLE: Duration = Duration::from_micros(40);
/// The one before may have driven the bytes out of the cache, and left the processor's wide units asleep: they need some
/// hundred microseconds to reach full speed again.
const WARM_UP: Duration = Duration::from_micros(300);

/// Nanoseconds of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

impl Time {
    /// Gigabytes a second, if a call goes over so many bytes.
    pub(super) fn gb_s(self, bytes: usize) -> f64 {
        bytes as f64 / self.median
    }
}

/// Rounds of a measurement.
pub(super) fn rounds(effort: Effort) -> usize {
    effort.rounds as usize
}

/// Calls a function again and again; neither its argument nor its result are known to the compiler.
pub(super) fn over<'a, A: ?Sized, R>(argument: &'a A, mut function: impl FnMut(&A) -> R + 'a) -> Timed<'a> {
    Box::new(move |repeats| {
        for _ in 0..repeats {
            black_box(function(black_box(argument)));
        }
    })
}

/// Times everything, in turns.
pub(super) fn measure(runs: &mut [Timed<'_>], rounds: usize) -> Vec<Time> {
    let repeats: Vec<usize> = runs.iter_mut().map(|run| repeats(run)).collect();
    let mut samples = vec![Vec::with_capacity(rounds); runs.len()];
    for _ in 0..rounds.max(1) {
        for ((run, &repeats), samples) in runs.iter_mut().zip(&repeats).zip(&mut samples) {
            let start = Instant::now();
            while start.elapsed() < WARM_UP {
                run(repeats);
            }
            let start = Instant::now();
            run(repeats);
            samples.push(start.elapsed().as_secs_f64() * 1e9 / repeats as f64);
        }
    }
    samples.into_iter().map(sorted_out).collect()
}

/// How many calls a sample has.
fn repeats(run: &mut Timed<'_>) -> usize {
    let mut repeats = 1;
    loop {
        let start = Instant::now();
        run(repeats);
        let elapsed = start.elapsed();
        if elapsed >= SAMPLE / 2 {
            return ((repeats as f64 * SAMPLE.as_secs_f64() / elapsed.as_secs_f64()) as usize).max(1);
        }
        repeats *= 2;
    }
}

fn sorted_out(mut times: Vec<f64>) -> Time {
    times.sort_by(f64::total_cmp);
    let at = |quarter: usize| times[(times.len() * quarter / 4).min(times.len() - 1)];
    Time { low: at(1), median: at(2), high: at(3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts_and_the_middle_half_is_its_range() {
        let time = sorted_out(vec![9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 100.0, 6.0]);
        assert_eq!((time.low, time.median, time.high), (3.0, 5.0, 9.0));
        let alone = sorted_out(vec![7.0]);
        assert_eq!((alone.low, alone.median, alone.high), (7.0, 7.0, 7.0));
        assert_eq!(alone.gb_s(14), 2.0);
    }

    #[test]
    fn what_does_more_takes_longer() {
        let spin = |n: u64| over(&(), move |()| (0..n).map(black_box).sum::<u64>());
        let times = measure(&mut [spin(100), spin(10_000)], 5);
        assert!(times[1].median > 10.0 * times[0].median, "{times:?}");
    }
}
