//! One interface: an application declares the service that it needs, and gets the transport that offers it most cheaply.
//!
//! A [`Service`] is what an application says; a [`Path`] is what lies between it and its peer. Each [`Method`] answers the
//! two with an [`Offer`]: whether it fits, at what [`Cost`], and why, with the numbers that decided. [`choose`] takes the
//! cheapest that fits; [`what_would_change`] says how little would have to be different for another choice.
//!
//! ```
//! use pinnace::service::{Method, Path, PathClass, Selection, Service, choose};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let camera: Service = "loss=5% run=4KiB critical=0..1KiB size=2MB rate=200mbit deadline=80ms".parse()?;
//! let choice = choose(&camera, &Path::of_class(PathClass::Internet), &Selection::default())?;
//! assert_eq!(choice.offer.method, Method::Vrp);
//!
//! let results = Service::new().size(64 << 20).in_place(true);
//! let choice = choose(&results, &Path::of_class(PathClass::Cluster), &Selection::default())?;
//! assert_eq!(choice.offer.method, Method::Zcrp);
//! # Ok(())
//! # }
//! ```
//!
//! The words are those of TAPS (RFC 9622) and of DDS where they have one: *deadline*, *lifespan* and *reliability* are DDS's;
//! *priority*, *order*, *checksum* (its length), *direction* and the profile that is preferred are properties of TAPS.
//!
//! Always true: nothing that is not said is demanded, save that messages arrive whole and in order; a service reads back
//! as itself from each of its three forms ([text](Service#impl-Display-for-Service), [`Uri`], [TOML](Service::to_toml));
//! the same service and path always lead to the same choice.

mod change;
mod choice;
mod cost;
mod discover;
mod form;
mod methods;
mod offer;
mod path;
#[cfg(test)]
pub(crate) mod tests;
pub mod units;
mod uri;
mod words;

pub use change::{Change, what_would_change};
pub use choice::{Choice, Selection, Unmet, choose};
pub use cost::Cost;
pub use methods::Method;
pub use offer::{Mode, Offer};
pub use path::{Path, PathClass};
pub use uri::Uri;
pub(crate) use uri::{Place, check_address};
pub use words::{Malformed, PROPERTIES, Property};

use crate::vrp::Contract;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

/// How much of what is sent arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// Everything.
    #[default]
    Full,
    /// What the contract does not let be lost; the receiver is told the holes.
    Bounded(Contract),
    /// What happens to; nothing is sent again for its own sake.
    BestEffort,
}

impl Reliability {
    /// A contract in its simplest form; one that lets nothing be lost is full reliability.
    fn canonical(self) -> Self {
        let Self::Bounded(contract) = self else { return self };
        let terms = contract.into_terms();
        let (rate, run) = (terms.rate.unwrap_or(0), terms.run_bytes.unwrap_or(0));
        if rate == 0 || run == 0 {
            return Self::Full;
        }
        let mut contract = Contract::new().loss_rate(rate);
        if run != u64::MAX {
            contract = contract.run_bytes(run);
        }
        if let Some(floor) = terms.floor.filter(|&floor| floor < rate) {
            contract = contract.adaptive_from_percent(f64::from(floor) * 100.0 / 255.0);
        }
        for range in joined(terms.critical) {
            contract = contract.critical(range);
        }
        Self::Bounded(contract)
    }
}

/// The same bytes in rising ranges that do not touch.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// To whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Receivers {
    /// To one.
    #[default]
    One,
    /// To so many, each of which is named ([`Endpoint::connect_all`](crate::Endpoint::connect_all)) and gets the messages for
    /// itself.
    Many(u32),
    /// To those that are named, through this multicast group where they can join it, and one by one where not.
    Group(SocketAddr),
}

/// What is exchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    /// Messages, whose boundaries are kept.
    #[default]
    Messages,
    /// Bytes; a write is no unit.
    Stream,
    /// A request and its response, and nothing more: setting up and closing are part of it.
    Transaction,
}

/// What protects the bytes on their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// What the link does suffices.
    None,
    /// At least the Internet checksum, from end to end.
    #[default]
    Internet,
}

/// What matters more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// How soon a message is there.
    #[default]
    Latency,
    /// How many messages are there: waiting counts less, because others are under way meanwhile.
    Throughput,
}

/// Which way messages go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From one to the other.
    #[default]
    OneWay,
    /// Both ways.
    Duplex,
}

