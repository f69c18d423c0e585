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

const PROTOCOLS: [&str; 5] = ["zcrp", "vrp", "xtp", "qmp", "a1"];

const LOSSY: &str = "rate=50mbit,delay=10ms,jitter=1ms,loss=3%,burst-loss=0.5%:30%,reorder=1%,duplicate=1%";

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_does_not() {
    let protocols = PROTOCOLS.map(|protocol| ["--trace", "50", "--protocol", protocol]);
    let others = [&["--json", "--trace", "50"][..], &["--congestion", "cubic"]];
    let largest = u64::MAX.to_string();
    assert!(sim(&["--protocol", "zcrp,vrp,xtp,qmp,a1", "--count", "2", "--seed", &largest]).status.success());
    for extra in others.into_iter().chain(protocols.iter().map(|extra| &extra[..])) {
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
        let arguments = [
            "--network",
            path,
            "--back",
            path,
            "--count",
            "48",
            "--seed",
            "2",
            "--until",
            "30",
            "--congestion",
            congestion,
        ];
        json(&arguments).0["bits_per_second"].as_f64().expect("a rate")
    };
    let (said, unsaid) = (rate("bbr:30%"), rate("bbr"));
    assert!(said > 33e6 && unsaid < 5e6, "{said} and {unsaid} bit/s");
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
    for (protocol, resent) in PROTOCOLS.into_iter().zip([
        "units_resent",
        "packets_resent",
        "data_packets_resent",
        "data_packets_resent",
        "blocks_repeated",
    ]) {
        let sizes = ["--network", LOSSY, "--sizes", "0,1,64KiB,1MiB", "--count", "2", "--protocol", protocol];
        let (report, code) = json(&sizes);
        assert_eq!((code, &report["arrived"], &report["outcome"]), (Some(0), &Value::Bool(true), &"done".into()));
        assert_eq!((&report["protocol"], &report["bytes_lost"]), (&protocol.into(), &0.into()));
        let messages = report["deliveries"].as_array().expect("messages");
        assert_eq!(messages.len(), 8);
        assert!(messages.iter().all(|message| message["verified"] == true), "{protocol}: {report}");
        let bytes = 2 * (1 + 65_536 + 1_048_576);
        assert_eq!(report["bytes"], bytes);
        let sum = |name: &str| {
            let column = report["time_line"][name].as_array().expect("a column");
            column.iter().filter_map(Value::as_u64).sum::<u64>()
        };
        assert_eq!(sum("bytes"), bytes, "{protocol}");
        assert_eq!(sum("datagrams_resent"), report["sender_counters"][resent].as_u64().expect("a count"), "{protocol}");
        assert_eq!(report["datagrams_resent"], report["sender_counters"][resent], "{protocol}");
        assert!(sum("datagrams_resent") > 0 && sum("datagrams_lost") > 0, "{protocol}: {report}");
        assert!(report["datagrams_sent"].as_u64() > report["datagrams_resent"].as_u64(), "{protocol}: {report}");
        let goodput = report["bits_per_second"].as_f64().expect("a rate");
        assert!(goodput > 1e6 && goodput < 50e6, "{protocol}: {goodput}");
    }
}

#[test]
fn messages_of_nothing_arrive_too() {
    for protocol in PROTOCOLS {
        let (report, code) = json(&["--protocol", protocol, "--size", "0", "--count", "3"]);
        assert_eq!(
            (code, &report["arrived"], &report["bytes"]),
            (Some(0), &Value::Bool(true), &0.into()),
            "{protocol}"
        );
    }
}

