//! The pool: one attachment of this process to it, and what it can do.
//!
//! Always true: addresses are computed from private geometry alone; a word is written by compare and swap from the value
//! that says it is ours, so what somebody else scribbled over is left alone, and counted.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::counters::Counters;
use crate::error::PoolError;
use crate::host;
use crate::kernel::Kernel;
use crate::layout::{BLOCKS, MAGIC, Tables, VERSION, Variant};
use crate::map::{Geometry, Map};
use crate::named::Name;
use crate::owner::{ClientId, Kind, Passed, Role, Transit, Word};
use crate::qbuf::Qbuf;
use crate::recovery::{self, Swept, Waiting};
use crate::share::Share;
use crate::sync::Ordering;
use crate::zone::ALL;
use crate::{locked, lockfree};

/// An allocation that finds the pool empty looks for the dead at most once in this time: asking the kernel about every
/// client is not free, and an empty pool is asked often.
const SWEEP_INTERVAL: Duration = Duration::from_millis(10);

/// How a pool is made (B-1, B-4, B-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Zones of 32 blocks; 1 to 65,536.
    pub zones: u32,
    /// Bytes of a block: a power of two, 4 KiB to 64 MiB.
    pub block_bytes: usize,
    /// How blocks are allocated.
    pub variant: Variant,
    /// Wire all blocks for as long as the pool is attached, where the limit allows.
    pub wired: bool,
    /// For debugging: blocks that the application does not own are inaccessible to it, so that use after passing or
    /// freeing is a fault and not a riddle. Costs a system call for every allocation, passing and free. Not among processes that do
    /// not trust each other: one that lies of who has what makes others fault.
    pub guarded: bool,
    /// Use pages of 2 MiB, which the system must have set aside; blocks must be at least as large.
    pub huge_pages: bool,
    /// What one process may have for itself, in percent of all blocks: 1 to 100. It allocates and receives no more until it has
    /// freed or passed on some. Below 100 a channel has only a part of what is free on its way, too.
    pub share_percent: u8,
}

impl Default for PoolOptions {
    fn default() -> Self {
        let variant = Variant::default();
        let (wired, guarded, huge_pages) = (false, false, false);
        Self { zones: 64, block_bytes: 4096, variant, wired, guarded, huge_pages, share_percent: 100 }
    }
}

const FLAG_WIRED: u32 = 1;
const FLAG_GUARDED: u32 = 2;
const FLAG_HUGE: u32 = 4;
/// Where the share of one process begins, a byte.
const SHARE_AT: u32 = 8;

impl PoolOptions {
    fn geometry(&self) -> Option<Geometry> {
        let is_possible = self.block_bytes.is_power_of_two() && (1..=100).contains(&self.share_percent);
        is_possible.then(|| self.block_bytes.trailing_zeros()).and_then(|shift| {
            // Largest first: a shift beyond the range is refused there.
            Geometry::new(self.zones, shift, self.huge_pages)
        })
    }

    fn flags(&self) -> u32 {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        flag(self.wired, FLAG_WIRED)
            | flag(self.guarded, FLAG_GUARDED)
            | flag(self.huge_pages, FLAG_HUGE)
            | u32::from(self.share_percent) << SHARE_AT
    }
}

