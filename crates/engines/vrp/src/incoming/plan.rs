//! Prediction: where the next payloads will land.
//!
//! In order: what was asked for, if that is what comes just now; then the frames whose turn it is ([`super::rotation`]), from
//! the first packet on of which nothing is known; and behind the last one that is known, the next frames of that sender of which
//! nothing has come. What is not foreseen lands in bounce memory. Only packets that are still missing from an incomplete frame
//! get a slot, so a wrong guess only dirties bytes that will be written again, or are a hole.

use super::Incoming;
use super::frame::Frame;
use crate::FrameId;
use core::cmp::Ordering;
use pinnace_core::{BufferRange, MAX_PACKETS_AHEAD, ReceivePlan};
use pinnace_wire::vrp::HEADER_BYTES;

/// Frames in a round that are looked at, and turns.
const MOST_FRAMES: usize = 64;
const MOST_TURNS: usize = 64;

impl Incoming {
    pub(crate) fn plan_receive(&self, plan: &mut ReceivePlan) {
        let Some((index, id, from)) = self.expected else { return };
        let Some(frame) = self.frame(index, id) else { return };
        let mut slots = Slots { left: plan.datagrams(), plan, datagram: None, tail: None };
        self.plan_order(&mut slots, frame, (index, id), from);
        slots.finish();
    }

    /// In the order in which they are expected: `expected` is the frame of the newest packet, of which `from` comes next.
    fn plan_order(&self, slots: &mut Slots<'_>, frame: &Frame, expected: (u32, FrameId), from: u32) {
        if let Some(incomplete) = frame.incomplete() {
            // What was asked for in a run comes in a run. Then the sender goes on where it was.
            let decider = &incomplete.decider;
            let missing = (from..decider.next_expected()).take_while(|packet| !decider.is_valid(*packet));
            if !slots.add(frame, missing) {
                return;
            }
        }
        let turn = self.turn.filter(|&(index, id)| self.frame(index, id).is_some());
        self.plan_turns(slots, turn.unwrap_or(expected));
    }

    fn frame(&self, index: u32, id: FrameId) -> Option<&Frame> {
        self.frames.get(index).filter(|frame| frame.id == id)
    }

    /// Plans for the frames in turn, from the one whose turn it is, and for those behind them.
    fn plan_turns(&self, slots: &mut Slots<'_>, first: (u32, FrameId)) {
        // How far each frame that had a turn is planned.
        let mut planned = [(0, 0); MOST_FRAMES];
        let mut count = 0;
        let mut now = first;
        for turn in 0..MOST_TURNS {
            let Some(frame) = self.frame(now.0, now.1) else { break };
            let known = planned[..count].iter().position(|(index, _)| *index == now.0);
            let from = known.map_or_else(|| frame.next_expected(), |at| planned[at].1);
            let had = if turn == 0 { from.saturating_sub(frame.turns.began) } else { 0 };
            let span = frame.turns.span().filter(|span| *span >= had && frame.turns.followed_by.is_some());
            let end = frame.planned_end().min(span.map_or(u32::MAX, |span| from.saturating_add(span - had)));
            if !slots.add(frame, from..end) {
                return;
            }
            let Some(next) = frame.turns.followed_by else { break };
            match known {
                // All the way round, and nothing is left of it.
                Some(_) if end <= from => break,
                Some(at) => planned[at].1 = end,
                None if count < MOST_FRAMES => {
                    planned[count] = (now.0, end.max(from));
                    count += 1;
                }
                None => return,
            }
            now = next;
        }
        if let Some(newest) = self.frame(first.0, first.1) {
            self.plan_next_frames(slots, newest);
        }
    }

    /// Plans for the frames behind `frame` of which nothing has come.
    fn plan_next_frames(&self, slots: &mut Slots<'_>, frame: &Frame) {
        let Some(source) = self.sources.find(&frame.source) else { return };
        let behind = source.frames.range(frame.number + 1..).filter_map(|(_, &index)| self.frames.get(index));
        for frame in behind.filter(|frame| !frame.has_data).take(MOST_TURNS) {
            if !slots.add(frame, 0..frame.planned_end()) {
                return;
            }
        }
    }
}

