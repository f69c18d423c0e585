//! E-V4: how the time-out follows the round trip, over 3000 packets (the paper's figure 11); and how many of the packets
//! whose time-out expired were not lost.
//!
//! On the simulator: nothing but the path moves the round trip, the same in every run, and what was lost is known
//! ([`Verdicts`]). Where acknowledgements can be lost, too, the sender cannot know better; so there are networks that lose
//! none. Nothing may be lost for good, so that every loss is repaired.

use super::Run;
use super::figure::{Curve, Dots, Panel, Panels};
use super::verdicts::{Verdicts, describe};
use crate::exit::Error;
use crate::interrupt;
use crate::numbers::share;
use crate::perf::span;
use crate::picture::COLOURS;
use core::time::Duration;
use pinnace_core::{BufferId, ControllerKind, Time};
use pinnace_sim::{Application, HostHandle, HostId, NetworkConfig, Outcome, Simulation};
use pinnace_vrp::{Config, Event, FrameSpec, Incoming, Outgoing, OutgoingCounters, Vrp};
use plotters::prelude::RGBColor;
use serde::Serialize;

pub(super) const SOURCE: HostId = HostId::new(0);
pub(super) const SINK: HostId = HostId::new(1);
/// Packets sent for the first time, in one run.
const PACKETS: u64 = 3000;
/// Bytes of a frame: 35 packets.
const FRAME: usize = 50_000;
/// The bar: packets whose time-out expired and that were not lost.
const PAPER: f64 = 0.01;

/// A network, and what sends on it.
struct Setting {
    name: &'static str,
    /// Both ways, but for losses.
    network: &'static str,
    /// Losses from the source to the sink, and back.
    losses: [&'static str; 2],
    congestion: ControllerKind,
}

const WAN: &str = "rate=10mbit,delay=30ms,jitter=10ms,queue=1bdp";

/// The first one is drawn. Where no acknowledgement is lost, a packet that arrives twice was repeated too early.
const SETTINGS: [Setting; 4] = [
    Setting { name: "WAN", network: WAN, losses: ["2%", "0%"], congestion: ControllerKind::Bbr },
    Setting {
        name: "WAN, fixed window",
        network: WAN,
        losses: ["2%", "0%"],
        congestion: ControllerKind::Fixed { window: 96 << 10 },
    },
    Setting {
        name: "LAN",
        network: "rate=100mbit,delay=500us,jitter=100us,queue=262144",
        losses: ["2%", "0%"],
        congestion: ControllerKind::Bbr,
    },
    Setting { name: "WAN, both ways", network: WAN, losses: ["2%", "2%"], congestion: ControllerKind::Bbr },
];

/// One end.
enum Program {
    Source { buffer: Option<BufferId>, left: u64, under_way: usize },
    Sink,
}

impl Program {
    fn fill(&mut self, now: Time, host: &mut HostHandle<'_, Vrp>) {
        let Self::Source { buffer: Some(buffer), left, under_way } = self else { return };
        while *left > 0 && *under_way < 8 {
            let spec = FrameSpec::new(*buffer, FRAME as u64);
            let sent = host.call(|engine| engine.as_outgoing().is_some_and(|out| out.send(now, spec).is_ok()));
            if !sent {
                return;
            }
            (*left, *under_way) = (*left - 1, *under_way + 1);
        }
    }
}

impl Application<Vrp> for Program {
    fn on_start(&mut self, now: Time, host: &mut HostHandle<'_, Vrp>) {
        if let Self::Source { buffer, .. } = self {
            *buffer = Some(host.add_buffer(vec![7; FRAME]));
        }
        self.fill(now, host);
    }

