//! The three closes and all their crossings (3.7, 3.8).

use crate::half::{Got, Half, Packet};
use crate::scene::*;
use pinnace_core::{Address, Time};
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Close, Config, ControlBlock, Event, Failure, Options, Output, Service, Services};

fn only(answers: Vec<Got>) -> Got {
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.into_iter().next().expect("one")
}

fn echo_of(scene: &Scene) -> u32 {
    scene.half.xtp().facts(scene.context()).expect("there").sync
}

//= X-20 test
#[test]
fn the_receiver_says_at_once_that_all_is_in() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 100);
        let end = scene.data(WCLOSE, 200, 100);
        assert_eq!(scene.feed(&end), [], "not all is in");
        let fills = scene.data(NONE, 100, 100);
        let answer = only(scene.feed(&fills));
        assert_eq!((answer.kind, answer.marks(), answer.rseq), (Kind::Cntl, RCLOSE, scene.n(300)));
        assert_eq!(answer.echo, 1000, "unasked: the newest sync received");
        let asks = scene.data(SREQ | WCLOSE, 200, 100).sync(1001);
        assert_eq!(only(scene.feed(&asks)).marks(), RCLOSE, "from then on in every packet");
        for packet in scene.send(3000) {
            assert!(packet.has(RCLOSE) && !packet.has(WCLOSE));
        }
    }
}

//= X-20 test
#[test]
fn the_end_may_come_alone_and_with_an_old_sync() {
    for codec in CODECS {
        // In a control packet: at its seq.
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 100);
        let mut end = scene.status(WCLOSE | SREQ, 0, 1000, echo_of(&scene)).sync(1001);
        end.seq = scene.n(100);
        let answer = only(scene.feed(&end));
        assert_eq!((answer.marks(), answer.echo), (RCLOSE, 1001));
        // Bytes of an older packet count as any others, so they complete the stream; that is told, although the packet
        // is not answered.
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 100);
        let mut end = scene.status(WCLOSE, 0, 1000, echo_of(&scene)).sync(1001);
        end.seq = scene.n(200);
        assert_eq!(scene.feed(&end), []);
        let old = scene.data(SREQ, 100, 100).sync(1000);
        let answer = only(scene.feed(&old));
        assert_eq!((answer.marks(), answer.echo, answer.rseq), (RCLOSE, 1001, scene.n(200)));
    }
}

//= X-20 test
#[test]
fn abbreviated_close_of_an_initiator() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::Connection));
        let context = scene.context();
        scene.send(100);
        let sent = scene.close(Close::Abbreviated);
        let sent = only(sent);
        assert_eq!((sent.kind, sent.marks()), (Kind::Data, all(&[WCLOSE, RCLOSE, SREQ])), "{codec:?}");
        assert_eq!(sent.seq, scene.n(100));
        let again = only(scene.due(250));
        assert_eq!((again.kind, again.seq), (Kind::First, scene.n(0)), "nothing was heard: the FIRST again");
        assert_eq!(again.data, Some(bytes(0, 100)));
        assert_eq!(only(scene.due(500)).kind, Kind::First);
        let status = scene.status(all(&[RCLOSE, WCLOSE, END]), 100, 1000, sent.sync);
        assert_eq!(scene.feed(&status), [], "END is not answered");
        assert_eq!((scene.closed(), scene.outputs()), (Some(Ok(())), vec![true]));
        assert_eq!(scene.wait(100_000), [], "no time-wait");
        scene.half.call(|engine, now| engine.release(now, context));
        assert_eq!(scene.half.xtp().contexts(), 0);
    }
}

//= X-20 test
#[test]
fn an_abbreviated_close_behind_the_end_says_at_once_that_nothing_more_is_wanted() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, block(Service::Connection), 100);
        let sent = only(scene.close(Close::Full));
        assert_eq!(sent.marks(), WCLOSE | SREQ, "{codec:?}");
        // The peer has all of it, and goes on itself.
        let status = scene.status(RCLOSE, 100, 1000, sent.sync).sync(1001);
        assert_eq!(scene.feed(&status), []);
        let said = only(scene.close(Close::Abbreviated));
        assert_eq!((said.kind, said.marks()), (Kind::Cntl, RCLOSE | WCLOSE), "{codec:?}");
        assert_eq!(scene.close(Close::Abbreviated), [], "once");
        let end = scene.data(all(&[WCLOSE, RCLOSE, SREQ]), 0, 100).sync(1002);
        assert_eq!(only(scene.feed(&end)).marks(), all(&[RCLOSE, WCLOSE, END]), "{codec:?}");
        assert_eq!(scene.closed(), Some(Ok(())));
    }
}

