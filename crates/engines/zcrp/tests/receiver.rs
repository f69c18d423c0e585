//! A receiver whose peer is the test: exact datagrams in, exact answers out.

mod common;

use common::half::{Half, bytes, control, dropped, flow, is_flow, parse_ack, piece, plain_unit, posted, request, unit};
use core::time::Duration;
use pinnace_core::{Engine, PathEvent, ReceivePlan, Slot, Time};
use pinnace_wire::zcrp::{Unit, encode_idle};
use pinnace_zcrp::{Config, Event, Failure, Receiver, Refused, Sender, Zcrp};

fn received(number: u64, result: Result<u32, Failure>) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Received { number: n, result: r, .. } if *n == number && *r == result)
}

/// Patient: only the count, the timer and the ends of messages make it acknowledge.
fn patient() -> Config {
    Config { ack_units: 16, ..Config::default() }
}

#[test]
fn a_request_is_pairs_of_number_and_buffer_size() {
    //= Z-3, Z-4, Z-17 test
    let mut half = Half::receiver(&Config::default());
    half.post(1000);
    let mut expected = vec![0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x03, 0xE8];
    expected.extend_from_slice(&[0x83, 0, 0, 0]);
    assert_eq!(half.take(), [expected]);
    half.post(7);
    assert_eq!(half.take(), [request(&[(1, 7)])]);
}

#[test]
fn requests_fill_512_bytes_and_reach_1024_messages_ahead() {
    //= Z-13 test
    let mut half = Half::receiver(&Config::default());
    half.call(|engine| engine.handle_hold(true));
    for _ in 0..1100 {
        half.post(10);
    }
    half.call(|engine| engine.handle_hold(false));
    half.millis(1);
    let datagrams = half.take();
    assert!(datagrams.iter().all(|datagram| datagram.len() <= 512));
    let pairs: Vec<_> = datagrams.iter().flat_map(|d| common::half::parse_request(d).unwrap()).collect();
    assert!(pairs.iter().copied().eq((0..1024).map(|n| (n, 10))), "{} pairs", pairs.len());
    assert!(datagrams.len() <= 20, "held back, they share datagrams: {}", datagrams.len());
    half.feed(&piece(0, 0, 5, 10));
    half.millis(1);
    assert_eq!(half.take_requests(), [[(1024, 10)]], "one has ended, one more may come");
}

#[test]
fn a_request_is_repeated_alike_until_a_unit_of_its_message_comes() {
    //= Z-13 test
    let mut half = posted(&Config::default(), &[1000, 2000]);
    half.millis(49);
    assert!(half.take().is_empty());
    half.millis(1);
    assert_eq!(half.take_requests(), [[(0, 1000), (1, 2000)]]);
    half.feed(&piece(0, 0, 1, 1000));
    half.take();
    half.millis(100);
    assert_eq!(half.take_requests(), [[(1, 2000)]], "message 0 has begun");
    let mut times = Vec::new();
    for time in 0..4000 {
        half.feed(&piece(0, 0, 1 + time, 1000));
        half.millis(1);
        times.extend(half.take_requests().iter().map(|_| time + 1));
    }
    assert_eq!(times, [200, 600, 1400, 2400, 3400], "doubling to a second");
    assert_eq!(half.rx().counters().requests_repeated, 8);
}

#[test]
fn intervals_alternate_and_an_undecided_number_ends_the_block() {
    //= Z-10, Z-11 test
    let mut half = posted(&patient(), &[5000]);
    for number in [0, 1, 3, 4, 5, 7] {
        half.feed(&piece(0, number, 1000 + number, 5000));
    }
    let acks = half.take_acks();
    // 1002 is lost, as three later ones have come; 1006 is not known yet.
    assert_eq!(acks, [[(1000, 1002, true), (1002, 1003, false), (1003, 1006, true)]]);
    half.millis(5);
    let acks = half.take_acks();
    assert_eq!(
        acks.concat().iter().filter(|interval| !interval.2).collect::<Vec<_>>()[..],
        [&(1002, 1003, false), &(1006, 1007, false)]
    );
    assert_eq!(half.rx().counters().units_reported_lost, 2);
    // It comes late, and is reported as received.
    half.feed(&piece(0, 6, 1006, 5000));
    half.millis(5);
    assert!(half.take_acks().concat().iter().any(|&(low, high, sign)| sign && (low..high).contains(&1006)));
}

