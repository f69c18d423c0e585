//! What a sender says, when it asks, and how long it waits (3.1, 3.2, 3.5, 3.6, 3.10, 3.12).

use crate::half::Got;
use crate::scene::*;
use pinnace_core::{ControllerKind, Engine};
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Codec, Config, ControlBlock, Failure, Options, Output, Refused, Service};

fn asks(sent: &[Got]) -> Vec<usize> {
    sent.iter().enumerate().filter(|(_, packet)| packet.has(SREQ)).map(|(index, _)| index).collect()
}

//= X-5 test
//= X-7 test
//= X-17 test
#[test]
fn data_follow_the_first_and_the_last_asks() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::Connection));
        let before = scene.half.xtp().facts(scene.context()).expect("there").sync;
        let sent = scene.send(60_000);
        assert_eq!(sent[0].kind, Kind::First);
        assert!(sent[1..].iter().all(|packet| packet.kind == Kind::Data));
        let last = sent.len() - 1;
        let mut expected: Vec<_> = (15..last).step_by(16).collect();
        expected.push(last);
        assert_eq!(asks(&sent), expected, "every 16th, and the last");
        let (mut low, mut sync) = (0, before);
        for (index, packet) in sent.iter().enumerate() {
            sync = sync.wrapping_add(u32::from(packet.has(SREQ)));
            assert_eq!((packet.seq, packet.sync), (scene.n(low), sync));
            assert_eq!(packet.has(EOM), index == last);
            assert!(!packet.options.intersects(WCLOSE | RCLOSE | END | DREQ | Options::BTAG));
            assert_eq!(packet.data, Some(bytes(low, packet.len() as u64)));
            low += packet.len() as u64;
        }
        assert_eq!(low, 60_000);
        let status = scene.status(SREQ, 60_000, 100_000, sync);
        assert_eq!(scene.feed(&status)[0].seq, scene.n(60_000), "one past the last byte ever sent");
    }
}

//= X-8 test
#[test]
fn no_more_than_65536_bytes_leave_before_the_first_status() {
    for codec in CODECS {
        for rwindow in [1000, 1 << 20] {
            let mut scene = Scene::opened(codec, ControlBlock { rwindow, sreq_every: 0, ..block(Service::Connection) });
            let sent = scene.send(200_000);
            assert_eq!(sent.iter().map(Got::len).sum::<usize>(), 65_536);
            assert_eq!(asks(&sent), [sent.len() - 1], "the packet that uses up alloc");
            let sync = sent.last().expect("sent").sync;
            // The first status replaces it: less room than before is less room.
            let status = scene.status(NONE, 65_536, 60_000, sync);
            assert_eq!(scene.feed(&status), []);
            let waits = scene.due(10);
            assert_eq!(waits[0].marks(), SREQ, "a sender with bytes and no room keeps asking");
            assert_eq!(waits[0].kind, Kind::Cntl);
            let status = scene.status(NONE, 65_536, 70_000, sync.wrapping_add(1)).sync(1001);
            let sent = scene.feed(&status);
            assert_eq!(sent.iter().map(Got::len).sum::<usize>(), 70_000 - 65_536, "alloc is exclusive");
            let lower = scene.status(NONE, 70_000, 69_000, sent.last().expect("sent").sync).sync(1002);
            assert_eq!(scene.feed(&lower), [], "it never falls");
        }
    }
}

//= X-8 test
//= X-11 test
#[test]
fn who_has_no_room_asks_less_often_while_nothing_changes() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::Connection));
        let mut sync = scene.send(100_000).last().expect("sent").sync;
        let mut alloc = 65_536;
        for round in 0..2 {
            let status = scene.status(NONE, alloc, alloc, sync).sync(2000 + round);
            assert_eq!(scene.feed(&status), [], "there is no room");
            // Doubled each time, at most to 16 times.
            for wait in [10, 20, 40, 80, 160, 160, 160] {
                let asks = scene.due(wait);
                assert_eq!((asks.len(), asks[0].kind, asks[0].marks()), (1, Kind::Cntl, SREQ), "{codec:?} {wait}");
                let status = scene.status(NONE, alloc, alloc, asks[0].sync).sync(2000 + round);
                assert_eq!(scene.feed(&status), []);
                sync = asks[0].sync;
            }
            // Once there is no answer, it is missing, and WTIMER goes on as ever.
            scene.due(160);
            let again = scene.due(20);
            assert_eq!((again.len(), again[0].sync), (1, sync.wrapping_add(2)), "{codec:?}");
            // Nobody who has to say that there is room waits to be asked.
            alloc += 5000;
            let status = scene.status(NONE, alloc - 5000, alloc, again[0].sync).sync(2000 + round);
            let sent = scene.feed(&status);
            assert_eq!(sent.iter().map(Got::len).sum::<usize>(), 5000, "{codec:?}: at once");
            sync = sent.last().expect("sent").sync;
        }
        assert_eq!(scene.closed(), None, "answers are all that it takes");
    }
}

