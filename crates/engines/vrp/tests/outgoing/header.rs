//! Frame headers: their bytes, their repetition, their numbers, and what is refused before anything leaves.

use crate::data::accepted;
use crate::half::{Half, closes, config, content, data, is_header, ms, number, tags};
use core::ops::Range;
use pinnace_vrp::{Config, Failure, Refused, Terms};
use pinnace_wire::vrp::Tag;
use std::collections::BTreeSet;

/// A frame header by hand: tags, then padding to 64 bytes, then LAST.
fn padded(frame: u16, tags: &[&[u8]]) -> Vec<u8> {
    let mut bytes = (frame | 0x8000).to_be_bytes().to_vec();
    bytes.extend_from_slice(&[0; 4]);
    for tag in tags {
        bytes.extend_from_slice(tag);
    }
    if bytes.len() + 1 < 64 {
        let padding = (64 - 1 - bytes.len()).saturating_sub(3);
        bytes.push(15);
        bytes.extend_from_slice(&(padding as u16).to_be_bytes());
        bytes.resize(bytes.len() + padding, 0);
    }
    bytes.push(0);
    bytes
}

fn create(frame: u16, size: u32, packet_bytes: u16) -> Vec<u8> {
    let mut bytes = vec![6];
    bytes.extend_from_slice(&frame.to_be_bytes());
    bytes.extend_from_slice(&size.to_be_bytes());
    bytes.extend_from_slice(&packet_bytes.to_be_bytes());
    bytes
}

/// The EPOCH tag of a header.
fn epoch(header: &[u8]) -> [u8; 6] {
    let of = |tag: &Tag<'_>| if let Tag::Epoch(epoch) = tag { Some(*epoch) } else { None };
    let epoch = tags(header).iter().find_map(of).expect("every header has an epoch").to_be_bytes();
    [70, 4, epoch[0], epoch[1], epoch[2], epoch[3]]
}

fn terms(rate: u8, run: u64, critical: Vec<Range<u64>>) -> Terms {
    Terms { rate: Some(rate), run_bytes: Some(run), critical, floor: None }
}

#[test]
fn a_header_is_its_tags_in_order_and_padding_to_64_bytes() {
    //= V-S2, V-S4, V-S13 test
    let mut half = Half::open(&config());
    let (frame, left) = half.begin(2000, |spec| spec.terms = Some(terms(64, 250, vec![0..10, 250..450, 1999..2000])));
    let header = &left[0];
    let expected = padded(
        frame,
        &[
            &create(frame, 2000, 100),
            &[7, 2],
            &[8, 64],
            &[13, 0, 0, 0, 0],
            &[14, 0, 0, 0, 2, 0, 0, 0, 4],
            &[13, 0, 0, 0, 19],
            &epoch(header),
        ],
    );
    assert_eq!((header, header.len()), (&expected, 64));
}

#[test]
fn what_was_not_said_is_not_in_the_header() {
    //= V-S4, V-S13 test
    let mut half = Half::open(&config());
    let (frame, left) = half.begin(2000, |_| ());
    assert_eq!(left[0], padded(frame, &[&create(frame, 2000, 100), &epoch(&left[0])]));
    let rate = Terms { rate: Some(0), ..Terms::default() };
    let (frame, left) = half.begin(2000, |spec| spec.terms = Some(rate));
    assert_eq!(left[0], padded(frame, &[&create(frame, 2000, 100), &[8, 0], &epoch(&left[0])]));
    let run = Terms { run_bytes: Some(99), ..Terms::default() };
    let (frame, left) = half.begin(2000, |spec| spec.terms = Some(run));
    assert_eq!(left[0], padded(frame, &[&create(frame, 2000, 100), &[7, 0], &epoch(&left[0])]));
    let (frame, left) = half.begin(2000, |spec| spec.terms = Some(terms(255, u64::MAX, vec![7..7, 100..100])));
    assert_eq!(left[0], padded(frame, &[&create(frame, 2000, 100), &[7, 255], &[8, 255], &epoch(&left[0])]));
    let (frame, left) = half.begin(2000, |spec| spec.terms = Some(terms(1, 25_499, vec![])));
    assert_eq!(left[0], padded(frame, &[&create(frame, 2000, 100), &[7, 254], &[8, 1], &epoch(&left[0])]));
}

