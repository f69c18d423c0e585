//! Sets of sinks: the same messages for all of them.
//!
//! Each sink has a connection of its own, with its own window, acknowledgements and repetitions. Without a group every
//! block goes over each of them. With one, a block goes once to the group, when every sink that has joined lets it leave;
//! each connection then counts it as sent. A sink that joins late gets over its own connection what the group has sent
//! since its OPEN, and is in step when it has caught up. One that holds up the group and does not answer, or takes nothing,
//! is out of step in the same way until it gets on or is cut off, and the others do not wait for it. Always true: the first
//! block of a sink is the first of a message, so all of them cut messages alike.
//= A-15

use crate::connection::{Birth, Connection, Phase, Role};
use crate::engine::A1;
use crate::outgoing::{Block, Message, Next, Terms};
use crate::shared::{DataPlace, Payer, Sender, Shared};
use crate::transmit::add_block;
use crate::{CastId, ConnectionId, Event, Failure, Output, Refused, SlowSink, qos};
use core::net::SocketAddr;
use core::time::Duration;
use pinnace_core::{Address, BufferId, ContextKey, ContextTable, Time, Train};
use pinnace_wire::a1::{self, CloseCode, Group, HEADER_BYTES, Header, Qos};
use std::collections::{BTreeMap, VecDeque};

/// Messages that are kept for a sink that has not answered yet.
const MAX_BACKLOG: usize = 4096;
/// A sink that is asked several times and silent for so long is not slow.
const SILENCE: Duration = Duration::from_secs(1);
/// A sink of a group cannot be left out of messages: that is its patience with [`SlowSink::Degrade`].
const GROUP_PATIENCE: Duration = Duration::from_secs(1);
/// A group waits for so long for a sink that does not answer or takes nothing, or for two of its time-outs.
const STILLNESS: Duration = Duration::from_millis(150);

/// A message that some sinks still need.
#[derive(Debug)]
struct Pending {
    ticket: u64,
    buffer: BufferId,
    left: u32,
    delivered: u32,
    sinks: u32,
}

#[derive(Debug)]
struct Member {
    key: ContextKey,
    /// What was sent since its OPEN, until it has answered.
    backlog: VecDeque<Message>,
}

/// The stream to a group. Blocks are counted from 0.
#[derive(Debug)]
struct GroupStream {
    group: Group,
    /// The wire number of block 0.
    start: u32,
    sent: u64,
    /// Blocks that there are.
    cut: u64,
    /// The wire number of the next message.
    message: u32,
    block_bytes: u32,
    has_checksum: bool,
    is_reliable: bool,
    priority: u8,
    /// How old a message may become before it leaves, where nothing is repeated; zero: it does not matter.
    deadline: Duration,
}

/// What a sink without room means to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// It is waited for.
    HoldsUp,
    /// It does not get it.
    LeftOut,
    /// If it stands still, and no group goes at its pace, the message is kept for it behind the others' backs, until it is cut
    /// off or gets on.
    Kept,
}

type Connections = ContextTable<Box<Connection>>;

/// A set of sinks.
#[derive(Debug)]
pub(crate) struct Cast {
    slow: SlowSink,
    stream: Option<GroupStream>,
    members: Vec<Member>,
    pending: VecDeque<Pending>,
    wants_room: bool,
    place: Option<DataPlace>,
    /// The group waits for a fuller train, and stands in [`Shared::held`].
    is_held: bool,
    /// The sink that holds up the group.
    pub(crate) blocked_on: Option<ContextKey>,
    is_ending: bool,
}

impl Cast {
    /// A sink does not need a message any more.
    pub(crate) fn on_done(&mut self, id: CastId, ticket: u64, is_delivered: bool, shared: &mut Shared) {
        let Ok(at) = self.pending.binary_search_by_key(&ticket, |pending| pending.ticket) else { return };
        let Some(pending) = self.pending.get_mut(at) else { return };
        pending.left -= 1;
        pending.delivered += u32::from(is_delivered);
        if pending.left == 0
            && let Some(Pending { ticket, buffer, delivered, sinks, .. }) = self.pending.remove(at)
        {
            shared.events.push_back(Event::Cast { cast: id, ticket, buffer, delivered, sinks });
        }
    }

