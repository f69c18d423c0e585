//! E-X3: throughput by message size over UDP, TCP and XTP (the XTP paper's tables 3.4 to 3.6): runs of some hundred
//! messages, as in the paper, and long ones.

use super::Run;
use super::figure::{Curve, Panel, Panels};
use super::measure::{Row, Speed, measure};
use crate::exit::Error;
use crate::perf::{IdleChoice, Job, Network, Pair, Path, Role, Transport, Trouble, median, progress, span};
use crate::picture::COLOURS;
use crate::units::{count_of, ratio};
use serde::Serialize;

/// Bytes of a message: the paper's.
const SIZES: [usize; 6] = [1_024, 1_400, 2_000, 4_000, 8_192, 16_384];
/// Messages of a short run; the paper's had 100 to 500.
const SHORT: u64 = 300;
/// Short runs of one pair of processes, after some that do not count.
const RUNS: usize = 25;
const WARM_UP: usize = 5;
/// Bytes under way.
const IN_FLIGHT: usize = 1 << 20;
/// Best of XTP to best of TCP: over Ethernet, and over FDDI.
const PAPER: (f64, f64) = (0.986, 1.024);
/// Mbit/s over FDDI: XTP's best and TCP's.
const PAPER_FDDI: (f64, f64) = (21.24, 20.74);

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Length {
    Short,
    Sustained,
}

/// One row as JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    experiment: &'a str,
    transport: &'a Transport,
    path: String,
    size: usize,
    length: Length,
    /// Messages of a short run.
    messages: Option<u64>,
    #[serde(flatten)]
    speed: Speed,
    /// XTP's throughput, divided by this one: the median of the rounds' ratios.
    xtp_ratio: Option<f64>,
    rounds: usize,
}

/// The last line of JSON.
#[derive(Serialize)]
struct Summary<'a> {
    experiment: &'a str,
    event: &'static str,
    /// Best of XTP to best of TCP over all sizes, the paper's measure: of each path and length, the least.
    best_ratio_min: f64,
    best_ratio_max: f64,
    paper_ethernet: f64,
    paper_fddi: f64,
    /// No path and length is below the paper's best.
    reached: bool,
    /// At 16,384 bytes, sustained: the least over the paths.
    ratio_16384: f64,
    quick: bool,
}

/// What was measured of one transport, size and length: medians of the rounds.
struct Cell {
    path: Path,
    transport: Transport,
    size: usize,
    length: Length,
    rounds: Vec<(u32, f64)>,
}

impl Cell {
    fn speed(&self) -> Option<Speed> {
        Speed::of(self.rounds.iter().map(|(_, mbit_s)| *mbit_s).collect())
    }

    fn mbit_s(&self) -> Option<f64> {
        self.speed().map(|speed| speed.mbit_s)
    }

    fn ratio(&self, other: &Self) -> Option<f64> {
        let of_round = |round| other.rounds.iter().find(|(other, _)| *other == round).map(|(_, mbit_s)| mbit_s);
        median(self.rounds.iter().filter_map(|(round, own)| Some(own / of_round(*round)?)).collect())
    }
}

fn transports() -> [Transport; 3] {
    [Transport::Xtp, Transport::Tcp(Some("cubic".to_owned())), Transport::Udp]
}

/// Runs it.
pub(super) fn run(run: &Run<'_>) -> Result<(), Error> {
    let rounds = run.effort.rounds;
    run.begin("throughput by message size over UDP, TCP and XTP (the XTP paper's tables 3.4 to 3.6)");
    run.say(format_args!(
        "# {rounds}, interleaved; medians; idle adaptive; short: runs of {SHORT} messages, {RUNS} of them a round; udp: a \
         bare loop without repair, the ceiling",
        rounds = count_of(u64::from(rounds), "round")
    ));
    run.say(format_args!(
        "{:<10} {:>7} {:<10} {:<10} {:>10} {:>23} {:>8}",
        "path", "size", "length", "transport", "Mbit/s", "(min .. max)", "xtp/x"
    ));
    let mut paths = vec![Path::Lo];
    if rustix::process::geteuid().is_root() {
        paths.push(Path::Veth1500);
    } else {
        run.output.warn("virtual Ethernet is left out: it needs root");
    }
    let sizes = if run.effort.quick { &SIZES[4..] } else { &SIZES[..] };
    let bar = progress(paths.len() * sizes.len() * 3 * 2 * rounds as usize);
    let mut cells: Vec<Cell> = Vec::new();
    for path in paths {
        let network = Network::new(path)?;
        for &size in sizes {
            for length in [Length::Short, Length::Sustained] {
                let of_size = one_size(run, &network, (path, size, length), &bar)?;
                bar.suspend(|| print(run, &of_size));
                cells.extend(of_size);
            }
        }
    }
    bar.finish_and_clear();
    summarize(run, &cells)?;
    run.draw(&figure(&cells))
}

