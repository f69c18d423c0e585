//! Buffers that messages are received in, which are C's until it frees them.
//!
//! Always true: a buffer that C has is in the table, so that freeing something else, or twice, does nothing; the memory goes
//! back to the socket that it came from, if that is still there.
//= A-19

use super::abi::{a1_buffer, a1_free_buffer};
use crate::kept::Table;
use pinnace::a1::Recycler;
use std::ptr::{self, NonNull};

/// What is behind an `a1_buffer`.
#[derive(Debug)]
struct Behind {
    seen: NonNull<a1_buffer>,
    memory: Vec<u8>,
    recycler: Recycler,
}

// SAFETY: the pointer is the only one of the library's to its box, and nobody follows it here but `drop`.
unsafe impl Send for Behind {}
// SAFETY: as above.
unsafe impl Sync for Behind {}

impl Drop for Behind {
    fn drop(&mut self) {
        // SAFETY: `give` made the box, which is freed once; C has promised not to use it any more.
        drop(unsafe { Box::from_raw(self.seen.as_ptr()) });
        self.recycler.recycle(std::mem::take(&mut self.memory));
    }
}

/// The buffers that C has.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    table: Table<Behind>,
}

impl Buffers {
    /// Gives C the bytes from `from` on.
    pub(super) fn give(&self, mut memory: Vec<u8>, from: usize, recycler: Recycler) -> *mut a1_buffer {
        let has_memory = memory.capacity() > 0;
        let base = if has_memory { memory.as_mut_ptr() } else { ptr::null_mut() };
        let seen = Box::into_raw(Box::new(a1_buffer {
            base: base.cast(),
            size: memory.capacity(),
            data: base.wrapping_add(from).cast(),
            len: memory.len() - from,
            free_fn: Some(a1_free_buffer),
        }));
        if let Some(seen) = NonNull::new(seen) {
            self.table.insert(seen.as_ptr().addr(), Behind { seen, memory, recycler });
        }
        seen
    }

    /// Takes one back; anything else is nothing.
    pub(super) fn free(&self, buffer: *mut a1_buffer) {
        drop(self.table.remove(buffer.addr()));
    }
}
