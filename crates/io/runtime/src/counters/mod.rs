//! The counters file: what a process does, for others to see, as long as it lives.
//!
//! Each process that has a row to show keeps a file, named after its process number, in a directory of its user's
//! ([`directory`]). It has a header and a table of rows of one size (`layout.rs`): a row for each endpoint that drives an
//! engine ([`Endpoint::publish`](crate::Endpoint::publish)), and one for whatever the layers above want to show. Whoever
//! reads it ([`processes`]) costs the writer nothing.
//!
//! Always true:
//! - no thread and no timer is there for it: an endpoint's row is written by the thread that drives, at most every
//!   [`PERIOD`] of its own activity (sooner, if it is about to sleep), and deciding that is one comparison of a clock that
//!   was read anyway;
//! - what a row says of an endpoint belongs to one moment: a reader that meets a change half-way looks again;
//! - a file without its process is nothing: the system drops its lock when the process ends, however it does, and whoever
//!   comes next removes it;
//! - where there can be no file, there is none, and nothing else changes.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "files are written on Linux alone, and read there"))]

mod layout;
mod place;
mod reader;
#[cfg(target_os = "linux")]
mod region;
#[cfg(not(target_os = "linux"))]
#[path = "nowhere.rs"]
mod region;

pub use layout::{Kind, Numbers};
pub use place::{ENVIRONMENT, directories, directory};
pub use reader::{Entry, Process, parse, processes, read};
pub use region::Row;

use std::time::Duration;

/// How often a row is written, at most.
pub const PERIOD: Duration = Duration::from_millis(100);
/// How often it is, at most, by threads that are about to sleep.
pub(crate) const PERIOD_ASLEEP: Duration = Duration::from_millis(1);

/// What a row is about, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels<'a> {
    /// The protocol, or the method.
    pub protocol: &'a str,
    /// The address here.
    pub local: &'a str,
    /// The address there.
    pub peer: &'a str,
    /// The service, or the contract.
    pub service: &'a str,
}

/// Milliseconds since 1970.
fn unix_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
