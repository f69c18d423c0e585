//! What people and programs read: a table, or one JSON object a line.

use super::measure::{Series, median, span};
use super::worker::Failure;
use super::{Args, Transport, header, size_name};
use crate::output::Output;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// One line of `--json`: first what is promised, then whatever else was measured.
#[derive(Debug, Serialize)]
struct Line<'a> {
    transport: &'a Transport,
    path: String,
    size: usize,
    gbit_s: f64,
    cpu_s_per_gb_tx: f64,
    cpu_s_per_gb_rx: f64,
    ratio_to: Option<&'a Transport>,
    ratio: Option<f64>,
    in_place: Option<f64>,
    rounds: usize,
    idle: String,
    load: u32,
    gbit_s_min: f64,
    gbit_s_max: f64,
    /// The median of the ratios of single rounds: robust against phases of a busy machine.
    ratio_paired: Option<f64>,
    sys_s_per_gb_tx: f64,
    sys_s_per_gb_rx: f64,
    share_copied: Option<f64>,
    receiver_bytes_beyond_buffers: Option<u64>,
    messages: u64,
    /// Messages queued at a time.
    in_flight: usize,
    seconds: f64,
    /// Packets lost for good, of all packets of the frames delivered, over all rounds: with permission.
    loss: Option<f64>,
    /// The most of them in a row; nothing of a transport that does not count them.
    longest_run_packets: Option<u32>,
    contract: Option<String>,
    /// Service, codec and link of XTP.
    xtp: Option<&'a super::XtpChoice>,
    /// Link of QMP.
    qmp: Option<&'a super::QmpChoice>,
    /// Quality of service of A1.
    a1: Option<&'a super::A1Choice>,
    /// What the one interface was asked for, and the method that it chose.
    service: Option<String>,
    method: Option<&'a str>,
    /// How often the processes that compete for the processor counted, all together: what was left for others.
    counts_per_second: Option<f64>,
    event: &'static str,
}

/// Prints sizes as they are finished.
pub(super) struct Report<'a> {
    args: &'a Args,
    output: &'a Output,
}

impl<'a> Report<'a> {
    pub(super) fn new(args: &'a Args, output: &'a Output) -> Self {
        Self { args, output }
    }

    /// The lines above the table.
    pub(super) fn begin(&self) {
        if self.output.json {
            return;
        }
        let Args { idle, protocol, against_idle, .. } = self.args;
        let rounds = crate::units::count_of(u64::from(self.args.rounds), "round");
        let path = self.args.path_name();
        let others = against_idle.map_or_else(String::new, |idle| format!(" (others: {idle})"));
        let profile = match (&self.args.wan, self.args.path) {
            (Some(_), _) => "internet",
            (None, super::Path::Lo) => "cluster (loopback)",
            (None, _) => "cluster (closed network)",
        };
        self.print(&header());
        self.print(&format!(
            "# path {path}, idle {idle}{others}, {rounds}, interleaved; medians; up to {} in flight; profile \
             {profile}; {protocol}/x: times the throughput of x; CPU: processor seconds per GB at the sender and the receiver",
            size_name(self.args.in_flight().as_u64() as usize)
        ));
        if self.args.transports().contains(&Transport::Xtp) {
            self.print(&format!("# xtp: {}; in place: of the bytes", self.args.xtp()));
        }
        if self.args.transports().contains(&Transport::Qmp) {
            self.print(&format!("# qmp: {}; in place: of the bytes", self.args.qmp()));
        }
        if self.args.transports().contains(&Transport::A1) {
            self.print(&format!("# a1: {}; in place: of the bytes", self.args.sending.a1()));
        }
        if self.args.transports().iter().any(|transport| matches!(transport, Transport::Service(_))) {
            self.print(&format!("# service: {}; behind the stroke the method that was chosen", self.args.words()));
        }
        let mut lost = if self.args.xtp().is_lossy() || self.args.sending.a1().is_lossy() { "      lost" } else { "" };
        if self.args.transports().contains(&Transport::Vrp) {
            lost = "      lost";
            self.print(&format!(
                "# vrp contract: {}; Gbit/s counts whole frames; lost: packets lost for good",
                self.args.contract
            ));
        }
        let mut counts = "";
        if self.is_loaded() {
            counts = "  counts/us";
            self.print("# counts/us: how often the competing processes counted meanwhile, all together: what was left for others");
        }
        self.print(&format!(
            "{:>9}  {:<12} {:>4}  {:>8}  {:>17}  {:>8}  {:>7} {:>7}  {:>8}{counts}{lost}",
            "size",
            "transport",
            "load",
            "Gbit/s",
            "(min .. max)",
            format!("{protocol}/x"),
            "CPU tx",
            "CPU rx",
            "in place"
        ));
    }

