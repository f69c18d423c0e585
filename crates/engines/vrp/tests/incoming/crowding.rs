//! What a receiver does while its application does not take what comes: frames wait for room, and are not refused.

use crate::half::{Half, content, control, data, header, raw_data};
use core::time::Duration;
use pinnace_vrp::{Config, Limits};
use pinnace_wire::vrp::{Inline, Tag};

/// Frames of 100 bytes in packets of 50; 5 of them may wait to be taken, and 8 are kept in all.
fn new() -> Half {
    Half::new(Config { limits: Limits { bytes: 800, frames: 100, ..Limits::default() }, ..Config::default() })
}

fn send(half: &mut Half, number: u16) -> Vec<String> {
    half.hear(&header(number, 100, 50, &[]));
    half.hear(&data(number, 100, 50, 0));
    half.hear(&data(number, 100, 50, 1))
}

//= V-R1, V-R13 test
#[test]
fn a_frame_without_room_stays_incomplete_until_others_are_taken() {
    let mut half = new();
    for number in 0..5 {
        assert_eq!(send(&mut half, number), [format!("{number}: ack 1, lost, single 1")]);
    }
    // Its last packet is answered as if it were another copy of the first, as often as it comes: so the frame lives on.
    for _ in 0..10 {
        assert_eq!(send(&mut half, 5), ["5: ack 0"]);
        half.advance(Duration::from_secs(2));
    }
    assert_eq!((half.counters().packets_held_back, half.counters().frames_received), (10, 5));
    // The application has them all, but lets none go: there is room for one more, and it is asked for, once.
    half.call(|rx| rx.set_waiting(0, 0));
    assert_eq!(half.said(), ["5: ack 0, nack 1"]);
    half.call(|rx| rx.set_waiting(0, 0));
    assert!(half.take().is_empty());
    assert_eq!(half.hear(&data(5, 100, 50, 1)), ["5: ack 1, lost, single 1"]);
    let deliveries = half.deliveries();
    assert_eq!(deliveries.len(), 6);
    assert_eq!(half.content(&deliveries[5]), content(5, 100));
}

//= V-R1 test
#[test]
fn what_waits_is_asked_for_in_turn_as_room_becomes_free() {
    let mut half = new();
    for number in 0..7 {
        send(&mut half, number);
    }
    assert_eq!(half.counters().frames_received, 5);
    let ids: Vec<_> = half.deliveries().iter().map(|delivery| delivery.id).collect();
    half.call(|rx| rx.release(ids[0]));
    assert_eq!(half.said(), ["5: ack 0, nack 1"]);
    half.call(|rx| rx.release(ids[1]));
    assert_eq!(half.said(), ["6: ack 0, nack 1"]);
    assert_eq!(half.hear(&data(6, 100, 50, 1)), ["6: ack 1, lost, single 1"]);
    assert_eq!(half.hear(&data(5, 100, 50, 1)), ["5: ack 1, lost, single 1"]);
}

//= V-R1 test
#[test]
fn what_comes_with_its_header_or_before_it_waits_as_well() {
    let mut half = new();
    for number in 0..5 {
        send(&mut half, number);
    }
    let inline = [7; 40];
    let small = header(5, 40, 50, &[Tag::InlineData(Inline { at: 0, bytes: &inline })]);
    assert_eq!(half.hear(&small), ["5: ok"], "as who does not know this tag: the packet follows");
    assert_eq!(half.hear(&small), ["5: ok"]);
    assert!(half.hear(&data(6, 100, 50, 1)).is_empty());
    assert_eq!(half.hear(&header(6, 100, 50, &[])), ["6: ok"]);
    assert_eq!(half.hear(&data(6, 100, 50, 0)), ["6: ack 0, single 0"]);
    half.call(|rx| rx.set_waiting(0, 0));
    assert_eq!(half.said(), ["6: ack 0, nack 1"]);
    assert_eq!(half.hear(&data(6, 100, 50, 1)), ["6: ack 1, lost, single 1"]);
    assert_eq!(half.counters().frames_received, 6);
}

#[test]
fn a_frame_of_which_all_may_be_lost_does_not_wait() {
    let mut half = new();
    for number in 0..5 {
        send(&mut half, number);
    }
    let best_effort = [Tag::ConsLoss(255), Tag::LossRate(255)];
    for number in 5..8 {
        half.hear(&header(number, 80, 50, &best_effort));
        half.hear(&data(number, 80, 50, 0));
        assert_eq!(half.hear(&data(number, 80, 50, 1)), [format!("{number}: ack 1, lost, single 1")]);
    }
    assert_eq!(half.hear(&header(8, 80, 50, &best_effort)), ["8: refused"], "and is lost");
    half.feed(&control(0, &[Tag::FrameClose(8)]));
}

#[test]
fn a_frame_that_nobody_waits_for_is_always_taken() {
    let mut half = new();
    half.hear(&header(1, 750, 50, &[]));
    for packet in 0..15 {
        half.feed(&data(1, 750, 50, packet));
    }
    half.take();
    assert_eq!(half.counters().frames_received, 1);
}

//= V-R1, V-R13 test
#[test]
fn a_large_frame_does_not_wait_for_a_small_one_that_was_taken_without_a_word() {
    let mut half = new();
    half.hear(&header(1, 40, 50, &[]));
    half.hear(&data(1, 40, 50, 0));
    assert_eq!(half.counters().frames_received, 1);
    half.hear(&header(2, 600, 50, &[]));
    for packet in 0..12 {
        half.feed(&data(2, 600, 50, packet));
    }
    half.take();
    assert_eq!((half.counters().frames_received, half.counters().packets_held_back), (2, 0));
}

#[test]
fn no_packet_is_behind_the_last_of_a_frame_that_waits() {
    let mut half = new();
    for number in 0..5 {
        send(&mut half, number);
    }
    half.hear(&header(5, 100, 50, &[]));
    half.hear(&data(5, 100, 50, 0));
    half.hear(&raw_data(5, u32::MAX, &[0; 50]));
    // Before its header as well.
    half.hear(&raw_data(6, u32::MAX, &[0; 50]));
    half.hear(&header(6, 100, 50, &[]));
    assert_eq!((half.counters().frames_received, half.counters().packets_held_back), (5, 0));
}
