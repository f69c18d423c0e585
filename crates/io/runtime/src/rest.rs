//! Where the worker rests while the application is about.
//!
//! It sees from outside the lock that there are calls and waits: a thread that wants the lock of an application that calls all
//! the time, or spins, would be woken for nothing each time it is free, and would keep the others from their processor.
//!
//! Always true: a notification is never lost, whether it comes before the worker rests or while it does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Whoever calls so often in a grace period is not about to stop.
const BUSY: u64 = 16;
/// So many grace periods it is left alone at most, one more each time: each look takes its core from it for a moment. Whoever
/// calls in bursts and computes between them is found soon.
const LONG: u32 = 4;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Calls and waits.
    activity: AtomicU64,
    is_notified: Mutex<bool>,
    changed: Condvar,
}

impl Rest {
    /// The application calls, or waits.
    pub(crate) fn count(&self) {
        self.activity.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it has.
    pub(crate) fn activity(&self) -> u64 {
        self.activity.load(Ordering::Relaxed)
    }

    /// Ends the rest.
    pub(crate) fn notify(&self) {
        *self.is_notified.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    /// Rests until it is notified; or until there was no call and no wait for `grace`, and then returns how many there had been.
    /// It sees that after two graces at the latest, or five if there were many calls for long.
    pub(crate) fn rest(&self, grace: Option<Duration>) -> Option<u64> {
        let mut is_notified = self.is_notified.lock().unwrap_or_else(PoisonError::into_inner);
        let mut graces = 1;
        loop {
            let before = self.activity();
            if std::mem::take(&mut *is_notified) {
                return None;
            }
            is_notified = match grace {
                None => self.changed.wait(is_notified).unwrap_or_else(PoisonError::into_inner),
                Some(grace) => {
                    let (is_notified, result) =
                        self.changed.wait_timeout(is_notified, grace * graces).unwrap_or_else(PoisonError::into_inner);
                    let calls = self.activity() - before;
                    if result.timed_out() && !*is_notified && calls == 0 {
                        return Some(before);
                    }
                    graces = if calls >= BUSY { (graces + 1).min(LONG) } else { 1 };
                    is_notified
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Instant;

    const GRACE: Duration = Duration::from_millis(20);

    #[test]
    fn a_notification_before_the_rest_ends_it_at_once() {
        let rest = Rest::default();
        rest.notify();
        assert_eq!(rest.rest(None), None);
        assert_eq!(rest.rest(Some(GRACE)), Some(0), "once");
    }

    #[test]
    fn who_rests_goes_on_while_there_are_calls() {
        let rest = Arc::new(Rest::default());
        let begun = Instant::now();
        let calling = std::thread::spawn({
            let rest = Arc::clone(&rest);
            move || {
                let (mut last, mut longest) = (begun, Duration::ZERO);
                while begun.elapsed() < 5 * GRACE {
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                    rest.count();
                    std::thread::sleep(GRACE / 100);
                }
                longest.max(last.elapsed())
            }
        });
        let seen = rest.rest(Some(GRACE));
        let rested = begun.elapsed();
        // A thread that was kept from calling for so long has paused.
        let pause = calling.join().unwrap();
        assert!(seen.is_some() && (rested >= 5 * GRACE || pause >= GRACE), "{seen:?} {rested:?} {pause:?}");
    }
}
