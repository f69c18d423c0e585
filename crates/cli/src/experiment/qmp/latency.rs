//! E-Q3: round trips of small messages, against TCP (the paper's section 5.2), with waiting threads that spin and that block.

use super::{Kind, QMP, QMP_COPIED, link};
use crate::exit::Error;
use crate::experiment::Run;
use crate::experiment::figure::Panels;
use crate::experiment::measure::Between;
use crate::experiment::round_trips;
use crate::perf::Path;
use crate::units::count_of;
use serde::Serialize;

/// Bytes each way.
const SIZES: [usize; 4] = [1, 16, 100, 1_000];
const QUICK: [usize; 2] = [16, 1_000];
/// TCP with the congestion control that it has by default: round trips do not depend on it.
const KINDS: [Kind; 3] = [QMP_COPIED, QMP, Kind::Tcp("cubic")];
/// Round trips a round.
const COUNT: u64 = 3_000;
const QUICK_COUNT: u64 = 500;
/// Half a round trip in the paper, in us: QMP's and TCP's.
const PAPER: (f64, f64) = (160.0, 150.0);

type Cell = round_trips::Cell<Kind>;

/// One row as JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    experiment: &'a str,
    #[serde(flatten)]
    label: super::Label,
    path: &'a str,
    idle: String,
    size: usize,
    /// Whole round trips.
    p50_us: f64,
    p50_us_min: f64,
    p50_us_max: f64,
    p99_us: Option<f64>,
    /// The median time, divided by TCP's: the median of the rounds' ratios.
    tcp_ratio: Option<f64>,
    rounds: usize,
}

/// The last line of JSON.
#[derive(Serialize)]
struct Summary<'a> {
    experiment: &'a str,
    event: &'static str,
    /// QMP's time to TCP's, sockets against sockets: the least and the most of all rows.
    ratio_min: f64,
    ratio_max: f64,
    paper_ratio: f64,
    /// No row is slower than TCP.
    reached: bool,
    quick: bool,
}

/// Runs it.
pub(in crate::experiment) fn run(run: &Run<'_>) -> Result<(), Error> {
    let (rounds, quick) = (run.effort.rounds, run.effort.quick);
    let count = if quick { QUICK_COUNT } else { COUNT };
    run.begin("round trips of small messages, against TCP (the QMP paper's section 5.2)");
    run.say(format_args!(
        "# {rounds} of {count} round trips, interleaved; medians of the rounds' medians; whole round trips in us; x/tcp: \
         times the time of TCP",
        rounds = count_of(u64::from(rounds), "round")
    ));
    let sizes = if quick { &QUICK[..] } else { &SIZES[..] };
    let mut paths = vec![Between::new(Path::Lo)?];
    if rustix::process::geteuid().is_root() {
        paths.push(link(run)?);
    } else {
        run.output.warn("the link of 100 Mbit/s is left out: it needs root");
    }
    let cells = round_trips::measure_all(run, &paths, sizes, (&KINDS, count), |cells| print(run, cells))?;
    summarize(run, &cells)?;
    run.draw(&figure(&cells))
}

fn print(run: &Run<'_>, cells: &[Cell]) {
    let tcp = cells.iter().find(|cell| !cell.kind.is_qmp());
    for cell in cells {
        let Some(p50_us) = cell.p50() else { continue };
        let (p50_us_min, p50_us_max) = cell.spread();
        let line = Line {
            event: "row",
            experiment: run.name,
            label: cell.kind.label(),
            path: &cell.path,
            idle: cell.idle.to_string(),
            size: cell.size,
            p50_us,
            p50_us_min,
            p50_us_max,
            p99_us: cell.p99(),
            tcp_ratio: tcp.filter(|_| cell.kind.is_qmp()).and_then(|tcp| cell.ratio(tcp)),
            rounds: cell.rounds(),
        };
        run.output.result(cell.text(p50_us, 1.0, line.tcp_ratio), &line);
    }
}

fn summarize(run: &Run<'_>, cells: &[Cell]) -> Result<(), Error> {
    let (ratio_min, ratio_max) = round_trips::ratios(cells, QMP_COPIED, |kind| !kind.is_qmp())?;
    let paper_ratio = PAPER.0 / PAPER.1;
    let reached = ratio_max <= 1.0;
    let summary = Summary {
        experiment: run.name,
        event: "summary",
        ratio_min,
        ratio_max,
        paper_ratio,
        reached,
        quick: run.effort.quick,
    };
    let text = format!(
        "\nQMP / TCP {ratio_min:.2} to {ratio_max:.2}\nthe paper: {paper_ratio:.2} ({} against {} us); no slower than TCP: {}",
        PAPER.0,
        PAPER.1,
        if reached { "reached" } else { "not reached everywhere" }
    );
    run.output.result(text, &summary);
    Ok(())
}

fn figure(cells: &[Cell]) -> Panels {
    Panels {
        title: "Round trips of small messages".to_owned(),
        caption: vec![format!(
            "Medians of rounds in turn. In the paper QMP took {:.2} times the time of TCP.",
            PAPER.0 / PAPER.1
        )],
        panels: round_trips::panels(cells, &KINDS, ("round trip, us", 1.0), |_| false),
    }
}
