//! A peer that speaks bytes: packets made by hand go into one engine, and what comes out is compared packet by packet with
//! specs/xtp.md, sentence by sentence. Numbers begin shortly before they wrap, in both codecs.
#[path = "../half/mod.rs"]
mod half;

mod amplification;
mod asking;
mod closing;
mod found;
mod keys;
mod losses;
mod paths;
mod rates;
mod scene;
mod services;
mod setup;
mod statuses;
