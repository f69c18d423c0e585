//! Streams to groups: what the control block says, how they end, and what strangers send (specs/xtp.md, X-22).
mod support;

use core::time::Duration;
use pinnace_core::{Address, Time};
use pinnace_sim::HostId;
use pinnace_wire::xtp::{
    self, AddressSegment, Body, Code, Codec, Header, HostPair, Key, Kind, Options, Spans, Status, Traffic, Value,
};
use pinnace_xtp::{Close, Config, ControlBlock, Event, Failure, Limits, Output, Refused, Service, Services, Xtp};
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use support::group::*;
use support::{PORT, Program, block, pattern};

const MEMBER: HostId = HostId::new(1);
/// rseq, echo and spans of a status.
type Lie<'a> = (u64, u32, &'a [(u64, u64)]);

/// Nobody's address.
const STRANGER: Address = Address::Node(77);

fn header(kind: Kind, key: Key, options: Options, sync: u32, seq: u64) -> Header {
    Header { codec: Codec::Xtp40, key, options, kind, sort: 0, sync, seq, dseq: 0 }
}

fn status(header: &Header, rseq: u64, alloc: u64, echo: u32, spans: &[(u64, u64)]) -> Vec<u8> {
    let spans = Spans::from_slice(spans);
    let mut bytes = Vec::new();
    let status = Status { rseq, alloc, echo, spans, xkey: 0, traffic: None, clock: None, hseq: rseq };
    xtp::status(header, &status, &mut bytes);
    bytes
}

fn segment() -> AddressSegment {
    let hosts = HostPair::V4 { destination: Ipv4Addr::UNSPECIFIED, source: Ipv4Addr::UNSPECIFIED };
    AddressSegment { hosts, destination_port: PORT, source_port: 9 }
}

/// A whole packet of DATA or FIRST, with its checksum.
fn data(header: &Header, service: u8, n: usize) -> Vec<u8> {
    let header = Header { options: header.options | Options::NOCHECK, ..*header };
    let traffic = Traffic { service, maxdata: 1400, ..Traffic::default() };
    let prefix = match header.kind {
        Kind::First => xtp::first_prefix(&header, &segment(), &traffic, None, n),
        _ => xtp::data_prefix(&header, None, n),
    };
    let mut bytes = prefix.to_vec();
    bytes.resize(bytes.len() + n, 7);
    bytes
}

fn run(world: &mut World, until: u64) {
    let now = world.now();
    world.run_for(millis(until).since(now));
}

/// One stream that goes on: its sender has sent 1000 bytes, and has more to say some day.
fn standing(count: u32) -> (World, Sights) {
    standing_before(count, joining)
}

/// The same, to such receivers.
fn standing_before(count: u32, receiver: fn() -> Program) -> (World, Sights) {
    let sender = Program::new(
        |now, host| {
            let context = host.call(|engine| engine.open_group(now, GROUP, block(Service::Multicast))).expect("room");
            let buffer = host.add_buffer(pattern(1000, 1));
            host.call(|engine| engine.send(now, context, Output::message(buffer, 1000))).expect("taken");
        },
        |_, _, _, _| {},
    );
    let (mut world, sights) = tapped(1, count, sender, |_| receiver(), |_| false);
    run(&mut world, 1000);
    (world, sights)
}

