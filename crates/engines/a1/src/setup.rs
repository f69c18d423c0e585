//! How a connection comes about: OPEN, the cookie, ACCEPT, REJECT (specs/a1.md, 1.1, Set-up).
//!
//! Nothing is kept of a stranger, and no answer is longer than its OPEN, before it has shown with a cookie that it receives
//! at its address.

use crate::connection::{Birth, Connection, Phase, Repeated, Role};
use crate::engine::A1;
use crate::incoming::MAX_ACK_DELAY;
use crate::numbers::Numbers;
use crate::outgoing::Timing;
use crate::shared::{Reply, Shared};
use crate::{Event, Failure, qos};
use core::num::NonZeroU32;
use pinnace_core::{Address, ContextKey, RxMeta, Time};
use pinnace_wire::a1::{self, Accept, Body, Cookie, Head, Header, MIN_OPEN_BYTES, Open, Reject, RejectCode};

/// Bytes of an ACCEPT.
pub(crate) const ACCEPT_BYTES: usize = MIN_OPEN_BYTES;

impl A1 {
    pub(crate) fn on_open(&mut self, now: Time, meta: &RxMeta, head: &Head, open: &Open<'_>) {
        let name = (meta.source, u64::from(head.header.connection.get()));
        if let Some(key) = self.by_opener.lookup(&name) {
            self.on_open_again(key, head);
            return;
        }
        match self.judge(now, meta, head, open) {
            Ok(record) => self.accept(now, meta, head, open, record),
            Err(Refusal::Cookie) => {
                let cookie = self.shared.baker.bake(now, meta.source, head.header.connection);
                if let Some(cookie) = Cookie::new(&cookie) {
                    self.shared.counters.cookies_sent += 1;
                    self.reject(meta, head, &Reject::Cookie(cookie));
                }
            }
            Err(Refusal::Code(code, text)) => {
                self.shared.counters.connections_refused += 1;
                self.reject(meta, head, &Reject::Refused { code, text });
            }
        }
    }

    /// The network says that nobody is at the link's one peer. What has been answered is not given up for a report that
    /// anybody could forge; nor is an OPEN that was said only twice, since its listener may be about to begin, or a CLOSE, whose
    /// answer may come late.
    pub(crate) fn on_unreachable(&mut self, now: Time) {
        if !self.shared.config.trusts_reports {
            return;
        }
        let is_hopeless = |connection: &Connection| {
            connection.peer == Address::Peer
                && match connection.phase {
                    // A request for a cookie is an answer.
                    Phase::Opening => connection.open.sent > 2 && connection.cookie.is_empty(),
                    Phase::Closing => connection.close.sent > 2,
                    _ => false,
                }
        };
        let keys: Vec<_> = self.connections.iter().filter(|(_, it)| is_hopeless(it)).map(|(key, _)| key).collect();
        for key in keys {
            match self.connections.lookup_mut(key) {
                Some(closing) if closing.phase == Phase::Closing => closing.end_unanswered(now, &mut self.shared),
                Some(opening) => {
                    opening.phase = Phase::Over;
                    let failure = Failure::Refused { code: RejectCode::NoListener, text: String::new() };
                    opening.conclude(&mut self.shared, Err(failure));
                }
                None => {}
            }
            self.settle(now, key);
        }
    }

    /// The answer was lost, or is on its way.
    fn on_open_again(&mut self, key: ContextKey, head: &Head) {
        let Some(connection) = self.connections.lookup_mut(key) else { return };
        if matches!(connection.phase, Phase::Open | Phase::Closing) && connection.accepted.is_some() {
            connection.allowance.earn(1, head.datagram_bytes());
            connection.accept_due = Some(head.header.stamp);
            if connection.phase == Phase::Closing {
                // An opener drops what comes before ACCEPT.
                connection.close.repeat();
            }
            self.touch(key);
        }
    }

    fn judge(&mut self, now: Time, meta: &RxMeta, head: &Head, open: &Open<'_>) -> Result<a1::Qos, Refusal> {
        let config = &self.shared.config;
        if config.validates {
            let Some(cookie) = open.cookie else { return Err(Refusal::Cookie) };
            if !self.shared.baker.is_ours(now, meta.source, head.header.connection, cookie.bytes()) {
                self.shared.counters.cookies_wrong += 1;
                return Err(Refusal::Cookie);
            }
        }
        let config = &self.shared.config;
        let Some(listener) = &self.listener else { return Err(Refusal::Code(RejectCode::NoListener, "")) };
        if config.local.port != 0 && open.destination.port != config.local.port {
            return Err(Refusal::Code(RejectCode::NoListener, "the port is another one"));
        }
        let Some(record) = qos::accepted(&open.qos, &config.max_qos) else {
            return Err(Refusal::Code(RejectCode::Qos, "options, block size or largest messages"));
        };
        if listener.waiting >= listener.backlog {
            return Err(Refusal::Code(RejectCode::NoResources, "the backlog is full"));
        }
        if self.connections.len() >= config.limits.connections {
            return Err(Refusal::Code(RejectCode::NoResources, "too many connections"));
        }
        Ok(record)
    }