    /// All that was measured with one size.
    pub(super) fn size(&self, all: &[Series]) {
        for series in all.iter().filter(|series| !series.measured.is_empty()) {
            let own = series.job.transport == self.args.protocol;
            let protocol = all.iter().find(|other| other.is(&self.args.protocol, series.load));
            if !self.output.json {
                self.print(&self.row(series, protocol.filter(|_| !own)));
            } else if own {
                let others = || all.iter().filter(|other| other.load == series.load && !other.measured.is_empty());
                let mut alone = true;
                for other in others().filter(|other| other.job.transport != self.args.protocol) {
                    self.output.result("", &self.line(series, Some(other)));
                    alone = false;
                }
                if alone {
                    self.output.result("", &self.line(series, None));
                }
            } else {
                self.output.result("", &self.line(series, protocol.filter(|other| !other.measured.is_empty())));
            }
        }
        if !self.output.json {
            self.print("");
        }
    }

    fn is_loaded(&self) -> bool {
        self.args.loads().iter().any(|load| *load > 0)
    }

    fn print(&self, text: &str) {
        self.output.result(text, &());
    }

    fn row(&self, series: &Series, protocol: Option<&Series>) -> String {
        let (low, high) = spread(series);
        let gbit_s = series.median(|measured| measured.gbit_s);
        let ratio = protocol.map_or_else(String::new, |protocol| {
            format!("{:.2}", protocol.median(|measured| measured.gbit_s) / gbit_s)
        });
        // A path over which one asks for Mbit/s.
        let digits = if self.args.wan.is_some() { 4 } else { 2 };
        let in_place = in_place(series).map_or_else(String::new, |share| format!("{:.2} %", share * 100.0));
        let lost = loss(series).map_or_else(String::new, |loss| format!("  {:>6.2} %", loss * 100.0));
        let counts = match counts_per_second(series) {
            Some(counts) => format!("  {:>9.1}", counts / 1e6),
            None if self.is_loaded() => " ".repeat(11),
            None => String::new(),
        };
        let row = format!(
            "{:>9}  {:<12} {:>4}  {gbit_s:>8.digits$}  {:>17}  {ratio:>8}  {:>7.3} {:>7.3}  {in_place:>8}{counts}{lost}",
            size_name(series.job.size),
            named(&series.job.transport, series.measured.last().and_then(|measured| measured.method.as_deref())),
            series.load,
            format!("({low:.digits$} .. {high:.digits$})"),
            series.median(|measured| measured.cpu_tx),
            series.median(|measured| measured.cpu_rx),
        );
        row.trim_end().to_owned()
    }

