//! How a socket is set up, and records of quality of service to begin with.

use super::{Group, Limits, MAX_BLOCK_BYTES, Qos, SlowSink};
pub(super) use crate::network::Path;
use crate::network::{Profile, random_seed};
use crate::{Error, Idle};
use pinnace_a1::Config;
use pinnace_core::{ControllerKind, even_piece, piece_of_burst, step_below};
use pinnace_link::{FaultOptions, MulticastOptions, UdpOptions};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A record with retransmission: what is lost is sent again. Messages of up to 1 MiB each way, 16 of them under way, blocks
/// as large as the path carries in one piece (of who declares a rate an eighth of the burst at most, or 1,440 bytes), no limit of
/// the rate, and priority 128.
///
/// ```
/// use pinnace::a1::{Qos, reliable};
/// let slow = Qos { send_average: 1_000_000, send_burst: 20_000, ..reliable() };
/// assert!(slow.has_retransmission && slow.block_size == 0, "chosen for the path");
/// ```
pub fn reliable() -> Qos {
    Qos {
        has_retransmission: true,
        priority: 128,
        largest_sent: 1 << 20,
        largest_received: 1 << 20,
        outstanding: 16,
        ..Qos::default()
    }
}

/// A record without retransmission: what is lost is told, and not sent again. Otherwise as [`reliable`].
pub fn raw() -> Qos {
    Qos { has_retransmission: false, ..reliable() }
}

/// Settings of a socket. The defaults are safe anywhere and fast on loopback.
///
/// ```
/// use pinnace::a1::{Options, SlowSink};
/// use std::time::Duration;
/// let options = Options { slow_sink: SlowSink::Drop { patience: Duration::from_secs(2) }, ..Options::default() };
/// assert_eq!(options.linger, Duration::from_secs(5));
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// What kind of network lies between the peers.
    pub profile: Profile,
    /// Congestion controller; by default the profile's: `fixed` (cluster) or `bbr` (Internet).
    pub congestion: Option<ControllerKind>,
    /// What happens to a sink that holds up the others.
    pub slow_sink: SlowSink,
    /// Sinks that can get their data from this IP multicast group.
    pub group: Option<Group>,
    /// How groups are joined, and reached. `None`: none is joined (blocks come over the connection).
    pub multicast: Option<MulticastOptions>,
    /// How long what is queued may take to arrive after its handle was dropped.
    pub linger: Duration,
    /// SYNC goes out so often while there is something to measure, but not more often than every millisecond.
    pub sync_every: Duration,
    /// A peer that was asked and has not been heard of for so long is given up.
    pub silence: Duration,
    /// A peer that has not been heard of for so long is asked, although there is nothing to send to it; 0: never. Whoever
    /// only receives finds out that a peer has died after `silence`, or after this time and half of it.
    pub keep_alive: Duration,
    /// All connections of the socket together send no faster than so many bytes of datagrams a second; 0: no limit. Where
    /// it is the bottleneck, priorities decide who waits.
    pub link_average: u64,
    /// Bytes that leave at once at that rate.
    pub link_burst: u64,
    /// What others may make the socket keep: connections, bytes and more.
    pub limits: Limits,
    /// What a waiting thread does while nothing arrives.
    pub idle: Idle,
    /// Whether a background thread keeps the protocol going while no thread waits.
    pub worker: bool,
    /// The UDP socket's own settings; what they say of ECN does not count: no header of A1's could tell the sender of marks.
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
        let config = Config::default();
        Self {
            profile: Profile::default(),
            congestion: None,
            slow_sink: SlowSink::default(),
            group: None,
            multicast: Some(MulticastOptions::default()),
            linger: Duration::from_secs(5),
            sync_every: config.sync_every,
            silence: config.silence,
            keep_alive: config.idle,
            link_average: config.link_average,
            link_burst: config.link_burst,
            limits: config.limits,
            idle: Idle::default(),
            worker: true,
            udp: UdpOptions::default(),
            capture: None,
            fault: None,
            seed: None,
        }
    }
}

