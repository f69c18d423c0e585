//! What the contexts of an engine share: configuration, counters, events, timers, the order in which they send, and what
//! nobody may guess.

use crate::diag::Diags;
use crate::ended::Ended;
use crate::farewell::Farewells;
use crate::{Config, ContextId, Event, XtpCounters};
use core::time::Duration;
use pinnace_core::{Address, ContextKey, Departure, SMALLEST_DATAGRAM, Secrets, SmallPaths, Time, TimerWheel, Turns};
use pinnace_wire::xtp::{Code, Header, Value};
use std::collections::{BTreeMap, VecDeque};

/// Everything beside the contexts.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) counters: XtpCounters,
    /// The smoothed round trip of the context that has heard a status last.
    pub(crate) round_trip: Option<Duration>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) wheel: TimerWheel<ContextKey>,
    /// Contexts whose data wait for a rate that was said, and until when.
    pub(crate) paced: Turns,
    pub(crate) queue: Queue,
    pub(crate) diags: Diags,
    pub(crate) ended: Ended,
    pub(crate) farewells: Farewells,
    pub(crate) secrets: Secrets,
    pub(crate) paths: SmallPaths,
    /// Bytes of storage for rings and datagrams that are not released.
    pub(crate) bytes: u64,
    /// Datagrams that the application has not taken.
    pub(crate) datagrams: u64,
    /// The application is still queueing.
    pub(crate) is_held: bool,
    /// Contexts that have sent meanwhile, and may still have to ask.
    pub(crate) held: Vec<ContextKey>,
    /// Contexts whose rate is limited: their user bytes.
    pub(crate) departure: Departure<ContextKey>,
    /// When the first context became active: the base of `time` in xtp36.
    clock_base: Option<Time>,
    tickets: u64,
    /// Reused for headers and control packets.
    pub(crate) scratch: Vec<u8>,
    /// The status that is being written.
    pub(crate) status: Vec<u8>,
    /// Reused for spans.
    pub(crate) spans: Vec<(u64, u64)>,
}

impl Shared {
    pub(crate) fn new(config: Config, now: Time) -> Self {
        Self {
            counters: XtpCounters::default(),
            round_trip: None,
            events: VecDeque::new(),
            wheel: TimerWheel::new(now),
            paced: Turns::default(),
            queue: Queue::default(),
            diags: Diags::new(config.limits.diags_per_second),
            ended: Ended::default(),
            farewells: Farewells::new(config.limits.farewells),
            secrets: Secrets::new(config.seed),
            paths: SmallPaths::default(),
            bytes: 0,
            datagrams: 0,
            is_held: false,
            held: Vec::new(),
            departure: Departure::default(),
            clock_base: None,
            tickets: 0,
            scratch: Vec::new(),
            status: Vec::new(),
            spans: Vec::new(),
            config,
        }
    }

    pub(crate) fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// A DIAG leaves `to` there and `from` here, unless there have been too many.
    pub(crate) fn send_diag(
        &mut self,
        now: Time,
        (to, from): (Address, Option<Address>),
        header: &Header,
        code: Code,
        value: Value,
    ) {
        if self.diags.send(now, to, from, header, code, value) {
            self.counters.diags_sent += 1;
        } else {
            self.counters.diags_withheld += 1;
        }
    }

    /// Resets whose date has come leave again.
    pub(crate) fn say_farewells(&mut self, now: Time) {
        while let Some(reply) = self.farewells.take_due(now) {
            self.counters.statuses_sent += 1;
            self.diags.say(reply);
        }
    }

    /// What is repeated to there is cut finer from now on; nobody can make packets smaller than any path carries.
    pub(crate) fn on_too_large(&mut self, now: Time, to: Address, fits: Option<u32>) {
        self.paths.on_too_large(now, to, fits, SMALLEST_DATAGRAM as usize, self.config.datagram_bytes);
    }

    /// Bytes of the largest datagram that leaves for `to`.
    pub(crate) fn datagram_bytes(&self, to: Address) -> usize {
        self.paths.carries(to, self.config.datagram_bytes)
    }

    /// Tells the application, once for events in a row that say the same.
    pub(crate) fn tell_readable(&mut self, context: ContextId) {
        let event = Event::Readable { context };
        if self.events.back() != Some(&event) {
            self.events.push_back(event);
        }
    }

    /// A context is active: the first one is the base of the clock.
    pub(crate) fn start_clock(&mut self, now: Time) {
        self.clock_base.get_or_insert(now);
    }

    /// The time of an xtp36 CNTL, in units of 20 ms.
    pub(crate) fn clock(&mut self, now: Time) -> u32 {
        /// The unit.
        const UNIT: u64 = 20_000_000;
        /// The base is renewed before 32 bits of units are over: 2.72 years.
        const RENEWED_AFTER: u64 = u32::MAX as u64 * UNIT;
        let base = *self.clock_base.get_or_insert(now);
        let since = now.since(base).as_nanos() as u64;
        if since >= RENEWED_AFTER {
            self.clock_base = Some(now);
            return 0;
        }
        (since / UNIT) as u32
    }
}

/// Whose turn it is to send: lower sort values first, then in order of arrival.
//= X-18
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: BTreeMap<(u32, u64), ContextKey>,
    arrivals: u64,
}

/// A place in the [`Queue`].
pub(crate) type Place = (u32, u64);

impl Queue {
    /// Queues a context behind all of its sort value.
    pub(crate) fn push(&mut self, sort: u32, key: ContextKey) -> Place {
        self.arrivals += 1;
        let place = (sort, self.arrivals);
        self.waiting.insert(place, key);
        place
    }

    pub(crate) fn first(&self) -> Option<ContextKey> {
        self.waiting.first_key_value().map(|(_, key)| *key)
    }

    pub(crate) fn remove(&mut self, place: Place) {
        self.waiting.remove(&place);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= X-18 test
    #[test]
    fn lower_sort_values_go_first_and_ties_in_order_of_arrival() {
        let mut queue = Queue::default();
        let key = |slot| ContextKey { slot, instance: 1 };
        let places = [(5, 1), (5, 2), (0, 3), (5, 4)].map(|(sort, slot)| queue.push(sort, key(slot)));
        let mut order = Vec::new();
        while let Some(first) = queue.first() {
            order.push(first.slot);
            queue.remove(places[first.slot as usize - 1]);
        }
        assert_eq!(order, [3, 1, 2, 4]);
        assert!(queue.is_empty());
    }

    #[test]
    fn the_clock_counts_from_the_first_active_context() {
        let mut shared = Shared::new(Config::default(), Time::ZERO);
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        assert_eq!([5000, 5019, 5020, 5100].map(|millis| shared.clock(at(millis))), [0, 0, 1, 5]);
    }
}
