//! E-A2: half the round trip by block size, against TCP and bare datagrams (the paper's figure 3), with waiting threads that spin and that
//! block.

use super::{Kind, RAW, RELIABLE, paths};
use crate::exit::Error;
use crate::experiment::Run;
use crate::experiment::figure::Panels;
use crate::experiment::measure::Kind as _;
use crate::experiment::round_trips;
use crate::units::count_of;
use serde::Serialize;

/// Bytes each way.
const SIZES: [usize; 6] = [1, 64, 1_024, 4_096, 8_192, 16_384];
const QUICK: [usize; 2] = [64, 4_096];
const KINDS: [Kind; 4] = [RELIABLE, RAW, Kind::Datagrams, Kind::Tcp];
/// Pings a round: the paper's.
const COUNT: u64 = 1_000;
const QUICK_COUNT: u64 = 300;

type Cell = round_trips::Cell<Kind>;

/// One row as JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    experiment: &'a str,
    transport: String,
    path: &'a str,
    idle: String,
    size: usize,
    /// Half round trips.
    half_p50_us: f64,
    half_p50_us_min: f64,
    half_p50_us_max: f64,
    half_p99_us: Option<f64>,
    /// The median time, divided by TCP's: the median of the rounds' ratios.
    tcp_ratio: Option<f64>,
    /// The same, divided by that of bare datagrams: what the protocol adds.
    datagrams_ratio: Option<f64>,
    rounds: usize,
}

/// The last line of JSON.
#[derive(Serialize)]
struct Summary<'a> {
    experiment: &'a str,
    event: &'static str,
    /// A1's time with retransmission to TCP's: the least and the most of all rows.
    ratio_min: f64,
    ratio_max: f64,
    /// No row is slower than TCP.
    reached: bool,
    quick: bool,
}

/// Runs it.
pub(in crate::experiment) fn run(run: &Run<'_>) -> Result<(), Error> {
    let (rounds, quick) = (run.effort.rounds, run.effort.quick);
    let count = if quick { QUICK_COUNT } else { COUNT };
    run.begin("half the round trip by block size, against TCP and bare datagrams (the A1 paper's figure 3)");
    run.say(format_args!(
        "# {rounds} of {count} pings, interleaved; medians of the rounds' medians; half round trips in us; x/tcp: times \
         the time of TCP",
        rounds = count_of(u64::from(rounds), "round")
    ));
    let sizes = if quick { &QUICK[..] } else { &SIZES[..] };
    let cells = round_trips::measure_all(run, &paths(run)?, sizes, (&KINDS, count), |cells| print(run, cells))?;
    summarize(run, &cells)?;
    run.draw(&figure(&cells))
}

fn print(run: &Run<'_>, cells: &[Cell]) {
    let against = |cell: &Cell, other: Kind| {
        let other = cells.iter().find(|cell| cell.kind == other)?;
        (cell.kind != other.kind).then(|| cell.ratio(other))?
    };
    for cell in cells {
        let Some(p50) = cell.p50() else { continue };
        let (least, most) = cell.spread();
        let line = Line {
            event: "row",
            experiment: run.name,
            transport: cell.kind.name(),
            path: &cell.path,
            idle: cell.idle.to_string(),
            size: cell.size,
            half_p50_us: p50 / 2.0,
            half_p50_us_min: least / 2.0,
            half_p50_us_max: most / 2.0,
            half_p99_us: cell.p99().map(|p99| p99 / 2.0),
            tcp_ratio: against(cell, Kind::Tcp),
            datagrams_ratio: against(cell, Kind::Datagrams),
            rounds: cell.rounds(),
        };
        run.output.result(cell.text(p50, 0.5, line.tcp_ratio), &line);
    }
}

fn summarize(run: &Run<'_>, cells: &[Cell]) -> Result<(), Error> {
    let (ratio_min, ratio_max) = round_trips::ratios(cells, RELIABLE, |kind| kind == Kind::Tcp)?;
    let (reached, quick) = (ratio_max < 1.0, run.effort.quick);
    let summary = Summary { experiment: run.name, event: "summary", ratio_min, ratio_max, reached, quick };
    let text = format!(
        "\nA1 / TCP {ratio_min:.2} to {ratio_max:.2}\nthe paper: slower than TCP for small blocks, and the gap closes with their \
         size; below TCP at every size: {}",
        if reached { "reached" } else { "not reached everywhere" }
    );
    run.output.result(text, &summary);
    Ok(())
}

fn figure(cells: &[Cell]) -> Panels {
    Panels {
        title: "A1: half the round trip by block size".to_owned(),
        caption: vec![
            "Medians of rounds in turn. Datagrams: a bare loop, the floor (in the paper, AAL5). In the paper A1 was slower than TCP for small blocks, and the gap closed with their size."
                .to_owned(),
        ],
        panels: round_trips::panels(cells, &KINDS, ("half a round trip, us", 0.5), |kind| kind == RAW),
    }
}
