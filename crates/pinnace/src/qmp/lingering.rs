//! Endpoints whose sockets are closed, and whose streams are not yet (specs/qmp.md: the engine goes on in the background).
//!
//! Always true: an endpoint is kept until all its streams that were closed have come to their ends, and the peers of those
//! that were reset have been told often enough, and not longer than [`LONGEST`] after anything got through or was closed; a child
//! process keeps none of its parent's.

use super::Endpoint;
use crate::lock::lock;
use crate::network::deadline;
use pinnace_runtime::OfProcess;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// How long closed streams may stand still: afterwards a peer that does not read finds its connection gone.
pub(super) const LONGEST: Duration = Duration::from_secs(60);
/// How long the end of a socket waits itself: most streams have ended then, and need nobody else.
const AT_ONCE: Duration = Duration::from_millis(20);
/// How often somebody looks after those that are kept.
const LOOK: Duration = Duration::from_millis(50);

/// How far the closed streams of an endpoint have come.
///
/// Always true: while something of them gets through, they do not [stand still](Progress::stands_still).
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    through: u64,
    since: Instant,
}

impl Progress {
    /// They have just been closed.
    pub fn begin(now: Instant) -> Self {
        Self { through: 0, since: now }
    }

    /// Looks again: whether nothing has got through for 60 seconds, so that nobody waits for it any more. A stream that has ended
    /// counts, and what was repeated does not.
    pub fn stands_still(&mut self, endpoint: &Endpoint, now: Instant) -> bool {
        let seen = endpoint.counters();
        let sent = seen.data_packets_sent - seen.data_packets_resent;
        let through = sent + seen.contexts_closed + seen.contexts_failed;
        if through != self.through {
            *self = Self { through, since: now };
        }
        self.since + LONGEST <= now
    }
}

/// What a process keeps.
#[derive(Default)]
struct Kept {
    /// The endpoints. The thread that looks after them runs while there are any.
    endpoints: Mutex<Vec<(Endpoint, Progress)>>,
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
    fn lock(&self) -> MutexGuard<'_, Vec<(Endpoint, Progress)>> {
        lock(&self.endpoints)
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
    let progress = Progress::begin(Instant::now());
    if let Some((_, known)) = kept.iter_mut().find(|(known, _)| known.inner.is_same(&endpoint.inner)) {
        *known = progress;
        return;
    }
    kept.push((endpoint, progress));
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
        let is_over = |(endpoint, progress): &mut (Endpoint, Progress)| {
            !endpoint.inner.is_lingering() || progress.stands_still(endpoint, now)
        };
        let over: Vec<_> = kept.extract_if(.., is_over).collect();
        let is_empty = kept.is_empty();
        drop(kept);
        // Their ends may take time.
        drop(over);
        if is_empty {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qmp::{Listener, Options};

    #[test]
    fn what_goes_on_is_waited_for_and_what_stands_still_is_not() {
        let listener = Listener::bind("127.0.0.1:0", &Options::default()).unwrap();
        let endpoint = Endpoint::client_of(listener.local_addr(), &Options::default()).unwrap();
        let stream = endpoint.connect(listener.local_addr()).unwrap();
        let (peer, begun) = (listener.accept().unwrap(), Instant::now());
        let (mut progress, at) = (Progress::begin(begun), |seconds| begun + Duration::from_secs(seconds));
        for step in 1..=3 {
            assert_eq!(stream.write(b"x").unwrap(), 1);
            assert_eq!(peer.read(&mut [0]).unwrap(), 1);
            assert!(!progress.stands_still(&endpoint, at(step * 100)), "{step}");
            assert!(!progress.stands_still(&endpoint, at(step * 100 + 59)), "{step}");
        }
        assert!(progress.stands_still(&endpoint, at(360)));
    }
}
