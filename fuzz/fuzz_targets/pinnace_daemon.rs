//! A daemon between clients that lie, and write over the pool that they share with it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pinnace::fuzz::daemon(data));
