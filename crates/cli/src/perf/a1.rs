//! Both ends over A1, through the public library.
//!
//! A connection with retransmission stays open from run to run; without, each run has one of its own, because its end
//! tells the receiver what was lost of its last messages.

use super::protocol::{Job, Loss, Placement, Ran, Repeats};
use super::round_trips;
use super::worker::{End, Failure, Opened, check, stamp};
use crate::a1::Mode;
use crate::units;
use pinnace::Message;
use pinnace::a1::{Connection, Full, Options, Profile, Qos, Sending, Socket, Status};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How A1 is to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choice {
    pub(crate) mode: Mode,
    /// Bits a second.
    pub(crate) rate: Option<u64>,
    /// Bytes.
    pub(crate) burst: Option<u64>,
    pub(crate) priority: Option<u8>,
    /// Bytes of a block.
    pub(crate) block: Option<u32>,
    /// Bytes of messages under way.
    pub(crate) window: Option<u64>,
    pub(crate) checksum: bool,
}

impl Choice {
    /// Whether something may be lost for good.
    pub(crate) fn is_lossy(&self) -> bool {
        self.mode == Mode::Raw
    }
}

impl Choice {
    /// Bytes of a block (0: what the path carries) and of the window, where that is not said `in_flight`.
    pub(super) fn datagrams(&self, in_flight: u64) -> (usize, u64) {
        (self.block.unwrap_or(0) as usize, self.window.unwrap_or(in_flight))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, rate, burst, priority, block, window, checksum } = *self;
        write!(f, "{mode}")?;
        if let Some(rate) = rate {
            write!(f, ", {} at most", crate::numbers::rate(rate as f64))?;
        }
        for (name, value) in [("burst", burst), ("blocks of", block.map(u64::from)), ("window", window)] {
            if let Some(value) = value {
                write!(f, ", {name} {value} B")?;
            }
        }
        if let Some(priority) = priority {
            write!(f, ", priority {priority}")?;
        }
        f.write_str(if checksum { ", with checksums" } else { "" })
    }
}

/// Bytes that may leave at once where nothing is said.
const BURST: u64 = 64 << 10;
/// How long a message under way is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Messages up to this size are copied: keeping track of each would cost more than the message.
const SMALL: usize = 4096;

fn options(job: &Job) -> Options {
    let mut options = Options { idle: job.idle.into(), ..Options::default() };
    if job.cluster {
        options.profile = Profile::Cluster;
    }
    options.udp.busy_poll = (job.busy_poll > 0).then(|| Duration::from_micros(job.busy_poll.into()));
    options
}

/// The record of either end: that of the sender limits its rate.
fn record(job: &Job) -> Qos {
    let choice = &job.a1;
    let size = job.size as u64;
    // As many messages as have room in the window, as beside it in that of the bare loop.
    let outstanding = choice.window.map_or(job.depth as u64, |window| window / size.max(1));
    let average = choice.rate.map_or(0, units::byte_rate);
    let burst = if average > 0 { choice.burst.unwrap_or(BURST) } else { 0 };
    Qos {
        has_checksum: choice.checksum,
        priority: choice.priority.unwrap_or(128),
        block_size: choice.block.unwrap_or(0),
        send_average: average,
        send_burst: u32::try_from(burst).unwrap_or(u32::MAX),
        largest_sent: size as u32,
        largest_received: size as u32,
        outstanding: outstanding.clamp(1, 65_535) as u32,
        ..choice.mode.record()
    }
}

fn failed(what: &str) -> Failure {
    Failure::Failed(what.to_owned())
}

fn connecting(job: &Job) -> Result<(Socket, SocketAddr, Qos), Failure> {
    let peer = job.peer.ok_or_else(|| failed("nowhere to connect to"))?;
    let qos = record(job);
    Ok((Socket::connected(peer, qos, &options(job))?, peer, qos))
}

/// A socket that others reach, and where.
fn listening(job: &Job) -> Result<(Socket, SocketAddr), Failure> {
    let qos = Qos { send_average: 0, send_burst: 0, ..record(job) };
    let socket = Socket::bind_with(job.at(0), qos, &options(job))?;
    socket.listen(1)?;
    let address = socket.local_addr();
    Ok((socket, address))
}

struct Sender {
    job: Job,
    socket: Socket,
    peer: SocketAddr,
    qos: Qos,
    connection: Option<Connection>,
    free: Vec<Message>,
}

pub(super) fn sender(job: &Job) -> Result<Opened, Failure> {
    let (socket, peer, qos) = connecting(job)?;
    // Memory that has been touched, so that no run pays for page faults.
    let free = (0..job.depth).map(|_| Message::from_vec(vec![1; job.size])).collect();
    Ok((Box::new(Sender { job: job.clone(), socket, peer, qos, connection: None, free }), None))
}

