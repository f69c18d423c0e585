//! What a receiver says, and when it says nothing (3.2, 3.4, 3.6).

use crate::half::{Got, Packet};
use crate::scene::*;
use core::time::Duration;
use pinnace_core::Engine;
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Codec, Config, ControlBlock, Options, Output, Service, Services};

fn only(answers: Vec<Got>) -> Got {
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.into_iter().next().expect("one")
}

//= X-7 test
#[test]
fn only_what_asks_is_answered() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 100);
        let data = scene.data(NONE, 100, 50).sync(1000);
        assert_eq!(scene.feed(&data), []);
        let data = scene.data(EOM | SREQ, 150, 50).sync(1001);
        let answer = only(scene.feed(&data));
        assert_eq!((answer.kind, answer.echo, answer.marks()), (Kind::Cntl, 1001, NONE));
        assert_eq!((answer.rseq, answer.seq), (scene.n(200), scene.n(0)));
        let sync = answer.sync;
        // An answer never asks, and a status is not answered unless it asks.
        let status = scene.status(NONE, 0, 1000, sync).sync(1001);
        assert_eq!(scene.feed(&status), []);
        let status = scene.status(SREQ, 0, 1000, sync).sync(1002);
        let answer = only(scene.feed(&status));
        assert_eq!((answer.echo, answer.sync, answer.marks()), (1002, sync, NONE), "the current sync");
    }
}

//= X-7 test
#[test]
fn one_packet_of_an_answer_leaves_ahead_of_the_status_that_has_waited_for_it() {
    for codec in CODECS {
        let config = Config { courtesy: Duration::from_micros(10), ..config(codec) };
        let mut scene = Scene::listening_for(config, block(Service::Connection), Services::ALL);
        scene.accept(NONE, 100);
        // Whoever has answered a question will answer the next.
        let question = scene.data(SREQ, 100, 10).sync(1000);
        assert_eq!(only(scene.feed(&question)).echo, 1000);
        only(scene.send(16));
        for (number, len) in [(1, 16), (2, 1000), (3, 5000)] {
            let question = scene.data(SREQ, 100 + 10 * number, 10).sync(1000 + number as u32);
            assert_eq!(scene.feed(&question), [], "it waits");
            let sent = scene.send(len);
            let kinds: Vec<_> = sent.iter().map(|got| got.kind).collect();
            let status = match len {
                // A train of its own.
                5000 => 0,
                _ => 1,
            };
            assert_eq!(kinds.iter().filter(|kind| **kind == Kind::Cntl).count(), 1, "{len}: {kinds:?}");
            assert_eq!(
                (kinds[status], sent[status].echo),
                (Kind::Cntl, 1000 + number as u32),
                "{codec:?} {len}: {kinds:?}"
            );
        }
    }
}

/// The message before is acknowledged behind the one that is answered, and so it is still under way.
#[test]
fn an_answer_does_not_wait_for_a_fuller_train() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, block(Service::Connection), 100);
        scene.half.call(|engine, _| engine.handle_hold(true));
        assert_eq!(only(scene.send(16)).len(), 16, "nothing is under way");
        let question = scene.data(NONE, 0, 10);
        assert_eq!(scene.feed(&question), []);
        assert_eq!(only(scene.send(16)).len(), 16, "{codec:?}: the one before is under way");
        assert_eq!(scene.send(16), [], "that is no answer");
    }
}

//= X-7 test
#[test]
fn an_answer_that_asks_is_not_answered() {
    for options in [SREQ, DREQ, SREQ | DREQ] {
        let mut scene = Scene::opened(Codec::Xtp40, block(Service::Connection));
        let sync = scene.send(5000).last().expect("sent").sync;
        let tcntl = Packet { kind: Kind::Tcntl, ..scene.status(options, 5000, 100_000, sync) };
        assert_eq!(scene.feed(&tcntl.sync(1001)), []);
        let sync = scene.send(5000).last().expect("sent").sync;
        let ecntl = scene.gaps(7800, &[(9200, 10_000)], sync).with(options).sync(1002);
        let again = scene.feed(&ecntl);
        assert_eq!(again.iter().map(|packet| (packet.kind, packet.len())).collect::<Vec<_>>(), [(Kind::Data, 1400)]);
        // Its sync has been heard, and the same is no older.
        let asks = scene.status(options, 10_000, 100_000, again[0].sync).sync(1002);
        assert_eq!(only(scene.feed(&asks)).echo, 1002);
    }
}

