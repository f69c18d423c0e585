//! Days on which hosts, links and peers misbehave: what an application sees of them.

mod common;

use common::half::{Half, bytes, flow, is_idle, parse_request};
use common::{RECEIVER, SENDER, World, content};
use core::time::Duration;
use pinnace_core::{ControllerKind, PathEvent, Time};
use pinnace_sim::{HostConfig, HostId, Inbox, NetworkConfig, Simulation};
use pinnace_wire::zcrp::encode_idle;
use pinnace_zcrp::{Config, Event, Failure, Receiver, Sender, UnitSize, Zcrp};

fn fixed() -> Config {
    Config { congestion: ControllerKind::Fixed { window: u64::MAX }, ..Config::default() }
}

fn busy(seed: u64, network: &str) -> World {
    let mut world = World::new(seed, &fixed(), network);
    for _ in 0..10 {
        world.send(100_000);
        world.post(100_000);
    }
    world
}

#[test]
fn a_partition_shorter_than_the_peer_timeout_only_delays() {
    //= Z-12, Z-19 test
    for partition in ["20ms..3s", "20ms..9s"] {
        let mut world = busy(1, &format!("delay=5ms,rate=10mbit,partition={partition}"));
        world.check_all_arrived(30);
    }
}

#[test]
fn a_moment_in_which_all_is_lost_costs_about_one_timeout() {
    //= Z-8, Z-12 test
    for congestion in [ControllerKind::Bbr, ControllerKind::Cubic] {
        let config = Config { congestion, window_units: 16_384, ..Config::default() };
        let took = |network: &str| {
            let mut world = World::new(1, &config, network);
            world.send(1 << 20);
            world.post(1 << 20);
            world.check_all_arrived(30);
            world.sim.now().since(Time::ZERO)
        };
        let calm = took("delay=25ms,rate=10mbit");
        let broken = took("delay=25ms,rate=10mbit,partition=500ms..600ms");
        assert!(broken < calm + Duration::from_millis(500), "{congestion}: {calm:?}, {broken:?}");
    }
}

#[test]
fn a_partition_longer_than_the_peer_timeout_is_reported_at_both_ends() {
    //= Z-19, Z-20 test
    let mut world = busy(2, "delay=5ms,rate=10mbit,partition=100ms..12s");
    let ends = world.run(40);
    world.check(&ends);
    assert!(ends.sent.values().any(|result| *result == Err(Failure::PeerGone)), "{ends:?}");
    assert!(ends.received.values().any(|result| *result == Err(Failure::PeerGone)), "{ends:?}");
    assert_eq!((ends.sent.len(), ends.received.len()), (10, 10), "nobody waits for ever");
}

#[test]
fn a_host_that_stands_still_comes_back() {
    for host in [SENDER, RECEIVER] {
        let mut world = busy(3, "delay=5ms,rate=10mbit");
        world.sim.run_for(Duration::from_millis(100));
        world.sim.freeze(host, Duration::from_secs(5));
        world.check_all_arrived(30);
    }
}

#[test]
fn a_link_that_takes_nothing_for_a_while_only_delays() {
    for host in [SENDER, RECEIVER] {
        let mut world = busy(4, "delay=5ms,rate=10mbit");
        for start in [10, 200, 400] {
            let at = Time::ZERO + Duration::from_millis(start);
            world.sim.schedule(at, move |sim| sim.block_link(host, Duration::from_millis(150)));
        }
        world.check_all_arrived(30);
    }
}

#[test]
fn a_killed_end_is_reported_within_the_peer_timeout_at_any_moment() {
    //= Z-19 test
    for victim in [SENDER, RECEIVER] {
        for millis in [6, 11, 16, 50, 200, 500] {
            let mut world = busy(5, "delay=5ms,rate=10mbit");
            world.sim.run_for(Duration::from_millis(millis));
            world.sim.kill(victim);
            let killed = world.sim.now();
            let ends = world.run(30);
            let events = &world.sim.application(if victim == SENDER { RECEIVER } else { SENDER }).events;
            let failed = if victim == SENDER { &ends.received.len() } else { &ends.sent.len() };
            if events.is_empty() {
                // Nothing had begun; without Z-21 in use that waits without limit.
                assert!(millis < 16, "{victim} killed after {millis} ms");
                continue;
            }
            assert_eq!(*failed, 10, "{victim} killed after {millis} ms: {ends:?}");
            let last = events.last().unwrap().0;
            assert!(last.since(killed) <= Duration::from_millis(10_100), "{:?}", last.since(killed));
        }
    }
}

