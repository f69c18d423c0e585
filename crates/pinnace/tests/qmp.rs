//! QMP's sockets, from outside: over real UDP, and over links that lose.

use pinnace::Idle;
use pinnace::link::{MemoryLink, MemoryOptions};
use pinnace::qmp::{
    Carrier, Endpoint, Listener, Options, Pool, PoolOptions, Shown, Shutdown, State, Stream, StreamId, WakeFd, Way,
    Woken, settle,
};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

fn options() -> Options {
    Options { seed: None, ..Options::default() }
}

fn pair() -> (Stream, Stream) {
    let listener = Listener::bind("127.0.0.1:0", &options()).unwrap();
    let client = Stream::connect(listener.local_addr(), &options()).unwrap();
    (client, listener.accept().unwrap())
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(len)
    .collect()
}

//= Q-1, Q-12 test
#[test]
fn bytes_go_both_ways_and_streams_end() {
    let (mut client, mut server) = pair();
    assert_eq!(
        (client.way(), client.peer_addr(), server.peer_addr()),
        (Way::Udp, server.local_addr(), client.local_addr())
    );
    let sent = pattern(5_000_000, 1);
    let expected = sent.clone();
    let writing = thread::spawn(move || {
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        client.read_to_end(&mut back).unwrap();
        back
    });
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    assert!(received == expected);
    server.write_all(b"all of it").unwrap();
    drop(server);
    assert_eq!(writing.join().unwrap(), b"all of it");
}

