//! The path: PING and PONG, round trips and time-outs.

use crate::half::{Half, answer, config, is_header, ms, number, tags};
use pinnace_core::{ControllerKind, Time};
use pinnace_vrp::{Config, Event, Failure};
use pinnace_wire::vrp::Tag;

#[test]
fn a_ping_has_the_size_of_a_full_packet() {
    //= V-S3, V-S10 test
    for packet_bytes in [10, 11, 12, 13, 14, 100, 1466, 2048, 65_501] {
        let mut half = Half::new(&Config { packet_bytes, ..config() });
        half.call(|outgoing, now| outgoing.open(now));
        let left = half.take();
        assert_eq!(left.len(), 1);
        let ping = &left[0];
        assert_eq!(ping.len(), 6 + usize::from(packet_bytes));
        assert_eq!(ping[..7], [0x80, 0, 0, 0, 0, 0, 1], "frame 0, packet 0, PING");
        assert_eq!(ping[ping.len() - 1], 0);
        let [Tag::Ping(stamp)] = tags(ping)[..] else { panic!("{:?}", tags(ping)) };
        assert_eq!(stamp[..], ping[7..15]);
        assert!(u32::from_be_bytes(stamp[4..].try_into().unwrap()) < 1_000_000, "microseconds");
        if packet_bytes >= 13 {
            let padding = u16::to_be_bytes(packet_bytes - 13);
            assert_eq!(ping[15..18], [15, padding[0], padding[1]]);
            assert!(ping[18..].iter().all(|byte| *byte == 0));
        }
    }
}

#[test]
fn nothing_leaves_before_the_first_pong() {
    //= V-S3, V-S10 test
    let mut half = Half::new(&config());
    half.send(10);
    half.send(1000);
    let left = half.take();
    assert_eq!(left.len(), 1, "a send before connect connects");
    half.advance(ms(199));
    assert!(half.take().is_empty());
    half.pong(&left[0]);
    assert_eq!(half.take_events(), [Event::Opened(Ok(ms(199)))]);
    let left = half.take();
    assert_eq!(left.iter().filter(|d| is_header(d)).count(), 2);
    half.advance(ms(199));
    assert!(half.take().iter().all(|d| tags_of_ping(d).is_none()), "an answered PING is not repeated");
}

fn tags_of_ping(datagram: &[u8]) -> Option<[u8; 8]> {
    match pinnace_wire::vrp::Control::parse(datagram).ok()?.tags().next()? {
        Tag::Ping(stamp) => Some(stamp),
        _ => None,
    }
}

#[test]
fn who_keeps_alive_shows_that_it_is_there_where_nothing_else_leaves() {
    let mut half = Half::open_after(&Config { keep_alive: Some(ms(1000)), ..config() }, ms(20));
    let start = half.now;
    let times = |half: &mut Half, from: Time| -> Vec<u128> {
        let left = half.take_left();
        assert!(left.iter().all(|left| tags_of_ping(&left.bytes).is_some()));
        left.iter().map(|left| left.at.since(from).as_millis()).collect()
    };
    // Unanswered ones are repeated soon, and then at leisure.
    half.advance(ms(4500));
    assert_eq!(times(&mut half, start), [1000, 1060, 1180, 1420, 1900, 2860, 3860]);
    // An answer is enough for a while.
    half.advance(ms(360));
    let ping = half.take_left().pop().unwrap();
    half.pong(&ping.bytes);
    let answered = half.now;
    half.advance(ms(999));
    assert!(half.take_left().is_empty());
    // So is what leaves all the same.
    let (frame, _) = half.begin(10, |_| ());
    half.say(frame, &[Tag::FrameOk(frame), Tag::Ack(0)]);
    half.take_ends();
    half.advance(ms(900));
    let closing = half.take_left();
    assert!(closing.iter().all(|left| tags_of_ping(&left.bytes).is_none()) && !closing.is_empty());
    half.advance(ms(300));
    assert_eq!(times(&mut half, answered)[0], 999 + 100 + 1000, "a second after the FRAME_CLOSE");
    half.close();
    half.advance(ms(5000));
    assert!(half.take_left().iter().all(|left| tags_of_ping(&left.bytes).is_none()));
}

