//! Several processes and one pool: sharing it, being killed at any instant, and writing where they should not.
//!
//! The program starts itself as its workers. `PINNACE_KILLS` (100) is the number of kills, `PINNACE_SCRIBBLE_SECONDS` (2)
//! how long a worker scribbles, `PINNACE_SEED` repeats a run.
#![allow(clippy::print_stderr, reason = "says its seed, and what it saw")]

mod worker;

use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use pinnace_qbuf::{Passed, Pool, PoolOptions, Role, Stats, Transit, Variant};

const VARIANTS: [(&str, Variant); 2] = [("locked", Variant::Locked), ("lock_free", Variant::LockFree)];

fn main() {
    if let Ok(role) = std::env::var(worker::ROLE) {
        return worker::run(&role);
    }
    let mut trials = Vec::new();
    for (name, variant) in VARIANTS {
        trials.push(Trial::test(format!("processes_share_a_pool::{name}"), move || share(variant)));
        trials.push(Trial::test(format!("kills_leak_nothing::{name}"), move || kills(variant)));
        trials.push(Trial::test(format!("scribbling_harms_only_the_pool::{name}"), move || scribble(variant)));
    }
    trials.push(Trial::test("use_after_passing_faults_in_a_guarded_pool", guard));
    trials.push(Trial::test("a_forked_child_has_no_part_in_the_pool", || succeeds("fork")));
    trials.push(Trial::test("what_cannot_be_wired_is_said_once", || succeeds("wire")));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn random() -> fastrand::Rng {
    let seed = number("PINNACE_SEED", fastrand::u64(..));
    eprintln!("PINNACE_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

fn pool(variant: Variant, zones: u32, guarded: bool) -> Pool {
    Pool::create(&PoolOptions { zones, variant, guarded, ..PoolOptions::default() }).unwrap()
}

/// A worker, killed when the test is over.
struct Worker {
    child: Child,
    /// Held, for it ends when this is closed; and waiting for a child would close it.
    _stdin: Option<ChildStdin>,
}

impl Worker {
    fn start(role: &str, pool: &Pool, seed: u64) -> Self {
        let path = format!("/proc/{}/fd/{}", std::process::id(), pool.fd().as_raw_fd());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(worker::ROLE, role).env(worker::POOL, path).env(worker::SEED, seed.to_string());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        Self { child, _stdin: stdin }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn succeeds(role: &str) -> Result<(), Failed> {
    let pool = pool(Variant::Locked, 2, false);
    let status = Worker::start(role, &pool, 0).child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("{role}: {status}").into()) }
}

/// Nothing is taken, hidden, or locked.
fn audit(stats: &Stats, what: &str) {
    let seen = (stats.free_blocks, stats.hidden_blocks, stats.locked_zones, stats.clients, stats.corrupt_words);
    assert_eq!(seen, (stats.blocks, 0, 0, 1, 0), "{what}: {stats:?}");
}

//= B-4, B-6 test
fn share(variant: Variant) -> Result<(), Failed> {
    let pool = pool(variant, 3, false);
    let mut workers: Vec<_> = (1..4).map(|seed| Worker::start("share", &pool, seed)).collect();
    worker::fill_and_check(&pool, &mut fastrand::Rng::with_seed(0), 5000);
    for worker in &mut workers {
        let status = worker.child.wait()?;
        assert!(status.success(), "a worker found foreign bytes: {status}");
    }
    pool.alloc(1);
    audit(&pool.stats(), "after everybody left");
    Ok(())
}

//= B-12 test
fn kills(variant: Variant) -> Result<(), Failed> {
    let mut random = random();
    let pool = pool(variant, 4, false);
    let mut left = number("PINNACE_KILLS", 100);
    let mut blocks = 0;
    while left > 0 {
        let together = left.min(3);
        let mut workers: Vec<_> = (0..together).map(|_| Worker::start("work", &pool, random.u64(..))).collect();
        for worker in &mut workers {
            let end = Instant::now() + Duration::from_micros(random.u64(0..15_000));
            // The survivor goes on meanwhile.
            while Instant::now() < end {
                worker::fill_and_check(&pool, &mut random, 3);
            }
            worker.child.kill()?;
            let status = worker.child.wait()?;
            assert_eq!(status.signal(), Some(9), "a worker ended by itself: {status}");
            worker::fill_and_check(&pool, &mut random, 3);
        }
        blocks += u64::from(pool.sweep().blocks);
        pool.alloc(1);
        audit(&pool.stats(), &format!("{left} kills to go"));
        // Every block can be had again.
        let all: Vec<_> = (0..4).map(|_| pool.alloc(pool.max_len())).collect();
        assert!(all.iter().all(Option::is_some), "{all:?}");
        left -= together;
    }
    let stats = pool.stats();
    eprintln!("{blocks} blocks and {} locks of the dead, {} bits", stats.broken_locks, stats.repaired_bits);
    assert!(stats.swept_blocks > 0, "nobody died with a block: {stats:?}");
    Ok(())
}

//= B-13 test
fn scribble(variant: Variant) -> Result<(), Failed> {
    let mut random = random();
    let pool = pool(variant, 8, false);
    let duration = Duration::from_secs(number("PINNACE_SCRIBBLE_SECONDS", 2));
    let scribbler = Worker::start("scribble", &pool, random.u64(..));
    let (end, done) = (Instant::now() + duration, AtomicBool::new(false));
    let mut rounds = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            // A hang would otherwise be a test that never ends.
            let limit = end + Duration::from_secs(60);
            while !done.load(Ordering::Relaxed) {
                if Instant::now() > limit {
                    eprintln!("the pool hangs");
                    std::process::abort();
                }
                thread::sleep(Duration::from_millis(100));
            }
        });
        let other = scope.spawn({
            let mut random = random.fork();
            let pool = &pool;
            move || {
                while Instant::now() < end {
                    endure(pool, &mut random);
                }
            }
        });
        while Instant::now() < end {
            endure(&pool, &mut random);
            rounds += 1;
        }
        let outcome = other.join();
        done.store(true, Ordering::Relaxed);
        assert!(outcome.is_ok(), "a thread panicked");
    });
    drop(scribbler);
    eprintln!("{rounds} rounds, {:?}", pool.stats());
    assert!(rounds > 10);
    Ok(())
}

