//! What the fuzz target does with its bytes. Shared by `fuzz/` and by the test that replays its corpus.
//!
//! Any bytes are a script: calls of an application, the passing of time, and datagrams of peers that know the protocol, and
//! the numbers in use, and lie. The engine opens, accepts and casts: both roles are in every script. What always holds is
//! checked on the way: every connection ends once, every message is told of once, memory goes back to nothing, an address
//! that is not proved is sent no more than came from it.
#![allow(dead_code, unreachable_pub, reason = "every user uses its own part")]

#[path = "../half/mod.rs"]
mod half;

use core::net::{Ipv4Addr, SocketAddrV4};
use core::num::NonZeroU32;
use core::time::Duration;
use half::Half;
use half::liar::{Liar, Lie, seal};
use pinnace_a1::{Address as Name, CastId, Config, ConnectionId, Event, Group, Limits, Output, Qos, SlowSink};
use pinnace_core::{Address, PathEvent, Storage};
use pinnace_testing::script::Script;
use pinnace_wire::a1::{self, Body, Change, Header, Kind, Reject};
use std::collections::{BTreeMap, BTreeSet};

/// Steps of a script; more only take time.
const STEPS: usize = 400;
/// Somebody who never repeats a cookie.
const SPOOFED: Address = Address::Node(9);

/// Mostly near `base`, seldom anything.
fn near(script: &mut Script<'_>, base: u32) -> u32 {
    match script.byte() {
        0xff => script.long(),
        0xfe => base.wrapping_add(script.word().into()),
        0xfd => base.wrapping_sub(script.word().into()),
        near if near >= 0x80 => base.wrapping_add(u32::from(near & 31)).wrapping_sub(8),
        _ => base,
    }
}

/// A record that is mostly like `base`.
fn record(script: &mut Script<'_>, base: Qos) -> Qos {
    let mut qos = base;
    let said = script.byte();
    if said & 1 != 0 {
        (qos.send_average, qos.send_burst) = (u64::from(script.word()) * 100, script.word().into());
    }
    if said & 2 != 0 {
        (qos.receive_average, qos.receive_burst) = (u64::from(script.word()) * 100, script.word().into());
    }
    if said & 4 != 0 {
        qos.outstanding = script.pick(&[0, 1, 2, 3, 8, u32::MAX]);
    }
    if said & 8 != 0 {
        qos.largest_sent = script.pick(&[0, 1, 99, 1000, 3000, u32::MAX]);
    }
    if said & 16 != 0 {
        qos.largest_received = script.pick(&[0, 1, 99, 1000, 3000, u32::MAX]);
    }
    if said & 32 != 0 {
        qos.priority = script.byte();
    }
    if said & 0xc0 == 0xc0 {
        qos.block_size = script.pick(&[0, 1, 50, 100, 101, 65_475, u32::MAX]);
        (qos.has_checksum, qos.has_retransmission) = (said & 32 != 0, said & 1 != 0);
    }
    qos
}

fn config(script: &mut Script<'_>) -> Config {
    let said = script.byte();
    let limits =
        if said & 1 == 0 { Limits::default() } else { Limits { connections: 6, bytes: 20_000, casts: 2, replies: 3 } };
    let max_qos = Qos {
        has_checksum: said & 2 != 0,
        has_retransmission: said & 4 == 0,
        priority: 0,
        block_size: 100,
        largest_sent: 3000,
        largest_received: 3000,
        outstanding: 8,
        deadline: if said & 8 != 0 { 20_000 } else { 0 },
        ..Qos::default()
    };
    Config {
        max_qos,
        local: Name { host: 0, port: 7 },
        validates: said & 16 == 0,
        congestion: script.controller(said >> 5, |_| 500),
        link_average: if said & 128 != 0 { 50_000 } else { 0 },
        limits,
        seed: script.byte().into(),
        ..Config::default()
    }
}

fn group() -> Group {
    let socket = SocketAddrV4::new(Ipv4Addr::new(239, 1, 2, 3), 4000);
    Group::new(NonZeroU32::new(99).expect("not 0"), socket).expect("a group")
}

