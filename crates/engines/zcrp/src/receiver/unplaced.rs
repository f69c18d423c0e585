//! Last units that came before anything told how long units are (specs/zcrp.md, section 1).
//!
//! A sender may send the last unit of a message first, and nothing else before that is acknowledged. So they are kept in
//! bounce memory, and go to their places once `F` is known. Always true: no more bytes than the largest datagram carries;
//! their messages have begun, and nothing else of these has come.

use pinnace_wire::zcrp::MAX_UNIT_BYTES;

/// A last unit, and its message.
#[derive(Debug)]
pub(super) struct Unplaced {
    pub(super) message: u64,
    pub(super) unit: u32,
    pub(super) data: Vec<u8>,
    /// Bytes of its datagram but the trailer: units are no shorter.
    pub(super) room: usize,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct UnplacedUnits {
    units: Vec<Unplaced>,
    bytes: usize,
}

impl UnplacedUnits {
    pub(super) fn has_room(&self, bytes: u32) -> bool {
        self.bytes + bytes as usize <= MAX_UNIT_BYTES
    }

    pub(super) fn keep(&mut self, unit: Unplaced) {
        self.bytes += unit.data.len();
        self.units.push(unit);
    }

    /// Whether all of them can be of a sender whose units carry `fragment` bytes: `capacity` says how long a message may be.
    pub(super) fn agree_with(&self, fragment: u32, capacity: impl Fn(u64) -> Option<u32>) -> bool {
        self.units.iter().all(|Unplaced { message, unit, data, room }| {
            let end = u64::from(*unit) * u64::from(fragment) + data.len() as u64;
            *room <= fragment as usize && capacity(*message).is_none_or(|capacity| end <= u64::from(capacity))
        })
    }

    pub(super) fn take(&mut self) -> Vec<Unplaced> {
        core::mem::take(self).units
    }
}
