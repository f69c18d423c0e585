//! When buffers come back, and what is lost and repeated.

use crate::half::Got;
use crate::scene::*;
use pinnace_qmp::Profile;
use pinnace_qmp::socket::{Errno, Linger};
use pinnace_wire::xtp::Kind;
use pinnace_xtp::Failure;

fn small() -> Profile {
    Profile { maxdata: 100, status_every: 100, ..Profile::default() }
}

fn lows(scene: &Scene, sent: &[Got]) -> Vec<u64> {
    sent.iter().filter(|packet| packet.data.is_some()).map(|packet| scene.at(packet.seq)).collect()
}

/// Ten packets of a hundred bytes, the last of which asks.
fn ten(profile: &Profile) -> (Scene, Vec<Got>) {
    let mut scene = Scene::connected(profile);
    let sent = scene.write(1000);
    assert_eq!(sent.len(), 10);
    (scene, sent)
}

//= Q-10 test
#[test]
fn a_buffer_comes_back_when_its_last_packet_is_acknowledged() {
    let (mut scene, sent) = ten(&small());
    let echo = sent[9].sync;
    let quiet = scene.sync().wrapping_sub(1);
    for rseq in [1, 500, 999] {
        let status = scene.status(NONE, rseq, 1_000_000, quiet).sync(1001);
        scene.feed(&status);
        assert_eq!(scene.outputs(), [] as [bool; 0], "{rseq} bytes are not all");
    }
    let status = scene.status(NONE, 1000, 1_000_000, echo).sync(1002);
    assert_eq!(scene.feed(&status), []);
    assert_eq!(scene.outputs(), [true]);
}

//= Q-10 test
#[test]
fn what_has_come_beyond_a_gap_does_not_give_a_buffer_back() {
    let mut scene = Scene::connected(&small());
    let (one, two) = (scene.write(100), scene.write(200));
    // The second write is in, the first is not.
    let status = scene.gaps(0, &[(100, 300)], two[1].sync).sync(1001);
    let again = scene.feed(&status);
    assert_eq!(lows(&scene, &again), [0]);
    assert_eq!(again[0].data, one[0].data, "out of a buffer that is still ours");
    assert_eq!(scene.outputs(), [] as [bool; 0]);
    let status = scene.status(NONE, 300, 1_000_000, again[0].sync).sync(1002);
    scene.feed(&status);
    assert_eq!(scene.outputs(), [true, true]);
}

//= Q-10 test
#[test]
fn one_acknowledgement_gives_back_only_what_it_covers() {
    let mut scene = Scene::connected(&small());
    for _ in 0..5 {
        scene.write(150);
    }
    for (rseq, back) in [(149, 0), (150, 1), (449, 2), (450, 3), (750, 5)] {
        let sync = scene.sync();
        let status = scene.status(NONE, rseq, 1_000_000, sync).sync(2000 + rseq as u32);
        scene.feed(&status);
        assert_eq!(scene.outputs(), vec![true; back], "{rseq}");
    }
}

//= Q-10 test
#[test]
fn buffers_come_back_when_the_connection_is_reset() {
    for how in 0..4 {
        let (mut scene, _) = ten(&small());
        scene.write(5000);
        match how {
            0 => {
                let end = scene.status(END, 0, 1_000_000, scene.sync()).sync(1001);
                scene.feed(&end);
                assert_eq!(scene.errno(), Some(Errno::Reset));
            }
            1 => {
                let diag = scene.diag(false, XKEY, 3, 0);
                scene.feed(&diag);
                assert_eq!(scene.errno(), Some(Errno::Reset));
            }
            2 => {
                scene.close(Linger::Zero);
                assert_eq!(scene.closed(), Some(Err(Failure::Aborted)));
            }
            _ => {
                scene.wait(100_000);
                assert_eq!(scene.errno(), Some(Errno::TimedOut));
            }
        }
        assert_eq!(scene.outputs(), [false, false], "once each, and not as delivered");
        // A reset is said again; nothing uses the buffers any more.
        let rest = scene.wait(100_000);
        assert_eq!(rest.len(), if how == 2 { 3 } else { 0 }, "{rest:?}");
        assert!(rest.iter().all(|got| got.has(END) && got.data.is_none()), "{rest:?}");
    }
}

