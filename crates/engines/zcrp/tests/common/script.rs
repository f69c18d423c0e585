//! What the fuzz targets do with their bytes. Shared by `fuzz/` and by the test that replays its corpora.
//!
//! Any bytes are a script: calls of the application, the passing of time, and datagrams of a peer that knows the protocol
//! and lies. [`Half`] checks what always holds on the way. What arrives must be what came; at the end every message must have
//! ended once, and its memory have come back.
#![allow(dead_code, unreachable_pub, reason = "every user uses its own part")]

use crate::half::{Half, ack, flow, parse_unit, plain_unit, request, unit};
use core::time::Duration;
use pinnace_core::{Engine, PathEvent, Time};
use pinnace_testing::script::Script;
use pinnace_wire::zcrp::{Control, ControlWriter, MIN_CONTROL_BYTES, TRAILER_BYTES, Trailer, Unit, encode_idle};
use pinnace_zcrp::{Config, Event, UnitSize};
use std::collections::BTreeSet;

/// What a target does with an input.
pub type Target = fn(&[u8]);

/// The targets, by name.
pub const TARGETS: [(&str, Target); 4] =
    [("zcrp_trailer", trailer), ("zcrp_control", control), ("zcrp_sender", sender), ("zcrp_receiver", receiver)];

/// Steps of a script; more only take time.
const MANY: usize = 600;

/// Mostly near `base`, seldom anything.
fn near(script: &mut Script<'_>, base: u32) -> u32 {
    match script.byte() {
        0xFF => script.long(),
        0xFE => base.wrapping_add(u32::from(script.word())),
        0xFD => base.wrapping_sub(u32::from(script.word())),
        near => base.wrapping_add(u32::from(near)).wrapping_sub(16),
    }
}

/// A trailer that parses travels unchanged.
pub fn trailer(data: &[u8]) {
    let Some(tail) = data.last_chunk::<TRAILER_BYTES>() else { return };
    match Trailer::parse(tail, data.len()) {
        Ok(Trailer::Unit(unit)) => {
            assert!(unit.length as usize <= data.len() - TRAILER_BYTES);
            assert_eq!(Trailer::parse(&unit.encode(), data.len()), Ok(Trailer::Unit(unit)));
        }
        Ok(Trailer::Idle { message }) => {
            assert_eq!(Trailer::parse(&encode_idle(message), TRAILER_BYTES), Ok(Trailer::Idle { message }));
        }
        Ok(Trailer::Control) => assert!(tail[24] & 0x80 != 0),
        Err(_) => {}
    }
}

/// A control datagram that parses says what it says within its bytes, and can be said again.
pub fn control(data: &[u8]) {
    let mut space = vec![0; data.len().max(MIN_CONTROL_BYTES + 4)];
    match Control::parse(data) {
        Ok(Control::Acknowledgement(block)) => {
            let mut writer = ControlWriter::new(&mut space);
            let mut end = None;
            let mut first_sign = true;
            for (low, high, sign) in block.intervals() {
                assert!(high.wrapping_sub(low) < 1 << 16 && end.is_none_or(|end| end == low));
                if end.is_none() {
                    first_sign = sign;
                    writer.push(low);
                }
                writer.push(high);
                end = Some(high);
            }
            if end.is_some() {
                let Ok(Control::Acknowledgement(again)) = Control::parse(writer.acknowledgement(first_sign)) else {
                    panic!("what was parsed cannot be said again");
                };
                assert!(again.intervals().eq(block.intervals()));
            }
        }
        Ok(Control::Request(pairs)) => {
            let mut writer = ControlWriter::new(&mut space);
            for (number, capacity) in pairs.iter() {
                writer.push(number);
                writer.push(capacity);
            }
            let Ok(Control::Request(again)) = Control::parse(writer.request()) else {
                panic!("what was parsed cannot be said again");
            };
            assert!(again.iter().eq(pairs.iter()) && pairs.iter().count() * 8 + 8 <= data.len());
        }
        Ok(Control::Flow { .. }) | Err(_) => {}
    }
}

fn config(script: &mut Script<'_>) -> Config {
    let kinds = script.byte();
    let congestion = script.controller(kinds, |script| u64::from(script.byte()) * 64);
    let unit = [29, 30, 128, 1472, 8972, 65_507][usize::from(kinds / 4 % 6)];
    Config {
        unit_size: if kinds & 0x80 != 0 { UnitSize::UpTo(unit) } else { UnitSize::Fixed(unit) },
        congestion,
        window_units: u32::from(script.byte()),
        control_bytes: 4 * usize::from(script.byte()),
        ack_units: u32::from(script.byte() % 20),
        ack_bytes: u64::from(script.byte()) * 16,
        max_messages: 40,
        limit_amplification: kinds & 0x40 != 0,
        seed: u64::from(script.word()),
        ..Config::default()
    }
}

