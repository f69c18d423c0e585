//! When an ACK is due (specs/a1.md, 1.1, Timing).

use core::time::Duration;
use pinnace_core::Time;

/// New blocks that may be unreported.
const MAX_UNREPORTED: u64 = 16;
/// The same in the beginning. The sender does not know the path yet and has little under way, of which we cannot see how
/// much: if that is less than what an ACK waits for, it waits for the ACK, and that for a timer.
const MAX_UNREPORTED_EARLY: u64 = 2;
/// Blocks that are the beginning. So many are more than a sender has let go in its first two round trips; by then it has
/// enough under way for an ACK to be due of itself several times in each.
const EARLY: u64 = 64;
/// After so long without a block it is the beginning again. A sender that was idle for a second may have forgotten the
/// path; it has heard of us since, and this is early rather than late.
const IDLE: Duration = Duration::from_millis(500);
/// How long a block may be unreported.
pub(crate) const MAX_DELAY: Duration = Duration::from_millis(10);
/// Blocks that stop coming for this part of a round trip, though their message is not complete, have mostly stopped because
/// the sender waits for us: whoever keeps the path full has them closer together, and an ACK for each of those that do not
/// come closer is four in a round trip.
const PAUSES_IN_A_ROUND_TRIP: u32 = 4;
/// No stop is shorter: threads and networks hesitate as long.
const LEAST_PAUSE: Duration = Duration::from_millis(1);
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
    /// When the newest block came.
    newest: Time,
    /// Blocks that have come since the beginning, or since it was the beginning again; no more than [`EARLY`] are counted.
    run: u64,
    /// A message has ended among them.
    has_end: bool,
    is_urgent: bool,
    /// The largest edge that was told at all, and in a datagram that counts as received.
    told: u64,
    reported: u64,
}

impl Acks {
    pub(super) fn new(edge: u64) -> Self {
        Self {
            unreported: 0,
            since: None,
            newest: Time::ZERO,
            run: 0,
            has_end: false,
            is_urgent: false,
            told: edge,
            reported: edge,
        }
    }

    pub(super) fn on_new(&mut self, now: Time, is_odd: bool, ends: bool) {
        if now.since(self.newest) >= IDLE {
            self.run = 0;
        }
        (self.run, self.newest) = (EARLY.min(self.run + 1), now);
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
    /// that it can. `rtt`: the smoothed round trip, once there is a sample.
    pub(super) fn due(
        &self,
        now: Time,
        edge: u64,
        seen: u64,
        window: u64,
        is_consumed: bool,
        rtt: Option<Duration>,
    ) -> Due {
        let opens = edge > self.reported && 2 * self.reported.saturating_sub(seen) < window;
        if self.is_urgent || opens {
            return Due::Now;
        }
        // Who sends much would wait for it.
        let is_needed = is_consumed && 2 * self.reported.saturating_sub(seen) < window;
        let Some(since) = self.since else { return Due::No };
        let at = match (self.is_wanted(window), is_needed) {
            (true, true) => since,
            (true, false) => since + COURTESY,
            (false, _) => self.paused_at(rtt).map_or(since + MAX_DELAY, |at| at.min(since + MAX_DELAY)),
        };
        Due::at(now, Some(at))
    }

    /// When blocks will have stopped coming, if none comes before. It moves with each of them, so that a stream which does
    /// not stop is not acknowledged more often.
    fn paused_at(&self, rtt: Option<Duration>) -> Option<Time> {
        rtt.map(|rtt| self.newest + (rtt / PAUSES_IN_A_ROUND_TRIP).max(LEAST_PAUSE))
    }

    /// Blocks of ours have left: an ACK that waits for that follows them.
    pub(super) fn on_answered(&mut self, window: u64) {
        self.is_urgent |= self.unreported > 0 && self.is_wanted(window);
    }

    fn is_wanted(&self, window: u64) -> bool {
        let most = if self.run < EARLY { MAX_UNREPORTED_EARLY } else { MAX_UNREPORTED };
        self.has_end || self.unreported >= most.min((window / 4).max(1))
    }
}
