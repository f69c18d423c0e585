//! The sending half of a stream (specs/xtp.md, 3.1 to 3.6, 3.10, 3.12).
//!
//! It knows the application's data by name, what of it has been sent, and what has become of that; it says what goes next
//! and takes in what statuses say. All offsets are stream offsets, 64 bits from 0; it knows nothing of wire numbers, keys
//! or packets.
//!
//! Always true: `acked <= sent <= queued`; only bytes below alloc leave, and never more than 2^30 beyond `acked`; while the
//! stream is idle it takes less than 350 bytes, once [`Outgoing::rest`] has been called.

mod answers;
mod asks;
mod chunks;
mod flights;
mod group;
mod path;
mod send;
#[cfg(test)]
mod tests;

pub(crate) use answers::Heard;
#[cfg(test)]
pub(crate) use answers::Outcome;
pub(crate) use chunks::{Chunk, Done, MOST_PIECES};
pub(crate) use group::Heard as GroupHeard;
pub(crate) use path::PathConfig;
pub(crate) use send::{Asking, Cut, Next, Terms};

use asks::Asks;
use chunks::Chunks;
use core::time::Duration;
use flights::Flights;
use path::{Doubt, Limit, RoundTrip, Standstill};
use pinnace_core::{BufferRange, ControllerKind, Path, Time};
use pinnace_wire::xtp;

/// Bytes that may be sent before the first status.
const FIRST_ALLOC: u64 = xtp::INITIAL_ALLOC as u64;
/// No more leaves beyond what is acknowledged, whatever the peer allows: numbers of 32 bits compare serially.
const MAX_WINDOW: u64 = xtp::MAX_WINDOW as u64;

/// What a stream that sends has, and an idle one does not.
#[derive(Debug)]
struct Active {
    flights: Flights,
    path: Path,
    doubt: Doubt,
    standstill: Standstill,
}

/// The sending half of a stream.
#[derive(Debug)]
pub(crate) struct Outgoing {
    chunks: Chunks,
    asks: Asks,
    active: Option<Box<Active>>,
    /// User bytes by the traffic specifier.
    limit: Option<Box<Limit>>,
    /// The number of the next transmission, from 1.
    number: u64,
    acked: u64,
    sent: u64,
    queued: u64,
    alloc: u64,
    rtt: RoundTrip,
    congestion: ControllerKind,
    initial_timeout: Duration,
    floor: Duration,
    has_end: bool,
    /// The message of the last chunk goes on.
    is_in_message: bool,
    has_status: bool,
    is_settled: bool,
    /// Data have come the other way since data left last.
    may_answer: bool,
    no_error: bool,
    go_back_n: bool,
}

impl Outgoing {
    /// A stream of which nothing is queued; `sync` is the value before the first ask.
    pub(crate) fn new(sync: u32, config: &PathConfig) -> Self {
        Self {
            chunks: Chunks::default(),
            asks: Asks::new(sync),
            active: None,
            limit: path::limit(config.rate, config.burst, (0, 0)),
            number: 1,
            acked: 0,
            sent: 0,
            queued: 0,
            alloc: FIRST_ALLOC,
            rtt: RoundTrip::default(),
            congestion: config.congestion,
            initial_timeout: config.initial_timeout,
            floor: config.floor,
            has_end: false,
            is_in_message: false,
            has_status: false,
            is_settled: false,
            may_answer: false,
            no_error: false,
            go_back_n: false,
        }
    }

    /// From `now` on at most `burst + rate * t` user bytes leave in `t` seconds; `rate` 0 is no limit, `burst` 0 what the
    /// rate sends in 10 ms. What of that is the peer's, rate and burst, is kept for the next change.
    //= X-19
    pub(crate) fn set_rate(&mut self, now: Time, rate: u64, burst: u64, peer_takes: (u32, u32)) {
        match &mut self.limit {
            Some(limit) if rate > 0 => {
                limit.pacer.set_rate(now, Some(rate));
                limit.pacer.set_burst(now, path::burst_of(rate, burst));
                limit.peer_takes = peer_takes;
            }
            limit => *limit = path::limit(rate, burst, peer_takes),
        }
    }

    /// The rate and the burst that the peer can take; 0: no limit.
    pub(crate) fn peer_takes(&self) -> (u32, u32) {
        self.limit.as_deref().map_or((0, 0), |limit| limit.peer_takes)
    }

    /// Queues `chunk` behind what is queued. Never after [`Outgoing::shut`].
    pub(crate) fn queue(&mut self, chunk: Chunk) {
        debug_assert!(!self.has_end, "the stream has ended");
        self.chunks.push(self.queued, &chunk);
        self.queued += chunk.len;
        self.is_in_message = !chunk.eom;
    }

    /// Whether a message has begun of which neither the end was queued, nor that of the stream, which would end it as well.
    pub(crate) fn is_in_message(&self) -> bool {
        self.is_in_message && !self.has_end
    }

    /// The stream ends behind what is queued.
    pub(crate) fn shut(&mut self) {
        self.has_end = true;
    }

