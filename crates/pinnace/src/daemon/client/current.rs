//! The client of this process.
//!
//! Always true: a child made by `fork` never waits for a lock that a thread of its parent held.

use super::Client;
use crate::daemon::path::Places;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often a daemon is looked for.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct State {
    client: Option<Arc<Client>>,
    tried: Option<Instant>,
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
        // Outside the lock nothing waits for this; inside, little.
        drop(client);
        state.tried = None;
    }
    if state.client.is_none() && state.tried.is_none_or(|tried| tried.elapsed() >= INTERVAL) {
        state.client = Client::find(&Places::of_environment()).ok().map(Arc::new);
        state.tried = Some(Instant::now());
    }
    state.client.clone()
}
