//! What the connections of an engine share: configuration, counters, events, timers, the order in which they send, and what
//! nobody may guess.

use crate::cookie::Baker;
use crate::{A1Counters, CastId, Config, ConnectionId, Event};
use core::time::Duration;
use pinnace_core::{Address, ContextKey, Departure, Pacer, Secrets, SmallPaths, Time, TimerWheel, Train, Turns};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a datagram that all together may always send at once.
const LINK_DATAGRAM: u64 = 1500;

/// A datagram for somebody who has no connection.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) to: Address,
    pub(crate) from: Option<Address>,
    pub(crate) bytes: Vec<u8>,
}

/// Everything beside the connections.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) counters: A1Counters,
    /// The smoothed round trip of the connection that has measured one last.
    pub(crate) round_trip: Option<Duration>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) wheel: TimerWheel<ContextKey>,
    /// When connections may send again, as far as their rates are concerned.
    pub(crate) paced: Turns,
    pub(crate) queue: Queue,
    pub(crate) replies: VecDeque<Reply>,
    pub(crate) secrets: Secrets,
    pub(crate) paths: SmallPaths,
    pub(crate) baker: Baker,
    /// What all connections send together.
    pub(crate) link: Option<Pacer>,
    /// Nobody sends data before, because of that.
    pub(crate) link_at: Option<Time>,
    pub(crate) departure: Departure<Payer>,
    /// Bytes of storage that the driver allocated and the application has not taken.
    pub(crate) bytes: u64,
    /// What small messages count for beside it.
    pub(crate) beside: u64,
    /// The application is still queueing.
    pub(crate) is_held: bool,
    /// Who has held back a train meanwhile.
    pub(crate) held: Vec<Sender>,
    tickets: u64,
    /// Reused for control datagrams.
    pub(crate) scratch: Vec<u8>,
    /// Reused for ranges.
    pub(crate) ranges: Vec<(u64, u64)>,
    /// Reused for ranges as the wire has them.
    pub(crate) wire_ranges: Vec<(u32, u32)>,
}

impl Shared {
    pub(crate) fn new(config: Config, now: Time) -> Self {
        let mut secrets = Secrets::new(config.seed);
        let baker = Baker::new((secrets.draw(), secrets.draw()));
        let link = (config.link_average > 0)
            .then(|| Pacer::new(Some(config.link_average), config.link_burst.max(LINK_DATAGRAM)));
        Self {
            counters: A1Counters::default(),
            round_trip: None,
            events: VecDeque::new(),
            wheel: TimerWheel::new(now),
            paced: Turns::default(),
            queue: Queue::default(),
            replies: VecDeque::new(),
            secrets,
            paths: SmallPaths::default(),
            baker,
            link,
            link_at: None,
            departure: Departure::default(),
            bytes: 0,
            beside: 0,
            is_held: false,
            held: Vec::new(),
            tickets: 0,
            scratch: Vec::new(),
            ranges: Vec::new(),
            wire_ranges: Vec::new(),
            config,
        }
    }

    pub(crate) fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Bytes of the largest control datagram that leaves for `to`.
    pub(crate) fn control_bytes(&self, to: Address) -> usize {
        self.paths.carries(to, self.config.control_bytes)
    }

    /// Tells the application, once for events in a row that say the same.
    pub(crate) fn tell_readable(&mut self, connection: ConnectionId) {
        let event = Event::Readable { connection };
        if self.events.back() != Some(&event) {
            self.events.push_back(event);
        }
    }

    /// Whether a datagram of so many bytes may leave, as far as the rate of all together is concerned.
    pub(crate) fn link_allows(&mut self, now: Time, bytes: u64) -> bool {
        let Some(pacer) = &self.link else { return true };
        let at = pacer.ready_at(now, bytes);
        self.link_at = (at > now).then_some(at);
        self.link_at.is_none()
    }

