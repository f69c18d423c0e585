//! `pinnace xtp send`.

use super::settings::{Groups, Programming, ServiceName, service_name, service_to_group};
use super::watch::Watch;
use super::{Line, Transport};
use crate::bare::{Content, Sum, What, bar, one_line, summary};
use crate::content::DATA;
use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::thread;
use indicatif::ProgressBar;
use pinnace::Message;
use pinnace::xtp::{Close, Connection, ControlBlock, Endpoint, Progress, Refused, SendOptions, Sending, Service};
use serde::Serialize;
use std::collections::VecDeque;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pinnace xtp send results.bin 127.0.0.1:7001
  tar c photos | pinnace xtp send - 127.0.0.1:7001 --service bulk-data
      straight into the buffers of the listener
  pinnace xtp send results.bin 239.1.2.3:7001 --interface 192.0.2.7
      once, to all who listen to the group";

/// Arguments of `pinnace xtp send`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{DATA}"), override_usage = "pinnace xtp send [OPTIONS] FILE|- HOST:PORT\n       \
    pinnace xtp send [OPTIONS] --size BYTES --to HOST:PORT")]
pub(crate) struct Args {
    #[command(flatten)]
    what: What,
    /// How it is carried
    #[arg(long, value_enum, default_value_t)]
    service: ServiceName,
    /// Datagrams under way at a time
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1024))]
    parallel: u16,
    #[command(flatten)]
    groups: Groups,
    #[command(flatten)]
    programming: Programming,
    #[command(flatten)]
    transport: Transport,
}

/// The last line.
#[derive(Default, Serialize)]
struct Done {
    event: &'static str,
    service: &'static str,
    messages: u64,
    bytes: u64,
    seconds: f64,
    packets_sent: u64,
    packets_resent: u64,
    /// Whether the peer has acknowledged all of it.
    acknowledged: bool,
}

/// A piece of a stream on its way, and what is to be said when it ends: the message that it is the last of.
struct UnderWay {
    /// Nothing: a message without a byte, which ends with its stream.
    sending: Option<Sending>,
    message: Option<(u64, (u64, String))>,
}

/// What a sender of any service has at hand.
struct Sender<'a> {
    args: &'a Args,
    output: &'a Output,
    endpoint: &'a Endpoint,
    to: SocketAddr,
    group: Option<SocketAddrV4>,
    block: ControlBlock,
    watch: Watch<'a>,
    bar: ProgressBar,
    bytes: u64,
    /// When the last packet had left, where that is all that can be known.
    left_at: Option<Instant>,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let (mut content, address) = args.what.open("an XTP message")?;
    if content.len() == Some(0) && args.what.count != 1 && !args.service.is_one_message() {
        return Err(Error::usage(format!(
            "--count: a stream ({}) has no empty messages; one alone is an empty stream",
            args.service
        )));
    }
    let Transport { wire, timeout, .. } = &args.transport;
    let to = wire.peer(&address)?;
    let group = args.groups.group(to, *wire)?;
    let service = match group {
        Some(_) => service_to_group(args.service)?,
        None => args.service.into(),
    };
    interrupt::install();
    let options = args.programming.apply(args.transport.options());
    let endpoint = match group {
        Some(_) => args.groups.endpoint(&options)?,
        None => wire.client_of(to, &options)?,
    };
    endpoint.warnings().iter().for_each(|warning| output.warn(warning));
    let block = args.programming.block(&endpoint, service, *timeout)?;
    let watch = Watch::new(&endpoint, &address, wire.link, *timeout);
    let watch = if group.is_some() { watch.of_group(service) } else { watch };
    let bar = bar(content.len().map(|len| len.saturating_mul(args.what.count)));
    let mut sender =
        Sender { args, output, endpoint: &endpoint, to, group, block, watch, bar, bytes: 0, left_at: None };
    let begun = Instant::now();
    let sent = match args.service {
        ServiceName::Transaction => sender.requests(&mut content),
        ServiceName::UnackDgram | ServiceName::AckDgram => sender.datagrams(&mut content),
        _ => sender.stream(&mut content),
    };
    let ended = sender.left_at.unwrap_or_else(Instant::now);
    let (seconds, bytes) = (ended.duration_since(begun).as_secs_f64(), sender.bytes);
    sender.bar.finish_and_clear();
    drop(sender);
    if sent.is_err() {
        // Nothing is left to be waited for, but that the listener knows.
        endpoint.settle(interrupt::FAREWELL);
        endpoint.abort();
    }
    sent?;
    let counters = endpoint.counters();
    output.note(one_line(&counters));
    done(
        service,
        output,
        &Done {
            event: "done",
            service: service_name(service),
            messages: args.what.count,
            bytes,
            seconds,
            packets_sent: counters.data_packets_sent,
            packets_resent: counters.data_packets_resent,
            acknowledged: !matches!(service, Service::UnackDgram | Service::IsoStream | Service::UnackMulticast),
        },
    );
    // The listener may not have heard that this was all.
    endpoint.part();
    Ok(())
}

