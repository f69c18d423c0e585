//! `pinnace vrp listen` and `send`, and `pinnace perf --protocol vrp`.

mod common;

use common::relay::Relay;
use common::{Listening, kill_either_end, objects, pinnace, run, text, wait};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn listen(more: &[&str]) -> Listening {
    Listening::start(&[&["vrp", "listen", "--bind", "127.0.0.1:0"], more].concat())
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// What the sender sends as frame `number`, with holes.
fn content(number: u64, size: usize, holes: &[Range<usize>]) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&1u64.to_le_bytes()).update(&number.to_le_bytes());
    let mut content = vec![0; size];
    hasher.finalize_xof().fill(&mut content);
    for hole in holes {
        content[hole.clone()].fill(0);
    }
    content
}

fn sha256(content: &[u8]) -> String {
    format!("{:x}", Sha256::digest(content))
}

/// Drops the data packets that it is told to: `drops` is asked about each, the number of its frame, from that of the first, and
/// its index there.
fn dropping(receiver: &str, mut drops: impl FnMut(u16, u32) -> bool + Send + 'static) -> Relay {
    let mut first = None;
    Relay::at("127.0.0.1:0", receiver, move |is_senders, packet| {
        if !is_senders || packet.len() < 6 || packet[0] & 0x80 != 0 {
            return true;
        }
        let frame = u16::from_be_bytes([packet[0], packet[1]]);
        let number = frame.wrapping_sub(*first.get_or_insert(frame)) & 0x7fff;
        !drops(number, u32::from_be_bytes(packet[2..6].try_into().unwrap()))
    })
}

/// Whoever does not say how large packets are gets through; whoever does is told why not.
#[test]
fn smaller_packets_get_through_where_larger_ones_are_lost() {
    for most in [1_200, 600] {
        let listening = listen(&["--count", "1"]);
        let relay = Relay::at("127.0.0.1:0", &listening.address, move |_, packet| packet.len() <= most);
        let to = relay.address.to_string();
        let sent = run(&["vrp", "send", "--to", &to, "--size", "200000"]);
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
        let (code, out, err) = listening.finish();
        assert_eq!((code, out.lines().count()), (Some(0), 1), "{out}{err}");
    }
    let listening = listen(&["--count", "1"]);
    let relay = Relay::at("127.0.0.1:0", &listening.address, |_, packet| packet.len() <= 1_200);
    let to = relay.address.to_string();
    let sent = run(&["vrp", "send", "--to", &to, "--size", "200000", "--packet-size", "1400", "--timeout", "2"]);
    assert_eq!(sent.status.code(), Some(3));
    assert!(text(&sent.stderr).contains("answers, but no data reach it"), "{}", text(&sent.stderr));
}

#[test]
fn both_ends_print_the_same_lines() {
    // Nothing, a byte, what fits a header and what does not, one packet and several, and more than a window.
    for (size, packet) in [("0", None), ("1", None), ("255", None), ("256", None), ("1466", Some("1466"))]
        .into_iter()
        .chain([("1467", Some("1466")), ("3000000", Some("9000")), ("3MB", None)])
    {
        let listening = listen(&["--count", "3"]);
        let address = listening.address.clone();
        let mut args = vec!["vrp", "send", "--to", &address, "--size", size, "--count", "3", "-v"];
        args.extend(packet.iter().flat_map(|packet| ["--packet-size", packet]));
        let sent = run(&args);
        assert_eq!(sent.status.code(), Some(0), "{size}: {}", text(&sent.stderr));
        let (code, out, err) = listening.finish();
        assert_eq!((code, &*err), (Some(0), ""), "{size}");
        // Frames may overtake each other.
        assert_eq!(sorted(&out), sorted(&text(&sent.stdout)), "{size}");
        let bytes = if size == "3MB" { 3_000_000 } else { size.parse().unwrap() };
        let expected: Vec<String> =
            (0..3).map(|n| format!("message {bytes} bytes {}", sha256(&content(n, bytes, &[])))).collect();
        let mut expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        expected.sort_unstable();
        assert_eq!(sorted(&out), expected);
    }
}

