//! Associations: two streams, the states of figure 1, and what the engine does while nobody looks.

use crate::half::Packet;
use crate::scene::*;
use core::time::Duration;
use pinnace_qmp::socket::{Errno, Linger};
use pinnace_qmp::{Profile, State};
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Close, Event, KeepAlive, Patience};

//= Q-3 test
#[test]
fn a_context_has_one_stream_each_way() {
    let mut scene = Scene::accepted(&Profile::default());
    let sent = scene.write(3000);
    let data = scene.data(SREQ, 0, 500).sync(1001);
    let answer = only(scene.feed(&data));
    // Both begin at the number of the FIRST, and neither moves the other.
    assert_eq!(sent[0].seq, scene.n(0));
    assert_eq!((answer.rseq, answer.seq), (scene.n(500), scene.n(3000)));
    let status = scene.status(NONE, 3000, 1_000_000, sent.last().expect("sent").sync).sync(1002);
    assert_eq!(scene.feed(&status), []);
    let facts = scene.half.xtp().facts(scene.context()).expect("there");
    assert_eq!((scene.at(facts.acked), scene.at(facts.rseq)), (3000, 500));
    assert_eq!((facts.my_key, facts.peer_key), (scene.its_key, KEY), "the pair of contexts");
    assert_eq!(scene.consume(500), []);
    // One stream may end long before the other.
    scene.shut_write();
    let data = scene.data(SREQ, 500, 500).sync(1003);
    assert_eq!(only(scene.feed(&data)).rseq, scene.n(1000));
}

//= Q-4 test
#[test]
fn who_listens_goes_from_quiescent_over_active_to_inactive_and_back() {
    let mut scene = Scene::listening(&Profile::default());
    assert_eq!(scene.state(), State::Quiescent);
    scene.accept(SREQ, 100);
    assert_eq!(scene.state(), State::Active);
    // Its own stream ends first.
    let sent = only(scene.shut_write());
    assert_eq!((scene.state(), sent.marks()), (State::Active, SREQ | WCLOSE));
    let status = scene.status(NONE, 0, 1000, sent.sync).sync(1001);
    assert_eq!(scene.feed(&status), []);
    assert_eq!(scene.state(), State::Active, "one stream is open");
    // And the other, but the peer has not said yet that it has everything.
    let end = scene.data(WCLOSE, 100, 100).sync(1002);
    let answer = only(scene.feed(&end));
    assert_eq!((scene.state(), answer.marks()), (State::Inactive, RCLOSE | WCLOSE), "option bits are the sentinels");
    assert_eq!(scene.closed(), None);
    let mut status = scene.status(RCLOSE | WCLOSE, 0, 1000, sent.sync).sync(1003);
    status.seq = scene.n(200);
    let answer = only(scene.feed(&status));
    assert_eq!((scene.state(), answer.marks()), (State::Quiescent, all(&[RCLOSE, WCLOSE, END])));
    assert_eq!(scene.closed(), Some(Ok(())));
    assert_eq!(scene.consume(200), [], "what has come may be read");
}

//= Q-4 test
#[test]
fn who_connects_is_active_from_then_on_and_end_makes_it_quiescent() {
    let (mut scene, first) = Scene::connecting(&Profile::default());
    assert_eq!(scene.state(), State::Active);
    assert!(!scene.half.events.iter().any(|event| matches!(event, Event::Connected { .. })));
    let status = scene.status(NONE, 0, 1000, first.sync);
    assert_eq!(scene.feed(&status), []);
    assert!(scene.half.events.iter().any(|event| matches!(event, Event::Connected { .. })), "connect() returns");
    scene.write(10);
    let sent = only(scene.shut_write());
    let end = scene.data(WCLOSE, 0, 10).sync(1001);
    assert_eq!(only(scene.feed(&end)).marks(), RCLOSE | WCLOSE);
    assert_eq!(scene.state(), State::Active, "our end is not acknowledged");
    let status = scene.status(WCLOSE, 10, 1000, sent.sync).sync(1002);
    let status = Packet { seq: scene.n(10), ..status };
    scene.feed(&status);
    assert_eq!(scene.state(), State::Inactive);
    let ended = Packet { options: status.options | RCLOSE | END, sync: 1003, ..status };
    assert_eq!(scene.feed(&ended), [], "END is not answered");
    assert_eq!((scene.state(), scene.closed()), (State::Quiescent, Some(Ok(()))));
}

