//! Sending: which method leads to an endpoint, and the ways that are open already.
//!
//! Always true: a request is handed to one method only. Another is tried only as long as nothing was sent, so a handler
//! never runs twice; at most [`MOST_WAYS_KEPT`] ways are kept; a way is closed, which may take its time and is a method's own
//! doing, when nothing is locked.

use super::error::{Attempt, Error, Obstacle};
use super::local::Local;
use super::method::{Method, Outgoing, Pending, Sent};
use super::startpoint::{Startpoint, Way};
use super::unified::Unified;
use super::vrp::Vrp;
use super::zcrp::Zcrp;
use super::{Buffer, Cause};
use crate::lock::lock;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Ways that a context keeps; the one that was not used for longest makes room for another.
const MOST_WAYS_KEPT: usize = 1024;

/// A way whose probe has failed is not tried again for so long, or for so many times what the probe took.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
const PROBE_PAUSES: u32 = 5;

/// The methods that a program has, and the ways that it has opened. Clones are the same context.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    methods: Vec<Arc<dyn Method>>,
    ways: Mutex<Ways>,
}

#[derive(Default)]
struct Ways {
    slots: BTreeMap<Way, Slot>,
    uses: u64,
}

#[derive(Clone)]
struct Slot {
    /// Locked while the way is opened, which may take long.
    state: Arc<Mutex<State>>,
    used: u64,
}

enum State {
    Unknown,
    Open(Arc<dyn Outgoing>),
    Down { until: Instant, cause: Cause },
}

impl Default for Context {
    /// With every method of this library: `local`, `vrp`, `zcrp`, `pinnace`.
    fn default() -> Self {
        Self::with_methods(vec![
            Arc::new(Local::of_process()),
            Arc::new(Vrp::default()),
            Arc::new(Zcrp::default()),
            Arc::new(Unified::default()),
        ])
    }
}

impl Context {
    /// The one that [`send_rsr`](super::send_rsr) uses, and endpoints that name no other.
    pub fn of_process() -> Self {
        static SHARED: OnceLock<Context> = OnceLock::new();
        SHARED.get_or_init(Self::default).clone()
    }

    /// A context with these methods. Of two with one name the first counts. An endpoint that is told nothing else
    /// listens by all of them, and prefers them in this order.
    pub fn with_methods(methods: Vec<Arc<dyn Method>>) -> Self {
        Self { inner: Arc::new(Inner { methods, ways: Mutex::default() }) }
    }

    /// The methods.
    pub fn methods(&self) -> &[Arc<dyn Method>] {
        &self.inner.methods
    }

    pub(super) fn method(&self, name: &str) -> Option<&Arc<dyn Method>> {
        self.inner.methods.iter().find(|method| method.name() == name)
    }

    /// Runs a handler of the endpoint with what the buffer holds: waits until the request is there, not until the handler
    /// has run.
    ///
    /// The first method is taken that the startpoint lists, this process has, and whose probe does not fail.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if there is none: nothing was sent. [`Error::Failed`] if the request may not have arrived.
    /// [`Error::TooLarge`] if more was put into the buffer than a request may have.
    pub fn send(&self, startpoint: &Startpoint, handler: u16, buffer: &mut Buffer) -> Result<Delivered, Error> {
        self.begin(startpoint, handler, buffer)?.wait()
    }

    /// Begins to send, as [`Context::send`] does, and returns as soon as the method has taken the request. The buffer can
    /// be changed at once; that copies it, if the request is still under way.
    ///
    /// # Errors
    /// As [`Context::send`]; [`Error::Failed`] comes from [`Sending::wait`].
    pub fn begin(&self, startpoint: &Startpoint, handler: u16, buffer: &mut Buffer) -> Result<Sending, Error> {
        let parcel = buffer.parcel(handler, startpoint.id()).ok_or(Error::TooLarge)?;
        let mut attempts = Vec::new();
        for way in startpoint.ways() {
            let obstacle = match self.open(way) {
                Ok(outgoing) => match outgoing.send(parcel.clone()) {
                    Ok(pending) => return Ok(Sending { context: self.clone(), way: way.clone(), outgoing, pending }),
                    Err(cause) => {
                        self.forget(way, &outgoing);
                        Obstacle::Failed(cause)
                    }
                },
                Err(obstacle) => obstacle,
            };
            attempts.push(attempt(way, obstacle));
        }
        Err(Error::Unreachable(attempts))
    }

