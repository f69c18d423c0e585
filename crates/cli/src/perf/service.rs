//! Both ends over the one interface: whatever method carries the service.
//!
//! As over the methods themselves: the same messages, as many under way, in memory that is used again; what differs is what
//! the one interface costs.

use super::protocol::{Job, Loss, Ran};
use super::round_trips;
use super::worker::{End, Failure, Opened, check, stamp};
use pinnace::service::{Direction, Method, PathClass, Selection, Service};
use pinnace::{Connection, Delivery, Endpoint, EndpointOptions, Listener, Message, Received};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The service, as words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Words(String);

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let said = crate::netcat::said(text)?;
        match said.authority {
            None => Ok(Self(said.service.to_string())),
            Some(_) => Err("a measurement has its own peer: give the words alone, like 'loss=5% run=4KiB'".to_owned()),
        }
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "reliable messages, in order" } else { &self.0 })
    }
}

impl Words {
    fn service(&self) -> Result<Service, Failure> {
        self.0.parse().map_err(|error| Failure::Failed(format!("{error}")))
    }

    /// Whether messages may overtake each other.
    fn is_unordered(&self) -> bool {
        self.0.split(' ').any(|word| word == "order=no")
    }

    /// The typical message, if they say so.
    pub(super) fn size(&self) -> Option<u64> {
        let word = self.0.split(' ').find_map(|word| word.strip_prefix("size="))?;
        crate::units::bytes(word).ok()
    }
}

/// A message that does not come for so long does not come at all.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the last messages have.
const LINGER: Duration = Duration::from_secs(1);

fn options(job: &Job, forced: Option<Method>) -> EndpointOptions {
    let mut options = EndpointOptions { idle: job.idle.into(), ..EndpointOptions::default() };
    options.selection = Selection { forced, ..Selection::default() };
    options.udp.busy_poll = (job.busy_poll > 0).then(|| Duration::from_micros(job.busy_poll.into()));
    options
}

/// Connects; the measured messages are as large as the job says.
fn connect(job: &Job, forced: Option<Method>, is_duplex: bool) -> Result<Connection, Failure> {
    let peer = job.peer.ok_or_else(|| Failure::Failed("nowhere to connect to".into()))?;
    let mut service = job.service.service()?.size(job.size as u64).largest(job.size as u64);
    if is_duplex {
        service = service.direction(Direction::Duplex);
    }
    if job.cluster && service.path_class().is_none() {
        service = service.path(PathClass::Cluster);
    }
    Ok(Endpoint::client_with(&options(job, forced)).connect(&peer.to_string(), &service)?)
}

/// Somebody to connect to.
struct Here {
    listener: Listener,
    connection: Option<Connection>,
    /// Open as long as this.
    _endpoint: Endpoint,
}

impl Here {
    fn listen(job: &Job) -> Result<(Self, std::net::SocketAddr), Failure> {
        let endpoint = Endpoint::bind_with(job.at(0), &options(job, None))?;
        // What a client says of the network is believed only if this end says so as well.
        let most = if job.cluster { Service::new().path(PathClass::Cluster) } else { Service::new() };
        let listener = endpoint.listen(&most)?;
        let address = listener.local_addr();
        Ok((Self { listener, connection: None, _endpoint: endpoint }, address))
    }

    fn connection(&mut self) -> Result<&Connection, Failure> {
        if self.connection.is_none() {
            self.connection = self.listener.accept_timeout(PATIENCE)?;
        }
        self.connection.as_ref().ok_or_else(|| Failure::Failed("nobody came".into()))
    }
}

fn receive(connection: &Connection) -> Result<Received, Failure> {
    connection.recv_timeout(PATIENCE)?.ok_or_else(|| Failure::Failed("the peer has ended early".into()))
}

fn ran_by(connection: &Connection) -> Ran {
    Ran { method: Some(connection.method().name().to_owned()), ..Ran::default() }
}

/// Memory that has been touched, so that no run pays for page faults.
fn messages(job: &Job, count: usize) -> Vec<Message> {
    (0..count).map(|_| Message::from_vec(vec![1; job.size])).collect()
}

fn oldest(under_way: &mut VecDeque<Delivery>) -> Result<Message, Failure> {
    let first = under_way.pop_front().ok_or_else(|| Failure::Failed("no message is under way".into()))?;
    Ok(first.wait()?.message)
}

struct Sender {
    connection: Connection,
    free: Vec<Message>,
}

pub(super) fn sender(job: &Job, forced: Option<Method>) -> Result<Opened, Failure> {
    let free = messages(job, job.depth);
    Ok((Box::new(Sender { connection: connect(job, forced, false)?, free }), None))
}

impl End for Sender {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let mut under_way = VecDeque::with_capacity(self.free.len());
        for number in 0..count {
            let mut message = match self.free.pop() {
                Some(message) => message,
                None => oldest(&mut under_way)?,
            };
            stamp(&mut message, number);
            under_way.push_back(self.connection.send(message)?);
        }
        while !under_way.is_empty() {
            self.free.push(oldest(&mut under_way)?);
        }
        Ok(ran_by(&self.connection))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.connection.close(LINGER);
    }
}

