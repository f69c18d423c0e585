//! Sets of numbers, kept as disjoint ranges: units of a message, bytes of a stream, transmissions seen.
//!
//! An [`IntervalSet`] is a sorted queue of half-open ranges of `u64`. Always true: no range is empty, and between two
//! ranges at least one number is missing, so equal sets have equal representations. Growing the last range or adding
//! one behind it is O(1), dropping the front is O(1) a range, everything else is a binary search and the ranges it
//! touches. What a peer can make grow is bounded with [`IntervalSet::try_insert`].
//!
//! Protocols that count modulo 2^32 place their numbers on a line first: [`unwrap32`], [`Unwrapper32`].
//!
//! Fulfils the span rules of XTP (inserting absorbs what it touches, duplicates never move anything back) and serves
//! the lists of ZCRP and A1.
//= X-16

use core::iter::FusedIterator;
use core::ops::Range;
use std::collections::VecDeque;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Span {
    low: u64,
    high: u64,
}

impl Span {
    const fn len(self) -> u64 {
        self.high - self.low
    }
}

/// A set of numbers as sorted, disjoint, half-open ranges. `u64::MAX` itself cannot be a member.
///
/// A range whose `low` is not below its `high` is empty: inserting, removing or asking for it does nothing.
///
/// ```
/// use pinnace_core::IntervalSet;
/// let mut seen = IntervalSet::new();
/// assert_eq!(seen.insert(0..10), 10);
/// assert_eq!(seen.insert(5..12), 2); // only 10 and 11 are new
/// seen.insert(20..30);
/// assert_eq!(seen.first_missing_from(3), 12);
/// assert_eq!(seen.missing_in(0..25).collect::<Vec<_>>(), [12..20]);
/// assert_eq!(seen.to_string(), "[0,12) [20,30)");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct IntervalSet {
    spans: VecDeque<Span>,
    covered: u64,
}

/// The set would need more ranges than its owner allows ([`IntervalSet::try_insert`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooFragmented {
    /// The limit that was reached, in ranges.
    pub max_ranges: usize,
}

impl core::fmt::Display for TooFragmented {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "an interval set is limited to {} ranges", self.max_ranges)
    }
}

impl core::error::Error for TooFragmented {}

impl IntervalSet {
    /// The empty set; allocates nothing.
    pub const fn new() -> Self {
        Self { spans: VecDeque::new(), covered: 0 }
    }

