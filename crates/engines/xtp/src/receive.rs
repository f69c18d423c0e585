//! What arrives: from the datagram to the context (specs/xtp.md, 3.2 to 3.9).

use crate::accept::FirstPacket;
use crate::context::{Context, Phase, Role};
use crate::diag::{answer_to, is_answerable};
use crate::ended::EndedBy;
use crate::engine::Xtp;
use crate::incoming::{Fate, Incoming, Piece, Taken};
use crate::outgoing::Heard;
use crate::shared::Shared;
use crate::{Event, Failure, Service};
use core::ops::Range;
use core::time::Duration;
use pinnace_core::{Address, Placed, RxMeta, Segment, Seq32, Time};
use pinnace_wire::xtp::{
    Body, Code, FirstAddress, FirstTraffic, Head, Header, INITIAL_ALLOC, Kind, MAX_PREFIX_BYTES, Options, Status,
    Traffic, Value,
};

/// The longest header.
const MAX_HEADER_BYTES: usize = 40;
/// DREQs that wait for the application, of one context.
const MAX_DEFERRED: usize = 8;
/// Control packets that are larger are malformed: no path carries them.
const MAX_CONTROL_BYTES: usize = 65_535;

impl Xtp {
    pub(crate) fn read(&mut self, now: Time, meta: &RxMeta, rx: &mut Placed<'_>) {
        while let Some(segment) = rx.next_segment() {
            match self.parse(rx, &segment) {
                Some(head) => self.on_packet(now, meta, rx, &segment, &head),
                None => self.shared.counters.packets_malformed += 1,
            }
        }
        self.settle_touched(now);
    }

    /// A datagram that is a packet, with its checksum.
    fn parse(&mut self, rx: &Placed<'_>, segment: &Segment) -> Option<Head> {
        let Shared { config, counters, .. } = &mut self.shared;
        let mut bytes = [0; MAX_HEADER_BYTES];
        let wanted = config.codec.header_bytes();
        copy(rx, segment, 0..wanted, &mut bytes);
        let head = Head::parse(config.codec, &bytes[..wanted.min(segment.len)], segment.len, config.is_padded).ok()?;
        if config.verifies && !head.verify(rx.pieces(segment, head.summed())) {
            counters.checksums_wrong += 1;
            return None;
        }
        Some(head)
    }

    fn on_packet(&mut self, now: Time, meta: &RxMeta, rx: &mut Placed<'_>, segment: &Segment, head: &Head) {
        let mut scratch = core::mem::take(&mut self.shared.scratch);
        let is_control = !matches!(head.header.kind, Kind::Data | Kind::First);
        let wanted = if is_control { MAX_CONTROL_BYTES } else { MAX_PREFIX_BYTES }.min(head.packet_bytes());
        scratch.clear();
        for piece in rx.pieces(segment, 0..wanted) {
            scratch.extend_from_slice(piece);
        }
        match Body::parse(head, &scratch) {
            Ok(body) => self.on_body(now, meta, rx, segment, &head.header, body),
            Err(_) => self.shared.counters.packets_malformed += 1,
        }
        self.shared.scratch = scratch;
    }