/// Both ends lack something, and one of them has to ask: in a packet that is answered.
//= X-7 test
//= X-11 test
#[test]
fn who_lacks_something_asks_in_a_cntl() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 100);
        let gap = scene.data(NONE, 200, 100);
        assert_eq!(scene.feed(&gap), []);
        let sent = only(scene.send(10));
        let spans = vec![(scene.n(200), scene.n(300))];
        let asks = scene.wait(260);
        let shape: Vec<_> = asks.iter().map(|got| (got.kind, got.marks(), got.rseq, got.spans.clone())).collect();
        let rseq = scene.n(100);
        match codec {
            // The gap is told before, in what does not ask.
            Codec::Xtp40 => {
                assert_eq!(shape, [(Kind::Ecntl, NONE, rseq, spans), (Kind::Cntl, SREQ, rseq, Vec::new())]);
                assert_eq!(asks[0].sync, sent.sync);
            }
            Codec::Xtp36 => assert_eq!(shape, [(Kind::Cntl, SREQ, rseq, spans)]),
        }
        assert_eq!(asks.last().expect("one").sync, sent.sync.wrapping_add(1));
    }
}

//= X-10 test
#[test]
fn an_older_sync_is_not_answered_but_its_bytes_count() {
    for codec in CODECS {
        let mut scene = Scene::listening(codec, block(Service::Connection));
        // Modular: 3 is newer than 2^32 - 2.
        let first = scene.first(NONE, 10).sync(u32::MAX - 1);
        scene.feed(&first);
        scene.learn();
        let data = scene.data(SREQ, 10, 10).sync(3);
        assert_eq!(only(scene.feed(&data)).echo, 3);
        let old = scene.data(SREQ, 20, 10).sync(u32::MAX);
        assert_eq!(scene.feed(&old), [], "older");
        let again = scene.data(SREQ, 0, 10).sync(3);
        let answer = only(scene.feed(&again));
        assert_eq!((answer.echo, answer.rseq), (3, scene.n(30)), "equality is not less");
    }
}

//= X-14 test
#[test]
fn each_new_gap_is_reported_once() {
    for codec in CODECS {
        for (in_packet, in_listener, is_told) in [(true, false, true), (false, true, true), (false, false, false)] {
            let mut listens = block(Service::Connection);
            if in_listener {
                listens.listen_flags = Options::FASTNAK;
            }
            let flags = if in_packet { Options::FASTNAK } else { NONE };
            let mut scene = Scene::accepted(codec, listens, flags, 100);
            let data = scene.data(flags, 200, 100);
            let answers = scene.feed(&data);
            assert_eq!(answers.len(), usize::from(is_told), "{codec:?} {in_packet} {in_listener}");
            if is_told {
                let ecntl = if codec == Codec::Xtp40 { Kind::Ecntl } else { Kind::Cntl };
                assert_eq!((answers[0].kind, answers[0].rseq), (ecntl, scene.n(100)));
                assert_eq!((answers[0].echo, answers[0].marks()), (1000, NONE), "the newest sync received");
                assert_eq!(answers[0].spans, [(scene.n(200), scene.n(300))]);
                assert_eq!(answers[0].hseq, scene.n(300));
            }
            let behind = scene.data(flags, 300, 100);
            assert_eq!(scene.feed(&behind), [], "no new gap");
            let again = scene.data(flags, 200, 100);
            assert_eq!(scene.feed(&again), [], "nothing new");
            let beyond = scene.data(flags, 500, 100);
            let answers = scene.feed(&beyond);
            assert_eq!(answers.len(), usize::from(is_told));
            if is_told {
                let spans = [(scene.n(200), scene.n(400)), (scene.n(500), scene.n(600))];
                assert_eq!(answers[0].spans, spans, "rising, touching neither each other nor rseq");
            }
            let between = scene.data(flags, 450, 10);
            assert_eq!(scene.feed(&between), [], "it does not start above hseq");
            let asks = scene.data(flags | SREQ, 100, 100).sync(1001);
            let answer = only(scene.feed(&asks));
            let spans = [(scene.n(450), scene.n(460)), (scene.n(500), scene.n(600))];
            assert_eq!((answer.rseq, answer.echo), (scene.n(400), 1001));
            assert_eq!(answer.spans, spans);
            let fills = scene.data(flags | SREQ, 400, 100).sync(1002);
            let answer = only(scene.feed(&fills));
            assert_eq!((answer.kind, answer.rseq), (Kind::Cntl, scene.n(600)));
            assert_eq!(answer.spans, []);
        }
    }
}

