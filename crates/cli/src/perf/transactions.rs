//! `pinnace perf --service transaction`: a request and its response, set-up and close included, against
//! connect-write-read-close of TCP. What counts is the median time.
//!
//! Always true: each exchange is an association, or a connection, of its own, at both ends of every transport.

use super::{Args, Job, Network, Pair, Role, Transport, Trouble, header, progress, size_name, turns};
use crate::exit::Error;
use crate::output::Output;
use serde::Serialize;

/// Exchanges a measurement; a TCP client keeps a port for a minute after each, so not many more.
const EXCHANGES: u64 = 1_000;

/// One transport and size, with the medians of the rounds, in nanoseconds.
type Series = turns::Series<Vec<(u32, f64)>>;

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
        let series = |one| Series::new(Job { each_alone: true, ..args.job(one, size) });
        let mut all = transports.iter().map(series).collect::<Result<Vec<_>, _>>()?;
        turns::take(&mut all, args.rounds, (&bar, output), |round, series| once(&network, series, round))?;
        bar.suspend(|| report(args, output, &all));
        any |= all.first().is_some_and(|xtp| !xtp.times.is_empty());
    }
    bar.finish_and_clear();
    if any { Ok(()) } else { Err(Error::failed("xtp could not be measured")) }
}

/// One round, after some exchanges that do not count.
fn once(network: &Network, series: &mut Series, round: u32) -> Result<(), Trouble> {
    let mut pair = Pair::start(network, &series.job, Role::Pong, Role::Ping)?;
    pair.run(EXCHANGES / 5)?;
    let (_, asking) = pair.run(EXCHANGES)?;
    series.record(&asking.round_trips);
    let mut seen = 0;
    let median = asking.round_trips.iter().find(|(_, times)| {
        seen += times;
        seen * 2 >= EXCHANGES
    });
    series.seen.extend(median.map(|(nanoseconds, _)| (round, *nanoseconds as f64)));
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

/// The median of the rounds' ratios.
fn ratio(own: &Series, other: &Series) -> Option<f64> {
    let of_round = |round| other.seen.iter().find(|(other, _)| *other == round).map(|(_, median)| median);
    let ratios: Vec<f64> = own.seen.iter().filter_map(|(round, median)| Some(median / of_round(*round)?)).collect();
    super::measure::median(ratios).filter(|ratio| ratio.is_finite())
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
            rounds: series.rounds,
            ratio_to: (!is_xtp).then_some(&xtp.job.transport),
            ratio: if is_xtp { None } else { ratio(series, xtp) },
            xtp: is_xtp.then_some(&series.job.xtp),
            event: "round_trips",
        };
        let ratio = ratio(xtp, series).filter(|_| !is_xtp).map_or_else(String::new, |ratio| format!("{ratio:.2}"));
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
