//! Hosts on the simulator, and a program for each that sends what it has been given, reads everything and does what a
//! script says.
#![allow(dead_code, unreachable_pub, reason = "not every test uses all of it")]

use core::time::Duration;
use pinnace_a1::{A1, Address as Name, Config, ConnectionId, Event, Failure, Output, Qos, Refused, Status};
use pinnace_core::{Address, ControllerKind, Random, Time};
use pinnace_sim::{
    Application, Exits, Fate, HostHandle, HostId, NetworkConfig, Node, Outcome, Packet, Path, Position, Simulation,
};
use pinnace_wire::a1::{Body, HEADER_BYTES, Head, Header, Kind};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

pub const PORT: u32 = 7;
pub const LINGER: Duration = Duration::from_secs(5);
pub const SERVER: HostId = HostId::new(0);
pub const CLIENT: HostId = HostId::new(1);

pub type Host<'h> = HostHandle<'h, A1>;
pub type World = Simulation<A1, Program>;

/// What a program has seen of a connection.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    pub accepted: bool,
    pub connected_at: Option<Time>,
    /// Messages that ended, in order.
    pub messages: Vec<Vec<u8>>,
    /// When each of them ended.
    pub times: Vec<Time>,
    /// Messages that ended, and of which something was lost.
    pub torn: u64,
    /// The bytes of the one that has not.
    pub tail: Vec<u8>,
    is_torn: bool,
    /// What was read at once: its bytes and its bits.
    pub parts: Vec<(u32, Status)>,
    pub closed: Option<Result<(), Failure>>,
    pub closed_at: Option<Time>,
    pub sent: Vec<(u64, bool)>,
    pub writable: u32,
    pub qos_changes: Vec<(Time, bool)>,
    pub rtt: Option<Duration>,
}

impl Seen {
    pub fn bytes(&self) -> usize {
        self.messages.iter().map(Vec::len).sum::<usize>() + self.tail.len()
    }

    pub fn delivered(&self) -> usize {
        self.sent.iter().filter(|(_, delivered)| *delivered).count()
    }
}

/// What a connection is to send, and whether it is closed behind that.
#[derive(Debug, Default)]
struct Outbox {
    messages: VecDeque<Vec<u8>>,
    linger: Option<Duration>,
}

/// What a program knows.
#[derive(Debug, Default)]
pub struct Core {
    pub seen: BTreeMap<ConnectionId, Seen>,
    outboxes: BTreeMap<ConnectionId, Outbox>,
    pub accepted: Vec<ConnectionId>,
    pub events: Vec<Event>,
    /// Tickets that were given, and not come back.
    pub tickets: BTreeMap<u64, ConnectionId>,
    /// Connections are not forgotten when they have closed.
    pub keeps: bool,
    /// Reads nothing.
    pub is_deaf: bool,
    /// Takes whole messages with their storage.
    pub takes: bool,
    /// Reads no more than so many bytes at once.
    pub sips: Option<u32>,
    /// Whether groups are joined.
    pub joins: bool,
    /// Sends were refused because the window was full.
    pub refused: u32,
}

impl Core {
    /// The only connection that was seen.
    pub fn only(&self) -> &Seen {
        assert_eq!(self.seen.len(), 1, "{:?}", self.seen.keys());
        self.seen.values().next().expect("one")
    }

    pub fn id(&self) -> ConnectionId {
        assert_eq!(self.seen.len(), 1, "{:?}", self.seen.keys());
        *self.seen.keys().next().expect("one")
    }

    pub fn open(&mut self, now: Time, host: &mut Host<'_>, to: HostId, qos: Qos) -> ConnectionId {
        let name = Name { host: to.index(), port: PORT };
        let id = host.call(|engine| engine.open(now, to.address(), name, qos)).expect("room");
        self.seen.entry(id).or_default();
        id
    }

    /// Sends messages as soon as there is room.
    pub fn put(&mut self, now: Time, host: &mut Host<'_>, id: ConnectionId, messages: Vec<Vec<u8>>) {
        self.outboxes.entry(id).or_default().messages.extend(messages);
        self.pump(now, host, id);
    }

    /// Closes behind what has been put.
    pub fn close(&mut self, now: Time, host: &mut Host<'_>, id: ConnectionId, linger: Duration) {
        self.outboxes.entry(id).or_default().linger = Some(linger);
        self.pump(now, host, id);
    }

