//! What is lost, and what is repeated (3.3, 3.10).

use crate::half::Got;
use crate::scene::*;
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{ControlBlock, Output, Service};

/// A context that has sent ten packets of a hundred bytes, the last of which asks.
fn ten(codec: pinnace_xtp::Codec, go_back_n: bool) -> (Scene, Vec<Got>) {
    let block = ControlBlock { maxdata: 100, sreq_every: 0, go_back_n, ..block(Service::Connection) };
    let mut scene = Scene::opened(codec, block);
    let sent = scene.output(1000, |output| Output { eom: true, btag: Some(*b"the mark"), ..output });
    assert_eq!(sent.len(), 10);
    (scene, sent)
}

fn lows(scene: &Scene, sent: &[Got]) -> Vec<u64> {
    sent.iter().filter(|packet| packet.data.is_some()).map(|packet| scene.at(packet.seq)).collect()
}

//= X-13 test
#[test]
fn what_was_overtaken_is_lost_and_nothing_else_is_repeated() {
    for codec in CODECS {
        let (mut scene, sent) = ten(codec, false);
        let echo = sent[9].sync;
        // Unasked, with the sync that the first nine have: only what lies before an acknowledged byte is lost.
        let status = scene.gaps(100, &[(200, 300), (500, 600)], sent[0].sync);
        let again = scene.feed(&status);
        assert_eq!(lows(&scene, &again), [100, 300, 400]);
        for packet in &again {
            assert_eq!((packet.kind, packet.len(), packet.btag, packet.has(EOM)), (Kind::Data, 100, None, false));
            assert_eq!(packet.data, Some(bytes(scene.at(packet.seq), 100)));
        }
        // The same status once more says nothing new.
        let again = scene.feed(&status);
        assert_eq!(lows(&scene, &again), []);
        // The answer to the last packet: what was sent before it and has not come is lost; what was repeated since is not.
        let status = scene.gaps(100, &[(200, 300), (500, 600), (800, 900)], echo).sync(1001);
        let again = scene.feed(&status);
        assert_eq!(lows(&scene, &again), [600, 700], "900 is the asking packet itself");
        let last = again.last().expect("sent");
        assert!(last.has(SREQ), "the last packet it has to send");
    }
}

//= X-10 test
#[test]
fn an_older_echo_only_raises_rseq_and_alloc() {
    for codec in CODECS {
        let (mut scene, sent) = ten(codec, false);
        let status = scene.status(NONE, 100, 100_000, sent[9].sync);
        let again = scene.feed(&status);
        assert_eq!(lows(&scene, &again), [100, 200, 300, 400, 500, 600, 700, 800]);
        let older = scene.gaps(200, &[(900, 1000)], sent[0].sync).sync(1001);
        let again = scene.feed(&older);
        assert_eq!(lows(&scene, &again), []);
        let facts = scene.half.xtp().facts(scene.context()).expect("there");
        assert_eq!(scene.at(facts.acked), 200);
    }
}

#[test]
fn the_ends_of_a_message_stay_where_they_were() {
    for codec in CODECS {
        let (mut scene, sent) = ten(codec, false);
        assert_eq!((sent[0].btag, sent[9].has(EOM)), (Some(*b"the mark"), true));
        // Everything is lost, and packets become smaller: BTAG on the first part, EOM on the last.
        let heard = scene.status(NONE, 0, 100_000, sent[0].sync);
        assert_eq!(scene.feed(&heard), []);
        let asks = scene.due(250);
        let mut status = scene.status(NONE, 0, 100_000, asks[0].sync);
        status.traffic.maxdata = 30;
        let again = scene.feed(&status);
        let again: Vec<_> = again.iter().filter(|packet| packet.data.is_some()).collect();
        let is_finer = codec == pinnace_xtp::Codec::Xtp40;
        assert_eq!(again[0].len(), if is_finer { 30 } else { 100 });
        assert!(again.iter().all(|packet| (packet.btag.is_some()) == (packet.seq == scene.n(0))));
        let ends = |packet: &Got| scene.at(packet.seq) + packet.len() as u64;
        assert!(again.iter().all(|packet| packet.has(EOM) == (ends(packet) == 1000)));
        assert!(
            again.iter().all(|packet| scene.at(packet.seq) / 100 == (ends(packet) - 1) / 100),
            "the same cut or finer"
        );
        assert_eq!(again.iter().map(|packet| packet.len()).sum::<usize>(), 1000);
    }
}