//= X-8 test
#[test]
fn noflow_ignores_alloc() {
    for codec in CODECS {
        let noflow = ControlBlock { mode_flags: Options::NOFLOW, ..block(Service::Connection) };
        let mut scene = Scene::opened(codec, noflow);
        let sent = scene.send(200_000);
        assert_eq!(sent.iter().map(Got::len).sum::<usize>(), 200_000);
        assert!(sent.iter().all(|packet| packet.has(Options::NOFLOW)));
    }
}

//= X-7 test
#[test]
fn all_that_is_asked_for_at_the_bytes_of_a_packet_is_asked() {
    for codec in CODECS {
        for deferred_first in [false, true] {
            let seldom = ControlBlock { sreq_every: 0, ..block(Service::Connection) };
            let mut scene = Scene::connected(codec, seldom, 10);
            scene.half.call(|engine, _| engine.handle_hold(true));
            scene.output(10, |output| output);
            for asks_when_delivered in [deferred_first, !deferred_first] {
                let change = |output| Output { asks: !asks_when_delivered, asks_when_delivered, ..output };
                assert_eq!(scene.output(10, change), []);
            }
            // Behind them there is more, that asks for nothing.
            let full = only(scene.output(1300, |output| output));
            assert_eq!((full.seq, full.marks()), (scene.n(20), SREQ | DREQ), "{codec:?}");
        }
    }
}

//= X-7 test
//= X-21 test
#[test]
fn a_request_in_parts_is_asked_about_once_when_no_more_of_it_comes() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::Transaction));
        scene.half.call(|engine, _| engine.handle_hold(true));
        let first = only(scene.output(100, |output| output));
        assert_eq!((first.kind, first.marks()), (Kind::First, NONE));
        scene.half.call(|engine, _| engine.handle_hold(false));
        let ask = only(scene.take());
        assert_eq!((ask.kind, ask.seq, ask.marks()), (Kind::Data, scene.n(100), SREQ), "{codec:?}");
        assert_eq!(scene.wait(200), []);
        // The end of the request asks for nothing: the response answers it.
        let status = scene.status(NONE, 100, 1000, ask.sync);
        assert_eq!(scene.feed(&status), []);
        assert_eq!(only(scene.send(50)).marks(), EOM | WCLOSE);
    }
}

//= X-11 test
#[test]
fn the_peer_is_waited_for_from_the_first_packet_on() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::Connection));
        assert_eq!(scene.wait(100_000), [], "nothing was said");
        let first = only(scene.send(100));
        assert_eq!(first.kind, Kind::First);
        for wait in [250, 500, 1000, 2000, 4000] {
            assert_eq!(only(scene.due(wait)).kind, Kind::First, "{codec:?} {wait}");
        }
        assert_eq!(scene.closed(), None);
    }
}

//= X-7 test
#[test]
fn dreq_puts_off_no_answer_that_the_machine_wants() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, block(Service::Connection), 10);
        let sent = scene.output(100, |output| Output { asks_when_delivered: true, ..output });
        assert_eq!((sent.len(), sent[0].marks()), (1, SREQ | DREQ), "{codec:?}: the last packet");
        assert_eq!(scene.due(10)[0].marks(), SREQ, "its answer is missing");
        // The answer may be the one to DREQ, of which nobody knows how long the application took.
        let sent = scene.output(100, |output| Output { asks_when_delivered: true, ..output });
        scene.wait(9);
        let status = scene.status(NONE, 210, 100_000, sent[0].sync).sync(1001);
        scene.feed(&status);
        scene.send(100);
        assert_eq!(scene.due(10)[0].marks(), SREQ, "{codec:?}: no round trip was measured");
    }
}

