//! A receiver, or somebody who poses as it, that means harm: nothing panics, grows, or floods.

use crate::half::{Half, answer, config, ms, number};
use core::time::Duration;
use pinnace_core::ControllerKind;
use pinnace_vrp::{Config, Event, Terms};
use pinnace_wire::vrp::Tag;
use proptest::prelude::*;

#[test]
fn a_storm_of_requests_sends_no_more_than_the_window_a_read() {
    //= V-S7 test
    let mut half = Half::open(&Config { congestion: ControllerKind::Fixed { window: 2120 }, ..config() });
    let (frame, _) = half.begin(100_000, |_| ());
    half.say(frame, &[Tag::FrameOk(frame)]);
    assert_eq!(half.take_packets().len(), 20);
    let storm: Vec<_> = (0..290).map(|at| Tag::Nack(at % 20)).collect();
    let datagram = answer(frame, &storm);
    for _ in 0..100 {
        half.read(&vec![datagram.clone(); 40]);
        assert_eq!(half.take_packets().len(), 20, "each packet once");
    }
}

#[test]
fn a_storm_of_missing_headers_sends_one_header() {
    //= V-S8 test
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(2000, |_| ());
    for _ in 0..1000 {
        half.say(frame, &[Tag::MissingHeader(frame); 300]);
    }
    assert_eq!(half.take().len(), 1);
}

#[test]
fn forged_frame_numbers_touch_nothing() {
    //= V-S6, V-S7, V-S8 test
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(100_000, |_| ());
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.take();
    for other in 0..1 << 15 {
        if other != frame {
            half.say(other, &[Tag::Ack(u32::MAX), Tag::Nack(0), Tag::FrameRefused(other), Tag::MissingHeader(other)]);
        }
    }
    assert!(half.take().is_empty() && half.take_events().is_empty());
    half.say(frame, &[Tag::Ack(5)]);
    assert_eq!(half.take_packets().len(), 6);
}

/// One step of a script.
#[derive(Clone, Debug)]
enum Step {
    Send { size: usize, kind: u8 },
    Wait(u64),
    Bytes(Vec<u8>),
    Say { back: u16, tags: Vec<(u8, u32)> },
    Pong,
}

fn step() -> impl Strategy<Value = Step> {
    let tag = (0u8..9, prop_oneof![4 => 0u32..40, 1 => any::<u32>()]);
    prop_oneof![
        3 => (prop_oneof![0usize..700, 0usize..5000], any::<u8>()).prop_map(|(size, kind)| Step::Send { size, kind }),
        3 => prop_oneof![0u64..50, 0u64..3000].prop_map(Step::Wait),
        1 => prop::collection::vec(any::<u8>(), 1..80).prop_map(Step::Bytes),
        8 => (0u16..6, prop::collection::vec(tag, 0..12)).prop_map(|(back, tags)| Step::Say { back, tags }),
        1 => Just(Step::Pong),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever the peer says, every send ends once, and the endpoint comes to rest.
    #[test]
    fn every_send_ends_whatever_the_peer_says(
        steps in prop::collection::vec(step(), 1..60),
        congestion in prop::sample::select(vec![
            ControllerKind::Bbr,
            ControllerKind::Cubic,
            ControllerKind::Fixed { window: u64::MAX },
            ControllerKind::Fixed { window: 500 },
        ]),
        rate in prop::option::of(2_000u64..1_000_000),
        seed: u64,
    ) {
        //= V-S11 test
        let mut half = Half::new(&Config { congestion, rate, seed, window: 8, ..config() });
        let (mut sends, mut newest, mut ping) = (0u64, 0, None::<Vec<u8>>);
        for step in steps {
            match step {
                Step::Send { size, kind } => {
                    let terms = Terms {
                        rate: Some(kind),
                        run_bytes: Some(u64::from(kind) * 20),
                        critical: vec![0..size.min(9) as u64],
                        floor: (kind & 1 != 0).then_some(kind / 2),
                    };
                    let until = half.now + Duration::from_millis(u64::from(kind));
                    half.try_send(size, |spec| {
                        spec.terms = (kind & 2 != 0).then_some(terms);
                        spec.repeat_until = (kind & 4 != 0).then_some(until);
                        spec.give_up_at = (kind & 24 == 24).then_some(until + ms(500));
                    }).unwrap();
                    sends += 1;
                }
                Step::Wait(millis) => half.advance(ms(millis)),
                Step::Bytes(bytes) => half.feed(&bytes),
                Step::Pong => if let Some(ping) = &ping { half.pong(ping) },
                Step::Say { back, tags } => {
                    let frame: u16 = newest;
                    let frame = frame.wrapping_sub(back) & 0x7FFF;
                    let tags: Vec<_> = tags.into_iter().map(|(kind, packet)| match kind {
                        0 => Tag::FrameOk(frame),
                        1 | 2 => Tag::Ack(packet),
                        3 | 4 => Tag::SingleAck(packet),
                        5 | 6 => Tag::Nack(packet),
                        7 => Tag::EcnEcho(packet),
                        _ => Tag::MissingHeader(frame),
                    }).collect();
                    half.say(frame, &tags);
                }
            }
            for datagram in half.take() {
                if crate::half::is_header(&datagram) {
                    newest = number(&datagram);
                }
                if datagram[6] == 1 && datagram[0] == 0x80 {
                    ping = Some(datagram);
                }
            }
        }
        half.advance(Duration::from_secs(60));
        prop_assert_eq!(half.tx().frames_under_way(), 0);
        half.close();
        let mut tickets: Vec<_> = half.take_ends().into_iter().map(|(ticket, _)| ticket).collect();
        tickets.sort_unstable();
        prop_assert!(tickets.into_iter().eq(0..sends));
        prop_assert_eq!(half.next_at(), None);
    }

    /// Bytes that nobody chose change nothing but counters.
    #[test]
    fn random_datagrams_do_no_harm(datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 1..40)) {
        let mut half = Half::open(&config());
        let (_, _) = half.begin(100_000, |_| ());
        for datagram in datagrams {
            half.feed(&datagram);
        }
        prop_assert!(half.take().len() < 70);
        prop_assert!(half.take_events().iter().all(|event| !matches!(event, Event::OutgoingClosed)));
    }
}
