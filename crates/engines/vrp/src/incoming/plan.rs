//! Prediction: where the next payloads will land.
//!
//! In order: the packets behind the newest data, as long as they were asked for too; those of its frame of which nothing is
//! known yet; those of the next frame of that sender of which nothing has come. What is not foreseen lands in bounce memory. Only packets that
//! are still missing from an incomplete frame get a slot, so a wrong guess only dirties bytes that will be written again, or
//! are a hole.

use super::Incoming;
use super::frame::Frame;
use pinnace_core::{MAX_PACKETS_AHEAD, ReceivePlan};
use pinnace_wire::vrp::HEADER_BYTES;

impl Incoming {
    pub(crate) fn plan_receive(&self, plan: &mut ReceivePlan) {
        let Some((index, id, from)) = self.expected else { return };
        let Some(frame) = self.frames.get(index).filter(|frame| frame.id == id) else { return };
        let mut left = plan.datagrams();
        if !plan_frame(plan, frame, from, &mut left) {
            return;
        }
        let Some(source) = self.sources.find(&frame.source) else { return };
        let next = frame.number + 1;
        for (_, &index) in source.frames.range(next..).take(4) {
            let Some(frame) = self.frames.get(index).filter(|frame| !frame.has_data) else { continue };
            if !plan_frame(plan, frame, 0, &mut left) {
                return;
            }
        }
    }
}

/// Plans for the packets of a frame from `from` on; says whether others may follow in the same read.
fn plan_frame(plan: &mut ReceivePlan, frame: &Frame, from: u32, left: &mut usize) -> bool {
    let Some(incomplete) = frame.incomplete() else { return true };
    let decider = &incomplete.decider;
    let end = frame.packets.min(decider.wait_point().saturating_add(MAX_PACKETS_AHEAD));
    // What was asked for in a run comes in a run. Then the sender goes on where it was.
    let next = decider.next_expected();
    let again = (from..next).take_while(|packet| !decider.is_valid(*packet));
    for packet in again.chain(next.max(from)..end) {
        let place = frame.place(incomplete.buffer, packet);
        if *left == 0 || !plan.has_room(2, HEADER_BYTES + place.len as usize) {
            return false;
        }
        plan.pooled(HEADER_BYTES);
        plan.payload(place);
        *left -= 1;
        // A short datagram is the last of a read.
        if place.len < u32::from(frame.packet_bytes) {
            return false;
        }
    }
    true
}
