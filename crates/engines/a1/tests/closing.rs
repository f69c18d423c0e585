//! How connections end: closed by one or both, aborted, lingering too long, or because nobody is there any more.
mod support;

use core::time::Duration;
use pinnace_a1::{CloseCode, Event, Failure, Qos, Refused, Status};
use pinnace_core::Time;
use pinnace_wire::a1::{Body, Kind};
use support::*;

fn open_only() -> Program {
    Program::opening(reliable(), vec![], None)
}

fn kinds(sights: &Sights, from: pinnace_sim::HostId, kind: Kind) -> Vec<Sight> {
    sights.borrow().iter().filter(|sight| sight.from == from && sight.kind() == kind).cloned().collect()
}

//= A-18 test
#[test]
fn close_waits_for_what_is_queued() {
    let messages = patterns(&[100_000, 0, 300_000, 1]);
    let client = Program::opening(reliable(), messages.clone(), Some(LINGER));
    let mut world = world(1, reliable(), "", Program::listening(vec![], None), client);
    let sights = watch(&mut world, "delay=10ms,rate=10mbit");
    quiet(&mut world);
    assert!(seen(&world, SERVER).messages == messages);
    let close = &kinds(&sights, CLIENT, Kind::Close)[..];
    let [close] = close else { panic!("{close:?}") };
    let sights = sights.borrow();
    let acked = sights.iter().filter(|sight| sight.from == SERVER && sight.kind() == Kind::Ack);
    let all = acked.filter(|ack| ack.head().header.sequence == close.head().header.sequence).map(|ack| ack.at).min();
    assert!(close.at >= all.expect("everything was acknowledged") + Duration::from_millis(10));
    assert!(matches!(close.body(), Body::Close(CloseCode::Normal)));
    clean(&world);
}

//= A-18 test
#[test]
fn what_was_read_is_acknowledged_before_a_close() {
    // Nothing else is to be said; or much has still to leave, and nobody reads any more.
    for (answer, is_abandoned) in [(vec![], false), (vec![], true), (vec![pattern(200_000, 9)], true)] {
        let has_answer = !answer.is_empty();
        let server = Program::new(
            |_, _, host| listen(host),
            move |now, event, core, host| match event {
                Event::Accepted { connection, .. } => core.put(now, host, *connection, answer.clone()),
                Event::Readable { connection } if !core.only().messages.is_empty() => {
                    if is_abandoned {
                        host.call(|engine| engine.abandon(now, *connection, LINGER));
                    } else {
                        core.close(now, host, *connection, LINGER);
                    }
                }
                _ => {}
            },
        );
        let client = Program::opening(reliable(), patterns(&[10]), None);
        let mut world = world(11, reliable(), "delay=5ms,rate=10mbit", server, client);
        quiet(&mut world);
        let here = seen(&world, CLIENT);
        assert_eq!((here.delivered(), here.sent.len()), (1, 1), "{has_answer} {is_abandoned}");
        assert_eq!(here.closed, Some(Ok(())));
        assert_eq!(here.messages.len(), usize::from(has_answer));
        clean(&world);
    }
}

//= A-18 test
#[test]
fn crossing_closes_are_both_answered() {
    for (offset, loses) in [(0, false), (1, false), (9, true), (10, true), (0, true)] {
        let mut world = world(2, reliable(), "", Program::listening(patterns(&[1000]), None), open_only());
        let sights = watch(&mut world, if loses { "delay=10ms,loss=30%" } else { "delay=10ms" });
        for (host, at) in [(CLIENT, 20_000), (SERVER, 20_000 + offset)] {
            world.schedule(millis(at), move |world| {
                let (now, id) = (world.now(), world.application(host).core.id());
                let closed = world.with_host(host, |handle| handle.call(|engine| engine.close(now, id, LINGER)));
                assert!(closed.is_ok() || offset >= 10);
            });
        }
        quiet(&mut world);
        for host in [SERVER, CLIENT] {
            assert_eq!(seen(&world, host).closed, Some(Ok(())), "{offset} {loses} {host}");
        }
        if offset < 10 && !loses {
            for host in [SERVER, CLIENT] {
                assert_eq!(kinds(&sights, host, Kind::Close).len(), 1);
                assert_eq!(kinds(&sights, host, Kind::CloseReply).len(), 1);
            }
        }
        assert_eq!(seen(&world, CLIENT).messages, patterns(&[1000]));
        clean(&world);
    }
}

