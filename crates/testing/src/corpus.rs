//! What fuzzing found worth keeping, and inputs that nobody chose, on the stable compiler.

use crate::swarm::number_from;
use pinnace_core::Random;
use std::panic::catch_unwind;
use std::path::Path;

/// What a fuzzer calls.
pub type Target = fn(&[u8]);

/// Runs every input of `fuzz/corpus/<name>`.
///
/// # Panics
///
/// If the target does, with the input's path; if there is no corpus.
pub fn replay(name: &str, target: Target) {
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
