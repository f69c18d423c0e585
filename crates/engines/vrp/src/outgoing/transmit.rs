//! What leaves, and in which order: PING, headers, what is said of contracts and ends, packets to send again, new packets
//! of all frames in turn.

use super::flights::Cargo;
use super::frame::{Cell, OutFrame, State};
use super::{Outgoing, Path, SENDING_TOGETHER};
use pinnace_core::{Address, BufferRange, DeliveryStamp, Ecn, Time, Train, TrainLimits};
use pinnace_wire::vrp::{ControlWriter, END, HEADER_BYTES, MAX_ANSWER_BYTES, MAX_PACKET_BYTES, Tag, tag_bytes};

/// Packets that a frame contributes in its turn at most.
const TURN: u32 = 16;

/// Short packets that one train leaves to the next at most.
const MOST_PUT_OFF: usize = 64;

/// Bytes that a frame sends at most before it stands back behind all others.
const STINT: u64 = 1 << 20;
/// How long a stint lasts at most, as a part of a second: no frame waits so long that its receiver takes it for dead.
const STINTS_PER_SECOND: u64 = 10;

/// A packet that goes next.
#[derive(Clone, Copy, Debug)]
struct Pick {
    slot: usize,
    packet: u32,
    from: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Again,
    Echo,
    New,
}

impl Outgoing {
    pub(crate) fn poll_transmit(&mut self, now: Time, train: &mut Train) -> bool {
        train.begin(Address::Peer, 0);
        if self.closed {
            return false;
        }
        if let Some(left) = self.farewell {
            return self.poll_farewell(left, train);
        }
        self.watch_allowed_rate(now);
        self.paced_until = None;
        if self.poll_ping(now, train) {
            return true;
        }
        let leaves = self.poll_rates(train)
            || self.poll_questions(now, train)
            || self.poll_closes(now, train)
            || (!self.holds_back(train.limits())
                && (self.poll_headers(now, train)
                    // Data do not overtake a header that waits for the pace.
                    || (self.paced_until.is_none() && self.poll_data(now, train))));
        self.is_leaving &= leaves;
        if leaves {
            self.show_life(now);
        }
        leaves
    }

    /// Whether it is better to wait for fuller trains: the application is still queueing, and what is under way keeps the peer
    /// busy meanwhile.
    fn holds_back(&mut self, limits: TrainLimits) -> bool {
        if !self.is_held || self.is_leaving || !self.again.is_empty() || !self.echoes.is_empty() {
            return false;
        }
        let first = self.headers.front().or(self.ready.front());
        let Some(frame) = first.and_then(|&(slot, ticket)| self.frame(slot, ticket)) else { return false };
        if frame.headers_sent > 0 && frame.header_queued {
            // It is repeated.
            return false;
        }
        let headers = (self.headers.len() * frame.header_bytes()) as u64;
        let queued = headers + self.unsent_bytes.iter().sum::<u64>();
        let waits = limits.is_worth_waiting(queued, self.flights.bytes(), frame.largest_datagram(), 0);
        self.is_leaving = !waits;
        waits
    }

    /// The PING has the size of a full packet, so that the round trip is that of a full packet.
    //= V-S3
    //= V-S10
    fn poll_ping(&mut self, now: Time, train: &mut Train) -> bool {
        if self.path == Path::Unknown {
            self.carried.stop();
        }
        let Some(size) = self.carried.take_ping() else { return false };
        let micros = now.as_nanos() / 1000;
        // The receiver returns the bytes unread; that nobody can guess them keeps forged answers out.
        let seconds = ((micros / 1_000_000) as u32) ^ self.random.next_u32();
        let mut stamp = [0; 8];
        stamp[..4].copy_from_slice(&seconds.to_be_bytes());
        stamp[4..].copy_from_slice(&((micros % 1_000_000) as u32).to_be_bytes());
        let len = (size as usize).clamp(16, HEADER_BYTES + MAX_PACKET_BYTES);
        let mut bytes = vec![0; len];
        let mut writer = ControlWriter::new(&mut bytes, 0);
        writer.push(&Tag::Ping(stamp));
        writer.pad_to(len);
        writer.finish();
        // What LAST leaves over is padding too.
        train.begin(Address::Peer, len);
        train.inline(&bytes);
        train.end_segment();
        self.remember_ping(stamp, now, size);
        self.counters.bytes_sent += len as u64;
        true
    }

