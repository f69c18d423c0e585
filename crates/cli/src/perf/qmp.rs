//! Both ends over QMP, through the public library: as an application would use its sockets, each message written whole and
//! read whole.

use super::protocol::{Job, Placement, Ran, Repeats};
use super::round_trips;
use super::worker::{End, Failure, Opened, check, stamp};
use crate::qmp::Wire;
use pinnace::qmp::{Endpoint, Listener, Options, Stream};
use pinnace::xtp::XtpCounters;
use pinnace::zcrp::Profile;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How QMP is to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choice {
    #[serde(flatten)]
    pub(crate) wire: Wire,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wire { link, status_every, go_back_n } = self.wire;
        write!(f, "over {link}")?;
        if let Some(packets) = status_every {
            write!(f, ", status asked for every {packets} packets")?;
        }
        f.write_str(if go_back_n { ", go-back-N" } else { "" })
    }
}

/// The port where no system picks one.
const PORT: u16 = 7037;

fn options(job: &Job) -> Options {
    let mut options = job.qmp.wire.apply(Options { idle: job.idle.into(), ..Options::default() });
    if job.cluster {
        options.network = Profile::Cluster;
    }
    options.udp.busy_poll = (job.busy_poll > 0).then(|| Duration::from_micros(job.busy_poll.into()));
    options
}

/// A listening end that becomes a connection with the first run.
struct Accepting {
    listener: Listener,
    stream: Option<Stream>,
}

impl Accepting {
    fn new(job: &Job) -> Result<(Self, SocketAddr), Failure> {
        let port = if job.qmp.wire.link.is_raw() { PORT } else { 0 };
        let wire = job.qmp.wire;
        let opening = |error| Failure::Unavailable(wire.opening(&error).message);
        let listener = Listener::bind((job.bind, port), &options(job)).map_err(opening)?;
        let address = listener.local_addr();
        Ok((Self { listener, stream: None }, address))
    }

    fn stream(&mut self) -> Result<&Stream, Failure> {
        if self.stream.is_none() {
            self.stream = Some(self.listener.accept()?);
        }
        self.stream.as_ref().ok_or_else(|| Failure::Failed("not connected".into()))
    }
}

fn connect(job: &Job) -> Result<(Endpoint, Stream), Failure> {
    let peer = job.peer.ok_or_else(|| Failure::Failed("nowhere to connect to".into()))?;
    let endpoint = job.qmp.wire.client_of(peer, &options(job)).map_err(|error| Failure::Unavailable(error.message))?;
    let stream = endpoint.connect(peer).map_err(|error| Failure::io(format!("cannot connect to {peer}"), &error))?;
    Ok((endpoint, stream))
}

struct Sender {
    endpoint: Endpoint,
    stream: Stream,
    message: Vec<u8>,
}

pub(super) fn sender(job: &Job) -> Result<Opened, Failure> {
    let (endpoint, stream) = connect(job)?;
    Ok((Box::new(Sender { endpoint, stream, message: vec![1; job.size] }), None))
}

impl End for Sender {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let before = self.endpoint.counters();
        for number in 0..count {
            stamp(&mut self.message, number);
            (&self.stream).write_all(&self.message)?;
        }
        self.stream.flush()?;
        Ok(Ran { repeats: Some(repeats(&before, &self.endpoint.counters())), ..Ran::default() })
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

struct Receiver {
    accepting: Accepting,
    message: Vec<u8>,
}

pub(super) fn receiver(job: &Job) -> Result<Opened, Failure> {
    let (accepting, address) = Accepting::new(job)?;
    Ok((Box::new(Receiver { accepting, message: vec![1; job.size] }), Some(address)))
}

impl End for Receiver {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let mut stream = self.accepting.stream()?;
        // Over shared memory there is no endpoint, and nothing is copied on the way.
        let counters = |stream: &Stream| stream.endpoint().map(|endpoint| endpoint.counters()).unwrap_or_default();
        let before = counters(&stream);
        for number in 0..count {
            stream.read_exact(&mut self.message)?;
            check(&self.message, number)?;
        }
        let after = counters(&stream);
        let placement = Some(Placement {
            units_in_place: after.bytes_in_place - before.bytes_in_place,
            units_copied: after.bytes_copied - before.bytes_copied,
            bytes_copied: after.bytes_copied - before.bytes_copied,
            bytes_received: after.bytes_received - before.bytes_received,
        });
        Ok(Ran { placement, ..Ran::default() })
    }
}

struct Pong {
    accepting: Accepting,
    message: Vec<u8>,
}

pub(super) fn pong(job: &Job) -> Result<Opened, Failure> {
    let (accepting, address) = Accepting::new(job)?;
    Ok((Box::new(Pong { accepting, message: vec![1; job.size] }), Some(address)))
}

impl End for Pong {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let mut stream = self.accepting.stream()?;
        for _ in 0..count {
            stream.read_exact(&mut self.message)?;
            stream.write_all(&self.message)?;
        }
        Ok(Ran::default())
    }
}

struct Ping {
    stream: Stream,
    message: Vec<u8>,
}

pub(super) fn ping(job: &Job) -> Result<Opened, Failure> {
    let (_, stream) = connect(job)?;
    Ok((Box::new(Ping { stream, message: vec![1; job.size] }), None))
}

impl End for Ping {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        round_trips(count, |number| {
            stamp(&mut self.message, number);
            let mut stream = &self.stream;
            let start = Instant::now();
            stream.write_all(&self.message)?;
            stream.read_exact(&mut self.message)?;
            let time = start.elapsed();
            check(&self.message, number)?;
            Ok(time)
        })
    }
}
