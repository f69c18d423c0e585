//! Files that somebody makes shorter while they are sent.

mod common;

use common::{Listening, pinnace, text};
use std::fs::File;
use std::process::Stdio;

/// Sends `path` until it is cut off, and says how that ended.
fn cut(path: &std::path::Path, listening: &Listening, args: &[&str]) -> (Option<i32>, String) {
    File::create(path).unwrap().set_len(30_000_000).unwrap();
    let send = pinnace(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    listening.wait_until_busy();
    File::options().write(true).open(path).unwrap().set_len(1000).unwrap();
    let output = send.wait_with_output().unwrap();
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_file_that_is_cut_off_while_it_is_sent_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("growing.log");
    let name = path.to_str().unwrap();
    for protocol in ["zcrp", "vrp", "a1", "xtp", "qmp"] {
        for more in [&[][..], &["--json"]] {
            let listening = Listening::start(&[protocol, "listen", "127.0.0.1:0"]);
            let args = [&[protocol, "send", name, &listening.address, "--count", "100000"], more].concat();
            let (code, error) = cut(&path, &listening, &args);
            let is_told = error.contains("growing.log changed while it was being sent");
            assert!(code == Some(1) && is_told && error.lines().count() == 1, "{args:?}: {code:?} {error}");
        }
    }
}

#[test]
fn a_file_of_a_transfer_that_is_cut_off_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("growing.log");
    let (name, dir) = (path.to_str().unwrap(), folder.path().join("in"));
    let listening = Listening::start(&["recv", "--bind", "127.0.0.1:0", "--dir", dir.to_str().unwrap()]);
    // So many others that it is not over before the file is cut off.
    let others = folder.path().join("others");
    std::fs::create_dir(&others).unwrap();
    for number in 0..40 {
        File::create(others.join(format!("a{number}"))).unwrap().set_len(30_000_000).unwrap();
    }
    let args = ["send", others.to_str().unwrap(), name, &listening.address];
    let (code, error) = cut(&path, &listening, &args);
    assert!(code == Some(1) && error.contains("growing.log changed while it was being sent"), "{code:?} {error}");
}
