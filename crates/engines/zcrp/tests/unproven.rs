//! An endpoint whose peer introduced itself, and may have done so in the name of somebody else.

mod common;

use common::half::{Half, ack, flow, parse_ack, parse_unit, plain_unit, request};
use common::{RECEIVER, SENDER, content};
use core::time::Duration;
use pinnace_core::{ControllerKind, Random, Time};
use pinnace_sim::{HostConfig, Inbox, NetworkConfig, Simulation};
use pinnace_wire::zcrp::{Unit, encode_idle};
use pinnace_zcrp::{Config, Event, Failure, Receiver, Sender, UnitSize, Zcrp};

/// U = 1472, on a path that nobody shares.
fn config() -> Config {
    let base = Config { unit_size: UnitSize::Fixed(1472), seed: 11, ..Config::default() };
    Config { limit_amplification: true, peer_unproven: true, ..base.for_cluster(2 << 20) }
}

fn duplex(config: &Config) -> Half {
    let halves = (Sender::new(config.clone(), Time::ZERO), Receiver::new(config.clone()));
    Half::new(Zcrp::new(Some(halves.0), Some(halves.1)))
}

/// An accepted endpoint with a megabyte to send, which somebody has introduced itself to and then asked for all of it.
fn asked(config: &Config) -> Half {
    let mut half = duplex(config);
    half.send(&vec![5; 1 << 20]);
    half.feed(&encode_idle(0));
    half.take();
    half.feed(&request(&[(0, u32::MAX)]));
    half
}

fn units(half: &mut Half) -> Vec<Unit> {
    half.take_units().into_iter().map(|(unit, _)| unit).collect()
}

#[test]
fn whoever_has_shown_nothing_has_one_unit_in_transit_until_it_is_silent_for_too_long() {
    //= Z-8, Z-12, Z-19 test
    let mut half = asked(&config());
    let first = units(&mut half);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].next, None, "what follows depends on the answer, which so comes at once");
    let mut times = Vec::new();
    for time in 1..=20_000 {
        half.millis(1);
        times.extend(units(&mut half).iter().map(|unit| (time, unit.unit)));
    }
    let expected = [200, 600, 1400, 2400, 3400, 4400, 5400, 6400, 7400, 8400, 9400].map(|time| (time, 0));
    assert_eq!(times, expected, "12 units in all");
    assert!(half.take_events().iter().any(|event| matches!(event, Event::SenderClosed(Failure::PeerGone))));
}

#[test]
fn who_goes_on_in_the_name_of_somebody_else_gets_32_units_there() {
    //= Z-19 test
    let mut half = asked(&config());
    let mut count = units(&mut half).len();
    for _ in 0..60 {
        // Neither an answer nor bytes enough for a unit.
        half.feed(&ack(true, &[7, 7]));
        half.millis(1000);
        count += units(&mut half).len();
    }
    assert_eq!(count, 32);
    assert!(half.take_events().iter().any(|event| matches!(event, Event::SenderClosed(Failure::PeerGone))));
}

#[test]
fn what_is_guessed_is_no_proof() {
    //= Z-6 test
    let mut half = asked(&config());
    let first = units(&mut half)[0].sequence;
    let near = |offset: i32| first.wrapping_add_signed(offset);
    // Whatever 2^16 guesses would hit, because it names more than has been sent.
    let guesses = [
        ack(true, &[near(-30_000), near(30_000)]),
        ack(true, &[near(0), near(2)]),
        ack(true, &[near(-1), near(1)]),
        ack(true, &[near(-1), near(0), near(0), near(1)]),
        ack(true, &[near(1), near(9)]),
        ack(true, &[near(0), near(0)]),
        ack(false, &[near(-30_000), near(30_000)]),
        ack(false, &[near(0), near(1)]),
    ];
    for guess in &guesses {
        half.feed(guess);
        assert!(half.take().is_empty() && half.take_events().is_empty(), "{guess:?}");
    }
    half.feed(&ack(true, &[near(0), near(1)]));
    assert!(units(&mut half).len() > 700, "the number that was sent");
}

#[test]
fn three_times_what_came_and_a_unit_for_each_time_out() {
    //= Z-9, Z-21 test
    for seed in 0..200 {
        let mut random = Random::from_seed(seed);
        let unit_bytes = [60, 300, 1472][random.below(3) as usize];
        let mut half = duplex(&Config { unit_size: UnitSize::Fixed(unit_bytes), ..config() });
        for _ in 0..20 {
            half.send(&vec![5; random.below(5000) as usize]);
            half.post(500);
        }
        let (mut came, mut went) = (0, 0);
        for turn in 0..300u32 {
            let datagram = match random.below(6) {
                0 => encode_idle(1).to_vec(),
                1 => vec![7; 1 + random.below(40) as usize],
                2 => plain_unit(turn % 20, 0, turn, &vec![1; random.below(500) as usize], true),
                3 => request(&[(turn % 20, u32::MAX)]),
                4 => {
                    let low = random.next_u32();
                    ack(random.chance(0.7), &[low, low.wrapping_add(60_000)])
                }
                _ => flow(),
            };
            came += datagram.len() + 28;
            half.feed(&datagram);
            half.millis(random.below(80));
            went += half.take().iter().map(|datagram| datagram.len() + 28).sum::<usize>();
            let alone = 1 + half.tx().counters().timeouts as usize;
            let most = 3 * came + alone * (unit_bytes + 28);
            assert!(went <= most, "seed {seed}: {went} bytes answer {came}, {alone} units alone");
        }
    }
}

