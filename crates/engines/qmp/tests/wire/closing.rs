//! connect() that fails, shutdown() and close() (Profile).

use crate::half::{Got, Packet};
use crate::scene::*;
use pinnace_qmp::socket::{Errno, Linger};
use pinnace_qmp::{Profile, State};
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Event, Failure};

#[test]
fn diag_1_is_econnrefused() {
    for value in [0, 1, 2, 6, 8, 9] {
        let (mut scene, _) = Scene::connecting(&Profile::default());
        let diag = scene.diag(true, scene.its_key, 1, value);
        assert_eq!(scene.feed(&diag), [], "a DIAG is not answered");
        assert_eq!(scene.errno(), Some(Errno::Refused), "{value}");
        assert_eq!(scene.state(), State::Quiescent);
        assert!(!scene.half.events.iter().any(|event| matches!(event, Event::Connected { .. })));
        assert_eq!(scene.wait(100_000), []);
    }
}

#[test]
fn a_port_where_nobody_listens_says_so() {
    let mut scene = Scene::listening(&Profile::default());
    let first = Packet { port: PORT + 1, ..scene.first(SREQ, 0) };
    let diag = only(scene.feed(&first));
    assert_eq!((diag.diag, diag.rtn, diag.key), (Some((1, 1)), true, KEY));
}

#[test]
fn silence_is_etimedout() {
    let (mut scene, first) = Scene::connecting(&Profile::default());
    scene.write(100);
    let mut sync = first.sync.wrapping_add(1);
    for wait in [250, 500, 1000, 2000, 4000, 4000] {
        let again = only(scene.due(wait));
        sync = sync.wrapping_add(1);
        assert_eq!(again, Got { sync, ..first.clone() }, "the FIRST again, as it was");
    }
    assert_eq!(only(scene.due(4000)).diag, Some((2, 0)));
    assert_eq!((scene.errno(), scene.outputs()), (Some(Errno::TimedOut), vec![false]));
}

#[test]
fn a_diag_3_that_overtakes_the_first_decides_nothing() {
    let (mut scene, first) = Scene::connecting(&Profile::default());
    scene.write(100);
    let diag = scene.diag(true, scene.its_key, 3, 0);
    assert_eq!(scene.feed(&diag), []);
    assert_eq!(scene.closed(), None);
    let status = scene.status(NONE, 100, 1_000_000, first.sync);
    scene.feed(&status);
    assert_eq!(scene.outputs(), [true]);
}

#[test]
fn shutdown_here_first() {
    let mut scene = Scene::connected(&Profile::default());
    scene.write(100);
    let sent = only(scene.shut_write());
    assert_eq!((sent.kind, sent.marks(), sent.seq), (Kind::Cntl, SREQ | WCLOSE, scene.n(100)));
    let status = scene.status(RCLOSE, 100, 1_000_000, sent.sync).sync(1001);
    assert_eq!(scene.feed(&status), []);
    assert_eq!((scene.outputs(), scene.state()), (vec![true], State::Active));
    // The other stream goes on for as long as it likes.
    assert_eq!(scene.wait(50_000), []);
    let data = scene.data(RCLOSE | SREQ, 0, 500).sync(1002);
    assert_eq!(only(scene.feed(&data)).marks(), WCLOSE);
    assert_eq!(scene.consume(500), []);
    let end = scene.data(all(&[RCLOSE, WCLOSE, SREQ]), 500, 100).sync(1003);
    let answer = only(scene.feed(&end));
    assert_eq!((answer.marks(), answer.rseq), (all(&[RCLOSE, WCLOSE, END]), scene.n(600)));
    assert_eq!((scene.closed(), scene.state()), (Some(Ok(())), State::Quiescent));
    assert_eq!(scene.consume(100), [], "read() finds the rest, and then the end");
}

#[test]
fn shutdown_there_first() {
    let mut scene = Scene::accepted(&Profile::default());
    let end = scene.data(WCLOSE | SREQ, 0, 100).sync(1001);
    assert_eq!(only(scene.feed(&end)).marks(), RCLOSE);
    let context = scene.context();
    assert!(scene.half.xtp().readable(context).is_some_and(|readable| readable.is_end), "read() ends with 0");
    assert_eq!((scene.closed(), scene.state()), (None, State::Active));
    let sent = only(scene.write(50));
    assert_eq!(sent.marks(), RCLOSE | SREQ);
    scene.consume(100);
    let sent = only(scene.shut_write());
    assert_eq!(sent.marks(), all(&[RCLOSE, WCLOSE, SREQ]));
    let mut status = scene.status(all(&[RCLOSE, WCLOSE, END]), 50, 1000, sent.sync).sync(1002);
    status.seq = scene.n(100);
    assert_eq!(scene.feed(&status), []);
    assert_eq!((scene.closed(), scene.outputs()), (Some(Ok(())), vec![true]));
    assert_eq!(scene.wait(100_000), []);
}

