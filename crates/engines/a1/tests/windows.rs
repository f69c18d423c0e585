//! End-to-end flow control: the window counts what the application has not consumed.
mod support;

use core::time::Duration;
use pinnace_a1::{Event, Output, Qos, Refused, Status};
use pinnace_wire::a1::Kind;
use std::cell::Cell;
use std::rc::Rc;
use support::*;

fn small() -> Qos {
    Qos { largest_sent: 10_000, largest_received: 10_000, outstanding: 4, ..reliable() }
}

//= A-9 test
#[test]
fn the_edge_of_open_is_never_taken_back() {
    // The opener tells 120 blocks, before it hears that the other end has no more than two messages on their way.
    let qos = Qos { largest_sent: 15_000, largest_received: 15_000, outstanding: 8, ..reliable() };
    let configs = [config(Qos { outstanding: 2, ..qos }, 1), config(qos, 2)];
    let messages: Vec<_> = (0..8).map(|index| pattern(13_000, index)).collect();
    let server = Program::listening(messages.clone(), Some(LINGER));
    let client = Program::opening(qos, vec![], None).with(|core| (core.is_deaf, core.keeps) = (true, true));
    let mut world = world_of(configs, "delay=5ms", server, client);
    world.schedule(millis(500), |world| {
        let now = world.now();
        world.with_application(CLIENT, |program, host| {
            program.core.is_deaf = false;
            let id = program.core.id();
            program.core.read(now, id, host);
            host.call(|engine| engine.release(now, id));
        });
    });
    quiet(&mut world);
    assert!(seen(&world, CLIENT).messages == messages);
    let counters = world.engine(CLIENT).counters();
    assert_eq!((counters.blocks_dropped, counters.blocks_contradictory), (0, 0));
    assert_eq!(world.engine(SERVER).counters().blocks_repeated, 0);
    clean(&world);
}

//= A-9, A-10, A-16 test
#[test]
fn who_does_not_read_stops_the_sender_and_reading_lets_it_go_on() {
    for loses_acks in [false, true] {
        let messages: Vec<_> = (0..30).map(|index| pattern(10_000, index)).collect();
        let client = Program::opening(small(), messages.clone(), None);
        let server = Program::listening(vec![], None).with(|core| core.is_deaf = true);
        let mut world = world(1, small(), "delay=5ms", server, client);
        let loses = Rc::new(Cell::new(0_u32));
        let left = loses.clone();
        tap(&mut world, SERVER, CLIENT, move |sight| {
            let is_lost = sight.kind() == Kind::Ack && left.get() > 0;
            left.set(left.get().saturating_sub(u32::from(is_lost)));
            is_lost
        });
        world.run_for(Duration::from_secs(10));
        let now = world.now();
        let id = world.application(CLIENT).core.id();
        let facts = world.engine(CLIENT).facts(now, id).expect("it lives");
        assert_eq!(facts.windows, (40, 40));
        assert_eq!((facts.sent, facts.acked, facts.edge), (40, 40, 40), "a window, and not a block more");
        assert!(facts.status.contains(Status::WINDOW_FULL));
        assert!(facts.is_open, "a closed window is no reason to give up");
        assert!(world.application(CLIENT).core.refused > 0);
        // The ACK that opens the window may be lost.
        loses.set(if loses_acks { 1000 } else { 0 });
        let read = move |world: &mut World| {
            let now = world.now();
            world.with_application(SERVER, |program, host| {
                program.core.is_deaf = false;
                let id = program.core.id();
                program.core.read(now, id, host);
            });
        };
        read(&mut world);
        world.run_for(Duration::from_millis(130));
        let facts = world.engine(CLIENT).facts(world.now(), id).expect("it lives");
        assert!(facts.sent > 40, "100 ms for the SYNC and a round trip: {}", facts.sent);
        loses.set(0);
        world.run_for(Duration::from_secs(5));
        assert!(seen(&world, SERVER).messages == messages);
        assert!(seen(&world, CLIENT).writable > 0);
        assert_eq!(seen(&world, CLIENT).delivered(), 30);
    }
}

/// Whoever reads nothing, and says so to its engine, stops nobody: what was there, and what comes, counts as read.
//= A-9 test
#[test]
fn what_nobody_reads_can_be_discarded() {
    let messages: Vec<_> = (0..30).map(|index| pattern(10_000, index)).collect();
    let client = Program::opening(small(), messages, None);
    let server = Program::listening(vec![], None).with(|core| core.is_deaf = true);
    let mut world = world(1, small(), "delay=5ms,loss=3%", server, client);
    world.run_for(Duration::from_secs(10));
    let id = world.application(CLIENT).core.id();
    let facts = |world: &World| world.engine(CLIENT).facts(world.now(), id).expect("it lives");
    assert_eq!((facts(&world).sent, facts(&world).acked), (40, 40), "a window, and not a block more");
    let now = world.now();
    world.with_application(SERVER, |program, host| {
        let id = program.core.id();
        host.call(|engine| engine.discard_incoming(now, id));
    });
    world.run_for(Duration::from_secs(10));
    assert_eq!(seen(&world, CLIENT).delivered(), 30);
    assert!(seen(&world, SERVER).messages.is_empty(), "nobody got it");
    assert_eq!(facts(&world).edge, facts(&world).sent + 40, "the window is open");
}

