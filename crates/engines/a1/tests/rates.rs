//! Pacing, priority, and what goes ahead of what.
mod support;

use core::time::Duration;
use pinnace_a1::{Config, Event, Qos};
use pinnace_core::{ControllerKind, Time};
use pinnace_sim::HostConfig;
use pinnace_wire::a1::Kind;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use support::*;

/// When blocks left, and their bytes.
type Blocks = Rc<RefCell<Vec<(Time, u64)>>>;

/// A connection that has more to send than it may, for a time.
fn flood(qos: Qos, bytes: usize, time: Duration, network: &str) -> Vec<(Time, u64)> {
    let left = Cell::new(bytes);
    let client = Program::new(
        move |now, core, host| {
            core.open(now, host, SERVER, qos);
        },
        move |now, event, core, host| {
            let id = core.id();
            if matches!(event, Event::Connected { .. } | Event::Sent { .. }) {
                while host.engine().facts(now, id).is_some_and(|facts| facts.is_open && facts.queued < 20_000) {
                    let len = left.get().min(qos.largest_sent as usize);
                    left.set(left.get() - len);
                    let before = core.refused;
                    core.put(now, host, id, vec![vec![0; len]]);
                    if len == 0 || core.refused > before {
                        break;
                    }
                }
            }
        },
    );
    let mut world = world(1, qos, "", Program::listening(vec![], None), client);
    let blocks = Blocks::default();
    let noted = blocks.clone();
    tap_before(&mut world, CLIENT, SERVER, network, move |sight| {
        if sight.kind() == Kind::Data {
            noted.borrow_mut().push((sight.at, sight.bytes.len() as u64 - 32));
        }
        false
    });
    world.run_for(time);
    blocks.borrow().clone()
}

/// The most by which any interval exceeds `average` times its length.
fn burst(blocks: &[(Time, u64)], average: u64) -> f64 {
    // The largest sum of a run, where time drains and blocks fill.
    let (mut level, mut most, mut last) = (0.0_f64, 0.0_f64, Time::ZERO);
    for (at, bytes) in blocks {
        level = (level - at.since(last).as_secs_f64() * average as f64).max(0.0) + *bytes as f64;
        (most, last) = (most.max(level), *at);
    }
    most
}

//= A-11 test
#[test]
fn the_average_is_kept_within_one_percent_and_the_burst_never_exceeded() {
    for mbit in [1, 10, 100, 1000] {
        for (block_size, send_burst) in [(1000, 1), (1000, 65_536), (8000, 20_000), (1440, 2880)] {
            if mbit == 1000 && block_size == 1000 {
                // As the others, only longer.
                continue;
            }
            let average = mbit * 125_000;
            let qos = Qos {
                send_average: average,
                send_burst,
                block_size,
                largest_sent: 1 << 20,
                largest_received: 1 << 20,
                outstanding: 64,
                ..reliable()
            };
            let bytes = average as usize * 5 / 2;
            let blocks = flood(qos, bytes, Duration::from_millis(1400), "delay=1ms");
            let start = blocks[0].0 + Duration::from_millis(300);
            let end = start + Duration::from_secs(1);
            let sum: u64 = blocks.iter().filter(|(at, _)| (start..end).contains(at)).map(|(_, bytes)| bytes).sum();
            let error = sum as f64 / average as f64 - 1.0;
            // A block more or less on either side is no error of the rate.
            let slack = f64::from(block_size) / average as f64;
            assert!(
                error.abs() < 0.01_f64.max(slack),
                "{mbit} Mbit/s, {block_size}, {send_burst}: {:.3} %",
                error * 100.0
            );
            let most = burst(&blocks, average);
            let allowed = f64::from(send_burst.max(block_size));
            assert!(most <= allowed + 1.0, "{mbit} Mbit/s, {block_size}, {send_burst}: a burst of {most}");
        }
    }
}

//= A-11 test
#[test]
fn repetitions_count_for_the_rate() {
    let qos = Qos { send_average: 1_000_000, send_burst: 10_000, ..reliable() };
    let blocks = flood(qos, 2_500_000, Duration::from_millis(2000), "delay=5ms,loss=10%");
    let most = burst(&blocks, 1_000_000);
    assert!(most <= 10_001.0, "{most}");
    let sum: u64 = blocks.iter().filter(|(at, _)| (millis(500)..millis(1500)).contains(at)).map(|(_, it)| it).sum();
    assert!((990_000..=1_010_000).contains(&sum), "{sum}");
}

