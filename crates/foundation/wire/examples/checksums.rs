//! Speeds of the checksums: Internet, Fletcher, the paper's variants of CXOR (XTP paper, table 3.1), and Pinnace's, beside a
//! pass that only reads; and the times of catenation and update (table 3.3).
//!
//! `cargo run --release -p pinnace-wire --example checksums [-- [--json] [SIZE ...]]`. Everything is measured in turns, many rounds of it;
//! shown are medians, and the range of the middle half.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use fearless_simd::{Level, Simd, SimdBase, dispatch, u8x64};
use pinnace_wire::checksum::{cxor, cxor_catenate, cxor_copy, cxor_update, fletcher, internet, internet_copy, paper};

const ROUNDS: usize = 151;
const SAMPLE: Duration = Duration::from_micros(40);
const WARM_UP: Duration = Duration::from_micros(300);
const SIZES: [usize; 6] = [100, 1_400, 4 << 10, 10_000, 16 << 10, 512 << 10];

/// Something to measure, run so many times over the same bytes.
type Run<'a> = Box<dyn FnMut(usize) + 'a>;

/// Nanoseconds of one run.
struct Time {
    low: f64,
    median: f64,
    high: f64,
}

/// A pass that only reads: the exclusive-or of everything.
fn read_only(bytes: &[u8]) -> u64 {
    #[inline(always)]
    fn turns<S: Simd>(simd: S, turns: &[[u8; 256]]) -> [u8; 64] {
        let mut folded = [u8x64::splat(simd, 0); 4];
        for turn in turns {
            for (folded, vector) in folded.iter_mut().zip(turn.as_chunks::<64>().0) {
                *folded ^= u8x64::from_slice(simd, vector);
            }
        }
        let mut lanes = [0; 64];
        ((folded[0] ^ folded[1]) ^ (folded[2] ^ folded[3])).store_slice(&mut lanes);
        lanes
    }
    let (blocks, rest) = bytes.as_chunks::<256>();
    let lanes = dispatch!(Level::new(), simd => turns(simd, blocks));
    let words = lanes.as_chunks::<8>().0.iter().chain(rest.as_chunks::<8>().0);
    words.fold(0, |all, word| all ^ u64::from_ne_bytes(*word))
}

