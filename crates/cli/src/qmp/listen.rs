//! `pinnace qmp listen`.
//!
//! Always true: each connection is served by a thread of its own, so that a slow one does not hold up the others; this thread
//! alone prints.

use super::Line;
use super::settings::Transport;
use crate::address::resolve;
use crate::bare::{self, Crew, Local, Sum, Trial, announce, one_line};
use crate::exit::Error;
use crate::interrupt;
use crate::output::{self, Output};
use pinnace::qmp::{Endpoint, Listener, Shutdown, State, Stream, settle};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pinnace qmp listen 127.0.0.1:7001 --count 1                 one connection, and the end
  sudo pinnace qmp listen 192.0.2.7:7001 --link ip36 --pcap qmp.pcap";

/// A stream that has not come to its end by then is left to the background.
const LONGEST: Duration = Duration::from_secs(10);

/// Arguments of `pinnace qmp listen`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    local: Local,
    /// End after so many connections, whoever made them; one that breaks and whose sender never answered does not count
    /// [default: go on until Ctrl-C]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    transport: Transport,
}

/// What a connection's thread has to say.
type Told = bare::Told<Line>;

/// Bytes that are read at a time.
const PIECE: usize = 256 << 10;
/// How long connections have to come to their end when enough has come.
const LINGER: Duration = Duration::from_secs(1);
/// How long the end of a stream is repeated if the peer does not say that it knows of it: four times, before there is a
/// measured round trip.
const FAREWELL: Duration = Duration::from_secs(5);

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    interrupt::install();
    output::only_prints();
    let Transport { wire, .. } = &args.transport;
    let address = args.local.address();
    let at = resolve(address)?;
    wire.check()?;
    if wire.link.is_raw() && at.port() == 0 {
        return Err(Error::usage(format!("over {} no system picks a port: give one", wire.link)));
    }
    let mut options = args.transport.options();
    options.limits.contexts = bare::KEPT;
    let listener = Listener::bind(at, &options).map_err(|error| wire.opening(&error))?;
    // None of its own on a link of the daemon's.
    let endpoint = listener.endpoint().cloned();
    endpoint.iter().flat_map(Endpoint::warnings).for_each(|warning| output.warn(warning));
    let address = listener.local_addr().to_string();
    announce(output, &address);
    let is_over = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let (tell, told) = channel();
        let is_over = &is_over;
        bare::begin(scope, move || accept(scope, is_over, &listener, &tell))?;
        let result = bare::print(args.count, output, &told, |message, line| Line { message, ..line }.print(output));
        is_over.store(true, Ordering::Relaxed);
        result
    });
    output.note(one_line(&endpoint.as_ref().map(Endpoint::counters).unwrap_or_default()));
    if result.is_ok() {
        endpoint.iter().for_each(Endpoint::part);
    } else {
        // Who was sending is told; what has ended well has been waited for.
        settle(interrupt::FAREWELL);
    }
    result
}

fn is_ended(is_over: &AtomicBool) -> bool {
    is_over.load(Ordering::Relaxed) || interrupt::requested()
}

/// Takes who comes, each on a thread of its own, once there is one.
fn accept<'scope>(
    scope: &'scope Scope<'scope, '_>,
    is_over: &'scope AtomicBool,
    listener: &Listener,
    tell: &Sender<Told>,
) {
    let mut crew = Crew::new(scope);
    while crew.wait(tell, || is_ended(is_over)) {
        match listener.accept_timeout(interrupt::LOOK) {
            Ok(None) => {}
            Ok(Some(stream)) => {
                let (tell, trial) = (tell.clone(), crew.trial());
                crew.give(move || serve(&stream, &trial, is_over, &tell));
            }
            Err(error) => {
                let _ = tell.send(Told::Failed(Error::io("cannot accept connections", &error)));
                return;
            }
        }
    }
}

/// Reads a stream to its end, says what came, and ends it.
fn serve(stream: &Stream, trial: &Trial<'_>, is_over: &AtomicBool, tell: &Sender<Told>) {
    let (mut sum, mut is_proved) = (Sum::default(), false);
    match read(stream, &mut sum, &mut is_proved, trial, is_over) {
        // Whoever prints may have had enough.
        Ok(Some(line)) => {
            let _ = tell.send(Told::Message(line));
            return close(stream, trial, is_over);
        }
        Ok(None) => {}
        Err(error) => {
            let broke = |why| format!("the connection with {} broke: {why}", stream.peer_addr());
            drop(tell.send(match error.kind() {
                // Whoever was here knew the address.
                io::ErrorKind::TimedOut => bare::silenced(broke(bare::gone(sum.bytes)), is_proved),
                _ => Told::Broken(broke(error.to_string())),
            }));
        }
    }
    // Broken off: what has come would otherwise look to its sender as if it had been wanted.
    stream.set_linger(Some(Duration::ZERO));
}

/// Reads a stream to its end; `None` if there is no time for that. Looks as well whether the peer is where its packets come
/// from: what ends in silence has been looked at since it was heard last.
fn read(
    stream: &Stream,
    sum: &mut Sum,
    is_proved: &mut bool,
    trial: &Trial<'_>,
    is_over: &AtomicBool,
) -> io::Result<Option<Line>> {
    stream.set_read_timeout(Some(interrupt::LOOK));
    let mut piece = vec![0; PIECE];
    let mut over_since = None;
    loop {
        *is_proved = *is_proved || stream.is_proved();
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => sum.add(&piece[..n]),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) if !*is_proved && trial.is_over() => return Err(io::ErrorKind::TimedOut.into()),
            Err(_) => {}
        }
        if interrupt::requested() || is_ended(is_over) && over_since.get_or_insert_with(Instant::now).elapsed() > LINGER
        {
            return Ok(None);
        }
    }
    let (bytes, sha256) = sum.finish();
    let (way, peer) = (stream.way().to_string(), Some(stream.peer_addr().to_string()));
    Ok(Some(Line { event: "message", message: 0, bytes, sha256, way, peer }))
}

/// Ends our half, and lets the peer know that all of its own has come.
fn close(stream: &Stream, trial: &Trial<'_>, is_over: &AtomicBool) {
    let _ = stream.shutdown(Shutdown::Write);
    let begun = Instant::now();
    // The END is repeated until it is answered: where much is lost, four times in a row it may not be.
    while stream.state() != State::Quiescent && !interrupt::requested() {
        // Whether this was the last is known when it has been printed.
        let most = if is_over.load(Ordering::Relaxed) { FAREWELL } else { LONGEST };
        if begun.elapsed() >= most || (!stream.is_proved() && trial.is_over()) {
            break;
        }
        std::thread::sleep(interrupt::LOOK / 10);
    }
}
