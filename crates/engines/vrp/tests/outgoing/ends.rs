//! How frames and the endpoint end.

use crate::half::{Half, closes, config, is_control, is_header, ms, number, tags};
use pinnace_core::{ControllerKind, PollAt};
use pinnace_vrp::{Config, Event, Failure, Refused};
use pinnace_wire::vrp::Tag;

#[test]
fn a_finished_frame_is_closed_after_100_ms() {
    //= V-S9 test
    let mut half = Half::open(&config());
    let frames: Vec<u16> = (0..3).map(|_| half.begin(0, |_| ()).0).collect();
    for frame in &frames {
        half.say(*frame, &[Tag::FrameOk(*frame)]);
    }
    half.take();
    half.advance(ms(99));
    assert!(half.take().is_empty());
    half.advance(ms(1));
    let left = half.take();
    assert_eq!(left.len(), 1);
    let mut expected = vec![0x80, 0, 0, 0, 0, 0];
    for frame in &frames {
        expected.push(11);
        expected.extend_from_slice(&frame.to_be_bytes());
    }
    expected.push(0);
    assert_eq!(left[0], expected, "of frame number 0");
    half.advance(ms(10_000));
    assert!(half.take().is_empty(), "not acknowledged, and not repeated");
    assert_eq!(half.next_at(), None);
}

#[test]
fn so_many_finished_frames_do_not_wait() {
    //= V-S9 test
    let mut half = Half::open(&config());
    // All begin before any ends, so no header can take the others along.
    let mut frames = Vec::new();
    for _ in 0..500 {
        frames.push(half.begin(0, |_| ()).0);
    }
    for frame in &frames {
        half.say(*frame, &[Tag::FrameOk(*frame)]);
    }
    let left = half.take();
    assert!(!left.is_empty() && left.iter().all(|datagram| datagram.len() <= 1472));
    half.advance(ms(100));
    assert_eq!([closes(&left), closes(&half.take())].concat(), frames);
}

#[test]
fn closing_says_it_twice_for_every_frame() {
    //= V-S4, V-S9 test
    let mut half = Half::open(&config());
    let (done, _) = half.begin(0, |_| ());
    half.say(done, &[Tag::FrameOk(done)]);
    half.advance(ms(50));
    // What is finished rides in the next header, which is not answered: it is said again.
    let (first, left) = half.begin(100_000, |_| ());
    assert_eq!(closes(&left), [done]);
    let (second, _) = half.begin(300, |_| ());
    let (third, _) = half.begin(0, |_| ());
    half.say(third, &[Tag::FrameOk(third)]);
    half.take_events();
    half.take();
    half.close();
    let left = half.take();
    assert_eq!(left.len(), 2);
    assert_eq!(left[0], left[1]);
    let mut closed = closes(&left[..1]);
    closed.sort_unstable();
    let mut expected = [done, first, second, third];
    expected.sort_unstable();
    assert_eq!(closed, expected);
    assert!(left.iter().all(|datagram| number(datagram) == 0 && is_control(datagram)));
    let events = half.take_events();
    assert_eq!(events.len(), 3);
    assert!(events[..2].iter().all(|event| matches!(event, Event::Sent { result: Err(Failure::Closed), .. })));
    assert_eq!(events[2], Event::OutgoingClosed);
    assert_eq!(half.engine.poll_at(), PollAt::Ingress);
    assert_eq!(half.try_send(1, |_| ()), Err(Refused::Closed));
    half.close();
    half.call(|outgoing, now| outgoing.open(now));
    half.say(first, &[Tag::FrameOk(first)]);
    half.advance(ms(60_000));
    assert!(half.take().is_empty() && half.take_events().is_empty());
}

#[test]
fn closing_with_more_frames_than_fit_a_packet() {
    //= V-S4 test
    let mut half = Half::open(&config());
    let mut frames: Vec<u16> = (0..512).map(|_| half.begin(1000, |_| ()).0).collect();
    half.take();
    half.close();
    let left = half.take();
    assert_eq!(left.len(), 4);
    assert!(left.iter().all(|datagram| datagram.len() <= 1472));
    assert_eq!((&left[0], &left[1]), (&left[2], &left[3]));
    let mut closed = closes(&left[..2]);
    closed.sort_unstable();
    frames.sort_unstable();
    assert_eq!(closed, frames);
}

