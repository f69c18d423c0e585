//! A1 over real UDP sockets of this machine.

use pinnace::a1::{
    Address, Connection, Failure, Full, Options, Progress, Qos, Refused, RejectCode, SlowSink, Socket, Status,
    map_host, raw, reliable, to_address, to_socket,
};
use pinnace::{Error, Idle, Message};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);
const LOCAL: &str = "127.0.0.1:0";
const WHOLE: Status = Status::NONE.with_if(true, Status::START).with_if(true, Status::END);

fn options() -> Options {
    Options { idle: Idle::Block, ..Options::default() }
}

fn socket(qos: Qos) -> Socket {
    Socket::bind_with(LOCAL, qos, &options()).unwrap()
}

fn listening(qos: Qos) -> (Socket, SocketAddr) {
    let socket = socket(qos);
    socket.listen(16).unwrap();
    let to = socket.local_addr();
    (socket, to)
}

fn accepted(socket: &Socket) -> Connection {
    socket.accept_timeout(LONG).unwrap().expect("somebody comes")
}

/// A listening socket, and a connection to it from another one: both ends.
fn pair(qos: Qos) -> (Socket, Connection, Connection) {
    let (server, to) = listening(qos);
    let connection = socket(qos).connect_timeout(to, qos, LONG).unwrap();
    let taken = accepted(&server);
    (server, connection, taken)
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ (at >> 9) ^ seed) as u8).collect()
}

fn wait_until(connection: &Connection, mut is_so: impl FnMut(&Connection) -> bool) {
    let until = Instant::now() + LONG;
    while !is_so(connection) {
        assert!(Instant::now() < until, "in time");
        connection.wait_for_change(Duration::from_millis(100)).unwrap();
    }
}

//= A-6, A-20 test
#[test]
fn messages_of_every_size_go_both_ways() {
    for qos in [reliable(), Qos { has_checksum: true, ..reliable() }, Qos { block_size: 1000, ..reliable() }, raw()] {
        let (_server, here, there) = pair(qos);
        for (number, len) in [0, 1, 63, 999, 1000, 1001, 65_475, 65_476, 1 << 20, 0].into_iter().enumerate() {
            here.send(pattern(len, number), Full::Block).unwrap();
            let received = there.recv_timeout(LONG).unwrap().expect("not closed");
            assert_eq!((received.len(), received.status), (len, WHOLE));
            assert!(*received == pattern(len, number), "message {number}");
            there.send(received.data, Full::Block).unwrap();
            let back = here.recv_timeout(LONG).unwrap().expect("not closed");
            assert!(*back == pattern(len, number), "message {number}");
        }
        here.flush_timeout(LONG).unwrap();
        assert!(here.round_trip().is_some());
    }
}

//= A-18 test
#[test]
fn a_close_may_linger_without_end() {
    let (_server, here, there) = pair(reliable());
    here.send(pattern(10, 1), Full::Block).unwrap();
    here.close(Duration::MAX).unwrap();
    assert!(*there.recv_timeout(LONG).unwrap().expect("a message") == pattern(10, 1));
    let (sink, to) = listening(reliable());
    let source = socket(reliable());
    source.add_sink_timeout(to, reliable(), LONG).unwrap();
    let taken = accepted(&sink);
    source.send(pattern(10, 2), Full::Block).unwrap();
    source.close_sinks(Duration::MAX).unwrap();
    assert!(*taken.recv_timeout(LONG).unwrap().expect("a message") == pattern(10, 2));
}

//= A-20 test
#[test]
fn a_message_of_hundreds_of_megabytes_arrives_in_the_memory_that_it_came_into() {
    const BYTES: usize = 300 << 20;
    let qos = Qos { largest_sent: u32::MAX, largest_received: u32::MAX, outstanding: 2, ..reliable() };
    let (_server, here, there) = pair(qos);
    let sending = thread::spawn(move || {
        let message = here.send_tracked(pattern(BYTES, 7), Full::Block).unwrap().wait().unwrap();
        assert_eq!(message.len(), BYTES);
        here.close(LONG).unwrap();
    });
    let received = there.recv_timeout(LONG).unwrap().expect("not closed");
    assert_eq!((received.len(), received.status), (BYTES, WHOLE));
    assert!(*received == pattern(BYTES, 7));
    assert!(there.recv_timeout(LONG).unwrap().is_none());
    sending.join().unwrap();
}

