//! Raw IP, protocol 36: XTP's own number (specs/xtp.md, sections "Links" and 3.11). On Linux only.

#[cfg(target_os = "linux")]
mod linux;

use crate::PathMtu;

#[cfg(not(target_os = "linux"))]
pub use crate::elsewhere::Ip36Link;
#[cfg(target_os = "linux")]
pub use linux::Ip36Link;

/// How a link over raw IP is set up.
#[derive(Clone, Debug)]
pub struct Ip36Options {
    /// Bytes of receive buffer to ask for. A protocol's window should stay at or below half of what was given
    /// ([`Ip36Link::receive_buffer_bytes`]).
    pub receive_buffer: usize,
    /// Bytes of send buffer to ask for.
    pub send_buffer: usize,
    /// Send and receive ECN bits.
    pub ecn: bool,
    /// What to do about datagrams larger than the path carries.
    pub path_mtu: PathMtu,
}

impl Default for Ip36Options {
    fn default() -> Self {
        Self { receive_buffer: 4 << 20, send_buffer: 1 << 20, ecn: true, path_mtu: PathMtu::Discover }
    }
}