/// An attachment to a pool of buffers in shared memory. Clones are the same attachment; it ends, and gives back whatever
/// it still has, when the last clone and the last [`Qbuf`] are gone.
///
/// All processes that have the pool can write to all of it. Nothing of what they write can crash or hang another or make
/// it access anything else; but a process that writes where it should not can spoil bytes that others own, so a pool
/// belongs to processes that would also share files.
///
/// A child made by `fork` has no part in its parent's attachments: there [`alloc`](Self::alloc) finds nothing, and
/// dropping leaves everything to the parent. It can [`attach`](Self::attach) to the same file.
///
/// ```
/// use pinnace_qbuf::{Pool, PoolOptions};
/// let pool = Pool::create(&PoolOptions::default()).unwrap();
/// let mut qbuf = pool.alloc(10_000).unwrap();
/// qbuf[..5].copy_from_slice(b"hello");
/// assert_eq!((qbuf.len(), qbuf.capacity(), pool.stats().free_blocks), (10_000, 3 * 4096, 64 * 32 - 3));
/// drop(qbuf);
/// assert_eq!(pool.stats().free_blocks, 64 * 32);
/// ```
#[derive(Clone)]
pub struct Pool(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) map: Map,
    options: PoolOptions,
    share: Share,
    pub(crate) me: ClientId,
    kernel: Kernel,
    /// Where the last run was allocated or freed: the blocks that are still in the cache are used first.
    hint: AtomicUsize,
    /// When the last sweep that an empty pool made began, in milliseconds after `begin`, and 1.
    swept: AtomicU64,
    begin: Instant,
    waiting: Waiting,
    pub(crate) counters: Counters,
    warnings: Vec<String>,
    /// That a buffer could not be wired when it was wrapped: the first time.
    wire_refused: OnceLock<String>,
    name: OnceLock<Name>,
}