/// Steps that both halves know. Returns whether it was one.
fn common_step(half: &mut Half, script: &mut Script<'_>, step: u8) -> bool {
    match step {
        0 => half.advance(Duration::from_micros(u64::from(script.byte()) * 50)),
        1 => half.millis(u64::from(script.byte())),
        2 => half.millis(u64::from(script.byte()) * 40),
        3 => {
            let count = usize::from(script.byte());
            let datagram = script.take(count);
            if !datagram.is_empty() {
                half.feed(&datagram);
            }
        }
        4 => {
            let held = script.byte().is_multiple_of(2);
            half.call(|engine| engine.handle_hold(held));
        }
        5 => half.call(|engine| engine.handle_path_event(Time::ZERO, PathEvent::Unreachable)),
        6 => half.feed(&flow()),
        7 => half.feed(&encode_idle(u32::from(script.byte()))),
        _ => return false,
    }
    true
}

/// Which messages have ended; each once. Their memory is the application's again.
//= Z-20 test
fn look_at_ends(half: &mut Half, ended: &mut BTreeSet<u64>) {
    for event in half.take_events() {
        let (number, buffer, size) = match event {
            Event::Sent { number, buffer, .. } => (number, buffer, None),
            Event::Received { number, buffer, result } => (number, buffer, result.ok()),
            Event::SenderClosed(_) | Event::ReceiverClosed(_) => continue,
        };
        assert!(ended.insert(number), "message {number} ended twice");
        let bytes = half.memory.end(buffer);
        if let Some(size) = size {
            half.subject.check_arrival(number, &bytes[..size as usize]);
        }
    }
}

/// Every message that began has ended, once.
fn check_ends(half: &mut Half, mut ended: BTreeSet<u64>, messages: u64) {
    look_at_ends(half, &mut ended);
    assert!(ended.into_iter().eq(0..messages), "a message never ended");
    assert_eq!(half.memory.kept(), 0, "memory has not come back");
}

/// What a message holds: no two parts of it are alike.
fn content(number: u64, size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8 ^ (at >> 8) as u8 ^ number as u8).collect()
}

/// What is withdrawn ends, and its numbers are free again.
fn withdraw(half: &mut Half, ended: &mut BTreeSet<u64>, messages: &mut u64) {
    let now = half.now;
    let next = half.call(|engine| {
        let sender = engine.sender_mut().expect("it is one");
        sender.withdraw(now);
        sender.next_number()
    });
    look_at_ends(half, ended);
    for number in next..*messages {
        assert!(ended.remove(&number), "message {number} was withdrawn and has not ended");
    }
    *messages = next;
}

/// A sender whose peer is the script.
pub fn sender(data: &[u8]) {
    let mut script = Script::new(data);
    let mut half = Half::sender(&config(&mut script));
    let (mut messages, mut newest, mut ended) = (0u64, 0u32, BTreeSet::new());
    for _ in 0..MANY {
        if script.is_over() {
            break;
        }
        let step = script.byte() % 16;
        if common_step(&mut half, &mut script, step) {
            continue;
        }
        match step {
            8..=9 => {
                let size = usize::from(script.word()) >> (script.byte() % 12);
                if let Ok(number) = half.try_send(&content(messages, size)) {
                    assert_eq!(number, messages, "numbers are in call order");
                    messages += 1;
                }
            }
            10..=11 => {
                let count = usize::from(script.byte() % 5) + 1;
                let base = messages as u32;
                let mut pairs: Vec<(u32, u32)> = Vec::new();
                for _ in 0..count {
                    pairs.push((near(&mut script, base), near(&mut script, u32::from(u16::MAX))));
                }
                half.feed(&request(&pairs));
            }
            12..=14 => {
                let positive = !script.byte().is_multiple_of(4);
                let mut numbers = vec![near(&mut script, newest.wrapping_sub(8))];
                for _ in 0..1 + script.byte() % 6 {
                    let last = numbers[numbers.len() - 1];
                    numbers.push(last.wrapping_add(u32::from(script.byte() % 32)));
                }
                half.feed(&ack(positive, &numbers));
            }
            _ if script.byte() > 250 => half.call(|engine| {
                if let Some(sender) = engine.sender_mut() {
                    sender.close();
                }
            }),
            _ if script.byte() > 200 => withdraw(&mut half, &mut ended, &mut messages),
            _ => {}
        }
        for datagram in half.take() {
            if let Some((unit, _)) = parse_unit(&datagram) {
                newest = unit.sequence;
            }
        }
        look_at_ends(&mut half, &mut ended);
    }
    half.call(|engine| {
        if let Some(sender) = engine.sender_mut() {
            sender.close();
        }
    });
    half.millis(1000);
    check_ends(&mut half, ended, messages);
}

