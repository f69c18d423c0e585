//! E-V3: throughput by packet size on a LAN and on a WAN, and by window on the WAN (the paper's figure 12, and section
//! 2.5.3).
//!
//! As in the paper: nothing may be lost, no congestion control, and the window of packets is fixed. One frame at a time, so
//! that its window is all that is under way. Packets larger than the path carries travel as IP fragments, of which each
//! can be lost by itself.

use super::Run;
use super::figure::{Curve, Panel, Panels};
use super::measure::{Effort, Row, Speed, Taken, measure};
use crate::congestion::Congestion;
use crate::exit::Error;
use crate::perf::{IdleChoice, Job, Network, Path, Repeats, Transport, progress};
use crate::picture::COLOURS;
use crate::units::{count_of, percent};
use crate::vrp::Packets;
use crate::wan;
use pinnace::ControllerKind;
use serde::Serialize;

/// 100 packets of 1,466 bytes fill this path, and as many again its queue.
const WAN: &str = "rate=20mbit,rtt=60ms,loss=0.5%";
/// The window for all packet sizes: the paper's default.
const WINDOW: u16 = 64;
/// The packet size for all windows: the largest that crosses in one piece. The paper took 2 kB, on paths whose pieces we
/// do not know.
const PACKET: u16 = 1466;
const PACKETS: [u16; 9] = [512, 1024, 1466, 2048, 2932, 4096, 6144, 8192, 16_384];
const QUICK_PACKETS: [u16; 3] = [512, 1466, 4096];
const WINDOWS: [u16; 5] = [16, 32, 64, 128, 256];
const QUICK_WINDOWS: [u16; 3] = [16, 64, 256];

/// One row as JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    experiment: &'a str,
    transport: &'a Transport,
    path: &'a str,
    /// What changes from row to row: `packet` or `window`.
    by: &'a str,
    packet_bytes: u16,
    window: u16,
    /// Larger than the path carries in one piece.
    fragmented: bool,
    size: usize,
    contract: String,
    congestion: &'a str,
    #[serde(flatten)]
    speed: Speed,
    #[serde(flatten)]
    repeats: Option<Repeats>,
    resent: Option<f64>,
    #[serde(flatten)]
    taken: Taken,
}

/// The last line of JSON.
#[derive(Serialize)]
struct Summary<'a> {
    experiment: &'a str,
    event: &'static str,
    wan: &'a str,
    wan_best_packet_bytes: u16,
    paper_wan_best_packet_bytes: u16,
    /// Throughput with the window, to that with the next smaller one.
    window_gains: Vec<(u16, f64)>,
    /// The share sent again.
    window_resent: Vec<(u16, f64)>,
    quick: bool,
}

/// The rows of one panel.
struct Part {
    path: String,
    by: &'static str,
    values: Vec<u16>,
    rows: Vec<Row>,
}

/// Runs it.
pub(super) fn run(run: &Run<'_>) -> Result<(), Error> {
    let Effort { quick, rounds, .. } = run.effort;
    let (packets, windows) = match quick {
        true => (QUICK_PACKETS.to_vec(), QUICK_WINDOWS.to_vec()),
        false => (PACKETS.to_vec(), WINDOWS.to_vec()),
    };
    run.begin("vrp, nothing may be lost, no congestion control, one frame at a time");
    run.say(format_args!(
        "# {rounds}, interleaved; medians; resent: share of the packets sent that were repetitions",
        rounds = count_of(u64::from(rounds), "round")
    ));
    run.say(format_args!(
        "{:<36} {:>8} {:>7} {:>10} {:>21} {:>8}  ",
        "path", "packet", "window", "Mbit/s", "(min .. max)", "resent"
    ));
    let bar = progress((3 * packets.len() + windows.len()) * rounds as usize);
    let config: wan::Config = WAN.parse().map_err(Error::failed)?;
    let mut parts = Vec::new();
    for path in [Some(Path::Lo), Some(Path::Veth1500), None] {
        let (network, name) = match path {
            Some(path) => (Network::new(path)?, path.to_string()),
            None => (Network::over(&config)?, format!("wan:{config}")),
        };
        let mtu = if path == Some(Path::Lo) { u16::MAX } else { PACKET };
        let size = frame_bytes(quick, path.is_some());
        let mut sweeps = vec![("packet", packets.clone())];
        if path.is_none() {
            sweeps.push(("window", windows.clone()));
        }
        let mut rows = Vec::new();
        for (by, values) in &sweeps {
            rows.extend(values.iter().map(|&value| {
                let (packet, window) = if *by == "packet" { (value, WINDOW) } else { (PACKET, value) };
                Row::new(format!("{name}, packet {packet}, window {window}"), job(size, packet, window, mtu))
            }));
        }
        let seconds = if path.is_some() { run.effort.seconds / 10.0 } else { run.effort.seconds };
        let run = Run { effort: Effort { seconds, ..run.effort }, ..*run };
        measure(&run, &network, &mut rows, &bar)?;
        for (by, values) in sweeps {
            let rest = rows.split_off(values.len());
            let part = Part { path: name.clone(), by, values, rows };
            bar.suspend(|| print(&run, &part));
            parts.push(part);
            rows = rest;
        }
    }
    bar.finish_and_clear();
    summarize(run, &parts)?;
    run.draw(&figure(&parts))
}

/// Long enough that the round trip at its end does not count.
fn frame_bytes(quick: bool, lan: bool) -> usize {
    if quick || lan { 1_000_000 } else { 4_000_000 }
}

