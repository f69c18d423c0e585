//! Last units that come before any other: where they belong is not known yet.

mod common;

use common::half::{Half, bytes, dropped, piece, plain_unit, posted};
use pinnace_testing::hand::STALE;
use pinnace_zcrp::{Config, Event};

fn has_received(half: &mut Half, number: u64, size: u32) -> bool {
    let is_it =
        |event: &Event| matches!(event, Event::Received { number: n, result: Ok(s), .. } if (*n, *s) == (number, size));
    half.take_events().iter().any(is_it)
}

#[test]
fn last_units_that_come_first_wait_for_a_place_and_are_acknowledged() {
    //= Z-5, Z-20 test
    let mut half = posted(&Config::default(), &[300, 300]);
    // A sender may begin with the last units, and with a window of one unit it has no other before this one is acknowledged.
    half.feed(&piece(0, 2, 12, 250));
    assert_eq!(half.take_acks().concat().last(), Some(&(12, 13, true)));
    half.feed(&piece(1, 1, 13, 130));
    // Nobody else waits for them; they have begun.
    half.millis(60);
    assert!(half.take_requests().is_empty());
    dropped(&mut half, &plain_unit(0, 3, 14, &[9; 30], false), |seen| seen.units_contradictory);
    dropped(&mut half, &plain_unit(0, 1, 14, &[9; 90], true), |seen| seen.units_contradictory);
    // With such units the last ones would not lie in their buffers, or be longer than the others.
    dropped(&mut half, &plain_unit(0, 0, 14, &[9; 140], false), |seen| seen.units_contradictory);
    dropped(&mut half, &plain_unit(0, 0, 14, &[9; 49], false), |seen| seen.units_contradictory);
    half.feed(&piece(0, 2, 14, 250));
    assert_eq!(half.rx().counters().units_duplicate, 1);
    // What lies where they will land is not lost: both moves are of one read.
    half.read(&[piece(0, 0, 15, 250), piece(0, 1, 16, 250)]);
    assert!(has_received(&mut half, 0, 250));
    assert_eq!(half.buffer(0)[..250], bytes(250));
    assert_eq!(half.buffer(0)[250..], [STALE; 50]);
    half.feed(&piece(1, 0, 17, 130));
    assert!(has_received(&mut half, 1, 130));
    assert_eq!(half.buffer(1)[..130], bytes(130));
    assert_eq!(half.rx().counters().bytes_received, 380);
}

#[test]
fn last_units_that_come_first_take_no_more_than_the_largest_datagram() {
    //= Z-20 test
    let mut half = posted(&Config::default(), &[200_000, 200_000, 200_000]);
    half.feed(&plain_unit(0, 2, 1, &[1; 40_000], true));
    half.take();
    dropped(&mut half, &plain_unit(1, 2, 2, &[2; 40_000], true), |seen| seen.units_unplaceable);
    half.feed(&plain_unit(2, 2, 3, &[3; 20_000], true));
    assert_eq!(half.rx().counters().bytes_received, 60_000);
}
