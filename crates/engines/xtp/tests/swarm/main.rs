//! Random worlds: hosts, networks, services, sizes, windows, rates, programs that read slowly, stop reading, close in
//! every way or not at all, hosts that die and come back. Each run from one seed.
//!
//! What always holds: every byte that is read is right and read once, messages are whole, holes are told exactly; every
//! context ends with one `Closed`, every output with one `Sent`, which says `delivered` only if it was; memory goes back
//! to nothing; control packets are bounded by what arrives; nothing goes round in circles. Where nothing stands in the
//! way, everything arrives. `PINNACE_SEEDS=n` runs that many seeds, `PINNACE_SEED=x` only that one.
#![allow(clippy::print_stdout, reason = "a seed that is run alone says what it finds")]

mod plan;
mod program;

use core::time::Duration;
use pinnace_core::Time;
use pinnace_sim::{HostId, Outcome, Simulation};
use pinnace_testing::swarm::{self, Swarm, Traced};
use pinnace_xtp::{Close, Config, Service, Xtp};
use plan::{Death, Ending, Plan, Reading};
use program::{Program, Seat};
use std::rc::Rc;

type World = Simulation<Xtp, Program>;

fn host(index: usize) -> HostId {
    HostId::new(index as u32)
}

fn build(plan: &Rc<Plan>) -> World {
    let mut world = World::new(plan.seed);
    for (index, config) in plan.configs.iter().enumerate() {
        let program = Program::new(Rc::clone(plan), index);
        let added = world.add_host_with(Xtp::new(config.clone(), Time::ZERO), program, plan.hosts[index]);
        assert_eq!(added, host(index));
        for other in 0..index {
            world.link(host(index), host(other), &plan.there, &plan.back);
        }
    }
    if let Some((index, at, how, again)) = plan.death {
        world.schedule(Time::ZERO + at, move |world| match how {
            Death::Kill => world.kill(host(index)),
            Death::PowerOff => world.power_off(host(index)),
            Death::ShutDown => {
                let now = world.now();
                world.call(host(index), |engine| engine.shut_down(now));
            }
        });
        let config = Config { seed: !plan.seed, ..plan.configs[index].clone() };
        if let Some(after) = again.filter(|_| !matches!(how, Death::ShutDown)) {
            world.schedule(Time::ZERO + at + after, move |world| {
                let now = world.now();
                world.restart(host(index), Xtp::new(config, now));
            });
        }
    }
    if let Some((index, at, time)) = plan.freeze {
        world.schedule(Time::ZERO + at, move |world| world.freeze(host(index), time));
    }
    world
}

/// Whether somebody died there.
fn has_died(plan: &Plan, index: usize) -> bool {
    plan.death.is_some_and(|(dead, ..)| dead == index)
}

fn seats(world: &World, at: usize, flow: usize, is_initiator: bool) -> impl Iterator<Item = &Seat> {
    let seats = world.application(host(at)).all_seats();
    seats.filter(move |seat| seat.flow == flow && seat.is_initiator == is_initiator)
}

fn check(plan: &Plan, world: &World) -> u64 {
    let seed = plan.seed;
    for index in (0..plan.configs.len()).filter(|index| !has_died(plan, *index)) {
        let (program, engine) = (world.application(host(index)), world.engine(host(index)));
        for seat in program.all_seats() {
            assert!(seat.closed.is_some(), "seed {seed}: flow {} never closed: {seat:?}", seat.flow);
        }
        program.check_memory();
        assert_eq!((engine.contexts(), engine.bytes()), (0, 0), "seed {seed}: {:?}", engine.counters());
        let counters = engine.counters();
        let heard = world.counters(host(index)).datagrams_received;
        let own = counters.timeouts + counters.contexts_opened + counters.contexts_accepted + program.reads;
        let sent = counters.statuses_sent;
        assert!(sent <= heard + 4 * own + 50, "seed {seed}: {sent} statuses for {heard} packets: {counters:?}");
    }
    let mut calm = 0;
    for (index, flow) in plan.flows.iter().enumerate() {
        if has_died(plan, flow.from) || has_died(plan, flow.to) {
            continue;
        }
        let service = flow.block.service;
        let copies = world.application(host(flow.to)).datagrams.iter().filter(|&&of| of == index).count();
        if service == Service::AckDgram && plan.remembers(flow) {
            assert!(copies <= 1, "seed {seed}: flow {index}: a datagram came {copies} times");
        }
        let Some(initiator) = seats(world, flow.from, index, true).next() else { continue };
        let responders: Vec<_> = seats(world, flow.to, index, false).collect();
        check_delivered(plan, index, initiator, &responders, copies);
        for responder in &responders {
            check_delivered(plan, index, responder, &[initiator], 0);
        }
        if !plan.is_calm(flow) || initiator.queued < flow.initiator.bytes() && service.is_datagram() {
            continue;
        }
        calm += 1;
        assert_eq!(initiator.closed.map(|closed| closed.0), Some(Ok(())), "seed {seed}: flow {index} {flow:?}");
        if service.is_datagram() {
            assert!(copies > 0 || service == Service::UnackDgram, "seed {seed}: flow {index}");
            continue;
        }
        let good = responders.iter().find(|seat| seat.closed.is_some_and(|closed| closed.0.is_ok()));
        let Some(responder) = good else { panic!("seed {seed}: flow {index} failed: {responders:?} {initiator:?}") };
        assert_eq!(initiator.queued, flow.initiator.bytes(), "seed {seed}: flow {index}");
        assert_eq!(responder.queued, flow.responder.bytes(), "seed {seed}: flow {index}");
        assert_eq!(responder.read, initiator.queued, "seed {seed}: flow {index}: not all was read");
        assert_eq!(initiator.read, responder.queued, "seed {seed}: flow {index}: not all was read");
        assert!(initiator.has_read_all && responder.has_read_all, "seed {seed}: flow {index}");
    }
    calm
}

