//! What leaves: answers to strangers, what is said about blocks, and blocks (specs/a1.md, 1 and 1.1).

use crate::connection::{Answered, Connection, Phase, stamp};
use crate::engine::A1;
use crate::incoming::Due;
use crate::outgoing::{Block as Cut, Next};
use crate::shared::{Payer, Sender, Shared, Turn};
use core::num::NonZeroU32;
use core::time::Duration;
use pinnace_core::{Address, Checksum, ChecksumAt, ChecksumKind, Time, Train};
use pinnace_wire::a1::{self, Block, CHECK_AT, HEADER_BYTES, Header, Ranges};

impl A1 {
    //= A-2
    //= A-4
    pub(crate) fn transmit(&mut self, now: Time, train: &mut Train) -> bool {
        train.begin(Address::Peer, 0);
        self.shared.paths.expire(now);
        self.shared.departure.begin();
        if let Some(reply) = self.shared.replies.pop_front() {
            train.single(reply.to, reply.from, &reply.bytes);
            return true;
        }
        let mut may_send_data = true;
        while let Some(turn) = self.shared.queue.next(may_send_data) {
            let sent = match turn {
                Turn::Control(key) => {
                    let Some(connection) = self.connections.lookup_mut(key) else { return false };
                    let sent = connection.write_control(now, &mut self.shared, train);
                    if let Some(place) = connection.control_place.take() {
                        self.shared.queue.remove_control(place);
                    }
                    self.settle(now, key);
                    sent
                }
                Turn::Data(Sender::Connection(key)) => {
                    let Some(connection) = self.connections.lookup_mut(key) else { return false };
                    let sent = connection.write_data(now, &mut self.shared, train);
                    if self.shared.link_at.is_some() && !sent {
                        may_send_data = false;
                        continue;
                    }
                    // Behind all of its priority, if there is more.
                    if let Some(place) = connection.data_place.take() {
                        self.shared.queue.remove_data(place);
                    }
                    if sent || !connection.is_held_back(&self.shared) {
                        self.settle(now, key);
                    }
                    sent
                }
                Turn::Data(Sender::Cast(cast)) => {
                    let sent = self.transmit_cast(now, cast, train);
                    if self.shared.link_at.is_some() && !sent {
                        may_send_data = false;
                        continue;
                    }
                    sent
                }
            };
            if sent {
                return true;
            }
        }
        false
    }
}

impl A1 {
    /// The blocks of the last train have left by `now`.
    //= A-11
    pub(crate) fn on_left(&mut self, now: Time) {
        let mut departure = core::mem::take(&mut self.shared.departure);
        for (payer, bytes) in departure.drain() {
            match payer {
                Payer::Link => {
                    if let Some(pacer) = &mut self.shared.link {
                        pacer.on_left(now, bytes);
                    }
                }
                Payer::Connection(key) => {
                    if self.connections.lookup_mut(key).is_some_and(|found| found.outgoing.on_left(now, bytes)) {
                        // Its next blocks wait longer than was thought.
                        self.settle(now, key);
                    }
                }
            }
        }
        self.shared.departure = departure;
    }
}

/// Bytes of a CLOSE.
const CLOSE_BYTES: usize = HEADER_BYTES + 2;

/// The checksum that the driver fills in.
pub(crate) fn checksum(has_checksum: bool) -> Option<Checksum> {
    has_checksum.then_some(Checksum {
        kind: ChecksumKind::Internet,
        skip_head: 0,
        skip_tail: 0,
        at: ChecksumAt::Head(CHECK_AT),
    })
}

/// Adds the datagram of a block to a train; begins the train if it is the first.
pub(crate) fn add_block(
    train: &mut Train,
    (to, from): (Address, Option<Address>),
    header: &Header,
    cut: &Cut,
    (is_reliable, is_group): (bool, bool),
) -> bool {
    let len = HEADER_BYTES + cut.place.len as usize;
    if train.is_empty() {
        train.begin(to, len);
        train.set_source(from);
        train.set_checksum(checksum(header.is_checked));
    } else if !train.has_room(len) {
        return false;
    }
    let Some(block) = Block::new(cut.message, cut.index, cut.count) else { return false };
    let block = block.reliable(is_reliable).to_group(is_group);
    train.inline(&a1::data(header, &block, cut.place.len));
    train.payload(cut.place);
    train.end_segment();
    true
}

impl Connection {
    fn header(&self, sequence: u32, edge: u32, stamp: u32, is_retransmitted: bool) -> Header {
        let connection: NonZeroU32 = self.peer_id;
        Header { connection, sequence, edge, stamp, is_checked: self.qos.has_checksum, is_retransmitted }
    }

    /// The edge as the wire has it, in a datagram that may be lost.
    fn edge(&mut self) -> u32 {
        let edge = self.incoming.say_edge();
        self.in_numbers.wire(edge)
    }

