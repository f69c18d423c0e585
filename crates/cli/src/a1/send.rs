//! `pinnace a1 send`.

use super::{Line, QosArgs, Transport};
use crate::address::resolve_peer;
use crate::bare::{Sum, WHOLE, What, bar, summary};
use crate::content::DATA;
use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::{transport, units};
use indicatif::ProgressBar;
use pinnace::a1::{self, Connection, Failure, Full, Progress, Qos, Sending, Socket};
use pinnace::{Message, Unsent};
use serde::Serialize;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pinnace a1 send results.bin 127.0.0.1:7001
  pinnace a1 send --size 1MiB --count 10 --to 127.0.0.1:7001 --rate 50mbit
      never faster than that";

/// Arguments of `pinnace a1 send`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{WHOLE}\n\n{DATA}"), override_usage = "pinnace a1 send [OPTIONS] FILE|- HOST:PORT\n       \
    pinnace a1 send [OPTIONS] --size BYTES --to HOST:PORT")]
pub(crate) struct Args {
    #[command(flatten)]
    what: What,
    /// What is older than this is not sent any more (--mode raw); if no message leaves whole, that is a failure
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Quality of service")]
    deadline: Option<Duration>,
    #[command(flatten)]
    qos: QosArgs,
    #[command(flatten)]
    transport: Transport,
}

/// The last line.
#[derive(Serialize)]
struct Done {
    event: &'static str,
    /// Those that left whole.
    messages: u64,
    /// What left, also of messages that were too old before all of them had.
    bytes: u64,
    seconds: f64,
    /// Repetitions included.
    blocks_sent: u64,
    blocks_resent: u64,
    /// Messages that were too old before all of them had left.
    messages_stale: u64,
    /// Whether the peer has acknowledged all of it.
    acknowledged: bool,
}

/// What a sender has at hand.
struct Sender<'a> {
    args: &'a Args,
    output: &'a Output,
    /// As the user has it.
    name: &'a str,
    connection: Connection,
    bar: ProgressBar,
    /// Each with its number.
    under_way: VecDeque<(u64, Sending)>,
    /// Those that have to be sent again, over another connection.
    back: VecDeque<(u64, Message)>,
    /// Bytes that were handed over.
    queued: u64,
    /// Messages that left whole, and their bytes.
    messages: u64,
    bytes: u64,
    stale: u64,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let (mut content, name) = args.what.open("an A1 message")?;
    let to = resolve_peer(&name)?;
    interrupt::install();
    // Standard input is as long as it turns out to be, and the record has to say that.
    let mut first = Some(content.whole(0)?);
    let largest = first.as_ref().map_or(0, |message| message.len() as u64);
    let deadline = deadline(args)?;
    let qos = Qos { deadline, ..args.qos.sender(largest)? };
    let (mut socket, connection) = connect(args, &name, to, qos)?;
    let bar = bar(Some(largest.saturating_mul(args.what.count)));
    let begun = Instant::now();
    let mut sender = Sender {
        args,
        output,
        name: &name,
        connection,
        bar,
        under_way: VecDeque::new(),
        back: VecDeque::new(),
        queued: 0,
        messages: 0,
        bytes: 0,
        stale: 0,
    };
    let mut read = |number| first.take().map_or_else(|| content.whole(number), Ok);
    let mut begun_with = 0;
    let sent = loop {
        let sent = sender.send_all(&mut begun_with, &mut read);
        // Blocks of a connection keep their size: on a path that loses all of it in silence, another one has to be opened.
        let Some(smaller) = sender.smaller(&qos).filter(|_| sent.is_err()) else { break sent };
        output.warn(format_args!(
            "the path to {name} loses all blocks of {} bytes in silence: once more with blocks of {}",
            sender.block_bytes(),
            smaller.block_size
        ));
        match connect(args, &name, to, smaller) {
            Ok((other, connection)) => (socket, sender.connection) = (other, connection),
            Err(error) => break Err(error),
        }
    };
    sender.bar.finish_and_clear();
    if sent.is_err() {
        // Nothing is left to be waited for, but that the listener hears of it.
        sender.connection.abort();
        super::part(&socket);
    }
    sent?;
    // The socket has this connection alone. The connection itself also numbers blocks that were dropped.
    let counters = socket.counters();
    let done = Done {
        event: "done",
        messages: sender.messages,
        // Without repetitions every block left once.
        bytes: if qos.has_retransmission { sender.bytes } else { counters.bytes_sent },
        seconds: begun.elapsed().as_secs_f64(),
        blocks_sent: counters.blocks_sent,
        blocks_resent: counters.blocks_repeated,
        messages_stale: sender.stale,
        acknowledged: qos.has_retransmission,
    };
    done.print(output);
    // If the peer has closed, it may not have heard the answer.
    super::part(&socket);
    if done.messages == 0 {
        return Err(Error::failed(
            "no message left whole before it was older than --deadline: give it longer, a higher --rate, or smaller messages",
        ));
    }
    Ok(())
}

