//! What the handles of an endpoint and its worker share: one lock around the driver, and who sleeps where.
//!
//! Always true, whenever the lock is free:
//! - at most one thread has the *seat*, that is, drives; an application thread is never driven out of it, the worker
//!   always is;
//! - if threads *follow* (wait while another has the seat), the seat is taken or one of them has been notified: whoever
//!   leaves hands over;
//! - whoever changes what a sleeper waits for (an event, an earlier timer, a full link) marks it as woken under the lock
//!   and signals its descriptor after; the descriptor stays readable until the sleeper has looked, so no wake-up is lost;
//! - if `entered` is set, a thread panicked while the engine was half-way: the endpoint has failed.
//!
//! The locks are the standard library's, whose state lies in themselves alone: after `fork` the child's own endpoints have
//! nothing to do with threads that wait in the parent.

use crate::publishing::Published;
use crate::rest::Rest;
use crate::topic::{Concerned, Followers, ROOMS, Topic};
use crate::waiting::Tasks;
use crate::wake::{Bed, WakeFd};
use crate::{Driver, EndpointConfig, EndpointError, EventSink, Idle, Progress};
use pinnace_core::{Engine, PollAt, Time};
use pinnace_link::Link;
use std::hint::spin_loop;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A sleep shorter than this costs more than it saves.
const SHORTEST_SLEEP: Duration = Duration::from_micros(5);
/// A sleep may end so much later than it should: timers have 50 us of slack, and to wake a thread takes its time.
const OVERSLEPT: Duration = Duration::from_micros(100);
/// How long a thread spins before it offers its core to others in every turn.
const SPIN_ALONE: Duration = Duration::from_micros(10);
/// Who offers its core and has it back only after so long shares it with others that run.
const CORE_LENT: Duration = Duration::from_micros(10);
/// How long a thread looks before it sleeps: less than a sleep and a wake take.
const LAST_LOOK: Duration = Duration::from_micros(10);
/// The same while long trains come, with their pauses.
const LAST_LOOK_FOR_TRAINS: Duration = Duration::from_micros(20);
/// How long a thread that found no further train leaves the socket alone. Each look at an empty socket takes the lock with
/// which the sender's processor puts the next train there, and bytes that are fetched the moment they are written come
/// slowly from the other processor's cache.
const BETWEEN_TRAINS: Duration = Duration::from_micros(5);
/// How long to sleep at most on a link that has no descriptor.
const BLIND_SLEEP: Duration = Duration::from_millis(1);

pinnace_core::counters! {
    /// What the threads of an endpoint have done since it was made.
    pub struct EndpointCounters {
        /// Times that a waiting application thread drove.
        application_drives,
        /// Times that a waiting application thread found another one driving.
        application_follows,
        /// Times that an application thread slept on the link.
        application_sleeps,
        /// Times that the background worker slept on the link.
        worker_sleeps,
        /// Times that the background worker took over.
        worker_takeovers,
        /// Times that a thread woke another one that slept on the link.
        rousings,
        /// Times that a leaving thread handed the driving over to a waiting one.
        hand_overs,
        /// Calls that also read, because nobody had for a while.
        reading_calls,
    }
}

/// Who drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    Free,
    Application,
    Worker,
}

/// Who sleeps: the index of [`Core::sleeps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Application = 0,
    Worker = 1,
}

/// A thread asleep on the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sleep {
    until: Option<Time>,
    writable: bool,
    /// The descriptor that wakes it, or -1.
    readable: RawFd,
    woken: bool,
}

