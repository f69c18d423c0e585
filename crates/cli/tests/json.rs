//! `--json`: each line of standard output is an object, and its names are those of the book (docs/src/json.md).

mod common;

use common::json::{OBJECTS, check, table};
use common::{Listening, fed, objects, pinnace, run, text, wait, wait_until};
use std::path::Path;
use std::process::{Output, Stdio};

/// What a command printed, checked: its events, and its exit code.
fn ended(command: &str, output: &Output) -> (Vec<String>, Option<i32>) {
    (check(command, &text(&output.stdout)), output.status.code())
}

fn file(folder: &Path, bytes: usize) -> String {
    let path = folder.join("file");
    std::fs::write(&path, vec![7; bytes]).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_book_has_the_same_table_and_explains_every_name() {
    let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/json.md");
    let book = std::fs::read_to_string(book).unwrap();
    assert!(book.contains(&table()), "docs/src/json.md should have this table:\n\n{}\n", table());
    let explained = book.split("## Names").nth(1).expect("a glossary");
    for (_, event, names) in OBJECTS {
        for name in names.split_whitespace().map(|name| name.trim_end_matches('?')).filter(|name| *name != "*") {
            assert!(explained.contains(&format!("`{name}`")), "`{name}` of {event} is not explained");
        }
    }
}

#[test]
fn the_bare_protocols() {
    let folder = tempfile::tempdir().unwrap();
    for protocol in ["zcrp", "vrp", "xtp", "qmp", "a1"] {
        let (listens, sends) = (format!("{protocol} listen"), format!("{protocol} send"));
        for bytes in [0, 100_000] {
            let file = file(folder.path(), bytes);
            let listening = Listening::start(&[protocol, "listen", "127.0.0.1:0", "--count", "1", "--json"]);
            let sent = run(&[protocol, "send", &file, &listening.address, "--json"]);
            assert_eq!(ended(&sends, &sent), (vec!["message".into(), "done".into()], Some(0)), "{protocol}");
            assert!(sent.stderr.is_empty(), "{protocol}: {}", text(&sent.stderr));
            let (code, out, err) = listening.finish();
            assert_eq!(
                (check(&listens, &out), code),
                (vec!["listening".into(), "message".into()], Some(0)),
                "{protocol}"
            );
            assert_eq!(err, "", "{protocol}");
        }
        let nobody = pinnace_testing::ports::nobody().to_string();
        let failed = run(&[protocol, "send", "--size", "5", "--to", &nobody, "--timeout", "0.5", "--json"]);
        assert_eq!(ended(&sends, &failed), (vec!["error".into()], Some(3)));
        let first = Listening::start(&[protocol, "listen", "127.0.0.1:0", "--json"]);
        let second = run(&[protocol, "listen", &first.address, "--json"]);
        assert_eq!(ended(&listens, &second), (vec!["error".into()], Some(1)));
        for wrong in [&["listen"][..], &["send", "--size", "1 parsec"]] {
            let output = run(&[&["--json", protocol], wrong].concat());
            assert_eq!(ended(&listens, &output), (vec!["error".into()], Some(2)), "{protocol} {wrong:?}");
        }
    }
}

#[test]
fn what_is_refused_lost_or_left_out() {
    let args = ["zcrp", "listen", "127.0.0.1:0", "--count", "1", "--size", "10", "--json"];
    let listening = Listening::start(&args);
    let sent = run(&["zcrp", "send", "--size", "11", "--to", &listening.address, "--json"]);
    assert_eq!(ended("zcrp send", &sent), (vec!["refused".into(), "done".into(), "error".into()], Some(1)));
    let (code, out, _) = listening.finish();
    assert_eq!(
        (check("zcrp listen", &out), code),
        (vec!["listening".into(), "refused".into(), "error".into()], Some(1))
    );
    // Nobody is there to whom it could be complete in time.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap().to_string();
    let late = run(&["vrp", "send", "--size", "11", "--to", &to, "--give-up-after", "200ms", "--json"]);
    assert_eq!(ended("vrp send", &late), (vec!["late".into(), "done".into(), "error".into()], Some(1)));
    // One that counts nothing goes on.
    let mut listening = Listening::start(&["zcrp", "listen", "127.0.0.1:0", "--json"]);
    assert!(run(&["zcrp", "send", "--size", "11", "--to", &listening.address]).status.success());
    listening.signal("-INT");
    let (code, out, _) = listening.finish();
    assert_eq!(
        (check("zcrp listen", &out), code),
        (vec!["listening".into(), "message".into(), "error".into()], Some(130))
    );
}

#[test]
fn a_transaction() {
    let listening = Listening::start(&["xtp", "listen", "127.0.0.1:0", "--respond", "echo", "--count", "1", "--json"]);
    let answered = fed(&["xtp", "transact", &listening.address, "--json"], b"ahoy");
    assert_eq!(ended("xtp transact", &answered), (vec!["response".into()], Some(0)));
    assert_eq!(check("xtp listen", &listening.finish().1), ["listening", "message"]);
    let failed = run(&["xtp", "transact", "127.0.0.1:9", "/no/such/file", "--json"]);
    assert_eq!(ended("xtp transact", &failed), (vec!["error".into()], Some(1)));
}

#[test]
fn files() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(from.path().join("d")).unwrap();
    let file = file(&from.path().join("d"), 0);
    std::os::unix::fs::symlink("file", from.path().join("d/link")).unwrap();
    let (dir, to) = (from.path().join("d"), to.path().to_str().unwrap());
    for again in [false, true] {
        let receiving = Listening::start(&["recv", "--bind", "127.0.0.1:0", "--dir", to, "--once", "--json"]);
        let sent = run(&["send", dir.to_str().unwrap(), &receiving.address, "--json"]);
        assert_eq!(ended("send", &sent), (vec!["left_out".into(), "file".into(), "done".into()], Some(0)), "{again}");
        assert!(sent.stderr.is_empty(), "{}", text(&sent.stderr));
        let (code, out, err) = receiving.finish();
        assert_eq!((check("recv", &out), code), (vec!["listening".into(), "file".into(), "done".into()], Some(0)));
        assert_eq!(err, "");
    }
    // Another content under the same name.
    std::fs::write(&file, "other").unwrap();
    let mut receiving = Listening::start(&["recv", "--bind", "127.0.0.1:0", "--dir", to, "--json"]);
    let sent = run(&["send", dir.to_str().unwrap(), &receiving.address, "--json"]);
    assert_eq!(ended("send", &sent).0.last().map(String::as_str), Some("error"));
    receiving.signal("-INT");
    assert_eq!(check("recv", &receiving.finish().1), ["listening", "error", "error"]);
    for (wrong, code) in
        [(&["send", "/no/such/file", "127.0.0.1:9"][..], 1), (&["send"], 2), (&["recv", "--bind", "x"], 2)]
    {
        let output = run(&[&["--json"], wrong].concat());
        assert_eq!(ended(wrong[0], &output), (vec!["error".into()], Some(code)), "{wrong:?}");
    }
}