/// One unit as the script wants it.
fn lie(script: &mut Script<'_>, base: u32, newest: &mut u32, fragment: usize) -> Vec<u8> {
    let flags = script.byte();
    let length = match flags >> 6 {
        0 | 1 => fragment,
        2 => usize::from(script.byte()),
        _ => usize::from(script.word()) % 3000,
    };
    let sequence = if flags & 8 != 0 { near(script, *newest) } else { newest.wrapping_add(1) };
    *newest = sequence;
    let next = if flags & 1 != 0 { Some((near(script, base), near(script, 16))) } else { None };
    let of = Unit {
        message: near(script, base.wrapping_add(12)),
        unit: near(script, 16),
        sequence,
        next,
        length: length as u32,
        is_last: flags & 2 != 0,
        refused: flags & 36 == 36,
    };
    unit(&of, &content(u64::from(flags), length), usize::from(flags & 16 != 0) * 3)
}

/// A message of some units as a sound sender sends it, or most of it.
fn truth(script: &mut Script<'_>, base: u32, newest: &mut u32, fragment: usize) -> Vec<Vec<u8>> {
    let (kind, count) = (script.byte(), 1 + usize::from(script.byte() % 12));
    let message = base.wrapping_add(u32::from(kind % 8));
    let data = content(u64::from(message), count * fragment - usize::from(script.byte()) % fragment);
    let mut units: Vec<(u32, &[u8])> = (0..).zip(data.chunks(fragment)).collect();
    if kind & 8 != 0 {
        units.reverse();
    }
    units.rotate_left(usize::from(kind >> 4) % count);
    if script.one_in(8) {
        units.pop();
    }
    let travels = |(number, data)| {
        *newest = newest.wrapping_add(1);
        plain_unit(message, number, *newest, data, number as usize + 1 == count)
    };
    units.into_iter().map(travels).collect()
}

/// A receiver whose peer is the script.
pub fn receiver(data: &[u8]) {
    let mut script = Script::new(data);
    let mut half = Half::receiver(&config(&mut script));
    let fragment = [1, 2, 100, 100, 1444, 300][usize::from(script.byte() % 6)];
    let (mut messages, mut newest, mut ended) = (0u64, script.long(), BTreeSet::new());
    for _ in 0..MANY {
        if script.is_over() {
            break;
        }
        let step = script.byte() % 16;
        if common_step(&mut half, &mut script, step) {
            continue;
        }
        let base = (messages as u32).saturating_sub(4);
        match step {
            8..=9 => {
                let capacity = usize::from(script.word()) >> (script.byte() % 12);
                if let Ok(number) = half.try_post(capacity) {
                    assert_eq!(number, messages, "numbers are in call order");
                    messages += 1;
                }
            }
            10..=12 => {
                let datagram = lie(&mut script, base, &mut newest, fragment);
                half.feed(&datagram);
            }
            13..=14 => {
                // A coalesced read: equal datagrams, and a shorter last one.
                let mut train: Vec<Vec<u8>> = Vec::new();
                for _ in 0..script.byte() % 20 + 1 {
                    let datagram = lie(&mut script, base, &mut newest, fragment);
                    let first = train.first().map_or(datagram.len(), Vec::len);
                    if datagram.len() > first || train.iter().map(Vec::len).sum::<usize>() > 60_000 {
                        break;
                    }
                    let short = datagram.len() < first;
                    train.push(datagram);
                    if short {
                        break;
                    }
                }
                half.read(&train);
            }
            _ => match script.byte() {
                251.. => {
                    let now = half.now;
                    half.call(|engine| {
                        if let Some(receiver) = engine.receiver_mut() {
                            receiver.close(now);
                        }
                    });
                }
                how => {
                    // One by one, or in reads of equal datagrams.
                    let train = truth(&mut script, base, &mut newest, fragment);
                    let is_alone = |one: &Vec<u8>, next: &Vec<u8>| how % 4 != 0 && next.len() <= one.len();
                    train.chunk_by(is_alone).for_each(|read| half.read(read));
                }
            },
        }
        half.take();
        look_at_ends(&mut half, &mut ended);
    }
    let now = half.now;
    half.call(|engine| {
        if let Some(receiver) = engine.receiver_mut() {
            receiver.close(now);
        }
    });
    half.millis(1000);
    check_ends(&mut half, ended, messages);
}