#[test]
fn who_asks_how_a_stream_stands_and_who_reads_it_do_not_wait_for_each_other() {
    const BYTES: usize = 200_000;
    let (mut client, mut server) = pair();
    let (done, ended) = mpsc::channel();
    let sending = thread::spawn(move || {
        client.write_all(&pattern(BYTES, 3)).unwrap();
        client
    });
    thread::spawn(move || {
        let (reads, stream) = (AtomicBool::new(true), &server);
        thread::scope(|scope| {
            scope.spawn(|| {
                while reads.load(Ordering::Relaxed) {
                    let standing = stream.standing();
                    assert!(standing.failure.is_none() && standing.state == State::Active && standing.is_writable);
                }
            });
            // A byte each: each takes both locks.
            for expected in pattern(BYTES, 3) {
                let mut byte = [0];
                assert_eq!((stream.read(&mut byte).unwrap(), byte[0]), (1, expected));
            }
            reads.store(false, Ordering::Relaxed);
        });
        let standing = server.standing();
        assert_eq!((standing.readable_bytes, standing.is_at_end), (0, false));
        server.write_all(b"ahoy").unwrap();
        done.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("both go on");
    let client = sending.join().unwrap();
    // It is on its way.
    let until = Instant::now() + Duration::from_secs(60);
    while client.standing().readable_bytes == 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.standing().readable_bytes, 4);
    drop(client);
}

#[test]
fn nobody_there_is_refused_at_once() {
    let gone = Listener::bind("127.0.0.1:0", &options()).unwrap().local_addr();
    let before = Instant::now();
    let error = Stream::connect(gone, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error:?}");
    assert!(before.elapsed() < Duration::from_secs(2), "the host says so, no time-out does");
}

#[test]
fn what_is_unread_at_the_close_resets_the_connection() {
    let (client, server) = pair();
    client.write(b"unread").unwrap();
    let mut seen = [0; 2];
    assert_eq!((server.peek(&mut seen).unwrap(), &seen), (2, b"un"));
    assert_eq!(server.readable_bytes(), 6);
    drop(server);
    let error = client.read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(client.state(), State::Quiescent);
}

#[test]
fn a_linger_of_zero_resets_and_one_of_seconds_waits() {
    let (client, server) = pair();
    client.set_linger(Some(Duration::ZERO));
    drop(client);
    assert_eq!(server.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::ConnectionReset);

    let (client, mut server) = pair();
    client.set_linger(Some(Duration::from_secs(10)));
    let sent = pattern(3_000_000, 2);
    let expected = sent.clone();
    let writing = thread::spawn(move || {
        let mut client = client;
        client.write_all(&sent).unwrap();
    });
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    writing.join().unwrap();
    assert!(received == expected);
}

#[test]
fn what_was_written_arrives_although_the_socket_is_closed() {
    let (mut client, mut server) = pair();
    let sent = pattern(1_000_000, 3);
    client.write_all(&sent).unwrap();
    drop(client);
    thread::sleep(Duration::from_millis(100));
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    assert!(received == sent);
}

#[test]
fn after_the_end_of_reading_a_read_does_not_wait() {
    let (client, server) = pair();
    server.write(b"not wanted").unwrap();
    while client.readable_bytes() == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    client.shutdown(Shutdown::Read).unwrap();
    assert!((client.readable_bytes(), client.is_readable()) == (0, true) && client.standing().is_at_end);
    assert_eq!(client.try_read(&mut [0; 10]).unwrap(), Some(0));
}

#[test]
fn waits_end_with_their_time_and_tries_do_not_wait() {
    let (client, server) = pair();
    client.set_read_timeout(Some(Duration::from_millis(20)));
    assert_eq!(client.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(client.try_read(&mut [0; 10]).unwrap().is_none() && !client.is_readable());
    client.set_write_timeout(Some(Duration::from_millis(100)));
    let mut written = 0;
    // What is on its way makes room for a while; then nothing does.
    let mut quiet = 0;
    while quiet < 5 {
        match client.write(&[7; 100_000]) {
            Ok(taken) => {
                written += taken;
                quiet = 0;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                quiet += 1;
            }
        }
        assert!(written < 100 << 20, "there is an end to it");
    }
    assert!(!client.is_writable() && client.try_write(&[7; 100_000]).unwrap().is_none());
    let mut read = 0;
    let mut buffer = vec![0; 1 << 20];
    while read < written {
        read += server.read(&mut buffer).unwrap();
    }
    client.write(b"x").unwrap();
    assert_eq!(server.read(&mut buffer).unwrap(), 1);
}

#[test]
fn descriptors_tell_event_loops() {
    use std::os::fd::AsRawFd;
    let ready = |fd: &WakeFd, timeout: i32| {
        let mut entry = libc::pollfd { fd: fd.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, as the call is told.
        unsafe { libc::poll(&raw mut entry, 1, timeout) == 1 }
    };
    let listener = Listener::bind("127.0.0.1:0", &options()).unwrap();
    let arrivals = listener.watch().unwrap();
    assert!(!ready(&arrivals, 0));
    let client = Stream::begin(listener.local_addr(), &options()).unwrap();
    let watch = client.watch().unwrap();
    assert!(ready(&arrivals, 5_000));
    arrivals.clear();
    let server = listener.try_accept().unwrap().expect("it has come");
    let until = Instant::now() + Duration::from_secs(5);
    while client.established().is_none() {
        assert!(ready(&watch, 5_000) && Instant::now() < until);
        watch.clear();
    }
    server.write(b"ahoy").unwrap();
    let mut bytes = [0; 10];
    let read = loop {
        assert!(ready(&watch, 5_000));
        watch.clear();
        if let Some(read) = client.try_read(&mut bytes).unwrap() {
            break read;
        }
    };
    assert_eq!(&bytes[..read], b"ahoy");
}

#[test]
fn tasks_wait_as_threads_do() {
    pollster::block_on(async {
        let listener = Listener::bind("127.0.0.1:0", &options()).unwrap();
        let client = Stream::connect_async(listener.local_addr(), &options()).await.unwrap();
        let server = listener.accept_async().await.unwrap();
        client.write_async(b"ahoy").await.unwrap();
        let mut bytes = [0; 10];
        assert_eq!(server.read_async(&mut bytes).await.unwrap(), 4);
    });
}

#[test]
fn many_streams_share_an_endpoint() {
    let listener = Listener::bind("127.0.0.1:0", &options()).unwrap();
    let to = listener.local_addr();
    let endpoint = Endpoint::client(&Options { idle: Idle::Block, ..options() }).unwrap();
    let serving = thread::spawn(move || {
        for _ in 0..50 {
            let stream = listener.accept().unwrap();
            thread::spawn(move || {
                io::copy(&mut &stream, &mut &stream).unwrap();
                stream.flush().unwrap();
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.read(&mut [0]);
            });
        }
    });
    let clients: Vec<_> = (0..50u64)
        .map(|number| {
            let stream = endpoint.connect(to).unwrap();
            thread::spawn(move || {
                let sent = pattern(20_000 + number as usize, number);
                (&stream).write_all(&sent).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                let mut back = Vec::new();
                (&stream).read_to_end(&mut back).unwrap();
                assert!(back == sent);
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    serving.join().unwrap();
}

//= B-6, B-7, B-11, Q-10 test
#[test]
fn qbufs_change_owners_and_come_back() {
    let pools = [(); 2].map(|()| Pool::create(&PoolOptions { zones: 64, ..PoolOptions::default() }).unwrap());
    let [there, here] = pools.clone().map(|pool| Options { pool: Some(pool), ..options() });
    let listener = Listener::bind("127.0.0.1:0", &there).unwrap();
    let client = Stream::connect(listener.local_addr(), &here).unwrap();
    let server = listener.accept().unwrap();
    let free = pools.each_ref().map(|pool| pool.stats().free_blocks);
    let sent = pattern(10_000_000, 4);
    let expected = sent.clone();
    let sending = thread::spawn(move || {
        for (number, piece) in sent.chunks(100_000).enumerate() {
            let mut qbuf = loop {
                match client.alloc(piece.len()) {
                    Ok(qbuf) => break qbuf,
                    Err(_) => thread::sleep(Duration::from_micros(100)),
                }
            };
            qbuf.copy_from_slice(piece);
            if number % 10 == 3 {
                client.write(b"").unwrap();
            }
            client.send_qbuf(qbuf).unwrap();
        }
        client.shutdown(Shutdown::Write).unwrap();
        client
    });
    let mut received = Vec::new();
    let mut count = 0;
    while let Some(qbuf) = server.recv_qbuf().unwrap() {
        received.extend_from_slice(&qbuf);
        count += 1;
        if count % 50 == 7 {
            let mut some = [0; 1000];
            let len = server.read(&mut some).unwrap();
            received.extend_from_slice(&some[..len]);
        }
    }
    assert!(received == expected, "{} of {}", received.len(), expected.len());
    let client = sending.join().unwrap();
    client.flush().unwrap();
    let counters = server.endpoint().expect("it goes over UDP").counters();
    assert!(counters.bytes_in_place > 9_000_000, "{counters:?}");
    drop((client, server, listener));
    let until = Instant::now() + Duration::from_secs(10);
    while pools.each_ref().map(|pool| pool.stats().free_blocks) != free && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(pools.each_ref().map(|pool| pool.stats().free_blocks), free, "every block has come back");
}

/// Behind a slow link each packet wakes whoever waits for it.
//= B-6, B-7 test
#[test]
fn who_takes_little_at_a_time_gets_it_without_a_copy_too_and_in_small_qbufs() {
    let pool = Pool::create(&PoolOptions { zones: 8, ..PoolOptions::default() }).unwrap();
    let free = pool.stats().free_blocks;
    let with = Options { pool: Some(pool.clone()), ..options() };
    let listener = Listener::bind("127.0.0.1:0", &with).unwrap();
    let client = Stream::connect(listener.local_addr(), &options()).unwrap();
    let server = listener.accept().unwrap();
    let mut kept = Vec::new();
    for seed in 0..100 {
        let sent = pattern(1000, seed);
        client.write(&sent).unwrap();
        let got = server.recv_qbuf().unwrap().unwrap();
        assert!(*got == *sent, "{seed}");
        kept.push(got);
    }
    assert_eq!(server.copied().read, 0);
    let used = free - pool.stats().free_blocks;
    assert!(used < 200, "{used} blocks for 100 qbufs of one each, and those that are filled next");
}

/// What is told to be readable at once are two buffers of a pool. That there are more is not forgotten.
//= B-6 test
#[test]
fn what_lies_in_many_buffers_is_all_read() {
    let pool = Pool::create(&PoolOptions { zones: 64, ..PoolOptions::default() }).unwrap();
    let with = Options { pool: Some(pool), ..options() };
    let listener = Listener::bind("127.0.0.1:0", &with).unwrap();
    let client = Stream::connect(listener.local_addr(), &options()).unwrap();
    let server = listener.accept().unwrap();
    server.set_read_timeout(Some(Duration::from_secs(10)));
    let sent = pattern(450_000, 6);
    (&client).write_all(&sent).unwrap();
    client.flush().unwrap();
    let mut received = vec![0; sent.len()];
    (&server).read_exact(&mut received).unwrap();
    assert!(received == sent);
}

#[test]
fn without_a_pool_there_are_no_qbufs_and_an_empty_one_says_so() {
    let (client, _server) = pair();
    assert_eq!(client.alloc(1).unwrap_err().kind(), ErrorKind::Unsupported);
    let pool = Pool::create(&PoolOptions { zones: 1, ..PoolOptions::default() }).unwrap();
    let with = Options { pool: Some(pool), ..options() };
    let listener = Listener::bind("127.0.0.1:0", &with).unwrap();
    let client = Stream::connect(listener.local_addr(), &with).unwrap();
    assert_eq!(client.alloc(200_000).unwrap_err().kind(), ErrorKind::OutOfMemory);
    let all: Vec<_> = std::iter::from_fn(|| client.alloc(4096).ok()).collect();
    assert_eq!(all.len(), 32);
    // The heap has what the pool has not; only a qbuf cannot be had.
    let server = listener.accept().unwrap();
    client.write(b"ahoy").unwrap();
    let error = server.recv_qbuf().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    drop(all);
    assert_eq!(&*server.recv_qbuf().unwrap().unwrap(), b"ahoy");
}

#[test]
fn what_came_while_the_pool_was_empty_is_not_lost() {
    let pool = Pool::create(&PoolOptions { zones: 1, ..PoolOptions::default() }).unwrap();
    let with = Options { pool: Some(pool), ..options() };
    let listener = Listener::bind("127.0.0.1:0", &with).unwrap();
    let client = Stream::connect(listener.local_addr(), &with).unwrap();
    let server = listener.accept().unwrap();
    let all: Vec<_> = std::iter::from_fn(|| client.alloc(4096).ok()).collect();
    let sent = pattern(50_000, 5);
    client.write(&sent).unwrap();
    client.flush().unwrap();
    for _ in 0..3 {
        assert_eq!(server.recv_qbuf().unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
    drop(all);
    client.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    while let Some(qbuf) = server.recv_qbuf().unwrap() {
        received.extend_from_slice(&qbuf);
    }
    assert!(received == sent);
}

//= B-14 test
#[test]
fn a_peer_on_this_host_is_reached_through_shared_memory() {
    use pinnace::daemon::{Daemon, DaemonOptions, ENVIRONMENT};
    use pinnace::qmp::Carrier;
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("daemon.sock");
    // In a process of its own, since the environment is the process's.
    if std::env::var_os("PINNACE_TEST_NEAR").is_none() {
        let options = DaemonOptions { socket: Some(socket.clone()), ..DaemonOptions::default() };
        let daemon = std::sync::Arc::new(Daemon::bind(&options).unwrap());
        let running = thread::spawn({
            let daemon = std::sync::Arc::clone(&daemon);
            move || daemon.run()
        });
        let name = "a_peer_on_this_host_is_reached_through_shared_memory";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env("PINNACE_TEST_NEAR", "1")
            .env(ENVIRONMENT, &socket)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        daemon.stop();
        running.join().unwrap().unwrap();
        return;
    }
    for listens in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
        let listener = Listener::bind(listens, &options()).unwrap();
        let watch = listener.watch().unwrap();
        let to = (std::net::Ipv4Addr::LOCALHOST, listener.local_addr().port());
        let near = Stream::connect(to, &options()).unwrap();
        assert_eq!(near.way(), Way::SharedMemory, "{listens}");
        near.write(b"near").unwrap();
        let until = Instant::now() + Duration::from_secs(5);
        while !listener.has_arrivals() {
            assert!(Instant::now() < until);
            thread::sleep(Duration::from_millis(1));
        }
        drop(watch);
        let server = listener.accept().unwrap();
        assert_eq!((server.way(), server.peer_addr()), (Way::SharedMemory, near.local_addr()));
        let mut bytes = [0; 4];
        (&server).read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"near");
        // It can be switched off, and then goes over UDP to the same listener.
        let far = Stream::connect(to, &Options { same_host: false, ..options() }).unwrap();
        assert_eq!(far.way(), Way::Udp);
        let server = listener.accept().unwrap();
        far.write(b"far").unwrap();
        assert_eq!(server.read(&mut bytes).unwrap(), 3);
    }
    let near = Options { carrier: Carrier::SharedMemory, ..options() };
    let nobody = Stream::connect("127.0.0.1:9", &near);
    assert_eq!(nobody.unwrap_err().kind(), ErrorKind::ConnectionRefused);

    // A listener behind another at the same address has shared memory, too.
    let listener = Listener::bind("127.0.0.1:0", &options()).unwrap();
    let address = listener.local_addr();
    drop(listener);
    let listener = Listener::bind(address, &options()).unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    let client = loop {
        match Stream::connect(address, &near) {
            Ok(client) => break client,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    };
    let server = listener.accept().unwrap();

    // Who shuts a full stream does not wait for its reader, who has all of it and the end; and the process can wait for that.
    let mut written = 0;
    while let Some(bytes) = client.try_write(&[7; 16]).unwrap() {
        written += bytes;
    }
    let begin = Instant::now();
    client.shutdown(Shutdown::Write).unwrap();
    assert!(client.try_write(&[7; 16]).is_err() && begin.elapsed() < Duration::from_secs(10));
    drop(client);
    assert!(!settle(Duration::from_millis(20)), "its end waits for room");
    let mut all = Vec::new();
    (&server).read_to_end(&mut all).unwrap();
    assert_eq!(all, vec![7; written]);
    assert!(settle(Duration::from_secs(5)));
}

//= Q-4 test
#[test]
fn a_stream_that_is_dropped_before_its_listener_sends_all_the_same() {
    let listener = Listener::bind("127.0.0.1:0", &options()).unwrap();
    let client = Stream::connect(listener.local_addr(), &options()).unwrap();
    let server = listener.accept().unwrap();
    let mut written = 0;
    while let Some(bytes) = server.try_write(&[7; 50_000]).unwrap() {
        written += bytes;
    }
    drop(server);
    assert!(!settle(Duration::from_millis(20)), "it has not arrived");
    drop(listener);
    // Longer than the end of an endpoint waits.
    thread::sleep(Duration::from_millis(1500));
    let mut all = Vec::new();
    (&client).read_to_end(&mut all).unwrap();
    assert!(all == vec![7; written], "{} bytes of {written}", all.len());
}

#[test]
fn who_waits_finds_the_end_when_reading_is_shut() {
    let (client, server) = pair();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| client.read(&mut [0; 8]).unwrap());
        thread::sleep(Duration::from_millis(30));
        client.shutdown(Shutdown::Read).unwrap();
        assert_eq!(waiting.join().unwrap(), 0);
    });
    client.write(b"the other way").unwrap();
    assert_eq!(server.read(&mut [0; 20]).unwrap(), 13);
}

/// Serves all streams that come to a listener, each of which is to say the same as it was told, until `count` have ended.
fn echo_all(listener: &Listener, count: usize) {
    let (beside, mut told) = (WakeFd::new().unwrap(), Vec::new());
    let mut streams: Vec<(Stream, Vec<u8>)> = Vec::new();
    let mut ended = 0;
    while ended < count {
        let woken = listener.endpoint().unwrap().wait_any(&beside, Some(Duration::from_secs(20)), &mut told).unwrap();
        assert_eq!(woken, Woken::Sockets, "{ended} of {count} streams have ended");
        while listener.has_arrivals() {
            let stream = listener.try_accept().unwrap().unwrap();
            told.extend(stream.id());
            streams.push((stream, Vec::new()));
        }
        for id in told.drain(..) {
            let Some(at) = streams.iter().position(|(stream, _)| stream.id() == Some(id)) else { continue };
            loop {
                let (stream, unsaid) = &mut streams[at];
                // At most a part of it at once, so that there is more.
                let shown = stream.try_show(|parts| {
                    let part = &parts[0][..parts[0].len().min(3000)];
                    unsaid.extend_from_slice(part);
                    part.len()
                });
                while let Some(len @ 1..) = stream.try_write(unsaid).unwrap() {
                    unsaid.drain(..len);
                }
                match shown.unwrap() {
                    Some(Shown::Used(_)) => {}
                    Some(Shown::End) if unsaid.is_empty() => {
                        drop(streams.swap_remove(at));
                        ended += 1;
                        break;
                    }
                    Some(Shown::End) | None => break,
                }
            }
        }
    }
    // Nobody else does the work.
    listener.endpoint().unwrap().leave(Duration::from_secs(10));
}

//= Q-12 test
#[test]
fn one_thread_serves_many_streams_of_one_endpoint() {
    const STREAMS: usize = 40;
    let listener = Listener::bind("127.0.0.1:0", &Options { worker: false, ..options() }).unwrap();
    let to = listener.local_addr();
    let endpoint = Endpoint::client_of(to, &options()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| echo_all(&listener, STREAMS));
        for number in 0..STREAMS {
            let stream = endpoint.begin(to).unwrap();
            scope.spawn(move || {
                let sent = pattern(number * 10_000, number as u64);
                let mut received = Vec::new();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        (&stream).write_all(&sent).unwrap();
                        stream.shutdown(Shutdown::Write).unwrap();
                    });
                    (&stream).read_to_end(&mut received).unwrap();
                });
                assert!(received == sent, "stream {number}: {} of {} bytes", received.len(), sent.len());
            });
        }
    });
}

