//! The variants of CXOR that the XTP paper measures (section 3.2, table 3.1), to measure them again. Use
//! [`cxor`](super::cxor) for anything else.
//!
//! Each is written as the paper describes it, in the words that the processor reads from memory, and left to the compiler
//! as it is: that may make vectors of op1 to op4, which no compiler of the paper's time did. Always true: each is correct
//! for every length. The faults of the paper's Appendix D are not here: it reads 32 bytes where there are fewer, skips
//! what is left of a length that is no multiple of 4, leaves the results unset for none, and adds up a variable that was
//! not set.

/// Words after which RXOR has rotated by nothing.
const CYCLE: usize = 16;

/// `std`: a loop of exclusive-or and rotation over 16-bit words.
#[must_use]
pub fn std(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let (mut xor, mut rxor) = (0, 0u16);
    for &word in words {
        let word = u16::from_le_bytes(word);
        xor ^= word;
        rxor = rxor.rotate_left(1) ^ word;
    }
    for &last in rest {
        let word = u16::from(last);
        xor ^= word;
        rxor = rxor.rotate_left(1) ^ word;
    }
    stored(xor, rxor)
}

/// `op1`: the words of the same rotation are joined in an array of 16, and rotated at the end.
#[must_use]
pub fn op1(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let (mut xor, mut rotated) = (0, [0; CYCLE]);
    for (at, &word) in words.iter().enumerate() {
        let word = u16::from_le_bytes(word);
        xor ^= word;
        rotated[at % CYCLE] ^= word;
    }
    for &last in rest {
        xor ^= u16::from(last);
        rotated[words.len() % CYCLE] ^= u16::from(last);
    }
    stored(xor, rotate(&rotated, bytes.len()))
}

/// `op2`: as `op1`, the loop unrolled, with 16 variables instead of the array.
#[must_use]
pub fn op2(bytes: &[u8]) -> u32 {
    let (cycles, rest) = bytes.as_chunks::<{ 2 * CYCLE }>();
    let mut xor = 0;
    let [mut r0, mut r1, mut r2, mut r3, mut r4, mut r5, mut r6, mut r7] = [0; 8];
    let [mut r8, mut r9, mut r10, mut r11, mut r12, mut r13, mut r14, mut r15] = [0; 8];
    for cycle in cycles {
        let word = |at: usize| u16::from_le_bytes([cycle[2 * at], cycle[2 * at + 1]]);
        macro_rules! join {
            ($($rotated:ident $at:literal),*) => { $( xor ^= word($at); $rotated ^= word($at); )* };
        }
        join!(r0 0, r1 1, r2 2, r3 3, r4 4, r5 5, r6 6, r7 7);
        join!(r8 8, r9 9, r10 10, r11 11, r12 12, r13 13, r14 14, r15 15);
    }
    let mut rotated = [r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14, r15];
    xor ^= join_rest(&mut rotated, rest);
    stored(xor, rotate(&rotated, bytes.len()))
}

/// `op3`: as `op2`, XOR from the 16 variables at the end instead of on the way.
#[must_use]
pub fn op3(bytes: &[u8]) -> u32 {
    let (cycles, rest) = bytes.as_chunks::<{ 2 * CYCLE }>();
    let [mut r0, mut r1, mut r2, mut r3, mut r4, mut r5, mut r6, mut r7] = [0; 8];
    let [mut r8, mut r9, mut r10, mut r11, mut r12, mut r13, mut r14, mut r15] = [0; 8];
    for cycle in cycles {
        let word = |at: usize| u16::from_le_bytes([cycle[2 * at], cycle[2 * at + 1]]);
        macro_rules! join {
            ($($rotated:ident $at:literal),*) => { $( $rotated ^= word($at); )* };
        }
        join!(r0 0, r1 1, r2 2, r3 3, r4 4, r5 5, r6 6, r7 7);
        join!(r8 8, r9 9, r10 10, r11 11, r12 12, r13 13, r14 14, r15 15);
    }
    let mut rotated = [r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14, r15];
    join_rest(&mut rotated, rest);
    stored(rotated.iter().fold(0, |xor, word| xor ^ word), rotate(&rotated, bytes.len()))
}

/// `op4`: as `op3`, with 32-bit words, that are folded to 16 bits at the end.
#[must_use]
pub fn op4(bytes: &[u8]) -> u32 {
    let (cycles, rest) = bytes.as_chunks::<{ 2 * CYCLE }>();
    let [mut r0, mut r1, mut r2, mut r3, mut r4, mut r5, mut r6, mut r7] = [0u32; 8];
    for cycle in cycles {
        let (words, _) = cycle.as_chunks::<4>();
        macro_rules! join {
            ($($rotated:ident $at:literal),*) => { $( $rotated ^= u32::from_le_bytes(words[$at]); )* };
        }
        join!(r0 0, r1 1, r2 2, r3 3, r4 4, r5 5, r6 6, r7 7);
    }
    let mut rotated = [0; CYCLE];
    for (halves, long) in rotated.as_chunks_mut::<2>().0.iter_mut().zip([r0, r1, r2, r3, r4, r5, r6, r7]) {
        *halves = [long as u16, (long >> 16) as u16];
    }
    join_rest(&mut rotated, rest);
    stored(rotated.iter().fold(0, |xor, word| xor ^ word), rotate(&rotated, bytes.len()))
}

/// Joins what is left behind the last whole cycle, and returns its XOR.
fn join_rest(rotated: &mut [u16; CYCLE], rest: &[u8]) -> u16 {
    let mut xor = 0;
    for (rotated, word) in rotated.iter_mut().zip(rest.chunks(2)) {
        let word = u16::from_le_bytes([word[0], word.get(1).copied().unwrap_or(0)]);
        xor ^= word;
        *rotated ^= word;
    }
    xor
}

/// RXOR of a block of `bytes` bytes, from its words joined by their rotation.
fn rotate(rotated: &[u16; CYCLE], bytes: usize) -> u16 {
    let rxor = rotated.iter().fold(0u16, |rxor, word| rxor.rotate_left(1) ^ word);
    // All 16 words have rotated, as if the block were a whole number of cycles.
    rxor.rotate_left((bytes.div_ceil(2) % CYCLE) as u32)
}

/// The words were little-endian, which neither exclusive-or nor rotation minds.
fn stored(xor: u16, rxor: u16) -> u32 {
    u32::from(xor.swap_bytes()) << 16 | u32::from(rxor.swap_bytes())
}
