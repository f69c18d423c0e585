//! How an endpoint is set up.

use super::{Codec, ControlBlock, Limits, Service};
use crate::Idle;
pub(super) use crate::network::Path;
use crate::network::{Profile, random_seed};
use pinnace_core::ControllerKind;
use pinnace_link::{FaultOptions, Ip36Options, MulticastOptions, UdpOptions};
use pinnace_wire::xtp::{INITIAL_ALLOC, MAX_WINDOW};
use pinnace_xtp::Config;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// What carries the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carrier {
    /// UDP, one packet in a datagram. The ports of XTP are those of UDP.
    #[default]
    Udp,
    /// IP itself, as protocol 36, which needs `CAP_NET_RAW`. One process owns it on a local address; ports must be given.
    Ip36,
}

/// Settings of an endpoint. The defaults are safe anywhere and fast on loopback.
///
/// ```
/// use pinnace::xtp::{Codec, Options};
/// let options = Options { codec: Codec::Xtp36, window_bytes: Some(1 << 20), ..Options::default() };
/// assert!(options.block.is_none(), "chosen for the path");
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// How packets are laid out; both ends must say the same.
    pub codec: Codec,
    /// What carries the packets.
    pub carrier: Carrier,
    /// What kind of network lies between the peers.
    pub profile: Profile,
    /// The control block of contexts for which none is given, whole; by default the specification's, with packets as
    /// large as the path carries. Its service and address do not count.
    pub block: Option<ControlBlock>,
    /// Bytes that a peer may send ahead of the application, and that may be queued to it: `rwindow`, `rbufsize` and
    /// `wbufsize` of the default control block: 1 to 2^30, and what lies outside counts as the nearest. By default 262,144 that
    /// grow to 4 MiB with an application that keeps up, and 4 MiB that may be queued; on a cluster more from the start, and as
    /// much queued as a window, but to groups 4 MiB.
    pub window_bytes: Option<u32>,
    /// Congestion controller; by default the profile's: `fixed` (cluster) or `bbr` (Internet).
    pub congestion: Option<ControllerKind>,
    /// The longest message that is collected for [`Connection::recv`](super::Connection::recv), in bytes. Longer ones
    /// can be read piece by piece.
    pub longest_message: u64,
    /// What others may make the endpoint keep: contexts, bytes, listeners and more.
    pub limits: Limits,
    /// What a waiting thread does while nothing arrives.
    pub idle: Idle,
    /// Whether a background thread keeps the protocol going while no thread waits.
    pub worker: bool,
    /// The UDP socket's own settings; what they say of ECN does not count: no header of XTP's could tell the sender of marks.
    pub udp: UdpOptions,
    /// How IP multicast groups are joined, and reached ([`Endpoint::join`](super::Endpoint::join),
    /// [`Endpoint::open_group`](super::Endpoint::open_group)). Where it names no interface, an endpoint that is bound to one
    /// address speaks and hears there. `None`: not at all.
    pub multicast: Option<MulticastOptions>,
    /// Write every packet to this file, for Wireshark.
    pub capture: Option<PathBuf>,
    /// Lose, double and reorder what is sent: for tests of what is above.
    pub fault: Option<FaultOptions>,
    /// Where randomness comes from; by default the operating system. A fixed seed is for tests.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            codec: Codec::default(),
            carrier: Carrier::default(),
            profile: Profile::default(),
            block: None,
            window_bytes: None,
            congestion: None,
            longest_message: 1 << 30,
            limits: Limits::default(),
            idle: Idle::default(),
            worker: true,
            udp: UdpOptions::default(),
            multicast: Some(MulticastOptions::default()),
            capture: None,
            fault: None,
            seed: None,
        }
    }
}

/// What windows grow to where nobody has chosen their size: 100 Mbit/s over 150 ms, and twice that for what is repeated.
const MOST_WINDOW: u32 = 4 << 20;

/// Bytes of a packet beside the user's, at most: header, padding, trailer, and a tag.
const PACKET_OVERHEAD: usize = 40 + 7 + 8;

impl Options {
    /// The engine's configuration.
    pub(super) fn config(&self, path: &Path, local: Option<SocketAddr>) -> Config {
        Config {
            codec: self.codec,
            datagram_bytes: path.datagram,
            congestion: self.congestion.unwrap_or_else(|| path.congestion(self.profile)),
            local: local.map(|local| local.ip()).filter(|local| !local.is_unspecified()),
            local_port: local.map_or(0, |local| local.port()),
            most_window: if self.has_preset(path) { 0 } else { MOST_WINDOW },
            limits: self.limits.clone(),
            seed: self.seed.unwrap_or_else(random_seed),
            ..Config::default()
        }
    }

