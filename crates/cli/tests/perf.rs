//! `pinnace perf` and `pinnace ping`, as a user runs them.
#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

use serde_json::Value;
use std::process::{Command, Output};

fn pinnace(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_pinnace")).args(arguments).output().expect("the program runs");
    assert!(output.stderr.len() < 10_000, "{}", said(&output));
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The objects printed, one a line.
fn objects(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", said(output));
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn line<'a>(objects: &'a [Value], transport: &str, ratio_to: &str, size: u64) -> &'a Value {
    objects
        .iter()
        .find(|object| object["transport"] == transport && object["ratio_to"] == ratio_to && object["size"] == size)
        .unwrap_or_else(|| panic!("no line for {transport} to {ratio_to} at {size}: {objects:?}"))
}

#[test]
fn perf_compares_transports_in_one_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let figure = folder.path().join("figure.svg");
    let output = pinnace(&[
        "perf",
        "--json",
        "--sizes",
        "1KiB,64KiB",
        "--rounds",
        "2",
        "--seconds",
        "0.02",
        "--against",
        "tcp,udp,tcp-nonesuch",
        "--plot",
        figure.to_str().expect("a path in UTF-8"),
    ]);
    let objects = objects(&output);
    assert_eq!(objects.len(), 2 * 4, "{objects:?}");
    for size in [1024, 65_536] {
        for other in ["tcp", "udp"] {
            let own = line(&objects, "zcrp", other, size);
            let theirs = line(&objects, other, "zcrp", size);
            let ratio = own["gbit_s"].as_f64().unwrap() / theirs["gbit_s"].as_f64().unwrap();
            assert!((own["ratio"].as_f64().unwrap() / ratio - 1.0).abs() < 1e-6, "{own}");
            assert!((theirs["ratio"].as_f64().unwrap() * ratio - 1.0).abs() < 1e-6, "{theirs}");
            for object in [own, theirs] {
                assert_eq!((&object["path"], &object["rounds"]), (&"lo".into(), &2.into()));
                assert!(object["gbit_s"].as_f64().unwrap() > 0.0, "{object}");
                assert!(object["cpu_s_per_gb_tx"].as_f64().unwrap() > 0.0, "{object}");
                assert!(object["cpu_s_per_gb_rx"].as_f64().unwrap() > 0.0, "{object}");
            }
            assert!((0.0..=1.0).contains(&own["in_place"].as_f64().unwrap()), "{own}");
            assert!(theirs["in_place"].is_null(), "{theirs}");
        }
    }
    // What is promised comes first, in this order.
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let fields = "transport path size gbit_s cpu_s_per_gb_tx cpu_s_per_gb_rx ratio_to ratio in_place rounds";
    for line in text.lines() {
        let at: Vec<_> = fields.split(' ').map(|field| line.find(&format!("\"{field}\":"))).collect();
        assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{line}");
    }
    assert!(said(&output).contains("tcp-nonesuch is left out: this kernel does not offer TCP nonesuch"));
    let figure = std::fs::read_to_string(figure).expect("a figure");
    assert!(figure.starts_with("<svg") && figure.contains("zcrp") && figure.contains("message size"));
}

#[test]
fn perf_runs_beside_a_load_and_prints_a_table_for_people() {
    let output = pinnace(&[
        "perf",
        "--sizes",
        "64KiB",
        "--rounds",
        "1",
        "--bytes",
        "4MiB",
        "--against",
        "tcp,tcp-batched",
        "--load",
        "both",
        "--idle",
        "block",
    ]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.starts_with("# ") && text.contains("pinnace perf --sizes 64KiB"), "{text}");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.trim_start().starts_with("64 KiB"))
        .map(|line| line.split_whitespace().skip(2).take(2).collect())
        .collect();
    let mut expected = Vec::new();
    for load in ["0", "1"] {
        expected.extend([["zcrp", load], ["tcp", load], ["tcp-batched", load]]);
    }
    // Not every host lets everybody choose cubic, which batches here.
    if said(&output).contains("tcp-batched is left out") {
        expected.retain(|row| row[0] != "tcp-batched");
    }
    assert_eq!(rows, expected, "{text}");
}

