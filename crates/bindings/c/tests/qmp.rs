//! QMP from C (specs/qmp.md, Q-12): `include/qmp.h` is what cbindgen makes of `src/qmp` today, and programs that use it compile
//! without a warning, run, and say what they should.
//!
//! `PINNACE_BLESS=1 cargo test -p pinnace-c --test qmp` writes the header anew.
//!
//= Q-1 test
//= Q-12 test

#[allow(dead_code, reason = "shared with other tests")]
mod support;

use support::{check, test_program};

#[test]
fn the_committed_header_is_up_to_date() {
    support::header_is_up_to_date("qmp.h", "cbindgen-qmp.toml", &["src/qmp/options.rs", "src/qmp/abi.rs"]);
}

fn check_c(program: &str, said: &str) {
    check(&test_program(program), "-std=c11", said);
}

#[test]
fn echo_on_sockets_that_block() {
    check_c("qmp_echo.c", "echoed on sockets that block\n");
}

#[test]
fn echo_on_sockets_that_do_not() {
    check_c("qmp_nonblocking.c", "echoed on sockets that do not block\n");
}

#[test]
fn a_loop_of_many_connections_and_a_pipe() {
    check_c("qmp_poll.c", "50 connections and a pipe in one loop\n");
}

#[test]
fn the_systems_poll_and_epoll() {
    check_c("qmp_system_poll.c", "poll and epoll understand the number\n");
}

#[test]
fn room_that_comes_while_others_receive() {
    check_c("qmp_room.c", "room is told\n");
}

#[test]
fn connections_that_are_established_while_others_receive() {
    check_c("qmp_established.c", "it is told that it is established\n");
}

#[test]
fn every_error_is_told() {
    check_c("qmp_errors.c", "every error was told\n");
}

#[test]
fn ends_of_connections() {
    check_c("qmp_ends.c", "every end is told\n");
}

#[test]
fn resets_in_the_middle_of_a_call() {
    check_c("qmp_resets.c", "every reset is told\n");
}

#[test]
fn messages_of_many_buffers() {
    check_c("qmp_vectors.c", "scattered and gathered\n");
}

#[test]
fn a_child_process() {
    check_c("qmp_fork.c", "parent and children do not meet\n");
}

#[test]
fn a_child_process_that_polls() {
    check_c("qmp_fork_poll.c", "each has its own");
}

#[test]
fn what_was_sent_before_the_exit_arrives() {
    check_c("qmp_exit.c", "all of it came after the exit\n");
}

#[test]
fn what_was_sent_before_the_exit_arrives_although_a_thread_waits() {
    check_c("qmp_exit_waiting.c", "all of it came although somebody waited\n");
}

#[test]
fn options_are_set_and_told() {
    check_c("qmp_options.c", "every option\n");
}

#[test]
fn a_peer_that_is_silent_for_too_long() {
    check_c("qmp_silence.c", "it is told how long it lasts\n");
}

#[test]
fn the_header_is_cpp_as_well() {
    check(&test_program("qmp_header.cpp"), "-std=c++11", "from C++\n");
}