//= Q-4 test
#[test]
fn a_context_that_never_was_is_quiescent() {
    let mut scene = Scene::connected(&Profile::default());
    let context = scene.context();
    let (sent, _) = scene.close(Linger::Zero);
    assert!(only(sent).has(END));
    assert!(scene.half.xtp().facts(context).is_none(), "it is forgotten");
    assert_eq!(scene.state(), State::Quiescent);
}

/// A listener goes on listening: every FIRST makes a context of its own.
//= Q-4 test
#[test]
fn a_listener_keeps_listening() {
    let mut scene = Scene::listening(&Profile::default());
    for key in 1..50 {
        let first = Packet { key, ..scene.first(SREQ, 10) };
        let answer = only(scene.feed(&first));
        assert_eq!((answer.kind, answer.key), (Kind::Tcntl, key));
    }
    assert_eq!(scene.half.xtp().contexts(), 49);
}

/// The application sleeps: it has called nothing, and reads nothing.
//= Q-4 test
#[test]
fn the_peers_handshake_is_answered_while_the_application_sleeps() {
    let mut scene = Scene::accepted(&Profile::default());
    let data = scene.data(NONE, 0, 1000);
    assert_eq!(scene.feed(&data), []);
    for round in 0..20 {
        // A minute of silence, and the handshake of the peer's CTIMER.
        assert_eq!(scene.wait(59_000), []);
        let asks = scene.status(SREQ, 0, 1_000_000, scene.sync()).sync(1001 + round);
        let answer = only(scene.feed(&asks));
        assert_eq!((answer.kind, answer.echo, answer.rseq), (Kind::Cntl, 1001 + round, scene.n(1000)));
    }
    assert_eq!((scene.state(), scene.readable()), (State::Active, 1000));
}

//= Q-4 test
#[test]
fn a_peer_that_has_stopped_is_lost_after_ctimer_and_ctimeout() {
    // Nothing is under way; something is; a status is missing.
    for bytes in [0, 100, 10_000] {
        let mut scene = Scene::connected(&Profile::default());
        if bytes > 0 {
            scene.write(bytes);
        }
        let sent = scene.wait(59_900);
        assert_eq!(sent.is_empty(), bytes == 0);
        assert_eq!(scene.state(), State::Active, "{bytes} bytes under way: a stopped process may go on");
        let sent = scene.wait(200);
        assert!(sent.iter().all(|got| (got.kind, got.marks()) == (Kind::Cntl, SREQ)));
        assert!(!sent.is_empty() && scene.closed().is_none(), "CTIMER: is anybody there?");
        let sent = scene.wait(9_800);
        assert!(sent.iter().all(|got| (got.kind, got.marks()) == (Kind::Cntl, SREQ)));
        assert_eq!(scene.closed(), None, "{bytes} bytes under way");
        let sent = scene.wait(200);
        assert_eq!(sent.last().and_then(|got| got.diag), Some((2, 0)), "CTIMEOUT");
        assert_eq!((scene.state(), scene.errno()), (State::Quiescent, Some(Errno::TimedOut)));
        assert_eq!(scene.outputs(), vec![false; usize::from(bytes > 0)]);
    }
}

fn patience(keep_alive: Option<(u64, u64)>, unacknowledged: Option<u64>) -> Patience {
    let millis = Duration::from_millis;
    let keep_alive = keep_alive.map(|(idle, limit)| KeepAlive { idle: millis(idle), limit: millis(limit) });
    Patience { keep_alive, unacknowledged: unacknowledged.map(millis) }
}

