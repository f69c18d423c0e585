//! One message on its way out, and the requests that came before their messages.

use super::Config;
use pinnace_core::{BufferId, IntervalSet};
use pinnace_wire::zcrp::TRAILER_BYTES;

/// What a message is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No request has named it yet (Z-3).
    Waiting,
    /// Its units travel.
    Sending,
    /// It does not fit the receiver's buffer: a single unit says so (Z-16).
    Refusing,
    /// It has ended, and waits for those before it to leave the queue.
    Ended,
}

/// A message on its way out.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) buffer: BufferId,
    pub(super) size: u32,
    pub(super) units: u32,
    /// The first unit that has never been sent.
    pub(super) next_unit: u32,
    pub(super) state: State,
    /// What the buffer has room for that was requested for it (Z-3).
    pub(super) capacity: Option<u32>,
    acked: IntervalSet,
    /// A unit of it has been sent, maybe of another size.
    has_travelled: bool,
}

impl Outgoing {
    pub(super) fn new(buffer: BufferId, size: u32, fragment: u32) -> Self {
        Self {
            buffer,
            size,
            units: units_of(size, fragment),
            next_unit: 0,
            state: State::Waiting,
            capacity: None,
            acked: IntervalSet::new(),
            has_travelled: false,
        }
    }

    /// Cuts it anew, into units of `fragment` bytes, as if none of it had been sent.
    pub(super) fn cut(&mut self, fragment: u32) {
        self.has_travelled = self.has_begun();
        self.next_unit = 0;
        self.acked = IntervalSet::new();
        if self.state != State::Refusing {
            self.units = units_of(self.size, fragment);
        }
    }

    /// Whether it is, or would be, one unit where those carry `fragment` bytes.
    pub(super) fn is_one_unit_of(&self, fragment: u32) -> bool {
        self.state == State::Refusing || self.size <= fragment
    }

    /// Whether `unit` is the last of several.
    pub(super) fn is_end(&self, unit: u32) -> bool {
        self.units > 1 && unit + 1 == self.units
    }

    /// A request has named it.
    pub(super) fn request(&mut self, capacity: u32) {
        self.capacity = Some(capacity);
        if self.size > capacity {
            self.units = 1;
            self.state = State::Refusing;
        } else {
            self.state = State::Sending;
        }
    }

    /// Whether a unit of it has been sent, or announced.
    pub(super) fn has_begun(&self) -> bool {
        self.next_unit > 0 || self.has_travelled
    }

    /// Whether `unit` still has to arrive.
    pub(super) fn wants(&self, unit: u32) -> bool {
        matches!(self.state, State::Sending | State::Refusing) && !self.acked.contains(u64::from(unit))
    }

    /// Marks units acknowledged; true if nothing is missing any more.
    pub(super) fn acknowledge(&mut self, low: u32, high: u32) -> bool {
        if self.units == 1 {
            return true;
        }
        self.acked.insert(u64::from(low)..u64::from(high));
        self.acked.len() == u64::from(self.units)
    }

    /// Whether all these units are acknowledged.
    pub(super) fn acknowledged(&self, low: u32, high: u32) -> bool {
        self.state == State::Ended || self.acked.covers(u64::from(low)..u64::from(high))
    }

    /// Offset and length of a unit's data in the message.
    pub(super) fn fragment_of(&self, unit: u32, fragment: u32) -> (u64, u32) {
        if self.state == State::Refusing {
            return (0, 0);
        }
        let offset = u64::from(unit) * u64::from(fragment);
        let rest = u64::from(self.size).saturating_sub(offset);
        (offset, rest.min(u64::from(fragment)) as u32)
    }

    /// Bytes of a unit's datagram, without padding.
    pub(super) fn unit_bytes(&self, unit: u32, fragment: u32) -> usize {
        self.fragment_of(unit, fragment).1 as usize + TRAILER_BYTES
    }

    /// Bytes of the datagrams of all units that have never been sent.
    pub(super) fn unsent_bytes(&self, fragment: u32) -> u64 {
        let data = match self.state {
            State::Refusing => 0,
            _ => u64::from(self.size).saturating_sub(u64::from(self.next_unit) * u64::from(fragment)),
        };
        data + u64::from(self.units - self.next_unit) * TRAILER_BYTES as u64
    }
}

//= Z-5
fn units_of(size: u32, fragment: u32) -> u32 {
    size.div_ceil(fragment).max(1)
}

/// Requests for messages that have not been queued yet, up to 1024 ahead (Z-13). The first pair for a message counts.
#[derive(Debug)]
pub(super) struct EarlyRequests {
    /// The message, and the capacity.
    slots: Box<[Option<(u64, u32)>]>,
    count: usize,
}

impl EarlyRequests {
    pub(super) fn new() -> Self {
        Self { slots: vec![None; Config::REQUESTS_AHEAD as usize].into_boxed_slice(), count: 0 }
    }

    /// Remembers a request for message `number`, which lies less than 1024 ahead of the next send. One for a message that was
    /// as near before the sends in between were taken back is forgotten for it: it comes again.
    pub(super) fn insert(&mut self, number: u64, capacity: u32) {
        let slot = &mut self.slots[(number % Config::REQUESTS_AHEAD) as usize];
        if slot.is_none_or(|(other, _)| other != number) {
            self.count += usize::from(slot.is_none());
            *slot = Some((number, capacity));
        }
    }

    /// Takes the request for message `number`, the next send.
    pub(super) fn take(&mut self, number: u64) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let slot = &mut self.slots[(number % Config::REQUESTS_AHEAD) as usize];
        let (_, capacity) = slot.take_if(|(other, _)| *other == number)?;
        self.count -= 1;
        Some(capacity)
    }
}
