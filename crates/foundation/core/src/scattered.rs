//! Sets of numbers that may be as scattered as a peer likes: units of a message that have come out of order.
//!
//! An [`IntervalSet`](crate::IntervalSet) is the better one where there are few ranges; who must bound these drops what would make
//! one more. Where nothing may be dropped for that (what is not acknowledged comes again first, and may be all that the sender's
//! window has room for), the numbers stand here, 64 in a word: of memory that is a few words at most for each, and whoever bounds
//! the numbers has bounded it. Always true: no word is empty.

use core::ops::Range;
use std::collections::BTreeMap;

/// Numbers in a word.
const WORD: u32 = u64::BITS;

/// A set of numbers below `u32::MAX`, however scattered.
///
/// ```
/// use pinnace_core::ScatteredSet;
/// let mut come = ScatteredSet::default();
/// for unit in [1, 2, 5] {
///     come.insert(unit);
/// }
/// assert_eq!(come.first_missing_from(1), 3);
/// assert_eq!(come.missing_in(0..8).collect::<Vec<_>>(), [0..1, 3..5, 6..8]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScatteredSet {
    words: BTreeMap<u32, u64>,
}

impl ScatteredSet {
    /// Whether there is no number in it.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether `number` is in it.
    pub fn contains(&self, number: u32) -> bool {
        self.words.get(&(number / WORD)).is_some_and(|word| word >> (number % WORD) & 1 == 1)
    }

    /// Adds `number`.
    pub fn insert(&mut self, number: u32) {
        debug_assert!(number < u32::MAX, "one past it is a number, too");
        *self.words.entry(number / WORD).or_default() |= 1 << (number % WORD);
    }

    /// The largest number.
    pub fn max(&self) -> Option<u32> {
        self.words.last_key_value().map(|(index, word)| index * WORD + word.ilog2())
    }

    /// The first number from `low` on that is not in it.
    pub fn first_missing_from(&self, low: u32) -> u32 {
        let mut missing = low;
        for (&index, word) in self.words.range(low / WORD..) {
            if index != missing / WORD {
                break;
            }
            let run = (word >> (missing % WORD)).trailing_ones();
            missing += run;
            if run == 0 || !missing.is_multiple_of(WORD) {
                break;
            }
        }
        missing
    }

    /// The first number from `low` on that is in it.
    fn first_from(&self, low: u32) -> Option<u32> {
        let first = |(index, word): (&u32, &u64)| {
            let from = if *index == low / WORD { low % WORD } else { 0 };
            let rest = word >> from;
            (rest != 0).then(|| index * WORD + from + rest.trailing_zeros())
        };
        self.words.range(low / WORD..).find_map(first)
    }

    /// The numbers of `range` that are not in it, as ranges.
    pub fn missing_in(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut low = range.start;
        core::iter::from_fn(move || {
            let start = self.first_missing_from(low);
            if start >= range.end {
                return None;
            }
            low = self.first_from(start).map_or(range.end, |there| there.min(range.end));
            Some(start..low)
        })
    }

    /// Takes out the numbers below `number`.
    pub fn pop_front_below(&mut self, number: u32) {
        while let Some(mut first) = self.words.first_entry() {
            match (*first.key()).cmp(&(number / WORD)) {
                core::cmp::Ordering::Less => {
                    first.remove();
                }
                core::cmp::Ordering::Equal => {
                    let kept = *first.get() >> (number % WORD) << (number % WORD);
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
    use crate::Random;
    use std::collections::BTreeSet;

    #[test]
    fn it_agrees_with_a_set_of_numbers() {
        for seed in 0..300 {
            let mut random = Random::from_seed(seed);
            let mut below = |bound: u64| random.below(bound) as u32;
            let (mut scattered, mut set) = (ScatteredSet::default(), BTreeSet::new());
            let alone = below(200);
            let runs = (0..alone + 3).map(|turn| (below(400), if turn < alone { 1 } else { below(200) }));
            for number in runs.collect::<Vec<_>>().into_iter().flat_map(|(first, count)| first..first + count) {
                scattered.insert(number);
                set.insert(number);
            }
            for forget in [0, below(450)] {
                scattered.pop_front_below(forget);
                set.retain(|number| *number >= forget);
                assert_eq!((scattered.is_empty(), scattered.max()), (set.is_empty(), set.last().copied()), "{seed}");
                let (low, bound) = (below(500), below(700));
                assert_eq!(scattered.contains(low), set.contains(&low), "{seed}");
                let missing = (low..).find(|number| !set.contains(number));
                assert_eq!(Some(scattered.first_missing_from(low)), missing, "{seed}");
                let expected = (low..bound).filter(|number| !set.contains(number));
                assert!(scattered.missing_in(low..bound).flatten().eq(expected), "{seed}");
            }
        }
    }

    #[test]
    fn the_largest_numbers_are_in_reach() {
        let mut scattered = ScatteredSet::default();
        scattered.insert(u32::MAX - 1);
        assert_eq!((scattered.max(), scattered.first_missing_from(u32::MAX - 1)), (Some(u32::MAX - 1), u32::MAX));
        let mut gaps = scattered.missing_in(u32::MAX - 3..u32::MAX);
        assert_eq!((gaps.next(), gaps.next()), (Some(u32::MAX - 3..u32::MAX - 1), None));
    }
}
