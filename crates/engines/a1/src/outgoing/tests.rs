//! The rules of 1.1 one by one, in virtual time. `tests/rate.rs`: A-11. `tests/honest.rs`: whole transfers over a bad
//! network. `tests/forged.rs`: what a peer may say, against a list of blocks.

mod forged;
mod honest;
mod rate;

use super::blocks::MAX_RANGES;
use super::*;
use pinnace_core::BufferId;

const BLOCK: u32 = 1_000;
const MS: Duration = Duration::from_millis(1);

/// Reliable, 64 blocks, no limit of rate.
fn terms() -> Terms {
    let (average, burst) = (0, 0);
    Terms { block_bytes: BLOCK, reliable: true, window: 64, max_message: 16_000, outstanding: 8, average, burst }
}

fn raw() -> Terms {
    Terms { reliable: false, ..terms() }
}

fn opening(terms: Terms) -> Opening {
    let congestion = ControllerKind::Fixed { window: u64::MAX };
    Opening { terms, edge: 64, message: 0, overhead: 32, congestion }
}

fn outgoing(terms: Terms) -> Outgoing {
    Outgoing::new(&opening(terms))
}

fn message(ticket: u64, len: u64) -> Message {
    Message { ticket, buffer: BufferId::new(ticket as u32), offset: 100, len, deadline: None }
}

fn at(millis: u64) -> Time {
    Time::ZERO + MS * millis as u32
}

/// Lets leave whatever may.
fn send(outgoing: &mut Outgoing, now: Time) -> Vec<Block> {
    send_at_most(outgoing, now, usize::MAX)
}

fn send_at_most(outgoing: &mut Outgoing, now: Time, most: usize) -> Vec<Block> {
    let mut blocks = Vec::new();
    while blocks.len() < most
        && let Next::Block(block) = outgoing.next(now)
    {
        outgoing.on_sent(now, &block);
        blocks.push(block);
    }
    if let Some(active) = outgoing.active.as_deref() {
        active.blocks.check();
    }
    blocks
}

fn numbers(blocks: &[Block]) -> Vec<u64> {
    blocks.iter().map(|block| block.number).collect()
}

fn done(outgoing: &mut Outgoing) -> Vec<(u64, bool)> {
    core::iter::from_fn(|| outgoing.poll_done()).map(|done| (done.ticket, done.delivered)).collect()
}

//= A-6 test
//= A-20 test
#[test]
fn a_message_is_cut_into_blocks_that_are_numbered_on() {
    let mut outgoing = outgoing(terms());
    for (ticket, len) in [(7, 2_500), (8, 0), (9, 1_000)] {
        outgoing.queue(&message(ticket, len)).unwrap();
    }
    assert_eq!(outgoing.queued_blocks(), 5);
    let blocks = send(&mut outgoing, at(0));
    let facts: Vec<_> = blocks
        .iter()
        .map(|block| (block.number, block.message, (block.index, block.count), block.place, (block.starts, block.ends)))
        .collect();
    let place = |buffer, offset, len| pinnace_core::BufferRange::new(BufferId::new(buffer), offset, len);
    assert_eq!(
        facts,
        [
            (0, 0, (0, 3), place(7, 100, 1_000), (true, false)),
            (1, 0, (1, 3), place(7, 1_100, 1_000), (false, false)),
            (2, 0, (2, 3), place(7, 2_100, 500), (false, true)),
            (3, 1, (0, 1), place(8, 100, 0), (true, true)),
            (4, 2, (0, 1), place(9, 100, 1_000), (true, true)),
        ]
    );
    assert!(blocks.iter().all(|block| !block.is_repetition));
    assert_eq!((outgoing.sent(), outgoing.queued_blocks(), outgoing.in_flight()), (5, 0, 3_500 + 5 * 32));
    assert_eq!(done(&mut outgoing), []);
    assert_eq!(outgoing.on_ack(at(1), 4, &[], 64).newly, 4);
    assert_eq!(done(&mut outgoing), [(7, true), (8, true)]);
    assert!(!outgoing.is_flushed());
    outgoing.on_ack(at(1), 5, &[], 64);
    assert_eq!(done(&mut outgoing), [(9, true)]);
    assert!(outgoing.is_flushed() && outgoing.is_quiet());
}

#[test]
fn message_numbers_go_round() {
    let mut outgoing = Outgoing::new(&Opening { message: u32::MAX, ..opening(terms()) });
    for ticket in 0..3 {
        outgoing.queue(&message(ticket, 10)).unwrap();
    }
    let sent: Vec<u32> = send(&mut outgoing, at(0)).iter().map(|block| block.message).collect();
    assert_eq!(sent, [u32::MAX, 0, 1]);
    outgoing.on_nack(at(100), &[(0, 3)]);
    let again = send(&mut outgoing, at(100));
    assert_eq!(again.iter().map(|block| block.place.buffer.index()).collect::<Vec<_>>(), [0, 1, 2]);
}

