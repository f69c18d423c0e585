//! Changes of the quality of service in mid-stream.
mod support;

use core::time::Duration;
use pinnace_a1::{Event, Qos, Refused, Status};
use pinnace_core::Time;
use pinnace_sim::HostId;
use pinnace_wire::a1::{Body, Kind};
use std::cell::Cell;
use std::rc::Rc;
use support::*;

fn at_rate(average: u64) -> Qos {
    Qos { send_average: average, send_burst: 2000, ..reliable() }
}

/// A sender of 10 s at 100 kB/s, in messages of 5,000 bytes.
fn streaming() -> (Vec<Vec<u8>>, Program) {
    let messages: Vec<_> = (0..200).map(|index| pattern(5000, index)).collect();
    let client = Program::opening(at_rate(100_000), messages.clone(), Some(LINGER * 10));
    (messages, client)
}

/// The client wants another record, at a time.
fn change_at(world: &mut World, host: HostId, at: Time, qos: Qos) {
    world.schedule(at, move |world| {
        let now = world.now();
        let id = world.application(host).core.id();
        world.with_host(host, |handle| handle.call(|engine| engine.set_qos(now, id, qos))).expect("within the maximum");
    });
}

fn rate_between(sights: &Sights, low: Time, high: Time) -> f64 {
    let sights = sights.borrow();
    let blocks = sights.iter().filter(|sight| sight.from == CLIENT && sight.kind() == Kind::Data);
    let bytes: usize =
        blocks.filter(|sight| sight.at >= low && sight.at < high).map(|sight| sight.bytes.len() - 32).sum();
    bytes as f64 / high.since(low).as_secs_f64()
}

//= A-12 test
#[test]
fn a_change_takes_effect_within_one_round_trip_and_loses_nothing() {
    for (to, before_reply) in [(400_000, 100_000.0), (50_000, 50_000.0)] {
        let (messages, client) = streaming();
        let mut world = world(1, reliable(), "delay=20ms", Program::listening(vec![], None), client);
        let sights = watch(&mut world, "delay=20ms");
        let at = millis(1000);
        change_at(&mut world, CLIENT, at, at_rate(to));
        let statuses = Rc::new(Cell::new([Status::NONE; 3]));
        for (index, time) in [millis(999), millis(1010), millis(1041)].into_iter().enumerate() {
            let statuses = statuses.clone();
            world.schedule(time, move |world| {
                let (now, id) = (world.now(), world.application(CLIENT).core.id());
                let mut all = statuses.get();
                all[index] = world.with_host(CLIENT, |host| host.call(|engine| engine.status(now, id)));
                statuses.set(all);
            });
        }
        quiet(&mut world);
        assert!(seen(&world, SERVER).messages == messages, "no block lost or reordered");
        let (there, here) = (seen(&world, SERVER), seen(&world, CLIENT));
        assert_eq!(here.qos_changes, [(millis(1040), false)], "one round trip");
        assert_eq!(there.qos_changes, [(millis(1020), true)]);
        let near = |rate: f64, expected: f64| (rate - expected).abs() < expected * 0.25;
        assert!(near(rate_between(&sights, millis(500), at), 100_000.0));
        let meanwhile = rate_between(&sights, millis(1000), millis(1040));
        assert!(meanwhile <= before_reply + 2000.0 / 0.04, "the smaller of both: {meanwhile}");
        let after = rate_between(&sights, millis(1041), millis(1141));
        assert!(near(after, to as f64), "{after}");
        let [before, pending, changed] = statuses.get();
        let bits = [Status::QOS_PENDING, Status::QOS_CHANGED];
        assert_eq!(bits.map(|bit| before.contains(bit)), [false, false]);
        assert_eq!(bits.map(|bit| pending.contains(bit)), [true, false]);
        assert_eq!(bits.map(|bit| changed.contains(bit)), [false, true]);
        // One QOS, one QOS_REPLY, and no new set-up.
        let count = |kind| sights.borrow().iter().filter(|sight| sight.kind() == kind).count();
        assert_eq!([Kind::Qos, Kind::QosReply, Kind::Accept].map(count), [1, 1, 1]);
        assert_eq!(world.engine(CLIENT).counters().blocks_repeated, 0);
        clean(&world);
    }
}

