//! What a read brings: data packets for their frames, and control packets.

use super::answer::{Notes, Reply};
use super::crowding;
use super::early::{EarlyPacket, Kept};
use super::frame::{self, Frame, Incomplete, Outcome};
use super::offer::{HOLE_BYTES, Offer};
use super::source::{Sources, Standing};
use super::{Incoming, SHORT_ANSWER_BYTES, Timer};
use crate::{Event, FrameId};
use pinnace_core::{Address, BufferId, BufferRange, Ecn, LossDecider, Placed, RxMeta, Segment, Time};
use pinnace_wire::vrp::{Control, ControlWriter, HEADER_BYTES, Header, Tag, tag_bytes};

/// A frame header that came, and what it came in.
struct Arrived<'r, 'p> {
    now: Time,
    meta: &'r RxMeta,
    segment: &'r Segment,
    rx: &'r mut Placed<'p>,
    /// Bytes of it that answers for its frame may cost.
    credit: usize,
}

/// What there is of a frame before its block.
struct First {
    decider: LossDecider,
    notes: Notes,
    /// All of it came with its header, and is taken.
    takes_inline: bool,
    /// What came early, and where it belongs.
    pieces: Vec<(u64, Vec<u8>)>,
    /// Bytes that answers may cost.
    budget: u64,
    /// How many of its datagrams were marked.
    marks: u32,
    has_data: bool,
    /// Its last packet came early, and counts as lost for now.
    is_held_back: bool,
}

/// What becomes of a frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Its frame is coming, or has come.
    Taken,
    /// Its frame will not come.
    Refused,
    /// It is refused, and nothing is lost by that: its frame has ended, or is another and goes on.
    Useless,
}

impl Incoming {
    /// The datagrams of one read: all from one sender.
    pub(super) fn read(&mut self, now: Time, meta: &RxMeta, rx: &mut Placed<'_>) {
        let mut scratch = core::mem::take(&mut self.scratch);
        // Runs of packets of one frame are the rule: it is looked up once.
        let mut known: Option<(u16, u32)> = None;
        // What does not parse changes nothing, and is no sign of life.
        let mut is_heard = false;
        while let Some(segment) = rx.next_segment() {
            is_heard |= match rx.head::<HEADER_BYTES>(&segment).map(|head| Header::parse(&head)) {
                Some(Header::Data { frame, packet }) => {
                    let index = match known {
                        Some((number, index)) if number == frame => Some(index),
                        _ => self.sources.frame(&meta.source, frame),
                    };
                    match index {
                        Some(index) => {
                            known = Some((frame, index));
                            self.on_data(now, meta, &segment, rx, index, packet)
                        }
                        None => {
                            self.on_stray(now, meta, rx.whole(&segment, &mut scratch), frame, packet);
                            true
                        }
                    }
                }
                Some(Header::Control { .. }) => {
                    known = None;
                    let bytes = rx.whole(&segment, &mut scratch);
                    self.on_control(now, meta, &segment, rx, bytes)
                }
                None => {
                    self.counters.datagrams_malformed += 1;
                    false
                }
            }
        }
        if let Some(source) = self.sources.find_mut(&meta.source).filter(|_| is_heard) {
            source.heard = now;
        }
        self.scratch = scratch;
    }

    /// A data packet of a known frame. Returns whether it parses.
    fn on_data(
        &mut self,
        now: Time,
        meta: &RxMeta,
        segment: &Segment,
        rx: &mut Placed<'_>,
        index: u32,
        packet: u32,
    ) -> bool {
        let waits = |frame: &Frame| frame.incomplete().is_some_and(|it| crowding::waits_for_room(&it.contract));
        let size = self.frames.get(index).filter(|frame| waits(frame)).map(|frame| frame.size);
        let is_crowded = size.is_some_and(|size| self.is_crowded(size));
        let Some(frame) = self.frames.get_mut(index) else { return true };
        let is_new = packet >= frame.next_expected();
        match frame.on_data(now, meta.destination, packet, segment.len, is_crowded) {
            Outcome::Malformed => {
                self.counters.datagrams_malformed += 1;
                return false;
            }
            Outcome::Unwanted => self.counters.packets_unwanted += 1,
            Outcome::HeldBack => self.hold_back(index),
            Outcome::Stored(to) => {
                let copied = rx.settle(segment, HEADER_BYTES..segment.len, to);
                self.counters.packets_received += 1;
                self.counters.bytes_received += u64::from(to.len);
                self.counters.packets_in_place += u64::from(copied == 0);
                self.counters.packets_copied += u64::from(copied > 0);
                self.counters.bytes_copied += u64::from(copied);
                let id = frame.id;
                self.expected = Some((index, id, packet + 1));
                if is_new {
                    self.on_turn(index, id);
                }
            }
        }
        let Some(frame) = self.frames.get_mut(index) else { return true };
        if meta.ecn == Ecn::Congested {
            frame.marks = frame.marks.saturating_add(1);
            self.counters.congestion_marks += 1;
        }
        if frame.is_deliverable() {
            self.deliver(now, index);
        }
        self.announce(index);
        true
    }

