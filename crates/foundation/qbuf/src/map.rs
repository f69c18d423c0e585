//! The memory of a pool: the sealed memfd and its mappings in this process.
//!
//! Always true: the file can neither shrink nor grow while anybody has it (seals), so no access inside the mapping can
//! fault; the geometry that addresses are computed from is private.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mlock, mmap, mmap_anonymous, mprotect, munlock, munmap};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::host;
use crate::layout::{BLOCKS, ClientSlot, Header, Tables, Zone};
use crate::owner::MAX_CLIENTS;

/// Huge pages are of this size.
const HUGE_PAGE: usize = 2 << 20;

/// Where everything lies in the file. Checked once; private.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) zones: u32,
    pub(crate) block_shift: u32,
    pub(crate) huge_pages: bool,
}

impl Geometry {
    /// Most zones: 2^21 blocks.
    pub(crate) const MOST_ZONES: u32 = 1 << 16;
    /// Largest block: 2^26 bytes, so that the length of a qbuf fits in 32 bits.
    pub(crate) const MOST_SHIFT: u32 = 26;
    const LEAST_SHIFT: u32 = 12;

    /// `None`: out of range, or larger than the address space.
    pub(crate) fn new(zones: u32, block_shift: u32, huge_pages: bool) -> Option<Self> {
        let in_range = (1..=Self::MOST_ZONES).contains(&zones)
            && (Self::LEAST_SHIFT..=Self::MOST_SHIFT).contains(&block_shift)
            && (!huge_pages || 1 << block_shift >= HUGE_PAGE);
        let this = Self { zones, block_shift, huge_pages };
        (in_range && this.data_bytes() < 1 << 46).then_some(this)
    }

    pub(crate) fn block_bytes(self) -> usize {
        1 << self.block_shift
    }

    pub(crate) fn blocks(self) -> u32 {
        self.zones * BLOCKS as u32
    }

    fn control_bytes(self) -> usize {
        size_of::<Header>() + MAX_CLIENTS * size_of::<ClientSlot>() + self.zones as usize * size_of::<Zone>()
    }

    pub(crate) fn data_offset(self) -> usize {
        // Aligned as a huge page at most; control structures need not be as large as the largest blocks. And as a page at least, which
        // are larger than blocks on some machines.
        self.control_bytes().next_multiple_of(self.block_bytes().min(HUGE_PAGE).max(rustix::param::page_size()))
    }

    pub(crate) fn data_bytes(self) -> usize {
        (self.blocks() as usize) << self.block_shift
    }

    pub(crate) fn file_bytes(self) -> usize {
        self.data_offset() + self.data_bytes()
    }
}

/// A mapped region, unmapped in the end.
#[derive(Debug)]
struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

