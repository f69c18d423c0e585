//! The engine: connections on one socket, found by their identifiers, served in order of their priority.
//!
//! Always true: a connection is in the table, on the wheel and in the queue, or in none of them; whatever touches a
//! connection settles it ([`A1::settle`]) before the call ends.
//= A-1

use crate::cast::Cast;
use crate::connection::{Birth, Connection, Phase, QUESTIONS};
use crate::shared::{Sender, Shared};
use crate::{A1Counters, CastId, Config, Event, Failure};
use core::num::NonZeroU32;
use core::time::Duration;
use pinnace_core::{
    Address, ContextKey, ContextTable, Engine, KeyLayout, PathEvent, Placed, PollAt, ReceivePlan, RxMeta, Time, Train,
    TranslationMap,
};
use pinnace_wire::a1::{CloseCode, HEADER_BYTES};
use std::collections::BTreeMap;

/// No control datagram is made smaller than this, whatever is told of a path: it names some ranges still.
const SMALLEST_CONTROL: usize = 256;

/// Who may connect.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Connections that the application may leave waiting.
    pub(crate) backlog: usize,
    pub(crate) waiting: usize,
    /// The application joins groups.
    pub(crate) joins: bool,
}

/// A1 on one socket: any number of connections that were opened here or accepted from others.
#[derive(Debug)]
pub struct A1 {
    pub(crate) shared: Shared,
    pub(crate) connections: ContextTable<Box<Connection>>,
    /// Connections by their identifiers. These are random in every bit, because whoever knows one has received it: a peer's
    /// address is proved by it.
    by_identifier: TranslationMap<NonZeroU32>,
    /// Connections that were accepted, by the address and the identifier of their openers.
    pub(crate) by_opener: TranslationMap<(Address, u64)>,
    /// Connections whose data come from a group, by the sender's address and the group's identifier.
    pub(crate) by_group: BTreeMap<(Address, NonZeroU32), ContextKey>,
    pub(crate) listener: Option<Listener>,
    pub(crate) casts: BTreeMap<CastId, Cast>,
    pub(crate) next_cast: u32,
    /// Connections that the read under way has touched.
    pub(crate) touched: Vec<ContextKey>,
    /// Where the newest block went: the next are expected there.
    pub(crate) newest: Option<ContextKey>,
    /// Set while the endpoint says good-bye, and after: whether the application was told.
    pub(crate) is_shut_down: Option<bool>,
}

/// Whoever asked again at once would never come to anything else.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

impl A1 {
    /// An engine without connections.
    pub fn new(mut config: Config, now: Time) -> Self {
        config.sync_every = config.sync_every.max(SHORTEST_WAIT);
        config.silence = config.silence.max(QUESTIONS * SHORTEST_WAIT);
        config.limits.bytes = config.limits.bytes.max(config.max_qos.largest_received.into());
        let connections = ContextTable::new(KeyLayout::A1, config.limits.connections);
        let mut shared = Shared::new(config, now);
        Self {
            by_opener: TranslationMap::new(shared.secrets.draw()),
            by_identifier: TranslationMap::new(shared.secrets.draw()),
            by_group: BTreeMap::new(),
            connections,
            listener: None,
            casts: BTreeMap::new(),
            next_cast: 0,
            touched: Vec::new(),
            newest: None,
            is_shut_down: None,
            shared,
        }
    }

    /// What has been seen so far.
    pub fn counters(&self) -> A1Counters {
        self.shared.counters
    }

    /// The smoothed round trip of the connection that has measured one last.
    pub fn round_trip(&self) -> Option<Duration> {
        self.shared.round_trip
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Connections, those that only answer CLOSE included.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Bytes of storage that the driver allocated, and that are neither released nor taken.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes
    }

    pub(crate) fn new_connection(&mut self, now: Time, birth: &Birth) -> Option<ContextKey> {
        let entropy = self.shared.secrets.draw();
        let key = self.connections.next_key(entropy)?;
        let id = self.new_identifier()?;
        let connection = Connection::new(now, birth, key, id, self.shared.config.congestion);
        let key = self.connections.insert(Box::new(connection), entropy).ok()?;
        self.by_identifier.insert(id, key);
        Some(key)
    }

    /// Puts a new connection in the place of another, which goes on in one of its own. Returns that; `None`: there is no
    /// room, and nothing has changed.
    pub(crate) fn replace(&mut self, now: Time, key: ContextKey, birth: &Birth) -> Option<ContextKey> {
        let entropy = self.shared.secrets.draw();
        let aside = self.connections.next_key(entropy)?;
        let id = self.new_identifier()?;
        let new = Connection::new(now, birth, key, id, self.shared.config.congestion);
        let mut old = core::mem::replace(self.connections.lookup_mut(key)?, Box::new(new));
        old.stand_down(&mut self.shared);
        if let Some((timer, _)) = old.timer.take() {
            self.shared.wheel.cancel(timer);
        }
        old.key = aside;
        self.by_identifier.insert(old.my_id, aside);
        self.by_identifier.insert(id, key);
        self.connections.insert(old, entropy).ok()
    }

