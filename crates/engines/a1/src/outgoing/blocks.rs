//! What has become of the blocks that have left and are not below what the peer expects.
//!
//! Always true: there is one record for every number from `base` to the last one sent; `arrived` and `lost` hold the
//! numbers whose record says so, and no range of more than they may have; `bytes` is what the blocks under way weigh on
//! the wire. A peer that acknowledges or misses every second block makes at most [`MAX_RANGES`] ranges: what does not fit
//! and has arrived counts as under way until that is said again, and what is missed waits to be missed again.
//= A-7

use core::time::Duration;
use pinnace_core::{DeliveryStamp, IntervalSet, Latecomers, Time};
use std::collections::VecDeque;

/// Ranges of blocks that are remembered as arrived, and as lost.
pub(super) const MAX_RANGES: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    UnderWay,
    Arrived,
    Lost,
    /// It is lost, and there was no room to remember where. It is not under way: otherwise what is lost would hold back for
    /// ever the repetitions that make room.
    Missed,
    /// It was dropped instead of leaving.
    Skipped,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    stamp: DeliveryStamp,
    message: u32,
    index: u16,
    /// Bytes of the body.
    len: u16,
    state: State,
    /// It has left before.
    is_repeated: bool,
    /// When it was missed last; before it left: the transmission before that.
    missed_at: Time,
}

impl Record {
    /// It has arrived, so many bytes on the wire.
    fn note_late(&self, wire: u64, latecomers: &mut Latecomers) {
        match self.state {
            State::UnderWay if self.is_repeated => {
                latecomers.on_arrived(self.missed_at, wire, Some(self.stamp.sent_at));
            }
            State::Lost | State::Missed => latecomers.on_arrived(self.missed_at, wire, None),
            _ => {}
        }
    }

    /// Whether that it has arrived would be news.
    fn is_news(&self) -> bool {
        matches!(self.state, State::UnderWay | State::Lost | State::Missed)
    }
}

/// A block that leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) number: u64,
    pub(super) message: u32,
    pub(super) index: u16,
    pub(super) len: u16,
}

/// What was found to be lost at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lost {
    pub(super) blocks: u64,
    /// Bytes on the wire, those included of what is missed.
    pub(super) wire: u64,
    /// When the newest of them left.
    pub(super) sent_at: Time,
}

#[derive(Debug)]
pub(super) struct Blocks {
    base: u64,
    records: VecDeque<Record>,
    arrived: IntervalSet,
    lost: IntervalSet,
    bytes: u64,
    /// Bytes of a datagram beside the body.
    overhead: u32,
    pub(super) latecomers: Latecomers,
}

impl Blocks {
    /// Nothing is under way; the first block to leave is `base`.
    pub(super) fn new(base: u64, overhead: u32) -> Self {
        Self {
            base,
            records: VecDeque::new(),
            arrived: IntervalSet::new(),
            lost: IntervalSet::new(),
            bytes: 0,
            overhead,
            latecomers: Latecomers::default(),
        }
    }

    /// Bytes on the wire that are under way.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The oldest block to be repeated: its number, its message and its place in that.
    pub(super) fn oldest_lost(&self) -> Option<(u64, u32, u16)> {
        let number = self.lost.min()?;
        let record = self.records.get(self.place(number))?;
        Some((number, record.message, record.index))
    }

    /// Whether something is to be repeated.
    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Bytes of the datagram with the oldest block.
    pub(super) fn oldest_wire(&self) -> Option<u32> {
        self.records.front().map(|record| self.wire(record) as u32)
    }

    fn place(&self, number: u64) -> usize {
        number.wrapping_sub(self.base) as usize
    }

    fn wire(&self, record: &Record) -> u64 {
        u64::from(record.len) + u64::from(self.overhead)
    }

    /// A block leaves: the next new one, or one that is lost.
    pub(super) fn send(&mut self, leaving: &Leaving, stamp: DeliveryStamp) {
        let Leaving { number, message, index, len } = *leaving;
        let place = self.place(number);
        let is_repeated = place < self.records.len();
        let missed_at = self.records.get(place).map_or(Time::ZERO, |old| old.missed_at);
        let record = Record { stamp, message, index, len, state: State::UnderWay, is_repeated, missed_at };
        if place == self.records.len() {
            self.records.push_back(record);
        } else if let Some(old) = self.records.get_mut(place).filter(|old| old.state == State::Lost) {
            *old = record;
            if self.lost.min() == Some(number) {
                self.lost.pop_front_below(number + 1);
            } else {
                self.lost.remove(number..number + 1);
            }
        } else {
            return;
        }
        self.bytes += self.wire(&record);
    }

    /// The next blocks do not leave at all.
    pub(super) fn skip(&mut self, count: u64) {
        let zero = Time::ZERO;
        let stamp =
            DeliveryStamp { sent_at: zero, delivered: 0, delivered_at: zero, first_sent_at: zero, app_limited: true };
        let (state, is_repeated, missed_at) = (State::Skipped, false, zero);
        let record = Record { stamp, message: 0, index: 0, len: 0, state, is_repeated, missed_at };
        self.records.extend(core::iter::repeat_n(record, count as usize));
    }

