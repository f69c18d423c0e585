//! CXOR, the check function of XTP 3.6 (specs/xtp.md, section 6).

use super::wide;

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
        let (words, rest) = bytes.split_at(bytes.len() & !1);
        self.append(whole::<false>(words, &mut []), words.len());
        self.odd = rest.first().copied().or(self.odd);
    }

    /// Goes on with `source` and copies it to `destination` in the same pass.
    ///
    /// # Panics
    ///
    /// The lengths differ.
    #[inline]
    pub fn add_copy(&mut self, source: &[u8], destination: &mut [u8]) {
        assert_eq!(source.len(), destination.len(), "the copy has the length of its source");
        let odd = usize::from(self.odd.is_some()).min(source.len());
        let words = (source.len() - odd) & !1;
        for edge in [0..odd, odd + words..source.len()] {
            destination[edge.clone()].copy_from_slice(&source[edge]);
        }
        self.add(&source[..odd]);
        self.append(whole::<true>(&source[odd..odd + words], &mut destination[odd..odd + words]), words);
        self.add(&source[odd + words..]);
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

    /// Goes on with the CXOR of `bytes` bytes, an even number.
    fn append(&mut self, value: u32, bytes: usize) {
        self.value = cxor_catenate(self.value, value, (bytes / 2) as u64);
    }
}

/// The CXOR of a block.
#[inline]
fn whole<const COPY: bool>(source: &[u8], destination: &mut [u8]) -> u32 {
    unfold(wide::xor::<COPY>(None, source, destination), source.len())
}

/// The CXOR of a block of `bytes` bytes, from the exclusive-or of all its blocks of 32 bytes. Words are rotated where they
/// are, half of them at a time: by 8 those of the first half of the block, by 4 those of the first half of what that
/// leaves, and so on.
#[inline]
fn unfold(cycle: [u64; 4], bytes: usize) -> u32 {
    let eight = |words: u64| words << 8 & 0xff00_ff00_ff00_ff00 | words >> 8 & 0x00ff_00ff_00ff_00ff;
    let four = |words: u64| words << 4 & 0xfff0_fff0_fff0_fff0 | words >> 12 & 0x000f_000f_000f_000f;
    let two = |words: u32| words << 2 & 0xfffc_fffc | words >> 14 & 0x0003_0003;
    let rxor = four(eight(cycle[0]) ^ cycle[2]) ^ (eight(cycle[1]) ^ cycle[3]);
    let rxor = two(rxor as u32) ^ (rxor >> 32) as u32;
    let rxor = (rxor as u16).rotate_left(1) ^ (rxor >> 16) as u16;
    let xor = cycle[0] ^ cycle[1] ^ cycle[2] ^ cycle[3];
    let xor = xor as u32 ^ (xor >> 32) as u32;
    let xor = xor as u16 ^ (xor >> 16) as u16;
    // The zeros that filled up the last 32 bytes have rotated the words too far: on, to the whole turn. And the words were
    // little-endian.
    let rxor = rxor.rotate_left((bytes.div_ceil(2) % 16) as u32);
    u32::from(xor.swap_bytes()) << 16 | u32::from(rxor.swap_bytes())
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
    whole::<false>(bytes, &mut [])
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
    assert_eq!(source.len(), destination.len(), "the copy has the length of its source");
    whole::<true>(source, destination)
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
