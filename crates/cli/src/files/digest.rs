//! BLAKE3 of a file from its chunks, which may come in any order, and a thread that hashes them.
//!
//! BLAKE3 is a tree, and a chunk (a power of two of at least 64 KiB) is a subtree. So the values of the chunks make the
//! file's hash, the same that `b3sum` prints, and nothing is hashed twice.
//!
//! Always true: a file is read to be hashed, and not looked at in its pages. Whoever does that when another program makes
//! it shorter is killed.

use crate::exit::Error;
use crate::thread;
use blake3::hazmat::{HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel, sync_channel};

/// The value of a chunk: of its subtree, or, for a file of one chunk, of the file.
pub(super) type Value = [u8; 32];

/// Chunks that wait to be hashed at most.
const WAITING: usize = 2;
/// What is read of a file at once: it stays in the cache.
const READ: usize = 256 << 10;

/// Where a chunk lies, and in what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) offset: u64,
    /// Of the file.
    pub(super) bytes: u64,
    pub(super) chunk_bytes: u64,
}

impl Place {
    fn hasher(self) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(if self.is_whole() { 0 } else { self.offset });
        hasher
    }

    fn is_whole(self) -> bool {
        self.bytes <= self.chunk_bytes
    }

    fn value(self, hasher: &blake3::Hasher) -> Value {
        if self.is_whole() { *hasher.finalize().as_bytes() } else { hasher.finalize_non_root() }
    }
}

/// The value of a chunk of `len` bytes as it lies in its file. `name`: for people.
pub(super) fn value_in_file(file: &File, len: usize, place: Place, name: &str) -> Result<Value, Error> {
    let (mut hasher, mut buffer) = (place.hasher(), vec![0; READ.min(len)]);
    let mut done = 0;
    while done < len {
        let part = &mut buffer[..READ.min(len - done)];
        file.read_exact_at(part, place.offset + done as u64).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => became_shorter(name),
            _ => Error::io(format_args!("cannot read {name}"), &error),
        })?;
        hasher.update(part);
        done += part.len();
    }
    Ok(place.value(&hasher))
}

/// What is said of a file that was cut off by another program.
pub(super) fn became_shorter(name: &str) -> Error {
    Error::failed(format!("{name} became shorter meanwhile; try again when no other program writes to it"))
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
    pub(super) len: usize,
    /// Of the whole file.
    pub(super) bytes: u64,
    pub(super) file: Arc<OpenFile>,
}

/// A file, and what it is called for people.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) name: String,
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
    results: Receiver<Result<Hashed, Error>>,
}

impl HashThread {
    pub(super) fn start(chunk_bytes: u64) -> Result<Self, Error> {
        let (jobs, todo) = sync_channel::<Job>(WAITING);
        let (done, results) = channel();
        thread::start(move || {
            for Job { work, chunk, offset, len, bytes, file } in todo {
                let value = value_in_file(&file.file, len, Place { offset, bytes, chunk_bytes }, &file.name);
                if done.send(value.map(|value| Hashed { work, chunk, value })).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { jobs, results })
    }

    /// Hands over a chunk; waits while too many do.
    pub(super) fn submit(&self, job: Job) -> Result<(), Error> {
        self.jobs.send(job).map_err(|_| lost())
    }

    /// A result, if there is one. Fails if a file was not there to be read as it was.
    pub(super) fn poll(&self) -> Result<Option<Hashed>, Error> {
        match self.results.try_recv() {
            Ok(hashed) => hashed.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(lost()),
        }
    }

    /// The next result. Something must have been submitted for it.
    pub(super) fn wait(&self) -> Result<Hashed, Error> {
        self.results.recv().map_err(|_| lost())?
    }
}

fn lost() -> Error {
    Error::failed("the hashing thread has failed; please report it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk_value(content: &[u8], place: Place) -> Value {
        place.value(place.hasher().update(content))
    }

    #[test]
    fn chunks_make_the_hash_that_b3sum_prints() {
        const CHUNK: u64 = 64 << 10;
        let content: Vec<u8> = (0..9 * CHUNK + 5).map(|n| (n % 251) as u8).collect();
        for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK, 5 * CHUNK + 1024, 8 * CHUNK, 9 * CHUNK + 5]
        {
            let content = &content[..len as usize];
            let place = |n: usize| Place { offset: n as u64 * CHUNK, bytes: len, chunk_bytes: CHUNK };
            let value = |(n, part): (usize, &[u8])| chunk_value(part, place(n));
            let mut values: Vec<Value> = content.chunks(CHUNK as usize).enumerate().map(value).collect();
            assert_eq!(file_hash(&values, len, CHUNK), Some(*blake3::hash(content).as_bytes()), "{len}");
            values.push([0; 32]);
            assert_eq!(file_hash(&values, len, CHUNK), None);
        }
    }

    #[test]
    fn a_file_has_the_value_of_its_content_and_a_shorter_one_is_told_of() {
        let content: Vec<u8> = (0..3 * READ + 5).map(|n| (n % 249) as u8).collect();
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&content, 0).unwrap();
        let name = "ship's log";
        let whole = content.len();
        for (offset, len, chunk_bytes) in [(0, whole, 1 << 20), (2 * READ, READ + 5, 2 * READ as u64)] {
            let place = Place { offset: offset as u64, bytes: whole as u64, chunk_bytes };
            let value = value_in_file(&file, len, place, name).unwrap();
            assert_eq!(value, chunk_value(&content[offset..][..len], place), "{len} bytes at {offset}");
        }
        let bytes = whole as u64 + 1;
        let place = Place { offset: 0, bytes, chunk_bytes: 1 << 20 };
        let error = value_in_file(&file, bytes as usize, place, name).unwrap_err();
        assert!(error.message.contains("ship's log became shorter meanwhile"), "{error:?}");
    }
}