//= X-22 test
#[test]
fn the_control_block_says_how_often_to_ask_and_when_to_give_up() {
    let asked = |every: u16| {
        let mut block = block(Service::Multicast);
        block.mc_sreqs = every;
        let (mut world, sights) = tapped(1, 1, sending(block, vec![pattern(50_000, 1)]), |_| joining(), |_| false);
        quiet(&mut world);
        let sights = sights.borrow();
        sights.iter().filter(|it| it.is_data() && it.has(Options::SREQ)).count()
    };
    assert_eq!([asked(0), asked(4), asked(1)], [3, 9, 36]);

    let given_up = |drops: u16, ends: bool| {
        let mut block = block(Service::Multicast);
        block.mc_drops = drops;
        let sender = Program::new(
            move |now, host| {
                let context = host.call(|engine| engine.open_group(now, GROUP, block)).expect("room");
                let buffer = host.add_buffer(pattern(1000, 1));
                host.call(|engine| engine.send(now, context, Output::message(buffer, 1000))).expect("taken");
                if ends {
                    host.call(|engine| engine.close(now, context, Close::Full)).expect("open");
                }
            },
            |_, _, _, _| {},
        );
        let (mut world, sights) = tapped(1, 1, sender, |_| Program::new(|_, _| {}, |_, _, _, _| {}), |_| false);
        quiet(&mut world);
        let seen = seen(&world, SENDER);
        assert_eq!(seen.closed, Some(Err(Failure::Unanswered)));
        assert_eq!(seen.sent, [(1, false)]);
        let diags = sights.borrow().iter().filter(|it| it.header.kind == Kind::Diag).count();
        assert_eq!(diags, 1, "DIAG 2 to the group");
        assert_eq!(world.engine(SENDER).contexts(), 0);
        (world.engine(SENDER).counters().timeouts, seen.closed_at.expect("closed").since(Time::ZERO))
    };
    // Slot and WTIMER, 270 ms, which double.
    assert_eq!(given_up(1, false).0, 1);
    assert_eq!(given_up(2, true).0, 2);
    let (timeouts, took) = given_up(0, false);
    assert_eq!(timeouts, 6, "retry_count");
    assert!((270 * 47..270 * 50).contains(&took.as_millis()), "{took:?}");
}

//= X-22 test
#[test]
fn an_end_that_is_lost_is_said_again() {
    let sender = sending(block(Service::Multicast), vec![pattern(50_000, 1)]);
    let lost = Cell::new(0);
    let (mut world, _) = tapped(
        2,
        3,
        sender,
        |_| joining(),
        move |sight| {
            let is_end = sight.has(Options::END) && sight.to == MEMBER;
            lost.set(lost.get() + u32::from(is_end));
            is_end && lost.get() < 3
        },
    );
    quiet(&mut world);
    assert_eq!(seen(&world, MEMBER).closed, Some(Ok(())));
    let took = seen(&world, MEMBER).closed_at.expect("closed");
    assert!(took < millis(1500), "{took:?}");
}

//= X-22 test
#[test]
fn without_its_end_a_stream_that_is_complete_ends_well_and_another_does_not() {
    for loses_tail in [false, true] {
        let (mut world, _) = tapped(
            3,
            2,
            trickling(block(Service::Multicast), 20),
            |_| joining(),
            move |sight| sight.to == MEMBER && (sight.has(Options::END) || (loses_tail && sight.at > millis(100))),
        );
        quiet(&mut world);
        assert_eq!(seen(&world, SENDER).closed, Some(Ok(())));
        let seen = seen(&world, MEMBER);
        let result = if loses_tail { Err(Failure::Abandoned) } else { Ok(()) };
        assert_eq!((seen.closed, seen.is_end), (Some(result), !loses_tail));
        assert_eq!(world.engine(MEMBER).contexts(), 0);
    }
}

//= X-22 test
#[test]
fn an_end_in_the_middle_is_forced() {
    let (mut world, _) = standing(2);
    let context = *world.application(SENDER).seen.keys().next().expect("open");
    let now = world.now();
    world.call(SENDER, |engine| engine.close(now, context, Close::Forced)).expect("open");
    quiet(&mut world);
    for member in receivers(2) {
        assert_eq!(seen(&world, member).closed, Some(Err(Failure::Forced)));
        assert_eq!(seen(&world, member).bytes, pattern(1000, 1));
    }
}

