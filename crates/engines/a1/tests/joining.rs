//! A source and the sinks of its group, which are played by hand.
mod half;

use core::net::{Ipv4Addr, SocketAddrV4};
use core::num::NonZeroU32;
use core::time::Duration;
use half::liar::{Liar, Lie};
use half::{Got, Half, config, record};
use pinnace_a1::{Address as Name, CastId, Config, Event, Group, Output, Qos, SlowSink};
use pinnace_core::{Address, Engine};
use pinnace_wire::a1::{Body, Change, Header, Kind};
use std::collections::BTreeSet;

const LINGER: Duration = Duration::from_secs(1);

fn group() -> Group {
    let socket = SocketAddrV4::new(Ipv4Addr::new(239, 1, 2, 3), 4000);
    Group::new(NonZeroU32::new(99).expect("not 0"), socket).expect("a group")
}

/// A source, and its first sink, which has joined.
fn source(qos: Qos) -> (Half, CastId, Liar) {
    source_of(SlowSink::Block, qos, qos.outstanding)
}

fn source_of(slow: SlowSink, qos: Qos, outstanding: u32) -> (Half, CastId, Liar) {
    let mut half = Half::new(config(qos));
    half.advance(Duration::from_millis(5));
    let cast = half.call(|engine, _| engine.cast(slow, Some((group(), qos)))).expect("room");
    let mut first = Liar::new(Address::Node(1), 0x11, Qos { outstanding, ..qos });
    let open = add(&mut half, cast, &first);
    half.feed(first.address, &first.accept_as(&open, true));
    half.take();
    (half, cast, first)
}

/// Adds a sink; returns the OPEN for it.
fn add(half: &mut Half, cast: CastId, sink: &Liar) -> Got {
    let (to, name, qos) = (sink.address, Name { host: 1, port: 9 }, half.a1().config().max_qos);
    half.call(|engine, now| engine.add_sink(now, cast, to, name, qos)).expect("room");
    half.take().into_iter().find(|got| got.kind() == Kind::Open && got.to == to).expect("an OPEN")
}

fn send(half: &mut Half, cast: CastId, len: usize) {
    let buffer = half.memory.add(vec![1; len]);
    half.call(|engine, now| engine.cast_send(now, cast, Output::new(buffer, len as u64))).expect("room");
}

/// A sink changes its record.
fn change(sink: &Liar, record: &Qos) -> Lie {
    let (mut bytes, lie) = (Vec::new(), sink.lie(Kind::Qos));
    let header =
        Header { connection: sink.id, sequence: 0, edge: 0, stamp: 0, is_checked: false, is_retransmitted: false };
    pinnace_wire::a1::qos(&header, &Change { epoch: 1, qos: *record }, &mut bytes);
    Lie { body: bytes[32..].to_vec(), ..lie }
}

/// The blocks for `to`: their numbers from the start, and whether they are marked.
fn blocks(sent: &[Got], to: Address, start: u32) -> Vec<(u32, bool)> {
    let blocks = sent.iter().filter(|got| got.kind() == Kind::Data && got.to == to);
    blocks.map(|got| (got.header().sequence.wrapping_sub(start), got.header().is_retransmitted)).collect()
}

//= A-2, A-15 test
#[test]
fn a_group_waits_for_a_fuller_train_while_messages_are_queued_and_something_is_under_way() {
    let qos = Qos { largest_sent: 100, largest_received: 100, outstanding: 30, ..record() };
    let (mut half, cast, first) = source(qos);
    let mut second = Liar::new(Address::Node(2), 0x22, qos);
    let open = add(&mut half, cast, &second);
    half.feed(second.address, &second.accept_as(&open, true));
    let start = open.header().sequence;
    half.take();
    let blocks_of = |half: &mut Half, messages| {
        (0..messages).for_each(|_| send(half, cast, 100));
        blocks(&half.take(), Address::Inet(group().socket().into()), start)
    };
    let hold = |half: &mut Half, held| half.call(|engine, _| engine.handle_hold(held));
    let numbers = |range: core::ops::Range<u32>| range.map(|number| (number, false)).collect::<Vec<_>>();
    hold(&mut half, true);
    assert_eq!(blocks_of(&mut half, 1), numbers(0..1), "nothing is under way");
    assert_eq!(blocks_of(&mut half, 1), numbers(1..2), "one may be the question that this one answers");
    assert_eq!(blocks_of(&mut half, 9), []);
    assert_eq!(blocks_of(&mut half, 1), numbers(2..12), "a third of the window");
    assert_eq!(blocks_of(&mut half, 3), []);
    half.feed(first.address, &first.answer(Kind::Ack, 12, &[]).bytes());
    assert_eq!(blocks_of(&mut half, 0), numbers(12..15), "one sink has nothing to do");
    assert_eq!(blocks_of(&mut half, 3), []);
    hold(&mut half, false);
    assert_eq!(blocks_of(&mut half, 0), numbers(15..18), "the application has stopped");
    assert_eq!(blocks_of(&mut half, 1), numbers(18..19));
}

