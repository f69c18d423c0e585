//! `pinnace zcrp listen`.

use super::Tally;
use crate::address::resolve;
use crate::bare::{Local, announce, one_line};
use crate::exit::{Error, Exit};
use crate::interrupt;
use crate::output::Output;
use crate::transport::{self, Transport};
use crate::units::count_of;
use pinnace::Message;
use pinnace::zcrp::{Failure, Listener, Receiver, ReceiverCounters, Receiving};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

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
    /// End after so many messages, whoever sent them, one sender after the other; if no next one comes for --timeout, fail
    /// [default: go on until Ctrl-C]
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
    let mut listener = Listener::bind(resolve(args.local.address())?, &args.transport.options())?;
    listener.warnings().iter().for_each(|warning| output.warn(warning));
    let address = listener.local_addr()?;
    announce(output, &address.to_string());
    let mut tally = Tally::default();
    loop {
        let patience = Patience::new(args, tally.ended);
        let accept = move || listener.accept_receiver_in_turn();
        let (receiver, turn) = transport::interruptible_while(|| patience.look(), accept)??;
        match serve(args, output, &receiver, &patience, &mut tally)? {
            End::Complete => return tally.result(),
            End::Gone => drop(receiver),
        }
        listener = turn.next_listener()?;
    }
}

/// How long a listener that counts waits for the next sender; one that does not count waits for ever, and for the first sender
/// both do.
struct Patience {
    since: Instant,
    /// At most so long, after so many messages.
    limit: Option<(Duration, u64)>,
}

impl Patience {
    fn new(args: &Args, messages: u64) -> Self {
        let limit = (args.count.is_some() && messages > 0).then_some((args.transport.timeout, messages));
        Self { since: Instant::now(), limit }
    }

    fn look(&self) -> Result<(), Error> {
        match self.limit {
            Some((limit, messages)) if self.since.elapsed() > limit => Err(Error::peer_gone(format!(
                "the sender has not answered for {} s or more, and no other has come, after {}: it has ended, or the network \
                 between is down",
                limit.as_secs_f32(),
                count_of(messages, "message")
            ))),
            _ => Ok(()),
        }
    }
}

/// How the turn of a sender ended.
enum End {
    /// All messages that were asked for have come.
    Complete,
    /// The sender has gone, and the next may come.
    Gone,
}

/// Serves one sender.
fn serve(
    args: &Args,
    output: &Output,
    receiver: &Receiver,
    patience: &Patience,
    tally: &mut Tally,
) -> Result<End, Error> {
    let failed = |error| args.transport.error("the sender", error);
    let left = args.count.map(|count| count - tally.ended);
    let mut posted: VecDeque<Receiving> = VecDeque::new();
    let (mut posts, mut received) = (0u64, 0u64);
    let mut spare = Vec::new();
    let mut silence = Silence::new();
    let (mut has_begun, mut has_left) = (false, false);
    let result = loop {
        while posted.len() < usize::from(args.ahead) && left.is_none_or(|left| posts < left) {
            let message = spare.pop().unwrap_or_else(|| Message::with_capacity(args.size as usize));
            posted.push_back(receiver.post(message).map_err(|unsent| failed(unsent.error))?);
            posts += 1;
        }
        let Some(next) = posted.pop_front() else { break Ok(End::Complete) };
        let number = next.number();
        let look = || {
            has_begun = receiver.has_begun();
            has_left = silence.is_of_nobody(Instant::now(), &receiver.counters(), has_begun);
            if has_left {
                return Err(failed(pinnace::Error::Failed(Failure::PeerGone)));
            }
            // Whoever introduced itself may be nobody.
            if silence.is_unbroken() && !has_begun { patience.look() } else { Ok(()) }
        };
        match super::wait(next, look, failed) {
            Ok(Ok(message)) => {
                super::print(output, number, &message);
                received += 1;
                spare.push(message);
            }
            Ok(Err(refused)) => tally.refuse(output, number, &refused),
            Err(error) => break Err(error),
        }
        tally.ended += 1;
    };
    // Goes on answering for a moment, so that the sender learns that its last message has arrived.
    receiver.close();
    output.note(format_args!("{} received; {}", count_of(received, "message"), one_line(&receiver.counters())));
    match result {
        Err(error) if error.exit == Exit::PeerGone && has_left => Ok(End::Gone),
        // Silence that nobody explains: a listener that counts forgives it between two messages only.
        Err(error)
            if error.exit == Exit::PeerGone && patience.look().is_ok() && (args.count.is_none() || !has_begun) =>
        {
            output.warn("the sender is silent; listening for the next one");
            Ok(End::Gone)
        }
        result => result,
    }
}

/// For so long a sender must be silent, which is longer than requests are apart,
const SILENCE: Duration = Duration::from_millis(2000);
/// with so many requests unanswered, each of which a sender with nothing to send answers (Z-21),
const REQUESTS: u64 = 2;
/// and so many reports that its port is closed, to have gone. Reports alone say nothing, as anybody can forge them; there are not
/// many of them, because who has sent little is asked little.
const REPORTS: u64 = 1;

/// What was counted when the sender was heard last.
struct Silence {
    since: Instant,
    heard: u64,
    requests: u64,
    reports: u64,
    /// Requests and reports of the look before.
    before: (u64, u64),
}

impl Silence {
    fn new() -> Self {
        Self { since: Instant::now(), heard: 0, requests: 0, reports: 0, before: (0, 0) }
    }

    /// Whether the sender has never been heard behind its introduction.
    fn is_unbroken(&self) -> bool {
        self.heard == 0
    }

    /// Whether the sender has gone. One of which half a message has come may come back.
    fn is_of_nobody(&mut self, now: Instant, counters: &ReceiverCounters, has_begun: bool) -> bool {
        let units = counters.units_in_place + counters.units_copied + counters.units_duplicate;
        let heard = units + counters.units_unrequested + counters.messages_failed + counters.idles_received;
        let (requests, reports) = (counters.requests_sent, counters.unreachable_reports);
        let before = std::mem::replace(&mut self.before, (requests, reports));
        if has_begun || heard != self.heard {
            // A sender that ends at once may have gone before this look.
            (self.since, self.heard, self.requests, self.reports) = (now, heard, before.0, before.1);
            return false;
        }
        now.saturating_duration_since(self.since) >= SILENCE
            && requests - self.requests >= REQUESTS
            && reports - self.reports >= REPORTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_alone_end_no_turn() {
        let begun = Instant::now();
        let mut silence = Silence::new();
        let mut look = |ms, idles_received, requests_sent, unreachable_reports, has_begun| {
            let counters =
                ReceiverCounters { idles_received, requests_sent, unreachable_reports, ..ReceiverCounters::default() };
            silence.is_of_nobody(begun + Duration::from_millis(ms), &counters, has_begun)
        };
        assert!(!look(0, 1, 1, 0, false));
        assert!(!look(1900, 1, 9, 9, false), "an answer may be on its way");
        assert!(!look(9000, 2, 9, 9, false), "it has answered");
        assert!(!look(9100, 3, 9, 9, false), "and again");
        assert!(!look(19_000, 3, 10, 19, false), "it was asked once");
        assert!(!look(19_000, 3, 19, 9, false), "nobody says that it has gone");
        assert!(look(19_000, 3, 11, 10, false));
        assert!(!look(19_000, 3, 19, 19, true), "half a message has come");
    }
}
