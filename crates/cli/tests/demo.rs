//! `pinnace demo`, from the beginning to the end.

mod common;

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The demo, with its temporary files and its pictures in `folder`.
fn demo(folder: &Path, arguments: &[&str]) -> Child {
    let (temporary, out) = (folder.join("temporary"), folder.join("out"));
    fs::create_dir(&temporary).expect("a folder");
    Command::new(env!("CARGO_BIN_EXE_pinnace"))
        .args(["--json", "demo", "--out"])
        .arg(&out)
        .args(arguments)
        .env("TMPDIR", &temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("the folder is there").next().is_none()
}

/// Whether a process still has this folder among its arguments.
fn is_used(folder: &Path) -> bool {
    let name = folder.to_str().expect("a plain name");
    let processes = fs::read_dir("/proc").expect("Linux").filter_map(Result::ok);
    let mut lines = processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    lines.any(|line| line.contains(name))
}

#[test]
fn the_demo_works_and_cleans_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let begin = Instant::now();
    let output = demo(folder.path(), &["--quick"]).wait_with_output().expect("it ends");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complaint}");
    assert!(begin.elapsed() < Duration::from_secs(60), "a minute is promised, even on a busy machine");

    assert_eq!(common::json::check("demo", &common::text(&output.stdout)), ["done"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["transfer"]["files"], report["transfer"]["verified"]);
    assert!(report["transfer"]["bytes"].as_u64().is_some_and(|bytes| bytes > 16 << 20));
    assert_eq!(report["throughput"].as_array().map(Vec::len), Some(2), "{report}");
    let lossy = report["lossy"].as_array().expect("three paths");
    assert!(lossy.len() == 3 && lossy.iter().all(|path| path["complete"] == true), "{report}");

    let out = folder.path().join("out");
    let text = fs::read_to_string(out.join("pinnace-demo.svg")).expect("the figure");
    let document = roxmltree::Document::parse(&text).expect("well-formed XML");
    assert_eq!(document.root_element().tag_name().name(), "svg");
    assert!(text.contains("Throughput by message size") && text.contains("5 % loss"));
    let file = fs::File::open(out.join("pinnace-demo.png")).expect("the figure");
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    reader.next_frame(&mut pixels).expect("all of a PNG");
    let dark = pixels.iter().filter(|&&value| value < 128).count();
    assert!(dark > 10_000 && dark < pixels.len() / 4, "{dark} dark of {}: text and lines on white", pixels.len());

    assert!(is_empty(&folder.path().join("temporary")), "temporary files are gone");
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = demo(folder.path(), &[]);
    let temporary = folder.path().join("temporary");
    let begin = Instant::now();
    // In the midst of the transfer: its receiver runs.
    while !is_used(&temporary) {
        assert!(begin.elapsed() < Duration::from_secs(30), "the receiver runs");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process number")).expect("not zero");
    kill_process(pid, Signal::INT).expect("it runs");
    let asked = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(asked.elapsed() < Duration::from_secs(10));
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(is_empty(&temporary), "temporary files are gone");
    assert!(!is_used(&temporary), "processes are gone");
}
