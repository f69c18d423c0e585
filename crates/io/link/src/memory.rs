//! Where application buffers lie: the only place that turns a name into an address.
//!
//! A buffer is *lent* ([`BufferTable::insert`]: its memory is somebody else's) or *owned* ([`Storage::allocate`]: its
//! memory is the table's until [`BufferTable::take`]). Lent ones may be *joined* ([`BufferTable::join`]): one name for bytes
//! that lie in several places, to be sent; [`BufferTable::pieces`] says where.
//!
//! Always true:
//! - every entry points to memory that whoever inserted it keeps alive, unmoved and otherwise untouched until
//!   [`BufferTable::remove`], or to a block that the table keeps so itself, all of it initialised;
//! - a range that does not lie inside its buffer, or of a joined one, resolves to nothing;
//! - between [`Storage::release`] and [`BufferTable::settle_released`] a name resolves to nothing and is not given again,
//!   and its memory is neither freed nor used again: what a read has brought may still be looked at there.

use crate::pool::Pool;
use pinnace_core::{BufferId, BufferRange, Storage};
use std::any::Any;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Whose memory it is.
#[derive(Debug)]
enum Owner {
    /// Somebody else's.
    Lent,
    /// The table's: a vector of this capacity.
    Vector(usize),
    /// Kept by a value that the table has.
    Value(Box<dyn Any + Send>),
    /// Other buffers of the table, one behind the other, and where each of them ends. The region has no bytes of its own.
    Joined(Box<[(u64, BufferId)]>),
}

#[derive(Debug)]
struct Region {
    base: *mut u8,
    len: usize,
    generation: u32,
    owner: Owner,
}

impl Region {
    /// The vector that an owned region is of; what another value keeps is freed. It is kept as an address, not as a vector, because slices of it are in use
    /// while a read is handled.
    ///
    /// # Safety
    /// The region must have come out of the table, so that this happens once, and nobody may look at its memory any more.
    unsafe fn into_vector(self) -> Option<Vec<u8>> {
        match self.owner {
            // SAFETY: `adopt` took the parts from a vector, and the caller promised the rest.
            Owner::Vector(capacity) => Some(unsafe { Vec::from_raw_parts(self.base, self.len, capacity) }),
            Owner::Lent | Owner::Value(_) | Owner::Joined(_) => None,
        }
    }
}

/// Application buffers by [`BufferId`].
///
/// As [`Storage`] it makes buffers of its own:
///
/// ```
/// use pinnace_core::{BufferRange, Storage};
/// use pinnace_link::BufferTable;
///
/// let mut table = BufferTable::new();
/// let buffer = table.allocate(5, &[(3, b"lo".to_vec())]).expect("there is memory");
/// assert_eq!(table.bytes(BufferRange::new(buffer, 3, 2)), b"lo");
/// let bytes = table.take(buffer).expect("the table owns it");
/// assert_eq!(bytes.len(), 5);
/// table.recycle(bytes);
/// ```
#[derive(Debug)]
pub struct BufferTable {
    regions: Vec<Region>,
    free: Vec<u32>,
    /// Released and not settled yet: whose names and memory are still spoken for.
    released: Vec<(u32, Region)>,
    /// Joined buffers.
    joined: usize,
    pool: Pool,
    source: Option<Box<dyn Source>>,
}

/// Where storage comes from, if not from the heap: a pool that others know, too.
///
/// # Safety
/// The memory of a [`Piece`] must be initialised, valid for reading and writing from any thread, unmoved and otherwise
/// untouched for as long as its owner lives.
pub unsafe trait Source: Send + std::fmt::Debug {
    /// Storage of at least `len` bytes, or `None` if there is none now: then it comes from the heap.
    fn allocate(&mut self, len: usize) -> Option<Piece>;
}

