//! the rate of the bodies, over every interval.

use super::*;
use proptest::prelude::*;

/// Sends with a driver that wakes up exactly then, until `end`; answers nothing. What left, and when.
fn drive(outgoing: &mut Outgoing, mut now: Time, end: Time) -> Vec<(Time, u64)> {
    let mut sent = Vec::new();
    while now < end {
        match outgoing.next(now) {
            Next::Block(block) => {
                outgoing.on_sent(now, &block);
                sent.push((now, u64::from(block.place.len)));
            }
            Next::At(later) => {
                assert!(later > now);
                now = later;
            }
            Next::Nothing => break,
        }
        if outgoing.sent() == outgoing.acked() + 32 {
            let sent = outgoing.sent();
            outgoing.on_ack(now, sent, &[], sent + 64);
            while outgoing.poll_done().is_some() {}
        }
        while outgoing.queue(&message(0, 16_000)).is_ok() {}
    }
    sent
}

/// In every interval that begins and ends with a block at most `burst + average * t` bytes leave.
pub(super) fn check_bound(sent: &[(Time, u64)], average: u64, burst: u64) {
    for (first, (begin, _)) in sent.iter().enumerate() {
        let mut total = 0_u128;
        for (at, len) in &sent[first..] {
            total += u128::from(*len);
            let earned = u128::from(average) * at.since(*begin).as_nanos();
            assert!(total * 1_000_000_000 <= u128::from(burst) * 1_000_000_000 + earned);
        }
    }
}

//= A-11 test
#[test]
fn the_average_of_a_second_is_kept_from_slow_to_fast() {
    for average in [125_000_u64, 1_250_000, 12_500_000, 125_000_000] {
        for burst in [1, 65_536] {
            let mut outgoing = outgoing(Terms { average, burst, ..terms() });
            outgoing.queue(&message(0, 16_000)).unwrap();
            // The full bucket of the start is not part of the average.
            let begin = at(600);
            drive(&mut outgoing, at(0), begin);
            let sent: u64 = drive(&mut outgoing, begin, begin + MS * 1_000).iter().map(|(_, len)| len).sum();
            let error = sent.abs_diff(average) as f64 / average as f64;
            assert!(error < 0.01, "{sent} bytes of {average}");
        }
    }
}

//= A-11 test
#[test]
fn a_burst_below_a_block_is_one_block() {
    let mut outgoing = outgoing(Terms { average: 1_000_000, burst: 1, ..terms() });
    outgoing.queue(&message(0, 3_500)).unwrap();
    assert_eq!(send(&mut outgoing, at(0)).len(), 1);
    assert!(outgoing.is_rate_exceeded(at(0)));
    assert_eq!(outgoing.next(at(0)), Next::At(at(1)));
    assert_eq!((send(&mut outgoing, at(1)).len(), send(&mut outgoing, at(2)).len()), (1, 1));
    assert_eq!(outgoing.next(at(2)), Next::At(at(2) + MS / 2), "half a block takes half as long");
    assert!(!outgoing.is_rate_exceeded(at(3)));
}

//= A-11 test
#[test]
fn zero_is_no_limit() {
    let mut outgoing = outgoing(Terms { average: 0, burst: 1, ..terms() });
    outgoing.queue(&message(0, 16_000)).unwrap();
    assert_eq!(send(&mut outgoing, at(0)).len(), 16);
    assert!(!outgoing.is_rate_exceeded(at(0)));
}

//= A-11 test
#[test]
fn the_smaller_of_two_limits_knows_that_zero_is_none() {
    let of = |average, burst| Terms { average, burst, ..terms() };
    assert_eq!(of(0, 0).smaller(&of(5, 7)), of(5, 7));
    assert_eq!(of(5, 7).smaller(&of(0, 1)), of(5, 7));
    assert_eq!(of(5, 7).smaller(&of(6, 2)), of(5, 2));
    assert_eq!(of(0, 3).smaller(&of(0, 9)).average, 0);
}

//= A-4 test
//= A-11 test
#[test]
fn repetitions_count_and_wait_before_new_blocks() {
    let mut outgoing = outgoing(Terms { average: 1_000_000, burst: 2_000, ..terms() });
    outgoing.queue(&message(0, 8_000)).unwrap();
    assert_eq!(numbers(&send(&mut outgoing, at(0))), [0, 1]);
    assert_eq!(numbers(&send(&mut outgoing, at(30))), [2, 3]);
    outgoing.on_nack(at(30), &[(0, 1)]);
    assert_eq!((outgoing.next(at(30)), outgoing.is_rate_exceeded(at(30))), (Next::At(at(31)), true));
    assert_eq!(numbers(&send(&mut outgoing, at(31))), [0]);
    assert_eq!(outgoing.next(at(31)), Next::At(at(32)));
    assert_eq!(numbers(&send(&mut outgoing, at(280))), [4, 5]);
    // The time-out breaks through congestion, never through the rate.
    assert_eq!(outgoing.expire(at(280)), Expired::Repeat);
    assert_eq!((outgoing.next(at(280)), outgoing.expires_at()), (Next::At(at(281)), None));
    assert_eq!(numbers(&send(&mut outgoing, at(281))), [0]);
    assert_eq!(outgoing.expires_at(), Some(at(281 + 500)), "the time-out runs from when it left");
}

