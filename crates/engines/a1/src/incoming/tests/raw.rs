//! Raw mode: what is lost, and how the application sees it.

use super::*;

//= A-21 test
#[test]
fn a_gap_is_lost_at_once_and_late_blocks_are_dropped() {
    let mut half = Half::new(policy(false));
    half.blocks(0, 0, 1000, [0]);
    let took = half.new_block(&block(0, 0, 1000, 4));
    assert_eq!((took.lost, took.is_gap, took.is_readable), (3, false, true));
    assert_eq!(half.incoming.next_expected(), 5);
    for index in 0..5 {
        assert_eq!(half.take(&block(0, 0, 1000, index)), Took::only(Fate::Duplicate));
    }
    assert_eq!(half.nack(None, 9), []);
}

//= A-17 test
//= A-21 test
#[test]
fn holes_are_not_delivered_and_the_block_behind_each_is_marked() {
    let mut half = Half::new(policy(false));
    half.blocks(0, 0, 950, [0, 1, 3, 4, 6, 9]);
    assert_eq!(half.part(), Some((0, 200, "S".into())));
    let expected = [(0, 200, "S"), (300, 200, "L"), (600, 100, "L"), (900, 50, "EL")];
    assert_eq!(half.read_all(), parts(&expected));
    assert_eq!(half.released(), [0]);
    assert!(!half.incoming.is_lost());
}

//= A-17 test
//= A-21 test
#[test]
fn only_the_first_bytes_behind_a_gap_are_marked() {
    let mut half = Half::new(policy(false));
    half.blocks(0, 0, 500, [2, 3]);
    assert_eq!(half.part(), Some((200, 200, "L".into())), "no START: that was in a block that is lost");
    half.incoming.consume(30);
    assert_eq!(half.part(), Some((230, 170, String::new())));
    half.incoming.consume(100);
    assert_eq!(half.part(), Some((330, 70, String::new())));
}

//= A-9 test
//= A-21 test
#[test]
fn the_edge_moves_over_what_is_lost() {
    let mut half = Half::new(policy(false));
    half.blocks(0, 0, 1000, [3]);
    assert_eq!(half.incoming.edge(), 35, "nothing before it has to be consumed");
    half.blocks(0, 0, 1000, [7]);
    assert_eq!(half.incoming.edge(), 35, "block 3 is not consumed");
    half.incoming.consume(99);
    assert_eq!(half.incoming.edge(), 35);
    half.incoming.consume(1);
    assert_eq!(half.incoming.edge(), 39);
}

//= A-17 test
//= A-21 test
#[test]
fn a_message_of_which_nothing_came_is_only_the_mark() {
    let mut half = Half::new(policy(false));
    half.blocks(0, 0, 200, 0..2);
    half.blocks(5, 2, 100, 0..1);
    half.blocks(6, 3, 100, 0..1);
    assert_eq!(half.read_all(), parts(&[(0, 200, "SEW"), (0, 100, "SELW"), (0, 100, "SEW")]));
    // At the end of the direction there is no block to mark.
    assert_eq!(half.incoming.on_sync(7), Synced::Missing(0));
    assert!(!half.incoming.is_lost());
    assert_eq!(half.incoming.on_sync(9), Synced::Missing(2));
    assert!(half.incoming.is_lost() && half.part().is_none());
    assert_eq!((half.incoming.next_expected(), half.incoming.edge()), (9, 41));
    half.blocks(9, 5, 100, 0..1);
    assert_eq!(half.read_all(), parts(&[(0, 100, "SELW")]));
    assert!(!half.incoming.is_lost());
}

//= A-17 test
//= A-21 test
#[test]
fn lost_ends_and_lost_starts() {
    let mut half = Half::new(policy(false));
    half.blocks(0, 0, 300, 0..2);
    half.blocks(3, 1, 300, 1..3);
    assert_eq!(half.read_all(), parts(&[(0, 200, "SW"), (100, 200, "ELW")]));
    assert_eq!(half.released(), [0, 1]);
}

//= A-21 test
#[test]
fn a_sync_says_what_is_lost() {
    let mut half = Half::new(policy(false));
    half.blocks(0, 0, 500, 0..2);
    assert_eq!(half.part(), Some((0, 200, "S".into())), "more may come");
    assert_eq!(half.incoming.on_sync(5), Synced::Missing(3));
    assert_eq!(half.part(), Some((0, 200, "SW".into())), "nothing more will");
    assert_eq!(half.incoming.on_sync(5), Synced::Missing(0));
    let part = half.incoming.take_message().unwrap();
    assert_eq!(part.range, Some(BufferRange::new(BufferId::new(0), 0, 200)));
    assert_eq!((half.incoming.edge(), half.released()), (37, vec![]), "the buffer is the application's");
    assert_eq!(half.fate(&block(0, 0, 500, 2)), Fate::Duplicate);
}

//= A-21 test
#[test]
fn a_window_that_was_lost_as_a_whole_opens_again() {
    let mut half = Half::new(policy(false));
    assert_eq!(half.incoming.on_sync(32), Synced::Missing(32));
    assert_eq!((half.incoming.next_expected(), half.incoming.edge()), (32, 64));
    // A group goes on without waiting for a raw receiver.
    half.blocks(32, 8, 100, 0..1);
    assert_eq!(half.incoming.on_sync(1000), Synced::Missing(967));
    assert_eq!(half.incoming.edge(), 64, "one block is not consumed");
    assert_eq!(half.fate(&block(1000, 40, 100, 0)), Fate::Beyond);
    half.incoming.consume(100);
    assert_eq!(half.incoming.edge(), 1032);
    half.blocks(1000, 40, 100, 0..1);
    assert_eq!(half.part(), Some((0, 100, "SELW".into())));
    half.incoming.on_sync(u64::MAX);
    assert!(half.incoming.edge() < u64::MAX, "no number overflows");
    assert_ne!(half.fate(&single(u64::MAX - 1)), Fate::New);
}

//= A-21 test
#[test]
fn a_message_that_its_sender_cut_off_is_incomplete() {
    let mut half = Half::new(policy(false));
    // Blocks 2 to 4 of message 0 and all of message 1 were too old: they never had numbers.
    half.blocks(0, 0, 500, 0..2);
    half.blocks(2, 2, 200, 0..1);
    assert_eq!(half.part(), Some((0, 200, "SW".into())), "no END, and there is nothing more");
    half.blocks(2, 2, 200, 1..2);
    assert_eq!(half.read_all(), parts(&[(0, 200, "SW"), (0, 200, "SELW")]));
    // A whole message that never left.
    half.blocks(4, 4, 100, 0..1);
    assert_eq!(half.read_all(), parts(&[(0, 100, "SELW")]));
    assert_eq!(half.released(), [0, 1, 2]);
}

//= A-21 test
#[test]
fn messages_with_gaps_are_not_taken_whole() {
    let mut half = Half::new(policy(false));
    half.blocks(0, 0, 500, [0, 1, 3, 4]);
    assert!(half.incoming.take_message().is_none());
    assert_eq!(half.read_all(), parts(&[(0, 200, "S"), (300, 200, "EL")]));
    // The message ends with a gap that is known by the message behind it.
    half.blocks(5, 1, 500, [1, 2]);
    half.blocks(11, 3, 0, [0]);
    let part = half.incoming.take_message().unwrap();
    assert_eq!((part.starts, part.ends, part.is_lost), (false, false, true));
    assert_eq!(part.range, Some(BufferRange::new(BufferId::new(1), 100, 200)));
    assert_eq!(half.part(), Some((0, 0, "SELW".into())));
}
