//! What an engine does with datagrams that lie.
mod half;

use core::time::Duration;
use half::liar::{CHECKED, END, Liar, Lie, MULTICAST, RELIABLE, RETRANSMITTED, START, seal};
use half::{Got, Half, PEER, PORT, config, record};
use pinnace_a1::{Address as Name, Config, ConnectionId, Event, Failure, Limits, Output, Qos};
use pinnace_core::{Address, Ecn, Random, Storage};
use pinnace_wire::a1::{Body, Kind, RejectCode};

fn server_of(config: Config) -> Half {
    let mut half = Half::new(config);
    half.call(|engine, _| engine.listen(10, true)).expect("nobody listens");
    half
}

fn server() -> Half {
    server_of(config(record()))
}

/// A server, and a peer with a connection to it.
fn connected(qos: Qos) -> (Half, Liar, ConnectionId) {
    let mut half = server_of(config(qos));
    half.advance(Duration::from_millis(5));
    let mut liar = Liar::new(PEER, 0x77, qos);
    liar.connect(&mut half, PORT);
    assert!(liar.theirs != 0);
    let id = accepted(&half)[0];
    half.call(|engine, _| engine.taken(id));
    half.take();
    (half, liar, id)
}

fn accepted(half: &Half) -> Vec<ConnectionId> {
    let events = half.events.iter();
    events.filter_map(|it| if let Event::Accepted { connection, .. } = it { Some(*connection) } else { None }).collect()
}

fn kinds(sent: &[Got]) -> Vec<Kind> {
    sent.iter().map(Got::kind).collect()
}

/// Reads everything.
fn read(half: &mut Half, id: ConnectionId) -> u64 {
    let mut bytes = 0;
    while let Some(readable) = half.a1().readable(id) {
        bytes += u64::from(readable.len());
        half.call(|engine, now| engine.consume(now, id, readable.len()));
    }
    bytes
}

fn is_open(half: &Half, id: ConnectionId) -> bool {
    half.a1().facts(half.now, id).is_some_and(|facts| facts.is_open)
}

#[test]
fn a_flood_of_opens_leaves_no_state_and_gets_no_more_than_it_sends() {
    let mut half = server();
    for number in 0..20_000_u32 {
        let (from, id) = (Address::Node(100 + number), 1 + number);
        half.feed(from, &Liar::new(from, id, record()).open(PORT, &[], None));
        half.advance(Duration::from_micros(50));
    }
    assert_eq!((half.a1().connections(), half.events.len(), half.a1().bytes()), (0, 0, 0));
    assert_eq!(half.sent.len(), 20_000);
    assert!(half.traffic.values().all(|traffic| traffic.sent <= traffic.received), "no amplification");
    // One batch of more than may wait.
    let mut half = server_of(Config { limits: Limits { replies: 5, ..Limits::default() }, ..config(record()) });
    let open = Liar::new(PEER, 3, record()).open(PORT, &[], None);
    half.read(PEER, Ecn::NotCapable, &vec![open; 20]);
    assert_eq!((half.sent.len(), half.a1().counters().replies_withheld), (5, 15));
}

#[test]
fn without_validation_a_stranger_gets_three_times_at_most() {
    let mut half = server_of(Config { validates: false, ..config(record()) });
    let liar = Liar::new(PEER, 3, record());
    half.feed(PEER, &liar.open(PORT, &[], None));
    let id = accepted(&half)[0];
    let buffer = half.memory.add(vec![1; 10_000]);
    half.call(|engine, now| engine.send(now, id, Output::new(buffer, 10_000))).expect("room");
    half.advance(Duration::from_secs(10));
    let traffic = half.traffic[&PEER];
    assert!(traffic.sent <= 3 * traffic.received, "{traffic:?}");
    for _ in 0..10 {
        half.feed(PEER, &liar.open(PORT, &[], None));
    }
    let traffic = half.traffic[&PEER];
    assert!(traffic.sent <= 3 * traffic.received, "{traffic:?}");
    assert!(half.take().iter().all(|got| matches!(got.kind(), Kind::Accept | Kind::Sync)));
    half.advance(Duration::from_secs(60));
    assert!(half.events.iter().any(|event| matches!(event, Event::Closed { result: Err(Failure::Abandoned), .. })));
    let traffic = half.traffic[&PEER];
    assert!(traffic.sent <= 3 * traffic.received, "{traffic:?}");
}

#[test]
fn a_stranger_whose_connection_ends_is_not_told_without_end() {
    for how in 0..3 {
        let mut half = server_of(Config { validates: false, ..config(record()) });
        half.feed(PEER, &Liar::new(PEER, 3, record()).open(PORT, &[], None));
        let id = accepted(&half)[0];
        match how {
            0 => half.call(|engine, now| engine.release(now, id)),
            1 => half.call(|engine, now| engine.close(now, id, Duration::from_secs(1))).expect("it lives"),
            _ => half.call(|engine, now| engine.shut_down(now)),
        }
        half.advance(Duration::from_secs(300));
        let traffic = half.traffic[&PEER];
        assert!(traffic.sent <= 3 * traffic.received, "{how}: {traffic:?}");
        assert_eq!(half.events.iter().filter(|it| matches!(it, Event::Closed { .. })).count(), 1);
        half.call(|engine, now| engine.release(now, id));
        assert_eq!(half.a1().connections(), 0);
    }
}