impl Pool {
    /// Makes a pool, as its first client. The error says what is out of range, or what the system refused.
    pub fn create(options: &PoolOptions) -> io::Result<Self> {
        let Some(geometry) = options.geometry() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a buffer pool has 1 to 65536 zones, blocks of a power of two from 4 KiB to 64 MiB, and with huge pages \
                 blocks of 2 MiB at least; the share of one process is 1 to 100 percent",
            ));
        };
        let map = Map::new(Map::file(geometry)?, geometry, options.guarded)?;
        let Tables { header, zones, .. } = map.tables();
        for zone in zones {
            zone.bitmap.store(ALL, Relaxed);
        }
        header.version.store(VERSION, Relaxed);
        header.variant.store(options.variant.to_bits(), Relaxed);
        header.zones.store(geometry.zones, Relaxed);
        header.block_shift.store(geometry.block_shift, Relaxed);
        header.flags.store(options.flags(), Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        let share = Share::new(options.share_percent, geometry.blocks());
        Self::enter(map, options, share).map_err(|error| match error {
            PoolError::Io(error) => error,
            other => io::Error::other(other),
        })
    }

    //= B-9
    /// Attaches to the pool in `fd`, that another process made.
    ///
    /// ```
    /// use pinnace_qbuf::{Pool, PoolError, PoolOptions};
    /// let pool = Pool::create(&PoolOptions::default()).unwrap();
    /// let other = Pool::attach(pool.fd().try_clone_to_owned().unwrap()).unwrap();
    /// assert_eq!((other.slot(), other.options()), (1, pool.options()));
    /// let file = std::fs::File::open("/proc/self/exe").unwrap();
    /// assert!(matches!(Pool::attach(file.into()), Err(PoolError::NotSealed)));
    /// ```
    pub fn attach(fd: OwnedFd) -> Result<Self, PoolError> {
        let bytes = host::sealed_bytes(&fd)?.ok_or(PoolError::NotSealed)?;
        let [low, high, version, variant, zones, shift, flags] = Map::peek(&fd)?;
        if u64::from(high) << 32 | u64::from(low) != MAGIC {
            return Err(PoolError::NotAPool);
        }
        if version != VERSION {
            return Err(PoolError::Version(version));
        }
        let geometry = Geometry::new(zones, shift, flags & FLAG_HUGE != 0).ok_or(PoolError::Geometry)?;
        let variant = Variant::from_bits(variant).ok_or(PoolError::Geometry)?;
        if geometry.file_bytes() != bytes {
            return Err(PoolError::Geometry);
        }
        let options = PoolOptions {
            zones,
            block_bytes: geometry.block_bytes(),
            variant,
            wired: flags & FLAG_WIRED != 0,
            guarded: flags & FLAG_GUARDED != 0,
            huge_pages: geometry.huge_pages,
            // Nonsense is the least that it can be, and a process that believes it harms nobody.
            share_percent: ((flags >> SHARE_AT) as u8).clamp(1, 100),
        };
        let share = Share::new(options.share_percent, geometry.blocks());
        Self::enter(Map::new(fd, geometry, options.guarded)?, &options, share)
    }

    /// A second attachment of this process: another client of the pool, with the same share of it.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn attach_beside(&self) -> Result<Self, PoolError> {
        let (map, options) = (&self.0.map, &self.0.options);
        let map = Map::new(map.fd().as_fd().try_clone_to_owned()?, map.geometry(), options.guarded)?;
        Self::enter(map, options, self.0.share.clone())
    }

    fn enter(map: Map, options: &PoolOptions, share: Share) -> Result<Self, PoolError> {
        let kernel = Kernel::new()?;
        let warnings = map.wire(options.wired);
        let enter = || recovery::enter(map.tables(), kernel.identity(), kernel.namespace());
        let me = match enter() {
            Some(me) => me,
            None => {
                recovery::reap(map.tables(), &kernel);
                enter().ok_or(PoolError::Full)?
            }
        };
        let inner = Inner {
            hint: AtomicUsize::new(usize::from(me.slot()) % options.zones as usize),
            map,
            options: *options,
            share,
            me,
            kernel,
            swept: AtomicU64::new(0),
            begin: Instant::now(),
            waiting: Waiting::default(),
            counters: Counters::default(),
            warnings,
            wire_refused: OnceLock::new(),
            name: OnceLock::new(),
        };
        Ok(Self(Arc::new(inner)))
    }

    /// The name goes with this attachment.
    pub(crate) fn keep_name(&self, name: Name) {
        let _ = self.0.name.set(name);
    }

    /// The file, to be sent to another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.map.fd().as_fd()
    }

    /// How the pool was made.
    pub fn options(&self) -> &PoolOptions {
        &self.0.options
    }

    /// The slot of this client in the control structure.
    pub fn slot(&self) -> u16 {
        self.0.me.slot()
    }

    /// This client.
    pub fn client(&self) -> ClientId {
        self.0.me
    }

    /// The client that has a slot at present.
    pub fn client_at(&self, slot: u16) -> Option<ClientId> {
        recovery::client_at(self.0.map.tables(), slot)
    }

    //= B-12
    /// Whether a client may still act: it has not left, was not dropped, and its process is not known to be dead. Asks the
    /// kernel.
    pub fn is_alive(&self, client: ClientId) -> bool {
        recovery::is_alive(self.0.map.tables(), client, &self.0.kernel)
    }

    //= B-8
    /// What could not be had: memory that could not be wired when attaching, and when a buffer was wrapped. Each is said
    /// once, however often it happens.
    pub fn warnings(&self) -> Vec<String> {
        self.0.warnings.iter().chain(self.0.wire_refused.get()).cloned().collect()
    }

    /// Blocks that nobody has, estimated from the bitmaps of a few zones, others each time that `turn` differs: a look at
    /// all of them would take the lines of their caches from all who allocate.
    pub(crate) fn estimate_free(&self, turn: u64) -> u64 {
        const ZONES_LOOKED_AT: usize = 16;
        let zones = self.0.map.tables().zones;
        let step = zones.len().div_ceil(ZONES_LOOKED_AT).max(1);
        let looked = zones.iter().skip(turn as usize % step).step_by(step);
        let (free, count) = looked
            .fold((0, 0), |(free, count), zone| (free + u64::from(zone.bitmap.load(Relaxed).count_ones()), count + 1));
        free * zones.len() as u64 / count.max(1)
    }

    /// The longest qbuf, in bytes: a whole zone.
    pub fn max_len(&self) -> usize {
        self.0.options.block_bytes * BLOCKS
    }

    /// A qbuf of `len` bytes; it may hold what its last owner left in it. `None`: no zone has that many blocks in a row,
    /// even after a look for dead owners, or it would be more than this process's share.
    ///
    /// ```
    /// use pinnace_qbuf::{Pool, PoolOptions};
    /// let pool = Pool::create(&PoolOptions { zones: 1, ..PoolOptions::default() }).unwrap();
    /// let all = pool.alloc(128 << 10).unwrap();
    /// assert!(pool.alloc(1).is_none());
    /// drop(all);
    /// assert!(pool.alloc(1).is_some());
    /// assert!(pool.alloc((128 << 10) + 1).is_none(), "no qbuf spans zones");
    /// ```
    #[inline]
    pub fn alloc(&self, len: usize) -> Option<Qbuf> {
        let (block, blocks) = self.0.alloc(len, Kind::User)?;
        Some(Qbuf::new(self.clone(), block, blocks, Role::User, len))
    }

    /// The same for C: the address, and the bytes that there is room for. The run belongs to this client until
    /// [`free_raw`](Self::free_raw), or [`from_raw`](Self::from_raw) makes it a qbuf; at the latest until the pool is
    /// detached.
    ///
    /// ```
    /// use pinnace_qbuf::{Pool, PoolError, PoolOptions};
    /// let pool = Pool::create(&PoolOptions::default()).unwrap();
    /// let (pointer, capacity) = pool.alloc_raw(5000).unwrap();
    /// assert_eq!((capacity, pool.stats().user_blocks), (8192, 2));
    /// pool.free_raw(pointer).unwrap();
    /// assert!(matches!(pool.free_raw(pointer), Err(PoolError::NotOwner)), "freed twice");
    /// ```
    #[inline]
    pub fn alloc_raw(&self, len: usize) -> Option<(NonNull<u8>, usize)> {
        let (block, blocks) = self.0.alloc(len, Kind::Raw)?;
        Some((self.0.map.user_address(block), (blocks as usize) << self.0.map.geometry().block_shift))
    }

    /// Frees what [`alloc_raw`](Self::alloc_raw) or [`Qbuf::into_raw`] gave.
    #[inline]
    pub fn free_raw<T>(&self, pointer: NonNull<T>) -> Result<(), PoolError> {
        let block = self.0.block_from(pointer.as_ptr().cast())?;
        let word = self.0.raw_word(block)?;
        if self.0.release(block, word) { Ok(()) } else { Err(PoolError::NotOwner) }
    }

    //= B-12
    /// Frees what dead processes had, and breaks their locks. Anyone may call it; [`alloc`](Self::alloc) does when the
    /// pool looks empty.
    ///
    /// Processes of another pid namespace cannot be seen to be dead: somebody who knows says so by
    /// [`drop_client`](Self::drop_client).
    pub fn sweep(&self) -> Swept {
        let inner = &*self.0;
        if !inner.map.is_at_home() {
            return Swept::default();
        }
        inner.sweep()
    }

    /// Takes everything from a client that is known to be gone, whatever its process does. For the daemon.
    ///
    /// ```
    /// use pinnace_qbuf::{Pool, PoolOptions};
    /// let pool = Pool::create(&PoolOptions::default()).unwrap();
    /// let other = Pool::attach(pool.fd().try_clone_to_owned().unwrap()).unwrap();
    /// std::mem::forget(other.alloc(10_000));
    /// assert_eq!(pool.drop_client(other.client()).blocks, 3);
    /// assert_eq!(pool.stats().free_blocks, pool.stats().blocks);
    /// ```
    pub fn drop_client(&self, client: ClientId) -> Swept {
        self.drop_clients(&[client])
    }

    /// The same for several, for the price of one sweep.
    pub fn drop_clients(&self, clients: &[ClientId]) -> Swept {
        let mut others = clients.iter().filter(|client| **client != self.0.me).peekable();
        if others.peek().is_none() || !self.0.map.is_at_home() {
            return Swept::default();
        }
        for client in others {
            recovery::drop_client(self.0.map.tables(), *client);
        }
        self.sweep()
    }

    //= B-6, B-14
    /// Passes a qbuf on: the first half of a transfer, for the price of a word. What comes back names it, and is for the
    /// receiver alone. A qbuf of another attachment is freed, and what comes back names nothing.
    ///
    /// ```
    /// use pinnace_qbuf::{Pool, PoolOptions, Transit};
    /// let ours = Pool::create(&PoolOptions::default()).unwrap();
    /// let theirs = Pool::attach(ours.fd().try_clone_to_owned().unwrap()).unwrap();
    /// let mut qbuf = ours.alloc(5).unwrap();
    /// qbuf.copy_from_slice(b"hello");
    /// let transit = Transit { channel: 1, from: ours.client(), to: theirs.client() };
    /// let passed = ours.pass_to(qbuf, transit);
    /// assert_eq!(&theirs.take(passed, transit).unwrap()[..], b"hello");
    /// assert!(theirs.take(passed, transit).is_err(), "it is there once");
    /// ```
    #[inline]
    pub fn pass_to(&self, qbuf: Qbuf, to: Transit) -> Passed {
        if !Arc::ptr_eq(&qbuf.pool().0, &self.0) {
            // Its place here may be another's, of whom the word says the same.
            return Passed { block: u32::MAX, len: 0 };
        }
        let (block, word, len) = qbuf.dissolve();
        let inner = &*self.0;
        let passed = Passed { block, len: len as u32 };
        if !inner.map.is_at_home() {
            return passed;
        }
        let blocks = word.blocks(block % BLOCKS as u32);
        inner.shut(block, blocks);
        // If it was not ours any more, the receiver will find that out.
        if !inner.word(block).is_some_and(|shared| shared.replace(word.0, Word::in_transit(blocks, to).0)) {
            inner.counters.corrupt_words.add(1);
        }
        inner.share.give_back(blocks);
        passed
    }

    //= B-6, B-13, B-14
    /// Takes a qbuf that was passed to this client: the second half. [`PoolError::Share`]: it waits until this process has freed
    /// some. Any other error means that the sender, or somebody else, wrote what it should not.
    #[inline]
    pub fn take(&self, passed: Passed, from: Transit) -> Result<Qbuf, PoolError> {
        let inner = &*self.0;
        if !inner.map.is_at_home() {
            return Err(PoolError::Forked);
        }
        let shared = inner.word(passed.block).ok_or(PoolError::NotInPool)?;
        let first = passed.block % BLOCKS as u32;
        let word = Word(shared.load(Ordering::Acquire));
        let blocks = word.blocks(first);
        let is_ours = from.to == inner.me && word == Word::in_transit(blocks, from);
        let fits = passed.len as usize <= (blocks as usize) << inner.map.geometry().block_shift;
        if is_ours && fits && !inner.share.take(blocks) {
            return Err(PoolError::Share);
        }
        if !is_ours || !fits {
            inner.counters.corrupt_words.add(1);
            return Err(if is_ours { PoolError::NotInPool } else { PoolError::NotOwner });
        }
        if !shared.replace(word.0, Word::owned(Kind::User, blocks, inner.me).0) {
            inner.share.give_back(blocks);
            inner.counters.corrupt_words.add(1);
            return Err(PoolError::NotOwner);
        }
        // From here on dropping it frees it.
        let qbuf = Qbuf::new(self.clone(), passed.block, blocks, Role::User, passed.len as usize);
        if inner.map.is_guarded() {
            inner.map.guard(passed.block, blocks, true)?;
        }
        Ok(qbuf)
    }

    //= B-12
    /// Frees every block that is under way over a channel to its receiver. For when the channel is closed, and drained:
    /// what a sender that died had passed but not announced. How many blocks.
    pub fn purge(&self, transit: Transit) -> u32 {
        self.0.free_where(|word, blocks| word == Word::in_transit(blocks, transit))
    }

    /// A qbuf from the pointer that [`Qbuf::into_raw`] gave. Its length is its capacity.
    ///
    /// ```
    /// use pinnace_qbuf::{Pool, PoolError, PoolOptions};
    /// let pool = Pool::create(&PoolOptions::default()).unwrap();
    /// let (pointer, _) = pool.alloc(100).unwrap().into_raw();
    /// assert!(pool.from_raw(pointer).is_ok());
    /// assert!(matches!(pool.from_raw(pointer), Err(PoolError::NotOwner)), "it was freed");
    /// assert!(matches!(pool.from_raw((&pool).into()), Err(PoolError::NotInPool)));
    /// ```
    pub fn from_raw<T>(&self, pointer: NonNull<T>) -> Result<Qbuf, PoolError> {
        let block = self.0.block_from(pointer.as_ptr().cast())?;
        self.claim_raw(block, self.0.raw_word(block)?, Role::User)
    }

    /// Makes the raw run that starts at `block`, and whose word is `word`, a qbuf. The word was looked at once, so that nobody can
    /// make the run another one meanwhile.
    pub(crate) fn claim_raw(&self, block: u32, word: Word, role: Role) -> Result<Qbuf, PoolError> {
        let inner = &*self.0;
        let blocks = word.blocks(block % BLOCKS as u32);
        let shared = inner.word(block).ok_or(PoolError::NotInPool)?;
        if !shared.replace(word.0, Word::owned(role.kind(), blocks, inner.me).0) {
            return Err(PoolError::NotOwner);
        }
        if role == Role::Engine {
            inner.shut(block, blocks);
        }
        let len = (blocks as usize) << inner.map.geometry().block_shift;
        Ok(Qbuf::new(self.clone(), block, blocks, role, len))
    }

    /// Who has the qbuf that a block of the pool begins. `None`: nobody, or none begins there.
    pub fn owner(&self, block: u32) -> Option<Owner> {
        let word = Word(self.0.word(block)?.load(Ordering::Acquire));
        let blocks = word.blocks(block % BLOCKS as u32);
        let holder = match word.kind()? {
            Kind::User => Holding::User,
            Kind::Raw => Holding::Raw,
            Kind::Engine => Holding::Engine,
            Kind::Transit => Holding::InTransit,
            Kind::Claim | Kind::Freeing | Kind::Deferred => Holding::Changing,
            Kind::Free | Kind::Body => return None,
        };
        Some(Owner { client: word.client(), holding: holder, blocks })
    }
}