#[test]
fn the_application_may_decide_who_asks() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, ControlBlock { sreq_every: 0, ..block(Service::Connection) }, 10);
        let sent = scene.output(30_000, |output| Output { asks_when_delivered: true, ..output });
        let last = sent.last().expect("sent");
        // The last packet has to ask anyway, so that somebody hears what was lost.
        assert!(sent[..sent.len() - 1].iter().all(|packet| !packet.options.intersects(SREQ | DREQ)));
        assert!(last.has(SREQ | DREQ));
        let context = scene.context();
        for (when_delivered, option) in [(true, DREQ), (false, SREQ)] {
            let before = scene.half.xtp().facts(context).expect("there").sync;
            scene.half.call(|engine, now| engine.ask(now, context, when_delivered)).expect("open");
            let sent = scene.half.take();
            assert_eq!((sent.len(), sent[0].kind, sent[0].marks()), (1, Kind::Cntl, option));
            assert_eq!((sent[0].sync, sent[0].seq), (before.wrapping_add(1), scene.n(30_010)));
        }
    }
}

/// Before anything was heard a status has nothing to echo: whoever took it for one would take all later ones for older.
#[test]
fn who_has_heard_nothing_asks_with_data() {
    for codec in CODECS {
        for when_delivered in [true, false] {
            let mut scene = Scene::opened(codec, block(Service::Connection));
            scene.send(100);
            let context = scene.context();
            scene.half.call(|engine, now| engine.ask(now, context, when_delivered)).expect("open");
            let sent = scene.half.take();
            assert_eq!((sent.len(), sent[0].kind, sent[0].marks()), (1, Kind::Data, SREQ), "{codec:?}");
            assert_eq!((&sent[0].data, sent[0].seq), (&Some(vec![]), scene.n(100)));
        }
    }
}

//= X-11 test
#[test]
fn a_first_that_nobody_answers_is_repeated_as_it_was() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, ControlBlock { retry_count: 6, ..block(Service::Connection) });
        let first = scene.output(100, |output| Output { eom: true, btag: Some(*b"whatever"), ..output }).remove(0);
        assert_eq!(first.btag, Some(*b"whatever"));
        let mut sync = first.sync;
        // 250 ms, doubled each time, at most to 16 times.
        for wait in [250, 500, 1000, 2000, 4000, 4000] {
            let again = scene.due(wait);
            assert_eq!(again.len(), 1, "{codec:?} {wait}");
            sync = sync.wrapping_add(1);
            assert_eq!(again[0], Got { sync, options: first.options | SREQ, ..first.clone() });
        }
        let diag = scene.due(4000);
        assert_eq!((diag.len(), diag[0].diag), (1, Some((2, 0))), "after retry_count expiries in a row");
        assert_eq!((diag[0].rtn, diag[0].key), (false, scene.its_key));
        assert_eq!(scene.closed(), Some(Err(Failure::Unanswered)));
        assert_eq!(scene.outputs(), [false]);
        assert_eq!(scene.wait(100_000), []);
    }
}

//= X-11 test
//= X-12 test
#[test]
fn an_answer_that_is_missing_is_asked_for_again() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, ControlBlock { retry_count: 3, ..block(Service::Connection) });
        let first = scene.send(100);
        scene.wait(100);
        let status = scene.status(NONE, 100, 100_000, first[0].sync);
        scene.feed(&status);
        let sent = scene.send(100);
        assert!(sent[0].has(SREQ));
        // 100 ms and 4 deviations of 50 ms.
        let cntl = scene.due(300);
        let sync = sent[0].sync.wrapping_add(1);
        assert_eq!((cntl.len(), cntl[0].kind, cntl[0].marks()), (1, Kind::Cntl, SREQ));
        assert_eq!((cntl[0].sync, cntl[0].seq), (sync, scene.n(200)));
        assert_eq!((cntl[0].rseq, cntl[0].echo), (scene.n(0), 1000), "a status as any other");
        assert_eq!(scene.due(600).len(), 1);
        // An old echo does not end the series: it is the third of three.
        let older = scene.status(NONE, 100, 100_000, first[0].sync).sync(1001);
        scene.feed(&older);
        let third = scene.due(1200);
        assert_eq!(third.len(), 1, "{codec:?}");
        let named = scene.status(NONE, 200, 100_000, third[0].sync).sync(1002);
        scene.feed(&named);
        assert_eq!(scene.wait(5000), [], "the series has ended");
        assert_eq!(scene.closed(), None);
    }
}

