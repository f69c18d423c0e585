//! Remote service requests from C: `include/rsr.h` is what cbindgen makes of `src/rsr` today, and programs that use it
//! compile without a warning, run, and say what they should.
//!
//! `PINNACE_BLESS=1 cargo test -p pinnace-c --test rsr` writes the header anew.

#[allow(dead_code, reason = "shared with other tests")]
mod support;

use support::{check, test_program};

#[test]
fn the_committed_header_is_up_to_date() {
    support::header_is_up_to_date("rsr.h", "cbindgen-rsr.toml", &["src/rsr/abi.rs", "src/rsr/values.rs"]);
}

fn check_c(program: &str, said: &str) {
    check(&test_program(program), "-std=c99", said);
}

#[test]
fn two_processes_exchange_all_types_by_each_method() {
    let said = "10 requests answered by zcrp\n10 requests answered by vrp\n10 requests answered by pinnace\n";
    check_c("rsr_types.c", said);
}

#[test]
fn every_error_is_told() {
    check_c("rsr_errors.c", "every error was told\n");
}

#[test]
fn what_there_is_no_memory_for_is_an_error() {
    check_c("rsr_huge.c", "nothing was copied\n");
}

#[test]
fn a_handler_in_c_is_told_the_holes() {
    check_c("rsr_holes.c", "both ends know the holes\n");
}

#[test]
fn the_header_is_cpp_as_well() {
    check(&test_program("rsr_header.cpp"), "-std=c++11", "from C++\n");
}
