//! Folders of many small files.

mod common;

use common::{Listening, pinnace, short_of_descriptors, text, wait};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A folder of 300 small files.
fn many(top: &Path) -> PathBuf {
    let folder = top.join("many");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..300 {
        std::fs::write(folder.join(number.to_string()), number.to_string()).unwrap();
    }
    folder
}

/// All of them are there.
fn have_arrived(top: &Path) {
    for number in 0..300 {
        let file = top.join("many").join(number.to_string());
        assert_eq!(std::fs::read_to_string(file).unwrap(), number.to_string());
    }
}

#[test]
fn a_sender_of_many_files_makes_do_with_few_descriptors() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = many(from.path());
    let receiving =
        Listening::start(&["recv", "--bind", "127.0.0.1:0", "--once", "--dir", to.path().to_str().unwrap()]);
    let args = ["send", folder.to_str().unwrap(), &receiving.address];
    let sent = short_of_descriptors(64, &args).output().unwrap();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert_eq!(receiving.finish().0, Some(0));
    have_arrived(to.path());
}

#[test]
fn a_receiver_of_many_files_makes_do_with_few_descriptors() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = many(from.path());
    let receive = ["recv", "--bind", "127.0.0.1:0", "--once", "--dir", to.path().to_str().unwrap()];
    let receiving = Listening::of(short_of_descriptors(128, &receive).stdout(Stdio::piped()));
    let sent = pinnace(&["send", folder.to_str().unwrap(), &receiving.address]).output().unwrap();
    let (code, _, err) = receiving.finish();
    assert_eq!((code, sent.status.code()), (Some(0), Some(0)), "{err}{}", text(&sent.stderr));
    have_arrived(to.path());
}

#[test]
fn a_file_that_is_removed_before_its_turn_is_left_out_and_all_else_arrives() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = from.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    // More warnings than a pipe holds: whoever does not read them holds up the sender in the middle of its list.
    for number in 0..2000 {
        std::os::unix::fs::symlink("/", folder.join(format!("link {number:0100}"))).unwrap();
    }
    for name in ["a", "y", "z"] {
        std::fs::write(folder.join(name), name).unwrap();
    }
    std::fs::create_dir(folder.join("zz")).unwrap();
    let receiving =
        Listening::start(&["recv", "--bind", "127.0.0.1:0", "--once", "--dir", to.path().to_str().unwrap()]);
    let args = ["send", folder.to_str().unwrap(), &receiving.address];
    let mut sender = pinnace(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut errors = BufReader::new(sender.stderr.take().unwrap());
    errors.read_line(&mut said).unwrap();
    std::fs::remove_file(folder.join("y")).unwrap();
    std::fs::remove_dir(folder.join("zz")).unwrap();
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(wait(&mut sender), Some(1), "{said}");
    let last: Vec<&str> = said.lines().rev().take(3).collect();
    assert!(last[0].contains("came: 2 of what the folders had, first ") && last[0].contains("folder/y;"), "{last:?}");
    assert!(last[1].contains("folder/zz: it was removed") && last[2].contains("folder/y: it was removed"), "{last:?}");
    assert_eq!(receiving.finish().0, Some(0));
    let mut arrived: Vec<_> =
        std::fs::read_dir(to.path().join("folder")).unwrap().map(|file| file.unwrap().file_name()).collect();
    arrived.sort();
    assert_eq!(arrived, ["a", "z"]);
}
