//! Data that come before their header, and data of frames that nobody knows (section 1, V-R6).

use crate::half::{ALICE, BOB, Half, content, control, data, header, raw_data, say};
use pinnace_core::Ecn;
use pinnace_vrp::{Config, Limits};
use pinnace_wire::vrp::Tag;

fn new() -> Half {
    Half::new(Config::default())
}

#[test]
fn early_packets_count_as_if_they_came_right_after_the_header() {
    //= V-R6, V-R13 test
    let mut half = new();
    for packet in [0, 2, 2] {
        assert_eq!(half.hear(&data(4, 450, 100, packet)), [""; 0]);
    }
    half.millis(199);
    assert_eq!(half.hear(&header(4, 450, 100, &[])), ["4: ok, ack 0, single 0, single 2, nack 1"]);
    half.millis(50);
    assert!(half.take().is_empty(), "nothing is missing any more");
    for packet in [1, 3, 4] {
        half.feed(&data(4, 450, 100, packet));
    }
    let deliveries = half.deliveries();
    assert_eq!(half.content(&deliveries[0]), content(4, 450));
    assert_eq!(half.counters().packets_early, 2, "one came twice");
    // All of it, in any order: one answer.
    half.take();
    for packet in [1, 0] {
        half.feed(&data(5, 150, 100, packet));
    }
    assert_eq!(half.hear(&header(5, 150, 100, &[])), ["5: ok, ack 1, lost, single 1, single 0"]);
    let deliveries = half.deliveries();
    assert_eq!(half.content(&deliveries[0]), content(5, 150));
}

#[test]
fn early_packets_wait_two_hundred_milliseconds() {
    //= V-R6 test
    let mut half = new();
    half.feed(&data(4, 450, 100, 0));
    half.millis(100);
    half.feed(&data(4, 450, 100, 1));
    half.millis(99);
    assert!(half.take().is_empty());
    half.millis(1);
    assert_eq!(half.take(), [[0x80, 4, 0, 0, 0, 0, 12, 0, 4, 0]], "once, from the first on");
    assert_eq!(half.hear(&header(4, 450, 100, &[])), ["4: ok"], "they are gone");
    half.millis(400);
    assert!(half.take().is_empty());
}

#[test]
fn what_does_not_fit_its_frame_is_dropped_when_the_header_comes() {
    //= V-R6, V-R7 test
    let mut half = new();
    half.feed(&raw_data(4, 0, &[1; 99]));
    half.feed(&raw_data(4, 9, &[1; 99]));
    half.feed(&data(4, 450, 100, 1));
    assert_eq!(half.hear(&header(4, 450, 100, &[])), ["4: ok, single 1, nack 0"]);
    assert_eq!(half.counters().datagrams_malformed, 1);
    // A refused header takes them along.
    half.feed(&data(5, 450, 100, 1));
    half.memory.is_full = true;
    assert_eq!(half.hear(&header(5, 450, 100, &[])), ["5: refused"]);
    half.memory.is_full = false;
    half.millis(300);
    assert_eq!(half.said(), [""; 0], "nothing waits for a header any more");
}

#[test]
fn early_packets_pay_for_the_answer_too() {
    //= V-R13 test
    let mut half = new();
    for packet in 0..4 {
        half.feed(&data(4, 450, 100, packet));
    }
    let least = control(4, &[Tag::FrameCreate { frame: 4, size: 450, packet_bytes: 100 }]);
    assert_eq!(half.hear(&least), ["4: ok, ack 3, single 0, single 1, single 2, single 3"], "35 bytes for 16 alone");
}

#[test]
fn early_packets_are_limited() {
    //= V-R6 test
    let limits = Limits { early_packets: 3, early_bytes: 1000, early_frames: 4, ..Limits::default() };
    let mut half = Half::new(Config { limits, ..Config::default() });
    for packet in 0..5 {
        assert_eq!(half.hear(&data(1, 500, 100, packet)), [""; 0], "some of it are kept, so the answer waits");
    }
    assert_eq!(half.hear(&header(1, 500, 100, &[])), ["1: ok, ack 2, single 0, single 1, single 2"]);
    // Bytes in all.
    assert!(half.hear(&data(2, 2000, 600, 0)).is_empty());
    half.feed_from(BOB, &data(2, 2000, 600, 0));
    assert_eq!(say(&half.take()[0]), "2: missing", "at once, as nothing of it is kept");
    // Frames.
    for number in 3..6 {
        assert!(half.hear(&data(number, 10, 10, 0)).is_empty());
    }
    assert_eq!(half.hear(&data(6, 10, 10, 0)), ["6: missing"]);
    half.millis(200);
    assert_eq!(half.take().len(), 4);
    assert!(half.hear(&data(7, 10, 10, 0)).is_empty(), "there is room again");
    // And so there is whenever a header has come.
    for number in 10..20 {
        assert!(half.hear(&data(number, 2000, 600, 0)).is_empty());
        assert_eq!(half.hear(&header(number, 2000, 600, &[])), [format!("{number}: ok, ack 0, single 0")]);
    }
}

#[test]
fn unknown_data_are_answered_unless_they_are_shorter_than_the_answer() {
    //= V-R6, V-R13 test
    let limits = Limits { early_packets: 0, ..Limits::default() };
    let mut half = Half::new(Config { limits, ..Config::default() });
    assert_eq!(half.hear(&raw_data(3, 7, &[0; 4])), ["3: missing"]);
    for short in 0..4 {
        assert!(half.hear(&raw_data(3, 7, &vec![0; short])).is_empty());
    }
    half.read(ALICE, Ecn::NotCapable, &[raw_data(3, 7, &[0; 4]), raw_data(3, 8, &[0; 4])]);
    assert_eq!(half.take().len(), 1, "a batch shares it");
    // Kept ones that are too short are dropped in silence.
    let mut half = new();
    half.feed(&raw_data(3, 0, &[0; 3]));
    half.millis(300);
    assert!(half.take().is_empty());
    // Frames that have ended are unknown at once.
    half.feed(&header(9, 100, 100, &[]));
    half.feed(&control(0, &[Tag::FrameClose(9)]));
    half.take();
    assert_eq!(half.hear(&data(9, 100, 100, 0)), ["9: missing"]);
}

#[test]
fn replies_wait_in_a_queue_with_a_limit() {
    //= V-R6, V-R20 test
    let limits = Limits { early_packets: 0, replies: 10, ..Limits::default() };
    let mut half = Half::new(Config { limits, ..Config::default() });
    half.holds_back = true;
    for number in 0..50 {
        half.feed(&data(number, 100, 100, 0));
        half.feed(&control(0, &[Tag::Ping([7; 8])]));
    }
    half.holds_back = false;
    half.drain();
    assert_eq!(half.take().len(), 10);
    assert_eq!(half.counters().answers_withheld, 90);
}
