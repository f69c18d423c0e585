//! Everything that fuzzing found worth keeping, again, on the stable compiler: `fuzz/corpus/<target>/`.

mod fuzz;

use pinnace_core::Random;
use std::path::Path;

/// Every input of a target's corpus.
fn replay(name: &str, target: fuzz::Target) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        let result = std::panic::catch_unwind(|| target(&std::fs::read(&path).unwrap()));
        assert!(result.is_ok(), "{} fails", path.display());
        count += 1;
    }
    assert!(count > 5, "{} holds {count} inputs", folder.display());
}

/// So many inputs that nobody chose.
fn random(name: &str, target: fuzz::Target, inputs: u64) {
    let from = std::env::var("PINNACE_FROM").ok().and_then(|from| from.parse().ok()).unwrap_or(0);
    let inputs = std::env::var("PINNACE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(inputs);
    for seed in from..from + inputs {
        let mut random = Random::from_seed(seed);
        let len = random.below(3000);
        let bytes: Vec<u8> = (0..len).map(|_| random.next_u32() as u8).collect();
        let result = std::panic::catch_unwind(|| target(&bytes));
        assert!(result.is_ok(), "{name} fails on seed {seed}");
    }
}

#[test]
fn an_engine_between_liars() {
    random("a1_engine", fuzz::engine, 2000);
    replay("a1_engine", fuzz::engine);
}
