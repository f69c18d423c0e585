//! What random worlds and fuzzing have found, in as few packets as it takes.

use crate::scene::*;
use pinnace_core::ControllerKind;
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Codec, Config, ControlBlock, Event, Failure, Options, Output, Refused, Service, Services};

//= X-5 test
#[test]
fn a_key_that_cannot_be_told_is_not_told_for_ever() {
    for codec in CODECS {
        // More to send than an address that is not proved gets, and a gap, which leaves an ECNTL no room for the key.
        let config = Config { validates: true, ..config(codec) };
        let mut scene = Scene::listening_for(config, block(Service::Connection), Services::ALL);
        scene.accept(NONE, 10);
        let mut gap = scene.data(NONE, 20, 10);
        (gap.rtn, gap.key) = (false, KEY);
        assert_eq!(scene.feed(&gap), []);
        let sent = scene.send(100_000);
        let shape: Vec<_> = sent.iter().map(|packet| (packet.kind, packet.len())).collect();
        assert!(sent.len() < 5, "{shape:?}");
    }
}

//= X-15 test
#[test]
fn a_stream_whose_every_byte_was_lost_ends_with_a_hole() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::IsoStream));
        let sync = scene.send(100)[0].sync;
        let lossy = Options::NOERR | Options::NOFLOW;
        let heard = scene.status(lossy, 100, 1000, sync);
        assert_eq!(scene.feed(&heard), []);
        let mut end = scene.status(all(&[lossy, WCLOSE, SREQ]), 100, 1000, sync);
        (end.sync, end.seq) = (1001, scene.n(700));
        let answers = scene.feed(&end);
        assert_eq!((answers.len(), answers[0].rseq, answers[0].marks()), (1, scene.n(700), RCLOSE), "{codec:?}");
        let context = scene.context();
        assert_eq!(scene.half.xtp().holes(context, 700), [(0, 700)]);
        assert!(scene.half.xtp().readable(context).is_some_and(|readable| readable.is_end && readable.len == 700));
    }
}

//= X-15 test
#[test]
fn nobody_is_full_of_what_has_come_back() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, ControlBlock { wbufsize: 1000, ..block(Service::IsoStream) }, 100);
        let context = scene.context();
        for _ in 0..10 {
            let buffer = scene.half.memory.add(vec![1; 900]);
            let taken = scene.half.call(|engine, now| engine.send(now, context, Output::message(buffer, 900)));
            assert!(taken.is_ok(), "{taken:?}: all before it has left");
        }
        let mut scene = Scene::connected(codec, ControlBlock { wbufsize: 1000, ..block(Service::Connection) }, 100);
        let context = scene.context();
        scene.send(900);
        let buffer = scene.half.memory.add(vec![1; 900]);
        let full = scene.half.call(|engine, now| engine.send(now, context, Output::message(buffer, 900)));
        assert_eq!(full, Err(Refused::Full), "what the peer may want again is kept");
    }
}

#[test]
fn whoever_was_never_heard_of_is_told_nothing() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::BulkData));
        let context = scene.context();
        scene.send(10);
        let buffer = scene.half.memory.add(vec![0; 100]);
        scene.half.call(|engine, now| engine.post(now, context, buffer, 0, 100)).expect("posted");
        assert_eq!(scene.consume(0), []);
        assert_eq!(scene.due(250)[0].kind, Kind::First);
    }
}

//= X-20 test
#[test]
fn nobody_waits_for_a_delivery_that_will_not_be() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 0);
        let data = scene.data(DREQ | WCLOSE | RCLOSE, 0, 100).sync(1001);
        let sent = scene.feed(&data);
        assert!(sent.last().is_some_and(|packet| packet.has(END)), "{codec:?} {sent:?}");
        assert_eq!(scene.closed(), Some(Ok(())));
        let context = scene.context();
        scene.half.call(|engine, now| engine.release(now, context));
        scene.wait(31_000);
        assert_eq!(scene.half.xtp().contexts(), 0);
    }
}

