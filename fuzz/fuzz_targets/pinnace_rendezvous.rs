//! What the ends of a rendezvous, and of the connection that comes of it, say: it parses or is refused, and can be said again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pinnace::fuzz::rendezvous(data));
