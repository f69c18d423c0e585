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
    assert_eq!((half.sent[0].0, half.sent[0].1), (ALICE, Some(HERE)), "from the address that was written to");
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
