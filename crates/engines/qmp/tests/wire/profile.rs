//! What every packet carries, and what is not looked at in packets that come (Profile, Q-2).

use crate::half::{Got, Half, Packet};
use crate::scene::*;
use pinnace_core::Time;
use pinnace_qmp::socket::{self, Linger};
use pinnace_qmp::{Medium, Profile, State};
use pinnace_wire::xtp::{
    self, AddressSegment, CHECK_AT, Code, Codec, Header, HostPair, Key, Kind, Spans, Status, Traffic,
};
use pinnace_xtp::{ControlBlock, Event, Options, Output, Refused, Service};

/// The scene holds every packet against the profile; this sees to it that there is one of every type.
//= Q-2 test
#[test]
fn every_type_of_packet_has_nocheck_and_fastnak() {
    let mut seen = Vec::new();
    let (mut scene, first) = Scene::connecting(&Profile::default());
    seen.push(first.kind);
    let status = scene.status(NONE, 0, 1_000_000, first.sync);
    seen.extend(scene.feed(&status).iter().map(|got| got.kind));
    seen.extend(scene.write(100).iter().map(|got| got.kind));
    seen.extend(scene.due(10).iter().map(|got| got.kind));
    let mut scene = Scene::listening(&Profile::default());
    seen.push(scene.accept(SREQ, 10).kind);
    let gap = scene.data(NONE, 20, 10);
    seen.extend(scene.feed(&gap).iter().map(|got| got.kind));
    let stray = scene.data(NONE, 20, 10);
    seen.extend(scene.feed(&Packet { key: 12_345, ..stray }).iter().map(|got| got.kind));
    assert_eq!(seen, [Kind::First, Kind::Data, Kind::Cntl, Kind::Tcntl, Kind::Ecntl, Kind::Diag]);
}

//= Q-2 test
#[test]
fn the_farewells_have_them_too() {
    // Given up by WTIMER, by CTIMER, at the end of the process; END; and a listener's refusal.
    let (mut scene, _) = Scene::connecting(&Profile::default());
    let sent = scene.wait(100_000);
    assert_eq!(sent.last().and_then(|got| got.diag), Some((2, 0)));
    let mut scene = Scene::connected(&Profile::default());
    let sent = scene.wait(100_000);
    assert_eq!(sent.last().and_then(|got| got.diag), Some((2, 0)));
    let mut scene = Scene::connected(&Profile::default());
    scene.half.call(|engine, now| engine.shut_down(now));
    assert_eq!(only(scene.take()).diag, Some((2, 10)));
    let mut scene = Scene::accepted(&Profile::default());
    let (sent, is_forced) = scene.close(Linger::Zero);
    assert!(is_forced && only(sent).has(END));
    let mut scene = Scene::listening(&Profile::default());
    let first = Packet { port: 8, ..scene.first(SREQ, 0) };
    assert_eq!(only(scene.feed(&first)).diag, Some((Code::ContextRefused as u32, 1)));
}

//= Q-2 test
#[test]
fn a_wrong_check_is_no_matter() {
    let mut scene = Scene::listening(&Profile::default());
    let wrong = |packet: &Packet| {
        let mut bytes = packet.bytes();
        bytes[CHECK_AT] ^= 0x5a;
        bytes
    };
    let first = wrong(&scene.first(SREQ, 10));
    assert_eq!(only(scene.feed_bytes(&first)).kind, Kind::Tcntl);
    scene.learn();
    let data = wrong(&scene.data(SREQ, 10, 10).sync(1001));
    assert_eq!(only(scene.feed_bytes(&data)).rseq, scene.n(20));
    // Not even where the peer says that it is there: the link's CRC is all there is.
    let mut summed = scene.data(SREQ, 20, 10).sync(1002);
    summed.options = SREQ;
    let data = wrong(&summed);
    assert_eq!(only(scene.feed_bytes(&data)).rseq, scene.n(30));
    let sent = only(scene.write(100));
    let status = wrong(&scene.status(NONE, 100, 1_000_000, sent.sync).sync(1003));
    assert_eq!(scene.feed_bytes(&status), []);
    assert_eq!(scene.outputs(), [true]);
    assert_eq!(scene.consume(30), []);
    let diag = wrong(&scene.diag(false, KEY, 2, 0));
    scene.feed_bytes(&diag);
    assert_eq!(scene.state(), State::Quiescent);
    assert_eq!(scene.half.xtp().counters().packets_malformed, 0);
}

