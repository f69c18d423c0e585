//! Channels whose two ends are in one process: what each call does, how a channel ends, and what a lying peer achieves.
#![allow(missing_docs)]

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use pinnace_qbuf::channel::{
    Channel, ChannelError, ChannelFds, ChannelOptions, INLINE_MAX, Interest, Received, Rejected, Side, Watch, in_flight,
};
use pinnace_qbuf::{ClientId, Pool, PoolOptions};

/// Where the words of the ring from A to B lie in the region; those of the other ring follow 512 bytes later.
const TAIL: u64 = 512;
const HEAD: u64 = 640;
const READER: u64 = 768;
const WRITER: u64 = 896;
const SLOTS: u64 = 4096;

struct Pair {
    pool: Pool,
    here: Channel,
    there: Channel,
    fds: ChannelFds,
}

fn options(slots: u32) -> ChannelOptions {
    ChannelOptions { slots, number: 77, ..ChannelOptions::default() }
}

/// Two attachments to one pool, as two processes have them.
fn pair(slots: u32) -> Pair {
    pair_in(&PoolOptions { zones: 2, ..PoolOptions::default() }, slots)
}

fn pair_in(pool: &PoolOptions, slots: u32) -> Pair {
    let pool = Pool::create(pool).unwrap();
    let other = Pool::attach(pool.fd().try_clone_to_owned().unwrap()).unwrap();
    let fds = Channel::create(&pool, &options(slots)).unwrap();
    let here = Channel::attach(&pool, fds.try_clone().unwrap(), Side::A).unwrap();
    let there = Channel::attach(&other, fds.try_clone().unwrap(), Side::B).unwrap();
    Pair { pool, here, there, fds }
}

fn send(pair: &mut Pair, text: &[u8]) {
    let mut qbuf = pair.here.pool().alloc(text.len()).unwrap();
    qbuf.copy_from_slice(text);
    pair.here.try_send(qbuf).unwrap();
}

fn scribble(fds: &ChannelFds, offset: u64, value: u64) {
    File::from(fds.region.try_clone().unwrap()).write_all_at(&value.to_le_bytes(), offset).unwrap();
}

fn assert_nothing_leaks(pair: Pair) {
    let Pair { pool, here, there, .. } = pair;
    drop((here, there));
    pool.sweep();
    let stats = pool.stats();
    assert_eq!(stats.free_blocks, stats.blocks, "{stats:?}");
}

//= B-6 test
//= B-14 test
#[test]
fn what_is_sent_arrives_and_changes_hands() {
    let mut pair = pair(8);
    assert!(pair.there.try_recv().unwrap().is_none());
    send(&mut pair, b"in a buffer");
    for len in [0, 1, INLINE_MAX, INLINE_MAX + 1, 128 << 10] {
        assert_eq!(pair.here.try_send_bytes(&vec![7; len]).unwrap(), len);
    }
    let Some(Received::Qbuf(qbuf)) = pair.there.try_recv().unwrap() else { panic!("not a buffer") };
    assert_eq!(&qbuf[..], b"in a buffer");
    assert_eq!(pair.pool.owner(qbuf.first_block()).unwrap().client, pair.there.pool().client());
    for len in [0, 1, INLINE_MAX, INLINE_MAX + 1, 128 << 10] {
        let message = pair.there.try_recv().unwrap().unwrap();
        assert_eq!((message.len(), matches!(message, Received::Inline(_))), (len, len <= INLINE_MAX));
        assert!(message.iter().all(|byte| *byte == 7));
    }
    // The same buffer goes back.
    pair.there.try_send(qbuf).unwrap();
    assert_eq!(&*pair.here.try_recv().unwrap().unwrap(), b"in a buffer");
    assert_eq!(pair.here.try_send_bytes(&vec![1; 200 << 10]).unwrap(), 128 << 10, "no more than a zone at once");
    assert_nothing_leaks(pair);
}

#[test]
fn a_full_ring_gives_the_buffer_back_and_goes_on() {
    let mut pair = pair(4);
    for round in 0..1000_u32 {
        let mut sent = 0;
        while pair.here.try_send_bytes(&(round * 4 + sent).to_le_bytes()).is_ok() {
            sent += 1;
        }
        assert_eq!(sent, 4);
        let qbuf = pair.here.pool().alloc(1).unwrap();
        assert!(matches!(pair.here.try_send(qbuf), Err(Rejected::Full(_))));
        assert!(matches!(pair.here.try_send_bytes(b"x"), Err(ChannelError::Full)));
        assert!(!pair.here.wait_writable(Duration::ZERO, Some(Instant::now())).unwrap());
        for expected in 0..4 {
            assert_eq!(*pair.there.try_recv().unwrap().unwrap(), (round * 4 + expected).to_le_bytes());
        }
    }
    assert_nothing_leaks(pair);
}

