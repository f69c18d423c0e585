//! `pinnace perf`: throughput against other transports, in the same run, interleaved.
//!
//! Messages are queued asynchronously; the clock is the receiver's, from before the first receive to after the last
//! wait (as in the paper). Sender and receiver are processes of their own. For each size and each round every transport
//! has its turn, so that the phases of a busy machine hit all of them; what counts is the median, and the ratio.

mod a1;
mod daemon;
mod host;
mod measure;
mod network;
mod plot;
mod process;
mod protocol;
mod qmp;
mod report;
mod sending;
mod service;
mod tcp;
mod transactions;
pub(crate) mod turns;
mod udp;
mod vrp;
mod waiter;
mod worker;
mod xtp;
mod zcrp;

use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::qmp::{LinkName, Wire};
use crate::vrp::ContractArgs;
use crate::wan;
use crate::xtp::{LinkName as XtpLink, ServiceName};
use bytesize::ByteSize;
use clap::Parser;
use clap::builder::ArgPredicate;
use measure::Series;
use socket2::SockRef;
use std::path::PathBuf;
use std::time::Duration;
use waiter::Waiter;

pub(crate) use a1::Choice as A1Choice;
pub(crate) use daemon::PrivateDaemon;
pub(crate) use host::header;
pub(crate) use measure::{median, span};
pub(crate) use network::{Host, Network, Path};
pub(crate) use process::{Counters, Pair, Trouble};
pub(crate) use protocol::{IdleChoice, Job, Ran, Repeats, Role, Transport};
pub(crate) use qmp::Choice as QmpChoice;
pub(crate) use report::{named, progress};
pub(crate) use service::Words;

pub(crate) use worker::{Failure, run as run_worker};
pub(crate) use xtp::Choice as XtpChoice;

/// Message sizes, unless others are said.
const SIZES: &str = "1KiB,16KiB,64KiB,1MiB,16MiB";

const EXAMPLES: &str = "\
Examples:
  pinnace perf --sizes 64KiB,1MiB
  pinnace perf --protocol vrp --loss-rate 10% --run 4KiB --critical 0..1KiB --frame 100KB
  sudo pinnace perf --protocol vrp --loss-rate 25% --run 4kB --critical 0..1kB --frame 100KB \\
      --against tcp-cubic,tcp-bbr --wan rate=100mbit,rtt=60ms,loss=1%
  pinnace perf --service 'size=1MiB in-place=yes' --against zcrp,tcp-cubic
  pinnace perf --protocol service-zcrp --against zcrp      what the one interface costs
  pinnace perf --protocol xtp --service bulk-data --size 16384
  pinnace perf --protocol xtp --service transaction --size 100
  pinnace perf --protocol a1 --sizes 64,1KiB,16KiB --block 9kB --window 160kB
  pinnace perf --protocol a1 --mode raw --rate 50mbit --burst 64KiB --priority 0 --size 1400
  sudo pinnace perf --protocol qmp --link ip36 --sizes 64KiB,1MiB --path veth100m

Gbit/s counts whole messages. Of VRP's frames a part may be lost with permission: `lost` (in JSON `loss`) is the share \
of their packets that was lost for good. TCP loses nothing.";

