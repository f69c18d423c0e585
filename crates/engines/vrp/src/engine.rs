//! The engine: one role on one socket.

use crate::{Event, Incoming, Outgoing};
use pinnace_core::{Engine, PathEvent, Placed, PollAt, ReceivePlan, RxMeta, Time, Train};

/// VRP on one socket: an outgoing endpoint's is connected to its destination, an incoming endpoint's is open to all.
#[derive(Debug)]
pub enum Vrp {
    /// Sends frames.
    Outgoing(Box<Outgoing>),
    /// Receives frames.
    Incoming(Box<Incoming>),
}

impl Vrp {
    /// An engine that sends.
    pub fn outgoing(outgoing: Outgoing) -> Self {
        Self::Outgoing(Box::new(outgoing))
    }

    /// An engine that receives.
    pub fn incoming(incoming: Incoming) -> Self {
        Self::Incoming(Box::new(incoming))
    }

    /// The sending role.
    pub fn as_outgoing(&mut self) -> Option<&mut Outgoing> {
        match self {
            Self::Outgoing(outgoing) => Some(outgoing),
            Self::Incoming(_) => None,
        }
    }

    /// The receiving role.
    pub fn as_incoming(&mut self) -> Option<&mut Incoming> {
        match self {
            Self::Incoming(incoming) => Some(incoming),
            Self::Outgoing(_) => None,
        }
    }
}

impl Engine for Vrp {
    type Event = Event;

    fn handle_datagrams(&mut self, now: Time, meta: &RxMeta, rx: &mut Placed<'_>) {
        match self {
            Self::Outgoing(outgoing) => outgoing.handle_datagrams(now, meta, rx),
            Self::Incoming(incoming) => incoming.handle_datagrams(now, meta, rx),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Outgoing(outgoing) => outgoing.handle_timeout(now),
            Self::Incoming(incoming) => incoming.handle_timeout(now),
        }
    }

    fn handle_path_event(&mut self, now: Time, event: PathEvent) {
        if let Self::Outgoing(outgoing) = self {
            outgoing.handle_path_event(now, event);
        }
    }

    fn plan_receive(&self, plan: &mut ReceivePlan) {
        if let Self::Incoming(incoming) = self {
            incoming.plan_receive(plan);
        }
    }

    fn poll_transmit(&mut self, now: Time, train: &mut Train) -> bool {
        match self {
            Self::Outgoing(outgoing) => outgoing.poll_transmit(now, train),
            Self::Incoming(incoming) => incoming.poll_transmit(now, train),
        }
    }

    fn poll_at(&self) -> PollAt {
        match self {
            Self::Outgoing(outgoing) => outgoing.poll_at(),
            Self::Incoming(incoming) => incoming.poll_at(),
        }
    }

    fn handle_hold(&mut self, held: bool) {
        if let Self::Outgoing(outgoing) = self {
            outgoing.hold(held);
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        match self {
            Self::Outgoing(outgoing) => outgoing.poll_event(),
            Self::Incoming(incoming) => incoming.poll_event(),
        }
    }
}
