//! The inner loops: whole vectors of what the processor has (AVX-512, AVX2, NEON, SSE2, found at run time), and 64-bit
//! words for what is too short for that. With `COPY`, the source is copied to the destination, of the same length, in the
//! same pass; without, the destination is not looked at.
//!
//! Always true: the order of the bytes in memory is never changed, the callers swap the 16 bits that remain.

use fearless_simd::{Bytes, Level, Simd, SimdBase, dispatch, u8x64, u64x8};

/// Bytes of a turn of the loop over vectors: four accumulators of 64 bytes fit the registers of AVX2.
const TURN: usize = 256;
/// From this length on vectors win over 64-bit words, although the level of the processor must be looked up.
const VECTORS: usize = 256;
/// From this length on it pays to bring the vectors in line with the memory: across cache lines they are half as fast.
const ALIGNED: usize = 2_048;
/// Bytes of a vector and of a cache line.
const LINE: usize = 64;
/// Turns before the sums are folded: each adds less than 2^34 to a lane of 64 bits.
const TURNS: usize = 1 << 24;
/// Bytes after which CXOR has rotated by nothing.
const CYCLE: usize = 32;

/// The exclusive-or of all blocks of 32 bytes, the last one filled up with 0, as little-endian words. `level` is that of
/// the processor, if it is known.
#[inline]
pub(super) fn xor<const COPY: bool>(level: Option<Level>, source: &[u8], destination: &mut [u8]) -> [u64; 4] {
    if source.len() < VECTORS {
        xor_words::<COPY>([0; 4], source, destination)
    } else {
        xor_vectors::<COPY>(level, source, destination)
    }
}

fn xor_vectors<const COPY: bool>(level: Option<Level>, source: &[u8], destination: &mut [u8]) -> [u64; 4] {
    let head = head::<COPY>(source, destination);
    let (edge, body) = source.split_at(head);
    let (edge_copy, body_copy) = destination.split_at_mut(if COPY { head } else { 0 });
    let (turns, rest) = body.as_chunks::<TURN>();
    let (turns_copy, rest_copy) = body_copy.as_chunks_mut::<TURN>();
    let lanes = dispatch!(level.unwrap_or_else(Level::new), simd => xor_turns::<_, COPY>(simd, turns, turns_copy));
    let (lanes, _) = lanes.as_chunks::<8>();
    let mut folded = [0, 1, 2, 3].map(|at| u64::from_le_bytes(lanes[at]));
    if !rest.is_empty() {
        folded = xor_words::<COPY>(folded, rest, rest_copy);
    }
    if head == 0 {
        return folded;
    }
    // The body starts in the middle of a cycle.
    let mut twice = [0; 2 * CYCLE];
    for (bytes, word) in twice.as_chunks_mut::<8>().0.iter_mut().zip(folded.iter().chain(&folded)) {
        *bytes = word.to_le_bytes();
    }
    let start = CYCLE - head % CYCLE;
    folded = xor_words::<false>([0; 4], &twice[start..start + CYCLE], &mut []);
    xor_words::<COPY>(folded, edge, edge_copy)
}

/// The bytes in front of the first cache line of what is harder to get across two of them.
#[inline(always)]
fn head<const COPY: bool>(source: &[u8], destination: &[u8]) -> usize {
    if source.len() < ALIGNED {
        return 0;
    }
    let start = if COPY { destination.as_ptr() } else { source.as_ptr() };
    start.addr().wrapping_neg() % LINE
}

/// Goes on with any number of bytes, the first of which is the first of a cycle.
#[inline(always)]
fn xor_words<const COPY: bool>(mut folded: [u64; 4], source: &[u8], destination: &mut [u8]) -> [u64; 4] {
    if COPY {
        destination.copy_from_slice(source);
    }
    let (cycles, rest) = source.as_chunks::<CYCLE>();
    for cycle in cycles {
        for (folded, word) in folded.iter_mut().zip(cycle.as_chunks::<8>().0) {
            *folded ^= u64::from_le_bytes(*word);
        }
    }
    let (words, rest) = rest.as_chunks::<8>();
    let last = last_word(rest);
    // Every index is a constant once this is unrolled, so nothing goes through memory.
    for (at, folded) in folded.iter_mut().enumerate() {
        match words.get(at) {
            Some(word) => *folded ^= u64::from_le_bytes(*word),
            None if at == words.len() => *folded ^= last,
            None => {}
        }
    }
    folded
}

/// Up to 7 bytes as a little-endian word, filled up with 0.
#[inline(always)]
fn last_word(bytes: &[u8]) -> u64 {
    let (fours, rest) = bytes.as_chunks::<4>();
    let (twos, rest) = rest.as_chunks::<2>();
    let (mut word, mut bits) = (0, 0);
    if let [four, ..] = fours {
        word = u64::from(u32::from_le_bytes(*four));
        bits = 32;
    }
    if let [two, ..] = twos {
        word |= u64::from(u16::from_le_bytes(*two)) << bits;
        bits += 16;
    }
    if let [one, ..] = rest {
        word |= u64::from(*one) << bits;
    }
    word
}

