//! How long an application bears a peer that does not answer, where that is less than CTIMER and CTIMEOUT: what sockets call
//! keep-alive and user time-out. And how long it waits for room where it need not.
//!
//! Always true: nothing of it is on the wire but the questions of 3.5, and it never makes an association last longer.

use core::time::Duration;
use pinnace_core::Time;

/// Whoever need not heed alloc, but can wait, waits no longer for a peer that makes no room.
const LONGEST_WAIT_FOR_ROOM: Duration = Duration::from_secs(1);

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
    /// Since when alloc alone holds back what need not heed it, and whether that has been too long.
    held_back_since: Option<Time>,
    has_waited: bool,
}

impl Silence {
    /// The peer has acknowledged so much of what is queued; `None`: all that it will.
    pub(crate) fn note(&mut self, now: Time, acked: Option<u64>) {
        let is_as_before = acked.is_some() && self.stalled.map(|(before, _)| before) == acked;
        if !is_as_before {
            self.stalled = acked.map(|acked| (acked, now));
        }
    }

    /// The peer has spoken; whether nothing has to be kept any more.
    pub(crate) fn is_over(&self) -> bool {
        self.patience == Patience::default() && self.held_back_since.is_none()
    }

    /// Alloc holds back what need not heed it.
    pub(crate) fn wait_for_room(&mut self, now: Time) {
        self.held_back_since.get_or_insert(now);
    }

    /// WTIMER has expired: a peer that makes no room is not waited for longer.
    //= X-8
    pub(crate) fn wait_no_longer(&mut self, now: Time) {
        self.has_waited |= self.held_back_since.is_some_and(|since| now.since(since) >= LONGEST_WAIT_FOR_ROOM);
    }

    /// The peer has made room.
    pub(crate) fn on_room(&mut self) {
        (self.held_back_since, self.has_waited) = (None, false);
    }

    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// When what is queued has not been acknowledged for too long.
    pub(crate) fn overdue_at(&self) -> Option<Time> {
        Some(self.stalled?.1 + self.patience.unacknowledged?)
    }
}
