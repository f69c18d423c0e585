//! CXOR, the check function of XTP 3.6 (specs/xtp.md, section 6).

/// A CXOR that is computed piece by piece.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cxor {
    /// Of the whole words so far.
    value: u32,
    /// The high-order byte of a word whose low-order byte has not come yet.
    odd: Option<u8>,
}

impl Cxor {
    /// The CXOR of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { value: 0, odd: None }
    }

    /// Goes on with `bytes`, of any length.
    #[inline]
    pub fn add(&mut self, mut bytes: &[u8]) {
        if let (Some(high), [low, rest @ ..]) = (self.odd, bytes) {
            self.push(u16::from_be_bytes([high, *low]));
            self.odd = None;
            bytes = rest;
        }
        let (words, rest) = bytes.as_chunks::<2>();
        for word in words {
            self.push(u16::from_be_bytes(*word));
        }
        self.odd = rest.first().copied().or(self.odd);
    }

    /// Goes on with `source` and copies it to `destination` in the same pass.
    ///
    /// # Panics
    ///
    /// The lengths differ.
    #[inline]
    pub fn add_copy(&mut self, source: &[u8], destination: &mut [u8]) {
        destination.copy_from_slice(source);
        self.add(source);
    }

    /// XOR in the upper 16 bits, RXOR in the lower; it is stored in big-endian order. An odd last byte counts as the
    /// high-order byte of a word.
    #[inline]
    #[must_use]
    pub fn finish(&self) -> u32 {
        match self.odd {
            None => self.value,
            Some(high) => cxor_catenate(self.value, single(u16::from_be_bytes([high, 0])), 1),
        }
    }

    fn push(&mut self, word: u16) {
        self.value = cxor_catenate(self.value, single(word), 1);
    }
}

/// The CXOR of one word.
fn single(word: u16) -> u32 {
    u32::from(word) << 16 | u32::from(word)
}

/// Rotates the lower half, RXOR, to the left.
fn rotate(value: u32, words: u64) -> u32 {
    // The rotation of 16 words is the identity, so the cast loses nothing.
    value & 0xffff_0000 | u32::from((value as u16).rotate_left((words % 16) as u32))
}

/// The CXOR of `bytes`: XOR in the upper 16 bits, RXOR in the lower; it is stored in big-endian order. An odd last byte
/// counts as the high-order byte of a word.
///
/// ```
/// assert_eq!(pinnace_wire::checksum::cxor(b"XTP!"), 0x0875_e089);
/// ```
#[inline]
#[must_use]
pub fn cxor(bytes: &[u8]) -> u32 {
    let mut sum = Cxor::new();
    sum.add(bytes);
    sum.finish()
}

/// Copies `source` to `destination` and returns its CXOR, in one pass.
///
/// # Panics
///
/// The lengths differ.
///
/// ```
/// use pinnace_wire::checksum::{cxor, cxor_copy};
/// let mut copy = [0; 5];
/// assert_eq!(cxor_copy(b"bytes", &mut copy), cxor(b"bytes"));
/// assert_eq!(&copy, b"bytes");
/// ```
#[inline]
pub fn cxor_copy(source: &[u8], destination: &mut [u8]) -> u32 {
    let mut sum = Cxor::new();
    sum.add_copy(source, destination);
    sum.finish()
}

/// The CXOR of a block A and a block B behind it, from the CXOR of each (buffer catenation in the paper's table 3.3).
///
/// A has an even number of bytes; B has `words_of_b` words of 16 bits, an odd last byte counted as a whole one.
///
/// ```
/// use pinnace_wire::checksum::{cxor, cxor_catenate};
/// assert_eq!(cxor_catenate(cxor(b"head"), cxor(b"trailer"), 4), cxor(b"headtrailer"));
/// ```
#[inline]
#[must_use]
pub fn cxor_catenate(a: u32, b: u32, words_of_b: u64) -> u32 {
    rotate(a, words_of_b) ^ b
}

/// The CXOR of a block of `words` words after the word at `index`, below `words`, has become `new` instead of `old`
/// (buffer update in the paper's table 3.3).
///
/// ```
/// use pinnace_wire::checksum::{cxor, cxor_update};
/// let before = cxor(&[0x12, 0x34, 0x56, 0x78, 0x9a]);
/// assert_eq!(cxor_update(before, 0x5678, 0xffff, 1, 3), cxor(&[0x12, 0x34, 0xff, 0xff, 0x9a]));
/// ```
#[inline]
#[must_use]
pub fn cxor_update(value: u32, old: u16, new: u16, index: u64, words: u64) -> u32 {
    // Only the difference modulo 16 counts, which wrapping keeps.
    value ^ rotate(single(old ^ new), words.wrapping_sub(index).wrapping_sub(1))
}
