//! Round trips of contenders that take turns: each once a round, with a fresh pair of processes.

use super::Run;
use super::figure::{Curve, Panel};
use super::measure::{Between, Kind};
use crate::exit::Error;
use crate::perf::{IdleChoice, Job, Network, Pair, Role, Trouble, median, progress, span};
use crate::units::ratio;
use indicatif::ProgressBar;

/// Round trips before those that count.
const WARM_UP: u64 = 200;

/// What one round has seen, in us.
#[derive(Clone, Copy, Debug)]
struct Seen {
    round: u32,
    p50: f64,
    p99: f64,
}

/// One row: a contender, and a size over a path.
#[derive(Debug)]
pub(super) struct Cell<K> {
    pub(super) path: String,
    pub(super) idle: IdleChoice,
    pub(super) size: usize,
    pub(super) kind: K,
    job: Job,
    rounds: Vec<Seen>,
    left_out: bool,
}

impl<K: Kind> Cell<K> {
    fn new(between: &Between, idle: IdleChoice, size: usize, kind: K) -> Self {
        let (path, job) = (between.name.clone(), kind.job(size, idle, between.path));
        Self { path, idle, size, kind, job, rounds: Vec::new(), left_out: false }
    }

    /// The row of the table, with `share` of the round trips, whose median is `p50`.
    pub(super) fn text(&self, p50: f64, share: f64, times_tcp: Option<f64>) -> String {
        let (least, most) = self.spread();
        format!(
            "{:<9} {:<6} {:>6}  {:<12} {:>8.1} {:>19} {:>9.1} {:>7}",
            self.path,
            self.idle.to_string(),
            self.size,
            self.kind.name(),
            p50 * share,
            format!("({:.1} .. {:.1})", least * share, most * share),
            self.p99().unwrap_or(0.0) * share,
            ratio(times_tcp),
        )
    }

    /// The median of the rounds' medians; `None` if nothing was measured.
    pub(super) fn p50(&self) -> Option<f64> {
        median(self.rounds.iter().map(|seen| seen.p50).collect())
    }

    /// The median of the rounds' 99th percentiles.
    pub(super) fn p99(&self) -> Option<f64> {
        median(self.rounds.iter().map(|seen| seen.p99).collect())
    }

    /// The least and the most of the rounds' medians.
    pub(super) fn spread(&self) -> (f64, f64) {
        span(self.rounds.iter().map(|seen| seen.p50))
    }

    /// Rounds that were measured.
    pub(super) fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// How many times the median of `other` this one's is: the median of the rounds' ratios.
    pub(super) fn ratio(&self, other: &Self) -> Option<f64> {
        let of_round = |round| other.rounds.iter().find(|seen| seen.round == round).map(|seen| seen.p50);
        median(self.rounds.iter().filter_map(|own| Some(own.p50 / of_round(own.round)?)).collect())
    }

    /// Whether the other was measured under the same circumstances.
    fn is_twin(&self, other: &Self) -> bool {
        (&self.path, self.idle, self.size) == (&other.path, other.idle, other.size)
    }
}

/// How many times the median of TCP those of `own` are: the least and the most of all rows.
pub(super) fn ratios<K: Kind>(cells: &[Cell<K>], own: K, is_tcp: impl Fn(K) -> bool) -> Result<(f64, f64), Error> {
    let of_tcp = |cell: &Cell<K>| cells.iter().find(|tcp| is_tcp(tcp.kind) && cell.is_twin(tcp));
    let own = cells.iter().filter(|cell| cell.kind == own);
    let ratios: Vec<f64> = own.filter_map(|cell| cell.ratio(of_tcp(cell)?)).collect();
    if ratios.is_empty() {
        return Err(Error::failed("nothing could be compared with TCP"));
    }
    Ok(span(ratios.into_iter()))
}

