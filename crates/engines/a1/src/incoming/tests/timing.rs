//! When ACK and NACK are due.

use super::*;

const RTT: Option<Duration> = Some(Duration::from_millis(3));

/// A window of 64, and blocks of one message, so that no block but the last is special.
fn long(window: u64) -> Half {
    Half::new(Policy { window, max_message: 1 << 20, ..policy(true) })
}

/// The same behind its beginning: 64 messages of one block have been read and acknowledged. What follows has these numbers
/// of block and message.
fn steady(window: u64, reliable: bool) -> Half {
    let mut half = Half::new(Policy { window, max_message: 1 << 20, ..policy(reliable) });
    for number in 0..BEHIND {
        half.new_block(&single(number));
        half.incoming.consume(BLOCK);
        half.ack();
    }
    half
}

const BEHIND: u64 = 64;
const MESSAGE: u32 = 64;

/// Due as soon as the application has consumed what there is, or 20 us after now.
fn soon(half: &Half) -> Due {
    Due::At(half.now + Duration::from_micros(20))
}

const LONG: u32 = 1000 * BLOCK;

#[test]
fn an_ack_is_due_after_16_blocks_or_a_quarter_of_the_window() {
    for (window, count) in [(1000, 16), (64, 16), (63, 15), (32, 8), (4, 1), (2, 1)] {
        let mut half = steady(window, true);
        for round in 0..3 {
            for index in 0..count {
                assert_ne!(half.ack_due(), Due::Now, "window {window}, block {index}");
                half.blocks(BEHIND, MESSAGE, LONG, [(round * count + index) as u16]);
            }
            assert_eq!(half.ack_due(), soon(&half), "the application may consume first");
            let bytes = half.incoming.readable().unwrap().len();
            half.incoming.consume(bytes);
            half.now += Duration::from_micros(20);
            assert_eq!(half.ack_due(), Due::Now);
            half.ack();
        }
    }
}

/// The sender may have no more under way than a few, and has no END to hurry the ACK: a long message begins.
#[test]
fn an_ack_is_due_after_two_blocks_in_the_beginning_and_after_a_rest() {
    let mut half = long(1000);
    half.now = at(3);
    let mut next = 0;
    for rest in [0, 499, 500] {
        half.now += Duration::from_millis(rest);
        for pair in 0..40 {
            let later = Due::At(half.now + Duration::from_millis(10));
            half.blocks(0, 0, LONG, [next]);
            assert_eq!(half.ack_due(), later, "block {next}");
            half.blocks(0, 0, LONG, [next + 1]);
            let is_early = rest != 499 && pair < 31;
            assert_eq!(half.ack_due(), if is_early { soon(&half) } else { later }, "rest {rest}, block {next}");
            half.ack();
            next += 2;
        }
    }
}

/// What has stopped without being complete waits for the ACK, or is slow.
#[test]
fn an_ack_is_due_when_blocks_have_stopped_coming() {
    let due = |half: &Half, micros| half.incoming.ack_due(half.now, Some(Duration::from_micros(micros)));
    let mut half = steady(1000, true);
    let after = |half: &Half, micros| Due::At(half.now + Duration::from_micros(micros));
    half.blocks(BEHIND, MESSAGE, LONG, 0..7);
    assert_eq!(due(&half, 20_000), after(&half, 5000), "a quarter of the round trip");
    assert_eq!(due(&half, 100), after(&half, 1000), "threads hesitate, too");
    assert_eq!(due(&half, 200_000), after(&half, 10_000), "never later than without it");
    // Every block puts it off, so a stream that goes on has no more ACKs than without it; but not beyond the 10 ms.
    let first = half.now;
    for index in 7..11 {
        half.now += Duration::from_millis(2);
        assert_ne!(due(&half, 20_000), Due::Now);
        half.blocks(BEHIND, MESSAGE, LONG, [index]);
    }
    assert_eq!(due(&half, 20_000), Due::At(first + Duration::from_millis(10)));
    half.ack();
    assert_eq!(due(&half, 20_000), Due::No);
}

#[test]
fn an_ack_is_due_10_ms_after_the_first_unreported_block() {
    let mut half = steady(64, true);
    assert_eq!(half.ack_due(), Due::No);
    half.now = at(5);
    half.blocks(BEHIND, MESSAGE, LONG, 0..1);
    half.now = at(9);
    half.blocks(BEHIND, MESSAGE, LONG, 1..2);
    assert_eq!(half.ack_due(), Due::At(at(15)));
    half.now = at(15);
    assert_eq!(half.ack_due(), Due::Now);
    assert_eq!(half.ack(), (BEHIND + 2, BEHIND + 64, vec![]));
    assert_eq!(half.ack_due(), Due::No);
}

