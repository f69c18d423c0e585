//! What has come by sequence number, and the block acknowledgements that say so (Z-10, Z-11).
//!
//! Every number from the first one seen is *kept*, *lost*, or undecided: in a gap that reordering may still fill, or
//! dropped without being kept. A report covers what is new and once more what the reports before it covered, up to
//! [`REMEMBERED`] of them, so that the loss of a few acknowledgements costs nothing: what has come without a gap is one
//! interval, however much it is. Where not all of it may leave, it is the newest part that does: what is not said is sent
//! again, and that is newer. So what leaves is in proportion to what comes. Always true: `kept` and `lost` are disjoint; what lies below the reports remembered is
//! forgotten; all numbers lie within 2^16 of the highest.

use crate::Config;
use core::time::Duration;
use pinnace_core::{Allowance, IntervalSet, Time, Unwrapper32};
use pinnace_wire::zcrp::{ControlWriter, MAX_BLOCK_SPAN};
use std::collections::VecDeque;

/// Numbers farther than this from the highest are of another life of the sender (Z-6).
const LIFE_SPAN: u64 = 1 << 16;
/// Ranges not reported yet after which a report goes out whatever the timers say.
const MANY_RANGES: usize = 64;
/// Units after which a report goes out at first, however few bytes they are: the specification's number, a quarter of the
/// window that a sender has if it says nothing else.
const FIRST_UNITS: u32 = 16;
/// Reports of which the next one says again what they said: a burst of losses is seldom longer.
const REMEMBERED: usize = 16;
/// Datagrams of the newest report that are remembered, the newest of them. Few take as many; but numbers that come downwards,
/// each apart from the others, take one each, and all of them would be said again for each that comes.
const DATAGRAMS: usize = 8;
/// Bytes of a datagram for each range that may be said again: so these take half of it at most, with both numbers of each.
const BYTES_PER_RANGE: usize = 16;

/// Missing numbers that reordering may still bring.
#[derive(Debug)]
struct Gap {
    low: u64,
    high: u64,
    since: Time,
    /// Later numbers that have come.
    later: u32,
}

/// What is known of the sequence numbers, and how much of it has been reported.
#[derive(Debug)]
pub(super) struct Report {
    numbers: Option<Unwrapper32>,
    kept: IntervalSet,
    lost: IntervalSet,
    gaps: VecDeque<Gap>,
    /// The lowest number that the next report must cover.
    low: u64,
    /// Where the reports before it began, which it says again; they do not descend.
    reported: VecDeque<u64>,
    /// Ranges of those reports, and how many they may be.
    reported_ranges: usize,
    most_ranges: usize,
    /// How far the report being written has come.
    writing: Option<u64>,
    /// Where its datagrams begin: the newest of them, and how many there are.
    begun: VecDeque<u64>,
    datagrams: usize,
    units: u32,
    bytes: u64,
    since: Option<Time>,
    /// Since when the next report should not wait.
    urgent: Option<Time>,
    /// How long it may all the same, for an answer of the application's to go first.
    courtesy: Duration,
    /// Bytes that may stay unreported between batches; falls when the sender is seen to wait for us.
    patience: u64,
    /// Units that may, whatever their bytes; grows until the sender is seen to wait, and then never again.
    most_units: u32,
    has_waited: bool,
    /// The newest acknowledgement, for the end.
    newest: Vec<u8>,
    /// It is to be repeated, unless there is a newer one to send.
    is_repeated: bool,
}

