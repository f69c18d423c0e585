//! Random calls, with answers that lie, against a list with one entry a block.

use super::*;
use crate::outgoing::blocks::State;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Queue(u64),
    Send(usize),
    Wait(u64),
    /// Next expected and ranges in parts of 1000 of what was sent; the window; blocks beyond what was sent.
    Ack {
        next_expected: u64,
        ranges: Vec<(u64, u64)>,
        window: u64,
        beyond: u64,
    },
    Nack {
        ranges: Vec<(u64, u64)>,
        beyond: u64,
    },
    Expire,
    Window(u64),
    Done,
}

fn op() -> impl Strategy<Value = Op> {
    let ranges = || prop::collection::vec((0_u64..1000, 0_u64..300), 0..5);
    let rare = || prop_oneof![12 => Just(0_u64), 1 => 1_u64..4];
    prop_oneof![
        4 => (0_u64..9_000).prop_map(Op::Queue),
        6 => (1_usize..12).prop_map(Op::Send),
        3 => (0_u64..40).prop_map(Op::Wait),
        5 => (0_u64..1000, ranges(), 0_u64..60, rare()).prop_map(|(next_expected, ranges, window, beyond)| Op::Ack {
            next_expected,
            ranges,
            window,
            beyond
        }),
        4 => (ranges(), rare()).prop_map(|(ranges, beyond)| Op::Nack { ranges, beyond }),
        2 => Just(Op::Expire),
        1 => (0_u64..70).prop_map(Op::Window),
        1 => Just(Op::Done),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    ticket: u64,
    index: u16,
    len: u32,
    /// Of a block that has left.
    state: State,
    sent_at: Time,
}

/// What ought to be.
#[derive(Debug, Default)]
struct Oracle {
    blocks: Vec<Entry>,
    /// Messages, as one past the number of their last block.
    ends: Vec<u64>,
    sent: usize,
    edge: u64,
    window: u64,
    done: u64,
    reliable: bool,
}

impl Oracle {
    fn acked(&self) -> u64 {
        self.blocks[..self.sent].iter().take_while(|entry| entry.state == State::Arrived).count() as u64
    }

    fn queue(&mut self, len: u64) {
        let ticket = self.ends.len() as u64;
        for index in 0..len.div_ceil(u64::from(BLOCK)).max(1) {
            let len = (len - index * u64::from(BLOCK)).min(u64::from(BLOCK)) as u32;
            let state = State::UnderWay;
            self.blocks.push(Entry { ticket, index: index as u16, len, state, sent_at: Time::ZERO });
        }
        self.ends.push(self.blocks.len() as u64);
    }

    fn next(&self) -> Option<u64> {
        let lost = self.blocks[..self.sent].iter().position(|entry| entry.state == State::Lost);
        let limit = self.edge.min(self.acked() + self.window);
        let is_open = self.sent < self.blocks.len() && (self.sent as u64) < limit;
        lost.map(|number| number as u64).or_else(|| is_open.then_some(self.sent as u64))
    }

    fn arrive(&mut self, low: u64, high: u64) -> u64 {
        let entries = self.blocks[low as usize..high as usize].iter_mut();
        let newly = entries.filter(|entry| entry.state != State::Arrived).map(|entry| entry.state = State::Arrived);
        newly.count() as u64
    }

    fn lose(&mut self, low: u64, high: u64, left_by: Option<Time>) -> u64 {
        let entries = self.blocks[low as usize..high as usize].iter_mut();
        let is_due = |entry: &&mut Entry| left_by.is_some_and(|by| entry.sent_at <= by);
        entries
            .filter(|entry| entry.state == State::UnderWay)
            .filter(is_due)
            .map(|entry| entry.state = State::Lost)
            .count() as u64
    }

    fn in_flight(&self) -> u64 {
        let under_way = self.blocks[..self.sent].iter().filter(|entry| entry.state == State::UnderWay);
        under_way.map(|entry| u64::from(entry.len) + 32).sum()
    }

    /// Messages that have come back.
    fn finished(&self) -> u64 {
        let needed = if self.reliable { self.acked() } else { self.sent as u64 };
        self.ends.iter().take_while(|end| **end <= needed).count() as u64
    }
}

/// Ranges in parts of 1000 as block numbers; some empty, some beyond.
fn scaled(ranges: &[(u64, u64)], sent: u64, beyond: u64) -> Vec<(u64, u64)> {
    let mut ranges: Vec<_> =
        ranges.iter().map(|(low, len)| (low * sent / 1000, ((low + len) * sent / 1000).min(sent))).collect();
    ranges.retain(|(low, high)| low < high || beyond == 2);
    if beyond == 3 {
        ranges.push((sent, sent + 3));
    }
    ranges
}

fn is_honest(ranges: &[(u64, u64)], sent: u64) -> bool {
    ranges.iter().all(|(low, high)| low < high && *high <= sent)
}

fn run(reliable: bool, ops: &[Op]) {
    let terms = Terms { reliable, outstanding: 50, ..terms() };
    let mut outgoing = Outgoing::new(&Opening { edge: 20, ..opening(terms) });
    let mut oracle = Oracle { edge: 20, window: 64, reliable, ..Oracle::default() };
    let mut now = Time::ZERO + MS * 1_000;
    for op in ops {
        let sent = oracle.sent as u64;
        match *op {
            Op::Queue(len) => {
                let limit = oracle.edge.min(oracle.acked() + oracle.window);
                let is_full = oracle.ends.len() as u64 - oracle.done >= 50 || oracle.blocks.len() as u64 >= limit;
                assert_eq!(outgoing.is_full(), is_full);
                let result = outgoing.queue(&message(oracle.ends.len() as u64, len));
                assert_eq!(result.is_err(), is_full);
                if !is_full {
                    oracle.queue(len);
                }
            }
            Op::Send(most) => {
                for _ in 0..most {
                    let next = outgoing.next(now);
                    let Next::Block(block) = next else {
                        assert_eq!((next, oracle.next()), (Next::Nothing, None));
                        break;
                    };
                    assert_eq!(Some(block.number), oracle.next());
                    outgoing.on_sent(now, &block);
                    let entry = &mut oracle.blocks[block.number as usize];
                    let facts = (u64::from(block.message), block.index, block.place.len);
                    assert_eq!(facts, (entry.ticket, entry.index, entry.len));
                    assert_eq!(u64::from(block.place.buffer.index()), entry.ticket);
                    assert_eq!(block.place.offset, 100 + u64::from(entry.index) * u64::from(BLOCK));
                    assert_eq!(block.is_repetition, block.number < oracle.sent as u64);
                    (entry.state, entry.sent_at) = (State::UnderWay, now);
                    oracle.sent = oracle.sent.max(block.number as usize + 1);
                }
            }
            Op::Wait(millis) => now += MS * millis as u32,
            Op::Ack { next_expected, ref ranges, window, beyond } => {
                // Mostly near what is expected.
                let acked = oracle.acked();
                let next_expected = if window.is_multiple_of(2) { acked } else { next_expected * sent / 1000 };
                let next_expected = if beyond == 1 { sent + 1 } else { next_expected };
                let edge = next_expected + if beyond == 2 { 1 << 20 } else { window };
                let ranges = scaled(ranges, sent, beyond);
                let heard = outgoing.on_ack(now, next_expected, &ranges, edge);
                let is_honest = beyond != 1 && beyond != 2 && (!reliable || is_honest(&ranges, sent));
                assert_eq!(heard.invalid, !is_honest);
                if is_honest {
                    let mut newly = oracle.arrive(0, next_expected);
                    for &(low, high) in ranges.iter().filter(|_| reliable) {
                        newly += oracle.arrive(low, high);
                    }
                    assert_eq!(heard.newly, newly);
                    oracle.edge = oracle.edge.max(edge);
                }
            }
            Op::Nack { ref ranges, beyond } => {
                let ranges = scaled(ranges, sent, beyond);
                // What exceeds the budget is left out; then only the first range is sure to be used.
                let acked = oracle.acked();
                let named: u64 = ranges.iter().map(|(low, high)| high.saturating_sub(*low.max(&acked))).sum();
                let ranges = if named > sent - acked { ranges[..1].to_vec() } else { ranges };
                let is_honest = is_honest(&ranges, sent);
                let heard = outgoing.on_nack(now, &ranges);
                let mut newly = 0;
                for &(low, high) in ranges.iter().filter(|_| is_honest && reliable) {
                    newly += oracle.lose(low, high, Some(Time::ZERO + (now - (Time::ZERO + MS * 20))));
                }
                assert_eq!((heard.newly, heard.invalid), (newly, !is_honest));
            }
            Op::Expire => {
                let due = outgoing.expires_at().is_some_and(|at| at <= now);
                assert_eq!(outgoing.expire(now) == Expired::Repeat, due);
                if due {
                    let acked = oracle.acked();
                    oracle.lose(acked, acked + 1, Some(now));
                    assert!(reliable && oracle.next() == Some(acked));
                }
            }
            Op::Window(window) => {
                outgoing.set_terms(now, outgoing.sent(), &Terms { window, ..terms });
                oracle.window = window;
            }
            Op::Done => {
                while let Some(done) = outgoing.poll_done() {
                    assert_eq!((done.ticket, done.delivered), (oracle.done, true));
                    oracle.done += 1;
                }
                assert_eq!(oracle.done, oracle.finished());
            }
        }
        assert_eq!((outgoing.sent(), outgoing.acked()), (oracle.sent as u64, oracle.acked()));
        assert_eq!((outgoing.edge(), outgoing.in_flight()), (oracle.edge, oracle.in_flight()));
        assert_eq!(outgoing.queued_blocks(), (oracle.blocks.len() - oracle.sent) as u64);
        if let Some(active) = outgoing.active.as_deref() {
            active.blocks.check();
            for (number, state) in active.blocks.states() {
                assert_eq!(state, oracle.blocks[number as usize].state, "{number}");
            }
        }
    }
}

proptest! {
    //= A-7 test
    //= A-10 test
    #[test]
    fn the_sender_does_what_the_list_says(reliable in prop::bool::weighted(0.8), ops in prop::collection::vec(op(), 1..150)) {
        run(reliable, &ops);
    }
}
