//! E-X4: go-back-N against selective retransmission, which the XTP paper announces and does not do; on the simulator.
//!
//! Always true: both repeat over the very same network, and every byte that arrives is compared with what was sent.

use super::Run;
use super::figure::{Bar, BarCharts, Bars, Group};
use super::measure::Speed;
use crate::exit::Error;
use crate::interrupt;
use crate::perf::{progress, span};
use crate::picture::COLOURS;
use crate::units;
use pinnace_core::{Address, BufferId, ControllerKind, Time};
use pinnace_sim::{Application, HostHandle, HostId, NetworkConfig, Outcome, Simulation};
use pinnace_xtp::{Close, Codec, Config, ControlBlock, Event, Failure, Output, Service, Services, Xtp, XtpCounters};
use serde::Serialize;
use std::time::Duration;

const SERVER: HostId = HostId::new(0);
const CLIENT: HostId = HostId::new(1);
const PORT: u16 = 7;

/// Both ways, but for losses: those are there only, so that what differs is how data are repeated.
const NETWORK: &str = "rate=100mbit,delay=10ms,queue=2bdp";
/// What fills the path, and a quarter of its queue.
const WINDOW: u64 = 375_000;
/// What the link carries beside a packet's user bytes: IP, UDP, XTP.
const RATE: f64 = 100.0;
/// Losses, in percent.
const LOSSES: [f64; 4] = [0.0, 0.1, 1.0, 5.0];
/// Bytes sent.
const BYTES: usize = 10_000_000;
const QUICK_BYTES: usize = 1_000_000;

/// How it repeats, and what bounds the bytes under way.
struct Way {
    name: &'static str,
    go_back_n: bool,
    congestion: ControllerKind,
}

const WAYS: [Way; 4] = [
    Way { name: "selective, fixed", go_back_n: false, congestion: ControllerKind::Fixed { window: WINDOW } },
    Way { name: "go-back-N, fixed", go_back_n: true, congestion: ControllerKind::Fixed { window: WINDOW } },
    Way { name: "selective, bbr", go_back_n: false, congestion: ControllerKind::Bbr },
    Way { name: "go-back-N, bbr", go_back_n: true, congestion: ControllerKind::Bbr },
];

