//! One frame under way: the paper's outgoing frame information block.
//!
//! Always true: `first` is `ack_expected`, the first packet that is not acknowledged, and `next` is `next_to_send`; `cells`
//! are the packets from `first` up to `next`; a cell that is not acknowledged has a flight, or waits to be sent again (both:
//! it is *under way*), or was let go by its deadline.

use super::flights::FlightId;
use crate::{Config, FrameSpec, Refused, Terms};
use core::time::Duration;
use pinnace_core::{BufferId, BufferRange, LossContract, Time, TimerHandle};
use pinnace_wire::vrp::{HEADER_BYTES, Header, MAX_INLINE_BYTES, MAX_PACKET_BYTES, MAX_WINDOW};
use std::collections::VecDeque;

/// Frames of so many packets need not wait for FRAME_OK (specs/vrp.md, section 1).
const EARLY_PACKETS: u32 = 16;

/// What is known about a packet that was sent and is not cumulatively acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    /// Its newest transmission; 0 if that was given up.
    pub(super) flight: FlightId,
    pub(super) acked: bool,
    /// It was sent more than once, so an acknowledgement measures nothing (Karn).
    pub(super) resent: bool,
    /// The receiver has asked for it: it must arrive.
    pub(super) nacked: bool,
    /// It waits to be sent again.
    pub(super) queued: bool,
    /// Its newest transmission was caused by a time-out, not by a NACK.
    pub(super) timed_out: bool,
    /// When it was taken for lost last.
    pub(super) lost_at: Time,
}