//= A-10 test
#[test]
fn what_is_too_long_is_refused() {
    let mut outgoing = outgoing(terms());
    assert_eq!(outgoing.queue(&message(0, 16_001)), Err(Refused::TooLarge));
    assert_eq!(outgoing.queue(&message(0, 16_000)), Ok(()));
    let mut small = Outgoing::new(&opening(Terms { block_bytes: 1, max_message: 1 << 20, ..terms() }));
    assert_eq!(small.queue(&message(0, 65_536)), Err(Refused::TooManyBlocks));
    assert_eq!(small.queue(&message(0, 65_535)), Ok(()));
    assert_eq!(small.queued_blocks(), 65_535);
}

//= A-10 test
#[test]
fn the_window_is_the_smaller_of_both_ends() {
    assert_eq!(Terms::window_of(16_000, 1_000, 4), 64);
    assert_eq!(Terms::window_of(16_001, 1_000, 4), 68);
    assert_eq!(Terms::window_of(0, 1_000, 4), 0);
    assert_eq!(Terms::window_of(u32::MAX, 1, u32::MAX), u64::from(u32::MAX) * u64::from(u32::MAX));
    let mut own = outgoing(Terms { window: 5, ..terms() });
    own.queue(&message(0, 8_000)).unwrap();
    assert_eq!(numbers(&send(&mut own, at(0))), [0, 1, 2, 3, 4]);
    assert!(own.waits_for_window());
    own.on_ack(at(1), 2, &[(3, 5)], 64);
    assert_eq!(numbers(&send(&mut own, at(1))), [5, 6], "what has arrived out of order still counts");

    let mut peer = Outgoing::new(&Opening { edge: 3, ..opening(terms()) });
    peer.queue(&message(0, 8_000)).unwrap();
    assert_eq!(numbers(&send(&mut peer, at(0))), [0, 1, 2]);
    peer.on_ack(at(1), 3, &[], 3);
    assert_eq!((peer.next(at(1)), peer.waits_for_window()), (Next::Nothing, true), "arrived, but not consumed");
    peer.on_ack(at(1), 3, &[], 5);
    peer.on_ack(at(1), 3, &[], 4);
    assert_eq!(peer.edge(), 5, "it never goes back");
    assert_eq!(numbers(&send(&mut peer, at(1))), [3, 4]);
}

//= A-16 test
//= A-22 test
#[test]
fn a_full_window_is_said_and_nothing_buffered() {
    let mut outgoing = Outgoing::new(&Opening { edge: 3, ..opening(Terms { outstanding: 2, ..terms() }) });
    outgoing.queue(&message(0, 2_000)).unwrap();
    assert!(!outgoing.is_full());
    outgoing.queue(&message(1, 2_000)).unwrap();
    assert_eq!((outgoing.is_full(), outgoing.queue(&message(2, 10))), (true, Err(Refused::Full)), "two outstanding");
    send(&mut outgoing, at(0));
    outgoing.on_ack(at(1), 3, &[], 3);
    assert_eq!(done(&mut outgoing), [(0, true)]);
    assert!(outgoing.is_full(), "one outstanding, but not even its last block may leave");
    assert!(outgoing.needs_sync());
    outgoing.on_ack(at(1), 3, &[], 4);
    assert!(outgoing.is_full(), "that block fills it");
    outgoing.on_ack(at(1), 3, &[], 5);
    assert!(!outgoing.is_full());
    send(&mut outgoing, at(1));
    outgoing.on_ack(at(1), 4, &[], 4);
    assert!(!outgoing.needs_sync());
    outgoing.queue(&message(3, 1_000)).unwrap();
    send(&mut outgoing, at(2));
    outgoing.on_ack(at(2), 5, &[], 5);
    assert!(outgoing.is_quiet() && outgoing.is_full() && outgoing.needs_sync(), "the opening may be lost");
    outgoing.on_ack(at(3), 5, &[], 6);
    assert!(!outgoing.needs_sync());
}

//= A-4 test
//= A-5 test
#[test]
fn what_a_nack_names_goes_before_everything_queued() {
    let window = 4_000;
    let mut outgoing =
        Outgoing::new(&Opening { edge: window, ..opening(Terms { window, outstanding: window, ..terms() }) });
    for ticket in 0..2_000 {
        outgoing.queue(&message(ticket, 1_000)).unwrap();
    }
    send_at_most(&mut outgoing, at(0), 500);
    assert_eq!(outgoing.on_nack(at(30), &[(400, 402), (17, 18)]).newly, 3);
    assert!(outgoing.has_repairs());
    let blocks = send_at_most(&mut outgoing, at(30), 5);
    assert_eq!(numbers(&blocks), [17, 400, 401, 500, 501]);
    assert_eq!(blocks.iter().map(|block| block.is_repetition).collect::<Vec<_>>(), [true, true, true, false, false]);
    assert_eq!(blocks[1].place.buffer.index(), 400);
    assert!(!outgoing.has_repairs());
}

