//! Swarms: many runs of one engine on the simulator, each decided by a seed.
//!
//! `PINNACE_SEEDS=n` runs that many seeds, from `PINNACE_FROM` on; `PINNACE_SEED=x` only that one, twice, and prints its
//! plan; with `PINNACE_TRACE=n` it runs once, and prints the latest n datagrams ([`Traced`]; `-- --nocapture`, if it passes).
//! `PINNACE_FAILURES` seeds that fail (3) end a swarm. Always true: the same seed is the same course of events.

use core::fmt::Debug;
use core::time::Duration;
use pinnace_core::{Engine, Random};
use pinnace_sim::nodes::GilbertElliott;
use pinnace_sim::{Application, Coalesce, HostConfig, NetworkConfig, Simulation};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) fn number_from(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The only seed that is to be run: then a run may print what it finds.
pub fn only_seed() -> Option<u64> {
    number_from("PINNACE_SEED")
}

/// How many datagrams are to be printed of the only seed.
fn traced_events() -> Option<u64> {
    only_seed().and_then(|_| number_from("PINNACE_TRACE"))
}

/// A simulation that prints its trace when it ends, however it does, if `PINNACE_TRACE` asks for that.
#[derive(Debug)]
pub struct Traced<E: Engine, A: Application<E>>(Simulation<E, A>);

impl<E: Engine, A: Application<E>> Traced<E, A> {
    /// `describe` turns a datagram into a short text ([`hex`], if nothing better is at hand).
    pub fn new(mut world: Simulation<E, A>, describe: fn(&[u8]) -> String) -> Self {
        if let Some(events) = traced_events() {
            world.trace_mut().set_limit(usize::try_from(events).unwrap_or(usize::MAX));
            world.trace_mut().set_formatter(describe);
        }
        Self(world)
    }
}

impl<E: Engine, A: Application<E>> Deref for Traced<E, A> {
    type Target = Simulation<E, A>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<E: Engine, A: Application<E>> DerefMut for Traced<E, A> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<E: Engine, A: Application<E>> Drop for Traced<E, A> {
    #[allow(clippy::print_stdout, reason = "whoever runs the tests has asked for it")]
    fn drop(&mut self) {
        if traced_events().is_some() {
            print!("{}", self.0.trace());
        }
    }
}

/// The first bytes of a datagram.
pub fn hex(datagram: &[u8]) -> String {
    datagram.iter().take(40).map(|byte| format!("{byte:02x}")).collect()
}

/// The runs of one test.
#[derive(Clone, Copy, Debug)]
pub struct Swarm {
    /// The crate whose test `swarm` it is: what repeats a seed names it.
    pub package: &'static str,
    /// How many seeds, unless the environment says another number.
    pub seeds: u64,
    /// Every so manyth seed is run twice.
    pub twice_every: u64,
}

impl Swarm {
    /// Runs plans. Each run returns a digest of all that happened, and numbers of what it saw; returns their sums, and how
    /// many seeds there were, unless only one was to be run.
    ///
    /// # Panics
    ///
    /// If runs do, or one seed has two courses of events; the seeds are printed.
    #[allow(clippy::print_stdout, clippy::print_stderr, reason = "a failing seed is told to whoever runs the tests")]
    pub fn run<P: Debug, const N: usize>(
        &self,
        plan: impl Fn(u64) -> P + Sync,
        run: impl Fn(P) -> (u64, [u64; N]) + Sync,
    ) -> Option<(u64, [u64; N])> {
        let run_twice = |seed, is_twice: bool| {
            let first = run(plan(seed));
            let is_same = !is_twice || run(plan(seed)) == first;
            assert!(is_same, "seed {seed}: the same seed, another course of events");
            first.1
        };
        if let Some(seed) = only_seed() {
            println!("{:#?}", plan(seed));
            run_twice(seed, traced_events().is_none());
            return None;
        }
        let seeds = number_from("PINNACE_SEEDS").unwrap_or(self.seeds);
        let most = number_from("PINNACE_FAILURES").unwrap_or(3);
        let next = AtomicU64::new(number_from("PINNACE_FROM").unwrap_or(0));
        let last = next.load(Ordering::Relaxed) + seeds;
        let (failures, sums) = (AtomicU64::new(0), Mutex::new([0; N]));
        let work = || {
            while failures.load(Ordering::Relaxed) < most {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= last {
                    break;
                }
                let is_twice = seed.is_multiple_of(self.twice_every);
                if let Ok(seen) = catch_unwind(AssertUnwindSafe(|| run_twice(seed, is_twice))) {
                    let mut sums = sums.lock().expect("adding does not panic");
                    sums.iter_mut().zip(seen).for_each(|(sum, seen)| *sum += seen);
                } else {
                    failures.fetch_add(1, Ordering::Relaxed);
                    eprintln!("failed: PINNACE_SEED={seed} cargo test -p {} --test swarm", self.package);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
                scope.spawn(work);
            }
        });
        assert_eq!(failures.into_inner(), 0, "seeds failed; see above");
        Some((seeds, sums.into_inner().expect("adding does not panic")))
    }
}

/// One of `choices`, which is not empty.
pub fn pick<T: Clone>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize].clone()
}

