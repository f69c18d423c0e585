//! The library's futures in Python's event loops: a descriptor a loop, readable when a future may have come further.
//!
//! Always true: a future is polled by the loop's thread alone, without the interpreter, and only by the task that waits for
//! it, when that has its turn: what has been done is known to whoever wanted it, or has not been done, so that nothing is lost
//! where a task is cancelled in the turn in which it would have ended. A thread of the library that wakes a future queues it,
//! and signals the descriptor if nothing was queued; what is cancelled, or nobody has any more, is dropped at once. What only
//! threads can do has one of its own, which needs no interpreter and is not waited for.

use crate::connection::{self, Connection};
use crate::delivery::{Delivery, Shared as SharedDelivery};
use crate::endpoint::{self, Listener};
use crate::process::Owned;
use crate::{buffer, errors};
use pinnace::{Endpoint, Error};
use pinnace_runtime::WakeFd;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{IntoPyObjectExt, PyTraverseError, PyVisit};
use std::fmt;
use std::future::poll_fn;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

/// What has come of a future.
// It is moved twice, which costs less than a box.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Outcome {
    Received(Result<Option<pinnace::Received>, Error>),
    Connected(Box<Result<pinnace::Connection, Error>>),
    Sent(Result<pinnace::Delivery, Error>),
    Delivered(Arc<SharedDelivery>),
    Done(Result<(), Error>),
}

impl Outcome {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Received(result) => connection::of_task(py, result),
            Self::Connected(result) => {
                let connection = result.map_err(|error| errors::raise(py, &error))?;
                Connection::new(connection).into_py_any(py)
            }
            Self::Sent(result) => {
                let delivery = result.map_err(|error| errors::raise(py, &error))?;
                Delivery::new(SharedDelivery::new(delivery)).into_py_any(py)
            }
            Self::Delivered(delivery) => delivery.outcome(py)?.into_py_any(py),
            Self::Done(result) => result.map_err(|error| errors::raise(py, &error))?.into_py_any(py),
        }
    }
}

/// What may have come further.
struct Queue {
    wake: WakeFd,
    /// `None` once nobody watches any more: who is in it has it.
    ready: Mutex<Option<Vec<Arc<Task>>>>,
}

type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A future.
struct Task {
    queue: Arc<Queue>,
    is_queued: AtomicBool,
    /// `None` once it has ended, or was cancelled.
    work: Mutex<Option<Work>>,
    /// What the task waits for that is to poll this.
    promise: Mutex<Option<Py<PyAny>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let queue = Arc::clone(&self.queue);
        let was_empty = {
            let mut ready = lock(&queue.ready);
            let Some(ready) = &mut *ready else { return };
            ready.push(self);
            ready.len() == 1
        };
        if was_empty {
            queue.wake.signal();
        }
    }
}

impl Task {
    fn poll(self: &Arc<Self>) -> Option<Outcome> {
        self.is_queued.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(self));
        let mut work = lock(&self.work);
        let Poll::Ready(outcome) = work.as_mut()?.as_mut().poll(&mut Context::from_waker(&waker)) else { return None };
        *work = None;
        Some(outcome)
    }

    /// Nobody waits any more.
    fn cancel(&self, py: Python<'_>) {
        // Without the locks: that may run Python's code, and take its time.
        let promise = lock(&self.promise).take();
        drop(promise);
        let work = lock(&self.work).take();
        if work.is_some() {
            buffer::detached(py, || drop(work));
        }
    }
}

/// What a call comes to that only threads can make: a future that waits for it. The call is begun at once, and goes on if
/// the future is dropped; nobody joins its thread, so that a loop, or the process, can end before it.
pub(crate) fn on_a_thread(
    call: impl FnOnce() -> Result<(), Error> + Send + 'static,
) -> impl Future<Output = Outcome> + Send + 'static {
    #[derive(Default)]
    struct Called {
        result: Option<Result<(), Error>>,
        waker: Option<Waker>,
    }
    let called = Arc::new(Mutex::new(Called::default()));
    let end = {
        let called = Arc::clone(&called);
        move |result| {
            let mut called = lock(&called);
            called.result = Some(result);
            called.waker.take()
        }
    };
    let failed = end.clone();
    let thread = thread::Builder::new().name("pinnace-call".to_owned()).spawn(move || {
        if let Some(waker) = end(call()) {
            waker.wake();
        }
    });
    if let Err(source) = thread {
        failed(Err(Error::Io { action: "cannot start a thread".to_owned(), source }));
    }
    poll_fn(move |context| {
        let mut called = lock(&called);
        called.waker = Some(context.waker().clone());
        called.result.take().map_or(Poll::Pending, |result| Poll::Ready(Outcome::Done(result)))
    })
}

/// What an event loop watches on behalf of the library.
#[pyclass(module = "pinnace._pinnace", frozen)]
pub(crate) struct Reactor(Owned<Arc<Queue>>);

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").finish_non_exhaustive()
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        let Some(queue) = self.0.take() else { return };
        // What is queued has the queue itself, with its descriptor.
        let ready = lock(&queue.ready).take();
        drop(ready);
    }
}