    pub(crate) fn patience(&self, is_in_group: bool) -> Option<Duration> {
        match self.slow {
            SlowSink::Block => None,
            SlowSink::Drop { patience } => Some(patience),
            SlowSink::Degrade if is_in_group => Some(GROUP_PATIENCE),
            SlowSink::Degrade => None,
        }
    }
}

impl A1 {
    /// A new set of sinks, without any yet. With a `group`, sinks that can join it get the data there, once for all.
    /// `qos` is then the record of all sinks, as to block size, options and priority.
    ///
    /// # Errors
    /// [`Refused::TooManyConnections`], [`Refused::Impossible`], [`Refused::BeyondMaximum`], [`Refused::ShutDown`].
    //= A-15
    pub fn cast(&mut self, slow: SlowSink, group: Option<(Group, Qos)>) -> Result<CastId, Refused> {
        if self.is_shut_down.is_some() {
            return Err(Refused::ShutDown);
        }
        if self.casts.len() >= self.shared.config.limits.casts {
            return Err(Refused::TooManyConnections);
        }
        let stream = match group {
            Some((group, qos)) => {
                self.check(&qos)?;
                Some(GroupStream {
                    group,
                    start: self.shared.secrets.draw() as u32,
                    sent: 0,
                    cut: 0,
                    message: 0,
                    block_bytes: qos.block_size,
                    has_checksum: qos.has_checksum,
                    is_reliable: qos.has_retransmission,
                    priority: qos.priority,
                    deadline: Duration::from_micros(qos.deadline.into()),
                })
            }
            None => None,
        };
        let id = CastId(self.next_cast);
        self.next_cast += 1;
        let (members, pending) = (Vec::new(), VecDeque::new());
        let (wants_room, place, is_held, blocked_on, is_ending) = (false, None, false, None, false);
        let cast = Cast { slow, stream, members, pending, wants_room, place, is_held, blocked_on, is_ending };
        self.casts.insert(id, cast);
        Ok(id)
    }

    /// Adds a sink at `to`, which calls itself `destination`. It gets the messages that are sent from now on (over a
    /// connection of its own: once it has answered).
    ///
    /// # Errors
    /// As [`A1::open`]; [`Refused::NoConnection`]: there is no such set; [`Refused::Impossible`]: the record is not that of
    /// the group.
    //= A-15
    pub fn add_sink(
        &mut self,
        now: Time,
        id: CastId,
        to: Address,
        destination: a1::Address,
        qos: Qos,
    ) -> Result<ConnectionId, Refused> {
        self.check(&qos)?;
        let Some(cast) = self.casts.get(&id).filter(|cast| !cast.is_ending) else { return Err(Refused::NoConnection) };
        let mut start = self.shared.secrets.draw() as u32;
        let (mut base, mut group, mut message) = (0, None, 0);
        if let Some(stream) = &cast.stream {
            let is_alike = (stream.block_bytes, stream.has_checksum, stream.is_reliable)
                == (qos.block_size, qos.has_checksum, qos.has_retransmission);
            if !is_alike {
                return Err(Refused::Impossible);
            }
            (base, group, message) = (stream.cut, Some(stream.group), stream.message);
            start = stream.start.wrapping_add(base as u32);
        }
        let source = self.shared.config.local;
        let (role, phase, from) = (Role::Opener, Phase::Opening, None);
        let birth = Birth { role, phase, peer: to, from, source, destination, qos, group, start };
        let key = self.new_connection(now, &birth).ok_or(Refused::TooManyConnections)?;
        self.shared.counters.connections_opened += 1;
        if let Some(connection) = self.connections.lookup_mut(key) {
            (connection.cast, connection.group_base) = (Some(id), base);
            connection.outgoing.number_messages_from(message);
        }
        if let Some(cast) = self.casts.get_mut(&id) {
            cast.members.push(Member { key, backlog: VecDeque::new() });
        }
        self.settle(now, key);
        Ok(ConnectionId(key))
    }

