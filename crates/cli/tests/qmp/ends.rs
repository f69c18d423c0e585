//! Both ends, and what they print.

use crate::common::{content, fed, line, many_senders, objects, protocol_36, run, text};
use crate::listen;
use crate::relay::{lossy, without_ends};
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn both_ends_print_the_same_lines() {
    // Nothing, a byte, a packet and a little more, and more than a window.
    for size in [0, 1, 1440, 65_453, 5_000_000] {
        for options in [&[][..], &["--status-every", "1"], &["--window", "10000"], &["--go-back-n"]] {
            let what = format!("{size} {options:?}");
            let listening = listen(&[&["--count", "3"], options].concat());
            let (to, bytes) = (listening.address.clone(), size.to_string());
            let send = ["qmp", "send", "--to", &to, "--size", &bytes, "--count", "3", "-v"];
            let sent = run(&[&send[..], options].concat());
            assert_eq!(sent.status.code(), Some(0), "{what}: {}", text(&sent.stderr));
            let (code, out, err) = listening.finish();
            assert_eq!((code, &*err), (Some(0), ""), "{what}");
            let expected: String = (0..3).map(|number| line(&content(number, size))).collect();
            assert_eq!((&*out, &*text(&sent.stdout)), (&*expected, &*expected), "{what}");
        }
    }
}

#[test]
fn files_and_standard_input_travel_whole() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for bytes in [vec![], content(7, 100_000_000)] {
        std::fs::write(file.path(), &bytes).unwrap();
        for input in [path, "-"] {
            let listening = listen(&["--count", "1"]);
            let args = ["qmp", "send", input, &listening.address];
            let sent = if input == "-" { fed(&args, &bytes) } else { run(&args) };
            assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
            let said = text(&sent.stdout);
            assert!(said.starts_with(&format!("1 message delivered, {} bytes in ", bytes.len())), "{said}");
            let (code, out, err) = listening.finish();
            assert_eq!((code, &*err, &*out), (Some(0), "", &*line(&bytes)), "{input}");
        }
    }
}

#[test]
fn what_a_lossy_path_loses_is_sent_again() {
    // Runs of losses too, of data and of statuses.
    for (percent, run_of) in [(10, 0), (4, 3), (25, 0)] {
        for options in [&[][..], &["--go-back-n"]] {
            // Before there is a measurement WTIMER doubles up to 4 s: three losses more are no silence of a peer that is gone.
            let patience = ["--timeout", "60"];
            let listening = listen(&["--count", "2", patience[0], patience[1]]);
            let relay = lossy(&listening.address, percent, run_of);
            let to = relay.address.to_string();
            let send = ["qmp", "send", "--to", &to, "--size", "2000000", "--count", "2", "--json", "--timeout", "60"];
            let sent = run(&[&send[..], options].concat());
            let what = format!("{percent} %, {run_of} more, {options:?}");
            assert_eq!(sent.status.code(), Some(0), "{what}: {}", text(&sent.stderr));
            let (code, out, err) = listening.finish();
            assert_eq!((code, &*err), (Some(0), ""), "{what}");
            assert_eq!(out, line(&content(0, 2_000_000)) + &line(&content(1, 2_000_000)), "{what}");
            assert!(relay.lost.load(Ordering::Relaxed) > 0, "{what}");
            let done: Value = serde_json::from_str(text(&sent.stdout).lines().last().unwrap()).expect("JSON");
            assert!(done["packets_resent"].as_u64().unwrap() > 0, "{what}: {done}");
        }
    }
}

#[test]
fn a_sender_whose_end_is_lost_says_it_again() {
    for ends in [1, 2] {
        let listening = listen(&["--count", "1"]);
        let relay = without_ends(&listening.address, ends);
        let begun = Instant::now();
        let sent = run(&["qmp", "send", "--to", &relay.address.to_string(), "--size", "5000"]);
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
        let (code, out, err) = listening.finish();
        assert_eq!((code, &*err, &*out), (Some(0), "", &*line(&content(0, 5000))));
        assert_eq!(relay.lost.load(Ordering::Relaxed), ends as u64);
        // It would wait for five seconds.
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    }
}

#[test]
fn json_is_one_object_a_line_at_both_ends() {
    let listening = listen(&["--count", "2", "--json"]);
    let address = listening.address.clone();
    let sent = run(&["qmp", "send", "--to", &address, "--size", "5000", "--count", "2", "--json"]);
    let (code, out, _) = listening.finish();
    assert_eq!((sent.status.code(), code), (Some(0), Some(0)), "{}", text(&sent.stderr));
    let (received, sent) = (objects(&out), objects(&text(&sent.stdout)));
    assert_eq!((received.len(), sent.len()), (3, 3), "{out}");
    assert_eq!((&received[0]["event"], &received[0]["address"]), (&"listening".into(), &(*address).into()));
    for number in 0..2 {
        let (received, sent) = (&received[number + 1], &sent[number]);
        for field in ["event", "message", "bytes", "sha256", "way"] {
            assert_eq!(received[field], sent[field], "{field}");
        }
        assert_eq!((&received["message"], &received["way"]), (&number.into(), &"udp".into()));
        assert!(received["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    }
    let done = &sent[2];
    assert_eq!((&done["event"], &done["messages"], &done["bytes"]), (&"done".into(), &2.into(), &10_000.into()));
    assert_eq!((&done["acknowledged"], &done["packets_resent"]), (&true.into(), &0.into()));
}

#[test]
fn one_listener_takes_connections_of_many_senders() {
    many_senders("qmp", listen(&["--count", "6"]));
}

#[test]
fn a_refusal_says_why() {
    let listening = crate::common::Listening::start(&["xtp", "listen", "127.0.0.1:0", "--service", "ack-dgram"]);
    let sent = run(&["qmp", "send", "--to", &listening.address, "--size", "9"]);
    let error = text(&sent.stderr);
    assert_eq!(sent.status.code(), Some(3), "{error}");
    assert!(error.contains(&*listening.address) && error.contains("does not offer this service"), "{error}");
}

#[test]
fn protocol_36_carries_it() {
    let Some(alone) = protocol_36() else { return };
    let [at, other, third] = ["7001", "7002", "7003"].map(|port| format!("{}:{port}", alone.host));
    let listen = || crate::common::Listening::start(&["qmp", "listen", &at, "--link", "ip36", "--count", "2"]);
    let listening = listen();
    let send = ["qmp", "send", "--to", &at, "--link", "ip36", "--size", "300000", "--count", "2"];
    let sent = run(&send);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let (code, out, err) = listening.finish();
    assert_eq!((code, &*err), (Some(0), ""));
    assert_eq!(out, line(&content(0, 300_000)) + &line(&content(1, 300_000)));
    // Another port of a host that is there.
    let listening = listen();
    let sent = run(&["qmp", "send", "--to", &other, "--size", "9", "--link", "ip36"]);
    let error = text(&sent.stderr);
    assert_eq!((sent.status.code(), error.lines().count()), (Some(3), 1), "{error}");
    assert!(error.contains(&format!("nobody listens at {other}")), "{error}");
    // A second owner of the protocol.
    let second = run(&["qmp", "listen", &third, "--link", "ip36"]);
    let error = text(&second.stderr);
    assert_eq!((second.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains("one process owns protocol 36"), "{error}");
    drop(listening);
}
