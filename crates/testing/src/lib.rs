//! What the tests and fuzz targets of engines and drivers share: [one engine driven by hand](hand), [corpora](corpus) and
//! the [scripts](script) that their inputs are, [swarms](swarm), an [engine that needs storage](scrolls); and,
//! for all tests, how they say that they are [skipped](skip), and [ports] that no other test meets.
//!
//! Panics are this crate's way to report: it is for tests only.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod corpus;
pub mod hand;
pub mod ports;
pub mod script;
pub mod scrolls;
pub mod skip;
pub mod swarm;

/// The least of so many measurements: what is measured costs that, and the rest is the machine's other work.
pub fn least_of(rounds: usize, measure: impl FnMut() -> f64) -> f64 {
    std::iter::repeat_with(measure).take(rounds).fold(f64::INFINITY, f64::min)
}
