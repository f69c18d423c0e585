//! `pinnace qmp send`.

use super::Line;
use super::settings::{LinkName, Transport, Wire};
use crate::address::{resolve, resolve_peer, station};
use crate::bare::{Content, Sum, What, bar, one_line, summary, tenths};
use crate::content::DATA;
use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use indicatif::ProgressBar;
use pinnace::qmp::{Endpoint, EtherAddress, Options, Shutdown, State, Stream, settle};
use pinnace::xtp::Failure;
use serde::Serialize;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pinnace qmp send results.bin 127.0.0.1:7001
  tar c photos | pinnace qmp send - 127.0.0.1:7001
      a stream of a length that nobody knows yet";

/// Arguments of `pinnace qmp send`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{DATA}"), override_usage = "pinnace qmp send [OPTIONS] FILE|- HOST:PORT\n       \
    pinnace qmp send [OPTIONS] --size BYTES --to HOST:PORT")]
pub(crate) struct Args {
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    transport: Transport,
}

/// The last line.
#[derive(Default, Serialize)]
struct Done {
    event: &'static str,
    messages: u64,
    bytes: u64,
    seconds: f64,
    packets_sent: u64,
    packets_resent: u64,
    /// The peer has acknowledged all of it.
    acknowledged: bool,
}

/// What a sender has at hand.
struct Sender<'a> {
    args: &'a Args,
    output: &'a Output,
    /// None of its own over shared memory, and over a link of the daemon's.
    endpoint: Option<&'a Endpoint>,
    options: &'a Options,
    /// As the user has it.
    name: &'a str,
    to: &'a Peer,
    bar: ProgressBar,
    bytes: u64,
    /// Packets that have come, and since when no more have.
    heard: u64,
    since: Instant,
    /// When one has come last, whatever was expected.
    answered: Instant,
}

/// Where it goes.
enum Peer {
    Host(SocketAddr),
    /// A station of Ethernet that is known by its link address.
    Station(EtherAddress, u16),
}

impl Peer {
    fn of(name: &str, link: LinkName) -> Result<Self, Error> {
        match station(name) {
            Some((station, port)) if link == LinkName::Ether => Ok(Self::Station(station, port)),
            _ if link == LinkName::Udp => resolve_peer(name).map(Self::Host),
            _ => resolve(name).map(Self::Host),
        }
    }

    fn endpoint(&self, wire: Wire, options: &Options) -> io::Result<Endpoint> {
        match self {
            Self::Host(to) => wire.client_of(*to, options),
            Self::Station(station, _) => Endpoint::client_of_station(station, options),
        }
    }
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let (mut content, name) = args.what.open("what goes over one connection")?;
    let options = args.transport.options();
    let to = Peer::of(&name, args.transport.wire.link)?;
    interrupt::install();
    let wire = args.transport.wire;
    wire.check()?;
    let endpoint = match wire.link {
        LinkName::Shm => None,
        _ => match (to.endpoint(wire, &options), &to) {
            // Whoever may not use the link may have a daemon that may.
            (Err(error), Peer::Host(_)) if options.has_helper(&error) => None,
            (endpoint, _) => Some(endpoint.map_err(|error| wire.opening(&error))?),
        },
    };
    endpoint.iter().flat_map(Endpoint::warnings).for_each(|warning| output.warn(warning));
    let bar = bar(content.len().map(|len| len.saturating_mul(args.what.count)));
    let (name, begun) = (name.as_str(), Instant::now());
    let mut sender = Sender {
        args,
        output,
        endpoint: endpoint.as_ref(),
        options: &options,
        name,
        to: &to,
        bar,
        bytes: 0,
        heard: 0,
        since: begun,
        answered: begun,
    };
    let sent = (0..args.what.count).try_for_each(|number| sender.connection(&mut content, number));
    let (seconds, bytes) = (begun.elapsed().as_secs_f64(), sender.bytes);
    sender.bar.finish_and_clear();
    let counters = endpoint.as_ref().map(Endpoint::counters).unwrap_or_default();
    output.note(one_line(&counters));
    if sent.is_err() {
        settle(interrupt::FAREWELL);
    }
    sent?;
    let done = Done {
        event: "done",
        messages: args.what.count,
        bytes,
        seconds,
        packets_sent: counters.data_packets_sent,
        packets_resent: counters.data_packets_resent,
        acknowledged: true,
    };
    let packets = (done.packets_resent, done.packets_sent, "packets");
    output.last(summary(args.what.count, "delivered", (bytes, seconds), packets), &done);
    // The listener may not have heard that this was all.
    endpoint.iter().for_each(Endpoint::part);
    Ok(())
}

