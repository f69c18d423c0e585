//! `pinnace sim`: a transfer over an emulated network, on a virtual clock, with any of the five protocols.
//!
//! Always true: what is printed follows from the arguments alone. The same seed gives the same bytes of output; no clock
//! is read, and nothing is printed that one measured.

mod content;
mod plot;
mod report;
mod subject;
mod tally;
mod timeline;
pub(crate) mod transfer;

use crate::congestion::Congestion;
use crate::exit::{Error, Exit};
use crate::interrupt;
use crate::numbers;
use crate::output::Output;
use crate::units;
use crate::vrp::ContractArgs;
use clap::{ArgGroup, ValueEnum};
use core::time::Duration;
use pinnace_core::ControllerKind;
use pinnace_sim::{ConfigError, NetworkConfig, Outcome};
use std::io::IsTerminal;
use std::path::PathBuf;
use tally::End;
pub(crate) use timeline::Line;
use transfer::{Plan, Transfer};

/// What `--help` says about networks, after the options.
const NETWORKS: &str = "\
Networks are lists of key=value, in any order, everything optional:

  rate=100mbit          bits per second, IP and UDP headers counted (kbit, mbit, gbit)
  queue=1bdp            queue before the bottleneck: 1bdp unless given, 64KiB, or none (endless)
  bucket=5kB            so much passes at once after a pause, as through a token bucket
  ecn=50%               marks packets when the queue is fuller than this
  delay=30ms            one way (ns, us, ms, s, min)
  jitter=5ms            added to the delay, evenly spread; keeps the order
  loss=1%               independent losses
  burst-loss=1%:30%     losses in bursts: how often one begins, and ends, per packet
  train-loss=1%         trains (what one system call sends) lost as a whole
  reorder=1%:5ms        packets held back for a time
  duplicate=0.1%        packets that arrive twice
  corrupt=0.01%         packets with flipped bits, dropped by the checksum
  mtu=1500              largest IP packet; mtu-change=1280@2s for another limit from then on;
                        icmp=no for one that drops silently
  partition=2s..5s      nothing passes from then until then; may be repeated
  adversary=1000        forged datagrams a second from a third address

Examples:
  pinnace sim
  pinnace sim --network rate=1gbit,delay=5ms,burst-loss=0.1%:20% --congestion cubic
  pinnace sim --network rate=20mbit,delay=20ms --back rate=1mbit,delay=40ms,loss=5%
  pinnace sim --network rate=50mbit,delay=10ms,partition=0.5s..2s --trace 30
  pinnace sim --sizes 1KiB,64KiB,4MiB --count 4 --seed 7 --json
  pinnace sim --protocol vrp --size 100kB --count 300 --loss-rate 25% --run 4kB --critical 0..1kB
  pinnace sim --protocol zcrp,vrp,xtp,qmp,a1 --plot five.svg
  pinnace sim --network rate=50mbit,delay=10ms,partition=0.2s..1min     # the path dies: exit code 3

Exit code: 0 if every message arrived, whole or within its contract, and was verified; 3 if a peer counted as gone, 4 if \
content was altered, 1 for any other failure; 2 for bad arguments.";

/// Send messages over an emulated network, repeatable from a seed
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = NETWORKS)]
#[command(group(ArgGroup::new("what").args(["size", "sizes"])))]
pub(crate) struct Args {
    /// The network from the sender to the receiver, and back unless --back is given
    #[arg(long, value_name = "NETWORK", default_value = "rate=100mbit,delay=30ms,loss=1%", value_parser = network)]
    network: Box<NetworkConfig>,
    /// The network from the receiver to the sender
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    back: Option<Box<NetworkConfig>>,
    /// What carries the messages; several after one another over the same network: `zcrp,vrp,xtp,qmp,a1`
    #[arg(long, value_enum, value_delimiter = ',', default_value = "zcrp")]
    protocol: Vec<Protocol>,
    /// Bytes of every message, up to 4GiB less one
    #[arg(long, value_parser = units::size, default_value = "1MiB")]
    size: u32,
    /// Messages of these sizes in turn, instead of one size
    #[arg(long, value_parser = units::size, value_delimiter = ',', value_name = "SIZE,SIZE...")]
    sizes: Vec<u32>,
    /// How many messages; with --sizes, how many of each
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,
    /// Bytes of a datagram at most [default: 1472, less if the MTU of the network is smaller]
    #[arg(long, visible_alias = "unit", value_name = "BYTES", value_parser = clap::value_parser!(u32).range(29..=65_507))]
    datagram: Option<u32>,
    /// What bounds the bytes in transit: `bbr` follows a model of the path, and `bbr:30%` one that loses up to 30 % by
    /// itself, `cubic` takes every loss for congestion, `fixed` and `fixed:64KiB` do neither
    #[arg(long, value_name = "CONTROL", default_value = "bbr")]
    congestion: Congestion,
    /// Bytes in transit at most [default: for `fixed`, what fills the path and half its queue; otherwise no bound]
    #[arg(long, value_name = "BYTES", value_parser = units::size)]
    window: Option<u32>,
    /// Everything random follows from it
    #[arg(long, default_value_t = 1, value_parser = units::seed, allow_negative_numbers = true)]
    seed: u64,
    /// Give up after so many virtual seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0, value_parser = seconds)]
    until: f64,
    /// Print the last N datagrams, with what became of each
    #[arg(long, value_name = "N")]
    trace: Option<usize>,
    /// Write the time line as a figure (PNG if the name ends in .png)
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    contract: ContractArgs,
}

