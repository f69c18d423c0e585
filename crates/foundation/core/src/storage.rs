//! Receive storage that an engine asks for while it handles a read.
//!
//! Where the application posts buffers beforehand, an engine only names them. Where the sender's header tells the size of
//! a message, the engine learns it in the middle of a read whose other datagrams already belong into that message. So a
//! driver lends its [`Storage`] to the engine for the length of a read ([`Placed::allocate`](crate::Placed::allocate)):
//! the name is good at once, for moves of the same read as well as for later plans.
//!
//! Always true: the engine still touches no byte; storage that a read may still look at outlives the read, even if it is
//! released meanwhile; a name that was released is not given again before the moves of the read have been carried out.

use crate::BufferId;
use core::fmt::Debug;

/// A place that makes receive storage, and takes it back. Implemented by whoever drives an engine.
///
/// ```
/// use pinnace_core::{BufferId, Placed, Storage};
///
/// #[derive(Debug, Default)]
/// struct Shelf(Vec<Option<Vec<u8>>>);
///
/// impl Storage for Shelf {
///     fn allocate(&mut self, len: u64, early: &[(u64, Vec<u8>)]) -> Option<BufferId> {
///         let mut buffer = vec![0; usize::try_from(len).ok()?];
///         for (offset, bytes) in early {
///             let low = *offset as usize;
///             if let Some(place) = buffer.get_mut(low..low + bytes.len()) {
///                 place.copy_from_slice(bytes);
///             }
///         }
///         self.0.push(Some(buffer));
///         Some(BufferId::new(self.0.len() as u32 - 1))
///     }
///
///     fn release(&mut self, buffer: BufferId) {
///         self.0[buffer.index() as usize] = None;
///     }
/// }
///
/// let (mut shelf, mut moves) = (Shelf::default(), Vec::new());
/// let mut placed = Placed::new(&[], &[], 0, 0, &mut moves).with_storage(&mut shelf);
/// let buffer = placed.allocate(4, &[(1, b"ab".to_vec())]).expect("there is storage");
/// assert_eq!(shelf.0[buffer.index() as usize].as_deref(), Some(&b"\0ab\0"[..]));
/// ```
pub trait Storage: Debug {
    /// A new buffer of `len` bytes, or `None` if there is no room for it.
    ///
    /// `early` are pieces (offset, bytes) that came before the storage existed: they are written at once. A piece that
    /// does not lie inside the buffer is left out. All other bytes are initialised memory, but what they are is
    /// unspecified, and may be left of an earlier message: whoever hands the buffer to an application must first zero
    /// what was not received.
    fn allocate(&mut self, len: u64, early: &[(u64, Vec<u8>)]) -> Option<BufferId>;

    /// Gives back storage that no message needs any more. From now on the name resolves to nothing, also for moves that
    /// were noted before. Does nothing for a name that [`Storage::allocate`] did not give.
    fn release(&mut self, buffer: BufferId);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BufferRange, Move, Placed, Slot, Source};

    /// Notes what it is asked.
    #[derive(Debug, Default)]
    struct Ledger {
        allocated: Vec<(u64, usize)>,
        released: Vec<BufferId>,
    }

    impl Storage for Ledger {
        fn allocate(&mut self, len: u64, early: &[(u64, Vec<u8>)]) -> Option<BufferId> {
            if len > 100 {
                return None;
            }
            self.allocated.push((len, early.len()));
            Some(BufferId::new(self.allocated.len() as u32 + 6))
        }

        fn release(&mut self, buffer: BufferId) {
            self.released.push(buffer);
        }
    }

    #[test]
    fn bytes_of_a_read_settle_into_storage_that_the_same_read_brought_about() {
        let (mut ledger, mut moves) = (Ledger::default(), Vec::new());
        let slots = [Slot::Pooled(100)];
        let pieces: [&[u8]; 1] = [b"headbody"];
        let mut placed = Placed::new(&slots, &pieces, 8, 4, &mut moves).with_storage(&mut ledger);
        assert!(placed.next_segment().is_some());
        assert_eq!(placed.allocate(101, &[]), None, "the storage is asked, and may refuse");
        let buffer = placed.allocate(50, &[(0, vec![1])]).unwrap();
        let body = placed.next_segment().unwrap();
        assert_eq!(placed.settle(&body, 0..4, BufferRange::new(buffer, 20, 4)), 4);
        placed.release(buffer);
        assert_eq!(moves, [Move { from: Source::Read(4), to: BufferRange::new(BufferId::new(7), 20, 4) }]);
        assert_eq!((ledger.allocated, ledger.released), (vec![(50, 1)], vec![buffer]));
    }

    #[test]
    fn without_storage_nothing_is_allocated() {
        let mut moves = Vec::new();
        let mut placed = Placed::new(&[], &[], 0, 0, &mut moves);
        assert_eq!(placed.allocate(1, &[]), None);
        placed.release(BufferId::new(0));
    }
}
