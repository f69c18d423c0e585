//! How many descriptors this command may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets it have as many as it may: mostly a program has few unless it asks. Returns how many these are.
pub(crate) fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