//= A-18 test
#[test]
fn what_arrives_behind_the_end_of_the_linger_counts_as_delivered() {
    // Half a round trip more than it waits: the answer to CLOSE says how far the peer has got.
    let client = Program::opening(reliable(), patterns(&[1000, 500]), Some(Duration::from_millis(100)));
    let mut world = world(21, reliable(), "delay=150ms", Program::listening(vec![], None), client);
    quiet(&mut world);
    let here = seen(&world, CLIENT);
    assert_eq!((here.closed.clone(), here.delivered()), (Some(Ok(())), 2));
    let there = seen(&world, SERVER);
    assert_eq!((there.closed.clone(), there.messages.clone()), (Some(Ok(())), patterns(&[1000, 500])));
    clean(&world);
}

//= A-18 test
#[test]
fn linger_is_bounded() {
    let qos = Qos { largest_sent: 15_000, largest_received: 15_000, outstanding: 8, ..reliable() };
    let messages: Vec<_> = (0..3).map(|index| pattern(13_000, index)).collect();
    let client = Program::opening(qos, messages, Some(Duration::from_millis(1500)));
    let limits = Qos { outstanding: 2, ..qos };
    let configs = [config(limits, 1), config(qos, 2)];
    let server = Program::listening(vec![], None).with(|core| (core.is_deaf, core.keeps) = (true, true));
    let mut world = world_of(configs, "delay=10ms", server, client);
    world.run_for(Duration::from_secs(60));
    let here = seen(&world, CLIENT);
    // The window is 30 blocks, and nobody reads.
    assert_eq!(here.closed, Some(Err(Failure::LingerOver)));
    let took = here.closed_at.expect("told").since(here.connected_at.expect("connected"));
    assert!(took < Duration::from_millis(1600), "{took:?}");
    assert_eq!((here.delivered(), here.sent.len()), (2, 3));
    // What has come is read afterwards.
    let there = seen(&world, SERVER).clone();
    assert_eq!(there.closed, Some(Ok(())));
    let now = world.now();
    world.with_application(SERVER, |program, host| {
        let id = program.core.id();
        assert!(host.call(|engine| engine.status(now, id)).contains(Status::PEER_CLOSED));
        program.core.read(now, id, host);
        host.call(|engine| engine.release(now, id));
    });
    quiet(&mut world);
    assert_eq!(seen(&world, SERVER).messages.len(), 2);
    clean(&world);
}

//= A-18 test
#[test]
fn an_abort_drops_what_is_unacknowledged_at_both_ends() {
    let messages: Vec<_> = (0..16).map(|index| pattern(100_000, index)).collect();
    let client = Program::opening(reliable(), messages.clone(), None);
    let server = Program::listening(messages, None).with(|core| core.keeps = true);
    let mut world = world(3, reliable(), "delay=10ms,rate=10mbit", server, client);
    world.schedule(millis(200), |world| {
        let (now, id) = (world.now(), world.application(CLIENT).core.id());
        world.with_host(CLIENT, |host| host.call(|engine| engine.abort(now, id))).expect("it lives");
    });
    world.run_for(Duration::from_secs(30));
    let (there, here) = (seen(&world, SERVER), seen(&world, CLIENT));
    assert_eq!((&there.closed, &here.closed), (&Some(Err(Failure::AbortedByPeer)), &Some(Err(Failure::Aborted))));
    assert_eq!(here.closed_at, Some(millis(200)));
    assert!(there.closed_at.expect("told").since(millis(210)) < Duration::from_millis(100));
    assert_eq!((there.sent.len(), here.sent.len()), (16, 16));
    assert!(here.delivered() < 16 && there.delivered() < 16);
    let (now, id) = (world.now(), world.application(SERVER).core.id());
    world.with_host(SERVER, |host| {
        assert!(host.call(|engine| engine.status(now, id)).contains(Status::ABORTED));
        let buffer = host.add_buffer(vec![1]);
        let refused = host.call(|engine| engine.send(now, id, pinnace_a1::Output::new(buffer, 1)));
        assert_eq!(refused, Err(Refused::NoConnection));
        host.call(|engine| engine.release(now, id));
    });
    quiet(&mut world);
    clean(&world);
}