#[test]
fn cookies_are_for_one_address_one_identifier_and_a_minute() {
    let mut half = server();
    let liar = Liar::new(PEER, 0x77, record());
    half.feed(PEER, &liar.open(PORT, &[], None));
    let sent = half.take();
    let Some(Body::Reject(pinnace_wire::a1::Reject::Cookie(cookie))) = sent[0].body() else { panic!() };
    let cookie = cookie.bytes().to_vec();
    let mut wrong = cookie.clone();
    wrong[20] ^= 1;
    let other = Liar::new(PEER, 0x78, record());
    for (from, open) in [
        (Address::Node(2), liar.open(PORT, &cookie, None)),
        (PEER, liar.open(PORT, &wrong, None)),
        (PEER, liar.open(PORT, &cookie[..16], None)),
        (PEER, other.open(PORT, &cookie, None)),
    ] {
        half.feed(from, &open);
        assert_eq!(kinds(&half.take()), [Kind::Reject]);
        assert_eq!(half.a1().connections(), 0);
    }
    assert_eq!(half.a1().counters().cookies_wrong, 4);
    half.advance(Duration::from_secs(61));
    half.feed(PEER, &liar.open(PORT, &cookie, None));
    assert_eq!((kinds(&half.take()), half.a1().connections()), (vec![Kind::Reject], 0), "too old");
    let mut liar = liar;
    let sent = liar.connect(&mut half, PORT);
    assert_eq!(kinds(&sent)[0], Kind::Accept);
    // A repetition gets the same ACCEPT, and makes nothing new.
    for _ in 0..5 {
        half.feed(PEER, &liar.open(PORT, &cookie, None));
        let again = half.take();
        assert_eq!(again[0].body(), sent[0].body());
        assert_eq!(again[0].header().sequence, sent[0].header().sequence);
    }
    assert_eq!(half.a1().connections(), 1);
}

