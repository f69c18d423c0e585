//! Both ends over ZCRP, through the public library.

use super::protocol::{Job, Placement, Ran};
use super::round_trips;
use super::worker::{End, Failure, Opened, check, check_all, fill, resident, stamp};
use pinnace::Message;
use pinnace::zcrp::{self, Listener, Options, Profile};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

fn options(job: &Job) -> Options {
    let mut options = Options { idle: job.idle.into(), ..Options::default() };
    if job.cluster {
        options.profile = Profile::Cluster;
    }
    options.udp.busy_poll = (job.busy_poll > 0).then(|| Duration::from_micros(job.busy_poll.into()));
    options
}

/// Messages whose memory has been touched, so that no run pays for page faults.
fn messages(job: &Job, count: usize) -> Vec<Message> {
    (0..count).map(|_| Message::from_vec(vec![1; job.size])).collect()
}

fn peer(job: &Job) -> Result<SocketAddr, Failure> {
    job.peer.ok_or_else(|| Failure::Failed("nowhere to connect to".into()))
}

struct Sender {
    sender: zcrp::Sender,
    free: Vec<Message>,
    /// Writes which one it is into a message.
    mark: fn(&mut [u8], u64),
}

pub(super) fn sender(job: &Job) -> Result<Opened, Failure> {
    let free = messages(job, job.depth);
    let mark = if job.checked { fill } else { stamp };
    Ok((Box::new(Sender { sender: zcrp::Sender::connect(peer(job)?, &options(job))?, free, mark }), None))
}

/// Messages up to this size are queued and waited for in bursts: a call for each would cost more than the message.
const SMALL: usize = 4096;
/// Bursts under way.
const BURSTS: usize = 4;