/// Measure throughput and processor time against other transports, interleaved in one run
#[derive(Clone, Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The transport to measure
    #[arg(long, default_value = "zcrp", default_value_if("service", ArgPredicate::IsPresent, "service"))]
    protocol: Transport,
    /// What to compare it with: tcp (the system's congestion control), tcp-cubic, tcp-bbr, tcp-batched (256 KiB a write),
    /// zcrp, vrp, xtp, qmp, a1, service (the one interface), service-METHOD (by this method), udp (a bare loop with the
    /// same datagrams, the ceiling)
    #[arg(long, value_delimiter = ',', default_value = "tcp-cubic,tcp-bbr,udp")]
    against: Vec<Transport>,
    /// Message sizes
    #[arg(long, visible_alias = "size", value_delimiter = ',', default_value = SIZES)]
    sizes: Vec<ByteSize>,
    /// One size, in the words of VRP, whose messages are frames
    #[arg(long, value_name = "SIZE", conflicts_with = "sizes")]
    frame: Option<ByteSize>,
    /// Measurements of each transport and size
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// What lies between sender and receiver; all but lo need root
    #[arg(long, value_enum, default_value_t = Path::Lo)]
    path: Path,
    /// An emulated link between sender and receiver instead, as of `pinnace wan`; needs root
    #[arg(long, value_name = "rate=100mbit,rtt=60ms,loss=1%", conflicts_with = "path")]
    wan: Option<wan::Config>,
    /// What a waiting thread does, at both ends of every transport
    #[arg(long, value_enum, default_value_t = IdleChoice::Adaptive)]
    idle: IdleChoice,
    /// What the compared transports do instead, if not the same
    #[arg(long, value_enum)]
    against_idle: Option<IdleChoice>,
    /// Run N processes that use all the processor time they get beside it, and say how often they count; `both` measures without
    /// and with one
    #[arg(long, value_name = "N|both", num_args = 0..=1, default_missing_value = "1")]
    load: Option<Load>,
    /// Time for each measurement; 0.4 unless given, 5 over an emulated link
    #[arg(long)]
    seconds: Option<f64>,
    /// Bytes for each measurement, instead of a time
    #[arg(long, conflicts_with = "seconds")]
    bytes: Option<ByteSize>,
    /// Bytes queued at a time, in messages of their own buffers (2 to 512, of vrp 1024) [default: 1 MiB; over an emulated
    /// link what fills it and its queue for some round trips, at most 64 MiB]
    #[arg(long)]
    in_flight: Option<ByteSize>,
    /// Poll the network device for so many microseconds (SO_BUSY_POLL), on every socket
    #[arg(long, value_name = "MICROSECONDS", num_args = 0..=1, default_value_t = 0, default_missing_value = "50")]
    busy_poll: u32,
    /// Draw message size against throughput into this file (PNG if it ends in .png)
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    contract: ContractArgs,
    #[command(flatten)]
    sending: sending::SendingArgs,
    /// What carries the packets of xtp and qmp
    #[arg(long, value_enum, default_value_t, help_heading = "XTP and QMP")]
    link: LinkName,
    /// Go-back-N instead of selective retransmission
    #[arg(long, help_heading = "XTP and QMP")]
    go_back_n: bool,
    #[command(flatten)]
    xtp: xtp::ChoiceArgs,
    /// Of so many consecutive packets with data one asks the receiver for its status [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "QMP")]
    status_every: Option<u32>,
    /// Copy each message to and from the transport, instead of passing the ownership of the buffer that holds it
    #[arg(long, help_heading = "QMP")]
    no_qbuf: bool,
}

/// What runs beside the measurements.
#[derive(Clone, Copy, Debug)]
enum Load {
    Processes(u32),
    Both,
}

impl std::str::FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("both", _) => Ok(Self::Both),
            (_, Ok(processes)) if processes <= 1024 => Ok(Self::Processes(processes)),
            _ => Err("a number of processes, or `both`".into()),
        }
    }
}

impl Args {
    fn loads(&self) -> Vec<u32> {
        match self.load {
            None => vec![0],
            Some(Load::Processes(processes)) => vec![processes],
            Some(Load::Both) => vec![0, 1],
        }
    }

    /// The transport measured, and then those that it is compared with, each once.
    fn transports(&self) -> Vec<Transport> {
        let mut transports = vec![self.protocol.clone()];
        for transport in &self.against {
            if !transports.contains(transport) {
                transports.push(transport.clone());
            }
        }
        transports
    }

    fn sizes(&self) -> Vec<ByteSize> {
        self.frame.map_or_else(|| self.sizes.clone(), |size| vec![size])
    }

    /// What the one interface is asked for.
    fn words(&self) -> Words {
        self.xtp.words().cloned().unwrap_or_default()
    }

    /// With what words of a service mean: the one interface, and messages of the size that they say.
    fn settled(&self) -> Result<Self, Error> {
        let mut args = self.clone();
        let Some(words) = self.xtp.words() else {
            if self.xtp.is_of_xtp() && args.protocol == Transport::Service(None) {
                // It names a service of xtp's.
                args.protocol = Transport::Zcrp;
            }
            return Ok(args);
        };
        let is_service = |transport: &Transport| matches!(transport, Transport::Service(_));
        if !args.transports().iter().any(is_service) {
            return Err(Error::usage("only `service` takes words: add --protocol service, or service to --against"));
        }
        let is_default = SIZES.split(',').map(str::parse::<ByteSize>).eq(args.sizes.iter().map(|size| Ok(*size)));
        if let (Some(size), true) = (words.size(), is_default) {
            args.sizes = vec![ByteSize::b(size)];
        }
        Ok(args)
    }

    /// Bytes queued at a time.
    fn in_flight(&self) -> ByteSize {
        // A frame is announced, sent and repaired, and waits in a queue: several round trips, all of them filled.
        let fills = |wan: &wan::Config| wan.window_bytes().saturating_mul(4);
        let default = || ByteSize::b(self.wan.as_ref().map_or(0, fills).clamp(1 << 20, 64 << 20));
        self.in_flight.unwrap_or_else(default)
    }

