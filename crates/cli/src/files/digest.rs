//! BLAKE3 of a file from its chunks, which may come in any order, and a thread that hashes them.
//!
//! BLAKE3 is a tree, and a chunk (a power of two of at least 64 KiB) is a subtree. So the values of the chunks make the
//! file's hash, the same that `b3sum` prints, and nothing is hashed twice.

use crate::exit::Error;
use blake3::hazmat::{HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root};
use pinnace::Message;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel, sync_channel};

/// The value of a chunk: of its subtree, or, for a file of one chunk, of the file.
pub(super) type Value = [u8; 32];

/// Chunks that wait to be hashed at most: they keep their pages mapped.
const WAITING: usize = 2;

/// The value of the chunk at `offset` of a file of `bytes`.
pub(super) fn chunk_value(content: &[u8], offset: u64, bytes: u64, chunk_bytes: u64) -> Value {
    let mut hasher = blake3::Hasher::new();
    if bytes <= chunk_bytes {
        return *hasher.update(content).finalize().as_bytes();
    }
    hasher.set_input_offset(offset).update(content).finalize_non_root()
}

/// The hash of a file of `bytes`, from the values of all its chunks. `None` if their number is wrong.
pub(super) fn file_hash(values: &[Value], bytes: u64, chunk_bytes: u64) -> Option<Value> {
    if values.len() as u64 != bytes.div_ceil(chunk_bytes) {
        return None;
    }
    if bytes <= chunk_bytes {
        return Some(values.first().copied().unwrap_or_else(|| *blake3::hash(b"").as_bytes()));
    }
    let (left, right) = halves(values, bytes, chunk_bytes);
    Some(*merge_subtrees_root(&left, &right, Mode::Hash).as_bytes())
}

fn halves(values: &[Value], bytes: u64, chunk_bytes: u64) -> (Value, Value) {
    let left = left_subtree_len(bytes);
    let (low, high) = values.split_at((left / chunk_bytes) as usize);
    (subtree(low, left, chunk_bytes), subtree(high, bytes - left, chunk_bytes))
}

fn subtree(values: &[Value], bytes: u64, chunk_bytes: u64) -> Value {
    if let [value] = values {
        return *value;
    }
    let (left, right) = halves(values, bytes, chunk_bytes);
    merge_subtrees_non_root(&left, &right, Mode::Hash)
}

pub(super) fn hex(hash: &Value) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}

/// A chunk to be hashed.
pub(super) struct Job {
    pub(super) work: usize,
    pub(super) chunk: u32,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) content: Message,
}

/// A chunk that was hashed.
#[derive(Debug)]
pub(super) struct Hashed {
    pub(super) work: usize,
    pub(super) chunk: u32,
    pub(super) value: Value,
}

/// A thread that hashes, in order.
pub(super) struct HashThread {
    jobs: SyncSender<Job>,
    results: Receiver<Hashed>,
}

impl HashThread {
    pub(super) fn start(chunk_bytes: u64) -> Self {
        let (jobs, todo) = sync_channel::<Job>(WAITING);
        let (done, results) = channel();
        std::thread::spawn(move || {
            for Job { work, chunk, offset, bytes, content } in todo {
                let value = chunk_value(&content, offset, bytes, chunk_bytes);
                drop(content);
                if done.send(Hashed { work, chunk, value }).is_err() {
                    return;
                }
            }
        });
        Self { jobs, results }
    }

    /// Hands over a chunk; waits while too many do.
    pub(super) fn submit(&self, job: Job) -> Result<(), Error> {
        self.jobs.send(job).map_err(|_| lost())
    }

    /// A result, if there is one.
    pub(super) fn poll(&self) -> Result<Option<Hashed>, Error> {
        match self.results.try_recv() {
            Ok(hashed) => Ok(Some(hashed)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(lost()),
        }
    }

    /// The next result. Something must have been submitted for it.
    pub(super) fn wait(&self) -> Result<Hashed, Error> {
        self.results.recv().map_err(|_| lost())
    }
}

fn lost() -> Error {
    Error::failed("the hashing thread has failed; please report it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_make_the_hash_that_b3sum_prints() {
        const CHUNK: u64 = 64 << 10;
        let content: Vec<u8> = (0..9 * CHUNK + 5).map(|n| (n % 251) as u8).collect();
        for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK, 5 * CHUNK + 1024, 8 * CHUNK, 9 * CHUNK + 5]
        {
            let content = &content[..len as usize];
            let value = |(n, part): (usize, &[u8])| chunk_value(part, n as u64 * CHUNK, len, CHUNK);
            let mut values: Vec<Value> = content.chunks(CHUNK as usize).enumerate().map(value).collect();
            assert_eq!(file_hash(&values, len, CHUNK), Some(*blake3::hash(content).as_bytes()), "{len}");
            values.push([0; 32]);
            assert_eq!(file_hash(&values, len, CHUNK), None);
        }
    }
}
