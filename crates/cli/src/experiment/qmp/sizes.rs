//! E-Q2: throughput by message size, from 100 bytes to 1 MiB, with and without QBUF and by TCP, on the link of 100 Mbit/s and
//! on the loopback interface (the paper's figures 5 and 6).

use super::{BBR, CUBIC, Kind, QMP, QMP_COPIED, link};
use crate::exit::Error;
use crate::experiment::Run;
use crate::experiment::figure::Panels;
use crate::experiment::measure::{self, Between, Speed};
use crate::perf::{IdleChoice, Path, progress};
use crate::units::{count_of, percent, ratio};
use serde::Serialize;

/// Bytes of a message: the paper's range, and beyond.
const SIZES: [usize; 11] = [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 16_384, 30_000, 100_000, 1 << 20];
const QUICK: [usize; 3] = [100, 10_000, 1 << 20];
const KINDS: [Kind; 4] = [QMP, QMP_COPIED, CUBIC, BBR];
/// From this size on qbufs have to be at least as fast as copies.
const LARGE: usize = 16_384;
/// Where the paper's QMP settled, in Mbit/s.
const PAPER: f64 = 91.1;

type Part = measure::Part<Kind>;

/// One row as JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    experiment: &'a str,
    #[serde(flatten)]
    label: super::Label,
    path: &'a str,
    size: usize,
    #[serde(flatten)]
    speed: Speed,
    /// QMP's throughput with qbufs, divided by this one: the median of the rounds' ratios.
    qmp_ratio: Option<f64>,
    cpu_s_per_gb_tx: Option<f64>,
    cpu_s_per_gb_rx: Option<f64>,
    share_copied: Option<f64>,
    rounds: usize,
}

/// The last line of JSON.
#[derive(Serialize)]
struct Summary<'a> {
    experiment: &'a str,
    event: &'static str,
    /// QBUF to copies, from 16 KiB on, on the link and on `lo`: the least.
    qbuf_ratio_link_min: Option<f64>,
    qbuf_ratio_lo_min: Option<f64>,
    /// QMP's best on the link, in Mbit/s, and the paper's.
    link_mbit_s: Option<f64>,
    paper_mbit_s: f64,
    /// The largest share of bytes that a receiver with qbufs copied, from 16 KiB on.
    share_copied_max: Option<f64>,
    quick: bool,
}

/// Runs it.
pub(in crate::experiment) fn run(run: &Run<'_>) -> Result<(), Error> {
    let rounds = run.effort.rounds;
    run.begin("throughput by message size, with and without QBUF, against TCP (the QMP paper's figures 5 and 6)");
    run.say(format_args!(
        "# {rounds}, interleaved; medians; idle adaptive; each message is a write of its own; qmp/x: times the \
         throughput of x",
        rounds = count_of(u64::from(rounds), "round")
    ));
    run.say(format_args!(
        "{:<9} {:>8}  {:<12} {:>9} {:>21} {:>7} {:>8} {:>8} {:>8}",
        "path", "size", "transport", "Mbit/s", "(min .. max)", "qmp/x", "CPU tx", "CPU rx", "copied"
    ));
    let sizes = if run.effort.quick { &QUICK[..] } else { &SIZES[..] };
    let bar = progress(2 * sizes.len() * KINDS.len() * rounds as usize);
    let mut parts = Vec::new();
    for between in [link(run)?, Between::new(Path::Lo)?] {
        for &size in sizes {
            let part = Part::measure(run, &between, (size, IdleChoice::Adaptive), &KINDS, &bar)?;
            bar.suspend(|| print(run, &part));
            parts.push(part);
        }
    }
    bar.finish_and_clear();
    summarize(run, &parts)?;
    run.draw(&figure(&parts))
}

fn print(run: &Run<'_>, part: &Part) {
    for (kind, row) in &part.rows {
        let Some(speed) = row.speed() else { continue };
        let cpu = row.processor_seconds();
        let line = Line {
            event: "row",
            experiment: run.name,
            label: kind.label(),
            path: &part.path,
            size: part.size,
            speed,
            qmp_ratio: part.row(QMP).filter(|_| *kind != QMP).and_then(|qmp| qmp.ratio(row)),
            cpu_s_per_gb_tx: cpu.map(|(tx, _)| tx),
            cpu_s_per_gb_rx: cpu.map(|(_, rx)| rx),
            share_copied: row.copied(),
            rounds: row.measured.len(),
        };
        let (tx, rx) = cpu.unwrap_or_default();
        let text = format!(
            "{:<9} {:>8}  {:<12} {:>9.1} {:>21} {:>7} {tx:>8.2} {rx:>8.2} {:>8}",
            part.path,
            part.size,
            row.label,
            speed.mbit_s,
            speed.range(1),
            ratio(line.qmp_ratio),
            percent(line.share_copied),
        );
        run.output.result(text, &line);
    }
}

fn summarize(run: &Run<'_>, parts: &[Part]) -> Result<(), Error> {
    let large = |is_lo: bool| {
        parts.iter().filter(move |part| part.size >= LARGE && (part.path == Path::Lo.to_string()) == is_lo)
    };
    let least = |is_lo| large(is_lo).filter_map(|part| part.ratio(QMP, QMP_COPIED)).reduce(f64::min);
    let all = || large(false).chain(large(true));
    let link_mbit_s = large(false).filter_map(|part| part.row(QMP)?.mbit_s()).reduce(f64::max);
    let summary = Summary {
        experiment: run.name,
        event: "summary",
        qbuf_ratio_link_min: least(false),
        qbuf_ratio_lo_min: least(true),
        link_mbit_s,
        paper_mbit_s: PAPER,
        share_copied_max: all().filter_map(|part| part.row(QMP)?.copied()).reduce(f64::max),
        quick: run.effort.quick,
    };
    if summary.link_mbit_s.is_none() && summary.qbuf_ratio_lo_min.is_none() {
        return Err(Error::failed("qmp could not be measured"));
    }
    let say = |value: Option<f64>| value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.2}"));
    let text = format!(
        "\nfrom 16 KiB on, qbufs have at least {} times the throughput of copies on the link, {} on lo; QMP settles at {} \
         Mbit/s (the paper: {PAPER})",
        say(summary.qbuf_ratio_link_min),
        say(summary.qbuf_ratio_lo_min),
        say(link_mbit_s),
    );
    run.output.result(text, &summary);
    Ok(())
}

fn figure(parts: &[Part]) -> Panels {
    let unit = |path: &str| if path == Path::Lo.to_string() { ("Gbit/s", 1000.0) } else { ("Mbit/s", 1.0) };
    Panels {
        title: "Throughput by message size, with and without QBUF".to_owned(),
        caption: vec![format!(
            "Medians of rounds in turn, each message a write of its own. In the paper QMP settled at {PAPER} Mbit/s on 100 Mbit/s."
        )],
        panels: measure::panels(parts, &KINDS, "a message", unit, |kind| kind == QMP_COPIED),
    }
}
