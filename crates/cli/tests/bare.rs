//! What `listen` and `send` of every protocol have in common: a file or standard input, to an address, without a word more.

mod common;

use common::{Listening, pinnace, run, text};
use std::process::{Command, Stdio};

/// SHA-256 of `abc`.
const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn a_file_and_standard_input_are_sent_to_an_address() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "abc").unwrap();
    let path = file.path().to_str().unwrap();
    for protocol in ["zcrp", "vrp", "xtp", "qmp", "a1"] {
        for source in [path, "-"] {
            let listening = Listening::start(&[protocol, "listen", "127.0.0.1:0", "--count", "1"]);
            // A pipe, which does not say how much is in it.
            let mut cat = Command::new("cat").arg(path).stdout(Stdio::piped()).spawn().unwrap();
            let mut send = pinnace(&[protocol, "send", source, &listening.address]);
            let sent = send.stdin(cat.stdout.take().unwrap()).output().unwrap();
            cat.wait().unwrap();
            assert!(sent.status.success(), "{protocol}: {}", text(&sent.stderr));
            let (code, out, _) = listening.finish();
            assert_eq!((code, out), (Some(0), format!("message 3 bytes {HASH}\n")), "{protocol} {source}");
        }
    }
}

#[test]
fn who_says_too_little_or_too_much_is_told_what_would_be_right() {
    for protocol in ["zcrp", "vrp", "xtp", "qmp", "a1"] {
        for (args, part) in [
            (&["listen"][..], "[HOST:]PORT"),
            (&["send"], "FILE HOST:PORT"),
            (&["send", "/dev/null"], "FILE HOST:PORT"),
            (&["send", "/dev/null", "127.0.0.1:1", "more"], "HOST:PORT"),
            (&["send", "/no/such/file", "127.0.0.1:1"], "/no/such/file"),
            (&["send", "-", "127.0.0.1:1", "--count", "2"], "standard input can be read only once"),
        ] {
            let output = run(&[&[protocol], args].concat());
            let error = text(&output.stderr);
            let is_told = matches!(output.status.code(), Some(1 | 2)) && error.contains(part);
            assert!(is_told && output.stdout.is_empty(), "{protocol} {args:?}: {error}");
        }
    }
}

#[test]
fn a_folder_is_named_as_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().to_str().unwrap();
    for protocol in ["zcrp", "vrp", "xtp", "qmp", "a1"] {
        for args in [&["send", name, "127.0.0.1:7"][..], &["send", "--file", name, "--to", "127.0.0.1:7"]] {
            let output = run(&[&[protocol], args].concat());
            let error = text(&output.stderr);
            let is_told = error.contains(&format!("{name} is a folder")) && error.contains("`pinnace send`");
            assert!(output.status.code() == Some(2) && is_told, "{protocol} {args:?}: {error}");
        }
    }
}

#[test]
fn nothing_cannot_be_waited_for_and_not_be_sent() {
    for protocol in ["zcrp", "vrp", "xtp", "qmp", "a1"] {
        for args in [
            &["listen", "127.0.0.1:0", "--count", "0"][..],
            &["send", "--size", "5", "--to", "127.0.0.1:1", "--count", "0"],
        ] {
            let output = run(&[&[protocol], args].concat());
            let error = text(&output.stderr);
            assert!(output.status.code() == Some(2) && error.contains("--count"), "{protocol} {args:?}: {error}");
        }
    }
}

/// Its size is 0, and an empty message would be what arrives.
#[test]
fn a_file_that_only_says_that_it_is_empty_is_not_sent() {
    for protocol in ["zcrp", "vrp", "xtp", "qmp", "a1"] {
        let sent = run(&[protocol, "send", "/proc/version", "127.0.0.1:9"]);
        let error = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(1), "{protocol}: {error}");
        assert!(error.contains("/proc/version has content"), "{protocol}: {error}");
    }
}
