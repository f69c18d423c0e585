//! The receiving half of a context's stream (specs/xtp.md, 3.1, 3.4, 3.6, 3.8 and 3.10).
//!
//! [`Incoming`] says what is new in a piece of the stream and where it belongs, and knows what may be told to the peer
//! (rseq, spans, alloc) and to the application (bytes, messages, holes, the end). It names places and touches no byte.
//! Offsets count from the start of the stream and never wrap, so that old and new compare plainly.
//!
//! Always true: `dseq <= rseq <= hseq`, and none of them ever falls. Bytes below `rseq` are in (or, with
//! [`Keeping::NoError`], known to be lost). Spans lie behind `rseq`, and touch neither it nor each other. Every byte is
//! placed at most once. What a peer can make grow is bounded by the [`Policy`]: spans or holes, and ends of messages,
//! which the memory of their bytes bounds, too; of tags there are [`MAX_TAGS`].
//= X-16

mod marks;
mod memory;
mod plan;
#[cfg(test)]
mod tests;

use core::ops::Range;
use marks::Marks;
use memory::Memory;
use pinnace_core::{BufferId, BufferRange, IntervalSet};
use pinnace_wire::xtp;

/// Bytes that a sender may send before it has heard a status.
const INITIAL_ALLOC: u64 = xtp::INITIAL_ALLOC as u64;

/// The largest window, and the longest hole that a stream without error control believes in, of a peer that is proved to be
/// where it says it is.
const MAX_WINDOW: u64 = xtp::MAX_WINDOW as u64;

/// Most tags of messages that are not consumed.
const MAX_TAGS: usize = 4096;

/// What becomes of bytes that come out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// They are kept, and gaps are filled.
    Selective,
    /// Nothing beyond a gap is kept.
    GoBackN,
    /// The stream goes on behind a gap: rseq is hseq, late bytes are dropped, the application is told the holes.
    NoError,
}

/// How large the areas are that are added to a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AreaBytes {
    pub most: u32,
    pub least: u32,
}

/// How a stream is received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Bytes that may be sent ahead of what the application has consumed; 2^30 at most.
    pub rwindow: u32,
    /// What that may grow to, unless holes are shown.
    pub most_rwindow: u32,
    /// What becomes of bytes that come out of order.
    pub keeping: Keeping,
    /// RES: alloc covers posted areas, all of them, whatever `rwindow` is.
    pub is_reserved: bool,
    /// Areas are added as the stream comes, of so many bytes: they do not bound alloc. Both 0: none are.
    pub areas: AreaBytes,
    /// Most spans, or holes, at a time.
    pub max_spans: usize,
    /// Most ends of messages that are not consumed.
    pub max_boundaries: usize,
    /// User bytes of the largest packet. 0: unknown.
    pub maxdata: u32,
    /// The stream is one message, so that where it ends the message does.
    pub is_one_message: bool,
}

/// A piece of the stream, as a packet brings it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Offset of the first byte.
    pub low: u64,
    /// User bytes.
    pub len: u32,
    /// A message ends behind the last byte.
    pub eom: bool,
    /// A message begins with the first byte, and this is its tag.
    pub btag: Option<[u8; 8]>,
    /// WCLOSE: the stream ends there.
    pub end: Option<u64>,
}

/// What became of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Something in it is new and was taken.
    New,
    /// Nothing in it is new.
    Duplicate,
    /// Nothing in it is below alloc, or there is no memory for it.
    Beyond,
    /// It cannot be kept: a gap in go-back-N, too many spans, holes or messages.
    Dropped,
    /// It cannot be true: bytes beyond the end, an end that moves, bytes of two messages, a message that ends or begins
    /// in the midst of another one. It changed nothing.
    Contradiction,
}

/// What a piece changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// What became of it.
    pub fate: Fate,
    /// There is a new gap, which may be reported.
    pub is_gap: bool,
    /// The stream has just become complete.
    pub completed: bool,
}

impl Taken {
    const NEW: Self = Self::only(Fate::New);

    const fn only(fate: Fate) -> Self {
        Self { fate, is_gap: false, completed: false }
    }
}

