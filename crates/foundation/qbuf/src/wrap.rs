//! Handles, and buffers as the transport sees them (B-10).
//!
//! A user of a pool registers and gets a [`Handle`]; under it, an address of the application becomes a [`Wrapped`] buffer:
//! owned by the transport, its pages wired, the address of each block known. When the last packet that points into it is
//! acknowledged it is freed, by `qbuf_vfree` in C, by dropping it here.
//!
//! Always true: a wrapped buffer is out of the application's hands.

use std::ptr::NonNull;

use crate::error::PoolError;
use crate::layout::BLOCKS;
use crate::owner::{Role, Word};
use crate::pool::Pool;
use crate::qbuf::Qbuf;

/// The right to wrap buffers of a pool.
///
/// ```
/// use pinnace_qbuf::{Pool, PoolOptions};
/// let pool = Pool::create(&PoolOptions::default()).unwrap();
/// let handle = pool.register();
/// let (pointer, _) = pool.alloc(10_000).unwrap().into_raw();
/// let wrapped = handle.wrap(pointer, 9_000).unwrap();
/// assert_eq!((wrapped.zone(), wrapped.blocks(), wrapped.len()), (0, 3, 9_000));
/// let addresses: Vec<_> = wrapped.block_addresses().map(|address| address.as_ptr() as usize).collect();
/// assert_eq!(addresses[2] - addresses[0], 2 * 4096);
/// assert!(handle.wrap(pointer, 9_000).is_err(), "the application does not have it any more");
/// drop(wrapped);
/// assert_eq!(pool.stats().free_blocks, pool.stats().blocks);
/// ```
#[derive(Clone, Debug)]
pub struct Handle {
    pool: Pool,
}

/// A buffer in the hands of the transport. Dropping it unwires its pages and frees it.
#[derive(Debug)]
pub struct Wrapped {
    qbuf: Qbuf,
    address: NonNull<u8>,
    is_wired: bool,
}

// SAFETY: the address is a name; what it names is owned, and sent with it.
unsafe impl Send for Wrapped {}
// SAFETY: shared, it can only be read.
unsafe impl Sync for Wrapped {}

impl Pool {
    //= B-10
    /// Registers a user of the pool.
    pub fn register(&self) -> Handle {
        Handle { pool: self.clone() }
    }
}

impl Handle {
    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    //= B-8, B-10
    /// Takes over what lies at an address of the application, anywhere in a run that [`Qbuf::into_raw`] gave out: `len`
    /// bytes from there on, which must end in that run.
    pub fn wrap<T>(&self, pointer: NonNull<T>, len: usize) -> Result<Wrapped, PoolError> {
        let address = pointer.cast::<u8>();
        let inner = &*self.pool.0;
        let block = inner.block_at(address.as_ptr())?;
        let (first, word) = self.run_around(block)?;
        let begin = inner.map.user_address(first).as_ptr() as usize;
        let skipped = address.as_ptr() as usize - begin;
        let room = word.blocks(first % BLOCKS as u32) as usize * self.pool.options().block_bytes;
        if len > room - skipped {
            return Err(PoolError::NotInPool);
        }
        let qbuf = self.pool.claim_raw(first, word, Role::Engine)?;
        Ok(self.wire(qbuf, skipped, len))
    }

    /// Takes over a qbuf.
    pub fn wrap_qbuf(&self, mut qbuf: Qbuf) -> Wrapped {
        qbuf.set_role(Role::Engine);
        let len = qbuf.len();
        self.wire(qbuf, 0, len)
    }

    /// The first block of the raw run of ours that a block is part of, and its word.
    fn run_around(&self, block: u32) -> Result<(u32, Word), PoolError> {
        let zone = block - block % BLOCKS as u32;
        for first in (zone..=block).rev() {
            match self.pool.0.raw_word(first) {
                Ok(word) if block < first + word.blocks(first - zone) => return Ok((first, word)),
                Ok(_) | Err(PoolError::NotOwner) => {}
                Err(error) => return Err(error),
            }
        }
        Err(PoolError::NotOwner)
    }

    fn wire(&self, mut qbuf: Qbuf, skipped: usize, len: usize) -> Wrapped {
        // Its own, of which a qbuf need not be that of the handle.
        let pool = qbuf.pool();
        let is_wired = !pool.options().wired && pool.0.wire(qbuf.first_block(), qbuf.blocks());
        qbuf.set_len(skipped + len);
        let address = NonNull::from(&mut qbuf[skipped..]).cast();
        Wrapped { qbuf, address, is_wired }
    }
}

impl Wrapped {
    /// The zone that it lies in.
    pub fn zone(&self) -> u32 {
        self.qbuf.first_block() / BLOCKS as u32
    }

    /// Where its bytes begin, for the transport; in a guarded pool the application knows another address.
    pub fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.qbuf[self.qbuf.len() - self.len()..]
    }

    /// How many bytes it has.
    #[expect(clippy::len_without_is_empty, reason = "an empty one is not worth wrapping")]
    pub fn len(&self) -> usize {
        self.qbuf.as_ptr() as usize + self.qbuf.len() - self.address.as_ptr() as usize
    }

    /// Blocks of the run that it lies in.
    pub fn blocks(&self) -> u32 {
        self.qbuf.blocks()
    }

    /// Whether its pages were wired for it.
    pub fn is_wired(&self) -> bool {
        self.is_wired
    }

    /// The address of each block of the run, for the transport.
    pub fn block_addresses(&self) -> impl Iterator<Item = NonNull<u8>> + '_ {
        let (pool, first) = (self.qbuf.pool(), self.qbuf.first_block());
        (first..first + self.blocks()).map(move |block| pool.0.map.engine_address(block))
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        if self.is_wired {
            self.qbuf.pool().0.map.unwire_run(self.qbuf.first_block(), self.qbuf.blocks());
        }
    }
}
