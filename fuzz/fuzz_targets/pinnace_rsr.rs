//! A remote service request: its header, its values, the references in it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pinnace::fuzz::rsr(data));
