//! What the receiver says.
//!
//! A control packet is taken in whole: what is said of single packets first, the cumulative acknowledgement last. So a
//! packet of a frame with a contract that is acknowledged only cumulatively counts as lost with permission, as far as the
//! congestion controller is concerned: otherwise a contract would hide congestion.

use super::frame::{OutFrame, State};
use super::{Answered, Outgoing, PINGS_KEPT, Path};
use crate::{Event, Failure, LossSummary, Sent};
use pinnace_core::{IntervalSet, Placed, RxMeta, Time};
use pinnace_wire::vrp::{Control, REPORT_OVERFLOW, Tag};

/// So many headers of a frame are followed by early data at most, if its receiver misses them.
const HEADERS_WITH_DATA: u32 = 3;

/// Something was acknowledged, or asked for, that cannot be.
struct Impossible;

impl Outgoing {
    pub(crate) fn handle_datagrams(&mut self, now: Time, _meta: &RxMeta, rx: &mut Placed<'_>) {
        let mut scratch = core::mem::take(&mut self.scratch);
        while let Some(segment) = rx.next_segment() {
            // Data packets have no business here, and do not parse as control packets.
            match Control::parse(rx.whole(&segment, &mut scratch)) {
                Ok(control) if !self.closed => self.on_control(now, &control),
                Ok(_) => self.counters.controls_stale += 1,
                Err(_) => self.counters.datagrams_malformed += 1,
            }
        }
        self.scratch = scratch;
        self.end_batch(now);
    }

    fn on_control(&mut self, now: Time, control: &Control<'_>) {
        self.counters.controls_received += 1;
        let number = control.frame();
        self.batch.answered = None;
        let mut acknowledged = None;
        let mut accepted = None;
        let mut reported = false;
        let mut is_of_path = false;
        let mut is_missing = false;
        for tag in control.tags() {
            let result = match tag {
                Tag::Pong(stamp) => {
                    is_of_path = true;
                    self.on_pong(now, stamp);
                    continue;
                }
                // The answers to a header have their frame number in the packet header.
                Tag::FrameOk(frame) | Tag::FrameRefused(frame) if frame != number => {
                    self.counters.controls_stale += 1;
                    continue;
                }
                Tag::FrameOk(number) => {
                    accepted = self.on_accepted(now, number).map(|_| number).or(accepted);
                    continue;
                }
                Tag::FrameRefused(number) => {
                    //= V-S4
                    match self.by_number.get(&number) {
                        Some(&slot) => {
                            let is_taken = |frame: &OutFrame| frame.answered_at.is_some();
                            let was_taken = self.slots[slot].as_deref().is_some_and(is_taken);
                            if let Some(frame) = self.slots[slot].as_deref_mut() {
                                // Who refuses its header has read it.
                                frame.header_closes.clear();
                            }
                            self.counters.frames_dropped += u64::from(was_taken);
                            self.fail(slot, Failure::Refused);
                        }
                        None => self.counters.controls_stale += 1,
                    }
                    continue;
                }
                Tag::MissingHeader(number) => {
                    is_missing = true;
                    self.on_missing_header(now, number).map_err(|Impossible| number)
                }
                Tag::Ack(packet) => {
                    acknowledged = acknowledged.max(Some(packet));
                    continue;
                }
                Tag::SingleAck(packet) => self.on_single_ack(now, number, packet).map_err(|Impossible| number),
                Tag::Nack(packet) => self.on_nack(now, number, packet).map_err(|Impossible| number),
                Tag::EcnEcho(marks) => {
                    self.on_marks(now, number, marks);
                    continue;
                }
                Tag::LossReport(_) => {
                    reported = true;
                    continue;
                }
                // The other direction's.
                _ => continue,
            };
            if let Err(number) = result {
                self.contradict(number);
                return;
            }
        }
        if let Some(packet) = acknowledged
            && let Err(Impossible) = self.on_cumulative_ack(now, number, packet)
        {
            self.contradict(number);
            return;
        }
        self.measure(now);
        // Also without a tag: so a receiver answers that waits for the first packet, or for its application.
        if !is_of_path && self.by_number.contains_key(&number) {
            self.on_answer(now, number, accepted.is_none() && !is_missing);
        }
        for number in [Some(number), accepted].into_iter().flatten() {
            let report = reported.then_some(control).filter(|control| control.frame() == number);
            self.finish_if_complete(number, report);
            self.on_inline_skipped(number);
            self.begin_anew_if_doubted(now, number);
        }
    }