#[test]
fn the_window_is_in_the_header_unless_it_is_64() {
    //= V-S4 test
    let mut half = Half::open(&config());
    for window in [1, 63, 65, 128, 16_384] {
        let (frame, left) = half.begin(2000, |spec| spec.window = Some(window));
        let [high, low] = window.to_be_bytes();
        assert_eq!(
            left[0],
            padded(frame, &[&create(frame, 2000, 100), &[64, 2, high, low], &epoch(&left[0])]),
            "{window}"
        );
    }
    let (frame, left) = half.begin(2000, |spec| spec.window = Some(64));
    assert_eq!(left[0], padded(frame, &[&create(frame, 2000, 100), &epoch(&left[0])]));
}

#[test]
fn an_interval_of_allowed_loss_names_its_floor() {
    let mut half = Half::open(&config());
    let interval = Terms { floor: Some(10), ..terms(50, 300, vec![]) };
    let (frame, left) = half.begin(2000, |spec| spec.terms = Some(interval));
    let expected = padded(frame, &[&create(frame, 2000, 100), &[7, 3], &[8, 50], &[67, 1, 10], &epoch(&left[0])]);
    assert_eq!(left[0], expected);
}

#[test]
fn packet_sizes_and_windows_may_differ_from_frame_to_frame() {
    //= V-S1 test
    let mut half = Half::open(&config());
    let (frame, left) = half.begin(700, |spec| spec.packet_bytes = Some(300));
    assert_eq!(left[0], padded(frame, &[&create(frame, 700, 300), &epoch(&left[0])]));
    let packets: Vec<_> = left[1..].iter().filter_map(|d| data(d)).collect();
    assert_eq!(packets.iter().map(|data| data.bytes.len()).collect::<Vec<_>>(), [300, 300, 100]);
    assert_eq!(packets.concat_bytes(), content(0, 700));
}

trait ConcatBytes {
    fn concat_bytes(&self) -> Vec<u8>;
}

impl ConcatBytes for Vec<crate::half::Data> {
    fn concat_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|data| data.bytes.clone()).collect()
    }
}

#[test]
fn a_frame_of_no_bytes_is_complete_when_it_is_created() {
    //= V-S4, V-S9 test
    let mut half = Half::open(&config());
    let (frame, left) = half.begin(0, |_| ());
    assert_eq!(left, [padded(frame, &[&create(frame, 0, 100), &epoch(&left[0])])]);
    half.advance(ms(299));
    assert!(half.take().is_empty());
    half.advance(ms(1));
    assert_eq!(half.take(), left);
    half.say(frame, &[Tag::FrameOk(frame)]);
    assert_eq!(half.take_ends(), [(0, Ok(()))]);
}

#[test]
fn a_header_is_repeated_on_timeout_and_all_repetitions_are_equal() {
    //= V-S4, V-S5, V-S11 test
    let mut half = Half::open(&config());
    let (_, done) = half.begin(5000, |spec| spec.terms = Some(terms(9, 200, vec![3..4])));
    let first = half.now;
    half.advance(ms(4999));
    let left = half.take_left();
    assert!(left.iter().all(|left| left.bytes == done[0]), "the header, and nothing else");
    // RTT and D double with each: 300, 600, then 1200; but a frame that is silent for a quarter of its life is asked about.
    let times: Vec<_> = left.iter().map(|left| left.at.since(first).as_millis()).collect();
    assert_eq!(times[..3], [300, 900, 1250]);
    assert!(
        times.len() > 10 && times[2..].windows(2).all(|pair| (312..630).contains(&(pair[1] - pair[0]))),
        "{times:?}"
    );
    // A timer fires a tick late at most.
    half.advance(ms(2));
    assert_eq!(half.take_ends(), [(0, Err(Failure::PeerGone))]);
    half.advance(ms(2000));
    assert_eq!(closes(&half.take()), [number(&done[0])], "it is closed like a finished one");
    assert_eq!(half.next_at(), None);
}