#[test]
fn a_dead_peer_is_given_up_after_eight_repetitions() {
    let messages: Vec<_> = (0..16).map(|index| pattern(1000, index)).collect();
    let client = Program::new(
        |now, core, host| {
            core.open(now, host, SERVER, reliable());
            host.wake_at(millis(1000), 0);
        },
        |_, _, _, _| {},
    )
    .waking(move |now, _, core, host| {
        let id = core.id();
        core.put(now, host, id, messages.clone());
    });
    let mut world = world(4, reliable(), "", Program::listening(vec![], None), client);
    let sights = watch(&mut world, "delay=5ms");
    world.schedule(millis(999), |world| world.power_off(SERVER));
    quiet(&mut world);
    let here = seen(&world, CLIENT);
    assert_eq!(here.closed, Some(Err(Failure::Abandoned)));
    assert_eq!((here.sent.len(), here.delivered()), (16, 0));
    let blocks = kinds(&sights, CLIENT, Kind::Data);
    let first = blocks[0].head().header.sequence;
    let times: Vec<_> = blocks.iter().filter(|it| it.head().header.sequence == first).map(|it| it.at).collect();
    assert_eq!(times.len(), 9, "and eight repetitions: {times:?}");
    assert!(blocks.iter().filter(|it| it.at > millis(1001)).all(|it| it.head().header.is_retransmitted));
    for pair in times.windows(3) {
        let (first, second) = (pair[1].since(pair[0]), pair[2].since(pair[1]));
        let ratio = second.as_secs_f64() / first.as_secs_f64();
        assert!((1.98..2.02).contains(&ratio), "each twice as late: {first:?} {second:?}");
    }
    clean_client(&world);
}

/// The dead server keeps what it had.
fn clean_client(world: &World) {
    assert!(world.application(CLIENT).core.tickets.is_empty());
    assert_eq!((world.engine(CLIENT).connections(), world.engine(CLIENT).bytes()), (0, 0));
}

#[test]
fn an_idle_peer_that_vanished_is_noticed() {
    let mut world = world(5, reliable(), "", Program::listening(vec![], None), open_only());
    let sights = watch(&mut world, "delay=5ms");
    world.schedule(millis(1000), |world| world.power_off(SERVER));
    quiet(&mut world);
    let here = seen(&world, CLIENT);
    assert_eq!(here.closed, Some(Err(Failure::Abandoned)));
    let at = here.closed_at.expect("told").since(Time::ZERO);
    // 30 s of idleness, and half of the 15 s that it may be silent.
    assert!((37..40).contains(&at.as_secs()), "{at:?}");
    let syncs = kinds(&sights, CLIENT, Kind::Sync).len();
    assert!((7..13).contains(&syncs), "one a second: {syncs}");
    clean_client(&world);
}

