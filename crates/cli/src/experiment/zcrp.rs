//! E-Z1 to E-Z3: the measurements of the ZCRP paper: throughput by message size against TCP (its figures 13 to 26), the same
//! beside a process that competes for the processor (figures 27 to 30), and every byte of every message checked.
//!
//! The paper's network was Ethernet between workstations of several speeds. Ours are the loopback interface and virtual
//! Ethernet, and both ends are of one speed.

use super::Run;
use super::figure::Panels;
use super::measure::{self, Between, Speed};
use crate::exit::Error;
use crate::perf::{IdleChoice, Job, Path, Transport, size_name, span};
use crate::picture::COLOURS;
use crate::units::{count_of, percent, ratio};
use plotters::style::RGBColor;
use serde::Serialize;

/// Bytes of a message: the paper's end at 1 MB.
const SIZES: [usize; 10] =
    [1 << 10, 4 << 10, 16 << 10, PASSES, 128 << 10, 512 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
const QUICK: [usize; 3] = [4 << 10, PASSES, 1 << 20];
/// From about this size on the paper's ZCRP was faster than TCP in most cases.
const PASSES: usize = 50_000;
/// Bytes under way: k messages.
const IN_FLIGHT: usize = 1 << 20;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    of: Of,
    /// Processes that do nothing but count.
    load: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Zcrp,
    /// Every byte of every message is checked.
    Checked,
    Tcp,
}

const ZCRP: Kind = Kind { of: Of::Zcrp, load: 0 };
const TCP: Kind = Kind { of: Of::Tcp, load: 0 };
const LOADED_ZCRP: Kind = Kind { load: 1, ..ZCRP };
const LOADED_TCP: Kind = Kind { load: 1, ..TCP };
const CHECKED: Kind = Kind { of: Of::Checked, load: 0 };

impl Kind {
    fn transport(self) -> Transport {
        match self.of {
            Of::Zcrp | Of::Checked => Transport::Zcrp,
            Of::Tcp => Transport::Tcp(Some("cubic".to_owned())),
        }
    }

    /// The same without load.
    fn alone(self) -> Self {
        Self { load: 0, ..self }
    }
}

impl measure::Kind for Kind {
    fn name(self) -> String {
        let name = if self.of == Of::Tcp { "TCP cubic" } else { "ZCRP" };
        if self.load > 0 { format!("{name}, loaded") } else { name.to_owned() }
    }

    fn colour(self) -> RGBColor {
        COLOURS[usize::from(self.of == Of::Tcp)]
    }

    fn job(self, size: usize, idle: IdleChoice, path: Path) -> Job {
        let depth = (IN_FLIGHT / size).clamp(2, 512);
        Job { depth, checked: self.of == Of::Checked, ..Job::new(&self.transport(), size, idle, path) }
    }

    fn load(self) -> u32 {
        self.load
    }
}

type Part = measure::Part<Kind>;

/// One row as JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    experiment: &'a str,
    transport: Transport,
    path: &'a str,
    size: usize,
    load: u32,
    #[serde(flatten)]
    speed: Speed,
    /// The throughput divided by that of TCP under the same load, and by that of the same transport without: medians of the
    /// rounds' ratios.
    tcp_ratio: Option<f64>,
    alone_ratio: Option<f64>,
    /// How often the competing process counted meanwhile: what was left for it.
    counts_per_second: Option<f64>,
    cpu_s_per_gb_tx: Option<f64>,
    cpu_s_per_gb_rx: Option<f64>,
    share_copied: Option<f64>,
    rounds: usize,
}

/// The last line of JSON of E-Z1.
#[derive(Serialize)]
struct Passing<'a> {
    experiment: &'a str,
    event: &'static str,
    /// ZCRP's throughput to TCP's: the least and the most of all paths, up to the paper's size and from there on.
    ratio_small_min: Option<f64>,
    ratio_small_max: Option<f64>,
    ratio_large_min: f64,
    ratio_large_max: f64,
    /// In the paper ZCRP passes TCP about here, in most cases.
    paper_passes_bytes: usize,
    /// It is faster at most of these sizes.
    reached: bool,
    quick: bool,
}

/// The last line of JSON of E-Z2.
#[derive(Serialize)]
struct Loaded<'a> {
    experiment: &'a str,
    event: &'static str,
    /// What is left of the throughput beside a competing process: the least and the most of all sizes and paths.
    zcrp_left_min: f64,
    zcrp_left_max: f64,
    tcp_left_min: f64,
    tcp_left_max: f64,
    /// How often it counted beside ZCRP to how often it did beside TCP.
    counts_ratio_min: f64,
    counts_ratio_max: f64,
    /// ZCRP's throughput changes less than TCP's everywhere.
    reached: bool,
    quick: bool,
}

