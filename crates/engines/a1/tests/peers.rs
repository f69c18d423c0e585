//! What a peer written from the specification alone may say, and what it expects.
mod half;

use core::time::Duration;
use half::liar::{END, Liar, Lie, MULTICAST, RELIABLE, RETRANSMITTED, START, seal};
use half::{Got, Half, PEER, PORT, config, record};
use pinnace_a1::{Address as Name, Config, ConnectionId, Event, Failure, Group, Output, Qos};
use pinnace_core::{Address, Ecn, Engine, PathEvent};
use pinnace_wire::a1::{Body, CloseCode, Kind, RejectCode};

fn server_of(config: Config) -> Half {
    let mut half = Half::new(config);
    half.call(|engine, _| engine.listen(1000, true)).expect("nobody listens");
    half
}

fn accepted(half: &Half) -> ConnectionId {
    let mut events = half.events.iter().rev();
    events
        .find_map(|it| if let Event::Accepted { connection, .. } = it { Some(*connection) } else { None })
        .expect("a connection")
}

/// A server, and a peer with a connection to it.
fn connected() -> (Half, Liar, ConnectionId) {
    let mut half = server_of(config(record()));
    half.advance(Duration::from_millis(5));
    let mut liar = Liar::new(PEER, 0x77, record());
    liar.connect(&mut half, PORT);
    let id = accepted(&half);
    half.take();
    (half, liar, id)
}

/// An engine whose OPEN has left.
fn opening() -> (Half, Got) {
    let mut half = Half::new(config(record()));
    let name = Name { host: 1, port: 9 };
    half.call(|engine, now| engine.open(now, PEER, name, record())).expect("room");
    let open = half.take().remove(0);
    (half, open)
}

fn of(sent: &[Got], kind: Kind) -> Vec<&Got> {
    sent.iter().filter(|got| got.kind() == kind).collect()
}

fn send(half: &mut Half, id: ConnectionId, len: usize) {
    let buffer = half.memory.add(vec![1; len]);
    half.call(|engine, now| engine.send(now, id, Output::new(buffer, len as u64))).expect("room");
}

fn qos(liar: &Liar, epoch: u32, record: &Qos) -> Lie {
    let mut bytes = Vec::new();
    let change = pinnace_wire::a1::Change { epoch, qos: *record };
    let header = pinnace_wire::a1::Header {
        connection: liar.id,
        sequence: 0,
        edge: 0,
        stamp: 0,
        is_checked: false,
        is_retransmitted: false,
    };
    pinnace_wire::a1::qos(&header, &change, &mut bytes);
    Lie { body: bytes[32..].to_vec(), ..liar.lie(Kind::Qos) }
}

//= A-5 test
#[test]
fn an_answer_that_was_given_before_is_marked() {
    let (mut half, liar, _) = connected();
    for (epoch, is_marked) in [(1, false), (1, true), (0, true), (2, false), (1, true)] {
        half.feed(PEER, &qos(&liar, epoch, &record()).bytes());
        let sent = half.take();
        let replies = of(&sent, Kind::QosReply);
        assert_eq!(replies.len(), 1, "{epoch}");
        assert_eq!(replies[0].header().is_retransmitted, is_marked, "{epoch}");
    }
    for (code, is_marked) in [(0, false), (0, true), (1, false), (1, true)] {
        half.feed(PEER, &Lie { body: vec![0, code], ..liar.lie(Kind::Close) }.bytes());
        let sent = half.take();
        let replies = of(&sent, Kind::CloseReply);
        assert_eq!(replies.len(), 1, "{code}");
        assert_eq!(replies[0].header().is_retransmitted, is_marked, "{code}");
    }
}

//= A-5 test
//= A-7 test
#[test]
fn a_nack_that_says_nothing_new_is_marked() {
    let (mut half, liar, _) = connected();
    let nacks = |half: &mut Half| {
        let sent = half.take();
        let told = of(&sent, Kind::Nack).into_iter().map(|nack| {
            let Some(Body::Nack(ranges)) = nack.body() else { panic!() };
            let ranges: Vec<_> = ranges.iter().map(|(low, _)| low.wrapping_sub(liar.start)).collect();
            (ranges, nack.header().is_retransmitted)
        });
        told.collect::<Vec<_>>()
    };
    let block = |number: u32| liar.block(number, number, (0, 1), b"alone").bytes();
    half.feed(PEER, &block(0));
    half.feed(PEER, &block(2));
    assert_eq!(nacks(&mut half), [(vec![1], false)]);
    half.advance(Duration::from_millis(21));
    assert_eq!(nacks(&mut half), [(vec![1], true)]);
    // What is asked for anew goes with what was asked for before.
    half.now += Duration::from_millis(21);
    half.feed(PEER, &block(4));
    assert_eq!(nacks(&mut half), [(vec![1, 3], false)]);
    half.advance(Duration::from_millis(21));
    assert_eq!(nacks(&mut half), [(vec![1, 3], true)]);
}

//= A-18 test
#[test]
fn every_close_is_answered_also_of_those_that_are_read_together() {
    let (mut half, liar, _) = connected();
    let close = |stamp: u32| {
        let lie = liar.lie(Kind::Close);
        Lie { stamp, flags: lie.flags | if stamp > 1 { RETRANSMITTED } else { 0 }, body: vec![0, 0], ..lie }.bytes()
    };
    half.read(PEER, Ecn::NotCapable, &[close(1), close(2), close(3)]);
    let sent = half.take();
    let echo = |reply: &&Got| (reply.header().stamp, reply.header().is_retransmitted);
    let replies: Vec<_> = of(&sent, Kind::CloseReply).iter().map(echo).collect();
    assert_eq!(replies, [(1, false), (2, true), (3, true)]);
    half.read(PEER, Ecn::NotCapable, &(4..100).map(close).collect::<Vec<_>>());
    assert_eq!(half.take().len(), 16, "a flood is not");
}

