//! When memory that was sent from is C's again, and what became of the message.
//!
//! A message that is not copied lies in C's memory, of which a [`Lease`] is kept with it. Always true: a completion is told
//! when the message has ended and the lease is over, never before, and once.

use super::types::{pinnace_completion, pinnace_range};
use super::waiting;
use crate::errors::{self, Errno, Failure};
use crate::kept::lock;
use libc::{c_int, c_void};
use pinnace::{ConnectionError, Delivered, Delivery, Error, Unsent, zcrp::Progress};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// C's memory, as long as somebody may read it.
#[derive(Debug)]
pub(super) struct Lease(Arc<Freed>);

/// Whether the memory is C's again.
#[derive(Debug, Default)]
pub(super) struct Freed {
    state: Mutex<(bool, Option<Waker>)>,
    changed: Condvar,
}

impl Freed {
    pub(super) fn lease(self: &Arc<Self>) -> Lease {
        Lease(Arc::clone(self))
    }

    /// The lease is over.
    fn end(&self) {
        let waker = {
            let mut state = lock(&self.state);
            state.0 = true;
            state.1.take()
        };
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn is_free(&self) -> bool {
        lock(&self.state).0
    }

    fn wait(&self, timeout: Duration) -> bool {
        let state = lock(&self.state);
        let result = self.changed.wait_timeout_while(state, timeout, |state| !state.0);
        result.unwrap_or_else(PoisonError::into_inner).0.0
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// How a message ended.
#[derive(Debug)]
pub(super) struct Outcome {
    error: c_int,
    text: CString,
    /// What the receiver lacks, if it has said so.
    holes: Option<Vec<pinnace_range>>,
}

impl Outcome {
    /// It did not arrive, or not for sure.
    pub(super) fn failed(error: &Error) -> Self {
        let text = CString::new(errors::words(error)).unwrap_or_default();
        let is_closed = matches!(error, Error::Connection(error) if matches!(**error, ConnectionError::Closed));
        let is_given_up = is_closed || errors::is_given_up(error);
        let error = if is_given_up { libc::ECANCELED } else { Errno::from(error).0 };
        Self { error, text, holes: None }
    }

    /// The message is dropped, and its lease with it.
    fn of(result: Result<Delivered, Unsent>) -> Self {
        match result {
            Ok(delivered) => {
                let report = delivered.report.as_ref();
                let holes = report.map(|report| report.holes().iter().map(pinnace_range::from).collect());
                Self { error: 0, text: CString::default(), holes }
            }
            Err(unsent) => Self::failed(&unsent.error),
        }
    }

    /// As C sees it; valid as long as this.
    pub(super) fn seen(&self) -> pinnace_completion {
        let holes = self.holes.as_deref().unwrap_or_default();
        pinnace_completion {
            size: size_of::<pinnace_completion>(),
            error: self.error,
            is_reported: c_int::from(self.holes.is_some()),
            text: self.text.as_ptr(),
            holes: if holes.is_empty() { std::ptr::null() } else { holes.as_ptr() },
            hole_count: holes.len(),
        }
    }

    /// As a result.
    pub(super) fn result(&self) -> Result<(), Failure> {
        if self.error == 0 {
            return Ok(());
        }
        Err(Failure::new(self.error, self.text.to_string_lossy()))
    }
}

/// A message on its way, which C asks after.
#[derive(Debug)]
pub(super) struct Ticket {
    stage: Mutex<Stage>,
    freed: Arc<Freed>,
}

#[derive(Debug)]
enum Stage {
    UnderWay(Delivery),
    Ended(Arc<Outcome>),
    /// Somebody who waits has it, or had it and has panicked.
    Away,
}

impl Ticket {
    pub(super) fn new(sent: Result<Delivery, Outcome>, freed: Arc<Freed>) -> Self {
        let stage = sent.map_or_else(|outcome| Stage::Ended(Arc::new(outcome)), Stage::UnderWay);
        Self { stage: Mutex::new(stage), freed }
    }

    /// Waits until the message has ended and its memory is free. The waiting thread does the work.
    pub(super) fn wait(&self, timeout_ms: c_int) -> Result<Arc<Outcome>, Failure> {
        let mut stage = match self.stage.try_lock() {
            Ok(stage) => stage,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::new(libc::EBUSY, "another thread waits for this delivery"));
            }
        };
        waiting::until(
            timeout_ms,
            || false,
            |slice| {
                *stage = match std::mem::replace(&mut *stage, Stage::Away) {
                    Stage::UnderWay(delivery) => match delivery.wait_timeout(slice) {
                        Progress::UnderWay(delivery) => Stage::UnderWay(delivery),
                        Progress::Ended(result) => Stage::Ended(Arc::new(Outcome::of(result))),
                    },
                    other => other,
                };
                match &*stage {
                    Stage::UnderWay(_) => Ok(None),
                    Stage::Ended(outcome) => Ok(self.freed.wait(slice).then(|| Arc::clone(outcome))),
                    Stage::Away => Err(Failure::new(libc::EIO, "what became of this message is not known")),
                }
            },
        )
    }
}

/// What C gave to be called with a completion.
#[derive(Debug)]
pub(super) struct Callback {
    pub(super) done: unsafe extern "C" fn(*const pinnace_completion, *mut c_void),
    pub(super) argument: *mut c_void,
}

// SAFETY: C gave a function to run on a thread of the library's, and the argument for it.
unsafe impl Send for Callback {}

impl Callback {
    fn run(&self, outcome: &Outcome) {
        let seen = outcome.seen();
        // SAFETY: C promises such a function; the completion lives until it returns.
        unsafe { (self.done)(&raw const seen, self.argument) };
    }
}

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A thread that waits for messages and calls C back: an executor of the smallest kind.
#[derive(Debug, Default)]
pub(super) struct Callbacks {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    changed: Condvar,
}

#[derive(Default)]
struct Inbox {
    is_running: bool,
    /// The process exits: nothing is called any more.
    is_over: bool,
    next: u64,
    jobs: Vec<(u64, Job)>,
    woken: Vec<u64>,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("jobs", &self.jobs.len()).field("woken", &self.woken).finish_non_exhaustive()
    }
}