//= X-12 test
#[test]
fn a_dreq_is_no_measurement_and_not_missing() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::Connection));
        let first = scene.send(100);
        let status = scene.status(NONE, 100, 100_000, first[0].sync);
        scene.wait(10);
        scene.feed(&status);
        let context = scene.context();
        scene.half.call(|engine, now| engine.ask(now, context, true)).expect("open");
        let dreq = scene.half.take();
        assert_eq!(scene.wait(3000), [], "not missing");
        let status = scene.status(NONE, 100, 100_000, dreq[0].sync).sync(1001);
        scene.feed(&status);
        scene.send(10);
        // 10 ms and 4 deviations of 5 ms, not 3 s.
        assert_eq!(scene.due(30).len(), 1);
    }
}

//= X-11 test
#[test]
fn silence_is_looked_into_and_then_given_up() {
    for codec in CODECS {
        let silent = ControlBlock {
            ctimer: millis(60_000),
            ctimeout: millis(10_000),
            retry_count: 100,
            ..block(Service::Connection)
        };
        let mut scene = Scene::connected(codec, silent, 100);
        assert_eq!(scene.wait(50_000), []);
        let status = scene.status(NONE, 100, 100_000, 0);
        let status =
            crate::half::Packet { echo: scene.half.xtp().facts(scene.context()).expect("there").sync, ..status };
        scene.feed(&status);
        let asks = scene.due(60_000);
        assert_eq!((asks.len(), asks[0].kind, asks[0].marks()), (1, Kind::Cntl, SREQ));
        // An answer ends the handshake.
        let status = scene.status(NONE, 100, 100_000, asks[0].sync).sync(1001);
        scene.feed(&status);
        assert_eq!(scene.due(60_000).len(), 1);
        let mut sent = scene.wait(9_990);
        assert!(sent.iter().all(|packet| packet.marks() == SREQ && packet.kind == Kind::Cntl));
        assert_eq!(scene.closed(), None);
        sent = scene.wait(20);
        assert_eq!(sent.last().and_then(|packet| packet.diag), Some((2, 0)), "CTIMEOUT");
        assert_eq!(scene.closed(), Some(Err(Failure::Abandoned)));
    }
}

//= X-17 test
#[test]
fn a_packet_has_bytes_of_one_message_only() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, block(Service::Connection), 10);
        let context = scene.context();
        let mut queue = |n: u64, eom: bool, btag: Option<[u8; 8]>| {
            let buffer = scene.half.memory.add(vec![1; n as usize]);
            let output = Output { eom, btag, ..Output::bytes(buffer, n) };
            let now = scene.half.now;
            scene.half.engine.call(|engine| engine.send(now, context, output)).expect("taken");
            while scene.half.engine.poll_event().is_some() {}
            scene.half.engine.transmit_blocked();
        };
        queue(100, true, Some(*b"messagea"));
        queue(200, false, Some(*b"messageb"));
        queue(300, true, None);
        queue(3000, true, None);
        scene.half.drain();
        let sent = scene.half.take();
        let shape: Vec<_> = sent.iter().map(|packet| (packet.len(), packet.btag, packet.has(EOM))).collect();
        assert_eq!(shape[..2], [(100, Some(*b"messagea"), true), (500, Some(*b"messageb"), true)]);
        assert!(shape[2..shape.len() - 1].iter().all(|(_, btag, eom)| btag.is_none() && !eom));
        assert!(shape[shape.len() - 1].2);
    }
}

