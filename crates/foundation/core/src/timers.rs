//! The few named timers of one engine or connection.
//!
//! A [`TimerTable`] holds at most one moment per name. There are as many as the name's type has values, so scanning
//! them beats every cleverer structure. For timers by the thousand see [`TimerWheel`](crate::TimerWheel). Always true:
//! a timer fires once per setting, never early, and the earliest first (ties: the one set first).

use crate::Time;

/// Named timers: `K` is usually a small enum.
///
/// ```
/// use core::time::Duration;
/// use pinnace_core::{Time, TimerTable};
/// #[derive(Clone, Copy, PartialEq, Eq, Debug)]
/// enum Timer { Retransmit, Life }
///
/// let mut timers = TimerTable::new();
/// let now = Time::ZERO;
/// timers.set(Timer::Life, now + Duration::from_secs(10));
/// timers.set(Timer::Retransmit, now + Duration::from_millis(200));
/// assert_eq!(timers.next(), Some(now + Duration::from_millis(200)));
/// assert_eq!(timers.expired(now + Duration::from_secs(1)), Some(Timer::Retransmit));
/// assert_eq!(timers.expired(now + Duration::from_secs(1)), None);
/// ```
#[derive(Clone, Debug)]
pub struct TimerTable<K> {
    set: Vec<(K, Time)>,
}

impl<K> Default for TimerTable<K> {
    fn default() -> Self {
        Self { set: Vec::new() }
    }
}

impl<K: Copy + PartialEq> TimerTable<K> {
    /// No timer is set.
    pub const fn new() -> Self {
        Self { set: Vec::new() }
    }

    /// Sets `timer` to fire at `at`, whatever it was set to.
    pub fn set(&mut self, timer: K, at: Time) {
        match self.set.iter_mut().find(|(key, _)| *key == timer) {
            Some(entry) => entry.1 = at,
            None => self.set.push((timer, at)),
        }
    }

    /// Sets `timer` only if it is not set, or set to later than `at`.
    pub fn set_earlier(&mut self, timer: K, at: Time) {
        if self.at(timer).is_none_or(|set| at < set) {
            self.set(timer, at);
        }
    }

    /// Stops `timer`. Nothing happens if it is not set.
    pub fn stop(&mut self, timer: K) {
        self.set.retain(|(key, _)| *key != timer);
    }

    /// Stops all timers.
    pub fn clear(&mut self) {
        self.set.clear();
    }

    /// When `timer` fires, if it is set.
    pub fn at(&self, timer: K) -> Option<Time> {
        self.set.iter().find(|(key, _)| *key == timer).map(|(_, at)| *at)
    }

    /// Whether `timer` is set.
    pub fn is_set(&self, timer: K) -> bool {
        self.at(timer).is_some()
    }

    /// When the earliest timer fires.
    pub fn next(&self) -> Option<Time> {
        self.set.iter().map(|(_, at)| *at).min()
    }

    /// A timer that is due at `now`, the earliest first; it is stopped. Call until nothing comes.
    pub fn expired(&mut self, now: Time) -> Option<K> {
        let (index, &(timer, at)) = self.set.iter().enumerate().min_by_key(|(_, (_, at))| *at)?;
        (at <= now).then(|| {
            self.set.remove(index);
            timer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn timers_fire_once_in_order_and_never_early() {
        let mut timers = TimerTable::new();
        timers.set('c', at(30));
        timers.set('a', at(10));
        timers.set('b', at(10));
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.expired(at(9)), None);
        let fired: Vec<_> = core::iter::from_fn(|| timers.expired(at(30))).collect();
        assert_eq!(fired, ['a', 'b', 'c']);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn setting_again_moves_a_timer_and_stopping_removes_it() {
        let mut timers = TimerTable::new();
        timers.set(1, at(10));
        timers.set(1, at(50));
        timers.set_earlier(1, at(60));
        assert_eq!(timers.at(1), Some(at(50)));
        timers.set_earlier(1, at(40));
        timers.set_earlier(2, at(45));
        assert_eq!((timers.at(1), timers.next(), timers.is_set(2)), (Some(at(40)), Some(at(40)), true));
        timers.stop(1);
        timers.stop(1);
        assert_eq!(timers.next(), Some(at(45)));
        timers.clear();
        assert_eq!(timers.expired(Time::MAX), None);
    }
}