    //= V-S4
    fn poll_headers(&mut self, now: Time, train: &mut Train) -> bool {
        let mut stamp = None;
        while let Some(&(slot, ticket)) = self.headers.front() {
            let Some(frame) = self.frame(slot, ticket).filter(|frame| frame.header_queued) else {
                self.headers.pop_front();
                continue;
            };
            if frame.state == State::Accepted && frame.any_acked {
                // Never again, once anything is acknowledged (V-S8).
                if let Some(frame) = self.frame_mut(slot, ticket) {
                    frame.header_queued = false;
                }
                self.headers.pop_front();
                continue;
            }
            let len = frame.header_bytes();
            if train.is_empty() {
                let ready_at = self.pacer.ready_at(now, len as u64);
                if ready_at > now {
                    self.paced_until = Some(ready_at);
                    return false;
                }
                train.begin(Address::Peer, len);
            } else if len != train.segment_size()
                || !train.has_room(len)
                || self.pacer.available(now) < (train.bytes() + len) as u64
            {
                break;
            }
            self.headers.pop_front();
            let stamp = *stamp.get_or_insert_with(|| self.delivery.on_sent(now, len as u64, self.flights.bytes()));
            self.write_header(now, train, slot, ticket, len, stamp);
        }
        if train.is_empty() {
            return false;
        }
        self.on_left(now, train);
        true
    }

    fn write_header(
        &mut self,
        now: Time,
        train: &mut Train,
        slot: usize,
        ticket: u64,
        len: usize,
        stamp: DeliveryStamp,
    ) {
        let grace = self.grace();
        let Self { slots, flights, counters, headers, .. } = self;
        let Some(frame) = slots[slot].as_deref_mut() else { return };
        train.inline(&frame.header);
        if frame.header_has_data {
            train.payload(BufferRange::new(frame.buffer, 0, frame.size));
            train.inline(&END);
        }
        train.end_segment();
        flights.settle(frame.header_flight);
        frame.header_flight = match frame.state {
            State::Announced => flights.push(slot, ticket, Cargo::Header, len, stamp, grace),
            State::Accepted => 0,
        };
        if frame.headers_sent == 0 {
            // An answer is owed from now on.
            frame.heard_at = frame.heard_at.max(now);
        }
        frame.headers_sent += 1;
        frame.header_sent_at = now;
        frame.header_queued = false;
        counters.headers_sent += 1;
        if frame.headers_sent == 1 && frame.repeat_until.is_some() {
            // A frame with a deadline has no time for a lost header.
            frame.header_queued = true;
            headers.push_back((slot, ticket));
        }
        self.make_ready(slot);
    }

    fn on_left(&mut self, now: Time, train: &Train) {
        let bytes = train.bytes() as u64;
        self.counters.bytes_sent += bytes;
        self.congestion.on_sent(now, bytes, self.flights.bytes().saturating_sub(bytes));
        self.pacer.take(now, bytes);
    }

    fn poll_rates(&mut self, train: &mut Train) -> bool {
        while let Some((slot, ticket)) = self.rates.pop_front() {
            let Some(frame) = self.frame(slot, ticket) else { continue };
            let mut bytes = [0; 16];
            let mut writer = ControlWriter::new(&mut bytes, frame.number);
            writer.push(&Tag::LossRateNow { count: frame.rate_count, rate: frame.rate_now });
            let len = writer.finish();
            train.single(Address::Peer, None, &bytes[..len]);
            self.counters.bytes_sent += len as u64;
            return true;
        }
        false
    }

    /// FRAME_CLOSE of frames that no header took along in time.
    //= V-S9
    fn poll_closes(&mut self, now: Time, train: &mut Train) -> bool {
        if self.close_at.is_none_or(|close_at| close_at > now) {
            return false;
        }
        let mut bytes = [0; MAX_ANSWER_BYTES];
        let most = self.carried.most(MAX_ANSWER_BYTES);
        let mut writer = ControlWriter::new(&mut bytes[..most], 0);
        while let Some(&number) = self.closes.front()
            && writer.push(&Tag::FrameClose(number))
        {
            self.closes.pop_front();
        }
        if self.closes.is_empty() {
            self.close_at = None;
        }
        if writer.is_empty() {
            return false;
        }
        let len = writer.finish();
        train.single(Address::Peer, None, &bytes[..len]);
        self.counters.bytes_sent += len as u64;
        true
    }

