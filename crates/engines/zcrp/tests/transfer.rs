//! Messages over emulated networks.

mod common;

use common::{RECEIVER, SENDER, World};
use core::time::Duration;
use pinnace_core::{ControllerKind, Time};
use pinnace_zcrp::{Config, Failure, UnitSize};

fn fixed() -> Config {
    Config { congestion: ControllerKind::Fixed { window: u64::MAX }, ..Config::default() }
}

#[test]
fn messages_of_every_size_arrive() {
    //= Z-5 test
    //= Z-15 test
    //= Z-17 test
    let mut world = World::new(1, &fixed(), "delay=1ms,rate=1gbit");
    for size in [0, 1, 1443, 1444, 1445, 2 * 1444, 100_000, 0, 3_000_000] {
        world.send(size);
        world.post(size);
    }
    world.check_all_arrived(10);
    assert_eq!(world.sender().counters().units_resent, 0);
    assert_eq!(world.sender().counters().messages_sent, 9);
}

#[test]
fn without_loss_almost_everything_is_received_in_place() {
    //= Z-18 test
    for (size, count) in [(1 << 20, 8), (65_536, 64), (1024, 500)] {
        for unit in [1472, 8972, 65_507] {
            let config = Config { unit_size: UnitSize::UpTo(unit), ..fixed() };
            let mut world = World::new(2, &config, "delay=100us,rate=10gbit,queue=none");
            for _ in 0..count {
                world.send(size);
                world.post(size);
            }
            world.check_all_arrived(10);
            let seen = world.receiver().counters();
            let share = seen.units_in_place as f64 / (seen.units_in_place + seen.units_copied) as f64;
            assert!(share >= 0.99, "{size} bytes in units of {unit}: {share} in place");
            assert_eq!(seen.units_duplicate, 0);
        }
    }
}

#[test]
fn nothing_leaves_faster_than_the_rate_that_was_set() {
    for congestion in [ControllerKind::Fixed { window: u64::MAX }, ControllerKind::Cubic, ControllerKind::Bbr] {
        for unit in [1472, 8972, 65_507] {
            let config = Config { congestion, rate: Some(1_000_000), unit_size: UnitSize::Fixed(unit), ..fixed() };
            let mut world = World::new(6, &config, "delay=20ms,rate=1gbit");
            for _ in 0..3 {
                world.send(1_000_000);
                world.post(1_000_000);
            }
            world.check_all_arrived(10);
            // Round trips at both ends, and at most two units at once at the beginning.
            let took = world.sim.now().since(Time::ZERO).as_secs_f64();
            assert!((2.87..3.3).contains(&took), "{congestion}, units of {unit}: {took} s");
            assert_eq!(world.sender().counters().units_resent, 0);
        }
    }
}

//= Z-12 test
#[test]
fn a_path_whose_round_trips_are_all_alike_has_no_timeouts() {
    let config = Config {
        unit_size: UnitSize::UpTo(1472),
        window_units: 16_384,
        congestion: ControllerKind::Cubic,
        rate: Some(12_500_000),
        ..Config::default()
    };
    let mut world = World::new(7, &config, "rate=100mbit,delay=20ms,queue=1bdp");
    for _ in 0..300 {
        world.post(30_000);
        world.send(30_000);
    }
    world.check_all_arrived(60);
    let counters = world.sender().counters();
    assert_eq!((counters.timeouts, counters.units_resent), (0, 0), "nothing was lost");
}

//= Z-12 test
#[test]
fn a_queue_that_grows_behind_a_bucket_is_measured() {
    // What the bucket held took no time; behind it a unit takes 12 ms, and the queue 0.8 s.
    for congestion in [ControllerKind::Bbr, ControllerKind::Cubic] {
        let config = Config { unit_size: UnitSize::UpTo(1472), congestion, ..Config::default() };
        let mut world = World::new(7, &config, "rate=1mbit,bucket=5kB,queue=100kB,delay=50us");
        world.post(500_000);
        world.send(500_000);
        world.check_all_arrived(8);
        let counters = world.sender().counters();
        // 341 units; without a measure behind the bucket each was sent nine times.
        assert!(counters.units_resent < 100, "{congestion:?}: {counters:?}");
    }
}

#[test]
fn nothing_travels_before_a_request() {
    //= Z-3 test
    let mut world = World::new(3, &fixed(), "delay=1ms");
    world.send(5000);
    world.sim.run_for(Duration::from_millis(100));
    assert_eq!(world.sender().counters().units_sent, 0);
    world.post(5000);
    world.check_all_arrived(2);
}

#[test]
fn a_message_longer_than_its_buffer_fails_at_both_ends_and_others_go_on() {
    //= Z-16 test
    let mut world = World::new(4, &fixed(), "delay=1ms,loss=20%");
    for (size, capacity) in [(10_000, 10_000), (10_001, 10_000), (5, 0), (10_000, 20_000)] {
        world.send(size);
        world.post(capacity);
    }
    let ends = world.run(20);
    world.check(&ends);
    for number in 0..4 {
        let fails = number == 1 || number == 2;
        assert_eq!(ends.sent[&number], if fails { Err(Failure::TooLong) } else { Ok(()) }, "message {number}");
        assert_eq!(ends.received[&number].is_err(), fails, "message {number}");
    }
}

