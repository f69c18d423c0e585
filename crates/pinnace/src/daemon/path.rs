//! Where a daemon's socket is.

use std::ffi::OsStr;
use std::path::PathBuf;

/// Names the socket of the daemon to use, or says `off`.
pub const ENVIRONMENT: &str = "PINNACE_DAEMON";

const OF_SYSTEM: &str = "/run/pinnace/daemon.sock";

fn of_user() -> Option<PathBuf> {
    let directory = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    directory.is_absolute().then(|| directory.join("pinnace/daemon.sock"))
}

/// What the environment says.
fn named() -> Option<PathBuf> {
    std::env::var_os(ENVIRONMENT).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Where a daemon serves that is not told: what the environment says, or else the user's runtime directory, or else `/run`.
pub fn default_path() -> PathBuf {
    named().filter(|path| path != OsStr::new("off")).or_else(of_user).unwrap_or_else(|| OF_SYSTEM.into())
}

/// Where a client looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Places {
    /// Nowhere: it was switched off.
    Off,
    /// Where the user says, whoever serves there.
    Named(PathBuf),
    /// In the usual places, if this user or root serves there.
    Usual(Vec<PathBuf>),
}

impl Places {
    pub(super) fn of_environment() -> Self {
        match named() {
            Some(path) if path == OsStr::new("off") => Self::Off,
            Some(path) => Self::Named(path),
            None => Self::Usual(of_user().into_iter().chain([OF_SYSTEM.into()]).collect()),
        }
    }
}
