//! Services, addresses and quantities as people write them: what is understood can be said again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pinnace::fuzz::texts(data));
