//! The driver's side of a read: pooled memory for headers, trailers and strays, and the way from a finished read to what
//! the engine sees.
//!
//! Always true: the pool has room for the largest read (64 KiB) beside the headers; moves are carried out sources first,
//! so that no move of a read can overwrite what another still needs.
//!
//! A layout holds addresses of buffers that belong to a [`BufferTable`], and an engine that is told of a read changes that
//! table at the same time, so no lifetime can say that they stay. Whoever looks at a read, or writes to it, promises it.

use crate::BufferTable;
use pinnace_core::{BufferRange, Move, ReceivePlan, Slot, Source};

/// Pooled memory of a link's driver, and where each slot of the last read lies.
#[derive(Debug)]
pub struct ReadBuffer {
    pool: Box<[u8]>,
    /// Where each slot's bytes lie: in the form that the kernel takes.
    spans: Vec<libc::iovec>,
    scratch: Vec<u8>,
}

// SAFETY: the spans are addresses into `pool` and into buffers of a `BufferTable`, both of which may move between threads.
unsafe impl Send for ReadBuffer {}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadBuffer {
    /// Pooled bytes: the largest plan's edges and one whole read.
    pub const POOL_BYTES: usize = 2 * 65_536;
    /// What every plan is topped up to: no datagram or coalesced read is longer.
    pub const READ_BYTES: usize = 65_535;

    /// Allocates the pool.
    pub fn new() -> Self {
        Self { pool: vec![0; Self::POOL_BYTES].into_boxed_slice(), spans: Vec::new(), scratch: Vec::new() }
    }

    /// Lays the slots of `plan` out in memory, and hands each address and length to `each`, in order. A slot whose
    /// buffer is gone lies in the pool, so that a defect of an engine cannot become a wild write.
    pub fn lay_out(&mut self, plan: &ReceivePlan, memory: &BufferTable, mut each: impl FnMut(*mut u8, usize)) {
        for span in self.lay_out_spans(plan, memory) {
            each(span.iov_base.cast(), span.iov_len);
        }
    }

    /// As [`ReadBuffer::lay_out`], for vectored reads.
    pub(crate) fn lay_out_spans(&mut self, plan: &ReceivePlan, memory: &BufferTable) -> &mut [libc::iovec] {
        let room = self.pool.len();
        let pool = self.pool.as_mut_ptr();
        let mut used = 0;
        self.spans.clear();
        self.spans.extend(plan.slots().iter().map(|slot| {
            let len = slot.len().min(room);
            let user = match slot {
                Slot::Payload(range) => memory.resolve(*range),
                Slot::Pooled(_) => None,
            };
            let base = user.unwrap_or_else(|| {
                // A plan that asks for more than there is gets some of it twice: its own loss.
                let low = used.min(room - len);
                used = low + len;
                // SAFETY: `low + len` is at most the length of the pool.
                unsafe { pool.add(low) }
            });
            libc::iovec { iov_base: base.cast(), iov_len: len }
        }));
        &mut self.spans
    }

    /// Copies `bytes` into the laid-out slots, for links that cannot scatter; returns how many fitted.
    ///
    /// # Safety
    /// Since the slots were laid out, none of the plan's buffers may have left its table, by [`BufferTable::remove`],
    /// [`BufferTable::take`], [`BufferTable::take_owner`], [`BufferTable::settle_released`] or with the table itself, and
    /// nobody may be looking at what is written to. A plan without payload asks for nothing.
    pub unsafe fn scatter(&mut self, mut bytes: &[u8]) -> usize {
        let all = bytes.len();
        for span in &self.spans {
            let take = bytes.len().min(span.iov_len);
            // SAFETY: `lay_out` made the span of memory that may be written, at least `take` bytes long, which the caller
            // promised is still there; and `bytes` is not part of it: nobody is looking at that.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), span.iov_base.cast(), take) };
            bytes = &bytes[take..];
            if bytes.is_empty() {
                break;
            }
        }
        all - bytes.len()
    }

