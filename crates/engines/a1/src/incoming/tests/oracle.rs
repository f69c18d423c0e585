//! Random blocks, some of them lies, against an oracle that remembers every block it took, and real memory behind the places.
//!
//! The direction has a true cut into messages; in raw mode some were cut short by the sender. What the plan covers is
//! overwritten with rubbish after every step, so a slot over bytes that have arrived shows.

use super::*;
use pinnace_core::{Random, ReceivePlan, Slot};
use proptest::prelude::*;
use std::collections::BTreeMap;

const BYTES: u32 = 8;

#[derive(Clone, Debug)]
enum Step {
    /// A block so many numbers from the next to be consumed, the next expected, or the newest.
    Block {
        from: u8,
        ahead: i64,
        lie: u8,
        is_repetition: bool,
    },
    Sync {
        ahead: i64,
    },
    Consume {
        share: u32,
    },
    Take,
    Nack {
        rtt: Option<u64>,
        max: usize,
    },
    Ack,
    Wait {
        millis: u64,
    },
    Storage {
        is_there: bool,
    },
    Window {
        window: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let block = (0..3u8, -4..9i64, 0..60u8, prop::bool::weighted(0.1));
    prop_oneof![
        20 => block.prop_map(|(from, ahead, lie, is_repetition)| Step::Block { from, ahead, lie, is_repetition }),
        8 => Just(Step::Block { from: 1, ahead: 0, lie: 99, is_repetition: false }),
        1 => (-3..8i64).prop_map(|ahead| Step::Sync { ahead }),
        5 => (1..=4u32).prop_map(|share| Step::Consume { share }),
        4 => Just(Step::Take),
        3 => (prop::option::of(0..4u64), 1..6usize).prop_map(|(rtt, max)| Step::Nack { rtt, max }),
        2 => Just(Step::Ack),
        3 => (0..6u64).prop_map(|millis| Step::Wait { millis }),
        1 => prop::bool::weighted(0.7).prop_map(|is_there| Step::Storage { is_there }),
        1 => (6..16u64).prop_map(|window| Step::Window { window }),
    ]
}

/// Byte `at` of block `number`.
fn value(number: u64, at: u64) -> u8 {
    ((number * 1021 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The true blocks: of messages of these lengths, each with so many of its blocks as have numbers.
fn truth(messages: &[(u32, u32)], blocks: usize) -> Vec<Arrival> {
    let mut truth: Vec<Arrival> = Vec::new();
    for (message, &(bytes, cut)) in messages.iter().cycle().enumerate() {
        let count = bytes.div_ceil(BYTES).max(1);
        for index in 0..count.min(cut) {
            let ends = index + 1 == count;
            truth.push(Arrival {
                number: truth.len() as u64,
                message: message as u32,
                index: index as u16,
                count: count as u16,
                len: if ends { bytes - index * BYTES } else { BYTES },
                is_repetition: false,
                starts: index == 0,
                ends,
            });
        }
        if truth.len() >= blocks {
            break;
        }
    }
    truth
}

fn base(arrival: &Arrival) -> i64 {
    arrival.number as i64 - i64::from(arrival.index)
}

fn end(arrival: &Arrival) -> i64 {
    base(arrival) + i64::from(arrival.count)
}

/// Every block that was taken, and what the application has had.
#[derive(Debug)]
struct Oracle {
    policy: Policy,
    have: BTreeMap<u64, Arrival>,
    next: u64,
    within: u32,
    /// Raw: one past the highest that came or is lost.
    passed: u64,
    seen: u64,
    told: u64,
    /// The block that was consumed last.
    last: Option<Arrival>,
    asked: BTreeMap<u64, Time>,
    /// How often something was asked for again since anything was heard, and when that was last.
    silent_rounds: u32,
    round_at: Time,
}

impl Oracle {
    fn edge(&self) -> u64 {
        self.told.max(self.next + self.policy.window)
    }

    fn expected(&self) -> u64 {
        if self.policy.reliable { (0..).find(|number| !self.have.contains_key(number)).unwrap() } else { self.passed }
    }

    fn is_possible(&self, arrival: &Arrival) -> bool {
        let last = arrival.index + 1 == arrival.count;
        let length =
            if last { arrival.len <= BYTES && (arrival.len > 0 || arrival.count == 1) } else { arrival.len == BYTES };
        let least = u32::from(arrival.count.max(1) - 1) * BYTES + if last { arrival.len } else { 1 };
        arrival.index < arrival.count
            && length
            && arrival.starts == (arrival.index == 0)
            && arrival.ends == last
            && u64::from(least) <= self.policy.max_message
    }

    /// Whether two blocks can both be true.
    fn agree(&self, one: &Arrival, other: &Arrival) -> bool {
        let (low, high) = if one.message <= other.message { (one, other) } else { (other, one) };
        if low.message == high.message {
            return (base(low), low.count) == (base(high), high.count);
        }
        if !self.policy.reliable {
            return low.number < high.number && base(high) > low.number as i64;
        }
        let (between, blocks) = (i64::from(high.message - low.message) - 1, base(high) - end(low));
        between <= blocks && (between > 0 || blocks == 0)
    }

    /// What becomes of a block, but for lack of room.
    fn fate(&self, arrival: &Arrival) -> Fate {
        // Reliable: each message before it has at least one block, and message 0 has none before it.
        let before = base(arrival) - if self.policy.reliable { i64::from(arrival.message) } else { 0 };
        let begins = before >= 0 && (before == 0 || arrival.message > 0 || !self.policy.reliable);
        if !self.is_possible(arrival) {
            return Fate::Contradiction;
        }
        if arrival.number >= self.edge() {
            return Fate::Beyond;
        }
        if let Some(known) = self.have.get(&arrival.number).filter(|_| self.policy.reliable) {
            let agrees = (known.message, base(known), known.count) == (arrival.message, base(arrival), arrival.count);
            return if arrival.number < self.next || agrees { Fate::Duplicate } else { Fate::Contradiction };
        }
        if arrival.number < self.expected() {
            return Fate::Duplicate;
        }
        let agrees = self.have.values().all(|known| self.agree(known, arrival));
        if begins && agrees { Fate::New } else { Fate::Contradiction }
    }

    /// What can be read: blocks, bytes, START, END, LOST.
    fn part(&self) -> Option<(Vec<Arrival>, u32, bool, bool, bool)> {
        let first = self.have.get(&self.next).filter(|_| self.next < self.expected())?;
        let mut blocks = vec![*first];
        for number in self.next + 1..self.expected() {
            match self.have.get(&number) {
                Some(block) if block.message == first.message => blocks.push(*block),
                _ => break,
            }
        }
        let bytes = blocks.iter().map(|block| block.len).sum::<u32>() - self.within;
        let follows = match &self.last {
            _ if self.within > 0 => true,
            None => first.number == 0 && first.message == 0,
            Some(last) => {
                let is_next = last.ends && first.message == last.message + 1;
                first.number == last.number + 1 && (first.message == last.message || is_next)
            }
        };
        let ends = blocks.last().unwrap().ends;
        Some((blocks, bytes, first.starts && self.within == 0, ends, !follows))
    }

    /// Whether the part is all of a message that is over, of which nothing was consumed.
    fn is_whole(&self, blocks: &[Arrival]) -> bool {
        let (first, last) = (blocks.first().unwrap(), blocks.last().unwrap());
        let is_begun = self.within > 0 || self.last.is_some_and(|last| last.message == first.message);
        let next_base = self.have.values().find(|block| block.message > first.message).map(base);
        let end = if self.policy.reliable { end(first) } else { end(first).min(next_base.unwrap_or(i64::MAX)) };
        let is_over = self.expected() as i64 >= end;
        let has_more = self.have.range(last.number + 1..).any(|(_, block)| block.message == first.message);
        !is_begun && is_over && !has_more
    }

    fn consume(&mut self, mut bytes: u32, blocks: &[Arrival]) {
        for block in blocks {
            let rest = block.len - self.within;
            if bytes < rest {
                self.within += bytes;
                break;
            }
            bytes -= rest;
            (self.next, self.within, self.last) = (block.number + 1, 0, Some(*block));
        }
        self.skip();
    }

    fn skip(&mut self) {
        while !self.policy.reliable && self.next < self.passed && !self.have.contains_key(&self.next) {
            self.next += 1;
        }
    }

    /// A round trip, thrice; then twice as long each time that nothing was heard since, up to half a second.
    fn nack_wait(&self, now: Time, rtt: Option<Duration>) -> Duration {
        let trip = rtt.unwrap_or(Duration::from_millis(20)).max(Duration::from_micros(10));
        let rounds = if now == self.round_at { self.silent_rounds.saturating_sub(1) } else { self.silent_rounds };
        let longer = (3..rounds).fold(trip, |wait, _| wait.saturating_mul(2));
        longer.min(trip.max(Duration::from_millis(500)))
    }

    fn missing(&self) -> Vec<u64> {
        (self.expected()..self.seen).filter(|number| !self.have.contains_key(number)).collect()
    }
}

struct World {
    incoming: Incoming,
    oracle: Oracle,
    truth: Vec<Arrival>,
    /// Buffers that are lent, and the rest of their lives.
    memory: BTreeMap<u32, Vec<u8>>,
    buffers: u32,
    has_storage: bool,
    now: Time,
    received: u64,
}

impl World {
    fn new(policy: Policy, truth: Vec<Arrival>) -> Self {
        let oracle = Oracle {
            policy,
            have: BTreeMap::new(),
            next: 0,
            within: 0,
            passed: 0,
            seen: 0,
            told: policy.window,
            last: None,
            asked: BTreeMap::new(),
            silent_rounds: 0,
            round_at: Time::ZERO,
        };
        let incoming = Incoming::new(policy);
        let (memory, has_storage) = (BTreeMap::new(), true);
        Self { incoming, oracle, truth, memory, buffers: 0, has_storage, now: Time::ZERO, received: 0 }
    }

    fn arrival(&self, from: u8, ahead: i64, lie: u8) -> Arrival {
        let anchor = [self.oracle.next, self.oracle.expected(), self.oracle.seen][usize::from(from)];
        let number = anchor.saturating_add_signed(ahead).min(self.truth.len() as u64 - 1);
        let mut arrival = self.truth[number as usize];
        match lie {
            0 => arrival.count += 1,
            1 => arrival.index += 1,
            2 => arrival.message += 1,
            3 => arrival.message = arrival.message.saturating_sub(1),
            4 => arrival.number += 1,
            5 => (arrival.index, arrival.message, arrival.count) = (0, arrival.message + 1, 5),
            6 => arrival.number += 1000,
            _ => {}
        }
        if lie < 7 {
            (arrival.starts, arrival.ends) = (arrival.index == 0, arrival.index + 1 == arrival.count);
            arrival.len = if arrival.ends { arrival.len } else { BYTES };
        }
        match lie {
            7 => arrival.starts = !arrival.starts,
            8 => arrival.len += 1,
            _ => {}
        }
        arrival
    }

    fn block(&mut self, arrival: &Arrival) -> Took {
        self.collect();
        let held = self.memory.values().map(|buffer| buffer.len() as u64).sum::<u64>() - self.read_of_front();
        let (mut asked, mut made) = (0, None);
        let (buffers, has_storage) = (self.buffers, self.has_storage);
        let took = self.incoming.on_block(self.now, arrival, &mut |len| {
            assert_eq!((made, asked), (None, 0), "asked once");
            asked = len;
            made = has_storage.then(|| BufferId::new(buffers));
            made
        });
        let policy = self.oracle.policy;
        let most = (self.oracle.edge() - self.oracle.next) * u64::from(BYTES) + policy.max_message;
        let fate = self.oracle.fate(arrival);
        if took.fate == Fate::NoRoom {
            assert!(fate == Fate::New && took.place.is_none());
            // Either there was none, or raw messages that were cut short take too much.
            assert!(!has_storage || (!policy.reliable && held + 1 + policy.max_message > most), "{arrival:?}");
        } else {
            assert_eq!(took.fate, fate, "{arrival:?} {:?}", self.oracle);
        }
        if let Some(buffer) = made {
            assert!(took.fate == Fate::New && asked <= policy.max_message && held + asked <= most);
            self.memory.insert(buffer.index(), vec![0; asked as usize]);
            self.buffers += 1;
        }
        if took.fate != Fate::New {
            assert_eq!(took, Took::only(took.fate));
            return took;
        }
        self.received += 1;
        let (expected, seen) = (self.oracle.expected(), self.oracle.seen);
        self.oracle.have.insert(arrival.number, *arrival);
        assert_eq!(took.place.is_some(), arrival.len > 0);
        if let Some(place) = took.place {
            assert_eq!((place.len, place.offset), (arrival.len, u64::from(arrival.index) * u64::from(BYTES)));
            let buffer = self.memory.get_mut(&place.buffer.index()).expect("lent");
            for (at, byte) in buffer[place.offset as usize..place.end() as usize].iter_mut().enumerate() {
                *byte = value(arrival.number, at as u64);
            }
        }
        self.oracle.silent_rounds = 0;
        if policy.reliable {
            assert_eq!((took.is_readable, took.is_gap), (arrival.number == expected, arrival.number > seen));
        } else {
            assert_eq!((took.lost, took.is_readable), (arrival.number - expected, true));
            self.oracle.passed = arrival.number + 1;
            self.oracle.skip();
        }
        self.oracle.seen = self.oracle.seen.max(arrival.number + 1);
        took
    }

    /// Bytes that were read of the message that is read now.
    fn read_of_front(&self) -> u64 {
        let Some((_, block)) = self.oracle.have.range(self.oracle.next..).next() else { return self.idle_front() };
        if block.number >= self.oracle.expected() && self.oracle.policy.reliable {
            return self.idle_front();
        }
        let blocks = (self.oracle.next as i64 - base(block)).max(0) as u64;
        self.bounded(block, blocks * u64::from(BYTES) + u64::from(self.oracle.within))
    }

    /// The same if nothing can be read: the last message may go on.
    fn idle_front(&self) -> u64 {
        match &self.oracle.last {
            Some(last) if end(last) > self.oracle.next as i64 => {
                self.bounded(last, (self.oracle.next as i64 - base(last)) as u64 * u64::from(BYTES))
            }
            _ => 0,
        }
    }

    fn bounded(&self, block: &Arrival, bytes: u64) -> u64 {
        bytes.min((u64::from(block.count) * u64::from(BYTES)).min(self.oracle.policy.max_message))
    }

    fn sync(&mut self, sent: u64) {
        let synced = self.incoming.on_sync(sent);
        let (expected, seen) = (self.oracle.expected(), self.oracle.seen);
        if !self.oracle.policy.reliable {
            assert_eq!(synced, Synced::Missing(sent.saturating_sub(expected)));
            self.oracle.passed = expected.max(sent);
            self.oracle.seen = self.oracle.passed;
            self.oracle.skip();
        } else if sent > self.oracle.edge() {
            assert_eq!(synced, Synced::Contradiction);
        } else {
            assert_eq!(synced, Synced::Missing(sent.saturating_sub(seen)));
            self.oracle.seen = seen.max(sent);
            self.oracle.silent_rounds = 0;
        }
    }

    /// Checks that the bytes of a part are those of its blocks.
    fn check_bytes(&self, blocks: &[Arrival], part: &Part) {
        let bytes = blocks.iter().flat_map(|block| (0..u64::from(block.len)).map(|at| value(block.number, at)));
        let bytes: Vec<u8> = bytes.skip(self.oracle.within as usize).collect();
        let Some(range) = part.range else { return assert!(bytes.is_empty()) };
        let buffer = &self.memory[&range.buffer.index()];
        assert_eq!(buffer[range.offset as usize..range.end() as usize], bytes);
    }

    fn consume(&mut self, share: u32) {
        let Some(part) = self.incoming.readable() else { return };
        let (blocks, ..) = self.oracle.part().unwrap();
        self.check_bytes(&blocks, &part);
        let bytes = (part.len() * share).div_ceil(4);
        self.incoming.consume(bytes);
        self.oracle.consume(bytes, &blocks);
        self.collect();
    }

    fn take(&mut self) {
        let before = self.incoming.readable();
        let Some(part) = self.incoming.take_message() else {
            return assert!(before.is_none_or(|part| !part.is_whole));
        };
        assert_eq!(Some(part), before);
        let (blocks, bytes, ..) = self.oracle.part().unwrap();
        self.check_bytes(&blocks, &part);
        self.oracle.consume(bytes, &blocks);
        if let Some(range) = part.range {
            self.memory.remove(&range.buffer.index());
        }
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(buffer) = self.incoming.poll_released() {
            assert!(self.memory.remove(&buffer.index()).is_some(), "given back once");
        }
    }

    fn nack(&mut self, rtt: Option<u64>, max: usize) {
        let rtt = rtt.map(Duration::from_millis);
        let due = self.incoming.nack_due(self.now, rtt);
        let mut ranges = Vec::new();
        let is_again = self.incoming.take_nack(self.now, rtt, max, &mut ranges);
        let named: Vec<u64> = ranges.iter().flat_map(|&(low, high)| low..high).collect();
        assert!(ranges.len() <= max && named.is_sorted_by(|a, b| a < b));
        assert_eq!(is_again, named.iter().all(|number| self.oracle.asked.contains_key(number)));
        let wait = self.oracle.nack_wait(self.now, rtt);
        let is_due = |number: &u64| self.oracle.asked.get(number).is_none_or(|at| *at + wait <= self.now);
        let all: Vec<u64> = self.oracle.missing().into_iter().filter(is_due).collect();
        if ranges.len() < max {
            assert_eq!(named, all);
        }
        assert!(named.iter().all(|number| all.contains(number)) && (all.is_empty() || due == Due::Now));
        let is_round = named.iter().any(|number| self.oracle.asked.contains_key(number));
        if is_round && self.now >= self.oracle.round_at + wait {
            (self.oracle.silent_rounds, self.oracle.round_at) = (self.oracle.silent_rounds + 1, self.now);
        }
        self.oracle.asked.extend(named.iter().map(|number| (*number, self.now)));
    }

    fn ack(&mut self) {
        self.oracle.told = self.oracle.edge();
        let oracle = &self.oracle;
        let (expected, edge, ranges) = self.incoming.take_ack();
        let named: Vec<u64> = ranges.flat_map(|(low, high)| low..high).collect();
        assert_eq!((expected, edge), (oracle.expected(), oracle.edge()));
        assert_eq!(named, oracle.have.range(expected..).map(|(number, _)| *number).collect::<Vec<_>>());
        assert_eq!(self.incoming.ack_due(self.now, None), Due::No);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Block { from, ahead, lie, is_repetition } => {
                let arrival = Arrival { is_repetition, ..self.arrival(from, ahead, lie) };
                self.block(&arrival);
            }
            Step::Sync { ahead } => self.sync(self.oracle.seen.saturating_add_signed(ahead)),
            Step::Consume { share } => self.consume(share),
            Step::Take => self.take(),
            Step::Nack { rtt, max } => self.nack(rtt, max),
            Step::Ack => self.ack(),
            Step::Wait { millis } => self.now += Duration::from_millis(millis),
            Step::Storage { is_there } => self.has_storage = is_there,
            Step::Window { window } => {
                // A window counts from when it was told.
                self.ack();
                self.incoming.set_limits(window, 0);
                self.oracle.policy.window = window;
            }
        }
        self.check();
        self.scribble();
    }

    fn check(&mut self) {
        self.collect();
        let part = self.incoming.readable();
        assert_eq!((self.incoming.next_expected(), self.incoming.edge()), (self.oracle.expected(), self.oracle.edge()));
        let Some((blocks, bytes, starts, ends, is_lost)) = self.oracle.part() else {
            return assert_eq!(part, None);
        };
        let part = part.expect("there is something to read");
        let is_whole = self.oracle.is_whole(&blocks);
        assert_eq!((part.len(), part.starts, part.ends, part.is_lost), (bytes, starts, ends, is_lost));
        assert_eq!(part.is_whole, is_whole, "{:?}", self.oracle);
        self.check_bytes(&blocks, &part);
    }

    /// A read that brings something else than was expected.
    fn scribble(&mut self) {
        let mut plan = ReceivePlan::new();
        plan.reset(7);
        self.incoming.expect(&mut plan, 3);
        for slot in plan.slots() {
            if let Slot::Payload(range) = slot {
                let buffer = self.memory.get_mut(&range.buffer.index()).expect("lent");
                buffer[range.offset as usize..range.end() as usize].fill(0xee);
            }
        }
        self.check();
    }

    fn finish(mut self) {
        self.incoming.close();
        self.collect();
        assert!(self.memory.is_empty(), "all storage was given back");
    }
}

fn messages() -> impl Strategy<Value = Vec<(u32, u32)>> {
    let bytes = prop_oneof![3 => 1..=BYTES, 2 => 0..=50u32, 1 => Just(2 * BYTES), 1 => Just(0)];
    prop::collection::vec((bytes, prop_oneof![5 => Just(u32::MAX), 1 => 0..3u32]), 1..7)
}

fn small(reliable: bool) -> Policy {
    Policy { block_bytes: BYTES, reliable, window: 12, max_message: 50, makes_ahead: false, joins: false }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..<_>::default() })]

