//! Measurements that take turns: each row once a round, with a fresh pair of processes.
//!
//! Always true: a row that cannot be measured is said to be left out, with the reason, and is not in any result.

use super::Run;
use super::figure::{Curve, Panel};
use crate::exit::Error;
use crate::perf::{
    self, Counters, Failure, IdleChoice, Job, Network, Pair, Path, Repeats, Role, Trouble, median, progress, span,
};
use indicatif::ProgressBar;
use plotters::style::RGBColor;
use serde::Serialize;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    pub(super) quick: bool,
    pub(super) rounds: u32,
    /// For each measurement, about.
    pub(super) seconds: f64,
}

/// One row: the same job measured again and again.
#[derive(Debug)]
pub(super) struct Row {
    /// What tells it from the other rows.
    pub(super) label: String,
    pub(super) job: Job,
    /// Processes that compete for the processor.
    load: u32,
    /// Frames or messages a measurement, once that is known.
    count: Option<u64>,
    pub(super) measured: Vec<Measured>,
    left_out: bool,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    round: u32,
    mbit_s: f64,
    seconds: f64,
    messages: u64,
    /// Of the frames delivered: packets, those lost for good, and the most of those in a row.
    packets: u64,
    lost: u64,
    longest_run: Option<u32>,
    repeats: Option<Repeats>,
    /// Processor seconds per GB, at the sender and at the receiver.
    cpu_tx: f64,
    cpu_rx: f64,
    /// The share of the bytes that the receiver copied, where that is counted.
    copied: Option<f64>,
    /// How often the competing processes counted, a second.
    counts_per_second: Option<f64>,
}

/// A throughput as lines of JSON have it: the median of the rounds, the slowest and the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Speed {
    pub(super) mbit_s: f64,
    mbit_s_min: f64,
    mbit_s_max: f64,
}

impl Speed {
    /// `None` if there were no rounds.
    pub(super) fn of(rounds: Vec<f64>) -> Option<Self> {
        let (mbit_s_min, mbit_s_max) = span(rounds.iter().copied());
        Some(Self { mbit_s: median(rounds)?, mbit_s_min, mbit_s_max })
    }

    /// The slowest and the fastest, with so many digits behind the point.
    pub(super) fn range(self, digits: usize) -> String {
        format!("({:.digits$} .. {:.digits$})", self.mbit_s_min, self.mbit_s_max)
    }
}

/// What a row was measured from, as lines of JSON have it.
#[derive(Debug, Serialize)]
pub(super) struct Taken {
    rounds: usize,
    rounds_mbit_s: Vec<f64>,
    /// Of the last round.
    messages: u64,
    /// The mean of the rounds.
    seconds: f64,
}

impl Row {
    pub(super) fn new(label: impl Into<String>, job: Job) -> Self {
        Self { label: label.into(), job, load: 0, count: None, measured: Vec::new(), left_out: false }
    }

    /// The same, beside so many processes that use all the processor time that they get.
    pub(super) fn beside(self, load: u32) -> Self {
        Self { load, ..self }
    }

    /// The rounds' numbers, and their throughput in Mbit/s.
    pub(super) fn rounds(&self) -> Vec<(u32, f64)> {
        self.measured.iter().map(|one| (one.round, one.mbit_s)).collect()
    }

    /// The median; `None` if nothing was measured.
    pub(super) fn mbit_s(&self) -> Option<f64> {
        median(self.measured.iter().map(|one| one.mbit_s).collect())
    }

    /// The throughput; `None` if nothing was measured.
    pub(super) fn speed(&self) -> Option<Speed> {
        Speed::of(self.measured.iter().map(|one| one.mbit_s).collect())
    }

    /// What it was measured from.
    pub(super) fn taken(&self) -> Taken {
        let seconds: f64 = self.measured.iter().map(|one| one.seconds).sum();
        Taken {
            rounds: self.measured.len(),
            rounds_mbit_s: self.measured.iter().map(|one| one.mbit_s).collect(),
            messages: self.measured.last().map_or(0, |one| one.messages),
            seconds: seconds / self.measured.len() as f64,
        }
    }

