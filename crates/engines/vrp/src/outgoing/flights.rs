//! What is under way: every transmission of the endpoint in the order in which it left, until it is settled.
//!
//! Always true: the oldest remembered flight is pending, so its age is the age of the oldest unanswered transmission;
//! [`Flights::bytes`] is the sum over pending flights.

use core::time::Duration;
use pinnace_core::DeliveryStamp;
use std::collections::VecDeque;

/// What a flight carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cargo {
    /// The frame's header, perhaps with its data.
    Header,
    /// A data packet.
    Packet(u32),
}

/// One transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// Slot of the frame.
    pub(super) slot: usize,
    /// Its ticket: the slot may have another frame by now.
    pub(super) ticket: u64,
    pub(super) cargo: Cargo,
    /// Bytes of the datagram.
    pub(super) bytes: u32,
    pub(super) stamp: DeliveryStamp,
    /// How much longer it is waited for because time-outs had doubled when it left.
    pub(super) grace: Duration,
    pending: bool,
}

/// The name of a flight. Never 0 in [`Flights::push`]'s answers.
pub(super) type FlightId = u64;

#[derive(Debug)]
pub(super) struct Flights {
    /// The number of the first in `queue`.
    base: FlightId,
    queue: VecDeque<Flight>,
    bytes: u64,
}

impl Flights {
    pub(super) fn new() -> Self {
        Self { base: 1, queue: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn push(
        &mut self,
        slot: usize,
        ticket: u64,
        cargo: Cargo,
        bytes: usize,
        stamp: DeliveryStamp,
        grace: Duration,
    ) -> FlightId {
        let bytes = bytes as u32;
        self.bytes += u64::from(bytes);
        self.queue.push_back(Flight { slot, ticket, cargo, bytes, stamp, grace, pending: true });
        self.base + self.queue.len() as u64 - 1
    }

    /// The flight has arrived, or is given up. `None` if it was settled before.
    pub(super) fn settle(&mut self, id: FlightId) -> Option<Flight> {
        let index = usize::try_from(id.checked_sub(self.base)?).ok()?;
        let flight = self.queue.get_mut(index).filter(|flight| flight.pending)?;
        flight.pending = false;
        self.bytes -= u64::from(flight.bytes);
        let settled = *flight;
        while self.queue.front().is_some_and(|flight| !flight.pending) {
            self.queue.pop_front();
            self.base += 1;
        }
        Some(settled)
    }

    /// Settles the oldest flight if its time is over.
    pub(super) fn settle_oldest(&mut self, is_over: impl FnOnce(&Flight) -> bool) -> Option<Flight> {
        self.oldest().filter(|flight| is_over(flight))?;
        self.settle(self.base)
    }

    /// The oldest pending flight.
    pub(super) fn oldest(&self) -> Option<&Flight> {
        self.queue.front()
    }

    /// Bytes of all pending flights.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_core::{DeliveryRate, Time};

    #[test]
    fn flights_settle_once_and_in_any_order() {
        let mut delivery = DeliveryRate::new();
        let mut flights = Flights::new();
        let at = Time::from_nanos;
        let grace = Duration::ZERO;
        let mut push = |n: u32| {
            let stamp = delivery.on_sent(at(u64::from(n)), 100, 0);
            flights.push(0, 9, Cargo::Packet(n), 100, stamp, grace)
        };
        let ids = [0, 1, 2, 3].map(&mut push);
        let oldest = |flights: &Flights| flights.oldest().map(|flight| flight.stamp.sent_at);
        let left_by = |until| move |flight: &Flight| flight.stamp.sent_at <= until;
        assert_eq!(flights.settle(ids[1]).map(|flight| flight.cargo), Some(Cargo::Packet(1)));
        assert!(flights.settle(ids[1]).is_none() && flights.settle(0).is_none() && flights.settle(99).is_none());
        assert_eq!((flights.bytes(), oldest(&flights)), (300, Some(at(0))));
        assert_eq!(flights.settle_oldest(left_by(at(0))).map(|flight| flight.cargo), Some(Cargo::Packet(0)));
        assert_eq!(oldest(&flights), Some(at(2)), "what was settled in the middle is gone too");
        assert!(flights.settle_oldest(left_by(at(1))).is_none());
        assert!(flights.settle(ids[3]).is_some() && flights.settle(ids[2]).is_some());
        assert_eq!((flights.bytes(), oldest(&flights)), (0, None));
    }
}
