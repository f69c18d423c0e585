//! Over a path that loses, doubles and reorders, the rendezvous included.

use super::body::{LONG, Pair, pair_with, pattern, under};
use pinnace::link::FaultOptions;
use pinnace::service::{Method, Service};
use pinnace::vrp::Contract;
use pinnace::{Connection, EndpointOptions, PerMessage};
use std::ops::Range;
use std::time::Duration;

fn faults() -> EndpointOptions {
    let fault =
        FaultOptions { loss: 0.05, duplication: 0.02, reordering: 0.02, reordering_distance: 5, ..Default::default() };
    under(fault)
}

fn lossy(method: Method, service: &str) -> Pair {
    pair_with(method, &service.parse::<Service>().unwrap(), &faults())
}

/// Sizes in a fixed disorder: most are a packet, some are many.
fn len_of(number: usize) -> usize {
    match number % 50 {
        0 => 1_500_000,
        1 => 0,
        rest => rest * rest * 37 % 9000,
    }
}

const MESSAGES: usize = 200;

fn send_all(connection: &Connection, seed: u8) {
    let deliveries: Vec<_> = (0..MESSAGES)
        .map(|number| connection.send(pattern(len_of(number), seed.wrapping_add(number as u8))).unwrap())
        .collect();
    for delivery in deliveries {
        delivery.wait().unwrap();
    }
}

fn expect_all(connection: &Connection, seed: u8) {
    for number in 0..MESSAGES {
        let received = connection.recv_timeout(LONG).unwrap().unwrap();
        let expected = pattern(len_of(number), seed.wrapping_add(number as u8));
        assert!(received.is_whole() && *received == *expected, "message {number}: {} bytes", received.len());
    }
}

/// What a reliable service carries is all there, in order, both ways at once; and so is its end.
fn loses_nothing(method: Method, service: &str) {
    let Pair { client, server, _endpoint } = lossy(method, service);
    std::thread::scope(|scope| {
        scope.spawn(|| send_all(&client, 1));
        scope.spawn(|| send_all(&server, 2));
        scope.spawn(|| expect_all(&client, 2));
        expect_all(&server, 1);
    });
    client.close(LONG).unwrap();
    assert!(server.recv_timeout(LONG).unwrap().is_none());
}

#[test]
fn xtp_loses_nothing() {
    loses_nothing(Method::Xtp, "direction=duplex largest=2MiB");
}

#[test]
fn xtp_loses_nothing_on_the_internet() {
    loses_nothing(Method::Xtp, "direction=duplex largest=2MiB path=internet");
}

#[test]
fn qmp_loses_nothing() {
    loses_nothing(Method::Qmp, "direction=duplex largest=2MiB");
}

#[test]
fn zcrp_loses_nothing() {
    loses_nothing(Method::Zcrp, "direction=duplex largest=2MiB");
}

#[test]
fn zcrp_loses_nothing_on_the_internet() {
    loses_nothing(Method::Zcrp, "direction=duplex largest=2MiB path=internet");
}

#[test]
fn vrp_loses_nothing_if_nothing_may_be_lost() {
    loses_nothing(Method::Vrp, "direction=duplex largest=2MiB");
}

#[test]
fn a1_loses_nothing() {
    loses_nothing(Method::A1, "direction=duplex largest=2MiB");
}

#[test]
fn a1_loses_nothing_on_the_internet() {
    loses_nothing(Method::A1, "direction=duplex largest=2MiB path=internet");
}

#[test]
fn requests_and_responses_get_through() {
    for method in [Method::Xtp, Method::Qmp, Method::Zcrp, Method::Vrp, Method::A1] {
        let Pair { client, server, _endpoint } = lossy(method, "direction=duplex");
        let serving = std::thread::spawn(move || {
            while let Some(request) = server.recv_timeout(LONG).unwrap() {
                drop(server.send(request.to_ascii_uppercase()).unwrap());
            }
        });
        for number in 0..50 {
            let response = client.transact(format!("request {number}").into_bytes()).unwrap();
            assert_eq!(&*response, format!("REQUEST {number}").as_bytes(), "{method}");
        }
        client.close(LONG).unwrap();
        serving.join().unwrap();
    }
}