#[test]
fn a_small_unit_leaves_the_other_half_credit_for_its_answer() {
    //= Z-11, Z-13 test
    let mut half = duplex(&config());
    half.post(500);
    half.feed(&encode_idle(0));
    half.feed(&request(&[(0, 500)]));
    half.take();
    half.feed(&plain_unit(0, 0, 99, b"an offer", true));
    half.send(&[5; 94]);
    let datagrams = half.take();
    assert_eq!(datagrams.len(), 2, "three times what came is enough for both");
    assert_eq!(parse_unit(&datagrams[0]).unwrap().1.len(), 94);
    assert_eq!(parse_ack(&datagrams[1]), Some(vec![(99, 100, true)]));
}

#[test]
fn requests_leave_credit_for_an_acknowledgement_that_waits() {
    //= Z-11, Z-13 test
    let mut half = Half::receiver(&config());
    for _ in 0..100 {
        half.post(500);
    }
    half.feed(&encode_idle(0));
    half.take();
    let mut came = 56;
    for number in 0..20 {
        // Another one is announced, so this one is acknowledged by the timer; meanwhile requests are due.
        half.feed(&plain_unit(0, number, 99 + number, &[5; 3], false));
        came += 3 + 28 + 28;
        half.millis(6);
        assert!(acknowledged(&half.take(), 99 + number), "after {came} bytes");
    }
}

#[test]
fn nothing_is_padded_at_the_cost_of_whoever_has_shown_nothing() {
    let mut half = duplex(&config());
    half.post(4000);
    // A last unit a little shorter than what follows it.
    half.send(&[5; 1444 + 1400]);
    half.send(&[6; 5 * 1444]);
    half.feed(&plain_unit(0, 0, 99, &[7; 1444], false));
    half.feed(&plain_unit(0, 1, 100, &[7; 1444], false));
    half.take();
    half.feed(&request(&[(0, 9000), (1, 9000)]));
    let sizes: Vec<_> = half.take().iter().map(Vec::len).collect();
    assert_eq!(sizes, [1472, 1428, 1472, 1472, 1472, 1472]);
    assert_eq!(half.tx().counters().padding_bytes_sent, 0);
}

#[test]
fn the_newest_of_tiny_units_is_acknowledged_at_once_and_twice_more_at_the_end() {
    //= Z-11, Z-15 test
    const UNITS: u32 = 3000;
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let mut half = Half::receiver(&config());
        half.post(UNITS as usize);
        half.feed(&encode_idle(1));
        half.take();
        let (mut came, mut went) = (28 + 28, 0);
        let mut newest = 0;
        let mut late = Vec::new();
        for number in 0..UNITS {
            if random.chance(0.3) {
                late.extend(random.chance(0.7).then_some((number + random.below(300) as u32, number)));
                continue;
            }
            let due: Vec<u32> = late.extract_if(.., |(due, _)| *due <= number).map(|(_, number)| number).collect();
            for number in due.into_iter().chain([number]) {
                came += 29 + 28;
                // Nothing follows each of them, so each is answered at once.
                let unit = Unit {
                    message: 0,
                    unit: number,
                    sequence: number,
                    next: None,
                    length: 1,
                    is_last: false,
                    refused: false,
                };
                half.feed(&common::half::unit(&unit, &[5], 0));
            }
            newest = number;
            let datagrams = half.take();
            went += datagrams.iter().map(|datagram| datagram.len() + 28).sum::<usize>();
            assert!(went <= 3 * came, "seed {seed}: {went} bytes answer {came}");
            assert!(acknowledged(&datagrams, newest), "seed {seed}: {newest}");
            half.advance(Duration::from_micros(80));
        }
        let now = half.now;
        half.call(|engine| engine.receiver_mut().unwrap().close(now));
        assert!(acknowledged(&half.take(), newest), "seed {seed}");
        half.millis(20);
        assert!(acknowledged(&half.take(), newest), "seed {seed}");
    }
}

/// Whether an acknowledgement among these says that the transmission `number` has come.
fn acknowledged(datagrams: &[Vec<u8>], number: u32) -> bool {
    let mut intervals = datagrams.iter().filter_map(|datagram| parse_ack(datagram)).flatten();
    intervals.any(|(low, high, positive)| positive && (low..high).contains(&number))
}