//= A-5 test
//= A-15 test
#[test]
fn what_the_group_has_sent_is_repeated_for_a_late_sink_if_it_has_not_come() {
    let (mut half, cast, first) = source(record());
    let mut late = Liar { window: 2, ..Liar::new(Address::Node(2), 0x22, record()) };
    let open = add(&mut half, cast, &late);
    send(&mut half, cast, 400);
    let sent = half.take();
    assert_eq!(sent.iter().filter(|got| got.kind() == Kind::Data).count(), 4, "to the group");
    half.feed(late.address, &late.accept_as(&open, true));
    let start = open.header().sequence;
    assert_eq!(blocks(&half.take(), late.address, start), [(0, true), (1, true)], "they have left before");
    // It has the others from the group: it was there before it answered.
    half.feed(first.address, &first.answer(Kind::Ack, 4, &[]).bytes());
    late.window = 100;
    half.feed(late.address, &late.answer(Kind::Ack, 4, &[]).bytes());
    assert_eq!(blocks(&half.take(), late.address, start), []);
    send(&mut half, cast, 100);
    let sent = half.take();
    assert_eq!(sent.iter().filter(|got| got.kind() == Kind::Data).count(), 1);
    assert_eq!(blocks(&sent, late.address, start), [], "the group has it");
    for sink in [&first, &late] {
        half.feed(sink.address, &sink.answer(Kind::Ack, 5, &[]).bytes());
    }
    half.call(|engine, now| engine.end_cast(now, cast, LINGER));
    let closes: Vec<_> = half.take().into_iter().filter(|got| got.kind() == Kind::Close).collect();
    assert_eq!(closes.len(), 2, "both have everything");
    assert!(closes.iter().all(|got| matches!(got.body(), Some(Body::Close(_))) && got.header().sequence == start + 5));
}

/// A sink that has been asked before its group was sent ten blocks, and has room for none: its first block.
fn without_room(half: &mut Half, cast: CastId) -> (Liar, u32) {
    let mut late = Liar { window: 0, ..Liar::new(Address::Node(2), 0x22, record()) };
    let open = add(half, cast, &late);
    send(half, cast, 1000);
    half.take();
    half.feed(late.address, &late.accept_as(&open, true));
    (late, open.header().sequence)
}

//= A-7 test
//= A-15 test
#[test]
fn a_late_sink_is_not_sent_what_it_says_that_it_has_from_the_group() {
    let (mut half, cast, first) = source(record());
    let (mut late, start) = without_room(&mut half, cast);
    assert_eq!(blocks(&half.take(), late.address, start), []);
    late.window = 100;
    half.feed(late.address, &late.answer(Kind::Ack, 0, &[(2, 5), (6, 10)]).bytes());
    assert_eq!(blocks(&half.take(), late.address, start), [(0, true), (1, true), (5, true)]);
    for sink in [&first, &late] {
        half.feed(sink.address, &sink.answer(Kind::Ack, 10, &[]).bytes());
    }
    send(&mut half, cast, 200);
    assert_eq!(blocks(&half.take(), late.address, start), [], "the group has them");
    for sink in [&first, &late] {
        half.feed(sink.address, &sink.answer(Kind::Ack, 12, &[]).bytes());
    }
    let done = half.events.iter().filter(|it| matches!(it, Event::Cast { delivered: 2, sinks: 2, .. }));
    assert_eq!(done.count(), 2);
}

//= A-15 test
#[test]
fn a_late_sink_is_told_how_much_its_group_has_been_sent() {
    let (mut half, cast, _) = source(record());
    let (late, start) = without_room(&mut half, cast);
    let sent = half.take();
    let sync = sent.iter().find(|got| got.kind() == Kind::Sync && got.to == late.address).expect("one");
    assert_eq!(sync.header().sequence, start + 10, "the next that was never sent");
}

