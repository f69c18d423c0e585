//! Streams to groups (specs/xtp.md, X-22): a sender, any number of receivers, and what they say to each other.
//!
//! Both ends are contexts of the engine. What a sender puts out is built by the same code as for one peer; what differs
//! lies here: a [`Sender`] gathers statuses in buckets instead of waiting for one peer, and a [`Member`] answers to the
//! group, late and only if nobody has said the same. Hosts that hear a stream in the middle ask to join it
//! ([`Stranger`]).
//!
//! Always true: a sender or a member is here as long as its context is active (a sender also in time-wait); what is due
//! at some time is in `dates` once; what others can make grow is bounded by [`Limits`](crate::Limits).
//!
//! What the specification leaves open: the bytes below a bucket's rseq are let go when [`AGREEING`] answered buckets in a
//! row agree, because the only status that asks for them, or the ask that it would have answered, may have been lost, and
//! several of them at once: so they were asked for over a slot, and nobody has said more in answer to a later one; and the
//! stream ends when that many show everything: no more than `retry_count`, and silence is consent once one has shown it.
//! Repeating, and how far the sender may go, waits for no second bucket. After `mc_drops` buckets in a row that one
//! receiver alone keeps from opening the window, it is left behind.
//= X-22

mod bucket;
mod estimate;
mod join;
mod member;
mod sender;

use crate::context::{Context, Phase, Role};
use crate::diag::Reply;
use crate::engine::Xtp;
use crate::receive::Packet;
use crate::shared::Shared;
use crate::{ContextId, ListenerId, Refused};
use core::time::Duration;
use join::{Membership, Stranger};
use member::Member;
use pinnace_core::{Address, ContextKey, Placed, PollAt, RxMeta, Segment, Time, Train};
use pinnace_wire::xtp::{Body, Code, Header, Options, Value};
use sender::Sender;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A status is sent after a random delay up to this, or the round trip, if that is longer.
const SLOT: Duration = Duration::from_millis(20);
/// So many answered buckets in a row have to agree before bytes are let go.
const AGREEING: usize = 3;
/// Packets that wait to leave. They leave at the next poll; beyond, they are dropped.
const MAX_WAITING: usize = 1024;

/// The name of a stream: where it comes from, and its sender's key.
type Name = (Address, u64);

/// Whom a date concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Context(ContextKey),
    Join(Name),
}

/// The groups of an engine.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    memberships: BTreeMap<ListenerId, Membership>,
    senders: BTreeMap<ContextKey, Sender>,
    members: BTreeMap<ContextKey, Member>,
    /// Members by the key of their sender: statuses of others name nothing else.
    by_key: BTreeSet<(u64, ContextKey)>,
    strangers: BTreeMap<Name, Stranger>,
    dates: Dates,
    outbox: VecDeque<Reply>,
}

/// What happens of itself, in order.
#[derive(Debug, Default)]
struct Dates(BTreeSet<(Time, Due)>);

impl Dates {
    /// Moves the date of `due`, which is `slot`, to `at`.
    fn set(&mut self, slot: &mut Option<Time>, due: Due, at: Option<Time>) {
        if *slot == at {
            return;
        }
        if let Some(old) = slot.take() {
            self.0.remove(&(old, due));
        }
        if let Some(at) = at {
            self.0.insert((at, due));
            *slot = Some(at);
        }
    }
}

impl Groups {
    pub(crate) fn poll_at(&self) -> PollAt {
        if !self.outbox.is_empty() {
            return PollAt::Now;
        }
        PollAt::at(self.dates.0.first().map(|(at, _)| *at))
    }

    fn post(&mut self, to: Address, bytes: Vec<u8>) {
        if self.outbox.len() < MAX_WAITING {
            self.outbox.push_back(Reply { to, from: None, bytes });
        }
    }

