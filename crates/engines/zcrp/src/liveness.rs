//! Whether the peer is still there (Z-19): the same rule for both halves.

use core::time::Duration;
use pinnace_core::Time;

/// Watches for a peer that has fallen silent while work is outstanding.
#[derive(Debug)]
pub(crate) struct Liveness {
    timeout: Duration,
    heard_at: Time,
    outstanding_since: Option<Time>,
    /// The peer speaks of idleness (Z-21), so messages that have not begun count as outstanding too.
    pub(crate) peer_reports_idle: bool,
}

impl Liveness {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, heard_at: Time::ZERO, outstanding_since: None, peer_reports_idle: false }
    }

    /// A valid datagram came.
    pub(crate) fn on_heard(&mut self, now: Time) {
        self.heard_at = self.heard_at.max(now);
    }

    /// Whether there is work whose progress depends on the peer.
    pub(crate) fn set_outstanding(&mut self, now: Time, outstanding: bool) {
        if !outstanding {
            self.outstanding_since = None;
        } else if self.outstanding_since.is_none() {
            self.outstanding_since = Some(now);
        }
    }

    /// When the peer counts as gone, if nothing comes before.
    //= Z-19
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.outstanding_since.map(|since| since.max(self.heard_at) + self.timeout)
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
        liveness.set_outstanding(at(100), true);
        liveness.set_outstanding(at(105), true);
        assert_eq!(liveness.deadline(), Some(at(110)));
        liveness.on_heard(at(107));
        assert_eq!(liveness.deadline(), Some(at(117)));
        liveness.set_outstanding(at(108), false);
        assert_eq!(liveness.deadline(), None);
    }
}
