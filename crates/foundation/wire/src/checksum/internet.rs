//! The Internet checksum (RFC 1071).

use super::wide;

/// An Internet checksum that is added up piece by piece.
#[derive(Clone, Copy, Debug, Default)]
pub struct Internet {
    /// The one's complement sum of the 16-bit words so far, as they lie in memory: the sum does not depend on byte order,
    /// except for the order of its own two bytes.
    sum: u64,
    /// An odd number of bytes was added: the next byte is the low-order one of its word.
    odd: bool,
}

impl Internet {
    /// The sum of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { sum: 0, odd: false }
    }

    /// Goes on with `bytes`, of any length.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        self.append(wide::sum::<false>(None, bytes, &mut []), bytes.len());
    }

    /// Goes on with `source` and copies it to `destination` in the same pass.
    ///
    /// # Panics
    ///
    /// The lengths differ.
    #[inline]
    pub fn add_copy(&mut self, source: &[u8], destination: &mut [u8]) {
        assert_eq!(source.len(), destination.len(), "the copy has the length of its source");
        self.append(wide::sum::<true>(None, source, destination), source.len());
    }

    /// The checksum: the one's complement of the sum, that is stored in big-endian order. An odd last byte counts as the
    /// high-order byte of a word. 0 is a value like any other. Over a block that contains its checksum, at an even
    /// offset, it is 0.
    #[inline]
    #[must_use]
    pub fn finish(&self) -> u16 {
        !u16::from_be(wide::fold(self.sum))
    }

    fn append(&mut self, sum: u16, bytes: usize) {
        self.sum += u64::from(if self.odd { sum.swap_bytes() } else { sum });
        self.odd ^= bytes % 2 == 1;
    }
}

/// The Internet checksum of `bytes`, in the order in which it is stored in big-endian: see [`Internet::finish`].
///
/// ```
/// // The example of RFC 1071, section 3.
/// assert_eq!(pinnace_wire::checksum::internet(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
/// ```
#[inline]
#[must_use]
pub fn internet(bytes: &[u8]) -> u16 {
    let mut sum = Internet::new();
    sum.add(bytes);
    sum.finish()
}

/// Copies `source` to `destination` and returns its Internet checksum, in one pass.
///
/// # Panics
///
/// The lengths differ.
///
/// ```
/// use pinnace_wire::checksum::{internet, internet_copy};
/// let mut copy = [0; 5];
/// assert_eq!(internet_copy(b"bytes", &mut copy), internet(b"bytes"));
/// assert_eq!(&copy, b"bytes");
/// ```
#[inline]
pub fn internet_copy(source: &[u8], destination: &mut [u8]) -> u16 {
    let mut sum = Internet::new();
    sum.add_copy(source, destination);
    sum.finish()
}
