//! What goes to an address that is not proved, and what proves it (specs/README.md).

use crate::half::{Got, counted};
use crate::scene::*;
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Codec, Config, Options, Service, Services};

fn scene(codec: Codec) -> Scene {
    let config = Config { validates: true, ..config(codec) };
    Scene::listening_for(config, block(Service::Connection), Services::ALL)
}

/// User bytes that leave after the peer has said something with our key or without, with our sync or without.
fn data_after(codec: Codec, has_key: bool, has_echo: bool) -> usize {
    let mut scene = scene(codec);
    let echo = scene.accept(NONE, 10).sync;
    scene.send(100_000);
    let mut status = scene.status(SREQ, 0, 200_000, if has_echo { echo } else { 0 }).sync(1001);
    if !has_key {
        (status.rtn, status.key) = (false, KEY);
    }
    scene.feed(&status).iter().map(Got::len).sum()
}

//= X-2 test
//= X-6 test
#[test]
fn what_only_the_receiver_can_know_proves_an_address() {
    for codec in CODECS {
        let little = data_after(codec, false, false);
        assert!(little < 100, "{little} bytes to whoever knows nothing");
        assert!(data_after(codec, true, true) > 30_000);
        assert!(data_after(codec, false, true) > 30_000, "{codec:?}: nobody guesses the echo of a random sync");
        let by_key = data_after(codec, true, false);
        // Eleven bits of the key can be guessed.
        assert_eq!(by_key > 30_000, codec == Codec::Xtp40, "{codec:?}: {by_key} bytes to whoever knows the key alone");
    }
}

/// How often the application has been told that the peer is there.
fn shown(scene: &Scene) -> usize {
    scene.half.events.iter().filter(|event| matches!(event, pinnace_xtp::Event::Shown { .. })).count()
}

//= X-2 test
#[test]
fn the_application_is_told_once_that_its_peer_is_there() {
    for codec in CODECS {
        let mut scene = scene(codec);
        let echo = scene.accept(NONE, 10).sync;
        let mut status = scene.status(SREQ, 0, 200_000, 0).sync(1001);
        (status.rtn, status.key) = (false, KEY);
        for packet in [scene.first(NONE, 10), status] {
            scene.feed(&packet);
        }
        assert_eq!(shown(&scene), 0, "{codec:?}: anybody can say this");
        for sync in 1002..1005 {
            let status = scene.status(SREQ, 0, 200_000, echo).sync(sync);
            scene.feed(&status);
        }
        assert_eq!(shown(&scene), 1, "{codec:?}");
    }
}

//= X-2 test
#[test]
fn nothing_goes_beyond_three_times_what_came() {
    for codec in CODECS {
        for (service, n, answer) in
            [(4, 1, 0), (4, 1, 65_536), (3, 1, 100), (3, 1, 65_536), (3, 1400, 65_536), (2, 1, 0)]
        {
            let mut scene = scene(codec);
            let mut first = scene.first(all(&[EOM, WCLOSE]), n);
            first.service = service;
            let mut came = 0;
            for sync in 1000..1005 {
                let bytes = first.clone().sync(sync).bytes();
                came += counted(&bytes);
                scene.half.feed(PEER, &bytes);
                if sync == 1000 && answer > 0 {
                    scene.learn();
                    scene.output(answer, |output| pinnace_xtp::Output { eom: true, is_last: true, ..output });
                }
                scene.wait(40_000 * u64::from(sync == 1004));
                let sent = scene.half.counted_sent(PEER);
                assert!(sent > 0 && sent <= 3 * came, "{codec:?} {service} {n}: {sent} bytes for {came}");
            }
        }
    }
}

//= X-20 test
#[test]
fn a_reset_is_not_said_more_often_than_what_came_allows() {
    for codec in CODECS {
        for n in [0, 100, 1000] {
            let mut scene = scene(codec);
            let first = scene.first(NONE, n);
            let came = counted(&first.bytes());
            scene.accept(NONE, n);
            scene.close(pinnace_xtp::Close::Forced);
            scene.wait(10_000);
            let sent = scene.half.counted_sent(PEER);
            assert!(sent > 0 && sent <= 3 * came, "{codec:?} {n}: {sent} bytes for {came}");
        }
    }
}

//= X-21 test
#[test]
fn a_small_transaction_takes_one_round_trip_with_a_stranger_too() {
    for codec in CODECS {
        let mut scene = scene(codec);
        let mut first = scene.first(all(&[EOM, WCLOSE]), 1);
        first.service = 3;
        assert_eq!(scene.feed(&first), []);
        scene.learn();
        let response = scene.output(100, |output| pinnace_xtp::Output { eom: true, is_last: true, ..output });
        assert_eq!(response.len(), 1, "{codec:?} {response:?}");
        assert_eq!(response[0].data, Some(bytes(0, 100)), "{codec:?}");
        assert!(response[0].has(all(&[EOM, WCLOSE, RCLOSE, SREQ])));
    }
}

//= X-5 test
#[test]
fn one_loss_stops_nobody_who_is_not_proved_yet() {
    for codec in CODECS {
        let mut scene = scene(codec);
        scene.accept(NONE, 100);
        let lost = scene.send(5000);
        assert!(lost.iter().all(|packet| packet.has(SREQ)) && !lost.is_empty(), "{lost:?}");
        let asks = scene.due(250);
        assert_eq!((asks.len(), asks[0].kind, asks[0].marks()), (1, Kind::Cntl, SREQ), "{asks:?}");
    }
}

