//! The receiving role (specs/vrp.md, section 4).

use crate::{Config, Event, FrameId, IncomingCounters};
use pinnace_core::{Placed, PollAt, ReceivePlan, RxMeta, Time, Train};

/// Receives frames from any number of senders.
#[derive(Debug)]
pub struct Incoming {
    config: Config,
    counters: IncomingCounters,
}

impl Incoming {
    /// An endpoint that has received nothing.
    pub fn new(config: Config, now: Time) -> Self {
        let _ = now;
        Self { config, counters: IncomingCounters::default() }
    }

    /// The application no longer needs the storage of a delivered frame: it does not count any more.
    pub fn release(&mut self, id: FrameId) {
        let _ = id;
    }

    /// Ends the endpoint: FRAME_REFUSED for every frame that is not complete (V-S4); [`Event::IncomingClosed`] comes when
    /// all is said.
    pub fn close(&mut self, now: Time) {
        let _ = now;
    }

    /// What has been seen so far.
    pub fn counters(&self) -> IncomingCounters {
        self.counters
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Frames that are kept: incomplete ones, and complete ones that their senders have not closed.
    pub fn frames(&self) -> usize {
        0
    }

    /// Bytes of storage and cells that count against [`Limits::bytes`](crate::Limits::bytes).
    pub fn bytes(&self) -> u64 {
        0
    }

    pub(crate) fn handle_datagrams(&mut self, _: Time, _: &RxMeta, _: &mut Placed<'_>) {}
    pub(crate) fn handle_timeout(&mut self, _: Time) {}
    pub(crate) fn plan_receive(&self, _: &mut ReceivePlan) {}
    pub(crate) fn poll_transmit(&mut self, _: Time, train: &mut Train) -> bool {
        train.begin(pinnace_core::Address::Peer, 0);
        false
    }
    pub(crate) fn poll_at(&self) -> PollAt {
        PollAt::Ingress
    }
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        None
    }
}
