//! What turns the engine's events into messages that come back to whoever waits for them.
//!
//! Always true: a message under way is owned here, and its buffer is in the table exactly as long, so the transport never
//! names memory that is gone; each number is taken once.

use crate::Message;
use crate::carrier::UnderWay;
use pinnace_core::BufferId;
use pinnace_link::BufferTable;
use pinnace_runtime::EventSink;
use pinnace_zcrp::{Event, Failure};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// The messages of one direction, by *ticket*: the number of the message, for the first half of an endpoint; a half that
/// is opened after it goes on where it ended, so that handles of the old one name no message of the new one.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// The ticket of message 0.
    first: u64,
    /// From this number on tickets are so much later: others had these numbers, and were withdrawn.
    moved: Option<(u64, u64)>,
    base: u64,
    slots: VecDeque<Slot>,
    under_way: UnderWay,
    ended: usize,
    closed: Option<Failure>,
}

#[derive(Debug)]
enum Slot {
    UnderWay(Message),
    /// Nobody waits for it any more.
    Abandoned(Message),
    Ended(Message, Result<u32, Failure>),
    Taken,
}

/// The peer's address, once it is known.
pub(super) type KnownPeer = Arc<OnceLock<SocketAddr>>;

/// How a message ended.
pub(super) type Outcome = (Message, Result<u32, Failure>);

impl Lane {
    /// The message of this number, the next, is under way. Returns its ticket.
    pub(super) fn begin(&mut self, number: u64, message: Message) -> u64 {
        let ticket = self.next_ticket();
        debug_assert_eq!(self.ticket(number), ticket);
        self.under_way.begin(message.len());
        self.slots.push_back(Slot::UnderWay(message));
        ticket
    }

    /// The ticket of the message that begins next.
    pub(super) fn next_ticket(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    fn ticket(&self, number: u64) -> u64 {
        let moved = self.moved.filter(|(from, _)| *from <= number).map_or(0, |(_, by)| by);
        self.first + number + moved
    }

    /// Messages were withdrawn, and have ended, so that the next is this one again. May happen once.
    pub(super) fn go_on_at(&mut self, number: u64) {
        debug_assert!(self.moved.is_none());
        self.moved = Some((number, self.next_ticket() - self.ticket(number)));
    }

    /// A new half begins, with message 0. The old one, if there was one, has closed.
    pub(super) fn restart(&mut self) {
        debug_assert!(self.is_quiet());
        (self.first, self.moved) = (self.next_ticket(), None);
        self.closed = None;
    }

    fn slot(&mut self, ticket: u64) -> Option<&mut Slot> {
        self.slots.get_mut(usize::try_from(ticket.checked_sub(self.base)?).ok()?)
    }

    fn end(&mut self, number: u64, result: Result<u32, Failure>) {
        let Some(slot) = self.slot(self.ticket(number)) else { return };
        match std::mem::replace(slot, Slot::Taken) {
            Slot::UnderWay(message) => {
                let len = message.len();
                *slot = Slot::Ended(message, result);
                self.ended += 1;
                self.under_way.end(len);
            }
            Slot::Abandoned(message) => {
                self.under_way.end(message.len());
                self.trim();
            }
            Slot::Ended(..) | Slot::Taken => {}
        }
    }

    /// Takes a message that has ended.
    pub(super) fn take(&mut self, ticket: u64) -> Option<Outcome> {
        let slot = self.slot(ticket)?;
        if !matches!(slot, Slot::Ended(..)) {
            return None;
        }
        let Slot::Ended(message, result) = std::mem::replace(slot, Slot::Taken) else { return None };
        self.ended -= 1;
        self.trim();
        Some((message, result))
    }

    /// How the message ended, if it has; it stays where it is.
    pub(super) fn outcome(&mut self, ticket: u64) -> Option<Result<u32, Failure>> {
        match self.slot(ticket)? {
            Slot::Ended(_, result) => Some(*result),
            Slot::UnderWay(_) | Slot::Abandoned(_) | Slot::Taken => None,
        }
    }

    /// Nobody will ask for this number any more.
    pub(super) fn abandon(&mut self, ticket: u64) {
        let Some(slot) = self.slot(ticket) else { return };
        match std::mem::replace(slot, Slot::Taken) {
            Slot::UnderWay(message) => *slot = Slot::Abandoned(message),
            Slot::Ended(..) => {
                self.ended -= 1;
                self.trim();
            }
            Slot::Abandoned(message) => *slot = Slot::Abandoned(message),
            Slot::Taken => {}
        }
    }

    fn trim(&mut self) {
        while matches!(self.slots.front(), Some(Slot::Taken)) {
            self.slots.pop_front();
            self.base += 1;
        }
    }

    /// Why the lane takes no more messages.
    pub(super) fn closed(&self) -> Option<Failure> {
        self.closed
    }

    /// Messages under way.
    pub(super) fn under_way(&self) -> UnderWay {
        self.under_way
    }

    /// Whether nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way.messages == 0
    }
}

