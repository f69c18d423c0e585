//! `pinnace experiment`, as a user runs it. Most of it needs root and /dev/net/tun, and says so where it has to be left out.
#![allow(clippy::print_stderr)]

mod common;

use common::{able, run, text};
use rustix::process::geteuid;
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

/// The objects printed, one a line; the last one is the summary.
fn objects(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let objects = common::objects(&text(&output.stdout));
    let events = common::json::check("experiment", &text(&output.stdout));
    assert_eq!(events.last().map(String::as_str), Some("summary"), "{objects:?}");
    objects
}

/// A quick run of an experiment: its objects, and the words of its figure.
fn quick(name: &str) -> (Vec<Value>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("figure.svg");
    let plot = file.to_str().expect("a path in UTF-8");
    let objects = objects(&run(&["--json", "experiment", name, "--quick", "--rounds", "1", "--plot", plot]));
    assert!(objects.iter().all(|object| object["experiment"] == name), "{objects:?}");
    let figure = fs::read_to_string(&file).expect("a figure");
    let document = roxmltree::Document::parse(&figure).expect("SVG is XML");
    let words = document.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text());
    (objects, words.map(str::trim).collect::<Vec<_>>().join("\n"))
}

fn number(object: &Value, name: &str) -> f64 {
    object[name].as_f64().unwrap_or_else(|| panic!("no {name} in {object}"))
}

/// The paths of the paper's table 1, with TCP beside VRP that may lose so much.
fn check_paths(name: &str, allowed: f64) {
    if !able() {
        return;
    }
    let (objects, figure) = quick(name);
    let rows: Vec<&Value> = objects.iter().filter(|object| object["transport"].is_string()).collect();
    let of = |transport: &str| rows.iter().filter(|row| row["transport"] == transport).collect::<Vec<_>>();
    let (vrp, cubic) = (of("vrp"), of("tcp-cubic"));
    assert_eq!((vrp.len(), cubic.len()), (2, 2), "{objects:?}");
    for row in &rows {
        // What was lost with permission counts for the message, but has not come through the link.
        let came = number(row, "link_share") * (1.0 - row["loss"].as_f64().unwrap_or(0.0));
        assert!((0.001..1.0).contains(&came), "{row}");
        assert_eq!(row["size"], 100_000);
    }
    for row in vrp {
        assert!(number(row, "loss") <= allowed, "the contract holds: {row}");
        assert!(number(row, "packets_sent") > 70.0, "{row}");
    }
    let ratio = number(cubic[0], "vrp_ratio");
    let summary = objects.last().unwrap();
    assert!((number(summary, "ratio_min")..=number(summary, "ratio_max")).contains(&ratio), "{objects:?}");
    assert!(objects.iter().any(|object| object["link"]["near_to_far"]["packets"].as_u64() > Some(100)), "{objects:?}");
    for words in ["VRP / TCP cubic", "10 Mbit/s, 60 ms", "1 % loss", "throughput, % of the link's rate"] {
        assert!(figure.contains(words), "{words}: {figure}");
    }
}

#[test]
fn paths_of_table_1_are_measured_with_tcp_beside_vrp_that_loses_a_quarter() {
    check_paths("e-v1", 0.25);
}

#[test]
fn paths_of_table_1_are_measured_with_tcp_beside_vrp_that_loses_nothing() {
    check_paths("e-v2", 0.0);
}

