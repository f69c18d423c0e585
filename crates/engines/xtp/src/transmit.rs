//! What leaves: DIAGs, statuses, control packets that ask, data (specs/xtp.md, 3.2 to 3.9).

use crate::context::{Context, EndDue, Phase, Role};
use crate::engine::Xtp;
use crate::farewell::Farewell;
use crate::outgoing::{Asking, Cut, MOST_PIECES, Next, Terms};
use crate::shared::Shared;
use crate::{Service, multicast};
use pinnace_core::{Address, Checksum, ChecksumAt, ChecksumKind, Time, Train};
use pinnace_wire::xtp::{self, Clock, Codec, FirstTraffic, Kind, Options, Spans, Status, Traffic};

/// A CNTL of xtp40.
const PLAIN_STATUS_BYTES: usize = 32 + 20;
/// A status is no larger than the smallest path carries.
const STATUS_BYTES: usize = 1232;

impl Xtp {
    pub(crate) fn transmit(&mut self, now: Time, train: &mut Train) -> bool {
        train.begin(Address::Peer, 0);
        self.shared.departure.begin();
        self.shared.paths.expire(now);
        if let Some(reply) = self.shared.diags.pop() {
            train.single(reply.to, reply.from, &reply.bytes);
            return true;
        }
        while let Some(key) = self.shared.queue.first() {
            let Some(context) = self.contexts.lookup_mut(key) else { return false };
            let sent = context.transmit(now, &mut self.shared, train);
            debug_assert!(sent || !context.has_to_send(&self.shared), "it goes round in circles: {context:?}");
            // Behind all of its sort value, if there is more.
            context.stand_down(&mut self.shared);
            context.make_ready(&mut self.shared);
            self.settle(now, key);
            if sent {
                self.share(now, train);
                return true;
            }
        }
        multicast::transmit(self, train)
    }

    /// The data of the last train have left by `now`.
    //= X-19
    pub(crate) fn on_left(&mut self, now: Time) {
        for (key, bytes) in self.shared.departure.drain() {
            if let Some(context) = self.contexts.lookup_mut(key) {
                context.outgoing.on_left(now, bytes);
            }
        }
    }

    /// Others whose turn it is share a train with their one small packet to the same peer: where many have little to say each, a
    /// train a packet costs both ends most of their time.
    fn share(&mut self, now: Time, train: &mut Train) {
        while let Some(key) = self.shared.queue.first()
            && let Some(context) = self.contexts.lookup_mut(key)
            && context.share(now, &mut self.shared, train)
        {
            context.stand_down(&mut self.shared);
            context.make_ready(&mut self.shared);
            self.settle(now, key);
        }
    }
}

/// The checksum that the driver fills in, if the data are summed.
pub(crate) fn checksum(codec: Codec, options: Options) -> Option<Checksum> {
    if options.contains(Options::NOCHECK) {
        return None;
    }
    Some(match codec {
        Codec::Xtp40 => {
            Checksum { kind: ChecksumKind::Internet, skip_head: 0, skip_tail: 0, at: ChecksumAt::Head(xtp::CHECK_AT) }
        }
        Codec::Xtp36 => Checksum {
            kind: ChecksumKind::Cxor,
            skip_head: codec.header_bytes(),
            skip_tail: xtp::TRAILER_BYTES,
            at: ChecksumAt::Tail(xtp::TRAILER_BYTES),
        },
    })
}

