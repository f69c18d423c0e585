//! What a report of a small path changes, and for whom; and what happens where nobody reports it.

use crate::half::{Got, Half};
use crate::scene::*;
use core::time::Duration;
use pinnace_core::{Address, Engine, PathEvent};
use pinnace_xtp::{Config, ContextId, ControlBlock, Failure, Output, Service};

const OTHER: Address = Address::Node(10);
/// As much as a packet to anybody may have.
const MAXDATA: u32 = 1400;

/// A context whose FIRST has left, and which waits for no answer.
fn opened(half: &mut Half, to: Address) -> ContextId {
    let block = ControlBlock { maxdata: MAXDATA, ..block(Service::IsoStream) };
    let context = half.call(|engine, now| engine.open(now, to, block)).expect("room");
    largest(half, context, to);
    context
}

/// The largest datagram of a message that leaves for somebody now.
fn largest(half: &mut Half, context: ContextId, to: Address) -> usize {
    let buffer = half.memory.add(bytes(0, 20_000));
    half.call(|engine, now| engine.send(now, context, Output::message(buffer, 20_000))).expect("taken");
    let sent = half.take_sent();
    sent.iter().filter(|sent| sent.to == to).map(|sent| sent.bytes.len()).max().expect("something leaves")
}

fn tell(half: &mut Half, to: Address, fits: Option<u32>) {
    half.call(|engine, now| engine.handle_path_event(now, PathEvent::TooLarge { to, fits }));
}

#[test]
fn a_small_path_is_one_peers_alone_and_not_for_ever() {
    for codec in CODECS {
        let mut half = Half::new(Config { datagram_bytes: 1472, ..config(codec) });
        let [near, far] = [PEER, OTHER].map(|to| opened(&mut half, to));
        let usual = [largest(&mut half, near, PEER), largest(&mut half, far, OTHER)];
        assert!(usual.iter().all(|bytes| *bytes > 1400), "{usual:?}");
        for (fits, carried) in [(Some(1000), 1000), (Some(0), 548), (None, 548)] {
            tell(&mut half, OTHER, fits);
            let now = [largest(&mut half, near, PEER), largest(&mut half, far, OTHER)];
            assert_eq!(now[0], usual[0], "{codec:?}: this path has said nothing");
            assert!(now[1] <= carried && now[1] > carried - 24, "{codec:?} {carried}: {now:?}");
        }
        half.advance(Duration::from_secs(599));
        let late = opened(&mut half, OTHER);
        assert!(largest(&mut half, late, OTHER) <= 548, "{codec:?}: a new context does not find it out again");
        half.advance(Duration::from_secs(2));
        assert_eq!(largest(&mut half, late, OTHER), usual[1], "{codec:?}: it is tried again");
    }
}

/// A peer that answers for so many seconds whatever it is asked, and takes what comes in order; no datagram with more than `most`
/// bytes gets to it. `room` is what it has for bytes that it has not. How much it has got in the end.
fn answers(scene: &mut Scene, most: usize, room: u64, mut rseq: u64, seconds: u64) -> u64 {
    for _ in 0..seconds * 100 {
        scene.half.advance(Duration::from_millis(10));
        for sent in scene.half.take_sent() {
            let got = Got::parse(scene.codec, &sent.bytes);
            if sent.bytes.len() > most || scene.closed().is_some() {
                continue;
            }
            match &got.data {
                Some(data) if scene.at(got.seq) == rseq => rseq += (data.len() as u64).min(room),
                _ => {}
            }
            if got.has(SREQ) {
                let status = scene.status(NONE, rseq, rseq + room, got.sync);
                scene.half.feed(PEER, &status.bytes());
            }
        }
    }
    rseq
}

/// A context with 100,000 bytes to send in datagrams as large as they may be.
fn sender(codec: pinnace_xtp::Codec, change: impl FnOnce(&mut ControlBlock)) -> Scene {
    let mut block = ControlBlock { maxdata: MAXDATA, ..block(Service::Connection) };
    change(&mut block);
    let mut scene = Scene::opened_with(Config { datagram_bytes: 1472, ..config(codec) }, block);
    let buffer = scene.half.memory.add(bytes(0, 100_000));
    let context = scene.context();
    scene.half.call(|engine, now| engine.send(now, context, Output::bytes(buffer, 100_000))).expect("taken");
    scene
}

#[test]
fn what_a_path_loses_in_silence_goes_in_smaller_packets() {
    for codec in CODECS {
        for most in [1_472, 1_300, 1_199, 548] {
            let mut scene = sender(codec, |_| {});
            assert_eq!(answers(&mut scene, most, 1_000_000, 0, 25), 100_000, "{codec:?} {most}");
        }
    }
}

#[test]
fn a_peer_that_answers_and_gets_nothing_is_given_up() {
    for codec in CODECS {
        let given_up = |ctimeout: u64| {
            let mut scene = sender(codec, |block| block.ctimeout = Duration::from_secs(ctimeout));
            // The first packet comes, and nothing that has data any more.
            assert_eq!(answers(&mut scene, 1_472, 1_000_000, 0, 0), 0);
            let first = scene.half.take_sent().first().map(|sent| Got::parse(codec, &sent.bytes)).expect("it leaves");
            let (n, echo) = (first.len() as u64, first.sync);
            let heard = scene.status(NONE, n, 1_000_000, echo);
            scene.half.feed(PEER, &heard.bytes());
            let mut seconds = 0;
            while scene.closed().is_none() && seconds < 200 {
                assert_eq!(answers(&mut scene, 150, 1_000_000, n, 1), n);
                seconds += 1;
            }
            assert_eq!(scene.closed(), Some(Err(Failure::Swallowed)), "{codec:?}");
            seconds
        };
        for (ctimeout, from, to) in [(10, 30, 36), (1, 3, 9)] {
            let seconds = given_up(ctimeout);
            assert!((from..=to).contains(&seconds), "{codec:?} {ctimeout}: {seconds}");
        }
    }
}

#[test]
fn a_peer_that_does_not_read_is_waited_for() {
    for codec in CODECS {
        // Nothing is lost, but there is room for the first bytes alone; or not even for all that left before it was known.
        for taken in [65_536, 20_000] {
            let mut scene = sender(codec, |_| {});
            let sent: Vec<_> = scene.half.take_sent().iter().map(|sent| Got::parse(codec, &sent.bytes)).collect();
            let echo = sent.last().expect("it leaves").sync;
            let heard = scene.status(NONE, taken, taken, echo);
            scene.half.feed(PEER, &heard.bytes());
            assert_eq!(answers(&mut scene, 1_472, 0, taken, 600), taken);
            assert_eq!(scene.closed(), None, "{codec:?} {taken}");
            assert_eq!(answers(&mut scene, 1_472, 1_000_000, taken, 5), 100_000, "{codec:?} {taken}");
        }
    }
}

#[test]
fn what_waits_long_for_its_turn_is_not_lost() {
    // A packet in eleven seconds.
    let mut scene = sender(pinnace_xtp::Codec::Xtp40, |block| (block.output_rate, block.output_burst) = (125, 1_400));
    let mut rseq = answers(&mut scene, 1_472, 1_000_000, 0, 12);
    for round in 0..36 {
        // Of six packets one gets through.
        let most = if round % 6 == 0 { 1_472 } else { 100 };
        rseq = answers(&mut scene, most, 1_000_000, rseq, 11);
    }
    assert_eq!(scene.closed(), None);
    assert!(rseq > 6_000, "{rseq}");
}