#[test]
fn a_ping_is_repeated_at_doubling_intervals_until_the_life_timeout() {
    //= V-S10, V-S11 test
    let mut half = Half::new(&config());
    let ticket = half.send(10);
    half.advance(ms(4999));
    let left = half.take_left();
    let times: Vec<_> = left.iter().map(|left| left.at.as_nanos() / 1_000_000).collect();
    assert_eq!(times, [0, 200, 600, 1400, 3000]);
    let mut stamps: Vec<_> = left.iter().map(|left| tags_of_ping(&left.bytes).unwrap()).collect();
    stamps.sort_unstable();
    stamps.dedup();
    assert_eq!(stamps.len(), 5, "no PING is like another");
    assert!(half.take_events().is_empty());
    half.advance(ms(1));
    assert_eq!(half.take_events()[0], Event::Opened(Err(Failure::PeerGone)));
    assert_eq!(half.next_at(), None);
    assert_eq!(half.tx().frames_under_way(), 0);
    // A PONG that comes now is nobody's.
    half.pong(&left[4].bytes);
    assert!(half.take().is_empty() && half.tx().round_trip().is_none());
    // The next send asks again.
    assert_eq!(half.send(10), ticket + 1);
    assert_eq!(half.take().len(), 1);
    assert!(half.next_at() > Some(half.now));
}

#[test]
fn a_ping_at_long_last_is_capped_at_two_seconds() {
    //= V-S10 test
    let mut half = Half::new(&Config { life_timeout: ms(20_000), ..config() });
    half.send(1);
    half.advance(ms(19_000));
    let times: Vec<_> = half.take_left().iter().map(|left| left.at.as_nanos() / 1_000_000).collect();
    assert_eq!(times, [0, 200, 600, 1400, 3000, 5000, 7000, 9000, 11_000, 13_000, 15_000, 17_000, 19_000]);
}

#[test]
fn every_ping_measures_for_itself() {
    //= V-S10 test
    let mut half = Half::new(&config());
    half.call(|outgoing, now| outgoing.open(now));
    half.advance(ms(700));
    let pings = half.take();
    assert_eq!(pings.len(), 3);
    half.pong(&pings[1]);
    assert_eq!(half.take_events(), [Event::Opened(Ok(ms(500)))], "sent at 200 ms");
    assert_eq!((half.tx().round_trip(), half.tx().timeout()), (Some(ms(500)), ms(1500)));
}

#[test]
fn only_a_pong_with_the_bytes_of_a_ping_counts() {
    //= V-S10 test
    let mut half = Half::new(&config());
    half.send(10);
    let ping = half.take().remove(0);
    let stamp = tags_of_ping(&ping).unwrap();
    for bit in 0..64 {
        let mut forged = stamp;
        forged[bit / 8] ^= 1 << (bit % 8);
        half.say(0, &[Tag::Pong(forged)]);
    }
    half.say(0, &[Tag::Ping(stamp)]);
    assert!(half.take().is_empty() && half.take_events().is_empty() && half.tx().round_trip().is_none());
    assert!(half.tx().counters().controls_stale >= 64);
    half.advance(ms(50));
    half.pong(&ping);
    assert_eq!(half.tx().round_trip(), Some(ms(50)));
    half.advance(ms(50));
    half.pong(&ping);
    assert_eq!(half.tx().round_trip(), Some(ms(50)), "a copy of a PONG measures nothing");
}