#[test]
fn a_peer_that_is_asked_early_is_missed_as_soon_as_it_has_been_silent_for_so_long() {
    let mut world = world(5, reliable(), "delay=5ms", Program::listening(vec![], None), open_only());
    world.schedule(millis(1000), |world| world.power_off(SERVER));
    world.schedule(millis(5000), |world| {
        let (now, id) = (world.now(), world.application(CLIENT).core.id());
        world.with_host(CLIENT, |host| host.call(|engine| engine.ask(now, id)));
    });
    quiet(&mut world);
    assert_eq!(seen(&world, CLIENT).closed, Some(Err(Failure::Abandoned)));
    let at = seen(&world, CLIENT).closed_at.expect("told").since(Time::ZERO);
    assert!((15..17).contains(&at.as_secs()), "{at:?}");
    clean_client(&world);
}

#[test]
fn an_idle_connection_lives_and_says_little() {
    let mut world = world(6, reliable(), "", Program::listening(vec![], None), open_only());
    let sights = watch(&mut world, "delay=5ms,loss=20%");
    world.run_for(Duration::from_secs(600));
    for host in [SERVER, CLIENT] {
        assert_eq!(seen(&world, host).closed, None);
    }
    let count = sights.borrow().len();
    assert!(count < 120, "every 30 s a SYNC and its answer: {count}");
}

#[test]
fn a_close_is_answered_for_ten_seconds() {
    let client = Program::opening(reliable(), patterns(&[10]), Some(LINGER));
    let mut world = world(7, reliable(), "delay=5ms", Program::listening(vec![], None), client);
    let (replies, closes) = (Sights::default(), Sights::default());
    let noted = replies.clone();
    tap(&mut world, SERVER, CLIENT, move |sight| {
        let is_reply = sight.kind() == Kind::CloseReply;
        if is_reply {
            noted.borrow_mut().push(sight.clone());
        }
        is_reply && noted.borrow().len() <= 3
    });
    let noted = closes.clone();
    tap(&mut world, CLIENT, SERVER, move |sight| {
        if sight.kind() == Kind::Close {
            noted.borrow_mut().push(sight.clone());
        }
        false
    });
    world.run_for(Duration::from_secs(5));
    let closes = closes.borrow();
    assert_eq!((closes.len(), replies.borrow().len()), (4, 4));
    assert!(closes.iter().skip(1).all(|close| close.head().header.is_retransmitted));
    assert_eq!(seen(&world, CLIENT).closed, Some(Ok(())));
    assert_eq!(seen(&world, SERVER).closed_at, Some(closes[0].at + Duration::from_millis(5)), "told at the first");
    assert_eq!(world.engine(SERVER).connections(), 1, "time-wait");
    // Late repetitions: answered while it lasts, and no longer.
    let close = closes[3].bytes.clone();
    let first = closes[0].at + Duration::from_millis(5);
    for (after, answers) in [(9900, 1), (10_100, 0)] {
        let before = replies.borrow().len();
        let later = first + Duration::from_millis(after);
        let again = close.clone();
        world.schedule(later, move |world| world.inject(CLIENT.address(), SERVER, &again));
        world.run_for(later.since(world.now()) + Duration::from_millis(20));
        assert_eq!(replies.borrow().len() - before, answers, "{after}");
    }
    quiet(&mut world);
    clean(&world);
}