    fn on_event(&mut self, now: Time, event: Event, host: &mut HostHandle<'_, Vrp>) {
        match (&mut *self, event) {
            (Self::Source { under_way, .. }, Event::Sent { .. }) => {
                *under_way -= 1;
                self.fill(now, host);
            }
            (Self::Sink, Event::Received(delivery)) => {
                host.take_buffer(delivery.buffer);
                host.call(|engine| {
                    if let Some(incoming) = engine.as_incoming() {
                        incoming.release(delivery.id);
                    }
                });
            }
            _ => {}
        }
    }
}

/// What the sender believed when it had sent so many packets.
#[derive(Clone, Copy, Debug, Serialize)]
struct Sample {
    packet: u64,
    rtt_ms: f64,
    timeout_ms: f64,
}

/// One run.
struct Evolution {
    samples: Vec<Sample>,
    /// Packets sent, and the time-out, whenever packets had expired.
    expired: Vec<(u64, f64)>,
    counters: OutgoingCounters,
    verdicts: Verdicts,
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn simulate(setting: &Setting, seed: u64) -> Result<Evolution, Error> {
    interrupt::check()?;
    let network = |loss| format!("{},loss={loss}", setting.network).parse::<NetworkConfig>();
    let wrong = |error| Error::failed(format!("{}: {error}", setting.network));
    let [there, back] = setting.losses.map(network);
    let (there, back) = (there.map_err(wrong)?, back.map_err(wrong)?);
    let config = Config { congestion: setting.congestion, seed, ..Config::default() };
    let frames = (PACKETS * u64::from(config.packet_bytes)).div_ceil(FRAME as u64);
    let mut simulation: Simulation<Vrp, Program> = Simulation::new(seed);
    let source = Program::Source { buffer: None, left: frames, under_way: 0 };
    simulation.add_host(Vrp::outgoing(Outgoing::new(config.clone(), Time::ZERO)), source);
    simulation.add_host(Vrp::incoming(Incoming::new(config, Time::ZERO)), Program::Sink);
    simulation.link(SOURCE, SINK, &there, &back);
    simulation.trace_mut().set_formatter(describe);
    simulation.trace_mut().set_limit(1 << 20);

    let mut evolution = Evolution {
        samples: Vec::new(),
        expired: Vec::new(),
        counters: OutgoingCounters::default(),
        verdicts: Verdicts::default(),
    };
    let deadline = Time::ZERO + Duration::from_secs(600);
    let is_over = |outgoing: &Outgoing| outgoing.frames_under_way() == 0 && outgoing.counters().frames_sent >= frames;
    let mut last_timeout = Duration::ZERO;
    loop {
        let (before, timeout) = (evolution.counters, last_timeout);
        let outcome = simulation.run_until(deadline, |simulation| {
            let Vrp::Outgoing(outgoing) = simulation.engine(SOURCE) else { return true };
            let now = outgoing.counters();
            first_time(&now) > first_time(&before)
                || outgoing.timeout() != timeout
                || now.packets_timed_out > before.packets_timed_out
                || is_over(outgoing)
        });
        let Vrp::Outgoing(outgoing) = simulation.engine(SOURCE) else { break };
        let now = outgoing.counters();
        last_timeout = outgoing.timeout();
        let timeout_ms = milliseconds(last_timeout);
        if let Some(rtt) = outgoing.round_trip() {
            let packet = first_time(&now);
            evolution.samples.push(Sample { packet, rtt_ms: milliseconds(rtt), timeout_ms });
            if now.packets_timed_out > before.packets_timed_out {
                evolution.expired.push((packet, timeout_ms));
            }
        }
        evolution.counters = now;
        if is_over(outgoing) {
            // What is still on its way may arrive for the second time.
            simulation.run_for(Duration::from_secs(1));
            break;
        }
        if outcome != Outcome::Done {
            return Err(Error::failed(format!("the simulation of {} ended early: {outcome:?}", setting.network)));
        }
    }
    if let Vrp::Outgoing(outgoing) = simulation.engine(SOURCE) {
        evolution.counters = outgoing.counters();
    }
    evolution.verdicts = Verdicts::of(simulation.trace());
    Ok(evolution)
}

/// Packets sent for the first time.
fn first_time(counters: &OutgoingCounters) -> u64 {
    counters.packets_sent - counters.packets_resent
}

/// One setting as JSON: sums over all seeds.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    experiment: &'a str,
    name: &'a str,
    network: &'a str,
    /// From the source to the sink, and back.
    losses: [&'a str; 2],
    congestion: String,
    seeds: u32,
    packets: u64,
    packets_sent: u64,
    packets_resent: u64,
    packets_nacked: u64,
    packets_timed_out: u64,
    /// Packets sent again that no NACK had asked for.
    expired: u64,
    /// Of those, packets of which an earlier copy arrived.
    not_lost: u64,
    /// Packets that arrived once more, whoever asked for them.
    duplicates: u64,
    /// What the sender could see of the packets that were not lost.
    timeouts_spurious: u64,
    /// `not_lost` of `expired`.
    share_of_expirations: f64,
    /// `not_lost` of all packets.
    share_of_packets: f64,
    /// Of the first seed: smallest and largest.
    rtt_ms: (f64, f64),
    timeout_ms: (f64, f64),
}

/// The evolution of the first seed of the first setting as JSON.
#[derive(Serialize)]
struct Curves<'a> {
    event: &'static str,
    experiment: &'a str,
    name: &'a str,
    samples: &'a [Sample],
}

/// The last line of JSON.
#[derive(Serialize)]
struct Summary<'a> {
    experiment: &'a str,
    event: &'static str,
    /// Of the expirations, those that were not losses: over all networks that lose no acknowledgement.
    share_of_expirations: f64,
    /// Of all packets, those that were repeated though they had not been lost: over the same networks.
    share_of_packets: f64,
    paper_share: f64,
    reached: bool,
    quick: bool,
}

