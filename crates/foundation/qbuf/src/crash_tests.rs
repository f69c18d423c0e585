//! Death at every access to shared memory, one after the other: what each operation leaves behind, a sweep puts right;
//! and so it does when the sweeper dies, too.

use crate::layout::Variant;
use crate::owner::{ClientId, Transit};
use crate::pool::{Pool, PoolOptions};
use crate::sync::crash;
use crate::world::World;

const VARIANTS: [Variant; 2] = [Variant::Locked, Variant::LockFree];
/// Who dies, who dies sweeping after it, and who stays.
const FIRST: u32 = 11;
const SECOND: u32 = 12;
const SURVIVOR: u32 = 13;

/// Lets `work` die at its every access; after each death a second process dies at every access of its sweep (only the
/// first, third, ... if `step` is 2), and a third one, the survivor, sweeps. What `prepare` returns is how many blocks the
/// survivor has.
fn die_everywhere(
    variants: &[Variant],
    prepare: impl Fn(&World, ClientId) -> u32,
    step: usize,
    work: impl Fn(&World, ClientId),
) {
    for &variant in variants {
        let mut deaths = 0;
        loop {
            let mut sweeps = 0;
            let done = loop {
                let world = World::new(variant, 2, 6);
                let (first, survivor) = (world.enter(FIRST), world.enter(SURVIVOR));
                let taken = prepare(&world, survivor);
                let outlived = crash::after(deaths, || work(&world, first)).is_some();
                let second = world.enter(SECOND);
                let swept = crash::after(sweeps, || world.sweep(second, &[FIRST])).is_some();
                world.sweep(survivor, &[FIRST, SECOND]);
                // What was left to whoever locks the zone next.
                crate::deferred::drain(world.tables(), survivor);
                world.audit(taken);
                assert_eq!(crate::recovery::clients(world.tables()), 1, "slots of the dead are free");
                let blocks = world.alloc(survivor, 20).map(|run| run.blocks);
                assert_eq!(blocks, Some(20), "the pool goes on");
                if swept {
                    break outlived;
                }
                sweeps += step as u32;
            };
            if done {
                break;
            }
            deaths += 1;
        }
        assert!(deaths > 2, "{variant:?}: {deaths} deaths");
    }
}

//= B-12 test
#[test]
fn death_while_allocating_leaks_nothing() {
    let prepare = |world: &World, survivor| {
        world.alloc(survivor, 3).unwrap();
        3
    };
    die_everywhere(&VARIANTS, prepare, 7, |world, me| {
        for blocks in [1, 4, 30] {
            world.alloc(me, blocks).unwrap();
        }
    });
}

//= B-12 test
#[test]
fn death_while_freeing_leaks_nothing() {
    die_everywhere(
        &VARIANTS,
        |_, _| 0,
        7,
        |world, me| {
            let runs: Vec<_> = [2, 1, 5].map(|blocks| world.alloc(me, blocks).unwrap()).into();
            runs.iter().for_each(|run| assert!(world.free(me, run)));
            world.alloc(me, 3).unwrap();
        },
    );
}

//= B-5, B-12 test
#[test]
fn death_while_deferring_leaks_nothing() {
    die_everywhere(
        &[Variant::Locked],
        |_, _| 0,
        5,
        |world, me| {
            let run = world.alloc(me, 3).unwrap();
            // As if another thread of the same process were at work in the zone.
            let lock = &world.zone(0).lock;
            let held = crate::locked::try_lock(lock, me);
            assert!(held && world.free(me, &run));
            crate::locked::unlock(lock);
            crate::deferred::drain(world.tables(), me);
        },
    );
}

//= B-5 test
#[test]
fn a_free_of_a_locked_zone_is_done_by_the_next_operation_of_anybody() {
    let world = World::new(Variant::Locked, 2, 2);
    let (one, other) = (world.enter(FIRST), world.enter(SECOND));
    let run = world.alloc(one, 32).unwrap();
    let elsewhere = world.alloc(other, 1).unwrap();
    assert!(crate::locked::try_lock(&world.zone(0).lock, other));
    assert!(world.free(one, &run), "nobody waits");
    assert_eq!(world.counters.deferred_frees.value(), 1);
    assert!(!world.free(one, &run), "once is enough");
    assert_eq!(world.alloc(one, 32).map(|run| run.zone), None, "zone 0 is locked, zone 1 has 31 blocks");
    crate::locked::unlock(&world.zone(0).lock);
    assert!(world.free(other, &elsewhere), "a free anywhere drains the queue");
    world.audit(0);
}

//= B-4 test
#[test]
fn an_allocator_passes_a_locked_zone_by() {
    let world = World::new(Variant::Locked, 2, 2);
    let (one, other) = (world.enter(FIRST), world.enter(SECOND));
    assert!(crate::locked::try_lock(&world.zone(0).lock, other));
    assert_eq!(world.alloc(one, 1).map(|run| run.zone), Some(1));
    crate::locked::unlock(&world.zone(0).lock);
    assert_eq!(world.alloc(one, 1).map(|run| run.zone), Some(0));
}

