//! Receiving in place: a plan of where the next bytes land, and what a read made of it.
//!
//! A [`ReceivePlan`] maps one to one to `recvmsg` with alternating payload and header (or trailer) slots: payload lands
//! in application memory. After the read a [`Placed`] tells the engine what came and where it lies. The engine looks at
//! heads and tails, decides where each payload belongs, and calls [`Placed::settle`]: if the prediction was right nothing
//! happens, otherwise a [`Move`] is noted, which the driver carries out before it does anything else.
//!
//! Always true: a slot covers only bytes that are still missing, so a wrong guess never damages what has arrived. The
//! moves of one read are carried out as if all at once (sources first, then destinations).

use crate::{Address, BufferId, BufferRange, Ecn, Storage};
use core::ops::Range;

/// What a read knows beside the bytes.
#[derive(Clone, Copy, Debug)]
pub struct RxMeta {
    /// Who sent it.
    pub source: Address,
    /// The local address it was sent to, where the link knows.
    pub destination: Option<Address>,
    /// The ECN bits it arrived with.
    pub ecn: Ecn,
}

/// One stretch of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Bytes that land in application memory.
    Payload(BufferRange),
    /// So many bytes that land in the driver's memory: a header, a trailer, padding, or bounce memory.
    Pooled(u32),
}

impl Slot {
    /// Bytes of the slot.
    pub const fn len(&self) -> usize {
        match self {
            Self::Payload(range) => range.len as usize,
            Self::Pooled(len) => *len as usize,
        }
    }

    /// Whether the slot has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where the next bytes land, slot after slot.
#[derive(Debug, Default)]
pub struct ReceivePlan {
    slots: Vec<Slot>,
    bytes: usize,
    datagrams: usize,
    limit: usize,
}

impl ReceivePlan {
    /// Slots that an engine may use; the driver needs the rest of the kernel's 1,024 iovecs.
    pub const MAX_SLOTS: usize = 1000;

    /// An empty plan.
    pub fn new() -> Self {
        Self::default()
    }

    /// Empties the plan for reuse. `datagrams` is how many a single read of the link can bring (1 without coalescing).
    pub fn reset(&mut self, datagrams: usize) {
        self.slots.clear();
        self.bytes = 0;
        self.datagrams = datagrams;
        self.limit = 65_535;
    }

    /// How many datagrams one read can bring: planning more is wasted work.
    pub fn datagrams(&self) -> usize {
        self.datagrams
    }

    /// Whether `slots` more slots of `bytes` bytes in all are of use.
    pub fn has_room(&self, slots: usize, bytes: usize) -> bool {
        self.slots.len() + slots <= Self::MAX_SLOTS && self.bytes + bytes <= self.limit
    }

    /// Appends a slot in application memory. Empty slots are left out.
    pub fn payload(&mut self, range: BufferRange) {
        self.push(Slot::Payload(range));
    }

    /// Appends `len` bytes of the driver's memory.
    pub fn pooled(&mut self, len: usize) {
        self.push(Slot::Pooled(len as u32));
    }

    fn push(&mut self, slot: Slot) {
        if !slot.is_empty() {
            self.bytes += slot.len();
            self.slots.push(slot);
        }
    }

    /// Appends bounce memory up to `bytes` in all, so that a read never loses the tail of what it brings. The driver
    /// calls it last.
    pub fn top_up(&mut self, bytes: usize) {
        if self.bytes < bytes {
            self.pooled(bytes - self.bytes);
        }
    }

    /// The slots, in order.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Bytes of all slots.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Where bytes are that must move to application memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the read, from this offset on.
    Read(usize),
    /// They came in an earlier read, and the engine has kept them: nobody knew where they belong.
    Kept(Vec<u8>),
}

/// Bytes that must move to application memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Where they are.
    pub from: Source,
    /// Where the bytes belong, and how many.
    pub to: BufferRange,
}

/// One datagram of a read.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Offset of its first byte in the read.
    pub at: usize,
    /// Its bytes.
    pub len: usize,
    first: Position,
    end: Position,
}

/// A slot, and an offset in it.
#[derive(Clone, Copy, Debug)]
struct Position {
    slot: usize,
    offset: usize,
}

/// What one read brought: one datagram or a train of equal ones with a short last one, and where its bytes lie.
#[derive(Debug)]
pub struct Placed<'a> {
    slots: &'a [Slot],
    pieces: &'a [&'a [u8]],
    total: usize,
    segment: usize,
    cursor: Position,
    at: usize,
    moves: &'a mut Vec<Move>,
    storage: Option<&'a mut dyn Storage>,
}

