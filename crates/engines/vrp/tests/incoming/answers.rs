//! Answers: how much they may say, what is left out first, where they go on, and what they report as lost (V-R13).

use crate::half::{ALICE, BOB, Half, control, data, header, raw_data, say};
use pinnace_core::Ecn;
use pinnace_vrp::{Config, Limits};
use pinnace_wire::vrp::{Control, Tag};

fn new() -> Half {
    Half::new(Config::default())
}

const ALL_MAY_BE_LOST: [Tag<'_>; 2] = [Tag::ConsLoss(1), Tag::LossRate(255)];

/// The words of all answers.
fn said(half: &mut Half) -> Vec<String> {
    half.take().iter().map(|bytes| say(bytes)).collect()
}

#[test]
fn never_more_bytes_leave_for_a_frame_than_came() {
    //= V-R13 test
    let mut half = new();
    let create = Tag::FrameCreate { frame: 1, size: 1000, packet_bytes: 1 };
    // 16 bytes in, 10 out: 6 are left. Every packet brings 7.
    assert_eq!(half.hear(&control(1, &[create])), ["1: ok"]);
    assert_eq!(half.hear(&data(1, 1000, 1, 0)), ["1: ack 0"], "13 bytes: SINGLE_ACK is left out");
    assert_eq!(half.hear(&data(1, 1000, 1, 1)), [""; 0], "8 bytes: nothing fits");
    assert_eq!(half.hear(&data(1, 1000, 1, 2)), ["1: ack 2"]);
    assert!(half.counters().answers_withheld >= 3);
    // NACK goes before SINGLE_ACK.
    let mut half = new();
    half.feed(&control(1, &[Tag::FrameCreate { frame: 1, size: 1000, packet_bytes: 4 }]));
    half.take();
    assert_eq!(half.hear(&data(1, 1000, 4, 1)), ["1: single 1"], "16 bytes: 12 said, NACK does not fit");
    assert_eq!(half.counters().packets_nacked, 0);
    assert_eq!(half.hear(&data(1, 1000, 4, 2)), ["1: single 2"]);
}

#[test]
fn the_loss_report_is_left_out_first() {
    //= V-R13 test
    let mut half = new();
    let tags = [Tag::FrameCreate { frame: 1, size: 8, packet_bytes: 4 }, Tag::ConsLoss(9), Tag::LossRate(255)];
    // 20 bytes in, 10 out, 10 in: 20 to say at most.
    half.feed(&control(1, &tags));
    half.take();
    assert_eq!(half.hear(&data(1, 8, 4, 1)), ["1: ack 1, single 1"], "17 bytes: the report takes ten");
    assert_eq!(half.deliveries()[0].loss.lost, 1);
    assert_eq!(half.hear(&data(1, 8, 4, 1)), ["1: ack 1"], "13");
    for _ in 0..6 {
        half.feed(&header(1, 8, 4, &tags[1..]));
    }
    assert_eq!(said(&mut half).last().unwrap(), "1: ok, ack 1, lost 0+1");
}

#[test]
fn losses_that_the_cumulative_ack_covers_take_no_room_from_those_behind_a_wait() {
    //= V-R13, V-R16 test
    let mut half = new();
    let terms = [Tag::ConsLoss(255), Tag::LossRate(255), Tag::CriticalPacket(90)];
    assert_eq!(half.hear(&header(1, 10_000, 100, &terms)), ["1: ok"]);
    // 160 bytes may be said. 90 packets may be lost before the one that may not, and eight behind it.
    let behind: String = (91..99).map(|packet| format!(", single {packet}")).collect();
    assert_eq!(half.hear(&data(1, 10_000, 100, 99)), [format!("1: ack 89, single 99{behind}, nack 90")]);
}

#[test]
fn what_was_acknowledged_one_by_one_is_said_again_where_there_is_room() {
    //= V-R13 test
    let mut half = new();
    half.feed(&header(1, 100_000, 1000, &[]));
    half.take();
    let hear = |half: &mut Half, packet| half.hear(&data(1, 100_000, 1000, packet));
    // Packet 0 is missing. Not before four answers as long as can be were paid for.
    assert_eq!(hear(&mut half, 1), ["1: single 1, nack 0"]);
    (2..6).for_each(|packet| assert_eq!(hear(&mut half, packet), [format!("1: single {packet}")]));
    assert_eq!(hear(&mut half, 6), ["1: single 6, single 5, single 4, single 3, single 2, single 1"]);
    // The newest sixteen, and what comes twice is nothing new.
    (7..40).for_each(|packet| half.feed(&data(1, 100_000, 1000, packet)));
    half.take();
    let sixteen: String = (24..40).rev().map(|packet| format!(", single {packet}")).collect();
    assert_eq!(hear(&mut half, 40), [format!("1: single 40{sixteen}")]);
    // What the cumulative acknowledgement covers is not said again.
    assert_eq!(hear(&mut half, 0), ["1: ack 40, single 0"]);
    assert_eq!(hear(&mut half, 42), ["1: ack 40, single 42, nack 41"]);
    assert_eq!(hear(&mut half, 43), ["1: ack 40, single 43, single 42"]);
    // Nor what the answer says anyway, because it came again.
    assert_eq!(hear(&mut half, 43), ["1: ack 40, single 43, single 42"]);
    assert_eq!(hear(&mut half, 44), ["1: ack 40, single 44, single 43, single 42"]);
}

#[test]
fn long_answers_go_on_in_further_packets_each_with_the_cumulative_ack() {
    //= V-R13 test
    let mut half = new();
    half.feed(&header(1, 2_000_000, 1000, &[]));
    half.take();
    half.holds_back = true;
    half.feed(&data(1, 2_000_000, 1000, 0));
    for packet in 0..700 {
        half.feed(&data(1, 2_000_000, 1000, 2 * packet + 2));
    }
    half.holds_back = false;
    half.drain();
    let answers = half.take();
    assert!(answers.len() >= 5 && answers.iter().all(|bytes| bytes.len() <= 1472));
    let (mut singles, mut nacks) = (Vec::new(), Vec::new());
    for answer in &answers {
        let tags: Vec<Tag<'_>> = Control::parse(answer).unwrap().tags().collect();
        assert_eq!(tags[0], Tag::Ack(0));
        for tag in &tags[1..] {
            match tag {
                Tag::SingleAck(packet) => singles.push(*packet),
                Tag::Nack(packet) => nacks.push(*packet),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(singles.into_iter().eq((0..=700).map(|packet| 2 * packet)));
    assert!(nacks.into_iter().eq((0..700).map(|packet| 2 * packet + 1)), "in the order of the decisions");
}

#[test]
fn a_long_loss_report_is_cut_and_says_how_much_was_lost() {
    //= V-R13 test
    let mut half = new();
    // Every second packet is lost: 500 ranges.
    half.feed(&header(1, 1_001_000, 1000, &ALL_MAY_BE_LOST));
    for packet in 0..500 {
        half.feed(&data(1, 1_001_000, 1000, 2 * packet));
    }
    half.take();
    let answer = half.ask(&data(1, 1_001_000, 1000, 1000));
    let [answer] = &answer[..] else { panic!("{answer:?}") };
    let tags: Vec<Tag<'_>> = Control::parse(answer).unwrap().tags().collect();
    assert_eq!(tags[0], Tag::Ack(1000));
    let mut ranges = Vec::new();
    for tag in &tags {
        if let Tag::LossReport(report) = tag {
            assert!((1..=31).contains(&report.iter().len()));
            ranges.extend(report.iter());
        }
    }
    let (last, others) = ranges.split_last().unwrap();
    assert_eq!(*last, (u32::MAX, 500));
    assert!(others.iter().enumerate().all(|(index, range)| *range == (2 * index as u32 + 1, 1)));
    assert!(answer.len() > 1455 && others.len() > 175, "{} bytes, {} ranges", answer.len(), others.len());
    let delivery = &half.deliveries()[0];
    assert_eq!((delivery.loss.ranges.len(), delivery.holes.len(), delivery.loss.is_complete), (500, 500, true));
    // It is said again each time.
    let again = half.ask(&data(1, 1_001_000, 1000, 5));
    assert!(say(&again[0]).contains("4294967295+500"));
}

#[test]
fn a_report_that_just_fits_is_whole() {
    //= V-R13 test
    for lost in [1, 30, 31, 32, 62, 63, 180, 181, 182, 183] {
        let mut half = new();
        let size = (2 * lost + 1) * 1000;
        half.feed(&header(1, size, 1000, &ALL_MAY_BE_LOST));
        for packet in 0..=lost {
            half.feed(&data(1, size as usize, 1000, 2 * packet));
        }
        half.take();
        let answer = half.ask(&data(1, size as usize, 1000, 0));
        let words = say(&answer[0]);
        assert_eq!(words.contains("4294967295"), lost > 181, "{lost}: {words}");
        assert_eq!(words.matches('+').count(), if lost > 181 { 181 } else { lost as usize });
        assert_eq!(words.matches("lost").count(), lost.min(181).div_ceil(31) as usize);
    }
}

#[test]
fn a_complete_frame_says_everything_in_time() {
    //= V-R13 test
    // Many acknowledgements and a long report in one drain: every packet has both, and none says less than it must.
    let mut half = new();
    half.feed(&header(1, 1_001_000, 1000, &ALL_MAY_BE_LOST));
    half.take();
    half.holds_back = true;
    for packet in 0..=500 {
        half.feed(&data(1, 1_001_000, 1000, 2 * packet));
    }
    half.holds_back = false;
    half.drain();
    let answers = half.take();
    let words: Vec<String> = answers.iter().map(|bytes| say(bytes)).collect();
    assert!(words.iter().all(|words| words.starts_with("1: ack 1000, lost ") && words.contains("4294967295+500")));
    assert_eq!(words.iter().map(|words| words.matches("single").count()).sum::<usize>(), 501);
}

#[test]
fn in_place_prediction_survives_losses_and_the_next_frame() {
    //= V-R12, V-R18 test
    let mut half = new();
    let size = 64_000;
    half.feed(&header(1, size, 1000, &[]));
    half.feed(&header(2, size, 1000, &[]));
    let train = |number, packets: core::ops::Range<u32>| -> Vec<_> {
        packets.map(|packet| data(number, size as usize, 1000, packet)).collect()
    };
    half.read(ALICE, Ecn::NotCapable, &train(1, 0..30));
    assert_eq!(half.counters().packets_copied, 0);
    // 30 is lost: what follows lands one place too early, and moves.
    half.read(ALICE, Ecn::NotCapable, &train(1, 31..40));
    assert_eq!(half.counters().packets_copied, 9);
    half.read(ALICE, Ecn::NotCapable, &train(1, 40..60));
    half.read(ALICE, Ecn::NotCapable, &train(1, 30..31));
    assert_eq!(half.counters().packets_copied, 10);
    half.read(ALICE, Ecn::NotCapable, &[train(1, 60..64), train(2, 0..30)].concat());
    half.read(ALICE, Ecn::NotCapable, &train(2, 30..40));
    assert_eq!(half.counters().packets_copied, 10, "one train runs from one frame into the next");
    // A run that was asked for comes again, and the sender goes on where it was.
    half.read(ALICE, Ecn::NotCapable, &train(2, 44..50));
    half.read(ALICE, Ecn::NotCapable, &train(2, 40..41));
    assert_eq!(half.counters().packets_copied, 17);
    half.read(ALICE, Ecn::NotCapable, &[train(2, 41..44), train(2, 50..64)].concat());
    assert_eq!(half.counters().packets_copied, 17);
    let deliveries = half.deliveries();
    for delivery in &deliveries {
        assert_eq!(half.content(delivery), crate::half::content(delivery.number, size as usize));
    }
    assert_eq!(deliveries.len(), 2);
}

#[test]
fn in_place_prediction_follows_frames_that_take_turns() {
    //= V-R12 test
    let mut half = new();
    let size = 40_000;
    // Ten frames, of which eight take turns of two packets; each that ends makes room for another.
    for number in 0..10 {
        half.feed(&header(number, size, 1000, &[Tag::ConsLoss(2), Tag::LossRate(64)]));
    }
    let mut next = [0; 10];
    let (mut round, mut waiting): (Vec<u16>, Vec<u16>) = ((0..8).collect(), vec![9, 8]);
    next[0] = 38;
    let mut packets = Vec::new();
    while !round.is_empty() {
        for number in round.clone() {
            let at = &mut next[usize::from(number)];
            packets.extend([*at, *at + 1].map(|packet| (number, packet)));
            *at += 2;
            if *at == 40 {
                match waiting.pop() {
                    Some(other) => round.iter_mut().filter(|it| **it == number).for_each(|it| *it = other),
                    None => round.retain(|it| *it != number),
                }
            }
        }
    }
    let read = |half: &mut Half, packets: &[(u16, u32)]| {
        for train in packets.chunks(17) {
            let train: Vec<_> = train.iter().map(|&(number, at)| data(number, size as usize, 1000, at)).collect();
            half.read(ALICE, Ecn::NotCapable, &train);
        }
    };
    let (learning, rest) = packets.split_at(3 * 16);
    read(&mut half, learning);
    let before = half.counters();
    let (lossless, lossy) = rest.split_at(17 * 12);
    read(&mut half, lossless);
    let copied = half.counters().packets_copied - before.packets_copied;
    assert_eq!(copied, 0, "of {}", lossless.len());
    // One in fifty is lost: what follows it in its train is not where it was foreseen, and no more.
    let lossy: Vec<_> = lossy.iter().enumerate().filter(|(at, _)| at % 50 != 30).map(|(_, packet)| *packet).collect();
    read(&mut half, &lossy);
    let copied = half.counters().packets_copied - before.packets_copied;
    assert!(copied < lossy.len() as u64 / 3, "{copied} of {}", lossy.len());
    for delivery in half.deliveries() {
        let holes: Vec<_> = delivery.holes.iter().map(|hole| hole.start as usize..hole.end as usize).collect();
        let mut expected = crate::half::content(delivery.number, size as usize);
        holes.into_iter().for_each(|hole| expected[hole].fill(0));
        assert_eq!(half.content(&delivery), expected);
    }
}

#[test]
fn in_place_prediction_of_small_frames_foresees_their_short_ends() {
    //= V-R12 test
    let mut half = new();
    // Full packets of all frames, and one short one; then the other short ones. Twice: what was learnt of the first lot must not
    // mislead.
    for lot in [0..20, 20..40] {
        let headers: Vec<_> = lot.clone().map(|number| header(number, 1350, 500, &[])).collect();
        half.read(ALICE, Ecn::NotCapable, &headers);
        let short = |number| data(number, 1350, 500, 2);
        let mut full: Vec<_> = lot.clone().flat_map(|number| [0, 1].map(|at| data(number, 1350, 500, at))).collect();
        full.push(short(lot.start));
        half.read(ALICE, Ecn::NotCapable, &full);
        half.read(ALICE, Ecn::NotCapable, &lot.clone().skip(1).map(short).collect::<Vec<_>>());
        assert_eq!(half.counters().packets_copied, 0, "of {lot:?}");
        let deliveries = half.deliveries();
        assert_eq!(deliveries.len(), 20);
        for delivery in &deliveries {
            assert_eq!(half.content(delivery), crate::half::content(delivery.number, 1350));
        }
    }
}

#[test]
fn answers_of_one_length_to_one_sender_share_a_train() {
    //= V-R13 test
    let mut half = new();
    half.limits = pinnace_core::TrainLimits::GSO;
    half.holds_back = true;
    let headers = |lot: core::ops::Range<u16>| lot.map(|number| header(number, 900, 1000, &[])).collect::<Vec<_>>();
    half.read(ALICE, Ecn::NotCapable, &headers(0..5));
    half.read(BOB, Ecn::NotCapable, &headers(0..3));
    half.read(ALICE, Ecn::NotCapable, &[data(0, 900, 1000, 0)]);
    half.holds_back = false;
    half.drain();
    let sent = half.take_sent();
    let trains: Vec<_> = sent
        .chunk_by(|one, next| one.train == next.train)
        .map(|train| (train[0].to, train.iter().map(|sent| say(&sent.bytes)).collect::<Vec<_>>()))
        .collect();
    // A shorter one may end a train, and a longer one begins another.
    let oks = |lot: core::ops::Range<u16>| lot.map(|number| format!("{number}: ok")).collect::<Vec<_>>();
    let first = ["0: ok, ack 0, lost, single 0".to_owned(), "1: ok".to_owned()].to_vec();
    assert_eq!(trains, [(ALICE, first), (ALICE, oks(2..5)), (BOB, oks(0..3))]);
}

#[test]
fn the_largest_packets_work() {
    //= V-R12 test
    let mut half = new();
    let size = 3 * 65_501 - 1;
    half.feed(&header(1, size as u32, 65_501, &[]));
    for packet in [0, 2, 1] {
        half.feed(&data(1, size, 65_501, packet));
    }
    let deliveries = half.deliveries();
    assert_eq!(half.content(&deliveries[0]), crate::half::content(1, size));
}

#[test]
fn ten_thousand_frames_of_a_thousand_senders() {
    //= V-R1 test
    let limits = Limits { frames: 10_000, ..Limits::default() };
    let mut half = Half::new(Config { limits, ..Config::default() });
    let senders = || (0..1000).map(|node| pinnace_core::Address::Node(1000 + node));
    for number in 0..10 {
        for sender in senders() {
            half.feed_from(sender, &header(number, 2000, 1000, &[]));
        }
    }
    assert_eq!(half.rx().frames(), 10_000);
    half.take();
    assert_eq!(half.hear(&header(0, 2000, 1000, &[])), ["0: refused"]);
    for packet in 0..2 {
        for number in 0..10 {
            for sender in senders() {
                half.feed_from(sender, &data(number, 2000, 1000, packet));
            }
        }
    }
    let deliveries = half.deliveries();
    assert_eq!(deliveries.len(), 10_000);
    for delivery in &deliveries {
        half.call(|rx| rx.release(delivery.id));
    }
    half.take();
    half.millis(20_000);
    assert_eq!((half.rx().frames(), half.rx().bytes(), half.rx().sources()), (0, 0, 0));
    assert!(half.hear(&raw_data(0, 0, &[])).is_empty());
}