#[test]
fn loss_reordering_and_duplication_are_repaired() {
    //= Z-2 test
    //= Z-8 test
    //= Z-10 test
    //= Z-14 test
    for (seed, network) in [
        (5, "delay=5ms,loss=1%"),
        (6, "delay=5ms,loss=30%"),
        (7, "delay=5ms,jitter=3ms"),
        (8, "delay=5ms,reorder=10%"),
        (9, "delay=5ms,duplicate=30%"),
        (10, "delay=5ms,train-loss=20%"),
        (11, "delay=5ms,burst-loss=2%:20%"),
        (12, "delay=5ms,corrupt=5%"),
    ] {
        for config in [fixed(), Config::default(), Config { congestion: ControllerKind::Bbr, ..Config::default() }] {
            let mut world = World::new(seed, &config, network);
            for size in [200_000, 0, 1000, 50_000, 1444] {
                world.send(size);
                world.post(size);
            }
            world.check_all_arrived(120);
        }
    }
}

#[test]
fn requests_are_repeated_with_growing_intervals() {
    //= Z-13 test
    let mut world = World::new(13, &fixed(), "delay=1ms");
    world.sim.block_link(SENDER, Duration::from_secs(0));
    world.sim.kill(SENDER);
    world.post(100);
    let mut seen = Vec::new();
    for _ in 0..400 {
        world.sim.run_for(Duration::from_millis(10));
        seen.push(world.receiver().counters().requests_sent);
    }
    // At 0, 50, 150, 350, 750, 1550, 2550 and 3550 ms.
    let times: Vec<usize> = (1..=8).map(|n| seen.iter().position(|&c| c >= n).unwrap() * 10).collect();
    for (found, expected) in times.iter().zip([0usize, 50, 150, 350, 750, 1550, 2550, 3550]) {
        assert!(found.abs_diff(expected) <= 20, "{times:?}");
    }
    assert_eq!(world.receiver().counters().requests_sent, 8);
}

#[test]
fn a_dead_peer_is_reported_by_both_halves() {
    //= Z-19 test
    for victim in [SENDER, RECEIVER] {
        let mut world = World::new(14, &fixed(), "delay=5ms,rate=10mbit");
        world.send(5_000_000);
        world.post(5_000_000);
        world.sim.run_for(Duration::from_millis(500));
        world.sim.kill(victim);
        let ends = world.run(15);
        let gone = if victim == SENDER {
            ends.received[&0] == Err(Failure::PeerGone)
        } else {
            ends.sent[&0] == Err(Failure::PeerGone)
        };
        assert!(gone, "{ends:?}");
    }
}

#[test]
fn closing_fails_what_is_under_way_and_answers_a_while() {
    //= Z-15 test
    let mut world = World::new(15, &fixed(), "delay=5ms");
    world.send(1000);
    world.post(1000);
    world.post(1000);
    world.sim.run_for(Duration::from_millis(50));
    let before = world.receiver().counters().acknowledgements_sent;
    let now = world.sim.now();
    world.sim.call(RECEIVER, |engine| engine.receiver_mut().unwrap().close(now));
    world.sim.run_for(Duration::from_millis(100));
    let ends = world.ends();
    assert_eq!((ends.sent[&0], ends.received[&0], ends.received[&1]), (Ok(()), Ok(1000), Err(Failure::Closed)));
    assert_eq!(world.receiver().counters().acknowledgements_sent, before + 2, "the newest acknowledgement, twice");
    let refused = world
        .sim
        .call(RECEIVER, |engine| engine.receiver_mut().unwrap().post(now, pinnace_core::BufferId::new(0), 1).is_err());
    assert!(refused);
}

#[test]
fn idle_ends_tell_each_other_and_notice_death_before_a_message_begins() {
    //= Z-21 test
    let mut world = World::new(16, &fixed(), "delay=5ms");
    world.send(1000);
    world.sim.run_for(Duration::from_millis(3500));
    assert_eq!(world.sender().counters().idles_sent, 4, "at once, and every second");
    assert_eq!(world.sender().counters().flow_hints_received, 4);
    assert!(world.ends().sent.is_empty());
    world.sim.kill(RECEIVER);
    let ends = world.run(15);
    assert_eq!(ends.sent[&0], Err(Failure::PeerGone));
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let digest = |seed| {
        let mut world = World::new(seed, &Config::default(), "delay=5ms,jitter=1ms,loss=5%,duplicate=1%");
        for size in [100_000, 3000] {
            world.send(size);
            world.post(size);
        }
        world.check_all_arrived(60);
        world.sim.digest()
    };
    assert_eq!(digest(17), digest(17));
    assert_ne!(digest(17), digest(18));
}
