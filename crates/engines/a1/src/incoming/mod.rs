//! The receiving half of a direction (specs/a1.md, 1.1 and 2).
//!
//! [`Incoming`] says what is new in a block and where it belongs, what may be told to the peer (the edge, ACK, NACK), when
//! that is due, and what the application can take. It names places and touches no byte. Blocks have the numbers 0, 1, 2,
//! ... from the first of the direction on, which never wrap.
//!
//! Always true: `next <= expected <= seen`, and none of them ever falls, nor does the edge. Blocks below `next` have been
//! consumed, or are lost; those below `expected` have come (raw: or are lost); those from `expected` to `seen` have come if
//! they are in `ahead`, and are missing otherwise. A block is placed at most once. What a peer can make grow is bounded by
//! the window: numbers by the window itself and the longest message, messages by the blocks that have come, ranges by
//! [`MAX_RANGES`]; storage that is asked for, less what the application has read of the message that it is reading, stays within the window times the
//! block size and one message of the largest size, and what [`spares`] may take.

mod acks;
mod messages;
mod nacks;
mod plan;
mod read;
mod spares;
#[cfg(test)]
mod tests;

pub(crate) use acks::{Due, MAX_DELAY as MAX_ACK_DELAY};
pub(crate) use messages::LEAST_COST;

use acks::Acks;
use core::time::Duration;
use messages::{Claim, Messages, Standing};
use nacks::Nacks;
use pinnace_core::{BufferId, BufferRange, IntervalSet, Time};
use pinnace_wire::a1::{MAX_BLOCK_BYTES, WINDOW_LIMIT};
use spares::{Shape, Spares};
use std::collections::VecDeque;

/// Ranges of blocks that came out of order. More fragmentation drops blocks, which come again.
const MAX_RANGES: usize = 4096;

/// No block has a number from here on. No direction ever comes so far.
const FARTHEST: u64 = 1 << 62;

/// How a direction is received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Bytes of every block but the last of a message.
    pub block_bytes: u32,
    /// Whether what is missing is asked for again. Otherwise (raw) it is lost.
    pub reliable: bool,
    /// Blocks that may be sent ahead of what the application has consumed.
    pub window: u64,
    /// Bytes of the largest message.
    pub max_message: u64,
    /// Storage is made ahead for messages that are like the newest.
    pub makes_ahead: bool,
    /// The direction is a group's, and may be in the middle of any message when its first block for us leaves.
    pub joins: bool,
}

/// A block, as a DATA datagram brings it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Its number, from the start of the direction.
    pub number: u64,
    /// The wire's number of its message.
    pub message: u32,
    /// Its index in the message.
    pub index: u16,
    /// Blocks of the message.
    pub count: u16,
    /// Its bytes.
    pub len: u32,
    /// RETRANSMITTED.
    pub is_repetition: bool,
    /// START.
    pub starts: bool,
    /// END.
    pub ends: bool,
}

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was taken.
    New,
    /// It came before, or (raw) too late.
    Duplicate,
    /// It does not lie below the edge.
    Beyond,
    /// There is no storage for it, or too much came out of order. It counts as not received.
    NoRoom,
    /// It cannot be true: lengths, indices or counts that do not agree with the block size, the largest message, or what
    /// came before. It changed nothing.
    Contradiction,
}

/// What a block changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Took {
    /// What became of it.
    pub fate: Fate,
    /// Where its bytes belong, if it was taken and has any.
    pub place: Option<BufferRange>,
    /// There is more to read than before.
    pub is_readable: bool,
    /// There is a new gap, of which a NACK is due.
    pub is_gap: bool,
    /// Blocks that are lost since (raw).
    pub lost: u64,
}

impl Took {
    const fn only(fate: Fate) -> Self {
        Self { fate, place: None, is_readable: false, is_gap: false, lost: 0 }
    }
}

/// What a SYNC or a CLOSE changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Synced {
    /// So many blocks are missing that were not known to be: a NACK is due, or (raw) they are lost.
    Missing(u64),
    /// More is said to have been sent than was allowed. Nothing was changed.
    Contradiction,
}

/// Bytes that can be taken now: all of one message, and without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where they lie; `None` if there are none, in an empty message.
    pub range: Option<BufferRange>,
    /// The message starts with the first of them (START).
    pub starts: bool,
    /// It ends with the last of them (END).
    pub ends: bool,
    /// Something was lost before the first of them (LOST, raw mode).
    pub is_lost: bool,
    /// They are all that there is, and will be, of their message, of which nothing has been consumed: its buffer can be
    /// taken ([`Incoming::take_message`]).
    pub is_whole: bool,
    /// No more bytes of their message follow them, or something is missing behind them.
    pub is_final: bool,
}

