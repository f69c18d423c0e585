//! E-V1 and E-V2: frames of 100 kB over paths like those of the paper's table 1, VRP against the kernel's TCP.
//!
//! The paper's paths were the Internet of 1999 between California, Chicago and Lyon. What is known of them is the distance
//! and what TCP reached; the emulated ones have such distances, rates on both sides of the paper's, and losses of half a
//! percent to five, in both directions.

use super::Run;
use super::figure::{Bar, Bars, Dotted, Group, Ratios, Sides};
use super::measure::{Effort, Row, Speed, Taken, measure, wan_job};
use crate::exit::Error;
use crate::perf::{Network, Repeats, Transport, progress};
use crate::picture::COLOURS;
use crate::units::{count_of, percent, ratio};
use crate::vrp::ContractArgs;
use crate::wan::{self, Report};
use serde::Serialize;

/// Bytes of a frame.
const FRAME: usize = 100_000;

/// What is asked.
pub(super) struct Question {
    title: &'static str,
    /// The share that may be lost; then also 4 kB in a row, and nothing of the first kilobyte.
    loss_rate: Option<f64>,
    /// How many times TCP's throughput the paper had, at least and at most.
    paper: (f64, f64),
    /// The share that the paper lost.
    paper_loss: f64,
}

/// E-V1.
pub(super) const CONTRACT: Question = Question {
    title: "Frames of 100 kB, 25 % and 4 kB in a row may be lost",
    loss_rate: Some(0.25),
    paper: (2.34, 10.27),
    paper_loss: 0.1,
};
/// E-V2.
pub(super) const RELIABLE: Question =
    Question { title: "Frames of 100 kB, nothing may be lost", loss_rate: None, paper: (1.5, 8.0), paper_loss: 0.0 };

impl Question {
    fn contract(&self) -> ContractArgs {
        let reliable = ContractArgs::default();
        match self.loss_rate {
            None => reliable,
            some => {
                let critical = std::iter::once(0..1000).collect();
                ContractArgs { loss_rate: some, run: Some(4000), critical, ..reliable }
            }
        }
    }
}

/// A path: Mbit/s, round trip in ms, loss in percent.
struct Path(u32, u32, f64);

const PATHS: [Path; 6] = [
    Path(10, 60, 1.0),
    Path(10, 60, 2.0),
    Path(45, 60, 1.0),
    Path(100, 100, 0.5),
    Path(45, 160, 2.0),
    Path(10, 160, 5.0),
];
/// Of these, what a quick run takes.
const QUICK: [usize; 2] = [0, 2];

impl Path {
    fn config(&self) -> Result<wan::Config, Error> {
        let Self(rate, rtt, loss) = self;
        format!("rate={rate}mbit,rtt={rtt}ms,loss={loss}%").parse().map_err(Error::failed)
    }

    fn lines(&self) -> [String; 2] {
        let Self(rate, rtt, loss) = self;
        [format!("{rate} Mbit/s, {rtt} ms"), format!("{loss} % loss")]
    }
}

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
    /// The throughput's share of the link's rate.
    link_share: f64,
    /// VRP's throughput, divided by this one: the median of the rounds' ratios.
    vrp_ratio: Option<f64>,
    /// Packets lost for good, with permission, of all packets of the frames delivered.
    loss: Option<f64>,
    longest_run_packets: Option<u32>,
    #[serde(flatten)]
    repeats: Option<Repeats>,
    #[serde(flatten)]
    taken: Taken,
    in_flight: usize,
}

/// What the emulator did on one path, for all transports together, as JSON.
#[derive(Serialize)]
struct LinkLine<'a> {
    event: &'static str,
    experiment: &'a str,
    path: &'a str,
    link: &'a Report,
}

/// The last line of JSON.
#[derive(Serialize)]
struct Summary<'a> {
    experiment: &'a str,
    event: &'static str,
    paths: usize,
    /// Of VRP's throughput to that of TCP cubic, over the paths.
    ratio_min: f64,
    ratio_max: f64,
    /// The same to TCP bbr, where the host has it.
    ratio_bbr_min: Option<f64>,
    ratio_bbr_max: Option<f64>,
    paper_ratio_min: f64,
    paper_ratio_max: f64,
    loss_max: f64,
    paper_loss: f64,
    /// No ratio is below the paper's least one.
    reached: bool,
    quick: bool,
}

