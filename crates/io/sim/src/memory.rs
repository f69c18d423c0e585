//! The application memory of a host: byte vectors by [`BufferId`].
//!
//! Always true: a range that does not lie inside its buffer resolves to nothing, and is counted as the defect that it is;
//! what an engine allocates while it handles a read lies beside ([`Fresh`]) until it has handled it, since the read may lie
//! in this memory.

use pinnace_core::{BufferId, BufferRange, Storage};
use std::collections::BTreeSet;

/// What new storage is filled with: an application must not count on zeros that it has not written.
const UNSPECIFIED: u8 = 0xEE;

/// Application buffers of one host.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    buffers: Vec<Option<Vec<u8>>>,
    /// The buffers that the engine allocated; the others were given.
    allocated: BTreeSet<u32>,
}

impl Memory {
    pub(crate) fn insert(&mut self, buffer: Vec<u8>) -> BufferId {
        // Names are never given twice: a stale one must not hit another buffer.
        self.buffers.push(Some(buffer));
        BufferId::new(self.buffers.len() as u32 - 1)
    }

    pub(crate) fn take(&mut self, id: BufferId) -> Option<Vec<u8>> {
        self.allocated.remove(&id.index());
        self.buffers.get_mut(id.index() as usize)?.take()
    }

    pub(crate) fn buffer(&self, id: BufferId) -> Option<&[u8]> {
        self.buffers.get(id.index() as usize)?.as_deref()
    }

    pub(crate) fn buffer_mut(&mut self, id: BufferId) -> Option<&mut [u8]> {
        self.buffers.get_mut(id.index() as usize)?.as_deref_mut()
    }

    /// The bytes of a range.
    pub(crate) fn bytes(&self, range: BufferRange) -> Option<&[u8]> {
        let (low, high) = bounds(range)?;
        self.buffer(range.buffer)?.get(low..high)
    }

    /// The bytes of a range, to write.
    pub(crate) fn bytes_mut(&mut self, range: BufferRange) -> Option<&mut [u8]> {
        let (low, high) = bounds(range)?;
        self.buffer_mut(range.buffer)?.get_mut(low..high)
    }

    /// A place to allocate in while a read is handled.
    pub(crate) fn fresh(&self) -> Fresh {
        Fresh { first: self.buffers.len(), buffers: Vec::new(), released: Vec::new(), bad_ranges: 0 }
    }

    /// Takes in what was allocated.
    pub(crate) fn settle(&mut self, buffers: Vec<Vec<u8>>) {
        for buffer in buffers {
            let id = self.insert(buffer);
            self.allocated.insert(id.index());
        }
    }

    /// Whether the engine allocated this buffer, and it is still there.
    pub(crate) fn is_allocated(&self, id: BufferId) -> bool {
        self.allocated.contains(&id.index())
    }
}

/// Storage of one read: what the engine allocates and releases while it handles it.
#[derive(Debug)]
pub(crate) struct Fresh {
    /// The name of the first.
    first: usize,
    pub(crate) buffers: Vec<Vec<u8>>,
    pub(crate) released: Vec<BufferId>,
    /// Pieces that do not lie inside the buffer that they came early for.
    pub(crate) bad_ranges: u64,
}

impl Storage for Fresh {
    fn allocate(&mut self, len: u64, early: &[(u64, Vec<u8>)]) -> Option<BufferId> {
        let len = usize::try_from(len).ok()?;
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len).ok()?;
        buffer.resize(len, UNSPECIFIED);
        for (offset, bytes) in early {
            let place = usize::try_from(*offset).ok().and_then(|low| Some(low..low.checked_add(bytes.len())?));
            match place.and_then(|range| buffer.get_mut(range)) {
                Some(place) => place.copy_from_slice(bytes),
                None => self.bad_ranges += 1,
            }
        }
        let name = u32::try_from(self.first + self.buffers.len()).ok()?;
        self.buffers.push(buffer);
        Some(BufferId::new(name))
    }

    fn release(&mut self, buffer: BufferId) {
        self.released.push(buffer);
    }
}

fn bounds(range: BufferRange) -> Option<(usize, usize)> {
    let high = range.offset.checked_add(u64::from(range.len))?;
    Some((usize::try_from(range.offset).ok()?, usize::try_from(high).ok()?))
}
