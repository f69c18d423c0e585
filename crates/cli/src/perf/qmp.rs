//! Both ends over QMP, through the public library: with qbufs, whose ownership passes to the transport and from it, or as
//! with any socket, each message written and read whole.
//!
//! As of every transport, a message is stamped at both ends of it by the sender, and checked there by the receiver; nobody
//! touches the rest.

use super::protocol::{Job, Placement, Ran, Repeats};
use super::round_trips;
use super::worker::{End, Failure, Opened, check, stamp};
use crate::qmp::{LinkName, Wire};
use pinnace::qmp::{Endpoint, Listener, Options, Pool, PoolOptions, Qbuf, Stream};
use pinnace::xtp::XtpCounters;
use pinnace::zcrp::Profile;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How QMP is to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choice {
    #[serde(flatten)]
    pub(crate) wire: Wire,
    /// Messages are copied to and from the transport.
    pub(crate) no_qbuf: bool,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wire { link, status_every, go_back_n } = self.wire;
        write!(f, "over {link}, {}", if self.no_qbuf { "copied" } else { "qbufs" })?;
        if let Some(packets) = status_every {
            write!(f, ", a status every {packets} packets")?;
        }
        f.write_str(if go_back_n { ", go-back-N" } else { "" })
    }
}

/// The port where no system picks one.
const PORT: u16 = 7037;
/// Bytes of messages for which a pool has room: more than is ever queued to a peer, or sent ahead by it.
const QUEUED: usize = 8 << 20;
/// How long a buffer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// The blocks of a zone, in which a qbuf has to lie.
const ZONE: usize = 32;

/// A pool in which messages of a size find room.
fn pool(size: usize) -> Result<Pool, Failure> {
    Pool::create(&pool_options(size)).map_err(|error| Failure::io("cannot make a pool of buffers", &error))
}

/// How such a pool is made.
pub(super) fn pool_options(size: usize) -> PoolOptions {
    let block_bytes = size.div_ceil(ZONE).next_power_of_two().max(4096);
    let blocks = (QUEUED / size.max(1)).clamp(64, 32_768) * size.div_ceil(block_bytes);
    let zones = (blocks / ZONE + QUEUED / (ZONE * block_bytes)).clamp(64, 4096) as u32;
    PoolOptions { zones, block_bytes, ..PoolOptions::default() }
}

fn options(job: &Job) -> Result<Options, Failure> {
    let mut options = job.qmp.wire.apply(Options { idle: job.idle.into(), ..Options::default() });
    if !job.qmp.no_qbuf && job.qmp.wire.link != LinkName::Shm {
        options.pool = Some(pool(job.size)?);
    }
    if job.cluster {
        options.network = Profile::Cluster;
    }
    options.udp.busy_poll = (job.busy_poll > 0).then(|| Duration::from_micros(job.busy_poll.into()));
    Ok(options)
}

/// A connection, and what its messages are in.
struct Peer {
    stream: Stream,
    /// For who copies.
    message: Vec<u8>,
    /// For who does not: what has come of the messages that follow, and how much of it was looked at.
    rest: Option<(Qbuf, usize)>,
    no_qbuf: bool,
}

impl Peer {
    fn new(stream: Stream, job: &Job) -> Self {
        Self { stream, message: vec![1; job.size], rest: None, no_qbuf: job.qmp.no_qbuf }
    }

    fn send(&mut self, number: u64) -> Result<(), Failure> {
        if self.no_qbuf {
            stamp(&mut self.message, number);
            return Ok((&self.stream).write_all(&self.message)?);
        }
        let mut qbuf = self.alloc()?;
        stamp(&mut qbuf, number);
        Ok(self.stream.send_qbuf(qbuf)?)
    }