#[test]
fn what_is_queued_is_seen_when_it_is_published() {
    let mut pair = pair(8);
    let queue = |pair: &mut Pair| {
        let qbuf = pair.here.pool().alloc(1).unwrap();
        pair.here.try_queue(qbuf).unwrap();
    };
    queue(&mut pair);
    queue(&mut pair);
    assert!(pair.there.try_recv().unwrap().is_none());
    pair.here.publish();
    assert!(pair.there.try_recv().unwrap().is_some());
    assert!(pair.there.try_recv().unwrap().is_some());
    queue(&mut pair);
    // What was queued and never published belongs to nobody's reader, and is not lost.
    assert_nothing_leaks(pair);
}

#[test]
fn a_message_waits_for_who_has_his_share() {
    let pool = Pool::create(&PoolOptions { zones: 4, share_percent: 25, ..PoolOptions::default() }).unwrap();
    let other = Pool::attach(pool.fd().try_clone_to_owned().unwrap()).unwrap();
    let fds = Channel::create(&pool, &options(8)).unwrap();
    let mut here = Channel::attach(&pool, fds.try_clone().unwrap(), Side::A).unwrap();
    let mut there = Channel::attach(&other, fds, Side::B).unwrap();
    let held = other.alloc(128 << 10).unwrap();
    for byte in [1, 2] {
        here.try_send_bytes(&[byte; 5000]).unwrap();
    }
    for _ in 0..3 {
        assert!(matches!(there.try_recv(), Err(ChannelError::NoMemory)));
    }
    drop(held);
    for byte in [1, 2] {
        assert_eq!(&*there.try_recv().unwrap().unwrap(), &[byte; 5000]);
    }
}

//= B-13 test
#[test]
fn nobody_waits_for_a_bell_that_the_other_side_has_made_a_waiting_one() {
    let Pair { mut here, mut there, fds, .. } = pair(8);
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let brim = (u64::MAX - 1).to_le_bytes();
        for bell in &fds.doorbells {
            while rustix::io::read(bell, &mut [0; 8]).is_ok() {}
            rustix::fs::fcntl_setfl(bell, rustix::fs::OFlags::empty()).unwrap();
        }
        assert!(!here.arm(Interest::Readable).unwrap());
        assert!(!here.arm(Interest::Readable).unwrap());
        let soon = Some(Instant::now() + Duration::from_millis(150));
        assert!(!there.wait_readable(Duration::ZERO, soon).unwrap());
        // To the brim, which makes writing wait.
        for bell in &fds.doorbells {
            rustix::io::write(bell, &brim).unwrap();
            rustix::fs::fcntl_setfl(bell, rustix::fs::OFlags::empty()).unwrap();
        }
        there.try_send_bytes(b"ahoy").unwrap();
        assert!(here.wait_readable(Duration::ZERO, None).unwrap());
        drop((here, there));
        done.send(()).unwrap();
    });
    is_done.recv_timeout(Duration::from_secs(10)).expect("it waits");
}

//= B-13 test
#[test]
fn who_does_not_read_leaves_the_pool_to_others() {
    let fill = |blocks: usize| {
        let mut pair = pair_in(&PoolOptions { zones: 16, share_percent: 90, ..PoolOptions::default() }, 1024);
        let (total, mut sent) = (pair.pool.stats().free_blocks as u32, 0);
        loop {
            let qbuf = pair.here.pool().alloc(blocks * 4096).unwrap();
            match pair.here.try_send(qbuf) {
                Ok(()) => sent += blocks as u32,
                Err(Rejected::Full(_)) => break,
                Err(other) => panic!("{other:?}"),
            }
        }
        assert!(!pair.here.wait_writable(Duration::ZERO, Some(Instant::now())).unwrap());
        assert!(sent >= total / 8 && sent < total / 2, "{sent} of {total} blocks are on their way");
        // A short one needs none.
        assert_eq!(pair.here.try_send_bytes(b"x").unwrap(), 1);
        // What is taken makes room, and wakes who sleeps.
        while !pair.here.arm(Interest::Writable).unwrap() {
            drop(pair.there.try_recv().unwrap().expect("all is taken, and there is no room"));
            assert!(is_rung(&pair.here));
        }
        assert_eq!(pair.here.try_send_bytes(&vec![1; blocks * 4096]).unwrap(), blocks * 4096);
        assert_nothing_leaks(pair);
    };
    for blocks in [1, 3, 32] {
        fill(blocks);
    }
}