//= X-22 test
#[test]
fn a_receiver_leaves_without_a_word_and_does_not_come_back() {
    let left = Rc::new(Cell::new(None));
    let note = left.clone();
    let (mut world, sights) = tapped(
        4,
        3,
        trickling(block(Service::Multicast), 100),
        |number| {
            let note = note.clone();
            Program::new(
                |_, host| {
                    host.call(|engine| engine.join(GROUP, block(Service::Multicast), BOTH)).expect("joined");
                },
                move |now, event, seen, host| {
                    if let Event::Readable { context } = event
                        && number == 1
                        && seen[context].bytes.len() == 30_000
                    {
                        note.set(Some(now));
                        host.call(|engine| engine.close(now, *context, Close::Full)).expect("open");
                    }
                },
            )
        },
        |_| false,
    );
    quiet(&mut world);
    assert_eq!(seen(&world, MEMBER).closed, Some(Err(Failure::Aborted)));
    assert_eq!(seen(&world, MEMBER).bytes.len(), 30_000);
    for member in receivers(3).skip(1) {
        assert!(seen(&world, member).bytes == trickle(0..100));
    }
    let left = left.get().expect("left");
    assert!(!sights.borrow().iter().any(|sight| sight.from == MEMBER && sight.at > left));
    assert_eq!(seen(&world, SENDER).closed, Some(Ok(())));
}

//= X-7 test
//= X-22 test
#[test]
fn a_dreq_to_a_group_is_answered_when_the_data_are_delivered() {
    let deaf = || {
        let mut receiver = joining();
        receiver.is_deaf = true;
        receiver
    };
    for (receiver, is_deaf) in [(joining as fn() -> Program, false), (deaf, true)] {
        let (mut world, sights) = standing_before(1, receiver);
        let first = sights.borrow()[0].header;
        let context = *world.application(SENDER).seen.keys().next().expect("open");
        let sync = world.engine(SENDER).facts(context).expect("open").sync.wrapping_add(1);
        let key = Key { rtn: false, value: first.key.value };
        let asking = header(Kind::Data, key, Options::MULTI | Options::DREQ, sync, first.seq.wrapping_add(1000));
        world.inject_to(SENDER.address(), MEMBER, GROUP, &data(&asking, 6, 100));
        run(&mut world, 1030);
        let is_answer = |it: &&Sight| matches!(it.body(), Body::Status(status) if status.echo == sync);
        let answers = sights.borrow().iter().filter(|it| it.from == MEMBER).filter(is_answer).count();
        assert_eq!(answers, usize::from(!is_deaf), "{is_deaf}");
    }
}

//= X-22 test
#[test]
fn who_takes_less_than_somebody_has_said_answers_too() {
    // What the other one says that it takes, beside what the member does; and what it has.
    for (more, had, is_silent) in
        [(1, 1000, false), (1 << 20, 1000, false), (0, 1000, true), (-1, 1000, true), (0, 999, true)]
    {
        let (mut world, sights) = standing(1);
        let first = sights.borrow()[0].header;
        let own = sights.borrow().iter().rev().find(|it| it.from == MEMBER).expect("it has answered").clone();
        let Body::Status(Status { alloc, .. }) = own.body() else { panic!("{own:?}") };
        let context = *world.application(SENDER).seen.keys().next().expect("open");
        let sync = world.engine(SENDER).facts(context).expect("open").sync.wrapping_add(1);
        let (end, value) = (first.seq.wrapping_add(1000), first.key.value);
        let ask = header(Kind::Cntl, Key { rtn: false, value }, Options::MULTI | Options::SREQ, sync, end);
        world.inject_to(SENDER.address(), MEMBER, GROUP, &status(&ask, 0, 0, 0, &[]));
        let answer = header(Kind::Cntl, Key { rtn: true, value }, Options::MULTI, 0, 0);
        let said = status(&answer, first.seq.wrapping_add(had), alloc.wrapping_add_signed(more), sync, &[]);
        world.inject_to(STRANGER, MEMBER, GROUP, &said);
        run(&mut world, 1030);
        let is_answer = |it: &&Sight| matches!(it.body(), Body::Status(status) if status.echo == sync);
        let answers = sights.borrow().iter().filter(|it| it.from == MEMBER).filter(is_answer).count();
        assert_eq!(answers, usize::from(!is_silent), "{more} more, {had} bytes");
    }
}

