//! The published vectors (`specs/vectors/cxor.txt`), everything against its plain definition at every level of the
//! processor, length, place in memory and split, and the algebra of specs/xtp.md, section 6.

extern crate std;
use super::*;
use fearless_simd::Level;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

/// CXOR as section 6 defines it.
fn defined_cxor(bytes: &[u8]) -> u32 {
    let (mut xor, mut rxor) = (0u16, 0u16);
    for word in bytes.chunks(2) {
        let word = u16::from(word[0]) << 8 | word.get(1).map_or(0, |&low| u16::from(low));
        xor ^= word;
        rxor = rxor.rotate_left(1) ^ word;
    }
    u32::from(xor) << 16 | u32::from(rxor)
}

/// The Internet checksum as RFC 1071 defines it, with the carry taken around at once.
fn defined_internet(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | word.get(1).map_or(0, |&low| u32::from(low));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Bytes without a pattern; the same for the same seed.
fn noise(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 11) as u8
        })
        .collect()
}

/// Of this processor, and all below it.
fn levels() -> Vec<Level> {
    #[allow(unused_mut, reason = "only x86 has more than one")]
    let mut levels = vec![Level::new(), Level::baseline()];
    #[cfg(target_arch = "x86_64")]
    {
        use fearless_simd::Simd;
        levels.extend(Level::new().as_avx2().map(Simd::level));
        levels.extend(Level::new().as_sse4_2().map(Simd::level));
    }
    levels
}

type Variant = fn(&[u8]) -> u32;

const VARIANTS: [(&str, Variant); 6] = [
    ("std", paper::std),
    ("op1", paper::op1),
    ("op2", paper::op2),
    ("op3", paper::op3),
    ("op4", paper::op4),
    ("ours", cxor),
];

#[test]
fn the_vectors_hold() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../specs/vectors/cxor.txt");
    let vectors = std::fs::read_to_string(path).unwrap();
    let mut count = 0;
    for line in vectors.lines().filter(|line| !line.starts_with('#')) {
        let (input, value) = line.split_once(" -> ").unwrap();
        let input = if input == "(empty)" { "" } else { input };
        let bytes: Vec<u8> =
            (0..input.len()).step_by(2).map(|at| u8::from_str_radix(&input[at..at + 2], 16).unwrap()).collect();
        let value = u32::from_str_radix(&value.replace(' ', ""), 16).unwrap();
        for (name, variant) in VARIANTS {
            assert_eq!(variant(&bytes), value, "{name}: {line}");
        }
        count += 1;
    }
    assert_eq!(count, 20);
}

/// Appendix D of the paper fails for lengths below 32, for those that are not multiples of 4, and for none.
#[test]
fn every_length_agrees_with_the_definition() {
    let bytes = noise(700, 1);
    for length in 0..=bytes.len() {
        let bytes = &bytes[..length];
        for (name, variant) in VARIANTS {
            assert_eq!(variant(bytes), defined_cxor(bytes), "{name}, {length} bytes");
        }
        assert_eq!(internet(bytes), defined_internet(bytes), "{length} bytes");
    }
}

#[test]
fn every_level_agrees_with_the_definition() {
    for level in levels() {
        // Around every limit: of a cycle, a turn, vectors, and alignment with any place in memory.
        for length in (200..=600).chain(2_000..=2_400).chain([4_096, 10_000, 70_001]) {
            let all = noise(length + 64, length as u32);
            let mut copy = vec![0; length + 64];
            let place = length * 7 % 64;
            let bytes = &all[place..place + length];
            let xor = wide::xor::<false>(Some(level), bytes, &mut []);
            let sum = wide::sum::<false>(Some(level), bytes, &mut []);
            let words = xor.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
            let behind = (length.div_ceil(2) % 16) as u32;
            let rxor = (defined_cxor(&words) as u16).rotate_left(behind);
            let expected = defined_cxor(bytes);
            assert_eq!((defined_cxor(&words) >> 16, rxor), (expected >> 16, expected as u16), "{level:?}, {length}");
            assert_eq!(!u16::from_be(sum), defined_internet(bytes), "{level:?}, {length} bytes");

            let place = length * 13 % 64;
            assert_eq!(wide::xor::<true>(Some(level), bytes, &mut copy[place..place + length]), xor);
            assert_eq!(&copy[place..place + length], bytes);
            copy.fill(0);
            assert_eq!(wide::sum::<true>(Some(level), bytes, &mut copy[place..place + length]), sum);
            assert_eq!(&copy[place..place + length], bytes);
        }
    }
}

#[test]
fn carries_are_never_lost() {
    for length in [1, 2, 7, 8, 63, 64, 255, 256, 257, 2_048, 4_096, 1 << 20] {
        let bytes = vec![0xff; length];
        for place in 0..length.min(3) {
            assert_eq!(internet(&bytes[place..]), defined_internet(&bytes[place..]), "{length} bytes from {place}");
        }
    }
}

