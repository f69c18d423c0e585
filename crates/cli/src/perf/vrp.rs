//! Both ends over VRP, through the public library.
//!
//! Frames are queued asynchronously, each with the contract that the command line says; they may overtake each other. What
//! counts is the whole frame, holes included, as in the paper; what was lost is counted beside it.

use super::protocol::{Job, Loss, Placement, Ran, Repeats};
use super::round_trips;
use super::worker::{self, End, Failure, Opened, stamp};
use pinnace::Message;
use pinnace::link::PathMtu;
use pinnace::vrp::{self, Contract, Frame, Options, Profile, Progress, Received, Sending};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

fn options(job: &Job) -> Options {
    let mut options = job.packets.options(Options { idle: job.idle.into(), ..Options::default() });
    if job.cluster {
        options.profile = Profile::Cluster;
    }
    options.udp.busy_poll = (job.busy_poll > 0).then(|| Duration::from_micros(job.busy_poll.into()));
    if job.fragment {
        options.udp.path_mtu = PathMtu::Fragment;
    }
    // Both ends keep this many frames at a time, and a few more whose end the other one has not heard of yet.
    options.limits.frames = options.limits.frames.max(4 * job.depth);
    options.limits.bytes = options.limits.bytes.max(4 * (job.depth * job.size) as u64);
    options
}

struct Sender {
    sender: vrp::Sender,
    contract: Contract,
    size: usize,
    free: Vec<Message>,
}

/// How often a sender that waits for one frame looks whether others have ended.
const LOOK: Duration = Duration::from_millis(5);

pub(super) fn sender(job: &Job) -> Result<Opened, Failure> {
    let peer = job.peer.ok_or_else(|| Failure::Failed("nowhere to connect to".into()))?;
    let contract = job.contract.contract(job.size as u64).map_err(|error| Failure::Failed(error.message))?;
    // Memory that has been touched, so that no run pays for page faults.
    let free = (0..job.depth).map(|_| Message::from_vec(vec![1; job.size])).collect();
    let sender = vrp::Sender::connect(peer, &options(job))?;
    Ok((Box::new(Sender { sender, contract, size: job.size, free }), None))
}

impl End for Sender {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let before = self.sender.counters();
        let mut under_way: VecDeque<Sending> = VecDeque::with_capacity(self.free.len());
        for number in 0..count {
            let mut message = match self.free.pop() {
                Some(message) => message,
                None => self.any(&mut under_way)?,
            };
            stamp(&mut message, number);
            under_way.push_back(self.sender.send(Frame::new(message).with_contract(self.contract.clone()))?);
        }
        while !under_way.is_empty() {
            self.free.push(oldest(&mut under_way)?);
        }
        let after = self.sender.counters();
        let repeats = Some(Repeats {
            packets_sent: after.packets_sent - before.packets_sent,
            packets_resent: after.packets_resent - before.packets_resent,
            packets_timed_out: after.packets_timed_out - before.packets_timed_out,
            timeouts_spurious: after.timeouts_spurious - before.timeouts_spurious,
        });
        Ok(Ran { repeats, ..Ran::default() })
    }
}

impl Sender {
    /// The memory of a frame that has ended: whichever it is, since one that is repaired must not hold up the others.
    fn any(&mut self, under_way: &mut VecDeque<Sending>) -> Result<Message, Failure> {
        loop {
            for _ in 0..under_way.len() {
                match under_way.pop_front() {
                    Some(sending) if sending.has_ended() => self.free.push(sending.wait()?.message),
                    sending => under_way.extend(sending),
                }
            }
            if let Some(message) = self.free.pop() {
                return Ok(message);
            }
            // Whoever waits drives the endpoint; but another may end sooner.
            let Some(first) = under_way.pop_front() else { return Ok(Message::from_vec(vec![1; self.size])) };
            match first.wait_timeout(LOOK) {
                Progress::Ended(sent) => return Ok(sent?.message),
                Progress::UnderWay(first) => under_way.push_front(first),
            }
        }
    }
}

