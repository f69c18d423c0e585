//! Processes of this demo: runs of the same program.
//!
//! Always true: a [`Child`] that is dropped has ended. It is asked first (SIGINT), so that it can end its own processes and
//! remove its files, and killed if it does not.

use crate::exit::Error;
use crate::interrupt;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(5);
/// For a process that was asked to end.
const GRACE: Duration = Duration::from_secs(2);

/// A running process. What it says goes to two files.
#[derive(Debug)]
pub(super) struct Child {
    child: std::process::Child,
    name: String,
    said: PathBuf,
    complained: PathBuf,
}

impl Child {
    /// Starts `pinnace` with these arguments; `folder` takes what it says.
    pub(super) fn start(folder: &Path, name: &str, arguments: &[&str]) -> Result<Self, Error> {
        let program = std::env::current_exe().map_err(|error| Error::io("cannot find my own program", &error))?;
        Self::run(Command::new(program), folder, name, arguments)
    }

    /// As [`Child::start`], by a command that runs `pinnace` somewhere.
    pub(super) fn run(mut command: Command, folder: &Path, name: &str, arguments: &[&str]) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::io(format!("cannot start pinnace {name}"), &error);
        let (said, complained) = (folder.join(format!("{name}.out")), folder.join(format!("{name}.err")));
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(File::create(&said).map_err(failed)?)
            .stderr(File::create(&complained).map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        Ok(Self { child, name: name.to_owned(), said, complained })
    }

    /// What it has written to standard output.
    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// How it ended; `None` if it has not after `limit`, or the user wants to end.
    pub(super) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline && !interrupt::requested() => sleep(STEP),
                _ => return None,
            }
        }
    }

    /// Waits until it has ended well.
    pub(super) fn succeed(&mut self, limit: Duration) -> Result<(), Error> {
        let status = self.wait(limit);
        interrupt::check()?;
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.failure(&format!("ended with {status}"))),
            None => Err(self.failure(&format!("was not done after {} s", limit.as_secs()))),
        }
    }

    /// An error about this process, with the last thing that it said.
    pub(super) fn failure(&self, what: &str) -> Error {
        let complaints = std::fs::read_to_string(&self.complained).unwrap_or_default();
        let last = complaints.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("and said nothing");
        Error::failed(format!("pinnace {} {what}: {last}", self.name))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::INT);
            }
            let deadline = Instant::now() + GRACE;
            while let (Ok(None), true) = (self.child.try_wait(), Instant::now() < deadline) {
                sleep(STEP);
            }
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