    /// The control block of contexts for which none is given.
    pub(super) fn default_block(&self, path: &Path) -> ControlBlock {
        if let Some(block) = &self.block {
            return block.clone();
        }
        let mut block = ControlBlock::new(Service::Connection);
        block.maxdata = path.datagram.saturating_sub(PACKET_OVERHEAD).max(1) as u32;
        if self.has_preset(path) {
            // Without a window nothing would ever come, and for more than the largest no storage is ever lent.
            let window = self.window_bytes.unwrap_or_else(|| path.cluster_window() as u32).clamp(1, MAX_WINDOW);
            block.rwindow = window;
            // A ring holds the first bytes at least, which nobody has allowed.
            block.rbufsize = window.max(INITIAL_ALLOC);
            block.wbufsize = window;
        } else {
            block.wbufsize = MOST_WINDOW;
        }
        block
    }

    /// How much is queued to a group, if the application has not chosen that. On a network of one's own that is more than a
    /// window: what has arrived is held for another round of answers.
    pub(super) fn group_queue(&self) -> Option<u32> {
        (self.block.is_none() && self.window_bytes.is_none()).then_some(MOST_WINDOW)
    }

    /// Whether the sizes are chosen beforehand: by the application, or because the network is ours.
    fn has_preset(&self, path: &Path) -> bool {
        self.block.is_some() || self.window_bytes.is_some() || path.is_cluster(self.profile)
    }

    /// The UDP socket's settings; open to everybody, or connected.
    pub(super) fn udp(&self, open: bool) -> UdpOptions {
        // Who is open answers from the address that a packet came to.
        UdpOptions { ecn: false, local_address: open, ..self.udp.clone() }
    }

    /// How groups are reached from a socket that is bound there, or why not.
    pub(super) fn groups_at(&self, local: SocketAddr) -> Result<MulticastOptions, &'static str> {
        match (self.multicast, local.ip()) {
            (None, _) => Err("Options::multicast says that none is"),
            (_, IpAddr::V6(_)) => Err("bind the endpoint to an IPv4 address: Endpoint::bind(\"0.0.0.0:0\", ..)"),
            (Some(multicast), IpAddr::V4(local)) if multicast.interface.is_unspecified() => {
                Ok(MulticastOptions { interface: local, ..multicast })
            }
            (Some(multicast), _) => Ok(multicast),
        }
    }

    /// The raw socket's.
    pub(super) fn ip36(&self) -> Ip36Options {
        let UdpOptions { receive_buffer, send_buffer, path_mtu, .. } = self.udp;
        Ip36Options { receive_buffer, send_buffer, ecn: false, path_mtu }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_network_gets_bbr_and_the_specification_s_window_and_a_closed_one_more() {
        let far = Path { datagram: 1472, receive_buffer: Some(4 << 20), is_local: false };
        let near = Path { datagram: 65_507, receive_buffer: Some(1 << 20), is_local: true };
        let options = Options::default();
        let local = "127.0.0.1:7".parse().ok();
        let (internet, loopback) = (options.config(&far, None), options.config(&near, local));
        assert_eq!((internet.congestion, internet.local), (ControllerKind::Bbr, None));
        assert_eq!(loopback.congestion, ControllerKind::Fixed { window: 512 << 10 });
        assert_eq!(loopback.local_port, 7);
        assert!(internet.validates && loopback.validates, "anybody of this host can send from any of its addresses");
        assert_ne!(internet.seed, loopback.seed);
        let (internet, loopback) = (options.default_block(&far), options.default_block(&near));
        assert_eq!((internet.maxdata, internet.rwindow, internet.wbufsize), (1417, 262_144, 4 << 20));
        assert_eq!((loopback.maxdata, loopback.rwindow, loopback.rbufsize), (65_452, 512 << 10, 512 << 10));
        let chosen = Options { window_bytes: Some(1000), ..options.clone() };
        assert_eq!((options.group_queue(), chosen.group_queue()), (Some(4 << 20), None));
        let own = chosen.default_block(&far);
        assert_eq!((own.rwindow, own.rbufsize, own.wbufsize), (1000, 65_536, 1000));
        for (bytes, window) in [(0, 1), (u32::MAX, 1 << 30)] {
            let odd = Options { window_bytes: Some(bytes), ..options.clone() }.default_block(&far);
            assert_eq!((odd.rwindow, odd.rbufsize, odd.wbufsize), (window, window.max(65_536), window), "{bytes}");
        }
        let block = ControlBlock { maxdata: 5, ..ControlBlock::default() };
        assert_eq!(Options { block: Some(block.clone()), ..options }.default_block(&near), block);
    }
}