    fn pump(&mut self, now: Time, host: &mut Host<'_>, id: ConnectionId) {
        let Some(outbox) = self.outboxes.get_mut(&id) else { return };
        while let Some(message) = outbox.messages.pop_front() {
            let len = message.len() as u64;
            let buffer = host.add_buffer(message);
            match host.call(|engine| engine.send(now, id, Output::new(buffer, len))) {
                Ok(ticket) => {
                    assert_eq!(self.tickets.insert(ticket, id), None);
                }
                Err(Refused::Full | Refused::NotConnected) => {
                    self.refused += 1;
                    outbox.messages.push_front(host.take_buffer(buffer));
                    return;
                }
                Err(Refused::NoConnection) => {
                    host.take_buffer(buffer);
                    outbox.messages.clear();
                }
                Err(error) => panic!("{error}"),
            }
        }
        if let Some(linger) = outbox.linger.take() {
            host.call(|engine| engine.close(now, id, linger)).ok();
        }
    }

    pub fn read(&mut self, now: Time, id: ConnectionId, host: &mut Host<'_>) {
        let (takes, sips) = (self.takes, self.sips);
        let seen = self.seen.entry(id).or_default();
        while let Some(readable) = host.engine().readable(id) {
            let mut ends = readable.status.contains(Status::END);
            let mut len = readable.len();
            if readable.status.contains(Status::START) {
                seen.tail.clear();
                seen.is_torn = false;
            } else if readable.status.contains(Status::LOST) {
                seen.is_torn = true;
            }
            if takes && readable.is_whole {
                let taken = host.call(|engine| engine.take_message(now, id));
                assert_eq!(taken, Some(readable));
                if let Some(range) = readable.range {
                    let bytes = host.take_buffer(range.buffer);
                    seen.tail.extend_from_slice(&bytes[range.offset as usize..range.end() as usize]);
                }
            } else {
                if let Some(range) = readable.range {
                    len = sips.map_or(len, |sip| sip.min(len));
                    ends &= len == readable.len();
                    let low = range.offset as usize;
                    seen.tail.extend_from_slice(&host.buffer(range.buffer)[low..low + len as usize]);
                }
                host.call(|engine| engine.consume(now, id, len));
            }
            seen.parts.push((len, readable.status));
            if ends {
                let message = core::mem::take(&mut seen.tail);
                if core::mem::take(&mut seen.is_torn) {
                    seen.torn += 1;
                } else {
                    seen.messages.push(message);
                    seen.times.push(now);
                }
            }
        }
    }

    fn learn(&mut self, now: Time, event: &Event, host: &mut Host<'_>) {
        match event {
            Event::Accepted { connection, .. } => {
                self.accepted.push(*connection);
                self.seen.entry(*connection).or_default().accepted = true;
                host.call(|engine| engine.taken(*connection));
                self.pump(now, host, *connection);
            }
            Event::Connected { connection } => {
                self.seen.entry(*connection).or_default().connected_at = Some(now);
                self.pump(now, host, *connection);
            }
            Event::Join { connection, .. } => {
                let joins = self.joins;
                host.call(|engine| engine.answer_join(now, *connection, joins));
            }
            Event::Readable { connection } if !self.is_deaf => self.read(now, *connection, host),
            Event::Writable { connection } => {
                self.seen.entry(*connection).or_default().writable += 1;
                self.pump(now, host, *connection);
            }
            Event::Sent { connection, ticket, buffer, delivered } => {
                assert_eq!(self.tickets.remove(ticket), Some(*connection), "told twice");
                host.take_buffer(*buffer);
                self.seen.entry(*connection).or_default().sent.push((*ticket, *delivered));
            }
            Event::QosChanged { connection, by_peer } => {
                self.seen.entry(*connection).or_default().qos_changes.push((now, *by_peer));
            }
            Event::Released { buffer } => {
                host.take_buffer(*buffer);
            }
            Event::Closed { connection, result } => {
                let seen = self.seen.entry(*connection).or_default();
                assert_eq!(seen.closed, None, "told twice");
                assert!(!self.tickets.values().any(|of| of == connection), "messages come back before the end");
                (seen.closed, seen.closed_at) = (Some(result.clone()), Some(now));
                seen.rtt = host.engine().facts(now, *connection).and_then(|facts| facts.round_trip);
            }
            _ => {}
        }
    }
}