#[test]
fn the_opener_believes_one_cookie_and_no_strangers() {
    let open_one = || {
        let mut half = Half::new(config(record()));
        let name = Name { host: 1, port: 9 };
        half.call(|engine, now| engine.open(now, PEER, name, record())).expect("room");
        let open = half.take().remove(0);
        (half, open)
    };
    let reject = |open: &Got, code: u16, text: &[u8]| {
        let mut body = code.to_be_bytes().to_vec();
        body.extend((text.len() as u16).to_be_bytes());
        body.extend(text);
        let connection = open.header().connection.get();
        Lie { kind: 3, flags: CHECKED, connection, stamp: open.header().stamp, body, ..Lie::default() }.bytes()
    };
    // A second cookie for the same OPEN is an error.
    let (mut half, open) = open_one();
    half.advance(Duration::from_millis(3));
    half.feed(PEER, &reject(&open, 4, &[9; 24]));
    let again = half.take();
    let Some(Body::Open(said)) = again[0].body() else { panic!() };
    assert_eq!(said.cookie.expect("repeated").bytes(), [9; 24]);
    assert_eq!(again[0].header().sequence, open.header().sequence);
    half.feed(PEER, &reject(&open, 4, &[8; 24]));
    assert!(half.events.is_empty(), "the answer to the first OPEN, late or twice");
    half.advance(Duration::from_millis(3));
    half.feed(PEER, &reject(&again[0], 4, &[8; 24]));
    assert!(matches!(half.events.last(), Some(Event::Closed { result: Err(Failure::Violation), .. })));
    // The OPEN is repeated, and its first answer arrives in the same microsecond: the second answer is none to the cookie.
    let (mut half, open) = open_one();
    while half.sent.is_empty() {
        half.now = half.next_timer().expect("it is repeated");
        let now = half.now;
        half.engine.handle_timeout(now);
        half.drain();
    }
    let second = half.take().remove(0);
    half.feed(PEER, &reject(&open, 4, &[9; 24]));
    let third = half.take().remove(0);
    assert_ne!(second.header().stamp, third.header().stamp);
    half.feed(PEER, &reject(&second, 4, &[8; 24]));
    assert!(half.events.is_empty(), "{:?}", half.events);
    half.feed(PEER, &reject(&third, 4, &[8; 24]));
    assert!(matches!(half.events.last(), Some(Event::Closed { result: Err(Failure::Violation), .. })));
    // With the cookie it is another question: its repetitions start anew. What the request for it took is no round trip.
    let (mut half, open) = open_one();
    let repeat = |half: &mut Half, times: usize| {
        let begun = half.now;
        let (mut waits, mut last) = (Vec::new(), open.clone());
        while waits.len() < times && half.events.is_empty() {
            half.now = half.next_timer().expect("it is repeated, or over");
            let now = half.now;
            half.engine.handle_timeout(now);
            half.drain();
            for again in half.take() {
                waits.push(half.now.since(begun).as_millis());
                last = again;
            }
        }
        (waits, last)
    };
    let (waits, last) = repeat(&mut half, 4);
    assert_eq!(waits, [250, 750, 1750, 3750]);
    half.advance(Duration::from_millis(3));
    half.feed(PEER, &reject(&last, 4, &[9; 24]));
    assert_eq!(half.take().len(), 1);
    let (waits, _) = repeat(&mut half, 99);
    assert_eq!(waits, [250, 750, 1750, 3750, 7750, 15_750, 31_750, 63_750]);
    assert!(matches!(half.events.last(), Some(Event::Closed { result: Err(Failure::TimedOut), .. })));
    // REJECTs from elsewhere and for others change nothing.
    let (mut half, open) = open_one();
    half.feed(Address::Node(9), &reject(&open, 1, b"no"));
    let mut other = open.clone();
    other.head.header.connection = core::num::NonZeroU32::new(open.header().connection.get() ^ 1).expect("not 0");
    half.feed(PEER, &reject(&other, 1, b"no"));
    for code in [0, 7, 9, u16::MAX] {
        half.feed(PEER, &reject(&open, code, b"what?"));
    }
    half.feed(PEER, &reject(&open, 4, &[1; 15]));
    half.feed(PEER, &reject(&open, 4, &[1; 65]));
    assert!(half.events.is_empty() && half.sent.is_empty(), "{:?}", half.events);
    half.feed(PEER, &reject(&open, 6, b"not you"));
    let refused = Failure::Refused { code: RejectCode::NotAuthorised, text: "not you".to_owned() };
    assert!(matches!(half.events.last(), Some(Event::Closed { result: Err(failure), .. }) if *failure == refused));
    // ACCEPTs that do not answer the OPEN.
    for qos in [
        Qos { block_size: 101, ..record() },
        Qos { has_retransmission: false, ..record() },
        Qos { has_checksum: true, ..record() },
        Qos { largest_sent: 10_001, ..record() },
        Qos { block_size: 0, ..record() },
        Qos { block_size: u32::MAX, ..record() },
    ] {
        let (mut half, open) = open_one();
        let accept = Liar::new(PEER, 5, qos).accept(&open);
        half.feed(PEER, &accept);
        half.advance(Duration::from_millis(1));
        assert!(half.a1().connections() == 1 && !half.events.iter().any(|it| matches!(it, Event::Connected { .. })));
        assert_eq!(kinds(&half.take()), [Kind::Close], "{qos:?}");
    }
    let (mut half, open) = open_one();
    let accept = Liar::new(PEER, 5, record()).accept(&open);
    half.feed(Address::Node(3), &accept);
    assert!(half.events.is_empty());
    half.feed(PEER, &accept);
    half.feed(PEER, &accept);
    assert_eq!(half.events.iter().filter(|it| matches!(it, Event::Connected { .. })).count(), 1);
}

#[test]
fn records_of_zeros_and_of_maxima_allocate_nothing_and_divide_by_nothing() {
    let most = Qos {
        priority: 255,
        block_size: 65_475,
        send_average: u64::MAX,
        send_burst: u32::MAX,
        receive_average: u64::MAX,
        receive_burst: u32::MAX,
        largest_sent: 10_000,
        largest_received: u32::MAX,
        outstanding: u32::MAX,
        deadline: u32::MAX,
        ..record()
    };
    let none = Qos { has_retransmission: true, largest_received: 10_000, block_size: 1, ..Qos::default() };
    let slow = Qos { send_average: 1, send_burst: 0, receive_average: 1, receive_burst: 0, ..record() };
    for qos in [most, none, slow, Qos { largest_received: 10_000, ..none }] {
        let mut half = server();
        let mut liar = Liar::new(PEER, 3, qos);
        let sent = liar.connect(&mut half, PORT);
        if sent[0].kind() == Kind::Reject {
            continue;
        }
        let id = accepted(&half)[0];
        let buffer = half.memory.add(vec![1; 10_000]);
        if half.call(|engine, now| engine.send(now, id, Output::new(buffer, 10_000))).is_err() {
            half.memory.end(buffer);
        }
        half.advance(Duration::from_millis(100));
        let block = [1; 100];
        half.feed(PEER, &liar.block(0, 0, (0, 2), &block[..(qos.block_size.min(100)) as usize]).bytes());
        // The same as changes of the record.
        for (epoch, asked) in [most, none, slow, Qos::default(), record()].into_iter().enumerate() {
            half.feed(PEER, &change(&liar, 1 + epoch as u32, &asked));
            half.advance(Duration::from_millis(100));
        }
        half.advance(Duration::from_secs(200));
        assert!(half.a1().bytes() <= 50_000, "{}", half.a1().bytes());
    }
    for refused in [Qos { block_size: 0, ..record() }, Qos { block_size: 65_476, ..record() }, Qos::default()] {
        let mut half = server();
        let mut liar = Liar::new(PEER, 3, refused);
        assert!(kinds(&liar.connect(&mut half, PORT)).iter().all(|kind| *kind == Kind::Reject));
        assert_eq!(half.a1().connections(), 0);
    }
}

