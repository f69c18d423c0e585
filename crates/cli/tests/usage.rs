//! Arguments, exit codes, help, completion, doctor.
#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

mod common;

use common::{Listening, objects, pinnace, run, text};
use rustix::process::geteuid;
use std::os::unix::process::CommandExt;

#[test]
fn wrong_arguments_end_with_2_and_say_so() {
    let wrong: &[&[&str]] = &[
        &[],
        &["sail"],
        &["zcrp"],
        &["zcrp", "listen"],
        &["zcrp", "listen", "--bind", "nowhere"],
        &["zcrp", "listen", "--bind", "127.0.0.1:0", "--size", "5GiB"],
        &["zcrp", "send", "--to", "127.0.0.1:1"],
        &["zcrp", "send", "--to", "127.0.0.1:1", "--size", "1 parsec"],
        &["zcrp", "send", "--to", "127.0.0.1:1", "--size", "1", "--unit", "28"],
        &["send"],
        &["send", "127.0.0.1:1"],
        &["send", "Cargo.toml", "not-an-address"],
        &["send", "Cargo.toml", "127.0.0.1:1", "--chunk", "100000"],
        &["recv", "--timeout", "never"],
        &["listen"],
        &["connect"],
        &["connect", "127.0.0.1:1", "--timeout", "never"],
        &["top", "--sort", "colour"],
        &["doctor", "--cure"],
        &["completion", "telepathy"],
        // An option that is misspelt is no command.
        &["wan", "--lose", "5%", "--", "true"],
        &["run", "--verbos", "true"],
    ];
    for args in wrong {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn help_teaches_and_documents_the_exit_codes() {
    let help = text(&run(&["--help"]).stdout);
    for word in
        ["Examples:", "Exit codes:", "130", "recv", "send", "listen", "connect", "top", "zcrp", "doctor", "completion"]
    {
        assert!(help.contains(word), "{word}");
    }
    for command in [
        &["send", "--help"][..],
        &["recv", "--help"],
        &["zcrp", "--help"],
        &["listen", "--help"],
        &["connect", "--help"],
        &["top", "--help"],
    ] {
        let output = run(command);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("Examples:"), "{command:?}");
    }
}

#[test]
fn shells_get_their_completion() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completion", shell]);
        assert_eq!(output.status.code(), Some(0));
        let script = text(&output.stdout);
        assert!(script.contains("pinnace") && script.contains("doctor"), "{shell}");
    }
}

#[test]
fn doctor_reports_and_ends_well() {
    let table = run(&["doctor"]);
    assert_eq!(table.status.code(), Some(0));
    assert!(text(&table.stdout).contains("net.core.rmem_max") && !table.stdout.contains(&0x1b));
    let json = run(&["doctor", "--json"]);
    assert_eq!(json.status.code(), Some(0));
    let checks = objects(&text(&json.stdout));
    assert!(checks.iter().any(|check| check["check"] == "UDP_SEGMENT"));
    for check in &checks {
        let verdict = check["verdict"].as_str().expect("a verdict");
        assert!(["good", "note"].contains(&verdict) || check["command"].is_string(), "{check}");
    }
}

#[test]
fn a_port_that_is_taken_is_reported_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let first = Listening::start(&["zcrp", "listen", "--bind", "127.0.0.1:0"]);
    let other = folder.path().to_str().unwrap();
    for args in
        [&["zcrp", "listen", "--bind", &*first.address][..], &["recv", "--dir", other, "--bind", &*first.address]]
    {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1));
        let error = text(&output.stderr);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(&*first.address) && error.contains("choose another"), "{error}");
    }
}

#[test]
fn who_may_not_open_a_raw_socket_is_told_once_what_helps() {
    for args in [&["xtp", "send"][..], &["qmp", "send"]] {
        let mut command = pinnace(&[args, &["--link", "ip36", "--size", "5", "--to", "127.0.0.1:36"]].concat());
        if geteuid().is_root() {
            command.uid(65_534);
        }
        let output = match command.output() {
            Ok(output) => output,
            Err(error) => {
                return pinnace_testing::skip::host(format_args!("another user cannot run the program here ({error})"));
            }
        };
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("run as root") && !error.contains("sudo") && !error.contains("listen"), "{error}");
    }
}

