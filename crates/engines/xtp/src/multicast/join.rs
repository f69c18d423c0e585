//! Opening a stream to a group, listening for one, and joining one that has begun.
//= X-22

use super::member::{Member, Past};
use super::sender::Sender;
use super::{Due, Groups, MAX_WAITING, Name, SLOT, is_last};
use crate::context::{Phase, Role};
use crate::engine::{Birth, Xtp};
use crate::{ContextId, ControlBlock, Event, Failure, Limits, ListenerId, Refused, Service, Services};
use core::net::IpAddr;
use core::time::Duration;
use pinnace_core::{Address, Allowance, ContextKey, Placed, RxMeta, Segment, Time};
use pinnace_wire::xtp::{
    self, AddressSegment, Body, Code, Codec, FirstAddress, FirstTraffic, Header, HostPair, Key, Kind, Options, Spans,
    Status, Traffic, Value,
};
use std::sync::Arc;

/// Whose sender was heard so lately does not give way to others.
const LIVELY: Duration = Duration::from_secs(1);

/// Somebody who listens for streams to a group.
#[derive(Debug)]
pub(super) struct Membership {
    group: Address,
    block: Arc<ControlBlock>,
    services: Services,
}

/// A stream that is heard, and not received.
#[derive(Debug)]
pub(super) struct Stranger {
    pub(super) listener: ListenerId,
    /// How often it has been asked to let us join; `None`: nobody wants it (any more).
    tries: Option<u32>,
    /// What may still be sent there: its address is not proved.
    allowance: Allowance,
    heard_at: Time,
    /// What has been received of it.
    past: Option<Past>,
    pub(super) date: Option<Time>,
}

impl Stranger {
    pub(super) fn is_asking(&self) -> bool {
        self.tries.is_some()
    }
}

impl Groups {
    /// What comes of this stream is for nobody here.
    pub(super) fn shun(&mut self, now: Time, limits: &Limits, name: Name, listener: ListenerId, past: Option<Past>) {
        if self.make_room(limits, name) {
            let mut stranger = self.strangers.remove(&name).unwrap_or(Stranger {
                listener,
                tries: None,
                allowance: Allowance::default(),
                heard_at: now,
                past: None,
                date: None,
            });
            self.dates.set(&mut stranger.date, Due::Join(name), None);
            (stranger.tries, stranger.past) = (None, past);
            self.strangers.insert(name, stranger);
        }
    }

    /// Room for another stranger: the one that nobody wants and that was silent for longest gives way.
    fn make_room(&mut self, limits: &Limits, name: Name) -> bool {
        if self.strangers.contains_key(&name) || self.strangers.len() < limits.strangers {
            return true;
        }
        let unwanted = self.strangers.iter().filter(|(_, stranger)| !stranger.is_asking());
        let oldest = unwanted.min_by_key(|(_, stranger)| stranger.heard_at).map(|(name, _)| *name);
        oldest.is_some_and(|oldest| self.strangers.remove(&oldest).is_some())
    }

    fn forget_stranger(&mut self, name: Name) {
        if let Some(mut stranger) = self.strangers.remove(&name) {
            self.dates.set(&mut stranger.date, Due::Join(name), None);
        }
    }

    /// Whether a packet that was sent there has gone to many.
    fn is_group(&self, destination: Option<Address>) -> bool {
        match destination {
            Some(Address::Inet(to)) => to.ip().is_multicast(),
            Some(to) => self.memberships.values().any(|membership| membership.group == to),
            None => false,
        }
    }

    /// Who listens for the group that a packet was sent to; `address`: what its FIRST says.
    fn listener_for(&self, meta: &RxMeta, address: Option<&AddressSegment>) -> Option<ListenerId> {
        let is_wanted = |membership: &&Membership| {
            let to_group = match (meta.destination, membership.group) {
                (Some(Address::Inet(to)), Address::Inet(group)) => to.ip() == group.ip(),
                (Some(to @ Address::Node(_)), group) => to == group,
                // The link does not tell.
                _ => true,
            };
            to_group
                && address.is_none_or(|address| {
                    let own = &membership.block.address_segment;
                    address.destination_port == own.destination_port && is_same_group(&address.hosts, &own.hosts)
                })
        };
        self.memberships.iter().find(|(_, membership)| is_wanted(membership)).map(|(listener, _)| *listener)
    }
}

