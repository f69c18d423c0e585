//! `pinnace a1`: the bare protocol, one message after the other, for trying implementations against each other.
//!
//! Nothing but A1 is on the wire (specs/a1.md). Both ends print the same line for a message that arrived whole, in the
//! format that every protocol's pair has, `message N bytes SHA256-HEX`.

mod listen;
mod send;
mod settings;

pub(crate) use settings::{Mode, QosArgs, Transport, rate_text};

use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use clap::Subcommand;
use pinnace::a1::Socket;
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  pinnace a1 listen 127.0.0.1:7001 --count 1
  pinnace a1 send results.bin 127.0.0.1:7001
  pinnace a1 send --size 1MiB --count 10 --to 127.0.0.1:7001 --rate 50mbit --burst 64KiB \\
      --priority 0
      ten messages over one connection, at a rate that is never exceeded
  pinnace a1 listen 127.0.0.1:7001 --mode raw &
  tar c photos | pinnace a1 send - 127.0.0.1:7001 --mode raw --deadline 50ms
      nothing is sent again, and nothing sent that is older than 50 ms

The listener prints a line for each message that came whole, `message N bytes SHA256-HEX`, N being its size. With \
--mode raw something may be lost: `part N bytes SHA256-HEX` is what there is of a message between its gaps, and `lost` \
stands where something is missing. With --verbose or --json the sender prints the same lines, with the hash of what it \
sent, once a message is acknowledged (with --mode raw: has left). `stale N bytes SHA256-HEX` is a message that was older than \
--deadline before all of it had left; its exit code is 1 if no message left whole.

A message has at most 65535 blocks: 94 MB over Ethernet, more with larger blocks.";

/// Arguments of `pinnace a1`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Args {
    /// Receive messages; print a line for each
    Listen(listen::Args),
    /// Send messages over one connection
    Send(Box<send::Args>),
}

/// Runs `pinnace a1`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    match args {
        Args::Listen(args) => listen::run(args, output),
        Args::Send(args) => send::run(args, output),
    }
}

/// The end of a command, behind its results: a peer that has closed may not have heard the answer, and asks again; and one
/// whose connection was aborted may not have heard that. Ctrl-C ends it at once.
pub(crate) fn part(socket: &Socket) {
    while !interrupt::requested() && !socket.part(interrupt::LOOK) {}
}

/// One message, at either end.
#[derive(Debug, Serialize)]
struct Line {
    event: &'static str,
    /// At the listener in the order of arrival, at the sender in that of the calls, from 0.
    message: u64,
    bytes: u64,
    sha256: String,
    /// It is all of a message.
    whole: bool,
    /// Something was lost before it.
    lost: bool,
    /// At the sender: it was too old before all of it had left.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
}

/// Something was lost, and nothing came behind it.
#[derive(Debug, Serialize)]
struct Lost {
    event: &'static str,
    peer: String,
}

impl Line {
    fn print(&self, output: &Output) {
        let lost = if self.lost { "lost\n" } else { "" };
        let what = match self.stale {
            Some(true) => "stale",
            _ if self.whole => "message",
            _ => "part",
        };
        output.result(format_args!("{lost}{what} {} bytes {}", self.bytes, self.sha256), self);
    }
}
