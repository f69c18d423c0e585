//! A sender whose peer is the test: exact datagrams in, exact answers out.

mod common;

use common::half::{Half, ack, control, flow, is_idle, parse_unit, request};
use core::time::Duration;
use pinnace_core::{ControllerKind, Time};
use pinnace_wire::zcrp::Unit;
use pinnace_zcrp::{Config, Event, Failure, Refused, UnitSize};

/// F = 100, the paper's fixed window.
fn config() -> Config {
    Config {
        unit_size: UnitSize::Fixed(128),
        congestion: ControllerKind::Fixed { window: u64::MAX },
        seed: 7,
        ..Config::default()
    }
}

fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i % 251) as u8 + 1).collect()
}

/// A sender whose message of `size` bytes has been requested, its first units, and its first sequence number.
fn started(config: &Config, size: usize) -> (Half, Vec<Unit>, u32) {
    let mut half = Half::sender(config);
    half.send(&bytes(size));
    half.take();
    half.feed(&request(&[(0, size as u32)]));
    let units: Vec<Unit> = half.take_units().into_iter().map(|(unit, _)| unit).collect();
    let first = units[0].sequence;
    (half, units, first)
}

fn units(half: &mut Half) -> Vec<Unit> {
    half.take_units().into_iter().map(|(unit, _)| unit).collect()
}

fn names(units: &[Unit]) -> Vec<(u32, u32)> {
    units.iter().map(|unit| (unit.message, unit.unit)).collect()
}

fn sent(number: u64, result: Result<(), Failure>) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Sent { number: n, result: r, .. } if *n == number && *r == result)
}

#[test]
fn a_unit_is_its_data_and_a_trailer_of_28_bytes() {
    //= Z-5, Z-7 test
    let mut half = Half::sender(&config());
    half.send(&bytes(150));
    half.take();
    half.feed(&request(&[(0, 200)]));
    let datagrams = half.take();
    assert_eq!(datagrams.len(), 2);
    let first = u32::from_be_bytes(datagrams[0][108..112].try_into().unwrap());
    let mut expected = bytes(100);
    for word in [0, 0, first, 0, 1, 100] {
        expected.extend_from_slice(&u32::to_be_bytes(word));
    }
    expected.extend_from_slice(&[1, 0, 0, 0]);
    assert_eq!(datagrams[0], expected, "has-next names unit 1 of message 0");
    let mut expected = bytes(150)[100..].to_vec();
    for word in [0, 1, first.wrapping_add(1), 0, 0, 50] {
        expected.extend_from_slice(&u32::to_be_bytes(word));
    }
    expected.extend_from_slice(&[2, 0, 0, 0]);
    assert_eq!(datagrams[1], expected, "is-last, and without has-next the next fields are 0");
}

#[test]
fn a_message_of_size_zero_is_one_empty_last_unit() {
    //= Z-5 test
    let (_, units, _) = started(&config(), 0);
    assert_eq!(units.len(), 1);
    assert_eq!((units[0].length, units[0].is_last, units[0].refused, units[0].unit), (0, true, false, 0));
}

#[test]
fn every_unit_announces_the_one_behind_it() {
    //= Z-7 test
    for plain in [false, true] {
        let mut half = Half::sender(&config());
        if plain {
            half = half.plain();
        }
        let sizes = [250, 0, 100, 1, 99, 301, 0, 0, 5];
        for size in sizes {
            half.send(&bytes(size));
        }
        half.take();
        half.feed(&request(&(0..9).map(|n| (n, 1000)).collect::<Vec<_>>()));
        let datagrams = half.take();
        let units: Vec<Unit> = datagrams.iter().map(|d| parse_unit(d).unwrap().0).collect();
        for (pair, number) in units.windows(2).zip(1u32..) {
            assert_eq!(pair[0].next, Some((pair[1].message, pair[1].unit)));
            assert_eq!(pair[1].sequence, units[0].sequence.wrapping_add(number), "one more than the last");
        }
        assert_eq!(units.last().unwrap().next, None);
        // Padding keeps trains regular, follows the data of last units only, and is zero.
        for (datagram, unit) in datagrams.iter().zip(&units) {
            let padding = &datagram[unit.length as usize..datagram.len() - 28];
            assert!(padding.is_empty() || (unit.is_last && datagram.len() <= 128));
            assert!(padding.iter().all(|&byte| byte == 0));
        }
    }
}

