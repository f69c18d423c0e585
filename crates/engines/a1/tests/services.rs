//! What a connection does for its two ends: messages of all sizes, both ways, over networks good and bad.
mod support;

use core::time::Duration;
use pinnace_a1::{Config, Event, Failure, Limits, Output, Qos, Refused, RejectCode};
use pinnace_core::Random;
use pinnace_sim::{Exits, Node, Packet, Path};
use support::*;

const SIZES: [usize; 14] = [0, 1, 2, 999, 1000, 1001, 0, 0, 1999, 2000, 65_536, 100_000, 1_048_576, 7];

/// The same messages both ways, then both ends close.
fn exchange(seed: u64, qos: Qos, network: &str, takes: bool) -> World {
    let (up, down) = (patterns(&SIZES), patterns(&SIZES[3..]));
    let mut server = Program::listening(down.clone(), None);
    server.core.takes = !takes;
    // Whoever closes ends both directions.
    let client = closing_after(qos, up.clone(), down.len()).with(|core| core.takes = takes);
    let mut world = world(seed, qos, network, server, client);
    quiet(&mut world);
    let (there, here) = (seen(&world, SERVER), seen(&world, CLIENT));
    assert!(there.messages == up, "{network}: {:?}", there.messages.iter().map(Vec::len).collect::<Vec<_>>());
    assert!(here.messages == down, "{network}: {:?}", here.messages.iter().map(Vec::len).collect::<Vec<_>>());
    assert_eq!((&there.closed, &here.closed), (&Some(Ok(())), &Some(Ok(()))), "{network}");
    // Whoever is closed upon may not have heard that its last messages have come.
    assert_eq!((here.delivered(), there.sent.len()), (up.len(), down.len()));
    clean(&world);
    world
}

/// A client that sends, and closes when it has received so many messages.
fn closing_after(qos: Qos, messages: Vec<Vec<u8>>, count: usize) -> Program {
    Program::new(
        move |now, core, host| {
            let id = core.open(now, host, SERVER, qos);
            core.put(now, host, id, messages);
        },
        move |now, event, core, host| {
            let Event::Readable { connection } = event else { return };
            if core.seen[connection].messages.len() == count && core.seen[connection].closed.is_none() {
                core.close(now, host, *connection, LINGER);
            }
        },
    )
}

//= A-5, A-6, A-7, A-18, A-20 test
#[test]
fn messages_of_all_sizes_arrive_both_ways() {
    for takes in [false, true] {
        exchange(1, reliable(), "delay=5ms", takes);
        exchange(2, reliable(), "", takes);
    }
}

//= A-10 test
#[test]
fn a_message_as_long_as_was_agreed_finds_room_whatever_the_limit() {
    let qos = Qos { largest_sent: 300_000, largest_received: 300_000, ..reliable() };
    let limits = Limits { bytes: 100_000, ..Limits::default() };
    let configs = [0, 1].map(|seed| Config { limits: limits.clone(), ..config(qos, seed) });
    let messages = patterns(&[300_000, 1, 300_000, 300_000]);
    let client = Program::opening(qos, messages.clone(), Some(LINGER));
    let mut world = world_of(configs, "delay=5ms", Program::listening(Vec::new(), None), client);
    quiet(&mut world);
    let there = seen(&world, SERVER);
    assert!(there.messages == messages, "{:?}", there.messages.iter().map(Vec::len).collect::<Vec<_>>());
    assert_eq!(there.closed, Some(Ok(())));
    clean(&world);
}

//= A-5, A-6, A-7 test
#[test]
fn nothing_is_lost_by_bad_networks() {
    for seed in 0..12 {
        for network in [
            "delay=5ms,loss=1%",
            "delay=5ms,loss=10%,jitter=3ms,duplicate=5%,reorder=5%",
            "delay=20ms,burst-loss=1%:30%,reorder=10%:5ms",
            "loss=20%",
            "delay=1ms,rate=20mbit,queue=64KiB",
        ] {
            exchange(100 + seed, reliable(), network, seed % 2 == 0);
        }
    }
}

