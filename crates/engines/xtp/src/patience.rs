//! How long an application bears a peer that does not answer, where that is less than CTIMER and CTIMEOUT: what sockets call
//! keep-alive and user time-out.
//!
//! Always true: nothing of it is on the wire but the questions of 3.5, and it never makes an association last longer.

use core::time::Duration;
use pinnace_core::Time;

/// How long a silent peer is borne. By default as long as CTIMER and CTIMEOUT say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// For a peer from which nothing comes, while it owes no acknowledgement.
    pub keep_alive: Option<KeepAlive>,
    /// For one that acknowledges nothing more of what is queued to it, or makes no room for it.
    pub unacknowledged: Option<Duration>,
}

impl Patience {
    /// What the options of TCP sockets mean: `keep_alive` are TCP_KEEPIDLE, TCP_KEEPINTVL and TCP_KEEPCNT where SO_KEEPALIVE is set;
    /// `user_timeout` is TCP_USER_TIMEOUT, if there is one. As with TCP it decides instead of the count, at the next probe.
    ///
    /// ```
    /// use pinnace_xtp::Patience;
    /// use std::time::Duration;
    /// let patience = Patience::of_socket(Some((Duration::from_secs(60), Duration::from_secs(5), 3)), None);
    /// assert_eq!(patience.keep_alive.map(|it| it.limit), Some(Duration::from_secs(15)));
    /// ```
    pub fn of_socket(keep_alive: Option<(Duration, Duration, u32)>, user_timeout: Option<Duration>) -> Self {
        let keep_alive = keep_alive.map(|(idle, interval, count)| {
            let probes = |left: Duration| {
                left.as_millis().div_ceil(interval.as_millis().max(1)).clamp(1, u32::MAX.into()) as u32
            };
            let count = user_timeout.map_or(count, |time| probes(time.saturating_sub(idle)));
            KeepAlive { idle, limit: interval.saturating_mul(count) }
        });
        Self { keep_alive, unacknowledged: user_timeout }
    }
}

/// When a silent peer is asked whether it is there, and given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// After so long a silence it is asked.
    pub idle: Duration,
    /// And given up, if there has been no answer for so long.
    pub limit: Duration,
}

/// What is kept of it for a context whose application has said so, or whose peer is silent.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    pub(crate) patience: Patience,
    /// Since when the peer is asked whether it is there.
    pub(crate) handshake_since: Option<Time>,
    /// How far the peer had acknowledged, and since when it has not gone on.
    stalled: Option<(u64, Time)>,
}

impl Silence {
    /// The peer has acknowledged so much of what is queued; `None`: all that it will.
    pub(crate) fn note(&mut self, now: Time, acked: Option<u64>) {
        let is_as_before = acked.is_some() && self.stalled.map(|(before, _)| before) == acked;
        if !is_as_before {
            self.stalled = acked.map(|acked| (acked, now));
        }
    }

    /// When what is queued has not been acknowledged for too long.
    pub(crate) fn overdue_at(&self) -> Option<Time> {
        Some(self.stalled?.1 + self.patience.unacknowledged?)
    }
}
