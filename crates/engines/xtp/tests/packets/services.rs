//! The table of the services, line by line (3.9).

use crate::half::Got;
use crate::scene::*;
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Close, ControlBlock, Event, Failure, Options, Output, Refused, Service};

fn only(answers: Vec<Got>) -> Got {
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.into_iter().next().expect("one")
}

fn datagrams(scene: &Scene) -> Vec<u64> {
    let told = scene.half.events.iter().filter_map(|event| match event {
        Event::Datagram { len, .. } => Some(*len),
        _ => None,
    });
    told.collect()
}

/// The acknowledged datagram that waits for its delivery.
fn waiting(scene: &Scene) -> pinnace_xtp::ContextId {
    let context = scene.half.events.iter().find_map(|event| match event {
        Event::Datagram { context, .. } => *context,
        _ => None,
    });
    context.expect("it waits")
}

//= X-21 test
#[test]
fn an_unacknowledged_datagram_is_one_packet_and_nothing_else() {
    for codec in CODECS {
        for n in [0, 1, 1000] {
            let mut scene = Scene::opened(codec, block(Service::UnackDgram));
            let first = only(scene.send(n));
            assert_eq!((first.kind, first.len() as u64), (Kind::First, n));
            assert_eq!(first.marks(), all(&[EOM, WCLOSE, RCLOSE, END]));
            assert_eq!(first.options.and(Options::OF_STREAM), Options::NOERR | Options::NOFLOW);
            assert_eq!((scene.closed(), scene.outputs()), (Some(Ok(())), vec![true]));
            assert_eq!(scene.wait(100_000), []);
            let mut scene = Scene::listening(codec, block(Service::Connection));
            let mut packet = scene.first(first.options, n);
            packet.service = 1;
            assert_eq!(scene.feed(&packet), []);
            scene.half.release_datagrams();
            assert_eq!((datagrams(&scene), scene.half.xtp().contexts()), (vec![n], 0), "it keeps nothing");
            let stray = scene.data(END, 0, 10);
            assert_eq!(scene.feed(&stray), []);
        }
    }
}

//= X-21 test
#[test]
fn an_acknowledged_datagram_is_repeated_until_it_is() {
    for codec in CODECS {
        for (n, when_delivered) in [(0, false), (1, false), (1000, false), (1000, true)] {
            let mut scene = Scene::opened(codec, block(Service::AckDgram));
            let asks = if when_delivered { DREQ } else { SREQ };
            let output = |output| Output { eom: true, asks_when_delivered: when_delivered, ..output };
            let first = only(scene.output(n, output));
            assert_eq!((first.kind, first.marks()), (Kind::First, all(&[EOM, WCLOSE, RCLOSE, asks])));
            let again = only(scene.due(250));
            assert_eq!((again.kind, again.seq, again.len() as u64), (Kind::First, first.seq, n));
            assert_eq!(again.marks(), all(&[EOM, WCLOSE, RCLOSE, asks, SREQ]), "{codec:?}: it again, SREQ, new sync");
            assert_eq!(again.sync, first.sync.wrapping_add(1));
            let status = scene.status(all(&[RCLOSE, WCLOSE, END]), n, 1000, first.sync);
            assert_eq!(scene.feed(&status), []);
            assert_eq!((scene.closed(), scene.outputs()), (Some(Ok(())), vec![true]));
            assert_eq!(scene.wait(100_000), []);
        }
    }
}

