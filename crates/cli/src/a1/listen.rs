//! `pinnace a1 listen`.
//!
//! Always true: each connection is served by a thread of its own, so that a slow one does not hold up the others; this thread
//! alone prints.

use super::{Line, Lost, QosArgs, Transport};
use crate::address::resolve;
use crate::bare::{self, Crew, Local, Sum, announce, one_line};
use crate::exit::Error;
use crate::interrupt;
use crate::output::{self, Output};
use crate::transport;
use pinnace::a1::{Connection, Failure, Socket, Status};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pinnace a1 listen 127.0.0.1:7001 --count 1                 one message, and the end
  pinnace a1 listen 0.0.0.0:7001 --mode raw --checksum       as the sender says it, too";

/// Arguments of `pinnace a1 listen`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    local: Local,
    /// End after so many messages, whoever sent them; with --mode raw one of which a part came counts [default: go on until
    /// Ctrl-C]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The largest message that is taken
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = transport::bytes)]
    size: u64,
    #[command(flatten)]
    qos: QosArgs,
    #[command(flatten)]
    transport: Transport,
}

/// What a connection's thread has to say.
type Told = bare::Told<Said>;

/// What it prints.
enum Said {
    Line(Line),
    Lost(Lost),
    /// The message whose parts were told has ended, though its end was lost.
    Over,
}

impl Said {
    /// `message`: which one it is.
    fn print(self, message: u64, output: &Output) {
        match self {
            Self::Line(line) => Line { message, ..line }.print(output),
            Self::Lost(lost) => output.result("lost", &lost),
            Self::Over => {}
        }
    }
}

/// Connections that wait until a thread takes them; further ones are refused.
const BACKLOG: usize = 4096;
/// How long connections have to come to their end when enough has come: as long as a peer takes to say on a path that loses
/// much that it has heard so, and the bound of that.
const LINGER: Duration = Duration::from_secs(1);
const LONGEST_LINGER: Duration = Duration::from_secs(3);
const LINGER_TRIPS: u32 = 12;
/// Who has broken off a connection because its blocks were too large opens another one at once.
const COMES_AGAIN: Duration = Duration::from_secs(2);

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    interrupt::install();
    output::only_prints();
    let qos = args.qos.receiver(args.size)?;
    let address = args.local.address();
    let failed = |error| args.transport.error(address, "a1 listen", error);
    let socket = Socket::bind_with(resolve(address)?, qos, &args.transport.options()).map_err(failed)?;
    socket.listen(BACKLOG)?;
    socket.warnings().iter().for_each(|warning| output.warn(warning));
    announce(output, &socket.local_addr().to_string());
    let is_over = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let (tell, told) = channel();
        let (is_over, socket) = (&is_over, &socket);
        bare::begin(scope, move || accept(scope, is_over, socket, &tell))?;
        let result = bare::print(args.count, output, &told, |message, said: Said| said.print(message, output));
        is_over.store(true, Ordering::Relaxed);
        result
    });
    output.note(one_line(&socket.counters()));
    super::part(&socket);
    result
}

fn is_ended(is_over: &AtomicBool) -> bool {
    is_over.load(Ordering::Relaxed) || interrupt::requested()
}

/// Takes who comes, each on a thread of its own, once there is one.
fn accept<'scope>(scope: &'scope Scope<'scope, '_>, is_over: &'scope AtomicBool, socket: &Socket, tell: &Sender<Told>) {
    let mut crew = Crew::new(scope);
    let callers = Arc::new(Callers::default());
    while crew.wait(tell, || is_ended(is_over)) {
        match socket.accept_timeout(interrupt::LOOK) {
            Ok(None) => {}
            Ok(Some(connection)) => {
                let (tell, callers) = (tell.clone(), Arc::clone(&callers));
                let host = connection.peer_addr().ip();
                let call = callers.note(host);
                crew.give(move || {
                    if let Err(Broken { why, is_empty }) = read(&connection, is_over, &tell) {
                        let is_anew = is_empty && callers.calls_again(host, call, || is_ended(is_over));
                        // Whoever prints may have had enough.
                        drop(tell.send(if is_anew { Told::Unproved(why) } else { Told::Broken(why) }));
                    }
                });
            }
            Err(error) => {
                let _ = tell.send(Told::Failed(error.into()));
                return;
            }
        }
    }
}

/// Who has called, and how often. Whose blocks are too large for the path breaks a connection off of which nothing was read, and
/// comes again with smaller ones: that is no sender that failed.
#[derive(Default)]
struct Callers {
    calls: Mutex<HashMap<IpAddr, u64>>,
}

impl Callers {
    /// Hosts that are remembered at most.
    const MOST: usize = 65_536;

    /// Another connection of this host has come; which it is.
    fn note(&self, host: IpAddr) -> u64 {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= Self::MOST {
            calls.clear();
        }
        let count = calls.entry(host).or_default();
        *count += 1;
        *count
    }

    /// Waits a moment for a later one of the same host.
    fn calls_again(&self, host: IpAddr, call: u64, is_over: impl Fn() -> bool) -> bool {
        let begun = Instant::now();
        loop {
            let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(&host).copied();
            if calls.is_none_or(|calls| calls > call) {
                return true;
            }
            if begun.elapsed() > COMES_AGAIN || is_over() {
                return false;
            }
            std::thread::sleep(interrupt::LOOK / 4);
        }
    }
}

