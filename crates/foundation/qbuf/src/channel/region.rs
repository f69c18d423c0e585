//! The memory of a channel: a sealed memfd with a header, a record for each side, two rings and their slots.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic `PNCHAN01` |
//! | 8..12 | version, 1 |
//! | 12..16 | slots a ring, a power of two |
//! | 128..256, 256..384 | record of side A, of side B: claimed by (process id), start time, client slot of the pool, set |
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
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use super::ring::{Control, Line, Ring, Slot};
use super::sync::{AtomicU64, Ordering};
use super::{ChannelError, Side};

const MAGIC: u64 = u64::from_le_bytes(*b"PNCHAN01");
const VERSION: u32 = 1;
const SLOTS_AT: usize = 4096;

/// Most slots a ring may have.
pub(super) const MAX_SLOTS: u32 = 1 << 16;

#[repr(C)]
struct Header {
    magic: u64,
    version: u32,
    slots: u32,
    sides: [Line<Record>; 2],
    rings: [Line<Control>; 2],
}

const _: () = assert!(size_of::<Header>() <= SLOTS_AT);
const _: () = assert!(offset_of!(Header, sides) == 128);
const _: () = assert!(size_of::<Control>() == 512 && size_of::<Slot>() == 64);

/// Who sits on a side.
#[repr(C)]
struct Record {
    /// Process id of who claimed the side; 0: nobody yet.
    claimed: AtomicU64,
    start: AtomicU64,
    client: AtomicU64,
    /// 1: the two words before are set.
    set: AtomicU64,
}

/// What a side says of itself. Not trusted: it may lie, and then is found dead or alive by its own fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) pid: u32,
    pub(super) start: u64,
    pub(super) client: u64,
}

/// A mapped channel region.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    slots: u32,
}

// SAFETY: the mapping stays until the region is dropped, and everything in it is read and written by atomic operations.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `map` made; nobody can hold a reference into it longer than the region.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

fn bytes_for(slots: u32) -> usize {
    SLOTS_AT + 2 * slots as usize * size_of::<Slot>()
}

impl Region {
    /// Makes the file of a channel.
    pub(super) fn create(slots: u32) -> io::Result<OwnedFd> {
        // SAFETY: plain system call with a constant name.
        let fd = unsafe { libc::memfd_create(c"pinnace-channel".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just made and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let bytes = bytes_for(slots);
        // SAFETY: plain system calls on a descriptor that we own.
        let sealed = unsafe {
            libc::ftruncate(fd.as_raw_fd(), bytes as libc::off_t) == 0
                && libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL) == 0
        };
        if !sealed {
            return Err(io::Error::last_os_error());
        }
        let base = map(&fd, bytes)?;
        let region = Region { base, bytes, slots };
        // SAFETY: the header lies within the mapping, which nobody else has yet; an all-zero header is a valid one.
        unsafe {
            let header = region.base.cast::<Header>().as_ptr();
            (*header).version = VERSION;
            (*header).slots = slots;
            (*header).magic = MAGIC;
        }
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
        // SAFETY: plain system call.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(ChannelError::Refused("the region is not sealed against shrinking"));
        }
        // SAFETY: `stat` is plain data, for which zeros are valid, and the call fills it.
        let size = unsafe {
            let mut stat: libc::stat = core::mem::zeroed();
            if libc::fstat(fd.as_raw_fd(), &raw mut stat) != 0 {
                return Err(io::Error::last_os_error().into());
            }
            stat.st_size
        };
        let bytes = usize::try_from(size).unwrap_or(0);
        if bytes < SLOTS_AT || bytes > bytes_for(MAX_SLOTS) {
            return Err(ChannelError::Refused("the region has no size that a channel can have"));
        }
        let base = map(&fd, bytes)?;
        let mut region = Region { base, bytes, slots: 0 };
        // SAFETY: the header lies within the mapping. Volatile, because the other process may write at the same time: each
        // word is read once, and checked in its private copy.
        let (magic, version, slots) = unsafe {
            let header = base.cast::<Header>().as_ptr();
            (
                (&raw const (*header).magic).read_volatile(),
                (&raw const (*header).version).read_volatile(),
                (&raw const (*header).slots).read_volatile(),
            )
        };
        if magic != MAGIC || version != VERSION {
            return Err(ChannelError::Refused("the region is not a channel of this version"));
        }
        if !slots.is_power_of_two() || slots > MAX_SLOTS || bytes != bytes_for(slots) {
            return Err(ChannelError::Refused("the number of slots does not fit the size of the region"));
        }
        region.slots = slots;
        Ok(Arc::new(region))
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    fn header(&self) -> &Header {
        // SAFETY: the header lies at the start of the mapping, which is page aligned and lives as long as `self`. What is not
        // atomic in it is not read through this reference.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// Takes a side for this process; false: somebody sits there already.
    pub(super) fn claim(&self, side: Side, seat: Seat) -> bool {
        let record = &self.header().sides[side.index()].0;
        if record.claimed.compare_exchange(0, u64::from(seat.pid), Ordering::AcqRel, Ordering::Acquire).is_err() {
            return false;
        }
        record.start.store(seat.start, Ordering::Relaxed);
        record.client.store(seat.client, Ordering::Relaxed);
        record.set.store(1, Ordering::Release);
        true
    }

    /// Who sits on a side; `None`: nobody, or it is just sitting down.
    pub(super) fn seat(&self, side: Side) -> Option<Seat> {
        let record = &self.header().sides[side.index()].0;
        if record.set.load(Ordering::Acquire) == 0 {
            return None;
        }
        Some(Seat {
            pid: u32::try_from(record.claimed.load(Ordering::Relaxed)).unwrap_or(0),
            start: record.start.load(Ordering::Relaxed),
            client: record.client.load(Ordering::Relaxed),
        })
    }

    /// The control words of the ring that `from` writes.
    pub(super) fn control(&self, from: Side) -> &Control {
        &self.header().rings[from.index()].0
    }
}

fn map(fd: &impl AsRawFd, bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a new shared mapping at an address of the kernel's choice.
    let base = unsafe {
        libc::mmap(core::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, fd.as_raw_fd(), 0)
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
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
        Self { control: NonNull::from(region.control(from)), slots: first, mask: slots as u64 - 1, _region: Arc::clone(region) }
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