//= A-15, A-18 test
#[test]
fn a_raw_sink_has_time_to_read_what_its_group_was_sent_before_it_is_told_the_end() {
    let qos = Qos { has_retransmission: false, ..record() };
    let (mut half, cast, first) = source(qos);
    let mut second = Liar::new(Address::Node(2), 0x22, qos);
    let open = add(&mut half, cast, &second);
    half.feed(second.address, &second.accept_as(&open, true));
    send(&mut half, cast, 300);
    half.call(|engine, now| engine.end_cast(now, cast, LINGER));
    let closed = |half: &mut Half| {
        let sent = half.take();
        sent.iter().filter(|got| got.kind() == Kind::Close).map(|got| got.to).collect::<Vec<_>>()
    };
    assert_eq!(closed(&mut half), []);
    half.feed(first.address, &first.answer(Kind::Ack, 3, &[]).bytes());
    assert_eq!(closed(&mut half), [first.address], "it has read everything");
    half.feed(first.address, &Lie { body: vec![0, 0], ..first.lie(Kind::CloseReply) }.bytes());
    half.advance(Duration::from_millis(9));
    assert_eq!(closed(&mut half), []);
    half.advance(Duration::from_millis(3));
    assert_eq!(closed(&mut half), [second.address]);
}

//= A-15 test
#[test]
fn what_is_too_old_leaves_neither_to_a_group_nor_to_anybody_in_it() {
    let group_address = Address::Inet(group().socket().into());
    // One more sink joins, or gets everything over its own connection.
    for (by_message, joins) in [(false, true), (true, true), (false, false)] {
        let deadline = if by_message { 0 } else { 25_000 };
        let rate = Qos { send_average: 10_000, send_burst: 100, outstanding: 40, ..record() };
        let qos = Qos { has_retransmission: false, deadline, ..rate };
        let (mut half, cast, first) = source(qos);
        let mut second = Liar::new(Address::Node(2), 0x22, qos);
        let open = add(&mut half, cast, &second);
        half.feed(second.address, &second.accept_as(&open, joins));
        let start = open.header().sequence;
        half.take();
        let (mut to_group, mut to_second) = (Vec::new(), Vec::new());
        // A block takes 10 ms: of ten that are queued at once three leave in time, and so of those queued later.
        for step in 0..60 {
            if step == 0 || step == 40 {
                let until = half.now + Duration::from_millis(25);
                for _ in 0..10 {
                    let buffer = half.memory.add(vec![1; 100]);
                    let output = Output::new(buffer, 100);
                    let output = Output { deadline: by_message.then_some(until), ..output };
                    half.call(|engine, now| engine.cast_send(now, cast, output)).expect("room");
                }
            }
            let sent = half.take();
            let numbers = |to| blocks(&sent, to, start).into_iter().map(|(number, _)| number);
            to_group.extend(numbers(group_address));
            to_second.extend(numbers(second.address));
            for sink in [&first, &second] {
                half.feed(sink.address, &sink.answer(Kind::Ack, if step < 40 { 0 } else { 10 }, &[]).bytes());
            }
            half.advance(Duration::from_millis(2));
        }
        let in_time = [0, 1, 2, 10, 11, 12];
        assert_eq!(to_group, in_time, "{by_message} {joins}");
        assert_eq!(to_second, if joins { &[][..] } else { &in_time }, "{by_message} {joins}");
        let told = half.events.iter().filter_map(|event| match event {
            Event::Cast { delivered, sinks, .. } => Some((*delivered, *sinks)),
            _ => None,
        });
        let told = told.collect::<Vec<_>>();
        assert_eq!(told.iter().filter(|told| **told == (2, 2)).count(), 6, "{told:?}");
        assert_eq!(told.iter().filter(|told| **told == (0, 2)).count(), 14, "{told:?}");
    }
}