    /// RCLOSE came: drops what was never sent; the stream ends at [`Outgoing::sent`].
    pub(crate) fn cut_off(&mut self) {
        self.has_end = true;
        self.queued = self.sent;
        self.chunks.cut_off(self.sent);
    }

    /// Nothing is repeated any more: forgets what is under way and what is lost.
    pub(crate) fn abandon(&mut self) {
        if let Some(active) = self.active.as_deref_mut() {
            active.flights.clear(self.sent);
        }
    }

    /// All that has been sent, an empty message too, is acknowledged by other means than a status: the response of a
    /// transaction, the END of a datagram's receiver.
    pub(crate) fn settle(&mut self, now: Time) {
        self.is_settled = true;
        self.ack_below(now, self.sent);
    }

    /// The next chunk that is no longer needed, in order: all its bytes are below [`Outgoing::acked`]. An empty message
    /// waits for [`Outgoing::settle`]. Where nothing is repeated but the FIRST: all its bytes have been sent, and the FIRST
    /// is not wanted any more; the driver keeps the buffers of a train until it has left.
    pub(crate) fn poll_done(&mut self) -> Option<Done> {
        let is_sent_enough = self.no_error && !self.is_first_wanted();
        self.chunks.pop_done(self.acked, is_sent_enough, self.is_settled)
    }

    /// Whether the FIRST may have to go again: the peer may not have heard of us yet, and will say so if it has. Not for
    /// long, where no room holds the stream back meanwhile.
    fn is_first_wanted(&self) -> bool {
        let has_left_unasked = self.has_end && self.sent == self.queued && !self.asks.has_asked();
        !self.has_status && self.sent <= FIRST_ALLOC && !has_left_unasked
    }

    /// All chunks, at the end of the context.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Done> {
        self.abandon();
        self.queued = self.sent;
        self.chunks.drain()
    }

    /// Everything below has arrived.
    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    /// One past the last byte ever sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// One past the last byte queued.
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// Whether the first that has not been acknowledged has a tag.
    pub(crate) fn is_tagged(&self) -> bool {
        self.chunks.is_tagged()
    }

    /// Bytes of chunks that [`Outgoing::poll_done`] has not given back, but for those acknowledged.
    pub(crate) fn held(&self) -> u64 {
        self.chunks.first_offset().map_or(0, |low| self.queued - low.max(self.acked))
    }

    /// Where the stream ends, once that is known.
    pub(crate) fn end(&self) -> Option<u64> {
        self.has_end.then_some(self.queued)
    }

    /// Bytes under way as the congestion controller counts them: overhead included, what is lost or in a span not.
    pub(crate) fn in_flight(&self) -> u64 {
        self.active.as_deref().map_or(0, |active| active.flights.bytes())
    }

    /// Data have come the other way: what the application sends next may be the answer.
    pub(crate) fn on_question(&mut self) {
        self.may_answer = true;
    }

    /// Whether what leaves next may be the answer to what has come.
    pub(crate) fn may_answer(&self) -> bool {
        self.may_answer
    }

    /// Whether something has to be repeated.
    pub(crate) fn is_repeating(&self) -> bool {
        self.active.as_deref().is_some_and(|active| !active.flights.lost().is_empty())
    }

    /// User bytes that are lost and wait for their repetition.
    #[cfg(test)]
    pub(crate) fn lost(&self) -> u64 {
        self.active.as_deref().map_or(0, |active| active.flights.lost().len())
    }

    /// The newest sync.
    pub(crate) fn sync(&self) -> u32 {
        self.asks.sync()
    }

    /// Whether `echo` names a packet of ours that may have left: a guess hits by chance alone.
    pub(crate) fn has_said(&self, echo: u32) -> bool {
        self.asks.has_said(echo)
    }

    /// Whether `echo` may be what a peer says who has heard us: it is not of a packet that never left.
    pub(crate) fn may_echo(&self, echo: u32) -> bool {
        self.asks.named(echo) != asks::Named::Nothing
    }

    /// Whether a status that was asked for with SREQ has not come. A DREQ is never missing.
    pub(crate) fn is_ask_missing(&self) -> bool {
        self.asks.is_missing()
    }

    /// Whether such a status has been asked for while none was missing, since this was asked last.
    pub(crate) fn begins_to_ask(&mut self) -> bool {
        self.asks.take_first()
    }

    /// The smoothed round trip, once it was measured.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// WTIMER without doubling.
    //= X-12
    pub(crate) fn timeout(&self) -> Duration {
        self.rtt.timeout().unwrap_or(self.initial_timeout).max(self.floor)
    }

    /// The places of the bytes of a cut, at most two. A packet never has bytes of two messages.
    pub(crate) fn parts(&self, low: u64, len: u32) -> impl Iterator<Item = BufferRange> {
        self.chunks.parts(low, len)
    }

    /// Gives back all memory that an idle stream does not need: congestion control starts anew with the next packet, the
    /// round trip stays. Does nothing while bytes are not acknowledged or wait.
    pub(crate) fn rest(&mut self) {
        if self.acked == self.sent && self.queued == self.sent {
            self.active = None;
            self.chunks.shrink();
            self.asks.shrink();
        }
    }
}