//= A-5 test
//= A-18 test
#[test]
fn a_farewell_that_was_said_before_is_marked() {
    for is_normal in [false, true] {
        let (mut half, _, id) = connected();
        if is_normal {
            half.call(|engine, now| engine.close(now, id, Duration::ZERO)).expect("it lives");
        } else {
            half.call(|engine, now| engine.abort(now, id)).expect("it lives");
        }
        half.call(|engine, now| engine.shut_down(now));
        let sent = half.take();
        let said: Vec<_> = sent.iter().map(|got| (got.body(), got.header().is_retransmitted)).collect();
        let [(Some(first), false), (Some(last), is_marked)] = said[..] else { panic!("{said:?}") };
        assert_eq!(is_marked, first == last, "{said:?}");
        assert_eq!(is_marked, !is_normal);
    }
}

//= A-18 test
#[test]
fn nobody_waits_for_a_peer_whose_close_has_crossed() {
    let (mut half, mut liar, id) = connected();
    half.call(|engine, now| engine.close(now, id, Duration::ZERO)).expect("it lives");
    liar.stamp += 1;
    half.feed(PEER, &Lie { body: vec![0, 0], ..liar.lie(Kind::Close) }.bytes());
    let kinds = |half: &mut Half| half.take().iter().map(Got::kind).collect::<Vec<_>>();
    assert_eq!(kinds(&mut half), [Kind::Close, Kind::CloseReply]);
    assert_eq!(ended(&half), Some(&Ok(())));
    assert!(half.call(|engine, now| engine.parting(now)).is_some(), "the answer may have been lost");
    half.advance(Duration::from_millis(1000));
    let again = kinds(&mut half);
    assert!(again.len() > 1 && again.iter().all(|kind| *kind == Kind::Close), "{again:?}");
    half.feed(PEER, &Lie { body: vec![0, 0], ..liar.lie(Kind::Close) }.bytes());
    assert_eq!(kinds(&mut half), [Kind::CloseReply]);
    half.call(|engine, now| engine.shut_down(now));
    assert_eq!(kinds(&mut half), [], "both have said their ends");
    assert_eq!(half.events.iter().filter(|event| matches!(event, Event::Closed { .. })).count(), 1);
}

//= A-18 test
#[test]
fn an_open_that_comes_again_is_answered_although_closing_has_begun() {
    for is_normal in [true, false] {
        let mut half = server_of(Config { validates: false, ..config(record()) });
        let mut liar = Liar::new(PEER, 0x77, record());
        let open = liar.open(PORT, &[], None);
        half.feed(PEER, &open);
        let lost = half.take();
        assert_eq!(lost.iter().map(Got::kind).collect::<Vec<_>>(), [Kind::Accept, Kind::Sync]);
        let id = accepted(&half);
        if is_normal {
            half.call(|engine, now| engine.close(now, id, Duration::ZERO)).expect("it lives");
        } else {
            half.call(|engine, now| engine.release(now, id));
        }
        // Whoever has not heard ACCEPT drops it.
        let dropped = half.take();
        assert_eq!(dropped.iter().map(Got::kind).collect::<Vec<_>>(), [Kind::Close]);
        half.advance(Duration::from_millis(10));
        let mut again = open.clone();
        again[1] |= RETRANSMITTED;
        seal(&mut again);
        half.feed(PEER, &again);
        let sent = half.take();
        assert_eq!(sent.iter().map(Got::kind).collect::<Vec<_>>(), [Kind::Accept, Kind::Close]);
        assert!(sent.iter().all(|got| got.header().is_retransmitted));
        assert_eq!(sent[0].body(), lost[0].body());
        assert_eq!(
            (sent[0].header().sequence, sent[0].header().edge),
            (lost[0].header().sequence, lost[0].header().edge)
        );
        assert_eq!(sent[1].body(), dropped[0].body());
        // However often it is told, it is told no more than may be.
        for _ in 0..30 {
            half.feed(PEER, &again);
        }
        let sent = half.take();
        assert_eq!((of(&sent, Kind::Accept).len(), of(&sent, Kind::Close).len()), (30, 7), "{is_normal}");
        let traffic = half.traffic[&PEER];
        assert!(traffic.sent <= 3 * traffic.received, "{traffic:?}");
        liar.learn(&lost);
        let reply = Lie { body: vec![0, u8::from(!is_normal)], ..liar.lie(Kind::CloseReply) };
        half.feed(PEER, &reply.bytes());
        half.feed(PEER, &again);
        assert!(half.take().is_empty(), "it is over");
    }
}

//= A-9 test
#[test]
fn a_nack_that_names_nothing_tells_an_edge() {
    let (mut half, mut liar, id) = connected();
    liar.window = 3;
    half.feed(PEER, &liar.lie(Kind::Sync).bytes());
    half.events.clear();
    let facts = |half: &Half| half.a1().facts(half.now, id).expect("there");
    // Its window was a thousand blocks in OPEN already.
    assert_eq!(facts(&half).edge, 1000);
    liar.window = 1200;
    half.feed(PEER, &liar.answer(Kind::Nack, 0, &[]).bytes());
    assert_eq!(facts(&half).edge, 1200);
    send(&mut half, id, 300);
    half.take();
    half.feed(PEER, &liar.answer(Kind::Nack, 2, &[]).bytes());
    assert_eq!((facts(&half).acked, facts(&half).repeated), (2, 0));
    assert_eq!(half.a1().counters().answers_invalid, 0);
}