impl Cell {
    fn is_under_way(&self) -> bool {
        self.flight != 0 || self.queued
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The header is not answered.
    Announced,
    /// FRAME_OK, or something that stands for it, has come (SEND in the specification).
    Accepted,
}

#[derive(Debug)]
pub(super) struct OutFrame {
    pub(super) ticket: u64,
    pub(super) number: u16,
    pub(super) buffer: BufferId,
    pub(super) size: u32,
    pub(super) packet_bytes: u16,
    /// `n`.
    pub(super) packets: u32,
    pub(super) window: u16,
    pub(super) terms: Terms,
    pub(super) contract: LossContract,
    /// `P` may be less than that.
    pub(super) takes_smaller_packets: bool,
    pub(super) takes_any_window: bool,
    pub(super) repeat_until: Option<Time>,
    pub(super) give_up_at: Option<Time>,
    /// The datagram of the header, up to its inline data if it has any. Every repetition is the same.
    pub(super) header: Vec<u8>,
    /// Whether the header goes on with the frame's data (INLINE_DATA).
    pub(super) header_has_data: bool,
    /// Numbers of ended frames that the header closes.
    pub(super) header_closes: Vec<u16>,
    /// The data travel in the header, and nothing says yet that the receiver skips them.
    pub(super) inline: bool,
    pub(super) state: State,
    pub(super) first: u32,
    pub(super) next: u32,
    cells: VecDeque<Cell>,
    /// Cells that are acknowledged.
    acked: u32,
    /// Cells that are under way.
    under_way: u32,
    /// Packets below this count as sent, although they may have to be sent after all (INLINE_DATA).
    pub(super) counted_as_sent: u32,
    pub(super) any_acked: bool,
    pub(super) header_flight: FlightId,
    pub(super) header_queued: bool,
    pub(super) headers_sent: u32,
    pub(super) header_sent_at: Time,
    /// When something valid was last heard, or when waiting for it began.
    pub(super) heard_at: Time,
    /// When a packet of it left last.
    pub(super) served_at: Time,
    /// The newest answer but MISSING_HDR.
    pub(super) answered_at: Option<Time>,
    /// `ack_expected` when the last answer had been read.
    pub(super) answered_first: Option<u32>,
    /// The receiver knows nothing of the frame: its data wait until the repeated header is answered, which they would stand
    /// in the way of.
    pub(super) is_unknown: bool,
    /// When the receiver said so first; it has answered none of its data since.
    pub(super) unknown_since: Option<Time>,
    /// Its packets are taken to be too large for the path: nothing of it leaves, and it begins anew with smaller ones once its
    /// receiver has said that it lacks some.
    pub(super) is_doubted: bool,
    /// When it was asked.
    pub(super) asked_at: Option<Time>,
    /// Its header goes ahead: there is no data yet.
    pub(super) is_announced: bool,
    pub(super) is_ready: bool,
    /// Bytes sent since it last stood back behind all others.
    pub(super) stint: u64,
    /// What the endpoint had sent when it took its place in the queue.
    pub(super) ready_since: u64,
    /// Bytes that have not left, as far as is known now.
    pub(super) unsent: u32,
    /// The train in which it last had a share, and how many packets that was.
    pub(super) turn: u64,
    pub(super) share: u32,
    /// Packets since its turn came, which may last for several trains.
    pub(super) served: u32,
    pub(super) marks: u32,
    pub(super) rate_count: u8,
    pub(super) rate_now: u8,
    /// Whether that has ever changed: the count, which wraps, does not say.
    pub(super) rate_has_changed: bool,
    pub(super) timer: Option<TimerHandle>,
}

impl OutFrame {
    /// # Errors
    /// Why the frame cannot be sent as it is.
    pub(super) fn new(ticket: u64, spec: FrameSpec, config: &Config) -> Result<Self, Refused> {
        let size = u32::try_from(spec.size).map_err(|_| Refused::TooLarge)?;
        let packet_bytes = spec.packet_bytes.unwrap_or(config.packet_bytes);
        let window = spec.window.unwrap_or(config.window);
        if !(1..=MAX_PACKET_BYTES).contains(&usize::from(packet_bytes)) || !(1..=MAX_WINDOW).contains(&window) {
            return Err(Refused::InvalidTerms);
        }
        let packets = size.div_ceil(u32::from(packet_bytes));
        if packets > MAX_PACKETS {
            return Err(Refused::TooLarge);
        }
        let terms = spec.terms.unwrap_or_else(|| config.terms.clone());
        let contract = terms.contract(spec.size, packet_bytes)?;
        let rate_now = terms.floor.unwrap_or(contract.rate);
        Ok(Self {
            ticket,
            number: 0,
            buffer: spec.buffer,
            size,
            packet_bytes,
            packets,
            window,
            terms,
            contract,
            takes_smaller_packets: spec.takes_smaller_packets,
            takes_any_window: spec.takes_any_window,
            repeat_until: spec.repeat_until,
            give_up_at: spec.give_up_at,
            header: Vec::new(),
            header_has_data: false,
            header_closes: Vec::new(),
            inline: false,
            state: State::Announced,
            first: 0,
            next: 0,
            cells: VecDeque::new(),
            acked: 0,
            under_way: 0,
            counted_as_sent: 0,
            any_acked: false,
            header_flight: 0,
            header_queued: false,
            headers_sent: 0,
            header_sent_at: Time::ZERO,
            heard_at: Time::ZERO,
            served_at: Time::ZERO,
            answered_at: None,
            answered_first: None,
            is_unknown: false,
            unknown_since: None,
            is_doubted: false,
            asked_at: None,
            is_announced: false,
            is_ready: false,
            stint: 0,
            ready_since: 0,
            unsent: 0,
            turn: 0,
            share: 0,
            served: 0,
            marks: 0,
            rate_count: 0,
            rate_now,
            rate_has_changed: false,
            timer: None,
        })
    }

    /// What was asked for, to begin anew.
    pub(super) fn spec(&self) -> FrameSpec {
        FrameSpec {
            terms: Some(self.terms.clone()),
            packet_bytes: Some(self.packet_bytes),
            takes_smaller_packets: self.takes_smaller_packets,
            window: Some(self.window),
            takes_any_window: self.takes_any_window,
            repeat_until: self.repeat_until,
            give_up_at: self.give_up_at,
            ..FrameSpec::new(self.buffer, self.size.into())
        }
    }