//= B-12 test
#[test]
fn death_while_entering_or_leaving_leaves_the_slot_free() {
    for deaths in 0.. {
        let world = World::new(Variant::Locked, 1, 2);
        let survivor = world.enter(SURVIVOR);
        let outlived = crash::after(deaths, || {
            let me = world.enter(FIRST);
            world.alloc(me, 1).unwrap();
            crate::recovery::leave(world.tables(), me, crate::recovery::Identity::new(FIRST, 7));
        });
        world.sweep(survivor, &[FIRST]);
        world.audit(0);
        world.enter(SECOND);
        if outlived.is_some() {
            return;
        }
    }
}

//= B-12 test
#[test]
fn halves_of_a_run_that_was_being_cut_in_two_are_freed_one_by_one() {
    use crate::owner::{Kind, Word};
    for is_locked in [false, true] {
        let world = World::new(Variant::Locked, 2, 3);
        let (dead, sweeper, other) = (world.enter(FIRST), world.enter(SECOND), world.enter(SURVIVOR));
        let run = world.alloc(dead, 4).unwrap();
        let tail = Word::owned(Kind::User, 2, dead);
        world.word(0, 2).store(tail.0, crate::sync::Ordering::Release);
        let free = |first, word| crate::locked::free_of_dead(world.tables(), sweeper, 0, first, word, &world.counters);
        let held = is_locked && crate::locked::try_lock(&world.zone(0).lock, other);
        assert!(free(0, run.word));
        if held {
            crate::locked::unlock(&world.zone(0).lock);
        }
        // Somebody allocates between the two steps of the sweep.
        let runs = [4, 2].map(|blocks| world.alloc(other, blocks).unwrap());
        assert_eq!(runs.map(|run| (run.zone, run.first)), [(0, 4), (0, 0)]);
        assert!(free(2, tail));
        world.audit(6);
    }
}

//= B-13 test
#[test]
fn a_name_that_somebody_wrote_into_the_lock_of_the_sweep_stops_it_for_a_while_only() {
    use std::time::{Duration, Instant};
    let world = World::new(Variant::Locked, 1, 3);
    let (dead, living, survivor) = (world.enter(FIRST), world.enter(SECOND), world.enter(SURVIVOR));
    world.alloc(dead, 4).unwrap();
    let sweeper = &world.tables().header.sweeper;
    sweeper.store(crate::locked::Holder::of(living).0, crate::sync::Ordering::Release);
    let (waiting, begin) = (crate::recovery::Waiting::default(), Instant::now());
    let sweep = |seconds| world.sweep_at(survivor, &[FIRST], (&waiting, begin + Duration::from_secs(seconds)));
    // Of one that was seen at two moments far apart nobody knows that it was there all the time.
    for seconds in [0, 100, 101, 105, 109] {
        assert!(sweep(seconds).busy, "{seconds}");
    }
    assert_eq!((sweep(111).busy, world.counters.broken_locks.value()), (false, 1));
    world.audit(0);
}

//= B-12 test
#[test]
fn who_comes_to_a_slot_of_the_dead_keeps_what_it_has() {
    for variant in VARIANTS {
        let world = World::new(variant, 1, 2);
        let (dead, survivor) = (world.enter(FIRST), world.enter(SURVIVOR));
        world.alloc(dead, 2).unwrap();
        assert_eq!(world.sweep(survivor, &[FIRST]).clients, 1);
        let next = world.enter(FIRST);
        assert_eq!((next.slot(), next == dead), (dead.slot(), false));
        world.alloc(next, 3).unwrap();
        assert_eq!(world.sweep(survivor, &[]).blocks, 0);
        world.audit(3);
    }
}

//= B-6, B-12 test
#[test]
fn death_at_any_point_of_a_life_leaks_nothing() {
    for variant in VARIANTS {
        for deaths in 0.. {
            let pool = Pool::create(&PoolOptions { zones: 2, variant, ..PoolOptions::default() }).unwrap();
            let attach = || Pool::attach(pool.fd().try_clone_to_owned().unwrap()).unwrap();
            let (doomed, peer) = (attach(), attach());
            let dead = doomed.client();
            let outlived = crash::after(deaths, move || {
                let mut qbuf = doomed.alloc(5 * 4096).unwrap();
                qbuf.fill(1);
                let rest = qbuf.split_off(2).unwrap();
                qbuf.set_role(crate::Role::Engine);
                let there = Transit { channel: 1, from: doomed.client(), to: peer.client() };
                let back = Transit { channel: 2, from: peer.client(), to: doomed.client() };
                let passed = doomed.pass_to(qbuf, there);
                let received = peer.take(passed, there).unwrap();
                let passed = peer.pass_to(received, back);
                let raw = rest.into_raw().0;
                let rest = doomed.from_raw(raw).unwrap();
                drop(rest);
                drop(doomed.take(passed, back).unwrap());
                drop((doomed, peer));
            });
            // The peer died with it.
            for slot in 0..4 {
                if let Some(client) = pool.client_at(slot) {
                    pool.drop_client(client);
                }
            }
            let stats = pool.stats();
            assert_eq!((stats.free_blocks, stats.hidden_blocks, stats.locked_zones), (64, 0, 0), "death {deaths}");
            assert_eq!(stats.corrupt_words, 0);
            assert_ne!(pool.client(), dead);
            if outlived.is_some() {
                break;
            }
            assert!(deaths < 1000);
        }
    }
}