/// Runs `count` messages through bursts: `prepare` gets each with its number before it is queued, `done` after it ended.
fn in_bursts(
    free: &mut Vec<Message>,
    count: u64,
    queue: impl Fn(Vec<Message>) -> Result<zcrp::Burst, (Vec<Message>, pinnace::Error)>,
    mut prepare: impl FnMut(&mut Message, u64),
    mut done: impl FnMut(&Message) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let burst = (free.len() / BURSTS).max(1);
    let mut under_way = VecDeque::with_capacity(BURSTS);
    let mut next = 0;
    while next < count || !under_way.is_empty() {
        while next < count && !free.is_empty() {
            let size = burst.min(free.len()).min((count - next) as usize);
            let mut messages = free.split_off(free.len() - size);
            for message in &mut messages {
                prepare(message, next);
                next += 1;
            }
            under_way.push_back(queue(messages).map_err(|(_, error)| error)?);
        }
        let Some(oldest) = under_way.pop_front() else { break };
        let mut failure = None;
        oldest.wait_each(|ended| {
            match ended.map_err(Failure::from).and_then(|message| done(&message).map(|()| message)) {
                Ok(message) => free.push(message),
                Err(error) => failure = failure.take().or(Some(error)),
            }
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    Ok(())
}

impl End for Sender {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        if self.free.first().is_some_and(|message| message.len() <= SMALL) {
            let Self { sender, free, mark } = self;
            let prepare = |message: &mut Message, number| mark(message, number);
            in_bursts(free, count, |messages| sender.send_all(messages), prepare, |_| Ok(()))?;
            return Ok(Ran::default());
        }
        let mut under_way = VecDeque::with_capacity(self.free.len());
        for number in 0..count {
            let mut message = match self.free.pop() {
                Some(message) => message,
                None => oldest(&mut under_way, zcrp::Sending::wait)?,
            };
            (self.mark)(&mut message, number);
            under_way.push_back(self.sender.send(message)?);
        }
        while !under_way.is_empty() {
            self.free.push(oldest(&mut under_way, zcrp::Sending::wait)?);
        }
        Ok(Ran::default())
    }
}

fn oldest<T>(
    under_way: &mut VecDeque<T>,
    wait: impl FnOnce(T) -> Result<Message, pinnace::Unsent>,
) -> Result<Message, Failure> {
    let first = under_way.pop_front().ok_or_else(|| Failure::Failed("no message is under way".into()))?;
    Ok(wait(first)?)
}

struct Receiver {
    listener: Option<Listener>,
    receiver: Option<zcrp::Receiver>,
    free: Vec<Message>,
    /// Whether a message is that one.
    check: fn(&[u8], u64) -> Result<(), Failure>,
    /// Resident memory when the buffers lay ready and nothing else was there.
    resident: Option<u64>,
}

pub(super) fn receiver(job: &Job) -> Result<Opened, Failure> {
    let free = messages(job, job.depth);
    let resident = resident().map(|(now, _)| now);
    let listener = Listener::bind(job.at(0), &options(job))?;
    let address = listener.local_addr()?;
    let check = if job.checked { check_all } else { check };
    Ok((Box::new(Receiver { listener: Some(listener), receiver: None, free, check, resident }), Some(address)))
}

impl End for Receiver {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        if let Some(listener) = self.listener.take() {
            self.receiver = Some(listener.accept_receiver()?);
        }
        let receiver = self.receiver.as_ref().ok_or_else(|| Failure::Failed("no sender came".into()))?;
        let check = self.check;
        let before = receiver.counters();
        let mut received = 0;
        let mut singly = count;
        if self.free.first().is_some_and(|message| message.capacity() <= SMALL) {
            singly = 0;
            let arrived = |message: &Message| {
                check(message, received)?;
                received += 1;
                Ok(())
            };
            in_bursts(&mut self.free, count, |messages| receiver.post_all(messages), |_, _| (), arrived)?;
        }
        let mut under_way = VecDeque::with_capacity(self.free.len());
        for _ in 0..singly {
            let message = match self.free.pop() {
                Some(message) => message,
                None => {
                    let message = oldest(&mut under_way, zcrp::Receiving::wait)?;
                    check(&message, received)?;
                    received += 1;
                    message
                }
            };
            under_way.push_back(receiver.post(message)?);
        }
        while !under_way.is_empty() {
            let message = oldest(&mut under_way, zcrp::Receiving::wait)?;
            check(&message, received)?;
            received += 1;
            self.free.push(message);
        }
        let after = receiver.counters();
        let placement = Some(Placement {
            units_in_place: after.units_in_place - before.units_in_place,
            units_copied: after.units_copied - before.units_copied,
            bytes_copied: after.bytes_copied - before.bytes_copied,
            bytes_received: after.bytes_received - before.bytes_received,
        });
        let memory_beyond_buffers =
            self.resident.and_then(|before| resident().map(|(_, peak)| peak.saturating_sub(before)));
        Ok(Ran { placement, memory_beyond_buffers, ..Ran::default() })
    }
}

/// Messages posted ahead in ping-pong: the request is there before the peer wants to send.
const AHEAD: usize = 4;

/// Both directions on one socket, with receives posted ahead.
struct Duplex {
    sender: zcrp::Sender,
    receiver: zcrp::Receiver,
    posted: VecDeque<zcrp::Receiving>,
    sent: VecDeque<zcrp::Sending>,
}

impl Duplex {
    fn new(job: &Job, (sender, receiver): (zcrp::Sender, zcrp::Receiver)) -> Result<Self, Failure> {
        let posted =
            messages(job, AHEAD).into_iter().map(|message| receiver.post(message)).collect::<Result<_, _>>()?;
        Ok(Self { sender, receiver, posted, sent: VecDeque::new() })
    }

    fn receive(&mut self) -> Result<Message, Failure> {
        oldest(&mut self.posted, zcrp::Receiving::wait)
    }

    fn send(&mut self, message: Message) -> Result<(), Failure> {
        self.sent.push_back(self.sender.send(message)?);
        Ok(())
    }

    /// Posts another receive, into a buffer that was sent long ago.
    fn refill(&mut self, spare: &mut Vec<Message>) -> Result<(), Failure> {
        let message = match spare.pop() {
            Some(message) => message,
            None => oldest(&mut self.sent, zcrp::Sending::wait)?,
        };
        self.posted.push_back(self.receiver.post(message)?);
        Ok(())
    }
}

struct Pong {
    job: Job,
    listener: Option<Listener>,
    duplex: Option<Duplex>,
    spare: Vec<Message>,
}

pub(super) fn pong(job: &Job) -> Result<Opened, Failure> {
    let listener = Listener::bind(job.at(0), &options(job))?;
    let address = listener.local_addr()?;
    let spare = messages(job, AHEAD);
    Ok((Box::new(Pong { job: job.clone(), listener: Some(listener), duplex: None, spare }), Some(address)))
}

impl End for Pong {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        if let Some(listener) = self.listener.take() {
            self.duplex = Some(Duplex::new(&self.job, listener.accept()?)?);
        }
        let duplex = self.duplex.as_mut().ok_or_else(|| Failure::Failed("nobody came".into()))?;
        for _ in 0..count {
            let message = duplex.receive()?;
            duplex.send(message)?;
            duplex.refill(&mut self.spare)?;
        }
        // Without this the last echo could be lost: nobody would send it again while the worker waits for its next order.
        while !duplex.sent.is_empty() {
            self.spare.push(oldest(&mut duplex.sent, zcrp::Sending::wait)?);
        }
        Ok(Ran::default())
    }
}

struct Ping {
    duplex: Duplex,
    spare: Vec<Message>,
}

pub(super) fn ping(job: &Job) -> Result<Opened, Failure> {
    let duplex = Duplex::new(job, zcrp::connect(peer(job)?, &options(job))?)?;
    Ok((Box::new(Ping { duplex, spare: messages(job, AHEAD) }), None))
}

impl End for Ping {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let Self { duplex, spare } = self;
        let mut next = spare.pop();
        let ran = round_trips(count, |number| {
            let mut message = match next.take() {
                Some(message) => message,
                None => oldest(&mut duplex.sent, zcrp::Sending::wait)?,
            };
            stamp(&mut message, number);
            let start = Instant::now();
            duplex.send(message)?;
            let message = duplex.receive()?;
            let time = start.elapsed();
            check(&message, number)?;
            next = Some(message);
            duplex.refill(spare)?;
            Ok(time)
        });
        spare.extend(next);
        while !duplex.sent.is_empty() {
            spare.push(oldest(&mut duplex.sent, zcrp::Sending::wait)?);
        }
        ran
    }
}
