//! The sending half of a connection (specs/a1.md, 1.1 and 2).
//!
//! It knows the application's messages by name, cuts them into blocks, says which block goes next and when, and takes in
//! what the peer says of those that have left. Blocks are counted from 0, in 64 bits; it knows nothing of wire numbers,
//! identifiers or datagrams, nor how the round trip is measured.
//!
//! Always true: `acked <= sent`; a block only leaves below the edge and less than the window beyond `acked`; bodies leave
//! no faster than the terms say, repetitions included; nothing is believed of what was never sent; every block has a
//! number, also if it never leaves because it is too old; idle, and once
//! [`Outgoing::rest`] has been called, it takes less than 350 bytes. A connection without repetition keeps what it has sent
//! only for congestion control.
//= A-21

mod answers;
mod blocks;
mod messages;
mod send;
mod terms;
#[cfg(test)]
mod tests;

pub(crate) use answers::Expired;
#[cfg(test)]
pub(crate) use answers::{Acked, Nacked};
pub(crate) use messages::{Block, Done, Message, Refused};
pub(crate) use send::Next;
pub(crate) use terms::{Terms, Timing};

use blocks::Blocks;
use core::time::Duration;
use messages::Messages;
use pinnace_core::{ControllerKind, Pacer, Path, Time};
use terms::Agreement;

/// Windows are smaller than 2^20 blocks: numbers of 32 bits compare serially.
const MAX_WINDOW: u64 = (1 << 20) - 1;
/// With its header a block fits in a datagram.
const MAX_BLOCK_BYTES: u32 = 65_475;
/// Messages that are kept for a sink that is behind the others, beyond those that may be outstanding, and their bytes.
const MOST_KEPT: u64 = 4096;
const MOST_KEPT_BYTES: u64 = 64 << 20;

/// How a direction begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) terms: Terms,
    /// The peer's first window: blocks below may be sent.
    pub(crate) edge: u64,
    /// The wire number of the first message: 0, but for a sink that joins others.
    pub(crate) message: u32,
    /// Bytes of a datagram beside the block.
    pub(crate) overhead: u32,
    pub(crate) congestion: ControllerKind,
}

/// What a direction that sends has, and an idle one does not.
#[derive(Debug)]
struct Active {
    blocks: Blocks,
    path: Path,
    /// The round trip with the queues that there are now: what was repeated less than this ago cannot be missed again.
    loaded: Duration,
    /// Since when no block has arrived that was not known to have.
    progress_at: Time,
    /// Repetitions that have left since then.
    futile: u32,
    /// When the oldest block left again that no answer has spoken of since, and how many such repetitions were answered in vain.
    tried_at: Option<Time>,
    tries: u32,
    /// One past the last block that was dropped and has a number.
    passed: u64,
}

/// The sending half of a connection.
#[derive(Debug)]
pub(crate) struct Outgoing {
    messages: Messages,
    agreement: Agreement,
    active: Option<Box<Active>>,
    /// The limit on bodies.
    limiter: Option<Box<Pacer>>,
    acked: u64,
    sent: u64,
    edge: u64,
    timing: Timing,
    /// A round trip that the congestion controller has not been told.
    sample: Option<Duration>,
    /// Since when nothing has been heard that was waited for.
    heard_at: Time,
    /// Of the oldest block, since something was heard.
    repetitions: u32,
    /// Bytes of the largest datagram with a block that has arrived.
    largest_arrived: u32,
    overhead: u32,
    congestion: ControllerKind,
    /// The oldest block is to be repeated whatever is under way.
    is_forced: bool,
    is_over: bool,
    /// Blocks that were dropped and not reported.
    stale: u32,
    /// Blocks that were dropped and have no numbers yet, because the window is full.
    owed: u32,
}