//= A-7 test
#[test]
fn ranges_come_in_any_order_and_may_overlap() {
    let (mut half, liar, id) = connected();
    half.feed(PEER, &liar.lie(Kind::Sync).bytes());
    send(&mut half, id, 5000);
    half.take();
    half.advance(Duration::from_millis(100));
    half.take();
    let repeated = |half: &mut Half, ranges: &[(u32, u32)]| {
        half.feed(PEER, &liar.answer(Kind::Nack, 0, ranges).bytes());
        let sent = half.take();
        let blocks = sent.iter().filter(|got| got.kind() == Kind::Data);
        blocks.map(|got| got.header().sequence.wrapping_sub(liar.their_start)).collect::<Vec<_>>()
    };
    assert_eq!(repeated(&mut half, &[(20, 21), (5, 6)]), [5, 20]);
    // Each block of what is left, however often it is named.
    let rest: Vec<u32> = (0..50).filter(|number| ![5, 20].contains(number)).collect();
    assert_eq!(repeated(&mut half, &[(0, 30), (10, 40), (0, 50)]), rest);
    half.feed(PEER, &liar.answer(Kind::Ack, 0, &[(30, 50), (12, 31), (1, 12)]).bytes());
    // The first is all that is missing still.
    half.feed(PEER, &liar.answer(Kind::Ack, 1, &[]).bytes());
    let facts = half.a1().facts(half.now, id).expect("there");
    assert_eq!((facts.acked, half.a1().counters().answers_invalid), (50, 0));
    assert_eq!(half.a1().counters().datagrams_malformed, 0);
}

//= A-10 test
//= A-13 test
#[test]
fn a_change_has_the_window_and_the_blocks_that_its_reply_says() {
    // The peer would have larger blocks, and more messages on their way, than we take: 100 messages of 200 blocks.
    let record = Qos { block_size: 50, outstanding: 8, ..record() };
    let mut half = server_of(config(record));
    let asked = Qos { block_size: 100, outstanding: 2, ..record };
    let mut liar = Liar::new(PEER, 0x77, asked);
    liar.connect(&mut half, PORT);
    for (epoch, outstanding) in [(1, 4), (2, 16), (3, 1000)] {
        half.feed(PEER, &qos(&liar, epoch, &Qos { outstanding, ..asked }).bytes());
        let sent = half.take();
        let reply = of(&sent, Kind::QosReply)[0];
        let Some(Body::QosReply(change)) = reply.body() else { panic!("{reply:?}") };
        assert_eq!((change.qos.block_size, change.qos.outstanding), (50, outstanding.min(8)));
        half.feed(PEER, &liar.lie(Kind::Sync).bytes());
        let sent = half.take();
        let window = of(&sent, Kind::SyncReply)[0].header().edge.wrapping_sub(liar.start);
        assert_eq!(window, 200 * outstanding.min(8), "{outstanding}");
    }
}

//= A-9 test
#[test]
fn every_type_of_a_connection_tells_an_edge_and_none_is_none() {
    let (mut half, mut liar, id) = connected();
    let edge = |half: &Half| half.a1().facts(half.now, id).expect("there").edge;
    liar.window = 1100;
    half.feed(PEER, &qos(&liar, 1, &record()).bytes());
    assert_eq!(edge(&half), 1100, "QOS");
    half.call(|engine, now| engine.set_qos(now, id, Qos { outstanding: 3, ..record() })).expect("within the maximum");
    liar.window = 1200;
    let reply = Lie { kind: Kind::QosReply as u8, ..qos(&liar, 1, &record()) };
    half.feed(PEER, &reply.bytes());
    assert_eq!(edge(&half), 1200, "QOS_REPLY");
    // Whoever believes that a type does not tell it says 0, wherever the numbers are.
    for start in 1..5_u32 {
        let mut half = server_of(Config { seed: start.into(), ..config(record()) });
        let mut liar = Liar::new(PEER, 0x77, record());
        liar.connect(&mut half, PORT);
        let id = accepted(&half);
        for lie in [liar.lie(Kind::Sync), qos(&liar, 1, &record()), liar.block(0, 0, (0, 1), &[1])] {
            half.feed(PEER, &Lie { edge: 0, ..lie }.bytes());
            assert_eq!(half.a1().facts(half.now, id).expect("there").edge, 1000);
        }
    }
}

//= A-7 test
//= A-9 test
#[test]
fn a_nack_without_an_edge_is_obeyed_wherever_the_numbers_are() {
    let mut sides = [0, 0];
    for seed in 1..9 {
        let mut half = server_of(Config { seed, ..config(record()) });
        let mut liar = Liar::new(PEER, 0x77, record());
        liar.connect(&mut half, PORT);
        let id = accepted(&half);
        half.feed(PEER, &liar.lie(Kind::Sync).bytes());
        send(&mut half, id, 300);
        half.take();
        half.advance(Duration::from_millis(100));
        half.take();
        half.feed(PEER, &Lie { edge: 0, ..liar.answer(Kind::Nack, 1, &[(1, 2)]) }.bytes());
        let facts = half.a1().facts(half.now, id).expect("there");
        let invalid = half.a1().counters().answers_invalid;
        assert_eq!((facts.acked, facts.repeated, facts.edge, invalid), (1, 1, 1000, 0), "{}", liar.their_start);
        sides[(liar.their_start >> 31) as usize] += 1;
    }
    assert!(!sides.contains(&0), "0 is ahead of some, and behind others: {sides:?}");
}