/// What counts as delivered was, and who has read to the end has read everything.
fn check_delivered(plan: &Plan, index: usize, sender: &Seat, readers: &[&Seat], copies: usize) {
    let seed = plan.seed;
    let flow = &plan.flows[index];
    let service = flow.block.service;
    let delivered = sender.tickets.values().filter(|(_, told)| *told == Some(true));
    let Some(high) = delivered.map(|(high, _)| *high).max() else { return };
    if service == Service::AckDgram {
        assert!(copies > 0, "seed {seed}: flow {index}: delivered, but not there");
    }
    if matches!(service, Service::AckDgram | Service::UnackDgram | Service::IsoStream) {
        return;
    }
    let end = if sender.is_initiator { &flow.responder } else { &flow.initiator };
    let reads = matches!(end.reading, Reading::AtOnce | Reading::Slowly(..))
        && matches!(end.ending, Ending::Close(Close::Full) | Ending::AfterReading | Ending::Never);
    // Who lets go of the context at the last call may not have read all of it.
    let reads =
        reads && readers.iter().all(|seat| seat.closed.is_some_and(|(_, at)| at < Time::ZERO + plan::LAST_CALL));
    let read = readers.iter().map(|seat| seat.read).max().unwrap_or(0);
    assert!(!reads || read >= high, "seed {seed}: flow {index}: {high} bytes delivered, {read} read {readers:?}");
    let all = readers.iter().filter(|seat| seat.has_read_all && !seat.stopped);
    for reader in all {
        assert_eq!(reader.read, sender.queued, "seed {seed}: flow {index}: the stream ended early");
    }
}

/// Returns what decides whether two runs were the same, and how many flows there were and had to succeed.
fn run(plan: Plan) -> (u64, [u64; 2]) {
    let plan = Rc::new(plan);
    let mut world = Traced::new(build(&plan), swarm::hex);
    let outcome = world.run_until_quiet(Time::ZERO + Duration::from_secs(1000));
    if swarm::only_seed().is_some() {
        for host in world.hosts().collect::<Vec<_>>() {
            println!("{host}: {:?}", world.engine(host).counters());
        }
    }
    assert_eq!(outcome, Outcome::Quiet, "seed {}", plan.seed);
    let calm = check(&plan, &world);
    let records = (0..plan.configs.len()).map(|index| world.application(host(index)).record);
    (records.fold(world.digest(), |digest, record| digest.rotate_left(7) ^ record), [plan.flows.len() as u64, calm])
}

//= X-10 test
//= X-13 test
//= X-16 test
//= X-17 test
//= X-20 test
//= X-21 test
//= X-23 test
#[test]
fn what_is_read_is_right_and_everybody_is_told() {
    let swarm = Swarm { package: "pinnace-xtp", seeds: 4_000, twice_every: 50 };
    let Some((seeds, [flows, calm])) = swarm.run(Plan::from_seed, run) else { return };
    println!("{flows} associations in {seeds} worlds, {calm} of them had to succeed");
    assert!(calm * 50 > flows, "hardly anything had to succeed: {calm} of {flows}");
}

/// The last bytes that a stream without repetition might send were lost, and nothing came behind them that showed so.
//= X-15 test
#[test]
fn worlds_that_stood_still_once() {
    for seed in [36_878, 46_259] {
        run(Plan::from_seed(seed));
    }
}

#[test]
fn paths_that_shrink_in_mid_transfer_keep_the_promises() {
    swarm::shrinking(
        Plan::from_seed,
        |plan, shrink| [&mut plan.there, &mut plan.back].into_iter().for_each(shrink),
        run,
    );
}
