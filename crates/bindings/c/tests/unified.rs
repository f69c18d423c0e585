//! The one interface from C: `include/pinnace.h` is what cbindgen makes of `src/unified` today, and programs that use it
//! compile without a warning as C99 and as C++17, run, and say what they should.
//!
//! `PINNACE_BLESS=1 cargo test -p pinnace-c --test unified` writes the header anew; once more, and the manual page.

mod manual;
#[allow(dead_code, reason = "shared with other tests")]
mod support;

use support::{Linkage, check, check_linked, examples, header_is_up_to_date, root, test_program};

const SOURCES: [&str; 6] = ["types", "abi", "receivers", "connections", "sending", "receiving"];

#[test]
fn the_committed_header_is_up_to_date() {
    let sources = SOURCES.map(|name| format!("src/unified/{name}.rs"));
    header_is_up_to_date("pinnace.h", "cbindgen-pinnace.toml", &sources.each_ref().map(String::as_str));
}

/// `docs/man/pinnace.h.3` is made of the header; `PINNACE_BLESS=1` writes it.
#[test]
fn the_manual_page_is_up_to_date() {
    let header = std::fs::read_to_string(root().join("include/pinnace.h")).expect("a header");
    let page = manual::page(&header, env!("CARGO_PKG_VERSION"));
    let path = root().join("../../../docs/man/pinnace.h.3");
    if std::env::var_os("PINNACE_BLESS").is_some() {
        std::fs::write(&path, &page).expect("a page to write");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == page, "docs/man/pinnace.h.3 is not what the header says: run with PINNACE_BLESS=1");
}

#[test]
fn the_header_says_the_librarys_version() {
    let header = std::fs::read_to_string(root().join("include/pinnace.h")).expect("a header");
    let version = format!("#define PINNACE_VERSION \"{}\"\n", env!("CARGO_PKG_VERSION"));
    assert!(header.contains(&version), "cbindgen-pinnace.toml has another version than Cargo.toml");
}

/// Every function has a description that says what it returns or is a sentence; none is left to be guessed.
#[test]
fn every_function_is_described() {
    let header = std::fs::read_to_string(root().join("include/pinnace.h")).expect("a header");
    let lines: Vec<&str> = header.lines().collect();
    let is_function =
        |line: &str| line.contains("pinnace_") && line.contains('(') && !line.starts_with([' ', '/', '#']);
    let mut functions = 0;
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_function(line)) {
        assert_eq!(lines[at - 1], " */", "{line} is not described");
        functions += 1;
    }
    assert!(functions >= 40, "{functions} functions");
}

fn program(name: &str, said: &[&str]) {
    check_linked(&test_program(name), "-std=c99", &[Linkage::Shared], said);
}

fn example(name: &str, said: &[&str]) {
    check_linked(&examples().join(name), "-std=c99", &[Linkage::Shared], said);
}

#[test]
fn a_contract_holds_through_c() {
    program("unified_contract.c", &["within the contract\n", "per message\n"]);
}

#[test]
fn one_loop_waits_on_two_connections_and_a_listener() {
    program("unified_poll.c", &["both ended\n"]);
}

#[test]
fn nothing_looks_like_a_leak_at_the_exit() {
    if support::sanitizes() {
        check_linked(&test_program("unified_at_exit.c"), "-std=c99", &[Linkage::Sanitized], &["all is closed\n"]);
    }
}

#[test]
fn what_is_misused_is_an_error() {
    program("unified_misuse.c", &["every error was told\n"]);
}

#[test]
fn what_is_too_long_is_not_copied() {
    program("unified_huge.c", &["nothing was copied\n"]);
}

#[test]
fn nobody_listens_where_many_hosts_are() {
    program("unified_many_hosts.c", &["nobody listens there\n"]);
}

#[test]
fn whoever_is_gone_is_told_by_the_same_number_whatever_the_method() {
    program("unified_gone.c", &["all say the same\n"]);
}

#[test]
fn memory_is_lent_until_its_completion() {
    program("unified_completions.c", &["all memory came back\n"]);
}

#[test]
fn who_is_overtaken_is_missed_and_late() {
    program("unified_late.c", &["missed, and late\n"]);
}

#[test]
fn a_response_belongs_to_its_request() {
    program("unified_transact.c", &["each its own\n"]);
}

#[test]
fn whoever_waits_for_a_turn_waits_no_longer_than_he_said() {
    program("unified_turns.c", &["nobody waited longer\n"]);
}

#[test]
fn a_queue_that_is_full_is_told() {
    program("unified_full.c", &["zcrp xtp qmp a1 are full at last\n"]);
}

#[test]
fn what_a_close_gives_up_comes_back() {
    program("unified_given_up.c", &["zcrp xtp qmp a1 gave up\n", "no descriptors are left\n"]);
}

#[test]
fn one_source_sends_to_several() {
    let said = ["all three have everything\n", "one left, one was too slow\n", "whoever comes last has everything\n"];
    program("unified_receivers.c", &said);
}

#[test]
fn every_method_does_the_same() {
    program("unified_methods.c", &["zcrp vrp xtp qmp a1\n"]);
}

#[test]
fn the_header_is_cpp_as_well() {
    check(&test_program("unified_header.cpp"), "-std=c++17", "from C++\n");
}

#[test]
fn the_first_message_arrives() {
    check(&examples().join("01_first_message.c"), "-std=c99", "received ahoy by ");
}

#[test]
fn the_numbered_examples_run() {
    example("02_many_under_way.c", &["1000 messages of 65536 bytes arrived\n"]);
    example("03_events.c", &["received 3 messages"]);
    example("04_mapped_files.c", &["the files are the same\n"]);
    example("05_two_way.c", &["ahoy -> AHOY\n", "keel -> KEEL\n"]);
    example("06_frames_with_holes.c", &["all within the contract\n"]);
    example("07_transactions.c", &["mizzen mast -> MIZZEN MAST\n"]);
}

/// The README's program is the first example without its comments, and has 15 lines.
#[test]
fn the_first_program_is_short() {
    let text = std::fs::read_to_string(examples().join("01_first_message.c")).expect("an example");
    let mut code = 0;
    let mut in_comment = false;
    for line in text.lines() {
        in_comment |= line.trim_start().starts_with("/*");
        code += usize::from(!in_comment && !line.trim().is_empty());
        in_comment &= !line.trim_end().ends_with("*/");
    }
    assert!(code <= 15, "{code} lines");
}
