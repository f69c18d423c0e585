//! The thread that sleeps for tasks, where nothing else can: on the doorbell of a stream in shared memory.
//!
//! Always true: there is one such thread for each thing that is waited for, however many tasks wait and however often they
//! begin to; it ends when nobody waits any more, or what it sleeps for is gone.

use crate::lock::lock;
use pinnace_runtime::{Waiting, Wakers};
use std::io;
use std::mem::take;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Context;
use std::time::Duration;

/// How long the thread stays when it has woken those who waited: most wait again.
const STAYS: Duration = Duration::from_millis(100);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Sleeper {
    tasks: Mutex<Tasks>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Tasks {
    wakers: Wakers,
    /// Where the thread is, if there is one: a child made by `fork` has none.
    process: Option<u32>,
}

impl Sleeper {
    /// Wakes the task when `sleep`, which the thread calls, has returned. It says false if there is nothing to sleep for.
    ///
    /// # Errors
    /// If no thread can be had.
    pub(super) fn wait(
        self: &Arc<Self>,
        context: &Context<'_>,
        waiting: &mut Waiting,
        sleep: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<()> {
        let mut tasks = lock(&self.tasks);
        if tasks.process != Some(std::process::id()) {
            let this = Arc::clone(self);
            std::thread::Builder::new().name("pinnace-ready".into()).spawn(move || this.run(sleep))?;
            tasks.process = Some(std::process::id());
        }
        let old = tasks.wakers.add(waiting, context.waker());
        drop(tasks);
        drop(old);
        self.changed.notify_one();
        Ok(())
    }

    fn run(&self, mut sleep: impl FnMut() -> bool) {
        loop {
            let goes_on = sleep();
            let woken = take(&mut lock(&self.tasks).wakers);
            woken.wake();
            let mut tasks = lock(&self.tasks);
            if goes_on && tasks.wakers.is_empty() {
                tasks = self.changed.wait_timeout(tasks, STAYS).unwrap_or_else(PoisonError::into_inner).0;
            }
            if !goes_on || tasks.wakers.is_empty() {
                tasks.process = None;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::task::Waker;

    #[test]
    fn one_thread_sleeps_for_all_and_ends_when_nobody_waits() {
        let (sleeper, begun) = (Arc::new(Sleeper::default()), Arc::new(AtomicUsize::new(0)));
        let wait = |waiting: &mut Waiting| {
            let mut begins = Some(Arc::clone(&begun));
            let sleep = move || {
                begins.take().map(|begun| begun.fetch_add(1, Ordering::Relaxed));
                std::thread::sleep(Duration::from_millis(1));
                true
            };
            sleeper.wait(&Context::from_waker(Waker::noop()), waiting, sleep).unwrap();
        };
        for _ in 0..1000 {
            wait(&mut Waiting::default());
        }
        assert!(begun.load(Ordering::Relaxed) < 100, "a thread for each");
        let until = std::time::Instant::now() + Duration::from_secs(20);
        while lock(&sleeper.tasks).process.is_some() {
            assert!(std::time::Instant::now() < until, "it stays for nobody");
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = begun.load(Ordering::Relaxed);
        wait(&mut Waiting::default());
        while begun.load(Ordering::Relaxed) == before {
            assert!(std::time::Instant::now() < until, "nobody sleeps");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_task_that_waits_is_woken() {
        struct Tell(mpsc::Sender<()>);
        impl std::task::Wake for Tell {
            fn wake(self: Arc<Self>) {
                let _ = self.0.send(());
            }
        }
        let (tell, told) = mpsc::channel();
        let (ring, rung) = mpsc::channel::<()>();
        let (sleeper, mut waiting) = (Arc::new(Sleeper::default()), Waiting::default());
        let waker = Waker::from(Arc::new(Tell(tell)));
        // Nothing to sleep for any more, which they are told as well.
        sleeper.wait(&Context::from_waker(&waker), &mut waiting, move || rung.recv().is_ok()).unwrap();
        assert!(told.recv_timeout(Duration::from_millis(20)).is_err());
        ring.send(()).unwrap();
        told.recv_timeout(Duration::from_secs(20)).unwrap();
        sleeper.wait(&Context::from_waker(&waker), &mut waiting, || unreachable!("there is a thread")).unwrap();
        drop(ring);
        told.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
