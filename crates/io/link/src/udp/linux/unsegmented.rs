//! The destinations whose path has refused to segment, of a link: its peer, or some of everybody that it hears.
//!
//! Always true: no more than [`MOST`] are remembered, in the order in which they last refused; if there are more, the oldest
//! is forgotten, and found out again. So is what refused [`KEPT`] ago: a path that has changed is used as it is now.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Few paths refuse; whoever forges many destinations makes them cost a refused call each.
const MOST: usize = 64;
/// As long as the kernel believes what it was told of a path's MTU (RFC 8201, 5.3).
const KEPT: Duration = Duration::from_secs(600);

/// A path, and from which size of datagram on it refuses.
#[derive(Debug)]
struct Known {
    to: IpAddr,
    from: usize,
    at: Instant,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Unsegmented {
    known: VecDeque<Known>,
}

impl Unsegmented {
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Datagrams smaller than this may be segmented on their way to `to`.
    pub(super) fn below(&mut self, now: Instant, to: IpAddr) -> usize {
        while self.known.front().is_some_and(|oldest| now.saturating_duration_since(oldest.at) >= KEPT) {
            self.known.pop_front();
        }
        self.known.iter().find(|known| known.to == to).map_or(usize::MAX, |known| known.from)
    }

    /// Whether nothing was segmented on its way to `to` when that was tried last.
    pub(super) fn refuses_all(&self, to: IpAddr) -> bool {
        self.known.iter().any(|known| known.to == to && known.from == 0)
    }

    /// Datagrams of `from` bytes and more were refused to be segmented on their way to `to`.
    pub(super) fn note(&mut self, now: Instant, to: IpAddr, from: usize) {
        let from = from.min(self.below(now, to));
        self.known.retain(|known| known.to != to);
        if self.known.len() >= MOST {
            self.known.pop_front();
        }
        self.known.push_back(Known { to, from, at: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn host(number: usize) -> IpAddr {
        IpAddr::from(Ipv4Addr::from(number as u32))
    }

    #[test]
    fn the_oldest_of_too_many_is_forgotten() {
        let now = Instant::now();
        let mut table = Unsegmented::default();
        assert!(table.is_empty() && table.below(now, host(1)) == usize::MAX);
        table.note(now, host(1), 900);
        table.note(now, host(1), 1200);
        assert_eq!(table.below(now, host(1)), 900);
        table.note(now, host(1), 0);
        assert_eq!(table.below(now, host(1)), 0);
        assert!(table.refuses_all(host(1)) && !table.refuses_all(host(2)));
        for number in 2..MOST + 2 {
            table.note(now, host(number), 700);
        }
        let sizes = [1, 2].map(|number| table.below(now, host(number)));
        assert_eq!((table.known.len(), sizes), (MOST, [usize::MAX, 700]));
    }

    #[test]
    fn a_path_is_tried_again_after_ten_minutes() {
        let begun = Instant::now();
        let at = |secs| begun + Duration::from_secs(secs);
        let mut table = Unsegmented::default();
        for (secs, to) in [(0, 1), (100, 2), (200, 1)] {
            table.note(at(secs), host(to), 700);
        }
        for (secs, sizes) in
            [(699, [700, 700]), (700, [700, usize::MAX]), (799, [700, usize::MAX]), (800, [usize::MAX; 2])]
        {
            assert_eq!([1, 2].map(|to| table.below(at(secs), host(to))), sizes, "{secs}");
        }
        assert!(table.is_empty());
        // What it refused then does not count any more.
        table.note(at(900), host(1), 1200);
        assert_eq!(table.below(at(900), host(1)), 1200);
    }
}
