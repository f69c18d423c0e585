//! The thread-safe face of a driver: calls, waits, tasks and a readiness descriptor.
//!
//! The thread that waits does the work (`about.rs`): [`Endpoint::wait_until`] drives the engine itself, or, while another thread does,
//! waits to take over. A background worker drives while no application thread is inside.

use crate::about::About;
use crate::shared::{EndpointCounters, Locked, Role, Seat, Shared};
use crate::{DriverCounters, EndpointConfig, EndpointError, EventSink, Progress, Topic, WaitError, Waiting, worker};
use pinnace_core::{Engine, Time};
use pinnace_link::{BufferTable, Link, LinkCounters};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use std::{fmt, io};

/// What a call of the application works on.
#[derive(Debug)]
pub struct Call<'a, E, S> {
    /// The engine's clock.
    pub now: Time,
    /// The engine.
    pub engine: &'a mut E,
    /// Application memory by name.
    pub memory: &'a mut BufferTable,
    /// The state of the layer above.
    pub state: &'a mut S,
}

/// An engine on a link, for many threads. Clones are handles of the same endpoint.
///
/// When the last handle is dropped the worker stops and link, engine and state go; nothing is sent any more. Ending a
/// conversation properly is a call like any other. Does not survive `fork`: the child must not use it.
///
/// # Examples
/// See `tests/` of this crate for engines; protocols are offered by the `pinnace` crate.
pub struct Endpoint<E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    handle: Arc<Handle<E, L, S>>,
}

/// What all handles share; the worker has only what is inside.
struct Handle<E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    shared: Arc<Shared<E, L, S>>,
}