/// Everything that can be done with a pool, whatever comes of it.
fn endure(pool: &Pool, random: &mut fastrand::Rng) {
    let bytes = pool.stats().blocks as usize * 4096;
    let mut held = Vec::new();
    for _ in 0..50 {
        let Some(mut qbuf) = pool.alloc(random.usize(0..140_000)) else { continue };
        assert!(qbuf.offset() + qbuf.capacity() <= bytes && qbuf.len() <= qbuf.capacity());
        qbuf.fill(0xAA);
        match random.u8(0..6) {
            0 => held.extend(qbuf.split_off(random.u32(0..32))),
            1 => {
                let transit = Transit { channel: 1, from: pool.client(), to: pool.client() };
                let passed = pool.pass_to(qbuf, transit);
                held.extend(pool.take(passed, transit));
                let nonsense = Passed { block: random.u32(..), len: random.u32(..) };
                held.extend(pool.take(nonsense, transit));
                let near = Passed { block: random.u32(0..300), len: random.u32(0..140_000) };
                held.extend(pool.take(near, transit));
                pool.purge(transit);
                continue;
            }
            2 => {
                let pointer = qbuf.into_raw().0;
                held.extend(pool.from_raw(pointer));
                continue;
            }
            3 => qbuf.set_role(Role::Engine),
            4 => {
                let handle = pool.register();
                if let Some((pointer, _)) = pool.alloc_raw(5000) {
                    let _ = pool.free_raw(pointer);
                }
                let pointer = qbuf.into_raw().0;
                drop(handle.wrap(pointer, 100));
                continue;
            }
            _ => {}
        }
        held.push(qbuf);
    }
    for qbuf in &mut held {
        assert!(qbuf.offset() + qbuf.capacity() <= bytes && qbuf.len() <= qbuf.capacity());
        qbuf.fill(0x55);
    }
    for block in 0..random.u32(0..300) {
        pool.owner(block);
    }
    pool.sweep();
    if let Some(client) = pool.client_at(random.u16(..2000)) {
        pool.drop_client(client);
    }
    // A newcomer may be refused; it must not fail otherwise.
    if let Ok(newcomer) = Pool::attach(pool.fd().try_clone_to_owned().unwrap()) {
        newcomer.alloc(random.usize(0..100_000));
    }
}

//= B-6, B-15 test
fn guard() -> Result<(), Failed> {
    for (role, faults) in [("touch before", false), ("touch after passing", true), ("touch after freeing", true)] {
        let pool = pool(Variant::Locked, 1, true);
        let status = Worker::start(role, &pool, 0).child.wait()?;
        assert_eq!(status.signal(), faults.then_some(11), "{role}: {status}");
        assert!(faults || status.success(), "{role}: {status}");
    }
    Ok(())
}
