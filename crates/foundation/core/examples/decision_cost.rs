//! What a decision of the loss contract costs, by window and loss: `cargo run --release -p pinnace-core --example
//! decision_cost`. The bar of the project: below 30 ns a packet, flat from a window of 64 to one of 4,096.
#![allow(clippy::print_stdout, reason = "it is what this program is for")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock; the code it measures does not")]

use pinnace_core::{LossContract, LossDecider, Random};
use std::hint::black_box;
use std::time::Instant;

const PACKETS: u32 = 200_000;
const ROUNDS: usize = 15;

/// The packets that arrive, in order: each is lost with probability `loss`.
fn arrivals(loss: f64) -> Vec<u32> {
    let mut random = Random::from_seed(1);
    (0..PACKETS).filter(|number| *number + 1 == PACKETS || !random.chance(loss)).collect()
}

/// Nanoseconds a packet, the median of the rounds.
fn cost(window: u32, arrivals: &[u32]) -> f64 {
    let contract = LossContract { rate: 64, run: 3, critical: [0..2, 5_000..5_010].into_iter().collect() };
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let mut frame = LossDecider::new(PACKETS, window, contract.clone());
            let mut refused = 0u32;
            let begin = Instant::now();
            for &number in arrivals {
                black_box(frame.on_packet(black_box(number), |decision| {
                    refused += u32::from(matches!(decision, pinnace_core::Decision::Nack(_)));
                }));
            }
            let time = begin.elapsed();
            black_box((frame.lost_count(), refused));
            time.as_secs_f64() * 1e9 / f64::from(PACKETS)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

fn main() {
    println!("nanoseconds a packet (median of {ROUNDS} rounds of {PACKETS} packets)");
    println!("{:>8} {:>8} {:>8} {:>8} {:>8}", "window", "0 %", "1 %", "10 %", "50 %");
    let cases: Vec<_> = [0.0, 0.01, 0.1, 0.5].map(arrivals).into();
    for window in [64, 128, 256, 512, 1024, 2048, 4096] {
        let costs: Vec<String> = cases.iter().map(|case| format!("{:8.1}", cost(window, case))).collect();
        println!("{window:>8} {}", costs.join(" "));
    }
}