//= X-21 test
#[test]
fn an_acknowledged_datagram_is_delivered_once_and_answered_each_time() {
    for codec in CODECS {
        for n in [0, 1000] {
            let mut scene = Scene::listening(codec, block(Service::Connection));
            let mut first = scene.first(all(&[EOM, WCLOSE, RCLOSE, SREQ]), n);
            first.service = 2;
            let answer = only(scene.feed(&first));
            assert_eq!((answer.kind, answer.marks()), (tcntl(codec), all(&[RCLOSE, WCLOSE, END])));
            assert_eq!((answer.rseq, answer.echo, answer.rtn, answer.key), (scene.n(n), 1000, true, KEY));
            let answer = only(scene.feed(&first.clone().sync(1001)));
            assert_eq!((answer.marks(), answer.echo), (all(&[RCLOSE, WCLOSE, END]), 1001));
            assert_eq!(datagrams(&scene), [n], "not delivered again");
            assert_eq!(scene.closed(), None, "the application knows of no context");
            scene.half.release_datagrams();
        }
    }
}

//= X-7 test
//= X-21 test
#[test]
fn a_datagram_with_dreq_is_acknowledged_when_delivered() {
    for codec in CODECS {
        let mut scene = Scene::listening(codec, block(Service::Connection));
        let mut first = scene.first(all(&[EOM, WCLOSE, RCLOSE, DREQ]), 500);
        first.service = 2;
        (first.options, first.btag) = (first.options | Options::BTAG, Some([3; 8]));
        assert_eq!(scene.feed(&first), []);
        assert_eq!(scene.wait(100), []);
        // It comes again, and asks now: that is answered, but it is not acknowledged as delivered.
        let again = crate::half::Packet { options: all(&[EOM, WCLOSE, RCLOSE, SREQ, Options::BTAG]), ..first.clone() };
        let answer = only(scene.feed(&again.sync(1001)));
        assert_eq!((answer.diag, answer.echo, answer.has(END)), (None, 1001, false), "{codec:?}");
        let context = waiting(&scene);
        scene.half.call(|engine, now| engine.delivered(now, context));
        let answer = only(scene.half.take());
        assert_eq!((answer.kind, answer.marks()), (tcntl(codec), all(&[RCLOSE, WCLOSE, END])));
        assert_eq!((answer.echo, answer.rseq), (1000, scene.n(500)));
        assert_eq!(datagrams(&scene), [500], "once");
    }
}

//= X-7 test
//= X-11 test
//= X-21 test
#[test]
fn a_datagram_with_dreq_whose_first_packet_was_lost_is_acknowledged_when_delivered_too() {
    for codec in CODECS {
        let mut sender = Scene::opened(codec, block(Service::AckDgram));
        sender.output(500, |output| Output { eom: true, asks_when_delivered: true, ..output });
        let again = only(sender.due(250));
        let mut scene = Scene::listening(codec, block(Service::Connection));
        let mut first = scene.first(again.options, 500).sync(again.sync);
        (first.service, first.seq) = (2, again.seq);
        let answer = only(scene.feed(&first));
        assert_eq!((answer.echo, answer.has(END)), (again.sync, false), "{codec:?}: it has arrived, and no more");
        let mut status = sender.status(answer.marks(), 500, 1000, answer.echo);
        status.seq = sender.n(0);
        assert_eq!((sender.feed(&status), sender.outputs()), (vec![], vec![]), "{codec:?}");
        let context = waiting(&scene);
        scene.half.call(|engine, now| engine.delivered(now, context));
        let end = only(scene.half.take());
        assert_eq!(end.marks(), all(&[RCLOSE, WCLOSE, END]), "{codec:?}");
        let status = sender.status(end.marks(), 500, 1000, end.echo).sync(1001);
        assert_eq!((sender.feed(&status), sender.outputs()), (vec![], vec![true]), "{codec:?}");
    }
}

//= X-7 test
//= X-21 test
#[test]
fn a_datagram_that_its_application_could_not_take_is_not_acknowledged_and_comes_again() {
    for codec in CODECS {
        let mut scene = Scene::listening(codec, block(Service::Connection));
        let mut first = scene.first(all(&[EOM, WCLOSE, RCLOSE, DREQ]), 500);
        first.service = 2;
        scene.feed(&first);
        let context = waiting(&scene);
        scene.half.call(|engine, _| engine.not_taken(context));
        assert_eq!(scene.wait(100), [], "{codec:?}");
        assert_eq!(datagrams(&scene), [500]);
        scene.half.events.clear();
        scene.feed(&first);
        let context = waiting(&scene);
        scene.half.call(|engine, now| engine.delivered(now, context));
        assert!(only(scene.half.take()).has(END), "{codec:?}");
        assert_eq!(datagrams(&scene), [500]);
    }
}