//= A-11, A-12 test
#[test]
fn a_group_has_the_priority_that_its_sinks_have_now() {
    let qos = Qos { priority: 100, largest_sent: 100_000, largest_received: 100_000, ..record() };
    // All of them together have a rate, so that what goes first is a choice.
    let mut half = Half::new(Config { link_average: 132_000, ..config(qos) });
    half.advance(Duration::from_millis(5));
    let cast = half.call(|engine, _| engine.cast(SlowSink::Block, Some((group(), qos)))).expect("room");
    let mut first = Liar::new(Address::Node(1), 0x11, qos);
    let open = add(&mut half, cast, &first);
    half.feed(first.address, &first.accept_as(&open, true));
    half.take();
    // Beside it a connection that goes before it, and then behind it.
    let mut other = Liar { window: 4000, ..Liar::new(Address::Node(3), 0x33, Qos { priority: 150, ..qos }) };
    let name = Name { host: 1, port: 9 };
    half.call(|engine, now| engine.open(now, other.address, name, other.qos)).expect("room");
    let open = half.take().into_iter().find(|got| got.to == other.address).expect("an OPEN");
    half.feed(other.address, &other.accept(&open));
    half.take();
    let id = half.events.iter().rev().find_map(|event| match event {
        Event::Connected { connection } => Some(*connection),
        _ => None,
    });
    let id = id.expect("it is connected");
    let sink = half.a1().sinks(cast)[0];
    let mut acked = 0;
    for (priority, group_first) in [(None, true), (Some(200), false)] {
        if let Some(priority) = priority {
            let lower = Qos { priority, ..qos };
            half.call(|engine, now| engine.set_qos(now, sink, lower)).expect("within the maximum");
            let asked = half.take().into_iter().find(|got| got.kind() == Kind::Qos).expect("a change");
            let Some(Body::Qos(change)) = asked.body() else { panic!("{asked:?}") };
            let (mut bytes, lie) = (Vec::new(), first.lie(Kind::QosReply));
            pinnace_wire::a1::qos_reply(asked.header(), &change, &mut bytes);
            half.feed(first.address, &Lie { body: bytes[32..].to_vec(), ..lie }.bytes());
        }
        // It takes what the link allows at once, and waits for its turns with the rest.
        let buffer = half.memory.add(vec![2; 100_000]);
        half.call(|engine, now| engine.send(now, id, Output::new(buffer, 100_000))).expect("room");
        send(&mut half, cast, 100);
        half.advance(Duration::from_secs(3));
        let is_new = |got: &Got| got.kind() == Kind::Data && !got.header().is_retransmitted;
        let data: Vec<_> = half.take().into_iter().filter(is_new).collect();
        assert_eq!(data.len(), 1001);
        let place = data.iter().position(|got| got.to != other.address).expect("one to the group");
        assert!(if group_first { place < 600 } else { place == 1000 }, "{place}");
        acked += 1;
        half.feed(first.address, &first.answer(Kind::Ack, acked, &[]).bytes());
        half.feed(other.address, &other.answer(Kind::Ack, 1000 * acked, &[]).bytes());
    }
}

//= A-18 test
#[test]
fn a_raw_sink_that_is_removed_does_not_wait_for_what_its_group_is_sent_then() {
    let qos = Qos { has_retransmission: false, ..record() };
    let (mut half, cast, first) = source(qos);
    let mut removed = Liar::new(Address::Node(2), 0x22, qos);
    let open = add(&mut half, cast, &removed);
    half.feed(removed.address, &removed.accept_as(&open, true));
    send(&mut half, cast, 100);
    let id = half.a1().sinks(cast)[1];
    half.call(|engine, now| engine.close(now, id, LINGER)).expect("it is there");
    half.take();
    for next in 1..=3 {
        half.advance(Duration::from_millis(5));
        half.feed(first.address, &first.answer(Kind::Ack, next, &[]).bytes());
        send(&mut half, cast, 100);
    }
    let sent = half.take();
    assert!(sent.iter().any(|got| got.kind() == Kind::Close && got.to == removed.address), "it was sent one block");
}

//= A-15 test
#[test]
fn a_sink_that_joins_and_takes_smaller_blocks_only_gets_them_over_its_own_connection() {
    let (mut half, cast, first) = source(record());
    let small = Qos { block_size: 60, ..record() };
    let mut joined = Liar::new(Address::Node(2), 0x22, small);
    let open = add(&mut half, cast, &joined);
    half.feed(joined.address, &joined.accept_as(&open, true));
    let sent = half.take();
    let sent: Vec<_> = sent.iter().filter(|got| got.to == joined.address).collect();
    let of = |kind| sent.iter().find(move |got| got.kind() == kind).copied().expect("one");
    let (close, open) = (of(Kind::Close), of(Kind::Open));
    assert_eq!((close.header().connection.get(), sent.len()), (0x22, 2));
    assert!(matches!(open.body(), Some(Body::Open(open)) if open.group.is_none()), "as one that cannot join");
    assert!(!half.events.iter().any(|it| matches!(it, Event::Closed { .. })), "it is there: {:?}", half.events);
    half.feed(joined.address, &Lie { body: vec![0, 1], ..joined.lie(Kind::CloseReply) }.bytes());
    let mut alone = Liar::new(Address::Node(2), 0x33, small);
    half.feed(alone.address, &alone.accept(open));
    half.take();
    assert_eq!(half.a1().sinks(cast).len(), 2);
    send(&mut half, cast, 100);
    let sent = half.take();
    let own: Vec<_> = sent.iter().filter(|got| got.kind() == Kind::Data && got.to == alone.address).collect();
    let sizes: Vec<_> = own.iter().map(|got| (got.header().connection.get(), got.bytes.len() - 32)).collect();
    assert_eq!(sizes, [(0x33, 60), (0x33, 40)]);
    half.feed(first.address, &first.answer(Kind::Ack, 1, &[]).bytes());
    half.feed(alone.address, &alone.answer(Kind::Ack, 2, &[]).bytes());
    half.call(|engine, now| engine.end_cast(now, cast, LINGER));
    for sink in [&first, &alone] {
        half.feed(sink.address, &Lie { body: vec![0, 0], ..sink.lie(Kind::CloseReply) }.bytes());
    }
    let ended = half.events.iter().filter(|it| matches!(it, Event::Closed { result: Ok(()), .. }));
    assert_eq!(ended.count(), 2);
    half.advance(Duration::from_secs(11));
    assert_eq!(half.a1().connections(), 2, "of the first one nothing is left; these may be asked about");
}

