//! `pinnace demo vrp`, from the beginning to the end.

mod common;

use common::{pinnace, run, text};
use std::path::Path;
use std::time::{Duration, Instant};

/// How many pixels of a PNG are of the colours that mark holes, and how many pixels there are.
fn marked(path: &Path) -> (usize, usize) {
    let file = std::fs::File::open(path).expect("the figure");
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    reader.next_frame(&mut pixels).expect("all of a PNG");
    (pixels.chunks(3).filter(|pixel| *pixel == [255, 0, 168] || *pixel == [140, 0, 104]).count(), pixels.len() / 3)
}

#[test]
fn pictures_cross_the_relay_and_are_drawn_with_their_holes() {
    let folder = tempfile::tempdir().unwrap();
    let (temporary, out) = (folder.path().join("temporary"), folder.path().join("out"));
    std::fs::create_dir(&temporary).unwrap();
    let begin = Instant::now();
    let output = pinnace(&["--json", "demo", "vrp", "--quick", "--relay", "--out", out.to_str().unwrap()])
        .env("TMPDIR", &temporary)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(begin.elapsed() < Duration::from_secs(60), "a minute is promised, even on a busy machine");

    assert_eq!(common::json::check("demo vrp", &text(&output.stdout)), ["done"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert!(report["without_tcp"].as_str().is_some_and(|reason| reason.contains("--relay")), "{report}");
    let transports = report["transports"].as_array().expect("a list");
    assert_eq!((transports.len(), &transports[0]["name"]), (1, &"VRP".into()));
    let pictures = transports[0]["pictures"].as_u64().expect("a number");
    assert!(pictures > 0 && pictures <= 30, "{report}");
    let missing = transports[0]["share_missing"].as_f64().expect("a share");
    assert!(missing > 0.0 && missing <= 0.1, "the contract lets a tenth go: {report}");

    let (holes, pixels) = marked(&out.join("pinnace-demo-vrp.png"));
    assert_eq!(pixels, 1280 * 800);
    assert!((1..pixels / 20).contains(&holes), "at least the legend's: {holes}");
    assert!(std::fs::read_dir(&temporary).unwrap().next().is_none(), "temporary files are gone");
}

#[test]
fn mistakes_are_said() {
    let output = run(&["demo", "vrp", "--relay", "--quick", "--out", "/proc/none"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/proc/none"));
    assert_eq!(run(&["demo", "--quick", "vrp"]).status.code(), Some(2), "options of one are none of the other");
}