    /// Everything below `next_expected` has arrived. Shows each block that is news, as bytes on the wire and its
    /// stamp, to `each`; returns how many blocks are new.
    pub(super) fn acknowledge_below(&mut self, next_expected: u64, mut each: impl FnMut(u64, &DeliveryStamp)) -> u64 {
        let mut newly = 0;
        while self.base < next_expected
            && let Some(record) = self.records.pop_front()
        {
            self.base += 1;
            newly += u64::from(record.is_news());
            let wire = self.wire(&record);
            record.note_late(wire, &mut self.latecomers);
            if record.state == State::UnderWay {
                self.bytes -= wire;
            }
            if record.is_news() {
                each(wire, &record.stamp);
            }
        }
        self.arrived.pop_front_below(self.base);
        self.lost.pop_front_below(self.base);
        newly
    }

    /// The blocks `[low, high)`, all of which have left, have arrived. As [`Blocks::acknowledge_below`].
    pub(super) fn acknowledge(&mut self, low: u64, high: u64, mut each: impl FnMut(u64, &DeliveryStamp)) -> u64 {
        let mut newly = 0;
        let mut low = low.max(self.base);
        // A range is said again with every ACK: only its holes cost time.
        while let Some(hole) = self.arrived.missing_in(low..high).next() {
            if self.arrived.try_insert(hole.clone(), MAX_RANGES).is_err() {
                break;
            }
            if self.lost.overlaps(hole.clone()) {
                self.lost.remove(hole.clone());
            }
            let overhead = u64::from(self.overhead);
            let (first, behind) = (self.place(hole.start), self.place(hole.end));
            for record in self.records.range_mut(first..behind) {
                let wire = u64::from(record.len) + overhead;
                record.note_late(wire, &mut self.latecomers);
                if record.state == State::UnderWay {
                    self.bytes -= wire;
                }
                if record.is_news() {
                    each(wire, &record.stamp);
                }
                record.state = State::Arrived;
            }
            newly += hole.end - hole.start;
            low = hole.end;
        }
        newly
    }

    /// The first block that is not known to have arrived.
    pub(super) fn first_missing(&self) -> u64 {
        self.arrived.first_missing_from(self.base)
    }

    /// The peer misses the blocks `[low, high)`, all of which have left: those under way that left the first of the round
    /// trips ago or earlier are lost; of those that have been repeated, the second.
    pub(super) fn lose(&mut self, now: Time, low: u64, high: u64, rtt: (Duration, Duration), found: &mut Lost) {
        let is_missed = |record: &Record| {
            let rtt = if record.is_repeated { rtt.1 } else { rtt.0 };
            let is_due = record.state == State::UnderWay && now.since(record.stamp.sent_at) >= rtt;
            is_due || record.state == State::Missed
        };
        let mut low = low.max(self.base);
        while low < high {
            let (first, behind) = (self.place(low), self.place(high));
            let count = self.records.range(first..behind).take_while(|record| is_missed(record)).count();
            if count > 0 {
                let run = low..low + count as u64;
                let has_room = self.lost.try_insert(run, MAX_RANGES).is_ok();
                self.mark(now, first, count, if has_room { State::Lost } else { State::Missed }, found);
            }
            // The one behind the run is not missed.
            low += count as u64 + 1;
        }
    }

    /// The oldest block is lost, if it is under way. Whatever the limit: without it nothing goes on.
    pub(super) fn lose_oldest(&mut self, now: Time) {
        if self.records.front().is_some_and(|record| matches!(record.state, State::UnderWay | State::Missed)) {
            self.lost.insert(self.base..self.base + 1);
            self.mark(now, 0, 1, State::Lost, &mut Lost::default());
        }
    }

    /// Blocks that are under way, or missed, are `Lost` now or `Missed`.
    fn mark(&mut self, now: Time, first: usize, count: usize, state: State, found: &mut Lost) {
        let overhead = u64::from(self.overhead);
        for record in self.records.range_mut(first..first + count) {
            if record.state == State::UnderWay {
                let wire = u64::from(record.len) + overhead;
                self.bytes -= wire;
                found.wire += wire;
                found.sent_at = found.sent_at.max(record.stamp.sent_at);
                record.missed_at = now;
            }
            record.state = state;
            found.blocks += u64::from(state == State::Lost);
        }
    }

    /// The states of the blocks from `base` on.
    #[cfg(test)]
    pub(super) fn states(&self) -> impl Iterator<Item = (u64, State)> {
        (self.base..).zip(self.records.iter().map(|record| record.state))
    }

    /// Bytes on the heap, but for the sets.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.records.capacity() * size_of::<Record>()
    }

    /// The same as [`Blocks::bytes`], added up; and what the sets say against the records.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let under_way = self.records.iter().filter(|record| record.state == State::UnderWay);
        assert_eq!(self.bytes, under_way.map(|record| self.wire(record)).sum::<u64>());
        for (number, state) in self.states() {
            assert_eq!(self.arrived.contains(number), state == State::Arrived, "{number}");
            assert_eq!(self.lost.contains(number), state == State::Lost, "{number}");
        }
        let end = self.base + self.records.len() as u64;
        assert!(self.arrived.max().is_none_or(|max| max < end) && self.lost.max().is_none_or(|max| max < end));
        assert!(self.arrived.range_count() <= MAX_RANGES && self.lost.range_count() <= MAX_RANGES + 1);
    }
}
