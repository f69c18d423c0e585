//! Whole transfers to an honest receiver over a network that loses, duplicates and reorders both ways.

use super::*;
use pinnace_core::Random;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Packet {
    Data(Block),
    Sync(u64),
    /// ACK, or NACK, if there is something missing.
    Answer {
        next_expected: u64,
        received: Vec<(u64, u64)>,
        missing: Vec<(u64, u64)>,
        edge: u64,
    },
}

/// Both directions of a path.
#[derive(Debug)]
struct Network {
    random: Random,
    under_way: BTreeMap<(Time, u64), Packet>,
    count: u64,
    loss: f64,
    jitter: u64,
}

impl Network {
    fn send(&mut self, now: Time, packet: &Packet) {
        let copies = if self.random.chance(0.05) { 2 } else { 1 };
        for _ in 0..copies {
            if !self.random.chance(self.loss) {
                self.count += 1;
                let delay = MS * 5 + Duration::from_micros(self.random.below(self.jitter + 1));
                self.under_way.insert((now + delay, self.count), packet.clone());
            }
        }
    }
}

/// A receiver as the specification wants it, for one direction.
#[derive(Debug, Default)]
struct Receiver {
    reliable: bool,
    window: u64,
    next_expected: u64,
    consumed: u64,
    received: BTreeSet<u64>,
    /// What arrived, by number.
    blocks: BTreeMap<u64, Block>,
    asked_at: BTreeMap<u64, Time>,
}

impl Receiver {
    fn on_block(&mut self, block: &Block) {
        assert!(block.number < self.consumed + self.window, "beyond the edge");
        if block.number < self.next_expected {
            assert!(self.reliable || self.blocks.get(&block.number).is_none_or(|old| old == block));
            return;
        }
        let place = |block: &Block| (block.message, block.index, block.count, block.place);
        let old = self.blocks.entry(block.number).or_insert(*block);
        assert_eq!(place(old), place(block), "a repetition is the same block");
        self.received.insert(block.number);
        if !self.reliable {
            self.next_expected = block.number + 1;
        }
        self.advance();
    }

    fn advance(&mut self) {
        while self.received.remove(&self.next_expected) {
            self.next_expected += 1;
        }
    }

    /// What is missing below `sent`, unless it was asked for less than an RTT ago.
    fn missing(&mut self, now: Time, sent: u64) -> Vec<(u64, u64)> {
        if !self.reliable {
            self.next_expected = self.next_expected.max(sent);
            return Vec::new();
        }
        let mut missing = Vec::new();
        for number in self.next_expected..sent {
            let is_due = self.asked_at.get(&number).is_none_or(|at| now.since(*at) >= MS * 20);
            if !self.received.contains(&number) && is_due {
                self.asked_at.insert(number, now);
                missing.push((number, number + 1));
            }
        }
        missing
    }

    fn answer(&self, missing: Vec<(u64, u64)>) -> Packet {
        let received = self.received.iter().map(|&number| (number, number + 1)).filter(|_| self.reliable).collect();
        let edge = self.consumed + self.window;
        Packet::Answer { next_expected: self.next_expected, received, missing, edge }
    }
}

#[derive(Clone, Debug)]
struct Scenario {
    seed: u64,
    reliable: bool,
    lengths: Vec<u64>,
    loss: f64,
    jitter: u64,
    window: u64,
    average: u64,
    congestion: ControllerKind,
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let kinds = vec![ControllerKind::Fixed { window: u64::MAX }, ControllerKind::Cubic, ControllerKind::Bbr];
    let lengths = prop::collection::vec(prop_oneof![1 => Just(0_u64), 6 => 0_u64..12_000], 1..30);
    let path = (0_f64..0.4, 0_u64..8_000, 12_u64..64, prop_oneof![Just(0_u64), 200_000_u64..5_000_000]);
    (any::<u64>(), any::<bool>(), lengths, path, prop::sample::select(kinds)).prop_map(
        |(seed, reliable, lengths, (loss, jitter, window, average), congestion)| Scenario {
            seed,
            reliable,
            lengths,
            loss,
            jitter,
            window,
            average,
            congestion,
        },
    )
}

