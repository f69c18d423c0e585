//! Decisions and their answers: the worked examples, the paper's figures, and the rows V-R2 to V-R19.

use crate::half::{ALICE, HERE, Half, content, control, data, header};
use pinnace_vrp::Config;
use pinnace_wire::vrp::Tag;

#[test]
fn a_frame_without_loss_is_delivered_in_place() {
    //= V-R6, V-R12, V-R13, V-R18 test
    let mut half = Half::new(Config::default());
    assert_eq!(half.hear(&header(7, 2500, 1000, &[Tag::Epoch(1)])), ["7: ok"]);
    assert_eq!(half.ask(&data(7, 2500, 1000, 0)), [control(7, &[Tag::Ack(0), Tag::SingleAck(0)])]);
    assert_eq!(half.hear(&data(7, 2500, 1000, 1)), ["7: ack 1, single 1"]);
    assert!(half.deliveries().is_empty());
    half.feed(&data(7, 2500, 1000, 2));
    assert_eq!((half.sent[0].to, half.sent[0].from), (ALICE, Some(HERE)), "from the address that was written to");
    assert_eq!(half.take(), [[0x80, 7, 0, 0, 0, 0, 3, 0, 0, 0, 2, 66, 0, 4, 0, 0, 0, 2, 0]]);
    let deliveries = half.deliveries();
    let [delivery] = &deliveries[..] else { panic!("{deliveries:?}") };
    assert_eq!(half.content(delivery), content(7, 2500));
    assert_eq!((delivery.number, delivery.source, delivery.size, delivery.loss.lost), (7, ALICE, 2500, 0));
    assert!(delivery.holes.is_empty());
    let seen = half.counters();
    assert_eq!((seen.packets_in_place, seen.packets_copied, seen.bytes_received), (3, 0, 2500));
    assert_eq!(half.rx().frames(), 1, "kept to answer");
    assert_eq!(half.hear(&data(7, 2500, 1000, 1)), ["7: ack 2, lost"]);
    assert!(half.take_events().is_empty());
    assert_eq!(half.hear(&control(0, &[Tag::FrameClose(7)])), [""; 0]);
    assert_eq!((half.rx().frames(), half.rx().bytes()), (0, 2500));
    let id = delivery.id;
    half.call(|rx| rx.release(id));
    assert_eq!(half.rx().bytes(), 0);
}