#[test]
fn packet_sizes_and_windows_are_swept() {
    if !able() {
        return;
    }
    let (objects, figure) = quick("e-v3");
    let row = |path: &str, by: &str, packet: u64, window: u64| {
        let is = |row: &&Value| {
            row["path"].as_str().is_some_and(|name| name.starts_with(path))
                && row["by"] == by
                && row["packet_bytes"] == packet
                && row["window"] == window
        };
        objects.iter().find(is).unwrap_or_else(|| panic!("{path} {by} {packet} {window}: {objects:?}"))
    };
    for (path, fragments) in [("lo", false), ("veth1500", true), ("wan:", true)] {
        for packet in [512, 1466, 4096] {
            let row = row(path, "packet", packet, 64);
            assert!(number(row, "mbit_s") > 0.1, "{row}");
            assert_eq!(row["fragmented"], fragments && packet > 1466, "{row}");
        }
    }
    // 16 packets of 1466 bytes in a round trip of 60 ms are 3.1 Mbit/s, and no more.
    let (small, large) = (row("wan:", "window", 1466, 16), row("wan:", "window", 1466, 256));
    assert!(number(small, "mbit_s") < 3.2 && number(large, "mbit_s") > number(small, "mbit_s"), "{small} {large}");
    for words in ["LAN", "WAN", "WAN, by window", "bytes of a packet", "veth1500"] {
        assert!(figure.lines().any(|line| line == words), "{words}: {figure}");
    }
}

#[test]
fn the_time_out_is_simulated_the_same_every_time() {
    let ((one, figure), (other, _)) = (quick("e-v4"), quick("e-v4"));
    assert_eq!(one, other);
    let samples = one.iter().find_map(|object| object["samples"].as_array()).expect("the evolution");
    assert!(samples.len() > 1000, "{}", samples.len());
    assert!(samples.iter().all(|sample| number(sample, "timeout_ms") > number(sample, "rtt_ms")));
    let wan = &one[0];
    assert!(number(wan, "packets") >= 3000.0 && number(wan, "expired") > 0.0, "{wan}");
    assert!(number(wan, "not_lost") <= number(wan, "expired"), "{wan}");
    let share = number(one.last().unwrap(), "share_of_packets");
    assert!((0.0..0.01).contains(&share), "below one in a hundred packets is repeated in vain: {share}");
    assert!(figure.contains("time-out") && figure.contains("packets sent"), "{figure}");
}

#[test]
fn a_lan_is_measured_with_tcp_beside_vrp() {
    if !able() {
        return;
    }
    let (objects, figure) = quick("e-v5");
    assert_eq!(objects.len(), 2 * 2 * 2 + 1, "{objects:?}");
    for row in &objects[..8] {
        assert!(number(row, "mbit_s") > 10.0 && number(row, "rounds") == 1.0, "{row}");
    }
    assert!(number(objects.last().unwrap(), "ratio_min") > 0.0);
    assert!(figure.contains("TCP cubic") && figure.contains("Gbit/s"), "{figure}");
}

#[test]
fn tables_name_the_papers_result() {
    let output = run(&["experiment", "e-v4", "--quick"]);
    let said = text(&output.stdout);
    assert!(output.status.success() && said.starts_with("# "), "{said}");
    assert!(said.contains("the paper: below 1 % of the expirations"), "{said}");
}

#[test]
fn others_than_root_are_told_what_to_do() {
    for name in ["e-v1", "e-v2", "e-v3", "e-v5"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pinnace"));
        if geteuid().is_root() {
            command.uid(65_534);
        }
        let output = match command.args(["experiment", name, "--quick"]).output() {
            Ok(output) => output,
            Err(error) => {
                return pinnace_testing::skip::host(format_args!("another user cannot run the program here ({error})"));
            }
        };
        let said = text(&output.stderr);
        assert!(said.contains("those need root: run the command with sudo"), "{said}");
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    }
}