/// Who has a qbuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The client; if the qbuf is in transit, the one that it goes to.
    pub client: ClientId,
    /// What part of it.
    pub holding: Holding,
    /// Blocks of the qbuf.
    pub blocks: u32,
}

/// In what part of a client a qbuf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// The application has it, as a [`Qbuf`].
    User,
    /// The application has it, as a pointer.
    Raw,
    /// The transport has it.
    Engine,
    /// It is on its way to the client.
    InTransit,
    /// It is being allocated or freed.
    Changing,
}

impl Inner {
    //= B-1, B-2
    /// The first block of a run for `len` bytes, and how many blocks it has.
    #[inline]
    fn alloc(&self, len: usize, kind: Kind) -> Option<(u32, u32)> {
        let shift = self.map.geometry().block_shift;
        if len > BLOCKS << shift || !self.map.is_at_home() {
            return None;
        }
        let blocks = (len.saturating_sub(1) >> shift) as u32 + 1;
        if !self.share.take(blocks) {
            self.counters.failed_allocs.add(1);
            return None;
        }
        let owned = Word::owned(kind, blocks, self.me);
        let Some((zone, first)) = self.find(owned) else {
            self.share.give_back(blocks);
            return None;
        };
        let block = (zone * BLOCKS) as u32 + first;
        if self.map.is_guarded() && self.map.guard(block, blocks, true).is_err() {
            self.release(block, owned);
            return None;
        }
        Some((block, blocks))
    }

