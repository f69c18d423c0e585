//! What the fuzz target does with its bytes. Shared by `fuzz/` and by the test that replays its corpus.
//!
//! Any bytes are a script: calls of an application, the passing of time, and packets of peers that know the protocol, and
//! the numbers in use, and lie. What always holds is checked on the way: every context ends once, every output is told
//! of once, memory goes back to nothing, an address that is not proved is sent no more data than came from it.
#![allow(dead_code, unreachable_pub, reason = "every user uses its own part")]

#[path = "../half/mod.rs"]
mod half;

use core::time::Duration;
use half::{Half, Packet, counted, fill};
use pinnace_core::{Address, PathEvent, Storage};
use pinnace_testing::script::Script;
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Close, Codec, Config, ContextId, ControlBlock, Event, Limits, Options, Output, Service, Services};
use std::collections::{BTreeMap, BTreeSet};

/// Steps of a script; more only take time.
const STEPS: usize = 400;
/// Who never sees what is sent to it.
const STRANGER: Address = Address::Node(9);

/// Mostly near `base`, seldom anything.
fn near(script: &mut Script<'_>, base: u64) -> u64 {
    match script.byte() {
        0xff => u64::from(script.long()) << 32 | u64::from(script.long()),
        0xfe => base.wrapping_add(u64::from(script.word())),
        0xfd => base.wrapping_sub(u64::from(script.word())),
        near if near >= 0xc0 => base.wrapping_add(u64::from(near & 31) * 100),
        near if near >= 0x80 => base.wrapping_add(u64::from(near & 31)).wrapping_sub(8),
        _ => base,
    }
}

fn block(script: &mut Script<'_>, codec: Codec) -> ControlBlock {
    let mut block = ControlBlock::new(script.pick(&Service::OF_THE_PAPER));
    let said = script.byte();
    if said & 1 != 0 {
        block.rwindow = script.pick(&[1, 100, 3000, 65_536]);
        block.rbufsize = script.pick(&[1, 100, 3000, 65_536]);
    }
    if said & 2 != 0 {
        block.maxdata = script.pick(&[1, 10, 100, 1000]);
        block.wbufsize = script.pick(&[1, 1000, 100_000]);
    }
    block.go_back_n = said & 4 != 0;
    block.holds_back = block.go_back_n;
    if said & 8 != 0 {
        block.mode_flags = Options::from_bits(script.word() & Options::ALL.bits()).unwrap_or(Options::NONE);
        block.sort_value = script.word().into();
    }
    if said & 16 != 0 {
        block.retry_count = script.pick(&[0, 1, 3]);
        block.sreq_every = script.pick(&[0, 1, 3]);
    }
    if said & 32 != 0 {
        block.output_rate = u32::from(script.word()) + 10_000;
        block.output_burst = script.word().into();
    }
    if said & 64 != 0 {
        block.ctimer = Duration::from_millis(u64::from(script.word()) + 1);
        block.ctimeout = Duration::from_millis(u64::from(script.word()) + 1);
        block.wtimer = Duration::from_millis(u64::from(script.byte()) + 1);
    }
    if said & 128 != 0 {
        block.listen_flags = Options::NONE;
    }
    if codec == Codec::Xtp36 {
        block.mode_flags = block.mode_flags.without(Options::MULTI);
    }
    block.address_segment.destination_port = 7;
    block
}

fn config(script: &mut Script<'_>) -> Config {
    let said = script.byte();
    let limits = if said & 1 == 0 {
        Limits::default()
    } else {
        Limits { contexts: 6, half_open: 3, bytes: 200_000, spans: 3, boundaries: 4, ..Limits::default() }
    };
    Config {
        codec: if said & 2 == 0 { Codec::Xtp40 } else { Codec::Xtp36 },
        validates: said & 4 == 0,
        congestion: script.controller(said >> 3, |_| 3000),
        datagram_bytes: script.pick(&[1472, 1472, 576, 200]),
        limits,
        seed: script.byte().into(),
        ..Config::default()
    }
}

/// What the application knows.
#[derive(Default)]
struct Known {
    open: Vec<ContextId>,
    closed: BTreeSet<ContextId>,
    tickets: BTreeMap<(ContextId, u64), bool>,
}

impl Known {
    /// Takes in what was told; a name may be given again when its context is forgotten.
    fn learn(&mut self, half: &mut Half) {
        for event in half.events.split_off(0) {
            match event {
                Event::Accepted { context, .. } => {
                    self.closed.remove(&context);
                    self.open.push(context);
                }
                Event::Closed { context, .. } => {
                    assert!(self.open.contains(&context), "{context:?} closed, and nobody knew of it");
                    assert!(self.closed.insert(context), "{context:?} closed twice");
                    let untold = self.tickets.iter().any(|((of, _), told)| *of == context && !told);
                    assert!(!untold, "{context:?} closed before its outputs were told of");
                }
                Event::Sent { context, ticket, .. } => {
                    let told = self.tickets.get_mut(&(context, ticket)).expect("it was sent");
                    assert!(!core::mem::replace(told, true), "told twice");
                }
                Event::Datagram { buffer, len, context, .. } => {
                    if let Some(buffer) = buffer {
                        half.memory.release(buffer);
                    }
                    half.call(|engine, _| engine.release_datagrams(1, len));
                    if let Some(context) = context {
                        half.call(|engine, now| engine.delivered(now, context));
                    }
                }
                _ => {}
            }
        }
        if !half.events.is_empty() {
            self.learn(half);
        }
    }