    /// Adds `range` and returns how many of its numbers are new.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        let Range { start: low, end: high } = range;
        if low >= high {
            return 0;
        }
        let added = match self.spans.back_mut() {
            // What arrives in order only ever touches the last range.
            Some(last) if low >= last.low && low <= last.high => {
                let added = high.saturating_sub(last.high);
                last.high += added;
                added
            }
            Some(last) if low < last.low => self.insert_before_the_end(low, high),
            _ => {
                self.spans.push_back(Span { low, high });
                high - low
            }
        };
        self.covered += added;
        added
    }

    /// As [`insert`](Self::insert), but refuses to let the set become more than `max_ranges` ranges.
    ///
    /// # Errors
    ///
    /// [`TooFragmented`] if `range` touches no range of the set and there are `max_ranges` already; the set is
    /// unchanged.
    pub fn try_insert(&mut self, range: Range<u64>, max_ranges: usize) -> Result<u64, TooFragmented> {
        if self.spans.len() >= max_ranges && range.start < range.end {
            let (first, end) = self.touched(range.start, range.end);
            if first == end {
                return Err(TooFragmented { max_ranges });
            }
        }
        Ok(self.insert(range))
    }

    /// Takes `range` out and returns how many numbers were taken. May split one range in two.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        let Range { start: low, end: high } = range;
        if low >= high {
            return 0;
        }
        let first = self.spans.partition_point(|span| span.high <= low);
        let end = self.spans.partition_point(|span| span.low < high);
        if first >= end {
            return 0;
        }
        let before: u64 = self.spans.range(first..end).map(|span| span.len()).sum();
        let left = Span { low: self.spans[first].low, high: low };
        let right = Span { low: high, high: self.spans[end - 1].high };
        let mut kept = [left, right].into_iter().filter(|span| span.low < span.high);
        let mut after = 0;
        let mut next = first;
        for span in kept.by_ref().take(end - first) {
            after += span.len();
            self.spans[next] = span;
            next += 1;
        }
        if let Some(span) = kept.next() {
            after += span.len();
            self.spans.insert(next, span);
        } else {
            self.spans.drain(next..end);
        }
        self.covered -= before - after;
        before - after
    }

    /// Whether `number` is a member.
    pub fn contains(&self, number: u64) -> bool {
        self.span_at_or_after(number).is_some_and(|span| span.low <= number)
    }

    /// Whether every number of `range` is a member. True for an empty range.
    pub fn covers(&self, range: Range<u64>) -> bool {
        range.start >= range.end
            || self.span_at_or_after(range.start).is_some_and(|span| span.low <= range.start && range.end <= span.high)
    }

    /// Whether any number of `range` is a member.
    pub fn overlaps(&self, range: Range<u64>) -> bool {
        range.start < range.end && self.span_at_or_after(range.start).is_some_and(|span| span.low < range.end)
    }

    /// The smallest number that is at least `number` and not a member.
    pub fn first_missing_from(&self, number: u64) -> u64 {
        match self.span_at_or_after(number) {
            Some(span) if span.low <= number => span.high,
            _ => number,
        }
    }

    /// The holes of the set inside `range`, in rising order.
    pub fn missing_in(&self, range: Range<u64>) -> Missing<'_> {
        let first = self.spans.partition_point(|span| span.high <= range.start);
        Missing { spans: self.spans.range(first..), low: range.start, high: range.end }
    }

    /// The ranges of the set, in rising order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + ExactSizeIterator + '_ {
        self.spans.iter().map(|span| span.low..span.high)
    }

    /// How many numbers are members.
    pub const fn len(&self) -> u64 {
        self.covered
    }

    /// Whether nothing is a member.
    pub const fn is_empty(&self) -> bool {
        self.covered == 0
    }

    /// How many disjoint ranges the set has.
    pub fn range_count(&self) -> usize {
        self.spans.len()
    }

    /// The smallest member.
    pub fn min(&self) -> Option<u64> {
        self.spans.front().map(|span| span.low)
    }

    /// The largest member.
    pub fn max(&self) -> Option<u64> {
        self.spans.back().map(|span| span.high - 1)
    }

    /// Forgets every member below `number` and returns how many there were.
    pub fn pop_front_below(&mut self, number: u64) -> u64 {
        let before = self.covered;
        while let Some(first) = self.spans.front_mut() {
            if first.high > number {
                if first.low < number {
                    self.covered -= number - first.low;
                    first.low = number;
                }
                break;
            }
            self.covered -= first.len();
            self.spans.pop_front();
        }
        before - self.covered
    }

    /// Forgets every member and keeps the memory.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.covered = 0;
    }

    /// The slow half of `insert`: `low` lies before the last range.
    fn insert_before_the_end(&mut self, low: u64, high: u64) -> u64 {
        let (first, end) = self.touched(low, high);
        if first == end {
            self.spans.insert(first, Span { low, high });
            return high - low;
        }
        let before: u64 = self.spans.range(first..end).map(|span| span.len()).sum();
        let merged = Span { low: low.min(self.spans[first].low), high: high.max(self.spans[end - 1].high) };
        self.spans[first] = merged;
        if end - first > 1 {
            self.spans.drain(first + 1..end);
        }
        merged.len() - before
    }

    /// The indices of the ranges that overlap `[low, high)` or lie against it.
    fn touched(&self, low: u64, high: u64) -> (usize, usize) {
        match self.spans.back() {
            Some(last) if last.high >= low => {}
            _ => return (self.spans.len(), self.spans.len()),
        }
        let first = self.spans.partition_point(|span| span.high < low);
        // Most insertions touch one or two ranges: walking on is cheaper than a second search.
        let count = self.spans.range(first..).take_while(|span| span.low <= high).count();
        (first, first + count)
    }

    /// The first range that ends above `number`: it holds `number`, or lies behind it.
    fn span_at_or_after(&self, number: u64) -> Option<Span> {
        match self.spans.back() {
            Some(last) if last.low <= number => (number < last.high).then_some(*last),
            _ => self.spans.get(self.spans.partition_point(|span| span.high <= number)).copied(),
        }
    }
}