/// What the application knows.
#[derive(Default)]
struct Known {
    open: Vec<ConnectionId>,
    closed: BTreeSet<ConnectionId>,
    joining: Vec<ConnectionId>,
    joined: u32,
    tickets: BTreeMap<u64, (Option<ConnectionId>, bool)>,
    casts: Vec<CastId>,
}

impl Known {
    fn learn(&mut self, half: &mut Half) {
        for event in half.events.split_off(0) {
            match event {
                Event::Accepted { connection, .. } => {
                    assert!(!self.closed.contains(&connection));
                    self.open.push(connection);
                    half.call(|engine, _| engine.taken(connection));
                }
                Event::Join { connection, .. } => self.joining.push(connection),
                Event::Leave { .. } => {
                    self.joined = self.joined.checked_sub(1).expect("what was never joined is left");
                }
                Event::Closed { connection, .. } => {
                    assert!(self.open.contains(&connection), "{connection:?} closed, and nobody knew of it");
                    assert!(self.closed.insert(connection), "{connection:?} closed twice");
                    let untold = self.tickets.values().any(|(of, told)| *of == Some(connection) && !told);
                    assert!(!untold, "{connection:?} closed before its messages were told of");
                }
                Event::Sent { connection, ticket, .. } => self.told(ticket, Some(connection)),
                Event::Cast { ticket, delivered, sinks, .. } => {
                    assert!(delivered <= sinks);
                    self.told(ticket, None);
                }
                _ => {}
            }
        }
        if !half.events.is_empty() {
            self.learn(half);
        }
    }

    fn told(&mut self, ticket: u64, connection: Option<ConnectionId>) {
        let (of, told) = self.tickets.get_mut(&ticket).expect("it was sent");
        assert_eq!(*of, connection);
        assert!(!core::mem::replace(told, true), "told twice");
    }

    fn pick(&self, script: &mut Script<'_>) -> Option<ConnectionId> {
        let index = usize::from(script.byte());
        (!self.open.is_empty()).then(|| self.open[index % self.open.len()])
    }
}

/// What peers have learned from the wire.
#[derive(Default)]
struct Wires {
    wires: Vec<(Liar, u32)>,
    cookies: BTreeMap<(Address, u32), Vec<u8>>,
}

impl Wires {
    fn learn(&mut self, half: &mut Half, qos: Qos) {
        // Whoever is not there does not hear anything.
        for got in half.take().into_iter().filter(|got| got.to != SPOOFED) {
            let header = *got.header();
            let mut liar = Liar::new(got.to, 0x77, qos);
            liar.stamp = header.stamp;
            match got.body() {
                Some(Body::Open(_)) => (liar.theirs, liar.their_start) = (header.connection.get(), header.sequence),
                Some(Body::Accept(accept)) => {
                    liar.id = header.connection;
                    (liar.theirs, liar.their_start) = (accept.identifier.get(), header.sequence);
                }
                Some(Body::Reject(Reject::Cookie(cookie))) => {
                    self.cookies.insert((got.to, header.connection.get()), cookie.bytes().to_vec());
                    continue;
                }
                _ => {
                    let known =
                        self.wires.iter_mut().find(|(liar, _)| liar.address == got.to && liar.id == header.connection);
                    if let Some((liar, sent)) = known {
                        liar.stamp = header.stamp;
                        if got.kind() == Kind::Data {
                            *sent = (*sent).max(header.sequence.wrapping_sub(liar.their_start).wrapping_add(1));
                        }
                    }
                    continue;
                }
            }
            self.wires.retain(|(old, _)| old.theirs != liar.theirs);
            self.wires.push((liar, 0));
            if self.wires.len() > 16 {
                self.wires.remove(0);
            }
        }
    }

