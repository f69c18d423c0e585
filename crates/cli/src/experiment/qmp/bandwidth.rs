//! E-Q1: bandwidth with and without QBUF, against TCP, on a link of 100 Mbit/s (the paper's figure 4); and the processor
//! time that it costs, which is where copies show when the link is the bound.

use super::{BBR, CUBIC, Kind, LINK_MBIT_S, PAPER, QMP, QMP_COPIED, link};
use crate::exit::Error;
use crate::experiment::Run;
use crate::experiment::figure::{Bar, BarCharts, Bars, Group};
use crate::experiment::measure::{self, Kind as _, Row, Speed, Taken};
use crate::perf::{IdleChoice, progress, size_name};
use crate::qmp::LinkName;
use crate::units::{count_of, percent};
use serde::Serialize;

/// Bytes of a message: the paper went to 32 blocks of 4 KiB.
const SIZES: [usize; 3] = [16 << 10, 128 << 10, 1 << 20];
const QUICK: [usize; 1] = [128 << 10];
const KINDS: [Kind; 6] = [
    QMP,
    QMP_COPIED,
    Kind::Qmp { link: LinkName::Ip36, qbuf: true },
    Kind::Qmp { link: LinkName::Ether, qbuf: true },
    CUBIC,
    BBR,
];
/// The share of what the link can carry that has to be reached.
const BAR: f64 = 0.97;

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
    /// The throughput's share of the payload that full frames of this kind can carry.
    payload_share: f64,
    /// QMP's throughput (with qbufs, over UDP), divided by this one: the median of the rounds' ratios.
    qmp_ratio: Option<f64>,
    cpu_s_per_gb_tx: f64,
    cpu_s_per_gb_rx: f64,
    /// The share of the bytes that the receiver copied in user space.
    bytes_copied: Option<f64>,
    resent: Option<f64>,
    #[serde(flatten)]
    taken: Taken,
}

/// The last line of JSON.
#[derive(Serialize)]
struct Summary<'a> {
    experiment: &'a str,
    event: &'static str,
    /// QMP's share of what the link can carry of it: the least of all sizes and links.
    payload_share_min: f64,
    /// QMP to TCP cubic and bbr, over all sizes: over UDP, whose header TCP does not have, and over whichever link is best.
    ratio_udp_min: f64,
    ratio_best_min: f64,
    paper_ratio: f64,
    /// At least 0.97 of what the link can carry, and over its best link at least TCP.
    reached: bool,
    quick: bool,
}

type Part = measure::Part<Kind>;

/// Runs it.
pub(in crate::experiment) fn run(run: &Run<'_>) -> Result<(), Error> {
    let rounds = run.effort.rounds;
    run.begin("bandwidth on a link of 100 Mbit/s, with and without QBUF, against TCP (the QMP paper's figure 4)");
    run.say(format_args!(
        "# {rounds}, interleaved; medians; idle block; of link: of the payload that full frames can carry; qmp/x: \
         times the throughput of x; CPU: processor seconds per GB at the sender and the receiver",
        rounds = count_of(u64::from(rounds), "round")
    ));
    run.say(format_args!(
        "{:>9}  {:<16} {:>8} {:>17} {:>8} {:>7} {:>8} {:>8} {:>8} {:>8}",
        "size", "transport", "Mbit/s", "(min .. max)", "of link", "qmp/x", "CPU tx", "CPU rx", "copied", "resent"
    ));
    let link = link(run)?;
    let sizes = if run.effort.quick { &QUICK[..] } else { &SIZES[..] };
    let bar = progress(sizes.len() * KINDS.len() * rounds as usize);
    let mut parts = Vec::new();
    for &size in sizes {
        let part = Part::measure(run, &link, (size, IdleChoice::Block), &KINDS, &bar)?;
        bar.suspend(|| print(run, &part));
        parts.push(part);
    }
    bar.finish_and_clear();
    summarize(run, &parts)?;
    run.draw(&figure(&link.name, &parts))
}

/// What of its payload the link can carry, and what of that was.
fn payload_share(kind: Kind, mbit_s: f64) -> f64 {
    mbit_s / (LINK_MBIT_S * kind.payload_share())
}

