//! A1 from C (specs/a1.md, section 3): `include/a1.h` is what cbindgen makes of `src/a1` today, and programs that use it compile
//! without a warning, run, and say what they should.
//!
//! `PINNACE_BLESS=1 cargo test -p pinnace-c --test a1` writes the header anew.
//!
//= A-12 test
//= A-14 test
//= A-15 test
//= A-16 test
//= A-17 test
//= A-18 test
//= A-19 test
//= A-21 test
//= A-22 test

#[allow(dead_code, reason = "shared with other tests")]
mod support;

use support::{check, examples, test_program};

#[test]
fn the_committed_header_is_up_to_date() {
    support::header_is_up_to_date("a1.h", "cbindgen-a1.toml", &["src/a1/abi.rs"]);
}

fn check_c(program: &str, said: &str) {
    check(&test_program(program), "-std=c11", said);
}

#[test]
fn types_and_functions_are_the_specifications() {
    check_c("a1_layout.c", "as the specification has it\n");
}

#[test]
fn the_header_is_cpp_as_well() {
    check(&test_program("a1_header.cpp"), "-std=c++11", "as the specification has it\n");
}

#[test]
fn messages_between_two_processes() {
    check_c("a1_transfer.c", "200 messages each way\n");
}

#[test]
fn one_sender_and_three_sinks() {
    check_c("a1_cast.c", "three sinks, and one that came late\n");
}

#[test]
fn a_path_that_loses() {
    check_c("a1_lossy.c", "everything arrived, or was told to be lost\n");
}

#[test]
fn calls_that_do_not_wait() {
    check_c("a1_nonblocking.c", "nobody waited\n");
}

#[test]
fn room_that_comes_while_others_receive() {
    check_c("a1_room.c", "room is told\n");
}

#[test]
fn buffers_without_a_copy() {
    check_c("a1_buffers.c", "buffers came and went\n");
}

#[test]
fn a_loop_over_descriptors() {
    check_c("a1_poll.c", "20 connections and a listener in one loop\n");
}

#[test]
fn the_quality_of_service_changes() {
    check_c("a1_qos.c", "slower on demand\n");
}

//= A-11 test
#[test]
fn the_more_urgent_of_two_connections_goes_first() {
    check_c("a1_priority.c", "the urgent one first\n");
}

#[test]
fn every_error_is_told() {
    check_c("a1_errors.c", "every error was told\n");
}

#[test]
fn what_is_too_long_is_not_copied() {
    check_c("a1_huge.c", "nothing was copied\n");
}

#[test]
fn sockets_that_are_closed_while_threads_wait() {
    check_c("a1_closed.c", "who waits is told of the end\n");
}

#[test]
fn the_example_casts_and_listens() {
    check(&examples().join("a1.c"), "-std=c99", "pictures to 3 sinks");
}
