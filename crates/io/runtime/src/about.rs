//! How threads and tasks wait for something of an endpoint.
//!
//! The first thread that waits drives the engine; the others follow, until something has happened that concerns their topic or
//! the first leaves. Tasks leave the driving to the worker.

use crate::shared::{Locked, Role, Seat};
use crate::wake::is_readable;
use crate::{Concerned, Endpoint, EndpointError, EventSink, Topic, WaitError, Waiting};
use pinnace_core::Engine;
use pinnace_link::Link;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// How often a thread that follows looks at the descriptor that it watches beside.
const BESIDE_FOLLOWING: Duration = Duration::from_millis(1);

/// An endpoint, for whoever waits for something of this topic: see [`Endpoint::about`].
pub struct About<'a, E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    pub(crate) endpoint: &'a Endpoint<E, L, S>,
    pub(crate) topic: Topic,
}

impl<E, L, S> About<'_, E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    /// The endpoint.
    pub const fn endpoint(&self) -> &Endpoint<E, L, S> {
        self.endpoint
    }

    /// As [`Endpoint::wait_until`].
    ///
    /// # Errors
    /// The same.
    pub fn wait_until<R>(
        &self,
        ready: impl FnMut(&mut S) -> Option<R>,
        deadline: Option<Instant>,
    ) -> Result<R, WaitError> {
        // With nothing beside there is something, or an error.
        self.wait_and_watch(None, ready, deadline).and_then(|found| found.ok_or(WaitError::Timeout))
    }

    /// `None`: `beside` is readable.
    pub(crate) fn wait_and_watch<R>(
        &self,
        beside: Option<BorrowedFd<'_>>,
        mut ready: impl FnMut(&mut S) -> Option<R>,
        deadline: Option<Instant>,
    ) -> Result<Option<R>, WaitError> {
        let Self { endpoint, topic } = *self;
        let mut place = Place { endpoint, core: endpoint.lock(), drives: false };
        let core = &mut place.core;
        core.is_served |= beside.is_some();
        endpoint.shared().rest.count();
        loop {
            if let Some(result) = ready(&mut core.state) {
                return Ok(Some(result));
            }
            core.check()?;
            if core.seat != Seat::Application {
                break;
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(WaitError::Timeout);
            }
            if beside.is_some_and(is_readable) {
                return Ok(None);
            }
            let look = beside.map(|_| Instant::now() + BESIDE_FOLLOWING);
            core.follow(topic, look.into_iter().chain(deadline).min());
        }
        // The worker, if it has the seat, steps aside when it wakes; nobody waits for that.
        core.rouse(Role::Worker);
        core.seat = Seat::Application;
        core.topic = topic;
        core.counters.application_drives += 1;
        place.drives = true;
        place.drive(beside, ready, deadline)
    }

    /// Makes those look at the state again who wait for this topic, or for anything.
    pub fn notify(&self) {
        let mut concerned = Concerned::default();
        concerned.add(self.topic);
        self.endpoint.lock().tell(concerned, None);
    }

    /// As [`Endpoint::poll_wait`].
    pub fn poll_wait<R>(
        &self,
        context: &mut Context<'_>,
        waiting: &mut Waiting,
        mut ready: impl FnMut(&mut S) -> Option<R>,
    ) -> Poll<Result<R, EndpointError>> {
        let mut core = self.endpoint.lock();
        if let Some(result) = ready(&mut core.state) {
            drop(core);
            waiting.stop();
            return Poll::Ready(Ok(result));
        }
        // Once in a wait: from then on the worker drives, and of many who wait each would do it whenever one is done. But what
        // was queued meanwhile, and held back, leaves.
        if (!waiting.has_begun() || core.held.is_some()) && core.error.is_none() && core.seat != Seat::Application {
            core.release();
            let _ = core.turn(None);
            if let Some(result) = ready(&mut core.state) {
                core.rouse_outdated();
                drop(core);
                waiting.stop();
                return Poll::Ready(Ok(result));
            }
        }
        core.check()?;
        let old = core.tasks.add(waiting, self.topic, context.waker());
        core.prompt_until = core.driver.last_now() + core.config.grace;
        core.rouse_outdated();
        let started = self.endpoint.ensure_prompt_worker(&mut core);
        drop(core);
        drop(old);
        started?;
        Poll::Pending
    }

    /// As [`Endpoint::wait`].
    ///
    /// # Errors
    /// The same.
    pub async fn wait<R>(&self, mut ready: impl FnMut(&mut S) -> Option<R>) -> Result<R, EndpointError> {
        let mut waiting = Waiting::default();
        std::future::poll_fn(|context| self.poll_wait(context, &mut waiting, &mut ready)).await
    }
}

impl<E, L, S> fmt::Debug for About<'_, E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("About").field("topic", &self.topic).finish_non_exhaustive()
    }
}

/// A thread that waits. Hands over when it leaves, however it leaves.
struct Place<'a, E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    endpoint: &'a Endpoint<E, L, S>,
    core: Locked<'a, E, L, S>,
    drives: bool,
}

impl<E, L, S> Place<'_, E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    fn drive<R>(
        &mut self,
        beside: Option<BorrowedFd<'_>>,
        mut ready: impl FnMut(&mut S) -> Option<R>,
        deadline: Option<Instant>,
    ) -> Result<Option<R>, WaitError> {
        let core = &mut self.core;
        let mut idle_since = None;
        core.release();
        loop {
            let progress = core.turn(Some(Role::Application));
            if let Some(result) = ready(&mut core.state) {
                return Ok(Some(result));
            }
            core.check()?;
            let Some(progress) = progress else { continue };
            // Each time anew: the turn may have set the clock back by the time for which nobody drove.
            let deadline = deadline.map(|deadline| core.driver.time_of(deadline));
            if deadline.is_some_and(|deadline| deadline <= progress.now) {
                return Err(WaitError::Timeout);
            }
            if beside.is_some_and(is_readable) {
                return Ok(None);
            }
            if progress.worked() {
                idle_since = None;
                core.give_way();
            } else if !core.spin(&mut idle_since) {
                core.sleep(Role::Application, deadline, beside);
            }
        }
    }
}

impl<E, L, S> Drop for Place<'_, E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    fn drop(&mut self) {
        if !self.core.is_sound() {
            return;
        }
        if self.drives {
            self.core.seat = Seat::Free;
        }
        if self.core.seat == Seat::Application {
            return;
        }
        let shared = self.endpoint.shared();
        if !self.core.hand_over() && (self.core.worker_parked || self.core.is_prompt()) {
            shared.rest.notify();
        }
        self.endpoint.ensure_worker(&mut self.core);
    }
}
