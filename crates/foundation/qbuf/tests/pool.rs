//! A pool from outside, in one process: against an oracle, with several threads, and with files that are no pools.
#![allow(clippy::print_stderr, reason = "says what was left out")]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use pinnace_qbuf::{Holding, Pool, PoolError, PoolOptions, Qbuf, Role, Transit, Variant};
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};

const VARIANTS: [Variant; 2] = [Variant::Locked, Variant::LockFree];

fn small(variant: Variant, zones: u32) -> Pool {
    Pool::create(&PoolOptions { zones, variant, ..PoolOptions::default() }).unwrap()
}

fn again(pool: &Pool) -> Pool {
    Pool::attach(pool.fd().try_clone_to_owned().unwrap()).unwrap()
}

/// What the pool should do: a set of free blocks for each zone, searched block by block.
struct Oracle {
    free: Vec<[bool; 32]>,
    /// Where the last run was allocated or freed.
    start: usize,
}

impl Oracle {
    fn alloc(&mut self, blocks: usize) -> Option<usize> {
        let zones = self.free.len();
        let (zone, first) = (0..zones).map(|step| (self.start + step) % zones).find_map(|zone| {
            let fits = |first: &usize| self.free[zone][*first..first + blocks].iter().all(|free| *free);
            Some((zone, (0..=32 - blocks).find(fits)?))
        })?;
        self.free[zone][first..first + blocks].fill(false);
        self.start = zone;
        Some(zone * 32 + first)
    }

    fn free(&mut self, block: usize, blocks: usize) {
        self.free[block / 32][block % 32..block % 32 + blocks].fill(true);
        self.start = block / 32;
    }
}

#[derive(Clone, Debug)]
enum Step {
    Alloc(usize),
    Free(usize),
    Split(usize, u32),
    ThroughRaw(usize),
    ThroughChannel(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => prop_oneof![3 => 1..=4096_usize, 2 => 1..=128 * 1024_usize, 1 => Just(0)].prop_map(Step::Alloc),
        3 => any::<usize>().prop_map(Step::Free),
        1 => (any::<usize>(), 0..33_u32).prop_map(|(which, at)| Step::Split(which, at)),
        1 => any::<usize>().prop_map(Step::ThroughRaw),
        1 => any::<usize>().prop_map(Step::ThroughChannel),
    ];
    prop::collection::vec(step, 0..200)
}