//= X-11 test
#[test]
fn who_may_not_ask_has_not_been_left_without_an_answer() {
    for codec in CODECS {
        let mut scene = scene(codec);
        scene.accept(NONE, 0);
        let lost = scene.send(5000);
        assert!(lost.iter().all(|packet| packet.has(SREQ)) && !lost.is_empty(), "{lost:?}");
        // Of the larger packets of xtp36 a question has no room behind the answer and data.
        let asks = scene.wait(50_000);
        assert!(asks.iter().all(|packet| (packet.kind, packet.marks()) == (Kind::Cntl, SREQ)), "{asks:?}");
        // All that may go there has: no more, for as long as the peer is silent.
        assert_eq!((asks.len(), scene.closed()), (usize::from(codec == Codec::Xtp40), None), "{codec:?}");
        let asks = scene.status(SREQ, 0, 200_000, lost[0].sync).sync(1001);
        let sent = scene.feed(&asks);
        let data: usize = sent.iter().map(Got::len).sum();
        assert!(data > 4800, "{codec:?}: {data} bytes");
    }
}

//= X-11 test
#[test]
fn one_loss_stops_no_server_that_speaks_first_to_who_only_answers() {
    for (codec, n) in [(Codec::Xtp40, 0), (Codec::Xtp40, 10), (Codec::Xtp36, 20), (Codec::Xtp36, 100)] {
        for has_messages in [false, true] {
            // DATA is lost, or the answer to it.
            for is_data_lost in [true, false] {
                let config = Config { validates: true, has_messages, ..config(codec) };
                let mut scene = Scene::listening_for(config, block(Service::Connection), Services::ALL);
                scene.accept(NONE, n);
                let sent = scene.output(5000, |output| output);
                let said = sent.iter().map(Got::len).sum::<usize>() as u64;
                assert!(said > 0 && sent.iter().all(|packet| packet.has(SREQ)), "{codec:?} {n}: {sent:?}");
                let asks = scene.due(250);
                assert_eq!((asks.len(), asks[0].kind, asks[0].marks()), (1, Kind::Cntl, SREQ), "{asks:?}");
                let rseq = if is_data_lost { 0 } else { said };
                let status = scene.status(NONE, rseq, 200_000, asks[0].sync);
                let rest: u64 = scene.feed(&status).iter().map(|packet| packet.len() as u64).sum();
                assert_eq!(rest, 5000 - rseq, "{codec:?} {n}");
            }
        }
    }
}

//= X-6 test
//= X-11 test
#[test]
fn an_initiator_with_nothing_to_say_shows_that_it_is_there() {
    for codec in CODECS {
        let config = Config { validates: true, ..config(codec) };
        let mut scene = Scene::opened_with(config, block(Service::Connection));
        let sent = scene.send(100);
        let status = scene.status(NONE, 100, 200_000, sent[0].sync);
        assert_eq!(scene.feed(&status), []);
        for _ in 0..2 {
            let asks = scene.wait(300);
            assert!(!asks.is_empty(), "again until it is answered");
            assert!(asks.iter().all(|asks| (asks.rtn, asks.key, asks.marks()) == (true, XKEY, SREQ)), "{asks:?}");
        }
        let sync = scene.half.xtp().facts(scene.context()).expect("there").sync;
        let status = scene.status(NONE, 100, 200_000, sync).sync(1001);
        assert_eq!(scene.feed(&status), []);
        assert_eq!(scene.wait(5000), [], "{codec:?}: once is enough");
    }
}

/// Reads all there is; returns how many bytes that was.
fn read_all(scene: &mut Scene) -> u64 {
    let (context, mut total) = (scene.context(), 0);
    loop {
        let len = scene.half.xtp().readable(context).expect("it is there").len;
        if len == 0 {
            return total;
        }
        total += len;
        scene.half.call(|engine, now| engine.consume(now, context, len));
    }
}

//= X-15 test
#[test]
fn long_holes_are_believed_of_nobody_who_is_not_proved() {
    const FAR: u64 = 1 << 30;
    let lossy = Options::NOERR | Options::NOFLOW;
    for codec in CODECS {
        let mut scene = scene(codec);
        let echo = scene.accept(lossy, 1).sync;
        let mut far = scene.data(lossy, FAR - 1, 1);
        let mut end = scene.status(lossy | WCLOSE, 0, 1000, 0);
        end.seq = scene.n(FAR);
        for packet in [&mut far, &mut end] {
            (packet.rtn, packet.key) = (false, KEY);
            scene.feed(packet);
        }
        let total = read_all(&mut scene);
        assert!(total <= 1 << 20, "{codec:?}: two packets of whoever it is make {total} bytes");
        // Who may have outrun the ring before it was proved is caught up with.
        let status = scene.status(lossy, 0, 1000, echo).sync(1001);
        scene.feed(&status);
        let far = scene.data(lossy, FAR - 1, 1).sync(1001);
        scene.feed(&far);
        assert_eq!(total + read_all(&mut scene), FAR, "{codec:?}");
    }
}
