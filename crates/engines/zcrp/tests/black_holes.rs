//! Paths that lose every large datagram, and tell nobody.

mod common;

use common::{RECEIVER, SENDER, World};
use core::time::Duration;
use pinnace_core::{ControllerKind, Time};
use pinnace_sim::HostConfig;
use pinnace_zcrp::{Config, Failure, UnitSize};

fn config(unit: usize, congestion: ControllerKind) -> Config {
    Config { unit_size: UnitSize::Whole(unit), congestion, ..Config::default() }
}

fn took(world: &World) -> Duration {
    world.sim.now().since(Time::ZERO)
}

//= Z-20 test
#[test]
fn messages_get_through_a_path_that_loses_large_datagrams() {
    // What the path carries, and what the sender finds.
    for (mtu, fits) in [(1499, 1200), (1280, 1200), (1228, 1200), (1227, 548), (1000, 548), (576, 548)] {
        for (unit, congestion) in
            [(1472, ControllerKind::Cubic), (1472, ControllerKind::Bbr), (8972, ControllerKind::Cubic)]
        {
            let network = format!("delay=10ms,rate=100mbit,mtu={mtu},icmp=no");
            let mut world = World::new(1, &config(unit, congestion), &network);
            for size in [40, 1444, 1445, 0, 9000, 100_000, 1_000_000] {
                world.send(size);
                world.post(size);
            }
            world.check_all_arrived(10);
            assert_eq!(world.sender().unit_bytes(), Some(fits), "MTU {mtu}, {unit} bytes, {congestion}");
            let most = if fits == 1200 { 2 } else { 4 };
            assert!(took(&world) < Duration::from_secs(most), "MTU {mtu}: {:?}", took(&world));
        }
    }
}

#[test]
fn a_last_unit_alone_does_not_say_how_long_units_are() {
    // It is short, and would get through; then no other length would be possible any more.
    for size in [1445, 1500, 2888, 2889, 14_500, 50_001] {
        for capacity in [size, 200_000] {
            let mut world = World::new(2, &config(1472, ControllerKind::Cubic), "delay=10ms,mtu=1000,icmp=no");
            world.send(size);
            world.post(capacity);
            world.check_all_arrived(10);
        }
    }
}

#[test]
fn small_messages_between_large_ones_are_no_proof() {
    let mut world = World::new(3, &config(1472, ControllerKind::Cubic), "delay=1ms,rate=100mbit,mtu=1000,icmp=no");
    for step in 0..400u64 {
        let size = if step % 10 == 3 { 20_000 } else { 100 };
        world.sim.run_for(Duration::from_millis(10));
        world.send(size);
        world.post(size);
    }
    world.check_all_arrived(10);
    assert_eq!(world.sender().unit_bytes(), Some(548));
}

#[test]
fn paths_that_lose_at_random_keep_their_units() {
    let mut smaller = 0;
    for loss in [10, 30, 50] {
        for seed in 0..20 {
            for size in [1000, 60_000] {
                let network = format!("delay=20ms,rate=20mbit,loss={loss}%,reorder=20%:30ms");
                let mut world = World::new(seed, &config(1472, ControllerKind::Bbr), &network);
                world.send(size);
                world.post(size);
                world.check_all_arrived(60);
                smaller += usize::from(world.sender().unit_bytes() != Some(1472));
            }
        }
    }
    assert!(smaller <= 2, "{smaller} of 120");
}

#[test]
fn silence_is_no_black_hole() {
    for host in [SENDER, RECEIVER] {
        let mut world = World::new(4, &config(1472, ControllerKind::Cubic), "delay=10ms,rate=100mbit");
        world.send(100_000);
        world.post(100_000);
        world.sim.run_for(Duration::from_millis(11));
        world.sim.freeze(host, Duration::from_secs(8));
        world.check_all_arrived(30);
        assert_eq!(world.sender().unit_bytes(), Some(1472));
    }
    // One direction is dead: requests come, but nobody gets anything. Large units come back with the path, or small ones.
    let mut world = World::new(5, &config(1472, ControllerKind::Cubic), "delay=10ms,partition=5ms..6s");
    world.send(100_000);
    world.sim.run_for(Duration::from_millis(10));
    world.post(100_000);
    world.check_all_arrived(30);
    assert_eq!(world.sender().unit_bytes(), Some(1472));
}

