//! An engine that allocates storage while it handles a read.

use core::time::Duration;
use pinnace_core::{Address, BufferId, BufferRange, Engine, Placed, PollAt, ReceivePlan, RxMeta, Time, Train};
use pinnace_sim::{HostId, Inbox, Simulation};
use std::collections::VecDeque;

/// Bytes of a message's storage, of a datagram, and of its payload behind a kind and a number.
const STORAGE: usize = 4096;
const DATAGRAM: usize = 8;
const TILE: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Complete(BufferId),
    Died(BufferId),
}

/// Receives messages whose header (`H`, number of tiles) may come after some of the data (`D`, number of the tile) and may
/// be called off (`X`); whoever waits for too long dies.
#[derive(Debug, Default)]
struct Scrolls {
    into: Option<BufferId>,
    early: Vec<(u64, Vec<u8>)>,
    missing: Vec<u8>,
    refused: u32,
    /// The message dies at the next time-out.
    mortal: bool,
    events: VecDeque<Event>,
    to_send: Vec<[u8; DATAGRAM]>,
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
fn datagram(kind: u8, number: u8, filling: u8) -> [u8; DATAGRAM] {
    [kind, number, filling, filling, filling, filling, filling, filling]
}

const A: HostId = HostId::new(0);
const B: HostId = HostId::new(1);

/// One read of these datagrams by host B.
fn read(simulation: &mut Simulation<Scrolls>, datagrams: &[[u8; DATAGRAM]]) {
    let before = simulation.counters(B).reads;
    simulation.call(A, |engine| engine.to_send.extend(datagrams));
    simulation.run_for(Duration::from_millis(1));
    assert_eq!(simulation.counters(B).reads, before + 1);
}

fn pair() -> Simulation<Scrolls> {
    Simulation::<Scrolls, Inbox<Event>>::pair(1, Default::default(), &"".parse().unwrap())
}

fn events(simulation: &Simulation<Scrolls>) -> Vec<Event> {
    simulation.application(B).events.iter().map(|(_, event)| *event).collect()
}

#[test]
fn storage_holds_what_came_early_with_and_after_the_header_and_no_zeros() {
    let mut simulation = pair();
    read(&mut simulation, &[datagram(b'D', 1, b'b')]);
    read(&mut simulation, &[datagram(b'H', 4, 0), datagram(b'D', 0, b'a'), datagram(b'D', 3, b'd')]);
    let moved = simulation.counters(B).bytes_moved;
    read(&mut simulation, &[datagram(b'D', 2, b'c')]);
    assert_eq!((moved, simulation.counters(B).bytes_moved), (12, 12));
    let [Event::Complete(buffer)] = events(&simulation)[..] else { panic!("one message") };
    let message = simulation.take_buffer(B, buffer);
    assert_eq!((message.len(), &message[..24]), (STORAGE, &b"aaaaaabbbbbbccccccdddddd"[..]));
    assert!(message[24..].iter().all(|byte| *byte != 0));
    assert_eq!(simulation.counters(B).bad_ranges, 0);
}

#[test]
fn storage_released_in_the_read_that_lands_in_it_goes_without_harm() {
    let mut simulation = pair();
    read(&mut simulation, &[datagram(b'H', 3, 0), datagram(b'D', 2, b'z')]);
    let old = simulation.engine(B).into.unwrap();
    read(
        &mut simulation,
        &[
            datagram(b'D', 0, b'x'),
            datagram(b'D', 2, b'y'),
            datagram(b'X', 0, 0),
            datagram(b'H', 2, 0),
            datagram(b'D', 1, b'b'),
        ],
    );
    read(&mut simulation, &[datagram(b'D', 0, b'a')]);
    let [Event::Complete(new)] = events(&simulation)[..] else { panic!("one message") };
    assert_ne!(new, old);
    assert!(simulation.buffer(B, old).is_empty());
    assert_eq!(simulation.buffer(B, new)[..12], *b"aaaaaabbbbbb");
    assert_eq!(simulation.counters(B).bad_ranges, 0);
}

#[test]
fn storage_of_a_message_that_dies_can_be_taken() {
    let mut simulation = pair();
    read(&mut simulation, &[datagram(b'H', 3, 0)]);
    simulation.call(B, |engine| engine.mortal = true);
    simulation.run_for(Duration::from_millis(1));
    let [Event::Died(buffer)] = events(&simulation)[..] else { panic!("one death") };
    assert_eq!(simulation.take_buffer(B, buffer).len(), STORAGE);
    assert!(simulation.buffer(B, buffer).is_empty());
    assert_eq!(simulation.engine(B).refused, 0);
}