#[test]
fn nothing_of_a_silent_frame_is_repeated_before_its_answer_can_have_come() {
    //= V-S4, V-S5, V-S10 test
    let apart = |half: &mut Half, is_repeated: &dyn Fn(&[u8]) -> bool| {
        half.advance(ms(4990));
        let left = half.take_left();
        let times: Vec<_> = left.iter().filter(|left| is_repeated(&left.bytes)).map(|left| left.at).collect();
        times.windows(2).map(|pair| pair[1].since(pair[0])).collect::<Vec<_>>()
    };
    // RTT 500 ms and D 250 ms: the time-out is 1.5 s, and a sixteenth of a life far less than a round trip.
    let mut half = Half::open_after(&config(), ms(500));
    let (_, done) = half.begin(5000, |_| ());
    let header = done[0].clone();
    let headers = apart(&mut half, &|bytes| bytes == header);
    assert!(!headers.is_empty() && headers.iter().all(|gap| *gap >= ms(1500)), "{headers:?}");
    let mut half = Half::open_after(&config(), ms(500));
    accepted(&mut half, 20, 4);
    let packets = apart(&mut half, &|bytes| data(bytes).is_some_and(|data| data.packet == 3));
    assert!(packets.iter().all(|gap| *gap >= ms(1500)), "{packets:?}");
}

#[test]
fn repetitions_with_inline_data_are_equal_too() {
    //= V-S4 test
    let mut half = Half::open(&config());
    let (frame, left) = half.begin(200, |_| ());
    assert_eq!(left.len(), 1);
    half.advance(ms(300));
    assert_eq!(half.take(), left);
    // The receiver skips the data, and loses the frame before any of them comes.
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.take();
    half.advance(ms(1));
    half.say(frame, &[Tag::MissingHeader(frame)]);
    assert!(half.take().is_empty(), "the header was repeated a millisecond ago");
    half.advance(ms(2000));
    half.take();
    half.say(frame, &[Tag::MissingHeader(frame)]);
    let again = half.take();
    assert_eq!(again.iter().filter(|d| is_header(d)).collect::<Vec<_>>(), [&left[0]]);
}

#[test]
fn an_answered_header_is_not_repeated() {
    //= V-S4 test
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(100_000, |_| ());
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.advance(ms(4000));
    assert!(half.take_headers().is_empty());
}

#[test]
fn a_header_that_waits_for_the_pace_is_not_repeated_once_it_is_answered() {
    //= V-S4 test
    // 64 bytes take 64 ms.
    let mut half = Half::open(&Config { rate: Some(1000), burst: 1, ..config() });
    let (frame, left) = half.begin(100_000, |_| ());
    assert_eq!(left.len(), 1);
    for _ in 0..20 {
        half.send(0);
    }
    half.advance(ms(301));
    assert!(half.take_headers().iter().all(|header| number(header) != frame), "its repetition waits behind the others");
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.advance(ms(4000));
    assert!(half.take_headers().iter().all(|header| number(header) != frame));
}

#[test]
fn critical_ranges_that_do_not_fit_one_datagram_are_refused() {
    //= V-S4 test
    let mut half = Half::open(&config());
    let separate = |count: u64| terms(9, 9, (0..count).map(|k| 200 * k..200 * k + 1).collect());
    // Header, FRAME_CREATE, CONS_LOSS, LOSS_RATE, EPOCH, LAST: 26 bytes of 1472, and five a packet.
    let fitting = (1472 - 26) / 5;
    let ok = half.try_send(100_000, |spec| spec.terms = Some(separate(fitting)));
    assert!(ok.is_ok());
    let left = half.take();
    assert!(left[0].len() <= 1472 && left[0].len() > 1460);
    let critical = tags(&left[0]).iter().filter(|tag| matches!(tag, Tag::CriticalPacket(_))).count();
    assert_eq!(critical as u64, fitting);
    let refused = half.try_send(100_000, |spec| spec.terms = Some(separate(fitting + 1)));
    assert_eq!(refused, Err(Refused::HeaderTooLarge));
    assert!(half.take().is_empty() && half.take_events().is_empty());
    // Larger packets have room for more.
    let with = |spec: &mut pinnace_vrp::FrameSpec| {
        spec.packet_bytes = Some(4000);
        spec.terms = Some(terms(9, 9, (0..500).map(|k| 8000 * k..8000 * k + 1).collect()));
    };
    assert!(half.try_send(5_000_000, with).is_ok());
    assert!(half.take()[0].len() <= 4006);
}

