//! A toy protocol, and a link of two connected sockets, to try the runtime with.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part")]

use pinnace_core::{Address, Ecn, Engine, PathEvent, Placed, PollAt, ReceivePlan, RxMeta, Time, Train, TrainLimits};
use pinnace_link::{BufferTable, Descriptors, Link, LinkCounters, ReadBuffer, ReadOutcome, Received, SendOutcome};
use pinnace_runtime::{Concerned, Endpoint, EndpointConfig, EndpointError, EventSink, Idle, Topic, WaitError};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

/// Datagrams of the toy: a kind and a number.
pub const DATA: u8 = 1;
pub const ACK: u8 = 2;
/// Makes the receiving engine panic.
pub const BOMB: u8 = 3;

pub const RESEND: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Received(u64),
    Acked(u64),
}

/// Numbered messages, each acknowledged, repeated until then.
#[derive(Debug, Default)]
pub struct Toy {
    queue: VecDeque<u64>,
    answers: VecDeque<u64>,
    transit: BTreeSet<u64>,
    seen: BTreeSet<u64>,
    timer: Option<Time>,
    events: VecDeque<Event>,
    pub held: bool,
    pub bomb: bool,
    pub path_events: Vec<PathEvent>,
    pub resent: u64,
    /// It loses what a late timer costs.
    pub is_strict: bool,
    /// How late the timers were.
    pub lateness: Vec<Duration>,
}

impl Toy {
    pub fn send(&mut self, number: u64) {
        self.queue.push_back(number);
    }

    pub fn in_transit(&self) -> usize {
        self.transit.len() + self.queue.len()
    }
}

impl Engine for Toy {
    type Event = Event;

