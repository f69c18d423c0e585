//! Storage made ahead for messages that have not begun: most are as large as the one before.
//!
//! The first block of a message tells how large it is, and would have to be copied, since nobody could say before where it
//! belongs. So a few buffers for messages of the same shape as the newest are kept, and planned for.
//!
//! Always true: they take at most [`MAX_BYTES`], or are one buffer, for a message of at most [`LARGEST`].
//= A-19

use pinnace_core::{BufferId, BufferRange, ReceivePlan};
use std::collections::VecDeque;

/// Storage that is made ahead for one direction: what a read brings.
const MAX_BYTES: u64 = 65_536;
/// Of larger messages the first block, which is copied then, is a small part.
const LARGEST: u64 = 1 << 20;
/// Smaller messages are copied: that costs less than to name a place for each.
const MIN_BYTES: u64 = 1024;

/// What a message looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Blocks.
    pub(super) count: u32,
    /// Bytes of the message.
    pub(super) size: u64,
    /// Bytes of storage that is asked for when its first block comes.
    pub(super) capacity: u64,
}

/// Buffers for messages of one shape.
#[derive(Debug, Default)]
pub(super) struct Spares {
    shape: Option<Shape>,
    buffers: VecDeque<BufferId>,
}

impl Spares {
    /// Bytes of storage that are held.
    pub(super) fn bytes(&self) -> u64 {
        self.shape.map_or(0, |shape| shape.capacity * self.buffers.len() as u64)
    }

    /// A message of this shape has come: others like it are made room for, and what was kept for other shapes is released.
    pub(super) fn learn(
        &mut self,
        shape: Shape,
        storage: &mut dyn FnMut(u64) -> Option<BufferId>,
        released: &mut VecDeque<BufferId>,
    ) {
        if self.shape != Some(shape) {
            self.clear(released);
            self.shape = Some(shape);
        }
        if shape.capacity < MIN_BYTES || shape.size > LARGEST {
            return;
        }
        let wanted = (MAX_BYTES / shape.capacity).max(1) as usize;
        while self.buffers.len() < wanted
            && let Some(buffer) = storage(shape.capacity)
        {
            self.buffers.push_back(buffer);
        }
    }

    /// A buffer for a message of `count` blocks, which needs `capacity` bytes.
    pub(super) fn take(&mut self, count: u32, capacity: u64) -> Option<BufferId> {
        self.shape.filter(|shape| (shape.count, shape.capacity) == (count, capacity))?;
        self.buffers.pop_front()
    }

    /// Slots for the blocks of such messages: at most `left` of them, and those that the edge lets come.
    pub(super) fn expect(&self, plan: &mut ReceivePlan, head: usize, block_bytes: u32, mut left: u64) {
        let Some(shape) = self.shape else { return };
        for &buffer in &self.buffers {
            for index in 0..u64::from(shape.count) {
                let offset = index * u64::from(block_bytes);
                let len = shape.size.saturating_sub(offset).min(u64::from(block_bytes)) as u32;
                if left == 0 || !plan.has_room(2, head + len as usize) {
                    return;
                }
                plan.pooled(head);
                plan.payload(BufferRange::new(buffer, offset, len));
                if len < block_bytes && shape.count > 1 {
                    // A datagram that is shorter than the one before it is the last of a read.
                    return;
                }
                left -= 1;
            }
        }
    }

    /// Nothing is kept.
    pub(super) fn clear(&mut self, released: &mut VecDeque<BufferId>) {
        self.shape = None;
        released.extend(self.buffers.drain(..));
    }
}