/// Runs it.
pub(super) fn run(run: &Run<'_>) -> Result<(), Error> {
    let seeds = run.effort.rounds;
    run.begin(&format!("{PACKETS} packets on the simulator, {seeds} seeds; nothing may be lost"));
    run.say("# expired: sent again, and no NACK had asked for it; not lost: an earlier copy arrived");
    run.say(format_args!(
        "{:<18} {:>8} {:>8} {:>8} {:>9} {:>10} {:>10} {:>17} {:>17}",
        "network", "sent", "resent", "expired", "not lost", "of expired", "of packets", "RTT, ms", "time-out, ms"
    ));
    let mut shown: Option<Evolution> = None;
    let mut lines: Vec<Line<'_>> = Vec::new();
    for setting in &SETTINGS {
        let runs = (1..=u64::from(seeds)).map(|seed| simulate(setting, seed)).collect::<Result<Vec<_>, _>>()?;
        let line = line(run, setting, &runs);
        let text = format!(
            "{:<18} {:>8} {:>8} {:>8} {:>9} {:>8.2} % {:>8.3} % {:>17} {:>17}",
            line.name,
            line.packets_sent,
            line.packets_resent,
            line.expired,
            line.not_lost,
            line.share_of_expirations * 100.0,
            line.share_of_packets * 100.0,
            format!("{:.2} .. {:.2}", line.rtt_ms.0, line.rtt_ms.1),
            format!("{:.2} .. {:.2}", line.timeout_ms.0, line.timeout_ms.1),
        );
        run.output.result(text, &line);
        lines.push(line);
        if shown.is_none() {
            shown = runs.into_iter().next();
        }
    }
    let shown = shown.ok_or_else(|| Error::failed("nothing was simulated"))?;
    if run.output.json {
        let curves = Curves { event: "samples", experiment: run.name, name: SETTINGS[0].name, samples: &shown.samples };
        run.output.result("", &curves);
    }
    // A lost acknowledgement looks like a lost packet to any sender.
    let sum = |of: fn(&Line<'_>) -> u64| lines.iter().filter(|line| line.losses[1] == "0%").map(of).sum::<u64>();
    let share_of_expirations = share(sum(|line| line.not_lost), sum(|line| line.expired));
    let share_of_packets = share(sum(|line| line.not_lost), sum(|line| line.packets));
    let summary = Summary {
        experiment: run.name,
        event: "summary",
        share_of_expirations,
        share_of_packets,
        paper_share: PAPER,
        reached: share_of_expirations < PAPER,
        quick: run.effort.quick,
    };
    let verdict = if summary.reached { "reached" } else { "not reached" };
    run.output.result(
        format_args!(
            "\nwhere no acknowledgement is lost, {:.2} % of the expirations were not losses: {:.3} % of all packets\nthe \
             paper: below 1 % of the expirations: {verdict}",
            share_of_expirations * 100.0,
            share_of_packets * 100.0
        ),
        &summary,
    );
    run.draw(&figure(&shown))
}

fn line<'a>(run: &Run<'a>, setting: &'a Setting, runs: &[Evolution]) -> Line<'a> {
    let sum = |of: fn(&OutgoingCounters) -> u64| runs.iter().map(|run| of(&run.counters)).sum::<u64>();
    let verdict = |of: fn(&Verdicts) -> u64| runs.iter().map(|run| of(&run.verdicts)).sum::<u64>();
    let (packets, expired, not_lost) = (sum(first_time), verdict(|of| of.expired), verdict(|of| of.not_lost));
    let range = |of: fn(&Sample) -> f64| span(runs.iter().take(1).flat_map(|run| run.samples.iter().map(of)));
    Line {
        event: "row",
        experiment: run.name,
        name: setting.name,
        network: setting.network,
        losses: setting.losses,
        congestion: setting.congestion.to_string(),
        seeds: run.effort.rounds,
        packets,
        packets_sent: sum(|of| of.packets_sent),
        packets_resent: sum(|of| of.packets_resent),
        packets_nacked: sum(|of| of.packets_nacked),
        packets_timed_out: sum(|of| of.packets_timed_out),
        expired,
        not_lost,
        duplicates: verdict(|of| of.duplicates),
        timeouts_spurious: sum(|of| of.timeouts_spurious),
        share_of_expirations: share(not_lost, expired),
        share_of_packets: share(not_lost, packets),
        rtt_ms: range(|sample| sample.rtt_ms),
        timeout_ms: range(|sample| sample.timeout_ms),
    }
}

/// Packets that one point of the figure stands for: about a pixel.
const POINT: u64 = 3;

fn figure(shown: &Evolution) -> Panels {
    // What was believed last, of every few packets.
    let mut points: Vec<Sample> = Vec::new();
    for sample in &shown.samples {
        match points.last_mut() {
            Some(last) if last.packet / POINT == sample.packet / POINT => *last = *sample,
            _ => points.push(*sample),
        }
    }
    let curve = |label: &str, colour: RGBColor, of: fn(&Sample) -> f64| Curve {
        label: label.to_owned(),
        colour,
        dashed: false,
        dots: false,
        points: points.iter().map(|sample| (sample.packet as f64, of(sample))).collect(),
    };
    let expired = shown.expired.iter().map(|&(packet, timeout)| (packet as f64, timeout));
    Panels {
        title: "The time-out follows the round trip".to_owned(),
        caption: vec![format!(
            "VRP on a simulated WAN: 10 Mbit/s, 60 ms and up to 10 ms more each way, 2 % of the packets lost. The time-out of \
             {} packets expired; {} of them were not lost.",
            shown.verdicts.expired, shown.verdicts.not_lost
        )],
        panels: vec![Panel {
            title: String::new(),
            x_name: "packets sent".to_owned(),
            y_name: "ms".to_owned(),
            doubling: false,
            curves: vec![
                curve("time-out", COLOURS[0], |sample| sample.timeout_ms),
                curve("round trip, smoothed", COLOURS[2], |sample| sample.rtt_ms),
            ],
            dots: vec![Dots { label: "a time-out expired".to_owned(), colour: COLOURS[1], points: expired.collect() }],
            mark: None,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_out_lies_above_the_round_trip_and_is_the_same_every_time() {
        let runs = [simulate(&SETTINGS[0], 3).unwrap(), simulate(&SETTINGS[0], 3).unwrap()];
        let [one, other] = runs.map(|run| (run.counters, run.verdicts, run.samples));
        assert_eq!((one.0, one.1), (other.0, other.1));
        assert!(first_time(&one.0) >= PACKETS);
        // What the trace says is what the sender counted, but for NACKs that came while a packet waited for its turn.
        let repeated = one.0.packets_resent - one.0.packets_nacked;
        assert!((repeated * 9 / 10..=repeated).contains(&one.1.expired), "{:?} {repeated}", one.1);
        assert!(one.1.not_lost <= one.1.expired && one.1.not_lost <= one.1.duplicates, "{:?}", one.1);
        let bounded = |sample: &Sample| sample.timeout_ms > sample.rtt_ms && sample.rtt_ms >= 60.0;
        assert!(one.2.iter().all(bounded), "{:?}", one.2.iter().find(|sample| !bounded(sample)));
    }
}
