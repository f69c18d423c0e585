//! Streams over a channel whose two ends are in one process.

use super::stream::Inner;
use super::{Options, Pool, PoolOptions, Shutdown, State, Stream, Way};
use crate::Idle;
use crate::daemon::Arrival;
use pinnace_qbuf::channel::{Channel, ChannelOptions, Side};
use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

fn pair_of(slots: u32, idle: Idle) -> (Stream, Stream) {
    pair_in(&PoolOptions { zones: 64, share_percent: 99, ..PoolOptions::default() }, slots, idle)
}

fn pair_in(pool: &PoolOptions, slots: u32, idle: Idle) -> (Stream, Stream) {
    let pool = Pool::create(pool).unwrap();
    let there = Pool::attach(pool.fd().try_clone_to_owned().unwrap()).unwrap();
    let clients = [Some(pool.client()), Some(there.client())];
    let fds = Channel::create(&pool, &ChannelOptions { slots, number: 1, clients }).unwrap();
    let addresses = ["127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()];
    let options = Options { idle, ..Options::default() };
    let a = Channel::attach(&pool, fds.try_clone().unwrap(), Side::A).unwrap();
    let b = Channel::attach(&there, fds, Side::B).unwrap();
    let a = Arrival { channel: a, peer: addresses[1], local: addresses[0] };
    let b = Arrival { channel: b, peer: addresses[0], local: addresses[1] };
    (Stream::over_channel(a, &options).unwrap(), Stream::over_channel(b, &options).unwrap())
}

fn pair() -> (Stream, Stream) {
    pair_of(64, Idle::default())
}

//= B-14 test
#[test]
fn a_qbuf_passes_without_a_copy_whatever_its_length() {
    let (a, b) = pair();
    assert_eq!((a.way(), b.peer_addr(), a.state()), (Way::SharedMemory, a.local_addr(), State::Active));
    for len in [1, 48, 4096, 100_000, 128 << 10] {
        let mut qbuf = a.alloc(len).unwrap();
        qbuf.fill(len as u8);
        let place = qbuf.offset();
        a.send_qbuf(qbuf).unwrap();
        let got = b.recv_qbuf().unwrap().unwrap();
        assert_eq!((got.len(), got.offset()), (len, place));
        assert!(got.iter().all(|byte| *byte == len as u8));
    }
    assert!(b.try_recv_qbuf().unwrap().is_none());
    a.shutdown(Shutdown::Write).unwrap();
    assert!(b.recv_qbuf().unwrap().is_none());
    assert_eq!(a.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn bytes_flow_both_ways_at_once_in_every_way_to_wait() {
    for idle in [Idle::Block, Idle::default(), Idle::Spin] {
        let (a, b) = pair_of(4, idle);
        let total = 3_000_000;
        let pump = |stream: &Stream, seed: u8| {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let bytes: Vec<u8> = (0..total).map(|at| (at as u8).wrapping_add(seed)).collect();
                    (&mut &*stream).write_all(&bytes).unwrap();
                    stream.shutdown(Shutdown::Write).unwrap();
                });
                let mut got = Vec::new();
                (&mut &*stream).read_to_end(&mut got).unwrap();
                let other = seed ^ 1;
                assert!(
                    got.len() == total && got.iter().enumerate().all(|(at, it)| *it == (at as u8).wrapping_add(other))
                );
            });
        };
        thread::scope(|scope| {
            scope.spawn(|| pump(&a, 0));
            pump(&b, 1);
        });
        assert_eq!((a.state(), b.state()), (State::Quiescent, State::Quiescent));
    }
}

