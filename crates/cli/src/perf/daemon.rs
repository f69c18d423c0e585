//! A daemon of the measurement's own, so that shared memory is measured whether or not one runs on this host.

use super::qmp::pool_options;
use crate::exit::Error;
use pinnace::daemon::{Daemon, DaemonOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use tempfile::TempDir;

/// A daemon that serves as long as this value lives.
#[derive(Debug)]
pub(crate) struct PrivateDaemon {
    daemon: Arc<Daemon>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
    path: PathBuf,
    _folder: TempDir,
}

impl PrivateDaemon {
    /// Starts one in whose pool messages of this size find room.
    pub(crate) fn start(size: usize) -> Result<Self, Error> {
        let failed = |error| Error::io("cannot start a daemon", &error);
        let folder = tempfile::tempdir().map_err(failed)?;
        let path = folder.path().join("daemon.sock");
        let pool = pool_options(size);
        let options = DaemonOptions { socket: Some(path.clone()), pool, ..DaemonOptions::default() };
        let daemon = Arc::new(Daemon::bind(&options).map_err(failed)?);
        let serving = Arc::clone(&daemon);
        let thread = std::thread::Builder::new().name("daemon".into()).spawn(move || serving.run()).map_err(failed)?;
        Ok(Self { daemon, thread: Some(thread), path, _folder: folder })
    }

    /// The socket at which it serves.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateDaemon {
    fn drop(&mut self) {
        self.daemon.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