fn take_one(held: &mut BTreeMap<usize, Qbuf>, which: usize) -> Option<Qbuf> {
    let key = *held.keys().nth(which % held.len().max(1))?;
    held.remove(&key)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    //= B-1, B-2, B-3, B-6 test
    #[test]
    fn a_pool_does_what_a_set_of_bits_does(steps in steps(), lock_free: bool) {
        let pool = small(if lock_free { Variant::LockFree } else { Variant::Locked }, 3);
        let mut oracle = Oracle { free: vec![[true; 32]; 3], start: 0 };
        let mut held = BTreeMap::new();
        for step in steps {
            match step {
                Step::Alloc(len) => {
                    let blocks = len.div_ceil(4096).max(1);
                    let qbuf = pool.alloc(len);
                    prop_assert_eq!(qbuf.as_ref().map(|qbuf| qbuf.first_block() as usize), oracle.alloc(blocks));
                    if let Some(mut qbuf) = qbuf {
                        prop_assert_eq!((qbuf.len(), qbuf.capacity()), (len, blocks * 4096));
                        let mark = qbuf.first_block() as u8;
                        qbuf.fill(mark);
                        held.insert(qbuf.offset(), qbuf);
                    }
                }
                Step::Free(which) => if let Some(qbuf) = take_one(&mut held, which) {
                    oracle.free(qbuf.first_block() as usize, qbuf.blocks() as usize);
                },
                Step::Split(which, at) => if let Some(mut qbuf) = take_one(&mut held, which) {
                    let (blocks, len) = (qbuf.blocks(), qbuf.len());
                    let rest = qbuf.split_off(at);
                    prop_assert_eq!(rest.is_some(), (1..blocks).contains(&at));
                    if let Some(rest) = rest {
                        prop_assert_eq!((qbuf.blocks(), rest.blocks(), qbuf.len() + rest.len()), (at, blocks - at, len));
                        held.insert(rest.offset(), rest);
                    }
                    held.insert(qbuf.offset(), qbuf);
                },
                Step::ThroughRaw(which) => if let Some(qbuf) = take_one(&mut held, which) {
                    let len = qbuf.len();
                    let (pointer, capacity) = qbuf.into_raw();
                    let mut qbuf = pool.from_raw(pointer).unwrap();
                    prop_assert_eq!(qbuf.len(), capacity);
                    qbuf.set_len(len);
                    held.insert(qbuf.offset(), qbuf);
                },
                Step::ThroughChannel(which) => if let Some(qbuf) = take_one(&mut held, which) {
                    let (offset, len) = (qbuf.offset(), qbuf.len());
                    let transit = Transit { channel: 3, from: pool.client(), to: pool.client() };
                    let passed = pool.pass_to(qbuf, transit);
                    prop_assert_eq!(pool.owner(passed.block).map(|owner| owner.holding), Some(Holding::InTransit));
                    let qbuf = pool.take(passed, transit).unwrap();
                    prop_assert_eq!((qbuf.offset(), qbuf.len()), (offset, len));
                    held.insert(offset, qbuf);
                },
            }
            let free = oracle.free.iter().flatten().filter(|free| **free).count() as u64;
            let stats = pool.stats();
            prop_assert_eq!((stats.free_blocks, stats.user_blocks, stats.hidden_blocks), (free, 96 - free, 0));
        }
        // A split leaves the mark of the whole.
        for qbuf in held.values() {
            prop_assert!(qbuf.iter().all(|byte| *byte == qbuf[0]));
        }
        drop(held);
        prop_assert_eq!((pool.stats().free_blocks, pool.stats().corrupt_words), (96, 0));
    }

    //= B-9, B-13 test
    #[test]
    fn a_file_with_any_beginning_is_refused_or_harmless(beginning in prop::collection::vec(any::<u8>(), 0..40), at in 0..32_u64) {
        let pool = small(Variant::Locked, 1);
        let file = File::from(pool.fd().try_clone_to_owned().unwrap());
        file.write_all_at(&beginning, at).unwrap();
        if let Ok(pool) = Pool::attach(file.into()) {
            prop_assert_eq!(pool.options().zones, 1);
            pool.alloc(1);
        }
    }
}

//= B-1 test
#[test]
fn larger_blocks_make_larger_qbufs() {
    let pool = Pool::create(&PoolOptions { zones: 1, block_bytes: 64 << 10, ..PoolOptions::default() }).unwrap();
    assert_eq!(pool.alloc(1).unwrap().capacity(), 64 << 10);
    let mut all = pool.alloc(2 << 20).unwrap();
    all.fill(7);
    assert_eq!((all.len(), pool.max_len()), (2 << 20, 2 << 20));
    for (zones, block_bytes) in [(0, 4096), (1 << 17, 4096), (1, 2048), (1, 5000), (1, 0), (1, 128 << 20)] {
        let refused = Pool::create(&PoolOptions { zones, block_bytes, ..PoolOptions::default() });
        assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::InvalidInput, "{zones} {block_bytes}");
    }
    let huge = PoolOptions { zones: 1, block_bytes: 2 << 20, huge_pages: true, ..PoolOptions::default() };
    match Pool::create(&huge) {
        Ok(pool) => pool.alloc(100).unwrap().fill(1),
        Err(error) => pinnace_testing::skip::host(format_args!("no huge pages are set aside ({error})")),
    }
}

