//! FIRST: who listens, what is answered, what is refused (3.1, 3.4, 3.7, 3.9, 3.11, 3.12, section 1).

use crate::half::Got;
use crate::scene::*;
use pinnace_core::{Address, Time};
use pinnace_wire::xtp::{self, Kind, Traffic};
use pinnace_xtp::{Close, Codec, Config, ControlBlock, Event, Failure, HostPair, Options, Service, Services};

//= X-5 test
//= X-7 test
#[test]
fn a_first_is_answered_as_if_it_asked() {
    for codec in CODECS {
        for (options, n) in [(NONE, 150), (SREQ, 150), (NONE, 0)] {
            let mut scene = Scene::listening(codec, block(Service::Connection));
            let answer = scene.accept(options, n);
            assert_eq!((answer.kind, answer.rtn, answer.key), (tcntl(codec), true, KEY));
            assert_eq!((answer.rseq, answer.alloc), (scene.n(n), scene.n(262_144)), "{codec:?}");
            assert_eq!((answer.echo, answer.seq, answer.marks()), (1000, scene.n(0), NONE));
            assert_eq!((answer.xkey, answer.hseq), (scene.its_key, scene.n(n)));
            if codec == Codec::Xtp40 {
                let traffic = answer.traffic.expect("a TCNTL has a traffic specifier");
                assert_eq!((traffic.service, traffic.maxdata), (4, 1400));
                assert_eq!([traffic.inrate, traffic.inburst, traffic.outrate, traffic.outburst], [0; 4]);
            }
            assert_eq!(scene.wait(200), [], "nothing else");
        }
    }
}

//= X-10 test
#[test]
fn the_same_start_makes_a_repetition_and_another_is_dropped() {
    for codec in CODECS {
        let mut scene = Scene::accepted(codec, block(Service::Connection), NONE, 150);
        let mut first = scene.first(SREQ, 150).sync(1001);
        let answers = scene.feed(&first);
        assert_eq!(answers.len(), 1);
        assert_eq!((answers[0].kind, answers[0].echo, answers[0].rseq), (tcntl(codec), 1001, scene.n(150)));
        first.seq = scene.n(1);
        assert_eq!(scene.feed(&first.clone().sync(1002)), []);
        assert_eq!(scene.half.xtp().contexts(), 1);
        // The same key from elsewhere is somebody else's.
        scene.half.feed(Address::Node(10), &first.bytes());
        assert_eq!(scene.half.xtp().contexts(), 2);
    }
}

fn only_diag(answers: &[Got], first_sync: u32, seq: u64) -> (u32, u32) {
    assert_eq!(answers.len(), 1, "{answers:?}");
    let diag = &answers[0];
    assert_eq!((diag.kind, diag.rtn, diag.key, diag.options), (Kind::Diag, true, KEY, NONE));
    assert_eq!((diag.sync, diag.seq), (first_sync, seq), "copied");
    diag.diag.expect("a DIAG")
}

//= X-2 test
//= X-5 test
#[test]
fn what_is_not_offered_is_refused() {
    for codec in CODECS {
        let no_bulk = Services::NONE.with(Service::Connection).with(Service::AckDgram);
        let mut scene = Scene::listening_for(config(codec), block(Service::Connection), no_bulk);
        let refused = |scene: &mut Scene, change: &dyn Fn(&mut crate::half::Packet)| {
            let mut first = scene.first(EOM, 20);
            change(&mut first);
            let (sync, seq) = (first.sync, first.seq);
            only_diag(&scene.feed(&first), sync, seq)
        };
        assert_eq!(refused(&mut scene, &|first| first.port = 8), (1, 1), "nobody listens there");
        assert_eq!(refused(&mut scene, &|first| first.service = 3), (1, 8), "not offered");
        assert_eq!(refused(&mut scene, &|first| first.service = 9), (1, 8), "not known");
        for multicast in [5, 6] {
            assert_eq!(refused(&mut scene, &|first| first.service = multicast), (1, 8), "without MULTI, to one");
        }
        assert_eq!(refused(&mut scene, &|first| first.options = Options::RES), (1, 2), "no posted buffers here");
        let with_res = |first: &mut crate::half::Packet| (first.service, first.options) = (2, Options::RES);
        assert_eq!(refused(&mut scene, &with_res), (1, 2));
        let mut all = Scene::listening(codec, block(Service::Connection));
        let with_holes = |first: &mut crate::half::Packet| first.options = Options::RES | Options::NOERR;
        assert_eq!(refused(&mut all, &with_holes), (1, 2), "of posted areas nobody can be told the holes");
        // An unacknowledged datagram is never answered, nor is END.
        let mut first = scene.first(EOM, 20);
        first.service = 1;
        assert_eq!(scene.feed(&first), []);
        first.port = 8;
        assert_eq!(scene.feed(&first), []);
        let mut first = scene.first(END, 20);
        first.port = 8;
        assert_eq!(scene.feed(&first), []);
        assert_eq!(scene.half.xtp().contexts(), 0);
        assert!(scene.half.events.is_empty(), "no data are delivered");
    }
}