//= X-18 test
#[test]
fn lower_sort_values_leave_first() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, ControlBlock { sort_value: 9, ..block(Service::Connection) });
        assert_eq!(scene.send(10)[0].sort, 0, "SORT clear: sort is 0");
        let mut contexts = Vec::new();
        for sort_value in [300, 5, 300, 0, 65_535] {
            let sorted = ControlBlock { mode_flags: Options::SORT, sort_value, ..block(Service::Connection) };
            let context = scene.half.call(|engine, now| engine.open(now, PEER, sorted)).expect("room");
            let buffer = scene.half.memory.add(vec![1; 10]);
            let now = scene.half.now;
            scene.half.engine.call(|engine| engine.send(now, context, Output::message(buffer, 10))).expect("taken");
            while scene.half.engine.poll_event().is_some() {}
            scene.half.engine.transmit_blocked();
            contexts.push(scene.half.xtp().facts(context).expect("there").my_key);
        }
        scene.half.take();
        scene.half.drain();
        let sent = scene.half.take();
        // What was ready before the call was drained has left already, in the order of its call.
        let order: Vec<_> = sent.iter().map(|packet| (packet.sort, packet.key)).collect();
        let mut sorted = order.clone();
        sorted.sort_by_key(|(sort, _)| *sort);
        assert_eq!(order, sorted);
        assert!(sent.iter().all(|packet| packet.has(Options::SORT)));
    }
    let too_large = ControlBlock { sort_value: 65_536, ..block(Service::Connection) };
    let mut scene = Scene::listening(Codec::Xtp40, block(Service::Connection));
    assert!(scene.half.call(|engine, now| engine.open(now, PEER, too_large.clone())).is_err());
    let mut scene = Scene::listening(Codec::Xtp36, block(Service::Connection));
    assert!(scene.half.call(|engine, now| engine.open(now, PEER, too_large)).is_ok());
}

//= X-23 test
#[test]
fn a_window_of_the_controller_bounds_what_is_under_way() {
    for codec in CODECS {
        let config = Config { congestion: ControllerKind::Fixed { window: 10_000 }, ..config(codec) };
        let mut scene = Scene::opened_with(config, block(Service::Connection));
        let sent = scene.send(60_000);
        let total: usize = sent.iter().map(Got::len).sum();
        assert!(total <= 10_000 && total > 7000, "{total}");
        assert!(sent.last().expect("sent").has(SREQ), "who waits for an answer asks for it");
    }
}

//= X-5 test
//= X-11 test
#[test]
fn a_first_that_was_asked_for_alone_is_alone() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::Connection));
        let context = scene.context();
        let buffer = scene.half.memory.add(bytes(0, 3000));
        scene.half.call(|engine, now| {
            engine.connect(now, context).expect("open");
            engine.send(now, context, Output::message(buffer, 3000)).expect("taken");
        });
        let sent = scene.half.take();
        assert_eq!((sent[0].kind, sent[0].len(), sent[0].marks()), (Kind::First, 0, SREQ), "{codec:?}");
        assert!(sent[1..].iter().all(|packet| packet.kind == Kind::Data), "data follow without waiting");
        assert_eq!(sent.iter().map(Got::len).sum::<usize>(), 3000);
        let again = scene.due(250);
        let sync = sent.last().expect("sent").sync.wrapping_add(1);
        assert_eq!(again, [Got { sync, ..sent[0].clone() }], "the same seq and data, and a new sync");
    }
}

//= X-7 test
#[test]
fn a_control_packet_that_asks_does_not_count_among_those_with_data() {
    for codec in CODECS {
        let every = ControlBlock { sreq_every: 4, ..block(Service::Connection) };
        let mut scene = Scene::connected(codec, every, 10);
        let context = scene.context();
        // Two packets that do not ask, for the application goes on queueing; and then one without data, which does.
        scene.half.engine.handle_hold(true);
        let mut sent = scene.output(2800, |output| output);
        assert_eq!((sent.len(), asks(&sent)), (2, vec![]));
        scene.half.call(|engine, now| engine.ask(now, context, false)).expect("open");
        assert_eq!(scene.half.take()[0].marks(), SREQ);
        sent.extend(scene.output(14_000, |output| output));
        assert_eq!(asks(&sent), [3, 7, 11], "{codec:?}");
    }
}