//= X-7 test
//= X-11 test
//= X-21 test
#[test]
fn a_datagram_with_dreq_is_delivered_when_its_receiver_says_end() {
    for codec in CODECS {
        let opened = || {
            let mut scene = Scene::opened(codec, block(Service::AckDgram));
            let output = |output| Output { eom: true, asks_when_delivered: true, ..output };
            only(scene.output(500, output));
            let again = only(scene.due(250));
            // It has arrived, and waits to be taken.
            let mut status = scene.status(RCLOSE | WCLOSE, 500, 1000, again.sync);
            status.seq = scene.n(0);
            scene.feed(&status);
            assert_eq!((scene.closed(), scene.outputs()), (None, vec![]), "{codec:?}: it is not delivered");
            scene
        };
        let mut scene = opened();
        // What tells of the delivery may be lost.
        let asks = scene.wait(1000);
        assert!(asks.iter().any(|asks| asks.kind == Kind::Cntl && asks.has(SREQ)), "{codec:?} {asks:?}");
        let status = scene.status(all(&[RCLOSE, WCLOSE, END]), 500, 1000, asks.last().expect("asks").sync).sync(1001);
        assert_eq!(scene.feed(&status), []);
        assert_eq!((scene.closed(), scene.outputs()), (Some(Ok(())), vec![true]), "{codec:?}");
        assert_eq!(scene.wait(100_000), []);
        // Nobody knows what has become of one whose receiver falls silent.
        let mut scene = opened();
        scene.wait(300_000);
        assert_eq!((scene.closed(), scene.outputs()), (Some(Err(Failure::Abandoned)), vec![false]), "{codec:?}");
        let mut scene = opened();
        let forgotten = scene.diag(false, XKEY, 3, 0);
        scene.feed(&forgotten);
        assert_eq!((scene.closed(), scene.outputs()), (Some(Err(Failure::Unknown)), vec![false]), "{codec:?}");
    }
}

//= X-7 test
//= X-11 test
#[test]
fn who_waits_for_a_delivery_asks_less_and_less_often_whether_it_has_been() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::AckDgram));
        let first = only(scene.output(500, |output| Output { eom: true, asks_when_delivered: true, ..output }));
        let mut answer = scene.status(RCLOSE | WCLOSE, 500, 1000, first.sync);
        answer.seq = scene.n(0);
        assert_eq!(scene.feed(&answer), []);
        let mut asked = Vec::new();
        for millis in 0..2_500 {
            for question in scene.wait(1) {
                assert_eq!((question.kind, question.has(SREQ)), (Kind::Cntl, true), "{codec:?}");
                asked.push(millis);
                answer.echo = question.sync;
                assert_eq!(scene.feed(&answer), []);
            }
        }
        // The first answers tell the round trip, which is none at all here.
        let waits: Vec<_> = asked.windows(2).map(|two| two[1] - two[0]).collect();
        let last = waits.last().copied().unwrap_or(0);
        assert!(waits.is_sorted() && (155..170).contains(&last), "{codec:?} {waits:?}");
        assert!((scene.closed(), scene.outputs()) == (None, vec![]), "{codec:?}: it is not given up");
        let mut end = scene.status(all(&[RCLOSE, WCLOSE, END]), 500, 1000, answer.echo).sync(1001);
        end.seq = scene.n(0);
        assert_eq!((scene.feed(&end), scene.outputs()), (vec![], vec![true]), "{codec:?}");
    }
}

