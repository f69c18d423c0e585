//! FIRST: whether we listen, and for what (specs/xtp.md, 3.1, 3.7, 3.9, 3.11, 3.12).

use crate::context::{Phase, Role};
use crate::engine::{Birth, Xtp};
use crate::incoming::Piece;
use crate::receive::{Packet, heed_traffic, on_context_packet};
use crate::{ContextId, ControlBlock, Event, ListenerId, Service, Services};
use core::net::IpAddr;
use core::ops::Range;
use pinnace_core::{BufferId, BufferRange, ContextKey, Placed, RxMeta, Segment, Time};
use pinnace_wire::xtp::{
    self, AddressSegment, Code, Codec, FirstAddress, FirstTraffic, Header, HostPair, Options, Traffic, Value,
};
use std::sync::Arc;

/// Somebody who listens on a port.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) block: Arc<ControlBlock>,
    pub(crate) services: Services,
    /// A ring for the next context, and for no other after it: the C interface has one context a socket.
    pub(crate) ring: Option<(BufferId, u64)>,
    /// How many more contexts it takes.
    pub(crate) left: Option<u32>,
}

impl Listener {
    pub(crate) fn port(&self) -> u16 {
        self.block.address_segment.destination_port
    }
}

impl Xtp {
    #[expect(clippy::too_many_arguments, reason = "the parts of one packet")]
    pub(crate) fn on_first(
        &mut self,
        now: Time,
        meta: &RxMeta,
        rx: &mut Placed<'_>,
        segment: &Segment,
        header: &Header,
        (address, traffic): (FirstAddress, FirstTraffic),
        btag: Option<[u8; 8]>,
        data: Range<usize>,
    ) {
        if let Some(key) = self.by_peer.lookup(&(meta.source, header.key.value)) {
            self.on_repeated_first(now, meta, rx, segment, key, (header, btag, data));
            return;
        }
        let was_reset = self.shared.farewells.has(meta.source, header.key);
        if was_reset || self.shared.ended.has(now, &(meta.source, header.key.value), header.seq) {
            self.shared.counters.data_packets_duplicate += 1;
            return;
        }
        let refuse = |engine: &mut Self, value| {
            engine.shared.counters.contexts_refused += 1;
            engine.diagnose(now, meta, header, Code::ContextRefused, value);
        };
        let FirstTraffic::Known(traffic) = traffic else { return refuse(self, Value::TrafficFormat) };
        // Unacknowledged datagrams are never answered, not even by a DIAG.
        let is_silent = traffic.service == xtp::Service::UnackDgram as u8;
        let FirstAddress::Known(address) = address else {
            if is_silent {
                self.shared.counters.contexts_refused += 1;
            } else {
                refuse(self, Value::AddressFormat);
            }
            return;
        };
        let (listener, service) = match self.judge(header.options, &address, &traffic) {
            Ok(found) => found,
            Err(_) if is_silent => {
                self.shared.counters.contexts_refused += 1;
                return;
            }
            Err(value) => return refuse(self, value),
        };
        if service == Service::UnackDgram {
            self.deliver_datagram(meta, rx, segment, (listener, service, address, btag), (header.seq, &data), None);
            return;
        }
        let Some(key) = self.accept(now, meta, header, listener, (service, &traffic)) else {
            return refuse(self, Value::NoResource);
        };
        if service == Service::AckDgram {
            let is_deferred = header.options.contains(Options::DREQ);
            let told = is_deferred.then_some(key);
            if !self.deliver_datagram(meta, rx, segment, (listener, service, address, btag), (header.seq, &data), told)
            {
                // It was not delivered, so it is not acknowledged; it may come again.
                self.forget(key);
                return;
            }
            if let Some(context) = self.contexts.lookup_mut(key) {
                context.on_came(segment.len, false, None);
                // Its bytes are where they belong already; only their numbers are noted.
                let (len, end) = (data.len() as u32, Some(data.len() as u64));
                context.incoming.set_ring(BufferId::new(0), u64::from(len.max(1)));
                context.incoming.on_data(&Piece { low: 0, len, eom: true, btag, end }, &mut |_, _| ());
                context.incoming.release();
                context.heard = true;
                context.recv_sync = header.sync;
                context.peer_reading.close();
                context.reading.close();
                context.outgoing.shut();
                context.wclose_sent = true;
                // The application knows the datagram, and no context.
                context.is_told = true;
                if is_deferred {
                    context.deferred.push_back((u64::MAX, header.sync));
                    if header.options.contains(Options::SREQ) {
                        context.owe(header.sync);
                    }
                } else {
                    context.end_with_status(now, &mut self.shared, header.sync);
                }
                context.wclose_heard = true;
                context.let_go();
            }
            self.settle(now, key);
            return;
        }
        self.shared.events.push_back(Event::Accepted {
            listener,
            context: ContextId(key),
            peer: meta.source,
            address,
            service,
        });
        self.take_first(now, rx, segment, key, (header, btag, data));
    }

