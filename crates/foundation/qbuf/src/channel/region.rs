//! The memory of a channel: a sealed memfd with a header, a record for each side, two rings and their slots.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic `PNCHAN01` |
//! | 8..12 | version, 1 |
//! | 12..16 | slots a ring, a power of two |
//! | 128..256, 256..384 | record of side A, of side B: claimed (8 bytes), which client of the pool (8 bytes) |
//! | 384..388 | number of the channel |
//! | 512..1024, 1024..1536 | control words of the ring from A to B, from B to A |
//! | 4096.. | slots of the ring from A to B, then of that from B to A |
//!
//! Always true: the size of the file and the geometry are checked once, when it is mapped, and kept in private memory; the file is
//! sealed against shrinking, so no access inside it can fault; every slot index is the position modulo the private geometry.
//!
//! Requirements B-9 (magic and version must be equal) and B-13.

use core::mem::{offset_of, size_of};
use core::ptr::NonNull;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags};

use super::ring::{CLOSED, Control, Line, Ring, Slot};
use super::sync::{AtomicU64, Ordering, fence};
use super::{ChannelError, Side};
use crate::{ClientId, host};

const MAGIC: u64 = u64::from_le_bytes(*b"PNCHAN01");
const VERSION: u32 = 1;

const SLOTS_AT: usize = 4096;

/// Most slots a ring may have.
pub(super) const MAX_SLOTS: u32 = 1 << 16;

#[repr(C)]
struct Header {
    magic: AtomicU64,
    /// The version, and 2^32 times the slots a ring.
    geometry: AtomicU64,
    sides: [Line<Record>; 2],
    number: AtomicU64,
    rings: [Line<Control>; 2],
}

const _: () = assert!(size_of::<Header>() <= SLOTS_AT);
const _: () = assert!(offset_of!(Header, sides) == 128);
const _: () = assert!(size_of::<Control>() == 512 && size_of::<Slot>() == 64);

/// Who sits on a side.
#[repr(C)]
struct Record {
    /// 1: somebody sits there, or did; 2: and has said itself that it sends nothing more.
    claimed: AtomicU64,
    /// Bit 32 set: bits 0 to 21 are the client of the pool that sits there, or will.
    client: AtomicU64,
}

const KNOWN: u64 = 1 << 32;
const FINISHED: u64 = 2;

/// A mapped channel region.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    slots: u32,
    number: u32,
}

// SAFETY: the mapping stays until the region is dropped, and everything in it is read and written by atomic operations.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `map` made; nobody can hold a reference into it longer than the region.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

fn bytes_for(slots: u32) -> usize {
    SLOTS_AT + 2 * slots as usize * size_of::<Slot>()
}

impl Region {
    /// Makes the file of a channel.
    pub(super) fn create(slots: u32, number: u32, clients: [Option<ClientId>; 2]) -> io::Result<OwnedFd> {
        let bytes = bytes_for(slots);
        let fd = host::sealed_file("pinnace-channel", bytes, false)?;
        let region = Region { base: map(fd.as_fd(), bytes)?, bytes, slots, number };
        let header = region.header();
        header.geometry.store(u64::from(VERSION) | u64::from(slots) << 32, Ordering::Relaxed);
        header.number.store(u64::from(number), Ordering::Relaxed);
        for (record, client) in header.sides.iter().zip(clients) {
            record.0.client.store(client.map_or(0, |client| KNOWN | u64::from(client.to_bits())), Ordering::Relaxed);
        }
        header.magic.store(MAGIC, Ordering::Release);
        Ok(fd)
    }