//= A-18 test
#[test]
fn a_close_that_has_crossed_is_answered_for_ten_seconds_also_if_ours_never_is() {
    let mut world = world(16, reliable(), "", Program::listening(vec![], None), open_only());
    let (closes, replies) = (Sights::default(), Sights::default());
    let noted = closes.clone();
    tap_before(&mut world, SERVER, CLIENT, "delay=1ms", move |sight| {
        if sight.kind() == Kind::Close {
            noted.borrow_mut().push(sight.clone());
        }
        sight.kind() == Kind::CloseReply
    });
    let noted = replies.clone();
    tap_before(&mut world, CLIENT, SERVER, "delay=1ms", move |sight| {
        if matches!(sight.kind(), Kind::Close | Kind::CloseReply) {
            noted.borrow_mut().push(sight.clone());
        }
        false
    });
    for host in [CLIENT, SERVER] {
        world.schedule(millis(500), move |world| {
            let (now, id) = (world.now(), world.application(host).core.id());
            world.with_host(host, |handle| handle.call(|engine| engine.close(now, id, LINGER))).expect("it lives");
        });
    }
    world.run_for(Duration::from_secs(7));
    assert_eq!(seen(&world, CLIENT).closed, Some(Ok(())));
    let count = |kind| replies.borrow().iter().filter(|sight| sight.kind() == kind).count();
    assert_eq!((closes.borrow().len(), count(Kind::Close), count(Kind::CloseReply)), (1, 9, 1), "given up");
    let close = closes.borrow()[0].clone();
    for (after, answers) in [(8000, 1), (9900, 1), (10_100, 0)] {
        let before = count(Kind::CloseReply);
        let (later, again) = (close.at + Duration::from_millis(1 + after), close.bytes.clone());
        world.schedule(later, move |world| world.inject(SERVER.address(), CLIENT, &again));
        world.run_for(later.since(world.now()) + Duration::from_millis(20));
        assert_eq!(count(Kind::CloseReply) - before, answers, "{after}");
    }
    quiet(&mut world);
    clean(&world);
}

//= A-18 test
#[test]
fn whoever_has_answered_a_close_stays_until_repetitions_have_come() {
    // Three answers are lost, and who gave them goes as soon as it may.
    for (qos, delay, most) in [(reliable(), 1, 400), (raw(), 1, 400), (reliable(), 100, 8000), (raw(), 100, 8000)] {
        let client = Program::opening(qos, patterns(&[10]), Some(LINGER));
        let mut world = world(12, qos, &format!("delay={delay}ms"), Program::listening(vec![], None), client);
        let mut replies = 0;
        tap(&mut world, SERVER, CLIENT, move |sight| {
            let is_reply = sight.kind() == Kind::CloseReply;
            replies += u32::from(is_reply);
            is_reply && replies <= 3
        });
        while world.application(SERVER).core.seen.values().all(|seen| seen.closed.is_none()) {
            world.run_for(Duration::from_millis(1));
        }
        let begun = world.now();
        while let Some(left) = world.engine(SERVER).parting(world.now()) {
            assert!(left <= Duration::from_secs(3), "{left:?}");
            world.run_for(left);
        }
        let took = world.now().since(begun);
        assert!(took <= Duration::from_millis(most), "{delay} {took:?}");
        assert_eq!(seen(&world, CLIENT).closed, Some(Ok(())), "{delay} {took:?}");
        assert_eq!(world.engine(CLIENT).parting(world.now()), None);
    }
}

//= A-18 test
#[test]
fn nobody_stays_who_owes_no_answer_and_nobody_for_long_on_a_short_path() {
    for qos in [reliable(), raw()] {
        let client = Program::opening(qos, patterns(&[10]), None).with(|core| core.keeps = true);
        let mut world = world(13, qos, "delay=100us", Program::listening(vec![], None), client);
        world.run_for(Duration::from_millis(500));
        for host in [SERVER, CLIENT] {
            assert_eq!(world.engine(host).parting(world.now()), None, "nobody has closed");
        }
        let (now, id) = (world.now(), world.application(CLIENT).core.id());
        world.with_host(CLIENT, |host| host.call(|engine| engine.close(now, id, LINGER))).expect("it lives");
        world.run_for(Duration::from_millis(1));
        let now = world.now();
        assert_eq!(seen(&world, CLIENT).closed, Some(Ok(())));
        assert_eq!(world.engine(CLIENT).parting(now), None, "it has its answer");
        assert!(world.engine(CLIENT).facts(now, id).is_some_and(|facts| !facts.is_unanswered));
        let left = world.engine(SERVER).parting(now).expect("the answer may have been lost");
        assert!((45..100).contains(&left.as_millis()), "{left:?}");
    }
}