    /// FIRST with our own key: an initiator that has it repeats what it has sent.
    //= X-6
    pub(crate) fn on_first_with_key(
        &mut self,
        now: Time,
        meta: &RxMeta,
        rx: &mut Placed<'_>,
        segment: &Segment,
        packet: (&Header, Option<[u8; 8]>, Range<usize>),
    ) {
        match self.lookup(packet.0, meta.source) {
            Some(key) => self.on_repeated_first(now, meta, rx, segment, key, packet),
            None => {
                self.shared.counters.packets_unknown += 1;
                self.diagnose(now, meta, packet.0, Code::InvalidContext, Value::Unspecified);
            }
        }
    }

    /// FIRST for a context that exists: the same start makes it a repetition.
    fn on_repeated_first(
        &mut self,
        now: Time,
        meta: &RxMeta,
        rx: &mut Placed<'_>,
        segment: &Segment,
        key: ContextKey,
        (header, btag, data): (&Header, Option<[u8; 8]>, Range<usize>),
    ) {
        let is_same = self.contexts.lookup(key).is_some_and(|context| {
            context.space.start() == header.seq
                && context.role == Role::Responder
                && context.peer == meta.source
                && !context.is_group()
        });
        if is_same {
            self.take_first(now, rx, segment, key, (header, btag, data));
        }
    }

    /// FIRST as a packet of its context: it is answered as if it had SREQ.
    //= X-5
    fn take_first(
        &mut self,
        now: Time,
        rx: &mut Placed<'_>,
        segment: &Segment,
        key: ContextKey,
        (header, btag, data): (&Header, Option<[u8; 8]>, Range<usize>),
    ) {
        let Some(context) = self.contexts.lookup_mut(key) else { return };
        let header = Header { options: header.options | Options::SREQ, ..*header };
        let packet = Packet { header: &header, btag, data: Some(data), bytes: segment.len };
        on_context_packet(context, &mut self.shared, now, rx, segment, &packet, None);
        self.newest = Some(key);
        self.touched.push(key);
    }

