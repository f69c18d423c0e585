//! An engine that moves one buffer to another, window by window: it sends a train, waits for the answer that says what
//! is missing, and sends that again. Payload first, then a trailer, so that trains land in place.

use core::time::Duration;
use pinnace_core::{Address, BufferId, BufferRange, Engine, Placed, PollAt, ReceivePlan, RxMeta, Time, Train};

/// Bytes of a unit's payload, and of its trailer: a kind and a number.
pub(crate) const UNIT: usize = 1000;
const TRAILER: usize = 8;
const DATA: u32 = 0xDA7A_0001;
const ACK: u32 = 0xACC0_0002;
const TIMEOUT: Duration = Duration::from_millis(200);
const GIVE_UP: u32 = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Sent,
    Received,
    GaveUp,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Idle,
    Sender,
    Receiver,
}

#[derive(Debug)]
pub(crate) struct Bulk {
    role: Role,
    peer: Address,
    buffer: BufferId,
    len: usize,
    window: usize,
    /// The units that are settled: acknowledged at the sender, present at the receiver.
    have: Vec<bool>,
    to_send: Vec<usize>,
    /// What was sent last, and is not yet acknowledged, starts below this unit.
    sent_high: usize,
    timer: Option<Time>,
    tries: u32,
    acks: Vec<(Address, u32)>,
    events: Vec<Event>,
    /// Plans for units in the wrong order, so that every payload has to be moved.
    pub(crate) guess_wrong: bool,
    pub(crate) retransmitted: u64,
    pub(crate) strays: u64,
}

impl Bulk {
    pub(crate) fn new(window: usize) -> Self {
        Self {
            role: Role::Idle,
            peer: Address::Peer,
            buffer: BufferId::new(0),
            len: 0,
            window,
            have: Vec::new(),
            to_send: Vec::new(),
            sent_high: 0,
            timer: None,
            tries: 0,
            acks: Vec::new(),
            events: Vec::new(),
            guess_wrong: false,
            retransmitted: 0,
            strays: 0,
        }
    }

    pub(crate) fn send(&mut self, now: Time, to: Address, buffer: BufferId, len: usize) {
        self.begin(Role::Sender, to, buffer, len);
        self.next_window(now);
    }

    pub(crate) fn receive(&mut self, from: Address, buffer: BufferId, len: usize) {
        self.begin(Role::Receiver, from, buffer, len);
    }

    fn begin(&mut self, role: Role, peer: Address, buffer: BufferId, len: usize) {
        (self.role, self.peer, self.buffer, self.len) = (role, peer, buffer, len);
        self.have = vec![false; len.div_ceil(UNIT)];
    }

    fn range(&self, unit: usize) -> BufferRange {
        let low = unit * UNIT;
        BufferRange::new(self.buffer, low as u64, (self.len - low).min(UNIT) as u32)
    }

    fn missing(&self) -> impl Iterator<Item = usize> {
        self.have.iter().enumerate().filter(|(_, have)| !**have).map(|(unit, _)| unit).take(self.window)
    }

    fn next_window(&mut self, now: Time) {
        self.to_send = self.missing().collect();
        self.sent_high = self.to_send.last().map_or(0, |unit| unit + 1);
        self.timer = Some(now + TIMEOUT);
        if self.to_send.is_empty() {
            (self.role, self.timer) = (Role::Idle, None);
            self.events.push(Event::Sent);
        }
    }
}

impl Engine for Bulk {
    type Event = Event;

    fn handle_datagrams(&mut self, now: Time, meta: &RxMeta, rx: &mut Placed<'_>) {
        let mut answer = false;
        while let Some(segment) = rx.next_segment() {
            let Some(trailer) = rx.tail::<TRAILER>(&segment) else {
                self.strays += 1;
                continue;
            };
            let kind = u32::from_be_bytes([trailer[0], trailer[1], trailer[2], trailer[3]]);
            let number = u32::from_be_bytes([trailer[4], trailer[5], trailer[6], trailer[7]]) as usize;
            let known = meta.source == self.peer && number < self.have.len();
            match (kind, self.role) {
                (DATA, Role::Receiver) if known && segment.len == self.range(number).len as usize + TRAILER => {
                    answer = true;
                    self.acks.push((meta.source, number as u32));
                    if !self.have[number] {
                        self.have[number] = true;
                        rx.settle(&segment, 0..segment.len - TRAILER, self.range(number));
                    }
                }
                (ACK, Role::Sender) if known => {
                    self.have[number] = true;
                    self.tries = 0;
                }
                _ => self.strays += 1,
            }
        }
        if answer && self.have.iter().all(|&have| have) && self.len > 0 {
            // Keeps answering: the last answer may be lost.
            self.events.push(Event::Received);
        }
        if self.role == Role::Sender && !self.have.is_empty() {
            // The next window waits until this one is complete; the timer fills its holes.
            let complete = self.missing().next().is_none_or(|unit| unit >= self.sent_high);
            if complete {
                self.next_window(now);
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.timer.is_some_and(|timer| timer <= now) {
            self.tries += 1;
            if self.tries > GIVE_UP {
                (self.role, self.timer) = (Role::Idle, None);
                self.events.push(Event::GaveUp);
                return;
            }
            self.next_window(now);
            self.retransmitted += self.to_send.len() as u64;
        }
    }

    fn plan_receive(&self, plan: &mut ReceivePlan) {
        if self.role != Role::Receiver {
            return;
        }
        let mut units: Vec<usize> = self.missing().take(plan.datagrams()).collect();
        if self.guess_wrong {
            units.reverse();
        }
        for unit in units {
            let range = self.range(unit);
            if !plan.has_room(2, range.len as usize + TRAILER) {
                break;
            }
            plan.payload(range);
            plan.pooled(TRAILER);
        }
    }

    fn poll_transmit(&mut self, _: Time, train: &mut Train) -> bool {
        if let Some((to, _)) = self.acks.first().copied() {
            train.begin(to, TRAILER);
            while let Some((_, number)) = self.acks.first().copied()
                && train.has_room(TRAILER)
            {
                self.acks.remove(0);
                train.inline(&[ACK.to_be_bytes(), number.to_be_bytes()].concat());
                train.end_segment();
            }
            return true;
        }
        let Some(&first) = self.to_send.first() else { return false };
        train.begin(self.peer, self.range(first).len as usize + TRAILER);
        while let Some(&unit) = self.to_send.first() {
            let range = self.range(unit);
            if !train.has_room(range.len as usize + TRAILER) {
                break;
            }
            self.to_send.remove(0);
            train.payload(range);
            train.inline(&[DATA.to_be_bytes(), (unit as u32).to_be_bytes()].concat());
            train.end_segment();
        }
        true
    }

    fn poll_at(&self) -> PollAt {
        PollAt::at(self.timer)
    }

    fn poll_event(&mut self) -> Option<Event> {
        (!self.events.is_empty()).then(|| self.events.remove(0))
    }
}
