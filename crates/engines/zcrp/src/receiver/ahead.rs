//! Units of a message that have come before others in front of them.
//!
//! A sender may send its units in any order, and none that fits may be dropped for it: what is not acknowledged comes again
//! first, and may be all that the sender's window has room for. So they may be as scattered as they like: of memory it is a
//! few words at most for each that has come, and the buffer bounds how many these are (Z-14).

use core::ops::Range;
use std::collections::BTreeMap;

/// Units in a word.
const WORD: u32 = u64::BITS;

/// A set of units. Always true: no word is empty.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    words: BTreeMap<u32, u64>,
}

impl Ahead {
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(super) fn contains(&self, unit: u32) -> bool {
        self.words.get(&(unit / WORD)).is_some_and(|word| word >> (unit % WORD) & 1 == 1)
    }

    pub(super) fn insert(&mut self, unit: u32) {
        *self.words.entry(unit / WORD).or_default() |= 1 << (unit % WORD);
    }

    pub(super) fn max(&self) -> Option<u32> {
        self.words.last_key_value().map(|(index, word)| index * WORD + word.ilog2())
    }

    /// The first unit from `low` on that has not come.
    pub(super) fn first_missing_from(&self, low: u32) -> u32 {
        let mut unit = low;
        for (&index, word) in self.words.range(low / WORD..) {
            if index != unit / WORD {
                break;
            }
            let run = (word >> (unit % WORD)).trailing_ones();
            unit += run;
            if run == 0 || !unit.is_multiple_of(WORD) {
                break;
            }
        }
        unit
    }

    /// The first unit from `low` on that has come.
    fn first_from(&self, low: u32) -> Option<u32> {
        let come = |(index, word): (&u32, &u64)| {
            let from = if *index == low / WORD { low % WORD } else { 0 };
            let rest = word >> from;
            (rest != 0).then(|| index * WORD + from + rest.trailing_zeros())
        };
        self.words.range(low / WORD..).find_map(come)
    }

    /// The units of `range` that have not come, as ranges.
    pub(super) fn missing_in(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut low = range.start;
        core::iter::from_fn(move || {
            let start = self.first_missing_from(low);
            if start >= range.end {
                return None;
            }
            low = self.first_from(start).map_or(range.end, |come| come.min(range.end));
            Some(start..low)
        })
    }

    /// Forgets the units below `unit`.
    pub(super) fn forget_below(&mut self, unit: u32) {
        while let Some(mut first) = self.words.first_entry() {
            match (*first.key()).cmp(&(unit / WORD)) {
                core::cmp::Ordering::Less => {
                    first.remove();
                }
                core::cmp::Ordering::Equal => {
                    let kept = *first.get() >> (unit % WORD) << (unit % WORD);
                    if kept == 0 {
                        first.remove();
                    } else {
                        *first.get_mut() = kept;
                    }
                    return;
                }
                core::cmp::Ordering::Greater => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_core::Random;
    use std::collections::BTreeSet;

    #[test]
    fn it_agrees_with_a_set_of_numbers() {
        for seed in 0..300 {
            let mut random = Random::from_seed(seed);
            let mut below = |bound: u64| random.below(bound) as u32;
            let (mut ahead, mut set) = (Ahead::default(), BTreeSet::new());
            let scattered = below(200);
            let runs = (0..scattered + 3).map(|turn| (below(400), if turn < scattered { 1 } else { below(200) }));
            for unit in runs.collect::<Vec<_>>().into_iter().flat_map(|(first, count)| first..first + count) {
                ahead.insert(unit);
                set.insert(unit);
            }
            for forget in [0, below(450)] {
                ahead.forget_below(forget);
                set.retain(|unit| *unit >= forget);
                assert_eq!((ahead.is_empty(), ahead.max()), (set.is_empty(), set.last().copied()), "{seed}");
                let (low, bound) = (below(500), below(700));
                assert_eq!(ahead.contains(low), set.contains(&low), "{seed}");
                let missing = (low..).find(|unit| !set.contains(unit));
                assert_eq!(Some(ahead.first_missing_from(low)), missing, "{seed}");
                let expected = (low..bound).filter(|unit| !set.contains(unit));
                assert!(ahead.missing_in(low..bound).flatten().eq(expected), "{seed}");
            }
        }
    }

    #[test]
    fn the_largest_numbers_are_units_too() {
        let mut ahead = Ahead::default();
        ahead.insert(u32::MAX - 1);
        assert_eq!((ahead.max(), ahead.first_missing_from(u32::MAX - 1)), (Some(u32::MAX - 1), u32::MAX));
        let mut gaps = ahead.missing_in(u32::MAX - 3..u32::MAX);
        assert_eq!((gaps.next(), gaps.next()), (Some(u32::MAX - 3..u32::MAX - 1), None));
    }
}