/// A peer that has nothing to send answers every other question, after 20 ms, for ten seconds, and then none: until then
/// nothing has ended, and what has after `timeout` more.
fn ask_in_vain_from_ten_seconds_on(mut half: Half, timeout: u64, asks: fn(&[u8]) -> bool, answer: &[u8]) -> Vec<Event> {
    let (mut count, mut is_owed) = (0, false);
    for at in (0..10_000).step_by(20) {
        if core::mem::take(&mut is_owed) {
            half.feed(answer);
        }
        for _ in half.take().iter().filter(|datagram| asks(datagram)) {
            is_owed |= count % 2 == 0;
            count += 1;
        }
        half.millis(20);
        assert_eq!(half.take_events(), [], "after {at} ms");
    }
    half.millis(timeout);
    half.take_events()
}

#[test]
fn who_answers_is_there_however_short_the_peer_timeout_is() {
    //= Z-19, Z-21 test
    for timeout in [500, 2_000] {
        let config = Config { peer_timeout: Duration::from_millis(timeout), ..fixed() };
        let mut sender = Half::sender(&config);
        sender.send(&bytes(10));
        sender.feed(&flow());
        let ended = ask_in_vain_from_ten_seconds_on(sender, timeout, is_idle, &flow());
        let gone = Err(Failure::PeerGone);
        assert!(matches!(ended[0], Event::Sent { result, .. } if result == gone), "{timeout} {ended:?}");
        let mut receiver = Half::receiver(&config);
        receiver.post(10);
        receiver.feed(&encode_idle(0));
        let asks = |datagram: &[u8]| parse_request(datagram).is_some();
        let ended = ask_in_vain_from_ten_seconds_on(receiver, timeout, asks, &encode_idle(0));
        assert!(matches!(ended[0], Event::Received { result: Err(Failure::PeerGone), .. }), "{timeout} {ended:?}");
    }
}

#[test]
fn another_life_of_the_sender_is_not_mixed_up_with_the_old_one() {
    //= Z-6, Z-19, Z-20 test
    for seed in 0..20 {
        let mut world = busy(seed, "delay=5ms,rate=10mbit");
        world.sim.run_for(Duration::from_millis(150));
        world.sim.kill(SENDER);
        let config = Config { seed: seed + 1000, ..fixed() };
        world.sim.restart(SENDER, Zcrp::new(Some(Sender::new(config, world.sim.now())), None));
        // It sends messages with the same numbers and other contents.
        for number in 0..10 {
            let buffer = world.sim.add_buffer(SENDER, content(seed + 77, number, 100_000));
            let now = world.sim.now();
            world.sim.call(SENDER, |engine| engine.sender_mut().unwrap().send(now, buffer, 100_000)).unwrap();
        }
        world.sim.run_for(Duration::from_secs(60));
        let events = &world.sim.application(RECEIVER).events;
        let ended = events.iter().filter(|(_, event)| matches!(event, Event::Received { .. })).count();
        assert_eq!(ended, 10, "the receiver does not wait for ever");
        for (_, event) in events {
            if let Event::Received { number, buffer, result: Ok(size) } = event {
                let whole = world.sim.buffer(RECEIVER, *buffer)[..*size as usize] == content(seed, *number, *size);
                assert!(whole, "seed {seed}: message {number} mixes two lives");
            }
        }
        assert!(world.receiver().counters().units_stale > 0 || world.sender().counters().units_sent == 0);
    }
}

#[test]
fn another_life_of_the_receiver_leaves_nobody_waiting() {
    //= Z-19 test
    let mut world = busy(6, "delay=5ms,rate=10mbit");
    world.sim.run_for(Duration::from_millis(250));
    world.sim.kill(RECEIVER);
    world.sim.restart(RECEIVER, Zcrp::new(None, Some(Receiver::new(fixed()))));
    for _ in 0..3 {
        let buffer = world.sim.add_buffer(RECEIVER, vec![0; 100_000]);
        let now = world.sim.now();
        world.sim.call(RECEIVER, |engine| engine.receiver_mut().unwrap().post(now, buffer, 100_000)).unwrap();
    }
    world.sim.run_for(Duration::from_secs(60));
    let sent = world.sim.application(SENDER).events.iter().filter(|(_, e)| matches!(e, Event::Sent { .. })).count();
    assert_eq!(sent, 10);
}