/// Flips one bit of some packets. (Three can cancel out in an Internet checksum.)
#[derive(Debug)]
struct Flip(f64);

impl Node for Flip {
    fn enter(&mut self, mut packet: Packet, random: &mut Random, exits: &mut Exits) {
        if random.chance(self.0) {
            let mut data = packet.data().to_vec();
            let bit = random.below(data.len() as u64 * 8) as usize;
            data[bit / 8] ^= 1 << (bit % 8);
            packet.set_data(&data);
        }
        exits.forward(packet);
    }
}

//= A-6 test
#[test]
fn damaged_blocks_are_repeated_whole() {
    for seed in 0..5 {
        let (up, qos) = (patterns(&SIZES), checked(reliable()));
        let (server, client) = (Program::listening(up.clone(), None), closing_after(qos, up.clone(), up.len()));
        let mut world = world(200 + seed, qos, "", server, client);
        for (from, to) in [(SERVER, CLIENT), (CLIENT, SERVER)] {
            let path = Path::from_config(&"delay=5ms,loss=1%".parse().expect("a network"));
            world.set_route(from, to, Path::new().node(Flip(0.05)).then(path));
        }
        quiet(&mut world);
        assert!(seen(&world, SERVER).messages == up && seen(&world, CLIENT).messages == up, "{seed}");
        let counters = [SERVER, CLIENT].map(|host| world.engine(host).counters());
        assert!(counters.iter().all(|counters| counters.checksums_wrong > 20), "{counters:?}");
        assert!(counters.iter().all(|counters| counters.datagrams_malformed >= counters.checksums_wrong));
        clean(&world);
    }
}

#[test]
fn all_congestion_controllers_carry_it() {
    use pinnace_core::ControllerKind;
    for (index, kind) in
        [ControllerKind::Cubic, ControllerKind::Bbr, ControllerKind::Fixed { window: 3000 }].into_iter().enumerate()
    {
        for network in ["delay=5ms,rate=50mbit,loss=1%", "delay=20ms,rate=10mbit"] {
            let configs =
                [0, 1].map(|end| Config { congestion: kind, ..config(reliable(), 300 + 2 * index as u64 + end) });
            let up = patterns(&SIZES);
            let client = Program::opening(reliable(), up.clone(), Some(LINGER * 20));
            let mut world = world_of(configs, network, Program::listening(vec![], None), client);
            quiet(&mut world);
            assert!(seen(&world, SERVER).messages == up, "{kind:?} {network}");
            assert_eq!(seen(&world, CLIENT).closed, Some(Ok(())), "{kind:?} {network}");
            clean(&world);
        }
    }
}

//= A-16 test
#[test]
fn who_copies_asks_before_what_sending_would_say() {
    let qos = Qos { largest_sent: 1000, largest_received: 1000, outstanding: 2, ..reliable() };
    let client = Program::new(
        move |now, core, host| {
            core.open(now, host, SERVER, qos);
        },
        |now, event, core, host| {
            let Event::Connected { connection } = *event else { return };
            let mut ask = |len| host.call(|engine| engine.check_send(connection, len));
            assert_eq!(ask(1001), Err(Refused::TooLarge { most: 1000 }));
            assert_eq!((ask(0), ask(1000), ask(1000)), (Ok(()), Ok(()), Ok(())), "to ask takes no room");
            core.put(now, host, connection, vec![pattern(1000, 1), pattern(1000, 2)]);
            let mut ask = |len| host.call(|engine| engine.check_send(connection, len));
            assert_eq!((ask(1000), ask(1001)), (Err(Refused::Full), Err(Refused::TooLarge { most: 1000 })));
            core.close(now, host, connection, LINGER);
            assert_eq!(host.call(|engine| engine.check_send(connection, 1)), Err(Refused::NoConnection));
        },
    );
    let mut world = world(401, qos, "delay=2ms", Program::listening(vec![], None), client);
    quiet(&mut world);
    assert!(seen(&world, SERVER).messages == [pattern(1000, 1), pattern(1000, 2)]);
}