//= X-13 test
#[test]
fn go_back_n_repeats_everything_from_the_first_lost_byte() {
    for codec in CODECS {
        let (mut scene, sent) = ten(codec, true);
        let status = scene.status(NONE, 300, 100_000, sent[9].sync);
        let again = scene.feed(&status);
        assert_eq!(lows(&scene, &again), [300, 400, 500, 600, 700, 800, 900]);
        assert!(again.last().expect("sent").has(EOM | SREQ));
    }
}

#[test]
fn an_expiry_finds_what_was_lost() {
    for codec in CODECS {
        let (mut scene, sent) = ten(codec, false);
        let status = scene.status(NONE, 100, 100_000, sent[0].sync);
        let again = scene.feed(&status);
        assert_eq!(lows(&scene, &again), [], "it speaks of a time before");
        let asks = scene.due(250);
        assert_eq!((asks.len(), asks[0].kind, asks[0].marks()), (1, Kind::Cntl, SREQ));
        let status = scene.status(NONE, 100, 100_000, asks[0].sync).sync(1001);
        let again = scene.feed(&status);
        assert_eq!(lows(&scene, &again), [100, 200, 300, 400, 500, 600, 700, 800, 900]);
    }
}

#[test]
fn what_was_never_sent_cannot_be_acknowledged() {
    for codec in CODECS {
        let (mut scene, sent) = ten(codec, false);
        for (rseq, spans) in [(1001, &[][..]), (100, &[(500, 1001)]), (u64::MAX, &[]), (1 << 30, &[])] {
            let mut status = scene.gaps(rseq, spans, sent[9].sync).sync(1001);
            if spans.is_empty() {
                status.kind = Kind::Cntl;
            }
            status.options = RCLOSE | WCLOSE | END;
            assert_eq!(scene.feed(&status), []);
            assert_eq!(scene.closed(), None);
            let facts = scene.half.xtp().facts(scene.context()).expect("there");
            assert_eq!(scene.at(facts.acked), 0);
        }
    }
}

//= X-11 test
#[test]
fn statuses_that_answer_nothing_do_not_put_off_wtimer() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 100);
        let lost = scene.send(100);
        scene.wait(40);
        // The peer has bytes and no room, and keeps asking. Our answers tell it the sync of what was lost.
        let mut asks = Vec::new();
        for count in 0..30 {
            let status = scene.status(SREQ, 0, 1_000_000, lost[0].sync).sync(1001 + count);
            assert_eq!(scene.feed(&status).len(), 1, "it is answered");
            asks.extend(scene.wait(11));
        }
        // 40 ms and 4 deviations of 20 ms.
        assert!(!asks.is_empty(), "{codec:?}");
        assert!(asks.iter().all(|asks| (asks.kind, asks.marks()) == (Kind::Cntl, SREQ)), "{codec:?} {asks:?}");
        let status = scene.status(NONE, 0, 1_000_000, asks[0].sync).sync(1031);
        let again = scene.feed(&status);
        assert_eq!((again.len(), again[0].seq, again[0].len()), (1, scene.n(0), 100), "{codec:?}");
    }
}

//= X-11 test
//= X-20 test
#[test]
fn a_stream_with_rclose_does_not_put_off_wtimer() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, block(Service::Connection), 100);
        scene.output(100, |output| Output { is_last: true, ..output });
        // It has come whole, but the status that says so is lost; the peer goes on itself.
        let mut asks = Vec::new();
        for count in 0..20 {
            let data = scene.data(RCLOSE, 10 * u64::from(count), 10).sync(1001 + count);
            asks.extend(scene.feed(&data));
            asks.extend(scene.wait(5));
        }
        assert!(!asks.is_empty(), "{codec:?}");
        assert!(asks.iter().all(|asks| (asks.kind, asks.marks()) == (Kind::Cntl, WCLOSE | SREQ)), "{codec:?} {asks:?}");
    }
}