/// A panel for each path and way to wait, with `share` of the median round trip of each contender by size.
pub(super) fn panels<K: Kind>(
    cells: &[Cell<K>],
    kinds: &[K],
    (y_name, share): (&str, f64),
    is_dashed: impl Fn(K) -> bool,
) -> Vec<Panel> {
    let mut circumstances: Vec<(&str, IdleChoice)> = cells.iter().map(|cell| (cell.path.as_str(), cell.idle)).collect();
    circumstances.dedup();
    let curve = |path: &str, idle: IdleChoice, kind: K| {
        let own = cells.iter().filter(|cell| cell.path == path && cell.idle == idle && cell.kind == kind);
        let points = own.filter_map(|cell| Some((cell.size as f64, cell.p50()? * share))).collect();
        let dashed = is_dashed(kind);
        Curve { label: kind.name(), colour: kind.colour(), dashed, dots: !dashed, points }
    };
    let panel = |(path, idle): (&str, IdleChoice)| Panel {
        title: format!("{path}, {idle}"),
        x_name: "bytes each way".to_owned(),
        y_name: y_name.to_owned(),
        doubling: true,
        curves: kinds.iter().map(|&kind| curve(path, idle, kind)).collect(),
        dots: Vec::new(),
        mark: None,
    };
    circumstances.into_iter().map(panel).collect()
}

/// Measures `kinds` over all these paths, with `count` round trips of each size a round, by threads that spin and by threads
/// that block; `print`s what was seen of each size.
pub(super) fn measure_all<K: Kind>(
    run: &Run<'_>,
    paths: &[Between],
    sizes: &[usize],
    (kinds, count): (&[K], u64),
    print: impl Fn(&[Cell<K>]),
) -> Result<Vec<Cell<K>>, Error> {
    run.say(format_args!(
        "{:<9} {:<6} {:>6}  {:<12} {:>8} {:>19} {:>9} {:>7}",
        "path", "idle", "size", "transport", "p50", "(min .. max)", "p99", "x/tcp"
    ));
    let bar = progress(paths.len() * 2 * sizes.len() * kinds.len() * run.effort.rounds as usize);
    let mut cells: Vec<Cell<K>> = Vec::new();
    for between in paths {
        for idle in [IdleChoice::Spin, IdleChoice::Block] {
            for &size in sizes {
                let mut of_size: Vec<_> = kinds.iter().map(|&kind| Cell::new(between, idle, size, kind)).collect();
                measure(run, &between.network, &mut of_size, count, &bar)?;
                bar.suspend(|| print(&of_size));
                cells.extend(of_size);
            }
        }
    }
    bar.finish_and_clear();
    Ok(cells)
}

/// Measures all cells, in turn, with `count` round trips each.
fn measure<K: Kind>(
    run: &Run<'_>,
    network: &Network,
    cells: &mut [Cell<K>],
    count: u64,
    bar: &ProgressBar,
) -> Result<(), Error> {
    for round in 1..=run.effort.rounds {
        for cell in cells.iter_mut().filter(|cell| !cell.left_out) {
            bar.set_message(format!("{}, {}, {} bytes, round {round}", cell.kind.name(), cell.idle, cell.size));
            match once(network, &cell.job, count) {
                Ok((p50, p99)) => cell.rounds.push(Seen { round, p50, p99 }),
                Err(trouble) => {
                    let failure = trouble.of_transport()?;
                    cell.left_out = cell.rounds.is_empty();
                    bar.suspend(|| run.output.warn(format_args!("{}: {}", cell.kind.name(), failure.why())));
                }
            }
            bar.inc(1);
        }
    }
    Ok(())
}

/// One round: the median and the 99th percentile, in us.
fn once(network: &Network, job: &Job, count: u64) -> Result<(f64, f64), Trouble> {
    let mut pair = Pair::start(network, job, Role::Pong, Role::Ping)?;
    pair.run(WARM_UP)?;
    let times = pair.run(count)?.1.round_trips;
    let at = |share: f64| {
        let (wanted, mut seen) = ((count as f64 * share).ceil() as u64, 0);
        let found = times.iter().find(|(_, often)| {
            seen += often;
            seen >= wanted
        });
        found.map_or(0.0, |(nanoseconds, _)| *nanoseconds as f64 / 1000.0)
    };
    Ok((at(0.5), at(0.99)))
}
