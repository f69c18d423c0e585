//! The application's data in the order of the stream, and where its messages begin and end.
//!
//! Always true: the pieces lie one behind the other without gaps, from the first byte that is still wanted to the last one
//! queued; `next` is the first piece of which something has never been sent; a packet has bytes of one message and of
//! [`MOST_PIECES`] pieces at most.
//= X-17

use pinnace_core::{BufferId, BufferRange};
use std::collections::VecDeque;

/// Pieces of the application's data in one packet, at most: enough for a packet of 64 kB of 8 KiB pieces; and 64 packets
/// with a header each are no more parts than a system call takes.
pub(crate) const MOST_PIECES: usize = 12;

/// A piece of the application's data, named not touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// What [`Done`] says when the data are no longer needed.
    pub(crate) ticket: u64,
    pub(crate) buffer: BufferId,
    /// Of the first byte in the buffer.
    pub(crate) offset: u64,
    /// Bytes; 0 only for an empty message, with `eom`.
    pub(crate) len: u64,
    /// A message ends behind the last byte.
    pub(crate) eom: bool,
    /// A message begins with the first byte, and this is its tag.
    pub(crate) btag: Option<[u8; 8]>,
}

/// A chunk that is no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) ticket: u64,
    pub(crate) buffer: BufferId,
    /// Some of it was dropped before it was sent.
    pub(crate) is_cut: bool,
}

/// Where a packet ends, and what is to be said of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) high: u64,
    pub(super) eom: bool,
    pub(super) btag: Option<[u8; 8]>,
}

/// A chunk in its place. An empty one with `eom` is an empty message, one without has been dropped before it was sent.
#[derive(Debug)]
struct Piece {
    low: u64,
    high: u64,
    ticket: u64,
    offset: u64,
    buffer: BufferId,
    eom: bool,
    btag: Option<[u8; 8]>,
    is_cut: bool,
}

impl Piece {
    fn is_empty(&self) -> bool {
        self.low == self.high
    }

    fn tag_at(&self, offset: u64) -> Option<[u8; 8]> {
        self.btag.filter(|_| self.low == offset)
    }

    fn ends_message_at(&self, offset: u64) -> bool {
        self.eom && self.high == offset
    }

    fn range(&self, low: u64, high: u64) -> BufferRange {
        BufferRange::new(self.buffer, self.offset + (low - self.low), (high - low) as u32)
    }

    fn done(&self) -> Done {
        Done { ticket: self.ticket, buffer: self.buffer, is_cut: self.is_cut }
    }
}

/// The queue of pieces.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    queue: VecDeque<Piece>,
    next: usize,
}

impl Chunks {
    /// Queues `chunk`, whose first byte has the stream offset `low`.
    pub(super) fn push(&mut self, low: u64, chunk: &Chunk) {
        debug_assert!(chunk.len > 0 || chunk.eom, "an empty chunk is an empty message");
        self.queue.push_back(Piece {
            low,
            high: low + chunk.len,
            ticket: chunk.ticket,
            offset: chunk.offset,
            buffer: chunk.buffer,
            eom: chunk.eom,
            btag: chunk.btag,
            is_cut: false,
        });
    }

    /// Whether an empty message is what goes next.
    pub(super) fn is_empty_message_next(&self) -> bool {
        self.queue.get(self.next).is_some_and(Piece::is_empty)
    }

    /// The packet of new bytes from `sent` on that ends at `most` at the latest.
    //= X-17
    pub(super) fn ahead(&self, sent: u64, most: u64) -> Option<Bounds> {
        let mut last = self.queue.get(self.next)?;
        let btag = last.tag_at(sent);
        for piece in self.queue.range(self.next + 1..).take(MOST_PIECES - 1) {
            if most <= last.high || last.eom || piece.is_empty() || piece.btag.is_some() {
                break;
            }
            last = piece;
        }
        let high = most.min(last.high);
        Some(Bounds { high, eom: last.ends_message_at(high), btag })
    }