#[pymethods]
impl Reactor {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let failed = |source| Error::Io { action: "cannot watch for what comes".to_owned(), source };
        let wake = WakeFd::new().map_err(|error| errors::raise(py, &failed(error)))?;
        Ok(Self(Owned::new(Arc::new(Queue { wake, ready: Mutex::new(Some(Vec::new())) }))))
    }

    /// The descriptor to watch.
    fn fileno(&self) -> i32 {
        self.0.seen().wake.as_fd().as_raw_fd()
    }

    /// Gives those their turn whose operations may have come further. To be called when the descriptor is readable.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        let queue = self.0.get(py)?;
        let ready = py.detach(|| {
            queue.wake.clear();
            lock(&queue.ready).as_mut().map(std::mem::take).unwrap_or_default()
        });
        for task in ready {
            let Some(promise) = lock(&task.promise).take() else { continue };
            let promise = promise.bind(py);
            if !promise.call_method0(intern!(py, "done"))?.is_truthy()? {
                promise.call_method1(intern!(py, "set_result"), (py.None(),))?;
            }
        }
        Ok(())
    }

    /// Connects, as `pinnace.connect` does.
    #[pyo3(signature = (peer, service = None, settings = None))]
    fn connect(
        slf: &Bound<'_, Self>,
        peer: &Bound<'_, PyAny>,
        service: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let (peer, service, options) = endpoint::target(peer, service, settings)?;
        let future = async move {
            let endpoint = Endpoint::client_with(&options);
            Outcome::Connected(Box::new(endpoint.connect_async(&peer, &service).await))
        };
        Operation::begin(slf.py(), slf, future)
    }

    /// Connects to several, as `pinnace.connect_all` does.
    #[pyo3(signature = (peers, service = None, settings = None))]
    fn connect_all(
        slf: &Bound<'_, Self>,
        peers: &Bound<'_, PyAny>,
        service: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let (peers, service, options) = endpoint::targets(peers, service, settings)?;
        let future = async move {
            let endpoint = Endpoint::client_with(&options);
            Outcome::Connected(Box::new(endpoint.connect_all_async(&peers, &service).await))
        };
        Operation::begin(slf.py(), slf, future)
    }

    /// Waits for the next connection of a listener.
    fn accept(slf: &Bound<'_, Self>, listener: &Bound<'_, Listener>) -> PyResult<Py<PyAny>> {
        let listener = listener.get().get(slf.py())?;
        let future = async move { Outcome::Connected(Box::new(listener.accept_async().await)) };
        Operation::begin(slf.py(), slf, future)
    }
}

/// Something that has not ended. Whoever waits for it looks again when the future ends that it was given.
#[pyclass(module = "pinnace._pinnace", frozen)]
pub(crate) struct Operation(Owned<Arc<Task>>);

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").finish_non_exhaustive()
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        // What is waited for has the waker, and that the work, with its connection: they would be there for ever.
        let Some(task) = self.0.take() else { return };
        Python::try_attach(|py| task.cancel(py));
    }
}

impl Operation {
    /// What a future ends with, if it ends at once; otherwise the operation.
    pub(crate) fn begin(
        py: Python<'_>,
        reactor: &Bound<'_, Reactor>,
        future: impl Future<Output = Outcome> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let queue = Arc::clone(reactor.get().0.get(py)?);
        let (task, outcome) = buffer::detached(py, || {
            let work: Mutex<Option<Work>> = Mutex::new(Some(Box::pin(future)));
            let task = Task { queue, is_queued: AtomicBool::new(false), work, promise: Mutex::new(None) };
            let task = Arc::new(task);
            let outcome = task.poll();
            (task, outcome)
        });
        match outcome {
            Some(outcome) => outcome.into_python(py),
            None => Self(Owned::new(task)).into_py_any(py),
        }
    }
}

#[pymethods]
impl Operation {
    /// Says which future of the loop's is to end when this may have come further.
    fn wakes(&self, py: Python<'_>, future: Py<PyAny>) -> PyResult<()> {
        // What it replaces is dropped when the lock is not held any more: that may run Python's code.
        let before = lock(&self.0.get(py)?.promise).replace(future);
        drop(before);
        Ok(())
    }

    /// What it has ended with; itself, if it has not.
    fn look(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let task = slf.get().0.get(py)?;
        match buffer::detached(py, || task.poll()) {
            Some(outcome) => outcome.into_python(py),
            None => slf.into_py_any(py),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Nobody has the lock, but in a child: whoever takes it has the interpreter.
        if let Ok(promise) = self.0.seen().promise.try_lock()
            && let Some(future) = &*promise
        {
            visit.call(future)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        let promise = self.0.seen().promise.try_lock().ok().and_then(|mut promise| promise.take());
        drop(promise);
    }

    /// Nobody waits any more; also in a child, where nobody has waited.
    fn cancel(&self, py: Python<'_>) {
        if let Ok(task) = self.0.get(py) {
            task.cancel(py);
        }
    }
}