    /// One datagram that is no block; false if none is due.
    fn write_control(&mut self, now: Time, shared: &mut Shared, train: &mut Train) -> bool {
        let mut bytes = core::mem::take(&mut shared.scratch);
        bytes.clear();
        match self.phase {
            Phase::Opening if self.open.is_due => self.write_open(now, &mut bytes),
            Phase::Open => self.write_talk(now, shared, &mut bytes),
            Phase::Closing | Phase::TimeWait(_) => self.write_farewell(now, &mut bytes),
            _ => {}
        }
        let has_bytes = !bytes.is_empty();
        if has_bytes {
            train.single(self.peer, self.from, &bytes);
        }
        shared.scratch = bytes;
        has_bytes
    }

    fn write_talk(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<u8>) {
        if self.write_due_accept(out) {
            return;
        }
        let expected = self.in_numbers.wire(self.incoming.next_expected());
        if let Some(echo) = self.qos_reply_due.take()
            && let Some(answered) = self.answered.as_deref_mut()
        {
            let answered = core::mem::replace(answered, Answered { has_left: true, ..*answered });
            let edge = self.edge();
            let header = self.header(answered.sequence, edge, echo, answered.has_left);
            a1::qos_reply(&header, &a1::Change { epoch: answered.epoch, qos: answered.qos }, out);
        } else if let Some(echo) = self.sync_replies_due.pop_front() {
            let edge = self.edge();
            a1::sync_reply(&self.header(expected, edge, echo, false), out);
        } else if self.list_may_leave() && self.incoming.nack_due(now, self.rtt.smoothed()) == Due::Now {
            self.write_nack(now, shared, expected, out);
            self.allowance.spend(1, out.len());
        } else if self.list_may_leave() && self.incoming.ack_due(now, self.rtt.smoothed()) == Due::Now {
            self.write_ack(shared, out);
            self.allowance.spend(1, out.len());
        } else if self.change.qos.is_due && self.is_validated {
            self.write_qos(now, out);
        } else if self.sync_is_due(now, shared) {
            self.write_sync(now, shared, out);
            self.allowance.spend(1, out.len());
        }
    }

    /// ACCEPT, before all else that the opener would drop; false if none is due.
    fn write_due_accept(&mut self, out: &mut Vec<u8>) -> bool {
        let due = if self.accept_may_leave() { self.accept_due.take() } else { None };
        let Some(echo) = due else { return false };
        self.write_accept(echo, out);
        true
    }

    fn write_nack(&mut self, now: Time, shared: &mut Shared, expected: u32, out: &mut Vec<u8>) {
        let mut missing = core::mem::take(&mut shared.ranges);
        let most = Ranges::max_count(shared.control_bytes(self.peer).min(self.largest_allowed())).max(1);
        let is_again = self.incoming.take_nack(now, self.rtt.smoothed(), most, &mut missing);
        if !missing.is_empty() {
            let (edge, echo) = (self.edge(), self.peer_stamp.unwrap_or(0));
            let numbers = self.in_numbers;
            shared.wire_ranges.clear();
            shared.wire_ranges.extend(missing.iter().map(|(low, high)| (numbers.wire(*low), numbers.wire(*high))));
            a1::nack(&self.header(expected, edge, echo, is_again), Ranges::from_slice(&shared.wire_ranges), out);
            shared.counters.nacks_sent += 1;
        }
        shared.ranges = missing;
    }

    fn write_ack(&mut self, shared: &mut Shared, out: &mut Vec<u8>) {
        let most = Ranges::max_count(shared.control_bytes(self.peer).min(self.largest_allowed()));
        let numbers = self.in_numbers;
        let (expected, edge, ranges) = self.incoming.take_ack();
        shared.wire_ranges.clear();
        shared.wire_ranges.extend(ranges.take(most).map(|(low, high)| (numbers.wire(low), numbers.wire(high))));
        let echo = self.peer_stamp.unwrap_or(0);
        let header = self.header(numbers.wire(expected), numbers.wire(edge), echo, false);
        a1::ack(&header, Ranges::from_slice(&shared.wire_ranges), out);
        shared.counters.acks_sent += 1;
    }

    //= A-12
    fn write_qos(&mut self, now: Time, out: &mut Vec<u8>) {
        let Some((qos, from)) = self.change.asked else {
            self.change.qos.stop();
            return;
        };
        let epoch = self.change.epoch;
        let edge = self.edge();
        let header = self.header(self.out_numbers.wire(from), edge, stamp(now), self.change.qos.sent > 0);
        a1::qos(&header, &a1::Change { epoch, qos }, out);
        self.change.qos.on_sent(now, self.rtt.timeout());
        self.sync.asked_since.get_or_insert(now);
    }

    //= A-8
    fn write_sync(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<u8>) {
        let (edge, stamp) = (self.edge(), stamp(now));
        // What the group has sent is not new, though it may not have left here. (To a raw sink all of it would be lost then.)
        let group_sent = if self.qos.has_retransmission { self.group_sent } else { 0 };
        let sent = self.outgoing.sent().max(group_sent);
        a1::sync(&self.header(self.out_numbers.wire(sent), edge, stamp, false), out);
        self.sync.is_due = false;
        (self.sync.last_at, self.sync.sent) = (now, self.outgoing.sent());
        // Who is asked only whether it is there has been silent before, too; but half of the time is for the answer.
        let before = now.since(self.last_heard).min(shared.config.silence / 2);
        let credit = if self.outgoing.needs_sync() { Duration::ZERO } else { before };
        self.sync.on_sent(now, stamp, Time::from_nanos(now.as_nanos() - credit.as_nanos() as u64));
        shared.counters.syncs_sent += 1;
    }

