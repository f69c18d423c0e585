//! The driver's side of a read: pooled memory for headers, trailers and strays, and the way from a finished read to what
//! the engine sees.
//!
//! Always true: the pool has room for the largest read (64 KiB) beside the headers; moves are carried out sources first,
//! so that no move of a read can overwrite what another still needs.

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
    pub fn scatter(&mut self, mut bytes: &[u8]) -> usize {
        let all = bytes.len();
        for span in &self.spans {
            let take = bytes.len().min(span.iov_len);
            // SAFETY: `lay_out` made the span of memory that may be written, at least `take` bytes long, and `bytes` is
            // not part of it: it comes from the link.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), span.iov_base.cast(), take) };
            bytes = &bytes[take..];
            if bytes.is_empty() {
                break;
            }
        }
        all - bytes.len()
    }

    /// What lies in each slot after a read of `total` bytes.
    pub fn pieces<'a>(&'a self, mut total: usize, pieces: &mut Vec<&'a [u8]>) {
        pieces.clear();
        for span in &self.spans {
            let take = total.min(span.iov_len);
            if take == 0 {
                break;
            }
            // SAFETY: the read filled the first `take` bytes of the span, and nobody writes to it while they are looked at:
            // the buffer belongs to the receive that is under way.
            pieces.push(unsafe { std::slice::from_raw_parts(span.iov_base.cast(), take) });
            total -= take;
        }
    }

    /// Carries out the moves of the last read, as if all at once.
    pub fn carry_out(&mut self, moves: &[Move], memory: &BufferTable) {
        self.scratch.clear();
        for step in moves {
            match &step.from {
                Source::Read(at) => self.gather(*at, step.to.len as usize),
                Source::Kept(bytes) => self.scratch.extend_from_slice(bytes),
            }
        }
        let mut at = 0;
        for step in moves {
            let len = step.to.len as usize;
            write(memory, step.to, &self.scratch[at..at + len]);
            at += len;
        }
    }

    /// Appends `len` bytes of the read from offset `at` on to the scratch memory.
    fn gather(&mut self, mut at: usize, mut len: usize) {
        for span in &self.spans {
            if at >= span.iov_len {
                at -= span.iov_len;
                continue;
            }
            let take = len.min(span.iov_len - at);
            // SAFETY: inside a span that the read filled (see `pieces`).
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

fn write(memory: &BufferTable, to: BufferRange, bytes: &[u8]) {
    if let Some(at) = memory.resolve(to) {
        // SAFETY: `resolve` checked the range; `bytes` is scratch memory, so nothing overlaps.
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
        assert_eq!(buffer.scatter(b"EFGHABCD!"), 9);
        let mut pieces = Vec::new();
        buffer.pieces(9, &mut pieces);
        assert_eq!(pieces, [&b"EFGH"[..], b"ABCD", b"!"]);
        // Each half belongs where the other landed.
        let mut moves =
            [(0, 4), (4, 0)].map(|(at, to)| Move { from: Source::Read(at), to: BufferRange::new(id, to, 4) }).to_vec();
        // What came before goes where a part of the read landed that belongs elsewhere.
        moves.push(Move { from: Source::Kept(b"xy".to_vec()), to: BufferRange::new(id, 3, 2) });
        buffer.carry_out(&moves, &table);
        table.remove(id);
        assert_eq!(&memory, b"ABCxyFGH");
    }
}