#[test]
fn a_pool_that_is_nobody_elses_may_be_on_its_way() {
    let mut pair = pair_in(&PoolOptions { zones: 16, ..PoolOptions::default() }, 1024);
    for _ in 0..16 {
        assert_eq!(pair.here.try_send_bytes(&vec![1; 128 << 10]).unwrap(), 128 << 10);
    }
    assert!(matches!(pair.here.try_send_bytes(&[1; 57]), Err(ChannelError::NoMemory)));
    assert_nothing_leaks(pair);
}

#[test]
fn a_reader_who_keeps_up_keeps_nobody_waiting_however_often_the_ring_goes_round() {
    let mut pair = pair_in(&PoolOptions { zones: 16, share_percent: 90, ..PoolOptions::default() }, 4);
    let round = |pair: &mut Pair| {
        for _ in 0..1000 {
            assert_eq!(pair.here.try_send_bytes(&[1; 57]).unwrap(), 57);
            drop(pair.there.try_recv().unwrap().unwrap());
        }
    };
    round(&mut pair);
    // Messages that need no blocks take slots as well.
    for _ in 0..1000 {
        pair.here.try_send_bytes(b"short").unwrap();
        drop(pair.there.try_recv().unwrap().unwrap());
    }
    // Others take nearly all of the pool.
    let other = Pool::attach(pair.pool.fd().try_clone_to_owned().unwrap()).unwrap();
    let held: Vec<_> = std::iter::from_fn(|| other.alloc(128 << 10)).collect();
    assert!(!held.is_empty());
    round(&mut pair);
    drop((held, other));
    assert_nothing_leaks(pair);
}

#[test]
fn a_window_opens_again_when_others_free_what_they_had() {
    let mut pair = pair_in(&PoolOptions { zones: 16, share_percent: 90, ..PoolOptions::default() }, 1024);
    let other = Pool::attach(pair.pool.fd().try_clone_to_owned().unwrap()).unwrap();
    let held: Vec<_> = std::iter::from_fn(|| other.alloc(128 << 10)).collect();
    let mut sent = 0;
    while pair.here.try_send_bytes(&[1; 57]).is_ok() {
        sent += 1;
    }
    assert!(sent <= 32, "{sent} blocks of few are on their way");
    drop(held);
    let deadline = Some(Instant::now() + Duration::from_secs(5));
    assert!(pair.here.wait_writable(Duration::ZERO, deadline).unwrap(), "nobody looks at the pool again");
    drop(other);
    assert_nothing_leaks(pair);
}

#[test]
fn with_nothing_on_its_way_the_longest_message_may_go() {
    // A pool of a single zone: the message is all of it that one process may have.
    let (pool, fds) = {
        let pool = Pool::create(&PoolOptions { zones: 1, share_percent: 99, ..PoolOptions::default() }).unwrap();
        let fds = Channel::create(&pool, &ChannelOptions::default()).unwrap();
        (pool, fds)
    };
    let mut here = Channel::attach(&pool, fds.try_clone().unwrap(), Side::A).unwrap();
    let there = Pool::attach(pool.fd().try_clone_to_owned().unwrap()).unwrap();
    let mut there = Channel::attach(&there, fds, Side::B).unwrap();
    for _ in 0..10 {
        here.try_send_bytes(&vec![1; 124 << 10]).unwrap();
        assert!(matches!(here.try_send_bytes(&[1; 57]), Err(ChannelError::Full)));
        drop(there.try_recv().unwrap().unwrap());
        assert!(here.wait_writable(Duration::ZERO, Some(Instant::now())).unwrap());
    }
    here.try_send_bytes(&vec![1; 124 << 10]).unwrap();
    drop(there);
    assert!(here.wait_writable(Duration::ZERO, Some(Instant::now())).unwrap());
    assert!(matches!(here.try_send_bytes(&[1; 57]), Err(ChannelError::Closed)));
}