    fn alloc(&self) -> Result<Qbuf, Failure> {
        let begun = Instant::now();
        loop {
            match self.stream.alloc(self.message.len()) {
                Ok(qbuf) => return Ok(qbuf),
                // What is under way comes back: when it has been acknowledged, or when the other process has freed it.
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory && begun.elapsed() < PATIENCE => {
                    self.stream.flush()?;
                    std::thread::yield_now();
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn receive(&mut self, number: u64) -> Result<(), Failure> {
        if self.no_qbuf {
            (&self.stream).read_exact(&mut self.message)?;
            return check(&self.message, number);
        }
        let size = self.message.len();
        let mut ends = Ends::of(size);
        let mut at = 0;
        while at < size {
            let (qbuf, from) = match self.rest.take() {
                Some(rest) => rest,
                None => match self.stream.recv_qbuf()? {
                    Some(qbuf) => (qbuf, 0),
                    None => return Err(Failure::Failed("the stream ended early".into())),
                },
            };
            let taken = (qbuf.len() - from).min(size - at);
            ends.add(at, &qbuf[from..from + taken]);
            at += taken;
            if from + taken < qbuf.len() {
                self.rest = Some((qbuf, from + taken));
            }
        }
        ends.check(number)
    }
}

/// The stamps of a message that comes in pieces.
struct Ends {
    size: usize,
    /// The first and the last bytes, side by side; or all of them.
    bytes: [u8; 16],
}

impl Ends {
    fn of(size: usize) -> Self {
        Self { size, bytes: [0; 16] }
    }

    /// The bytes of the message from `at` on.
    fn add(&mut self, at: usize, piece: &[u8]) {
        let kept = self.bytes.len();
        if self.size <= kept {
            self.bytes[at..at + piece.len()].copy_from_slice(piece);
            return;
        }
        let half = kept / 2;
        if at < half {
            let n = piece.len().min(half - at);
            self.bytes[at..at + n].copy_from_slice(&piece[..n]);
        }
        let tail = self.size - half;
        if at + piece.len() > tail {
            let from = tail.max(at);
            let piece = &piece[from - at..];
            self.bytes[half + from - tail..half + from - tail + piece.len()].copy_from_slice(piece);
        }
    }

    fn check(&self, number: u64) -> Result<(), Failure> {
        check(&self.bytes[..self.size.min(self.bytes.len())], number)
    }
}

/// A listening end that becomes a connection with the first run.
struct Accepting {
    job: Job,
    // Before the endpoint, so that it goes first.
    peer: Option<Peer>,
    listener: Listener,
    endpoint: Endpoint,
}

impl Accepting {
    fn new(job: &Job) -> Result<(Self, SocketAddr), Failure> {
        let wire = job.qmp.wire;
        let port = if wire.link.is_raw() { PORT } else { 0 };
        let opening = |error| Failure::Unavailable(wire.opening(&error).message);
        let endpoint = Endpoint::bind(job.at(port), &options(job)?).map_err(opening)?;
        let port = if port == 0 { endpoint.local_addr().port() } else { port };
        let listener = endpoint.listen(port).map_err(opening)?;
        let address = listener.local_addr();
        Ok((Self { job: job.clone(), peer: None, listener, endpoint }, address))
    }

    fn peer(&mut self) -> Result<&mut Peer, Failure> {
        if self.peer.is_none() {
            self.peer = Some(Peer::new(self.listener.accept()?, &self.job));
        }
        self.peer.as_mut().ok_or_else(|| Failure::Failed("not connected".into()))
    }
}

/// A connection, and the endpoint whose counters count; over shared memory there is none.
fn connect(job: &Job) -> Result<(Peer, Option<Endpoint>), Failure> {
    let peer = job.peer.ok_or_else(|| Failure::Failed("nowhere to connect to".into()))?;
    let (wire, options) = (job.qmp.wire, options(job)?);
    let failed = |error| Failure::io(format!("cannot connect to {peer}"), &error);
    if wire.link == LinkName::Shm {
        return Ok((Peer::new(Stream::connect(peer, &options).map_err(failed)?, job), None));
    }
    let endpoint =
        wire.client_of(peer, &options).map_err(|error| Failure::Unavailable(wire.opening(&error).message))?;
    let stream = endpoint.connect(peer).map_err(failed)?;
    Ok((Peer::new(stream, job), Some(endpoint)))
}

struct Sender {
    peer: Peer,
    endpoint: Option<Endpoint>,
}

pub(super) fn sender(job: &Job) -> Result<Opened, Failure> {
    let (peer, endpoint) = connect(job)?;
    Ok((Box::new(Sender { peer, endpoint }), None))
}

impl End for Sender {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let before = self.endpoint.as_ref().map(Endpoint::counters);
        for number in 0..count {
            self.peer.send(number)?;
        }
        self.peer.stream.flush()?;
        let after = self.endpoint.as_ref().map(Endpoint::counters);
        let repeats = before.zip(after).map(|(before, after)| repeats(&before, &after));
        Ok(Ran { repeats, ..Ran::default() })
    }
}

fn repeats(before: &XtpCounters, after: &XtpCounters) -> Repeats {
    Repeats {
        packets_sent: after.data_packets_sent - before.data_packets_sent,
        packets_resent: after.data_packets_resent - before.data_packets_resent,
        packets_timed_out: after.timeouts - before.timeouts,
        timeouts_spurious: 0,
    }
}

struct Receiver(Accepting);

pub(super) fn receiver(job: &Job) -> Result<Opened, Failure> {
    let (accepting, address) = Accepting::new(job)?;
    Ok((Box::new(Receiver(accepting)), Some(address)))
}

impl End for Receiver {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let moved = self.0.endpoint.counters().bytes_copied;
        let peer = self.0.peer()?;
        let copied = peer.stream.copied().read;
        for number in 0..count {
            peer.receive(number)?;
        }
        // By the transport, to where they belong, and by who reads them.
        let copied = peer.stream.copied().read - copied;
        let copied = copied + self.0.endpoint.counters().bytes_copied - moved;
        let bytes_received = count * self.0.job.size as u64;
        let placement = Some(Placement {
            units_in_place: bytes_received.saturating_sub(copied),
            units_copied: copied.min(bytes_received),
            bytes_copied: copied,
            bytes_received,
        });
        Ok(Ran { placement, ..Ran::default() })
    }
}

struct Pong(Accepting);

pub(super) fn pong(job: &Job) -> Result<Opened, Failure> {
    let (accepting, address) = Accepting::new(job)?;
    Ok((Box::new(Pong(accepting)), Some(address)))
}

impl End for Pong {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let peer = self.0.peer()?;
        for number in 0..count {
            peer.receive(number)?;
            peer.send(number)?;
        }
        Ok(Ran::default())
    }
}

struct Ping {
    peer: Peer,
    _endpoint: Option<Endpoint>,
}

pub(super) fn ping(job: &Job) -> Result<Opened, Failure> {
    let (peer, endpoint) = connect(job)?;
    Ok((Box::new(Ping { peer, _endpoint: endpoint }), None))
}

impl End for Ping {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        round_trips(count, |number| {
            let start = Instant::now();
            self.peer.send(number)?;
            self.peer.receive(number)?;
            Ok(start.elapsed())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_found_in_pieces_of_any_size() {
        for size in [1, 7, 8, 9, 15, 16, 17, 40] {
            let mut message = vec![9; size];
            stamp(&mut message, 0x0102_0304_0506_0708);
            for piece in 1..=size {
                let mut ends = Ends::of(size);
                for (index, bytes) in message.chunks(piece).enumerate() {
                    ends.add(index * piece, bytes);
                }
                assert!(ends.check(0x0102_0304_0506_0708).is_ok(), "{size} in pieces of {piece}");
                assert!(ends.check(0x0102_0304_0506_0709).is_err() || size == 0, "{size} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_pool_has_room_for_what_is_queued() {
        for size in [1, 100, 4096, 5000, 131_072, 1 << 20] {
            let pool = pool(size).expect("a pool");
            let options = pool.options();
            assert!(pool.max_len() >= size && options.zones <= 4096, "{size}: {options:?}");
            assert!(pool.alloc(size).is_some(), "{size}");
        }
    }
}