fn change(liar: &Liar, epoch: u32, qos: &Qos) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = pinnace_wire::a1::Header {
        connection: core::num::NonZeroU32::new(liar.theirs).expect("not 0"),
        sequence: liar.start,
        edge: liar.their_start.wrapping_add(liar.window),
        stamp: liar.stamp,
        is_checked: qos.has_checksum,
        is_retransmitted: false,
    };
    pinnace_wire::a1::qos(&header, &pinnace_wire::a1::Change { epoch, qos: *qos }, &mut bytes);
    bytes
}

//= A-12 test
#[test]
fn old_epochs_are_answered_alike_and_what_cannot_change_does_not() {
    let (mut half, liar, id) = connected(record());
    half.feed(PEER, &change(&liar, 5, &Qos { outstanding: 2, block_size: 7, has_retransmission: false, ..record() }));
    let first = half.take();
    let Some(Body::QosReply(answer)) = first[0].body() else { panic!("{first:?}") };
    assert_eq!((answer.qos.block_size, answer.qos.has_retransmission, answer.qos.outstanding), (100, true, 2));
    for epoch in [5, 4, 1, 0] {
        half.feed(PEER, &change(&liar, epoch, &Qos { outstanding: 3, ..record() }));
        let again = half.take();
        let Some(Body::QosReply(answer)) = again[0].body() else { panic!("{again:?}") };
        assert_eq!((answer.epoch, answer.qos.outstanding), (5, 2));
    }
    assert_eq!(half.a1().counters().qos_changes, 1);
    // Answers to what was never asked.
    for epoch in [0, 1, 2, u32::MAX] {
        let mut reply = change(&liar, epoch, &record());
        reply[0] = Kind::QosReply as u8;
        half.feed(PEER, &reply);
    }
    assert_eq!(half.a1().counters().qos_changes, 1);
    assert!(is_open(&half, id));
}

/// A block behind the end of a message's storage would be acknowledged, and nobody could read it.
//= A-12, A-20 test
#[test]
fn a_message_that_grows_when_larger_ones_are_allowed_is_not_believed() {
    for has_retransmission in [true, false] {
        let small = Qos { has_retransmission, largest_sent: 250, ..record() };
        let mut half = server_of(config(Qos { has_retransmission, ..record() }));
        let mut liar = Liar::new(PEER, 0x77, small);
        liar.connect(&mut half, PORT);
        let id = accepted(&half)[0];
        half.feed(PEER, &liar.block(0, 0, (0, 3), &[1; 100]).bytes());
        half.feed(PEER, &change(&liar, 1, &Qos { largest_sent: 10_000, ..small }));
        half.feed(PEER, &liar.block(1, 0, (1, 3), &[1; 100]).bytes());
        half.feed(PEER, &liar.block(2, 0, (2, 3), &[1; 100]).bytes());
        let facts = half.a1().facts(half.now, id).expect("there");
        assert_eq!((facts.expected, half.a1().counters().blocks_contradictory), (2, 1));
        half.feed(PEER, &liar.block(2, 0, (2, 3), &[1; 50]).bytes());
        assert_eq!(read(&mut half, id), 250);
    }
}

//= A-12 test
#[test]
fn a_larger_message_that_overtakes_the_answer_which_allows_it_has_room() {
    let small = Qos { largest_received: 250, ..record() };
    let mut half = Half::new(config(record()));
    let id = half.call(|engine, now| engine.open(now, PEER, Name { host: 1, port: 9 }, small)).expect("room");
    let open = half.take().remove(0);
    let mut liar = Liar::new(PEER, 5, Qos { largest_sent: 250, ..record() });
    let accept = liar.accept(&open);
    half.feed(PEER, &accept);
    half.call(|engine, now| engine.set_qos(now, id, record())).expect("within the maximum");
    half.feed(PEER, &liar.block(0, 0, (0, 3), &[1; 100]).bytes());
    half.feed(PEER, &liar.block(1, 0, (1, 3), &[1; 100]).bytes());
    let mut reply = change(&liar, 1, &record());
    reply[0] = Kind::QosReply as u8;
    half.feed(PEER, &reply);
    half.feed(PEER, &liar.block(2, 0, (2, 3), &[1; 100]).bytes());
    assert_eq!((half.a1().counters().qos_changes, read(&mut half, id)), (1, 300));
}