/// A frame of Alice's of `packets` packets of 100 bytes, of which `came` have come.
fn begun(packets: u32, tags: &[Tag<'_>], came: &[u32]) -> Half {
    let mut half = Half::new(Config::default());
    half.feed(&header(1, packets * 100, 100, tags));
    for &packet in came {
        half.feed(&packet_of(packets, packet));
    }
    half.take();
    half
}

fn packet_of(packets: u32, packet: u32) -> Vec<u8> {
    data(1, packets as usize * 100, 100, packet)
}

impl Half {
    fn packet(&mut self, packets: u32, packet: u32) -> Vec<String> {
        self.hear(&packet_of(packets, packet))
    }
}

/// One lost packet in six, in runs of any length.
const ONE_IN_SIX: [Tag<'_>; 3] = [Tag::ConsLoss(255), Tag::LossRate(26), Tag::Window(6)];

#[test]
fn worked_example_rate() {
    //= V-R2, V-R3, V-R4, V-R5, V-R8, V-R11, V-R12, V-R13 test
    let mut half = begun(20, &ONE_IN_SIX, &[0, 1, 3, 4, 5]);
    let expected = [&[0x80, 1, 0, 0, 0, 0][..], &[3, 0, 0, 0, 5], &[4, 0, 0, 0, 7], &[5, 0, 0, 0, 6], &[0]].concat();
    assert_eq!(half.ask(&packet_of(20, 7)), [expected]);
    let expected = [&[0x80, 1, 0, 0, 0, 0][..], &[3, 0, 0, 0, 7], &[4, 0, 0, 0, 6], &[0]].concat();
    assert_eq!(half.ask(&packet_of(20, 6)), [expected]);
    // loss_cnt is still 1: packet 2 leaves the window at 8, so 8 may be lost, and then 9 may not.
    assert_eq!(half.packet(20, 10), ["1: ack 8, single 10, nack 9"]);
    assert_eq!(half.counters().packets_nacked, 2);
}

#[test]
fn worked_example_run() {
    //= V-R3, V-R4, V-R11, V-R14, V-R16 test
    let mut half = begun(20, &[Tag::ConsLoss(1), Tag::LossRate(77), Tag::Window(6)], &[0, 1, 2, 4, 5, 6]);
    let expected =
        [&[0x80, 1, 0, 0, 0, 0][..], &[3, 0, 0, 0, 7], &[4, 0, 0, 0, 10], &[4, 0, 0, 0, 9], &[5, 0, 0, 0, 8], &[0]];
    assert_eq!(half.ask(&packet_of(20, 10)), [expected.concat()]);
    let expected = [&[0x80, 1, 0, 0, 0, 0][..], &[3, 0, 0, 0, 10], &[4, 0, 0, 0, 8], &[0]].concat();
    assert_eq!(half.ask(&packet_of(20, 8)), [expected]);
}

#[test]
fn paper_figures_6_and_7_what_is_needed_is_asked_for_at_once() {
    //= V-R11, V-R13, V-R14 test
    // Figure 6: waiting for 6, the receiver said nothing of 7, 8 and 9, and the sender repeated them all.
    // Figure 7: 7 and 9 are acknowledged one by one and 8 is asked for while 6, asked for before, is still missing.
    let mut half = begun(12, &[], &[0, 1, 2, 3, 4, 5]);
    assert_eq!(half.packet(12, 7), ["1: ack 5, single 7, nack 6"]);
    assert_eq!(half.packet(12, 9), ["1: ack 5, single 9, nack 8"]);
    // Only 6 and 8 have to come.
    assert_eq!(half.packet(12, 6), ["1: ack 7, single 6"]);
    assert_eq!(half.packet(12, 8), ["1: ack 9, single 8"]);
    assert_eq!(half.counters().packets_nacked, 2);
}

#[test]
fn an_allowed_loss_that_comes_after_all_is_taken_and_counts_no_more() {
    //= V-R10, V-R19 test
    let mut half = begun(20, &ONE_IN_SIX, &[0]);
    assert_eq!(half.packet(20, 2), ["1: ack 2, single 2"], "1 is an allowed loss");
    assert_eq!(half.packet(20, 1), ["1: ack 2"], "taken, but it is below the wait point");
    assert_eq!(half.packet(20, 4), ["1: ack 4, single 4"], "so 3 may be lost");
    assert_eq!(half.packet(20, 6), ["1: ack 4, single 6, nack 5"], "and 5 may not");
    assert_eq!(half.counters().packets_received, 5);
}

#[test]
fn an_allowed_loss_behind_a_waiting_packet_is_acknowledged_and_may_still_come() {
    //= V-R10, V-R16, V-R19 test
    let mut half = begun(20, &ONE_IN_SIX, &[0, 2]);
    assert_eq!(half.packet(20, 4), ["1: ack 2, single 4, nack 3"]);
    for packet in 5..8 {
        assert_eq!(half.packet(20, packet), [format!("1: ack 2, single {packet}")]);
    }
    assert_eq!(half.packet(20, 9), ["1: ack 2, single 9, single 8"]);
    assert_eq!(half.packet(20, 8), ["1: ack 2, single 8"], "above the wait point it is answered by name");
    assert_eq!(half.packet(20, 3), ["1: ack 9, single 3"]);
}

#[test]
fn a_waiting_packet_is_asked_for_once() {
    //= V-R8, V-R15 test
    let mut half = begun(10, &[], &[0, 2]);
    for packet in 3..8 {
        assert_eq!(half.packet(10, packet), [format!("1: ack 0, single {packet}")]);
    }
    half.millis(3000);
    assert_eq!(half.take(), [[0; 0]; 0], "the sender's deadline repeats it");
    assert_eq!(half.packet(10, 1), ["1: ack 7, single 1"]);
    assert_eq!(half.counters().packets_nacked, 1);
}

#[test]
fn critical_packets_are_always_asked_for() {
    //= V-R2, V-R11 test
    let tags =
        [Tag::ConsLoss(255), Tag::LossRate(255), Tag::CriticalPacket(1), Tag::CriticalInterval { first: 4, last: 5 }];
    let mut half = begun(8, &tags, &[]);
    assert_eq!(half.packet(8, 7), ["1: ack 0, single 7, single 2, single 3, single 6, nack 1, nack 4, nack 5"]);
    half.feed(&packet_of(8, 5));
    half.feed(&packet_of(8, 1));
    half.take();
    assert_eq!(half.packet(8, 4), ["1: ack 7, lost 0+1 2+2 6+1, single 4"]);
    let deliveries = half.deliveries();
    assert_eq!(deliveries[0].holes, [0..100, 200..400, 600..700]);
    assert_eq!((deliveries[0].loss.lost, deliveries[0].loss.longest_run), (4, 2));
    assert_eq!(deliveries[0].loss.ranges, [0..1, 2..4, 6..7]);
    assert_eq!(deliveries[0].contract.critical.to_string(), "[1,2) [4,6)");
}

#[test]
fn what_has_no_place_is_answered_and_not_stored() {
    //= V-R7, V-R9, V-R13 test
    let mut half = begun(40_000, &[], &[]);
    assert_eq!(half.packet(40_000, 16_384), ["1: "], "as far ahead as no sender goes");
    assert_eq!(half.packet(40_000, 0), ["1: ack 0, single 0"]);
    assert_eq!(half.packet(40_000, 0), ["1: ack 0"]);
    assert_eq!(half.packet(40_000, 2), ["1: ack 0, single 2, nack 1"]);
    assert_eq!(half.packet(40_000, 2), ["1: ack 0, single 2"], "a duplicate above the wait point");
    let beyond = crate::half::raw_data(1, 40_000, &[1, 2, 3]);
    assert_eq!(half.hear(&beyond), ["1: ack 0"], "of whatever length");
    assert_eq!(half.hear(&crate::half::raw_data(1, u32::MAX, &[])), ["1: ack 0"]);
    assert_eq!(half.counters().packets_received, 2);
    assert_eq!(half.counters().packets_unwanted, 5);
}

#[test]
fn a_batch_shares_one_answer() {
    //= V-R13 test
    let mut half = begun(20, &ONE_IN_SIX, &[0]);
    let packets = [3, 1, 6, 5].map(|packet| packet_of(20, packet));
    half.read(ALICE, pinnace_core::Ecn::NotCapable, &packets);
    let said: Vec<String> = half.take().iter().map(|datagram| crate::half::say(datagram)).collect();
    // 1 was an allowed loss and came, below the wait point; 2 was asked for; 4 may be lost; 5 was asked for and came.
    assert_eq!(said, ["1: ack 1, single 3, single 6, single 5, single 4, nack 2"]);
}

#[test]
fn the_rate_is_rounded_and_a_short_frame_keeps_it() {
    //= V-R5 test
    // 26/255 of 5 packets rounds to one; of 4 to none.
    for (packets, allowed) in [(5, true), (4, false)] {
        let mut half = begun(packets, &[Tag::ConsLoss(255), Tag::LossRate(26)], &[]);
        let said = half.packet(packets, 1);
        assert_eq!(said, [if allowed { "1: ack 1, single 1" } else { "1: single 1, nack 0" }]);
    }
    // One of the two alone allows nothing.
    for tag in [Tag::ConsLoss(255), Tag::LossRate(255)] {
        assert_eq!(begun(5, &[tag], &[]).packet(5, 1), ["1: single 1, nack 0"]);
    }
}

#[test]
fn the_rate_in_force_moves_between_floor_and_rate() {
    //= V-R11, V-R18 test
    let tags = [Tag::ConsLoss(255), Tag::LossRate(128), Tag::LossRateFloor(0), Tag::Window(4)];
    let mut half = begun(100, &tags, &[0]);
    let now = |count, rate| control(1, &[Tag::LossRateNow { count, rate }]);
    assert_eq!(half.packet(100, 2), ["1: ack 0, single 2, nack 1"], "it starts at the floor");
    assert_eq!(half.hear(&now(200, 255)), [""; 0]);
    assert_eq!(half.packet(100, 5), ["1: ack 0, single 5, single 3, single 4"], "never above the rate: two of four");
    assert_eq!(half.hear(&now(199, 0)), [""; 0], "an older count");
    assert_eq!(half.packet(100, 10), ["1: ack 0, single 10, single 7, single 8, nack 6, nack 9"]);
    half.feed(&now(200 - 128, 0));
    assert_eq!(half.packet(100, 12), ["1: ack 0, single 12, single 11"], "half the circle away is not newer");
    half.feed(&now(71, 0));
    assert_eq!(
        half.packet(100, 20),
        ["1: ack 0, single 20, nack 13, nack 14, nack 15, nack 16, nack 17, nack 18, nack 19"]
    );
    // Without a floor there is nothing to move.
    let mut half = begun(100, &[Tag::ConsLoss(255), Tag::LossRate(128), Tag::Window(4)], &[0]);
    half.feed(&now(1, 0));
    assert_eq!(half.packet(100, 2), ["1: ack 2, single 2"]);
}

#[test]
fn every_packet_is_decided_once() {
    //= V-R14 test
    let packets = 16_000;
    let mut half = Half::new(Config::default());
    half.feed(&header(1, packets * 100, 100, &[Tag::ConsLoss(1), Tag::LossRate(64), Tag::Window(16_384)]));
    // The last packet first: one decision for each of the others, though most are not said for want of budget.
    half.feed(&packet_of(packets, packets - 1));
    half.take();
    for packet in 0..packets - 1 {
        half.feed(&packet_of(packets, packet));
        assert!(half.take().iter().all(|datagram| !crate::half::say(datagram).contains("nack")));
    }
    assert_eq!(half.deliveries().len(), 1);
}
