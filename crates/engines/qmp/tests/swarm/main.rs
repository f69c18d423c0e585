//! Random worlds: hosts, networks, profiles, programs that read slowly or sleep, shut down in either order, close with
//! and without what was not read, connect to where nobody listens; processes that stop, hosts that die and come back.
//! Each run from one seed.
//!
//! What always holds: every byte that is read is right, in order, and read once; every socket ends with one result, and
//! every write with one answer, which says `delivered` only if it was; memory goes back to nothing. Either every byte
//! arrives, or both ends are told. Where nothing stands in the way, everything arrives. `PINNACE_SEEDS=n` runs that many
//! seeds, `PINNACE_SEED=x` only that one.
#![allow(clippy::print_stdout, reason = "a seed that is run alone says what it finds")]

mod plan;
mod program;

use core::time::Duration;
use pinnace_core::Time;
use pinnace_qmp::socket::Errno;
use pinnace_sim::{HostId, Outcome, Simulation};
use pinnace_testing::swarm::{self, Swarm, Traced};
use pinnace_xtp::{Config, Xtp};
use plan::{Plan, Reading};
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
    if let Some((index, at, again)) = plan.death {
        world.schedule(Time::ZERO + at, move |world| world.power_off(host(index)));
        let config = Config { seed: !plan.seed, ..plan.configs[index].clone() };
        if let Some(after) = again {
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

fn seats(world: &World, at: usize, flow: usize, is_initiator: bool) -> impl Iterator<Item = &Seat> {
    let seats = world.application(host(at)).all_seats();
    seats.filter(move |seat| seat.flow == flow && seat.is_initiator == is_initiator)
}

fn check(plan: &Plan, world: &World) -> u64 {
    let seed = plan.seed;
    let has_died = |index: usize| plan.death.is_some_and(|(dead, ..)| dead == index);
    for index in (0..plan.configs.len()).filter(|index| !has_died(*index)) {
        let (program, engine) = (world.application(host(index)), world.engine(host(index)));
        for seat in program.all_seats() {
            assert!(seat.told.is_some(), "seed {seed}: flow {} never closed: {seat:?}", seat.flow);
        }
        program.check_memory();
        assert_eq!((engine.contexts(), engine.bytes()), (0, 0), "seed {seed}: {:?}", engine.counters());
    }
    let mut calm = 0;
    for (index, flow) in plan.flows.iter().enumerate() {
        let Some(initiator) = seats(world, flow.from, index, true).next().filter(|_| !has_died(flow.from)) else {
            continue;
        };
        if !flow.is_listened {
            let errno = initiator.told.and_then(Result::err).map(Errno::of);
            let is_right = matches!(errno, Some(Errno::Refused | Errno::TimedOut | Errno::Aborted));
            assert!(is_right, "seed {seed}: flow {index}: nobody listens, and {errno:?}");
        }
        if has_died(flow.to) {
            continue;
        }
        let responders: Vec<_> = seats(world, flow.to, index, false).collect();
        for (sender, readers) in
            [(initiator, &responders[..]), (responders.first().copied().unwrap_or(initiator), &[initiator])]
                .into_iter()
                .take(1 + usize::from(!responders.is_empty()))
        {
            check_told(plan, index, sender, readers);
        }
        if !plan.is_calm(flow) {
            continue;
        }
        calm += 1;
        let good = responders.iter().find(|seat| seat.told == Some(Ok(())));
        let Some(responder) = good else { panic!("seed {seed}: flow {index} failed: {responders:?} {initiator:?}") };
        assert_eq!(initiator.told, Some(Ok(())), "seed {seed}: flow {index} {flow:?}");
        assert_eq!((initiator.written, responder.written), (flow.initiator.bytes(), flow.responder.bytes()));
        assert_eq!((responder.read, initiator.read), (initiator.written, responder.written), "seed {seed}: {index}");
        assert!(initiator.has_read_all && responder.has_read_all, "seed {seed}: flow {index}");
    }
    calm
}

/// Every byte has arrived, or both are told.
fn check_told(plan: &Plan, index: usize, sender: &Seat, readers: &[&Seat]) {
    let seed = plan.seed;
    for reader in readers.iter().filter(|reader| reader.has_read_all) {
        assert_eq!(reader.read, sender.written, "seed {seed}: flow {index}: the stream ended early");
    }
    let delivered = sender.tickets.values().filter(|(_, told)| *told == Some(true)).map(|(high, _)| *high).max();
    let read = readers.iter().map(|reader| reader.read).max().unwrap_or(0);
    // Who closes without having read, or sleeps, has been sent more than it knows; it knows that it does not read.
    let flow = &plan.flows[index];
    let end = if sender.is_initiator { &flow.responder } else { &flow.initiator };
    let sleeps = matches!(end.reading, Reading::Sleeps(_));
    if sleeps || readers.is_empty() || readers.iter().any(|reader| reader.has_given_up) {
        return;
    }
    // Whoever breaks off takes back what has come and was not read, and knows that it does.
    let has_broken_off = sender.is_closed == Some(true);
    assert!(
        has_broken_off || delivered.is_none_or(|high| high <= read),
        "seed {seed}: flow {index}: {delivered:?} delivered, {read} read"
    );
    // A reader that has not seen the end is told why; and if bytes are missing, so is the sender. (That the last word of
    // all has come nobody can know.)
    let has_end = readers.iter().any(|reader| reader.has_read_all);
    let is_told = has_end || readers.iter().all(|reader| matches!(reader.told, Some(Err(_))));
    let is_told = is_told && (read == sender.written || matches!(sender.told, Some(Err(_))));
    assert!(is_told, "seed {seed}: flow {index}: not all was read, and nobody says so: {sender:?} {readers:?}");
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

//= Q-3 test
//= Q-4 test
//= Q-10 test
//= Q-11 test
#[test]
fn every_byte_arrives_or_both_ends_are_told() {
    let swarm = Swarm { package: "pinnace-qmp", seeds: 250, twice_every: 1 };
    let Some((seeds, [flows, calm])) = swarm.run(Plan::from_seed, run) else { return };
    println!("{flows} associations in {seeds} worlds, {calm} of them had to succeed");
    assert!(calm * 10 > flows, "hardly anything had to succeed: {calm} of {flows}");
}

#[test]
fn paths_that_shrink_in_mid_transfer_keep_the_promises() {
    swarm::shrinking(
        Plan::from_seed,
        |plan, shrink| [&mut plan.there, &mut plan.back].into_iter().for_each(shrink),
        run,
    );
}