/// Bytes in one range or the other.
fn overlap(a: &Range<usize>, b: &Range<usize>) -> usize {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

/// What is lost of a bounded service is within its contract, its holes are exactly what is missing, and both ends are told
/// the same.
fn keeps_the_contract(path: &str) {
    const SIZE: usize = 1_000_000;
    let critical = 0..4096;
    let service = format!("loss=10% run=16KiB critical=0..4KiB size=1MB path={path}");
    let Pair { client, server, _endpoint } = lossy(Method::Vrp, &service);
    let (mut lost, mut frames_with_holes) = (0, 0);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let deliveries: Vec<_> = (0..40).map(|frame| client.send(pattern(SIZE, frame)).unwrap()).collect();
            deliveries.into_iter().map(|delivery| delivery.wait().unwrap().holes().to_vec()).collect::<Vec<_>>()
        });
        let mut told = Vec::new();
        for frame in 0..40 {
            let received = server.recv_timeout(LONG).unwrap().unwrap();
            let (expected, holes) = (pattern(SIZE, frame), received.holes().to_vec());
            assert_eq!(received.len(), SIZE);
            let mut at = 0;
            for hole in &holes {
                assert!(received[at..hole.start] == expected[at..hole.start], "frame {frame} before {hole:?}");
                assert!(received[hole.clone()].iter().all(|byte| *byte == 0), "frame {frame}: {hole:?} reads as zeros");
                assert!(hole.len() <= 16 << 10, "frame {frame}: a run of {}", hole.len());
                assert_eq!(overlap(hole, &critical), 0, "frame {frame}: {hole:?} is critical");
                at = hole.end;
            }
            assert!(received[at..] == expected[at..], "frame {frame}: the end");
            // A tenth of each window, to the nearest packet: of 64, the shortest window, 7.
            assert!(received.bytes_lost() <= SIZE * 12 / 100, "frame {frame}: {}", received.bytes_lost());
            lost += received.bytes_lost();
            frames_with_holes += usize::from(!holes.is_empty());
            told.push(holes);
        }
        assert_eq!(sending.join().unwrap(), told);
        assert_eq!(server.statistics().bytes_missing, lost as u64);
    });
    // A contract that nothing makes use of would be no test.
    assert!(frames_with_holes > 10 && lost > 100_000, "{frames_with_holes} frames, {lost} bytes");
}

#[test]
fn a_bounded_service_loses_what_its_contract_allows() {
    keeps_the_contract("host");
}

#[test]
fn a_bounded_service_loses_what_its_contract_allows_on_the_internet() {
    keeps_the_contract("internet");
}

#[test]
fn the_rendezvous_gets_through() {
    // Of questions or their answers more than 28 % are lost, and what is late waits for something behind it.
    let fault = FaultOptions { loss: 0.15, duplication: 0.1, reordering: 0.1, ..FaultOptions::default() };
    let options = under(fault);
    for method in [Method::Xtp, Method::Vrp, Method::A1] {
        let pair = pair_with(method, &"direction=duplex".parse().unwrap(), &options);
        drop(pair.client.send(b"ahoy".to_vec()).unwrap());
        assert_eq!(&*pair.server.recv_timeout(LONG).unwrap().unwrap(), b"ahoy", "{method}");
    }
}

#[test]
fn a_connection_is_open_at_both_ends_where_nothing_is_repeated() {
    let fault = FaultOptions { loss: 0.15, ..FaultOptions::default() };
    let options = under(fault);
    let mut received = 0;
    for _ in 0..20 {
        let pair = pair_with(Method::A1, &"loss=any direction=duplex".parse().unwrap(), &options);
        drop(pair.client.send(b"ahoy".to_vec()).unwrap());
        pair.client.close(LONG).unwrap();
        drop(pair.client);
        received += usize::from(pair.server.recv_timeout(LONG).unwrap().is_some_and(|message| *message == *b"ahoy"));
    }
    assert!(received > 8, "{received} of 20");
}

#[test]
fn what_is_overtaken_is_told_and_comes_late() {
    // Who is repeated within the millisecond is not overtaken: so it goes in a third of the rounds here, and in more of
    // them where what stands behind the large ones leaves later. Every round keeps its accounts.
    assert!((0..40).any(|_| overtaken() > 0), "nothing was overtaken");
}

/// How many messages have come late, of some that are large and of which much is lost.
fn overtaken() -> u64 {
    // Those behind it wait no longer than a millisecond for a large frame that is repeated in part again and again.
    let fault = FaultOptions { loss: 0.3, ..FaultOptions::default() };
    let options = under(fault);
    let service: Service = "loss=1% run=1400 deadline=1ms order=yes".parse().unwrap();
    let Pair { client, server, _endpoint } = pair_with(Method::Vrp, &service, &options);
    let reliable = PerMessage::new().contract(Contract::new()).deadline(Duration::from_secs(3600));
    let mut deliveries = Vec::new();
    for number in 0..20 {
        let len = if number % 4 == 0 { 400_000 } else { 100 };
        deliveries.push(client.send_with(pattern(len, number), &reliable).unwrap());
    }
    let (mut seen, mut missing, mut late) = ([false; 20], 0, 0);
    for _ in 0..20 {
        let received = server.recv_timeout(LONG).unwrap().unwrap();
        let number = (0..20).find(|number| *received == *pattern(received.len(), *number)).expect("one of them");
        assert!(!std::mem::replace(&mut seen[usize::from(number)], true), "{number} came twice");
        let before = seen[..usize::from(number)].iter().filter(|seen| !**seen).count() as u64;
        missing += received.missed();
        late += u64::from(received.is_late());
        // Who is not there before it has been told of as missed, and is late when it comes.
        assert!(received.is_late() || before <= missing - late, "{number}: {before} before it, {missing}, {late}");
    }
    assert_eq!((missing, late), (late, missing), "who was missed has come late");
    deliveries.into_iter().for_each(|delivery| drop(delivery.wait().unwrap()));
    late
}