//= X-13 test
#[test]
fn a_receiver_in_go_back_n_keeps_nothing_beyond_a_gap() {
    for codec in CODECS {
        let mut scene =
            Scene::accepted(codec, ControlBlock { go_back_n: true, ..block(Service::Connection) }, NONE, 100);
        let data = scene.data(SREQ | Options::FASTNAK, 200, 100).sync(1001);
        let answer = only(scene.feed(&data));
        assert_ne!(answer.kind, Kind::Ecntl);
        assert_eq!((answer.rseq, answer.spans.len()), (scene.n(100), 0), "so it sends CNTL");
        let data = scene.data(SREQ, 100, 100).sync(1002);
        assert_eq!(only(scene.feed(&data)).rseq, scene.n(200));
    }
}

//= X-15 test
//= X-21 test
#[test]
fn a_stream_without_errors_reports_no_gap() {
    for codec in CODECS {
        let lossy = Options::NOERR | Options::NOFLOW | Options::FASTNAK;
        let mut scene = Scene::accepted(codec, block(Service::IsoStream), lossy, 100);
        let data = scene.data(lossy, 200, 100);
        assert_eq!(scene.feed(&data), []);
        let late = scene.data(lossy | SREQ, 100, 50).sync(1001);
        let answer = only(scene.feed(&late));
        assert_eq!((answer.rseq, answer.spans.len(), answer.hseq), (scene.n(300), 0, scene.n(300)), "rseq = hseq");
        let context = scene.context();
        assert_eq!(scene.half.xtp().holes(context, 300), [(100, 100)], "bytes that come late are dropped");
        assert_eq!(answer.options.and(Options::OF_STREAM), Options::NOERR | Options::NOFLOW);
    }
}

//= X-7 test
#[test]
fn a_dreq_is_answered_when_everything_up_to_it_was_delivered() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 0);
        let (one, two) = (scene.data(DREQ, 0, 100).sync(1001), scene.data(DREQ, 100, 100).sync(1002));
        assert_eq!(scene.feed(&one), []);
        assert_eq!(scene.feed(&two), []);
        let mut control = scene.status(DREQ, 0, 1000, 0).sync(1003);
        control.echo = scene.half.xtp().facts(scene.context()).expect("there").sync;
        control.seq = scene.n(200);
        assert_eq!(scene.feed(&control), []);
        assert_eq!(scene.consume(99), []);
        assert_eq!(only(scene.consume(1)).echo, 1001, "{codec:?}: the first, although another waits");
        assert_eq!(scene.consume(99), []);
        let answer = only(scene.consume(1));
        assert_eq!((answer.echo, answer.rseq), (1003, scene.n(200)), "the newest of those that are due");
        // One that is due already is answered at once.
        let due = scene.data(DREQ, 100, 100).sync(1004);
        assert_eq!(only(scene.feed(&due)).echo, 1004);
        // SREQ does not wait for a DREQ.
        let waits = scene.data(DREQ, 200, 100).sync(1005);
        assert_eq!(scene.feed(&waits), []);
        let asks = scene.data(SREQ, 300, 100).sync(1006);
        assert_eq!(only(scene.feed(&asks)).echo, 1006);
    }
}

