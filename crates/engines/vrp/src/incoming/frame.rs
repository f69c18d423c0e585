//! The block of one frame on its way in.
//!
//! While it is incomplete it has storage and a [`LossDecider`]; once it is complete, only what is needed to answer is left
//! of it (the paper's list of work left: free everything but the storage), until FRAME_CLOSE or the life time-out.

use super::answer::{LossReport, Notes};
use super::offer::{self, Offer};
use super::rotation::Turns;
use crate::{Delivery, FrameId, LossSummary};
use core::ops::Range;
use pinnace_core::{Address, BufferId, BufferRange, Decision, LossContract, LossDecider, Time, TimerHandle};
use pinnace_wire::vrp::HEADER_BYTES;

/// What is kept of an incomplete frame only.
#[derive(Debug)]
pub(super) struct Incomplete {
    pub(super) decider: LossDecider,
    pub(super) buffer: BufferId,
    pub(super) contract: LossContract,
    window: u32,
    /// The lowest rate that LOSS_RATE_NOW may set, and the newest count of it.
    floor: u8,
    rate_count: Option<u8>,
    /// Bytes that count beside the storage.
    pub(super) overhead: u64,
}

impl Incomplete {
    pub(super) fn new(offer: &Offer<'_>, decider: LossDecider, buffer: BufferId) -> Self {
        Self {
            decider,
            buffer,
            contract: offer.contract.clone(),
            window: u32::from(offer.window).clamp(1, offer.packets.max(1)),
            floor: offer.floor,
            rate_count: None,
            overhead: offer.overhead(),
        }
    }

    /// A decider for the frame, as it starts: at the floor, if it has one.
    pub(super) fn decider(offer: &Offer<'_>) -> LossDecider {
        let contract = LossContract { rate: offer.floor, ..offer.contract.clone() };
        LossDecider::new(offer.packets, u32::from(offer.window), contract)
    }
}

#[derive(Debug)]
pub(super) enum State {
    Incomplete(Box<Incomplete>),
    /// It was delivered.
    Complete(LossReport),
}

/// What became of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has not the length that it should have.
    Malformed,
    /// It changes nothing, but is answered.
    Unwanted,
    /// It is as if it had been lost, for now.
    HeldBack,
    /// Its data belong there.
    Stored(BufferRange),
}

/// A frame that is known.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) id: FrameId,
    pub(super) source: Address,
    pub(super) number: u16,
    /// The local address that it was last sent to: answers leave from there.
    pub(super) local: Option<Address>,
    pub(super) size: u32,
    pub(super) packet_bytes: u16,
    pub(super) packets: u32,
    digest: u64,
    pub(super) created: Time,
    pub(super) heard: Time,
    pub(super) timer: TimerHandle,
    /// Bytes that were received for it and not yet spent on answers.
    pub(super) budget: u64,
    /// Data packets and headers that came marked by a congested router.
    pub(super) marks: u32,
    pub(super) has_data: bool,
    /// Its last packet came, and was treated as lost.
    pub(super) is_held_back: bool,
    pub(super) turns: Turns,
    /// Whether it is among those that have something to say.
    pub(super) is_pending: bool,
    pub(super) notes: Notes,
    pub(super) state: State,
}

impl Frame {
    #[expect(clippy::too_many_arguments, reason = "the parts of a block, put together once")]
    pub(super) fn new(
        now: Time,
        id: FrameId,
        source: Address,
        local: Option<Address>,
        offer: &Offer<'_>,
        incomplete: Incomplete,
        notes: Notes,
        timer: TimerHandle,
    ) -> Self {
        Self {
            id,
            source,
            number: offer.number,
            local,
            size: offer.size,
            packet_bytes: offer.packet_bytes,
            packets: offer.packets,
            digest: offer.digest(),
            created: now,
            heard: now,
            timer,
            budget: 0,
            marks: 0,
            has_data: false,
            is_held_back: false,
            turns: Turns::default(),
            is_pending: false,
            notes,
            state: State::Incomplete(Box::new(incomplete)),
        }
    }

    /// Whether a header is a repetition of this frame's.
    //= V-R1
    pub(super) fn matches(&self, offer: &Offer<'_>) -> bool {
        (self.size, self.packet_bytes, self.digest) == (offer.size, offer.packet_bytes, offer.digest())
    }

    pub(super) fn incomplete(&self) -> Option<&Incomplete> {
        match &self.state {
            State::Incomplete(incomplete) => Some(incomplete),
            State::Complete(_) => None,
        }
    }

    /// Everything before it has come or may be lost.
    pub(super) fn wait_point(&self) -> u32 {
        self.incomplete().map_or(self.packets, |incomplete| incomplete.decider.wait_point())
    }

    /// Nothing is known of this packet and those behind it.
    pub(super) fn next_expected(&self) -> u32 {
        self.incomplete().map_or(self.packets, |incomplete| incomplete.decider.next_expected())
    }

    /// Where packet `packet`, which exists, belongs.
    pub(super) fn place(&self, buffer: BufferId, packet: u32) -> BufferRange {
        let offset = u64::from(packet) * u64::from(self.packet_bytes);
        BufferRange::new(buffer, offset, offer::packet_len(self.size, self.packet_bytes, packet))
    }