#[test]
fn streams_without_messages_have_no_room_for_tags() {
    for codec in CODECS {
        for has_messages in [true, false] {
            let config = Config { has_messages, datagram_bytes: 1000, ..config(codec) };
            let mut scene = Scene::opened_with(config, block(Service::Connection));
            let sent = scene.output(10_000, |output| output);
            let most = sent[1..].iter().map(Got::len).max().expect("sent");
            let (header, tail) = (codec.header_bytes(), if codec == Codec::Xtp36 { 4 } else { 0 });
            assert_eq!(most, 1000 - header - tail - if has_messages { 8 } else { 0 }, "{codec:?}");
            let context = scene.context();
            let buffer = scene.half.memory.add(bytes(0, 10));
            for (eom, btag) in [(true, None), (false, Some([1; 8]))].into_iter().filter(|_| !has_messages) {
                let output = Output { eom, btag, ..Output::bytes(buffer, 10) };
                let refused = scene.half.call(|engine, now| engine.send(now, context, output));
                assert_eq!(refused, Err(Refused::Unsupported));
            }
        }
    }
}

//= X-11 test
#[test]
fn who_is_patient_leaves_it_to_ctimer_to_give_a_peer_up() {
    for codec in CODECS {
        for is_patient in [false, true] {
            let config = Config { is_patient, ..config(codec) };
            let mut scene = Scene::opened_with(config.clone(), block(Service::Connection));
            scene.send(10);
            let diag = scene.wait(16_000);
            assert_eq!(diag.last().expect("sent").diag, Some((2, 0)), "a peer that was never heard of");
            assert_eq!(scene.closed(), Some(Err(Failure::Unanswered)));
            let mut scene = Scene::opened_with(config, block(Service::Connection));
            let sync = scene.send(10)[0].sync;
            let status = scene.status(NONE, 10, 1000, sync);
            scene.feed(&status);
            scene.send(10);
            scene.wait(2000);
            assert_eq!(scene.closed().is_none(), is_patient, "{codec:?}");
            let asks = scene.wait(67_900);
            assert!(!is_patient || asks.iter().all(|packet| packet.marks() == SREQ && packet.diag.is_none()));
            scene.wait(200);
            assert_eq!(scene.closed(), Some(Err(Failure::Abandoned)));
        }
    }
}

//= X-11 test
#[test]
fn whoever_has_heard_nothing_sends_the_first_again_when_ctimer_is_over() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, ControlBlock { ctimer: millis(100), ..block(Service::Connection) });
        let first = scene.send(100).remove(0);
        let again = scene.wait(2_000);
        assert!(again.len() > 2, "CTIMER, and WTIMER");
        for packet in again {
            assert_eq!((packet.kind, packet.seq, &packet.data), (Kind::First, first.seq, &first.data), "{codec:?}");
        }
    }
}

//= X-19 test
#[test]
fn the_first_comes_again_at_the_rate_that_was_told() {
    for codec in CODECS {
        let slow = ControlBlock { output_rate: 2000, output_burst: 3000, maxdata: 1000, ..block(Service::Connection) };
        let mut scene = Scene::opened(codec, slow);
        assert_eq!(scene.send(3000).iter().map(Got::len).sum::<usize>(), 3000);
        assert_eq!(scene.wait(490), [], "{codec:?}: after 250 ms there is room for 500 bytes");
        let again = scene.wait(100);
        assert_eq!((again.len(), again[0].kind, again[0].len()), (1, Kind::First, 1000));
    }
}

//= X-19 test
#[test]
fn a_context_that_is_programmed_anew_heeds_the_peer_still() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::Connection));
        let sent = scene.send(10);
        let mut status = scene.status(NONE, 10, 1_000_000, sent[0].sync);
        (status.traffic.inrate, status.traffic.inburst) = (50_000, 1400);
        (status.clock.rate, status.clock.burst) = (50_000, 1400);
        scene.feed(&status);
        let context = scene.context();
        for output_rate in [0, 80_000] {
            let block = ControlBlock { output_rate, ..block(Service::Connection) };
            scene.half.call(|engine, now| engine.set_block(now, context, block)).expect("open");
            let before: usize = scene.send(20_000).iter().map(Got::len).sum();
            let sent = before + scene.wait(100).iter().map(Got::len).sum::<usize>();
            assert!((4000..=1400 + 5000 + 1400).contains(&sent), "{codec:?}: {sent} bytes in 100 ms");
        }
    }
}
