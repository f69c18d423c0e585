//! `pinnace xtp`: the bare protocol, one association after the other, for trying implementations against each other.
//!
//! Nothing but XTP is on the wire (specs/xtp.md). Both ends print the same line for the same message, in the format that
//! every protocol's pair has, `message N bytes SHA256-HEX`; what was lost of a stream without errors follows on lines of its
//! own.

mod listen;
mod send;
mod settings;
mod transact;
mod watch;

pub(crate) use settings::{CodecName, LinkName, ServiceName, Wire, client_address};

use crate::bare::{line, seconds};
use crate::exit::Error;
use crate::output::Output;
use crate::waiting::Waiting;
use clap::{Args as ClapArgs, Subcommand};
use pinnace::xtp::Options;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  pinnace xtp listen 127.0.0.1:7001 --count 1
  pinnace xtp send results.bin 127.0.0.1:7001
      a file over a connection: set up with its first packet, closed with its last
  tar c photos | pinnace xtp send - 127.0.0.1:7001 --service bulk-data
  pinnace xtp listen 127.0.0.1:7001 --respond echo &
  echo ahoy | pinnace xtp transact 127.0.0.1:7001
      a request and its response in one round trip
  sudo pinnace xtp send --size 1MiB --to 192.0.2.7:7001 --link ip36 --pcap xtp.pcap
      over IP protocol 36, and what was sent in a file that Wireshark opens
  pinnace xtp listen 239.1.2.3:7001 --count 1
  pinnace xtp send results.bin 239.1.2.3:7001
      to all who listen to the group; start them first

The six services, --service:
  connection   a reliable stream of messages each way
  transaction  a request and its response
  unack-dgram  one message in one packet, which nobody acknowledges
  ack-dgram    one message in one packet, repeated until it is acknowledged
  iso-stream   a stream of which nothing is repeated; what is lost is told as holes
  bulk-data    a reliable stream straight into buffers that the receiver has posted

An address from 224.0.0.0 to 239.255.255.255 is a group: all who listen to it get what is sent to it, by the services \
connection (what one of them lacks is repeated to all; nobody waits for one that is gone or too slow) and iso-stream. The \
sender does not know who listens: whoever comes later begins with the next message.

The listener prints a line for each message, `message N bytes SHA256-HEX`, N being its size; and after one of an \
iso-stream a line for each hole, `hole FROM..TO`: bytes FROM up to, without, TO were lost and are zero, and the hash \
is of the message with them. With --verbose or --json the sender prints the same lines, with the hash of what it sent, once \
that is acknowledged or, where nobody acknowledges, has left. \
The bytes after a stream's last end of a message are a message too.";

/// Arguments of `pinnace xtp`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Args {
    /// Receive messages of any service; print a line for each, answer requests
    Listen(listen::Args),
    /// Send messages with one of the services
    Send(Box<send::Args>),
    /// Send a request, and print the response; the round trip is said on standard error
    Transact(transact::Args),
}

/// Runs `pinnace xtp`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    match args {
        Args::Listen(args) => listen::run(args, output),
        Args::Send(args) => send::run(args, output),
        Args::Transact(args) => transact::run(args, output),
    }
}

/// What both ends can set beside the control block.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Transport")]
struct Transport {
    #[command(flatten)]
    wire: Wire,
    /// A peer that is silent for so long is gone: seconds, or 500ms
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = seconds)]
    timeout: Duration,
    #[command(flatten)]
    waiting: Waiting,
    /// Write every packet to this file, for Wireshark
    #[arg(long, visible_alias = "capture", value_name = "FILE")]
    pcap: Option<PathBuf>,
}

impl Transport {
    fn options(&self) -> Options {
        self.wire.apply(Options {
            idle: self.waiting.idle(),
            udp: self.waiting.udp(),
            longest_message: u32::MAX.into(),
            capture: self.pcap.clone(),
            ..Options::default()
        })
    }
}

/// One message, at either end.
#[derive(Debug, Serialize)]
struct Line {
    event: &'static str,
    /// At the listener in the order of arrival, at the sender in that of the calls, from 0.
    message: u64,
    bytes: u64,
    sha256: String,
    service: &'static str,
    /// What was lost of an iso-stream's message, `[from, to)` in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    holes: Option<Vec<[usize; 2]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
}

impl Line {
    fn print(&self, output: &Output) {
        output.result(line(self.bytes, &self.sha256, self.holes.as_deref()), self);
    }
}