//= X-20 test
#[test]
fn what_the_peer_has_acknowledged_was_delivered_although_it_reads_no_more() {
    for codec in CODECS {
        for in_data in [false, true] {
            let mut scene = Scene::opened(codec, block(Service::Connection));
            let echo = only(scene.send(100)).sync;
            let status = scene.status(NONE, 100, 2000, echo).sync(1001);
            assert_eq!(scene.feed(&status), []);
            // One leaves whole, and of the other what there is room for.
            scene.send(150);
            let sent = scene.send(10_000).pop().expect("some of it leaves");
            let end = scene.at(sent.seq) + sent.len() as u64;
            if in_data {
                scene.feed(&scene.data(RCLOSE, 0, 10).sync(1002));
            }
            scene.feed(&scene.status(RCLOSE, end, 2000, sent.sync).sync(1002));
            assert_eq!(scene.outputs(), [true, true, false], "{codec:?} {in_data}");
        }
    }
}

//= X-20 test
#[test]
fn the_end_is_no_status_before_anything_was_heard() {
    for codec in CODECS {
        let ends = |scene: &mut Scene| {
            let sent = only(scene.close(Close::Full));
            assert_eq!((sent.marks(), sent.seq), (all(&[WCLOSE, SREQ]), scene.n(100)));
            (sent.kind, sent.data)
        };
        for service in [Service::Connection, Service::BulkData] {
            let mut scene = Scene::opened(codec, block(service));
            scene.send(100);
            assert_eq!(ends(&mut scene), (Kind::Data, Some(vec![])), "its echo would name nothing: {service:?}");
        }
        let mut scene = Scene::opened(codec, block(Service::IsoStream));
        scene.send(100);
        assert_eq!(ends(&mut scene), (Kind::Cntl, None), "3.9 says so");
        let mut scene = Scene::connected(codec, block(Service::Connection), 100);
        assert_eq!(ends(&mut scene), (Kind::Cntl, None));
    }
}

//= X-20 test
#[test]
fn abbreviated_close_of_a_peer() {
    for codec in CODECS {
        let mut scene = Scene::listening(codec, block(Service::Connection));
        let answer = scene.accept(all(&[WCLOSE, RCLOSE, SREQ, EOM]), 100);
        let end = all(&[RCLOSE, WCLOSE, END]);
        assert_eq!((answer.kind, answer.marks(), answer.rseq), (tcntl(codec), end, scene.n(100)));
        assert_eq!(scene.closed(), Some(Ok(())));
        // Time-wait: every packet without END is answered so, with TCNTL if our key was never used.
        let first = scene.first(all(&[WCLOSE, RCLOSE, SREQ, EOM]), 100).sync(1005);
        let again = only(scene.feed(&first));
        assert_eq!((again.kind, again.marks(), again.echo), (tcntl(codec), end, 1005));
        let data = scene.data(NONE, 50, 50).sync(1006);
        let again = only(scene.feed(&data));
        assert_eq!((again.kind, again.marks()), (Kind::Cntl, end), "now it was used");
        let ends = scene.status(end, 0, 1000, 0).sync(1006);
        assert_eq!(scene.feed(&ends), [], "END is not answered");
        let asks = scene.data(SREQ, 50, 50).sync(1007);
        assert_eq!(only(scene.feed(&asks)).marks(), end, "it lasts its time");
        assert_eq!(scene.consume(100), [], "what was received may be read");
        // 32 x 250 ms x 6 is more than 30 s.
        assert_eq!(scene.wait(29_000), []);
        assert_eq!(only(scene.feed(&asks)).marks(), end);
        scene.wait(1_001);
        assert_eq!(only(scene.feed(&asks)).diag, Some((3, 0)), "at most 30 s");
    }
}

