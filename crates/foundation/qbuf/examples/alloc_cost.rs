//! What it costs to allocate and free one block, by pointer as in C and as an owned value: both variants, alone and while
//! another process does the same.
//!
//! `cargo run --release -p pinnace-qbuf --example alloc_cost`. Rounds of the variants alternate; what is printed is the
//! median of the rounds, and the least and the most, in processor time of the measuring thread: a busy machine does not
//! count, waiting for another core's cache line does. The bars are 40 ns alone and 200 ns with two processes; the variant
//! that is faster is the default.
#![allow(clippy::print_stdout, reason = "a measurement")]

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

use pinnace_qbuf::{Pool, PoolOptions, Variant};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 15;
const PAIRS: u32 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(path) = std::env::args().nth(1) {
        return accompany(&path);
    }
    println!(
        "{:<10} {:<34} {:>9} {:>9} {:>9}",
        "variant", "alloc and free of one block, ns", "median", "least", "most"
    );
    for (what, zones, accompanied, work) in [
        ("alone", 64, false, raw as Work),
        ("alone, owned", 64, false, owned),
        ("alone, owned, 8 blocks", 64, false, owned_run),
        ("two processes", 64, true, raw),
        ("two processes, owned", 64, true, owned),
        ("two processes, one zone", 1, true, raw),
    ] {
        let mut results = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (variant, result) in [Variant::Locked, Variant::LockFree].into_iter().zip(&mut results) {
                result.push(round(variant, zones, accompanied, work)?);
            }
        }
        for (variant, mut result) in ["locked", "lock-free"].into_iter().zip(results) {
            result.sort_by(f64::total_cmp);
            let (least, median, most) = (result[0], result[ROUNDS / 2], result[ROUNDS - 1]);
            println!("{variant:<10} {what:<34} {median:>9.1} {least:>9.1} {most:>9.1}");
        }
    }
    Ok(())
}

/// Nanoseconds for one pair.
fn round(variant: Variant, zones: u32, accompanied: bool, work: Work) -> Result<f64, Box<dyn Error>> {
    let pool = Pool::create(&PoolOptions { zones, variant, ..PoolOptions::default() })?;
    let companion = if accompanied { Some(Companion::start(&pool)?) } else { None };
    work(&pool, PAIRS / 10);
    let begin = processor_time();
    work(&pool, PAIRS);
    let elapsed = processor_time() - begin;
    drop(companion);
    Ok(elapsed / f64::from(PAIRS))
}

/// In nanoseconds.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

type Work = fn(&Pool, u32);

fn raw(pool: &Pool, pairs: u32) {
    for _ in 0..pairs {
        if let Some((pointer, _)) = black_box(pool.alloc_raw(1)) {
            let _ = black_box(pool.free_raw(pointer));
        }
    }
}

fn owned(pool: &Pool, pairs: u32) {
    for _ in 0..pairs {
        drop(black_box(pool.alloc(1)));
    }
}

fn owned_run(pool: &Pool, pairs: u32) {
    for _ in 0..pairs {
        drop(black_box(pool.alloc(8 * 4096)));
    }
}

/// Another process that allocates and frees until it is told to end.
struct Companion(Child);

impl Companion {
    fn start(pool: &Pool) -> Result<Self, Box<dyn Error>> {
        let path = format!("/proc/{}/fd/{}", std::process::id(), pool.fd().as_raw_fd());
        let mut child = Command::new(std::env::current_exe()?).arg(path).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no pipe")?).read_line(&mut line)?;
        Ok(Self(child))
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn accompany(path: &str) -> Result<(), Box<dyn Error>> {
    let file = File::options().read(true).write(true).open(path)?;
    let pool = Pool::attach(file.into())?;
    raw(&pool, 1000);
    println!("ready");
    std::io::stdout().flush()?;
    // Until killed, or left behind.
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        raw(&pool, 100_000);
    }
    Ok(())
}