#[test]
fn what_came_while_others_were_heard_is_not_the_peers() {
    //= Z-21 test
    let mut half = duplex(&config());
    half.send(&vec![5; 1 << 20]);
    for _ in 0..1000 {
        half.feed(&encode_idle(0));
    }
    half.take();
    half.feed(&request(&[(0, u32::MAX)]));
    half.millis(100);
    assert_eq!(units(&mut half).len(), 1);
}

#[test]
fn an_answer_to_what_was_sent_is_proof_for_both_halves() {
    //= Z-13, Z-21 test
    let mut half = asked(&config());
    let first = units(&mut half)[0].sequence;
    for _ in 0..200 {
        half.post(10);
    }
    let before: usize = half.take_requests().iter().map(Vec::len).sum();
    assert!(before < 50, "{before}");
    half.feed(&ack(true, &[first, first.wrapping_add(1)]));
    half.millis(1);
    let datagrams = half.take();
    let requested: usize =
        datagrams.iter().filter_map(|d| common::half::parse_request(d)).map(|pairs| pairs.len()).sum();
    assert_eq!(before + requested, 200);
    assert!(datagrams.iter().filter_map(|datagram| parse_unit(datagram)).count() > 700);
}

#[test]
fn who_chose_the_address_is_not_limited() {
    let mut half = asked(&Config { limit_amplification: false, peer_unproven: false, ..config() });
    assert!(units(&mut half).len() > 700);
}

/// When ten megabytes that were requested of a sender have arrived.
fn arrival(congestion: ControllerKind, limit_amplification: bool) -> Duration {
    const SIZE: u32 = 10_000_000;
    let base = Config { congestion, window_units: 16_384, seed: 3, ..Config::default() };
    let sender = Config { limit_amplification, ..base.clone() };
    let mut sim = Simulation::new(5);
    sim.add_host(Zcrp::new(Some(Sender::new(sender, Time::ZERO)), None), Inbox::default());
    sim.add_host_with(Zcrp::new(None, Some(Receiver::new(base))), Inbox::default(), HostConfig::default());
    let network: NetworkConfig = "delay=20ms,rate=100mbit".parse().unwrap();
    sim.link(SENDER, RECEIVER, &network, &network);
    let (from, to) = (sim.add_buffer(SENDER, content(5, 0, SIZE)), sim.add_buffer(RECEIVER, vec![0; SIZE as usize]));
    sim.call(RECEIVER, |engine| engine.receiver_mut().unwrap().post(Time::ZERO, to, SIZE)).unwrap();
    sim.call(SENDER, |engine| engine.sender_mut().unwrap().send(Time::ZERO, from, SIZE)).unwrap();
    sim.run_for(Duration::from_secs(60));
    let events = &sim.application(RECEIVER).events;
    let arrived = events.iter().find(|(_, event)| matches!(event, Event::Received { result: Ok(SIZE), .. }));
    arrived.unwrap_or_else(|| panic!("{congestion}: {events:?}")).0.since(Time::ZERO)
}

#[test]
fn the_proof_costs_one_round_trip_and_no_throughput() {
    //= Z-9 test
    for congestion in [ControllerKind::Fixed { window: 1 << 20 }, ControllerKind::Cubic, ControllerKind::Bbr] {
        let (limited, free) = (arrival(congestion, true), arrival(congestion, false));
        assert!(limited <= free + Duration::from_millis(60), "{congestion}: {limited:?}, without a limit {free:?}");
    }
}

#[test]
fn a_first_unit_that_is_lost_shrinks_no_window() {
    //= Z-12 test
    for congestion in [ControllerKind::Cubic, ControllerKind::Bbr] {
        let mut half = asked(&Config { congestion, ..config() });
        let mut sent = units(&mut half);
        for _ in 0..3000 {
            half.millis(1);
            sent.extend(units(&mut half));
        }
        let newest = sent.last().unwrap().sequence;
        half.feed(&ack(true, &[newest, newest.wrapping_add(1)]));
        // At the pace of a round trip of 600 ms.
        half.millis(700);
        let count = units(&mut half).len();
        assert!((10..=12).contains(&count), "{congestion}: an initial window, and not {count}");
    }
}

#[test]
fn who_may_send_little_asks_once_more_before_it_takes_its_peer_for_gone() {
    //= Z-19, Z-21 test
    let mut half = duplex(&config());
    for _ in 0..10 {
        half.post(500);
    }
    half.feed(&encode_idle(0));
    half.feed(&plain_unit(0, 0, 99, b"of the one message that the peer has", true));
    half.take();
    // Nothing passes, and what may be sent is used up.
    half.millis(4999);
    half.take();
    half.millis(1);
    assert_eq!(half.take().len(), 1, "the peer has nothing to say, and is asked");
    half.feed(&encode_idle(1));
    half.millis(9_000);
    assert!(half.take_events().iter().all(|event| !matches!(event, Event::ReceiverClosed(_))));
}