#[test]
fn each_stream_that_something_has_happened_to_is_told_once() {
    let listener = Listener::bind("127.0.0.1:0", &options()).unwrap();
    let to = listener.local_addr();
    let endpoint = Endpoint::client_of(to, &Options { worker: false, ..options() }).unwrap();
    let (beside, mut told) = (WakeFd::new().unwrap(), Vec::new());
    let mut wait = |timeout| {
        told.clear();
        let woken = endpoint.wait_any(&beside, Some(timeout), &mut told).unwrap();
        (woken, told.clone())
    };
    let (none, long): (Vec<StreamId>, _) = (Vec::new(), Duration::from_secs(20));
    assert_eq!(wait(Duration::ZERO), (Woken::Timeout, none.clone()));
    let streams = [(); 2].map(|()| endpoint.connect(to).unwrap());
    let accepted = [(); 2].map(|()| listener.accept().unwrap());
    let mut ids: Vec<_> = streams.iter().filter_map(Stream::id).collect();
    let (woken, mut found) = wait(long);
    found.sort();
    ids.sort();
    assert_eq!((woken, &found), (Woken::Sockets, &ids), "established");
    accepted[1].write(b"two").unwrap();
    let second = streams[1].id().into_iter().collect::<Vec<_>>();
    assert_eq!(wait(long), (Woken::Sockets, second.clone()));
    assert_eq!(wait(Duration::from_millis(20)), (Woken::Timeout, none.clone()), "once, although nobody has read it");
    beside.signal();
    assert_eq!(wait(long), (Woken::Beside, none.clone()));
    beside.clear();
    drop(accepted);
    let mut found = Vec::new();
    while found.len() < 2 {
        let (woken, more) = wait(long);
        assert_eq!(woken, Woken::Sockets);
        found.extend(more);
        found.sort();
        found.dedup();
    }
    assert_eq!(found, ids, "both have ended");
    // Nothing is said of a stream that has been dropped.
    drop(streams);
    assert_eq!(wait(Duration::from_millis(50)).1, none);
}

