//! How an endpoint is set up.

use crate::Idle;
pub(super) use crate::network::Path;
pub use crate::network::Profile;
use crate::network::random_seed;
use pinnace_core::ControllerKind;
use pinnace_link::{FaultOptions, UdpOptions};
use pinnace_zcrp::{Config, UnitSize};
use std::path::PathBuf;
use std::time::Duration;

/// How many units of who has a rate leave a second at least, as long as they are larger than [`SLOWEST_UNIT`].
const UNITS_A_SECOND: u64 = 10;
/// Bytes of a unit of whoever is very slow: less would be mostly trailers.
const SLOWEST_UNIT: usize = 256;

/// Settings of an endpoint. The defaults are safe anywhere and fast on loopback.
///
/// ```
/// use pinnace::zcrp::{Options, Profile};
/// let options = Options { profile: Profile::Cluster, ..Options::default() };
/// assert!(options.unit_bytes.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// What kind of network lies between the peers.
    pub profile: Profile,
    /// What a waiting thread does while nothing arrives.
    pub idle: Idle,
    /// Unit datagram size `U` in bytes, 29 to 65,507; by default from the path's MTU and the size of the first message.
    pub unit_bytes: Option<usize>,
    /// Congestion controller; by default the profile's: `fixed` (cluster) or `bbr` (Internet).
    pub congestion: Option<ControllerKind>,
    /// Never send faster than this, in bytes a second, headers of UDP and IP not counted. By default, what the path takes.
    pub rate: Option<u64>,
    /// Bytes in transit at most; by default from the receive buffer (cluster) or unbounded (Internet).
    pub window_bytes: Option<u64>,
    /// When a silent peer counts as gone.
    pub peer_timeout: Duration,
    /// Whether a background thread keeps the protocol going while no thread waits.
    pub worker: bool,
    /// The socket's own settings; what they say of ECN does not count: no acknowledgement of ZCRP's could tell the sender of
    /// marks.
    pub udp: UdpOptions,
    /// Write every datagram to this file, for Wireshark.
    pub capture: Option<PathBuf>,
    /// Lose, double and reorder what is sent: for tests of what is above.
    pub fault: Option<FaultOptions>,
    /// Where randomness comes from; by default the operating system. A fixed seed is for tests.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            idle: Idle::default(),
            unit_bytes: None,
            congestion: None,
            rate: None,
            window_bytes: None,
            peer_timeout: Duration::from_secs(10),
            worker: true,
            udp: UdpOptions::default(),
            capture: None,
            fault: None,
            seed: None,
        }
    }
}

impl Options {
    /// The UDP socket's settings; open to everybody, or connected.
    pub(crate) fn udp(&self, open: bool) -> UdpOptions {
        // Who is open answers from the address that a datagram came to.
        UdpOptions { ecn: false, local_address: open, ..self.udp.clone() }
    }

    /// The engine's configuration for a connected link.
    pub(super) fn config(&self, path: &Path) -> Config {
        let unit_size = match self.unit_bytes {
            Some(bytes) => UnitSize::Fixed(bytes),
            // Some leave every second, however slow that is: between them the peer hears nothing of us.
            None => UnitSize::UpTo(self.rate.map_or(path.datagram, |rate| {
                path.datagram.min(usize::try_from(rate / UNITS_A_SECOND).unwrap_or(usize::MAX).max(SLOWEST_UNIT))
            })),
        };
        let base = Config {
            unit_size,
            peer_timeout: self.peer_timeout,
            rate: self.rate,
            seed: self.seed.unwrap_or_else(random_seed),
            ..Config::default()
        };
        let mut config = if path.is_cluster(self.profile) {
            let window = self.window_bytes.unwrap_or_else(|| path.cluster_window());
            Config { control_bytes: path.datagram.clamp(512, 4096), ..base.for_cluster(window) }
        } else {
            // The controller bounds the bytes; the units are bounded by what the receiver can tell apart.
            let congestion = path.congestion(self.profile);
            Config { window_units: 16_384, window_bytes: self.window_bytes.unwrap_or(u64::MAX), congestion, ..base }
        };
        if let Some(congestion) = self.congestion {
            config.congestion = congestion;
        }
        config
    }
}