#[test]
fn zero_is_a_checksum_like_any_other() {
    assert_eq!(internet(&[]), 0xffff);
    assert_eq!(internet(&[0; 1_000]), 0xffff);
    assert_eq!(internet(&[0xff; 2]), 0);
    assert_eq!(internet(&[0xff; 1_000]), 0);
    // The sum of a header that carries its checksum.
    let mut header = noise(32, 3);
    header[16..18].fill(0);
    let check = internet(&header);
    header[16..18].copy_from_slice(&check.to_be_bytes());
    assert_eq!(internet(&header), 0);
}

#[test]
fn blocks_of_32_bytes_commute() {
    let (a, b) = (noise(32, 5), noise(32, 6));
    assert_eq!(cxor(&[&a[..], &b].concat()), cxor(&[&b[..], &a].concat()));
    assert_eq!(cxor(&[&a[..], &a].concat()), 0);
}

#[test]
fn cxor_does_not_depend_on_byte_order() {
    let bytes = noise(1_001 * 2, 7);
    let swapped: Vec<u8> = bytes.as_chunks::<2>().0.iter().flat_map(|[high, low]| [*low, *high]).collect();
    let (value, other) = (cxor(&bytes), cxor(&swapped));
    assert_eq!(
        (value as u16, (value >> 16) as u16),
        ((other as u16).swap_bytes(), ((other >> 16) as u16).swap_bytes())
    );
}

#[test]
fn fletcher_sums_modulo_255() {
    for length in [0, 1, 2, 300, 5_799, 5_800, 5_801, 20_000] {
        for bytes in [noise(length, 9), vec![0xff; length], vec![0xfe; length]] {
            let (mut sum, mut sums) = (0u16, 0u16);
            for &byte in &bytes {
                sum = (sum + u16::from(byte)) % 255;
                sums = (sums + sum) % 255;
            }
            assert_eq!(fletcher(&bytes), sums << 8 | sum, "{length} bytes");
        }
    }
}

#[test]
#[should_panic(expected = "the length of its source")]
fn a_copy_of_another_length_is_refused() {
    cxor_copy(&[1, 2, 3], &mut [0; 2]);
}

/// Up to 8 pieces of any length, empty and odd ones too; some long enough for vectors.
fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let length = prop_oneof![3 => 0..40usize, 2 => 0..300usize, 1 => 1_900..2_700usize];
    proptest::collection::vec((length, any::<u32>()).prop_map(|(length, seed)| noise(length, seed)), 0..8)
}

proptest! {
    #[test]
    fn how_a_block_is_split_does_not_matter(pieces in pieces()) {
        let whole = pieces.concat();
        let (mut sum, mut sum_of_copy) = (Internet::new(), Internet::new());
        let (mut value, mut value_of_copy) = (Cxor::new(), Cxor::new());
        for piece in &pieces {
            sum.add(piece);
            value.add(piece);
            let (mut copy, mut other) = (vec![0; piece.len()], vec![0; piece.len()]);
            sum_of_copy.add_copy(piece, &mut copy);
            value_of_copy.add_copy(piece, &mut other);
            prop_assert_eq!(&copy, piece);
            prop_assert_eq!(&other, piece);
        }
        prop_assert_eq!([sum.finish(), sum_of_copy.finish()], [defined_internet(&whole); 2]);
        prop_assert_eq!([value.finish(), value_of_copy.finish()], [defined_cxor(&whole); 2]);
    }

    #[test]
    fn copies_are_copies(bytes in proptest::collection::vec(any::<u8>(), 0..3_000)) {
        let (mut copy, mut other) = (vec![0; bytes.len()], vec![0; bytes.len()]);
        prop_assert_eq!(internet_copy(&bytes, &mut copy), internet(&bytes));
        prop_assert_eq!(cxor_copy(&bytes, &mut other), cxor(&bytes));
        prop_assert_eq!(&copy, &bytes);
        prop_assert_eq!(&other, &bytes);
    }

    #[test]
    fn catenation_is_that_of_the_blocks(a in 0..200usize, b in 0..400usize, seed: u32) {
        let whole = noise(2 * a + b, seed);
        let (a, b) = whole.split_at(2 * a);
        prop_assert_eq!(cxor_catenate(cxor(a), cxor(b), b.len().div_ceil(2) as u64), cxor(&whole));
    }

    #[test]
    fn an_update_is_that_of_the_word(words in 1..400usize, index: prop::sample::Index, new: u16, seed: u32) {
        let mut bytes = noise(2 * words, seed);
        let index = index.index(words);
        let before = cxor(&bytes);
        let old = u16::from_be_bytes([bytes[2 * index], bytes[2 * index + 1]]);
        bytes[2 * index..2 * index + 2].copy_from_slice(&new.to_be_bytes());
        prop_assert_eq!(cxor_update(before, old, new, index as u64, words as u64), cxor(&bytes));
    }

    #[test]
    fn the_variants_of_the_paper_agree(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for (name, variant) in VARIANTS {
            prop_assert_eq!(variant(&bytes), defined_cxor(&bytes), "{}", name);
        }
    }
}