fn deadline(args: &Args) -> Result<u32, Error> {
    let Some(deadline) = args.deadline else { return Ok(0) };
    if args.qos.mode.record().has_retransmission {
        return Err(Error::usage("--deadline: only with --mode raw may something be left out"));
    }
    match u32::try_from(deadline.as_micros()) {
        Ok(micros) if micros > 0 => Ok(micros),
        _ => Err(Error::usage("--deadline: must lie between 1us and 4294s")),
    }
}

fn connect(args: &Args, name: &str, to: SocketAddr, qos: Qos) -> Result<(Socket, Connection), Error> {
    let failed = |error| args.transport.error(name, "a1 listen", error);
    let socket = Socket::connected(to, qos, &args.transport.options()).map_err(failed)?;
    let timeout = args.transport.timeout;
    let opening = socket.clone();
    let connection = transport::interruptible(move || opening.connect_timeout(to, qos, timeout))?.map_err(failed)?;
    Ok((socket, connection))
}

impl Done {
    fn print(&self, output: &Output) {
        let how = if self.acknowledged { "delivered" } else { "sent (what was lost was not repeated)" };
        let stale = match self.messages_stale {
            0 => String::new(),
            stale => format!(", {stale} left out as too old"),
        };
        let how = format_args!("{how}{stale}");
        let blocks = (self.blocks_resent, self.blocks_sent, "blocks");
        output.last(summary(self.messages, how, (self.bytes, self.seconds), blocks), self);
    }
}