impl Outgoing {
    /// A direction in which nothing is queued.
    pub(crate) fn new(opening: &Opening) -> Self {
        let Opening { mut terms, edge, message, overhead, congestion } = *opening;
        terms.block_bytes = terms.block_bytes.clamp(1, MAX_BLOCK_BYTES);
        Self {
            messages: Messages::new(terms.block_bytes, message),
            agreement: Agreement::new(terms),
            active: None,
            limiter: send::limit(terms.average, terms.burst, terms.block_bytes),
            acked: 0,
            sent: 0,
            edge: edge.min(MAX_WINDOW),
            timing: Timing::default(),
            sample: None,
            heard_at: Time::ZERO,
            repetitions: 0,
            largest_arrived: 0,
            owed: 0,
            overhead,
            congestion,
            is_forced: false,
            is_over: false,
            stale: 0,
        }
    }

    /// Queues `message` behind the others.
    ///
    /// # Errors
    ///
    /// It is too large, has too many blocks, or [`Outgoing::is_full`]; nothing has changed.
    //= A-16
    pub(crate) fn queue(&mut self, message: &Message) -> Result<(), Refused> {
        if message.len > self.terms().max_message {
            return Err(Refused::TooLarge);
        }
        if self.is_full() {
            return Err(Refused::Full);
        }
        self.messages.push(message)
    }

    /// Queues a message that others have taken already, however full it is here.
    //= A-15
    pub(crate) fn queue_anyway(&mut self, message: &Message) -> Result<(), Refused> {
        self.messages.push(message)
    }

    /// Whether that is still bearable: everything that is queued is kept.
    pub(crate) fn may_queue_anyway(&self) -> bool {
        let bytes = self.messages.unsent().saturating_mul(self.terms().block_bytes.into());
        self.messages.len() < self.terms().outstanding + MOST_KEPT && bytes < MOST_KEPT_BYTES
    }

    /// The next message has this wire number: others were sent to the group before.
    //= A-15
    pub(crate) fn number_messages_from(&mut self, number: u32) {
        self.messages = Messages::new(self.terms().block_bytes, number);
    }

    /// The wire number of the next message that is queued.
    pub(crate) fn next_message(&self) -> u32 {
        self.messages.next_number()
    }

    /// Whether another message would only be buffered: as many are outstanding as may be, or the window is full with what
    /// is queued.
    //= A-16
    //= A-22
    pub(crate) fn is_full(&self) -> bool {
        self.messages.len() >= self.terms().outstanding || self.end() + self.messages.unsent() >= self.limit()
    }

    /// Whether so much may be queued again that whoever was refused should be told: a third of the window, so that blocks
    /// leave together.
    //= A-16
    pub(crate) fn is_roomy(&self) -> bool {
        let terms = self.terms();
        let room = self.limit().saturating_sub(self.end() + self.messages.unsent());
        !self.is_full()
            && (room >= terms.window / 3 || self.is_quiet())
            && (self.messages.len() <= terms.outstanding - terms.outstanding / 4)
    }

    /// New blocks below may leave.
    //= A-10
    fn limit(&self) -> u64 {
        let limit = self.edge.min(self.acked + self.terms().window.min(MAX_WINDOW));
        if self.is_over { 0 } else { limit }
    }

    /// Whether blocks are queued and the window lets none of them leave.
    #[cfg(test)]
    pub(crate) fn waits_for_window(&self) -> bool {
        self.messages.unsent() > 0 && self.sent >= self.limit()
    }

    /// Whether something is to be repeated.
    pub(crate) fn has_repairs(&self) -> bool {
        self.active.as_deref().is_some_and(|active| active.blocks.has_lost())
    }

    /// A round trip was measured; `loaded` is what one takes now.
    pub(crate) fn on_round_trip(&mut self, sample: Duration, loaded: Duration, timing: Timing) {
        self.timing = timing;
        if let Some(active) = self.active.as_deref_mut() {
            active.loaded = loaded;
        }
        self.sample = Some(sample);
    }

    /// What is to be obeyed now.
    pub(crate) fn terms(&self) -> &Terms {
        self.agreement.current()
    }

    /// The peer has been asked for `terms`: until [`Outgoing::set_terms`] the smaller of them and the old ones hold.
    //= A-12
    pub(crate) fn propose_terms(&mut self, now: Time, terms: &Terms) {
        self.agreement.set(None, terms, self.sent);
        self.follow_terms(now);
    }

