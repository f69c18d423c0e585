//! Where results go: a reader that has gone away is no failure, a disk that is full is one.

mod common;

use common::{Listening, pinnace, run, text, wait};
use std::fs::File;
use std::process::{Command, Stdio};

/// Every write to it fails for want of room.
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("Linux").into()
}

fn is_told(code: Option<i32>, error: &str, what: &str) {
    let is_told = error.contains("standard output") && error.contains("No space left");
    assert!(code == Some(1) && is_told && error.lines().count() == 1, "{what}: {code:?} {error}");
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    for args in [
        &["completion", "bash"][..],
        &["doctor"],
        &["doctor", "--json"],
        &["explain", "loss=5%"],
        &["sim", "--count", "1", "--size", "1KiB"],
    ] {
        let output = pinnace(args).stdout(full()).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        is_told(output.status.code(), &text(&output.stderr), &format!("{args:?}"));
    }
}

#[test]
fn what_was_sent_or_came_is_not_lost_in_silence() {
    for protocol in ["zcrp", "vrp", "a1", "xtp", "qmp"] {
        let listening = Listening::start(&[protocol, "listen", "127.0.0.1:0", "--count", "1"]);
        let mut send = pinnace(&[protocol, "send", "--json", "--size", "5", "--to", &listening.address]);
        let output = send.stdout(full()).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains("standard output"), "{protocol} send: {error}");
        listening.finish();

        // One that goes on until Ctrl-C ends too: whatever comes would be lost.
        let listening = Listening::of(pinnace(&[protocol, "listen", "127.0.0.1:0"]).stdout(full()));
        run(&[protocol, "send", "--size", "5", "--to", &listening.address, "--timeout", "1"]);
        let (code, error) = listening.end();
        is_told(code, &error, &format!("{protocol} listen"));
    }
}

#[test]
fn a_response_that_cannot_be_written_is_an_error() {
    let listening = Listening::start(&["xtp", "listen", "127.0.0.1:0", "--respond", "echo", "--count", "1"]);
    let mut transact = pinnace(&["xtp", "transact", &listening.address, "--size", "5"]);
    let output = transact.stdout(full()).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    is_told(output.status.code(), &text(&output.stderr), "transact");
}

#[test]
fn a_file_transfer_whose_report_is_lost_fails() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let recv = ["recv", "--bind", "127.0.0.1:0", "--dir", dir, "--once"];
    let listening = Listening::of(pinnace(&recv).stdout(full()));
    let mut send = pinnace(&["send", "Cargo.toml", &listening.address]);
    let output = send.stdout(full()).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    is_told(output.status.code(), &text(&output.stderr), "send");
    let (code, error) = listening.end();
    assert!(code == Some(1) && error.contains("standard output"), "recv: {error}");
}

#[test]
fn a_reader_that_has_gone_away_is_no_failure() {
    for args in [&["completion", "bash"][..], &["doctor"]] {
        let mut head = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let gone = head.stdin.take().unwrap();
        assert_eq!(wait(&mut head), Some(0));
        let output = pinnace(args).stdout(gone).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_capture_that_is_not_whole_is_an_error() {
    for protocol in ["zcrp", "vrp", "a1", "xtp", "qmp"] {
        let listening = Listening::start(&[protocol, "listen", "127.0.0.1:0", "--count", "1"]);
        let sent = run(&[protocol, "send", "--size", "5", "--to", &listening.address, "--pcap", "/dev/full"]);
        let error = text(&sent.stderr);
        assert!(sent.status.code() == Some(1) && error.contains("capture /dev/full"), "{protocol}: {error}");
    }
}
