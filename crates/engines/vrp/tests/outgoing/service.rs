//! What goes beyond the wire: deadlines of frames, intervals of allowed loss, congestion, pace.

use crate::half::{Half, config, content, is_control, is_header, ms, number, single_acks, tags};
use core::time::Duration;
use pinnace_core::{BufferId, ControllerKind, Time};
use pinnace_vrp::{Config, Failure, FrameSpec, Terms};
use pinnace_wire::vrp::{Control, Tag};

fn lossy() -> Terms {
    Terms { rate: Some(255), run_bytes: Some(u64::MAX), critical: vec![0..100], floor: None }
}

/// A frame of 20 packets of which everything may be lost but packet 0, with time for repetitions until `until`.
fn with_deadline(until: Time) -> (Half, u16) {
    let mut half = Half::open(&config());
    let (frame, left) = half.begin(2000, |spec| (spec.terms, spec.repeat_until) = (Some(lossy()), Some(until)));
    let headers: Vec<_> = left.iter().filter(|d| is_header(d)).collect();
    assert!(headers.windows(2).all(|pair| pair[0] == pair[1]));
    half.say(frame, &[Tag::FrameOk(frame)]);
    let mut packets = half.take_packets();
    packets.dedup();
    assert_eq!(packets, (0..20).collect::<Vec<_>>());
    (half, frame)
}

#[test]
fn before_its_deadline_a_frame_is_repeated_like_any_other() {
    let (mut half, _) = with_deadline(Time::ZERO + ms(10_000));
    half.advance(ms(301));
    let mut packets = half.take_packets();
    packets.sort_unstable();
    packets.dedup();
    assert_eq!(packets, (0..20).collect::<Vec<_>>());
}

#[test]
fn past_its_deadline_only_what_must_arrive_is_repeated() {
    let (mut half, frame) = with_deadline(Time::ZERO + ms(150));
    half.advance(ms(100));
    half.say(frame, &[Tag::Nack(5)]);
    assert_eq!(half.take_packets(), [5]);
    half.advance(ms(220));
    let mut packets = half.take_packets();
    packets.sort_unstable();
    assert_eq!(packets, [0, 19], "the critical one, and the last, which makes the receiver decide");
    assert_eq!(half.tx().counters().packets_let_go, 17);
    half.advance(ms(1000));
    let packets = half.take_packets();
    assert!(packets.contains(&5) && packets.iter().all(|packet| [0, 5, 19].contains(packet)), "{packets:?}");
    // The receiver lets the others go.
    half.say(frame, &[Tag::SingleAck(0), Tag::SingleAck(5), Tag::SingleAck(19), Tag::Ack(19)]);
    assert_eq!(half.take_ends(), [(0, Ok(()))]);
}

#[test]
fn what_was_let_go_is_sent_again_when_the_receiver_waits_for_it() {
    let (mut half, frame) = with_deadline(Time::ZERO + ms(150));
    half.advance(ms(310));
    half.take();
    half.say(frame, &[Tag::SingleAck(0), Tag::SingleAck(19), Tag::Ack(6)]);
    assert_eq!(half.take_packets(), [7], "7 holds back what is behind it");
    half.say(frame, &[Tag::Nack(12)]);
    assert_eq!(half.take_packets(), [12]);
    half.say(frame, &single_acks([7, 12]));
    assert_eq!(half.take_packets(), [8]);
    half.say(frame, &[Tag::Ack(19)]);
    assert_eq!(half.take_ends(), [(0, Ok(()))]);
}