    #[inline]
    fn find(&self, owned: Word) -> Option<(usize, u32)> {
        let (tables, start) = (self.map.tables(), self.hint.load(Relaxed));
        let zone = tables.zones.get(start);
        let first = match self.options.variant {
            // What was deferred comes first.
            Variant::Locked if tables.header.deferred.0.load(Relaxed) != 0 => None,
            Variant::Locked => zone.and_then(|zone| locked::take_from(zone, owned, &self.counters)),
            Variant::LockFree => zone.and_then(|zone| lockfree::take_from(zone, owned, &self.counters)),
        };
        if let Some(first) = first { Some((start, first)) } else { self.find_slowly(owned) }
    }

    /// In all zones, and after a look for the dead.
    #[cold]
    #[inline(never)]
    fn find_slowly(&self, owned: Word) -> Option<(usize, u32)> {
        let found = self.find_anywhere(owned).or_else(|| {
            let now = self.begin.elapsed().as_millis() as u64 + 1;
            let last = self.swept.load(Relaxed);
            let is_due = last == 0 || now.saturating_sub(last) >= SWEEP_INTERVAL.as_millis() as u64;
            if !is_due || self.swept.compare_exchange(last, now, Relaxed, Relaxed).is_err() {
                return None;
            }
            let swept = self.sweep();
            if swept.blocks > 0 || swept.bits > 0 { self.find_anywhere(owned) } else { None }
        });
        match found {
            Some((zone, _)) => self.remember(zone),
            None => self.counters.failed_allocs.add(1),
        }
        found
    }