/// The holes of an [`IntervalSet`] inside a range: [`IntervalSet::missing_in`].
#[derive(Clone)]
pub struct Missing<'a> {
    spans: std::collections::vec_deque::Iter<'a, Span>,
    low: u64,
    high: u64,
}

impl Iterator for Missing<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        while self.low < self.high {
            let low = self.low;
            let (hole_ends, resume) = match self.spans.next() {
                Some(span) => (span.low.min(self.high), span.high),
                None => (self.high, self.high),
            };
            self.low = resume;
            if low < hole_ends {
                return Some(low..hole_ends);
            }
        }
        None
    }
}

impl FusedIterator for Missing<'_> {}

impl core::fmt::Debug for Missing<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl Extend<Range<u64>> for IntervalSet {
    fn extend<I: IntoIterator<Item = Range<u64>>>(&mut self, ranges: I) {
        for range in ranges {
            self.insert(range);
        }
    }
}

impl FromIterator<Range<u64>> for IntervalSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut set = Self::new();
        set.extend(ranges);
        set
    }
}

impl core::fmt::Display for IntervalSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (index, span) in self.spans.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(f, "{gap}[{},{})", span.low, span.high)?;
        }
        Ok(())
    }
}

impl core::fmt::Debug for IntervalSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// The number nearest to `reference` whose low 32 bits are `number`: how a serial number becomes one on a line.
///
/// Of two equally near the smaller is taken. The result never wraps: near the ends of `u64` it is the nearest that
/// exists.
///
/// ```
/// use pinnace_core::unwrap32;
/// assert_eq!(unwrap32(0x1_0000_0002, 0xffff_fffe), 0xffff_fffe); // a little behind
/// assert_eq!(unwrap32(0x1_ffff_fffe, 0x0000_0002), 0x2_0000_0002); // a little ahead, over the wrap
/// ```
pub const fn unwrap32(reference: u64, number: u32) -> u64 {
    let ahead = number.wrapping_sub(reference as u32);
    let behind = ahead.wrapping_neg();
    let near = if ahead < 1 << 31 { reference.checked_add(ahead as u64) } else { reference.checked_sub(behind as u64) };
    match near {
        Some(near) => near,
        None if ahead < 1 << 31 => reference - behind as u64,
        None => reference + ahead as u64,
    }
}

/// Unwraps a stream of serial numbers: remembers the highest one and places each other one nearest to it.
///
/// Numbers up to 2^31 - 1 ahead of the highest or 2^31 behind it are placed right. The first number lies one turn
/// above 0, so those before it have a place too.
///
/// ```
/// use pinnace_core::Unwrapper32;
/// let mut numbers = Unwrapper32::new(u32::MAX);
/// let first = numbers.highest();
/// assert_eq!(numbers.observe(1), first + 2);
/// assert_eq!(numbers.place(u32::MAX - 1), first - 1);
/// assert_eq!(numbers.highest(), first + 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unwrapper32 {
    highest: u64,
}

impl Unwrapper32 {
    /// Starts at `first`, which becomes `2^32 + first`.
    pub const fn new(first: u32) -> Self {
        Self { highest: (1 << 32) + first as u64 }
    }

    /// The highest number observed so far.
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    /// Where `number` lies; remembers nothing.
    pub const fn place(&self, number: u32) -> u64 {
        unwrap32(self.highest, number)
    }