#[test]
fn holes_are_exact_at_both_ends_and_within_the_contract() {
    let (size, packet) = (100_000, 1000);
    let listening = listen(&["--count", "4", "--json"]);
    let mut count = 0;
    let relay = dropping(&listening.address, move |_, _| {
        count += 1;
        count % 7 == 3
    });
    let to = relay.address.to_string();
    let sent = run(&[
        "vrp",
        "send",
        "--to",
        &to,
        "--size",
        "100kB",
        "--count",
        "4",
        "--loss-rate",
        "25%",
        "--run",
        "4kB",
        "--critical",
        "0..1kB",
        "--critical",
        "50kB..52kB",
        "--packet-size",
        "1000",
        "--parallel",
        "1",
        "--json",
    ]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let (code, out, err) = listening.finish();
    assert_eq!(code, Some(0), "{err}");
    let (received, sent) = (objects(&out), objects(&text(&sent.stdout)));
    assert_eq!((received.len(), sent.len()), (1 + 4, 4 + 1), "{out}");
    let mut lost = 0;
    // One at a time: they arrive in order.
    for (number, (received, sent)) in received[1..].iter().zip(&sent).enumerate() {
        let holes: Vec<Range<usize>> = serde_json::from_value::<Vec<[usize; 2]>>(received["holes"].clone())
            .unwrap()
            .into_iter()
            .map(|[low, high]| low..high)
            .collect();
        assert_eq!((&received["event"], &received["message"]), (&"message".into(), &number.into()));
        assert_eq!(received["sha256"], sha256(&content(number as u64, size, &holes)), "the holes, and no others");
        assert_eq!(sent["sha256"], sha256(&content(number as u64, size, &[])));
        for field in ["message", "bytes", "holes", "packets_lost", "packets", "longest_run_packets"] {
            assert_eq!(received[field], sent[field], "{field}");
        }
        let runs: Vec<usize> = holes.iter().map(|hole| hole.len() / packet).collect();
        assert_eq!(received["packets_lost"], runs.iter().sum::<usize>());
        assert_eq!(received["longest_run_packets"], runs.iter().max().copied().unwrap_or(0));
        assert!(holes.iter().all(|hole| hole.start % packet == 0 && hole.end % packet == 0), "{holes:?}");
        assert!(runs.iter().all(|&run| run <= 4), "{holes:?}");
        assert!(runs.iter().sum::<usize>() <= 25, "{holes:?}");
        assert!(holes.iter().all(|hole| hole.start >= 1000 && (hole.end <= 50_000 || hole.start >= 52_000)));
        assert!(received["peer"].as_str().unwrap().starts_with("127.0.0.1:") && received["frame"].is_u64());
        lost += runs.iter().sum::<usize>();
    }
    assert!(lost > 0, "the relay has dropped a seventh");
    let done = &sent[4];
    assert_eq!((&done["event"], &done["messages"], &done["messages_late"]), (&"done".into(), &4.into(), &0.into()));
    assert_eq!((&done["packets_lost"], &done["packets"]), (&lost.into(), &400.into()));
}

#[test]
fn people_read_the_holes_too() {
    let listening = listen(&["--count", "1"]);
    let relay = dropping(&listening.address, |_, index| index == 3 || index == 4);
    let to = relay.address.to_string();
    let send = |more: &[&str]| {
        run(&[&["vrp", "send", "--to", &to, "--size", "10000", "--packet-size", "1000"], more].concat())
    };
    let sent = send(&["--loss-rate", "0.3"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let (_, out, _) = listening.finish();
    let hash = sha256(&content(0, 10_000, &[Range { start: 3000, end: 5000 }]));
    assert_eq!(out, format!("message 10000 bytes {hash}\nhole 3000..5000\n"));
    assert_eq!(text(&sent.stdout), "1 frame delivered, 2 of 10 packets lost (20.00 %), longest run 2\n");
}

#[test]
fn a_file_is_hashed_as_sha256sum_does() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "abc").unwrap();
    let listening = listen(&["--count", "1", "--json"]);
    let address = listening.address.clone();
    assert!(run(&["vrp", "send", "--to", &address, "--file", file.path().to_str().unwrap()]).status.success());
    let (code, out, _) = listening.finish();
    assert_eq!(code, Some(0));
    let lines = objects(&out);
    assert_eq!((&lines[0]["event"], &lines[0]["address"]), (&"listening".into(), &(*address).into()));
    assert_eq!((&lines[1]["message"], &lines[1]["bytes"]), (&0.into(), &3.into()));
    assert_eq!(lines[1]["sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!((&lines[1]["holes"], &lines[1]["packets_lost"]), (&Value::Array(vec![]), &0.into()));
}

#[test]
fn frames_that_are_late_make_the_command_fail_and_do_not_stop_the_others() {
    let listening = listen(&[]);
    // Nothing of the first two frames' sixth packet arrives, however often.
    let relay = dropping(&listening.address, |number, index| number < 2 && index == 5);
    let sent = run(&[
        "vrp",
        "send",
        "--to",
        &relay.address.to_string(),
        "--size",
        "10000",
        "--packet-size",
        "1000",
        "--count",
        "6",
        "--parallel",
        "1",
        "--give-up-after",
        "700ms",
    ]);
    assert_eq!(sent.status.code(), Some(1), "{}", text(&sent.stderr));
    let error = text(&sent.stderr);
    assert!(error.contains("frame 0 was not complete") && error.contains("of 6 frames were not complete"), "{error}");
    assert!(text(&sent.stdout).contains(" frames delivered, nothing of "), "{}", text(&sent.stdout));
}

#[test]
fn nobody_there_is_reported_in_time() {
    let begun = Instant::now();
    let sent = run(&["vrp", "send", "--to", "127.0.0.1:9", "--size", "1", "--timeout", "0.5"]);
    assert_eq!(sent.status.code(), Some(3), "{}", text(&sent.stderr));
    assert!(begun.elapsed() < Duration::from_secs(5));
    let error = text(&sent.stderr);
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("127.0.0.1:9") && error.contains("vrp listen"), "{error}");
}

#[test]
fn a_receiver_without_room_is_reported() {
    let listening = listen(&["--memory", "64KiB"]);
    let sent = run(&["vrp", "send", "--to", &listening.address, "--size", "1MiB"]);
    assert_eq!(sent.status.code(), Some(1), "{}", text(&sent.stderr));
    assert!(text(&sent.stderr).contains("--memory"), "{}", text(&sent.stderr));
}

#[test]
fn a_killed_peer_is_reported_in_time_at_either_end() {
    let (out, err, _) = kill_either_end("vrp");
    assert!(err.contains("the sender has not sent anything"), "{err}");
    assert!(out.lines().count() > 0);
}

#[test]
fn one_listener_takes_frames_of_many_senders() {
    let listening = listen(&["--count", "6"]);
    let address = listening.address.clone();
    let send = |seed: &str| {
        pinnace(&["vrp", "send", "--to", &address, "--size", "200kB", "--count", "2", "--seed", seed, "-v"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut printed = String::new();
    for sender in ["1", "2", "3"].map(send) {
        let output = sender.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        printed += &text(&output.stdout);
    }
    let (code, out, err) = listening.finish();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(sorted(&out), sorted(&printed));
}

#[test]
fn an_interrupt_ends_both_ends_with_130() {
    let mut listening = listen(&[]);
    let args = ["vrp", "send", "--to", &*listening.address, "--size", "1MiB", "--count", "1000000"];
    let mut sender = pinnace(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    listening.wait_until_busy();
    let id = sender.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(wait(&mut sender), Some(130));
    listening.signal("-INT");
    let (code, _, err) = listening.finish();
    assert_eq!((code, &*err), (Some(130), "pinnace: interrupted\n"));
}

#[test]
fn a_port_that_is_taken_is_reported_in_one_line() {
    let first = listen(&[]);
    let output = run(&["vrp", "listen", "--bind", &first.address]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains(&*first.address) && error.contains("choose another"), "{error}");
}

#[test]
fn wrong_arguments_end_with_2_and_say_what_would_be_right() {
    let send = |more: &[&'static str]| [&["vrp", "send", "--to", "127.0.0.1:1", "--size", "1000"][..], more].concat();
    let perf = |more: &[&'static str]| [&["perf"][..], more].concat();
    for (args, part) in [
        (vec!["vrp"], "listen"),
        (vec!["vrp", "listen"], "[HOST:]PORT"),
        (vec!["vrp", "listen", "--bind", "nowhere"], "HOST:PORT"),
        (vec!["vrp", "send", "--to", "127.0.0.1:1"], "--size"),
        (send(&["--loss-rate", "10"]), "write 10%"),
        (send(&["--loss-rate", "101%"]), "100% is the most"),
        (send(&["--loss-rate", "some"]), "10% or 0.1"),
        (send(&["--run", "4KiB"]), "--loss-rate"),
        (send(&["--loss-rate", "10%", "--loss-floor", "20%"]), "--loss-floor"),
        (send(&["--critical", "0-5"]), "0..1KiB"),
        (send(&["--critical", "5..5"]), "empty"),
        (send(&["--critical", "0..1KiB"]), "1000 bytes"),
        (send(&["--rate", "100"]), "100mbit"),
        (send(&["--packet-size", "0"]), "65501"),
        (send(&["--window", "16385"]), "16384"),
        (send(&["--repeat-for", "50"]), "50ms"),
        (send(&["--parallel", "0"]), "1..=1024"),
        (send(&["--repeat-for", "2s", "--give-up-after", "1s"]), "--give-up-after must not be before --repeat-for"),
        (send(&["--count", "0"]), "--count"),
        (send(&["--seed", "-1"]), "a whole number from 0"),
        (vec!["vrp", "listen", "127.0.0.1:0", "--memory", "0"], "256MiB"),
        (perf(&["--in-flight", "0"]), "--in-flight"),
        (vec!["sim", "--seed", "-1"], "a whole number from 0"),
        (send(&["--congestion", "hope"]), "cubic"),
        (perf(&["--loss-rate", "10%"]), "--protocol vrp"),
        (perf(&["--protocol", "vrp", "--frame", "1KB", "--critical", "0..1KiB"]), "1000 bytes"),
        (perf(&["--protocol", "vrp", "--frame", "1KB", "--sizes", "1KB"]), "--sizes"),
    ] {
        let output = run(&args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(part) && output.stdout.is_empty(), "{args:?}: {error}");
    }
}

#[test]
fn help_teaches() {
    let help = text(&run(&["vrp", "send", "--help"]).stdout);
    assert!(help.contains("nearest 1/255"), "{help}");
    let help = text(&run(&["vrp", "--help"]).stdout);
    for word in ["Examples:", "--loss-rate 10% --run 4KiB --critical 0..1KiB", "hole FROM..TO"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    let help = text(&run(&["vrp", "send", "--help"]).stdout);
    for word in ["Contract:", "Transport:", "--give-up-after", "BLAKE3"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn perf_measures_frames_beside_others() {
    let contract = ["--loss-rate", "10%", "--run", "4KiB", "--critical", "0..1KiB"];
    let brief = ["perf", "--frame", "100KB", "--rounds", "2", "--seconds", "0.02"];
    let output = run(&[&brief[..], &contract, &["--protocol", "vrp", "--against", "tcp,zcrp", "--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = objects(&text(&output.stdout));
    assert_eq!(lines.len(), 4, "{lines:?}");
    for (transport, other) in [("vrp", "tcp"), ("vrp", "zcrp"), ("tcp", "vrp"), ("zcrp", "vrp")] {
        let line = lines.iter().find(|line| line["transport"] == transport && line["ratio_to"] == other).unwrap();
        assert_eq!(line["size"], 100_000);
        assert!(line["gbit_s"].as_f64().unwrap() > 0.0, "{line}");
        if transport == "vrp" {
            assert_eq!(line["contract"], "10 %, run 4096 B, critical 0..1024");
            assert!((0.0..=0.1).contains(&line["loss"].as_f64().unwrap()), "{line}");
            assert!((0.0..=1.0).contains(&line["in_place"].as_f64().unwrap()), "{line}");
        } else {
            assert!(line["contract"].is_null() && line["loss"].is_null(), "{line}");
        }
    }
    // The other way round, for people, and with each way to wait.
    for idle in ["block", "adaptive", "spin"] {
        let more = ["--protocol", "tcp", "--against", "vrp", "--congestion", "cubic", "--idle", idle];
        let output = run(&[&brief[..], &contract, &more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let table = text(&output.stdout);
        assert!(table.contains("# vrp contract: 10 %, run 4096 B, critical 0..1024"), "{table}");
        let row = table.lines().find(|line| line.split_whitespace().nth(2) == Some("vrp")).unwrap();
        assert!(row.ends_with('%') && table.contains("lost"), "{table}");
    }
}
