//! Both roles against each other over a bad path: the contract holds, and both ends agree on the loss.
#![no_main]

#[path = "../../crates/engines/vrp/tests/fuzz/mod.rs"]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::pair(data));