#[test]
fn a_receiver_that_never_posts_and_a_sender_that_never_sends_harm_nobody() {
    //= Z-3, Z-19 test
    let mut world = World::new(7, &fixed(), "delay=5ms");
    for _ in 0..100 {
        world.send(1000);
    }
    world.sim.run_for(Duration::from_secs(600));
    assert_eq!(world.sender().counters().units_sent, 0);
    assert!(world.sim.counters(SENDER).datagrams_sent <= 601, "one idle datagram a second");
    assert!(world.ends().sent.is_empty(), "the receiver is there, and says so");
    let mut world = World::new(8, &fixed(), "delay=5ms");
    for _ in 0..100 {
        world.post(1000);
    }
    world.sim.run_for(Duration::from_secs(600));
    assert!(world.ends().received.is_empty());
    let sent = world.sim.counters(RECEIVER).datagrams_sent;
    assert!(sent < 2000, "repeated requests slow down: {sent}");
}

#[test]
fn a_slow_application_gets_its_messages_whenever_it_posts() {
    //= Z-13, Z-17 test
    let mut world = World::new(9, &fixed(), "delay=5ms,loss=5%");
    for _ in 0..20 {
        world.send(5000);
    }
    for _ in 0..20 {
        world.sim.run_for(Duration::from_millis(700));
        world.post(5000);
    }
    world.check_all_arrived(20);
}

#[test]
fn thousands_of_messages_may_be_under_way() {
    //= Z-4, Z-17 test
    let mut world = World::new(10, &fixed(), "delay=1ms,rate=1gbit,queue=none");
    for _ in 0..5000 {
        world.send(200);
        world.post(200);
    }
    world.check_all_arrived(60);
}

#[test]
fn an_mtu_that_shrinks_in_mid_transfer_does_no_harm_where_the_network_fragments() {
    //= Z-19 test
    let mut world = busy(11, "delay=5ms,rate=10mbit");
    for millis in [50, 100, 150] {
        let at = Time::ZERO + Duration::from_millis(millis);
        world.sim.schedule(at, |sim| {
            sim.report_path_event(SENDER, PathEvent::TooLarge { to: RECEIVER.address(), fits: Some(1200) });
            sim.report_path_event(SENDER, PathEvent::Unreachable);
            sim.report_path_event(RECEIVER, PathEvent::Unreachable);
        });
    }
    world.check_all_arrived(30);
    assert_eq!(world.sender().counters().unreachable_reports, 3);
    assert_eq!(world.receiver().counters().unreachable_reports, 3);
    busy(12, "delay=5ms,rate=10mbit,mtu-change=1000@100ms").check_all_arrived(30);
    // Where it says nothing, both ends are told: U is fixed for the life of a sender.
    let mut world = busy(12, "delay=5ms,rate=10mbit,mtu-change=1000@100ms,icmp=no");
    let ends = world.run(40);
    world.check(&ends);
    assert_eq!((ends.sent.len(), ends.received.len()), (10, 10));
}

#[test]
fn a_full_receive_buffer_is_a_loss_like_any_other() {
    //= Z-9 test
    let host = HostConfig { receive_buffer: 20_000, read_cost: Duration::from_micros(500), ..HostConfig::default() };
    let mut sim = Simulation::new(13);
    sim.add_host(Zcrp::new(Some(Sender::new(fixed(), Time::ZERO)), None), Inbox::default());
    sim.add_host_with(Zcrp::new(None, Some(Receiver::new(fixed()))), Inbox::default(), host);
    sim.link(SENDER, RECEIVER, &NetworkConfig::default(), &NetworkConfig::default());
    let (data, room) = (content(1, 1, 2_000_000), vec![0; 2_000_000]);
    let (from, to) = (sim.add_buffer(SENDER, data.clone()), sim.add_buffer(RECEIVER, room));
    sim.call(RECEIVER, |engine| engine.receiver_mut().unwrap().post(Time::ZERO, to, 2_000_000)).unwrap();
    sim.call(SENDER, |engine| engine.sender_mut().unwrap().send(Time::ZERO, from, 2_000_000)).unwrap();
    sim.run_for(Duration::from_secs(60));
    assert!(sim.counters(RECEIVER).receive_buffer_drops > 0);
    assert!(sim.buffer(RECEIVER, to) == data);
    assert!(matches!(sim.application(SENDER).events[..], [(_, Event::Sent { result: Ok(()), .. })]));
}

