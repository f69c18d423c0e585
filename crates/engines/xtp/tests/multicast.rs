//! Streams to groups on the simulator (specs/xtp.md, X-22).
#![allow(clippy::print_stdout, reason = "the figure that the bar is about")]
mod support;

use core::time::Duration;
use pinnace_core::{ControllerKind, Time};
use pinnace_sim::HostId;
use pinnace_wire::xtp::{self, Body, FirstTraffic, Header, Key, Kind, Options};
use pinnace_xtp::{Config, ControlBlock, Failure, Service};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use support::group::*;
use support::{block, pattern};

//= X-22 test
#[test]
fn a_stream_reaches_all_of_a_group() {
    let message = pattern(300_000, 1);
    let mut world = world(1, 3, "delay=5ms", sending(block(Service::Multicast), vec![message.clone()]), |_| joining());
    quiet(&mut world);
    for host in receivers(3) {
        let seen = seen(&world, host);
        assert!(seen.accepted && seen.bytes == message, "{host}");
        assert_eq!((seen.closed, seen.is_end), (Some(Ok(())), true), "{host}");
        assert_eq!(seen.ends, [300_000]);
    }
    let sender = seen(&world, SENDER);
    assert_eq!((sender.closed, &sender.sent[..]), (Some(Ok(())), &[(1, true)][..]));
    for host in world.hosts() {
        assert_eq!((world.engine(host).contexts(), world.engine(host).bytes()), (0, 0), "{host}");
    }
}

