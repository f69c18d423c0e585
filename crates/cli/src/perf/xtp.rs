//! Both ends over XTP, through the public library.
//!
//! Streams that nothing is lost of stay open from run to run; an isochronous stream has a new association for each run,
//! because its end tells the receiver what was lost of its last messages. A run of unacknowledged datagrams ends with an
//! acknowledged one.

use super::protocol::{Job, Loss, Placement, Ran, Repeats};
use super::round_trips;
use super::service::Words;
use super::worker::{End, Failure, Opened, check, stamp};
use crate::xtp::{CodecName, LinkName, ServiceName, Wire};
use clap::{Args, ValueEnum};
use pinnace::Message;
use pinnace::xtp::{
    Close, Connection, ControlBlock, Endpoint, Flags, Incoming, Listener, Options, Profile, SendOptions, Sending,
    Service, Services, XtpCounters,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::io::Read;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How XTP is to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choice {
    pub(crate) service: ServiceName,
    pub(crate) wire: Wire,
    pub(crate) nocheck: bool,
    pub(crate) go_back_n: bool,
    /// Every write is a message whose end is marked.
    pub(crate) eom: bool,
}

/// What of it is said for XTP alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "XTP, and the one interface")]
pub(crate) struct ChoiceArgs {
    /// What is needed, in words like 'loss=5% run=4KiB' (then --protocol is `service`); of xtp one of its services:
    /// connection, transaction, unack-dgram, ack-dgram, iso-stream or bulk-data; `transaction` measures the time of
    /// exchanges, set-up and close included, against connect-write-read-close of TCP [default: connection]
    #[arg(long, value_name = "WORDS|SERVICE")]
    service: Option<Needed>,
    /// How packets are laid out
    #[arg(long, value_enum, default_value_t)]
    codec: CodecName,
    /// Do not sum the data
    #[arg(long)]
    nocheck: bool,
    /// Mark the end of every message of a stream, as the one interface does: a packet has bytes of one message then.
    /// Without, the stream has bytes alone, as TCP's
    #[arg(long)]
    eom: bool,
}

/// What `--service` says: a service of XTP's, or what the one interface is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Needed {
    Xtp(ServiceName),
    Words(Words),
}

impl FromStr for Needed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (ServiceName::from_str(text, false), text.parse()) {
            (Ok(name), _) => Ok(Self::Xtp(name)),
            (_, Ok(words)) => Ok(Self::Words(words)),
            (_, Err(why)) => Err(why),
        }
    }
}

impl ChoiceArgs {
    /// What the one interface is asked for.
    pub(super) fn words(&self) -> Option<&Words> {
        match &self.service {
            Some(Needed::Words(words)) => Some(words),
            _ => None,
        }
    }

    /// Whether something of it is for XTP alone.
    pub(super) fn is_of_xtp(&self) -> bool {
        matches!(self.service, Some(Needed::Xtp(_))) || self.codec != CodecName::default() || self.nocheck || self.eom
    }

    pub(super) fn with(&self, link: LinkName, go_back_n: bool) -> Choice {
        let &Self { codec, nocheck, eom, .. } = self;
        let service = match self.service {
            Some(Needed::Xtp(service)) => service,
            _ => ServiceName::default(),
        };
        Choice { service, wire: Wire { codec, link }, nocheck, go_back_n, eom }
    }
}

impl Choice {
    /// How the messages of a stream are sent.
    fn send_options(&self) -> SendOptions {
        if self.eom { SendOptions::MESSAGE } else { SendOptions::BYTES }
    }

    /// Whether something may be lost for good.
    pub(crate) fn is_lossy(&self) -> bool {
        matches!(self.service, ServiceName::UnackDgram | ServiceName::IsoStream)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, wire, nocheck, go_back_n, eom } = self;
        let link = if wire.link == LinkName::Ip36 { ", over IP protocol 36" } else { "" };
        let sums = if *nocheck { ", data not summed" } else { "" };
        let repeats = if *go_back_n { ", go-back-N" } else { "" };
        let marks = if *eom { ", messages marked" } else { "" };
        write!(f, "{service}, {}{link}{sums}{repeats}{marks}", wire.codec)
    }
}

/// The port where no system picks one.
const PORT: u16 = 7036;
/// How long a message under way is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

