//! Peers that lie, and limits.

use super::*;

fn unchanged(half: &mut Half, arrival: &Arrival, fate: Fate) {
    let mut before = format!("{:?}", half.incoming);
    let asked = half.sizes.len();
    assert_eq!(half.take(arrival), Took::only(fate), "{arrival:?}");
    if fate == Fate::NoRoom {
        // Only the answer is new.
        before = before.replace("is_urgent: false", "is_urgent: true");
    }
    assert_eq!(format!("{:?}", half.incoming), before, "{arrival:?}");
    assert_eq!(half.sizes.len(), asked + usize::from(fate == Fate::NoRoom && !half.has_storage));
}

//= A-20 test
#[test]
fn what_one_block_says_must_be_possible() {
    for reliable in [true, false] {
        let mut half = Half::new(policy(reliable));
        let good = block(0, 0, 1000, 0);
        let last = block(0, 0, 1000, 9);
        let impossible = [
            Arrival { len: 99, ..good },
            Arrival { len: 101, ..good },
            Arrival { len: 0, ..last },
            Arrival { len: 101, ..last },
            Arrival { count: 11, ..good },
            Arrival { count: 0, ..good },
            Arrival { count: u16::MAX, ..good },
            Arrival { index: 10, ..last },
            Arrival { starts: false, ..good },
            Arrival { ends: true, ..good },
            Arrival { ends: false, ..last },
            Arrival { starts: true, ..last },
            Arrival { number: 8, ..last },
            Arrival { number: u64::MAX, ..good },
        ];
        for arrival in &impossible {
            unchanged(&mut half, arrival, Fate::Contradiction);
        }
        // Longer than the largest message by one byte, in the last block.
        let mut tight = Half::new(Policy { max_message: 949, ..policy(reliable) });
        unchanged(&mut tight, &block(0, 0, 950, 9), Fate::Contradiction);
        assert_eq!(tight.fate(&block(0, 0, 949, 0)), Fate::New);
        assert_eq!(tight.sizes, [949], "not more than the largest message");
        assert_eq!(half.fate(&good), Fate::New);
    }
}

//= A-20 test
#[test]
fn blocks_of_a_message_must_agree() {
    for reliable in [true, false] {
        let mut half = Half::new(policy(reliable));
        half.blocks(0, 0, 300, 0..1);
        unchanged(&mut half, &block(0, 0, 400, 1), Fate::Contradiction);
        unchanged(&mut half, &block(1, 0, 300, 1), Fate::Contradiction);
        unchanged(&mut half, &Arrival { message: u32::MAX, ..block(0, 0, 300, 1) }, Fate::Contradiction);
        assert_eq!(half.fate(&block(0, 0, 300, 1)), Fate::New);
    }
}

//= A-20 test
#[test]
fn a_message_does_not_grow_beyond_its_storage_when_larger_ones_are_allowed() {
    for reliable in [true, false] {
        let mut half = Half::new(Policy { max_message: 250, ..policy(reliable) });
        half.blocks(0, 0, 300, [0]);
        assert_eq!(half.sizes, [250], "its last block is not known");
        half.incoming.set_limits(32, 1000);
        half.blocks(0, 0, 300, [1]);
        unchanged(&mut half, &block(0, 0, 300, 2), Fate::Contradiction);
        unchanged(&mut half, &block(0, 0, 251, 2), Fate::Contradiction);
        let place = half.new_block(&block(0, 0, 250, 2)).place;
        assert_eq!(place, Some(BufferRange::new(BufferId::new(0), 200, 50)));
        // The next one may be as large.
        half.blocks(3, 1, 1000, 0..10);
        assert_eq!((half.sizes, half.incoming.next_expected()), (vec![250, 1000], 13));
    }
}

//= A-20 test
#[test]
fn messages_must_not_overlap_or_leave_gaps() {
    let mut half = Half::new(policy(true));
    half.blocks(6, 3, 300, 1..2);
    let contradictions = [
        block(0, 1, 300, 0),  // message 0 has no block
        block(1, 0, 300, 0),  // the first one begins later
        block(0, 0, 600, 0),  // nothing left for messages 1 and 2
        block(5, 2, 200, 0),  // overlaps message 3
        block(3, 2, 200, 0),  // does not reach message 3
        block(10, 4, 300, 0), // does not touch message 3
        block(9, 6, 300, 0),  // nothing left for messages 4 and 5
        block(8, 4, 300, 1),  // begins within message 3
        block(1, 5, 100, 0),  // the later message comes first
        block(20, 1, 100, 0), // the earlier message comes last
        block(10, 0, 100, 0),
    ];
    for arrival in &contradictions {
        unchanged(&mut half, arrival, Fate::Contradiction);
    }
    // A second sight of a block that says something else.
    unchanged(&mut half, &block(7, 3, 300, 0), Fate::Contradiction);
    unchanged(&mut half, &block(7, 4, 300, 0), Fate::Contradiction);
    half.blocks(0, 0, 400, [2]);
    half.blocks(5, 2, 100, [0]);
    unchanged(&mut half, &block(4, 1, 200, 0), Fate::Contradiction);
    half.blocks(4, 1, 100, [0]);
    half.blocks(9, 4, 100, [0]);
    half.blocks(6, 3, 300, [0, 2]);
    half.blocks(0, 0, 400, [0, 1, 3]);
    assert_eq!(half.read_all().len(), 5);
}

