//! The client of this process.
//!
//! Always true: a child made by `fork` never waits for a lock that a thread of its parent held.

use super::Client;
use crate::daemon::path::Places;
use crate::lock::lock;
use pinnace_runtime::OfProcess;
use std::io;
use std::sync::{Arc, Mutex};
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

pub(super) fn current() -> Option<Arc<Client>> {
    static STATE: OfProcess<Mutex<State>> = OfProcess::new();
    let mut state = lock(STATE.get());
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
