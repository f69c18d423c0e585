//! `pinnace explain`: the table, the object, forced and excluded methods, and errors that help.

mod common;

use common::{run, text};
use serde_json::Value;

fn explained(args: &[&str]) -> Value {
    let args: Vec<&str> = ["explain", "--json"].into_iter().chain(args.iter().copied()).collect();
    let output = run(&args);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

#[test]
fn the_table_shows_every_method_the_choice_and_what_would_change_it() {
    let output = run(&["explain", "loss=5% run=4KiB size=2MB rate=200mbit"]);
    assert_eq!(output.status.code(), Some(0));
    let table = text(&output.stdout);
    for word in ["shared-memory", "zcrp", "vrp", "xtp", "qmp", "a1", "\n> vrp", "choice   vrp", "loss=0 ", "internet"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    assert!(output.stderr.is_empty());
}

#[test]
fn words_uris_and_files_say_the_same() {
    let words = explained(&["loss=5%", "run=4KiB", "size=2MB", "--to", "127.0.0.1:4747"]);
    let uri = explained(&["pinnace://127.0.0.1:4747?loss=5%&run=4KiB&size=2MB"]);
    assert_eq!(words, uri);
    assert_eq!((&uri["path"]["class"], &uri["peer"]), (&"host".into(), &"127.0.0.1:4747".into()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("camera.toml");
    std::fs::write(&file, "loss = '5%'\nrun = '4KiB'\nsize = 2000000\n").unwrap();
    let toml = explained(&["--toml", file.to_str().unwrap(), "--to", "127.0.0.1:4747"]);
    assert_eq!(toml, words);
}

#[test]
fn methods_are_forced_and_excluded() {
    let camera = "loss=5% run=4KiB size=2MB rate=200mbit";
    assert_eq!(explained(&[camera])["choice"], "vrp");
    let without = explained(&[camera, "--exclude", "vrp,zcrp"]);
    assert_eq!(without["choice"], "xtp");
    let vrp = without["offers"].as_array().unwrap().iter().find(|offer| offer["method"] == "vrp").unwrap();
    assert_eq!((&vrp["fits"], &vrp["allowed"], &vrp["chosen"]), (&true.into(), &false.into(), &false.into()));
    assert_eq!(explained(&[camera, "--force", "a1"])["choice"], "a1");
    let output = run(&["explain", camera, "--force", "qmp"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("made for clusters") && text(&output.stderr).lines().count() == 1);
}

#[test]
fn the_path_can_be_declared_and_described() {
    let cluster = explained(&["size=64MiB in-place=yes", "--path", "cluster"]);
    assert_eq!((&cluster["choice"], &cluster["path"]["class"]), (&"zcrp".into(), &"cluster".into()));
    let far = explained(&["loss=5%", "--rtt", "120ms", "--path-loss", "3%", "--path-rate", "10mbit"]);
    let path = &far["path"];
    assert_eq!((&path["round_trip_us"], &path["bits_per_second"]), (&120_000.0.into(), &10_000_000.into()));
    assert_eq!(path["loss"], 0.03);
    let late = run(&["explain", "--json", "deadline=50ms", "--rtt", "120ms"]);
    assert_eq!(late.status.code(), Some(1));
    let late: Value = serde_json::from_str(text(&late.stdout).lines().next().unwrap()).unwrap();
    assert_eq!(late["choice"], Value::Null);
    let changes = late["changes"].as_array().unwrap();
    assert!(changes.iter().any(|change| change["change"] == "without deadline"), "{changes:?}");
    let enough = changes.iter().find(|change| change["change"].as_str().unwrap().starts_with("deadline=")).unwrap();
    assert!(enough["change"].as_str().unwrap().ends_with("or more"), "{enough}");
}

#[test]
fn what_is_wrong_is_named_in_one_line() {
    for (args, says) in [
        (&["los=5%"][..], "did you mean `loss=5%`"),
        (&["loss=5"], "write 5%"),
        (&["pinnace://host?loss=5%"], "has no port"),
        (&["--force", "tcp"], "there are shared-memory, zcrp, vrp, xtp, qmp, a1"),
        (&["--path", "moon"], "host, cluster or internet"),
    ] {
        let args: Vec<&str> = ["explain"].into_iter().chain(args.iter().copied()).collect();
        let output = run(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(says) && output.stdout.is_empty(), "{}", text(&output.stderr));
    }
    // As in every other command.
    let output = run(&["explain", "--to", "no.such.host.invalid"]);
    assert!(output.status.code() == Some(1) && text(&output.stderr).contains("cannot resolve no.such.host.invalid"));
}