//= A-8 test
#[test]
fn every_sync_of_a_batch_is_answered_with_its_own_stamp() {
    let (mut half, liar, _) = connected();
    for (count, answered) in [(1, 0..1), (3, 0..3), (16, 0..16), (40, 24..40)] {
        let syncs: Vec<_> = (0..count).map(|stamp| Lie { stamp, ..liar.lie(Kind::Sync) }.bytes()).collect();
        half.read(PEER, Ecn::NotCapable, &syncs);
        let sent = half.take();
        let echoes: Vec<_> = of(&sent, Kind::SyncReply).iter().map(|got| got.header().stamp).collect();
        assert_eq!(echoes, answered.collect::<Vec<_>>(), "{count} in a batch");
    }
}

//= A-8 test
#[test]
fn who_accepts_asks_first_if_the_opener_says_nothing() {
    let mut half = server_of(Config { validates: false, ..config(record()) });
    let mut liar = Liar::new(PEER, 0x77, record());
    half.feed(PEER, &liar.open(PORT, &[], None));
    let sent = half.take();
    liar.learn(&sent);
    // What the opener asks at start-up, and what it answers first, is lost.
    assert_eq!(sent.iter().map(Got::kind).collect::<Vec<_>>(), [Kind::Accept, Kind::Sync]);
    let id = accepted(&half);
    send(&mut half, id, 300);
    half.advance(Duration::from_millis(101));
    let sent = half.take();
    assert_eq!(sent.iter().map(Got::kind).collect::<Vec<_>>(), [Kind::Sync]);
    half.feed(PEER, &Lie { stamp: sent[0].header().stamp, ..liar.answer(Kind::SyncReply, 0, &[]) }.bytes());
    assert!(!of(&half.take(), Kind::Data).is_empty(), "it is there");
    assert_eq!(half.a1().counters().round_trips, 1);
}

//= A-18 test
#[test]
fn nobody_waits_for_an_opener_who_was_never_seen_unless_something_is_for_him() {
    let mut half = server_of(Config { validates: false, ..config(record()) });
    let mut liar = Liar::new(PEER, 0x77, record());
    half.feed(PEER, &liar.open(PORT, &[], None));
    let id = accepted(&half);
    assert!(half.a1().is_quiet(), "anybody may have said that in his name");
    send(&mut half, id, 300);
    assert!(!half.a1().is_quiet(), "this may still reach him");
    liar.learn(&half.take());
    half.feed(PEER, &liar.answer(Kind::Sync, 0, &[]).bytes());
    assert!(!half.a1().is_quiet(), "he is there");
}

//= A-10 test
#[test]
fn a_window_above_the_limit_is_taken_for_the_largest_below_it() {
    for window in [(1 << 20) - 1, 1 << 20, 1 << 31, u32::MAX] {
        let mut half = server_of(Config { validates: false, ..config(record()) });
        let mut open = Liar::new(PEER, 3, record()).open(PORT, &[], None);
        open[20..24].copy_from_slice(&window.to_be_bytes());
        seal(&mut open);
        half.feed(PEER, &open);
        let sent = half.take();
        assert_eq!(of(&sent, Kind::Accept).len(), 1, "{window}");
        let facts = half.a1().facts(half.now, accepted(&half)).expect("there");
        assert_eq!(facts.edge, (1 << 20) - 1, "{window}");
    }
}

#[test]
fn a_reject_that_echoes_no_stamp_of_ours_answers_nothing() {
    let reject = |open: &Got, more: u32, code: u8, text: &[u8]| {
        let mut body = vec![0, code];
        body.extend((text.len() as u16).to_be_bytes());
        body.extend(text);
        let (connection, stamp) = (open.header().connection.get(), open.header().stamp.wrapping_add(more));
        Lie { kind: 3, flags: half::liar::CHECKED, connection, stamp, body, ..Lie::default() }.bytes()
    };
    for code in [1, 2, 3, 5, 6] {
        let (mut half, open) = opening();
        half.feed(PEER, &reject(&open, 999, code, b"forged"));
        assert!(half.events.is_empty() && half.a1().counters().stamps_wrong == 1, "{code}");
        half.feed(PEER, &reject(&open, 0, code, b"no"));
        let refused =
            Failure::Refused { code: RejectCode::from_wire(code.into()).expect("a code"), text: "no".to_owned() };
        assert!(matches!(half.events.last(), Some(Event::Closed { result: Err(failure), .. }) if *failure == refused));
    }
    let (mut half, open) = opening();
    half.feed(PEER, &reject(&open, 999, 4, &[7; 16]));
    assert!(half.sent.is_empty(), "a forged cookie");
    half.feed(PEER, &reject(&open, 0, 4, &[9; 16]));
    let again = half.take();
    let Some(Body::Open(said)) = again[0].body() else { panic!("{again:?}") };
    assert_eq!(said.cookie.expect("repeated").bytes(), [9; 16]);
    // An answer to a repetition counts as well as one to the first OPEN.
    let (mut half, first) = opening();
    half.advance(Duration::from_secs(2));
    let later = half.take();
    assert!(later.len() > 1 && later.iter().all(|got| got.header().is_retransmitted));
    half.feed(PEER, &reject(&first, 0, 1, b"no"));
    assert!(matches!(half.events.last(), Some(Event::Closed { result: Err(Failure::Refused { .. }), .. })));
}

#[test]
fn every_bit_of_an_identifier_is_random() {
    let mut half = server_of(config(record()));
    let mut seen = std::collections::BTreeSet::new();
    let (mut ones, mut zeros) = (0_u32, 0_u32);
    for number in 1..=100 {
        let mut liar = Liar::new(Address::Node(number), number, record());
        liar.connect(&mut half, PORT);
        assert!(liar.theirs != 0 && seen.insert(liar.theirs));
        (ones, zeros) = (ones | liar.theirs, zeros | !liar.theirs);
        let mut block = liar.block(0, 0, (0, 1), &[1]);
        half.feed(liar.address, &block.bytes());
        block.connection ^= 1 << (number % 32);
        half.feed(liar.address, &block.bytes());
    }
    assert_eq!((ones, zeros), (u32::MAX, u32::MAX));
    let counters = half.a1().counters();
    assert_eq!((counters.blocks_received, counters.datagrams_unknown), (100, 100));
}

