//! What has become of the bytes that were sent and are not below rseq, and in which order they left.
//!
//! Two views of the same transmissions. By place: [`Run`]s, one behind the other from `base` to what was sent last, each
//! of packets of one size that left together, all in one state. By time: [`Flight`]s in the order of their numbers, in
//! which the loss of what was overtaken is found without looking at anything else.
//!
//! Always true: every byte from `base` on is in exactly one run; runs with the same `number` are parts of one flight, so
//! they agree in everything but their ends and their state; `lost` holds the bytes of the runs that are lost and will be
//! repeated; `bytes` is what the packets under way weigh on the wire. A peer that acknowledges parts of packets can make
//! more runs than there are packets by no more than [`RAGGED`] and a 256th of the bytes.
//= X-13

mod group;

use pinnace_core::{DeliveryStamp, IntervalSet, Latecomers, Time};
use std::collections::VecDeque;

/// Below so many runs, spans may cut packets in two; beyond, only whole packets count as acknowledged.
const RAGGED: usize = 256;
/// Runs of a stream without repetition that are remembered.
const MAX_UNREPEATED: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    UnderWay,
    Acked,
    Lost,
}

/// Consecutive bytes that left in packets of one size, the last perhaps shorter.
#[derive(Clone, Copy, Debug)]
struct Run {
    low: u64,
    high: u64,
    /// The first byte of the flight: packets begin at `origin + k * size` and have the number `number + k`.
    origin: u64,
    number: u64,
    size: u32,
    /// Bytes of a packet beside the user's.
    overhead: u32,
    state: State,
    is_repetition: bool,
    /// When it was taken for lost, or, while it is under way again, the transmission before.
    lost_at: Time,
    stamp: DeliveryStamp,
}

impl Run {
    /// So many bytes on the wire of it have arrived.
    fn note_late(&self, wire: u64, latecomers: &mut Latecomers) {
        match self.state {
            State::UnderWay if self.is_repetition => {
                latecomers.on_arrived(self.lost_at, wire, Some(self.stamp.sent_at));
            }
            State::Lost if wire > 0 => latecomers.on_arrived(self.lost_at, wire, None),
            _ => {}
        }
    }

    /// Number of the newest transmission that brought a byte of `[low, high)`, all of which have arrived by a status that
    /// cannot know of the transmission `before`; 0: none. What is a repetition and left then or later has not arrived: what
    /// it repeats was only late, and says nothing of the time between.
    fn newest_arrived(&self, low: u64, high: u64, before: u64) -> u64 {
        match self.number_at(high - 1) {
            number if !self.is_repetition || number < before => number,
            _ if self.number_at(low) < before => before - 1,
            _ => 0,
        }
    }

    /// Number of the transmission that carried the byte at `offset`.
    fn number_at(&self, offset: u64) -> u64 {
        self.number + (offset - self.origin) / u64::from(self.size)
    }

    /// Bytes that a datagram had at least which brought some of `[low, high)`: as many of them as lay in one, and its headers.
    fn largest(&self, low: u64, high: u64) -> u32 {
        let first = self.packet_end(low).min(high);
        // Only the first and the last of them may lie partly in the range, or be shorter than the others.
        let most = (first - low).max((high - first).min(self.size.into()));
        most as u32 + self.overhead
    }

    /// Bytes on the wire; a packet's overhead counts where the packet begins.
    fn wire(&self, low: u64, high: u64) -> u64 {
        let begun = |offset: u64| (offset - self.origin).div_ceil(u64::from(self.size));
        high - low + (begun(high) - begun(low)) * u64::from(self.overhead)
    }

    /// The end of the packet that the byte at `offset` belongs to.
    fn packet_end(&self, offset: u64) -> u64 {
        self.high.min(self.origin + (self.number_at(offset) - self.number + 1) * u64::from(self.size))
    }
}

/// Consecutive transmissions of consecutive bytes.
#[derive(Clone, Copy, Debug)]
struct Flight {
    low: u64,
    high: u64,
    number: u64,
    count: u32,
    /// How many of them have been looked at for loss.
    checked: u32,
    size: u32,
}

