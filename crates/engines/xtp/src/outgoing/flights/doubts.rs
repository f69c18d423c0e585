//! What seems lost and may only be late: for how long it is waited for before it is repeated, and what has arrived after all.
//!
//! Always true: what is waited for ends in the order in which it began; no more than [`MOST_WAITING`] places are.

use super::{Flights, Lost, Run, State};
use core::time::Duration;
use pinnace_core::{Reordering, Time};
use std::collections::VecDeque;

/// Places that are waited for; what more is overtaken is repeated at once.
const MOST_WAITING: usize = 1024;

/// For how long what is overtaken is waited for; on a path that keeps the order only now and then, to see.
pub(super) fn wait(now: Time, order: &mut Reordering, may_try: bool) -> Duration {
    match order.patience(now) {
        Duration::ZERO if may_try && order.is_trial() => order.trial(),
        patience => patience,
    }
}

/// Bytes that seemed to be lost, and have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Late {
    pub(in super::super) lost_at: Time,
    /// On the wire.
    pub(in super::super) bytes: u64,
}

/// Bytes that are waited for: those of a flight in a place, and until when.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    until: Time,
    number: u64,
    low: u64,
    high: u64,
}

#[derive(Debug)]
pub(super) struct Doubts {
    waiting: VecDeque<Waiting>,
    /// What was late since this was last asked.
    late: Vec<Late>,
    /// No answer can have come yet to what left after that.
    no_answer_since: Time,
}

impl Default for Doubts {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), late: Vec::new(), no_answer_since: Time::MAX }
    }
}

impl Doubts {
    /// The bytes `[low, high)` of flight `number` are waited for. Returns whether there is room for that.
    pub(super) fn begin(&mut self, until: Time, number: u64, low: u64, high: u64) -> bool {
        if self.waiting.len() >= MOST_WAITING {
            return false;
        }
        let until = self.waiting.back().map_or(until, |last| last.until.max(until));
        self.waiting.push_back(Waiting { until, number, low, high });
        true
    }

    /// So many bytes on the wire of `run` have arrived.
    pub(super) fn on_arrived(&mut self, run: &Run, bytes: u64) {
        let is_late = match run.state {
            State::UnderWay => run.is_repetition && run.stamp.sent_at > self.no_answer_since,
            State::Lost | State::Doubted => bytes > 0,
            State::Acked => false,
        };
        match self.late.last_mut().filter(|last| is_late && last.lost_at == run.lost_at) {
            Some(last) => last.bytes += bytes,
            None if is_late => self.late.push(Late { lost_at: run.lost_at, bytes }),
            None => {}
        }
    }
}

impl Flights {
    /// Before a status is taken in: no answer to what left after that can be in it.
    pub(in super::super) fn expect_no_answer_since(&mut self, at: Time) {
        self.doubts.no_answer_since = at;
    }

    /// What has turned out to be late.
    pub(in super::super) fn drain_late(&mut self) -> impl Iterator<Item = Late> + '_ {
        self.doubts.late.drain(..)
    }

    /// When something is waited for no longer.
    pub(in super::super) fn doubted_until(&self) -> Option<Time> {
        self.doubts.waiting.front().map(|waiting| waiting.until)
    }

    /// When the byte at `offset` was last taken for lost.
    pub(super) fn lost_at(&self, offset: u64) -> Time {
        self.runs.get(self.find(offset)).map_or(Time::ZERO, |run| run.lost_at)
    }

    /// What was waited for in vain is to be repeated.
    pub(in super::super) fn end_doubts(&mut self, now: Time, found: &mut Lost) {
        while let Some(&Waiting { number, low, high, .. }) =
            self.doubts.waiting.front().filter(|waiting| waiting.until <= now)
        {
            self.doubts.waiting.pop_front();
            let mut index = self.find(low);
            while let Some(&run) = self.runs.get(index)
                && run.low < high
            {
                let (from, to) = (run.low.max(low), run.high.min(high));
                if run.number != number || run.state != State::Doubted || from >= to {
                    index += 1;
                    continue;
                }
                found.bytes += to - from;
                self.lost.insert(from..to);
                index = self.mark(index, from, to, State::Lost, run.lost_at);
            }
        }
    }
}
