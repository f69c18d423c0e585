//! One message on its way in: which units have come, and what they say about its size.

use core::ops::Range;
use pinnace_core::{BufferId, ScatteredSet, Time};
use pinnace_wire::zcrp::Unit;

/// What a message is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Posted; no unit of it has come.
    Posted,
    /// At least one unit has come.
    Begun,
    /// It has ended well or was refused, and waits for those before it.
    Complete,
    /// It failed with the whole receiver: its buffer is the application's again, nothing of it is acknowledged.
    Failed,
}

/// Why a unit was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    /// It had been received before: acknowledge it again (Z-14).
    Duplicate,
    /// It lies outside the buffer, or contradicts what earlier units said.
    Contradictory,
}

/// A message on its way in.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) buffer: BufferId,
    pub(super) capacity: u32,
    pub(super) state: State,
    /// Units received without a gap from the first on.
    pub(super) prefix: u32,
    /// Units received beyond the prefix: the buffer bounds how many, and none is dropped for being out of order (Z-14).
    ahead: ScatteredSet,
    /// Units of the message, once its last has come.
    total: Option<u32>,
    /// Bytes of the message, valid with `total`.
    size: u32,
    /// When the request was sent last, and how often (Z-13). Meaningless before the first.
    pub(super) requested_at: Time,
    pub(super) requests: u8,
}

impl Incoming {
    pub(super) fn new(buffer: BufferId, capacity: u32) -> Self {
        Self {
            buffer,
            capacity,
            state: State::Posted,
            prefix: 0,
            ahead: ScatteredSet::default(),
            total: None,
            size: 0,
            requested_at: Time::ZERO,
            requests: 0,
        }
    }

    /// Where the data of unit `number` lies, `room` bytes at most: empty beyond the buffer.
    pub(super) fn place(&self, number: u32, fragment: u32, room: u32) -> (u64, u32) {
        let offset = u64::from(number) * u64::from(fragment);
        let rest = u64::from(self.capacity).saturating_sub(offset);
        (offset, rest.min(u64::from(room)) as u32)
    }

    /// Whether unit `number` is still missing, as far as is known.
    pub(super) fn misses(&self, number: u32) -> bool {
        matches!(self.state, State::Posted | State::Begun)
            && number >= self.prefix
            && self.total.is_none_or(|total| number < total)
            && !self.ahead.contains(number)
    }

