//! Frame headers: what is parsed, created, repeated, refused, closed and forgotten (section 1, V-R1, V-R17, V-R20, V-S2).

use crate::half::{ALICE, BOB, HERE, Half, content, control, data, header, padded, raw_data, say};
use core::time::Duration;
use pinnace_core::{Address, BufferId, Ecn};
use pinnace_vrp::{Config, Event, Limits};
use pinnace_wire::vrp::{Inline, Tag};

fn new() -> Half {
    Half::new(Config::default())
}

fn create(frame: u16, size: u32, packet_bytes: u16) -> Tag<'static> {
    Tag::FrameCreate { frame, size, packet_bytes }
}

/// All packets of a frame.
fn feed_all(half: &mut Half, number: u16, size: usize, packet_bytes: usize) {
    for packet in 0..size.div_ceil(packet_bytes) as u32 {
        half.feed(&data(number, size, packet_bytes, packet));
    }
}

#[test]
fn a_header_is_answered_byte_for_byte() {
    //= V-R1 test
    let mut half = new();
    assert_eq!(half.ask(&header(0x1234, 5000, 1000, &[])), [[0x92, 0x34, 0, 0, 0, 0, 9, 0x12, 0x34, 0]]);
    assert_eq!(half.rx().frames(), 1);
    assert_eq!(half.rx().bytes(), 5000 + 16, "storage and cells");
    // The least header there is: an answer never has more bytes.
    assert_eq!(half.hear(&control(0x1235, &[create(0x1235, 5000, 1000)])), ["4661: ok"]);
}

#[test]
fn an_empty_frame_is_complete_when_it_is_created() {
    //= V-R1, V-R13 test
    let mut half = new();
    assert_eq!(half.hear(&header(5, 0, 0, &[])), ["5: ok"]);
    let deliveries = half.deliveries();
    assert_eq!((deliveries[0].size, deliveries[0].loss.packets), (0, 0));
    assert_eq!(half.hear(&header(5, 0, 0, &[])), ["5: ok"], "there is nothing to acknowledge");
    assert!(half.deliveries().is_empty());
}

#[test]
fn a_repeated_header_changes_nothing_and_a_changed_one_is_refused() {
    //= V-R1 test
    let mut half = new();
    let tags = [Tag::ConsLoss(3), Tag::LossRate(20), Tag::CriticalPacket(2), Tag::Window(32), Tag::Epoch(7)];
    let first = header(9, 5000, 1000, &tags);
    assert_eq!(half.hear(&first), ["9: ok"]);
    assert_eq!(half.hear(&first), ["9: ok"]);
    half.feed(&data(9, 5000, 1000, 0));
    half.take();
    assert_eq!(half.hear(&first), ["9: ok, ack 0"]);
    // Equal but for what it closes, and for the order.
    let mut reordered = tags;
    reordered.reverse();
    assert_eq!(half.hear(&header(9, 5000, 1000, &[&reordered[..], &[Tag::FrameClose(8)]].concat())), ["9: ok, ack 0"]);
    let changed = |index: usize, tag| {
        let mut tags = tags;
        tags[index] = tag;
        header(9, 5000, 1000, &tags)
    };
    for other in [
        header(9, 5001, 1000, &tags),
        header(9, 5000, 999, &tags),
        changed(0, Tag::ConsLoss(4)),
        changed(1, Tag::LossRate(21)),
        changed(2, Tag::CriticalPacket(1)),
        changed(3, Tag::Window(33)),
        changed(3, Tag::LossRateFloor(3)),
        header(9, 5000, 1000, &tags[..4]),
    ] {
        assert_eq!(half.hear(&other), ["9: refused"]);
    }
    assert_eq!((half.counters().frames_refused, half.rx().refused(&ALICE)), (8, 0), "the frame is not lost by that");
    // The frame goes on as it was, and so it is when it is complete.
    feed_all(&mut half, 9, 5000, 1000);
    half.take();
    assert_eq!(half.deliveries().len(), 1);
    assert_eq!(half.hear(&first), ["9: ok, ack 4, lost"]);
    assert_eq!(half.hear(&header(9, 5000, 999, &tags)), ["9: refused"]);
    assert_eq!(half.memory.allocations, 1);
}