/// One packet that leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) low: u64,
    pub(super) len: u32,
    pub(super) overhead: u32,
    pub(super) number: u64,
    pub(super) at: Time,
}

impl Sent {
    fn high(&self) -> u64 {
        self.low + u64::from(self.len)
    }
}

/// What was found to be lost at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lost {
    /// User bytes that are no longer under way.
    pub(super) bytes: u64,
    /// What really was lost of that, on the wire.
    pub(super) wire: u64,
    /// When the newest of it left.
    pub(super) sent_at: Time,
    first: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Flights {
    base: u64,
    runs: VecDeque<Run>,
    order: VecDeque<Flight>,
    lost: IntervalSet,
    pub(super) latecomers: Latecomers,
    bytes: u64,
    /// The newest transmission that is known to have arrived; 0: none.
    newest_acked: u64,
    /// Bytes of the largest datagram that has arrived since this was last asked.
    largest_acked: u32,
}

impl Flights {
    /// Nothing is under way; the first byte to be sent is `sent`.
    pub(super) fn new(sent: u64) -> Self {
        Self {
            base: sent,
            runs: VecDeque::new(),
            order: VecDeque::new(),
            lost: IntervalSet::new(),
            latecomers: Latecomers::default(),
            bytes: 0,
            newest_acked: 0,
            largest_acked: 0,
        }
    }