#[test]
fn what_is_no_experiment_is_refused() {
    for arguments in [&["experiment"][..], &["experiment", "e-v6"], &["experiment", "e-v4", "--rounds", "0"]] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    let output = run(&["experiment", "e-v4", "--quick", "--plot", "/nonexistent/figure.svg"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write /nonexistent/figure.svg"));
}

#[test]
fn checksums_are_timed_beside_the_papers() {
    let (objects, figure) = quick("e-x1");
    let rows: Vec<&Value> = objects.iter().filter(|object| object["checksum"].is_string()).collect();
    assert_eq!(rows.len(), 3 * 10, "{objects:?}");
    for row in &rows {
        assert!(number(row, "gb_s") > 0.001, "{row}");
        let paper = row["paper_mbit_s"].as_array().map_or(0, Vec::len);
        assert!(paper == 3 || paper == 0, "{row}");
    }
    let copies: Vec<&Value> = objects.iter().filter(|object| object["copy"].is_string()).collect();
    assert_eq!(copies.len(), 3 * 5, "{objects:?}");
    for row in copies {
        let is_fused = row["copy"].as_str().is_some_and(|way| way.contains(" and "));
        assert!(number(row, "gb_s") > 0.001, "{row}");
        assert_eq!((row["ratio_apart"].is_f64(), row["paper_ratio_apart"].is_f64()), (is_fused, is_fused), "{row}");
    }
    let operations: Vec<&Value> = objects.iter().filter(|object| object["operation"].is_string()).collect();
    assert_eq!(operations.len(), 3, "{objects:?}");
    assert!(operations.iter().all(|row| number(row, "nanoseconds") > 0.0), "{operations:?}");
    assert_eq!(operations[0]["paper_us"], serde_json::json!([6.24, 1.0, 0.687]));
    let std = rows.iter().find(|row| row["checksum"] == "cxor std").expect("a row");
    assert_eq!((number(std, "ratio_std"), &std["paper_ratio_std"]), (1.0, &serde_json::json!([1.0, 1.0, 1.0])));
    for words in ["Speeds of checksums", "op4", "Pinnace", "read only", "DEC 5000/200 (paper)"] {
        assert!(figure.contains(words), "{words}: {figure}");
    }
}

#[test]
fn catenation_and_update_are_timed_by_length() {
    let (objects, figure) = quick("e-x2");
    let paper = objects.iter().find(|object| object["size"] == 10_000).expect("the paper's packet");
    assert_eq!(paper["paper_catenation_us"], serde_json::json!([60.0, 12.0, 4.0]));
    let long = objects.iter().find(|object| object["size"] == 1_000_000).expect("a long one");
    assert!(number(long, "again_ns") > 20.0 * number(long, "update_ns"), "not all of it is looked at: {long}");
    assert!(figure.contains("catenation") && figure.contains("the paper's packet"), "{figure}");
}

#[test]
fn throughput_by_message_size_has_udp_tcp_and_xtp() {
    let (objects, figure) = quick("e-x3");
    for path in if geteuid().is_root() { &["lo", "veth1500"][..] } else { &["lo"] } {
        for transport in ["xtp", "tcp-cubic", "udp"] {
            for length in ["short", "sustained"] {
                let is =
                    |row: &&Value| row["path"] == *path && row["transport"] == transport && row["length"] == length;
                let rows: Vec<&Value> = objects.iter().filter(is).collect();
                assert_eq!(rows.len(), 2, "{path} {transport} {length}: {objects:?}");
                assert!(rows.iter().all(|row| number(row, "mbit_s") > 1.0), "{rows:?}");
            }
        }
    }
    let summary = objects.last().unwrap();
    assert!(number(summary, "best_ratio_min") > 0.0 && number(summary, "ratio_16384") > 0.0, "{summary}");
    assert_eq!((number(summary, "paper_ethernet"), number(summary, "paper_fddi")), (0.986, 1.024));
    assert!(figure.contains("XTP") && figure.contains("bytes of a message"), "{figure}");
}

#[test]
fn go_back_n_is_simulated_the_same_every_time() {
    let ((one, figure), (other, _)) = (quick("e-x4"), quick("e-x4"));
    assert_eq!(one, other);
    for row in one.iter().filter(|row| row["selective_ratio"].is_f64() && number(row, "loss") >= 0.01) {
        assert!(number(row, "selective_ratio") > 1.0, "{row}");
    }
    for row in one.iter().filter(|row| row["name"].is_string() && number(row, "loss") == 0.0) {
        assert_eq!(number(row, "packets_resent"), 0.0, "{row}");
    }
    assert!(figure.contains("go-back-N, fixed") && figure.contains("5 % lost"), "{figure}");
}

#[test]
fn qmp_is_measured_on_a_link_of_100_mbit_s_and_by_message_size() {
    if !able() {
        return;
    }
    let (objects, figure) = quick("e-q1");
    let rows: Vec<&Value> = objects.iter().filter(|object| object["transport"].is_string()).collect();
    let qmp: Vec<_> = rows.iter().filter(|row| row["transport"] == "qmp").collect();
    assert!(qmp.len() >= 3 && rows.len() > qmp.len(), "{objects:?}");
    for row in &rows {
        assert!((10.0..110.0).contains(&number(row, "mbit_s")), "the token bucket bounds it: {row}");
    }
    assert!(qmp.iter().any(|row| row["qbuf"] == true) && qmp.iter().any(|row| row["qbuf"] == false));
    assert!(number(objects.last().unwrap(), "payload_share_min") > 0.1);
    assert!(figure.contains("QMP copied") && figure.contains("processor seconds per GB"), "{figure}");

    let (objects, figure) = quick("e-q2");
    let sizes: Vec<_> = objects.iter().filter(|row| row["transport"] == "qmp").map(|row| &row["size"]).collect();
    assert!(sizes.contains(&&Value::from(100)) && sizes.contains(&&Value::from(1 << 20)), "{objects:?}");
    assert!(figure.contains("veth100m") && figure.contains("bytes of a message"), "{figure}");
}

#[test]
fn qmp_pings_spin_and_block() {
    let (objects, figure) = quick("e-q3");
    for idle in ["spin", "block"] {
        let rows: Vec<_> = objects.iter().filter(|row| row["idle"] == idle && row["path"] == "lo").collect();
        assert_eq!(rows.len(), 6, "two sizes of two ways of QMP, and of TCP: {objects:?}");
        assert!(rows.iter().all(|row| number(row, "p50_us") > 0.5), "{rows:?}");
        assert!(rows.iter().filter(|row| row["transport"] == "qmp").all(|row| number(row, "tcp_ratio") > 0.0));
        assert!(figure.contains(&format!("lo, {idle}")), "{figure}");
    }
}

/// The paths of A1's experiments: more as root.
fn paths_of_a1() -> &'static [&'static str] {
    if geteuid().is_root() { &["lo", "veth9000"] } else { &["lo"] }
}

/// Those of ZCRP's.
fn paths_of_zcrp() -> &'static [&'static str] {
    if geteuid().is_root() { &["lo", "veth1500"] } else { &["lo"] }
}

