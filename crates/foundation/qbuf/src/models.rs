//! Every interleaving of a few operations, by `loom`. Zones have 4 blocks here.
//!
//! Each model ends with an audit: nothing leaked, no lock stuck, nothing given to two.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc as Shared, Mutex};

use loom::sync::Arc;
use loom::thread;

use crate::layout::Variant;
use crate::owner::ClientId;
use crate::sync::{Ordering, crash};
use crate::world::{Run, World};

const DEAD: u32 = 1;

fn model(body: impl Fn() + Sync + Send + 'static) {
    bounded_model(3, body);
}

/// With at most that many switches that nobody asked for: more than bugs need, and without a bound the larger models would
/// run for hours.
fn bounded_model(switches: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(body);
}

/// Two threads of two processes; what is left is audited.
fn race(
    world: World,
    one: impl FnOnce(&World) + Send + 'static,
    other: impl FnOnce(&World) + Send + 'static,
) -> Arc<World> {
    let world = Arc::new(world);
    let theirs = world.clone();
    let thread = thread::spawn(move || other(&theirs));
    one(&world);
    thread.join().expect("the other thread ends");
    world
}

/// Allocates, makes sure that the run stays its own, and frees it.
fn use_blocks(world: &World, me: ClientId, blocks: u32) {
    if let Some(run) = world.alloc(me, blocks) {
        thread::yield_now();
        assert_eq!(world.word(run.zone, run.first).load(Ordering::Acquire), run.word.0, "given to two");
        assert!(world.free(me, &run), "freed by another");
    }
}

fn alloc_and_free(variant: Variant, zones: usize, mine: u32, theirs: u32) {
    model(move || {
        let world = World::new(variant, zones, 2);
        let (one, other) = (world.enter(2), world.enter(3));
        let world =
            race(world, move |world| use_blocks(world, one, mine), move |world| use_blocks(world, other, theirs));
        crate::deferred::drain(world.tables(), one);
        world.audit(0);
    });
}

//= B-4 test
#[test]
fn locked_alloc_and_free() {
    alloc_and_free(Variant::Locked, 2, 1, 3);
}

//= B-4 test
#[test]
fn lock_free_alloc_and_free_of_one() {
    alloc_and_free(Variant::LockFree, 1, 1, 1);
}

//= B-4 test
#[test]
fn lock_free_alloc_and_free_of_runs() {
    alloc_and_free(Variant::LockFree, 1, 2, 3);
}

//= B-4 test
#[test]
fn runs_of_two_never_overlap() {
    for variant in [Variant::Locked, Variant::LockFree] {
        model(move || {
            let world = World::new(variant, 1, 2);
            let (one, other) = (world.enter(2), world.enter(3));
            let keep = |runs: Shared<Mutex<Vec<Run>>>, me| {
                move |world: &World| {
                    // Outside the mutex, which knows nothing of models.
                    let run = world.alloc(me, 2);
                    runs.lock().expect("not poisoned").extend(run);
                }
            };
            let runs = Shared::new(Mutex::new(Vec::new()));
            let world = race(world, keep(runs.clone(), one), keep(runs.clone(), other));
            let runs = runs.lock().expect("not poisoned");
            let taken: u32 = runs.iter().map(|run| run.blocks).sum();
            assert!(taken >= 2, "one of the two gets something");
            world.audit(taken);
        });
    }
}

//= B-5 test
#[test]
fn a_deferred_free_is_not_lost() {
    model(|| {
        let world = World::new(Variant::Locked, 1, 2);
        let (one, other) = (world.enter(2), world.enter(3));
        let run = world.alloc(one, 2).expect("the pool is empty");
        let world = race(world, move |world| assert!(world.free(one, &run)), move |world| use_blocks(world, other, 1));
        crate::deferred::drain(world.tables(), one);
        world.audit(0);
    });
}

/// A process dies at one access after the other of `life`; then a sweep races with another process at work.
fn sweep_races(variant: Variant, life: impl Fn(&World, ClientId) + Copy + Send + Sync + 'static) {
    let mut deaths = 0;
    let outlived = Shared::new(AtomicBool::new(false));
    while !outlived.load(Relaxed) {
        let outlived = outlived.clone();
        bounded_model(2, move || {
            let world = World::new(variant, 1, 3);
            let (dead, sweeper, other) = (world.enter(DEAD), world.enter(2), world.enter(3));
            let done = crash::after(deaths, || life(&world, dead)).is_some();
            outlived.store(done, Relaxed);
            let world = race(
                world,
                move |world| {
                    world.sweep(sweeper, &[DEAD]);
                },
                move |world| use_blocks(world, other, 2),
            );
            crate::deferred::drain(world.tables(), other);
            world.audit(0);
        });
        deaths += 1;
    }
    assert!(deaths > 3);
}

//= B-12 test
#[test]
fn locked_sweep_while_others_work() {
    sweep_races(Variant::Locked, |world, me| {
        let run = world.alloc(me, 2).expect("the pool is empty");
        world.free(me, &run);
    });
}

//= B-12 test
#[test]
fn lock_free_sweep_while_others_work() {
    sweep_races(Variant::LockFree, |world, me| {
        let run = world.alloc(me, 2).expect("the pool is empty");
        world.free(me, &run);
    });
}

//= B-12 test
#[test]
fn two_sweeps_at_once() {
    for variant in [Variant::Locked, Variant::LockFree] {
        model(move || {
            let world = World::new(variant, 1, 3);
            let (dead, one, other) = (world.enter(DEAD), world.enter(2), world.enter(3));
            world.alloc(dead, 2).expect("the pool is empty");
            let sweep = |me| {
                move |world: &World| {
                    world.sweep(me, &[DEAD]);
                }
            };
            let world = race(world, sweep(one), sweep(other));
            crate::deferred::drain(world.tables(), one);
            world.audit(0);
        });
    }
}
