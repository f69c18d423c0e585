//! `pinnace listen` and `pinnace connect`: real processes, all methods, both directions, and how they end.

mod common;

use common::{Listening, pinnace, run, text, wait};
use rustix::process::geteuid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, Output, Stdio};
use std::time::Instant;

/// Runs to the end with this input.
fn fed(args: &[&str], input: &[u8]) -> Output {
    let mut child = start(args);
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeding = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = feeding.join().unwrap();
    output
}

fn start(args: &[&str]) -> Child {
    let mut command = pinnace(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn listen(options: &[&str]) -> Listening {
    Listening::start(&[&["listen", "127.0.0.1:0"], options].concat())
}

/// Bytes that are text and do not repeat soon.
fn content(bytes: usize) -> Vec<u8> {
    (0u64..)
        .flat_map(|number| format!("{:x}\n", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes())
        .take(bytes)
        .collect()
}

#[test]
fn a_stream_arrives_whole_by_every_method_and_is_answered() {
    let input = content(2_000_000);
    for method in ["zcrp", "vrp", "xtp", "qmp", "a1"] {
        let folder = tempfile::tempdir().unwrap();
        let back = folder.path().join("answer");
        std::fs::write(&back, b"an answer").unwrap();
        let mut listener = pinnace(&["listen", "127.0.0.1:0", "--json"]);
        listener.stdin(std::fs::File::open(&back).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut listener = listener.spawn().unwrap();
        let address = address(&mut listener);
        let sent = fed(&["connect", &address, "--method", method, "--json"], &input);
        let errors = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(0), "{method}: {errors}");
        assert_eq!(text(&sent.stdout), "an answer", "{method}");
        let connected: Value = serde_json::from_str(errors.lines().next().unwrap()).unwrap();
        assert_eq!((&connected["event"], &connected["method"]), (&"connected".into(), &method.into()));
        let ended: Value = serde_json::from_str(errors.lines().last().unwrap()).unwrap();
        assert_eq!((&ended["bytes_sent"], &ended["bytes_received"]), (&2_000_000.into(), &9.into()));
        let received = listener.wait_with_output().unwrap();
        assert_eq!(received.status.code(), Some(0), "{method}: {}", text(&received.stderr));
        assert!(received.stdout == input, "{method}: {} bytes", received.stdout.len());
    }
}

/// Where they are cut says nothing: also those of the answer are as short as the service says.
#[test]
fn chunks_are_no_longer_than_messages_may_be() {
    let (input, answer) = (content(200_000), content(100_000));
    let folder = tempfile::tempdir().unwrap();
    let back = folder.path().join("answer");
    std::fs::write(&back, &answer).unwrap();
    let mut listener = pinnace(&["listen", "127.0.0.1:0", "--json"]);
    listener.stdin(std::fs::File::open(&back).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut listener = listener.spawn().unwrap();
    let peer = format!("pinnace://{}?direction=duplex&largest=1000", address(&mut listener));
    let sent = fed(&["connect", &peer], &input);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert!(sent.stdout == answer, "{} bytes", sent.stdout.len());
    let received = listener.wait_with_output().unwrap();
    assert!(received.stdout == input, "{} bytes: {}", received.stdout.len(), text(&received.stderr));
}

/// Where it listens: the first event on standard error.
fn address(listener: &mut Child) -> String {
    let stderr = listener.stderr.as_mut().unwrap();
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        assert_eq!(stderr.read(&mut byte).unwrap(), 1, "it ended before it listened");
        line.push(byte[0]);
    }
    let event: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(event["event"], "listening");
    event["address"].as_str().unwrap().to_owned()
}

#[test]
fn several_peers_get_the_same() {
    let input = content(1_000_000);
    let listen = || {
        let mut listener = pinnace(&["listen", "127.0.0.1:0", "--json"]);
        listener.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut listener = listener.spawn().unwrap();
        let address = address(&mut listener);
        (listener, address)
    };
    let (listeners, addresses): (Vec<_>, Vec<_>) = (0..3).map(|_| listen()).unzip();
    let peers: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let receiving: Vec<_> =
        listeners.into_iter().map(|listener| std::thread::spawn(|| listener.wait_with_output().unwrap())).collect();
    let sent = fed(&[&["connect", "--json", "--explain"], &peers[..]].concat(), &input);
    let errors = text(&sent.stderr);
    assert_eq!(sent.status.code(), Some(0), "{errors}");
    assert!(errors.contains("multicast=3") && addresses.iter().all(|address| errors.contains(address)), "{errors}");
    for received in receiving {
        let received = received.join().unwrap();
        assert_eq!(received.status.code(), Some(0), "{}", text(&received.stderr));
        assert!(received.stdout == input, "{} bytes", received.stdout.len());
    }
    let (code, error) = {
        let output = fed(&["connect", peers[0], peers[1], "--service", "multicast=3"], b"");
        (output.status.code(), text(&output.stderr))
    };
    assert!(code != Some(0) && error.contains("multicast=3"), "{error}");
}

#[test]
fn uris_and_modes_say_how_messages_are_cut() {
    let framed = b"\0\0\0\x03abc\0\0\0\0\0\0\0\x01d";
    for (words, options, input, messages) in [
        ("", &["--messages", "lines"][..], &b"one\ntwo\nthree"[..], 3),
        ("?size=4", &[], b"0123456789", 3),
        ("?loss=5%&run=4KiB", &["--messages", "whole"], b"one\ntwo\n", 1),
        ("", &["--messages", "5B"], b"0123456789", 2),
        ("", &["--messages", "length-prefixed"], framed, 3),
        ("?direction=one-way", &["--messages", "lines"], b"a\nb\n", 2),
    ] {
        let mode = if options.contains(&"length-prefixed") { options } else { &[] };
        let listening = listen(mode);
        let uri = format!("pinnace://{}{words}", listening.address);
        let sent = fed(&[&["connect", &uri, "--json"], options].concat(), input);
        let errors = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(0), "{words} {options:?}: {errors}");
        let ended: Value = serde_json::from_str(errors.lines().last().unwrap()).unwrap();
        assert_eq!(ended["messages_sent"], messages, "{words} {options:?}");
        let (code, out, err) = listening.finish();
        assert_eq!((code, &*err), (Some(0), ""), "{words} {options:?}");
        assert_eq!(out.as_bytes(), input, "{words} {options:?}");
    }
}

#[test]
fn one_peer_comes_after_the_other() {
    let mut listening = listen(&["--keep", "--no-input"]);
    for text in ["first\n", "second\n", "third\n"] {
        let sent = fed(&["connect", &listening.address], text.as_bytes());
        assert_eq!(sent.status.code(), Some(0));
    }
    listening.signal("-INT");
    let (code, out, err) = listening.finish();
    assert_eq!((code, &*out, &*err), (Some(130), "first\nsecond\nthird\n", "pinnace: interrupted\n"));
}

/// The next event of this name that a command tells with `--json`.
fn events(told: ChildStderr) -> impl FnMut(&str) -> Value {
    let mut told = BufReader::new(told).lines().map(|line| {
        let line = line.unwrap();
        serde_json::from_str::<Value>(&line).expect(&line)
    });
    move |event| told.find(|object| object["event"] == event).expect(event)
}

#[test]
fn what_is_read_when_a_peer_has_gone_is_for_the_next() {
    for _ in 0..3 {
        let mut command = pinnace(&["listen", "127.0.0.1:0", "--keep", "--json"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut listening = command.spawn().unwrap();
        let mut next = events(listening.stderr.take().unwrap());
        let address = next("listening")["address"].as_str().unwrap().to_owned();
        let broken = fed(&["connect", &address, "-m", "length-prefixed"], b"\0\0\0");
        assert_eq!(broken.status.code(), Some(1));
        next("broke");
        // Whoever sent to the first one may still wait for it.
        let mut input = listening.stdin.take().unwrap();
        input.write_all(b"for whoever comes\n").unwrap();
        drop(input);
        let got = fed(&["connect", &address], b"");
        assert_eq!((got.status.code(), &*text(&got.stdout)), (Some(0), "for whoever comes\n"));
        listening.kill().unwrap();
        listening.wait().unwrap();
    }
}

#[test]
fn a_connection_that_breaks_is_told_as_an_object_and_the_next_peer_is_served() {
    let mut listening = start(&["listen", "127.0.0.1:0", "--keep", "--no-input", "--json"]);
    let mut next = events(listening.stderr.take().unwrap());
    let address = next("listening")["address"].as_str().unwrap().to_owned();
    // Its input ends in the middle of a message.
    let broken = fed(&["connect", &address, "-m", "length-prefixed"], b"\0\0\0");
    assert_eq!(broken.status.code(), Some(1));
    assert!(next("broke")["error"].as_str().unwrap().contains("broke"));
    assert_eq!(fed(&["connect", &address], b"aye").status.code(), Some(0));
    next("done");
    listening.kill().unwrap();
    assert_eq!(text(&listening.wait_with_output().unwrap().stdout), "aye");
}

#[test]
fn an_interrupt_ends_both_ends_with_130() {
    for method in ["zcrp", "xtp"] {
        let mut listening = listen(&[]);
        let (code, out, err) = {
            let mut early = listen(&[]);
            early.signal("-INT");
            early.finish()
        };
        assert_eq!((code, &*out, &*err), (Some(130), "", "pinnace: interrupted\n"));
        let mut connected = start(&["connect", &listening.address, "--method", method, "-v"]);
        let mut stderr = connected.stderr.take().unwrap();
        let mut said = [0; 17];
        stderr.read_exact(&mut said).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_child(&connected), rustix::process::Signal::INT)
            .unwrap();
        assert_eq!(wait(&mut connected), Some(130), "{method}");
        // It has said so: this end is not left to find out, and does not take it for the end of the content.
        listening.signal("-INT");
        let (code, ..) = listening.finish();
        assert!(matches!(code, Some(3 | 130)), "{method}: {code:?}");
    }
}

#[test]
fn what_is_interrupted_does_not_look_complete() {
    for method in ["zcrp", "vrp", "xtp", "qmp", "a1"] {
        for by_signal in [true, false] {
            // Longer than it waits for anything here.
            let mut listening = listen(&["--timeout", "50"]);
            let mode: &[&str] = if by_signal { &[] } else { &["-m", "length-prefixed"] };
            let mut connected = start(&[&["connect", &listening.address, "--method", method], mode].concat());
            let mut stdin = connected.stdin.take().unwrap();
            // A whole message, which arrives before anything is broken off: nobody is told of who has not come yet.
            stdin.write_all(if by_signal { b"hello" } else { b"\0\0\0\x05hello" }).unwrap();
            assert_eq!(listening.next_bytes(5), b"hello", "{method}");
            let begun = Instant::now();
            if by_signal {
                let pid = rustix::process::Pid::from_child(&connected);
                rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
                assert_eq!(wait(&mut connected), Some(130), "{method}");
            } else {
                // Half of one.
                stdin.write_all(b"\0\0\0\x05he").unwrap();
                drop(stdin);
                assert_eq!(wait(&mut connected), Some(1), "{method}");
            }
            let (code, out, err) = listening.finish();
            assert_eq!((code, &*out, err.lines().count()), (Some(3), "", 1), "{method}: {err}");
            assert!(err.contains(method) && err.contains("5 bytes had come"), "{method}: {err}");
            assert!(begun.elapsed().as_secs() < 25, "{method} left it to find out: {:?}", begun.elapsed());
        }
    }
}

#[test]
fn a_peer_that_is_killed_after_its_end_is_told_of_although_the_input_is_quiet() {
    for method in ["zcrp", "vrp", "xtp", "qmp", "a1"] {
        let mut listening = listen(&["-d", "--timeout", "1"]);
        let options = ["--method", method, "--timeout", "1", "-s", "direction=duplex", "-v"];
        // Its input stays open, and brings nothing.
        let mut connected = start(&[&["connect", &listening.address][..], &options].concat());
        let input = connected.stdin.take();
        let (mut stderr, mut err) = (BufReader::new(connected.stderr.take().unwrap()), String::new());
        stderr.read_line(&mut err).unwrap();
        assert!(err.contains("connected"), "{method}: {err}");
        std::thread::sleep(std::time::Duration::from_millis(300));
        listening.kill();
        let ended = wait(&mut connected);
        stderr.read_to_string(&mut err).unwrap();
        assert_eq!(ended, Some(3), "{method}: {err}");
        assert!(err.contains(method) && err.contains("broke"), "{method}: {err}");
        drop(input);
    }
}

#[test]
fn a_peer_that_is_killed_is_told_of_in_one_line() {
    for method in ["zcrp", "vrp", "xtp", "qmp", "a1"] {
        let mut listening = listen(&["--timeout", "1"]);
        let begun = Instant::now();
        let mut connected = start(&["connect", &listening.address, "--method", method, "--timeout", "1"]);
        connected.stdin.as_mut().unwrap().write_all(b"hello").unwrap();
        assert_eq!(listening.next_bytes(5), b"hello", "{method}");
        connected.kill().unwrap();
        connected.wait().unwrap();
        let (code, out, err) = listening.finish();
        assert_eq!((code, &*out, err.lines().count()), (Some(3), "", 1), "{method}: {err}");
        assert!(err.contains(method) && err.contains("broke") && err.contains("5 bytes had come"), "{method}: {err}");
        // Whoever was here knew the address.
        assert!(!err.contains("check the address") && !err.contains("firewall"), "{method}: {err}");
        assert!(begun.elapsed().as_secs() < 30, "{method}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_killed_peer_is_missed_after_the_time_that_was_given() {
    for method in ["zcrp", "vrp", "xtp", "qmp", "a1"] {
        // How long it took. A busy machine makes it later, but not each time; never earlier.
        let missed_after = || {
            let mut listening = listen(&["--timeout", "1"]);
            let mut connected = start(&["connect", &listening.address, "--method", method, "--timeout", "1"]);
            connected.stdin.as_mut().unwrap().write_all(b"hello").unwrap();
            assert_eq!(listening.next_bytes(5), b"hello", "{method}");
            connected.kill().unwrap();
            connected.wait().unwrap();
            let killed = Instant::now();
            assert_eq!(listening.finish().0, Some(3), "{method}");
            killed.elapsed().as_secs_f64()
        };
        let took: Vec<_> = std::iter::repeat_with(missed_after).take(4).collect();
        assert!(took.iter().any(|&secs| secs < 1.9), "{method}: {took:?}");
    }
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let taken = listen(&[]);
    let nobody = "127.0.0.1:1";
    for (args, code, says) in [
        (&["listen", &taken.address][..], 1, "choose another"),
        (&["listen", "nowhere"], 2, "HOST:PORT"),
        (&["listen", "127.0.0.1:0", "--service", "los=5%"], 2, "did you mean `loss=5%`"),
        (&["connect", "127.0.0.1"], 2, "HOST:PORT"),
        (&["connect", nobody], 3, "does not answer"),
        (&["connect", nobody, "--messages", "words"], 2, "length-prefixed"),
        (&["connect", nobody, "--method", "tcp"], 2, "there are shared-memory, zcrp"),
        (&["connect", "pinnace://127.0.0.1:1?loss=5%", "--service", "loss=9%"], 2, "leave --service out"),
        (&["connect", nobody, "--service", "pattern=stream", "--method", "vrp"], 1, "vrp carries frames"),
        (&["connect", &taken.address, "--exclude", "zcrp,vrp,xtp,qmp,a1,shared-memory"], 1, "no method can carry"),
    ] {
        let output = run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(says) && output.stdout.is_empty(), "{args:?}: {error}");
        assert!(code == 2 || error.lines().count() == 1, "{args:?}: {error}");
    }
}

#[test]
fn connecting_takes_no_longer_than_was_said() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let begun = Instant::now();
    let output = run(&["connect", &silent.local_addr().unwrap().to_string(), "--connect-timeout", "300ms"]);
    let error = text(&output.stderr);
    assert!(output.status.code() == Some(3) && error.contains("does not answer"), "{error}");
    assert!(begun.elapsed().as_secs() < 4, "{:?}", begun.elapsed());
}

#[test]
fn explain_comes_first_and_leaves_the_output_alone() {
    let listening = listen(&["--no-input"]);
    let sent = fed(&["connect", &listening.address, "--explain", "--exclude", "shared-memory"], b"content");
    let said = text(&sent.stderr);
    assert_eq!(sent.status.code(), Some(0), "{said}");
    assert!(said.contains("what would change it") && said.contains("choice  ") && sent.stdout.is_empty(), "{said}");
    assert_eq!(listening.finish().1, "content");
}

/// Over an emulated link that loses: what is lost is zeros, in its place, and is told and logged.
#[test]
#[allow(clippy::print_stderr)]
fn holes_are_zeros_and_are_told() {
    if !geteuid().is_root() || !std::path::Path::new("/dev/net/tun").exists() {
        pinnace_testing::skip::host("needs root and /dev/net/tun");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (input, output, log, address) = (at("in"), at("out"), at("log"), at("address"));
    std::fs::write(&input, content(3_000_000)).unwrap();
    let program = env!("CARGO_BIN_EXE_pinnace");
    // The far end is a network namespace of its own.
    let script = format!(
        "ip netns exec $PINNACE_FAR_NS {program} listen 10.77.0.2:4747 -d --json --log {log} > {output} 2> {address} & \
         while ! grep -q listening {address}; do sleep 0.05; done; \
         {program} connect 'pinnace://10.77.0.2:4747?loss=25%&run=64KiB&size=100KB&direction=one-way' --method vrp < {input} \
         && wait $!"
    );
    let ran = run(&["wan", "--rate", "200mbit", "--rtt", "4ms", "--loss", "2%", "--", "sh", "-c", &script]);
    assert_eq!(ran.status.code(), Some(0), "{}{}", text(&ran.stderr), std::fs::read_to_string(&address).unwrap());
    let (sent, received) = (std::fs::read(&input).unwrap(), std::fs::read(&output).unwrap());
    assert_eq!(sent.len(), received.len());
    let events = std::fs::read_to_string(&log).unwrap();
    let (mut lost, mut told) = (0, 0);
    for event in events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if event["event"] == "lost" {
            told += event["bytes_lost"].as_u64().unwrap();
            for hole in event["holes"].as_array().unwrap() {
                let base = event["message"].as_u64().unwrap() as usize * 100_000;
                let [from, to] = [0, 1].map(|end: usize| base + hole[end].as_u64().unwrap() as usize);
                assert!(received[from..to].iter().all(|&byte| byte == 0), "{event}");
                lost += to - from;
            }
        }
    }
    assert!(lost > 0 && lost as u64 == told, "{events}");
    let differing = sent.iter().zip(&received).filter(|(sent, received)| sent != received).count();
    assert_eq!(differing, lost);
}

/// Best effort that repeats nothing loses whole messages: that is told, zeros are in their place where it is known how many
/// they were, and the rate is kept though no burst is said.
#[test]
fn messages_that_are_lost_whole_are_told() {
    if !geteuid().is_root() || !std::path::Path::new("/dev/net/tun").exists() {
        pinnace_testing::skip::host("needs root and /dev/net/tun");
        return;
    }
    const MESSAGES: usize = 600;
    for method in ["xtp", "a1"] {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (input, output, log, address) = (at("in"), at("out"), at("log"), at("address"));
        // No byte is zero.
        let sent: Vec<u8> = content(MESSAGES * 1000).iter().map(|byte| byte | 1).collect();
        std::fs::write(&input, &sent).unwrap();
        let program = env!("CARGO_BIN_EXE_pinnace");
        let script = format!(
            "ip netns exec $PINNACE_FAR_NS {program} listen 10.77.0.2:4747 -d -m 1000 --json --log {log} > {output} \
             2> {address} & while ! grep -q listening {address}; do sleep 0.05; done; \
             {program} connect --json --method {method} -m 1000 --service 'loss=any rate=10mbit size=1000' \
             10.77.0.2:4747 < {input} && wait $!"
        );
        let ran = run(&["wan", "--rate", "20mbit", "--rtt", "10ms", "--loss", "5%", "--", "sh", "-c", &script]);
        let events = std::fs::read_to_string(&log).unwrap();
        assert_eq!(ran.status.code(), Some(0), "{method}: {}{events}", text(&ran.stderr));
        let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |event: &str| events.iter().filter(|told| told["event"] == event).cloned().collect::<Vec<_>>();
        let (missed, done) = (of("missed"), of("done").remove(0));
        let number = |value: &Value| value.as_u64().unwrap() as usize;
        let lost: usize = missed.iter().map(|told| number(&told["messages_lost"])).sum();
        assert!(lost > 0 && lost == number(&done["messages_lost"]), "{method}: {done}");
        assert!(number(&done["messages_received"]) + lost <= MESSAGES, "{method}: {done}");
        let seconds = done["seconds"].as_f64().unwrap();
        // 4.8 Mbit, of which 64 KiB may leave at once.
        assert!(seconds > 0.4, "{method}: {seconds} s");
        if method == "a1" {
            continue;
        }
        let received = std::fs::read(&output).unwrap();
        let filled: usize = missed.iter().map(|told| number(&told["bytes_filled"])).sum();
        assert_eq!(received.len(), number(&done["bytes_received"]) + filled);
        assert!(filled > 0, "{events:?}");
        // Everything is where it was.
        let is_same = |at: usize| received[at] == sent[at] || received[at] == 0;
        assert!((0..received.len()).all(is_same), "{events:?}");
        let zeros = received.iter().filter(|&&byte| byte == 0).count();
        assert_eq!(zeros, filled + number(&done["bytes_lost"]));
    }
}

/// Over a link that holds packets back for longer than they are worth: zeros are in the place of the messages in them, which are
/// left out when they come.
#[test]
fn messages_that_are_too_old_are_zeros_and_told() {
    if !geteuid().is_root() || !std::path::Path::new("/dev/net/tun").exists() {
        pinnace_testing::skip::host("needs root and /dev/net/tun");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (input, output, log, address) = (at("in"), at("out"), at("log"), at("address"));
    // No byte is zero.
    let sent: Vec<u8> = content(600_000).iter().map(|byte| byte | 1).collect();
    std::fs::write(&input, &sent).unwrap();
    let program = env!("CARGO_BIN_EXE_pinnace");
    let script = format!(
        "ip netns exec $PINNACE_FAR_NS {program} listen 10.77.0.2:4747 -d -m 1000 --json --log {log} > {output} \
         2> {address} & while ! grep -q listening {address}; do sleep 0.05; done; \
         {program} connect --method vrp -m 1000 --service 'deadline=50ms rate=10mbit size=1000 direction=one-way' \
         10.77.0.2:4747 < {input} && wait $!"
    );
    let ran = run(&["wan", "--rtt", "4ms", "--reorder", "30%:300ms", "--", "sh", "-c", &script]);
    let told = std::fs::read_to_string(&log).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}{told}", text(&ran.stderr));
    common::json::check("listen", &told);
    let events: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |event: &str| events.iter().filter(|told| told["event"] == event).cloned().collect::<Vec<_>>();
    let number = |value: &Value| value.as_u64().unwrap() as usize;
    let filled: usize = of("missed").iter().map(|told| number(&told["bytes_filled"])).sum();
    let done = of("done").remove(0);
    let late = of("late");
    assert!(!late.is_empty() && late.iter().all(|late| late["bytes"] == 1000), "{told}");
    assert_eq!(filled, 1000 * number(&done["messages_lost"]), "{done}");
    let received = std::fs::read(&output).unwrap();
    assert_eq!(received.len(), number(&done["bytes_received"]) + filled);
    assert!(received.iter().zip(&sent).all(|(received, sent)| received == sent || *received == 0), "{told}");
    assert_eq!(received.iter().filter(|&&byte| byte == 0).count(), filled + number(&done["bytes_lost"]));
}

#[test]
fn a_log_that_cannot_be_written_is_a_failure_although_everything_has_arrived() {
    for json in [&[][..], &["--json"]] {
        let listening = listen(&[]);
        let args = [&["connect", &listening.address, "--log", "/dev/full"], json].concat();
        let output = fed(&args, b"all of it");
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("cannot write the log, which ends here: "), "{error}");
        if !json.is_empty() {
            assert_eq!(common::objects(&error).last().unwrap()["event"], "error", "{error}");
        }
        let (code, out, _) = listening.finish();
        assert_eq!((code, &*out), (Some(0), "all of it"));
    }
}