//= A-11 test
#[test]
fn a_receiver_that_wants_less_gets_less() {
    let max = Qos { receive_average: 500_000, receive_burst: 5000, ..reliable() };
    let client = Program::opening(reliable(), vec![pattern(600_000, 0)], None);
    let configs = [config(max, 1), config(reliable(), 2)];
    let mut world = world_of(configs, "delay=5ms", Program::listening(vec![], None), client);
    world.run_for(Duration::from_secs(3));
    let took = seen(&world, SERVER).times[0].since(seen(&world, CLIENT).connected_at.expect("connected"));
    assert!((1.19..1.21).contains(&took.as_secs_f64()), "{took:?}");
}

//= A-7 test
#[test]
fn a_slow_stream_over_a_fast_network_is_not_repeated() {
    for (delay, average) in [("delay=10us", 100_000), ("delay=5ms", 500_000), ("delay=40ms", 100_000)] {
        let qos = Qos { send_average: average, send_burst: 2000, ..reliable() };
        let client = Program::opening(qos, vec![pattern(300_000, 0)], Some(LINGER));
        let mut world = world(1, qos, delay, Program::listening(vec![], None), client);
        quiet(&mut world);
        let counters = world.engine(CLIENT).counters();
        assert_eq!((counters.timeouts, counters.blocks_repeated), (0, 0), "{delay}");
        assert_eq!(seen(&world, SERVER).messages, [pattern(300_000, 0)]);
    }
}