impl Context {
    /// Writes a train; false if nothing may leave now.
    fn transmit(&mut self, now: Time, shared: &mut Shared, train: &mut Train) -> bool {
        if self.end_due == EndDue::Alone {
            self.end_due = EndDue::No;
            self.write_status(now, shared, train, Options::END, None);
            self.begin_farewell(now, shared);
            return true;
        }
        if self.owed.is_some() && self.heard && self.may_say(shared) {
            if !self.write_lone_data(now, shared, train, true) {
                self.write_status(now, shared, train, Options::NONE, None);
            }
            return true;
        }
        if !matches!(self.phase, Phase::Fresh | Phase::Active) {
            return false;
        }
        if !self.first.is_due && self.may_ask(shared) {
            if let Some(asking) = self.ask_due.take() {
                if self.may_have_status() {
                    self.write_status(now, shared, train, Options::NONE, Some(asking));
                } else {
                    self.write_empty(now, shared, train);
                }
                self.update_wait(now, shared, false);
                return true;
            }
            let terms = self.terms(shared);
            if self.control_due(&terms) {
                if self.may_have_status() {
                    self.write_close(now, shared, train);
                } else {
                    self.write_empty(now, shared, train);
                    self.update_wait(now, shared, false);
                }
                return true;
            }
        }
        if self.first.is_due && self.first.is_alone && !self.service.is_one_message() {
            self.write_empty(now, shared, train);
            self.update_wait(now, shared, false);
            return true;
        }
        if self.must_tell_key(shared) {
            // Otherwise the peer could not show that it is there.
            self.write_status(now, shared, train, Options::NONE, None);
            return true;
        }
        if self.write_data(now, shared, train) {
            self.update_wait(now, shared, false);
            return true;
        }
        self.is_blocked = true;
        if self.is_first_paced() {
            return false;
        }
        if self.first.is_due {
            self.write_empty(now, shared, train);
            self.update_wait(now, shared, false);
            return true;
        }
        false
    }

    /// The reset that has just been written is said again: nobody will answer it.
    //= X-20
    fn begin_farewell(&self, now: Time, shared: &mut Shared) {
        if self.is_group() {
            return;
        }
        let bytes = shared.status.clone();
        // The context may be forgotten now: what its allowance covers is all that ever leaves.
        let most = if self.is_trusted(shared) { u64::MAX } else { self.proof.allowance.count(bytes.len()) };
        let (to, from, my_key, peer_key) = (self.peer, self.from, self.my_key, self.peer_key);
        shared.farewells.begin(now, Farewell { to, from, my_key, peer_key, bytes, most });
    }

    /// Whether nothing but data and statuses without gaps is exchanged at the moment.
    fn is_simple(&self, shared: &Shared) -> bool {
        self.phase == Phase::Active
            && self.service == Service::Connection
            && !(self.first.is_due || self.end_due != EndDue::No || self.must_tell_key(shared))
            // A peer that does not know our key waits for the status.
            && (self.role == Role::Initiator || self.proof.has_used_key)
            && self.incoming.spans().next().is_none()
    }

    /// Adds a packet to a train that others have begun; false, and nothing is written: it is not for them, or has no room.
    fn share(&mut self, now: Time, shared: &mut Shared, train: &mut Train) -> bool {
        let fits = self.peer == train.destination()
            && self.from == train.source()
            && train.checksum().is_none()
            && self.options.contains(Options::NOCHECK)
            && self.codec() == Codec::Xtp40
            && train.has_room_for(1, MOST_PIECES + 2);
        let is_question_due =
            self.ask_due.is_some() || self.end_due == EndDue::Alone || self.control_due(&self.terms(shared));
        if !fits || is_question_due || !self.is_trusted(shared) || !self.is_simple(shared) {
            return false;
        }
        let is_due = self.owed.is_some() && self.heard && self.may_say(shared);
        // One that is shorter than those before is the last: statuses to statuses, data to data.
        let is_among_its_like = is_due && train.segment_size() == PLAIN_STATUS_BYTES;
        if !is_among_its_like && self.write_lone_data(now, shared, train, false) {
            return true;
        }
        if !is_due || !train.has_room_for(PLAIN_STATUS_BYTES, 1) {
            return false;
        }
        let mut status = core::mem::take(&mut shared.status);
        self.make_status(now, shared, Options::NONE, None, &mut status);
        debug_assert_eq!(status.len(), PLAIN_STATUS_BYTES, "neither gaps nor a key");
        train.inline(&status);
        train.end_segment();
        shared.status = status;
        true
    }