    fn reject(&mut self, meta: &RxMeta, head: &Head, reject: &Reject<'_>) {
        let shared = &mut self.shared;
        if shared.replies.len() >= shared.config.limits.replies {
            shared.counters.replies_withheld += 1;
            return;
        }
        let header = Header {
            connection: head.header.connection,
            sequence: 0,
            edge: 0,
            stamp: head.header.stamp,
            is_checked: true,
            is_retransmitted: false,
        };
        let mut bytes = Vec::new();
        a1::reject(&header, reject, head.datagram_bytes(), &mut bytes);
        shared.replies.push_back(Reply { to: meta.source, from: meta.destination, bytes });
    }

    fn accept(&mut self, now: Time, meta: &RxMeta, head: &Head, open: &Open<'_>, record: a1::Qos) {
        let header = &head.header;
        let birth = Birth {
            role: Role::Acceptor,
            phase: Phase::Open,
            peer: meta.source,
            from: meta.destination,
            source: open.destination,
            destination: open.source,
            qos: record,
            group: open.group,
            start: self.shared.secrets.draw() as u32,
        };
        let is_validated = open.cookie.is_some() && self.shared.config.validates;
        let congestion = self.shared.config.congestion;
        let Some(key) = self.new_connection(now, &birth) else {
            self.reject(meta, head, &Reject::Refused { code: RejectCode::NoResources, text: "" });
            return;
        };
        // The blocks of a group are as large as its sender says: whoever takes smaller ones gets them over its connection.
        let is_alike = record.block_size == open.qos.block_size;
        let joins = is_alike && self.listener.as_ref().is_some_and(|listener| listener.joins) && open.group.is_some();
        let Some(connection) = self.connections.lookup_mut(key) else { return };
        connection.peer_id = header.connection;
        connection.peer_qos = open.qos;
        connection.wish = qos::changed(&record, &self.shared.config.max_qos);
        connection.is_validated = is_validated;
        connection.allowance.earn(1, head.datagram_bytes());
        connection.begin(header.sequence, header.edge.into(), 0, open.group.is_some(), congestion);
        let edge = connection.in_numbers.wire(connection.incoming.tell_edge());
        connection.accepted = Some(Box::new((record, edge)));
        connection.accept_due = Some(header.stamp);
        connection.sync.is_due = true;
        connection.is_waiting = true;
        let (id, peer, source, theirs) = (connection.id(), connection.peer, open.source, open.qos);
        if let Some(group) = open.group.filter(|_| joins) {
            connection.phase = Phase::Joining;
            self.shared.events.push_back(Event::Join { connection: id, group });
        }
        self.by_opener.insert((meta.source, header.connection.get().into()), key);
        if let Some(listener) = &mut self.listener {
            listener.waiting += 1;
        }
        self.shared.counters.connections_accepted += 1;
        self.shared.events.push_back(Event::Accepted { connection: id, peer, source, qos: theirs });
        self.touch(key);
    }
}

enum Refusal {
    Cookie,
    Code(RejectCode, &'static str),
}

impl Connection {
    /// Bytes of the largest datagram that may leave, as far as the address is concerned.
    pub(crate) fn largest_allowed(&self) -> usize {
        if self.is_validated { usize::MAX } else { self.allowance.largest() }
    }

    /// What an opener hears before its connection is there: ACCEPT or REJECT. Returns whether the peer has joined a group
    /// whose blocks it does not take.
    pub(crate) fn on_answer(&mut self, now: Time, shared: &mut Shared, head: &Head, body: &Body<'_>) -> bool {
        match body {
            Body::Accept(accept) => return self.on_accept(now, shared, head, accept),
            Body::Reject(reject) => match self.sync.on_echo(now, head.header.stamp) {
                Some(_) => self.on_reject(shared, reject),
                // It answers nothing that we have said.
                None => shared.counters.stamps_wrong += 1,
            },
            _ => {}
        }
        false
    }

    fn on_reject(&mut self, shared: &mut Shared, reject: &Reject<'_>) {
        match reject {
            Reject::Cookie(cookie) if self.cookie.is_empty() => {
                self.cookie.extend_from_slice(cookie.bytes());
                // Another question, to somebody who is there: neither the waits before it count, nor how often it was asked.
                // (What the answer took is no measurement.)
                self.open = Repeated::start();
                // What comes for an OPEN without the cookie is known by its stamp from now on.
                self.sync.forget();
            }
            Reject::Cookie(_) => self.end(shared, Failure::Violation),
            Reject::Refused { code, text } => {
                self.end(shared, Failure::Refused { code: *code, text: (*text).to_owned() });
            }
        }
    }

    fn end(&mut self, shared: &mut Shared, failure: Failure) {
        self.phase = Phase::Over;
        self.conclude(shared, Err(failure));
    }