    /// Bytes on the wire that are under way.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn newest_acked(&self) -> u64 {
        self.newest_acked
    }

    /// Bytes of the largest datagram that has been acknowledged since the last call.
    pub(super) fn take_largest_acked(&mut self) -> u32 {
        core::mem::take(&mut self.largest_acked)
    }

    /// The bytes to be repeated.
    pub(super) fn lost(&self) -> &IntervalSet {
        &self.lost
    }

    /// The end of the packet, as it was sent last, that the byte at `offset` belongs to.
    pub(super) fn packet_end(&self, offset: u64) -> Option<u64> {
        let run = self.runs.get(self.find(offset)).filter(|run| run.low <= offset)?;
        Some(run.packet_end(offset))
    }

    /// A packet leaves, of new bytes or of old ones. `stamp` is called if it begins a flight.
    pub(super) fn send(&mut self, sent: &Sent, stamp: impl FnOnce() -> DeliveryStamp) {
        let (low, high) = (sent.low, sent.high());
        let is_repetition = self.runs.back().is_some_and(|run| run.high > low);
        let lost_at = if is_repetition { self.lost_at(low) } else { Time::ZERO };
        let index = if !is_repetition {
            self.runs.len()
        } else {
            self.lost.remove(low..high);
            self.take_out(low, high)
        };
        self.bytes += u64::from(sent.len) + u64::from(sent.overhead);
        let left = index.checked_sub(1).and_then(|left| self.runs.get_mut(left));
        if let (Some(flight), Some(run)) = (self.order.back_mut(), left)
            && flight.number == run.number
            && flight.number + u64::from(flight.count) == sent.number
            && flight.high == low
            && run.high == low
            && run.state == State::UnderWay
            && (run.is_repetition, run.lost_at) == (is_repetition, lost_at)
            && run.stamp.sent_at == sent.at
            && run.overhead == sent.overhead
            && sent.len <= flight.size
            && flight.high - flight.low == u64::from(flight.size) * u64::from(flight.count)
        {
            flight.high = high;
            flight.count += 1;
            run.high = high;
            return;
        }
        let Sent { number, len: size, overhead, .. } = *sent;
        self.order.push_back(Flight { low, high, number, count: 1, checked: 0, size });
        let state = State::UnderWay;
        let (origin, stamp) = (low, stamp());
        let run = Run { low, high, origin, number, size, overhead, state, is_repetition, lost_at, stamp };
        self.runs.insert(index, run);
    }

    /// Takes the bytes `[low, high)` out of the runs; returns the index of what lies behind them.
    fn take_out(&mut self, low: u64, high: u64) -> usize {
        let mut index = self.find(low);
        if self.runs.get(index).is_some_and(|run| run.low < low) {
            let run = &mut self.runs[index];
            let mut right = *run;
            run.high = low;
            right.low = low;
            index += 1;
            self.runs.insert(index, right);
        }
        while let Some(run) = self.runs.get_mut(index)
            && run.low < high
        {
            let end = run.high.min(high);
            if run.state == State::UnderWay {
                self.bytes -= run.wire(run.low, end);
            }
            if run.high > high {
                run.low = high;
                break;
            }
            self.runs.remove(index);
        }
        index
    }

    /// When the byte at `offset` was last taken for lost.
    fn lost_at(&self, offset: u64) -> Time {
        self.runs.get(self.find(offset)).map_or(Time::ZERO, |run| run.lost_at)
    }

    /// Everything below `rseq` has arrived, by a status whose sender has heard nothing of the transmission `before` yet.
    /// Shows each part that is news, as bytes on the wire and its stamp, to `each`; returns how many bytes are new.
    pub(super) fn ack_below(&mut self, rseq: u64, before: u64, mut each: impl FnMut(u64, &DeliveryStamp)) -> u64 {
        let mut acked = 0;
        while let Some(run) = self.runs.front_mut()
            && run.low < rseq
        {
            let high = run.high.min(rseq);
            if run.state != State::Acked {
                acked += high - run.low;
                self.largest_acked = self.largest_acked.max(run.largest(run.low, high));
                self.newest_acked = self.newest_acked.max(run.newest_arrived(run.low, high, before));
            }
            let wire = run.wire(run.low, high);
            run.note_late(wire, &mut self.latecomers);
            if run.state == State::UnderWay {
                self.bytes -= wire;
            }
            if run.state != State::Acked {
                each(wire, &run.stamp);
            }
            if high < run.high {
                run.low = high;
                break;
            }
            self.runs.pop_front();
        }
        self.lost.pop_front_below(rseq);
        self.base = self.base.max(rseq);
        acked
    }

    /// The bytes `[low, high)` have arrived. As [`Flights::ack_below`].
    pub(super) fn ack_span(
        &mut self,
        (low, high): (u64, u64),
        before: u64,
        mut each: impl FnMut(u64, &DeliveryStamp),
    ) -> u64 {
        let low = low.max(self.base);
        if low >= high {
            return 0;
        }
        let mut acked = 0;
        let mut index = self.find(low);
        while let Some(&run) = self.runs.get(index)
            && run.low < high
        {
            let (mut from, mut to) = (run.low.max(low), run.high.min(high));
            if self.runs.len() >= self.most_ragged() {
                if from > run.low && run.packet_end(from - 1) != from {
                    from = run.packet_end(from);
                }
                if to < run.high && run.packet_end(to - 1) != to {
                    to = run.origin + (run.number_at(to) - run.number) * u64::from(run.size);
                }
            }
            if run.state == State::Acked || from >= to {
                index += 1;
                continue;
            }
            acked += to - from;
            self.largest_acked = self.largest_acked.max(run.largest(from, to));
            self.newest_acked = self.newest_acked.max(run.newest_arrived(from, to, before));
            let wire = run.wire(from, to);
            run.note_late(wire, &mut self.latecomers);
            each(wire, &run.stamp);
            match run.state {
                State::UnderWay => self.bytes -= wire,
                _ => {
                    self.lost.remove(from..to);
                }
            }
            index = self.mark(index, from, to, State::Acked, run.lost_at);
        }
        acked
    }

    fn most_ragged(&self) -> usize {
        let bytes = self.runs.back().map_or(0, |run| run.high - self.base);
        RAGGED + (bytes / 256) as usize
    }

    /// Finds what is lost: what is under way with a number below `number`. `is_repeated`: it will be sent again.
    pub(super) fn overtake(&mut self, now: Time, number: u64, is_repeated: bool) -> Lost {
        let mut found = Lost::default();
        while let Some(flight) = self.order.front_mut()
            && flight.number + u64::from(flight.checked) < number
        {
            let due = u64::from(flight.count).min(number - flight.number) as u32;
            let low = (flight.low + u64::from(flight.checked) * u64::from(flight.size)).max(self.base);
            let high = flight.high.min(flight.low + u64::from(due) * u64::from(flight.size));
            let name = flight.number;
            flight.checked = due;
            if due == flight.count {
                self.order.pop_front();
            }
            if low < high {
                self.lose(now, name, (low, high), is_repeated, &mut found);
            }
        }
        found
    }

    /// Marks as lost what is under way with flight `number` of `[low, high)`.
    fn lose(&mut self, now: Time, number: u64, (low, high): (u64, u64), is_repeated: bool, found: &mut Lost) {
        let mut index = self.find(low);
        while let Some(&run) = self.runs.get(index)
            && run.low < high
        {
            let (from, to) = (run.low.max(low), run.high.min(high));
            if run.number != number || run.state != State::UnderWay || from >= to {
                index += 1;
                continue;
            }
            let wire = run.wire(from, to);
            self.bytes -= wire;
            found.bytes += to - from;
            found.wire += wire;
            found.sent_at = found.sent_at.max(run.stamp.sent_at);
            found.first = Some(found.first.map_or(from, |first| first.min(from)));
            if is_repeated {
                self.lost.insert(from..to);
            }
            index = self.mark(index, from, to, State::Lost, now);
        }
    }

    /// All bytes from the first of those in `found` on are to be repeated.
    //= X-13
    pub(super) fn go_back(&mut self, found: &mut Lost) {
        let Some(first) = found.first else { return };
        let mut index = self.find(first);
        while let Some(&run) = self.runs.get(index) {
            let from = run.low.max(first);
            if run.state == State::Lost {
                index += 1;
                continue;
            }
            if run.state == State::UnderWay {
                self.bytes -= run.wire(from, run.high);
            }
            found.bytes += run.high - from;
            self.lost.insert(from..run.high);
            index = self.mark(index, from, run.high, State::Lost, run.lost_at);
        }
    }

    /// Puts `[low, high)` of run `index` into `state`; returns the index of what lies behind.
    fn mark(&mut self, index: usize, low: u64, high: u64, state: State, lost_at: Time) -> usize {
        let run = self.runs[index];
        if low == run.low
            && let Some(left) = index.checked_sub(1).and_then(|left| self.runs.get_mut(left))
            && left.number == run.number
            && (left.state, left.lost_at) == (state, lost_at)
        {
            left.high = high;
            if high < run.high {
                self.runs[index].low = high;
            } else {
                self.runs.remove(index);
            }
            return index;
        }
        self.runs[index] = Run { low, high, state, lost_at, ..run };
        if high < run.high {
            self.runs.insert(index + 1, Run { low: high, ..run });
        }
        if run.low < low {
            self.runs.insert(index, Run { high: low, ..run });
            return index + 2;
        }
        index + 1
    }

    /// Bounds what a stream that repeats nothing remembers.
    pub(super) fn forget_oldest(&mut self) {
        while self.runs.len() > MAX_UNREPEATED
            && let Some(run) = self.runs.pop_front()
        {
            if run.state == State::UnderWay {
                self.bytes -= run.wire(run.low, run.high);
            }
            self.base = run.high;
        }
        while self.order.len() > MAX_UNREPEATED {
            self.order.pop_front();
        }
    }

    /// Forgets everything below `sent`.
    pub(super) fn clear(&mut self, sent: u64) {
        let newest_acked = self.newest_acked;
        *self = Self { newest_acked, ..Self::new(sent) };
    }

    /// Index of the first run that ends behind `offset`.
    fn find(&self, offset: u64) -> usize {
        match self.runs.front() {
            // What is said is mostly said of the oldest run.
            Some(run) if run.high > offset => 0,
            _ => self.runs.partition_point(|run| run.high <= offset),
        }
    }

    /// The parts of `[base, sent)` and their states.
    #[cfg(test)]
    pub(super) fn states(&self) -> impl Iterator<Item = (u64, u64, State)> {
        self.runs.iter().map(|run| (run.low, run.high, run.state))
    }

    /// The same as [`Flights::bytes`], added up.
    #[cfg(test)]
    pub(super) fn bytes_counted(&self) -> u64 {
        self.runs.iter().filter(|run| run.state == State::UnderWay).map(|run| run.wire(run.low, run.high)).sum()
    }

    /// Records by place and by time.
    #[cfg(test)]
    pub(super) fn records(&self) -> (usize, usize) {
        (self.runs.len(), self.order.len())
    }
}
