//! What shares a train (V-S1, V-S12): a train costs both ends more than a small frame.

use crate::half::{Half, Left, config, data, is_header, number};
use core::ops::Range;
use pinnace_wire::vrp::Tag;

/// A sender whose application is still queueing.
fn queueing() -> Half {
    let mut half = Half::open(&config());
    half.engine.handle_hold(true);
    half
}

fn released(half: &mut Half) -> Vec<Vec<Left>> {
    half.engine.handle_hold(false);
    half.drain();
    trains(half)
}

/// What has left, train by train.
fn trains(half: &mut Half) -> Vec<Vec<Left>> {
    let left = half.take_left();
    left.chunk_by(|one, next| one.train == next.train).map(<[Left]>::to_vec).collect()
}

/// How many headers or packets each train has.
fn outline(trains: &[Vec<Left>]) -> Vec<(&'static str, usize)> {
    let kind = |left: &Left| if is_header(&left.bytes) { "headers" } else { "data" };
    trains.iter().map(|train| (kind(&train[0]), train.len())).collect()
}

/// The data packets of a train: the frames, counted from `first`, and the packets.
fn packets(train: &[Left], first: u16) -> Vec<(u16, u32)> {
    let named = |left: &Left| data(&left.bytes).map(|data| (data.frame.wrapping_sub(first) % (1 << 15), data.packet));
    train.iter().filter_map(named).collect()
}

fn each(frames: Range<u16>, packets: Range<u32>) -> Vec<(u16, u32)> {
    frames.flat_map(|frame| packets.clone().map(move |packet| (frame, packet))).collect()
}

#[test]
fn frames_that_are_queued_together_leave_together() {
    //= V-S12 test
    let mut half = queueing();
    half.send(300);
    assert_eq!(outline(&trains(&mut half)), [("headers", 1), ("data", 3)], "nothing is under way");
    half.send(300);
    assert_eq!(trains(&mut half).len(), 0, "less than what is under way");
    half.send(300);
    assert_eq!(outline(&trains(&mut half)), [("headers", 2), ("data", 6)], "as much as was under way");
    for _ in 0..3 {
        half.send(300);
        assert_eq!(trains(&mut half).len(), 0, "less than what is under way");
    }
    assert_eq!(outline(&released(&mut half)), [("headers", 3), ("data", 9)], "the application waits");
}

#[test]
fn what_the_peer_asks_for_never_waits_for_the_application() {
    //= V-S7 test
    let mut half = queueing();
    half.send(300);
    let frame = number(&half.take()[0]);
    half.send(300);
    assert_eq!(half.take().len(), 0);
    half.say(frame, &[Tag::FrameOk(frame), Tag::Nack(1)]);
    let again = trains(&mut half).concat();
    assert_eq!(packets(&again, frame)[0], (0, 1));
}

/// The trains of `count` frames of `size` bytes that were queued in one call, behind one that is under way; and the first one's
/// number.
fn queued_together(count: usize, size: usize) -> (Vec<Vec<Left>>, u16) {
    let mut half = queueing();
    half.send(300);
    let first = number(&half.take()[0]) + 1;
    half.queue(count, size);
    (released(&mut half), first)
}

#[test]
fn small_frames_leave_in_the_order_in_which_they_came() {
    //= V-S12 test
    // More than take turns packet by packet.
    let (trains, first) = queued_together(30, 300);
    let sent: Vec<_> = trains.iter().flat_map(|train| packets(train, first)).collect();
    assert_eq!(sent, each(0..30, 0..3));
}

#[test]
fn short_packets_of_many_frames_leave_behind_the_full_ones() {
    //= V-S12 test
    let (trains, first) = queued_together(5, 350);
    assert_eq!(outline(&trains), [("headers", 5), ("data", 16), ("data", 4)], "and not two trains a frame");
    let mut full = each(0..5, 0..3);
    full.push((0, 3));
    assert_eq!(packets(&trains[1], first), full, "a train may end with a short one");
    assert_eq!(packets(&trains[2], first), each(1..5, 3..4));
}