//= A-18 test
#[test]
fn whoever_has_aborted_stays_until_that_is_known_or_was_said_three_times() {
    for lost in [0, 2, u32::MAX] {
        let client = Program::opening(reliable(), patterns(&[10]), None).with(|core| core.keeps = true);
        let mut world = world(15, reliable(), "delay=5ms", Program::listening(vec![], None), client);
        let mut said = 0;
        tap(&mut world, CLIENT, SERVER, move |sight| {
            let is_close = sight.kind() == Kind::Close;
            said += u32::from(is_close);
            is_close && said <= lost
        });
        world.run_for(Duration::from_millis(500));
        let (begun, id) = (world.now(), world.application(CLIENT).core.id());
        world.with_host(CLIENT, |host| host.call(|engine| engine.abort(begun, id))).expect("it lives");
        while let Some(left) = world.engine(CLIENT).parting(world.now()) {
            world.run_for(left.min(Duration::from_millis(1)));
        }
        let took = world.now().since(begun);
        // What has left is under way.
        world.run_for(Duration::from_millis(6));
        assert!(took <= Duration::from_millis(if lost == 0 { 11 } else { 200 }), "{lost} {took:?}");
        let heard = world.application(SERVER).core.seen.values().next().expect("it was accepted").closed.clone();
        let expected = (lost <= 2).then_some(Err(Failure::AbortedByPeer));
        assert_eq!(heard, expected, "{lost}");
    }
}

#[test]
fn a_close_that_nobody_answers_is_known() {
    let client = Program::opening(reliable(), patterns(&[10]), None).with(|core| core.keeps = true);
    let mut world = world(14, reliable(), "delay=5ms", Program::listening(vec![], None), client);
    world.schedule(millis(500), |world| {
        world.power_off(SERVER);
        let (now, id) = (world.now(), world.application(CLIENT).core.id());
        world.with_host(CLIENT, |host| host.call(|engine| engine.close(now, id, LINGER))).expect("it lives");
    });
    world.run_for(Duration::from_secs(60));
    let (here, id) = (seen(&world, CLIENT), world.application(CLIENT).core.id());
    assert_eq!((&here.closed, here.delivered()), (&Some(Ok(())), 1));
    assert!(world.engine(CLIENT).facts(world.now(), id).is_some_and(|facts| facts.is_unanswered));
}

#[test]
fn a_released_connection_is_aborted() {
    let client = Program::opening(reliable(), patterns(&[100_000]), None);
    let mut world = world(8, reliable(), "delay=5ms,rate=10mbit", Program::listening(vec![], None), client);
    world.schedule(millis(60), |world| {
        let (now, id) = (world.now(), world.application(SERVER).core.id());
        world.with_host(SERVER, |host| host.call(|engine| engine.release(now, id)));
    });
    quiet(&mut world);
    assert_eq!(seen(&world, SERVER).closed, Some(Err(Failure::Aborted)));
    assert_eq!(seen(&world, CLIENT).closed, Some(Err(Failure::AbortedByPeer)));
    clean(&world);
}

#[test]
fn a_shut_down_tells_everybody_once() {
    let client = Program::new(
        |now, core, host| {
            for _ in 0..3 {
                core.open(now, host, SERVER, reliable());
            }
        },
        |_, _, _, _| {},
    );
    let mut world = world(9, reliable(), "delay=5ms", Program::listening(patterns(&[10]), None), client);
    world.schedule(millis(500), |world| {
        let now = world.now();
        world.with_host(SERVER, |host| host.call(|engine| engine.shut_down(now)));
    });
    quiet(&mut world);
    let client = &world.application(CLIENT).core;
    assert!(client.seen.values().all(|seen| seen.closed == Some(Err(Failure::AbortedByPeer))));
    assert!(client.seen.values().all(|seen| seen.closed_at == Some(millis(505))));
    let server = &world.application(SERVER).core;
    assert_eq!(server.events.last(), Some(&Event::ShutDown));
    assert!(server.seen.values().all(|seen| seen.closed == Some(Err(Failure::Aborted))));
    clean(&world);
}