#[test]
fn an_interrupt_ends_listeners_with_130() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    for args in [&["zcrp", "listen", "--bind", "127.0.0.1:0"][..], &["recv", "--bind", "127.0.0.1:0", "--dir", dir]] {
        let mut listening = Listening::start(args);
        listening.signal("-INT");
        let (code, out, err) = listening.finish();
        assert_eq!((code, &*out, &*err), (Some(130), "", "pinnace: interrupted\n"));
    }
}

#[test]
fn whoever_is_started_with_nohup_outlives_the_terminal() {
    let mut command = std::process::Command::new("sh");
    command.args([
        "-c",
        "trap '' HUP; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_pinnace"),
        "zcrp",
        "listen",
        "127.0.0.1:0",
    ]);
    let mut listening = Listening::of(command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()));
    listening.signal("-HUP");
    std::thread::sleep(std::time::Duration::from_millis(300));
    listening.signal("-TERM");
    assert_eq!(listening.end().0, Some(130), "it was there still");
    let mut listening = Listening::start(&["zcrp", "listen", "127.0.0.1:0"]);
    listening.signal("-HUP");
    assert_eq!(listening.end().0, Some(130));
}

#[test]
fn names_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join(OsStr::from_bytes(b"caf\xe9"));
    std::fs::write(&name, b"content").unwrap();
    for protocol in ["zcrp", "vrp", "a1", "xtp", "qmp"] {
        let listening = Listening::start(&[protocol, "listen", "127.0.0.1:0", "--count", "1"]);
        let output = pinnace(&[protocol, "send"]).arg(&name).arg(&listening.address).output().unwrap();
        assert!(output.status.success(), "{protocol}: {}", text(&output.stderr));
        assert_eq!(listening.finish().0, Some(0), "{protocol}");
    }
    let pages = folder.path().join(OsStr::from_bytes(b"m\xff"));
    for json in [&[][..], &["--json"]] {
        let output = pinnace(&["man"]).arg(&pages).args(json).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    // An object is printed whole, or not at all.
    let socket = folder.path().join(OsStr::from_bytes(b"s\xff"));
    let mut daemon =
        pinnace(&["daemon", "--json", "--socket"]).arg(&socket).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(daemon.stdout.take().unwrap()), &mut line).unwrap();
    let _ = daemon.kill();
    daemon.wait().unwrap();
    assert_eq!(objects(&line)[0]["event"], "serving", "{line}");
}

#[test]
fn what_begins_with_a_minus_is_read_as_a_value() {
    for (args, part) in [
        (&["zcrp", "send", "--size", "5", "--to", "127.0.0.1:1", "--timeout", "-1"][..], "must lie between"),
        (&["vrp", "send", "--size", "-5", "--to", "127.0.0.1:1"], "`-5` is no number"),
        (&["a1", "listen", "127.0.0.1:0", "--rate", "-1mbit"], "no rate"),
        (&["xtp", "listen", "127.0.0.1:0", "--timeout", "-500ms"], "no span of time"),
        (&["wan", "--rate", "-1mbit", "--", "true"], "rate=-1mbit"),
        (&["stream", "recv", "--bind", "127.0.0.1:0", "--count", "-1"], "-1"),
    ] {
        let output = run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(part) && !error.contains("unexpected argument"), "{args:?}: {error}");
    }
    // A flag behind an option that may go without a value is a flag.
    let output = run(&["ping", "--busy-poll", "--json", "--protocol", "carrier-pigeon"]);
    assert!(text(&output.stderr).contains("carrier-pigeon"), "{}", text(&output.stderr));
}

