//! When an ACK is due (specs/a1.md, 1.1, Timing).

use core::time::Duration;
use pinnace_core::Time;

/// New blocks that may be unreported.
const MAX_UNREPORTED: u64 = 16;
/// How long a block may be unreported.
pub(crate) const MAX_DELAY: Duration = Duration::from_millis(10);
/// An ACK that is due waits so long for the application, which mostly consumes at once, and may answer: then it tells the
/// edge that this moves, too, and follows the answer, so that the peer has to wake up only once.
const COURTESY: Duration = Duration::from_micros(20);

/// When something is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing is.
    No,
    /// At this time.
    At(Time),
    /// It is due.
    Now,
}

impl Due {
    pub(super) fn at(now: Time, at: Option<Time>) -> Self {
        match at {
            Some(at) if at <= now => Self::Now,
            Some(at) => Self::At(at),
            None => Self::No,
        }
    }
}

/// What has been told to the peer, and what has not.
#[derive(Debug)]
pub(super) struct Acks {
    /// New blocks since the last ACK.
    unreported: u64,
    /// When the first of them came.
    since: Option<Time>,
    /// A message has ended among them.
    has_end: bool,
    is_urgent: bool,
    /// The largest edge that was told at all, and in a datagram that counts as received.
    told: u64,
    reported: u64,
}

impl Acks {
    pub(super) fn new(edge: u64) -> Self {
        Self { unreported: 0, since: None, has_end: false, is_urgent: false, told: edge, reported: edge }
    }

    pub(super) fn on_new(&mut self, now: Time, is_odd: bool, ends: bool) {
        self.unreported += 1;
        self.since.get_or_insert(now);
        self.is_urgent |= is_odd;
        self.has_end |= ends;
    }

    pub(super) fn hurry(&mut self) {
        self.is_urgent = true;
    }

    /// Whether something has come that the peer has not been told of.
    pub(super) fn is_owed(&self) -> bool {
        self.unreported > 0 || self.is_urgent
    }

    pub(super) fn told(&self) -> u64 {
        self.told
    }

    pub(super) fn say(&mut self, edge: u64) {
        self.told = self.told.max(edge);
    }

    pub(super) fn tell(&mut self, edge: u64) {
        self.say(edge);
        self.reported = self.told;
    }

    pub(super) fn on_reported(&mut self) {
        (self.unreported, self.since, self.has_end, self.is_urgent) = (0, None, false, false);
    }

    /// `seen`: one past the last block that has been sent, as far as is known. `is_consumed`: the application has taken all
    /// that it can.
    pub(super) fn due(&self, now: Time, edge: u64, seen: u64, window: u64, is_consumed: bool) -> Due {
        let opens = edge > self.reported && 2 * self.reported.saturating_sub(seen) < window;
        if self.is_urgent || opens {
            return Due::Now;
        }
        // Who sends much would wait for it.
        let is_needed = is_consumed && 2 * self.reported.saturating_sub(seen) < window;
        let delay = match (self.is_wanted(window), is_needed) {
            (true, true) => Duration::ZERO,
            (true, false) => COURTESY,
            (false, _) => MAX_DELAY,
        };
        Due::at(now, self.since.map(|since| since + delay))
    }

    /// Blocks of ours have left: an ACK that waits for that follows them.
    pub(super) fn on_answered(&mut self, window: u64) {
        self.is_urgent |= self.unreported > 0 && self.is_wanted(window);
    }

    fn is_wanted(&self, window: u64) -> bool {
        self.has_end || self.unreported >= MAX_UNREPORTED.min((window / 4).max(1))
    }
}