#[inline(always)]
fn xor_turns<S: Simd, const COPY: bool>(simd: S, turns: &[[u8; TURN]], copies: &mut [[u8; TURN]]) -> [u8; CYCLE] {
    let mut folded = [u8x64::splat(simd, 0); 4];
    let mut copies = copies.iter_mut();
    for turn in turns {
        let vectors = load(simd, turn);
        if COPY && let Some(copy) = copies.next() {
            store(vectors, copy);
        }
        for (folded, vector) in folded.iter_mut().zip(vectors) {
            *folded ^= vector;
        }
    }
    let (even, odd) = simd.split_u8x64((folded[0] ^ folded[1]) ^ (folded[2] ^ folded[3]));
    let mut lanes = [0; CYCLE];
    (even ^ odd).store_slice(&mut lanes);
    lanes
}

#[inline(always)]
fn load<S: Simd>(simd: S, turn: &[u8; TURN]) -> [u8x64<S>; 4] {
    let (vectors, _) = turn.as_chunks::<LINE>();
    core::array::from_fn(|at| u8x64::from_slice(simd, &vectors[at]))
}

#[inline(always)]
fn store<S: Simd>(vectors: [u8x64<S>; 4], copy: &mut [u8; TURN]) {
    for (vector, copy) in vectors.into_iter().zip(copy.as_chunks_mut::<LINE>().0) {
        vector.store_slice(copy);
    }
}

/// The one's complement sum of all 16-bit words, an odd last byte filled up with 0, in the order of the bytes in memory.
/// Only a block of zeros becomes 0. `level` is that of the processor, if it is known.
#[inline]
pub(super) fn sum<const COPY: bool>(level: Option<Level>, source: &[u8], destination: &mut [u8]) -> u16 {
    if source.len() < VECTORS {
        return fold(sum_words::<COPY>(source, destination));
    }
    let head = head::<COPY>(source, destination);
    let (edge, body) = source.split_at(head);
    let (edge_copy, body_copy) = destination.split_at_mut(if COPY { head } else { 0 });
    let (turns, rest) = body.as_chunks::<TURN>();
    let (turns_copy, rest_copy) = body_copy.as_chunks_mut::<TURN>();
    let total = dispatch!(level.unwrap_or_else(Level::new), simd => sum_turns::<_, COPY>(simd, turns, turns_copy));
    let total = if rest.is_empty() { total } else { total + sum_words::<COPY>(rest, rest_copy) };
    if head == 0 {
        return fold(total);
    }
    // Behind an odd number of bytes, the high-order ones were taken for the low-order ones.
    let total = if head % 2 == 1 { fold(total).swap_bytes() } else { fold(total) };
    fold(u64::from(total) + sum_words::<COPY>(edge, edge_copy))
}

/// Folds a sum to 16 bits with end-around carry.
#[inline(always)]
pub(super) fn fold(sum: u64) -> u16 {
    // Each addition leaves less than before: 33 bits, 17 bits and a little, 16 bits and a carry, 16 bits.
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The sum of a few bytes, less than 2^48.
#[inline(always)]
fn sum_words<const COPY: bool>(source: &[u8], destination: &mut [u8]) -> u64 {
    if COPY {
        destination.copy_from_slice(source);
    }
    let (words, rest) = source.as_chunks::<8>();
    let (mut all, mut high) = (0u64, 0u64);
    for word in words {
        let word = u64::from_ne_bytes(*word);
        all = all.wrapping_add(word);
        high += word >> 32;
    }
    let last = u64::from_ne_bytes(last_word(rest).to_le_bytes());
    join(all, high) + join(last, last >> 32)
}

/// The sum of a lane, less than 2^34, from the sum of its 64-bit words modulo 2^64 and the sum of their upper halves: that
/// tells the sum of the lower halves, one operation cheaper than adding them up.
#[inline(always)]
fn join(all: u64, high: u64) -> u64 {
    let low = all.wrapping_sub(high << 32);
    (low & 0xffff_ffff) + (low >> 32) + (high & 0xffff_ffff) + (high >> 32)
}

/// The sum: 2^37 at most for every 2^32 bytes, so it fits for more memory than an address of 57 bits can name.
#[inline(always)]
fn sum_turns<S: Simd, const COPY: bool>(simd: S, turns: &[[u8; TURN]], copies: &mut [[u8; TURN]]) -> u64 {
    let mut total = 0;
    let mut copies = copies.iter_mut();
    for turns in turns.chunks(TURNS) {
        let (mut all, mut high) = ([u64x8::splat(simd, 0); 2], [u64x8::splat(simd, 0); 2]);
        for turn in turns {
            let vectors = load(simd, turn);
            if COPY && let Some(copy) = copies.next() {
                store(vectors, copy);
            }
            for (at, vector) in vectors.into_iter().enumerate() {
                let words: u64x8<S> = vector.bitcast();
                all[at % 2] += words;
                high[at % 2] += words >> 32;
            }
        }
        let (mut alls, mut highs) = ([0; 8], [0; 8]);
        (all[0] + all[1]).store_slice(&mut alls);
        (high[0] + high[1]).store_slice(&mut highs);
        total += alls.into_iter().zip(highs).map(|(all, high)| join(all, high)).sum::<u64>();
    }
    total
}
