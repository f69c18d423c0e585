//! Where application buffers lie: the only place that turns a name into an address.
//!
//! Always true: every entry points to memory that whoever inserted it keeps alive, unmoved and otherwise untouched until
//! [`BufferTable::remove`]; a range that does not lie inside its buffer resolves to nothing.

use pinnace_core::{BufferId, BufferRange};

#[derive(Clone, Copy, Debug)]
struct Region {
    base: *mut u8,
    len: usize,
    generation: u32,
}

/// Application buffers by [`BufferId`].
#[derive(Debug, Default)]
pub struct BufferTable {
    regions: Vec<Region>,
    free: Vec<u32>,
}

// SAFETY: the table holds addresses, not access. Whoever inserts a region promises (see `insert`) that it may be read and
// written from any thread for as long as it is in the table.
unsafe impl Send for BufferTable {}

impl BufferTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `len` bytes at `base` a name.
    ///
    /// # Safety
    /// Until [`BufferTable::remove`], the memory must stay valid at this address, must be readable (and writable, if the
    /// buffer will be named in a receive plan), from any thread, and nobody else may write to it (nor read it, if it is
    /// received into).
    pub unsafe fn insert(&mut self, base: *mut u8, len: usize) -> BufferId {
        if let Some(index) = self.free.pop() {
            let region = &mut self.regions[index as usize];
            *region = Region { base, len, generation: region.generation };
            BufferId::new(index)
        } else {
            self.regions.push(Region { base, len, generation: 0 });
            BufferId::new(self.regions.len() as u32 - 1)
        }
    }

    /// Forgets a buffer: its owner may use the memory again.
    pub fn remove(&mut self, buffer: BufferId) {
        let index = buffer.index();
        if let Some(region) = self.regions.get_mut(index as usize)
            && !region.base.is_null()
        {
            *region = Region { base: std::ptr::null_mut(), len: 0, generation: region.generation.wrapping_add(1) };
            self.free.push(index);
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

#[cfg(test)]
mod tests {
    use super::*;

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
