//! Blocks and the edge.

use super::*;

//= A-6 test
//= A-20 test
#[test]
fn blocks_land_where_they_belong_in_any_order() {
    let mut half = Half::new(policy(true));
    for index in [3, 0, 2, 1] {
        let took = half.new_block(&block(0, 0, 350, index));
        let place = BufferRange::new(BufferId::new(0), u64::from(index) * 100, if index == 3 { 50 } else { 100 });
        assert_eq!((took.place, took.is_readable), (Some(place), matches!(index, 0 | 1)), "block {index}");
    }
    assert_eq!(half.sizes, [350], "one piece of storage, of the right size, because the last block came first");
    assert_eq!(half.part(), Some((0, 350, "SEW".into())));
}

//= A-20 test
#[test]
fn storage_is_asked_for_once_and_only_for_bytes() {
    let mut half = Half::new(policy(true));
    half.blocks(0, 0, 250, 0..3);
    half.blocks(3, 1, 30, 0..1);
    half.blocks(4, 2, 1000, 0..10);
    let empty = half.new_block(&block(14, 3, 0, 0));
    assert_eq!((half.sizes.as_slice(), empty.place), ([300, 30, 1000].as_slice(), None));
}

//= A-9 test
//= A-10 test
#[test]
fn the_edge_counts_what_the_application_has_not_consumed() {
    let mut half = Half::new(policy(true));
    assert_eq!(half.incoming.edge(), 32);
    half.blocks(0, 0, 1000, 0..10);
    half.blocks(10, 1, 1, 0..1);
    assert_eq!((half.incoming.edge(), half.incoming.next_expected()), (32, 11), "processed, but not consumed");
    half.incoming.consume(99);
    assert_eq!(half.incoming.edge(), 32);
    half.incoming.consume(1);
    assert_eq!(half.incoming.edge(), 33);
    half.incoming.consume(850);
    assert_eq!(half.incoming.edge(), 41);
    half.incoming.consume(50);
    assert_eq!(half.incoming.edge(), 42, "consumed");
    assert!(half.incoming.take_message().is_some());
    assert_eq!(half.incoming.edge(), 43, "however short, a block counts whole");
}

//= A-10 test
#[test]
fn blocks_from_the_edge_on_are_dropped() {
    let mut half = Half::new(policy(true));
    assert_eq!(half.fate(&single(32)), Fate::Beyond);
    assert_eq!(half.fate(&single(31)), Fate::New);
    assert_eq!(half.fate(&single(u64::MAX)), Fate::Contradiction, "there is no such number");
    half.new_block(&single(0));
    half.incoming.consume(100);
    assert_eq!(half.fate(&single(32)), Fate::New);
    assert_eq!(half.sizes.len(), 3);
}

//= A-9 test
#[test]
fn the_edge_never_goes_back() {
    let mut half = Half::new(policy(true));
    half.incoming.set_limits(8, 0);
    assert_eq!(half.incoming.edge(), 32, "what was told stays true");
    for number in 0..30 {
        half.new_block(&single(number));
        half.incoming.consume(100);
        assert_eq!(half.incoming.edge(), 32.max(number + 9));
    }
    half.incoming.set_limits(1 << 40, 0);
    assert_eq!(half.incoming.edge(), 30 + (1 << 20) - 1, "windows are below 2^20");
}

//= A-7 test
#[test]
fn only_what_is_missing_is_named() {
    let mut half = Half::new(policy(true));
    half.blocks(0, 0, 1000, [0, 1, 4, 5, 9]);
    half.blocks(10, 1, 1000, [3]);
    assert_eq!(half.ack(), (2, 32, vec![(4, 6), (9, 10), (13, 14)]));
    assert_eq!(half.nack(None, 9), [(2, 4), (6, 9), (10, 13)]);
    half.blocks(0, 0, 1000, [2, 3]);
    assert_eq!(half.ack(), (6, 32, vec![(9, 10), (13, 14)]));
}

//= A-7 test
#[test]
fn duplicates_change_nothing() {
    let mut half = Half::new(policy(true));
    half.blocks(0, 0, 1000, [0, 1, 4]);
    for index in [0, 1, 4] {
        assert_eq!(half.take(&block(0, 0, 1000, index)), Took::only(Fate::Duplicate));
    }
    half.incoming.consume(200);
    assert_eq!(half.fate(&block(0, 0, 1000, 1)), Fate::Duplicate, "consumed");
    assert_eq!(half.ack(), (2, 34, vec![(4, 5)]));
}

#[test]
fn a_stream_in_order_needs_no_more_memory_than_its_window() {
    for reliable in [true, false] {
        let mut half = Half::new(Policy { window: 256, ..policy(reliable) });
        let mut room = 0;
        for message in 0..1000u32 {
            half.blocks(u64::from(message) * 4, message, 350, 0..4);
            assert!(half.incoming.messages.is_in_order());
            if message % 10 == 9 {
                half.read_all();
                half.ack();
                assert_eq!(half.released().len(), 10);
            }
            match message {
                100 => room = half.incoming.messages.room(),
                101.. => assert_eq!(half.incoming.messages.room(), room),
                _ => {}
            }
        }
        assert_eq!((&half.incoming.ahead, &half.incoming.holes), (&IntervalSet::new(), &IntervalSet::new()));
        assert_eq!(half.incoming.messages.allocated(), 0);
    }
}

#[test]
fn message_numbers_wrap() {
    let mut messages = Messages::new(true, false);
    assert_eq!(messages.number(0) + 5, messages.number(5));
    assert_eq!(messages.number(0) - 1, messages.number(u32::MAX));
    for number in 0..70u64 {
        let message = messages.number((number as u32).wrapping_mul(1 << 26));
        assert_eq!(message, (1 << 32) + (number << 26), "the numbers go on and on");
        messages = Messages::starting_at(message);
    }
}

#[test]
fn a_half_that_was_closed_gives_everything_back() {
    let mut half = Half::new(policy(true));
    half.blocks(0, 0, 300, [0, 2]);
    half.new_block(&block(4, 2, 100, 0));
    assert_eq!(half.incoming.nack_due(half.now, None), Due::Now);
    half.incoming.close();
    let mut released = half.released();
    released.sort_unstable();
    assert_eq!((released, half.part()), (vec![0, 1], None));
    assert_eq!(half.fate(&block(0, 0, 300, 1)), Fate::Beyond);
    assert_eq!(half.incoming.nack_due(half.now, None), Due::No);
}

#[test]
fn a_half_that_was_closed_invites_nothing_and_asks_for_nothing() {
    let mut half = Half::new(policy(true));
    half.blocks(0, 0, 300, [0, 1]);
    let told = half.incoming.edge();
    half.incoming.close();
    assert_eq!((half.incoming.edge(), half.incoming.next_expected()), (told, 2));
    assert_eq!(half.incoming.on_sync(20), Synced::Missing(0));
    assert_eq!(half.incoming.nack_due(half.now, None), Due::No);
    assert_eq!(half.incoming.on_sync(told + 1), Synced::Contradiction);
}