#[test]
fn an_ack_is_due_at_once_at_the_end_of_a_message() {
    let mut half = steady(64, true);
    half.blocks(BEHIND, MESSAGE, 300, 0..2);
    assert_eq!(half.ack_due(), Due::At(at(10)));
    half.blocks(BEHIND, MESSAGE, 300, 2..3);
    assert_eq!(half.ack_due(), soon(&half));
    half.now += Duration::from_micros(20);
    assert_eq!(half.ack_due(), Due::Now, "it is not waited for longer");
}

//= A-9 test
#[test]
fn an_ack_waits_a_moment_for_the_edge_that_consuming_moves() {
    let mut half = long(64);
    half.blocks(0, 0, 300, 0..3);
    half.incoming.consume(250);
    assert_eq!(half.ack_due(), soon(&half), "the application has not taken all");
    half.incoming.consume(50);
    assert_eq!(half.ack_due(), soon(&half), "it may answer");
    half.incoming.on_answered();
    assert_eq!(half.ack_due(), Due::Now, "behind the answer");
    assert_eq!(half.ack().1, 67);
    half.incoming.on_answered();
    assert_eq!(half.ack_due(), Due::No, "there is nothing to say");
    // A sender that has used more than half of its window is not kept waiting.
    half.blocks(3, 1, 4000, 0..40);
    half.incoming.consume(4000);
    assert_eq!(half.ack_due(), Due::Now);
}

#[test]
fn an_ack_is_due_at_once_for_what_is_odd() {
    let due_after = |arrivals: &[Arrival], fate| {
        let mut half = long(64);
        half.blocks(0, 0, LONG, 0..3);
        let (last, first) = arrivals.split_last().unwrap();
        first.iter().for_each(|arrival| assert_eq!(half.fate(arrival), Fate::New));
        half.ack();
        assert_eq!((half.ack_due(), half.fate(last)), (Due::No, fate));
        half.ack_due()
    };
    let plain = block(0, 0, LONG, 3);
    let ahead = block(0, 0, LONG, 5);
    assert_eq!(due_after(&[plain], Fate::New), Due::At(at(10)));
    assert_eq!(due_after(&[block(0, 0, LONG, 1)], Fate::Duplicate), Due::Now);
    assert_eq!(due_after(&[Arrival { is_repetition: true, ..plain }], Fate::New), Due::Now);
    assert_eq!(due_after(&[ahead], Fate::New), Due::Now, "out of order");
    assert_eq!(due_after(&[ahead, plain], Fate::New), Due::Now, "fills a gap");
    assert_eq!(due_after(&[ahead, block(0, 0, LONG, 6)], Fate::New), Due::At(at(10)), "behind the newest");
    assert_eq!(due_after(&[block(0, 0, LONG, 64)], Fate::Beyond), Due::Now);
    assert_eq!(due_after(&[block(0, 1, LONG, 3)], Fate::Contradiction), Due::No, "no answer to lies");
}

//= A-9 test
#[test]
fn an_ack_is_due_when_consuming_opens_a_window_of_which_less_than_half_is_left() {
    let mut half = long(64);
    half.blocks(0, 0, LONG, 0..32);
    half.ack();
    half.incoming.consume(BLOCK);
    assert_eq!(half.ack_due(), Due::No, "half is left");
    half.blocks(0, 0, LONG, 32..33);
    half.ack();
    assert_eq!(half.ack_due(), Due::No, "the edge was told");
    half.incoming.consume(BLOCK);
    assert_eq!(half.ack_due(), Due::No, "half was left again");
    half.blocks(0, 0, LONG, 33..34);
    assert_eq!(half.ack_due(), Due::Now, "less than half of what was told");
    assert_eq!(half.ack().1, 66);
    half.blocks(0, 0, LONG, 34..64);
    half.ack();
    half.incoming.consume(BLOCK - 1);
    assert_eq!(half.ack_due(), Due::No, "no block was consumed");
    half.incoming.consume(1);
    assert_eq!(half.ack_due(), Due::Now);
    assert_eq!(half.ack().1, 67);
    half.incoming.consume(BLOCK);
    assert_eq!(half.incoming.tell_edge(), 68);
    assert_eq!(half.ack_due(), Due::No, "another datagram has told it");
    half.incoming.consume(31 * BLOCK);
    assert_eq!(half.incoming.say_edge(), 99);
    assert_eq!(half.ack_due(), Due::Now, "that datagram may be lost");
}

