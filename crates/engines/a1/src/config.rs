//! What an engine is told when it is made.

use core::time::Duration;
use pinnace_core::ControllerKind;
use pinnace_wire::a1::{Address, Qos};

/// How an engine works.
#[derive(Clone, Debug)]
pub struct Config {
    /// The most that any connection here may have.
    pub max_qos: Qos,
    /// What this end calls itself in OPEN. The port is what others name; the host is informative.
    pub local: Address,
    /// Congestion control of every connection.
    pub congestion: ControllerKind,
    /// All connections together send no faster than this, bytes of datagrams a second; 0: no limit. Where it is the
    /// bottleneck, priorities decide who waits.
    pub link_average: u64,
    /// Bytes that leave at once at that rate.
    pub link_burst: u64,
    /// Bytes of the largest control datagram.
    pub control_bytes: usize,
    /// The link may have added bytes behind a datagram (Ethernet).
    pub is_padded: bool,
    /// An OPEN is only believed with a cookie, which shows that its sender receives at its address. Without, a stranger is
    /// sent no more than three times what came from there.
    pub validates: bool,
    /// When the network reports that nobody is at the link's one peer, connections whose OPEN nobody has answered fail.
    /// (TCP does so, too. A report is easier to forge than a REJECT.)
    pub trusts_reports: bool,
    /// SYNC goes out so often while there is something to measure, but not more often than every millisecond.
    pub sync_every: Duration,
    /// Who has not been heard of for so long is asked with SYNC, although there is nothing to send. 0: never.
    pub idle: Duration,
    /// Who is asked and has not been heard of for so long is given up. Of who is asked only whether it is there, what it was
    /// silent before counts, too, but for no more than half of it. At least 8 ms.
    pub silence: Duration,
    /// A CLOSE is answered for so long after the end.
    pub time_wait: Duration,
    /// What others may make us keep.
    pub limits: Limits,
    /// Where identifiers, first numbers and cookies come from: fresh randomness for every engine.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_qos: Qos {
                has_checksum: false,
                has_retransmission: true,
                priority: 128,
                block_size: 1440,
                largest_sent: 1 << 20,
                largest_received: 1 << 20,
                outstanding: 16,
                ..Qos::default()
            },
            local: Address::default(),
            congestion: ControllerKind::Bbr,
            link_average: 0,
            link_burst: 0,
            control_bytes: 1232,
            is_padded: false,
            validates: true,
            trusts_reports: false,
            sync_every: Duration::from_millis(100),
            idle: Duration::from_secs(30),
            silence: Duration::from_secs(15),
            time_wait: Duration::from_secs(10),
            limits: Limits::default(),
            seed: 0,
        }
    }
}

/// What others may make an engine keep.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections, those that only answer CLOSE included.
    pub connections: usize,
    /// Bytes of messages that the application has not taken. What [`Config::max_qos`] says that a message may have counts, if
    /// it is more: a message for which there is never room would be repeated until its sender gives up.
    pub bytes: u64,
    /// Sets of sinks.
    pub casts: usize,
    /// REJECTs that wait to leave.
    pub replies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 65_536, bytes: 1 << 30, casts: 1024, replies: 256 }
    }
}