//= B-9 test
#[test]
fn what_is_no_pool_of_ours_is_refused() {
    let pool = small(Variant::Locked, 1);
    let bytes = File::from(pool.fd().try_clone_to_owned().unwrap()).metadata().unwrap().len();
    let file = |bytes: u64, seals| -> OwnedFd {
        let file = memfd_create("no pool", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, bytes).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    };
    let sealed = SealFlags::SHRINK | SealFlags::GROW;
    assert!(matches!(Pool::attach(file(bytes, SealFlags::empty())), Err(PoolError::NotSealed)));
    assert!(matches!(Pool::attach(file(0, sealed)), Err(PoolError::Io(_))));
    assert!(matches!(Pool::attach(file(5, sealed)), Err(PoolError::Io(_))));
    assert!(matches!(Pool::attach(file(bytes, sealed)), Err(PoolError::NotAPool)));
    let (reader, _writer) = std::io::pipe().unwrap();
    assert!(matches!(Pool::attach(reader.into()), Err(PoolError::NotSealed)));

    let attach_with = |at: u64, value: u32| {
        let pool = small(Variant::Locked, 1);
        let file = File::from(pool.fd().try_clone_to_owned().unwrap());
        file.write_all_at(&value.to_le_bytes(), at).unwrap();
        Pool::attach(file.into())
    };
    assert!(matches!(attach_with(8, 1), Err(PoolError::Version(1))));
    assert!(matches!(attach_with(12, 3), Err(PoolError::Geometry)));
    for zones in [0, 2, u32::MAX] {
        assert!(matches!(attach_with(16, zones), Err(PoolError::Geometry)), "{zones} zones");
    }
    for shift in [0, 11, 13, 64, u32::MAX] {
        assert!(matches!(attach_with(20, shift), Err(PoolError::Geometry)), "blocks of 2^{shift}");
    }
    assert!(matches!(attach_with(24, 4), Err(PoolError::Geometry)), "huge pages of 4 KiB");
}

#[test]
fn a_pool_has_as_many_clients_as_slots() {
    let pool = small(Variant::Locked, 1);
    // Who left made room.
    for _ in 0..2000 {
        again(&pool);
    }
    let mut clients: Vec<Pool> = Vec::new();
    let refused = loop {
        match Pool::attach(pool.fd().try_clone_to_owned().unwrap()) {
            Ok(client) => clients.push(client),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, PoolError::Full), "{refused}");
    assert_eq!((clients.len() + 1, pool.stats().clients), (pinnace_qbuf::MAX_CLIENTS, 1024));
    clients.pop();
    again(&pool);
}

//= B-6, B-13 test
#[test]
fn only_whom_it_was_passed_to_can_take_a_qbuf_and_once() {
    for variant in VARIANTS {
        let (one, pool) = (small(variant, 2), small(variant, 2));
        let (two, three) = (again(&one), again(&one));
        let transit = Transit { channel: 9, from: one.client(), to: two.client() };
        let passed = one.pass_to(one.alloc(5000).unwrap(), transit);
        assert!(three.take(passed, transit).is_err());
        assert!(three.take(passed, Transit { to: three.client(), ..transit }).is_err());
        for wrong in [
            Transit { channel: 8, ..transit },
            Transit { from: three.client(), ..transit },
            Transit { to: one.client(), ..transit },
        ] {
            assert!(matches!(two.take(passed, wrong), Err(PoolError::NotOwner)));
        }
        for (block, len) in
            [(passed.block + 1, 1), (passed.block, 8193), (passed.block, u32::MAX), (64, 1), (u32::MAX, 1)]
        {
            assert!(two.take(pinnace_qbuf::Passed { block, len }, transit).is_err(), "{block} {len}");
        }
        assert!(pool.take(passed, transit).is_err(), "another pool");
        let qbuf = two.take(passed, transit).unwrap();
        assert_eq!((qbuf.len(), qbuf.blocks(), qbuf.role()), (5000, 2, Role::User));
        assert!(two.take(passed, transit).is_err());
        drop(qbuf);
        assert_eq!(one.stats().free_blocks, 64);
    }
}

//= B-6, B-13 test
#[test]
fn a_qbuf_of_another_pool_cannot_be_passed_as_one_of_this() {
    for variant in VARIANTS {
        let (pool, elsewhere) = (small(variant, 1), small(variant, 1));
        let receiver = again(&pool);
        let transit = Transit { channel: 9, from: pool.client(), to: receiver.client() };
        // The same place, and the same owner, in two pools.
        let (ours, foreign) = (pool.alloc(5000).unwrap(), elsewhere.alloc(5000).unwrap());
        assert_eq!((ours.first_block(), pool.client()), (foreign.first_block(), elsewhere.client()));
        let passed = pool.pass_to(foreign, transit);
        assert!(matches!(receiver.take(passed, transit), Err(PoolError::NotInPool)), "ours would have two owners");
        assert_eq!(pool.owner(ours.first_block()).unwrap().holding, Holding::User);
        assert_eq!((pool.stats().free_blocks, elsewhere.stats().free_blocks), (30, 32));
    }
}

