//! *Units in transit*: every transmission by its sequence number, until its unit is acknowledged.
//!
//! Transmissions are kept as runs: consecutive sequence numbers that carry consecutive units of one message and left
//! together. Always true: runs are in order and without gaps from the oldest remembered number to the next one; at most
//! one transmission of a unit is in state `InTransit`, its newest (Z-8), because a unit is sent again only after the one
//! before it has been given up.

use core::time::Duration;
use pinnace_core::{DeliveryStamp, Time};
use std::collections::VecDeque;

/// What has become of the transmissions of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    InTransit,
    /// Reported lost: its unit has gone back to the units to send.
    GivenUp,
    /// Too long unanswered: the same.
    Expired,
    Acknowledged,
}

/// Consecutive transmissions of consecutive units of one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Sequence number of the first, unwrapped.
    pub(super) first: u64,
    pub(super) count: u32,
    /// Bytes of each datagram.
    pub(super) bytes: u32,
    pub(super) message: u64,
    /// Unit number of the first.
    pub(super) unit: u32,
    pub(super) fate: Fate,
    /// When that was decided, of what is given up.
    pub(super) decided_at: Time,
    pub(super) stamp: DeliveryStamp,
}

impl Run {
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// Unit numbers, half-open.
    pub(super) fn units(&self) -> (u32, u32) {
        (self.unit, self.unit + self.count)
    }

    pub(super) fn total_bytes(&self) -> u64 {
        u64::from(self.count) * u64::from(self.bytes)
    }
}

/// How long transmissions may be unanswered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// When the time-out was doubled,
    pub(super) doubled_at: Time,
    /// what it was for what had left before, and still is,
    pub(super) before: Duration,
    /// and what it is for what has left since.
    pub(super) since: Duration,
}

impl Timeouts {
    fn expiry(&self, run: &Run) -> Time {
        let sent_at = run.stamp.sent_at;
        sent_at + if sent_at < self.doubled_at { self.before } else { self.since }
    }
}

/// The transmissions that are remembered.
#[derive(Debug)]
pub(super) struct Transit {
    runs: VecDeque<Run>,
    first: u64,
    next: u64,
    units_in_flight: u32,
    bytes_in_flight: u64,
}

impl Transit {
    /// `first` is the first sequence number.
    //= Z-6
    pub(super) fn new(first: u32) -> Self {
        // One turn above zero, so that numbers a little before the first have a place, too.
        let first = (1 << 32) + u64::from(first);
        Self { runs: VecDeque::new(), first, next: first, units_in_flight: 0, bytes_in_flight: 0 }
    }

    /// The next sequence number, unwrapped.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether all the numbers `[low, high)` have been sent, ever.
    pub(super) fn has_sent(&self, low: u64, high: u64) -> bool {
        self.first <= low && high <= self.next
    }

    /// How many numbers are remembered.
    pub(super) fn span(&self) -> u64 {
        self.runs.front().map_or(0, |run| self.next - run.first)
    }

    pub(super) fn units_in_flight(&self) -> u32 {
        self.units_in_flight
    }

    pub(super) fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Records the transmission of one unit in a datagram of `bytes` bytes. `extends`: it left in the same train as the
    /// transmission before it.
    pub(super) fn push(&mut self, message: u64, unit: u32, bytes: u32, stamp: &DeliveryStamp, extends: bool) {
        self.push_run(message, unit, 1, bytes, stamp, extends);
    }

    /// Records the transmission of `count` consecutive units, like so many calls of [`Transit::push`].
    pub(super) fn push_run(
        &mut self,
        message: u64,
        unit: u32,
        count: u32,
        bytes: u32,
        stamp: &DeliveryStamp,
        extends: bool,
    ) {
        self.units_in_flight += count;
        self.bytes_in_flight += u64::from(bytes) * u64::from(count);
        self.next += u64::from(count);
        if extends
            && let Some(run) = self.runs.back_mut()
            && run.message == message
            && run.bytes == bytes
            && run.unit + run.count == unit
        {
            run.count += count;
            return;
        }
        let first = self.next - u64::from(count);
        let (fate, decided_at) = (Fate::InTransit, Time::ZERO);
        self.runs.push_back(Run { first, count, bytes, message, unit, fate, decided_at, stamp: *stamp });
    }

    /// Decides the fate of the transmissions `[low, high)`: each run in it is cut to size and shown to `each` with its
    /// fate before; `each` returns whether the new fate holds.
    pub(super) fn decide(&mut self, now: Time, low: u64, high: u64, fate: Fate, mut each: impl FnMut(&Run) -> bool) {
        let Some(front) = self.runs.front() else { return };
        let (mut low, high) = (low.max(front.first), high.min(self.next));
        if low >= high {
            return;
        }
        // Acknowledgements are mostly about the oldest runs.
        let mut index = if front.end() > low { 0 } else { self.runs.partition_point(|run| run.end() <= low) };
        while low < high && index < self.runs.len() {
            let run = self.runs[index];
            let matters = match fate {
                Fate::Acknowledged => run.fate != Fate::Acknowledged,
                _ => run.fate == Fate::InTransit,
            };
            if !matters {
                low = run.end();
                index += 1;
                continue;
            }
            if run.first < low {
                self.split(index, low);
                index += 1;
            }
            if self.runs[index].end() > high {
                self.split(index, high);
            }
            let run = self.runs[index];
            if each(&run) {
                if run.fate == Fate::InTransit {
                    self.units_in_flight -= run.count;
                    self.bytes_in_flight -= run.total_bytes();
                }
                (self.runs[index].fate, self.runs[index].decided_at) = (fate, now);
            }
            low = run.end();
            index += 1;
        }
    }