    /// Something has happened to one end of a stream to a group.
    pub(crate) fn settle(&mut self, now: Time, shared: &mut Shared, context: &mut Context) {
        let key = context.key;
        let due = Due::Context(key);
        if let Some(sender) = self.senders.get_mut(&key) {
            sender.settle(now, shared, context);
            let is_over = context.phase == Phase::Over;
            let at = if is_over { None } else { sender.next_date(now, context) };
            let mut date = sender.date;
            self.dates.set(&mut date, due, at);
            sender.date = date;
            if is_over {
                self.senders.remove(&key);
            }
        } else if let Some(member) = self.members.get_mut(&key) {
            member.settle(now, shared, context);
            let is_over = context.phase == Phase::Over;
            let at = if is_over { None } else { Some(member.next_date(context)) };
            let mut date = member.date;
            self.dates.set(&mut date, due, at);
            member.date = date;
            if is_over {
                let (listener, past) = (member.listener, member.past);
                self.members.remove(&key);
                self.by_key.remove(&(context.peer_key, key));
                // What else comes of this stream is not for anybody here.
                self.shun(now, &shared.config.limits, (context.peer, context.peer_key), listener, Some(past));
            }
        }
    }

    /// The time of some has come.
    fn pop_due(&mut self, now: Time) -> Option<Due> {
        let &(at, due) = self.dates.0.first().filter(|(at, _)| *at <= now)?;
        self.dates.0.remove(&(at, due));
        match due {
            Due::Context(key) => {
                if let Some(sender) = self.senders.get_mut(&key) {
                    sender.date = None;
                } else if let Some(member) = self.members.get_mut(&key) {
                    member.date = None;
                }
            }
            Due::Join(name) => {
                if let Some(stranger) = self.strangers.get_mut(&name) {
                    stranger.date = None;
                }
            }
        }
        Some(due)
    }
}

impl Xtp {
    pub(crate) fn expire_groups(&mut self, now: Time) {
        while let Some(due) = self.groups.pop_due(now) {
            match due {
                Due::Context(key) => {
                    let Self { shared, contexts, groups, .. } = self;
                    let Some(context) = contexts.lookup_mut(key) else { continue };
                    if let Some(sender) = groups.senders.get_mut(&key) {
                        sender.tick(now, shared, context);
                    } else if let Some(member) = groups.members.get_mut(&key) {
                        let group = member.group;
                        while let Some(bytes) = member.tick(now, shared, context) {
                            groups.outbox.push_back(Reply { to: group, from: None, bytes });
                        }
                    }
                    self.settle(now, key);
                }
                Due::Join(name) => self.ask_to_join(now, name),
            }
        }
    }

    /// A packet to a group, or one about joining it. It is never answered by a DIAG that X-22 does not name.
    pub(crate) fn on_group_packet(
        &mut self,
        now: Time,
        meta: &RxMeta,
        rx: &mut Placed<'_>,
        segment: &Segment,
        header: &Header,
        body: Body<'_>,
    ) {
        match (body, header.key.rtn) {
            (Body::Join { .. }, true) => self.on_join_asked(now, meta, header),
            (Body::Join { status, .. }, false) => self.on_joined(now, meta, header, &status),
            (Body::Status(status), true) => self.on_group_status(now, meta, header, &status),
            (_, true) => self.shared.counters.packets_unknown += 1,
            (body, false) => {
                let key = self.by_peer.lookup(&(meta.source, header.key.value));
                if let Some(key) = key.filter(|key| self.groups.members.contains_key(key)) {
                    self.on_member_packet(now, rx, segment, key, header, &body);
                } else if !self.is_own(header) {
                    self.on_stranger(now, meta, rx, segment, header, &body);
                }
            }
        }
    }

    /// Whether a packet is one of our own, which the network has brought back.
    fn is_own(&self, header: &Header) -> bool {
        let key = self.contexts.layout().unpack(header.key.value);
        key.is_some_and(|key| self.groups.senders.contains_key(&key))
    }