//= B-12 test
#[test]
fn what_was_passed_and_never_taken_is_purged_or_goes_with_the_receiver() {
    for variant in VARIANTS {
        let (one, two) = {
            let one = small(variant, 2);
            let two = again(&one);
            (one, two)
        };
        let transit = |channel| Transit { channel, from: one.client(), to: two.client() };
        one.pass_to(one.alloc(5000).unwrap(), transit(1));
        one.pass_to(one.alloc(1).unwrap(), transit(2));
        assert_eq!(one.stats().transit_blocks, 3);
        assert_eq!(two.purge(transit(1)), 2);
        assert_eq!((one.stats().transit_blocks, one.stats().free_blocks), (1, 63));
        drop(two);
        assert_eq!(one.stats().free_blocks, 64);
    }
}

//= B-6 test
#[test]
fn raw_pointers_are_checked() {
    let (pool, other) = (small(Variant::Locked, 2), small(Variant::Locked, 2));
    let (pointer, capacity) = pool.alloc(5000).unwrap().into_raw();
    assert_eq!(capacity, 8192);
    assert!(matches!(other.from_raw(pointer), Err(PoolError::NotInPool)));
    // SAFETY: inside the run.
    let inside = [1, 4096].map(|offset| unsafe { pointer.add(offset) });
    assert!(matches!(pool.from_raw(inside[0]), Err(PoolError::NotInPool)));
    assert!(matches!(pool.from_raw(inside[1]), Err(PoolError::NotOwner)));
    let qbuf = pool.from_raw(pointer).unwrap();
    assert!(matches!(pool.from_raw(pointer), Err(PoolError::NotOwner)), "it is a qbuf now");
    drop(qbuf);
    assert!(matches!(pool.from_raw(pointer), Err(PoolError::NotOwner)), "it was freed");
    // What C forgets goes when it detaches.
    let client = again(&pool);
    client.alloc(1).unwrap().into_raw();
    assert_eq!(pool.stats().free_blocks, 63);
    drop(client);
    assert_eq!(pool.stats().free_blocks, 64);
}

//= B-10 test
#[test]
fn wrapping_takes_any_address_of_a_run_and_wires_its_pages() {
    let pool = small(Variant::Locked, 2);
    let handle = pool.register();
    let mut qbuf = pool.alloc(10_000).unwrap();
    qbuf[5000..5004].copy_from_slice(b"wrap");
    let (pointer, _) = qbuf.into_raw();
    // SAFETY: inside the run.
    let inside = unsafe { pointer.add(5000) };
    assert!(matches!(handle.wrap(inside, 3 * 4096 - 4999), Err(PoolError::NotInPool)), "past the end");
    assert!(matches!(handle.wrap(std::ptr::NonNull::from(&pool), 1), Err(PoolError::NotInPool)));
    let wrapped = handle.wrap(inside, 4).unwrap();
    assert_eq!((wrapped.bytes(), wrapped.len(), wrapped.blocks(), wrapped.zone()), (&b"wrap"[..], 4, 3, 0));
    assert_eq!(wrapped.block_addresses().next(), Some(pointer));
    assert_eq!(wrapped.is_wired(), pool.warnings().is_empty());
    assert_eq!(pool.owner(0).unwrap().holding, Holding::Engine);
    assert!(handle.wrap(pointer, 1).is_err() && pool.from_raw(pointer).is_err(), "the transport has it");
    drop(wrapped);
    assert_eq!(pool.stats().free_blocks, 64);
    let wrapped = handle.wrap_qbuf(pool.alloc(100).unwrap());
    assert_eq!(wrapped.len(), 100);

    // Of another pool, whose pages are others.
    let elsewhere = small(Variant::Locked, 4);
    let mut qbufs: Vec<_> = (0..4).map(|_| elsewhere.alloc(elsewhere.max_len()).unwrap()).collect();
    let last = qbufs.pop().unwrap();
    assert!(last.first_block() >= 64, "the pool of the handle has no such block");
    assert_eq!(handle.wrap_qbuf(last).is_wired(), elsewhere.warnings().is_empty());
}

/// Bytes that this process has wired.
fn wired() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("Linux says so");
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

