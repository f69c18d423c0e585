//! One turn: three sinks, the song, and what goes beside it.

use super::super::child::Child;
use super::super::relay::Relay;
use super::{BLOCK, DELAY, LINK_BYTES, LOSS, PRIORITIES, QUEUE, RATE, SINKS};
use crate::cast;
use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use pinnace::a1::{Connection, Options, Qos, Socket, reliable};
use pinnace_sim::NetworkConfig;
use serde_json::Value;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// For a sink to say where it listens.
const OPENING: Duration = Duration::from_secs(10);
/// For a sink to end after the song.
const CLOSING: Duration = Duration::from_secs(10);
/// Bytes of a bulk message.
const BULK: usize = 32 << 10;
/// Bytes that leave at once: a few blocks.
const BURST: u64 = 4 * 1432;

/// What goes over the link beside the song.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Nothing,
    /// A bulk connection of the same socket, of lower priority.
    LessUrgent,
    /// A bulk connection of a socket of its own.
    Stranger,
}

impl Beside {
    pub(super) const ALL: [Self; 3] = [Self::Nothing, Self::LessUrgent, Self::Stranger];
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "alone",
            Self::LessUrgent => "beside bulk of lower priority",
            Self::Stranger => "beside bulk of another socket",
        })
    }
}

/// What a sink has heard.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Heard {
    /// What it wrote is the song.
    pub(super) is_equal: bool,
    pub(super) blocks: u64,
    pub(super) lost: u64,
    /// Milliseconds: jitter of RFC 3550, its 99th percentile, and how late blocks were.
    pub(super) jitter: f64,
    pub(super) p99: f64,
    pub(super) late_p99: f64,
    pub(super) late_max: f64,
    /// Seconds, and how late the block that was due then was, in milliseconds.
    pub(super) line: Vec<(f64, f64)>,
}

/// Casts the song once.
pub(super) fn turn(folder: &Path, song: &Path, beside: Beside, output: &Output) -> Result<super::Turn, Error> {
    let path = |name: String| folder.join(name).to_string_lossy().into_owned();
    let mut sinks = Vec::new();
    for sink in 0..SINKS {
        let (out, log) = (path(format!("sink-{sink}.wav")), path(format!("sink-{sink}.jsonl")));
        let arguments = ["--json", "tune", "127.0.0.1:0", "-o", &out, "--log", &log, "--wait", "20", "--idle", "block"];
        sinks.push(Child::start(folder, &format!("tune-{sink}"), &arguments)?);
    }
    let mut to = sinks.iter_mut().map(listening).collect::<Result<Vec<_>, _>>()?;
    let far = bulk_listener()?;
    to.push(far.local_addr());
    let network = format!("rate={RATE},delay={DELAY},loss={LOSS},queue={QUEUE}");
    let network: NetworkConfig = network.parse().map_err(|error| Error::failed(format!("{network}: {error}")))?;
    let relay = Relay::start(&to, &network)?;
    let (near, bulk_to) = (&relay.addresses()[..SINKS], relay.addresses()[SINKS]);
    let socket = socket()?;
    let own = if beside == Beside::Stranger { Some(self::socket()?) } else { None };
    let (stop, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let (stop, bytes, far) = (&stop, &bytes, &far);
        if beside != Beside::Nothing {
            let from = own.as_ref().unwrap_or(&socket).clone();
            scope.spawn(move || receive(far, stop, bytes));
            scope.spawn(move || bulk(&from, bulk_to, stop));
            // The link is full before the song begins.
            std::thread::sleep(Duration::from_millis(500));
        }
        let cast = cast::play(song, socket.clone(), near, (PRIORITIES.0, BLOCK), output);
        stop.store(true, Ordering::Relaxed);
        cast
    })?;
    let bulk = bytes.load(Ordering::Relaxed) as f64 * 8.0 / begun.elapsed().as_secs_f64();
    let original = std::fs::read(song).map_err(|error| Error::io("cannot read the song", &error))?;
    let mut heard = Vec::new();
    for (index, mut sink) in sinks.into_iter().enumerate() {
        sink.succeed(CLOSING)?;
        let failed = |error| Error::io("cannot read what a sink has written", &error);
        let copy = std::fs::read(path(format!("sink-{index}.wav"))).map_err(failed)?;
        let log = std::fs::read_to_string(path(format!("sink-{index}.jsonl"))).map_err(failed)?;
        heard.push(of(&sink, copy == original, &log)?);
    }
    Ok(super::Turn { beside, heard, bulk })
}

