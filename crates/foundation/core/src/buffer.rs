//! Names for application memory.
//!
//! An engine says *which bytes of which buffer*, and never touches them. Only the driver knows where a buffer lies, so
//! vectors, mapped files, C memory and shared memory are one case, and engines need no `unsafe`.

/// A buffer that the driver knows. Valid from the call that hands it to the engine until the event that gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(u32);

impl BufferId {
    /// The name for slot `index` of the driver's table.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The slot of the driver's table.
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// `len` bytes from `offset` on in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferRange {
    /// The buffer.
    pub buffer: BufferId,
    /// Bytes.
    pub len: u32,
    /// Offset of the first byte.
    pub offset: u64,
}

impl BufferRange {
    /// `len` bytes of `buffer` from `offset` on.
    pub const fn new(buffer: BufferId, offset: u64, len: u32) -> Self {
        Self { buffer, len, offset }
    }

    /// Offset one past the last byte.
    pub const fn end(&self) -> u64 {
        self.offset + self.len as u64
    }
}