impl Sender<'_> {
    /// One connection, from its first byte to its end.
    fn connection(&mut self, content: &mut Content, number: u64) -> Result<(), Error> {
        self.since = Instant::now();
        let stream = match (self.endpoint, self.to) {
            (Some(endpoint), Peer::Station(station, port)) => endpoint.begin_station(station, *port),
            (Some(endpoint), Peer::Host(to)) => endpoint.begin(to),
            (None, Peer::Host(to)) => Stream::begin(*to, self.options),
            (None, Peer::Station(..)) => Err(io::ErrorKind::InvalidInput.into()),
        };
        let stream = stream.map_err(|error| self.error(&error))?;
        stream.set_read_timeout(Some(interrupt::LOOK));
        stream.set_write_timeout(Some(interrupt::LOOK));
        let result = self.send(&stream, content, number);
        if result.is_err() {
            // Nothing is left to be waited for.
            stream.set_linger(Some(Duration::ZERO));
        }
        result
    }

    fn send(&mut self, stream: &Stream, content: &mut Content, number: u64) -> Result<(), Error> {
        let before = self.bytes;
        let mut sum = Sum::default();
        let mut pieces = content.pieces(number)?;
        while let Some((piece, _)) = pieces.next(|| self.is_there(stream))? {
            if self.output.json || self.output.verbose {
                sum.add(&piece);
            }
            // Reading what is to be sent may take any time.
            self.since = Instant::now();
            let mut rest = &piece[..];
            while !rest.is_empty() {
                self.look(stream, before)?;
                match stream.write(rest) {
                    Ok(taken) => {
                        rest = &rest[taken..];
                        self.bytes += taken as u64;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(self.error(&error)),
                }
            }
        }
        stream.shutdown(Shutdown::Write).map_err(|error| self.error(&error))?;
        self.since = Instant::now();
        // The listener ends its half when it has read all of ours; another program may end its half sooner.
        let mut has_ended = false;
        loop {
            self.look(stream, before)?;
            match stream.try_flush() {
                // Whoever never was there has not stopped reading.
                Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(self.error(&error)),
                Some(Err(error)) => {
                    let has_stopped = failure(&error).is_none_or(|failure| *failure == Failure::StoppedReading);
                    return Err(if has_stopped { self.unread() } else { self.error(&error) });
                }
                Some(Ok(())) if has_ended => break,
                _ if has_ended => std::thread::sleep(interrupt::LOOK / 10),
                _ => match stream.read(&mut [0; 1024]) {
                    Ok(taken) => has_ended = taken == 0,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(self.error(&error)),
                },
            }
        }
        self.bar.set_position(self.bytes);
        self.print(stream, number, sum.finish());
        Ok(())
    }

    /// To be called while there is nothing to send. Fails if the peer is gone, or on Ctrl-C.
    fn is_there(&self, stream: &Stream) -> Result<(), Error> {
        interrupt::check()?;
        if stream.state() != State::Quiescent {
            return Ok(());
        }
        match stream.read(&mut [0]) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(self.error(&error)),
            _ => Ok(()),
        }
    }

    /// Prints the line of what was sent.
    fn print(&self, stream: &Stream, message: u64, (bytes, sha256): (u64, String)) {
        if !self.output.json && !self.output.verbose {
            return;
        }
        let line = Line { event: "message", message, bytes, sha256, way: stream.way().to_string(), peer: None };
        self.bar.suspend(|| line.print(self.output));
    }

    /// To be called every [`interrupt::LOOK`] while waiting. Fails if the peer is silent, or on Ctrl-C.
    fn look(&mut self, stream: &Stream, before: u64) -> Result<(), Error> {
        interrupt::check()?;
        if let Some(bytes) = acknowledged(stream) {
            self.bar.set_position((before + bytes).min(self.bytes));
        }
        // The daemon knows when a process of this host is gone.
        let Some(endpoint) = self.endpoint else { return Ok(()) };
        let counters = endpoint.counters();
        let heard = counters.data_packets_received + counters.statuses_received + counters.diags_received;
        if heard != self.heard {
            let now = Instant::now();
            (self.heard, self.since, self.answered) = (heard, now, now);
        }
        if self.since.elapsed() > self.args.transport.timeout { Err(self.gone()) } else { Ok(()) }
    }

    fn gone(&self) -> Error {
        let (to, seconds) = (self.name, tenths(self.answered.elapsed().min(self.args.transport.timeout)));
        if self.heard > 0 {
            return Error::peer_gone(format!(
                "{to} has not answered for {seconds} s: it was ended, or the network between is down; run the command again \
                 when it is back"
            ));
        }
        let carrier = match self.args.transport.wire.link {
            LinkName::Udp => "UDP",
            LinkName::Ip36 => "IP protocol 36",
            LinkName::Ether => "Ethernet",
            LinkName::Shm => "shared memory",
        };
        Error::peer_gone(format!(
            "no answer from {to} within {seconds} s: is `pinnace qmp listen` running there with the same --link, and does \
             {carrier} reach it?"
        ))
    }

    fn unread(&self) -> Error {
        let to = self.name;
        Error::peer_gone(format!("{to} stopped reading before it had everything; run the command again"))
    }

    /// An error of the transport, in the user's words.
    fn error(&self, error: &io::Error) -> Error {
        let to = self.name;
        match (error.kind(), failure(error)) {
            (_, Some(Failure::Unknown)) => Error::peer_gone(format!(
                "{to} does not know the connection any more, so nobody can say whether it has everything; look there before \
                 you run the command again"
            )),
            (_, Some(Failure::Swallowed)) => Error::peer_gone(format!(
                "{to} answers, but no data reach it any more: the path may lose all packets of their size"
            )),
            (_, Some(refused @ Failure::Refused { .. }))
                if !matches!(refused, Failure::Refused { code: 1, value: 1 }) =>
            {
                Error::peer_gone(format!("{to} refuses the connection: {refused}"))
            }
            (io::ErrorKind::ConnectionRefused, _) => {
                Error::peer_gone(format!("nobody listens at {to}; start `pinnace qmp listen` there"))
            }
            (io::ErrorKind::TimedOut, _) => self.gone(),
            (io::ErrorKind::PermissionDenied, _) => self.args.transport.wire.opening(error),
            (io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe, _) => {
                Error::peer_gone(format!("{to} ended the connection in the middle; run the command again"))
            }
            _ => Error::failed(error.to_string()),
        }
    }
}

/// How the association has ended, where that is the reason.
fn failure(error: &io::Error) -> Option<&Failure> {
    match error.get_ref()?.downcast_ref()? {
        pinnace::Error::ContextFailed(failure) => Some(failure),
        _ => None,
    }
}

/// Bytes that the peer has acknowledged; `None` after the end.
fn acknowledged(stream: &Stream) -> Option<u64> {
    stream.facts().ok().map(|facts| facts.acked.wrapping_sub(facts.start))
}
