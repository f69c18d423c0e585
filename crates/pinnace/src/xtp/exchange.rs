//! What turns the engine's events into results for whoever waits.
//!
//! Always true: a message under way, or posted, is owned here, and its buffer is in the table exactly as long, so the
//! transport never names memory that is gone; an association stays here until nobody has a handle of it and the engine
//! has given everything back.

use super::backlog::Backlog;
use super::lane::Lane;
use super::{AddressSegment, Failure, Service};
use crate::Message;
use crate::places::{Place, Places, topic};
use pinnace_core::{Address, BufferId, ContextKey, Storage};
use pinnace_link::BufferTable;
use pinnace_runtime::{Concerned, EventSink, WakeFd};
use pinnace_xtp::{ContextId, Event, ListenerId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A buffer that waits to be filled (bulk data).
#[derive(Debug)]
struct Posted {
    buffer: BufferId,
    message: Message,
    /// Where it begins in the stream.
    low: u64,
}

/// A buffer that has been filled, or that nothing will fill any more.
#[derive(Debug)]
pub(super) struct Full {
    pub(super) message: Message,
    pub(super) low: u64,
}

/// One context, as the application sees it.
#[derive(Debug)]
pub(super) struct Association {
    pub(super) id: ContextId,
    pub(super) lane: Lane,
    pub(super) is_connected: bool,
    /// There may be something to read that nobody has looked at.
    pub(super) is_readable: bool,
    pub(super) closed: Option<Result<(), Failure>>,
    /// The application has ended its stream: nothing more finds room, and whoever waits for some is told.
    pub(super) is_finished: bool,
    /// Nobody reads or writes any more.
    is_released: bool,
    posted: VecDeque<Posted>,
    pub(super) full: VecDeque<Full>,
    /// Bytes of the stream that were posted for, and that were taken.
    posted_bytes: u64,
    pub(super) taken_bytes: u64,
    /// Where messages end in the buffers that are posted or full: offsets of the stream.
    pub(super) ends: VecDeque<u64>,
    /// The bytes that were taken end in the midst of a message.
    pub(super) is_in_message: bool,
    /// Signalled when something has happened here.
    pub(super) watch: Option<Arc<WakeFd>>,
    /// It is among those that are told to whoever serves all of them.
    is_told: bool,
    /// Whom it came for, and at which turn it waits, or waited, to be accepted; until it has shown that it is there.
    waits: Option<(ListenerId, u64)>,
}

impl Association {
    fn new(id: ContextId) -> Self {
        Self {
            id,
            lane: Lane::default(),
            is_connected: false,
            is_readable: false,
            closed: None,
            is_finished: false,
            is_released: false,
            posted: VecDeque::new(),
            full: VecDeque::new(),
            posted_bytes: 0,
            taken_bytes: 0,
            ends: VecDeque::new(),
            is_in_message: false,
            watch: None,
            is_told: false,
            waits: None,
        }
    }

    /// Whether an attempt to queue something would be answered otherwise than when so many messages had ended.
    pub(super) fn has_room_since(&self, ended: u64) -> bool {
        self.lane.ended() != ended || self.is_finished || self.closed.is_some()
    }

    /// This message waits to be filled.
    pub(super) fn post(&mut self, buffer: BufferId, message: Message) {
        let low = self.posted_bytes;
        self.posted_bytes += message.capacity() as u64;
        self.posted.push_back(Posted { buffer, message, low });
    }

    /// The end of the association, if it was not a good one.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.closed.and_then(Result::err)
    }

    fn is_forgotten(&self) -> bool {
        self.is_released && self.closed.is_some() && self.lane.is_empty() && self.posted.is_empty()
    }
}

/// Unacknowledged datagrams that come while so many arrivals wait for a listener are dropped.
const MOST_DATAGRAMS: usize = 65_536;

/// What has come for a listener.
#[derive(Debug)]
pub(super) enum Arrival {
    /// A context of a service with an answer.
    Context { place: Place, id: ContextId, peer: Address, address: AddressSegment, service: Service },
    /// A datagram.
    Datagram {
        peer: Address,
        address: AddressSegment,
        service: Service,
        bytes: Vec<u8>,
        btag: Option<[u8; 8]>,
        /// Its acknowledgement waits for it to be taken.
        deferred: Option<ContextId>,
    },
}

