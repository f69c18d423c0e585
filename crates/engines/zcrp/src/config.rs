//! What can be set, with the specification's defaults.

use crate::{Failure, Refused};
use core::time::Duration;
use pinnace_core::{ControllerKind, even_piece};
use pinnace_wire::zcrp::{DEFAULT_CONTROL_BYTES, MAX_CONTROL_BYTES, MAX_UNIT_BYTES, MIN_UNIT_BYTES, TRAILER_BYTES};

/// How often a peer is asked, at least, before its silence means that it has gone.
const QUESTIONS_IN_A_TIMEOUT: u32 = 4;
/// No peer is asked more often for that.
const LEAST_INTERVAL: Duration = Duration::from_millis(1);

/// How large the unit datagrams of a sender are. Fixed for its life (specs/zcrp.md, section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitSize {
    /// `U`, bytes a datagram, 29 to 65,507, whatever becomes of them.
    Fixed(usize),
    /// The same, but less where the path turns out to lose datagrams of that size before any has arrived, as with
    /// [`UnitSize::UpTo`].
    Whole(usize),
    /// At most this many bytes a datagram; chosen when the first message is queued, so that messages of its size fill
    /// trains well ([`UnitSize::for_messages_of`]).
    UpTo(usize),
}

impl UnitSize {
    /// The largest `U` up to `most` with which equal messages of `size` bytes need the fewest system calls, where one
    /// call carries `train` bytes in at most 64 datagrams of one size.
    ///
    /// ```
    /// use pinnace_zcrp::UnitSize;
    /// // 64 KiB and a trailer are too much for one call: eight equal units, seven of them a call.
    /// assert_eq!(UnitSize::for_messages_of(65_536, 65_507, 65_493), 8192 + 28);
    /// // On a small path the last unit is padded, unless that would be much.
    /// assert_eq!(UnitSize::for_messages_of(65_536, 1472, 65_493), 1472);
    /// assert_eq!(UnitSize::for_messages_of(6144, 1472, 65_493), 1024 + 28);
    /// ```
    pub fn for_messages_of(size: u32, most: usize, train: usize) -> usize {
        let most = most.clamp(MIN_UNIT_BYTES, MAX_UNIT_BYTES);
        let size = size as usize;
        // Large messages fill any train, and small paths have small units anyway.
        if most < 16_384 {
            let (message, payload) = (size as u32, most - TRAILER_BYTES);
            let piece = even_piece(message, payload as u32) as usize;
            // So little is padded instead. And the first message may be unlike all others, to which its units are left.
            let is_padded = size.next_multiple_of(payload) - size <= size / 8 || piece * 3 < payload * 2;
            return if is_padded { most } else { piece + TRAILER_BYTES };
        }
        if size > 256 * 1024 || size + TRAILER_BYTES <= train / 8 {
            return most;
        }
        let cost = |units: usize| {
            let unit = size.div_ceil(units) + TRAILER_BYTES;
            let per_call = (train / unit).clamp(1, 64);
            let padded = usize::from(!size.is_multiple_of(units));
            // In 1/64 calls: a call costs about as much as handling 64 units.
            (unit <= most).then_some((units * 64).div_ceil(per_call) + units + 2 * padded)
        };
        let units = (1..=32).min_by_key(|&units| cost(units).unwrap_or(usize::MAX)).unwrap_or(1);
        if cost(units).is_none() { most } else { size.div_ceil(units) + TRAILER_BYTES }
    }
}

/// The configuration of one endpoint. The defaults are the specification's, and safe on the open Internet.
#[derive(Clone, Debug)]
pub struct Config {
    /// Unit datagram size `U`.
    pub unit_size: UnitSize,
    /// The largest control datagram sent, `C`, in bytes: a multiple of 4, 16 to 65,504.
    pub control_bytes: usize,
    /// Units in transit at most (Z-9).
    pub window_units: u32,
    /// Bytes in transit at most, whatever the congestion controller says.
    pub window_bytes: u64,
    /// What bounds the bytes in transit below that.
    pub congestion: ControllerKind,
    /// Bytes of unit datagrams a second at most, whatever the congestion controller says. `None`: only that bounds them.
    pub rate: Option<u64>,
    /// An acknowledgement goes out when at least this many units and [`Config::ack_bytes`] are unreported at the end of
    /// a batch of reads (Z-11). The specification's 16, *or one batch read*: any batch of two units here. Whatever the bytes, at
    /// first after 16 units, and after twice as many each time until the sender is seen to wait.
    pub ack_units: u32,
    /// See [`Config::ack_units`]; 0 leaves the decision to the units.
    pub ack_bytes: u64,
    /// An acknowledgement never waits longer (Z-11).
    pub ack_delay: Duration,
    /// A gap counts as loss when so many later numbers have come (Z-10).
    pub reorder_units: u32,
    /// ... or after this time.
    pub reorder_delay: Duration,
    /// First repetition of a request (Z-13); doubles up to [`Config::request_interval_max`].
    pub request_interval: Duration,
    /// Longest time between repetitions of a request; never more than a quarter of [`Config::peer_timeout`].
    pub request_interval_max: Duration,
    /// Time between idle datagrams (Z-21); never more than a quarter of [`Config::peer_timeout`].
    pub idle_interval: Duration,
    /// The peer counts as gone when nothing came for so long while work was outstanding (Z-19).
    pub peer_timeout: Duration,
    /// Shortest retransmission time-out. The default is that of the open network; a LAN takes `ack_delay` + 1 ms (Z-12).
    pub timeout_floor: Duration,
    /// Messages under way at most, in each direction.
    pub max_messages: usize,
    /// Until the peer has acknowledged something that was sent to it, send it no more than three times the bytes received,
    /// and one unit in transit besides: for an endpoint whose peer introduced itself, maybe in the name of somebody else.
    pub limit_amplification: bool,
    /// Until something else than an introduction has come it is not certain who the peer is: whoever introduced itself may be
    /// forged, so nobody's silence is a failure before (Z-21). For a receiver whose link goes on listening to others.
    pub peer_unproven: bool,
    /// The peer is known to speak of idleness (Z-21) and to have posted before it is sent to: so its silence counts also
    /// while messages wait that have not begun (Z-19). Otherwise that is so from its first flow hint on.
    pub peer_reports_idle: bool,
    /// Where the first sequence number comes from: fresh randomness for every endpoint (Z-6).
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            unit_size: UnitSize::Fixed(1472),
            control_bytes: DEFAULT_CONTROL_BYTES,
            window_units: 64,
            window_bytes: u64::MAX,
            congestion: ControllerKind::Cubic,
            rate: None,
            ack_units: 2,
            ack_bytes: 0,
            ack_delay: Duration::from_millis(5),
            reorder_units: 3,
            reorder_delay: Duration::from_millis(5),
            request_interval: Duration::from_millis(50),
            request_interval_max: Duration::from_secs(1),
            idle_interval: Duration::from_secs(1),
            peer_timeout: Duration::from_secs(10),
            timeout_floor: Duration::from_millis(20),
            max_messages: 1 << 20,
            limit_amplification: false,
            peer_unproven: false,
            peer_reports_idle: false,
            seed: 0,
        }
    }
}

