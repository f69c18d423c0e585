//! `pinnace zcrp send`.

use super::Tally;
use crate::address::resolve_peer;
use crate::bare::{Presence, WHOLE, What, one_line, summary};
use crate::content::DATA;
use crate::exit::{Error, Exit};
use crate::interrupt;
use crate::output::Output;
use crate::transport::{self, Pace, Transport};
use pinnace::zcrp::{Sender, Sending};
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Instant;

/// Messages under way at most.
const AHEAD: usize = 8;
/// Bytes under way at most, if that is less.
const AHEAD_BYTES: usize = 256 << 20;

const EXAMPLES: &str = "\
Examples:
  pinnace zcrp send results.bin 127.0.0.1:7001
  pinnace zcrp send --size 1MB --count 3 --to 127.0.0.1:7001 --verbose
      pseudo-random messages, and a line for each";

/// Arguments of `pinnace zcrp send`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{WHOLE}\n\n{DATA}"), override_usage = "pinnace zcrp send [OPTIONS] FILE|- HOST:PORT\n       \
    pinnace zcrp send [OPTIONS] --size BYTES --to HOST:PORT")]
pub(crate) struct Args {
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    transport: Transport,
}

/// The last line.
#[derive(Serialize)]
struct Done {
    event: &'static str,
    messages: u64,
    bytes: u64,
    seconds: f64,
    units_sent: u64,
    units_resent: u64,
    /// Messages that were longer than the buffer that the receiver named.
    messages_refused: u64,
}

impl Done {
    fn print(&self, output: &Output) {
        let units = (self.units_resent, self.units_sent, "units");
        output.last(summary(self.messages, "delivered", (self.bytes, self.seconds), units), self);
    }
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let (content, to) = args.what.open("a ZCRP message")?;
    // Before standard input is read, which may take any time: an address that leads nowhere is known at once.
    let sender = Sender::connect(resolve_peer(&to)?, &args.transport.options_of_sender(&args.pace))?;
    let source = content.measured()?;
    interrupt::install();
    let ahead = (AHEAD_BYTES / source.len().max(1)).clamp(1, AHEAD);
    let begun = Instant::now();
    let presence = Presence::of_turns(&to, "zcrp listen", "--count, --capture");
    let no_answer = || {
        let why = format!(
            "no answer from {to} within {} s: is `pinnace zcrp listen` running there, and does UDP reach it?",
            args.transport.timeout.as_secs_f32()
        );
        presence.silent(sender.counters().unreachable_reports, why)
    };
    let failed = |error| match args.transport.error(&to, error) {
        // The transport may be a moment faster.
        Error { exit: Exit::PeerGone, .. } if !transport::is_heard(&sender) => no_answer(),
        error => error,
    };
    let look = || {
        let is_heard = transport::is_heard(&sender);
        presence.look(sender.counters().unreachable_reports, is_heard)?;
        if begun.elapsed() > args.transport.timeout && !is_heard { Err(no_answer()) } else { Ok(()) }
    };
    let mut under_way: VecDeque<Sending> = VecDeque::new();
    let mut next = 0;
    let mut tally = Tally::default();
    let (mut messages, mut bytes) = (0, 0);
    loop {
        while next < args.what.count && under_way.len() < ahead {
            let message = source.message(next)?;
            under_way.push_back(sender.send(message).map_err(|unsent| failed(unsent.error))?);
            next += 1;
        }
        let Some(oldest) = under_way.pop_front() else { break };
        let number = oldest.number();
        match super::wait(oldest, look, failed)? {
            Ok(message) => {
                (messages, bytes) = (messages + 1, bytes + message.len() as u64);
                if output.json || output.verbose {
                    super::print(output, None, number, &message);
                }
            }
            Err(refused) => tally.refuse(output, None, number, &refused),
        }
        tally.ended += 1;
    }
    let (seconds, counters) = (begun.elapsed().as_secs_f64(), sender.counters());
    output.note(one_line(&counters));
    sender.close();
    Done {
        event: "done",
        messages,
        bytes,
        seconds,
        units_sent: counters.units_sent,
        units_resent: counters.units_resent,
        messages_refused: tally.refused,
    }
    .print(output);
    tally.result()
}