#[test]
fn raw_messages_must_come_in_order() {
    let mut half = Half::new(policy(false));
    half.blocks(6, 3, 300, 1..2);
    for arrival in [block(8, 2, 100, 0), block(7, 4, 300, 1), block(6, 4, 300, 2), block(9, 3, 300, 2)] {
        unchanged(&mut half, &arrival, Fate::Contradiction);
    }
    half.read_all();
    half.blocks(6, 3, 300, 2..3);
    half.read_all();
    unchanged(&mut half, &block(9, 3, 300, 0), Fate::Contradiction);
    half.blocks(9, 4, 100, 0..1);
}

#[test]
fn without_storage_a_block_is_as_if_it_had_not_come() {
    for reliable in [true, false] {
        let mut half = Half::new(policy(reliable));
        half.has_storage = false;
        for arrival in [block(0, 0, 300, 0), block(5, 2, 300, 1)] {
            unchanged(&mut half, &arrival, Fate::NoRoom);
        }
        assert_eq!(half.ack_due(), Due::Now, "so that the sender does not give up");
        half.has_storage = true;
        assert_eq!(half.fate(&block(0, 0, 300, 0)), Fate::New);
    }
}

//= A-10 test
#[test]
fn storage_stays_within_the_window_and_one_message() {
    // Each raw block begins a message of the largest size.
    let mut half = Half::new(policy(false));
    let fates: Vec<Fate> = (0..32).map(|number| half.fate(&block(number, number as u32, 1000, 0))).collect();
    assert_eq!(half.sizes.iter().sum::<u64>(), 4000);
    assert!(fates[..4].iter().all(|fate| *fate == Fate::New) && fates[4..].iter().all(|fate| *fate == Fate::NoRoom));
    // What is read makes room.
    half.incoming.consume(100);
    assert_eq!(half.fate(&block(32, 32, 1000, 0)), Fate::New);
    assert_eq!(half.released(), [0]);
    // Reliable messages cannot overlap, so one at most reaches over the edge.
    let mut half = Half::new(policy(true));
    for message in (0..4u32).rev() {
        half.new_block(&block(u64::from(message) * 10, message, 1000, 0));
    }
    assert_eq!(half.sizes.iter().sum::<u64>(), 4000);
}

#[test]
fn fragments_are_bounded() {
    let window = 1 << 18;
    let mut half = Half::new(Policy { window, max_message: BLOCK.into(), ..policy(true) });
    let mut kept = 0;
    for number in (1..window).step_by(2) {
        match half.fate(&single(number)) {
            Fate::New => kept += 1,
            fate => assert_eq!(fate, Fate::NoRoom),
        }
    }
    assert_eq!(kept, MAX_RANGES);
    // What touches something that has come is still taken, and fills gaps.
    assert_eq!(half.fate(&single(2 * MAX_RANGES as u64)), Fate::New);
    assert_eq!(half.fate(&single(2)), Fate::New);
    assert_eq!(half.fate(&single(window - 1)), Fate::New);
    assert_eq!(half.fate(&single(window - 3)), Fate::NoRoom);
    assert_eq!(half.fate(&single(0)), Fate::New);
}

#[test]
fn memory_for_messages_follows_what_has_come_and_not_how_far_ahead_it_is() {
    let window = (1 << 20) - 1;
    let mut half = Half::new(Policy { window, max_message: BLOCK.into(), ..policy(true) });
    half.new_block(&single(window - 1));
    assert!(half.incoming.messages.room() < 10, "one block of the last message that there can be");
    // Those between may come from any side, and in pieces.
    let most = 3000;
    for number in (most / 2..most).rev().chain((1..most / 2).step_by(2)).chain((2..most / 2).step_by(2)) {
        half.new_block(&single(number));
    }
    assert_eq!((half.part(), half.incoming.next_expected()), (None, 0));
    let room = half.incoming.messages.room();
    assert!(room < 2 * most as usize, "{room}");
    half.new_block(&single(0));
    assert_eq!(half.read_all().len() as u64, most);
    let sums = half.released().into_iter().map(u64::from).sum::<u64>();
    assert_eq!(sums, (1..=most).sum(), "all but the first that came");
    assert!(half.incoming.messages.allocated() == u64::from(BLOCK) && !half.incoming.messages.is_in_order());
}

#[test]
fn small_messages_count_for_what_they_take() {
    let mut half = Half::new(policy(true));
    for number in 1..=10 {
        half.new_block(&block(number, number as u32, 1, 0));
    }
    // An empty one has no storage.
    half.new_block(&block(11, 11, 0, 0));
    assert_eq!(half.incoming.allocated() + half.incoming.beside(), 11 * LEAST_COST);
    half.new_block(&block(0, 0, 1, 0));
    for left in (0..12).rev() {
        let part = half.incoming.readable().expect("all have come");
        half.incoming.consume(part.len());
        assert_eq!(half.incoming.allocated() + half.incoming.beside(), left * LEAST_COST);
    }
}