//= B-8, B-10 test
#[test]
fn pages_are_wired_while_they_are_wrapped_and_no_longer() {
    const ALONE: &str = "PINNACE_WIRES_ALONE";
    if std::env::var_os(ALONE).is_none() {
        // Others of this process wire pages, too.
        let arguments = ["pages_are_wired_while_they_are_wrapped_and_no_longer", "--exact", "--nocapture"];
        let mut itself = std::process::Command::new(std::env::current_exe().unwrap());
        let output = itself.args(arguments).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {said}", String::from_utf8_lossy(&output.stdout));
        // What a macro prints of a test that passes is not shown.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes());
        return;
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    if limit.is_some_and(|bytes| bytes < 256 << 10) {
        pinnace_testing::skip::host(format_args!("{limit:?} bytes may be wired"));
        return;
    }
    for variant in VARIANTS {
        let pool = small(variant, 2);
        let handle = pool.register();
        let qbuf = pool.alloc(3 * 4096).unwrap();
        // The control structure, but not what the application has.
        let before = wired();
        let wrapped = handle.wrap_qbuf(qbuf);
        assert_eq!((wrapped.is_wired(), wired() - before), (true, 3 * 4096));
        let (pointer, _) = pool.alloc(4096).unwrap().into_raw();
        let another = handle.wrap(pointer, 100).unwrap();
        assert_eq!((another.is_wired(), wired() - before), (true, 4 * 4096));
        drop(wrapped);
        assert_eq!(wired() - before, 4096);
        drop(another);
        assert_eq!((wired(), pool.warnings().len()), (before, 0));
    }
    let pool = Pool::create(&PoolOptions { zones: 1, wired: true, ..PoolOptions::default() }).unwrap();
    let all = wired();
    assert!(pool.warnings().is_empty() && all >= 32 * 4096, "{all} bytes of a pool that is wired for good");
    drop(pool.register().wrap_qbuf(pool.alloc(4096).unwrap()));
    assert_eq!(wired(), all);
    drop(pool);
    assert_eq!(wired(), 0);
}

//= B-6 test
#[test]
fn in_a_guarded_pool_the_transport_has_another_address() {
    let pool = Pool::create(&PoolOptions { zones: 2, guarded: true, ..PoolOptions::default() }).unwrap();
    let mut qbuf = pool.alloc(5000).unwrap();
    qbuf.fill(3);
    let before = qbuf.as_ptr();
    qbuf.set_role(Role::Engine);
    assert_ne!(qbuf.as_ptr(), before);
    assert!(qbuf.iter().all(|byte| *byte == 3));
    qbuf.set_role(Role::User);
    assert_eq!((qbuf.as_ptr(), qbuf[4999]), (before, 3));
}

#[test]
fn threads_share_a_pool() {
    for variant in VARIANTS {
        let pool = small(variant, 4);
        let (sender, receiver) = mpsc::channel::<Qbuf>();
        let checker = thread::spawn(move || {
            receiver.iter().fold(0, |count, qbuf| {
                assert!(qbuf.iter().all(|byte| *byte == qbuf[0]), "somebody else wrote here");
                count + 1
            })
        });
        let workers: Vec<_> = (0..4_u8)
            .map(|mark| {
                let (pool, sender) = (pool.clone(), sender.clone());
                thread::spawn(move || {
                    let mut random = fastrand::Rng::with_seed(u64::from(mark));
                    let mut sent = 0;
                    for _ in 0..3000 {
                        let Some(mut qbuf) = pool.alloc(random.usize(1..30_000)) else { continue };
                        qbuf.fill(mark);
                        if random.bool() {
                            sender.send(qbuf).unwrap();
                            sent += 1;
                        } else {
                            assert!(qbuf.iter().all(|byte| *byte == mark), "somebody else wrote here");
                        }
                    }
                    sent
                })
            })
            .collect();
        drop(sender);
        let sent: u32 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
        assert_eq!(checker.join().unwrap(), sent);
        // What was deferred last is freed by the next operation.
        pool.alloc(1);
        let stats = pool.stats();
        assert_eq!((stats.free_blocks, stats.corrupt_words, stats.locked_zones), (128, 0, 0), "{stats:?}");
    }
}

#[test]
fn descriptors_close_on_exec() {
    let pool = small(Variant::Locked, 1);
    assert!(rustix::io::fcntl_getfd(pool.fd().as_fd()).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
}

//= B-15 test
#[test]
fn a_name_whose_pool_is_gone_is_free_again() {
    let name = format!("test-{}", std::process::id());
    let first = Pool::open(&name, &PoolOptions { zones: 5, ..PoolOptions::default() }).unwrap();
    let same = Pool::open(&name, &PoolOptions::default()).unwrap();
    assert_eq!((same.options().zones, same.stats().clients), (5, 2));
    // The number of the first one's descriptor now means something else, or nothing.
    drop((first, same));
    let _others: Vec<_> =
        (0..50).map(|_| Pool::create(&PoolOptions { zones: 1, ..PoolOptions::default() }).unwrap()).collect();
    let _other = File::open("/proc/self/exe").unwrap();
    assert_eq!(Pool::open(&name, &PoolOptions { zones: 2, ..PoolOptions::default() }).unwrap().options().zones, 2);
    for name in ["", ".hidden", "a/b", "a b", &"x".repeat(101)] {
        let refused = Pool::open(name, &PoolOptions::default()).unwrap_err().to_string();
        assert!(refused.contains(&format!("{name:?}")) && refused.contains("1 to 100 letters"), "{refused}");
    }
}

/// The folder of this user's names.
fn names() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder).join("pinnace-qbuf"),
        _ => format!("/dev/shm/pinnace-qbuf-{}", rustix::process::getuid().as_raw()).into(),
    }
}

