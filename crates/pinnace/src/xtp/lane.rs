//! The messages that an association sends.
//!
//! Always true: a message is here from the call that queues it until it was taken, or has ended and nobody will ask for
//! it; numbers count the calls, from 0, and each is taken once.

use crate::Message;
use std::collections::VecDeque;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Lane {
    base: u64,
    slots: VecDeque<Slot>,
    /// The number of the first message that is under way: they end in order.
    first_under_way: u64,
    ended: u64,
    undelivered: u64,
}

#[derive(Debug)]
enum Slot {
    UnderWay { ticket: u64, message: Message, abandoned: bool },
    Ended { message: Message, delivered: bool },
    Taken,
}

impl Lane {
    /// This message is under way, as `ticket`. Returns its number.
    pub(super) fn begin(&mut self, ticket: u64, message: Message) -> u64 {
        self.slots.push_back(Slot::UnderWay { ticket, message, abandoned: false });
        self.base + self.slots.len() as u64 - 1
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        self.slots.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// The message of this ticket has ended.
    pub(super) fn end(&mut self, ticket: u64, delivered: bool) {
        let from = self.first_under_way.max(self.base);
        let behind = self.base + self.slots.len() as u64;
        let is_it = |slot: Option<&mut Slot>| matches!(slot, Some(Slot::UnderWay { ticket: t, .. }) if *t == ticket);
        let Some(number) = (from..behind).find(|number| is_it(self.slot(*number))) else { return };
        let Some(slot) = self.slot(number) else { return };
        if let Slot::UnderWay { message, abandoned, .. } = std::mem::replace(slot, Slot::Taken)
            && !abandoned
        {
            *slot = Slot::Ended { message, delivered };
        }
        self.ended += 1;
        self.undelivered += u64::from(!delivered);
        if number == from {
            self.first_under_way = number + 1;
        }
        self.trim();
    }

    /// Takes a message that has ended, and whether it was delivered.
    pub(super) fn take(&mut self, number: u64) -> Option<(Message, bool)> {
        let slot = self.slot(number)?;
        if !matches!(slot, Slot::Ended { .. }) {
            return None;
        }
        let Slot::Ended { message, delivered } = std::mem::replace(slot, Slot::Taken) else { return None };
        self.trim();
        Some((message, delivered))
    }

    /// Whether a message that has ended was delivered.
    pub(super) fn outcome(&mut self, number: u64) -> Option<bool> {
        match self.slot(number)? {
            Slot::Ended { delivered, .. } => Some(*delivered),
            Slot::UnderWay { .. } | Slot::Taken => None,
        }
    }

    /// Nobody will ask for this message.
    pub(super) fn abandon(&mut self, number: u64) {
        match self.slot(number) {
            Some(Slot::UnderWay { abandoned, .. }) => *abandoned = true,
            Some(slot) => {
                *slot = Slot::Taken;
                self.trim();
            }
            None => {}
        }
    }

    fn trim(&mut self) {
        while let Some(Slot::Taken) = self.slots.front() {
            self.slots.pop_front();
            self.base += 1;
        }
    }

    /// How many have ended, ever.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    /// Whether any that have ended were not delivered.
    pub(super) fn has_losses(&self) -> bool {
        self.undelivered > 0
    }

    /// Whether every message has ended.
    pub(super) fn is_quiet(&self) -> bool {
        self.ended == self.base + self.slots.len() as u64
    }

    /// Whether no message is here.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_once_and_in_any_order() {
        let mut lane = Lane::default();
        let numbers = [10, 13, 14, 20].map(|ticket| lane.begin(ticket, Message::with_capacity(ticket as usize)));
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert!(lane.take(0).is_none() && lane.outcome(0).is_none() && !lane.is_quiet());
        lane.end(10, true);
        lane.end(13, false);
        assert_eq!(
            (lane.outcome(0), lane.outcome(1), lane.ended(), lane.has_losses()),
            (Some(true), Some(false), 2, true)
        );
        assert_eq!(lane.take(1).map(|(message, delivered)| (message.capacity(), delivered)), Some((13, false)));
        assert!(lane.take(1).is_none());
        lane.abandon(0);
        lane.abandon(2);
        lane.end(14, true);
        assert!(lane.outcome(2).is_none() && !lane.is_empty());
        lane.end(14, true);
        lane.end(20, true);
        assert_eq!((lane.ended(), lane.is_quiet()), (4, true));
        assert!(lane.take(3).is_some() && lane.is_empty());
        assert_eq!(lane.begin(30, Message::with_capacity(1)), 4);
        lane.end(30, true);
        assert!(lane.take(4).is_some());
    }
}