    /// Something valid came for the frame.
    pub(super) fn hear(&mut self, now: Time, local: Option<Address>, bytes: usize) {
        self.heard = now;
        self.local = local;
        self.budget = self.budget.saturating_add(bytes as u64);
    }

    /// What is due is the answer to its header, and all that this implies.
    pub(super) fn answer_header(&mut self) {
        (self.notes.due, self.notes.frame_ok) = (true, true);
    }

    /// A data packet in a datagram of `len` bytes. Where it `is_crowded`, the last one is not taken.
    //= V-R6
    //= V-R7
    //= V-R13
    pub(super) fn on_data(
        &mut self,
        now: Time,
        local: Option<Address>,
        packet: u32,
        len: usize,
        is_crowded: bool,
    ) -> Outcome {
        let data = len - HEADER_BYTES;
        if packet < self.packets && data as u64 != u64::from(offer::packet_len(self.size, self.packet_bytes, packet)) {
            return Outcome::Malformed;
        }
        self.hear(now, local, len);
        self.has_data = true;
        self.notes.due = true;
        if is_crowded && self.is_last_missing(packet) {
            return Outcome::HeldBack;
        }
        let State::Incomplete(incomplete) = &mut self.state else { return Outcome::Unwanted };
        if decide(&mut incomplete.decider, &mut self.notes, packet, self.budget) {
            let buffer = incomplete.buffer;
            Outcome::Stored(self.place(buffer, packet))
        } else {
            Outcome::Unwanted
        }
    }

    /// Whether the frame lacks this packet, its last, which no contract lets go before others have come behind it.
    fn is_last_missing(&self, packet: u32) -> bool {
        let lacks = |incomplete: &Incomplete| !incomplete.decider.is_received(packet);
        packet.checked_add(1) == Some(self.packets) && self.incomplete().is_some_and(lacks)
    }

    /// The last packet, which was held back, is wanted now.
    pub(super) fn ask_for_last(&mut self) {
        self.is_held_back = false;
        self.notes.on_missing(self.packets.saturating_sub(1), self.budget);
        self.notes.due = true;
    }

    /// The sender says what rate of loss is in force.
    pub(super) fn on_rate_now(&mut self, count: u8, rate: u8) {
        let State::Incomplete(incomplete) = &mut self.state else { return };
        // Serial arithmetic: newer is up to half the circle ahead.
        if incomplete.rate_count.is_none_or(|last| (1..128).contains(&count.wrapping_sub(last))) {
            incomplete.rate_count = Some(count);
            incomplete.decider.set_rate(rate.clamp(incomplete.floor, incomplete.contract.rate));
        }
    }

    /// Whether the frame can be delivered, and has not been.
    pub(super) fn is_deliverable(&self) -> bool {
        self.incomplete().is_some_and(|incomplete| incomplete.decider.is_complete())
    }

    /// Ends the reception; returns what the application is told, and the bytes that are free now.
    //= V-R13
    //= V-R18
    pub(super) fn deliver(&mut self, now: Time) -> Option<(Delivery, u64)> {
        let incomplete = self.incomplete()?;
        let ranges: Vec<Range<u32>> = incomplete.decider.lost().collect();
        let report = LossReport::new(&ranges, incomplete.decider.lost_count());
        let loss = LossSummary {
            packets: self.packets,
            lost: incomplete.decider.lost_count(),
            longest_run: ranges.iter().map(|range| range.end - range.start).max().unwrap_or(0),
            ranges,
            is_complete: true,
        };
        let State::Incomplete(incomplete) = core::mem::replace(&mut self.state, State::Complete(report)) else {
            return None;
        };
        let delivery = Delivery {
            id: self.id,
            source: self.source,
            number: self.number,
            buffer: incomplete.buffer,
            size: self.size,
            packet_bytes: self.packet_bytes,
            holes: loss.holes(u64::from(self.size), self.packet_bytes),
            loss,
            contract: incomplete.contract,
            window: incomplete.window,
            took: now - self.created,
        };
        Some((delivery, incomplete.overhead))
    }
}

/// Hands a packet to the decider and notes what is to be answered, as far as `budget` bytes carry it; returns whether its
/// data are to be stored.
//= V-R8
//= V-R9
//= V-R10
//= V-R11
//= V-R12
//= V-R15
//= V-R16
pub(super) fn decide(decider: &mut LossDecider, notes: &mut Notes, packet: u32, budget: u64) -> bool {
    // Until a packet is waited for, the cumulative ACK is about to say what may be lost.
    let mut is_held = decider.wait_point() < decider.next_expected();
    let arrival = decider.on_packet(packet, |decision| match decision {
        Decision::Lost(packet) if is_held => notes.on_lost(packet, budget),
        Decision::Lost(_) => {}
        Decision::Nack(packet) => {
            is_held = true;
            notes.on_missing(packet, budget);
        }
    });
    if arrival.single_ack {
        notes.on_arrival(packet);
    }
    arrival.stored
}
