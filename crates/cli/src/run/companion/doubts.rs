//! Streams of whose peers nobody knows yet whether they are there. Anybody can send packets in the names of others, each of
//! which begins a stream: what an application gets of it is a socket, and often a thread, that waits for nothing.
//!
//! Always true: the application has at most [`MOST`] such streams at a time. The others wait here until their peers have shown
//! that they are there, which a packet more does, or there is room; those that do not for long are reset.

use super::pair::Family;
use pinnace::qmp::{Stream, StreamId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Streams that are handed over without knowing whether anybody is there: whoever comes alone waits for nothing.
const MOST: usize = 64;
/// Who is there has shown it by then, also if many packets are lost.
const LONGEST: Duration = Duration::from_secs(30);

/// A stream that waits, and where it is to be handed over.
#[derive(Debug)]
pub(super) struct Doubted {
    pub(super) stream: Stream,
    pub(super) family: Family,
    pub(super) name: String,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// The application has them.
    handed_over: BTreeSet<StreamId>,
    waiting: BTreeMap<StreamId, (Instant, Doubted)>,
    /// Those that wait, and have shown it.
    proved: Vec<StreamId>,
}

impl Doubts {
    pub(super) fn is_full(&self) -> bool {
        self.handed_over.len() >= MOST
    }

    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn has(&self, id: StreamId) -> bool {
        self.waiting.contains_key(&id)
    }

    /// A stream waits from now on.
    pub(super) fn keep(&mut self, id: StreamId, doubted: Doubted) {
        // Dropped it is reset.
        doubted.stream.set_linger(Some(Duration::ZERO));
        self.waiting.insert(id, (Instant::now(), doubted));
        // It may have shown it since it was looked.
        self.look_again(id);
    }

    /// The application gets a stream that has shown nothing.
    pub(super) fn hand_over(&mut self, id: StreamId) {
        self.handed_over.insert(id);
    }

    /// Whether the application's stream is none of those any more.
    pub(super) fn look_at(&mut self, id: StreamId, is_over: bool) {
        if is_over {
            self.handed_over.remove(&id);
        }
    }

    /// Something has happened to a stream that waits.
    pub(super) fn look_again(&mut self, id: StreamId) {
        if self.waiting.get(&id).is_some_and(|(_, doubted)| doubted.stream.is_proved()) {
            self.proved.push(id);
        }
    }

    /// The next that may be handed over.
    pub(super) fn next(&mut self) -> Option<Doubted> {
        while let Some(id) = self.proved.pop() {
            if let Some((_, doubted)) = self.waiting.remove(&id) {
                return Some(doubted);
            }
        }
        let (_, (_, doubted)) = if self.is_full() { None } else { self.waiting.pop_first() }?;
        Some(doubted)
    }

    /// Nobody is left who would take them.
    pub(super) fn give_up(&mut self) {
        self.waiting.clear();
    }

    /// Forgets those that have waited in vain, and those of the application's that are not carried any more.
    pub(super) fn look<T>(&mut self, carried: &BTreeMap<StreamId, T>) {
        self.handed_over.retain(|id| carried.contains_key(id));
        self.waiting.retain(|_, (since, _)| since.elapsed() < LONGEST);
    }
}
