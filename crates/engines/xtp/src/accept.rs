//! FIRST: whether we listen, and for what (specs/xtp.md, 3.1, 3.7, 3.9, 3.11, 3.12).

use crate::context::{Phase, Role};
use crate::ended::EndedBy;
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

/// A FIRST as it came.
pub(crate) struct FirstPacket<'a> {
    pub(crate) meta: &'a RxMeta,
    pub(crate) segment: &'a Segment,
    pub(crate) header: &'a Header,
    pub(crate) btag: Option<[u8; 8]>,
    /// Where the user's bytes lie in the datagram.
    pub(crate) data: Range<usize>,
}

/// What a FIRST wants, and who listens for it.
#[derive(Clone, Copy)]
struct Wanted {
    listener: ListenerId,
    service: Service,
    address: AddressSegment,
    traffic: Traffic,
}

impl Xtp {
    /// FIRST with the key of whoever sent it: it makes a context, or is a datagram.
    pub(crate) fn on_first(
        &mut self,
        now: Time,
        rx: &mut Placed<'_>,
        packet: &FirstPacket<'_>,
        (address, traffic): (FirstAddress, FirstTraffic),
    ) {
        let FirstPacket { meta, header, .. } = *packet;
        let name = (meta.source, header.key.value);
        if let Some(key) = self.by_peer.lookup(&name) {
            self.on_repeated_first(now, rx, key, packet);
            return;
        }
        let ended = self.shared.ended.by(now, &name, header.seq);
        // Whose reset is still said again needs nothing more.
        let was_reset = self.shared.farewells.has(meta.source, header.key);
        if was_reset || ended.is_some() {
            self.shared.counters.data_packets_duplicate += 1;
            if !was_reset && ended == Some(EndedBy::Us) {
                self.diagnose(now, meta, header, Code::ContextAbandoned, Value::Unspecified);
            }
            return;
        }
        // Unacknowledged datagrams are never answered, not even by a DIAG.
        let silent = xtp::Service::UnackDgram as u8;
        let is_silent = matches!(&traffic, FirstTraffic::Known(traffic) if traffic.service == silent);
        let wanted = self.judge(header.options, address, traffic);
        if let Err(value) = wanted.and_then(|wanted| self.serve(now, rx, packet, wanted)) {
            self.shared.counters.contexts_refused += 1;
            if !is_silent {
                self.diagnose(now, meta, header, Code::ContextRefused, value);
            }
        }
    }

    /// Gives a FIRST what it wants; or says why not.
    fn serve(&mut self, now: Time, rx: &mut Placed<'_>, packet: &FirstPacket<'_>, wanted: Wanted) -> Result<(), Value> {
        if wanted.service == Service::UnackDgram {
            self.deliver_datagram(rx, packet, wanted, None);
            return Ok(());
        }
        let key = self.accept(now, packet, &wanted).ok_or(Value::NoResource)?;
        if wanted.service == Service::AckDgram {
            self.answer_datagram(now, rx, key, packet, wanted);
            return Ok(());
        }
        let Wanted { listener, service, address, .. } = wanted;
        let (context, peer) = (ContextId(key), packet.meta.source);
        self.shared.events.push_back(Event::Accepted { listener, context, peer, address, service });
        self.take_first(now, rx, key, packet);
        Ok(())
    }

    /// An acknowledged datagram is delivered, and its context lives only to say so: at once, or (DREQ) when the application
    /// has taken it.
    fn answer_datagram(
        &mut self,
        now: Time,
        rx: &mut Placed<'_>,
        key: ContextKey,
        packet: &FirstPacket<'_>,
        wanted: Wanted,
    ) {
        let FirstPacket { segment, header, btag, .. } = *packet;
        let is_deferred = header.options.contains(Options::DREQ);
        if !self.deliver_datagram(rx, packet, wanted, is_deferred.then_some(key)) {
            // It was not delivered, so it is not acknowledged; it may come again.
            self.forget(key);
            return;
        }
        if let Some(context) = self.contexts.lookup_mut(key) {
            context.on_came(segment.len, false, None);
            // Its bytes are where they belong already; only their numbers are noted.
            let (len, end) = (packet.data.len() as u32, Some(packet.data.len() as u64));
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
    }

    /// FIRST with our own key: an initiator that has it repeats what it has sent.
    //= X-6
    pub(crate) fn on_first_with_key(&mut self, now: Time, rx: &mut Placed<'_>, packet: &FirstPacket<'_>) {
        match self.lookup(packet.header, packet.meta.source) {
            Some(key) => self.on_repeated_first(now, rx, key, packet),
            None => {
                self.shared.counters.packets_unknown += 1;
                self.diagnose(now, packet.meta, packet.header, Code::InvalidContext, Value::Unspecified);
            }
        }
    }

    /// FIRST for a context that exists: the same start makes it a repetition.
    fn on_repeated_first(&mut self, now: Time, rx: &mut Placed<'_>, key: ContextKey, packet: &FirstPacket<'_>) {
        let is_same = self.contexts.lookup(key).is_some_and(|context| {
            context.space.start() == packet.header.seq
                && context.role == Role::Responder
                && context.peer == packet.meta.source
                && !context.is_group()
        });
        if is_same {
            self.take_first(now, rx, key, packet);
        }
    }

    /// FIRST as a packet of its context: it is answered as if it had SREQ.
    //= X-5
    fn take_first(&mut self, now: Time, rx: &mut Placed<'_>, key: ContextKey, packet: &FirstPacket<'_>) {
        let Some(context) = self.contexts.lookup_mut(key) else { return };
        let FirstPacket { segment, header, btag, ref data, .. } = *packet;
        let header = Header { options: header.options | Options::SREQ, ..*header };
        let packet = Packet { header: &header, btag, data: Some(data.clone()), bytes: segment.len };
        on_context_packet(context, &mut self.shared, now, rx, segment, &packet, None);
        self.newest = Some(key);
        self.touched.push(key);
    }

    /// Who listens, and for which service; or why not.
    //= X-5
    fn judge(&self, options: Options, address: FirstAddress, traffic: FirstTraffic) -> Result<Wanted, Value> {
        // The address comes first: behind one that is not known, the traffic may lie too far away to be read.
        let FirstAddress::Known(address) = address else { return Err(Value::AddressFormat) };
        let FirstTraffic::Known(traffic) = traffic else { return Err(Value::TrafficFormat) };
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
        Ok(Wanted { listener: id, service, address, traffic })
    }

    /// A context for a FIRST, if there is room.
    fn accept(&mut self, now: Time, packet: &FirstPacket<'_>, wanted: &Wanted) -> Option<ContextKey> {
        let (FirstPacket { meta, header, .. }, listener) = (packet, wanted.listener);
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
            service: wanted.service,
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
        heed_traffic(context, now, &wanted.traffic);
        Some(key)
    }

    /// Hands a datagram over; false if there is no room for it.
    fn deliver_datagram(
        &mut self,
        rx: &mut Placed<'_>,
        packet: &FirstPacket<'_>,
        wanted: Wanted,
        context: Option<ContextKey>,
    ) -> bool {
        let FirstPacket { meta, segment, header, btag, ref data } = *packet;
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
        let Wanted { listener, service, address, .. } = wanted;
        let (peer, start, context) = (meta.source, header.seq, context.map(ContextId));
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
