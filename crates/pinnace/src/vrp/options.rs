//! How an endpoint is set up.

use super::Contract;
use super::packets;
use crate::Idle;
pub(super) use crate::network::Path;
use crate::network::{Profile, random_seed};
use pinnace_core::ControllerKind;
use pinnace_link::{FaultOptions, UdpOptions};
use pinnace_vrp::{Config, Limits};
use std::path::PathBuf;
use std::time::Duration;

/// Nobody has to show more often that it is there.
const SHORTEST_KEEP_ALIVE: Duration = Duration::from_millis(10);

/// Settings of a sender or a receiver. The defaults are safe anywhere and fast on loopback.
///
/// ```
/// use pinnace::vrp::{Contract, Options};
/// use std::time::Duration;
/// let options = Options {
///     contract: Contract::new().loss_percent(10.0).run_bytes(8000),
///     life_timeout: Duration::from_secs(2),
///     ..Options::default()
/// };
/// assert!(options.packet_bytes.is_none() && options.window.is_none(), "chosen for every frame");
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// What kind of network lies between the peers.
    pub profile: Profile,
    /// What a waiting thread does while nothing arrives.
    pub idle: Idle,
    /// `P`, data bytes of a packet, 1 to 65,501; by default chosen for every frame (see the [module](super)).
    pub packet_bytes: Option<u16>,
    /// `W`, packets of a frame in flight and the window over which its loss rate holds, 1 to 16,384; by default chosen for
    /// every frame (see the [module](super)).
    pub window: Option<u16>,
    /// Congestion controller; by default the profile's: `fixed` (cluster) or `bbr` (Internet).
    pub congestion: Option<ControllerKind>,
    /// Never send faster than this, in bytes a second, headers of UDP and IP not counted.
    pub rate: Option<u64>,
    /// What may be lost of frames that do not say it themselves. By default nothing.
    pub contract: Contract,
    /// Frames begin in the order in which they are sent, and their [numbers](super::Received::number) tell it: for a receiver
    /// that restores it. Otherwise a small frame overtakes large ones that wait for their turn.
    pub in_order: bool,
    /// A frame of which the other end has said nothing for so long has failed.
    pub life_timeout: Duration,
    /// Where nothing has left a sender for so long, a PING does: so the receiver of a sender with nothing to send knows that
    /// it is there. `None`: never; the shortest are 10 ms.
    pub keep_alive: Option<Duration>,
    /// What a receiver lets senders make it keep: frames, bytes, senders and more.
    pub limits: Limits,
    /// Whether packets say that routers may mark them instead of dropping them, and marks are heeded.
    pub ecn: bool,
    /// Whether a background thread keeps the protocol going while no thread waits.
    pub worker: bool,
    /// The socket's own settings; what they say of ECN and local addresses does not count.
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
        let Config { life_timeout, limits, ecn, .. } = Config::default();
        Self {
            profile: Profile::default(),
            idle: Idle::default(),
            packet_bytes: None,
            window: None,
            congestion: None,
            rate: None,
            contract: Contract::default(),
            in_order: false,
            life_timeout,
            keep_alive: None,
            limits,
            ecn,
            worker: true,
            udp: UdpOptions::default(),
            capture: None,
            fault: None,
            seed: None,
        }
    }
}

impl Options {
    /// The engine's configuration.
    pub(super) fn config(&self, path: &Path) -> Config {
        let default = Config::default();
        Config {
            packet_bytes: self.packet_bytes.unwrap_or_else(|| packets::largest(path.datagram)),
            window: self.window.unwrap_or(packets::LEAST_WINDOW as u16),
            terms: self.contract.clone().into_terms(),
            congestion: self.congestion.unwrap_or_else(|| path.congestion(self.profile)),
            rate: self.rate,
            in_order: self.in_order,
            life_timeout: self.life_timeout,
            keep_alive: self.keep_alive.map(|after| after.max(SHORTEST_KEEP_ALIVE)),
            control_bytes: default.control_bytes.min(path.datagram),
            ecn: self.ecn,
            limits: self.limits.clone(),
            seed: self.seed.unwrap_or_else(random_seed),
            ..default
        }
    }

    /// The socket's settings; `open` to everybody, or connected.
    pub(super) fn udp(&self, open: bool) -> UdpOptions {
        // A receiver answers from the address that a packet came to.
        UdpOptions { ecn: self.ecn, local_address: open, ..self.udp.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_network_gets_bbr_and_a_closed_one_a_fixed_window() {
        let far = Path { datagram: 1472, receive_buffer: Some(4 << 20), is_local: false };
        let near = Path { datagram: 65_507, receive_buffer: Some(1 << 20), is_local: true };
        let of = |profile, path| Options { profile, ..Options::default() }.config(path);
        let (internet, loopback) = (of(Profile::Auto, &far), of(Profile::Auto, &near));
        assert_eq!((internet.congestion, internet.packet_bytes), (ControllerKind::Bbr, 1466));
        assert_eq!(loopback.congestion, ControllerKind::Fixed { window: 512 << 10 });
        assert_eq!((loopback.packet_bytes, loopback.control_bytes), (65_501, 1472));
        assert_eq!(of(Profile::Internet, &near).congestion, ControllerKind::Bbr);
        assert_eq!(of(Profile::Cluster, &far).congestion, ControllerKind::Fixed { window: 2 << 20 });
        assert_ne!(internet.seed, loopback.seed);
        let fixed = Options { packet_bytes: Some(1000), window: Some(128), rate: Some(5), ..Options::default() };
        let config = fixed.config(&Path { datagram: 1280, ..far });
        assert_eq!((config.packet_bytes, config.window, config.rate, config.control_bytes), (1000, 128, Some(5), 1280));
    }
}
