//! Data packets that came before the header of their frame.
//!
//! A sender may follow a header at once by the data of a short frame, and the network may turn them round. So a few are
//! kept for a moment (specs/vrp.md, section 1). Always true: per frame, in frames and in bytes they stay within
//! [`Limits`]; when its header comes each goes into its frame, or with it, and otherwise ends in one MISSING_HDR a frame.

use crate::Limits;
use pinnace_core::{Address, Time};
use std::collections::{BTreeMap, VecDeque};

type Key = (Address, u16);

/// A data packet that waits for its header.
#[derive(Debug)]
pub(super) struct EarlyPacket {
    pub(super) packet: u32,
    pub(super) data: Vec<u8>,
    /// Whether it came marked by a congested router.
    pub(super) marked: bool,
}

#[derive(Debug)]
struct Waiting {
    serial: u64,
    packets: Vec<EarlyPacket>,
    /// The local address the newest was sent to.
    local: Option<Address>,
    /// Whether one of them was long enough to be answered.
    answerable: bool,
}

/// What became of a packet whose frame is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Stored,
    /// It is dropped, but others of its frame wait, and MISSING_HDR with them.
    Dropped,
    /// Nothing of its frame is kept.
    Nothing,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Early {
    frames: BTreeMap<Key, Waiting>,
    /// In order of their time. Those that have gone are passed over.
    order: VecDeque<(Time, Key, u64)>,
    bytes: usize,
    next_serial: u64,
}

impl Early {
    /// Keeps a packet if it may be kept.
    pub(super) fn keep(
        &mut self,
        now: Time,
        limits: &Limits,
        key: Key,
        local: Option<Address>,
        packet: EarlyPacket,
        answerable: bool,
    ) -> Kept {
        let fits = self.bytes + packet.data.len() <= limits.early_bytes && limits.early_packets > 0;
        if let Some(waiting) = self.frames.get_mut(&key) {
            waiting.local = local;
            waiting.answerable |= answerable;
            let known = waiting.packets.iter().any(|kept| kept.packet == packet.packet);
            if fits && !known && waiting.packets.len() < limits.early_packets {
                self.bytes += packet.data.len();
                waiting.packets.push(packet);
                return Kept::Stored;
            }
            return Kept::Dropped;
        }
        if !fits || self.frames.len() >= limits.early_frames {
            return Kept::Nothing;
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        self.bytes += packet.data.len();
        self.order.push_back((now + limits.early_time, key, serial));
        self.frames.insert(key, Waiting { serial, packets: vec![packet], local, answerable });
        Kept::Stored
    }

    /// The packets of a frame whose header has come, in order of arrival.
    pub(super) fn take(&mut self, key: &Key) -> Vec<EarlyPacket> {
        let packets = self.frames.remove(key).map_or_else(Vec::new, |waiting| waiting.packets);
        self.bytes -= packets.iter().map(|packet| packet.data.len()).sum::<usize>();
        packets
    }

    /// A frame whose header has not come in time: its packets are dropped. The local address is there if they are to be
    /// answered.
    pub(super) fn poll_expired(&mut self, now: Time) -> Option<(Key, Option<Option<Address>>)> {
        while let Some(&(at, key, serial)) = self.order.front() {
            if at > now {
                return None;
            }
            self.order.pop_front();
            if let Some(waiting) = self.frames.get(&key)
                && waiting.serial == serial
            {
                let answer = waiting.answerable.then_some(waiting.local);
                self.take(&key);
                return Some((key, answer));
            }
        }
        None
    }

    /// When to look again.
    pub(super) fn next_at(&self) -> Option<Time> {
        self.order.front().map(|(at, ..)| *at)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
