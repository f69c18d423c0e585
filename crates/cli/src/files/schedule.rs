//! What travels in which order: both ends derive the same sequence from what they have agreed on.
//!
//! Always true: every chunk that is not held comes once, in order; every file is in exactly one batch, whose digests come
//! after all its chunks, and after the chunks of the batch behind it, so that hashing has time and the line never idles.

use super::digest::{Value, file_hash};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Files of a batch at most.
pub(super) const BATCH_FILES: usize = 512;
/// A batch is closed when so many bytes of it have to travel.
const BATCH_BYTES: u64 = 1 << 30;

/// A file that needs something: chunks, or only its end.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// Index in the manifest.
    pub(super) entry: usize,
    pub(super) bytes: u64,
    /// Chunks that the receiver holds, ascending, with their values.
    pub(super) held: Vec<(u32, Value)>,
}

impl Work {
    pub(super) fn chunks(&self, chunk_bytes: u64) -> u32 {
        chunk_count(self.bytes, chunk_bytes)
    }

    /// Offset and length of a chunk, in bytes.
    pub(super) fn range(&self, chunk: u32, chunk_bytes: u64) -> (u64, usize) {
        let offset = u64::from(chunk) * chunk_bytes;
        (offset, (self.bytes - offset).min(chunk_bytes) as usize)
    }

    fn holds(&self, chunk: u32) -> bool {
        self.held.binary_search_by_key(&chunk, |(held, _)| *held).is_ok()
    }
}

/// Chunks of a file; the empty file has none. At most 2^32 - 1: see [`fits`].
pub(super) fn chunk_count(bytes: u64, chunk_bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(chunk_bytes)).unwrap_or(u32::MAX)
}

/// Whether the chunks of a file can be numbered.
pub(super) fn fits(bytes: u64, chunk_bytes: u64) -> bool {
    bytes.div_ceil(chunk_bytes) < u64::from(u32::MAX)
}

/// One message from the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A chunk of a file; the index is that of the work.
    Chunk { work: usize, chunk: u32 },
    /// The digests of these files.
    Digests(Range<usize>),
}

/// The sequence. Borrows nothing, so that the work can be looked at meanwhile.
#[derive(Debug)]
pub(super) struct Schedule {
    chunk_bytes: u64,
    position: (usize, u32),
    batch: Range<usize>,
    batch_bytes: u64,
    closed: VecDeque<Range<usize>>,
}

impl Schedule {
    pub(super) fn new(chunk_bytes: u64) -> Self {
        Self { chunk_bytes, position: (0, 0), batch: 0..0, batch_bytes: 0, closed: VecDeque::new() }
    }

    /// The next message. `work` must be the same each time.
    pub(super) fn next(&mut self, work: &[Work]) -> Option<Item> {
        loop {
            if self.closed.len() > 1 {
                return self.closed.pop_front().map(Item::Digests);
            }
            let (at, chunk) = self.position;
            let Some(file) = work.get(at) else {
                self.close_batch();
                return self.closed.pop_front().map(Item::Digests);
            };
            if chunk == file.chunks(self.chunk_bytes) {
                self.position = (at + 1, 0);
                self.batch.end = at + 1;
                if self.batch.len() >= BATCH_FILES || self.batch_bytes >= BATCH_BYTES {
                    self.close_batch();
                }
                continue;
            }
            self.position.1 += 1;
            if !file.holds(chunk) {
                self.batch_bytes += file.range(chunk, self.chunk_bytes).1 as u64;
                return Some(Item::Chunk { work: at, chunk });
            }
        }
    }

    fn close_batch(&mut self) {
        if !self.batch.is_empty() {
            self.closed.push_back(self.batch.clone());
            self.batch = self.batch.end..self.batch.end;
            self.batch_bytes = 0;
        }
    }
}

/// The values of the chunks of files under way.
#[derive(Debug)]
pub(super) struct Values {
    chunk_bytes: u64,
    /// Those that are known: how many there will be the other end says.
    files: BTreeMap<usize, BTreeMap<u32, Value>>,
}

impl Values {
    pub(super) fn new(chunk_bytes: u64) -> Self {
        Self { chunk_bytes, files: BTreeMap::new() }
    }

    fn file(&mut self, at: usize, work: &Work) -> &mut BTreeMap<u32, Value> {
        self.files.entry(at).or_insert_with(|| work.held.iter().copied().collect())
    }

    pub(super) fn set(&mut self, at: usize, work: &Work, chunk: u32, value: Value) {
        self.file(at, work).insert(chunk, value);
    }

    pub(super) fn is_complete(&mut self, at: usize, work: &Work) -> bool {
        self.file(at, work).len() == work.chunks(self.chunk_bytes) as usize
    }

    /// BLAKE3 of a file whose values are complete; it is forgotten then.
    pub(super) fn take_hash(&mut self, at: usize, work: &Work) -> Option<Value> {
        if !self.is_complete(at, work) {
            return None;
        }
        let values: Vec<Value> = self.files.remove(&at)?.into_values().collect();
        file_hash(&values, work.bytes, self.chunk_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 1 << 20;

    fn sequence(work: &[Work]) -> Vec<Item> {
        let mut schedule = Schedule::new(CHUNK);
        std::iter::from_fn(|| schedule.next(work)).collect()
    }

    #[test]
    fn chunks_that_are_held_do_not_travel() {
        let work = [
            Work { entry: 0, bytes: 3 * CHUNK + 1, held: vec![(0, [0; 32]), (2, [0; 32])] },
            Work { entry: 1, bytes: 0, held: vec![] },
            Work { entry: 2, bytes: CHUNK, held: vec![] },
        ];
        let chunk = |work, chunk| Item::Chunk { work, chunk };
        assert_eq!(sequence(&work), [chunk(0, 1), chunk(0, 3), chunk(2, 0), Item::Digests(0..3)]);
        assert_eq!(work[0].range(3, CHUNK), (3 * CHUNK, 1));
        assert_eq!(sequence(&[]), []);
    }

    #[test]
    fn digests_follow_one_batch_behind_and_cover_every_file_once() {
        let work: Vec<Work> = (0..1700).map(|entry| Work { entry, bytes: 1, held: vec![] }).collect();
        let items = sequence(&work);
        let (mut chunks, mut next) = (0, 0);
        for item in items {
            match item {
                Item::Chunk { work, .. } => {
                    assert_eq!(work, chunks);
                    chunks += 1;
                }
                Item::Digests(range) => {
                    assert_eq!(range.start, next);
                    assert!(chunks >= (range.end + BATCH_FILES).min(1700), "{range:?} after {chunks} chunks");
                    next = range.end;
                }
            }
        }
        assert_eq!((chunks, next), (1700, 1700));
    }

    #[test]
    fn large_files_are_batches_of_their_own() {
        let work: Vec<Work> = (0..3).map(|entry| Work { entry, bytes: BATCH_BYTES, held: vec![] }).collect();
        let digests: Vec<_> = sequence(&work).into_iter().filter(|item| matches!(item, Item::Digests(_))).collect();
        assert_eq!(digests, [Item::Digests(0..1), Item::Digests(1..2), Item::Digests(2..3)]);
    }
}