    fn on_body(
        &mut self,
        now: Time,
        meta: &RxMeta,
        rx: &mut Placed<'_>,
        segment: &Segment,
        header: &Header,
        body: Body<'_>,
    ) {
        if matches!(body, Body::Join { .. }) && !self.shared.config.has_groups {
            // What is of no known type is dropped in silence (specs/xtp.md, 1).
            self.shared.counters.packets_malformed += 1;
            return;
        }
        // Right as a packet, but of a later version: answered, and nothing of it is used (specs/xtp.md, 1).
        if matches!(body, Body::Join { address: FirstAddress::Unknown, .. }) {
            self.diagnose(now, meta, header, Code::ContextRefused, Value::AddressFormat);
            return;
        }
        if let Body::Status(status) | Body::Join { status, .. } = &body
            && matches!(status.traffic, Some(FirstTraffic::Unknown))
        {
            self.diagnose(now, meta, header, Code::ContextRefused, Value::TrafficFormat);
            return;
        }
        match body {
            Body::First { btag, data, .. } if header.key.rtn && !header.options.contains(Options::MULTI) => {
                self.on_first_with_key(now, rx, &FirstPacket { meta, segment, header, btag, data });
            }
            Body::First { address, traffic, btag, data } if !header.key.rtn => {
                if header.options.contains(Options::MULTI) {
                    let body = Body::First { address, traffic, btag, data };
                    self.on_group_packet(now, meta, rx, segment, header, body);
                } else {
                    let packet = FirstPacket { meta, segment, header, btag, data };
                    self.on_first(now, rx, &packet, (address, traffic));
                }
            }
            Body::First { .. } => self.shared.counters.packets_malformed += 1,
            Body::Diag { code, value, .. } => self.on_diag(now, meta.source, header, code, value),
            body @ Body::Join { .. } => self.on_group_packet(now, meta, rx, segment, header, body),
            body if header.options.contains(Options::MULTI) => {
                self.on_group_packet(now, meta, rx, segment, header, body);
            }
            Body::Data { btag, data } => {
                let packet = Packet { header, btag, data: Some(data), bytes: segment.len };
                self.hand_over(now, meta, rx, segment, &packet, None);
            }
            Body::Status(status) => {
                self.shared.counters.statuses_received += 1;
                let packet = Packet { header, btag: None, data: None, bytes: segment.len };
                self.hand_over(now, meta, rx, segment, &packet, Some(&status));
            }
        }
    }

    /// A packet goes to its context. One for no context is answered.
    //= X-2
    fn hand_over(
        &mut self,
        now: Time,
        meta: &RxMeta,
        rx: &mut Placed<'_>,
        segment: &Segment,
        packet: &Packet<'_>,
        status: Option<&Status<'_>>,
    ) {
        let key = self.lookup(packet.header, meta.source);
        let Some((key, context)) = key.and_then(|key| Some((key, self.contexts.lookup_mut(key)?))) else {
            self.shared.counters.packets_unknown += 1;
            if packet.header.options.contains(Options::END) {
                self.shared.farewells.stop(meta.source, packet.header.key);
            }
            self.diagnose(now, meta, packet.header, Code::InvalidContext, Value::Unspecified);
            return;
        };
        if context.is_group() {
            // Streams to groups have MULTI in all their packets.
            self.shared.counters.packets_unknown += 1;
            return;
        }
        on_context_packet(context, &mut self.shared, now, rx, segment, packet, status);
        if packet.data.is_some() {
            self.newest = Some(key);
        }
        if self.touched.last() != Some(&key) {
            self.touched.push(key);
        }
    }

    /// Answers a packet with a DIAG, if it may be answered and there have not been too many.
    pub(crate) fn diagnose(&mut self, now: Time, meta: &RxMeta, header: &Header, code: Code, value: Value) {
        diagnose(&mut self.shared, now, (meta.source, meta.destination), header, code, value);
    }

    /// The host of the link's one peer says that nobody listens there. What has not been answered yet never will be; what
    /// has been is not given up for a report that anybody could forge.
    pub(crate) fn on_unreachable(&mut self, now: Time) {
        if !self.shared.config.trusts_reports {
            return;
        }
        let is_hopeless = |context: &Context| {
            context.peer == Address::Peer
                && context.role == Role::Initiator
                && context.phase == Phase::Active
                && !context.heard
        };
        let keys: Vec<_> = self.contexts.iter().filter(|(_, it)| is_hopeless(it)).map(|(key, _)| key).collect();
        for key in keys {
            if let Some(context) = self.contexts.lookup_mut(key) {
                let (code, value) = (Code::ContextRefused as u32, Value::NoListener as u32);
                context.phase = Phase::Over;
                context.conclude(&mut self.shared, Err(Failure::Refused { code, value }));
            }
            self.settle(now, key);
        }
    }

    fn on_diag(&mut self, now: Time, source: Address, header: &Header, code: u32, value: u32) {
        let Some(key) = self.lookup(header, source) else {
            if !self.on_join_refused(now, source, header, code) {
                self.shared.counters.diags_stray += 1;
                self.shared.farewells.stop(source, header.key);
            }
            return;
        };
        let Some(context) = self.contexts.lookup_mut(key) else { return };
        self.shared.counters.diags_received += 1;
        on_diag(context, &mut self.shared, now, header, code, value);
        self.settle(now, key);
    }
}