//= A-12 test
#[test]
fn lost_questions_and_answers_are_repeated_with_the_same_epoch() {
    for kind in [Kind::Qos, Kind::QosReply] {
        let (messages, client) = streaming();
        let mut world = world(2, reliable(), "delay=5ms", Program::listening(vec![], None), client);
        let sights = Sights::default();
        for (from, to) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
            let (noted, mut count) = (sights.clone(), 0);
            tap(&mut world, from, to, move |sight| {
                noted.borrow_mut().push(sight.clone());
                count += u32::from(sight.kind() == kind);
                sight.kind() == kind && count <= 3
            });
        }
        change_at(&mut world, CLIENT, millis(1000), at_rate(300_000));
        quiet(&mut world);
        assert!(seen(&world, SERVER).messages == messages);
        assert_eq!(seen(&world, CLIENT).qos_changes.len(), 1, "{kind:?}");
        assert_eq!(seen(&world, SERVER).qos_changes.len(), 1, "a repetition changes nothing");
        let sights = sights.borrow();
        let asked: Vec<_> = sights.iter().filter(|sight| sight.kind() == Kind::Qos).collect();
        assert_eq!(asked.len(), 4);
        for (index, sight) in asked.iter().enumerate() {
            let Body::Qos(change) = sight.body() else { panic!() };
            assert_eq!((change.epoch, sight.head().header.is_retransmitted), (1, index > 0));
            assert_eq!(sight.head().header.sequence, asked[0].head().header.sequence);
        }
        let mut answers = sights.iter().filter(|sight| sight.kind() == Kind::QosReply);
        assert!(answers.all(|sight| matches!(sight.body(), Body::QosReply(change) if change.epoch == 1)));
    }
}

//= A-12 test
#[test]
fn a_second_change_waits_and_takes_the_place_of_one_that_waits() {
    let (messages, client) = streaming();
    let mut world = world(3, reliable(), "delay=20ms", Program::listening(vec![], None), client);
    let sights = watch(&mut world, "delay=20ms");
    for (index, rate) in [200_000, 300_000, 400_000].into_iter().enumerate() {
        change_at(&mut world, CLIENT, millis(1000 + index as u64), at_rate(rate));
    }
    quiet(&mut world);
    assert!(seen(&world, SERVER).messages == messages);
    let times: Vec<_> = seen(&world, CLIENT).qos_changes.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [millis(1040), millis(1080)]);
    let sights = sights.borrow();
    let asked = sights.iter().filter_map(|sight| match sight.body() {
        Body::Qos(change) => Some((change.epoch, change.qos.send_average)),
        _ => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), [(1, 200_000), (2, 400_000)]);
}

//= A-12, A-13 test
#[test]
fn both_ends_may_change_at_the_same_time() {
    for offset in [0, 1, 19, 20, 21, 39, 40] {
        let (messages, client) = streaming();
        let server = Program::listening(messages.clone(), None);
        let mut world = world(4, reliable(), "delay=20ms", server, client);
        // The client: faster. The server: less to receive, and more to send.
        change_at(&mut world, CLIENT, millis(1000), at_rate(300_000));
        let theirs = Qos { receive_average: 150_000, receive_burst: 3000, ..reliable() };
        change_at(&mut world, SERVER, millis(1000 + offset), theirs);
        let sights = watch(&mut world, "delay=20ms");
        world.run_for(Duration::from_secs(3));
        for host in [SERVER, CLIENT] {
            let mut ends: Vec<_> = seen(&world, host).qos_changes.iter().map(|(_, by_peer)| *by_peer).collect();
            ends.sort_unstable();
            assert_eq!(ends, [false, true], "{offset} {host}");
            let facts = world.engine(host).facts(world.now(), world.application(host).core.id()).expect("it lives");
            assert!(!facts.status.contains(Status::QOS_PENDING), "{offset} {host}");
        }
        let rate = rate_between(&sights, millis(1200), millis(2200));
        assert!((140_000.0..155_000.0).contains(&rate), "{offset}: the smaller of own and peer's: {rate}");
        quiet(&mut world);
        assert!(seen(&world, SERVER).messages == messages);
    }
}

