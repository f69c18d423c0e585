//! What the receiver says: acknowledgements, requests, missing headers, refusals, reports.

use crate::half::{
    Half, answer, answer_and_report, closes, config, data, is_control, is_header, ms, number, single_acks, tags,
};
use pinnace_core::TrainLimits;
use pinnace_vrp::{Failure, LossSummary, Terms};
use pinnace_wire::vrp::{REPORT_OVERFLOW, Tag};

/// A frame of 100 packets of which 0 to 7 have left, and nothing else will before an acknowledgement.
fn under_way() -> (Half, u16) {
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(10_000, |spec| spec.window = Some(8));
    half.say(frame, &[Tag::FrameOk(frame)]);
    assert_eq!(half.take_packets(), (0..8).collect::<Vec<_>>());
    (half, frame)
}

#[test]
fn an_acknowledgement_of_a_packet_never_sent_is_an_error() {
    //= V-S6 test
    for packet in [8, 9, 99, 100, u32::MAX] {
        for tag in [Tag::Ack(packet), Tag::SingleAck(packet), Tag::Nack(packet)] {
            let (mut half, frame) = under_way();
            half.say(frame, &[tag]);
            assert_eq!(half.take_ends(), [(0, Err(Failure::Protocol))], "{tag:?}");
            assert!(half.take().is_empty());
            half.advance(ms(100));
            assert_eq!(closes(&half.take()), [frame], "closed like a finished one");
            assert_eq!(half.next_at(), None);
        }
    }
}

#[test]
fn an_error_ends_its_own_frame_only() {
    //= V-S6 test
    let (mut half, frame) = under_way();
    let (other, _) = half.begin(1000, |_| ());
    half.say(frame, &[Tag::SingleAck(2), Tag::Ack(50), Tag::SingleAck(3)]);
    assert_eq!(half.take_ends(), [(0, Err(Failure::Protocol))]);
    half.say(other, &[Tag::FrameOk(other), Tag::Ack(9)]);
    assert_eq!(half.take_ends(), [(1, Ok(()))]);
}

#[test]
fn a_requested_packet_is_sent_again_at_once() {
    //= V-S7 test
    let (mut half, frame) = under_way();
    half.say(frame, &[Tag::Nack(3), Tag::SingleAck(4), Tag::Ack(2)]);
    assert_eq!(half.take_packets(), [3, 8, 9, 10], "the request before anything new");
    half.say(frame, &[Tag::Nack(9), Tag::Nack(6)]);
    assert_eq!(half.take_packets(), [9, 6]);
    half.say(frame, &[Tag::Nack(9)]);
    assert_eq!(half.take_packets(), [9], "again, if it is asked for again");
    half.say(frame, &[Tag::Nack(9), Tag::Nack(9), Tag::Nack(9)]);
    assert_eq!(half.take_packets(), [9]);
}

#[test]
fn a_request_for_what_is_acknowledged_is_ignored() {
    //= V-S7 test
    let (mut half, frame) = under_way();
    half.say(frame, &[Tag::SingleAck(5), Tag::Ack(1)]);
    half.take();
    half.say(frame, &[Tag::Nack(0), Tag::Nack(1), Tag::Nack(5)]);
    assert!(half.take().is_empty() && half.take_events().is_empty());
    // In one packet with its acknowledgement.
    half.say(frame, &[Tag::SingleAck(6), Tag::Nack(6)]);
    assert!(half.take().is_empty());
}

#[test]
fn a_request_that_is_lost_again_is_repeated_by_the_deadline() {
    //= V-S5, V-S7 test
    let (mut half, frame) = under_way();
    half.advance(ms(20));
    half.say(frame, &[Tag::Nack(3), Tag::Ack(2)]);
    half.say(frame, &single_acks(4..11));
    half.take();
    let timeout = half.tx().timeout();
    half.advance(timeout - ms(1));
    assert!(half.take().is_empty());
    half.advance(ms(1));
    assert_eq!(half.take_packets(), [3]);
}