#[test]
fn a_late_frame_repeats_what_the_receiver_waits_for_though_it_cannot_say_so() {
    //= V-S11 test
    // Packets of a few bytes buy no answer with more than the cumulative acknowledgement in it (V-R13), if that.
    let said: [&[Tag<'_>]; 2] = [&[], &[Tag::Ack(7)]];
    for tags in said {
        let mut half = Half::open(&config());
        let late = half.now + ms(50);
        let (frame, _) = half.begin(1000, |spec| {
            spec.terms = Some(Terms { rate: Some(128), run_bytes: Some(u64::MAX), ..Terms::default() });
            spec.repeat_until = Some(late);
        });
        half.say(frame, &[Tag::FrameOk(frame)]);
        half.say(frame, tags);
        half.advance(ms(1000));
        let waited_for = if tags.is_empty() { 0 } else { 8 };
        let first = |half: &mut Half| half.take_packets().contains(&waited_for);
        half.take();
        let is_repeated = (0..30).any(|_| {
            half.say(frame, tags);
            half.advance(ms(400));
            first(&mut half)
        });
        assert!(is_repeated, "the last packet alone, for ever: {tags:?}");
    }
}

#[test]
fn a_late_frame_that_nobody_answers_still_ends() {
    //= V-S11 test
    let (mut half, _) = with_deadline(Time::ZERO + ms(150));
    half.advance(ms(6000));
    assert_eq!(half.take_ends(), [(0, Err(Failure::PeerGone))]);
}

#[test]
fn a_frame_is_given_up_at_its_second_bound() {
    let mut half = Half::open(&config());
    let at = half.now + ms(500);
    let (frame, _) = half.begin(2000, |spec| spec.give_up_at = Some(at));
    half.say(frame, &[Tag::FrameOk(frame)]);
    for _ in 0..9 {
        half.advance(ms(55));
        half.say(frame, &[Tag::SingleAck(3)]);
    }
    assert!(half.take_events().is_empty());
    half.advance(ms(10));
    assert_eq!(half.take_ends(), [(0, Err(Failure::Late))]);
    // At once, if it is over already.
    half.try_send(2000, |spec| spec.give_up_at = Some(at)).unwrap();
    half.advance(ms(1));
    assert_eq!(half.take_ends(), [(1, Err(Failure::Late))]);
}

#[test]
fn where_order_counts_the_number_of_what_was_given_up_is_told_once() {
    for in_order in [true, false] {
        let mut half = Half::open(&Config { in_order, ..config() });
        let at = half.now + ms(500);
        let (given_up, _) = half.begin(2000, |spec| spec.give_up_at = Some(at));
        half.say(given_up, &[Tag::FrameOk(given_up)]);
        assert_eq!(half.call(|tx, _| tx.take_given_up()), None);
        half.advance(ms(510));
        assert_eq!(half.take_ends(), [(0, Err(Failure::Late))]);
        let told = half.call(|tx, _| [tx.take_given_up(), tx.take_given_up()]);
        assert_eq!(told, [in_order.then_some(given_up), None]);
        assert_eq!(half.call(|tx, _| tx.take_void()), None);
    }
}

#[test]
fn a_frame_is_given_up_though_it_has_not_begun() {
    // The path is not measured.
    let mut half = Half::new(&config());
    let at = half.now + ms(500);
    half.try_send(2000, |spec| spec.give_up_at = Some(at)).unwrap();
    half.send(10);
    half.advance(ms(510));
    assert_eq!(half.take_ends(), [(0, Err(Failure::Late))]);
    assert_eq!(half.tx().frames_under_way(), 1);
    // Others are in its way.
    let mut half = Half::open(&Config { congestion: ControllerKind::Fixed { window: 1000 }, ..config() });
    for _ in 0..20 {
        half.send(1_000_000);
    }
    let at = half.now + ms(500);
    let ticket = half.try_send(100_000, |spec| spec.give_up_at = Some(at)).unwrap();
    half.advance(ms(510));
    assert_eq!(half.take_ends(), [(ticket, Err(Failure::Late))]);
}

fn interval() -> Terms {
    Terms { rate: Some(110), run_bytes: Some(u64::MAX), critical: vec![], floor: Some(10) }
}

/// The rates told about `frame` in `datagrams`: counts and rates.
fn told(datagrams: &[Vec<u8>], frame: u16) -> Vec<(u8, u8)> {
    let rate = |tag: Tag<'_>| if let Tag::LossRateNow { count, rate } = tag { Some((count, rate)) } else { None };
    datagrams
        .iter()
        .filter(|d| is_control(d) && number(d) == frame)
        .filter_map(|d| Control::parse(d).unwrap().tags().find_map(rate))
        .collect()
}

#[test]
fn the_rate_in_force_moves_with_congestion_and_is_told_once_a_round_trip() {
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(1_000_000, |spec| spec.terms = Some(interval()));
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.advance(ms(250));
    assert!(told(&half.take(), frame).is_empty(), "the receiver starts at the floor");
    let mut marks = 0;
    let mut seen = Vec::new();
    for packet in 0..6 {
        marks += 1;
        half.say(frame, &[Tag::EcnEcho(marks), Tag::Ack(packet)]);
        let before = half.now;
        let round_trip = half.tx().round_trip().unwrap();
        half.advance(round_trip);
        let now = told(&half.take(), frame);
        assert!(now.len() <= 1, "{now:?} since {before:?}");
        seen.extend(now);
    }
    assert!(seen.len() >= 5, "{seen:?}");
    assert!(seen.windows(2).all(|pair| pair[0].1 <= pair[1].1 && pair[0].0 <= pair[1].0), "{seen:?}");
    assert!(seen.iter().all(|(_, rate)| (10..=110).contains(rate)));
    assert_eq!(seen.last().map(|(_, rate)| *rate), Some(110), "the upper end, and never above");
    let same: Vec<_> = seen.iter().filter(|(_, rate)| *rate == 110).map(|(count, _)| count).collect();
    assert!(same.windows(2).all(|pair| pair[0] == pair[1]), "the count counts changes");
}

#[test]
fn a_rate_that_has_changed_256_times_is_still_told() {
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(1_000_000, |spec| spec.terms = Some(interval()));
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.advance(ms(150));
    half.take();
    let mut counts = Vec::new();
    for round in 0..300 {
        // Congestion comes and goes.
        half.say(frame, &[Tag::EcnEcho(1 + round / 2)]);
        half.advance(ms(100));
        let now = told(&half.take(), frame);
        assert!(!now.is_empty(), "round {round}");
        counts.extend(now.iter().map(|(count, _)| *count));
    }
    assert!(counts.contains(&255) && counts.contains(&0), "{counts:?}");
}

#[test]
fn the_rate_of_a_frame_that_the_receiver_does_not_know_is_not_told() {
    let mut half = Half::open(&config());
    let (known, _) = half.begin(1_000_000, |spec| spec.terms = Some(interval()));
    half.say(known, &[Tag::FrameOk(known)]);
    let (unknown, _) = half.begin(1_000_000, |spec| spec.terms = Some(interval()));
    half.say(known, &[Tag::EcnEcho(5)]);
    half.advance(ms(250));
    let left = half.take();
    assert!(!told(&left, known).is_empty() && told(&left, unknown).is_empty());
}

#[test]
fn a_frame_without_an_interval_is_told_no_rate() {
    let mut half = Half::open(&config());
    let terms = Terms { floor: None, ..interval() };
    let (frame, _) = half.begin(1_000_000, |spec| spec.terms = Some(terms));
    half.say(frame, &[Tag::FrameOk(frame), Tag::EcnEcho(100)]);
    half.advance(ms(1000));
    assert!(told(&half.take(), frame).is_empty());
}

#[test]
fn congestion_marks_reach_the_controller() {
    let mut half = Half::open(&Config { congestion: ControllerKind::Cubic, ..config() });
    let (frame, _) = half.begin(1_000_000, |spec| spec.window = Some(1000));
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.advance(ms(100));
    half.say(frame, &[Tag::SingleAck(0), Tag::Ack(0)]);
    let (before, _) = half.tx().congestion();
    half.say(frame, &[Tag::EcnEcho(3), Tag::Ack(0)]);
    let (after, _) = half.tx().congestion();
    assert!(after < before, "{before} to {after}");
    assert_eq!(half.tx().counters().congestion_marks, 3);
    half.advance(ms(1));
    half.say(frame, &[Tag::EcnEcho(3)]);
    half.say(frame, &[Tag::EcnEcho(1)]);
    assert_eq!(half.tx().counters().congestion_marks, 3, "the count is of the whole frame; an older one is old");
    half.say(frame, &[Tag::EcnEcho(u32::MAX)]);
    assert!(half.tx().congestion().0 > 0);
}

#[test]
fn bytes_in_flight_stay_within_the_congestion_window() {
    let mut half = Half::open(&Config { congestion: ControllerKind::Fixed { window: 1060 }, ..config() });
    let (frame, _) = half.begin(100_000, |_| ());
    half.say(frame, &[Tag::FrameOk(frame)]);
    assert_eq!(half.take_packets().len(), 10, "106 bytes each");
    half.say(frame, &[Tag::SingleAck(0), Tag::SingleAck(5), Tag::Ack(0)]);
    assert_eq!(half.take_packets(), [10, 11]);
    // Repetitions need room as well, and what they repeat makes it.
    half.say(frame, &[Tag::Nack(1), Tag::Nack(2)]);
    assert_eq!(half.take_packets(), [1, 2]);
    // A window smaller than two packets lets two leave: what comes behind a lost one makes the receiver ask for it.
    let mut half = Half::open(&Config { congestion: ControllerKind::Fixed { window: 1 }, ..config() });
    let (frame, _) = half.begin(100_000, |_| ());
    half.say(frame, &[Tag::FrameOk(frame)]);
    assert_eq!(half.take_packets(), [0, 1]);
    half.say(frame, &[Tag::SingleAck(0), Tag::Ack(0)]);
    assert_eq!(half.take_packets(), [2]);
}

#[test]
fn lost_packets_of_a_contract_are_losses_for_the_controller() {
    let run = |ack: &dyn Fn(&mut Half, u16)| {
        let mut half = Half::open(&Config { congestion: ControllerKind::Cubic, ..config() });
        let terms = Terms { critical: vec![], ..lossy() };
        let (frame, _) = half.begin(1_000_000, |spec| (spec.window, spec.terms) = (Some(1000), Some(terms)));
        half.say(frame, &[Tag::FrameOk(frame)]);
        half.advance(ms(100));
        let before = half.tx().congestion().0;
        ack(&mut half, frame);
        (before, half.tx().congestion().0)
    };
    let (before, after) = run(&|half, frame| half.say(frame, &[&single_acks(0..4)[..], &[Tag::Ack(3)]].concat()));
    assert!(after >= before, "{before} to {after}");
    let (before, after) = run(&|half, frame| half.say(frame, &[Tag::SingleAck(3), Tag::Ack(3)]));
    assert!(after < before, "{before} to {after}: three were lost, with permission");
}

#[test]
fn everything_that_leaves_is_paced() {
    // 100 kB a second.
    let mut half = Half::open(&Config { rate: Some(100_000), burst: 3000, ..config() });
    let (frame, _) = half.begin(1_000_000, |spec| spec.window = Some(10_000));
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.take();
    half.advance(ms(1000));
    let left = half.take_left();
    let bytes: usize = left.iter().map(|left| left.bytes.len()).sum();
    assert!((95_000..=100_500).contains(&bytes), "{bytes}");
    let largest = left.chunk_by(|a, b| a.at == b.at).map(|chunk| chunk.len()).max();
    assert!(largest <= Some(3), "{largest:?} packets at once");
    // Requests for all of them at once do not make it faster.
    for low in (0..500).step_by(125) {
        let requests: Vec<_> = (low..low + 125).map(Tag::Nack).collect();
        half.say(frame, &requests);
    }
    half.take();
    half.advance(ms(1000));
    let bytes: usize = half.take().iter().map(Vec::len).sum();
    assert!((95_000..=100_500).contains(&bytes), "{bytes}");
}

#[test]
fn headers_wait_for_the_pace_and_for_nothing_else() {
    let mut half = Half::open(&Config { rate: Some(1000), burst: 1, ..config() });
    let start = half.now;
    for _ in 0..10 {
        half.send(0);
    }
    half.advance(ms(2000));
    let left = half.take_left();
    let mut numbers: Vec<_> =
        left.iter().filter(|left| is_header(&left.bytes)).map(|left| left.bytes.clone()).collect();
    numbers.dedup();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), 10, "ten headers of 64 bytes take 640 ms");
    let tenth = left.iter().filter(|left| is_header(&left.bytes)).nth(9).unwrap().at;
    assert!(tenth.since(start) < ms(1500), "{:?}", tenth.since(start));
}