#[test]
fn both_at_once() {
    let mut scene = Scene::connected(&Profile::default());
    let sent = only(scene.shut_write());
    let crossing = scene.status(WCLOSE | SREQ, 0, 1000, sent.sync.wrapping_sub(1)).sync(1001);
    let answer = only(scene.feed(&crossing));
    assert_eq!(answer.marks(), RCLOSE | WCLOSE);
    let status = scene.status(RCLOSE | WCLOSE, 0, 1000, sent.sync).sync(1002);
    let answer = only(scene.feed(&status));
    assert_eq!(answer.marks(), all(&[RCLOSE, WCLOSE, END]));
    let crossing = Packet { options: status.options | END, ..status };
    assert_eq!(scene.feed(&crossing), []);
    assert_eq!(scene.closed(), Some(Ok(())));
}

#[test]
fn close_goes_on_in_the_background() {
    let mut scene = Scene::connected(&Profile::default());
    let context = scene.context();
    // More than there is room for.
    let sent = scene.write(1_000_000);
    let (now, is_forced) = scene.close(Linger::Background);
    assert!(!is_forced);
    assert!(now.iter().chain(&sent).all(|got| !got.has(WCLOSE)) || sent.last().is_some_and(|got| got.len() > 0));
    let mut echo = scene.sync();
    let mut round = 1001;
    let mut marks = NONE;
    while scene.half.xtp().facts(context).is_some_and(|facts| !facts.is_over) {
        let facts = scene.half.xtp().facts(context).expect("there");
        let (sent, is_whole) = (scene.at(facts.sent), scene.at(facts.sent) == 1_000_000);
        let mut status = scene.status(NONE, sent, 2_000_000, echo).sync(round);
        if is_whole {
            status.options = status.options | all(&[RCLOSE, WCLOSE]);
        }
        round += 1;
        for got in scene.feed(&status) {
            marks = marks | got.marks();
        }
        echo = scene.half.xtp().facts(context).map_or(echo, |facts| facts.sync);
        assert!(round < 2000, "it never ends");
    }
    assert!(marks.contains(all(&[RCLOSE, WCLOSE, END])));
    assert_eq!((scene.closed(), scene.outputs()), (Some(Ok(())), vec![true]));
    scene.wait(31_000);
    assert_eq!(scene.half.xtp().contexts(), 0, "and nothing stays behind");
}

#[test]
fn close_with_unread_data_is_forced_and_the_peer_is_reset() {
    let mut scene = Scene::accepted(&Profile::default());
    scene.write(100);
    let data = scene.data(NONE, 0, 100);
    scene.feed(&data);
    scene.consume(99);
    let (sent, is_forced) = scene.close(Linger::Background);
    let end = only(sent);
    assert!(is_forced && end.has(END));
    assert_eq!((scene.closed(), scene.outputs()), (Some(Err(Failure::Aborted)), vec![false]));
    // Late packets find nobody.
    let data = scene.data(NONE, 100, 100);
    assert_eq!(only(scene.feed(&data)).diag, Some((3, 0)));
    // Everything was read: not forced.
    let mut scene = Scene::accepted(&Profile::default());
    let data = scene.data(NONE, 0, 100);
    scene.feed(&data);
    scene.consume(100);
    let (sent, is_forced) = scene.close(Linger::Background);
    assert!(!is_forced && sent.iter().all(|got| !got.has(END)));
}

#[test]
fn linger_0_is_forced_though_everything_was_read() {
    let mut scene = Scene::connected(&Profile::default());
    scene.write(10);
    let (sent, is_forced) = scene.close(Linger::Zero);
    assert!(is_forced && only(sent).has(END));
    assert_eq!(scene.half.xtp().contexts(), 0);
}

#[test]
fn end_in_the_middle_is_econnreset_and_what_has_come_can_be_read() {
    for kind in [Kind::Cntl, Kind::Ecntl] {
        let mut scene = Scene::accepted(&Profile::default());
        scene.write(100);
        let data = scene.data(NONE, 0, 100);
        scene.feed(&data);
        let mut end = scene.status(END, 0, 1000, scene.sync()).sync(1001);
        if kind == Kind::Ecntl {
            (end.kind, end.spans) = (kind, vec![(scene.n(50), scene.n(60))]);
        }
        assert_eq!(scene.feed(&end), [], "END is not answered");
        assert_eq!((scene.errno(), scene.outputs()), (Some(Errno::Reset), vec![false]));
        assert_eq!(scene.consume(100), []);
    }
}

/// The peer closes while we still write: it reads no more, which is no success.
#[test]
fn a_peer_that_reads_no_more_resets_who_writes() {
    let mut scene = Scene::connected(&Profile::default());
    let sent = scene.write(2_000);
    let mut status = scene.status(RCLOSE | WCLOSE, 1000, 1_000_000, sent.last().expect("sent").sync).sync(1001);
    status.seq = scene.n(0);
    let answer = scene.feed(&status);
    assert!(answer.iter().all(|got| got.data.is_none()), "nothing is repeated: {answer:?}");
    scene.wait(1000);
    assert_eq!((scene.errno(), scene.outputs()), (Some(Errno::Reset), vec![false]));
}