#[test]
fn acknowledgements_of_old_and_unknown_frames_are_ignored() {
    //= V-S6 test
    let (mut half, frame) = under_way();
    for unknown in [frame.wrapping_add(1) & 0x7FFF, frame.wrapping_sub(1) & 0x7FFF] {
        half.say(unknown, &[Tag::FrameOk(unknown), Tag::Ack(99), Tag::Nack(1), Tag::SingleAck(7), Tag::EcnEcho(3)]);
        half.say(unknown, &[Tag::FrameRefused(unknown), Tag::MissingHeader(unknown)]);
    }
    assert!(half.take().is_empty() && half.take_events().is_empty());
    assert!(half.tx().counters().controls_stale > 0);
    half.say(frame, &[Tag::FrameRefused(frame)]);
    assert_eq!(half.take_ends(), [(0, Err(Failure::Refused))]);
    half.say(frame, &[Tag::Ack(7), Tag::MissingHeader(frame), Tag::FrameRefused(frame)]);
    assert!(half.take().is_empty() && half.take_events().is_empty());
}

#[test]
fn an_answer_to_a_header_counts_only_in_a_packet_of_its_frame() {
    //= V-S4 test
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(100_000, |_| ());
    let before = half.tx().counters().controls_stale;
    for other in [0, frame ^ 1, (frame + 1) & 0x7FFF].into_iter().filter(|other| *other != frame) {
        half.say(other, &[Tag::FrameRefused(frame)]);
        half.say(other, &[Tag::FrameOk(frame)]);
        assert!(half.take().is_empty() && half.take_events().is_empty(), "{other}");
    }
    assert!(half.tx().counters().controls_stale >= before + 6);
    half.say(frame, &[Tag::FrameOk(frame)]);
    assert!(!half.take_packets().is_empty());
    half.say(frame, &[Tag::FrameRefused(frame)]);
    assert_eq!(half.take_ends(), [(0, Err(Failure::Refused))]);
}

#[test]
fn a_refusal_ends_the_frame_in_any_state() {
    //= V-S4 test
    // Announced, inline, early, in the middle, with requests under way.
    type Prepare = fn(&mut Half) -> u16;
    let prepare: [Prepare; 5] = [
        |half| half.begin(100_000, |_| ()).0,
        |half| half.begin(10, |_| ()).0,
        |half| half.begin(1000, |_| ()).0,
        |half| {
            let (frame, _) = half.begin(100_000, |_| ());
            half.say(frame, &[Tag::FrameOk(frame)]);
            half.say(frame, &[Tag::Ack(20), Tag::SingleAck(40)]);
            frame
        },
        |half| {
            let (frame, _) = half.begin(100_000, |_| ());
            half.say(frame, &[Tag::FrameOk(frame)]);
            half.say(frame, &[Tag::Nack(0)]);
            frame
        },
    ];
    for prepare in prepare {
        let mut half = Half::open(&config());
        let frame = prepare(&mut half);
        half.take();
        half.say(frame, &[Tag::FrameRefused(frame)]);
        assert_eq!(half.take_ends(), [(0, Err(Failure::Refused))]);
        half.advance(ms(99));
        assert!(half.take().is_empty(), "nothing of it is repeated");
        half.advance(ms(1));
        assert_eq!(closes(&half.take()), [frame]);
        assert_eq!(half.next_at(), None);
    }
}