/// All transports over one path with one size.
fn one_size(
    run: &Run<'_>,
    network: &Network,
    (path, size, length): (Path, usize, Length),
    bar: &indicatif::ProgressBar,
) -> Result<Vec<Cell>, Error> {
    let depth = (IN_FLIGHT / size).clamp(2, 512);
    let job = |transport: &Transport| Job { depth, ..Job::new(transport, size, IdleChoice::Adaptive, path) };
    let cell = |transport, rounds| Cell { path, transport, size, length, rounds };
    if length == Length::Sustained {
        let mut rows: Vec<_> = transports().iter().map(|one| Row::new(one.to_string(), job(one))).collect();
        measure(run, network, &mut rows, bar)?;
        return Ok(rows.into_iter().map(|row| cell(row.job.transport.clone(), row.rounds())).collect());
    }
    let mut cells: Vec<Cell> = transports().into_iter().map(|transport| cell(transport, Vec::new())).collect();
    for round in 1..=run.effort.rounds {
        for cell in &mut cells {
            bar.set_message(format!("{}, {size} bytes, round {round}", cell.transport));
            match short(network, &job(&cell.transport)) {
                Ok(mbit_s) => cell.rounds.push((round, mbit_s)),
                Err(trouble) => {
                    let failure = trouble.of_transport()?;
                    bar.suspend(|| {
                        run.output.warn(format_args!("{}, {size} bytes: {}", cell.transport, failure.why()));
                    });
                }
            }
            bar.inc(1);
        }
    }
    Ok(cells)
}

/// Short runs of one pair: the median.
fn short(network: &Network, job: &Job) -> Result<f64, Trouble> {
    let mut pair = Pair::start(network, job, Role::Receiver, Role::Sender)?;
    let mut speeds = Vec::with_capacity(RUNS);
    for run in 0..WARM_UP + RUNS {
        let (receiver, _) = pair.run(SHORT)?;
        if run >= WARM_UP {
            speeds.push(SHORT as f64 * job.size as f64 * 8.0 / 1e6 / receiver.seconds);
        }
    }
    Ok(median(speeds).unwrap_or(0.0))
}

fn is_tcp(cell: &Cell) -> bool {
    matches!(cell.transport, Transport::Tcp(_))
}

fn print(run: &Run<'_>, cells: &[Cell]) {
    let xtp = cells.iter().find(|cell| cell.transport == Transport::Xtp);
    for cell in cells {
        let Some(speed) = cell.speed() else { continue };
        let is_xtp = cell.transport == Transport::Xtp;
        let line = Line {
            event: "row",
            experiment: run.name,
            transport: &cell.transport,
            path: cell.path.to_string(),
            size: cell.size,
            length: cell.length,
            messages: (cell.length == Length::Short).then_some(SHORT),
            speed,
            xtp_ratio: xtp.filter(|_| !is_xtp).and_then(|xtp| xtp.ratio(cell)),
            rounds: cell.rounds.len(),
        };
        let text = format!(
            "{:<10} {:>7} {:<10} {:<10} {:>10.0} {:>23} {:>8}",
            line.path,
            line.size,
            if cell.length == Length::Short { "short" } else { "sustained" },
            cell.transport.to_string(),
            speed.mbit_s,
            speed.range(0),
            ratio(line.xtp_ratio),
        );
        run.output.result(text, &line);
    }
}

/// The paper's measure: the best of all sizes of XTP to that of TCP.
fn best_ratio(cells: &[Cell], path: Path, length: Length) -> Option<f64> {
    let best = |is: &dyn Fn(&Cell) -> bool| {
        let chosen = cells.iter().filter(|cell| cell.path == path && cell.length == length && is(cell));
        chosen
            .filter_map(Cell::mbit_s)
            .fold(None, |best: Option<f64>, one| Some(best.map_or(one, |best| best.max(one))))
    };
    Some(best(&|cell| cell.transport == Transport::Xtp)? / best(&is_tcp)?)
}