#[test]
fn counts_that_lie_change_nothing() {
    let (mut half, liar, id) = connected(record());
    half.feed(PEER, &liar.block(0, 0, (0, 3), &[1; 100]).bytes());
    half.take();
    let honest = half.a1().bytes();
    let block = |number, message, place, len: usize| liar.block(number, message, place, &vec![1; len]);
    let lies = [
        block(1, 0, (1, 4), 100),
        block(1, 0, (0, 3), 100),
        block(1, 0, (2, 3), 50),
        block(1, 1, (1, 3), 100),
        block(1, 0, (1, 3), 99),
        block(1, 0, (1, 3), 101),
        block(1, 0, (1, 2), 0),
        block(2, 0, (2, 3), 0),
        block(3, 1, (0, 101), 100),
        block(3, 1, (0, 65_535), 100),
        block(3, 5, (0, 1), 100),
        Lie { index: 3, count: 3, ..block(3, 0, (2, 3), 100) },
        Lie { count: 0, ..block(3, 0, (0, 1), 100) },
        Lie { flags: RELIABLE | START, ..block(1, 0, (1, 3), 100) },
        Lie { flags: RELIABLE | END, ..block(1, 0, (1, 3), 100) },
        Lie { flags: 0, ..block(1, 0, (1, 3), 100) },
        Lie { flags: RELIABLE | 64, ..block(1, 0, (1, 3), 100) },
        Lie { flags: RELIABLE | MULTICAST, ..block(1, 0, (1, 3), 100) },
        Lie { length: Some(99), ..block(1, 0, (1, 3), 100) },
        Lie { length: Some(u32::MAX), ..block(1, 0, (1, 3), 100) },
        Lie { connection: liar.theirs ^ 1, ..block(1, 0, (1, 3), 100) },
        Lie { connection: 0, ..block(1, 0, (1, 3), 100) },
    ];
    for lie in &lies {
        half.feed(PEER, &lie.bytes());
        let facts = half.a1().facts(half.now, id).expect("there");
        assert_eq!((facts.expected, half.a1().bytes()), (1, honest), "{lie:?}");
    }
    for number in [400, 401, 1000, 1 << 19, 1 << 20, 1 << 30, u32::MAX >> 1] {
        half.feed(PEER, &block(number, 1, (0, 1), 100).bytes());
        assert_eq!(half.a1().bytes(), honest, "{number} lies beyond the edge");
    }
    half.feed(PEER, &block(1, 0, (1, 3), 100).bytes());
    half.feed(PEER, &block(2, 0, (2, 3), 50).bytes());
    assert_eq!(read(&mut half, id), 250, "the truth still counts");
    let counters = half.a1().counters();
    assert!(counters.blocks_contradictory > 5 && counters.datagrams_malformed > 5, "{counters:?}");
}

#[test]
fn a_window_full_of_blocks_is_all_that_is_kept() {
    let (mut half, liar, id) = connected(record());
    // The last block of every message of the window first: storage for all of them.
    for number in 0..100_000_u32 {
        let message = number % 400;
        half.feed(PEER, &liar.block(number, message, (0, 1), &[1; 100]).bytes());
        half.feed(PEER, &liar.block(number.wrapping_mul(100), message, (0, 100), &[1; 100]).bytes());
        if number % 1000 == 0 {
            half.sent.clear();
        }
    }
    assert!(half.a1().bytes() <= 400 * 100 + 10_000, "{}", half.a1().bytes());
    assert!(is_open(&half, id));
    half.call(|engine, now| engine.release(now, id));
    half.advance(Duration::from_secs(200));
    assert_eq!((half.a1().connections(), half.a1().bytes()), (0, 0));
}

#[test]
fn messages_of_a_byte_take_no_more_memory_than_is_allowed() {
    let limits = Limits { bytes: 64 << 10, ..Limits::default() };
    for len in [1, 0] {
        let mut half = server_of(Config { limits: limits.clone(), ..config(record()) });
        half.advance(Duration::from_millis(5));
        let mut liar = Liar::new(PEER, 0x77, record());
        liar.connect(&mut half, PORT);
        // All but the first: nobody can read them.
        for number in 1..400 {
            half.feed(PEER, &liar.block(number, number, (0, 1), &vec![1; len]).bytes());
        }
        let dropped = half.a1().counters().blocks_dropped;
        assert_eq!(dropped, 399 - (64 << 10) / 256, "{len}");
        half.take();
        // For the first there is room nevertheless: with it all can be read.
        let id = accepted(&half)[0];
        half.feed(PEER, &liar.block(0, 0, (0, 1), &[1; 50]).bytes());
        assert_eq!(half.a1().counters().blocks_dropped, dropped, "{len}");
        assert_eq!(read(&mut half, id), 50 + 256 * len as u64);
        half.feed(PEER, &liar.block(300, 300, (0, 1), &vec![1; len]).bytes());
        assert_eq!(half.a1().counters().blocks_dropped, dropped, "there is room again");
    }
}

/// An engine that has sent 50 blocks, of which nothing is acknowledged.
fn sending() -> (Half, Liar, ConnectionId) {
    let (mut half, liar, id) = connected(record());
    let buffer = half.memory.add(vec![1; 5000]);
    half.call(|engine, now| engine.send(now, id, Output::new(buffer, 5000))).expect("room");
    let blocks = half.take().iter().filter(|got| got.kind() == Kind::Data).count();
    assert_eq!(blocks, 50);
    (half, liar, id)
}