    /// A data packet of a frame that has no block.
    //= V-R6
    fn on_stray(&mut self, now: Time, meta: &RxMeta, datagram: &[u8], number: u16, packet: u32) {
        self.counters.packets_unknown += 1;
        let data = &datagram[HEADER_BYTES..];
        // V-R13: only packets of at least ten bytes are answered.
        let answerable = datagram.len() >= SHORT_ANSWER_BYTES;
        let is_early = match self.sources.find(&meta.source) {
            Some(source) => match source.standing(number) {
                Standing::Ahead | Standing::Unused => true,
                Standing::Behind => source.epoch.is_none(),
                Standing::Used => false,
            },
            None => true,
        };
        if is_early && !data.is_empty() {
            let marked = meta.ecn == Ecn::Congested;
            let early = EarlyPacket { packet, data: data.to_vec(), marked };
            let key = (meta.source, number);
            let kept = self.early.keep(now, &self.config.limits, key, meta.destination, early, answerable);
            self.counters.packets_early += u64::from(kept == Kept::Stored);
            if kept != Kept::Nothing {
                return;
            }
        }
        if answerable {
            let tag = Tag::MissingHeader(number);
            let reply = Reply::new(meta.source, meta.destination, number, SHORT_ANSWER_BYTES, [tag]);
            // One answer a batch is enough.
            if self.replies.back() != Some(&reply) {
                self.queue(reply);
            }
        }
    }

    /// A control packet: it is read to its end before anything is done. Returns whether it parses.
    fn on_control(&mut self, now: Time, meta: &RxMeta, segment: &Segment, rx: &mut Placed<'_>, bytes: &[u8]) -> bool {
        let Ok(control) = Control::parse(bytes) else {
            self.counters.datagrams_malformed += 1;
            return false;
        };
        let credit = bytes.len() - self.answer_pings(meta, &control, bytes.len());
        let offer = Offer::read(&control);
        let own = offer.as_ref().map(|offer| offer.number);
        let has_offer = offer.is_some();
        let is_past = offer.as_ref().is_some_and(|offer| self.is_of_past_life(now, &meta.source, offer));
        let offer = offer.filter(|_| !is_past);
        for tag in control.tags() {
            if let Tag::FrameClose(number) = tag
                && Some(number) != own
                && !is_past
            {
                self.on_close(meta, rx, number);
            }
        }
        if let Some(offer) = offer {
            if offer.closes_before {
                self.on_close(meta, rx, offer.number);
            }
            let arrived = Arrived { now, meta, segment, rx: &mut *rx, credit };
            let answer = self.on_offer(arrived, &offer, control.is_cut());
            if answer != Answer::Taken {
                self.counters.frames_refused += 1;
                if answer == Answer::Refused
                    && let Some(source) = self.sources.find_mut(&meta.source)
                {
                    source.refuse(offer.number);
                }
                self.early.take(&(meta.source, offer.number));
                if credit >= SHORT_ANSWER_BYTES {
                    self.reply(meta.source, meta.destination, offer.number, Tag::FrameRefused(offer.number));
                }
            }
            if offer.closes_after {
                self.on_close(meta, rx, offer.number);
            }
        }
        self.on_rates(now, meta, &control, if has_offer { 0 } else { credit });
        true
    }

    /// Whether a frame header has been overtaken by the sender's next life: it must not end that. It is not answered either:
    /// a refusal would end the frame of that number in the new life.
    //= V-S2
    fn is_of_past_life(&mut self, now: Time, source: &Address, offer: &Offer<'_>) -> bool {
        let is_past = |epoch| self.sources.find(source).is_some_and(|source| source.is_past(now, epoch));
        let is_stale = offer.epoch.is_some_and(is_past);
        self.counters.headers_stale += u64::from(is_stale);
        is_stale
    }

    /// Answers every PING with its bytes; returns what that costs: never more than came.
    //= V-R20
    fn answer_pings(&mut self, meta: &RxMeta, control: &Control<'_>, len: usize) -> usize {
        let pongs = || {
            control.tags().filter_map(|tag| match tag {
                Tag::Ping(stamp) => Some(Tag::Pong(stamp)),
                _ => None,
            })
        };
        let bytes: usize = pongs().map(|pong| tag_bytes(&pong)).sum();
        if bytes == 0 {
            return 0;
        }
        // Those of a longer datagram than may be answered with are not answered all.
        let room = len.min(ControlWriter::EMPTY_BYTES + bytes).min(self.space.len());
        let reply = Reply::new(meta.source, meta.destination, 0, room, pongs());
        let cost = reply.bytes.len();
        self.queue(reply);
        cost
    }