//= X-7 test
//= X-21 test
#[test]
fn a_datagram_that_asks_both_ways_is_answered_before_and_after_its_delivery() {
    for codec in CODECS {
        let mut scene = Scene::listening(codec, block(Service::Connection));
        let mut first = scene.first(all(&[EOM, WCLOSE, RCLOSE, SREQ, DREQ]), 500);
        first.service = 2;
        let answer = only(scene.feed(&first));
        assert_eq!((answer.echo, answer.rseq, answer.has(END)), (1000, scene.n(500), false), "{codec:?}");
        let context = waiting(&scene);
        scene.half.call(|engine, now| engine.delivered(now, context));
        let answer = only(scene.half.take());
        assert_eq!((answer.echo, answer.marks()), (1000, all(&[RCLOSE, WCLOSE, END])), "{codec:?}");
        assert_eq!(datagrams(&scene), [500]);
    }
}

//= X-21 test
#[test]
fn a_request_asks_nothing_and_the_response_acknowledges_it() {
    for codec in CODECS {
        for n in [0, 100, 5000] {
            let mut scene = Scene::opened(codec, block(Service::Transaction));
            let sent = scene.send(n);
            assert_eq!(sent[0].kind, Kind::First);
            let last = sent.last().expect("sent");
            assert_eq!(last.marks(), EOM | WCLOSE);
            assert!(sent.iter().all(|packet| !packet.options.intersects(SREQ | DREQ)));
            let response = scene.data(all(&[RCLOSE, EOM, WCLOSE, SREQ]), 0, 200);
            let response = crate::half::Packet { sync: 1001, ..response };
            let answer = only(scene.feed(&response));
            assert_eq!((answer.kind, answer.marks()), (Kind::Cntl, all(&[RCLOSE, WCLOSE, END])), "{codec:?} {n}");
            assert_eq!((answer.echo, answer.rseq, answer.seq), (1001, scene.n(200), scene.n(n)));
            assert_eq!((scene.closed(), scene.outputs()), (Some(Ok(())), vec![true]));
            scene.consume(200);
        }
    }
}

/// Bytes up to the end of the message, where the application can take it.
fn message(scene: &Scene) -> Option<u64> {
    scene.half.xtp().readable(scene.context()).expect("it is there").message
}

fn readables(scene: &Scene) -> usize {
    scene.half.events.iter().filter(|event| matches!(event, Event::Readable { .. })).count()
}

//= X-21 test
#[test]
fn where_the_stream_of_a_transaction_ends_its_message_does() {
    for codec in CODECS {
        for n in [0, 200] {
            // The last packet of the response said EOM, had no bytes, and was lost.
            let mut scene = Scene::opened(codec, block(Service::Transaction));
            let sent = scene.send(100);
            if n > 0 {
                scene.feed(&scene.data(RCLOSE, 0, n).sync(1001));
                assert_eq!(message(&scene), None);
            }
            let mut status = scene.status(all(&[SREQ, RCLOSE, WCLOSE]), 100, 1000, sent[0].sync).sync(1002);
            status.seq = scene.n(n);
            let answer = only(scene.feed(&status));
            assert_eq!((answer.marks(), answer.rseq), (all(&[RCLOSE, WCLOSE, END]), scene.n(n)), "{codec:?} {n}");
            assert_eq!(message(&scene), Some(n));
            scene.consume(n);
            assert_eq!((message(&scene), scene.closed()), (None, Some(Ok(()))));
            // The same of a request.
            let mut scene = Scene::listening(codec, block(Service::Connection));
            let mut first = scene.first(SREQ, n);
            first.service = 3;
            scene.feed(&first);
            scene.learn();
            assert_eq!(message(&scene), None);
            let told = readables(&scene);
            let mut ask = scene.status(all(&[SREQ, WCLOSE]), 0, 1000, 0).sync(1001);
            ask.seq = scene.n(n);
            scene.feed(&ask);
            assert_eq!((message(&scene), readables(&scene)), (Some(n), told + 1), "{codec:?} {n}");
            scene.consume(n);
            assert_eq!(message(&scene), None);
            let response = only(scene.send(50));
            assert_eq!(response.marks(), all(&[RCLOSE, EOM, WCLOSE, SREQ]));
        }
    }
}