    /// Cuts run `index` in two before number `at`.
    fn split(&mut self, index: usize, at: u64) {
        let run = &mut self.runs[index];
        let keep = (at - run.first) as u32;
        let mut rest = *run;
        rest.first = at;
        rest.count -= keep;
        rest.unit += keep;
        run.count = keep;
        self.runs.insert(index + 1, rest);
    }

    /// The newest transmission of a unit: its number, and when it left.
    pub(super) fn newest_of(&self, message: u64, unit: u32) -> Option<(u64, Time)> {
        let carries = |run: &&Run| run.message == message && (run.units().0..run.units().1).contains(&unit);
        let run = self.runs.iter().rev().find(carries)?;
        Some((run.first + u64::from(unit - run.unit), run.stamp.sent_at))
    }

    /// Forgets the oldest runs: those acknowledged, those `settled` says need no memory if they were given up before `until`,
    /// and given-up ones beyond `most` numbers.
    pub(super) fn forget(&mut self, most: u64, until: Time, settled: impl Fn(&Run) -> bool) {
        while let Some(run) = self.runs.front() {
            let done = match run.fate {
                Fate::Acknowledged => true,
                Fate::GivenUp | Fate::Expired => {
                    self.next - run.first > most || (run.decided_at < until && settled(run))
                }
                Fate::InTransit => false,
            };
            if !done {
                break;
            }
            self.runs.pop_front();
        }
    }

    /// Gives up the transmissions that have been unanswered for too long, and shows each run to `each`.
    pub(super) fn expire(&mut self, now: Time, timeouts: &Timeouts, mut each: impl FnMut(&Run)) {
        for run in self.runs.iter_mut().filter(|run| run.fate == Fate::InTransit) {
            if timeouts.expiry(run) <= now {
                (run.fate, run.decided_at) = (Fate::Expired, now);
                self.units_in_flight -= run.count;
                self.bytes_in_flight -= run.total_bytes();
                each(run);
            }
        }
    }

    /// Gives up all that is in transit.
    pub(super) fn give_up(&mut self, now: Time) {
        for run in self.runs.iter_mut().filter(|run| run.fate == Fate::InTransit) {
            (run.fate, run.decided_at) = (Fate::GivenUp, now);
        }
        (self.units_in_flight, self.bytes_in_flight) = (0, 0);
    }

    /// When the first of the transmissions in transit will have been unanswered for too long.
    pub(super) fn expires_at(&self, timeouts: &Timeouts) -> Option<Time> {
        let in_transit = self.runs.iter().filter(|run| run.fate == Fate::InTransit);
        in_transit.map(|run| timeouts.expiry(run)).min()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.units_in_flight = 0;
        self.bytes_in_flight = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transit() -> (Transit, u64) {
        let mut transit = Transit::new(u32::MAX);
        let stamp = pinnace_core::DeliveryRate::new().on_sent(Time::ZERO, 0, 0);
        let low = transit.next();
        for unit in 0..10 {
            transit.push(0, unit, 100, &stamp, unit > 0);
        }
        (transit, low)
    }

    #[test]
    fn a_run_is_cut_where_fates_differ() {
        //= Z-8 test
        let (mut transit, low) = transit();
        assert_eq!((transit.units_in_flight(), transit.bytes_in_flight(), transit.runs.len()), (10, 1000, 1));
        let mut lost = Vec::new();
        transit.decide(Time::ZERO, low + 3, low + 5, Fate::GivenUp, |run| {
            lost.push(run.units());
            true
        });
        assert_eq!(lost, [(3, 5)]);
        assert_eq!((transit.units_in_flight(), transit.runs.len()), (8, 3));
        let mut acked = Vec::new();
        // A late acknowledgement of what was given up counts too; a second loss report of it does not.
        transit.decide(Time::ZERO, low, low + 10, Fate::Acknowledged, |run| {
            acked.push((run.units(), run.fate));
            true
        });
        assert_eq!(acked, [((0, 3), Fate::InTransit), ((3, 5), Fate::GivenUp), ((5, 10), Fate::InTransit)]);
        transit.decide(Time::ZERO, low, low + 10, Fate::GivenUp, |_| panic!("all is acknowledged"));
        assert_eq!((transit.units_in_flight(), transit.bytes_in_flight()), (0, 0));
        transit.forget(100, Time::ZERO, |_| false);
        assert_eq!(transit.span(), 0);
    }

    #[test]
    fn numbers_that_were_never_sent_are_ignored() {
        let (mut transit, low) = transit();
        transit.decide(Time::ZERO, low + 10, low + 50, Fate::Acknowledged, |_| panic!("not sent"));
        transit.decide(Time::ZERO, 0, low, Fate::Acknowledged, |_| panic!("not sent"));
        transit.decide(Time::ZERO, low + 50, low, Fate::Acknowledged, |_| panic!("empty"));
        assert_eq!(transit.units_in_flight(), 10);
    }

    #[test]
    fn what_is_given_up_is_remembered_until_it_is_settled_or_too_old() {
        let (mut transit, low) = transit();
        transit.decide(Time::ZERO, low, low + 1, Fate::GivenUp, |_| true);
        transit.decide(Time::ZERO, low + 1, low + 10, Fate::Acknowledged, |_| true);
        transit.forget(10, Time::ZERO, |_| false);
        assert_eq!(transit.span(), 10);
        transit.forget(9, Time::ZERO, |_| false);
        assert_eq!(transit.span(), 0);
    }
}