//= A-7 test
#[test]
fn only_what_is_missing_is_repeated_and_not_twice_within_a_round_trip() {
    let mut outgoing = outgoing(terms());
    outgoing.on_round_trip(MS * 10, MS * 10, Timing { rtt: MS * 10, rto: MS * 30 });
    outgoing.queue(&message(0, 10_000)).unwrap();
    send(&mut outgoing, at(0));
    assert_eq!(outgoing.on_nack(at(9), &[(1, 3)]).newly, 0, "it cannot know yet");
    outgoing.on_ack(at(10), 1, &[(2, 4)], 64);
    assert_eq!(outgoing.on_nack(at(10), &[(0, 6)]).newly, 3, "1, 4 and 5; the others have arrived");
    assert_eq!(outgoing.on_nack(at(10), &[(1, 2)]).newly, 0, "it waits already");
    outgoing.on_ack(at(11), 1, &[(2, 5)], 64);
    assert_eq!(numbers(&send(&mut outgoing, at(11))), [1, 5], "4 has come meanwhile");
    assert_eq!(outgoing.on_nack(at(20), &[(1, 2), (5, 6)]).newly, 0, "repeated 9 ms ago");
    assert_eq!(outgoing.on_nack(at(21), &[(1, 2), (5, 6)]).newly, 2);
    assert_eq!(numbers(&send(&mut outgoing, at(21))), [1, 5]);
    outgoing.on_ack(at(31), 10, &[], 64);
    assert_eq!((outgoing.in_flight(), outgoing.on_nack(at(99), &[(1, 2)]).newly), (0, 0));
}

//= A-7 test
#[test]
fn what_was_repeated_is_not_repeated_again_before_it_can_have_come() {
    let mut outgoing = outgoing(terms());
    let timing = Timing { rtt: MS, rto: MS * 30 };
    outgoing.on_round_trip(MS, MS, timing);
    outgoing.queue(&message(0, 4_000)).unwrap();
    send(&mut outgoing, at(0));
    // The path has filled up.
    outgoing.on_round_trip(MS * 21, MS * 21, timing);
    assert_eq!(outgoing.on_nack(at(2), &[(1, 2)]).newly, 1, "the first time it is early rather than late");
    assert_eq!(numbers(&send(&mut outgoing, at(2))), [1]);
    for now in 3..23 {
        assert_eq!(outgoing.on_nack(at(now), &[(1, 2)]).newly, 0, "{now}");
    }
    assert_eq!(outgoing.on_nack(at(23), &[(1, 2)]).newly, 1, "the repetition was lost");
}

#[test]
fn silence_repeats_the_oldest_block_eight_times() {
    let mut outgoing = outgoing(terms());
    outgoing.queue(&message(0, 3_000)).unwrap();
    assert_eq!(outgoing.expires_at(), None);
    send(&mut outgoing, at(5));
    outgoing.on_ack(at(6), 1, &[(2, 3)], 64);
    let mut now = at(6);
    for repetition in 0..8 {
        let due = now + MS * 250 * (1 << repetition);
        assert_eq!(outgoing.expires_at(), Some(due));
        assert_eq!(outgoing.expire(Time::from_nanos(due.as_nanos() - 1)), Expired::Nothing);
        assert_eq!(outgoing.expire(due), Expired::Repeat);
        assert_eq!(outgoing.expires_at(), None, "it has not left yet");
        let blocks = send(&mut outgoing, due);
        assert_eq!((numbers(&blocks), blocks[0].is_repetition), (vec![1], true));
        now = due;
    }
    assert_eq!(outgoing.expires_at(), Some(now + MS * 250 * 256));
    assert_eq!(outgoing.expire(now + MS * 250 * 256), Expired::GivenUp);
}

#[test]
fn any_answer_ends_the_doubling() {
    let mut outgoing = outgoing(terms());
    outgoing.on_round_trip(MS * 4, MS * 4, Timing { rtt: MS * 4, rto: MS * 12 });
    outgoing.queue(&message(0, 3_000)).unwrap();
    send(&mut outgoing, at(0));
    for due in [12, 36, 84] {
        assert_eq!(outgoing.expire(at(due)), Expired::Repeat);
        send(&mut outgoing, at(due));
    }
    assert_eq!(outgoing.on_ack(at(90), 0, &[], 64), Acked::default());
    assert_eq!(outgoing.expires_at(), Some(at(102)));
    outgoing.on_ack(at(95), 3, &[], 64);
    assert_eq!(outgoing.expires_at(), None);
    outgoing.queue(&message(1, 1_000)).unwrap();
    send(&mut outgoing, at(500));
    assert_eq!(outgoing.expires_at(), Some(at(512)), "the time of rest does not count");
}