#[test]
fn who_listens_and_connects_at_the_same_port_number_knows_which_end_is_whose() {
    let address = |text: &str| -> std::net::SocketAddr { text.parse().unwrap() };
    for (carrier, bound) in [(Carrier::Udp, "[::]:7000"), (Carrier::Ip36, "[::]:0")] {
        let options = Options { carrier: carrier.clone(), ..options() };
        let (here, there) = MemoryLink::pair(&MemoryOptions::default()).unwrap();
        let end = |link| Endpoint::over(link, address(bound), Some(address("[::]:0")), &options).unwrap();
        let (client, server) = (end(Box::new(here)), end(Box::new(there)));
        let listener = server.listen(7000).unwrap();
        let stream = client.begin_from(address("[::1]:7000"), 7000).unwrap();
        stream.wait_established(None).unwrap();
        let accepted = listener.accept().unwrap();
        let (any, one) = (address("[::]:7000"), address("[::1]:7000"));
        assert_eq!((stream.local_addr(), stream.peer_addr(), stream.said_peer_addr()), (any, one, one), "{carrier:?}");
        let ends = (accepted.local_addr(), accepted.peer_addr(), accepted.said_peer_addr());
        assert_eq!(ends, (one, any, any), "{carrier:?}");
    }
}

#[test]
fn the_end_is_seen_behind_bytes_that_nobody_has_read() {
    let (mut client, server) = pair();
    client.write_all(b"last words").unwrap();
    let begun = Instant::now();
    while server.standing().readable_bytes == 0 && begun.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!server.standing().has_peer_ended);
    client.shutdown(Shutdown::Write).unwrap();
    while !server.standing().has_peer_ended && begun.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(1));
    }
    let standing = server.standing();
    assert_eq!((standing.readable_bytes, standing.is_at_end, standing.has_peer_ended), (10, false, true));
}
