//! The destinations whose path has refused to segment, of a link that hears everybody.
//!
//! Always true: no more than [`MOST`] are remembered; if there are more, the one that was noted first is forgotten, and
//! found out again.

use std::collections::VecDeque;
use std::net::IpAddr;

/// Few paths refuse; whoever forges many destinations makes them cost a refused call each.
const MOST: usize = 64;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Unsegmented {
    /// With the size of datagram from which on it refuses.
    known: VecDeque<(IpAddr, usize)>,
}

impl Unsegmented {
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Datagrams smaller than this may be segmented on their way to `to`.
    pub(super) fn below(&self, to: IpAddr) -> usize {
        self.known.iter().find(|(known, _)| *known == to).map_or(usize::MAX, |(_, from)| *from)
    }

    /// Datagrams of `from` bytes and more were refused to be segmented on their way to `to`.
    pub(super) fn note(&mut self, to: IpAddr, from: usize) {
        if let Some((_, known)) = self.known.iter_mut().find(|(known, _)| *known == to) {
            *known = from.min(*known);
            return;
        }
        if self.known.len() >= MOST {
            self.known.pop_front();
        }
        self.known.push_back((to, from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_oldest_of_too_many_is_forgotten() {
        let host = |number: usize| IpAddr::from(Ipv4Addr::from(number as u32));
        let mut table = Unsegmented::default();
        assert!(table.is_empty() && table.below(host(1)) == usize::MAX);
        table.note(host(1), 900);
        table.note(host(1), 1200);
        assert_eq!(table.below(host(1)), 900);
        table.note(host(1), 0);
        assert_eq!(table.below(host(1)), 0);
        for number in 2..MOST + 2 {
            table.note(host(number), 700);
        }
        assert_eq!((table.known.len(), table.below(host(1)), table.below(host(2))), (MOST, usize::MAX, 700));
    }
}
