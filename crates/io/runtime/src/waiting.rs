//! Tasks that wait: who is woken when something has changed.
//!
//! Always true: a waker is kept no longer than its task waits; what is left of those that have stopped is at most as much as
//! those that wait, and a little.

use crate::topic::{Concerned, ROOMS, Topic};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// What a list and a task share: the waker, from when the task was told to wait until it is woken.
#[derive(Debug, Default)]
struct Slot(Mutex<Option<Waker>>);

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task's place among those that were told to wait, by [`Endpoint::poll_wait`](crate::Endpoint::poll_wait) of one endpoint or
/// [`Wakers::add`] to one list. The task is not woken any more when this is dropped.
///
/// ```
/// use pinnace_runtime::{Waiting, Wakers};
/// use std::task::Waker;
/// let (mut wakers, mut waiting) = (Wakers::default(), Waiting::default());
/// assert!(wakers.add(&mut waiting, Waker::noop()).is_none());
/// assert!(!wakers.is_empty());
/// drop(waiting);
/// assert!(wakers.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct Waiting {
    slot: Option<Arc<Slot>>,
    /// Of an endpoint's tasks.
    topic: Topic,
}

impl Waiting {
    /// Whether the task was told to wait.
    pub(crate) const fn has_begun(&self) -> bool {
        self.slot.is_some()
    }

    /// There is nothing to wait for any more.
    pub(crate) fn stop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let waker = slot.lock().take();
            // Not under the lock: with it a task may go, which waits itself.
            drop(waker);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Tasks that wait for the same. See [`Waiting`].
#[derive(Debug, Default)]
pub struct Wakers(Vec<Arc<Slot>>);

impl Wakers {
    /// From now on the task is woken. Returns a waker that is not needed any more, to be dropped where no lock is held.
    pub fn add(&mut self, waiting: &mut Waiting, waker: &Waker) -> Option<Waker> {
        let slot = waiting.slot.get_or_insert_default();
        let mut place = slot.lock();
        match &*place {
            Some(known) if known.will_wake(waker) => None,
            Some(_) => place.replace(waker.clone()),
            None => {
                *place = Some(waker.clone());
                drop(place);
                if self.0.len() == self.0.capacity() {
                    self.0.retain(is_waiting);
                }
                self.0.push(Arc::clone(slot));
                None
            }
        }
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        !self.0.iter().any(is_waiting)
    }

    /// Wakes all, who may do anything meanwhile: call it where no lock is held, or [later](WakeLater).
    pub fn wake(mut self) {
        // A thread that ends wakes at once.
        let _ = LATER.try_with(|later| {
            if let Some(later) = &mut *later.borrow_mut() {
                later.append(&mut self.0);
            }
        });
        for slot in self.0 {
            let waker = slot.lock().take();
            if let Some(waker) = waker {
                wake(waker);
            }
        }
    }
}

/// The tasks that wait on an endpoint, by topic.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// As many as there are, from the first task on.
    rooms: Vec<Wakers>,
    /// Those that are not empty.
    taken: u128,
}

impl Tasks {
    /// As [`Wakers::add`], of those who wait for this topic.
    pub(crate) fn add(&mut self, waiting: &mut Waiting, topic: Topic, waker: &Waker) -> Option<Waker> {
        let moved = (waiting.topic != topic).then(|| waiting.slot.take()).flatten();
        waiting.topic = topic;
        self.rooms.resize_with(ROOMS, Wakers::default);
        self.taken |= 1 << topic.room();
        let old = self.rooms[topic.room()].add(waiting, waker);
        // One of them is new, and has none.
        moved.and_then(|slot| slot.lock().take()).or(old)
    }

    /// All who are concerned, and what is left of those that have stopped, if there are any.
    pub(crate) fn take(&mut self, concerned: Concerned) -> Option<Wakers> {
        let mut all: Option<Wakers> = None;
        for room in concerned.rooms(self.taken) {
            self.taken &= !(1 << room);
            let mut wakers = std::mem::take(&mut self.rooms[room]);
            match &mut all {
                Some(all) => all.0.append(&mut wakers.0),
                None => all = Some(wakers),
            }
        }
        all
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        Concerned::EVERYBODY.rooms(self.taken).all(|room| self.rooms[room].is_empty())
    }
}