impl Sender {
    /// Sends `count` messages, and waits for the end of all.
    fn send(&mut self, count: u64, connection: &Connection) -> Result<(), Failure> {
        if self.job.size <= SMALL {
            let mut message = vec![1; self.job.size];
            for number in 0..count {
                stamp(&mut message, number);
                connection.send_copy(&message, Full::Block)?;
            }
            connection.flush_timeout(PATIENCE)?;
            return Ok(());
        }
        let mut under_way: VecDeque<Sending> = VecDeque::with_capacity(self.free.len());
        for number in 0..count {
            let mut message = match self.free.pop() {
                Some(message) => message,
                None => oldest(&mut under_way)?,
            };
            stamp(&mut message, number);
            under_way.push_back(connection.send_tracked(message, Full::Block)?);
        }
        while !under_way.is_empty() {
            self.free.push(oldest(&mut under_way)?);
        }
        Ok(())
    }
}

fn oldest(under_way: &mut VecDeque<Sending>) -> Result<Message, Failure> {
    let first = under_way.pop_front().ok_or_else(|| failed("no message is under way"))?;
    Ok(first.wait()?)
}

impl End for Sender {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let before = self.socket.counters();
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.socket.connect(self.peer, self.qos)?,
        };
        self.send(count, &connection)?;
        if self.job.a1.is_lossy() {
            connection.close(PATIENCE)?;
        } else {
            self.connection = Some(connection);
        }
        let after = self.socket.counters();
        let repeats = Some(Repeats {
            packets_sent: after.blocks_sent - before.blocks_sent,
            packets_resent: after.blocks_repeated - before.blocks_repeated,
            packets_timed_out: after.timeouts - before.timeouts,
            timeouts_spurious: 0,
        });
        Ok(Ran { repeats, ..Ran::default() })
    }
}

/// Messages that are looked at for one wake-up.
const BATCH: usize = 64;

struct Receiver {
    job: Job,
    socket: Socket,
    connection: Option<Connection>,
}

pub(super) fn receiver(job: &Job) -> Result<Opened, Failure> {
    let (socket, address) = listening(job)?;
    Ok((Box::new(Receiver { job: job.clone(), socket, connection: None }), Some(address)))
}

impl Receiver {
    /// Takes `count` messages, each in its turn.
    fn reliable(&self, count: u64, connection: &Connection) -> Result<(), Failure> {
        let mut number = 0;
        while number < count {
            let mut wrong = Ok(());
            let most = BATCH.min(usize::try_from(count - number).unwrap_or(BATCH));
            let seen = connection.recv_each(most, |message, status| {
                if wrong.is_ok() {
                    wrong = whole(message, status, self.job.size).and_then(|()| check(message, number));
                }
                number += 1;
            })?;
            wrong?;
            seen.ok_or_else(|| failed("the connection ended early"))?;
        }
        Ok(())
    }

    /// Takes what comes until the sender closes; returns how many messages came whole.
    fn raw(&self, connection: &Connection) -> Result<u64, Failure> {
        let (mut came, mut next, mut wrong) = (0, 0, Ok(()));
        loop {
            let seen = connection.recv_each(BATCH, |message, status| {
                if whole(message, status, self.job.size).is_err() || wrong.is_err() {
                    return;
                }
                came += 1;
                // Which it is says the message, if it is long enough.
                if let Some(Ok(number)) = message.get(..8).map(|bytes| bytes.try_into().map(u64::from_le_bytes)) {
                    wrong = if number >= next { check(message, number) } else { Err(failed("a message came twice")) };
                    next = number.saturating_add(1);
                }
            })?;
            if seen.is_none() {
                return wrong.map(|()| came);
            }
        }
    }
}

fn whole(message: &[u8], status: Status, size: usize) -> Result<(), Failure> {
    if message.len() == size && status.contains(Status::START | Status::END) {
        return Ok(());
    }
    Err(Failure::Failed(format!("a message of {size} bytes arrived as {}", message.len())))
}

impl End for Receiver {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let before = self.socket.counters();
        let mut ran = Ran::default();
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.socket.accept()?,
        };
        if self.job.a1.is_lossy() {
            let came = self.raw(&connection)?.min(count);
            ran.delivered = Some(came);
            ran.loss = Some(Loss { packets: count, lost: count - came, longest_run: None });
        } else {
            self.reliable(count, &connection)?;
            self.connection = Some(connection);
        }
        let after = self.socket.counters();
        ran.placement = Some(Placement {
            units_in_place: after.bytes_in_place - before.bytes_in_place,
            units_copied: after.bytes_copied - before.bytes_copied,
            bytes_copied: after.bytes_copied - before.bytes_copied,
            bytes_received: after.bytes_received - before.bytes_received,
        });
        Ok(ran)
    }
}