#[test]
fn a_command_that_is_not_there_ends_as_in_a_shell() {
    for name in ["no-such-command-here", "/no/such/command"] {
        let output = run(&["wan", "--", name]);
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), error.lines().count()), (Some(127), 1), "{error}");
        assert!(error.contains(&format!("{name}: command not found")), "{error}");
    }
}

#[test]
fn the_losses_that_the_help_shows_are_those_that_are_read() {
    let help = text(&run(&["wan", "--help"]).stdout);
    assert!(help.contains("0.1%:30%") && !help.contains("0.1%,30%"), "{help}");
    let output = run(&["wan", "--burst-loss", "1%", "--", "true"]);
    assert!(text(&output.stderr).contains("1%:30%"), "{}", text(&output.stderr));
}

#[test]
fn a_figure_that_cannot_be_written_is_no_reason_to_measure() {
    for args in [
        &["perf", "--plot", "/no/such/folder/x.svg"][..],
        &["sim", "--plot", "/no/such/folder/x.svg"],
        &["demo", "--out", "/proc/1"],
        &["demo", "vrp", "--out", "/proc/1"],
        &["demo", "a1", "--out", "/proc/1"],
    ] {
        let begun = std::time::Instant::now();
        let output = run(args);
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{args:?}: {error}");
        assert!(error.contains(args[args.len() - 1]) && output.stdout.is_empty(), "{args:?}: {error}");
        assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{args:?}");
    }
    let output = run(&["sim", "--plot", "/no/such/folder/x.svg"]);
    assert!(text(&output.stderr).contains("No such file or directory"), "{}", text(&output.stderr));
    for args in [["sim", "--plot", "x.jpg"], ["perf", "--plot", "x"]] {
        let output = run(&args);
        assert!(output.status.code() == Some(2) && text(&output.stderr).contains(".svg or .png"), "{args:?}");
    }
}