#[test]
fn what_ends_without_its_end_was_reset() {
    let (a, b) = pair();
    a.write(b"not read").unwrap();
    drop(b);
    assert_eq!(a.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    // As with TCP, the first one may be taken before it is noticed.
    let errors = [a.write(b"x"), a.write(b"x")].map(|result| result.err().map(|error| error.kind()));
    assert_eq!(errors[1], Some(ErrorKind::BrokenPipe));

    let (a, b) = pair();
    a.write(b"in order").unwrap();
    drop(a);
    let mut all = Vec::new();
    (&b).read_to_end(&mut all).unwrap();
    assert_eq!(all, b"in order");

    let (a, b) = pair();
    a.write(b"rest").unwrap();
    a.set_linger(Some(Duration::ZERO));
    drop(a);
    assert_eq!(b.read(&mut [0; 8]).unwrap(), 4);
    assert_eq!(b.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(b.failure().is_some());
}

#[test]
fn what_a_connection_failed_with_is_known_before_anybody_reads() {
    let (a, b) = pair();
    a.set_linger(Some(Duration::ZERO));
    drop(a);
    assert!(b.failure().is_some() && b.state() == State::Quiescent && b.is_readable());
    assert_eq!(b.failure(), b.standing().failure);

    let (a, b) = pair();
    a.write(b"rest").unwrap();
    a.set_linger(Some(Duration::ZERO));
    drop(a);
    assert_eq!((b.failure(), b.readable_bytes()), (None, 4), "what came before it is read first");
}

#[test]
fn after_the_end_of_reading_a_read_does_not_wait() {
    let (a, b) = pair();
    a.write(b"not wanted").unwrap();
    assert_eq!(b.readable_bytes(), 10);
    b.shutdown(Shutdown::Read).unwrap();
    assert!((b.readable_bytes(), b.is_readable()) == (0, true) && b.standing().is_at_end);
    assert_eq!(b.try_read(&mut [0; 8]).unwrap(), Some(0));
}

#[test]
fn what_was_closed_with_bytes_unread_is_a_reset_also_while_its_end_waits_for_room() {
    let (a, b) = pair_of(2, Idle::Block);
    a.set_write_timeout(Some(Duration::from_millis(5)));
    while a.write(&[7; 10]).is_ok() {}
    a.shutdown(Shutdown::Write).unwrap();
    b.write(b"never read").unwrap();
    drop(a);
    let mut all = Vec::new();
    assert_eq!((&b).read_to_end(&mut all).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(all, [7; 20]);
}

#[test]
fn what_was_closed_with_bytes_unread_is_a_reset_also_after_the_end_of_reading() {
    for (sent, expected) in [(&b"not wanted"[..], Err(ErrorKind::ConnectionReset)), (b"", Ok(0))] {
        let (a, b) = pair();
        b.shutdown(Shutdown::Read).unwrap();
        a.write(sent).unwrap();
        a.shutdown(Shutdown::Write).unwrap();
        drop(b);
        assert_eq!(a.read(&mut [0; 8]).map_err(|error| error.kind()), expected);
    }
}

#[test]
fn a_read_keeps_what_it_has_when_the_share_of_the_process_is_used_up() {
    let (a, b) = pair_in(&PoolOptions { zones: 4, share_percent: 25, ..PoolOptions::default() }, 64, Idle::Block);
    let held = b.alloc(128 << 10).unwrap();
    a.write(&[1; 40]).unwrap();
    a.write(&[2; 5000]).unwrap();
    let mut bytes = vec![0; 10_000];
    assert_eq!((b.read(&mut bytes).unwrap(), &bytes[..40]), (40, &[1; 40][..]));
    assert_eq!(b.read(&mut bytes).unwrap_err().kind(), ErrorKind::OutOfMemory);
    drop(held);
    assert_eq!((b.read(&mut bytes).unwrap(), &bytes[..5000]), (5000, &[2; 5000][..]));
}

#[test]
fn what_is_broken_off_is_a_reset_at_both_ends() {
    let (a, b) = pair();
    a.write(b"the first of many").unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| a.read(&mut [0; 8]));
        thread::sleep(Duration::from_millis(20));
        a.abort();
        assert_eq!(waiting.join().unwrap().unwrap(), 0, "nobody waits for what will not come");
    });
    assert_eq!(a.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert_eq!(b.read(&mut [0; 20]).unwrap(), 17);
    assert_eq!(b.read(&mut [0; 20]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    drop(a);
    assert_eq!(b.read(&mut [0; 20]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn the_end_waits_for_room_in_the_background() {
    let (a, b) = pair_of(2, Idle::Block);
    a.set_write_timeout(Some(Duration::from_millis(5)));
    while a.write(&[7; 10]).is_ok() {}
    drop(a);
    let mut all = Vec::new();
    (&b).read_to_end(&mut all).unwrap();
    assert!(all.len() >= 10 && all.iter().all(|byte| *byte == 7));
}

#[test]
fn waits_end_with_their_time_and_peeks_take_nothing() {
    let (a, b) = pair();
    b.set_read_timeout(Some(Duration::from_millis(10)));
    let before = Instant::now();
    assert_eq!(b.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(before.elapsed() >= Duration::from_millis(9));
    assert!(b.try_read(&mut [0; 8]).unwrap().is_none() && !b.is_readable());
    a.write(b"ahoy").unwrap();
    let mut bytes = [0; 8];
    assert_eq!((b.peek(&mut bytes).unwrap(), b.readable_bytes(), b.is_readable()), (4, 4, true));
    assert_eq!((b.read(&mut bytes[..3]).unwrap(), b.recv_qbuf().unwrap().unwrap().to_vec()), (3, b"y".to_vec()));
}

#[test]
fn a_qbuf_of_another_pool_is_copied() {
    let (a, b) = pair();
    let other = Pool::create(&PoolOptions::default()).unwrap();
    let mut qbuf = other.alloc(5000).unwrap();
    qbuf.fill(3);
    a.send_qbuf(qbuf).unwrap();
    assert!(b.recv_qbuf().unwrap().unwrap().iter().all(|byte| *byte == 3));
}

#[test]
fn a_reader_who_does_not_read_keeps_its_writer_waiting_and_not_the_pool() {
    let (a, b) = pair_of(1024, Idle::Block);
    a.set_write_timeout(Some(Duration::from_millis(20)));
    let mut written = 0;
    let error = loop {
        match a.write(&[1; 65_536]) {
            Ok(taken) => written += taken,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!((1 << 20..4 << 20).contains(&written), "{written} of 8 MiB");
    assert!(!a.is_writable());
    let mut read = 0;
    let mut buffer = vec![0; 1 << 20];
    while read < written {
        read += b.read(&mut buffer).unwrap();
    }
    assert!(a.is_writable());
    assert_eq!(a.write(&[1; 65_536]).unwrap(), 65_536);
}

#[test]
fn who_writes_into_an_empty_pool_hears_when_there_is_room() {
    let (a, b) = pair_of(64, Idle::Block);
    let Inner::Shared(shared) = a.inner() else { panic!("not shared") };
    let pool = shared.pool().clone();
    let take_all = || {
        let mut all: Vec<_> = std::iter::from_fn(|| pool.alloc(128 << 10)).collect();
        all.extend(std::iter::from_fn(|| pool.alloc(1)));
        all
    };
    let one = pool.alloc(1).unwrap();
    let mut all = take_all();
    let watch = a.watch().unwrap();
    watch.clear();
    // Whoever polls is not told that he can write what he cannot.
    assert!(a.try_write(&[1; 65_536]).unwrap().is_none());
    for _ in 0..10 {
        assert!(!a.is_writable());
        thread::sleep(Duration::from_millis(1));
    }
    // A single block is enough for some of it, and the doorbell rings for it.
    drop(one);
    let began = Instant::now();
    while !a.is_writable() {
        assert!(began.elapsed() < Duration::from_secs(5), "nobody looks at the pool");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(a.try_write(&[1; 65_536]).unwrap(), Some(4096));
    // A task and a thread that wait go on by themselves.
    thread::scope(|scope| {
        let written = scope.spawn(|| pollster::block_on(a.write_async(&[2; 4096])).unwrap());
        thread::sleep(Duration::from_millis(20));
        drop(std::mem::take(&mut all));
        assert_eq!(written.join().unwrap(), 4096);
        all = take_all();
        let written = scope.spawn(|| a.write(&[3; 4096]).unwrap());
        thread::sleep(Duration::from_millis(20));
        drop(std::mem::take(&mut all));
        assert_eq!(written.join().unwrap(), 4096);
    });
    let mut bytes = vec![0; 3 * 4096];
    let mut read = 0;
    while read < bytes.len() {
        read += b.read(&mut bytes[read..]).unwrap();
    }
    assert!([0, 4096, 8192].iter().zip(1..).all(|(at, value)| bytes[*at..at + 4096].iter().all(|it| *it == value)));
}

#[test]
fn descriptors_and_tasks_hear_of_what_happens() {
    use std::os::fd::AsRawFd;
    let (a, b) = pair();
    let watch = b.watch().unwrap();
    let ready = |timeout: i32| {
        let mut entry = libc::pollfd { fd: watch.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, as the call is told.
        unsafe { libc::poll(&raw mut entry, 1, timeout) == 1 }
    };
    assert!(ready(0), "once when it is set");
    let mut bytes = [0; 8];
    for round in 0..100 {
        watch.clear();
        assert!(b.try_read(&mut bytes).unwrap().is_none());
        assert!(!ready(0), "{round}");
        a.write(b"ahoy").unwrap();
        assert!(ready(5_000), "{round}");
        watch.clear();
        assert_eq!(b.try_read(&mut bytes).unwrap(), Some(4));
    }
    let other = std::sync::Arc::new(super::WakeFd::new().unwrap());
    b.watch_on(other.clone()).unwrap();
    other.clear();
    assert!(b.try_read(&mut bytes).unwrap().is_none());
    other.clear();
    a.write(b"ahoy").unwrap();
    let mut entry = libc::pollfd { fd: other.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, as the call is told.
    assert_eq!(unsafe { libc::poll(&raw mut entry, 1, 5_000) }, 1);
    assert_eq!(b.try_read(&mut bytes).unwrap(), Some(4));

    let writing = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        a.write(b"later").unwrap();
        a
    });
    assert_eq!(pollster::block_on(b.read_async(&mut bytes)).unwrap(), 5);
    drop(writing.join().unwrap());
    assert_eq!(pollster::block_on(b.read_async(&mut bytes)).unwrap(), 0);
    assert!(matches!(b.inner(), Inner::Shared(_)));
}

#[test]
fn who_waits_for_bytes_disturbs_nobody_and_finds_the_end_when_reading_is_shut() {
    let (a, b) = pair_of(64, Idle::Block);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| b.read(&mut [0; 8]).unwrap());
        thread::sleep(Duration::from_millis(30));
        assert!(b.try_read(&mut [0; 8]).unwrap().is_none() && !b.is_readable());
        assert_eq!((b.readable_bytes(), b.state()), (0, State::Active));
        b.write(b"the other way").unwrap();
        b.shutdown(Shutdown::Read).unwrap();
        assert_eq!(waiting.join().unwrap(), 0);
    });
    assert_eq!(a.read(&mut [0; 20]).unwrap(), 13);
}

#[test]
fn whoever_waits_shortly_does_not_wait_for_another_who_waits_for_long() {
    let (a, b) = pair();
    let (told, tells) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| b.read(&mut [0; 8]).unwrap());
        let theirs = &b;
        scope.spawn(move || {
            // So that the other waits first.
            thread::sleep(Duration::from_millis(100));
            theirs.set_read_timeout(Some(Duration::from_millis(50)));
            told.send(theirs.peek(&mut [0; 8]).map_err(|error| error.kind()))
        });
        let told = tells.recv_timeout(Duration::from_secs(5));
        a.write(b"at last").unwrap();
        assert_eq!(told, Ok(Err(ErrorKind::WouldBlock)));
    });
}

#[test]
fn the_end_is_seen_behind_bytes_that_nobody_has_read() {
    let (a, b) = pair();
    a.write(b"last words").unwrap();
    assert!(!b.standing().has_peer_ended);
    a.shutdown(Shutdown::Write).unwrap();
    let standing = b.standing();
    assert_eq!((standing.readable_bytes, standing.is_at_end, standing.has_peer_ended), (10, false, true));
}