#[test]
fn an_answer_takes_back_a_repetition_that_has_not_left() {
    let congestion = ControllerKind::Fixed { window: 2 * 1_032 };
    let mut outgoing = Outgoing::new(&Opening { congestion, ..opening(terms()) });
    outgoing.queue(&message(0, 8_000)).unwrap();
    send(&mut outgoing, at(0));
    assert_eq!((outgoing.expire(at(250)), outgoing.expires_at()), (Expired::Repeat, None));
    outgoing.on_ack(at(251), 0, &[(1, 2)], 64);
    assert_eq!(outgoing.expires_at(), Some(at(501)));
    assert_eq!(numbers(&send(&mut outgoing, at(251))), [0, 2], "it is still lost, and congestion counts again");
    assert_eq!(outgoing.expires_at(), Some(at(501)), "a repetition for a NACK does not begin a wait");
}

//= A-4 test
#[test]
fn a_small_new_block_does_not_overtake_a_repetition_that_congestion_holds_back() {
    let mut held_back = 0;
    for lost in 1..9 {
        let congestion = ControllerKind::Cubic;
        let mut outgoing = Outgoing::new(&Opening { congestion, ..opening(Terms { outstanding: 99, ..terms() }) });
        for ticket in 0..9 {
            outgoing.queue(&message(ticket, 1_000)).unwrap();
        }
        assert_eq!(send(&mut outgoing, at(0)).len(), 9);
        outgoing.on_nack(at(30), &[(0, lost)]);
        outgoing.queue(&message(9, 0)).unwrap();
        while outgoing.has_repairs() {
            match outgoing.next(at(30)) {
                Next::Block(block) => {
                    assert!(block.is_repetition);
                    outgoing.on_sent(at(30), &block);
                }
                Next::At(_) => break,
                Next::Nothing => {
                    held_back += usize::from(matches!(outgoing.next_new(at(30)), Next::Block(_)));
                    break;
                }
            }
        }
    }
    assert!(held_back > 0, "the case has come up");
}

#[test]
fn congestion_holds_back_all_but_what_the_timeout_repeats() {
    let congestion = ControllerKind::Fixed { window: 3 * 1_032 };
    let mut outgoing = Outgoing::new(&Opening { congestion, ..opening(terms()) });
    outgoing.queue(&message(0, 8_000)).unwrap();
    assert_eq!(numbers(&send(&mut outgoing, at(0))), [0, 1, 2]);
    assert_eq!((outgoing.next(at(0)), outgoing.in_flight()), (Next::Nothing, 3 * 1_032));
    outgoing.on_nack(at(30), &[(1, 2)]);
    assert_eq!(outgoing.in_flight(), 2 * 1_032, "what is lost is not under way");
    assert_eq!(numbers(&send(&mut outgoing, at(30))), [1]);
    assert_eq!(outgoing.expire(at(280)), Expired::Repeat);
    assert_eq!(numbers(&send(&mut outgoing, at(280))), [0]);
    let mut cubic = Outgoing::new(&Opening { congestion: ControllerKind::Cubic, ..opening(terms()) });
    for ticket in 0..4 {
        cubic.queue(&message(ticket, 16_000)).unwrap();
    }
    let first = send(&mut cubic, at(0)).len() as u64;
    assert!((2..64).contains(&first), "{first} blocks");
    assert_eq!(cubic.expire(at(250)), Expired::Repeat);
    assert_eq!(numbers(&send(&mut cubic, at(250))), [0], "with everything else under way");
    for (step, acked) in [(0, first), (20, first + 2)] {
        cubic.on_ack(at(260 + step), acked, &[], 300);
        send(&mut cubic, at(260 + step));
    }
    assert!(cubic.sent() > first + 2 && cubic.in_flight() < first * 1_032, "and the window is smaller than before");
}

