//! The control structure, `struct qb_ctl` of the paper, as it lies in shared memory.
//!
//! One memfd holds it and the blocks:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 128 | [`Header`] |
//! | 128 | 64 x 1024 | [`ClientSlot`] for each client |
//! | 65,664 | 384 x zones | [`Zone`] for each zone |
//! | next multiple of the block size | 32 x block size x zones | the blocks |
//!
//! Always true: nothing here is believed. Geometry is read once, when a pool is attached, checked against the size of
//! the file, and copied to private memory; what else is read is checked where it is used.

use crate::sync::{Shared32, Shared64};

/// Blocks of a zone (B-1). `loom` models are smaller, or they would never end.
pub const BLOCKS: usize = if cfg!(loom) { 4 } else { 32 };

/// `"PiQBUF\r\n"`, little-endian.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"PiQBUF\r\n");
/// Layouts of different versions do not mix (B-9).
pub(crate) const VERSION: u32 = 2;

//= B-9
/// What a pool is, and what is shared by all of it.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 8 | `magic` |
/// | 8 | 4 | `version` |
/// | 12 | 4 | `variant`: 1 locked, 2 lock-free |
/// | 16 | 4 | `zones` |
/// | 20 | 4 | `block_shift`: a block has 2^shift bytes |
/// | 24 | 4 | `flags`: bit 0 wired, bit 1 guarded, bit 2 huge pages; bits 8 to 15: the share of one process, in percent |
/// | 28 | 4 | `sweeper`: who is sweeping, a [`Holder`](crate::locked::Holder) |
/// | 64 | 8 | `deferred`: bit i = a zone i modulo 64 has deferred frees |
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Header {
    pub(crate) magic: Shared64,
    pub(crate) version: Shared32,
    pub(crate) variant: Shared32,
    pub(crate) zones: Shared32,
    pub(crate) block_shift: Shared32,
    pub(crate) flags: Shared32,
    pub(crate) sweeper: Shared32,
    pub(crate) deferred: Line<Shared64>,
}

/// A client of the pool.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 8 | `identity`: 0 nobody; bits 0-21 pid, 22-61 start time in clock ticks, 62-63 state |
/// | 8 | 8 | `namespace`: inode of the pid namespace that the pid belongs to |
/// | 16 | 4 | `generation`: counts the clients of this slot |
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct ClientSlot {
    pub(crate) identity: Shared64,
    pub(crate) namespace: Shared64,
    pub(crate) generation: Shared32,
}

/// A zone: 32 blocks (B-1).
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 4 | `lock` (B-4): 0, or who holds it; not used by the lock-free variant |
/// | 4 | 4 | `bitmap` (B-3): bit i = 1: block i is free |
/// | 8 | 4 | `deferred` (B-5): bit i = 1: the run at block i waits to be freed |
/// | 64 | 8 x 32 | `words`: who has each block |
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Zone {
    pub(crate) lock: Shared32,
    pub(crate) bitmap: Shared32,
    pub(crate) deferred: Shared32,
    pub(crate) words: Line<[Shared64; BLOCKS]>,
}

/// On a cache line of its own.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub(crate) T);

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Header>() == 128 && size_of::<ClientSlot>() == 64 && size_of::<Zone>() == 384);
    assert!(std::mem::offset_of!(Zone, words) == 64);
};

/// The control structure of one pool, wherever it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables<'a> {
    pub(crate) header: &'a Header,
    pub(crate) clients: &'a [ClientSlot],
    pub(crate) zones: &'a [Zone],
}

/// How blocks are allocated (B-4).
///
/// ```
/// use pinnace_qbuf::{Pool, PoolOptions, Variant};
/// let options = PoolOptions { variant: Variant::LockFree, ..PoolOptions::default() };
/// assert_eq!(Pool::create(&options).unwrap().options().variant, Variant::LockFree);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Variant {
    /// One lock a zone; who finds a zone locked goes on to the next, or leaves what it frees to others. One atomic
    /// operation to allocate and one to free, of any number of blocks: the faster one (`examples/alloc_cost.rs`).
    #[default]
    Locked,
    /// Compare and swap, block by block.
    LockFree,
}

impl Variant {
    pub(crate) fn to_bits(self) -> u32 {
        match self {
            Self::Locked => 1,
            Self::LockFree => 2,
        }
    }

    pub(crate) fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            1 => Some(Self::Locked),
            2 => Some(Self::LockFree),
            _ => None,
        }
    }
}
