//! What the fuzz targets of this crate do with their bytes: what peers, clients and people say to it, where a library of
//! the protocols' own does not read it. For `fuzz/`, and for the tests that replay its corpora; nobody else has this module.
#![allow(missing_docs, clippy::missing_panics_doc, reason = "nobody but fuzz/ sees it, and a panic is what it is for")]
#![cfg_attr(not(test), allow(unreachable_pub, reason = "fuzz/ calls it"))]

#[cfg(target_os = "linux")]
mod daemon;
mod rendezvous;
mod rsr;
// A crate that is published cannot depend on one that is not, but for its own tests.
#[allow(dead_code, unreachable_pub, reason = "others use the rest of it")]
#[path = "../../../testing/src/script.rs"]
mod script;
mod texts;

#[cfg(target_os = "linux")]
pub use daemon::daemon;
pub use rendezvous::rendezvous;
pub use rsr::rsr;
pub use texts::texts;

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_testing::corpus;

    #[test]
    fn what_ends_of_a_rendezvous_say() {
        corpus::replay("pinnace_rendezvous", rendezvous);
        corpus::random("pinnace_rendezvous", rendezvous, 5000, 1400);
    }

    #[test]
    fn what_remote_service_requests_say() {
        corpus::replay("pinnace_rsr", rsr);
        corpus::random("pinnace_rsr", rsr, 20_000, 200);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_clients_of_a_daemon_say() {
        corpus::replay("pinnace_daemon", daemon);
        corpus::random("pinnace_daemon", daemon, 200, 600);
    }

    #[test]
    fn what_people_write() {
        corpus::replay("pinnace_texts", texts);
        corpus::random("pinnace_texts", texts, 20_000, 100);
    }
}
