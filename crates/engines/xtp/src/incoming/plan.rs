//! Prediction: where the next packets of a stream will land.
//!
//! They come behind the newest one, into what is missing there, and with the size of those before them. A repetition
//! fills a gap, then the gaps behind it, then the sender goes on where it was. Only bytes that are missing get a slot,
//! so a wrong guess dirties nothing that has arrived.
//= X-4

use super::Incoming;
use pinnace_core::ReceivePlan;

impl Incoming {
    /// Slots for as many packets as the link can bring: `head` bytes before the user bytes, then these where they belong
    /// (two slots where a ring ends), then `tail` bytes.
    pub(crate) fn plan(&self, plan: &mut ReceivePlan, head: usize, tail: usize) {
        let size = u64::from(self.expected_size());
        let high = self.limit().min(self.end.unwrap_or(u64::MAX));
        let mut left = plan.datagrams();
        if size == 0 {
            return;
        }
        for gap in self.spans.missing_in(self.expected.max(self.rseq)..high) {
            let mut low = gap.start;
            while low < gap.end {
                let len = size.min(gap.end - low);
                if left == 0 || !plan.has_room(5, head + size as usize + tail) {
                    return;
                }
                plan.pooled(head);
                let mut planned = 0;
                for (_, range) in self.memory.parts(self.dseq, low..low + len).take(2) {
                    plan.payload(range);
                    planned += u64::from(range.len);
                }
                plan.pooled((size - planned) as usize);
                plan.pooled(tail);
                left -= 1;
                // A short datagram is the last of a read.
                if planned < size {
                    return;
                }
                low += len;
            }
        }
    }

    /// User bytes that the next packet is expected to have. 0: there is no telling.
    pub(crate) fn expected_size(&self) -> u32 {
        if self.size == 0 { self.policy.maxdata } else { self.size }
    }
}