/// Standard output is the peer's: what is told stands on standard error.
#[test]
fn a_netcat() {
    let mut listener = pinnace(&["listen", "127.0.0.1:0", "--json"]);
    let mut listener = listener.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = std::io::BufReader::new(listener.stderr.take().unwrap());
    let mut said = String::new();
    std::io::BufRead::read_line(&mut told, &mut said).unwrap();
    let address = serde_json::from_str::<serde_json::Value>(&said).unwrap()["address"].as_str().unwrap().to_owned();
    let sent = fed(&["connect", &address, "--explain", "--json"], b"ahoy");
    assert_eq!(check("connect", &text(&sent.stderr)), ["explained", "connected", "done"]);
    std::io::Read::read_to_string(&mut told, &mut said).unwrap();
    assert_eq!(check("listen", &said), ["listening", "connected", "done"]);
    assert_eq!(wait(&mut listener), Some(0));
    for (args, code) in [(&["connect", "127.0.0.1:9", "--connect-timeout", "0.3"][..], 3), (&["listen", "x"], 2)] {
        let failed = run(&[args, &["--json"]].concat());
        assert_eq!((check(args[0], &text(&failed.stderr)), failed.status.code()), (vec!["error".into()], Some(code)));
        assert!(failed.stdout.is_empty());
    }
}