    fn line<'s>(&self, series: &'s Series, other: Option<&'s Series>) -> Line<'s> {
        let gbit_s = series.median(|measured| measured.gbit_s);
        let (gbit_s_min, gbit_s_max) = spread(series);
        let last = series.measured.last();
        Line {
            transport: &series.job.transport,
            path: self.args.path_name(),
            size: series.job.size,
            gbit_s,
            cpu_s_per_gb_tx: series.median(|measured| measured.cpu_tx),
            cpu_s_per_gb_rx: series.median(|measured| measured.cpu_rx),
            ratio_to: other.map(|other| &other.job.transport),
            ratio: other.map(|other| gbit_s / other.median(|measured| measured.gbit_s)),
            in_place: in_place(series),
            rounds: series.measured.len(),
            idle: series.job.idle.to_string(),
            load: series.load,
            gbit_s_min,
            gbit_s_max,
            ratio_paired: other.map(|other| series.paired_ratio(other)),
            sys_s_per_gb_tx: series.median(|measured| measured.system_tx),
            sys_s_per_gb_rx: series.median(|measured| measured.system_rx),
            share_copied: copied(series),
            receiver_bytes_beyond_buffers: series.measured.iter().filter_map(|one| one.memory_beyond_buffers).max(),
            messages: last.map_or(0, |measured| measured.messages),
            in_flight: series.job.depth,
            seconds: series.median(|measured| measured.seconds),
            loss: loss(series),
            longest_run_packets: series.measured.iter().filter_map(|measured| measured.loss?.longest_run).max(),
            xtp: (series.job.transport == Transport::Xtp).then_some(&series.job.xtp),
            qmp: (series.job.transport == Transport::Qmp).then_some(&series.job.qmp),
            a1: (series.job.transport == Transport::A1).then_some(&series.job.a1),
            service: matches!(series.job.transport, Transport::Service(_)).then(|| series.job.service.to_string()),
            method: last.and_then(|measured| measured.method.as_deref()),
            counts_per_second: counts_per_second(series),
            event: "throughput",
            contract: (series.job.transport == Transport::Vrp).then(|| series.job.contract.to_string()),
        }
    }
}

/// A transport, and the method that it has chosen, if it had a choice.
pub(crate) fn named(transport: &Transport, method: Option<&str>) -> String {
    match (transport, method) {
        (Transport::Service(None), Some(method)) => format!("service/{method}"),
        _ => transport.to_string(),
    }
}

fn spread(series: &Series) -> (f64, f64) {
    span(series.measured.iter().map(|measured| measured.gbit_s))
}

/// The share of units whose payload was received in its final place, over all rounds.
fn in_place(series: &Series) -> Option<f64> {
    let sum = |of: fn(&super::protocol::Placement) -> u64| {
        series.measured.iter().filter_map(|measured| measured.placement.as_ref()).map(of).sum::<u64>()
    };
    let units = sum(|placement| placement.units_in_place + placement.units_copied);
    (units > 0).then(|| sum(|placement| placement.units_in_place) as f64 / units as f64)
}

/// The share of packets that were lost for good, over all rounds; `None` of a transport that loses nothing.
fn loss(series: &Series) -> Option<f64> {
    let losses = || series.measured.iter().filter_map(|measured| measured.loss);
    let packets = losses().map(|loss| loss.packets).sum::<u64>();
    (packets > 0).then(|| losses().map(|loss| loss.lost).sum::<u64>() as f64 / packets as f64)
}

/// How often the competing processes counted: the median of the rounds.
fn counts_per_second(series: &Series) -> Option<f64> {
    median(series.measured.iter().filter_map(|measured| measured.counts_per_second).collect())
}

/// The share of payload bytes that were copied, over all rounds.
fn copied(series: &Series) -> Option<f64> {
    let placements = || series.measured.iter().filter_map(|measured| measured.placement.as_ref());
    let bytes = placements().map(|placement| placement.bytes_received).sum::<u64>();
    (bytes > 0).then(|| placements().map(|placement| placement.bytes_copied).sum::<u64>() as f64 / bytes as f64)
}

/// A bar on standard error, if that is a terminal.
pub(crate) fn progress(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (about {eta} left)") {
        bar.set_style(style);
    }
    bar
}

/// Says that a transport gave no numbers.
pub(super) fn trouble(output: &Output, series: &Series, failure: &Failure) {
    let (transport, size) = (&series.job.transport, size_name(series.job.size));
    match failure {
        Failure::Failed(why) => output.warn(format_args!("{transport}, {size}: {why}")),
        Failure::Unavailable(why) => output.warn(format_args!("{transport} is left out: {why}")),
    }
}
