//! The sending role (specs/vrp.md, section 3).

use crate::{Config, Event, FrameSpec, OutgoingCounters, Refused};
use core::time::Duration;
use pinnace_core::{PathEvent, Placed, PollAt, RxMeta, Time, Train};

/// Sends frames to one destination.
#[derive(Debug)]
pub struct Outgoing {
    config: Config,
    counters: OutgoingCounters,
}

impl Outgoing {
    /// An endpoint that has sent nothing.
    pub fn new(config: Config, now: Time) -> Self {
        let _ = now;
        Self { config, counters: OutgoingCounters::default() }
    }

    /// Measures the first round trip ([`Event::Opened`]). A send does it by itself.
    pub fn open(&mut self, now: Time) {
        let _ = now;
    }

    /// Queues a frame and returns its ticket; [`Event::Sent`] tells how it ended.
    ///
    /// # Errors
    /// [`Refused`]; nothing is sent.
    pub fn send(&mut self, now: Time, frame: FrameSpec) -> Result<u64, Refused> {
        let _ = (now, frame);
        Err(Refused::Closed)
    }

    /// Ends the endpoint: frames under way fail with `Closed`; [`Event::OutgoingClosed`] comes when all is said.
    pub fn close(&mut self, now: Time) {
        let _ = now;
    }

    /// What has been seen so far.
    pub fn counters(&self) -> OutgoingCounters {
        self.counters
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The smoothed round trip, once it was measured.
    pub fn round_trip(&self) -> Option<Duration> {
        None
    }

    /// The retransmission time-out now.
    pub fn timeout(&self) -> Duration {
        Duration::ZERO
    }

    /// Frames under way.
    pub fn frames_under_way(&self) -> usize {
        0
    }

    /// What the congestion controller allows: bytes in flight, and bytes a second.
    pub fn congestion(&self) -> (u64, Option<u64>) {
        (0, None)
    }

    pub(crate) fn handle_datagrams(&mut self, _: Time, _: &RxMeta, _: &mut Placed<'_>) {}
    pub(crate) fn handle_timeout(&mut self, _: Time) {}
    pub(crate) fn handle_path_event(&mut self, _: Time, _: PathEvent) {}
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