    /// The method that a request to the startpoint would go by now.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if there is none.
    pub fn choose<'a>(&self, startpoint: &'a Startpoint) -> Result<&'a Way, Error> {
        let mut attempts = Vec::new();
        for way in startpoint.ways() {
            match self.open(way) {
                Ok(_) => return Ok(way),
                Err(obstacle) => attempts.push(attempt(way, obstacle)),
            }
        }
        Err(Error::Unreachable(attempts))
    }

    /// Closes every way that is open, once nothing is under way on it, and forgets which have failed.
    pub fn disconnect(&self) {
        let ways = std::mem::take(&mut *lock(&self.inner.ways));
        drop(ways);
    }

    fn slot(&self, way: &Way) -> Arc<Mutex<State>> {
        let mut ways = lock(&self.inner.ways);
        ways.uses += 1;
        let used = ways.uses;
        let mut oldest = None;
        if !ways.slots.contains_key(way) && ways.slots.len() >= MOST_WAYS_KEPT {
            let unused = ways.slots.iter().min_by_key(|(_, slot)| slot.used).map(|(way, _)| way.clone());
            // What is under way holds the way open.
            oldest = unused.and_then(|unused| ways.slots.remove(&unused));
        }
        let fresh = || Slot { state: Arc::new(Mutex::new(State::Unknown)), used };
        let slot = ways.slots.entry(way.clone()).or_insert_with(fresh);
        slot.used = used;
        let state = slot.state.clone();
        drop(ways);
        drop(oldest);
        state
    }

    fn open(&self, way: &Way) -> Result<Arc<dyn Outgoing>, Obstacle> {
        let method = self.method(way.method()).ok_or(Obstacle::Unsupported)?;
        let slot = self.slot(way);
        let mut state = lock(&slot);
        match &*state {
            State::Open(outgoing) if outgoing.is_usable() => return Ok(outgoing.clone()),
            State::Down { until, cause } if Instant::now() < *until => {
                return Err(Obstacle::FailedBefore(cause.clone()));
            }
            State::Unknown | State::Open(_) | State::Down { .. } => {}
        }
        let before = Instant::now();
        let (opened, found) = match method.connect(way.address(), way.options()) {
            Ok(outgoing) => (State::Open(outgoing.clone()), Ok(outgoing)),
            Err(cause) => {
                let pause = PROBE_PAUSE.max(before.elapsed() * PROBE_PAUSES);
                (State::Down { until: Instant::now() + pause, cause: cause.clone() }, Err(Obstacle::Failed(cause)))
            }
        };
        let old = std::mem::replace(&mut *state, opened);
        drop(state);
        drop(old);
        found
    }

    /// The way is opened anew for the next request.
    fn forget(&self, way: &Way, failed: &Arc<dyn Outgoing>) {
        let slot = self.slot(way);
        let mut state = lock(&slot);
        let same = matches!(&*state, State::Open(outgoing) if Arc::ptr_eq(outgoing, failed));
        if same {
            *state = State::Unknown;
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.inner.methods.iter().map(|method| method.name()).collect();
        f.debug_struct("Context").field("methods", &names).finish_non_exhaustive()
    }
}

fn attempt(way: &Way, obstacle: Obstacle) -> Attempt {
    Attempt { method: way.method().to_owned(), address: way.address().to_owned(), obstacle }
}

/// A request under way. Dropping it lets the request go on.
pub struct Sending {
    context: Context,
    way: Way,
    outgoing: Arc<dyn Outgoing>,
    pending: Box<dyn Pending>,
}

