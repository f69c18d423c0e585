//! `pinnace perf` and `pinnace ping` with QMP.

use crate::common::{protocol_36, run, text};
use serde_json::Value;

fn objects(args: &[&str]) -> Vec<Value> {
    let measured = run(args);
    assert_eq!(measured.status.code(), Some(0), "{args:?}: {}", text(&measured.stderr));
    crate::common::objects(&text(&measured.stdout))
}

const PERF: [&str; 10] =
    ["--json", "perf", "--protocol", "qmp", "--against", "tcp-cubic", "--rounds", "1", "--seconds", "0.05"];

#[test]
fn messages_are_measured_against_tcp_with_and_without_qbufs() {
    for size in ["1", "100", "16KiB", "1MiB"] {
        for more in [&[][..], &["--no-qbuf"], &["--status-every", "2", "--go-back-n"]] {
            let lines = objects(&[&PERF[..], &["--sizes", size], more].concat());
            let qmp = &lines[0];
            assert_eq!((&qmp["transport"], &qmp["ratio_to"]), (&"qmp".into(), &"tcp-cubic".into()), "{lines:?}");
            assert_eq!(qmp["qmp"]["no_qbuf"], more == ["--no-qbuf"], "{qmp}");
            assert!(qmp["gbit_s"].as_f64().unwrap() > 0.0 && lines[1]["transport"] == "tcp-cubic", "{lines:?}");
            // Whoever reads copies all there is.
            let (copied, in_place) = (qmp["share_copied"].as_f64(), qmp["in_place"].as_f64());
            assert!(more != ["--no-qbuf"] || (copied >= Some(1.0) && in_place == Some(0.0)), "{qmp}");
        }
    }
}

#[test]
fn protocol_36_is_measured() {
    let Some(alone) = protocol_36() else { return };
    if !alone.is_apart {
        pinnace_testing::skip::host("no network namespace here, and others may use protocol 36 of 127.0.0.1");
        return;
    }
    let lines = objects(&[&PERF[..], &["--sizes", "64KiB", "--link", "ip36"]].concat());
    assert_eq!((&lines[0]["transport"], &lines[0]["qmp"]["link"]), (&"qmp".into(), &"ip36".into()), "{lines:?}");
}

#[test]
fn round_trips_are_timed_against_tcp() {
    for idle in ["spin", "block"] {
        for more in [&[][..], &["--no-qbuf"]] {
            let ping = ["--json", "ping", "--protocol", "qmp", "--sizes", "1,16,5000", "--count", "200"];
            let lines = objects(&[&ping[..], &["--rounds", "1", "--idle", idle], more].concat());
            let [first, tcp, ..] = &lines[..] else { panic!("{lines:?}") };
            assert_eq!((lines.len(), &first["ratio_to"]), (6, &"tcp".into()), "{lines:?}");
            assert_eq!((&first["transport"], &tcp["transport"]), (&"qmp".into(), &"tcp".into()));
            assert!(lines.iter().all(|line| line["count"] == 200 && line["p50_us"].as_f64() > Some(0.5)), "{lines:?}");
        }
    }
}

#[test]
fn shared_memory_is_measured_with_a_daemon_of_its_own() {
    for (size, more) in [("16", &[][..]), ("64KiB", &[]), ("1MiB", &[]), ("1MiB", &["--no-qbuf"])] {
        let lines = objects(&[&PERF[..], &["--sizes", size, "--link", "shm"], more].concat());
        assert_eq!((&lines[0]["transport"], &lines[0]["qmp"]["link"]), (&"qmp".into(), &"shm".into()), "{lines:?}");
        let (copied, is_passed) = (lines[0]["share_copied"].as_f64(), more.is_empty());
        assert_eq!(copied, Some(if is_passed { 0.0 } else { 1.0 }), "{size} {more:?}: {lines:?}");
    }
    let ping = ["--json", "ping", "--protocol", "qmp", "--link", "shm", "--sizes", "16", "--count", "200"];
    let lines = objects(&[&ping[..], &["--rounds", "1", "--idle", "spin"]].concat());
    assert_eq!((&lines[0]["transport"], &lines[0]["count"]), (&"qmp".into(), &200.into()), "{lines:?}");
}

#[test]
fn ethernet_is_measured_between_namespaces() {
    if !rustix::process::geteuid().is_root() {
        pinnace_testing::skip::host("needs root");
        return;
    }
    let lines = objects(&[&PERF[..], &["--sizes", "64KiB", "--link", "ether", "--path", "veth1500"]].concat());
    assert_eq!((&lines[0]["transport"], &lines[0]["qmp"]["link"]), (&"qmp".into(), &"ether".into()), "{lines:?}");
}
