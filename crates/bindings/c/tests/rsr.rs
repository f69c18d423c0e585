//! Remote service requests from C: `include/rsr.h` is what cbindgen makes of `src/rsr` today, and programs that use it
//! compile without a warning, run, and say what they should.
//!
//! `PINNACE_BLESS=1 cargo test -p pinnace-c --test rsr` writes the header anew.

#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

#[allow(dead_code, reason = "shared with other tests")]
mod support;

use support::{Linkage, compile, compiler, root, run};

#[test]
fn the_committed_header_is_up_to_date() {
    let config = cbindgen::Config::from_file(root().join("cbindgen-rsr.toml")).expect("cbindgen-rsr.toml");
    let made = cbindgen::Builder::new()
        .with_src(root().join("src/rsr/abi.rs"))
        .with_src(root().join("src/rsr/values.rs"))
        .with_config(config)
        .generate()
        .expect("a header of src/rsr");
    let mut text = Vec::new();
    made.write(&mut text);
    let text = String::from_utf8(text).expect("text");
    let path = root().join("include/rsr.h");
    if std::env::var_os("PINNACE_BLESS").is_some() {
        std::fs::write(&path, &text).expect("a header to write");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "include/rsr.h is not what src/rsr says: run with PINNACE_BLESS=1 and look at it");
}

fn check(program: &str, variable: &str, compilers: &str, standard: &str, said: &str) {
    let Some(compiler) = compiler(variable, compilers) else { return };
    for linkage in [Linkage::Shared, Linkage::Static] {
        let output = run(&compile(&compiler, standard, &root().join("tests/programs").join(program), linkage));
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && stdout.contains(said),
            "{program}, {linkage:?}: {}\n{stdout}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn two_processes_exchange_all_types_by_each_method() {
    let said = "10 requests answered by zcrp\n10 requests answered by vrp\n10 requests answered by pinnace\n";
    check("rsr_types.c", "CC", "cc", "-std=c99", said);
}

#[test]
fn every_error_is_told() {
    check("rsr_errors.c", "CC", "cc", "-std=c99", "every error was told\n");
}

#[test]
fn a_handler_in_c_is_told_the_holes() {
    check("rsr_holes.c", "CC", "cc", "-std=c99", "both ends know the holes\n");
}

#[test]
fn the_header_is_cpp_as_well() {
    check("rsr_header.cpp", "CXX", "c++", "-std=c++11", "from C++\n");
}