/// A connection that broke: why, and whether its peer has ended it before anything was read.
struct Broken {
    why: String,
    is_empty: bool,
}

fn linger(connection: &Connection) -> Duration {
    let trips = connection.round_trip().unwrap_or_default().saturating_mul(LINGER_TRIPS);
    trips.clamp(LINGER, LONGEST_LINGER)
}

/// Reads messages until the peer has closed the connection, or enough has come.
fn read(connection: &Connection, is_over: &AtomicBool, tell: &Sender<Told>) -> Result<(), Broken> {
    let mut parts = Parts::default();
    let result = read_on(connection, is_over, tell, &mut parts);
    let peer = connection.peer_addr();
    // Whoever repeats what is lost has broken off a message that has no end. It is none, and does not count.
    let is_cut = parts.is_open && connection.qos().is_ok_and(|qos| qos.has_retransmission);
    if !is_cut {
        if parts.is_open || matches!(result, Ok(Ended::Lossy { at_end: true })) {
            // Nothing stands behind it that could say so.
            let _ = tell.send(Told::Aside(Said::Lost(Lost { event: "lost", peer: peer.to_string() })));
        }
        parts.end(tell);
    }
    let is_aborted = connection.result() == Some(Err(Failure::AbortedByPeer));
    let is_empty = is_aborted && result.is_err() && !parts.has_read;
    let ended = match result {
        Ok(_) if is_cut && !is_ended(is_over) => {
            Err(format!("{peer} has closed the connection in the middle of a message"))
        }
        Ok(Ended::Over) => Ok(()),
        Ok(Ended::Lossy { .. }) => {
            // All that was lost was told. But who counts would wait for a message of which nothing came.
            Err(format!("{peer} has closed the connection, and something was lost, perhaps whole messages"))
        }
        Err(error) => Err(format!("the connection with {peer} broke: {error}")),
    };
    ended.map_err(|why| Broken { why, is_empty })
}

/// How a connection has ended in good order.
enum Ended {
    Over,
    /// And something was lost, perhaps behind everything that came.
    Lossy {
        at_end: bool,
    },
}

/// Parts of messages, each of which counts once, however many parts there are of it.
#[derive(Default)]
struct Parts {
    /// A message has begun whose end has not come.
    is_open: bool,
    /// Something was read.
    has_read: bool,
}

impl Parts {
    fn take(&mut self, line: Line, status: Status, tell: &Sender<Told>) {
        if status.contains(Status::START) {
            self.end(tell);
        }
        self.is_open = !status.contains(Status::END);
        self.has_read = true;
        let line = Said::Line(line);
        // Whoever prints may have had enough.
        let _ = tell.send(if self.is_open { Told::Aside(line) } else { Told::Message(line) });
    }

    /// Nothing more comes of the message that has begun.
    fn end(&mut self, tell: &Sender<Told>) {
        if std::mem::take(&mut self.is_open) {
            let _ = tell.send(Told::Message(Said::Over));
        }
    }
}

fn read_on(
    connection: &Connection,
    is_over: &AtomicBool,
    tell: &Sender<Told>,
    parts: &mut Parts,
) -> Result<Ended, String> {
    let mut over_since = None;
    let mut has_lost = false;
    loop {
        match connection.recv_timeout(interrupt::LOOK) {
            Ok(Some(received)) => {
                let mut sum = Sum::default();
                sum.add(&received.data);
                let (bytes, sha256) = sum.finish();
                let whole = received.status.contains(Status::START | Status::END);
                let lost = received.status.contains(Status::LOST);
                has_lost |= lost || !whole;
                // What is there of a message of which nothing came is nothing.
                if whole || bytes > 0 {
                    let peer = Some(connection.peer_addr().to_string());
                    let line = Line { event: "message", message: 0, bytes, sha256, whole, lost, stale: None, peer };
                    parts.take(line, received.status, tell);
                }
                connection.recycler().recycle(received.data);
            }
            Ok(None) => {
                let at_end = connection.status().contains(Status::LOST);
                return Ok(if at_end || has_lost { Ended::Lossy { at_end } } else { Ended::Over });
            }
            Err(pinnace::Error::Timeout) => {}
            Err(error) => return Err(error.to_string()),
        }
        // The peer closes when it has heard that the last message has come.
        let is_late = is_ended(is_over) && over_since.get_or_insert_with(Instant::now).elapsed() > linger(connection);
        if interrupt::requested() || is_late {
            return Ok(Ended::Over);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_counts_once_however_many_parts_there_are_of_it() {
        let (tell, told) = channel();
        let mut parts = Parts::default();
        let (start, end, lost) = (Status::START, Status::END, Status::LOST);
        // One with two gaps, one whole, one without its end, one without its beginning, one that nothing ends.
        for status in [start, lost, lost | end, start | end, start, lost | start, lost, lost | end, lost | start] {
            let sha256 = String::new();
            let (whole, lost) = (false, false);
            let line = Line { event: "message", message: 0, bytes: 1, sha256, whole, lost, stale: None, peer: None };
            parts.take(line, status, &tell);
        }
        parts.end(&tell);
        parts.end(&tell);
        drop(tell);
        let counted: Vec<bool> = told.iter().map(|told| matches!(told, Told::Message(_))).collect();
        let (counts, is_part) = (true, false);
        let expected = [is_part, is_part, counts, counts, is_part, counts, is_part, is_part, counts, is_part, counts];
        assert_eq!(counted, expected);
    }
}
