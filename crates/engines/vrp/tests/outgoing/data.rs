//! Data: inline, early, and packet by packet; windows, deadlines, turns.

use crate::half::{Data, Half, config, content, data, is_control, is_header, ms, number, single_acks, tags};
use pinnace_core::{BufferId, Ecn, TrainLimits};
use pinnace_vrp::{Config, Event, Failure, LossSummary, Sent, Terms};
use pinnace_wire::vrp::Tag;

/// A frame of `packets` packets whose header is answered; returns its number. Its first packets have left.
pub(crate) fn accepted(half: &mut Half, packets: usize, window: u16) -> u16 {
    let (frame, _) = half.begin(packets * 100, |spec| spec.window = Some(window));
    half.say(frame, &[Tag::FrameOk(frame)]);
    frame
}

#[test]
fn a_small_frame_travels_in_its_header() {
    let mut half = Half::open(&config());
    for size in 1..=255 {
        let (frame, left) = half.begin(size, |_| ());
        assert_eq!(left.len(), 1, "one packet");
        let header = &left[0];
        assert!(header.len() >= 64, "{size} bytes make a header of {}", header.len());
        assert!(header.len() <= 64.max(size + 6 + 9 + 6 + 3 + 1 + 2 + 3), "{size}: {}", header.len());
        let end = header.len() - 1;
        assert_eq!(header[end], 0, "LAST");
        assert_eq!(header[end - size..end], content(half.memory.count() as u64 - 1, size));
        assert_eq!(header[end - size - 2..end - size], [65, size as u8]);
        let [Tag::FrameCreate { size: s, .. }, Tag::Epoch(_), .., Tag::InlineData(inline)] = tags(header)[..] else {
            panic!("{:?}", tags(header));
        };
        assert_eq!((s as usize, inline.bytes.len()), (size, size));
        // A receiver that takes it says so and acknowledges all.
        let last = (size as u32).div_ceil(100) - 1;
        half.say(frame, &[Tag::FrameOk(frame), Tag::Ack(last)]);
        assert_eq!(half.take_ends(), [(size as u64 - 1, Ok(()))]);
        assert!(half.take().is_empty());
    }
    let (_, left) = half.begin(256, |_| ());
    assert_eq!(left.len(), 1 + 3, "not inline, but early");
}

#[test]
fn small_frames_measure_the_path() {
    //= V-S10 test
    let mut half = Half::open(&config());
    // Lost headers, and the time-out has doubled.
    for _ in 0..3 {
        let (frame, _) = half.begin(200, |_| ());
        let timeout = half.tx().timeout();
        half.advance(timeout);
        let doubled = half.tx().timeout();
        half.say(frame, &[Tag::FrameOk(frame), Tag::Ack(1)]);
        assert_eq!(half.tx().timeout(), doubled, "a header that was sent twice measures nothing");
    }
    assert_eq!(half.tx().timeout(), ms(1200));
    for _ in 0..40 {
        let (frame, left) = half.begin(200, |_| ());
        assert_eq!(left.len(), 1);
        half.advance(ms(50));
        half.say(frame, &[Tag::FrameOk(frame), Tag::Ack(1)]);
    }
    let round_trip = half.tx().round_trip().unwrap();
    assert!((ms(50)..ms(51)).contains(&round_trip), "{round_trip:?}");
    assert!(half.tx().timeout() < ms(200), "{:?}", half.tx().timeout());
}

#[test]
fn a_silent_peer_is_asked_however_often_time_outs_have_doubled() {
    //= V-S5 test
    let mut half = Half::open(&config());
    // A time-out of a second and more.
    let (frame, _) = half.begin(2500, |_| ());
    half.say(frame, &[Tag::FrameOk(frame)]);
    half.advance(ms(3000));
    half.say(frame, &[Tag::Ack(24)]);
    assert!(half.tx().timeout() > ms(1000), "{:?}", half.tx().timeout());
    half.take();
    let (frame, left) = half.begin(2500, |_| ());
    half.say(frame, &[Tag::FrameOk(frame)]);
    assert_eq!(left.len() + half.take_data().len(), 1 + 25);
    half.say(frame, &[Tag::Ack(23)]);
    let begun = half.now;
    let mut asked = Vec::new();
    for _ in 0..100 {
        half.advance(ms(20));
        asked.extend(half.take_data().iter().map(|data| (half.now.since(begun).as_millis() as u64, data.packet)));
    }
    assert!(asked.iter().all(|&(_, packet)| packet == 24), "the last one alone: {asked:?}");
    let gaps: Vec<u64> = asked.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(asked[0].0 < 1000 && gaps.iter().all(|gap| *gap >= 300), "sooner than in a second, and seldom: {asked:?}");
    // It is there.
    half.say(frame, &[Tag::Ack(24)]);
    assert!(half.take_ends().iter().all(|(_, result)| result.is_ok()));
}