fn is_same_group(told: &HostPair, own: &HostPair) -> bool {
    let destination = |hosts: &HostPair| match *hosts {
        HostPair::V4 { destination, .. } => IpAddr::V4(destination),
        HostPair::V6 { destination, .. } => IpAddr::V6(destination),
    };
    let (told, own) = (destination(told), destination(own));
    told.is_unspecified() || own.is_unspecified() || told == own
}

/// The destination of an address segment is the group, where we know it.
fn fill_group(block: &mut ControlBlock, group: Address) {
    if let Address::Inet(group) = group {
        block.address_segment.hosts = match (group.ip(), block.address_segment.hosts) {
            (IpAddr::V4(destination), HostPair::V4 { source, .. }) => HostPair::V4 { destination, source },
            (IpAddr::V4(destination), _) => HostPair::V4 { destination, source: core::net::Ipv4Addr::UNSPECIFIED },
            (IpAddr::V6(destination), HostPair::V6 { source, .. }) => HostPair::V6 { destination, source },
            (IpAddr::V6(destination), _) => HostPair::V6 { destination, source: core::net::Ipv6Addr::UNSPECIFIED },
        };
        if block.address_segment.destination_port == 0 {
            block.address_segment.destination_port = group.port();
        }
    }
}

impl Xtp {
    /// A stream to all who listen for `group`: [`Service::Multicast`] (nobody waits for one receiver, but what is asked
    /// for is repeated) or [`Service::UnackMulticast`] (nothing is repeated, and nothing but `output_rate` bounds how fast
    /// it is sent). It is used as any other context: [`Xtp::send`], [`Xtp::finish`], [`Xtp::release`].
    ///
    /// It is closed when every receiver that answered has everything; with
    /// [`Failure::Abandoned`](crate::Failure::Abandoned) if that could not be shown. The link has to bring what is sent to
    /// the group, for the answers of the receivers go there.
    ///
    /// # Errors
    /// [`Refused::Unsupported`] (another service, xtp36, or no groups), [`Refused::Port`] (neither the block nor the group has one),
    /// [`Refused::Sort`], [`Refused::TooManyContexts`], [`Refused::ShutDown`].
    //= X-22
    pub fn open_group(&mut self, now: Time, group: Address, block: ControlBlock) -> Result<ContextId, Refused> {
        let block = self.check_group(group, block)?;
        let start = self.shared.secrets.draw();
        let service = block.service;
        let birth = Birth { role: Role::Initiator, phase: Phase::Fresh, peer: group, from: None, start, service };
        let key = self.new_context(now, &birth, Arc::new(block)).ok_or(Refused::TooManyContexts)?;
        if let Some(context) = self.contexts.lookup(key) {
            self.groups.senders.insert(key, Sender::new(&context.block, context.outgoing.sync()));
        }
        self.shared.counters.contexts_opened += 1;
        Ok(ContextId(key))
    }

    /// Receives every stream of these services to `group` and the destination port of the block's address, those too
    /// that have begun. Each is told with [`Event::Accepted`], and read as any other context. The link has to bring what is
    /// sent to the group. [`Xtp::stop_listening`] ends it.
    ///
    /// # Errors
    /// [`Refused::Unsupported`] (no multicast service, xtp36, or no groups), [`Refused::Port`] (none, or too many listeners),
    /// [`Refused::ShutDown`].
    //= X-22
    pub fn join(&mut self, group: Address, block: ControlBlock, services: Services) -> Result<ListenerId, Refused> {
        let block = self.check_group(group, block)?;
        if !services.contains(Service::Multicast) && !services.contains(Service::UnackMulticast) {
            return Err(Refused::Unsupported);
        }
        if self.groups.memberships.len() >= self.shared.config.limits.listeners {
            return Err(Refused::Port);
        }
        let listener = self.next_listener_id();
        self.groups.memberships.insert(listener, Membership { group, block: Arc::new(block), services });
        Ok(listener)
    }

    fn check_group(&self, group: Address, mut block: ControlBlock) -> Result<ControlBlock, Refused> {
        if self.is_shut_down.is_some() {
            return Err(Refused::ShutDown);
        }
        let config = &self.shared.config;
        if config.codec != Codec::Xtp40 || !config.has_groups || !block.service.is_group() {
            return Err(Refused::Unsupported);
        }
        if block.sort_value > u32::from(u16::MAX) {
            return Err(Refused::Sort);
        }
        // Nobody answers, so nobody ever makes room.
        block.holds_back &= block.service != Service::UnackMulticast;
        fill_group(&mut block, group);
        crate::api::fill_source(&mut block, self.shared.config.local);
        if block.address_segment.source_port == 0 {
            block.address_segment.source_port = self.shared.config.local_port;
        }
        if block.address_segment.destination_port == 0 { Err(Refused::Port) } else { Ok(block) }
    }

