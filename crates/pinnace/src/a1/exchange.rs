//! What turns the engine's events into results for whoever waits.
//!
//! Always true: a message under way is owned here, and its buffer is in the table exactly as long, so the transport never
//! names memory that is gone; an association stays here until nobody has a handle of it and the engine has given
//! everything back.

use super::{Address, Failure};
use crate::Message;
use crate::places::{Place, Places, topic};
use pinnace_a1::{CastId, ConnectionId, Event};
use pinnace_core::{Address as Name, ContextKey, Storage};
use pinnace_link::BufferTable;
use pinnace_runtime::{Concerned, EventSink, Topic, WakeFd};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A message of the application's that is under way.
#[derive(Debug)]
struct Lent {
    ticket: u64,
    message: Message,
    /// Somebody will ask for it.
    is_tracked: bool,
}

/// The messages that go one way.
#[derive(Debug, Default)]
pub(super) struct Lane {
    lent: VecDeque<Lent>,
    /// Messages that have ended, and are asked for by their tickets.
    ended: BTreeMap<u64, (Message, bool)>,
    /// Messages, copies included, that have not ended.
    under_way: u64,
    undelivered: u64,
    /// Counts how often there was room again.
    pub(super) room: u64,
    /// Nothing more goes this way.
    is_over: bool,
}

/// Where a message goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// Over one connection.
    One(Place, ConnectionId),
    /// To a set of sinks.
    Many(CastId),
}

impl Way {
    /// What whoever waits for something of it waits for.
    pub(super) fn topic(self) -> Topic {
        match self {
            Self::One(place, _) => topic(place),
            Self::Many(_) => Topic::ANYTHING,
        }
    }
}

impl Lane {
    /// A message of the application's is under way.
    pub(super) fn lend(&mut self, ticket: u64, message: Message, is_tracked: bool) {
        self.under_way += 1;
        self.lent.push_back(Lent { ticket, message, is_tracked });
    }

    /// A copy is.
    pub(super) fn copy(&mut self) {
        self.under_way += 1;
    }

    /// `everywhere`: whether it has arrived wherever it was meant for; `anywhere`: at one of them at least.
    fn end(&mut self, ticket: u64, everywhere: bool, anywhere: bool) {
        self.under_way = self.under_way.saturating_sub(1);
        self.undelivered += u64::from(!everywhere);
        // They end in order, or nearly so.
        let Ok(at) = self.lent.binary_search_by_key(&ticket, |lent| lent.ticket) else { return };
        if let Some(Lent { message, is_tracked: true, .. }) = self.lent.remove(at) {
            self.ended.insert(ticket, (message, anywhere));
        }
    }

    /// Takes a message that has ended.
    pub(super) fn take(&mut self, ticket: u64) -> Option<(Message, bool)> {
        self.ended.remove(&ticket)
    }

    /// Nobody will ask for this message.
    pub(super) fn abandon(&mut self, ticket: u64) {
        self.ended.remove(&ticket);
        if let Ok(at) = self.lent.binary_search_by_key(&ticket, |lent| lent.ticket)
            && let Some(lent) = self.lent.get_mut(at)
        {
            lent.is_tracked = false;
        }
    }

    /// Whether every message has ended.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way == 0
    }

    /// Messages that have ended without having been delivered.
    pub(super) fn undelivered(&self) -> u64 {
        self.undelivered
    }

    fn is_empty(&self) -> bool {
        self.lent.is_empty() && self.ended.is_empty()
    }
}

/// One connection, as the application sees it.
#[derive(Debug)]
pub(super) struct Association {
    pub(super) id: ConnectionId,
    pub(super) lane: Lane,
    pub(super) is_connected: bool,
    /// There may be something to read that nobody has looked at.
    pub(super) is_readable: bool,
    /// Something has been looked at, and was too little for whoever did.
    pub(super) has_part: bool,
    pub(super) closed: Option<Result<(), Failure>>,
    /// Nobody reads or writes any more.
    is_released: bool,
    /// Signalled when something has happened here.
    pub(super) watch: Option<Arc<WakeFd>>,
}

impl Association {
    fn new(id: ConnectionId) -> Self {
        Self {
            id,
            lane: Lane::default(),
            is_connected: false,
            is_readable: false,
            has_part: false,
            closed: None,
            is_released: false,
            watch: None,
        }
    }

    /// Something has happened.
    fn stir(&self) {
        if let Some(watch) = &self.watch {
            watch.signal();
        }
    }

    /// How it has ended, if it has.
    pub(super) fn ended(&self) -> Option<Result<(), Failure>> {
        self.closed.clone()
    }

    /// The end of the connection, if it was not a good one.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.closed.clone().and_then(Result::err)
    }

    fn is_forgotten(&self) -> bool {
        self.is_released && self.closed.is_some() && self.lane.is_empty()
    }
}

/// Somebody who has connected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) place: Place,
    pub(super) id: ConnectionId,
    pub(super) peer: Name,
    pub(super) source: Address,
}

/// Who has connected, and was not accepted.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    pub(super) is_listening: bool,
    arrivals: VecDeque<Arrival>,
}

/// The state of a socket.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    places: Places<Association>,
    pub(super) backlog: Backlog,
    casts: BTreeMap<CastId, Lane>,
    /// Associations that have not closed.
    open: usize,
    /// Signalled when something has happened to the socket: somebody has connected, or a set of sinks has room.
    watch: Option<Arc<WakeFd>>,
    /// Who waits for something of the associations where something has happened.
    concerned: Concerned,
}

impl Exchange {
    /// A new connection has a place from now on.
    pub(super) fn insert(&mut self, id: ConnectionId) -> Place {
        self.open += 1;
        self.places.insert(id.into(), Association::new(id))
    }