impl Sending {
    /// How it goes.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// Waits until the request is there.
    ///
    /// # Errors
    /// [`Error::Failed`] if it is not known to have arrived.
    pub fn wait(self) -> Result<Delivered, Error> {
        match self.pending.wait() {
            Ok(sent) => Ok(Delivered { way: self.way, sent }),
            Err(cause) => {
                self.context.forget(&self.way, &self.outgoing);
                Err(Error::Failed(attempt(&self.way, Obstacle::Failed(cause))))
            }
        }
    }
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").field("way", &self.way).finish_non_exhaustive()
    }
}

/// A request that has arrived.
#[derive(Clone, Debug)]
pub struct Delivered {
    way: Way,
    sent: Sent,
}

impl Delivered {
    /// How it went.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// Bytes of the payload that the method knows were lost.
    pub fn lost(&self) -> Vec<std::ops::Range<u64>> {
        let header = super::header::HEADER_BYTES as u64;
        let payload =
            |range: &std::ops::Range<u64>| range.start.saturating_sub(header)..range.end.saturating_sub(header);
        self.sent.lost.iter().map(payload).filter(|range| !range.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::method::{Incoming, Parcel, Sink};
    use super::*;
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    /// A method of whose ways the first that is closed looks for one of the context's.
    #[derive(Default)]
    struct Looking {
        context: OnceLock<Context>,
        has_looked: Arc<AtomicBool>,
    }

    struct Open {
        context: Context,
        has_looked: Arc<AtomicBool>,
    }

    impl Drop for Open {
        fn drop(&mut self) {
            if !self.has_looked.swap(true, Ordering::Relaxed) {
                choose(&self.context, 0);
            }
        }
    }

    impl Outgoing for Open {
        fn send(&self, _: Parcel) -> Result<Box<dyn Pending>, Cause> {
            Err(io::Error::from(io::ErrorKind::Unsupported).into())
        }

        fn is_usable(&self) -> bool {
            false
        }
    }

    impl Method for Looking {
        fn name(&self) -> &str {
            "looking"
        }

        fn connect(&self, _: &str, _: &str) -> Result<Arc<dyn Outgoing>, Cause> {
            let context = self.context.get().ok_or(io::Error::from(io::ErrorKind::NotConnected))?.clone();
            Ok(Arc::new(Open { context, has_looked: self.has_looked.clone() }))
        }

        fn listen(&self, _: &str, _: Sink) -> Result<Box<dyn Incoming>, Cause> {
            Err(io::Error::from(io::ErrorKind::Unsupported).into())
        }
    }

    fn to(address: &str) -> Startpoint {
        Startpoint::new(vec![Way::new("looking", address, "").unwrap()], None).unwrap()
    }

    fn choose(context: &Context, address: usize) {
        context.choose(&to(&address.to_string())).unwrap();
    }

    /// Whether that ends, and a way was closed.
    fn ends(act: impl FnOnce(&Context) + Send + 'static) -> bool {
        let method = Arc::new(Looking::default());
        let context = Context::with_methods(vec![method.clone()]);
        method.context.set(context.clone()).unwrap();
        let (ended, ends) = mpsc::channel();
        std::thread::spawn(move || {
            act(&context);
            ended.send(method.has_looked.load(Ordering::Relaxed))
        });
        ends.recv_timeout(Duration::from_secs(20)) == Ok(true)
    }

    #[test]
    fn a_way_that_makes_room_is_closed_when_nothing_is_locked() {
        assert!(ends(|context| (0..=MOST_WAYS_KEPT).for_each(|address| choose(context, address))));
    }

    #[test]
    fn a_way_that_is_opened_anew_is_closed_when_nothing_is_locked() {
        assert!(ends(|context| (0..2).for_each(|_| choose(context, 0))));
    }

    #[test]
    fn ways_are_closed_together_when_nothing_is_locked_and_opened_anew() {
        assert!(ends(|context| {
            (0..3).for_each(|address| choose(context, address));
            context.disconnect();
        }));
    }
}
