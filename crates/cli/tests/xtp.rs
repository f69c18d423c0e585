//! `pinnace xtp listen`, `send` and `transact`, and `pinnace perf --protocol xtp`.

mod common;
#[path = "qmp/relay.rs"]
mod relay;

use common::{
    Listening, content, fed, interrupted_in_the_middle, kill_either_end, line, many_senders, objects, pinnace,
    protocol_36, run, text, wait, wait_until,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CODECS: [&str; 2] = ["xtp40", "xtp36"];
const STREAMS: [&str; 3] = ["connection", "iso-stream", "bulk-data"];
const SINGLES: [&str; 3] = ["transaction", "unack-dgram", "ack-dgram"];

fn listen(more: &[&str]) -> Listening {
    Listening::start(&[&["xtp", "listen", "127.0.0.1:0"], more].concat())
}

#[test]
fn what_has_come_of_the_input_is_sent_before_there_is_more() {
    use pinnace::xtp::{Endpoint, Incoming, Options, Services};
    use std::io::{Read, Write};
    let server = Endpoint::bind("127.0.0.1:0", &Options::default()).unwrap();
    let listener = server.listen(Services::ALL).unwrap();
    let start =
        |to: &str| pinnace(&["xtp", "send", "-", to]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut sender = start(&server.local_addr().to_string());
    let mut stdin = sender.stdin.take().unwrap();
    stdin.write_all(&[7; 1000]).unwrap();
    let come = listener.accept_timeout(Duration::from_secs(10)).unwrap().expect("it comes");
    let Incoming::Connection(mut connection) = come else { panic!("a stream") };
    connection.read_exact(&mut [0; 1000]).unwrap();
    drop(stdin);
    assert_eq!(connection.read(&mut [0; 1]).unwrap(), 0);
    drop(connection);
    assert_eq!(wait(&mut sender), Some(0));
    // A pause is no end of a message.
    let listening = listen(&["--count", "1"]);
    let mut sender = start(&listening.address);
    let mut stdin = sender.stdin.take().unwrap();
    for words in [&b"ahoy, "[..], b"sailor"] {
        stdin.write_all(words).unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(stdin);
    assert_eq!(wait(&mut sender), Some(0));
    assert_eq!(listening.finish(), (Some(0), line(b"ahoy, sailor"), String::new()));
}

#[test]
fn a_client_whose_end_is_lost_says_it_again() {
    for command in ["send", "transact"] {
        let listening = listen(&["--count", "2", "--nocheck", "--timeout", "1"]);
        let relay = relay::without_ends(&listening.address, 2);
        let ask = |to: &str| {
            let client = match command {
                "send" => run(&["xtp", "send", "--nocheck", "--service", "transaction", "--to", to, "--size", "500"]),
                _ => run(&["xtp", "transact", "--nocheck", to, "--size", "500"]),
            };
            assert_eq!(client.status.code(), Some(0), "{command}: {}", text(&client.stderr));
        };
        ask(&relay.address.to_string());
        assert_eq!(relay.lost.load(std::sync::atomic::Ordering::Relaxed), 2, "{command}");
        // A listener that waits for what was lost gives up in between.
        std::thread::sleep(Duration::from_secs(3));
        ask(&listening.address);
        let (code, out, err) = listening.finish();
        assert_eq!((code, &*err, &*out), (Some(0), "", &*line(&content(0, 500)).repeat(2)), "{command}");
    }
}

fn check_lines_of_every_service(codec: &str) {
    for service in STREAMS.iter().chain(&SINGLES) {
        let sizes: &[usize] = match *service {
            "unack-dgram" | "ack-dgram" => &[0, 1, 1400],
            "transaction" => &[0, 1, 300_000],
            // Within the receive window: what goes beyond it may be lost, and the end of a message with it.
            "iso-stream" => &[1, 1400, 300_000],
            _ => &[1, 1400, 3_000_000],
        };
        for &size in sizes {
            let what = format!("{codec} {service} {size}");
            let listening = listen(&["--count", "3", "--codec", codec]);
            let to = listening.address.clone();
            let bytes = size.to_string();
            let sent = run(&[
                "xtp",
                "send",
                "--to",
                &to,
                "--size",
                &bytes,
                "--count",
                "3",
                "--codec",
                codec,
                "--service",
                service,
                "-v",
            ]);
            assert_eq!(sent.status.code(), Some(0), "{what}: {}", text(&sent.stderr));
            let (code, out, err) = listening.finish();
            assert_eq!((code, &*err), (Some(0), ""), "{what}");
            let expected: String = (0..3).map(|number| line(&content(number, size))).collect();
            assert_eq!(text(&sent.stdout), expected, "{what}");
            // Datagrams may overtake each other, and an isochronous stream may lose something on a busy host.
            let sorted = |text: &str| {
                let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                lines.sort_unstable();
                lines
            };
            if *service != "iso-stream" || !out.contains("hole") {
                assert_eq!(sorted(&out), sorted(&expected), "{what}");
            }
        }
    }
}

#[test]
fn both_ends_print_the_same_lines_with_every_service_of_xtp40() {
    check_lines_of_every_service("xtp40");
}

#[test]
fn both_ends_print_the_same_lines_with_every_service_of_xtp36() {
    check_lines_of_every_service("xtp36");
}

#[test]
fn a_file_that_is_empty_arrives_as_an_empty_message() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for service in STREAMS.iter().chain(&SINGLES) {
        let listening = listen(&["--count", "1"]);
        let sent = run(&["xtp", "send", path, &listening.address, "--service", service]);
        assert_eq!(sent.status.code(), Some(0), "{service}: {}", text(&sent.stderr));
        let (code, out, err) = listening.finish();
        assert_eq!((code, &*err, &*out), (Some(0), "", &*line(&[])), "{service}");
    }
}

#[test]
fn standard_input_and_large_files_travel_whole() {
    let bytes = content(7, 100_000_000);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let path = file.path().to_str().unwrap();
    for (codec, service, input) in [
        ("xtp40", "connection", "-"),
        ("xtp36", "connection", path),
        ("xtp40", "bulk-data", path),
        ("xtp40", "bulk-data", "-"),
    ] {
        let listening = listen(&["--count", "1", "--codec", codec]);
        let args = ["xtp", "send", input, &listening.address, "--codec", codec, "--service", service];
        let sent = if input == "-" { fed(&args, &bytes) } else { run(&args) };
        assert_eq!(sent.status.code(), Some(0), "{service}: {}", text(&sent.stderr));
        assert!(text(&sent.stdout).starts_with("1 message delivered, 100000000 bytes in "), "{}", text(&sent.stdout));
        let (code, out, err) = listening.finish();
        assert_eq!((code, &*err, &*out), (Some(0), "", &*line(&bytes)), "{codec} {service} {input}");
    }
}

#[test]
fn an_isochronous_stream_is_sent_as_fast_as_it_is_read() {
    for codec in CODECS {
        let listening = listen(&["--count", "1", "--codec", codec, "--json"]);
        let to = listening.address.clone();
        let send = ["xtp", "send", "--size", "50MB", "--to", &to, "--codec", codec, "--service", "iso-stream"];
        let sent = run(&send);
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
        assert!(text(&sent.stdout).contains("; the listener says what)"), "{}", text(&sent.stdout));
        let (code, out, err) = listening.finish();
        assert_eq!((code, &*err), (Some(0), ""));
        let message: Value = serde_json::from_str(out.lines().last().expect("a message")).unwrap();
        assert_eq!(message["bytes"], 50_000_000);
        let holes: Vec<[u64; 2]> = serde_json::from_value(message["holes"].clone()).unwrap();
        let lost: u64 = holes.iter().map(|[from, to]| to - from).sum();
        // A busy host may drop something of its own, but nobody is outrun.
        assert!(lost < 2_500_000, "{codec}: {lost} bytes are lost");
    }
}

#[test]
fn the_control_block_can_be_programmed() {
    for codec in CODECS {
        for options in [
            &["--nocheck"][..],
            &["--go-back-n"],
            &["--sort", "7"],
            &["--maxdata", "700"],
            &["--window", "10000"],
            &["--retry-count", "3"],
        ] {
            let listening = listen(&[&["--count", "1", "--codec", codec], options].concat());
            let to = listening.address.clone();
            let send = ["xtp", "send", "--to", &to, "--size", "200kB", "--codec", codec, "-v"];
            let sent = run(&[&send[..], options].concat());
            assert_eq!(sent.status.code(), Some(0), "{options:?}: {}", text(&sent.stderr));
            let (code, out, err) = listening.finish();
            assert_eq!((code, &*out), (Some(0), &*text(&sent.stdout)), "{options:?} {err}");
        }
    }
}

#[test]
fn a_rate_is_kept() {
    let listening = listen(&["--count", "1"]);
    let begun = Instant::now();
    let sent =
        run(&["xtp", "send", "--to", &listening.address, "--size", "1MB", "--rate", "8mbit", "--maxdata", "1400"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(900), "1 MB at 8 Mbit/s takes a second, not {took:?}");
    assert_eq!(listening.finish().0, Some(0));
}

#[test]
fn requests_are_answered() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"aye\n").unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    for codec in CODECS {
        for (respond, response) in
            [(None, &b""[..]), (Some("echo"), &b"ahoy"[..]), (Some(path.as_str()), &b"aye\n"[..])]
        {
            let respond: Vec<&str> = respond.iter().flat_map(|how| ["--respond", *how]).collect();
            let listening = listen(&[&["--count", "2", "--codec", codec], &respond[..]].concat());
            let args = ["xtp", "transact", &*listening.address, "--codec", codec];
            let answered = fed(&args, b"ahoy");
            assert_eq!(answered.status.code(), Some(0), "{}", text(&answered.stderr));
            assert_eq!(answered.stdout, response, "{codec} {respond:?}");
            let said = text(&answered.stderr);
            assert!(said.contains("4 bytes there") && said.contains(" us with set-up and close"), "{said}");
            let answered = fed(&[&args[..], &["-", "--json"]].concat(), b"ahoy");
            let object: Value = serde_json::from_slice(&answered.stdout).expect("JSON");
            assert_eq!((&object["event"], &object["bytes"]), (&"response".into(), &response.len().into()));
            assert_eq!(object["text"], std::str::from_utf8(response).unwrap());
            assert_eq!(object["sha256"], format!("{:x}", Sha256::digest(response)));
            assert!(object["round_trip_us"].as_f64().unwrap() > 1.0);
            let (code, out, _) = listening.finish();
            assert_eq!((code, out), (Some(0), line(b"ahoy").repeat(2)));
        }
    }
}

#[test]
fn json_is_one_object_a_line_at_both_ends() {
    let listening = listen(&["--count", "2", "--json"]);
    let address = listening.address.clone();
    let sent =
        run(&["xtp", "send", "--to", &address, "--size", "5000", "--count", "2", "--service", "iso-stream", "--json"]);
    let (code, out, _) = listening.finish();
    assert_eq!((sent.status.code(), code), (Some(0), Some(0)), "{}", text(&sent.stderr));
    let (received, sent) = (objects(&out), objects(&text(&sent.stdout)));
    assert_eq!((received.len(), sent.len()), (3, 3), "{out}");
    assert_eq!((&received[0]["event"], &received[0]["address"]), (&"listening".into(), &(*address).into()));
    for number in 0..2 {
        let (received, sent) = (&received[number + 1], &sent[number]);
        for field in ["event", "message", "bytes", "sha256", "service"] {
            assert_eq!(received[field], sent[field], "{field}");
        }
        assert_eq!((&received["message"], &received["service"]), (&number.into(), &"iso-stream".into()));
        assert_eq!(received["holes"], Value::Array(vec![]));
        assert!(received["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    }
    let done = &sent[2];
    assert_eq!((&done["event"], &done["messages"], &done["bytes"]), (&"done".into(), &2.into(), &10_000.into()));
    assert_eq!((&done["acknowledged"], &done["packets_resent"]), (&false.into(), &0.into()));
}

#[test]
fn nobody_there_is_reported_in_time() {
    let begun = Instant::now();
    for service in ["connection", "transaction", "ack-dgram"] {
        // A closed port says so; an address that swallows everything does not.
        for (to, words) in [("127.0.0.1:9", "xtp listen"), ("192.0.2.9:9", "192.0.2.9:9")] {
            let sent = run(&["xtp", "send", "--to", to, "--size", "1", "--timeout", "0.7", "--service", service]);
            let error = text(&sent.stderr);
            assert_eq!(error.lines().count(), 1, "{error}");
            if error.contains("Network is unreachable") {
                continue;
            }
            assert_eq!(sent.status.code(), Some(3), "{service} {to}: {error}");
            assert!(error.contains(to) && error.contains(words), "{error}");
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
    // Who does not wait for an answer does not miss it.
    let sent = run(&["xtp", "send", "--to", "127.0.0.1:9", "--size", "1", "--service", "unack-dgram"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
}

#[test]
fn a_service_that_is_not_offered_is_refused_and_said() {
    let mut listening = listen(&["--service", "transaction", "--service", "ack-dgram"]);
    let address = listening.address.clone();
    for service in STREAMS {
        let sent = run(&["xtp", "send", "--to", &address, "--size", "1", "--service", service]);
        let error = text(&sent.stderr);
        assert_eq!((sent.status.code(), error.lines().count()), (Some(1), 1), "{error}");
        assert!(error.contains("does not offer this service"), "{error}");
    }
    let sent = run(&["xtp", "send", "--to", &address, "--size", "1", "--service", "transaction"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    listening.signal("-INT");
    let (code, out, _) = listening.finish();
    assert_eq!((code, out), (Some(130), line(&content(0, 1))));
}

#[test]
fn a_datagram_that_does_not_fit_says_what_would() {
    let listening = listen(&[]);
    let sent = run(&["xtp", "send", "--to", &listening.address, "--size", "100000", "--service", "ack-dgram"]);
    let error = text(&sent.stderr);
    assert_eq!((sent.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains("at most 65") && error.contains("connection"), "{error}");
}

#[test]
fn a_killed_peer_is_reported_in_time_at_either_end() {
    let (out, err, took) = kill_either_end("xtp");
    assert!(err.contains("broke") && took < Duration::from_secs(10), "{err}");
    assert!(out.lines().count() > 0);
}

/// What nobody has received is not told as a message, however much of it was queued.
#[test]
fn a_message_that_nobody_acknowledges_is_not_told() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap().to_string();
    for service in ["connection", "bulk-data", "ack-dgram"] {
        let send = ["xtp", "send", "--json", "--to", &to, "--size", "1000", "--count", "3", "--timeout", "0.5"];
        let sent = run(&[&send[..], &["--service", service]].concat());
        assert_eq!(sent.status.code(), Some(3), "{service}: {}", text(&sent.stderr));
        let said: Value = serde_json::from_slice(&sent.stdout).expect("one object");
        assert_eq!(said["event"], "error", "{service}: {said}");
    }
}

#[test]
fn one_listener_takes_messages_of_many_senders() {
    many_senders("xtp", listen(&["--count", "6"]));
}

#[test]
fn an_interrupt_ends_both_ends_with_130() {
    let mut listening = listen(&[]);
    for service in STREAMS {
        let args =
            ["xtp", "send", "--to", &*listening.address, "--size", "1MiB", "--count", "1000000", "--service", service];
        let before = listening.ticks();
        let mut sender = pinnace(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("it is in the midst of it", || listening.ticks() >= before + 5);
        let id = sender.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        assert_eq!(wait(&mut sender), Some(130), "{service}");
    }
    listening.signal("-INT");
    let (code, _, err) = listening.finish();
    assert_eq!(code, Some(130), "{err}");
    assert!(err.ends_with("pinnace: interrupted\n"), "{err}");
}

#[test]
fn a_listener_that_ends_in_the_middle_of_a_message_has_not_received_it() {
    for codec in CODECS {
        for service in STREAMS {
            let listening = listen(&["--codec", codec]);
            interrupted_in_the_middle(&["xtp", "--codec", codec, "--service", service], listening);
        }
    }
}

#[test]
fn a_port_that_is_taken_is_reported_in_one_line() {
    let first = listen(&[]);
    let output = run(&["xtp", "listen", &first.address]);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains(&*first.address) && error.contains("choose another"), "{error}");
}

#[test]
fn protocol_36_carries_every_service() {
    let Some(alone) = protocol_36() else { return };
    let [at, other, third] = ["7001", "7002", "7003"].map(|port| format!("{}:{port}", alone.host));
    for codec in CODECS {
        for service in STREAMS.iter().chain(&SINGLES) {
            let listening =
                Listening::start(&["xtp", "listen", &at, "--link", "ip36", "--codec", codec, "--count", "1"]);
            let size = if service.ends_with("dgram") { "1000" } else { "300000" };
            let sent = run(&[
                "xtp",
                "send",
                "--to",
                &at,
                "--size",
                size,
                "--link",
                "ip36",
                "--codec",
                codec,
                "--service",
                service,
            ]);
            assert_eq!(sent.status.code(), Some(0), "{codec} {service}: {}", text(&sent.stderr));
            let (code, out, err) = listening.finish();
            assert_eq!((code, &*err), (Some(0), ""), "{codec} {service}");
            assert!(
                out == line(&content(0, size.parse().unwrap())) || out.contains("hole"),
                "{codec} {service}: {out}"
            );
        }
    }
    // Another port of a host that is there.
    let listening = Listening::start(&["xtp", "listen", "--bind", &at, "--link", "ip36"]);
    let sent = run(&["xtp", "send", "--to", &other, "--size", "9", "--link", "ip36"]);
    let error = text(&sent.stderr);
    assert_eq!((sent.status.code(), error.lines().count()), (Some(3), 1), "{error}");
    assert!(error.contains(&format!("nobody listens at {other}")), "{error}");
    // A second owner of the protocol.
    let second = run(&["xtp", "listen", &third, "--link", "ip36"]);
    let error = text(&second.stderr);
    assert_eq!((second.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains("one process owns protocol 36"), "{error}");
    drop(listening);
}

#[test]
fn wrong_arguments_end_with_2_and_say_what_would_be_right() {
    for (args, part) in [
        (&["xtp"][..], "transact"),
        (&["xtp", "listen"], "[HOST:]PORT"),
        (&["xtp", "listen", "nowhere"], "HOST:PORT"),
        (&["xtp", "listen", "127.0.0.1:0", "--link", "ip36"], "give one"),
        (&["xtp", "listen", "127.0.0.1:0", "--service", "telegram"], "ack-dgram"),
        (&["xtp", "send"], "FILE"),
        (&["xtp", "send", "file"], "FILE HOST:PORT"),
        (&["xtp", "send", "file", "nowhere"], "HOST:PORT"),
        (&["xtp", "send", "a", "b", "c"], "c"),
        (&["xtp", "send", "--size", "0", "--count", "2", "--to", "127.0.0.1:1"], "empty messages"),
        (&["xtp", "send", "-", "127.0.0.1:1", "--count", "2"], "only once"),
        (&["xtp", "send", "--size", "1", "--to", "127.0.0.1:1", "--codec", "xtp99"], "xtp36"),
        (&["xtp", "send", "--size", "1", "--to", "127.0.0.1:1", "--rate", "9"], "100mbit"),
        (&["xtp", "send", "--size", "1", "--to", "127.0.0.1:1", "--sort", "65536"], "65535"),
        (&["xtp", "send", "--size", "1", "--to", "127.0.0.1:1", "--window", "2GiB"], "1 GiB"),
        (&["xtp", "transact"], "HOST:PORT"),
        (&["perf", "--service", "transaction"], "--protocol xtp"),
        (&["perf", "--codec", "xtp36"], "--protocol xtp"),
    ] {
        let output = run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(part), "{args:?}: {error}");
    }
}

#[test]
fn help_and_completion_know_the_services() {
    let help = text(&run(&["xtp", "send", "--help"]).stdout);
    for word in ["--go-back-n", "--nocheck", "--pcap", "capture", "ack-dgram", "ip36", "xtp36", "--rate"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    let help = text(&run(&["vrp", "send", "--help"]).stdout);
    assert!(help.contains("--capture") && help.contains("pcap"), "{help}");
    let script = text(&run(&["completion", "bash"]).stdout);
    for word in ["transact", "bulk-data", "--go-back-n", "e-x3"] {
        assert!(script.contains(word), "{word}");
    }
}

/// What a short measurement against TCP says, whose other options are words.
fn measured(options: &str) -> Vec<Value> {
    let args = format!("--json perf --protocol xtp --against tcp-cubic --rounds 1 {options}");
    let measured = run(&args.split(' ').collect::<Vec<_>>());
    assert_eq!(measured.status.code(), Some(0), "{options}: {}", text(&measured.stderr));
    objects(&text(&measured.stdout))
}

#[test]
fn services_are_measured_against_tcp() {
    for service in ["connection", "bulk-data", "iso-stream", "ack-dgram", "unack-dgram"] {
        let lines = measured(&format!("--service {service} --size 16384 --seconds 0.05"));
        assert_eq!((&lines[0]["transport"], &lines[0]["ratio_to"]), (&"xtp".into(), &"tcp-cubic".into()), "{lines:?}");
        assert_eq!(lines[0]["xtp"]["service"], service);
        assert!(lines[0]["gbit_s"].as_f64().unwrap() > 0.001, "{lines:?}");
    }
}

#[test]
fn transactions_are_timed_against_connections_of_tcp() {
    let lines = measured("--service transaction --size 100 --codec xtp36");
    let [xtp, tcp] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(
        (&xtp["transport"], &tcp["transport"], &tcp["ratio_to"]),
        (&"xtp".into(), &"tcp-cubic".into(), &"xtp".into())
    );
    assert_eq!((&xtp["count"], &xtp["size"]), (&1000.into(), &100.into()));
    assert!(xtp["p50_us"].as_f64().unwrap() > 1.0 && tcp["ratio"].as_f64().unwrap() > 0.0, "{lines:?}");
}

/// The sum of RFC 1071 over an even number of bytes.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// A FIRST with EOM, WCLOSE, RCLOSE and four bytes.
fn only_packet(to: std::net::SocketAddr, sync: u32, service: u8, sreq: u8) -> Vec<u8> {
    let std::net::IpAddr::V4(host) = to.ip() else { panic!("{to}") };
    let mut packet = [&0x77_u64.to_be_bytes()[..], &[0, 0x1c | sreq, 0, 0x22, 0, 0, 0, 44, 0, 0, 0, 0]].concat();
    packet.extend_from_slice(&sync.to_be_bytes());
    packet.extend_from_slice(&1000_u64.to_be_bytes());
    packet.extend_from_slice(&[0, 16, 1, 1]);
    packet.extend_from_slice(&host.octets());
    packet.extend_from_slice(&[127, 0, 0, 1]);
    packet.extend_from_slice(&to.port().to_be_bytes());
    packet.extend_from_slice(&[0, 9, 0, 24, service, 1]);
    packet.extend_from_slice(&[0; 20]);
    packet.extend_from_slice(b"ahoy");
    let check = internet_checksum(&packet);
    packet[16..18].copy_from_slice(&check.to_be_bytes());
    packet
}

/// The one packet of an acknowledged datagram of four bytes.
fn datagram_packet(to: std::net::SocketAddr, sync: u32) -> Vec<u8> {
    only_packet(to, sync, 2, 0x40)
}

//= X-20 test
#[test]
fn a_listener_that_has_enough_answers_a_repetition_still() {
    let listening = listen(&["--count", "1"]);
    let to: std::net::SocketAddr = listening.address.parse().unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for sync in 1..4 {
        socket.send_to(&datagram_packet(to, sync), to).unwrap();
        let mut answer = [0; 1500];
        let (len, _) = socket.recv_from(&mut answer).unwrap();
        assert_eq!((len, answer[11] & 31), (88, 5), "a TCNTL");
        assert_eq!(u16::from_be_bytes([answer[9], answer[10]]) & 0x1a00, 0x1a00, "RCLOSE, WCLOSE and END");
        // As if it had been lost.
        std::thread::sleep(Duration::from_millis(500));
    }
    let (code, out, err) = listening.finish();
    assert_eq!((code, &*err, &*out), (Some(0), "", &*line(b"ahoy")), "once");
}

#[test]
fn a_request_whose_response_nobody_wants_is_a_message_all_the_same() {
    let listening = listen(&["--count", "1"]);
    let to: std::net::SocketAddr = listening.address.parse().unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&only_packet(to, 1, 3, 0), to).unwrap();
    let (code, out, _) = listening.finish();
    assert_eq!((code, &*out), (Some(0), &*line(b"ahoy")));
}