//= X-21 test
#[test]
fn who_does_not_respond_does_not_look_as_if_it_had() {
    for codec in CODECS {
        let mut scene = Scene::listening(codec, block(Service::Connection));
        let mut first = scene.first(EOM | WCLOSE, 100);
        first.service = 3;
        scene.feed(&first);
        scene.learn();
        let context = scene.context();
        scene.half.call(|engine, now| engine.release(now, context));
        let end = only(scene.half.take());
        assert!(end.has(END), "{codec:?} {end:?}");
    }
}

//= X-17 test
#[test]
fn an_empty_packet_ends_a_message_whose_bytes_were_taken() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 3);
        scene.consume(3);
        let told = readables(&scene);
        scene.feed(&scene.data(EOM | SREQ, 3, 0).sync(1001));
        assert_eq!((message(&scene), readables(&scene)), (Some(0), told + 1), "{codec:?}");
    }
}

//= X-11 test
//= X-21 test
#[test]
fn wtimer_asks_for_a_transaction() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::Transaction));
        let sent = scene.send(100);
        let again = only(scene.due(250));
        assert_eq!((again.kind, again.marks()), (Kind::First, all(&[EOM, WCLOSE, SREQ])));
        assert_eq!(again.sync, sent[0].sync.wrapping_add(1));
        // It was received, but the response takes its time.
        let status = scene.status(RCLOSE, 100, 1000, again.sync);
        assert_eq!(scene.feed(&status), []);
        assert_eq!(scene.outputs(), [true]);
        assert_eq!(scene.wait(30_000), [], "nothing is missing");
    }
}

//= X-21 test
#[test]
fn a_response_takes_the_place_of_the_status_for_20_ms() {
    for codec in CODECS {
        for (wait, is_in_time) in [(0, true), (19, true), (22, false)] {
            let mut scene = Scene::listening(codec, block(Service::Connection));
            let mut first = scene.first(EOM | WCLOSE, 100);
            first.service = 3;
            assert_eq!(scene.feed(&first), []);
            scene.learn();
            let waited = scene.wait(wait);
            assert_eq!(waited.len(), usize::from(!is_in_time), "{wait}");
            if !is_in_time {
                assert_eq!((waited[0].kind, waited[0].marks()), (tcntl(codec), RCLOSE));
                assert_eq!((waited[0].rseq, waited[0].echo), (scene.n(100), 1000));
            }
            let response = scene.send(3000);
            let last = response.len() - 1;
            for (index, packet) in response.iter().enumerate() {
                let marks = if index == last { all(&[RCLOSE, EOM, WCLOSE, SREQ]) } else { RCLOSE };
                assert_eq!((packet.kind, packet.marks()), (Kind::Data, marks));
                assert_eq!((packet.rtn, packet.key), (true, KEY));
            }
            let end = scene.status(all(&[RCLOSE, WCLOSE, END]), 3000, 1000, response[last].sync).sync(1001);
            assert_eq!(scene.feed(&end), []);
            assert_eq!((scene.closed(), scene.outputs()), (Some(Ok(())), vec![true]));
            scene.consume(100);
        }
    }
}

//= X-21 test
#[test]
fn a_response_before_the_end_of_the_request_still_says_rclose() {
    for codec in CODECS {
        let mut scene = Scene::listening(codec, block(Service::Connection));
        let mut first = scene.first(NONE, 100);
        first.service = 3;
        assert_eq!(scene.feed(&first).len(), 1);
        scene.learn();
        let response = only(scene.send(50));
        assert!(!response.has(RCLOSE), "the request is not in");
        let end = scene.data(EOM | WCLOSE, 100, 100).sync(1001);
        let answers = scene.feed(&end);
        assert!(answers.len() == 1 && answers[0].has(RCLOSE), "{codec:?} {answers:?}");
        assert_eq!(answers[0].rseq, scene.n(200));
    }
}