/// A server without cookies, and a sender with a group that it has joined, which has sent nothing over the connection.
fn joined() -> (Half, Liar, Group) {
    joined_as(record())
}

fn joined_as(qos: Qos) -> (Half, Liar, Group) {
    let mut half = server_of(Config { validates: false, ..config(qos) });
    let socket = "239.255.7.7:9777".parse().expect("an address");
    let group = Group::new(99.try_into().expect("not 0"), socket).expect("a group");
    let mut liar = Liar::new(PEER, 3, qos);
    half.feed(PEER, &liar.open(PORT, &[], Some(group)));
    let id = accepted(&half);
    half.call(|engine, now| engine.answer_join(now, id, true));
    let sent = half.take();
    liar.learn(&sent);
    assert!(matches!(sent[0].body(), Some(Body::Accept(accept)) if accept.has_joined));
    (half, liar, group)
}

//= A-15, A-21 test
#[test]
fn what_is_said_over_a_connection_does_not_make_lost_what_still_comes_from_the_group() {
    let (mut half, liar, group) = joined_as(Qos { has_retransmission: false, ..record() });
    let block = |number| {
        let block = liar.block(number, number, (0, 1), b"block");
        Lie { flags: block.flags | MULTICAST, connection: group.identifier().get(), edge: 0, ..block }.bytes()
    };
    let said = |kind, sent, body| Lie { sequence: liar.start.wrapping_add(sent), body, ..liar.lie(kind) }.bytes();
    let lost = |half: &Half| (half.a1().counters().blocks_received, half.a1().counters().blocks_lost);
    half.feed(PEER, &said(Kind::Sync, 2, vec![]));
    assert_eq!(of(&half.take(), Kind::SyncReply).len(), 1, "at once");
    for number in 0..2 {
        half.feed(PEER, &block(number));
    }
    half.advance(Duration::from_millis(50));
    assert_eq!(lost(&half), (2, 0));
    half.feed(PEER, &said(Kind::Sync, 4, vec![]));
    half.advance(Duration::from_millis(50));
    assert_eq!(lost(&half), (2, 2), "they had time to come");
    half.take();
    half.feed(PEER, &said(Kind::Close, 6, vec![0, 0]));
    half.feed(PEER, &block(4));
    half.feed(PEER, &said(Kind::Close, 6, vec![0, 0]));
    half.advance(Duration::from_millis(50));
    assert_eq!(lost(&half), (3, 3));
    assert!(!of(&half.take(), Kind::CloseReply).is_empty());
    assert!(half.events.iter().any(|it| matches!(it, Event::Closed { result: Ok(()), .. })));
}

//= A-15, A-21 test
#[test]
fn who_says_again_and_again_how_much_has_been_sent_does_not_put_off_what_is_lost() {
    let (mut half, liar, _) = joined_as(Qos { has_retransmission: false, ..record() });
    let sync = |sent| Lie { sequence: liar.start.wrapping_add(sent), ..liar.lie(Kind::Sync) }.bytes();
    for sent in [2, 3, 3] {
        half.feed(PEER, &sync(sent));
        half.advance(Duration::from_millis(4));
    }
    assert_eq!(half.a1().counters().blocks_lost, 2, "the third had less time to come");
    half.feed(PEER, &sync(3));
    half.advance(Duration::from_millis(12));
    assert_eq!(half.a1().counters().blocks_lost, 3);
}

//= A-9, A-21 test
#[test]
fn a_raw_sender_cannot_have_sent_what_lies_beyond_the_edge() {
    let raw = Qos { has_retransmission: false, ..record() };
    let mut half = server_of(config(raw));
    half.advance(Duration::from_millis(5));
    let mut liar = Liar::new(PEER, 0x77, raw);
    liar.connect(&mut half, PORT);
    let said = |kind, sent: u32, body| Lie { sequence: liar.start.wrapping_add(sent), body, ..liar.lie(kind) }.bytes();
    let counted = |half: &Half| {
        let counters = half.a1().counters();
        (counters.blocks_received, counters.blocks_lost, counters.blocks_contradictory)
    };
    let block = |number| Lie { flags: START | END, ..liar.block(number, number, (0, 1), b"block") }.bytes();
    let window = 400;
    for (contradictions, beyond) in [(1, window + 1), (2, 1 << 30)] {
        half.feed(PEER, &said(Kind::Sync, beyond, vec![]));
        assert_eq!(counted(&half), (0, 0, contradictions));
    }
    half.feed(PEER, &block(0));
    half.feed(PEER, &said(Kind::Sync, window, vec![]));
    assert_eq!(counted(&half), (1, u64::from(window) - 1, 2), "all of a window may be lost");
    // Blocks that were dropped at the sender have numbers, too, though there was no room for them.
    half.feed(PEER, &said(Kind::Close, 3 * window, vec![0, 0]));
    assert_eq!(counted(&half), (1, u64::from(3 * window) - 1, 2));
    assert!(half.events.iter().any(|it| matches!(it, Event::Closed { result: Ok(()), .. })));
}