pub(crate) fn diagnose(
    shared: &mut Shared,
    now: Time,
    way: (Address, Option<Address>),
    packet: &Header,
    code: Code,
    value: Value,
) {
    if !is_answerable(packet) {
        return;
    }
    let header = answer_to(packet, shared.config.diag_options);
    shared.send_diag(now, way, &header, code, value);
}

fn copy(rx: &Placed<'_>, segment: &Segment, range: Range<usize>, to: &mut [u8]) {
    let mut at = 0;
    for piece in rx.pieces(segment, range) {
        if let Some(place) = to.get_mut(at..at + piece.len()) {
            place.copy_from_slice(piece);
        }
        at += piece.len();
    }
}

/// A packet for a context: DATA, a FIRST that was accepted, or a status.
pub(crate) struct Packet<'a> {
    pub(crate) header: &'a Header,
    pub(crate) btag: Option<[u8; 8]>,
    /// Where the user's bytes lie in the datagram; `None`: a control packet.
    pub(crate) data: Option<Range<usize>>,
    /// Bytes of the datagram.
    pub(crate) bytes: usize,
}

pub(crate) fn on_context_packet(
    context: &mut Context,
    shared: &mut Shared,
    now: Time,
    rx: &mut Placed<'_>,
    segment: &Segment,
    packet: &Packet<'_>,
    status: Option<&Status<'_>>,
) {
    let header = packet.header;
    let options = header.options;
    context.on_heard(now);
    context.is_blocked = false;
    let is_shown = context.on_came(packet.bytes, header.key.rtn, status.map(|status| status.echo));
    if is_shown && !context.is_told {
        shared.events.push_back(Event::Shown { context: context.id() });
    }
    match context.phase {
        Phase::Active => {}
        Phase::TimeWait(_) => {
            // END is not answered; it may have crossed ours.
            if !options.contains(Options::END) {
                context.owe(header.sync);
            }
            return;
        }
        Phase::Fresh | Phase::Over => return,
    }
    if status.is_some_and(|status| !is_possible(context, header, status)) {
        // Of another association with the same key, or forged: nothing of it counts.
        shared.counters.statuses_invalid += 1;
        return;
    }
    //= X-10
    let is_old = context.heard && Seq32::new(header.sync).before(Seq32::new(context.recv_sync));
    if !is_old {
        context.recv_sync = header.sync;
    }
    if !context.heard {
        context.heard = true;
        let shows_no_holes = !shared.config.has_messages || context.service == Service::BulkData;
        if options.contains(Options::NOERR) && shows_no_holes {
            // Where a stream is bytes and nothing else, or fills posted areas, nobody can be told of holes in it.
            context.say(now, shared, Code::ProtocolError, Value::ImproperState);
            context.phase = Phase::Over;
            context.conclude(shared, Err(Failure::Violation));
            return;
        }
        // Each end chooses for its own stream whether it is repeated.
        context.incoming.set_no_error(options.contains(Options::NOERR), context.block.go_back_n);
        shared.events.push_back(Event::Connected { context: context.id() });
        // A FIRST that waits to be repeated is no longer needed.
        context.first.is_due = false;
    }
    match (&packet.data, status) {
        (Some(data), _) => on_data(context, shared, now, rx, segment, packet, data),
        (None, Some(status)) => on_status(context, shared, now, rx, header, status, is_old),
        (None, None) => {}
    }
    if options.contains(Options::RCLOSE) && !is_old {
        on_rclose(context, shared, now, packet, status);
    }
    if !is_old {
        on_asked(context, shared.config.courtesy, now, packet);
    }
    context.report_sent(shared);
    if options.contains(Options::END) && !is_old {
        on_end(context, shared, now);
    }
}