    /// Maps and checks the file of a channel.
    ///
    /// # Errors
    ///
    /// [`ChannelError::Refused`] if it is not a channel of this version, or not sealed; [`ChannelError::Io`] if it cannot be mapped.
    //= B-9
    //= B-13
    pub(super) fn map(fd: BorrowedFd<'_>) -> Result<Arc<Region>, ChannelError> {
        let Some(bytes) = host::sealed_bytes(fd)? else {
            return Err(ChannelError::Refused("the region is not sealed against shrinking"));
        };
        if bytes < SLOTS_AT || bytes > bytes_for(MAX_SLOTS) {
            return Err(ChannelError::Refused("the region has no size that a channel can have"));
        }
        let mut region = Region { base: map(fd, bytes)?, bytes, slots: 0, number: 0 };
        // Each word is read once, and checked in its private copy: the other process may write at the same time.
        let magic = region.header().magic.load(Ordering::Acquire);
        let geometry = region.header().geometry.load(Ordering::Relaxed);
        let (version, slots) = (geometry as u32, (geometry >> 32) as u32);
        if magic != MAGIC || version != VERSION {
            return Err(ChannelError::Refused("the region is not a channel of this version"));
        }
        if !slots.is_power_of_two() || slots > MAX_SLOTS || bytes != bytes_for(slots) {
            return Err(ChannelError::Refused("the number of slots does not fit the size of the region"));
        }
        region.slots = slots;
        region.number = region.header().number.load(Ordering::Relaxed) as u32;
        Ok(Arc::new(region))
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    fn header(&self) -> &Header {
        // SAFETY: the header lies at the start of the mapping, which is page aligned and lives as long as `self`; all of it
        // is atomic.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// The number of the channel, as [`Region::create`] was told; not trusted, but equal on both sides unless somebody lies.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Takes a side for a client of the pool. False: somebody sits there already, or it is another's.
    pub(super) fn claim(&self, side: Side, client: ClientId) -> bool {
        let record = &self.header().sides[side.index()].0;
        let word = KNOWN | u64::from(client.to_bits());
        let expected = record.client.load(Ordering::Acquire);
        if (expected != 0 && expected != word)
            || record.claimed.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_err()
        {
            return false;
        }
        record.client.store(word, Ordering::Release);
        true
    }

    /// Who sits on a side, or will; `None`: not known yet.
    pub(super) fn client(&self, side: Side) -> Option<ClientId> {
        let word = self.header().sides[side.index()].0.client.load(Ordering::Acquire);
        (word & KNOWN != 0).then(|| ClientId::from_bits(word as u32))
    }

    /// Somebody has sat down on a side, and perhaps left again.
    pub(super) fn is_claimed(&self, side: Side) -> bool {
        self.header().sides[side.index()].0.claimed.load(Ordering::Acquire) != 0
    }

    /// Who sits on a side says that it sends nothing more, before it closes its direction: whoever is killed cannot.
    pub(super) fn say_finished(&self, side: Side) {
        self.header().sides[side.index()].0.claimed.store(FINISHED, Ordering::SeqCst);
    }

    /// Whether it has said so.
    pub(super) fn has_finished(&self, side: Side) -> bool {
        self.header().sides[side.index()].0.claimed.load(Ordering::Acquire) == FINISHED
    }

    /// Closes both directions in the name of a side.
    pub(super) fn abandon(&self, side: Side) {
        self.control(side).writer.0.store(CLOSED, Ordering::SeqCst);
        self.control(side.other()).reader.0.store(CLOSED, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The control words of the ring that `from` writes.
    pub(super) fn control(&self, from: Side) -> &Control {
        &self.header().rings[from.index()].0
    }
}

fn map(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new shared mapping at an address of the kernel's choice.
    let base = unsafe { rustix::mm::mmap(core::ptr::null_mut(), bytes, access, MapFlags::SHARED, fd, 0)? };
    NonNull::new(base.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// One of the two rings of a region.
#[derive(Clone, Debug)]
pub(super) struct MappedRing {
    control: NonNull<Control>,
    slots: NonNull<Slot>,
    mask: u64,
    /// Keeps the mapping.
    _region: Arc<Region>,
}

// SAFETY: points into a region that it keeps alive, and which is `Send` and `Sync` itself.
unsafe impl Send for MappedRing {}
// SAFETY: as above.
unsafe impl Sync for MappedRing {}

impl MappedRing {
    /// The ring that `from` writes.
    pub(super) fn new(region: &Arc<Region>, from: Side) -> Self {
        let slots = region.slots as usize;
        // SAFETY: the slots of both rings lie within the mapping: `bytes` was found to be exactly `bytes_for(slots)`.
        let first = unsafe { region.base.add(SLOTS_AT).cast::<Slot>().add(from.index() * slots) };
        Self {
            control: NonNull::from(region.control(from)),
            slots: first,
            mask: slots as u64 - 1,
            _region: Arc::clone(region),
        }
    }
}

impl Ring for MappedRing {
    #[inline]
    fn control(&self) -> &Control {
        // SAFETY: within the mapping, which `_region` keeps; all its fields are atomic.
        unsafe { self.control.as_ref() }
    }

    #[inline]
    fn slot(&self, position: u64) -> &Slot {
        // SAFETY: the mask keeps the index below the number of slots, which all lie within the mapping.
        unsafe { self.slots.add((position & self.mask) as usize).as_ref() }
    }

    #[inline]
    fn capacity(&self) -> u64 {
        self.mask + 1
    }
}
