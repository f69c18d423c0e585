//! How large packets and windows are, where nobody says (specs/vrp.md, sections 2 and 6).
//!
//! Always true: a packet fits the path in one piece; a window is a power of two from 64 to 16,384.

use pinnace_core::ControllerKind;
use pinnace_vrp::Terms;
use pinnace_zcrp::UnitSize;
use std::time::Duration;

/// Bytes of a data packet's header.
pub(super) const HEADER_BYTES: usize = 6;
/// The largest UDP datagram over IPv4.
const MOST_DATAGRAM_BYTES: usize = 65_507;
/// The largest `P`: a UDP datagram less the header.
const MOST_PACKET_BYTES: usize = MOST_DATAGRAM_BYTES - HEADER_BYTES;
/// The specification's packet. No contract makes packets smaller but one whose run is less than two of them: headers would
/// cost more than its fineness is worth.
const FINE_PACKET_BYTES: u64 = 2048;
/// Nothing makes packets smaller than this.
const LEAST_PACKET_BYTES: u64 = 256;
/// What a ZCRP unit has for a trailer: see [`packet_bytes`].
const TRAILER_BYTES: usize = 28;

/// The smallest window chosen, and the one that needs no word in the frame's header.
pub(super) const LEAST_WINDOW: u64 = 64;
/// The largest window there is.
const MOST_WINDOW: u64 = 16_384;

/// Whether anything may be lost.
fn allows_loss(terms: &Terms) -> bool {
    terms.rate.unwrap_or(0) > 0 && terms.run_bytes.unwrap_or(0) > 0
}

/// The largest `P` on a path that carries datagrams of `datagram` bytes.
pub(crate) fn largest(datagram: usize) -> u16 {
    datagram.saturating_sub(HEADER_BYTES).clamp(1, MOST_PACKET_BYTES) as u16
}

/// `P` for a frame of `size` bytes on a path that carries packets of `largest`, where one call sends `train` bytes.
pub(crate) fn packet_bytes(size: u64, terms: &Terms, largest: u16, train: usize) -> u16 {
    let mut most = u64::from(largest);
    if allows_loss(terms) {
        let run = terms.run_bytes.unwrap_or(0);
        // The run is kept in whole packets: four of them, or two, or one.
        most = most.min(match run {
            4096.. => (run / 4).max(FINE_PACKET_BYTES),
            2048.. => run / 2,
            _ => run.max(LEAST_PACKET_BYTES),
        });
        // A frame of which a tenth may be lost has at least forty packets, so that four may.
        let share = size.saturating_mul(u64::from(terms.rate.unwrap_or(0))) / (4 * 255);
        most = most.min(share.max(FINE_PACKET_BYTES));
    }
    // The costs of a call and of a packet are those of ZCRP; with its longer trailer its choice fits here, too.
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let unit = UnitSize::for_messages_of(size, most as usize + TRAILER_BYTES, train);
    // The largest datagram is filled to the last byte: the system lays datagrams into pieces of 32 KiB one behind the other, and
    // with no room left between them each begins at a page. Otherwise those that follow move through the page about as far as
    // their bytes move through the application's, and some processors copy to less than 32 bytes behind the same place in a
    // page at a fifth of their speed.
    let packet = if unit == MOST_DATAGRAM_BYTES { most as usize } else { unit.saturating_sub(TRAILER_BYTES) };
    packet.clamp(1, most as usize) as u16
}

/// What is known of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    /// The congestion controller.
    pub(super) congestion: ControllerKind,
    /// Bytes that it allows in flight.
    pub(super) in_flight: u64,
    /// Bytes a second that it, or the application, allows.
    pub(super) rate: Option<u64>,
    /// The smoothed round trip.
    pub(super) round_trip: Option<Duration>,
}

impl Capacity {
    /// Bytes that a single frame should be able to have in flight.
    fn bytes(&self) -> u64 {
        match self.congestion {
            // Nothing else bounds what is in flight: the paper's window does.
            ControllerKind::Fixed { window: u64::MAX } => self.product(),
            ControllerKind::Fixed { window } => window,
            // Twice: a frame that is held back by its window shows the controller no more of the path.
            _ => self.in_flight.saturating_mul(2).max(self.product()),
        }
    }

    /// Rate times round trip.
    fn product(&self) -> u64 {
        let (Some(rate), Some(round_trip)) = (self.rate, self.round_trip) else { return 0 };
        u64::try_from(u128::from(rate) * round_trip.as_nanos() / 1_000_000_000).unwrap_or(u64::MAX)
    }
}