/// The last line of JSON of E-Z3.
#[derive(Serialize)]
struct Intact<'a> {
    experiment: &'a str,
    event: &'static str,
    messages: u64,
    bytes: u64,
    /// All of them were as they had been sent.
    reached: bool,
    quick: bool,
}

/// E-Z1.
pub(super) fn throughput(run: &Run<'_>) -> Result<(), Error> {
    run.begin("throughput by message size against TCP (the ZCRP paper's figures 13 to 26)");
    let kinds = [ZCRP, TCP];
    let parts = measure_all(run, &kinds)?;
    let ratios = |is: &dyn Fn(usize) -> bool| -> Vec<f64> {
        parts.iter().filter(|part| is(part.size)).filter_map(|part| part.ratio(ZCRP, TCP)).collect()
    };
    let (small, large) = (ratios(&|size| size < PASSES), ratios(&|size| size >= PASSES));
    if large.is_empty() {
        return Err(Error::failed("nothing could be compared with TCP cubic"));
    }
    let faster = large.iter().filter(|ratio| **ratio > 1.0).count();
    let reached = faster * 2 > large.len();
    let text = format!(
        "\nzcrp / TCP cubic from {PASSES} bytes on {:.2} to {:.2}, above 1 in {faster} of {}\nthe paper: passes TCP beyond about \
         {PASSES} bytes in most cases: {}",
        span(large.iter().copied()).0,
        span(large.iter().copied()).1,
        count_of(large.len() as u64, "case"),
        verdict(reached),
    );
    let bounds = |ratios: &[f64]| (!ratios.is_empty()).then(|| span(ratios.iter().copied()));
    let (ratio_large_min, ratio_large_max) = span(large.iter().copied());
    let summary = Passing {
        experiment: run.name,
        event: "summary",
        ratio_small_min: bounds(&small).map(|(least, _)| least),
        ratio_small_max: bounds(&small).map(|(_, most)| most),
        ratio_large_min,
        ratio_large_max,
        paper_passes_bytes: PASSES,
        reached,
        quick: run.effort.quick,
    };
    run.output.result(text, &summary);
    run.draw(&figure(
        &parts,
        &kinds,
        "ZCRP: throughput by message size",
        "In the paper ZCRP passes TCP beyond about 50 kB.",
    ))
}

/// E-Z2.
pub(super) fn load(run: &Run<'_>) -> Result<(), Error> {
    run.begin("throughput beside a process that competes for the processor (the ZCRP paper's figures 27 to 30)");
    let kinds = [ZCRP, LOADED_ZCRP, TCP, LOADED_TCP];
    let parts = measure_all(run, &kinds)?;
    let left = |of: Kind| -> Vec<f64> { parts.iter().filter_map(|part| part.ratio(of, of.alone())).collect() };
    let (zcrp, tcp) = (left(LOADED_ZCRP), left(LOADED_TCP));
    let counts = |part: &Part, of: Kind| part.row(of)?.counts_per_second();
    let counts: Vec<f64> =
        parts.iter().filter_map(|part| Some(counts(part, LOADED_ZCRP)? / counts(part, LOADED_TCP)?)).collect();
    if zcrp.is_empty() || tcp.is_empty() || counts.is_empty() {
        return Err(Error::failed("nothing could be compared with TCP cubic"));
    }
    let change = |left: &[f64]| left.iter().map(|left| (1.0 - left).abs()).fold(0.0, f64::max);
    let reached = change(&zcrp) < change(&tcp);
    let [zcrp, tcp, counts] = [zcrp, tcp, counts].map(|of| span(of.into_iter()));
    let summary = Loaded {
        experiment: run.name,
        event: "summary",
        zcrp_left_min: zcrp.0,
        zcrp_left_max: zcrp.1,
        tcp_left_min: tcp.0,
        tcp_left_max: tcp.1,
        counts_ratio_min: counts.0,
        counts_ratio_max: counts.1,
        reached,
        quick: run.effort.quick,
    };
    let text = format!(
        "\nleft of the throughput: of zcrp {:.2} to {:.2}, of TCP cubic {:.2} to {:.2}; the process counts beside zcrp {:.2} to \
         {:.2} times as often as beside TCP\nthe paper: almost unchanged under load, and TCP's not: {}",
        zcrp.0,
        zcrp.1,
        tcp.0,
        tcp.1,
        counts.0,
        counts.1,
        verdict(reached),
    );
    run.output.result(text, &summary);
    let caption = "Dashed: beside a process that does nothing but count. In the paper ZCRP is almost unchanged.";
    run.draw(&figure(&parts, &kinds, "ZCRP: throughput with and without load", caption))
}