    /// For the acceptor the connection is there: it is told that this is its end. Its record is not that of anything here.
    fn turn_down(&mut self, shared: &mut Shared, head: &Head, accept: &Accept, failure: Failure) {
        self.peer_id = accept.identifier;
        self.in_numbers = Numbers::new(head.header.sequence);
        self.open.stop();
        self.phase = Phase::Open;
        self.fail(shared, failure);
    }

    fn on_accept(&mut self, now: Time, shared: &mut Shared, head: &Head, accept: &Accept) -> bool {
        if !qos::answers(&accept.qos, &self.qos) {
            self.turn_down(shared, head, accept, Failure::Violation);
            return false;
        }
        if qos::shuts_out(&accept.qos, &self.qos) {
            let text = "it lets no block be under way: its largest message received, or messages outstanding, are 0"
                .to_owned();
            self.turn_down(shared, head, accept, Failure::Refused { code: RejectCode::Qos, text });
            return false;
        }
        let header = &head.header;
        let message = self.outgoing.next_message();
        // What OPEN has told: in blocks as large as they were to be, and of a peer that lets as many messages be on their way.
        let told = self.incoming_window();
        self.peer_id = accept.identifier;
        self.peer_qos = accept.qos;
        let is_alike = accept.qos.block_size == self.qos.block_size;
        self.qos.block_size = accept.qos.block_size;
        self.wish = self.qos;
        self.has_joined = accept.has_joined && self.group.is_some();
        let edge = self.out_numbers.place(header.edge, 0).unwrap_or(0);
        let message = if self.has_joined { message } else { 0 };
        self.begin(header.sequence, edge, message, false, shared.config.congestion);
        self.incoming.keep_told(told.into());
        self.open.stop();
        self.phase = Phase::Open;
        self.last_heard = now;
        self.on_round_trip(now, shared, header.stamp);
        self.sync.asked_since = None;
        self.sync.is_due = true;
        let is_misfit = self.has_joined && !is_alike;
        if !is_misfit {
            // Our window is told with the first datagram, which is that SYNC.
            shared.events.push_back(Event::Connected { connection: self.id() });
        }
        is_misfit
    }

    /// An echo of a stamp came, which may be a sample.
    //= A-8
    pub(crate) fn on_round_trip(&mut self, now: Time, shared: &mut Shared, echo: u32) {
        let Some(sample) = self.sync.on_echo(now, echo) else {
            shared.counters.stamps_wrong += 1;
            return;
        };
        shared.counters.round_trips += 1;
        self.rtt.on_sample(now, sample);
        shared.round_trip = self.rtt.smoothed();
        let shortest = self.rtt.minimum().unwrap_or(sample);
        // An ACK may wait: without this allowance a short round trip would make every slow stream repeat itself.
        let rto = self.rtt.timeout() + MAX_ACK_DELAY;
        let loaded = self.rtt.smoothed().unwrap_or(sample).max(sample);
        self.outgoing.on_round_trip(sample, loaded, Timing { rtt: shortest, rto });
    }

    /// A whole OPEN.
    pub(crate) fn write_open(&mut self, now: Time, out: &mut Vec<u8>) {
        let stamp = self.sync.new_stamp(now);
        let window = self.incoming_window();
        let header = Header {
            connection: self.my_id,
            sequence: self.out_numbers.wire(0),
            edge: window,
            stamp,
            is_checked: true,
            is_retransmitted: self.open.sent > 0 || !self.cookie.is_empty(),
        };
        let cookie = Cookie::new(&self.cookie);
        let (source, destination) = (self.source, self.destination);
        a1::open(&header, &Open { destination, source, qos: self.qos, cookie, group: self.group }, out);
        self.sync.on_sent(now, stamp, now);
        self.open.on_sent(now, self.rtt.timeout());
    }

    fn incoming_window(&self) -> u32 {
        qos::receiving(&self.qos, &a1::Qos { largest_sent: u32::MAX, outstanding: u32::MAX, ..self.qos }, false)
            .window
            .min(u64::from(a1::WINDOW_LIMIT) - 1) as u32
    }

    /// A whole ACCEPT, the same every time.
    pub(crate) fn write_accept(&mut self, echo: u32, out: &mut Vec<u8>) {
        let Some((qos, edge)) = self.accepted.as_deref().copied() else { return };
        let header = Header {
            connection: self.peer_id,
            sequence: self.out_numbers.wire(0),
            edge,
            stamp: echo,
            is_checked: qos.has_checksum,
            is_retransmitted: self.open.sent > 0,
        };
        self.open.sent += 1;
        let identifier: NonZeroU32 = self.my_id;
        let (source, destination, has_joined) = (self.source, self.destination, self.has_joined);
        a1::accept(&header, &Accept { destination, source, identifier, qos, has_joined }, out);
        self.allowance.spend(1, ACCEPT_BYTES);
    }
}
