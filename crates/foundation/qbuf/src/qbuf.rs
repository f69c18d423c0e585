//! A qbuf: a run of blocks that this client owns, as a value.
//!
//! Always true: there is one value for a run, so what was passed on is gone, and what was not is freed (B-6).

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::layout::BLOCKS;
use crate::owner::{Kind, Role, Word};
use crate::pool::Pool;
use crate::sync::Ordering;

impl Role {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::User => Kind::User,
            Self::Engine => Kind::Engine,
        }
    }
}

/// A buffer of a pool, owned. Dropping it frees it; a function that takes it passes it on.
///
/// ```compile_fail
/// use pinnace_qbuf::{Pool, PoolOptions, Transit};
/// let pool = Pool::create(&PoolOptions::default()).unwrap();
/// let mut qbuf = pool.alloc(100).unwrap();
/// let me = pool.client();
/// pool.pass_to(qbuf, Transit { channel: 0, from: me, to: me });
/// qbuf[0] = 1; // borrow of moved value
/// ```
pub struct Qbuf {
    pool: Pool,
    data: NonNull<u8>,
    len: usize,
    block: u32,
    blocks: u8,
    role: Role,
}

// SAFETY: it owns its bytes as a `Vec` does, and its pool is `Send`.
unsafe impl Send for Qbuf {}
// SAFETY: shared, it can only be read.
unsafe impl Sync for Qbuf {}

impl Qbuf {
    /// The caller owns the run, with that role, and `len` is at most its capacity.
    #[inline]
    pub(crate) fn new(pool: Pool, block: u32, blocks: u32, role: Role, len: usize) -> Self {
        let data = match role {
            Role::User => pool.0.map.user_address(block),
            Role::Engine => pool.0.map.engine_address(block),
        };
        Self { pool, data, len, block, blocks: blocks as u8, role }
    }

    /// What its word says.
    #[inline]
    fn word(&self) -> Word {
        Word::owned(self.role.kind(), u32::from(self.blocks), self.pool.0.me)
    }

    /// Forgets the value without freeing: its first block, its word and its length.
    #[inline]
    pub(crate) fn dissolve(self) -> (u32, Word, usize) {
        let mut this = ManuallyDrop::new(self);
        let parts = (this.block, this.word(), this.len);
        // SAFETY: `this` is neither used nor dropped after this.
        unsafe { std::ptr::drop_in_place(&raw mut this.pool) };
        parts
    }

    /// The pool that it belongs to.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Bytes that it has room for: whole blocks.
    pub fn capacity(&self) -> usize {
        usize::from(self.blocks) * self.pool.options().block_bytes
    }

    /// Blocks that it consists of.
    pub fn blocks(&self) -> u32 {
        u32::from(self.blocks)
    }

    /// Its first block, counted over the whole pool.
    pub fn first_block(&self) -> u32 {
        self.block
    }

    /// Bytes from the beginning of the pool's blocks to its own.
    pub fn offset(&self) -> usize {
        self.block as usize * self.pool.options().block_bytes
    }

    /// Uses `len` bytes of it, shorter or longer; what comes in at the end has unknown content.
    ///
    /// # Panics
    ///
    /// If `len` is more than [`capacity`](Self::capacity).
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "a qbuf of {} bytes has no room for {len}", self.capacity());
        self.len = len;
    }

    /// Which side has it.
    pub fn role(&self) -> Role {
        self.role
    }

    //= B-6
    /// Passes it between the application and the transport of this client. In a guarded pool the address that the
    /// application knows is inaccessible until it comes back; the transport uses another one.
    pub fn set_role(&mut self, role: Role) {
        if role == self.role || !self.pool.0.map.is_at_home() {
            return;
        }
        let inner = &*self.pool.0;
        let (before, now) = (self.word(), Word::owned(role.kind(), self.blocks(), inner.me));
        if !inner.word(self.block).is_some_and(|word| word.replace(before.0, now.0)) {
            inner.counters.corrupt_words.add(1);
        }
        self.role = role;
        if inner.map.is_guarded() {
            match role {
                Role::Engine => inner.shut(self.block, self.blocks()),
                // Refused for want of mappings: stay with the address that works.
                Role::User if inner.map.guard(self.block, self.blocks(), true).is_err() => return,
                Role::User => {}
            }
        }
        self.data = match role {
            Role::User => inner.map.user_address(self.block),
            Role::Engine => inner.map.engine_address(self.block),
        };
    }

    /// Cuts it in two: this one keeps the first `at` blocks, the other gets the rest. Lengths follow. `None`, and nothing
    /// happens: `at` is 0, or not less than its blocks.
    ///
    /// ```
    /// use pinnace_qbuf::{Pool, PoolOptions};
    /// let pool = Pool::create(&PoolOptions::default()).unwrap();
    /// let mut head = pool.alloc(10_000).unwrap();
    /// let tail = head.split_off(1).unwrap();
    /// assert_eq!((head.len(), tail.len(), tail.offset() - head.offset()), (4096, 10_000 - 4096, 4096));
    /// ```
    pub fn split_off(&mut self, at: u32) -> Option<Self> {
        let inner = &*self.pool.0;
        if at == 0 || at >= self.blocks() || !inner.map.is_at_home() {
            return None;
        }
        let head = inner.word(self.block)?;
        let tail = inner.word(self.block + at)?;
        // The tail first: in between both name us, and whoever frees what the dead had goes from one head to the next.
        tail.store(Word::owned(self.role.kind(), self.blocks() - at, inner.me).0, Ordering::Release);
        if !head.replace(self.word().0, Word::owned(self.role.kind(), at, inner.me).0) {
            inner.counters.corrupt_words.add(1);
        }
        let kept = at as usize * self.pool.options().block_bytes;
        let rest =
            Self::new(self.pool.clone(), self.block + at, self.blocks() - at, self.role, self.len.saturating_sub(kept));
        self.blocks = at as u8;
        self.len = self.len.min(kept);
        Some(rest)
    }

    /// The pointer and the capacity, for C. The run still belongs to this client, and the pointer is good as long as the
    /// pool is attached; [`Pool::from_raw`] makes it a qbuf again.
    pub fn into_raw(mut self) -> (NonNull<u8>, usize) {
        self.set_role(Role::User);
        let (pool, capacity) = (self.pool.clone(), self.capacity());
        let (block, word, _) = self.dissolve();
        let inner = &*pool.0;
        let raw = Word::owned(Kind::Raw, word.blocks(block % BLOCKS as u32), inner.me);
        if !inner.word(block).is_some_and(|shared| shared.replace(word.0, raw.0)) {
            inner.counters.corrupt_words.add(1);
        }
        (inner.map.user_address(block), capacity)
    }
}

impl Drop for Qbuf {
    #[inline]
    fn drop(&mut self) {
        self.pool.0.release(self.block, self.word());
    }
}

impl Deref for Qbuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the run lies in the pool's blocks, mapped and accessible as long as `pool` lives, and `len` is at most
        // its capacity. This client owns it and there is one value for it, so nobody who keeps to the rules writes to
        // it; that a process which does not may change bytes under us is what sharing memory means (see `Pool`).
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl DerefMut for Qbuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for Qbuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for Qbuf {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl fmt::Debug for Qbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qbuf")
            .field("block", &self.block)
            .field("blocks", &self.blocks)
            .field("len", &self.len)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}
