//! Messages: where they end, what tags they have.

use super::*;

//= X-17 test
#[test]
fn messages_end_at_eom_and_tags_come_with_their_first_byte() {
    let mut incoming = stream(Keeping::Selective);
    incoming.data(&message(150..200));
    incoming.data(&tagged(100..150, 2));
    incoming.data(&Piece { btag: Some([1; 8]), ..message(0..100) });
    let readable = incoming.readable();
    assert_eq!((readable.len, readable.message, readable.btag), (200, Some(100), Some([1; 8])));
    incoming.consume(60);
    let readable = incoming.readable();
    assert_eq!((readable.message, readable.btag), (Some(40), None), "a tag is told with the first byte only");
    incoming.consume(40);
    let readable = incoming.readable();
    assert_eq!((readable.message, readable.btag), (Some(100), Some([2; 8])));
    incoming.consume(100);
    let readable = incoming.readable();
    assert_eq!((readable.len, readable.message, readable.btag), (0, None, None));
}

#[test]
fn a_finer_cut_has_the_marks_on_its_parts() {
    let mut incoming = stream(Keeping::Selective);
    let whole = Piece { btag: Some([1; 8]), ..message(0..100) };
    for part in [message(60..100), piece(30..60), tagged(0..30, 1), whole] {
        assert_ne!(incoming.fate(&part), Fate::Contradiction);
    }
    for part in [message(60..100), piece(30..60), tagged(0..30, 1)] {
        assert_eq!(incoming.fate(&part), Fate::Duplicate);
    }
    assert_eq!((incoming.readable().message, incoming.readable().btag), (Some(100), Some([1; 8])));
}

#[test]
fn where_a_tagged_message_begins_another_has_ended() {
    let mut incoming = stream(Keeping::NoError);
    incoming.data(&piece(0..100));
    incoming.data(&tagged(200..300, 2)); // the packet with EOM is lost
    assert_eq!(incoming.readable().message, Some(200));
    incoming.consume(200);
    assert_eq!(incoming.readable().btag, Some([2; 8]));
    // Without a tag the messages merge.
    incoming.data(&message(400..500));
    assert_eq!(incoming.readable().message, Some(300));
    assert_eq!(incoming.holes().collect::<Vec<_>>(), one(100..200));
}

#[test]
fn an_empty_message_is_taken_once() {
    let mut incoming = stream(Keeping::Selective);
    let empty = Piece { end: Some(0), btag: Some([9; 8]), ..message(0..0) };
    let taken = incoming.data(&empty).0;
    assert!(taken.fate == Fate::New && taken.completed);
    let readable = incoming.readable();
    assert_eq!((readable.len, readable.message, readable.btag, readable.is_end), (0, Some(0), Some([9; 8]), true));
    assert_eq!(incoming.fate(&empty), Fate::Duplicate);
    incoming.consume(0);
    assert_eq!((incoming.readable().message, incoming.readable().btag), (None, None));
    assert_eq!(incoming.fate(&empty), Fate::Duplicate, "consumed already");
    assert_eq!(incoming.readable().message, None);
}

#[test]
fn an_empty_packet_can_end_a_message_that_is_all_in() {
    let mut incoming = stream(Keeping::Selective);
    incoming.data(&piece(0..100));
    assert_eq!(incoming.fate(&message(50..50)), Fate::Duplicate, "in the midst of what is in");
    assert_eq!(incoming.fate(&message(150..150)), Fate::Dropped, "too early");
    assert_eq!(incoming.fate(&piece(100..100)), Fate::Duplicate, "it says nothing");
    assert_eq!(incoming.fate(&message(100..100)), Fate::New);
    assert_eq!(incoming.readable().message, Some(100));
    incoming.consume(100);
    assert_eq!(incoming.fate(&message(100..100)), Fate::Duplicate);
    assert_eq!(incoming.hseq(), 100);
}

//= X-17 test
#[test]
fn an_empty_packet_that_ends_a_message_leaves_the_tag_of_the_next() {
    let mut incoming = stream(Keeping::Selective);
    incoming.data(&piece(0..100));
    incoming.consume(100);
    assert_eq!(incoming.fate(&message(100..100)), Fate::New);
    let next = Piece { btag: Some([2; 8]), ..message(100..200) };
    assert_eq!(incoming.fate(&next), Fate::New);
    assert_eq!((incoming.readable().message, incoming.readable().btag), (Some(0), None), "the rest of the first");
    incoming.consume(0);
    assert_eq!((incoming.readable().message, incoming.readable().btag), (Some(100), Some([2; 8])));
    assert_eq!(incoming.fate(&next), Fate::Duplicate, "it contradicts nothing");
}