impl<'a> Placed<'a> {
    /// What a read brought. `pieces[i]` are the bytes that landed in `slots[i]` (the last may be short), `total` their
    /// sum, `segment` the bytes of every datagram but the last. `moves` receives what must be moved.
    pub fn new(
        slots: &'a [Slot],
        pieces: &'a [&'a [u8]],
        total: usize,
        segment: usize,
        moves: &'a mut Vec<Move>,
    ) -> Self {
        debug_assert_eq!(pieces.iter().map(|p| p.len()).sum::<usize>(), total);
        let segment = if segment == 0 { total } else { segment };
        Self { slots, pieces, total, segment, cursor: Position { slot: 0, offset: 0 }, at: 0, moves, storage: None }
    }

    /// Lends the engine a place to allocate storage in, for this read.
    pub fn with_storage(mut self, storage: &'a mut dyn Storage) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Storage of `len` bytes for a message that the read made known; `None` if there is no room, or the driver lends no
    /// storage. What came `early` is written into it, the rest is unspecified: see [`Storage::allocate`]. The name is
    /// good at once, for [`Placed::settle`] too.
    pub fn allocate(&mut self, len: u64, early: &[(u64, Vec<u8>)]) -> Option<BufferId> {
        self.storage.as_mut()?.allocate(len, early)
    }

    /// Gives back storage that no message needs any more; what was settled into it is forgotten.
    pub fn release(&mut self, buffer: BufferId) {
        if let Some(storage) = &mut self.storage {
            storage.release(buffer);
        }
    }

    /// Bytes of every datagram but the last.
    pub fn segment_size(&self) -> usize {
        self.segment.min(self.total)
    }

    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        self.total
    }

    /// The next datagram, in order of arrival. An empty read brings none: the driver counts it.
    pub fn next_segment(&mut self) -> Option<Segment> {
        if self.at >= self.total {
            return None;
        }
        let len = self.segment.min(self.total - self.at);
        let first = self.cursor;
        let mut left = len;
        while left > 0 {
            let piece = self.pieces.get(self.cursor.slot)?;
            let rest = piece.len() - self.cursor.offset;
            if left >= rest {
                left -= rest;
                self.cursor = Position { slot: self.cursor.slot + 1, offset: 0 };
            } else {
                self.cursor.offset += left;
                left = 0;
            }
        }
        let segment = Segment { at: self.at, len, first, end: self.cursor };
        self.at += len;
        Some(segment)
    }

    /// The first `N` bytes of a datagram, if it has so many.
    pub fn head<const N: usize>(&self, segment: &Segment) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (segment.len >= N).then(|| {
            self.copy(segment.first, &mut bytes);
            bytes
        })
    }

    /// The last `N` bytes of a datagram, if it has so many.
    pub fn tail<const N: usize>(&self, segment: &Segment) -> Option<[u8; N]> {
        if segment.len < N {
            return None;
        }
        let mut bytes = [0; N];
        let end = segment.end;
        if end.offset == 0 {
            // The plan was right: the tail is the end of a piece.
            let piece = self.pieces[end.slot - 1];
            if let Some(tail) = piece.len().checked_sub(N).and_then(|low| piece.get(low..)) {
                bytes.copy_from_slice(tail);
                return Some(bytes);
            }
        }
        self.copy(self.back(end, N), &mut bytes);
        Some(bytes)
    }

    /// A whole datagram: as it lies if it is in one piece, otherwise copied into `scratch`. For control datagrams.
    pub fn whole<'s>(&self, segment: &Segment, scratch: &'s mut Vec<u8>) -> &'s [u8]
    where
        'a: 's,
    {
        let low = segment.first.offset;
        if let Some(bytes) = self.pieces[segment.first.slot].get(low..low + segment.len) {
            return bytes;
        }
        scratch.clear();
        scratch.resize(segment.len, 0);
        self.copy(segment.first, scratch);
        scratch
    }

    /// The stretches of memory that hold bytes `range` of a datagram, in order, none of them empty: for a checksum, which
    /// an engine verifies without touching application memory. What lies beyond the datagram is left out.
    pub fn pieces(&self, segment: &Segment, range: Range<usize>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let high = range.end.min(segment.len);
        let low = range.start.min(high);
        let mut left = high - low;
        let Position { slot, mut offset } = self.forward(segment.first, low);
        let mut pieces = self.pieces.get(slot..).unwrap_or_default().iter();
        core::iter::from_fn(move || {
            while left > 0 {
                let piece = pieces.next()?.get(offset..)?;
                offset = 0;
                let bytes = &piece[..piece.len().min(left)];
                left -= bytes.len();
                if !bytes.is_empty() {
                    return Some(bytes);
                }
            }
            None
        })
    }

    /// Whether a datagram begins with exactly the bytes of `to`, where they belong.
    pub fn is_in_place(&self, segment: &Segment, to: BufferRange) -> bool {
        self.lies_at(segment.first, to)
    }

    /// Says that the bytes `payload` of a datagram belong to `to`; returns how many bytes have to be copied for that
    /// (none where the prediction was right).
    pub fn settle(&mut self, segment: &Segment, payload: Range<usize>, to: BufferRange) -> u32 {
        debug_assert_eq!(payload.len(), to.len as usize);
        if to.len == 0 || (payload.start == 0 && self.lies_at(segment.first, to)) {
            return 0;
        }
        if payload.start > 0 && self.lies_at(self.forward(segment.first, payload.start), to) {
            return 0;
        }
        self.moves.push(Move { from: Source::Read(segment.at + payload.start), to });
        to.len
    }

    /// Says that `bytes`, which came in an earlier read, belong to `buffer` from `offset` on.
    pub fn restore(&mut self, bytes: Vec<u8>, buffer: BufferId, offset: u64) {
        let to = BufferRange::new(buffer, offset, bytes.len() as u32);
        self.moves.push(Move { from: Source::Kept(bytes), to });
    }

    fn lies_at(&self, position: Position, to: BufferRange) -> bool {
        match self.slots.get(position.slot) {
            Some(Slot::Payload(range)) => {
                range.buffer == to.buffer
                    && range.offset + position.offset as u64 == to.offset
                    && range.len as usize - position.offset >= to.len as usize
            }
            _ => false,
        }
    }

    fn forward(&self, mut from: Position, mut bytes: usize) -> Position {
        while let Some(piece) = self.pieces.get(from.slot)
            && bytes >= piece.len() - from.offset
        {
            bytes -= piece.len() - from.offset;
            from = Position { slot: from.slot + 1, offset: 0 };
        }
        Position { slot: from.slot, offset: from.offset + bytes }
    }

    fn back(&self, mut from: Position, mut bytes: usize) -> Position {
        while bytes > from.offset {
            bytes -= from.offset;
            from = Position { slot: from.slot - 1, offset: self.pieces[from.slot - 1].len() };
        }
        Position { slot: from.slot, offset: from.offset - bytes }
    }

    fn copy(&self, from: Position, mut into: &mut [u8]) {
        let mut offset = from.offset;
        for piece in &self.pieces[from.slot..] {
            let take = into.len().min(piece.len() - offset);
            let (now, later) = into.split_at_mut(take);
            now.copy_from_slice(&piece[offset..offset + take]);
            into = later;
            offset = 0;
            if into.is_empty() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferId;

    const BUFFER: BufferId = BufferId::new(3);

    /// Cuts `bytes` as a read into `plan` would.
    fn cut<'b>(plan: &ReceivePlan, mut bytes: &'b [u8]) -> Vec<&'b [u8]> {
        let mut pieces = Vec::new();
        for slot in plan.slots() {
            let (piece, rest) = bytes.split_at(slot.len().min(bytes.len()));
            if !piece.is_empty() {
                pieces.push(piece);
            }
            bytes = rest;
        }
        pieces
    }

    fn plan(strides: usize, payload: u32, tail: usize) -> ReceivePlan {
        let mut plan = ReceivePlan::new();
        plan.reset(64);
        for i in 0..strides {
            plan.payload(BufferRange::new(BUFFER, i as u64 * u64::from(payload), payload));
            plan.pooled(tail);
        }
        plan.top_up(65_535);
        plan
    }

    #[test]
    fn a_right_guess_moves_nothing() {
        let bytes: Vec<u8> = (0..90).collect();
        let plan = plan(3, 26, 4);
        let pieces = cut(&plan, &bytes);
        let mut moves = Vec::new();
        let mut placed = Placed::new(plan.slots(), &pieces, 90, 30, &mut moves);
        for i in 0..3u8 {
            let segment = placed.next_segment().unwrap();
            assert_eq!(placed.tail::<4>(&segment).unwrap()[0], i * 30 + 26);
            assert_eq!(placed.head::<2>(&segment).unwrap(), [i * 30, i * 30 + 1]);
            assert_eq!(placed.settle(&segment, 0..26, BufferRange::new(BUFFER, u64::from(i) * 26, 26)), 0);
        }
        assert!(placed.next_segment().is_none());
        assert!(moves.is_empty());
    }

    #[test]
    fn a_wrong_guess_is_noted_as_a_move() {
        let bytes: Vec<u8> = (0..60).collect();
        let plan = plan(3, 26, 4);
        let pieces = cut(&plan, &bytes);
        let mut moves = Vec::new();
        // Datagrams of 20 bytes where 30 were expected: heads and tails straddle the slots.
        let mut placed = Placed::new(plan.slots(), &pieces, 60, 20, &mut moves);
        let mut scratch = Vec::new();
        for i in 0..3u8 {
            let segment = placed.next_segment().unwrap();
            assert_eq!(placed.tail::<4>(&segment).unwrap(), [16, 17, 18, 19].map(|b| b + i * 20));
            assert_eq!(placed.whole(&segment, &mut scratch), &bytes[usize::from(i) * 20..][..20]);
            let copied = placed.settle(&segment, 0..16, BufferRange::new(BUFFER, u64::from(i) * 16, 16));
            assert_eq!(copied, if i == 0 { 0 } else { 16 });
        }
        assert_eq!(moves.iter().map(|m| m.from.clone()).collect::<Vec<_>>(), [20, 40].map(Source::Read));
    }

    #[test]
    fn a_payload_behind_a_header_is_found_in_place() {
        let bytes = [7u8; 46];
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.pooled(6);
        plan.payload(BufferRange::new(BUFFER, 100, 40));
        let pieces = cut(&plan, &bytes);
        let mut moves = Vec::new();
        let mut placed = Placed::new(plan.slots(), &pieces, 46, 46, &mut moves);
        let segment = placed.next_segment().unwrap();
        assert_eq!(placed.settle(&segment, 6..46, BufferRange::new(BUFFER, 100, 40)), 0);
        assert_eq!(placed.settle(&segment, 6..46, BufferRange::new(BUFFER, 0, 40)), 40);
    }

    #[test]
    fn pieces_are_the_bytes_of_the_range_and_nothing_else() {
        let bytes: Vec<u8> = (0..110).collect();
        // Slots of 26 and 4 bytes, datagrams of 40, 40 and 30: nothing fits.
        let plan = plan(2, 26, 4);
        let pieces = cut(&plan, &bytes);
        let mut moves = Vec::new();
        let mut placed = Placed::new(plan.slots(), &pieces, 110, 40, &mut moves);
        let mut count = 0;
        while let Some(segment) = placed.next_segment() {
            let whole = &bytes[segment.at..segment.at + segment.len];
            for low in 0..=segment.len + 2 {
                for high in low..=segment.len + 2 {
                    let found: Vec<&[u8]> = placed.pieces(&segment, low..high).collect();
                    assert!(found.iter().all(|piece| !piece.is_empty()));
                    assert_eq!(found.concat(), whole[low.min(segment.len)..high.min(segment.len)], "{low}..{high}");
                }
            }
            count += 1;
        }
        assert_eq!(count, 3);
    }

    #[test]
    fn pieces_lie_where_the_read_put_them() {
        let bytes = [9u8; 50];
        let plan = plan(1, 40, 6);
        let pieces = cut(&plan, &bytes);
        let mut moves = Vec::new();
        let mut placed = Placed::new(plan.slots(), &pieces, 50, 50, &mut moves);
        let segment = placed.next_segment().unwrap();
        let found: Vec<&[u8]> = placed.pieces(&segment, 4..50).collect();
        assert_eq!(found.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [36, 6, 4]);
        assert_eq!(found[0].as_ptr(), bytes[4..].as_ptr(), "not a copy");
        assert_eq!(placed.pieces(&segment, 7..7).count(), 0);
        assert_eq!(placed.pieces(&segment, 50..99).count(), 0);
        let backwards = Range { start: 9, end: 3 };
        assert_eq!(placed.pieces(&segment, backwards).count(), 0);
    }

    #[test]
    fn short_datagrams_have_no_head_or_tail() {
        let mut moves = Vec::new();
        let slots = [Slot::Pooled(100)];
        let pieces: [&[u8]; 1] = [&[1, 2, 3]];
        let mut placed = Placed::new(&slots, &pieces, 3, 3, &mut moves);
        let segment = placed.next_segment().unwrap();
        assert!(placed.tail::<4>(&segment).is_none() && placed.head::<4>(&segment).is_none());
    }
}
