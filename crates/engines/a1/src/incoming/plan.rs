//! Prediction: where the next blocks will land.
//!
//! They come behind the newest one, into what is missing of its message and, where that is known, of those that follow.
//! Only blocks that are missing get a slot, so a wrong guess dirties nothing that has arrived.
//= A-20

use super::Incoming;
use pinnace_core::ReceivePlan;

/// Messages that are looked at. A read brings no more.
const MAX_MESSAGES: usize = 64;

impl Incoming {
    /// Slots for as many blocks as one read can bring: `head` bytes before each block, then the block where it belongs.
    pub(crate) fn expect(&self, plan: &mut ReceivePlan, head: usize) {
        let Some((newest, message)) = self.newest else { return };
        let block_bytes = self.policy.block_bytes;
        let low = (newest + 1).max(self.expected);
        let edge = self.edge();
        let mut left = plan.datagrams();
        // What follows the newest block, if nothing is known of its message any more.
        let mut behind = self.ahead.is_empty().then_some(self.seen);
        for message in self.messages.known_from(message).take(MAX_MESSAGES) {
            let (base, end) = (message.base.max(0) as u64, message.end().max(0) as u64);
            for gap in self.ahead.missing_in(low.max(base)..end.min(edge)) {
                for number in gap {
                    let Some(place) = message.place(number as i64, block_bytes) else { return };
                    if left == 0 || !plan.has_room(2, head + place.len as usize) {
                        return;
                    }
                    plan.pooled(head);
                    plan.payload(place);
                    // A short datagram is the last of a read.
                    if place.len < block_bytes {
                        return;
                    }
                    left -= 1;
                }
            }
            behind = Some(end.max(self.seen));
        }
        if let Some(behind) = behind {
            // Nothing is known of what follows.
            let left = edge.saturating_sub(behind).min(left as u64);
            self.spares.expect(plan, head, block_bytes, left);
        }
    }
}