//= X-22 test
#[test]
fn a_join_that_is_denied_is_not_repeated() {
    let (mut world, sights) = standing(1);
    let strange = header(Kind::Data, Key { rtn: false, value: 12_345 }, Options::MULTI, 0, 0);
    for _ in 0..5 {
        // From where the sender is, but of a stream that it does not have.
        world.inject_to(SENDER.address(), MEMBER, GROUP, &data(&strange, 6, 100));
        let until = world.now().as_nanos() / 1_000_000 + 100;
        run(&mut world, until);
    }
    let sights = sights.borrow();
    let joins: Vec<_> = sights.iter().filter(|sight| sight.header.kind == Kind::Jcntl).collect();
    assert_eq!(joins.len(), 1, "{joins:?}");
    let diags: Vec<_> = sights.iter().filter(|sight| sight.header.kind == Kind::Diag).collect();
    let [diag] = diags[..] else { panic!("{diags:?}") };
    assert!(matches!(diag.body(), Body::Diag { code: 5, value: 13, .. }));
    assert_eq!(diag.header.key, Key { rtn: false, value: 12_345 });
    assert_eq!(world.engine(MEMBER).contexts(), 1);
}

/// A whole JCNTL that asks.
fn join(header: &Header) -> Vec<u8> {
    let status =
        Status { rseq: 0, alloc: 0, echo: 0, spans: Spans::EMPTY, xkey: 0, traffic: None, clock: None, hseq: 0 };
    let traffic = Traffic { service: 6, maxdata: 1400, ..Traffic::default() };
    let mut bytes = Vec::new();
    xtp::join(header, &status, &segment(), &traffic, &mut bytes);
    bytes
}

//= X-22 test
#[test]
fn whoever_asks_to_join_what_is_not_there_is_told_so_with_multi_too() {
    let (mut world, _) = standing(2);
    let strange = Key { rtn: true, value: 12_345 };
    for (options, destination, diags) in [
        (Options::SREQ, SENDER.address(), 1),
        (Options::SREQ | Options::MULTI, SENDER.address(), 1),
        // All of the group would answer.
        (Options::SREQ, GROUP, 0),
        (Options::SREQ | Options::MULTI, GROUP, 0),
    ] {
        let before = world.engine(MEMBER).counters().diags_sent;
        world.inject_to(STRANGER, MEMBER, destination, &join(&header(Kind::Jcntl, strange, options, 1, 0)));
        let until = world.now().as_nanos() / 1_000_000 + 100;
        run(&mut world, until);
        assert_eq!(world.engine(MEMBER).counters().diags_sent - before, diags, "{options:?} {destination:?}");
    }
}

//= X-22 test
#[test]
fn nothing_is_repeated_for_who_joins_and_never_says_that_he_lacks_it() {
    let (mut world, sights) = tapped(4, 2, trickling(block(Service::Multicast), 100), |_| joining(), |_| false);
    run(&mut world, 30);
    let named = Key { rtn: true, value: sights.borrow()[0].header.key.value };
    for sync in 1..200 {
        world.inject(STRANGER, SENDER, &join(&header(Kind::Jcntl, named, Options::SREQ, sync, 0)));
        run(&mut world, 30 + 5 * u64::from(sync));
    }
    quiet(&mut world);
    assert_eq!(world.engine(SENDER).counters().data_packets_resent, 0);
    for host in world.hosts() {
        assert_eq!(seen(&world, host).closed, Some(Ok(())), "{host}");
    }
    for member in receivers(2) {
        assert!(seen(&world, member).bytes == trickle(0..100));
    }
}

//= X-22 test
#[test]
fn whoever_lacks_a_byte_less_each_time_is_not_waited_for() {
    let (mut world, sights) =
        tapped(6, 2, sending(block(Service::Multicast), vec![pattern(20_000, 1)]), |_| joining(), |_| false);
    run(&mut world, 50);
    let context = *world.application(SENDER).seen.keys().next().expect("open");
    let first = sights.borrow()[0].header;
    let named = Key { rtn: true, value: first.key.value };
    let (mut answered, mut has) = (first.sync, 0);
    for step in 1..2000 {
        let Some(facts) = world.engine(SENDER).facts(context).filter(|_| seen(&world, SENDER).closed.is_none()) else {
            break;
        };
        while answered != facts.sync {
            (answered, has) = (answered.wrapping_add(1), has + 1);
            let (rseq, alloc) = (first.seq.wrapping_add(has), first.seq.wrapping_add(1 << 18));
            let crawl = status(&header(Kind::Cntl, named, Options::MULTI, 0, 0), rseq, alloc, answered, &[]);
            world.inject_to(STRANGER, SENDER, GROUP, &crawl);
        }
        run(&mut world, 50 + 5 * step);
    }
    quiet(&mut world);
    for host in world.hosts() {
        assert_eq!(seen(&world, host).closed, Some(Ok(())), "{host}");
    }
    let (bytes, took) = (world.engine(SENDER).counters().bytes_sent, seen(&world, SENDER).closed_at.expect("closed"));
    assert!(bytes <= 9 * 20_000 && took < millis(3000), "{bytes} {took:?}");
}