    /// One packet of data ahead of the status that is due: somebody waits for it, and reads the status while we wait. False,
    /// and nothing is written: there is no such packet, or more than one, which is a train of its own.
    fn write_lone_data(&mut self, now: Time, shared: &mut Shared, train: &mut Train, is_first: bool) -> bool {
        if !self.is_simple(shared) {
            return false;
        }
        let terms = self.terms(shared);
        if terms.max == 0 || self.holds_back(shared, train, &terms) {
            return false;
        }
        let Next::Cut(cut) = self.outgoing.next(now, &terms) else { return false };
        if cut.ends || self.outgoing.queued() > cut.high() {
            return false;
        }
        let is_written = self.write_cut(now, shared, train, &cut, is_first);
        self.update_wait(now, shared, false);
        is_written
    }

    /// Whether there is more to send than may be sent to an address that is not proved, and the peer does not yet know
    /// our key.
    fn must_tell_key(&self, shared: &Shared) -> bool {
        // An ECNTL has no room for a key: the gaps come first.
        let has_gaps = self.codec() == Codec::Xtp40 && self.incoming.spans().next().is_some();
        if self.is_trusted(shared) || self.proof.has_told_key || has_gaps || !self.may_say(shared) {
            return false;
        }
        let terms = self.terms(shared);
        let unsent = self.outgoing.queued() - self.outgoing.sent();
        self.outgoing.has_to_send(&terms) && unsent > u64::from(terms.max)
    }

    /// Whether a status carries our key.
    fn tells_key(&self) -> bool {
        self.role == Role::Responder && (!self.proof.has_used_key || self.codec() == Codec::Xtp36)
    }

    /// Whether a control packet that asks may leave. Until we have heard something its echo would name no packet of the peer's,
    /// and a peer that takes it for one would take those of all later statuses for older. An iso-stream ends with one even so
    /// (3.9); groups never hear the echo.
    fn may_have_status(&self) -> bool {
        self.heard || self.is_group() || self.options.contains(Options::NOERR)
    }

    /// The options that say how far closing has come.
    fn closing(&self) -> Options {
        Options::NONE.with_if(self.reading.is_closed(), Options::RCLOSE).with_if(self.wclose_sent, Options::WCLOSE)
    }

    /// A control packet that asks: WCLOSE without data, or because nothing has asked for so long.
    //= X-20
    fn write_close(&mut self, now: Time, shared: &mut Shared, train: &mut Train) {
        if self.outgoing.end() == Some(self.outgoing.sent()) {
            self.on_end_sent();
        }
        let asking = if self.service == Service::UnackMulticast { Asking::No } else { Asking::Status };
        self.write_status(now, shared, train, Options::NONE, Some(asking));
        self.update_wait(now, shared, false);
    }

    fn on_first_sent(&mut self) {
        self.first.has_left |= self.first.is_due;
        self.first.is_due = false;
        self.phase = Phase::Active;
    }

    /// The packet at the end of our stream leaves.
    fn on_end_sent(&mut self) {
        self.wclose_sent = true;
        if self.is_abbreviated {
            self.reading.break_off();
        }
    }

    /// A status: because it was asked for, or to ask, or to say how far closing has come.
    //= X-7
    pub(crate) fn write_status(
        &mut self,
        now: Time,
        shared: &mut Shared,
        train: &mut Train,
        extra: Options,
        asking: Option<Asking>,
    ) {
        let mut status = core::mem::take(&mut shared.status);
        let asks = asking.is_some_and(|asking| asking != Asking::No);
        if asks && self.tells_gaps_apart(shared, train) {
            self.make_status(now, shared, extra, None, &mut status);
            train.single(self.peer, self.from, &status);
            self.make_status(now, shared, extra, asking, &mut status);
            train.inline(&status);
            train.end_segment();
        } else {
            self.make_status(now, shared, extra, asking, &mut status);
            train.single(self.peer, self.from, &status);
        }
        shared.status = status;
    }

    /// Whether an ECNTL leaves before a question. Only a CNTL asks, in which gaps have no room: alone it would say that all
    /// beyond the first one was lost.
    fn tells_gaps_apart(&self, shared: &Shared, train: &Train) -> bool {
        self.codec() == Codec::Xtp40
            && self.incoming.spans().next().is_some()
            && self.is_trusted(shared)
            && train.limits().segments > 1
            && train.limits().bytes >= STATUS_BYTES + PLAIN_STATUS_BYTES
    }