#[test]
fn what_cannot_be_kept_is_refused_before_anything_leaves() {
    //= V-S13 test
    let mut half = Half::open(&config());
    let range = |critical: Range<u64>| terms(9, 9, vec![critical]);
    #[allow(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    for bad in [range(0..1001), range(1001..1001), range(u64::MAX..u64::MAX), range(9..8)] {
        assert_eq!(half.try_send(1000, |spec| spec.terms = Some(bad)), Err(Refused::InvalidTerms));
    }
    for floor in [Terms { floor: Some(10), ..range(0..1) }, Terms { floor: Some(1), ..Terms::default() }] {
        assert_eq!(half.try_send(1000, |spec| spec.terms = Some(floor)), Err(Refused::InvalidTerms));
    }
    for packet_bytes in [0, 65_502] {
        let refused = half.try_send(1000, |spec| spec.packet_bytes = Some(packet_bytes));
        assert_eq!(refused, Err(Refused::InvalidTerms));
    }
    for window in [0, 16_385] {
        assert_eq!(half.try_send(1000, |spec| spec.window = Some(window)), Err(Refused::InvalidTerms));
    }
    let too_large = half.try_send(10, |spec| spec.size = 1 << 32);
    assert_eq!(too_large, Err(Refused::TooLarge));
    let too_many = half.try_send(10, |spec| (spec.size, spec.packet_bytes) = ((1 << 24) + 1, Some(1)));
    assert_eq!(too_many, Err(Refused::TooLarge));
    assert!(half.take().is_empty() && half.take_events().is_empty() && half.tx().frames_under_way() == 0);
    // The limits themselves are in order: nothing of the memory is looked at yet.
    let largest = half.try_send(10, |spec| (spec.size, spec.packet_bytes) = (u64::from(u32::MAX), Some(65_501)));
    assert!(largest.is_ok());
    assert!(half.try_send(1000, |spec| spec.terms = Some(range(1000..1000))).is_ok());
    assert!(half.try_send(1000, |spec| spec.terms = Some(range(0..1000))).is_ok());
}

#[test]
fn contracts_are_spoken_in_bytes_and_travel_in_packets() {
    //= V-S13 test
    let mut half = Half::open(&config());
    // a/P ..= (b-1)/P
    for (bytes, packets) in [(0..1, 0..=0), (99..100, 0..=0), (99..101, 0..=1), (100..200, 1..=1), (100..201, 1..=2)] {
        let (_, left) = half.begin(3000, |spec| spec.terms = Some(terms(9, 100, vec![bytes])));
        let critical: Vec<_> = tags(&left[0])
            .into_iter()
            .filter_map(|tag| match tag {
                Tag::CriticalPacket(packet) => Some(packet..=packet),
                Tag::CriticalInterval { first, last } => Some(first..=last),
                _ => None,
            })
            .collect();
        assert_eq!(critical, [packets]);
    }
    for (run_bytes, run) in [(0, 0), (99, 0), (100, 1), (25_400, 254), (25_500, 255), (1 << 40, 255)] {
        let (_, left) = half.begin(3000, |spec| spec.terms = Some(terms(9, run_bytes, vec![])));
        assert!(tags(&left[0]).contains(&Tag::ConsLoss(run)), "{run_bytes}");
    }
}

