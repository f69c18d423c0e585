//! What one end says when the other is ended in the middle.

mod common;

use common::{Listening, pinnace, text, wait, wait_until_interruptible};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

const PROTOCOLS: [&str; 5] = ["zcrp", "vrp", "a1", "xtp", "qmp"];

/// Sends more than there is time for: one of QMP's connections, each of which carries a message and is gone, or whoever is
/// killed between two of them is missed by nobody.
fn send(protocol: &str, to: &str, large: &NamedTempFile) -> Child {
    let large = large.path().to_str().unwrap();
    let what: &[&str] = if protocol == "qmp" { &["--file", large] } else { &["--size", "30MB", "--count", "100000"] };
    let args = [&[protocol, "send", "--to", to, "--timeout", "2"], what].concat();
    pinnace(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A file of 4 GB of which nothing is on the disk.
fn large() -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(4_000_000_000).unwrap();
    file
}

#[test]
fn a_sender_says_that_the_listener_is_gone_however_it_ended() {
    let large = large();
    for protocol in PROTOCOLS {
        for signal in ["-INT", "-KILL"] {
            let mut listening = Listening::start(&[protocol, "listen", "127.0.0.1:0"]);
            let sender = send(protocol, &listening.address, &large);
            listening.wait_until_busy();
            listening.signal(signal);
            let output = sender.wait_with_output().unwrap();
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{protocol} {signal}: {error}");
            let is_named = error.contains(&*listening.address);
            let is_right = ["ended", "has not answered"].iter().any(|words| error.contains(words));
            let is_wrong = ["refuses", "was ended here", "no room"].iter().any(|words| error.contains(words));
            assert!(is_named && is_right && !is_wrong, "{protocol} {signal}: {error}");
        }
    }
}

#[test]
fn a_listener_that_nobody_reads_ends_as_after_sigpipe_and_its_sender_is_told() {
    let large = large();
    for protocol in PROTOCOLS {
        for json in [&[][..], &["--json"]] {
            let mut listening = Listening::start(&[&[protocol, "listen", "127.0.0.1:0"], json].concat());
            let sender = send(protocol, &listening.address, &large);
            let address = listening.address.clone();
            listening.wait_until_busy();
            listening.close_output();
            assert_eq!(listening.end(), (Some(141), String::new()), "{protocol} {json:?}");
            let output = sender.wait_with_output().unwrap();
            let error = text(&output.stderr);
            assert!(output.status.code() == Some(3) && error.contains(&address), "{protocol} {json:?}: {error}");
        }
        // Also if nobody has come.
        let mut listening = Listening::start(&[protocol, "listen", "127.0.0.1:0", "--count", "3"]);
        listening.close_output();
        assert_eq!(listening.end(), (Some(141), String::new()), "{protocol}");
    }
}

#[test]
fn a_netcat_whose_output_nobody_reads_ends_so_too() {
    for options in [&[][..], &["--keep"]] {
        ends_unread(options);
    }
}

fn ends_unread(options: &[&str]) {
    let mut listening = Listening::start(&[&["listen", "127.0.0.1:0", "--no-input"], options].concat());
    let mut endless = Command::new("cat").arg("/dev/zero").stdout(Stdio::piped()).spawn().unwrap();
    let mut connect = pinnace(&["connect", &listening.address]);
    let connect = connect.stdin(endless.stdout.take().unwrap()).stdout(Stdio::null()).stderr(Stdio::piped());
    let connect = connect.spawn().unwrap();
    listening.close_output();
    assert_eq!(listening.end(), (Some(141), String::new()));
    let output = connect.wait_with_output().unwrap();
    let _ = endless.kill();
    endless.wait().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}

#[test]
fn a_listener_misses_a_killed_sender_in_about_the_time_it_was_given() {
    let large = large();
    for protocol in PROTOCOLS {
        let mut listen = pinnace(&[protocol, "listen", "127.0.0.1:0", "--count", "100000", "--timeout", "2"]);
        let listening = Listening::of(listen.stdout(Stdio::null()));
        let mut sender = send(protocol, &listening.address, &large);
        listening.wait_until_busy();
        sender.kill().unwrap();
        sender.wait().unwrap();
        let killed = Instant::now();
        let (code, error) = listening.end();
        assert_eq!(code, Some(3), "{protocol}: {error}");
        // Twice the time, and as much again for a machine that is busy.
        assert!(killed.elapsed() < Duration::from_secs(8), "{protocol}, after {:?}: {error}", killed.elapsed());
    }
}

#[test]
fn a_sender_that_waits_for_its_input_misses_the_listener_and_hears_an_interrupt() {
    for protocol in ["xtp", "qmp"] {
        for (signal, code) in [("-KILL", 3), ("-INT", 130)] {
            let mut listening = Listening::start(&[protocol, "listen", "127.0.0.1:0"]);
            let args = [protocol, "send", "-", &listening.address, "--timeout", "1"];
            let mut sender = pinnace(&args).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut stdin = sender.stdin.take().unwrap();
            std::io::Write::write_all(&mut stdin, &[7; 1_000_000]).unwrap();
            std::thread::sleep(Duration::from_millis(500));
            if signal == "-KILL" {
                listening.kill();
            } else {
                let id = sender.id().to_string();
                assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
            }
            // The pipe stays open.
            let ended = wait(&mut sender);
            let error = text(&sender.wait_with_output().unwrap().stderr);
            assert_eq!(ended, Some(code), "{protocol} {signal}: {error}");
            drop(stdin);
        }
    }
}

#[test]
fn whoever_reads_a_whole_message_first_hears_an_interrupt_meanwhile() {
    for (protocol, is_service) in [("a1", false), ("xtp", false), ("xtp", true)] {
        let listening = Listening::start(&[protocol, "listen", "127.0.0.1:0"]);
        let to = &*listening.address;
        let args: &[&str] = if is_service { &["xtp", "transact", to] } else { &[protocol, "send", "-", to] };
        let mut sender = pinnace(args).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = sender.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, &[7; 1000]).unwrap();
        wait_until_interruptible(&sender);
        let id = sender.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        // The pipe stays open.
        let ended = wait(&mut sender);
        let error = text(&sender.wait_with_output().unwrap().stderr);
        assert_eq!(ended, Some(130), "{args:?}: {error}");
        drop(stdin);
    }
}

