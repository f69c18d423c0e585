//! Keys and DIAG 3 (3.7).

use crate::scene::*;
use pinnace_core::Address;
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Close, Codec, Failure, Options, Output, Service};

//= X-2 test
//= X-6 test
#[test]
fn a_responder_takes_both_forms_of_the_key() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 0);
        for round in 0..3 {
            for (rtn, key) in [(false, KEY), (true, scene.its_key)] {
                let mut packet = scene.status(SREQ, 0, 1000, 0).sync(2000 + round);
                (packet.rtn, packet.key) = (rtn, key);
                // Echoes of what was never asked are no matter here.
                packet.echo = scene.half.xtp().facts(scene.context()).expect("there").sync;
                let answers = scene.feed(&packet);
                assert_eq!(answers.len(), 1, "{rtn}");
                // TCNTL until its own key was used, CNTL from then on; xtp36 tells the key always.
                let is_used = rtn || round > 0;
                assert_eq!(answers[0].kind, if is_used { Kind::Cntl } else { tcntl(codec) });
                assert_eq!((answers[0].rtn, answers[0].key), (true, KEY), "FIRST's key with RTN");
                assert_eq!(answers[0].xkey, if is_used && codec == Codec::Xtp40 { 0 } else { scene.its_key });
            }
        }
    }
}

//= X-7 test
//= X-11 test
#[test]
fn a_question_is_a_cntl_although_our_key_was_not_used() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 0);
        let context = scene.context();
        for when_delivered in [false, true] {
            scene.half.call(|engine, now| engine.ask(now, context, when_delivered)).expect("open");
            let asks = scene.half.take();
            let mark = if when_delivered { DREQ } else { SREQ };
            assert_eq!((asks.len(), asks[0].kind, asks[0].marks()), (1, Kind::Cntl, mark), "{codec:?}");
        }
        let wclose = scene.close(Close::Full);
        assert_eq!((wclose.len(), wclose[0].kind, wclose[0].marks()), (1, Kind::Cntl, WCLOSE | SREQ), "{codec:?}");
        let expiry = scene.due(250);
        assert_eq!((expiry.len(), expiry[0].kind, expiry[0].marks()), (1, Kind::Cntl, WCLOSE | SREQ), "{codec:?}");
        // An answer still tells the key.
        let asks = scene.first(NONE, 0).sync(1001);
        let answers = scene.feed(&asks);
        assert_eq!((answers.len(), answers[0].kind, answers[0].xkey), (1, tcntl(codec), scene.its_key), "{codec:?}");
    }
}

//= X-11 test
//= X-21 test
#[test]
fn a_response_that_was_lost_is_asked_about_in_a_way_that_every_peer_answers() {
    for codec in CODECS {
        let mut scene = Scene::listening(codec, block(Service::Transaction));
        let mut first = scene.first(all(&[EOM, WCLOSE]), 100);
        first.service = 3;
        assert_eq!(scene.feed(&first), []);
        scene.learn();
        let lost = scene.output(100, |output| Output { eom: true, is_last: true, ..output });
        assert_eq!(lost.len(), 1);
        // Its WTIMER repeats the FIRST; the answer ends its series.
        let again = scene.feed(&first.clone().with(SREQ).sync(1001));
        assert_eq!((again.len(), again[0].kind, again[0].marks()), (1, tcntl(codec), all(&[RCLOSE, WCLOSE])));
        let asks = scene.due(250);
        let marks = all(&[RCLOSE, WCLOSE, SREQ]);
        assert_eq!((asks.len(), asks[0].kind, asks[0].marks()), (1, Kind::Cntl, marks), "an answer never asks");
        let status = scene.status(WCLOSE, 0, 100_000, asks[0].sync).sync(1001);
        let again = scene.feed(&status);
        assert_eq!((again.len(), &again[0].data), (1, &lost[0].data), "{codec:?}");
    }
}

//= X-6 test
#[test]
fn an_initiator_uses_its_own_key_until_it_has_another() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::Connection));
        for packet in scene.send(5000).iter().chain(&scene.send(10)) {
            assert_eq!((packet.rtn, packet.key), (false, scene.its_key), "{:?}", packet.kind);
        }
        let sync = scene.half.xtp().facts(scene.context()).expect("there").sync;
        let mut status = scene.status(NONE, 5010, 100_000, sync);
        // The field has RTN clear; receivers mask it.
        status.xkey |= if codec == Codec::Xtp40 { 1 << 63 } else { 1 << 31 };
        scene.feed(&status);
        let sent = scene.send(10);
        assert_eq!((sent[0].kind, sent[0].rtn, sent[0].key), (Kind::Data, true, XKEY));
        // What it answers has no key of its own in it.
        let asks = scene.status(SREQ, 5010, 100_000, sync).sync(1001);
        let answers = scene.feed(&asks);
        assert_eq!((answers[0].kind, answers[0].xkey), (Kind::Cntl, 0), "an initiator sends no TCNTL");
    }
}