    /// Writes a status that is about to leave into `to`.
    fn make_status(
        &mut self,
        now: Time,
        shared: &mut Shared,
        extra: Options,
        asking: Option<Asking>,
        to: &mut Vec<u8>,
    ) {
        let codec = self.codec();
        let echo = self.owed.take().unwrap_or(self.recv_sync);
        let sync = match asking {
            Some(asking) => self.outgoing.ask(now, asking),
            None => self.outgoing.sync(),
        };
        let asked = match asking {
            None | Some(Asking::No) => Options::NONE,
            Some(Asking::Deferred) => Options::DREQ,
            Some(Asking::Both) => Options::SREQ | Options::DREQ,
            Some(Asking::Status | Asking::Expiry) => Options::SREQ,
        };
        let end = Options::RCLOSE | Options::WCLOSE | Options::END;
        let options =
            self.closing().with(extra).with(asked).with_if(core::mem::take(&mut self.end_due) == EndDue::InStatus, end);
        let options = if matches!(self.phase, Phase::TimeWait(_)) { options | end } else { options };
        let mut spans = core::mem::take(&mut shared.spans);
        spans.clear();
        let most = codec.max_spans(STATUS_BYTES.min(shared.datagram_bytes(self.peer)).min(self.datagram_left(shared)));
        let space = self.space;
        // Of these only CNTL asks (specs/xtp.md, 3.4): the gaps, and our key, wait for the next answer.
        if codec == Codec::Xtp36 || asked == Options::NONE {
            spans.extend(
                self.incoming.spans().take(most).map(|span| (space.number(span.start), space.number(span.end))),
            );
        }
        let tells_key = self.tells_key() && (codec == Codec::Xtp36 || asked == Options::NONE);
        //= X-5
        let kind = if !spans.is_empty() && codec == Codec::Xtp40 {
            Kind::Ecntl
        } else if tells_key && codec == Codec::Xtp40 {
            Kind::Tcntl
        } else {
            Kind::Cntl
        };
        self.proof.has_told_key |= tells_key && kind != Kind::Ecntl;
        let header = self.header(kind, options, sync, space.number(self.outgoing.sent()));
        let status = Status {
            rseq: space.number(self.incoming.rseq()),
            alloc: space.number(self.incoming.alloc()),
            echo,
            spans: Spans::from_slice(&spans),
            xkey: if tells_key { self.my_key } else { 0 },
            traffic: (kind == Kind::Tcntl).then(|| FirstTraffic::Known(self.traffic())),
            clock: (codec == Codec::Xtp36).then(|| Clock {
                rate: self.block.input_rate,
                burst: self.block.input_burst,
                time: shared.clock(now),
                techo: self.peer_time,
            }),
            hseq: space.number(self.incoming.hseq()),
        };
        to.clear();
        xtp::status(&header, &status, to);
        shared.spans = spans;
        shared.counters.statuses_sent += 1;
        self.on_leaves(to.len());
    }

    /// What we take and send (specs/xtp.md, 3.12).
    pub(crate) fn traffic(&self) -> Traffic {
        self.block.traffic(self.service)
    }

    /// Whether it is better to wait for a fuller train, or packet: the application is still queueing, and what is under
    /// way keeps the path busy meanwhile. Many small trains would cost both ends more than they carry. An answer is waited for:
    /// what is under way may be the message before, which is acknowledged behind the one that this answers.
    fn holds_back(&self, shared: &Shared, train: &Train, terms: &Terms) -> bool {
        if !shared.is_held
            || self.outgoing.may_answer()
            || self.first.is_due
            || self.outgoing.end().is_some()
            || self.outgoing.is_repeating()
        {
            return false;
        }
        let queued = self.outgoing.queued() - self.outgoing.sent();
        let (payload, headers) = (terms.max as usize, terms.overhead as usize);
        train.limits().is_worth_waiting(queued, self.outgoing.in_flight(), payload, headers)
    }