#[test]
fn two_instances_in_opposite_directions_share_a_channel() {
    //= Z-1, Z-2 test
    for (seed, network) in [(14, "delay=2ms"), (15, "delay=2ms,loss=10%,duplicate=5%"), (16, "delay=2ms,jitter=3ms")] {
        let network: NetworkConfig = network.parse().unwrap();
        let mut sim = Simulation::new(seed);
        let mut buffers = Vec::new();
        for host in [SENDER, RECEIVER] {
            let config = Config { seed: seed + u64::from(host.index()), ..fixed() };
            let halves = (Sender::new(config.clone(), Time::ZERO), Receiver::new(config));
            sim.add_host(Zcrp::new(Some(halves.0), Some(halves.1)), Inbox::default());
        }
        sim.link(SENDER, RECEIVER, &network, &network);
        for number in 0..20u64 {
            for host in [SENDER, RECEIVER] {
                let size = 20_000 * u32::from(number % 3 == 0) + 10 * number as u32;
                let id = u64::from(host.index()) * 100 + number;
                let from = sim.add_buffer(host, content(seed, id, size));
                let to = sim.add_buffer(host, vec![0; size as usize]);
                buffers.push((HostId::new(1 - host.index()), host, number, from, to));
                sim.call(host, |engine| {
                    let sent = engine.sender_mut().unwrap().send(Time::ZERO, from, size);
                    let posted = engine.receiver_mut().unwrap().post(Time::ZERO, to, size);
                    assert_eq!((sent, posted), (Ok(number), Ok(number)));
                });
            }
        }
        sim.run_for(Duration::from_secs(60));
        for host in [SENDER, RECEIVER] {
            let events = &sim.application(host).events;
            assert_eq!(events.len(), 40, "{network}: {:?}", &events[events.len() - 5..]);
            assert!(events.iter().all(|(_, event)| match event {
                Event::Sent { result, .. } => result.is_ok(),
                Event::Received { result, .. } => result.is_ok(),
                _ => false,
            }));
        }
        for &(to_host, from_host, number, from, _) in &buffers {
            let to = buffers.iter().find(|b| b.1 == to_host && b.2 == number).unwrap().4;
            assert!(sim.buffer(from_host, from) == sim.buffer(to_host, to), "message {number} to {to_host}");
        }
    }
}

#[test]
fn half_of_a_duplex_channel_may_end_while_the_other_goes_on() {
    //= Z-1, Z-15 test
    let mut sim = Simulation::new(17);
    for seed in [1, 2] {
        let config = Config { seed, ..fixed() };
        let halves = (Sender::new(config.clone(), Time::ZERO), Receiver::new(config));
        sim.add_host(Zcrp::new(Some(halves.0), Some(halves.1)), Inbox::default());
    }
    let network: NetworkConfig = "delay=2ms,rate=10mbit".parse().unwrap();
    sim.link(SENDER, RECEIVER, &network, &network);
    for (from, to) in [(SENDER, RECEIVER), (RECEIVER, SENDER)] {
        let (source, target) = (sim.add_buffer(from, vec![3; 300_000]), sim.add_buffer(to, vec![0; 300_000]));
        sim.call(to, |engine| engine.receiver_mut().unwrap().post(Time::ZERO, target, 300_000)).unwrap();
        sim.call(from, |engine| engine.sender_mut().unwrap().send(Time::ZERO, source, 300_000)).unwrap();
    }
    sim.run_for(Duration::from_millis(50));
    sim.call(SENDER, |engine| engine.sender_mut().unwrap().close());
    sim.run_for(Duration::from_secs(20));
    let results = |host| -> Vec<_> { sim.application(host).events.iter().map(|(_, event)| *event).collect() };
    let (at_sender, at_receiver) = (results(SENDER), results(RECEIVER));
    assert!(at_sender.iter().any(|e| matches!(e, Event::Sent { result: Err(Failure::Closed), .. })), "{at_sender:?}");
    assert!(at_sender.iter().any(|e| matches!(e, Event::Received { result: Ok(300_000), .. })), "{at_sender:?}");
    assert!(at_receiver.iter().any(|e| matches!(e, Event::Sent { result: Ok(()), .. })), "{at_receiver:?}");
    let gone = |e: &Event| matches!(e, Event::Received { result: Err(Failure::PeerGone), .. });
    assert!(at_receiver.iter().any(gone), "{at_receiver:?}");
}

#[test]
fn peers_with_units_and_windows_of_other_sizes_understand_each_other() {
    //= Z-9 test
    for unit in [29, 30, 100, 65_507] {
        let config = Config { unit_size: UnitSize::Fixed(unit), window_units: 200, ..fixed() };
        let mut world = World::new(18, &config, "delay=1ms,loss=3%,reorder=5%");
        for size in [0, 1, 2, 500, 3 * (unit as u32 - 28)] {
            world.send(size);
            world.post(size + 5);
        }
        world.check_all_arrived(60);
    }
}