/// What the application can take now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readable {
    /// Where the bytes lie, in order. Empty ones have `len` 0 and name no buffer.
    pub parts: [BufferRange; 2],
    /// Bytes of both.
    pub len: u64,
    /// Bytes up to the end of the first message, if it ends within `len`.
    pub message: Option<u64>,
    /// The tag of the message that begins with the first byte.
    pub btag: Option<[u8; 8]>,
    /// Whether nothing comes behind these bytes.
    pub is_end: bool,
}

/// The receiving half of a stream.
#[derive(Debug)]
pub(crate) struct Incoming {
    policy: Policy,
    memory: Memory,
    /// The next byte to be consumed.
    dseq: u64,
    /// Everything below is in.
    rseq: u64,
    /// One past the highest byte seen below alloc, kept or not.
    hseq: u64,
    /// One past the last byte known to have been sent, if it is lost (`NoError`).
    seen: u64,
    end: Option<u64>,
    /// The largest alloc told to the peer.
    told: u64,
    spans: IntervalSet,
    holes: Option<Box<IntervalSet>>,
    marks: Marks,
    /// The end of the newest piece taken: the next packet begins there.
    expected: u64,
    /// User bytes of a usual packet.
    size: u32,
    /// Bytes consumed since the window was widened, or could not be.
    consumed: u32,
    /// User bytes of the newest packet.
    last_size: u32,
    is_told: bool,
    /// How often the areas that are added have been halved.
    halvings: u8,
    /// A message ended at `dseq`.
    is_ended: bool,
    /// The peer is where it says it is.
    is_proved: bool,
}

impl Incoming {
    /// A stream of which nothing has come.
    pub(crate) fn new(policy: Policy) -> Self {
        let policy = Policy { rwindow: policy.rwindow.min(xtp::MAX_WINDOW), ..policy };
        Self {
            policy,
            memory: Memory::None,
            dseq: 0,
            rseq: 0,
            hseq: 0,
            seen: 0,
            end: None,
            told: 0,
            spans: IntervalSet::new(),
            holes: None,
            marks: Marks::default(),
            expected: 0,
            size: 0,
            consumed: 0,
            last_size: 0,
            halvings: 0,
            is_told: false,
            is_ended: false,
            is_proved: false,
        }
    }

    /// Lends a ring of `bytes` bytes, less than 2^32 of which are used; the next byte to be consumed lies at its start.
    /// False, and not taken, if there is memory already.
    pub(crate) fn set_ring(&mut self, buffer: BufferId, bytes: u64) -> bool {
        self.lend_ring(buffer, bytes, 0)
    }

    /// Lends a ring in which the byte at offset `o` lies at `(base + o) mod bytes`. False, and not taken, if there is
    /// memory already.
    #[cfg(test)]
    pub(crate) fn set_ring_at(&mut self, buffer: BufferId, bytes: u64, base: u64) -> bool {
        let at = if bytes == 0 { 0 } else { (base % bytes + self.dseq % bytes) % bytes };
        self.lend_ring(buffer, bytes, at as u32)
    }

    fn lend_ring(&mut self, buffer: BufferId, bytes: u64, at: u32) -> bool {
        if bytes == 0 || !matches!(self.memory, Memory::None) {
            return false;
        }
        self.memory = Memory::ring(buffer, u32::try_from(bytes).unwrap_or(u32::MAX), at);
        self.advance();
        true
    }

    /// Gives back the ring, if nothing is in it, or an area, of which there may be more; other memory that an idle stream
    /// does not need goes too.
    pub(crate) fn take_ring(&mut self) -> Option<BufferId> {
        if self.dseq < self.rseq || !self.spans.is_empty() {
            return None;
        }
        let areas = if self.policy.areas.most > 0 { self.memory.take_last_area() } else { None };
        let ring = self.memory.take_ring().or(areas)?;
        self.spans = IntervalSet::new();
        self.holes = None;
        self.marks.shrink();
        Some(ring)
    }

    /// Whether the window should be larger: a quarter of it has been consumed since it was widened, and the application keeps
    /// up with what comes. A sender that begins doubles what is under way in each round trip, and for one more of them a gap
    /// keeps all that follows from being consumed: four times what was consumed is what it needs to be.
    #[inline]
    pub(crate) fn is_outgrown(&self) -> bool {
        let window = self.policy.rwindow;
        window < self.policy.most_rwindow
            && self.consumed >= window / 4
            && self.rseq - self.dseq <= u64::from(window / 4)
            && !self.shows_holes()
    }