    /// A status to the group: for its sender, and for all who might say the same.
    fn on_group_status(&mut self, now: Time, meta: &RxMeta, header: &Header, status: &pinnace_wire::xtp::Status<'_>) {
        self.shared.counters.statuses_received += 1;
        let Self { shared, contexts, groups, .. } = self;
        let own = contexts.layout().unpack(header.key.value);
        if let Some((key, sender)) = own.and_then(|key| Some((key, groups.senders.get_mut(&key)?))) {
            if let Some(context) = contexts.lookup_mut(key) {
                sender.on_status(now, meta.source, shared, context, header, status);
            }
            self.settle(now, key);
            return;
        }
        let first = ContextKey { slot: 0, instance: 0 };
        let mut is_known = false;
        for (_, key) in groups.by_key.range((header.key.value, first)..).take_while(|(of, _)| *of == header.key.value) {
            is_known = true;
            if let (Some(member), Some(context)) = (groups.members.get_mut(key), contexts.lookup_mut(*key)) {
                member.on_heard(context, status);
                self.touched.push(*key);
            }
        }
        shared.counters.packets_unknown += u64::from(!is_known);
    }

    fn on_member_packet(
        &mut self,
        now: Time,
        rx: &mut Placed<'_>,
        segment: &Segment,
        key: ContextKey,
        header: &Header,
        body: &Body<'_>,
    ) {
        let Self { shared, contexts, groups, .. } = self;
        let (Some(context), Some(member)) = (contexts.lookup_mut(key), groups.members.get_mut(&key)) else { return };
        let (btag, data) = match body {
            Body::Data { btag, data } | Body::First { btag, data, .. } => (*btag, Some(data.clone())),
            _ => (None, None),
        };
        let packet = Packet { header, btag, data, bytes: segment.len };
        member.on_packet(now, shared, context, rx, segment, &packet);
        if packet.data.is_some() {
            self.newest = Some(key);
        }
        if self.touched.last() != Some(&key) {
            self.touched.push(key);
        }
    }

    /// A receiver of a stream to a group wants no more of it. Nobody is told: nobody waits for it.
    pub(crate) fn leave(&mut self, now: Time, context: ContextId) -> Result<(), Refused> {
        let key = context.0;
        let context = self.contexts.lookup_mut(key).ok_or(Refused::NoContext)?;
        if context.phase != Phase::Over {
            let result = if context.incoming.is_complete() { Ok(()) } else { Err(crate::Failure::Aborted) };
            context.phase = Phase::Over;
            context.conclude(&mut self.shared, result);
        }
        self.settle(now, key);
        Ok(())
    }

    /// A DIAG that answers a JCNTL.
    pub(crate) fn on_join_refused(&mut self, now: Time, source: Address, header: &Header, code: u32) -> bool {
        let name = (source, header.key.value);
        if header.key.rtn || code != Code::JoinRefused as u32 {
            return false;
        }
        let Some(listener) = self.groups.strangers.get(&name).filter(|it| it.is_asking()).map(|it| it.listener) else {
            return false;
        };
        self.shared.counters.diags_received += 1;
        self.groups.shun(now, &self.shared.config.limits, name, listener, None);
        true
    }
}

impl Context {
    /// Whether it is a receiver of a stream to a group.
    pub(crate) fn is_member(&self) -> bool {
        self.is_group() && self.role == Role::Responder
    }
}

/// A DIAG to one receiver: it asks for what is no longer held.
fn tell_too_late(now: Time, shared: &mut Shared, to: Address, packet: &Header) {
    let header = crate::diag::answer_to(packet, shared.config.diag_options);
    shared.send_diag(now, (to, None), &header, Code::RequestRefused, Value::InvalidRetransmission);
}

pub(crate) fn transmit(engine: &mut Xtp, train: &mut Train) -> bool {
    let Some(packet) = engine.groups.outbox.pop_front() else { return false };
    train.single(packet.to, packet.from, &packet.bytes);
    true
}

/// The options of the packets that end a stream or ask something of it, and need no answer by who does not know it.
const fn is_last(options: Options) -> bool {
    options.contains(Options::END)
}
