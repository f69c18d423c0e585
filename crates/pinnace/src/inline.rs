//! Tasks that run inside `wake`, as those of some executors do. For tests.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

type Future = Pin<Box<dyn std::future::Future<Output = ()> + Send>>;

struct Task {
    is_awake: AtomicBool,
    /// `None`: it has ended.
    future: Mutex<Option<Future>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.is_awake.store(true, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self));
        // Whoever runs it now looks again.
        while self.is_awake.load(Ordering::SeqCst)
            && let Ok(mut future) = self.future.try_lock()
        {
            self.is_awake.store(false, Ordering::SeqCst);
            let is_ready = |task: &mut Future| task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
            if future.as_mut().is_some_and(is_ready) {
                *future = None;
            }
        }
    }
}

/// Does something again and again in a thread of its own, as nobody knows when what it is to find arrives.
pub(crate) fn repeat(mut work: impl FnMut() + Send + 'static) {
    std::thread::spawn(move || {
        for _ in 0..500 {
            work();
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

/// Begins, and goes on in whatever thread wakes it.
pub(crate) fn run(future: impl std::future::Future<Output = ()> + Send + 'static) {
    Arc::new(Task { is_awake: AtomicBool::new(false), future: Mutex::new(Some(Box::pin(future))) }).wake();
}