//= X-7 test
#[test]
fn who_asks_both_ways_is_answered_twice() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 0);
        let both = scene.data(SREQ | DREQ, 0, 100).sync(1001);
        let answer = only(scene.feed(&both));
        assert_eq!((answer.echo, answer.rseq), (1001, scene.n(100)), "{codec:?}: at once");
        assert_eq!(scene.consume(99), []);
        let answer = only(scene.consume(1));
        assert_eq!((answer.echo, answer.rseq), (1001, scene.n(100)), "{codec:?}: when it was delivered");
        // What was delivered already needs one answer.
        let both = scene.data(SREQ | DREQ, 100, 0).sync(1002);
        assert_eq!(only(scene.feed(&both)).echo, 1002);
    }
}

//= X-5 test
//= X-7 test
#[test]
fn a_first_with_dreq_is_answered_when_it_is_delivered_too() {
    for codec in CODECS {
        for service in [3, 4] {
            let mut scene = Scene::listening(codec, block(Service::Connection));
            let mut first = scene.first(DREQ, 100);
            first.service = service;
            let answer = only(scene.feed(&first));
            assert_eq!((answer.echo, answer.rseq), (1000, scene.n(100)), "{codec:?}: as if it had SREQ");
            scene.learn();
            assert_eq!(scene.consume(99), []);
            let answer = only(scene.consume(1));
            assert_eq!((answer.echo, answer.marks()), (1000, NONE), "{codec:?} {service}");
        }
    }
}

//= X-8 test
#[test]
fn bytes_beyond_alloc_are_dropped_and_the_window_opens_again() {
    for codec in CODECS {
        let small = ControlBlock { rwindow: 4000, rbufsize: 4000, maxdata: 500, ..block(Service::Connection) };
        let mut scene = Scene::accepted(codec, small, NONE, 1000);
        let asks = scene.data(SREQ, 1000, 3000).sync(1001);
        let answer = only(scene.feed(&asks));
        assert_eq!((answer.rseq, answer.alloc), (scene.n(4000), scene.n(4000)), "consumed + rwindow");
        let beyond = scene.data(SREQ, 4000, 100).sync(1002);
        let answer = only(scene.feed(&beyond));
        assert_eq!(answer.rseq, scene.n(4000), "dropped");
        assert_eq!(scene.consume(999), [], "min(rwindow / 2, 2 x maxdata) = 1000");
        let answer = only(scene.consume(1));
        assert_eq!((answer.alloc, answer.echo, answer.marks()), (scene.n(5000), 1002, NONE), "unasked");
        // Alloc was not reached since: nothing is said.
        assert_eq!(scene.consume(3000), []);
        let more = scene.data(NONE, 4000, 1000).sync(1002);
        assert_eq!(scene.feed(&more), []);
        let answer = only(scene.consume(1000));
        assert_eq!(answer.alloc, scene.n(9000), "all was consumed");
    }
}

//= X-8 test
//= X-17 test
#[test]
fn all_that_alloc_allows_is_taken_however_short_its_messages_are() {
    const WINDOW: u64 = 262_144;
    for codec in CODECS {
        // Nobody reads.
        let mut scene = Scene::accepted(codec, block(Service::Connection), EOM, 8);
        for low in (8..WINDOW).step_by(8) {
            let data = scene.data(EOM, low, 8);
            assert_eq!(scene.feed(&data), []);
        }
        let mut asks = scene.status(SREQ, 0, 1000, 0).sync(1001);
        asks.seq = scene.n(WINDOW);
        let answer = only(scene.feed(&asks));
        assert_eq!((answer.rseq, answer.alloc), (scene.n(WINDOW), scene.n(WINDOW)), "{codec:?}");
        for _ in 0..WINDOW / 8 {
            let context = scene.context();
            assert_eq!(scene.half.xtp().readable(context).and_then(|readable| readable.message), Some(8));
            scene.half.call(|engine, now| engine.consume(now, context, 8));
        }
    }
}

