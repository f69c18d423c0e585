//! What goes next, and what has left.

use super::blocks::{Blocks, Leaving};
use super::messages::Block;
use super::{Active, Outgoing};
use core::time::Duration;
use pinnace_core::{Pacer, Path, Time};

/// What goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing before something is heard or queued.
    Nothing,
    /// Something, then.
    At(Time),
    /// This block, now.
    Block(Block),
}

/// What holds a block back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    No,
    Until(Time),
    /// Too much is under way.
    Congested,
}

/// The limit of a record.
//= A-11
pub(super) fn limit(average: u64, burst: u64, block_bytes: u32) -> Option<Box<Pacer>> {
    (average > 0).then(|| Box::new(Pacer::new(Some(average), burst.max(u64::from(block_bytes)))))
}

/// Bytes that are under way, at most, where nothing but the rate says when blocks leave that take `wire` bytes for `len` of
/// theirs. Where more than the window are, a block that waits for its turn fills the window a moment later.
fn sustained(pacer: &Pacer, round_trip: Duration, wire: u64, len: u32) -> u64 {
    let rate = u128::from(pacer.rate().unwrap_or(0));
    let bytes = rate.saturating_mul(round_trip.as_nanos()) / 1_000_000_000 + u128::from(pacer.burst());
    u64::try_from(bytes.saturating_mul(u128::from(wire)) / u128::from(len.max(1))).unwrap_or(u64::MAX)
}

impl Outgoing {
    /// What goes next: what the peer misses, oldest first, then new blocks.
    //= A-4
    #[cfg(test)]
    pub(crate) fn next(&mut self, now: Time) -> Next {
        match self.next_repair(now) {
            Next::Nothing if !self.has_repairs() => self.next_new(now),
            next => next,
        }
    }

    /// The oldest block that the peer misses.
    //= A-5
    //= A-7
    pub(crate) fn next_repair(&mut self, now: Time) -> Next {
        let Some(active) = self.active.as_deref() else { return Next::Nothing };
        let Some((number, message, index)) = active.blocks.oldest_lost() else { return Next::Nothing };
        let Some(block) = self.messages.again(number, message, index) else { return Next::Nothing };
        self.when(now, block)
    }

    /// The next new block, if the window is open. What is stale is dropped first.
    //= A-10
    pub(crate) fn next_new(&mut self, now: Time) -> Next {
        self.drop_stale(now);
        if self.sent >= self.limit() {
            return Next::Nothing;
        }
        debug_assert_eq!(self.owed, 0, "numbers are passed over as far as the window reaches");
        match self.messages.fresh(self.sent) {
            Some(block) => self.when(now, block),
            None => Next::Nothing,
        }
    }

    fn when(&self, now: Time, block: Block) -> Next {
        match self.held(now, &block) {
            Held::No => Next::Block(block),
            Held::Until(at) => Next::At(at),
            Held::Congested => Next::Nothing,
        }
    }

    fn held(&self, now: Time, block: &Block) -> Held {
        let mut ready_at = self.rate_ready_at(now, block.place.len);
        if let Some(active) = self.active.as_deref().filter(|_| !(self.is_forced && block.is_repetition)) {
            let wire = u64::from(block.place.len) + u64::from(self.overhead);
            let in_flight = active.blocks.bytes();
            // A single block may always be under way.
            if in_flight > 0 && in_flight.saturating_add(wire) > active.path.congestion.window() {
                return Held::Congested;
            }
            ready_at = ready_at.max(active.path.pacer.ready_at(now, wire));
        }
        if ready_at > now { Held::Until(ready_at) } else { Held::No }
    }

    fn rate_ready_at(&self, now: Time, len: u32) -> Time {
        self.limiter.as_deref().map_or(now, |pacer| pacer.ready_at(now, u64::from(len)))
    }

    /// Whether blocks wait for the rate: the application sends more than was agreed on.
    //= A-17
    pub(crate) fn is_rate_exceeded(&self, now: Time) -> bool {
        let lost = self.active.as_deref().and_then(|active| active.blocks.oldest_lost());
        let block = match lost {
            Some((number, message, index)) => self.messages.again(number, message, index),
            None => self.messages.fresh(self.sent).filter(|_| self.sent < self.limit()),
        };
        block.is_some_and(|block| self.rate_ready_at(now, block.place.len) > now)
    }

    /// Gives numbers to blocks that were dropped, as far as the window reaches.
    pub(super) fn pass_over(&mut self, now: Time) {
        let count = u64::from(self.owed).min(self.limit().saturating_sub(self.sent));
        if count == 0 {
            return;
        }
        let passed = self.sent + count;
        let active = self.activate(now);
        active.blocks.skip(count);
        active.passed = passed;
        self.sent = passed;
        self.owed -= count as u32;
        if self.agreement.advance(self.sent) {
            self.follow_terms(now);
        }
    }