#[test]
fn a_late_acknowledgement_of_what_came_long_ago_measures_nothing() {
    //= V-S10 test
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(300, |_| ());
    half.say(frame, &[Tag::FrameOk(frame)]);
    let before = half.tx().round_trip().unwrap();
    // Packets 1 and 2 came at once, and that was lost. Packet 0 had to be sent again, and shows all three.
    half.advance(ms(5));
    half.say(frame, &[Tag::Nack(0)]);
    half.advance(ms(900));
    half.say(frame, &[Tag::SingleAck(1), Tag::SingleAck(0), Tag::Ack(2)]);
    assert_eq!(half.tx().round_trip().unwrap(), before);
    assert_eq!(half.take_ends().len(), 1);
    // Data that came before their header waited for it, which was sent again.
    let (frame, left) = half.begin(300, |_| ());
    assert_eq!(left.len(), 1 + 3, "early");
    half.advance(ms(5));
    half.say(frame, &[Tag::MissingHeader(frame)]);
    half.advance(ms(100));
    half.say(frame, &[Tag::FrameOk(frame), Tag::Ack(2)]);
    assert_eq!(half.tx().round_trip().unwrap(), before);
}

#[test]
fn a_receiver_that_skips_inline_data_gets_packets() {
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(250, |_| ());
    half.say(frame, &[Tag::FrameOk(frame)]);
    let left = half.take_data();
    let expected = |packet: u32| {
        let low = packet as usize * 100;
        Data { frame, packet, bytes: content(0, 250)[low..(low + 100).min(250)].to_vec() }
    };
    assert_eq!(left, [expected(0), expected(1), expected(2)]);
    half.advance(ms(10));
    // The packets that it carried count as sent, so a late acknowledgement is in order.
    half.say(frame, &[Tag::FrameOk(frame), Tag::Ack(2)]);
    assert_eq!(half.take_ends(), [(0, Ok(()))]);
}

#[test]
fn an_acknowledgement_beyond_inline_data_is_an_error() {
    //= V-S6 test
    let mut half = Half::open(&config());
    let (frame, _) = half.begin(250, |_| ());
    half.say(frame, &[Tag::FrameOk(frame), Tag::Ack(3)]);
    assert_eq!(half.take_ends(), [(0, Err(Failure::Protocol))]);
}

#[test]
fn inline_data_need_the_room() {
    let critical = (0..100).map(|at| 2 * at..2 * at + 1).collect();
    let terms = Terms { rate: Some(9), run_bytes: Some(3), critical, floor: None };
    let mut half = Half::open(&Config { control_bytes: 600, packet_bytes: 1, ..config() });
    let (frame, left) = half.begin(255, |spec| spec.terms = Some(terms));
    assert_eq!(left.len(), 1, "data would be early, but the header may be refused for its length by nobody");
    assert!(left[0].len() <= 600 && !tags(&left[0]).iter().any(|tag| matches!(tag, Tag::InlineData(_))));
    half.say(frame, &[Tag::FrameOk(frame)]);
    assert_eq!(half.take_data().len(), 64);
}

#[test]
fn headers_have_64_bytes_however_little_room_there_is() {
    //= V-S4 test
    for control_bytes in [0, 60, 64, 65, 66, 67, 68, 70, 80, 100, 130] {
        let mut half = Half::open(&Config { control_bytes, packet_bytes: 1, ..config() });
        let mut ended = 0;
        for size in 0..=255 {
            let (frame, left) = half.begin(size, |_| ());
            let headers: Vec<_> = left.iter().filter(|d| is_header(d)).collect();
            assert_eq!(headers.len(), 1);
            assert!((64..=control_bytes.max(67)).contains(&headers[0].len()), "{control_bytes}: {}", headers[0].len());
            half.say(frame, &[Tag::FrameRefused(frame)]);
            ended += half.take_ends().len();
        }
        assert_eq!(ended, 256);
    }
}

