//! `pinnace zcrp listen` and `send`.

mod common;

use common::{Listening, kill_either_end, objects, run, text};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

#[test]
fn both_ends_print_the_same_lines() {
    // Nothing, a byte, one unit and several, and more than the window.
    for (size, unit) in [("0", "1472"), ("1", "1472"), ("1444", "1472"), ("1445", "1472"), ("3000000", "9000")] {
        let listening = Listening::start(&[
            "zcrp",
            "listen",
            "--bind",
            "127.0.0.1:0",
            "--count",
            "3",
            "--size",
            "4MiB",
            "--ahead",
            "2",
        ]);
        let address = listening.address.clone();
        let sent = run(&[
            "zcrp", "send", "--to", &address, "--size", size, "--count", "3", "--unit", unit, "--seed", "7", "-v",
        ]);
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
        let (code, out, err) = listening.finish();
        assert_eq!((code, &*err), (Some(0), ""));
        assert_eq!(out, text(&sent.stdout));
        for (number, line) in out.lines().enumerate() {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words[..3], ["message", size, "bytes"], "line {number}: {line}");
            assert_eq!(words[3].len(), 64);
        }
        assert_eq!(out.lines().count(), 3);
    }
}

#[test]
fn a_file_is_hashed_as_sha256sum_does_and_json_is_one_object_a_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "abc").unwrap();
    let listening = Listening::start(&["zcrp", "listen", "--bind", "127.0.0.1:0", "--count", "1", "--json"]);
    let address = listening.address.clone();
    assert!(run(&["zcrp", "send", "--to", &address, "--file", file.path().to_str().unwrap()]).status.success());
    let (code, out, _) = listening.finish();
    assert_eq!(code, Some(0));
    let lines = objects(&out);
    assert_eq!((&lines[0]["event"], &lines[0]["address"]), (&"listening".into(), &(*address).into()));
    assert_eq!((&lines[1]["message"], &lines[1]["bytes"]), (&0.into(), &3.into()));
    assert_eq!(lines[1]["sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn a_message_longer_than_its_buffer_fails_at_both_ends() {
    let listening = Listening::start(&["zcrp", "listen", "--bind", "127.0.0.1:0", "--count", "1", "--size", "10"]);
    let sent = run(&["zcrp", "send", "--to", &listening.address.clone(), "--size", "11"]);
    assert_eq!(sent.status.code(), Some(1));
    assert!(text(&sent.stderr).contains("longer than the buffer"));
    let (code, _, err) = listening.finish();
    assert_eq!(code, Some(1), "{err}");
}

#[test]
fn messages_behind_a_refused_one_go_on() {
    //= Z-16, Z-20 test
    let shown = |line: &serde_json::Value| (line["event"].to_string(), line["message"].as_u64());
    let event = |name: &str, number: u64| (format!("\"{name}\""), Some(number));
    let args = ["zcrp", "listen", "--bind", "127.0.0.1:0", "--count", "3", "--size", "1000", "--json"];
    let listening = Listening::start(&args);
    // The first is sent by hand, so that the sender's messages are of several sizes.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(&listening.address).unwrap();
    let unit = |number: u32, content: &[u8], flags: u8| {
        let words = [number, 0, 7 + number, 0, 0, content.len() as u32];
        let mut datagram = content.to_vec();
        words.iter().for_each(|word| datagram.extend(word.to_be_bytes()));
        datagram.extend([flags, 0, 0, 0]);
        datagram
    };
    let idle: Vec<u8> = [[0; 24].as_slice(), &[8, 0, 0, 0]].concat();
    socket.send(&idle).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // Nothing is sent before it is requested.
    let mut requested = 0;
    let mut wait_for = |number: u32| {
        while requested <= number {
            let mut datagram = [0; 2000];
            let bytes = socket.recv(&mut datagram).expect("a request");
            if datagram[bytes - 4] == 0x83 {
                let pairs = datagram[4..bytes - 4].chunks_exact(8);
                let numbers = pairs.map(|pair| u32::from_be_bytes(*pair.first_chunk().unwrap()));
                requested = requested.max(numbers.max().unwrap() + 1);
            }
        }
    };
    for (number, content, flags) in [(0, &[1; 10][..], 2), (1, &[], 2 | 4), (2, &[2; 20][..], 2)] {
        wait_for(number);
        socket.send(&unit(number, content, flags)).unwrap();
    }
    let (code, out, err) = listening.finish();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("1 of 3 messages"), "{err}");
    let out = objects(&out);
    assert_eq!(
        [shown(&out[1]), shown(&out[2]), shown(&out[3])],
        [event("message", 0), event("refused", 1), event("message", 2)]
    );
    // And a sender goes on behind it, too.
    let listening = Listening::start(&["zcrp", "listen", "--bind", "127.0.0.1:0", "--count", "2", "--size", "10"]);
    let sent =
        run(&["zcrp", "send", "--to", &listening.address.clone(), "--size", "11", "--count", "2", "--json", "-v"]);
    assert_eq!(sent.status.code(), Some(1));
    let out = objects(&text(&sent.stdout));
    assert_eq!([shown(&out[0]), shown(&out[1])], [event("refused", 0), event("refused", 1)]);
    assert!(text(&sent.stderr).contains("2 of 2 messages"), "{}", text(&sent.stderr));
    assert_eq!(listening.finish().0, Some(1));
}