    /// Whether there is a ring that a larger one can take over from now.
    pub(crate) fn has_outgrown_ring(&self) -> bool {
        self.memory.is_outgrown(self.dseq, self.hseq)
    }

    /// Bytes of the memory that is lent to it.
    pub(crate) fn lent_bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// Lends a larger ring to one that has been [outgrown](Self::has_outgrown_ring).
    pub(crate) fn set_larger_ring(&mut self, buffer: BufferId, bytes: u32) {
        self.memory.succeed(self.dseq, buffer, bytes);
    }

    /// Gives back a ring that a larger one has taken over from.
    pub(crate) fn take_outgrown(&mut self) -> Option<BufferId> {
        self.memory.take_outgrown()
    }

    /// Bytes that may be sent ahead of what the application has consumed.
    pub(crate) fn window(&self) -> u32 {
        self.policy.rwindow
    }

    /// Lets so much be sent ahead; never less than before.
    pub(crate) fn widen(&mut self, window: u32) {
        self.policy.rwindow = self.policy.rwindow.max(window);
        self.consumed = 0;
    }

    /// What [`Incoming::widen`] is to be told next.
    pub(crate) fn wider(&self) -> u32 {
        self.policy.rwindow.saturating_mul(2).min(self.policy.most_rwindow)
    }

    /// How large the next area should be, if bytes up to `high`, and some that may follow, would find no memory, although
    /// more is to be had.
    #[inline]
    pub(crate) fn needs_area(&self, high: u64) -> Option<u64> {
        let AreaBytes { most, least } = self.policy.areas;
        let end = self.memory.end(self.dseq).unwrap_or(self.dseq);
        let needed = high.saturating_add(most.into()).min(self.window_limit()).min(self.end.unwrap_or(u64::MAX));
        // A packet lies in two of them at most.
        let packet = u64::from(self.size).next_multiple_of(u64::from(least.max(1)));
        let bytes = u64::from(most >> self.halvings).max(least.into()).max(packet).min(most.into());
        (end < needed && bytes > 0).then_some(bytes)
    }

    /// Takes the first area, with the bytes that can be read of it: they are consumed. Bytes may still be missing there
    /// behind them, if none have come behind a gap: what comes next lies in the area behind it. Also says whether a status
    /// is due unasked.
    pub(crate) fn take_area(&mut self) -> Option<(BufferRange, bool)> {
        let area = self.memory.first_area(self.dseq)?;
        let len = u64::from(area.len).min(self.rseq - self.dseq);
        if len == 0 {
            return None;
        }
        if len < u64::from(area.len) {
            if !self.spans.is_empty() || self.shows_holes() {
                return None;
            }
            self.memory.cut_first_area(self.dseq + len);
        }
        // Who takes little at a time gets small areas, so that what is taken is not mostly empty. Many small ones cost time:
        // who does not keep up gets large ones at once.
        if len <= u64::from(area.len / 4) {
            self.halvings = (self.halvings + 1).min(u32::BITS as u8 - 1);
        } else if len == u64::from(area.len) {
            self.halvings = 0;
        }
        self.memory.pop_area(self.dseq + len, false);
        let is_due = self.consume(len);
        Some((BufferRange::new(area.buffer, area.offset, len as u32), is_due))
    }

    /// Whether bytes that come now would find no memory, although they are not to wait for posted areas.
    pub(crate) fn needs_ring(&self) -> bool {
        matches!(self.memory, Memory::None) && !self.policy.is_reserved && !self.is_complete()
    }

    /// Says whether the sender repeats nothing, before anything has come.
    //= X-15
    pub(crate) fn set_no_error(&mut self, no_error: bool, go_back_n: bool) {
        self.policy.keeping = match (no_error, go_back_n) {
            (true, _) => Keeping::NoError,
            (false, true) => Keeping::GoBackN,
            (false, false) => Keeping::Selective,
        };
    }

    /// Says whether the peer is where it says it is: long holes are believed of nobody else.
    pub(crate) fn set_proved(&mut self, is_proved: bool) {
        self.is_proved = is_proved;
    }

    /// Whether bytes that are lost are shown as holes.
    pub(crate) fn shows_holes(&self) -> bool {
        self.policy.keeping == Keeping::NoError
    }

