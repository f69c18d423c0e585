//! Any packet of XTP parses or is refused, says nothing that is not in its bytes, and can be said again.
#![no_main]

#[path = "../../crates/foundation/wire/tests/fuzz/mod.rs"]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::xtp_codec(data));