//= A-10 test
#[test]
fn messages_that_are_too_long_are_refused_and_given_back() {
    let (_server, here, _there) = pair(Qos { largest_sent: 1000, ..reliable() });
    let unsent = here.send(pattern(1001, 0), Full::Block).unwrap_err();
    assert_eq!(unsent.message.map(|message| message.len()), Some(1001));
    assert!(matches!(unsent.error, Error::CallRefused(Refused::TooLarge { most: 1000 })), "{}", unsent.error);
    assert!(here.send_copy(&[0; 1001], Full::Report).is_err());
    let impossible = Socket::bind(LOCAL, Qos { outstanding: u32::MAX, ..reliable() }).unwrap_err();
    assert!(impossible.to_string().contains("2^20"), "{impossible}");
}

//= A-16, A-17, A-22 test
#[test]
fn a_full_window_is_reported_or_waited_for() {
    let qos = Qos { largest_sent: 1000, largest_received: 1000, outstanding: 4, ..reliable() };
    let (_server, here, there) = pair(qos);
    let mut sent = 0;
    // Four messages are consumed by nobody, and four more are not acknowledged.
    let error = loop {
        match here.send_copy(&[sent; 1000], Full::Report) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 100);
        thread::sleep(Duration::from_millis(2));
    };
    assert!(matches!(error, Error::WindowFull(status) if status.contains(Status::WINDOW_FULL)), "{error}");
    assert!(here.status().contains(Status::WINDOW_FULL));
    assert!(matches!(here.send_timeout(vec![0; 10], Duration::from_millis(50)).unwrap_err().error, Error::Timeout));
    let reading = thread::spawn(move || {
        let mut numbers = Vec::new();
        while let Some(received) = there.recv_timeout(LONG).unwrap() {
            numbers.push(received[0]);
        }
        numbers
    });
    for number in sent..50 {
        here.send_copy(&[number; 1000], Full::Block).unwrap();
    }
    here.close(LONG).unwrap();
    assert_eq!(reading.join().unwrap(), (0..50).collect::<Vec<u8>>());
}

#[test]
fn messages_are_read_by_parts_and_many_at_once() {
    let (_server, here, there) = pair(Qos { block_size: 500, ..reliable() });
    here.send_all((0..20).map(|number| Message::from_vec(pattern(1200, number))).collect()).unwrap();
    let mut part = [0; 700];
    assert_eq!(there.recv_into_timeout(&mut part, LONG).unwrap(), (700, Status::START));
    assert!(part[..] == pattern(1200, 0)[..700]);
    wait_until(&there, |there| there.readable().is_some_and(|(len, _)| len == 500));
    assert_eq!(there.peek(&mut part[..100]), Some((100, Status::NONE)));
    assert_eq!(there.recv_into_timeout(&mut part, LONG).unwrap(), (500, Status::END));
    assert!(part[..500] == pattern(1200, 0)[700..]);
    // The rest of a message that was begun.
    assert_eq!(there.recv_into_timeout(&mut part[..1], LONG).unwrap(), (1, Status::START));
    let rest = there.recv_timeout(LONG).unwrap().expect("not closed");
    assert_eq!((rest.len(), rest.status), (1199, Status::END));
    let mut seen = Vec::new();
    while seen.len() < 18 {
        let look = |bytes: &[u8], status| seen.push((bytes.to_vec(), status));
        assert!(there.recv_each_timeout(5, look, LONG).unwrap().is_some_and(|seen| seen <= 5));
    }
    for (number, (bytes, status)) in seen.into_iter().enumerate() {
        assert!(bytes == pattern(1200, number + 2) && status == WHOLE, "{number}");
    }
    assert!(matches!(there.try_recv(), Err(Error::Timeout)));
    here.close(LONG).unwrap();
    assert_eq!(there.recv_into_timeout(&mut part, LONG).unwrap(), (0, Status::PEER_CLOSED));
}