/// Both directions of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) peer: KnownPeer,
    pub(super) sends: Lane,
    pub(super) receives: Lane,
}

impl EventSink<Event> for Exchange {
    fn handle_event(&mut self, event: Event, memory: &mut BufferTable) {
        let mut give_back = |buffer: BufferId| memory.remove(buffer);
        match event {
            Event::Sent { number, buffer, result } => {
                give_back(buffer);
                self.sends.end(number, result.map(|()| 0));
            }
            Event::Received { number, buffer, result } => {
                give_back(buffer);
                self.receives.end(number, result);
            }
            Event::SenderClosed(failure) => self.sends.closed = Some(failure),
            Event::ReceiverClosed(failure) => self.receives.closed = Some(failure),
        }
    }

    fn is_outstanding(&self) -> bool {
        !self.sends.is_quiet() || !self.receives.is_quiet()
    }

    fn is_ready(&self) -> bool {
        self.sends.ended > 0 || self.receives.ended > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_once_and_in_any_order() {
        let mut lane = Lane::default();
        for number in 0..3 {
            lane.begin(number, Message::with_capacity(number as usize));
        }
        lane.end(1, Ok(1));
        assert!(lane.take(0).is_none() && lane.outcome(0).is_none());
        assert_eq!([lane.outcome(1), lane.outcome(1)], [Some(Ok(1)); 2]);
        assert_eq!(lane.take(1).unwrap().0.capacity(), 1);
        assert!(lane.take(1).is_none());
        lane.abandon(0);
        lane.end(0, Err(Failure::Closed));
        lane.end(2, Ok(2));
        assert_eq!(lane.take(2).unwrap().1, Ok(2));
        assert!(lane.slots.is_empty() && lane.is_quiet());
        assert_eq!((lane.base, lane.ended), (3, 0));
    }

    #[test]
    fn what_goes_in_the_place_of_withdrawn_messages_has_a_ticket_of_its_own() {
        let mut lane = Lane::default();
        for number in 0..3 {
            lane.begin(number, Message::with_capacity(number as usize));
        }
        lane.end(1, Err(Failure::Closed));
        lane.end(2, Err(Failure::Closed));
        lane.go_on_at(1);
        assert_eq!((lane.begin(1, Message::with_capacity(9)), lane.outcome(3)), (3, None));
        lane.end(0, Ok(0));
        lane.end(1, Ok(9));
        assert_eq!((lane.outcome(0), lane.outcome(1)), (Some(Ok(0)), Some(Err(Failure::Closed))));
        assert_eq!((lane.outcome(2), lane.outcome(3)), (Some(Err(Failure::Closed)), Some(Ok(9))));
    }

    #[test]
    fn a_new_half_begins_again_without_touching_the_messages_of_the_old_one() {
        let mut lane = Lane::default();
        assert_eq!(lane.begin(0, Message::with_capacity(1)), 0);
        lane.end(0, Err(Failure::Closed));
        lane.closed = Some(Failure::Closed);
        lane.restart();
        let ticket = lane.begin(0, Message::with_capacity(2));
        lane.end(0, Ok(2));
        assert_eq!((lane.closed(), ticket), (None, 1));
        assert_eq!((lane.outcome(0), lane.outcome(1)), (Some(Err(Failure::Closed)), Some(Ok(2))));
    }
}