    /// Whether areas can be posted: there is no ring.
    pub(crate) fn takes_areas(&self) -> bool {
        !matches!(self.memory, Memory::Ring(_))
    }

    /// Lends an area, which is used behind those posted before. Nothing happens if there is a ring
    /// ([`Incoming::takes_areas`]). Returns whether a status is due unasked.
    pub(crate) fn post(&mut self, buffer: BufferId, offset: u64, len: u64) -> bool {
        self.memory.post(self.dseq, buffer, offset, len);
        self.advance();
        self.is_status_due()
    }

    /// Gives back the next area that has been consumed, or that the stream will never fill.
    pub(crate) fn poll_filled(&mut self) -> Option<BufferId> {
        self.memory.pop_area(self.dseq, self.end == Some(self.dseq))
    }

    /// Gives back memory, ring or area, until there is none: at the end of the context.
    pub(crate) fn release(&mut self) -> Option<BufferId> {
        self.memory.take_ring().or_else(|| self.memory.pop_area(self.dseq, true))
    }

    /// A packet with user bytes, or with marks, has come. Calls `place` for every stretch of its user bytes that is new,
    /// with the place where it belongs.
    pub(crate) fn on_data(&mut self, piece: &Piece, place: &mut impl FnMut(Range<u32>, BufferRange)) -> Taken {
        let Some(high) = piece.low.checked_add(u64::from(piece.len)) else { return Taken::only(Fate::Contradiction) };
        let is_plain = piece.low == self.rseq
            && self.rseq == self.hseq
            && piece.len > 0
            && piece.btag.is_none()
            && piece.end.is_none()
            && self.end.is_none()
            && high <= self.limit();
        if !is_plain || (piece.eom && self.marks.ends() >= self.policy.max_boundaries) {
            return self.on_other_data(piece, high, place);
        }
        for (at, range) in self.memory.parts(self.dseq, piece.low..high) {
            let from = (at - piece.low) as u32;
            place(from..from + range.len, range);
        }
        self.rseq = high;
        self.hseq = high;
        if piece.eom {
            self.marks.insert_end(high);
        }
        self.expect(piece.len, high);
        Taken::NEW
    }

    /// A control packet says that the stream ends at `end` (WCLOSE).
    pub(crate) fn on_end(&mut self, end: u64) -> Taken {
        if self.contradicts_end(end) {
            return Taken::only(Fate::Contradiction);
        }
        if self.end.is_some() {
            return Taken::only(Fate::Duplicate);
        }
        let fate = if self.learn_end(end) { Fate::New } else { Fate::Beyond };
        Taken { fate, is_gap: false, completed: self.completes(false) }
    }

    /// Everything below `sent` has been sent a while ago, and is not repeated: what has not come is lost.
    //= X-15
    pub(crate) fn on_sent(&mut self, sent: u64) -> Taken {
        if self.end.is_some_and(|end| sent > end) {
            return Taken::only(Fate::Contradiction);
        }
        let (was_complete, before) = (self.is_complete(), self.rseq);
        self.lose(sent);
        let fate = if self.rseq > before { Fate::New } else { Fate::Duplicate };
        Taken { fate, is_gap: false, completed: self.completes(was_complete) }
    }

    /// Whether the stream has become complete.
    fn completes(&mut self, was_complete: bool) -> bool {
        let completed = !was_complete && self.is_complete();
        if completed && self.policy.is_one_message {
            // An empty packet that said EOM may be lost: nobody can ask for it, as no byte is missing.
            self.mark_end(self.rseq);
        }
        completed
    }

    /// A message ends at `at`, up to which everything is in, as far as that is not known or was told already.
    fn mark_end(&mut self, at: u64) {
        if !(at == self.dseq && self.is_ended) {
            self.marks.insert_end(at);
        }
    }

    /// Everything below has come (or, without error control, will not come any more).
    pub(crate) fn rseq(&self) -> u64 {
        self.rseq
    }

    /// One past the highest byte that has come.
    pub(crate) fn hseq(&self) -> u64 {
        self.hseq
    }

    /// The next byte for the application.
    pub(crate) fn dseq(&self) -> u64 {
        self.dseq
    }

    /// Where the stream ends, once it is known.
    #[cfg(test)]
    pub(crate) fn end(&self) -> Option<u64> {
        self.end
    }