//= A-7 test
#[test]
fn answers_about_what_was_never_sent_are_not_believed() {
    let (mut half, liar, id) = sending();
    half.advance(Duration::from_millis(30));
    half.take();
    type Answer<'a> = (Kind, u32, &'a [(u32, u32)]);
    let lies: [Answer<'_>; 12] = [
        (Kind::Ack, 51, &[]),
        (Kind::Ack, 1 << 20, &[]),
        (Kind::Ack, u32::MAX, &[]),
        (Kind::Ack, 0, &[(40, 51)]),
        (Kind::Ack, 0, &[(60, 70)]),
        (Kind::Ack, 0, &[(10, 5)]),
        (Kind::Ack, 0, &[(10, 10)]),
        (Kind::Ack, 0, &[(1 << 30, (1 << 30) + 1)]),
        (Kind::Nack, 0, &[(40, 51)]),
        (Kind::Nack, 0, &[(51, 60)]),
        (Kind::Nack, 51, &[(51, 52)]),
        (Kind::Nack, 0, &[(5, u32::MAX)]),
    ];
    for (kind, next, ranges) in lies {
        half.feed(PEER, &liar.answer(kind, next, ranges).bytes());
        let facts = half.a1().facts(half.now, id).expect("there");
        assert_eq!((facts.acked, facts.repeated), (0, 0), "{kind:?} {next} {ranges:?}");
        assert!(half.take().iter().all(|got| got.kind() != Kind::Data), "{kind:?} {next} {ranges:?}");
    }
    // Edges that go back, or too far.
    for edge in [0, 1, 100, 1 << 20, 1 << 21, 1 << 30, 1 << 31, u32::MAX] {
        let lie = Lie { edge: liar.their_start.wrapping_add(edge), ..liar.answer(Kind::Ack, 0, &[]) };
        half.feed(PEER, &lie.bytes());
        let facts = half.a1().facts(half.now, id).expect("there");
        assert!((1000..1 << 20).contains(&facts.edge), "{edge}: {}", facts.edge);
    }
    // Everything is named a thousand times: a block is repeated once a round trip.
    half.advance(Duration::from_millis(100));
    half.take();
    for _ in 0..1000 {
        half.feed(PEER, &liar.answer(Kind::Nack, 0, &[(0, 50)]).bytes());
    }
    let repeated = half.take();
    assert_eq!(repeated.iter().filter(|got| got.kind() == Kind::Data).count(), 50);
    assert!(repeated.iter().filter(|got| got.kind() == Kind::Data).all(|got| got.header().is_retransmitted));
    half.feed(PEER, &liar.answer(Kind::Ack, 50, &[]).bytes());
    assert!(half.events.iter().any(|event| matches!(event, Event::Sent { delivered: true, .. })));
    assert!(is_open(&half, id));
}

//= A-8 test
#[test]
fn stamps_that_were_never_sent_measure_nothing() {
    let (mut half, liar, id) = connected(record());
    let before = half.a1().counters().round_trips;
    for stamp in [0, 1, 1 << 31, u32::MAX, (half.now.as_nanos() / 1000) as u32 + 5_000_000] {
        half.feed(PEER, &Lie { stamp, ..liar.answer(Kind::SyncReply, 0, &[]) }.bytes());
        for kind in [Kind::Ack, Kind::CloseReply] {
            half.feed(PEER, &Lie { stamp, ..liar.answer(kind, 0, &[]) }.bytes());
        }
    }
    assert_eq!(half.a1().counters().round_trips, before);
    assert!(half.a1().counters().stamps_wrong >= 4);
    assert_eq!(half.a1().facts(half.now, id).expect("there").round_trip, None);
}

#[test]
fn what_has_no_checksum_or_a_wrong_one_is_dropped_where_they_are_agreed_on() {
    let qos = Qos { has_checksum: true, ..record() };
    let (mut half, liar, id) = connected(qos);
    let block = liar.block(0, 0, (0, 1), &[1; 50]);
    let without = Lie { flags: block.flags & !CHECKED, ..block.clone() };
    half.feed(PEER, &without.bytes());
    let mut wrong = block.bytes();
    wrong[40] ^= 1;
    half.feed(PEER, &wrong);
    for kind in [Kind::Ack, Kind::Sync, Kind::Close, Kind::Qos] {
        let mut lie = Lie { flags: 0, ..liar.lie(kind) };
        lie.body = if kind == Kind::Close { vec![0, 1] } else { vec![] };
        half.feed(PEER, &lie.bytes());
    }
    assert_eq!(half.a1().facts(half.now, id).expect("there").expected, 0);
    assert!(is_open(&half, id));
    assert!(half.take().iter().all(|got| got.kind() == Kind::Sync), "nothing is answered");
    half.feed(PEER, &block.bytes());
    assert_eq!(read(&mut half, id), 50);
    // And a sum where none was agreed on is checked.
    let (mut half, liar, id) = connected(record());
    let mut wrong = Lie { flags: block.flags | CHECKED, ..liar.block(0, 0, (0, 1), &[1; 50]) }.bytes();
    wrong[40] ^= 1;
    half.feed(PEER, &wrong);
    assert_eq!(read(&mut half, id), 0);
    seal(&mut wrong);
    half.feed(PEER, &wrong);
    assert_eq!(read(&mut half, id), 50, "more than was agreed on does no harm");
}