/// What an application needs.
///
/// It is made by calls, or read from one of its forms:
///
/// ```
/// use pinnace::service::{Service, Uri};
/// use pinnace::vrp::Contract;
/// use std::time::Duration;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = Service::new()
///     .contract(Contract::new().loss_percent(5.0).run_bytes(4096).critical(0..1024))
///     .size(2_000_000)
///     .rate(200_000_000)
///     .burst(65_536)
///     .deadline(Duration::from_millis(50));
/// let text = "loss=5% run=4KiB critical=0..1KiB size=2MB deadline=50ms rate=200mbit burst=64KiB";
/// assert_eq!(service.to_string(), text);
/// assert_eq!(text.parse::<Service>()?, service);
/// assert_eq!(Service::from_toml(&service.to_toml())?, service);
/// let uri: Uri = "pinnace://192.0.2.7:4747?loss=5%&run=4KiB&deadline=50ms".parse()?;
/// assert_eq!((uri.host.as_str(), uri.port, uri.service.to_string().as_str()), ("192.0.2.7", 4747, "loss=5% run=4KiB deadline=50ms"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub(crate) reliability: Reliability,
    pub(crate) size: Option<u64>,
    pub(crate) largest: Option<u64>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) lifespan: Option<Duration>,
    pub(crate) rate: Option<u64>,
    pub(crate) burst: Option<u64>,
    pub(crate) priority: Option<u8>,
    pub(crate) receivers: Receivers,
    pub(crate) pattern: Pattern,
    pub(crate) order: bool,
    pub(crate) in_place: bool,
    pub(crate) checksum: Checksum,
    pub(crate) preference: Preference,
    pub(crate) direction: Direction,
    pub(crate) path: Option<PathClass>,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            reliability: Reliability::Full,
            size: None,
            largest: None,
            deadline: None,
            lifespan: None,
            rate: None,
            burst: None,
            priority: None,
            receivers: Receivers::One,
            pattern: Pattern::Messages,
            order: true,
            in_place: false,
            checksum: Checksum::Internet,
            preference: Preference::Latency,
            direction: Direction::OneWay,
            path: None,
        }
    }
}

/// The largest message of a service that says nothing of sizes.
const LARGEST: u64 = 1 << 20;
/// The typical message of a service that says nothing of sizes.
const TYPICAL: u64 = 1 << 10;
/// What leaves at once at a rate that is kept though no burst is said: this part of a second, or so many bytes.
const UNSAID_BURST_PER_SECOND: u64 = 100;
const LEAST_UNSAID_BURST: u64 = 64 << 10;

impl Service {
    /// Messages to one receiver, all of them, in order.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much of what is sent arrives. A contract that lets nothing be lost is [`Reliability::Full`].
    #[must_use]
    pub fn reliability(self, reliability: Reliability) -> Self {
        Self { reliability: reliability.canonical(), ..self }
    }

    /// What may be lost of a message.
    #[must_use]
    pub fn contract(self, contract: Contract) -> Self {
        self.reliability(Reliability::Bounded(contract))
    }

    /// What is lost is lost.
    #[must_use]
    pub fn best_effort(self) -> Self {
        self.reliability(Reliability::BestEffort)
    }

    /// Bytes of a typical message; 1 KiB unless said. Costs are reckoned for it.
    #[must_use]
    pub fn size(self, bytes: u64) -> Self {
        Self { size: Some(bytes), ..self }
    }

    /// Bytes of the largest message; as the typical one unless said, and 1 MiB where neither is.
    #[must_use]
    pub fn largest(self, bytes: u64) -> Self {
        Self { largest: Some(bytes), ..self }
    }

    /// A message that comes later than this, counted from the call that sends it, is of no use. At most a hundred days.
    #[must_use]
    pub fn deadline(self, time: Duration) -> Self {
        Self { deadline: Some(time.min(units::LONGEST)), ..self }
    }

    /// A message that has not arrived so long after the call that sends it is dropped by the sender. At most a hundred
    /// days.
    #[must_use]
    pub fn lifespan(self, time: Duration) -> Self {
        Self { lifespan: Some(time.min(units::LONGEST)), ..self }
    }

    /// Bits a second that the application sends on average, 1 to 10^15. Held to it is what says a [burst](Self::burst) beside,
    /// and [best effort](Self::best_effort) over XTP and A1, which nothing else slows down on a path that is full.
    #[must_use]
    pub fn rate(self, bits_per_second: u64) -> Self {
        Self { rate: Some(bits_per_second.clamp(1, units::FASTEST)), ..self }
    }

    /// Bytes that may leave at once: in any interval of `t` seconds at most this and the rate times `t`. Needs a rate.
    #[must_use]
    pub fn burst(self, bytes: u64) -> Self {
        Self { burst: Some(bytes), ..self }
    }