/// Bytes of a datagram beside its block.
const HEADER_BYTES: usize = 32;

/// Blocks are not made smaller than this, which every path carries, whatever the burst.
const LEAST_BLOCK: u32 = 1440;

/// The block of a connection to open where one has ended with [`Failure::Swallowed`](super::Failure::Swallowed) whose blocks had
/// so many bytes; `None`: smaller ones would not help.
///
/// ```
/// use pinnace::a1::smaller_block;
/// assert_eq!([1440, 1168, 516].map(smaller_block), [Some(1168), Some(516), None]);
/// ```
pub fn smaller_block(block_size: u32) -> Option<u32> {
    let header = HEADER_BYTES as u32;
    step_below(block_size.saturating_add(header)).map(|datagram| datagram - header)
}

/// The record, if it names no block, with the largest that a datagram of so many bytes carries; but not a large part of a
/// burst.
//= A-11
pub(super) fn fill(qos: Qos, datagram: usize) -> Qos {
    if qos.block_size > 0 {
        return qos;
    }
    let most = (datagram.saturating_sub(HEADER_BYTES).max(1) as u32).min(MAX_BLOCK_BYTES);
    let directions = [(qos.send_average, qos.send_burst), (qos.receive_average, qos.receive_burst)];
    let burst = directions.into_iter().filter(|(average, _)| *average > 0).map(|(_, burst)| burst).min();
    let paced = burst.map_or(most, |burst| most.min(piece_of_burst(burst.into(), LEAST_BLOCK)));
    let paced = Qos { block_size: paced, ..qos };
    // Messages so long that they cannot be counted in small blocks need large ones.
    let fits = check(&paced).is_ok() && qos.largest_sent.div_ceil(paced.block_size) <= u16::MAX.into();
    if fits { paced } else { Qos { block_size: most, ..qos } }
}

/// As [`fill`], for connections of our own: their longest messages are cut into equal blocks ([`even_piece`]).
pub(super) fn fill_evenly(qos: Qos, datagram: usize) -> Qos {
    let filled = fill(qos, datagram);
    if qos.block_size > 0 {
        return filled;
    }
    Qos { block_size: even_piece(qos.largest_sent, filled.block_size), ..qos }
}

impl Options {
    /// The engine's configuration.
    pub(super) fn config(&self, path: &Path, local: SocketAddr, max_qos: Qos) -> Config {
        let config = Config::default();
        Config {
            max_qos,
            local: super::to_address(local),
            congestion: self.congestion.unwrap_or_else(|| path.congestion(self.profile)),
            link_average: self.link_average,
            link_burst: self.link_burst,
            control_bytes: config.control_bytes.min(path.datagram),
            // Nobody else can send from a loopback address, so nothing is gained by asking for a cookie, which costs a round
            // trip. Until a peer names its connection it is sent three times what came, there as elsewhere.
            validates: !path.is_local,
            sync_every: self.sync_every,
            silence: self.silence,
            idle: self.keep_alive,
            limits: self.limits.clone(),
            seed: self.seed.unwrap_or_else(random_seed),
            ..config
        }
    }

    /// The UDP socket's settings; open to everybody, or connected.
    pub(super) fn udp(&self, open: bool) -> UdpOptions {
        // Who is open answers from the address that a datagram came to.
        UdpOptions { ecn: false, local_address: open, ..self.udp.clone() }
    }
}

