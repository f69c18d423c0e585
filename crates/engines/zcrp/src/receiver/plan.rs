//! Prediction: where the next payloads will land (specs/zcrp.md, section 3).
//!
//! In order: the unit announced, while it is still missing; the missing units behind it in its message; the units of the
//! messages after it. What is not foreseen lands in bounce memory. Only units that are still missing get a slot, so a
//! wrong guess can only dirty bytes that will be written again.

use super::{Incoming, Receiver, State};
use pinnace_core::{BufferRange, ReceivePlan};
use pinnace_wire::zcrp::TRAILER_BYTES;

impl Receiver {
    //= Z-18
    pub(crate) fn plan_receive(&self, plan: &mut ReceivePlan) {
        if self.closed.is_some() {
            return;
        }
        let mut left = plan.datagrams();
        let first = match self.announced {
            Some((number, unit)) if self.message(number).is_some_and(|message| message.misses(unit)) => {
                left = self.plan_message(plan, number, unit, left);
                number + 1
            }
            _ => self.base,
        };
        for number in first..self.requested.min(first + 64) {
            if left == 0 {
                break;
            }
            left = self.plan_message(plan, number, 0, left);
        }
    }

    /// Plans for the missing units of message `number` from `low` on; returns how many datagrams are left to plan for.
    fn plan_message(&self, plan: &mut ReceivePlan, number: u64, low: u32, mut left: usize) -> usize {
        let Some(message) = self.message(number).filter(|message| message.state != State::Complete) else {
            return left;
        };
        if message.capacity == 0 {
            return left;
        }
        let Some(fragment) = self.expected_fragment(message) else {
            // Nothing is known about the size of units: the payload of a first one starts where the message starts.
            let (offset, len) = message.place(0, 0, message.capacity);
            if message.prefix == 0 && plan.has_room(1, len.min(65_000) as usize) {
                plan.payload(BufferRange::new(message.buffer, offset, len.min(65_000)));
            }
            return 0;
        };
        let units = self.expected_units(message, fragment);
        if units == 1 && message.state == State::Posted {
            // Small messages come by the million: no gaps to look for.
            let len = fragment.min(message.capacity);
            if len == 0 || !plan.has_room(3, Self::datagram_bytes(len)) {
                return 0;
            }
            plan.payload(BufferRange::new(message.buffer, 0, len));
            plan.pooled(TRAILER_BYTES);
            return left - 1;
        }
        for gap in message.missing_from(low, units) {
            for unit in gap {
                let (offset, len) = message.place(unit, fragment, fragment);
                // A message of one short unit comes in a short datagram; the last unit of several may be padded.
                let room = if units == 1 { len } else { fragment };
                if left == 0 || len == 0 || !plan.has_room(3, Self::datagram_bytes(room)) {
                    return 0;
                }
                plan.payload(BufferRange::new(message.buffer, offset, len));
                plan.pooled((room - len) as usize + TRAILER_BYTES);
                left -= 1;
            }
        }
        left
    }

    /// Data bytes that a unit of this message is expected to carry.
    fn expected_fragment(&self, message: &Incoming) -> Option<u32> {
        match self.fragment {
            Some(fragment) if message.capacity > fragment || message.state == State::Begun => Some(fragment),
            // A message that fits one unit: the newest datagram tells how large it will be.
            _ if self.stride > TRAILER_BYTES => Some(((self.stride - TRAILER_BYTES) as u32).min(message.capacity)),
            Some(fragment) => Some(fragment.min(message.capacity)),
            None => None,
        }
    }

    /// Units that this message is expected to have.
    fn expected_units(&self, message: &Incoming, fragment: u32) -> u32 {
        let most = message.capacity.div_ceil(fragment.max(1)).max(1);
        match self.usual {
            // Messages for which the same room was posted tend to be equally long.
            Some((units, capacity)) if capacity == message.capacity && units > message.prefix => units.min(most),
            _ => most,
        }
    }
}