#[test]
fn datagrams_from_another_address_are_dropped() {
    let (mut half, liar, id) = sending();
    let stranger = Address::Node(2);
    let before = half.a1().counters().datagrams_unknown;
    let close = Lie { body: vec![0, 1], ..liar.lie(Kind::Close) };
    let lies = [
        close.bytes(),
        liar.answer(Kind::Ack, 50, &[]).bytes(),
        liar.answer(Kind::Nack, 0, &[(0, 50)]).bytes(),
        liar.block(0, 0, (0, 1), &[1; 10]).bytes(),
        liar.lie(Kind::Sync).bytes(),
        change(&liar, 1, &record()),
    ];
    for lie in &lies {
        half.feed(stranger, lie);
    }
    assert_eq!(half.a1().counters().datagrams_unknown - before, lies.len() as u64);
    assert!(half.sent.is_empty() && is_open(&half, id) && !half.traffic.contains_key(&Address::Node(3)));
    assert_eq!(half.traffic[&stranger].sent, 0);
}

#[test]
fn every_truncation_of_every_datagram_is_dropped() {
    let (mut half, liar, id) = sending();
    let close = Lie { body: vec![0, 0], ..liar.lie(Kind::Close) };
    let zoo = [
        liar.open(PORT, &[7; 24], None),
        liar.block(0, 0, (0, 1), &[1; 50]).bytes(),
        liar.answer(Kind::Ack, 0, &[(3, 5), (8, 9)]).bytes(),
        liar.answer(Kind::Nack, 0, &[(3, 5), (8, 9)]).bytes(),
        liar.lie(Kind::Sync).bytes(),
        close.bytes(),
        change(&liar, 1, &record()),
    ];
    for datagram in &zoo {
        for len in 1..datagram.len() {
            half.feed(PEER, &datagram[..len]);
        }
        half.feed(PEER, &[&datagram[..], &[0]].concat());
    }
    let count: usize = zoo.iter().map(Vec::len).sum();
    assert_eq!(half.a1().counters().datagrams_malformed, count as u64);
    assert!(half.sent.is_empty() && is_open(&half, id));
}

#[test]
fn a_sync_that_says_more_than_may_be_is_no_reason_to_ask_for_it() {
    let (mut half, liar, id) = connected(record());
    for sent in [401, 1000, 1 << 20, 1 << 31, u32::MAX] {
        half.feed(PEER, &Lie { sequence: liar.start.wrapping_add(sent), ..liar.lie(Kind::Sync) }.bytes());
        assert!(half.take().iter().all(|got| got.kind() != Kind::Nack), "{sent}");
    }
    half.feed(PEER, &Lie { sequence: liar.start.wrapping_add(400), ..liar.lie(Kind::Sync) }.bytes());
    let nacks = half.take();
    let nack = nacks.iter().find(|got| got.kind() == Kind::Nack).expect("asked");
    let Some(Body::Nack(ranges)) = nack.body() else { panic!() };
    assert_eq!(ranges.iter().collect::<Vec<_>>(), [(liar.start, liar.start.wrapping_add(400))]);
    // It asks again, but not without end: who sends nothing is given up by nobody, and costs little.
    half.advance(Duration::from_secs(10));
    assert!(half.take().len() < 600);
    assert!(is_open(&half, id));
}

#[test]
fn closes_of_all_kinds_are_answered_and_end_it_once() {
    for code in [0_u16, 1, 2, 9, u16::MAX] {
        let (mut half, liar, id) = sending();
        let close = Lie { body: code.to_be_bytes().to_vec(), ..liar.lie(Kind::Close) }.bytes();
        for _ in 0..3 {
            half.feed(PEER, &close);
        }
        let closed: Vec<_> = half.events.iter().filter(|it| matches!(it, Event::Closed { .. })).collect();
        assert_eq!(closed.len(), usize::from(code < 2), "{code}");
        if code < 2 {
            assert_eq!(kinds(&half.take()), [Kind::CloseReply; 3]);
            // What comes afterwards changes nothing.
            half.feed(PEER, &liar.block(0, 0, (0, 1), &[1; 10]).bytes());
            half.feed(PEER, &liar.answer(Kind::Ack, 50, &[]).bytes());
            half.feed(PEER, &change(&liar, 1, &record()));
            assert!(half.take().is_empty() && read(&mut half, id) == 0);
        }
        half.call(|engine, now| engine.release(now, id));
        half.advance(Duration::from_secs(200));
        assert_eq!(half.a1().connections(), 0);
    }
}