    /// DATA, and before all others FIRST.
    fn write_data(&mut self, now: Time, shared: &mut Shared, train: &mut Train) -> bool {
        self.wait_for_pace(None, shared);
        let mut wrote = false;
        loop {
            let terms = self.terms(shared);
            if terms.max == 0 {
                // Nothing more to an address that may be forged, until it has answered.
                return wrote;
            }
            if self.first.is_repeated() {
                // As it was; only the traffic specifier holds it back.
                let Some(mut cut) = self.outgoing.first() else { return false };
                if cut.len > terms.max && !self.service.is_datagram() {
                    // The path carries less than was thought.
                    (cut.len, cut.eom, cut.ends) = (terms.max, false, false);
                }
                //= X-19
                let ready_at = self.outgoing.limit_ready_at(now, cut.len);
                if ready_at > now {
                    self.wait_for_pace(Some(ready_at), shared);
                    return false;
                }
                return self.write_cut(now, shared, train, &cut, true);
            }
            if !wrote && self.holds_back(shared, train, &terms) {
                // Taken up again when the application has stopped queueing.
                shared.held.push(self.key);
                return false;
            }
            let cut = match self.outgoing.next(now, &terms) {
                Next::Cut(cut) => cut,
                Next::At(at) => {
                    if !wrote {
                        self.wait_for_pace(Some(at), shared);
                    }
                    return wrote;
                }
                Next::Nothing => return wrote,
            };
            if !self.write_cut(now, shared, train, &cut, !wrote) {
                return wrote;
            }
            wrote = true;
        }
    }

    /// Adds a packet to the train; false if it has no room.
    fn write_cut(&mut self, now: Time, shared: &mut Shared, train: &mut Train, cut: &Cut, is_first: bool) -> bool {
        let terms = self.terms(shared);
        let codec = self.codec();
        let is_first_packet = self.first.is_due;
        // Of a stream that is not repeated the end would be lost with its bytes: a control packet tells it (3.9).
        let is_told_apart = self.options.contains(Options::NOERR) && !self.service.is_one_message() && !self.is_group();
        let ends = cut.ends && !is_told_apart;
        let asking = self.asking(cut, shared);
        let n = cut.len as usize;
        let mut options = Options::NONE
            .with_if(cut.eom, Options::EOM)
            .with_if(ends, Options::WCLOSE)
            .with_if(matches!(asking, Asking::Status | Asking::Both), Options::SREQ)
            .with_if(matches!(asking, Asking::Deferred | Asking::Both), Options::DREQ)
            .with_if(self.reading.is_closed() || (ends && self.is_abbreviated), Options::RCLOSE);
        if is_first_packet && self.service == Service::UnackDgram {
            options = options | Options::END;
        }
        // The header's sync depends on whether it asks; its length does not.
        let sync = if asking == Asking::No { self.outgoing.sync() } else { self.outgoing.sync().wrapping_add(1) };
        let kind = if is_first_packet { Kind::First } else { Kind::Data };
        let header = self.header(kind, options, sync, self.space.number(cut.low));
        let prefix = if is_first_packet {
            xtp::first_prefix(&header, &self.block.address_segment, &self.traffic(), cut.btag, n)
        } else {
            xtp::data_prefix(&header, cut.btag, n)
        };
        let segment = prefix.len() - codec.header_bytes() + n;
        let tail = codec.tail_bytes(segment);
        let len = prefix.len() + n + tail;
        if is_first {
            train.begin(self.peer, len);
            train.set_source(self.from);
            train.set_checksum(checksum(codec, self.options));
        } else if !train.has_room_for(len, MOST_PIECES + 2) {
            return false;
        }
        train.inline(&prefix);
        for part in self.outgoing.parts(cut.low, cut.len) {
            train.payload(part);
        }
        train.zeros(tail);
        train.end_segment();
        self.outgoing.commit(now, cut, asking, &terms);
        if self.outgoing.is_limited() {
            shared.departure.add(self.key, cut.len.into(), train);
        }
        while self.service != Service::AckDgram && self.asks_at.front().is_some_and(|(point, _)| *point <= cut.high()) {
            self.asks_at.pop_front();
        }
        if shared.is_held {
            shared.held.push(self.key);
        }
        self.on_leaves(len);
        self.on_first_sent();
        if ends {
            self.on_end_sent();
        }
        let counters = &mut shared.counters;
        counters.data_packets_sent += 1;
        counters.data_packets_resent += u64::from(cut.is_repetition);
        counters.bytes_sent += u64::from(cut.len);
        true
    }