/// Runs everything in turns and sorts out the times of each.
fn measure(runs: &mut [Run<'_>]) -> Vec<Time> {
    let repeats: Vec<usize> = runs
        .iter_mut()
        .map(|run| {
            let mut repeats = 1;
            loop {
                let start = Instant::now();
                run(repeats);
                let elapsed = start.elapsed();
                if elapsed >= SAMPLE / 2 {
                    let wanted = repeats as f64 * SAMPLE.as_secs_f64() / elapsed.as_secs_f64();
                    break (wanted as usize).max(1);
                }
                repeats *= 2;
            }
        })
        .collect();
    let mut samples = vec![Vec::with_capacity(ROUNDS); runs.len()];
    for _ in 0..ROUNDS {
        for ((run, &repeats), samples) in runs.iter_mut().zip(&repeats).zip(&mut samples) {
            // The one before may have driven the bytes out of the cache, and left the processor's wide units asleep: they
            // need some hundred microseconds to reach full speed again.
            let start = Instant::now();
            while start.elapsed() < WARM_UP {
                run(repeats);
            }
            let start = Instant::now();
            run(repeats);
            samples.push(start.elapsed().as_secs_f64() * 1e9 / repeats as f64);
        }
    }
    samples
        .into_iter()
        .map(|mut times| {
            times.sort_by(f64::total_cmp);
            Time { low: times[ROUNDS / 4], median: times[ROUNDS / 2], high: times[ROUNDS * 3 / 4] }
        })
        .collect()
}

/// Runs a checksum over the same bytes; neither they nor the result are known to the compiler.
fn over<'a, T>(bytes: &'a [u8], mut checksum: impl FnMut(&[u8]) -> T + 'a) -> Run<'a> {
    Box::new(move |repeats| {
        for _ in 0..repeats {
            black_box(checksum(black_box(bytes)));
        }
    })
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let all: Vec<u8> = (0..520u32 << 10).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let all = &all[all.as_ptr().align_offset(64)..];
    let mut lines = Vec::new();
    let wanted: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    for size in SIZES.into_iter().filter(|size| wanted.is_empty() || wanted.contains(size)) {
        let bytes = &all[..size];
        // The copies start like the source, but each elsewhere in its page.
        let mut copies: Vec<Vec<u8>> = (1..4).map(|_| vec![0; size + 8_192]).collect();
        let mut copies = copies.iter_mut().zip(1..).map(|(copy, at)| {
            let start = copy.as_ptr().align_offset(4_096) + 1_024 * at;
            &mut copy[start..start + size]
        });
        let [Some(plain), Some(other), Some(copy)] = [copies.next(), copies.next(), copies.next()] else { return };
        let names = [
            "internet",
            "fletcher",
            "cxor std",
            "cxor op1",
            "cxor op2",
            "cxor op3",
            "cxor op4",
            "cxor",
            "read only",
            "internet copy",
            "cxor copy",
            "memcpy",
        ];
        let mut runs = [
            over(bytes, internet),
            over(bytes, fletcher),
            over(bytes, paper::std),
            over(bytes, paper::op1),
            over(bytes, paper::op2),
            over(bytes, paper::op3),
            over(bytes, paper::op4),
            over(bytes, cxor),
            over(bytes, read_only),
            over(bytes, move |bytes| internet_copy(bytes, black_box(&mut *other))),
            over(bytes, move |bytes| cxor_copy(bytes, black_box(&mut *copy))),
            over(bytes, move |bytes| black_box(&mut *plain).copy_from_slice(bytes)),
        ];
        // Apart, because the copies drive the source of the others out of the cache.
        let (only_read, copy) = runs.split_at_mut(9);
        let mut times = measure(only_read);
        times.extend(measure(copy));
        let [std, ours, read] = ["cxor std", "cxor", "read only"]
            .map(|name| names.iter().position(|&each| each == name).map_or(f64::NAN, |at| times[at].median));
        if !json {
            println!("{size} bytes: cxor is {:.1} times std, {:.2} of a read-only pass", std / ours, read / ours);
        }
        for (name, time) in names.iter().zip(times) {
            let [slow, median, fast] = [time.high, time.median, time.low].map(|nanoseconds| size as f64 / nanoseconds);
            if json {
                lines.push(format!(
                    "  {{\"name\": \"{name}\", \"bytes\": {size}, \"gigabytes_per_second\": {median:.3}, \"low\": {slow:.3}, \
                     \"high\": {fast:.3}, \"nanoseconds\": {:.2}}}",
                    time.median
                ));
            } else {
                println!("  {name:14} {median:8.2} GB/s  ({slow:.2} to {fast:.2})  {:10.1} ns", time.median);
            }
        }
    }

    // Table 3.3: a packet of 10,000 bytes from two halves, and with a word that has changed.
    let (a, b) = (cxor(&all[..5_000]), cxor(&all[5_000..10_000]));
    let packet = cxor(&all[..10_000]);
    let mut runs: [Run<'_>; 2] = [
        Box::new(|repeats| {
            for _ in 0..repeats {
                black_box(cxor_catenate(black_box(a), black_box(b), black_box(2_500)));
            }
        }),
        Box::new(|repeats| {
            for _ in 0..repeats {
                let (old, new) = (black_box(1), black_box(2));
                black_box(cxor_update(black_box(packet), old, new, black_box(1_234), black_box(5_000)));
            }
        }),
    ];
    for (name, time) in ["cxor catenation", "cxor update"].into_iter().zip(measure(&mut runs)) {
        let Time { low, median, high } = time;
        if json {
            lines.push(format!(
                "  {{\"name\": \"{name}\", \"bytes\": 10000, \"nanoseconds\": {median:.3}, \"low\": {low:.3}, \"high\": {high:.3}}}"
            ));
        } else {
            println!("{name}: {median:.2} ns  ({low:.2} to {high:.2})");
        }
    }
    if json {
        println!("[\n{}\n]", lines.join(",\n"));
    }
}