    /// Whether all bytes up to the end have come.
    pub(crate) fn is_complete(&self) -> bool {
        self.end == Some(self.rseq)
    }

    /// What has come beyond rseq: rising, not empty, touching neither each other nor rseq.
    pub(crate) fn spans(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.spans.iter()
    }

    /// One past the last byte that the peer may send; it will be told. Never falls.
    //= X-8
    pub(crate) fn alloc(&mut self) -> u64 {
        self.told = self.told.max(self.window_end());
        self.is_told = true;
        self.told
    }

    /// What the application can take now.
    pub(crate) fn readable(&self) -> Readable {
        let mut parts = [BufferRange::new(BufferId::new(0), 0, 0); 2];
        let mut len = 0;
        for (part, (_, range)) in parts.iter_mut().zip(self.memory.parts(self.dseq, self.dseq..self.rseq)) {
            *part = range;
            len += u64::from(range.len);
        }
        let high = self.dseq + len;
        let message = self.marks.first_end().filter(|end| *end <= high).map(|end| end.saturating_sub(self.dseq));
        Readable {
            parts,
            len,
            message,
            // Where a message ends of which the rest is empty, bytes that lie there are the next one's, and the tag is.
            btag: self.marks.tag(self.dseq).filter(|_| message != Some(0) || self.dseq == self.rseq),
            is_end: self.end == Some(high),
        }
    }

    /// What is missing in [`Incoming::readable`], as offsets from its first byte: bytes that will never come. What lies
    /// there instead is not specified.
    //= X-15
    pub(crate) fn holes(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let high = self.dseq + self.readable().len;
        let holes = self.holes.iter().flat_map(|holes| holes.iter());
        holes
            .take_while(move |hole| hole.start < high)
            .map(move |hole| hole.start - self.dseq..hole.end.min(high) - self.dseq)
    }

    /// The application has taken the first `bytes` bytes of [`Incoming::readable`]; 0 takes an empty message. Returns
    /// whether a status is due unasked: the window opens again (3.6), or the stream is complete now.
    pub(crate) fn consume(&mut self, bytes: u64) -> bool {
        debug_assert!(bytes <= self.rseq - self.dseq);
        let bytes = bytes.min(self.rseq - self.dseq);
        let was_complete = self.is_complete();
        self.dseq += bytes;
        self.consumed = self.consumed.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.memory.consume(self.dseq, bytes);
        let ended = self.marks.drop_ends(self.dseq);
        if bytes > 0 || ended {
            self.is_ended = ended;
            // A tag at dseq is that of an empty message, unless bytes lie there: then it is theirs, and an empty packet has
            // ended the message before.
            self.marks.drop_tags(self.dseq + u64::from(bytes == 0 && self.dseq == self.rseq));
        }
        if let Some(holes) = &mut self.holes {
            holes.pop_front_below(self.dseq);
        }
        self.advance();
        self.is_status_due() || self.completes(was_complete)
    }

    /// Whether alloc had been reached and has risen by so much that the peer is to be told unasked (3.6).
    pub(crate) fn is_status_due(&self) -> bool {
        let told = if self.is_told { self.told } else { INITIAL_ALLOC };
        if self.hseq < told || self.end.is_some_and(|end| end <= told) {
            return false;
        }
        let room = self.window_end().saturating_sub(told);
        let half = u64::from(self.policy.rwindow / 2);
        let enough = if self.policy.maxdata == 0 { half } else { half.min(2 * u64::from(self.policy.maxdata)) };
        room >= enough.max(1) || (room > 0 && self.dseq == self.rseq)
    }

    /// What alloc would be if nothing had been told.
    fn window_end(&self) -> u64 {
        let window = if self.policy.is_reserved { MAX_WINDOW } else { u64::from(self.policy.rwindow) };
        let most = self.dseq.saturating_add(window);
        match self.memory.end(self.dseq) {
            Some(end) if self.policy.areas.most == 0 => most.min(end),
            // Nothing is posted.
            None if self.policy.is_reserved => self.dseq,
            // There will be memory when it is needed.
            _ => most,
        }
    }

    /// Bytes from here on are dropped. What was allowed once is taken, even if less is allowed now.
    fn limit(&self) -> u64 {
        self.window_limit().min(self.memory.end(self.dseq).unwrap_or(self.dseq))
    }