//= A-11 test
//= A-15 test
#[test]
fn what_a_late_sink_gets_from_the_group_and_over_its_connection_is_no_more_than_its_rate() {
    const BURST: u64 = 400;
    const STEP: u64 = 10;
    let qos = Qos { send_average: 1000, send_burst: BURST as u32, outstanding: 40, ..record() };
    let (mut half, cast, first) = source(qos);
    let mut late = Liar::new(Address::Node(2), 0x22, qos);
    let open = add(&mut half, cast, &late);
    let start = open.header().sequence;
    for next in [4, 8] {
        send(&mut half, cast, BURST as usize);
        half.feed(first.address, &first.answer(Kind::Ack, next, &[]).bytes());
        half.advance(Duration::from_millis(BURST));
    }
    half.take();
    half.feed(late.address, &late.accept_as(&open, true));
    let mut got = BTreeSet::new();
    // What is in the bucket of its rate, in thousandths of a byte.
    let (mut most, mut level) = (0, 0u64);
    for step in 0..300 {
        if step < 200 && step % 12 == 0 {
            send(&mut half, cast, 100);
        }
        let sent = half.take();
        for block in sent.iter().filter(|got| got.kind() == Kind::Data && got.to != first.address) {
            got.insert(block.header().sequence.wrapping_sub(start));
            level += 1000 * (block.bytes.len() as u64 - 32);
        }
        most = most.max(level);
        level = level.saturating_sub(1000 * STEP);
        let next = (0..).find(|number| !got.contains(number)).expect("one is missing");
        let newest = got.last().map_or(0, |last| last + 1);
        half.feed(late.address, &late.answer(Kind::Ack, next, &[]).bytes());
        half.feed(first.address, &first.answer(Kind::Ack, newest.max(8), &[]).bytes());
        half.advance(Duration::from_millis(STEP));
    }
    assert_eq!(got.len(), 8 + 17, "all of it");
    assert!(most <= 1000 * BURST, "{most}");
}

//= A-15 test
#[test]
fn a_sink_that_takes_nothing_more_is_cut_off_alone() {
    for outstanding in [4, 2] {
        let (mut half, cast, first) = source_of(SlowSink::Drop { patience: LINGER }, record(), outstanding);
        let mut slow = Liar::new(Address::Node(2), 0x22, record());
        let open = add(&mut half, cast, &slow);
        half.feed(slow.address, &slow.accept_as(&open, true));
        let (start, mut sent, mut fulls, mut next) = (open.header().sequence, BTreeSet::new(), 0, 0);
        let mut closed = Vec::new();
        for step in 0..400 {
            if step == 50 {
                let record = Qos { receive_average: 1, receive_burst: 1, ..slow.qos };
                half.feed(slow.address, &change(&slow, &record).bytes());
            }
            let buffer = half.memory.add(vec![1; 100]);
            if half.call(|engine, now| engine.cast_send(now, cast, Output::new(buffer, 100))).is_err() {
                half.memory.forget(buffer);
                fulls += 1;
            }
            for got in half.take() {
                match got.kind() {
                    Kind::Data => drop(sent.insert(got.header().sequence.wrapping_sub(start))),
                    Kind::Close => closed.push(got.to),
                    _ => {}
                }
            }
            next = (next..).find(|number| !sent.contains(number)).expect("one is missing");
            for sink in [&first, &slow] {
                half.feed(sink.address, &sink.answer(Kind::Ack, next, &[]).bytes());
            }
            half.advance(Duration::from_millis(10));
        }
        closed.dedup();
        assert_eq!(closed, [slow.address], "{outstanding}: the other waits for it");
        assert!((100..110).contains(&fulls) && next > 280, "{outstanding}: {fulls} {next}");
    }
}