/// Whether a status speaks only of what has been sent. Whoever has our key has heard a sync of ours, too; before, an
/// initiator has none that it could say.
fn is_possible(context: &Context, header: &Header, status: &Status<'_>) -> bool {
    if header.key.rtn && !context.outgoing.may_echo(status.echo) {
        return false;
    }
    let (space, acked, sent) = (context.space, context.outgoing.acked(), context.outgoing.sent());
    let is_sent = |number| space.offset(number, acked).is_some_and(|offset| offset <= sent);
    is_sent(status.rseq) && status.spans.iter().all(|(low, high)| is_sent(low) && is_sent(high))
}

/// SREQ and DREQ, of what may ask: if answers did, two ends could go on answering each other for ever.
//= X-7
fn on_asked(context: &mut Context, courtesy: Duration, now: Time, packet: &Packet<'_>) {
    let Header { kind, options, sync, .. } = *packet.header;
    if !matches!(kind, Kind::Data | Kind::First | Kind::Cntl) {
        return;
    }
    if options.contains(Options::SREQ) {
        let has_data = packet.data.as_ref().is_some_and(|data| !data.is_empty());
        if context.answer_by.is_some() {
            // While a transaction's response is awaited, it takes the place of the status (specs/xtp.md, 3.9).
        } else if context.is_answering
            && has_data
            && !courtesy.is_zero()
            && context.owed.is_none()
            && context.incoming.readable().len > 0
        {
            context.answer_by = Some(now + courtesy);
        } else {
            context.owe(sync);
        }
    }
    if options.contains(Options::DREQ) && !is_deferred(context, packet) && !options.contains(Options::SREQ) {
        context.owe(sync);
    }
}

/// Whether the answer to a packet with DREQ waits until the application has taken the data.
pub(crate) fn is_deferred(context: &mut Context, packet: &Packet<'_>) -> bool {
    let Header { sync, seq, .. } = *packet.header;
    let n = packet.data.as_ref().map_or(0, |data| data.len() as u64);
    let point = context.space.offset(seq, context.incoming.rseq()).unwrap_or(0) + n;
    if context.incoming.dseq() >= point {
        return false;
    }
    if context.deferred.len() == MAX_DEFERRED {
        context.deferred.pop_back();
    }
    context.deferred.push_back((point, sync));
    true
}

pub(crate) fn on_data(
    context: &mut Context,
    shared: &mut Shared,
    now: Time,
    rx: &mut Placed<'_>,
    segment: &Segment,
    packet: &Packet<'_>,
    data: &Range<usize>,
) {
    shared.counters.data_packets_received += 1;
    let options = packet.header.options;
    let n = data.len() as u32;
    let Some(low) = context.space.offset(packet.header.seq, context.incoming.rseq()) else {
        shared.counters.data_packets_duplicate += 1;
        return;
    };
    let end = options.contains(Options::WCLOSE).then(|| low + u64::from(n));
    context.wclose_heard |= end.is_some();
    if context.reading.is_broken_off() {
        shared.counters.data_packets_dropped += 1;
        return;
    }
    if n > 0 {
        if shared.config.area_bytes > 0 {
            give_areas(context, shared, rx, low + u64::from(n));
        } else if context.incoming.needs_ring() {
            give_ring(context, shared, rx);
        }
        if context.incoming.is_outgrown() {
            widen(context, shared, rx);
        }
    }
    context.ring_idle_since = None;
    context.incoming.set_proved(context.is_believed(shared));
    let before = context.incoming.rseq();
    let mut copied = 0;
    let mut stored = 0;
    let has_messages = shared.config.has_messages;
    let (eom, btag) = (has_messages && options.contains(Options::EOM), packet.btag.filter(|_| has_messages));
    let piece = Piece { low, len: n, eom, btag, end };
    let taken = context.incoming.on_data(&piece, &mut |range: Range<u32>, to| {
        let at = data.start + range.start as usize..data.start + range.end as usize;
        stored += u64::from(to.len);
        copied += u64::from(rx.settle(segment, at, to));
    });
    let counters = &mut shared.counters;
    counters.bytes_received += stored;
    counters.bytes_copied += copied;
    counters.bytes_in_place += stored - copied;
    match taken.fate {
        Fate::New => counters.messages_received += u64::from(piece.eom),
        Fate::Duplicate => counters.data_packets_duplicate += 1,
        Fate::Beyond | Fate::Dropped => counters.data_packets_dropped += 1,
        Fate::Contradiction => {
            counters.data_packets_dropped += 1;
            if context.may_diagnose(shared) {
                let to = (context.peer, context.from);
                diagnose(shared, now, to, packet.header, Code::ProtocolError, Value::ImproperState);
            }
        }
    }
    //= X-14
    if taken.is_gap {
        shared.counters.gaps_seen += 1;
        if (options | context.block.listen_flags).contains(Options::FASTNAK) && !options.contains(Options::NOERR) {
            context.owe_unasked();
        }
    }
    on_taken(context, shared, now, &taken, before);
    if n == 0 && taken.fate == Fate::New {
        // No byte is new, but the message has ended.
        shared.tell_readable(context.id());
    }
}