//= A-7 test
#[test]
fn more_gaps_than_can_be_remembered_do_not_hold_back_their_repetitions() {
    let terms = Terms { window: 1 << 14, outstanding: 1 << 10, ..terms() };
    let congestion = ControllerKind::Cubic;
    let mut outgoing = Outgoing::new(&Opening { edge: 1 << 19, congestion, ..opening(terms) });
    outgoing.on_round_trip(MS * 20, MS * 20, Timing { rtt: MS * 20, rto: MS * 60 });
    let (mut now, mut flight) = (0, 0..0);
    while flight.end - flight.start < 4_000 {
        while outgoing.queue(&message(0, 16_000)).is_ok() {}
        outgoing.on_ack(at(now), flight.end, &[], 1 << 19);
        while outgoing.poll_done().is_some() {}
        flight.start = outgoing.sent();
        // A round trip, and what is paced has left.
        for _ in 0..20 {
            now += 1;
            send(&mut outgoing, at(now));
        }
        now += 20;
        flight.end = outgoing.sent();
    }
    let gaps: Vec<(u64, u64)> = flight.step_by(2).map(|block| (block, block + 1)).collect();
    assert!(gaps.len() > 3 * MAX_RANGES / 2);
    let newly = gaps.chunks(100).map(|gaps| outgoing.on_nack(at(now), gaps).newly).sum::<u64>();
    assert_eq!(newly, MAX_RANGES as u64);
    let mut left = &gaps[..];
    for _ in 0..5 {
        for _ in 0..20 {
            now += 1;
            let repeated = send(&mut outgoing, at(now)).iter().filter(|block| block.is_repetition).count();
            left = &left[repeated..];
        }
        // Those have arrived, the oldest first, and the others are asked for again.
        let next_expected = left.first().map_or(gaps[gaps.len() - 1].1, |gap| gap.0);
        outgoing.on_ack(at(now), next_expected, &[], 1 << 19);
        for gaps in left.chunks(100) {
            outgoing.on_nack(at(now), gaps);
        }
    }
    assert!(left.is_empty(), "{} of {} are left", left.len(), gaps.len());
}

//= A-21 test
#[test]
fn raw_mode_repeats_nothing_and_lets_go_what_has_left() {
    let mut outgoing = Outgoing::new(&Opening { edge: 4, ..opening(raw()) });
    outgoing.queue(&message(0, 3_000)).unwrap();
    outgoing.queue(&message(1, 3_000)).unwrap();
    assert_eq!(numbers(&send(&mut outgoing, at(0))), [0, 1, 2, 3]);
    assert_eq!(done(&mut outgoing), [(0, true)], "without any answer");
    assert_eq!(outgoing.on_nack(at(50), &[(0, 4)]), Nacked::default());
    assert_eq!((outgoing.next(at(50)), outgoing.expires_at()), (Next::Nothing, None));
    assert_eq!(outgoing.expire(at(100_000)), Expired::Nothing);
    let acked = outgoing.on_ack(at(51), 2, &[(3, 99)], 6);
    assert_eq!(acked, Acked { newly: 2, invalid: false }, "ranges say nothing here");
    assert_eq!((outgoing.in_flight(), outgoing.is_flushed()), (2 * 1_032, false));
    assert_eq!(numbers(&send(&mut outgoing, at(51))), [4, 5]);
    assert_eq!(done(&mut outgoing), [(1, true)]);
    assert!(outgoing.is_flushed() && !outgoing.is_quiet());
    outgoing.on_ack(at(52), 6, &[], 6);
    assert!(outgoing.is_quiet());
}

//= A-11 test
//= A-21 test
#[test]
fn stale_blocks_of_raw_mode_are_dropped_before_they_leave() {
    let mut outgoing = outgoing(Terms { average: 1_000_000, burst: 2_000, ..raw() });
    for (ticket, deadline) in [(0, 10), (1, 10), (2, 30)] {
        outgoing.queue(&Message { deadline: Some(at(deadline)), ..message(ticket, 3_000) }).unwrap();
        assert_eq!(outgoing.stale_at(), Some(at(10)));
    }
    assert_eq!(numbers(&send(&mut outgoing, at(1))), [0, 1]);
    assert_eq!((outgoing.drop_stale(at(9)), outgoing.drop_stale(at(10))), (0, 4), "one block of 0, all of 1");
    assert_eq!(done(&mut outgoing), [(0, false), (1, false)]);
    assert_eq!((outgoing.queued_blocks(), outgoing.stale_at()), (3, Some(at(30))));
    let blocks = send(&mut outgoing, at(11));
    let facts: Vec<_> = blocks.iter().map(|block| (block.number, block.message, block.index)).collect();
    assert_eq!(facts, [(6, 2, 0), (7, 2, 1)], "the numbers tell how many blocks are missing");
    assert_eq!(outgoing.next(at(30)), Next::Nothing, "nobody had to ask for the drop");
    outgoing.on_ack(at(31), 8, &[], 64);
    assert_eq!(done(&mut outgoing), [(2, false)]);
    assert_eq!((outgoing.queued_blocks(), outgoing.sent(), outgoing.is_quiet()), (0, 9, false), "one is to be told of");
    assert_eq!(outgoing.on_report(at(32), 9, 64), Acked::default());
    assert!(outgoing.is_quiet());
}