    /// A datagram of a peer that knows what is going on.
    fn datagram(&self, script: &mut Script<'_>, qos: Qos) -> (Address, Vec<u8>) {
        let said = script.byte();
        let index = usize::from(script.byte());
        let picked = (!self.wires.is_empty() && said & 7 != 0).then(|| self.wires[index % self.wires.len()].clone());
        let Some((liar, sent)) = picked else { return self.opening(script, said, qos) };
        let kinds = [
            Kind::Data,
            Kind::Data,
            Kind::Data,
            Kind::Ack,
            Kind::Nack,
            Kind::Sync,
            Kind::SyncReply,
            Kind::Accept,
            Kind::Reject,
            Kind::Close,
            Kind::CloseReply,
            Kind::Qos,
            Kind::QosReply,
        ];
        let kind = script.pick(&kinds);
        let number = u32::from(script.byte() % 48);
        let header = Header {
            connection: NonZeroU32::new(liar.theirs).unwrap_or(NonZeroU32::MIN),
            sequence: near(script, liar.start.wrapping_add(number)),
            edge: near(script, liar.their_start.wrapping_add(number + 20)),
            stamp: near(script, liar.stamp),
            is_checked: qos.has_checksum,
            is_retransmitted: said & 64 != 0,
        };
        let mut bytes = Vec::new();
        match kind {
            Kind::Data => {
                let count = script.pick(&[1, 1, 2, 3, 4, 30, 65_535]);
                let index = (near(script, number % u32::from(count)) as u16).min(count - 1);
                let len = if index + 1 == count { script.byte() % 101 } else { 100 };
                let message = near(script, number / u32::from(count));
                let mut block = liar.block(0, message, (index, count), &vec![said; len.into()]);
                (block.sequence, block.edge, block.stamp) = (header.sequence, header.edge, header.stamp);
                block.flags |= u8::from(header.is_retransmitted);
                bytes = block.bytes();
            }
            Kind::Ack | Kind::Nack => {
                let next = near(script, sent);
                let low = near(script, next.wrapping_add(1));
                let mut ranges = vec![(low, near(script, sent))];
                if said & 128 != 0 {
                    ranges.push((near(script, sent), near(script, sent)));
                }
                if kind == Kind::Ack && said & 32 != 0 {
                    ranges.clear();
                }
                bytes = Lie { edge: header.edge, ..liar.answer(kind, next, &ranges) }.bytes();
            }
            Kind::Qos | Kind::QosReply => {
                let epoch = u32::from(script.byte() % 6);
                let change = Change { epoch, qos: record(script, qos) };
                if kind == Kind::Qos {
                    a1::qos(&header, &change, &mut bytes);
                } else {
                    a1::qos_reply(&header, &change, &mut bytes);
                }
            }
            Kind::Accept => {
                let name = Name { host: 1, port: 9 };
                let (identifier, qos) = (liar.id, record(script, qos));
                let has_joined = said & 32 != 0;
                let accept = a1::Accept { destination: name, source: name, identifier, qos, has_joined };
                a1::accept(&header, &accept, &mut bytes);
            }
            Kind::Close | Kind::CloseReply => {
                let body = vec![0, script.byte() % 3];
                bytes = Lie { sequence: header.sequence, body, ..liar.lie(kind) }.bytes();
            }
            _ => {
                bytes =
                    Lie { sequence: header.sequence, edge: header.edge, stamp: header.stamp, ..liar.lie(kind) }.bytes();
                if kind == Kind::Reject {
                    bytes.clear();
                    let cookie = [said; 24];
                    let reject = a1::Cookie::new(&cookie).map(Reject::Cookie);
                    a1::reject(&header, &reject.expect("24 bytes"), 1000, &mut bytes);
                }
            }
        }
        if said == 0xff {
            let at = usize::from(script.word()) % bytes.len();
            bytes[at] = script.byte();
            seal(&mut bytes);
        }
        let stranger = script.byte() == 0xff;
        (if stranger { Address::Node(7) } else { liar.address }, bytes)
    }

    fn opening(&self, script: &mut Script<'_>, said: u8, qos: Qos) -> (Address, Vec<u8>) {
        let address = if said & 8 != 0 { SPOOFED } else { Address::Node(u32::from(script.byte() % 3)) };
        let mut liar = Liar::new(address, 1 + u32::from(script.byte() % 5), record(script, qos));
        liar.window = near(script, 50);
        let cookie = self.cookies.get(&(address, liar.id.get())).filter(|_| address != SPOOFED);
        let group = (said & 16 != 0).then(group);
        (address, liar.open(7, cookie.map_or(&[][..], |cookie| cookie), group))
    }
}

