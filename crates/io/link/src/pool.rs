//! Vectors that are used again: the pages of a fresh one cost more to fault in than to receive into.
//!
//! Always true: the pool holds at most [`BufferTable::POOL_BYTES`](crate::BufferTable::POOL_BYTES) bytes (or what
//! [`BufferTable::limit_pool`](crate::BufferTable::limit_pool) says), [`MOST`] vectors and [`MOST`] small ones; all bytes up
//! to a vector's length are initialised; a vector whose length suffices is handed out without a look at its bytes.

use std::alloc::{Layout, alloc_zeroed};

/// Vectors kept at most, and small ones: what a search has to look through.
const MOST: usize = 256;
/// Smaller vectors are kept apart, in bytes: the allocator has their pages at hand, so that only the newest is of use, which
/// fits where messages are of one size.
const SMALL: usize = 4096;

/// Vectors to be used again, the latest at the end.
#[derive(Debug)]
pub(crate) struct Pool {
    vectors: Vec<Vec<u8>>,
    small: Vec<Vec<u8>>,
    bytes: usize,
    limit: usize,
}

impl Pool {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { vectors: Vec::new(), small: Vec::new(), bytes: 0, limit }
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets how many bytes are kept, and frees what is beyond.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.bytes -= self.small.drain(..).map(|vector| vector.capacity()).sum::<usize>();
        self.trim();
    }

    /// `len` initialised bytes, or `None` if there is no memory for them.
    pub(crate) fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        let fits = |vector: &Vec<u8>| vector.capacity() >= len && vector.capacity() / 2 <= len;
        if len < SMALL {
            let newest = self.small.pop().inspect(|newest| self.bytes -= newest.capacity());
            let Some(mut vector) = newest.filter(fits) else { return zeroed(len) };
            vector.resize(len, 0);
            return Some(vector);
        }
        // The latest: its bytes are the likeliest to lie in a cache.
        let Some(index) = self.vectors.iter().rposition(fits) else { return zeroed(len) };
        let mut vector = self.vectors.remove(index);
        self.bytes -= vector.capacity();
        vector.resize(len, 0);
        Some(vector)
    }

    /// Keeps a vector; for its sake the oldest are freed.
    pub(crate) fn put(&mut self, vector: Vec<u8>) {
        let capacity = vector.capacity();
        if capacity < SMALL {
            if capacity > 0 && self.small.len() < MOST && self.bytes + capacity <= self.limit {
                self.bytes += capacity;
                self.small.push(vector);
            }
        } else if capacity <= self.limit {
            self.bytes += capacity;
            self.vectors.push(vector);
            self.trim();
        }
    }

    fn trim(&mut self) {
        let mut spare = self.vectors.len().saturating_sub(MOST);
        let mut bytes = self.bytes - self.vectors[..spare].iter().map(Vec::capacity).sum::<usize>();
        while bytes > self.limit {
            bytes -= self.vectors[spare].capacity();
            spare += 1;
        }
        self.vectors.drain(..spare);
        self.bytes = bytes;
    }
}

/// `len` zeros, which large vectors get from the system only when they are looked at.
fn zeroed(len: usize) -> Option<Vec<u8>> {
    if len == 0 {
        return Some(Vec::new());
    }
    // As `vec![0; len]`, but a length that the network names must not end the process.
    let layout = Layout::array::<u8>(len).ok()?;
    // SAFETY: the layout is not empty.
    let base = unsafe { alloc_zeroed(layout) };
    // SAFETY: the block comes from the global allocator, is as large and aligned as a vector of `len` bytes demands, and
    // all of it is initialised.
    (!base.is_null()).then(|| unsafe { Vec::from_raw_parts(base, len, len) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_used_again_where_it_fits() {
        let mut pool = Pool::new(1 << 20);
        let vector = vec![7u8; 10_000];
        let at = vector.as_ptr();
        pool.put(vector);
        assert_eq!(pool.bytes(), 10_000);
        for len in [10_001, 4_999] {
            let other = pool.take(len).unwrap();
            assert_ne!(other.as_ptr(), at, "too small, or too large");
        }
        let again = pool.take(5_000).unwrap();
        assert_eq!((again.as_ptr(), again.len(), pool.bytes()), (at, 5_000, 0));
        assert_eq!(again, [7; 5_000], "nobody has written to it");
        pool.put(again);
        let grown = pool.take(10_000).unwrap();
        assert_eq!(grown.as_ptr(), at);
        assert_eq!((&grown[..5_000], &grown[5_000..]), (&[7; 5_000][..], &[0; 5_000][..]));
    }

    #[test]
    fn the_pool_is_bounded_in_bytes_and_in_number() {
        let mut pool = Pool::new(30_000);
        for filling in 1..=4u8 {
            pool.put(vec![filling; 10_000]);
        }
        assert_eq!(pool.bytes(), 30_000);
        assert_eq!(pool.vectors.iter().map(|v| v[0]).collect::<Vec<_>>(), [2, 3, 4], "the oldest went");
        pool.put(vec![9; 30_001]);
        pool.put(vec![9; SMALL - 1]);
        assert_eq!(
            (pool.bytes(), pool.vectors.len()),
            (30_000, 3),
            "what is too large, or small and too much, is not kept"
        );
        pool.set_limit(15_000);
        assert_eq!((pool.bytes(), pool.vectors[0][0]), (10_000, 4));
        pool.set_limit(0);
        pool.put(vec![9; SMALL]);
        assert_eq!((pool.bytes(), pool.vectors.len()), (0, 0));
        pool.set_limit(1 << 30);
        for _ in 0..MOST + 10 {
            pool.put(vec![1; SMALL]);
        }
        assert_eq!((pool.bytes(), pool.vectors.len()), (MOST * SMALL, MOST));
    }

    #[test]
    fn of_small_vectors_the_newest_is_used_again_if_it_fits() {
        let mut pool = Pool::new(1 << 20);
        let vectors = [1000, 1000, 100].map(|len| vec![7u8; len]);
        let at = vectors.each_ref().map(|vector| vector.as_ptr());
        vectors.into_iter().for_each(|vector| pool.put(vector));
        assert_eq!(pool.bytes(), 2100);
        assert_eq!(pool.take(1000).unwrap(), [0; 1000], "the newest does not fit, and is freed");
        let (first, second) = (pool.take(900).unwrap(), pool.take(1000).unwrap());
        assert_eq!(([first.as_ptr(), second.as_ptr()], pool.bytes()), ([at[1], at[0]], 0));
        for _ in 0..2 * MOST {
            pool.put(vec![1; SMALL - 1]);
        }
        assert_eq!((pool.bytes(), pool.small.len()), (MOST * (SMALL - 1), MOST));
        pool.set_limit(5000);
        assert_eq!((pool.bytes(), pool.small.len()), (0, 0));
        pool.put(vec![1; 4000]);
        pool.put(vec![1; 2000]);
        assert_eq!((pool.bytes(), pool.small.len()), (4000, 1), "both are more than is kept");
        pool.put(vec![1; 5000]);
        assert_eq!((pool.bytes(), pool.vectors.len()), (4000, 0));
    }

    #[test]
    fn a_length_beyond_all_memory_is_refused() {
        let mut pool = Pool::new(0);
        assert!(pool.take(usize::MAX).is_none());
        assert!(pool.take(isize::MAX as usize).is_none());
        assert_eq!(pool.take(0), Some(Vec::new()));
        assert_eq!(pool.take(3), Some(vec![0; 3]));
    }
}
