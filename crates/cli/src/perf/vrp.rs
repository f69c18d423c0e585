//! Both ends over VRP, through the public library.
//!
//! Frames are queued asynchronously, each with the contract that the command line says; they may overtake each other. What
//! counts is the whole frame, holes included, as in the paper; what was lost is counted beside it.

use super::protocol::{Job, Loss, Placement, Ran, Repeats};
use super::worker::{End, Failure, Opened, stamp};
use pinnace::Message;
use pinnace::link::PathMtu;
use pinnace::vrp::{self, Contract, Frame, Options, Profile, Progress, Received, Sending};
use std::collections::VecDeque;
use std::time::Duration;

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
            loss.longest_run = loss.longest_run.max(of_frame.longest_run);
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