/// Runs either.
pub(super) fn run(run: &Run<'_>, question: &Question) -> Result<(), Error> {
    let contract = question.contract();
    let paths: Vec<&Path> = match run.effort.quick {
        true => QUICK.iter().map(|&index| &PATHS[index]).collect(),
        false => PATHS.iter().collect(),
    };
    let Effort { rounds, .. } = run.effort;
    run.begin(&format!("frames of 100 kB over emulated links; vrp contract: {contract}"));
    run.say(format_args!(
        "# {rounds}, interleaved; medians; vrp/x: times the throughput of x; losses in both directions",
        rounds = count_of(u64::from(rounds), "round")
    ));
    run.say(format_args!(
        "{:<36} {:<10} {:>8} {:>19} {:>8} {:>8} {:>8} {:>8}",
        "path", "transport", "Mbit/s", "(min .. max)", "of link", "vrp/x", "lost", "resent"
    ));
    let transports = [Transport::Vrp, tcp("cubic"), tcp("bbr")];
    let bar = progress(paths.len() * transports.len() * rounds as usize);
    let mut results: Vec<(&Path, Vec<Row>)> = Vec::new();
    for path in paths {
        let config = path.config()?;
        let name = config.to_string();
        let mut network = Network::over(&config)?;
        // As in `pinnace perf`: a frame is announced, sent and repaired, several round trips, all of them filled.
        let in_flight = (config.window_bytes() as usize * 4).clamp(1 << 20, 64 << 20);
        let mut rows: Vec<Row> = transports
            .iter()
            .map(|transport| {
                let mut job = wan_job(transport, FRAME, (in_flight / FRAME).max(2));
                if *transport == Transport::Vrp {
                    job.contract = contract.clone();
                }
                Row::new(transport.to_string(), job)
            })
            .collect();
        measure(run, &network, &mut rows, &bar)?;
        let report = network.finish_emulator().transpose().map_err(Error::failed)?;
        bar.suspend(|| print(run, path, &format!("wan:{name}"), &rows, report.as_ref()));
        results.push((path, rows));
    }
    bar.finish_and_clear();
    let summary = summary(run, question, &results)?;
    let verdict = if summary.reached { "reached" } else { "not reached" };
    let bbr = match (summary.ratio_bbr_min, summary.ratio_bbr_max) {
        (Some(low), Some(high)) => format!("; / TCP bbr {low:.2} to {high:.2}"),
        _ => String::new(),
    };
    run.output.result(
        format_args!(
            "\nvrp / TCP cubic {:.2} to {:.2}{bbr}; lost for good {:.1} % at most\nthe paper: vrp / TCP {} to {}, lost for \
             good {} %: {verdict}",
            summary.ratio_min,
            summary.ratio_max,
            summary.loss_max * 100.0,
            question.paper.0,
            question.paper.1,
            question.paper_loss * 100.0,
        ),
        &summary,
    );
    run.draw(&figure(question, &results))
}

fn tcp(congestion: &str) -> Transport {
    Transport::Tcp(Some(congestion.to_owned()))
}