fn of(sink: &Child, is_equal: bool, log: &str) -> Result<Heard, Error> {
    let said = sink.said();
    let done = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).next_back().unwrap_or_default();
    if done["event"] != "done" {
        return Err(sink.failure("said nothing at its end"));
    }
    let number = |key: &str| done[key].as_f64().unwrap_or(f64::NAN);
    let line = log.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        Some((line["due_ms"].as_f64()? / 1e3, line["late_ms"].as_f64()?))
    });
    Ok(Heard {
        is_equal,
        blocks: done["blocks"].as_u64().unwrap_or(0),
        lost: done["blocks_lost"].as_u64().unwrap_or(0),
        jitter: number("jitter_ms"),
        p99: number("jitter_p99_ms"),
        late_p99: number("late_p99_ms"),
        late_max: number("late_max_ms"),
        line: line.collect(),
    })
}

/// Where a sink listens.
fn listening(sink: &mut Child) -> Result<SocketAddr, Error> {
    let begin = Instant::now();
    while begin.elapsed() < OPENING {
        interrupt::check()?;
        let said = sink.said();
        let first = said.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
        if let Some(address) = first.and_then(|line| line["address"].as_str()?.parse().ok()) {
            return Ok(address);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(sink.failure("did not say where it listens"))
}

fn bulk_qos() -> Qos {
    Qos { priority: PRIORITIES.1, block_size: BLOCK, largest_sent: BULK as u32, ..reliable() }
}

/// A socket that knows how much the link carries.
fn socket() -> Result<Socket, Error> {
    let most = Qos { priority: 0, block_size: BLOCK, outstanding: 1024, ..reliable() };
    let options = Options { link_average: LINK_BYTES, link_burst: BURST, ..Options::default() };
    Ok(Socket::bind_with("127.0.0.1:0", most, &options)?)
}

fn bulk_listener() -> Result<Socket, Error> {
    let qos = Qos { largest_sent: 1024, block_size: BLOCK, ..reliable() };
    let socket = Socket::bind("127.0.0.1:0", qos)?;
    socket.listen(1)?;
    Ok(socket)
}

/// Takes bulk data until told to stop.
fn receive(socket: &Socket, stop: &AtomicBool, bytes: &AtomicU64) {
    let mut connection: Option<Connection> = None;
    while !stop.load(Ordering::Relaxed) {
        let Some(open) = &connection else {
            connection = socket.accept_timeout(interrupt::LOOK).unwrap_or_default();
            continue;
        };
        match open.recv_timeout(interrupt::LOOK) {
            Ok(Some(received)) => {
                bytes.fetch_add(received.data.len() as u64, Ordering::Relaxed);
            }
            Err(pinnace::Error::Timeout) => {}
            _ => return,
        }
    }
}

/// Sends bulk data until told to stop.
fn bulk(socket: &Socket, to: SocketAddr, stop: &AtomicBool) {
    let Ok(connection) = socket.connect_timeout(to, bulk_qos(), OPENING) else { return };
    while !stop.load(Ordering::Relaxed) {
        match connection.send_timeout(vec![7; BULK], interrupt::LOOK) {
            Ok(()) => {}
            Err(unsent) if matches!(unsent.error, pinnace::Error::Timeout) => {}
            Err(_) => return,
        }
    }
    connection.abort();
}
