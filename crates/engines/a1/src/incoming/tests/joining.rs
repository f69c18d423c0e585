//! Groups that are joined while messages are under way: the first block may be in the middle of any message.

use super::*;

fn joined(reliable: bool) -> Half {
    Half::new(Policy { makes_ahead: false, joins: true, ..policy(reliable) })
}

/// Block `index` of a message of `bytes` bytes of which block `from` is block 0 of ours.
fn after(from: u16, message: u32, bytes: u32, index: u16) -> Arrival {
    Arrival { number: u64::from(index - from), ..block(0, message, bytes, index) }
}

#[test]
fn the_rest_of_a_message_is_read_without_its_start() {
    for reliable in [true, false] {
        let mut half = joined(reliable);
        for index in 3..6 {
            half.new_block(&after(3, 77, 550, index));
        }
        half.blocks(3, 78, 100, 0..1);
        assert_eq!(half.read_all(), parts(&[(300, 250, "EW"), (0, 100, "SEW")]), "nothing was lost");
    }
}

#[test]
fn the_first_message_is_found_whatever_comes_first() {
    let mut half = joined(true);
    half.blocks(6, 1, 100, 0..1);
    half.blocks(4, 0, 200, 1..2);
    assert_eq!(half.part(), None);
    assert_eq!(half.fate(&after(1, u32::MAX - 5, 500, 1)), Fate::Contradiction, "no room for those between");
    assert_eq!(half.fate(&after(1, u32::MAX, 600, 1)), Fate::Contradiction, "overlaps message 0");
    half.new_block(&after(1, u32::MAX, 500, 1));
    assert_eq!(half.part(), Some((100, 100, String::new())));
    for index in 2..5 {
        half.new_block(&after(1, u32::MAX, 500, index));
    }
    half.blocks(4, 0, 200, 0..1);
    assert_eq!(half.read_all(), parts(&[(100, 400, "EW"), (0, 200, "SEW"), (0, 100, "SEW")]));
    assert_eq!(half.incoming.edge(), 39);
}

#[test]
fn what_is_lost_after_joining_is_lost() {
    let mut half = joined(false);
    half.new_block(&after(3, 77, 800, 5));
    assert_eq!(half.read_all(), parts(&[(500, 100, "L")]));
    half.blocks(9, 90, 100, 0..1);
    assert_eq!(half.read_all(), parts(&[(0, 100, "SELW")]));
    assert_eq!(half.fate(&block(10, 89, 100, 0)), Fate::Contradiction);
}

#[test]
fn who_does_not_join_begins_with_message_0() {
    for reliable in [true, false] {
        let mut half = Half::new(policy(reliable));
        assert_eq!(half.fate(&after(3, 0, 550, 3)), Fate::Contradiction);
    }
    assert_eq!(Half::new(policy(true)).fate(&block(0, 1, 100, 0)), Fate::Contradiction);
}
