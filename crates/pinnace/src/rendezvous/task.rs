//! What the server's thread waits for: futures of the methods, each for as long as it may take.
//!
//! Always true: a task is polled only after it was woken, or its descriptor became readable.

use super::natives::Done;
use pinnace_runtime::WakeFd;
use std::future::Future;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

/// Wakes the thread for one task.
struct Flag {
    is_awake: AtomicBool,
    thread: Arc<WakeFd>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.is_awake.store(true, Ordering::Release);
        self.thread.signal();
    }
}

/// See the [module](self).
pub(super) struct Task {
    /// Which method's socket it accepts from; `None` if it sets up one connection.
    pub(super) accepts: Option<usize>,
    /// Whose introduction it waits for, if it is one.
    pub(super) from: Option<IpAddr>,
    /// When it is given up.
    pub(super) expires: Instant,
    /// Polled as well when this is readable; negative: nothing.
    pub(super) descriptor: RawFd,
    flag: Arc<Flag>,
    future: Pin<Box<dyn Future<Output = Done> + Send>>,
}

impl Task {
    pub(super) fn new(
        thread: &Arc<WakeFd>,
        expires: Instant,
        future: impl Future<Output = Done> + Send + 'static,
    ) -> Self {
        let flag = Arc::new(Flag { is_awake: AtomicBool::new(true), thread: Arc::clone(thread) });
        Self { accepts: None, from: None, expires, descriptor: -1, flag, future: Box::pin(future) }
    }

    pub(super) fn introducing(self, host: IpAddr) -> Self {
        Self { from: Some(host), ..self }
    }

    pub(super) fn accepting(self, native: usize) -> Self {
        Self { accepts: Some(native), ..self }
    }

    pub(super) fn reading(self, descriptor: RawFd) -> Self {
        Self { descriptor, ..self }
    }

    /// Looks how it goes on, if something has happened.
    pub(super) fn poll(&mut self, is_readable: bool) -> Option<Done> {
        let is_awake = self.flag.is_awake.swap(false, Ordering::AcqRel);
        if !is_awake && !is_readable {
            return None;
        }
        let waker = Waker::from(Arc::clone(&self.flag));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }
}