    /// Whether a message of `len` bytes can be [sent](Self::cast_send) at all, room or not: for who has to copy it before.
    ///
    /// # Errors
    /// As [`cast_send`](Self::cast_send), without [`Refused::Full`].
    pub fn check_cast_send(&self, id: CastId, len: u64) -> Result<(), Refused> {
        let cast = self.casts.get(&id).filter(|cast| !cast.is_ending).ok_or(Refused::NoConnection)?;
        let most = cast.most_bytes(&self.connections).ok_or(Refused::NotConnected)?;
        if len > most { Err(Refused::TooLarge { most }) } else { Ok(()) }
    }

    /// Sends a message to all sinks of a set that have answered; returns the ticket that [`Event::Cast`] names.
    ///
    /// # Errors
    /// [`Refused::Full`]: a sink has no room, and is waited for; [`Event::CastWritable`] follows. [`Refused::TooLarge`],
    /// [`Refused::NotConnected`] (there is no sink), [`Refused::NoConnection`].
    //= A-15
    //= A-16
    pub fn cast_send(&mut self, now: Time, id: CastId, output: Output) -> Result<u64, Refused> {
        self.check_cast_send(id, output.len)?;
        let Some(cast) = self.casts.get_mut(&id) else { return Err(Refused::NoConnection) };
        let blocked_on = cast.blocked_on;
        let behind = cast.behind(&self.connections);
        let (is_full, late) = cast.look_for_room(now, behind, &mut self.connections, &mut self.shared);
        if is_full && let Some(key) = blocked_on {
            self.lose_patience(now, id, key);
        }
        for key in late {
            self.cut_off(now, key);
        }
        let Some(cast) = self.casts.get_mut(&id) else { return Err(Refused::NoConnection) };
        if is_full {
            cast.wants_room = true;
            return Err(Refused::Full);
        }
        let ticket = self.shared.next_ticket();
        let Output { buffer, offset, len, deadline } = output;
        let message = Message { ticket, buffer, offset, len, deadline };
        let touched = cast.queue(now, behind, &message, &mut self.connections, &mut self.shared);
        let sinks = touched.len() as u32;
        if sinks == 0 {
            self.shared.events.push_back(Event::Cast { cast: id, ticket, buffer, delivered: 0, sinks });
            return Ok(ticket);
        }
        if let Some(stream) = &mut cast.stream {
            stream.cut += len.div_ceil(stream.block_bytes.into()).max(1);
            stream.message = stream.message.wrapping_add(1);
        }
        cast.pending.push_back(Pending { ticket, buffer, left: sinks, delivered: 0, sinks });
        // One of several that are queued in a row: what follows from all of them follows from the last.
        let waits = cast.is_held && cast.is_held_back(&self.connections, &self.shared);
        for key in touched {
            if !waits || self.connections.lookup(key).is_some_and(|connection| !connection.is_in_step) {
                self.settle(now, key);
            }
        }
        Ok(ticket)
    }

    /// The sinks of a set, in the order in which they were added.
    pub fn sinks(&self, id: CastId) -> Vec<ConnectionId> {
        self.casts
            .get(&id)
            .map(|cast| cast.members.iter().map(|member| ConnectionId(member.key)).collect())
            .unwrap_or_default()
    }

    /// Ends a set: every sink gets what is queued, and then its connection is closed, within `linger`.
    pub fn end_cast(&mut self, now: Time, id: CastId, linger: Duration) {
        let Some(cast) = self.casts.get_mut(&id) else { return };
        cast.is_ending = true;
        let keys: Vec<_> = cast.members.iter().map(|member| member.key).collect();
        for key in keys {
            // They are there: they are members.
            let _ = self.close(now, ConnectionId(key), linger);
        }
        self.drop_ended(id);
    }

