//! The receiving half against scripts and an oracle.

use super::*;

#[test]
fn an_idle_stream_is_small() {
    assert!(size_of::<Incoming>() <= 250, "{}", size_of::<Incoming>());
}
