//! What the sending half of a stream costs: `cargo run --release -p pinnace-xtp --example xtp_outgoing_cost`. Packets of 1,400
//! bytes in trains of 46, a status every 16 packets. The bar of the project: well below 100 ns a packet, and below 350
//! bytes for an idle stream.
#![allow(clippy::print_stdout, reason = "it is what this program is for")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock; the code it measures does not")]

use core::time::Duration;
use outgoing::{Asking, Chunk, Heard, Next, Outgoing, PathConfig, Terms};
use pinnace_core::{BufferId, ControllerKind, Time};
use pinnace_testing::least_of;
use std::hint::black_box;
use std::time::Instant;

#[allow(dead_code, unused_imports, reason = "it is private to the crate, and only sending is measured")]
#[path = "../src/outgoing/mod.rs"]
mod outgoing;

const PACKETS: u64 = 400_000;
const BYTES: u64 = 1_400;
const TRAIN: usize = 46;
const STATUS_EVERY: u64 = 16;
const ROUNDS: usize = 11;

/// What the receiver of the measured stream does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    /// Everything arrives.
    Clean,
    /// Every hundredth packet is lost; spans tell.
    Lossy,
}

/// Nanoseconds a packet, the least of the rounds: the machine may have other work.
fn cost(congestion: ControllerKind, message: u64, path: Path, go_back_n: bool) -> f64 {
    let terms = Terms {
        max: BYTES as u32,
        largest: BYTES as u32,
        overhead: 32,
        is_held: false,
        no_flow: false,
        no_error: false,
        ask_every: STATUS_EVERY as u32,
        go_back_n,
    };
    least_of(ROUNDS, || round(congestion, message, path, &terms))
}

fn round(congestion: ControllerKind, message: u64, path: Path, terms: &Terms) -> f64 {
    let mut stream = Outgoing::new(1, &PathConfig { congestion, ..PathConfig::default() });
    for ticket in 0..PACKETS * BYTES / message {
        let buffer = BufferId::new(ticket as u32);
        stream.queue(Chunk { ticket, buffer, offset: 0, len: message, eom: true, btag: None });
    }
    let mut now = Time::ZERO;
    let (mut packets, mut losses) = (0_u64, 0_u64);
    // What arrived and is not below rseq, as the receiver would tell it.
    let mut spans: Vec<(u64, u64)> = Vec::new();
    let mut rseq = 0;
    let begin = Instant::now();
    while stream.acked() < stream.queued() {
        let mut statuses = [0; TRAIN];
        let mut count = 0;
        let mut highs = [(0, 0); TRAIN];
        let mut train = 0;
        while train < TRAIN {
            match stream.next(now, terms) {
                Next::Cut(cut) => {
                    for part in stream.parts(cut.low, cut.len) {
                        black_box(part);
                    }
                    let sync = stream.commit(now, &cut, if cut.asks { Asking::Status } else { Asking::No }, terms);
                    packets += 1;
                    let is_lost = path == Path::Lossy && packets.is_multiple_of(100);
                    losses += u64::from(is_lost);
                    highs[train] = if is_lost { (0, 0) } else { (cut.low, cut.high()) };
                    train += 1;
                    if cut.asks && !is_lost {
                        statuses[count] = (train as u64) << 32 | u64::from(sync);
                        count += 1;
                    }
                }
                Next::At(at) => {
                    now = at;
                    break;
                }
                Next::Nothing => break,
            }
        }
        now += Duration::from_micros(100);
        let mut from = 0;
        for status in &statuses[..count] {
            let to = (status >> 32) as usize;
            for &(low, high) in &highs[from..to] {
                arrive(&mut spans, &mut rseq, low, high);
            }
            from = to;
            answer(&mut stream, now, rseq, *status as u32, &spans);
        }
        for &(low, high) in &highs[from..train] {
            arrive(&mut spans, &mut rseq, low, high);
        }
        if count == 0 {
            let echo = stream.ask(now, Asking::Expiry);
            answer(&mut stream, now, rseq, echo, &spans);
        }
    }
    let time = begin.elapsed();
    black_box(losses);
    time.as_secs_f64() * 1e9 / packets as f64
}

fn arrive(spans: &mut Vec<(u64, u64)>, rseq: &mut u64, low: u64, high: u64) {
    if high <= *rseq {
        return;
    }
    match spans.last_mut() {
        _ if low <= *rseq => {
            *rseq = high;
            while let Some(&(low, high)) = spans.first()
                && low <= *rseq
            {
                *rseq = high.max(*rseq);
                spans.remove(0);
            }
        }
        Some(last) if last.1 == low => last.1 = high,
        _ => {
            spans.push((low, high));
            spans.sort_unstable();
        }
    }
}

fn answer(stream: &mut Outgoing, now: Time, rseq: u64, echo: u32, spans: &[(u64, u64)]) {
    let heard = Heard { rseq, alloc: rseq + (1 << 20), echo, spans, is_old: false, is_question: false };
    black_box(stream.on_status(now, &heard));
    while let Some(done) = stream.poll_done() {
        black_box(done);
    }
}

fn main() {
    println!("an idle stream: {} bytes", size_of::<Outgoing>());
    println!("nanoseconds a packet (least of {ROUNDS} rounds of {PACKETS} packets)");
    println!("{:>8} {:>10} {:>8} {:>8} {:>8}", "", "message", "clean", "1 %", "1 % gbn");
    let window = 1 << 20;
    for congestion in [ControllerKind::Fixed { window }, ControllerKind::Cubic, ControllerKind::Bbr] {
        for message in [PACKETS * BYTES, 16_384 / BYTES * BYTES, 1_000] {
            let clean = cost(congestion, message, Path::Clean, false);
            let lossy = cost(congestion, message, Path::Lossy, false);
            let gbn = cost(congestion, message, Path::Lossy, true);
            println!("{:>8} {message:>10} {clean:>8.1} {lossy:>8.1} {gbn:>8.1}", congestion.name());
        }
    }
}
