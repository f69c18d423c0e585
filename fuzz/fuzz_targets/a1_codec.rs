//! Any datagram of A1 parses or is refused, says nothing that is not in its bytes, and can be said again.
#![no_main]

#[path = "../../crates/foundation/wire/tests/fuzz/a1.rs"]
mod fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::codec(data));
