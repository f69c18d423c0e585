//! The threads that serve the connections of a listener.
//!
//! Always true: there are at most [`MOST`] of them, as anybody can open connections. Who comes while all are at work waits in
//! the backlog of the protocol, which has limits of its own: nobody is accepted before there is a thread. Who has never shown that
//! they are where their packets come from keep a thread from others for [`PATIENCE`] at most ([`Trial`]).

use super::Told;
use crate::exit::Error;
use crate::interrupt;
use crate::units::count_of;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

/// Connections that are served at a time.
const MOST: usize = 256;

/// Connections that a listener of XTP or QMP keeps: those that are served or wait for it, those whose peer is not proved (4096 at
/// most), and those that only wait for late packets, which give way. Further ones are refused.
pub(crate) const KEPT: usize = 16_384;

/// How long a peer may take to show that it is there while others want its place.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

type Job<'scope> = Box<dyn FnOnce() + Send + 'scope>;

/// Starts a thread, or says why there is none.
pub(crate) fn begin<'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() + Send + 'scope,
) -> Result<(), Error> {
    Builder::new().spawn_scoped(scope, work).map(drop).map_err(|error| Error::io("cannot start a thread", &error))
}

/// See the [module](self). Threads are started as they are needed, and kept until it is dropped.
pub(crate) struct Crew<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    most: usize,
    jobs: Sender<Job<'scope>>,
    shared: Arc<Shared<'scope>>,
    /// It was said that there are fewer threads than there may be.
    has_complained: bool,
}

struct Shared<'scope> {
    jobs: Mutex<Receiver<Job<'scope>>>,
    hands: Mutex<Hands>,
    freed: Condvar,
}

#[derive(Default)]
struct Hands {
    all: usize,
    free: usize,
}

/// What was locked is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'scope, 'env> Crew<'scope, 'env> {
    pub(crate) fn new(scope: &'scope Scope<'scope, 'env>) -> Self {
        Self::of(scope, MOST)
    }

    fn of(scope: &'scope Scope<'scope, 'env>, most: usize) -> Self {
        let (jobs, queue) = channel();
        let shared = Shared { jobs: Mutex::new(queue), hands: Mutex::default(), freed: Condvar::new() };
        Self { scope, most, jobs, shared: Arc::new(shared), has_complained: false }
    }

    /// Waits until somebody is free for one more connection; false if it `is_over` before, or nobody ever will be.
    pub(crate) fn wait<L>(&mut self, tell: &Sender<Told<L>>, is_over: impl Fn() -> bool) -> bool {
        while !is_over() {
            if let Err(error) = self.grow() {
                let all = lock(&self.shared.hands).all;
                // Whoever prints may have had enough.
                if all == 0 {
                    let _ = tell.send(Told::Failed(Error::io("cannot start a thread", &error)));
                    return false;
                }
                if !std::mem::replace(&mut self.has_complained, true) {
                    let served = count_of(all as u64, "connection");
                    let _ = tell.send(Told::Note(format!(
                        "cannot start another thread ({error}): {served} at a time, and who comes beyond waits"
                    )));
                }
            }
            if self.is_ready() {
                return true;
            }
        }
        false
    }

    /// One more thread, if nobody is free and there may be more.
    fn grow(&self) -> io::Result<()> {
        let mut hands = lock(&self.shared.hands);
        if hands.free == 0 && hands.all < self.most {
            let shared = Arc::clone(&self.shared);
            Builder::new().spawn_scoped(self.scope, move || shared.work())?;
            hands.all += 1;
            hands.free += 1;
        }
        Ok(())
    }

    /// Whether somebody is free within a moment.
    fn is_ready(&self) -> bool {
        let hands = lock(&self.shared.hands);
        let waited = self.shared.freed.wait_timeout_while(hands, interrupt::LOOK, |hands| hands.free == 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.free > 0
    }

    /// Does `job` on the thread that was waited for.
    pub(crate) fn give(&self, job: impl FnOnce() + Send + 'scope) {
        lock(&self.shared.hands).free -= 1;
        // Who takes it lives as long as we do.
        let _ = self.jobs.send(Box::new(job));
    }

    /// What one whose peer is not proved is served under, from now on.
    pub(crate) fn trial(&self) -> Trial<'scope> {
        Trial { shared: Arc::clone(&self.shared), most: self.most, since: Instant::now() }
    }
}

/// Whether one that has not shown that it is there is still served.
pub(crate) struct Trial<'scope> {
    shared: Arc<Shared<'scope>>,
    most: usize,
    since: Instant,
}

impl Trial<'_> {
    /// It has had its time, and all threads are at work: it gives way.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over_after(PATIENCE)
    }

    fn is_over_after(&self, patience: Duration) -> bool {
        self.since.elapsed() >= patience && {
            let hands = lock(&self.shared.hands);
            hands.free == 0 && hands.all == self.most
        }
    }
}

impl Shared<'_> {
    fn work(&self) {
        loop {
            // Others may wait for theirs while this is done.
            let job = lock(&self.jobs).recv();
            let Ok(job) = job else { return };
            job();
            lock(&self.hands).free += 1;
            self.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn no_more_are_at_work_than_may_and_each_job_is_done() {
        let (done, (tell, _told)) = (AtomicUsize::new(0), channel::<Told<()>>());
        let (open, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        std::thread::scope(|scope| {
            let mut crew = Crew::of(scope, 2);
            for _ in 0..2 {
                assert!(crew.wait(&tell, || false));
                crew.give(|| {
                    let _ = lock(&gate).recv();
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
            crew.grow().unwrap();
            assert!(!crew.is_ready(), "both are at work");
            let trial = crew.trial();
            assert!(trial.is_over_after(Duration::ZERO) && !trial.is_over(), "it has its time");
            assert!(!crew.wait(&tell, || true));
            drop(open);
            while !crew.is_ready() {}
            assert!(!trial.is_over_after(Duration::ZERO), "nobody is in its way");
            for _ in 0..100 {
                assert!(crew.wait(&tell, || false));
                crew.give(|| {
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
            assert_eq!(lock(&crew.shared.hands).all, 2);
        });
        assert_eq!(done.into_inner(), 102);
    }
}
