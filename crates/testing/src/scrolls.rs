//! An engine that allocates storage while it handles a read, for the tests of drivers.

use pinnace_core::{Address, BufferId, BufferRange, Engine, Placed, PollAt, ReceivePlan, RxMeta, Time, Train};
use std::collections::VecDeque;

/// Bytes of a message's storage.
pub const STORAGE: usize = 4096;
/// Bytes of a datagram.
pub const DATAGRAM: usize = 8;
/// Bytes of its payload, behind a kind and a number.
const TILE: u32 = 6;

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// All of a message is there.
    Complete(BufferId),
    /// It was waited for too long.
    Died(BufferId),
}

/// Receives messages whose header (`H`, number of tiles) may come after some of the data (`D`, number of the tile) and may
/// be called off (`X`); whoever waits for too long dies.
#[derive(Debug, Default)]
pub struct Scrolls {
    /// Where the message goes that is being received.
    pub into: Option<BufferId>,
    early: Vec<(u64, Vec<u8>)>,
    missing: Vec<u8>,
    /// Messages for which there was no storage.
    pub refused: u32,
    /// The message dies at the next time-out.
    pub mortal: bool,
    events: VecDeque<Event>,
    /// Datagrams that it sends.
    pub to_send: Vec<[u8; DATAGRAM]>,
}

impl Engine for Scrolls {
    type Event = Event;

    fn handle_datagrams(&mut self, _: Time, _: &RxMeta, rx: &mut Placed<'_>) {
        while let Some(segment) = rx.next_segment() {
            let Some([kind, number]) = rx.head::<2>(&segment) else { continue };
            let offset = u64::from(number) * u64::from(TILE);
            match (kind, self.into) {
                (b'H', None) => {
                    self.missing =
                        (0..number).filter(|n| !self.early.iter().any(|e| e.0 == u64::from(n * 6))).collect();
                    self.into = rx.allocate(STORAGE as u64, &std::mem::take(&mut self.early));
                    self.refused += u32::from(self.into.is_none());
                }
                (b'D', None) => {
                    let mut scratch = Vec::new();
                    self.early.push((offset, rx.whole(&segment, &mut scratch)[2..].to_vec()));
                }
                (b'D', Some(into)) => {
                    rx.settle(&segment, 2..DATAGRAM, BufferRange::new(into, offset, TILE));
                    self.missing.retain(|missing| *missing != number);
                    if self.missing.is_empty() {
                        self.into = None;
                        self.events.push_back(Event::Complete(into));
                    }
                }
                (b'X', Some(into)) => {
                    self.into = None;
                    rx.release(into);
                }
                _ => {}
            }
        }
    }

    fn handle_timeout(&mut self, _: Time) {
        if std::mem::take(&mut self.mortal) {
            self.events.extend(self.into.take().map(Event::Died));
        }
    }

    fn plan_receive(&self, plan: &mut ReceivePlan) {
        for tile in self.into.iter().flat_map(|into| self.missing.iter().map(|tile| (*into, *tile))) {
            plan.pooled(2);
            plan.payload(BufferRange::new(tile.0, u64::from(tile.1) * u64::from(TILE), TILE));
        }
    }

    fn poll_transmit(&mut self, _: Time, train: &mut Train) -> bool {
        if self.to_send.is_empty() {
            return false;
        }
        train.begin(Address::Peer, DATAGRAM);
        for datagram in self.to_send.drain(..) {
            train.inline(&datagram);
            train.end_segment();
        }
        true
    }

    fn poll_at(&self) -> PollAt {
        if self.mortal { PollAt::Now } else { PollAt::Ingress }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// A datagram of this kind and number, filled with a letter.
pub fn datagram(kind: u8, number: u8, filling: u8) -> [u8; DATAGRAM] {
    [kind, number, filling, filling, filling, filling, filling, filling]
}
