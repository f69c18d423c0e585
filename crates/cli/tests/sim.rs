//! `pinnace sim`, as its users run it.

mod common;

use common::wait_until_interruptible;
use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pinnace")).arg("sim").args(arguments).output().expect("the program starts")
}

fn json(arguments: &[&str]) -> (Value, Option<i32>) {
    let output = sim(&[arguments, &["--json"]].concat());
    // Behind it there may be why it failed.
    let report = output.stdout.split(|&byte| byte == b'\n').next().unwrap_or_default();
    (serde_json::from_slice(report).expect("a JSON object"), output.status.code())
}

const LOSSY: &str = "rate=50mbit,delay=10ms,jitter=1ms,loss=3%,burst-loss=0.5%:30%,reorder=1%,duplicate=1%";

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_does_not() {
    for extra in [&["--trace", "50"][..], &["--json", "--trace", "50"], &["--congestion", "cubic"]] {
        let run = |seed: &str| {
            let arguments = [&["--network", LOSSY, "--count", "4", "--seed", seed], extra].concat();
            let output = sim(&arguments);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        };
        assert!(run("5") == run("5"), "{extra:?}");
        assert!(run("5") != run("6"), "{extra:?}");
    }
}

#[test]
fn a_path_that_is_said_to_lose_much_is_filled() {
    let path = "rate=50mbit,delay=20ms,loss=30%";
    let rate = |congestion: &str| {
        let arguments =
            ["--network", path, "--back", path, "--count", "16", "--until", "30", "--congestion", congestion];
        json(&arguments).0["bits_per_second"].as_f64().expect("a rate")
    };
    let (said, unsaid) = (rate("bbr:30%"), rate("bbr"));
    assert!(said > 30e6 && unsaid < 5e6, "{said} and {unsaid} bit/s");
}

#[test]
fn an_interrupt_ends_it_with_one_line() {
    // An hour of simulated time, and seconds of ours.
    let network = ["--network", "rate=100mbit,delay=30ms,loss=5%", "--congestion", "cubic"];
    let long = [&network[..], &["--count", "200", "--until", "86400", "--json"]].concat();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinnace"));
    let child = command.arg("sim").args(long).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    wait_until_interruptible(&child);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    let object: Value = serde_json::from_slice(&output.stdout).expect("a JSON object");
    assert_eq!((output.status.code(), &object["event"]), (Some(130), &"error".into()));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "pinnace: interrupted\n");
}

#[test]
fn everything_arrives_and_the_sums_are_right() {
    let (report, code) = json(&["--network", LOSSY, "--sizes", "0,1,64KiB,1MiB", "--count", "2"]);
    assert_eq!((code, &report["arrived"], &report["outcome"]), (Some(0), &Value::Bool(true), &"done".into()));
    let messages = report["deliveries"].as_array().expect("messages");
    assert_eq!(messages.len(), 8);
    assert!(messages.iter().all(|message| message["verified"] == true));
    let bytes = 2 * (1 + 65_536 + 1_048_576);
    assert_eq!(report["bytes"], bytes);
    let sum = |name: &str| {
        let column = report["time_line"][name].as_array().expect("a column");
        column.iter().filter_map(Value::as_u64).sum::<u64>()
    };
    assert_eq!(sum("bytes"), bytes);
    assert_eq!(sum("units_resent"), report["sender_counters"]["units_resent"].as_u64().expect("a count"));
    assert!(sum("datagrams_lost") > 0, "{report}");
    let goodput = report["bits_per_second"].as_f64().expect("a rate");
    assert!(goodput > 1e6 && goodput < 50e6, "{goodput}");
}

#[test]
fn a_third_party_s_datagrams_are_dropped_and_cost_less_than_a_tenth() {
    let goodput = |network: &str| {
        let (report, code) = json(&["--network", network, "--count", "8"]);
        assert_eq!((code, &report["arrived"]), (Some(0), &Value::Bool(true)), "{network}: {report}");
        report["bits_per_second"].as_f64().expect("a rate")
    };
    let quiet = "rate=50mbit,delay=10ms";
    let (alone, beside) = (goodput(quiet), goodput(&format!("{quiet},adversary=1000")));
    assert!(beside > 0.9 * alone, "{beside} of {alone} bit/s");
}