    /// FRAME_CLOSE of every frame, in packets one after the other, and all of it twice.
    //= V-S4
    fn poll_farewell(&mut self, left: u32, train: &mut Train) -> bool {
        let per_packet =
            (self.carried.most(MAX_ANSWER_BYTES) - ControlWriter::EMPTY_BYTES) / tag_bytes(&Tag::FrameClose(0));
        let packets = self.farewell_closes.len().div_ceil(per_packet);
        let at = self.farewell_sent;
        let Some(numbers) = self.farewell_closes.chunks(per_packet).nth(at % packets.max(1)) else {
            self.farewell = Some(0);
            self.end_farewell();
            return false;
        };
        let mut bytes = [0; MAX_ANSWER_BYTES];
        let mut writer = ControlWriter::new(&mut bytes, 0);
        for &number in numbers {
            writer.push(&Tag::FrameClose(number));
        }
        let len = writer.finish();
        train.single(Address::Peer, None, &bytes[..len]);
        self.counters.bytes_sent += len as u64;
        self.farewell_sent += 1;
        if self.farewell_sent.is_multiple_of(packets) {
            self.farewell = Some(left - 1);
            self.end_farewell();
        }
        true
    }

    fn poll_data(&mut self, now: Time, train: &mut Train) -> bool {
        self.turn += 1;
        let Some(first) = self.pick() else {
            if self.flights.bytes() < self.window() {
                self.delivery.on_app_limited(self.flights.bytes());
            }
            return false;
        };
        let first_bytes = self.pick_bytes(first);
        if !self.window_open(first_bytes) {
            return false;
        }
        let ready_at = self.pacer.ready_at(now, first_bytes as u64);
        if ready_at > now {
            self.paced_until = Some(ready_at);
            return false;
        }
        let budget = self.pacer.available(now).max(first_bytes as u64);
        let in_flight = self.flights.bytes();
        train.begin(Address::Peer, first_bytes);
        if self.config.ecn {
            train.set_ecn(Ecn::Capable0);
        }
        let stamp = self.delivery.on_sent(now, first_bytes as u64, in_flight);
        self.write_packet(now, train, first, first_bytes, stamp);
        while let Some((pick, bytes)) = self.pick_for(train, budget) {
            if bytes == train.segment_size() || !self.put_off(pick) {
                self.write_packet(now, train, pick, bytes, stamp);
            }
        }
        while let Some(entry) = self.put_off.pop() {
            self.ready.push_front(entry);
        }
        if let Some((pick, bytes)) = self.pick_for(train, budget) {
            self.write_packet(now, train, pick, bytes, stamp);
        }
        self.on_left(now, train);
        true
    }

    /// The packet that goes next, and the bytes of its datagram, if it still fits the train.
    fn pick_for(&mut self, train: &Train, budget: u64) -> Option<(Pick, usize)> {
        let pick = self.pick()?;
        let bytes = self.pick_bytes(pick);
        let fits = train.has_room(bytes) && (train.bytes() + bytes) as u64 <= budget && self.window_open(bytes);
        fits.then_some((pick, bytes))
    }

    /// A short packet ends a train: those of many frames leave together, behind the full ones. Says whether it was put off.
    fn put_off(&mut self, pick: Pick) -> bool {
        let is_put_off = pick.from == Source::New && self.put_off.len() < MOST_PUT_OFF;
        if is_put_off {
            self.put_off.extend(self.ready.pop_front());
        }
        is_put_off
    }

    /// Whether `bytes` more may be in flight. A single datagram always may.
    fn window_open(&self, bytes: usize) -> bool {
        let in_flight = self.flights.bytes();
        in_flight == 0 || in_flight + bytes as u64 <= self.window()
    }

    fn pick_bytes(&self, pick: Pick) -> usize {
        self.slots[pick.slot]
            .as_deref()
            .map_or(0, |frame| frame.datagram_bytes(pick.packet))
            .min(HEADER_BYTES + MAX_PACKET_BYTES)
    }