//= A-10 test
#[test]
fn who_is_accepted_without_a_window_is_told_at_once() {
    for (largest_received, outstanding, is_shut_out) in [(0, 4, true), (10_000, 0, true), (10_000, 1, false)] {
        let (mut half, open) = opening();
        let accept = Qos { largest_received, outstanding, ..record() };
        half.feed(PEER, &Liar::new(PEER, 0x77, accept).accept(&open));
        let closed = half
            .events
            .iter()
            .find_map(|it| if let Event::Closed { result, .. } = it { Some(result.clone()) } else { None });
        match closed {
            Some(Err(Failure::Refused { code: RejectCode::Qos, text })) if is_shut_out => {
                assert!(text.contains("no block"), "{text}");
            }
            other => assert!(other.is_none() && !is_shut_out, "{other:?}"),
        }
        // Who has accepted it believes that it is there, and is told of its end until it answers.
        for _ in 0..2 {
            let sent = half.take();
            let closes = of(&sent, Kind::Close);
            assert_eq!(closes.len(), usize::from(is_shut_out));
            for close in closes {
                assert_eq!(close.header().connection.get(), 0x77);
                assert_eq!(close.body(), Some(Body::Close(CloseCode::Aborted)));
            }
            half.advance(Duration::from_millis(300));
        }
    }
    // Who does not send needs none.
    let mut half = Half::new(config(Qos { largest_sent: 0, ..record() }));
    let name = Name { host: 1, port: 9 };
    half.call(|engine, now| engine.open(now, PEER, name, Qos { largest_sent: 0, ..record() })).expect("room");
    let open = half.take().remove(0);
    half.feed(PEER, &Liar::new(PEER, 0x77, Qos { largest_received: 0, ..record() }).accept(&open));
    assert!(half.events.iter().any(|it| matches!(it, Event::Connected { .. })), "{:?}", half.events);
}

//= A-7 test
#[test]
fn a_source_of_which_nothing_comes_is_asked_less_and_less_often() {
    let (mut half, liar, _) = connected();
    half.feed(PEER, &liar.block(1, 0, (1, 2), &[1; 100]).bytes());
    let nacks = |half: &mut Half, time| {
        half.advance(Duration::from_millis(time));
        of(&half.take(), Kind::Nack).len()
    };
    let first = nacks(&mut half, 100);
    let later = nacks(&mut half, 900);
    // At once, and 20 ms apart as long as there is no sample; then 40, 80, 160 and so on.
    assert!((4..=5).contains(&first) && (2..=4).contains(&later), "{first} and {later}");
    // It is there again.
    half.feed(PEER, &liar.block(3, 1, (1, 2), &[1; 100]).bytes());
    let again = nacks(&mut half, 65);
    assert!((3..=4).contains(&again), "{first}, {later} and {again}");
}

//= A-15 test
#[test]
fn of_what_a_group_was_sent_beyond_the_window_the_part_within_is_asked_for() {
    let (mut half, liar, _) = joined();
    let window = 400;
    half.feed(PEER, &Lie { sequence: liar.start.wrapping_add(window + 5), ..liar.lie(Kind::Sync) }.bytes());
    let sent = half.take();
    let nacks = of(&sent, Kind::Nack);
    let Some(Body::Nack(missing)) = nacks.first().and_then(|nack| nack.body()) else { panic!("{sent:?}") };
    assert_eq!(missing.iter().collect::<Vec<_>>(), [(liar.start, liar.start.wrapping_add(window))]);
    assert_eq!(half.a1().counters().blocks_contradictory, 0);
}

//= A-15 test
#[test]
fn who_takes_smaller_blocks_than_a_group_has_does_not_join_it() {
    for block_size in [100, 99] {
        let mut half = server_of(Config { validates: false, ..config(Qos { block_size, ..record() }) });
        let socket = "239.255.7.7:9777".parse().expect("an address");
        let group = Group::new(99.try_into().expect("not 0"), socket).expect("a group");
        half.feed(PEER, &Liar::new(PEER, 3, record()).open(PORT, &[], Some(group)));
        let asked = half.events.iter().any(|event| matches!(event, Event::Join { .. }));
        assert_eq!(asked, block_size == 100);
        if !asked {
            let Some(Body::Accept(accept)) = half.take()[0].body() else { panic!() };
            assert_eq!((accept.has_joined, accept.qos.block_size), (false, 99));
        }
    }
}

//= A-15 test
#[test]
fn who_is_refused_while_a_group_is_joined_needs_it_no_more() {
    let mut half = server_of(Config { validates: false, ..config(record()) });
    let socket = "239.255.7.7:9777".parse().expect("an address");
    let group = Group::new(99.try_into().expect("not 0"), socket).expect("a group");
    for is_released in [false, true] {
        let liar = Liar::new(PEER, 3 + u32::from(is_released), record());
        half.feed(PEER, &liar.open(PORT, &[], Some(group)));
        let id = accepted(&half);
        half.events.clear();
        if is_released {
            half.call(|engine, now| engine.release(now, id));
        }
        assert_eq!(half.call(|engine, now| engine.answer_join(now, id, true)), !is_released);
        let is_left = |event: &Event| matches!(event, Event::Leave { .. });
        assert!(!half.events.iter().any(is_left), "whoever has joined leaves");
    }
}

fn to_group(liar: &Liar, group: &Group, number: u32) -> Vec<u8> {
    let flags = RELIABLE | START | END | MULTICAST;
    let connection = group.identifier().get();
    Lie { flags, connection, edge: 0, ..liar.block(number, number, (0, 1), b"group") }.bytes()
}