#[test]
fn a_frame_of_at_most_sixteen_packets_does_not_wait_for_its_answer() {
    let mut half = Half::open(&config());
    let (frame, left) = half.begin(1600, |_| ());
    assert!(is_header(&left[0]), "the header leaves first");
    assert!(left[1..].iter().all(|d| !is_control(d) && number(d) == frame));
    assert_eq!(left.len(), 17);
    let (frame, left) = half.begin(1601, |_| ());
    assert_eq!(left.len(), 1, "seventeen packets wait for FRAME_OK");
    half.say(frame, &[Tag::FrameOk(frame)]);
    assert_eq!(half.take_packets(), (0..17).collect::<Vec<_>>());
    let (_, left) = half.begin(1600, |spec| spec.window = Some(5));
    assert_eq!(left.len(), 1 + 5, "within the window");
}

#[test]
fn any_acknowledgement_counts_as_frame_ok() {
    for tag in [Tag::Ack(0), Tag::SingleAck(3), Tag::Nack(2)] {
        let mut half = Half::open(&config());
        let (frame, _) = half.begin(1600, |_| ());
        half.say(frame, &[tag]);
        half.advance(ms(5000));
        assert!(half.take_headers().is_empty(), "{tag:?}");
    }
}

#[test]
fn packets_are_the_memory_and_a_header_of_six_bytes() {
    //= V-S1 test
    let mut half = Half::open(&config());
    let frame = accepted(&mut half, 20, 64);
    let left = half.take();
    assert_eq!(left.len(), 20);
    for (packet, datagram) in (0u32..).zip(&left) {
        let mut expected = frame.to_be_bytes().to_vec();
        expected.extend_from_slice(&packet.to_be_bytes());
        expected.extend_from_slice(&content(0, 2000)[packet as usize * 100..][..100]);
        assert_eq!(*datagram, expected);
    }
    // The memory is read when a packet leaves, not before.
    half.memory.bytes_mut(BufferId::new(0)).unwrap()[500..600].fill(0xEE);
    half.say(frame, &[Tag::Nack(5)]);
    assert_eq!(half.take_data()[0].bytes, [0xEE; 100]);
}

#[test]
fn at_most_a_window_is_unacknowledged() {
    //= V-S1, V-S5 test
    let mut half = Half::open(&config());
    let frame = accepted(&mut half, 1000, 8);
    assert_eq!(half.take_packets(), (0..8).collect::<Vec<_>>());
    half.say(frame, &single_acks([1, 2, 7]));
    assert!(half.take().is_empty(), "packet 0 holds the window back");
    half.say(frame, &[Tag::Ack(0)]);
    assert_eq!(half.take_packets(), [8, 9, 10], "0, 1 and 2 are acknowledged");
    half.say(frame, &[Tag::Ack(6)]);
    assert_eq!(half.take_packets(), (11..16).collect::<Vec<_>>());
    half.say(frame, &[Tag::Ack(6)]);
    half.say(frame, &[Tag::Ack(3)]);
    assert!(half.take().is_empty());
    half.advance(ms(299));
    assert!(half.take().is_empty());
}

#[test]
fn the_largest_window_is_16384_packets() {
    //= V-S5 test
    let mut half = Half::open(&config());
    let frame = accepted(&mut half, 20_000, 16_384);
    assert_eq!(half.take_packets(), (0..16_384).collect::<Vec<_>>());
    half.say(frame, &[Tag::Ack(99)]);
    assert_eq!(half.take_packets(), (16_384..16_484).collect::<Vec<_>>());
}