#[test]
fn a_header_that_was_not_read_whole_is_refused() {
    //= V-R1 test
    let mut half = new();
    let cut = |number: u16, size: u32| {
        let mut bytes = padded(number, &[create(number, size, 100), Tag::FrameClose(1)], 64);
        bytes.pop();
        bytes.extend_from_slice(&[16, 1, 2, 3]);
        bytes
    };
    half.feed(&header(1, 100, 100, &[]));
    half.take();
    assert_eq!(half.hear(&cut(2, 1000)), ["2: refused"]);
    assert_eq!(half.rx().frames(), 0, "what was read before counts");
    assert_eq!(half.hear(&header(3, 1000, 100, &[])), ["3: ok"]);
    assert_eq!(half.rx().refused(&ALICE), 1);
    assert_eq!(half.hear(&cut(3, 1000)), ["3: refused"], "even if all that was read is the same");
    assert_eq!((half.rx().refused(&ALICE), half.rx().refused(&BOB)), (1, 0), "the frame is coming");
    assert_eq!(half.rx().frames(), 1);
    // An unknown extension is skipped.
    let mut bytes = header(4, 1000, 100, &[]);
    bytes.pop();
    bytes.extend_from_slice(&[200, 2, 0, 0, 71, 0, 0]);
    assert_eq!(half.hear(&bytes), ["4: ok"]);
}

#[test]
fn what_does_not_parse_does_nothing() {
    //= V-R1, V-R6 test
    let mut half = new();
    half.feed(&header(1, 1050, 100, &[]));
    half.take();
    let whole = header(2, 1000, 100, &[Tag::FrameClose(1), Tag::Ping([1; 8])]);
    let malformed = [
        vec![],
        vec![0; 5],
        vec![0x80, 2, 0, 0, 0, 0],
        whole[..whole.len() - 1].to_vec(),
        control(2, &[Tag::Ping([0; 8]), create(2, 1, 1), create(2, 1, 1)]),
        control(2, &[Tag::Ping([0; 8]), create(3, 1, 1)]),
        control(2, &[Tag::Ping([0; 8]), create(2, 1, 0)]),
        // Data of a length that the packet cannot have.
        raw_data(1, 0, &[0; 99]),
        raw_data(1, 0, &[0; 101]),
        raw_data(1, 10, &[0; 100]),
        raw_data(1, 10, &[0; 49]),
        raw_data(1, 3, &[]),
    ];
    for datagram in &malformed {
        assert_eq!(half.hear(datagram), [""; 0], "{datagram:?}");
    }
    assert_eq!(half.counters().datagrams_malformed, malformed.len() as u64 - 1, "an empty read is no datagram");
    assert_eq!(half.rx().frames(), 1);
    // Bytes behind LAST are ignored, and tags of the other direction are skipped.
    let mut bytes =
        control(2, &[Tag::Ack(7), Tag::Nack(1), Tag::FrameRefused(1), Tag::MissingHeader(1), create(2, 9, 3)]);
    bytes.extend_from_slice(&[255; 9]);
    assert_eq!(half.hear(&bytes), ["2: ok"]);
}

#[test]
fn contract_tags_without_a_header_are_skipped() {
    //= V-R1 test
    let mut half = new();
    half.feed(&header(1, 1000, 100, &[]));
    half.take();
    half.feed(&control(1, &[Tag::LossRate(255), Tag::ConsLoss(255), Tag::LossRateFloor(255), Tag::Window(1)]));
    assert_eq!(half.hear(&data(1, 1000, 100, 1)), ["1: single 1, nack 0"]);
}

#[test]
fn of_more_pings_than_an_answer_holds_as_many_are_answered() {
    //= V-R20 test
    for (control_bytes, pongs) in [(100, 10), (1452, 160), (1472, 162)] {
        let mut half = Half::new(Config { control_bytes, ..Config::default() });
        let said = half.ask(&control(0, &[Tag::Ping([7; 8]); 162]));
        assert_eq!(said.iter().map(Vec::len).collect::<Vec<_>>(), [7 + 9 * pongs], "{control_bytes}");
    }
}

