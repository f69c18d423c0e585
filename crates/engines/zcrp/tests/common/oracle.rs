//! What always holds of an endpoint of ZCRP, from what was given to it and what it sends.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use super::{is_flow, is_idle, parse_ack, parse_request, parse_unit};
use pinnace_core::{Address, Allowance, BufferId};
use pinnace_testing::hand::{Returned, Sent, Subject, Traffic};
use pinnace_wire::zcrp::Unit;
use pinnace_zcrp::{Event, Zcrp};
use std::collections::{BTreeMap, BTreeSet};

/// A message that was queued and has not ended.
#[derive(Debug)]
struct Queued {
    buffer: BufferId,
    data: Vec<u8>,
    is_refused: Option<bool>,
}

/// The data of a unit, and whether it was the last, as often as it came with others.
type Copies = BTreeSet<(Vec<u8>, bool)>;

/// What tests of ZCRP know of it: they keep all buffers, to look at them.
#[derive(Debug, Default)]
pub struct Endpoint {
    /// The peer has shown nothing, and gets three times the bytes that came, and one unit in transit.
    pub is_limited: bool,
    has_hinted: bool,
    came: u64,
    went: u64,
    /// Of the largest unit that it could send.
    unit_bytes: u64,
    /// The first sequence number, and how many were sent.
    sequences: Option<(u32, u32)>,
    announced: Option<(u32, u32)>,
    queued: BTreeMap<u32, Queued>,
    /// What was requested of it: message, and capacities.
    asked: BTreeMap<u32, BTreeSet<u32>>,
    posted: BTreeMap<u32, u32>,
    /// What came: message and unit, then data and whether it was the last.
    units: BTreeMap<(u32, u32), Copies>,
    came_sequences: BTreeSet<u32>,
    /// Bytes that its peer's units carry, as far as its messages tell.
    fragments: Option<BTreeSet<usize>>,
}

impl Endpoint {
    /// A message was queued.
    pub fn on_queued(&mut self, number: u64, buffer: BufferId, data: &[u8]) {
        self.queued.insert(number as u32, Queued { buffer, data: data.to_vec(), is_refused: None });
    }

    /// A buffer was posted.
    pub fn on_posted(&mut self, number: u64, capacity: usize) {
        self.posted.insert(number as u32, capacity as u32);
    }

    /// A message has arrived: each part of it came so, and all units were of one length (Z-20).
    pub fn check_arrival(&mut self, number: u64, bytes: &[u8]) {
        let came = |unit: usize, data: &[u8], is_last: bool| {
            let copies = self.units.get(&(number as u32, unit as u32));
            copies.is_some_and(|copies| copies.contains(&(data.to_vec(), is_last)))
        };
        if came(0, bytes, true) {
            return;
        }
        let is_whole = |fragment: usize| {
            let count = bytes.len().div_ceil(fragment);
            bytes.chunks(fragment).enumerate().all(|(unit, data)| came(unit, data, unit + 1 == count))
        };
        let firsts = self.units.get(&(number as u32, 0)).into_iter().flatten().filter(|(_, is_last)| !is_last);
        let lengths = firsts.map(|(data, _)| data.len());
        let known = |length: &usize| self.fragments.as_ref().is_none_or(|known| known.contains(length));
        let fragments: BTreeSet<usize> = lengths.filter(known).filter(|length| is_whole(*length)).collect();
        assert!(!fragments.is_empty(), "message {number} of {} bytes is not what came", bytes.len());
        self.fragments = Some(fragments);
    }

    /// A unit that leaves is a part of a message that is under way, and was requested; its number is the next one, and it is
    /// what was announced.
    //= Z-3, Z-6, Z-7, Z-16 test
    fn check_unit(&mut self, fragment: usize, unit: &Unit, data: &[u8]) {
        let (first, count) = self.sequences.get_or_insert((unit.sequence, 0));
        assert_eq!(unit.sequence, first.wrapping_add(*count), "{unit:?}");
        *count += 1;
        let announced = core::mem::replace(&mut self.announced, unit.next);
        assert!(announced.is_none_or(|of| of == (unit.message, unit.unit)), "{unit:?}, announced was {announced:?}");
        let message = self.queued.get_mut(&unit.message).unwrap_or_else(|| panic!("{unit:?} is of no message"));
        let size = message.data.len();
        let asked = self.asked.get(&unit.message).unwrap_or_else(|| panic!("nobody asked for {unit:?}"));
        let is_asked = asked.iter().any(|capacity| (*capacity as usize >= size) != unit.refused);
        assert!(is_asked, "{unit:?} of {size} bytes, for {asked:?}");
        assert_eq!(*message.is_refused.get_or_insert(unit.refused), unit.refused, "{unit:?}");
        if unit.refused {
            return;
        }
        let low = unit.unit as usize * fragment;
        let high = size.min(low + fragment);
        assert!(low < size || unit.unit == 0, "{unit:?} of {size} bytes");
        assert!(data == &message.data[low..high], "{unit:?} is not what lies at {low}");
        assert_eq!(unit.is_last, high == size, "{unit:?} of {size} bytes");
    }

