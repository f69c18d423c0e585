//! What the counters file costs whoever is seen in it: nanoseconds a message that is counted, and a row that is written.
//!
//! `cargo run --release -p pinnace-runtime --example counters_cost`. Numbers are the least of several rounds: what else runs
//! on the machine only adds.
#![allow(clippy::print_stdout)]

use pinnace_runtime::counters::{Kind, Labels, Numbers, Row};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 50;
const TIMES: u32 = 100_000;

fn least(mut once: impl FnMut()) -> f64 {
    let mut round = || {
        let begin = Instant::now();
        (0..TIMES).for_each(|_| once());
        begin.elapsed().as_nanos() as f64 / f64::from(TIMES)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let labels = Labels { protocol: "zcrp", local: "127.0.0.1:1", peer: "127.0.0.1:2", service: "loss=5% run=4KiB" };
    let Some(row) = Row::new(Kind::Connection, &labels) else {
        println!("there is no counters file here");
        return;
    };
    let mut numbers = Numbers::default();
    println!("message sent      {:6.1} ns", least(|| row.count_sent(black_box(1024))));
    println!("message received  {:6.1} ns", least(|| row.count_received(black_box(1024), 0)));
    let publish = least(|| {
        numbers.bytes_sent += 1;
        row.publish(black_box(&numbers));
    });
    println!("row written       {publish:6.1} ns, at most ten times a second while busy");
}
