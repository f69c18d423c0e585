//! The variants of CXOR that the XTP paper measures (section 3.2, table 3.1), to measure them again. Each is correct for
//! every length; the faults of the paper's Appendix D are not here. Use [`cxor`](super::cxor) for anything else.

/// `std`: a loop of exclusive-or and rotation over 16-bit words.
#[must_use]
pub fn std(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let (mut xor, mut rxor) = (0u16, 0u16);
    for word in words {
        let word = u16::from_be_bytes(*word);
        xor ^= word;
        rxor = rxor.rotate_left(1) ^ word;
    }
    if let Some(&last) = rest.first() {
        let word = u16::from_be_bytes([last, 0]);
        xor ^= word;
        rxor = rxor.rotate_left(1) ^ word;
    }
    u32::from(xor) << 16 | u32::from(rxor)
}