    /// How many times the throughput of `other` this is: the median of the rounds' ratios.
    pub(super) fn ratio(&self, other: &Self) -> Option<f64> {
        let of_round = |round| other.measured.iter().find(|one| one.round == round);
        median(self.measured.iter().filter_map(|own| Some(own.mbit_s / of_round(own.round)?.mbit_s)).collect())
    }

    /// Processor seconds per GB at the sender and at the receiver: medians.
    pub(super) fn processor_seconds(&self) -> Option<(f64, f64)> {
        let of = |end: fn(&Measured) -> f64| median(self.measured.iter().map(end).collect());
        Some((of(|one| one.cpu_tx)?, of(|one| one.cpu_rx)?))
    }

    /// Messages that were measured, in all rounds.
    pub(super) fn messages(&self) -> u64 {
        self.measured.iter().map(|one| one.messages).sum()
    }

    /// How often the competing processes counted, a second: the median.
    pub(super) fn counts_per_second(&self) -> Option<f64> {
        median(self.measured.iter().filter_map(|one| one.counts_per_second).collect())
    }

    /// The largest share of bytes that a receiver copied in user space, where that is counted.
    pub(super) fn copied(&self) -> Option<f64> {
        self.measured.iter().filter_map(|one| one.copied).reduce(f64::max)
    }

    /// The share of packets that were lost for good, over all rounds; `None` of what loses nothing.
    pub(super) fn loss(&self) -> Option<f64> {
        let packets: u64 = self.measured.iter().map(|one| one.packets).sum();
        let lost: u64 = self.measured.iter().map(|one| one.lost).sum();
        (packets > 0).then(|| lost as f64 / packets as f64)
    }

    /// The most packets lost for good in a row, where that is counted.
    pub(super) fn longest_run(&self) -> Option<u32> {
        self.loss().and_then(|_| self.measured.iter().filter_map(|one| one.longest_run).max())
    }

    /// What was sent again, over all rounds, if that is counted.
    pub(super) fn repeats(&self) -> Option<Repeats> {
        self.measured.iter().filter_map(|one| one.repeats).reduce(|a, b| Repeats {
            packets_sent: a.packets_sent + b.packets_sent,
            packets_resent: a.packets_resent + b.packets_resent,
            packets_timed_out: a.packets_timed_out + b.packets_timed_out,
            timeouts_spurious: a.timeouts_spurious + b.timeouts_spurious,
        })
    }

    /// The share of what was sent that was sent again.
    pub(super) fn resent(&self) -> Option<f64> {
        self.repeats().map(|of| of.packets_resent as f64 / of.packets_sent.max(1) as f64)
    }
}

/// What is measured beside others: a transport, and how it is used.
pub(super) trait Kind: Copy + PartialEq {
    /// As the table and the figure have it.
    fn name(self) -> String;

    fn colour(self) -> RGBColor;

    /// An application that sends `size` bytes at a time.
    fn job(self, size: usize, idle: IdleChoice, path: Path) -> Job;

    /// Processes that compete for the processor.
    fn load(self) -> u32 {
        0
    }
}

/// What lies between the ends, and what it is called.
pub(super) struct Between {
    pub(super) network: Network,
    pub(super) path: Path,
    pub(super) name: String,
}

impl Between {
    pub(super) fn new(path: Path) -> Result<Self, Error> {
        Ok(Self { network: Network::new(path)?, path, name: path.to_string() })
    }

    /// The loopback interface, and as root virtual Ethernet beside it.
    pub(super) fn all(run: &Run<'_>, veth: Path) -> Result<Vec<Self>, Error> {
        let mut paths = vec![Self::new(Path::Lo)?];
        if rustix::process::geteuid().is_root() {
            paths.push(Self::new(veth)?);
        } else {
            run.output.warn("virtual Ethernet is left out: it needs root");
        }
        Ok(paths)
    }
}

/// All kinds over one path with one size.
pub(super) struct Part<K> {
    pub(super) path: String,
    pub(super) size: usize,
    pub(super) rows: Vec<(K, Row)>,
}