    /// Its packets have no more than `most` bytes of data, if that is left to the sender; a window that is as well covers as many
    /// bytes as before. Only before it has begun.
    //= V-S13
    pub(super) fn fit(&mut self, most: u16) {
        if !self.takes_smaller_packets || self.packet_bytes <= most {
            return;
        }
        let packets = self.size.div_ceil(u32::from(most));
        let Some(contract) = self.terms.contract(self.size.into(), most).ok().filter(|_| packets <= MAX_PACKETS) else {
            return;
        };
        if self.takes_any_window {
            let covered = u32::from(self.window) * u32::from(self.packet_bytes);
            let window = covered.div_ceil(u32::from(most)).next_power_of_two();
            self.window = window.min(u32::from(MAX_WINDOW)) as u16;
        }
        (self.packet_bytes, self.packets, self.contract) = (most, packets, contract);
    }

    /// Whether the frame overtakes large ones.
    pub(super) fn is_small(&self) -> bool {
        u64::from(self.size) <= super::SMALL
    }

    /// Whether the frame's data are to travel in its header.
    pub(super) fn may_be_inline(&self) -> bool {
        (1..=MAX_INLINE_BYTES).contains(&(self.size as usize))
    }

    /// Whether data may leave now: the header is answered, or need not be.
    pub(super) fn may_send(&self) -> bool {
        let may_be_early = self.packets <= EARLY_PACKETS && !self.may_be_inline() && !self.header_queued;
        self.state == State::Accepted || (may_be_early && !self.is_unknown)
    }

    /// Whether a packet that was never sent may leave (V-S5).
    //= V-S5
    pub(super) fn has_new(&self) -> bool {
        self.may_send()
            && !self.inline
            && !self.is_announced
            && !self.is_doubted
            && self.next < self.packets
            && self.next - self.first < u32::from(self.window)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.first == self.packets
    }

    /// Packets that count as sent: acknowledging one beyond is an error (V-S6).
    pub(super) fn sent_below(&self) -> u32 {
        self.next.max(self.counted_as_sent)
    }

    pub(super) fn cell(&self, packet: u32) -> Option<&Cell> {
        self.cells.get(packet.checked_sub(self.first)? as usize)
    }

    /// The cell of a packet that was sent and is not acknowledged.
    fn pending_mut(&mut self, packet: u32) -> Option<&mut Cell> {
        self.cells.get_mut(packet.checked_sub(self.first)? as usize).filter(|cell| !cell.acked)
    }

    /// Whether some packet was sent and is not acknowledged.
    pub(super) fn has_pending(&self) -> bool {
        !self.cells.is_empty()
    }

    /// Whether an unacknowledged packet has a flight, or waits to be sent again.
    pub(super) fn is_under_way(&self) -> bool {
        debug_assert_eq!(self.under_way as usize, self.cells.iter().filter(|cell| cell.is_under_way()).count());
        self.under_way > 0
    }

    /// The newest transmissions of all unacknowledged packets.
    pub(super) fn flights(&self) -> impl Iterator<Item = FlightId> {
        self.cells.iter().filter(|cell| !cell.acked).map(|cell| cell.flight)
    }

    /// The last packet that was sent and is not acknowledged.
    pub(super) fn last_pending(&self) -> Option<u32> {
        self.cells.iter().rposition(|cell| !cell.acked).map(|index| self.first + index as u32)
    }

    /// Whether that has left more than once.
    pub(super) fn is_last_repeated(&self) -> bool {
        self.last_pending().and_then(|packet| self.cell(packet)).is_some_and(|cell| cell.resent)
    }

    /// Packet `next` leaves for the first time.
    pub(super) fn on_sent(&mut self, flight: FlightId) {
        self.cells.push_back(Cell { flight, ..Cell::default() });
        self.under_way += 1;
        self.next += 1;
    }

    /// A packet that waited for it leaves again.
    pub(super) fn on_sent_again(&mut self, packet: u32, flight: FlightId) {
        if let Some(cell) = self.pending_mut(packet) {
            (cell.flight, cell.queued) = (flight, false);
        }
    }

    /// A packet left once more, beside the transmission that counts.
    pub(super) fn on_echoed(&mut self, packet: u32) {
        if let Some(cell) = self.pending_mut(packet) {
            cell.resent = true;
        }
    }