    /// Where `number` lies; remembers it if it is the highest.
    pub fn observe(&mut self, number: u32) -> u64 {
        let placed = self.place(number);
        self.highest = self.highest.max(placed);
        placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(ranges: &[Range<u64>]) -> IntervalSet {
        ranges.iter().cloned().collect()
    }

    fn one(range: Range<u64>) -> IntervalSet {
        core::iter::once(range).collect()
    }

    //= X-16 test
    #[test]
    fn inserting_absorbs_what_it_touches() {
        let mut spans = set(&[10..20, 30..40, 50..60]);
        assert_eq!(spans.insert(20..30), 10, "closes the gap between two");
        assert_eq!(spans.to_string(), "[10,40) [50,60)");
        assert_eq!(spans.insert(12..18), 0, "a duplicate changes nothing");
        assert_eq!(spans.insert(0..100), 60);
        assert_eq!(spans.to_string(), "[0,100)");
        assert_eq!(spans.len(), 100);
    }

    //= X-16 test
    #[test]
    fn old_data_never_moves_the_front_back_and_the_last_span_is_kept() {
        let mut spans = one(0..10);
        assert_eq!(spans.insert(3..7), 0);
        assert_eq!(spans.first_missing_from(0), 10);
        spans.insert(20..30);
        spans.insert(25..40);
        assert_eq!(spans.max(), Some(39));
        assert_eq!(spans.insert(15..22), 5, "overlaps the low end of the last");
        assert_eq!(spans.to_string(), "[0,10) [15,40)");
    }

    #[test]
    fn removing_trims_splits_and_drops() {
        let mut spans = set(&[0..10, 20..30, 40..50]);
        assert_eq!(spans.remove(3..5), 2);
        assert_eq!(spans.to_string(), "[0,3) [5,10) [20,30) [40,50)");
        assert_eq!(spans.remove(8..45), 2 + 10 + 5);
        assert_eq!(spans.to_string(), "[0,3) [5,8) [45,50)");
        assert_eq!(spans.remove(0..100), 11);
        assert!(spans.is_empty());
        assert_eq!(spans.remove(0..100), 0);
    }

    #[test]
    fn the_limit_refuses_only_what_would_add_a_range() {
        let mut spans = set(&[0..1, 2..3]);
        assert_eq!(spans.try_insert(10..11, 2), Err(TooFragmented { max_ranges: 2 }));
        assert_eq!(spans.try_insert(5..5, 2), Ok(0));
        assert_eq!(spans.try_insert(1..2, 2), Ok(1), "joining two is always allowed");
        assert_eq!(spans.try_insert(10..11, 2), Ok(1));
        assert_eq!(spans.try_insert(11..12, 2), Ok(1));
        assert_eq!(spans.try_insert(5..6, 2), Err(TooFragmented { max_ranges: 2 }));
        assert_eq!(spans.to_string(), "[0,3) [10,12)");
    }

    #[test]
    #[expect(clippy::reversed_empty_ranges, reason = "what a peer's numbers may look like")]
    fn empty_and_reversed_ranges_do_nothing() {
        let mut spans = one(4..8);
        assert_eq!(spans.insert(9..2), 0);
        assert_eq!(spans.remove(7..5), 0);
        assert!(spans.covers(3..3) && spans.covers(9..1));
        assert!(!spans.overlaps(7..5));
        assert_eq!(spans.missing_in(9..1).next(), None);
        assert_eq!(spans.insert(u64::MAX - 1..u64::MAX), 1);
        assert_eq!(spans.first_missing_from(u64::MAX - 1), u64::MAX);
    }

    #[test]
    fn modular_numbers_wrap_into_one_range() {
        let mut place = Unwrapper32::new(u32::MAX - 2);
        let mut seen = IntervalSet::new();
        for step in [0_u32, 1, 2, 4, 3, 5, 6] {
            let number = place.observe((u32::MAX - 2).wrapping_add(step));
            assert_eq!(seen.insert(number..number + 1), 1);
        }
        assert_eq!(seen.range_count(), 1);
        assert_eq!(seen.len(), 7);
    }

    #[test]
    fn unwrapping_prefers_the_nearest_and_never_leaves_the_line() {
        assert_eq!(unwrap32(5, u32::MAX), u64::from(u32::MAX), "nothing lies below 0");
        assert_eq!(unwrap32(u64::MAX, 0), u64::MAX - u64::from(u32::MAX));
        assert_eq!(unwrap32(1 << 40, 1 << 31), (1 << 40) - (1 << 31));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u64, u64),
        TryInsert(u64, u64),
        Remove(u64, u64),
        PopBelow(u64),
        Clear,
    }