    pub(crate) fn write_farewell(&mut self, now: Time, out: &mut Vec<u8>) {
        if self.phase == Phase::Closing && self.write_due_accept(out) {
            return;
        }
        let edge = self.edge();
        if let Some((code, echo)) = self.close_replies_due.pop_front() {
            let expected = self.in_numbers.wire(self.incoming.next_expected());
            let is_again = self.close_replied.replace(code) == Some(code);
            let first = self.close_replied_at.map_or(now, |(first, _)| first);
            self.close_replied_at = Some((first, now));
            a1::close_reply(&self.header(expected, edge, echo, is_again), code, out);
        } else if self.phase == Phase::Closing && self.close.is_due {
            let sent = self.out_numbers.wire(self.outgoing.end());
            // Whoever has not shown that it is there is not told more often than it may be.
            if self.largest_allowed() >= CLOSE_BYTES {
                self.allowance.spend(1, CLOSE_BYTES);
                a1::close(&self.header(sent, edge, stamp(now), self.close.sent > 0), self.close_code, out);
            }
            self.close.on_sent(now, self.rtt.timeout());
        }
    }

    /// Whether it is better to wait for a fuller train: the application is still queueing, and what is under way keeps the
    /// peer busy meanwhile.
    pub(crate) fn is_held_back(&self, shared: &Shared) -> bool {
        if !shared.is_held || self.outgoing.has_repairs() {
            return false;
        }
        self.may_wait_with(self.outgoing.queued_blocks())
    }

    /// Whether what is under way keeps the peer busy, and `queued` blocks are no train yet that is worth a call.
    pub(crate) fn may_wait_with(&self, queued: u64) -> bool {
        // Three trains share a window, so that the peer always has one to read.
        let worth = (self.outgoing.terms().window / 3).min(64);
        // One block under way may be the question that this one answers.
        self.outgoing.sent() > self.outgoing.acked() + 1 && queued < worth
    }

    /// Whether it is held back already, and still is.
    pub(crate) fn is_waiting_for_more(&self, shared: &Shared) -> bool {
        shared.held.last() == Some(&Sender::Connection(self.key)) && self.is_held_back(shared)
    }

    /// Blocks: repetitions first, then new ones; false if none may leave.
    fn write_data(&mut self, now: Time, shared: &mut Shared, train: &mut Train) -> bool {
        if self.is_held_back(shared) {
            // Taken up again when the application has stopped queueing.
            shared.held.push(Sender::Connection(self.key));
            return false;
        }
        while let Next::Block(cut) = self.next_block(now) {
            let len = HEADER_BYTES + cut.place.len as usize;
            if !shared.link_allows(now, len as u64) {
                break;
            }
            let edge = self.edge();
            let is_again = cut.is_repetition || self.has_left_to_group(cut.number);
            let header = self.header(self.out_numbers.wire(cut.number), edge, stamp(now), is_again);
            if !add_block(train, (self.peer, self.from), &header, &cut, (self.qos.has_retransmission, false)) {
                break;
            }
            self.outgoing.on_sent(now, &cut);
            if self.outgoing.is_limited() {
                shared.departure.add(Payer::Connection(self.key), cut.place.len.into(), train);
            }
            shared.on_sent(now, len as u64, train);
            let counters = &mut shared.counters;
            counters.blocks_sent += 1;
            counters.blocks_repeated += u64::from(is_again);
            counters.bytes_sent += u64::from(cut.place.len);
            self.repeated += u64::from(is_again);
        }
        if train.is_empty() {
            return false;
        }
        self.incoming.on_answered();
        self.follow_with_ack(now, shared, train);
        true
    }

    /// Adds an ACK that is due to a train of blocks, of which it is the last datagram: one call instead of two, for both
    /// ends. Only the small one of a peer that lacks nothing; the others have a call of their own.
    fn follow_with_ack(&mut self, now: Time, shared: &mut Shared, train: &mut Train) {
        let is_small = self.phase == Phase::Open && self.is_validated && !self.incoming.has_ahead();
        // Behind a lone block it leaves by itself: whoever waits for the block has it sooner, and reads the ACK while we wait.
        if train.segments() == 1 {
            return;
        }
        if !is_small || !train.has_room(HEADER_BYTES) || self.incoming.ack_due(now, self.rtt.smoothed()) != Due::Now {
            return;
        }
        let mut bytes = core::mem::take(&mut shared.scratch);
        bytes.clear();
        self.write_ack(shared, &mut bytes);
        if train.checksum().is_some() {
            // Filled in for every datagram of the train.
            bytes[CHECK_AT..CHECK_AT + 2].fill(0);
        }
        train.inline(&bytes);
        train.end_segment();
        shared.scratch = bytes;
    }
}