impl<E, L, S> Endpoint<E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    /// Puts `engine` on `link`; its events go to `state`. Starts no thread yet.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn new(engine: E, link: L, state: S, config: EndpointConfig) -> io::Result<Self> {
        Ok(Self { handle: Arc::new(Handle { shared: Shared::new(engine, link, state, config)? }) })
    }

    /// A call of the application: changes engine, memory and state, then sends and reports what follows from it, in the
    /// calling thread. What does not fill a train may be held back until a thread waits, or for
    /// [`EndpointConfig::grace`].
    ///
    /// A call that changes the state so that another thread's condition comes true, without an event of the engine,
    /// says so with [`Endpoint::notify`].
    ///
    /// # Errors
    /// If the endpoint is of no use any more. If the link fails while the call's consequences are sent, the call has
    /// happened all the same.
    pub fn call<R>(&self, call: impl FnOnce(Call<'_, E, S>) -> R) -> Result<R, EndpointError> {
        let shared = &self.handle.shared;
        let mut core = shared.lock();
        core.check()?;
        shared.rest.count();
        // While a thread waits, it is for what is queued now. And an application that only ever calls releases itself.
        let expired = core.held.is_some_and(|held| held <= core.driver.last_now());
        let hold = core.seat != Seat::Application && !expired;
        let change = (hold != core.held.is_some()).then_some(hold);
        let result = core.enter(|driver, state| {
            driver.call(change, |engine, memory, now| call(Call { now, engine, memory, state }))
        });
        if change.is_some() {
            core.held = hold.then(|| core.driver.last_now() + core.config.grace);
        }
        let mut progress = core.enter(|driver, state| driver.drain(state));
        if let Ok(Progress { events, .. }) = progress
            && core.should_read()
        {
            core.counters.reading_calls += 1;
            progress = core.progress().map(|read| Progress { events: read.events + events, ..read });
        }
        match progress {
            Ok(progress) if progress.events > 0 => core.announce(None),
            Ok(_) => {}
            Err(error) => {
                core.fail(EndpointError::Link(Arc::new(error)));
                return core.check().map(|()| result);
            }
        }
        core.publish();
        core.rouse_outdated();
        self.ensure_worker(&mut core);
        Ok(result)
    }

    /// Looks at what is under way, even after a failure (to take buffers back). Sends nothing.
    pub fn inspect<R>(&self, look: impl FnOnce(&E, &mut BufferTable, &mut S) -> R) -> R {
        self.handle.shared.lock().enter(|driver, state| {
            let (engine, memory) = driver.look();
            look(engine, memory, state)
        })
    }

    /// Waits until `ready` finds in the state what the caller wants, and drives the engine meanwhile. `ready` is asked
    /// under the lock, first at once: what is there already costs no turn (and does not release what calls hold back).
    ///
    /// # Errors
    /// [`WaitError::Timeout`] when `deadline` has passed (one that has passed already allows one turn),
    /// [`WaitError::Endpoint`] if the endpoint is of no use any more.
    pub fn wait_until<R>(
        &self,
        ready: impl FnMut(&mut S) -> Option<R>,
        deadline: Option<Instant>,
    ) -> Result<R, WaitError> {
        self.about(Topic::ANYTHING).wait_until(ready, deadline)
    }

    /// Like [`Endpoint::wait_until`], for a thread that serves other descriptors as well: returns `None` as soon as `beside` (an
    /// epoll descriptor, say) is readable. What arrives is left to such a thread from now on: calls do not read. Where another
    /// thread waits on this endpoint already, `beside` is looked at once a millisecond only.
    ///
    /// # Errors
    /// As [`Endpoint::wait_until`].
    pub fn wait_beside<R>(
        &self,
        beside: BorrowedFd<'_>,
        ready: impl FnMut(&mut S) -> Option<R>,
        deadline: Option<Instant>,
    ) -> Result<Option<R>, WaitError> {
        self.about(Topic::ANYTHING).wait_and_watch(Some(beside), ready, deadline)
    }

    /// As [`Endpoint::wait_until`], [`Endpoint::wait`] and [`Endpoint::poll_wait`], for whoever waits for one thing of many: it is woken
    /// when something has happened that [concerns](EventSink::take_concerned) the topic, and not whatever happens.
    pub const fn about(&self, topic: Topic) -> About<'_, E, L, S> {
        About { endpoint: self, topic }
    }

    /// Like [`Endpoint::wait_until`], for a task: the task is woken when there may be something new. Starts the
    /// background worker, which drives while tasks wait. It is not woken any more when `waiting` is dropped.
    pub fn poll_wait<R>(
        &self,
        context: &mut Context<'_>,
        waiting: &mut Waiting,
        ready: impl FnMut(&mut S) -> Option<R>,
    ) -> Poll<Result<R, EndpointError>> {
        self.about(Topic::ANYTHING).poll_wait(context, waiting, ready)
    }

    /// Like [`Endpoint::wait_until`], as a future.
    ///
    /// # Errors
    /// If the endpoint is of no use any more.
    pub async fn wait<R>(&self, ready: impl FnMut(&mut S) -> Option<R>) -> Result<R, EndpointError> {
        self.about(Topic::ANYTHING).wait(ready).await
    }

    /// The application is about to do something else: what is there is handled now, and the worker takes over at once, not
    /// after a grace period, in which the peer would wait.
    pub fn hand_over(&self) {
        let mut core = self.handle.shared.lock();
        if core.error.is_some() || core.seat == Seat::Application {
            return;
        }
        core.release();
        let _ = core.turn(None);
        core.prompt_until = core.driver.last_now() + core.config.grace;
        core.rouse_outdated();
        let _ = self.ensure_prompt_worker(&mut core);
    }

    /// Makes everybody who waits look at the state again.
    pub fn notify(&self) {
        self.handle.shared.lock().tell_everybody();
    }

    /// A descriptor that becomes readable when completions are there ([`EventSink::is_ready`]), for event loops. Valid
    /// as long as the endpoint. Starts the background worker, which drives from now on whenever no thread waits.
    ///
    /// # Errors
    /// If the worker cannot be started.
    pub fn readiness_fd(&self) -> Result<BorrowedFd<'_>, EndpointError> {
        let mut core = self.handle.shared.lock();
        core.announces = true;
        core.tell_everybody();
        self.ensure_prompt_worker(&mut core)?;
        drop(core);
        Ok(self.handle.shared.readiness.as_fd())
    }

    /// Makes the readiness descriptor readable although nothing has completed: what is there already has become due.
    pub fn signal_readiness(&self) {
        let mut core = self.handle.shared.lock();
        core.announced = true;
        self.handle.shared.readiness.signal();
    }

    /// Makes the readiness descriptor unreadable until the next completion. Clear first, then take what is there.
    pub fn clear_readiness(&self) {
        let mut core = self.handle.shared.lock();
        if core.announced {
            core.announced = false;
            self.handle.shared.readiness.clear();
        }
    }

    /// Says whether the background worker reads what arrives, as it does at first, or leaves that to
    /// [`Endpoint::progress`], which an event loop calls when the link's descriptor is readable, and only lets timers fire and
    /// sends. Starts the worker. Threads that wait, and calls, read either way.
    ///
    /// # Errors
    /// If the endpoint is of no use any more, or the worker cannot be started.
    pub fn set_worker_reads(&self, reads: bool) -> Result<(), EndpointError> {
        let mut core = self.handle.shared.lock();
        core.check()?;
        core.worker_reads = reads;
        if reads {
            // It sleeps on its timers alone. The other way round it finds out when something arrives.
            core.rouse(Role::Worker);
        }
        self.ensure_prompt_worker(&mut core)
    }

    /// One turn in the calling thread, whoever else drives: reads a batch of what has arrived, sends and reports what
    /// follows. Never waits. Returns whether something was read, so that there may be more.
    ///
    /// # Errors
    /// If the endpoint is of no use any more.
    pub fn progress(&self) -> Result<bool, EndpointError> {
        let mut core = self.handle.shared.lock();
        core.check()?;
        self.handle.shared.rest.count();
        core.release();
        let progress = core.turn(None);
        core.check()?;
        core.rouse_outdated();
        self.ensure_worker(&mut core);
        Ok(progress.is_some_and(|progress| progress.reads > 0))
    }

    /// Stops the worker, and fails every call and wait from now on, those under way included. Returns when the worker
    /// has ended. What the engine has not sent is not sent.
    pub fn shutdown(&self) {
        self.handle.shutdown();
    }

    /// What the threads have done.
    pub fn counters(&self) -> EndpointCounters {
        self.handle.shared.lock().counters
    }

    /// What the driver has seen.
    pub fn driver_counters(&self) -> DriverCounters {
        self.handle.shared.lock().driver.counters()
    }

    /// What the link has seen.
    pub fn link_counters(&self) -> LinkCounters {
        self.handle.shared.lock().driver.link().counters()
    }

    /// Looks at the link, or changes its settings (not its descriptors: threads sleep on them).
    pub fn with_link<R>(&self, work: impl FnOnce(&mut L) -> R) -> R {
        work(self.handle.shared.lock().driver.link_mut())
    }

    pub(crate) fn lock(&self) -> Locked<'_, E, L, S> {
        self.handle.shared.lock()
    }

    pub(crate) fn shared(&self) -> &Shared<E, L, S> {
        &self.handle.shared
    }

    /// Starts the worker if something is left to do when this thread goes. If no thread can be had the next call tries
    /// again; waiting threads drive all the same.
    pub(crate) fn ensure_worker(&self, core: &mut Locked<'_, E, L, S>) {
        if core.worker.is_none()
            && core.config.worker
            && (core.next() != pinnace_core::PollAt::Ingress || core.driver.is_blocked() || core.state.is_outstanding())
        {
            let _ = worker::start(&self.handle.shared, core);
        }
    }

    /// Somebody waits who cannot drive.
    pub(crate) fn ensure_prompt_worker(&self, core: &mut Locked<'_, E, L, S>) -> Result<(), EndpointError> {
        worker::start(&self.handle.shared, core).map_err(|error| EndpointError::Link(Arc::new(error)))?;
        if core.seat == Seat::Free {
            self.handle.shared.rest.notify();
        }
        Ok(())
    }
}

impl<E, L, S> Handle<E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    fn shutdown(&self) {
        let mut core = self.shared.lock();
        core.fail(EndpointError::ShutDown);
        let worker = core.worker.take();
        drop(core);
        if let Some(worker) = worker
            && worker.thread().id() != std::thread::current().id()
        {
            // A panic of the worker has been stored as the endpoint's failure.
            let _ = worker.join();
        }
    }
}

impl<E, L, S> Drop for Handle<E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl<E, L, S> Clone for Endpoint<E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle) }
    }
}

impl<E, L, S> fmt::Debug for Endpoint<E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("counters", &self.counters()).finish_non_exhaustive()
    }
}