impl Part {
    /// How many bytes.
    pub(crate) fn len(&self) -> u32 {
        self.range.map_or(0, |range| range.len)
    }
}

/// The receiving half of a direction.
#[derive(Debug)]
pub(crate) struct Incoming {
    policy: Policy,
    /// The first block that is not consumed.
    next: u64,
    /// Bytes of it that are.
    within: u32,
    /// The first block that has not come; raw: one past the last that came or is lost.
    expected: u64,
    /// One past the last block that is known to have been sent.
    seen: u64,
    /// Blocks that came beyond `expected`. Raw: empty.
    ahead: IntervalSet,
    /// Blocks from `next` to `expected` that are lost. Reliable: empty.
    holes: IntervalSet,
    /// Something was lost before the block `next`.
    is_lost: bool,
    messages: Messages,
    spares: Spares,
    /// The newest block, and its message: others follow.
    newest: Option<(u64, u64)>,
    acks: Acks,
    nacks: Nacks,
    /// Storage that is not needed any more.
    released: VecDeque<BufferId>,
    is_closed: bool,
}

impl Incoming {
    /// A direction of which nothing has come; the window has been told, as the edge.
    pub(crate) fn new(policy: Policy) -> Self {
        let block_bytes = policy.block_bytes.clamp(1, MAX_BLOCK_BYTES);
        let policy = Policy { block_bytes, window: clamp(policy.window), ..policy };
        Self {
            policy,
            next: 0,
            within: 0,
            expected: 0,
            seen: 0,
            ahead: IntervalSet::new(),
            holes: IntervalSet::new(),
            is_lost: false,
            messages: Messages::new(policy.reliable, policy.joins),
            spares: Spares::default(),
            newest: None,
            acks: Acks::new(policy.window),
            nacks: Nacks::default(),
            released: VecDeque::new(),
            is_closed: false,
        }
    }

    /// A block has come. `storage` makes a buffer of so many bytes, which is asked for when the first block of a message
    /// comes and it has any bytes; block `i` belongs at `i` times the block size.
    //= A-6
    //= A-20
    pub(crate) fn on_block(
        &mut self,
        now: Time,
        arrival: &Arrival,
        storage: &mut dyn FnMut(u64) -> Option<BufferId>,
    ) -> Took {
        let seen = self.seen;
        let took = self.take_block(arrival, storage);
        match took.fate {
            Fate::New => {
                let is_odd = arrival.is_repetition || arrival.number != seen;
                self.acks.on_new(now, is_odd, arrival.ends);
            }
            Fate::Duplicate | Fate::Beyond | Fate::NoRoom => self.acks.hurry(),
            Fate::Contradiction => {}
        }
        took
    }

    fn take_block(&mut self, arrival: &Arrival, storage: &mut dyn FnMut(u64) -> Option<BufferId>) -> Took {
        let number = arrival.number;
        let Some(claim) = self.claim(arrival) else { return Took::only(Fate::Contradiction) };
        if number >= self.edge() || self.is_closed {
            return Took::only(Fate::Beyond);
        }
        if number < self.expected || self.ahead.contains(number) {
            // Its bytes are not looked at, however many they are.
            let claim = Claim { size: None, ..claim };
            let is_true = !self.policy.reliable || number < self.next || self.messages.judge(&claim) == Standing::Known;
            return Took::only(if is_true { Fate::Duplicate } else { Fate::Contradiction });
        }
        let standing = self.messages.judge(&claim);
        if standing == Standing::Contradiction {
            return Took::only(Fate::Contradiction);
        }
        let touches = |number: u64| self.ahead.contains(number + 1) || (number > 0 && self.ahead.contains(number - 1));
        let fragments = self.policy.reliable && number > self.expected && self.ahead.range_count() >= MAX_RANGES;
        if fragments && !touches(number) {
            return Took::only(Fate::NoRoom);
        }
        if standing == Standing::New && !self.admit(&claim, storage) {
            return Took::only(Fate::NoRoom);
        }
        let place = self.messages.on_block(&claim, arrival.len, self.policy.block_bytes);
        if let Some(size) = claim.size.filter(|_| self.policy.makes_ahead) {
            let capacity = self.capacity(&Claim { size: (claim.count == 1).then_some(size), ..claim });
            let shape = Shape { count: claim.count, size, capacity };
            self.spares.learn(shape, storage, &mut self.released);
        }
        self.newest = Some((number, claim.message));
        if self.policy.reliable { self.keep(number, place) } else { self.keep_raw(number, place) }
    }

