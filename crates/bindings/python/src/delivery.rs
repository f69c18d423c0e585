//! Messages on their way out.

use crate::asyncio::{Operation, Outcome, Reactor};
use crate::process::Owned;
use crate::received::{Loss, slices};
use crate::{buffer, errors, wait};
use pinnace::{Error, vrp};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// A message on its way, which several may wait for.
///
/// Always true: the lock is held for moments alone, and nothing of Python's is run meanwhile, which may give the interpreter to
/// a thread that waits for the lock. Who waits takes the message out meanwhile.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    given_back: Condvar,
    tasks: Arc<Tasks>,
}

#[derive(Debug)]
enum State {
    UnderWay(pinnace::Delivery),
    Ended(Arc<Result<Option<vrp::Report>, Error>>),
    /// A thread waits for it; the tasks are told when it does no more.
    Taken,
}

/// The tasks that wait for a message, which itself tells one waker alone: all of them. Each looks for itself then.
#[derive(Debug, Default)]
struct Tasks {
    waiting: Mutex<Vec<(u64, Waker)>>,
    numbers: AtomicU64,
}

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Waker)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, number: u64, waker: &Waker) {
        let mut waiting = self.lock();
        match waiting.iter_mut().find(|(other, _)| *other == number) {
            Some((_, before)) => before.clone_from(waker),
            None => waiting.push((number, waker.clone())),
        }
    }

    fn remove(&self, number: u64) {
        self.lock().retain(|(other, _)| *other != number);
    }
}

impl Wake for Tasks {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let waiting = std::mem::take(&mut *self.lock());
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// A task's wait for a message.
struct Arrival {
    shared: Arc<Shared>,
    number: u64,
}

impl Future for Arrival {
    type Output = Arc<Shared>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Before the look: what happens meanwhile is told.
        self.shared.tasks.add(self.number, context.waker());
        let polled = self.shared.poll().map(|()| Arc::clone(&self.shared));
        if polled.is_ready() {
            // The others look next.
            self.shared.tasks.remove(self.number);
            self.shared.tasks.wake_by_ref();
        }
        polled
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.shared.tasks.remove(self.number);
    }
}

impl State {
    fn of(result: Result<pinnace::Delivered, pinnace::Unsent>) -> Self {
        Self::Ended(Arc::new(result.map(|delivered| delivered.report).map_err(Error::from)))
    }
}

impl Shared {
    pub(crate) fn new(delivery: pinnace::Delivery) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::UnderWay(delivery)),
            given_back: Condvar::new(),
            tasks: Arc::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has ended: with its memory the program's again. If not, the tasks are told.
    fn poll(&self) -> Poll<()> {
        let mut state = self.lock();
        match &mut *state {
            State::UnderWay(delivery) => {
                let waker = Waker::from(Arc::clone(&self.tasks));
                let Poll::Ready(result) = Pin::new(delivery).poll(&mut Context::from_waker(&waker)) else {
                    return Poll::Pending;
                };
                *state = State::of(result);
            }
            State::Taken => return Poll::Pending,
            State::Ended(_) => {}
        }
        Poll::Ready(())
    }

    fn arrival(self: Arc<Self>) -> Arrival {
        let number = self.tasks.numbers.fetch_add(1, Ordering::Relaxed);
        Arrival { shared: self, number }
    }

    fn wait(&self, timeout: Duration) -> Result<(), Error> {
        use pinnace::zcrp::Progress;
        let begin = Instant::now();
        let is_taken = |state: &mut State| matches!(state, State::Taken);
        let waited = self.given_back.wait_timeout_while(self.lock(), timeout, is_taken);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        match &*state {
            State::Taken => return Err(Error::Timeout),
            State::Ended(_) => return Ok(()),
            State::UnderWay(_) => {}
        }
        let State::UnderWay(delivery) = std::mem::replace(&mut *state, State::Taken) else { return Ok(()) };
        drop(state);
        let (after, result) = match delivery.wait_timeout(timeout.saturating_sub(begin.elapsed())) {
            Progress::UnderWay(delivery) => (State::UnderWay(delivery), Err(Error::Timeout)),
            Progress::Ended(result) => (State::of(result), Ok(())),
        };
        *self.lock() = after;
        self.given_back.notify_all();
        // Also those that had looked before it was taken: the message may have forgotten them meanwhile.
        self.tasks.wake_by_ref();
        result
    }

    /// What has come of it, once it has ended.
    pub(crate) fn outcome(&self, py: Python<'_>) -> PyResult<Delivered> {
        let ended = match &*self.lock() {
            State::Ended(ended) => Some(Arc::clone(ended)),
            State::UnderWay(_) | State::Taken => None,
        };
        match ended.as_deref().unwrap_or(&Err(Error::Timeout)) {
            Ok(report) => Ok(Delivered::of(report.as_ref())),
            Err(error) => Err(errors::raise(py, error)),
        }
    }
}