#[test]
fn a_missing_header_is_sent_again_at_most_once_in_a_timeout() {
    //= V-S8 test
    let mut half = Half::open(&config());
    let (frame, left) = half.begin(1000, |_| ());
    let header = left[0].clone();
    half.advance(ms(5));
    half.say(frame, &[Tag::MissingHeader(frame)]);
    assert_eq!(half.take(), [header]);
    for _ in 0..50 {
        half.advance(ms(5));
        half.say(frame, &[Tag::MissingHeader(frame)]);
        assert!(half.take_headers().is_empty());
    }
    // 255 ms; the deadline of the data is at 300, that of the header 300 after its repetition.
    half.advance(ms(50));
    half.say(frame, &[Tag::MissingHeader(frame)]);
    let timeout = half.tx().timeout();
    assert!(timeout > ms(300));
    assert!(half.take_headers().len() <= 1);
}

#[test]
fn a_missing_header_is_sent_again_after_frame_ok_too() {
    //= V-S8 test
    let (mut half, frame) = under_way();
    half.advance(ms(1));
    half.say(frame, &[Tag::MissingHeader(frame), Tag::MissingHeader(frame)]);
    let left = half.take();
    assert_eq!(left.len(), 1);
    assert!(is_header(&left[0]) && number(&left[0]) == frame);
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.advance(ms(298));
    half.say(frame, &[Tag::MissingHeader(frame)]);
    assert!(half.take().is_empty());
    half.advance(ms(3));
    half.take();
    // The estimates have doubled.
    half.say(frame, &[Tag::MissingHeader(frame)]);
    assert!(half.take_headers().is_empty());
    half.advance(ms(400));
    half.say(frame, &[Tag::MissingHeader(frame)]);
    assert_eq!(half.take_headers().len(), 1);
    assert!(half.take_events().is_empty());
}

#[test]
fn the_header_of_a_forgotten_frame_goes_alone_until_it_is_answered() {
    //= V-S4, V-S8 test
    let (mut half, frame) = under_way();
    half.advance(ms(1500));
    assert_eq!(half.take_packets()[..8], (0..8).collect::<Vec<_>>(), "late packets are repeated");
    half.say(frame, &[Tag::MissingHeader(frame)]);
    // On a path that its data fill, nothing else would get through.
    half.advance(ms(2000));
    let left = half.take();
    assert!(left.len() > 1 && left.iter().all(|datagram| is_header(datagram)), "it is repeated, and nothing else");
    half.say(frame, &[Tag::FrameOk(frame)]);
    assert_eq!(half.take_packets(), (0..8).collect::<Vec<_>>());
    half.say(frame, &[Tag::Ack(7)]);
    assert_eq!(half.take_packets(), (8..16).collect::<Vec<_>>());
}

#[test]
fn early_data_follow_a_header_that_was_missing_once_but_not_for_ever() {
    //= V-S8 test
    let mut half = Half::open(&config());
    let (frame, left) = half.begin(1000, |_| ());
    assert_eq!(left.len(), 11);
    half.advance(ms(100));
    half.say(frame, &[Tag::MissingHeader(frame)]);
    assert_eq!(half.take(), left[..1], "perhaps it was lost alone");
    half.advance(ms(200));
    assert_eq!(half.take_packets(), (0..10).collect::<Vec<_>>());
    for _ in 0..20 {
        half.advance(ms(100));
        half.say(frame, &[Tag::MissingHeader(frame)]);
    }
    half.take();
    half.advance(ms(4000));
    let left = half.take();
    assert!(
        !left.is_empty() && left.iter().all(|datagram| is_header(datagram)),
        "repeated in vain with data behind it"
    );
    half.say(frame, &[Tag::SingleAck(9), Tag::Ack(3)]);
    assert_eq!(half.take_packets(), [4, 5, 6, 7, 8], "an acknowledgement says that it is known after all");
}