#[test]
fn a_half_closed_channel_still_works_in_the_other_direction() {
    let mut pair = pair(8);
    send(&mut pair, b"last");
    pair.here.finish();
    let qbuf = pair.here.pool().alloc(1).unwrap();
    assert!(matches!(pair.here.try_send(qbuf), Err(Rejected::Closed(_))));
    assert_eq!(&*pair.there.try_recv().unwrap().unwrap(), b"last");
    for _ in 0..2 {
        assert!(matches!(pair.there.try_recv(), Err(ChannelError::Closed)));
    }
    assert!(pair.there.wait_readable(Duration::ZERO, None).unwrap(), "the end is something to read");
    pair.there.try_send_bytes(b"answer").unwrap();
    assert_eq!(&*pair.here.try_recv().unwrap().unwrap(), b"answer");
    assert_nothing_leaks(pair);
}

//= B-12 test
#[test]
fn what_was_sent_before_a_close_can_be_read_after_it() {
    let Pair { pool, mut here, mut there, .. } = pair(8);
    here.try_send_bytes(&[5; 10_000]).unwrap();
    there.try_send_bytes(&[6; 10_000]).unwrap();
    drop(here);
    let qbuf = there.pool().alloc(1).unwrap();
    // The first may not notice; it is not lost for that.
    let _ = there.try_send(qbuf);
    let qbuf = there.pool().alloc(1).unwrap();
    assert!(matches!(there.try_send(qbuf), Err(Rejected::Closed(_))));
    assert_eq!(*there.try_recv().unwrap().unwrap(), [5; 10_000]);
    assert!(matches!(there.try_recv(), Err(ChannelError::Closed)));
    let stats = pool.stats();
    assert_eq!(stats.free_blocks, stats.blocks, "before anything is swept: {stats:?}");
}

#[test]
fn a_buffer_of_another_attachment_is_refused() {
    let mut pair = pair(8);
    let qbuf = pair.there.pool().alloc(1).unwrap();
    assert!(matches!(pair.here.try_send(qbuf), Err(Rejected::Foreign(_))));
    assert_nothing_leaks(pair);
}

//= B-9 test
//= B-13 test
#[test]
fn a_region_that_is_none_is_refused() {
    let pair = pair(8);
    let attach = |fds: &ChannelFds, side| Channel::attach(&pair.pool, fds.try_clone().unwrap(), side).err();
    assert!(matches!(attach(&pair.fds, Side::A), Some(ChannelError::Refused(_))), "the side is taken");
    let not_sealed = ChannelFds { region: tempfile(), doorbells: pair.fds.try_clone().unwrap().doorbells };
    assert!(matches!(attach(&not_sealed, Side::A), Some(ChannelError::Refused(_))));
    let of_another_kind = ChannelFds {
        region: pair.pool.fd().try_clone_to_owned().unwrap(),
        doorbells: pair.fds.try_clone().unwrap().doorbells,
    };
    assert!(matches!(attach(&of_another_kind, Side::A), Some(ChannelError::Refused(_))));
    for (offset, value) in [(0, 1), (8, 2 | 8 << 32), (8, 1 | 9 << 32), (8, 1 | 16 << 32), (8, 1), (8, u64::MAX)] {
        let fds = Channel::create(&pair.pool, &options(8)).unwrap();
        scribble(&fds, offset, value);
        assert!(matches!(attach(&fds, Side::A), Some(ChannelError::Refused(_))), "{value:#x} at {offset}");
        assert!(in_flight(fds.region.as_fd(), Side::A).is_err());
    }
    let mine = ChannelOptions { clients: [Some(ClientId::from_bits(999)), None], ..options(8) };
    let fds = Channel::create(&pair.pool, &mine).unwrap();
    assert!(matches!(attach(&fds, Side::A), Some(ChannelError::Refused(_))), "it is another client's side");
    assert!(attach(&fds, Side::B).is_none());
}

fn tempfile() -> std::os::fd::OwnedFd {
    File::open("/proc/self/exe").unwrap().into()
}