#[test]
fn keep_alive_asks_a_silent_peer_and_gives_it_up() {
    let mut scene = Scene::connected(&Profile::default());
    scene.set_patience(patience(Some((3000, 4000)), Some(100)));
    for round in 0..3 {
        assert_eq!(scene.wait(2900), [], "it is not silent for long enough");
        let asked = scene.wait(200);
        assert!(!asked.is_empty() && asked.iter().all(|got| (got.kind, got.marks()) == (Kind::Cntl, SREQ)));
        let status = scene.status(NONE, 0, 1_000_000, asked.last().expect("asked").sync).sync(1001 + round);
        assert_eq!(scene.feed(&status), []);
    }
    scene.wait(6900);
    assert_eq!(scene.closed(), None);
    let sent = scene.wait(200);
    assert_eq!(sent.last().and_then(|got| got.diag), Some((2, 0)));
    assert_eq!((scene.state(), scene.errno()), (State::Quiescent, Some(Errno::TimedOut)));
}

#[test]
fn keep_alive_waits_while_an_acknowledgement_is_due_and_never_longer_than_without() {
    // Something is written before the peer is silent; or after it has been asked whether it is there; or the times are long.
    for (before, after, times) in [(100, 0, (3000, 4000)), (0, 100, (3000, 4000)), (0, 0, (30_000, 600_000))] {
        let mut scene = Scene::connected(&Profile::default());
        scene.set_patience(patience(Some(times), None));
        if before > 0 {
            scene.write(before);
        }
        scene.wait(3100);
        if after > 0 {
            scene.write(after);
        }
        scene.wait(66_700);
        assert_eq!(scene.closed(), None, "{times:?}, {before}, {after}");
        scene.wait(400);
        assert_eq!(scene.errno(), Some(Errno::TimedOut), "{times:?}, {before}, {after}");
    }
}

#[test]
fn what_nobody_acknowledges_ends_an_association_in_time() {
    let mut scene = Scene::connected(&Profile::default());
    scene.set_patience(patience(None, Some(2000)));
    scene.wait(10_000);
    assert_eq!(scene.closed(), None, "nothing is due");
    let mut asked = scene.write(10_000).last().expect("sent").sync;
    // As long as it goes on it is borne.
    for round in 1..5 {
        scene.wait(1900);
        assert_eq!(scene.closed(), None);
        let status = scene.status(NONE, round * 1000, 1_000_000, asked).sync(1000 + round as u32);
        let sent = scene.feed(&status);
        asked = sent.last().map_or(asked, |got| got.sync);
    }
    scene.wait(1900);
    assert_eq!(scene.closed(), None);
    scene.wait(200);
    assert_eq!((scene.errno(), scene.outputs()), (Some(Errno::TimedOut), vec![false]));
}

#[test]
fn a_peer_that_answers_and_makes_no_room_is_not_borne_either() {
    let mut scene = Scene::connected(&Profile::default());
    scene.set_patience(patience(None, Some(2000)));
    scene.write(1_500_000);
    for round in 0..19 {
        let asked = scene.sync();
        let status = scene.status(NONE, 1_000_000, 1_000_000, asked).sync(1001 + round);
        scene.feed(&status);
        scene.wait(100);
        assert_eq!(scene.closed(), None);
    }
    scene.wait(200);
    assert_eq!(scene.errno(), Some(Errno::TimedOut));
}

//= Q-4 test
#[test]
fn a_process_that_goes_on_in_time_has_lost_nothing() {
    let mut scene = Scene::connected(&Profile::default());
    scene.write(10_000);
    let asked = scene.wait(65_000);
    let status = scene.status(NONE, 10_000, 1_000_000, asked.last().expect("asked").sync).sync(1001);
    assert_eq!(scene.feed(&status), []);
    assert_eq!((scene.state(), scene.outputs()), (State::Active, vec![true]));
    let sent = only(scene.write(10));
    assert_eq!((sent.kind, sent.seq), (Kind::Data, scene.n(10_000)));
}

/// The application only ever closes: the rest is the engine's.
//= Q-4 test
#[test]
fn the_end_of_a_half_closed_association_is_asked_for() {
    let mut scene = Scene::connected(&Profile::default());
    let context = scene.context();
    scene.half.call(|engine, now| engine.close(now, context, Close::Full)).expect("open");
    let sent = only(scene.take());
    assert_eq!(sent.marks(), SREQ | WCLOSE);
    let again = only(scene.due(10));
    assert_eq!((again.kind, again.marks()), (Kind::Cntl, SREQ | WCLOSE));
}
