//! An incoming endpoint against peers that say anything, at any time.
#![no_main]

#[path = "../../crates/engines/vrp/tests/fuzz/mod.rs"]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::incoming(data));