#[test]
fn errors_are_objects_for_programs() {
    for (args, exit, part) in [
        (&["zcrp", "send", "/no/such/file", "127.0.0.1:1", "--json"][..], 1, "/no/such/file"),
        (&["--json", "qmp", "send", "--size", "5", "--to", "127.0.0.1:1"], 3, "nobody listens"),
        (&["vrp", "send", "--size", "1 parsec", "--to", "127.0.0.1:1", "--json"], 2, "parsec"),
        (&["--json", "sail"], 2, "sail"),
        (&["--json", "experiment", "e-v9"], 2, "[possible values: e-z1, e-z2, e-z3, e-v1"),
    ] {
        let output = run(args);
        let said = text(&output.stdout);
        let object: serde_json::Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{args:?}: {said}"));
        assert_eq!((output.status.code(), &object["exit"]), (Some(exit), &exit.into()), "{args:?}: {said}");
        assert_eq!(object["event"], "error", "{said}");
        assert!(object["error"].as_str().is_some_and(|text| text.contains(part)), "{args:?}: {said}");
        // Whoever looks at standard error alone reads it there.
        let error = text(&output.stderr);
        assert!(error.lines().count() == 1 && error.contains(part), "{args:?}: {error}");
    }
    let nothing = text(&run(&["--json"]).stdout);
    assert!(nothing.contains("requires a subcommand") && !nothing.contains("perf-worker"), "{nothing}");
    // Where standard output is for something else, both are one.
    for args in
        [&["--json", "listen"][..], &["--json", "connect", "127.0.0.1:1", "--timeout", "never"], &["--json", "run"]]
    {
        let output = run(args);
        let object: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!((&object["event"], &object["exit"]), (&"error".into(), &2.into()), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn time_outs_are_read_alike_by_all() {
    for command in
        [&["zcrp", "listen"][..], &["vrp", "listen"], &["a1", "listen"], &["xtp", "listen"], &["qmp", "listen"]]
    {
        for (time, is_right) in
            [("5", true), ("0.5", true), ("500ms", true), ("5s", true), ("never", false), ("0", false)]
        {
            // Behind the time-out another mistake, so that none of them listens.
            let args = [command, &["127.0.0.1:0", "--timeout", time, "--count", "0"]].concat();
            let error = text(&run(&args).stderr);
            assert_eq!(error.contains("--count"), is_right, "{args:?}: {error}");
        }
    }
    for command in [&["recv"][..], &["listen", "127.0.0.1:0"], &["stream", "recv", "--bind", "127.0.0.1:0"]] {
        for time in ["5", "500ms"] {
            let args = [command, &["--timeout", time, "--no-such-option"]].concat();
            let error = text(&run(&args).stderr);
            assert!(error.contains("--no-such-option"), "{args:?}: {error}");
        }
    }
}

#[test]
fn every_protocol_polls_the_device_where_it_is_told_to() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![7; 300_000]).unwrap();
    let path = file.path().to_str().unwrap();
    for protocol in ["zcrp", "vrp", "xtp", "qmp", "a1"] {
        let wrong = run(&[protocol, "send", "--busy-poll=0", path, "127.0.0.1:1"]);
        assert!(wrong.status.code() == Some(2) && text(&wrong.stderr).contains("--busy-poll"), "{protocol}");
        // Loopback has no device to poll, and the word before a file takes none of it for its own.
        let waits = ["--idle", "block", "--busy-poll"];
        let listening =
            Listening::start(&[&[protocol, "listen"], &waits[..], &["127.0.0.1:0", "--count", "1"]].concat());
        let sent = run(&[&[protocol, "send"], &waits[..], &[path, &listening.address]].concat());
        assert!(sent.status.success(), "{protocol}: {}", text(&sent.stderr));
        let (code, out, _) = listening.finish();
        assert!(code == Some(0) && out.starts_with("message 300000 bytes"), "{protocol} {out}");
    }
}

#[test]
fn every_end_of_a_protocol_has_examples_and_manual_pages_need_a_folder() {
    for protocol in ["zcrp", "vrp", "a1", "xtp", "qmp"] {
        for end in ["listen", "send"] {
            let help = text(&run(&[protocol, end, "--help"]).stdout);
            let example = format!("pinnace {protocol} {end} ");
            assert!(help.contains("Examples:") && help.contains(&example), "{protocol} {end}: {help}");
        }
    }
    for command in
        [&["xtp", "transact"][..], &["ping"], &["completion"], &["stream", "send"], &["stream", "recv"], &["tune"]]
    {
        let help = text(&run(&[command, &["--help"]].concat()).stdout);
        assert!(help.contains("Examples:"), "{command:?}: {help}");
    }
    assert!(text(&run(&["--help"]).stdout).contains("  man "));
    assert_eq!(run(&["man"]).status.code(), Some(2));
}

#[test]
fn an_address_that_is_not_known_is_named() {
    for args in [
        &["zcrp", "listen", "no-such-host.invalid:1"][..],
        &["vrp", "send", "--size", "5", "--to", "no-such-host.invalid:1"],
        &["a1", "listen", "no-such-host.invalid:1"],
        &["send", "Cargo.toml", "no-such-host.invalid:1"],
        &["recv", "--bind", "no-such-host.invalid:1"],
        &["ping", "--listen", "no-such-host.invalid:1"],
        &["stream", "recv", "--bind", "no-such-host.invalid:1"],
    ] {
        let output = run(args);
        let error = text(&output.stderr);
        assert!(error.contains("cannot resolve no-such-host.invalid:1"), "{args:?}: {error}");
    }
}

#[test]
fn an_error_says_its_cause_once() {
    let output = run(&["connect", "-m", "100000", "-s", "largest=1KiB", "127.0.0.1:1"]);
    let error = text(&output.stderr);
    assert!(output.status.code() == Some(2) && error.contains("1024 bytes"), "{error}");
    let output = run(&["connect", "192.0.2.1:1", "-s", "deadline=1us path=internet"]);
    let error = text(&output.stderr);
    assert!(error.matches("cannot connect to").count() == 1, "{error}");
}
