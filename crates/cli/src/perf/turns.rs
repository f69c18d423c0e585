//! Round trips of transports that take turns; those of all rounds are one distribution.

use super::{Job, Trouble, size_name};
use crate::exit::Error;
use crate::output::Output;
use hdrhistogram::Histogram;
use indicatif::ProgressBar;

/// The longest round trip that is told apart, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

/// All round trips of one transport with one size.
pub(crate) struct Series<T> {
    pub(crate) job: Job,
    /// Nanoseconds.
    pub(crate) times: Histogram<u64>,
    /// Turns that were measured.
    pub(crate) rounds: u32,
    /// What else was seen.
    pub(crate) seen: T,
    failed: bool,
}

impl<T: Default> Series<T> {
    pub(crate) fn new(job: Job) -> Result<Self, Error> {
        let times = Histogram::new_with_bounds(1, LONGEST, 3);
        let times = times.map_err(|error| Error::failed(format!("no histogram: {error}")))?;
        Ok(Self { job, times, rounds: 0, seen: T::default(), failed: false })
    }

    /// Takes in the round trips of a turn: nanoseconds, each with how often it was seen.
    pub(crate) fn record(&mut self, round_trips: &[(u64, u64)]) {
        for &(nanoseconds, times) in round_trips {
            self.times.saturating_record_n(nanoseconds.min(LONGEST), times);
        }
        self.rounds += 1;
    }
}

/// Measures each of them `once` a round. One that fails is left alone from then on.
pub(crate) fn take<T>(
    all: &mut [Series<T>],
    rounds: u32,
    (bar, output): (&ProgressBar, &Output),
    mut once: impl FnMut(u32, &mut Series<T>) -> Result<(), Trouble>,
) -> Result<(), Error> {
    for round in 0..rounds {
        for series in all.iter_mut().filter(|series| !series.failed) {
            let size = size_name(series.job.size);
            bar.set_message(format!("{} {size}, round {}", series.job.transport, round + 1));
            let measured = once(round, series);
            bar.inc(1);
            if let Err(trouble) = measured {
                let failure = trouble.of_transport()?;
                series.failed = true;
                bar.suspend(|| output.warn(format_args!("{}, {size}: {}", series.job.transport, failure.why())));
            }
        }
    }
    Ok(())
}