    /// An identifier that no connection has.
    fn new_identifier(&mut self) -> Option<NonZeroU32> {
        // Of 2^32 at most 2^17 are taken.
        let mut drawn = (0..16).filter_map(|_| NonZeroU32::new(self.shared.secrets.draw() as u32));
        drawn.find(|id| self.by_identifier.lookup(id).is_none())
    }

    /// The connection with this identifier.
    pub(crate) fn connection_of(&self, id: NonZeroU32) -> Option<ContextKey> {
        // Mostly it is the same as the last time.
        let newest = self.newest.filter(|key| self.connections.lookup(*key).is_some_and(|found| found.my_id == id));
        newest.or_else(|| self.by_identifier.lookup(&id))
    }

    pub(crate) fn touch(&mut self, key: ContextKey) {
        if self.touched.last() != Some(&key) {
            self.touched.push(key);
        }
    }

    pub(crate) fn settle_touched(&mut self, now: Time) {
        let mut touched = core::mem::take(&mut self.touched);
        for key in touched.drain(..) {
            self.settle(now, key);
        }
        self.touched = touched;
    }

    /// Draws the conclusions of whatever has happened to a connection: what is done, what may be said, the end.
    pub(crate) fn settle(&mut self, now: Time, key: ContextKey) {
        let Some(connection) = self.connections.lookup_mut(key) else { return };
        let shared = &mut self.shared;
        if connection.discards {
            connection.incoming.discard();
        }
        connection.is_released |= connection.is_abandoned && connection.is_told;
        if connection.report(shared, &mut self.casts) {
            connection.gets_on = true;
            // Its patience begins anew, also if nothing more is sent that would find it full.
            if connection.cut_off_at.is_some()
                && let Some(cast) = connection.cast.and_then(|cast| self.casts.get(&cast))
            {
                connection.cut_off_at = cast.patience(connection.has_joined).map(|patience| now + patience);
            }
        }
        connection.close_if_flushed(now);
        if connection.phase == Phase::Open && connection.change.asked.is_none() {
            connection.ask_for_wanted(now);
        }
        if connection.wants_room && (connection.outgoing.is_roomy() || connection.close_by.is_some()) {
            connection.wants_room = false;
            match connection.cast {
                Some(cast) => Self::tell_cast_writable(&mut self.casts, shared, cast),
                None => shared.events.push_back(Event::Writable { connection: connection.id() }),
            }
        }
        let cast = connection.cast.and_then(|id| self.casts.get(&id));
        if !connection.outgoing.is_full() && cast.is_none_or(|cast| cast.blocked_on != Some(key)) {
            (connection.cut_off_at, connection.gets_on) = (None, false);
        }
        let cast = connection.cast;
        if connection.is_told
            && let Some(cast) = cast
        {
            self.leave_cast(cast, key);
        }
        let Some(connection) = self.connections.lookup_mut(key) else { return };
        if connection.phase == Phase::Over {
            let (name, is_released) = (connection.opener_name(), connection.is_released);
            connection.stand_down(&mut self.shared);
            // Its opener may use the name again, however long the application looks at the old one.
            self.forget_opener(name, key);
            if is_released {
                self.forget(key);
                return;
            }
        }
        let Some(connection) = self.connections.lookup_mut(key) else { return };
        connection.make_ready(now, &mut self.shared);
        if let Some(cast) = cast {
            self.wake_cast(cast, key);
        }
    }

    /// Takes a connection out of everything.
    pub(crate) fn forget(&mut self, key: ContextKey) {
        let Some(mut connection) = self.connections.remove(key) else { return };
        self.by_identifier.remove(&connection.my_id);
        connection.stand_down(&mut self.shared);
        connection.incoming.close();
        connection.outgoing.abort();
        connection.report(&mut self.shared, &mut self.casts);
        if let Some((timer, _)) = connection.timer.take() {
            self.shared.wheel.cancel(timer);
        }
        self.forget_names(&connection);
        if let Some(cast) = connection.cast {
            self.leave_cast(cast, key);
        }
        if self.newest == Some(key) {
            self.newest = None;
        }
    }

    fn forget_opener(&mut self, name: (Address, u64), key: ContextKey) {
        if self.by_opener.lookup(&name) == Some(key) {
            self.by_opener.remove(&name);
        }
    }

    fn forget_names(&mut self, connection: &Connection) {
        self.forget_opener(connection.opener_name(), connection.key);
        if connection.has_joined {
            self.by_group.retain(|_, key| *key != connection.key);
        }
        if connection.is_waiting
            && let Some(listener) = &mut self.listener
        {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }
}

impl Connection {
    /// What its opener calls it, if that is the peer.
    fn opener_name(&self) -> (Address, u64) {
        (self.peer, self.peer_id.get().into())
    }