#[test]
fn a_datagram_that_the_network_doubled_is_one_later_number() {
    //= Z-10 test
    let mut half = posted(&patient(), &[5000]);
    half.feed(&piece(0, 0, 1000, 5000));
    for _ in 0..3 {
        half.feed(&piece(0, 2, 1002, 5000));
    }
    assert_eq!(half.rx().counters().units_reported_lost, 0, "only one later number has come");
    half.millis(5);
    assert_eq!(half.rx().counters().units_reported_lost, 1);
}

#[test]
fn an_acknowledgement_waits_for_units_or_five_milliseconds() {
    //= Z-11 test
    let mut half = posted(&patient(), &[50_000]);
    for number in 0..15 {
        half.feed(&piece(0, number, number, 50_000));
    }
    assert!(half.take().is_empty());
    half.feed(&piece(0, 15, 15, 50_000));
    assert_eq!(half.take_acks(), [[(0, 16, true)]]);
    half.feed(&piece(0, 16, 16, 50_000));
    half.advance(Duration::from_micros(4_999));
    assert!(half.take().is_empty());
    half.advance(Duration::from_micros(1));
    assert_eq!(half.take_acks(), [[(0, 17, true)]], "what was reported once may be repeated");
    // By default a batch of two is enough: the specification's *or one batch read*.
    let mut half = posted(&Config::default(), &[50_000]);
    half.read(&[piece(0, 0, 0, 50_000), piece(0, 1, 1, 50_000)]);
    assert_eq!(half.take_acks(), [[(0, 2, true)]]);
}

#[test]
fn completion_and_a_unit_that_announces_nothing_are_acknowledged_at_once() {
    //= Z-11 test
    let mut half = posted(&patient(), &[200, 1000]);
    half.feed(&piece(0, 0, 9, 200));
    assert!(half.take().is_empty());
    let mut last =
        Unit { message: 0, unit: 1, sequence: 10, next: Some((1, 0)), length: 100, is_last: true, refused: false };
    half.feed(&unit(&last, &bytes(200)[100..], 0));
    assert_eq!(half.take_acks(), [[(9, 11, true)]], "a message is complete");
    last = Unit { message: 1, unit: 0, sequence: 11, next: None, length: 100, is_last: false, refused: false };
    half.feed(&unit(&last, &bytes(100), 0));
    assert_eq!(half.take_acks().concat().last().map(|interval| interval.1), Some(12), "nothing follows");
}

#[test]
fn a_lost_acknowledgement_costs_nothing() {
    //= Z-11 test
    let mut half = posted(&patient(), &[50_000]);
    for number in 0..48 {
        half.feed(&piece(0, number, number, 50_000));
    }
    let acks = half.take_acks();
    assert_eq!(acks, [vec![(0, 16, true)], vec![(0, 32, true)], vec![(0, 48, true)]], "each says those before again");
}

#[test]
fn several_lost_acknowledgements_in_a_row_cost_nothing() {
    //= Z-11 test
    let mut half = posted(&patient(), &[500_000]);
    // Now and then a unit is lost, too.
    for number in (0..16 * 100).filter(|number| number % 50 != 13) {
        half.feed(&piece(0, number, number, 500_000));
    }
    half.millis(5);
    let acks = half.take_acks();
    for reports in acks.windows(16) {
        let newest = reports[0].last().unwrap().1 - 1;
        // A report is two datagrams where a number is undecided.
        let last = reports[14..].concat();
        assert!(last.iter().any(|&(low, high, kept)| kept && (low..high).contains(&newest)), "{newest}: {last:?}");
    }
    // What is said again stays within bounds where every second unit is lost.
    for number in (1600..4000).step_by(2) {
        half.feed(&piece(0, number, number, 500_000));
        let said = half.take_acks().concat();
        assert!(said.len() <= 512 / 16 + 64, "unit {number}: {} intervals", said.len());
    }
}

#[test]
fn duplicates_are_acknowledged_again_and_dropped() {
    //= Z-14 test
    let mut half = posted(&patient(), &[200, 200]);
    half.feed(&piece(0, 0, 50, 200));
    half.feed(&piece(0, 0, 51, 200));
    assert_eq!(half.take_acks(), [[(50, 52, true)]]);
    half.feed(&piece(0, 1, 52, 200));
    half.take();
    assert!(half.take_events().iter().any(received(0, Ok(200))));
    // Of a message that has ended.
    half.feed(&piece(0, 1, 53, 200));
    assert!(half.take_acks().concat().iter().any(|&(_, high, sign)| sign && high == 54));
    assert!(half.take_events().is_empty());
    assert_eq!(half.rx().counters().units_duplicate, 2);
    assert_eq!(half.buffer(0)[..200], bytes(200));
}

