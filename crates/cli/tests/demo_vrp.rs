//! `pinnace demo vrp`, from the beginning to the end.

mod common;

use common::{able, pinnace, run, text};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Pixels of the figure, of a picture in it, and of a side of a tile.
const FIGURE: (usize, usize) = (1280, 800);
const PICTURE: (usize, usize) = (396, 264);
const TILE: usize = 22;
/// Left upper corners: of the camera's picture, and of the viewers', in the order of the transports.
const CAMERA: (usize, usize) = (20, 112);
const VIEWERS: [(usize, usize); 3] = [(440, 112), (20, 448), (440, 448)];

/// A PNG, row by row.
struct Png(Vec<u8>);

impl Png {
    fn read(path: &Path) -> Self {
        let file = std::fs::File::open(path).expect("the figure");
        let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
        reader.next_frame(&mut pixels).expect("all of a PNG");
        assert_eq!(pixels.len(), FIGURE.0 * FIGURE.1 * 3);
        Self(pixels)
    }

    /// Whether a pixel is of the colours that mark holes.
    fn is_marked(&self, x: usize, y: usize) -> bool {
        let at = (y * FIGURE.0 + x) * 3;
        [[255, 0, 168], [140, 0, 104]].iter().any(|colour| self.0[at..at + 3] == *colour)
    }

    /// The tiles of the picture here that are marked as holes, as rows from the top: each is marked whole or not at all.
    fn holes(&self, (x, y): (usize, usize)) -> Vec<usize> {
        let (columns, rows) = (PICTURE.0 / TILE, PICTURE.1 / TILE);
        let marked = |tile: usize| {
            let (left, top) = (x + tile % columns * TILE, y + tile / columns * TILE);
            (0..TILE * TILE).filter(|pixel| self.is_marked(left + pixel % TILE, top + pixel / TILE)).count()
        };
        let all: Vec<usize> = (0..columns * rows).map(marked).collect();
        assert!(all.iter().all(|&pixels| pixels == 0 || pixels == TILE * TILE), "{all:?}");
        all.iter().enumerate().filter(|(_, pixels)| **pixels > 0).map(|(tile, _)| tile / columns).collect()
    }
}

/// Runs it: what it reports, and its figure.
fn demo(arguments: &[&str]) -> (Value, Png) {
    let folder = tempfile::tempdir().unwrap();
    let (temporary, out) = (folder.path().join("temporary"), folder.path().join("out"));
    std::fs::create_dir(&temporary).unwrap();
    let begin = Instant::now();
    let output = pinnace(&["--json", "demo", "vrp", "--quick", "--out", out.to_str().unwrap()])
        .args(arguments)
        .env("TMPDIR", &temporary)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(begin.elapsed() < Duration::from_secs(60), "a minute is promised, even on a busy machine");
    assert!(std::fs::read_dir(&temporary).unwrap().next().is_none(), "temporary files are gone");
    assert_eq!(common::json::check("demo vrp", &text(&output.stdout)), ["done"]);
    let report = serde_json::from_slice(&output.stdout).expect("one JSON object");
    (report, Png::read(&out.join("pinnace-demo-vrp.png")))
}

/// VRP has lost something, with permission, and that is drawn: in its picture, in none of the top row, and nowhere else.
fn check_vrp(report: &Value, figure: &Png) {
    let vrp = &report["transports"][0];
    assert_eq!(vrp["name"], "VRP");
    let pictures = vrp["pictures"].as_u64().expect("a number");
    assert!(pictures > 0 && pictures <= 30, "{report}");
    let missing = vrp["share_missing"].as_f64().expect("a share");
    assert!(missing > 0.0 && missing <= 0.1, "the contract lets a tenth go: {report}");
    let holes = figure.holes(VIEWERS[0]);
    // A tenth of 64 packets, rounded up, in each 64 that follow each other (V-R5), and a packet is a tile.
    assert!((1..=28).contains(&holes.len()), "a tenth of 216 tiles: {holes:?}");
    assert!(holes.iter().all(|&row| row > 0), "the top row is critical: {holes:?}");
    for other in [CAMERA, VIEWERS[1], VIEWERS[2]] {
        assert_eq!(figure.holes(other), [0; 0]);
    }
}

#[test]
fn pictures_cross_the_relay_and_are_drawn_with_their_holes() {
    let (report, figure) = demo(&["--relay"]);
    assert!(report["without_tcp"].as_str().is_some_and(|reason| reason.contains("--relay")), "{report}");
    assert_eq!(report["transports"].as_array().map(Vec::len), Some(1), "{report}");
    check_vrp(&report, &figure);
}

#[test]
fn pictures_cross_the_same_link_by_vrp_and_by_tcp() {
    if !able() {
        return;
    }
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    if !available.split_whitespace().any(|name| name == "bbr") {
        return pinnace_testing::skip::host("the kernel has no bbr");
    }
    let (report, figure) = demo(&[]);
    assert_eq!(report["without_tcp"], Value::Null);
    check_vrp(&report, &figure);
    let transports = report["transports"].as_array().expect("a list");
    let names: Vec<_> = transports.iter().map(|transport| &transport["name"]).collect();
    assert_eq!(names, ["VRP", "TCP cubic", "TCP bbr"]);
    for tcp in &transports[1..] {
        let pictures = tcp["pictures"].as_u64().expect("a number");
        assert!((1..=30).contains(&pictures) && tcp["share_missing"] == 0.0, "TCP loses nothing: {tcp}");
    }
}

#[test]
fn mistakes_are_said() {
    let output = run(&["demo", "vrp", "--relay", "--quick", "--out", "/proc/none"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/proc/none"));
    assert_eq!(run(&["demo", "--quick", "vrp"]).status.code(), Some(2), "options of one are none of the other");
}