//= A-9 test
#[test]
fn a_message_that_is_read_in_sips_opens_the_window_block_by_block() {
    let messages: Vec<_> = (0..10).map(|index| pattern(9_500, index)).collect();
    let client = Program::opening(small(), messages.clone(), Some(LINGER));
    let server = Program::listening(vec![], None).with(|core| core.sips = Some(333));
    let mut world = world(1, small(), "delay=5ms,loss=3%", server, client);
    quiet(&mut world);
    assert!(seen(&world, SERVER).messages == messages);
    clean(&world);
}

//= A-16 test
#[test]
fn a_full_window_says_so_and_tells_when_there_is_room() {
    let client = Program::new(
        |now, core, host| {
            core.open(now, host, SERVER, small());
        },
        |now, event, core, host| {
            let Event::Connected { connection } = *event else { return };
            let mut count = 0;
            loop {
                let buffer = host.add_buffer(pattern(100, 0));
                match host.call(|engine| engine.send(now, connection, Output::new(buffer, 100))) {
                    Ok(ticket) => {
                        core.tickets.insert(ticket, connection);
                        count += 1;
                    }
                    Err(error) => {
                        assert_eq!(error, Refused::Full);
                        host.take_buffer(buffer);
                        break;
                    }
                }
            }
            assert_eq!(count, 4, "as many as may be outstanding");
            let status = host.call(|engine| engine.status(now, connection));
            assert!(status.contains(Status::WINDOW_FULL));
        },
    );
    let mut world = world(1, small(), "delay=5ms", Program::listening(vec![], None), client);
    world.run_for(Duration::from_millis(200));
    assert_eq!((seen(&world, CLIENT).writable, seen(&world, CLIENT).delivered()), (1, 4));
    let (now, id) = (world.now(), world.application(CLIENT).core.id());
    assert_eq!(world.engine(CLIENT).facts(now, id).expect("it lives").status, Status::NONE);
}

//= A-8 test
#[test]
fn a_long_round_trip_is_measured_too() {
    let client =
        Program::opening(Qos { send_average: 100_000, ..reliable() }, vec![pattern(1_000_000, 1)], Some(LINGER * 4));
    let mut world = world(6, reliable(), "delay=1500ms", Program::listening(vec![], None), client);
    quiet(&mut world);
    let counters = world.engine(CLIENT).counters();
    // Those of OPENs that were repeated before the cookie came.
    assert!(counters.stamps_wrong <= 3, "{counters:?}");
    // The last answers may find the connection closed.
    assert!(counters.syncs_sent > 50 && counters.round_trips + 31 > counters.syncs_sent, "{counters:?}");
    assert_eq!(seen(&world, CLIENT).rtt, Some(Duration::from_secs(3)));
    clean(&world);
}

//= A-8 test
#[test]
fn sync_measures_the_round_trip_and_nothing_else_does() {
    let messages: Vec<_> = (0..40).map(|index| pattern(10_000, index)).collect();
    // 2 s of data at 200 kB/s.
    let qos = Qos { send_average: 200_000, send_burst: 2000, ..small() };
    let client = Program::opening(qos, messages, Some(LINGER));
    let mut world = world(1, qos, "delay=5ms", Program::listening(vec![], None), client);
    let syncs = Rc::new(std::cell::RefCell::new(Vec::new()));
    let noted = syncs.clone();
    tap(&mut world, CLIENT, SERVER, move |sight| {
        if sight.kind() == Kind::Sync {
            noted.borrow_mut().push(sight.at);
        }
        false
    });
    world.run_for(Duration::from_millis(1900));
    let counters = world.engine(CLIENT).counters();
    // ACCEPT, and every SYNC but the one on its way.
    assert!((counters.round_trips).abs_diff(counters.syncs_sent + 1) <= 1, "{counters:?}");
    let syncs = syncs.borrow();
    let start = seen(&world, CLIENT).connected_at.expect("connected");
    assert_eq!(syncs[0], start, "at start-up");
    for pair in syncs.windows(2) {
        let gap = pair[1].since(pair[0]);
        assert!(gap <= Duration::from_millis(101), "{gap:?}: every 100 ms at least");
    }
    assert!(syncs.len() >= 18, "{}", syncs.len());
    let id = world.application(CLIENT).core.id();
    let facts = world.engine(CLIENT).facts(world.now(), id).expect("it lives");
    assert_eq!(facts.shortest_round_trip, Some(Duration::from_millis(10)));
    assert_eq!(facts.round_trip, Some(Duration::from_millis(10)));
    assert_eq!(world.engine(CLIENT).counters().stamps_wrong, 0);
}

//= A-8 test
#[test]
fn a_fast_path_is_measured_every_16_windows() {
    let messages: Vec<_> = (0..250).map(|number| pattern(9000, number as u8)).collect();
    let client = Program::opening(small(), messages, Some(LINGER));
    let mut world = world(7, small(), "delay=100us", Program::listening(vec![], None), client);
    let (blocks, most, syncs) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let noted = (blocks, most.clone(), syncs.clone());
    tap(&mut world, CLIENT, SERVER, move |sight| {
        let (blocks, most, syncs) = &noted;
        match sight.kind() {
            Kind::Data => blocks.set(blocks.get() + 1),
            Kind::Sync => {
                blocks.set(0);
                syncs.set(syncs.get() + 1);
            }
            _ => {}
        }
        most.set(most.get().max(blocks.get()));
        false
    });
    quiet(&mut world);
    assert_eq!(seen(&world, SERVER).messages.len(), 250);
    // Four messages of ten blocks are a window; these have nine.
    assert!((600..=640).contains(&most.get()) && syncs.get() >= 4, "{} blocks, {} SYNCs", most.get(), syncs.get());
    clean(&world);
}
