//! Waiting without the interpreter, and with an ear for Ctrl-C.
//!
//! Always true: a wait of the main thread lets the interpreter handle signals at least every few seconds, mostly four times
//! a second; other threads, to which Python delivers no signals, have the interpreter every few seconds, to give back the
//! memory that they have finished with.

use crate::{buffer, errors};
use pinnace::Error;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long the main thread waits without looking for signals.
const SLICE: Duration = Duration::from_millis(250);
/// After so many slices in a row comes a long one: the methods find out that a silent peer is gone in waits of more than
/// two seconds.
const SHORT_SLICES: u32 = 8;
const LONG_SLICE: Duration = Duration::from_millis(2250);
/// What is as good as for ever.
const EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A timeout in seconds, as Python has it; `None`: for ever.
pub(crate) fn timeout(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    if seconds.is_nan() {
        return Err(PyValueError::new_err("a timeout is a number of seconds"));
    }
    // What is negative has passed.
    Ok(Some(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(EVER)))
}

/// Whether Python delivers signals to this thread.
fn is_main_thread() -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: both take nothing and always succeed.
        unsafe { libc::gettid() == libc::getpid() }
    }
    #[cfg(not(target_os = "linux"))]
    true
}

/// Wakes a thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future without the interpreter. It is dropped if a signal is an exception.
pub(crate) fn future<R: Send>(py: Python<'_>, future: impl Future<Output = Result<R, Error>> + Send) -> PyResult<R> {
    let mut future = Box::pin(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        let polled = buffer::detached(py, || {
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_pending() {
                thread::park_timeout(SLICE);
            }
            polled
        });
        match polled {
            Poll::Ready(result) => return result.map_err(|error| errors::raise(py, &error)),
            Poll::Pending => {
                if let Err(signal) = py.check_signals() {
                    // What it has come to meanwhile may take its time to go.
                    buffer::detached(py, || drop(future));
                    return Err(signal);
                }
            }
        }
    }
}

/// Makes attempts, each for as long as it is told, until one is not a timeout. They are made without the interpreter.
pub(crate) fn attempts<R: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut attempt: impl FnMut(Duration) -> Result<R, Error> + Send,
) -> PyResult<R> {
    let begin = Instant::now();
    let mut slices = 0;
    loop {
        let left = timeout.unwrap_or(EVER).saturating_sub(begin.elapsed());
        let (result, is_sliced) = buffer::detached(py, || {
            let slice = match slices % (SHORT_SLICES + 1) {
                _ if left <= SLICE => left,
                SHORT_SLICES => LONG_SLICE.min(left),
                _ if !is_main_thread() => LONG_SLICE.min(left),
                _ => SLICE,
            };
            (attempt(slice), slice < left)
        });
        match result {
            Err(Error::Timeout) if is_sliced => py.check_signals()?,
            result => return result.map_err(|error| errors::raise(py, &error)),
        }
        slices += 1;
    }
}
