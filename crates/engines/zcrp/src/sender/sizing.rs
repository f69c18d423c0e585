//! How large units are, and whether the path loses all of that size in silence.
//!
//! Units keep their size for the life of a sender, because a receiver learns it from the first unit of several that it keeps
//! (specs/zcrp.md, section 1). Before that nobody but the sender knows it, so that it may still be another: where no large
//! datagram arrives, and nobody reports why (a black hole, RFC 4821), what has not ended is cut anew into smaller units.
//!
//! Whether the receiver has kept a unit of several is known from its acknowledgement, which may be lost; so what is cut
//! anew must not be mistaken for what was cut before:
//! - The first size: the last unit of several is padded to the size of the others. Short, it might arrive where these do not,
//!   and would have fixed where its message ends.
//! - A smaller size: the last unit waits until another of several is acknowledged. A receiver that knows the size before drops
//!   all others as contradictory, but a last unit might fit both.
//! - An acknowledgement of a unit of several that was cut before brings that size back, for good.

use pinnace_core::{Time, step_below};
use pinnace_wire::zcrp::TRAILER_BYTES;

/// So often everything large has to be lost one time after the other.
const MOST_ROUNDS: u32 = 3;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Sizing {
    /// Somebody has asked for this size.
    pub(super) stays: bool,
    /// Sequence number of the first unit of the present size.
    since: u64,
    /// The sizes before (`F`), each with the sequence number behind its last unit. Two steps down, and one back, at most.
    before: Vec<(u64, u32)>,
    /// The receiver has kept a unit of several, so it knows `F`, which stays.
    is_known: bool,
    /// Losses of what left since the one before, while nothing large has arrived.
    rounds: u32,
    /// When the last of them was noticed.
    round_at: Time,
    /// Bytes of the smallest large datagram among them.
    smallest: u32,
    /// After the second of them the peer has said that it is there, and that nothing has arrived.
    is_asked: bool,
    /// The peer should be asked to say something.
    asks: bool,
}

impl Sizing {
    /// Whether last units must look like all others, of `unit` bytes, lest they alone arrive.
    pub(super) fn hides_ends(&self, unit: u32) -> bool {
        !self.stays && !self.is_known && self.before.is_empty() && step_below(unit).is_some()
    }

    /// Whether last units wait until others have arrived.
    pub(super) fn holds_ends(&self) -> bool {
        !self.is_known && !self.before.is_empty()
    }

    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether a transmission is of a unit of the present size.
    pub(super) fn is_present(&self, number: u64) -> bool {
        number >= self.since
    }

    /// `F` of the unit that was sent as `number`, where `present` is what it is now.
    pub(super) fn fragment_at(&self, number: u64, present: u32) -> u32 {
        self.before.iter().find(|(end, _)| number < *end).map_or(present, |(_, fragment)| *fragment)
    }

    /// The receiver knows the present size.
    pub(super) fn on_known(&mut self) {
        self.is_known = true;
    }

    /// From transmission `next` on units have another size; so far they carried `fragment` bytes.
    pub(super) fn on_cut(&mut self, next: u64, fragment: u32) {
        self.before.push((next, fragment));
        self.since = next;
        self.on_arrived(u32::MAX);
    }

    /// A datagram was lost, sent at `sent_at`, where units are `unit` bytes.
    pub(super) fn on_lost(&mut self, now: Time, sent_at: Time, bytes: u32, unit: u32) {
        let is_large = match step_below(unit) {
            Some(smaller) => bytes > smaller,
            None => !self.before.is_empty(),
        };
        if !is_large {
            return;
        }
        if self.rounds == 0 || sent_at >= self.round_at {
            self.rounds = self.rounds.saturating_add(1);
            self.round_at = now;
            // Where nothing could be done about it, what is asked would only be in the way.
            self.asks = !self.stays && self.rounds >= MOST_ROUNDS - 1;
        }
        self.smallest = if self.rounds == 1 { bytes } else { self.smallest.min(bytes) };
    }

    /// A datagram of so many bytes has arrived.
    pub(super) fn on_arrived(&mut self, bytes: u32) {
        if bytes >= self.smallest {
            (self.rounds, self.smallest, self.is_asked, self.asks) = (0, 0, false, false);
        }
    }