//= A-10, A-12 test
#[test]
fn windows_and_messages_grow_and_shrink_in_mid_stream() {
    for seed in 0..6 {
        let all = reliable();
        let small = Qos { largest_sent: 20_000, outstanding: 2, ..all };
        let messages: Vec<_> = (0..300).map(|index| pattern(1000 + 53 * index, index as u8)).collect();
        let client = Program::opening(all, messages.clone(), Some(LINGER * 10));
        let network = "delay=5ms,loss=2%,rate=20mbit";
        let mut world = world(10 + seed, all, network, Program::listening(vec![], None), client);
        for (at, qos) in [(200, small), (400, all), (600, Qos { outstanding: 1, ..all }), (800, all)] {
            change_at(&mut world, CLIENT, millis(at), qos);
        }
        quiet(&mut world);
        assert!(seen(&world, SERVER).messages == messages, "{seed}");
        assert!(seen(&world, CLIENT).qos_changes.len() >= 3);
        clean(&world);
    }
}

//= A-12, A-13 test
#[test]
fn what_both_ends_have_lowered_rises_again() {
    let low = Qos { outstanding: 1, send_average: 10_000, send_burst: 2000, ..reliable() };
    for network in ["delay=5ms", "delay=5ms,loss=30%"] {
        let client = Program::opening(reliable(), vec![], None);
        let mut world = world(6, reliable(), network, Program::listening(vec![], None), client);
        // The client hears the server's answer after it has asked for more itself; or it asks for nothing again.
        change_at(&mut world, SERVER, millis(1000), low);
        change_at(&mut world, CLIENT, millis(3000), reliable());
        change_at(&mut world, SERVER, millis(5000), reliable());
        world.run_for(Duration::from_secs(9));
        for host in [SERVER, CLIENT] {
            let facts = world.engine(host).facts(world.now(), world.application(host).core.id()).expect("it lives");
            assert_eq!((facts.qos, facts.peer_qos), (reliable(), reliable()), "{network} {host}");
            assert!(!facts.status.contains(Status::QOS_PENDING));
            // 1,049 blocks a message.
            assert_eq!(facts.windows, (16 * 1049, 16 * 1049), "{network} {host}");
        }
        // Each its own, and the client once more because the server allows more.
        let asked = |host: HostId| seen(&world, host).qos_changes.iter().filter(|(_, by_peer)| !by_peer).count();
        assert_eq!((asked(SERVER), asked(CLIENT)), (2, 2));
    }
}

//= A-12 test
#[test]
fn the_quality_changes_also_where_the_peer_takes_smaller_blocks() {
    let max = reliable();
    let server = Qos { block_size: 600, ..max };
    let messages: Vec<_> = (0..50).map(|index| pattern(5000, index)).collect();
    let slow = Qos { send_average: 100_000, send_burst: 2000, ..max };
    let client = Program::opening(slow, messages.clone(), Some(LINGER * 10));
    let configs = [config(server, 1), config(max, 2)];
    let mut world = world_of(configs, "delay=5ms", Program::listening(vec![], None), client);
    change_at(&mut world, CLIENT, millis(500), Qos { send_average: 200_000, ..slow });
    quiet(&mut world);
    assert!(seen(&world, SERVER).messages == messages);
    assert_eq!(seen(&world, CLIENT).qos_changes, [(millis(510), false)]);
    clean(&world);
}

//= A-12 test
#[test]
fn beyond_the_maximum_takes_a_new_connection() {
    let max = Qos { send_average: 1_000_000, send_burst: 10_000, ..reliable() };
    let client = Program::new(
        move |now, core, host| {
            let beyond = Qos { send_average: 0, ..max };
            let refused = host
                .call(|engine| engine.open(now, SERVER.address(), pinnace_a1::Address { host: 0, port: PORT }, beyond));
            assert_eq!(refused, Err(Refused::BeyondMaximum));
            core.open(now, host, SERVER, max);
        },
        move |now, event, _, host| {
            let Event::Connected { connection } = *event else { return };
            for beyond in [
                Qos { send_average: 1_000_001, ..max },
                Qos { send_average: 0, ..max },
                Qos { send_burst: 10_001, ..max },
                Qos { priority: 127, ..max },
                Qos { outstanding: 17, ..max },
                Qos { block_size: 999, ..max },
                checked(max),
                Qos { has_retransmission: false, ..max },
            ] {
                assert_eq!(host.call(|engine| engine.set_qos(now, connection, beyond)), Err(Refused::BeyondMaximum));
            }
            assert_eq!(host.call(|engine| engine.set_qos(now, connection, Qos { outstanding: 3, ..max })), Ok(()));
        },
    );
    let mut world = world(5, max, "delay=5ms", Program::listening(vec![], None), client);
    world.run_for(Duration::from_secs(1));
    assert_eq!(seen(&world, CLIENT).qos_changes.len(), 1);
}
