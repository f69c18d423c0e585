//! A receiver against a peer that says anything, at any time.
#![no_main]

#[path = "../../crates/engines/zcrp/tests/common/half.rs"]
mod half;
#[path = "../../crates/engines/zcrp/tests/common/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|data: &[u8]| script::receiver(data));