    /// What a block says of its message, if it is possible at all.
    fn claim(&self, arrival: &Arrival) -> Option<Claim> {
        let &Arrival { number, message, index, count, len, starts, ends, .. } = arrival;
        let block = u64::from(self.policy.block_bytes);
        let (is_first, is_last) = (index == 0, index.checked_add(1) == Some(count));
        let is_long_enough = if is_last { len > 0 || count == 1 } else { u64::from(len) == block };
        // The others are full, and the last one has a byte.
        let least = u64::from(count.checked_sub(1)?) * block + u64::from(if is_last { len } else { 1 });
        let is_possible = index < count
            && is_first == starts
            && is_last == ends
            && is_long_enough
            && u64::from(len) <= block
            && least <= self.policy.max_message
            && number < FARTHEST;
        let number = number as i64;
        is_possible.then(|| Claim {
            message: self.messages.number(message),
            number,
            base: number - i64::from(index),
            count: u32::from(count),
            size: is_last.then_some(least),
        })
    }

    /// Makes a message known, with storage. False, and nothing is changed, if there is no room.
    fn admit(&mut self, claim: &Claim, storage: &mut dyn FnMut(u64) -> Option<BufferId>) -> bool {
        let block = u64::from(self.policy.block_bytes);
        let capacity = self.capacity(claim);
        // What has been read of a message is the application's doing, not the peer's.
        let held = self.messages.allocated() - self.consumed_bytes();
        let most = (self.edge() - self.next).saturating_mul(block).saturating_add(self.policy.max_message);
        if held.saturating_add(capacity) > most {
            return false;
        }
        let mut buffer = self.spares.take(claim.count, capacity);
        if buffer.is_none() && capacity > 0 {
            buffer = storage(capacity);
            if buffer.is_none() {
                return false;
            }
        }
        self.messages.insert(claim, buffer, capacity);
        true
    }

    /// Bytes of storage for a message, which may be less large when only its first blocks are known.
    fn capacity(&self, claim: &Claim) -> u64 {
        let most = u64::from(claim.count) * u64::from(self.policy.block_bytes);
        claim.size.unwrap_or_else(|| most.min(self.policy.max_message))
    }

    /// Bytes that have been consumed of the message in front.
    fn consumed_bytes(&self) -> u64 {
        let Some(front) = self.messages.front() else { return 0 };
        let blocks = u64::try_from(self.next as i64 - front.base).unwrap_or(0);
        (blocks * u64::from(self.policy.block_bytes) + u64::from(self.within)).min(front.held())
    }

    //= A-7
    fn keep(&mut self, number: u64, place: Option<BufferRange>) -> Took {
        self.nacks.on_heard();
        let is_readable = number == self.expected;
        if is_readable {
            self.expected = number + 1;
            if !self.ahead.is_empty() {
                self.expected = self.ahead.first_missing_from(self.expected);
                self.ahead.pop_front_below(self.expected);
            }
            self.nacks.on_filled(self.expected);
        } else {
            self.ahead.insert(number..number + 1);
        }
        let is_gap = number > self.seen;
        if is_gap {
            self.nacks.on_gap(self.seen..number);
        }
        self.seen = self.seen.max(number + 1);
        Took { fate: Fate::New, place, is_readable, is_gap, lost: 0 }
    }

    //= A-21
    fn keep_raw(&mut self, number: u64, place: Option<BufferRange>) -> Took {
        let lost = self.lose(number);
        (self.expected, self.seen) = (number + 1, number + 1);
        self.settle();
        Took { fate: Fate::New, place, is_readable: true, is_gap: false, lost }
    }

    /// What is missing below `high` is lost; returns how many blocks.
    fn lose(&mut self, high: u64) -> u64 {
        let lost = self.holes.insert(self.expected..high);
        (self.expected, self.seen) = (self.expected.max(high), self.seen.max(high));
        lost
    }

    /// A SYNC or a CLOSE says that the blocks below `sent` have left: what is missing of them is asked for, or lost.
    ///
    /// A raw receiver believes any number: a group does not wait for it, and what a sender has dropped uses up numbers.
    pub(crate) fn on_sync(&mut self, sent: u64) -> Synced {
        if !self.policy.reliable {
            let lost = self.lose(sent.min(FARTHEST));
            self.settle();
            return Synced::Missing(lost);
        }
        if sent > self.edge() {
            return Synced::Contradiction;
        }
        if self.is_closed {
            // Nobody reads it.
            return Synced::Missing(0);
        }
        self.nacks.on_heard();
        let missing = sent.saturating_sub(self.seen);
        if missing > 0 {
            self.nacks.on_gap(self.seen..sent);
            self.seen = sent;
        }
        Synced::Missing(missing)
    }

    /// Everything below has come, or (raw) is lost: the `sequence` of all answers.
    pub(crate) fn next_expected(&self) -> u64 {
        self.expected
    }

