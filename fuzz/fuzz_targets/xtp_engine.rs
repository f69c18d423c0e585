//! An engine between an application and peers that lie.
#![no_main]

#[path = "../../crates/engines/xtp/tests/fuzz/mod.rs"]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::engine(data));