    /// What lies in each slot after a read of `total` bytes.
    ///
    /// # Safety
    /// Since the slots were laid out, none of the plan's buffers may have left its table (see [`ReadBuffer::scatter`]), nor
    /// may it, nor may anybody write to one, as long as the pieces are looked at. [`pinnace_core::Storage::release`] is
    /// no such leaving, before [`BufferTable::settle_released`].
    pub unsafe fn pieces<'a>(&'a self, mut total: usize, pieces: &mut Vec<&'a [u8]>) {
        pieces.clear();
        for span in &self.spans {
            let take = total.min(span.iov_len);
            if take == 0 {
                break;
            }
            // SAFETY: `lay_out` made the span, of memory that is initialised, and the caller promised that it is still there
            // and that nobody writes to it meanwhile.
            pieces.push(unsafe { std::slice::from_raw_parts(span.iov_base.cast(), take) });
            total -= take;
        }
    }

    /// What came in a read of `total` bytes for which nothing but pooled memory was planned. What lies in buffers of a table is
    /// left out.
    pub fn pooled(&self, total: usize) -> Vec<u8> {
        let (start, room) = (self.pool.as_ptr().addr(), self.pool.len());
        let mut bytes = Vec::with_capacity(total);
        let mut left = total;
        for span in &self.spans {
            let take = left.min(span.iov_len);
            left -= take;
            let low = span.iov_base.addr().wrapping_sub(start);
            if low <= room {
                bytes.extend_from_slice(self.pool.get(low..low + take).unwrap_or_default());
            }
        }
        bytes
    }

    /// Carries out the moves of the last read, as if all at once.
    ///
    /// # Safety
    /// Since the slots were laid out, none of the plan's buffers may have left its table (see [`ReadBuffer::scatter`]), and
    /// nobody may be looking at what is written to.
    pub unsafe fn carry_out(&mut self, moves: &[Move], memory: &BufferTable) {
        self.scratch.clear();
        for step in moves {
            match &step.from {
                // SAFETY: the caller promised the same.
                Source::Read(at) => unsafe { self.gather(*at, step.to.len as usize) },
                Source::Kept(bytes) => self.scratch.extend_from_slice(bytes),
            }
        }
        let mut at = 0;
        for step in moves {
            let len = step.to.len as usize;
            // SAFETY: the caller promised that nobody is looking.
            unsafe { write(memory, step.to, &self.scratch[at..at + len]) };
            at += len;
        }
    }

    /// Appends `len` bytes of the read from offset `at` on to the scratch memory.
    ///
    /// # Safety
    /// As for [`ReadBuffer::pieces`].
    unsafe fn gather(&mut self, mut at: usize, mut len: usize) {
        for span in &self.spans {
            if at >= span.iov_len {
                at -= span.iov_len;
                continue;
            }
            let take = len.min(span.iov_len - at);
            // SAFETY: inside a span, which the caller promised is still there.
            self.scratch
                .extend_from_slice(unsafe { std::slice::from_raw_parts(span.iov_base.cast::<u8>().add(at), take) });
            len -= take;
            at = 0;
            if len == 0 {
                return;
            }
        }
        // A move beyond the read is an engine's defect; zeros keep the lengths right.
        self.scratch.resize(self.scratch.len() + len, 0);
    }
}

/// # Safety
/// Nobody may be looking at the range.
unsafe fn write(memory: &BufferTable, to: BufferRange, bytes: &[u8]) {
    if let Some(at) = memory.resolve(to) {
        // SAFETY: `resolve` checked the range; `bytes` is scratch memory, so nothing overlaps; nobody is looking.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_of_one_read_do_not_overwrite_each_other() {
        let mut memory = *b"........";
        let mut table = BufferTable::new();
        // SAFETY: `memory` outlives the table and is looked at only at the end.
        let id = unsafe { table.insert(memory.as_mut_ptr(), memory.len()) };
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.payload(BufferRange::new(id, 0, 4));
        plan.payload(BufferRange::new(id, 4, 4));
        plan.top_up(ReadBuffer::READ_BYTES);
        let mut buffer = ReadBuffer::new();
        buffer.lay_out(&plan, &table, |_, _| ());
        // SAFETY: nothing leaves the table before its end, and nobody looks.
        assert_eq!(unsafe { buffer.scatter(b"EFGHABCD!") }, 9);
        let mut pieces = Vec::new();
        // SAFETY: as above; nothing is written before they have been looked at.
        unsafe { buffer.pieces(9, &mut pieces) };
        assert_eq!(pieces, [&b"EFGH"[..], b"ABCD", b"!"]);
        assert_eq!((buffer.pooled(9), buffer.pooled(8)), (b"!".to_vec(), Vec::new()), "the rest is not the pool's");
        // Each half belongs where the other landed.
        let mut moves =
            [(0, 4), (4, 0)].map(|(at, to)| Move { from: Source::Read(at), to: BufferRange::new(id, to, 4) }).to_vec();
        // What came before goes where a part of the read landed that belongs elsewhere.
        moves.push(Move { from: Source::Kept(b"xy".to_vec()), to: BufferRange::new(id, 3, 2) });
        // SAFETY: as above.
        unsafe { buffer.carry_out(&moves, &table) };
        table.remove(id);
        assert_eq!(&memory, b"ABCxyFGH");
    }
}
