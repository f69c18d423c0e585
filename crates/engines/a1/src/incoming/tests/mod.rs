//! Tests of the receiving half, without an engine.

mod joining;
mod lies;
mod numbers;
mod oracle;
mod planning;
mod raw;
mod reading;
mod timing;

use super::*;

pub(super) const BLOCK: u32 = 100;

pub(super) fn policy(reliable: bool) -> Policy {
    Policy { block_bytes: BLOCK, reliable, window: 32, max_message: 1000, makes_ahead: false, joins: false }
}

pub(super) fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// Block `index` of message `message`, which has `bytes` bytes and begins with block `base`.
pub(super) fn block(base: u64, message: u32, bytes: u32, index: u16) -> Arrival {
    let count = bytes.div_ceil(BLOCK).max(1) as u16;
    let is_last = index + 1 == count;
    Arrival {
        number: base + u64::from(index),
        message,
        index,
        count,
        len: if is_last { bytes - u32::from(index) * BLOCK } else { BLOCK },
        is_repetition: false,
        starts: index == 0,
        ends: is_last,
    }
}

/// Message `number` of one block.
pub(super) fn single(number: u64) -> Arrival {
    block(number, number as u32, BLOCK, 0)
}

/// A receiving half and buffers with numbers 0, 1, 2, ... whose sizes are noted.
pub(super) struct Half {
    pub(super) incoming: Incoming,
    pub(super) sizes: Vec<u64>,
    /// Whether there is storage.
    pub(super) has_storage: bool,
    pub(super) now: Time,
}

impl Half {
    pub(super) fn new(policy: Policy) -> Self {
        Self { incoming: Incoming::new(policy), sizes: Vec::new(), has_storage: true, now: Time::ZERO }
    }

    pub(super) fn take(&mut self, arrival: &Arrival) -> Took {
        let (sizes, has_storage) = (&mut self.sizes, self.has_storage);
        self.incoming.on_block(self.now, arrival, &mut |len| {
            sizes.push(len);
            has_storage.then(|| BufferId::new(sizes.len() as u32 - 1))
        })
    }

    pub(super) fn fate(&mut self, arrival: &Arrival) -> Fate {
        self.take(arrival).fate
    }

    /// Takes a block that must be new.
    pub(super) fn new_block(&mut self, arrival: &Arrival) -> Took {
        let took = self.take(arrival);
        assert_eq!(took.fate, Fate::New, "{arrival:?}");
        took
    }

    /// Takes blocks of a message in the order given.
    pub(super) fn blocks(&mut self, base: u64, message: u32, bytes: u32, indices: impl IntoIterator<Item = u16>) {
        for index in indices {
            self.new_block(&block(base, message, bytes, index));
        }
    }

    /// Offset and length of the next part, and its marks: S, E, L, W (whole).
    pub(super) fn part(&self) -> Option<(u64, u32, String)> {
        let part = self.incoming.readable()?;
        let marks = [(part.starts, 'S'), (part.ends, 'E'), (part.is_lost, 'L'), (part.is_whole, 'W')];
        let marks = marks.into_iter().filter_map(|(is_set, mark)| is_set.then_some(mark)).collect();
        Some((part.range.map_or(0, |range| range.offset), part.len(), marks))
    }

    /// Reads all there is, part by part.
    pub(super) fn read_all(&mut self) -> Vec<(u64, u32, String)> {
        let mut parts = Vec::new();
        while let Some(part) = self.part() {
            self.incoming.consume(part.1);
            parts.push(part);
        }
        parts
    }

    pub(super) fn ack(&mut self) -> (u64, u64, Vec<(u64, u64)>) {
        let (expected, edge, ranges) = self.incoming.take_ack();
        (expected, edge, ranges.collect())
    }

    pub(super) fn ack_due(&self) -> Due {
        self.incoming.ack_due(self.now, None)
    }

    pub(super) fn nack(&mut self, rtt: Option<Duration>, max: usize) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        self.incoming.take_nack(self.now, rtt, max, &mut ranges);
        ranges
    }

    pub(super) fn released(&mut self) -> Vec<u32> {
        core::iter::from_fn(|| self.incoming.poll_released()).map(BufferId::index).collect()
    }
}

pub(super) fn parts(parts: &[(u64, u32, &str)]) -> Vec<(u64, u32, String)> {
    parts.iter().map(|&(offset, len, marks)| (offset, len, marks.to_owned())).collect()
}