//= A-6, A-21 test
#[test]
fn what_is_too_old_is_numbered_as_far_as_the_window_reaches_and_all_of_it_at_the_end() {
    let mut outgoing = Outgoing::new(&Opening { edge: 4, ..opening(raw()) });
    outgoing.queue(&Message { deadline: Some(at(10)), ..message(0, 3_000) }).unwrap();
    outgoing.queue(&Message { deadline: Some(at(10)), ..message(1, 6_000) }).unwrap();
    assert!(!outgoing.has_passed_window());
    assert_eq!(outgoing.drop_stale(at(10)), 9);
    assert_eq!((outgoing.sent(), outgoing.end(), outgoing.in_flight()), (4, 9, 0));
    assert!(outgoing.has_passed_window() && outgoing.needs_sync() && !outgoing.is_quiet() && outgoing.is_full());
    assert!(outgoing.is_flushed(), "CLOSE tells of the rest");
    // The peer hears of four, and makes room for seven more.
    assert_eq!(outgoing.on_report(at(11), 4, 11), Acked::default());
    assert!(!outgoing.is_full());
    outgoing.queue(&Message { deadline: Some(at(90)), ..message(2, 1_000) }).unwrap();
    assert_eq!(numbers(&send(&mut outgoing, at(12))), [9]);
    assert!(!outgoing.has_passed_window() && outgoing.sent() == outgoing.end());
    assert_eq!(outgoing.on_ack(at(13), 10, &[], 20).newly, 1, "what was dropped does not count as arrived");
    assert!(outgoing.is_quiet());
}

/// What a SYNC_REPLY says that acknowledges nothing.
fn answer_question(outgoing: &mut Outgoing, now: Time) {
    let (acked, edge) = (outgoing.acked(), outgoing.edge());
    assert_eq!(outgoing.on_report(now, acked, edge), Acked::default());
}

#[test]
fn answers_to_questions_do_not_put_off_the_repetition() {
    let mut outgoing = outgoing(terms());
    outgoing.queue(&message(0, 3_000)).unwrap();
    assert_eq!(send(&mut outgoing, at(0)).len(), 3);
    let mut now = at(0);
    let mut repeated = Vec::new();
    let given_up = loop {
        now += MS * 10;
        answer_question(&mut outgoing, now);
        match outgoing.expire(now) {
            Expired::GivenUp => break now,
            Expired::Repeat => repeated.extend(numbers(&send(&mut outgoing, now))),
            Expired::Nothing => {}
        }
    };
    assert_eq!(repeated, [0; 8]);
    assert_eq!(given_up, at(250 * 511), "250 ms, doubled eight times");
}

#[test]
fn an_answer_to_a_question_that_acknowledges_something_starts_the_time_out_anew() {
    let mut outgoing = outgoing(terms());
    outgoing.queue(&message(0, 3_000)).unwrap();
    send(&mut outgoing, at(0));
    assert_eq!(outgoing.on_report(at(100), 1, 64), Acked { newly: 1, invalid: false });
    assert_eq!(outgoing.expires_at(), Some(at(350)));
}

//= A-7 test
#[test]
fn what_a_nack_names_is_not_held_back_for_ever_by_blocks_of_which_the_ack_was_lost() {
    let mut outgoing = Outgoing::new(&Opening { congestion: ControllerKind::Cubic, ..opening(terms()) });
    outgoing.queue(&message(0, 16_000)).unwrap();
    let sent = send(&mut outgoing, at(0)).len() as u64;
    // All but the first have come, and nobody hears of it.
    let (mut now, mut repeated) = (at(0), Vec::new());
    while now < at(5_000) {
        now += MS * 20;
        outgoing.on_report(now, 0, 64);
        outgoing.on_nack(now, &[(0, 1)]);
        assert_ne!(outgoing.expire(now), Expired::GivenUp, "it does answer");
        repeated.extend(numbers(&send(&mut outgoing, now)).into_iter().map(|number| (number, now)));
    }
    assert_eq!(repeated.first(), Some(&(0, at(280))), "the window is smaller than what seems to be under way");
    assert!(repeated.len() > 8 && repeated.iter().all(|(number, _)| *number == 0), "{repeated:?}");
    outgoing.on_ack(now, sent, &[], 64);
    assert!(!send(&mut outgoing, now).is_empty());
}

//= A-7 test
#[test]
fn who_asks_for_blocks_and_gets_none_is_given_up() {
    let patience = MS * 15_000;
    for gets_one in [false, true] {
        let mut outgoing = outgoing(terms());
        outgoing.queue(&message(0, 3_000)).unwrap();
        send(&mut outgoing, at(0));
        assert_eq!(outgoing.futile_at(patience), None);
        for round in 1..=4 {
            let now = at(1000 * round);
            outgoing.on_ack(now, 0, &[], 64);
            outgoing.on_nack(now, &[(0, 3)]);
            assert_eq!(numbers(&send(&mut outgoing, now)), [0, 1, 2]);
            assert_eq!(outgoing.futile_at(patience), (round >= 3).then(|| at(15_000)), "eight are many");
        }
        if gets_one {
            outgoing.on_ack(at(5000), 0, &[(2, 3)], 64);
            assert_eq!(outgoing.futile_at(patience), None, "it does get blocks");
        }
    }
}

