//! The trailer of any datagram parses or is refused, and what parses can be written again.
#![no_main]

#[path = "../../crates/engines/zcrp/tests/common/half.rs"]
mod half;
#[path = "../../crates/engines/zcrp/tests/common/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|data: &[u8]| script::trailer(data));