    /// The same, if there were memory for all of it.
    fn window_limit(&self) -> u64 {
        let window = self.dseq.saturating_add(u64::from(self.policy.rwindow));
        if self.policy.is_reserved { u64::MAX } else { window.max(self.told).max(INITIAL_ALLOC) }
    }

    /// A packet of `len` user bytes that ends at `high` was taken.
    fn expect(&mut self, len: u32, high: u64) {
        // One short packet ends a message; several are the rule from now on.
        if len > self.size || len == self.last_size {
            self.size = len;
        }
        self.last_size = len;
        self.expected = high;
    }

    /// Everything but the plain next packet.
    fn on_other_data(&mut self, piece: &Piece, high: u64, place: &mut impl FnMut(Range<u32>, BufferRange)) -> Taken {
        if self.contradicts(piece, high) {
            return Taken::only(Fate::Contradiction);
        }
        let was_complete = self.is_complete();
        //= X-14
        let is_above = piece.len > 0 && piece.low > self.hseq && self.policy.keeping != Keeping::NoError;
        let fate = if piece.len == 0 { self.take_empty(piece) } else { self.take(piece, high, place) };
        if let Some(end) = piece.end {
            self.learn_end(end);
        }
        Taken {
            fate,
            is_gap: is_above && matches!(fate, Fate::New | Fate::Dropped),
            completed: self.completes(was_complete),
        }
    }

    fn take(&mut self, piece: &Piece, high: u64, place: &mut impl FnMut(Range<u32>, BufferRange)) -> Fate {
        let limit = self.limit();
        if high <= self.rseq {
            return Fate::Duplicate;
        }
        let low = piece.low.max(self.rseq);
        if low >= limit {
            self.lose(high);
            return Fate::Beyond;
        }
        let cut = high.min(limit);
        if self.spans.covers(low..cut) {
            return if cut < high { Fate::Beyond } else { Fate::Duplicate };
        }
        let eom = piece.eom && cut == high;
        if low > self.rseq && !self.has_room_beyond_gap(low, cut) {
            return self.drop_seen(cut, high);
        }
        if !self.has_room_for_marks(piece, eom, high) {
            return self.drop_seen(cut, high);
        }
        for gap in self.spans.missing_in(low..cut) {
            for (at, range) in self.memory.parts(self.dseq, gap) {
                let from = (at - piece.low) as u32;
                place(from..from + range.len, range);
            }
        }
        if low > self.rseq && self.policy.keeping == Keeping::NoError {
            self.holes.get_or_insert_default().insert(self.rseq..low);
            self.rseq = cut;
        } else if low > self.rseq {
            self.spans.insert(low..cut);
        } else {
            self.rseq = self.spans.first_missing_from(cut);
            self.spans.pop_front_below(self.rseq);
        }
        self.hseq = self.hseq.max(cut);
        self.mark(piece, eom, high);
        self.expect(piece.len, cut);
        if cut < high {
            self.lose(high);
        }
        Fate::New
    }

    /// Keeps nothing of a piece that ends at `high`, and up to `cut` is below alloc. The gap is reported once all the same.
    fn drop_seen(&mut self, cut: u64, high: u64) -> Fate {
        if self.policy.keeping != Keeping::NoError {
            self.hseq = self.hseq.max(cut);
        }
        self.lose(high);
        Fate::Dropped
    }

    /// An empty packet may end a message, or begin one, right behind what is in; nothing else can be said by it.
    fn take_empty(&mut self, piece: &Piece) -> Fate {
        let at = piece.low;
        let is_new_end = piece.eom && !self.marks.has_end(at) && !(at == self.dseq && self.is_ended);
        let is_new_tag = !piece.eom && piece.btag.is_some() && self.marks.tag(at).is_none();
        if at < self.rseq || !(is_new_end || is_new_tag) {
            Fate::Duplicate
        } else if at > self.rseq || !self.has_room_for_marks(piece, piece.eom, at) {
            Fate::Dropped
        } else {
            self.mark(piece, piece.eom, at);
            Fate::New
        }
    }

