//! The bitmap of a zone: bit i is block i, 1 = free (B-3). Searching is first fit (B-2).

use crate::layout::{BLOCKS, Tables, Zone};
use crate::owner::{Kind, Word};
use crate::sync::Ordering;

/// All blocks free.
pub(crate) const ALL: u32 = mask(0, BLOCKS as u32);

/// The bits of `blocks` blocks from `first` on.
pub(crate) const fn mask(first: u32, blocks: u32) -> u32 {
    ((((1_u64 << blocks) - 1) << first) & 0xFFFF_FFFF) as u32
}

//= B-3
/// The first run of `blocks` ones, if there is one.
pub(crate) fn find_run(bitmap: u32, blocks: u32) -> Option<u32> {
    let mut starts = bitmap & ALL;
    let mut found = 1;
    // Before each step: bit i = a run of `found` ones starts at i.
    while found < blocks {
        let step = found.min(blocks - found);
        starts &= starts >> step;
        found += step;
    }
    (starts != 0).then(|| starts.trailing_zeros())
}

//= B-2
/// What `take` finds in the first zone where it finds something, from zone `start` on: the zone and the first block.
#[inline]
pub(crate) fn first_fit(tables: Tables<'_>, start: usize, take: impl Fn(&Zone) -> Option<u32>) -> Option<(usize, u32)> {
    match tables.zones.get(start).and_then(&take) {
        Some(first) => Some((start, first)),
        None => fit_elsewhere(tables, start, take),
    }
}

#[cold]
fn fit_elsewhere(tables: Tables<'_>, start: usize, take: impl Fn(&Zone) -> Option<u32>) -> Option<(usize, u32)> {
    let (before, after) = tables.zones.split_at(start.min(tables.zones.len()));
    let mut zones = (start..).zip(after).skip(1).chain((0..).zip(before));
    zones.find_map(|(index, zone)| Some((index, take(zone)?)))
}

/// The blocks that nobody has, by the words alone: what the bitmap should be.
pub(crate) fn free_by_words(zone: &Zone) -> u32 {
    let mut free = ALL;
    for (first, word) in (0..).zip(&zone.words.0) {
        let word = Word(word.load(Ordering::Acquire));
        match word.kind() {
            Some(Kind::Free) => {}
            Some(Kind::Body) | None => free &= !mask(first, 1),
            Some(_) => free &= !mask(first, word.blocks(first)),
        }
    }
    free
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    //= B-3 test
    #[test]
    fn block_i_is_bit_i() {
        assert_eq!((mask(0, 1), mask(5, 1), mask(3, 2), mask(31, 1), mask(0, 32)), (1, 32, 24, 1 << 31, u32::MAX));
        assert_eq!(find_run(0b1101_1000, 2), Some(3));
        assert_eq!(find_run(0b1101_1000, 3), None);
    }

    proptest! {
        //= B-3 test
        #[test]
        fn a_run_is_the_first_that_fits(bitmap: u32, blocks in 1_u32..=32) {
            let first = (0..=32 - blocks).find(|first| (*first..first + blocks).all(|block| bitmap >> block & 1 == 1));
            prop_assert_eq!(find_run(bitmap, blocks), first);
        }
    }
}