/// The state of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    places: Places<Association>,
    listeners: BTreeMap<ListenerId, Backlog<Arrival>>,
    /// Associations that have not closed.
    open: usize,
    /// Those of them that nobody has a handle of.
    lingering: usize,
    /// Datagrams, and their bytes, that were taken and still count in the engine.
    pub(super) taken_datagrams: (u64, u64),
    /// Where something has happened, each once; `None`: nobody serves all of them.
    stirred: Option<Vec<Place>>,
    /// Who waits for something of the associations where something has happened.
    concerned: Concerned,
}

impl Exchange {
    /// A datagram has been taken, or thrown away.
    fn take_datagram(&mut self, bytes: usize) {
        self.taken_datagrams.0 += 1;
        self.taken_datagrams.1 += bytes as u64;
    }

    /// A new context has a place from now on.
    pub(super) fn insert(&mut self, id: ContextId) -> Place {
        self.open += 1;
        self.places.insert(id.into(), Association::new(id))
    }

    pub(super) fn association(&mut self, place: Place) -> Option<&mut Association> {
        self.places.get_mut(place)
    }

    /// The association of a context in which something happens, if it is here.
    fn find(&mut self, id: ContextId) -> Option<(Place, &mut Association)> {
        let (place, association) = self.places.newest(ContextKey::from(id).slot)?;
        self.concerned.add(topic(place));
        (association.id == id).then_some((place, association))
    }

    /// Something has happened there.
    fn stir(&mut self, place: Place) {
        let Some(association) = self.places.get_mut(place) else { return };
        if let Some(watch) = &association.watch {
            watch.signal();
        }
        if let Some(stirred) = &mut self.stirred
            && !association.is_released
            && !std::mem::replace(&mut association.is_told, true)
        {
            stirred.push(place);
        }
    }

    /// Adds the associations where something has happened since the last time to `stirred`; those of before the first time are
    /// left out. True: there are some, or somebody waits for a listener.
    pub(super) fn take_stirred(&mut self, mut stirred: impl FnMut(Place)) -> bool {
        let mut places = self.stirred.take().unwrap_or_default();
        let is_any = !places.is_empty();
        for place in places.drain(..) {
            if let Some(association) = self.association(place) {
                association.is_told = false;
                stirred(place);
            }
        }
        self.stirred = Some(places);
        is_any || self.listeners.values().any(|backlog| !backlog.is_empty())
    }

    /// The application has ended its stream.
    pub(super) fn finish(&mut self, place: Place) {
        if let Some(association) = self.association(place) {
            association.is_finished = true;
            self.stir(place);
        }
    }

    /// Nobody reads or writes there any more. What was queued still goes on.
    pub(super) fn release(&mut self, place: Place) {
        if let Some(association) = self.association(place) {
            let lingers = !association.is_released && association.closed.is_none();
            association.is_released = true;
            association.watch = None;
            association.full.clear();
            self.lingering += usize::from(lingers);
        }
        self.tidy(place);
    }

    /// Frees the place of an association that nobody needs.
    fn tidy(&mut self, place: Place) {
        if self.association(place).is_some_and(|association| association.is_forgotten()) {
            self.places.remove(place);
        }
    }

    /// Takes a message that has ended: whether it was delivered, or why it was not.
    pub(super) fn take_sent(&mut self, place: Place, number: u64) -> Option<(Message, Result<(), Failure>)> {
        let association = self.association(place)?;
        let (message, delivered) = association.lane.take(number)?;
        let result = if delivered { Ok(()) } else { Err(association.failure().unwrap_or(Failure::Aborted)) };
        self.tidy(place);
        Some((message, result))
    }

    /// How a message has ended, if it has; it stays.
    pub(super) fn outcome(&mut self, place: Place, number: u64) -> Option<Result<(), Failure>> {
        let association = self.association(place)?;
        let delivered = association.lane.outcome(number)?;
        Some(if delivered { Ok(()) } else { Err(association.failure().unwrap_or(Failure::Aborted)) })
    }

    /// Nobody waits for this message any more.
    pub(super) fn abandon(&mut self, place: Place, number: u64) {
        if let Some(association) = self.association(place) {
            association.lane.abandon(number);
        }
        self.tidy(place);
    }

    /// Somebody listens.
    pub(super) fn listen(&mut self, listener: ListenerId) {
        self.listeners.insert(listener, Backlog::default());
    }

    /// `watch` is signalled from now on when something comes for a listener, and at once if something has.
    pub(super) fn watch_listener(&mut self, listener: ListenerId, watch: Arc<WakeFd>) {
        if let Some(backlog) = self.listeners.get_mut(&listener) {
            backlog.watch(watch);
        }
    }