#[test]
fn bbr_and_cubic_finish_over_a_path_of_their_own() {
    for congestion in [ControllerKind::Bbr, ControllerKind::Cubic] {
        let mut half = Half::open_after(&Config { congestion, packet_bytes: 1000, ..config() }, ms(10));
        half.send(300_000);
        let mut on_the_way: Vec<(Time, Vec<u8>)> = Vec::new();
        let mut wait_point = 0;
        for _ in 0..100_000 {
            on_the_way.extend(half.take_left().into_iter().map(|left| (left.at + ms(10), left.bytes)));
            let next = on_the_way.first().map(|(at, _)| *at);
            let Some(at) = next.into_iter().chain(half.next_at()).min() else { break };
            half.advance_to(at);
            while on_the_way.first().is_some_and(|(at, _)| *at <= half.now) {
                let (_, datagram) = on_the_way.remove(0);
                let frame = number(&datagram);
                if let Some(data) = crate::half::data(&datagram) {
                    assert_eq!(data.bytes, content(0, 300_000)[data.packet as usize * 1000..][..1000]);
                    wait_point = wait_point.max(data.packet);
                    half.say(frame, &[Tag::SingleAck(data.packet), Tag::Ack(wait_point)]);
                } else if is_header(&datagram) {
                    assert!(matches!(tags(&datagram)[0], Tag::FrameCreate { .. }));
                    half.say(frame, &[Tag::FrameOk(frame)]);
                }
            }
        }
        assert_eq!(half.take_ends(), [(0, Ok(()))], "{congestion}");
        let took = half.now.since(Time::ZERO);
        assert!(took < Duration::from_secs(2), "{congestion} took {took:?}");
        assert_eq!(half.tx().counters().packets_resent, 0, "{congestion}");
    }
}