    fn job(&self, transport: &Transport, size: usize) -> Job {
        let most = if *transport == Transport::Vrp { 1024 } else { 512 };
        let depth = (self.in_flight().as_u64() as usize / size.max(1)).clamp(2, most);
        let idle = if *transport == self.protocol { self.idle } else { self.against_idle.unwrap_or(self.idle) };
        let job = Job { depth, busy_poll: self.busy_poll, ..Job::new(transport, size, idle, self.path) };
        let job = Job { cluster: job.cluster && self.wan.is_none(), ..job };
        match transport {
            Transport::Xtp => Job { xtp: self.xtp(), ..job },
            Transport::Qmp => Job { qmp: self.qmp(), ..job },
            Transport::Vrp => Job { contract: self.contract.clone(), packets: self.sending.packets(), ..job },
            Transport::A1 => Job { a1: self.sending.a1(), ..job },
            Transport::Service(_) => Job { service: self.words(), ..job },
            // The ceiling of what is measured: the same datagrams.
            Transport::Udp if self.protocol == Transport::A1 => {
                Job { udp: Some(self.sending.a1().datagrams(self.in_flight().as_u64())), ..job }
            }
            _ => job,
        }
    }

    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.wan.is_some() { 5.0 } else { 0.4 })
    }

    /// The path as the results name it.
    fn path_name(&self) -> String {
        self.wan.as_ref().map_or_else(|| self.path.to_string(), |config| format!("wan:{config}"))
    }

    /// How XTP is used.
    fn xtp(&self) -> xtp::Choice {
        let link = if self.link == LinkName::Ip36 { XtpLink::Ip36 } else { XtpLink::Udp };
        self.xtp.with(link, self.go_back_n)
    }

    /// How QMP is used.
    fn qmp(&self) -> qmp::Choice {
        let wire = Wire { link: self.link, status_every: self.status_every, go_back_n: self.go_back_n };
        qmp::Choice { wire, no_qbuf: self.no_qbuf }
    }

    fn check(&self) -> Result<(), Error> {
        for size in self.sizes() {
            check_size(size)?;
            self.contract.contract(size.as_u64())?;
        }
        self.sending.check(&self.transports())?;
        if self.contract != ContractArgs::default() && !self.transports().contains(&Transport::Vrp) {
            return Err(Error::usage(
                "only vrp has a contract and options of its own: add --protocol vrp, or vrp to --against",
            ));
        }
        let (has_xtp, has_qmp) =
            (self.transports().contains(&Transport::Xtp), self.transports().contains(&Transport::Qmp));
        if self.xtp.is_of_xtp() && !has_xtp {
            return Err(Error::usage("only xtp has services and codecs: add --protocol xtp, or xtp to --against"));
        }
        check_link(self.link, has_xtp, self.path, self.wan.is_some())?;
        if (self.link != LinkName::default() || self.go_back_n) && !has_xtp && !has_qmp {
            return Err(Error::usage(
                "only xtp and qmp have links and go-back-N: add --protocol xtp or --protocol qmp, or one to --against",
            ));
        }
        if (self.status_every.is_some() || self.no_qbuf) && !has_qmp {
            return Err(Error::usage(
                "only qmp has --no-qbuf and --status-every: add --protocol qmp, or qmp to --against",
            ));
        }
        if !(0.001..=60.0).contains(&self.seconds()) {
            return Err(Error::usage("--seconds must be between 0.001 and 60"));
        }
        if self.in_flight.is_some_and(|bytes| bytes.as_u64() == 0) {
            return Err(Error::usage("--in-flight: without bytes under way nothing can be measured"));
        }
        Ok(())
    }
}

/// Fails unless messages of this size can be measured.
pub(crate) fn check_size(size: ByteSize) -> Result<(), Error> {
    if (1..=1 << 30).contains(&size.as_u64()) {
        return Ok(());
    }
    Err(Error::usage(format!("a message of {size} cannot be measured: sizes are 1 B to 1 GiB")))
}

/// Fails unless QMP, and XTP if it is measured too, can go over this link on this path.
pub(crate) fn check_link(link: LinkName, has_xtp: bool, path: Path, is_elsewhere: bool) -> Result<(), Error> {
    let wrong = match link {
        LinkName::Ether | LinkName::Shm if has_xtp => "is of qmp: xtp has udp and ip36",
        LinkName::Ether if path == Path::Lo => "needs Ethernet: add --path veth1500, or another veth",
        LinkName::Shm if path != Path::Lo || is_elsewhere => "joins processes of one host: leave the path out",
        _ => return Ok(()),
    };
    Err(Error::usage(format!("--link {link} {wrong}")))
}

