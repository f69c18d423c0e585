//! C programs against the library, shared and static: they compile without a warning, run, and say what they should.
//!
//= Z-1 test
//= Z-15 test
//= Z-16 test
//= Z-17 test
//= Z-19 test

#[allow(dead_code, reason = "shared with other tests")]
mod support;

use std::path::Path;
use std::process::Command;
use support::{Linkage, check, check_linked, compile, compiler, examples, library, root, run, test_program};

macro_rules! programs {
    ($($test:ident: $folder:expr, $file:literal, $said:literal;)*) => {
        $(#[test]
        fn $test() {
            check(&$folder.join($file), "-std=c99", $said);
        })*
    };
}

programs! {
    figure_1_of_the_paper: examples(), "figure1.c", "received message 5: 5000000 bytes, intact\n";
    a_loop_with_probe: examples(), "probe.c", "received 3000000 bytes";
    two_processes_over_unix_sockets: examples(), "unix.c", "received 50 messages";
    both_directions_on_one_descriptor: examples(), "duplex.c", "20 questions answered\n";
    every_error_is_told: examples(), "errors.c", "every error was told\n";
    a_killed_peer_is_reported: examples(), "peer_gone.c", "the receiver is gone\nthe sender is gone\n";
    descriptors_stay_as_they_are: examples(), "descriptors.c", "flags and options are as they were\n";
    handles_and_threads: examples(), "handles.c", "3 pairs exchanged 30 messages each\n";
    types_are_the_papers: root().join("tests/programs"), "layout.c", "as the paper has it\n";
    a_receiver_says_goodbye_at_exit: root().join("tests/programs"), "goodbye.c", "acknowledged three times\n";
    a_half_is_opened_again: root().join("tests/programs"), "reopen.c", "opened three times\n";
    ipv6_and_simplex_channels: root().join("tests/programs"), "ipv6.c", "over IPv6\n";
    a_child_process_starts_with_nothing: root().join("tests/programs"), "fork.c", "parent and children do not meet\n";
}

#[test]
fn nothing_of_a_parent_looks_like_a_leak_at_the_exit_of_a_child() {
    if support::sanitizes() {
        check_linked(&test_program("fork_exit.c"), "-std=c99", &[Linkage::Sanitized], &["nothing leaks\n"]);
    }
}

#[test]
fn the_header_is_cpp_as_well() {
    let Some(cxx) = compiler("CXX", "c++") else { return };
    let program = compile(&cxx, "-std=c++11", &test_program("header.cpp"), Linkage::Shared);
    let output = run(&program);
    assert!(output.status.success() && output.stdout == b"from C++\n", "{output:?}");
}

/// Every function of the headers is exported by the shared library, and nothing else is.
#[test]
fn only_the_interface_is_exported() {
    let library = &library().shared;
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output() else {
        pinnace_testing::skip::program("there is no `nm`");
        return;
    };
    assert!(output.status.success(), "nm fails");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut exported: Vec<_> = text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    exported.sort_unstable();
    let headers = std::fs::read_dir(root().join("include")).expect("the headers");
    let read = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(entry?.path());
    let headers: String = headers.map(|entry| read(entry).expect("a header")).collect();
    let mut declared: Vec<_> = headers.lines().filter_map(declared_function).collect();
    declared.sort_unstable();
    assert!(declared.len() > 20 && declared.contains(&"zcrp_recv"), "{declared:?}");
    assert_eq!(exported, declared);
}

/// The function that a line of a header declares.
fn declared_function(line: &str) -> Option<&str> {
    let (before, _) = line.split_once('(').filter(|_| !line.starts_with([' ', '/', '#']))?;
    before.rsplit([' ', '*']).next().filter(|name| {
        let prefixes = ["zcrp_", "vrp_", "rsr_", "xtp_", "qmp_", "qb_", "qbuf_", "a1_", "pinnace_"];
        prefixes.iter().any(|prefix| name.starts_with(prefix)) || ["xoutput", "xf_input", "xd_input"].contains(name)
    })
}

#[test]
fn the_package_description_is_complete() {
    let template = std::fs::read_to_string(root().join("pinnace.pc.in")).expect("pinnace.pc.in");
    let text = template
        .replace("@prefix@", "/usr")
        .replace("@libdir@", "/usr/lib")
        .replace("@includedir@", "/usr/include/pinnace")
        .replace("@version@", env!("CARGO_PKG_VERSION"));
    assert!(!text.contains('@'), "{text}");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pkgconfig");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("pinnace.pc"), text).expect("a file");
    let asked = Command::new("pkg-config")
        .env("PKG_CONFIG_PATH", &folder)
        .args(["--static", "--libs", "--cflags", "pinnace"])
        .output();
    let Ok(output) = asked else {
        pinnace_testing::skip::program("there is no `pkg-config`");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("-lpinnace") && said.contains("-lpthread"), "{output:?}");
}