#[test]
fn throughput_by_block_size_has_a1_with_and_without_retransmission() {
    let (objects, figure) = quick("e-a1");
    for path in paths_of_a1() {
        for transport in ["A1 reliable", "A1 raw", "datagrams", "TCP cubic"] {
            let is = |row: &&Value| row["path"] == *path && row["transport"] == transport;
            let rows: Vec<&Value> = objects.iter().filter(is).collect();
            let sizes: Vec<_> = rows.iter().map(|row| &row["size"]).collect();
            assert_eq!(sizes, [64, 4_096, 16_384], "{path} {transport}: {objects:?}");
            assert!(rows.iter().all(|row| number(row, "mbit_s") > 1.0), "{rows:?}");
            assert!(rows.iter().all(|row| row["tcp_ratio"].is_f64() != (transport == "TCP cubic")), "{rows:?}");
        }
        assert!(figure.lines().any(|line| line == *path), "{path}: {figure}");
    }
    let summary = objects.last().unwrap();
    for name in ["reliable_to_datagrams_min", "raw_to_datagrams_min", "reliable_to_tcp_large_min"] {
        assert!(number(summary, name) > 0.0, "{summary}");
    }
    let paper = ["paper_reliable_to_datagrams", "paper_reliable_to_tcp", "paper_raw_to_datagrams"];
    assert_eq!(paper.map(|name| number(summary, name)), [0.82, 0.85, 0.96]);
    assert!(figure.contains("A1 reliable") && figure.contains("a block that the application sends"), "{figure}");
}