    fn pick(&self, script: &mut Script<'_>) -> Option<ContextId> {
        let index = usize::from(script.byte());
        (!self.open.is_empty()).then(|| self.open[index % self.open.len()])
    }
}

fn release(half: &mut Half, known: &mut Known, context: ContextId) {
    half.call(|engine, now| engine.release(now, context));
    known.learn(half);
    known.open.retain(|open| *open != context);
    if !known.closed.contains(&context) {
        // It closes in the background.
        known.open.push(context);
    }
}

/// An engine between an application and peers, all of which follow the script.
pub fn engine(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let config = config(&mut script);
    let codec = config.codec;
    let validates = config.validates;
    let mut half = Half::new(config);
    let listens = block(&mut script, codec);
    half.call(|engine, _| engine.listen(listens, Services::ALL)).ok();
    let mut known = Known::default();
    let mut released = BTreeSet::new();
    // From the stranger.
    let mut received = 0;
    for _ in 0..STEPS {
        if script.is_over() {
            break;
        }
        let step = script.byte();
        match step % 16 {
            0..=6 => {
                let (source, packet) = packet(&mut script, &half, &known, codec);
                if source == STRANGER {
                    received += counted(&packet);
                }
                half.feed(source, &packet);
            }
            7 => half.advance(Duration::from_micros(u64::from(script.byte()) * 50)),
            8 => half.advance(Duration::from_millis(u64::from(script.byte()) * 10)),
            9 => {
                let block = block(&mut script, codec);
                let to = Address::Node(u32::from(script.byte() % 3));
                if let Ok(context) = half.call(|engine, now| engine.open(now, to, block)) {
                    known.closed.remove(&context);
                    released.remove(&context);
                    known.tickets.retain(|(of, _), _| *of != context);
                    known.open.retain(|open| *open != context);
                    known.open.push(context);
                }
            }
            10 | 11 => {
                let Some(context) = known.pick(&mut script) else { continue };
                let said = script.byte();
                let len = u64::from(script.word() >> (said & 15));
                let buffer = half.memory.add(vec![step; len as usize]);
                let output = Output {
                    eom: said & 16 != 0,
                    btag: (said & 32 != 0).then_some([9; 8]),
                    asks: said & 64 != 0,
                    asks_when_delivered: said & 128 != 0,
                    is_last: said == 0xff,
                    ..Output::bytes(buffer, len)
                };
                let now = half.now;
                match half.engine.call(|engine| engine.send(now, context, output)) {
                    Ok(ticket) => {
                        known.tickets.insert((context, ticket), false);
                    }
                    Err(_) => drop(half.memory.end(buffer)),
                }
                half.drain();
            }
            12 => {
                let Some(context) = known.pick(&mut script) else { continue };
                let how = script.pick(&[Close::Full, Close::Abbreviated, Close::Forced]);
                half.call(|engine, now| engine.close(now, context, how)).ok();
            }
            13 => {
                let Some(context) = known.pick(&mut script) else { continue };
                let Some(readable) = half.xtp().readable(context) else { continue };
                for part in readable.parts {
                    half.memory.payload(part);
                }
                let bytes = match script.byte() {
                    0..=99 => readable.len,
                    100..=199 => readable.message.unwrap_or(0),
                    part => readable.len * u64::from(part - 199) / 60,
                };
                half.call(|engine, now| engine.consume(now, context, bytes.min(readable.len)));
            }
            14 => {
                let Some(context) = known.pick(&mut script) else { continue };
                match script.byte() % 8 {
                    0 => {
                        half.call(|engine, now| engine.stop_reading(now, context)).ok();
                    }
                    1 => {
                        released.insert(context);
                        release(&mut half, &mut known, context);
                    }
                    2 => {
                        half.call(|engine, now| engine.ask(now, context, step & 16 != 0)).ok();
                    }
                    3 => {
                        half.call(|engine, now| engine.connect(now, context)).ok();
                    }
                    4 => {
                        let block = block(&mut script, codec);
                        half.call(|engine, now| engine.set_block(now, context, block)).ok();
                    }
                    _ => {
                        let len = u64::from(script.word() >> 4) + 1;
                        let buffer = half.memory.add(vec![1; len as usize]);
                        if half.call(|engine, now| engine.post(now, context, buffer, 0, len)).is_err() {
                            half.memory.end(buffer);
                        }
                    }
                }
            }
            _ => {
                let now = half.now;
                match script.byte() {
                    0..=99 => half.memory.is_full = !half.memory.is_full,
                    fits => {
                        let fits = (fits > 200).then_some(u32::from(fits) * 4);
                        let event = PathEvent::TooLarge { to: Address::Node(fits.unwrap_or(0) / 4 % 3), fits };
                        half.call(|engine, _| pinnace_core::Engine::handle_path_event(engine, now, event));
                    }
                }
            }
        }
        known.learn(&mut half);
        if validates {
            let sent = half.counted_sent(STRANGER);
            assert!(sent <= 3 * received, "{STRANGER} is sent {sent} bytes for {received}");
        }
        half.sent.clear();
    }
    end(&mut half, &mut known);
}

