//! What fuzzing of ZCRP found worth keeping, again, and inputs that nobody chose.

#[path = "common/half.rs"]
mod half;
#[path = "common/script.rs"]
mod script;

use pinnace_testing::corpus;

#[test]
fn every_input_of_the_corpora_is_handled() {
    //= Z-20 test
    for (name, target) in script::TARGETS {
        corpus::replay(name, target);
    }
}

#[test]
fn random_scripts_are_handled() {
    //= Z-20 test
    for (name, target) in script::TARGETS {
        corpus::random(name, target, 3000, 500);
    }
}