//= X-22 test
#[test]
fn with_a_retry_count_of_1_one_bucket_is_enough() {
    let asks = |retry_count| {
        let mut block = block(Service::Multicast);
        block.retry_count = retry_count;
        let (mut world, sights) = tapped(9, 2, sending(block, vec![pattern(1000, 1)]), |_| joining(), |_| false);
        quiet(&mut world);
        for host in world.hosts() {
            assert_eq!(seen(&world, host).closed, Some(Ok(())), "{host}");
        }
        let sights = sights.borrow();
        sights.iter().filter(|it| it.from == SENDER && it.to == MEMBER && it.has(Options::SREQ)).count()
    };
    // The data ask, and so does the end of the stream.
    assert_eq!([asks(1), asks(2), asks(6)], [2, 2, 3]);
}

//= X-10 test
//= X-22 test
#[test]
fn a_key_that_is_used_again_names_another_stream() {
    let (mut world, _) = standing(1);
    let key = Key { rtn: false, value: 12_345 };
    let ends = Options::MULTI | Options::WCLOSE;
    // What comes late of one that has ended is no other; what begins elsewhere is, and what is newer.
    for (sync, seq, streams) in [(1000, 5000, 1), (1000, 5000, 1), (7, 90_000, 2), (8, 90_000, 3), (7, 90_000, 3)] {
        world.inject_to(STRANGER, MEMBER, GROUP, &data(&header(Kind::First, key, ends, sync, seq), 6, 100));
        let end = header(Kind::Cntl, key, ends | Options::RCLOSE | Options::END, sync, seq + 100);
        world.inject_to(STRANGER, MEMBER, GROUP, &status(&end, 0, 0, 0, &[]));
        let until = world.now().as_nanos() / 1_000_000 + 100;
        run(&mut world, until);
        assert_eq!(world.engine(MEMBER).counters().contexts_accepted, 1 + streams, "{sync} {seq}");
    }
    let seen = &world.application(MEMBER).seen;
    assert_eq!(seen.values().filter(|it| it.closed == Some(Ok(())) && it.bytes == [7; 100]).count(), 3);
}

//= X-22 test
#[test]
fn a_join_that_nobody_answers_is_given_up() {
    // Of the smaller packet three times as much is less than all that would be asked.
    for (n, times) in [(1000, 5..10), (100, 1..4)] {
        let (mut world, _) = standing(1);
        let strange = header(Kind::Data, Key { rtn: false, value: 12_345 }, Options::MULTI, 0, 0);
        let sent = world.counters(MEMBER).datagrams_sent;
        world.inject_to(STRANGER, MEMBER, GROUP, &data(&strange, 6, n));
        run(&mut world, 20_000);
        let more = world.counters(MEMBER).datagrams_sent - sent;
        assert!(times.contains(&more), "{n}: {more}");
    }
}

