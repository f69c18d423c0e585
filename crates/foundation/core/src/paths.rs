//! The paths that carry less than usual, by the hosts that they lead to; and what to try where large datagrams get lost.
//!
//! Reports of them can be forged (ICMP), so one costs only the packets towards that host, no packet gets smaller than every
//! path carries, and after a while larger ones are tried again, as path MTU discovery does (RFC 8201, 4). Always true: no
//! more than [`MOST`] paths are known, in the order in which they were last told of; if there are more, the oldest is
//! forgotten, and found out again.

use crate::{Address, Time};
use core::time::Duration;
use std::collections::VecDeque;

/// Nearly every path carries datagrams of so many bytes (RFC 9000, 14).
pub const SAFE_DATAGRAM: u32 = 1200;
/// Every path carries datagrams of so many bytes: 576 (RFC 791) less the headers of IP and UDP.
pub const SMALLEST_DATAGRAM: u32 = 548;

/// Larger ones than this are tried no longer where those with so many bytes get lost in silence; `None`: every path carries
/// them.
///
/// ```
/// use pinnace_core::step_below;
/// assert_eq!([8972, 1201, 1200, 548].map(step_below), [Some(1200), Some(1200), Some(548), None]);
/// ```
pub fn step_below(bytes: u32) -> Option<u32> {
    [SAFE_DATAGRAM, SMALLEST_DATAGRAM].into_iter().find(|step| bytes > *step)
}

/// Few paths are small; whoever forges many of them makes each cost a refused datagram again.
const MOST: usize = 64;
/// For so long a path is taken to be small (RFC 8201, 5.3).
const KEPT: Duration = Duration::from_secs(600);

/// See the source of this module for what always holds.
///
/// ```
/// use pinnace_core::{Address, SmallPaths, Time};
/// let mut paths = SmallPaths::default();
/// let [far, near] = [Address::Node(1), Address::Node(2)];
/// paths.on_too_large(Time::ZERO, far, Some(1000), 548, 1472);
/// assert_eq!((paths.carries(far, 1472), paths.carries(near, 1472)), (1000, 1472));
/// ```
#[derive(Clone, Debug, Default)]
pub struct SmallPaths {
    known: VecDeque<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    to: Address,
    bytes: usize,
    told_at: Time,
}

impl SmallPaths {
    /// A datagram was too large for the path to `to` ([`PathEvent::TooLarge`](crate::PathEvent::TooLarge)). It is taken to
    /// carry `smallest` bytes whatever is told, and never more than it did; without a number it is tried with a quarter less.
    pub fn on_too_large(&mut self, now: Time, to: Address, fits: Option<u32>, smallest: usize, usual: usize) {
        let carried = self.carries(to, usual);
        let fits = fits.map_or(carried / 4 * 3, |fits| fits as usize);
        let (to, bytes) = (host(to), fits.max(smallest).min(carried));
        self.known.retain(|known| known.to != to);
        if self.known.len() >= MOST {
            self.known.pop_front();
        }
        self.known.push_back(Known { to, bytes, told_at: now });
    }

    /// Forgets what was told of too long ago.
    pub fn expire(&mut self, now: Time) {
        while self.known.front().is_some_and(|oldest| now.since(oldest.told_at) >= KEPT) {
            self.known.pop_front();
        }
    }

    /// Bytes of the largest datagram for `to`, where `usual` is what other paths carry.
    pub fn carries(&self, to: Address, usual: usize) -> usize {
        if self.known.is_empty() {
            return usual;
        }
        let to = host(to);
        self.known.iter().find(|known| known.to == to).map_or(usual, |known| known.bytes.min(usual))
    }
}

/// All ports of a host are at the end of one path. (On two links the same address may be two hosts.)
fn host(address: Address) -> Address {
    match address {
        Address::Inet(mut address) => {
            address.set_port(0);
            Address::Inet(address)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    fn at(secs: u64) -> Time {
        Time::ZERO + Duration::from_secs(secs)
    }

    #[test]
    fn a_path_gets_smaller_and_never_too_small() {
        let (mut paths, to) = (SmallPaths::default(), Address::Node(1));
        let mut tell = |fits| {
            paths.on_too_large(at(0), to, fits, 548, 1472);
            paths.carries(to, 1472)
        };
        assert_eq!([Some(9000), Some(1200), Some(1300), None, Some(0)].map(&mut tell), [1472, 1200, 1200, 900, 548]);
        assert_eq!([None, Some(u32::MAX)].map(&mut tell), [548, 548]);
        // Whoever was told to send less than that from the start does.
        assert_eq!(paths.carries(to, 300), 300);
        paths.on_too_large(at(0), to, None, 548, 300);
        assert_eq!(paths.carries(to, 1472), 300);
    }

    #[test]
    fn all_ports_of_a_host_are_on_one_path() {
        let mut paths = SmallPaths::default();
        for addresses in
            [["10.0.0.1:7", "10.0.0.1:8", "10.0.0.2:7"], ["[fe80::1%2]:7", "[fe80::1%2]:8", "[fe80::1%3]:7"]]
        {
            let [one, other, elsewhere] =
                addresses.map(|address| Address::Inet(address.parse::<SocketAddr>().expect("an address")));
            paths.on_too_large(at(0), one, Some(1000), 548, 1472);
            assert_eq!([one, other, elsewhere].map(|to| paths.carries(to, 1472)), [1000, 1000, 1472]);
        }
    }

    #[test]
    fn a_path_is_tried_again_after_ten_minutes() {
        let (mut paths, [first, second]) = (SmallPaths::default(), [Address::Node(1), Address::Node(2)]);
        for (secs, to) in [(0, first), (100, second), (200, first)] {
            paths.on_too_large(at(secs), to, Some(1000), 548, 1472);
        }
        for (secs, carried) in [(699, [1000, 1000]), (700, [1000, 1472]), (799, [1000, 1472]), (800, [1472, 1472])] {
            paths.expire(at(secs));
            assert_eq!([first, second].map(|to| paths.carries(to, 1472)), carried, "{secs}");
        }
    }

    #[test]
    fn the_oldest_of_too_many_is_forgotten() {
        let mut paths = SmallPaths::default();
        for number in 0..=MOST as u32 {
            paths.on_too_large(at(0), Address::Node(number), Some(1000), 548, 1472);
        }
        assert_eq!(paths.known.len(), MOST);
        assert_eq!([0, 1].map(|number| paths.carries(Address::Node(number), 1472)), [1472, 1000]);
    }
}