/// Checks a record of ours before anything is made of it.
pub(super) fn check(qos: &Qos) -> Result<(), Error> {
    let limit = u64::from(super::WINDOW_LIMIT);
    let window = |largest: u32| u64::from(largest.div_ceil(qos.block_size.max(1))) * u64::from(qos.outstanding);
    let is_possible = (1..=MAX_BLOCK_BYTES).contains(&qos.block_size)
        && window(qos.largest_sent) < limit
        && window(qos.largest_received) < limit;
    if is_possible { Ok(()) } else { Err(Error::CallRefused(super::Refused::Impossible)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_as_large_as_the_path_carries_and_a_closed_network_gets_a_fixed_window() {
        let far = Path { datagram: 1472, receive_buffer: Some(4 << 20), is_local: false };
        let near = Path { datagram: 65_507, receive_buffer: Some(1 << 20), is_local: true };
        assert_eq!((fill(reliable(), far.datagram).block_size, fill(raw(), near.datagram).block_size), (1440, 65_475));
        assert_eq!(fill(Qos { block_size: 7, ..raw() }, 65_507).block_size, 7);
        let paced = |send_burst, largest_sent| Qos { send_average: 1, send_burst, largest_sent, ..raw() };
        let block = |qos, path: &Path| fill(qos, path.datagram).block_size;
        assert_eq!((block(paced(65_536, 1000), &near), block(paced(1 << 20, 1000), &near)), (8192, 65_475));
        assert_eq!((block(paced(4096, 1000), &near), block(paced(65_536, 1000), &far)), (1440, 1440));
        assert_eq!(block(Qos { receive_average: 1, receive_burst: 32_768, ..paced(65_536, 1000) }, &near), 4096);
        for longest in [100 << 20, u32::MAX / 4] {
            let qos = Qos { outstanding: 1, ..paced(4096, longest) };
            assert_eq!(block(qos, &near), 65_475, "of smaller ones there would be too many");
        }
        let options = Options::default();
        let local = "127.0.0.1:7".parse().unwrap();
        let (internet, loopback) = (options.config(&far, local, raw()), options.config(&near, local, raw()));
        assert_eq!((internet.congestion, internet.validates), (ControllerKind::Bbr, true));
        assert_eq!((loopback.congestion, loopback.validates), (ControllerKind::Fixed { window: 512 << 10 }, false));
        assert_eq!((loopback.local.host, loopback.local.port), (0x7F00_0001, 7));
        assert_ne!(internet.seed, loopback.seed);
    }

    #[test]
    fn equal_messages_are_cut_into_equal_blocks_unless_those_are_small() {
        for (size, most, block) in [
            (1440, 1440, 1440),
            (100, 1440, 1440),
            (2048, 1440, 1024),
            (1500, 1440, 750),
            (6144, 1440, 1024),
            // Eleven blocks of 131 bytes would do.
            (1441, 1440, 1440),
            (4099, 1440, 1440),
            (64 << 10, 1440, 1440),
            (64 << 10, 8940, 8192),
            (128 << 10, 65_475, 65_475),
            (0, 1440, 1440),
            (7, 0, 1),
        ] {
            assert_eq!(even_piece(size, most), block, "{size} in {most}");
        }
        let messages = |largest_sent| Qos { largest_sent, ..raw() };
        assert_eq!(fill_evenly(messages(16 << 10), 8972).block_size, 8192);
        assert_eq!(fill_evenly(Qos { block_size: 9, ..messages(16 << 10) }, 8972).block_size, 9, "as it was said");
        let paced = Qos { send_average: 1_000_000, send_burst: 65_536, ..messages(20_000) };
        assert_eq!(fill_evenly(paced, 65_507).block_size, 5000, "of the eighth of a burst");
    }

    #[test]
    fn windows_of_a_million_blocks_are_refused() {
        let huge = Qos { block_size: 65_475, largest_sent: u32::MAX, outstanding: 15, ..reliable() };
        assert!(check(&huge).is_ok());
        assert!(check(&Qos { outstanding: 16, ..huge }).is_err());
        assert!(check(&Qos { block_size: 1440, outstanding: 1, ..huge }).is_err());
        assert!(check(&reliable()).is_err(), "no block size");
    }
}