    /// Blocks below may be sent: those consumed, and the window. It never goes back.
    //= A-9
    //= A-10
    pub(crate) fn edge(&self) -> u64 {
        // Who drops everything invites no more.
        if self.is_closed { self.acks.told() } else { (self.next + self.policy.window).max(self.acks.told()) }
    }

    /// The edge, which is told to the peer in a datagram that will not be followed by an ACK. (An ACK tells it anyway.)
    pub(crate) fn tell_edge(&mut self) -> u64 {
        let edge = self.edge();
        self.acks.tell(edge);
        edge
    }

    /// The edge, which is told in a datagram that may be lost without anybody noticing: an ACK still follows when it is due.
    pub(crate) fn say_edge(&mut self) -> u64 {
        let edge = self.edge();
        self.acks.say(edge);
        edge
    }

    /// The peer has been told this edge before the direction began.
    pub(crate) fn keep_told(&mut self, edge: u64) {
        self.acks.tell(clamp(edge));
    }

    /// The quality of service has changed. A smaller window takes effect as blocks are consumed. Larger messages are taken
    /// at once; smaller ones do not make those on their way too large.
    pub(crate) fn set_limits(&mut self, window: u64, max_message: u64) {
        self.policy.window = clamp(window);
        self.allow_messages(max_message);
    }

    /// Messages of so many bytes may come.
    pub(crate) fn allow_messages(&mut self, max_message: u64) {
        self.policy.max_message = self.policy.max_message.max(max_message);
    }

    /// Bytes of storage that are held.
    pub(crate) fn allocated(&self) -> u64 {
        self.messages.allocated() + self.spares.bytes()
    }

    /// What small messages count for beside their storage.
    pub(crate) fn beside(&self) -> u64 {
        self.messages.beside()
    }

    /// Nothing has come for a while: storage that was made ahead is released.
    pub(crate) fn rest(&mut self) {
        self.spares.clear(&mut self.released);
    }

    /// When an ACK is due; `rtt` is the smoothed round trip, once there is a sample. The blocks of one read, taken in
    /// together, are one event.
    pub(crate) fn ack_due(&self, now: Time, rtt: Option<Duration>) -> Due {
        self.acks.due(now, self.edge(), self.seen, self.policy.window, self.next >= self.expected, rtt)
    }

    /// Blocks have left in the other direction: an ACK that has waited for an answer follows them.
    pub(crate) fn on_answered(&mut self) {
        self.acks.on_answered(self.policy.window);
    }

    /// Whether the peer has not been told of all that has come.
    pub(crate) fn owes_ack(&self) -> bool {
        self.acks.is_owed()
    }

    /// An ACK is due now.
    pub(crate) fn hurry_ack(&mut self) {
        self.acks.hurry();
    }

    /// Whether blocks are missing that are asked for again.
    pub(crate) fn has_gaps(&self) -> bool {
        self.expected < self.seen && !self.is_closed
    }

    /// Whether blocks have been received beyond one that is missing.
    pub(crate) fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// What an ACK says: the next block expected, the edge, and the ranges received beyond the former, of which the first
    /// are those that matter most. Nothing is due then.
    pub(crate) fn take_ack(&mut self) -> (u64, u64, impl Iterator<Item = (u64, u64)> + '_) {
        let edge = self.tell_edge();
        self.acks.on_reported();
        (self.expected, edge, self.ahead.iter().map(|range| (range.start, range.end)))
    }

    /// When a NACK is due; `rtt` is the smoothed round trip, once there is a sample.
    pub(crate) fn nack_due(&self, now: Time, rtt: Option<Duration>) -> Due {
        self.nacks.due(now, rtt)
    }

    /// What a NACK says: at most `max` ranges that are missing, rising, into `out`, which may stay empty. If there are
    /// more, [`Incoming::nack_due`] says so. Returns whether it says nothing but what was said before.
    pub(crate) fn take_nack(
        &mut self,
        now: Time,
        rtt: Option<Duration>,
        max: usize,
        out: &mut Vec<(u64, u64)>,
    ) -> bool {
        self.nacks.take(now, rtt, max, &self.ahead, self.expected, out)
    }

    /// Storage that is not needed any more goes back to whoever made it.
    pub(crate) fn poll_released(&mut self) -> Option<BufferId> {
        self.released.pop_front()
    }

    /// Nobody reads any more, and what has not been read is dropped; an ACK of it that is due still is. All storage comes
    /// out of [`Incoming::poll_released`].
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.messages.clear(&mut self.released);
        (self.next, self.within) = (self.expected, 0);
        self.ahead.clear();
        self.holes.clear();
        self.nacks = Nacks::default();
        self.spares.clear(&mut self.released);
        self.newest = None;
    }
}

fn clamp(window: u64) -> u64 {
    window.min(u64::from(WINDOW_LIMIT) - 1)
}
