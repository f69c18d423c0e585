//! What the other processes do.

use std::fs::File;
use std::ptr::null_mut;

use pinnace_qbuf::{Pool, Role, Transit};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

pub(crate) const ROLE: &str = "QBUF_ROLE";
pub(crate) const POOL: &str = "QBUF_POOL";
pub(crate) const SEED: &str = "QBUF_SEED";

pub(crate) fn run(role: &str) {
    // Orphans must not stay: a test that was killed itself closes our standard input.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let file = File::options().read(true).write(true).open(std::env::var(POOL).unwrap()).unwrap();
    let mut random = fastrand::Rng::with_seed(std::env::var(SEED).unwrap().parse().unwrap());
    if role == "scribble" {
        return scribble(&file, &mut random);
    }
    if role == "wire" {
        // Nothing can be wired from here on.
        let nothing = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: nothing, permitted: nothing, inheritable: nothing })
            .unwrap();
        setrlimit(Resource::Memlock, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
    }
    let pool = Pool::attach(file.into()).unwrap();
    match role {
        "share" => fill_and_check(&pool, &mut random, 5000),
        "work" => loop {
            fill_and_check(&pool, &mut random, 1000);
        },
        "touch before" => touch(&pool, |_| {}),
        "touch after passing" => touch(&pool, |pointer| {
            let mut qbuf = pool.from_raw(pointer).unwrap();
            qbuf.set_role(Role::Engine);
            assert_eq!(qbuf[0], 1, "the transport still reads it");
            std::mem::forget(qbuf);
        }),
        "touch after freeing" => touch(&pool, |pointer| drop(pool.from_raw(pointer).unwrap())),
        "fork" => fork(&pool),
        "wire" => wire(&pool),
        other => panic!("no role {other}"),
    }
}

/// Allocates, fills, checks and frees; cuts, passes to itself and takes, now and then.
pub(crate) fn fill_and_check(pool: &Pool, random: &mut fastrand::Rng, times: u32) {
    let transit = Transit { channel: 5, from: pool.client(), to: pool.client() };
    let mut held = Vec::new();
    for _ in 0..times {
        if let Some(mut qbuf) = pool.alloc(random.usize(0..20_000)) {
            let mark = random.u8(..);
            qbuf.fill(mark);
            held.push((mark, qbuf));
        }
        if held.is_empty() || random.u8(0..4) == 0 {
            continue;
        }
        let (mark, mut qbuf) = held.swap_remove(random.usize(0..held.len()));
        assert!(qbuf.iter().all(|byte| *byte == mark), "somebody else wrote here");
        match random.u8(0..4) {
            0 => held.extend(qbuf.split_off(random.u32(0..5)).map(|rest| (mark, rest))),
            1 => {
                let passed = pool.pass_to(qbuf, transit);
                held.push((mark, pool.take(passed, transit).unwrap()));
            }
            2 => {
                let pointer = qbuf.into_raw().0;
                drop(pool.from_raw(pointer).unwrap());
            }
            _ => {}
        }
        if held.len() > 6 {
            held.truncate(3);
        }
    }
}

/// Writes random bytes over everything, until killed; more over the control structure, which is most of the harm.
fn scribble(file: &File, random: &mut fastrand::Rng) {
    let bytes = file.metadata().unwrap().len() as usize;
    // SAFETY: a mapping of its own.
    let base: *mut u8 = unsafe {
        mmap(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0).unwrap().cast()
    };
    let control = 65_664 + 8 * 384;
    loop {
        let end = match random.u8(0..8) {
            0 => bytes,
            // The header and some clients, the zones, or any of it.
            1 | 2 => 1024,
            _ => control,
        };
        let begin = if random.bool() && end == control { 65_664 } else { 0 };
        let at = random.usize(begin..end - 8);
        // Single bits and whole words: some of what is written almost makes sense.
        // SAFETY: inside the mapping; others that access the bytes expect anything.
        unsafe {
            let word = base.add(at / 8 * 8).cast::<u64>();
            match random.u8(0..4) {
                0 => word.write_volatile(random.u64(..)),
                1 => word.write_volatile(0),
                2 => word.write_volatile(word.read_volatile() ^ 1 << random.u8(0..64)),
                // What a neighbour says.
                _ => word.write_volatile(base.add(random.usize(begin..end - 8) / 8 * 8).cast::<u64>().read_volatile()),
            }
        }
    }
}

fn touch(pool: &Pool, between: impl FnOnce(std::ptr::NonNull<u8>)) {
    let (pointer, _) = pool.alloc(100).unwrap().into_raw();
    // SAFETY: allocated; whether it still is below is what the test is about.
    unsafe { pointer.write_volatile(1) };
    between(pointer);
    // SAFETY: a fault is what is expected, unless nothing happened in between.
    unsafe { pointer.write_volatile(2) };
}

/// In a forked child the pool is shut; the parent's is as it was.
fn fork(pool: &Pool) {
    let qbuf = pool.alloc(100).unwrap();
    let client = pool.clone();
    // SAFETY: the thread that reads standard input holds no lock that the child needs: it allocates nothing.
    match unsafe { libc::fork() } {
        0 => {
            let file = pool.fd().try_clone_to_owned().unwrap();
            let shut = pool.alloc(1).is_none() && pool.sweep() == pinnace_qbuf::Swept::default();
            drop((qbuf, client));
            // It can have a part of its own.
            let open = Pool::attach(file).is_ok_and(|own| own.client() != pool.client() && own.alloc(1).is_some());
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if shut && open { 0 } else { 1 }) };
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for our own child.
            assert!(child > 0 && unsafe { libc::waitpid(child, &raw mut status, 0) } == child);
            assert_eq!(status, 0, "the child");
            assert_eq!(pool.owner(qbuf.first_block()).map(|owner| owner.client), Some(pool.client()));
            drop(qbuf);
        }
    }
}

//= B-8 test
fn wire(pool: &Pool) {
    let at_first = pool.warnings().len();
    assert_eq!(at_first, 1, "the control structure: {:?}", pool.warnings());
    let handle = pool.register();
    for _ in 0..5 {
        let wrapped = handle.wrap_qbuf(pool.alloc(100).unwrap());
        assert!(!wrapped.is_wired());
    }
    assert_eq!(pool.warnings().len(), 2, "{:?}", pool.warnings());
}