#[test]
fn padding_never_takes_longer_than_the_train_that_it_saves() {
    //= Z-5 test
    // 100 kB arrive in so long; then messages of 4,500 bytes follow, each with 500 in its last unit.
    let padding_after = |micros: u64, size: usize| {
        let mut half = Half::sender(&Config { unit_size: UnitSize::Fixed(1028), ..config() });
        half.send(&bytes(100_000));
        half.take();
        half.feed(&request(&[(0, 100_000)]));
        let units = units(&mut half);
        half.advance(Duration::from_micros(micros));
        let first = units[0].sequence;
        half.feed(&ack(true, &[first, first.wrapping_add(units.len() as u32)]));
        half.take();
        half.send(&bytes(size));
        half.send(&bytes(size));
        half.take();
        half.feed(&request(&[(1, 10_000), (2, 10_000)]));
        let before = half.tx().counters().padding_bytes_sent;
        let datagrams = half.take();
        assert_eq!(datagrams.len(), 2 * size.div_ceil(1000));
        let sizes: Vec<usize> = datagrams.iter().map(Vec::len).collect();
        assert_eq!(*sizes.last().unwrap(), size % 1000 + 28, "nothing follows the very last");
        assert_eq!(before, sizes[size / 1000] as u64 - (size as u64 % 1000 + 28));
        before
    };
    assert_eq!(padding_after(50, 4500), 500, "2 GB/s: 0.25 us");
    assert_eq!(padding_after(1_000, 4500), 0, "100 MB/s: 5 us");
    assert_eq!(padding_after(1_000, 4900), 100, "100 MB/s: 1 us, and an eighth of a datagram in any case");
    assert_eq!(padding_after(50, 4200), 0, "more than an eighth of the message");
}

#[test]
fn only_what_was_requested_travels_and_numbers_are_in_call_order() {
    //= Z-3, Z-4 test
    let mut half = Half::sender(&config());
    for n in 0..4 {
        assert_eq!(half.send(&[n; 10]), u64::from(n));
    }
    half.take();
    half.feed(&request(&[(2, 10)]));
    let sent = half.take_units();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].0.message, &sent[0].1[..]), (2, &[2; 10][..]));
    half.feed(&request(&[(0, 10), (3, 10)]));
    assert_eq!(names(&units(&mut half)), [(0, 0), (3, 0)]);
}

#[test]
fn first_sequence_numbers_are_random_and_wrap() {
    //= Z-6 test
    let mut firsts: Vec<u32> = (0..50).map(|seed| started(&Config { seed, ..config() }, 1).2).collect();
    firsts.sort_unstable();
    firsts.dedup();
    assert_eq!(firsts.len(), 50);
    let seed = seed_near_the_wrap();
    let (mut half, units, first) = started(&Config { seed, ..config() }, 6400);
    assert_eq!(units.len(), 64);
    assert!(first > u32::MAX - 60 && units[63].sequence < 60, "{first}");
    half.feed(&ack(true, &[first, first.wrapping_add(64)]));
    assert!(half.take_events().iter().any(sent(0, Ok(()))));
}

/// The first seed whose sender starts less than 60 numbers before 2^32.
fn seed_near_the_wrap() -> u64 {
    let near = |&seed: &u64| pinnace_core::Random::from_seed(seed).next_u64() as u32 > u32::MAX - 60;
    (0..).find(near).unwrap()
}

#[test]
fn a_lost_unit_is_sent_again_under_a_new_number() {
    //= Z-6, Z-8 test
    let (mut half, sent_units, first) = started(&config(), 1000);
    assert_eq!(sent_units.len(), 10);
    half.feed(&ack(true, &[first, first.wrapping_add(3), first.wrapping_add(5), first.wrapping_add(9)]));
    let again = units(&mut half);
    assert_eq!(names(&again), [(0, 3), (0, 4)]);
    assert_eq!([again[0].sequence, again[1].sequence], [first.wrapping_add(10), first.wrapping_add(11)]);
    // The same report again is about older transmissions: ignored.
    half.feed(&ack(false, &[first.wrapping_add(3), first.wrapping_add(5)]));
    assert!(half.take().is_empty());
    // The newest transmission of unit 4 is lost: that counts.
    half.feed(&ack(false, &[first.wrapping_add(11), first.wrapping_add(12)]));
    assert_eq!(names(&units(&mut half)), [(0, 4)]);
    // An acknowledgement of any transmission removes the unit: unit 4's first, unit 3's second, unit 9.
    half.feed(&ack(true, &[first.wrapping_add(4), first.wrapping_add(5)]));
    half.feed(&ack(false, &[first.wrapping_add(12), first.wrapping_add(13)]));
    assert!(half.take().is_empty(), "unit 4 has arrived already");
    half.feed(&ack(true, &[first.wrapping_add(9), first.wrapping_add(11)]));
    assert!(half.take_events().iter().any(sent(0, Ok(()))));
    assert_eq!(half.tx().counters().units_resent, 3);
}