//= X-5 test
#[test]
fn formats_that_nobody_knows_are_refused() {
    for codec in CODECS {
        let mut scene = Scene::listening(codec, block(Service::Connection));
        let first = scene.first(NONE, 20);
        let (mut address, mut traffic) = (first.bytes(), first.bytes());
        let body = codec.header_bytes();
        address[body + 3] = 9;
        crate::half::fill(codec, &mut address);
        scene.half.feed(PEER, &address);
        assert_eq!(only_diag(&scene.half.take(), 1000, scene.n(0)), (1, 3), "{codec:?}");
        if codec == Codec::Xtp40 {
            traffic[body + 16 + 3] = 9;
            crate::half::fill(codec, &mut traffic);
            scene.half.feed(PEER, &traffic);
            assert_eq!(only_diag(&scene.half.take(), 1000, scene.n(0)), (1, 5));
        }
    }
}

//= X-5 test
#[test]
fn an_address_that_nobody_knows_is_refused_as_such_however_long_it_is() {
    let codec = Codec::Xtp40;
    let mut scene = Scene::listening(codec, block(Service::Connection));
    let known = scene.first(NONE, 20).bytes();
    let body = codec.header_bytes();
    // Behind the longest of these the traffic specifier lies beyond what is read of a FIRST.
    for alen in [4_usize, 40, 64, 200] {
        let (header, segment) = known.split_at(body);
        let mut packet = [header, &vec![0; alen], &segment[16..]].concat();
        let dlen = packet.len() - body;
        packet[12..16].copy_from_slice(&(dlen as u32).to_be_bytes());
        packet[body..body + 4].copy_from_slice(&[0, alen as u8, 1, 9]);
        crate::half::fill(codec, &mut packet);
        assert_eq!(only_diag(&scene.feed_bytes(&packet), 1000, scene.n(0)), (1, 3), "{alen}");
    }
}

/// A JCNTL that asks, with these formats of its address and of its traffic specifier.
fn join(formats: (u8, u8)) -> Vec<u8> {
    let codec = Codec::Xtp40;
    let key = xtp::Key { rtn: true, value: KEY };
    let header = xtp::Header { codec, key, options: SREQ, kind: Kind::Jcntl, sort: 0, sync: 1000, seq: 5, dseq: 0 };
    let spans = xtp::Spans::EMPTY;
    let status = xtp::Status { rseq: 0, alloc: 0, echo: 0, spans, xkey: 0, traffic: None, clock: None, hseq: 0 };
    let mut packet = Vec::new();
    xtp::join(&header, &status, &block(Service::Multicast).address_segment, &Traffic::default(), &mut packet);
    let address = codec.header_bytes() + 32;
    (packet[address + 3], packet[address + 16 + 3]) = formats;
    crate::half::fill(codec, &mut packet);
    packet
}

//= X-22 test
#[test]
fn who_joins_in_a_format_that_nobody_knows_is_told_which() {
    for has_groups in [true, false] {
        let config = Config { has_groups, ..config(Codec::Xtp40) };
        let mut scene = Scene::listening_for(config, block(Service::Connection), Services::ALL);
        for (formats, value) in [((9, 1), 3), ((1, 9), 5), ((9, 9), 3)] {
            let answers = scene.feed_bytes(&join(formats));
            let told: Vec<_> = answers.iter().map(|diag| (diag.diag, diag.rtn, diag.key, diag.seq)).collect();
            // Without groups there is no such packet.
            let expected = has_groups.then_some((Some((1, value)), false, KEY, 5));
            assert_eq!(told, Vec::from_iter(expected), "{formats:?}");
        }
        assert_eq!(scene.half.xtp().counters().packets_malformed, if has_groups { 0 } else { 3 });
    }
}

