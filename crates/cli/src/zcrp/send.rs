//! `pinnace zcrp send`.

use super::Tally;
use crate::bare::{What, one_line};
use crate::content::DATA;
use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::transport::Transport;
use crate::xtp::resolve;
use pinnace::zcrp::{Sender, Sending};
use std::collections::VecDeque;
use std::time::Instant;

/// Messages under way at most.
const AHEAD: usize = 8;
/// Bytes under way at most, if that is less.
const AHEAD_BYTES: usize = 256 << 20;

/// Arguments of `pinnace zcrp send`.
#[derive(Debug, clap::Args)]
#[command(after_help = DATA, override_usage = "pinnace zcrp send [OPTIONS] FILE|- HOST:PORT\n       \
    pinnace zcrp send [OPTIONS] --size BYTES --to HOST:PORT")]
pub(super) struct Args {
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    transport: Transport,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let (source, to) = args.what.measured("a ZCRP message")?;
    interrupt::install();
    let sender = Sender::connect(resolve(&to)?, &args.transport.options())?;
    let failed = |error| args.transport.error(&to, error);
    let ahead = (AHEAD_BYTES / source.len().max(1)).clamp(1, AHEAD);
    let begun = Instant::now();
    let answered = || {
        let counters = sender.counters();
        counters.requests_received + counters.acknowledgements_received + counters.flow_hints_received > 0
    };
    let look = || {
        if begun.elapsed() > args.transport.timeout && !answered() {
            return Err(Error::peer_gone(format!(
                "no answer from {to} within {} s: is `pinnace zcrp listen` running there, and does UDP reach it?",
                args.transport.timeout.as_secs_f32()
            )));
        }
        Ok(())
    };
    let mut under_way: VecDeque<Sending> = VecDeque::new();
    let mut next = 0;
    let mut tally = Tally::default();
    loop {
        while next < args.what.count && under_way.len() < ahead {
            let message = source.message(next)?;
            under_way.push_back(sender.send(message).map_err(|unsent| failed(unsent.error))?);
            next += 1;
        }
        let Some(oldest) = under_way.pop_front() else { break };
        let number = oldest.number();
        match super::wait(oldest, look, failed)? {
            Ok(message) if output.json || output.verbose => super::print(output, number, &message),
            Ok(_) => {}
            Err(refused) => tally.refuse(output, number, &refused),
        }
        tally.ended += 1;
    }
    output.note(one_line(&sender.counters()));
    sender.close();
    tally.result()
}
