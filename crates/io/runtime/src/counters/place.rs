//! Where counters files are.
//!
//! Always true: a process writes, and removes, only in a directory that belongs to its user and that nobody else may enter.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Names another directory, or says `off`.
pub const ENVIRONMENT: &str = "PINNACE_COUNTERS";

fn user() -> u32 {
    // SAFETY: no arguments, no failure.
    unsafe { libc::geteuid() }
}

/// The directory of this user's counters files: what the environment says ([`ENVIRONMENT`]), or else
/// `$XDG_RUNTIME_DIR/pinnace/counters`, or the same in `/run/user`, or `/dev/shm/pinnace-UID`, or that in `/tmp`. `None` if it is switched off.
pub fn directory() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(ENVIRONMENT).filter(|named| !named.is_empty()) {
        return (named != "off").then(|| PathBuf::from(named));
    }
    let of_session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let of_system = || Some(PathBuf::from(format!("/run/user/{}", user())));
    let runtime = of_session.or_else(of_system).filter(|path| path.is_dir());
    Some(match runtime {
        Some(runtime) => runtime.join("pinnace/counters"),
        None => {
            // In memory, if there is such a place: a disk that is busy must not hold up who counts.
            let memory = Path::new("/dev/shm");
            let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
            base.join(format!("pinnace-{}", user()))
        }
    })
}

/// The directories in which there may be files that this user can read: its own; for root, those of others as well, if they
/// are in the usual places.
pub fn directories() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = directory().into_iter().collect();
    let is_named = std::env::var_os(ENVIRONMENT).is_some_and(|named| !named.is_empty());
    if user() != 0 || is_named {
        return found;
    }
    let entries = |path: &str| std::fs::read_dir(path).into_iter().flatten().flatten();
    found.extend(entries("/run/user").map(|user| user.path().join("pinnace/counters")));
    let is_ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("pinnace-");
    let common = ["/dev/shm", "/tmp"].into_iter().flat_map(entries);
    found.extend(common.filter(|entry| is_ours(&entry.file_name())).map(|entry| entry.path()));
    found.sort();
    found.dedup();
    found
}

/// Whether a directory is this user's alone: no link to another one, and nobody else may put anything there.
pub(super) fn is_ours(directory: &Path) -> bool {
    std::fs::symlink_metadata(directory)
        .is_ok_and(|found| found.is_dir() && found.uid() == user() && found.mode() & 0o077 == 0)
}

/// Makes the directory, if it is not there; `None` unless it is this user's alone.
#[cfg(target_os = "linux")]
pub(super) fn prepared() -> Option<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    // SAFETY: no pointers. A program that has more rights than its user does not do what that user's environment says.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    let directory = directory()?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).ok()?;
    is_ours(&directory).then_some(directory)
}