/// The header is made right, nevertheless: whoever verifies finds nothing wrong.
//= Q-2 test
#[test]
fn the_check_is_the_headers_and_not_the_datas() {
    let mut scene = Scene::connected(&Profile::default());
    let buffer = scene.half.memory.add(vec![1; 50]);
    let context = scene.context();
    scene.half.call(|engine, now| socket::write(engine, now, context, buffer, 0, 50)).expect("taken");
    let (mut packet, got) = take(&mut scene.half).remove(0);
    assert_eq!(got.data, Some(vec![1; 50]));
    let check = [packet[CHECK_AT], packet[CHECK_AT + 1]];
    packet[CHECK_AT..CHECK_AT + 2].fill(0);
    assert_eq!(pinnace_wire::checksum::internet(&packet[..32]).to_be_bytes(), check);
    assert_ne!(pinnace_wire::checksum::internet(&packet).to_be_bytes(), check);
}

#[test]
fn a_first_asks_for_service_4_without_data_and_at_once() {
    let (mut scene, first) = Scene::connecting(&Profile::default());
    assert_eq!((first.kind, first.len(), first.service), (Kind::First, 0, Some(4)));
    assert_eq!(first.marks(), SREQ);
    assert_eq!(first.seq, scene.n(0));
    // Data may follow without waiting.
    let sent = scene.write(3000);
    assert_eq!(sent.iter().map(Got::len).sum::<usize>(), 3000);
    assert!(sent.iter().all(|got| got.kind == Kind::Data && !got.rtn && got.key == scene.its_key));
    assert_eq!(sent[0].seq, scene.n(0));
}

#[test]
fn a_first_has_no_data_although_some_are_written_before_it_leaves() {
    let mut half = Half::new(Profile::default().config(Medium::Internet, base()));
    let buffer = half.memory.add(bytes(0, 3000));
    half.call(|engine, now| {
        let context = socket::connect(engine, now, PEER, block_to(&Profile::default())).expect("room");
        socket::write(engine, now, context, buffer, 0, 3000).expect("taken");
        socket::shut_write(engine, now, context).expect("open");
    });
    let sent: Vec<_> = take(&mut half).into_iter().map(|(_, got)| got).collect();
    assert_eq!((sent[0].kind, sent[0].len(), sent[0].marks()), (Kind::First, 0, SREQ));
    assert_eq!(sent[1..].iter().map(Got::len).sum::<usize>(), 3000, "and the data follow it at once");
    assert_eq!(sent.last().expect("sent").marks(), SREQ | WCLOSE);
    half.advance_to(Time::ZERO + core::time::Duration::from_millis(260));
    let again = take(&mut half).remove(0).1;
    assert_eq!(again, Got { sync: again.sync, ..sent[0].clone() }, "same seq and data");
    assert_eq!(again.sync, sent.last().expect("sent").sync.wrapping_add(1), "new sync");
}

#[test]
fn only_connections_are_offered() {
    for (service, options, why) in [
        (0, NONE, Some((1, 8))),
        (1, NONE, None),
        (2, NONE, Some((1, 8))),
        (3, NONE, Some((1, 8))),
        (5, NONE, Some((1, 8))),
        (6, NONE, Some((1, 8))),
        (7, NONE, Some((1, 8))),
        (4, Options::NOERR | Options::NOFLOW, Some((1, 8))),
        (4, Options::RES, Some((1, 2))),
        (4, NONE, None),
    ] {
        let mut scene = Scene::listening(&Profile::default());
        let first = Packet { service, ..scene.first(options, 10) };
        let answers = scene.feed(&first);
        assert_eq!(answers.first().and_then(|got| got.diag), why, "{service} {options:?}");
        let is_accepted = scene.half.events.iter().any(|event| matches!(event, Event::Accepted { .. }));
        assert_eq!(is_accepted, service == 4 && options == NONE);
    }
}