    pub(super) fn association(&mut self, place: Place) -> Option<&mut Association> {
        self.places.get_mut(place)
    }

    /// The association of a connection in which something happens, if it is here.
    fn find(&mut self, id: ConnectionId) -> Option<(Place, &mut Association)> {
        let (place, association) = self.places.newest(ContextKey::from(id).slot)?;
        self.concerned.add(topic(place));
        (association.id == id).then_some((place, association))
    }

    /// Nobody reads or writes there any more. What was queued still goes on.
    pub(super) fn release(&mut self, place: Place) {
        if let Some(association) = self.association(place) {
            association.is_released = true;
            association.watch = None;
        }
        self.tidy(place);
    }

    /// Frees the place of an association that nobody needs.
    pub(super) fn tidy(&mut self, place: Place) {
        if self.association(place).is_some_and(|association| association.is_forgotten()) {
            self.places.remove(place);
        }
    }

    /// A set of sinks begins.
    pub(super) fn begin_cast(&mut self, cast: CastId) {
        self.casts.insert(cast, Lane::default());
    }

    /// What goes to a set of sinks.
    pub(super) fn cast(&mut self, cast: CastId) -> Option<&mut Lane> {
        self.casts.get_mut(&cast)
    }

    /// A set of sinks has ended, and what is under way to it goes on.
    pub(super) fn end_cast(&mut self, cast: CastId) {
        if let Some(lane) = self.cast(cast) {
            lane.is_over = true;
        }
        self.tidy_cast(cast);
    }

    /// Forgets a set of sinks that has ended, if nobody asks for its messages.
    pub(super) fn tidy_cast(&mut self, cast: CastId) {
        if self.casts.get(&cast).is_some_and(|lane| lane.is_over && lane.is_quiet() && lane.is_empty()) {
            self.casts.remove(&cast);
        }
    }

    /// What goes a way.
    pub(super) fn lane(&mut self, way: Way) -> Option<&mut Lane> {
        match way {
            Way::One(place, _) => self.association(place).map(|association| &mut association.lane),
            Way::Many(cast) => self.cast(cast),
        }
    }

    /// Forgets what nobody needs of it.
    pub(super) fn tidy_way(&mut self, way: Way) {
        match way {
            Way::One(place, _) => self.tidy(place),
            Way::Many(cast) => self.tidy_cast(cast),
        }
    }

    /// Who has connected first.
    pub(super) fn accept(&mut self) -> Option<Arrival> {
        self.backlog.arrivals.pop_front()
    }

    /// Whether somebody has connected, and was not accepted.
    pub(super) fn has_arrivals(&self) -> bool {
        !self.backlog.arrivals.is_empty()
    }

    /// Signals `watch` from now on when something has happened to the socket, and now.
    pub(super) fn watch(&mut self, watch: Arc<WakeFd>) {
        watch.signal();
        self.watch = Some(watch);
    }

    fn stir(&self) {
        if let Some(watch) = &self.watch {
            watch.signal();
        }
    }

    /// Whether every connection has come to its end.
    pub(super) fn is_quiet(&self) -> bool {
        self.open == 0
    }
}

impl EventSink<Event> for Exchange {
    fn handle_event(&mut self, event: Event, memory: &mut BufferTable) {
        match event {
            Event::Accepted { connection, peer, source, .. } => {
                let place = self.insert(connection);
                self.backlog.arrivals.push_back(Arrival { place, id: connection, peer, source });
                self.stir();
            }
            Event::Connected { connection } => {
                if let Some((_, association)) = self.find(connection) {
                    association.is_connected = true;
                    association.stir();
                }
            }
            Event::Readable { connection } => {
                if let Some((_, association)) = self.find(connection) {
                    association.is_readable = true;
                    association.stir();
                }
            }
            Event::Writable { connection } => {
                if let Some((_, association)) = self.find(connection) {
                    association.lane.room += 1;
                    association.stir();
                }
            }
            Event::Sent { connection, ticket, buffer, delivered } => {
                memory.give_back(buffer);
                if let Some((place, association)) = self.find(connection) {
                    association.lane.end(ticket, delivered, delivered);
                    if association.lane.is_quiet() {
                        association.stir();
                    }
                    self.tidy(place);
                }
            }
            Event::Cast { cast, ticket, buffer, delivered, sinks } => {
                memory.give_back(buffer);
                if let Some(lane) = self.cast(cast) {
                    lane.end(ticket, delivered == sinks, delivered > 0);
                }
                self.tidy_cast(cast);
                self.stir();
            }
            Event::CastWritable { cast } => {
                if let Some(lane) = self.cast(cast) {
                    lane.room += 1;
                }
                self.stir();
            }
            Event::QosChanged { connection, .. } => {
                if let Some((_, association)) = self.find(connection) {
                    association.stir();
                }
            }
            Event::Released { buffer } => Storage::release(memory, buffer),
            Event::Closed { connection, result } => {
                let Some((place, association)) = self.find(connection) else { return };
                association.is_readable = true;
                association.stir();
                if association.closed.replace(result).is_none() {
                    self.open -= 1;
                }
                self.tidy(place);
                self.stir();
            }
            // Groups are joined and left below (see `node`).
            Event::Join { .. } | Event::Leave { .. } | Event::ShutDown => {}
        }
    }

    fn take_concerned(&mut self) -> Concerned {
        std::mem::take(&mut self.concerned)
    }

    fn is_outstanding(&self) -> bool {
        // Who listens answers, whether somebody waits or not.
        self.open > 0 || self.backlog.is_listening
    }
}