/// `W` for a frame of `size` bytes in packets of `packet_bytes`.
pub(super) fn window(size: u64, terms: &Terms, packet_bytes: u16, capacity: &Capacity) -> u16 {
    let packet = u64::from(packet_bytes.max(1));
    let packets = size.div_ceil(packet);
    let unbounded = capacity.congestion == ControllerKind::Fixed { window: u64::MAX };
    let wanted = if allows_loss(terms) {
        // A quarter of a long frame: the first one on a path should not have to find out in windows of 64 what the path
        // carries. Its contract is still kept four times over.
        capacity.bytes().div_ceil(packet).max(if unbounded { 0 } else { packets / 4 })
    } else if unbounded {
        capacity.bytes().div_ceil(packet)
    } else {
        // The contract does not speak of it: the congestion controller alone bounds what is in flight.
        packets
    };
    // More than the frame has is of no use.
    wanted.min(packets).clamp(LEAST_WINDOW, MOST_WINDOW).next_power_of_two() as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERNET: u16 = 1466;
    const LOOPBACK: u16 = 65_501;
    const TRAIN: usize = 65_493;

    fn terms(rate: u8, run_bytes: u64) -> Terms {
        Terms { rate: Some(rate), run_bytes: Some(run_bytes), ..Terms::default() }
    }

    fn capacity(in_flight: u64) -> Capacity {
        Capacity { congestion: ControllerKind::Bbr, in_flight, rate: None, round_trip: None }
    }

    #[test]
    fn packets_fill_the_path_and_are_small_where_the_contract_is_fine() {
        let any = u64::MAX;
        assert_eq!([largest(1472), largest(65_507), largest(0)], [INTERNET, LOOPBACK, 1]);
        assert_eq!(packet_bytes(100_000, &terms(64, 4000), INTERNET, TRAIN), INTERNET);
        assert_eq!(packet_bytes(100_000, &terms(64, 4000), LOOPBACK, TRAIN), 2000, "two in a row");
        assert_eq!(packet_bytes(100_000, &terms(64, 5000), LOOPBACK, TRAIN), 2048, "two in a row");
        assert_eq!(packet_bytes(100_000, &terms(64, 2600), INTERNET, TRAIN), 1300, "two in a row");
        assert_eq!(packet_bytes(100_000, &terms(64, 2000), INTERNET, TRAIN), INTERNET, "one in a row");
        assert_eq!(packet_bytes(100_000, &terms(64, 500), INTERNET, TRAIN), 500, "one in a row");
        assert_eq!(packet_bytes(100_000, &terms(64, 10), INTERNET, TRAIN), 256, "none in a row");
        assert_eq!(packet_bytes(1 << 20, &Terms::reliable(), LOOPBACK, TRAIN), 65_501);
        assert_eq!(packet_bytes(1 << 20, &terms(0, any), LOOPBACK, TRAIN), 65_501);
        assert_eq!(packet_bytes(1 << 20, &terms(255, 100_000), LOOPBACK, TRAIN), 25_000);
        // A tenth of the frame is at least four packets.
        let tenth = u64::from(packet_bytes(1 << 20, &terms(26, any), LOOPBACK, TRAIN));
        assert!((1 << 20) / tenth >= 39 && tenth > 20_000, "{tenth}");
        assert_eq!(packet_bytes(20_000, &terms(26, any), LOOPBACK, TRAIN), 2048);
        for size in [0, 1, 255, 256, 65_536, 100_000, u64::MAX] {
            for path in [1, 100, 548, INTERNET, 8966, LOOPBACK] {
                for terms in [Terms::reliable(), terms(26, 1), terms(1, any), terms(255, 1_000_000)] {
                    let packet = packet_bytes(size, &terms, path, TRAIN);
                    assert!((1..=path).contains(&packet), "{size} {path} {terms:?}");
                }
            }
        }
    }

    #[test]
    fn windows_cover_the_path_and_are_powers_of_two() {
        let window = |size, terms, capacity| window(size, terms, INTERNET, &capacity);
        let (tenth, all) = (terms(26, u64::MAX), Terms::reliable());
        assert_eq!(window(100_000, &tenth, capacity(14_720)), 64);
        assert_eq!(window(2_700_000, &tenth, capacity(14_720)), 512, "a quarter of the frame");
        assert_eq!(window(2_700_000, &tenth, capacity(1_250_000)), 2048, "what is in flight, twice");
        assert_eq!(window(50_000_000, &tenth, capacity(u64::MAX)), 16_384);
        assert_eq!(window(0, &tenth, capacity(u64::MAX)), 64);
        // Where nothing may be lost, nothing is said by the window.
        assert_eq!([window(100_000, &all, capacity(0)), window(50_000_000, &all, capacity(0))], [128, 16_384]);
        // The paper's, and one that is made for a rate and a round trip: 12.5 MB/s times 60 ms are 512 packets.
        let paper = Capacity { congestion: ControllerKind::Fixed { window: u64::MAX }, ..capacity(u64::MAX) };
        assert_eq!([window(50_000_000, &tenth, paper), window(50_000_000, &all, paper)], [64, 64]);
        let known = Capacity { rate: Some(12_500_000), round_trip: Some(Duration::from_millis(60)), ..paper };
        assert_eq!(window(50_000_000, &tenth, known), 512);
        // A closed network's.
        let cluster = Capacity { congestion: ControllerKind::Fixed { window: 2 << 20 }, ..capacity(2 << 20) };
        assert_eq!(window(1_000_000, &tenth, cluster), 1024);
    }
}
