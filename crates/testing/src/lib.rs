//! What the tests and fuzz targets of the engines share: [one engine driven by hand](hand), and [corpora](corpus).
//!
//! Panics are this crate's way to report: it is for tests only.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod corpus;
pub mod hand;