/// JCNTL is none of QMP's types, whoever's key it has.
#[test]
fn nobody_can_join_and_a_join_is_dropped() {
    let mut scene = Scene::accepted(&Profile::default());
    let key = scene.its_key;
    for (rtn, key) in [(true, key), (true, 12_345), (false, KEY), (false, 12_345)] {
        for options in [SREQ, SREQ | Options::MULTI] {
            let before = scene.half.xtp().counters().packets_malformed;
            assert_eq!(scene.feed_bytes(&join(rtn, key, options)), [], "{rtn} {key} {options:?}");
            assert_eq!(scene.half.xtp().counters().packets_malformed, before + 1);
        }
    }
    let block = ControlBlock { service: Service::Multicast, ..Profile::default().block(PORT) };
    let joined = scene.half.call(|engine, _| engine.join(PEER, block.clone(), Service::Multicast.into()));
    assert_eq!(joined, Err(Refused::Unsupported));
    let opened = scene.half.call(|engine, now| engine.open_group(now, PEER, block));
    assert_eq!(opened, Err(Refused::Unsupported));
    assert_eq!(scene.state(), State::Active);
}

fn join(rtn: bool, key: u64, options: Options) -> Vec<u8> {
    let key = Key { rtn, value: key };
    let options = options | Profile::OPTIONS;
    let header = Header { codec: Codec::Xtp40, key, options, kind: Kind::Jcntl, sort: 0, sync: 1001, seq: 0, dseq: 0 };
    let spans = Spans::from_slice(&[]);
    let status = Status { rseq: 0, alloc: 0, echo: 0, spans, xkey: 0, traffic: None, clock: None, hseq: 0 };
    let hosts = HostPair::V4 { destination: [224, 0, 1, 7].into(), source: [192, 0, 2, 1].into() };
    let address = AddressSegment { hosts, destination_port: PORT, source_port: 9 };
    let mut bytes = Vec::new();
    xtp::join(&header, &status, &address, &Traffic::default(), &mut bytes);
    bytes
}

/// Ends of messages that no sender could mean, in packets that cut the same bytes differently.
#[test]
fn received_eom_and_btag_are_ignored() {
    let mut scene = Scene::listening(&Profile::default());
    let mut first = scene.first(EOM | Options::BTAG, 10);
    first.btag = Some(*b"whatever");
    assert_eq!(only(scene.feed(&first)).rseq, scene.n(10));
    scene.learn();
    let cuts: &[(u64, u64, bool, bool)] = &[
        // Low, bytes, EOM, BTAG.
        (10, 90, true, true),
        (50, 100, false, false),
        (10, 90, false, false),
        (140, 60, true, true),
        (120, 100, false, true),
        (300, 50, true, true),
        (310, 10, true, true),
        (220, 100, true, false),
        (345, 5, false, true),
        (340, 60, false, false),
    ];
    for (low, n, eom, btag) in cuts {
        let mut data = scene.data(if *eom { EOM } else { NONE }, *low, *n);
        if *btag {
            (data.btag, data.options) = (Some([*low as u8; 8]), data.options | Options::BTAG);
        }
        for answer in scene.feed(&data) {
            assert_eq!(answer.kind, Kind::Ecntl, "a gap is told, and nothing else");
        }
        scene.readable();
    }
    // Empty packets end and begin messages elsewhere.
    for (at, options) in [(400, EOM), (400, Options::BTAG), (200, EOM)] {
        let mut data = scene.data(options, at, 0);
        data.btag = options.contains(Options::BTAG).then_some([1; 8]);
        assert_eq!(scene.feed(&data), []);
    }
    let asks = scene.data(SREQ | EOM, 400, 0).sync(1001);
    assert_eq!(only(scene.feed(&asks)).rseq, scene.n(400));
    assert_eq!(scene.readable(), 400, "in one piece");
    assert_eq!(scene.consume(123), []);
    assert_eq!(scene.consume(277), []);
    assert_eq!(scene.half.xtp().counters().messages_received, 0);
}

/// More ends than anybody would note: a stream that has no messages has no room for them to run out of.
#[test]
fn ends_of_messages_take_no_memory() {
    let mut scene = Scene::accepted(&Profile::default());
    for low in 0..10_000 {
        let data = scene.data(EOM, low, 1);
        assert_eq!(scene.feed(&data), []);
    }
    assert_eq!(scene.readable(), 10_000);
}

#[test]
fn messages_cannot_be_put_out() {
    let mut scene = Scene::connected(&Profile::default());
    let context = scene.context();
    let buffer = scene.half.memory.add(bytes(0, 10));
    for output in
        [Output { eom: true, ..Output::bytes(buffer, 10) }, Output { btag: Some([1; 8]), ..Output::bytes(buffer, 10) }]
    {
        let refused = scene.half.call(|engine, now| engine.send(now, context, output));
        assert_eq!(refused, Err(Refused::Unsupported));
    }
    assert_eq!(scene.take(), []);
}