type Start = Box<dyn FnOnce(Time, &mut Core, &mut Host<'_>)>;
type Script = Box<dyn FnMut(Time, &Event, &mut Core, &mut Host<'_>)>;
type Wake = Box<dyn FnMut(Time, u64, &mut Core, &mut Host<'_>)>;

/// A program: reads all, notes all, and calls its script after each event.
pub struct Program {
    pub core: Core,
    start: Option<Start>,
    script: Script,
    /// What it does when it is woken, with the token.
    pub wake: Option<Wake>,
}

impl Program {
    pub fn new(
        start: impl FnOnce(Time, &mut Core, &mut Host<'_>) + 'static,
        script: impl FnMut(Time, &Event, &mut Core, &mut Host<'_>) + 'static,
    ) -> Self {
        Self { core: Core::default(), start: Some(Box::new(start)), script: Box::new(script), wake: None }
    }

    /// Only starts.
    pub fn starting(start: impl FnOnce(Time, &mut Core, &mut Host<'_>) + 'static) -> Self {
        Self::new(start, |_, _, _, _| {})
    }

    /// Accepts everybody, sends each the messages, and closes if it is to.
    pub fn listening(messages: Vec<Vec<u8>>, linger: Option<Duration>) -> Self {
        Self::new(
            |_, _, host| listen(host),
            move |now, event, core, host| {
                if let Event::Accepted { connection, .. } = event {
                    core.put(now, host, *connection, messages.clone());
                    if let Some(linger) = linger {
                        core.close(now, host, *connection, linger);
                    }
                }
            },
        )
    }

    /// Opens a connection to the server, sends the messages, and closes if it is to.
    pub fn opening(qos: Qos, messages: Vec<Vec<u8>>, linger: Option<Duration>) -> Self {
        Self::starting(move |now, core, host| {
            let id = core.open(now, host, SERVER, qos);
            core.put(now, host, id, messages);
            if let Some(linger) = linger {
                core.close(now, host, id, linger);
            }
        })
    }

    pub fn waking(mut self, wake: impl FnMut(Time, u64, &mut Core, &mut Host<'_>) + 'static) -> Self {
        self.wake = Some(Box::new(wake));
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Core)) -> Self {
        change(&mut self.core);
        self
    }
}

pub fn listen(host: &mut Host<'_>) {
    host.call(|engine| engine.listen(64, true)).expect("nobody listens");
}

impl Application<A1> for Program {
    fn on_start(&mut self, now: Time, host: &mut Host<'_>) {
        if let Some(start) = self.start.take() {
            start(now, &mut self.core, host);
        }
    }

    fn on_wake(&mut self, now: Time, token: u64, host: &mut Host<'_>) {
        if let Some(wake) = &mut self.wake {
            wake(now, token, &mut self.core, host);
        }
    }

    fn on_event(&mut self, now: Time, event: Event, host: &mut Host<'_>) {
        self.core.learn(now, &event, host);
        (self.script)(now, &event, &mut self.core, host);
        if !self.core.keeps
            && let Event::Closed { connection, .. } = &event
        {
            host.call(|engine| engine.release(now, *connection));
        }
        self.core.events.push(event);
    }
}

/// Reliable, with blocks of 1,000 bytes.
pub fn reliable() -> Qos {
    Qos {
        has_retransmission: true,
        priority: 128,
        block_size: 1000,
        largest_sent: 1 << 20,
        largest_received: 1 << 20,
        outstanding: 16,
        ..Qos::default()
    }
}

pub fn raw() -> Qos {
    Qos { has_retransmission: false, ..reliable() }
}

pub fn checked(qos: Qos) -> Qos {
    Qos { has_checksum: true, ..qos }
}

/// A configuration whose maximum is `max`, in a closed network.
pub fn config(max: Qos, seed: u64) -> Config {
    Config {
        max_qos: max,
        local: Name { host: 0, port: PORT },
        congestion: ControllerKind::Fixed { window: 64 << 20 },
        seed,
        ..Config::default()
    }
}

/// A server and a client, and the same network both ways.
pub fn world_of(configs: [Config; 2], network: &str, server: Program, client: Program) -> World {
    let network: NetworkConfig = network.parse().expect("a network");
    let mut world = World::new(configs[0].seed);
    let [a, b] = configs.map(|config| A1::new(config, Time::ZERO));
    let server = world.add_host(a, server);
    let client = world.add_host(b, client);
    assert_eq!((server, client), (SERVER, CLIENT));
    world.link(server, client, &network, &network);
    world
}

pub fn world(seed: u64, max: Qos, network: &str, server: Program, client: Program) -> World {
    let configs = [config(max, 2 * seed), config(max, 2 * seed + 1)];
    world_of(configs, network, server, client)
}

pub fn quiet(world: &mut World) {
    assert_eq!(world.run_until_quiet(Time::ZERO + Duration::from_secs(3600)), Outcome::Quiet);
}

pub fn seen(world: &World, host: HostId) -> &Seen {
    world.application(host).core.only()
}

/// Nothing is left of any connection, and every message has come back.
pub fn clean(world: &World) {
    for host in world.hosts().collect::<Vec<_>>() {
        let core = &world.application(host).core;
        assert!(core.tickets.is_empty(), "{host}: {:?}", core.tickets);
        assert_eq!(world.engine(host).connections(), 0, "{host}");
        assert_eq!(world.engine(host).bytes(), 0, "{host}");
        assert_eq!(world.counters(host).bad_ranges, 0, "{host}");
    }
}

pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8).wrapping_add(seed)).collect()
}

pub fn patterns(sizes: &[usize]) -> Vec<Vec<u8>> {
    sizes.iter().enumerate().map(|(index, size)| pattern(*size, index as u8)).collect()
}

pub fn millis(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// What a datagram says, for a trace.
pub fn describe(datagram: &[u8]) -> String {
    let Ok(head) = Head::parse(datagram, datagram.len(), false) else { return "malformed".to_owned() };
    let Header { connection, sequence, edge, stamp, is_retransmitted, .. } = head.header;
    let again = if is_retransmitted { " again" } else { "" };
    let body = match Body::parse(&head, &datagram[HEADER_BYTES..]) {
        Ok(Body::Data(block)) => format!(": message {}, {} of {}", block.message(), block.index(), block.count()),
        Ok(Body::Ack(ranges)) if ranges.iter().next().is_none() => String::new(),
        Ok(Body::Ack(ranges) | Body::Nack(ranges)) => format!(": {:?}", ranges.iter().collect::<Vec<_>>()),
        Ok(Body::Reject(reject)) => format!(": {reject:?}"),
        Ok(Body::Close(code) | Body::CloseReply(code)) => format!(": {code:?}"),
        Ok(_) => String::new(),
        Err(_) => ": malformed".to_owned(),
    };
    format!("{:?}{again} {connection:x} sequence {sequence} edge {edge} stamp {stamp}{body}", head.kind)
}

/// A datagram, as the network sees it.
#[derive(Clone, Debug)]
pub struct Sight {
    pub at: Time,
    pub from: HostId,
    pub to: HostId,
    pub destination: Address,
    pub bytes: Vec<u8>,
}

impl Sight {
    pub fn head(&self) -> Head {
        Head::parse(&self.bytes[..HEADER_BYTES], self.bytes.len(), false).expect("a datagram of A1")
    }

    pub fn kind(&self) -> Kind {
        self.head().kind
    }

    pub fn body(&self) -> Body<'_> {
        Body::parse(&self.head(), &self.bytes[HEADER_BYTES..]).expect("a datagram of A1")
    }
}

/// A node that looks at every datagram, and loses those that it is told to.
struct Tap(Box<dyn FnMut(&Sight) -> bool>);

impl core::fmt::Debug for Tap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Tap")
    }
}

impl Node for Tap {
    fn enter(&mut self, packet: Packet, _: &mut Random, exits: &mut Exits) {
        let Position { from, to, .. } = packet.position;
        let sight = Sight { at: exits.now(), from, to, destination: packet.destination, bytes: packet.data().to_vec() };
        if (self.0)(&sight) {
            exits.note(&packet, Fate::LostRandom);
        } else {
            exits.forward(packet);
        }
    }
}

/// Puts somebody who looks, and loses what `loses` says, on the way from one host to another, before a delay of 5 ms.
pub fn tap(world: &mut World, from: HostId, to: HostId, loses: impl FnMut(&Sight) -> bool + 'static) {
    tap_before(world, from, to, "delay=5ms", loses);
}

pub fn tap_before(
    world: &mut World,
    from: HostId,
    to: HostId,
    network: &str,
    loses: impl FnMut(&Sight) -> bool + 'static,
) {
    let path = Path::from_config(&network.parse().expect("a network"));
    world.set_route(from, to, Path::new().node(Tap(Box::new(loses))).then(path));
}

pub type Sights = Rc<RefCell<Vec<Sight>>>;

/// Writes down all datagrams between two hosts.
pub fn watch(world: &mut World, network: &str) -> Sights {
    let sights = Sights::default();
    for (from, to) in [(SERVER, CLIENT), (CLIENT, SERVER)] {
        let noted = sights.clone();
        tap_before(world, from, to, network, move |sight| {
            noted.borrow_mut().push(sight.clone());
            false
        });
    }
    sights
}
