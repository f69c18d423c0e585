//! Ethernet: what lies behind 32 + dlen is not part of the packet (Ethernet).

use crate::half::{Got, Packet};
use crate::scene::*;
use pinnace_qmp::{Medium, Profile, State};
use pinnace_wire::xtp::Kind;

fn padded(packet: &Packet, more: usize) -> Vec<u8> {
    let mut bytes = packet.bytes();
    // What the last user of the memory left there.
    bytes.extend((0..more).map(|at| 0xd0 | at as u8 & 0x0f));
    bytes
}

/// How much a frame needs to be as long as Ethernet wants it.
fn missing(packet: &Packet) -> usize {
    46_usize.saturating_sub(packet.bytes().len())
}

#[test]
fn what_lies_behind_a_packet_is_ignored_on_ethernet() {
    for more in [0, 1, 3, 500] {
        let mut scene = Scene::listening_with(Medium::Ethernet, Profile::default().block(PORT));
        let first = padded(&scene.first(SREQ, 5), more);
        assert_eq!(only(scene.feed_bytes(&first)).rseq, scene.n(5));
        scene.learn();
        let mut low = 5;
        for n in [1, 3, 9, 100, 1, 14, 1400, 2] {
            let data = scene.data(SREQ, low, n).sync(1000 + low as u32);
            let frame = padded(&data, missing(&data) + more);
            low += n;
            assert_eq!(only(scene.feed_bytes(&frame)).rseq, scene.n(low));
            assert_eq!(scene.readable(), low, "not a byte of the padding");
        }
        // Behind a gap, and into it: the padding lies where the next bytes belong.
        let beyond = scene.data(NONE, low + 10, 10);
        let answer = only(scene.feed_bytes(&padded(&beyond, more)));
        assert_eq!((answer.kind, &answer.spans[..]), (Kind::Ecntl, &[(scene.n(low + 10), scene.n(low + 20))][..]));
        let fills = scene.data(NONE, low, 10);
        assert_eq!(scene.feed_bytes(&padded(&fills, more)), []);
        assert_eq!(scene.consume(low + 20), []);
        // Every other type.
        let sent = only(scene.write(100));
        let status = scene.gaps(20, &[(50, 60)], sent.sync).sync(5000);
        assert!(scene.feed_bytes(&padded(&status, more)).iter().all(|got| got.kind == Kind::Data));
        let status = scene.status(NONE, 100, 1000, sent.sync).sync(5001);
        assert_eq!(scene.feed_bytes(&padded(&status, more)), []);
        assert_eq!(scene.outputs(), [true]);
        let diag = scene.diag(false, KEY, 2, 0);
        assert_eq!(scene.feed_bytes(&padded(&diag, more)), []);
        assert_eq!(scene.state(), State::Quiescent);
        assert_eq!(scene.half.xtp().counters().packets_malformed, 0);
        let (mut scene, first) = Scene::connecting_with(Medium::Ethernet, block_to(&Profile::default()));
        let status = scene.status(NONE, 0, 1000, first.sync);
        assert_eq!(status.kind, Kind::Tcntl);
        assert_eq!(scene.feed_bytes(&padded(&status, more)), []);
        assert!(scene.half.xtp().facts(scene.context()).is_some_and(|facts| facts.is_connected));
    }
}

#[test]
fn a_datagram_that_is_longer_than_its_packet_is_dropped_in_silence() {
    let mut scene = Scene::listening(&Profile::default());
    let first = padded(&scene.first(SREQ, 5), 1);
    assert_eq!(scene.feed_bytes(&first), []);
    assert_eq!(scene.half.xtp().contexts(), 0);
    scene.accept(SREQ, 5);
    for packet in [
        scene.data(SREQ, 5, 10).sync(1001),
        scene.status(SREQ, 0, 1000, scene.sync()).sync(1001),
        scene.gaps(0, &[(1, 2)], scene.sync()).sync(1001),
        scene.diag(false, KEY, 2, 0),
    ] {
        assert_eq!(scene.feed_bytes(&padded(&packet, 1)), [], "{packet:?}");
    }
    assert_eq!((scene.readable(), scene.state()), (5, State::Active));
    assert_eq!(scene.half.xtp().counters().packets_malformed, 5);
}

#[test]
fn a_packet_that_is_cut_short_is_dropped_on_both() {
    for medium in [Medium::Internet, Medium::Ethernet] {
        let mut scene = Scene::listening_with(medium, Profile::default().block(PORT));
        scene.accept(SREQ, 5);
        let data = scene.data(SREQ, 5, 100).sync(1001).bytes();
        for len in [31, 32, 33, data.len() - 1] {
            assert_eq!(scene.feed_bytes(&data[..len]), []);
        }
        assert_eq!(scene.readable(), 5);
    }
}

/// maxdata is MTU - 32: nothing is set aside for what QMP never sends.
#[test]
fn a_frame_is_filled_to_its_end() {
    let profile = Profile { maxdata: 1500 - 32, ..Profile::default() };
    let base = pinnace_xtp::Config { datagram_bytes: 1500, ..base() };
    let mut half = crate::half::Half::new(profile.config(Medium::Ethernet, base));
    let block = block_to(&profile);
    let context = half.call(|engine, now| pinnace_qmp::socket::connect(engine, now, PEER, block)).expect("room");
    let buffer = half.memory.add(bytes(0, 10_000));
    half.call(|engine, now| pinnace_qmp::socket::write(engine, now, context, buffer, 0, 10_000)).expect("taken");
    let sent = take(&mut half);
    assert_eq!(sent.iter().map(|(bytes, _)| bytes.len()).max(), Some(1500));
    let lens: Vec<_> = sent.iter().filter(|(_, got)| got.kind == Kind::Data).map(|(_, got)| Got::len(got)).collect();
    assert_eq!(lens, [1468, 1468, 1468, 1468, 1468, 1468, 1192]);
}