/// Everybody lets go: in the end nothing is left.
fn end(half: &mut Half, known: &mut Known) {
    half.memory.is_full = false;
    for context in known.open.clone() {
        half.call(|engine, now| engine.release(now, context));
        known.learn(half);
    }
    for _ in 0..40 {
        half.advance(Duration::from_secs(100));
        known.learn(half);
        half.sent.clear();
    }
    assert_eq!(half.xtp().contexts(), 0, "{:?}", half.xtp().counters());
    assert_eq!((half.xtp().bytes(), half.memory.lent), (0, 0));
    assert!(known.tickets.values().all(|told| *told), "an output was never told of");
    for context in &known.open {
        assert!(known.closed.contains(context), "{context:?} never closed");
    }
}

/// A packet of a peer that knows what is going on.
fn packet(script: &mut Script<'_>, half: &Half, known: &Known, codec: Codec) -> (Address, Vec<u8>) {
    let kinds = [Kind::Data, Kind::Data, Kind::Cntl, Kind::First, Kind::Ecntl, Kind::Tcntl, Kind::Diag];
    let mut kind = script.pick(&kinds);
    if codec == Codec::Xtp36 && matches!(kind, Kind::Ecntl | Kind::Tcntl) {
        kind = Kind::Cntl;
    }
    let facts = known.pick(script).and_then(|context| half.xtp().facts(context));
    let said = script.byte();
    let mut packet = Packet::new(codec, kind);
    let source = match &facts {
        Some(facts) if kind != Kind::First && said & 1 == 0 => facts.peer,
        _ => Address::Node(u32::from(script.byte() % 3)),
    };
    packet.options = Options::from_bits(script.word() & Options::ALL.bits()).unwrap_or(Options::NONE);
    if said & 2 == 0 {
        // Few options, so that something happens before the end.
        let bits = packet.options.bits();
        packet.options = Options::from_bits(bits & script.word()).unwrap_or(Options::NONE).without(Options::MULTI);
        packet.options = packet.options.without(Options::SORT);
    }
    packet.key = 1 + u64::from(script.byte() % 4);
    if let Some(facts) = &facts {
        (packet.rtn, packet.key) =
            if said & 4 == 0 || facts.peer_key == 0 { (true, facts.my_key) } else { (false, facts.peer_key) };
        packet.sync = near(script, facts.recv_sync.into()) as u32;
        packet.seq = near(script, facts.rseq);
        packet.rseq = near(script, facts.acked);
        packet.alloc = near(script, facts.sent.wrapping_add(5000));
        packet.echo = near(script, facts.sync.into()) as u32;
        let low = near(script, facts.acked.wrapping_add(100));
        packet.spans = vec![(low, near(script, facts.sent))];
        if said & 16 != 0 {
            packet.spans.push((near(script, facts.sent), near(script, facts.sent)));
        }
    }
    if kind == Kind::First {
        (packet.rtn, packet.key) = (false, 1 + u64::from(said % 8));
        packet.seq = near(script, 1000);
    }
    packet.xkey = 1 + u64::from(said);
    packet.service = script.byte() % 7;
    packet.traffic.maxdata = if said & 32 != 0 { u32::from(script.word()) } else { 0 };
    packet.traffic.inrate = if said & 64 != 0 { u32::from(script.word()) + 1000 } else { 0 };
    (packet.code, packet.value) = (u32::from(script.byte() % 10), u32::from(script.byte() % 14));
    let source = if said & 9 == 9 && !packet.rtn { STRANGER } else { source };
    if source == STRANGER {
        let named = facts.as_ref().map_or(1, |facts| facts.peer_key.max(1));
        (packet.key, packet.rtn) = (if packet.rtn { named } else { packet.key }, false);
        packet.echo = 0;
    }
    packet.btag = packet.options.contains(Options::BTAG).then_some([5; 8]);
    packet.data = vec![said; usize::from(script.word() >> (said & 15))];
    packet.data.truncate(1400);
    let mut bytes = packet.bytes();
    if said == 0xff {
        let at = usize::from(script.word()) % bytes.len();
        bytes[at] = script.byte();
        if !packet.options.contains(Options::NOCHECK) {
            fill(codec, &mut bytes);
        }
    }
    (source, bytes)
}
