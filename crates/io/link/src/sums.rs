//! [`Sums`]: the checksums that a driver fills in, summed piece by piece as they lie in memory.

use pinnace_core::{ChecksumKind, Summing};
use pinnace_wire::checksum::{Cxor, Internet};

/// What [`Train::fill_checksum`](pinnace_core::Train::fill_checksum) needs of whoever drives a link.
///
/// ```
/// use pinnace_core::{ChecksumKind, Summing};
/// let mut sums = pinnace_link::Sums::default();
/// sums.start(ChecksumKind::Internet);
/// sums.add(&[0x12]);
/// sums.add(&[0x34]);
/// assert_eq!(sums.finish(), u32::from(!0x1234u16));
/// ```
#[derive(Clone, Debug)]
pub struct Sums(Sum);

#[derive(Clone, Debug)]
enum Sum {
    Internet(Internet),
    Cxor(Cxor),
}

impl Default for Sums {
    fn default() -> Self {
        Self(Sum::Internet(Internet::new()))
    }
}

impl Summing for Sums {
    fn start(&mut self, kind: ChecksumKind) {
        self.0 = match kind {
            ChecksumKind::Internet => Sum::Internet(Internet::new()),
            ChecksumKind::Cxor => Sum::Cxor(Cxor::new()),
        };
    }

    fn add(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Sum::Internet(sum) => sum.add(bytes),
            Sum::Cxor(sum) => sum.add(bytes),
        }
    }

    fn finish(&mut self) -> u32 {
        match &self.0 {
            Sum::Internet(sum) => sum.finish().into(),
            Sum::Cxor(sum) => sum.finish(),
        }
    }
}
