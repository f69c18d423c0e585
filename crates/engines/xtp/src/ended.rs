//! Associations that have ended at once (specs/xtp.md, 3.7 and 3.8), by the peer's END, a reset or a DIAG: a FIRST of theirs
//! that the network has kept, or doubled, is no new one.
//!
//! Nobody has a time-wait then, and answers nothing more. What is kept for as long as one would last is only what
//! tells a repeated FIRST from a new one: where it comes from, its key, and where its stream starts. Always true: no more
//! are kept than [`Limits::ended`](crate::Limits); the oldest give way.
//= X-10

use pinnace_core::{Address, Time};
use std::collections::{BTreeMap, VecDeque};

/// Where a FIRST came from, and its key.
type Name = (Address, u64);

/// The associations that have ended so.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Where the stream started, and until when that is kept.
    starts: BTreeMap<Name, (u64, Time)>,
    /// In order of their ends.
    order: VecDeque<(Name, Time)>,
}

impl Ended {
    /// The association of the FIRST of this name, whose stream started there, has ended; that is known until then.
    pub(crate) fn remember(&mut self, now: Time, name: Name, start: u64, until: Time, most: usize) {
        while self.order.front().is_some_and(|(_, until)| *until <= now || self.order.len() >= most) {
            self.forget_oldest();
        }
        if most > 0 {
            self.starts.insert(name, (start, until));
            self.order.push_back((name, until));
        }
    }

    fn forget_oldest(&mut self) {
        let Some((name, until)) = self.order.pop_front() else { return };
        if self.starts.get(&name).is_some_and(|kept| kept.1 == until) {
            self.starts.remove(&name);
        }
    }

    /// Whether a FIRST repeats that of an association that has ended.
    pub(crate) fn has(&self, now: Time, name: &Name, start: u64) -> bool {
        self.starts.get(name).is_some_and(|kept| kept.0 == start && now < kept.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= X-10 test
    #[test]
    fn no_more_are_kept_than_allowed_and_none_for_longer() {
        let at = |second: u64| Time::from_nanos(second * 1_000_000_000);
        let name = |key: u64| (Address::Node(1), key);
        let mut ended = Ended::default();
        for key in 1..=10 {
            ended.remember(at(key), name(key), 7, at(key + 30), 4);
        }
        assert_eq!((ended.starts.len(), ended.order.len()), (4, 4));
        assert!(!ended.has(at(10), &name(6), 7) && ended.has(at(10), &name(7), 7));
        assert!(!ended.has(at(10), &name(7), 8), "another start is a new association");
        assert!(ended.has(at(36), &name(7), 7) && !ended.has(at(37), &name(7), 7));
        // The same name again counts for itself.
        ended.remember(at(11), name(10), 8, at(41), 4);
        for key in 11..=13 {
            ended.remember(at(12), name(key), 7, at(42), 4);
        }
        assert!(ended.has(at(12), &name(10), 8));
        ended.remember(at(60), name(14), 7, at(90), 4);
        assert_eq!((ended.starts.len(), ended.order.len()), (1, 1), "what is over goes");
    }
}