//= X-22 test
#[test]
fn a_group_is_told_no_more_than_three_times_what_came_from_it() {
    let (mut world, sights) = standing(1);
    let before = sights.borrow().len();
    let key = Key { rtn: false, value: 12_345 };
    let counted = |bytes: &[u8]| bytes.len() + 28;
    let mut came = 0;
    let mut bring = |world: &mut World, bytes: Vec<u8>| {
        came += counted(&bytes);
        world.inject_to(STRANGER, MEMBER, GROUP, &bytes);
    };
    bring(&mut world, data(&header(Kind::First, key, Options::MULTI, 0, 0), 6, 1));
    for gap in 1..=80 {
        bring(&mut world, data(&header(Kind::Data, key, Options::MULTI, 0, 2 * gap), 6, 1));
    }
    for sync in 1..=200 {
        bring(&mut world, status(&header(Kind::Cntl, key, Options::MULTI | Options::SREQ, sync, 161), 0, 0, 0, &[]));
        run(&mut world, 1000 + 30 * u64::from(sync));
    }
    let sights = sights.borrow();
    let answers: Vec<_> =
        sights[before..].iter().filter(|it| it.from == MEMBER && it.header.key.value == 12_345).collect();
    assert!(answers.len() >= 200, "each question is answered: {}", answers.len());
    assert!(answers.iter().all(|it| it.header.kind == Kind::Ecntl), "and of the gaps what there is room for");
    let left: usize = answers.iter().map(|it| counted(&it.bytes)).sum();
    assert!(left <= 3 * came, "{left} for {came}");
}

//= X-22 test
#[test]
fn statuses_outside_of_what_was_sent_are_ignored() {
    let (mut world, sights) = standing(1);
    let first = sights.borrow()[0].clone();
    let context = *world.application(SENDER).seen.keys().next().expect("open");
    // New bytes, whose ask is open.
    let now = world.now();
    let buffer = world.add_buffer(SENDER, pattern(1000, 2));
    world.call(SENDER, |engine| engine.send(now, context, Output::message(buffer, 1000))).expect("taken");
    let facts = world.engine(SENDER).facts(context).expect("open");
    let (start, sync) = (first.header.seq, facts.sync);
    let named = Key { rtn: true, value: first.header.key.value };
    let invalid = world.engine(SENDER).counters().statuses_invalid;
    let lies: &[Lie<'_>] = &[
        (2001, sync, &[]),
        (1 << 40, sync, &[]),
        (1000, sync, &[(1500, 2001)]),
        (1000, sync, &[(1500, 1400)]),
        (1000, sync, &[(1000, 1400)]),
        (1000, sync, &[(1800, 1900), (1500, 1600)]),
        (2000, sync.wrapping_add(1), &[]),
        (2000, sync.wrapping_add(1 << 20), &[]),
    ];
    for (rseq, echo, spans) in lies {
        let spans: Vec<_> =
            spans.iter().map(|(low, high)| (start.wrapping_add(*low), start.wrapping_add(*high))).collect();
        let kind = if spans.is_empty() { Kind::Cntl } else { Kind::Ecntl };
        let lie = header(kind, named, Options::MULTI, 0, 0);
        let bytes = status(&lie, start.wrapping_add(*rseq), start.wrapping_add(1 << 20), *echo, &spans);
        world.inject_to(STRANGER, SENDER, GROUP, &bytes);
        let until = world.now().as_nanos() / 1_000_000 + 1;
        run(&mut world, until);
    }
    assert_eq!(world.engine(SENDER).counters().statuses_invalid - invalid, lies.len() as u64);
    assert_eq!(world.engine(SENDER).facts(context).expect("open").acked, start.wrapping_add(1000));
    run(&mut world, 3000);
    assert_eq!(seen(&world, MEMBER).bytes.len(), 2000);
    assert_eq!(world.engine(SENDER).facts(context).expect("open").acked, start.wrapping_add(2000));
}