    fn handle_datagrams(&mut self, _: Time, _: &RxMeta, rx: &mut Placed<'_>) {
        while let Some(segment) = rx.next_segment() {
            let Some([kind, number @ ..]) = rx.head::<9>(&segment) else { continue };
            let number = u64::from_be_bytes(number);
            match kind {
                DATA => {
                    if self.seen.insert(number) {
                        self.events.push_back(Event::Received(number));
                    }
                    self.answers.push_back(number);
                }
                ACK if self.transit.remove(&number) => {
                    self.events.push_back(Event::Acked(number));
                    if self.transit.is_empty() {
                        self.timer = None;
                    }
                }
                BOMB => panic!("a toy exploded"),
                _ => {}
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Some(at) = self.timer.filter(|at| *at <= now) {
            self.lateness.push(now.since(at));
            self.resent += self.transit.len() as u64;
            self.queue.extend(std::mem::take(&mut self.transit));
            self.timer = None;
        }
    }

    fn handle_path_event(&mut self, _: Time, event: PathEvent) {
        self.path_events.push(event);
    }

    fn handle_hold(&mut self, held: bool) {
        self.held = held;
    }

    fn plan_receive(&self, _: &mut ReceivePlan) {}

    fn poll_transmit(&mut self, now: Time, train: &mut Train) -> bool {
        let mut frame = [0; 9];
        let number = if std::mem::take(&mut self.bomb) {
            frame[0] = BOMB;
            0
        } else if let Some(number) = self.answers.pop_front() {
            frame[0] = ACK;
            number
        } else if self.held && !self.transit.is_empty() && self.queue.len() < 8 {
            return false;
        } else if let Some(number) = self.queue.pop_front() {
            frame[0] = DATA;
            self.transit.insert(number);
            self.timer.get_or_insert(now + RESEND);
            number
        } else {
            return false;
        };
        frame[1..].copy_from_slice(&number.to_be_bytes());
        train.begin(Address::Peer, 9);
        train.inline(&frame);
        train.end_segment();
        true
    }

    fn poll_at(&self) -> PollAt {
        PollAt::at(self.timer)
    }

    fn bears(&self, _: Duration) -> bool {
        !self.is_strict
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// What the application sees.
#[derive(Debug, Default)]
pub struct Inbox {
    pub received: BTreeSet<u64>,
    pub acked: BTreeSet<u64>,
    pub flag: u64,
    pub outstanding: bool,
    /// Numbers are topics.
    pub is_topical: bool,
    concerned: Concerned,
}

impl EventSink<Event> for Inbox {
    fn handle_event(&mut self, event: Event, _: &mut BufferTable) {
        let (Event::Received(number) | Event::Acked(number)) = event;
        self.concerned.add(Topic::of(number));
        match event {
            Event::Received(_) => self.received.insert(number),
            Event::Acked(_) => self.acked.insert(number),
        };
    }

    fn take_concerned(&mut self) -> Concerned {
        let concerned = std::mem::take(&mut self.concerned);
        if self.is_topical { concerned } else { Concerned::EVERYBODY }
    }

    fn is_outstanding(&self) -> bool {
        self.outstanding
    }

    fn is_ready(&self) -> bool {
        !self.received.is_empty() || !self.acked.is_empty()
    }
}

/// One of two connected datagram sockets. Pushes back when the other does not read.
#[derive(Debug)]
pub struct PairLink {
    socket: UnixDatagram,
    buffer: Vec<u8>,
    counters: LinkCounters,
    pub broken: bool,
}

impl PairLink {
    pub fn pair() -> (Self, Self) {
        let (a, b) = UnixDatagram::pair().unwrap();
        (Self::new(a), Self::new(b))
    }

    /// Sends a datagram that no engine made.
    pub fn inject(&self, datagram: &[u8]) {
        self.socket.send(datagram).unwrap();
    }

    fn new(socket: UnixDatagram) -> Self {
        socket.set_nonblocking(true).unwrap();
        let size: libc::c_int = 32_768;
        // SAFETY: the option is an integer of this size, which lives through the call.
        let set = unsafe {
            let size = std::ptr::from_ref(&size).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, size, 4)
        };
        assert_eq!(set, 0);
        Self { socket, buffer: vec![0; 65_536], counters: LinkCounters::default(), broken: false }
    }
}

impl Link for PairLink {
    fn train_limits(&self) -> TrainLimits {
        TrainLimits::SINGLE
    }

    fn max_datagram(&self) -> usize {
        1472
    }

    fn datagrams_per_read(&self) -> usize {
        1
    }

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        let mut outcome = SendOutcome::Sent;
        train.for_each_datagram(
            |range| memory.bytes(range),
            |datagram| {
                if let Err(error) = self.socket.send(datagram) {
                    outcome = match error.kind() {
                        io::ErrorKind::WouldBlock => SendOutcome::Blocked,
                        _ => SendOutcome::Unreachable,
                    };
                }
            },
        );
        match outcome {
            SendOutcome::Blocked => self.counters.sends_blocked += 1,
            _ => self.counters.trains_sent += 1,
        }
        Ok(outcome)
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        match self.socket.recv(&mut self.buffer) {
            Ok(bytes) => {
                if self.broken && self.buffer[..bytes].starts_with(&[0xFF]) {
                    return Err(io::Error::other("the cable is cut"));
                }
                pool.lay_out(plan, memory, |_, _| ());
                // SAFETY: it has just been laid out, in memory that is borrowed, and that whoever lent it promised not to
                // look at.
                unsafe { pool.scatter(&self.buffer[..bytes]) };
                self.counters.reads += 1;
                let meta = RxMeta { source: Address::Peer, destination: None, ecn: Ecn::NotCapable };
                Ok(ReadOutcome::Received(Received { bytes, segment: bytes, meta, truncated: false }))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(ReadOutcome::Empty),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(ReadOutcome::Unreachable),
            Err(error) => Err(error),
        }
    }

    fn descriptors(&self) -> Descriptors {
        let fd = self.socket.as_raw_fd();
        Descriptors::new(fd, fd)
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

pub type ToyEndpoint = Endpoint<Toy, PairLink, Inbox>;

pub fn endpoint(link: PairLink, config: EndpointConfig) -> ToyEndpoint {
    Endpoint::new(Toy::default(), link, Inbox::default(), config).unwrap()
}

pub fn endpoints(config: EndpointConfig) -> (ToyEndpoint, ToyEndpoint) {
    let (a, b) = PairLink::pair();
    (endpoint(a, config), endpoint(b, config))
}

/// Nobody drives but those who wait.
pub fn alone(idle: Idle) -> EndpointConfig {
    EndpointConfig { idle, worker: false, ..EndpointConfig::default() }
}

pub fn send(endpoint: &ToyEndpoint, number: u64) {
    endpoint.call(|c| c.engine.send(number)).unwrap();
}

pub fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(20))
}

pub fn receive(endpoint: &ToyEndpoint, number: u64) -> Result<bool, WaitError> {
    endpoint.wait_until(|inbox| inbox.received.remove(&number).then_some(true), soon())
}

pub fn acked(endpoint: &ToyEndpoint, number: u64) -> Result<bool, WaitError> {
    endpoint.wait_until(|inbox| inbox.acked.remove(&number).then_some(true), soon())
}

/// Looks, without driving, until it is so.
pub fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

pub fn is_failure(error: &WaitError) -> bool {
    matches!(error, WaitError::Endpoint(EndpointError::Link(_)))
}