    pub(crate) fn stop_listening_for_group(&mut self, listener: ListenerId) {
        self.groups.memberships.remove(&listener);
        let names: Vec<_> =
            self.groups.strangers.iter().filter(|(_, it)| it.listener == listener).map(|it| *it.0).collect();
        for name in names {
            self.groups.forget_stranger(name);
        }
    }

    /// A packet of a stream that is not received here.
    pub(super) fn on_stranger(
        &mut self,
        now: Time,
        meta: &RxMeta,
        rx: &mut Placed<'_>,
        segment: &Segment,
        header: &Header,
        body: &Body<'_>,
    ) {
        let name = (meta.source, header.key.value);
        let is_first = matches!(body, Body::First { .. });
        let known = self.groups.strangers.get_mut(&name).map(|stranger| {
            stranger.heard_at = now;
            stranger.allowance.earn(1, segment.len);
            stranger.is_asking() || (is_first && stranger.past.is_some_and(|past| past.is_before(header)))
        });
        if known == Some(false) || self.by_peer.lookup(&name).is_some() {
            self.shared.counters.packets_unknown += 1;
            return;
        }
        if let Body::First { address: FirstAddress::Known(address), traffic: FirstTraffic::Known(traffic), .. } = body {
            let Some(listener) = self.groups.listener_for(meta, Some(address)) else {
                self.shared.counters.packets_unknown += 1;
                return;
            };
            if let Some(key) = self.accept_stream(now, meta.source, header, header.seq, listener, *address, traffic) {
                self.groups.forget_stranger(name);
                self.on_member_packet(now, rx, segment, key, header, body);
            }
            return;
        }
        if known.is_some() || is_last(header.options) || is_first {
            return;
        }
        let Some(listener) = self.groups.listener_for(meta, None) else {
            self.shared.counters.packets_unknown += 1;
            return;
        };
        if self.groups.make_room(&self.shared.config.limits, name) {
            let mut allowance = Allowance::default();
            allowance.earn(1, segment.len);
            let stranger = Stranger { listener, tries: Some(0), allowance, heard_at: now, past: None, date: None };
            self.groups.strangers.insert(name, stranger);
            self.ask_to_join(now, name);
        }
    }

    /// JCNTL: at first, or again because no answer has come.
    pub(super) fn ask_to_join(&mut self, now: Time, name: Name) {
        let groups = &mut self.groups;
        let Some(stranger) = groups.strangers.get_mut(&name) else { return };
        let Some(membership) = groups.memberships.get(&stranger.listener) else { return };
        let Some(tries) = stranger.tries else { return };
        if tries > membership.block.retry_count {
            // The next packet begins anew.
            groups.strangers.remove(&name);
            return;
        }
        stranger.tries = Some(tries + 1);
        groups.dates.set(&mut stranger.date, Due::Join(name), Some(now + SLOT * (1 << tries.min(8))));
        let block = &membership.block;
        let header = Header {
            codec: Codec::Xtp40,
            key: Key { rtn: true, value: name.1 },
            options: Options::SREQ,
            kind: Kind::Jcntl,
            sort: 0,
            sync: 0,
            seq: 0,
            dseq: 0,
        };
        let mut bytes = Vec::new();
        let status = nothing(0);
        xtp::join(&header, &status, &block.address_segment, &block.traffic(block.service), &mut bytes);
        if stranger.allowance.try_spend(1, bytes.len()) {
            groups.post(name.0, bytes);
        }
    }

    /// JCNTL to a sender. One that was sent to the whole group would be denied by all but one.
    pub(super) fn on_join_asked(&mut self, now: Time, meta: &RxMeta, header: &Header) {
        if self.groups.is_group(meta.destination) {
            self.shared.counters.packets_unknown += 1;
            return;
        }
        let Self { shared, contexts, groups, .. } = self;
        let key = contexts.layout().unpack(header.key.value);
        let found = key.and_then(|key| Some((key, groups.senders.get_mut(&key)?, contexts.lookup(key)?)));
        let Some((key, sender, context)) =
            found.filter(|(_, _, context)| context.phase == Phase::Active && context.first.has_left)
        else {
            self.diagnose(now, meta, header, Code::JoinRefused, Value::JoinDenied);
            return;
        };
        if groups.outbox.len() >= MAX_WAITING {
            return;
        }
        let start = sender.on_join(context);
        let answer = context.header(Kind::Jcntl, Options::NONE, context.outgoing.sync(), context.space.number(start));
        let status = nothing(header.sync);
        let mut bytes = Vec::new();
        xtp::join(&answer, &status, &context.block.address_segment, &context.traffic(), &mut bytes);
        shared.counters.statuses_sent += 1;
        groups.post(meta.source, bytes);
        self.settle(now, key);
    }