fn run(scenario: &Scenario) {
    let &Scenario { seed, reliable, loss, jitter, window, average, congestion, .. } = scenario;
    let terms = Terms { reliable, window, average, burst: 3_000, ..terms() };
    let mut outgoing = Outgoing::new(&Opening { edge: window, congestion, ..opening(terms) });
    let mut receiver = Receiver { reliable, window, ..Receiver::default() };
    let mut network = Network { random: Random::from_seed(seed), under_way: BTreeMap::new(), count: 0, loss, jitter };
    let (mut now, mut next_sync) = (at(1), at(1));
    let (mut queued, mut returned, mut last_new) = (0, 0, None);
    let mut left: Vec<(Time, u64)> = Vec::new();
    while returned < scenario.lengths.len() || !outgoing.is_quiet() {
        assert!(now < at(600_000), "it does not end: {outgoing:?}");
        while let Some(entry) = network.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Packet::Data(block) => {
                    receiver.on_block(&block);
                    let missing = receiver.missing(now, if reliable { block.number } else { 0 });
                    network.send(now, &receiver.answer(missing));
                }
                Packet::Sync(sent) => {
                    receiver.consumed = receiver.next_expected;
                    let missing = receiver.missing(now, sent);
                    network.send(now, &receiver.answer(missing));
                }
                Packet::Answer { next_expected, received, missing, edge } => {
                    assert!(!outgoing.on_ack(now, next_expected, &received, edge).invalid);
                    assert!(!outgoing.on_nack(now, &missing).invalid);
                }
            }
            if network.random.chance(0.5) {
                receiver.consumed = receiver.next_expected;
            }
        }
        if outgoing.expires_at().is_some_and(|at| at <= now) {
            assert_eq!(outgoing.expire(now), Expired::Repeat);
        }
        if next_sync <= now && outgoing.needs_sync() {
            network.send(now, &Packet::Sync(outgoing.sent()));
            next_sync = now + MS * 100;
        }
        while queued < scenario.lengths.len() && !outgoing.is_full() {
            outgoing.queue(&message(queued as u64, scenario.lengths[queued])).unwrap();
            queued += 1;
        }
        let mut wake = if outgoing.needs_sync() { next_sync.max(now) } else { Time::MAX };
        loop {
            match outgoing.next(now) {
                Next::Block(block) => {
                    assert!(block.number < outgoing.edge() && block.number < outgoing.acked() + window);
                    assert!(!block.is_repetition || reliable);
                    assert!(block.is_repetition || last_new.is_none_or(|last| block.number == last + 1));
                    last_new = last_new.max(Some(block.number));
                    outgoing.on_sent(now, &block);
                    left.push((now, u64::from(block.place.len)));
                    network.send(now, &Packet::Data(block));
                }
                Next::At(later) => {
                    wake = wake.min(later);
                    break;
                }
                Next::Nothing => break,
            }
        }
        while let Some(done) = outgoing.poll_done() {
            assert_eq!((done.ticket, done.delivered), (returned as u64, true));
            returned += 1;
            // There is room for another message.
            wake = now;
        }
        let arrival = network.under_way.first_key_value().map(|((at, _), _)| *at);
        wake = arrival.into_iter().chain(outgoing.expires_at()).fold(wake, Time::min);
        assert!(wake < Time::MAX || returned == scenario.lengths.len(), "nothing would ever happen");
        now = wake.max(now + Duration::from_nanos(1));
    }
    let blocks: Vec<_> = scenario.lengths.iter().flat_map(|len| 0..len.div_ceil(1_000).max(1)).collect();
    assert_eq!(outgoing.sent(), blocks.len() as u64);
    if reliable {
        assert_eq!(receiver.next_expected, blocks.len() as u64, "every block has arrived");
        assert!(receiver.blocks.values().zip(&blocks).all(|(block, index)| u64::from(block.index) == *index));
    } else {
        assert_eq!(left.len(), blocks.len(), "every block has left once");
    }
    if average > 0 {
        rate::check_bound(&left, average, 3_000);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    //= A-7 test
    //= A-11 test
    //= A-21 test
    #[test]
    fn no_block_is_lost_and_no_limit_broken(scenario in scenario()) {
        run(&scenario);
    }
}
