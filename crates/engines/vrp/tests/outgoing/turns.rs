//! Frames side by side: who goes when (V-S12).

use crate::data::accepted;
use crate::half::{Half, config, data, is_header, ms, number};
use core::time::Duration;
use pinnace_core::{BufferId, Time};
use pinnace_vrp::{Config, FrameSpec, Refused, Void};
use pinnace_wire::vrp::{FRAME_NUMBERS, Header, Tag};
use std::collections::BTreeMap;

/// An honest receiver at no distance: answers what has left, and says when each frame was last heard of.
#[derive(Default)]
struct Receiver {
    heard: BTreeMap<u16, Time>,
    sizes: BTreeMap<u16, u32>,
    /// The longest time from one packet of a frame to the next, its header included.
    longest_silence: Duration,
}

impl Receiver {
    fn answer(&mut self, half: &mut Half) {
        for left in half.take_left() {
            let frame = number(&left.bytes);
            let before = self.heard.insert(frame, left.at);
            if let Some(data) = data(&left.bytes) {
                let silence = before.map_or(Duration::ZERO, |before| left.at.since(before));
                self.longest_silence = self.longest_silence.max(silence);
                half.say(frame, &[Tag::SingleAck(data.packet), Tag::Ack(data.packet)]);
                if data.packet + 1 == self.sizes[&frame].div_ceil(100) {
                    self.heard.remove(&frame);
                }
            } else if is_header(&left.bytes) {
                for tag in crate::half::tags(&left.bytes) {
                    if let Tag::FrameCreate { size, .. } = tag {
                        self.sizes.insert(frame, size);
                    }
                }
                half.say(frame, &[Tag::FrameOk(frame)]);
            } else {
                self.heard.remove(&frame);
            }
        }
    }
}

/// The size that a frame's header names.
fn size_of(header: &[u8]) -> usize {
    let size = |tag: Tag<'_>| if let Tag::FrameCreate { size, .. } = tag { Some(size as usize) } else { None };
    crate::half::tags(header).into_iter().find_map(size).unwrap()
}

/// A sender of 200 kB a second.
fn slow() -> Half {
    Half::open(&Config { rate: Some(200_000), burst: 2000, ..config() })
}

#[test]
fn no_receiver_takes_a_waiting_frame_for_dead() {
    //= V-S11, V-S12 test
    // A receiver destroys a frame of which nothing comes for its life time-out.
    let mut half = slow();
    let mut receiver = Receiver::default();
    for _ in 0..20 {
        half.send(2_000_000);
    }
    for _ in 0..3000 {
        half.advance(ms(10));
        receiver.answer(&mut half);
    }
    assert!(receiver.longest_silence < ms(3000), "{:?}", receiver.longest_silence);
    let now = half.now;
    let waiting = receiver.heard.values().map(|at| now.since(*at)).max();
    assert!(waiting < Some(ms(3000)), "{waiting:?} since a frame was heard of");
}

#[test]
fn newer_small_frames_do_not_starve_older_ones() {
    //= V-S11, V-S12 test
    let mut half = slow();
    let mut receiver = Receiver::default();
    let mut begun: BTreeMap<u64, Time> = BTreeMap::new();
    let mut oldest = Duration::ZERO;
    for _ in 0..100 {
        begun.insert(half.send(10_000), half.now);
    }
    let large = half.send(200_000);
    let mut large_took = None;
    for _ in 0..3000 {
        half.advance(ms(10));
        receiver.answer(&mut half);
        for (ticket, end) in half.take_ends() {
            assert_eq!(end, Ok(()));
            if ticket == large {
                large_took = Some(half.now);
            } else {
                let since = begun.remove(&ticket).unwrap();
                oldest = oldest.max(half.now.since(since));
                begun.insert(half.send(10_000), half.now);
            }
        }
    }
    // A hundred frames of 10 kB and one of 200 kB: all of them take six seconds.
    let waiting = begun.values().map(|at| half.now.since(*at)).max().unwrap();
    assert!(oldest.max(waiting) < ms(12_000), "{oldest:?} and {waiting:?}");
    assert!(receiver.longest_silence < ms(3000), "{:?}", receiver.longest_silence);
    assert!(large_took.is_some(), "the large frame has its share too");
}

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
fn frames_that_stay_in_order_are_numbered_as_they_were_sent() {
    //= V-S2 test
    for in_order in [false, true] {
        let mut half = Half::open(&Config { in_order, rate: Some(1_000_000), burst: 10_000, ..config() });
        let sizes: Vec<usize> = (0..60).map(|at| if at % 20 == 19 { 10 } else { 1_000_000 }).collect();
        for size in &sizes {
            half.send(*size);
        }
        half.advance(ms(50));
        let begun: Vec<_> = half.take_headers().iter().map(|header| (number(header), size_of(header))).collect();
        let first = begun[0].0;
        let as_sent =
            begun.iter().all(|(number, size)| sizes[usize::from(number.wrapping_sub(first) % FRAME_NUMBERS)] == *size);
        assert_eq!(as_sent, in_order, "{begun:?}");
        // Nobody who waits for a small frame would have it before the large ones.
        assert_eq!(begun.len(), if in_order { 16 } else { 16 + 3 });
    }
}

