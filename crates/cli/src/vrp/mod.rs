//! `pinnace vrp`: the bare protocol, frame by frame, for trying implementations against each other.
//!
//! Nothing but VRP is on the wire (specs/vrp.md). Both ends print the same line for a frame that arrived whole, in the
//! format that every protocol's pair has, `message N bytes SHA256-HEX`; what was lost follows on lines of its own, so that
//! the first line is one that every program can read.

mod listen;
mod send;
mod settings;

pub(crate) use settings::{ContractArgs, Packets};

use crate::bare::{line, seconds};
use crate::exit::Error;
use crate::output::Output;
use crate::units::count_of;
use crate::waiting::Waiting;
use clap::{Args as ClapArgs, Subcommand};
use pinnace::vrp::Options;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::time::Duration;

/// Frames of which nothing has come for so long give way where there is no room: anybody can forge a header, which can claim all
/// that a listener has.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  pinnace vrp listen 127.0.0.1:7001 --count 3
  pinnace vrp send picture.raw 127.0.0.1:7001
      a file as one frame of which nothing may be lost; - is standard input
  pinnace vrp send --size 100kB --to 127.0.0.1:7001 --count 300 \\
      --loss-rate 10% --run 4KiB --critical 0..1KiB --repeat-for 50ms
      a tenth may, 4 KiB in a row at most, but not the first KiB

The listener prints a line for each frame as soon as it is complete, `message N bytes SHA256-HEX`, N being its size; \
and after it a line for each hole, `hole FROM..TO`: bytes FROM up to, without, TO were lost and are zero, and the hash \
is of the frame with them. Frames may overtake each other. With --verbose or --json the sender prints the same lines, \
with the hash of what it sent and the holes that the receiver reported.

The sender's exit code is 0 only if every frame was delivered within its contract.";

/// Arguments of `pinnace vrp`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Args {
    /// Receive frames; print a line for each, and what was lost of it
    Listen(listen::Args),
    /// Send frames, several at a time, and say what was lost
    Send(Box<send::Args>),
}

/// Runs `pinnace vrp`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    match args {
        Args::Listen(args) => listen::run(args, output),
        Args::Send(args) => send::run(args, output),
    }
}

/// What both ends can set.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Transport")]
struct Transport {
    /// A peer that is silent for so long is gone: seconds, or 500ms
    #[arg(long, value_name = "TIME", default_value = "5", value_parser = seconds)]
    timeout: Duration,
    #[command(flatten)]
    waiting: Waiting,
    /// Write every datagram to this file, for Wireshark
    #[arg(long, visible_alias = "pcap", value_name = "FILE")]
    capture: Option<PathBuf>,
}

impl Transport {
    fn options(&self) -> Options {
        Options {
            idle: self.waiting.idle(),
            udp: self.waiting.udp(),
            life_timeout: self.timeout,
            capture: self.capture.clone(),
            ..Options::default()
        }
    }
}

/// One frame, at either end.
#[derive(Serialize)]
struct Line {
    event: &'static str,
    /// At the listener in the order of arrival, at the sender in that of the calls, from 0.
    message: u64,
    bytes: usize,
    sha256: String,
    /// What was lost, `[from, to)` in bytes; at the sender as reported, `null` if the receiver did not say.
    holes: Option<Vec<[usize; 2]>>,
    packets_lost: Option<u32>,
    packets: u32,
    longest_run_packets: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    /// The frame's number on the wire.
    #[serde(skip_serializing_if = "Option::is_none")]
    frame: Option<u16>,
}

impl Line {
    fn print(&self, output: &Output) {
        output.result(line(self.bytes as u64, &self.sha256, self.holes.as_deref()), self);
    }
}

fn sha256(content: &[u8]) -> String {
    format!("{:x}", Sha256::digest(content))
}

/// `5 of 207 packets lost (2.42 %), longest run 2`, or `nothing lost`.
fn lost(lost: u64, packets: u64, longest_run: u32) -> String {
    match lost {
        0 => format!("nothing of {} lost", count_of(packets, "packet")),
        _ => {
            let share = crate::numbers::percent(lost, packets);
            format!("{lost} of {} lost ({share}), longest run {longest_run}", count_of(packets, "packet"))
        }
    }
}
