//! Windows and status requests.

use crate::half::{Got, Half, Packet};
use crate::scene::*;
use pinnace_qmp::{Profile, State, socket};
use pinnace_wire::xtp::Kind;

fn asks(sent: &[Got]) -> Vec<usize> {
    sent.iter().enumerate().filter(|(_, packet)| packet.has(SREQ)).map(|(index, _)| index).collect()
}

fn total(sent: &[Got]) -> usize {
    sent.iter().map(Got::len).sum()
}

//= Q-7 test
//= Q-8 test
#[test]
fn who_connects_sends_65536_bytes_before_the_first_status() {
    for window in [1000, 1 << 20] {
        let (mut scene, _) = Scene::connecting(&Profile { window, ..Profile::default() });
        let sent = scene.write(200_000);
        assert_eq!(total(&sent), 65_536, "whatever the windows are");
        let last = sent.last().expect("sent");
        assert!(last.has(SREQ), "the packet that uses up the window");
        assert_eq!(last.seq.wrapping_add(last.len() as u64), scene.n(65_536), "alloc is not exceeded");
        // The first status replaces it.
        let status = scene.status(NONE, 65_536, 65_536 + 5000, last.sync);
        let more = scene.feed(&status);
        assert_eq!((total(&more), more.last().map(|got| got.has(SREQ))), (5000, Some(true)));
    }
}

//= Q-7 test
#[test]
fn who_accepts_sends_65536_bytes_before_the_first_status() {
    let mut scene = Scene::listening(&Profile::default());
    scene.accept(SREQ, 0);
    let sent = scene.write(200_000);
    assert_eq!(total(&sent), 65_536);
    assert!(sent.last().expect("sent").has(SREQ));
}

//= Q-7 test
#[test]
fn a_receiver_takes_65536_bytes_although_its_window_is_smaller() {
    for window in [1, 1000, 65_536] {
        let mut scene = Scene::listening(&Profile { window, ..Profile::default() });
        scene.accept(SREQ, 0);
        let mut low = 0;
        while low < 65_536 {
            let n = (65_536 - low).min(1024);
            let data = scene.data(NONE, low, n);
            assert_eq!(scene.feed(&data), []);
            low += n;
        }
        let beyond = scene.data(SREQ, 65_536, 10).sync(1001);
        let answer = only(scene.feed(&beyond));
        assert_eq!(answer.rseq, scene.n(65_536), "and no more");
        assert_eq!(answer.alloc, scene.n(u64::from(window)), "alloc is what was consumed, and the window");
        assert_eq!(scene.readable(), 65_536);
    }
}

//= Q-7 test
#[test]
fn rseq_is_one_past_the_last_contiguous_byte_and_alloc_the_edge() {
    let mut scene = Scene::listening(&Profile { window: 100_000, ..Profile::default() });
    let answer = scene.accept(SREQ, 0);
    assert_eq!((answer.rseq, answer.alloc), (scene.n(0), scene.n(100_000)));
    let data = scene.data(SREQ, 0, 1000).sync(1001);
    let answer = only(scene.feed(&data));
    assert_eq!((answer.rseq, answer.alloc), (scene.n(1000), scene.n(100_000)));
    let beyond = scene.data(SREQ, 2000, 1000).sync(1002);
    assert_eq!(only(scene.feed(&beyond)).rseq, scene.n(1000));
    assert_eq!(scene.consume(600), []);
    let fills = scene.data(SREQ, 1000, 1000).sync(1003);
    let answer = only(scene.feed(&fills));
    assert_eq!((answer.rseq, answer.alloc), (scene.n(3000), scene.n(100_600)), "alloc follows what was consumed");
}

//= Q-8 test
#[test]
fn every_nth_packet_asks_and_the_last_of_a_write() {
    for every in [1, 2, 3, 16, 40] {
        let mut scene = Scene::connected(&Profile { status_every: every, ..Profile::default() });
        let sent = scene.write(100_000);
        let last = sent.len() - 1;
        let every = every as usize;
        let mut expected: Vec<_> = (every - 1..last).step_by(every).collect();
        expected.push(last);
        assert_eq!(asks(&sent), expected, "N = {every}");
        // Each write ends with one that asks, however small it is.
        assert_eq!(asks(&scene.write(1)), [0]);
        assert_eq!(asks(&scene.write(1401)), if every == 1 { vec![0, 1] } else { vec![1] });
    }
    let sent = Scene::connected(&Profile { status_every: 0, ..Profile::default() }).write(50_000);
    assert_eq!(asks(&sent).len(), sent.len(), "0 is no frequency: every packet asks");
}

/// Writes that wait in one queue are cut into full packets, and still each end asks.
//= Q-8 test
#[test]
fn the_end_of_a_write_asks_also_in_the_midst_of_a_packet() {
    let mut scene = Scene::connected(&Profile { status_every: 40, ..Profile::default() });
    let context = scene.context();
    let buffers: Vec<_> = [900, 2000, 100].iter().map(|n| scene.half.memory.add(bytes(0, *n))).collect();
    scene.half.call(|engine, now| {
        for (buffer, n) in buffers.iter().zip([900, 2000, 100]) {
            socket::write(engine, now, context, *buffer, 0, n).expect("taken");
        }
    });
    let sent = scene.take();
    let mut low = 0;
    for got in &sent {
        let high = low + got.len() as u64;
        let ends = [900, 2900, 3000].iter().any(|end| (low + 1..=high).contains(end));
        assert_eq!(got.has(SREQ), ends, "{low}..{high}");
        low = high;
    }
    assert_eq!(low, 3000);
}