#[test]
fn a_late_packet_is_sent_again() {
    //= V-S1, V-S5 test
    let mut half = Half::open(&config());
    let frame = accepted(&mut half, 20, 4);
    assert_eq!(half.take_packets(), [0, 1, 2, 3]);
    half.advance(ms(100));
    half.say(frame, &[Tag::SingleAck(1), Tag::Ack(1)]);
    assert_eq!(half.take_packets(), [4, 5]);
    let timeout = half.tx().timeout();
    assert_eq!(timeout, ms(100) + core::time::Duration::from_nanos(4 * 43_750_000));
    half.advance(timeout - ms(101));
    assert!(half.take().is_empty());
    half.advance(ms(1));
    assert_eq!(half.take_packets(), [2, 3], "4 and 5 left later");
    assert_eq!(half.tx().counters().packets_timed_out, 2);
    // The time-out has doubled, but that is for what leaves from now on.
    assert_eq!(half.tx().timeout(), timeout * 2);
    half.advance(ms(99));
    assert!(half.take().is_empty());
    half.advance(ms(1));
    assert_eq!(half.take_packets(), [4, 5]);
    half.advance(timeout * 2 - ms(101));
    assert!(half.take().is_empty());
    half.advance(ms(1));
    assert_eq!(half.take_packets(), [2, 3]);
}

#[test]
fn a_rate_that_is_set_anew_holds_for_what_leaves_then() {
    let mut half = Half::open(&Config { rate: Some(10_000), burst: 200, ..config() });
    let frame = accepted(&mut half, 1000, 1000);
    let left_in = |half: &mut Half, time| {
        half.take();
        half.advance(time);
        half.take_packets().len()
    };
    // Packets of a hundred bytes, and their headers.
    let slow = left_in(&mut half, ms(1000));
    assert!((80..=100).contains(&slow), "{slow} of frame {frame}");
    half.call(|tx, now| tx.set_rate(now, Some(50_000)));
    assert_eq!(half.tx().rate(), Some(50_000));
    let fast = left_in(&mut half, ms(1000));
    assert!((4 * slow..=6 * slow).contains(&fast), "{slow} and {fast}");
}

#[test]
fn packets_lost_together_are_repeated_together() {
    //= V-S5 test
    let mut half = Half::open(&Config { rate: Some(100_000), burst: 200, ..config() });
    let (frame, _) = half.begin(2000, |_| ());
    half.say(frame, &[Tag::FrameOk(frame)]);
    // A packet a millisecond; the last six are lost.
    let start = half.now;
    half.advance(ms(40));
    assert_eq!(half.take_packets().last(), Some(&19));
    half.advance(ms(60));
    let arrived: Vec<_> = single_acks(0..14).into_iter().chain([Tag::Ack(13)]).collect();
    half.say(frame, &arrived);
    half.advance(ms(1000));
    let mut again: Vec<_> =
        half.take_left().iter().filter_map(|left| Some((data(&left.bytes)?.packet, left.at))).collect();
    again.truncate(6);
    assert_eq!(again.iter().map(|(packet, _)| *packet).collect::<Vec<_>>(), [14, 15, 16, 17, 18, 19]);
    let took = again[5].1.since(again[0].1);
    assert!(took < ms(20), "{took:?} from {:?}", again[0].1.since(start));
}

#[test]
fn estimates_double_at_most_once_in_a_round_trip() {
    //= V-S5 test
    let mut half = Half::open(&config());
    let mut frames = vec![accepted(&mut half, 30, 8)];
    for _ in 0..5 {
        half.advance(ms(10));
        frames.push(accepted(&mut half, 30, 8));
    }
    half.take();
    assert_eq!(half.tx().round_trip(), Some(ms(100)));
    half.advance(ms(250));
    assert_eq!(half.take_packets().len(), 8, "the first frame's");
    assert_eq!(half.tx().timeout(), ms(600));
    half.advance(ms(50));
    assert_eq!(half.take_packets().len(), 40, "the others', each at its own deadline");
    assert_eq!(half.tx().timeout(), ms(600), "within the same round trip");
    half.advance(ms(549));
    assert_eq!((half.take_packets().len(), half.tx().timeout()), (0, ms(600)));
    half.advance(ms(1));
    assert_eq!((half.take_packets().len(), half.tx().timeout()), (8, ms(1200)), "what left since expires after 600 ms");
    half.advance(ms(20));
    assert_eq!(half.tx().timeout(), ms(1200));
    half.advance(ms(4000));
    assert!(half.tx().timeout() <= ms(2000), "the cap");
}

