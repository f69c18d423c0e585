//! Whether the peer is still there (Z-19): the same rule for both halves.

use core::time::Duration;
use pinnace_core::Time;

/// What has begun may go on for so many time-outs without an answer to it, while other datagrams still come: they are of a
/// peer that was started again and knows nothing of it.
const STALLED_TIMEOUTS: u32 = 3;

/// Watches for a peer that has fallen silent while work is outstanding.
#[derive(Debug)]
pub(crate) struct Liveness {
    timeout: Duration,
    heard_at: Time,
    /// When the peer last answered what has begun: with an acknowledgement, or a unit.
    answered_at: Time,
    outstanding_since: Option<Time>,
    begun_since: Option<Time>,
    /// The peer speaks of idleness (Z-21), so messages that have not begun count as outstanding too.
    pub(crate) peer_reports_idle: bool,
}

impl Liveness {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            heard_at: Time::ZERO,
            answered_at: Time::ZERO,
            outstanding_since: None,
            begun_since: None,
            peer_reports_idle: false,
        }
    }

    /// A valid datagram came.
    pub(crate) fn on_heard(&mut self, now: Time) {
        self.heard_at = self.heard_at.max(now);
    }

    /// A datagram came that answers what has begun.
    pub(crate) fn on_answered(&mut self, now: Time) {
        self.on_heard(now);
        self.answered_at = self.answered_at.max(now);
    }

    /// Whether there is work whose progress depends on the peer: `begun`, or `waiting` for it to begin.
    pub(crate) fn set_outstanding(&mut self, now: Time, begun: bool, waiting: bool) {
        let since = |outstanding: bool, before: Option<Time>| outstanding.then(|| before.unwrap_or(now));
        self.outstanding_since = since(begun || waiting, self.outstanding_since);
        self.begun_since = since(begun, self.begun_since);
    }

    /// When the peer counts as gone, if nothing comes before.
    //= Z-19
    pub(crate) fn deadline(&self) -> Option<Time> {
        let silent = self.outstanding_since?.max(self.heard_at) + self.timeout;
        let patience = self.timeout.saturating_mul(STALLED_TIMEOUTS);
        let stalled = self.begun_since.map(|since| since.max(self.answered_at) + patience);
        Some(stalled.map_or(silent, |stalled| silent.min(stalled)))
    }

    /// Whether the peer went on to speak, without an answer to what has begun, for longer than it may be silent.
    pub(crate) fn is_heard_in_vain(&self) -> bool {
        self.begun_since.is_some_and(|since| since.max(self.answered_at) + self.timeout <= self.heard_at)
    }

    /// When half the time has passed after which a silent peer counts as gone.
    pub(crate) fn half_time(&self) -> Option<Time> {
        Some(self.outstanding_since?.max(self.heard_at) + self.timeout / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_only_while_work_is_outstanding() {
        //= Z-19 test
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut liveness = Liveness::new(Duration::from_secs(10));
        assert_eq!(liveness.deadline(), None);
        liveness.set_outstanding(at(100), true, false);
        liveness.set_outstanding(at(105), true, false);
        assert_eq!(liveness.deadline(), Some(at(110)));
        assert_eq!(liveness.half_time(), Some(at(105)));
        liveness.on_heard(at(107));
        assert_eq!(liveness.deadline(), Some(at(117)));
        liveness.set_outstanding(at(108), false, false);
        assert_eq!(liveness.deadline(), None);
    }

    #[test]
    fn what_has_begun_needs_answers_in_the_end() {
        //= Z-19 test
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut liveness = Liveness::new(Duration::from_secs(10));
        liveness.set_outstanding(at(100), true, false);
        liveness.on_heard(at(109));
        assert_eq!(liveness.deadline(), Some(at(119)), "any valid datagram will do for a while");
        assert!(!liveness.is_heard_in_vain());
        liveness.on_heard(at(128));
        assert_eq!(liveness.deadline(), Some(at(130)));
        assert!(liveness.is_heard_in_vain());
        liveness.on_answered(at(129));
        assert_eq!(liveness.deadline(), Some(at(139)));
        liveness.set_outstanding(at(130), false, true);
        liveness.on_heard(at(190));
        assert_eq!(liveness.deadline(), Some(at(200)), "what has not begun waits for its partner");
    }

    #[test]
    fn whoever_waits_for_ever_is_told_of_no_time() {
        let mut liveness = Liveness::new(Duration::MAX);
        liveness.set_outstanding(Time::ZERO, true, false);
        assert_eq!(liveness.deadline(), Some(Time::MAX));
    }
}