#[test]
fn what_is_withdrawn_fails_and_what_is_sent_behind_it_goes_at_once() {
    //= V-S4 test
    let mut half = Half::open(&config());
    let begun: Vec<u16> = (0..3).map(|_| half.begin(500_000, |_| ()).0).collect();
    half.take_events();
    half.call(|outgoing, _| outgoing.withdraw());
    let events = half.take_events();
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|event| matches!(event, Event::Sent { result: Err(Failure::Closed), .. })));
    assert_eq!(half.tx().frames_under_way(), 0);
    let (word, left) = half.begin(0, |_| ());
    assert_eq!(closes(&left), begun, "the receiver is told in the same header");
    half.say(word, &[Tag::FrameOk(word)]);
    assert!(matches!(half.take_events()[..], [Event::Sent { result: Ok(_), .. }]));
}

#[test]
fn closing_before_anything_was_said_says_nothing() {
    //= V-S4 test
    let mut half = Half::new(&config());
    half.close();
    assert_eq!(half.take_events(), [Event::OutgoingClosed]);
    assert!(half.take().is_empty());
    // While the path is measured.
    let mut half = Half::new(&config());
    half.send(10);
    let ping = half.take().remove(0);
    half.close();
    let events = half.take_events();
    assert_eq!(events.first(), Some(&Event::Opened(Err(Failure::Closed))));
    assert!(matches!(events[1], Event::Sent { result: Err(Failure::Closed), .. }));
    assert_eq!(events[2..], [Event::OutgoingClosed]);
    half.pong(&ping);
    assert!(half.take().is_empty() && half.take_events().is_empty() && half.next_at().is_none());
}

#[test]
fn frames_whose_closes_were_to_ride_in_a_header_that_never_left_are_closed() {
    //= V-S9 test
    let mut half = Half::open(&Config { rate: Some(1000), burst: 1, ..config() });
    let (done, _) = half.begin(0, |_| ());
    half.say(done, &[Tag::FrameOk(done)]);
    half.send(0);
    assert!(half.take_headers().is_empty(), "the pace holds it back");
    half.close();
    let closed = closes(&half.take());
    assert_eq!(closed.iter().filter(|frame| **frame == done).count(), 2);
}

#[test]
fn frames_whose_closes_rode_in_a_header_that_was_never_answered_are_closed_again() {
    //= V-S9 test
    let mut half = Half::open(&config());
    let (done, _) = half.begin(0, |_| ());
    half.say(done, &[Tag::FrameOk(done)]);
    // The header with its FRAME_CLOSE is lost, and the frame ends before it is repeated.
    let at = half.now + ms(100);
    let (late, left) = half.begin(5000, |spec| spec.give_up_at = Some(at));
    assert_eq!(closes(&left), [done]);
    half.advance(ms(300));
    let mut closed = closes(&half.take());
    closed.sort_unstable();
    assert_eq!(closed, [done, late]);
    // Where the header was answered, it is closed.
    let (answered, left) = half.begin(5000, |spec| spec.give_up_at = Some(at + ms(400)));
    assert_eq!(closes(&left), [0; 0]);
    half.say(answered, &[Tag::FrameOk(answered)]);
    half.advance(ms(500));
    assert_eq!(closes(&half.take()), [answered]);
}

#[test]
fn silence_ends_a_frame_after_its_life_timeout() {
    //= V-S11 test
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(100_000, |_| ());
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.advance(ms(3000));
    half.say(frame, &[Tag::SingleAck(1)]);
    half.advance(ms(4999));
    assert!(half.take_events().is_empty());
    half.take();
    half.advance(ms(1));
    // A timer fires a tick late at most.
    half.advance(ms(1));
    assert_eq!(half.take_ends(), [(0, Err(Failure::PeerGone))]);
    half.advance(ms(100));
    assert_eq!(closes(&half.take()), [frame]);
    assert_eq!(half.next_at(), None);
}

#[test]
fn answers_without_a_tag_keep_their_frame_alive() {
    //= V-S11 test
    for is_answered in [true, false] {
        let mut half = Half::open(&config());
        let (frame, _) = half.begin(1000, |_| ());
        half.say(frame, &[Tag::FrameOk(frame)]);
        // So a receiver answers that waits for the first packet, or whose application has not taken others (V-R13).
        for _ in 0..70 {
            if is_answered {
                half.say(frame, &[]);
            }
            half.advance(ms(100));
        }
        assert_eq!(half.take_ends().is_empty(), is_answered);
    }
}