    /// What is to be said of the ends of a repetition of `[low, high)`; `None` if its bytes are no longer held.
    pub(super) fn again(&self, low: u64, high: u64) -> Option<Bounds> {
        let first = self.queue.get(self.find(low))?;
        let last = if high <= first.high { first } else { self.queue.get(self.find(high - 1))? };
        (first.low <= low).then(|| Bounds { high, eom: last.ends_message_at(high), btag: first.tag_at(low) })
    }

    /// The empty message at the very beginning of the stream, if it has been sent.
    pub(super) fn first_empty(&self) -> Option<Bounds> {
        let piece = self.queue.front().filter(|piece| piece.is_empty() && piece.eom && self.next > 0)?;
        Some(Bounds { high: piece.high, eom: true, btag: piece.btag })
    }

    /// Everything below `sent` has been sent.
    pub(super) fn advance(&mut self, sent: u64) {
        while self.queue.get(self.next).is_some_and(|piece| !piece.is_empty() && piece.high <= sent) {
            self.next += 1;
        }
    }

    /// Whether the first has a tag.
    pub(super) fn is_tagged(&self) -> bool {
        self.queue.front().is_some_and(|piece| piece.btag.is_some())
    }

    /// The empty message that went next has been sent.
    pub(super) fn advance_empty(&mut self) {
        self.next += usize::from(self.is_empty_message_next());
    }

    /// Drops what has never been sent: everything from `sent` on.
    pub(super) fn cut_off(&mut self, sent: u64) {
        for piece in self.queue.range_mut(self.next..) {
            (piece.eom, piece.is_cut) = (false, true);
            piece.btag = piece.btag.filter(|_| piece.low < sent);
            piece.low = piece.low.min(sent);
            piece.high = sent;
        }
        self.next = self.queue.len();
    }

    /// The first end of a message at `offset` or behind it.
    pub(super) fn first_end_from(&self, offset: u64) -> Option<u64> {
        self.queue.iter().find(|piece| piece.eom && piece.high >= offset).map(|piece| piece.high)
    }

    /// The places of the bytes `[low, low + len)`.
    pub(super) fn parts(&self, low: u64, len: u32) -> impl Iterator<Item = BufferRange> {
        let high = low + u64::from(len);
        let index = if len > 0 { self.find(low) } else { self.queue.len() };
        let is_held = self.queue.get(index).is_some_and(|piece| piece.low <= low);
        let pieces = self.queue.range(index..).take_while(move |piece| is_held && piece.low < high);
        pieces.filter(|piece| !piece.is_empty()).map(move |piece| piece.range(piece.low.max(low), piece.high.min(high)))
    }

    /// The oldest piece, if it is no longer needed: its bytes are below `acked`, or, where `is_sent_enough`, have been sent.
    /// `is_settled`: an empty message that has been sent counts as acknowledged.
    pub(super) fn pop_done(&mut self, acked: u64, is_sent_enough: bool, is_settled: bool) -> Option<Done> {
        let piece = self.queue.front().filter(|_| self.next > 0)?;
        let is_acked =
            if piece.is_empty() && piece.eom { is_settled || acked > piece.low } else { acked >= piece.high };
        if !is_acked && !is_sent_enough {
            return None;
        }
        let done = piece.done();
        self.queue.pop_front();
        self.next -= 1;
        Some(done)
    }

    /// Where the oldest piece begins.
    pub(super) fn first_offset(&self) -> Option<u64> {
        self.queue.front().map(|piece| piece.low)
    }

    /// Takes all pieces out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Done> {
        self.next = 0;
        self.queue.drain(..).map(|piece| piece.done())
    }

    /// Gives memory back that is not in use.
    pub(super) fn shrink(&mut self) {
        self.queue.shrink_to_fit();
    }

    /// Bytes on the heap.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.queue.capacity() * size_of::<Piece>()
    }

    /// Index of the piece with the byte at `offset`.
    fn find(&self, offset: u64) -> usize {
        // Nearly always what is being sent.
        for index in [self.next, self.next.wrapping_sub(1)] {
            if self.queue.get(index).is_some_and(|piece| piece.low <= offset && offset < piece.high) {
                return index;
            }
        }
        self.queue.partition_point(|piece| piece.high <= offset)
    }
}