    fn sweep(&self) -> Swept {
        let (tables, variant, waiting) = (self.map.tables(), self.options.variant, (&self.waiting, Instant::now()));
        recovery::sweep(tables, self.me, variant, &self.kernel, &self.counters, waiting)
    }

    fn find_anywhere(&self, owned: Word) -> Option<(usize, u32)> {
        let (tables, start) = (self.map.tables(), self.hint.load(Relaxed));
        match self.options.variant {
            Variant::Locked => locked::alloc(tables, owned, start, &self.counters),
            Variant::LockFree => lockfree::alloc(tables, owned, start, &self.counters),
        }
    }

    /// The next allocation begins at this zone.
    #[inline]
    fn remember(&self, zone: usize) {
        // Mostly the same: the cache line stays shared by the threads.
        if self.hint.load(Relaxed) != zone {
            self.hint.store(zone, Relaxed);
        }
    }

    /// The word of a block, if there is such a block.
    #[inline]
    pub(crate) fn word(&self, block: u32) -> Option<&crate::sync::Shared64> {
        let zone = self.map.tables().zones.get(block as usize / BLOCKS)?;
        zone.words.0.get(block as usize % BLOCKS)
    }

    /// The block of the pool in which an address of the application lies.
    pub(crate) fn block_at(&self, address: *const u8) -> Result<u32, PoolError> {
        let offset = self.map.offset_of(address).ok_or(PoolError::NotInPool)?;
        Ok((offset >> self.map.geometry().block_shift) as u32)
    }