/// Sends for `millis` over a path that takes 40 ms there and back, and whose end answers every 5 ms. Bytes that left in the last
/// half of them, and the window.
fn over_a_path(terms: Terms, millis: u64) -> (u64, u64) {
    let congestion = ControllerKind::Cubic;
    let mut outgoing =
        Outgoing::new(&Opening { edge: 10_000, congestion, ..opening(Terms { window: 9_000, ..terms }) });
    outgoing.on_round_trip(MS * 40, MS * 40, Timing { rtt: MS * 40, rto: MS * 120 });
    let mut sent = vec![0];
    for now in 0..millis {
        while outgoing.queue(&message(0, 16_000)).is_ok() {}
        if now >= 40 && now % 5 == 0 {
            outgoing.on_round_trip(MS * 40, MS * 40, Timing { rtt: MS * 40, rto: MS * 120 });
            outgoing.on_ack(at(now), sent[now as usize - 40], &[], sent[now as usize - 40] + 10_000);
            while outgoing.poll_done().is_some() {}
        }
        send(&mut outgoing, at(now));
        sent.push(outgoing.sent());
    }
    let window = outgoing.active.as_deref().expect("it has sent").path.congestion.window();
    ((outgoing.sent() - sent[millis as usize / 2]) * u64::from(BLOCK), window)
}

//= A-11 test
#[test]
fn whoever_waits_for_its_turn_block_by_block_uses_the_window_all_the_same() {
    for burst in [1, 20_000] {
        let (bytes, window) = over_a_path(Terms { average: 1_000_000, burst, ..terms() }, 4_000);
        assert!(bytes >= 1_950_000, "burst {burst}: {bytes} bytes in 2 s at 1 MB/s");
        // Where it is the rate that limits, the window grows no further.
        assert!(window < 200_000, "burst {burst}: a window of {window} bytes where 40,000 are under way");
    }
}

proptest! {
    //= A-11 test
    #[test]
    fn every_interval_keeps_burst_and_average(
        average in 50_000_u64..200_000_000,
        burst in 1_u64..20_000,
        steps in prop::collection::vec((0_u64..3_000_000, 0_u64..16_001, any::<u8>()), 1..60),
    ) {
        let window = 10_000;
        let terms = Terms { average, burst, window, outstanding: window, ..terms() };
        let mut outgoing = Outgoing::new(&Opening { edge: window, ..opening(terms) });
        outgoing.on_round_trip(MS, MS, Timing { rtt: MS, rto: MS * 3 });
        let mut now = Time::ZERO;
        let mut sent = Vec::new();
        for (ticket, (nanos, len, dice)) in steps.into_iter().enumerate() {
            outgoing.queue(&message(ticket as u64, len)).unwrap();
            now += Duration::from_nanos(nanos);
            if dice < 80 && outgoing.sent() > 0 {
                outgoing.on_nack(now, &[(outgoing.sent() * u64::from(dice) / 100, outgoing.sent())]);
            }
            outgoing.expire(now);
            while sent.len() < 600
                && let Next::Block(block) = outgoing.next(now)
            {
                outgoing.on_sent(now, &block);
                sent.push((now, u64::from(block.place.len)));
            }
            if let Next::At(later) = outgoing.next(now)
                && dice.is_multiple_of(2)
            {
                let early = Time::from_nanos(later.as_nanos() - 1);
                prop_assert!(matches!(outgoing.next(early), Next::At(_)), "not a nanosecond early");
                now = later;
            }
        }
        check_bound(&sent, average, burst.max(u64::from(BLOCK)));
    }

    //= A-11 test
    //= A-12 test
    #[test]
    fn every_interval_keeps_what_was_in_force_then(
        steps in prop::collection::vec((0_u64..3_000_000, 0_usize..8, any::<u8>()), 1..80),
        records in prop::collection::vec((50_000_u64..50_000_000, 1_u64..20_000), 1..12),
    ) {
        let window = 10_000;
        let of = |(average, burst)| Terms { average, burst, window, outstanding: window, ..terms() };
        let mut now = Time::ZERO;
        let mut outgoing = Outgoing::new(&Opening { edge: window, ..opening(of(records[0])) });
        let mut records = records[1..].iter();
        // Moment, bytes, and the record in force from then on.
        let mut log = vec![(now, 0, *outgoing.terms())];
        for (ticket, (nanos, most, dice)) in steps.into_iter().enumerate() {
            now += Duration::from_nanos(nanos);
            outgoing.queue(&message(ticket as u64, 12_000)).unwrap();
            if dice < 90 && let Some(record) = records.next() {
                if dice < 30 {
                    outgoing.propose_terms(now, &of(*record));
                } else {
                    outgoing.set_terms(now, outgoing.sent() + u64::from(dice % 5), &of(*record));
                }
                log.push((now, 0, *outgoing.terms()));
            }
            for _ in 0..most {
                match outgoing.next(now) {
                    Next::Block(block) => {
                        outgoing.on_sent(now, &block);
                        log.push((now, u64::from(block.place.len), *outgoing.terms()));
                    }
                    Next::At(later) => now = later,
                    Next::Nothing => break,
                }
            }
        }
        for first in 1..log.len() {
            let burst = log[first - 1].2.burst.max(u64::from(BLOCK));
            let (mut total, mut earned) = (0_u128, u128::from(burst) * 1_000_000_000);
            for index in first..log.len() {
                let (at, len, _) = log[index];
                if index > first {
                    let (before, _, terms) = log[index - 1];
                    earned += u128::from(terms.average) * at.since(before).as_nanos();
                }
                total += u128::from(len) * 1_000_000_000;
                prop_assert!(total <= earned, "from {first} to {index}");
            }
        }
    }
}