    /// The peer contradicts itself or us: the frame is in ERROR (V-S6, V-S7, V-S8).
    fn contradict(&mut self, number: u16) {
        if let Some(&slot) = self.by_number.get(&number) {
            self.fail(slot, Failure::Protocol);
        }
    }

    //= V-S3
    //= V-S10
    fn on_pong(&mut self, now: Time, stamp: [u8; 8]) {
        let Some(index) = self.pings.iter().position(|(said, ..)| *said == stamp) else {
            self.counters.controls_stale += 1;
            return;
        };
        let Some((_, sent_at, bytes)) = self.pings.remove(index) else { return };
        self.heard_at = now;
        self.ponged_at = Some(now);
        self.rtt.on_sample(now, now.since(sent_at));
        self.on_carried(now, bytes);
        if self.path != Path::Open {
            self.path = Path::Open;
            self.events.push_back(Event::Opened(Ok(now.since(sent_at))));
        }
        self.show_life(now);
    }

    pub(super) fn remember_ping(&mut self, stamp: [u8; 8], now: Time, bytes: u32) {
        if self.pings.len() == PINGS_KEPT {
            self.pings.pop_front();
        }
        self.pings.push_back((stamp, now, bytes));
    }

    /// Notes a valid answer for a frame, and what it stands for; `None` if there is no such frame.
    fn hear(&mut self, now: Time, number: u16) -> Option<usize> {
        let Some(&slot) = self.by_number.get(&number) else {
            self.counters.controls_stale += 1;
            return None;
        };
        self.heard_at = now;
        let frame = self.slots[slot].as_deref_mut()?;
        frame.heard_at = now;
        Some(slot)
    }

    /// An answer for a frame, whatever it says; `is_of_data` if it answers data, and not as those of an unknown frame.
    ///
    /// If the last packet of a late frame has gone again, and answers acknowledge no more than before, then the receiver waits
    /// for the first that was let go, and cannot say so: packets of a few bytes buy no answer with SINGLE_ACK or NACK in it
    /// (V-R13).
    //= V-S11
    fn on_answer(&mut self, now: Time, number: u16, is_of_data: bool) {
        let Some(slot) = self.hear(now, number) else { return };
        let Some(frame) = self.slots[slot].as_deref_mut() else { return };
        frame.unknown_since = frame.unknown_since.filter(|_| !is_of_data);
        let says_no_more = frame.answered_first.replace(frame.first) == Some(frame.first);
        let is_late = frame.repeat_until.is_some_and(|until| until <= now);
        if says_no_more && is_late && frame.is_last_repeated() {
            self.repeat_if_let_go(now, slot);
        }
    }

    /// FRAME_OK, or an acknowledgement that stands for it: where the frame is.
    fn on_accepted(&mut self, now: Time, number: u16) -> Option<usize> {
        let slot = self.hear(now, number)?;
        let frame = self.slots[slot].as_deref_mut()?;
        frame.answered_at = Some(now);
        if frame.state == State::Accepted {
            return Some(slot);
        }
        frame.state = State::Accepted;
        if core::mem::take(&mut frame.is_unknown) {
            let ticket = frame.ticket;
            self.again.extend(frame.queued().map(|packet| (slot, ticket, packet)));
        }
        // A repetition that has not left yet is no longer wanted.
        frame.header_queued = false;
        let flight = core::mem::take(&mut frame.header_flight);
        if let Some(flight) = self.flights.settle(flight) {
            self.delivery.on_packet_acked(now, u64::from(flight.bytes), &flight.stamp);
        }
        self.make_ready(slot);
        Some(slot)
    }