struct Receiver {
    here: Here,
    size: usize,
    /// Messages may overtake each other.
    is_unordered: bool,
}

pub(super) fn receiver(job: &Job) -> Result<Opened, Failure> {
    let (here, address) = Here::listen(job)?;
    let is_unordered = job.service.is_unordered();
    Ok((Box::new(Receiver { here, size: job.size, is_unordered }), Some(address)))
}

/// Checks what [`stamp`] wrote into messages that may come in any order: each once.
fn check_unordered(message: &[u8], seen: &mut [bool]) -> Result<(), Failure> {
    // A shorter one does not say which it is.
    let Some(number) = message.last_chunk().copied().map(u64::from_le_bytes) else { return Ok(()) };
    check(message, number)?;
    match seen.get_mut(usize::try_from(number).unwrap_or(usize::MAX)) {
        Some(seen) if !*seen => *seen = true,
        Some(_) => return Err(Failure::Failed(format!("message {number} arrived twice"))),
        None => return Err(Failure::Failed(format!("message {number} was never sent"))),
    }
    Ok(())
}

impl End for Receiver {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let connection = self.here.connection()?;
        let mut loss: Option<Loss> = None;
        let mut seen = if self.is_unordered { vec![false; usize::try_from(count).unwrap_or(0)] } else { Vec::new() };
        for number in 0..count {
            let message = receive(connection)?;
            if message.missed() > 0 {
                let missed = message.missed();
                return Err(Failure::Failed(format!(
                    "{missed} messages are missing before message {number}, and a measurement counts on all of them: try a path \
                     that loses nothing, or say how much of each may be missing, as in loss=5%"
                )));
            }
            if message.len() != self.size {
                let (size, len) = (self.size, message.len());
                return Err(Failure::Failed(format!("a message of {size} bytes arrived as {len}")));
            }
            if message.is_whole() {
                if self.is_unordered { check_unordered(&message, &mut seen)? } else { check(&message, number)? }
            }
            if let Some(of_message) = message.loss() {
                let loss = loss.get_or_insert_default();
                loss.packets += u64::from(of_message.packets);
                loss.lost += u64::from(of_message.lost);
                loss.longest_run = loss.longest_run.max(Some(of_message.longest_run));
            }
        }
        Ok(Ran { loss, ..ran_by(connection) })
    }
}

/// Messages of ping-pong whose arrival nobody has asked for.
const AHEAD: usize = 4;

struct Pong {
    here: Here,
    under_way: VecDeque<Delivery>,
}

pub(super) fn pong(job: &Job) -> Result<Opened, Failure> {
    let (here, address) = Here::listen(job)?;
    Ok((Box::new(Pong { here, under_way: VecDeque::new() }), Some(address)))
}

impl End for Pong {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let Self { here, under_way } = self;
        let connection = here.connection()?;
        for _ in 0..count {
            let message = receive(connection)?.into_message();
            under_way.push_back(connection.send(message)?);
            if under_way.len() > AHEAD {
                oldest(under_way)?;
            }
        }
        // Without this the last echo could be lost: nobody would send it again while the worker waits for its next order.
        while !under_way.is_empty() {
            oldest(under_way)?;
        }
        Ok(ran_by(connection))
    }
}

struct Ping {
    connection: Connection,
    free: Vec<Message>,
}

pub(super) fn ping(job: &Job, forced: Option<Method>) -> Result<Opened, Failure> {
    Ok((Box::new(Ping { connection: connect(job, forced, true)?, free: messages(job, AHEAD) }), None))
}

impl End for Ping {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let Self { connection, free } = self;
        let mut under_way = VecDeque::with_capacity(AHEAD);
        let ran = round_trips(count, |number| {
            let mut message = match free.pop() {
                Some(message) => message,
                None => oldest(&mut under_way)?,
            };
            stamp(&mut message, number);
            let start = Instant::now();
            under_way.push_back(connection.send(message)?);
            let message = receive(connection)?;
            let time = start.elapsed();
            if message.is_whole() {
                check(&message, number)?;
            }
            Ok(time)
        })?;
        while !under_way.is_empty() {
            free.push(oldest(&mut under_way)?);
        }
        Ok(Ran { round_trips: ran.round_trips, ..ran_by(connection) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_may_overtake_each_other_come_once_each() {
        let is_unordered = |words: &str| words.parse::<Words>().unwrap().is_unordered();
        assert!(is_unordered("loss=5% order=no") && !is_unordered("loss=5%"));
        let mut seen = vec![false; 3];
        let mut take = |number| {
            let mut message = [1; 100];
            stamp(&mut message, number);
            check_unordered(&message, &mut seen).is_ok()
        };
        assert_eq!([2, 0, 1, 0, 3].map(&mut take), [true, true, true, false, false]);
    }
}
