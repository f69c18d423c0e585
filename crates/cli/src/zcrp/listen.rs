//! `pinnace zcrp listen`.

use super::Tally;
use crate::address::resolve;
use crate::bare::{Local, announce, one_line};
use crate::exit::{Error, Exit};
use crate::interrupt;
use crate::output::Output;
use crate::senders;
use crate::transport::{self, Transport};
use crate::units::count_of;
use pinnace::Message;
use pinnace::zcrp::{Listener, Receiver, Receiving};
use std::collections::VecDeque;

const EXAMPLES: &str = "\
Examples:
  pinnace zcrp listen 127.0.0.1:7001 --count 1                 one message, and the end
  pinnace zcrp listen 0.0.0.0:7001 --size 1GiB --ahead 2     longer messages, two buffers for them";

/// Arguments of `pinnace zcrp listen`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    local: Local,
    /// End after so many messages of the first sender [default: go on until Ctrl-C, with any number of senders]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The size of the buffers posted, which is the largest message that can come
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = transport::bytes)]
    size: u64,
    /// How many buffers are posted ahead
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1024))]
    ahead: u16,
    #[command(flatten)]
    transport: Transport,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    if args.size > u64::from(u32::MAX) {
        return Err(Error::usage("--size: a ZCRP message has at most 4294967295 bytes"));
    }
    interrupt::install();
    let listener = Listener::bind(resolve(args.local.address())?, &args.transport.options())?;
    listener.warnings().iter().for_each(|warning| output.warn(warning));
    announce(output, &listener.local_addr()?.to_string());
    if args.count.is_some() {
        let receiver = transport::interruptible(move || listener.accept_receiver())??;
        return serve(args, output, &receiver, None);
    }
    // A capture holds one sender.
    senders::serve(listener, Listener::accept_receiver_and_go_on, args.transport.captures(), |number, receiver| {
        match serve(args, output, &receiver, Some(number)) {
            // The whole command says so.
            Ok(()) | Err(Error { exit: Exit::Interrupted, .. }) => {}
            Err(error) if error.exit == Exit::PeerGone => output.warn("a sender is silent; listening for others"),
            Err(error) => output.error(&error),
        }
    })
}

/// Serves one sender, the only one or the n-th.
fn serve(args: &Args, output: &Output, receiver: &Receiver, sender: Option<u64>) -> Result<(), Error> {
    let failed = |error| args.transport.error("the sender", error);
    let mut posted: VecDeque<Receiving> = VecDeque::new();
    let (mut posts, mut tally) = (0u64, Tally::default());
    let mut spare = Vec::new();
    let result = loop {
        while posted.len() < usize::from(args.ahead) && args.count.is_none_or(|count| posts < count) {
            let message = spare.pop().unwrap_or_else(|| Message::with_capacity(args.size as usize));
            posted.push_back(receiver.post(message).map_err(|unsent| failed(unsent.error))?);
            posts += 1;
        }
        let Some(next) = posted.pop_front() else { break tally.result() };
        let number = next.number();
        match super::wait(next, || Ok(()), failed) {
            Ok(Ok(message)) => {
                super::print(output, sender, number, &message);
                spare.push(message);
            }
            Ok(Err(refused)) => tally.refuse(output, sender, number, &refused),
            Err(error) => break Err(error),
        }
        tally.ended += 1;
    };
    // Goes on answering for a moment, so that the sender learns that its last message has arrived.
    receiver.close();
    let received = tally.ended - tally.refused;
    output.note(format_args!("{} received; {}", count_of(received, "message"), one_line(&receiver.counters())));
    result
}
