//! The checksums that a host fills in, as the driver of a real link does.

use pinnace_core::{ChecksumKind, Summing};
use pinnace_wire::checksum::{Cxor, Internet};

/// One sum under way.
#[derive(Debug)]
pub enum Sums {
    /// The sum of IP, UDP and TCP.
    Internet(Internet),
    /// XTP's rotated sum.
    Cxor(Cxor),
}

impl Default for Sums {
    fn default() -> Self {
        Self::Internet(Internet::new())
    }
}

impl Summing for Sums {
    fn start(&mut self, kind: ChecksumKind) {
        *self = match kind {
            ChecksumKind::Internet => Self::Internet(Internet::new()),
            ChecksumKind::Cxor => Self::Cxor(Cxor::new()),
        };
    }

    fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Internet(sum) => sum.add(bytes),
            Self::Cxor(sum) => sum.add(bytes),
        }
    }

    fn finish(&mut self) -> u32 {
        match self {
            Self::Internet(sum) => sum.finish().into(),
            Self::Cxor(sum) => sum.finish(),
        }
    }
}