/// Storage of a [`Source`].
#[derive(Debug)]
pub struct Piece {
    /// Where it begins.
    pub base: *mut u8,
    /// Bytes.
    pub len: usize,
    /// What keeps it: dropping this frees it.
    pub owner: Box<dyn Any + Send>,
}

// SAFETY: the table holds addresses, not access. Whoever inserts a region promises (see `insert`) that it may be read and
// written from any thread for as long as it is in the table; what the table owns, nobody else knows.
unsafe impl Send for BufferTable {}

impl Default for BufferTable {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for BufferTable {
    fn drop(&mut self) {
        for region in self.regions.drain(..).chain(self.released.drain(..).map(|(_, region)| region)) {
            // SAFETY: the region has just been taken out, and whoever looks at its memory has borrowed the table, or is
            // in the middle of a read, and then the driver has it.
            drop(unsafe { region.into_vector() });
        }
    }
}

impl BufferTable {
    /// Memory that is kept to be used again, by default: bytes.
    pub const POOL_BYTES: usize = 64 << 20;

    /// An empty table.
    pub const fn new() -> Self {
        let pool = Pool::new(Self::POOL_BYTES);
        Self { regions: Vec::new(), free: Vec::new(), released: Vec::new(), joined: 0, pool, source: None }
    }

    /// Gives `len` bytes at `base` a name.
    ///
    /// # Safety
    /// Until [`BufferTable::remove`], the memory must stay valid at this address, must be readable (and writable, if the
    /// buffer will be named in a receive plan), from any thread, and nobody else may write to it (nor read it, if it is
    /// received into).
    pub unsafe fn insert(&mut self, base: *mut u8, len: usize) -> BufferId {
        self.enter(base, len, Owner::Lent)
    }

    /// One name for the bytes of other buffers, one behind the other, to be sent: their first bytes, as many as are said. Their
    /// names go with it ([`BufferTable::remove`]).
    pub fn join(&mut self, buffers: impl IntoIterator<Item = (BufferId, usize)>) -> BufferId {
        let mut end = 0;
        let pieces = buffers.into_iter().map(|(buffer, len)| {
            end += len as u64;
            (end, buffer)
        });
        let pieces = pieces.collect();
        self.joined += 1;
        self.enter(NonNull::dangling().as_ptr(), 0, Owner::Joined(pieces))
    }

    /// Whether any buffer is joined.
    #[inline]
    pub fn has_joined(&self) -> bool {
        self.joined > 0
    }

    /// What a range of a joined buffer is, in order; `None` for a range of any other. What lies outside is left out.
    pub fn pieces(&self, range: BufferRange) -> Option<impl Iterator<Item = BufferRange> + '_> {
        let Owner::Joined(pieces) = &self.regions.get(range.buffer.index() as usize)?.owner else { return None };
        let first = pieces.partition_point(|(end, _)| *end <= range.offset);
        let mut low = first.checked_sub(1).map_or(0, |before| pieces[before].0);
        let pieces = pieces[first..].iter().map_while(move |&(end, buffer)| {
            let start = std::mem::replace(&mut low, end);
            let (from, to) = (range.offset.max(start), range.end().min(end));
            let len = to.saturating_sub(from) as u32;
            (start < range.end()).then(|| BufferRange::new(buffer, from - start, len))
        });
        Some(pieces.filter(|piece| piece.len > 0))
    }

    /// Takes storage from `source` from now on, as long as it has some; `None`: from the heap.
    pub fn set_source(&mut self, source: Option<Box<dyn Source>>) {
        self.source = source;
    }

    /// Hands out what keeps the memory of a buffer, and forgets its name; `None` for memory that no such value keeps. Not
    /// while a read into it is handled.
    pub fn take_owner(&mut self, buffer: BufferId) -> Option<Box<dyn Any + Send>> {
        let is_value = |region: &Region| matches!(region.owner, Owner::Value(_));
        if !self.regions.get(buffer.index() as usize).is_some_and(is_value) {
            return None;
        }
        let region = self.clear(buffer)?;
        self.free.push(buffer.index());
        if let Owner::Value(owner) = region.owner { Some(owner) } else { None }
    }