/// How many links speak of a name.
fn links_of(name: &str) -> usize {
    let entries = std::fs::read_dir(names()).unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|entry| entry.contains(name)).count()
}

//= B-15 test
#[test]
fn a_name_goes_with_the_pool_that_has_it() {
    let name = format!("going-{}", std::process::id());
    let first = Pool::open(&name, &PoolOptions::default()).unwrap();
    let (clone, guest) = (first.clone(), Pool::open(&name, &PoolOptions::default()).unwrap());
    drop(guest);
    drop(first);
    assert_eq!(links_of(&name), 2, "a clone is the same attachment");
    drop(clone);
    assert_eq!(links_of(&name), 0);
}

//= B-12 test
#[test]
fn the_names_of_the_dead_go_with_the_next_that_is_opened() {
    let me = std::process::id();
    let name = |what| format!("{what}-{me}");
    let kept = Pool::open(&name("kept"), &PoolOptions::default()).unwrap();
    // What is left of a process that was killed, and of one whose number and descriptor others have now.
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let other = format!("/proc/{me}/fd/{}", kept.fd().as_raw_fd());
    for (name, place) in [(name("dead"), format!("/proc/{dead}/fd/4")), (name("reused"), other)] {
        symlink(place, names().join(&name)).unwrap();
        symlink("1", names().join(format!(".{name}.inode"))).unwrap();
    }
    // The process of this one has its number in another namespace.
    symlink(format!("/proc/{dead}/fd/4"), names().join(name("elsewhere"))).unwrap();
    symlink("1@2", names().join(format!(".{}.inode", name("elsewhere")))).unwrap();
    drop(Pool::open(&name("next"), &PoolOptions::default()).unwrap());
    assert_eq!([name("dead"), name("reused"), name("next")].map(|name| links_of(&name)), [0; 3]);
    assert_eq!([name("kept"), name("elsewhere")].map(|name| links_of(&name)), [2; 2]);
    drop(Pool::open(&name("elsewhere"), &PoolOptions::default()).unwrap());
    assert_eq!(links_of(&name("elsewhere")), 0, "whoever wants the name has it");
    assert_eq!(Pool::open(&name("kept"), &PoolOptions::default()).unwrap().stats().clients, 2);
}

/// The word of the first block, as another process has it. It stays mapped.
fn first_word(pool: &Pool) -> &'static AtomicU64 {
    const AT: usize = 128 + 64 * 1024 + 64;
    let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping, of which the file has more, and which nobody unmaps; everybody uses the word as an atomic one.
    unsafe {
        let base = mmap(null_mut(), AT + 8, access, kind, pool.fd(), 0).unwrap();
        &*base.cast::<u8>().add(AT).cast()
    }
}