    fn drop_ended(&mut self, id: CastId) {
        let is_over = |cast: &Cast| cast.is_ending && cast.members.is_empty() && cast.pending.is_empty();
        if self.casts.get(&id).is_some_and(is_over)
            && let Some(cast) = self.casts.remove(&id)
            && let Some(place) = cast.place
        {
            self.shared.queue.remove_data(place);
        }
    }

    /// Who holds up the group is cut off if it does not get on, whether or not it has room for more.
    fn lose_patience(&mut self, now: Time, id: CastId, key: ContextKey) {
        let Some(cast) = self.casts.get(&id) else { return };
        let Some(connection) = self.connections.lookup_mut(key) else { return };
        if let Some(patience) = cast.patience(true)
            && connection.cut_off_at.is_none()
        {
            connection.cut_off_at = Some(now + patience);
            connection.make_ready(now, &mut self.shared);
        }
    }

    /// Who held up its group when last looked at has had the time to answer.
    pub(crate) fn look_again(&mut self, now: Time, key: ContextKey) {
        let Some(connection) = self.connections.lookup_mut(key) else { return };
        if connection.left_behind_at.take_if(|at| *at <= now).is_some()
            && let Some(cast) = connection.cast
        {
            self.wake_cast(cast, key);
            Self::tell_cast_writable(&mut self.casts, &mut self.shared, cast);
        }
    }

    /// The patience with a sink has come to its end: if the group waits for another, it is that one's.
    pub(crate) fn end_patience(&mut self, now: Time, key: ContextKey) {
        let Some(connection) = self.connections.lookup_mut(key) else { return };
        let cast = connection.cast.and_then(|id| Some((id, self.casts.get(&id)?.blocked_on?)));
        match cast {
            Some((id, other)) if connection.is_held_up(Some(other)) => {
                connection.cut_off_at = None;
                self.lose_patience(now, id, other);
            }
            _ => self.cut_off(now, key),
        }
    }

    pub(crate) fn cut_off(&mut self, now: Time, key: ContextKey) {
        if let Some(connection) = self.connections.lookup_mut(key) {
            self.shared.counters.sinks_cut_off += 1;
            // Who is slow still answers.
            let is_gone = now.since(connection.last_heard) >= SILENCE;
            connection.fail(&mut self.shared, if is_gone { Failure::Abandoned } else { Failure::TooSlow });
            self.settle(now, key);
        }
    }

    /// A sink has answered: what it has missed since its OPEN is queued.
    pub(crate) fn join_cast(&mut self, now: Time, key: ContextKey) {
        let Some(connection) = self.connections.lookup_mut(key) else { return };
        let Some(id) = connection.cast else { return };
        let Some(cast) = self.casts.get_mut(&id) else { return };
        let Some(stream) = &cast.stream else { return };
        let joined = connection.has_joined;
        let sent = stream.sent;
        let Some(member) = cast.members.iter_mut().find(|member| member.key == key) else { return };
        connection.group_sent = if joined { sent.saturating_sub(connection.group_base) } else { 0 };
        if connection.group_sent > 0 {
            // What it lacks goes at the average: the burst may be the group's.
            let burst = connection.outgoing.terms().burst;
            connection.outgoing.yield_to(now, burst);
        }
        let backlog = core::mem::take(&mut member.backlog);
        let mut refused = Vec::new();
        for message in backlog {
            if !joined || connection.outgoing.queue_anyway(&message).is_err() {
                refused.push(message.ticket);
            }
        }
        for ticket in refused {
            cast.on_done(id, ticket, false, &mut self.shared);
        }
        self.wake_cast(id, key);
    }