//= X-22 test
#[test]
fn forged_diags_and_packets_end_nothing() {
    let (mut world, sights) = standing(2);
    let first = sights.borrow()[0].clone();
    let key = first.header.key.value;
    let diag = |rtn, code: u32, value: u32| {
        let mut bytes = Vec::new();
        let header = header(Kind::Diag, Key { rtn, value: key }, Options::NONE, 0, 0);
        xtp::diag(&header, code, value, b"", &mut bytes);
        bytes
    };
    for rtn in [false, true] {
        for (code, value) in [(1, 1), (2, 0), (3, 0), (4, 11), (5, 13), (6, 12), (77, 77)] {
            // Strangers, to receivers and to the sender; a receiver to the sender.
            world.inject(STRANGER, MEMBER, &diag(rtn, code, value));
            world.inject(STRANGER, SENDER, &diag(rtn, code, value));
            world.inject(MEMBER.address(), SENDER, &diag(rtn, code, value));
        }
    }
    // From where the sender is: only those that a sender sends.
    for (code, value) in [(1, 1), (3, 0), (4, 0), (5, 13), (7, 0)] {
        world.inject(SENDER.address(), MEMBER, &diag(false, code, value));
    }
    // Its packets without MULTI, and END with RTN.
    let plain = |kind, rtn, options| header(kind, Key { rtn, value: key }, options, 0, first.header.seq);
    world.inject_to(SENDER.address(), MEMBER, GROUP, &data(&plain(Kind::Data, false, Options::END), 6, 100));
    world.inject_to(SENDER.address(), MEMBER, GROUP, &data(&plain(Kind::First, false, Options::NONE), 6, 100));
    let end = plain(Kind::Cntl, false, Options::END | Options::WCLOSE);
    world.inject_to(SENDER.address(), MEMBER, GROUP, &status(&end, 0, 0, 0, &[]));
    let end = plain(Kind::Cntl, true, Options::END | Options::MULTI);
    world.inject_to(STRANGER, SENDER, GROUP, &status(&end, first.header.seq, 0, 0, &[]));
    world.inject_to(STRANGER, MEMBER, GROUP, &status(&end, first.header.seq, 0, 0, &[]));
    run(&mut world, 2000);
    for host in world.hosts() {
        assert_eq!(world.application(host).only().closed, None, "{host}");
    }
    assert!(world.engine(MEMBER).counters().diags_stray > 0);
    // A true one does.
    world.inject(
        SENDER.address(),
        MEMBER,
        &diag(false, Code::RequestRefused as u32, Value::InvalidRetransmission as u32),
    );
    run(&mut world, 2100);
    assert_eq!(seen(&world, MEMBER).closed, Some(Err(Failure::TooLate)));
}

//= X-22 test
#[test]
fn nothing_that_strangers_send_grows_without_limit_or_is_answered_by_a_diag() {
    let (mut world, sights) = standing(1);
    let limits = Limits::default();
    let before = sights.borrow().len();
    for value in 1..3000_u64 {
        let key = Key { rtn: false, value };
        world.inject_to(STRANGER, MEMBER, GROUP, &data(&header(Kind::First, key, Options::MULTI, 0, 0), 6, 100));
        let key = Key { rtn: false, value: value + 10_000 };
        world.inject_to(STRANGER, MEMBER, GROUP, &data(&header(Kind::Data, key, Options::MULTI, 0, 0), 6, 100));
        let key = Key { rtn: true, value };
        world.inject_to(STRANGER, MEMBER, GROUP, &status(&header(Kind::Cntl, key, Options::MULTI, 0, 0), 0, 0, 0, &[]));
        world.inject_to(STRANGER, SENDER, GROUP, &status(&header(Kind::Cntl, key, Options::MULTI, 0, 0), 0, 0, 0, &[]));
    }
    run(&mut world, 1500);
    assert!(world.engine(MEMBER).contexts() <= limits.members);
    assert!(world.engine(MEMBER).bytes() <= limits.bytes);
    assert!(world.engine(MEMBER).counters().contexts_refused > 1000);
    assert!(!sights.borrow()[before..].iter().any(|sight| sight.header.kind == Kind::Diag));
    let joins = world.counters(MEMBER).datagrams_sent;
    assert!(joins < 8 * limits.strangers as u64, "{joins}");
    // The stream of its own goes on.
    assert_eq!(world.application(MEMBER).seen.values().next().expect("one").closed, None);
    run(&mut world, 100_000);
    assert_eq!(world.engine(MEMBER).contexts(), 1, "what was silent is gone");
}

//= X-22 test
#[test]
fn what_is_not_for_the_group_is_not_taken() {
    let (mut world, _) = standing(1);
    let key = |value| Key { rtn: false, value };
    let options = Options::MULTI;
    // A unicast service, another port, RES; a multicast service without MULTI.
    world.inject_to(STRANGER, MEMBER, GROUP, &data(&header(Kind::First, key(1), options, 0, 0), 4, 10));
    world.inject_to(STRANGER, MEMBER, GROUP, &data(&header(Kind::First, key(2), options | Options::RES, 0, 0), 6, 10));
    world.inject_to(STRANGER, MEMBER, GROUP, &data(&header(Kind::First, key(3), Options::NONE, 0, 0), 6, 10));
    run(&mut world, 1500);
    assert_eq!(world.engine(MEMBER).contexts(), 1);
    assert_eq!(world.engine(MEMBER).counters().contexts_refused, 3);
}

