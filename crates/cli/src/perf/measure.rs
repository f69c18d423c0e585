//! One measurement: a fresh pair of processes, a short run to warm up, and the run that counts.

use super::network::Network;
use super::process::{Counters, Pair, Trouble};
use super::protocol::{Job, Loss, Placement, Ran, Role};
use super::{Args, Transport};
use std::time::Duration;

/// All measurements of one transport with one size and one load.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) job: Job,
    /// Competing processes.
    pub(super) load: u32,
    /// Messages a measurement, once that is known.
    count: Option<u64>,
    /// Seconds a message took in the last run.
    each: f64,
    pub(super) measured: Vec<Measured>,
    /// It does not work at all.
    pub(super) failed: bool,
}

/// One measurement.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) round: u32,
    pub(super) gbit_s: f64,
    pub(super) messages: u64,
    pub(super) seconds: f64,
    /// Processor seconds per GB at the sender and at the receiver, and the kernel's share of them.
    pub(super) cpu_tx: f64,
    pub(super) cpu_rx: f64,
    pub(super) system_tx: f64,
    pub(super) system_rx: f64,
    pub(super) placement: Option<Placement>,
    pub(super) loss: Option<Loss>,
    pub(super) memory_beyond_buffers: Option<u64>,
    /// The method that was chosen, where there was a choice.
    pub(super) method: Option<String>,
    /// How often the competing processes counted meanwhile.
    pub(super) counts_per_second: Option<f64>,
}

impl Series {
    pub(super) fn new(job: Job, load: u32) -> Self {
        Self { job, load, count: None, each: 0.0, measured: Vec::new(), failed: false }
    }

    /// Keeps a measurement, unless it was the round that warms up.
    pub(super) fn add(&mut self, round: u32, measured: &Measured) {
        if round > 0 {
            self.measured.push(Measured { round, ..measured.clone() });
        }
    }

    /// One run, for which as much time is given as the last one says it may take.
    fn run(&mut self, pair: &mut Pair, count: u64) -> Result<(Ran, Ran), Trouble> {
        pair.expect(expected(self.each, count));
        let (receiver, sender) = pair.run(count)?;
        self.each = receiver.seconds / count.max(1) as f64;
        Ok((receiver, sender))
    }

    /// The middle one of what `of` picks.
    pub(super) fn median(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(self.measured.iter().map(of).collect()).unwrap_or(f64::NAN)
    }

    /// How many times the throughput of `other` this is: the middle one of the rounds' ratios.
    pub(super) fn paired_ratio(&self, other: &Self) -> f64 {
        let of_round = |round| other.measured.iter().find(|measured| measured.round == round);
        let ratios = self.measured.iter().filter_map(|own| Some(own.gbit_s / of_round(own.round)?.gbit_s));
        median(ratios.collect()).unwrap_or(f64::NAN)
    }

    pub(super) fn is(&self, transport: &Transport, load: u32) -> bool {
        self.job.transport == *transport && self.load == load
    }
}

/// The middle one; of an even number the mean of the middle two.
pub(crate) fn median(mut of: Vec<f64>) -> Option<f64> {
    of.sort_by(f64::total_cmp);
    let middle = of.len() / 2;
    match of.len() {
        0 => None,
        n if n % 2 == 1 => Some(of[middle]),
        _ => Some(f64::midpoint(of[middle - 1], of[middle])),
    }
}

/// The least and the most.
pub(crate) fn span(of: impl Iterator<Item = f64>) -> (f64, f64) {
    of.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), one| (least.min(one), most.max(one)))
}

/// How long so many messages may take, if `each` is what one took: a few times as long, for a machine that gets busy, or a path
/// at its worst.
fn expected(each: f64, count: u64) -> Duration {
    Duration::try_from_secs_f64(4.0 * each * count as f64).unwrap_or(Duration::MAX)
}

/// Measures once, and finds out before how many messages that takes if nobody knows.
pub(super) fn once(network: &Network, args: &Args, series: &mut Series) -> Result<Measured, Trouble> {
    let mut counters = Counters::start(network, &series.job, series.load)?;
    let mut pair = Pair::start(network, &series.job, Role::Receiver, Role::Sender)?;
    let mut count = match series.count {
        Some(count) => {
            series.run(&mut pair, count.div_ceil(if args.wan.is_some() { 2 } else { 10 }))?;
            count
        }
        None => calibrate(&mut pair, args, series)?,
    };
    series.count = Some(count);
    let ((mut receiver, mut sender), mut counted) = counters.beside(|| series.run(&mut pair, count))?;
    // With losses a connection may have been unlucky when it was tried, and be lucky now: too few messages say little.
    for _ in 0..3 {
        let enough = args.seconds() / 2.0;
        if args.wan.is_none() || args.bytes.is_some() || receiver.seconds >= enough {
            break;
        }
        count = (count as f64 * (args.seconds() / receiver.seconds.max(1e-6)).min(8.0)).ceil() as u64;
        series.count = Some(count);
        ((receiver, sender), counted) = counters.beside(|| series.run(&mut pair, count))?;
    }
    Ok(Measured { counts_per_second: counted, ..measured(&series.job, count, &receiver, &sender) })
}

/// The number of messages that take about as long as a measurement should.
fn calibrate(pair: &mut Pair, args: &Args, series: &mut Series) -> Result<u64, Trouble> {
    let size = series.job.size as u64;
    let mut count = ((1 << 20) / size).clamp(2, 64);
    if let Some(bytes) = args.bytes {
        let all = (bytes.as_u64() / size).max(2);
        // Not all at once: nobody knows yet how long it may take.
        while count < all.div_ceil(10) {
            series.run(pair, count)?;
            count *= 8;
        }
        series.run(pair, all.div_ceil(10))?;
        return Ok(all);
    }
    // Long enough that start and end do not count; at a distance a connection takes seconds to grow.
    let enough = args.seconds() / if args.wan.is_some() { 2.0 } else { 8.0 };
    loop {
        let seconds = series.run(pair, count)?.0.seconds.max(1e-6);
        if seconds >= enough {
            return Ok(((count as f64 * args.seconds() / seconds) as u64).max(2));
        }
        // A first guess may be far off: the next one is not more than eight times as much.
        count = (count as f64 * (enough * 1.2 / seconds).min(8.0)).ceil() as u64;
    }
}

fn measured(job: &Job, messages: u64, receiver: &Ran, sender: &Ran) -> Measured {
    // What was lost does not count.
    let messages = receiver.delivered.unwrap_or(messages);
    let bytes = messages as f64 * job.size as f64;
    let per_gb = |seconds: f64| seconds / (bytes / 1e9);
    Measured {
        round: 0,
        gbit_s: bytes * 8.0 / 1e9 / receiver.seconds,
        messages,
        seconds: receiver.seconds,
        cpu_tx: per_gb(sender.user + sender.system),
        cpu_rx: per_gb(receiver.user + receiver.system),
        system_tx: per_gb(sender.system),
        system_rx: per_gb(receiver.system),
        placement: receiver.placement,
        loss: receiver.loss,
        memory_beyond_buffers: receiver.memory_beyond_buffers,
        method: sender.method.clone(),
        counts_per_second: None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, expected, median};

    #[test]
    fn long_runs_are_waited_for() {
        assert_eq!(expected(0.5, 120), Duration::from_secs(240));
        assert_eq!((expected(0.0, 1), expected(f64::MAX, 2)), (Duration::ZERO, Duration::MAX));
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }
}
