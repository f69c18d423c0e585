//! The Fletcher checksum of ISO TP4.

/// Bytes between two reductions: 255 * n * (n + 1) / 2 + 254 * (n + 1) stays below 2^32.
const BLOCK: usize = 5_800;

/// The two sums of the Fletcher checksum of ISO TP4 (ISO 8073), modulo 255: the sum of the sums in the upper eight bits,
/// the sum of the bytes in the lower.
///
/// Both are 0 over a unit that carries its checksum. Here to compare the others with.
///
/// ```
/// assert_eq!(pinnace_wire::checksum::fletcher(&[1, 2]), 0x0403);
/// ```
#[must_use]
pub fn fletcher(bytes: &[u8]) -> u16 {
    let (mut sum, mut sums) = (0u32, 0u32);
    for block in bytes.chunks(BLOCK) {
        for &byte in block {
            sum += u32::from(byte);
            sums += sum;
        }
        sum %= 255;
        sums %= 255;
    }
    // Both are below 255.
    (sums << 8 | sum) as u16
}