#[test]
fn boundaries_are_bounded_and_never_block_the_stream() {
    let mut incoming = stream(Keeping::Selective);
    for i in 1..9 {
        assert_eq!(incoming.fate(&message(i..i + 1)), Fate::New);
    }
    assert_eq!(incoming.fate(&message(9..10)), Fate::Dropped);
    assert_eq!(incoming.fate(&piece(9..10)), Fate::New, "no mark, no limit");
    assert_eq!(incoming.fate(&tagged(10..11, 1)), Fate::Dropped);
    assert_eq!(incoming.fate(&message(0..1)), Fate::New, "without it nothing could be delivered");
    assert_eq!(incoming.fate(&message(10..11)), Fate::Dropped);
    for _ in 0..2 {
        incoming.consume(incoming.readable().message.unwrap());
    }
    assert_eq!(incoming.fate(&message(10..11)), Fate::New);

    // Nor in order, where there is a shorter way.
    let mut incoming = stream(Keeping::Selective);
    let new = (0..100).filter(|i| incoming.fate(&message(*i..i + 1)) == Fate::New).count();
    assert_eq!(new, 8);
}

#[test]
fn tags_are_bounded_and_never_block_the_stream() {
    const MOST: u64 = MAX_TAGS as u64;
    let large = Policy { rwindow: 10_000, max_boundaries: 10_000, ..policy(Keeping::Selective) };
    let mut incoming = Incoming::new(large);
    incoming.set_ring(RING, 10_000);
    let whole = |low: u64| Piece { btag: Some([1; 8]), ..message(low..low + 1) };
    let new = (0..MOST + 100).filter(|low| incoming.fate(&whole(*low)) == Fate::New).count();
    assert_eq!(new, MAX_TAGS);
    assert_eq!(incoming.fate(&message(MOST..MOST + 1)), Fate::New, "no tag, no limit");
    assert_eq!(incoming.fate(&whole(MOST + 1)), Fate::Dropped);
    incoming.consume(1);
    assert_eq!(incoming.fate(&whole(MOST + 1)), Fate::New);
}

//= X-17 test
#[test]
fn the_ends_of_messages_take_less_memory_than_their_bytes() {
    const BYTES: u64 = 262_144;
    for step in [1, 2, 63, 64, 65, 1400] {
        let large = Policy { rwindow: BYTES as u32, max_boundaries: usize::MAX, ..policy(Keeping::Selective) };
        let mut incoming = Incoming::new(large);
        incoming.set_ring(RING, BYTES);
        let messages = BYTES / step;
        for at in 0..messages {
            assert_eq!(incoming.fate(&message(at * step..at * step + step)), Fate::New, "{step}: {at}");
        }
        assert_eq!(incoming.marks.ends() as u64, messages);
        assert!(incoming.marks.heap_bytes() as u64 <= BYTES / 2 + 1000, "{step}: {}", incoming.marks.heap_bytes());
        for _ in 0..messages {
            assert_eq!(incoming.readable().message, Some(step));
            incoming.consume(step);
        }
        assert_eq!((incoming.marks.ends(), incoming.readable().message), (0, None));
    }
}

//= X-14 test
#[test]
fn what_finds_no_room_for_its_end_is_one_gap() {
    let mut incoming = stream(Keeping::Selective);
    for low in 0..8 {
        assert_eq!(incoming.fate(&message(10 * low..10 * low + 10)), Fate::New);
    }
    for low in 8..20 {
        let taken = incoming.data(&message(10 * low..10 * low + 10)).0;
        assert_eq!((taken.fate, taken.is_gap), (Fate::Dropped, false), "nothing is missing before it");
    }
    assert_eq!((incoming.rseq(), incoming.hseq()), (80, 200));
    assert!(incoming.data(&message(300..310)).0.is_gap);
    assert!(!incoming.data(&message(310..320)).0.is_gap, "the same gap");
    incoming.consume(10);
    assert_eq!(incoming.fate(&message(80..90)), Fate::New, "it comes again");
}