#[test]
fn the_report_for_people_says_what_happened() {
    let output = sim(&["--count", "2", "--trace", "7"]);
    let text = String::from_utf8(output.stdout).expect("text");
    for part in [
        "all 2 arrived whole",
        "of the link's rate",
        "resent ",
        "in place ",
        "time line",
        "units_sent",
        "last 7 datagrams",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_path_that_dies_is_told_to_both_ends() {
    //= Z-19 test
    let network = ["--network", "rate=50mbit,delay=10ms,partition=0.2s..1min", "--count", "8"];
    let (report, code) = json(&network);
    assert_eq!((code, &report["arrived"]), (Some(3), &Value::Bool(false)));
    for message in report["deliveries"].as_array().expect("messages") {
        for end in ["receiver_failure", "sender_failure"] {
            assert!(message[end].as_str().is_some_and(|failure| failure.contains("gone")), "{message}");
        }
    }
    let output = sim(&network);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("FAILED at the receiver") && text.contains("FAILED at the sender"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("pinnace: 0 of 8 messages arrived whole"));
}

#[test]
fn a_run_that_is_cut_off_fails() {
    let (report, code) = json(&["--until", "0.2"]);
    assert_eq!((code, &report["outcome"]), (Some(1), &"deadline".into()));
}

#[test]
fn wrong_arguments_are_explained() {
    for (arguments, advice) in [
        (["--network", "loss=1"], "a percentage, like 1%"),
        (["--network", "speed=100mbit"], "a network setting (rate, queue"),
        (["--network", "rate=fast"], "a rate above zero, like 100mbit"),
        (["--back", "delay=30"], "a time, like 30ms"),
        (["--size", "1XB"], "a size like 1500, 64KiB"),
        (["--size", "1GiB"], "at most 2 GiB"),
        (["--until", "0"], "expected seconds"),
        (["--unit", "20"], "29..=65507"),
        (["--congestion", "vegas"], "choose bbr, bbr:30%"),
        (["--congestion", "bbr:60%"], "1 % to 50 %"),
        (["--protocol", "vrp"], "`pinnace experiment e-v4` simulates VRP"),
        (["--protocol", "qmp"], "`pinnace wan`"),
    ] {
        let output = sim(&arguments);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(advice), "{arguments:?}: {complaint}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_figure_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (svg, png) = (folder.path().join("line.svg"), folder.path().join("line.png"));
    for file in [&svg, &png] {
        let output = sim(&["--count", "4", "--plot", file.to_str().expect("a plain name")]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = std::fs::read_to_string(svg).expect("the figure");
    let document = roxmltree::Document::parse(&text).expect("well-formed XML");
    assert_eq!(document.root_element().tag_name().name(), "svg");
    assert!(text.contains("goodput, Mbit/s") && text.contains("units sent again"));
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(png).expect("the figure")));
    assert_eq!(decoder.read_info().expect("a PNG").info().size(), (900, 460));
    let output = sim(&["--count", "1", "--plot", "/nowhere/line.svg"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn help_documents_the_network_language() {
    let output = sim(&["--help"]);
    let text = String::from_utf8(output.stdout).expect("text");
    for key in [
        "rate=",
        "queue=",
        "ecn=",
        "delay=",
        "jitter=",
        "loss=",
        "burst-loss=",
        "train-loss=",
        "reorder=",
        "duplicate=",
        "corrupt=",
        "mtu=",
        "mtu-change=",
        "icmp=",
        "partition=",
        "adversary=",
    ] {
        assert!(text.contains(key), "{key}");
    }
    // The examples work.
    for example in text.lines().filter_map(|line| line.strip_prefix("  pinnace sim --network rate=50mbit")) {
        assert!(example.contains("partition="), "{example}");
    }
}