    /// FRAME_CLOSE: the sender has done with a frame. Of an unknown one it is ignored.
    //= V-R17
    fn on_close(&mut self, meta: &RxMeta, rx: &mut Placed<'_>, number: u16) {
        if let Some(index) = self.sources.frame(&meta.source, number) {
            self.end_frame(index, Some(rx), false);
        }
    }

    /// LOSS_RATE_NOW, of the frame in the packet's header.
    fn on_rates(&mut self, now: Time, meta: &RxMeta, control: &Control<'_>, credit: usize) {
        let mut rates = control.tags().filter_map(|tag| match tag {
            Tag::LossRateNow { count, rate } => Some((count, rate)),
            _ => None,
        });
        let Some(first) = rates.next() else { return };
        let Some(index) = self.sources.frame(&meta.source, control.frame()) else { return };
        let Some(frame) = self.frames.get_mut(index) else { return };
        frame.hear(now, meta.destination, credit);
        for (count, rate) in core::iter::once(first).chain(rates) {
            frame.on_rate_now(count, rate);
        }
    }

    /// A frame header.
    //= V-R1
    //= V-R17
    fn on_offer(&mut self, mut arrived: Arrived<'_, '_>, offer: &Offer<'_>, is_cut: bool) -> Answer {
        // What was not read may be its contract.
        if is_cut {
            let is_known = self.sources.frame(&arrived.meta.source, offer.number).is_some();
            return if is_known { Answer::Useless } else { Answer::Refused };
        }
        let source = arrived.meta.source;
        let past = offer.epoch.and_then(|epoch| self.begin_life(&source, epoch, arrived.rx));
        let standing = self.sources.standing(&source, offer.number);
        if let Some(index) = self.sources.frame(&source, offer.number) {
            if standing != Standing::Ahead {
                let is_known = self.on_repeated_offer(&arrived, offer, index);
                return if is_known { Answer::Taken } else { Answer::Useless };
            }
            // A block of an earlier turn of the numbers.
            self.end_frame(index, Some(arrived.rx), false);
        }
        let is_old = match standing {
            Standing::Ahead | Standing::Unused => false,
            Standing::Used => true,
            Standing::Behind => offer.epoch.is_some(),
        };
        let was_refused = self.sources.find(&source).is_some_and(|source| source.has_refused(offer.number));
        let is_created = !is_old && !was_refused && self.create(&mut arrived, offer);
        if past.is_some()
            && let Some(source) = self.sources.find_mut(&source)
        {
            source.end_life(arrived.now, past);
        }
        match (is_old, is_created) {
            (true, _) => Answer::Useless,
            (false, true) => Answer::Taken,
            (false, false) => Answer::Refused,
        }
    }

    fn on_repeated_offer(&mut self, arrived: &Arrived<'_, '_>, offer: &Offer<'_>, index: u32) -> bool {
        let Some(frame) = self.frames.get_mut(index).filter(|frame| frame.matches(offer)) else { return false };
        frame.hear(arrived.now, arrived.meta.destination, arrived.credit);
        if arrived.meta.ecn == Ecn::Congested {
            frame.marks = frame.marks.saturating_add(1);
            self.counters.congestion_marks += 1;
        }
        frame.answer_header();
        self.announce(index);
        true
    }

    /// Creates the block of a frame, with what has come early for it; returns false if there is no room.
    fn create(&mut self, arrived: &mut Arrived<'_, '_>, offer: &Offer<'_>) -> bool {
        let (now, from) = (arrived.now, arrived.meta.source);
        let cost = u64::from(offer.size) + offer.overhead();
        if offer.packets > self.config.limits.packets || !self.make_room(now, arrived.rx, cost) {
            return false;
        }
        let first = self.gather(arrived, offer);
        let Some(buffer) = self.store(arrived, offer, &first) else { return false };
        let (has_data, is_held_back) = (first.has_data, first.is_held_back);
        let index = self.frames.next_index();
        let frame = self.new_frame(arrived, offer, first, buffer, index);
        let (id, is_done) = (frame.id, frame.is_deliverable());
        self.frames.insert(frame);
        self.bytes += cost;
        if is_held_back {
            self.hold_back(index);
        }
        let (wheel, life) = (&mut self.wheel, self.config.life_timeout);
        let forget = || wheel.insert(Sources::forgotten_at(now, life), Timer::Forget(from));
        let source = self.sources.begin(now, from, offer.number, forget);
        source.frames.insert(offer.number, index);
        source.epoch = offer.epoch.or(source.epoch);
        if is_done {
            self.deliver(now, index);
        } else {
            if !has_data {
                self.push_empty(index, id);
            }
            if self.expected.is_none_or(|(index, id, _)| !self.is_under_way(index, id)) {
                self.expected = Some((index, id, 0));
            }
        }
        self.announce(index);
        true
    }

