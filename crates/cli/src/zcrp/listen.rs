//! `pinnace zcrp listen`.

use super::Tally;
use crate::address::resolve;
use crate::bare::{Local, announce, one_line};
use crate::exit::{Error, Exit};
use crate::interrupt;
use crate::linger;
use crate::output::{self, Output};
use crate::senders::{self, Place};
use crate::transport::{self, Transport};
use crate::units::count_of;
use pinnace::Message;
use pinnace::zcrp::{Failure, Listener, Receiver, Receiving};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pinnace zcrp listen 127.0.0.1:7001 --count 1                 one message, and the end
  pinnace zcrp listen 0.0.0.0:7001 --size 1GiB --ahead 2     longer messages, two buffers for them";

/// Arguments of `pinnace zcrp listen`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    local: Local,
    /// End after so many messages of the first sender [default: go on until Ctrl-C, with any number of senders]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The size of the buffers posted, which is the largest message that can come; without --count each of up to 16 senders has its
    /// buffers
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
    output::only_prints();
    let listener = Listener::bind(resolve(args.local.address())?, &args.transport.options())?;
    listener.warnings().iter().for_each(|warning| output.warn(warning));
    announce(output, &listener.local_addr()?.to_string());
    if args.count.is_some() {
        let receiver = transport::interruptible(move || listener.accept_receiver())??;
        return serve(args, output, &receiver, None);
    }
    let serve_one = |number, receiver: Receiver, place: &Place<'_>| {
        match serve(args, output, &receiver, Some((number, place))) {
            // The whole command says so.
            Ok(()) => {}
            Err(error) if error.is_wanted() => {}
            Err(error) if error.exit == Exit::PeerGone => {
                output.warn(format_args!("sender {number} is silent; listening for others"));
            }
            Err(error) => output.error(&error, Some(number)),
        }
    };
    let (options, warn) = (args.transport.options(), |text: &str| output.warn(text));
    if args.transport.captures() {
        // A capture holds one sender.
        return senders::serve_in_turn(listener, &options, warn, Listener::accept_receiver, serve_one);
    }
    senders::serve(listener, &options, warn, Listener::accept_receiver_and_go_on, serve_one)
}

/// Serves one sender, the only one or the n-th, until it has been silent for long, or not so long if its place is wanted.
fn serve(
    args: &Args,
    output: &Output,
    receiver: &Receiver,
    one_of_many: Option<(u64, &Place<'_>)>,
) -> Result<(), Error> {
    let sender = one_of_many.map(|(number, _)| number);
    let failed = |error| args.transport.error("the sender", error);
    let mut posted: VecDeque<Receiving> = VecDeque::new();
    let (mut posts, mut tally) = (0u64, Tally::default());
    let mut spare = Vec::new();
    let mut silence = Silence::default();
    let result = loop {
        while posted.len() < usize::from(args.ahead) && args.count.is_none_or(|count| posts < count) {
            let message = spare.pop().unwrap_or_else(|| Message::with_capacity(args.size as usize));
            posted.push_back(receiver.post(message).map_err(|unsent| failed(unsent.error))?);
            posts += 1;
        }
        let Some(next) = posted.pop_front() else {
            break linger(receiver).and_then(|()| tally.result());
        };
        let number = next.number();
        let look = || {
            let since = silence.since(receiver);
            let gives_way = one_of_many.is_some_and(|(_, place)| {
                let is_idle = since.elapsed() >= LONG && !receiver.has_begun();
                // Nothing shows that it is there: what it has begun anybody can begin in anybody's name.
                let may_be_nobody = tally.ended == 0;
                is_idle && place.is_wanted() || may_be_nobody && place.is_needed_more(since)
            });
            if gives_way { Err(failed(pinnace::Error::Failed(Failure::PeerGone))) } else { Ok(()) }
        };
        match super::wait(next, look, failed) {
            Ok(Ok(message)) => {
                super::print(output, sender, number, &message);
                spare.push(message);
            }
            Ok(Err(refused)) => tally.refuse(output, sender, number, &refused),
            Err(error) => break Err(error),
        }
        tally.ended += 1;
    };
    receiver.close();
    let received = tally.ended - tally.refused;
    output.note(format_args!("{} received; {}", count_of(received, "message"), one_line(&receiver.counters())));
    result
}

/// Goes on answering a sender that may not know that its last message has arrived: nothing that it sends says that it does, but who
/// repeats a unit does not. Over a path that loses, some of the repetitions are lost as well, and there is up to a second between them.
//= Z-15
fn linger(receiver: &Receiver) -> Result<(), Error> {
    let lossy = || {
        let counters = receiver.counters();
        counters.requests_repeated + counters.units_reported_lost + counters.units_duplicate > 0
    };
    let patience = || if lossy() { 3 * linger::LINGER } else { linger::LINGER };
    linger::while_repeated(patience, || receiver.counters().units_duplicate)
}

/// A sender that has had nothing to send for so long makes room for others.
const LONG: Duration = Duration::from_secs(3);

/// How long a sender has had nothing to send.
#[derive(Default)]
struct Silence {
    since: Option<Instant>,
    heard: u64,
}

impl Silence {
    /// Since when it has sent nothing, but that it has nothing (Z-21): who is there and idle makes room as well, or those who wait
    /// for its place would wait for it without end.
    fn since(&mut self, receiver: &Receiver) -> Instant {
        let heard = receiver.link_counters().datagrams_received.saturating_sub(receiver.counters().idles_received);
        if heard != self.heard {
            (self.since, self.heard) = (None, heard);
        }
        *self.since.get_or_insert_with(Instant::now)
    }
}