/// A connection on which messages go there and back.
struct Peer {
    connection: Connection,
    size: usize,
}

impl Peer {
    fn send(&self, message: Vec<u8>) -> Result<(), Failure> {
        if message.len() > SMALL {
            return Ok(self.connection.send(message, Full::Block)?);
        }
        self.connection.send_copy(&message, Full::Block)?;
        self.connection.recycler().recycle(message);
        Ok(())
    }

    fn receive(&self) -> Result<Vec<u8>, Failure> {
        let received = self.connection.recv_timeout(PATIENCE)?;
        let received = received.ok_or_else(|| failed("the connection ended early"))?;
        whole(&received.data, received.status, self.size)?;
        Ok(received.data)
    }
}

struct Pong {
    socket: Socket,
    size: usize,
    peer: Option<Peer>,
}

/// Sends back what comes.
pub(super) fn pong(job: &Job) -> Result<Opened, Failure> {
    let (socket, address) = listening(job)?;
    Ok((Box::new(Pong { socket, size: job.size, peer: None }), Some(address)))
}

impl End for Pong {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let peer = match self.peer.take() {
            Some(peer) => peer,
            None => Peer { connection: self.socket.accept()?, size: self.size },
        };
        for _ in 0..count {
            peer.send(peer.receive()?)?;
        }
        self.peer = Some(peer);
        Ok(Ran::default())
    }
}

/// Times what comes back.
pub(super) fn ping(job: &Job) -> Result<Opened, Failure> {
    let (socket, to, qos) = connecting(job)?;
    let peer = Peer { connection: socket.connect(to, qos)?, size: job.size };
    Ok((Box::new(Ping { peer, message: vec![1; job.size], _socket: socket }), None))
}

struct Ping {
    peer: Peer,
    message: Vec<u8>,
    _socket: Socket,
}

impl End for Ping {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        round_trips(count, |number| {
            let mut message = std::mem::take(&mut self.message);
            stamp(&mut message, number);
            let start = Instant::now();
            self.peer.send(message)?;
            // What came back is what goes out next.
            let message = self.peer.receive()?;
            let time = start.elapsed();
            check(&message, number)?;
            self.message = message;
            Ok(time)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::{IdleChoice, Path, Transport};

    #[test]
    fn windows_are_counted_in_messages() {
        let outstanding = |size, block, window| {
            let job = Job::new(&Transport::A1, size, IdleChoice::Block, Path::Lo);
            record(&Job { a1: Choice { block, window, ..Choice::default() }, ..job }).outstanding
        };
        // The paper's.
        assert_eq!(outstanding(64, Some(9000), Some(160_000)), 2500);
        assert_eq!(outstanding(16_384, Some(9000), Some(160_000)), 9);
        assert_eq!(outstanding(16_384, None, Some(160_000)), 9);
        assert_eq!(outstanding(1 << 20, Some(9000), Some(160_000)), 1);
        assert_eq!(outstanding(1000, None, None), 2);
    }

    #[test]
    fn both_ends_understand_each_other() {
        for mode in [Mode::Reliable, Mode::Raw] {
            for size in [1, 100, 50_000] {
                let job = Job::new(&Transport::A1, size, IdleChoice::Block, Path::Lo);
                let job = Job { a1: Choice { mode, ..Choice::default() }, depth: 8, ..job };
                let (mut receiver, address) = receiver(&job).unwrap();
                let sending = Job { peer: address, ..job.clone() };
                let thread = std::thread::spawn(move || {
                    let (mut sender, _) = sender(&sending).unwrap();
                    [50, 20].map(|count| sender.run(count).map(|_| ()))
                });
                for count in [50, 20] {
                    let ran = receiver.run(count).unwrap();
                    assert!(ran.delivered.is_none_or(|came| came <= count), "{mode} {size}");
                }
                assert!(thread.join().unwrap().iter().all(Result::is_ok), "{mode} {size}");
            }
        }
    }

    #[test]
    fn what_is_sent_comes_back() {
        for size in [1, 100_000] {
            let job = Job::new(&Transport::A1, size, IdleChoice::Block, Path::Lo);
            let (mut pong, address) = pong(&job).unwrap();
            let asking = Job { peer: address, ..job.clone() };
            let thread = std::thread::spawn(move || {
                let (mut ping, _) = ping(&asking).unwrap();
                ping.run(10).unwrap().round_trips
            });
            pong.run(10).unwrap();
            assert_eq!(thread.join().unwrap().iter().map(|(_, times)| times).sum::<u64>(), 10);
        }
    }
}
