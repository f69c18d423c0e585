//! What can be set for all contexts of an engine.

use core::net::IpAddr;
use core::time::Duration;
use pinnace_core::ControllerKind;
use pinnace_wire::xtp::{self, Codec, Options};

/// The configuration of an engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// How packets are laid out.
    pub codec: Codec,
    /// The largest datagram of the path, in bytes: what a packet with all its headers must fit.
    pub datagram_bytes: usize,
    /// What bounds the bytes in transit; `Fixed` is the paper's behaviour.
    pub congestion: ControllerKind,
    /// The most bytes that leave at once, where sending is paced.
    pub burst: u64,
    /// Our address, if the link is bound to one: a FIRST for another host is not for us.
    pub local: Option<IpAddr>,
    /// Our port in address segments.
    pub local_port: u16,
    /// The link may add bytes behind a packet (Ethernet).
    pub is_padded: bool,
    /// Checksums of what arrives are verified. Off only where the link's suffice.
    pub verifies: bool,
    /// There are messages and tags (EOM, BTAG). Off where streams are bytes and nothing else: then none are sent, and those
    /// of what arrives are ignored.
    pub has_messages: bool,
    /// There are streams to groups. Off: a JCNTL is of a type that nobody knows here.
    pub has_groups: bool,
    /// When the peer's host reports that nobody listens, associations that were never answered end at once. (TCP does so,
    /// too. A report is easier to forge than a DIAG.)
    pub trusts_reports: bool,
    /// A peer that was heard of is given up by CTIMER and CTIMEOUT alone, and not when WTIMER has expired so often in a
    /// row: where round trips are short, that takes less than a second, and a process may stop for longer.
    pub is_patient: bool,
    /// An application that answers at once has so long to do so before a status that is asked for leaves without its data:
    /// 0, or less than it takes to cross a network. Worth it where nobody sleeps.
    pub courtesy: Duration,
    /// The options of every DIAG.
    pub diag_options: Options,
    /// Streams that are received lie in pieces of storage of so many bytes each, which the driver allocates one after the
    /// other, and the application may take ([`Xtp::take_area`](crate::Xtp::take_area)), instead of in a ring. 0: in a ring.
    pub area_bytes: u32,
    /// Where little is taken at a time they become smaller, down to so many bytes each; a packet lies in two at most.
    pub least_area_bytes: u32,
    /// Windows double each time that the application has consumed a quarter of one and keeps up with what comes, up to so
    /// many bytes. 0: they stay as they are. So do those of other services than transactions and connections, and those that
    /// the control block gives another size than the usual 262,144 bytes.
    pub most_window: u32,
    /// Until a peer has shown that it receives at its address, it is sent at most three times what came from there, each
    /// datagram counted with 28 bytes of lower headers. Off for tests alone.
    pub validates: bool,
    /// What others may make us keep.
    pub limits: Limits,
    /// Where keys, first numbers and syncs come from: fresh randomness for every engine.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            codec: Codec::Xtp40,
            datagram_bytes: 1472,
            congestion: ControllerKind::Bbr,
            burst: 65_535,
            local: None,
            local_port: 0,
            is_padded: false,
            verifies: true,
            has_messages: true,
            has_groups: true,
            trusts_reports: false,
            courtesy: Duration::ZERO,
            area_bytes: 0,
            least_area_bytes: 0,
            most_window: 0,
            is_patient: false,
            diag_options: Options::NONE,
            validates: true,
            limits: Limits::default(),
            seed: 0,
        }
    }
}

/// What others may make an engine keep.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Contexts, those in time-wait included. At the limit, those that have been in time-wait for longest give way.
    pub contexts: usize,
    /// Accepted contexts whose peer has not yet shown that it is there. At the limit, the one idle for longest gives way.
    pub half_open: usize,
    /// Bytes of receive rings and datagrams that the application has not released. Contexts whose peer has not yet shown that
    /// it is there get no ring of the last quarter.
    pub bytes: u64,
    /// Datagrams that the application has not taken, empty ones included.
    pub datagrams: u64,
    /// Spans beyond a gap, in one context.
    pub spans: usize,
    /// Ends of messages that are not consumed, in one context. By default as many as there are bytes, for all that alloc
    /// allows may be messages of a byte each, and whoever finds no room for the ends of those seems to receive nothing. They
    /// take no more than half a byte of memory for each byte of the receive ring. Of tags no more than 4,096 are kept.
    pub boundaries: usize,
    /// Streams to groups that are received.
    pub members: usize,
    /// Streams to groups that are heard, and not received: asked to let us join, or left.
    pub strangers: usize,
    /// Listeners.
    pub listeners: usize,
    /// Associations that the peer has closed, and whose FIRST may still come again.
    pub ended: usize,
    /// Resets that are said again; what goes beyond is said once.
    pub farewells: usize,
    /// DIAGs a second.
    pub diags_per_second: u64,
    /// A receive ring that is empty for so long is given back.
    pub ring_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            contexts: 131_072,
            half_open: 4096,
            bytes: 1 << 30,
            datagrams: 65_536,
            spans: 1024,
            boundaries: xtp::MAX_WINDOW as usize,
            members: 1024,
            strangers: 256,
            listeners: 1024,
            ended: 16_384,
            farewells: 256,
            diags_per_second: 100,
            ring_idle: Duration::from_secs(1),
        }
    }
}