fn on_taken(context: &mut Context, shared: &mut Shared, now: Time, taken: &Taken, before: u64) {
    if taken.completed {
        context.on_complete(now);
    }
    if taken.completed || context.incoming.rseq() > before {
        context.outgoing.on_question();
        shared.tell_readable(context.id());
    }
}

/// Whether so much more storage may be lent to a context. A packet from nobody costs a whole ring: the last quarter is for
/// those who have shown that they are there, and for datagrams.
fn has_room(context: &Context, shared: &Shared, bytes: u64) -> bool {
    let most = shared.config.limits.bytes;
    let is_known = context.is_there() || context.is_believed(shared);
    shared.bytes + bytes <= if is_known { most } else { most - most / 4 }
}

/// Storage for a context's receive ring, of the driver's. Nothing comes farther ahead than a window, or than may be sent
/// before that is known: a larger ring would only take memory from others, or never be had.
//= X-4
fn give_ring(context: &mut Context, shared: &mut Shared, rx: &mut Placed<'_>) {
    let (block, window) = (&context.block, context.incoming.window());
    let least = window.max(block.maxdata).max(1);
    let bytes = u64::from(block.rbufsize.clamp(least, least.max(INITIAL_ALLOC)));
    if !has_room(context, shared, bytes) {
        return;
    }
    if let Some(buffer) = rx.allocate(bytes, &[]) {
        shared.bytes += bytes;
        context.ring_bytes = bytes;
        context.incoming.set_ring(buffer, bytes);
    }
}

/// Doubles the window, and the ring with it where there is one: a fast path that is long would be idle most of the time. A
/// quarter of the memory is for that, so that those who come later get some.
fn widen(context: &mut Context, shared: &mut Shared, rx: &mut Placed<'_>) {
    let window = context.incoming.wider();
    let bytes = u64::from(window);
    if shared.config.area_bytes > 0 {
        context.incoming.widen(window);
        return;
    }
    // Bytes lie beyond its end: soon.
    if !context.incoming.has_outgrown_ring() {
        return;
    }
    let is_short = shared.bytes + bytes > shared.config.limits.bytes / 4;
    match (!is_short).then(|| rx.allocate(bytes, &[])).flatten() {
        Some(buffer) => {
            shared.bytes += bytes;
            context.ring_bytes += bytes;
            context.incoming.set_larger_ring(buffer, window);
            context.incoming.widen(window);
        }
        // It is asked for again when as much has been consumed as now.
        None => context.incoming.widen(0),
    }
}

/// As many areas as bytes up to `high` need, and some more for what follows.
fn give_areas(context: &mut Context, shared: &mut Shared, rx: &mut Placed<'_>, high: u64) {
    while context.incoming.takes_areas()
        && let Some(bytes) = context.incoming.needs_area(high)
    {
        if !has_room(context, shared, bytes) {
            return;
        }
        let Some(buffer) = rx.allocate(bytes, &[]) else { return };
        shared.bytes += bytes;
        context.ring_bytes += bytes;
        context.incoming.post(buffer, 0, bytes);
    }
}