//= X-20 test
#[test]
fn full_close_begun_here() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, block(Service::Connection), 100);
        let sent = only(scene.close(Close::Full));
        assert_eq!((sent.kind, sent.marks(), sent.seq), (Kind::Cntl, WCLOSE | SREQ, scene.n(100)));
        let status = scene.status(RCLOSE, 100, 1000, sent.sync).sync(1001);
        assert_eq!(scene.feed(&status), []);
        assert_eq!(scene.wait(5000), [], "the peer may go on for as long as it likes");
        let data = scene.data(RCLOSE | SREQ, 0, 500).sync(1002);
        let answer = only(scene.feed(&data));
        assert_eq!((answer.marks(), answer.rseq), (WCLOSE, scene.n(500)), "in all later control packets");
        assert_eq!(scene.closed(), None);
        let end = scene.data(all(&[RCLOSE, WCLOSE, SREQ]), 500, 100).sync(1003);
        let answer = only(scene.feed(&end));
        assert_eq!((answer.marks(), answer.rseq), (all(&[RCLOSE, WCLOSE, END]), scene.n(600)));
        assert_eq!((answer.echo, answer.seq), (1003, scene.n(100)));
        assert_eq!(scene.closed(), Some(Ok(())));
        scene.consume(600);
        // The END was lost: the peer asks again.
        let again = scene.data(all(&[RCLOSE, WCLOSE, SREQ]), 500, 100).sync(1004);
        assert_eq!(only(scene.feed(&again)).marks(), all(&[RCLOSE, WCLOSE, END]));
    }
}

//= X-20 test
#[test]
fn full_close_begun_there() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 100);
        let end = scene.data(WCLOSE | SREQ, 100, 100).sync(1001);
        assert_eq!(only(scene.feed(&end)).marks(), RCLOSE);
        assert_eq!(scene.closed(), None);
        let sent = scene.send(50);
        assert_eq!(only(sent).marks(), all(&[RCLOSE, EOM, SREQ]));
        let sent = only(scene.close(Close::Full));
        assert_eq!((sent.kind, sent.marks(), sent.seq), (Kind::Cntl, all(&[RCLOSE, WCLOSE, SREQ]), scene.n(50)));
        let status = scene.status(all(&[RCLOSE, WCLOSE, END]), 50, 1000, sent.sync).sync(1002);
        assert_eq!(scene.feed(&status), []);
        assert_eq!((scene.closed(), scene.outputs()), (Some(Ok(())), vec![true]));
        assert_eq!(scene.wait(100_000), []);
        // Without the peer's END ours goes, in the status that is due.
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 100);
        let sent = only(scene.close(Close::Full));
        assert_eq!(sent.marks(), WCLOSE | SREQ);
        let mut status = scene.status(all(&[RCLOSE, WCLOSE, SREQ]), 0, 1000, sent.sync).sync(1002);
        status.seq = scene.n(100);
        let answer = only(scene.feed(&status));
        assert_eq!((answer.marks(), answer.echo), (all(&[RCLOSE, WCLOSE, END]), 1002));
    }
}

//= X-20 test
#[test]
fn an_end_in_the_middle_is_a_forced_close() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), EOM, 100);
        scene.send(1000);
        let end = scene.status(END, 0, 1000, echo_of(&scene)).sync(1001);
        assert_eq!(scene.feed(&end), []);
        assert_eq!((scene.closed(), scene.outputs()), (Some(Err(Failure::Forced)), vec![false]));
        scene.consume(100);
        // And ours.
        let mut scene = Scene::accepted(codec, block(Service::Connection), EOM, 100);
        let sent = only(scene.close(Close::Forced));
        assert!(sent.has(END) && sent.kind == tcntl(codec));
        assert_eq!(scene.closed(), Some(Err(Failure::Aborted)));
        let data = scene.data(SREQ, 100, 10).sync(1001);
        assert_eq!(only(scene.feed(&data)).diag, Some((3, 0)), "there is no context any more");
    }
}