impl Frame {
    /// The first packet that cannot be foreseen.
    fn planned_end(&self) -> u32 {
        let end = |decider: &pinnace_core::LossDecider| decider.wait_point().saturating_add(MAX_PACKETS_AHEAD);
        self.incomplete().map_or(0, |incomplete| self.packets.min(end(&incomplete.decider)))
    }
}

/// The plan, and the datagrams that it may still foresee. Those of one read have one size, but for a shorter last one: of the
/// others' short packets the first comes behind the full ones, and the rest in another read.
struct Slots<'a> {
    plan: &'a mut ReceivePlan,
    left: usize,
    /// Bytes of payload of the first.
    datagram: Option<u32>,
    /// The first that is shorter.
    tail: Option<BufferRange>,
}

impl Slots<'_> {
    /// Foresees packets of a frame; says whether those of another may follow in the same read. Looks at one more than there
    /// are slots: a peer chooses how many packets its frames have.
    fn add(&mut self, frame: &Frame, packets: impl Iterator<Item = u32>) -> bool {
        let Some(incomplete) = frame.incomplete() else { return true };
        for packet in packets {
            let place = frame.place(incomplete.buffer, packet);
            match place.len.cmp(self.datagram.get_or_insert(place.len)) {
                Ordering::Less => {
                    self.tail.get_or_insert(place);
                    return true;
                }
                Ordering::Equal if self.push(place) => {}
                Ordering::Equal | Ordering::Greater => return false,
            }
        }
        true
    }

    fn push(&mut self, place: BufferRange) -> bool {
        let has_room = self.left > 0 && self.plan.has_room(2, HEADER_BYTES + place.len as usize);
        if has_room {
            self.plan.pooled(HEADER_BYTES);
            self.plan.payload(place);
            self.left -= 1;
        }
        has_room
    }

    fn finish(mut self) {
        if let Some(tail) = self.tail {
            self.push(tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Timer;
    use super::super::answer::Notes;
    use super::super::frame::Incomplete;
    use super::super::offer::Offer;
    use super::*;
    use pinnace_core::{Address, BufferId, LossContract, Time, TimerWheel};

    fn frame(packets: u32, packet_bytes: u16) -> Frame {
        let offer = Offer {
            number: 0,
            size: packets * u32::from(packet_bytes),
            packet_bytes,
            packets,
            contract: LossContract::reliable(),
            floor: 0,
            window: 64,
            epoch: None,
            inline: None,
            closes_before: false,
            closes_after: false,
        };
        let incomplete = Incomplete::new(&offer, Incomplete::decider(&offer), BufferId::new(0));
        let timer = TimerWheel::new(Time::ZERO).insert(Time::ZERO, Timer::Life(0));
        let from = Address::Node(1);
        Frame::new(Time::ZERO, FrameId(0), from, None, &offer, incomplete, Notes::default(), timer)
    }

    #[test]
    fn no_more_packets_are_looked_at_than_a_read_can_bring() {
        let mut plan = ReceivePlan::new();
        plan.reset(64);
        let mut slots = Slots { left: plan.datagrams(), plan: &mut plan, datagram: None, tail: None };
        let mut looked_at = |frame: &Frame| {
            let mut count = 0;
            let goes_on = slots.add(frame, (0..frame.packets).inspect(|_| count += 1));
            (count, goes_on)
        };
        assert_eq!(looked_at(&frame(2, 100)), (2, true));
        // A peer may have thousands of packets of a byte each under way, in dozens of frames.
        assert_eq!(looked_at(&frame(16_384, 1)), (1, true));
        assert_eq!(looked_at(&frame(16_384, 100)), (63, false));
        assert_eq!(looked_at(&frame(16_384, 101)), (1, false));
    }
}