    /// The block of the pool that begins at an address of the application.
    #[inline]
    fn block_from(&self, address: *const u8) -> Result<u32, PoolError> {
        let (offset, shift) =
            (self.map.offset_of(address).ok_or(PoolError::NotInPool)?, self.map.geometry().block_shift);
        if offset & ((1 << shift) - 1) == 0 { Ok((offset >> shift) as u32) } else { Err(PoolError::NotInPool) }
    }

    /// The word of the raw run of ours that begins at `block`.
    #[inline]
    pub(crate) fn raw_word(&self, block: u32) -> Result<Word, PoolError> {
        if !self.map.is_at_home() {
            return Err(PoolError::Forked);
        }
        let word = Word(self.word(block).ok_or(PoolError::NotInPool)?.load(Ordering::Acquire));
        let is_ours = word == Word::owned(Kind::Raw, word.blocks(block % BLOCKS as u32), self.me);
        if is_ours { Ok(word) } else { Err(PoolError::NotOwner) }
    }

    /// Wires blocks, where the limit allows.
    pub(crate) fn wire(&self, block: u32, blocks: u32) -> bool {
        let outcome = self.map.wire_run(block, blocks);
        if let Err(error) = &outcome {
            self.wire_refused.get_or_init(|| format!("buffers may be paged out: cannot wire one: {error}"));
        }
        outcome.is_ok()
    }

