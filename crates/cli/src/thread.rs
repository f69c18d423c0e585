//! Threads of a command.

use crate::exit::Error;
use std::io;
use std::thread::{Builder, JoinHandle};

/// Begins `work` on a thread of its own, which nobody has to wait for. Fails where the system allows no more of them.
pub(crate) fn start<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>, Error> {
    Builder::new().spawn(work).map_err(|error| refused(&error))
}

/// Why there is no thread.
pub(crate) fn refused(error: &io::Error) -> Error {
    Error::failed(format!(
        "cannot start a thread: {error}; end other programs, or raise `ulimit -u` and the limit of the container (pids.max)"
    ))
}