/// Wakes a task. Some executors run it inside: if it panics then, that ends here, and whoever wakes it goes on to serve others.
///
/// ```
/// use std::sync::Arc;
/// use std::task::{Wake, Waker};
/// struct Task;
/// impl Wake for Task {
///     fn wake(self: Arc<Self>) {
///         panic!("of no interest to others");
///     }
/// }
/// pinnace_runtime::wake(Waker::from(Arc::new(Task)));
/// ```
pub fn wake(waker: Waker) {
    // The panic has been told on standard error.
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

thread_local! {
    /// Whom this thread is to wake when the first [`WakeLater`] goes; `None`: at once.
    static LATER: RefCell<Option<Vec<Arc<Slot>>>> = const { RefCell::new(None) };
}

/// As long as there is one, this thread wakes no tasks: it does when the first of them is dropped. For whoever holds a lock
/// that tasks want as well, while an endpoint is called: some executors run a task inside `wake`. Do not wait meanwhile.
///
/// ```
/// use pinnace_runtime::{WakeLater, Waiting, Wakers};
/// # use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
/// # struct Task(AtomicBool);
/// # impl std::task::Wake for Task {
/// #     fn wake(self: Arc<Self>) {
/// #         self.0.store(true, Ordering::Relaxed);
/// #     }
/// # }
/// # let task = Arc::new(Task(AtomicBool::new(false)));
/// # let waker = Arc::clone(&task).into();
/// # let is_awake = || task.0.load(Ordering::Relaxed);
/// let (mut wakers, mut waiting) = (Wakers::default(), Waiting::default());
/// wakers.add(&mut waiting, &waker);
/// let later = WakeLater::begin();
/// wakers.wake();
/// assert!(!is_awake());
/// drop(later);
/// assert!(is_awake());
/// ```
#[derive(Debug)]
pub struct WakeLater {
    is_first: bool,
    /// It is this thread's.
    _thread: PhantomData<*const ()>,
}

impl WakeLater {
    /// From now on.
    pub fn begin() -> Self {
        let begun = LATER.try_with(|later| {
            let mut later = later.borrow_mut();
            let is_first = later.is_none();
            later.get_or_insert_default();
            is_first
        });
        Self { is_first: begun.unwrap_or(false), _thread: PhantomData }
    }
}

impl Drop for WakeLater {
    fn drop(&mut self) {
        if self.is_first {
            let kept = LATER.try_with(RefCell::take).ok().flatten();
            Wakers(kept.unwrap_or_default()).wake();
        }
    }
}

/// Whether the task is there still.
fn is_waiting(slot: &Arc<Slot>) -> bool {
    Arc::strong_count(slot) > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Task(AtomicU32);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_is_woken_once_by_the_waker_that_it_gave_last() {
        let [old, new] = [(); 2].map(|()| Arc::new(Task::default()));
        let [old_waker, new_waker] = [&old, &new].map(|task| Waker::from(Arc::clone(task)));
        let (mut wakers, mut waiting) = (Wakers::default(), Waiting::default());
        assert!(wakers.add(&mut waiting, &old_waker).is_none() && wakers.add(&mut waiting, &old_waker).is_none());
        assert!(wakers.add(&mut waiting, &new_waker).is_some());
        std::mem::take(&mut wakers).wake();
        assert!(wakers.is_empty());
        // Woken, it waits again.
        assert!(wakers.add(&mut waiting, &new_waker).is_none() && !wakers.is_empty());
        wakers.wake();
        assert_eq!((old.0.load(Ordering::Relaxed), new.0.load(Ordering::Relaxed)), (0, 2));
    }

    #[test]
    fn of_those_that_have_stopped_little_is_left() {
        let (mut wakers, mut stays) = (Wakers::default(), Waiting::default());
        assert!(wakers.add(&mut stays, Waker::noop()).is_none());
        for _ in 0..10_000 {
            assert!(wakers.add(&mut Waiting::default(), Waker::noop()).is_none());
        }
        assert!(wakers.0.len() <= 16, "{}", wakers.0.len());
        assert!(!wakers.is_empty());
        drop(stays);
        assert!(wakers.is_empty());
    }

    #[test]
    fn those_are_woken_whom_it_concerns() {
        let tasks = [(); 3].map(|()| Arc::new(Task::default()));
        let woken = || tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed));
        let mut waiting: [Waiting; 3] = Default::default();
        let mut all = Tasks::default();
        let topics = [Topic::ANYTHING, Topic::of(3), Topic::of(4)];
        let mut add =
            |all: &mut Tasks, n: usize, topic| all.add(&mut waiting[n], topic, &Waker::from(Arc::clone(&tasks[n])));
        for (n, topic) in topics.into_iter().enumerate() {
            assert!(add(&mut all, n, topic).is_none());
        }
        let wake = |all: &mut Tasks, topics: &[Topic]| {
            let mut concerned = Concerned::default();
            topics.iter().for_each(|topic| concerned.add(*topic));
            all.take(concerned).map(Wakers::wake).is_some()
        };
        assert!(wake(&mut all, &topics[1..2]));
        assert_eq!(woken(), [1, 1, 0]);
        assert!(!all.is_empty() && !wake(&mut all, &topics[1..2]), "they have been woken, and do not wait again");
        // Whoever waits for something else instead is woken for that alone.
        assert!(add(&mut all, 2, Topic::of(5)).is_some());
        let _ = wake(&mut all, &topics[2..]);
        assert_eq!(woken(), [1, 1, 0]);
        assert!(wake(&mut all, &[Topic::of(5)]));
        assert_eq!(woken(), [1, 1, 1]);
        assert!(all.is_empty() && all.take(Concerned::EVERYBODY).is_none(), "nothing is left for good");
    }
}
