//! Where the next blocks are expected.

use super::*;
use pinnace_core::{ReceivePlan, Slot};

const HEAD: usize = 32;

/// The payload slots: buffer, offset and length.
fn plan(half: &Half, datagrams: usize) -> Vec<(u32, u64, u32)> {
    let mut plan = ReceivePlan::new();
    plan.reset(datagrams);
    half.incoming.expect(&mut plan, HEAD);
    let slots = plan.slots();
    assert!(slots.chunks(2).all(|pair| pair[0] == Slot::Pooled(HEAD as u32) || pair.len() == 1));
    let payload = |slot: &Slot| match slot {
        Slot::Payload(range) => Some((range.buffer.index(), range.offset, range.len)),
        Slot::Pooled(_) => None,
    };
    slots.iter().filter_map(payload).collect()
}

//= A-20 test
#[test]
fn the_blocks_behind_the_newest_are_expected_in_their_places() {
    let mut half = Half::new(policy(true));
    assert_eq!(plan(&half, 64), []);
    half.blocks(0, 0, 950, [0]);
    assert_eq!(plan(&half, 3), [(0, 100, 100), (0, 200, 100), (0, 300, 100)]);
    half.blocks(0, 0, 950, [3, 9]);
    assert_eq!(plan(&half, 64), [], "nothing is known behind the last");
    half.blocks(0, 0, 950, [1]);
    let missing: Vec<_> = [2, 4, 5, 6, 7, 8].map(|index| (0, index * 100, 100)).to_vec();
    assert_eq!(plan(&half, 64), missing, "only what is missing");
    half.blocks(0, 0, 950, [2]);
    assert_eq!(plan(&half, 64), missing[1..]);
}

//= A-20 test
#[test]
fn the_plan_goes_on_into_the_next_message_if_that_is_known() {
    let mut half = Half::new(policy(true));
    half.blocks(3, 1, 300, [1]);
    half.blocks(6, 2, 250, [2]);
    half.blocks(0, 0, 300, [1]);
    assert_eq!(plan(&half, 64), [(2, 200, 100), (0, 0, 100), (0, 200, 100), (1, 0, 100), (1, 100, 100)]);
    // Message 3 is not known.
    half.blocks(10, 4, 300, [0]);
    half.blocks(6, 2, 250, [1]);
    assert_eq!(plan(&half, 64), []);
    half.blocks(0, 0, 300, [0]);
    assert_eq!(plan(&half, 64).len(), 4);
}

#[test]
fn a_last_block_may_be_short() {
    // The largest message says that the last block of this one cannot be full.
    let mut half = Half::new(Policy { max_message: 250, ..policy(true) });
    half.blocks(0, 0, 250, [0]);
    assert_eq!(plan(&half, 64), [(0, 100, 100), (0, 200, 50)]);
    let mut slots = ReceivePlan::new();
    slots.reset(64);
    half.incoming.expect(&mut slots, HEAD);
    assert_eq!(slots.bytes(), 2 * HEAD + 150, "the driver has room behind it for whatever is longer");
}

#[test]
fn raw_blocks_are_expected_behind_the_newest_only() {
    let mut half = Half::new(policy(false));
    half.blocks(0, 0, 600, [0, 3]);
    assert_eq!(plan(&half, 64), [(0, 400, 100), (0, 500, 100)]);
    half.incoming.on_sync(5);
    assert_eq!(plan(&half, 64), [(0, 500, 100)]);
}

#[test]
fn nothing_is_expected_beyond_the_edge() {
    let mut half = Half::new(Policy { window: 4, ..policy(true) });
    half.blocks(0, 0, 1000, [0]);
    assert_eq!(plan(&half, 64).len(), 3);
}

#[test]
fn a_plan_has_room_for_what_one_read_brings() {
    let mut half = Half::new(Policy { window: 5000, max_message: 500_000, ..policy(true) });
    half.blocks(0, 0, 500_000, [0]);
    let slots = plan(&half, 5000);
    assert!(slots.len() * (HEAD + BLOCK as usize) <= 65_535 && slots.len() > 490);
}

/// Block `index` of message `message`, which has `bytes` bytes in blocks of 9000 and begins with block `base`.
fn large(base: u64, message: u32, bytes: u32, index: u16) -> Arrival {
    let count = bytes.div_ceil(9000) as u16;
    let len = (bytes - u32::from(index) * 9000).min(9000);
    Arrival { count, len, ends: index + 1 == count, ..block(base, message, BLOCK * u32::from(count), index) }
}

//= A-19 test
#[test]
fn a_message_like_the_one_before_lands_in_storage_made_ahead() {
    let mut half = Half::new(Policy { block_bytes: 9000, max_message: 20_000, makes_ahead: true, ..policy(true) });
    half.new_block(&large(0, 0, 4000, 0));
    let expected = plan(&half, 64);
    assert_eq!(expected.len(), 16, "what a read brings: {expected:?}");
    assert!(expected.iter().all(|(_, offset, len)| (*offset, *len) == (0, 4000)));
    let place = half.new_block(&large(1, 1, 4000, 0)).place.expect("it has bytes");
    assert_eq!((place.buffer.index(), place.offset, place.len), expected[0]);
    let held = half.incoming.allocated();
    assert!(held <= 2 * 4000 + 65_536, "{held}");
    // Another shape: the storage for the old one is released.
    for index in 0..3 {
        half.new_block(&large(2, 2, 18_500, index));
    }
    let released = core::iter::from_fn(|| half.incoming.poll_released()).count();
    assert_eq!(released, 16, "65,536 / 4000");
    let places: Vec<_> = plan(&half, 64).iter().map(|(_, offset, len)| (*offset, *len)).collect();
    assert_eq!(places, [(0, 9000), (9000, 9000), (18_000, 500)]);
    half.incoming.rest();
    assert_eq!(half.incoming.allocated(), 2 * 4000 + 20_000);
    assert_eq!(plan(&half, 64), []);
}

//= A-19 test
#[test]
fn as_many_small_messages_are_expected_as_a_read_brings_however_large_blocks_may_be() {
    for block_bytes in [4000, 9000, 60_000] {
        let mut half = Half::new(Policy { block_bytes, max_message: 20_000, makes_ahead: true, ..policy(true) });
        half.new_block(&large(0, 0, 4000, 0));
        assert_eq!(plan(&half, 64).len(), 65_535 / (4000 + HEAD));
        assert_eq!(plan(&half, 5).len(), 5);
    }
}

//= A-19 test
#[test]
fn one_large_message_is_expected_like_the_one_before_and_a_huge_one_is_not() {
    for (bytes, is_expected) in [(100_000_u32, true), (1 << 20, true), ((1 << 20) + 1, false)] {
        let mut half = Half::new(Policy {
            block_bytes: 9000,
            max_message: 2 << 20,
            makes_ahead: true,
            window: 1000,
            ..policy(true)
        });
        let blocks = bytes.div_ceil(9000);
        for index in 0..blocks {
            half.new_block(&large(0, 0, bytes, index as u16));
        }
        let expected = plan(&half, 64);
        let buffers = half.incoming.allocated().div_ceil(u64::from(blocks) * 9000);
        assert_eq!(buffers, if is_expected { 2 } else { 1 });
        assert_eq!(expected.len(), if is_expected { 7 } else { 0 }, "as much as a read brings");
        let place = half.new_block(&large(blocks.into(), 1, bytes, 0)).place.expect("it has bytes");
        assert_eq!(expected.first() == Some(&(place.buffer.index(), 0, 9000)), is_expected);
    }
}