impl Config {
    /// Messages ahead of its next send for which a sender remembers requests (Z-13).
    pub const REQUESTS_AHEAD: u64 = 1024;
    /// Transmissions that a sender remembers at most. Below 2^16, beyond which the receiver drops them (Z-6).
    pub const MAX_TRANSIT: u64 = 1 << 15;

    /// For a closed network: the paper's fixed window, sized for `window_bytes` bytes in transit, and few
    /// acknowledgements.
    #[must_use]
    pub fn for_cluster(mut self, window_bytes: u64) -> Self {
        self.congestion = ControllerKind::Fixed { window: window_bytes };
        self.window_bytes = window_bytes;
        // Small units are bounded by their number: each costs the receiver's kernel about a kilobyte, whatever its size.
        self.window_units = (window_bytes / 512).clamp(64, Self::MAX_TRANSIT / 4) as u32;
        self.ack_units = 1;
        self.ack_bytes = window_bytes / 4;
        self.timeout_floor = self.ack_delay + Duration::from_millis(1);
        self
    }

    /// A peer with nothing to send speaks only when it is asked: that is often enough for a few lost datagrams not to make it
    /// count as gone.
    //= Z-19
    pub(crate) fn asking_in_time(mut self) -> Self {
        let most = (self.peer_timeout / QUESTIONS_IN_A_TIMEOUT).max(LEAST_INTERVAL);
        for interval in [&mut self.request_interval, &mut self.request_interval_max, &mut self.idle_interval] {
            *interval = (*interval).min(most);
        }
        self
    }

    /// Whether a half that has `closed`, or has `queued` messages under way, takes `count` more.
    pub(crate) fn check_room(&self, closed: Option<Failure>, queued: usize, count: usize) -> Result<(), Refused> {
        match closed {
            Some(failure) => Err(Refused::Closed(failure)),
            None if queued.saturating_add(count) > self.max_messages => Err(Refused::TooMany),
            None => Ok(()),
        }
    }

    /// `C`, within its bounds.
    pub(crate) fn control_capacity(&self) -> usize {
        self.control_bytes.clamp(16, MAX_CONTROL_BYTES) & !3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_chosen_to_fill_trains() {
        let choose = |size| UnitSize::for_messages_of(size, 65_507, 65_493);
        assert_eq!(choose(16_384), 8192 + 28);
        for size in [0, 16, 1024, 1 << 20, u32::MAX] {
            assert_eq!(choose(size), 65_507, "{size}");
        }
        for size in 0..300_000u32 {
            let unit = choose(size);
            assert!((MIN_UNIT_BYTES..=65_507).contains(&unit));
        }
    }

    #[test]
    fn small_paths_have_equal_units_that_are_not_small() {
        let choose = |size| UnitSize::for_messages_of(size, 1472, 65_493);
        assert_eq!([2048, 3000, 6144].map(choose), [1024, 1000, 1024].map(|piece| piece + 28));
        // Three units of 483 bytes, or two of 858.
        assert_eq!([1449, 1716].map(choose), [1472, 1472]);
        for size in 0..300_000u32 {
            assert!((28 + 1444 * 2 / 3..=1472).contains(&choose(size)), "{size}");
        }
    }

    #[test]
    fn control_datagrams_stay_within_the_format() {
        let capacity = |control_bytes| Config { control_bytes, ..Config::default() }.control_capacity();
        assert_eq!([capacity(0), capacity(513), capacity(usize::MAX)], [16, 512, 65_504]);
    }
}