    /// The packet that goes next: what must be sent again, then new packets of the frames in turn. A frame whose share of
    /// this train is used up ends the train, but not its turn: the closer its packets follow each other, the sooner the
    /// receiver decides about those that are lost.
    //= V-S12
    fn pick(&mut self) -> Option<Pick> {
        while let Some(&(slot, ticket, packet)) = self.again.front() {
            let is_wanted = |cell: &Cell| cell.queued && !cell.acked;
            if self.known(slot, ticket).and_then(|frame| frame.cell(packet)).is_some_and(is_wanted) {
                return Some(Pick { slot, packet, from: Source::Again });
            }
            self.again.pop_front();
        }
        while let Some(&(slot, ticket, packet)) = self.echoes.front() {
            if self.known(slot, ticket).and_then(|frame| frame.cell(packet)).is_some_and(|cell| !cell.acked) {
                return Some(Pick { slot, packet, from: Source::Echo });
            }
            self.echoes.pop_front();
        }
        while let Some(&(slot, ticket)) = self.ready.front() {
            let turn = self.turn;
            let Some(frame) = self.frame_mut(slot, ticket) else {
                self.ready.pop_front();
                continue;
            };
            if !frame.has_new() {
                frame.is_ready = false;
                self.ready.pop_front();
                continue;
            }
            if frame.turn == turn && frame.share >= frame.train_share() {
                return None;
            }
            return Some(Pick { slot, packet: frame.next, from: Source::New });
        }
        None
    }

    /// A frame, unless its data wait until its receiver knows it: what is to be sent again is queued anew then.
    fn known(&self, slot: usize, ticket: u64) -> Option<&OutFrame> {
        self.frame(slot, ticket).filter(|frame| !frame.is_unknown && !frame.is_doubted)
    }

    fn write_packet(&mut self, now: Time, train: &mut Train, pick: Pick, bytes: usize, stamp: DeliveryStamp) {
        let Pick { slot, packet, from } = pick;
        let turn = self.turn;
        let fair_share = self.window() / self.ready.len().clamp(1, SENDING_TOGETHER) as u64;
        let stint = STINT.min(self.window() / 2).min(self.pacer.rate().unwrap_or(u64::MAX) / STINTS_PER_SECOND);
        let grace = self.grace();
        let Self { slots, flights, counters, again, echoes, ready, unsent_bytes, .. } = self;
        let Some(frame) = slots[slot].as_deref_mut() else { return };
        train.inline(&frame.packet_header(packet));
        train.payload(frame.data_of(packet));
        train.end_segment();
        counters.packets_sent += 1;
        let ticket = frame.ticket;
        frame.served_at = now;
        if frame.state == State::Accepted && !frame.has_pending() {
            // Nothing of the frame waited for an answer: silence counts from now on.
            frame.heard_at = frame.heard_at.max(now);
        }
        match from {
            Source::Again => {
                again.pop_front();
                counters.packets_resent += 1;
                let id = flights.push(slot, ticket, Cargo::Packet(packet), bytes, stamp, grace);
                frame.on_sent_again(packet, id);
            }
            Source::Echo => {
                echoes.pop_front();
                counters.packets_resent += 1;
                frame.on_echoed(packet);
            }
            Source::New => {
                let id = flights.push(slot, ticket, Cargo::Packet(packet), bytes, stamp, grace);
                let data = (bytes - HEADER_BYTES) as u32;
                frame.on_sent(id);
                frame.unsent -= data;
                unsent_bytes[usize::from(frame.is_small())] -= u64::from(data);
                if frame.turn != turn {
                    (frame.turn, frame.share) = (turn, 0);
                }
                frame.share += 1;
                frame.served += 1;
                // No frame waits for longer than a window of the others: that is how the silent ones stay alive.
                let fair = fair_share / bytes as u64;
                let turn_is_over = u64::from(frame.served) >= fair.min(u64::from(frame.train_share().min(TURN)));
                if turn_is_over || !frame.has_new() {
                    frame.served = 0;
                }
                frame.stint += bytes as u64;
                let stint_is_over = turn_is_over && frame.stint >= stint;
                if frame.next == frame.packets && frame.repeat_until.is_some() {
                    // Only a packet that arrives makes the receiver decide about those before it, and a frame with a
                    // deadline has no time for a lost last one.
                    echoes.push_back((slot, ticket, packet));
                }
                if !frame.has_new() {
                    frame.is_ready = false;
                    ready.pop_front();
                } else if stint_is_over {
                    frame.stint = 0;
                    frame.ready_since = counters.bytes_sent;
                    ready.rotate_left(1);
                } else if turn_is_over && let Some(front) = ready.pop_front() {
                    ready.insert(ready.len().min(SENDING_TOGETHER - 1), front);
                }
            }
        }
    }
}