#[test]
fn those_who_have_not_begun_end_with_those_whose_peer_is_gone() {
    //= V-S11 test
    let mut half = Half::open(&Config { congestion: ControllerKind::Fixed { window: 10_000 }, ..config() });
    for _ in 0..200 {
        half.send(1_000_000);
    }
    for _ in 0..100 {
        let headers: Vec<_> = half.take().iter().filter(|it| is_header(it)).map(|it| number(it)).collect();
        headers.into_iter().for_each(|frame| half.say(frame, &[Tag::FrameOk(frame)]));
        half.advance(ms(10));
    }
    let mut ends = Vec::new();
    for _ in 0..120 {
        half.advance(ms(100));
        half.take();
        ends.extend(half.take_ends());
    }
    // Those of which something was under way when the peer fell silent, and no others one after the other.
    assert_eq!(ends.len(), 200, "within two lives");
    assert!(ends.iter().all(|(_, end)| *end == Err(Failure::PeerGone)));
    assert_eq!(half.next_at(), None);
}

#[test]
fn answers_about_other_frames_do_not_keep_a_frame_alive() {
    //= V-S11 test
    let mut half = Half::open(&config());
    let (dead, _) = half.begin(1000, |_| ());
    let (alive, _) = half.begin(100_000, |_| ());
    for _ in 0..60 {
        half.say(alive, &[Tag::FrameOk(alive)]);
        half.advance(ms(100));
    }
    assert_eq!(half.take_ends(), [(0, Err(Failure::PeerGone))]);
    let of_dead = half.take().iter().filter(|datagram| number(datagram) == dead).count();
    assert!(of_dead < 200, "{of_dead} packets to nobody");
}

#[test]
fn a_frame_that_waits_for_its_turn_is_not_given_up_for_silence() {
    //= V-S11 test
    // 100 frames of 16 kB at 100 kB a second: the last has its turn after more than ten seconds.
    let mut half = Half::open(&Config { rate: Some(100_000), burst: 2000, ..config() });
    for _ in 0..100 {
        half.send(16_000);
    }
    let mut ends = Vec::new();
    let mut newest = std::collections::BTreeMap::new();
    for _ in 0..2000 {
        half.advance(ms(10));
        for datagram in half.take() {
            let frame = number(&datagram);
            if let Some(data) = crate::half::data(&datagram) {
                assert_eq!(newest.insert(frame, data.packet), data.packet.checked_sub(1), "in order, none twice");
                half.say(frame, &[Tag::SingleAck(data.packet), Tag::Ack(data.packet)]);
            } else if is_header(&datagram) {
                half.say(frame, &[Tag::FrameOk(frame)]);
            }
        }
        ends.append(&mut half.take_ends());
    }
    assert_eq!((ends.len(), half.tx().frames_under_way()), (100, 0));
    assert!(ends.iter().all(|(_, end)| end.is_ok()));
}

#[test]
fn frames_that_wait_for_their_turn_end_when_the_peer_is_gone() {
    //= V-S11 test
    let mut half = Half::open(&Config { rate: Some(10_000), burst: 300, ..config() });
    for _ in 0..200 {
        half.send(16_000);
    }
    half.send(10_000_000);
    half.advance(ms(100_000));
    assert_eq!(half.take_ends().len(), 201);
    assert_eq!((half.tx().frames_under_way(), half.next_at()), (0, None));
}

#[test]
fn icmp_errors_end_nothing() {
    //= V-S4 test
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(1000, |_| ());
    for _ in 0..10 {
        half.unreachable();
    }
    half.say(frame, &[Tag::Ack(9)]);
    assert_eq!(half.take_ends(), [(0, Ok(()))]);
    assert_eq!(half.tx().counters().unreachable_reports, 10);
}

#[test]
fn a_close_packet_is_nothing_but_closes() {
    //= V-S9 test
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(0, |_| ());
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.advance(ms(100));
    assert_eq!(tags(&half.take()[0]), [Tag::FrameClose(frame)]);
}
