//! QMP as a peer sees it that speaks bytes: packets made by hand go into one engine, and what comes out is compared packet
//! by packet with specs/qmp.md. Whatever leaves in any of these tests, and in the random ones, is held against the profile
//! ([`scene::check`]). The machine below is XTP's and has tests of its own; here stands what QMP makes of it.
#[path = "../../../xtp/tests/half/mod.rs"]
mod half;

mod asking;
mod closing;
mod duet;
mod keys;
mod losses;
mod padding;
mod profile;
mod properties;
mod scene;
mod states;