#[test]
fn a_frame_that_its_receiver_forgets_again_and_again_ends() {
    //= V-S11 test
    for answers_headers in [false, true] {
        let (mut half, frame) = under_way();
        let start = half.now;
        let ends = loop {
            half.advance(ms(700));
            if answers_headers && !half.take_headers().is_empty() {
                half.say(frame, &[Tag::FrameOk(frame)]);
                half.advance(ms(700));
            }
            half.say(frame, &[Tag::MissingHeader(frame)]);
            let ends = half.take_ends();
            assert!(half.now.since(start) < ms(60_000), "it would go on for ever: {answers_headers}");
            if !ends.is_empty() {
                break ends;
            }
        };
        assert_eq!(ends, [(0, Err(Failure::Protocol))], "the receiver lives, and loses it");
        assert!(half.now.since(start) > ms(15_000));
    }
}

#[test]
fn a_frame_that_its_receiver_knows_after_all_waits_as_long_as_any_other() {
    //= V-S11 test
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(1000, |_| ());
    half.say(frame, &[Tag::MissingHeader(frame)]);
    half.say(frame, &[Tag::FrameOk(frame)]);
    // A receiver whose application is slow takes no last packet, and says nothing in its answers.
    for _ in 0..60 {
        half.advance(ms(1000));
        half.say(frame, &[]);
    }
    assert!(half.take_events().is_empty());
    half.say(frame, &[Tag::Ack(9)]);
    assert_eq!(half.take_ends(), [(0, Ok(()))]);
}

#[test]
fn once_a_packet_is_acknowledged_the_header_is_never_sent_again() {
    //= V-S8 test
    for tag in [Tag::SingleAck(2), Tag::Ack(0)] {
        let (mut half, frame) = under_way();
        half.say(frame, &[tag]);
        half.take();
        let timeout = half.tx().timeout();
        half.advance(timeout - ms(2));
        half.say(frame, &[Tag::MissingHeader(frame)]);
        assert!(half.take().is_empty() && half.take_events().is_empty(), "stale: an answer came before");
        assert!(half.tx().counters().controls_stale > 0);
        // A stale one is no answer that would make the next one stale.
        half.advance(ms(2001));
        half.take();
        half.say(frame, &[Tag::MissingHeader(frame)]);
        assert_eq!(half.take_ends(), [(0, Err(Failure::Protocol))], "the receiver has lost the frame");
        assert!(half.take_headers().is_empty());
    }
}

#[test]
fn any_other_answer_makes_a_missing_header_stale() {
    //= V-S8 test
    for tag in [Tag::Ack(0), Tag::SingleAck(3), Tag::Nack(3)] {
        let (mut half, frame) = under_way();
        half.say(frame, &[Tag::Ack(0)]);
        half.advance(ms(2001));
        half.say(frame, &[tag]);
        half.advance(ms(5));
        half.say(frame, &[Tag::MissingHeader(frame)]);
        assert!(half.take_events().is_empty(), "{tag:?}");
    }
    // FRAME_OK as well; ECN_ECHO is none of them.
    let (mut half, frame) = under_way();
    half.say(frame, &[Tag::Ack(0)]);
    half.advance(ms(2001));
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.say(frame, &[Tag::MissingHeader(frame)]);
    assert!(half.take_events().is_empty());
    half.advance(ms(2001));
    half.say(frame, &[Tag::EcnEcho(1), Tag::MissingHeader(frame)]);
    assert_eq!(half.take_ends(), [(0, Err(Failure::Protocol))]);
}

#[test]
fn a_queued_header_does_not_leave_once_a_packet_is_acknowledged() {
    //= V-S8 test
    let (mut half, frame) = under_way();
    half.say(frame, &[Tag::MissingHeader(frame), Tag::SingleAck(0), Tag::Ack(0)]);
    assert!(half.take_headers().is_empty());
}

#[test]
fn tags_of_the_other_direction_are_skipped() {
    let (mut half, frame) = under_way();
    half.say(
        frame,
        &[
            Tag::FrameCreate { frame, size: 5, packet_bytes: 1 },
            Tag::ConsLoss(1),
            Tag::LossRate(1),
            Tag::FrameClose(frame),
            Tag::CriticalPacket(1),
            Tag::CriticalInterval { first: 1, last: 2 },
            Tag::Ping([0; 8]),
            Tag::Window(8),
            Tag::LossRateFloor(3),
            Tag::LossRateNow { count: 1, rate: 1 },
            Tag::Epoch(7),
            Tag::Ack(0),
        ],
    );
    assert_eq!(half.take_packets(), [8]);
    assert!(half.take_events().is_empty());
}

