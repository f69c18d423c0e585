//! The client of this process.
//!
//! Always true: a child made by `fork` never waits for a lock that a thread of its parent held.

use super::Client;
use crate::daemon::path::Places;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often a daemon is looked for.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same, when one is there that does not answer: each look takes as long as one is patient.
const INTERVAL_OF_SILENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct State {
    client: Option<Arc<Client>>,
    /// When one is looked for again; `None`: at once.
    next_try: Option<Instant>,
}

/// The state of one process, and of the descendant that asked next.
#[derive(Debug)]
struct OfProcess {
    pid: u32,
    state: Mutex<State>,
    next: OnceLock<Box<OfProcess>>,
}

impl OfProcess {
    fn new() -> Self {
        Self { pid: std::process::id(), state: Mutex::default(), next: OnceLock::new() }
    }
}

pub(super) fn current() -> Option<Arc<Client>> {
    static FIRST: OnceLock<OfProcess> = OnceLock::new();
    let mut found = FIRST.get_or_init(OfProcess::new);
    // The last is the nearest ancestor's, or ours.
    while let Some(next) = found.next.get() {
        found = next;
    }
    if found.pid != std::process::id() {
        // Our threads may race: all get the same.
        found = found.next.get_or_init(|| Box::new(OfProcess::new()));
    }
    let mut state = found.state.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = state.client.take_if(|client| !client.is_alive()) {
        // It may have hung up for reasons of its own, and serve others.
        state.next_try = client.has_timed_out().then(|| Instant::now() + INTERVAL_OF_SILENCE);
    }
    if state.client.is_none() && state.next_try.is_none_or(|next| next <= Instant::now()) {
        let found = Client::find(&Places::of_environment());
        let is_silent = found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        let interval = if is_silent { INTERVAL_OF_SILENCE } else { INTERVAL };
        state.next_try = Some(Instant::now() + interval);
        state.client = found.ok().map(Arc::new);
    }
    state.client.clone()
}