    /// Tells what is done, released, and how much storage there is. Returns whether a sink has done with something.
    pub(crate) fn report(&mut self, shared: &mut Shared, casts: &mut BTreeMap<CastId, Cast>) -> bool {
        let mut has_done = false;
        shared.counters.blocks_stale += self.outgoing.take_stale();
        if let Some(id) = self.cast {
            while let Some(done) = self.outgoing.poll_done() {
                has_done = true;
                if let Some(cast) = casts.get_mut(&id) {
                    cast.on_done(id, done.ticket, done.delivered, shared);
                }
            }
        }
        self.report_done(shared);
        while let Some(buffer) = self.incoming.poll_released() {
            shared.events.push_back(Event::Released { buffer });
        }
        self.count_bytes(shared);
        has_done
    }

    /// Tells what is done, if the messages are the connection's own.
    pub(crate) fn report_done(&mut self, shared: &mut Shared) {
        if self.cast.is_some() {
            return;
        }
        let connection = self.id();
        while let Some(done) = self.outgoing.poll_done() {
            let (ticket, buffer, delivered) = (done.ticket, done.buffer, done.delivered);
            shared.events.push_back(Event::Sent { connection, ticket, buffer, delivered });
        }
    }

    /// CLOSE leaves, once everything is acknowledged or linger is over.
    //= A-18
    fn close_if_flushed(&mut self, now: Time) {
        let Some(by) = self.close_by.filter(|_| self.phase == Phase::Open) else { return };
        let is_flushed = self.outgoing.is_flushed();
        if now < by && (!is_flushed || self.arrives_at().is_some_and(|at| now < at)) {
            return;
        }
        if self.incoming.owes_ack() && self.list_may_leave() {
            // CLOSE ends what the peer has under way: what has come was delivered, and the peer is told so before.
            self.incoming.hurry_ack();
            return;
        }
        if !is_flushed {
            self.failure = Some(Failure::LingerOver);
        }
        self.say_close(CloseCode::Normal);
    }
}

impl Engine for A1 {
    type Event = Event;

    fn handle_datagrams(&mut self, now: Time, meta: &RxMeta, rx: &mut Placed<'_>) {
        if self.is_shut_down.is_none() {
            self.read(now, meta, rx);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.is_shut_down.is_none() {
            self.expire(now);
        }
    }

    fn handle_path_event(&mut self, now: Time, event: PathEvent) {
        match event {
            // Anybody can forge it: mostly the time-outs find out.
            PathEvent::Unreachable => {
                self.shared.counters.unreachable_reports += 1;
                self.on_unreachable(now);
            }
            // Blocks keep their size. (Links let the network cut them.)
            PathEvent::TooLarge { to, fits } => {
                let usual = self.shared.config.control_bytes;
                self.shared.paths.on_too_large(now, to, fits, SMALLEST_CONTROL, usual);
            }
        }
    }

    fn handle_hold(&mut self, held: bool) {
        self.shared.is_held = held;
        if !held {
            let mut senders = core::mem::take(&mut self.shared.held);
            for sender in senders.drain(..) {
                match sender {
                    Sender::Connection(key) => {
                        if let Some(connection) = self.connections.lookup_mut(key)
                            && connection.data_place.is_none()
                        {
                            let place = (connection.qos.priority, !connection.outgoing.has_repairs());
                            connection.data_place = Some(self.shared.queue.push_data(place.0, place.1, sender));
                        }
                    }
                    Sender::Cast(cast) => self.let_go(cast),
                }
            }
            self.shared.held = senders;
        }
    }

    fn plan_receive(&self, plan: &mut ReceivePlan) {
        if let Some(connection) = self.newest.and_then(|key| self.connections.lookup(key)) {
            connection.incoming.expect(plan, HEADER_BYTES);
        }
    }

    fn poll_transmit(&mut self, now: Time, train: &mut Train) -> bool {
        self.transmit(now, train)
    }

    fn handle_left(&mut self, now: Time) {
        self.on_left(now);
    }

    fn poll_at(&self) -> PollAt {
        let shared = &self.shared;
        let is_farewell_due = self.is_shut_down == Some(false);
        if !shared.events.is_empty() || !shared.replies.is_empty() || shared.queue.has_control() || is_farewell_due {
            return PollAt::Now;
        }
        if self.is_shut_down.is_some() {
            // Timers that are still set mean nothing, and would go off without end.
            return PollAt::Ingress;
        }
        let data = match shared.link_at {
            _ if !shared.queue.has_data() => PollAt::Ingress,
            Some(at) => PollAt::Time(at),
            None => PollAt::Now,
        };
        let paced = PollAt::at(shared.paced.first().map(|(at, _)| at));
        PollAt::at(shared.wheel.next_at()).min(data).min(paced)
    }

    //= A-11
    fn bears(&self, late: Duration) -> bool {
        let first = self.shared.paced.first().and_then(|(_, key)| self.connections.lookup(key));
        first.is_none_or(|first| first.outgoing.bears(late)) && self.shared.link_bears(late)
    }

    fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.shared.events.pop_front() {
            return Some(event);
        }
        if self.is_shut_down == Some(false) && self.shared.replies.is_empty() {
            self.is_shut_down = Some(true);
            return Some(Event::ShutDown);
        }
        None
    }
}
