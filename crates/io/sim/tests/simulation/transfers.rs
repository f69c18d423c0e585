//! A buffer that travels, under everything that the network can do.

use crate::bulk::{Bulk, Event, UNIT};
use core::time::Duration;
use pinnace_core::{BufferId, Random, Time};
use pinnace_sim::{Application, HostConfig, HostHandle, HostId, NetworkConfig, Outcome, Simulation};

pub(crate) const A: HostId = HostId::new(0);
pub(crate) const B: HostId = HostId::new(1);
pub(crate) const DEADLINE: Time = Time::from_nanos(3_600_000_000_000);

/// Waits for the end of the transfer.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    pub(crate) end: Option<(Time, Event)>,
}

impl Application<Bulk> for Waiter {
    fn on_event(&mut self, now: Time, event: Event, _: &mut HostHandle<'_, Bulk>) {
        self.end.get_or_insert((now, event));
    }
    fn is_done(&self) -> bool {
        self.end.is_some()
    }
}

pub(crate) struct Transfer {
    pub(crate) simulation: Simulation<Bulk, Waiter>,
    pub(crate) data: Vec<u8>,
    pub(crate) into: BufferId,
}

impl Transfer {
    pub(crate) fn new(seed: u64, network: &str, len: usize, config: HostConfig) -> Self {
        let network: NetworkConfig = network.parse().unwrap();
        let mut simulation = Simulation::new(seed);
        for _ in 0..2 {
            simulation.add_host_with(Bulk::new(32), Waiter::default(), config);
        }
        simulation.link(A, B, &network, &network);
        let mut random = Random::from_seed(seed ^ 1);
        let data: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        let from = simulation.add_buffer(A, data.clone());
        let into = simulation.add_buffer(B, vec![0; len]);
        simulation.call(B, |engine| engine.receive(A.address(), into, len));
        simulation.call(A, |engine| engine.send(Time::ZERO, B.address(), from, len));
        Self { simulation, data, into }
    }

    pub(crate) fn arrived(&self) -> bool {
        self.simulation.buffer(B, self.into) == self.data
    }
}

#[test]
fn trains_land_in_place() {
    let mut transfer = Transfer::new(1, "delay=10ms", 100 * UNIT + 7, HostConfig::default());
    assert_eq!(transfer.simulation.run(DEADLINE), Outcome::Done);
    assert!(transfer.arrived());
    let counters = transfer.simulation.counters(B);
    // Four windows: 32, 32, 32, and 4 with a short last one. Answers come back 20 ms after each.
    assert_eq!((counters.reads, counters.datagrams_received), (4, 101));
    assert_eq!((counters.bytes_placed, counters.bytes_moved), (100 * UNIT as u64 + 7, 0));
    let end = |host| transfer.simulation.application(host).end;
    assert_eq!(end(B), Some((Time::ZERO + Duration::from_millis(70), Event::Received)));
    assert_eq!(end(A), Some((Time::ZERO + Duration::from_millis(80), Event::Sent)));
}

#[test]
fn wrong_guesses_are_moved_right() {
    let mut transfer = Transfer::new(2, "delay=10ms", 64 * UNIT, HostConfig::default());
    transfer.simulation.call(B, |engine| engine.guess_wrong = true);
    assert_eq!(transfer.simulation.run(DEADLINE), Outcome::Done);
    assert!(transfer.arrived(), "all units of a read change places at once");
    assert_eq!(transfer.simulation.counters(B).bytes_moved, 64 * UNIT as u64);
}

#[test]
fn a_stack_without_offloads_does_the_same() {
    let mut transfer = Transfer::new(3, "delay=10ms,rate=10mbit,mtu=1500", 40 * UNIT, HostConfig::plain());
    assert_eq!(transfer.simulation.run(DEADLINE), Outcome::Done);
    let (a, b) = (transfer.simulation.counters(A), transfer.simulation.counters(B));
    assert!(transfer.arrived());
    assert_eq!((a.trains_sent, b.reads, b.reads_coalesced), (40, 40, 0));
}

#[test]
fn a_busy_host_reads_what_piled_up() {
    let config = HostConfig { read_cost: Duration::from_millis(1), reads_per_batch: 4, ..HostConfig::default() };
    let mut transfer = Transfer::new(4, "rate=100mbit,delay=1ms", 64 * UNIT, config);
    assert_eq!(transfer.simulation.run(DEADLINE), Outcome::Done);
    assert!(transfer.arrived());
    let counters = transfer.simulation.counters(B);
    assert!(counters.reads_coalesced > 0 && counters.reads < 20, "{counters}");
}

#[test]
fn buffers_survive_every_network() {
    let networks = [
        "loss=20%,delay=5ms",
        "burst-loss=5%:20%,rate=10mbit,delay=5ms",
        "train-loss=30%,delay=1ms",
        "reorder=20%:3ms,duplicate=20%,delay=2ms,jitter=5ms",
        "corrupt=10%,partition=5ms..700ms,delay=2ms",
        "adversary=5000,delay=2ms,rate=20mbit,loss=5%",
        "rate=1mbit,queue=8000,delay=20ms",
    ];
    for (i, network) in networks.iter().enumerate() {
        for seed in 0..20 {
            let mut transfer = Transfer::new(seed, network, 100 * UNIT + 1, HostConfig::default());
            let outcome = transfer.simulation.run(DEADLINE);
            assert!(outcome == Outcome::Done && transfer.arrived(), "network {i}, seed {seed}: {outcome:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let network = "rate=20mbit,delay=5ms,jitter=2ms,loss=3%,burst-loss=1%:30%,train-loss=1%,reorder=2%,duplicate=1%,\
                   corrupt=1%,adversary=2000";
    let run = |seed| {
        let mut transfer = Transfer::new(seed, network, 200 * UNIT, HostConfig::default());
        transfer.simulation.trace_mut().set_limit(usize::MAX);
        assert_eq!(transfer.simulation.run(DEADLINE), Outcome::Done);
        (transfer.simulation.digest(), transfer.simulation.trace().to_string(), transfer.simulation.now())
    };
    let digests: Vec<u64> = (0..20)
        .map(|seed| {
            let (first, second) = (run(seed), run(seed));
            assert!(first == second, "seed {seed}");
            first.0
        })
        .collect();
    let mut different = digests.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), digests.len());
}