//= X-22 test
#[test]
fn everything_arrives_at_all_of_eight_and_few_of_them_say_so() {
    let (count, mut statuses, mut rounds, mut took) = (8, 0, 0, Duration::ZERO);
    let seeds: u64 = std::env::var("MULTICAST_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(30);
    for seed in 0..seeds {
        let message = pattern(200_000, seed as u8);
        let asks = Asks::default();
        let sender = counting(block(Service::Multicast), vec![message.clone()], asks.clone());
        let mut world = world(seed, count, "delay=5ms,loss=1%", sender, |_| joining());
        quiet(&mut world);
        for host in receivers(count) {
            let seen = seen(&world, host);
            assert_eq!(seen.closed, Some(Ok(())), "seed {seed}, {host}");
            assert!(seen.bytes == message, "seed {seed}, {host}: {} bytes", seen.bytes.len());
            statuses += world.engine(host).counters().statuses_sent;
        }
        assert_eq!(seen(&world, SENDER).closed, Some(Ok(())), "seed {seed}");
        rounds += u64::from(asks.0.get().0);
        took += asks.0.get().1;
    }
    let per_round = statuses as f64 / (rounds * u64::from(count)) as f64;
    println!(
        "{statuses} statuses in {rounds} rounds: {per_round:.3} per receiver and round; {:?}",
        took / seeds as u32
    );
    assert!(per_round < 2.0, "{per_round}");
    assert!(per_round < 1.0, "damping is at work: {per_round}");
}

/// A window of 256 KiB for each round of answers would fill a third of it at most.
//= X-8, X-22 test
#[test]
fn windows_of_a_group_grow_until_the_path_is_full() {
    let took = |most_window: u32, network: &str| {
        let message = pattern(8_000_000, 1);
        let usual = ControlBlock { wbufsize: 16 << 20, ..block(Service::Multicast) };
        let asks = Asks::default();
        let sender = counting(usual, vec![message.clone()], asks.clone());
        let adjust = |config| Config { most_window, congestion: ControllerKind::Bbr, datagram_bytes: 1472, ..config };
        let mut world = world_of(1, 3, network, adjust, sender, |_| joining());
        quiet(&mut world);
        for host in receivers(3) {
            assert!(seen(&world, host).bytes == message, "{network}: {host}");
        }
        for host in world.hosts() {
            assert_eq!(world.engine(host).bytes(), 0, "{network}: {host}: every ring has been given back");
        }
        asks.0.get().1.as_secs_f64()
    };
    for network in ["rate=100mbit,delay=20ms", "rate=100mbit,delay=20ms,loss=0.5%"] {
        let (narrow, wide) = (took(0, network), took(4 << 20, network));
        assert!(wide < 0.7 * narrow, "{network}: {narrow} and {wide} s");
    }
}

/// Several asks go with them: that some others have answered those says nothing.
//= X-22 test
#[test]
fn a_burst_of_losses_cuts_nobody_off() {
    for (start, len) in (0..10).flat_map(|at| [40, 64, 100].map(|len| (2 + at * 40, len))) {
        let message = pattern(600_000, 1);
        let number = Cell::new(0);
        let loses = move |sight: &Sight| {
            let is_his = sight.to == HostId::new(2) && sight.is_data();
            number.set(number.get() + u32::from(is_his));
            is_his && (start..start + len).contains(&number.get())
        };
        let sender = sending(block(Service::Multicast), vec![message.clone()]);
        let (mut world, _) = tapped(6, 3, sender, |_| joining(), loses);
        quiet(&mut world);
        for host in receivers(3) {
            let seen = seen(&world, host);
            assert_eq!(seen.closed, Some(Ok(())), "{host}: {len} packets from {start}");
            assert!(seen.bytes == message, "{host}: {len} packets from {start}");
        }
    }
}

//= X-22 test
#[test]
fn receivers_answer_to_the_group_late_and_as_themselves() {
    let lost_by_2 = |sight: &Sight| {
        sight.to == HostId::new(2) && sight.is_data() && sight.at == Time::ZERO && {
            // One packet in the middle, for one receiver.
            matches!(sight.body(), Body::Data { .. }) && sight.header.options.contains(Options::SREQ)
        }
    };
    let sender = sending(block(Service::Multicast), vec![pattern(100_000, 1)]);
    let (mut world, sights) = tapped(3, 3, sender, |_| joining(), lost_by_2);
    quiet(&mut world);
    let sights = sights.borrow();
    let key = sights[0].header.key.value;
    let (mut spans, mut answers) = (0, 0);
    for sight in sights.iter() {
        let Header { key: named, kind, sync, seq, .. } = sight.header;
        assert!(sight.is_to_group && sight.has(Options::MULTI), "{sight:?}");
        assert_eq!(named, Key { rtn: sight.from != SENDER, value: key }, "{sight:?}");
        if sight.from == SENDER {
            assert!(matches!(kind, Kind::First | Kind::Data | Kind::Cntl), "{sight:?}");
            continue;
        }
        let Body::Status(status) = sight.body() else { panic!("{sight:?}") };
        assert!(matches!(kind, Kind::Cntl | Kind::Ecntl), "never TCNTL");
        assert_eq!((sync, seq), (0, 0));
        assert!(!sight.has(Options::SREQ), "an answer never asks");
        spans += u64::from(kind == Kind::Ecntl);
        let asked = sights.iter().find(|asked| {
            asked.from == SENDER
                && asked.to == sight.from
                && asked.header.sync == status.echo
                && asked.has(Options::SREQ)
        });
        let after = sight.at.since(asked.expect("somebody asked").at + Duration::from_millis(5));
        assert!(after <= Duration::from_millis(20) || sight.from == HostId::new(2), "{after:?}");
        answers += 1;
    }
    assert!(spans > 0 && answers > 10, "{spans} {answers}");
    for host in receivers(3) {
        assert!(seen(&world, host).bytes == pattern(100_000, 1));
    }
}

//= X-22 test
#[test]
fn whoever_has_everything_says_so_with_rclose() {
    let sender = sending(block(Service::Multicast), vec![pattern(20_000, 1)]);
    let loses = |sight: &Sight| sight.to == HostId::new(2) && sight.is_data() && sight.at < millis(100);
    let (mut world, sights) = tapped(5, 3, sender, |_| joining(), loses);
    quiet(&mut world);
    let sights = sights.borrow();
    let start = sights[0].header.seq;
    let closing: BTreeSet<_> =
        sights.iter().filter(|it| it.from == SENDER && it.has(Options::WCLOSE)).map(|it| it.header.sync).collect();
    let (mut whole, mut others) = (0, 0);
    for sight in sights.iter().filter(|it| it.from != SENDER && it.is_to_group) {
        let Body::Status(status) = sight.body() else { panic!("{sight:?}") };
        let (is_whole, knows_end) = (status.rseq == start.wrapping_add(20_000), closing.contains(&status.echo));
        assert!(is_whole || !sight.has(Options::RCLOSE), "{sight:?}");
        assert!(sight.has(Options::RCLOSE) || !is_whole || !knows_end, "{sight:?}");
        *(if is_whole { &mut whole } else { &mut others }) += 1;
    }
    assert!(whole > 0 && others > 0, "{whole} {others}");
}

//= X-22 test
#[test]
fn whoever_hears_its_own_answer_is_silent() {
    let run = |hears: bool| {
        let sender = sending(block(Service::Multicast), vec![pattern(60_000, 1)]);
        let (mut world, sights) =
            tapped(4, 8, sender, |_| joining(), move |sight| !hears && sight.from != SENDER && sight.to != SENDER);
        quiet(&mut world);
        let asks: BTreeSet<_> =
            sights.borrow().iter().filter(|it| it.has(Options::SREQ)).map(|it| it.header.sync).collect();
        let statuses: u64 = receivers(8).map(|host| world.engine(host).counters().statuses_sent).sum();
        (statuses, asks.len() as u64)
    };
    let (statuses, asks) = run(false);
    assert!(statuses >= 8 * asks, "everybody answers everything: {statuses} {asks}");
    let (statuses, asks) = run(true);
    assert!(statuses < 4 * asks, "few answer for all: {statuses} {asks}");
}

//= X-22 test
#[test]
fn what_one_lacks_is_repeated_to_all_and_nothing_else_is() {
    let lost = Rc::new(Cell::new(None));
    let sender = sending(block(Service::Multicast), vec![pattern(100_000, 1)]);
    let (mut world, sights) = tapped(
        5,
        4,
        sender,
        |_| joining(),
        move |sight| {
            let is_it = sight.to == HostId::new(3) && sight.header.kind == Kind::Data && sight.at == Time::ZERO;
            let is_first = is_it && lost.get().is_none_or(|seq| seq == sight.header.seq) && !sight.has(Options::SREQ);
            if is_first {
                lost.set(Some(sight.header.seq));
            }
            is_first
        },
    );
    quiet(&mut world);
    assert_eq!(world.engine(SENDER).counters().data_packets_resent, 1);
    for host in receivers(4) {
        assert_eq!(world.engine(host).counters().data_packets_duplicate, u64::from(host != HostId::new(3)));
        assert!(seen(&world, host).bytes == pattern(100_000, 1));
    }
    let sent: Vec<_> = sights.borrow().iter().filter(|it| it.is_data()).map(|it| (it.to, it.header.seq)).collect();
    assert_eq!(sent.len(), 4 * (100_000_usize.div_ceil(1400) + 1), "to every one of the group");
}

//= X-22 test
#[test]
fn a_newcomer_joins_with_jcntl_and_begins_with_a_message() {
    let network = |sight: &Sight| sight.to == HostId::new(3) && sight.at < millis(500);
    let (mut world, sights) = tapped(6, 3, trickling(block(Service::Multicast), 100), |_| joining(), network);
    quiet(&mut world);
    let (newcomer, other) = (seen(&world, HostId::new(3)), seen(&world, HostId::new(1)));
    assert!(other.bytes == trickle(0..100));
    assert_eq!((newcomer.closed, newcomer.accepted), (Some(Ok(())), true));
    let had = newcomer.bytes.len() as u64 / 1000;
    assert!((40..75).contains(&had), "{had}");
    assert!(newcomer.bytes == trickle(100 - had..100), "whole messages, and all of them");
    let sights = sights.borrow();
    let joins: Vec<_> = sights.iter().filter(|sight| sight.header.kind == Kind::Jcntl).collect();
    let [asked, answer] = joins[..] else { panic!("{joins:?}") };
    let key = sights[0].header.key.value;
    assert_eq!((asked.from, asked.to, asked.is_to_group), (HostId::new(3), SENDER, false));
    assert_eq!((asked.header.key, asked.header.options), (Key { rtn: true, value: key }, Options::SREQ));
    let Body::Join { status, address } = asked.body() else { panic!() };
    assert_eq!((status.rseq, status.alloc, status.xkey), (0, 0, 0));
    assert!(matches!(address, xtp::FirstAddress::Known(address) if address.destination_port == support::PORT));
    assert_eq!((answer.from, answer.to, answer.is_to_group), (SENDER, HostId::new(3), false));
    assert_eq!(answer.header.key, Key { rtn: false, value: key });
    let start = sights[0].header.seq;
    assert_eq!(answer.header.seq, start.wrapping_add((100 - had) * 1000), "where the newcomer's stream starts");
    let Body::Join { status, .. } = answer.body() else { panic!() };
    assert!(matches!(status.traffic, Some(FirstTraffic::Known(traffic)) if traffic.service == 6));
}

//= X-22 test
#[test]
fn a_lost_first_is_made_good_by_joining() {
    for lost_by in [vec![1], vec![1, 2], vec![1, 2, 3]] {
        let sender = sending(block(Service::Multicast), vec![pattern(100_000, 1)]);
        let all = lost_by.clone();
        let (mut world, _) = tapped(
            7,
            3,
            sender,
            |_| joining(),
            move |sight| sight.header.kind == Kind::First && sight.at < millis(100) && all.contains(&sight.to.index()),
        );
        quiet(&mut world);
        for host in receivers(3) {
            assert!(seen(&world, host).bytes == pattern(100_000, 1), "{lost_by:?} {host}");
            assert_eq!(seen(&world, host).closed, Some(Ok(())));
        }
        assert_eq!(seen(&world, SENDER).closed, Some(Ok(())));
    }
}

//= X-22 test
#[test]
fn a_first_that_nobody_got_is_repeated() {
    let sender = sending(block(Service::Multicast), vec![pattern(1000, 1)]);
    let (mut world, sights) = tapped(8, 3, sender, |_| joining(), |sight| sight.at < millis(100));
    quiet(&mut world);
    for host in receivers(3) {
        assert!(seen(&world, host).bytes == pattern(1000, 1));
    }
    let sights = sights.borrow();
    let firsts: Vec<_> = sights.iter().filter(|it| it.header.kind == Kind::First && it.to.index() == 1).collect();
    assert_eq!(firsts.len(), 2);
    assert_eq!(firsts[0].header.seq, firsts[1].header.seq);
    assert!(firsts[1].header.sync.wrapping_sub(firsts[0].header.sync).cast_signed() > 0, "a new sync");
    // Slot and WTIMER.
    assert_eq!(firsts[1].at.since(firsts[0].at).as_millis(), 270);
}

//= X-22 test
#[test]
fn lost_asks_are_asked_again() {
    let sender = sending(block(Service::Multicast), vec![pattern(100_000, 1)]);
    let (mut world, _) =
        tapped(9, 3, sender, |_| joining(), |sight| sight.has(Options::SREQ) && sight.at < millis(600));
    quiet(&mut world);
    for host in receivers(3) {
        assert!(seen(&world, host).bytes == pattern(100_000, 1));
        assert_eq!(seen(&world, host).closed, Some(Ok(())));
    }
    assert!(world.engine(SENDER).counters().timeouts >= 2, "a bucket without an answer is an expiry");
}

//= X-22 test
#[test]
fn one_that_has_shown_everything_may_be_gone() {
    let end = Rc::new(Cell::new(None));
    let told = Cell::new(false);
    let is_lost = move |sight: &Sight| {
        if sight.from == SENDER {
            end.set(end.get().or_else(|| sight.has(Options::WCLOSE).then(|| end_of(sight))));
            return false;
        }
        let Body::Status(status) = sight.body() else { panic!("{sight:?}") };
        Some(status.rseq) == end.get() && told.replace(true)
    };
    let (mut world, sights) =
        tapped(6, 1, sending(block(Service::Multicast), vec![pattern(3000, 1)]), |_| joining(), is_lost);
    quiet(&mut world);
    assert_eq!(seen(&world, SENDER).closed, Some(Ok(())));
    assert_eq!(seen(&world, HostId::new(1)).closed, Some(Ok(())));
    let ends = sights.borrow().iter().filter(|it| it.from == SENDER && it.has(Options::END)).count();
    assert!(ends > 0, "the receiver is told");
}

/// Where the stream of a packet with WCLOSE ends.
fn end_of(sight: &Sight) -> u64 {
    match sight.body() {
        Body::Data { data, .. } | Body::First { data, .. } => sight.header.seq.wrapping_add(data.len() as u64),
        _ => sight.header.seq,
    }
}

//= X-22 test
#[test]
fn one_that_dies_does_not_stop_the_others() {
    for at in [0, 8, 30, 400, 900] {
        let dies = HostId::new(4);
        let mut world = world(10, 8, "delay=5ms,loss=1%", trickling(block(Service::Multicast), 100), |_| joining());
        world.schedule(millis(at), move |world| world.power_off(dies));
        quiet(&mut world);
        for host in receivers(8).filter(|host| *host != dies) {
            assert!(seen(&world, host).bytes == trickle(0..100), "{at} {host}");
            assert_eq!(seen(&world, host).closed, Some(Ok(())), "{at} {host}");
        }
        let sender = seen(&world, SENDER);
        assert_eq!(sender.closed, Some(Ok(())), "{at}");
        assert!(sender.closed_at.expect("closed") < millis(1000 + 600), "nobody waits for it");
    }
}

//= X-22 test
#[test]
fn one_that_asks_for_what_is_no_longer_held_is_cut_off() {
    let away = HostId::new(2);
    let (mut world, sights) = tapped(
        11,
        3,
        trickling(block(Service::Multicast), 200),
        |_| joining(),
        move |sight| (sight.to == away || sight.from == away) && (millis(200)..millis(900)).contains(&sight.at),
    );
    quiet(&mut world);
    for host in [1, 3].map(HostId::new) {
        assert!(seen(&world, host).bytes == trickle(0..200));
        assert_eq!(seen(&world, host).closed, Some(Ok(())));
    }
    assert_eq!(seen(&world, SENDER).closed, Some(Ok(())));
    let slow = seen(&world, away);
    assert_eq!(slow.closed, Some(Err(Failure::TooLate)));
    let had = slow.bytes.len() as u64 / 1000;
    assert!((10..40).contains(&had), "{had}");
    assert!(slow.bytes == trickle(0..had), "what had arrived was right");
    let sights = sights.borrow();
    let diags: Vec<_> = sights.iter().filter(|it| it.header.kind == Kind::Diag).collect();
    assert!(!diags.is_empty() && diags.len() < 5, "{diags:?}");
    for diag in diags {
        assert_eq!((diag.from, diag.to, diag.is_to_group), (SENDER, away, false));
        assert!(matches!(diag.body(), Body::Diag { code: 4, value: 11, .. }));
        assert!(!diag.header.key.rtn);
    }
    let joins = sights.iter().filter(|it| it.header.kind == Kind::Jcntl).count();
    assert_eq!(joins, 0, "it does not come back by itself");
}

//= X-22 test
#[test]
fn one_that_does_not_read_is_left_behind() {
    let deaf = HostId::new(2);
    let mut small = block(Service::Multicast);
    small.wbufsize = 4 << 20;
    let sender = sending(small, vec![pattern(100_000, 1); 20]);
    let mut world = world(12, 3, "delay=5ms", sender, |number| {
        let mut program = joining();
        program.is_deaf = number == deaf.index();
        program
    });
    quiet(&mut world);
    for host in [1, 3].map(HostId::new) {
        assert!(seen(&world, host).bytes == pattern(100_000, 1).repeat(20));
        assert_eq!(seen(&world, host).closed, Some(Ok(())));
    }
    assert_eq!(seen(&world, SENDER).closed, Some(Ok(())));
    assert_eq!(seen(&world, deaf).closed, Some(Err(Failure::TooLate)));
}

//= X-22 test
//= X-8 test
#[test]
fn nobody_is_waited_for_where_nobody_answers() {
    let message = pattern(200_000, 1);
    let block = ControlBlock { holds_back: true, ..block(Service::UnackMulticast) };
    let mut world = world(14, 2, "delay=5ms", sending(block, vec![message.clone()]), |_| joining());
    quiet(&mut world);
    assert_eq!(seen(&world, SENDER).closed, Some(Ok(())));
    for host in receivers(2) {
        let seen = seen(&world, host);
        assert!(seen.bytes == message, "{host}: {} bytes", seen.bytes.len());
        assert_eq!((seen.closed, seen.is_end), (Some(Ok(())), true), "{host}");
    }
}

//= X-22 test
#[test]
fn service_5_asks_nothing_and_tells_the_holes() {
    let sender = sending(block(Service::UnackMulticast), vec![pattern(100_000, 1)]);
    let (mut world, sights) = tapped(
        13,
        3,
        sender,
        |_| joining(),
        |sight| sight.to == HostId::new(2) && sight.header.kind == Kind::Data && sight.header.seq / 1400 % 5 == 0,
    );
    quiet(&mut world);
    let sender = seen(&world, SENDER);
    assert_eq!((sender.closed, &sender.sent[..]), (Some(Ok(())), &[(1, true)][..]));
    assert_eq!(world.engine(SENDER).counters().data_packets_resent, 0);
    for sight in sights.borrow().iter() {
        assert_eq!(sight.from, SENDER, "nobody answers");
        assert!(!sight.has(Options::SREQ) && sight.has(Options::MULTI | Options::NOERR | Options::NOFLOW));
    }
    for host in receivers(3) {
        let seen = seen(&world, host);
        assert_eq!((seen.closed, seen.bytes.len(), seen.is_end), (Some(Ok(())), 100_000, true), "{host}");
        let (mut got, mut expected) = (seen.bytes.clone(), pattern(100_000, 1));
        for (at, len) in &seen.holes {
            got[*at as usize..(*at + *len) as usize].fill(0);
            expected[*at as usize..(*at + *len) as usize].fill(0);
        }
        assert_eq!(seen.holes.is_empty(), host != HostId::new(2));
        assert!(got == expected);
    }
}