//= A-12 test
#[test]
fn the_quality_of_service_changes_within_the_maximum() {
    let max = Qos { send_average: 40_000_000, send_burst: 200_000, ..reliable() };
    let (server, to) = listening(reliable());
    let client = socket(max);
    let here = client.connect_timeout(to, max, LONG).unwrap();
    let there = accepted(&server);
    assert_eq!(there.peer_qos().unwrap().send_average, 40_000_000);
    let slow = Qos { send_average: 2_000_000, send_burst: 70_000, ..max };
    here.set_qos(slow).unwrap();
    wait_until(&here, |here| here.status().contains(Status::QOS_CHANGED));
    assert!(!here.status().contains(Status::QOS_CHANGED), "told once");
    assert_eq!(here.qos().unwrap().send_average, 2_000_000);
    assert_eq!(there.peer_qos().unwrap().send_average, 2_000_000);
    let begun = Instant::now();
    here.send(pattern(1_000_000, 0), Full::Block).unwrap();
    assert_eq!(there.recv_timeout(LONG).unwrap().map(|received| received.len()), Some(1_000_000));
    assert!(begun.elapsed() > Duration::from_millis(400), "{:?}", begun.elapsed());
    for beyond in [
        Qos { send_average: 40_000_001, ..max },
        Qos { has_checksum: true, ..slow },
        Qos { block_size: 10, ..slow },
        Qos { priority: 0, ..slow },
    ] {
        let refused = here.set_qos(beyond).unwrap_err();
        assert!(matches!(refused, Error::CallRefused(Refused::BeyondMaximum)), "{refused}");
    }
    assert!(client.connect(to, Qos { send_average: 0, ..max }).is_err());
}

//= A-13 test
#[test]
fn who_is_refused_is_told_why() {
    let (server, to) = listening(Qos { has_checksum: true, ..reliable() });
    let client = socket(reliable());
    let refused = client.connect_timeout(to, reliable(), LONG).unwrap_err();
    assert!(matches!(refused, Error::ConnectionFailed(Failure::Refused { code: RejectCode::Qos, .. })), "{refused}");
    server.stop_listening();
    let refused = client.connect_timeout(to, reliable(), LONG).unwrap_err();
    assert!(
        matches!(refused, Error::ConnectionFailed(Failure::Refused { code: RejectCode::NoListener, .. })),
        "{refused}"
    );
    assert!(refused.to_string().contains("check the address"), "{refused}");
    assert!(server.accept().unwrap_err().to_string().contains("listen"));
    let taken = Socket::bind(to, reliable()).unwrap_err();
    assert!(taken.to_string().contains(&to.to_string()), "{taken}");
    server.listen(1).unwrap();
    assert!(matches!(server.listen(1), Err(Error::CallRefused(Refused::Listening))));
}

//= A-18 test
#[test]
fn dropped_handles_let_what_was_queued_arrive() {
    let (server, to) = listening(reliable());
    let sending = thread::spawn(move || {
        let connection = socket(reliable()).connect_timeout(to, reliable(), LONG).unwrap();
        for number in 0..10 {
            connection.send(pattern(500_000, number), Full::Block).unwrap();
        }
    });
    let there = accepted(&server);
    for number in 0..10 {
        let received = there.recv_timeout(LONG).unwrap().expect("not closed");
        assert!(*received == pattern(500_000, number));
    }
    assert!(there.recv_timeout(LONG).unwrap().is_none());
    assert!(there.status().contains(Status::PEER_CLOSED));
    assert!(matches!(there.send(vec![1], Full::Block).unwrap_err().error, Error::CallRefused(Refused::NoConnection)));
    sending.join().unwrap();
}

//= A-17, A-18 test
#[test]
fn an_abort_drops_what_is_queued_and_both_ends_know() {
    let (_server, here, there) = pair(Qos { send_average: 100_000, send_burst: 65_536, ..reliable() });
    let sending = here.send_tracked(pattern(1 << 20, 0), Full::Block).unwrap();
    let Progress::UnderWay(sending) = sending.wait_timeout(Duration::from_millis(50)) else { panic!("so soon?") };
    here.abort();
    let unsent = sending.wait().unwrap_err();
    assert_eq!(unsent.message.map(|message| message.len()), Some(1 << 20));
    let failed = loop {
        match there.recv_timeout(LONG) {
            // What had come.
            Ok(Some(part)) => assert!(!part.status.contains(Status::END)),
            Ok(None) => panic!("that is no good end"),
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, Error::ConnectionFailed(Failure::AbortedByPeer)), "{failed}");
    assert!(there.status().contains(Status::ABORTED));
    assert_eq!(here.result(), Some(Err(Failure::Aborted)));
}

