//! VRP from C (specs/vrp.md, section 7): `include/vrp.h` is what cbindgen makes of `src/vrp` today, and programs that use it
//! compile without a warning, run, and say what they should.
//!
//! `PINNACE_BLESS=1 cargo test -p pinnace-c --test vrp` writes the header anew.
//!
//= V-R18 test
//= V-S4 test
//= V-S11 test
//= V-S12 test
//= V-S13 test

#[allow(dead_code, reason = "shared with other tests")]
mod support;

use support::{check, examples, test_program};

#[test]
fn the_committed_header_is_up_to_date() {
    support::header_is_up_to_date("vrp.h", "cbindgen-vrp.toml", &["src/vrp/abi.rs"]);
}

fn check_c(program: &str, said: &str) {
    check(&test_program(program), "-std=c99", said);
}

#[test]
fn the_papers_loop_of_select_and_callbacks() {
    check_c("vrp_loop.c", "60 frames in the loop\n");
}

#[test]
fn the_library_drives_itself() {
    check_c("vrp_self.c", "40 frames by themselves\n");
}

#[test]
fn a_handler_is_told_the_holes_exactly() {
    check_c("vrp_holes.c", "all holes are known\n");
}

#[test]
fn every_error_is_told() {
    check_c("vrp_errors.c", "every error was told\n");
}

#[test]
fn many_threads_slow_handlers_and_both_ways_to_drive() {
    check_c("vrp_threads.c", "all threads are content\n");
}

#[test]
fn types_and_functions_are_the_specifications() {
    check_c("vrp_layout.c", "as the specification has it\n");
}

#[test]
fn the_header_is_cpp_as_well() {
    check(&test_program("vrp_header.cpp"), "-std=c++11", "from C++\n");
}

#[test]
fn the_example_shows_a_picture() {
    check(&examples().join("vrp.c"), "-std=c99", "30 pictures, of which");
}