//= X-15 test
//= X-21 test
#[test]
fn an_isochronous_stream_ends_with_a_control_packet() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, block(Service::IsoStream), 100);
        let context = scene.context();
        let buffer = scene.half.memory.add(bytes(100, 3000));
        let output = Output { is_last: true, eom: true, ..Output::bytes(buffer, 3000) };
        scene.half.call(|engine, now| engine.send(now, context, output)).expect("taken");
        let sent = scene.half.take();
        let (last, data) = sent.split_last().expect("sent");
        assert!(data.iter().all(|packet| packet.kind == Kind::Data && !packet.has(WCLOSE)));
        assert_eq!((last.kind, last.marks(), last.seq), (Kind::Cntl, WCLOSE | SREQ, scene.n(3100)));
        let mut status = scene.gaps(200, &[(500, 600)], last.sync).sync(1001);
        status.alloc = scene.n(200);
        assert!(scene.feed(&status).iter().all(|packet| packet.data.is_none()), "nothing is repeated");
        assert_eq!(scene.outputs(), [true, true]);
        let status = scene.status(all(&[RCLOSE, WCLOSE, END]), 3100, 1000, last.sync).sync(1002);
        scene.feed(&status);
        assert_eq!(scene.closed(), Some(Ok(())));
    }
}

//= X-8 test
#[test]
fn who_can_wait_does_not_wait_for_a_peer_that_never_makes_room() {
    for (codec, answers) in CODECS.into_iter().flat_map(|codec| [(codec, false), (codec, true)]) {
        let mut scene = Scene::opened(codec, ControlBlock { holds_back: true, ..block(Service::IsoStream) });
        let mut sent = scene.send(200_000);
        let mut left = 0;
        let mut began = None;
        for millis in 0..3_000 {
            let data = sent.iter().filter(|packet| packet.data.is_some());
            left = data.map(|packet| scene.at(packet.seq) + packet.len() as u64).fold(left, u64::max);
            if left > 65_536 && began.is_none() {
                began = Some(millis);
            }
            let asks = sent.iter().rfind(|packet| packet.has(SREQ)).map(|packet| packet.sync);
            sent = match asks {
                Some(sync) if answers => {
                    let status = scene.status(NONE, left, 65_536, sync);
                    scene.feed(&status)
                }
                _ => scene.wait(1),
            };
        }
        assert_eq!(left, 200_000, "{codec:?}");
        assert!(began.is_some_and(|millis| (1_000..2_500).contains(&millis)), "{began:?}");
        // One that makes room is waited for again.
        let sync = scene.half.xtp().facts(scene.context()).expect("there").sync;
        let status = scene.status(NONE, 200_000, 201_000, sync);
        scene.feed(&status);
        let more: usize = scene.send(100_000).iter().map(Got::len).sum();
        assert_eq!(more, 1_000);
    }
}