#[derive(Debug)]
pub(crate) struct Core<E, L, S> {
    pub(crate) driver: Driver<E, L>,
    pub(crate) state: S,
    pub(crate) config: EndpointConfig,
    pub(crate) seat: Seat,
    pub(crate) followers: Followers,
    /// What the thread waits for that drives.
    pub(crate) topic: Topic,
    sleeps: [Option<Sleep>; 2],
    /// The engine holds back what the application queues, at most until then.
    pub(crate) held: Option<Time>,
    last_read: Time,
    /// Others ran on the core of the thread that drives when it was offered last.
    is_crowded: bool,
    pub(crate) tasks: Tasks,
    /// Tasks have waited lately, and will again.
    pub(crate) prompt_until: Time,
    /// A thread serves it beside other descriptors, and will be back soon.
    pub(crate) is_served: bool,
    /// Somebody asked for the readiness descriptor.
    pub(crate) announces: bool,
    pub(crate) announced: bool,
    pub(crate) error: Option<EndpointError>,
    entered: bool,
    pub(crate) worker: Option<JoinHandle<()>>,
    /// The worker rests until it is told.
    pub(crate) worker_parked: bool,
    /// What has arrived is the worker's to read. If not, it only sends.
    pub(crate) worker_reads: bool,
    pub(crate) counters: EndpointCounters,
    /// What others see of it.
    pub(crate) published: Option<Published<E>>,
    /// When they see the next of it.
    pub(crate) publish_at: Time,
}

impl<E: Engine, L: Link, S: EventSink<E::Event>> Core<E, L, S> {
    pub(crate) fn check(&self) -> Result<(), EndpointError> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Works on driver and state. A panic in `work` makes the endpoint useless rather than wrong.
    pub(crate) fn enter<R>(&mut self, work: impl FnOnce(&mut Driver<E, L>, &mut S) -> R) -> R {
        self.entered = true;
        let result = work(&mut self.driver, &mut self.state);
        self.entered = false;
        result
    }

    pub(crate) fn progress(&mut self) -> io::Result<Progress> {
        let progress = self.enter(|driver, state| driver.progress(state));
        self.last_read = self.driver.last_now();
        progress
    }

    /// Whether this role reads what arrives.
    fn reads(&self, role: Option<Role>) -> bool {
        self.worker_reads || role != Some(Role::Worker)
    }

    /// The application has stopped queueing.
    pub(crate) fn release(&mut self) {
        if self.held.take().is_some() {
            self.enter(|driver, _| driver.release());
        }
    }

    /// Whether a call should read as well.
    pub(crate) fn should_read(&self) -> bool {
        self.seat != Seat::Application
            && !self.is_served
            && self.driver.last_now().since(self.last_read) >= self.config.call_reads_after
    }

    /// When the next turn is due if nothing arrives.
    pub(crate) fn next(&self) -> PollAt {
        match (self.driver.next(), self.held) {
            // Nothing is under way, so nothing can be held back.
            (PollAt::Ingress, _) => PollAt::Ingress,
            (next, held) => next.min(PollAt::at(held)),
        }
    }

    /// Whether somebody waits who cannot drive: then the worker must not be late.
    pub(crate) fn is_prompt(&self) -> bool {
        self.announces || !self.worker_reads || !self.tasks.is_empty() || self.prompt_until > self.driver.last_now()
    }