#[test]
fn a_contract_lets_frames_arrive_with_holes_and_the_report_says_which_bytes_were_let_go() {
    let frames =
        ["--protocol", "vrp", "--size", "100kB", "--count", "50", "--network", "rate=100mbit,delay=20ms,loss=5%"];
    let contract = ["--loss-rate", "25%", "--run", "4kB", "--critical", "0..1kB"];
    let (whole, code) = json(&frames);
    assert_eq!((code, &whole["bytes_lost"], &whole["contract"]), (Some(0), &0.into(), &Value::Null));
    let (report, code) = json(&[&frames[..], &contract].concat());
    assert_eq!((code, &report["arrived"]), (Some(0), &Value::Bool(true)), "{report}");
    assert_eq!(report["contract"], "25 %, run 4000 B, critical 0..1000");
    let lost = report["bytes_lost"].as_u64().expect("a count");
    assert!(lost > 50_000 && lost < 5_000_000 / 4, "{lost}");
    assert_eq!(report["bytes"].as_u64(), Some(5_000_000 - lost));
    let deliveries = report["deliveries"].as_array().expect("messages");
    assert_eq!(deliveries.iter().filter_map(|message| message["bytes_lost"].as_u64()).sum::<u64>(), lost);
    assert!(
        report["datagrams_resent"].as_u64() < whole["datagrams_resent"].as_u64(),
        "what may be lost is not repeated"
    );
    let text = String::from_utf8(sim(&[&frames[..], &contract].concat()).stdout).expect("text");
    for part in ["contract     25 %", "within their contracts, every byte verified", "let go ", "arrived but for "] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn several_protocols_are_a_table_of_what_each_says_alone() {
    let all = ["--protocol", "zcrp,vrp,xtp,qmp,a1", "--count", "4", "--loss-rate", "20%"];
    let output = sim(&[&all[..], &["--json"]].concat());
    let lines: Vec<Value> =
        output.stdout.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    assert_eq!(lines.len(), 5);
    let table = String::from_utf8(sim(&all).stdout).expect("text");
    for (protocol, line) in PROTOCOLS.into_iter().zip(&lines) {
        let contract = if protocol == "vrp" { &["--loss-rate", "20%"][..] } else { &[] };
        let (alone, code) = json(&[&["--protocol", protocol, "--count", "4"], contract].concat());
        assert_eq!((code, &alone), (Some(0), line));
        let goodput = alone["bits_per_second"].as_f64().expect("a rate");
        let (title, rate) = (protocol.to_uppercase(), format!(" {:.1} Mbit/s", goodput / 1e6));
        assert!(table.lines().any(|line| line.starts_with(&title) && line.contains(&rate)), "{title}{rate} in {table}");
    }
    let output =
        sim(&["--protocol", "a1,xtp", "--network", "rate=50mbit,delay=10ms,partition=0s..10min", "--count", "1"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("pinnace: A1: 0 of 1 messages arrived; "));
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
        "ZCRP: 2 messages of 2 MiB",
        "last 7 datagrams",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_path_that_dies_is_told_to_both_ends() {
    //= Z-19 test
    //= X-11 test
    let network = ["--network", "rate=50mbit,delay=10ms,partition=0.2s..1min", "--count", "8"];
    for (protocol, why) in
        [("zcrp", ["gone", "gone"]), ("xtp", ["does not know", "does not answer"]), ("a1", ["answer"; 2])]
    {
        let (report, code) = json(&[&network[..], &["--protocol", protocol]].concat());
        assert_eq!((code, &report["arrived"]), (Some(3), &Value::Bool(false)), "{protocol}");
        for message in report["deliveries"].as_array().expect("messages") {
            for (end, why) in ["receiver_failure", "sender_failure"].into_iter().zip(why) {
                assert!(message[end].as_str().is_some_and(|failure| failure.contains(why)), "{protocol}: {message}");
            }
        }
    }
    let output = sim(&network);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("FAILED at the receiver") && text.contains("FAILED at the sender"), "{text}");
    assert!(text.contains("both ends were told"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("pinnace: ZCRP: 0 of 8 messages arrived;"));
}

#[test]
fn where_the_receiver_cannot_know_of_a_message_its_sender_is_told() {
    let dead = ["--network", "rate=50mbit,delay=10ms,partition=0s..10min", "--count", "2"];
    for protocol in PROTOCOLS.into_iter().filter(|protocol| *protocol != "zcrp") {
        let (report, code) = json(&[&dead[..], &["--protocol", protocol]].concat());
        assert_eq!((code, &report["outcome"]), (Some(3), &"done".into()), "{protocol}: {report}");
        for message in report["deliveries"].as_array().expect("messages") {
            assert!(
                message["sender_failure"].is_string() && message["receiver_failure"].is_null(),
                "{protocol}: {message}"
            );
        }
    }
    let text = String::from_utf8(sim(&[&dead[..], &["--protocol", "a1"]].concat()).stdout).expect("text");
    assert!(text.contains("the sender was told") && text.contains("not arrived"), "{text}");
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
        (["--datagram", "20"], "29..=65507"),
        (["--loss-rate", "5%"], "only VRP has contracts"),
        (["--congestion", "vegas"], "choose bbr, bbr:30%"),
        (["--congestion", "bbr:60%"], "1 % to 50 %"),
        (["--protocol", "tcp"], "possible values: zcrp, vrp, xtp, qmp, a1"),
    ] {
        let output = sim(&arguments);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(advice), "{arguments:?}: {complaint}");
        assert!(output.stdout.is_empty());
    }
    for (arguments, advice) in [
        (&["--protocol", "a1", "--datagram", "40", "--size", "1MB"][..], "at most 65,535 blocks, which are 512.0 KiB"),
        (&["--protocol", "a1", "--datagram", "32"], "A1's header alone takes 32 bytes"),
        (&["--protocol", "vrp", "--critical", "0..2MiB"], "lies outside the frame"),
        (&["--protocol", "vrp", "--run", "2kB"], "--loss-rate"),
    ] {
        let output = sim(arguments);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(advice), "{arguments:?}: {complaint}");
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
    assert!(text.contains("goodput, Mbit/s") && text.contains("sent again"));
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(png).expect("the figure")));
    assert_eq!(decoder.read_info().expect("a PNG").info().size(), (900, 460));
    let output = sim(&["--count", "1", "--plot", "/nowhere/line.svg"]);
    assert_eq!(output.status.code(), Some(1));
}