/// A message that has arrived, and what was lost of it, with permission, as the receiver reports it.
#[pyclass(module = "pinnace", frozen)]
#[derive(Debug)]
pub(crate) struct Delivered {
    holes: Vec<Range<usize>>,
    loss: Option<Loss>,
}

impl Delivered {
    fn of(report: Option<&vrp::Report>) -> Self {
        let holes = report.map_or(Vec::new(), |report| report.holes().to_vec());
        Self { holes, loss: report.map(|report| Loss::of(report)) }
    }
}

#[pymethods]
impl Delivered {
    /// What was lost: a list of slices in rising order.
    #[getter]
    fn holes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        slices(py, &self.holes)
    }

    /// What was lost in packets, of methods that count so; otherwise `None`.
    #[getter]
    fn loss(&self) -> Option<Loss> {
        self.loss.clone()
    }

    /// Whether nothing was lost.
    #[getter]
    fn is_whole(&self) -> bool {
        self.loss.as_ref().is_none_or(Loss::is_none)
    }

    fn __repr__(&self) -> String {
        match &self.loss {
            Some(loss) if !loss.is_none() => format!("<pinnace.Delivered: {loss}>"),
            _ => "<pinnace.Delivered: whole>".to_owned(),
        }
    }
}

/// A message on its way out: `wait()` for it, or `await` it in a task; or drop it, and the message goes on.
///
/// >>> import pinnace
/// >>> listener = pinnace.listen("127.0.0.1:0")
/// >>> connection = pinnace.connect(listener.address)
/// >>> deliveries = [connection.send(bytes(10_000)) for _ in range(5)]
/// >>> receiver = listener.accept()
/// >>> sum(len(receiver.recv()) for _ in deliveries)
/// 50000
/// >>> all(delivery.wait().is_whole for delivery in deliveries)
/// True
#[pyclass(module = "pinnace", frozen)]
#[derive(Debug)]
pub(crate) struct Delivery(Owned<Arc<Shared>>);

impl Delivery {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(Owned::new(shared))
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let shared = self.0.take();
        Python::try_attach(|py| buffer::detached(py, || drop(shared)));
    }
}

#[pymethods]
impl Delivery {
    /// Waits until the message has arrived, at most `timeout` seconds: all of it, but for what may be lost, is in the peer's
    /// memory. The memory of the message is the program's again. May be asked again.
    ///
    /// Raises `TimeoutError`, and then the message goes on; `DeliveryError` or `LostError` if it does not arrive.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Delivered> {
        let (shared, timeout) = (self.0.get(py)?, wait::timeout(timeout)?);
        wait::attempts(py, timeout, |slice| shared.wait(slice))?;
        shared.outcome(py)
    }

    /// Whether it has ended, well or not. Does not wait.
    #[getter]
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        let shared = self.0.get(py)?;
        Ok(buffer::detached(py, || shared.wait(Duration::ZERO).is_ok()))
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pinnace.aio")?.getattr("_delivered")?.call1((slf,))?.call_method0("__await__")
    }

    /// For `pinnace.aio`: what has come of it, or an operation that ends with that.
    fn _wait(&self, py: Python<'_>, reactor: &Bound<'_, Reactor>) -> PyResult<Py<PyAny>> {
        let arrival = Arc::clone(self.0.get(py)?).arrival();
        Operation::begin(py, reactor, async move { Outcome::Delivered(arrival.await) })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let is_done = self.done(py);
        let state = is_done.map_or("of another process", |is_done| if is_done { "ended" } else { "under way" });
        format!("<pinnace.Delivery: {state}>")
    }
}
