//! `pinnace qmp`: the bare protocol, one stream of bytes after the other, for trying implementations against each other.
//!
//! Nothing but QMP is on the wire (specs/qmp.md). Both ends print the same line for the same stream, in the format that
//! every protocol's pair has, `message N bytes SHA256-HEX`: QMP has no messages, so each has a connection of its own.

mod listen;
mod send;
mod settings;

pub(crate) use settings::{LinkName, Wire};

use crate::bare::line;
use crate::exit::Error;
use crate::output::Output;
use clap::Subcommand;
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  pinnace qmp listen 127.0.0.1:7001 --count 1
  pinnace qmp send results.bin 127.0.0.1:7001
      a file over a connection of its own
  tar c photos | pinnace qmp send - 127.0.0.1:7001
  pinnace qmp send --size 1MiB --count 10 --to 127.0.0.1:7001 --status-every 4
      ten connections in turn; every fourth packet asks for the receiver's status
  sudo pinnace qmp send --size 1MiB --to 192.0.2.7:7001 --link ip36 --pcap qmp.pcap
      over IP protocol 36, and what was sent in a file that Wireshark opens

The listener prints a line for each connection that has ended well, `message N bytes SHA256-HEX`, N being how many \
bytes came. With --verbose or --json the sender prints the same lines, with the hash of what it sent.

QMP adds no checksum to the data: the link's has to suffice, as in a cluster. The hashes show whether it did.";

/// Arguments of `pinnace qmp`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Args {
    /// Accept connections, and print a line for what came over each
    Listen(listen::Args),
    /// Send a file, standard input, or pseudo-random bytes, over a connection each
    Send(Box<send::Args>),
}

/// Runs `pinnace qmp`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    match args {
        Args::Listen(args) => listen::run(args, output),
        Args::Send(args) => send::run(args, output),
    }
}

/// What went over one connection, at either end.
#[derive(Debug, Serialize)]
struct Line {
    event: &'static str,
    /// At the listener in the order in which they ended, at the sender in that of the calls, from 0.
    message: u64,
    bytes: u64,
    sha256: String,
    /// What carried it.
    way: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
}

impl Line {
    fn print(&self, output: &Output) {
        output.result(line(self.bytes, &self.sha256, None), self);
    }
}