#[test]
fn retransmissions_go_first_but_after_the_unit_announced() {
    //= Z-8 test
    let mut half = Half::sender(&Config { window_units: 4, ..config() });
    half.send(&bytes(1000));
    half.take();
    half.feed(&request(&[(0, 1000)]));
    let first_units = units(&mut half);
    assert_eq!(names(&first_units), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    assert_eq!(first_units[3].next, Some((0, 4)), "announced, though the window is closed");
    let first = first_units[0].sequence;
    // Unit 1 is lost: one place in the window. The unit announced keeps its turn, and announces the retransmission.
    half.feed(&ack(false, &[first + 1, first + 2]));
    let next = units(&mut half);
    assert_eq!((names(&next), next[0].next), (vec![(0, 4)], Some((0, 1))));
    half.feed(&ack(true, &[first, first + 1]));
    let next = units(&mut half);
    assert_eq!((names(&next), next[0].next), (vec![(0, 1)], Some((0, 5))));
}

#[test]
fn an_announcement_is_only_broken_by_an_acknowledgement() {
    //= Z-7, Z-8 test
    let mut half = Half::sender(&Config { window_units: 2, ..config() });
    half.send(&bytes(1000));
    half.take();
    half.feed(&request(&[(0, 1000)]));
    let sent_units = units(&mut half);
    let first = sent_units[0].sequence;
    half.feed(&ack(false, &[first, first + 2]));
    let next = units(&mut half);
    assert_eq!(names(&next), [(0, 2), (0, 0)]);
    assert_eq!(next[1].next, Some((0, 1)));
    // Unit 1 had arrived after all: it is not sent again, and unit 3 follows.
    half.feed(&ack(true, &[first + 1, first + 3]));
    assert_eq!(names(&units(&mut half)), [(0, 3)]);
}

#[test]
fn sixty_four_units_are_in_transit_at_most() {
    //= Z-9 test
    let (mut half, units_sent, first) = started(&config(), 20_000);
    assert_eq!(units_sent.len(), 64);
    assert_eq!(units_sent[63].next, Some((0, 64)));
    half.feed(&ack(true, &[first, first.wrapping_add(10)]));
    assert_eq!(units(&mut half).len(), 10);
}

#[test]
fn a_controller_and_a_byte_window_bound_the_bytes() {
    //= Z-9 test
    let windows = [
        Config { window_bytes: 1000, ..config() },
        Config { congestion: ControllerKind::Fixed { window: 1000 }, ..config() },
    ];
    for config in windows {
        let (_, units_sent, _) = started(&config, 5000);
        assert_eq!(units_sent.len(), 7, "896 of 1000 bytes");
    }
}

#[test]
fn with_nothing_in_transit_one_unit_may_always_go() {
    //= Z-8 test
    let (mut half, mut unit, _) = started(&Config { window_bytes: 1, ..config() }, 500);
    for number in 0..5 {
        assert_eq!(names(&unit), [(0, number)]);
        half.feed(&ack(true, &[unit[0].sequence, unit[0].sequence.wrapping_add(1)]));
        unit = units(&mut half);
    }
    assert!(half.take_events().iter().any(sent(0, Ok(()))));
}

/// When each further transmission leaves, in milliseconds, while nothing is answered.
fn transmissions(half: &mut Half, millis: u64) -> Vec<u64> {
    let start = half.now;
    let mut times = Vec::new();
    for _ in 0..millis {
        half.millis(1);
        let time = half.now.since(start).as_millis() as u64;
        times.extend(units(half).iter().map(|_| time));
    }
    times
}

#[test]
fn the_timeout_starts_at_200_ms_doubles_to_a_second_and_is_reset() {
    //= Z-12 test
    let (mut half, _, first) = started(&config(), 50);
    assert_eq!(transmissions(&mut half, 4700), [200, 600, 1400, 2400, 3400, 4400]);
    assert_eq!(half.tx().counters().timeouts, 6);
    // An acknowledgement ends the doubling. Its measure is one of 300 ms, as the newest transmission was meant.
    half.feed(&ack(true, &[first.wrapping_add(6), first.wrapping_add(7)]));
    half.take_events();
    half.send(&bytes(10));
    half.feed(&request(&[(1, 10)]));
    half.take();
    // 300 + 4 * 150 + 5.
    assert_eq!(transmissions(&mut half, 1000), [905]);
}

#[test]
fn a_transmission_whose_unit_has_arrived_is_no_timeout() {
    //= Z-8, Z-12 test
    let (mut half, _, first) = started(&config(), 50);
    half.millis(200);
    assert_eq!(units(&mut half).len(), 1);
    // The first was only late; the second is lost.
    half.feed(&ack(true, &[first, first.wrapping_add(1)]));
    assert!(half.take_events().iter().any(sent(0, Ok(()))));
    half.millis(2000);
    assert_eq!((half.tx().counters().timeouts, half.tx().counters().units_timed_out), (1, 1));
}

#[test]
fn a_report_that_was_lost_and_is_repeated_measures_nothing() {
    //= Z-12 test
    let (mut half, _, first) = started(&config(), 300);
    let number = |step: u32| first.wrapping_add(step);
    half.millis(10);
    // Of unit 0 nothing is heard until it has been sent again.
    half.feed(&ack(true, &[number(1), number(3)]));
    half.millis(100);
    assert_eq!(names(&units(&mut half)), [(0, 0)]);
    half.millis(5000);
    half.take();
    half.feed(&ack(true, &[first, number(1)]));
    assert!(half.take_events().iter().any(sent(0, Ok(()))));
    half.send(&bytes(10));
    half.feed(&request(&[(1, 10)]));
    half.take();
    // 10 + 4 * 5 + 5; an acknowledgement has ended the doubling.
    assert_eq!(transmissions(&mut half, 100), [35]);
}

#[test]
fn who_kept_what_was_cut_before_knows_that_size_and_not_the_one_of_its_copies() {
    //= Z-5 test
    let config = Config { unit_size: UnitSize::Whole(1472), ..config() };
    let (mut half, large, first) = started(&config, 3000);
    assert_eq!(large.iter().map(|unit| unit.length).collect::<Vec<_>>(), [1444, 1444, 112]);
    // The acknowledgement is lost, and a request is late.
    let mut newest = None;
    while newest.is_none() {
        half.millis(100);
        half.feed(&request(&[(0, 3000)]));
        let small = units(&mut half).into_iter().rfind(|unit| unit.length == 1172);
        newest = small.map(|unit| unit.sequence);
    }
    half.feed(&ack(true, &[first, newest.unwrap().wrapping_add(1)]));
    assert_eq!(half.tx().unit_bytes(), Some(1472));
    let again = units(&mut half);
    assert_eq!(again.iter().map(|unit| unit.length).collect::<Vec<_>>(), [1444, 1444, 112]);
    half.feed(&ack(true, &[first, again[2].sequence.wrapping_add(1)]));
    assert!(half.take_events().iter().any(sent(0, Ok(()))));
}

#[test]
fn a_late_acknowledgement_measures_nothing_because_it_may_repeat_one_that_was_lost() {
    //= Z-12 test
    // At most a second, which a path as long as that needs, and no measure.
    for (answers, expected) in [(1, 1000), (2, 20)] {
        let (mut half, _, first) = started(&config(), 50);
        let number = |step: u32| first.wrapping_add(step);
        assert_eq!(transmissions(&mut half, 2400), [200, 600, 1400, 2400]);
        // The newest has come, which is said in a block of its own behind what is said again of the first.
        for block in [[number(0), number(1)], [number(4), number(5)]].iter().take(answers) {
            half.feed(&ack(true, block));
        }
        assert!(half.take_events().iter().any(sent(0, Ok(()))));
        half.send(&bytes(10));
        half.feed(&request(&[(1, 10)]));
        half.take();
        assert_eq!(transmissions(&mut half, 1100).first(), Some(&expected), "{answers} blocks");
    }
}

#[test]
fn a_round_trip_longer_than_the_first_timeout_is_learnt() {
    //= Z-12 test
    for round_trip in [300, 600, 1500, 4000] {
        let mut half = Half::sender(&config());
        let mut answers: Vec<(u64, u32)> = Vec::new();
        let mut counts = Vec::new();
        let mut time = 0;
        for message in 0..6 {
            half.send(&bytes(50));
            half.feed(&request(&[(message, 50)]));
            let mut count = 0;
            while !half.take_events().iter().any(sent(u64::from(message), Ok(()))) {
                half.millis(1);
                time += 1;
                for unit in units(&mut half) {
                    count += 1;
                    answers.push((time + round_trip, unit.sequence));
                }
                for (_, number) in answers.extract_if(.., |(due, _)| *due <= time) {
                    half.feed(&ack(true, &[number, number.wrapping_add(1)]));
                }
                assert!(time < 100_000);
            }
            counts.push(count);
        }
        assert_eq!(counts[3..], [1, 1, 1], "{round_trip} ms: {counts:?}");
    }
}

/// A sender that knows a round trip of 10 ms and whose eight units in transit left one a millisecond. The first of them
/// expires 35 ms after it left: 10 + 4 * 5 + 5.
fn flight(congestion: ControllerKind) -> Half {
    let mut half = Half::sender(&Config { congestion, ..config() });
    half.send(&bytes(50));
    half.take();
    half.feed(&request(&[(0, 50)]));
    // The pacer of `bbr` does not let it go at once.
    let mut first = units(&mut half);
    while first.is_empty() {
        half.advance(Duration::from_micros(10));
        first = units(&mut half);
    }
    half.millis(10);
    half.feed(&ack(true, &[first[0].sequence, first[0].sequence.wrapping_add(1)]));
    for _ in 0..8 {
        half.millis(1);
        let number = half.send(&bytes(100)) as u32;
        half.feed(&request(&[(number, 100)]));
    }
    assert_eq!(units(&mut half).len(), 8);
    half
}

#[test]
fn a_flight_that_is_lost_doubles_the_timeout_once_and_asks_what_has_become_of_it() {
    //= Z-8, Z-12 test
    // The first goes again whatever the window, the others as soon as that lets them. Then it goes on with 70 and 140 ms.
    let expected: [(_, &[u64]); 3] = [
        (config().congestion, &[28, 29, 30, 31, 32, 33, 34, 35, 98, 99]),
        (ControllerKind::Cubic, &[28, 35, 98, 105, 238, 245]),
        (ControllerKind::Bbr, &[29, 34, 35, 36, 99, 104, 105, 106]),
    ];
    for (congestion, times) in expected {
        let mut half = flight(congestion);
        assert_eq!(transmissions(&mut half, 260)[..times.len()], *times, "{congestion}");
    }
}

#[test]
fn the_timeout_follows_the_round_trip_and_has_a_floor() {
    //= Z-12 test
    for (floor, rtt, expected) in [(20, 1, 20), (6, 1, 8), (6, 0, 6), (20, 100, 305)] {
        let config = Config { timeout_floor: Duration::from_millis(floor), ..config() };
        let (mut half, _, first) = started(&config, 50);
        half.send(&bytes(10));
        half.take();
        half.millis(rtt);
        half.feed(&ack(true, &[first, first.wrapping_add(1)]));
        half.feed(&request(&[(1, 10)]));
        half.take();
        assert_eq!(transmissions(&mut half, 400).first(), Some(&expected), "floor {floor}, round trip {rtt}");
    }
}

#[test]
fn a_measure_shortens_the_timeout_of_what_is_already_in_transit() {
    //= Z-12 test
    let (mut half, _, first) = started(&config(), 1000);
    half.millis(2);
    half.feed(&ack(true, &[first, first.wrapping_add(9)]));
    // Unit 9 has been under way for 2 ms; 20 ms, the floor, are enough, though the timer was set for 200 ms.
    let times = transmissions(&mut half, 100);
    assert!((18..=21).contains(&times[0]), "{times:?}");
}

#[test]
fn early_requests_are_remembered_1024_messages_ahead() {
    //= Z-13 test
    let mut half = Half::sender(&config());
    half.feed(&request(&[(1023, 10), (1024, 10), (5000, 10), (3, 5), (3, 500)]));
    assert_eq!(half.tx().counters().requests_ignored, 2);
    for _ in 0..1030 {
        half.send(&bytes(10));
    }
    let sent_units = half.take_units();
    let found: Vec<_> = sent_units.iter().map(|(unit, _)| (unit.message, unit.refused)).collect();
    assert_eq!(found, [(3, true), (1023, false)], "the first pair counts, too small here; 1024 comes again");
    half.feed(&request(&[(1024, 10)]));
    assert_eq!(names(&units(&mut half)), [(1024, 0)]);
}

#[test]
fn requests_for_messages_under_way_or_ended_change_nothing() {
    //= Z-13 test
    let (mut half, _, first) = started(&config(), 100);
    half.feed(&request(&[(0, 100)]));
    half.feed(&request(&[(0, 1)]));
    assert!(half.take().is_empty());
    half.feed(&ack(true, &[first, first.wrapping_add(1)]));
    half.feed(&request(&[(0, 100), (u32::MAX, 100)]));
    half.millis(100);
    assert!(half.take().is_empty());
}

#[test]
fn malformed_control_datagrams_are_counted_and_nothing_else() {
    //= Z-13 test
    let (mut half, _, first) = started(&config(), 1000);
    let lies: Vec<Vec<u8>> = vec![
        control(0x83, &[0]),                                               // too short
        control(0x83, &[0, 0]),                                            // a request without a pair
        control(0x83, &[2, 0, 100]),                                       // two pairs, one there
        control(0x83, &[u32::MAX, 0, 100]),                                // 2^32 - 1 pairs
        control(0x81, &[u32::MAX, first, first.wrapping_add(10)]),         // length + 1 is 2^32
        control(0x81, &[2, first, first.wrapping_add(10)]),                // three numbers, two there
        control(0x81, &[1, first.wrapping_add(10), first]),                // they descend
        control(0x81, &[1, first, first.wrapping_add(65_536)]),            // they span 2^16
        control(0x84, &[0, 1, 1]),                                         // a flow hint without a pair
        control(0x85, &[1, first, first.wrapping_add(10)]),                // no such type
        [&ack(true, &[first, first.wrapping_add(10)])[..], &[0]].concat(), // not a multiple of 4
        vec![0x81],
        vec![0; 11],
        vec![0; 12],
    ];
    for lie in &lies {
        half.feed(lie);
    }
    assert_eq!(half.tx().counters().datagrams_malformed, lies.len() as u64);
    assert_eq!(half.tx().counters().acknowledgements_received, 0);
    assert!(half.take().is_empty() && half.take_events().is_empty());
    // Padding behind the numbers is ignored; numbers never sent are, too; so is a report that says nothing.
    let mut padded = vec![1, first.wrapping_sub(500), first.wrapping_add(10_000)];
    padded.resize(16_000, 0);
    half.feed(&control(0x81, &[0, first]));
    half.feed(&ack(false, &[first.wrapping_add(1 << 31), first.wrapping_add((1 << 31) + 5)]));
    assert!(half.take_events().is_empty() && half.take().is_empty());
    half.feed(&control(0x81, &padded));
    assert!(half.take_events().iter().any(sent(0, Ok(()))));
}

#[test]
fn a_message_longer_than_the_buffer_is_refused_by_one_unit() {
    //= Z-16 test
    let mut half = Half::sender(&config());
    half.send(&bytes(301));
    half.send(&bytes(10));
    half.take();
    half.feed(&request(&[(0, 300), (1, 10)]));
    let sent_units = units(&mut half);
    assert_eq!(names(&sent_units), [(0, 0), (1, 0)]);
    let refusal = sent_units[0];
    assert_eq!((refusal.length, refusal.refused, refusal.is_last), (0, true, true));
    assert!(!sent_units[1].refused && half.take_events().is_empty(), "the send fails when the refusal is acknowledged");
    // It is repeated like any other.
    half.feed(&ack(false, &[refusal.sequence, refusal.sequence.wrapping_add(1)]));
    let again = units(&mut half);
    assert!(again[0].refused && again[0].is_last);
    half.feed(&ack(true, &[refusal.sequence.wrapping_add(1), refusal.sequence.wrapping_add(3)]));
    let events = half.take_events();
    assert!(events.iter().any(sent(0, Err(Failure::TooLong))) && events.iter().any(sent(1, Ok(()))));
    assert!(half.tx().counters().messages_failed == 1 && half.tx().counters().messages_sent == 1);
}

#[test]
fn a_silent_peer_is_gone_after_ten_seconds_but_only_if_work_has_begun() {
    //= Z-19 test
    let mut half = Half::sender(&config());
    half.send(&bytes(10));
    half.send(&bytes(10));
    half.millis(60_000);
    assert!(half.take_events().is_empty(), "what has not begun waits without limit");
    half.feed(&request(&[(0, 10)]));
    half.call(|engine| {
        pinnace_core::Engine::handle_path_event(engine, Time::ZERO, pinnace_core::PathEvent::Unreachable);
    });
    half.millis(9_999);
    assert!(half.take_events().is_empty());
    assert_eq!(half.tx().counters().unreachable_reports, 1);
    half.millis(1);
    let events = half.take_events();
    assert!(events.iter().any(sent(0, Err(Failure::PeerGone))) && events.iter().any(sent(1, Err(Failure::PeerGone))));
    assert!(matches!(events[2], Event::SenderClosed(Failure::PeerGone)));
    assert_eq!(half.try_send(&[1]), Err(Refused::Closed(Failure::PeerGone)));
    half.take();
    half.feed(&request(&[(0, 10), (1, 10), (2, 10)]));
    half.millis(5000);
    assert!(half.take().is_empty() && half.take_events().is_empty());
}

#[test]
fn whoever_asks_for_all_but_the_first_has_had_it_from_another() {
    //= Z-4, Z-19 test
    let later = request(&[(1, 10), (2, 10)]);
    let mut half = Half::sender(&config());
    half.send(&bytes(10));
    for _ in 0..10 {
        half.feed(&later);
        half.millis(999);
        assert!(half.take_events().is_empty());
    }
    half.millis(10);
    half.feed(&later);
    let events = half.take_events();
    assert!(events.iter().any(sent(0, Err(Failure::PeerGone))) && events.len() == 2, "{events:?}");
    // The first request was lost a few times, and nobody was passed over afterwards.
    let mut half = Half::sender(&config());
    half.send(&bytes(10));
    half.feed(&later);
    half.millis(9900);
    half.feed(&later);
    half.feed(&request(&[(0, 10)]));
    let sequence = units(&mut half)[0].sequence;
    half.feed(&ack(true, &[sequence, sequence + 1]));
    half.millis(60_000);
    half.feed(&later);
    assert_eq!(half.take_events().len(), 1, "it was sent");
    half.send(&bytes(10));
    assert_eq!(names(&units(&mut half)), [(1, 0)]);
}

#[test]
fn two_strays_are_not_all_the_time() {
    //= Z-19 test
    let later = request(&[(1, 10), (2, 10)]);
    let mut half = Half::sender(&config());
    half.send(&bytes(10));
    half.feed(&later);
    half.millis(12_000);
    half.feed(&later);
    assert!(half.take_events().is_empty());
    half.feed(&request(&[(0, 10)]));
    assert_eq!(names(&units(&mut half)), [(0, 0)]);
}

#[test]
fn whoever_asks_for_nothing_but_what_has_ended_was_started_again() {
    //= Z-13, Z-19 test
    let first = request(&[(0, 10)]);
    let served = || {
        let mut half = Half::sender(&config());
        half.send(&bytes(10));
        half.feed(&first);
        let sequence = units(&mut half)[0].sequence;
        half.feed(&ack(true, &[sequence, sequence + 1]));
        assert!(half.take_events().iter().any(sent(0, Ok(()))));
        half
    };
    let mut half = served();
    half.send(&bytes(10));
    for _ in 0..10 {
        half.feed(&first);
        half.feed(&flow());
        half.millis(999);
        assert!(half.take_events().is_empty());
    }
    half.millis(10);
    half.feed(&first);
    let events = half.take_events();
    assert!(events.iter().any(sent(1, Err(Failure::PeerGone))) && events.len() == 2, "{events:?}");
    // One that came late is no sign; neither is one without numbers, by which a receiver introduces itself.
    let mut half = served();
    half.send(&bytes(10));
    half.feed(&first);
    half.feed(&request(&[]));
    half.millis(5000);
    half.feed(&request(&[(1, 10)]));
    assert_eq!(names(&units(&mut half)), [(1, 0)]);
    let mut half = served();
    half.millis(60_000);
    half.feed(&first);
    half.feed(&flow());
    assert!(half.take_events().is_empty(), "there is nothing that could wait");
}

#[test]
fn requests_of_another_life_of_the_receiver_do_not_keep_a_message_alive() {
    //= Z-19 test
    let (mut half, _, _) = started(&config(), 10);
    // The receiver was started again: it has no use for what is in transit, and asks for messages of its own.
    for _ in 0..31 {
        half.feed(&request(&[(0, 10), (1, 10)]));
        half.feed(&flow());
        half.millis(1000);
    }
    assert!(half.take_events().iter().any(sent(0, Err(Failure::PeerGone))));
}

#[test]
fn idle_datagrams_announce_what_has_no_request() {
    //= Z-21 test
    let mut half = Half::sender(&config());
    half.send(&bytes(10));
    half.send(&bytes(10));
    let mut expected = vec![0; 28];
    expected[24] = 8;
    let announced = half.take();
    assert_eq!(announced.len(), 1, "the first message introduces the sender at once");
    expected[3] = 1;
    assert_eq!(announced[0], expected, "its number is that of the next send");
    half.millis(999);
    assert!(half.take().is_empty());
    half.millis(1);
    assert!(is_idle(&half.take()[0]));
    half.feed(&request(&[(0, 10), (1, 10)]));
    half.millis(150);
    assert!(half.take().iter().all(|datagram| !is_idle(datagram)), "nothing to announce");
}

#[test]
fn a_request_for_messages_nobody_has_sent_is_answered_if_that_stays_so() {
    //= Z-21 test
    let mut half = Half::sender(&config());
    half.feed(&request(&[(0, 10)]));
    half.millis(19);
    assert!(half.take().is_empty());
    half.millis(1);
    assert!(is_idle(&half.take()[0]));
    half.millis(5000);
    assert!(half.take().is_empty(), "one answer a request");
}

#[test]
fn a_flow_hint_makes_waiting_messages_count() {
    //= Z-19, Z-21 test
    let mut half = Half::sender(&config());
    half.send(&bytes(10));
    half.feed(&flow());
    assert_eq!(half.tx().counters().flow_hints_received, 1);
    half.millis(9_000);
    half.feed(&flow());
    half.millis(9_999);
    assert!(half.take_events().is_empty());
    half.millis(1);
    assert!(half.take_events().iter().any(sent(0, Err(Failure::PeerGone))));
}

#[test]
fn a_held_sender_waits_for_full_trains_while_something_is_in_transit() {
    //= Z-9 test
    let mut half = Half::sender(&Config { unit_size: UnitSize::Fixed(1472), ..config() });
    half.feed(&request(&(0..200).map(|n| (n, 1000)).collect::<Vec<_>>()));
    half.call(|engine| pinnace_core::Engine::handle_hold(engine, true));
    half.send(&bytes(1000));
    assert_eq!(units(&mut half).len(), 1, "nothing is in transit: do not wait");
    for _ in 0..40 {
        half.send(&bytes(1000));
    }
    assert!(half.take().is_empty());
    for _ in 0..30 {
        half.send(&bytes(1000));
    }
    assert!(units(&mut half).len() >= 60, "a full train leaves");
    half.call(|engine| pinnace_core::Engine::handle_hold(engine, false));
    assert_eq!(half.tx().counters().units_sent, 64, "the window bounds what is released");
}

#[test]
fn closing_fails_everything_and_stops() {
    //= Z-15 test
    let (mut half, _, first) = started(&config(), 1000);
    half.send(&bytes(10));
    half.take();
    half.call(|engine| engine.sender_mut().unwrap().close());
    let events = half.take_events();
    assert!(events.iter().any(sent(0, Err(Failure::Closed))) && events.iter().any(sent(1, Err(Failure::Closed))));
    assert!(matches!(events[2], Event::SenderClosed(Failure::Closed)));
    half.call(|engine| engine.sender_mut().unwrap().close());
    half.feed(&ack(true, &[first, first.wrapping_add(10)]));
    half.millis(20_000);
    assert!(half.take().is_empty() && half.take_events().is_empty());
    assert_eq!(half.try_send(&[]), Err(Refused::Closed(Failure::Closed)));
}

#[test]
fn what_goes_after_a_withdrawal_takes_the_place_of_what_nobody_has_asked_for() {
    //= Z-3 test
    let (mut half, _, first) = started(&config(), 10);
    half.send(&bytes(20));
    half.send(&bytes(30));
    half.take();
    let now = half.now;
    half.call(|engine| engine.sender_mut().unwrap().withdraw(now));
    let events = half.take_events();
    assert!(
        events.len() == 2 && [1, 2].iter().all(|n| events.iter().any(sent(*n, Err(Failure::Closed)))),
        "{events:?}"
    );
    assert_eq!(half.send(&bytes(5)), 1);
    half.feed(&ack(true, &[first, first.wrapping_add(1)]));
    half.feed(&request(&[(1, 100)]));
    let units = units(&mut half);
    assert_eq!((names(&units), units[0].length), (vec![(1, 0)], 5));
    half.feed(&ack(true, &[first.wrapping_add(1), first.wrapping_add(2)]));
    let events = half.take_events();
    assert!(events.iter().any(sent(0, Ok(()))) && events.iter().any(sent(1, Ok(()))), "{events:?}");
}

#[test]
fn a_request_for_a_message_far_on_is_for_no_other_after_a_withdrawal() {
    //= Z-3, Z-13 test
    let mut half = Half::sender(&config());
    for _ in 0..10 {
        half.send(&bytes(10));
    }
    half.feed(&request(&[(1030, 1000)]));
    let now = half.now;
    half.call(|engine| engine.sender_mut().unwrap().withdraw(now));
    for _ in 0..10 {
        half.send(&bytes(10));
    }
    assert_eq!(names(&units(&mut half)), [], "nobody has asked for one");
    half.feed(&request(&[(6, 10)]));
    assert_eq!(names(&units(&mut half)), [(6, 0)]);
}

#[test]
fn what_was_requested_and_has_not_begun_is_withdrawn_and_its_buffer_is_for_the_next() {
    //= Z-3 test
    let config = Config { window_units: 2, ..config() };
    let mut half = Half::sender(&config);
    for size in [10, 20, 30, 40] {
        half.send(&bytes(size));
    }
    half.take();
    // Two go, and fill the window; the second announces the third, which so has begun as well.
    half.feed(&request(&[(0, 100), (1, 100), (2, 100), (3, 100)]));
    let units = units(&mut half);
    assert_eq!(names(&units), [(0, 0), (1, 0)]);
    let now = half.now;
    half.call(|engine| engine.sender_mut().unwrap().withdraw(now));
    let events = half.take_events();
    assert!(events.len() == 1 && events.iter().any(sent(3, Err(Failure::Closed))), "{events:?}");
    let number = half.send(&bytes(5));
    assert_eq!(number, 3);
    let first = units[0].sequence;
    half.feed(&ack(true, &[first, first.wrapping_add(2)]));
    let later = self::units(&mut half);
    let last = later.last().expect("what was sent instead");
    assert_eq!((u64::from(last.message), last.length, last.next), (number, 5, None), "without another request");
    half.feed(&ack(true, &[first, first.wrapping_add(4)]));
    let ends = half.take_events();
    assert!((0..=number).all(|number| ends.iter().any(sent(number, Ok(())))), "{ends:?}");
}

#[test]
fn messages_under_way_are_bounded() {
    //= Z-17 test
    let mut half = Half::sender(&Config { max_messages: 2, ..config() });
    half.send(&bytes(10));
    half.send(&bytes(10));
    assert_eq!(half.try_send(&[1]), Err(Refused::TooMany));
    half.take();
    half.feed(&request(&[(0, 10)]));
    let first = units(&mut half)[0].sequence;
    half.feed(&ack(true, &[first, first.wrapping_add(1)]));
    assert_eq!(half.send(&[1]), 2, "no number was taken by the refused call");
}

#[test]
fn units_of_any_size_from_29_to_65507_are_sent() {
    for (unit_bytes, size, count) in [(29, 5, 5), (29, 0, 1), (65_507, 65_479, 1), (65_507, 65_480, 2), (0, 3, 3)] {
        let (_, sent_units, _) = started(&Config { unit_size: UnitSize::Fixed(unit_bytes), ..config() }, size);
        assert_eq!(sent_units.len(), count, "U {unit_bytes}, {size} bytes");
        let total: u32 = sent_units.iter().map(|unit| unit.length).sum();
        assert_eq!(total as usize, size);
    }
}

#[test]
fn a_train_that_waits_to_become_fuller_makes_no_busy_loop_when_the_window_closes() {
    //= Z-9 test
    let config = Config { window_units: 16_384, seed: 1, ..Config::default() };
    let mut half = Half::sender(&config);
    half.send(&bytes(4_000_000));
    half.take();
    half.feed(&request(&[(0, 4_000_000)]));
    for _ in 0..2000 {
        // One in ten is lost from the moment the window is wide: it shrinks while trains wait.
        let lossy = half.tx().counters().units_sent > 600;
        let sequences: Vec<u32> = units(&mut half).iter().map(|unit| unit.sequence).collect();
        half.millis(1);
        for low in sequences {
            half.feed(&ack(!lossy || low % 10 > 0, &[low, low.wrapping_add(1)]));
            half.advance(Duration::from_micros(20));
        }
    }
    assert!(half.take_events().iter().any(sent(0, Ok(()))));
}

#[test]
fn a_sender_whose_messages_have_all_ended_does_not_miss_its_peer() {
    //= Z-19 test
    let (mut half, _, first) = started(&Config { window_units: 2, ..config() }, 1000);
    // Units 0 and 1 are reported lost; while they wait to be sent again, they turn out to have arrived, like the rest.
    half.feed(&ack(false, &[first, first.wrapping_add(2)]));
    for _ in 0..20 {
        half.feed(&ack(true, &[first, first.wrapping_add(20)]));
        half.take();
    }
    assert!(half.take_events().iter().any(sent(0, Ok(()))));
    half.millis(30_000);
    assert!(half.take_events().is_empty(), "nothing was outstanding");
    assert_eq!(half.send(&[1]), 1);
}

#[test]
fn an_acknowledgement_in_time_leaves_nothing_outstanding() {
    //= Z-8, Z-19 test
    let mut half = Half::sender(&Config { window_units: 1, ..config() });
    half.send(&bytes(10));
    half.take();
    half.feed(&request(&[(0, 10)]));
    let first = units(&mut half)[0].sequence;
    half.call(|engine| pinnace_core::Engine::handle_hold(engine, true));
    // Lost and found in one report: the unit waits to be sent again, and then does not have to.
    half.feed(&ack(false, &[first, first.wrapping_add(1)]));
    half.take();
    half.feed(&ack(true, &[first, first.wrapping_add(1)]));
    half.take();
    half.millis(30_000);
    let events = half.take_events();
    assert!(events.len() == 1 && sent(0, Ok(()))(&events[0]), "{events:?}");
}