#[test]
fn what_the_network_doubled_is_acknowledged_again_but_not_at_once() {
    //= Z-11, Z-14 test
    let mut half = posted(&Config::default(), &[1000]);
    half.feed(&piece(0, 0, 50, 1000));
    for _ in 0..5 {
        half.feed(&piece(0, 0, 50, 1000));
        assert!(half.take().is_empty());
    }
    half.feed(&piece(0, 1, 51, 1000));
    assert_eq!(half.take_acks(), [[(50, 52, true)]]);
    half.feed(&piece(0, 1, 51, 1000));
    assert!(half.take().is_empty());
    half.millis(5);
    assert_eq!(half.take_acks(), [[(50, 52, true)]]);
    // Another number is a repetition, and shows that the sender waits.
    half.feed(&piece(0, 1, 52, 1000));
    assert_eq!(half.take_acks(), [[(50, 53, true)]]);
}

#[test]
fn a_duplicate_announces_too() {
    //= Z-7, Z-18 test
    let mut half = posted(&patient(), &[300, 300]);
    for number in 0..3 {
        half.feed(&piece(0, number, number, 300));
    }
    // The sender repeats the last unit of message 0, and says that unit 1 of message 1 follows.
    let again =
        Unit { message: 0, unit: 2, sequence: 3, next: Some((1, 1)), length: 100, is_last: true, refused: false };
    half.feed(&unit(&again, &bytes(300)[200..], 0));
    half.feed(&piece(1, 1, 4, 300));
    assert_eq!(half.rx().counters().units_in_place, 4, "{:?}", half.rx().counters());
    assert_eq!(half.rx().counters().units_copied, 0);
}

#[test]
fn what_nobody_asked_for_or_does_not_fit_is_dropped_without_acknowledgement() {
    //= Z-14, Z-20 test
    let mut half = posted(&Config::default(), &[250, 250]);
    half.feed(&piece(1, 0, 1, 250));
    half.millis(10);
    half.take();
    dropped(&mut half, &piece(2, 0, 2, 100), |seen| seen.units_unrequested);
    dropped(&mut half, &piece(u32::MAX, 0, 2, 100), |seen| seen.units_unrequested);
    dropped(&mut half, &plain_unit(0, 2, 3, &[9; 51], true), |seen| seen.units_contradictory); // one byte beyond
    dropped(&mut half, &plain_unit(0, 2, 3, &[9; 100], false), |seen| seen.units_contradictory);
    dropped(&mut half, &plain_unit(0, u32::MAX, 3, &[9; 100], false), |seen| seen.units_contradictory);
    dropped(&mut half, &plain_unit(0, u32::MAX, 3, &[9; 100], true), |seen| seen.units_contradictory);
    dropped(&mut half, &plain_unit(0, 0, 3, &[9; 99], false), |seen| seen.units_contradictory); // another F
    dropped(&mut half, &plain_unit(0, 0, 3, &[9; 101], true), |seen| seen.units_contradictory); // more than F
    // Another is-last than before.
    half.feed(&plain_unit(1, 1, 4, &bytes(150)[100..], true));
    half.take();
    assert!(half.take_events().iter().any(received(1, Ok(150))));
    half.feed(&plain_unit(0, 1, 5, &bytes(200)[100..], true));
    half.millis(10);
    half.take();
    dropped(&mut half, &plain_unit(0, 0, 6, &bytes(100), true), |seen| seen.units_contradictory);
    dropped(&mut half, &plain_unit(0, 2, 6, &[1; 50], true), |seen| seen.units_contradictory);
    half.feed(&plain_unit(0, 0, 6, &bytes(100), false));
    assert!(half.take_events().iter().any(received(0, Ok(200))));
    assert_eq!(half.buffer(0)[..200], bytes(200));
}

