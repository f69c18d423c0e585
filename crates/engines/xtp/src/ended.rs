//! Associations that have ended at once (specs/xtp.md, 3.7 and 3.8), by the peer's END, a reset or a DIAG: a FIRST of theirs
//! that the network has kept, or doubled, is no new one.
//!
//! Nobody has a time-wait then. What is kept for as long as one would last is only what tells a repeated FIRST from a new one:
//! where it comes from, its key, and where its stream starts; and whether the peer has ended it, who needs no answer: who
//! repeats a FIRST of what we have ended has not heard so. Always true: no more are kept than [`Limits::ended`](crate::Limits); the oldest give way.
//= X-10

use pinnace_core::{Address, Time};
use std::collections::{BTreeMap, VecDeque};

/// Where a FIRST came from, and its key.
type Name = (Address, u64);

/// Who has ended an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// The peer, who has said so.
    Peer,
    /// This end; the peer may not have heard of it.
    Us,
}

/// What is known of an association.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// Where its stream started.
    start: u64,
    until: Time,
    by: EndedBy,
}

/// The associations that have ended so.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    starts: BTreeMap<Name, Kept>,
    /// In order of their ends.
    order: VecDeque<(Name, Time)>,
}

impl Ended {
    /// The association of the FIRST of this name, whose stream started there, has ended; that is known until then.
    pub(crate) fn remember(&mut self, now: Time, name: Name, (start, by): (u64, EndedBy), until: Time, most: usize) {
        while self.order.front().is_some_and(|(_, until)| *until <= now || self.order.len() >= most) {
            self.forget_oldest();
        }
        if most > 0 {
            self.starts.insert(name, Kept { start, until, by });
            self.order.push_back((name, until));
        }
    }

    fn forget_oldest(&mut self) {
        let Some((name, until)) = self.order.pop_front() else { return };
        if self.starts.get(&name).is_some_and(|kept| kept.until == until) {
            self.starts.remove(&name);
        }
    }

    /// Who has ended the association whose FIRST this one repeats, if it does.
    pub(crate) fn by(&self, now: Time, name: &Name, start: u64) -> Option<EndedBy> {
        self.starts.get(name).filter(|kept| kept.start == start && now < kept.until).map(|kept| kept.by)
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
        let by = EndedBy::Peer;
        let has = |ended: &Ended, now, key, start| ended.by(now, &name(key), start) == Some(by);
        for key in 1..=10 {
            ended.remember(at(key), name(key), (7, by), at(key + 30), 4);
        }
        assert_eq!((ended.starts.len(), ended.order.len()), (4, 4));
        assert!(!has(&ended, at(10), 6, 7) && has(&ended, at(10), 7, 7));
        assert!(!has(&ended, at(10), 7, 8), "another start is a new association");
        assert!(has(&ended, at(36), 7, 7) && !has(&ended, at(37), 7, 7));
        // The same name again counts for itself.
        ended.remember(at(11), name(10), (8, by), at(41), 4);
        for key in 11..=13 {
            ended.remember(at(12), name(key), (7, by), at(42), 4);
        }
        assert!(has(&ended, at(12), 10, 8));
        ended.remember(at(60), name(14), (7, by), at(90), 4);
        assert_eq!((ended.starts.len(), ended.order.len()), (1, 1), "what is over goes");
    }
}