#[test]
fn who_doubts_too_soon_comes_back_to_the_units_that_arrive() {
    // A queue of two seconds: requests come while nothing of what they ask for has arrived yet.
    let there = "rate=56kbit,delay=2s".parse().expect("a valid network");
    let back = "rate=10mbit,delay=1ms".parse().expect("a valid network");
    for size in [1000, 1444, 1445, 20_000, 100_000] {
        let mut world = World::with_networks(6, &config(1472, ControllerKind::Cubic), &there, &back);
        world.send(100);
        world.post(100);
        world.send(size);
        world.post(200_000);
        world.check_all_arrived(60);
    }
}

#[test]
fn a_path_that_begins_to_lose_large_datagrams_may_cut_them() {
    // The receiver knows how long units are: no others are possible.
    let network = "delay=10ms,rate=10mbit,mtu-change=1280@300ms,icmp=no";
    let mut world = World::new(7, &config(1472, ControllerKind::Cubic), network);
    for _ in 0..10 {
        world.send(100_000);
        world.post(100_000);
    }
    world.check_all_arrived(10);
    assert_eq!(world.sender().unit_bytes(), Some(1472));
    assert!(took(&world) < Duration::from_secs(3), "{:?}", took(&world));
    // Requests for others are all that the receiver says.
    let mut world = World::new(7, &config(1472, ControllerKind::Cubic), network);
    world.send(1_000_000);
    for _ in 0..3 {
        world.post(1_000_000);
    }
    world.sim.run_for(Duration::from_secs(3));
    assert_eq!(world.sender().counters().messages_sent, 1);
}

//= Z-19 test
#[test]
fn where_nothing_can_be_done_both_ends_are_told_what_happened() {
    let network = "delay=10ms,rate=10mbit,mtu=1500,mtu-change=1280@300ms,icmp=no".parse().expect("a valid network");
    let host = HostConfig { fragments: false, ..HostConfig::default() };
    let mut world = World::with_hosts(8, &config(1472, ControllerKind::Cubic), host, &network, &network);
    world.send(1_000_000);
    world.post(1_000_000);
    let ends = world.run(60);
    world.check(&ends);
    assert_eq!(ends.sent[&0], Err(Failure::Swallowed));
    assert_eq!(ends.received[&0], Err(Failure::Swallowed));
}

#[test]
fn whoever_may_say_little_can_still_say_that_nothing_arrives() {
    // Units that do not arrive earn nothing: the sender has to ask. One of the two has chosen the address of the other.
    let open = config(1472, ControllerKind::Cubic);
    let limited = Config { limit_amplification: true, peer_unproven: true, ..open.clone() };
    for (which, configs) in [[&open, &limited], [&limited, &open]].into_iter().enumerate() {
        for sizes in [[1400, 1400], [3000, 100_000], [100_000, 1400]] {
            let network = "delay=10ms,rate=100mbit,mtu=1000,icmp=no".parse().expect("a valid network");
            let mut world = World::with_configs(9, configs, HostConfig::default(), &network, &network);
            for size in sizes {
                world.send(size);
            }
            world.sim.run_for(Duration::from_millis(50));
            for size in sizes {
                world.post(size);
            }
            world.check_all_arrived(15);
            assert!(took(&world) < Duration::from_secs(6), "{which}: {:?}", took(&world));
        }
    }
}

//= Z-13 test
#[test]
fn requests_that_are_too_large_are_repeated_in_small_ones() {
    let config = Config { control_bytes: 4096, ..config(1472, ControllerKind::Cubic) };
    let mut world = World::new(10, &config, "delay=10ms,rate=100mbit,mtu=576,icmp=no");
    for _ in 0..300 {
        world.post(3000);
    }
    for _ in 0..300 {
        world.send(3000);
    }
    world.check_all_arrived(10);
}