//= X-22 test
#[test]
fn groups_need_xtp40_a_port_and_their_services() {
    let mut engine = Xtp::new(Config::default(), Time::ZERO);
    let open = |engine: &mut Xtp, block| engine.open_group(Time::ZERO, GROUP, block);
    assert_eq!(open(&mut engine, block(Service::Connection)), Err(Refused::Unsupported));
    assert_eq!(open(&mut engine, ControlBlock::new(Service::Multicast)), Err(Refused::Port));
    let services = Services::from(Service::Connection);
    assert_eq!(engine.join(GROUP, block(Service::Multicast), services), Err(Refused::Unsupported));
    assert_eq!(engine.open(Time::ZERO, GROUP, block(Service::Multicast)), Err(Refused::Unsupported));
    let listener = engine.join(GROUP, block(Service::Multicast), BOTH).expect("joined");
    engine.stop_listening(listener);
    let mut reconstruction = Xtp::new(Config { codec: Codec::Xtp36, ..Config::default() }, Time::ZERO);
    assert_eq!(open(&mut reconstruction, block(Service::Multicast)), Err(Refused::Unsupported));
    let joined = reconstruction.join(GROUP, block(Service::Multicast), BOTH);
    assert_eq!(joined, Err(Refused::Unsupported));
    // A port of the group's address is enough.
    let group = Address::Inet("239.1.2.3:4000".parse().expect("an address"));
    engine.open_group(Time::ZERO, group, ControlBlock::new(Service::Multicast)).expect("room");
}

//= X-20 test
#[test]
fn who_leaves_says_the_end_of_a_stream_to_a_group_again() {
    for service in [Service::Multicast, Service::UnackMulticast] {
        let mut sender = Program::new(
            move |now, host| {
                let context = host.call(|engine| engine.open_group(now, GROUP, block(service))).expect("room");
                let buffer = host.add_buffer(pattern(1000, 1));
                host.call(|engine| engine.send(now, context, Output::message(buffer, 1000))).expect("taken");
                host.call(|engine| engine.close(now, context, Close::Full)).expect("open");
            },
            |_, event, _, host| {
                if let Event::Closed { .. } = event {
                    host.wake_after(Duration::from_millis(1), 0);
                }
            },
        );
        sender.wake = Some(Box::new(|now, _, host| {
            assert!(host.call(|engine| engine.repeat_ends(now)).is_some());
        }));
        let (mut world, sights) = tapped(31, 1, sender, |_| joining(), |_| false);
        quiet(&mut world);
        let sights = sights.borrow();
        let ends: Vec<Time> = sights.iter().filter(|sight| sight.has(Options::END)).map(|sight| sight.at).collect();
        assert!(ends.len() >= 2, "{service:?}: {ends:?}");
        assert_eq!(ends[1].since(ends[0]), Duration::from_millis(1), "{service:?}: {ends:?}");
    }
}

//= X-22 test
#[test]
fn who_is_released_with_everything_still_says_so() {
    let sender = sending(block(Service::Multicast), vec![pattern(100_000, 1)]);
    let mut world = world(32, 1, "delay=5ms", sender, |_| {
        Program::new(
            |_, host| {
                host.call(|engine| engine.join(GROUP, block(Service::Multicast), BOTH)).expect("joined");
            },
            |now, event, seen, host| {
                if let Event::Readable { context } = event
                    && seen[context].is_end
                {
                    host.call(|engine| engine.release(now, *context));
                }
            },
        )
    });
    quiet(&mut world);
    assert_eq!(seen(&world, MEMBER).closed, Some(Ok(())));
    assert_eq!(seen(&world, SENDER).closed, Some(Ok(())));
    assert_eq!(world.engine(MEMBER).contexts(), 0);
}
