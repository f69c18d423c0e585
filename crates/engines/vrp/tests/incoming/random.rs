//! Random senders: the contract holds for every frame delivered (V-R18), and nothing that comes can break anything.
//!
//! That no frame is answered with more bytes than came for it is checked by [`Half`] with every datagram sent.

use crate::half::{Half, content, data, padded, raw_data};
use core::time::Duration;
use pinnace_core::{Address, Ecn};
use pinnace_vrp::{Config, Delivery, Event, Limits};
use pinnace_wire::vrp::{Control, Inline, Tag};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A frame, and a path that mistreats it.
#[derive(Clone, Debug)]
struct Passage {
    packets: u32,
    packet_bytes: usize,
    tail: usize,
    window: u16,
    rate: u8,
    floor: Option<u8>,
    run: u8,
    critical: Vec<(u32, u32)>,
    batch: usize,
    loss: u8,
    order: u64,
}

fn passage() -> impl Strategy<Value = Passage> {
    let frame = (1u32..160, 20usize..400, 0usize..400, prop_oneof![1u16..8, 8u16..200]);
    let contract = (any::<u8>(), prop::option::of(any::<u8>()), prop_oneof![0u8..6, Just(255)]);
    let critical = prop::collection::vec((0u32..170, 0u32..12), 0..4);
    (frame, contract, critical, 1usize..9, 0u8..60, any::<u64>()).prop_map(
        |(frame, contract, critical, batch, loss, order)| {
            let (packets, packet_bytes, tail, window) = frame;
            let (rate, floor, run) = contract;
            Passage {
                packets,
                packet_bytes,
                tail: tail % packet_bytes,
                window,
                rate,
                floor,
                run,
                critical,
                batch,
                loss,
                order,
            }
        },
    )
}

