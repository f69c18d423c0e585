//! QBUF from C (specs/qbuf.md, B-15): `include/qbuf.h` is what cbindgen makes of `src/qbuf` today, and programs that use it
//! compile without a warning, run, and say what they should.
//!
//! `PINNACE_BLESS=1 cargo test -p pinnace-c --test qbuf` writes the header anew.
//!
//= B-6 test
//= B-10 test
//= B-14 test
//= B-15 test
//= Q-10 test

#[allow(dead_code, reason = "shared with other tests")]
mod support;

use support::{check, examples, test_program};

#[test]
fn the_committed_header_is_up_to_date() {
    support::header_is_up_to_date("qbuf.h", "cbindgen-qbuf.toml", &["src/qbuf/abi.rs"]);
}

fn check_c(program: &str, said: &str) {
    check(&test_program(program), "-std=c11", said);
}

#[test]
fn types_and_functions_are_the_specifications() {
    check_c("qbuf_layout.c", "as the specification has it\n");
}

#[test]
fn ping_pong_between_two_processes() {
    check_c("qbuf_pingpong.c", "the same buffers went to and fro\n");
}

#[test]
fn every_error_is_told() {
    check_c("qbuf_errors.c", "every error was told\n");
}

#[test]
fn use_after_passing_faults_in_debug_mode() {
    check_c("qbuf_debug.c", "every use after passing was caught\n");
}

#[test]
fn buffers_over_a_qmp_socket() {
    check_c("qbuf_socket.c", "sent and received without a copy\n");
}

#[test]
fn threads_that_write_to_one_socket() {
    check_c("qbuf_threads.c", "what is refused is given back\n");
}

#[test]
fn a_reset_while_there_is_no_memory() {
    check_c("qbuf_memory.c", "no memory, and then a reset\n");
}

#[test]
fn a_peer_that_dies_while_nobody_waits() {
    check_c("qbuf_life.c", "the dead are missed\n");
}

#[test]
fn a_pool_that_is_closed_while_threads_wait() {
    check_c("qbuf_close.c", "who waits is told of the end\n");
}

#[test]
fn a_peer_that_dies() {
    check_c("qbuf_death.c", "nothing is lost when a peer dies\n");
}

#[test]
fn the_header_is_cpp_as_well() {
    check(&test_program("qbuf_header.cpp"), "-std=c++11", "from C++\n");
}

#[test]
fn the_example_passes_pictures() {
    check(&examples().join("qbuf.c"), "-std=c11", "100 pictures");
}

#[test]
fn the_example_is_an_echo_server() {
    check(&examples().join("qmp.c"), "-std=c11", "5 clients");
}