/// An audio stream of 50 blocks a second beside bulk of less priority, on a link of 20 Mbit/s that they share.
//= A-11 test
#[test]
fn audio_is_not_held_up_by_bulk() {
    let audio = Qos { priority: 0, has_retransmission: true, ..reliable() };
    let bulk = Qos { priority: 200, ..reliable() };
    let client = Program::new(
        move |now, core, host| {
            core.open(now, host, SERVER, audio);
            core.open(now, host, SERVER, bulk);
        },
        move |now, event, core, host| match event {
            Event::Connected { connection }
                if host.engine().facts(now, *connection).is_some_and(|it| it.qos == audio) =>
            {
                host.wake_after(Duration::ZERO, 0);
            }
            Event::Connected { connection } => {
                core.put(now, host, *connection, vec![pattern(1 << 20, 0); 40]);
            }
            _ => {}
        },
    )
    .waking(move |now, token, core, host| {
        let ids: Vec<_> = core.seen.keys().copied().collect();
        let id = ids.into_iter().find(|id| host.engine().facts(now, *id).is_some_and(|it| it.qos == audio));
        let mut block = pattern(960, 0);
        block[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
        core.put(now, host, id.expect("it lives"), vec![block]);
        if token < 500 {
            host.wake_after(Duration::from_millis(20), token + 1);
        }
    });
    let max = Qos { priority: 0, ..reliable() };
    let configs = [1, 2].map(|seed| Config { link_average: 2_400_000, link_burst: 3000, ..config(max, seed) });
    // Behind the link that the engine knows of, a queue of the network.
    let mut world = world_of(configs, "delay=5ms,rate=20mbit,queue=64KiB", Program::listening(vec![], None), client);
    world.run_for(Duration::from_secs(11));
    let streams: Vec<_> = world.application(SERVER).core.seen.values().collect();
    let audio: Vec<_> = streams.iter().filter(|seen| seen.messages.iter().any(|it| it.len() == 960)).collect();
    let bulk: usize = streams.iter().map(|seen| seen.bytes()).sum();
    let [audio] = audio[..] else { panic!("{}", audio.len()) };
    assert_eq!(audio.messages.len(), 501, "no audio block is lost");
    let mut delays: Vec<_> = audio
        .messages
        .iter()
        .zip(&audio.times)
        .map(|(message, at)| {
            let left = Time::from_nanos(u64::from_be_bytes(message[..8].try_into().expect("eight bytes")));
            at.since(left)
        })
        .collect();
    delays.sort_unstable();
    let jitter = delays[delays.len() * 99 / 100] - delays[0];
    assert!(jitter < Duration::from_millis(5), "{jitter:?}: {:?} to {:?}", delays[0], delays[delays.len() - 1]);
    assert!(bulk > 20_000_000, "bulk gets the rest: {bulk}");
}

/// One engine that is both: it has received data that want to be acknowledged, a SYNC, and a NACK behind them in one
/// batch; and it has a thousand blocks of its own to send.
//= A-4 test
#[test]
fn a_repetition_leaves_ahead_of_everything() {
    // All of its own have left, or 1,700 blocks still wait.
    for window in [64 << 20, 300_000] {
        repetitions_lead(ControllerKind::Fixed { window });
    }
}

fn repetitions_lead(congestion: ControllerKind) {
    let messages: Vec<_> = (0..4).map(|index| pattern(500_000, index)).collect();
    let server = Program::listening(messages.clone(), None);
    let client = Program::opening(reliable(), messages.clone(), None);
    let configs = [1, 2].map(|seed| Config { congestion, ..config(reliable(), seed) });
    let mut world = World::new(1);
    let [a, b] = configs.map(|config| pinnace_a1::A1::new(config, Time::ZERO));
    // Everything that waits is read at once.
    let stack = HostConfig { reads_per_batch: 100_000, ..HostConfig::default() };
    world.add_host_with(a, server, stack);
    world.add_host_with(b, client, stack);
    let sights = Sights::default();
    let (mut lost, noted) = (0, sights.clone());
    let network = "delay=5ms,rate=100mbit,queue=none";
    tap_before(&mut world, CLIENT, SERVER, network, move |sight| {
        noted.borrow_mut().push(sight.clone());
        let is_lost = sight.kind() == Kind::Data && !sight.head().header.is_retransmitted && lost < 5;
        lost += u32::from(is_lost);
        is_lost
    });
    tap_before(&mut world, SERVER, CLIENT, network, |_| false);
    // The client sleeps while 1,000 blocks and the NACK behind the first of them arrive.
    world.schedule(millis(26), |world| world.freeze(CLIENT, Duration::from_millis(300)));
    world.run_for(Duration::from_secs(5));
    assert!(seen(&world, SERVER).messages == messages && seen(&world, CLIENT).messages == messages);
    let sights = sights.borrow();
    let is_repetition = |sight: &Sight| sight.kind() == Kind::Data && sight.head().header.is_retransmitted;
    let first = sights.iter().position(is_repetition).expect("a repetition");
    let at = sights[first].at;
    let together: Vec<_> = sights.iter().filter(|sight| sight.at == at).collect();
    let kinds: Vec<_> = together.iter().map(|sight| (sight.kind(), sight.head().header.is_retransmitted)).collect();
    let repeated = kinds.iter().filter(|(_, is_again)| *is_again).count();
    assert!(repeated >= 5, "{kinds:?}");
    assert!(kinds.iter().take(repeated).all(|(_, is_again)| *is_again), "ahead of all: {kinds:?}");
    assert!(kinds.iter().any(|(kind, _)| *kind == Kind::Ack), "the ACK of what came before it leaves behind");
    assert!(world.counters(CLIENT).reads > 10);
}

//= A-7, A-8 test
#[test]
fn a_lost_block_is_repeated_once_over_a_path_that_has_filled_up() {
    // 1 ms and a bit when nothing is under way; with the window of 200 blocks 17 ms.
    let qos = Qos { largest_sent: 50_000, largest_received: 50_000, outstanding: 4, ..reliable() };
    let messages: Vec<_> = (0..500).map(|index| pattern(50_000, index as u8)).collect();
    let mut world = world(1, qos, "delay=500us", Program::listening(vec![], None), Program::opening(qos, vec![], None));
    let all = messages.clone();
    world.schedule(millis(300), move |world| {
        let now = world.now();
        world.with_application(CLIENT, |program, host| {
            let id = program.core.id();
            program.core.put(now, host, id, all);
            program.core.close(now, host, id, LINGER);
        });
    });
    let (mut blocks, lost) = (0, Rc::new(Cell::new(0)));
    let noted = lost.clone();
    tap_before(&mut world, CLIENT, SERVER, "delay=500us,rate=100mbit,queue=1MiB", move |sight| {
        blocks += u64::from(sight.kind() == Kind::Data);
        let is_lost = sight.kind() == Kind::Data && blocks % 100 == 0;
        noted.set(noted.get() + u64::from(is_lost));
        is_lost
    });
    quiet(&mut world);
    assert!(seen(&world, SERVER).messages == messages);
    let repeated = world.engine(CLIENT).counters().blocks_repeated;
    let lost = lost.get();
    assert!(lost > 200 && repeated < 2 * lost, "{lost} were lost, and {repeated} repeated");
    // Whoever only receives measures, too, while something is missing, and does not ask without need.
    assert!(seen(&world, SERVER).rtt.expect("measured") > Duration::from_millis(5));
    clean(&world);
}
