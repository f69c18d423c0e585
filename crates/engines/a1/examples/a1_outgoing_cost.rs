//! What the sending half of a connection costs: `cargo run --release -p pinnace-a1 --example a1_outgoing_cost`. A window of 256
//! blocks, an ACK for every 16. The bar of the project: well below 100 ns a block.
#![allow(clippy::print_stdout, reason = "it is what this program is for")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock; the code it measures does not")]

use core::time::Duration;
use outgoing::{Message, Next, Opening, Outgoing, Terms};
use pinnace_core::{BufferId, ControllerKind, IntervalSet, Time};
use pinnace_testing::least_of;
use std::hint::black_box;
use std::time::Instant;

#[allow(dead_code, unused_imports, reason = "it is private to the crate, and only sending is measured")]
#[path = "../src/outgoing/mod.rs"]
mod outgoing;

const BLOCKS: u64 = 20_000;
const BLOCK_BYTES: u32 = 1_400;
const WINDOW: u64 = 256;
const ACK_EVERY: usize = 16;
const ROUNDS: usize = 200;

#[derive(Clone, Copy)]
struct Case {
    congestion: ControllerKind,
    reliable: bool,
    /// Blocks of a message.
    count: u64,
    /// Bytes a second; 0: no limit.
    average: u64,
    /// Every so-manyth block is lost; 0: none.
    lost: u64,
}

/// Nanoseconds a block, the least of the rounds: the machine may have other work.
fn cost(case: &Case) -> f64 {
    least_of(ROUNDS, || round(case))
}

fn round(case: &Case) -> f64 {
    let terms = Terms {
        block_bytes: BLOCK_BYTES,
        reliable: case.reliable,
        window: WINDOW,
        max_message: case.count * u64::from(BLOCK_BYTES),
        outstanding: WINDOW,
        average: case.average,
        burst: 1 << 16,
    };
    let Case { congestion, lost, .. } = *case;
    let mut outgoing = Outgoing::new(&Opening { terms, edge: WINDOW, message: 0, overhead: 60, congestion });
    let buffer = BufferId::new(0);
    let mut now = Time::ZERO;
    let (mut left, mut ticket) = (0_u64, 0);
    let mut received = IntervalSet::new();
    let begin = Instant::now();
    while left < BLOCKS {
        while !outgoing.is_full() {
            let message = Message { ticket, buffer, offset: 0, len: terms.max_message, deadline: None };
            black_box(outgoing.queue(&message)).unwrap_or(());
            ticket += 1;
        }
        for _ in 0..ACK_EVERY {
            match outgoing.next_new(now) {
                Next::Block(block) => {
                    outgoing.on_sent(now, black_box(&block));
                    left += 1;
                    if lost == 0 || !left.is_multiple_of(lost) {
                        received.insert(block.number..block.number + 1);
                    }
                }
                Next::At(later) => now = later,
                Next::Nothing => break,
            }
        }
        now += Duration::from_millis(30);
        let next_expected = if case.reliable { received.first_missing_from(0) } else { outgoing.sent() };
        let beyond = received.iter().filter(|range| range.start > next_expected).map(|range| (range.start, range.end));
        let ranges: Vec<(u64, u64)> = beyond.collect();
        black_box(outgoing.on_ack(now, next_expected, &ranges, next_expected + WINDOW));
        let high = received.max().map_or(0, |max| max + 1);
        let missing: Vec<(u64, u64)> =
            received.missing_in(next_expected..high).map(|range| (range.start, range.end)).collect();
        if case.reliable && !missing.is_empty() {
            black_box(outgoing.on_nack(now, &missing));
        }
        black_box(outgoing.expire(now));
        while let Some(done) = outgoing.poll_done() {
            black_box(done);
        }
    }
    begin.elapsed().as_secs_f64() * 1e9 / left as f64
}

fn main() {
    let fixed = ControllerKind::Fixed { window: u64::MAX };
    let base = Case { congestion: fixed, reliable: true, count: 1, average: 0, lost: 0 };
    let cases = [
        ("reliable, messages of a block", base),
        ("reliable, messages of 16 blocks", Case { count: 16, ..base }),
        ("reliable, 1 % lost", Case { lost: 100, ..base }),
        ("reliable, cubic", Case { congestion: ControllerKind::Cubic, ..base }),
        ("reliable, with a rate", Case { average: 1 << 40, ..base }),
        ("raw", Case { reliable: false, ..base }),
    ];
    for (name, case) in cases {
        println!("{name}: {:.1} ns a block", cost(&case));
    }
    println!("an idle direction: {} bytes", size_of::<Outgoing>());
}
