//! Hosts without counters files.

use super::{Kind, Labels, Numbers};

/// A row of the counters file, which this host does not have.
#[derive(Debug)]
pub enum Row {}

impl Row {
    /// None.
    pub fn new(_: Kind, _: &Labels<'_>) -> Option<Self> {
        None
    }

    /// Never called.
    pub fn publish(&self, _: &Numbers) {}

    /// Never called.
    pub fn count_sent(&self, _: u64) {}

    /// Never called.
    pub fn count_received(&self, _: u64, _: u64) {}

    /// Never called.
    pub fn numbers(&self) -> Numbers {
        Numbers::default()
    }

    /// Never called.
    pub fn describe(&self, _: &Labels<'_>) {}

    /// Never called.
    pub fn close(&self) {}
}
