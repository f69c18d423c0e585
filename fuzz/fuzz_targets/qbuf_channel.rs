//! Both ends of a channel, in memory that somebody else writes to.
#![no_main]

#[path = "../../crates/foundation/qbuf/tests/fuzz/mod.rs"]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::channel(data));