//= X-20 test
#[test]
fn a_peer_that_stops_reading_is_not_a_success() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, ControlBlock { sreq_every: 0, ..block(Service::Connection) });
        let sent = scene.send(200_000);
        let total: usize = sent.iter().map(Got::len).sum();
        assert_eq!(total, 65_536);
        let status = scene.status(RCLOSE, 1000, 200_000, sent.last().expect("sent").sync);
        assert_eq!(scene.feed(&status).iter().filter(|packet| packet.data.is_some()).count(), 0, "nothing is repeated");
        let asks = scene.status(SREQ | RCLOSE, 1000, 200_000, sent.last().expect("sent").sync).sync(1001);
        let answer = only(scene.feed(&asks));
        assert_eq!((answer.marks(), answer.seq), (WCLOSE, scene.n(65_536)), "WCLOSE counts as sent at its seq");
        let mut end = scene.status(RCLOSE | WCLOSE, 1000, 200_000, sent.last().expect("sent").sync).sync(1002);
        end.seq = scene.n(0);
        let answer = only(scene.feed(&end));
        assert!(answer.has(all(&[RCLOSE, WCLOSE, END])));
        assert_eq!((scene.closed(), scene.outputs()), (Some(Err(Failure::StoppedReading)), vec![false]));
    }
}

//= X-20 test
#[test]
fn the_end_of_a_message_that_cannot_be_sent_is_missing_as_a_byte_would_be() {
    // Of a message, of a message and the beginning of another, and of one that the end of the stream ends.
    for (wholes, rest, ends, is_success) in [(100, 0, false, true), (100, 50, false, false), (0, 50, true, true)] {
        for codec in CODECS {
            let mut scene = Scene::opened(codec, ControlBlock { sreq_every: 0, ..block(Service::Connection) });
            let mut sent = if wholes > 0 { scene.send(wholes) } else { Vec::new() };
            if rest > 0 {
                sent.extend(scene.output(rest, |output| Output { is_last: ends, asks: true, ..output }));
            }
            // The peer wants no more than what it has, which is all that has left.
            let echo = sent.last().expect("sent").sync;
            let mut end = scene.status(RCLOSE | WCLOSE, wholes + rest, 200_000, echo);
            end.seq = scene.n(0);
            scene.feed(&end);
            scene.close(Close::Full);
            let closed = scene.closed().expect("over");
            assert_eq!(closed.is_ok(), is_success, "{codec:?}: {wholes} and {rest}: {closed:?}");
        }
    }
}

//= X-20 test
#[test]
fn rclose_in_data_does_not_acknowledge() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, block(Service::Connection), 100);
        scene.send(1000);
        let data = scene.data(RCLOSE, 0, 100).sync(1001);
        assert_eq!(scene.feed(&data), []);
        assert_eq!(scene.outputs(), [true]);
        let asks = only(scene.due(10));
        assert_eq!(
            (asks.kind, asks.marks()),
            (Kind::Cntl, WCLOSE | SREQ),
            "it goes on asking until a status tells rseq"
        );
        let status = scene.status(RCLOSE, 1100, 100_000, asks.sync).sync(1002);
        scene.feed(&status);
        assert_eq!(scene.outputs(), [true, true], "all was read");
    }
}

//= X-20 test
#[test]
fn whoever_stops_reading_says_so() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 100);
        let context = scene.context();
        scene.half.call(|engine, now| engine.stop_reading(now, context)).expect("open");
        let sent = only(scene.half.take());
        assert_eq!((sent.marks(), sent.rseq), (RCLOSE, scene.n(100)));
        let data = scene.data(Options::FASTNAK, 100, 100);
        assert_eq!(scene.feed(&data), [], "nothing of it is asked, new or complete");
        let data = scene.data(SREQ, 100, 100).sync(1001);
        let answer = only(scene.feed(&data));
        assert_eq!((answer.marks(), answer.rseq), (RCLOSE, scene.n(100)));
        let mut end = scene.status(WCLOSE | SREQ, 0, 1000, echo_of(&scene)).sync(1002);
        end.seq = scene.n(200);
        assert_eq!(only(scene.feed(&end)).marks(), RCLOSE, "its own stream goes on");
        assert_eq!(only(scene.send(10)).marks(), all(&[RCLOSE, EOM, SREQ]));
    }
}