#[test]
fn a_ping_is_answered_with_its_bytes_and_never_more_than_came() {
    //= V-R20 test
    let mut half = new();
    let stamp = [1, 2, 3, 4, 5, 6, 7, 8];
    half.feed(&padded(0, &[Tag::Ping(stamp)], 1472));
    let pinnace_testing::hand::Sent { to, from, bytes: datagram, .. } = half.sent.remove(0);
    assert_eq!((to, from), (ALICE, Some(HERE)));
    assert_eq!(datagram, [0x80, 0, 0, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
    assert_eq!(half.ask(&control(0, &[Tag::Ping(stamp)])).concat().len(), 16, "without padding it is as long");
    assert_eq!(half.hear(&control(0, &[Tag::Ping(stamp), Tag::Ping([0; 8])])), ["0: pong, pong"]);
    assert!(half.hear(&control(0, &[Tag::Pong(stamp)])).is_empty());
    // With a frame header: both are answered, as far as the bytes go.
    assert_eq!(half.hear(&control(4, &[Tag::Ping(stamp), create(4, 0, 0)])), ["0: pong"]);
    assert_eq!(half.hear(&header(5, 0, 0, &[Tag::Ping(stamp)])), ["5: ok", "0: pong"]);
}

fn inline(number: u16, size: u32, packet_bytes: u16, bytes: &[u8]) -> Vec<u8> {
    header(number, size, packet_bytes, &[Tag::InlineData(Inline { bytes, at: 0 })])
}

#[test]
fn a_small_frame_comes_in_its_header() {
    //= V-R1, V-R13 test
    let mut half = new();
    let bytes = content(3, 250);
    let datagram = inline(3, 250, 100, &bytes);
    let answer = control(3, &[Tag::FrameOk(3), Tag::Ack(2)]);
    let answered = half.ask(&datagram);
    assert_eq!(answered[0][..answer.len() - 1], answer[..answer.len() - 1]);
    assert_eq!(say(&answered[0]), "3: ok, ack 2, lost");
    let deliveries = half.deliveries();
    assert_eq!(half.content(&deliveries[0]), bytes);
    assert_eq!(half.hear(&datagram), ["3: ok, ack 2, lost"], "each time the header comes");
    assert!(half.deliveries().is_empty());
    // Of another length than the frame it is skipped, and the data packets follow.
    assert_eq!(half.hear(&inline(4, 250, 100, &bytes[..249])), ["4: ok"]);
    assert_eq!(half.hear(&inline(5, 0, 100, &[])), ["5: ok"]);
    feed_all(&mut half, 4, 250, 100);
    assert_eq!(half.deliveries().iter().map(|delivery| delivery.number).collect::<Vec<_>>(), [5, 4]);
}

#[test]
fn a_header_closes_the_frames_before_it() {
    //= V-R17 test
    let mut half = new();
    for number in 1..4 {
        half.feed(&header(number, 100, 100, &[]));
    }
    half.feed(&data(1, 100, 100, 0));
    half.take();
    let delivered = half.deliveries();
    assert_eq!(
        half.hear(&header(4, 100, 100, &[Tag::FrameClose(1), Tag::FrameClose(2), Tag::FrameClose(77)])),
        ["4: ok"]
    );
    assert_eq!(half.rx().frames(), 2);
    assert!(half.memory.bytes(BufferId::new(1)).is_none(), "an incomplete frame is destroyed without delivery");
    assert_eq!(half.content(&delivered[0]), content(1, 100), "a delivered one belongs to the application");
    assert_eq!(half.counters().frames_failed, 1);
    assert!(half.take_events().is_empty());
    // What was closed does not come back.
    for number in [1, 2] {
        assert_eq!(half.hear(&header(number, 100, 100, &[])), [format!("{number}: refused")]);
        assert_eq!(half.hear(&data(number, 100, 100, 0)), [format!("{number}: missing")]);
    }
    assert_eq!((half.counters().frames_refused, half.rx().refused(&ALICE)), (2, 0), "they have ended, one well");
    assert!(half.take_events().is_empty());
    // Another sender's frames are its own.
    half.feed_from(BOB, &control(0, &[Tag::FrameClose(3), Tag::FrameClose(4)]));
    assert_eq!(half.rx().frames(), 2);
}

#[test]
fn a_packet_may_close_a_frame_of_the_number_that_it_creates() {
    //= V-R17 test
    let mut half = new();
    half.feed(&header(1, 100, 100, &[Tag::Epoch(1)]));
    half.take();
    let close_first = padded(1, &[Tag::FrameClose(1), create(1, 100, 100), Tag::Epoch(1)], 64);
    assert_eq!(half.hear(&close_first), ["1: refused"], "in the order of the tags");
    assert_eq!(half.rx().frames(), 0);
    assert_eq!(half.hear(&header(2, 100, 100, &[Tag::Epoch(1), Tag::FrameClose(2)])), [""; 0]);
    assert_eq!((half.rx().frames(), half.rx().bytes()), (0, 0));
}

#[test]
fn an_old_header_is_told_from_a_new_frame() {
    //= V-R17 test
    let mut half = new();
    let offer = |number| header(number, 100, 100, &[Tag::Epoch(1)]);
    assert_eq!(half.hear(&offer(10_000)), ["10000: ok"]);
    assert_eq!(half.hear(&offer(9_000)), ["9000: ok"], "behind, but it was not created before");
    assert_eq!(half.hear(&offer(7_952)), ["7952: ok"]);
    assert_eq!(half.hear(&offer(7_951)), ["7951: refused"], "more than 2048 behind");
    assert_eq!(half.hear(&offer(26_384)), ["26384: refused"], "half the circle is behind");
    assert_eq!(half.hear(&offer(15_000)), ["15000: ok"]);
    assert_eq!(half.hear(&offer(9_000)), ["9000: ok"], "far behind, but it has its block");
    assert_eq!(half.memory.allocations, 4);
    assert_eq!(half.hear(&offer(15_000 + 16_383)), ["31383: ok"]);
    // A turn later: the block is of an earlier one, and destroyed.
    for number in [5_000, 9_000] {
        assert_eq!(half.hear(&offer(number)), [format!("{number}: ok")]);
    }
    assert_eq!(half.memory.allocations, 7);
    assert_eq!(half.counters().frames_failed, 1);
    assert_eq!(half.hear(&data(9_000, 100, 100, 0)), ["9000: ack 0, lost, single 0"]);
}

#[test]
fn a_sender_without_an_epoch_may_have_begun_again() {
    //= V-R17 test
    let mut half = new();
    let offer = |number| header(number, 100, 100, &[]);
    assert_eq!(half.hear(&offer(10_000)), ["10000: ok"]);
    assert_eq!(half.hear(&offer(100)), ["100: ok"]);
    half.feed(&control(0, &[Tag::FrameClose(100)]));
    assert_eq!(half.hear(&offer(100)), ["100: refused"]);
    assert_eq!(half.hear(&offer(101)), ["101: ok"]);
}

#[test]
fn a_new_epoch_closes_what_was_before() {
    //= V-R1, V-R17, V-S2 test
    let mut half = new();
    let offer = |number, epoch| header(number, 200, 100, &[Tag::Epoch(epoch)]);
    half.feed(&offer(50, 1));
    half.feed(&offer(51, 1));
    half.feed(&data(50, 200, 100, 0));
    half.feed(&data(50, 200, 100, 1));
    half.feed_from(BOB, &offer(50, 1));
    half.take();
    let delivered = half.deliveries();
    assert_eq!(half.hear(&offer(50, 2)), ["50: ok"], "the same number is a new frame");
    assert_eq!(half.rx().frames(), 2, "Alice's new one, and Bob's");
    assert!(half.memory.bytes(BufferId::new(1)).is_none() && half.memory.bytes(BufferId::new(0)).is_some());
    assert_eq!(half.hear(&data(51, 200, 100, 0)), [""; 0], "of an unknown frame, and kept for a moment");
    feed_all(&mut half, 50, 200, 100);
    assert_eq!(half.deliveries()[0].id.0, delivered[0].id.0 + 3);
    // The old life's window of numbers has gone too.
    half.take();
    assert_eq!(half.hear(&offer(51, 2)), ["51: ok, ack 0, single 0"]);
}

#[test]
fn a_delayed_header_of_the_life_before_does_nothing() {
    //= V-S2 test
    let mut half = new();
    let offer = |number, epoch| header(number, 200, 100, &[Tag::Epoch(epoch)]);
    assert_eq!(half.hear(&offer(50, 1)), ["50: ok"]);
    assert_eq!(half.hear(&offer(60, 2)), ["60: ok"]);
    half.feed(&data(60, 200, 100, 0));
    half.take();
    for number in [50, 51, 60, 61] {
        assert_eq!(half.hear(&offer(number, 1)), [""; 0], "a refusal would end the new life's frame of that number");
    }
    // Nor does what rides in it.
    assert_eq!(half.hear(&header(52, 200, 100, &[Tag::Epoch(1), Tag::FrameClose(60)])), [""; 0]);
    half.feed(&data(60, 200, 100, 1));
    half.take();
    assert_eq!(half.deliveries().len(), 1);
    // And one of a life before that.
    assert_eq!(half.hear(&offer(62, 3)), ["62: ok"]);
    assert_eq!(half.hear(&offer(63, 2)), [""; 0]);
    half.feed(&data(62, 200, 100, 0));
    half.feed(&data(62, 200, 100, 1));
    half.take();
    assert_eq!(half.deliveries().len(), 1);
    assert_eq!(half.counters().headers_stale, 6);
    // Whoever was taken for dead by mistake, because somebody spoke in its name, soon has its way again.
    half.millis(2_001);
    assert_eq!(half.hear(&offer(64, 2)), ["64: ok"]);
}

#[test]
fn a_sender_is_forgotten_after_two_life_timeouts_of_silence() {
    //= V-R17, V-S11 test
    let mut half = new();
    half.feed(&header(9, 100, 100, &[Tag::Epoch(3)]));
    half.feed(&data(9, 100, 100, 0));
    half.take();
    half.millis(4_999);
    assert_eq!(half.rx().frames(), 1);
    half.millis(2);
    assert_eq!(half.rx().frames(), 0, "the block has gone");
    assert_eq!(half.hear(&header(9, 100, 100, &[Tag::Epoch(3)])), ["9: refused"], "the number has not");
    half.millis(9_990);
    assert_eq!(half.rx().sources(), 1, "it was heard of");
    half.millis(20);
    assert_eq!(half.rx().sources(), 0);
    assert_eq!(half.hear(&header(9, 100, 100, &[Tag::Epoch(3)])), ["9: ok"]);
}

#[test]
fn what_does_not_parse_does_not_keep_a_sender_known() {
    //= V-R17 test
    let mut half = new();
    half.feed(&header(9, 100, 100, &[Tag::Epoch(3)]));
    half.feed(&data(9, 100, 100, 0));
    half.feed(&control(0, &[Tag::FrameClose(9)]));
    half.take();
    half.millis(9_000);
    for malformed in [&[0x80; 5][..], &[0x80, 0, 0, 0, 0, 0], &[0x80, 9, 0, 0, 0, 0, 6, 0, 9]] {
        half.feed(malformed);
    }
    assert_eq!((half.counters().datagrams_malformed, half.rx().sources()), (3, 1));
    half.millis(1_001);
    assert_eq!(half.rx().sources(), 0);
}

#[test]
fn a_frame_of_which_nothing_is_heard_ends() {
    //= V-R17, V-S11 test
    let mut half = new();
    half.feed(&header(1, 1000, 100, &[]));
    for packet in 0..3 {
        half.millis(4_000);
        half.feed(&data(1, 1000, 100, packet));
    }
    half.millis(4_000);
    // What does not parse is not a sign of life, and neither is what is refused.
    half.feed(&raw_data(1, 3, &[0; 7]));
    half.feed(&header(1, 1001, 100, &[]));
    assert!(half.take_events().is_empty());
    half.millis(1_001);
    let events = half.take_events();
    assert!(matches!(events[..], [Event::Released(_)]), "{events:?}");
    assert_eq!((half.rx().frames(), half.rx().bytes(), half.counters().frames_failed), (0, 0, 1));
}

#[test]
fn what_is_too_large_is_refused_without_storage() {
    //= V-R1 test
    let limits = Limits { bytes: 10_000, packets: 50, frames: 3, ..Limits::default() };
    let mut half = Half::new(Config { limits, ..Config::default() });
    assert_eq!(half.hear(&header(1, u32::MAX, u16::MAX, &[])), ["1: refused"]);
    assert_eq!(half.hear(&header(2, 9_990, 1000, &[])), ["2: refused"], "cells count");
    assert_eq!(half.hear(&header(3, 51, 1, &[])), ["3: refused"], "packets");
    assert_eq!(half.memory.allocations, 0);
    assert_eq!(half.rx().sources(), 0);
    half.memory.is_full = true;
    assert_eq!(half.hear(&header(4, 50, 1, &[])), ["4: refused"], "the driver has none");
    half.memory.is_full = false;
    assert_eq!(half.hear(&header(4, 50, 1, &[])), ["4: ok"], "a refused number was not created");
    for number in 5..7 {
        assert_eq!(half.hear(&header(number, 50, 1, &[])), [format!("{number}: ok")]);
    }
    assert_eq!(half.hear(&header(8, 51, 1, &[])), ["8: refused"]);
    assert_eq!((half.counters().frames_refused, half.rx().refused(&ALICE)), (5, 1), "since it is known");
    assert_eq!(half.hear(&header(8, 51, 1, &[])), ["8: refused"]);
    assert_eq!(half.rx().refused(&ALICE), 1, "it is one frame, however often its header comes");
    assert_eq!(half.hear(&header(7, 50, 1, &[])), ["7: refused"], "frames");
    half.feed(&control(0, &[Tag::FrameClose(4)]));
    assert_eq!(half.hear(&header(9, 9000, 1000, &[])), ["9: ok"]);
    half.feed(&control(0, &[Tag::FrameClose(5)]));
    assert_eq!(half.hear(&header(8, 1000, 1000, &[])), ["8: refused"]);
    // A delivered frame counts until the application releases it, whatever its sender says.
    feed_all(&mut half, 9, 9000, 1000);
    half.feed(&control(0, &[Tag::FrameClose(9)]));
    half.take();
    assert_eq!(half.hear(&header(8, 1000, 1000, &[])), ["8: refused"]);
    let id = half.deliveries()[0].id;
    half.call(|rx| rx.release(id));
    half.call(|rx| rx.release(id));
    assert_eq!(half.hear(&header(10, 1000, 1000, &[])), ["10: ok"]);
}

#[test]
fn a_refused_frame_stays_refused() {
    //= V-R1, V-R17 test
    let limits = Limits { bytes: 1_100, ..Limits::default() };
    let mut half = Half::new(Config { limits, ..Config::default() });
    half.feed(&header(1, 1000, 1000, &[]));
    half.feed(&data(1, 1000, 1000, 0));
    half.take();
    let inline = content(2, 200);
    let tags = [Tag::InlineData(Inline { at: 0, bytes: &inline })];
    assert_eq!(half.hear(&header(2, 200, 200, &tags)), ["2: refused"]);
    let id = half.deliveries()[0].id;
    half.call(|rx| rx.release(id));
    // Now there is room. But who was told that it does not come sends it anew.
    assert_eq!(half.hear(&header(3, 200, 200, &tags)), ["3: ok, ack 0, lost"]);
    assert_eq!(half.hear(&header(2, 200, 200, &tags)), ["2: refused"]);
    assert_eq!((half.deliveries().len(), half.rx().refused(&ALICE)), (1, 1));
    // In the next turn of the numbers, it is another frame's.
    for number in [2_500, 12_000, 22_000, 32_000] {
        assert_eq!(half.hear(&header(number, 0, 200, &[])), [format!("{number}: ok")]);
        half.feed(&control(0, &[Tag::FrameClose(number)]));
    }
    half.take_events();
    half.advance(Duration::from_millis(1));
    half.feed(&control(0, &[Tag::FrameClose(3)]));
    assert_eq!(half.hear(&header(2, 50, 200, &[])), ["2: ok"]);
}

#[test]
fn holes_count_as_well() {
    //= V-R1 test
    // A hundred packets of a byte; half of them may be lost, and none beside another.
    let tags = [Tag::ConsLoss(1), Tag::LossRate(128)];
    let mut half = new();
    half.hear(&header(1, 100, 1, &tags));
    assert_eq!(half.rx().bytes(), 100 + 32 + 40 * 50, "storage, cells, and what may be missing");
    for packet in (1..100).step_by(2) {
        half.feed(&data(1, 100, 1, packet));
    }
    half.take();
    let delivery = half.deliveries().remove(0);
    let holes = delivery.holes.len() as u64;
    assert!(holes > 30, "{holes}");
    assert_eq!(half.rx().bytes(), 100 + 40 * holes);
    half.call(|rx| rx.release(delivery.id));
    assert_eq!(half.rx().bytes(), 0);
    // So many of them that their lists would not fit.
    assert_eq!(half.hear(&header(2, 1 << 24, 1, &tags)), ["2: refused"]);
    assert_eq!(half.hear(&header(3, 1 << 24, 1, &[])), ["3: ok"], "of which nothing may be missing");
}

#[test]
fn a_flood_of_headers_does_not_stop_honest_frames() {
    //= V-R1 test
    let limits = Limits { frames: 100, grace: Some(Duration::from_millis(250)), ..Limits::default() };
    let mut half = Half::new(Config { limits, ..Config::default() });
    half.feed_from(BOB, &header(1, 1000, 100, &[]));
    half.feed_from(BOB, &data(1, 1000, 100, 0));
    for sender in 0..2000 {
        half.feed_from(Address::Node(1000 + sender), &header(1, 1000, 100, &[]));
        half.advance(Duration::from_micros(100));
    }
    assert!(half.rx().frames() == 100 && half.rx().sources() <= 100);
    half.take();
    half.millis(150);
    assert_eq!(half.hear(&header(1, 200, 100, &[])), ["1: ok"], "one of the flood gave way");
    feed_all(&mut half, 1, 200, 100);
    for packet in 1..10 {
        half.feed_from(BOB, &data(1, 1000, 100, packet));
    }
    assert_eq!(half.deliveries().len(), 2);
    assert_eq!(half.rx().bytes(), 98 * 1016 + 200 + 1000);
    // What gave way counts as never created.
    half.take();
    half.millis(300);
    half.feed_from(Address::Node(1000), &header(1, 1000, 100, &[]));
    assert_eq!(say(&half.take()[0]), "1: ok");
}

#[test]
fn an_accepted_frame_keeps_its_place_for_its_life_timeout() {
    //= V-R1, V-R17, V-S11 test
    let limits = Limits { bytes: 300_000, ..Limits::default() };
    let mut half = Half::new(Config { limits, ..Config::default() });
    let offer = header(1, 200_000, 1000, &[Tag::Epoch(1)]);
    assert_eq!(half.hear(&offer), ["1: ok"]);
    // Not a packet has come of it, and others want its place.
    for millis in [10, 300, 2_000, 2_000, 680] {
        half.millis(millis);
        assert_eq!(half.hear(&header(2, 100_000, 1000, &[Tag::Epoch(1)])), ["2: refused"]);
        half.feed_from(BOB, &header(1, 100_000, 1000, &[Tag::Epoch(2)]));
        assert_eq!(say(&half.take()[0]), "1: refused");
    }
    assert_eq!(half.hear(&data(1, 200_000, 1000, 0)), ["1: ack 0, single 0"]);
    assert_eq!((half.rx().frames(), half.counters().frames_evicted), (1, 0));
    half.millis(5_001);
    assert_eq!(half.hear(&header(3, 100_000, 1000, &[Tag::Epoch(1)])), ["3: ok"]);
}

#[test]
fn finished_frames_that_nobody_asks_about_any_more_give_way() {
    //= V-R1, V-R17 test
    let limits = Limits { frames: 3, ..Limits::default() };
    let mut half = Half::new(Config { limits, ..Config::default() });
    let [asking, dead, dead_too, new, newer, last] = [11, 12, 13, 14, 15, 16].map(Address::Node);
    let ask = |half: &mut Half, sender, number| {
        half.feed_from(sender, &header(number, 0, 100, &[Tag::Epoch(1)]));
        half.said().concat()
    };
    for sender in [asking, dead, dead_too] {
        assert_eq!(ask(&mut half, sender, 1), "1: ok");
    }
    // Their senders never say that they know. If they do not, they ask again before their longest time-out has passed.
    half.millis(1_900);
    assert_eq!(ask(&mut half, new, 1), "1: refused");
    assert_eq!(ask(&mut half, asking, 1), "1: ok");
    half.millis(200);
    assert_eq!(ask(&mut half, new, 2), "2: ok");
    assert_eq!(ask(&mut half, newer, 1), "1: ok");
    assert_eq!(ask(&mut half, last, 1), "1: refused");
    assert_eq!(ask(&mut half, asking, 1), "1: ok");
    assert_eq!(ask(&mut half, dead, 1), "1: refused", "it was delivered, and is not again");
    assert_eq!((half.deliveries().len(), half.rx().frames(), half.counters().frames_evicted), (5, 3, 2));
}

#[test]
fn nothing_gives_way_for_a_frame_that_does_not_fit_anyway() {
    //= V-R1 test
    let limits = Limits { bytes: 10_000, grace: Some(Duration::from_millis(250)), ..Limits::default() };
    let mut half = Half::new(Config { limits, ..Config::default() });
    half.feed(&header(1, 6000, 1000, &[]));
    feed_all(&mut half, 1, 6000, 1000);
    half.feed(&header(2, 1000, 1000, &[]));
    half.millis(300);
    half.take();
    assert_eq!(half.hear(&header(3, 5000, 1000, &[])), ["3: refused"], "the delivered frame is in its way");
    assert_eq!(half.counters().frames_evicted, 0);
    assert_eq!(half.hear(&header(4, 3500, 1000, &[])), ["4: ok"]);
    assert_eq!(half.counters().frames_evicted, 1);
}

#[test]
fn senders_are_limited_and_the_oldest_idle_one_is_forgotten() {
    //= V-R17 test
    let limits = Limits { sources: 3, ..Limits::default() };
    let mut half = Half::new(Config { limits, ..Config::default() });
    let node = |number: u32| Address::Node(100 + number);
    for sender in 0..3 {
        half.feed_from(node(sender), &header(1, 100, 100, &[]));
    }
    half.feed_from(node(3), &header(1, 100, 100, &[]));
    assert_eq!(
        half.take().iter().map(|bytes| say(bytes)).collect::<Vec<_>>(),
        ["1: ok", "1: ok", "1: ok", "1: refused"]
    );
    assert_eq!(half.memory.kept(), 3, "and its storage went back");
    half.feed_from(node(1), &control(0, &[Tag::FrameClose(1)]));
    half.feed_from(node(3), &header(1, 100, 100, &[]));
    half.feed_from(node(1), &header(2, 100, 100, &[]));
    assert_eq!(half.take().iter().map(|bytes| say(bytes)).collect::<Vec<_>>(), ["1: ok", "2: refused"]);
    half.millis(30_000);
    assert_eq!((half.rx().sources(), half.rx().frames()), (0, 0));
}

#[test]
fn closing_refuses_what_is_not_complete() {
    //= V-R17, V-S4 test
    let mut half = new();
    for number in 1..4 {
        half.feed(&header(number, 100, 100, &[]));
    }
    // Its header has paid for FRAME_OK alone.
    half.feed(&control(4, &[create(4, 100, 100)]));
    half.feed(&data(2, 100, 100, 0));
    half.take();
    half.call(|rx| rx.close(pinnace_core::Time::ZERO));
    let said: Vec<String> = half.take().iter().map(|bytes| say(bytes)).collect();
    assert_eq!(said, ["2: ok, ack 0, lost", "1: refused", "3: refused"]);
    let events = half.take_events();
    let words = events.iter().map(|event| match event {
        Event::Received(_) => "received",
        Event::Released(_) => "released",
        Event::IncomingClosed => "closed",
        _ => "?",
    });
    assert_eq!(words.collect::<Vec<_>>(), ["received", "released", "released", "released", "closed"]);
    assert!(half.hear(&header(9, 100, 100, &[])).is_empty());
    half.millis(60_000);
    half.call(|rx| rx.close(pinnace_core::Time::ZERO));
    assert!(half.take_events().is_empty() && half.take().is_empty());
}

#[test]
fn closing_repeats_the_answer_that_the_sender_of_a_delivered_frame_may_have_missed() {
    //= V-S4, V-R6, V-R13 test
    let mut half = new();
    let may_lose = [Tag::ConsLoss(1), Tag::LossRate(255)];
    for number in 1..4 {
        half.feed(&header(number, 200, 100, &may_lose));
    }
    half.feed(&header(4, 0, 100, &[]));
    half.feed(&data(1, 200, 100, 0));
    half.feed(&data(1, 200, 100, 1));
    half.feed(&data(2, 200, 100, 1));
    half.feed(&data(3, 200, 100, 1));
    // This sender knows.
    half.feed(&control(0, &[Tag::FrameClose(3)]));
    half.take();
    half.call(|rx| rx.close(pinnace_core::Time::ZERO));
    assert_eq!(half.said(), ["1: ok, ack 1, lost", "2: ok, ack 1, lost 0+1", "4: ok"]);
    assert_eq!(half.take_events().iter().filter(|event| **event == Event::IncomingClosed).count(), 1);
}

#[test]
fn marks_of_congestion_are_counted_and_echoed() {
    //= V-R13 test
    let mut half = new();
    half.feed(&header(1, 1000, 100, &[]));
    half.take();
    half.read(ALICE, Ecn::Congested, &[data(1, 1000, 100, 0), data(1, 1000, 100, 1)]);
    half.read(ALICE, Ecn::Capable0, &[data(1, 1000, 100, 2)]);
    half.read(ALICE, Ecn::Congested, &[data(1, 1000, 100, 2)]);
    let said: Vec<String> = half.take().iter().map(|bytes| say(bytes)).collect();
    assert_eq!(said, ["1: ack 1, ce 2, single 0, single 1", "1: ack 2, ce 2, single 2", "1: ack 2, ce 3"]);
    assert_eq!(half.counters().congestion_marks, 3);
}