fn job(size: usize, packet: u16, window: u16, mtu: u16) -> Job {
    let packets = Packets {
        packet_size: Some(packet),
        window: Some(window),
        congestion: Some(Congestion(ControllerKind::Fixed { window: u64::MAX })),
        ..Packets::default()
    };
    let job = Job::new(&Transport::Vrp, size, IdleChoice::Adaptive, Path::Lo);
    Job { depth: 1, packets, fragment: packet > mtu, ..job }
}

impl Part {
    /// Packet size and window of the row.
    fn of(&self, index: usize) -> (u16, u16) {
        let value = self.values[index];
        if self.by == "packet" { (value, WINDOW) } else { (PACKET, value) }
    }

    /// What was measured, by what changes.
    fn medians(&self) -> impl Iterator<Item = (u16, f64)> {
        self.values.iter().zip(&self.rows).filter_map(|(&value, row)| Some((value, row.mbit_s()?)))
    }
}

fn print(run: &Run<'_>, part: &Part) {
    for (index, row) in part.rows.iter().enumerate() {
        let Some(speed) = row.speed() else { continue };
        let (packet_bytes, window) = part.of(index);
        let resent = row.resent();
        let text = format!(
            "{:<36} {packet_bytes:>8} {window:>7} {:>10.2} {:>21} {:>8}  {}",
            part.path,
            speed.mbit_s,
            speed.range(2),
            percent(resent),
            if row.job.fragment { "fragments" } else { "" },
        );
        let line = Line {
            event: "row",
            experiment: run.name,
            transport: &row.job.transport,
            path: &part.path,
            by: part.by,
            packet_bytes,
            window,
            fragmented: row.job.fragment,
            size: row.job.size,
            contract: row.job.contract.to_string(),
            congestion: "fixed",
            speed,
            repeats: row.repeats(),
            resent,
            taken: row.taken(),
        };
        run.output.result(text, &line);
    }
}

fn summarize(run: &Run<'_>, parts: &[Part]) -> Result<(), Error> {
    let wan = |by| parts.iter().rfind(|part| part.by == by && part.path.starts_with("wan"));
    let (Some(packets), Some(windows)) = (wan("packet"), wan("window")) else {
        return Err(Error::failed("the WAN was not measured"));
    };
    let best = packets.medians().max_by(|a, b| a.1.total_cmp(&b.1));
    let (best, mbit_s) = best.ok_or_else(|| Error::failed("no packet size could be measured"))?;
    let medians: Vec<_> = windows.medians().collect();
    let gains = medians.windows(2).map(|pair| (pair[1].0, pair[1].1 / pair[0].1));
    let resent = windows.values.iter().zip(&windows.rows).filter_map(|(&value, row)| Some((value, row.resent()?)));
    let summary = Summary {
        experiment: run.name,
        event: "summary",
        wan: WAN,
        wan_best_packet_bytes: best,
        paper_wan_best_packet_bytes: 2048,
        window_gains: gains.collect(),
        window_resent: resent.collect(),
        quick: run.effort.quick,
    };
    let steps = summary.window_gains.iter().map(|(window, gain)| format!("{window}: {gain:.2}"));
    let text = format!(
        "\nWAN: best with packets of {best} bytes ({mbit_s:.2} Mbit/s; the paper: 2 kB, sometimes 1 kB)\nwindow, times the \
         throughput of the one before: {} (the paper: no gain beyond 128, and more losses)",
        steps.collect::<Vec<_>>().join(", ")
    );
    run.output.result(text, &summary);
    Ok(())
}

fn figure(parts: &[Part]) -> Panels {
    let curve = |part: &Part, label: String, colour: usize, scale: f64| Curve {
        label,
        colour: COLOURS[colour],
        dashed: false,
        dots: true,
        points: part.medians().map(|(value, mbit_s)| (f64::from(value), mbit_s / scale)).collect(),
    };
    let mark = Some((f64::from(PACKET), "what 1500 bytes carry".to_owned()));
    let lan = parts.iter().filter(|part| !part.path.starts_with("wan")).enumerate();
    let colours = [0, 2];
    let panel = |title: &str, x_name: &str, y_name: &str, curves, mark| Panel {
        title: title.to_owned(),
        x_name: x_name.to_owned(),
        y_name: y_name.to_owned(),
        doubling: true,
        curves,
        dots: Vec::new(),
        mark,
    };
    let by = |by: &str| {
        let part = parts.iter().filter(|part| part.path.starts_with("wan") && part.by == by);
        part.map(|part| curve(part, "20 Mbit/s, 60 ms, 0.5 % loss".to_owned(), 0, 1.0)).collect::<Vec<_>>()
    };
    Panels {
        title: "VRP without congestion control: throughput by packet size and by window".to_owned(),
        caption: vec![format!(
            "Nothing may be lost; one frame at a time. Packet sizes with a window of {WINDOW} packets; windows with packets \
             of {PACKET} bytes. Medians."
        )],
        panels: vec![
            panel(
                "LAN",
                "bytes of a packet",
                "Gbit/s",
                lan.map(|(index, part)| curve(part, part.path.clone(), colours[index % 2], 1000.0)).collect(),
                mark.clone(),
            ),
            panel("WAN", "bytes of a packet", "Mbit/s", by("packet"), mark),
            panel("WAN, by window", "window, packets", "Mbit/s", by("window"), None),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_beyond_the_path_are_cut_and_others_are_not() {
        assert!(WAN.parse::<wan::Config>().is_ok());
        let cut: Vec<u16> = PACKETS.into_iter().filter(|&packet| job(1000, packet, 64, PACKET).fragment).collect();
        assert_eq!(cut, [2048, 2932, 4096, 6144, 8192, 16_384]);
        assert!(!job(1000, 16_384, 64, u16::MAX).fragment);
    }
}