    /// In a guarded pool, takes blocks from the application's sight.
    #[inline]
    pub(crate) fn shut(&self, block: u32, blocks: u32) {
        if self.map.is_guarded() {
            // Pages that stay accessible: the guard has a hole, nothing else.
            let _ = self.map.guard(block, blocks, false);
        }
    }

    /// Frees the run at `block`, whose word is `expected`. `false`: it was not, and nothing is freed.
    #[inline]
    pub(crate) fn release(&self, block: u32, expected: Word) -> bool {
        if !self.map.is_at_home() {
            return false;
        }
        let (zone, first) = (block as usize / BLOCKS, block % BLOCKS as u32);
        let blocks = expected.blocks(first);
        self.shut(block, blocks);
        let tables = self.map.tables();
        let freed = match self.options.variant {
            Variant::Locked if tables.header.deferred.0.load(Relaxed) == 0 => {
                let at_once = tables.zones.get(zone).map(|zone| locked::free_at_once(zone, self.me, first, expected));
                at_once.flatten().unwrap_or_else(|| self.release_slowly(zone, first, expected))
            }
            Variant::Locked => self.release_slowly(zone, first, expected),
            Variant::LockFree => lockfree::free(tables, self.me, zone, first, expected),
        };
        if expected.kind() != Some(Kind::Transit) {
            // Not before the word says so: another thread may take what this one gives back.
            self.share.give_back(blocks);
        }
        if freed {
            self.remember(zone);
        } else {
            self.counters.corrupt_words.add(1);
        }
        freed
    }

    /// Drains what was deferred, and leaves the run to others if its zone is locked.
    #[cold]
    #[inline(never)]
    fn release_slowly(&self, zone: usize, first: u32, expected: Word) -> bool {
        locked::free(self.map.tables(), self.me, zone, first, expected, &self.counters)
    }

    /// Frees the runs that are picked by their word and their number of blocks. How many blocks.
    fn free_where(&self, pick: impl Fn(Word, u32) -> bool) -> u32 {
        if !self.map.is_at_home() {
            return 0;
        }
        let mut freed = 0;
        for block in 0..self.map.geometry().blocks() {
            let Some(shared) = self.word(block) else { break };
            let word = Word(shared.load(Ordering::Acquire));
            let blocks = word.blocks(block % BLOCKS as u32);
            if word != Word::FREE && pick(word, blocks) {
                self.release(block, word);
                freed += blocks;
            }
        }
        freed
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // While the descriptor that it leads to is this pool's.
        drop(self.name.take());
        if !self.map.is_at_home() {
            return;
        }
        // What was made raw and never freed, and what nobody will take any more.
        self.free_where(|word, _| {
            matches!(word.kind(), Some(Kind::User | Kind::Raw | Kind::Engine | Kind::Transit))
                && word.client() == self.me
        });
        recovery::leave(self.map.tables(), self.me, self.kernel.identity());
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("options", self.options()).field("client", &self.0.me).finish_non_exhaustive()
    }
}
