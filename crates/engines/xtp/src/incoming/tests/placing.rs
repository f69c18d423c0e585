//! Where bytes go, and where they are expected.

use super::*;
use pinnace_core::{ReceivePlan, Slot};

fn range(offset: u64, len: u32) -> BufferRange {
    BufferRange::new(RING, offset, len)
}

fn places(incoming: &mut Incoming, piece: &Piece) -> Vec<(Range<u32>, BufferRange)> {
    let mut places = Vec::new();
    incoming.on_data(piece, &mut |bytes, range| places.push((bytes, range)));
    places
}

fn plan(incoming: &Incoming, datagrams: usize) -> Vec<Slot> {
    let mut plan = ReceivePlan::new();
    plan.reset(datagrams);
    incoming.plan(&mut plan, 32, 8);
    plan.slots().to_vec()
}

//= X-4 test
#[test]
fn a_packet_over_the_end_of_the_ring_lies_in_two_parts() {
    let mut incoming = stream(Keeping::Selective);
    incoming.data(&piece(0..950));
    incoming.consume(900);
    assert_eq!(incoming.data(&piece(900..950)).0.fate, Fate::Duplicate);
    assert_eq!(places(&mut incoming, &piece(950..1050)), [(0..50, range(950, 50)), (50..100, range(0, 50))]);
    assert_eq!(places(&mut incoming, &piece(1040..1100)), [(10..60, range(50, 50))]);
    let readable = incoming.readable();
    assert_eq!((readable.parts, readable.len), ([range(900, 100), range(0, 100)], 200));
    incoming.consume(200);
    assert_eq!(incoming.readable().len, 0);
}

//= X-4 test
#[test]
fn the_application_says_where_its_ring_begins() {
    let mut incoming = Incoming::new(policy(Keeping::Selective));
    incoming.set_ring_at(RING, 1000, 0);
    incoming.data(&piece(0..130));
    incoming.consume(130);
    assert_eq!(incoming.take_ring(), Some(RING));
    incoming.set_ring_at(RING, 300, 200);
    assert_eq!(places(&mut incoming, &piece(130..140)), [(0..10, range(30, 10))], "(200 + 130) mod 300");
    assert_eq!(incoming.take_ring(), None, "something is in it");
    incoming.consume(10);
    assert_eq!(incoming.take_ring(), Some(RING));
    assert!(incoming.needs_ring());
    assert_eq!(incoming.fate(&piece(140..150)), Fate::Beyond, "no memory");
    incoming.set_ring(RING, 1000);
    assert_eq!(places(&mut incoming, &piece(140..150)), [(0..10, range(0, 10))]);
    assert!(!incoming.set_ring(BufferId::new(1), 10) && !incoming.takes_areas(), "there is one");
    incoming.post(BufferId::new(2), 0, 10);
    assert_eq!(incoming.release(), Some(RING));
    assert_eq!(incoming.release(), None);
    assert!(!incoming.set_ring(RING, 0), "no bytes, no ring");
}

//= X-8 test
#[test]
fn posted_areas_are_filled_one_after_the_other() {
    let mut incoming = Incoming::new(Policy { is_reserved: true, ..policy(Keeping::Selective) });
    let (a, b, c) = (BufferId::new(1), BufferId::new(2), BufferId::new(3));
    assert_eq!((incoming.alloc(), incoming.needs_ring()), (0, false));
    assert_eq!(incoming.fate(&piece(0..10)), Fate::Beyond, "nothing is posted");
    assert!(incoming.post(a, 5, 100), "the window opens");
    incoming.post(b, 0, 50);
    assert_eq!(incoming.alloc(), 150);
    let (taken, new) = incoming.data(&piece(80..180));
    assert_eq!((taken.fate, new), (Fate::New, one(80..150)), "not beyond what is posted");
    let expected = [(0..80, BufferRange::new(a, 5, 80))];
    assert_eq!(places(&mut incoming, &piece(0..90)), expected);
    let readable = incoming.readable();
    assert_eq!(readable.parts, [BufferRange::new(a, 5, 100), BufferRange::new(b, 0, 50)]);
    assert_eq!(incoming.poll_filled(), None);
    assert!(incoming.post(c, 0, 500), "alloc had been reached");
    assert!(incoming.consume(100), "alloc had been reached, and is not told yet");
    assert_eq!(incoming.alloc(), 650);
    assert!(!incoming.is_status_due());
    assert_eq!(incoming.poll_filled(), Some(a));
    assert_eq!(incoming.poll_filled(), None);
    assert_eq!(incoming.fate(&last(150..200)), Fate::New);
    incoming.consume(100);
    assert_eq!(incoming.poll_filled(), Some(b));
    assert_eq!(incoming.poll_filled(), Some(c), "the stream ends in it");
    assert_eq!(incoming.release(), None);
}

//= X-4 test
#[test]
fn packets_are_expected_behind_the_newest_and_of_its_size() {
    let mut incoming = stream(Keeping::Selective);
    assert_eq!(plan(&incoming, 1), [Slot::Pooled(32), Slot::Payload(range(0, 100)), Slot::Pooled(8)], "maxdata");
    incoming.data(&piece(0..450));
    incoming.consume(450);
    let expected = [
        vec![Slot::Pooled(32), Slot::Payload(range(450, 450)), Slot::Pooled(8)],
        vec![Slot::Pooled(32), Slot::Payload(range(900, 100)), Slot::Payload(range(0, 350)), Slot::Pooled(8)],
        // The window ends there.
        vec![Slot::Pooled(32), Slot::Payload(range(350, 100)), Slot::Pooled(350), Slot::Pooled(8)],
    ];
    assert_eq!(plan(&incoming, 8), expected.concat());
    assert_eq!(plan(&incoming, 2), expected[..2].concat());
}

#[test]
fn a_short_packet_at_the_end_of_a_message_is_no_rule_but_two_are() {
    let mut incoming = stream(Keeping::Selective);
    incoming.data(&piece(0..100));
    incoming.data(&message(100..140));
    assert_eq!(incoming.expected_size(), 100);
    incoming.data(&message(140..180));
    assert_eq!(incoming.expected_size(), 40);
    incoming.data(&piece(180..250));
    assert_eq!(incoming.expected_size(), 70);
}

//= X-4 test
#[test]
fn repetitions_are_expected_in_what_is_missing() {
    let mut incoming = stream(Keeping::Selective);
    let payloads = |incoming: &Incoming| -> Vec<(u64, u32)> {
        let slots = plan(incoming, 4);
        slots
            .iter()
            .filter_map(|slot| if let Slot::Payload(at) = slot { Some((at.offset, at.len)) } else { None })
            .collect()
    };
    incoming.data(&piece(100..200));
    incoming.data(&piece(300..400));
    incoming.data(&piece(600..700));
    assert_eq!(payloads(&incoming), [(700, 100), (800, 100), (900, 100)]);
    incoming.data(&piece(0..100));
    assert_eq!(payloads(&incoming), [(200, 100), (400, 100), (500, 100), (700, 100)], "gap after gap, then on");
    incoming.on_end(700);
    assert_eq!(payloads(&incoming), [(200, 100), (400, 100), (500, 100)], "nothing comes behind the end");

    let mut incoming = stream(Keeping::GoBackN);
    incoming.data(&piece(0..100));
    incoming.data(&piece(300..400));
    assert_eq!(payloads(&incoming)[0], (100, 100), "all from the gap on comes again");
    assert!(payloads(&Incoming::new(policy(Keeping::Selective))).is_empty(), "no memory, no plan");
}