fn summarize(run: &Run<'_>, cells: &[Cell]) -> Result<(), Error> {
    let kinds = [Path::Lo, Path::Veth1500]
        .into_iter()
        .flat_map(|path| [Length::Short, Length::Sustained].into_iter().map(move |length| (path, length)));
    let ratios: Vec<f64> = kinds.filter_map(|(path, length)| best_ratio(cells, path, length)).collect();
    if ratios.is_empty() {
        return Err(Error::failed("nothing could be compared with TCP cubic"));
    }
    let large = |cell: &&Cell| cell.size == 16_384 && cell.length == Length::Sustained;
    let ratio_16384 = [Path::Lo, Path::Veth1500]
        .into_iter()
        .filter_map(|path| {
            let xtp = cells.iter().filter(large).find(|cell| cell.path == path && cell.transport == Transport::Xtp)?;
            xtp.ratio(cells.iter().filter(large).find(|cell| cell.path == path && is_tcp(cell))?)
        })
        .fold(f64::INFINITY, f64::min);
    let (best_ratio_min, best_ratio_max) = span(ratios.into_iter());
    let summary = Summary {
        experiment: run.name,
        event: "summary",
        best_ratio_min,
        best_ratio_max,
        paper_ethernet: PAPER.0,
        paper_fddi: PAPER.1,
        reached: best_ratio_min >= PAPER.1,
        ratio_16384,
        quick: run.effort.quick,
    };
    let verdict = if summary.reached { "reached" } else { "not reached everywhere" };
    let text = format!(
        "\nbest of xtp / best of TCP cubic {best_ratio_min:.3} to {best_ratio_max:.3}; at 16,384 bytes, sustained, \
         {ratio_16384:.2}\nthe paper: {} over Ethernet, {} over FDDI ({} against {} Mbit/s): {verdict}",
        PAPER.0, PAPER.1, PAPER_FDDI.0, PAPER_FDDI.1
    );
    run.output.result(text, &summary);
    Ok(())
}

fn figure(cells: &[Cell]) -> Panels {
    let curve = |label: &str, colour: usize, dashed: bool, points: Vec<(f64, f64)>| Curve {
        label: label.to_owned(),
        colour: COLOURS[colour],
        dashed,
        dots: !dashed,
        points,
    };
    let panels = [Path::Lo, Path::Veth1500].into_iter().flat_map(|path| {
        [Length::Short, Length::Sustained].into_iter().filter_map(move |length| {
            let points = |is: &dyn Fn(&Cell) -> bool| -> Vec<(f64, f64)> {
                let chosen = cells.iter().filter(|cell| cell.path == path && cell.length == length && is(cell));
                chosen.filter_map(|cell| Some((cell.size as f64, cell.mbit_s()? / 1000.0))).collect()
            };
            let tcp = points(&is_tcp);
            let best = tcp.iter().map(|(_, speed)| *speed).reduce(f64::max)?;
            let ends = (tcp.first()?.0, tcp.last()?.0);
            let how = if length == Length::Short { format!("{SHORT} messages a run") } else { "sustained".to_owned() };
            Some(Panel {
                title: format!("{path}, {how}"),
                x_name: "bytes of a message".to_owned(),
                y_name: "Gbit/s".to_owned(),
                doubling: true,
                curves: vec![
                    curve("XTP", 0, false, points(&|cell| cell.transport == Transport::Xtp)),
                    curve("TCP cubic", 1, false, tcp),
                    curve("UDP", 4, false, points(&|cell| cell.transport == Transport::Udp)),
                    curve("1.024 x", 3, true, vec![(ends.0, best * PAPER.1), (ends.1, best * PAPER.1)]),
                ],
                dots: Vec::new(),
                mark: None,
            })
        })
    });
    Panels {
        title: "Throughput by message size".to_owned(),
        caption: vec![
            "Medians of rounds in turn. UDP: a bare loop without repair. Dashed: 1.024 times the best of TCP here, the paper's \
             best ratio of XTP to TCP (FDDI)."
                .to_owned(),
        ],
        panels: panels.collect(),
    }
}