#[test]
fn numbers_of_another_life_are_dropped_without_acknowledgement() {
    //= Z-6 test
    let mut half = posted(&Config::default(), &[10_000]);
    half.feed(&piece(0, 0, 100, 10_000));
    half.millis(10);
    half.take();
    dropped(&mut half, &piece(0, 1, 100 + 65_536, 10_000), |seen| seen.units_stale);
    dropped(&mut half, &piece(0, 1, 100u32.wrapping_sub(65_536), 10_000), |seen| seen.units_stale);
    dropped(&mut half, &piece(0, 1, 100 + (1 << 31), 10_000), |seen| seen.units_stale);
    half.feed(&piece(0, 1, 100 + 65_535, 10_000));
    half.feed(&piece(0, 2, 101, 10_000));
    half.millis(10);
    half.take();
    dropped(&mut half, &piece(0, 3, 99, 10_000), |seen| seen.units_stale);
    assert_eq!(half.rx().counters().bytes_received, 300, "both edges of the same life");
}

#[test]
fn sequence_numbers_wrap() {
    //= Z-6 test
    let mut half = posted(&patient(), &[1000]);
    for number in 0..10 {
        half.feed(&piece(0, number, (u32::MAX - 4).wrapping_add(number), 1000));
    }
    assert_eq!(half.take_acks(), [[(u32::MAX - 4, 5, true)]]);
    assert!(half.take_events().iter().any(received(0, Ok(1000))));
}

#[test]
fn a_refusal_fails_the_receive_and_is_acknowledged() {
    //= Z-16 test
    let mut half = posted(&patient(), &[10, 10]);
    let refusal = Unit { message: 0, unit: 0, sequence: 3, next: None, length: 0, is_last: true, refused: true };
    half.feed(&unit(&refusal, &[], 0));
    assert!(half.take_events().iter().any(received(0, Err(Failure::TooLong))));
    assert_eq!(half.take_acks(), [[(3, 4, true)]]);
    half.feed(&unit(&Unit { sequence: 4, ..refusal }, &[], 0));
    assert_eq!(half.take_acks(), [[(3, 5, true)]], "again, for the acknowledgement was lost");
    half.feed(&piece(1, 0, 5, 10));
    assert!(half.take_events().iter().any(received(1, Ok(10))));
    // A message that has begun cannot be refused any more.
    let mut half = posted(&patient(), &[200]);
    half.feed(&piece(0, 0, 1, 200));
    half.millis(10);
    half.take();
    dropped(&mut half, &unit(&Unit { sequence: 2, ..refusal }, &[], 0), |seen| seen.units_contradictory);
}

#[test]
fn every_unit_size_is_accepted_and_nothing_behind_the_buffer_is_touched() {
    //= Z-5, Z-18 test
    for fragment in [1usize, 2, 100, 1444, 65_479] {
        for size in [0usize, 1, fragment - 1, fragment, fragment + 1, 3 * fragment + fragment / 2] {
            let size = size.min(150_000);
            // A buffer of exactly the size, and larger ones; padded last units, and bare ones.
            for (room, padding) in [(0, 0), (0, fragment), (1, 0), (fragment, 7)] {
                let mut half = posted(&patient(), &[size + room]);
                let data = bytes(size);
                let count = size.div_ceil(fragment).max(1);
                for number in 0..count {
                    let (low, high) = (number * fragment, ((number + 1) * fragment).min(size));
                    let is_last = number + 1 == count;
                    let unit_of = Unit {
                        message: 0,
                        unit: number as u32,
                        sequence: number as u32,
                        next: (!is_last).then_some((0, number as u32 + 1)),
                        length: (high - low) as u32,
                        is_last,
                        refused: false,
                    };
                    let padding = if is_last { padding.min(fragment - (high - low)) } else { 0 };
                    half.feed(&unit(&unit_of, &data[low..high], padding));
                }
                let events = half.take_events();
                assert!(events.iter().any(received(0, Ok(size as u32))), "F {fragment}, {size} bytes: {events:?}");
                assert_eq!(half.buffer(0)[..size], data, "F {fragment}, {size} bytes");
            }
        }
    }
}