    /// Whether bytes `low..high`, which lie beyond a gap, can be kept.
    fn has_room_beyond_gap(&self, low: u64, high: u64) -> bool {
        match self.policy.keeping {
            //= X-13
            Keeping::GoBackN => false,
            Keeping::Selective => {
                // What overlaps or touches a span makes none.
                self.spans.range_count() < self.policy.max_spans || self.spans.overlaps(low - 1..high.saturating_add(1))
            }
            Keeping::NoError => self.has_room_for_hole(),
        }
    }

    /// Whether a hole that begins at rseq can be noted.
    fn has_room_for_hole(&self) -> bool {
        self.holes.as_ref().is_none_or(|holes| {
            holes.range_count() < self.policy.max_spans || holes.max().is_some_and(|last| last + 1 == self.rseq)
        })
    }

    /// Whether the ends and the tag that a piece tells can be noted. One more than allowed is taken where there would be no
    /// message to deliver without it, and so nothing that ever makes room.
    fn has_room_for_marks(&self, piece: &Piece, eom: bool, high: u64) -> bool {
        let more = usize::from(eom && !self.marks.has_end(high))
            + usize::from(piece.btag.is_some() && piece.low > self.dseq && !self.marks.has_end(piece.low));
        let is_needed = piece.low <= self.rseq && self.marks.first_end().is_none_or(|end| end > self.rseq);
        let is_new_tag = piece.btag.is_some() && piece.low >= self.dseq && self.marks.tag(piece.low).is_none();
        let has_room = (more == 0 || self.marks.ends() + more <= self.policy.max_boundaries)
            && (!is_new_tag || self.marks.tags() < MAX_TAGS);
        has_room || is_needed
    }

    /// Notes what a piece tells about messages.
    fn mark(&mut self, piece: &Piece, eom: bool, high: u64) {
        if eom {
            self.marks.insert_end(high);
        }
        if let Some(tag) = piece.btag
            && piece.low >= self.dseq
        {
            self.marks.insert_tag(piece.low, tag);
            if piece.low > self.dseq {
                self.marks.insert_end(piece.low);
            }
        }
    }

    /// Bytes below `high` have been sent and are not kept. Without error control they are a hole.
    //= X-15
    fn lose(&mut self, high: u64) {
        if self.policy.keeping == Keeping::NoError && self.believes(high) {
            self.seen = self.seen.max(high);
            self.advance();
        }
    }

    /// Whether bytes up to `high` may have been sent. A packet that anybody can make must not cost the application a
    /// gibibyte of zeros; whoever outran the ring before it was proved is believed afterwards.
    fn believes(&self, high: u64) -> bool {
        let unproved = self.limit().saturating_add(u64::from(self.policy.rwindow).max(INITIAL_ALLOC));
        high.saturating_sub(self.hseq) <= MAX_WINDOW && (self.is_proved || high <= unproved)
    }

    /// Moves on over bytes that will not come, as far as there is memory in which to show their places.
    fn advance(&mut self) {
        if self.seen <= self.hseq {
            return;
        }
        let high = self.seen.min(self.limit());
        if high > self.hseq && self.has_room_for_hole() {
            self.holes.get_or_insert_default().insert(self.hseq..high);
            self.rseq = high;
            self.hseq = high;
        }
    }

    /// Whether a piece cannot be true beside what is known.
    fn contradicts(&self, piece: &Piece, high: u64) -> bool {
        if self.end.is_some_and(|end| high > end)
            || piece.end.is_some_and(|end| end < high || self.contradicts_end(end))
            || self.marks.ends_between(piece.low, high)
        {
            return true;
        }
        if piece.len == 0 || self.policy.keeping == Keeping::NoError {
            return false;
        }
        // The marks come with the bytes: a byte that came without one has none.
        let is_in = |offset| offset < self.rseq || self.spans.contains(offset);
        (piece.eom && high > self.dseq && is_in(high - 1) && !self.marks.has_end(high))
            || (piece.btag.is_some()
                && piece.low >= self.dseq
                && is_in(piece.low)
                && self.marks.tag(piece.low).is_none())
    }

    fn contradicts_end(&self, end: u64) -> bool {
        end < self.hseq.max(self.seen) || self.end.is_some_and(|known| known != end)
    }

    /// The stream ends at `end`. False if it is too far away to be believed.
    fn learn_end(&mut self, end: u64) -> bool {
        if self.policy.keeping == Keeping::NoError && !self.believes(end) {
            return false;
        }
        self.end = Some(end);
        self.lose(end);
        true
    }
}