    fn enter(&mut self, base: *mut u8, len: usize, owner: Owner) -> BufferId {
        if let Some(index) = self.free.pop() {
            let region = &mut self.regions[index as usize];
            *region = Region { base, len, generation: region.generation, owner };
            BufferId::new(index)
        } else {
            self.regions.push(Region { base, len, generation: 0, owner });
            BufferId::new(self.regions.len() as u32 - 1)
        }
    }

    /// Takes a vector over, and gives it a name.
    fn adopt(&mut self, vector: Vec<u8>) -> BufferId {
        let mut vector = ManuallyDrop::new(vector);
        self.enter(vector.as_mut_ptr(), vector.len(), Owner::Vector(vector.capacity()))
    }

    /// Takes a buffer out of the table, but not its name.
    fn clear(&mut self, buffer: BufferId) -> Option<Region> {
        let region = self.regions.get_mut(buffer.index() as usize).filter(|region| !region.base.is_null())?;
        let generation = region.generation.wrapping_add(1);
        Some(std::mem::replace(region, Region { base: std::ptr::null_mut(), len: 0, generation, owner: Owner::Lent }))
    }

    fn is_owned(&self, buffer: BufferId) -> bool {
        let region = self.regions.get(buffer.index() as usize);
        region.is_some_and(|region| matches!(region.owner, Owner::Vector(_) | Owner::Value(_)))
    }

    /// Forgets a buffer: its owner may use the memory again; if that is the table, the memory is freed. Not while a read
    /// into it is handled: see [`Storage::release`].
    pub fn remove(&mut self, buffer: BufferId) {
        if let Some(region) = self.clear(buffer) {
            self.free.push(buffer.index());
            if let Owner::Joined(pieces) = &region.owner {
                self.joined -= 1;
                for (_, piece) in pieces {
                    self.remove(*piece);
                }
            }
            // SAFETY: the region has come out of the table, and no read is under way.
            drop(unsafe { region.into_vector() });
        }
    }

    /// Hands the memory of a buffer out that [`Storage::allocate`] made, and forgets its name; `None` for any other. Its
    /// length is what was asked for. What was not received into it is whatever an earlier message left: zero it before
    /// an application sees it. Not while a read into it is handled.
    pub fn take(&mut self, buffer: BufferId) -> Option<Vec<u8>> {
        let is_vector = |region: &Region| matches!(region.owner, Owner::Vector(_));
        if !self.regions.get(buffer.index() as usize).is_some_and(is_vector) {
            return None;
        }
        let region = self.clear(buffer)?;
        self.free.push(buffer.index());
        // SAFETY: the region has come out of the table, and no read is under way.
        unsafe { region.into_vector() }
    }

    /// Takes a vector to make storage of it later, so that its pages need not be faulted in again. Kept up to
    /// [`BufferTable::POOL_BYTES`] bytes in all, the oldest are freed first.
    pub fn recycle(&mut self, vector: Vec<u8>) {
        self.pool.put(vector);
    }

    /// Forgets a buffer, as [`BufferTable::remove`]; if the memory is the table's own, it is kept as [`BufferTable::recycle`]
    /// says.
    pub fn give_back(&mut self, buffer: BufferId) {
        match self.take(buffer) {
            Some(vector) => self.recycle(vector),
            None => self.remove(buffer),
        }
    }

    /// Keeps at most `bytes` bytes of memory to be used again, instead of [`BufferTable::POOL_BYTES`]; 0 for none.
    pub fn limit_pool(&mut self, bytes: usize) {
        self.pool.set_limit(bytes);
    }

    /// A copy of `bytes` in storage of the table's, or `None` if there is no memory for it.
    pub fn allocate_copy(&mut self, bytes: &[u8]) -> Option<BufferId> {
        let mut vector = self.pool.take(bytes.len())?;
        vector.copy_from_slice(bytes);
        Some(self.adopt(vector))
    }