    /// What there is of a frame already: what its header brings, and what has come early.
    fn gather(&mut self, arrived: &Arrived<'_, '_>, offer: &Offer<'_>) -> First {
        let early = self.early.take(&(arrived.meta.source, offer.number));
        // What is not taken now follows in packets.
        let is_crowded = crowding::waits_for_room(&offer.contract) && self.is_crowded(offer.size);
        let takes_inline = offer.inline.is_some() && !is_crowded;
        let mut first = First {
            decider: Incomplete::decider(offer),
            notes: Notes::frame_ok(),
            takes_inline,
            pieces: Vec::new(),
            budget: arrived.credit as u64,
            marks: u32::from(arrived.meta.ecn == Ecn::Congested),
            has_data: takes_inline,
            is_held_back: false,
        };
        if takes_inline {
            for packet in 0..offer.packets {
                first.decider.on_packet(packet, |_| {});
            }
        }
        for EarlyPacket { packet, data, marked } in early {
            if packet < offer.packets && data.len() as u64 != u64::from(offer.packet_len(packet)) {
                self.counters.datagrams_malformed += 1;
                continue;
            }
            first.has_data = true;
            first.budget += (HEADER_BYTES + data.len()) as u64;
            first.marks += u32::from(marked);
            if is_crowded && packet.checked_add(1) == Some(offer.packets) {
                first.is_held_back = true;
            } else if frame::decide(&mut first.decider, &mut first.notes, packet, first.budget) {
                self.counters.packets_received += 1;
                self.counters.packets_copied += 1;
                self.counters.bytes_received += data.len() as u64;
                self.counters.bytes_copied += data.len() as u64;
                first.pieces.push((u64::from(packet) * u64::from(offer.packet_bytes), data));
            } else {
                self.counters.packets_unwanted += 1;
            }
        }
        first
    }

    /// Storage for a frame, with what there is of it in place; `None`: there is no room.
    fn store(&mut self, arrived: &mut Arrived<'_, '_>, offer: &Offer<'_>, first: &First) -> Option<BufferId> {
        let buffer = arrived.rx.allocate(u64::from(offer.size), &first.pieces)?;
        if !self.make_room_for(&arrived.meta.source) {
            arrived.rx.release(buffer);
            return None;
        }
        if let Some(inline) = offer.inline.as_ref().filter(|_| first.takes_inline) {
            let payload = inline.at..inline.at + inline.bytes.len();
            let copied = arrived.rx.settle(arrived.segment, payload, BufferRange::new(buffer, 0, offer.size));
            self.counters.packets_received += u64::from(offer.packets);
            self.counters.packets_copied += u64::from(offer.packets);
            self.counters.bytes_received += u64::from(offer.size);
            self.counters.bytes_copied += u64::from(copied);
        }
        Some(buffer)
    }

    /// A frame that is about to stand at `index`.
    fn new_frame(
        &mut self,
        arrived: &Arrived<'_, '_>,
        offer: &Offer<'_>,
        first: First,
        buffer: BufferId,
        index: u32,
    ) -> Frame {
        let (now, meta) = (arrived.now, arrived.meta);
        let First { decider, notes, budget, marks, has_data, .. } = first;
        self.counters.congestion_marks += u64::from(marks);
        let id = FrameId(self.next_id);
        self.next_id += 1;
        let timer = self.life_timer(now, index);
        let incomplete = Incomplete::new(offer, decider, buffer);
        let mut frame = Frame::new(now, id, meta.source, meta.destination, offer, incomplete, notes, timer);
        (frame.budget, frame.marks, frame.has_data) = (budget, marks, has_data);
        frame
    }

    fn is_under_way(&self, index: u32, id: FrameId) -> bool {
        self.frames.get(index).is_some_and(|frame| frame.id == id && frame.incomplete().is_some())
    }

    /// Hands a complete frame to the application; of the block only what is needed to answer stays.
    fn deliver(&mut self, now: Time, index: u32) {
        let Some((delivery, overhead)) = self.frames.get_mut(index).and_then(|frame| frame.deliver(now)) else {
            return;
        };
        let holes = HOLE_BYTES * delivery.holes.len() as u64;
        let kept = u64::from(delivery.size) + holes;
        self.bytes = self.bytes + holes - overhead;
        self.delivered_bytes += kept;
        self.crowding.on_delivered(kept);
        self.delivered.insert(delivery.id, kept);
        self.push_finished(index, delivery.id);
        self.counters.frames_received += 1;
        self.counters.packets_lost += u64::from(delivery.loss.lost);
        self.events.push_back(Event::Received(delivery));
    }
}
