//! `pinnace experiment`: the experiments of the papers, each repeated by one command that draws its figure.
//!
//! Always true: what is compared takes its turns in one run on the same links, a fresh pair of processes each time; what
//! the paper measured stands beside it, and is never mixed with what was measured here.

mod a1;
mod catenation;
mod checksums;
mod clock;
mod copies;
mod figure;
mod lan;
mod measure;
mod messages;
mod qmp;
mod retransmission;
mod round_trips;
mod sizes;
mod timeouts;
mod verdicts;
mod wan;
mod zcrp;

use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::picture::{self, Figure};
use clap::{Parser, ValueEnum};
use measure::Effort;
use std::fmt;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  sudo pinnace experiment e-v1 --plot table1.svg     VRP and TCP over six paths, some ten minutes
  sudo pinnace experiment e-v3 --quick               a taste of it, in less than a minute
  pinnace experiment e-v4 --json                     simulated: the same numbers every time
  pinnace experiment e-x1 --plot checksums.svg       the XTP paper's checksums, beside Pinnace's
  sudo pinnace experiment e-q1 --plot figure4.svg    QMP with and without QBUF at 100 Mbit/s
  sudo pinnace experiment e-a1 --plot figure2.svg    A1's throughput by block size
  sudo pinnace experiment e-z2 --plot load.svg       ZCRP and TCP beside a process that burns the processor

e-z1 to e-z3 are of the ZCRP paper, e-v1 to e-v5 of the VRP paper, e-x1 to e-x4 of the XTP paper, e-q1 to e-q3 of the QMP \
paper, e-a1 and e-a2 of the A1 paper. All of VRP's but e-v4, and QMP's e-q1 and e-q2, make network namespaces, and so need \
root; of the others none does (e-z1 to e-z3, e-x3, e-q3, e-a1 and e-a2 do more as root).";

/// Repeat an experiment of the papers, beside the kernel's TCP where the paper has it, and draw its figure
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Which one
    #[arg(value_enum)]
    experiment: Experiment,
    /// Little of everything, in less than a minute: shows that it works
    #[arg(long)]
    quick: bool,
    /// Measurements of each row [default: 3, of e-v5 7, of e-z1, e-z2, e-x3, e-q1 to e-q3, e-a1 and e-a2 5, of e-v4 and e-x4 20 seeds, of e-x1 and e-x2 151; 1 or a few with
    /// --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Draw the figure into this file (PNG if it ends in .png)
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// The experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// ZCRP, figures 13 to 26: throughput by message size, 1 KiB to 64 MiB, against TCP
    #[value(name = "e-z1")]
    Passing,
    /// ZCRP, figures 27 to 30: the same with and without a process that competes for the processor
    #[value(name = "e-z2")]
    Loaded,
    /// ZCRP, the consistency test: every byte of every message checked
    #[value(name = "e-z3")]
    Consistency,
    /// Table 1: frames of 100 kB over lossy paths (25 %, 4 kB in a row, the first kilobyte critical), against TCP
    #[value(name = "e-v1")]
    Contract,
    /// Section 4.2.3: the same, and nothing may be lost
    #[value(name = "e-v2")]
    Reliable,
    /// Figure 12 and section 2.5.3: throughput by packet size and by window
    #[value(name = "e-v3")]
    Sizes,
    /// Figure 11: how the time-out follows the round trip over 3000 packets, simulated
    #[value(name = "e-v4")]
    Timeouts,
    /// Section 4.1: throughput on a LAN, against TCP
    #[value(name = "e-v5")]
    Lan,
    /// XTP, tables 3.1 and 3.2: speeds of the checksums, the paper's and Pinnace's, alone and with a copy
    #[value(name = "e-x1")]
    Checksums,
    /// XTP, table 3.3: the checksum of a packet that was put together, or changed, in constant time
    #[value(name = "e-x2")]
    Catenation,
    /// XTP, tables 3.4 to 3.6: throughput by message size over UDP, TCP and XTP
    #[value(name = "e-x3")]
    Messages,
    /// XTP, announced and not done in the paper: go-back-N against selective retransmission, simulated
    #[value(name = "e-x4")]
    Retransmission,
    /// QMP, figure 4: bandwidth on a link of 100 Mbit/s with and without QBUF, against TCP
    #[value(name = "e-q1")]
    Bandwidth,
    /// QMP, figures 5 and 6: throughput by message size, 100 bytes to 1 MiB, on that link and on loopback
    #[value(name = "e-q2")]
    Throughput,
    /// QMP, section 5.2: round trips of small messages, spinning and blocking
    #[value(name = "e-q3")]
    Latency,
    /// A1, figure 2: throughput by block size, with and without retransmission, against bare datagrams and TCP
    #[value(name = "e-a1")]
    Blocks,
    /// A1, figure 3: half the round trip by block size, against bare datagrams and TCP
    #[value(name = "e-a2")]
    Pings,
}

