//! Both ends over bare UDP: the trains that ZCRP would send, a sliding window kept by small acknowledgements, and
//! nothing else. It is no protocol (what is lost stays lost), but the ceiling of any protocol that sends such trains; and for
//! round trips the floor: a message goes, and when it is there, one like it comes back.

use super::Waiter;
use super::protocol::{IdleChoice, Job, Ran};
use super::round_trips;
use super::worker::{End, Failure, Opened};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use pinnace::link::{Link, UdpLink, UdpOptions};
use pinnace::zcrp::UnitSize;
use pinnace_a1::MAX_BLOCK_BYTES;
use pinnace_core::even_piece;
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Bytes in transit at most: what fits the caches, and half of the usual receive buffer.
const WINDOW: u64 = 1 << 20;
/// Bytes received between two acknowledgements.
const ACKNOWLEDGE: u64 = 256 << 10;
/// What ZCRP adds to a unit.
const TRAILER: usize = 28;
/// What A1 adds to a block.
const HEADER: usize = 32;
/// The longest read.
const READ: usize = 65_535;
/// After so long without an acknowledgement the sender asks how much has arrived.
const ASK_AFTER: Duration = Duration::from_millis(50);

fn set_up(job: &Job, socket: &UdpSocket) -> Result<(), Failure> {
    setsockopt(socket, sockopt::UdpGroSegment, &true)
        .map_err(|error| Failure::Unavailable(format!("this kernel does not coalesce UDP (UDP_GRO): {error}")))?;
    let wanted = UdpOptions::default();
    if setsockopt(socket, sockopt::RcvBufForce, &wanted.receive_buffer).is_err() {
        setsockopt(socket, sockopt::RcvBuf, &wanted.receive_buffer).map_err(io::Error::from)?;
    }
    if setsockopt(socket, sockopt::SndBufForce, &wanted.send_buffer).is_err() {
        setsockopt(socket, sockopt::SndBuf, &wanted.send_buffer).map_err(io::Error::from)?;
    }
    socket.set_nonblocking(job.idle != IdleChoice::Block)?;
    super::set_busy_poll(&SockRef::from(socket), job.busy_poll)?;
    Ok(())
}

/// A socket that waits in one of three ways.
struct Socket {
    socket: UdpSocket,
    waiter: Waiter,
}

impl Socket {
    fn new(job: &Job, socket: UdpSocket, patience: Duration) -> Result<Self, Failure> {
        // Where a blocking read sleeps in the kernel, the kernel has to end it.
        socket.set_read_timeout(Some(patience))?;
        Ok(Self { socket, waiter: Waiter::new(job.idle).for_at_most(patience) })
    }

