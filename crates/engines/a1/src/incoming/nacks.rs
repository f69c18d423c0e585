//! What is asked for again, and when (specs/a1.md, 1.1, Timing).
//!
//! Always true: a block is in at most one of the ranges. Those in `asked` are in the order of their times, so the first is
//! due first. Blocks that have come meanwhile are left out when a NACK is made, not before.
//= A-7

use super::Due;
use core::ops::Range;
use core::time::Duration;
use pinnace_core::{IntervalSet, Time};
use std::collections::VecDeque;

/// How long a repetition is waited for before the first sample of the round trip.
const INITIAL_WAIT: Duration = Duration::from_millis(20);
/// It is waited for so long at least: clocks are coarse, and a round trip may seem to take no time at all.
const MIN_WAIT: Duration = Duration::from_micros(10);

/// So often all that is missing is asked for again, a round trip apart, of a source of which nothing comes; then the time between
/// doubles, up to this. Round trips may be so short that a dead source with many gaps would be sent a hundred times what it sent.
const PATIENT_ROUNDS: u32 = 3;
const MAX_WAIT: Duration = Duration::from_millis(500);

/// Gaps to ask for, and those asked for.
#[derive(Debug, Default)]
pub(super) struct Nacks {
    /// Gaps that have not been asked for; rising, and above all others.
    fresh: VecDeque<Range<u64>>,
    /// Gaps that have, and when.
    asked: VecDeque<(Range<u64>, Time)>,
    /// How often gaps were asked for again since anything was heard of the source, and when that was last.
    silent_rounds: u32,
    round_at: Time,
}

impl Nacks {
    /// There is a new gap, above all that is known.
    pub(super) fn on_gap(&mut self, gap: Range<u64>) {
        match self.fresh.back_mut() {
            Some(last) if last.end == gap.start => last.end = gap.end,
            _ => self.fresh.push_back(gap),
        }
    }

    /// The source is there.
    #[inline]
    pub(super) fn on_heard(&mut self) {
        self.silent_rounds = 0;
    }

    /// How long a repetition is waited for. What is due in a moment stays due in it, in however many datagrams it is asked for.
    fn wait(&self, now: Time, rtt: Option<Duration>) -> Duration {
        let trip = rtt.unwrap_or(INITIAL_WAIT).max(MIN_WAIT);
        let rounds = self.silent_rounds.saturating_sub(u32::from(now == self.round_at));
        let doublings = rounds.saturating_sub(PATIENT_ROUNDS).min(16);
        trip.saturating_mul(1 << doublings).min(MAX_WAIT.max(trip))
    }

    /// Nothing below `expected` is missing.
    #[inline]
    pub(super) fn on_filled(&mut self, expected: u64) {
        while self.fresh.pop_front_if(|gap| gap.end <= expected).is_some() {}
        while self.asked.pop_front_if(|(gap, _)| gap.end <= expected).is_some() {}
    }

    pub(super) fn due(&self, now: Time, rtt: Option<Duration>) -> Due {
        if !self.fresh.is_empty() {
            return Due::Now;
        }
        Due::at(now, self.asked.front().map(|(_, at)| *at + self.wait(now, rtt)))
    }

    /// Moves at most `max` ranges that are due into `out`, rising. `ahead` are the blocks that have come above `expected`.
    /// Says whether all of them were asked for before.
    pub(super) fn take(
        &mut self,
        now: Time,
        rtt: Option<Duration>,
        max: usize,
        ahead: &IntervalSet,
        expected: u64,
        out: &mut Vec<(u64, u64)>,
    ) -> bool {
        out.clear();
        let wait = self.wait(now, rtt);
        // Those that are asked for now stand behind these.
        for _ in 0..self.asked.len() {
            if out.len() >= max {
                break;
            }
            let Some((gap, at)) = self.asked.pop_front_if(|(_, at)| *at + wait <= now) else { break };
            if let Some(rest) = self.ask(now, gap, max, ahead, expected, out) {
                self.asked.push_front((rest, at));
            }
        }
        let again = out.len();
        // Those of one moment are one round.
        if again > 0 && now >= self.round_at + wait {
            (self.silent_rounds, self.round_at) = (self.silent_rounds.saturating_add(1), now);
        }
        while out.len() < max
            && let Some(gap) = self.fresh.pop_front()
        {
            if let Some(rest) = self.ask(now, gap, max, ahead, expected, out) {
                self.fresh.push_front(rest);
            }
        }
        out.sort_unstable();
        out.len() == again
    }

    /// Asks for what is missing in `gap`; returns what there was no room for.
    fn ask(
        &mut self,
        now: Time,
        gap: Range<u64>,
        max: usize,
        ahead: &IntervalSet,
        expected: u64,
        out: &mut Vec<(u64, u64)>,
    ) -> Option<Range<u64>> {
        for missing in ahead.missing_in(gap.start.max(expected)..gap.end) {
            if out.len() >= max {
                return Some(missing.start..gap.end);
            }
            out.push((missing.start, missing.end));
            self.asked.push_back((missing, now));
        }
        None
    }
}