    /// Whether a packet of data asks for a status (specs/xtp.md, 3.5 and 3.9).
    //= X-7
    fn asking(&self, cut: &Cut, shared: &Shared) -> Asking {
        match (self.service, self.role) {
            (Service::UnackDgram | Service::UnackMulticast, _) => Asking::No,
            // Its receiver may hear of it for the first time, and must know what an acknowledgement waits for.
            (Service::AckDgram, _) if cut.is_repetition && self.awaits_delivery() => Asking::Both,
            (Service::AckDgram, _) if cut.is_repetition => Asking::Status,
            (Service::AckDgram, _) => self.asks_at.front().map_or(Asking::Status, |(_, asking)| *asking),
            // Groups answer at once, or not at all.
            (Service::Multicast, _) => match cut.asks || self.asks_at.front().is_some_and(|at| at.0 <= cut.high()) {
                true => Asking::Status,
                false => Asking::No,
            },
            // The request's end asks nothing: the response answers it.
            (Service::Transaction, Role::Initiator) if cut.ends && !cut.is_repetition => Asking::No,
            _ => {
                let within = self.asks_at.iter().take_while(|(point, _)| *point <= cut.high());
                let wanted = within.map(|(_, asking)| *asking);
                let wanted = wanted.reduce(|one, other| if one == other { one } else { Asking::Both });
                let machine = if cut.asks || !self.is_trusted(shared) { Asking::Status } else { Asking::No };
                match wanted {
                    // The application may take its time.
                    Some(Asking::Deferred) if machine == Asking::Status => Asking::Both,
                    Some(asking) => asking,
                    None => machine,
                }
            }
        }
    }

    /// A FIRST without data: to be heard of, to close, or a message of nothing. Or DATA without: to ask, or to close, before
    /// there is anything that a status could say.
    fn write_empty(&mut self, now: Time, shared: &mut Shared, train: &mut Train) {
        let codec = self.codec();
        let kind = if self.first.is_due { Kind::First } else { Kind::Data };
        let at = if self.first.is_due { 0 } else { self.outgoing.sent() };
        let ends = self.outgoing.end() == Some(at);
        let is_message = ends && kind == Kind::First && self.service.is_one_message();
        let options = Options::NONE
            .with_if(is_message, Options::EOM)
            .with_if(ends, Options::WCLOSE)
            .with_if(self.reading.is_closed() || (ends && self.is_abbreviated), Options::RCLOSE)
            .with_if(self.service == Service::UnackDgram, Options::END);
        let asks = match self.service {
            Service::UnackDgram | Service::UnackMulticast => false,
            // The request's end asks nothing, as in a packet of its data.
            Service::Transaction => self.expiries > 0 || !ends,
            _ => true,
        };
        let asking = if self.expiries > 0 { Asking::Expiry } else { Asking::Status };
        let sync = match asks {
            true if kind == Kind::First && self.first.is_repeated() => self.outgoing.ask_again(now, asking),
            true => self.outgoing.ask(now, asking),
            false => self.outgoing.sync(),
        };
        let options = options.with_if(asks, Options::SREQ);
        let header = self.header(kind, options, sync, self.space.number(at));
        let prefix = match kind {
            Kind::First => xtp::first_prefix(&header, &self.block.address_segment, &self.traffic(), None, 0),
            _ => xtp::data_prefix(&header, None, 0),
        };
        let tail = codec.tail_bytes(prefix.len() - codec.header_bytes());
        train.begin(self.peer, prefix.len() + tail);
        train.set_source(self.from);
        train.set_checksum(checksum(codec, self.options));
        train.inline(&prefix);
        train.zeros(tail);
        train.end_segment();
        self.on_first_sent();
        if ends {
            self.on_end_sent();
        }
        shared.counters.data_packets_sent += 1;
    }
}