fn options(job: &Job) -> Options {
    let mut options = job.xtp.wire.apply(Options { idle: job.idle.into(), ..Options::default() });
    if job.cluster {
        options.profile = Profile::Cluster;
    }
    options.udp.busy_poll = (job.busy_poll > 0).then(|| Duration::from_micros(job.busy_poll.into()));
    options
}

/// The control block of contexts of the service measured.
fn block(job: &Job, endpoint: &Endpoint) -> ControlBlock {
    let mut block = endpoint.block(job.xtp.service.into());
    if job.xtp.nocheck {
        block.mode_flags = block.mode_flags.with(Flags::NOCHECK);
    }
    block.go_back_n = job.xtp.go_back_n;
    // At least as much is queued as the job says, so that it is what bounds the messages under way.
    block.wbufsize = block.wbufsize.max(u32::try_from(job.depth * job.size).unwrap_or(u32::MAX));
    block.retry_count = block.retry_count.max(30);
    block
}

/// An endpoint that others reach, and where.
fn listening(job: &Job) -> Result<(Listener, Endpoint, SocketAddr), Failure> {
    let port = if job.xtp.wire.link == LinkName::Ip36 { PORT } else { 0 };
    let endpoint = Endpoint::bind(job.at(port), &options(job)).map_err(|error| opening(job, error))?;
    let listener = endpoint.listen_on(endpoint.local_addr().port(), Services::ALL, block(job, &endpoint))?;
    let address = listener.local_addr();
    Ok((listener, endpoint, address))
}

fn opening(job: &Job, error: pinnace::Error) -> Failure {
    Failure::Unavailable(job.xtp.wire.error(error).message)
}

/// An endpoint that talks with the listening one.
fn connecting(job: &Job) -> Result<(Endpoint, SocketAddr), Failure> {
    let peer = job.peer.ok_or_else(|| Failure::Failed("nowhere to connect to".into()))?;
    let endpoint = job.xtp.wire.client_of(peer, &options(job)).map_err(|error| Failure::Unavailable(error.message))?;
    Ok((endpoint, peer))
}

fn failed(what: &str) -> Failure {
    Failure::Failed(what.to_owned())
}

struct Sender {
    job: Job,
    endpoint: Endpoint,
    peer: SocketAddr,
    block: ControlBlock,
    connection: Option<Connection>,
    free: Vec<Message>,
}

pub(super) fn sender(job: &Job) -> Result<Opened, Failure> {
    let (endpoint, peer) = connecting(job)?;
    let block = block(job, &endpoint);
    // Memory that has been touched, so that no run pays for page faults.
    let free = (0..job.depth).map(|_| Message::from_vec(vec![1; job.size])).collect();
    Ok((Box::new(Sender { job: job.clone(), endpoint, peer, block, connection: None, free }), None))
}

/// Messages up to this size are queued many in a call: a call for each would cost more than the message.
const SMALL: usize = 4096;

impl Sender {
    /// Sends `count` messages, one call each, and waits for the end of all.
    fn send(&mut self, count: u64, mut send: impl FnMut(Message) -> Result<Sending, Failure>) -> Result<(), Failure> {
        let mut under_way: VecDeque<Sending> = VecDeque::with_capacity(self.free.len());
        for number in 0..count {
            let mut message = match self.free.pop() {
                Some(message) => message,
                None => oldest(&mut under_way)?,
            };
            stamp(&mut message, number);
            under_way.push_back(send(message)?);
        }
        while !under_way.is_empty() {
            self.free.push(oldest(&mut under_way)?);
        }
        Ok(())
    }

    /// The same, a quarter of the messages in a call.
    fn send_small(&mut self, count: u64, connection: &Connection) -> Result<(), Failure> {
        let burst = (self.free.len() / 4).max(1);
        let mut under_way: VecDeque<Sending> = VecDeque::with_capacity(self.free.len());
        let mut next = 0;
        while next < count {
            while self.free.len() < burst && !under_way.is_empty() {
                self.free.push(oldest(&mut under_way)?);
            }
            let size = burst.min(self.free.len()).min((count - next) as usize);
            let mut messages = self.free.split_off(self.free.len() - size);
            for message in &mut messages {
                stamp(message, next);
                next += 1;
            }
            under_way
                .extend(connection.send_all_with(messages, &self.job.xtp.send_options()).map_err(|(_, error)| error)?);
        }
        while !under_way.is_empty() {
            self.free.push(oldest(&mut under_way)?);
        }
        Ok(())
    }