    /// Reads one train, or nothing if none comes for long.
    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.socket.recv(bytes) {
                Ok(n) => {
                    self.waiter.done();
                    return Ok(Some(n));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.waiter.blocks() || !self.waiter.readable(&self.socket)? {
                        return Ok(None);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// From now on it hears whoever sends first, and nobody else. What was sent is read again: should the first word be lost,
    /// these are data.
    fn connect_to_first(&self, job: &Job, memory: &mut [u8]) -> io::Result<SocketAddr> {
        self.socket.set_nonblocking(false)?;
        let (_, peer) = self.socket.peek_from(memory)?;
        self.socket.connect(peer)?;
        self.socket.set_nonblocking(job.idle != IdleChoice::Block)?;
        Ok(peer)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        loop {
            match self.socket.send(bytes) {
                Ok(_) => {
                    self.waiter.done();
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.waiter.writable(&self.socket)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Memory as much as a reused message would need, with room for a read at its end.
fn memory(job: &Job) -> Vec<u8> {
    vec![1; job.size.clamp(1 << 18, 1 << 24) + READ]
}

/// Where the next `len` bytes lie.
fn advance(low: usize, len: usize, memory: &[u8]) -> usize {
    if low + len + READ > memory.len() { 0 } else { low + len }
}

struct Receiver {
    job: Job,
    socket: Socket,
    memory: Vec<u8>,
    runs: u8,
}

pub(super) fn receiver(job: &Job) -> Result<Opened, Failure> {
    let socket = UdpSocket::bind(job.at(0))?;
    set_up(job, &socket)?;
    let address = socket.local_addr()?;
    let socket = Socket::new(job, socket, Duration::from_secs(5))?;
    Ok((Box::new(Receiver { job: job.clone(), socket, memory: memory(job), runs: 0 }), Some(address)))
}

/// The sender's words: how many bytes it has sent in this run (eight bytes), what is meant, and the number of the run. Data
/// is all ones, so that a word is known even if the kernel coalesced it with the data before it.
const WORD: usize = 10;
const END: u8 = 0xEE;
/// How much has arrived? On these paths nothing overtakes anything, so what had been sent and was not counted by then is
/// lost.
const QUESTION: u8 = 0xDD;
/// An acknowledgement is eight bytes; an answer to a word has nine more: what had been sent by that, and the number of the run.
const ANSWER: usize = 17;
/// The end is said so often: the receiver leaves with its first answer, which may be lost.
const GOODBYES: u32 = 20;

fn word(sent: u64, meant: u8, run: u8) -> [u8; WORD] {
    let mut word = [meant; WORD];
    word[..8].copy_from_slice(&sent.to_le_bytes());
    word[9] = run;
    word
}

/// The word at the end of what was read.
fn word_of(read: &[u8]) -> Option<(u64, u8, u8)> {
    let [sent @ .., meant @ (END | QUESTION), run] = *read.last_chunk::<WORD>()? else { return None };
    Some((u64::from_le_bytes(sent), meant, run))
}

impl End for Receiver {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        if self.runs == 0 {
            self.socket.connect_to_first(&self.job, &mut self.memory)?;
        }
        self.runs = self.runs.wrapping_add(1);
        let acknowledge = self.job.udp.map_or(ACKNOWLEDGE, |(_, window)| ACKNOWLEDGE.min(window / 4));
        let (mut bytes, mut said, mut low) = (0u64, 0u64, 0);
        let total = loop {
            let Some(read) = self.socket.receive(&mut self.memory[low..low + READ])? else {
                return Err(Failure::Failed(format!("nothing came for 5 s, after {bytes} bytes")));
            };
            if let Some((sent, meant, run)) = word_of(&self.memory[low..low + read]) {
                bytes += (read - WORD) as u64;
                let mut answer = [run; ANSWER];
                answer[..8].copy_from_slice(&bytes.to_le_bytes());
                answer[8..16].copy_from_slice(&sent.to_le_bytes());
                self.socket.send(&answer)?;
                if meant == END && run == self.runs {
                    break sent;
                }
                continue;
            }
            low = advance(low, read, &self.memory);
            bytes += read as u64;
            if bytes - said >= acknowledge {
                self.socket.send(&bytes.to_le_bytes())?;
                said = bytes;
            }
        };
        // What was lost does not count; of a path that loses most of it nothing can be said.
        if bytes < total.div_ceil(2) {
            return Err(Failure::Failed(format!("only {bytes} of {total} bytes arrived")));
        }
        let delivered = u128::from(count) * u128::from(bytes.min(total)) / u128::from(total.max(1));
        Ok(Ran { delivered: u64::try_from(delivered).ok(), ..Ran::default() })
    }
}

struct Sender {
    socket: Socket,
    memory: Vec<u8>,
    window: u64,
    trains: Trains,
    runs: u8,
}

/// How messages are cut into datagrams and trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trains {
    /// Bytes of a datagram.
    unit: usize,
    /// Bytes of a train.
    train: usize,
    /// Bytes of a message with what is added to it.
    message: usize,
}

impl Trains {
    /// Those of a job, to this peer.
    fn to(job: &Job, peer: SocketAddr) -> Result<Self, Failure> {
        // A link knows what the path and the kernel carry.
        let link = UdpLink::connect(None, peer, &UdpOptions::default())?;
        let limits = link.train_limits();
        if let Some((body, window)) = job.udp {
            let body = if body > 0 { body } else { even_body(job.size, link.max_datagram()) };
            return Ok(Self::of_blocks(job.size, body, window, limits.bytes, limits.segments));
        }
        let size = u32::try_from(job.size).unwrap_or(u32::MAX);
        let unit = UnitSize::for_messages_of(size, link.max_datagram(), limits.bytes).min(job.size + TRAILER);
        let units = (limits.bytes / unit).clamp(1, limits.segments.max(1));
        // A message travels as whole units with their trailers; small ones share trains.
        let message = job.size + job.size.div_ceil(unit - TRAILER).max(1) * TRAILER;
        Ok(Self { unit, train: units * unit, message })
    }

    /// Lets the kernel cut what this socket sends into such datagrams.
    fn cut(self, socket: &UdpSocket) -> Result<(), Failure> {
        if self.train <= self.unit {
            return Ok(());
        }
        let unit = i32::try_from(self.unit).unwrap_or(i32::MAX);
        setsockopt(socket, sockopt::UdpGsoSegment, &unit)
            .map_err(|error| Failure::Unavailable(format!("this kernel does not segment UDP (UDP_SEGMENT): {error}")))
    }

    /// The trains of A1: blocks of `body` bytes at most, three trains a window. Where the last block of a message is
    /// shorter than the others, a train ends with it.
    fn of_blocks(size: usize, body: usize, window: u64, bytes: usize, segments: usize) -> Self {
        let unit = size.min(body) + HEADER;
        let message = size + size.div_ceil(body).max(1) * HEADER;
        let units = (bytes.min(window as usize / 3) / unit).clamp(1, segments.max(1));
        let is_even = size <= body || size.is_multiple_of(body);
        // Of an uneven message two blocks, if they can leave together.
        let uneven = units.max(2).min((bytes / unit).max(1)) * unit;
        let train = if is_even { units * unit } else { message.min(uneven) };
        Self { unit, train, message }
    }
}

/// The block that A1 takes where none is said.
fn even_body(size: usize, datagram: usize) -> usize {
    let most = u32::try_from(datagram.saturating_sub(HEADER)).unwrap_or(u32::MAX).clamp(1, MAX_BLOCK_BYTES);
    even_piece(u32::try_from(size).unwrap_or(u32::MAX), most) as usize
}

/// A socket to the peer, and the trains that it sends.
fn connected(job: &Job) -> Result<(UdpSocket, Trains), Failure> {
    let peer: SocketAddr = job.peer.ok_or_else(|| Failure::Failed("nowhere to connect to".into()))?;
    let trains = Trains::to(job, peer)?;
    let socket = UdpSocket::bind(job.at(0))?;
    socket.connect(peer)?;
    set_up(job, &socket)?;
    trains.cut(&socket)?;
    Ok((socket, trains))
}

pub(super) fn sender(job: &Job) -> Result<Opened, Failure> {
    let (socket, trains) = connected(job)?;
    let buffer = getsockopt(&socket, sockopt::RcvBuf).map_err(io::Error::from)?;
    let mut socket = Socket::new(job, socket, ASK_AFTER)?;
    socket.send(&word(0, END, 0))?;
    // One train leaves, whatever the window.
    let window = job.udp.map_or(WINDOW, |(_, window)| window).min(buffer as u64 / 4).max(trains.train as u64);
    let sender = Sender { socket, memory: memory(job), window, trains, runs: 0 };
    Ok((Box::new(sender), None))
}

/// What a sender knows about the bytes in transit.
#[derive(Default)]
struct Transit {
    sent: u64,
    acknowledged: u64,
    lost: u64,
}

impl Transit {
    fn bytes(&self) -> u64 {
        self.sent.saturating_sub(self.acknowledged + self.lost)
    }
}

impl Sender {
    /// Waits for the next acknowledgement, and asks if none comes; whether it was the answer to a word.
    fn listen(&mut self, transit: &mut Transit, asking: u8) -> io::Result<bool> {
        let mut answer = [0; ANSWER];
        match self.socket.receive(&mut answer)? {
            Some(n) if n == 8 || n == ANSWER && answer[16] == self.runs => {
                let number =
                    |at: usize| answer[at..at + 8].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
                transit.acknowledged = transit.acknowledged.max(number(0));
                if n == ANSWER {
                    // What has left since is under way.
                    transit.lost = transit.lost.max(number(8).saturating_sub(transit.acknowledged));
                }
                Ok(n == ANSWER)
            }
            Some(_) => Ok(false),
            None => self.socket.send(&word(transit.sent, asking, self.runs)).map(|()| false),
        }
    }
}

impl End for Sender {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        self.runs = self.runs.wrapping_add(1);
        let total = count * self.trains.message as u64;
        let mut transit = Transit::default();
        let mut low = 0;
        while transit.sent < total {
            let len = (self.trains.train as u64).min(total - transit.sent) as usize;
            if transit.bytes() + len as u64 > self.window {
                self.listen(&mut transit, QUESTION)?;
                continue;
            }
            self.socket.send(&self.memory[low..low + len])?;
            transit.sent += len as u64;
            low = advance(low, len, &self.memory);
        }
        self.socket.send(&word(transit.sent, END, self.runs))?;
        // Nothing here depends on the answer but that it ends sooner.
        let patience = ASK_AFTER * GOODBYES;
        let begun = Instant::now();
        while begun.elapsed() < patience && !self.listen(&mut transit, END)? {}
        Ok(Ran::default())
    }
}

/// How long the other end may take for a message. One that was lost is not repeated.
const TURN: Duration = Duration::from_secs(5);

/// One end of round trips.
struct Turns {
    job: Job,
    socket: Socket,
    memory: Vec<u8>,
    /// Once the peer is known.
    trains: Option<Trains>,
}

impl Turns {
    fn new(job: &Job, socket: UdpSocket, trains: Option<Trains>) -> Result<Self, Failure> {
        Ok(Self { job: job.clone(), socket: Socket::new(job, socket, TURN)?, memory: memory(job), trains })
    }

    /// The trains, and the peer if nobody was known yet.
    fn trains(&mut self) -> Result<Trains, Failure> {
        if let Some(trains) = self.trains {
            return Ok(trains);
        }
        let peer = self.socket.connect_to_first(&self.job, &mut self.memory)?;
        let trains = Trains::to(&self.job, peer)?;
        trains.cut(&self.socket.socket)?;
        Ok(*self.trains.insert(trains))
    }

    /// Sends a message.
    fn send(&mut self, trains: Trains) -> Result<(), Failure> {
        let mut left = trains.message;
        while left > 0 {
            let len = left.min(trains.train);
            self.socket.send(&self.memory[..len])?;
            left -= len;
        }
        Ok(())
    }

    /// Waits for one.
    fn receive(&mut self, trains: Trains) -> Result<(), Failure> {
        let mut left = trains.message;
        while left > 0 {
            let Some(read) = self.socket.receive(&mut self.memory[..READ])? else {
                let seconds = TURN.as_secs();
                return Err(Failure::Failed(format!(
                    "{left} bytes of a message did not come within {seconds} s: this bare loop repeats nothing"
                )));
            };
            left = left.saturating_sub(read);
        }
        Ok(())
    }
}

struct Pong(Turns);

pub(super) fn pong(job: &Job) -> Result<Opened, Failure> {
    let socket = UdpSocket::bind(job.at(0))?;
    set_up(job, &socket)?;
    let address = socket.local_addr()?;
    Ok((Box::new(Pong(Turns::new(job, socket, None)?)), Some(address)))
}

impl End for Pong {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let trains = self.0.trains()?;
        for _ in 0..count {
            self.0.receive(trains)?;
            self.0.send(trains)?;
        }
        Ok(Ran::default())
    }
}

struct Ping(Turns);

pub(super) fn ping(job: &Job) -> Result<Opened, Failure> {
    let (socket, trains) = connected(job)?;
    Ok((Box::new(Ping(Turns::new(job, socket, Some(trains))?)), None))
}

impl End for Ping {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let trains = self.0.trains()?;
        round_trips(count, |_| {
            let start = Instant::now();
            self.0.send(trains)?;
            self.0.receive(trains)?;
            Ok(start.elapsed())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::{Path, Transport};

    fn job(size: usize) -> Job {
        Job::new(&Transport::Udp, size, IdleChoice::Block, Path::Lo)
    }

    #[test]
    fn a_sender_whose_end_nobody_answers_ends() {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
        let job = Job { peer: nobody.local_addr().ok(), ..job(1000) };
        let (mut sender, _) = sender(&job).unwrap();
        sender.run(3).unwrap();
    }

    #[test]
    fn what_was_lost_is_not_delivered() {
        let (mut receiver, address) = receiver(&job(1)).unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.connect(address.unwrap()).unwrap();
        peer.send(&word(0, END, 0)).unwrap();
        // A hundred messages of one byte and what is added to them, and two of ten trains are lost.
        let train = [1; 10 * (1 + TRAILER)];
        (0..8).for_each(|_| assert_eq!(peer.send(&train).unwrap(), train.len()));
        peer.send(&word(10 * train.len() as u64, END, 1)).unwrap();
        assert_eq!(receiver.run(100).unwrap().delivered, Some(80));
        peer.send(&train).unwrap();
        peer.send(&word(10 * train.len() as u64, END, 2)).unwrap();
        assert!(receiver.run(100).is_err());
    }

    #[test]
    fn messages_come_back_whole() {
        for (size, udp) in [(1, None), (100_000, None), (16_384, Some((8192, 160_000))), (9000, Some((9000, 160_000)))]
        {
            let job = Job { udp, ..job(size) };
            let (mut pong, peer) = pong(&job).unwrap();
            let thread = std::thread::spawn(move || {
                let (mut ping, _) = ping(&Job { peer, ..job }).unwrap();
                [20, 30].map(|count| ping.run(count).unwrap().round_trips.iter().map(|(_, often)| often).sum::<u64>())
            });
            for count in [20, 30] {
                pong.run(count).unwrap();
            }
            assert_eq!(thread.join().unwrap(), [20, 30], "{size}");
        }
    }

    #[test]
    fn all_that_is_sent_is_delivered() {
        for (size, udp) in [
            (1, None),
            (100_000, None),
            (16_384, Some((9000, 160_000))),
            (9000, Some((0, 64 << 20))),
            (1 << 20, Some((0, 1 << 20))),
            (9000, Some((9000, 9000))),
        ] {
            let job = Job { udp, ..job(size) };
            let (mut receiver, peer) = receiver(&job).unwrap();
            let thread = std::thread::spawn(move || {
                let (mut sender, _) = sender(&Job { peer, ..job }).unwrap();
                [50, 20].map(|count| sender.run(count).is_ok())
            });
            for count in [50, 20] {
                assert_eq!(receiver.run(count).unwrap().delivered, Some(count), "{size}");
            }
            assert_eq!(thread.join().unwrap(), [true, true], "{size}");
        }
    }
}
