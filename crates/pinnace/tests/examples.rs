//! Runs the programs of `examples/rust`: what the documentation shows works.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Where cargo puts the examples of this crate, which it builds together with its tests.
fn program(name: &str) -> PathBuf {
    let mut folder = std::env::current_exe().expect("a test has a path");
    folder.pop();
    folder.pop();
    let program = folder.join("examples").join(name);
    if !program.exists() {
        // Only this test was asked for (`cargo test --test examples`).
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "pinnace", "--example", name]);
        if folder.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success(), "{name} cannot be built");
    }
    program
}

/// Runs a program that must end, well and soon.
fn run(name: &str) -> String {
    let mut child = Command::new(program(name))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let begin = Instant::now();
    while child.try_wait().expect("a child can be waited for").is_none() {
        if begin.elapsed() > Duration::from_secs(60) {
            let _ = child.kill();
            panic!("{name} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let Output { status, stdout, stderr } = child.wait_with_output().expect("a child can be waited for");
    assert!(status.success(), "{name}: {status}\n{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("text")
}

#[test]
fn the_first_message_arrives() {
    assert!(run("01_first_message").contains("received \"ahoy\""));
    assert!(run("zcrp_first_message").contains("received \"ahoy\""));
}

#[test]
fn many_messages_under_way_arrive() {
    let output = run("02_many_under_way");
    assert!(output.contains("65536000 bytes received\n") && output.contains("Gbit/s"), "{output}");
    let output = run("zcrp_many_under_way");
    assert!(output.contains("messages_received 1000\n") && output.contains("Gbit/s"), "{output}");
}

#[test]
fn futures_complete() {
    for name in ["03_async", "zcrp_async"] {
        assert_eq!(run(name), "received [\"ahoy\", \"who goes there?\", \"a pinnace\"]\n");
    }
}

#[test]
fn a_file_arrives_in_a_file() {
    for name in ["04_mapped_files", "zcrp_mapped_files"] {
        assert!(run(name).contains("8388608 bytes from "));
    }
}

#[test]
fn a_server_answers() {
    for name in ["05_two_way", "zcrp_two_way"] {
        assert_eq!(run(name), "ahoy -> AHOY\nmizzen mast -> MIZZEN MAST\nkeel -> KEEL\n");
    }
}

#[test]
fn pictures_arrive_with_holes() {
    for name in ["06_frames_with_holes", "vrp_frames_with_holes"] {
        let output = run(name);
        assert!(output.contains("bytes are missing, all within the contract"), "{output}");
    }
}

#[test]
fn transactions_are_answered_and_lines_counted() {
    let output = run("07_transactions");
    let answers = ["ahoy -> AHOY\n", "mizzen mast -> MIZZEN MAST\n", "keel -> KEEL\n"];
    assert!(answers.iter().all(|answer| output.contains(answer)), "{output}");
    let output = run("xtp_transactions");
    assert!(output.contains("ahoy -> AHOY\nmizzen mast -> MIZZEN MAST\n"), "{output}");
    assert!(output.contains("line 2: away\n") && output.ends_with("answer: 2 lines\n"), "{output}");
}