#[test]
fn a_silent_frame_is_asked_about_however_long_the_timeout_is() {
    //= V-S5, V-S11 test
    let mut half = Half::open(&config());
    accepted(&mut half, 20, 4);
    half.take();
    let mut sent = Vec::new();
    let mut now = 0;
    while now < 4900 {
        half.advance(ms(10));
        now += 10;
        if !half.take_packets().is_empty() {
            sent.push(now);
        }
    }
    assert_eq!(half.tx().timeout(), ms(2000), "nothing measures the path");
    let late: Vec<i32> = sent.iter().copied().filter(|&at| at >= 1250).collect();
    assert!(late.len() > 8 && late.windows(2).all(|pair| pair[1] - pair[0] < 630), "{sent:?}");
}

#[test]
fn a_packet_sent_again_measures_nothing() {
    //= V-S5 test
    let mut half = Half::open(&config());
    let frame = accepted(&mut half, 20, 4);
    half.advance(ms(300));
    assert_eq!(half.tx().timeout(), ms(600));
    half.advance(ms(1));
    half.say(frame, &[Tag::SingleAck(0), Tag::SingleAck(1), Tag::Ack(3)]);
    assert_eq!((half.tx().round_trip(), half.tx().timeout()), (Some(ms(100)), ms(600)), "nor does it end the doubling");
    assert_eq!(half.tx().counters().timeouts_spurious, 2, "they came in less than a round trip");
    // NACKed packets neither.
    half.take();
    half.say(frame, &[Tag::Nack(5)]);
    half.advance(ms(1));
    half.say(frame, &[Tag::SingleAck(5)]);
    assert_eq!(half.tx().round_trip(), Some(ms(100)));
    half.say(frame, &[Tag::SingleAck(6)]);
    assert!(half.tx().round_trip() < Some(ms(100)), "packet 6 was sent once");
}

#[test]
fn a_train_is_no_longer_than_the_longest_run_that_may_be_lost() {
    let mut half = Half::open(&config());
    let terms = |run: u64| Terms { rate: Some(128), run_bytes: Some(run), critical: vec![], floor: None };
    for (run, most) in [(100, 1), (400, 4), (1000, 10), (u64::MAX, 64), (0, 64)] {
        let (frame, _) = half.begin(20_000, |spec| (spec.terms, spec.window) = (Some(terms(run)), Some(200)));
        half.say(frame, &[Tag::FrameOk(frame)]);
        let left = half.take_left();
        assert_eq!(left.len(), 200);
        for chunk in left.chunk_by(|a, b| a.train == b.train) {
            assert!(chunk.len() <= most, "{} packets in a train, {run} bytes may be lost", chunk.len());
        }
        assert!(left.chunk_by(|a, b| a.train == b.train).any(|chunk| chunk.len() == most));
        half.say(frame, &[Tag::Ack(199)]);
    }
}

#[test]
fn data_understand_ecn_and_links_that_take_single_datagrams_get_them() {
    for ecn in [true, false] {
        let mut half = Half::open(&Config { ecn, ..config() });
        half.limits = TrainLimits::SINGLE;
        let frame = accepted(&mut half, 20, 64);
        let left = half.take_left();
        let expected = if ecn { Ecn::Capable0 } else { Ecn::NotCapable };
        assert!(left.iter().all(|left| left.ecn == expected && number(&left.bytes) == frame));
        assert_eq!(left.iter().filter_map(|left| data(&left.bytes)).count(), 20);
        assert_eq!(left.chunk_by(|a, b| a.train == b.train).count(), 20);
    }
}

#[test]
fn a_frame_ends_when_everything_is_acknowledged() {
    //= V-S9 test
    let mut half = Half::open(&config());
    let frame = accepted(&mut half, 40, 64);
    half.say(frame, &[Tag::Ack(38)]);
    assert!(half.take_ends().is_empty());
    half.say(frame, &single_acks([39]));
    let expected = Sent { size: 4000, packet_bytes: 100, loss: None };
    assert_eq!(half.take_results(), [(0, Ok(expected))], "ack_expected is the first packet that is not acknowledged");
    assert_eq!(half.tx().counters().frames_sent, 1);
    // The same with a report.
    let frame = accepted(&mut half, 40, 64);
    half.feed(&crate::half::answer_and_report(frame, &[Tag::Ack(39)], &[&[]]));
    let loss = LossSummary { packets: 40, is_complete: true, ..LossSummary::default() };
    let [Event::Sent { result: Ok(sent), .. }] = &half.take_events()[..] else { panic!("it has ended") };
    assert_eq!(sent.loss, Some(loss));
}