fn oldest(under_way: &mut VecDeque<Sending>) -> Result<Message, Failure> {
    let first = under_way.pop_front().ok_or_else(|| Failure::Failed("no frame is under way".into()))?;
    Ok(first.wait()?.message)
}

struct Receiver {
    receiver: vrp::Receiver,
    size: usize,
}

pub(super) fn receiver(job: &Job) -> Result<Opened, Failure> {
    let receiver = vrp::Receiver::bind(job.at(0), &options(job))?;
    let address = receiver.local_addr();
    Ok((Box::new(Receiver { receiver, size: job.size }), Some(address)))
}

impl End for Receiver {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let before = self.receiver.counters();
        let mut seen = vec![false; usize::try_from(count).unwrap_or(usize::MAX)];
        let mut loss = Loss::default();
        for _ in 0..count {
            let frame = self.receiver.recv()?;
            if frame.len() != self.size {
                return Err(Failure::Failed(format!("a frame of {} bytes arrived as {}", self.size, frame.len())));
            }
            check(&frame, &mut seen)?;
            let of_frame = frame.loss();
            loss.packets += u64::from(of_frame.packets);
            loss.lost += u64::from(of_frame.lost);
            loss.longest_run = loss.longest_run.max(Some(of_frame.longest_run));
        }
        let after = self.receiver.counters();
        let placement = Some(Placement {
            units_in_place: after.packets_in_place - before.packets_in_place,
            units_copied: after.packets_copied - before.packets_copied,
            bytes_copied: after.bytes_copied - before.bytes_copied,
            bytes_received: after.bytes_received - before.bytes_received,
        });
        Ok(Ran { placement, loss: Some(loss), ..Ran::default() })
    }
}

/// Frames that go there and back. VRP has one direction, so each end has a sender and a receiver, and the first frame says at
/// which port the answers are awaited.
struct Peer {
    sender: vrp::Sender,
    receiver: vrp::Receiver,
    size: usize,
    /// The last frame that was sent: that it is acknowledged nobody waits for.
    last: Option<Sending>,
}

/// Frames so large may have to wait for the answer to their header.
const LARGE: usize = 16 << 10;
/// For a frame to come back.
const PATIENCE: Duration = Duration::from_secs(30);

fn receive(receiver: &vrp::Receiver) -> Result<Received, Failure> {
    let received = receiver.recv_timeout(PATIENCE)?;
    received.ok_or_else(|| Failure::Failed(format!("no frame has come for {} s", PATIENCE.as_secs())))
}

impl Peer {
    fn send(&mut self, message: Message) -> Result<(), Failure> {
        let frame = Frame::new(message).with_contract(Contract::reliable());
        let outline = frame.outline();
        self.last = Some(self.sender.send(frame)?);
        if self.size >= LARGE {
            // The next is like this one: its header goes ahead, as `stream` does it too.
            self.sender.announce(&outline)?;
        }
        Ok(())
    }

    fn receive(&self) -> Result<Message, Failure> {
        let frame = receive(&self.receiver)?;
        if frame.len() != self.size {
            return Err(Failure::Failed(format!("a frame of {} bytes arrived as {}", self.size, frame.len())));
        }
        Ok(frame.into_message())
    }
}

enum Pong {
    Alone { job: Box<Job>, receiver: Option<vrp::Receiver> },
    With(Peer),
}

/// Sends back what comes.
pub(super) fn pong(job: &Job) -> Result<Opened, Failure> {
    let receiver = vrp::Receiver::bind(job.at(0), &options(job))?;
    let address = receiver.local_addr();
    Ok((Box::new(Pong::Alone { job: Box::new(job.clone()), receiver: Some(receiver) }), Some(address)))
}

impl End for Pong {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        if let Self::Alone { job, receiver } = self
            && let Some(receiver) = receiver.take()
        {
            let hello = receive(&receiver)?;
            let port = hello[..].try_into().map(u16::from_be_bytes);
            let port = port.map_err(|_| Failure::Failed("the first frame names no port".to_owned()))?;
            let mut to = hello.source();
            to.set_port(port);
            drop(hello);
            let sender = vrp::Sender::connect(to, &options(job))?;
            *self = Self::With(Peer { sender, receiver, size: job.size, last: None });
        }
        let Self::With(peer) = self else { return Err(Failure::Failed("it has failed before".to_owned())) };
        for _ in 0..count {
            peer.send(peer.receive()?)?;
        }
        Ok(Ran::default())
    }
}