/// The page says that the same arguments print the same bytes.
#[test]
fn the_book_shows_what_its_command_prints() {
    let book =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/sim.md")).expect("the page");
    let (_, shown) = book.split_once("```console\n$ pinnace sim ").expect("a command");
    let (command, shown) = shown.split_once('\n').expect("what it prints");
    let (shown, _) = shown.split_once("```").expect("its end");
    let (arguments, figure) = command.split_once(" --plot ").expect("a figure");
    assert_eq!(figure, "five.svg");
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join(figure);
    let arguments: Vec<&str> = arguments.split(' ').chain(["--plot", svg.to_str().expect("a plain name")]).collect();
    let output = sim(&arguments);
    assert_eq!(String::from_utf8(output.stdout).expect("text"), shown);
    let in_book = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/img/sim-five.svg");
    let same = std::fs::read(in_book).expect("the book's") == std::fs::read(&svg).expect("the figure");
    assert!(same, "docs/src/img/sim-five.svg is another one: make it anew with the command of docs/src/sim.md");
}

#[test]
fn help_documents_the_network_language() {
    let output = sim(&["--help"]);
    let text = String::from_utf8(output.stdout).expect("text");
    for key in [
        "rate=",
        "queue=",
        "bucket=",
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
}

#[test]
fn the_examples_of_help_work() {
    let output = sim(&["--help"]);
    let text = String::from_utf8(output.stdout).expect("text");
    let (_, examples) = text.split_once("Examples:\n").expect("examples");
    let examples: Vec<&str> = examples.lines().map_while(|line| line.strip_prefix("  pinnace sim")).collect();
    assert!(examples.len() > 5, "{examples:?}");
    let folder = tempfile::tempdir().expect("a folder");
    for example in examples {
        let (arguments, comment) = example.split_once('#').unwrap_or((example, ""));
        let mut command = Command::new(env!("CARGO_BIN_EXE_pinnace"));
        // All five take as long as all other examples together.
        let less: &[&str] = if arguments.contains("zcrp,") { &["--count", "4"] } else { &[] };
        let command = command.arg("sim").args(arguments.split_whitespace()).args(less).current_dir(folder.path());
        let output = command.output().expect("the program starts");
        let code = comment.split_once("exit code ").map_or(0, |(_, code)| code.trim().parse().expect("a number"));
        assert_eq!(output.status.code(), Some(code), "{example}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{example}");
    }
}
