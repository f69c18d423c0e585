//! What lies between the peers, as far as a choice depends on it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What kind of network it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathClass {
    /// None: the peer is on this host.
    Host,
    /// Ours alone: little is lost, and no other traffic suffers from ours.
    Cluster,
    /// Shared with others: congestion control and pacing.
    Internet,
}

impl PathClass {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Cluster => "cluster",
            Self::Internet => "internet",
        }
    }
}

impl fmt::Display for PathClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PathClass {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Host, Self::Cluster, Self::Internet];
        let found = all.into_iter().find(|class| class.name() == text);
        found.ok_or_else(|| "is no kind of path: host, cluster or internet".to_owned())
    }
}

/// What lies between the peers. [`Path::of_class`] has assumptions for what is not known; [`Path::toward`] looks.
///
/// ```
/// use pinnace::service::{Path, PathClass};
/// let path = Path { rate: Some(1_000_000_000), ..Path::of_class(PathClass::Cluster) };
/// assert!(path.loss < 1e-3 && !path.shared_memory);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// What kind of network it is; a service that says one has the last word.
    pub class: PathClass,
    /// From one end to the other and back.
    pub round_trip: Duration,
    /// The share of datagrams that is lost, 0 to 1. What is outside counts as the nearest end, and no number as 0.
    pub loss: f64,
    /// Bytes of the largest datagram that crosses in one piece, without the headers of UDP and IP.
    pub datagram: usize,
    /// Bits a second that it carries, if known.
    pub rate: Option<u64>,
    /// Whether this process can reach the peer through shared memory, by a daemon.
    pub shared_memory: bool,
    /// Whether this process may send Ethernet frames, and the peer is on the same link.
    pub ethernet: bool,
    /// Whether multicast reaches the receivers.
    pub multicast: bool,
}

impl Path {
    /// What is assumed of a path of which nothing else is known:
    ///
    /// | class | round trip | loss | datagram |
    /// |---|---|---|---|
    /// | host | 10 us | none | 65,507 bytes |
    /// | cluster | 50 us | 1 in 1,000,000 | 1,472 bytes |
    /// | internet | 40 ms | 1 % | 1,472 bytes |
    ///
    /// Its rate is not known; there is neither shared memory nor Ethernet, and multicast on a cluster only.
    pub const fn of_class(class: PathClass) -> Self {
        let (round_trip, loss, datagram) = match class {
            PathClass::Host => (Duration::from_micros(10), 0.0, 65_507),
            PathClass::Cluster => (Duration::from_micros(50), 1e-6, 1472),
            PathClass::Internet => (Duration::from_millis(40), 0.01, 1472),
        };
        let multicast = matches!(class, PathClass::Cluster);
        Self { class, round_trip, loss, datagram, rate: None, shared_memory: false, ethernet: false, multicast }
    }

    /// The same path, where somebody knows its class: round trip and loss are what is assumed of that, all else stays.
    #[must_use]
    pub fn declared(self, class: PathClass) -> Self {
        let assumed = Self::of_class(class);
        if class == self.class {
            self
        } else {
            Self { class, round_trip: assumed.round_trip, loss: assumed.loss, ..self }
        }
    }

    /// The share of datagrams that is lost, as a number that can be reckoned with.
    pub(super) fn share_lost(&self) -> f64 {
        if self.loss.is_nan() { 0.0 } else { self.loss.clamp(0.0, 0.95) }
    }

    /// A round trip, in microseconds.
    pub(super) fn round_trip_us(&self) -> f64 {
        self.round_trip.as_secs_f64() * 1e6
    }
}