#[test]
fn what_counts_beside_it_says_how_often() {
    let arguments =
        ["perf", "--size", "64KiB", "--rounds", "1", "--bytes", "64MiB", "--against", "tcp", "--load", "both"];
    let output = pinnace(&[&arguments[..], &["--json"]].concat());
    let objects = objects(&output);
    assert_eq!(objects.len(), 4, "{objects:?}");
    for object in objects {
        let counts = object["counts_per_second"].as_f64();
        assert_eq!(counts.is_some(), object["load"] == 1, "{object}");
        assert!(counts.is_none_or(|counts| counts > 1000.0), "{object}");
    }
    let text = String::from_utf8(pinnace(&arguments).stdout).unwrap();
    let rows = |load: &str| {
        let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row.len() > 4 && row[1] == "KiB" && row[3] == load).collect::<Vec<_>>()
    };
    assert!(text.contains("counts/us") && rows("0").len() == 2 && rows("1").len() == 2, "{text}");
    assert!(
        rows("1").iter().all(|row| row.last().is_some_and(|counts| counts.parse().is_ok_and(|n: f64| n > 0.0))),
        "{text}"
    );
}

#[test]
fn ping_measures_round_trips() {
    for idle in ["block", "adaptive", "spin"] {
        let output =
            pinnace(&["ping", "--json", "--sizes", "16,64KiB", "--count", "30", "--rounds", "2", "--idle", idle]);
        let objects = objects(&output);
        assert_eq!(objects.len(), 4, "{objects:?}");
        for size in [16, 65_536] {
            for object in [line(&objects, "zcrp", "tcp", size), line(&objects, "tcp", "zcrp", size)] {
                assert_eq!((&object["idle"], &object["count"]), (&idle.into(), &30.into()));
                let times = ["p50_us", "p90_us", "p99_us", "p999_us", "max_us"].map(|at| object[at].as_f64().unwrap());
                assert!(times[0] > 0.0 && times.is_sorted(), "{object}");
            }
        }
    }
}

#[test]
fn turns_that_had_nothing_to_do_are_not_counted() {
    let output = pinnace(&["ping", "--json", "--sizes", "16", "--count", "3", "--rounds", "5"]);
    let objects = objects(&output);
    let line = line(&objects, "zcrp", "tcp", 16);
    assert_eq!((&line["count"], &line["rounds"]), (&3.into(), &3.into()), "{line}");
}

#[test]
fn what_nobody_counts_is_null() {
    let args = ["perf", "--json", "--protocol", "a1", "--mode", "raw", "--against", "udp,vrp", "--sizes", "16KiB"];
    let output = pinnace(&[&args[..], &["--bytes", "4MiB", "--rounds", "1"]].concat());
    let objects = objects(&output);
    let raw = line(&objects, "a1", "udp", 16_384);
    assert!(raw["loss"].is_f64() && raw["longest_run_packets"].is_null(), "{raw}");
    assert!(line(&objects, "vrp", "a1", 16_384)["longest_run_packets"].is_u64());
    assert_eq!(line(&objects, "udp", "a1", 16_384)["messages"], 256);
}

#[test]
fn ping_reaches_a_peer_that_listens_and_says_what_is_missing_where_none_does() {
    use std::io::{BufRead, BufReader};
    let mut peer = Command::new(env!("CARGO_BIN_EXE_pinnace"))
        .args(["ping", "--json", "--listen", "127.0.0.1:0"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut words = String::new();
    BufReader::new(peer.stdout.take().unwrap()).read_line(&mut words).unwrap();
    let words: Value = serde_json::from_str(&words).expect("one object");
    let address = words["address"].as_str().expect("an address").to_owned();
    let ping = || pinnace(&["ping", "--json", "--to", &address, "--sizes", "16", "--count", "20", "--half"]);
    let output = ping();
    peer.kill().unwrap();
    peer.wait().unwrap();
    assert_eq!(line(&objects(&output), "zcrp", "tcp", 16)["path"], address.as_str());
    let output = ping();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("pinnace ping --listen"), "{}", said(&output));
}

/// Somebody who is asked by `pinnace ping --to`, and says something to everybody. What is written to him tells when they are gone.
fn somebody(mut say: impl FnMut(&mut std::net::TcpStream) -> std::io::Result<()> + Send + 'static) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = say(&mut stream);
            // Until the other end is gone.
            let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
        }
    });
    address
}