    //= A-7 test
    //= A-9 test
    //= A-17 test
    //= A-20 test
    #[test]
    fn reliable_blocks_agree_with_the_oracle(
        messages in messages(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let messages: Vec<_> = messages.into_iter().map(|(bytes, _)| (bytes, u32::MAX)).collect();
        let mut world = World::new(small(true), truth(&messages, 1200));
        steps.iter().for_each(|step| world.step(step));
        world.finish();
    }

    //= A-17 test
    //= A-21 test
    #[test]
    fn raw_blocks_agree_with_the_oracle(
        messages in messages(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        prop_assume!(messages.iter().any(|(_, cut)| *cut > 0));
        let mut world = World::new(small(false), truth(&messages, 1200));
        steps.iter().for_each(|step| world.step(step));
        world.finish();
    }

    //= A-7 test
    //= A-21 test
    #[test]
    fn a_direction_over_a_bad_network_comes_to_its_end(
        lengths in prop::collection::vec(0..=50u32, 1..7),
        seed: u64,
        reliable: bool,
    ) {
        let messages: Vec<_> = lengths.into_iter().map(|bytes| (bytes, u32::MAX)).collect();
        let truth = truth(&messages, 150);
        let blocks = truth.len() as u64;
        let mut world = World::new(small(reliable), truth);
        let mut random = Random::from_seed(seed);
        let (mut sent, mut network, mut rounds): (u64, Vec<u64>, u32) = (0, Vec::new(), 0);
        while world.oracle.next < blocks {
            rounds += 1;
            prop_assert!(rounds < 4000, "it goes on");
            while sent < blocks.min(world.incoming.edge()) {
                network.push(sent);
                sent += 1;
            }
            world.nack(Some(2), 3);
            network.extend(world.oracle.asked.iter().filter(|(_, at)| **at == world.now).map(|(number, _)| *number));
            // Some are lost, some come twice, and many out of order.
            for _ in 0..random.below(6).min(network.len() as u64) {
                let number = network.swap_remove(random.below(network.len() as u64) as usize);
                if random.chance(0.2) {
                    continue;
                }
                if random.chance(0.2) {
                    network.push(number);
                }
                let arrival = world.truth[number as usize];
                world.block(&arrival);
            }
            if random.chance(0.5) {
                world.consume(1 + random.below(4) as u32);
            }
            if random.chance(0.5) {
                world.take();
            }
            if random.chance(0.05) || network.is_empty() {
                world.sync(sent);
            }
            world.now += Duration::from_millis(1);
            world.check();
            world.scribble();
        }
        prop_assert!(!reliable || world.received == blocks, "each exactly once");
        world.finish();
    }
}
