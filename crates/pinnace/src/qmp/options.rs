//! How sockets are set up.

use super::carried;
use crate::Idle;
use crate::xtp::{self, Limits};
use crate::zcrp::Profile as Network;
use pinnace_core::ControllerKind;
use pinnace_link::{FaultOptions, UdpOptions};
use pinnace_qbuf::Pool;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What carries the packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Carrier {
    /// UDP: the port of the socket is the UDP port of the same number.
    #[default]
    Udp,
    /// IP itself, as protocol 36, which needs `CAP_NET_RAW`. One process owns it on a local address.
    Ip36,
    /// Ethernet frames (EtherType 0x817D) to hosts on the same link, which needs `CAP_NET_RAW`. One process owns it on an
    /// interface.
    Ether,
    /// Memory shared with processes of this host, through a daemon, and nothing else.
    SharedMemory,
}

/// Settings of a socket. The defaults are safe anywhere and fast on loopback.
///
/// ```
/// use pinnace::qmp::Options;
/// let options = Options { status_every: 4, ..Options::default() };
/// assert!(options.window_bytes.is_none(), "chosen for the path");
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// What carries the packets.
    pub carrier: Carrier,
    /// Of so many consecutive packets with data one asks the receiver for its status (1: every one does).
    //= Q-8, Q-12
    pub status_every: u32,
    /// Whether a peer on this host is reached through shared memory where both have the same daemon, with UDP as the
    /// carrier.
    pub same_host: bool,
    /// Bytes that the peer may send ahead of the application, and that may be queued to it: 1 to 2^30, and what lies outside
    /// counts as the nearest. By default 262,144 that grow to 4 MiB with an application that keeps up, and 4 MiB that may be
    /// queued; on a cluster more from the start.
    //= Q-12
    pub window_bytes: Option<u32>,
    /// Repeat everything from the first lost byte on, instead of what is lost.
    pub go_back_n: bool,
    /// A peer that is silent for so long is gone: half of it passes before it is asked whether it is there. By default 70 s
    /// without anything under way, and seconds with.
    pub peer_timeout: Option<Duration>,
    /// Where buffers are that are passed without being copied ([`Stream::send_qbuf`], [`Stream::recv_qbuf`]): then what
    /// arrives lies in this pool as well.
    ///
    /// [`Stream::send_qbuf`]: super::Stream::send_qbuf
    /// [`Stream::recv_qbuf`]: super::Stream::recv_qbuf
    pub pool: Option<Pool>,
    /// What kind of network lies between the peers.
    pub network: Network,
    /// Congestion controller; by default the network's: `fixed` (cluster) or `bbr` (Internet).
    pub congestion: Option<ControllerKind>,
    /// What others may make the endpoint keep.
    pub limits: Limits,
    /// What a waiting thread does while nothing arrives.
    pub idle: Idle,
    /// Whether a background thread keeps the protocol going while no thread waits.
    pub worker: bool,
    /// The UDP socket's own settings; what they say of ECN does not count: no header of XTP's could tell the sender of marks.
    pub udp: UdpOptions,
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
            carrier: Carrier::default(),
            status_every: pinnace_qmp::Profile::default().status_every,
            same_host: true,
            window_bytes: None,
            go_back_n: false,
            pool: None,
            peer_timeout: None,
            network: Network::default(),
            congestion: None,
            limits: Limits::default(),
            idle: Idle::default(),
            worker: true,
            udp: UdpOptions::default(),
            capture: None,
            fault: None,
            seed: None,
        }
    }
}

impl Options {
    /// Whether streams may go through shared memory.
    pub(super) fn takes_shared_memory(&self) -> bool {
        match self.carrier {
            Carrier::Udp => self.same_host,
            Carrier::SharedMemory => true,
            Carrier::Ip36 | Carrier::Ether => false,
        }
    }

    /// Whether a daemon of this host may have the right that this process lacks, where it has come to `error` (an
    /// [`io::ErrorKind::PermissionDenied`] over protocol 36 or Ethernet). [`Listener::bind`] and [`Stream::connect`] use that
    /// daemon by themselves; an [`Endpoint`] is always this process's own.
    ///
    /// [`Listener::bind`]: super::Listener::bind
    /// [`Stream::connect`]: super::Stream::connect
    /// [`Endpoint`]: super::Endpoint
    pub fn has_helper(&self, error: &io::Error) -> bool {
        carried::helper(&self.carrier, error).is_some()
    }

    /// The same, as an endpoint of XTP is set up.
    pub(crate) fn xtp(&self) -> xtp::Options {
        xtp::Options {
            codec: xtp::Codec::Xtp40,
            carrier: match self.carrier {
                Carrier::Udp | Carrier::Ether | Carrier::SharedMemory => xtp::Carrier::Udp,
                Carrier::Ip36 => xtp::Carrier::Ip36,
            },
            profile: self.network,
            window_bytes: self.window_bytes,
            congestion: self.congestion,
            limits: self.limits.clone(),
            idle: self.idle,
            worker: self.worker,
            udp: self.udp.clone(),
            capture: self.capture.clone(),
            fault: self.fault.clone(),
            seed: self.seed,
            // Streams of QMP have two ends.
            multicast: None,
            ..xtp::Options::default()
        }
    }
}