    /// The missing units from `low` on, as ranges, up to `bound` units in all.
    pub(super) fn missing_from(&self, low: u32, bound: u32) -> impl Iterator<Item = Range<u32>> + '_ {
        let bound = self.total.unwrap_or(bound);
        let low = low.max(self.prefix);
        self.ahead.missing_in(low..bound)
    }

    /// Takes in a unit whose data belongs at `offset`. Returns whether the message is complete now.
    //= Z-5
    //= Z-14
    //= Z-20
    pub(super) fn accept(&mut self, unit: &Unit, offset: u64) -> Result<bool, Rejected> {
        let number = unit.unit;
        let has_come = self.has_come(number);
        let contradicts = match self.total {
            Some(total) => number >= total || (unit.is_last != (number + 1 == total)),
            None => unit.is_last && (has_come || self.ahead.max().is_some_and(|highest| highest > number)),
        };
        // Before duplicates are known: what contradicts is not acknowledged, not even if its number has come before.
        if contradicts {
            return Err(Rejected::Contradictory);
        }
        if self.state == State::Complete || has_come {
            return Err(Rejected::Duplicate);
        }
        let end = offset + u64::from(unit.length);
        if end > u64::from(self.capacity) {
            return Err(Rejected::Contradictory);
        }
        if number == self.prefix {
            self.prefix += 1;
            if !self.ahead.is_empty() {
                self.prefix = self.ahead.first_missing_from(self.prefix);
                self.ahead.pop_front_below(self.prefix);
            }
        } else {
            self.ahead.insert(number);
        }
        if unit.is_last {
            self.total = Some(number + 1);
            self.size = end as u32;
        }
        self.state = State::Begun;
        Ok(self.total == Some(self.prefix))
    }

    /// It is known where the message ends, now that it is known where its last unit lies.
    pub(super) fn ends_at(&mut self, end: u64) {
        self.size = end as u32;
    }

    fn has_come(&self, number: u32) -> bool {
        number < self.prefix || self.ahead.contains(number)
    }

    /// Whether the units after `number` can be taken in as a run: it was the last of the prefix, and nothing is known of
    /// what lies behind it.
    pub(super) fn is_plain_after(&self, number: u32) -> bool {
        self.state == State::Begun
            && self.prefix.checked_sub(1) == Some(number)
            && self.ahead.is_empty()
            && self.total.is_none()
    }

    /// Units and bytes of a complete message.
    pub(super) fn extent(&self) -> (u32, u32) {
        (self.prefix, self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(number: u32, length: u32, is_last: bool) -> Unit {
        Unit { message: 0, unit: number, sequence: 0, next: None, length, is_last, refused: false }
    }

    fn accept(message: &mut Incoming, number: u32, length: u32, is_last: bool) -> Result<bool, Rejected> {
        message.accept(&unit(number, length, is_last), u64::from(number) * 100)
    }

    #[test]
    fn units_complete_a_message_in_any_order() {
        //= Z-20 test
        let mut message = Incoming::new(BufferId::new(0), 250);
        assert_eq!(accept(&mut message, 2, 50, true), Ok(false));
        assert_eq!(accept(&mut message, 0, 100, false), Ok(false));
        assert_eq!(accept(&mut message, 2, 50, true), Err(Rejected::Duplicate));
        assert!(message.misses(1) && !message.misses(2) && !message.misses(3));
        assert_eq!(message.missing_from(0, 9).collect::<Vec<_>>(), vec![1..2]);
        assert_eq!(accept(&mut message, 1, 100, false), Ok(true));
        assert_eq!(message.extent(), (3, 250));
    }

    #[test]
    fn contradictions_change_nothing() {
        //= Z-14 test
        let mut message = Incoming::new(BufferId::new(0), 250);
        assert_eq!(accept(&mut message, 2, 51, true), Err(Rejected::Contradictory), "beyond the buffer");
        assert_eq!(accept(&mut message, 1, 100, false), Ok(false));
        assert_eq!(accept(&mut message, 0, 10, true), Err(Rejected::Contradictory), "last before one that came");
        assert_eq!(accept(&mut message, 2, 50, true), Ok(false));
        assert_eq!(accept(&mut message, 3, 0, false), Err(Rejected::Contradictory), "behind the last");
        assert_eq!(accept(&mut message, 0, 100, true), Err(Rejected::Contradictory), "a second last");
        assert_eq!(accept(&mut message, 1, 100, true), Err(Rejected::Contradictory), "a duplicate, now the last");
        assert_eq!(accept(&mut message, 2, 50, false), Err(Rejected::Contradictory), "a duplicate, no longer the last");
        assert_eq!(accept(&mut message, 1, 100, false), Err(Rejected::Duplicate));
        assert_eq!(accept(&mut message, 0, 100, false), Ok(true));
        assert_eq!(accept(&mut message, 0, 100, true), Err(Rejected::Contradictory));
        assert_eq!(accept(&mut message, 0, 100, false), Err(Rejected::Duplicate));
    }

    #[test]
    fn a_duplicate_that_says_it_was_the_last_contradicts() {
        //= Z-14 test
        let mut message = Incoming::new(BufferId::new(0), 250);
        assert_eq!(accept(&mut message, 0, 100, false), Ok(false));
        assert_eq!(accept(&mut message, 0, 100, true), Err(Rejected::Contradictory));
        assert_eq!(accept(&mut message, 0, 100, false), Err(Rejected::Duplicate));
    }
}