    /// JCNTL from a sender: the answer.
    pub(super) fn on_joined(&mut self, now: Time, meta: &RxMeta, header: &Header, status: &Status<'_>) {
        let name = (meta.source, header.key.value);
        let asking = self.groups.strangers.get(&name).filter(|stranger| stranger.is_asking());
        let (Some(listener), Some(FirstTraffic::Known(traffic))) = (asking.map(|it| it.listener), &status.traffic)
        else {
            self.shared.counters.packets_unknown += 1;
            return;
        };
        let Some(membership) = self.groups.memberships.get(&listener) else { return };
        let address = membership.block.address_segment;
        match self.accept_stream(now, meta.source, header, header.seq, listener, address, traffic) {
            Some(key) => {
                self.groups.forget_stranger(name);
                self.touched.push(key);
            }
            None => self.groups.shun(now, &self.shared.config.limits, name, listener, None),
        }
    }

    /// Room for another member: the one that has been without its sender for longest gives way.
    fn make_room_for_member(&mut self, now: Time) -> bool {
        if self.groups.members.len() < self.shared.config.limits.members {
            return true;
        }
        let heard_at = |key: &ContextKey| self.contexts.lookup(*key).map(|context| context.last_heard);
        let oldest = self.groups.members.keys().filter_map(|key| Some((heard_at(key)?, *key))).min();
        let Some((_, key)) = oldest.filter(|(at, _)| now.since(*at) >= LIVELY) else { return false };
        self.shared.counters.contexts_evicted += 1;
        if let Some(context) = self.contexts.lookup_mut(key) {
            context.phase = Phase::Over;
            context.conclude(&mut self.shared, Err(Failure::Abandoned));
        }
        self.settle(now, key);
        true
    }

    /// A context for a stream that begins, or goes on, at `start`.
    #[expect(clippy::too_many_arguments, reason = "what a packet says about a stream")]
    fn accept_stream(
        &mut self,
        now: Time,
        source: Address,
        header: &Header,
        start: u64,
        listener: ListenerId,
        address: AddressSegment,
        traffic: &Traffic,
    ) -> Option<ContextKey> {
        let membership = self.groups.memberships.get(&listener)?;
        let service = xtp::Service::from_wire(traffic.service).map(|service| Service::of(service, header.options));
        let service = service.filter(|service| service.is_group() && membership.services.contains(*service));
        let is_room = self.make_room_for_member(now);
        let membership = self.groups.memberships.get(&listener)?;
        let Some(service) = service.filter(|_| is_room && !header.options.contains(Options::RES)) else {
            self.shared.counters.contexts_refused += 1;
            return None;
        };
        let group = membership.group;
        let block = Arc::clone(&membership.block);
        let birth = Birth { role: Role::Responder, phase: Phase::Active, peer: source, from: None, start, service };
        let key = self.new_context(now, &birth, block)?;
        self.by_peer.insert((source, header.key.value), key);
        let context = self.contexts.lookup_mut(key)?;
        context.listener = Some(listener);
        context.peer_key = header.key.value;
        (context.heard, context.recv_sync) = (true, header.sync);
        // A receiver has no stream of its own.
        context.outgoing.shut();
        context.wclose_sent = true;
        context.peer_reading.close();
        let past = Past { start: (header.kind == Kind::First).then_some(start), end: None };
        self.groups.members.insert(key, Member::new(group, listener, past));
        self.groups.by_key.insert((header.key.value, key));
        self.shared.counters.contexts_accepted += 1;
        let context = ContextId(key);
        self.shared.events.push_back(Event::Accepted { listener, context, peer: source, address, service });
        Some(key)
    }
}

/// The status in a JCNTL: rseq, alloc and xkey are 0.
fn nothing(echo: u32) -> Status<'static> {
    Status { rseq: 0, alloc: 0, echo, spans: Spans::EMPTY, xkey: 0, traffic: None, clock: None, hseq: 0 }
}