    fn connect(&self) -> Result<Connection, Failure> {
        Ok(self.endpoint.connect_with(self.peer, self.block.clone())?)
    }

    fn datagrams(&mut self, count: u64) -> Result<(), Failure> {
        let (endpoint, peer, block) = (self.endpoint.clone(), self.peer, self.block.clone());
        self.send(count, |message| Ok(endpoint.datagram_with(peer, message, block.clone(), &SendOptions::MESSAGE)?))?;
        if self.job.xtp.service == ServiceName::UnackDgram {
            self.endpoint.acked_datagram(self.peer, Message::from_vec(Vec::new()))?.wait()?;
        }
        Ok(())
    }
}

impl End for Sender {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let before = self.endpoint.counters();
        match self.job.xtp.service {
            ServiceName::UnackDgram | ServiceName::AckDgram => self.datagrams(count)?,
            ServiceName::IsoStream => {
                let connection = self.connect()?;
                self.send(count, |message| Ok(connection.send(message)?))?;
                connection.close(Close::Abbreviated)?;
                connection.wait_closed_timeout(PATIENCE)?;
            }
            ServiceName::Connection | ServiceName::BulkData => {
                let connection = match self.connection.take() {
                    Some(connection) => connection,
                    None => self.connect()?,
                };
                if self.job.size <= SMALL {
                    self.send_small(count, &connection)?;
                } else {
                    let options = self.job.xtp.send_options();
                    self.send(count, |message| Ok(connection.send_with(message, &options)?))?;
                }
                self.connection = Some(connection);
            }
            ServiceName::Transaction => return Err(failed("a transaction is not one way")),
        }
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

fn oldest(under_way: &mut VecDeque<Sending>) -> Result<Message, Failure> {
    let first = under_way.pop_front().ok_or_else(|| failed("no message is under way"))?;
    Ok(first.wait()?)
}

struct Receiver {
    job: Job,
    endpoint: Endpoint,
    listener: Listener,
    connection: Option<Connection>,
    message: Vec<u8>,
    free: Vec<Message>,
}

pub(super) fn receiver(job: &Job) -> Result<Opened, Failure> {
    let (listener, endpoint, address) = listening(job)?;
    let posted = if job.xtp.service == ServiceName::BulkData { job.depth } else { 0 };
    let free = (0..posted).map(|_| Message::from_vec(vec![1; job.size])).collect();
    let message = vec![1; job.size];
    Ok((Box::new(Receiver { job: job.clone(), endpoint, listener, connection: None, message, free }), Some(address)))
}

impl Receiver {
    fn accept(&self) -> Result<Connection, Failure> {
        self.listener.accept()?.into_connection().ok_or_else(|| failed("something else than a stream came"))
    }

    fn stream(&mut self, connection: &Connection, count: u64) -> Result<(), Failure> {
        for number in 0..count {
            if self.job.xtp.eom {
                connection.recv_into(&mut self.message)?.ok_or_else(|| failed("the stream ended early"))?;
            } else {
                let mut bytes = connection;
                bytes.read_exact(&mut self.message).map_err(|error| Failure::Failed(error.to_string()))?;
            }
            self.check(&self.message, number)?;
        }
        Ok(())
    }

    fn bulk(&mut self, connection: &Connection, count: u64) -> Result<(), Failure> {
        // Posted once: what comes back is posted again.
        for message in self.free.drain(..) {
            connection.post(message)?;
        }
        for number in 0..count {
            let filled = connection.filled()?.ok_or_else(|| failed("the stream ended early"))?;
            if self.job.xtp.eom && filled.ends != [self.job.size] {
                return Err(failed("a message did not come into a buffer of its own"));
            }
            self.check(&filled.message, number)?;
            connection.post(filled.message)?;
        }
        Ok(())
    }

    /// Reads what comes until the stream ends; a hole may have swallowed the end of a message.
    fn isochronous(&mut self, connection: &Connection, count: u64) -> Result<u64, Failure> {
        let (mut bytes, mut missing) = (0, 0);
        while let Some(received) = connection.recv()? {
            bytes += received.data.len() as u64;
            missing += received.holes.iter().map(|hole| hole.len() as u64).sum::<u64>();
        }
        if bytes != count * self.job.size as u64 {
            return Err(failed("the stream has another length at its end than at its beginning"));
        }
        connection.finish()?;
        Ok(missing)
    }