//= A-15 test
#[test]
fn data_of_a_group_are_answered_before_anything_comes_over_the_connection() {
    let (mut half, mut liar, group) = joined();
    for number in [0, 1, 2, 4] {
        liar.stamp += 1;
        half.feed(PEER, &to_group(&liar, &group, number));
    }
    half.advance(Duration::from_millis(15));
    let sent = half.take();
    let acks = of(&sent, Kind::Ack);
    let last = acks.last().expect("an ACK").header();
    assert_eq!((last.sequence, last.stamp), (liar.start.wrapping_add(3), liar.stamp));
    let (low, high) = (liar.start.wrapping_add(3), liar.start.wrapping_add(4));
    let nacks = of(&sent, Kind::Nack);
    let Some(Body::Nack(ranges)) = nacks.first().expect("a NACK").body() else { panic!() };
    assert!(ranges.iter().eq([(low, high)]));
    let mut repair = liar.block(3, 3, (0, 1), b"group");
    repair.flags |= RETRANSMITTED;
    half.feed(PEER, &repair.bytes());
    assert_eq!(half.a1().counters().messages_received, 5);
}

//= A-15 test
#[test]
fn data_of_a_group_earn_three_times_their_bytes_until_the_sender_is_known() {
    let (mut half, liar, group) = joined();
    let lower = |count: u64| 28 * count;
    let (mut received, mut answers) = (1, 2);
    // Every other block is missing, and never comes: as much is asked for as ever may be.
    for number in (0..200).step_by(2) {
        half.feed(PEER, &to_group(&liar, &group, number));
        half.advance(Duration::from_millis(100));
        received += 1;
        answers += half.take().len() as u64;
        let traffic = half.traffic[&PEER];
        let (sent, allowed) = (traffic.sent + lower(answers), 3 * (traffic.received + lower(received)));
        assert!(sent <= allowed, "{sent} of {allowed}");
    }
    assert!(answers > 100, "{answers}");
    half.feed(PEER, &liar.lie(Kind::Sync).bytes());
    half.advance(Duration::from_millis(100));
    assert!(half.take().len() >= 2, "everything is answered now");
}

//= A-6 test
//= A-7 test
#[test]
fn an_ack_that_waited_for_an_answer_leaves_with_it() {
    for has_checksum in [false, true] {
        let qos = Qos { has_checksum, ..record() };
        let mut half = server_of(config(qos));
        half.advance(Duration::from_millis(5));
        let mut liar = Liar::new(PEER, 0x77, qos);
        liar.connect(&mut half, PORT);
        let id = accepted(&half);
        half.take();
        // Behind a lone block it leaves by itself, at once; behind a short one too, as a train ends there.
        for (number, (len, trains)) in [(16, 2), (0, 2), (120, 2), (200, 1)].into_iter().enumerate() {
            half.feed(PEER, &liar.block(number as u32, number as u32, (0, 1), b"ask").bytes());
            half.call(|engine, now| {
                let readable = engine.readable(id).expect("a question");
                engine.consume(now, id, readable.len());
            });
            send(&mut half, id, len);
            let sent = half.take_sent();
            let (blocks, acks): (Vec<_>, Vec<_>) =
                sent.iter().partition(|sent| Got::parse(sent.to, &sent.bytes).kind() == Kind::Data);
            assert_eq!((blocks.len(), acks.len()), (len.div_ceil(100).max(1), 1), "{len}");
            let ack = Got::parse(PEER, &acks[0].bytes);
            let told = liar.start.wrapping_add(number as u32 + 1);
            assert_eq!((ack.kind(), ack.header().sequence), (Kind::Ack, told), "{len}");
            assert_eq!(ack.header().is_checked, has_checksum);
            assert_eq!(acks[0].train - blocks[0].train + 1, trains, "{len}");
        }
    }
}

fn ended(half: &Half) -> Option<&Result<(), Failure>> {
    half.events.iter().find_map(|it| if let Event::Closed { result, .. } = it { Some(result) } else { None })
}

#[test]
fn a_report_that_nobody_is_there_ends_only_what_nobody_has_answered() {
    let millis = Duration::from_millis;
    let name = Name { host: 1, port: 9 };
    let refused = Err(Failure::Refused { code: RejectCode::NoListener, text: String::new() });
    let opening = |trusts_reports, to| {
        let mut half = Half::new(Config { trusts_reports, ..config(record()) });
        let id = half.call(|engine, now| engine.open(now, to, name, record())).expect("room");
        let open = half.take().remove(0);
        (half, open, id)
    };
    let report = |half: &mut Half| half.call(|engine, now| engine.handle_path_event(now, PathEvent::Unreachable));
    let (mut half, ..) = opening(true, Address::Peer);
    report(&mut half);
    assert_eq!(ended(&half), None, "its listener may be about to begin");
    half.advance(millis(800));
    report(&mut half);
    assert_eq!(ended(&half), Some(&refused));
    assert_eq!(half.a1().counters().unreachable_reports, 2);
    // Whom the report is about is not known, or it is not believed at all.
    for (trusts_reports, to) in [(true, PEER), (false, Address::Peer)] {
        let (mut half, ..) = opening(trusts_reports, to);
        half.advance(millis(800));
        report(&mut half);
        assert_eq!(ended(&half), None);
    }
    // A request for a cookie is an answer.
    let (mut half, open, _) = opening(true, Address::Peer);
    let mut body = vec![0, 4, 0, 16];
    body.extend([7; 16]);
    let (connection, stamp) = (open.header().connection.get(), open.header().stamp);
    half.feed(Address::Peer, &Lie { kind: 3, flags: 8, connection, stamp, body, ..Lie::default() }.bytes());
    half.advance(millis(800));
    report(&mut half);
    assert_eq!(ended(&half), None);
    // So is ACCEPT.
    let (mut half, open, id) = opening(true, Address::Peer);
    let accept = Liar::new(Address::Peer, 0x77, record()).accept(&open);
    half.feed(Address::Peer, &accept);
    (0..9).for_each(|_| report(&mut half));
    assert_eq!(ended(&half), None);
    // Whoever does not answer the end, and has acknowledged everything, is not asked for long.
    half.call(|engine, now| engine.close(now, id, Duration::ZERO)).expect("it lives");
    report(&mut half);
    assert_eq!(ended(&half), None, "the answer may be on its way");
    half.advance(millis(800));
    assert_eq!(ended(&half), None);
    report(&mut half);
    assert_eq!(ended(&half), Some(&Ok(())));
}