    /// A packet is to be sent again: returns its newest transmission, which no longer counts. `None` if it is acknowledged,
    /// was never sent, or waits already.
    pub(super) fn send_again(&mut self, now: Time, packet: u32, timed_out: bool) -> Option<FlightId> {
        let cell = self.pending_mut(packet).filter(|cell| !cell.queued)?;
        let (was_under_way, flight) = (cell.is_under_way(), core::mem::take(&mut cell.flight));
        (cell.queued, cell.resent, cell.timed_out, cell.lost_at) = (true, true, timed_out, now);
        self.under_way += u32::from(!was_under_way);
        Some(flight)
    }

    /// The receiver has asked for a packet.
    pub(super) fn on_nacked(&mut self, packet: u32) {
        if let Some(cell) = self.pending_mut(packet) {
            cell.nacked = true;
        }
    }

    /// A packet is late, and is not repeated.
    pub(super) fn let_go(&mut self, packet: u32) {
        if let Some(cell) = self.pending_mut(packet).filter(|cell| cell.flight != 0 && !cell.queued) {
            cell.flight = 0;
            self.under_way -= 1;
        }
    }

    /// One packet is acknowledged: returns its cell as it was. `None` if it was acknowledged before, or never sent.
    //= V-S6
    pub(super) fn acknowledge(&mut self, packet: u32) -> Option<Cell> {
        let cell = self.pending_mut(packet)?;
        let was = *cell;
        *cell = Cell { acked: true, flight: 0, queued: false, ..was };
        self.acked += 1;
        self.under_way -= u32::from(was.is_under_way());
        self.any_acked = true;
        self.skip_acknowledged();
        Some(was)
    }

    /// Everything below `end` is acknowledged. Hands packets that were not acknowledged before, with their cells as they
    /// were, to `each`.
    //= V-S6
    pub(super) fn acknowledge_below(&mut self, end: u32, mut each: impl FnMut(&Self, u32, Cell)) {
        self.any_acked = true;
        while self.first < end {
            let Some(cell) = self.cells.pop_front() else {
                // Inline data: nothing was sent packet by packet.
                (self.first, self.next) = (end, self.next.max(end));
                return;
            };
            self.first += 1;
            if cell.acked {
                self.acked -= 1;
            } else {
                self.under_way -= u32::from(cell.is_under_way());
                each(self, self.first - 1, cell);
            }
        }
        self.skip_acknowledged();
    }

    fn skip_acknowledged(&mut self) {
        while self.cells.front().is_some_and(|cell| cell.acked) {
            self.cells.pop_front();
            self.first += 1;
            self.acked -= 1;
        }
    }

    /// Whether the contract allows any loss of `packet`.
    pub(super) fn is_droppable(&self, packet: u32) -> bool {
        self.contract.rate > 0 && self.contract.run > 0 && !self.contract.critical.contains(u64::from(packet))
    }

    /// How many packets of this frame one train may carry: a dropped train is a run of losses.
    pub(super) fn train_share(&self) -> u32 {
        match self.contract.run {
            0 | u8::MAX => u32::MAX,
            _ if self.contract.rate == 0 => u32::MAX,
            run => u32::from(run),
        }
    }

    pub(super) fn data_of(&self, packet: u32) -> BufferRange {
        let offset = u64::from(packet) * u64::from(self.packet_bytes);
        let len = (u64::from(self.size) - offset).min(u64::from(self.packet_bytes));
        BufferRange::new(self.buffer, offset, len as u32)
    }

    pub(super) fn datagram_bytes(&self, packet: u32) -> usize {
        HEADER_BYTES + self.data_of(packet).len as usize
    }

    /// Bytes of the datagram of its largest packet.
    pub(super) fn largest_packet(&self) -> usize {
        if self.size > 0 { self.datagram_bytes(0) } else { 0 }
    }

    /// Bytes of the largest datagram that the frame sends.
    pub(super) fn largest_datagram(&self) -> usize {
        self.largest_packet().max(self.header_bytes())
    }

    pub(super) fn packet_header(&self, packet: u32) -> [u8; HEADER_BYTES] {
        Header::Data { frame: self.number, packet }.encode()
    }