    /// Bytes that are kept to be used again.
    pub fn pooled_bytes(&self) -> usize {
        self.pool.bytes()
    }

    /// Uses the names and the memory of released buffers again. The driver calls it after the moves of a read have been
    /// carried out, when nobody looks at what the read brought any more.
    #[inline]
    pub fn settle_released(&mut self) {
        if !self.released.is_empty() {
            self.settle();
        }
    }

    #[cold]
    fn settle(&mut self) {
        for (index, region) in self.released.drain(..) {
            self.free.push(index);
            // SAFETY: the region has come out of the table, and the read is over (see `settle_released`).
            if let Some(vector) = unsafe { region.into_vector() } {
                self.pool.put(vector);
            }
        }
    }

    /// How often the name has changed its owner, if it names a buffer now. Whoever keeps a name longer than one call
    /// compares it, so as not to take one buffer for another.
    pub fn generation(&self, buffer: BufferId) -> Option<u32> {
        self.regions
            .get(buffer.index() as usize)
            .filter(|region| !region.base.is_null())
            .map(|region| region.generation)
    }

    /// The address of a range, if it lies inside a buffer of the table.
    pub fn resolve(&self, range: BufferRange) -> Option<*mut u8> {
        let region = self.regions.get(range.buffer.index() as usize)?;
        let end = range.offset.checked_add(u64::from(range.len))?;
        if region.base.is_null() || end > region.len as u64 {
            return None;
        }
        // SAFETY: the offset is at most the length of the region, which is one allocation.
        Some(unsafe { region.base.add(range.offset as usize) })
    }

    /// The bytes of a range. Empty if it does not lie inside a buffer of the table, which would be an engine's defect.
    pub fn bytes(&self, range: BufferRange) -> &[u8] {
        // SAFETY: `resolve` checked the range, and `insert`'s caller promised that it is readable.
        self.resolve(range).map_or(&[], |at| unsafe { std::slice::from_raw_parts(at, range.len as usize) })
    }
}

impl Storage for BufferTable {
    fn allocate(&mut self, len: u64, early: &[(u64, Vec<u8>)]) -> Option<BufferId> {
        if self.free.is_empty() && u32::try_from(self.regions.len() + 1).is_err() {
            return None;
        }
        let len = usize::try_from(len).ok()?;
        let piece = self.source.as_mut().and_then(|source| source.allocate(len)).filter(|piece| piece.len >= len);
        if let Some(piece) = piece {
            // SAFETY: the source promised that the memory is valid, initialised and nobody else's while its owner lives,
            // which is moved into the table below.
            write_early(unsafe { std::slice::from_raw_parts_mut(piece.base, len) }, early);
            return Some(self.enter(piece.base, len, Owner::Value(piece.owner)));
        }
        let mut vector = self.pool.take(len)?;
        write_early(&mut vector, early);
        Some(self.adopt(vector))
    }

    /// Takes effect for names at once, for memory with [`BufferTable::settle_released`].
    fn release(&mut self, buffer: BufferId) {
        // What is lent is not the engine's to give back.
        if self.is_owned(buffer)
            && let Some(region) = self.clear(buffer)
        {
            self.released.push((buffer.index(), region));
        }
    }
}