#[test]
fn streams_and_casts() {
    let receiving = Listening::start(&["stream", "recv", "--bind", "127.0.0.1:0", "--json"]);
    let send = ["stream", "send", "--to", &receiving.address, "--size", "10kB", "--count", "3", "--deadline", "1s"];
    let sent = run(&[&send[..], &["--loss-rate", "5%", "--fps", "100", "--json"]].concat());
    assert_eq!(ended("stream send", &sent), (vec!["done".into()], Some(0)));
    let (code, out, err) = receiving.finish();
    assert_eq!((check("stream recv", &out), code, &*err), (vec!["listening".into(), "done".into()], Some(0), ""));
    for (args, code) in
        [(&["stream", "send", "--to", "127.0.0.1:9", "--timeout", "0.3"][..], 3), (&["stream", "recv"], 2)]
    {
        let failed = run(&[args, &["--json"]].concat());
        assert_eq!(ended(&args[..2].join(" "), &failed), (vec!["error".into()], Some(code)));
    }

    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (file(folder.path(), 100_000), folder.path().join("out"));
    let tuned = Listening::start(&["tune", "127.0.0.1:0", "-o", out.to_str().unwrap(), "--every", "100ms", "--json"]);
    let cast = ["cast", &file, "--rate", "1mbit", "--to", &tuned.address, "--change", "300ms:priority=3", "--json"];
    let cast = run(&cast);
    assert_eq!(ended("cast", &cast), (["sink", "stream", "qos", "done"].map(str::to_owned).to_vec(), Some(0)));
    assert!(cast.stderr.is_empty(), "{}", text(&cast.stderr));
    let (code, out, err) = tuned.finish();
    let events = check("tune", &out);
    assert_eq!((code, &*err), (Some(0), ""));
    for event in ["listening", "sender", "stream", "qos", "status", "over", "done"] {
        assert!(events.iter().any(|other| other == event), "{event}: {events:?}");
    }
    let failed = run(&["cast", &file, "--rate", "1mbit", "--to", "127.0.0.1:9", "--timeout", "0.3", "--json"]);
    let (events, code) = ended("cast", &failed);
    assert!(events.last().is_some_and(|last| last == "error") && code == Some(3), "{events:?} {code:?}");
    let failed = run(&["tune", "127.0.0.1:0", "--wait", "0.2", "--json"]);
    assert_eq!(ended("tune", &failed), (vec!["listening".into(), "error".into()], Some(3)));
}

/// It has done what it was asked, though that was nothing.
#[test]
fn a_stream_of_nothing_is_done_too() {
    let folder = tempfile::tempdir().unwrap();
    let empty = file(folder.path(), 0);
    for over in ["vrp", "tcp"] {
        let receiving = ["stream", "recv", "--bind", "127.0.0.1:0", "--over", over, "--json"];
        let receiving = || Listening::start(&receiving);
        let listening = receiving();
        let send = |to: &str, more: &[&str]| {
            run(&[&["stream", "send", "--source", &empty, "--over", over, "--to", to][..], more].concat())
        };
        let sent = send(&listening.address, &["--json"]);
        assert_eq!(ended("stream send", &sent), (vec!["done".into()], Some(0)), "{over}");
        let done = objects(&text(&sent.stdout)).pop().unwrap();
        assert_eq!((&done["frames_offered"], &done["bytes"]), (&0.into(), &0.into()), "{over}");
        assert!(done["bits_per_second"] == 0.0 && done["acknowledged_after_ms"].is_null(), "{done}");
        let (code, out, _) = listening.finish();
        assert_eq!((check("stream recv", &out), code), (vec!["listening".into(), "done".into()], Some(0)), "{over}");
        let listening = receiving();
        let sent = send(&listening.address, &[]);
        let table = text(&sent.stdout);
        assert!(sent.status.success() && table.starts_with("sent          0 of 0 "), "{over}: {table}");
        assert_eq!(listening.finish().0, Some(0));
    }
}

#[test]
fn a_daemon_its_pool_and_what_all_do() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("daemon.sock");
    let socket = socket.to_str().unwrap();
    let mut daemon = pinnace(&["daemon", "--socket", socket, "--json"]);
    let daemon = daemon.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it serves", || run(&["qbuf", "stat", "--daemon", socket]).status.success());
    let pid = daemon.id().to_string();
    let asked = run(&["qbuf", "stat", "--daemon", socket, "--json"]);
    assert_eq!(ended("qbuf stat", &asked), (vec!["daemon".into()], Some(0)));
    let pool = run(&["qbuf", "stat", "--pid", &pid, "--json"]);
    assert_eq!(ended("qbuf stat", &pool), (vec!["pool".into()], Some(0)));
    assert_eq!(ended("qbuf stat", &run(&["qbuf", "stat", "--pid", "1", "--json"])).0, ["error"]);
    assert_eq!(ended("daemon", &run(&["daemon", "--socket", socket, "--json"])), (vec!["error".into()], Some(1)));
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let ended_well = daemon.wait_with_output().unwrap();
    assert_eq!(ended("daemon", &ended_well), (vec!["serving".into()], Some(0)));
    assert!(ended_well.stderr.is_empty(), "{}", text(&ended_well.stderr));

    let _listening = Listening::start(&["vrp", "listen", "127.0.0.1:0"]);
    let rows = run(&["top", "--once", "--every", "50ms", "--json"]);
    let (events, code) = ended("top", &rows);
    assert!(code == Some(0) && events.iter().all(|event| event == "row") && !events.is_empty(), "{events:?}");
    let off = pinnace(&["top", "--once", "--json"]).env("PINNACE_COUNTERS", "off").output().unwrap();
    assert_eq!(ended("top", &off), (vec!["error".into()], Some(1)));
}