//= X-8 test
#[test]
fn posted_buffers_are_all_that_is_allocated() {
    for codec in CODECS {
        let mut scene = Scene::listening(codec, block(Service::BulkData));
        let answer = scene.accept(Options::RES, 0);
        assert_eq!(answer.alloc, scene.n(0), "nothing is posted");
        assert!(answer.has(Options::RES), "in every packet of the stream");
        let context = scene.context();
        for (bytes, alloc) in [(300, 300), (500, 800)] {
            let buffer = scene.half.memory.add(vec![0; bytes]);
            scene.half.call(|engine, now| engine.post(now, context, buffer, 0, bytes as u64)).expect("posted");
            let sent = scene.half.take();
            // The first makes room where there was none; the second is told when somebody asks.
            let alloc = scene.n(alloc);
            assert!(sent.iter().all(|sent| sent.alloc == alloc), "{sent:?}");
        }
        let asks = scene.data(Options::RES | SREQ, 0, 900).sync(1001);
        let answer = only(scene.feed(&asks));
        assert_eq!((answer.rseq, answer.alloc), (scene.n(800), scene.n(800)), "never beyond what is reserved");
    }
}

#[test]
fn spans_that_do_not_fit_are_the_highest() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 10);
        for span in 0..200 {
            let data = scene.data(NONE, 20 + 20 * span, 10);
            assert_eq!(scene.feed(&data), []);
        }
        let asks = scene.data(SREQ, 0, 10).sync(1001);
        let answer = only(scene.feed(&asks));
        assert!(answer.spans.len() > 50 && answer.spans.len() < 200);
        for (index, span) in answer.spans.iter().enumerate() {
            let low = 20 + 20 * index as u64;
            assert_eq!(*span, (scene.n(low), scene.n(low + 10)), "the lowest are sent");
        }
    }
}

//= X-7 test
#[test]
fn xtp36_tells_its_clock_and_what_it_takes() {
    let takes = ControlBlock { input_rate: 5000, input_burst: 700, ..block(Service::Connection) };
    let mut scene = Scene::listening(Codec::Xtp36, takes);
    scene.half.advance(millis(5000));
    let answer = scene.accept(NONE, 10);
    let clock = answer.clock.expect("xtp36");
    assert_eq!(
        (clock.rate, clock.burst, clock.time, clock.techo),
        (5000, 700, 0, 0),
        "the first context is active now"
    );
    scene.half.advance(millis(90));
    let mut asks = scene.status(SREQ, 0, 1000, answer.sync).sync(1001);
    asks.clock.time = 777;
    let clock = only(scene.feed(&asks)).clock.expect("xtp36");
    assert_eq!((clock.time, clock.techo), (4, 777), "units of 20 ms");
    // For one that begins, its clock begins with the FIRST.
    let mut scene = Scene::opened(Codec::Xtp36, block(Service::Connection));
    scene.half.advance(millis(1000));
    let sent = scene.send(10);
    scene.half.advance(millis(60));
    let asks = scene.status(SREQ, 10, 1000, sent[0].sync);
    assert_eq!(only(scene.feed(&asks)).clock.expect("xtp36").time, 3);
}

#[test]
fn an_old_status_can_only_raise_rseq_and_alloc() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, ControlBlock { sreq_every: 0, ..block(Service::Connection) });
        let sync = scene.send(5000).last().expect("sent").sync;
        let status = scene.status(NONE, 1000, 10_000, sync).sync(2000);
        scene.feed(&status);
        let mut old = scene.gaps(2000, &[(3000, 4000)], sync).sync(1999);
        old.alloc = scene.n(20_000);
        old.options = RCLOSE | WCLOSE | SREQ;
        assert_eq!(scene.feed(&old), [], "nothing is lost because of it, and it is not answered");
        let facts = scene.half.xtp().facts(scene.context()).expect("there");
        assert_eq!((scene.at(facts.acked), facts.recv_sync), (2000, 2000));
        let lower = scene.status(NONE, 1500, 1000, sync).sync(2000);
        scene.feed(&lower);
        let facts = scene.half.xtp().facts(scene.context()).expect("there");
        assert_eq!(scene.at(facts.acked), 2000, "rseq and alloc never fall");
        let mut end = scene.status(END | RCLOSE | WCLOSE, 5000, 1000, sync).sync(1999);
        end.seq = scene.n(0);
        scene.feed(&end);
        assert_eq!(scene.closed(), None, "an old END ends nothing");
        let more = scene.output(15_000, |output| Output { eom: true, ..output });
        assert_eq!(more.iter().map(Got::len).sum::<usize>(), 15_000, "alloc is 20,000, and the stream goes on");
    }
}
