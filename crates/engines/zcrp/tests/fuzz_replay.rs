//! Everything that fuzzing found worth keeping, again, on the stable compiler: `fuzz/corpus/<target>/`.

#[path = "common/half.rs"]
mod half;
#[path = "common/script.rs"]
mod script;

use pinnace_core::Random;
use std::path::Path;

#[test]
fn every_input_of_the_corpora_is_handled() {
    //= Z-20 test
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
    for (name, target) in script::TARGETS {
        let folder = corpora.join(name);
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
}

#[test]
fn random_scripts_are_handled() {
    //= Z-20 test
    for seed in 0..3000 {
        let mut random = Random::from_seed(seed);
        let len = random.below(500);
        let bytes: Vec<u8> = (0..len).map(|_| random.next_u32() as u8).collect();
        for (name, target) in script::TARGETS {
            let result = std::panic::catch_unwind(|| target(&bytes));
            assert!(result.is_ok(), "{name} fails on seed {seed}");
        }
    }
}