#[test]
fn what_measures_and_explains() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("pages");
    let brief = ["--rounds", "1", "--sizes", "100", "--json"];
    for (command, args, event) in [
        ("perf", &["perf", "--seconds", "0.02", "--against", "tcp,xtp,qmp,a1,vrp"][..], "throughput"),
        ("perf", &["perf", "--protocol", "xtp", "--service", "transaction"], "round_trips"),
        ("ping", &["ping", "--count", "20", "--against", "tcp,vrp"], "round_trips"),
    ] {
        let output = run(&[args, &brief].concat());
        let (events, code) = ended(command, &output);
        assert!(
            code == Some(0) && events.len() > 1 && events.iter().all(|other| other == event),
            "{args:?}: {events:?}"
        );
    }
    for (command, args, events) in [
        ("sim", &["sim", "--count", "2", "--size", "10KiB"][..], &["done"][..]),
        ("explain", &["explain", "loss=5%", "--to", "127.0.0.1"], &["explained"]),
        ("man", &["man", pages.to_str().unwrap()], &["done"]),
        ("completion", &["completion", "bash"], &["done"]),
    ] {
        let output = run(&[args, &["--json"]].concat());
        assert_eq!(ended(command, &output), (events.iter().map(|event| (*event).to_owned()).collect(), Some(0)));
        assert!(output.stderr.is_empty(), "{args:?}: {}", text(&output.stderr));
    }
    let checks = ended("doctor", &run(&["doctor", "--json"])).0;
    assert!(checks.len() > 10 && checks.iter().all(|event| event == "check"));
    for (args, events, code) in [
        (&["perf", "--protocol", "pigeon"][..], &["error"][..], 2),
        (&["ping", "--to", "127.0.0.1:9"], &["error"], 3),
        (&["ping", "--protocol", "tcp-nonesuch", "--against", "tcp-nonesuch", "--sizes", "16"], &["error"], 1),
        (&["sim", "--network", "rate=50mbit,delay=10ms,partition=0.2s..1min", "--count", "4"], &["done", "error"], 3),
        (&["sim", "--protocol", "tcp"], &["error"], 2),
        (&["explain", "deadline=1us", "--path", "internet"], &["explained", "error"], 1),
        (&["explain", "los=5%"], &["error"], 2),
        (&["explain", "--toml", "/no/such/file"], &["error"], 1),
        (&["doctor", "--cure"], &["error"], 2),
        (&["experiment", "e-v9"], &["error"], 2),
        (&["demo", "--out", "/proc/1"], &["error"], 1),
        (&["demo", "vrp", "--out", "/proc/1"], &["error"], 1),
        (&["demo", "a1", "--out", "/proc/1"], &["error"], 1),
        (&["wan", "--", "/no/such/command"], &["error"], 127),
        (&["man", "/proc/1/pages"], &["error"], 1),
        (&["completion", "telepathy"], &["error"], 2),
        (&["sail"], &["error"], 2),
    ] {
        let output = run(&[&["--json"], args].concat());
        assert_eq!(
            ended(args[0], &output),
            (events.iter().map(|event| (*event).to_owned()).collect(), Some(code)),
            "{args:?}"
        );
    }
    let listening = pinnace(&["ping", "--listen", "127.0.0.1:0", "--json"]).stdout(Stdio::piped()).spawn();
    let mut listening = listening.unwrap();
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(listening.stdout.take().unwrap()), &mut said).unwrap();
    let _ = listening.kill();
    listening.wait().unwrap();
    assert_eq!(check("ping", &said), ["listening"]);
}