#[test]
fn the_name_of_a_connection_that_is_over_can_be_used_again_though_nobody_has_released_the_old_one() {
    let (mut half, mut liar, old) = connected(record());
    let theirs = liar.theirs;
    half.feed(PEER, &Lie { body: vec![0, 0], ..liar.lie(Kind::Close) }.bytes());
    half.take();
    let open = liar.open(PORT, &[], None);
    half.feed(PEER, &open);
    assert!(half.take().is_empty(), "it may be an old one");
    let time_wait = half.a1().config().time_wait;
    half.advance(time_wait + Duration::from_millis(1));
    liar.connect(&mut half, PORT);
    assert_ne!(liar.theirs, theirs);
    // The old one takes nothing away from the new one when it goes.
    half.call(|engine, now| engine.release(now, old));
    assert_eq!(half.a1().connections(), 1);
    half.feed(PEER, &open);
    assert_eq!(kinds(&half.take()), [Kind::Accept], "it has this one already");
    let id = accepted(&half)[1];
    half.feed(PEER, &liar.block(0, 0, (0, 1), &[1; 50]).bytes());
    assert_eq!(read(&mut half, id), 50);
}

#[test]
fn noise_changes_nothing_that_it_should_not() {
    for checksum in [false, true] {
        let qos = Qos { has_checksum: checksum, ..record() };
        let mut half = server_of(Config { limits: Limits { connections: 50, ..Limits::default() }, ..config(qos) });
        let mut random = Random::from_seed(7);
        let mut liar = Liar::new(PEER, 0x77, qos);
        let mut opened = 0;
        for turn in 0..60_000_u32 {
            if turn % 2000 == 0 {
                liar = Liar::new(PEER, 0x77 + turn, qos);
                liar.connect(&mut half, PORT);
                opened += 1;
                if let Some(id) = accepted(&half).last() {
                    let (id, buffer) = (*id, half.memory.add(vec![1; 5000]));
                    half.call(|engine, _| engine.taken(id));
                    if half.call(|engine, now| engine.send(now, id, Output::new(buffer, 5000))).is_err() {
                        half.memory.end(buffer);
                    }
                }
            }
            let number = random.below(60) as u32;
            let mut datagram = match random.below(7) {
                0 => liar.block(number, number / 5, ((number % 5) as u16, 5), &[1; 100]).bytes(),
                1 => liar.answer(Kind::Ack, number / 2, &[(number / 2 + 2, number / 2 + 4)]).bytes(),
                2 => liar.answer(Kind::Nack, number / 2, &[(number / 2, number / 2 + 4)]).bytes(),
                3 => Lie { sequence: liar.start.wrapping_add(number), ..liar.lie(Kind::Sync) }.bytes(),
                4 => change(&liar, 1 + number, &qos),
                5 => liar.open(PORT, &[1; 24], None),
                _ => Lie { flags: liar.lie(Kind::Sync).flags | RETRANSMITTED, ..liar.answer(Kind::SyncReply, 0, &[]) }
                    .bytes(),
            };
            for _ in 0..random.below(4) {
                let at = random.below(datagram.len() as u64) as usize;
                datagram[at] = random.next_u32() as u8;
            }
            if !random.chance(0.1) {
                seal(&mut datagram);
            }
            half.feed(PEER, &datagram);
            if random.chance(0.02) {
                half.advance(Duration::from_millis(random.below(100)));
            }
            for event in half.events.split_off(0) {
                match event {
                    Event::Closed { connection, .. } => half.call(|engine, now| engine.release(now, connection)),
                    Event::Join { connection, .. } => {
                        half.call(|engine, now| engine.answer_join(now, connection, turn % 2 == 0));
                    }
                    Event::Readable { connection } if turn % 3 != 0 => drop(read(&mut half, connection)),
                    Event::Accepted { .. } => half.events.push(event),
                    _ => {}
                }
            }
            half.sent.clear();
        }
        assert!(opened == 30 && half.a1().counters().connections_accepted >= 30);
        for id in accepted(&half) {
            half.call(|engine, now| engine.release(now, id));
        }
        half.advance(Duration::from_secs(300));
        assert_eq!((half.a1().connections(), half.a1().bytes(), half.memory.lent), (0, 0, 0));
    }
}

#[test]
fn a_full_memory_loses_nothing_that_is_repeated() {
    let (mut half, liar, id) = connected(record());
    half.memory.is_full = true;
    half.feed(PEER, &liar.block(0, 0, (0, 1), &[1; 50]).bytes());
    assert_eq!((half.a1().facts(half.now, id).expect("there").expected, half.a1().bytes()), (0, 0));
    half.memory.is_full = false;
    let again = liar.block(0, 0, (0, 1), &[1; 50]);
    half.feed(PEER, &Lie { flags: again.flags | RETRANSMITTED, ..again }.bytes());
    assert_eq!(read(&mut half, id), 50);
    assert!(half.memory.allocate(0, &[]).is_some());
}