/// A size as people write it.
pub(crate) fn size_name(size: usize) -> String {
    ByteSize::b(size as u64).display().iec().to_string().replace(".0 ", " ")
}

/// Runs `pinnace perf`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let args = &args.settled()?;
    args.check()?;
    interrupt::install();
    if let Some(file) = &args.plot {
        crate::picture::check(file)?;
    }
    if args.xtp().service == ServiceName::Transaction {
        return transactions::run(args, output);
    }
    let mut network = match &args.wan {
        Some(config) => Network::over(config)?,
        None => Network::new(args.path)?,
    };
    let mut transports = args.transports();
    let loads = args.loads();
    let report = report::Report::new(args, output);
    report.begin();
    let sizes = args.sizes();
    let progress = progress(sizes.len() * (args.rounds as usize + 1) * transports.len() * loads.len());
    let mut plotted = Vec::new();
    for size in sizes.iter().map(|size| size.as_u64() as usize) {
        let shared = if args.link == LinkName::Shm { Some(PrivateDaemon::start(size)?) } else { None };
        let daemon = shared.as_ref().map(|daemon| daemon.path().to_owned());
        let mut series: Vec<Series> = Vec::new();
        for load in &loads {
            let job = |transport| Job { daemon: daemon.clone(), ..args.job(transport, size) };
            series.extend(transports.iter().map(|transport| Series::new(job(transport), *load)));
        }
        // Round 0 finds out how many messages a measurement takes, and warms the machine up.
        for round in 0..=args.rounds {
            for series in series.iter_mut().filter(|series| !series.failed) {
                progress.set_message(format!("{} {}, round {round}", series.job.transport, size_name(size)));
                let measured = measure::once(&network, args, series);
                progress.inc(1);
                match measured {
                    Ok(measured) => series.add(round, &measured),
                    Err(trouble) => {
                        let failure = trouble.of_transport()?;
                        series.failed = round == 0;
                        progress.suspend(|| report::trouble(output, series, &failure));
                        // What the host does not have it will not have for the next size either.
                        if let (Failure::Unavailable(_), false) = (&failure, series.job.transport == args.protocol) {
                            transports.retain(|transport| *transport != series.job.transport);
                        }
                    }
                }
            }
        }
        progress.suspend(|| report.size(&series));
        plotted.extend(series);
    }
    progress.finish_and_clear();
    if let Some(report) = network.finish_emulator() {
        for line in report.map_err(Error::failed)?.lines() {
            output.note(line);
        }
    }
    if let Some(file) = &args.plot {
        plot::throughput(file, args, &plotted)?;
        output.note(format_args!("the figure is in {}", file.display()));
    }
    let any = plotted.iter().any(|series| series.job.transport == args.protocol && !series.measured.is_empty());
    if any { Ok(()) } else { Err(Error::failed(format!("{} could not be measured", args.protocol))) }
}

/// Polls the device for so long in every read; 0 leaves the socket alone.
fn set_busy_poll(socket: &SockRef<'_>, microseconds: u32) -> Result<(), Failure> {
    if microseconds == 0 {
        return Ok(());
    }
    socket
        .set_busy_poll(microseconds)
        .map_err(|error| Failure::Unavailable(format!("busy polling needs CAP_NET_ADMIN: run with sudo ({error})")))
}

/// Times `count` exchanges.
fn round_trips(count: u64, mut once: impl FnMut(u64) -> Result<Duration, Failure>) -> Result<Ran, Failure> {
    let mut times = std::collections::BTreeMap::new();
    for number in 0..count {
        let nanoseconds = u64::try_from(once(number)?.as_nanos()).unwrap_or(u64::MAX);
        *times.entry(nanoseconds).or_insert(0) += 1;
    }
    Ok(Ran { round_trips: times.into_iter().collect(), ..Ran::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bare_loop_sends_the_datagrams_of_what_is_measured() {
        let udp = |words: &str| {
            let args = Args::try_parse_from(words.split(' ')).unwrap();
            args.job(&Transport::Udp, 16_384).udp
        };
        assert_eq!(udp("perf --protocol a1 --block 9kB --window 160kB"), Some((9000, 160_000)));
        assert_eq!(udp("perf --protocol a1"), Some((0, 1 << 20)));
        assert_eq!(udp("perf --protocol zcrp --against udp,a1 --block 9kB"), None);
    }
}