#[test]
fn nobody_there_is_reported_in_time() {
    let begun = Instant::now();
    let sent = run(&["zcrp", "send", "--to", "127.0.0.1:9", "--size", "1", "--timeout", "0.5"]);
    assert_eq!(sent.status.code(), Some(3));
    assert!(begun.elapsed() < Duration::from_secs(5));
    let error = text(&sent.stderr);
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("127.0.0.1:9") && error.contains("zcrp listen"), "{error}");
}

#[test]
fn a_sender_that_ends_between_two_messages_is_reported() {
    // Nothing of the other messages has begun, and all the listener has heard of idleness is the introduction (Z-21).
    let listening = Listening::start(&["zcrp", "listen", "--bind", "127.0.0.1:0", "--count", "3", "--timeout", "0.5"]);
    let sent = run(&["zcrp", "send", "--to", &listening.address.clone(), "--size", "1000", "--count", "1"]);
    assert_eq!(sent.status.code(), Some(0));
    let (code, out, err) = listening.finish();
    assert_eq!((code, out.lines().count()), (Some(3), 1), "{err}");
}

#[test]
fn a_sender_whose_last_acknowledgements_were_lost_is_answered_when_it_asks_again() {
    //= Z-15 test
    let listening = Listening::start(&["zcrp", "listen", "127.0.0.1:0", "--count", "1", "--json"]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(&*listening.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // The request, or an acknowledgement of everything up to `sequence`.
    let heard = |kind: u8, sequence: u32| {
        let mut buffer = [0; 600];
        loop {
            let bytes = socket.recv(&mut buffer).expect("an answer");
            let word = |at: usize| u32::from_be_bytes(buffer[at..at + 4].try_into().unwrap());
            let last = word(4 + 4 * word(0) as usize);
            if buffer[bytes - 4] == kind && (kind == 0x83 || last == sequence + 1) {
                return;
            }
        }
    };
    let unit = |sequence: u32, flags: u8| {
        let fields = [0, 0, sequence, 0, 0, 0].map(u32::to_be_bytes).concat();
        socket.send(&[&fields[..], &[flags, 0, 0, 0]].concat()).unwrap();
    };
    // Idle; the request; the only unit, the last of a message of nothing.
    unit(0, 8);
    heard(0x83, 0);
    unit(1, 2);
    heard(0x81, 1);
    // Repetitions are answered, long after those of the close: over a path that loses, several may be lost in a row.
    for (sequence, wait) in [(2, 500), (3, 2000)] {
        std::thread::sleep(Duration::from_millis(wait));
        unit(sequence, 2);
        heard(0x81, sequence);
    }
    let (code, out, err) = listening.finish();
    assert_eq!((code, objects(&out)[1]["bytes"].as_u64()), (Some(0), Some(0)), "{err}");
}

#[test]
fn a_killed_peer_is_reported_in_time_at_either_end() {
    let (_, err, _) = kill_either_end("zcrp");
    assert!(err.contains("has not answered"), "{err}");
}

#[test]
fn a_sender_says_what_it_has_sent() {
    let listening = Listening::start(&["zcrp", "listen", "127.0.0.1:0", "--count", "1"]);
    let address = listening.address.clone();
    let sent = run(&["zcrp", "send", "--to", &address, "--size", "1000", "--json"]);
    let last = text(&sent.stdout).lines().last().map(str::to_owned).unwrap_or_default();
    let done: serde_json::Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!((&done["event"], &done["messages"], &done["bytes"]), (&"done".into(), &1.into(), &1000.into()));
    assert!(done["seconds"].is_number() && done["units_sent"].is_number(), "{done}");
}

#[test]
fn what_a_sender_says_is_in_words_that_fit() {
    for (count, words) in [("1", "1 message delivered, 1000 bytes in "), ("2", "2 messages delivered, 2000 bytes in ")]
    {
        let listening = Listening::start(&["zcrp", "listen", "127.0.0.1:0", "--count", count]);
        let sent = run(&["zcrp", "send", "--to", &listening.address, "--size", "1000", "--count", count]);
        assert!(text(&sent.stdout).starts_with(words), "{}", text(&sent.stdout));
        assert_eq!(listening.finish().0, Some(0));
    }
}

#[test]
fn a_sender_is_served_while_another_one_is_idle() {
    let mut listening = Listening::start(&["zcrp", "listen", "127.0.0.1:0", "--json", "--timeout", "1"]);
    let idle = pinnace::zcrp::Sender::connect(&*listening.address, &pinnace::zcrp::Options::default()).unwrap();
    let send = |content: &str| drop(idle.send(pinnace::Message::from_vec(content.into())).unwrap().wait().unwrap());
    send("first");
    for size in ["10", "11"] {
        let begun = Instant::now();
        let sent = run(&["zcrp", "send", "--to", &listening.address, "--size", size, "--count", "2"]);
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
        assert!(begun.elapsed() < Duration::from_secs(5), "after {:?}", begun.elapsed());
    }
    send("again");
    listening.signal("-INT");
    let (code, out, err) = listening.finish();
    assert_eq!(code, Some(130), "{err}");
    let lines = objects(&out);
    let messages = lines.iter().filter(|line| line["event"] == "message");
    let mut seen: Vec<_> =
        messages.map(|line| [&line["sender"], &line["message"], &line["bytes"]].map(|n| n.as_u64().unwrap())).collect();
    seen.sort_unstable();
    assert_eq!(seen, [[1, 0, 5], [1, 1, 5], [2, 0, 10], [2, 1, 10], [3, 0, 11], [3, 1, 11]]);
}