fn on_status(
    context: &mut Context,
    shared: &mut Shared,
    now: Time,
    rx: &mut Placed<'_>,
    header: &Header,
    status: &Status<'_>,
    is_old: bool,
) {
    let space = context.space;
    let Some(rseq) = space.offset(status.rseq, context.outgoing.acked()) else {
        // Acknowledges less than nothing.
        return;
    };
    let mut spans = core::mem::take(&mut shared.spans);
    spans.clear();
    spans.extend(
        status.spans.iter().filter_map(|(low, high)| Some((space.offset(low, rseq)?, space.offset(high, rseq)?))),
    );
    let alloc = space.offset(status.alloc, rseq).unwrap_or(0);
    let is_question = header.options.contains(Options::SREQ);
    let heard = Heard { rseq, alloc, echo: status.echo, spans: &spans, is_old, is_question };
    let alloc_before = context.outgoing.alloc();
    let outcome = context.outgoing.on_status(now, &heard);
    shared.spans = spans;
    if outcome.is_invalid {
        shared.counters.statuses_invalid += 1;
        // Whoever has not heard us says of its own stream what is right.
        if header.options.contains(Options::WCLOSE) && !is_old {
            on_end_told(context, shared, now, rx, header);
        }
        return;
    }
    if outcome.lost > 0
        && let Some(fits) = context.outgoing.take_doubt(now)
    {
        // As if a router had said so: what is repeated from now on is cut finer.
        shared.on_too_large(now, context.peer, Some(fits));
    }
    if outcome.lost > 0 && context.is_at_standstill(now) {
        context.give_up_path(now, shared);
        return;
    }
    shared.round_trip = context.outgoing.round_trip().or(shared.round_trip);
    if outcome.echoes_expiry {
        context.expiries = 0;
    }
    if let Some(silence) = context.silence.as_deref_mut().filter(|_| context.outgoing.alloc() > alloc_before) {
        silence.on_room();
    }
    let is_in_vain = (outcome.is_still_shut && !context.ignores_alloc()) || context.awaits_delivery();
    if !is_in_vain {
        context.answers_in_vain = 0;
    } else if outcome.echoes_expiry {
        context.answers_in_vain = context.answers_in_vain.saturating_add(1);
    }
    // One that answers nothing says nothing of what is waited for, however many of them come.
    context.update_wait(now, shared, outcome.progressed || outcome.echoes_expiry);
    if is_old {
        return;
    }
    //= X-6
    if context.role == Role::Initiator && context.peer_key == 0 {
        context.peer_key = status.xkey & context.codec().key_mask();
        context.proof.unproved_since = Some(context.outgoing.sync());
    }
    context.on_echo(status.echo);
    if let Some(FirstTraffic::Known(traffic)) = status.traffic {
        heed_traffic(context, now, &traffic);
    }
    if let Some(clock) = status.clock {
        context.peer_time = clock.time;
        heed_rate(context, now, clock.rate, clock.burst);
    }
    if header.options.contains(Options::WCLOSE) {
        on_end_told(context, shared, now, rx, header);
    } else if header.kind == Kind::Cntl && header.options.contains(Options::SREQ) && context.incoming.shows_holes() {
        // Its sender has waited for an answer to what it had sent: what has not come of that is lost. It may be all that
        // the sender may send, and then nothing would come behind it that shows so.
        //= X-15
        on_told(context, shared, now, rx, header, Incoming::on_sent);
    }
}

/// In a control packet WCLOSE says that the stream ends at its seq.
pub(crate) fn on_end_told(context: &mut Context, shared: &mut Shared, now: Time, rx: &mut Placed<'_>, header: &Header) {
    context.wclose_heard |= context.space.offset(header.seq, context.incoming.rseq()).is_some();
    on_told(context, shared, now, rx, header, Incoming::on_end);
}

/// What the seq of a control packet says of the stream.
fn on_told(
    context: &mut Context,
    shared: &mut Shared,
    now: Time,
    rx: &mut Placed<'_>,
    header: &Header,
    learn: impl FnOnce(&mut Incoming, u64) -> Taken,
) {
    let Some(sent) = context.space.offset(header.seq, context.incoming.rseq()) else { return };
    if context.reading.is_broken_off() {
        return;
    }
    if sent > context.incoming.hseq() && context.incoming.shows_holes() && context.incoming.needs_ring() {
        // All that was sent may be lost: then a hole is shown, which takes room as bytes do.
        give_ring(context, shared, rx);
    }
    context.incoming.set_proved(context.is_believed(shared));
    let before = context.incoming.rseq();
    let taken = learn(&mut context.incoming, sent);
    on_taken(context, shared, now, &taken, before);
}