/// An engine between an application and peers, all of which follow the script.
pub fn engine(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let config = config(&mut script);
    let (qos, validates) = (config.max_qos, config.validates);
    let mut half = Half::new(config);
    half.call(|engine, _| engine.listen(4, true)).expect("nobody listens");
    let (mut known, mut wires) = (Known::default(), Wires::default());
    for _ in 0..STEPS {
        if script.is_over() {
            break;
        }
        let step = script.byte();
        match step % 16 {
            0..=6 => {
                let (source, datagram) = wires.datagram(&mut script, qos);
                let count = usize::from(step >> 6) + 1;
                half.read(source, pinnace_core::Ecn::NotCapable, &vec![datagram; count]);
            }
            7 => half.advance(Duration::from_micros(u64::from(script.byte()) * 50)),
            8 => half.advance(Duration::from_millis(u64::from(script.byte()) * 10)),
            9 => open(&mut script, &mut half, &mut known, qos),
            10 | 11 => send(&mut script, &mut half, &mut known, step),
            12 => {
                let Some(id) = known.pick(&mut script) else { continue };
                let linger = Duration::from_millis(script.word().into());
                match step >> 6 {
                    0 => half.call(|engine, now| engine.abort(now, id)).ok(),
                    _ => half.call(|engine, now| engine.close(now, id, linger)).ok(),
                };
            }
            13 => read(&mut script, &mut half, &known),
            14 => rest(&mut script, &mut half, &mut known, qos),
            _ => {
                let now = half.now;
                match script.byte() {
                    0..=99 => half.memory.is_full = !half.memory.is_full,
                    held @ 100..=149 => {
                        half.call(|engine, _| pinnace_core::Engine::handle_hold(engine, held & 1 != 0));
                    }
                    fits => {
                        let fits = (fits > 200).then_some(u32::from(fits) * 4);
                        let event = PathEvent::TooLarge { to: Address::Node(fits.unwrap_or(0) / 4 % 3), fits };
                        half.call(|engine, _| pinnace_core::Engine::handle_path_event(engine, now, event));
                    }
                }
            }
        }
        known.learn(&mut half);
        wires.learn(&mut half, qos);
        let spoofed = half.traffic.get(&SPOOFED).copied().unwrap_or_default();
        let most = if validates { spoofed.received } else { 3 * spoofed.received };
        assert!(spoofed.sent <= most, "{spoofed:?}");
    }
    end(&mut half, &mut known);
}

fn open(script: &mut Script<'_>, half: &mut Half, known: &mut Known, qos: Qos) {
    let said = script.byte();
    let (to, qos) = (Address::Node(u32::from(said % 3)), record(script, qos));
    let name = Name { host: 1, port: 9 };
    let opened = match said >> 4 {
        0..=7 => half.call(|engine, now| engine.open(now, to, name, qos)).ok(),
        8..=11 => {
            let index = usize::from(script.byte());
            let cast = (!known.casts.is_empty()).then(|| known.casts[index % known.casts.len()]);
            cast.and_then(|cast| half.call(|engine, now| engine.add_sink(now, cast, to, name, qos)).ok())
        }
        _ => {
            let patience = Duration::from_millis(script.byte().into());
            let slow = script.pick(&[SlowSink::Block, SlowSink::Drop { patience }, SlowSink::Degrade]);
            let group = (said & 8 != 0).then(|| (group(), qos));
            if let Ok(cast) = half.call(|engine, _| engine.cast(slow, group)) {
                known.casts.push(cast);
            }
            None
        }
    };
    if let Some(id) = opened {
        assert!(!known.closed.contains(&id) && !known.open.contains(&id), "a name that was used");
        known.open.push(id);
    }
}

