//! `pinnace wan` and `pinnace perf --wan`, as a user runs them. Most of it needs root and /dev/net/tun, and says so where it
//! has to be left out.
#![allow(clippy::print_stderr)]

mod common;

use common::able;
use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const PINNACE: &str = env!("CARGO_BIN_EXE_pinnace");
const NEAR: &str = "10.77.0.1:0";
const FAR: &str = "10.77.0.2:7000";

fn pinnace(arguments: &[&str]) -> Output {
    Command::new(PINNACE).args(arguments).output().expect("the program runs")
}

/// The last line: an object.
fn object(output: &[u8]) -> Value {
    let text = std::str::from_utf8(output).expect("text");
    serde_json::from_str(text.lines().last().expect("a line")).expect("an object")
}

/// A link that stays until it is told to end.
struct Link {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Link {
    fn new(settings: &[&str]) -> Self {
        let mut child = Command::new(PINNACE)
            .args(["--json", "wan"])
            .args(settings)
            .args(["--", "sh", "-c", "echo ready; read -r _; exit 7"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, output }
    }

    fn namespaces(&self) -> [String; 2] {
        ["tx", "rx"].map(|end| format!("/run/netns/pinnace-{}-{end}", self.child.id()))
    }

    /// Runs something at the near (0) or the far (1) end.
    fn at<T: Send + 'static>(&self, end: usize, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let namespace = File::open(&self.namespaces()[end]).expect("the namespace is there");
        spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("we may enter");
            work()
        })
    }

    /// The processes at both ends.
    fn inside(&self) -> Vec<String> {
        let processes = |namespace: &String| {
            let name = Path::new(namespace).file_name().unwrap();
            let output = Command::new("ip").args(["netns", "pids"]).arg(name).output().unwrap().stdout;
            let pids = String::from_utf8(output).unwrap();
            pids.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        self.namespaces().iter().flat_map(processes).collect()
    }

    /// Lets the command end, and returns what was reported.
    fn end(mut self) -> Value {
        drop(self.child.stdin.take());
        let mut text = Vec::new();
        self.output.read_to_end(&mut text).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(7), "the exit code is the command's");
        assert!(self.gone());
        object(&text)
    }

    /// Whether the namespaces go away in time.
    fn gone(&self) -> bool {
        let start = Instant::now();
        while self.namespaces().iter().any(|name| Path::new(name).exists()) {
            if start.elapsed() > Duration::from_secs(10) {
                return false;
            }
            sleep(Duration::from_millis(20));
        }
        true
    }
}

/// Waits until these processes are no more: what has lost its parent has yet to be collected.
fn all_end(processes: &[String], why: &str) {
    let start = Instant::now();
    while processes.iter().any(|process| Path::new(&format!("/proc/{process}")).exists()) {
        assert!(start.elapsed() < Duration::from_secs(10), "{why}: of {processes:?} something is left");
        sleep(Duration::from_millis(20));
    }
}

/// What is counted adds up.
fn conserved(direction: &Value) {
    let count = |name: &str| direction[name].as_u64().unwrap_or_else(|| panic!("{name}: {direction}"));
    let gone = count("packets_lost") + count("packets_dropped") + count("packets_under_way");
    assert_eq!(count("packets"), count("packets_delivered") + gone, "{direction}");
}

#[test]
fn what_is_still_under_way_is_not_delivered() {
    if !able() {
        return;
    }
    let link = Link::new(&["--rate", "10mbit", "--rtt", "20s"]);
    let near = link.at(0, || UdpSocket::bind(NEAR).unwrap()).join().unwrap();
    (0..5).for_each(|_| assert_eq!(near.send_to(&[1; 1000], FAR).unwrap(), 1000));
    // It looks every 50 us.
    sleep(Duration::from_millis(500));
    let data = &link.end()["near_to_far"];
    conserved(data);
    assert!(data["packets_under_way"].as_u64().unwrap() >= 5, "{data}");
    assert_eq!((&data["packets_delivered"], &data["bytes_delivered"]), (&0.into(), &0.into()), "{data}");
}