//= B-13 test
#[test]
fn a_reader_meets_every_lie_with_an_error() {
    let lies = [
        (TAIL, 9),
        (TAIL, u64::MAX),
        (TAIL, 1 << 63),
        (TAIL, 0),
        (TAIL, 3), // shows a slot that was never written
        (WRITER, 3),
        (WRITER, u64::MAX),
        (SLOTS + 64, 0),
        (SLOTS + 64, 1 | 57 << 8),
        (SLOTS + 64, 7),
        (SLOTS + 72, u64::MAX),     // a block that the pool has not
        (SLOTS + 72, 1 << 32 | 63), // a block that nobody passed
        (SLOTS + 72, u64::MAX << 32 | 1),
    ];
    for (offset, value) in lies {
        let mut pair = pair(8);
        send(&mut pair, b"good");
        send(&mut pair, b"bad");
        assert_eq!(&*pair.there.try_recv().unwrap().unwrap(), b"good");
        // It has seen that there are two; what it has seen it does not read again.
        scribble(&pair.fds, offset, value);
        let mut errors = 0;
        for _ in 0..4 {
            match pair.there.try_recv() {
                Ok(_) => assert_eq!(errors, 0, "{value:#x} at {offset}: it goes on after an error"),
                Err(ChannelError::Corrupt) => errors += 1,
                Err(error) => panic!("{value:#x} at {offset}: {error:?}"),
            }
            assert!(
                pair.there.wait_readable(Duration::ZERO, Some(Instant::now())).is_ok() || errors > 0 || offset < SLOTS
            );
        }
        assert!(errors > 0, "{value:#x} at {offset} was believed");
        assert!(matches!(pair.there.try_send_bytes(b"x"), Err(ChannelError::Corrupt)));
        assert_nothing_leaks(pair);
    }
}

//= B-13 test
#[test]
fn a_writer_meets_every_lie_with_an_error() {
    for (offset, value) in [(HEAD, 9), (HEAD, u64::MAX), (HEAD, 1 << 63), (READER, 3), (READER, u64::MAX)] {
        let mut pair = pair(8);
        scribble(&pair.fds, offset, value);
        let mut refused = false;
        for _ in 0..10 {
            let qbuf = pair.here.pool().alloc(1).unwrap();
            refused |= matches!(pair.here.try_send(qbuf), Err(Rejected::Closed(_)));
        }
        assert!(refused, "{value:#x} at {offset} was believed");
        assert!(matches!(pair.here.try_send_bytes(b"x"), Err(ChannelError::Corrupt)));
        assert!(matches!(pair.here.try_recv(), Err(ChannelError::Corrupt)));
        assert!(pair.here.wait_writable(Duration::ZERO, None).unwrap(), "who waits learns it");
        assert_nothing_leaks(pair);
    }
}

#[test]
fn a_bell_rings_until_all_who_sleep_have_heard_it() {
    let Pair { mut here, mut there, .. } = pair(4);
    while here.try_send_bytes(b"fill").is_ok() {}
    // One thread sleeps until it can write, and another comes and goes to read.
    assert!(!here.arm(Interest::Writable).unwrap());
    let writer = here.begin_sleep();
    assert!(!here.arm(Interest::Readable).unwrap() && !is_rung(&here));
    there.try_recv().unwrap().unwrap();
    for _ in 0..3 {
        assert!(is_rung(&here));
        assert!(!here.arm(Interest::Readable).unwrap());
    }
    assert!(is_rung(&here), "the writer would go on sleeping");
    drop(writer);
    assert!(!here.arm(Interest::Readable).unwrap() && !is_rung(&here));
}

#[test]
fn who_only_looks_disarms_nobody() {
    let Pair { mut here, mut there, .. } = pair(4);
    while here.try_send_bytes(b"fill").is_ok() {}
    assert!(!here.arm(Interest::Readable).unwrap());
    assert!(!here.wait_writable(Duration::ZERO, Some(Instant::now())).unwrap());
    there.try_send_bytes(b"ahoy").unwrap();
    assert!(is_rung(&here));
}

#[test]
fn who_sleeps_is_woken_from_this_side_as_well() {
    let Pair { mut here, there: _there, .. } = pair(4);
    assert!(!here.arm(Interest::Readable).unwrap() && !is_rung(&here));
    here.wake();
    assert!(is_rung(&here));
    assert!(!here.arm(Interest::Readable).unwrap() && !is_rung(&here), "there was nothing to read");
}

fn is_rung(channel: &Channel) -> bool {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(channel.readable_fd(), rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut fds, Some(&now)).unwrap() == 1
}