#[test]
fn the_timeout_follows_the_formula() {
    //= V-S10 test
    let mut half = Half::open_after(&config(), ms(80));
    assert_eq!((half.tx().round_trip(), half.tx().timeout()), (Some(ms(80)), ms(80 + 4 * 40)));
    let (frame, _) = half.begin(150, |spec| spec.terms = None);
    let (header_to_answer, _) = (half.now, ());
    half.advance(ms(20));
    half.say(frame, &[Tag::FrameOk(frame)]);
    assert_eq!(half.tx().round_trip(), Some(ms(80)), "an answer to a header measures nothing");
    assert!(half.now > header_to_answer);
    // D = 7/8 * 40 + 1/8 * |80 - 160| = 45, then RTT = 7/8 * 80 + 1/8 * 160 = 90.
    half.advance(ms(160));
    half.say(frame, &[Tag::SingleAck(0)]);
    assert_eq!((half.tx().round_trip(), half.tx().timeout()), (Some(ms(90)), ms(90 + 4 * 45)));
    half.say(frame, &[Tag::SingleAck(0)]);
    assert_eq!(half.tx().timeout(), ms(270), "an acknowledgement again measures nothing");
}

#[test]
fn a_cumulative_acknowledgement_measures_its_own_packet_only() {
    //= V-S10 test
    let mut half = Half::open_after(&config(), ms(80));
    let (frame, _) = half.begin(20_000, |spec| spec.window = Some(4));
    half.say(frame, &[Tag::FrameOk(frame)]);
    let before = half.now;
    half.advance(ms(40));
    half.say(frame, &[Tag::Ack(1)]);
    // Packet 1 only: RTT = 7/8 * 80 + 1/8 * 40.
    assert_eq!(half.tx().round_trip(), Some(ms(75)));
    assert_eq!(half.now, before + ms(40));
    // Packets 4 and 5 have left just now; of 2 and 3 packet 2 is acknowledged already, and 3 measures.
    half.say(frame, &[Tag::SingleAck(2)]);
    let smoothed = half.tx().round_trip();
    half.say(frame, &[Tag::Ack(2)]);
    assert_eq!(half.tx().round_trip(), smoothed, "what was acknowledged measures nothing");
}

#[test]
fn the_timeout_has_a_floor_and_a_cap() {
    //= V-S10 test
    let half = Half::open_after(&config(), core::time::Duration::from_micros(50));
    assert_eq!(half.tx().timeout(), ms(10));
    let half = Half::open_after(&Config { life_timeout: ms(9000), ..config() }, ms(4000 - 1000));
    assert_eq!(half.tx().timeout(), ms(2000));
    assert_eq!(half.tx().round_trip(), Some(ms(3000)));
}

#[test]
fn an_open_path_with_nothing_to_do_waits_for_nothing() {
    let mut half = Half::open(&config());
    assert_eq!(half.next_at(), None);
    half.feed(&answer(0, &[]));
    half.unreachable();
    assert!(half.take().is_empty() && half.next_at().is_none());
    assert_eq!(half.tx().counters().unreachable_reports, 1);
    let (frame, left) = half.begin(1, |_| ());
    assert_eq!(number(&left[0]), frame);
    assert!(half.now > Time::ZERO);
}

#[test]
fn packets_larger_than_those_of_the_endpoint_are_not_paced_to_death() {
    //= V-S11, V-S12 test
    for congestion in [ControllerKind::Cubic, ControllerKind::Bbr] {
        let mut half = Half::open(&Config { packet_bytes: 20, congestion, ..config() });
        let (frame, _) = half.begin(90_000, |spec| spec.packet_bytes = Some(9_000));
        half.say(frame, &[Tag::FrameOk(frame)]);
        half.advance(ms(100));
        half.say(frame, &[Tag::Ack(0)]);
        // What follows is lost, and a controller of packets of 20 bytes has a window of 52 then. At its pace the next of 9,000
        // would wait for longer than the life time-out.
        half.advance(ms(350));
        let start = half.now;
        let mut acked = 1;
        while acked < 10 {
            half.advance(ms(100));
            let packets = half.take_packets();
            if let Some(last) = packets.last() {
                acked = last + 1;
                half.say(frame, &[Tag::Ack(*last)]);
            }
            assert!(half.now.since(start) < ms(4_000), "{congestion}: {acked} after {:?}", half.now.since(start));
        }
        assert_eq!(half.take_ends(), [(0, Ok(()))]);
    }
}