#[test]
fn reliable_messages_have_no_deadline() {
    let mut outgoing = outgoing(terms());
    outgoing.queue(&Message { deadline: Some(at(10)), ..message(0, 3_000) }).unwrap();
    assert_eq!((outgoing.stale_at(), outgoing.drop_stale(at(50))), (None, 0));
    assert_eq!(send(&mut outgoing, at(50)).len(), 3);
}

//= A-12 test
#[test]
fn until_the_answer_the_smaller_terms_hold() {
    let mut outgoing = outgoing(Terms { average: 1_000_000, burst: 5_000, ..terms() });
    let asked = Terms { window: 10, outstanding: 20, average: 2_000_000, burst: 3_000, ..terms() };
    outgoing.propose_terms(at(0), &asked);
    let smaller = Terms { window: 10, outstanding: 8, average: 1_000_000, burst: 3_000, ..terms() };
    assert_eq!((outgoing.terms(), outgoing.is_change_pending()), (&smaller, true));
    outgoing.queue(&message(0, 16_000)).unwrap();
    assert_eq!(send(&mut outgoing, at(0)).len(), 3, "the smaller burst");
    outgoing.set_terms(at(1), 3, &asked);
    assert_eq!((outgoing.terms(), outgoing.is_change_pending()), (&asked, false), "at once: 3 goes next");
    assert_eq!(outgoing.next(at(1)), Next::Block(outgoing.messages.fresh(3).unwrap()), "1,000 bytes of the old rate");
}

//= A-12 test
#[test]
fn new_terms_hold_from_their_block_on() {
    let mut outgoing = outgoing(terms());
    let slow = Terms { average: 1_000_000, burst: 2_000, ..terms() };
    let free = Terms { reliable: false, block_bytes: 7, ..terms() };
    outgoing.queue(&message(0, 16_000)).unwrap();
    send_at_most(&mut outgoing, at(0), 2);
    outgoing.set_terms(at(0), 2, &slow);
    assert_eq!(send(&mut outgoing, at(0)).len(), 2);
    outgoing.set_terms(at(0), 6, &free);
    assert!(outgoing.is_change_pending());
    assert_eq!(send(&mut outgoing, at(1)).len(), 1, "4 is under the slow terms");
    let blocks = send(&mut outgoing, at(2));
    assert_eq!(numbers(&blocks), (5..16).collect::<Vec<_>>(), "5 too, and all behind it leave at once");
    assert_eq!((outgoing.terms(), outgoing.is_change_pending()), (&terms(), false), "block size and mode stay");
}

#[test]
fn a_second_change_takes_the_place_of_one_that_has_not_come_into_force() {
    let mut outgoing = outgoing(terms());
    outgoing.propose_terms(at(0), &Terms { window: 3, ..terms() });
    outgoing.set_terms(at(0), 1, &Terms { window: 2, ..terms() });
    assert_eq!((outgoing.terms().window, outgoing.is_change_pending()), (2, true));
    outgoing.queue(&message(0, 4_000)).unwrap();
    assert_eq!(send(&mut outgoing, at(0)).len(), 2);
    outgoing.set_terms(at(0), 2, &terms());
    assert_eq!(send(&mut outgoing, at(0)).len(), 2);
}

//= A-7 test
#[test]
fn what_was_never_sent_is_not_believed() {
    let mut outgoing = outgoing(terms());
    outgoing.queue(&message(0, 4_000)).unwrap();
    send(&mut outgoing, at(0));
    let invalid = Acked { invalid: true, newly: 0 };
    assert_eq!(outgoing.on_ack(at(30), 5, &[], 64), invalid);
    assert_eq!(outgoing.on_ack(at(30), 1, &[(2, 5)], 64), invalid);
    assert_eq!(outgoing.on_ack(at(30), 1, &[(3, 3)], 64), invalid);
    assert_eq!(outgoing.on_ack(at(30), 1, &[(3, 2)], 64), invalid);
    assert_eq!(outgoing.on_ack(at(30), 1, &[], 1 << 20 | 1), invalid);
    assert_eq!(outgoing.on_ack(at(30), u64::MAX, &[(0, u64::MAX)], u64::MAX), invalid);
    assert_eq!(outgoing.on_nack(at(30), &[(0, 5)]), Nacked { invalid: true, newly: 0 });
    assert_eq!(outgoing.on_nack(at(30), &[(1, 2), (2, 2)]), Nacked { invalid: true, newly: 0 });
    assert_eq!((outgoing.acked(), outgoing.edge(), outgoing.has_repairs()), (0, 64, false));
    assert_eq!(outgoing.expires_at(), Some(at(250)), "nor is it an answer");
    assert_eq!(outgoing.on_ack(at(30), 1, &[(1, 3)], 1 << 20).newly, 3);
    assert_eq!(outgoing.acked(), 3, "it has what it says it expects");
}