//= X-20 test
#[test]
fn nobody_waits_for_rclose_for_ever() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, ControlBlock { retry_count: 2, ..block(Service::Connection) }, 100);
        let sent = only(scene.close(Close::Full));
        // All is acknowledged, but RCLOSE has not come.
        let status = scene.status(NONE, 100, 1000, sent.sync).sync(1001);
        assert_eq!(scene.feed(&status), []);
        let rest = scene.wait(10_000);
        assert_eq!(rest.len(), 3, "{rest:?}");
        assert!(rest[..2].iter().all(|packet| packet.kind == Kind::Cntl && packet.marks() == WCLOSE | SREQ));
        assert_eq!(rest[2].diag, Some((2, 0)));
        assert_eq!(scene.closed(), Some(Err(Failure::Abandoned)));
    }
}

#[test]
fn what_contradicts_the_protocol_is_told() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), WCLOSE, 100);
        let beyond = scene.data(NONE, 100, 100).sync(1001);
        let answers = scene.feed(&beyond);
        assert_eq!(only(answers).diag, Some((6, 12)), "bytes beyond the end");
    }
}

//= X-20 test
#[test]
fn a_peer_that_stops_reading_and_goes_on_itself_is_not_asked_for_ever() {
    for codec in CODECS {
        // Who wants nothing of it either is told at once.
        let mut scene = Scene::opened(codec, block(Service::Connection));
        scene.send(50);
        let sent = only(scene.close(Close::Abbreviated));
        let status = scene.status(RCLOSE, 20, 100_000, sent.sync);
        assert_eq!(scene.feed(&status), []);
        assert_eq!((scene.closed(), scene.outputs()), (Some(Err(Failure::StoppedReading)), vec![false]), "{codec:?}");
        assert_eq!(scene.wait(20_000), [], "nothing is repeated, and nothing asked");
        // Who still reads is told of what was lost, and of the end when it comes.
        let mut scene = Scene::connected(codec, block(Service::Connection), 100);
        let echo = scene.send(50)[0].sync;
        let status = scene.status(RCLOSE, 120, 100_000, echo).sync(1001);
        assert_eq!(scene.feed(&status), []);
        assert_eq!((scene.closed(), scene.outputs()), (None, vec![true, false]), "{codec:?}");
        assert_eq!(scene.wait(20_000), []);
        scene.close(Close::Abbreviated);
        assert_eq!(scene.closed(), Some(Err(Failure::StoppedReading)), "it wants no more");
        let end = scene.data(all(&[WCLOSE, RCLOSE, SREQ]), 0, 100).sync(1002);
        assert_eq!(only(scene.feed(&end)).marks(), all(&[RCLOSE, WCLOSE, END]));
        assert_eq!(scene.outputs().len(), 2);
    }
}

//= X-10 test
//= X-20 test
#[test]
fn a_first_that_comes_again_after_the_peer_s_end_is_no_new_one() {
    for codec in CODECS {
        let mut scene = Scene::listening(codec, block(Service::Connection));
        scene.accept(NONE, 100);
        let sent = only(scene.close(Close::Full));
        let mut end = scene.status(all(&[RCLOSE, WCLOSE, END]), 0, 1000, sent.sync).sync(1002);
        end.seq = scene.n(100);
        assert_eq!(scene.feed(&end), []);
        assert_eq!(scene.closed(), Some(Ok(())));
        let mut first = scene.first(NONE, 100);
        assert_eq!(scene.feed(&first), [], "{codec:?}: it was delivered already");
        assert_eq!(scene.half.xtp().contexts(), 1);
        // With another start it is another.
        first.seq = scene.n(7);
        assert_eq!(only(scene.feed(&first)).kind, tcntl(codec));
        assert_eq!(scene.half.xtp().contexts(), 2);
    }
}

