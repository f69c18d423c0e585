//! UDP, and whatever else is a datagram socket.
//!
//! On Linux [`UdpLink`] is vectored: a train is one `sendmsg` with `UDP_SEGMENT`, gathered from application memory, and a
//! read is one `recvmsg` with `UDP_GRO`, scattered into it. What the kernel offers is probed once per process; a path that
//! refuses offload is served with `sendmmsg` for some minutes. Elsewhere [`UdpLink`] is [`PortableUdpLink`]: one datagram at
//! a time, copied.
//!
//! Always true: the descriptors of a caller ("foreign") are used as they are, without a change to any option or flag; on
//! a connected link nothing is taken for the peer's that the peer did not send, not even what was queued before.

mod groups;
#[cfg(target_os = "linux")]
mod linux;
mod multicast;
mod portable;
#[cfg(target_os = "linux")]
mod probe;
mod readable;

use std::time::Duration;

pub use groups::{GroupsLink, Memberships};
#[cfg(target_os = "linux")]
pub use linux::UdpLink;
pub use multicast::{GroupLink, MulticastOptions, probe_multicast};
pub use portable::PortableUdpLink;
#[cfg(not(target_os = "linux"))]
pub use portable::PortableUdpLink as UdpLink;
#[cfg(target_os = "linux")]
pub use probe::Offload;

/// What to do about datagrams larger than the path carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathMtu {
    /// Never fragment; learn the path's MTU from routers, and say [`crate::SendOutcome::TooLarge`].
    #[default]
    Discover,
    /// Never fragment, and ignore what routers said: for protocols that probe for themselves.
    Probe,
    /// Let the kernel and routers cut datagrams that are too large.
    Fragment,
    /// Whatever the system is set to.
    System,
}

/// How a UDP link is set up. None of it applies to foreign descriptors but `offload`, `ecn` and `stage_below`, which say
/// what each call may ask for, and `busy_poll` for threads that wait.
#[derive(Clone, Debug)]
pub struct UdpOptions {
    /// Bytes of receive buffer to ask for. A protocol's window should stay at or below half of what was given
    /// ([`UdpLink::receive_buffer_bytes`]).
    pub receive_buffer: usize,
    /// Bytes of send buffer to ask for.
    pub send_buffer: usize,
    /// Linux: reads (`SO_BUSY_POLL`, which needs privileges) and threads that wait (`EPIOCSPARAMS`, Linux 6.9, which needs none)
    /// poll the network device for so long before they sleep. Good for bulk on real networks only: it delays small datagrams
    /// by as much. 20 to 50 us are enough.
    pub busy_poll: Option<Duration>,
    /// Use segmentation offload where the kernel has it.
    pub offload: bool,
    /// Send and receive ECN bits.
    pub ecn: bool,
    /// Learn the local address of arriving datagrams, on a socket bound to all of them.
    pub local_address: bool,
    /// A socket of IPv6 takes nothing of IPv4, which another socket may have the same port for.
    pub v6_only: bool,
    /// What to do about datagrams larger than the path carries.
    pub path_mtu: PathMtu,
    /// Trains of segments smaller than this are copied into one staging buffer and sent from there, which is faster than
    /// many small pieces (measured: 11 % at 1,052 bytes, half at 130; no faster at 1,472, so the datagrams of an Ethernet frame
    /// are not copied). 0 never copies. [`LinkCounters::bytes_staged`](crate::LinkCounters::bytes_staged) counts it.
    pub stage_below: usize,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            receive_buffer: 4 << 20,
            send_buffer: 1 << 20,
            busy_poll: None,
            offload: true,
            ecn: true,
            local_address: true,
            v6_only: false,
            path_mtu: PathMtu::Discover,
            stage_below: 1400,
        }
    }
}

/// The largest UDP payload over IPv4.
pub(crate) const MAX_PAYLOAD: usize = 65_507;
/// IPv4 and UDP headers.
pub(crate) const HEADERS_V4: usize = 28;
/// IPv6 and UDP headers.
pub(crate) const HEADERS_V6: usize = 48;
/// What is assumed of a path of which nothing is known.
pub(crate) const ASSUMED_MTU: usize = 1500;
