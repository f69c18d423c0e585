//! The methods: what can carry a service, a file each, which says what its implementation honestly can.
//!
//! Always true: an answer depends on nothing but the service and the path; what does not fit says what is not met.

mod a1;
mod qmp;
mod shared_memory;
mod vrp;
mod xtp;
mod zcrp;

use super::cost::{self, Engine, Shipment, UDP_HEADERS};
use super::offer::{self, Mode, Offer, Verdict};
use super::{Checksum, Direction, Path, PathClass, Pattern, Receivers, Reliability, Service, units};
use std::fmt;
use std::str::FromStr;

/// What can carry a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// QMP's streams over channels of memory that both processes share.
    SharedMemory,
    /// [ZCRP](crate::zcrp): reliable messages, in place.
    Zcrp,
    /// [VRP](crate::vrp): loss as a contract.
    Vrp,
    /// [XTP](crate::xtp): six services.
    Xtp,
    /// [QMP](crate::qmp): streams for clusters.
    Qmp,
    /// A1: rates, bursts, priorities, multicast.
    A1,
}

impl Method {
    /// All of them; of two offers at the same cost the earlier one is taken.
    pub const ALL: [Self; 6] = [Self::SharedMemory, Self::Zcrp, Self::Vrp, Self::Xtp, Self::Qmp, Self::A1];

    /// As it is written: `shared-memory`, `zcrp`, `vrp`, `xtp`, `qmp`, `a1`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SharedMemory => "shared-memory",
            Self::Zcrp => "zcrp",
            Self::Vrp => "vrp",
            Self::Xtp => "xtp",
            Self::Qmp => "qmp",
            Self::A1 => "a1",
        }
    }

    /// What the method makes of a service on a path.
    ///
    /// ```
    /// use pinnace::service::{Method, Path, PathClass, Service};
    /// let offer = Method::Zcrp.probe(&"pattern=stream".parse()?, &Path::of_class(PathClass::Internet));
    /// assert!(!offer.fits);
    /// assert_eq!(offer.why, ["carries messages, not a stream of bytes"]);
    /// # Ok::<(), pinnace::service::Malformed>(())
    /// ```
    pub fn probe(self, service: &Service, path: &Path) -> Offer {
        let path = &Path { class: service.path.unwrap_or(path.class), ..path.clone() };
        match self {
            Self::SharedMemory => shared_memory::probe(service, path),
            Self::Zcrp => zcrp::probe(service, path),
            Self::Vrp => vrp::probe(service, path),
            Self::Xtp => xtp::probe(service, path),
            Self::Qmp => qmp::probe(service, path),
            Self::A1 => a1::probe(service, path),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|method| method.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is no method; there are {names}")
        })
    }
}

/// A message in datagrams of UDP, each with the method's header, to one receiver, of which everything is repeated.
fn shipment(service: &Service, path: &Path, engine: &Engine) -> Shipment {
    let payload = (path.datagram as f64 - engine.header).max(1.0);
    reliable(service, path, engine, payload, 1.0)
}

/// The same, with packets of `payload` bytes, to as many as `receivers`.
fn reliable(service: &Service, path: &Path, engine: &Engine, payload: f64, receivers: f64) -> Shipment {
    let packets = cost::packets(service.typical_bytes() as f64, payload);
    let loss = path.share_lost();
    Shipment {
        payload,
        below: UDP_HEADERS,
        waits: 0.0,
        rounds: cost::expected_rounds(packets * receivers, loss, loss),
        round_us: round_us(packets, engine),
        copies: 1.0,
        answers: 0.0,
        orders_by_priority: false,
    }
}

/// `1 block`, `2 blocks`.
fn count_of(count: f64, what: &str) -> String {
    format!("{count:.0} {what}{}", if count < 1.5 { "" } else { "s" })
}

/// What a round of repetitions takes beside its round trip: behind the last packets of a message nothing shows the gap.
fn round_us(packets: f64, engine: &Engine) -> f64 {
    if packets > 3.0 { 0.0 } else { engine.time_out_us }
}

/// Where a method has one receiver only.
fn only_one(verdict: &mut Verdict<'_>, service: &Service) {
    verdict.must(service.receivers == Receivers::One, || match service.receivers {
        Receivers::Group(group) => format!("sends to one receiver, not to the group {group}"),
        _ => format!("sends to one receiver, not to {}", service.receiver_count()),
    });
}

/// Where a method drops nothing that it has begun to send.
fn no_lifespan(verdict: &mut Verdict<'_>, service: &Service) {
    let lifespan = service.lifespan.map(offer::span).unwrap_or_default();
    verdict.must(service.lifespan.is_none(), || {
        format!("drops nothing that it has begun to send, also not after {lifespan}")
    });
}

/// What the path has to carry in one piece.
fn datagrams(verdict: &mut Verdict<'_>, path: &Path, least: usize) {
    verdict.must(path.datagram >= least, || {
        format!("needs datagrams of at least {least} bytes, the path carries {}", path.datagram)
    });
}

/// A limit on messages.
fn largest(verdict: &mut Verdict<'_>, service: &Service, limit: f64, what: &str) {
    let bytes = service.largest_bytes();
    verdict.must(bytes as f64 <= limit, || {
        format!("carries messages of at most {limit:.0} bytes ({what}), not of {bytes}")
    });
}

/// Whether a method may be used whose sender never learns what was dropped: what is acknowledged and what has arrived are
/// the same to its congestion control, which then finds room on any path. On one that is shared with others only a rate
/// that the application states keeps it from flooding them.
fn may_be_blind(service: &Service, path: &Path) -> bool {
    path.class != PathClass::Internet || service.rate.is_some()
}

/// Where a bounded or best-effort service gets more than it asked for.
fn more_reliable(verdict: &mut Verdict<'_>, service: &Service) {
    match service.reliability {
        Reliability::Full => {}
        Reliability::Bounded(_) => verdict.note("repeats everything that is lost, also what the contract lets go"),
        Reliability::BestEffort => verdict.note("repeats everything that is lost, which nobody asked for"),
    }
}