#[test]
fn whoever_is_not_heard_of_is_asked_several_times_and_then_given_up() {
    let millis = Duration::from_millis;
    let mut half = server_of(Config { idle: millis(500), silence: millis(400), ..config(record()) });
    half.advance(millis(5));
    let mut liar = Liar::new(PEER, 0x77, record());
    liar.connect(&mut half, PORT);
    let sync = of(&half.take(), Kind::Sync).first().map(|sync| sync.header().stamp);
    half.feed(PEER, &Lie { stamp: sync.unwrap_or(0), ..liar.answer(Kind::SyncReply, 0, &[]) }.bytes());
    half.advance(millis(490));
    assert!(of(&half.take(), Kind::Sync).is_empty() && ended(&half).is_none());
    // Half of the time has passed before it is asked.
    half.advance(millis(180));
    assert!((3..=5).contains(&of(&half.take(), Kind::Sync).len()), "a question can be lost");
    assert_eq!(ended(&half), None);
    half.advance(millis(100));
    assert_eq!(ended(&half), Some(&Err(Failure::Abandoned)));
}

#[test]
fn whoever_has_asked_asks_again_even_where_nobody_is_asked_for_being_idle() {
    let millis = Duration::from_millis;
    let mut half = server_of(Config { idle: Duration::ZERO, silence: millis(400), ..config(record()) });
    half.advance(millis(5));
    let mut liar = Liar::new(PEER, 0x77, record());
    liar.connect(&mut half, PORT);
    half.take();
    // The answer to its first measurement is lost.
    half.advance(millis(250));
    let sync = of(&half.take(), Kind::Sync).first().map(|sync| sync.header().stamp).expect("it is asked again");
    half.feed(PEER, &Lie { stamp: sync, ..liar.answer(Kind::SyncReply, 0, &[]) }.bytes());
    half.advance(millis(5000));
    assert!(of(&half.take(), Kind::Sync).is_empty() && ended(&half).is_none());
}

#[test]
fn whoever_would_measure_all_the_time_still_does_something_else() {
    let mut half = server_of(Config { sync_every: Duration::ZERO, silence: Duration::ZERO, ..config(record()) });
    half.advance(Duration::from_millis(5));
    Liar::new(PEER, 0x77, record()).connect(&mut half, PORT);
    let id = accepted(&half);
    half.take();
    send(&mut half, id, 10);
    half.advance(Duration::from_millis(5));
    let syncs = of(&half.take(), Kind::Sync).len();
    assert!((1..=6).contains(&syncs), "{syncs}");
}

#[test]
fn a_small_path_is_one_peers_alone() {
    let mut half = server_of(config(record()));
    let mut liars = [1, 2].map(|number| Liar::new(Address::Node(number), number, record()));
    for liar in &mut liars {
        liar.connect(&mut half, PORT);
    }
    half.take();
    let report = |half: &mut Half, fits| {
        let event = PathEvent::TooLarge { to: Address::Node(1), fits };
        half.call(|engine, now| engine.handle_path_event(now, event));
    };
    // What asks for every other block, as far as it has room to name them.
    let mut largest = |half: &mut Half, numbers: core::ops::Range<u32>| {
        liars.each_mut().map(|liar| {
            for number in numbers.clone().filter(|number| number % 2 == 1) {
                half.feed(liar.address, &liar.block(number, number, (0, 1), b"gap").bytes());
            }
            half.take();
            half.advance(Duration::from_millis(500));
            let sent = half.take();
            let nacks = sent.iter().filter(|got| got.kind() == Kind::Nack && got.to == liar.address);
            nacks.map(|got| got.bytes.len()).max().expect("a NACK")
        })
    };
    let usual = largest(&mut half, 0..400);
    assert!(usual[0] == usual[1] && usual[0] > 1200, "{usual:?}");
    for (fits, carried) in [(Some(600), 600), (Some(0), 256), (None, 256)] {
        report(&mut half, fits);
        let now = largest(&mut half, 0..2);
        assert!(now[0] <= carried && now[0] > carried - 8, "{carried}: {now:?}");
        assert_eq!(now[1], usual[1], "this path has said nothing");
    }
}

//= A-21 test
#[test]
fn whoever_has_a_window_full_of_what_was_too_old_to_leave_is_told_at_once() {
    let millis = Duration::from_millis;
    let raw = Qos { has_retransmission: false, ..record() };
    let qos = Qos { deadline: 10_000, send_average: 1000, send_burst: 100, ..raw };
    let mut half = server_of(config(qos));
    half.advance(millis(5));
    let mut liar = Liar { window: 20, ..Liar::new(PEER, 0x77, raw) };
    liar.connect(&mut half, PORT);
    let id = accepted(&half);
    half.take();
    (0..2).for_each(|_| send(&mut half, id, 1000));
    let numbers = |sent: &[Got], kind| -> Vec<_> {
        of(sent, kind).iter().map(|got| got.header().sequence.wrapping_sub(liar.their_start)).collect()
    };
    assert_eq!(numbers(&half.take(), Kind::Data), [0], "one burst");
    half.advance(millis(9));
    assert!(half.take().is_empty());
    half.advance(millis(2));
    assert_eq!(numbers(&half.take(), Kind::Sync), [20]);
    // It was told, and is not told again before it is asked as always.
    half.advance(millis(80));
    assert!(half.take().is_empty());
}