    /// Whether something has come for a listener, and was not taken.
    pub(super) fn has_arrivals(&self, listener: ListenerId) -> bool {
        self.listeners.get(&listener).is_some_and(|backlog| !backlog.is_empty())
    }

    /// Nobody does any more: what was not accepted.
    pub(super) fn stop_listening(&mut self, listener: ListenerId) -> impl Iterator<Item = Arrival> + use<> {
        self.listeners.remove(&listener).unwrap_or_default().into_waiting()
    }

    /// What comes next for a listener.
    pub(super) fn accept(&mut self, listener: ListenerId) -> Option<Arrival> {
        let arrival = self.listeners.get_mut(&listener)?.take()?;
        if let Arrival::Datagram { bytes, .. } = &arrival {
            self.take_datagram(bytes.len());
        }
        Some(arrival)
    }

    /// Whether every association has come to its end.
    pub(super) fn is_quiet(&self) -> bool {
        self.open == 0
    }

    /// Whether an association goes on that nobody has a handle of.
    pub(super) fn is_lingering(&self) -> bool {
        self.lingering > 0
    }
}

impl EventSink<Event> for Exchange {
    fn handle_event(&mut self, event: Event, memory: &mut BufferTable) {
        match event {
            Event::Accepted { listener, context, peer, address, service } => {
                let place = self.insert(context);
                match self.listeners.get_mut(&listener) {
                    Some(backlog) => {
                        let turn = backlog.push(Arrival::Context { place, id: context, peer, address, service });
                        if let Some(association) = self.places.get_mut(place) {
                            association.waits = Some((listener, turn));
                        }
                    }
                    None => self.release(place),
                }
            }
            Event::Shown { context } => {
                let Some((place, association)) = self.find(context) else { return };
                if let Some((listener, turn)) = association.waits.take()
                    && let Some(backlog) = self.listeners.get_mut(&listener)
                {
                    backlog.show(turn);
                }
                // Whoever has accepted it may wait for that.
                self.stir(place);
            }
            Event::Connected { context } => {
                if let Some((place, association)) = self.find(context) {
                    association.is_connected = true;
                    self.stir(place);
                }
            }
            Event::Readable { context } => {
                if let Some((place, association)) = self.find(context) {
                    association.is_readable = true;
                    self.stir(place);
                }
            }
            Event::Sent { context, ticket, buffer, delivered } => {
                memory.give_back(buffer);
                if let Some((place, association)) = self.find(context) {
                    association.lane.end(ticket, delivered);
                    self.stir(place);
                    self.tidy(place);
                }
            }
            Event::Datagram { listener, peer, address, service, buffer, btag, context, .. } => {
                let bytes = buffer.and_then(|buffer| memory.take(buffer)).unwrap_or_default();
                match self.listeners.get_mut(&listener) {
                    // Nobody promised that it would arrive.
                    Some(backlog) if service == Service::UnackDgram && backlog.len() >= MOST_DATAGRAMS => {
                        self.take_datagram(bytes.len());
                    }
                    Some(backlog) => {
                        let deferred = context;
                        backlog.push(Arrival::Datagram { peer, address, service, bytes, btag, deferred });
                    }
                    None => self.take_datagram(bytes.len()),
                }
            }
            Event::Filled { context, buffer } => {
                memory.remove(buffer);
                let Some((place, association)) = self.find(context) else { return };
                if let Some(Posted { message, low, .. }) = association.posted.pop_front_if(|it| it.buffer == buffer)
                    && !association.is_released
                {
                    association.full.push_back(Full { message, low });
                }
                self.tidy(place);
            }
            Event::Released { buffer } => Storage::release(memory, buffer),
            Event::Closed { context, result } => {
                let Some((place, association)) = self.find(context) else { return };
                association.is_readable = true;
                let is_released = association.is_released;
                if association.closed.replace(result).is_none() {
                    self.open -= 1;
                    self.lingering -= usize::from(is_released);
                }
                self.stir(place);
                self.tidy(place);
            }
            Event::ShutDown => {}
        }
    }

    fn take_concerned(&mut self) -> Concerned {
        std::mem::take(&mut self.concerned)
    }

    fn is_outstanding(&self) -> bool {
        // Who listens answers, whether somebody waits or not.
        self.open > 0 || !self.listeners.is_empty()
    }
}
