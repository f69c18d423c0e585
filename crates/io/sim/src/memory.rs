//! The application memory of a host: byte vectors by [`BufferId`].
//!
//! Always true: a range that does not lie inside its buffer resolves to nothing, and is counted as the defect that it is.

use pinnace_core::{BufferId, BufferRange};

/// Application buffers of one host.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    buffers: Vec<Option<Vec<u8>>>,
}

impl Memory {
    pub(crate) fn insert(&mut self, buffer: Vec<u8>) -> BufferId {
        // Names are never given twice: a stale one must not hit another buffer.
        self.buffers.push(Some(buffer));
        BufferId::new(self.buffers.len() as u32 - 1)
    }

    pub(crate) fn take(&mut self, id: BufferId) -> Option<Vec<u8>> {
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
}

fn bounds(range: BufferRange) -> Option<(usize, usize)> {
    let high = range.offset.checked_add(u64::from(range.len))?;
    Some((usize::try_from(range.offset).ok()?, usize::try_from(high).ok()?))
}