fn write_early(storage: &mut [u8], early: &[(u64, Vec<u8>)]) {
    for (offset, bytes) in early {
        let place = usize::try_from(*offset).ok().and_then(|low| Some(low..low.checked_add(bytes.len())?));
        if let Some(place) = place.and_then(|range| storage.get_mut(range)) {
            place.copy_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadBuffer;
    use pinnace_core::{Placed, ReceivePlan};

    fn bytes(table: &BufferTable, buffer: BufferId, len: u32) -> &[u8] {
        table.bytes(BufferRange::new(buffer, 0, len))
    }

    #[test]
    fn joined_buffers_are_sent_from_where_they_lie() {
        let mut memory = [*b"abc", *b"def", *b"ghi"];
        let mut table = BufferTable::new();
        let before = table.allocate_copy(b"before").unwrap();
        // SAFETY: the arrays outlive the table's names, and nobody else touches them.
        let lent = memory.each_mut().map(|bytes| unsafe { table.insert(bytes.as_mut_ptr(), 3) });
        let joined = table.join([(lent[0], 3), (lent[1], 0), (lent[2], 2), (lent[1], 3)]);
        let text = |low: u64, high: u64| {
            let pieces = table.pieces(BufferRange::new(joined, low, (high - low) as u32)).unwrap();
            pieces.flat_map(|piece| table.bytes(piece)).map(|byte| char::from(*byte)).collect::<String>()
        };
        let all = "abcghdef";
        for low in 0..=all.len() {
            for high in low..=all.len() + 2 {
                assert_eq!(text(low as u64, high as u64), all[low..high.min(all.len())], "{low}..{high}");
            }
        }
        assert!(table.pieces(BufferRange::new(before, 0, 1)).is_none() && table.has_joined());
        assert!(table.resolve(BufferRange::new(joined, 0, 1)).is_none(), "it lies in no one place");
        // What an engine may release is what it has allocated.
        table.release(joined);
        assert_eq!(table.generation(joined), Some(0));
        table.remove(joined);
        assert!(!table.has_joined() && table.generation(joined).is_none());
        assert!(lent.iter().all(|buffer| table.generation(*buffer).is_none()), "their names are gone as well");
        assert_eq!(table.bytes(BufferRange::new(before, 0, 6)), b"before");
    }

    #[test]
    fn early_bytes_lie_in_new_storage_and_bad_ones_nowhere() {
        let mut table = BufferTable::new();
        let early = [(6, b"ghij".to_vec()), (0, b"ab".to_vec()), (7, b"beyond".to_vec()), (u64::MAX, b"x".to_vec())];
        let buffer = table.allocate(10, &early).unwrap();
        assert_eq!(bytes(&table, buffer, 10), b"ab\0\0\0\0ghij");
        assert_eq!(table.allocate(u64::MAX, &[]), None, "there is not so much memory");
        let empty = table.allocate(0, &[]).unwrap();
        assert_eq!((table.generation(empty), table.take(empty)), (Some(0), Some(Vec::new())));
        assert_eq!(table.take(buffer).as_deref(), Some(&b"ab\0\0\0\0ghij"[..]));
        assert_eq!((table.take(buffer), table.generation(buffer)), (None, None));
    }

    #[test]
    fn storage_does_not_move_while_others_come_and_go() {
        let mut table = BufferTable::new();
        let buffer = table.allocate(100, &[(0, vec![5; 100])]).unwrap();
        let at = table.resolve(BufferRange::new(buffer, 0, 100));
        let others: Vec<_> = (1..200).map(|len| table.allocate(len, &[]).unwrap()).collect();
        for other in &others[..100] {
            table.remove(*other);
        }
        assert_eq!((table.resolve(BufferRange::new(buffer, 0, 100)), bytes(&table, buffer, 100)), (at, &[5; 100][..]));
    }

    #[test]
    fn a_name_that_was_taken_is_given_again_with_another_generation() {
        let mut table = BufferTable::new();
        let mut seen = Vec::new();
        for round in 0..4 {
            let buffer = table.allocate(8, &[]).unwrap();
            seen.push((buffer, table.generation(buffer).unwrap()));
            match round {
                0 => assert_eq!(table.take(buffer).map(|v| v.len()), Some(8)),
                1 => table.remove(buffer),
                _ => {
                    table.release(buffer);
                    table.release(buffer);
                    assert_eq!((table.generation(buffer), table.take(buffer)), (None, None));
                    table.remove(buffer);
                    table.settle_released();
                }
            }
        }
        let name = seen[0].0;
        assert_eq!(seen, [(name, 0), (name, 1), (name, 2), (name, 3)]);
        assert_eq!(table.regions.len(), 1);
    }

    #[test]
    fn what_is_lent_can_neither_be_taken_nor_released() {
        let mut memory = *b"lent";
        let mut table = BufferTable::new();
        // SAFETY: `memory` outlives the table and is not touched meanwhile.
        let id = unsafe { table.insert(memory.as_mut_ptr(), memory.len()) };
        assert_eq!(table.take(id), None);
        table.release(id);
        table.settle_released();
        assert_eq!((bytes(&table, id, 4), table.generation(id)), (&b"lent"[..], Some(0)));
        table.remove(id);
        table.release(id);
        table.release(BufferId::new(77));
        assert!(table.take(BufferId::new(77)).is_none());
    }

    /// Storage that is counted.
    #[derive(Debug)]
    struct Counted(std::sync::Arc<()>);

    // SAFETY: the vector is the owner, and is not touched elsewhere.
    unsafe impl Source for Counted {
        fn allocate(&mut self, len: usize) -> Option<Piece> {
            let mut memory = (len <= 100).then(|| vec![9_u8; 100])?;
            Some(Piece { base: memory.as_mut_ptr(), len: 100, owner: Box::new((memory, self.0.clone())) })
        }
    }

    #[test]
    fn storage_of_a_source_is_freed_with_its_owner_or_handed_out_with_it() {
        let count = std::sync::Arc::new(());
        let mut table = BufferTable::new();
        table.set_source(Some(Box::new(Counted(count.clone()))));
        let buffers: Vec<_> = (0..3).map(|_| table.allocate(50, &[(1, vec![1])]).unwrap()).collect();
        assert_eq!((bytes(&table, buffers[0], 3), std::sync::Arc::strong_count(&count)), (&[9, 1, 9][..], 5));
        assert!(table.resolve(BufferRange::new(buffers[0], 0, 51)).is_none(), "no more than was asked for");
        assert!(table.take(buffers[0]).is_none());
        table.remove(buffers[0]);
        assert_eq!(std::sync::Arc::strong_count(&count), 4);
        table.release(buffers[1]);
        assert_eq!(std::sync::Arc::strong_count(&count), 4, "not before it is settled");
        table.settle_released();
        assert_eq!(std::sync::Arc::strong_count(&count), 3);
        let owner = table.take_owner(buffers[2]).unwrap();
        assert_eq!((std::sync::Arc::strong_count(&count), table.generation(buffers[2])), (3, None));
        drop(owner);
        let large = table.allocate(101, &[]).unwrap();
        assert!(
            table.take_owner(large).is_none() && table.take(large).is_some(),
            "the heap has what the source has not"
        );
        table.allocate(1, &[]).unwrap();
        drop(table);
        assert_eq!(std::sync::Arc::strong_count(&count), 1);
    }

    #[test]
    fn released_and_recycled_memory_is_used_again_up_to_the_limit() {
        let mut table = BufferTable::new();
        let buffer = table.allocate(1 << 20, &[(0, vec![3; 1 << 20])]).unwrap();
        let at = table.resolve(BufferRange::new(buffer, 0, 1));
        table.release(buffer);
        assert_eq!(table.pooled_bytes(), 0, "not before it is settled");
        table.settle_released();
        assert_eq!(table.pooled_bytes(), 1 << 20);
        let again = table.allocate(1 << 20, &[(1, vec![4])]).unwrap();
        assert_eq!((table.resolve(BufferRange::new(again, 0, 1)), table.pooled_bytes()), (at, 0));
        assert_eq!(bytes(&table, again, 3), [3, 4, 3], "the pages were not touched");
        let vector = table.take(again).unwrap();
        table.recycle(vector);
        assert_eq!(table.pooled_bytes(), 1 << 20);
        for _ in 0..100 {
            table.recycle(vec![0; 1 << 20]);
        }
        assert_eq!(table.pooled_bytes(), BufferTable::POOL_BYTES);
        table.limit_pool(5 << 20);
        assert_eq!(table.pooled_bytes(), 5 << 20);
        let buffer = table.allocate(1 << 20, &[]).unwrap();
        table.remove(buffer);
        assert_eq!(table.pooled_bytes(), 4 << 20, "what is removed is freed");
    }

    #[test]
    fn storage_that_a_read_lies_in_may_be_released_while_the_read_is_handled() {
        let mut table = BufferTable::new();
        let planned = table.allocate(5_000, &[]).unwrap();
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.payload(BufferRange::new(planned, 0, 4_000));
        plan.top_up(ReadBuffer::READ_BYTES);
        let mut reads = ReadBuffer::new();
        reads.lay_out(&plan, &table, |_, _| ());
        let read: Vec<u8> = (0..8_000u32).map(|i| (i / 1_000) as u8).collect();
        // SAFETY: nothing leaves the table before it is settled at the end, and nobody looks.
        assert_eq!(unsafe { reads.scatter(&read) }, 8_000);
        let (mut pieces, mut moves) = (Vec::new(), Vec::new());
        // SAFETY: as above; nothing is written before they have been looked at.
        unsafe { reads.pieces(8_000, &mut pieces) };
        let mut rx = Placed::new(plan.slots(), &pieces, 8_000, 1_000, &mut moves).with_storage(&mut table);
        let segments: Vec<_> = std::iter::from_fn(|| rx.next_segment()).collect();
        // One move into what is about to go, then it goes, and a new one of the same size comes: it must have neither
        // the name nor the memory of the old one.
        rx.settle(&segments[7], 0..1_000, BufferRange::new(planned, 4_000, 1_000));
        rx.release(planned);
        let fresh = rx.allocate(5_000, &[(0, vec![9; 5_000])]).unwrap();
        assert_ne!(fresh, planned);
        assert_eq!(rx.tail::<2>(&segments[3]), Some([3, 3]), "what the read brought is still there");
        assert_eq!(rx.settle(&segments[2], 0..1_000, BufferRange::new(fresh, 1_000, 1_000)), 1_000);
        assert_eq!(rx.settle(&segments[5], 0..1_000, BufferRange::new(fresh, 0, 1_000)), 1_000);
        // SAFETY: as above.
        unsafe { reads.carry_out(&moves, &table) };
        table.settle_released();
        let fresh = table.take(fresh).unwrap();
        assert_eq!([fresh[0], fresh[999], fresh[1_000], fresh[1_999], fresh[2_000], fresh[4_999]], [5, 5, 2, 2, 9, 9]);
        assert_eq!((table.generation(planned), table.pooled_bytes()), (None, 5_000));
    }

    #[test]
    fn ranges_outside_a_buffer_resolve_to_nothing() {
        let mut memory = [1u8, 2, 3, 4];
        let mut table = BufferTable::new();
        // SAFETY: `memory` outlives the table and is not touched meanwhile.
        let id = unsafe { table.insert(memory.as_mut_ptr(), memory.len()) };
        assert_eq!(table.bytes(BufferRange::new(id, 1, 3)), [2, 3, 4]);
        for (offset, len) in [(2, 3), (5, 0), (u64::MAX, 2)] {
            assert!(table.resolve(BufferRange::new(id, offset, len)).is_none());
        }
        assert_eq!(table.generation(id), Some(0));
        table.remove(id);
        assert!(table.resolve(BufferRange::new(id, 0, 1)).is_none());
        assert_eq!(table.generation(id), None);
        // SAFETY: as above.
        let again = unsafe { table.insert(memory.as_mut_ptr(), memory.len()) };
        assert_eq!((again, table.generation(again)), (id, Some(1)));
    }
}
