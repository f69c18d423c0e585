//! Resets, said again: nobody answers END (specs/xtp.md, 3.8), so nobody tells of one that was lost, and a transfer that is
//! broken off has most likely filled the buffers on the way.
//!
//! A reset outlives its context: what is kept is the packet and its names. Always true: no more are kept than
//! [`Limits::farewells`](crate::Limits), each for as long as [`WAITS`] say; what goes to an address that is not proved was
//! counted when the reset was taken in.

use crate::diag::Reply;
use core::time::Duration;
use pinnace_core::{Address, Time};
use pinnace_wire::xtp::Key;
use std::collections::BTreeMap;

/// Before it is said again, and again: soon, as most losses are over soon, and then after more of a queue has been worked off.
const WAITS: [Duration; 3] = [Duration::from_millis(20), Duration::from_millis(40), Duration::from_millis(80)];

/// A reset that has left.
#[derive(Debug)]
pub(crate) struct Farewell {
    pub(crate) to: Address,
    pub(crate) from: Option<Address>,
    /// How the peer names the context: our key (with RTN), and its own (without).
    pub(crate) my_key: u64,
    pub(crate) peer_key: u64,
    pub(crate) bytes: Vec<u8>,
    /// How often it may be said again, at most.
    pub(crate) most: u64,
}

/// Those that are said again, by the date of the next time.
#[derive(Debug)]
pub(crate) struct Farewells {
    waiting: BTreeMap<(Time, u64), (Farewell, usize)>,
    numbers: u64,
    most: usize,
}

impl Farewells {
    pub(crate) fn new(most: usize) -> Self {
        Self { waiting: BTreeMap::new(), numbers: 0, most }
    }

    /// A reset has left for the first time.
    pub(crate) fn begin(&mut self, now: Time, farewell: Farewell) {
        if self.waiting.len() < self.most {
            self.wait(now, farewell, 0);
        }
    }

    fn wait(&mut self, now: Time, farewell: Farewell, said: usize) {
        if let Some(wait) = WAITS.get(said).filter(|_| (said as u64) < farewell.most) {
            self.numbers += 1;
            self.waiting.insert((now + *wait, self.numbers), (farewell, said));
        }
    }

    /// The next one that is due.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Reply> {
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= now)?;
        let (farewell, said) = first.remove();
        let reply = Reply { to: farewell.to, from: farewell.from, bytes: farewell.bytes.clone() };
        self.wait(now, farewell, said + 1);
        Some(reply)
    }

    pub(crate) fn next_at(&self) -> Option<Time> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The peer has ended the association itself, or says that it knows of none.
    pub(crate) fn stop(&mut self, peer: Address, key: Key) {
        if !self.waiting.is_empty() {
            self.waiting.retain(|_, (it, _)| !it.is_named(peer, key));
        }
    }

    /// Whether a FIRST of this name belongs to an association that was reset.
    pub(crate) fn has(&self, peer: Address, key: Key) -> bool {
        self.waiting.values().any(|(it, _)| it.is_named(peer, key))
    }
}

impl Farewell {
    fn is_named(&self, peer: Address, key: Key) -> bool {
        self.to == peer && key.value == if key.rtn { self.my_key } else { self.peer_key }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn farewell(to: u64, most: u64) -> Farewell {
        Farewell { to: Address::Node(to as _), from: None, my_key: 100 + to, peer_key: 200 + to, bytes: vec![7], most }
    }

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    //= X-20 test
    #[test]
    fn each_is_said_so_often_and_no_more_are_kept_than_allowed() {
        let mut farewells = Farewells::new(3);
        for to in 1..=4 {
            farewells.begin(at(0), farewell(to, [9, 2, 0, 9][to as usize - 1]));
        }
        assert_eq!(farewells.len(), 3, "what may not be said is not kept");
        farewells.begin(at(0), farewell(5, 9));
        assert_eq!(farewells.len(), 3);
        let mut said = Vec::new();
        for millis in 0..500 {
            while let Some(reply) = farewells.take_due(at(millis)) {
                said.push((millis, reply.to));
            }
        }
        let [one, two, four] = [1, 2, 4].map(Address::Node);
        let expected = [(20, one), (20, two), (20, four), (60, one), (60, two), (60, four), (140, one), (140, four)];
        assert_eq!(said, expected);
        assert_eq!((farewells.len(), farewells.next_at()), (0, None));
    }

    #[test]
    fn whoever_is_late_does_not_say_it_twice_at_once() {
        let mut farewells = Farewells::new(3);
        farewells.begin(at(0), farewell(1, 9));
        assert!(farewells.take_due(at(100)).is_some() && farewells.take_due(at(100)).is_none());
        assert_eq!(farewells.next_at(), Some(at(140)));
    }

    #[test]
    fn only_its_own_names_stop_it() {
        let mut farewells = Farewells::new(3);
        farewells.begin(at(0), farewell(1, 9));
        let key = |rtn, value| Key { rtn, value };
        for (peer, key) in [(2, key(true, 101)), (1, key(false, 101)), (1, key(true, 201))] {
            farewells.stop(Address::Node(peer), key);
            assert_eq!(farewells.len(), 1);
        }
        assert!(farewells.has(Address::Node(1), key(false, 201)));
        farewells.stop(Address::Node(1), key(true, 101));
        assert_eq!(farewells.len(), 0);
    }
}
