//! What arrives: from the datagram to the connection (specs/a1.md, 1.1).
//!
//! The datagrams of a read are taken in as they come; what they call for leaves when all of them have been, repetitions
//! first ([`crate::shared::Queue`]). So the two receive queues of the paper are two queues of answers here.
//= A-3
//= A-4

use crate::connection::{Answered, Connection, GROUP_DELAY, Phase, Repeated, Role, SaidSent};
use crate::engine::A1;
use crate::incoming::{Arrival, Fate, LEAST_COST, Synced};
use crate::shared::Shared;
use crate::{Event, Failure, qos};
use core::ops::Range;
use pinnace_core::{ContextKey, Placed, RxMeta, Segment, Seq32, Time};
use pinnace_wire::a1::{Block, Body, Change, CloseCode, HEADER_BYTES, Head, Header, Kind, Ranges, WINDOW_LIMIT};

/// Control datagrams that are larger are malformed: no path carries them.
const MAX_CONTROL_BYTES: usize = 65_535;
/// CLOSEs of one batch that are answered: nobody says it so often in all.
const MAX_CLOSE_REPLIES: usize = 16;
/// SYNCs of one batch that are answered, the newest: of more nobody needs the round trips.
const MAX_SYNC_REPLIES: usize = 16;
/// Ranges of an ACK or a NACK that are looked at.
const MAX_RANGES: usize = 8192;
/// Ranges of blocks that are remembered as heard from the group.
const MAX_HEARD: usize = 1024;

impl A1 {
    pub(crate) fn read(&mut self, now: Time, meta: &RxMeta, rx: &mut Placed<'_>) {
        while let Some(segment) = rx.next_segment() {
            match self.parse(rx, &segment) {
                Some(head) => self.on_datagram(now, meta, rx, &segment, &head),
                None => self.shared.counters.datagrams_malformed += 1,
            }
        }
        self.settle_touched(now);
    }

    /// A datagram with its checksum, if it has one.
    fn parse(&mut self, rx: &Placed<'_>, segment: &Segment) -> Option<Head> {
        let bytes = rx.head::<HEADER_BYTES>(segment)?;
        let head = Head::parse(&bytes, segment.len, self.shared.config.is_padded).ok()?;
        if head.header.is_checked && !head.verify(rx.pieces(segment, head.summed())) {
            self.shared.counters.checksums_wrong += 1;
            return None;
        }
        Some(head)
    }

    fn on_datagram(&mut self, now: Time, meta: &RxMeta, rx: &mut Placed<'_>, segment: &Segment, head: &Head) {
        if let Some(block) = head.block() {
            self.on_data(now, meta, rx, segment, head, block);
            return;
        }
        let mut scratch = core::mem::take(&mut self.shared.scratch);
        scratch.clear();
        let end = head.datagram_bytes().min(MAX_CONTROL_BYTES);
        for piece in rx.pieces(segment, HEADER_BYTES..end) {
            scratch.extend_from_slice(piece);
        }
        match Body::parse(head, &scratch) {
            Ok(Body::Open(open)) => self.on_open(now, meta, head, &open),
            Ok(body) => self.on_control(now, meta, head, &body),
            Err(_) => self.shared.counters.datagrams_malformed += 1,
        }
        self.shared.scratch = scratch;
    }

    /// The connection that a datagram names, if it comes from there.
    fn lookup(&self, meta: &RxMeta, header: &Header) -> Option<ContextKey> {
        let key = self.connection_of(header.connection)?;
        let connection = self.connections.lookup(key)?;
        (connection.peer == meta.source).then_some(key)
    }

