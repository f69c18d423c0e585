//! E-A1: throughput by block size, 64 bytes to 16 KB, of A1 with and without retransmission, of bare datagrams in the same
//! trains, and of TCP (the paper's figure 2).

use super::{Kind, RAW, RELIABLE, paths};
use crate::exit::Error;
use crate::experiment::Run;
use crate::experiment::figure::Panels;
use crate::experiment::measure::{self, Kind as _, Speed};
use crate::units::{count_of, percent, ratio};
use serde::Serialize;

/// Bytes that the application sends at a time.
const SIZES: [usize; 9] = [64, 256, 1_024, 2_048, 4_096, 6_144, 8_192, 12_288, 16_384];
const QUICK: [usize; 3] = [64, 4_096, 16_384];
const KINDS: [Kind; 4] = [RELIABLE, RAW, Kind::Datagrams, Kind::Tcp];
/// From this size on it has to be at least as fast as TCP.
const LARGE: usize = 4_096;
/// The paper's: with retransmission against bare datagrams and TCP, without against datagrams.
const PAPER: (f64, f64, f64) = (0.82, 0.85, 0.96);

type Part = measure::Part<Kind>;

/// One row as JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    experiment: &'a str,
    transport: String,
    path: &'a str,
    size: usize,
    #[serde(flatten)]
    speed: Speed,
    /// The throughput divided by that of bare datagrams and of TCP: the medians of the rounds' ratios.
    datagrams_ratio: Option<f64>,
    tcp_ratio: Option<f64>,
    cpu_s_per_gb_tx: Option<f64>,
    cpu_s_per_gb_rx: Option<f64>,
    share_copied: Option<f64>,
    loss: Option<f64>,
    rounds: usize,
}

/// The last line of JSON: the least ratios of all sizes and paths.
#[derive(Serialize)]
struct Summary<'a> {
    experiment: &'a str,
    event: &'static str,
    reliable_to_datagrams_min: Option<f64>,
    raw_to_datagrams_min: Option<f64>,
    /// From 4 KB on.
    reliable_to_datagrams_large_min: Option<f64>,
    raw_to_datagrams_large_min: Option<f64>,
    reliable_to_tcp_large_min: Option<f64>,
    paper_reliable_to_datagrams: f64,
    paper_reliable_to_tcp: f64,
    paper_raw_to_datagrams: f64,
    quick: bool,
}

/// Runs it.
pub(in crate::experiment) fn run(run: &Run<'_>) -> Result<(), Error> {
    let rounds = run.effort.rounds;
    run.begin("throughput by block size, with and without retransmission (the A1 paper's figure 2)");
    run.say(format_args!(
        "# {rounds}, interleaved; medians; idle adaptive; network blocks of {} bytes at most, windows of {} kB; x/dgram and \
         x/tcp: times the throughput of bare datagrams in the same trains, and of TCP cubic",
        super::BLOCK,
        super::WINDOW / 1000,
        rounds = count_of(u64::from(rounds), "round")
    ));
    run.say(format_args!(
        "{:<9} {:>6}  {:<12} {:>9} {:>21} {:>7} {:>7} {:>7} {:>7} {:>8}",
        "path", "size", "transport", "Mbit/s", "(min .. max)", "x/dgram", "x/tcp", "CPU tx", "CPU rx", "copied"
    ));
    let sizes = if run.effort.quick { &QUICK[..] } else { &SIZES[..] };
    let paths = paths(run)?;
    let parts = Part::of_sizes(run, &paths, sizes, &KINDS, print)?;
    summarize(run, &parts)?;
    run.draw(&figure(&parts))
}

fn print(run: &Run<'_>, part: &Part) {
    for (kind, row) in &part.rows {
        let Some(speed) = row.speed() else { continue };
        let cpu = row.processor_seconds();
        let against = |other: Kind| part.ratio(*kind, other).filter(|_| *kind != other);
        let line = Line {
            event: "row",
            experiment: run.name,
            transport: kind.name(),
            path: &part.path,
            size: part.size,
            speed,
            datagrams_ratio: against(Kind::Datagrams),
            tcp_ratio: against(Kind::Tcp),
            cpu_s_per_gb_tx: cpu.map(|(tx, _)| tx),
            cpu_s_per_gb_rx: cpu.map(|(_, rx)| rx),
            share_copied: row.copied(),
            loss: row.loss(),
            rounds: row.measured.len(),
        };
        let (tx, rx) = cpu.unwrap_or_default();
        let text = format!(
            "{:<9} {:>6}  {:<12} {:>9.1} {:>21} {:>7} {:>7} {tx:>7.2} {rx:>7.2} {:>8}",
            part.path,
            part.size,
            row.label,
            speed.mbit_s,
            speed.range(1),
            ratio(line.datagrams_ratio),
            ratio(line.tcp_ratio),
            percent(line.share_copied),
        );
        run.output.result(text, &line);
    }
}

fn summarize(run: &Run<'_>, parts: &[Part]) -> Result<(), Error> {
    let least = |kind, other, from| {
        parts.iter().filter(|part| part.size >= from).filter_map(|part| part.ratio(kind, other)).reduce(f64::min)
    };
    let summary = Summary {
        experiment: run.name,
        event: "summary",
        reliable_to_datagrams_min: least(RELIABLE, Kind::Datagrams, 0),
        raw_to_datagrams_min: least(RAW, Kind::Datagrams, 0),
        reliable_to_datagrams_large_min: least(RELIABLE, Kind::Datagrams, LARGE),
        raw_to_datagrams_large_min: least(RAW, Kind::Datagrams, LARGE),
        reliable_to_tcp_large_min: least(RELIABLE, Kind::Tcp, LARGE),
        paper_reliable_to_datagrams: PAPER.0,
        paper_reliable_to_tcp: PAPER.1,
        paper_raw_to_datagrams: PAPER.2,
        quick: run.effort.quick,
    };
    if summary.reliable_to_datagrams_min.is_none() && summary.reliable_to_tcp_large_min.is_none() {
        return Err(Error::failed("a1 could not be measured"));
    }
    let say = |value: Option<f64>| value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.2}"));
    let text = format!(
        "\nat least, of all sizes: reliable / datagrams {}, raw / datagrams {}; from 4 KB on {} and {}, reliable / TCP {}\n\
         the paper: {}, {}; reliable / TCP {}",
        say(summary.reliable_to_datagrams_min),
        say(summary.raw_to_datagrams_min),
        say(summary.reliable_to_datagrams_large_min),
        say(summary.raw_to_datagrams_large_min),
        say(summary.reliable_to_tcp_large_min),
        PAPER.0,
        PAPER.2,
        PAPER.1,
    );
    run.output.result(text, &summary);
    Ok(())
}

fn figure(parts: &[Part]) -> Panels {
    let (what, is_dashed) = ("a block that the application sends", |kind| kind == Kind::Datagrams);
    Panels {
        title: "A1: throughput by block size".to_owned(),
        caption: vec![format!(
            "Medians of rounds in turn, network blocks of 9 kB, windows of 160 kB. In the paper A1 with retransmission had {} of \
             the throughput of bare datagrams and {} of TCP's; without, {} of datagrams.",
            PAPER.0, PAPER.1, PAPER.2
        )],
        panels: measure::panels(parts, &KINDS, what, |_| ("Gbit/s", 1000.0), is_dashed),
    }
}
