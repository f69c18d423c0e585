//! Any control datagram parses or is refused, and says nothing that is not in its bytes.
#![no_main]

#[path = "../../crates/engines/zcrp/tests/common/half.rs"]
mod half;
#[path = "../../crates/engines/zcrp/tests/common/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|data: &[u8]| script::control(data));