fn done(service: Service, output: &Output, done: &Done) {
    let how = match service {
        Service::UnackDgram => "sent (nobody says whether they arrived)",
        Service::IsoStream => "sent (what was lost was not repeated; the listener says what)",
        Service::UnackMulticast => "sent (what was lost was not repeated; the listeners say what)",
        Service::Multicast => "delivered to all in the group who answered",
        _ => "delivered",
    };
    let packets = (done.packets_resent, done.packets_sent, "packets");
    output.last(summary(done.messages, how, (done.bytes, done.seconds), packets), done);
}

impl Sender<'_> {
    /// Prints the line of a message that was sent.
    fn print(&self, number: u64, (bytes, sha256): (u64, String)) {
        if !self.output.json && !self.output.verbose {
            return;
        }
        let service = service_name(self.block.service);
        let line = Line { event: "message", message: number, bytes, sha256, service, holes: None, peer: None };
        self.bar.suspend(|| line.print(self.output));
    }

    /// All messages on one stream, which ends with the last of them. If it ends before, the listener is told: it would
    /// otherwise wait for the rest until it finds that nobody is there.
    fn stream(&mut self, content: &mut Content) -> Result<(), Error> {
        let connection = match self.group {
            Some(group) => {
                let opened = self.endpoint.open_group_with(group, self.block.clone());
                opened.map_err(|error| self.args.groups.error(error))?
            }
            None => {
                let opened = self.endpoint.connect_with(self.to, self.block.clone());
                opened.map_err(|error| self.watch.error(error))?
            }
        };
        let mut under_way = VecDeque::new();
        let sent = self.stream_on(&connection, content, &mut under_way);
        if sent.is_err() {
            // What has ended well was sent all the same.
            let _ = self.settle(&mut under_way, Duration::ZERO);
            // It may be over already.
            let _ = connection.close(Close::Forced);
        }
        sent
    }

    fn stream_on(
        &mut self,
        connection: &Connection,
        content: &mut Content,
        under_way: &mut VecDeque<UnderWay>,
    ) -> Result<(), Error> {
        let mut sum = Sum::default();
        for number in 0..self.args.what.count {
            let mut has_begun = false;
            let mut pieces = content.pieces(number)?;
            while let Some((piece, eom)) = pieces.next(|| self.is_there(connection))? {
                if self.output.json || self.output.verbose {
                    sum.add(&piece);
                }
                self.bytes += piece.len() as u64;
                let options = if eom { SendOptions::MESSAGE } else { SendOptions::BYTES };
                let sending = self.queue(connection, piece, options, under_way)?;
                under_way.push_back(UnderWay { sending: Some(sending), message: None });
                has_begun = true;
            }
            let message = Some((number, sum.finish()));
            match under_way.back_mut() {
                Some(last) if has_begun => last.message = message,
                _ => under_way.push_back(UnderWay { sending: None, message }),
            }
        }
        connection.close(Close::Abbreviated).map_err(|error| self.watch.error(error))?;
        self.watch.begin();
        if self.block.service == Service::UnackMulticast {
            // Nobody answers: what follows is no part of how long it took.
            self.settle_all(under_way)?;
            self.left_at = Some(Instant::now());
        }
        loop {
            match connection.wait_closed_timeout(interrupt::LOOK) {
                Ok(()) => break,
                Err(pinnace::Error::Timeout) => {
                    self.look(connection)?;
                    self.settle(under_way, Duration::ZERO)?;
                }
                Err(error) => return Err(self.watch.error(error)),
            }
        }
        self.settle_all(under_way)
    }

    /// Waits for the end of everything.
    fn settle_all(&self, under_way: &mut VecDeque<UnderWay>) -> Result<(), Error> {
        while let Some(oldest) = under_way.front() {
            interrupt::check()?;
            match oldest.sending {
                Some(_) => self.settle(under_way, interrupt::LOOK)?,
                None => {
                    let message = under_way.pop_front().and_then(|oldest| oldest.message);
                    message.into_iter().for_each(|(number, sum)| self.print(number, sum));
                }
            }
        }
        Ok(())
    }

    /// Takes what has ended, in order, and prints the messages that it completes; waits so long for the oldest.
    fn settle(&self, under_way: &mut VecDeque<UnderWay>, mut wait: Duration) -> Result<(), Error> {
        while let Some(sending) = under_way.front_mut().and_then(|oldest| oldest.sending.take()) {
            match sending.wait_timeout(std::mem::take(&mut wait)) {
                Progress::Ended(Ok(_)) => {
                    let message = under_way.pop_front().and_then(|oldest| oldest.message);
                    message.into_iter().for_each(|(number, sum)| self.print(number, sum));
                }
                Progress::Ended(Err(unsent)) => return Err(self.watch.error(unsent.error)),
                Progress::UnderWay(sending) => {
                    if let Some(oldest) = under_way.front_mut() {
                        oldest.sending = Some(sending);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Queues a piece, and waits for room.
    fn queue(
        &mut self,
        connection: &Connection,
        mut piece: Message,
        options: SendOptions,
        under_way: &mut VecDeque<UnderWay>,
    ) -> Result<Sending, Error> {
        self.watch.begin();
        self.settle(under_way, Duration::ZERO)?;
        loop {
            self.look(connection)?;
            let unsent = match connection.try_send(piece, &options) {
                Ok(sending) => return Ok(sending),
                Err(unsent) => unsent,
            };
            piece = match (unsent.message, unsent.error) {
                (Some(message), pinnace::Error::ContextRefused(Refused::Full)) => message,
                (_, error) => return Err(self.watch.error(error)),
            };
            self.settle(under_way, interrupt::LOOK)?;
        }
    }

    /// Waits a moment for the end of the oldest, and puts it back if that was not enough.
    fn ended(
        &self,
        oldest: Sending,
        under_way: &mut VecDeque<Sending>,
        mut done: impl FnMut(Message),
    ) -> Result<(), Error> {
        match oldest.wait_timeout(interrupt::LOOK) {
            Progress::Ended(Ok(message)) => done(message),
            Progress::Ended(Err(unsent)) => return Err(self.watch.error(unsent.error)),
            Progress::UnderWay(sending) => under_way.push_front(sending),
        }
        Ok(())
    }

    /// To be called while there is nothing to send. Fails if the peer is gone, or on Ctrl-C.
    fn is_there(&self, connection: &Connection) -> Result<(), Error> {
        interrupt::check()?;
        match connection.wait_closed_timeout(Duration::ZERO) {
            Ok(()) | Err(pinnace::Error::Timeout) => Ok(()),
            Err(error) => Err(self.watch.error(error)),
        }
    }

    fn look(&mut self, connection: &Connection) -> Result<(), Error> {
        if let Ok(facts) = connection.facts() {
            // With xtp36 the numbers have 32 bits.
            let moved = (facts.acked.wrapping_sub(facts.start)).max(self.bar.position());
            self.bar.set_position(moved.min(self.bytes));
        }
        self.watch.look()
    }

    /// A datagram for each message.
    fn datagrams(&mut self, content: &mut Content) -> Result<(), Error> {
        let mut under_way = VecDeque::new();
        let (mut next, mut ended) = (0, 0);
        self.watch.begin();
        // Who does not acknowledge is not missed when it is silent.
        let is_acked = self.args.service == ServiceName::AckDgram;
        while ended < self.args.what.count {
            while next < self.args.what.count && under_way.len() < usize::from(self.args.parallel) {
                let message = content.whole(next)?;
                let sent = self.endpoint.datagram_with(self.to, message, self.block.clone(), &SendOptions::MESSAGE);
                under_way.push_back(sent.map_err(|unsent| self.watch.error(unsent.error))?);
                next += 1;
            }
            if is_acked {
                self.watch.look()?;
            } else {
                interrupt::check()?;
            }
            let Some(oldest) = under_way.pop_front() else { return Ok(()) };
            let mut message = None;
            self.ended(oldest, &mut under_way, |delivered| message = Some(delivered))?;
            if let Some(message) = message {
                let mut sum = Sum::default();
                sum.add(&message);
                self.print(ended, sum.finish());
                self.bytes += message.len() as u64;
                self.bar.set_position(self.bytes);
                ended += 1;
            }
        }
        Ok(())
    }

    /// A transaction for each message, whose response is counted and not shown.
    fn requests(&mut self, content: &mut Content) -> Result<(), Error> {
        for number in 0..self.args.what.count {
            let message = content.whole(number)?;
            let mut sum = Sum::default();
            sum.add(&message);
            self.bytes += message.len() as u64;
            let answer = transacted(self.endpoint, self.to, message, &self.block, &mut self.watch)?;
            self.print(number, sum.finish());
            self.output.note(format_args!("request {number}: a response of {} bytes", answer.0.len()));
            self.bar.set_position(self.bytes);
        }
        Ok(())
    }
}

/// One transaction: its response, and how long it took.
pub(super) fn transacted(
    endpoint: &Endpoint,
    to: SocketAddr,
    request: Message,
    block: &ControlBlock,
    watch: &mut Watch<'_>,
) -> Result<(Vec<u8>, Duration), Error> {
    let (done, ended) = channel();
    let (endpoint, block) = (endpoint.clone(), block.clone());
    // The call cannot be interrupted, and this thread can.
    thread::start(move || {
        let begun = Instant::now();
        let answer = endpoint.transact_with(to, request, block);
        done.send((answer, begun.elapsed()))
    })?;
    watch.begin();
    loop {
        match ended.recv_timeout(interrupt::LOOK) {
            Ok((Ok(answer), time)) if answer.holes.is_empty() => return Ok((answer.data, time)),
            Ok((Ok(_), _)) => {
                return Err(Error::not_verified(
                    "the response has holes: its sender repeats nothing (NOERR); ask again",
                ));
            }
            Ok((Err(error), _)) => return Err(watch.error(error)),
            Err(RecvTimeoutError::Timeout) => watch.look()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::failed("a thread of this program has failed; please report it"));
            }
        }
    }
}