#[test]
fn fragments_are_bounded_and_nothing_is_lost_by_it() {
    let window = 6_000;
    let mut outgoing =
        Outgoing::new(&Opening { edge: window, ..opening(Terms { window, outstanding: window, ..terms() }) });
    for ticket in 0..window {
        outgoing.queue(&message(ticket, 1)).unwrap();
    }
    send(&mut outgoing, at(0));
    let odd: Vec<(u64, u64)> = (0..window / 2).map(|pair| (2 * pair + 1, 2 * pair + 2)).collect();
    let even: Vec<(u64, u64)> = (0..window / 2).map(|pair| (2 * pair, 2 * pair + 1)).collect();
    assert_eq!(outgoing.on_ack(at(30), 0, &odd, window).newly, MAX_RANGES as u64);
    assert_eq!(outgoing.on_nack(at(30), &even).newly, MAX_RANGES as u64);
    assert_eq!(send(&mut outgoing, at(30)).len(), MAX_RANGES);
    let mut now = at(30);
    let mut rounds = 0;
    while outgoing.acked() < window {
        now += MS * 30;
        outgoing.on_ack(now, outgoing.acked(), &odd, window);
        outgoing.on_nack(now, &even);
        let repaired: Vec<_> = numbers(&send(&mut outgoing, now)).iter().map(|&low| (low, low + 1)).collect();
        outgoing.on_ack(now, outgoing.acked(), &repaired, window);
        rounds += 1;
        assert!(rounds < 20);
    }
    assert_eq!(done(&mut outgoing).len() as u64, window);
}

#[test]
fn a_nack_that_names_everything_many_times_costs_no_more_than_once() {
    let window = MAX_WINDOW;
    let mut outgoing = Outgoing::new(&Opening {
        edge: window,
        ..opening(Terms { block_bytes: 16, window, outstanding: window, max_message: 1 << 20, ..terms() })
    });
    for ticket in 0..17 {
        outgoing.queue(&message(ticket, 65_535 * 16)).unwrap();
    }
    send(&mut outgoing, at(0));
    assert_eq!(outgoing.sent(), MAX_WINDOW);
    let everything = vec![(0, outgoing.sent()); 8_000];
    // Less than a round trip ago: nothing is taken in, so all of it would be looked at again each time.
    assert_eq!(outgoing.on_nack(at(1), &everything).newly, 0);
    assert_eq!(outgoing.on_nack(at(20), &everything).newly, MAX_WINDOW);
}

#[test]
fn an_end_gives_every_message_back() {
    let mut outgoing = outgoing(terms());
    for ticket in 0..4 {
        outgoing.queue(&message(ticket, 2_000)).unwrap();
    }
    send_at_most(&mut outgoing, at(0), 5);
    outgoing.on_ack(at(1), 2, &[], 64);
    outgoing.abort();
    assert_eq!(outgoing.next(at(2)), Next::Nothing);
    assert!(outgoing.is_full() && outgoing.is_flushed() && outgoing.is_quiet());
    assert_eq!((outgoing.expires_at(), outgoing.in_flight()), (None, 0));
    assert_eq!(done(&mut outgoing), [(0, true), (1, false), (2, false), (3, false)]);
    assert_eq!(outgoing.queued_blocks(), 0);
    assert_eq!(outgoing.on_ack(at(3), 5, &[(1, 5)], 64).newly, 0);
    assert_eq!(outgoing.on_nack(at(3), &[(1, 5)]).newly, 0);
}

#[test]
fn an_idle_direction_is_small_and_a_steady_one_takes_no_more_memory() {
    let mut outgoing = outgoing(Terms { average: 1 << 40, burst: 1 << 20, ..terms() });
    let mut high_water = Vec::new();
    for round in 0..100_u64 {
        for ticket in 0..4 {
            outgoing.queue(&message(ticket, 8_000)).unwrap();
        }
        let now = at(round * 50);
        send(&mut outgoing, now);
        let sent = outgoing.sent();
        outgoing.on_nack(now + MS * 25, &[(sent - 20, sent - 10)]);
        send(&mut outgoing, now + MS * 25);
        outgoing.on_ack(now + MS * 40, sent, &[], sent + 64);
        assert_eq!(done(&mut outgoing).len(), 4);
        high_water.push((outgoing.memory(), outgoing.active.as_deref().map(|active| active.blocks.heap_bytes())));
    }
    assert!(high_water[1..].iter().all(|memory| *memory == high_water[1]), "{high_water:?}");
    outgoing.rest();
    assert!(outgoing.active.is_none());
    assert!(outgoing.memory() < 350, "{} bytes", outgoing.memory());
    outgoing.queue(&message(0, 8_000)).unwrap();
    assert_eq!(send(&mut outgoing, at(9_000))[0].number, 3_200, "and goes on where it was");
}