//= A-10, A-20 test
#[test]
fn a_message_has_65_535_blocks_at_most() {
    let qos = Qos { block_size: 10, largest_sent: 1 << 20, largest_received: 1 << 20, outstanding: 4, ..reliable() };
    let client = Program::new(
        move |now, core, host| {
            core.open(now, host, SERVER, qos);
        },
        |now, event, core, host| {
            let Event::Connected { connection } = *event else { return };
            let mut refused = |len: usize| {
                let buffer = host.add_buffer(vec![0; len]);
                let result = host.call(|engine| engine.send(now, connection, Output::new(buffer, len as u64)));
                host.take_buffer(buffer);
                result
            };
            let most = 655_350;
            assert_eq!(refused(655_351), Err(Refused::TooLarge { most }), "too many blocks");
            assert_eq!(refused((1 << 20) + 1), Err(Refused::TooLarge { most }), "too long");
            core.put(now, host, connection, vec![pattern(655_350, 1), vec![], pattern(655_341, 2)]);
            core.close(now, host, connection, LINGER);
        },
    );
    let mut world = world(400, qos, "delay=2ms,loss=0.1%", Program::listening(vec![], None), client);
    quiet(&mut world);
    assert!(seen(&world, SERVER).messages == [pattern(655_350, 1), vec![], pattern(655_341, 2)]);
    assert_eq!(seen(&world, CLIENT).closed, Some(Ok(())));
    clean(&world);
}

//= A-12, A-13 test
#[test]
fn the_smaller_block_is_in_force_and_too_different_records_are_rejected() {
    let max = Qos { block_size: 700, ..reliable() };
    let client = Program::opening(Qos { block_size: 1000, ..reliable() }, patterns(&SIZES), Some(LINGER));
    let configs = [config(max, 1), config(reliable(), 2)];
    let mut world = world_of(configs, "delay=5ms,loss=2%", Program::listening(patterns(&SIZES), None), client);
    quiet(&mut world);
    assert!(seen(&world, SERVER).messages == patterns(&SIZES));
    clean(&world);
    for other in [checked(reliable()), raw(), Qos { largest_sent: 5, ..reliable() }] {
        let client = Program::opening(reliable(), patterns(&[5]), Some(LINGER));
        let configs = [config(Qos { largest_received: 5, ..other }, 1), config(reliable(), 2)];
        let mut world = world_of(configs, "delay=5ms", Program::listening(vec![], None), client);
        quiet(&mut world);
        let result = seen(&world, CLIENT).closed.clone().expect("it ended");
        assert!(matches!(result, Err(Failure::Refused { code: RejectCode::Qos, .. })), "{result:?}");
        assert_eq!(world.engine(SERVER).counters().connections_accepted, 0);
        clean(&world);
    }
}

#[test]
fn where_nobody_listens_the_opener_is_told_and_a_dead_one_takes_time() {
    let nobody = || Program::starting(|_, _, _| {});
    let mut there = world(1, reliable(), "delay=5ms", nobody(), Program::opening(reliable(), vec![], None));
    quiet(&mut there);
    let result = seen(&there, CLIENT).closed.clone();
    assert!(matches!(result, Some(Err(Failure::Refused { code: RejectCode::NoListener, .. }))), "{result:?}");
    let mut dead = world(1, reliable(), "delay=5ms", nobody(), Program::opening(reliable(), vec![], None));
    dead.power_off(SERVER);
    quiet(&mut dead);
    assert_eq!(seen(&dead, CLIENT).closed, Some(Err(Failure::TimedOut)));
    // 250 ms, doubled eight times.
    let took = seen(&dead, CLIENT).closed_at.expect("told").since(millis(250 * 511));
    assert!(took < Duration::from_millis(5), "{took:?}");
    assert_eq!(dead.counters(CLIENT).datagrams_sent, 9);
    clean(&dead);
}