    /// An answer without the acknowledgement of all data: the receiver does not know INLINE_DATA, and the packets follow.
    fn on_inline_skipped(&mut self, number: u16) {
        let Some(&slot) = self.by_number.get(&number) else { return };
        if let Some(frame) = self.slots[slot].as_deref_mut()
            && frame.inline
            && frame.state == State::Accepted
        {
            frame.inline = false;
            frame.unsent = frame.size;
            self.unsent_bytes[usize::from(frame.is_small())] += u64::from(frame.unsent);
            self.make_ready(slot);
        }
    }

    /// What an answer says of the round trip: what it acknowledges that left last, if that was sent once. The rest may have
    /// come long ago, and its acknowledgement have been lost; this one is for what came last.
    //= V-S10
    fn measure(&mut self, now: Time) {
        let Some(Answered { sent_at, is_measure: true }) = self.batch.answered.take() else { return };
        let rtt = now.since(sent_at);
        self.rtt.on_sample(now, rtt);
        self.order.on_round_trip(now, rtt);
        self.batch.rtt = Some(self.batch.rtt.map_or(rtt, |least| least.min(rtt)));
    }

    //= V-S6
    fn on_single_ack(&mut self, now: Time, number: u16, packet: u32) -> Result<(), Impossible> {
        let Some(slot) = self.on_accepted(now, number) else { return Ok(()) };
        let Some(frame) = self.slots[slot].as_deref_mut() else { return Ok(()) };
        if packet >= frame.sent_below() {
            return Err(Impossible);
        }
        // A second one says nothing: answers say again what they had acknowledged.
        let Some(cell) = frame.acknowledge(packet) else { return Ok(()) };
        let bytes = frame.datagram_bytes(packet) as u64;
        let is_late = frame.repeat_until.is_some_and(|until| until <= now);
        if let Some(flight) = self.flights.settle(cell.flight) {
            self.carried.on_arrived(flight.bytes);
            self.delivery.on_packet_acked(now, u64::from(flight.bytes), &flight.stamp);
            let sent_at = flight.stamp.sent_at;
            let is_measure = !cell.resent && frame.has_waited_for_nothing_since(sent_at);
            self.batch.on_answered(sent_at, is_measure);
            if cell.resent && sent_at > self.order.no_answer_since(now) {
                self.on_late(now, cell.lost_at, bytes);
            }
            if cell.timed_out && self.rtt.minimum().is_some_and(|least| now.since(sent_at) < least * 3 / 4) {
                self.counters.timeouts_spurious += 1;
            }
        } else if cell.queued {
            // Its repetition has not left.
            self.on_late(now, cell.lost_at, bytes);
        }
        if is_late {
            self.repeat_what_is_waited_for(now, slot);
        }
        self.make_ready(slot);
        Ok(())
    }

    /// In a late frame, packets that were let go are sent again once it shows that the receiver waits for them.
    fn repeat_what_is_waited_for(&mut self, now: Time, slot: usize) {
        if self.slots[slot].as_deref().is_some_and(|frame| frame.is_waited_for(frame.first)) {
            self.repeat_if_let_go(now, slot);
        }
    }

    /// The first packet goes again that is not acknowledged, if it was let go.
    fn repeat_if_let_go(&mut self, now: Time, slot: usize) {
        let Some(frame) = self.slots[slot].as_deref_mut() else { return };
        let (ticket, packet) = (frame.ticket, frame.first);
        let was_let_go = frame.cell(packet).is_some_and(|cell| cell.flight == 0 && !cell.queued);
        if was_let_go && frame.send_again(now, packet, true).is_some() {
            self.again.push_back((slot, ticket, packet));
        }
    }

