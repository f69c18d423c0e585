//! What a connection has agreed on for one direction, and how a new agreement takes the place of an old one.
//!
//! Always true: what is in force is the record of the next new block, or, before that is known or reached, the smaller of
//! it and the old one.
//= A-11
//= A-12

use core::time::Duration;

/// The quality of service of one direction: the smaller of what this end sends and the peer receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Bytes of every block of a message but the last. Never changes.
    pub(crate) block_bytes: u32,
    /// What is lost is repeated; otherwise the mode is raw. Never changes.
    pub(crate) reliable: bool,
    /// Blocks beyond those acknowledged that this end lets leave; the peer's limit is the edge.
    pub(crate) window: u64,
    /// Bytes of the largest message.
    pub(crate) max_message: u64,
    /// Messages that may be outstanding: queued and not done.
    pub(crate) outstanding: u64,
    /// Bytes of blocks a second; 0: no limit.
    pub(crate) average: u64,
    /// Bytes of blocks at once. Less than a block counts as one.
    pub(crate) burst: u64,
}

impl Terms {
    /// A window in blocks, from the record of one end.
    //= A-10
    pub(crate) fn window_of(largest: u32, block_bytes: u32, outstanding: u32) -> u64 {
        u64::from(largest.div_ceil(block_bytes.max(1))) * u64::from(outstanding)
    }

    /// The smaller of both in everything that may change.
    pub(crate) fn smaller(&self, other: &Self) -> Self {
        let (average, burst) = match (self.average, other.average) {
            (0, _) => (other.average, other.burst),
            (_, 0) => (self.average, self.burst),
            _ => (self.average.min(other.average), self.burst.min(other.burst)),
        };
        Self {
            window: self.window.min(other.window),
            max_message: self.max_message.min(other.max_message),
            outstanding: self.outstanding.min(other.outstanding),
            average,
            burst,
            ..*self
        }
    }
}

/// What is known of the round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    /// The shortest round trip of late. What was sent less than this ago cannot be missed yet.
    pub(crate) rtt: Duration,
    /// The retransmission time-out, not doubled.
    pub(crate) rto: Duration,
}

impl Default for Timing {
    /// Before the first sample.
    fn default() -> Self {
        Self { rtt: Duration::from_millis(20), rto: Duration::from_millis(250) }
    }
}

/// A record on its way into force.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// The first block under it; `None` until the peer has answered.
    from: Option<u64>,
    terms: Terms,
}

/// The terms in force, and those to come.
#[derive(Debug)]
pub(super) struct Agreement {
    old: Terms,
    change: Option<Box<Change>>,
    current: Terms,
}

impl Agreement {
    pub(super) fn new(terms: Terms) -> Self {
        Self { old: terms, change: None, current: terms }
    }

    /// What is to be obeyed now.
    pub(super) fn current(&self) -> &Terms {
        &self.current
    }

    pub(super) fn is_pending(&self) -> bool {
        self.change.is_some()
    }

    /// Announces `terms`, from the block `from` on, with `sent` as the next new one. Block size and mode stay.
    pub(super) fn set(&mut self, from: Option<u64>, terms: &Terms, sent: u64) {
        let terms = Terms { block_bytes: self.old.block_bytes, reliable: self.old.reliable, ..*terms };
        if from.is_some_and(|from| from <= sent) {
            *self = Self::new(terms);
        } else {
            self.current = self.old.smaller(&terms);
            let change = Change { from, terms };
            match &mut self.change {
                Some(old) => **old = change,
                none => *none = Some(Box::new(change)),
            }
        }
    }

    /// The next new block is `sent`. Returns whether the terms to come are in force from now on.
    pub(super) fn advance(&mut self, sent: u64) -> bool {
        let due = self.change.as_deref().filter(|change| change.from.is_some_and(|from| from <= sent));
        let Some(&Change { terms, .. }) = due else { return false };
        *self = Self::new(terms);
        true
    }
}