/// Two ends of which each has heard from the other.
fn acquainted(client: &Socket, server: &Socket) -> (Connection, Connection) {
    let here = client.connect_timeout(server.local_addr(), reliable(), LONG).unwrap();
    let there = accepted(server);
    here.send(vec![1; 100], Full::Block).unwrap();
    assert!(there.recv_timeout(LONG).unwrap().is_some());
    (here, there)
}

#[test]
fn a_peer_that_is_gone_is_given_up_and_the_next_one_is_another() {
    let (server, to) = listening(reliable());
    let quick = Options { silence: Duration::from_secs(1), ..options() };
    let client = Socket::bind_with(LOCAL, reliable(), &quick).unwrap();
    let (here, there) = acquainted(&client, &server);
    // Killed: nobody says a word.
    server.abort();
    drop((server, there));
    let began = Instant::now();
    here.send(vec![2; 100], Full::Block).unwrap();
    let failed = here.flush_timeout(LONG).unwrap_err();
    assert!(matches!(failed, Error::ConnectionFailed(Failure::Abandoned)), "{failed}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let again = Socket::bind_with(to, reliable(), &options()).unwrap();
    again.listen(1).unwrap();
    let here = client.connect_timeout(to, reliable(), LONG).unwrap();
    here.send(vec![3; 100], Full::Block).unwrap();
    assert_eq!(accepted(&again).recv_timeout(LONG).unwrap().map(|received| received[0]), Some(3));
}

#[test]
fn whoever_only_receives_misses_a_peer_that_is_gone() {
    let short = Duration::from_millis(500);
    let quick = Options { silence: short, keep_alive: short, ..options() };
    let server = Socket::bind_with(LOCAL, reliable(), &quick).unwrap();
    server.listen(2).unwrap();
    let connect = || {
        let client = socket(reliable());
        let (here, there) = acquainted(&client, &server);
        (client, here, there)
    };
    let (_alive, _quiet, living) = connect();
    let (killed, _dead, there) = connect();
    killed.abort();
    let began = Instant::now();
    let failed = there.recv_timeout(LONG).unwrap_err();
    assert!(matches!(failed, Error::ConnectionFailed(Failure::Abandoned)), "{failed}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // Whoever is there has answered, though it has nothing to send.
    assert!(matches!(living.recv_timeout(2 * short), Err(Error::Timeout)));
}

#[test]
fn a_closed_port_refuses_at_once_and_ends_no_connection() {
    let (server, to) = listening(reliable());
    let quick = Options { silence: Duration::from_secs(1), ..options() };
    let client = Socket::connected(to, reliable(), &quick).unwrap();
    let (here, there) = acquainted(&client, &server);
    // Killed: its port is closed now, and its host says so. That could be forged.
    server.abort();
    drop((server, there));
    here.send(vec![2; 100], Full::Block).unwrap();
    let failed = here.flush_timeout(LONG).unwrap_err();
    assert!(matches!(failed, Error::ConnectionFailed(Failure::Abandoned)), "{failed}");
    assert!(client.counters().unreachable_reports > 0);
    let began = Instant::now();
    let failed = client.connect_timeout(to, reliable(), LONG).unwrap_err();
    let refused = Failure::Refused { code: RejectCode::NoListener, text: String::new() };
    assert!(matches!(&failed, Error::ConnectionFailed(failure) if *failure == refused), "{failed}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // It talks with nobody else.
    assert!(client.connect("127.0.0.1:9", reliable()).is_err());
}

//= A-15 test
#[test]
fn every_sink_gets_every_message_and_one_that_dies_does_not_stop_the_others() {
    let quick = Options { silence: Duration::from_secs(1), ..options() };
    let source = Socket::bind_with(LOCAL, reliable(), &quick).unwrap();
    assert!(matches!(source.send(vec![1], Full::Report).unwrap_err().error, Error::CallRefused(Refused::NotConnected)));
    let listeners: Vec<_> = (0..3).map(|_| listening(reliable())).collect();
    for (_, to) in &listeners {
        source.add_sink_timeout(*to, reliable(), LONG).unwrap();
    }
    let taken: Vec<_> = listeners.iter().map(|(listener, _)| accepted(listener)).collect();
    for number in 0..20 {
        source.send(pattern(100_000, number), Full::Block).unwrap();
        for there in &taken {
            assert!(*there.recv_timeout(LONG).unwrap().expect("not closed") == pattern(100_000, number));
        }
    }
    source.flush_timeout(LONG).unwrap();
    assert_eq!((source.sinks().len(), source.undelivered()), (3, 0));
    // A sink may answer.
    taken[1].send(b"aye".to_vec(), Full::Block).unwrap();
    assert_eq!(source.sinks()[1].recv_timeout(LONG).unwrap().as_deref(), Some(&b"aye"[..]));
    // One is killed, and then one is removed.
    listeners[0].0.abort();
    for number in 0..40 {
        source.send(pattern(100_000, number), Full::Block).unwrap();
        for there in &taken[1..] {
            assert!(*there.recv_timeout(LONG).unwrap().expect("not closed") == pattern(100_000, number));
        }
    }
    assert_eq!(source.sinks()[0].result(), Some(Err(Failure::Abandoned)));
    assert!(source.undelivered() > 0);
    let removed = source.remove_sink_at(listeners[1].1, LONG).unwrap();
    assert!(source.remove_sink(&removed, LONG).is_err());
    assert!(taken[1].recv_timeout(LONG).unwrap().is_none());
    removed.wait_closed(LONG).unwrap();
    source.send(b"last".to_vec(), Full::Block).unwrap();
    source.close(LONG).unwrap();
    assert_eq!(taken[2].recv_timeout(LONG).unwrap().as_deref(), Some(&b"last"[..]));
    assert!(taken[2].recv_timeout(LONG).unwrap().is_none());
    assert!(source.sinks().is_empty());
}

//= A-15 test
#[test]
fn a_slow_sink_is_waited_for_or_cut_off_or_left_out() {
    let small = Qos { largest_sent: 10_000, largest_received: 10_000, outstanding: 4, ..reliable() };
    for slow_sink in [SlowSink::Block, SlowSink::Drop { patience: Duration::from_millis(600) }, SlowSink::Degrade] {
        let source = Socket::bind_with(LOCAL, small, &Options { slow_sink, ..options() }).unwrap();
        let (quick, slow) = (listening(small), listening(small));
        let quick_sink = source.add_sink_timeout(quick.1, small, LONG).unwrap();
        let sink = source.add_sink_timeout(slow.1, small, LONG).unwrap();
        let (quick_end, slow_end) = (accepted(&quick.0), accepted(&slow.0));
        let reading = thread::spawn(move || {
            let mut count: u64 = 0;
            while quick_end.recv_timeout(LONG).unwrap().is_some() {
                count += 1;
            }
            count
        });
        let mut sent: u64 = 0;
        for number in 0..40 {
            match source.send_timeout(pattern(10_000, number), Duration::from_secs(1)) {
                Ok(()) => sent += 1,
                Err(unsent) => assert!(matches!(unsent.error, Error::Timeout), "{}", unsent.error),
            }
            if slow_sink == SlowSink::Block && number as u64 > sent + 1 {
                break;
            }
        }
        match slow_sink {
            SlowSink::Block => assert!((4..=12).contains(&sent), "{sent}"),
            SlowSink::Drop { .. } => {
                assert_eq!(sent, 40);
                // What it has no room for may be kept for it, and its patience begin with the last message.
                let begun = Instant::now();
                while sink.result().is_none() && begun.elapsed() < LONG {
                    thread::sleep(Duration::from_millis(5));
                }
                assert_eq!(sink.result(), Some(Err(Failure::TooSlow)));
            }
            SlowSink::Degrade => {
                assert_eq!(sent, 40);
                assert!(sink.facts().unwrap().skipped > 20);
            }
        }
        slow_end.abort();
        sink.wait_closed(LONG).unwrap_err();
        source.close(LONG).unwrap();
        // Once in a while it is the quick one that is behind.
        let left_out = quick_sink.facts().unwrap().skipped;
        assert!(left_out < 20, "{left_out}");
        assert_eq!(reading.join().unwrap(), sent - left_out);
    }
}

//= A-6 test
#[test]
fn a_stream_is_built_on_top() {
    let (_server, here, there) = pair(Qos { largest_sent: 50_000, ..reliable() });
    let bytes = pattern(3_000_000, 1);
    let expected = bytes.clone();
    let writing = thread::spawn(move || {
        let mut stream = here.stream();
        stream.write_all(&bytes).unwrap();
        stream.flush().unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        here.close(LONG).unwrap();
        answer
    });
    let mut stream = there.stream();
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).unwrap();
    assert!(received == expected);
    stream.write_all(b"done").unwrap();
    assert_eq!(stream.read(&mut [0; 9]).unwrap(), 0);
    assert_eq!(&writing.join().unwrap(), b"done");
}

//= A-18 test
#[test]
fn whoever_has_answered_a_close_parts_and_nobody_else_waits() {
    for qos in [reliable(), raw()] {
        let (server, to) = listening(qos);
        let client = socket(qos);
        let here = client.connect_timeout(to, qos, LONG).unwrap();
        let there = accepted(&server);
        assert!(client.part(Duration::ZERO) && server.part(Duration::ZERO), "nobody has closed");
        let begun = Instant::now();
        here.close(LONG).unwrap();
        assert!(there.recv_timeout(LONG).unwrap().is_none());
        drop((here, there));
        assert!(client.part(Duration::ZERO), "it has its answer");
        assert!(server.part(LONG));
        // A machine that is busy has longer round trips.
        let took = begun.elapsed();
        assert!((50..4000).contains(&took.as_millis()), "{took:?}");
        assert!(server.part(Duration::ZERO));
        server.abort();
        assert!(server.part(LONG), "nobody can be answered");
    }
}

#[test]
fn tasks_send_and_receive() {
    pollster::block_on(async {
        let (server, to) = listening(reliable());
        let client = socket(reliable());
        let here = client.connect_async(to, reliable()).await.unwrap();
        let there = server.accept_async().await.unwrap();
        for number in 0..30 {
            here.send_async(pattern(200_000, number)).await.unwrap();
            assert!(*there.recv_async().await.unwrap().expect("not closed") == pattern(200_000, number));
        }
        here.send_copy_async(b"ahoy").await.unwrap();
        let mut into = [0; 9];
        assert_eq!(there.recv_into_async(&mut into).await.unwrap(), (4, WHOLE));
        let sending = there.send_tracked(b"aye".to_vec(), Full::Block).unwrap();
        assert_eq!(sending.await.unwrap().len(), 3);
        here.flush_async().await.unwrap();
        let source = socket(reliable());
        source.add_sink_async(to, reliable()).await.unwrap();
        source.send_async(b"all".to_vec()).await.unwrap();
        let sink = server.accept_async().await.unwrap();
        assert_eq!(sink.recv_async().await.unwrap().as_deref(), Some(&b"all"[..]));
        source.flush_async().await.unwrap();
        there.close_async(LONG).await.unwrap();
    });
}

//= A-18 test
#[test]
fn whoever_closes_is_told_that_the_peer_has_closed_before_it_had_everything() {
    let qos = Qos { send_average: 10_000, send_burst: 2000, block_size: 1000, ..reliable() };
    for closes_before in [false, true] {
        let (server, to) = listening(qos);
        let client = socket(qos);
        let here = client.connect(to, qos).unwrap();
        let there = server.accept().unwrap();
        // A tenth of a second each.
        let sent = (0..50).take_while(|number| here.send(pattern(1000, *number), Full::Report).is_ok()).count();
        assert!(sent > 5, "{sent}");
        let closing = |after: Duration| {
            thread::sleep(after);
            there.close(Duration::ZERO)
        };
        thread::scope(|scope| {
            let late = scope.spawn(move || (!closes_before).then(|| closing(Duration::from_millis(100))));
            if closes_before {
                let _ = closing(Duration::ZERO);
                here.wait_closed(LONG).unwrap_err();
            }
            let error = here.close(LONG).unwrap_err();
            assert!(matches!(error, Error::ConnectionFailed(_)), "{error}");
            let _ = late.join().unwrap();
        });
    }
}

#[test]
fn a_sink_whose_answer_nobody_waits_for_any_more_is_none() {
    let (source, silent) = (socket(reliable()), std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    {
        let adding = std::pin::pin!(source.add_sink_async(silent.local_addr().unwrap(), reliable()));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(adding.poll(&mut context).is_pending());
        assert_eq!(source.sinks().len(), 1);
    }
    assert!(source.sinks().is_empty());
}

#[test]
fn descriptors_tell_when_something_has_happened() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let waits = |watch: &pinnace_runtime::WakeFd| {
        let timeout = Timespec { tv_sec: 30, tv_nsec: 0 };
        let mut fds = [PollFd::new(watch, PollFlags::IN)];
        assert_eq!(poll(&mut fds, Some(&timeout)).unwrap(), 1, "in time");
        watch.clear();
    };
    let (server, to) = listening(reliable());
    let arrivals = server.watch().unwrap();
    arrivals.clear();
    let client = socket(reliable());
    let here = client.connect_timeout(to, reliable(), LONG).unwrap();
    waits(&arrivals);
    let there = server.try_accept().unwrap().expect("the descriptor said so");
    let watch = there.watch().unwrap();
    watch.clear();
    here.send_copy(b"ahoy", Full::Block).unwrap();
    here.flush_timeout(LONG).unwrap();
    waits(&watch);
    assert_eq!(there.try_recv().unwrap().as_deref(), Some(&b"ahoy"[..]));
    here.close(LONG).unwrap();
    while there.result().is_none() {
        waits(&watch);
    }
    assert!(there.try_recv().unwrap().is_none());
}

//= A-14 test
#[test]
fn hosts_of_class_e_lead_to_ipv6() {
    let server = Socket::bind_with("[::1]:0", reliable(), &options()).unwrap();
    server.listen(1).unwrap();
    let host = 0xF000_0042;
    map_host(host, "[::1]:0".parse().unwrap()).unwrap();
    let to = Address { host, port: server.local_addr().port().into() };
    assert_eq!(to_address(server.local_addr()), to);
    let client = Socket::client(reliable(), &options()).unwrap();
    let here = client.connect_timeout(to_socket(to).unwrap(), reliable(), LONG).unwrap();
    here.send(b"ahoy".to_vec(), Full::Block).unwrap();
    assert_eq!(accepted(&server).recv_timeout(LONG).unwrap().as_deref(), Some(&b"ahoy"[..]));
}

#[test]
fn many_connections_share_a_socket_and_leave_nothing_behind() {
    let (server, to) = listening(reliable());
    let client = socket(reliable());
    for round in 0..20 {
        let here: Vec<_> = (0..10).map(|_| client.connect_timeout(to, reliable(), LONG).unwrap()).collect();
        let there: Vec<_> = here.iter().map(|_| accepted(&server)).collect();
        for (number, connection) in here.iter().enumerate() {
            connection.send_copy(&[round, number as u8], Full::Block).unwrap();
        }
        for (number, connection) in there.iter().enumerate() {
            let received = connection.recv_timeout(LONG).unwrap().expect("not closed");
            assert_eq!(*received, [round, number as u8]);
        }
    }
    client.wait_quiet(LONG).unwrap();
    server.wait_quiet(LONG).unwrap();
    assert_eq!(server.counters().connections_accepted, 200);
    assert_eq!(server.counters().connections_failed + client.counters().connections_failed, 0);
}

#[test]
fn a_capture_has_every_datagram() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a1.pcap");
    let (_server, to) = listening(reliable());
    let captured = Options { capture: Some(path.clone()), ..options() };
    let client = Socket::client_of(to, reliable(), &captured).unwrap();
    assert!(client.local_addr().ip().is_loopback() && client.max_qos().block_size > 60_000);
    let here = client.connect_timeout(to, reliable(), LONG).unwrap();
    here.send(b"the needle".to_vec(), Full::Block).unwrap();
    here.flush_timeout(LONG).unwrap();
    here.close(LONG).unwrap();
    drop((here, client));
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.windows(10).any(|window| window == b"the needle"));
}

#[test]
fn an_address_of_the_other_family_is_refused_and_the_next_one_of_the_name_is_tried() {
    let (server, to) = listening(reliable());
    let source = socket(reliable());
    let other: SocketAddr = "[::1]:9".parse().unwrap();
    let short = Duration::from_secs(1);
    let errors = [
        source.connect_timeout(other, reliable(), short).unwrap_err(),
        source.add_sink_timeout(other, reliable(), short).unwrap_err(),
    ];
    for error in errors.map(|error| error.to_string()) {
        assert!(error.contains("to [::1]:9") && error.contains("family"), "{error}");
    }
    let names = [other, to];
    let connection = source.connect_timeout(&names[..], reliable(), LONG).unwrap();
    connection.send(b"ahoy".to_vec(), Full::Block).unwrap();
    assert_eq!(accepted(&server).recv_timeout(LONG).unwrap().as_deref(), Some(&b"ahoy"[..]));
    source.add_sink_timeout(&names[..], reliable(), LONG).unwrap();
}