#[test]
fn trains_in_any_order_with_wrong_guesses_end_up_right() {
    //= Z-18, Z-20 test
    for seed in 0..300 {
        let mut random = pinnace_core::Random::from_seed(seed);
        let sizes: Vec<usize> = (0..4).map(|_| random.below(1200) as usize).collect();
        let mut half = posted(&patient(), &sizes.iter().map(|size| size + 50).collect::<Vec<_>>());
        let mut all: Vec<(u32, u32)> = Vec::new();
        for (message, size) in sizes.iter().enumerate() {
            all.extend((0..size.div_ceil(100).max(1) as u32).map(|number| (message as u32, number)));
        }
        // Twice, in disorder, in trains of equal datagrams as a coalesced read brings them.
        let mut order: Vec<(u32, u32)> = [all.clone(), all.clone(), all.clone()].concat();
        for index in (1..order.len()).rev() {
            order.swap(index, random.below(index as u64 + 1) as usize);
        }
        order.extend(all);
        let mut train: Vec<Vec<u8>> = Vec::new();
        for (sequence, (message, number)) in order.into_iter().enumerate() {
            let mut datagram = piece(message, number, sequence as u32, sizes[message as usize]);
            if random.chance(0.5) {
                // A false announcement.
                let at = datagram.len() - 16;
                datagram[at + 3] = random.below(5) as u8;
                datagram[at + 7] = random.below(12) as u8;
            }
            if train.first().is_some_and(|first| first.len() != datagram.len()) || train.len() == 20 {
                half.read(&core::mem::take(&mut train));
            }
            train.push(datagram);
        }
        half.read(&train);
        let events = half.take_events();
        for (message, &size) in sizes.iter().enumerate() {
            assert!(events.iter().any(received(message as u64, Ok(size as u32))), "seed {seed}: message {message}");
            assert_eq!(half.buffer(message)[..size], bytes(size), "seed {seed}: message {message}");
        }
        assert_eq!(events.len(), 4);
    }
}

#[test]
fn the_plan_is_the_unit_announced_then_what_is_missing() {
    //= Z-18 test
    let mut half = posted(&Config::default(), &[1000, 1000]);
    half.feed(&piece(0, 0, 1, 1000));
    let announced =
        Unit { message: 0, unit: 2, sequence: 2, next: Some((0, 5)), length: 100, is_last: false, refused: false };
    half.feed(&unit(&announced, &bytes(300)[200..], 0));
    let mut plan = ReceivePlan::new();
    plan.reset(8);
    half.engine.plan_receive(&mut plan);
    let places: Vec<(u32, u64)> = plan
        .slots()
        .iter()
        .filter_map(|slot| match slot {
            Slot::Payload(range) => Some((range.buffer.index(), range.offset)),
            Slot::Pooled(_) => None,
        })
        .collect();
    assert_eq!(places[..5], [(0, 500), (0, 600), (0, 700), (0, 800), (0, 900)]);
    assert_eq!(places[5], (1, 0), "then the message behind it");
    assert!(!places.contains(&(0, 0)) && !places.contains(&(0, 200)), "what has come is never planned for");
}

#[test]
fn a_silent_sender_is_gone_after_ten_seconds_but_only_once_a_message_has_begun() {
    //= Z-19 test
    let mut half = posted(&Config::default(), &[1000, 1000]);
    half.millis(60_000);
    assert!(half.take_events().is_empty());
    half.feed(&piece(0, 0, 1, 1000));
    half.call(|engine| engine.handle_path_event(Time::ZERO, PathEvent::Unreachable));
    half.millis(9_999);
    assert!(half.take_events().is_empty());
    half.millis(1);
    let events = half.take_events();
    assert!(
        events.iter().any(received(0, Err(Failure::PeerGone)))
            && events.iter().any(received(1, Err(Failure::PeerGone)))
    );
    assert!(matches!(events[2], Event::ReceiverClosed(Failure::PeerGone)));
    half.take();
    assert_eq!(half.try_post(10), Err(Refused::Closed(Failure::PeerGone)));
    // Units of a receiver that has failed are not acknowledged.
    half.feed(&piece(0, 1, 2, 1000));
    half.millis(100);
    assert!(half.take().is_empty() && half.take_events().is_empty());
}

#[test]
fn an_idle_sender_of_another_life_does_not_keep_a_message_alive() {
    //= Z-19 test
    let mut half = posted(&Config::default(), &[1000]);
    half.feed(&piece(0, 0, 1, 1000));
    // The sender was started again: it announces messages of its own, and never repeats the old ones.
    for second in 0..31 {
        half.feed(&encode_idle(second));
        half.feed(&piece(0, 1, 1 << 20, 1000));
        half.millis(1000);
    }
    assert!(half.take_events().iter().any(received(0, Err(Failure::Swallowed))));
}