#[test]
fn an_answer_in_a_format_that_nobody_knows_is_refused_and_not_used() {
    let codec = Codec::Xtp40;
    let mut scene = Scene::opened(codec, block(Service::Connection));
    let first = scene.send(100).remove(0);
    let status = scene.status(NONE, 50, 1000, first.sync).bytes();
    let mut unknown = status.clone();
    // Of the traffic specifier behind rseq, alloc, echo, a reserved field and xkey.
    unknown[codec.header_bytes() + 32 + 3] = 9;
    crate::half::fill(codec, &mut unknown);
    scene.half.feed(PEER, &unknown);
    let [diag] = &scene.half.take()[..] else { panic!("one answer") };
    assert_eq!((diag.kind, diag.rtn, diag.key, diag.diag), (Kind::Diag, false, scene.its_key, Some((1, 5))));
    let acked = |scene: &Scene| scene.half.xtp().facts(scene.context()).map(|facts| facts.acked);
    assert_eq!(acked(&scene), Some(scene.n(0)));
    scene.half.feed(PEER, &status);
    assert_eq!(acked(&scene), Some(scene.n(50)));
}

//= X-3 test
//= X-5 test
#[test]
fn a_listener_matches_port_and_host() {
    for codec in CODECS {
        let config = Config { local: Some([10, 0, 0, 1].into()), ..config(codec) };
        let mut scene = Scene::listening_for(config, block(Service::Connection), Services::ALL);
        let first = scene.first(NONE, 20);
        let at = codec.header_bytes() + 4;
        for (host, is_ours) in [([10, 0, 0, 2], false), ([10, 0, 0, 1], true), ([0; 4], true)] {
            let mut packet = first.bytes();
            packet[at..at + 4].copy_from_slice(&host);
            crate::half::fill(codec, &mut packet);
            scene.half.feed(Address::Node(u32::from(host[3])), &packet);
            let answers = scene.half.take();
            assert_eq!(answers[0].diag, (!is_ours).then_some((1, 1)), "{host:?}");
        }
        let told = scene.half.events.iter().find_map(|event| match event {
            Event::Accepted { peer, address, .. } => Some((*peer, *address)),
            _ => None,
        });
        let (peer, address) = told.expect("accepted");
        assert_eq!(peer, Address::Node(1), "where it came from");
        assert_eq!((address.source_port, address.destination_port), (9, PORT), "what it says");
    }
}

//= X-3 test
#[test]
fn no_host_is_any_host_in_both_formats() {
    for codec in CODECS {
        for (host, is_ours) in [("::", true), ("::ffff:10.0.0.1", true), ("::ffff:10.0.0.2", false), ("::1", false)] {
            let config = Config { local: Some([10, 0, 0, 1].into()), ..config(codec) };
            let mut scene = Scene::listening_for(config, block(Service::Connection), Services::ALL);
            let mut first = scene.first(NONE, 0);
            first.hosts = HostPair::V6 { destination: host.parse().expect("an address"), source: [0; 16].into() };
            let answers = scene.feed(&first);
            assert_eq!(answers[0].diag, (!is_ours).then_some((1, 1)), "{codec:?} {host}");
        }
    }
}

//= X-19 test
#[test]
fn a_binding_limit_refuses_whoever_sends_faster() {
    let listens = ControlBlock { input_rate: 1000, is_rate_binding: true, ..block(Service::Connection) };
    for (outrate, is_taken) in [(1000, true), (1001, false), (0, false)] {
        let mut scene = Scene::listening(Codec::Xtp40, listens.clone());
        let mut first = scene.first(NONE, 20);
        first.traffic = Traffic { outrate, ..Traffic::default() };
        let answers = scene.feed(&first);
        assert_eq!(answers[0].diag, (!is_taken).then_some((1, 6)), "{outrate}");
        if is_taken {
            assert_eq!(answers[0].traffic.expect("told").inrate, 1000);
        }
    }
}

//= X-19 test
#[test]
fn the_smaller_maxdata_holds() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, ControlBlock { sreq_every: 0, ..block(Service::Connection) });
        let sent = scene.send(5000);
        assert_eq!(sent.iter().map(Got::len).max(), Some(1400));
        let mut status = scene.status(NONE, 5000, 1 << 20, sent.last().expect("sent").sync);
        status.traffic.maxdata = 300;
        scene.feed(&status);
        let most = scene.send(1000).iter().map(Got::len).max();
        assert_eq!(most, Some(if codec == Codec::Xtp40 { 300 } else { 1000 }), "xtp36 does not tell it");
    }
}

