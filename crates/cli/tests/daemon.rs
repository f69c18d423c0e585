//! `pinnace daemon`, as users run it.

mod common;

use common::{Listening, pinnace, run, text, wait, wait_until};
use pinnace::daemon::{Client, statistics};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts one, and waits until it serves: the process and what it said.
fn start(socket: &Path, more: &[&str]) -> (Child, String) {
    let mut child = pinnace(&["daemon", "--socket", socket.to_str().unwrap()])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut said: Box<dyn BufRead> = match more.contains(&"--json") {
        true => Box::new(BufReader::new(child.stdout.take().unwrap())),
        false => Box::new(BufReader::new(child.stderr.take().unwrap())),
    };
    let mut line = String::new();
    while !line.contains("serving") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended before it served");
    }
    (child, line)
}

fn signal(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn it_says_what_it_serves_and_ends_in_good_order() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("daemon.sock");
    for ending in ["-TERM", "-INT"] {
        let json: &[&str] = if ending == "-TERM" { &["--json"] } else { &[] };
        let (mut child, line) = start(&socket, &[&["--pool-size", "1MiB", "--block-size", "8KiB"], json].concat());
        if ending == "-TERM" {
            let said: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!((&said["event"], &said["pid"]), (&"serving".into(), &child.id().into()));
            assert_eq!((said["pool_bytes"].as_u64(), said["block_bytes"].as_u64()), (Some(1 << 20), Some(8192)));
        } else {
            let (pool, place) = ("1.0 MiB in 128 blocks of 8.0 KiB", socket.to_str().unwrap());
            assert!(line.contains(pool) && line.contains(place), "{line}");
        }
        let pool = statistics(&socket).unwrap().totals.pool;
        assert_eq!((pool.blocks, pool.block_bytes), (128, 8192));
        signal(&child, ending);
        assert_eq!(wait(&mut child), Some(0));
        assert!(!socket.exists());
    }
}

#[test]
fn a_group_that_is_named_may_use_it() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("daemon.sock");
    let group = rustix::process::getegid().as_raw().to_string();
    let mode = || std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777;
    for (more, expected) in
        [(&[][..], 0o600), (&["--group", &group], 0o660), (&["--group", &group, "--mode", "0670"], 0o670)]
    {
        let (mut child, _) = start(&socket, more);
        assert_eq!(mode(), expected, "{more:?}");
        signal(&child, "-TERM");
        assert_eq!(wait(&mut child), Some(0));
    }
    let refused = run(&["daemon", "--socket", socket.to_str().unwrap(), "--group", &group, "--mode", "0600"]);
    let error = text(&refused.stderr);
    assert!(refused.status.code() == Some(2) && error.contains("--mode 0600 does not let the group"), "{error}");
}

#[test]
fn a_second_one_names_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("daemon.sock");
    let (mut first, _) = start(&socket, &[]);
    let second = run(&["daemon", "--socket", socket.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains(&first.id().to_string()), "{}", text(&second.stderr));
    // What a killed one left is replaced.
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(socket.exists());
    let (mut third, _) = start(&socket, &[]);
    let client = Client::open(&socket).unwrap();
    signal(&third, "-TERM");
    assert_eq!(wait(&mut third), Some(0));
    wait_until("the client notices", || !client.is_alive());
}

#[test]
fn what_makes_no_sense_is_refused() {
    for arguments in [
        &["--mode", "0666"][..],
        &["--mode", "0660"],
        &["--mode", "rw"],
        &["--block-size", "5000"],
        &["--pool-size", "0"],
        &["--pool-size", "1TiB"],
        &["--group", "no such group"],
        &["--max-share", "0"],
        &["--max-clients", "0"],
        &["--slots", "1"],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("daemon.sock");
        let output = run(&[&["daemon", "--socket", socket.to_str().unwrap()], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(!socket.exists());
    }
}

/// `pinnace listen` and `pinnace connect` take shared memory by themselves where both have the daemon.
#[test]
fn what_is_on_one_host_goes_through_its_memory() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("daemon.sock");
    let (mut daemon, _) = start(&socket, &[]);
    let input: Vec<u8> = (0..3_000_000_u32).map(|at| b' ' + (at / 251 % 90) as u8).collect();
    let file = directory.path().join("input");
    std::fs::write(&file, &input).unwrap();
    let mut listen = pinnace(&["listen", "127.0.0.1:0"]);
    let listener = Listening::of(listen.env("PINNACE_DAEMON", &socket).stdout(Stdio::piped()));
    let mut connect = pinnace(&["connect", &listener.address, "--json"]);
    let sent = connect.env("PINNACE_DAEMON", &socket).stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    let errors = text(&sent.stderr);
    assert_eq!(sent.status.code(), Some(0), "{errors}");
    assert!(errors.contains("\"method\":\"shared-memory\""), "{errors}");
    let (code, out, err) = listener.finish();
    assert_eq!(code, Some(0), "{err}");
    assert!(out.as_bytes() == input, "{} bytes", out.len());
    signal(&daemon, "-TERM");
    assert_eq!(wait(&mut daemon), Some(0));
}