/// Sends a frame as a simple sender would: all of it, then again what was not acknowledged, until nothing is left.
fn send(half: &mut Half, number: u16, passage: &Passage) -> (Delivery, BTreeSet<u32>, BTreeSet<u32>) {
    let mut dice = pinnace_core::Random::from_seed(passage.order);
    let size = passage.packets as usize * passage.packet_bytes - passage.tail;
    let mut tags = vec![
        Tag::FrameCreate { frame: number, size: size as u32, packet_bytes: passage.packet_bytes as u16 },
        Tag::ConsLoss(passage.run),
        Tag::LossRate(passage.rate),
        Tag::Window(passage.window),
    ];
    tags.extend(passage.floor.map(Tag::LossRateFloor));
    tags.extend(
        passage.critical.iter().map(|(first, more)| Tag::CriticalInterval { first: *first, last: first + more }),
    );
    half.feed(&padded(number, &tags, 64));
    let mut left: BTreeSet<u32> = (0..passage.packets).collect();
    // What came until the frame was delivered, with the last read and without it.
    let mut before = BTreeSet::new();
    let mut before_last: Option<BTreeSet<u32>> = None;
    for turn in 0.. {
        assert!(turn < 2000, "no end");
        let mut turn_packets: Vec<u32> = left.iter().copied().collect();
        // Near neighbours change places.
        for at in 1..turn_packets.len() {
            if dice.below(5) == 0 {
                turn_packets.swap(at - 1, at);
            }
        }
        turn_packets.retain(|_| dice.below(100) as u8 >= passage.loss);
        for batch in turn_packets.chunks(passage.batch) {
            // All but the last packet of a frame are equal, so a read may bring several.
            let (last, others): (Vec<u32>, Vec<u32>) = batch.iter().partition(|packet| **packet + 1 == passage.packets);
            for packets in [others, last].iter().filter(|packets| !packets.is_empty()) {
                let train: Vec<_> =
                    packets.iter().map(|packet| data(number, size, passage.packet_bytes, *packet)).collect();
                let is_delivered = |half: &Half| half.events.iter().any(|event| matches!(event, Event::Received(_)));
                if !is_delivered(half) {
                    before.extend(packets);
                }
                half.read(crate::half::ALICE, Ecn::NotCapable, &train);
                if is_delivered(half) && before_last.is_none() {
                    before_last = Some(before.iter().filter(|packet| !packets.contains(packet)).copied().collect());
                }
            }
            for answer in half.take() {
                for tag in Control::parse(&answer).unwrap().tags() {
                    match tag {
                        Tag::Ack(packet) => left.retain(|left| *left > packet),
                        Tag::SingleAck(packet) => {
                            left.remove(&packet);
                        }
                        Tag::Nack(packet) => assert!(left.contains(&packet), "{packet} was acknowledged before"),
                        _ => {}
                    }
                }
            }
        }
        if passage.floor.is_some() && dice.below(3) == 0 {
            half.feed(&padded(number, &[Tag::LossRateNow { count: turn as u8, rate: dice.next_u64() as u8 }], 0));
        }
        if left.is_empty() {
            break;
        }
    }
    let mut deliveries = half.deliveries();
    assert_eq!(deliveries.len(), 1);
    (deliveries.remove(0), before, before_last.unwrap_or_default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_frame_delivered_keeps_its_contract(passages in prop::collection::vec(passage(), 1..4)) {
        //= V-R5, V-R11, V-R18, V-R19 test
        let mut half = Half::new(Config::default());
        for (number, passage) in passages.iter().enumerate() {
            let (delivery, arrived, surely) = send(&mut half, number as u16, passage);
            let packets = passage.packets;
            let is_lost = |packet: u32| delivery.loss.ranges.iter().any(|range| range.contains(&packet));
            // Every hole is told, and nothing else.
            for packet in 0..packets {
                prop_assert!(is_lost(packet) || arrived.contains(&packet), "packet {} never came", packet);
                prop_assert!(!is_lost(packet) || !surely.contains(&packet), "packet {} came", packet);
            }
            let lost: Vec<bool> = (0..packets).map(is_lost).collect();
            prop_assert_eq!(lost.iter().filter(|lost| **lost).count(), delivery.loss.lost as usize);
            let mut expected = content(number as u16, delivery.size as usize);
            for (packet, chunk) in expected.chunks_mut(passage.packet_bytes).enumerate() {
                if lost[packet] {
                    chunk.fill(0);
                }
            }
            prop_assert!(half.content(&delivery) == expected, "full size, the bytes that came, and zeros");
            // No run is too long, no window has lost too much, nothing critical is lost.
            let run = lost.split(|lost| !lost).map(<[bool]>::len).max().unwrap_or(0);
            prop_assert!(run <= usize::from(passage.run) && run == delivery.loss.longest_run as usize);
            let window = u32::from(passage.window).min(packets) as usize;
            let most = (usize::from(passage.rate) * window + 127) / 255;
            for span in lost.windows(window) {
                prop_assert!(span.iter().filter(|lost| **lost).count() <= most);
            }
            for (first, more) in &passage.critical {
                prop_assert!((*first..=first + more).all(|packet| !is_lost(packet)));
            }
            let id = delivery.id;
            half.call(|rx| rx.release(id));
        }
        half.millis(30_000);
        prop_assert_eq!((half.rx().frames(), half.rx().bytes(), half.rx().sources()), (0, 0, 0));
    }
}

/// Something that comes, or time that goes.
#[derive(Clone, Debug)]
enum Step {
    Control { number: u16, tags: Vec<Word>, len: usize, cut: usize },
    Data { number: u16, packet: u32, len: usize, count: usize },
    Noise(Vec<u8>),
    Wait(u64),
    Release,
    Full(bool),
}

/// A tag that a script can keep.
#[derive(Clone, Debug)]
enum Word {
    Create(u32, u16),
    Plain(u8, u8),
    Critical(u32, u32),
    Close(u16),
    Inline(usize),
    Wrong(u32),
}

const NUMBERS: [u16; 8] = [0, 1, 2, 3, 100, 3000, 20_000, 32_767];

fn number() -> impl Strategy<Value = u16> {
    (0..NUMBERS.len()).prop_map(|index| NUMBERS[index])
}

fn word() -> impl Strategy<Value = Word> {
    let size = prop_oneof![3 => 0u32..600, 1 => 0u32..200_000, 1 => any::<u32>()];
    let packet_bytes = prop_oneof![3 => 1u16..120, 1 => any::<u16>()];
    prop_oneof![
        4 => (size, packet_bytes).prop_map(|(size, packet_bytes)| Word::Create(size, packet_bytes)),
        4 => (0u8..7, any::<u8>()).prop_map(|(which, value)| Word::Plain(which, value)),
        1 => (0u32..30, any::<u32>()).prop_map(|(first, last)| Word::Critical(first, last)),
        1 => number().prop_map(Word::Close),
        1 => (0usize..256).prop_map(Word::Inline),
        1 => any::<u32>().prop_map(Word::Wrong),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let packet = || prop_oneof![6 => 0u32..20, 1 => 0u32..40_000, 1 => any::<u32>()];
    let len = prop_oneof![1 => 0usize..10, 3 => 10usize..120];
    let tags = prop::collection::vec(word(), 0..7);
    prop_oneof![
        6 => (number(), tags, 0usize..200, prop_oneof![9 => Just(0), 1 => 0usize..40])
            .prop_map(|(number, tags, len, cut)| Step::Control { number, tags, len, cut }),
        9 => (number(), packet(), len, 1usize..5)
            .prop_map(|(number, packet, len, count)| Step::Data { number, packet, len, count }),
        2 => prop::collection::vec(any::<u8>(), 0..90).prop_map(Step::Noise),
        2 => prop_oneof![0u64..300, 0u64..6000].prop_map(Step::Wait),
        1 => Just(Step::Release),
        1 => any::<bool>().prop_map(Step::Full),
    ]
}

fn encode(number: u16, words: &[Word], len: usize) -> Vec<u8> {
    let zeros = [7; 255];
    let tags: Vec<Tag<'_>> = words
        .iter()
        .map(|word| match *word {
            Word::Create(size, packet_bytes) => Tag::FrameCreate { frame: number, size, packet_bytes },
            Word::Plain(0, value) => Tag::ConsLoss(value),
            Word::Plain(1, value) => Tag::LossRate(value),
            Word::Plain(2, value) => Tag::LossRateFloor(value),
            Word::Plain(3, value) => Tag::LossRateNow { count: value, rate: value.wrapping_mul(7) },
            Word::Plain(4, value) => Tag::Window(u16::from(value) + 1),
            Word::Plain(5, value) => Tag::Epoch(u32::from(value / 128)),
            Word::Plain(_, value) => Tag::Ping([value; 8]),
            Word::Critical(first, last) => Tag::CriticalInterval { first, last },
            Word::Close(number) => Tag::FrameClose(number),
            Word::Inline(len) => Tag::InlineData(Inline { bytes: &zeros[..len], at: 0 }),
            Word::Wrong(packet) => Tag::Ack(packet),
        })
        .collect();
    padded(number, &tags, len)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_that_comes_breaks_anything(steps in prop::collection::vec((0u32..3, step()), 1..120)) {
        //= V-R1, V-R7, V-R13, V-R17, V-R20 test
        let limits = Limits { frames: 6, bytes: 100_000, sources: 2, replies: 8, early_bytes: 900, ..Limits::default() };
        let config = Config { limits: limits.clone(), ..Config::default() };
        let mut half = Half::new(config);
        let mut held = Vec::new();
        let mut ids = BTreeSet::new();
        for (sender, step) in steps {
            let source = Address::Node(sender);
            match step {
                Step::Control { number, tags, len, cut } => {
                    let mut bytes = encode(number, &tags, len);
                    bytes.truncate(bytes.len() - cut.min(bytes.len()));
                    half.feed_from(source, &bytes);
                }
                Step::Data { number, packet, len, count } => {
                    let train: Vec<_> = (0..count as u32)
                        .map(|more| raw_data(number, packet.wrapping_add(more), &vec![9; len]))
                        .collect();
                    half.read(source, if len % 2 == 0 { Ecn::Congested } else { Ecn::Capable0 }, &train);
                }
                Step::Noise(bytes) => half.feed_from(source, &bytes),
                Step::Wait(millis) => half.advance(Duration::from_millis(millis)),
                Step::Release => {
                    for delivery in core::mem::take(&mut held) {
                        let delivery: Delivery = delivery;
                        half.call(|rx| rx.release(delivery.id));
                        half.memory.end_lent(delivery.buffer);
                    }
                }
                Step::Full(is_full) => half.memory.is_full = is_full,
            }
            half.take();
            for delivery in half.deliveries() {
                prop_assert!(ids.insert(delivery.id), "delivered twice");
                held.push(delivery);
            }
            let rx = half.rx();
            prop_assert!(rx.frames() <= limits.frames && rx.bytes() <= limits.bytes && rx.sources() <= limits.sources);
            let stored = half.memory.lent as usize;
            prop_assert!(stored as u64 <= rx.bytes(), "{} bytes of storage, {} counted", stored, rx.bytes());
        }
        // In the end everything is given back.
        for delivery in held {
            half.call(|rx| rx.release(delivery.id));
            half.memory.end_lent(delivery.buffer);
        }
        half.advance(Duration::from_secs(30));
        prop_assert_eq!((half.rx().frames(), half.rx().bytes(), half.rx().sources()), (0, 0, 0));
        prop_assert_eq!(half.memory.lent, 0);
    }
}
