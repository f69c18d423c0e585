//! What is simulated: for each protocol the programs at both ends, which send the messages and compare what comes.
//!
//! Always true: an engine is set up as the library sets it up for a path of the open Internet, or for one's own network where
//! the window is fixed.

pub(super) mod a1;
pub(super) mod vrp;
pub(super) mod xtp;
pub(super) mod zcrp;

use super::tally::{Failed, Got, Shared, Side};
use super::transfer::Plan;
use crate::exit::Error;
use core::fmt::Display;
use core::time::Duration;
use pinnace_core::{Engine, Time, mix64};
use pinnace_sim::Application;

/// The program at one end.
pub(super) trait Program: Application<Self::Engine> + Sized + 'static {
    type Engine: Engine;

    /// Whether the receiver knows its peer beforehand, so that its socket is connected.
    const IS_PEER_NAMED: bool = false;

    /// The sender and the receiver.
    ///
    /// # Errors
    /// If the protocol has no such messages.
    fn ends(plan: &Plan, tally: &Shared) -> Result<[(Self::Engine, Self); 2], Error>;

    /// What they have counted so far.
    fn figures(sender: &Self::Engine, receiver: &Self::Engine) -> Figures;

    /// What a datagram says, for the trace.
    fn describe(datagram: &[u8]) -> String;
}

/// What the engines counted.
#[derive(Debug)]
pub(crate) struct Figures {
    /// Datagrams of data that were sent, repetitions included; and the repetitions.
    pub(crate) sent: u64,
    pub(crate) resent: u64,
    pub(crate) timeouts: u64,
    /// Payload bytes that reached the receiver for the first time.
    pub(crate) bytes_received: u64,
    /// Received straight into their place, and copied there, in the protocol's own unit of counting.
    pub(crate) in_place: u64,
    pub(crate) copied: u64,
    pub(crate) bytes_copied: u64,
    pub(crate) round_trip: Option<Duration>,
    pub(crate) sender: Vec<(&'static str, u64)>,
    pub(crate) receiver: Vec<(&'static str, u64)>,
}

impl Figures {
    /// Of what was received, what came straight into its place, 0 to 1; 0 of nothing.
    pub(crate) fn share_in_place(&self) -> f64 {
        crate::numbers::share(self.in_place, self.in_place + self.copied)
    }
}

/// What all programs know.
pub(super) struct Common {
    plan: Plan,
    side: Side,
    tally: Shared,
}

impl Common {
    fn pair(plan: &Plan, tally: &Shared) -> [Self; 2] {
        [Side::Sender, Side::Receiver].map(|side| Self { plan: plan.clone(), side, tally: tally.clone() })
    }

    /// What is random at this end follows from it: another one than at the other end.
    fn seed(&self) -> u64 {
        mix64(self.plan.seed).wrapping_add(self.side as u64)
    }

    /// The message has ended at this end.
    fn end(&self, now: Time, number: usize, result: Result<Got, Failed>) {
        self.tally.borrow_mut().end(now, self.side, number, result);
    }

    /// All that has not ended at this end fails.
    fn fail(&self, now: Time, failed: &Failed) {
        self.tally.borrow_mut().fail(now, self.side, failed);
    }

    /// The connection has ended too early. Where nobody has ever answered, nobody is told of the messages there.
    fn closed(&self, now: Time, failed: &Failed, is_unanswered: bool) {
        self.fail(now, failed);
        if self.side == Side::Sender && is_unanswered {
            let mut tally = self.tally.borrow_mut();
            let messages = tally.open(Side::Receiver);
            tally.never_told(messages);
        }
    }

    fn is_done(&self) -> bool {
        self.tally.borrow().is_complete()
    }
}

/// The first few ranges, for the trace.
fn list<N: Display>(mut ranges: impl Iterator<Item = (N, N)>) -> String {
    let mut text: String = ranges.by_ref().take(4).map(|(low, high)| format!(" {low}..{high}")).collect();
    if ranges.next().is_some() {
        text += " ...";
    }
    text
}