/// What the bytes are: such that none that is missing, twice or elsewhere goes unnoticed.
fn content(at: usize) -> u8 {
    ((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8
}

/// One end.
#[derive(Default)]
struct Program {
    /// What is to be sent.
    output: Option<Vec<u8>>,
    block: ControlBlock,
    context: Option<pinnace_xtp::ContextId>,
    buffer: Option<BufferId>,
    received: usize,
    is_altered: bool,
    /// When the last byte had come.
    complete: Option<Time>,
    closed: Option<Result<(), Failure>>,
}

impl Program {
    fn read(&mut self, now: Time, host: &mut HostHandle<'_, Xtp>, context: pinnace_xtp::ContextId) {
        loop {
            let Some(readable) = host.engine().readable(context) else { return };
            if readable.is_end && self.complete.is_none() {
                self.complete = Some(now);
                let _ = host.call(|engine| engine.close(now, context, Close::Full));
            }
            if readable.len == 0 {
                return;
            }
            for part in readable.parts {
                if part.len == 0 {
                    continue;
                }
                let (low, len) = (part.offset as usize, part.len as usize);
                let bytes = &host.buffer(part.buffer)[low..low + len];
                self.is_altered |= (self.received..).zip(bytes).any(|(at, &byte)| byte != content(at));
                self.received += len;
            }
            host.call(|engine| engine.consume(now, context, readable.len));
        }
    }
}

impl Application<Xtp> for Program {
    fn on_start(&mut self, now: Time, host: &mut HostHandle<'_, Xtp>) {
        let block = self.block.clone();
        let Some(output) = self.output.take() else {
            let _ = host.call(|engine| engine.listen(block, Services::ALL));
            return;
        };
        let len = output.len() as u64;
        let buffer = host.add_buffer(output);
        self.buffer = Some(buffer);
        self.context = host.call(|engine| {
            let context = engine.open(now, Address::Node(SERVER.index()), block).ok()?;
            engine.send(now, context, Output::message(buffer, len)).ok()?;
            engine.close(now, context, Close::Full).ok()?;
            Some(context)
        });
    }

    fn on_event(&mut self, now: Time, event: Event, host: &mut HostHandle<'_, Xtp>) {
        match event {
            Event::Readable { context } => self.read(now, host, context),
            Event::Closed { result, .. } => self.closed = Some(result),
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.closed.is_some()
    }
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Transfer {
    mbit_s: f64,
    counters: XtpCounters,
}

fn simulate(way: &Way, loss: f64, bytes: usize, seed: u64) -> Result<Transfer, Error> {
    interrupt::check()?;
    let wrong = |error| Error::failed(format!("{NETWORK}: {error}"));
    let there = format!("{NETWORK},loss={loss}%").parse::<NetworkConfig>().map_err(wrong)?;
    let back = NETWORK.parse::<NetworkConfig>().map_err(wrong)?;
    let config = |seed| Config { codec: Codec::Xtp40, seed, congestion: way.congestion, ..Config::default() };
    let mut block = ControlBlock::new(Service::Connection);
    block.address_segment.destination_port = PORT;
    block.go_back_n = way.go_back_n;
    // Neither the ring nor the queue is what bounds it.
    (block.rwindow, block.rbufsize, block.wbufsize) = (4 << 20, 4 << 20, bytes as u32);
    // What is lost in a twentieth of the cases is sometimes lost six times in a row.
    block.retry_count = 16;
    let mut simulation: Simulation<Xtp, Program> = Simulation::new(seed);
    let client =
        Program { output: Some((0..bytes).map(content).collect()), block: block.clone(), ..Program::default() };
    simulation.add_host(Xtp::new(config(2 * seed), Time::ZERO), Program { block, ..Program::default() });
    simulation.add_host(Xtp::new(config(2 * seed + 1), Time::ZERO), client);
    simulation.link(CLIENT, SERVER, &there, &back);
    let outcome = simulation.run(Time::ZERO + Duration::from_secs(600));
    let (server, client) = (simulation.application(SERVER), simulation.application(CLIENT));
    let arrived = server.received == bytes && !server.is_altered && client.closed == Some(Ok(()));
    let Some(complete) = server.complete.filter(|_| arrived) else {
        return Err(Error::not_verified(format!(
            "{} over {loss} % loss, seed {seed}: {} of {bytes} bytes arrived, {:?}, {outcome:?}",
            way.name, server.received, client.closed
        )));
    };
    debug_assert_eq!(outcome, Outcome::Done);
    let seconds = complete.since(Time::ZERO).as_secs_f64();
    Ok(Transfer { mbit_s: bytes as f64 * 8.0 / 1e6 / seconds, counters: simulation.engine(CLIENT).counters() })
}

/// One row as JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    experiment: &'a str,
    name: &'a str,
    go_back_n: bool,
    congestion: String,
    network: &'a str,
    loss: f64,
    bytes: usize,
    seeds: u32,
    #[serde(flatten)]
    speed: Speed,
    /// The throughput of selective retransmission with the same control, divided by this one.
    selective_ratio: Option<f64>,
    packets_sent: u64,
    packets_resent: u64,
    /// Packets sent again, of all that were sent.
    share_resent: f64,
    timeouts: u64,
}

/// The last line of JSON.
#[derive(Serialize)]
struct Summary<'a> {
    experiment: &'a str,
    event: &'static str,
    /// Selective retransmission against go-back-N where anything is lost, over all rows.
    ratio_min: f64,
    ratio_max: f64,
    paper: Option<f64>,
    /// Selective retransmission is nowhere slower.
    reached: bool,
    quick: bool,
}

/// The runs of one way over one loss.
struct Row {
    transfers: Vec<Transfer>,
}

impl Row {
    fn speed(&self) -> Option<Speed> {
        Speed::of(self.transfers.iter().map(|transfer| transfer.mbit_s).collect())
    }

    fn mbit_s(&self) -> f64 {
        self.speed().map_or(0.0, |speed| speed.mbit_s)
    }

    fn sum(&self, of: fn(&XtpCounters) -> u64) -> u64 {
        self.transfers.iter().map(|transfer| of(&transfer.counters)).sum()
    }

    fn resent(&self) -> f64 {
        self.sum(|of| of.data_packets_resent) as f64 / self.sum(|of| of.data_packets_sent).max(1) as f64
    }
}

/// Runs it.
pub(super) fn run(run: &Run<'_>) -> Result<(), Error> {
    let seeds = run.effort.rounds;
    let bytes = if run.effort.quick { QUICK_BYTES } else { BYTES };
    run.begin(&format!("go-back-N against selective retransmission, {} MB on the simulator", bytes / 1_000_000));
    run.say(format_args!(
        "# {NETWORK}; losses towards the receiver; {seeds} seeds, medians; fixed: {WINDOW} bytes under way at most, no \
         congestion control (the paper's behaviour)"
    ));
    run.say(format_args!(
        "{:>7}  {:<18} {:>8} {:>19} {:>12} {:>9} {:>9}",
        "loss", "repeats", "Mbit/s", "(min .. max)", "selective/x", "resent", "time-outs"
    ));
    let bar = progress(LOSSES.len() * WAYS.len() * seeds as usize);
    let mut table: Vec<Vec<Row>> = Vec::new();
    for loss in LOSSES {
        let mut rows = Vec::new();
        for way in &WAYS {
            bar.set_message(format!("{}, {loss} %", way.name));
            let mut transfers = Vec::new();
            for seed in 1..=u64::from(seeds) {
                transfers.push(simulate(way, loss, bytes, seed)?);
                bar.inc(1);
            }
            rows.push(Row { transfers });
        }
        bar.suspend(|| print(run, loss, bytes, &rows));
        table.push(rows);
    }
    bar.finish_and_clear();
    let lossy = || table.iter().zip(LOSSES).filter(|(_, loss)| *loss > 0.0);
    let ratios: Vec<f64> = lossy().flat_map(|(rows, _)| [ratio(rows, 1), ratio(rows, 3)]).flatten().collect();
    let (ratio_min, ratio_max) = span(ratios.into_iter());
    let summary = Summary {
        experiment: run.name,
        event: "summary",
        ratio_min,
        ratio_max,
        paper: None,
        reached: ratio_min >= 1.0,
        quick: run.effort.quick,
    };
    let verdict =
        if summary.reached { "selective retransmission is nowhere slower" } else { "go-back-N is faster somewhere" };
    let text = format!(
        "\nselective / go-back-N {ratio_min:.2} to {ratio_max:.2}: {verdict}\nthe paper announces this comparison and has no \
         numbers"
    );
    run.output.result(text, &summary);
    run.draw(&figure(&table, bytes))
}

/// How many times the throughput of this way its selective counterpart has; `None` of a selective one.
fn ratio(rows: &[Row], way: usize) -> Option<f64> {
    WAYS[way].go_back_n.then(|| rows[way - 1].mbit_s() / rows[way].mbit_s())
}

fn print(run: &Run<'_>, loss: f64, bytes: usize, rows: &[Row]) {
    for (index, (way, row)) in WAYS.iter().zip(rows).enumerate() {
        let Some(speed) = row.speed() else { continue };
        let line = Line {
            event: "row",
            experiment: run.name,
            name: way.name,
            go_back_n: way.go_back_n,
            congestion: way.congestion.to_string(),
            network: NETWORK,
            loss: loss / 100.0,
            bytes,
            seeds: run.effort.rounds,
            speed,
            selective_ratio: ratio(rows, index),
            packets_sent: row.sum(|of| of.data_packets_sent),
            packets_resent: row.sum(|of| of.data_packets_resent),
            share_resent: row.resent(),
            timeouts: row.sum(|of| of.timeouts),
        };
        let text = format!(
            "{:>7}  {:<18} {:>8.1} {:>19} {:>12} {:>9} {:>9}",
            format!("{loss} %"),
            way.name,
            speed.mbit_s,
            speed.range(1),
            units::ratio(line.selective_ratio),
            format!("{:.2} %", line.share_resent * 100.0),
            line.timeouts,
        );
        run.output.result(text, &line);
    }
}

fn figure(table: &[Vec<Row>], bytes: usize) -> BarCharts {
    let groups = table.iter().zip(LOSSES).map(|(rows, loss)| Group {
        name: vec![
            format!("{loss} % lost"),
            format!("fixed: {:.1} / {:.0} % resent", rows[0].resent() * 100.0, rows[1].resent() * 100.0),
            format!("bbr: {:.1} / {:.0} % resent", rows[2].resent() * 100.0, rows[3].resent() * 100.0),
        ],
        bars: (0..WAYS.len())
            .map(|series| Bar { series, value: rows[series].mbit_s(), label: format!("{:.0}", rows[series].mbit_s()) })
            .collect(),
    });
    BarCharts {
        title: "Go-back-N and selective retransmission".to_owned(),
        caption: format!(
            "XTP on a simulated link of 100 Mbit/s, 20 ms; {} MB, medians. Resent: of the packets sent, selective / go-back-N.",
            bytes / 1_000_000
        ),
        charts: vec![Bars {
            y_name: "Mbit/s".to_owned(),
            top: Some(RATE),
            series: WAYS.iter().map(|way| way.name.to_owned()).zip(COLOURS).collect(),
            groups: groups.collect(),
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= X-13 test
    #[test]
    fn what_is_repeated_is_the_same_every_time_and_go_back_n_repeats_more() {
        for way in WAYS.chunks(2) {
            let [selective, all] = [0, 1].map(|at| simulate(&way[at], 1.0, 1_000_000, 3).unwrap());
            assert_eq!(selective, simulate(&way[0], 1.0, 1_000_000, 3).unwrap());
            assert!(selective.counters.data_packets_resent > 0);
            assert!(all.counters.data_packets_resent > 2 * selective.counters.data_packets_resent, "{all:?}");
        }
    }
}