    /// Whether nothing of that rate is lost if whoever waits for it comes so much `late`.
    pub(crate) fn link_bears(&self, late: Duration) -> bool {
        let link = self.link.as_ref().filter(|_| self.link_at.is_some());
        link.is_none_or(|link| link.bears(late, LINK_DATAGRAM))
    }

    /// A datagram of so many bytes is in the train.
    pub(crate) fn on_sent(&mut self, now: Time, bytes: u64, train: &mut Train) {
        if let Some(pacer) = &mut self.link {
            pacer.take(now, bytes);
            self.departure.add(Payer::Link, bytes, train);
        }
    }
}

/// Whose rate a train is paid for with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Payer {
    /// All connections' together.
    Link,
    Connection(ContextKey),
}

/// Who sends data: a connection, or a set of sinks to its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Connection(ContextKey),
    Cast(CastId),
}

/// A place among those who have data: priority, new blocks behind repetitions, order of arrival.
pub(crate) type DataPlace = (u8, bool, u64);

/// Whose turn it is to send.
///
/// As long as anybody has repetitions, data go first, those that are more urgent before others; otherwise what is said about
/// data goes before new data.
//= A-4
//= A-11
#[derive(Debug, Default)]
pub(crate) struct Queue {
    control: BTreeMap<u64, ContextKey>,
    data: BTreeMap<DataPlace, Sender>,
    repairs: usize,
    arrivals: u64,
}

/// What is to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Control(ContextKey),
    Data(Sender),
}

impl Queue {
    pub(crate) fn push_control(&mut self, key: ContextKey) -> u64 {
        self.arrivals += 1;
        self.control.insert(self.arrivals, key);
        self.arrivals
    }

    pub(crate) fn push_data(&mut self, priority: u8, is_new: bool, sender: Sender) -> DataPlace {
        self.arrivals += 1;
        let place = (priority, is_new, self.arrivals);
        self.repairs += usize::from(!is_new);
        self.data.insert(place, sender);
        place
    }

    pub(crate) fn remove_control(&mut self, place: u64) {
        self.control.remove(&place);
    }

    pub(crate) fn remove_data(&mut self, place: DataPlace) {
        if self.data.remove(&place).is_some() {
            self.repairs -= usize::from(!place.1);
        }
    }

    /// Who is next; `may_send_data`: data may leave at all.
    pub(crate) fn next(&self, may_send_data: bool) -> Option<Turn> {
        let control = self.control.first_key_value().map(|(_, key)| Turn::Control(*key));
        if !may_send_data {
            return control;
        }
        let data = self.data.first_key_value().map(|(_, sender)| Turn::Data(*sender));
        if self.repairs > 0 { data } else { control.or(data) }
    }

    pub(crate) fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    pub(crate) fn has_data(&self) -> bool {
        !self.data.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(slot: u32) -> ContextKey {
        ContextKey { slot, instance: 1 }
    }

    //= A-4, A-11 test
    #[test]
    fn repetitions_go_before_answers_and_answers_before_new_data() {
        let mut queue = Queue::default();
        let new = queue.push_data(0, true, Sender::Connection(key(1)));
        queue.push_control(key(2));
        assert_eq!(queue.next(true), Some(Turn::Control(key(2))));
        let repair = queue.push_data(0, false, Sender::Connection(key(3)));
        assert_eq!(queue.next(true), Some(Turn::Data(Sender::Connection(key(3)))));
        queue.remove_data(repair);
        let late = queue.push_data(9, false, Sender::Connection(key(4)));
        assert_eq!(queue.next(true), Some(Turn::Data(Sender::Connection(key(1)))), "more urgent");
        assert_eq!(queue.next(false), Some(Turn::Control(key(2))), "data wait for the link");
        queue.remove_data(new);
        queue.remove_data(late);
        assert_eq!(queue.next(true), Some(Turn::Control(key(2))));
        assert!(!queue.has_data() && queue.has_control());
    }
}
