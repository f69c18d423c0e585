//! `pinnace zcrp`: the bare protocol, one message after the other, for trying implementations against each other.
//!
//! Nothing but ZCRP is on the wire (specs/zcrp.md). Both ends print the same line for the same message, in the format that
//! every protocol's pair has: `message N bytes SHA256-HEX`.

mod listen;
mod send;

use crate::exit::Error;
use crate::output::Output;
use clap::{Args as ClapArgs, Subcommand};
use serde::Serialize;
use sha2::{Digest, Sha256};

const EXAMPLES: &str = "\
Examples:
  pinnace zcrp listen --bind 127.0.0.1:7001 --count 3
  pinnace zcrp send --to 127.0.0.1:7001 --size 1000000 --count 3 --verbose

The listener prints one line a message, in their order: `message N bytes SHA256-HEX`, N being its size. With --verbose or
--json the sender prints the same lines; with --json they also count the messages from 0.";

/// Arguments of `pinnace zcrp`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    end: End,
}

#[derive(Debug, Subcommand)]
enum End {
    /// Receive messages and print a line for each
    Listen(listen::Args),
    /// Send messages, one after the other
    Send(send::Args),
}

/// Runs `pinnace zcrp`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    match &args.end {
        End::Listen(args) => listen::run(args, output),
        End::Send(args) => send::run(args, output),
    }
}

#[derive(Serialize)]
struct Line {
    event: &'static str,
    message: u64,
    bytes: usize,
    sha256: String,
}

fn print(output: &Output, number: u64, content: &[u8]) {
    let sha256 = format!("{:x}", Sha256::digest(content));
    let line = Line { event: "message", message: number, bytes: content.len(), sha256 };
    output.result(format_args!("message {} bytes {}", line.bytes, line.sha256), &line);
}