/// The smaller of what each end allows (specs/xtp.md, 3.12).
//= X-19
pub(crate) fn heed_traffic(context: &mut Context, now: Time, traffic: &Traffic) {
    if traffic.maxdata > 0 {
        context.maxdata = context.maxdata.min(traffic.maxdata);
    }
    heed_rate(context, now, traffic.inrate, traffic.inburst);
}

fn heed_rate(context: &mut Context, now: Time, inrate: u32, inburst: u32) {
    context.limit_rate(now, (inrate, inburst));
}

/// The peer wants nothing more of our stream (specs/xtp.md, 3.8).
//= X-20
fn on_rclose(context: &mut Context, shared: &mut Shared, now: Time, packet: &Packet<'_>, status: Option<&Status<'_>>) {
    let (is_first, acked) = (!context.peer_reading.is_closed(), context.outgoing.acked());
    if is_first {
        context.peer_reading.close();
        // The end of a message is dropped as its bytes are.
        let is_cut = shared.config.has_messages && context.outgoing.is_in_message();
        if is_cut || context.outgoing.queued() > context.outgoing.sent() {
            context.failure = Some(Failure::StoppedReading);
        }
        context.outgoing.cut_off();
        context.wclose_sent = true;
        context.first.is_due = false;
    }
    let sent = context.outgoing.sent();
    if let Some(status) = status {
        let rseq = context.space.offset(status.rseq, context.outgoing.acked()).unwrap_or(0);
        if rseq < sent && !context.peer_reading.is_broken_off() && context.outgoing.acked() < sent {
            // An abbreviated close of the peer's ends our stream, too; that is an error only if bytes were lost.
            context.give_up(shared);
        }
    } else if packet.data.is_some() && context.service == Service::Transaction && context.role == Role::Initiator {
        // The response acknowledges the request.
        //= X-21
        context.outgoing.settle(now);
        context.expiries = 0;
    }
    // RCLOSE goes with all that follows, too: a stream of it answers nothing.
    context.update_wait(now, shared, is_first || context.outgoing.acked() > acked);
}

/// END: the peer is done, or forces the end.
//= X-20
fn on_end(context: &mut Context, shared: &mut Shared, now: Time) {
    let result = if context.is_done() { Ok(()) } else { Err(Failure::Forced) };
    context.remember_first(shared, now, EndedBy::Peer);
    context.phase = Phase::Over;
    context.conclude(shared, result);
}

/// A DIAG that found its context (specs/xtp.md, 3.7).
fn on_diag(context: &mut Context, shared: &mut Shared, now: Time, header: &Header, code: u32, value: u32) {
    if context.phase != Phase::Active {
        if context.phase != Phase::Over && code == Code::ContextAbandoned as u32 {
            context.remember_first(shared, now, EndedBy::Peer);
            context.phase = Phase::Over;
        }
        return;
    }
    if context.is_group() && !matches!((code, value), (2 | 6, _) | (4, 11)) {
        // A sender answers a receiver with nothing else.
        return;
    }
    let result = match code {
        // It may have overtaken the FIRST: WTIMER goes on.
        3 if header.key.rtn => return,
        3 => {
            let waits_only_for_end = context.outgoing.acked() >= context.outgoing.sent()
                && context.wclose_sent
                && !context.awaits_delivery()
                && (context.incoming.is_complete() || context.reading.is_broken_off());
            if waits_only_for_end { Ok(()) } else { Err(Failure::Unknown) }
        }
        2 => Err(Failure::GivenUpByPeer { value }),
        //= X-22
        4 if value == Value::InvalidRetransmission as u32 && context.is_group() => Err(Failure::TooLate),
        6 => Err(Failure::Violation),
        _ => Err(Failure::Refused { code, value }),
    };
    let block = std::sync::Arc::make_mut(&mut context.block);
    (block.code, block.value) = (code, value);
    context.remember_first(shared, now, EndedBy::Peer);
    context.phase = Phase::Over;
    context.conclude(shared, result);
}
