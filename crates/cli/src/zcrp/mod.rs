//! `pinnace zcrp`: the bare protocol, one message after the other, for trying implementations against each other.
//!
//! Nothing but ZCRP is on the wire (specs/zcrp.md). Both ends print the same line for the same message, in the format that
//! every protocol's pair has: `message N bytes SHA256-HEX`.

mod listen;
mod send;

use crate::exit::Error;
use crate::output::Output;
use crate::transport::{self, UnderWay};
use clap::Subcommand;
use pinnace::Message;
use pinnace::zcrp::Failure;
use serde::Serialize;
use sha2::{Digest, Sha256};

const EXAMPLES: &str = "\
Examples:
  pinnace zcrp listen 127.0.0.1:7001 --count 3
  pinnace zcrp send --size 1000000 --to 127.0.0.1:7001 --count 3 --verbose
  pinnace zcrp send results.bin 127.0.0.1:7001
      the content of a file as one message; - is standard input

The listener prints one line a message, in their order: `message N bytes SHA256-HEX`, N being its size. With --verbose \
or --json the sender prints the same lines; with --json they also count the messages from 0, and a listener without --count the senders from 1. A message that is longer \
than the buffer named for it is refused: both ends say so on standard error (with --json as an event `refused`), \
go on with the next, and end with exit code 1.

To ZCRP itself a message that has not begun may wait for its receiver without limit; `send` gives up, with exit code \
3, if nobody at all has answered within --timeout, or after 2 s if the other host says that the port is closed: nobody \
listens, or who does with --count is busy with another sender.";

/// Arguments of `pinnace zcrp`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Args {
    /// Receive messages and print a line for each
    Listen(listen::Args),
    /// Send messages, one after the other
    Send(send::Args),
}

/// Runs `pinnace zcrp`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    match args {
        Args::Listen(args) => listen::run(args, output),
        Args::Send(args) => send::run(args, output),
    }
}

/// Waits for a message. `Ok(Err(_))`: it was refused for its length, which ends it and nothing else.
//= Z-16
fn wait<W: UnderWay>(
    message: W,
    look: impl FnMut() -> Result<(), Error>,
    failed: impl FnOnce(pinnace::Error) -> Error,
) -> Result<Result<Message, Error>, Error> {
    let mut is_refused = false;
    let failed = |error| {
        is_refused = matches!(error, pinnace::Error::Failed(Failure::TooLong));
        failed(error)
    };
    match transport::wait(message, look, failed) {
        Err(error) if is_refused => Ok(Err(error)),
        result => result.map(Ok),
    }
}

#[derive(Serialize)]
struct Line {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<u64>,
    message: u64,
    bytes: usize,
    sha256: String,
}

/// Message `number`, of the n-th sender where there are several.
fn print(output: &Output, sender: Option<u64>, number: u64, content: &[u8]) {
    let sha256 = format!("{:x}", Sha256::digest(content));
    let line = Line { event: "message", sender, message: number, bytes: content.len(), sha256 };
    output.result(format_args!("message {} bytes {}", line.bytes, line.sha256), &line);
}

#[derive(Serialize)]
struct RefusedLine<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<u64>,
    message: u64,
    error: &'a str,
}

/// Messages that were refused, of all.
#[derive(Default)]
struct Tally {
    ended: u64,
    refused: u64,
}

impl Tally {
    /// Message `number`, of the n-th sender where there are several, was refused.
    fn refuse(&mut self, output: &Output, sender: Option<u64>, number: u64, error: &Error) {
        self.refused += 1;
        let line = RefusedLine { event: "refused", sender, message: number, error: &error.message };
        output.event(format_args!("message {number}: {error}"), &line);
    }

    /// How the command ends, if nothing else failed.
    fn result(&self) -> Result<(), Error> {
        match self.refused {
            0 => Ok(()),
            refused => Err(Error::failed(format!(
                "{refused} of {} messages were refused: longer than the buffer that the receiver named",
                self.ended
            ))),
        }
    }
}