impl Region {
    fn of_file(file: &impl AsFd, offset: usize, bytes: usize, prot: ProtFlags) -> io::Result<Self> {
        // SAFETY: the kernel picks an address where nothing lies.
        let base = unsafe { mmap(null_mut(), bytes, prot, MapFlags::SHARED, file, offset as u64)? };
        NonNull::new(base.cast()).map(|base| Self { base, bytes }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// A page of this process that its children find empty.
    fn wiped_on_fork() -> io::Result<Self> {
        let bytes = rustix::param::page_size();
        // SAFETY: the kernel picks an address where nothing lies; the advice concerns this page alone.
        let base = unsafe {
            let base = mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?;
            host::wipe_on_fork(base, bytes)?;
            base
        };
        NonNull::new(base.cast()).map(|base| Self { base, bytes }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    fn wire(&self) -> io::Result<()> {
        // SAFETY: the region is ours, and wiring changes nothing in it.
        unsafe { mlock(self.base.as_ptr().cast(), self.bytes) }.map_err(io::Error::from)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region is ours, and whoever has an address in it keeps it alive. Failure would leave it mapped.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A pool's memory in this process.
#[derive(Debug)]
pub(crate) struct Map {
    file: OwnedFd,
    geometry: Geometry,
    control: Region,
    /// What the application sees.
    user: Region,
    /// What the transport sees: the same pages, if `user` is guarded.
    engine: Option<Region>,
    home: Region,
}

// SAFETY: the regions are plain memory, mapped until the last `Map` is dropped; what is shared in the control region is
// atomics, and a block is only touched by whom its word names.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// A new file of that geometry, all zero, sealed.
    pub(crate) fn file(geometry: Geometry) -> io::Result<OwnedFd> {
        host::sealed_file("pinnace-qbuf", geometry.file_bytes(), geometry.huge_pages)
    }

    /// The first page of the file, copied: magic, version, variant, zones, block shift, flags.
    pub(crate) fn peek(file: &OwnedFd) -> io::Result<[u32; 7]> {
        let mut bytes = [0; 28];
        // Hugetlbfs cannot be read, so it is mapped.
        let page = Region::of_file(file, 0, HUGE_PAGE.min(host::sealed_bytes(file)?.unwrap_or(0)), ProtFlags::READ)?;
        if page.bytes < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: that many bytes are mapped, of a file that cannot shrink; they overlap nothing of ours.
        unsafe { page.base.as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        let mut words = [0; 7];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Ok(words)
    }

    /// Maps a sealed file of exactly that geometry.
    pub(crate) fn new(file: OwnedFd, geometry: Geometry, guarded: bool) -> io::Result<Self> {
        let all = ProtFlags::READ | ProtFlags::WRITE;
        let of_user = if guarded { ProtFlags::empty() } else { all };
        let (offset, bytes) = (geometry.data_offset(), geometry.data_bytes());
        let home = Region::wiped_on_fork()?;
        let this = Self {
            control: Region::of_file(&file, 0, offset, all)?,
            user: Region::of_file(&file, offset, bytes, of_user)?,
            engine: if guarded { Some(Region::of_file(&file, offset, bytes, all)?) } else { None },
            file,
            geometry,
            home,
        };
        this.home().store(1, Relaxed);
        Ok(this)
    }

    fn home(&self) -> &AtomicU32 {
        // SAFETY: a page that lives as long as we do, aligned, and used as nothing else.
        unsafe { self.home.base.cast::<AtomicU32>().as_ref() }
    }

    /// Whether this process made the map, and did not get it by `fork`.
    #[inline]
    pub(crate) fn is_at_home(&self) -> bool {
        self.home().load(Relaxed) == 1
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.file
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(crate) fn is_guarded(&self) -> bool {
        self.engine.is_some()
    }

    /// The control structure.
    #[inline]
    pub(crate) fn tables(&self) -> Tables<'_> {
        let base = self.control.base;
        // SAFETY: `data_offset` bytes are mapped from `base` on, a page boundary, for as long as we live; the three parts
        // fit in them one after the other (`control_bytes`), aligned as they need (their sizes are multiples of 64 and
        // 128). They consist of atomics, for which every bit pattern is valid, and other processes access them as such.
        unsafe {
            let clients = base.add(size_of::<Header>());
            let zones = clients.add(MAX_CLIENTS * size_of::<ClientSlot>());
            Tables {
                header: base.cast::<Header>().as_ref(),
                clients: std::slice::from_raw_parts(clients.cast::<ClientSlot>().as_ptr(), MAX_CLIENTS),
                zones: std::slice::from_raw_parts(zones.cast::<Zone>().as_ptr(), self.geometry.zones as usize),
            }
        }
    }

    /// Where the block that is the `block`-th of the pool lies, for the application. The block must exist.
    #[inline]
    pub(crate) fn user_address(&self, block: u32) -> NonNull<u8> {
        debug_assert!(block < self.geometry.blocks());
        // SAFETY: the block lies in the region.
        unsafe { self.user.base.add((block as usize) << self.geometry.block_shift) }
    }

    /// The same for the transport.
    #[inline]
    pub(crate) fn engine_address(&self, block: u32) -> NonNull<u8> {
        debug_assert!(block < self.geometry.blocks());
        let region = self.engine.as_ref().unwrap_or(&self.user);
        // SAFETY: the block lies in the region.
        unsafe { region.base.add((block as usize) << self.geometry.block_shift) }
    }

    /// How far into the blocks an address of the application lies.
    pub(crate) fn offset_of(&self, address: *const u8) -> Option<usize> {
        let offset = (address as usize).checked_sub(self.user.base.as_ptr() as usize)?;
        (offset < self.user.bytes).then_some(offset)
    }

    /// Makes blocks of a guarded pool accessible for the application, or inaccessible. Blocks must exist.
    #[cold]
    pub(crate) fn guard(&self, block: u32, blocks: u32, accessible: bool) -> io::Result<()> {
        debug_assert!(block + blocks <= self.geometry.blocks());
        let flags = if accessible { MprotectFlags::READ | MprotectFlags::WRITE } else { MprotectFlags::empty() };
        let bytes = (blocks as usize) << self.geometry.block_shift;
        // SAFETY: the blocks lie in the region; whoever owns them asks for this.
        unsafe { mprotect(self.user_address(block).as_ptr().cast(), bytes, flags) }.map_err(io::Error::from)
    }

    //= B-8
    /// Wires the control structure, and the blocks if `all`. What could not be.
    pub(crate) fn wire(&self, all: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut try_to = |region: &Region, what: &str| {
            if let Err(error) = region.wire() {
                warnings.push(format!("{what} may be paged out: cannot wire {} bytes: {error}", region.bytes));
            }
        };
        try_to(&self.control, "the control structure of the buffer pool");
        if all {
            try_to(self.engine.as_ref().unwrap_or(&self.user), "the buffer pool");
        }
        warnings
    }

    /// Wires the pages of some blocks. Blocks must exist.
    pub(crate) fn wire_run(&self, block: u32, blocks: u32) -> io::Result<()> {
        debug_assert!(block + blocks <= self.geometry.blocks());
        let bytes = (blocks as usize) << self.geometry.block_shift;
        // SAFETY: the blocks are mapped, and wiring changes nothing in them.
        unsafe { mlock(self.engine_address(block).as_ptr().cast(), bytes) }.map_err(io::Error::from)
    }

    /// Takes [`wire_run`](Self::wire_run) back.
    pub(crate) fn unwire_run(&self, block: u32, blocks: u32) {
        debug_assert!(block + blocks <= self.geometry.blocks());
        let bytes = (blocks as usize) << self.geometry.block_shift;
        // SAFETY: as above. Failure would leave them wired.
        let _ = unsafe { munlock(self.engine_address(block).as_ptr().cast(), bytes) };
    }
}
