//! Frames side by side: who goes when (V-S12).

use crate::data::accepted;
use crate::half::{Half, config, is_header, ms, number};
use pinnace_vrp::{Config, Refused};
use pinnace_wire::vrp::{Header, Tag};

#[test]
fn a_small_frame_overtakes_a_large_one() {
    //= V-S12 test
    let mut half = Half::open(&Config { rate: Some(100_000), burst: 300, ..config() });
    let large = accepted(&mut half, 10_000, 1000);
    half.advance(ms(50));
    let small = half.try_send(1000, |_| ()).unwrap();
    half.take();
    half.advance(ms(60));
    let left = half.take();
    let of_small: Vec<_> = left.iter().filter(|d| number(d) != large).collect();
    assert_eq!(of_small.len(), 1 + 10, "header and data within 60 ms; the large frame takes ten seconds");
    assert!(left.len() > of_small.len() + 10, "and the large frame goes on");
    let frame = number(of_small[0]);
    half.say(frame, &[Tag::FrameOk(frame), Tag::Ack(9)]);
    assert_eq!(half.take_ends(), [(small, Ok(()))]);
}

#[test]
fn frames_take_turns() {
    //= V-S12 test
    let mut half = Half::open(&Config { rate: Some(1_000_000), burst: 2000, ..config() });
    for _ in 0..5 {
        half.try_send(100_000, |spec| spec.window = Some(1000)).unwrap();
    }
    half.advance(ms(10));
    let frames: Vec<u16> = half.take_headers().iter().map(|header| number(header)).collect();
    assert_eq!(frames.len(), 5);
    for frame in &frames {
        half.say(*frame, &[Tag::FrameOk(*frame)]);
    }
    half.take();
    half.advance(ms(100));
    let left = half.take();
    for frame in frames {
        let share = left.iter().filter(|d| number(d) == frame).count();
        assert!((120..=260).contains(&share), "{share} of {}", left.len());
    }
}

#[test]
fn small_frames_do_not_wait_for_large_ones_to_begin() {
    //= V-S12 test
    let mut half = Half::open(&config());
    for _ in 0..40 {
        half.send(1_000_000);
    }
    half.take();
    assert_eq!(half.tx().frames_under_way(), 40);
    for size in [10, 300, 16_000] {
        let (_, left) = half.begin(size, |_| ());
        assert!(!left.is_empty());
    }
}

#[test]
fn many_frames_make_progress_side_by_side() {
    //= V-S12 test
    let mut half = Half::open(&Config { max_frames: 100, ..config() });
    for _ in 0..100 {
        half.send(50_000);
    }
    let refused = half.try_send(1, |_| ());
    assert_eq!(refused, Err(Refused::TooMany));
    // An honest receiver.
    for _ in 0..200_000 {
        let left = half.take();
        if left.is_empty() {
            break;
        }
        for datagram in left {
            let frame = number(&datagram);
            match Header::parse(datagram.first_chunk().unwrap()) {
                Header::Data { packet, .. } => half.say(frame, &[Tag::SingleAck(packet), Tag::Ack(packet)]),
                Header::Control { .. } if is_header(&datagram) => half.say(frame, &[Tag::FrameOk(frame)]),
                Header::Control { .. } => {}
            }
        }
    }
    assert_eq!(half.take_ends().iter().filter(|(_, end)| end.is_ok()).count(), 100);
    assert_eq!(half.tx().counters().packets_resent, 0);
}