    fn on_data(
        &mut self,
        now: Time,
        meta: &RxMeta,
        rx: &mut Placed<'_>,
        segment: &Segment,
        head: &Head,
        block: &Block,
    ) {
        let key = if block.is_group() {
            self.by_group.get(&(meta.source, head.header.connection)).copied()
        } else {
            self.lookup(meta, &head.header)
        };
        let Some((key, connection)) = key.and_then(|key| Some((key, self.connections.lookup_mut(key)?))) else {
            self.shared.counters.datagrams_unknown += 1;
            return;
        };
        if !connection.is_plausible(head) || block.is_reliable() != connection.qos.has_retransmission {
            self.shared.counters.datagrams_malformed += 1;
            return;
        }
        connection.on_heard(now, head, !block.is_group());
        if !connection.is_validated {
            connection.allowance.earn(1, head.datagram_bytes());
        }
        if connection.phase == Phase::Open {
            connection.on_block(now, &mut self.shared, rx, segment, &head.header, block, head.body_bytes());
            self.newest = Some(key);
        }
        self.touch(key);
    }

    fn on_control(&mut self, now: Time, meta: &RxMeta, head: &Head, body: &Body<'_>) {
        let Some(key) = self.lookup(meta, &head.header) else {
            self.shared.counters.datagrams_unknown += 1;
            return;
        };
        let Some(connection) = self.connections.lookup_mut(key) else { return };
        if connection.phase == Phase::Opening {
            let is_misfit = connection.on_answer(now, &mut self.shared, head, body);
            let has_answered = connection.phase == Phase::Open && connection.cast.is_some();
            if is_misfit {
                self.ask_alone(now, key);
            } else if has_answered {
                self.join_cast(now, key);
            }
            self.touch(key);
            return;
        }
        // What belongs to the set-up is over; and it says of checksums what its connection need not.
        if matches!(head.kind, Kind::Accept | Kind::Reject) {
            return;
        }
        if !connection.is_plausible(head) {
            self.shared.counters.datagrams_malformed += 1;
            return;
        }
        connection.on_heard(now, head, true);
        connection.on_body(now, &mut self.shared, head, body);
        self.touch(key);
    }
}

/// What tells how far the peer is.
#[derive(Clone, Copy)]
enum Said<'a> {
    /// An ACK with these ranges.
    Ack(Ranges<'a>),
    /// A NACK, whose ranges come later.
    Nack,
    SyncReply,
}

impl Connection {
    /// Where checksums are agreed on, every datagram has one.
    fn is_plausible(&self, head: &Head) -> bool {
        head.header.is_checked || !self.qos.has_checksum
    }