#[test]
fn an_idle_sender_of_another_life_is_not_taken_for_the_one_that_has_gone() {
    //= Z-19 test
    for (announced, is_gone) in [(0, true), (1, false)] {
        let mut half = posted(&Config::default(), &[100, 100]);
        half.feed(&encode_idle(1));
        half.feed(&piece(0, 0, 1, 100));
        assert!(half.take_events().iter().any(received(0, Ok(100))));
        // The sender was started again, and begins with number 0: it waits for a request that does not come.
        for _ in 0..31 {
            half.feed(&encode_idle(announced));
            half.millis(1000);
        }
        assert_eq!(half.take_events().iter().any(received(1, Err(Failure::PeerGone))), is_gone);
    }
}

#[test]
fn idle_is_answered_by_a_flow_hint_if_there_is_nothing_to_request() {
    //= Z-21 test
    let mut half = Half::receiver(&Config::default());
    half.feed(&encode_idle(1));
    let answer = half.take();
    assert!(answer.len() == 1 && answer[0].len() == 16 && is_flow(&answer[0]), "{answer:?}");
    half.post(100);
    half.take();
    half.feed(&encode_idle(1));
    assert!(half.take().is_empty(), "the request is repeated by its own timer");
    // What has not begun is outstanding now.
    half.millis(9_999);
    assert!(half.take_events().is_empty());
    half.millis(1);
    assert!(half.take_events().iter().any(received(0, Err(Failure::PeerGone))));
    // Everything posted has begun: nothing to request.
    let mut half = posted(&Config::default(), &[1000]);
    half.feed(&piece(0, 0, 1, 1000));
    half.take();
    half.feed(&encode_idle(2));
    assert!(half.take().iter().any(|datagram| is_flow(datagram)));
}

#[test]
fn an_introduction_is_answered_by_a_flow_hint_whatever_there_is_to_request() {
    //= Z-21 test
    // Without it a sender would wait without end for a receiver that is killed before it ever has nothing to request.
    for limit_amplification in [false, true] {
        let mut half = Half::receiver(&Config { limit_amplification, ..Config::default() });
        for _ in 0..50 {
            half.post(100);
        }
        half.take();
        half.feed(&encode_idle(1));
        let mut answers = half.take();
        if limit_amplification {
            assert!(answers.iter().all(|datagram| !is_flow(datagram)), "the requests come first");
            half.feed(&piece(0, 0, 1, 100));
            answers = half.take();
        }
        assert_eq!(answers.iter().filter(|datagram| is_flow(datagram)).count(), 1, "{answers:?}");
        half.feed(&encode_idle(1));
        half.millis(1);
        assert!(half.take().iter().all(|datagram| !is_flow(datagram)), "it knows");
    }
}

#[test]
fn who_only_introduced_itself_cannot_fail_what_is_posted() {
    //= Z-19, Z-21 test
    let config = Config { limit_amplification: true, peer_unproven: true, ..Config::default() };
    let mut half = Half::receiver(&config);
    half.feed(&encode_idle(1));
    half.post(1000);
    half.millis(60_000);
    assert!(half.take_events().is_empty(), "it may have been anybody");
    half.feed(&encode_idle(1));
    assert!(!half.take().is_empty(), "and who comes later is asked");
    half.feed(&piece(0, 0, 1, 500));
    half.millis(9_999);
    assert!(half.take_events().is_empty());
    half.millis(1);
    assert!(half.take_events().iter().any(received(0, Err(Failure::PeerGone))), "a peer that was there has gone");
}

#[test]
fn who_said_more_than_its_name_can_fail_what_is_posted() {
    //= Z-19, Z-21 test
    // The link has become the peer's alone, and with it the endpoint, though no unit has come.
    let config = Config { limit_amplification: true, peer_unproven: true, ..Config::default() };
    let halves = (Sender::new(config.clone(), Time::ZERO), Receiver::new(config));
    let mut half = Half::new(Zcrp::new(Some(halves.0), Some(halves.1)));
    half.feed(&encode_idle(1));
    half.post(1000);
    half.feed(&control(0x85, &[0, 0]));
    half.millis(60_000);
    assert!(half.take_events().is_empty(), "what is malformed says nothing");
    half.feed(&control(0x81, &[0, 0]));
    half.millis(9_999);
    assert!(half.take_events().is_empty());
    half.millis(1);
    assert!(half.take_events().iter().any(received(0, Err(Failure::PeerGone))));
}