    /// Who listens, and for which service; or why not.
    //= X-5
    fn judge(
        &self,
        options: Options,
        address: &AddressSegment,
        traffic: &Traffic,
    ) -> Result<(ListenerId, Service), Value> {
        let host: IpAddr = match address.hosts {
            HostPair::V4 { destination, .. } => destination.into(),
            HostPair::V6 { destination, .. } => destination.into(),
        };
        // A host has the same address in both formats.
        let is_host = |local: IpAddr| local.to_canonical() == host.to_canonical();
        let local = self.shared.config.local;
        let is_ours = local.is_none_or(|local| local.is_unspecified() || host.is_unspecified() || is_host(local));
        let found = self.ports.get(&address.destination_port).filter(|_| is_ours);
        let (id, listener) = found.and_then(|id| Some((*id, self.listeners.get(id)?))).ok_or(Value::NoListener)?;
        let on_wire = xtp::Service::from_wire(traffic.service).ok_or(Value::NoProvider)?;
        let service = Service::of(on_wire, options);
        // RES belongs to streams. Of posted areas nobody can be told the holes.
        let is_odd = on_wire != xtp::Service::Stream || options.contains(Options::NOERR);
        if options.contains(Options::RES) && is_odd {
            return Err(Value::OptionsRefused);
        }
        // Nobody offers to one what goes to groups.
        if service.is_group() {
            return Err(Value::NoProvider);
        }
        if !listener.services.contains(service) {
            // Streams are offered, but not into posted buffers.
            let is_without_res = service == Service::BulkData
                && [Service::Connection, Service::IsoStream].iter().any(|stream| listener.services.contains(*stream));
            return Err(if is_without_res { Value::OptionsRefused } else { Value::NoProvider });
        }
        //= X-19
        let limit = listener.block.input_rate;
        let is_too_fast = limit > 0 && (traffic.outrate == 0 || traffic.outrate > limit);
        if listener.block.is_rate_binding && is_too_fast && self.shared.config.codec == Codec::Xtp40 {
            return Err(Value::TrafficRefused);
        }
        Ok((id, service))
    }

    /// A context for a FIRST, if there is room.
    fn accept(
        &mut self,
        now: Time,
        meta: &RxMeta,
        header: &Header,
        listener: ListenerId,
        (service, traffic): (Service, &Traffic),
    ) -> Option<ContextKey> {
        self.make_room_half_open(now);
        let found = self.listeners.get_mut(&listener)?;
        let ring = found.ring.take();
        let block = Arc::clone(&found.block);
        if let Some(left) = &mut found.left {
            *left = left.checked_sub(1)?;
            if *left == 0 {
                self.stop_listening(listener);
            }
        }
        let birth = Birth {
            role: Role::Responder,
            phase: Phase::Active,
            peer: meta.source,
            from: meta.destination,
            start: header.seq,
            service,
        };
        let key = self.new_context(now, &birth, block)?;
        self.by_peer.insert((meta.source, header.key.value), key);
        self.half_open.push_back(key);
        self.shared.counters.contexts_accepted += 1;
        let context = self.contexts.lookup_mut(key)?;
        context.listener = Some(listener);
        context.peer_key = header.key.value;
        if let Some((buffer, bytes)) = ring {
            context.incoming.set_ring(buffer, bytes);
        }
        heed_traffic(context, now, traffic);
        Some(key)
    }

    /// Hands a datagram over; false if there is no room for it.
    fn deliver_datagram(
        &mut self,
        meta: &RxMeta,
        rx: &mut Placed<'_>,
        segment: &Segment,
        (listener, service, address, btag): (ListenerId, Service, AddressSegment, Option<[u8; 8]>),
        (start, data): (u64, &Range<usize>),
        context: Option<ContextKey>,
    ) -> bool {
        let len = data.len() as u64;
        let counters = &mut self.shared.counters;
        let limits = &self.shared.config.limits;
        if self.shared.bytes + len > limits.bytes || self.shared.datagrams >= limits.datagrams {
            counters.data_packets_dropped += 1;
            return false;
        }
        let mut buffer = None;
        if len > 0 {
            buffer = rx.allocate(len, &[]);
            let Some(buffer) = buffer else {
                counters.data_packets_dropped += 1;
                return false;
            };
            counters.bytes_copied +=
                u64::from(rx.settle(segment, data.clone(), BufferRange::new(buffer, 0, len as u32)));
        }
        self.shared.bytes += len;
        self.shared.datagrams += 1;
        counters.data_packets_received += 1;
        counters.messages_received += 1;
        counters.bytes_received += len;
        let (peer, context) = (meta.source, context.map(ContextId));
        self.shared.events.push_back(Event::Datagram {
            listener,
            peer,
            address,
            service,
            buffer,
            len,
            start,
            btag,
            context,
        });
        true
    }
}