//= X-3 test
#[test]
fn a_first_says_who_asks_whom_for_what() {
    for codec in CODECS {
        for service in Service::OF_THE_PAPER {
            let mut listened = block(service);
            listened.address_segment.source_port = 5;
            listened.address_segment.hosts =
                HostPair::V4 { destination: [10, 0, 0, 7].into(), source: [10, 0, 0, 8].into() };
            (listened.output_rate, listened.output_burst) = (1_000_000, 50_000);
            (listened.input_rate, listened.input_burst) = (2000, 300);
            let mut scene = Scene::opened(codec, listened.clone());
            let sent = scene.send(100);
            let first = &sent[0];
            assert_eq!((first.kind, first.rtn, first.key), (Kind::First, false, scene.its_key));
            assert_eq!((first.seq, first.len()), (scene.start, 100), "{codec:?} {service:?}");
            assert_eq!(first.address, Some(listened.address_segment));
            assert_eq!(first.service, Some(service.on_wire() as u8));
            assert_eq!(first.options.and(Options::OF_STREAM), service.options(), "{codec:?} {service:?}");
            if codec == Codec::Xtp40 {
                let traffic = first.traffic.expect("told");
                assert_eq!((traffic.maxdata, traffic.inrate, traffic.inburst), (1400, 2000, 300));
                assert_eq!((traffic.outrate, traffic.outburst), (1_000_000, 50_000));
            }
        }
    }
}

#[test]
fn a_refusal_ends_the_context() {
    for codec in CODECS {
        for (code, value) in [(1, 1), (1, 8), (1, 9), (2, 0), (2, 10), (6, 12)] {
            let mut scene = Scene::opened(codec, block(Service::Connection));
            scene.send(100);
            let diag = scene.diag(true, scene.its_key, code, value);
            assert_eq!(scene.feed(&diag), [], "a DIAG is not answered");
            let failure = match code {
                1 => Failure::Refused { code, value },
                2 => Failure::GivenUpByPeer { value },
                _ => Failure::Violation,
            };
            assert_eq!(scene.closed(), Some(Err(failure)));
            assert_eq!(scene.outputs(), [false]);
            let block = scene.half.xtp().block(scene.context()).expect("there");
            assert_eq!((block.code, block.value), (code, value));
        }
    }
}

#[test]
fn a_diag_that_decides_nothing_is_not_the_one_that_ended_the_context() {
    for codec in CODECS {
        let mut scene = Scene::opened(codec, block(Service::Connection));
        let sent = scene.send(100);
        let overtook = scene.diag(true, scene.its_key, 3, 0);
        assert_eq!((scene.feed(&overtook), scene.closed()), (vec![], None));
        let ended_by = |scene: &Scene| scene.half.xtp().block(scene.context()).map(|block| (block.code, block.value));
        assert_eq!(ended_by(&scene), Some((0, 0)), "{codec:?}: it goes on");
        let status = scene.status(NONE, 100, 1000, sent[0].sync);
        assert_eq!((scene.feed(&status), scene.outputs()), (vec![], vec![true]));
        let unknown = scene.diag(false, XKEY, 3, 0);
        scene.feed(&unknown);
        assert_eq!((scene.closed(), ended_by(&scene)), (Some(Err(Failure::Unknown)), Some((3, 0))), "{codec:?}");
    }
}

#[test]
fn shutting_down_is_said_once_to_everybody() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, block(Service::Connection), 100);
        scene.half.call(|engine, now| engine.shut_down(now));
        let sent = scene.half.take();
        assert_eq!(sent.len(), 1);
        assert_eq!((sent[0].diag, sent[0].rtn, sent[0].key), (Some((2, 10)), true, XKEY));
        assert!(scene.half.events.contains(&Event::ShutDown));
        assert!(scene.closed().is_some());
        assert_eq!(scene.half.next_timer(), None::<Time>);
    }
}

//= X-20 test
#[test]
fn an_end_that_has_not_left_yet_leaves_before_the_engine_is_shut_down() {
    for codec in CODECS {
        let mut scene = Scene::connected(codec, block(Service::Connection), 100);
        let context = scene.context();
        scene.half.call(|engine, now| {
            engine.close(now, context, Close::Forced).expect("a context");
            engine.shut_down(now);
        });
        let sent = scene.half.take();
        assert_eq!(sent.len(), 1, "{sent:?}");
        assert!(sent[0].has(Options::END), "{sent:?}");
        assert_eq!(scene.half.events.last(), Some(&Event::ShutDown));
        // Who goes on driving it also has it said again.
        assert_eq!(scene.wait(200), vec![sent[0].clone(); 3]);
        assert_eq!(scene.half.next_timer(), None::<Time>);
    }
}