/// E-Z3.
pub(super) fn consistency(run: &Run<'_>) -> Result<(), Error> {
    run.begin("every byte of every message checked (the ZCRP paper's consistency test)");
    let kinds = [CHECKED];
    let parts = measure_all(run, &kinds)?;
    let rows = || parts.iter().flat_map(|part| part.rows.iter().map(move |(_, row)| (part.size, row)));
    // Whatever was wrong has been said, with its row.
    let reached = rows().all(|(_, row)| row.measured.len() == run.effort.rounds as usize);
    let messages = rows().map(|(_, row)| row.messages()).sum();
    let bytes = rows().map(|(size, row)| size as u64 * row.messages()).sum();
    let (event, quick) = ("summary", run.effort.quick);
    let summary = Intact { experiment: run.name, event, messages, bytes, reached, quick };
    let text = format!(
        "\n{} checked, {bytes} bytes\nthe paper: all were fully consistent: {}",
        count_of(messages, "message"),
        verdict(reached)
    );
    run.output.result(text, &summary);
    let caption = "Every byte is written and checked, which takes time of its own: no measure of speed.";
    run.draw(&figure(&parts, &kinds, "ZCRP: every byte checked", caption))?;
    if reached { Ok(()) } else { Err(Error::not_verified("not every message came as it was sent")) }
}

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "not reached" }
}

/// Measures all sizes over all paths, and prints what was seen.
fn measure_all(run: &Run<'_>, kinds: &[Kind]) -> Result<Vec<Part>, Error> {
    let rounds = run.effort.rounds;
    run.say(format_args!(
        "# {rounds}, interleaved; medians; idle adaptive; {} in messages queued at a time, two at least; the clock is the \
         receiver's; x/tcp: times the throughput of TCP cubic; x/alone: of the same without load; counts/us: how often the \
         competing process counted",
        size_name(IN_FLIGHT),
        rounds = count_of(u64::from(rounds), "round")
    ));
    run.say(format_args!(
        "{:<9} {:>9}  {:<17} {:>9} {:>21} {:>7} {:>7} {:>9} {:>7} {:>7} {:>8}",
        "path",
        "size",
        "transport",
        "Mbit/s",
        "(min .. max)",
        "x/tcp",
        "x/alone",
        "counts/us",
        "CPU tx",
        "CPU rx",
        "copied"
    ));
    let sizes = if run.effort.quick { &QUICK[..] } else { &SIZES[..] };
    let paths = Between::all(run, Path::Veth1500)?;
    Part::of_sizes(run, &paths, sizes, kinds, print)
}

fn print(run: &Run<'_>, part: &Part) {
    for (kind, row) in &part.rows {
        let Some(speed) = row.speed() else { continue };
        let cpu = row.processor_seconds();
        let against = |other: Kind| part.ratio(*kind, other).filter(|_| *kind != other);
        let line = Line {
            event: "row",
            experiment: run.name,
            transport: kind.transport(),
            path: &part.path,
            size: part.size,
            load: kind.load,
            speed,
            tcp_ratio: against(Kind { of: Of::Tcp, ..*kind }),
            alone_ratio: against(kind.alone()),
            counts_per_second: row.counts_per_second(),
            cpu_s_per_gb_tx: cpu.map(|(tx, _)| tx),
            cpu_s_per_gb_rx: cpu.map(|(_, rx)| rx),
            share_copied: row.copied(),
            rounds: row.measured.len(),
        };
        let (tx, rx) = cpu.unwrap_or_default();
        let counts = line.counts_per_second.map_or_else(String::new, |counts| format!("{:.1}", counts / 1e6));
        let text = format!(
            "{:<9} {:>9}  {:<17} {:>9.1} {:>21} {:>7} {:>7} {counts:>9} {tx:>7.3} {rx:>7.3} {:>8}",
            part.path,
            size_name(part.size),
            row.label,
            speed.mbit_s,
            speed.range(1),
            ratio(line.tcp_ratio),
            ratio(line.alone_ratio),
            percent(line.share_copied),
        );
        run.output.result(text.trim_end(), &line);
    }
}

fn figure(parts: &[Part], kinds: &[Kind], title: &str, caption: &str) -> Panels {
    Panels {
        title: title.to_owned(),
        caption: vec![format!("Medians of rounds in turn. {caption}")],
        panels: measure::panels(parts, kinds, "a message", |_| ("Gbit/s", 1000.0), |kind| kind.load > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::measure::Kind as _;
    use super::*;

    #[test]
    fn names_tell_what_is_measured_apart() {
        let names = [ZCRP, LOADED_ZCRP, TCP, LOADED_TCP].map(Kind::name);
        assert_eq!(names, ["ZCRP", "ZCRP, loaded", "TCP cubic", "TCP cubic, loaded"]);
        let job = CHECKED.job(64 << 20, IdleChoice::Block, Path::Lo);
        assert_eq!((job.depth, job.checked, ZCRP.job(1, IdleChoice::Block, Path::Lo).checked), (2, true, false));
    }
}
