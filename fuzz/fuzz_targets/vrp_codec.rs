//! Any control packet parses or is refused, and says nothing that is not in its bytes.
#![no_main]

#[path = "../../crates/engines/vrp/tests/fuzz/mod.rs"]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::codec(data));
