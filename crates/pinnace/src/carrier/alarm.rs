//! Times for tasks: a thread of this library wakes them, so that no runtime is asked for its clock.
//!
//! Always true: there is one thread a process, from the first alarm on, and it is woken for a new alarm only if that is
//! earlier than what it sleeps for; a task that is not waiting any more is not woken; a child made by `fork` has a clock and
//! a thread of its own, and never waits for a lock that a thread of its parent held.

use crate::lock::lock;
use pinnace_runtime::OfProcess;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::ptr;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

#[derive(Debug, Default)]
struct Clock {
    /// Whether the system had a thread for it.
    has_thread: OnceLock<bool>,
    alarms: Mutex<Alarms>,
    changed: Condvar,
}

static CLOCK: OfProcess<Clock> = OfProcess::new();

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
        let clock = CLOCK.get();
        let start = || std::thread::Builder::new().name("pinnace-alarms".into()).spawn(|| clock.run());
        clock.has_thread.get_or_init(|| start().is_ok()).then_some(clock)
    }

    fn lock(&self) -> MutexGuard<'_, Alarms> {
        lock(&self.alarms)
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
                pinnace_runtime::wake(waker);
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
pub(crate) struct Alarm {
    at: Instant,
    /// The clock that knows of it, and its number there.
    set: Option<(&'static Clock, u64)>,
}

impl Alarm {
    /// One that wakes nobody before it is polled.
    pub(crate) fn new(at: Instant) -> Self {
        Self { at, set: None }
    }

    /// Wakes at this time, unless it is dropped before.
    pub(super) fn set(at: Instant, waker: &Waker) -> Self {
        let mut alarm = Self::new(at);
        if Pin::new(&mut alarm).poll(&mut Context::from_waker(waker)).is_ready() {
            waker.wake_by_ref();
        }
        alarm
    }

    /// When it wakes.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    fn cancel(&mut self) {
        // What is set in a parent is there still; here nobody is woken by it.
        if let Some((clock, number)) = self.set.take()
            && ptr::eq(clock, CLOCK.get())
        {
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
        let number = self.set.filter(|(set, _)| ptr::eq(*set, clock)).map_or_else(
            || {
                alarms.count += 1;
                alarms.count
            },
            |(_, number)| number,
        );
        self.set = Some((clock, number));
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
    let (mut future, mut alarm) = (pin!(future), Alarm::new(at));
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

    #[test]
    fn a_task_that_panics_as_it_is_woken_takes_nobodys_alarm() {
        struct Bomb;
        impl std::task::Wake for Bomb {
            fn wake(self: std::sync::Arc<Self>) {
                panic!("a task exploded");
            }
        }
        let at = |ms: u64| Instant::now() + Duration::from_millis(ms);
        let _bomb = Alarm::set(at(10), &Waker::from(std::sync::Arc::new(Bomb)));
        let (told, tells) = std::sync::mpsc::channel();
        std::thread::spawn(move || told.send(pollster::block_on(within(at(20), std::future::pending::<()>()))));
        assert_eq!(tells.recv_timeout(Duration::from_secs(20)), Ok(None));
    }

    #[test]
    fn a_child_has_a_clock_of_its_own() {
        let mut of_parent = Alarm::new(Instant::now() + Duration::from_secs(3600));
        assert!(Pin::new(&mut of_parent).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // As if a thread had the lock at the fork, of which the child has no copy.
        let held = Clock::of_process().unwrap().lock();
        // SAFETY: the child uses nothing of other threads but memory, which the C library makes usable in it, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_woken =
                || pollster::block_on(within(Instant::now() + Duration::from_millis(20), std::future::pending::<()>()));
            let is_on_time = std::panic::catch_unwind(is_woken).is_ok_and(|woken| woken.is_none());
            drop(of_parent);
            // SAFETY: ends the child, which is this function's own, at once.
            unsafe { libc::_exit(if is_on_time { 0 } else { 1 }) };
        }
        drop(held);
        let (begin, mut status) = (Instant::now(), -1);
        // SAFETY: the child is this test's own, and the pointer that of `status`.
        while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
            if begin.elapsed() > Duration::from_secs(10) {
                // SAFETY: as above.
                unsafe { libc::kill(child, libc::SIGKILL) };
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(status, 0, "its time came");
    }
}