    /// Whether an application thread waits inside.
    pub(crate) fn is_inside(&self) -> bool {
        self.seat == Seat::Application || !self.followers.is_empty()
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Shared<E, L, S> {
    core: Mutex<Core<E, L, S>>,
    /// Threads that want the lock now: the driver looks here between two turns instead of releasing the lock each time.
    wanted: AtomicUsize,
    /// Where threads wait while another drives, by topic.
    rooms: [Condvar; ROOMS],
    /// Where the worker rests while the application is about.
    pub(crate) rest: Rest,
    beds: [Bed; 2],
    pub(crate) readiness: WakeFd,
}

impl<E, L, S> Shared<E, L, S>
where
    E: Engine,
    L: Link,
    S: EventSink<E::Event>,
{
    pub(crate) fn new(engine: E, link: L, state: S, config: EndpointConfig) -> io::Result<Arc<Self>> {
        let core = Core {
            driver: Driver::new(engine, link, config.driver),
            state,
            config,
            seat: Seat::Free,
            followers: Followers::default(),
            topic: Topic::ANYTHING,
            sleeps: [None; 2],
            held: None,
            last_read: Time::ZERO,
            is_crowded: false,
            tasks: Tasks::default(),
            prompt_until: Time::ZERO,
            is_served: false,
            announces: false,
            announced: false,
            error: None,
            entered: false,
            worker: None,
            worker_parked: false,
            worker_reads: true,
            counters: EndpointCounters::default(),
            published: None,
            publish_at: Time::MAX,
        };
        Ok(Arc::new(Self {
            core: Mutex::new(core),
            wanted: AtomicUsize::new(0),
            rooms: [const { Condvar::new() }; ROOMS],
            rest: Rest::default(),
            beds: [Bed::new()?, Bed::new()?],
            readiness: WakeFd::new()?,
        }))
    }

    pub(crate) fn lock(&self) -> Locked<'_, E, L, S> {
        Locked { shared: self, guard: Some(self.acquire()), rouse: [false; 2] }
    }

    /// A panic leaves its mark in `entered`, not in the lock.
    fn try_acquire(&self) -> Option<MutexGuard<'_, Core<E, L, S>>> {
        match self.core.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn acquire(&self) -> MutexGuard<'_, Core<E, L, S>> {
        if let Some(guard) = self.try_acquire() {
            return guard;
        }
        self.wanted.fetch_add(1, Ordering::Relaxed);
        // The driver gives way after its turn, mostly within microseconds: sooner than a futex would wake us.
        let mut guard = None;
        for _ in 0..200 {
            spin_loop();
            guard = self.try_acquire();
            if guard.is_some() {
                break;
            }
        }
        let guard = guard.unwrap_or_else(|| self.core.lock().unwrap_or_else(PoisonError::into_inner));
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        guard
    }
}

/// The lock, held. What is to be signalled is signalled when it is free again, or between two turns.
pub(crate) struct Locked<'a, E, L, S>
where
    E: Engine,
    L: Link,
    S: EventSink<E::Event>,
{
    shared: &'a Shared<E, L, S>,
    /// `None` only inside [`Locked::unlocked`].
    guard: Option<MutexGuard<'a, Core<E, L, S>>>,
    rouse: [bool; 2],
}

