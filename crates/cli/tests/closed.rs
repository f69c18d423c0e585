//! What a sender says if nobody listens: at once, where the other host says that the port is closed.

mod common;

use common::{pinnace, run, text, wait};
use std::io::Read;
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Where nobody listens.
fn closed() -> String {
    pinnace_testing::ports::nobody().to_string()
}

/// Something to send.
fn content() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [7; 10_000]).unwrap();
    file
}

#[test]
fn a_closed_port_is_reported_at_once() {
    let to = &*closed();
    let file = content();
    let file = file.path().to_str().unwrap();
    for (args, listener) in [
        (&["zcrp", "send", "--size", "1000", "--to", to][..], "zcrp listen"),
        (&["zcrp", "send", "--size", "3MB", "--count", "9", "--to", to], "zcrp listen"),
        (&["vrp", "send", "--size", "1000", "--to", to], "vrp listen"),
        (&["vrp", "send", "--size", "3MB", "--count", "9", "--to", to], "vrp listen"),
        (&["a1", "send", "--size", "1000", "--to", to], "a1 listen"),
        (&["a1", "send", "--size", "3MB", "--count", "9", "--to", to, "--mode", "raw"], "a1 listen"),
        (&["xtp", "send", "--size", "1000", "--to", to], "xtp listen"),
        (&["qmp", "send", "--size", "1000", "--to", to], "qmp listen"),
        (&["send", file, to], "recv"),
        (&["cast", file, "--rate", "1mbit", "--to", to], "tune"),
        (&["stream", "send", "--size", "1000", "--count", "3", "--to", to], "stream recv"),
    ] {
        let begun = Instant::now();
        let output = run(&[args, &["--timeout", "50"]].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{args:?}: {:?}", begun.elapsed());
        let last = error.lines().last().unwrap_or_default();
        let is_told = last.contains("nobody") && last.contains(to) && last.contains(&format!("`pinnace {listener}`"));
        assert!(is_told, "{args:?}: {error}");
    }
}

/// The reports of the other host count although they come before a listener that was begun with the sender might be there.
#[test]
fn a_closed_port_is_named_also_by_who_waits_for_a_short_time() {
    let to = &*closed();
    let file = content();
    let file = file.path().to_str().unwrap();
    for (args, listener) in [
        (&["send", file, to, "--timeout", "1"][..], "recv"),
        (&["send", file, to, "--timeout", "0.3"], "recv"),
        (&["zcrp", "send", "--size", "1000", "--to", to, "--timeout", "0.5"], "zcrp listen"),
        (&["vrp", "send", "--size", "1000", "--to", to, "--timeout", "0.5"], "vrp listen"),
        (&["vrp", "send", "--size", "1000", "--to", to, "--give-up-after", "300ms"], "vrp listen"),
        (&["stream", "send", "--size", "1000", "--count", "3", "--to", to, "--timeout", "0.5"], "stream recv"),
    ] {
        let output = run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {error}");
        let last = error.lines().last().unwrap_or_default();
        let said = [&format!("nobody answers at {to}"), "its UDP port is closed", &format!("`pinnace {listener}`")];
        assert!(said.iter().all(|said| last.contains(said)), "{args:?}: {error}");
        // The options that it names are the listener's.
        let listener: Vec<&str> = listener.split(' ').collect();
        let help = text(&run(&[&listener, &["--help"][..]].concat()).stdout);
        let words = last.split(|letter: char| letter != '-' && !letter.is_ascii_lowercase());
        for option in words.filter(|word| word.starts_with("--")) {
            assert!(help.contains(option), "{listener:?} has no {option}: {error}");
        }
    }
    // Where the network reports nothing, there is no answer, and that is said.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = &*silent.local_addr().unwrap().to_string();
    for args in [
        &["send", file, to, "--timeout", "0.3"][..],
        &["zcrp", "send", "--size", "1000", "--to", to, "--timeout", "0.3"],
        &["vrp", "send", "--size", "1000", "--to", to, "--timeout", "0.3"],
        &["stream", "send", "--size", "1000", "--count", "3", "--to", to, "--timeout", "0.3"],
    ] {
        let output = run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {error}");
        assert!(error.contains("no answer") && error.contains("does UDP reach it?"), "{args:?}: {error}");
    }
}

#[test]
fn an_address_that_does_not_exist_is_reported_before_the_input_ends() {
    for protocol in ["zcrp", "vrp"] {
        let mut command = pinnace(&[protocol, "send", "-", "[fe80::1%none-such]:7001"]);
        let mut sending = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let input = sending.stdin.take();
        assert_eq!(wait(&mut sending), Some(1), "{protocol}");
        let mut error = String::new();
        sending.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        assert!(error.contains("no interface none-such") && error.lines().count() == 1, "{protocol}: {error}");
        drop(input);
    }
}