#[test]
fn closing_repeats_the_newest_acknowledgement_twice_and_answers_duplicates_meanwhile() {
    //= Z-15 test
    let mut half = posted(&Config::default(), &[100, 100, 1000]);
    half.feed(&piece(0, 0, 1, 100));
    half.feed(&piece(2, 0, 2, 1000));
    half.feed(&piece(2, 1, 3, 1000));
    half.millis(6);
    let newest = half.take().pop().expect("an acknowledgement");
    half.take_events();
    half.call(|engine| engine.receiver_mut().unwrap().close(Time::ZERO + Duration::from_millis(6)));
    let events = half.take_events();
    assert!(
        events.iter().any(received(1, Err(Failure::Closed))) && events.iter().any(received(2, Err(Failure::Closed)))
    );
    let failed = half.rx().counters().messages_failed;
    assert_eq!(failed, 1, "a buffer that nothing had come for is no message");
    assert_eq!(half.take(), core::slice::from_ref(&newest), "the whole of it");
    half.millis(19);
    assert!(half.take().is_empty());
    half.millis(1);
    assert_eq!(half.take(), [newest], "again after 20 ms");
    half.feed(&piece(0, 0, 4, 100));
    assert!(half.take_acks().concat().iter().any(|&(low, high, sign)| sign && (low..high).contains(&4)));
    half.feed(&piece(2, 2, 5, 1000));
    half.millis(6);
    let acks = half.take_acks().concat();
    assert!(
        !acks.iter().any(|&(low, high, sign)| sign && (low..high).contains(&5)),
        "of a message that failed: {acks:?}"
    );
    half.millis(14);
    assert!(half.take_events().iter().any(|event| matches!(event, Event::ReceiverClosed(Failure::Closed))));
    half.take();
    half.feed(&piece(0, 0, 6, 100));
    half.millis(1000);
    assert!(half.take().is_empty());
}

#[test]
fn closing_with_something_unreported_says_it_and_repeats_it_twice() {
    //= Z-15 test
    let mut half = posted(&patient(), &[100, 1000]);
    half.feed(&piece(0, 0, 1, 100));
    half.take();
    half.feed(&piece(1, 0, 2, 1000));
    assert!(half.take().is_empty());
    let now = half.now;
    half.call(|engine| engine.receiver_mut().unwrap().close(now));
    let newest = half.take();
    assert_eq!(newest.iter().filter_map(|datagram| parse_ack(datagram)).collect::<Vec<_>>(), [[(1, 3, true)]]);
    for _ in 0..2 {
        half.millis(19);
        assert!(half.take().is_empty());
        half.millis(1);
        assert_eq!(half.take(), newest);
    }
    let closed = |event: &Event| matches!(event, Event::ReceiverClosed(Failure::Closed));
    assert!(!half.take_events().iter().any(closed), "duplicates are still answered");
    half.millis(20);
    assert!(half.take_events().iter().any(closed) && half.take().is_empty());
}

#[test]
fn a_peer_that_introduced_itself_gets_three_times_its_bytes_at_most() {
    //= Z-21 test
    let config = Config { limit_amplification: true, ..Config::default() };
    let mut half = Half::receiver(&config);
    for _ in 0..200 {
        half.post(10);
    }
    assert!(half.take().is_empty(), "nothing has come yet");
    let mut random = pinnace_core::Random::from_seed(1);
    let (mut came, mut went) = (0, 0);
    for turn in 0..200u32 {
        let datagram = match random.below(4) {
            0 => encode_idle(1).to_vec(),
            1 => vec![7; 1 + random.below(40) as usize],
            2 => piece(turn, 0, turn, 10),
            _ => flow(),
        };
        came += datagram.len() + 28;
        half.feed(&datagram);
        half.millis(random.below(20));
        went += half.take().iter().map(|datagram| datagram.len() + 28).sum::<usize>();
        assert!(went <= 3 * came, "{went} bytes answer {came}");
    }
    assert!(half.rx().counters().answers_withheld > 0);
    assert!(half.rx().counters().messages_received > 10, "it works all the same");
}