    /// Nobody gets much for whom others ask (`limit_amplification`).
    fn check_amount(&self, engine: &Zcrp) {
        let counters = engine.sender().map(pinnace_zcrp::Sender::counters);
        let alone = counters.map_or(0, |counters| (1 + counters.timeouts) * self.unit_bytes);
        // Whose silence counts is asked in any case.
        let asking = counters.filter(|_| self.has_hinted).map_or(0, |counters| counters.idles_sent);
        let most = Allowance::TIMES * self.came + alone + asking * Allowance::cost(1, 28);
        assert!(self.went <= most, "{} bytes answer {}, {alone} alone", self.went, self.came);
    }

    /// Whether a block says that something has arrived, and names nothing but what was sent.
    fn is_proof(&self, block: &[(u32, u32, bool)]) -> bool {
        let Some((first, count)) = self.sequences else { return false };
        let is_sent = |number: u32| number.wrapping_sub(first) <= count;
        block.iter().all(|(low, high, _)| is_sent(*low) && is_sent(*high))
            && block.iter().any(|(low, high, positive)| *positive && low != high)
    }
}

impl Subject for Endpoint {
    type Engine = Zcrp;

    fn returned(_: &Event) -> Returned {
        Returned::Nothing
    }

    fn on_sent(&mut self, engine: &Zcrp, Sent { to, bytes, .. }: &Sent, _: Traffic) {
        assert_eq!(*to, Address::Peer);
        self.went += Allowance::cost(1, bytes.len());
        if let Some((unit, data)) = parse_unit(bytes) {
            let unit_bytes = engine.sender().and_then(pinnace_zcrp::Sender::unit_bytes).expect("it has sent a unit");
            self.unit_bytes = self.unit_bytes.max(Allowance::cost(1, unit_bytes));
            self.check_unit(unit_bytes - 28, &unit, &data);
        } else if let Some(block) = parse_ack(bytes) {
            for (low, high, _) in block.into_iter().filter(|(.., positive)| *positive) {
                let mut numbers = (0..high.wrapping_sub(low)).map(|step| low.wrapping_add(step));
                assert!(numbers.all(|number| self.came_sequences.contains(&number)), "{low}..{high} have not come");
            }
        } else if let Some(pairs) = parse_request(bytes) {
            for (number, capacity) in pairs {
                assert_eq!(self.posted.get(&number), Some(&capacity), "a request for message {number}");
            }
        } else {
            assert!(is_idle(bytes) || is_flow(bytes), "{bytes:?}");
        }
        if self.is_limited {
            self.check_amount(engine);
        }
    }

    fn on_read(&mut self, _: Address, datagram: &[u8]) {
        self.came += Allowance::cost(1, datagram.len());
        self.announced = None;
        if let Some((unit, data)) = parse_unit(datagram) {
            self.came_sequences.insert(unit.sequence);
            if !unit.refused {
                self.units.entry((unit.message, unit.unit)).or_default().insert((data, unit.is_last));
            }
        } else if let Some(block) = parse_ack(datagram) {
            self.is_limited &= !self.is_proof(&block);
        } else if let Some(pairs) = parse_request(datagram) {
            pairs.into_iter().for_each(|(number, capacity)| {
                self.asked.entry(number).or_default().insert(capacity);
            });
        }
        self.has_hinted |= is_flow(datagram);
    }

    fn on_event(&mut self, event: &Event) {
        self.announced = None;
        match event {
            Event::Sent { number, buffer, .. } => {
                let message = self.queued.remove(&(*number as u32));
                assert!(message.is_none_or(|message| message.buffer == *buffer), "message {number} had another buffer");
            }
            Event::Received { .. } | Event::SenderClosed(_) | Event::ReceiverClosed(_) => {}
        }
    }
}