#[test]
fn a_listener_says_that_the_sender_is_gone_and_after_how_many_bytes() {
    for protocol in ["xtp", "qmp"] {
        for service in ["connection", "bulk-data"] {
            if protocol == "qmp" && service == "bulk-data" {
                continue;
            }
            let args = [protocol, "listen", "127.0.0.1:0", "--count", "100000", "--timeout", "1"];
            let listening = Listening::start(&args);
            let more: &[&str] = if protocol == "xtp" { &["--service", service] } else { &[] };
            let args = [&[protocol, "send", "-", &listening.address], more].concat();
            let mut sender = pinnace(&args).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let mut stdin = sender.stdin.take().unwrap();
            // More than the sender takes before anything has arrived.
            std::io::Write::write_all(&mut stdin, &[7; 30_000_000]).unwrap();
            std::thread::sleep(Duration::from_millis(500));
            let id = sender.id().to_string();
            assert!(Command::new("kill").args(["-KILL", &id]).status().unwrap().success());
            wait(&mut sender);
            let (code, error) = listening.end();
            assert_eq!(code, Some(3), "{protocol} {service}: {error}");
            let bytes = error.split("gone after ").nth(1).and_then(|rest| rest.split(' ').next());
            let bytes: u64 = bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
            assert!(bytes > 0 && !error.contains("firewall"), "{protocol} {service}: {error}");
        }
    }
}

#[test]
fn a_receiver_of_several_that_is_killed_is_not_called_slow() {
    let listen = || Listening::of(pinnace(&["listen", "127.0.0.1:0"]).stdout(Stdio::null()));
    let (first, mut second) = (listen(), listen());
    let mut source = Command::new("sh");
    source.args(["-c", "head -c 100000000 /dev/zero; sleep 2; head -c 900000000 /dev/zero"]);
    let mut source = source.stdout(Stdio::piped()).spawn().unwrap();
    let mut connect = pinnace(&["connect", &first.address, &second.address]);
    connect.stdin(source.stdout.take().unwrap()).stdout(Stdio::null()).stderr(Stdio::piped());
    let connect = connect.spawn().unwrap();
    second.wait_until_busy();
    second.kill();
    let output = connect.wait_with_output().unwrap();
    let _ = source.kill();
    source.wait().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains(&*second.address) && !error.contains("slow"), "{error}");
    assert!(error.contains("does not answer"), "{error}");
}
