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
    for seed in 0..inputs {
        let mut random = Random::from_seed(seed);
        let len = random.below(500);
        let bytes: Vec<u8> = (0..len).map(|_| random.next_u32() as u8).collect();
        let result = std::panic::catch_unwind(|| target(&bytes));
        assert!(result.is_ok(), "{name} fails on seed {seed}");
    }
}

#[test]
fn packets() {
    replay("vrp_codec", fuzz::codec);
    random("vrp_codec", fuzz::codec, 20_000);
}

#[test]
fn an_outgoing_endpoint() {
    //= V-S11 test
    replay("vrp_outgoing", fuzz::outgoing);
    random("vrp_outgoing", fuzz::outgoing, 1000);
}

#[test]
fn an_incoming_endpoint() {
    //= V-R13 test
    //= V-R20 test
    replay("vrp_incoming", fuzz::incoming);
    random("vrp_incoming", fuzz::incoming, 1000);
}

#[test]
fn both_against_each_other() {
    //= V-R18 test
    replay("vrp_pair", fuzz::pair);
    random("vrp_pair", fuzz::pair, 300);
}