//= Q-8 test
#[test]
fn first_and_wclose_ask() {
    let (mut scene, first) = Scene::connecting(&Profile::default());
    assert_eq!(first.marks(), SREQ);
    let again = only(scene.due(250));
    assert_eq!((again.kind, again.marks()), (Kind::First, SREQ), "and its repetition");
    // WCLOSE alone, and with data.
    let mut scene = Scene::connected(&Profile::default());
    assert_eq!(only(scene.shut_write()).marks(), SREQ | WCLOSE);
    let mut scene = Scene::connected(&Profile { window: 1 << 20, ..Profile::default() });
    let context = scene.context();
    let buffer = scene.half.memory.add(bytes(0, 5000));
    scene.half.call(|engine, now| {
        socket::write(engine, now, context, buffer, 0, 5000).expect("taken");
        socket::shut_write(engine, now, context).expect("open");
    });
    let sent = scene.take();
    assert_eq!(sent.last().map(|got| (got.kind, got.marks())), Some((Kind::Data, SREQ | WCLOSE)));
    assert!(sent[..sent.len() - 1].iter().all(|got| got.marks() == NONE));
    let context = Half::xtp(&scene.half).facts(context).expect("there");
    assert_eq!(context.sent, scene.n(5000));
}

/// A packet without data that asks does not count: N packets with data are N packets with data.
//= Q-8 test
#[test]
fn a_control_packet_that_asks_does_not_take_the_place_of_data() {
    let mut scene = Scene::connected(&Profile { status_every: 4, ..Profile::default() });
    let context = scene.context();
    // Two packets without SREQ, and then a handshake.
    let buffer = scene.half.memory.add(bytes(0, 2800));
    let output = pinnace_xtp::Output::bytes(buffer, 2800);
    scene.half.engine.handle_hold(true);
    scene.half.call(|engine, now| engine.send(now, context, output)).expect("taken");
    let mut sent = scene.take();
    assert_eq!((sent.len(), asks(&sent)), (2, vec![]));
    scene.half.call(|engine, now| engine.ask(now, context, false)).expect("open");
    assert_eq!(only(scene.take()).marks(), SREQ);
    let buffer = scene.half.memory.add(bytes(0, 14_000));
    let output = pinnace_xtp::Output::bytes(buffer, 14_000);
    scene.half.call(|engine, now| engine.send(now, context, output)).expect("taken");
    sent.extend(scene.take());
    assert_eq!(asks(&sent), [3, 7, 11]);
}

//= Q-9 test
#[test]
fn a_lost_status_request_is_found_by_a_timer() {
    let mut scene = Scene::connected(&Profile::default());
    let sent = scene.write(1000);
    let mut sync = only(sent).sync;
    // The answer to the FIRST came at once: WTIMER is as short as it gets. It doubles.
    for wait in [10, 20, 40, 80] {
        let asks = only(scene.due(wait));
        sync = sync.wrapping_add(1);
        assert_eq!((asks.kind, asks.marks(), asks.sync), (Kind::Cntl, SREQ, sync), "a new sync");
        assert_eq!((asks.seq, asks.rtn, asks.key), (scene.n(1000), true, XKEY));
    }
    // The handshake tells what was lost, too.
    let status = scene.status(NONE, 0, 1_000_000, sync).sync(1001);
    let again = only(scene.feed(&status));
    assert_eq!((again.kind, again.seq, again.len(), again.marks()), (Kind::Data, scene.n(0), 1000, SREQ));
    let status = scene.status(NONE, 1000, 1_000_000, again.sync).sync(1002);
    assert_eq!(scene.feed(&status), []);
    assert_eq!(scene.outputs(), [true]);
    assert_eq!(scene.wait(50_000), [], "the timer stands");
}

//= Q-9 test
#[test]
fn an_answer_to_an_older_request_does_not_end_the_handshake() {
    let mut scene = Scene::connected(&Profile { status_every: 1, ..Profile::default() });
    let sent = scene.write(4200);
    assert_eq!(asks(&sent), [0, 1, 2]);
    let handshake = only(scene.due(10));
    let older = scene.status(NONE, 1400, 1_000_000, sent[0].sync).sync(1001);
    assert_eq!(scene.feed(&older), []);
    let again = scene.wait(100);
    assert!(again.iter().any(|got| (got.kind, got.marks()) == (Kind::Cntl, SREQ)));
    let newest = again.last().expect("asked").sync;
    assert_ne!(newest, handshake.sync);
    let status = Packet { sync: 1002, ..scene.status(NONE, 4200, 1_000_000, newest) };
    assert_eq!(scene.feed(&status), []);
    assert_eq!(scene.wait(50_000), []);
    assert_eq!(scene.state(), State::Active);
}