impl Report {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            numbers: None,
            kept: IntervalSet::new(),
            lost: IntervalSet::new(),
            gaps: VecDeque::new(),
            low: 0,
            reported: VecDeque::with_capacity(REMEMBERED + 1),
            reported_ranges: 0,
            most_ranges: config.control_capacity() / BYTES_PER_RANGE,
            writing: None,
            begun: VecDeque::with_capacity(DATAGRAMS + 1),
            datagrams: 0,
            units: 0,
            bytes: 0,
            since: None,
            urgent: None,
            courtesy: Duration::ZERO,
            patience: config.ack_bytes,
            most_units: FIRST_UNITS,
            has_waited: false,
            newest: Vec::new(),
            is_repeated: false,
        }
    }

    /// Where `number` lies on the line, or `None` if it is of another life of the sender.
    //= Z-6
    pub(super) fn locate(&self, number: u32) -> Option<u64> {
        match &self.numbers {
            None => Some(Unwrapper32::new(number).highest()),
            Some(numbers) => {
                let place = numbers.place(number);
                (place.abs_diff(numbers.highest()) < LIFE_SPAN).then_some(place)
            }
        }
    }

    /// The transmission `at` was kept, with `bytes` bytes of data (or is a duplicate, and acknowledged again). Returns whether
    /// it is new, as far as is remembered.
    pub(super) fn on_kept(&mut self, now: Time, at: u64, bytes: u32) -> bool {
        let expected = match &mut self.numbers {
            Some(numbers) => {
                let expected = numbers.highest() + 1;
                if at >= expected {
                    numbers.observe(at as u32);
                }
                expected
            }
            None => {
                self.numbers = Some(Unwrapper32::new(at as u32));
                self.low = at;
                at
            }
        };
        if at > expected {
            self.gaps.push_back(Gap { low: expected, high: at, since: now, later: 0 });
        }
        if at < expected {
            self.fill(at);
        }
        // A datagram that the network doubled is no later number, and no unit more.
        let is_new = self.kept.insert(at..at + 1) > 0;
        if is_new {
            for gap in self.gaps.iter_mut().filter(|gap| gap.high <= at) {
                gap.later += 1;
            }
            self.units += 1;
        }
        if self.low > at {
            self.low = at;
        }
        if let Some(from) = &mut self.writing {
            *from = at.min(*from);
        }
        self.bytes += u64::from(bytes);
        self.since.get_or_insert(now);
        is_new
    }

    /// The `count` transmissions behind the highest were kept, with `bytes` bytes of data in all: like so many calls of
    /// [`Report::on_kept`].
    pub(super) fn on_kept_run(&mut self, now: Time, count: u32, bytes: u64) {
        let Some(numbers) = &mut self.numbers else { return };
        let low = numbers.highest() + 1;
        let high = low + u64::from(count);
        numbers.observe((high - 1) as u32);
        self.kept.insert(low..high);
        for gap in &mut self.gaps {
            gap.later += count;
        }
        self.units += count;
        self.bytes += bytes;
        self.since.get_or_insert(now);
    }

    /// Whether `number` is the highest seen.
    pub(super) fn is_highest(&self, number: u32) -> bool {
        self.numbers.as_ref().is_some_and(|numbers| numbers.highest() as u32 == number)
    }

    /// A number below the highest came after all.
    fn fill(&mut self, at: u64) {
        if !self.lost.is_empty() {
            self.lost.remove(at..at + 1);
        }
        let Some(index) = self.gaps.iter().position(|gap| (gap.low..gap.high).contains(&at)) else { return };
        let gap = &mut self.gaps[index];
        let rest = Gap { low: at + 1, high: gap.high, since: gap.since, later: gap.later };
        gap.high = at;
        let empty = gap.low == gap.high;
        if rest.low < rest.high {
            self.gaps.insert(index + 1, rest);
        }
        if empty {
            self.gaps.remove(index);
        }
    }

    /// Says goodbye to gaps that reordering no longer explains. Returns how many numbers were lost.
    //= Z-10
    pub(super) fn judge_gaps(&mut self, now: Time, units: u32, delay: Duration) -> u64 {
        let mut judged = 0;
        while let Some(gap) = self.gaps.front()
            && (gap.later >= units || gap.since + delay <= now)
        {
            judged += self.lost.insert(gap.low..gap.high);
            self.low = self.low.min(gap.low);
            if let Some(from) = &mut self.writing {
                *from = gap.low.min(*from);
            }
            self.gaps.pop_front();
        }
        if judged > 0 {
            self.hurry(now);
            self.since.get_or_insert(now);
        }
        judged
    }

    /// The next report must not wait: a message is complete, nothing follows, or a duplicate shows that the sender waits.
    pub(super) fn hurry(&mut self, now: Time) {
        self.urgent.get_or_insert(now);
    }

    /// Lets urgent reports wait so long for an answer of the application's, which then goes first.
    pub(super) fn set_courtesy(&mut self, courtesy: Duration) {
        self.courtesy = courtesy;
    }

    /// Whether everything waits for a moment, for an answer of the application's to go first.
    pub(super) fn gives_way(&self, now: Time) -> bool {
        self.urgent.is_some_and(|urgent| now < urgent + self.courtesy)
    }

    /// The acknowledgement timer found the sender in mid-message: it waits for us, so report more often.
    pub(super) fn lose_patience(&mut self) {
        self.patience /= 2;
        // What has come is about what its window holds.
        self.most_units = (self.units / 4).clamp(FIRST_UNITS, self.most_units);
        self.has_waited = true;
    }

    /// Whether a report is due.
    //= Z-11
    pub(super) fn is_due(&self, now: Time, config: &Config, answered: bool) -> bool {
        if self.writing.is_some() || self.is_repeated {
            return true;
        }
        let Some(since) = self.since else { return false };
        self.urgent.is_some_and(|urgent| answered || urgent + self.courtesy <= now)
            || (self.units >= config.ack_units && self.bytes >= self.patience)
            || self.units >= self.most_units
            || self.ranges() >= self.reported_ranges + MANY_RANGES
            || since + config.ack_delay <= now
    }

    /// Whether the acknowledgement timer has run out.
    pub(super) fn timer_expired(&self, now: Time, delay: Duration) -> bool {
        self.since.is_some_and(|since| since + delay <= now)
    }

    /// When something becomes due by itself.
    pub(super) fn due_at(&self, config: &Config) -> Option<Time> {
        if self.is_repeated {
            return Some(Time::ZERO);
        }
        let urgent = self.urgent.map(|urgent| urgent + self.courtesy);
        let report = self.since.map(|since| urgent.unwrap_or(Time::MAX).min(since + config.ack_delay));
        let gap = self.gaps.front().map(|gap| gap.since + config.reorder_delay);
        match (report, gap) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The next interval of known sign from `at` on: `(low, high, kept)`.
    fn interval(&self, at: u64) -> Option<(u64, u64, bool)> {
        let end = self.numbers.as_ref()?.highest() + 1;
        if at >= end {
            return None;
        }
        let next = |set: &IntervalSet| match set.contains(at) {
            true => at,
            false => set.missing_in(at..end).next().map_or(end, |gap| gap.end),
        };
        let (kept, lost) = (next(&self.kept), next(&self.lost));
        let low = kept.min(lost);
        if low >= end {
            return None;
        }
        let sign = kept < lost;
        let set = if sign { &self.kept } else { &self.lost };
        Some((low, set.first_missing_from(low).min(end), sign))
    }

    /// Where a report that should begin at `from` does begin, so that its datagrams of at most `space` bytes take `budget`
    /// bytes with the headers below them. The newest interval is said in any case.
    //= Z-11
    fn affordable(&self, from: u64, space: usize, budget: usize) -> u64 {
        const NUMBER: usize = 4;
        // Length, type, and the first number.
        const DATAGRAM: usize = Allowance::LOWER_HEADERS as usize + 3 * NUMBER;
        if self.ranges() * (DATAGRAM + NUMBER) <= budget {
            return from;
        }
        let mut intervals = Vec::new();
        while let Some((low, high, _)) = self.interval(intervals.last().map_or(from, |&(_, high)| high)) {
            intervals.push((low, high));
        }
        let most = (space / NUMBER).saturating_sub(3).max(1);
        let (mut from, mut above, mut cost, mut joined) = (from, None, 0, 0);
        for (low, high) in intervals.into_iter().rev() {
            joined = if above == Some(high) { joined } else { 0 };
            cost += NUMBER + if joined % most == 0 { DATAGRAM } else { 0 };
            if above.is_some() && cost > budget {
                break;
            }
            joined += 1;
            (from, above) = (low, Some(low));
        }
        from
    }

    /// Writes the next datagram of the report into `space`. A block ends where a number belongs to no interval, and
    /// another datagram goes on behind it. All that is left of the report takes `budget` bytes, and
    /// those of the headers are among them.
    //= Z-11
    pub(super) fn write<'s>(&mut self, space: &'s mut [u8], budget: usize) -> Option<&'s [u8]> {
        if core::mem::take(&mut self.is_repeated) && self.since.is_none() && self.writing.is_none() {
            let space = space.get_mut(..self.newest.len())?;
            space.copy_from_slice(&self.newest);
            return Some(space);
        }
        let from = match self.writing {
            Some(from) => from,
            None => {
                for low in &mut self.reported {
                    *low = self.low.min(*low);
                }
                self.reported.push_back(self.low);
                self.begun.clear();
                self.datagrams = 0;
                self.reported.front().copied().unwrap_or(self.low)
            }
        };
        let from = self.affordable(from, space.len(), budget);
        let Some((first, mut high, sign)) = self.interval(from) else {
            self.finish();
            return None;
        };
        let span = u64::from(MAX_BLOCK_SPAN) - 1;
        self.begun.push_back(first);
        self.datagrams += 1;
        if self.begun.len() > DATAGRAMS {
            self.begun.pop_front();
        }
        high = high.min(first + span);
        let mut writer = ControlWriter::new(space);
        writer.push(first as u32);
        writer.push(high as u32);
        let mut expected = !sign;
        while writer.has_room(1)
            && let Some((low, end, sign)) = self.interval(high)
            && low == high
            && sign == expected
            && end - first <= span
        {
            writer.push(end as u32);
            high = end;
            expected = !expected;
        }
        if self.interval(high).is_some() {
            self.writing = Some(high);
        } else {
            self.finish();
        }
        let datagram = writer.acknowledgement(sign);
        self.newest.clear();
        self.newest.extend_from_slice(datagram);
        Some(datagram)
    }

    fn ranges(&self) -> usize {
        self.kept.range_count() + self.lost.range_count()
    }

    fn finish(&mut self) {
        self.writing = None;
        // The newest is said again in any case.
        while self.reported.len() > REMEMBERED || (self.reported.len() > 1 && self.ranges() > self.most_ranges) {
            self.reported.pop_front();
            self.forget_below(self.reported.front().copied().unwrap_or(self.low));
        }
        if self.datagrams > DATAGRAMS
            && let Some(low) = self.begun.iter().copied().min()
        {
            self.reported.iter_mut().for_each(|reported| *reported = low.max(*reported));
            self.forget_below(low);
        }
        self.reported_ranges = self.ranges();
        if self.units >= self.most_units && !self.has_waited {
            self.most_units = self.most_units.saturating_mul(2);
        }
        self.low = self.numbers.as_ref().map_or(0, |numbers| numbers.highest() + 1);
        self.units = 0;
        self.bytes = 0;
        self.since = None;
        self.urgent = None;
    }

    fn forget_below(&mut self, low: u64) {
        self.kept.pop_front_below(low);
        self.lost.pop_front_below(low);
    }

    /// Whether something has not been reported, or not in full.
    pub(super) fn is_unreported(&self) -> bool {
        self.since.is_some() || self.writing.is_some()
    }

    /// At the end: the newest acknowledgement is due once more, after what has not been reported at all.
    //= Z-15
    pub(super) fn repeat(&mut self) {
        if self.since.is_some() {
            self.urgent = Some(Time::ZERO);
        }
        self.is_repeated = !self.newest.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_wire::zcrp::Control;

    const BASE: u64 = 1 << 32;

    fn write_all(report: &mut Report) -> Vec<Vec<(u64, u64, bool)>> {
        let mut blocks = Vec::new();
        let mut space = [0; 512];
        while let Some(bytes) = report.write(&mut space, usize::MAX) {
            let Ok(Control::Acknowledgement(block)) = Control::parse(bytes) else { panic!("a valid block") };
            blocks.push(block.intervals().map(|(l, h, s)| (u64::from(l), u64::from(h), s)).collect());
            if report.writing.is_none() {
                break;
            }
        }
        blocks
    }

    fn report_of(numbers: &[u64]) -> Report {
        let mut report = Report::new(&Config::default());
        for &number in numbers {
            report.on_kept(Time::ZERO, BASE + number, 10);
        }
        report
    }

    #[test]
    fn gaps_become_losses_after_three_later_numbers() {
        //= Z-10 test
        let mut report = report_of(&[10, 11, 13, 14]);
        assert_eq!(report.judge_gaps(Time::ZERO, 3, Duration::from_millis(5)), 0);
        report.on_kept(Time::ZERO, BASE + 15, 10);
        assert_eq!(report.judge_gaps(Time::ZERO, 3, Duration::from_millis(5)), 1);
        assert_eq!(write_all(&mut report), [[(10, 12, true), (12, 13, false), (13, 16, true)]]);
    }

    #[test]
    fn gaps_become_losses_after_five_milliseconds() {
        //= Z-10 test
        let mut report = report_of(&[10, 12]);
        let later = Time::ZERO + Duration::from_millis(5);
        assert_eq!(report.due_at(&Config::default()), Some(later));
        assert_eq!(report.judge_gaps(later, 3, Duration::from_millis(5)), 1);
    }

    #[test]
    fn a_run_counts_like_its_numbers() {
        //= Z-11 test
        let mut singly = report_of(&[10, 12, 13, 14, 15]);
        let mut run = report_of(&[10, 12]);
        assert!(run.is_highest(12) && !run.is_highest(13));
        run.on_kept_run(Time::ZERO, 3, 30);
        assert_eq!((run.units, run.bytes), (singly.units, singly.bytes));
        let delay = Duration::from_millis(5);
        assert_eq!(run.judge_gaps(Time::ZERO, 3, delay), singly.judge_gaps(Time::ZERO, 3, delay));
        assert_eq!(write_all(&mut run), write_all(&mut singly));
    }

    #[test]
    fn an_undecided_number_ends_the_block() {
        //= Z-11 test
        let mut report = report_of(&[10, 12]);
        assert_eq!(write_all(&mut report), [[(10, 11, true)], [(12, 13, true)]]);
        report.on_kept(Time::ZERO, BASE + 11, 10);
        assert_eq!(write_all(&mut report), [[(10, 13, true)]], "what was reported may be repeated");
    }

    #[test]
    fn a_late_number_is_reported_as_kept_after_all() {
        //= Z-10 test
        let mut report = report_of(&[10, 12, 13, 14]);
        report.judge_gaps(Time::ZERO, 3, Duration::from_millis(5));
        assert_eq!(write_all(&mut report), [[(10, 11, true), (11, 12, false), (12, 15, true)]]);
        report.on_kept(Time::ZERO, BASE + 11, 10);
        let blocks = write_all(&mut report);
        assert_eq!(blocks, [[(10, 15, true)]]);
    }

    #[test]
    fn numbers_that_come_downwards_are_said_a_few_times_each() {
        //= Z-11 test
        let mut report = report_of(&[60_000]);
        let mut said = write_all(&mut report).len();
        for number in (1..=10_000).rev() {
            assert!(report.on_kept(Time::ZERO, BASE + 2 * number, 0));
            said += write_all(&mut report).len();
        }
        assert!(said <= 10 * 10_000, "{said} datagrams for 10,001");
        assert!(report.ranges() <= 2 * DATAGRAMS, "{} are remembered", report.ranges());
    }

    #[test]
    fn a_loss_that_is_found_behind_what_was_said_is_in_the_report() {
        //= Z-10 test
        let mut report = report_of(&[10, 12, 14, 16]);
        let mut space = [0; 16];
        for _ in 0..2 {
            assert!(report.write(&mut space, usize::MAX).is_some() && report.writing.is_some());
        }
        // The first gap is three numbers old now, and not all has been written.
        assert_eq!(report.judge_gaps(Time::ZERO, 3, Duration::from_millis(5)), 1);
        let said = write_all(&mut report).concat();
        assert!(said.contains(&(11, 12, false)), "{said:?}");
    }

    #[test]
    fn numbers_of_another_life_are_not_located() {
        //= Z-6 test
        let mut report = report_of(&[10]);
        assert_eq!(report.locate(9), Some(BASE + 9), "before the first is no gap, but may come");
        assert_eq!(report.locate(10 + 65_535), Some(BASE + 10 + 65_535));
        assert_eq!(report.locate(10 + 65_536), None);
        assert_eq!(report.locate(10u32.wrapping_sub(65_536)), None);
        report.on_kept(Time::ZERO, BASE + 9, 10);
        assert_eq!(write_all(&mut report), [[(9, 11, true)]]);
    }

    #[test]
    fn long_spans_are_cut_to_what_a_block_may_span() {
        let mut report = report_of(&[0]);
        report.on_kept(Time::ZERO, BASE + 65_535, 1);
        report.on_kept(Time::ZERO, BASE + 65_536, 1);
        report.judge_gaps(Time::ZERO + Duration::from_secs(1), 3, Duration::from_millis(5));
        let blocks = write_all(&mut report);
        assert_eq!(blocks.concat().iter().map(|(l, h, _)| h - l).sum::<u64>(), 65_537);
    }
}