//= X-2 test
#[test]
fn unknown_keys_are_told_with_rtn_inverted() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 10);
        let diag = |scene: &mut Scene, source: Address, rtn: bool, key: u64, options: Options| {
            let mut packet = scene.data(options, 10, 10).sync(4321);
            (packet.rtn, packet.key) = (rtn, key);
            scene.half.feed(source, &packet.bytes());
            let answers = scene.half.take();
            for answer in &answers {
                assert_eq!((answer.rtn, answer.key, answer.diag), (!rtn, key, Some((3, 0))));
                assert_eq!((answer.sync, answer.seq, answer.options), (4321, scene.n(10), NONE));
            }
            answers.len()
        };
        let its = scene.its_key;
        let instance = if codec == Codec::Xtp40 { 1 << 32 } else { 1 << 20 };
        assert_eq!(diag(&mut scene, PEER, true, its ^ instance, NONE), 1, "a dead instance");
        assert_eq!(diag(&mut scene, PEER, true, its ^ 1, NONE), 1, "an index that is not in use");
        assert_eq!(diag(&mut scene, PEER, false, KEY + 1, NONE), 1);
        assert_eq!(diag(&mut scene, Address::Node(3), true, its, NONE), 1, "from elsewhere");
        assert_eq!(diag(&mut scene, Address::Node(3), false, KEY, NONE), 1, "from elsewhere");
        assert_eq!(diag(&mut scene, PEER, false, its, NONE), 1, "our key is not the peer's");
        assert_eq!(diag(&mut scene, PEER, true, its ^ instance, END), 0, "END is never answered so");
        if codec == Codec::Xtp40 {
            assert_eq!(diag(&mut scene, PEER, true, its ^ instance, Options::MULTI), 0);
        }
        let stray = scene.diag(false, KEY + 1, 3, 0);
        assert_eq!(scene.feed(&stray), [], "a DIAG that finds none is dropped");
        let facts = scene.half.xtp().facts(scene.context()).expect("there");
        assert_eq!(scene.at(facts.rseq), 10, "none of that has reached the context");
    }
}

#[test]
fn invalid_context_decides_nothing_before_the_key_is_known() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::Connection));
        scene.send(100);
        let diag = scene.diag(true, scene.its_key, 3, 0);
        assert_eq!(scene.feed(&diag), []);
        assert_eq!(scene.closed(), None);
        let again = scene.due(250);
        assert_eq!((again.len(), again[0].kind), (1, Kind::First), "WTIMER goes on");
    }
}

#[test]
fn invalid_context_ends_it_afterwards() {
    for codec in CODECS {
        // In the middle it is an error.
        let mut scene = Scene::connected(codec, block(Service::Connection), 100);
        scene.send(10);
        let diag = scene.diag(false, XKEY, 3, 0);
        assert_eq!(scene.feed(&diag), []);
        assert_eq!(scene.closed(), Some(Err(Failure::Unknown)));
        assert_eq!(scene.outputs(), [true, false]);
        // While only the end is waited for, the context is closed.
        let mut scene = Scene::connected(codec, block(Service::Connection), 100);
        let wclose = scene.close(Close::Full);
        let last = scene.status(RCLOSE | WCLOSE, 100, 100_000, wclose[0].sync).sync(1001);
        let mut last = last;
        last.options = WCLOSE;
        scene.feed(&last);
        let diag = scene.diag(false, XKEY, 3, 0);
        scene.feed(&diag);
        assert_eq!(scene.closed(), Some(Ok(())));
        // A responder is found by its own key.
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 10);
        let diag = scene.diag(true, scene.its_key, 3, 0);
        scene.feed(&diag);
        assert_eq!(scene.closed(), None, "RTN set decides nothing");
        let diag = scene.diag(false, KEY, 3, 0);
        scene.feed(&diag);
        assert_eq!(scene.closed(), Some(Err(Failure::Unknown)));
    }
}

//= X-2 test
#[test]
fn no_second_sees_more_than_a_hundred_diags() {
    for codec in CODECS {
        let mut scene = Scene::listening(codec, block(Service::Connection));
        let mut times = Vec::new();
        for number in 0..5000_u64 {
            let mut packet = scene.data(NONE, 0, 10);
            (packet.key, packet.rtn) = (1000 + number, number % 2 == 0);
            times.extend(scene.feed(&packet).iter().map(|_| scene.half.now));
            scene.half.advance(core::time::Duration::from_micros(700));
        }
        assert!(times.len() >= 300, "{}", times.len());
        assert!(times.windows(101).all(|window| window[100].since(window[0]) >= millis(1000)));
    }
}

//= X-20 test
#[test]
fn invalid_context_closes_who_wants_nothing_of_the_peer() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::Connection));
        scene.send(100);
        let close = scene.close(Close::Abbreviated);
        let status = scene.status(RCLOSE, 100, 100_000, close[0].sync);
        scene.feed(&status);
        let diag = scene.diag(false, XKEY, 3, 0);
        assert_eq!(scene.feed(&diag), []);
        assert_eq!(
            (scene.closed(), scene.outputs()),
            (Some(Ok(())), vec![true]),
            "{codec:?}: it waited for the end alone"
        );
    }
}

//= X-6 test
#[test]
fn a_first_with_the_responder_s_key_is_a_repetition() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 100);
        let mut first = scene.first(SREQ, 150).sync(1001);
        (first.rtn, first.key) = (true, scene.its_key);
        let answers = scene.feed(&first);
        assert_eq!(answers.len(), 1, "{codec:?}");
        assert_eq!((answers[0].kind, answers[0].echo, answers[0].rseq), (Kind::Cntl, 1001, scene.n(150)));
        let mut other = first.clone().sync(1002);
        other.seq = scene.n(1);
        assert_eq!(scene.feed(&other), [], "another start");
        first.key ^= 1;
        let answers = scene.feed(&first);
        assert_eq!((answers.len(), answers[0].diag, answers[0].rtn), (1, Some((3, 0)), false));
        assert_eq!(scene.half.xtp().contexts(), 1);
    }
}