//= X-20 test
#[test]
fn a_reset_that_is_lost_is_said_again() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, block(Service::Connection), 100);
        let context = scene.context();
        let lost = only(scene.close(Close::Forced));
        assert!(lost.has(END));
        scene.half.call(|engine, now| engine.release(now, context));
        assert_eq!((scene.half.xtp().contexts(), scene.half.xtp().farewells()), (0, 1), "it outlives its context");
        for wait in [20, 40, 80] {
            assert_eq!(only(scene.due(wait)), lost, "{codec:?}: as it was");
        }
        assert_eq!((scene.wait(100_000), scene.half.xtp().farewells()), (vec![], 0));
    }
}

//= X-20 test
#[test]
fn a_peer_that_has_not_heard_of_a_reset_hears_it_the_next_time() {
    for codec in CODECS {
        let mut peer = Half::new(Config { seed: 6, ..config(codec) });
        peer.call(|engine, _| engine.listen(block(Service::Connection), Services::ALL)).expect("free");
        let mut begins = Half::new(Config { seed: 7, ..config(codec) });
        let mine = begins.call(|engine, now| engine.open(now, PEER, block(Service::Connection))).expect("room");
        begins.call(|engine, now| engine.connect(now, mine)).expect("fresh");
        let carry = |from: &mut Half, to: &mut Half, source: Address| {
            for sent in from.take_sent() {
                to.feed(source, &sent.bytes);
            }
        };
        carry(&mut begins, &mut peer, Address::Node(1));
        carry(&mut peer, &mut begins, PEER);
        begins.take_sent();
        begins.call(|engine, now| engine.close(now, mine, Close::Forced)).expect("open");
        assert_eq!(begins.take_sent().len(), 1, "this one is lost");
        let is_reset = |half: &Half| {
            half.events.iter().any(|event| matches!(event, Event::Closed { result: Err(Failure::Forced), .. }))
        };
        assert!(!is_reset(&peer));
        begins.advance(millis(30));
        carry(&mut begins, &mut peer, Address::Node(1));
        assert!(is_reset(&peer), "{codec:?}: it would wait for as long as CTIMER and CTIMEOUT say");
        peer.take_sent();
        // What comes again later finds nobody, and is not answered.
        begins.advance(millis(500));
        carry(&mut begins, &mut peer, Address::Node(1));
        assert_eq!(peer.take_sent().len(), 0);
    }
}

//= X-20 test
#[test]
fn a_reset_is_said_until_the_peer_shows_that_it_knows() {
    for codec in CODECS {
        for shows in [true, false] {
            let mut scene = Scene::connected(codec, block(Service::Connection), 100);
            scene.close(Close::Forced);
            let data = scene.data(SREQ, 0, 10).sync(1001);
            let answer = only(scene.feed(&data));
            assert_eq!(answer.diag, Some((3, 0)), "who has not heard of it finds no context");
            let knows = if shows { scene.status(END, 100, 1000, 0) } else { scene.diag(true, scene.its_key, 3, 0) };
            let knows = Packet { key: scene.its_key, rtn: true, ..knows };
            assert_eq!(scene.feed(&knows), []);
            assert_eq!((scene.wait(1000), scene.half.xtp().farewells()), (vec![], 0), "{codec:?} {shows}");
        }
    }
}

//= X-20 test
#[test]
fn a_first_that_comes_again_after_our_reset_is_no_new_one() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 100);
        scene.close(Close::Forced);
        let first = scene.first(NONE, 100).sync(1002);
        assert_eq!(scene.feed(&first), []);
        assert_eq!(scene.half.events.iter().filter(|event| matches!(event, Event::Accepted { .. })).count(), 1);
        assert!(only(scene.due(20)).has(END), "{codec:?}: that is its answer");
    }
}