    /// A sink has joined, and takes smaller blocks only than those of the group: it is told that this does not go on, and
    /// asked again without the group.
    //= A-15
    pub(crate) fn ask_alone(&mut self, now: Time, key: ContextKey) {
        let start = self.shared.secrets.draw() as u32;
        let Some(connection) = self.connections.lookup_mut(key) else { return };
        let Connection { peer, source, destination, qos, cast, .. } = **connection;
        let (role, phase, from, group) = (Role::Opener, Phase::Opening, None, None);
        let birth = Birth { role, phase, peer, from, source, destination, qos, group, start };
        let Some(aside) = self.replace(now, key, &birth) else {
            if let Some(connection) = self.connections.lookup_mut(key) {
                connection.fail(&mut self.shared, Failure::Violation);
            }
            return;
        };
        if let Some(connection) = self.connections.lookup_mut(key) {
            connection.cast = cast;
        }
        if let Some(old) = self.connections.lookup_mut(aside) {
            // The application never knew of it.
            (old.cast, old.is_told, old.is_released) = (None, true, true);
            old.say_close(CloseCode::Aborted);
            self.settle(now, aside);
        }
    }

    /// A sink is over.
    pub(crate) fn leave_cast(&mut self, id: CastId, key: ContextKey) {
        let Some(cast) = self.casts.get_mut(&id) else { return };
        let Some(at) = cast.members.iter().position(|member| member.key == key) else { return };
        let member = cast.members.remove(at);
        for message in member.backlog {
            cast.on_done(id, message.ticket, false, &mut self.shared);
        }
        if cast.blocked_on == Some(key) {
            cast.blocked_on = None;
        }
        Self::tell_cast_writable(&mut self.casts, &mut self.shared, id);
        self.ready_cast(id);
        self.drop_ended(id);
    }

    pub(crate) fn tell_cast_writable(casts: &mut BTreeMap<CastId, Cast>, shared: &mut Shared, id: CastId) {
        if let Some(cast) = casts.get_mut(&id)
            && core::mem::take(&mut cast.wants_room)
        {
            shared.events.push_back(Event::CastWritable { cast: id });
        }
    }

    /// Something has happened to a sink: perhaps the group may go on.
    pub(crate) fn wake_cast(&mut self, id: CastId, key: ContextKey) {
        let Some(cast) = self.casts.get_mut(&id) else { return };
        let Some(stream) = &cast.stream else { return };
        if let Some(connection) = self.connections.lookup_mut(key)
            && connection.has_joined
            && !connection.is_in_step
            && connection.group_base + connection.outgoing.sent() >= stream.sent
        {
            connection.is_in_step = true;
            if let Some(place) = connection.data_place.filter(|place| place.1) {
                self.shared.queue.remove_data(place);
                connection.data_place = None;
            }
        }
        if cast.blocked_on.is_none_or(|blocked_on| blocked_on == key) {
            self.ready_cast(id);
        }
    }

    /// The group has waited long enough for a fuller train.
    pub(crate) fn let_go(&mut self, id: CastId) {
        if let Some(cast) = self.casts.get_mut(&id) {
            cast.is_held = false;
            self.ready_cast(id);
        }
    }

    fn ready_cast(&mut self, id: CastId) {
        let Some(cast) = self.casts.get_mut(&id) else { return };
        let Some(stream) = &cast.stream else { return };
        if cast.place.is_none() && stream.sent < stream.cut {
            // That of its sinks may have changed since.
            let sinks = cast.members.iter().filter_map(|member| self.connections.lookup(member.key));
            let joined = sinks.filter(|connection| connection.has_joined && connection.phase == Phase::Open);
            let priority = joined.map(|connection| connection.qos.priority).min().unwrap_or(stream.priority);
            cast.place = Some(self.shared.queue.push_data(priority, true, Sender::Cast(id)));
        }
    }