fn print(run: &Run<'_>, part: &Part) {
    let qmp = part.rows.first();
    for (kind, row) in &part.rows {
        let (Some(speed), Some((cpu_tx, cpu_rx))) = (row.speed(), row.processor_seconds()) else { continue };
        let line = Line {
            event: "row",
            experiment: run.name,
            label: kind.label(),
            path: &part.path,
            size: part.size,
            speed,
            payload_share: payload_share(*kind, speed.mbit_s),
            qmp_ratio: qmp.filter(|_| *kind != QMP).and_then(|(_, qmp)| qmp.ratio(row)),
            cpu_s_per_gb_tx: cpu_tx,
            cpu_s_per_gb_rx: cpu_rx,
            bytes_copied: row.copied(),
            resent: row.resent(),
            taken: row.taken(),
        };
        let text = format!(
            "{:>9}  {:<16} {:>8.2} {:>17} {:>8.3} {:>7} {cpu_tx:>8.2} {cpu_rx:>8.2} {:>8} {:>8}",
            size_name(part.size),
            row.label,
            speed.mbit_s,
            speed.range(2),
            line.payload_share,
            line.qmp_ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}")),
            percent(line.bytes_copied),
            percent(line.resent),
        );
        run.output.result(text, &line);
    }
}

fn summarize(run: &Run<'_>, parts: &[Part]) -> Result<(), Error> {
    let (mut payload_share_min, mut ratio_udp_min, mut ratio_best_min) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    for part in parts {
        let qmp = || part.rows.iter().filter(|(kind, _)| kind.is_qmp());
        let shares = qmp().filter_map(|(kind, row)| Some(payload_share(*kind, row.mbit_s()?)));
        payload_share_min = shares.fold(payload_share_min, f64::min);
        for (_, tcp) in part.rows.iter().filter(|(kind, _)| !kind.is_qmp()) {
            let ratio = |(_, row): &(Kind, Row)| row.ratio(tcp);
            if let Some(udp) = part.rows.first().and_then(ratio) {
                ratio_udp_min = ratio_udp_min.min(udp);
            }
            if let Some(best) = qmp().filter_map(ratio).reduce(f64::max) {
                ratio_best_min = ratio_best_min.min(best);
            }
        }
    }
    if !ratio_best_min.is_finite() {
        return Err(Error::failed("nothing could be compared with TCP"));
    }
    // Hundredths of a percent are the token bucket's.
    let reached = payload_share_min >= BAR && ratio_best_min >= 0.9995;
    let summary = Summary {
        experiment: run.name,
        event: "summary",
        payload_share_min,
        ratio_udp_min,
        ratio_best_min,
        paper_ratio: PAPER.0 / PAPER.1,
        reached,
        quick: run.effort.quick,
    };
    let text = format!(
        "\nQMP has at least {payload_share_min:.3} of what the link can carry of it; QMP / TCP at least {ratio_udp_min:.4} over \
         UDP, {ratio_best_min:.4} over its best link\nthe paper: {} against {} Mbit/s, {:.2}; the bar here, {BAR} of the link \
         and no less than TCP: {}",
        PAPER.0,
        PAPER.1,
        PAPER.0 / PAPER.1,
        if reached { "reached" } else { "not reached" }
    );
    run.output.result(text, &summary);
    Ok(())
}

fn figure(path: &str, parts: &[Part]) -> BarCharts {
    let series: Vec<_> = KINDS.iter().map(|kind| (kind.name(), kind.colour())).collect();
    let groups = |value: &dyn Fn(&Row) -> Option<f64>, digits: usize| -> Vec<Group> {
        let of = |part: &Part| {
            let bars = part.rows.iter().enumerate().filter_map(|(series, (_, row))| {
                let value = value(row)?;
                Some(Bar { series, value, label: format!("{value:.digits$}") })
            });
            Group { name: vec![size_name(part.size)], bars: bars.collect() }
        };
        parts.iter().map(of).collect()
    };
    let bars = |y_name: &str, top, groups| Bars { y_name: y_name.to_owned(), top, series: series.clone(), groups };
    let cpu = |row: &Row| row.processor_seconds().map(|(tx, rx)| tx + rx);
    BarCharts {
        title: format!("Bandwidth on a link of 100 Mbit/s ({path}), by message size"),
        caption: format!(
            "Medians of rounds in turn. In the paper QMP had {} Mbit/s and TCP {}. Right: user and kernel, sender and receiver.",
            PAPER.0, PAPER.1
        ),
        charts: vec![
            bars("Mbit/s", Some(LINK_MBIT_S * 1.08), groups(&Row::mbit_s, 1)),
            bars("processor seconds per GB", None, groups(&cpu, 1)),
        ],
    }
}