impl Experiment {
    /// What calls itself so in results.
    fn name(self) -> &'static str {
        match self {
            Self::Passing => "e-z1",
            Self::Loaded => "e-z2",
            Self::Consistency => "e-z3",
            Self::Contract => "e-v1",
            Self::Reliable => "e-v2",
            Self::Sizes => "e-v3",
            Self::Timeouts => "e-v4",
            Self::Lan => "e-v5",
            Self::Checksums => "e-x1",
            Self::Catenation => "e-x2",
            Self::Messages => "e-x3",
            Self::Retransmission => "e-x4",
            Self::Bandwidth => "e-q1",
            Self::Throughput => "e-q2",
            Self::Latency => "e-q3",
            Self::Blocks => "e-a1",
            Self::Pings => "e-a2",
        }
    }

    /// Whether it makes network namespaces, and shows nothing without.
    fn needs_root(self) -> bool {
        matches!(self, Self::Contract | Self::Reliable | Self::Sizes | Self::Lan | Self::Bandwidth | Self::Throughput)
    }

    /// How much of it is done.
    fn effort(self, args: &Args) -> Effort {
        let rounds = match (self, args.quick) {
            (Self::Checksums | Self::Catenation, true) => 5,
            (_, true) => 1,
            (Self::Checksums | Self::Catenation, false) => 151,
            (Self::Contract | Self::Reliable | Self::Sizes | Self::Consistency, false) => 3,
            (Self::Messages | Self::Bandwidth | Self::Throughput | Self::Latency, false) => 5,
            (Self::Blocks | Self::Pings | Self::Passing | Self::Loaded, false) => 5,
            (Self::Lan, false) => 7,
            (Self::Timeouts | Self::Retransmission, false) => 20,
        };
        let seconds = match (self, args.quick) {
            (Self::Passing | Self::Loaded | Self::Consistency, true) => 0.2,
            (Self::Passing | Self::Loaded | Self::Consistency, false) => 0.5,
            (Self::Lan | Self::Messages | Self::Throughput | Self::Blocks, true) => 0.2,
            (Self::Lan | Self::Messages | Self::Throughput | Self::Blocks, false) => 0.5,
            (Self::Bandwidth, true) => 1.0,
            (Self::Bandwidth, false) => 2.0,
            (_, true) => 2.0,
            (_, false) => 5.0,
        };
        Effort { quick: args.quick, rounds: args.rounds.unwrap_or(rounds), seconds }
    }
}

/// Runs `pinnace experiment`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let experiment = args.experiment;
    if experiment.needs_root() && !rustix::process::geteuid().is_root() {
        return Err(Error::failed(format!(
            "{} needs network namespaces, and those need root: run the command with sudo (e-z1 to e-z3, e-v4, e-x1 to e-x4, e-q3, e-a1 and e-a2 do without)",
            experiment.name()
        )));
    }
    interrupt::install();
    let effort = experiment.effort(args);
    if let Some(file) = &args.plot {
        picture::check(file)?;
    }
    let run = Run { name: experiment.name(), effort, output, plot: args.plot.as_deref() };
    match experiment {
        Experiment::Passing => zcrp::throughput(&run),
        Experiment::Loaded => zcrp::load(&run),
        Experiment::Consistency => zcrp::consistency(&run),
        Experiment::Contract => wan::run(&run, &wan::CONTRACT),
        Experiment::Reliable => wan::run(&run, &wan::RELIABLE),
        Experiment::Sizes => sizes::run(&run),
        Experiment::Timeouts => timeouts::run(&run),
        Experiment::Lan => lan::run(&run),
        Experiment::Checksums => checksums::run(&run),
        Experiment::Catenation => catenation::run(&run),
        Experiment::Messages => messages::run(&run),
        Experiment::Retransmission => retransmission::run(&run),
        Experiment::Bandwidth => qmp::bandwidth(&run),
        Experiment::Throughput => qmp::sizes(&run),
        Experiment::Latency => qmp::latency(&run),
        Experiment::Blocks => a1::blocks(&run),
        Experiment::Pings => a1::pings(&run),
    }
}

/// What every experiment is told.
struct Run<'a> {
    name: &'static str,
    effort: Effort,
    output: &'a Output,
    plot: Option<&'a Path>,
}

impl Run<'_> {
    /// A line for people alone.
    fn say(&self, text: impl fmt::Display) {
        if !self.output.json {
            self.output.result(text, &());
        }
    }

    /// What stands above a table.
    fn begin(&self, what: &str) {
        self.say(crate::perf::header());
        self.say(format_args!("# {}: {what}", self.name));
        if self.effort.quick {
            self.say("# a quick run: shows that it works, says little about speed");
        }
    }

    /// Draws, if a figure was asked for.
    fn draw(&self, figure: &impl Figure) -> Result<(), Error> {
        let Some(file) = self.plot else { return Ok(()) };
        let is_png = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
        let drawn = if is_png { picture::png(figure, file) } else { picture::svg(figure, file) };
        drawn.map_err(|error| Error::failed(format!("cannot draw the figure {}: {error}", file.display())))?;
        self.output.note(format_args!("the figure is in {}", file.display()));
        Ok(())
    }
}