fn send(script: &mut Script<'_>, half: &mut Half, known: &mut Known, step: u8) {
    let said = script.byte();
    let len = u64::from(script.word() >> (said & 15)).min(4000);
    let buffer = half.memory.add(vec![step; len as usize]);
    let now = half.now;
    let deadline = (said & 64 != 0).then(|| now + Duration::from_millis(said.into()));
    let output = Output { deadline, ..Output::new(buffer, len) };
    let sent = if said & 128 != 0 && !known.casts.is_empty() {
        let cast = known.casts[usize::from(script.byte()) % known.casts.len()];
        half.engine.call(|engine| engine.cast_send(now, cast, output)).map(|ticket| (ticket, None))
    } else {
        let Some(id) = known.pick(script) else { return drop(half.memory.end(buffer)) };
        half.engine.call(|engine| engine.send(now, id, output)).map(|ticket| (ticket, Some(id)))
    };
    match sent {
        Ok((ticket, of)) => assert!(known.tickets.insert(ticket, (of, false)).is_none()),
        Err(_) => drop(half.memory.end(buffer)),
    }
    half.drain();
}

fn read(script: &mut Script<'_>, half: &mut Half, known: &Known) {
    let Some(id) = known.pick(script) else { return };
    let Some(readable) = half.a1().readable(id) else { return };
    if let Some(range) = readable.range {
        half.memory.payload(range);
    }
    let now = half.now;
    match script.byte() {
        0..=99 => half.call(|engine, now| engine.consume(now, id, readable.len())),
        100..=199 => {
            let taken = half.engine.call(|engine| engine.take_message(now, id));
            assert_eq!(taken.is_some(), readable.is_whole);
            if let Some(range) = taken.and_then(|taken| taken.range) {
                half.memory.release(range.buffer);
            }
            half.drain();
        }
        part => {
            let bytes = u64::from(readable.len()) * u64::from(part - 199) / 60;
            half.call(|engine, now| engine.consume(now, id, (bytes as u32).min(readable.len())));
        }
    }
}

fn rest(script: &mut Script<'_>, half: &mut Half, known: &mut Known, qos: Qos) {
    match script.byte() % 6 {
        0 => {
            let Some(id) = known.pick(script) else { return };
            half.call(|engine, now| engine.release(now, id));
        }
        1 => {
            let Some(id) = known.pick(script) else { return };
            let qos = record(script, qos);
            half.call(|engine, now| engine.set_qos(now, id, qos)).ok();
        }
        2 => {
            let Some(id) = known.joining.pop() else { return };
            let joins = script.byte() & 1 != 0;
            let before = half.a1().facts(half.now, id).is_some_and(|facts| facts.has_joined);
            half.call(|engine, now| engine.answer_join(now, id, joins));
            let after = half.a1().facts(half.now, id).is_some_and(|facts| facts.has_joined);
            known.joined += u32::from(after && !before);
        }
        3 if !known.casts.is_empty() => {
            let cast = known.casts.swap_remove(usize::from(script.byte()) % known.casts.len());
            half.call(|engine, now| engine.end_cast(now, cast, Duration::from_secs(1)));
        }
        4 => {
            let Some(id) = known.pick(script) else { return };
            let linger = Duration::from_millis(script.word().into());
            half.call(|engine, now| engine.abandon(now, id, linger));
        }
        _ => {
            let Some(id) = known.pick(script) else { return };
            half.call(|engine, now| engine.status(now, id));
        }
    }
}

/// Everybody lets go: in the end nothing is left.
fn end(half: &mut Half, known: &mut Known) {
    half.memory.is_full = false;
    half.call(|engine, _| pinnace_core::Engine::handle_hold(engine, false));
    for cast in core::mem::take(&mut known.casts) {
        half.call(|engine, now| engine.end_cast(now, cast, Duration::ZERO));
    }
    for id in known.open.clone() {
        half.call(|engine, now| engine.release(now, id));
        known.learn(half);
    }
    // A CLOSE is repeated eight times, each twice as late, and a peer may have made the round trip look long.
    for _ in 0..400 {
        half.advance(Duration::from_secs(100));
        known.learn(half);
        half.sent.clear();
        if half.a1().connections() == 0 {
            break;
        }
    }
    assert_eq!(half.a1().connections(), 0, "{:?}", half.a1().counters());
    assert_eq!((half.a1().bytes(), half.memory.lent), (0, 0));
    assert!(known.tickets.values().all(|(_, told)| *told), "a message was never told of");
    for id in &known.open {
        assert!(known.closed.contains(id), "{id:?} never closed");
    }
    assert_eq!(known.joined, 0, "a group is never left");
}