#[test]
fn a_datagram_fills_a_packet_and_is_never_cut_in_two() {
    for (codec, btag) in CODECS.into_iter().flat_map(|codec| [(codec, None), (codec, Some([1; 8]))]) {
        for datagram_bytes in [200, 300, 576, 1472] {
            let config = Config { datagram_bytes, ..config(codec) };
            let mut scene = Scene::opened_with(config, block(Service::AckDgram));
            let context = scene.context();
            let buffer = scene.half.memory.add(vec![0; 2000]);
            let large = Output { btag, ..Output::message(buffer, 2000) };
            let refused = scene.half.call(|engine, now| engine.send(now, context, large));
            let Err(Refused::TooLarge { most }) = refused else { panic!("{refused:?}") };
            let sent = scene.output(most.into(), |output| Output { eom: true, btag, ..output });
            assert_eq!((sent.len(), sent[0].len() as u32), (1, most), "{codec:?} {datagram_bytes}");
            // Header and address segment (and traffic specifier, or trailer); xtp36 has whole words of data.
            let rest = if codec == Codec::Xtp40 { 32 + 16 + 24 } else { 40 + 16 + 4 } + btag.map_or(0, |tag| tag.len());
            let room = (datagram_bytes - rest).min(1400);
            let fits = if codec == Codec::Xtp40 { room } else { room / 4 * 4 };
            assert_eq!(most as usize, fits, "{codec:?} {datagram_bytes} {btag:?}");
        }
    }
}

//= X-20 test
#[test]
fn an_acknowledged_datagram_tells_of_no_context() {
    let mut scene = Scene::listening(Codec::Xtp40, block(Service::Connection));
    let mut first = scene.first(all(&[EOM, WCLOSE, RCLOSE, SREQ]), 10);
    first.service = 2;
    scene.feed(&first);
    scene.half.release_datagrams();
    scene.wait(40_000);
    assert!(scene.half.events.iter().all(|event| matches!(event, Event::Datagram { .. })), "{:?}", scene.half.events);
    assert_eq!(scene.half.xtp().contexts(), 0);
}

//= X-23 test
#[test]
fn the_smallest_window_grows_again() {
    for codec in CODECS {
        // A FIRST has less room than DATA: the unit of the controller is that of DATA.
        let config = Config { datagram_bytes: 300, congestion: ControllerKind::Cubic, ..config(codec) };
        let large = ControlBlock { maxdata: 8000, wbufsize: 1 << 24, ..block(Service::Connection) };
        let mut scene = Scene::opened_with(config, large);
        let mut echo = scene.send(4_000_000).last().expect("sent").sync;
        let mut most = 0;
        scene.wait(60);
        for round in 0..200 {
            let facts = scene.half.xtp().facts(scene.context()).expect("there");
            let (acked, sent) = (scene.at(facts.acked), scene.at(facts.sent));
            // For a while something is lost each time.
            let is_lost = round < 40 && round % 2 == 0 && sent > acked + 1;
            let mut status =
                if is_lost { scene.gaps(acked, &[(acked + 1, sent)], echo) } else { scene.status(NONE, sent, 0, echo) };
            (status.sync, status.alloc) = (1001 + round, scene.n(sent + 500_000));
            let mut packets = scene.feed(&status);
            packets.extend(scene.wait(40 + 40 * u64::from(round % 3 == 0)));
            most = packets.iter().filter(|packet| packet.data.is_some()).count();
            echo = packets.last().map_or(echo, |packet| packet.sync);
        }
        assert!(most > 5, "{codec:?}: {most} packets a round trip");
    }
}

//= X-15 test
#[test]
fn a_stream_with_holes_is_not_taken_for_one_of_bytes_alone() {
    for codec in CODECS {
        let config = Config { has_messages: false, ..config(codec) };
        let mut scene = Scene::opened_with(config, block(Service::Connection));
        let sent = scene.output(100, |output| output);
        let status = scene.status(Options::NOERR, 100, 100_000, sent[0].sync);
        let answers = scene.feed(&status);
        assert_eq!((answers.len(), answers[0].diag), (1, Some((6, 12))), "{codec:?}");
        assert_eq!(scene.closed(), Some(Err(Failure::Violation)), "{codec:?}");
    }
}