#[test]
fn what_follows_an_unknown_tag_does_not_count() {
    let (mut half, frame) = under_way();
    let mut bytes = answer(frame, &[Tag::Ack(0)]);
    let last = bytes.len() - 1;
    bytes.splice(last.., [40, 3, 0, 0, 0, 50, 0]);
    half.feed(&bytes);
    assert_eq!(half.take_packets(), [8], "packet 50 was never sent, but nobody has read that");
    // An unknown extension is skipped.
    let mut bytes = answer(frame, &[]);
    let last = bytes.len() - 1;
    bytes.splice(last.., [200, 2, 9, 9, 3, 0, 0, 0, 1, 0]);
    half.feed(&bytes);
    assert_eq!(half.take_packets(), [9]);
    // What does not parse to its end changes nothing.
    let mut bytes = answer(frame, &[Tag::Ack(2)]);
    bytes.pop();
    half.feed(&bytes);
    half.feed(&[0x80]);
    half.feed(&[0; 30]);
    assert!(half.take().is_empty());
    assert_eq!(half.tx().counters().datagrams_malformed, 3);
}

#[test]
fn a_batch_of_answers_is_one_read() {
    let (mut half, frame) = under_way();
    half.limits = TrainLimits::GSO;
    half.read(&[answer(frame, &[Tag::Ack(2)]), answer(frame, &[Tag::Ack(5)]), answer(frame, &[])]);
    let left = half.take_left();
    assert_eq!(
        left.iter().filter_map(|left| data(&left.bytes)).map(|d| d.packet).collect::<Vec<_>>(),
        [8, 9, 10, 11, 12, 13]
    );
    assert!(left.iter().all(|other| other.train == left[0].train), "and one train");
}

/// How a frame of 100 packets ends of which its receiver reports this.
fn ended(terms: Terms, reports: &[&[(u32, u32)]]) -> Result<LossSummary, Failure> {
    ended_of(100, terms, reports)
}

/// The same of a frame of so many packets.
fn ended_of(packets: usize, terms: Terms, reports: &[&[(u32, u32)]]) -> Result<LossSummary, Failure> {
    let mut half = Half::open(&config());
    let window = Some(packets as u16);
    let (frame, _) = half.begin(packets * 100, |spec| (spec.window, spec.terms) = (window, Some(terms)));
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.feed(&answer_and_report(frame, &[Tag::Ack(packets as u32 - 1)], reports));
    half.take_results().remove(0).1.map(|sent| sent.loss.unwrap())
}

/// What the sender makes of reports about 100 packets, of which all may be lost.
fn reported(reports: &[&[(u32, u32)]]) -> LossSummary {
    ended(Terms { rate: Some(255), run_bytes: Some(u64::MAX), ..Terms::default() }, reports).unwrap()
}

#[test]
fn a_frame_whose_receiver_breaks_its_contract_has_failed() {
    let nothing = Terms::reliable();
    assert!(ended(nothing.clone(), &[&[]]).is_ok());
    assert_eq!(ended(nothing, &[&[(2, 1)]]), Err(Failure::Breach));
    // A tenth, 3 packets in a row, and neither of the first two.
    let terms = Terms { rate: Some(26), run_bytes: Some(300), critical: vec![0..200], ..Terms::default() };
    let how = |reports: &[&[(u32, u32)]]| ended(terms.clone(), reports).err();
    assert_eq!(how(&[&[(2, 3), (97, 3)], &[(50, 3), (60, 1)]]), None);
    assert_eq!(how(&[&[(2, 3), (97, 3)], &[(50, 3), (60, 2)]]), Some(Failure::Breach), "eleven");
    assert_eq!(how(&[&[(2, 4)]]), Some(Failure::Breach), "four in a row");
    assert_eq!(how(&[&[(2, 2)], &[(4, 2)]]), Some(Failure::Breach), "four in a row, in two steps");
    assert_eq!(how(&[&[(1, 1)]]), Some(Failure::Breach), "a critical one");
    assert_eq!(how(&[&[(2, 3), (REPORT_OVERFLOW, 10)]]), None);
    assert_eq!(how(&[&[(2, 3), (REPORT_OVERFLOW, 11)]]), Some(Failure::Breach));
}

