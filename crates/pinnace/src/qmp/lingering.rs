//! Endpoints whose sockets are closed, and whose streams are not yet (specs/qmp.md: the engine goes on in the background).
//!
//! Always true: an endpoint is kept until all its streams that were closed have come to their ends, and the peers of those
//! that were reset have been told often enough, and not longer than [`LONGEST`] after the last of them was; a child process
//! keeps none of its parent's.

use super::Endpoint;
use crate::network::deadline;
use pinnace_runtime::OfProcess;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// After this time a peer that does not read finds its connection gone.
pub(super) const LONGEST: Duration = Duration::from_secs(60);
/// How long the end of a socket waits itself: most streams have ended then, and need nobody else.
const AT_ONCE: Duration = Duration::from_millis(20);
/// How often somebody looks after those that are kept.
const LOOK: Duration = Duration::from_millis(50);

/// What a process keeps.
#[derive(Default)]
struct Kept {
    /// The endpoints, and until when. The thread that looks after them runs while there are any.
    endpoints: Mutex<Vec<(Endpoint, Instant)>>,
    /// Streams of shared memory whose end waits for room.
    finishing: AtomicUsize,
}

/// A stream of shared memory whose end waits for room.
pub(super) struct Finishing(&'static Kept);

impl Finishing {
    pub(super) fn begin() -> Self {
        let mine = KEPT.get();
        mine.finishing.fetch_add(1, Ordering::SeqCst);
        Self(mine)
    }
}

impl Drop for Finishing {
    fn drop(&mut self) {
        self.0.finishing.fetch_sub(1, Ordering::SeqCst);
    }
}

static KEPT: OfProcess<Kept> = OfProcess::new();

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Vec<(Endpoint, Instant)>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps an endpoint, of which a stream has just been closed, until that stream has ended. One that others use, too: they may
/// let go of it sooner.
pub(super) fn keep(endpoint: Endpoint) {
    if !endpoint.inner.is_shared() {
        let _ = endpoint.inner.wait_quiet(AT_ONCE);
    }
    if !endpoint.inner.is_lingering() {
        return;
    }
    let mine = KEPT.get();
    let mut kept = mine.lock();
    let until = Instant::now() + LONGEST;
    if let Some((_, known)) = kept.iter_mut().find(|(known, _)| known.inner.is_same(&endpoint.inner)) {
        *known = until;
        return;
    }
    kept.push((endpoint, until));
    if kept.len() == 1 && thread::Builder::new().name("pinnace-linger".into()).spawn(|| look_after(mine)).is_err() {
        kept.clear();
    }
}

/// Waits until the streams of closed sockets have come to their ends, at most `timeout`: before a process ends, which ends
/// them as well. True if they all have. (A reset, too, takes a fifth of a second: it is said several times.)
///
/// ```
/// use std::time::Duration;
/// assert!(pinnace::qmp::settle(Duration::from_secs(1)), "nothing was closed");
/// ```
pub fn settle(timeout: Duration) -> bool {
    let until = deadline(timeout);
    loop {
        let mine = KEPT.get();
        if mine.lock().is_empty() && mine.finishing.load(Ordering::SeqCst) == 0 {
            return true;
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return false;
        }
        thread::sleep(LOOK / 10);
    }
}

fn look_after(mine: &Kept) {
    loop {
        thread::sleep(LOOK);
        let mut kept = mine.lock();
        let now = Instant::now();
        let (over, still): (Vec<_>, Vec<_>) =
            kept.drain(..).partition(|(endpoint, until)| *until <= now || !endpoint.inner.is_lingering());
        *kept = still;
        let is_empty = kept.is_empty();
        drop(kept);
        // Their ends may take time.
        drop(over);
        if is_empty {
            return;
        }
    }
}