    /// A datagram came; `is_ours`: it has our identifier.
    fn on_heard(&mut self, now: Time, head: &Head, is_ours: bool) {
        self.last_heard = now;
        self.sync.asked_since = None;
        if is_ours {
            self.is_validated = true;
            self.accept_due = None;
        }
        if matches!(head.kind, Kind::Data | Kind::Sync) {
            let stamp = head.header.stamp;
            let is_newer = self.peer_stamp.is_none_or(|newest| Seq32::new(newest).before(Seq32::new(stamp)));
            if is_newer {
                self.peer_stamp = Some(stamp);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a datagram is made of these")]
    fn on_block(
        &mut self,
        now: Time,
        shared: &mut Shared,
        rx: &mut Placed<'_>,
        segment: &Segment,
        header: &Header,
        block: &Block,
        len: usize,
    ) {
        if !block.is_group() {
            self.on_edge(header);
        }
        let Some(number) = self.in_numbers.place(header.sequence, self.incoming.next_expected()) else {
            // Before the direction began: of a group that was joined later.
            shared.counters.blocks_duplicate += 1;
            return;
        };
        let arrival = Arrival {
            number,
            message: block.message(),
            index: block.index(),
            count: block.count(),
            len: len as u32,
            is_repetition: header.is_retransmitted,
            starts: block.is_start(),
            ends: block.is_end(),
        };
        // What makes others readable has room wherever its bytes have.
        let is_vital = number == self.incoming.next_expected() && self.incoming.readable().is_none();
        let beside = if is_vital { 0 } else { shared.beside };
        let room = shared.config.limits.bytes.saturating_sub(shared.bytes + beside);
        if len == 0 && room < LEAST_COST && !is_vital {
            shared.counters.blocks_dropped += 1;
            self.incoming.hurry_ack();
            return;
        }
        let mut allocated = 0;
        let took = self.incoming.on_block(now, &arrival, &mut |bytes| {
            let cost = if is_vital { bytes } else { bytes.max(LEAST_COST) };
            if cost > room - allocated.min(room) {
                return None;
            }
            allocated += cost;
            rx.allocate(bytes, &[])
        });
        let counters = &mut shared.counters;
        counters.blocks_received += 1;
        counters.blocks_lost += took.lost;
        self.lost += took.lost;
        match took.fate {
            Fate::New => counters.messages_received += u64::from(arrival.ends),
            Fate::Duplicate => counters.blocks_duplicate += 1,
            Fate::Beyond | Fate::NoRoom => counters.blocks_dropped += 1,
            Fate::Contradiction => counters.blocks_contradictory += 1,
        }
        if let Some(place) = took.place {
            let copied = u64::from(rx.settle(segment, HEADER_BYTES..HEADER_BYTES + len, place));
            counters.bytes_received += u64::from(place.len);
            counters.bytes_copied += copied;
            counters.bytes_in_place += u64::from(place.len) - copied;
        }
        if took.is_readable {
            shared.tell_readable(self.id());
        }
        self.count_bytes(shared);
    }

    pub(crate) fn count_bytes(&mut self, shared: &mut Shared) {
        let bytes = self.incoming.allocated();
        shared.bytes = shared.bytes + bytes - self.bytes;
        let beside = self.incoming.beside();
        shared.beside = shared.beside + beside - self.beside;
        (self.bytes, self.beside) = (bytes, beside);
    }

    /// The edge of a datagram that says nothing else about our blocks.
    fn on_edge(&mut self, header: &Header) {
        if let Some(edge) = self.edge_if_told(header, self.outgoing.acked()) {
            self.outgoing.on_edge(edge);
        }
    }

    /// The edge of a datagram that is not sent to tell one. Whoever believes that its type has none says 0: then a real edge
    /// of 0 is only told by the next ACK.
    fn edge_if_told(&self, header: &Header, near: u64) -> Option<u64> {
        if header.edge == 0 { None } else { self.out_numbers.place(header.edge, near) }
    }

    fn on_body(&mut self, now: Time, shared: &mut Shared, head: &Head, body: &Body<'_>) {
        let header = &head.header;
        match (self.phase, body) {
            (Phase::Open, Body::Close(CloseCode::Normal)) if self.waits_for_group(now, header, true) => {}
            (Phase::Open | Phase::Closing, Body::Close(code)) => self.on_close(now, shared, header, *code),
            (Phase::TimeWait(_), Body::Close(code)) => self.answer_close(header, *code),
            (Phase::Closing, Body::CloseReply(_)) => self.on_close_reply(now, shared, header),
            (Phase::Closing, Body::Ack(ranges)) if !self.is_told => {
                shared.counters.answers_received += 1;
                self.on_ack(now, shared, header, Said::Ack(*ranges));
            }
            (Phase::Open, Body::Ack(ranges)) => {
                shared.counters.answers_received += 1;
                self.on_ack(now, shared, header, Said::Ack(*ranges));
            }
            (Phase::Open, Body::Nack(ranges)) => {
                shared.counters.answers_received += 1;
                self.on_nack(now, shared, header, *ranges);
            }
            (Phase::Open, Body::Sync) => {
                self.on_edge(header);
                if self.is_beyond_edge(header.sequence) {
                    shared.counters.blocks_contradictory += 1;
                } else if !self.waits_for_group(now, header, false) {
                    self.on_told_sent(shared, header.sequence);
                }
                if self.sync_replies_due.len() == MAX_SYNC_REPLIES {
                    self.sync_replies_due.pop_front();
                }
                self.sync_replies_due.push_back(header.stamp);
            }
            (Phase::Open, Body::SyncReply) => {
                self.on_round_trip(now, shared, header.stamp);
                self.on_ack(now, shared, header, Said::SyncReply);
            }
            (Phase::Open, Body::Qos(change)) => {
                self.on_edge(header);
                self.on_qos(now, shared, header, change);
            }
            (Phase::Open, Body::QosReply(change)) => {
                self.on_edge(header);
                self.on_qos_reply(now, shared, change);
            }
            _ => {}
        }
    }

    /// What has been received, and how far we may go.
    fn on_ack(&mut self, now: Time, shared: &mut Shared, header: &Header, said: Said<'_>) -> bool {
        let acked = self.outgoing.acked();
        let next = self.out_numbers.place(header.sequence, acked);
        let Some(next) = next else {
            shared.counters.answers_invalid += 1;
            return false;
        };
        let edge = match said {
            Said::Nack => self.edge_if_told(header, next),
            // ACKs follow every opening of the window, and this is asked for if they are lost.
            Said::Ack(_) | Said::SyncReply => self.out_numbers.place(header.edge, next),
        };
        let edge = edge.unwrap_or(0);
        // An edge that went back is no news. (Windows are never so wide that it could be meant.)
        let edge = if edge < self.outgoing.edge() { self.outgoing.edge() } else { edge };
        if next <= self.group_sent {
            self.outgoing.pass_to(now, next);
        }
        let (next, edge) = match self.left_here(next) {
            clipped if clipped < next => (clipped, edge.min(clipped + u64::from(WINDOW_LIMIT) - 1)),
            next => (next, edge),
        };
        let acked = match said {
            Said::Nack | Said::SyncReply => self.outgoing.on_report(now, next, edge),
            Said::Ack(ranges) => {
                let places = self.places(shared, ranges);
                let acked = self.outgoing.on_ack(now, next, &places, edge);
                shared.ranges = places;
                if !acked.invalid {
                    self.hear_of(ranges);
                }
                acked
            }
        };
        shared.counters.answers_invalid += u64::from(acked.invalid);
        !acked.invalid
    }

    fn on_nack(&mut self, now: Time, shared: &mut Shared, header: &Header, ranges: Ranges<'_>) {
        if !self.on_ack(now, shared, header, Said::Nack) {
            return;
        }
        let places = self.places(shared, ranges);
        let nacked = self.outgoing.on_nack(now, &places);
        shared.ranges = places;
        shared.counters.answers_invalid += u64::from(nacked.invalid);
    }

    /// As much of what is said of the blocks below `number` as is of use: a sink that has joined a group speaks truly of
    /// what that has sent, but what has not left here cannot be acknowledged or repeated yet.
    //= A-15
    fn left_here(&self, number: u64) -> u64 {
        if number <= self.group_sent { number.min(self.outgoing.sent()) } else { number }
    }

    /// A sink that has joined a group says what has come from there, and has not left here: it need not.
    //= A-7
    //= A-15
    fn hear_of(&mut self, ranges: Ranges<'_>) {
        let (near, sent) = (self.outgoing.acked(), self.outgoing.sent());
        if !self.qos.has_retransmission || self.group_sent <= sent {
            return;
        }
        for (low, high) in ranges.iter().take(MAX_RANGES) {
            if let Some(low) = self.out_numbers.place(low, near)
                && let Some(high) = self.out_numbers.place(high, near)
                && low.max(sent) < high
                && high <= self.group_sent
            {
                // What does not fit leaves all the same.
                let _ = self.heard.try_insert(low.max(sent)..high, MAX_HEARD);
            }
        }
    }

    /// Ranges of our blocks, in the vector that is reused: rising and apart, in whatever order they came.
    fn places(&self, shared: &mut Shared, ranges: Ranges<'_>) -> Vec<(u64, u64)> {
        let near = self.outgoing.acked();
        let mut places = core::mem::take(&mut shared.ranges);
        places.clear();
        places.extend(ranges.iter().take(MAX_RANGES).filter_map(|(low, high)| {
            let Range { start, end } = self.out_numbers.place(low, near)?..self.out_numbers.place(high, near)?;
            let left = (self.left_here(start), self.left_here(end));
            // What is no range at all is not made to look like one that is not there yet.
            (start >= end || left.0 < left.1).then_some(if start < end { left } else { (start, end) })
        }));
        if !places.is_sorted_by(|one, next| one.1 <= next.0) {
            // What is named twice would cost time twice.
            places.sort_unstable();
            places.dedup_by(|next, one| {
                let joins = next.0 <= one.1;
                one.1 = if joins { one.1.max(next.1) } else { one.1 };
                joins
            });
        }
        places
    }

    /// A SYNC or a CLOSE says how much has been sent. True: all of it has come.
    fn on_told_sent(&mut self, shared: &mut Shared, sequence: u32) -> bool {
        let expected = self.incoming.next_expected();
        let Some(sent) = self.in_numbers.place(sequence, expected) else { return true };
        // A group does not wait for us: what it has sent beyond our window will come again.
        let is_of_group = self.role == Role::Acceptor && self.has_joined && self.qos.has_retransmission;
        let within = if is_of_group { sent.min(self.incoming.edge()) } else { sent };
        match self.incoming.on_sync(within) {
            Synced::Missing(missing) if !self.qos.has_retransmission => {
                shared.counters.blocks_lost += missing;
                self.lost += missing;
                if missing > 0 {
                    shared.tell_readable(self.id());
                }
                true
            }
            Synced::Missing(_) => self.incoming.next_expected() >= sent,
            Synced::Contradiction => {
                shared.counters.blocks_contradictory += 1;
                false
            }
        }
    }

    /// Whether a SYNC speaks of blocks that may not have left yet. A group does not wait for our edge; and a CLOSE may speak of
    /// such blocks, because those that were dropped at the sender use up numbers for which there was no room.
    //= A-9
    //= A-21
    fn is_beyond_edge(&self, sequence: u32) -> bool {
        let is_of_group = self.role == Role::Acceptor && self.has_joined;
        let sent = self.in_numbers.place(sequence, self.incoming.next_expected());
        !is_of_group && sent.is_some_and(|sent| sent > self.incoming.edge())
    }

    /// Whether a SYNC or a CLOSE speaks of blocks that may still come from the group. Nobody repeats them for a raw sink, so it
    /// does not take them for lost before they had time to.
    //= A-15
    //= A-21
    fn waits_for_group(&mut self, now: Time, header: &Header, is_close: bool) -> bool {
        let expected = self.incoming.next_expected();
        let is_behind = self.role == Role::Acceptor
            && self.has_joined
            && !self.qos.has_retransmission
            && self.in_numbers.place(header.sequence, expected).is_some_and(|sent| sent > expected);
        if is_behind {
            match &mut self.said {
                // Neither is put off by being said again; a CLOSE is answered as it was said last.
                Some(said) if said.is_close == is_close => {
                    if is_close {
                        said.header = *header;
                    }
                }
                Some(said) if said.is_close => {}
                said => *said = Some(SaidSent { at: now + GROUP_DELAY, header: *header, is_close }),
            }
        }
        is_behind
    }

    /// Whatever was on its way has come.
    pub(crate) fn believe(&mut self, now: Time, shared: &mut Shared, said: &SaidSent) {
        if said.is_close {
            self.on_close(now, shared, &said.header, CloseCode::Normal);
        } else {
            self.on_told_sent(shared, said.header.sequence);
        }
    }

    /// Every CLOSE is answered, also if several are read together.
    fn answer_close(&mut self, header: &Header, code: CloseCode) {
        if self.close_replies_due.len() < MAX_CLOSE_REPLIES {
            self.close_replies_due.push_back((code, header.stamp));
        }
    }

    /// CLOSE: what has come is delivered, what we had not sent is dropped.
    //= A-18
    fn on_close(&mut self, now: Time, shared: &mut Shared, header: &Header, code: CloseCode) {
        self.answer_close(header, code);
        let has_all = self.on_told_sent(shared, header.sequence);
        if code == CloseCode::Normal {
            // It has acknowledged what it has.
            self.peer_has_closed = true;
        }
        if self.phase == Phase::Closing {
            // Ours has crossed it, and is answered, too. But nobody has to wait for that: the peer needs nothing more, and may
            // be gone when it has our answer.
            self.end_closing(shared);
            return;
        }
        self.phase = Phase::TimeWait(now + shared.config.time_wait);
        let result = match code {
            CloseCode::Aborted => Err(Failure::AbortedByPeer),
            CloseCode::Normal if !has_all => Err(Failure::Unfinished),
            CloseCode::Normal => Ok(()),
        };
        self.conclude(shared, result);
    }

    fn on_close_reply(&mut self, now: Time, shared: &mut Shared, header: &Header) {
        self.close.stop();
        if !self.is_told {
            // It says how far it has got: what was on its way when we stopped waiting may have arrived.
            self.on_ack(now, shared, header, Said::Nack);
        }
        self.phase = Phase::TimeWait(now + shared.config.time_wait);
        self.end_closing(shared);
    }

    /// The peer changes its record.
    //= A-13
    fn on_qos(&mut self, now: Time, shared: &mut Shared, header: &Header, change: &Change) {
        let newest = self.answered.as_deref().map_or(0, |answered| answered.epoch);
        if change.epoch > newest {
            if core::mem::take(&mut self.is_lowered) {
                // From now on the peer says for itself what the smaller of both is.
                self.qos = qos::changed(&self.qos, &shared.config.max_qos);
            }
            // Not what the peer has made of our record: two ends that are lowered by each other could never rise again.
            let qos = qos::accepted_change(&self.peer_qos, &change.qos, &self.wish);
            self.answered =
                Some(Box::new(Answered { epoch: change.epoch, qos, sequence: header.sequence, has_left: false }));
            self.peer_qos = qos::changed(&self.peer_qos, &change.qos);
            self.follow_records(now, 0);
            if let Some((asked, _)) = self.change.asked {
                self.outgoing.propose_terms(now, &qos::sending(&asked, &self.peer_qos));
            }
            self.qos_has_changed = true;
            shared.counters.qos_changes += 1;
            shared.events.push_back(Event::QosChanged { connection: self.id(), by_peer: true });
            self.ask_again_if_raised();
        }
        if self.answered.is_some() {
            self.qos_reply_due = Some(header.stamp);
        }
    }

    /// The peer has accepted our record, or a lower one.
    //= A-12
    fn on_qos_reply(&mut self, now: Time, shared: &mut Shared, change: &Change) {
        if change.epoch != self.change.epoch {
            return;
        }
        let Some((asked, from)) = self.change.asked.take() else { return };
        self.change.qos.stop();
        let before = core::mem::replace(&mut self.qos, qos::lowered(&asked, &change.qos));
        if self.answered.is_none() && self.role == Role::Opener {
            self.peer_qos = qos::lifted(&before, &self.peer_qos, &change.qos);
        }
        self.follow_records(now, from);
        self.qos_has_changed = true;
        shared.counters.qos_changes += 1;
        shared.events.push_back(Event::QosChanged { connection: self.id(), by_peer: false });
        self.ask_again_if_raised();
    }

    /// The peer has lowered our record to what its own was. If that has changed since, and allows more, it is asked again:
    /// once for each change of its own, as it may have other reasons.
    //= A-12
    //= A-13
    fn ask_again_if_raised(&mut self) {
        let newest = self.answered.as_deref().map_or(0, |answered| answered.epoch);
        let is_busy = self.change.asked.is_some() || self.change.wanted.is_some() || self.close_by.is_some();
        let allowed = qos::accepted_change(&self.qos, &self.wish, &self.peer_qos);
        if newest > self.change.asked_at && !is_busy && qos::raises(&allowed, &self.qos) {
            self.change.wanted = Some(self.wish);
        }
    }

    /// Asks for the record that the application wants.
    //= A-12
    pub(crate) fn ask_for_wanted(&mut self, now: Time) {
        let Some(wanted) = self.change.wanted.take() else { return };
        self.is_lowered = false;
        self.wish = wanted;
        self.change.asked_at = self.answered.as_deref().map_or(0, |answered| answered.epoch);
        self.change.epoch += 1;
        self.change.asked = Some((wanted, self.outgoing.sent()));
        self.change.qos = Repeated::start();
        // The peer may send larger messages before its answer comes, and they must have room from their first block on.
        self.incoming.allow_messages(wanted.largest_received.into());
        self.outgoing.propose_terms(now, &qos::sending(&wanted, &self.peer_qos));
    }
}