#[test]
fn garbage_is_counted_and_never_answered() {
    //= Z-20 test
    let mut half = posted(&Config::default(), &[1000]);
    let mut random = pinnace_core::Random::from_seed(2);
    let before = half.rx().counters();
    let mut fed = 0;
    for _ in 0..20_000 {
        let mut datagram: Vec<u8> = (0..random.below(100)).map(|_| random.next_u32() as u8).collect();
        if datagram.is_empty() {
            continue;
        }
        if let Some(at) = datagram.len().checked_sub(4).filter(|_| random.chance(0.9)) {
            datagram[at] = random.below(16) as u8;
        }
        half.feed(&datagram);
        fed += 1;
    }
    let seen = half.rx().counters();
    assert!(seen.datagrams_malformed > fed / 2 && seen.messages_received == 0 && before.bytes_received == 0);
    assert_eq!(half.rx().counters().acknowledgements_sent, 0);
}

#[test]
fn posts_under_way_are_bounded() {
    //= Z-17 test
    let mut half = Half::receiver(&Config { max_messages: 2, ..Config::default() });
    half.post(10);
    half.post(10);
    assert_eq!(half.try_post(10), Err(Refused::TooMany));
    half.feed(&piece(1, 0, 1, 10));
    assert_eq!(half.try_post(10), Err(Refused::TooMany), "message 1 waits for those before it");
    half.feed(&piece(0, 0, 2, 10));
    assert_eq!(half.post(10), 2);
}

#[test]
fn a_sender_with_the_usual_window_is_answered_after_sixteen_units_however_small_they_are() {
    //= Z-11 test
    // A megabyte may be under way here; how much the sender's window holds, nobody knows yet.
    let mut half = posted(&Config::default().for_cluster(1 << 20), &[1 << 20, 1 << 20]);
    let unit = |number: u32| plain_unit(0, number, number, &[1; 100], false);
    // Who answers an acknowledgement with more is not kept waiting by longer and longer ones between.
    let mut sent = 0;
    for due in [16, 32, 64] {
        (sent..sent + due - 1).for_each(|number| half.feed(&unit(number)));
        assert!(half.take().is_empty(), "{due} are not there yet");
        half.feed(&unit(sent + due - 1));
        sent += due;
        assert_eq!(half.take_acks(), [[(0, sent, true)]]);
    }
    // Who is seen to wait with 100 under way is answered after a quarter of them from now on.
    (sent..sent + 100).for_each(|number| half.feed(&unit(number)));
    assert!(half.take().is_empty());
    half.millis(5);
    sent += 100;
    assert_eq!(half.take_acks(), [[(0, sent, true)]]);
    for _ in 0..3 {
        (sent..sent + 25).for_each(|number| half.feed(&unit(number)));
        sent += 25;
        assert_eq!(half.take_acks(), [[(0, sent, true)]]);
    }
}

#[test]
fn a_report_that_is_interrupted_forgets_nothing() {
    //= Z-11 test
    // So many holes that one datagram of the smallest size cannot say them all.
    let mut half = posted(&Config { control_bytes: 16, ..patient() }, &[100_000]);
    for number in (0..200).step_by(2) {
        half.feed(&piece(0, number, number, 100_000));
    }
    half.millis(50);
    let mut said = std::collections::BTreeMap::new();
    for (low, high, sign) in half.take_acks().concat() {
        said.extend((low..high).map(|number| (number, sign)));
    }
    for number in 0..199 {
        assert_eq!(said.get(&number), Some(&(number % 2 == 0)), "number {number}");
    }
}

#[test]
fn units_of_a_message_that_is_posted_but_not_requested_are_dropped() {
    //= Z-3 test
    let mut half = Half::receiver(&Config::default());
    for _ in 0..1100 {
        half.post(10);
    }
    half.millis(1);
    half.take();
    dropped(&mut half, &piece(1050, 0, 1, 10), |seen| seen.units_unrequested);
}

#[test]
fn units_are_kept_in_any_order_however_scattered_they_are() {
    //= Z-14, Z-20 test
    // Every second one first. What is not acknowledged comes again before others, and may fill the sender's window.
    const UNITS: u32 = 10_000;
    let mut half = posted(&Config::default(), &[UNITS as usize]);
    let order = (0..UNITS).step_by(2).chain((1..UNITS).step_by(2));
    for (sequence, number) in (0..).zip(order) {
        half.feed(&plain_unit(0, number, sequence, &[number as u8], number + 1 == UNITS));
    }
    assert!(half.take_events().iter().any(received(0, Ok(UNITS))), "{:?}", half.rx().counters());
    assert!((0..UNITS).map(|number| number as u8).eq(half.buffer(0).iter().copied()));
}