/// Times what comes back.
pub(super) fn ping(job: &Job) -> Result<Opened, Failure> {
    let to = job.peer.ok_or_else(|| Failure::Failed("nowhere to connect to".into()))?;
    let sender = vrp::Sender::connect(to, &options(job))?;
    // Wherever the frames leave from: what comes back comes there.
    let any: SocketAddr = match to {
        SocketAddr::V4(to) if to.ip().is_loopback() => (Ipv4Addr::LOCALHOST, 0).into(),
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let receiver = vrp::Receiver::bind(any, &options(job))?;
    let port = receiver.local_addr().port().to_be_bytes().to_vec();
    sender.send(Frame::new(Message::from_vec(port)).with_contract(Contract::reliable()))?.wait()?;
    let peer = Peer { sender, receiver, size: job.size, last: None };
    Ok((Box::new(Ping { peer, message: Some(Message::from_vec(vec![1; job.size])) }), None))
}

struct Ping {
    peer: Peer,
    message: Option<Message>,
}

impl End for Ping {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        round_trips(count, |number| {
            let mut message = self.message.take().unwrap_or_else(|| Message::from_vec(vec![1; self.peer.size]));
            stamp(&mut message, number);
            let start = Instant::now();
            self.peer.send(message)?;
            // What came back is what goes out next.
            let message = self.peer.receive()?;
            let time = start.elapsed();
            worker::check(&message, number)?;
            self.message = Some(message);
            Ok(time)
        })
    }
}

/// Checks what [`stamp`] wrote, where it was not lost: each frame comes once, and holes are zero.
fn check(frame: &Received, seen: &mut [bool]) -> Result<(), Failure> {
    let altered = |what: &str| Err(Failure::Failed(format!("a frame arrived {what}")));
    for hole in frame.holes() {
        // All of it would be a second pass over memory that nobody asked for.
        if frame[hole.start..hole.end.min(hole.start + 64)].iter().any(|&byte| byte != 0) {
            return altered("with a hole that is not zero");
        }
    }
    let stamp_at = |low: usize| {
        let high = low + size_of::<u64>();
        let whole = frame.holes().iter().all(|hole| hole.end <= low || high <= hole.start);
        whole.then(|| frame[low..high].try_into().ok().map(u64::from_le_bytes)).flatten()
    };
    // Of a frame shorter than two stamps only the second one is whole.
    let head = if frame.len() >= 16 { stamp_at(0) } else { None };
    let tail = if frame.len() >= 8 { stamp_at(frame.len() - 8) } else { None };
    if let (Some(head), Some(tail)) = (head, tail)
        && head != tail
    {
        return altered("altered");
    }
    let Some(number) = head.or(tail) else { return Ok(()) };
    match seen.get_mut(usize::try_from(number).unwrap_or(usize::MAX)) {
        Some(seen) if !*seen => *seen = true,
        Some(_) => return altered("twice"),
        None => return altered("altered"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::{IdleChoice, Path, Transport};

    #[test]
    fn what_is_sent_comes_back() {
        for size in [1, 100, 1 << 20] {
            let job = Job::new(&Transport::Vrp, size, IdleChoice::Block, Path::Lo);
            let (mut pong, address) = pong(&job).unwrap();
            let asking = Job { peer: address, ..job.clone() };
            let thread = std::thread::spawn(move || {
                let (mut ping, _) = ping(&asking).unwrap();
                [10, 5].map(|count| ping.run(count).unwrap().round_trips)
            });
            for count in [10, 5] {
                pong.run(count).unwrap();
            }
            let times = thread.join().unwrap().map(|all| all.iter().map(|(_, times)| times).sum::<u64>());
            assert_eq!(times, [10, 5]);
        }
    }
}
