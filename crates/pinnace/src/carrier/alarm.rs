//! Times for tasks: a thread of this library wakes them, so that no runtime is asked for its clock.
//!
//! Always true: there is one thread a process, from the first alarm on, and it is woken for a new alarm only if that is
//! earlier than what it sleeps for; a task that is not waiting any more is not woken.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

#[derive(Debug, Default)]
struct Clock {
    alarms: Mutex<Alarms>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Alarms {
    /// By time, and by a number that no other has.
    wakers: BTreeMap<(Instant, u64), Waker>,
    count: u64,
    /// When the thread looks next; `None`: when it is told to.
    looks: Option<Instant>,
}

impl Clock {
    /// The process's. `None` if the system has no thread for it.
    fn of_process() -> Option<&'static Self> {
        static CLOCK: OnceLock<Option<&'static Clock>> = OnceLock::new();
        *CLOCK.get_or_init(|| {
            let clock: &'static Self = Box::leak(Box::default());
            let thread = std::thread::Builder::new().name("pinnace-alarms".into()).spawn(|| clock.run());
            thread.is_ok().then_some(clock)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Alarms> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut alarms = self.lock();
        loop {
            let now = Instant::now();
            if let Some(first) = alarms.wakers.first_entry()
                && first.key().0 <= now
            {
                let waker = first.remove();
                // It may do anything, also set an alarm.
                drop(alarms);
                waker.wake();
                alarms = self.lock();
                continue;
            }
            let first = alarms.wakers.first_key_value().map(|((at, _), _)| *at);
            alarms.looks = first;
            alarms = match first {
                None => self.changed.wait(alarms).unwrap_or_else(PoisonError::into_inner),
                Some(at) => self.changed.wait_timeout(alarms, at - now).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

/// Ready from a time on.
#[derive(Debug)]
pub(super) struct Alarm {
    at: Instant,
    number: Option<u64>,
}

impl Alarm {
    /// Wakes at this time, unless it is dropped before.
    pub(super) fn set(at: Instant, waker: &Waker) -> Self {
        let mut alarm = Self { at, number: None };
        if Pin::new(&mut alarm).poll(&mut Context::from_waker(waker)).is_ready() {
            waker.wake_by_ref();
        }
        alarm
    }

    /// When it wakes.
    pub(super) fn at(&self) -> Instant {
        self.at
    }

    fn cancel(&mut self) {
        if let (Some(number), Some(clock)) = (self.number.take(), Clock::of_process()) {
            let waker = clock.lock().wakers.remove(&(self.at, number));
            drop(waker);
        }
    }
}

impl Future for Alarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.at <= Instant::now() {
            self.cancel();
            return Poll::Ready(());
        }
        // Without a thread nobody is woken, as without an alarm.
        let Some(clock) = Clock::of_process() else { return Poll::Pending };
        let mut alarms = clock.lock();
        let number = self.number.unwrap_or_else(|| {
            alarms.count += 1;
            alarms.count
        });
        self.number = Some(number);
        let old = alarms.wakers.insert((self.at, number), context.waker().clone());
        let is_sooner = alarms.looks.is_none_or(|looks| self.at < looks);
        if is_sooner {
            alarms.looks = Some(self.at);
        }
        drop(alarms);
        drop(old);
        if is_sooner {
            clock.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// What the future gives, unless it takes longer than until `at`.
pub(crate) async fn within<T>(at: Instant, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut alarm) = (pin!(future), Alarm { at, number: None });
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Pin::new(&mut alarm).poll(context).map(|()| None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn tasks_are_woken_at_their_time_and_not_after_they_have_gone() {
        let begin = Instant::now();
        let at = move |ms: u64| begin + Duration::from_millis(ms);
        let waits = [80, 20, 50].map(|ms| {
            std::thread::spawn(move || {
                let found = pollster::block_on(within(at(ms), std::future::pending::<()>()));
                (found, begin.elapsed() >= Duration::from_millis(ms))
            })
        });
        assert_eq!(pollster::block_on(within(at(3_600_000), async { 7 })), Some(7));
        for wait in waits {
            assert_eq!(wait.join().unwrap(), (None, true));
        }
        let left = |at: Instant| Clock::of_process().unwrap().lock().wakers.keys().any(|(other, _)| *other == at);
        let mut alarm = Box::pin(within(at(3_600_000), std::future::pending::<()>()));
        assert!(alarm.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() && left(at(3_600_000)));
        drop(alarm);
        assert!(!left(at(3_600_000)));
    }
}