//= X-8 test
#[test]
fn who_can_wait_sends_an_isochronous_stream_no_faster_than_it_is_read() {
    for codec in CODECS {
        for holds_back in [false, true] {
            let mut scene = Scene::opened(codec, ControlBlock { holds_back, ..block(Service::IsoStream) });
            let end = |sent: &[Got]| {
                let last = sent.iter().rfind(|packet| packet.data.is_some()).expect("data");
                (last.seq, last.len() as u64, last.has(SREQ), last.sync)
            };
            let sent = scene.send(100_000);
            assert!(sent[0].options.contains(Options::NOERR | Options::NOFLOW), "nobody can tell");
            let (seq, len, asks, sync) = end(&sent);
            let most = if holds_back { 65_536 } else { 100_000 };
            assert_eq!((seq, asks), (scene.n(most - len), true), "{codec:?}: no more without an answer");
            if !holds_back {
                continue;
            }
            // The first packet may have to go again, so all of it is kept.
            assert_eq!(scene.outputs(), []);
            let status = scene.status(NONE, 65_536, 80_000, sync);
            let (seq, len, asks, sync) = end(&scene.feed(&status));
            assert_eq!((seq, asks), (scene.n(80_000 - len), true));
            assert_eq!(scene.outputs(), []);
            // As much has come, but nobody has read it: it is asked for until somebody has.
            let status = scene.status(NONE, 80_000, 80_000, sync);
            assert_eq!(scene.feed(&status), []);
            let asking = only(scene.due(10));
            assert_eq!((asking.kind, asking.marks()), (Kind::Cntl, SREQ));
            let status = scene.status(NONE, 80_000, 1_000_000, asking.sync);
            let (seq, len, asks, sync) = end(&scene.feed(&status));
            assert_eq!((seq, asks), (scene.n(100_000 - len), true));
            let status = scene.status(NONE, 100_000, 1_000_000, sync);
            assert_eq!((scene.feed(&status), scene.outputs()), (vec![], vec![true]));
        }
    }
}

//= X-15 test
#[test]
fn each_end_chooses_its_own_options() {
    for codec in CODECS {
        // The responder's stream repeats, although the initiator's does not: its gaps are waited for.
        let mut scene = Scene::connected(codec, block(Service::IsoStream), 100);
        let data = scene.data(SREQ, 100, 100).sync(1001);
        let answer = only(scene.feed(&data));
        assert_eq!(answer.spans, [(scene.n(100), scene.n(200))], "{codec:?}");
        assert_eq!(answer.rseq, scene.n(0));
        // And the other way round.
        let mut scene = Scene::opened(codec, block(Service::Connection));
        let sent = scene.send(100);
        let status = scene.status(Options::NOERR, 100, 1000, sent[0].sync);
        scene.feed(&status);
        let data = scene.data(SREQ | Options::NOERR, 100, 100).sync(1001);
        assert_eq!(only(scene.feed(&data)).rseq, scene.n(200), "{codec:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    for codec in CODECS {
        for service in [Service::UnackDgram, Service::AckDgram] {
            let mut scene = Scene::opened(codec, block(service));
            let context = scene.context();
            let buffer = scene.half.memory.add(vec![0; 2000]);
            let large = Output::message(buffer, 2000);
            let refused = scene.half.call(|engine, now| engine.send(now, context, large));
            let Err(Refused::TooLarge { most }) = refused else { panic!("{refused:?}") };
            let first = only(scene.send(most.into()));
            assert_eq!(first.len() as u32, most);
        }
        for service in [Service::Connection, Service::IsoStream, Service::BulkData] {
            let mut scene = Scene::opened(codec, block(service));
            let context = scene.context();
            let buffer = scene.half.memory.add(Vec::new());
            let empty = Output::message(buffer, 0);
            let refused = scene.half.call(|engine, now| engine.send(now, context, empty));
            assert_eq!(refused, Err(Refused::Empty), "services 4 to 6 refuse it");
        }
    }
}

#[test]
fn a_context_that_has_sent_nothing_closes_in_silence() {
    for codec in CODECS {
        for service in [Service::UnackDgram, Service::AckDgram, Service::Transaction] {
            let mut scene = Scene::opened(codec, block(service));
            assert_eq!(scene.close(Close::Full), [], "an empty message would be one, too");
            assert_eq!(scene.closed(), Some(Ok(())));
        }
        let mut scene = Scene::opened(codec, block(Service::Connection));
        let first = only(scene.close(Close::Full));
        assert_eq!((first.kind, first.marks(), first.len()), (Kind::First, WCLOSE | SREQ, 0));
    }
}