//= A-21 test
#[test]
fn raw_acks_are_due_as_reliable_ones_and_have_no_ranges() {
    let mut half = steady(64, false);
    half.blocks(BEHIND, MESSAGE, LONG, 0..15);
    assert_eq!(half.ack_due(), Due::At(at(10)));
    half.blocks(BEHIND, MESSAGE, LONG, 15..16);
    assert_eq!(half.ack_due(), soon(&half));
    half.now += Duration::from_micros(20);
    assert_eq!(half.ack_due(), Due::Now);
    assert_eq!(half.ack(), (BEHIND + 16, BEHIND + 64, vec![]));
    half.blocks(BEHIND, MESSAGE, LONG, [18]);
    assert_eq!(half.ack_due(), Due::Now, "out of order");
    assert_eq!(half.ack(), (BEHIND + 19, BEHIND + 64, vec![]));
    assert_eq!(half.fate(&block(BEHIND, MESSAGE, LONG, 17)), Fate::Duplicate);
    assert_eq!(half.ack_due(), Due::Now, "too late");
    assert_eq!(half.incoming.nack_due(half.now, RTT), Due::No);
}

//= A-7 test
#[test]
fn a_nack_is_due_at_once_and_again_after_a_round_trip() {
    let mut half = long(64);
    assert_eq!(half.incoming.nack_due(half.now, RTT), Due::No);
    assert!(half.new_block(&block(0, 0, LONG, 2)).is_gap);
    assert!(!half.new_block(&block(0, 0, LONG, 3)).is_gap);
    assert_eq!(half.incoming.nack_due(half.now, RTT), Due::Now);
    assert_eq!(half.nack(RTT, 9), [(0, 2)]);
    assert_eq!(half.incoming.nack_due(half.now, RTT), Due::At(at(3)));
    assert_eq!(half.incoming.nack_due(half.now, None), Due::At(at(20)), "before the first sample");
    assert_eq!(half.nack(RTT, 9), []);
    half.now = at(2);
    assert!(half.new_block(&block(0, 0, LONG, 5)).is_gap);
    assert_eq!(half.nack(RTT, 9), [(4, 5)], "only the new gap");
    half.now = at(3);
    assert!(!half.new_block(&block(0, 0, LONG, 1)).is_gap);
    assert_eq!(half.nack(RTT, 9), [(0, 1)], "only what is still missing");
    assert_eq!(half.incoming.nack_due(half.now, RTT), Due::At(at(5)));
    half.now = at(7);
    assert_eq!(half.nack(RTT, 9), [(0, 1), (4, 5)], "rising, whichever is older");
    half.blocks(0, 0, LONG, [0, 4]);
    assert_eq!(half.incoming.nack_due(half.now, RTT), Due::No, "all there");
}

//= A-7 test
#[test]
fn a_nack_that_is_too_long_goes_on_in_the_next() {
    let mut half = long(64);
    half.blocks(0, 0, LONG, (1..20).step_by(2));
    for now in [at(0), at(3)] {
        half.now = now;
        assert_eq!(half.nack(RTT, 4), [(0, 1), (2, 3), (4, 5), (6, 7)]);
        assert_eq!(half.incoming.nack_due(now, RTT), Due::Now);
        assert_eq!(half.nack(RTT, 4), [(8, 9), (10, 11), (12, 13), (14, 15)]);
        assert_eq!(half.nack(RTT, 4), [(16, 17), (18, 19)]);
        assert_eq!(half.incoming.nack_due(now, RTT), Due::At(now + RTT.unwrap()));
    }
    // A gap in which blocks have come is several ranges.
    let mut half = long(64);
    half.blocks(0, 0, LONG, [20]);
    half.blocks(0, 0, LONG, (1..20).step_by(3));
    assert_eq!(half.nack(RTT, 2), [(0, 1), (2, 4)]);
    assert_eq!(half.nack(RTT, 9), [(5, 7), (8, 10), (11, 13), (14, 16), (17, 19)]);
}

#[test]
fn a_round_trip_of_no_time_does_not_ask_without_end() {
    let mut half = long(64);
    half.blocks(0, 0, LONG, [4]);
    let rtt = Some(Duration::ZERO);
    assert_eq!(half.nack(rtt, 9), [(0, 4)]);
    assert!(matches!(half.incoming.nack_due(half.now, rtt), Due::At(time) if time > half.now));
}

//= A-7 test
#[test]
fn what_is_missing_below_a_sync_is_asked_for() {
    let mut half = long(64);
    half.blocks(0, 0, LONG, 0..3);
    assert_eq!(half.incoming.on_sync(3), Synced::Missing(0));
    assert_eq!(half.incoming.on_sync(2), Synced::Missing(0), "an old one");
    assert_eq!(half.incoming.on_sync(5), Synced::Missing(2));
    assert_eq!(half.nack(RTT, 9), [(3, 5)]);
    assert_eq!(half.incoming.on_sync(65), Synced::Contradiction);
    assert_eq!(half.incoming.on_sync(6), Synced::Missing(1));
    assert_eq!(half.nack(RTT, 9), [(5, 6)]);
    assert_eq!(half.incoming.on_sync(64), Synced::Missing(58));
    half.blocks(0, 0, LONG, 3..64);
    assert_eq!(half.nack(RTT, 9), [], "all of it came meanwhile");
    assert_eq!(half.incoming.nack_due(half.now, RTT), Due::No);
}