    /// The peer is there, and says that nothing large has arrived; or anything, where `F` is known.
    pub(super) fn on_asked(&mut self) {
        self.is_asked |= self.rounds >= MOST_ROUNDS - 1;
    }

    /// Whether the path loses all large datagrams, as far as anybody can tell.
    pub(super) fn is_swallowed(&self) -> bool {
        self.is_asked && self.rounds >= MOST_ROUNDS
    }

    /// `F` to go on with, where it is `fragment` and has to be smaller.
    pub(super) fn smaller(&self, fragment: u32) -> Option<u32> {
        let may = !self.stays && !self.is_known && self.is_swallowed();
        step_below(fragment + TRAILER_BYTES as u32).filter(|_| may).map(|bytes| bytes - TRAILER_BYTES as u32)
    }

    /// Whether the peer should be asked to say something.
    pub(super) fn asks(&self) -> bool {
        self.asks
    }

    /// It has been.
    pub(super) fn on_asking(&mut self) {
        self.asks = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    const UNIT: u32 = 1472;
    const FRAGMENT: u32 = UNIT - 28;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn doubted(lost: &[u32]) -> Sizing {
        let mut sizing = Sizing::default();
        for (step, bytes) in (0..).zip(lost) {
            sizing.on_lost(at(step * 100 + 100), at(step * 100), *bytes, UNIT);
        }
        sizing
    }

    #[test]
    fn the_peer_has_to_be_there_and_to_lack_what_is_large() {
        let mut sizing = doubted(&[UNIT; 3]);
        assert_eq!(sizing.smaller(FRAGMENT), None, "nobody is heard");
        sizing.on_asked();
        assert_eq!(sizing.smaller(FRAGMENT), Some(1200 - 28));
        sizing.on_arrived(1471);
        assert_eq!(sizing.smaller(FRAGMENT), Some(1200 - 28), "it is smaller");
        sizing.on_arrived(UNIT);
        sizing.on_asked();
        assert_eq!(sizing.smaller(FRAGMENT), None);
    }

    #[test]
    fn an_answer_that_may_be_older_than_the_loss_says_nothing() {
        let mut sizing = doubted(&[UNIT]);
        sizing.on_asked();
        for step in 1..3 {
            sizing.on_lost(at(step * 100 + 100), at(step * 100), UNIT, UNIT);
        }
        assert_eq!((sizing.smaller(FRAGMENT), sizing.asks()), (None, true));
    }

    #[test]
    fn what_leaves_together_is_lost_once_and_small_losses_do_not_count() {
        let mut sizing = Sizing::default();
        for _ in 0..20 {
            sizing.on_lost(at(200), at(0), UNIT, UNIT);
            sizing.on_lost(at(201), at(1), UNIT, UNIT);
        }
        for step in 3..20 {
            sizing.on_lost(at(step * 100 + 100), at(step * 100), 1200, UNIT);
        }
        sizing.on_asked();
        assert_eq!(sizing.smaller(FRAGMENT), None);
    }

    #[test]
    fn it_ends_at_what_every_path_carries_or_the_receiver_knows() {
        let mut sizing = doubted(&[UNIT; 3]);
        sizing.on_asked();
        assert_eq!(
            [8972, 1473, 1201, 1200, 549].map(|unit| sizing.smaller(unit - 28)),
            [Some(1172), Some(1172), Some(1172), Some(520), Some(520)]
        );
        assert_eq!(sizing.smaller(520), None);
        sizing.on_known();
        assert_eq!((sizing.smaller(FRAGMENT), sizing.is_swallowed()), (None, true));
    }

    #[test]
    fn transmissions_keep_the_size_that_they_had() {
        let mut sizing = Sizing::default();
        assert_eq!([548, 549, 1472].map(|unit| sizing.hides_ends(unit)), [false, true, true]);
        assert!(!sizing.holds_ends());
        sizing.on_cut(10, 1444);
        sizing.on_cut(15, 1172);
        assert_eq!([0, 9, 10, 14, 15].map(|number| sizing.fragment_at(number, 520)), [1444, 1444, 1172, 1172, 520]);
        assert!([14, 15].map(|number| sizing.is_present(number)) == [false, true]);
        assert!(!sizing.hides_ends(UNIT) && sizing.holds_ends());
        sizing.on_known();
        assert!(!sizing.hides_ends(UNIT) && !sizing.holds_ends());
    }
}