impl<'a, E, L, S> Locked<'a, E, L, S>
where
    E: Engine,
    L: Link,
    S: EventSink<E::Event>,
{
    /// Releases the lock for the time of `work`.
    pub(crate) fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.unlock();
        let result = work();
        self.guard = Some(self.shared.acquire());
        result
    }

    fn unlock(&mut self) {
        self.guard = None;
        self.signal();
    }

    fn signal(&mut self) {
        for (bed, rouse) in self.shared.beds.iter().zip(&mut self.rouse) {
            if std::mem::take(rouse) {
                bed.signal();
            }
        }
    }

    /// Whether the lock is held and the engine whole: always, except while a panic passes through.
    pub(crate) fn is_sound(&self) -> bool {
        self.guard.as_ref().is_some_and(|core| !core.entered)
    }

    /// Between two turns: lets those in who want the lock.
    pub(crate) fn give_way(&mut self) {
        let shared = self.shared;
        if shared.wanted.load(Ordering::Relaxed) > 0 {
            self.unlocked(|| {
                for _ in 0..200 {
                    if shared.wanted.load(Ordering::Relaxed) == 0 {
                        return;
                    }
                    spin_loop();
                }
                // They are asleep on the lock, or about to be.
                std::thread::yield_now();
            });
        }
        self.signal();
    }

    /// Pauses before looking again at once, and returns true; or returns false, if it is time to sleep. `since`: since
    /// when there has been nothing to do.
    pub(crate) fn spin(&mut self, since: &mut Option<Time>) -> bool {
        let now = self.driver.last_now();
        let idle = now.since(*since.get_or_insert(now));
        let was_crowded = std::mem::take(&mut self.is_crowded);
        let spins = match self.config.idle {
            // Two that only offer their core to each other have been seen to share one for a tenth of a second, beside one
            // that was free. Who sleeps once leaves it, and is woken where there is room.
            _ if was_crowded => false,
            Idle::Spin => true,
            _ if self.shared.beds[Role::Application as usize].polls_device() => false,
            Idle::Block if self.driver.expects_train() => idle < LAST_LOOK_FOR_TRAINS,
            Idle::Block => idle < LAST_LOOK,
            Idle::Adaptive { spin } => idle < spin,
        };
        if spins && idle >= SPIN_ALONE {
            // What we wait for may need this very core.
            let lent = self.unlocked(|| {
                let begun = std::time::Instant::now();
                std::thread::yield_now();
                begun.elapsed()
            });
            self.is_crowded = lent >= CORE_LENT;
        } else if spins {
            spin_loop();
        }
        if spins {
            if self.driver.expects_train() {
                self.let_trains_gather();
            }
            self.give_way();
        }
        spins
    }

    /// Pauses until more than one train is likely to be there, a timer is due, or somebody wants the lock.
    fn let_trains_gather(&self) {
        let until = PollAt::Time(self.driver.last_now() + BETWEEN_TRAINS).min(self.next());
        while let PollAt::Time(until) = until
            && self.driver.time_of(std::time::Instant::now()) < until
            && self.shared.wanted.load(Ordering::Relaxed) == 0
        {
            spin_loop();
        }
    }

    /// Waits while another thread drives, until something has happened that concerns the topic, or this one is to drive.
    pub(crate) fn follow(&mut self, topic: Topic, deadline: Option<std::time::Instant>) {
        self.followers.enter(topic);
        self.counters.application_follows += 1;
        self.wait(&self.shared.rooms[topic.room()], deadline);
        self.followers.leave(topic);
    }

    /// The seat is free: a thread that follows is to take it, if there is one.
    pub(crate) fn hand_over(&mut self) -> bool {
        let room = self.followers.any();
        if let Some(room) = room {
            self.counters.hand_overs += 1;
            self.shared.rooms[room].notify_one();
        }
        room.is_some()
    }

    fn wait(&mut self, condition: &Condvar, deadline: Option<std::time::Instant>) {
        let Some(guard) = self.guard.take() else { return };
        self.guard = Some(match deadline {
            Some(deadline) => {
                let rest = deadline.saturating_duration_since(std::time::Instant::now());
                condition.wait_timeout(guard, rest).unwrap_or_else(PoisonError::into_inner).0
            }
            None => condition.wait(guard).unwrap_or_else(PoisonError::into_inner),
        });
    }

    /// Wakes a thread that sleeps on the link, if one does in this role.
    pub(crate) fn rouse(&mut self, role: Role) {
        if let Some(sleep) = &mut self.sleeps[role as usize]
            && !sleep.woken
        {
            sleep.woken = true;
            self.counters.rousings += 1;
            self.rouse[role as usize] = true;
        }
    }

    /// Wakes those whose sleep was laid out for something else: an earlier timer, a link that has become full, or one that has
    /// another descriptor now.
    pub(crate) fn rouse_outdated(&mut self) {
        let blocked = self.driver.is_blocked();
        let readable = self.driver.link().descriptors().readable;
        for role in [Role::Application, Role::Worker] {
            let Some(sleep) = self.sleeps[role as usize] else { continue };
            let earlier = match (self.next(), sleep.until) {
                (PollAt::Now, _) | (PollAt::Time(_), None) => true,
                (PollAt::Time(next), Some(until)) => next < until,
                (PollAt::Ingress, _) => false,
            };
            let moved = sleep.readable >= 0 && sleep.readable != readable;
            if earlier || moved || (blocked && !sleep.writable) {
                self.rouse(role);
            }
        }
    }

    /// Tells those whom events concern (but the caller, if it is a driver) that the state has changed.
    pub(crate) fn announce(&mut self, me: Option<Role>) {
        let concerned = self.state.take_concerned();
        self.tell(concerned, me);
    }

    /// Tells everybody who waits.
    pub(crate) fn tell_everybody(&mut self) {
        self.tell(Concerned::EVERYBODY, None);
    }

    pub(crate) fn tell(&mut self, concerned: Concerned, me: Option<Role>) {
        for room in concerned.rooms(self.followers.taken()) {
            self.shared.rooms[room].notify_all();
        }
        if me != Some(Role::Application) && concerned.includes(self.topic) {
            self.rouse(Role::Application);
        }
        if self.announces && !self.announced && (self.error.is_some() || self.state.is_ready()) {
            self.announced = true;
            self.shared.readiness.signal();
        }
        if let Some(wakers) = self.tasks.take(concerned) {
            // Not under the lock: a waker may run the task at once, and the task may call us.
            self.unlocked(|| wakers.wake());
        }
    }

    /// The endpoint is of no use any more: tells everybody, the worker included.
    pub(crate) fn fail(&mut self, error: EndpointError) {
        if self.error.is_none() {
            self.error = Some(error);
        }
        self.shared.rest.notify();
        self.rouse(Role::Worker);
        self.tell_everybody();
    }

    /// One turn of the driver, and its consequences for those who wait. Failures are stored.
    pub(crate) fn turn(&mut self, me: Option<Role>) -> Option<Progress> {
        let turned = if self.reads(me) {
            self.progress()
        } else {
            self.enter(|driver, state| driver.progress_without_reading(state))
        };
        match turned {
            Ok(progress) => {
                self.publish();
                if progress.events > 0 {
                    self.announce(me);
                }
                Some(progress)
            }
            Err(error) => {
                self.fail(EndpointError::Link(Arc::new(error)));
                None
            }
        }
    }

    /// Sleeps until the link is ready, the next timer or `deadline` is due, somebody rouses this role, or `beside` is readable.
    pub(crate) fn sleep(&mut self, role: Role, deadline: Option<Time>, beside: Option<BorrowedFd<'_>>) {
        let next = self.next().min(PollAt::at(deadline));
        let until = match next {
            PollAt::Now => return,
            PollAt::Time(at) => Some(at),
            PollAt::Ingress => None,
        };
        let mut timeout = until.map(|until| self.driver.remaining(until));
        if timeout.is_some_and(|timeout| timeout < SHORTEST_SLEEP) {
            spin_loop();
            return;
        }
        if timeout.is_some() && !self.driver.bears(OVERSLEPT) {
            timeout = timeout.map(|timeout| timeout.saturating_sub(OVERSLEPT));
            if timeout.is_some_and(|timeout| timeout < SHORTEST_SLEEP) {
                // Whoever offered its core would have it back late on a busy machine.
                spin_loop();
                self.give_way();
                return;
            }
        }
        let mut descriptors = self.driver.link().descriptors();
        if !self.reads(Some(role)) {
            descriptors.readable = -1;
        } else if descriptors.readable < 0 {
            timeout = Some(timeout.map_or(BLIND_SLEEP, |timeout| timeout.min(BLIND_SLEEP)));
        }
        self.publish_before_sleep();
        let writable = self.driver.is_blocked();
        self.sleeps[role as usize] = Some(Sleep { until, writable, readable: descriptors.readable, woken: false });
        match role {
            Role::Application => self.counters.application_sleeps += 1,
            Role::Worker => self.counters.worker_sleeps += 1,
        }
        let bed = &self.shared.beds[role as usize];
        self.unlocked(|| bed.sleep(descriptors, writable, beside, timeout));
        self.sleeps[role as usize] = None;
    }
}

impl<E, L, S> Deref for Locked<'_, E, L, S>
where
    E: Engine,
    L: Link,
    S: EventSink<E::Event>,
{
    type Target = Core<E, L, S>;
    fn deref(&self) -> &Self::Target {
        self.guard.as_ref().expect("the lock is held outside `unlocked`")
    }
}

impl<E, L, S> DerefMut for Locked<'_, E, L, S>
where
    E: Engine,
    L: Link,
    S: EventSink<E::Event>,
{
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.guard.as_mut().expect("the lock is held outside `unlocked`")
    }
}

impl<E, L, S> Drop for Locked<'_, E, L, S>
where
    E: Engine,
    L: Link,
    S: EventSink<E::Event>,
{
    fn drop(&mut self) {
        if let Some(guard) = &mut self.guard
            && guard.entered
        {
            // A panic passes through: nobody may work on a half-changed engine, and nobody may wait for this thread.
            guard.entered = false;
            self.fail(EndpointError::Panicked);
        }
        self.unlock();
    }
}