#[test]
fn ping_believes_of_the_other_end_neither_endless_words_nor_other_addresses() {
    use std::io::Write;
    let ping = |to: &str| {
        pinnace(&["ping", "--to", to, "--sizes", "16", "--protocol", "vrp", "--against", "vrp", "--rounds", "1"])
    };
    let (tell, told) = std::sync::mpsc::channel();
    let endless = somebody(move |stream| {
        let mut bytes = 0_u64;
        // No more than the buffers of the system take behind what was read.
        while bytes < 1 << 30 && stream.write_all(&[b' '; 65_536]).is_ok() {
            bytes += 65_536;
        }
        let _ = tell.send(bytes);
        Ok(())
    });
    let output = ping(&endless);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let bytes = told.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
    assert!(bytes < 64 << 20, "{bytes} bytes were taken");

    let other = somebody(|stream| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    let output = ping(&other);
    let is_named = said(&output).contains(&format!("{other} does not answer as `pinnace ping --listen` does"));
    assert!(is_named && output.status.code() == Some(1), "{}", said(&output));

    // It has everything sent to a third one, who has not asked for it.
    let third = std::net::UdpSocket::bind("127.0.0.9:0").unwrap();
    let opened = format!("{{\"opened\":\"{}\"}}\n", third.local_addr().unwrap());
    let elsewhere = somebody(move |stream| stream.write_all(opened.as_bytes()));
    let output = ping(&elsewhere);
    assert_ne!(output.status.code(), Some(0));
    third.set_nonblocking(true).unwrap();
    let got = third.recv(&mut [0; 2000]);
    assert_eq!(got.map_err(|error| error.kind()), Err(std::io::ErrorKind::WouldBlock), "{}", said(&output));
}

#[test]
fn ping_measures_vrp_and_a_bare_loop() {
    let output =
        pinnace(&["ping", "--protocol", "vrp", "--sizes", "1,100KiB", "--count", "20", "--rounds", "2", "--json"]);
    for size in [1, 102_400] {
        assert_eq!(line(&objects(&output), "vrp", "tcp", size)["count"], 20);
    }
    for idle in ["block", "adaptive", "spin"] {
        let arguments =
            ["ping", "--json", "--protocol", "udp", "--sizes", "16,64KiB", "--count", "20", "--rounds", "2"];
        let objects = objects(&pinnace(&[&arguments[..], &["--idle", idle]].concat()));
        for size in [16, 65_536] {
            let line = line(&objects, "udp", "tcp", size);
            assert!(line["count"] == 20 && line["p50_us"].as_f64().is_some_and(|time| time > 0.0), "{line}");
        }
    }
}

/// Two hosts with a link between them, whose ends have other numbers here than there, and addresses of that link alone.
const LINK: &str = r#"
unshare -n sleep 100 &
far=$!
trap 'kill $listener $far 2> /dev/null || true' EXIT
while [ "$(readlink /proc/$far/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
there="nsenter -t $far -n"
ip link add va index 61 type veth peer name vb index 71 netns $far || exit 77
up='ip link set lo up && ip link set $0 addrgenmode none && ip addr add $1/64 dev $0 nodad && ip link set $0 up'
sh -c "$up" va fe80::a && $there sh -c "$up" vb fe80::b || exit 77
$there "$PINNACE" ping --json --listen '[fe80::b%vb]:0' > "$FOLDER/said" &
listener=$!
while ! grep -q listening "$FOLDER/said"; do sleep 0.02; done
port=$(sed 's/.*]:\([0-9]*\)".*/\1/' "$FOLDER/said")
"$PINNACE" ping --json --sizes 16 --count 20 --rounds 1 --to "[fe80::b%va]:$port" --against tcp,xtp,qmp,a1,service
"#;

#[test]
fn ping_reaches_an_address_of_one_link_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["-n", "timeout", "90", "sh", "-c", LINK]).env("PINNACE", env!("CARGO_BIN_EXE_pinnace"));
    let output = match command.env("FOLDER", folder.path()).output() {
        Ok(output) if output.status.code() != Some(77) && !said(&output).contains("unshare failed") => output,
        _ => return pinnace_testing::skip::host("needs a network namespace and ip"),
    };
    let objects = objects(&output);
    for transport in ["tcp", "zcrp", "xtp", "qmp", "a1", "service"] {
        let measured = objects.iter().any(|object| object["transport"] == transport && object["count"] == 20);
        assert!(measured, "{transport}: {objects:?} {}", said(&output));
    }
}

#[test]
fn what_is_missing_is_said_plainly() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinnace"));
    // Without root the first thing that is missing is root; with it, the programs.
    let output = command.args(["perf", "--path", "veth1500seg"]).env("PATH", "/nonexistent").output().unwrap();
    let words = said(&output);
    assert_eq!((output.status.code(), words.lines().count()), (Some(1), 1), "{words}");
    assert!(
        words.contains("the path veth1500seg needs") && (words.contains("sudo") || words.contains("iproute2")),
        "{words}"
    );
    for (arguments, part) in [
        (["perf", "--sizes", "8GiB"], "sizes are"),
        (["perf", "--against", "pigeon"], "no transport"),
        (["ping", "--sizes", "0"], "sizes are"),
    ] {
        let output = pinnace(&arguments);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(part), "{}", said(&output));
    }
}
