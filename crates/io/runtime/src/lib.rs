//! Drives Pinnace engines over links
#![warn(missing_docs)]
mod driver;
pub use driver::{Driver, DriverConfig, DriverCounters, EventSink, Progress};