#[test]
fn only_who_said_that_it_sleeps_is_woken() {
    let mut pair = pair(2);
    assert!(!pair.there.arm(Interest::Readable).unwrap());
    pair.there.disarm();
    pair.here.try_send_bytes(b"1").unwrap();
    assert!(!is_rung(&pair.there), "it did not say so");
    assert!(pair.there.arm(Interest::Readable).unwrap(), "there is a message");
    pair.there.try_recv().unwrap();
    assert!(!pair.there.arm(Interest::Readable).unwrap());
    assert!(!is_rung(&pair.there));
    pair.here.try_send_bytes(b"2").unwrap();
    assert!(is_rung(&pair.there));
    pair.here.try_send_bytes(b"3").unwrap();
    assert!(!pair.here.arm(Interest::Writable).unwrap());
    assert!(!is_rung(&pair.here));
    pair.there.try_recv().unwrap();
    assert!(is_rung(&pair.here));
    assert!(pair.here.arm(Interest::Writable).unwrap());
}

#[test]
fn a_bell_that_one_silences_rings_again_for_the_other() {
    let mut pair = pair(2);
    pair.here.try_send_bytes(b"1").unwrap();
    pair.here.try_send_bytes(b"2").unwrap();
    assert!(!pair.here.arm(Interest::Readable).unwrap());
    assert!(!pair.here.arm(Interest::Writable).unwrap());
    pair.there.try_send_bytes(b"3").unwrap();
    // The thread that waits for room is awake first, finds none, and sleeps again.
    assert!(!pair.here.arm(Interest::Writable).unwrap());
    assert!(is_rung(&pair.here), "the thread that waits for a message must wake");
    assert!(pair.here.arm(Interest::Readable).unwrap());
}

//= B-12 test
#[test]
fn a_side_that_is_given_up_ends_after_what_it_sent() {
    let mut pair = pair(8);
    send(&mut pair, b"sent");
    pair.here.try_send_bytes(b"short").unwrap();
    let queued = pair.here.pool().alloc(1).unwrap();
    pair.here.try_queue(queued).unwrap();
    let watch = Watch::new(pair.fds.try_clone().unwrap()).unwrap();
    assert_eq!(
        (watch.number(), watch.client(Side::A), watch.is_claimed(Side::B)),
        (77, Some(pair.pool.client()), true)
    );
    let flying: Vec<_> = watch.in_flight(Side::A).unwrap().map(|passed| passed.len).collect();
    assert_eq!(flying, [4], "neither the short one nor the one that was not published");
    assert!(pair.there.arm(Interest::Readable).unwrap() && !is_rung(&pair.there));
    watch.abandon(Side::A);
    assert!(is_rung(&pair.there));
    let mut messages = Vec::new();
    let end = loop {
        match pair.there.try_recv() {
            Ok(message) => messages.extend(message),
            Err(error) => break error,
        }
    };
    assert!(matches!(end, ChannelError::Closed), "{end:?}");
    assert_eq!(messages.iter().map(|message| message.len()).collect::<Vec<_>>(), [4, 5]);
    assert!(matches!(
        pair.there.try_send_bytes(b"x").and_then(|_| pair.there.try_send_bytes(b"x")),
        Err(ChannelError::Closed)
    ));
    scribble(&pair.fds, TAIL, 1 << 40);
    assert!(matches!(watch.in_flight(Side::A).err(), Some(ChannelError::Corrupt)));
    drop(messages);
    assert_nothing_leaks(pair);
}

#[test]
fn nothing_is_sent_to_who_is_not_known_yet() {
    let pool = Pool::create(&PoolOptions::default()).unwrap();
    let fds = Channel::create(&pool, &options(4)).unwrap();
    let mut here = Channel::attach(&pool, fds.try_clone().unwrap(), Side::A).unwrap();
    assert!(matches!(here.try_send_bytes(b"x"), Err(ChannelError::Full)));
    assert!(!here.arm(Interest::Writable).unwrap());
    assert!(here.peer().is_none() && here.peer_is_alive());
    let mut there = Channel::attach(&pool, fds, Side::B).unwrap();
    assert!(is_rung(&here));
    here.try_send_bytes(b"x").unwrap();
    assert_eq!(&*there.try_recv().unwrap().unwrap(), b"x");
    // Where the clients are known in advance, it can be sent at once.
    let known = ChannelOptions { clients: [Some(pool.client()); 2], ..options(4) };
    let fds = Channel::create(&pool, &known).unwrap();
    let mut early = Channel::attach(&pool, fds.try_clone().unwrap(), Side::A).unwrap();
    early.try_send_bytes(&[1; 5000]).unwrap();
    let mut late = Channel::attach(&pool, fds, Side::B).unwrap();
    assert_eq!(*late.try_recv().unwrap().unwrap(), [1; 5000]);
}