    /// Which of several connections goes first: 0 is the most urgent. A wish: it makes methods that cannot do it more
    /// expensive, and excludes none. It orders what shares a socket: the connections over XTP that a listener has accepted,
    /// say; those that a program makes have a socket each, and the system's order.
    #[must_use]
    pub fn priority(self, priority: u8) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// To whom. `Many(0)` and `Many(1)` are [`Receivers::One`].
    #[must_use]
    pub fn receivers(self, receivers: Receivers) -> Self {
        let receivers = if matches!(receivers, Receivers::Many(0 | 1)) { Receivers::One } else { receivers };
        Self { receivers, ..self }
    }

    /// What is exchanged.
    #[must_use]
    pub fn pattern(self, pattern: Pattern) -> Self {
        Self { pattern, ..self }
    }

    /// Whether messages are delivered in the order in which they were sent. They are, unless this says otherwise.
    #[must_use]
    pub fn order(self, kept: bool) -> Self {
        Self { order: kept, ..self }
    }

    /// Whether a message must reach the application's memory without a copy in user space.
    #[must_use]
    pub fn in_place(self, wanted: bool) -> Self {
        Self { in_place: wanted, ..self }
    }

    /// What protects the bytes on their way.
    #[must_use]
    pub fn checksum(self, checksum: Checksum) -> Self {
        Self { checksum, ..self }
    }

    /// What matters more.
    #[must_use]
    pub fn prefer(self, preference: Preference) -> Self {
        Self { preference, ..self }
    }

    /// Which way messages go.
    #[must_use]
    pub fn direction(self, direction: Direction) -> Self {
        Self { direction, ..self }
    }

    /// What kind of network lies between the peers, where the application knows better than its addresses do.
    #[must_use]
    pub fn path(self, class: PathClass) -> Self {
        Self { path: Some(class), ..self }
    }

    /// What kind of network the application says it is, if it does.
    pub fn path_class(&self) -> Option<PathClass> {
        self.path
    }

    /// The same, where it is not said which bytes of a message may not be lost.
    pub(crate) fn without_critical(&self) -> Self {
        let Reliability::Bounded(contract) = &self.reliability else { return self.clone() };
        let terms = contract.clone().into_terms();
        let mut contract = Contract::new().loss_rate(terms.rate.unwrap_or(0)).run_bytes(terms.run_bytes.unwrap_or(0));
        if let Some(floor) = terms.floor {
            contract = contract.adaptive_from_percent(f64::from(floor) * 100.0 / 255.0);
        }
        self.clone().contract(contract)
    }

    /// The rate in bits a second, and the bytes at once, to which a method holds what is sent.
    ///
    /// A rate alone is what the application sends by itself. But where nothing tells the sender what the path has dropped, it
    /// is all that keeps a path from being flooded, and is kept: in steps of what a driver that wakes late may owe.
    pub(crate) fn kept_rate(&self) -> Option<(u64, u64)> {
        let rate = self.rate?;
        let is_blind = self.reliability == Reliability::BestEffort;
        let unsaid = is_blind.then(|| (rate / 8 / UNSAID_BURST_PER_SECOND).max(LEAST_UNSAID_BURST));
        Some((rate, self.burst.or(unsaid)?))
    }

    /// Bytes of a typical message, said or not.
    pub(crate) fn typical_bytes(&self) -> u64 {
        self.size.unwrap_or(TYPICAL.min(self.largest.unwrap_or(TYPICAL)))
    }

    /// Bytes a second that are not exceeded. Without a burst the rate is what the application sends by itself.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.burst.and(self.rate).map(|bits| (bits / 8).max(1))
    }

    /// Bytes of every message, if they follow each other at a known rate, and at least one in a second: the next one can be
    /// announced by the last.
    pub(crate) fn foretold_bytes(&self) -> Option<u64> {
        let is_soon = |size: &u64| self.rate.is_some_and(|rate| size.saturating_mul(8) <= rate);
        self.size.filter(is_soon).filter(|_| self.pattern == Pattern::Messages)
    }

    /// Whether it says anything of how long messages are.
    pub(crate) fn says_sizes(&self) -> bool {
        self.largest.is_some() || self.size.is_some()
    }

    /// Bytes of the largest message, said or not.
    pub(crate) fn largest_bytes(&self) -> u64 {
        self.largest.or(self.size).unwrap_or(LARGEST).max(self.typical_bytes())
    }

    /// How many receive each message; groups count as eight.
    pub(crate) fn receiver_count(&self) -> u32 {
        match self.receivers {
            Receivers::One => 1,
            Receivers::Many(count) => count,
            Receivers::Group(_) => 8,
        }
    }
}
