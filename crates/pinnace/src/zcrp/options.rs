//! How an endpoint is set up.

use crate::Idle;
use pinnace_core::ControllerKind;
use pinnace_link::{FaultOptions, UdpLink, UdpOptions};
use pinnace_zcrp::{Config, UnitSize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What kind of network lies between the peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// [`Profile::Cluster`] on loopback addresses, otherwise [`Profile::Internet`].
    #[default]
    Auto,
    /// Shared with others: congestion control and pacing.
    Internet,
    /// Ours alone: the paper's fixed window, few acknowledgements, short time-outs.
    Cluster,
}

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
    /// Bytes in transit at most; by default from the receive buffer (cluster) or unbounded (Internet).
    pub window_bytes: Option<u64>,
    /// When a silent peer counts as gone.
    pub peer_timeout: Duration,
    /// Whether a background thread keeps the protocol going while no thread waits.
    pub worker: bool,
    /// The socket's own settings.
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
            window_bytes: None,
            peer_timeout: Duration::from_secs(10),
            worker: true,
            udp: UdpOptions { ecn: false, local_address: false, ..UdpOptions::default() },
            capture: None,
            fault: None,
            seed: None,
        }
    }
}

/// Bytes in transit on a cluster: more leaves the caches, less makes both ends wait for each other.
const CLUSTER_WINDOW: u64 = 2 << 20;

/// What the settings depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    largest: usize,
    receive_buffer: usize,
    peer: Option<SocketAddr>,
}

impl Path {
    pub(super) fn of(link: &UdpLink, peer: Option<SocketAddr>) -> Self {
        let largest = pinnace_link::Link::max_datagram(link);
        Self { largest, receive_buffer: link.receive_buffer_bytes(), peer }
    }

    /// The largest datagram that crosses in one piece, in bytes.
    pub(super) fn largest(&self) -> usize {
        self.largest
    }
}

impl Options {
    /// The engine's configuration for a connected link.
    pub(super) fn config(&self, path: &Path) -> Config {
        let Path { largest, receive_buffer, peer } = *path;
        let unit_size = match self.unit_bytes {
            Some(bytes) => UnitSize::Fixed(bytes),
            None => UnitSize::UpTo(largest),
        };
        let base = Config {
            unit_size,
            peer_timeout: self.peer_timeout,
            seed: self.seed.unwrap_or_else(random_seed),
            ..Config::default()
        };
        let local = peer.is_none_or(|peer| peer.ip().is_loopback());
        let cluster = match self.profile {
            Profile::Auto => local,
            Profile::Internet => false,
            Profile::Cluster => true,
        };
        let mut config = if cluster {
            let half = (receive_buffer / 2) as u64;
            let window = self.window_bytes.unwrap_or_else(|| CLUSTER_WINDOW.min(half.max(65_536)));
            Config { control_bytes: largest.clamp(512, 4096), ..base.for_cluster(window) }
        } else {
            // The controller bounds the bytes; the units are bounded by what the receiver can tell apart.
            // BBR does not take random loss for congestion, which cubic does: forty times slower at 1 % of loss.
            let congestion = ControllerKind::Bbr;
            Config { window_units: 16_384, window_bytes: self.window_bytes.unwrap_or(u64::MAX), congestion, ..base }
        };
        if let Some(congestion) = self.congestion {
            config.congestion = congestion;
        }
        config
    }
}

fn random_seed() -> u64 {
    // Without the system's randomness the address of a local and the clock still differ between endpoints.
    getrandom::u64().unwrap_or_else(|_| {
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        clock.map_or(0, |time| time.as_nanos() as u64) ^ u64::from(std::process::id()) << 32
    })
}
