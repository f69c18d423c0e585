//! An engine between an application and peers that lie: it opens, accepts and casts.
#![no_main]

#[path = "../../crates/engines/a1/tests/fuzz/mod.rs"]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::engine(data));