/// Makes the thread look after a job.
struct Alarm {
    shared: Arc<Shared>,
    job: u64,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        lock(&self.shared.inbox).woken.push(self.job);
        self.shared.changed.notify_one();
    }
}

impl Callbacks {
    /// Makes sure that there is a thread. Called before a message is sent of which it is to tell.
    pub(super) fn start(&self) -> Result<(), Failure> {
        let mut inbox = lock(&self.shared.inbox);
        if !inbox.is_running {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("pinnace-callback".into()).spawn(move || shared.run());
            thread.map_err(|error| Failure::new(libc::EAGAIN, format!("cannot start a thread: {error}")))?;
            inbox.is_running = true;
        }
        Ok(())
    }

    /// Calls back when the message has ended and its memory is free.
    pub(super) fn add(&self, sent: Result<Delivery, Outcome>, freed: Arc<Freed>, callback: Callback) {
        let job: Job = Box::pin(async move {
            let outcome = match sent {
                Ok(delivery) => Outcome::of(delivery.await),
                Err(outcome) => outcome,
            };
            poll_fn(|context| freed.poll(context)).await;
            callback.run(&outcome);
        });
        let mut inbox = lock(&self.shared.inbox);
        let number = inbox.next;
        inbox.next += 1;
        inbox.jobs.push((number, job));
        drop(inbox);
        self.shared.changed.notify_one();
    }

    /// Nothing is called from now on.
    pub(super) fn end(&self) {
        lock(&self.shared.inbox).is_over = true;
    }
}

impl Shared {
    fn run(self: Arc<Self>) {
        let mut jobs: BTreeMap<u64, (Job, Waker)> = BTreeMap::new();
        loop {
            let mut due = Vec::new();
            {
                let inbox = lock(&self.inbox);
                let is_idle = |inbox: &mut Inbox| inbox.jobs.is_empty() && inbox.woken.is_empty();
                let mut inbox = self.changed.wait_while(inbox, is_idle).unwrap_or_else(PoisonError::into_inner);
                if inbox.is_over {
                    return;
                }
                due.append(&mut inbox.woken);
                for (number, job) in std::mem::take(&mut inbox.jobs) {
                    let waker = Waker::from(Arc::new(Alarm { shared: Arc::clone(&self), job: number }));
                    jobs.insert(number, (job, waker));
                    due.push(number);
                }
            }
            due.sort_unstable();
            due.dedup();
            for number in due {
                let Some((job, waker)) = jobs.get_mut(&number) else { continue };
                if job.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
                    jobs.remove(&number);
                }
            }
        }
    }
}