#[test]
fn frame_numbers_count_up_from_a_random_start() {
    //= V-S2 test
    let mut starts = BTreeSet::new();
    let mut epochs = BTreeSet::new();
    for seed in 0..40 {
        let mut half = Half::open(&Config { seed, ..config() });
        let numbers: Vec<_> = (0..5).map(|_| half.begin(300, |_| ())).collect();
        for (pair, next) in numbers.iter().zip(&numbers[1..]) {
            assert_eq!(next.0, (pair.0 + 1) % (1 << 15));
            assert_eq!(epoch(&pair.1[0]), epoch(&next.1[0]), "one life, one epoch");
        }
        starts.insert(numbers[0].0);
        epochs.insert(epoch(&numbers[0].1[0]));
    }
    assert!(starts.len() > 38 && epochs.len() == 40, "{} starts, {} epochs", starts.len(), epochs.len());
    assert!(starts.iter().any(|start| *start > 1 << 14) && starts.iter().any(|start| *start < 1 << 14));
}

#[test]
fn numbers_wrap_and_those_of_frames_that_have_not_ended_are_skipped() {
    //= V-S2 test
    let mut half = Half::open(&config());
    let (kept, _) = half.begin(100_000, |_| ());
    half.say(kept, &[Tag::FrameOk(kept)]);
    let mut expected = kept;
    let mut crossed_zero = false;
    for turn in 0..(1u32 << 15) + 10 {
        let (frame, _) = half.begin(0, |_| ());
        expected = (expected + 1) % (1 << 15);
        crossed_zero |= expected == 0;
        if expected == kept {
            expected = (expected + 1) % (1 << 15);
        }
        assert_eq!(frame, expected);
        half.say(frame, &[Tag::FrameOk(frame)]);
        if turn % 1000 == 0 {
            // The large frame lives on.
            half.say(kept, &[Tag::EcnEcho(0)]);
        }
        half.take_events();
    }
    assert!(crossed_zero && half.tx().frames_under_way() == 1);
}

#[test]
fn no_frame_begins_more_than_2048_ahead_of_one_whose_header_is_unanswered() {
    //= V-S2 test
    let mut half = Half::open(&config());
    let (silent, _) = half.begin(0, |_| ());
    let mut last = silent;
    for _ in 0..2048 {
        let (frame, _) = half.begin(0, |_| ());
        last = frame;
        half.say(frame, &[Tag::FrameOk(frame)]);
    }
    assert_eq!(last.wrapping_sub(silent) % (1 << 15), 2048);
    half.take_events();
    half.send(0);
    assert!(half.take_headers().is_empty(), "number 2049 ahead has to wait");
    assert_eq!(half.tx().frames_under_way(), 2);
    half.say(silent, &[Tag::FrameOk(silent)]);
    let left = half.take_headers();
    assert_eq!(left.iter().map(|header| number(header)).collect::<Vec<_>>(), [(last + 1) % (1 << 15)]);
}

#[test]
fn closed_frames_ride_in_the_next_header() {
    //= V-S4, V-S9 test
    let mut half = Half::open(&config());
    let mut done: Vec<u16> = (0..3).map(|_| half.begin(0, |_| ()).0).collect();
    for frame in &done {
        half.say(*frame, &[Tag::FrameOk(*frame)]);
    }
    let (frame, left) = half.begin(2000, |spec| spec.terms = Some(terms(5, 100, vec![0..1])));
    let close = |frame: u16| {
        let [high, low] = frame.to_be_bytes();
        [11, high, low]
    };
    let [a, b, c] = [0, 1, 2].map(|at| close(done[at]));
    let create = create(frame, 2000, 100);
    let own: [&[u8]; 5] = [&create, &[7, 1], &[8, 5], &[13, 0, 0, 0, 0], &epoch(&left[0])];
    assert_eq!(left[0], padded(frame, &[&own[..], &[&a, &b, &c]].concat()));
    // Not again, neither in the next header nor in a packet of their own.
    let (_, left) = half.begin(2000, |_| ());
    assert!(closes(&left).is_empty());
    half.advance(ms(200));
    assert!(closes(&half.take()).is_empty());
    // With inline data, they come before the data.
    half.say(frame, &[Tag::FrameRefused(frame)]);
    done = vec![frame];
    let (_, left) = half.begin(9, |_| ());
    assert_eq!(closes(&left), done);
}
