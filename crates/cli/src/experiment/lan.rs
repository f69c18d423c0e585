//! E-V5: throughput on a LAN, VRP against TCP cubic. The paper's VRP was 5 % slower than TCP there.

use super::Run;
use super::figure::{Bar, BarCharts, Bars, Group};
use super::measure::{Row, Speed, Taken, measure};
use crate::exit::Error;
use crate::perf::{IdleChoice, Job, Network, Path, Repeats, Transport, progress, size_name, span};
use crate::picture::COLOURS;
use crate::units::{count_of, percent, ratio};
use serde::Serialize;

/// Bytes of a frame: the paper's, and a large one.
const FRAMES: [usize; 2] = [100_000, 1 << 20];
/// Bytes under way.
const IN_FLIGHT: usize = 1 << 20;
/// VRP's throughput to TCP's.
const PAPER: f64 = 0.95;

/// One row as JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    experiment: &'a str,
    transport: &'a Transport,
    path: &'a str,
    size: usize,
    contract: Option<String>,
    #[serde(flatten)]
    speed: Speed,
    /// VRP's throughput, divided by this one: the median of the rounds' ratios.
    vrp_ratio: Option<f64>,
    #[serde(flatten)]
    repeats: Option<Repeats>,
    #[serde(flatten)]
    taken: Taken,
    in_flight: usize,
}

/// The last line of JSON.
#[derive(Serialize)]
struct Summary<'a> {
    experiment: &'a str,
    event: &'static str,
    ratio_min: f64,
    ratio_max: f64,
    paper_ratio: f64,
    /// No ratio is below the paper's.
    reached: bool,
    quick: bool,
}

/// Path, bytes of a frame, and VRP's row before TCP's.
type Pair = (String, usize, Vec<Row>);

/// Runs it.
pub(super) fn run(run: &Run<'_>) -> Result<(), Error> {
    let rounds = run.effort.rounds;
    run.begin("frames over links without loss, nothing may be lost");
    run.say(format_args!(
        "# {rounds}, interleaved; medians; idle adaptive; vrp/x: times the throughput of x, medians of the rounds' \
         ratios",
        rounds = count_of(u64::from(rounds), "round")
    ));
    run.say(format_args!(
        "{:<10} {:>9} {:<10} {:>10} {:>23} {:>8} {:>8}",
        "path", "frame", "transport", "Mbit/s", "(min .. max)", "vrp/x", "resent"
    ));
    let transports = [Transport::Vrp, Transport::Tcp(Some("cubic".to_owned()))];
    let bar = progress(2 * FRAMES.len() * transports.len() * rounds as usize);
    let mut pairs: Vec<Pair> = Vec::new();
    for path in [Path::Lo, Path::Veth1500] {
        let network = Network::new(path)?;
        for size in FRAMES {
            let job = |transport: &Transport| Job {
                depth: (IN_FLIGHT / size).max(2),
                ..Job::new(transport, size, IdleChoice::Adaptive, path)
            };
            let mut rows: Vec<_> = transports.iter().map(|one| Row::new(one.to_string(), job(one))).collect();
            measure(run, &network, &mut rows, &bar)?;
            let pair = (path.to_string(), size, rows);
            bar.suspend(|| print(run, &pair));
            pairs.push(pair);
        }
    }
    bar.finish_and_clear();
    let ratios: Vec<f64> = pairs.iter().filter_map(|(_, _, rows)| rows[0].ratio(&rows[1])).collect();
    if ratios.is_empty() {
        return Err(Error::failed("nothing could be compared with TCP cubic"));
    }
    let (ratio_min, ratio_max) = span(ratios.into_iter());
    let summary = Summary {
        experiment: run.name,
        event: "summary",
        ratio_min,
        ratio_max,
        paper_ratio: PAPER,
        reached: ratio_min >= PAPER,
        quick: run.effort.quick,
    };
    let verdict = if summary.reached { "reached" } else { "not reached everywhere" };
    let text = format!("\nvrp / TCP cubic {ratio_min:.2} to {ratio_max:.2}\nthe paper: {PAPER}: {verdict}");
    run.output.result(text, &summary);
    run.draw(&figure(&pairs))
}

/// A frame's size as the paper or the machine would say it.
fn name_of(size: usize) -> String {
    if size.is_multiple_of(1000) { format!("{} kB", size / 1000) } else { size_name(size) }
}

fn print(run: &Run<'_>, (path, size, rows): &Pair) {
    for row in rows {
        let Some(speed) = row.speed() else { continue };
        let is_vrp = row.job.transport == Transport::Vrp;
        let vrp_ratio = rows.first().filter(|_| !is_vrp).and_then(|vrp| vrp.ratio(row));
        let text = format!(
            "{path:<10} {:>9} {:<10} {:>10.0} {:>23} {:>8} {:>8}",
            name_of(*size),
            row.label,
            speed.mbit_s,
            speed.range(0),
            ratio(vrp_ratio),
            percent(row.resent()),
        );
        let line = Line {
            event: "row",
            experiment: run.name,
            transport: &row.job.transport,
            path,
            size: *size,
            contract: is_vrp.then(|| row.job.contract.to_string()),
            speed,
            vrp_ratio,
            repeats: row.repeats(),
            taken: row.taken(),
            in_flight: row.job.depth,
        };
        run.output.result(text, &line);
    }
}

fn figure(pairs: &[Pair]) -> BarCharts {
    let groups = pairs.iter().map(|(path, size, rows)| {
        let bars = rows.iter().enumerate().filter_map(|(index, row)| {
            let value = row.mbit_s()? / 1000.0;
            Some(Bar { series: index, value, label: format!("{value:.1}") })
        });
        let ratio = rows[0].ratio(&rows[1]).map_or_else(String::new, |ratio| format!("VRP / TCP {ratio:.2}"));
        Group { name: vec![format!("{path}, frames of {}", name_of(*size)), ratio], bars: bars.collect() }
    });
    BarCharts {
        title: "Throughput on a LAN, nothing may be lost".to_owned(),
        caption: format!("Medians of rounds in turn. In the paper VRP had {PAPER} of TCP's throughput."),
        charts: vec![Bars {
            y_name: "Gbit/s".to_owned(),
            top: None,
            series: vec![("VRP".to_owned(), COLOURS[0]), ("TCP cubic".to_owned(), COLOURS[1])],
            groups: groups.collect(),
        }],
    }
}