    /// Blocks to the group; false if none may leave.
    pub(crate) fn transmit_cast(&mut self, now: Time, id: CastId, train: &mut Train) -> bool {
        let Some(cast) = self.casts.get_mut(&id) else { return false };
        if cast.is_held_back(&self.connections, &self.shared) {
            if !core::mem::replace(&mut cast.is_held, true) {
                self.shared.held.push(Sender::Cast(id));
            }
            if let Some(place) = cast.place.take() {
                self.shared.queue.remove_data(place);
            }
            return false;
        }
        let Some(stream) = &mut cast.stream else { return false };
        cast.blocked_on = None;
        let before = stream.sent;
        let mut left_behind = Vec::new();
        let to = Address::Inet(SocketAddr::V4(stream.group.socket()));
        while stream.sent < stream.cut {
            if !stream.is_reliable {
                drop_stale(&cast.members, now, &mut self.connections);
            }
            let cut = match next_block(&cast.members, stream.sent, now, &mut self.connections) {
                Turn::Of(cut) => cut,
                // Whoever wanted it is gone, or gets it over its own connection.
                Turn::OfNobody => {
                    stream.sent += 1;
                    continue;
                }
                Turn::HeldUpBy(key) => {
                    if cast.slow != SlowSink::Block
                        && let Some(connection) = self.connections.lookup_mut(key)
                        && connection.is_still(now)
                    {
                        connection.is_in_step = false;
                        left_behind.push(key);
                        continue;
                    }
                    cast.blocked_on = Some(key);
                    break;
                }
            };
            let len = (HEADER_BYTES + cut.place.len as usize) as u64;
            if !self.shared.link_allows(now, len)
                || !add_block(train, (to, None), &stream.header(now), &cut, (stream.is_reliable, true))
            {
                break;
            }
            for member in &cast.members {
                let Some(connection) = self.connections.lookup_mut(member.key) else { continue };
                if connection.takes_from_group(stream.sent)
                    && let Next::Block(cut) = connection.outgoing.next_new(now)
                {
                    connection.outgoing.on_sent(now, &cut);
                    connection.group_left_at = now;
                } else if connection.has_joined && connection.is_talking() {
                    // It hears the group, too.
                    connection.outgoing.yield_to(now, cut.place.len.into());
                } else {
                    continue;
                }
                if connection.outgoing.is_limited() {
                    self.shared.departure.add(Payer::Connection(member.key), cut.place.len.into(), train);
                }
            }
            stream.sent += 1;
            self.shared.on_sent(now, len, train);
            let counters = &mut self.shared.counters;
            counters.blocks_sent += 1;
            counters.blocks_to_groups += 1;
            counters.bytes_sent += u64::from(cut.place.len);
        }
        for key in left_behind {
            if let Some(connection) = self.connections.lookup_mut(key) {
                connection.make_ready(now, &mut self.shared);
            }
        }
        let wrote = !train.is_empty();
        if self.shared.link_at.is_some() && !wrote {
            return false;
        }
        if let Some(place) = cast.place.take() {
            self.shared.queue.remove_data(place);
        }
        let (sent, blocked_on) = (stream.sent, cast.blocked_on);
        if sent > before {
            self.on_group_sent(now, id, sent);
        } else if let Some(key) = blocked_on
            && let Some(connection) = self.connections.lookup_mut(key)
        {
            // Its timer tells when it may go on.
            connection.make_ready(now, &mut self.shared);
        }
        if blocked_on.is_none() {
            self.ready_cast(id);
        }
        wrote
    }

    /// The group has been sent its blocks below `sent`.
    fn on_group_sent(&mut self, now: Time, id: CastId, sent: u64) {
        let Some(cast) = self.casts.get(&id) else { return };
        let keys: Vec<_> = cast.members.iter().map(|member| member.key).collect();
        for key in keys {
            if let Some(connection) = self.connections.lookup_mut(key)
                && connection.has_joined
            {
                connection.group_sent = sent.saturating_sub(connection.group_base);
            }
            self.settle(now, key);
        }
    }
}

/// Whose turn the next block of a group is.
enum Turn {
    /// That of every sink that takes it: it is this one.
    Of(Block),
    OfNobody,
    /// This sink takes it, but not yet.
    HeldUpBy(ContextKey),
}

/// What one of them drops on the way gets numbers that none of them takes.
fn drop_stale(members: &[Member], now: Time, connections: &mut Connections) {
    for member in members {
        if let Some(connection) = connections.lookup_mut(member.key).filter(|connection| connection.is_talking()) {
            connection.outgoing.drop_stale(now);
        }
    }
}