    //= V-S6
    fn on_cumulative_ack(&mut self, now: Time, number: u16, packet: u32) -> Result<(), Impossible> {
        let Some(slot) = self.on_accepted(now, number) else { return Ok(()) };
        let Self { slots, flights, batch, delivery, congestion, order, carried, .. } = self;
        let Some(frame) = slots[slot].as_deref_mut() else { return Ok(()) };
        if packet >= frame.sent_below() {
            return Err(Impossible);
        }
        if packet < frame.first {
            return Ok(());
        }
        let is_inline = frame.inline;
        let no_answer_since = order.no_answer_since(now);
        frame.acknowledge_below(packet + 1, |frame, number, cell| {
            let settled = flights.settle(cell.flight);
            let left_before = settled.is_none_or(|flight| flight.stamp.sent_at > no_answer_since);
            // Who may lose it says so without having it.
            if left_before && (cell.queued || (settled.is_some() && cell.resent)) && !frame.is_droppable(number) {
                let bytes = frame.datagram_bytes(number) as u64;
                if let Some(late) = order.on_late(now, cell.lost_at, bytes) {
                    congestion.on_spurious_loss(&late);
                }
            }
            let Some(flight) = settled else { return };
            if number != packet && frame.is_droppable(number) {
                order.on_noticed(now, u64::from(flight.bytes), flight.stamp.sent_at);
            } else {
                carried.on_arrived(flight.bytes);
                delivery.on_packet_acked(now, u64::from(flight.bytes), &flight.stamp);
                let sent_at = flight.stamp.sent_at;
                let is_once = !cell.resent && frame.has_waited_for_nothing_since(sent_at);
                batch.on_answered(sent_at, number == packet && is_once);
            }
        });
        if is_inline && packet + 1 == frame.packets && frame.headers_sent == 1 {
            // They travelled in the header. Without this, whoever sends only small frames would measure nothing, and a
            // time-out that has doubled would never come down.
            batch.on_answered(frame.header_sent_at, true);
        }
        let is_late = frame.repeat_until.is_some_and(|until| until <= now);
        if is_late {
            self.repeat_what_is_waited_for(now, slot);
            self.probe(now, slot);
        }
        self.make_ready(slot);
        Ok(())
    }

    //= V-S7
    fn on_nack(&mut self, now: Time, number: u16, packet: u32) -> Result<(), Impossible> {
        let Some(slot) = self.on_accepted(now, number) else { return Ok(()) };
        let Some(frame) = self.slots[slot].as_deref_mut() else { return Ok(()) };
        if packet >= frame.sent_below() {
            return Err(Impossible);
        }
        frame.on_nacked(packet);
        let ticket = frame.ticket;
        let Some(flight) = frame.send_again(now, packet, false) else { return Ok(()) };
        self.counters.packets_nacked += 1;
        self.again.push_back((slot, ticket, packet));
        if let Some(flight) = self.flights.settle(flight) {
            self.note_loss(now, &flight);
        }
        Ok(())
    }

    fn on_marks(&mut self, now: Time, number: u16, marks: u32) {
        let Some(slot) = self.hear(now, number) else { return };
        let Some(frame) = self.slots[slot].as_deref_mut() else { return };
        // A count that goes back is an old answer.
        let more = marks.saturating_sub(frame.marks);
        frame.marks = frame.marks.max(marks);
        if more > 0 {
            self.counters.congestion_marks += u64::from(more);
            self.congestion.on_ecn(now, u64::from(more));
        }
    }