#[test]
fn an_announced_frame_with_another_window_or_packet_size_is_another() {
    //= V-S4 test
    let mut half = Half::open(&config());
    let outline = || FrameSpec { window: Some(1024), ..FrameSpec::new(BufferId::new(u32::MAX), 20_000) };
    half.call(|tx, now| tx.announce(now, outline())).unwrap();
    let announced = number(&half.take_headers()[0]);
    half.say(announced, &[Tag::FrameOk(announced)]);
    // 64 by the endpoint's configuration, 64 by its own, other packets.
    for (window, packet_bytes) in [(None, None), (Some(64), None), (Some(1024), Some(99))] {
        let (frame, _) = half.begin(20_000, |spec| (spec.window, spec.packet_bytes) = (window, packet_bytes));
        assert_ne!(frame, announced);
    }
    half.try_send(20_000, |spec| (spec.window, spec.takes_any_window) = (Some(64), true)).unwrap();
    let left = half.take();
    assert!(left.len() > 64 && left.iter().all(|datagram| number(datagram) == announced));
}

#[test]
fn an_announced_frame_needs_no_further_round_trip() {
    //= V-S4 test
    let mut half = Half::open(&config());
    let outline = || FrameSpec::new(BufferId::new(u32::MAX), 20_000);
    half.call(|tx, now| tx.announce(now, outline())).unwrap();
    let frame = number(&half.take_headers()[0]);
    half.say(frame, &[Tag::FrameOk(frame)]);
    assert!(half.take().is_empty(), "there is no data yet");
    half.advance(ms(100));
    half.try_send(20_000, |_| ()).unwrap();
    let left = half.take();
    assert!(!left.is_empty() && left.iter().all(|datagram| number(datagram) == frame && !is_control(datagram)));
    // An announcement that nobody follows is closed, and no send ends with it.
    half.call(|tx, now| tx.announce(now, outline())).unwrap();
    let frame = number(&half.take_headers()[0]);
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.advance(ms(2200));
    assert!(crate::half::closes(&half.take()).contains(&frame));
    assert_eq!(half.take_ends(), []);
}