//= B-13 test
#[test]
fn a_run_is_wrapped_as_it_was_when_its_word_was_looked_at() {
    const BLOCKS_OF_RUN: u64 = 63 << 4;
    let pool = small(Variant::Locked, 1);
    let (pointer, _) = pool.alloc(10_000).unwrap().into_raw();
    let (handle, word) = (pool.register(), first_word(&pool));
    let long = word.load(Ordering::Relaxed);
    assert_eq!(long & BLOCKS_OF_RUN, 3 << 4);
    let (over, is_over) = mpsc::channel::<()>();
    thread::scope(|scope| {
        // Somebody says now this and now that.
        scope.spawn(move || {
            while is_over.try_recv() == Err(mpsc::TryRecvError::Empty) {
                for blocks in [1, 3].repeat(500) {
                    word.store(long & !BLOCKS_OF_RUN | blocks << 4, Ordering::Relaxed);
                }
            }
        });
        let _until_then = over;
        let mut counts = [0; 2];
        while counts.iter().sum::<u32>() < 1_000_000 || counts.contains(&0) {
            let wrapped = handle.wrap(pointer, 9_000);
            counts[usize::from(wrapped.is_ok())] += 1;
            assert!(wrapped.is_err() || wrapped.is_ok_and(|it| (it.len(), it.blocks()) == (9_000, 3)));
        }
    });
}

//= B-12 test
#[test]
fn a_process_gets_no_more_than_its_share() {
    for variant in VARIANTS {
        let options = PoolOptions { zones: 4, variant, share_percent: 50, ..PoolOptions::default() };
        let pool = Pool::create(&options).unwrap();
        let (beside, other) = (pool.attach_beside().unwrap(), again(&pool));
        assert_eq!((other.options().share_percent, beside.client() == pool.client()), (50, false));
        let mut ours = [60, 3, 1].map(|blocks| [&pool, &beside].map(|pool| take_blocks(pool, blocks)));
        assert_eq!(ours.iter().flatten().map(Vec::len).sum::<usize>(), 64, "half of 128, for both together");
        assert!(pool.alloc(1).is_none() && beside.alloc_raw(1).is_none());
        // The other half is for others, and what they pass waits until there is room.
        let theirs = other.alloc(4096).unwrap();
        let transit = Transit { channel: 1, from: other.client(), to: pool.client() };
        let passed = other.pass_to(theirs, transit);
        assert!(matches!(pool.take(passed, transit), Err(PoolError::Share)));
        let freed = ours[0][0].pop().unwrap();
        drop(freed);
        let taken = pool.take(passed, transit).unwrap();
        assert!(pool.alloc(1).is_none());
        // What is passed on counts no more, whatever becomes of it.
        let passed = pool.pass_to(taken, Transit { channel: 1, from: pool.client(), to: other.client() });
        let block = pool.alloc_raw(1).unwrap().0;
        assert!(pool.alloc(1).is_none());
        drop(other.take(passed, Transit { channel: 1, from: pool.client(), to: other.client() }).unwrap());
        pool.free_raw(block).unwrap();
        assert!(pool.free_raw(block).is_err(), "and counts once");
        let last = pool.alloc(1).unwrap();
        assert!(pool.alloc(1).is_none());
        drop((ours, last));
        assert_eq!(take_blocks(&beside, 64).len(), 64);
    }
}

/// So many qbufs of one block, or as many as there are.
fn take_blocks(pool: &Pool, blocks: usize) -> Vec<Qbuf> {
    (0..blocks).map_while(|_| pool.alloc(1)).collect()
}

/// Says to this test, run again, what it is to find.
const FINDS: &str = "PINNACE_TEST_FINDS";

#[test]
fn where_files_may_not_be_as_large_a_pool_is_an_error_and_not_the_end() {
    if let Some(finds) = std::env::var_os(FINDS) {
        let made = Pool::create(&PoolOptions { zones: 1, ..PoolOptions::default() });
        assert_eq!(made.is_ok(), finds == "a pool", "{made:?}");
        return;
    }
    for (limit, finds) in [("unlimited", "a pool"), ("1", "none")] {
        let mut child = std::process::Command::new("sh");
        child.args(["-c", &format!("ulimit -f {limit} && exec \"$@\""), "sh"]).arg(std::env::current_exe().unwrap());
        child.args(["--exact", "where_files_may_not_be_as_large_a_pool_is_an_error_and_not_the_end", "--nocapture"]);
        let ended = child.env(FINDS, finds).output().unwrap();
        assert!(ended.status.success(), "{limit}: {ended:?}");
    }
}
