//! Channels between two real processes: every size, bursts, waiting, death by `kill -9` at any instant, and a peer that
//! scribbles over everything that both can write.
//!
//! `PINNACE_KILLS` (100) is how many processes are killed, `PINNACE_SCRIBBLE_SECONDS` (3) how long is scribbled, `PINNACE_SEED` what
//! the random numbers begin with.
#![allow(missing_docs, clippy::print_stderr)]

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fastrand::Rng;
use pinnace_qbuf::channel::{Channel, ChannelError, ChannelFds, ChannelOptions, Received, Rejected, Side, Watch};
use pinnace_qbuf::{Pool, PoolOptions};

const ZONE: usize = 128 << 10;

/// What the other process does; the test of this name is its `main`.
const PEER: &str = "PINNACE_CHANNEL_PEER";

fn number_of(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn seed() -> u64 {
    let seed = number_of("PINNACE_SEED", fastrand::u64(..));
    eprintln!("PINNACE_SEED={seed}");
    seed
}

fn new_pool(zones: u32) -> Pool {
    Pool::create(&PoolOptions { zones, ..PoolOptions::default() }).unwrap()
}

struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(pool: &Pool, fds: &ChannelFds, side: Side, what: &str, seed: u64) -> Peer {
    let pool_fd = pool.fd().try_clone_to_owned().unwrap();
    let mut words = vec![what.to_string(), if side == Side::A { "A" } else { "B" }.to_string(), seed.to_string()];
    for fd in [&pool_fd, &fds.region, &fds.doorbells[0], &fds.doorbells[1]] {
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).unwrap();
        words.push(fd.as_raw_fd().to_string());
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_other_process", "--nocapture"]).env(PEER, words.join(" "));
    Peer(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
}

/// Sits down and waits for the other.
fn attach(pool: &Pool, fds: ChannelFds, side: Side) -> Channel {
    let mut channel = Channel::attach(pool, fds, side).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    assert!(channel.wait_writable(Duration::ZERO, Some(deadline)).unwrap(), "the other process does not come");
    channel
}

#[test]
fn the_other_process() {
    let Ok(words) = std::env::var(PEER) else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let fd = |index: usize| {
        // SAFETY: the parent left these descriptors open for us, and nothing else in this process knows them.
        unsafe { OwnedFd::from_raw_fd(words[index].parse().unwrap()) }
    };
    let (pool_fd, region, doorbells) = (fd(3), fd(4), [fd(5), fd(6)]);
    let side = if words[1] == "A" { Side::A } else { Side::B };
    let rng = Rng::with_seed(words[2].parse().unwrap());
    let files = [File::from(pool_fd.try_clone().unwrap()), File::from(region.try_clone().unwrap())];
    let pool = Pool::attach(pool_fd).unwrap();
    let channel = Channel::attach(&pool, ChannelFds { region, doorbells }, side).unwrap();
    match words[0] {
        "echo" => echo(channel),
        "traffic" => traffic(channel, rng, |_| true),
        _ => scribble(channel, rng, &files),
    }
}

/// Sends back whatever comes, in the buffer that it came in.
fn echo(mut channel: Channel) {
    loop {
        let message = match channel.try_recv() {
            Ok(Some(message)) => message,
            Ok(None) => {
                channel.wait_readable(Duration::from_micros(50), None).unwrap();
                continue;
            }
            Err(ChannelError::Closed) => return,
            Err(error) => panic!("{error}"),
        };
        let mut waiting = Some(message);
        while let Some(message) = waiting.take() {
            let sent = match message {
                Received::Qbuf(qbuf) => channel.try_send(qbuf).map_err(|rejected| match rejected {
                    Rejected::Full(qbuf) => Received::Qbuf(qbuf),
                    other => panic!("{other}"),
                }),
                inline => channel.try_send_bytes(&inline).map(|_| ()).map_err(|_| inline),
            };
            waiting = sent.err();
            if waiting.is_some() {
                channel.wait_writable(Duration::ZERO, None).unwrap();
            }
        }
    }
}

/// Bytes that say where they belong.
fn fill(bytes: &mut [u8], number: u64) {
    for (index, chunk) in (0_u64..).zip(bytes.chunks_mut(8)) {
        let word = (number ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

fn check(bytes: &[u8], number: u64, len: usize) {
    assert_eq!(bytes.len(), len, "message {number}");
    let mut expected = vec![0; len];
    fill(&mut expected, number);
    assert!(bytes == expected, "message {number} of {len} bytes differs");
}

/// Sends messages of these sizes, with up to `burst` under way, and gets them back.
fn there_and_back(channel: &mut Channel, sizes: &[usize], burst: usize) {
    let (mut sent, mut back) = (0, 0);
    while back < sizes.len() {
        while sent < sizes.len() && sent - back < burst {
            let outcome = if sizes[sent] <= 56 {
                let mut bytes = vec![0; sizes[sent]];
                fill(&mut bytes, sent as u64);
                channel.try_send_bytes(&bytes).map(|_| ())
            } else {
                let Some(mut qbuf) = channel.pool().alloc(sizes[sent]) else { break };
                fill(&mut qbuf, sent as u64);
                channel.try_send(qbuf).map_err(ChannelError::from)
            };
            match outcome {
                Ok(()) => sent += 1,
                Err(ChannelError::Full) => break,
                Err(error) => panic!("{error}"),
            }
        }
        if !channel.wait_readable(Duration::from_micros(20), Some(Instant::now() + Duration::from_secs(60))).unwrap() {
            panic!("nothing comes back after {back} of {sent}");
        }
        while let Some(message) = channel.try_recv().unwrap() {
            check(&message, back as u64, sizes[back]);
            back += 1;
        }
    }
}

fn assert_all_free(pool: &Pool, why: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        pool.sweep();
        let stats = pool.stats();
        if stats.free_blocks == stats.blocks && stats.locked_zones == 0 && stats.clients == 1 {
            return;
        }
        assert!(Instant::now() < deadline, "{why}: {stats:?}");
        std::thread::yield_now();
    }
}

//= B-14 test
#[test]
fn messages_of_every_size_arrive_whole_and_in_order() {
    let mut rng = Rng::with_seed(seed());
    let pool = new_pool(8);
    let fds = Channel::create(&pool, &ChannelOptions { slots: 16, ..ChannelOptions::default() }).unwrap();
    let mut peer = start(&pool, &fds, Side::B, "echo", 0);
    let mut channel = attach(&pool, fds, Side::A);
    let mut sizes: Vec<usize> = (0..=200).collect();
    for blocks in 1..=32 {
        sizes.extend([blocks * 4096 - 1, blocks * 4096, (blocks * 4096 + 1).min(ZONE)]);
    }
    sizes.extend(std::iter::repeat_with(|| rng.usize(..=ZONE)).take(500));
    for burst in [1, 5, 1000] {
        rng.shuffle(&mut sizes);
        there_and_back(&mut channel, &sizes, burst);
    }
    // Small ones, more than the ring has slots, and often.
    there_and_back(&mut channel, &vec![16; 20_000], 1000);
    there_and_back(&mut channel, &vec![5000; 5_000], 1000);
    drop(channel);
    assert!(peer.0.wait().unwrap().success());
    assert_all_free(&pool, "after all came back");
}

/// Does what comes to its mind, until the channel ends or `goes_on` says no.
fn traffic(mut channel: Channel, mut rng: Rng, mut goes_on: impl FnMut(&mut Channel) -> bool) {
    let mut held = Vec::new();
    let busy = rng.u32(1..20);
    while goes_on(&mut channel) {
        let outcome = match rng.u32(..20 + busy) {
            0..5 => channel.try_send_bytes(&[9; 100][..rng.usize(..=56)]).map(|_| ()),
            5..12 => match channel.pool().alloc(rng.usize(..30_000)) {
                Some(mut qbuf) => {
                    qbuf.iter_mut().step_by(4096).for_each(|byte| *byte = 9);
                    if rng.bool() { channel.try_queue(qbuf) } else { channel.try_send(qbuf) }
                        .map_err(ChannelError::from)
                }
                None => {
                    held.clear();
                    Ok(())
                }
            },
            12 => {
                held.truncate(rng.usize(..10));
                Ok(())
            }
            13 => {
                let wait = Some(Instant::now() + Duration::from_micros(rng.u64(..2000)));
                if rng.bool() {
                    channel.wait_readable(Duration::ZERO, wait)
                } else {
                    channel.wait_writable(Duration::ZERO, wait)
                }
                .map(|_| ())
            }
            _ => channel.try_recv().map(|message| held.extend(message)),
        };
        match outcome {
            Ok(()) | Err(ChannelError::Full) => {}
            Err(ChannelError::Closed) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

//= B-12 test
#[test]
fn a_peer_that_is_killed_leaks_nothing_and_hangs_nobody() {
    let kills = number_of("PINNACE_KILLS", 100);
    let first = seed();
    let pool = new_pool(8);
    for kill in 0..kills {
        let seed = first.wrapping_add(kill);
        let mut rng = Rng::with_seed(seed);
        let options = ChannelOptions { slots: 1 << rng.u32(1..8), number: kill as u32, ..ChannelOptions::default() };
        let fds = Channel::create(&pool, &options).unwrap();
        let theirs = if rng.bool() { Side::A } else { Side::B };
        let watch = Watch::new(fds.try_clone().unwrap()).unwrap();
        let mut peer = start(&pool, &fds, theirs, "traffic", seed);
        let channel = attach(&pool, fds, theirs.other());
        // Half of the deaths are told by who watches; the others are found out by who waits.
        let told = rng.bool();
        let moment = Instant::now() + Duration::from_micros(rng.u64(..3000));
        let deadline = moment + Duration::from_secs(60);
        let mut alive = true;
        traffic(channel, rng, |channel| {
            let now = Instant::now();
            assert!(now < deadline, "seed {seed}: the death of the peer is not seen");
            if alive && now >= moment {
                alive = false;
                peer.0.kill().unwrap();
                peer.0.wait().unwrap();
                assert!(!channel.peer_is_alive());
                if told {
                    watch.abandon(theirs);
                }
            }
            true
        });
        assert!(!alive, "seed {seed}: the channel ended before its peer did");
        assert!(watch.in_flight(theirs).is_ok());
        assert_all_free(&pool, &format!("seed {seed}"));
    }
}

/// Takes part now and then, and writes random bytes wherever it can.
fn scribble(mut channel: Channel, mut rng: Rng, [pool, region]: &[File; 2]) {
    let end = Instant::now() + Duration::from_secs(10);
    let mut bytes = [0; 64];
    // At first hardly anything, so that there is something to disturb.
    let mut calm = rng.u32(..2000);
    while Instant::now() < end {
        for _ in 0..calm {
            let _ = channel.try_recv();
            let _ =
                channel.pool().alloc(rng.usize(..ZONE)).map(|qbuf| channel.try_send(qbuf).map_err(ChannelError::from));
            let _ = channel.try_send_bytes(&[1; 8]);
        }
        calm /= 2;
        rng.fill(&mut bytes);
        if rng.u32(..4) == 0 {
            bytes[1..].fill(0);
        }
        let len = 1 << rng.u32(..7);
        // The control words more often than the slots, and the tables of the pool more often than its blocks.
        let (file, at) = match rng.u32(..6) {
            0 => (region, rng.u64(..1536)),
            1 => (region, 512 + 128 * rng.u64(..8)),
            2 => (region, 4096 + rng.u64(..2 * 64 * 64)),
            3 => (pool, rng.u64(..70_000)),
            4 => (pool, 65_664 + rng.u64(..8 * 384)),
            _ => (pool, rng.u64(..8 * ZONE as u64)),
        };
        let _ = file.write_at(&bytes[..len], at);
    }
}

//= B-13 test
#[test]
fn a_peer_that_scribbles_costs_the_connection_at_most() {
    let end = Instant::now() + Duration::from_secs(number_of("PINNACE_SCRIBBLE_SECONDS", 3));
    let first = seed();
    let mut closed = 0;
    let mut round = 0;
    while Instant::now() < end {
        let mut rng = Rng::with_seed(first.wrapping_add(round));
        let pool = new_pool(8);
        let fds = Channel::create(&pool, &ChannelOptions { slots: 64, ..ChannelOptions::default() }).unwrap();
        // Before the other begins to write over it.
        let mut channel = Channel::attach(&pool, fds.try_clone().unwrap(), Side::A).unwrap();
        let _peer = start(&pool, &fds, Side::B, "scribble", rng.u64(..));
        let deadline = Instant::now() + Duration::from_secs(60);
        assert_ne!(channel.wait_writable(Duration::ZERO, Some(deadline)).ok(), Some(false), "the other does not come");
        let stop = Instant::now() + Duration::from_millis(500);
        let mut held = Vec::new();
        let mut ended = false;
        while Instant::now() < stop {
            let began = Instant::now();
            let outcome = match rng.u32(..6) {
                0 => channel.try_send_bytes(&[3; 40]).map(|_| ()),
                1 => pool.alloc(rng.usize(..ZONE)).map_or(Ok(()), |mut qbuf| {
                    qbuf.fill(3);
                    channel.try_send(qbuf).map_err(ChannelError::from)
                }),
                2 => channel.wait_readable(Duration::ZERO, Some(began + Duration::from_millis(1))).map(|_| ()),
                3 => channel.wait_writable(Duration::ZERO, Some(began + Duration::from_millis(1))).map(|_| ()),
                4 => {
                    held.truncate(4);
                    Ok(())
                }
                _ => channel.try_recv().map(|message| {
                    // Reading all of it must be possible, whatever it is.
                    held.extend(message.inspect(|bytes| {
                        assert!(bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>() < u64::MAX);
                    }));
                }),
            };
            assert!(began.elapsed() < Duration::from_secs(20), "seed {}: a call hangs", first.wrapping_add(round));
            ended |= matches!(outcome, Err(ChannelError::Corrupt | ChannelError::Closed));
        }
        closed += u32::from(ended);
        round += 1;
    }
    assert!(round > 0 && closed > 0, "of {round} channels {closed} were closed: nobody was disturbed");
    eprintln!("{closed} of {round} channels were closed");
}
