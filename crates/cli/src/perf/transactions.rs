//! `pinnace perf --service transaction`: a request and its response, set-up and close included, against
//! connect-write-read-close of TCP. What counts is the median time.
//!
//! Always true: each exchange is an association, or a connection, of its own, at both ends of every transport.

use super::{Args, Failure, Job, Network, Pair, Role, Transport, Trouble, header, progress, size_name};
use crate::exit::Error;
use crate::output::Output;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Exchanges a measurement; a TCP client keeps a port for a minute after each, so not many more.
const EXCHANGES: u64 = 1_000;
/// Nanoseconds that are told apart.
const LONGEST: u64 = 60_000_000_000;

/// One transport and size.
struct Series {
    job: Job,
    times: Histogram<u64>,
    /// Medians of the rounds, in nanoseconds.
    medians: Vec<(u32, f64)>,
    failed: bool,
}

/// One line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    transport: &'a Transport,
    path: String,
    /// Bytes each way.
    size: usize,
    idle: String,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    max_us: f64,
    mean_us: f64,
    count: u64,
    rounds: u32,
    /// The median time, divided by that of this transport: the median of the rounds' ratios.
    ratio_to: Option<&'a Transport>,
    ratio: Option<f64>,
    xtp: Option<&'a super::XtpChoice>,
    event: &'static str,
}

/// Runs it.
pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let network = match &args.wan {
        Some(config) => Network::over(config)?,
        None => Network::new(args.path)?,
    };
    // What has no exchanges of its own is not compared.
    let transports: Vec<Transport> =
        args.transports().into_iter().filter(|one| matches!(one, Transport::Xtp | Transport::Tcp(_))).collect();
    if args.protocol != Transport::Xtp {
        return Err(Error::usage("--service transaction is of xtp: add --protocol xtp"));
    }
    begin(args, output);
    let sizes = args.sizes();
    let bar = progress(sizes.len() * args.rounds as usize * transports.len());
    let mut any = false;
    for size in sizes.iter().map(|size| size.as_u64() as usize) {
        let mut all = transports.iter().map(|one| series(args, one, size)).collect::<Result<Vec<_>, _>>()?;
        for round in 0..args.rounds {
            for series in all.iter_mut().filter(|series| !series.failed) {
                bar.set_message(format!("{} {}, round {}", series.job.transport, size_name(size), round + 1));
                let measured = once(&network, series, round);
                bar.inc(1);
                match measured {
                    Ok(()) => {}
                    Err(Trouble::Command(error)) => return Err(error),
                    Err(Trouble::Transport(Failure::Failed(why) | Failure::Unavailable(why))) => {
                        series.failed = true;
                        let transport = &series.job.transport;
                        bar.suspend(|| output.warn(format_args!("{transport}, {}: {why}", size_name(size))));
                    }
                }
            }
        }
        bar.suspend(|| report(args, output, &all));
        any |= all.first().is_some_and(|xtp| !xtp.times.is_empty());
    }
    bar.finish_and_clear();
    if any { Ok(()) } else { Err(Error::failed("xtp could not be measured")) }
}

fn series(args: &Args, transport: &Transport, size: usize) -> Result<Series, Error> {
    let times =
        Histogram::new_with_bounds(1, LONGEST, 3).map_err(|error| Error::failed(format!("no histogram: {error}")))?;
    let job = Job { each_alone: true, ..args.job(transport, size) };
    Ok(Series { job, times, medians: Vec::new(), failed: false })
}

/// One round, after some exchanges that do not count.
fn once(network: &Network, series: &mut Series, round: u32) -> Result<(), Trouble> {
    let mut pair = Pair::start(network, &series.job, Role::Pong, Role::Ping)?;
    pair.run(EXCHANGES / 5)?;
    let (_, asking) = pair.run(EXCHANGES)?;
    let mut seen = 0;
    let mut median = None;
    for (nanoseconds, times) in asking.round_trips {
        series.times.saturating_record_n(nanoseconds.min(LONGEST), times);
        seen += times;
        if seen * 2 >= EXCHANGES && median.is_none() {
            median = Some(nanoseconds as f64);
        }
    }
    series.medians.extend(median.map(|median| (round, median)));
    Ok(())
}

fn begin(args: &Args, output: &Output) {
    if output.json {
        return;
    }
    let text = format!(
        "{}\n# path {}, idle {}, {}, interleaved; xtp: {}; the time of a request and its response of so many bytes \
         each, set-up and close included, in us; xtp/x: times the time of x\n{:>9}  {:<12} {:>9} {:>9} {:>9} {:>9} {:>8}  {:>8}",
        header(),
        args.path_name(),
        args.idle,
        crate::units::count_of(u64::from(args.rounds), "round"),
        args.xtp(),
        "size",
        "transport",
        "p50",
        "p90",
        "p99",
        "max",
        "count",
        "xtp/x",
    );
    output.result(text, &());
}

impl Series {
    /// The median of the rounds' ratios to `other`.
    fn ratio(&self, other: &Self) -> Option<f64> {
        let of_round = |round| other.medians.iter().find(|(other, _)| *other == round).map(|(_, median)| median);
        let ratios: Vec<f64> =
            self.medians.iter().filter_map(|(round, median)| Some(median / of_round(*round)?)).collect();
        super::measure::median(ratios).filter(|ratio| ratio.is_finite())
    }
}

fn report(args: &Args, output: &Output, all: &[Series]) {
    let Some(xtp) = all.first() else { return };
    for series in all.iter().filter(|series| !series.times.is_empty()) {
        let is_xtp = series.job.transport == Transport::Xtp;
        let at = |quantile| series.times.value_at_quantile(quantile) as f64 / 1000.0;
        let line = Line {
            transport: &series.job.transport,
            path: args.path_name(),
            size: series.job.size,
            idle: series.job.idle.to_string(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            max_us: series.times.max() as f64 / 1000.0,
            mean_us: series.times.mean() / 1000.0,
            count: series.times.len(),
            rounds: args.rounds,
            ratio_to: (!is_xtp).then_some(&xtp.job.transport),
            ratio: if is_xtp { None } else { series.ratio(xtp) },
            xtp: is_xtp.then_some(&series.job.xtp),
            event: "round_trips",
        };
        let ratio = xtp.ratio(series).filter(|_| !is_xtp).map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let text = format!(
            "{:>9}  {:<12} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>8}  {ratio:>8}",
            size_name(line.size),
            line.transport.to_string(),
            line.p50_us,
            line.p90_us,
            line.p99_us,
            line.max_us,
            line.count,
        );
        output.result(text, &line);
    }
}