/// At most `most` microseconds.
pub fn micros(random: &mut Random, most: u64) -> Duration {
    Duration::from_micros(random.below(most + 1))
}

/// At most `most` milliseconds.
pub fn millis(random: &mut Random, most: u64) -> Duration {
    micros(random, most * 1000)
}

/// Runs 60 worlds of which the networks, as `each` hands them over, carry packets of 600 bytes at most from some moment on;
/// one of three does not say so. What is too large is cut then, or told of, or both ends are told that nothing comes through.
pub fn shrinking<P, R>(
    plan: impl Fn(u64) -> P,
    each: impl Fn(&mut P, &dyn Fn(&mut NetworkConfig)),
    run: impl Fn(P) -> R,
) {
    for seed in 0..60 {
        let mut plan = plan(seed);
        each(&mut plan, &|network| {
            network.mtu_changes = vec![(Duration::from_millis(seed * 7 % 200), 600)];
            network.icmp = !seed.is_multiple_of(3);
        });
        run(plan);
    }
}

/// Whether a network says when it has begun to carry less. In one that does not, everything may vanish from then on.
pub fn tells(network: &NetworkConfig) -> bool {
    network.icmp || network.mtu_changes.is_empty()
}

/// A network with a delay of at most so many microseconds, and faults of most kinds: losses of datagrams, of which
/// `losses` says the shares, in bursts, and of trains; jitter, reordering, duplicates, and damage (`damages`).
pub fn network(random: &mut Random, delay: u64, losses: &[f64], damages: &[f64]) -> NetworkConfig {
    let mut network = NetworkConfig { delay: micros(random, delay), ..NetworkConfig::default() };
    if random.chance(0.5) {
        network.loss = pick(random, losses);
    }
    if random.chance(0.2) {
        // Bursts of 2 to 64.
        network.burst_loss = Some(GilbertElliott::new(0.01, 1.0 / pick(random, &[2.0, 8.0, 64.0])));
    }
    if random.chance(0.2) {
        network.train_loss = pick(random, &[0.02, 0.2]);
    }
    if random.chance(0.3) {
        network.jitter = micros(random, delay / 4);
    }
    if random.chance(0.3) {
        network.reorder = pick(random, &[0.01, 0.3]);
        network.reorder_by = micros(random, delay * 3 / 10);
    }
    if random.chance(0.3) {
        network.duplicate = pick(random, &[0.01, 0.3]);
    }
    if random.chance(0.2) {
        network.corrupt = pick(random, damages);
    }
    network
}

/// A time in which nothing arrives: it begins within half a second and lasts for one of so many milliseconds.
pub fn outage(random: &mut Random, lasts: &[u64]) -> (Duration, Duration) {
    let low = millis(random, 500);
    (low, low + Duration::from_millis(pick(random, lasts)))
}

/// A host: how much its socket keeps, how it reads, and how long that takes.
pub fn host(random: &mut Random) -> HostConfig {
    let base = if random.chance(0.3) { HostConfig::plain() } else { HostConfig::default() };
    let base = HostConfig { receive_buffer: pick(random, &[70_000, 300_000, 4 << 20]), ..base };
    match random.below(4) {
        0 => HostConfig { coalesce: Coalesce::Flow, reads_per_batch: 4, read_delay: millis(random, 1), ..base },
        1 => HostConfig { read_cost: micros(random, 50), ..base },
        _ => base,
    }
}

/// Mixes the bits of a number.
pub const fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// The bytes from `low` on of what one end of a flow sends.
pub fn content(seed: u64, flow: usize, is_initiator: bool, low: u64, len: u64) -> Vec<u8> {
    let stream = mix(seed ^ (flow as u64) << 33 ^ u64::from(is_initiator) << 32);
    let mut bytes = Vec::with_capacity(len as usize + 8);
    for block in low / 8..(low + len).div_ceil(8) {
        bytes.extend_from_slice(&mix(stream ^ block).to_le_bytes());
    }
    bytes.drain(..(low % 8) as usize);
    bytes.truncate(len as usize);
    bytes
}