    const SPACE: u64 = 200;
    const MAX_RANGES: usize = 12;

    fn step() -> impl Strategy<Value = Step> {
        let end = || 0..SPACE;
        let short = || 0..30_u64;
        prop_oneof![
            6 => (end(), short()).prop_map(|(low, len)| Step::Insert(low, low + len)),
            3 => (end(), short()).prop_map(|(low, len)| Step::TryInsert(low, low + len)),
            3 => (end(), short()).prop_map(|(low, len)| Step::Remove(low, low + len)),
            1 => end().prop_map(Step::PopBelow),
            1 => Just(Step::Clear),
        ]
    }

    fn ranges_of(bits: &[bool]) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (number, _) in bits.iter().enumerate().filter(|(_, set)| **set) {
            let number = number as u64;
            match ranges.last_mut() {
                Some(last) if last.end == number => last.end += 1,
                _ => ranges.push(number..number + 1),
            }
        }
        ranges
    }

    proptest! {
        #[test]
        fn agrees_with_a_bit_set(
            steps in prop::collection::vec(step(), 1..60),
            (a, b) in (0..SPACE, 0..SPACE),
        ) {
            let mut spans = IntervalSet::new();
            let mut bits = vec![false; (SPACE + 40) as usize];
            for step in steps {
                let count = bits.iter().filter(|bit| **bit).count() as u64;
                match step {
                    Step::Insert(low, high) => {
                        bits[low as usize..high as usize].fill(true);
                        let after = bits.iter().filter(|bit| **bit).count() as u64;
                        prop_assert_eq!(spans.insert(low..high), after - count);
                    }
                    Step::TryInsert(low, high) => {
                        let mut grown = bits.clone();
                        grown[low as usize..high as usize].fill(true);
                        let fits = ranges_of(&grown).len() <= MAX_RANGES.max(ranges_of(&bits).len());
                        let result = spans.try_insert(low..high, MAX_RANGES);
                        prop_assert_eq!(result.is_ok(), fits);
                        if fits { bits = grown; }
                    }
                    Step::Remove(low, high) => {
                        bits[low as usize..high as usize].fill(false);
                        let after = bits.iter().filter(|bit| **bit).count() as u64;
                        prop_assert_eq!(spans.remove(low..high), count - after);
                    }
                    Step::PopBelow(number) => {
                        bits[..number as usize].fill(false);
                        let after = bits.iter().filter(|bit| **bit).count() as u64;
                        prop_assert_eq!(spans.pop_front_below(number), count - after);
                    }
                    Step::Clear => {
                        bits.fill(false);
                        spans.clear();
                    }
                }
                let expected = ranges_of(&bits);
                prop_assert_eq!(spans.iter().collect::<Vec<_>>(), expected.clone());
                prop_assert_eq!(spans.len(), bits.iter().filter(|bit| **bit).count() as u64);
                prop_assert_eq!(spans.min(), expected.first().map(|range| range.start));
                prop_assert_eq!(spans.max(), expected.last().map(|range| range.end - 1));
            }
            let inside = |low: u64, high: u64| bits[low as usize..(high.max(low)) as usize].iter();
            prop_assert_eq!(spans.contains(a), bits[a as usize]);
            prop_assert_eq!(spans.covers(a..b), inside(a, b).all(|bit| *bit));
            prop_assert_eq!(spans.overlaps(a..b), inside(a, b).any(|bit| *bit));
            let missing = (a..).find(|number| !bits.get(*number as usize).copied().unwrap_or(false));
            prop_assert_eq!(Some(spans.first_missing_from(a)), missing);
            let holes: Vec<bool> = bits.iter().enumerate()
                .map(|(number, bit)| !bit && (a..b).contains(&(number as u64))).collect();
            prop_assert_eq!(spans.missing_in(a..b).collect::<Vec<_>>(), ranges_of(&holes));
        }

        #[test]
        fn unwrapping_undoes_truncation(reference in 1_u64 << 33..1 << 60, offset in -(1_i64 << 31)..1 << 31) {
            let number = reference.wrapping_add_signed(offset);
            prop_assert_eq!(unwrap32(reference, number as u32), number);
        }
    }
}