#[test]
fn half_round_trips_have_a1_beside_datagrams_and_tcp() {
    let (objects, figure) = quick("e-a2");
    for path in paths_of_a1() {
        for idle in ["spin", "block"] {
            let rows: Vec<_> = objects.iter().filter(|row| row["idle"] == idle && row["path"] == *path).collect();
            assert_eq!(rows.len(), 8, "two sizes of A1, in two ways, of bare datagrams and of TCP: {objects:?}");
            for row in rows {
                assert_eq!(row["datagrams_ratio"].is_f64(), row["transport"] != "datagrams", "{row}");
                let (least, most) = (number(row, "half_p50_us_min"), number(row, "half_p50_us_max"));
                assert!(least > 0.2 && (least..=most).contains(&number(row, "half_p50_us")), "{row}");
                assert_eq!(row["tcp_ratio"].is_f64(), row["transport"] != "TCP cubic", "{row}");
            }
            assert!(figure.contains(&format!("{path}, {idle}")), "{figure}");
        }
    }
    let summary = objects.last().unwrap();
    assert!(0.0 < number(summary, "ratio_min") && number(summary, "ratio_min") <= number(summary, "ratio_max"));
    assert_eq!(summary["reached"], number(summary, "ratio_max") < 1.0, "{summary}");
    assert!(figure.contains("half a round trip, us") && figure.contains("datagrams"), "{figure}");
}

#[test]
fn zcrp_is_measured_by_message_size_against_tcp() {
    let (objects, figure) = quick("e-z1");
    for path in paths_of_zcrp() {
        for transport in ["zcrp", "tcp-cubic"] {
            let is = |row: &&Value| row["path"] == *path && row["transport"] == transport;
            let rows: Vec<&Value> = objects.iter().filter(is).collect();
            let sizes: Vec<_> = rows.iter().map(|row| &row["size"]).collect();
            assert_eq!(sizes, [4_096, 50_000, 1 << 20], "{path} {transport}: {objects:?}");
            assert!(rows.iter().all(|row| number(row, "mbit_s") > 1.0), "{rows:?}");
            assert!(rows.iter().all(|row| row["tcp_ratio"].is_f64() == (transport == "zcrp")), "{rows:?}");
        }
        assert!(figure.lines().any(|line| line == *path), "{path}: {figure}");
    }
    let summary = objects.last().unwrap();
    assert!(0.0 < number(summary, "ratio_large_min") && number(summary, "paper_passes_bytes") == 50_000.0, "{summary}");
    assert!(figure.contains("ZCRP") && figure.contains("bytes of a message"), "{figure}");
}

#[test]
fn zcrp_and_tcp_are_measured_beside_a_process_that_counts() {
    let (objects, figure) = quick("e-z2");
    for path in paths_of_zcrp() {
        for transport in ["zcrp", "tcp-cubic"] {
            for load in [0, 1] {
                let is = |row: &&Value| row["path"] == *path && row["transport"] == transport && row["load"] == load;
                let rows: Vec<&Value> = objects.iter().filter(is).collect();
                assert_eq!(rows.len(), 3, "{path} {transport} {load}: {objects:?}");
                for row in rows {
                    assert_eq!(
                        (row["counts_per_second"].is_f64(), row["alone_ratio"].is_f64()),
                        (load == 1, load == 1)
                    );
                    assert!(load == 0 || number(row, "counts_per_second") > 1000.0, "{row}");
                }
            }
        }
    }
    let summary = objects.last().unwrap();
    for name in ["zcrp_left_min", "tcp_left_min", "counts_ratio_min"] {
        assert!(number(summary, name) > 0.0, "{summary}");
    }
    assert!(figure.contains("ZCRP, loaded") && figure.contains("does nothing but count"), "{figure}");
}

#[test]
fn every_byte_of_every_message_is_checked() {
    let (objects, figure) = quick("e-z3");
    let summary = objects.last().unwrap();
    assert_eq!(objects.len(), 3 * paths_of_zcrp().len() + 1, "{objects:?}");
    assert!(summary["reached"] == true && number(summary, "messages") >= 6.0, "{summary}");
    assert!(number(summary, "bytes") > number(summary, "messages"), "{summary}");
    assert!(figure.contains("every byte checked"), "{figure}");
}