    /// `terms` hold from the block `from_block` on, and at once if that is not above [`Outgoing::sent`]; before it the
    /// smaller of them and the old ones. Block size and mode never change.
    //= A-12
    pub(crate) fn set_terms(&mut self, now: Time, from_block: u64, terms: &Terms) {
        self.agreement.set(Some(from_block), terms, self.sent);
        self.follow_terms(now);
    }

    /// Whether terms wait for an answer or for their first block.
    pub(crate) fn is_change_pending(&self) -> bool {
        self.agreement.is_pending()
    }

    /// Drops, in raw mode, what has not left of the messages that are next and past their deadline. Returns how many blocks.
    /// Their numbers are passed over, so that the peer sees how much is missing, and where.
    //= A-6
    pub(crate) fn drop_stale(&mut self, now: Time) -> u64 {
        let stale = if self.terms().reliable { 0 } else { self.messages.drop_stale(now) };
        // Queued are never more than two windows.
        self.stale += stale as u32;
        self.owed += stale as u32;
        self.pass_over(now);
        stale
    }

    /// One past the last block, whether it has left or was dropped, and whether or not there was room for its number.
    pub(crate) fn end(&self) -> u64 {
        self.sent + u64::from(self.owed)
    }

    /// Whether dropped blocks have used up the window, which opens again when the peer is told of them.
    pub(crate) fn has_passed_window(&self) -> bool {
        let passed = self.active.as_deref().map_or(0, |active| active.passed);
        passed == self.sent && self.acked < self.sent && self.sent >= self.limit()
    }

    /// Blocks that were dropped since this was asked last.
    pub(crate) fn take_stale(&mut self) -> u64 {
        core::mem::take(&mut self.stale).into()
    }

    /// When [`Outgoing::drop_stale`] has something to do.
    pub(crate) fn stale_at(&self) -> Option<Time> {
        if self.terms().reliable { None } else { self.messages.stale_at() }
    }

    /// The next message that is no longer needed, in order: acknowledged, or in raw mode left or dropped.
    pub(crate) fn poll_done(&mut self) -> Option<Done> {
        self.messages.pop_done(self.acked, !self.terms().reliable, self.is_over)
    }

    /// The direction ends: nothing leaves any more, and every message comes back.
    pub(crate) fn abort(&mut self) {
        self.is_over = true;
        self.is_forced = false;
        self.active = None;
    }

    /// The next block never sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Everything below has arrived; in raw mode: or is lost.
    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    /// The peer lets blocks below leave.
    pub(crate) fn edge(&self) -> u64 {
        self.edge
    }

    /// Blocks that have never left.
    pub(crate) fn queued_blocks(&self) -> u64 {
        self.messages.unsent()
    }

    /// Bytes under way as the congestion controller counts them: overhead included, what is lost or has arrived not.
    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> u64 {
        self.active.as_deref().map_or(0, |active| active.blocks.bytes())
    }

    /// Whether a CLOSE may go out: all blocks are acknowledged, in raw mode: have left.
    //= A-18
    pub(crate) fn is_flushed(&self) -> bool {
        self.is_over || (self.messages.unsent() == 0 && (!self.terms().reliable || self.acked == self.sent))
    }

    /// Whether a SYNC is due every 100 ms: blocks are queued or unacknowledged, or the window is closed. Then a message may
    /// wait that [`Outgoing::queue`] has refused, and the ACK that opened the window may be lost.
    pub(crate) fn needs_sync(&self) -> bool {
        !self.is_over && (!self.is_quiet() || self.sent >= self.limit())
    }

    /// Whether no block is queued or unacknowledged.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_over || (self.messages.unsent() == 0 && self.acked == self.end())
    }

    /// Gives back all memory that an idle direction does not need: congestion control starts anew with the next block.
    /// Does nothing unless [`Outgoing::is_quiet`].
    pub(crate) fn rest(&mut self) {
        if self.is_quiet() {
            self.active = None;
            self.messages.shrink();
        }
    }

    /// Bytes that it takes, heap included.
    #[cfg(test)]
    fn memory(&self) -> usize {
        let limiter = if self.limiter.is_some() { size_of::<Pacer>() } else { 0 };
        size_of::<Self>() + limiter + self.messages.heap_bytes()
    }
}