#[test]
fn the_round_trip_takes_its_time() {
    if !able() {
        return;
    }
    let link = Link::new(&["--rate", "100mbit", "--rtt", "60ms"]);
    const TURNS: usize = 10;
    let listener = link.at(1, || TcpListener::bind(FAR).unwrap()).join().unwrap();
    spawn(move || listener.incoming().take(TURNS).count());
    let time = |_| {
        let start = Instant::now();
        drop(TcpStream::connect(FAR).unwrap());
        start.elapsed()
    };
    let times: Vec<_> = link.at(0, move || (0..TURNS).map(time).collect()).join().unwrap();
    // A busy machine makes some of them longer, and none shorter.
    assert!((60..90).contains(&times.iter().min().unwrap().as_millis()), "{times:?}");
    let report = link.end();
    assert_eq!(common::json::check("wan", &report.to_string()), ["done"]);
    assert_eq!((&report["network"], &report["exit"]), (&"rate=100mbit,rtt=60ms".into(), &7.into()));
    conserved(&report["near_to_far"]);
    conserved(&report["far_to_near"]);
}

#[test]
fn tcp_crosses_intact_with_losses_bursts_jitter_and_reordering() {
    if !able() {
        return;
    }
    let link = Link::new(&[
        "--rate",
        "200mbit",
        "--rtt",
        "4ms",
        "--loss",
        "1%",
        "--burst-loss",
        "0.1%,50%",
        "--jitter",
        "1ms",
        "--reorder",
        "1%:3ms",
    ]);
    let sent: Vec<u8> = (0..4_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let expected = sent.clone();
    let listener = link.at(1, || TcpListener::bind(FAR).unwrap()).join().unwrap();
    let receiver = spawn(move || {
        let mut received = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
        received
    });
    link.at(0, move || TcpStream::connect(FAR).unwrap().write_all(&sent).unwrap()).join().unwrap();
    assert!(receiver.join().unwrap() == expected, "the bytes are the same");
    let report = link.end();
    for direction in ["near_to_far", "far_to_near"] {
        conserved(&report[direction]);
    }
    let data = &report["near_to_far"];
    // 2,760 segments and what was repeated; 1.2 % are lost.
    assert!(data["packets"].as_u64().unwrap() > 2700, "large packets are counted as what they are on a link: {data}");
    assert!((5..150).contains(&data["packets_lost"].as_u64().unwrap()), "{data}");
    assert!(data["packets_held"].as_u64().unwrap() > 0, "{data}");
}

#[test]
fn datagrams_that_the_kernel_joins_are_lost_one_by_one() {
    if !able() {
        return;
    }
    let link = Link::new(&["--rate", "1gbit", "--rtt", "2ms", "--loss", "20%", "--loss-back", "0"]);
    let far = link.at(1, || UdpSocket::bind(FAR).unwrap()).join().unwrap();
    let near = link.at(0, || UdpSocket::bind(NEAR).unwrap()).join().unwrap();
    let datagrams: Vec<u8> = (0..40_u8).flat_map(|number| [number; 1000]).collect();
    setsockopt(&near, UdpGsoSegment, &1000).unwrap();
    near.send_to(&datagrams, FAR).unwrap();
    far.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let (mut buffer, mut numbers) = ([0; 2000], Vec::new());
    while let Ok(length) = far.recv(&mut buffer) {
        assert_eq!(length, 1000);
        assert!(buffer[..1000].iter().all(|byte| *byte == buffer[0]), "nothing is mixed");
        numbers.push(buffer[0]);
    }
    let data = &link.end()["near_to_far"];
    conserved(data);
    assert!(numbers.is_sorted() && (20..40).contains(&numbers.len()), "{numbers:?}");
    let one = |name: &str| data[name].as_u64().unwrap() as usize;
    // The kernel sends a few packets of its own.
    assert!(one("packets") >= 40 && one("packets_delivered") >= numbers.len() && one("packets_lost") >= 1, "{data}");
    assert!(one("reads") < 20, "they came in one piece: {data}");
}

#[test]
fn nothing_is_left_after_a_signal() {
    if !able() {
        return;
    }
    for (signal, code) in [(Signal::INT, Some(143)), (Signal::TERM, Some(143)), (Signal::KILL, None)] {
        let mut link = Link::new(&["--rtt", "1ms", "--far", "sleep 1000"]);
        let inside = link.inside();
        assert!(inside.len() >= 2, "{inside:?}");
        // To wait would close it, and end the command.
        let input = link.child.stdin.take();
        kill_process(Pid::from_child(&link.child), signal).unwrap();
        assert_eq!(link.child.wait().unwrap().code(), code, "{signal:?}");
        assert!(link.gone(), "{signal:?}");
        drop(input);
        all_end(&inside, &format!("{signal:?}"));
    }
}

#[test]
fn what_a_killed_command_and_its_killed_janitor_leave_the_next_one_ends() {
    if !able() {
        return;
    }
    let mut link = Link::new(&["--rtt", "1ms", "--far", "sleep 1000"]);
    let inside = link.inside();
    assert!(inside.len() >= 2, "{inside:?}");
    let pid = link.child.id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let is_janitor = |child: &&str| {
        let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("ip netns pids")
    };
    let janitor: i32 = children.split_whitespace().find(is_janitor).expect("a janitor").parse().unwrap();
    let input = link.child.stdin.take();
    kill_process(Pid::from_raw(janitor).unwrap(), Signal::KILL).unwrap();
    kill_process(Pid::from_child(&link.child), Signal::KILL).unwrap();
    link.child.wait().unwrap();
    assert!(pinnace(&["wan", "--rtt", "1ms", "--", "true"]).status.success());
    drop(input);
    assert!(link.gone());
    all_end(&inside, "both killed");
}

#[test]
fn the_command_finds_the_ends_and_the_far_command() {
    if !able() {
        return;
    }
    let listen = format!("{PINNACE} ping --listen $PINNACE_FAR:7001");
    let near = format!("{PINNACE} ping --to $PINNACE_FAR:7001 --protocol tcp --sizes 16 --count 3 --rounds 1 --json");
    let output = pinnace(&["wan", "--rtt", "20ms", "--far", &listen, "--", "sh", "-c", &near]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let ping: Value = text.lines().filter_map(|line| serde_json::from_str(line).ok()).next_back().expect("a result");
    let p50 = ping["p50_us"].as_f64().unwrap();
    assert!((20_000.0..40_000.0).contains(&p50), "{ping}");
    assert!(text.contains("# link rtt=20ms\n") && text.contains("near to far"), "{text}");
}

#[test]
fn the_far_command_may_end_by_itself() {
    if !able() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (near_is_done, far_is_done) = (path("near"), path("far"));
    let far = format!("until [ -e {near_is_done} ]; do sleep 0.01; done; sleep 0.3; touch {far_is_done}");
    let output = pinnace(&["wan", "--far", &far, "--", "touch", &near_is_done]);
    assert!(output.status.success(), "{output:?}");
    assert!(std::fs::exists(&far_is_done).unwrap());
}

#[test]
fn perf_measures_over_the_link() {
    if !able() {
        return;
    }
    let wan = "rate=20mbit,rtt=10ms,loss=0.1%";
    let output = pinnace(&[
        "--json",
        "perf",
        "--protocol",
        "tcp",
        "--against",
        "tcp",
        "--sizes",
        "64KiB",
        "--rounds",
        "1",
        "--seconds",
        "0.5",
        "--wan",
        wan,
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result = object(&output.stdout);
    assert_eq!(result["path"], format!("wan:{wan}"));
    let rate = result["gbit_s"].as_f64().unwrap();
    assert!((0.001..0.0201).contains(&rate), "{result}");
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    for (arguments, reason) in [
        (&["--loss", "1", "--", "true"][..], "`loss=1` is not a percentage"),
        (&["--rtt", "60", "--", "true"], "`rtt=60` is not a time"),
        (&["--mtu", "20", "--", "true"], "`mtu=20` is not"),
        (&["--rate", "1mbit"], "<COMMAND>"),
    ] {
        let output = pinnace(&[&["wan"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(reason), "{said}");
        assert_eq!(output.status.code(), Some(2), "{said}");
    }
}

#[test]
fn a_command_that_is_not_there_ends_as_in_a_shell() {
    let output = pinnace(&["--json", "wan", "--rtt", "1ms", "--", "no-such-command"]);
    let said = object(&output.stdout);
    assert_eq!((output.status.code(), &said["exit"]), (Some(127), &127.into()), "{said}");
    assert_eq!(said["error"], "no-such-command: command not found");
}

#[test]
fn others_than_root_are_told_what_to_do() {
    let mut command = Command::new(PINNACE);
    if geteuid().is_root() {
        command.uid(65_534);
    }
    let output = match command.args(["wan", "--rtt", "1ms", "--", "true"]).output() {
        Ok(output) => output,
        Err(error) => {
            return pinnace_testing::skip::host(format_args!("another user cannot run the program here ({error})"));
        }
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("those need root: run the command with sudo"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}