fn next_block(members: &[Member], number: u64, now: Time, connections: &mut Connections) -> Turn {
    let mut turn = Turn::OfNobody;
    for member in members {
        let Some(connection) = connections.lookup_mut(member.key) else { continue };
        if !connection.takes_from_group(number) {
            continue;
        }
        match connection.outgoing.next_new(now) {
            Next::Block(cut) => turn = Turn::Of(cut),
            Next::At(_) | Next::Nothing => return Turn::HeldUpBy(member.key),
        }
    }
    turn
}

impl GroupStream {
    /// From when on what has not left of a message is dropped.
    fn deadline_of(&self, now: Time, message: &Message) -> Option<Time> {
        let usual = (!self.deadline.is_zero()).then(|| now + self.deadline);
        message.deadline.or(usual).filter(|_| !self.is_reliable)
    }

    /// That of the next block.
    fn header(&self, now: Time) -> Header {
        Header {
            connection: self.group.identifier(),
            sequence: self.start.wrapping_add(self.sent as u32),
            edge: 0,
            stamp: crate::connection::stamp(now),
            is_checked: self.has_checksum,
            is_retransmitted: false,
        }
    }
}

impl Cast {
    /// What a sink without room means to the next message. Who is left out, or behind, is behind another: if nobody has
    /// room, they are all alike, and hold it up.
    fn behind(&self, connections: &Connections) -> Behind {
        let mut open = self.members.iter().filter_map(|member| connections.lookup(member.key));
        let is_ahead = open.any(|connection| connection.phase == Phase::Open && !connection.outgoing.is_full());
        match self.slow {
            SlowSink::Degrade if is_ahead => Behind::LeftOut,
            SlowSink::Drop { .. } if is_ahead => Behind::Kept,
            _ => Behind::HoldsUp,
        }
    }

    /// Whether it is better to wait for a fuller train to the group ([`Connection::is_held_back`]).
    fn is_held_back(&self, connections: &Connections, shared: &Shared) -> bool {
        let Some(stream) = self.stream.as_ref().filter(|_| shared.is_held) else { return false };
        let queued = stream.cut - stream.sent;
        let sinks = self.members.iter().filter_map(|member| connections.lookup(member.key));
        let mut in_step = sinks.filter(|connection| connection.is_in_step).peekable();
        in_step.peek().is_some() && in_step.all(|connection| connection.may_wait_with(queued))
    }

    /// Whether a sink has no room for a message and is waited for; and those that have been waited for too long.
    fn look_for_room(
        &self,
        now: Time,
        behind: Behind,
        connections: &mut Connections,
        shared: &mut Shared,
    ) -> (bool, Vec<ContextKey>) {
        let (mut is_full, mut late) = (false, Vec::new());
        for member in &self.members {
            let Some(connection) = connections.lookup_mut(member.key) else { continue };
            match connection.phase {
                Phase::Opening if self.stream.is_some() && member.backlog.len() >= MAX_BACKLOG => {
                    late.push(member.key);
                    continue;
                }
                Phase::Open if connection.close_by.is_none() && connection.outgoing.is_full() => {}
                // It has room, or gets no more, so it holds up nobody.
                _ => continue,
            }
            if behind == Behind::LeftOut && !connection.has_joined {
                continue;
            }
            let is_held_up = connection.is_held_up(self.blocked_on);
            if let Some(patience) = self.patience(connection.has_joined).filter(|_| !is_held_up) {
                connection.cut_off_at.get_or_insert(now + patience);
            }
            if !is_held_up && connection.cut_off_at.is_some_and(|at| at <= now) {
                late.push(member.key);
                continue;
            }
            // Who gets on, but slowly, holds up the source, or it would be further and further behind.
            let is_kept = match behind {
                Behind::HoldsUp => false,
                Behind::Kept if self.stream.is_none() => true,
                Behind::Kept | Behind::LeftOut => !connection.is_in_step || connection.is_still(now),
            };
            if !is_kept || connection.gets_on || !connection.outgoing.may_queue_anyway() {
                connection.wants_room = true;
                is_full = true;
            }
            connection.make_ready(now, shared);
        }
        (is_full, late)
    }

