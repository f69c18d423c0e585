//! `pinnace ping`: round trips by message size, against TCP, in the same run, interleaved.
//!
//! Both ends are processes of their own, on this host (over loopback or virtual Ethernet) or with the far one on another
//! host, where `pinnace ping --listen` runs. ZCRP is two instances on one socket, with receives posted ahead, so that the
//! request is there before the peer wants to send; TCP has TCP_NODELAY. For each size and each round every transport
//! has its turn; the round trips of all rounds are one distribution.

mod listen;

use crate::address::{resolve, resolve_peer};
use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::perf::{
    self, IdleChoice, Job, Network, Pair, Path, PrivateDaemon, QmpChoice, Role, Transport, Trouble, Words, check_size,
    header, named, size_name, turns,
};
use crate::qmp::{LinkName, Wire};
use crate::transport;
use crate::units::count_of;
use bytesize::ByteSize;
use clap::Parser;
use clap::builder::ArgPredicate;
use serde::Serialize;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pinnace ping                                         over loopback, beside TCP
  pinnace ping --sizes 64,64KiB --against tcp,qmp --count 5000
  pinnace ping --listen 0.0.0.0:7166                   on the other host
  pinnace ping --to 192.0.2.7:7166                     and from here";

/// Measure round trips by message size, against TCP; alone, over the loopback interface
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Answer the pings of other hosts, at this address, until Ctrl-C
    #[arg(long, value_name = "[HOST:]PORT", value_parser = transport::local, conflicts_with_all = ["to", "path"])]
    listen: Option<String>,
    /// Ping this host, where `pinnace ping --listen` runs
    #[arg(long, value_name = "HOST:PORT", value_parser = transport::address, conflicts_with = "path")]
    to: Option<String>,
    /// Ping over this path on this host; all but lo need root
    #[arg(long, value_enum, default_value_t = Path::Lo)]
    path: Path,
    /// The transport to measure
    #[arg(long, default_value = "zcrp", default_value_if("service", ArgPredicate::IsPresent, "service"))]
    protocol: Transport,
    /// What is needed, in words like 'deadline=50ms' (then --protocol is `service`, the one interface)
    #[arg(long, value_name = "WORDS")]
    service: Option<Words>,
    /// What to compare it with: tcp (the system's congestion control), tcp-cubic, tcp-bbr, zcrp, vrp, xtp, qmp, a1,
    /// service, service-METHOD, udp (a bare loop with the same datagrams, which repeats nothing: the floor)
    #[arg(long, value_delimiter = ',', default_value = "tcp")]
    against: Vec<Transport>,
    /// Message sizes
    #[arg(long, value_delimiter = ',', default_value = "16,1KiB,1MiB")]
    sizes: Vec<ByteSize>,
    /// Round trips of each transport and size
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    count: u64,
    /// Turns of each transport, into which the round trips are divided
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// What a waiting thread does, at both ends of every transport
    #[arg(long, value_enum, default_value_t = IdleChoice::Adaptive)]
    idle: IdleChoice,
    /// What the compared transports do instead, if not the same
    #[arg(long, value_enum)]
    against_idle: Option<IdleChoice>,
    /// Report half of each round trip
    #[arg(long, conflicts_with = "full")]
    half: bool,
    /// Report whole round trips (the default)
    #[arg(long)]
    full: bool,
    /// Between hosts: the network is closed, so ZCRP needs no congestion control
    #[arg(long, requires = "to")]
    cluster: bool,
    /// What carries the packets of qmp
    #[arg(long, value_enum, default_value_t)]
    link: LinkName,
    /// Copy each message of qmp, instead of passing the ownership of the buffer that holds it
    #[arg(long)]
    no_qbuf: bool,
    /// Poll the network device for so many microseconds (SO_BUSY_POLL), on every socket
    #[arg(long, value_name = "MICROSECONDS", num_args = 0..=1, default_value_t = 0, default_missing_value = "50")]
    busy_poll: u32,
}

/// All round trips of one transport with one size, and the method that was chosen, where there was a choice.
type Series = turns::Series<Option<String>>;

/// One line of `--json`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    transport: &'a Transport,
    path: String,
    size: usize,
    idle: String,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    mean_us: f64,
    count: u64,
    half: bool,
    /// Another transport, and how many times its median this one's is.
    ratio_to: Option<&'a Transport>,
    ratio: Option<f64>,
    rounds: u32,
    method: Option<&'a str>,
    event: &'static str,
}

/// Runs `pinnace ping`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    interrupt::install();
    if let Some(address) = &args.listen {
        return listen::run(resolve(address)?, output);
    }
    for size in &args.sizes {
        check_size(*size)?;
    }
    let transports = transports(args);
    if args.service.is_some() && !transports.iter().any(|transport| matches!(transport, Transport::Service(_))) {
        return Err(Error::usage("only `service` takes words: add --protocol service, or service to --against"));
    }
    if (args.link != LinkName::default() || args.no_qbuf) && !transports.contains(&Transport::Qmp) {
        return Err(Error::usage("only qmp has --link and --no-qbuf: add --protocol qmp, or qmp to --against"));
    }
    perf::check_link(args.link, false, args.path, args.to.is_some())?;
    let network = network(args)?;
    if !output.json {
        begin(args, output);
    }
    let progress = perf::progress(args.sizes.len() * args.rounds as usize * transports.len());
    let mut any = false;
    for size in args.sizes.iter().map(|size| size.as_u64() as usize) {
        let shared = if args.link == LinkName::Shm { Some(PrivateDaemon::start(size)?) } else { None };
        let daemon = shared.as_ref().map(|daemon| daemon.path().to_owned());
        let mut series = Vec::new();
        for transport in &transports {
            let job = Job { daemon: daemon.clone(), ..job(args, transport, size) };
            series.push(Series::new(job)?);
        }
        turns::take(&mut series, args.rounds, (&progress, output), |round, series| {
            once(&network, args, round, series)
        })?;
        progress.suspend(|| report(args, output, &series));
        any |= series.iter().any(|series| series.job.transport == args.protocol && !series.times.is_empty());
    }
    progress.finish_and_clear();
    if any { Ok(()) } else { Err(Error::failed(format!("{} could not be measured", args.protocol))) }
}