impl Sender<'_> {
    /// Sends what has come back, and then all that has not been read; waits for its end. `next`: the first of those.
    fn send_all(&mut self, next: &mut u64, read: &mut impl FnMut(u64) -> Result<Message, Error>) -> Result<(), Error> {
        loop {
            if let Some((number, message)) = self.back.pop_front() {
                self.send(message, number)?;
            } else if *next < self.args.what.count {
                let number = *next;
                *next += 1;
                self.send(read(number)?, number)?;
            } else {
                return self.finish();
            }
        }
    }

    fn block_bytes(&self) -> u32 {
        self.connection.facts().map_or(0, |facts| facts.block_bytes)
    }

    /// The record of another connection that may carry what this one could not, if nobody has said how large blocks are. What was
    /// not delivered is to be sent again: the oldest block of it has not come, and nothing behind it was handed over there.
    fn smaller(&mut self, qos: &Qos) -> Option<Qos> {
        if self.args.qos.block.is_some() || self.connection.result() != Some(Err(Failure::Swallowed)) {
            return None;
        }
        let block_size = a1::smaller_block(self.block_bytes())?;
        let blocks = qos.largest_sent.div_ceil(block_size).max(1);
        // The window has to be countable in them, and so has a message.
        let outstanding = qos.outstanding.min((a1::WINDOW_LIMIT - 1) / blocks);
        if outstanding == 0 || blocks > u16::MAX.into() {
            return None;
        }
        let most = ((a1::WINDOW_LIMIT - 1) / outstanding).saturating_mul(block_size);
        let largest_received = qos.largest_received.min(most);
        while let Some((number, sending)) = self.under_way.pop_front() {
            match sending.wait() {
                Ok(message) => self.landed(&message, number),
                Err(Unsent { message, .. }) => self.back.push_back((number, message?)),
            }
        }
        self.back.make_contiguous().sort_by_key(|(number, _)| *number);
        self.queued = self.bytes;
        Some(Qos { block_size, outstanding, largest_received, ..*qos })
    }

    /// A message has ended well.
    fn landed(&mut self, message: &Message, number: u64) {
        self.messages += 1;
        self.bytes += message.len() as u64;
        self.print(message, number, false);
    }

    /// The error; the message is kept.
    fn lost(&mut self, number: u64, unsent: Unsent) -> Error {
        self.back.extend(unsent.message.map(|message| (number, message)));
        self.error(unsent.error)
    }

    /// Queues a message, and waits for room.
    fn send(&mut self, mut message: Message, number: u64) -> Result<(), Error> {
        let len = message.len() as u64;
        loop {
            if let Err(error) = self.look() {
                self.back.push_back((number, message));
                return Err(error);
            }
            let unsent = match self.connection.send_tracked(message, Full::Report) {
                Ok(sending) => {
                    self.under_way.push_back((number, sending));
                    self.queued += len;
                    return Ok(());
                }
                Err(unsent) => unsent,
            };
            message = match (unsent.message, unsent.error) {
                (Some(message), pinnace::Error::WindowFull(_)) => message,
                (message, error) => return Err(self.lost(number, Unsent { message, error })),
            };
            if let Err(error) = self.ended() {
                self.back.push_back((number, message));
                return Err(error);
            }
        }
    }

    /// Waits a moment for the end of the oldest.
    fn ended(&mut self) -> Result<(), Error> {
        let Some((number, oldest)) = self.under_way.pop_front() else {
            std::thread::sleep(interrupt::LOOK / 100);
            return Ok(());
        };
        match oldest.wait_timeout(interrupt::LOOK) {
            Progress::Ended(Ok(message)) => self.landed(&message, number),
            // The connection lives: the message was too old.
            Progress::Ended(Err(unsent)) if self.args.deadline.is_some() && self.connection.result().is_none() => {
                self.stale += 1;
                self.print(unsent.message.as_deref().unwrap_or_default(), number, true);
            }
            Progress::Ended(Err(unsent)) => return Err(self.lost(number, unsent)),
            Progress::UnderWay(sending) => self.under_way.push_front((number, sending)),
        }
        Ok(())
    }

    /// Waits until everything has arrived, and closes the connection.
    fn finish(&mut self) -> Result<(), Error> {
        while !self.under_way.is_empty() {
            self.look()?;
            self.ended()?;
        }
        let timeout = self.args.transport.timeout;
        self.connection.begin_close(timeout).map_err(|error| self.error(error))?;
        // CLOSE is repeated 511 time-outs long, which is minutes on a long path.
        let begun = Instant::now();
        loop {
            self.look()?;
            match self.connection.wait_closed(interrupt::LOOK) {
                Ok(()) if self.connection.facts().is_ok_and(|facts| facts.is_unanswered) => {
                    return Err(self.unanswered(begun.elapsed()));
                }
                Ok(()) => return Ok(()),
                Err(pinnace::Error::Timeout) if begun.elapsed() >= timeout => {
                    return Err(self.unanswered(begun.elapsed()));
                }
                Err(pinnace::Error::Timeout) => {}
                // Everything was acknowledged before: that the peer goes at once changes nothing.
                Err(pinnace::Error::ConnectionFailed(Failure::Unfinished | Failure::AbortedByPeer)) => return Ok(()),
                Err(error) => return Err(self.error(error)),
            }
        }
    }

    /// Fails on Ctrl-C; moves the bar.
    fn look(&self) -> Result<(), Error> {
        interrupt::check()?;
        if let Ok(facts) = self.connection.facts() {
            self.bar.set_position((facts.acked * u64::from(facts.block_bytes)).min(self.queued));
        }
        Ok(())
    }

    /// Prints the line of a message that has left, or was too old before all of it had.
    fn print(&self, content: &[u8], message: u64, is_stale: bool) {
        if !self.output.json && !self.output.verbose {
            return;
        }
        let mut sum = Sum::default();
        sum.add(content);
        let (bytes, sha256) = sum.finish();
        let (whole, stale) = (!is_stale, Some(is_stale));
        let line = Line { event: "message", message, bytes, sha256, whole, lost: false, stale, peer: None };
        self.bar.suspend(|| line.print(self.output));
    }

    /// Everything is there, but whether the peer knows that this was all is not known.
    fn unanswered(&self, waited: Duration) -> Error {
        let (to, seconds) = (self.name, waited.as_secs_f32());
        let is_acknowledged = self.args.qos.mode.record().has_retransmission;
        let what = if is_acknowledged { "everything was acknowledged" } else { "everything has left" };
        Error::peer_gone(format!(
            "{what}, but {to} has not answered the farewell within {seconds:.1} s: it was ended, or the network between is down"
        ))
    }

    fn error(&self, error: pinnace::Error) -> Error {
        self.args.transport.error(self.name, "a1 listen", error)
    }
}
