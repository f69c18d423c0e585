//! Messages in pieces of a size that the receiver has buffers for, and these buffers.
//!
//! A message shorter than a piece is one piece; a longer one is whole pieces and a shorter one at the end, which may be empty.
//! So the length of a piece says whether more belongs to it, and the bytes of a message need no header.

use crate::lock::lock;
use crate::service::Service;
use crate::{Error, Message};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes of the buffers that wait for messages, in all; of pieces that are larger than half of it there are two.
const BUFFERS_BYTES: usize = 64 << 20;
/// The smallest piece that is worth a message of its own.
const LEAST_PIECE: u64 = 64 << 10;
/// The largest, where pieces of larger messages may be copied together.
pub(crate) const MOST_PIECE: u64 = 8 << 20;
/// The largest message that is one piece because it has to reach the application without a copy.
pub(crate) const MOST_IN_PLACE: u64 = 64 << 20;

/// Bytes of a piece, where the largest message has so many. One byte more: then that message is one piece.
pub(crate) fn piece_bytes(largest: u64, is_in_place: bool) -> u32 {
    let most = if is_in_place { MOST_IN_PLACE + 1 } else { MOST_PIECE };
    largest.saturating_add(1).clamp(LEAST_PIECE, most) as u32
}

/// The most bytes of a piece that a peer may choose for this service.
pub(crate) fn most_piece(service: &Service) -> u32 {
    piece_bytes(service.largest_bytes(), service.in_place).max(MOST_PIECE as u32)
}

/// Whether a peer may have the pieces of messages be of so many bytes.
pub(crate) fn is_piece(bytes: u32, most: u32) -> bool {
    u64::from(bytes) >= LEAST_PIECE && bytes <= most
}

/// How many buffers of a piece wait for messages.
pub(super) fn buffers(piece: u32) -> usize {
    (BUFFERS_BYTES / piece.max(1) as usize).clamp(2, 256)
}

/// The ranges of the pieces of a message of `len` bytes.
pub(super) fn cut(len: usize, piece: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    let piece = piece.max(1);
    (0..len / piece + 1).map(move |at| at * piece..((at + 1) * piece).min(len))
}

/// Memory for pieces that is used again and again.
#[derive(Debug)]
pub(crate) struct Pool {
    piece: usize,
    most: usize,
    free: Mutex<Vec<Message>>,
}

impl Pool {
    pub(super) fn new(piece: u32) -> Arc<Self> {
        // Large ones are had anew: they would stay for the life of the connection.
        let most = if u64::from(piece) > MOST_PIECE { 1 } else { buffers(piece) };
        Arc::new(Self { piece: piece as usize, most, free: Mutex::default() })
    }

    pub(super) fn piece(&self) -> usize {
        self.piece
    }

    fn free(&self) -> MutexGuard<'_, Vec<Message>> {
        lock(&self.free)
    }

    /// Has memory for whoever takes the next one.
    pub(super) fn stock(&self) -> Result<(), Error> {
        let mut free = self.free();
        if free.is_empty() {
            free.push(Message::mapped(self.piece)?);
        }
        Ok(())
    }

    /// A buffer of one piece.
    pub(super) fn take(&self) -> Message {
        self.free().pop().unwrap_or_else(|| Message::untouched(self.piece))
    }

    /// One that is of no more use to whoever had it. What holds a message longer than the others is not waited for.
    pub(super) fn give_back(&self, message: Message) {
        let mut free = self.free();
        if message.capacity() == self.piece && free.len() < self.most {
            free.push(message);
        }
    }
}

/// Messages that are the pieces of `message`; each keeps it alive, and so does what is returned.
pub(super) fn split(message: Message, piece: usize) -> (Arc<Message>, Vec<Message>) {
    let ranges = cut(message.len(), piece);
    message.share(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_piece_is_shorter_than_the_others() {
        let lens = |len| cut(len, 10).map(|range| range.len()).collect::<Vec<_>>();
        assert_eq!([lens(0), lens(9)], [vec![0], vec![9]]);
        assert_eq!([lens(10), lens(25)], [vec![10, 0], vec![10, 10, 5]]);
        let (whole, parts) = split(Message::from_vec((0..25).collect()), 10);
        assert_eq!((parts[1][0], parts[2].len(), Arc::strong_count(&whole)), (10, 5, 4));
        drop(parts);
        assert_eq!(Arc::try_unwrap(whole).unwrap().len(), 25);
    }

    #[test]
    fn the_largest_message_is_one_piece_and_buffers_have_a_limit() {
        let pieces = |is_in_place| [0, 1 << 20, 64 << 20, u64::MAX].map(|largest| piece_bytes(largest, is_in_place));
        assert_eq!(pieces(false), [65_536, (1 << 20) + 1, 8 << 20, 8 << 20]);
        assert_eq!(pieces(true), [65_536, (1 << 20) + 1, (64 << 20) + 1, (64 << 20) + 1]);
        let most = |service: &str| most_piece(&service.parse().unwrap());
        assert_eq!([most("size=64MiB"), most("size=64MiB in-place=yes")], [8 << 20, (64 << 20) + 1]);
        assert!(is_piece(65_536, 8 << 20) && !is_piece(65_535, 8 << 20) && !is_piece((8 << 20) + 1, 8 << 20));
        assert_eq!([buffers(65_536), buffers(1 << 20), buffers(8 << 20), buffers(u32::MAX)], [256, 64, 8, 2]);
        let pool = Pool::new(100);
        let first = pool.take();
        assert_eq!(first.capacity(), 100);
        for _ in 0..2000 {
            pool.give_back(Message::with_capacity(100));
        }
        assert_eq!(pool.free().len(), 256);
        pool.give_back(Message::with_capacity(5));
        assert!(pool.free().iter().all(|message| message.capacity() == 100));
    }
}