    /// Queues a message to the sinks that get it, and returns them.
    fn queue(
        &mut self,
        now: Time,
        behind: Behind,
        message: &Message,
        connections: &mut Connections,
        shared: &mut Shared,
    ) -> Vec<ContextKey> {
        let is_group = self.stream.is_some();
        // In a group all sinks drop the same blocks: their numbers are its.
        let of_group = self.stream.as_ref().and_then(|stream| stream.deadline_of(now, message));
        let mut touched = Vec::new();
        for member in &mut self.members {
            let Some(connection) = connections.lookup_mut(member.key) else { continue };
            let deadline = if is_group { of_group } else { message.deadline.or_else(|| connection.deadline(now)) };
            let message = Message { deadline, ..*message };
            let is_queued = match connection.phase {
                Phase::Opening if is_group => {
                    member.backlog.push_back(message);
                    true
                }
                Phase::Open if connection.close_by.is_some() => false,
                Phase::Open if !connection.outgoing.is_full() => connection.outgoing.queue(&message).is_ok(),
                Phase::Open if behind == Behind::Kept || connection.has_joined => {
                    connection.outgoing.queue_anyway(&message).is_ok()
                }
                Phase::Open => {
                    connection.skipped += 1;
                    shared.counters.messages_skipped += 1;
                    false
                }
                _ => false,
            };
            if is_queued {
                touched.push(member.key);
            }
        }
        touched
    }

    /// Bytes of a message that every sink takes; `None`: there is no sink.
    fn most_bytes(&self, connections: &Connections) -> Option<u64> {
        let open = self.members.iter().filter_map(|member| connections.lookup(member.key));
        let open = open.filter(|connection| connection.phase == Phase::Open && connection.close_by.is_none());
        open.map(|connection| most_bytes(connection.outgoing.terms())).min()
    }
}

/// Bytes of the longest message under `terms`.
pub(crate) fn most_bytes(terms: &Terms) -> u64 {
    terms.max_message.min(u64::from(terms.block_bytes) * 65_535)
}

impl Connection {
    /// Whether it has no room because the group waits for `blocked_on`, which is another one.
    fn is_held_up(&self, blocked_on: Option<ContextKey>) -> bool {
        self.is_in_step && blocked_on.is_some_and(|key| key != self.key)
    }

    /// Whether it has not got on for so long, though nothing but itself holds it back, that its group does not wait for it. If it
    /// may come to that, it is looked at again then.
    fn is_still(&mut self, now: Time) -> bool {
        let got_to = (self.outgoing.acked(), self.outgoing.edge());
        if got_to != (self.got_to.0, self.got_to.1) {
            self.got_to = (got_to.0, got_to.1, now);
        }
        let (mut since, is_asked) = (self.got_to.2, self.outgoing.sent() > self.outgoing.acked());
        if is_asked {
            since = since.min(self.last_heard);
        }
        let at = since + STILLNESS.max(2 * self.rtt.timeout());
        let is_held_back = self.outgoing.next_new(now) != Next::Nothing;
        let is_still = !is_held_back && at <= now;
        self.left_behind_at = Some(at).filter(|at| !is_held_back && *at > now);
        self.gets_on &= !is_still;
        is_still
    }

    /// Whether the group's block `number` is its next. One that is ahead, because it caught up while others held up the
    /// group, waits for that; one that is removed needs none but those that are queued for it.
    fn takes_from_group(&self, number: u64) -> bool {
        let is_done = self.close_by.is_some() && self.outgoing.queued_blocks() == 0;
        self.is_talking() && self.is_in_step && self.group_base + self.outgoing.sent() == number && !is_done
    }
}

impl A1 {
    /// Checks a record against what is possible, and against the maximum of this end.
    //= A-12
    pub(crate) fn check(&self, record: &Qos) -> Result<(), Refused> {
        if self.is_shut_down.is_some() {
            return Err(Refused::ShutDown);
        }
        qos::check(record)?;
        if qos::is_within(record, &self.shared.config.max_qos) { Ok(()) } else { Err(Refused::BeyondMaximum) }
    }
}