/// Which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// Messages in place
    Zcrp,
    /// Frames, each of which may lose what its contract allows
    Vrp,
    /// A stream with messages in it
    Xtp,
    /// A stream of bytes: a message ends with its last byte
    Qmp,
    /// Messages of a reliable connection
    A1,
}

impl Protocol {
    /// For people.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Zcrp => "ZCRP",
            Self::Vrp => "VRP",
            Self::Xtp => "XTP",
            Self::Qmp => "QMP",
            Self::A1 => "A1",
        }
    }

    /// For programs.
    pub(crate) fn name(self) -> String {
        self.title().to_lowercase()
    }

    /// What it cuts messages into, each a datagram.
    pub(crate) const fn pieces(self) -> &'static str {
        match self {
            Self::Zcrp => "units",
            Self::A1 => "blocks",
            Self::Vrp | Self::Xtp | Self::Qmp => "packets",
        }
    }
}

/// Boxed: it is much larger than the arguments of the other commands.
fn network(text: &str) -> Result<Box<NetworkConfig>, ConfigError> {
    text.parse().map(Box::new)
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("expected seconds, above 0 and at most 86400 (a day)".to_owned()),
    }
}

/// The most bytes of all messages together: both ends' copies are in memory.
const MOST_BYTES: u64 = 2 << 30;

impl Args {
    fn plans(&self) -> Result<Vec<Plan>, String> {
        if !self.protocol.contains(&Protocol::Vrp) && self.contract != ContractArgs::default() {
            return Err("--loss-rate and --critical: only VRP has contracts; add it to --protocol".to_owned());
        }
        let pattern = if self.sizes.is_empty() { std::slice::from_ref(&self.size) } else { &self.sizes };
        let sizes: Vec<u32> = pattern.repeat(self.count as usize);
        let total: u64 = sizes.iter().map(|&size| u64::from(size)).sum();
        if total > MOST_BYTES {
            return Err(format!(
                "{} are too much for one simulation, which keeps both ends' copies in memory: at most {}. Lower --count \
                 or --size.",
                numbers::bytes(total),
                numbers::bytes(MOST_BYTES)
            ));
        }
        let back = self.back.as_ref().unwrap_or(&self.network);
        let mut plan = Plan::new((*self.network).clone(), (**back).clone(), sizes, self.seed);
        plan.until = Duration::from_secs_f64(self.until);
        plan.trace = self.trace.unwrap_or(0);
        if let Some(datagram) = self.datagram {
            plan.datagram = datagram as usize;
        }
        plan.window = self.window;
        plan.congestion = match self.congestion.0 {
            ControllerKind::Fixed { window: u64::MAX } => ControllerKind::Fixed { window: plan.fixed_window() },
            kind => kind,
        };
        let plans = self.protocol.iter().map(|&protocol| {
            let contract = if protocol == Protocol::Vrp { self.contract.clone() } else { ContractArgs::default() };
            Plan { protocol, contract, ..plan.clone() }
        });
        Ok(plans.collect())
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    if let Some(path) = &args.plot {
        crate::picture::check(path)?;
    }
    let plans = args.plans().map_err(Error::usage)?;
    interrupt::install();
    let transfers = plans.iter().map(transfer::run).collect::<Result<Vec<_>, _>>()?;
    if let Some(path) = &args.plot {
        plot::write(path, &transfers)
            .map_err(|error| Error::failed(format!("cannot write {}: {error}", path.display())))?;
    }
    let is_terminal = std::io::stdout().is_terminal();
    output.write(|out| match &transfers[..] {
        all if output.json => all.iter().try_for_each(|transfer| writeln!(out, "{}", report::json(transfer))),
        [transfer] => report::text(out, transfer, is_terminal),
        several => report::table(out, several),
    });
    transfers.iter().try_for_each(verdict)
}

/// The exit code and, if it is not 0, why.
fn verdict(transfer: &Transfer) -> Result<(), Error> {
    if transfer.succeeded() {
        return Ok(());
    }
    let ends = || transfer.messages.iter().flat_map(|message| [&message.sent, &message.received]).flatten();
    let altered = transfer
        .messages
        .iter()
        .any(|end| matches!(&end.received, Some(End { result: Ok(_), .. })) && !end.is_verified());
    let arrived = transfer.messages.iter().filter(|end| end.arrived()).count();
    let what = format!("{}: {arrived} of {} messages arrived", transfer.plan.protocol.title(), transfer.messages.len());
    let gone = ends().find_map(|end| end.result.as_ref().err().filter(|failed| failed.is_peer_gone));
    Err(if altered {
        Error::not_verified(format!("{what}; the content of one was altered"))
    } else if let Some(gone) = gone {
        Error::peer_gone(format!("{what}; {}", gone.why))
    } else if transfer.outcome == Outcome::DeadlineReached {
        Error::failed(format!("{what} when the time was up; --until gives more"))
    } else {
        Error::new(Exit::Failed, what)
    })
}
