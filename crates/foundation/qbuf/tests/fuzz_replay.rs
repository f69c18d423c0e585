//! What fuzzing of channels found worth keeping, again, and inputs that nobody chose.

mod fuzz;

use pinnace_testing::corpus;

//= B-13 test
#[test]
fn a_channel_in_memory_that_others_write_to() {
    corpus::random("qbuf_channel", fuzz::channel, 1000, 1000);
    corpus::replay("qbuf_channel", fuzz::channel);
}