    //= V-S8
    fn on_missing_header(&mut self, now: Time, number: u16) -> Result<(), Impossible> {
        let Some(&slot) = self.by_number.get(&number) else {
            self.counters.controls_stale += 1;
            return Ok(());
        };
        let timeout = self.rtt.timeout();
        let Some(frame) = self.slots[slot].as_deref_mut() else { return Ok(()) };
        if frame.any_acked {
            let is_stale = frame.answered_at.is_some_and(|at| now.since(at) < timeout);
            self.counters.controls_stale += u64::from(is_stale);
            return if is_stale { Ok(()) } else { Err(Impossible) };
        }
        frame.heard_at = now;
        self.heard_at = now;
        frame.unknown_since.get_or_insert(now);
        let is_old = |at: Time| now.since(at) >= timeout;
        // Repetitions are at least a time-out apart; the first may follow the header at once, because it may have been lost.
        let repeats = frame.headers_sent == 1 || (frame.headers_sent > 1 && is_old(frame.header_sent_at));
        // If the receiver has forgotten the frame, or repetitions do not reach it, then data that nobody takes fill the path,
        // and may be what keeps the header out. So it goes alone until it is answered.
        //= V-S4
        let goes_alone = match frame.state {
            State::Accepted => repeats && frame.answered_at.is_none_or(is_old),
            State::Announced => frame.headers_sent >= HEADERS_WITH_DATA,
        };
        if goes_alone {
            (frame.state, frame.is_unknown) = (State::Announced, true);
        }
        if repeats {
            self.queue_header(slot);
        }
        Ok(())
    }

    /// Ends the frame if all of it is acknowledged; `report` is the packet that says so, if it says what was lost.
    //= V-S9
    fn finish_if_complete(&mut self, number: u16, report: Option<&Control<'_>>) {
        let Some(&slot) = self.by_number.get(&number) else { return };
        let is_done = |frame: &OutFrame| frame.state == State::Accepted && frame.is_complete();
        if !self.slots[slot].as_deref().is_some_and(is_done) {
            return;
        }
        let Some(frame) = self.end(slot) else { return };
        let loss = report.map(|control| loss_of(control, frame.packets));
        let is_kept = loss.as_ref().is_none_or(|loss| keeps_contract(&frame, loss));
        let sent = Sent { size: u64::from(frame.size), packet_bytes: frame.packet_bytes, loss };
        self.report(&frame, if is_kept { Ok(sent) } else { Err(Failure::Breach) });
    }
}

/// Whether the frame may have lost what its receiver says.
fn keeps_contract(frame: &OutFrame, loss: &LossSummary) -> bool {
    let (packets, window) = (frame.packets, u32::from(frame.window));
    // CONS_LOSS 255 does not limit a run, and the application may have said more than that.
    let longest = frame.terms.run_bytes.unwrap_or(0) / u64::from(frame.packet_bytes);
    // A report that did not fit its packet names a part only, and how much it is in all.
    loss.ranges.iter().all(|run| u64::from(run.end - run.start) <= longest)
        && u64::from(loss.lost) <= frame.contract.max_lost_of(packets, window)
        && frame.contract.permits(&loss.ranges, packets, window)
}

/// What the LOSS_REPORT of a packet says, as far as it can be true; its ranges may come in any order.
fn loss_of(control: &Control<'_>, packets: u32) -> LossSummary {
    let mut loss = LossSummary { packets, is_complete: true, ..LossSummary::default() };
    let mut lost = IntervalSet::new();
    for tag in control.tags() {
        let Tag::LossReport(ranges) = tag else { continue };
        for (first, count) in ranges.iter() {
            if first == REPORT_OVERFLOW {
                loss.is_complete = false;
                loss.lost = loss.lost.max(count.min(packets));
                continue;
            }
            let end = first.saturating_add(count).min(packets);
            if first < end {
                lost.insert(u64::from(first)..u64::from(end));
            }
        }
    }
    loss.ranges = lost.iter().map(|range| range.start as u32..range.end as u32).collect();
    let told = loss.ranges.iter().map(|range| range.end - range.start).sum();
    loss.lost = loss.lost.max(told);
    loss.longest_run = loss.ranges.iter().map(|range| range.end - range.start).max().unwrap_or(0);
    loss
}