    /// Takes datagrams until the last one was heard of.
    fn datagrams(&mut self, count: u64) -> Result<u64, Failure> {
        let mut came = 0;
        let is_acked = self.job.xtp.service == ServiceName::AckDgram;
        while !is_acked || came < count {
            let datagram = self.listener.accept()?.into_datagram().ok_or_else(|| failed("no datagram came"))?;
            if !is_acked && datagram.service == Service::AckDgram {
                break;
            }
            if datagram.data.len() != self.job.size {
                return Err(failed("a datagram came with another length"));
            }
            came += 1;
        }
        Ok(count.saturating_sub(came))
    }

    fn check(&self, message: &[u8], number: u64) -> Result<(), Failure> {
        if message.len() != self.job.size {
            let bytes = message.len();
            return Err(Failure::Failed(format!("message {number} of {} bytes arrived as {bytes}", self.job.size)));
        }
        check(message, number)
    }
}

impl End for Receiver {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let before = self.endpoint.counters();
        let mut ran = Ran::default();
        match self.job.xtp.service {
            ServiceName::UnackDgram | ServiceName::AckDgram => {
                let lost = self.datagrams(count)?;
                ran.delivered = Some(count - lost);
                ran.loss = Some(Loss { packets: count, lost, longest_run: None });
            }
            ServiceName::IsoStream => {
                let connection = self.accept()?;
                let missing = self.isochronous(&connection, count)?;
                let bytes = (count * self.job.size as u64).max(1);
                ran.delivered = Some(((bytes - missing) as f64 / self.job.size as f64) as u64);
                // In bytes: what was lost never came, so nobody knows in how many packets.
                ran.loss = Some(Loss { packets: bytes, lost: missing, longest_run: None });
                connection.wait_closed_timeout(PATIENCE)?;
            }
            ServiceName::Connection | ServiceName::BulkData => {
                let connection = match self.connection.take() {
                    Some(connection) => connection,
                    None => self.accept()?,
                };
                if self.job.xtp.service == ServiceName::BulkData {
                    self.bulk(&connection, count)?;
                } else {
                    self.stream(&connection, count)?;
                }
                self.connection = Some(connection);
            }
            ServiceName::Transaction => return Err(failed("a transaction is not one way")),
        }
        let after = self.endpoint.counters();
        ran.placement = Some(Placement {
            units_in_place: after.bytes_in_place - before.bytes_in_place,
            units_copied: after.bytes_copied - before.bytes_copied,
            bytes_copied: after.bytes_copied - before.bytes_copied,
            bytes_received: after.bytes_received - before.bytes_received,
        });
        Ok(ran)
    }
}

struct Pong {
    listener: Listener,
    size: usize,
}

/// Answers requests with themselves, and so messages of a stream.
pub(super) fn pong(job: &Job) -> Result<Opened, Failure> {
    let (listener, _, address) = listening(job)?;
    Ok((Box::new(Pong { listener, size: job.size }), Some(address)))
}

impl End for Pong {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        for _ in 0..count {
            let Incoming::Transaction(transaction) = self.listener.accept()? else {
                return Err(failed("no request came"));
            };
            let request = transaction.request()?;
            if request.data.len() != self.size {
                return Err(failed("a request came with another length"));
            }
            // It goes on by itself: whether it arrived the other end knows.
            drop(transaction.respond(request.data)?);
        }
        Ok(Ran::default())
    }
}

struct Ping {
    endpoint: Endpoint,
    peer: SocketAddr,
    block: ControlBlock,
    size: usize,
}

/// Times transactions, each with set-up and close.
pub(super) fn ping(job: &Job) -> Result<Opened, Failure> {
    let (endpoint, peer) = connecting(job)?;
    let block = ControlBlock { service: Service::Transaction, ..block(job, &endpoint) };
    Ok((Box::new(Ping { endpoint, peer, block, size: job.size }), None))
}

impl End for Ping {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        round_trips(count, |number| {
            let mut request = vec![1; self.size];
            stamp(&mut request, number);
            let message = Message::from_vec(request);
            let start = Instant::now();
            let response = self.endpoint.transact_with(self.peer, message, self.block.clone())?;
            let time = start.elapsed();
            if response.data.len() != self.size {
                return Err(failed("a response came with another length"));
            }
            check(&response.data, number)?;
            Ok(time)
        })
    }
}