impl<K: Kind> Part<K> {
    /// Measures every size over every path, with whatever idling suits throughput, and prints each part as it comes.
    pub(super) fn of_sizes(
        run: &Run<'_>,
        paths: &[Between],
        sizes: &[usize],
        kinds: &[K],
        print: impl Fn(&Run<'_>, &Self),
    ) -> Result<Vec<Self>, Error> {
        let bar = progress(paths.len() * sizes.len() * kinds.len() * run.effort.rounds as usize);
        let mut parts = Vec::new();
        for between in paths {
            for &size in sizes {
                let part = Self::measure(run, between, (size, IdleChoice::Adaptive), kinds, &bar)?;
                bar.suspend(|| print(run, &part));
                parts.push(part);
            }
        }
        bar.finish_and_clear();
        Ok(parts)
    }

    /// Measures them, in turn.
    pub(super) fn measure(
        run: &Run<'_>,
        between: &Between,
        (size, idle): (usize, IdleChoice),
        kinds: &[K],
        bar: &ProgressBar,
    ) -> Result<Self, Error> {
        let job = |kind: K| kind.job(size, idle, between.path);
        let row = |kind: &K| Row::new(kind.name(), job(*kind)).beside(kind.load());
        let mut rows: Vec<_> = kinds.iter().map(row).collect();
        measure(run, &between.network, &mut rows, bar)?;
        Ok(Self { path: between.name.clone(), size, rows: kinds.iter().copied().zip(rows).collect() })
    }

    pub(super) fn row(&self, kind: K) -> Option<&Row> {
        self.rows.iter().find(|(other, _)| *other == kind).map(|(_, row)| row)
    }

    /// How many times the throughput of `other` that of `kind` is.
    pub(super) fn ratio(&self, kind: K, other: K) -> Option<f64> {
        self.row(kind)?.ratio(self.row(other)?)
    }
}

/// A panel for each path: the throughput of each kind by the size of `what`. `unit` is the name of a path's, and how many
/// Mbit/s it is.
pub(super) fn panels<K: Kind>(
    parts: &[Part<K>],
    kinds: &[K],
    what: &str,
    unit: impl Fn(&str) -> (&'static str, f64),
    is_dashed: impl Fn(K) -> bool,
) -> Vec<Panel> {
    let mut paths: Vec<&str> = parts.iter().map(|part| part.path.as_str()).collect();
    paths.dedup();
    let panel = |path: &str| {
        let (y_name, mbit_s) = unit(path);
        let curve = |&kind: &K| {
            let parts = parts.iter().filter(|part| part.path == path);
            let points = parts.filter_map(|part| Some((part.size as f64, part.row(kind)?.mbit_s()? / mbit_s)));
            let dashed = is_dashed(kind);
            Curve { label: kind.name(), colour: kind.colour(), dashed, dots: !dashed, points: points.collect() }
        };
        Panel {
            title: path.to_owned(),
            x_name: format!("bytes of {what}"),
            y_name: y_name.to_owned(),
            doubling: true,
            curves: kinds.iter().map(curve).collect(),
            dots: Vec::new(),
            mark: None,
        }
    };
    paths.into_iter().map(panel).collect()
}

/// Measures all rows, in turn, `rounds` times.
pub(super) fn measure(run: &Run<'_>, network: &Network, rows: &mut [Row], bar: &ProgressBar) -> Result<(), Error> {
    let rounds = run.effort.rounds;
    for round in 1..=rounds {
        for row in rows.iter_mut() {
            bar.set_message(format!("{}, round {round}", row.label));
            if !row.left_out {
                match once(network, row, run.effort.seconds) {
                    Ok(measured) => row.measured.push(Measured { round, ..measured }),
                    Err(Trouble::Command(error)) => return Err(error),
                    Err(Trouble::Transport(Failure::Unavailable(why))) => {
                        row.left_out = true;
                        bar.suspend(|| run.output.warn(format_args!("{} is left out: {why}", row.label)));
                    }
                    Err(Trouble::Transport(Failure::Failed(why))) => {
                        // What fails at once would fail again.
                        row.left_out = row.measured.is_empty();
                        bar.suspend(|| run.output.warn(format_args!("{}, round {round}: {why}", row.label)));
                    }
                }
            }
            bar.inc(1);
        }
    }
    Ok(())
}

/// Measures once: connects, lets the connection find out what the path carries, and measures.
fn once(network: &Network, row: &mut Row, seconds: f64) -> Result<Measured, Trouble> {
    let mut counters = Counters::start(network, &row.job, row.load)?;
    let mut pair = Pair::start(network, &row.job, Role::Receiver, Role::Sender)?;
    let mut count = match row.count {
        Some(count) => count,
        None => calibrate(&mut pair, seconds)?,
    };
    // As long again before it counts: over a long path a start takes seconds, and shows little of what follows it.
    let took = pair.run(count)?.0.seconds;
    count = ((count as f64 * (seconds / took.max(1e-6)).clamp(0.5, 8.0)).ceil() as u64).max(1);
    loop {
        let ((receiver, sender), counts_per_second) = counters.beside(|| pair.run(count))?;
        row.count = Some(count);
        // It was tried when the connection was young, or unlucky; too few messages say little.
        if receiver.seconds < seconds / 2.0 {
            count = grown(count, receiver.seconds, seconds);
            continue;
        }
        let loss = receiver.loss.unwrap_or_default();
        // What was lost does not count.
        let messages = receiver.delivered.unwrap_or(count);
        let gigabytes = messages as f64 * row.job.size as f64 / 1e9;
        let placed = receiver.placement.filter(|placed| placed.bytes_received > 0);
        return Ok(Measured {
            round: 0,
            mbit_s: gigabytes * 8e3 / receiver.seconds,
            seconds: receiver.seconds,
            messages,
            packets: loss.packets,
            lost: loss.lost,
            longest_run: loss.longest_run,
            repeats: sender.repeats,
            cpu_tx: (sender.user + sender.system) / gigabytes,
            cpu_rx: (receiver.user + receiver.system) / gigabytes,
            copied: placed.map(|placed| placed.bytes_copied as f64 / placed.bytes_received as f64),
            counts_per_second,
        });
    }
}

/// The number of messages that take about so long.
fn calibrate(pair: &mut Pair, seconds: f64) -> Result<u64, Trouble> {
    let mut count = 1;
    loop {
        let took = pair.run(count)?.0.seconds;
        if took >= seconds / 2.0 {
            return Ok(((count as f64 * seconds / took) as u64).max(1));
        }
        count = grown(count, took, seconds * 0.6);
    }
}

/// How many take `seconds`, if `count` took `took`; a first guess may be far off, so not more than eight times as many.
fn grown(count: u64, took: f64, seconds: f64) -> u64 {
    (count as f64 * (seconds / took.max(1e-6)).clamp(1.0, 8.0)).ceil() as u64 + 1
}

/// A job over a path that the library takes for the Internet.
pub(super) fn wan_job(transport: &perf::Transport, size: usize, depth: usize) -> Job {
    Job { depth, cluster: false, ..Job::new(transport, size, IdleChoice::Adaptive, Path::Lo) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::Transport;

    fn row(mbit_s: &[(u32, f64)]) -> Row {
        let mut row = Row::new("x", wan_job(&Transport::Vrp, 100, 2));
        row.measured.extend(mbit_s.iter().map(|&(round, mbit_s)| Measured {
            round,
            mbit_s,
            seconds: 1.0,
            messages: 1,
            packets: 100,
            lost: 3,
            longest_run: Some(round),
            repeats: None,
            cpu_tx: 1.0,
            cpu_rx: 2.0,
            copied: None,
            counts_per_second: None,
        }));
        row
    }

    #[test]
    fn ratios_pair_the_measurements_of_a_round() {
        let (own, other) = (row(&[(1, 10.0), (2, 30.0), (3, 8.0)]), row(&[(1, 5.0), (3, 2.0)]));
        assert_eq!(own.ratio(&other), Some(3.0), "the mean of 2 and 4; the second round has no pair");
        assert_eq!(own.speed(), Some(Speed { mbit_s: 10.0, mbit_s_min: 8.0, mbit_s_max: 30.0 }));
        assert_eq!((own.loss(), own.longest_run(), own.resent()), (Some(0.03), Some(3), None));
        assert_eq!((row(&[]).mbit_s(), row(&[]).loss(), row(&[]).ratio(&own)), (None, None, None));
    }

    #[test]
    fn a_count_grows_to_the_time_asked_for_but_not_beyond_eight_times() {
        assert_eq!((grown(10, 0.5, 1.0), grown(10, 1e-9, 1.0), grown(10, 2.0, 1.0)), (21, 81, 11));
    }
}