fn network(args: &Args) -> Result<Network, Error> {
    let Some(to) = &args.to else { return Network::new(args.path) };
    Ok(Network::to(resolve_peer(to)?))
}

/// The transport measured, and then those that it is compared with, each once.
fn transports(args: &Args) -> Vec<Transport> {
    let mut transports = vec![args.protocol.clone()];
    for transport in &args.against {
        if !transports.contains(transport) {
            transports.push(transport.clone());
        }
    }
    transports
}

fn job(args: &Args, transport: &Transport, size: usize) -> Job {
    let idle = if *transport == args.protocol { args.idle } else { args.against_idle.unwrap_or(args.idle) };
    let mut job = Job { busy_poll: args.busy_poll, ..Job::new(transport, size, idle, args.path) };
    job.qmp = QmpChoice { wire: Wire { link: args.link, ..Wire::default() }, no_qbuf: args.no_qbuf };
    job.service = args.service.clone().unwrap_or_default();
    if args.to.is_some() {
        job.cluster = args.cluster;
    }
    job
}

/// Round trips that open the way, and as many that tell how long the others may take.
const FIRST: u64 = 5;

/// One round's share of the round trips, after a few that do not count.
fn once(network: &Network, args: &Args, round: u32, series: &mut Series) -> Result<(), Trouble> {
    let rounds = u64::from(args.rounds);
    let count = args.count / rounds + u64::from(u64::from(round) < args.count % rounds);
    if count == 0 {
        return Ok(());
    }
    let mut pair = Pair::start(network, &series.job, Role::Pong, Role::Ping)?;
    pair.run(FIRST)?;
    let begun = Instant::now();
    pair.run(FIRST)?;
    // The others may take as long each, and a few times that where the path is at its worst.
    let slow: Duration = 4 * begun.elapsed() / FIRST as u32;
    let warm = count.div_ceil(10).clamp(2 * FIRST, 200) - 2 * FIRST;
    if warm > 0 {
        pair.expect(slow.saturating_mul(warm as u32));
        pair.run(warm)?;
    }
    pair.expect(slow.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)));
    let (_, pinging) = pair.run(count)?;
    series.seen = pinging.method;
    series.record(&pinging.round_trips);
    Ok(())
}

fn place(args: &Args) -> String {
    args.to.clone().unwrap_or_else(|| args.path.to_string())
}

fn begin(args: &Args, output: &Output) {
    let others = args.against_idle.map_or_else(String::new, |idle| format!(" (others: {idle})"));
    let cluster = args.to.is_none() || args.cluster;
    let profile = if cluster { "cluster (closed network)" } else { "internet" };
    let what = if args.half { "half round trips" } else { "round trips" };
    let Args { idle, protocol, .. } = args;
    let rounds = count_of(u64::from(args.rounds), "round");
    let text = format!(
        "{}\n# path {}, idle {idle}{others}, {rounds}, interleaved; zcrp profile {profile}; {what} in us; \
         {protocol}/x: times the median of x\n{:>9}  {:<12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}  {:>8}",
        header(),
        place(args),
        "size",
        "transport",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "count",
        format!("{protocol}/x"),
    );
    output.result(text, &());
}

fn report(args: &Args, output: &Output, all: &[Series]) {
    let median = |series: &Series| series.times.value_at_quantile(0.5) as f64;
    let protocol = all.iter().find(|series| series.job.transport == args.protocol && !series.times.is_empty());
    for series in all.iter().filter(|series| !series.times.is_empty()) {
        let own = series.job.transport == args.protocol;
        let unit = if args.half { 2000.0 } else { 1000.0 };
        let at = |quantile| series.times.value_at_quantile(quantile) as f64 / unit;
        // The measured transport has a line for each that it is compared with.
        let others: Vec<Option<&Series>> = if own && output.json && all.len() > 1 {
            all.iter()
                .filter(|other| other.job.transport != args.protocol && !other.times.is_empty())
                .map(Some)
                .collect()
        } else {
            vec![protocol.filter(|_| !own)]
        };
        for other in if others.is_empty() { vec![None] } else { others } {
            let line = Line {
                transport: &series.job.transport,
                path: place(args),
                size: series.job.size,
                idle: series.job.idle.to_string(),
                p50_us: at(0.5),
                p90_us: at(0.9),
                p99_us: at(0.99),
                p999_us: at(0.999),
                max_us: series.times.max() as f64 / unit,
                mean_us: series.times.mean() / unit,
                count: series.times.len(),
                half: args.half,
                ratio_to: other.map(|other| &other.job.transport),
                ratio: other.map(|other| median(series) / median(other)),
                rounds: series.rounds,
                method: series.seen.as_deref(),
                event: "round_trips",
            };
            let ratio = other.map_or_else(String::new, |other| format!("{:.2}", median(other) / median(series)));
            let text = format!(
                "{:>9}  {:<12} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>8}  {ratio:>8}",
                size_name(line.size),
                named(line.transport, line.method),
                line.p50_us,
                line.p90_us,
                line.p99_us,
                line.p999_us,
                line.max_us,
                line.count,
            );
            output.result(text, &line);
        }
    }
}