    /// Bytes that the header's datagram has, inline data included.
    pub(super) fn header_bytes(&self) -> usize {
        self.header.len() + if self.header_has_data { self.size as usize + 1 } else { 0 }
    }

    /// Whether an expired packet is to be repeated although the frame's time for that is over: only what the receiver
    /// certainly waits for, and the last packet, which makes it decide about all others.
    pub(super) fn must_repeat(&self, packet: u32) -> bool {
        let nacked = self.cell(packet).is_some_and(|cell| cell.nacked);
        nacked || !self.is_droppable(packet) || packet + 1 == self.packets || self.is_waited_for(packet)
    }

    /// The receiver acknowledges up to the first packet that it waits for: if something behind it has arrived, it must be
    /// sent.
    pub(super) fn is_waited_for(&self, packet: u32) -> bool {
        packet == self.first && self.acked > 0
    }

    /// The packets that wait to be sent again.
    pub(super) fn queued(&self) -> impl Iterator<Item = u32> {
        (self.first..).zip(&self.cells).filter(|(_, cell)| cell.queued && !cell.acked).map(|(packet, _)| packet)
    }

    /// Whether the peer owes no answer: what comes next is ours to send.
    pub(super) fn waits_for_us(&self) -> bool {
        match self.state {
            State::Announced => self.headers_sent == 0,
            State::Accepted => !self.has_pending() && self.has_new(),
        }
    }

    /// Whether a packet that left at `sent_at` was answered as soon as it came. One that came before the frame's header is
    /// answered with that, and where the header was repeated nobody knows with which: Karn's rule for a packet that was sent
    /// once, and had to wait for one that was not.
    //= V-S5
    pub(super) fn has_waited_for_nothing_since(&self, sent_at: Time) -> bool {
        self.headers_sent == 1 || sent_at > self.header_sent_at
    }

    /// When the frame ends without an answer, or is given up.
    pub(super) fn ends_at(&self, config: &Config) -> Time {
        let life = self.heard_at + config.life_timeout;
        [Some(life), self.give_up_at, self.lost_at(config)].into_iter().flatten().min().unwrap_or(life)
    }

    /// When a frame is given up that its receiver does not get to know, although it answers: nothing waits for ever.
    pub(super) fn lost_at(&self, config: &Config) -> Option<Time> {
        let patience = config.life_timeout.saturating_mul(LIVES_UNKNOWN);
        self.unknown_since.filter(|_| !self.any_acked).map(|since| since + patience)
    }

    /// Whether nothing of it has left for half of the time after which its receiver takes it for dead.
    pub(super) fn is_starving(&self, now: Time, config: &Config) -> bool {
        now.since(self.served_at) >= config.life_timeout / 2
    }

    /// Whether an answer has been owed for a quarter of its life.
    pub(super) fn is_quiet(&self, now: Time, config: &Config) -> bool {
        now.since(self.heard_at) >= config.life_timeout / 4
    }

    /// Whether an answer has been owed for a quarter of its life, and nothing has asked for one for a while, which is not
    /// shorter than `patience`.
    pub(super) fn is_silent(&self, now: Time, config: &Config, patience: Duration) -> bool {
        self.is_quiet(now, config)
            && now.since(self.served_at.max(self.header_sent_at)) >= patience.max(config.life_timeout / URGES_IN_A_LIFE)
    }

    /// When to look again whether it ends, starves, or is silent: after `now`.
    pub(super) fn looks_at(&self, now: Time, config: &Config) -> Time {
        let silent_at = self.heard_at + config.life_timeout / 4;
        let next = if silent_at > now { silent_at } else { now + config.life_timeout / URGES_IN_A_LIFE };
        self.ends_at(config).min(next)
    }
}

/// Life time-outs for which a receiver may say that it does not know a frame.
const LIVES_UNKNOWN: u32 = 4;

/// How often a silent frame is asked about, at least, in its life time-out.
const URGES_IN_A_LIFE: u32 = 16;

/// Packets of a frame at most: the receiver's default limit, and what bounds our own memory.
const MAX_PACKETS: u32 = 1 << 24;