//= X-10 test
#[test]
fn a_first_that_comes_again_late_after_an_end_without_time_wait_is_no_new_one() {
    type EndIt = fn(&mut Scene);
    let reset: EndIt = |scene| assert!(only(scene.close(Close::Forced)).has(END));
    let diag: EndIt = |scene| assert_eq!(scene.feed(&scene.diag(true, scene.its_key, 2, 0)), []);
    let silence: EndIt = |scene| {
        while scene.closed().is_none() && scene.half.now < Time::from_nanos(1_000_000_000_000) {
            scene.wait(1000);
        }
        assert_eq!(scene.closed(), Some(Err(Failure::Abandoned)));
    };
    for codec in CODECS {
        for (name, end_it) in [("reset", reset), ("diag", diag), ("silence", silence)] {
            let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 100);
            end_it(&mut scene);
            let context = scene.context();
            scene.half.call(|engine, now| engine.release(now, context));
            // No END is said again any more.
            scene.wait(250);
            assert_eq!((scene.half.xtp().contexts(), scene.half.xtp().farewells()), (0, 0), "{name}");
            let mut first = scene.first(NONE, 100).sync(1002);
            let told = scene.feed(&first);
            let ends: Vec<_> = told.iter().map(|answer| answer.kind).collect();
            // Who has not ended it has not heard so.
            let expected = if name == "diag" { vec![] } else { vec![Kind::Diag] };
            assert_eq!(ends, expected, "{codec:?} {name}: it was delivered already");
            assert_eq!((scene.half.xtp().contexts(), scene.half.xtp().counters().contexts_accepted), (0, 1), "{name}");
            // With another start it is another.
            first.seq = scene.n(7);
            assert_eq!(only(scene.feed(&first)).kind, tcntl(codec));
            assert_eq!(scene.half.xtp().contexts(), 1);
        }
    }
}

//= X-20 test
#[test]
fn a_reset_before_the_first_answer_is_told_too() {
    for codec in CODECS {
        let mut begins = Scene::opened(codec, block(Service::Connection));
        assert_eq!(begins.close(Close::Forced), [], "nobody knows of it");
        let mut begins = Scene::opened(codec, block(Service::Connection));
        let opened = begins.context();
        begins.half.call(|engine, now| engine.connect(now, opened)).expect("fresh");
        let mut peer = Scene::listening(codec, block(Service::Connection));
        for sent in begins.half.take_sent() {
            peer.half.feed(PEER, &sent.bytes);
        }
        assert_eq!(peer.half.take().len(), 1, "nobody hears that answer");
        let context = begins.context();
        begins.half.call(|engine, now| engine.close(now, context, Close::Forced)).expect("open");
        for sent in begins.half.take_sent() {
            peer.half.feed(PEER, &sent.bytes);
        }
        assert_eq!((peer.closed(), peer.half.take()), (Some(Err(Failure::Forced)), vec![]), "{codec:?}");
    }
}

//= X-10 test
//= X-20 test
#[test]
fn nothing_counts_of_a_status_with_an_echo_that_cannot_be() {
    for codec in CODECS {
        for close in [RCLOSE, WCLOSE, END, all(&[RCLOSE, WCLOSE, END])] {
            let accepted = Scene::accepted(codec, block(Service::Connection), NONE, 100);
            let opened = Scene::connected(codec, block(Service::Connection), 100);
            for mut scene in [accepted, opened] {
                let (sync, rseq) = (echo_of(&scene), scene.half.xtp().facts(scene.context()).expect("there").acked);
                let mut forged = scene.status(close, 0, 1_000_000, sync.wrapping_add(3)).sync(1001);
                (forged.rseq, forged.seq) = (rseq, scene.n(if scene.at(rseq) > 0 { 0 } else { 100 }));
                assert_eq!(scene.feed(&forged), []);
                assert_eq!(scene.closed(), None, "{codec:?} {close:?}");
                assert_eq!(scene.half.xtp().counters().statuses_invalid, 1);
                assert!(scene.send(100).iter().all(|packet| !packet.has(RCLOSE) && !packet.has(END)));
            }
        }
        // An initiator that has not heard us has no echo to say, whatever stands there; its closes count.
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 100);
        let unheard = |scene: &Scene, options: Options, sync| {
            let mut packet = scene.status(options, 0, 1_000_000, echo_of(scene).wrapping_add(3)).sync(sync);
            (packet.key, packet.rtn, packet.seq) = (KEY, false, scene.n(100));
            packet
        };
        let close = unheard(&scene, WCLOSE | SREQ, 1001);
        assert_eq!(only(scene.feed(&close)).marks(), RCLOSE);
        let end = unheard(&scene, END, 1002);
        scene.feed(&end);
        assert_eq!(scene.closed(), Some(Err(Failure::Forced)));
    }
}