    /// The peer has all blocks below `next_expected` from somebody else: those that have not left need not.
    //= A-7
    //= A-15
    pub(crate) fn pass_to(&mut self, now: Time, next_expected: u64) {
        while self.sent < next_expected && self.messages.unsent() > 0 {
            self.activate(now).blocks.skip(1);
            self.messages.advance(self.sent);
            self.sent += 1;
        }
        if self.agreement.advance(self.sent) {
            self.follow_terms(now);
        }
    }

    fn activate(&mut self, now: Time) -> &mut Active {
        let (sent, overhead, kind, loaded) = (self.sent, self.overhead, self.congestion, self.timing.rtt);
        let mss = u64::from(self.agreement.current().block_bytes) + u64::from(overhead);
        self.active.get_or_insert_with(|| {
            let (blocks, path) = (Blocks::new(sent, overhead), Path::new(kind, mss, now));
            Box::new(Active { blocks, path, loaded, progress_at: now, futile: 0, tried_at: None, tries: 0, passed: 0 })
        })
    }

    /// `block`, as [`Outgoing::next`] gave it, leaves now.
    pub(crate) fn on_sent(&mut self, now: Time, block: &Block) {
        let len = block.place.len;
        let wire = u64::from(len) + u64::from(self.overhead);
        let is_new = block.number == self.sent;
        let is_first = self.acked == self.sent;
        if is_first || (self.is_forced && !is_new) {
            self.heard_at = now;
            self.is_forced = false;
        }
        self.activate(now);
        let Some(active) = self.active.as_deref_mut() else { return };
        if is_first {
            (active.progress_at, active.futile) = (now, 0);
            (active.tried_at, active.tries) = (None, 0);
        }
        active.futile = active.futile.saturating_add(u32::from(!is_new));
        if !is_new && block.number == self.acked {
            active.tried_at = Some(now);
        }
        let Active { blocks, path, loaded, .. } = active;
        let in_flight = blocks.bytes();
        let stamp = path.delivery.on_sent(now, wire, in_flight);
        let leaving = Leaving { number: block.number, message: block.message, index: block.index, len: len as u16 };
        blocks.send(&leaving, stamp);
        path.on_sent(now, wire, in_flight);
        if let Some(pacer) = &mut self.limiter {
            pacer.take(now, u64::from(len));
        }
        if is_new {
            self.sent += 1;
            self.messages.advance(block.number);
        }
        // It is not the path that ends the train.
        let is_all = self.messages.unsent() == 0 && !blocks.has_lost();
        let window = path.congestion.window();
        let is_paced = self.limiter.as_deref().is_some_and(|pacer| {
            pacer.ready_at(now, u64::from(len)) > now && sustained(pacer, *loaded, wire, len) < window
        });
        if (is_all || is_paced) && blocks.bytes() < window {
            path.delivery.on_app_limited(blocks.bytes());
        }
        if self.agreement.advance(self.sent) {
            self.follow_terms(now);
        }
    }

    /// So many bytes of blocks leave for the peer and are not ours to send: what is ours waits for them.
    //= A-11
    pub(crate) fn yield_to(&mut self, now: Time, bytes: u64) {
        if let Some(pacer) = &mut self.limiter {
            pacer.take(now, bytes);
        }
    }

    /// Whether there is a rate, so that it matters when the blocks leave that [`Outgoing::on_sent`] was told of.
    pub(crate) fn is_limited(&self) -> bool {
        self.limiter.is_some()
    }

    /// Blocks of so many bytes have left by `now`. Returns whether the next have to wait longer.
    //= A-11
    pub(crate) fn on_left(&mut self, now: Time, bytes: u64) -> bool {
        self.limiter.as_deref_mut().is_some_and(|pacer| pacer.on_left(now, bytes))
    }

    /// Whether whoever comes so much `late` when a block may leave loses nothing of the rate.
    //= A-11
    pub(crate) fn bears(&self, late: Duration) -> bool {
        let block = self.agreement.current().block_bytes;
        self.limiter.as_deref().is_none_or(|pacer| pacer.bears(late, block.into()))
    }

    /// The rate of the terms in force.
    pub(super) fn follow_terms(&mut self, now: Time) {
        let terms = self.agreement.current();
        match &mut self.limiter {
            Some(pacer) if terms.average > 0 => {
                pacer.set_rate(now, Some(terms.average));
                pacer.set_burst(now, terms.burst.max(u64::from(terms.block_bytes)));
            }
            limiter => *limiter = limit(terms.average, terms.burst, terms.block_bytes),
        }
    }
}
