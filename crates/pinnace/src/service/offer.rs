//! What a method answers to a service and a path.

use super::cost::{self, Engine, Shipment};
use super::{Cost, Method, Path, Service, units};
use crate::xtp;
use std::time::Duration;

/// How a method would be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Channels of a shared pool, from process to process.
    Channel,
    /// Messages into buffers that the receiver has named.
    Messages,
    /// Frames with a contract; what it says is the service's.
    Frames,
    /// One of XTP's services.
    Xtp(xtp::Service),
    /// A stream of bytes.
    Stream,
    /// Blocks with a record of quality of service.
    Blocks {
        /// Whether what is lost is repeated.
        reliable: bool,
        /// Whether a multicast group carries the data.
        group: bool,
    },
}

impl Mode {
    /// Whether what the path drops is gone.
    pub(crate) fn repeats_nothing(self) -> bool {
        matches!(self, Self::Xtp(xtp::Service::IsoStream) | Self::Blocks { reliable: false, .. })
    }

    /// As people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Messages => "messages",
            Self::Frames => "frames",
            Self::Xtp(service) => match service {
                xtp::Service::UnackDgram => "datagram",
                xtp::Service::AckDgram => "acknowledged datagram",
                xtp::Service::Transaction => "transaction",
                xtp::Service::Connection => "connection",
                xtp::Service::IsoStream => "isochronous stream",
                xtp::Service::BulkData => "bulk data",
                xtp::Service::UnackMulticast => "unacknowledged multicast",
                xtp::Service::Multicast => "reliable multicast",
            },
            Self::Stream => "stream",
            Self::Blocks { reliable: true, group: false } => "reliable",
            Self::Blocks { reliable: false, group: false } => "raw",
            Self::Blocks { reliable: true, group: true } => "reliable, to a group",
            Self::Blocks { reliable: false, group: true } => "raw, to a group",
        }
    }
}

/// What a method answers: whether it fits, what it costs, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Whose answer it is.
    pub method: Method,
    /// How it would be used.
    pub mode: Mode,
    /// Whether it meets the service on this path.
    pub fits: bool,
    /// What a typical message costs; also if it does not fit.
    pub cost: Cost,
    /// Short sentences with the numbers that decided: what could not be met, if it does not fit, and otherwise how it is.
    pub why: Vec<String>,
}

/// An offer while it is made.
#[derive(Debug)]
pub(super) struct Verdict<'a> {
    service: &'a Service,
    path: &'a Path,
    unmet: Vec<String>,
    notes: Vec<String>,
}

impl<'a> Verdict<'a> {
    pub(super) fn new(service: &'a Service, path: &'a Path) -> Self {
        Self { service, path, unmet: Vec::new(), notes: Vec::new() }
    }

    /// The same, where the numbers of another path count.
    pub(super) fn on(self, path: &'a Path) -> Self {
        Self { path, ..self }
    }

    /// Something without which the method does not fit.
    pub(super) fn must(&mut self, is_met: bool, otherwise: impl FnOnce() -> String) {
        if !is_met {
            self.unmet.push(otherwise());
        }
    }

    /// Something worth knowing.
    pub(super) fn note(&mut self, sentence: impl Into<String>) {
        self.notes.push(sentence.into());
    }

    /// The offer, after what every method must meet: the deadline and the rate.
    pub(super) fn offer(mut self, method: Method, mode: Mode, engine: &Engine, shipment: &Shipment) -> Offer {
        let (service, path) = (self.service, self.path);
        let cost = cost::estimate(service, path, engine, shipment);
        if let Some(deadline) = service.deadline {
            let set_up = if service.pattern == super::Pattern::Transaction { cost.set_up } else { 0.0 };
            let latency = cost.latency() + set_up;
            let limit = deadline.as_secs_f64() * 1e6;
            let sentence = format!("expected after {}, deadline {}", time(latency), time(limit));
            if latency <= limit { self.note(sentence) } else { self.unmet.push(sentence) }
        }
        if let Some(wanted) = service.rate {
            let capacity = cost::capacity(service, &cost);
            let sentence = format!("carries {} of such messages, {} wanted", rate(capacity), rate(wanted as f64));
            if wanted as f64 <= capacity { self.note(sentence) } else { self.unmet.push(sentence) }
        }
        if shipment.rounds >= 0.005 {
            let lost = units::of_share(path.share_lost());
            self.note(format!("at {lost} loss {:.2} rounds of repetition, {}", shipment.rounds, time(cost.repetition)));
        }
        if cost.wait > 0.0 {
            self.note(format!("orders nothing by priority: up to {} behind others", time(cost.wait)));
        }
        if shipment.copies > 1.0 {
            self.note(format!("sends {:.0} copies, one to each receiver", shipment.copies));
        }
        let fits = self.unmet.is_empty();
        Offer { method, mode, fits, cost, why: if fits { self.notes } else { self.unmet } }
    }
}

/// `1.5 ms`, of microseconds.
pub(super) fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.1} us"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

/// The same, of a span.
pub(super) fn span(time_of: Duration) -> String {
    time(time_of.as_secs_f64() * 1e6)
}

/// `1.2 Gbit/s`.
pub(super) fn rate(bits: f64) -> String {
    match bits {
        bits if bits < 1e6 => format!("{:.1} kbit/s", bits / 1e3),
        bits if bits < 1e9 => format!("{:.1} Mbit/s", bits / 1e6),
        bits => format!("{:.1} Gbit/s", bits / 1e9),
    }
}
