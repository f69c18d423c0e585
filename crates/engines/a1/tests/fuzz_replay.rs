//! What fuzzing of A1 found worth keeping, again, and inputs that nobody chose.

mod fuzz;

use pinnace_testing::corpus;

#[test]
fn an_engine_between_liars() {
    corpus::random("a1_engine", fuzz::engine, 2000, 3000);
    corpus::replay("a1_engine", fuzz::engine);
}
