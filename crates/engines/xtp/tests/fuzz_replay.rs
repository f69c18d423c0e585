//! What fuzzing of XTP found worth keeping, again, and inputs that nobody chose.

mod fuzz;

use pinnace_testing::corpus;

//= X-2 test
//= X-20 test
#[test]
fn an_engine_between_liars() {
    corpus::random("xtp_engine", fuzz::engine, 2000, 3000);
    corpus::replay("xtp_engine", fuzz::engine);
}