fn print(run: &Run<'_>, path: &Path, name: &str, rows: &[Row], report: Option<&Report>) {
    let link = f64::from(path.0);
    for row in rows {
        let Some(speed) = row.speed() else { continue };
        let is_vrp = row.job.transport == Transport::Vrp;
        let vrp_ratio = rows.first().filter(|_| !is_vrp).and_then(|vrp| vrp.ratio(row));
        let text = format!(
            "{:<36} {:<10} {:>8.2} {:>19} {:>6.1} % {:>8} {:>8} {:>8}",
            name,
            row.label,
            speed.mbit_s,
            speed.range(2),
            speed.mbit_s / link * 100.0,
            ratio(vrp_ratio),
            percent(row.loss()),
            percent(row.resent()),
        );
        let line = Line {
            event: "row",
            experiment: run.name,
            transport: &row.job.transport,
            path: name,
            size: FRAME,
            contract: is_vrp.then(|| row.job.contract.to_string()),
            speed,
            link_share: speed.mbit_s / link,
            vrp_ratio,
            loss: row.loss(),
            longest_run_packets: row.longest_run(),
            repeats: row.repeats(),
            taken: row.taken(),
            in_flight: row.job.depth,
        };
        run.output.result(text, &line);
    }
    if let Some(link) = report {
        if run.output.json {
            run.output.result("", &LinkLine { event: "link", experiment: run.name, path: name, link });
        }
        for line in link.lines() {
            run.output.note(line);
        }
    }
}

fn summary<'a>(run: &Run<'a>, question: &Question, results: &[(&Path, Vec<Row>)]) -> Result<Summary<'a>, Error> {
    // To which transport: the smallest and the largest ratio.
    let range = |other: usize| {
        let ratios = results.iter().filter_map(|(_, rows)| rows[0].ratio(&rows[other]));
        ratios.fold(None, |range: Option<(f64, f64)>, ratio| {
            Some(range.map_or((ratio, ratio), |(low, high)| (low.min(ratio), high.max(ratio))))
        })
    };
    let (ratio_min, ratio_max) = range(1).ok_or_else(|| Error::failed("nothing could be compared with TCP cubic"))?;
    let bbr = range(2);
    Ok(Summary {
        experiment: run.name,
        event: "summary",
        paths: results.len(),
        ratio_min,
        ratio_max,
        ratio_bbr_min: bbr.map(|(low, _)| low),
        ratio_bbr_max: bbr.map(|(_, high)| high),
        paper_ratio_min: question.paper.0,
        paper_ratio_max: question.paper.1,
        loss_max: results.iter().filter_map(|(_, rows)| rows[0].loss()).fold(0.0, f64::max),
        paper_loss: question.paper_loss,
        reached: ratio_min >= question.paper.0,
        quick: run.effort.quick,
    })
}

fn figure(question: &Question, results: &[(&Path, Vec<Row>)]) -> Sides {
    let names = ["VRP", "TCP cubic", "TCP bbr"];
    let groups = results.iter().map(|(path, rows)| {
        let bars = rows.iter().enumerate().filter_map(|(index, row)| {
            let value = row.mbit_s()? / f64::from(path.0) * 100.0;
            let label = if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") };
            Some(Bar { series: index, value, label })
        });
        Group { name: path.lines().to_vec(), bars: bars.collect() }
    });
    let ratios = results.iter().map(|(path, rows)| {
        let of = |other: usize| rows[0].ratio(&rows[other]).map(|ratio| (other, ratio));
        Dotted { name: path.lines().to_vec(), ratios: [of(1), of(2)].into_iter().flatten().collect() }
    });
    let (low, high) = question.paper;
    Sides {
        title: question.title.to_owned(),
        caption: "Emulated links, losses in both directions; medians of rounds in turn.".to_owned(),
        bars: Bars {
            y_name: "throughput, % of the link's rate".to_owned(),
            top: Some(100.0),
            series: names.iter().zip(COLOURS).map(|(name, colour)| ((*name).to_owned(), colour)).collect(),
            groups: groups.collect(),
        },
        ratios: Ratios {
            y_name: "VRP's throughput / TCP's".to_owned(),
            series: names.iter().zip(COLOURS).map(|(name, colour)| (format!("VRP / {name}"), colour)).collect(),
            groups: ratios.collect(),
            band: (low, high),
            band_name: format!("the paper: {low} to {high}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_one_that_the_emulator_takes() {
        for path in &PATHS {
            let config = path.config().unwrap();
            assert_eq!(config.rtt().as_millis(), u128::from(path.1));
        }
        assert!(CONTRACT.contract().contract(FRAME as u64).unwrap().allows_loss());
        assert!(!RELIABLE.contract().contract(FRAME as u64).unwrap().allows_loss());
    }
}