//= Q-11 test
#[test]
fn each_new_gap_is_told_once_and_at_once() {
    let mut scene = Scene::accepted(&Profile::default());
    let data = |scene: &mut Scene, low, n| {
        let data = scene.data(NONE, low, n);
        scene.feed(&data)
    };
    assert_eq!(data(&mut scene, 0, 100), [], "in order: nothing is said");
    let told = only(data(&mut scene, 200, 100));
    assert_eq!((told.kind, told.rseq, told.marks()), (Kind::Ecntl, scene.n(100), NONE));
    assert_eq!(told.spans, [(scene.n(200), scene.n(300))]);
    assert_eq!(data(&mut scene, 300, 100), [], "the same gap");
    assert_eq!(data(&mut scene, 200, 100), [], "nothing new");
    let told = only(data(&mut scene, 500, 100));
    assert_eq!(told.spans, [(scene.n(200), scene.n(400)), (scene.n(500), scene.n(600))]);
    assert_eq!(data(&mut scene, 430, 10), [], "within a gap that was told");
    assert_eq!(data(&mut scene, 100, 100), [], "filled");
    assert_eq!(data(&mut scene, 400, 100), []);
    assert_eq!(data(&mut scene, 600, 100), [], "in order again");
    assert_eq!(scene.readable(), 700);
    assert_eq!(only(data(&mut scene, 701, 1)).rseq, scene.n(700), "a gap of one byte");
    // The peer's packets need not have FASTNAK.
    let mut plain = scene.data(NONE, 1000, 10);
    plain.options = NONE;
    assert_eq!(only(scene.feed(&plain)).kind, Kind::Ecntl);
}

/// The datagrams of one read are one answer, with all gaps.
//= Q-11 test
#[test]
fn gaps_of_one_read_are_told_together() {
    let mut scene = Scene::accepted(&Profile::default());
    let datagrams: Vec<_> = [0, 200, 400].iter().map(|low| scene.data(NONE, *low, 100).bytes()).collect();
    scene.half.read(PEER, pinnace_core::Ecn::NotCapable, &datagrams);
    let told = only(scene.take());
    assert_eq!((told.kind, told.rseq), (Kind::Ecntl, scene.n(100)));
    assert_eq!(told.spans, [(scene.n(200), scene.n(300)), (scene.n(400), scene.n(500))]);
}

//= Q-11 test
#[test]
fn what_is_lost_is_repeated_once_and_nothing_else_is() {
    let (mut scene, sent) = ten(&small());
    let before = sent[0].sync;
    let status = scene.gaps(100, &[(200, 300), (500, 600)], before);
    let again = scene.feed(&status);
    assert_eq!(lows(&scene, &again), [100, 300, 400], "what was overtaken");
    assert!(again.iter().all(|got| got.kind == Kind::Data && got.data == Some(bytes(scene.at(got.seq), 100))));
    assert_eq!(scene.feed(&status), [], "the same once more says nothing new");
    let status = scene.gaps(100, &[(200, 300), (500, 600), (800, 900)], sent[9].sync).sync(1001);
    let again = scene.feed(&status);
    assert_eq!(lows(&scene, &again), [600, 700], "what was repeated since is not lost again");
}

/// Reordering costs repetitions, and never correctness.
//= Q-11 test
#[test]
fn a_packet_that_was_only_late_comes_twice_and_is_read_once() {
    let mut scene = Scene::accepted(&small());
    let data = scene.data(NONE, 100, 100);
    assert_eq!(only(scene.feed(&data)).kind, Kind::Ecntl);
    let before = scene.half.xtp().counters().data_packets_duplicate;
    for _ in 0..2 {
        let late = scene.data(NONE, 0, 100);
        assert_eq!(scene.feed(&late), []);
    }
    let asks = scene.data(SREQ, 200, 100).sync(1001);
    let answer = only(scene.feed(&asks));
    assert_eq!((answer.kind, answer.rseq), (Kind::Cntl, scene.n(300)));
    assert_eq!(scene.consume(300), []);
    assert_eq!(scene.half.xtp().counters().data_packets_duplicate, before + 1);
}

//= Q-11 test
#[test]
fn go_back_n_is_an_option() {
    let profile = Profile { go_back_n: true, ..small() };
    // As a sender: everything from the first lost byte.
    let (mut scene, sent) = ten(&profile);
    let status = scene.status(NONE, 300, 1_000_000, sent[9].sync).sync(1001);
    let again = scene.feed(&status);
    assert_eq!(lows(&scene, &again), [300, 400, 500, 600, 700, 800, 900]);
    assert!(again.last().expect("sent").has(SREQ));
    // As a receiver: nothing is kept beyond a gap, which is told at once all the same.
    let mut scene = Scene::accepted(&profile);
    let data = scene.data(NONE, 100, 100);
    let told = only(scene.feed(&data));
    assert_eq!((told.kind, told.rseq, told.spans.len()), (Kind::Cntl, scene.n(0), 0));
    let data = scene.data(SREQ, 0, 100).sync(1001);
    assert_eq!(only(scene.feed(&data)).rseq, scene.n(100));
    assert_eq!(scene.readable(), 100);
}
