//! What fuzzing found worth keeping, and inputs that nobody chose, on the stable compiler.

use crate::swarm::{number_from, pick};
use pinnace_core::Random;
use std::panic::catch_unwind;
use std::path::Path;

/// What a fuzzer calls.
pub type Target = fn(&[u8]);

/// Runs every input of `fuzz/corpus/<name>`. Returns how many there are.
///
/// # Panics
///
/// If the target does, with the input's path; if there is no corpus.
pub fn replay(name: &str, target: Target) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for entry in entries {
        let path = entry.expect("readable").path();
        let result = catch_unwind(|| target(&std::fs::read(&path).expect("readable")));
        assert!(result.is_ok(), "{} fails", path.display());
        count += 1;
    }
    assert!(count > 5, "{} holds {count} inputs", folder.display());
    count
}

/// Runs `inputs` inputs of less than `len` random bytes; `PINNACE_SEEDS` says another number, `PINNACE_FROM` the first seed.
///
/// # Panics
///
/// If the target does, with the seed.
pub fn random(name: &str, target: Target, inputs: u64, len: u64) {
    let from = number_from("PINNACE_FROM").unwrap_or(0);
    for seed in from..from + number_from("PINNACE_SEEDS").unwrap_or(inputs) {
        let mut random = Random::from_seed(seed);
        let len = random.below(len);
        let bytes: Vec<u8> = (0..len).map(|_| random.next_u32() as u8).collect();
        let result = catch_unwind(|| target(&bytes));
        assert!(result.is_ok(), "{name} fails on seed {seed}");
    }
}

/// The packets of `specs/vectors/<name>.txt`.
///
/// # Panics
///
/// If there are none.
pub fn vectors(name: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs/vectors").join(name).with_extension("txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" -> "));
    let packets: Vec<Vec<u8>> = lines
        .map(|(hex, _)| {
            let digits: String = hex.chars().filter(char::is_ascii_hexdigit).collect();
            let digits = if hex == "(empty)" { String::new() } else { digits };
            let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
            (0..digits.len()).step_by(2).map(byte).collect()
        })
        .collect();
    assert!(!packets.is_empty(), "{} holds no packets", path.display());
    packets
}

/// Runs every input, and so many of each with a few faults: bytes changed, put in, cut off.
///
/// # Panics
///
/// If the target does, with the input.
pub fn faulty(target: Target, inputs: &[Vec<u8>], each: usize) {
    let mut random = Random::from_seed(2);
    let run = |input: &[u8]| assert!(catch_unwind(|| target(input)).is_ok(), "{input:02x?} fails");
    for input in inputs {
        run(input);
        for _ in 0..each {
            let mut faulty = input.clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(faulty.len() as u64) as usize;
                match random.below(6) {
                    0 => faulty[at] = random.next_u32() as u8,
                    1 => faulty[at] ^= 1 << random.below(8),
                    2 => faulty[at] = pick(&mut random, &[0, 1, 0x7f, 0x80, 0xff]),
                    3 => faulty.truncate(at.max(1)),
                    4 => faulty.extend((0..random.below(200)).map(|_| random.next_u32() as u8)),
                    _ => faulty.insert(at, random.next_u32() as u8),
                }
            }
            run(&faulty);
        }
    }
}