//= V-R5 test
#[test]
fn a_run_that_the_receiver_cannot_be_told_of_is_a_limit_all_the_same() {
    let how = |run_bytes, lost| {
        let terms = Terms { rate: Some(255), run_bytes: Some(run_bytes), ..Terms::default() };
        ended_of(600, terms, &[&[(2, lost)]]).err()
    };
    assert_eq!([how(30_000, 300), how(30_000, 301)], [None, Some(Failure::Breach)]);
    assert_eq!([how(25_500, 255), how(25_500, 256)], [None, Some(Failure::Breach)]);
    assert_eq!(how(u64::MAX, 500), None, "any");
}

#[test]
fn the_sender_learns_what_was_lost() {
    let nothing = LossSummary { packets: 100, is_complete: true, ..LossSummary::default() };
    assert_eq!(reported(&[&[]]), nothing);
    let some = reported(&[&[(3, 2), (9, 1)], &[(50, 4)]]);
    let expected = LossSummary { lost: 7, longest_run: 4, ranges: vec![3..5, 9..10, 50..54], ..nothing.clone() };
    assert_eq!(some, expected);
    assert_eq!(some.holes(10_000, 100), [300..500, 900..1000, 5000..5400]);
    // Adjoining ranges are one hole.
    let joined = LossSummary { lost: 4, longest_run: 4, ranges: vec![1..5], ..nothing.clone() };
    assert_eq!(reported(&[&[(1, 2), (3, 2)]]), joined);
    // Nothing says that they rise.
    let unsorted = LossSummary { lost: 3, longest_run: 2, ranges: vec![2..3, 5..7], ..nothing.clone() };
    assert_eq!(reported(&[&[(6, 1), (2, 1)], &[(5, 1)]]), unsorted);
    // More than fits.
    let more = reported(&[&[(3, 2)], &[(REPORT_OVERFLOW, 40)]]);
    assert_eq!((more.lost, more.is_complete, &more.ranges[..]), (40, false, &[3..5][..]));
}

#[test]
fn reports_that_cannot_be_true_do_no_harm() {
    let whole = reported(&[&[(0, u32::MAX)]]);
    assert_eq!((whole.lost, whole.longest_run, &whole.ranges[..]), (100, 100, &[0..100][..]));
    let odd = reported(&[&[(99, 5), (98, 1), (5, 0), (100, 1), (u32::MAX - 1, u32::MAX)]]);
    assert_eq!((odd.lost, &odd.ranges[..]), (2, &[98..100][..]));
    let much = reported(&[&[(REPORT_OVERFLOW, u32::MAX)]]);
    assert_eq!((much.lost, much.is_complete), (100, false));
    let overlapping = reported(&[&[(1, 10), (5, 10), (1, 10)]]);
    assert_eq!((overlapping.lost, &overlapping.ranges[..]), (14, &[1..15][..]));
}

#[test]
fn packets_of_controls_are_well_formed() {
    let (mut half, frame) = under_way();
    half.say(frame, &[Tag::FrameRefused(frame)]);
    half.close();
    for datagram in half.take() {
        assert!(is_control(&datagram) && !tags(&datagram).is_empty());
    }
}
