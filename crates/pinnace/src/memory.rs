//! Memory for what peers send: whoever has none for it says so, where the process would end otherwise.

use crate::Error;
use std::alloc::{Layout, alloc_zeroed};
use std::hint::black_box;

/// So much has to be left for everything else, which does not ask: the stack of a thread that starts, packets, the words of an error.
const SPARE: usize = 4 << 20;
/// What is shorter is everything else.
const SHORT: usize = 256 << 10;

/// Whether there is memory left behind a vector of so many bytes.
fn is_left(behind: usize) -> bool {
    // The compiler knows nothing of it, or would leave it out.
    behind < SHORT || black_box(Vec::<u8>::new()).try_reserve_exact(black_box(SPARE)).is_ok()
}

/// So many zeros, which cost nothing before they are written to.
pub(crate) fn zeroed(bytes: u64) -> Result<Vec<u8>, Error> {
    let none = || Error::NoMemory(bytes);
    let layout = usize::try_from(bytes).ok().and_then(|bytes| Layout::array::<u8>(bytes).ok()).ok_or_else(none)?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout is not that of nothing.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(none());
    }
    // SAFETY: the memory is of the global allocator, with the layout of a vector of this capacity, and all of it is zeros.
    let zeros = unsafe { Vec::from_raw_parts(memory, layout.size(), layout.size()) };
    if is_left(zeros.len()) { Ok(zeros) } else { Err(none()) }
}

/// Has room for so many more bytes.
pub(crate) fn make_room(bytes: &mut Vec<u8>, more: usize) -> Result<(), Error> {
    let len = bytes.len().saturating_add(more);
    if len <= bytes.capacity() {
        return Ok(());
    }
    // Not for twice as many, if that is too much.
    let has_room = bytes.try_reserve(more).or_else(|_| bytes.try_reserve_exact(more)).is_ok();
    if has_room && is_left(len) { Ok(()) } else { Err(Error::NoMemory(len as u64)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_an_error() {
        for bytes in [u64::MAX, i64::MAX as u64, 1 << 62] {
            assert!(matches!(zeroed(bytes), Err(Error::NoMemory(it)) if it == bytes));
        }
        let mut some = vec![1; 10];
        assert!(matches!(make_room(&mut some, usize::MAX), Err(Error::NoMemory(_))));
        assert!(matches!(make_room(&mut some, 1 << 62), Err(Error::NoMemory(it)) if it == (1 << 62) + 10));
        assert_eq!(some, [1; 10]);
    }

    #[test]
    fn what_there_is_memory_for_is_had() {
        assert_eq!((zeroed(0).unwrap().len(), zeroed(1 << 20).unwrap()), (0, vec![0; 1 << 20]));
        let mut some = vec![1; 10];
        make_room(&mut some, 1 << 20).unwrap();
        assert!(some.capacity() >= (1 << 20) + 10 && some == [1; 10]);
    }
}