#[test]
fn where_numbers_tell_the_order_none_is_far_ahead_of_one_under_way() {
    //= V-S2 test
    for in_order in [false, true] {
        let mut half = Half::open(&Config { in_order, ..config() });
        let long = accepted(&mut half, 1000, 64);
        half.take();
        let mut ahead = 0;
        for _ in 0..5000 {
            half.try_send(10, |_| ()).unwrap();
            let Some(header) = half.take_headers().pop() else { break };
            let frame = number(&header);
            ahead = frame.wrapping_sub(long) % FRAME_NUMBERS;
            half.say(frame, &[Tag::FrameOk(frame), Tag::Ack(0)]);
            half.take_ends();
        }
        assert_eq!(ahead, if in_order { 4096 } else { 5000 });
        // It goes on when the long one has arrived.
        half.say(long, &[Tag::Ack(999)]);
        assert_eq!((half.take_ends().len(), half.take_headers().len()), (1, usize::from(in_order)));
    }
}

#[test]
fn what_is_announced_takes_no_number_where_order_counts() {
    let mut half = Half::open(&Config { in_order: true, ..config() });
    half.call(|tx, now| tx.announce(now, FrameSpec::new(BufferId::new(0), 100_000))).unwrap();
    assert_eq!((half.take().len(), half.tx().frames_under_way()), (0, 0));
}

#[test]
fn where_order_counts_the_next_frame_is_the_announced_one_or_its_number_is_void() {
    let mut half = Half::open(&Config { in_order: true, ..config() });
    let outline = || FrameSpec::new(BufferId::new(u32::MAX), 20_000);
    let announce = |half: &mut Half| {
        half.call(|tx, now| tx.announce_next(now, outline())).unwrap();
        half.take_headers().first().map(|header| number(header))
    };
    let next = |number: u16| (number + 1) % FRAME_NUMBERS;
    let first = announce(&mut half).unwrap();
    half.say(first, &[Tag::FrameOk(first)]);
    assert_eq!(announce(&mut half), None, "one at a time");
    half.try_send(20_000, |_| ()).unwrap();
    let left = half.take();
    assert!(!left.is_empty() && left.iter().all(|datagram| number(datagram) == first));
    assert_eq!(half.call(|tx, _| tx.take_void()), None);
    // Another one is sent, small or large: it comes behind, and nobody waits for what is before it.
    // Accepted, refused, and not answered: then it may have been refused.
    for (size, is_accepted) in [(100, Some(true)), (20_001, Some(false)), (100, None), (20_001, None)] {
        let was_refused = is_accepted != Some(true);
        let void = announce(&mut half).unwrap();
        if let Some(is_accepted) = is_accepted {
            half.say(void, &[if is_accepted { Tag::FrameOk(void) } else { Tag::FrameRefused(void) }]);
        }
        let (sent, _) = half.begin(size, |_| ());
        assert_eq!(sent, next(void));
        assert_eq!(announce(&mut half), None, "nobody has been told of the number that is void");
        let told = half.call(|tx, _| [tx.take_void(), tx.take_void()]);
        assert_eq!(told, [Some(Void { number: void, was_refused }), None]);
    }
    // One for which nobody sends anything, and one that is taken back.
    let lapsed = announce(&mut half).unwrap();
    half.say(lapsed, &[Tag::FrameOk(lapsed)]);
    half.advance(ms(2200));
    assert!(crate::half::closes(&half.take()).contains(&lapsed));
    assert_eq!(half.call(|tx, _| tx.take_void()).map(|void| void.number), Some(lapsed));
    let withdrawn = announce(&mut half).unwrap();
    half.call(|tx, _| tx.void_announced());
    assert_eq!(half.call(|tx, _| tx.take_void()).map(|void| void.number), Some(withdrawn));
}

#[test]
fn an_announcement_does_not_outlive_the_block_that_its_receiver_keeps() {
    // However patient the sender is: it does not know how patient the receiver is.
    let mut half = Half::open(&Config { life_timeout: Duration::from_secs(60), ..config() });
    half.call(|tx, now| tx.announce(now, FrameSpec::new(BufferId::new(u32::MAX), 20_000))).unwrap();
    let announced = number(&half.take_headers()[0]);
    half.say(announced, &[Tag::FrameOk(announced)]);
    half.advance(ms(2200));
    assert!(crate::half::closes(&half.take()).contains(&announced));
    let (sent, _) = half.begin(20_000, |_| ());
    assert_ne!(sent, announced);
}

#[test]
fn without_order_one_frame_is_announced_at_a_time_and_no_number_is_void() {
    let mut half = Half::open(&config());
    let announce = |half: &mut Half, size| {
        half.call(|tx, now| tx.announce_next(now, FrameSpec::new(BufferId::new(u32::MAX), size))).unwrap();
        half.take_headers().first().map(|header| number(header))
    };
    let announced = announce(&mut half, 20_000).unwrap();
    half.say(announced, &[Tag::FrameOk(announced)]);
    half.begin(20_001, |_| ());
    assert_eq!(announce(&mut half, 20_001), None);
    half.try_send(20_000, |_| ()).unwrap();
    assert!(half.take().iter().any(|datagram| number(datagram) == announced));
    assert!(announce(&mut half, 20_001).is_some());
    half.call(|tx, _| tx.void_announced());
    assert_eq!(half.call(|tx, _| tx.take_void()), None);
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
