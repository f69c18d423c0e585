//! What a packet costs an engine with 100 contexts, and one with 100,000: `cargo run --release --example
//! many_contexts`. Rounds are interleaved; the median and the middle half are told.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a measurement")]

#[path = "../tests/direct/mod.rs"]
mod direct;

use core::time::Duration;
use direct::Pair;
use pinnace_xtp::Service;
use std::time::Instant;

const ROUNDS: usize = 15;
const MESSAGES: usize = 10_000;

/// Nanoseconds a packet, of messages of 100 bytes to `active` contexts in turn.
fn measure(pair: &mut Pair, active: usize) -> f64 {
    let contexts: Vec<_> = pair.opened[pair.opened.len() - active..].to_vec();
    let before = pair.packets;
    let began = Instant::now();
    for index in 0..MESSAGES {
        // A large odd step: neighbours in time are no neighbours in memory.
        let context = contexts[index * 7_919 % contexts.len()];
        pair.now += Duration::from_micros(10);
        pair.send(context, 100);
    }
    began.elapsed().as_nanos() as f64 / (pair.packets - before) as f64
}

fn main() {
    let mut few = Pair::new(100_001);
    few.open(100, Service::Connection);
    let mut many = Pair::new(100_001);
    for _ in 0..100 {
        many.open(1000, Service::Connection);
        many.wait(Duration::from_secs(2));
    }
    let mut results = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        results[0].push(measure(&mut few, 100));
        results[1].push(measure(&mut many, 100));
        results[2].push(measure(&mut many, 100_000));
    }
    for (name, result) in ["100 contexts", "100,000, 100 of them busy", "100,000, all busy"].iter().zip(&mut results) {
        result.sort_by(f64::total_cmp);
        let at = |share: usize| result[result.len() * share / 4];
        println!("{name:28} {:7.1} ns a packet ({:.1} to {:.1})", at(2), at(1), at(3));
    }
}
