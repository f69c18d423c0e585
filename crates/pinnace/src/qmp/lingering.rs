//! Endpoints whose sockets are closed, and whose streams are not yet (specs/qmp.md: the engine goes on in the background).
//!
//! Always true: an endpoint is kept until all its streams have come to their ends, and not longer than [`LONGEST`].

use super::Endpoint;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// After this time a peer that does not read finds its connection gone.
const LONGEST: Duration = Duration::from_secs(60);
/// How long the end of a socket waits itself: most streams have ended then, and need nobody else.
const AT_ONCE: Duration = Duration::from_millis(20);

/// The endpoints that are kept, and until when. The thread that looks after them runs while there are any.
static KEPT: Mutex<Vec<(Endpoint, Instant)>> = Mutex::new(Vec::new());

/// Keeps an endpoint, of which a stream has just been closed, until that stream has ended. One that others use lives
/// without.
pub(super) fn keep(endpoint: Endpoint) {
    if endpoint.inner.is_shared() || endpoint.inner.wait_quiet(AT_ONCE).is_ok() {
        return;
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.push((endpoint, Instant::now() + LONGEST));
    if kept.len() == 1 && thread::Builder::new().name("pinnace-linger".into()).spawn(look_after).is_err() {
        kept.clear();
    }
}

fn look_after() {
    loop {
        thread::sleep(Duration::from_millis(50));
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let (over, still): (Vec<_>, Vec<_>) =
            kept.drain(..).partition(|(endpoint, until)| *until <= now || endpoint.inner.is_quiet());
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
