//! XTP over real sockets: six services, two codecs, blocking and as futures.
#![allow(clippy::print_stderr)]

use pinnace::xtp::{
    Carrier, Close, Codec, Connection, ControlBlock, Endpoint, Failure, Flags, Incoming, Listener, Options, Progress,
    Refused, SendOptions, Service, Services,
};
use pinnace::{Error, Idle, Message};
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const CODECS: [Codec; 2] = [Codec::Xtp40, Codec::Xtp36];
const HOSTS: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];
const LONG: Duration = Duration::from_secs(20);

fn options(codec: Codec) -> Options {
    Options { codec, idle: Idle::Block, ..Options::default() }
}

/// A server that listens for everything, and a client.
fn pair(options: &Options, host: &str) -> (Endpoint, Listener, Endpoint) {
    let server = Endpoint::bind(host, options).expect("the loopback interface is there");
    let listener = server.listen(Services::ALL).expect("the port is free");
    let client = Endpoint::client_of(server.local_addr(), options).expect("a socket");
    (server, listener, client)
}

/// Every combination of codec and address family.
fn everywhere(mut test: impl FnMut(&Options, &str)) {
    for codec in CODECS {
        for host in HOSTS {
            test(&options(codec), host);
        }
    }
}

fn accepted(listener: &Listener) -> Connection {
    let incoming = listener.accept_timeout(LONG).expect("the endpoint works").expect("somebody comes");
    incoming.into_connection().expect("a stream")
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8).wrapping_add(seed)).collect()
}

/// Both ends close, and everything has arrived.
fn close(client: &Connection, server: &Connection) {
    client.finish().unwrap();
    server.finish().unwrap();
    client.wait_closed_timeout(LONG).unwrap();
    server.wait_closed_timeout(LONG).unwrap();
}

//= X-21 test
#[test]
fn messages_cross_both_ways_with_their_boundaries_and_tags() {
    everywhere(|options, host| {
        let (server, listener, client) = pair(options, host);
        let connection = client.connect(server.local_addr()).unwrap();
        let messages = [pattern(1, 1), pattern(10_000, 2), pattern(300_000, 3)];
        let tagged = SendOptions::tagged(*b"keelhaul");
        let sendings: Vec<_> =
            messages.iter().map(|message| connection.send_with(message.clone(), &tagged).unwrap()).collect();
        let server = accepted(&listener);
        assert_eq!(server.service(), Service::Connection);
        for message in &messages {
            let received = server.recv_timeout(LONG).unwrap().unwrap();
            assert!(received.data == *message && received.eom && received.holes.is_empty());
            assert_eq!(received.btag, Some(*b"keelhaul"));
            server.send(received.data).unwrap();
        }
        for (sending, message) in sendings.into_iter().zip(&messages) {
            assert_eq!(sending.wait().unwrap()[..], message[..]);
        }
        for message in &messages {
            let received = connection.recv_timeout(LONG).unwrap().unwrap();
            assert!(received.data == *message && received.btag.is_none());
        }
        close(&connection, &server);
        assert!(connection.recv().unwrap().is_none() && server.recv().unwrap().is_none());
    });
}

//= X-15 test
#[test]
fn a_hole_that_is_longer_than_the_ring_is_not_collected_as_one_message() {
    const RING: usize = 65_536;
    for codec in CODECS {
        let (server, listener, client) = pair(&Options { window_bytes: Some(RING as u32), ..options(codec) }, HOSTS[0]);
        let stream = client.connect_with(server.local_addr(), client.block(Service::IsoStream)).unwrap();
        let sent: Vec<_> = (0..40).map(|_| stream.send_bytes(vec![7; 60_000]).unwrap()).collect();
        stream.finish().unwrap();
        let taken = accepted(&listener);
        // Nobody reads, so that most of it finds no room; then all of it is known to be missing.
        sent.into_iter().for_each(|sending| drop(sending.wait()));
        thread::sleep(Duration::from_millis(300));
        let (mut total, mut missing) = (0, 0);
        while let Some(received) = taken.recv_timeout(LONG).unwrap() {
            assert!(received.data.len() <= 3 * RING && !received.eom, "{codec:?}: {} bytes", received.data.len());
            total += received.data.len();
            missing += received.holes.iter().map(ExactSizeIterator::len).sum::<usize>();
        }
        assert_eq!(total, 40 * 60_000, "{codec:?}");
        assert!(missing > total / 2, "{codec:?}: {missing} bytes are missing");
        taken.finish().unwrap();
        stream.wait_closed_timeout(LONG).unwrap();
    }
}

//= X-21 test
#[test]
fn transactions_are_answered() {
    everywhere(|options, host| {
        let (server, listener, client) = pair(options, host);
        let address = server.local_addr();
        let serving = thread::spawn(move || {
            for _ in 0..4 {
                let incoming = listener.accept_timeout(LONG).unwrap().expect("a request");
                let transaction = incoming.into_transaction().expect("nothing else was sent");
                let mut answer = transaction.request_timeout(LONG).unwrap().data;
                answer.reverse();
                transaction.respond(answer).unwrap().wait().unwrap();
            }
        });
        for len in [100, 0, 300_000] {
            let request = pattern(len, 5);
            let answer = client.transact_timeout(address, request.clone(), LONG).unwrap();
            assert!(answer.iter().rev().eq(&request), "{len}");
        }
        let answer = pollster::block_on(client.transact_async(address, b"ahoy".to_vec())).unwrap();
        assert_eq!(&*answer, b"yoha");
        serving.join().unwrap();
    });
}

//= X-21 test
#[test]
fn datagrams_come_whole_and_the_acknowledged_ones_surely() {
    everywhere(|options, host| {
        let (server, listener, client) = pair(options, host);
        let address = server.local_addr();
        client.datagram(address, b"ahoy".to_vec()).unwrap();
        client.acked_datagram(address, pattern(1000, 1)).unwrap().wait().unwrap();
        let block = client.block(Service::AckDgram);
        let deferred = SendOptions { dreq: true, ..SendOptions::tagged(*b"12345678") };
        let deferred = client.datagram_with(address, Vec::new(), block, &deferred).unwrap();
        let take = || listener.accept_timeout(LONG).unwrap().unwrap().into_datagram().unwrap();
        let (first, second) = (take(), take());
        assert_eq!(
            (&first.data[..], first.service, first.peer),
            (&b"ahoy"[..], Service::UnackDgram, client.local_addr())
        );
        assert_eq!((second.data, second.service), (pattern(1000, 1), Service::AckDgram));
        let Progress::UnderWay(deferred) = deferred.wait_timeout(Duration::from_millis(50)) else {
            panic!("acknowledged before it was taken")
        };
        let third = take();
        assert_eq!((third.data.len(), third.btag), (0, Some(*b"12345678")));
        deferred.wait().unwrap();
        let large = client.datagram(address, vec![0; 70_000]).unwrap_err();
        assert!(matches!(large.error, Error::ContextRefused(Refused::TooLarge { .. })), "{large}");
        assert_eq!(large.message.map(|message| message.len()), Some(70_000));
    });
}

//= X-7 test
//= X-21 test
#[test]
fn a_datagram_that_waits_for_a_listener_that_goes_is_not_waited_for() {
    for (codec, is_asked_for) in CODECS.into_iter().flat_map(|codec| [(codec, false), (codec, true)]) {
        let (server, listener, client) = pair(&options(codec), HOSTS[0]);
        let (block, deferred) = (client.block(Service::AckDgram), SendOptions { dreq: true, ..SendOptions::MESSAGE });
        let sending = client.datagram_with(server.local_addr(), pattern(10, 1), block, &deferred).unwrap();
        let until = Instant::now() + LONG;
        // Its sender has asked what has become of it, or has heard nothing yet.
        while !listener.has_arrivals() || (is_asked_for && client.counters().statuses_received == 0) {
            assert!(Instant::now() < until, "{codec:?}: it comes, and is asked for");
            thread::sleep(Duration::from_millis(2));
        }
        drop(listener);
        match sending.wait_timeout(LONG) {
            Progress::Ended(Err(unsent)) => {
                assert!(matches!(unsent.error, Error::ContextFailed(_)), "{codec:?} {unsent}");
            }
            other => panic!("{codec:?}: nobody will take it: {other:?}"),
        }
        assert_eq!(server.contexts(), 0, "{codec:?}");
    }
}

//= X-17 test
#[test]
fn a_message_that_was_read_before_a_tagged_one_begins_ends_there() {
    for codec in CODECS {
        let (server, listener, client) = pair(&options(codec), HOSTS[0]);
        let stream = client.connect(server.local_addr()).unwrap();
        stream.send_with(b"abc".to_vec(), &SendOptions::BYTES).unwrap().wait().unwrap();
        let there = accepted(&listener);
        // Its end has not come.
        while there.facts().unwrap().dseq == there.facts().unwrap().start {
            assert!(there.recv_timeout(Duration::from_millis(10)).is_err(), "{codec:?}");
        }
        stream.send_with(b"def".to_vec(), &SendOptions::tagged(*b"keelhaul")).unwrap().wait().unwrap();
        let recv = || there.recv_timeout(LONG).unwrap().unwrap();
        let (first, second) = (recv(), recv());
        assert_eq!((&first.data[..], first.btag, first.eom), (&b"abc"[..], None, true), "{codec:?}");
        assert_eq!((&second.data[..], second.btag, second.eom), (&b"def"[..], Some(*b"keelhaul"), true), "{codec:?}");
        close(&stream, &there);
        // So it does in a buffer that was posted.
        let stream = client.bulk(server.local_addr()).unwrap();
        let sending = stream.send_with(b"abc".to_vec(), &SendOptions::BYTES).unwrap();
        let there = accepted(&listener);
        there.post(Message::with_capacity(6)).unwrap();
        sending.wait().unwrap();
        while there.facts().unwrap().dseq == there.facts().unwrap().start {
            assert!(there.filled_timeout(Duration::from_millis(10)).is_err(), "{codec:?}");
        }
        stream.send_with(b"def".to_vec(), &SendOptions::tagged(*b"keelhaul")).unwrap().wait().unwrap();
        let filled = there.filled_timeout(LONG).unwrap().unwrap();
        assert_eq!((&filled.message[..], filled.ends), (&b"abcdef"[..], vec![3, 6]), "{codec:?}");
        close(&stream, &there);
    }
}

//= X-21 test
//= X-15 test
#[test]
fn streams_without_errors_arrive_on_a_clean_path() {
    everywhere(|options, host| {
        let (server, listener, client) = pair(options, host);
        let stream = client.iso_stream(server.local_addr()).unwrap();
        let mut server = None;
        for number in 0..50u8 {
            stream.send(pattern(4000, number)).unwrap();
            let server = server.get_or_insert_with(|| accepted(&listener));
            let received = server.recv_timeout(LONG).unwrap().unwrap();
            assert!(received.data == pattern(4000, number) && received.holes.is_empty());
        }
        assert_eq!(server.as_ref().map(Connection::service), Some(Service::IsoStream));
        close(&stream, &server.unwrap());
    });
}

//= X-8 test
//= X-21 test
#[test]
fn bulk_data_come_into_the_buffers_posted() {
    everywhere(|options, host| {
        let (server, listener, client) = pair(options, host);
        let bulk = client.bulk(server.local_addr()).unwrap();
        let (sent, address) = (pattern(1_000_000, 9), server.local_addr());
        let sending = bulk.send(sent.clone()).unwrap();
        let behind = bulk.send(pattern(10, 1)).unwrap();
        bulk.finish().unwrap();
        let taken = accepted(&listener);
        assert_eq!(taken.service(), Service::BulkData, "{address}");
        for room in [300_000, 800_000, 100] {
            taken.post(Message::with_capacity(room)).unwrap();
        }
        let [first, second] = [(); 2].map(|()| taken.filled_timeout(LONG).unwrap().unwrap());
        assert!(first.message[..] == sent[..300_000] && first.ends.is_empty());
        assert!(second.message[..700_000] == sent[300_000..] && second.message[700_000..] == pattern(10, 1));
        assert_eq!((second.message.len(), &second.ends[..]), (700_010, &[700_000, 700_010][..]));
        assert_eq!(taken.filled_timeout(LONG).unwrap().map(|filled| filled.message.len()), Some(0));
        assert!(taken.filled_timeout(LONG).unwrap().is_none());
        sending.wait().unwrap();
        behind.wait().unwrap();
        taken.finish().unwrap();
        bulk.wait_closed_timeout(LONG).unwrap();
        assert!(matches!(taken.recv(), Err(Error::Io { .. })), "nothing is in a ring");
    });
}

#[test]
fn bytes_are_read_and_written_as_from_any_stream() {
    let (server, listener, client) = pair(&options(Codec::Xtp40), HOSTS[0]);
    let mut connection = client.connect(server.local_addr()).unwrap();
    let sent = pattern(3_000_000, 7);
    let expected = sent.clone();
    let reading = thread::spawn(move || {
        let mut server = accepted(&listener);
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert!(all == expected);
        server.write_all(b"aye").unwrap();
        server.finish().unwrap();
        server.wait_closed_timeout(LONG).unwrap();
    });
    connection.write_all(&sent).unwrap();
    Write::flush(&mut connection).unwrap();
    connection.finish().unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "aye");
    reading.join().unwrap();
}

//= X-4 test
#[test]
fn the_ring_is_shown_without_a_copy() {
    let (server, listener, client) = pair(&options(Codec::Xtp40), HOSTS[0]);
    drop(listener);
    // A ring that ends in the midst of packets, often.
    let ring = ControlBlock { rbufsize: 200_003, rwindow: 200_003, ..server.block(Service::Connection) };
    let listener = server.listen_on(server.local_addr().port(), Services::ALL, ring).unwrap();
    let connection = client.connect(server.local_addr()).unwrap();
    let sent = pattern(5_000_000, 3);
    let expected = sent.clone();
    let sending = connection.send_bytes(sent).unwrap();
    connection.finish().unwrap();
    let taken = accepted(&listener);
    let mut at = 0;
    let mut wrapped = false;
    while let Some(used) = taken
        .read_with(|parts| {
            let all = parts.iter().map(|part| part.len()).sum::<usize>();
            // Always more than is used, so that the end of the ring is never reached exactly, however slow the sender is.
            if all < 120_000 && at + all < expected.len() {
                return 0;
            }
            wrapped |= parts.len() == 2;
            // Not all of it, so that the ring is used round and round in odd steps.
            let use_now = all.min(100_001);
            let mut from = at;
            for part in parts {
                let part = &part[..part.len().min(use_now - (from - at))];
                assert!(*part == expected[from..from + part.len()], "at {from}");
                from += part.len();
            }
            use_now
        })
        .unwrap()
    {
        at += used;
        if used == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    assert_eq!((at, wrapped), (expected.len(), true));
    sending.wait().unwrap();
    let counters = server.counters();
    assert!(counters.bytes_in_place > 3_000_000, "{counters:?}");
}

#[test]
fn tasks_wait_as_threads_do() {
    let (server, listener, client) = pair(&options(Codec::Xtp40), HOSTS[0]);
    let to = server.local_addr();
    pollster::block_on(async {
        let connection = client.connect(to).unwrap();
        connection.establish_async().await.unwrap();
        let sending = connection.send_async(pattern(100_000, 1), &SendOptions::MESSAGE).await.unwrap();
        let server = listener.accept_async().await.unwrap().into_connection().unwrap();
        assert!(server.recv_async().await.unwrap().unwrap().data == pattern(100_000, 1));
        sending.await.unwrap();
        drop(server.send(b"aye".to_vec()).unwrap());
        let mut answer = [0; 8];
        assert_eq!(connection.read_async(&mut answer).await.unwrap(), 3);
        server.flush_async().await.unwrap();
        connection.finish().unwrap();
        assert!(server.recv_async().await.unwrap().is_none());
        server.finish().unwrap();
        connection.wait_closed_async().await.unwrap();
        let bulk = client.bulk(to).unwrap();
        bulk.send(b"bulk".to_vec()).unwrap();
        bulk.finish().unwrap();
        let server = listener.accept_async().await.unwrap().into_connection().unwrap();
        server.post(Message::with_capacity(4)).unwrap();
        assert_eq!(&*server.filled_async().await.unwrap().unwrap().message, b"bulk");
    });
}

#[test]
fn who_does_not_listen_refuses() {
    everywhere(|options, host| {
        let (server, listener, client) = pair(options, host);
        drop(listener);
        let to = server.local_addr();
        let refused = client.connect(to).unwrap().establish_timeout(LONG).unwrap_err();
        assert!(matches!(refused, Error::ContextFailed(Failure::Refused { code: 1, value: 1 })), "{refused}");
        assert!(refused.to_string().contains("nobody listens there: check"), "{refused}");
        let refused = client.transact_timeout(to, b"ahoy".to_vec(), LONG).unwrap_err();
        assert!(matches!(refused, Error::ContextFailed(Failure::Refused { .. })), "{refused}");
        let unsent = client.connect(to).unwrap().send(b"ahoy".to_vec()).unwrap().wait().unwrap_err();
        assert!(matches!(unsent.error, Error::ContextFailed(Failure::Refused { .. })), "{unsent}");
        assert_eq!(unsent.message.as_deref(), Some(&b"ahoy"[..]));
        let _listener = server.listen(Service::Transaction).unwrap();
        let refused = client.connect(to).unwrap().establish_timeout(LONG).unwrap_err();
        assert!(matches!(refused, Error::ContextFailed(Failure::Refused { code: 1, value: 8 })), "{refused}");
        let taken = server.listen(Services::ALL).unwrap_err();
        assert!(matches!(taken, Error::ContextRefused(Refused::Port)), "{taken}");
    });
}

#[test]
fn waits_end_with_their_time() {
    let (server, listener, client) = pair(&options(Codec::Xtp40), HOSTS[0]);
    let short = Duration::from_millis(30);
    assert!(listener.accept_timeout(short).unwrap().is_none() && listener.try_accept().unwrap().is_none());
    let connection = client.connect(server.local_addr()).unwrap();
    connection.establish_timeout(LONG).unwrap();
    let begin = Instant::now();
    assert!(matches!(connection.recv_timeout(short), Err(Error::Timeout)));
    assert!(matches!(connection.read_timeout(&mut [0; 4], short), Err(Error::Timeout)));
    assert!(matches!(connection.wait_closed_timeout(short), Err(Error::Timeout)));
    assert!((short * 3..LONG).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    let _held = accepted(&listener);
    let silent = client.transact_timeout(server.local_addr(), b"ahoy".to_vec(), short);
    assert!(matches!(silent, Err(Error::Timeout)));
}

#[test]
fn a_peer_that_says_nothing_is_given_up_and_nothing_is_lost_in_silence() {
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = deaf.local_addr().unwrap();
    let client = Endpoint::client(&options(Codec::Xtp40)).unwrap();
    let mut block = client.block(Service::Connection);
    (block.retry_count, block.wtimer) = (2, Duration::from_millis(10));
    let connection = client.connect_with(to, block.clone()).unwrap();
    let [first, second] = [1, 2].map(|seed| connection.send(pattern(1000, seed)).unwrap());
    let unsent = first.wait().unwrap_err();
    assert!(matches!(unsent.error, Error::ContextFailed(Failure::Unanswered)), "{unsent}");
    assert!(matches!(second.probe(), Some(Err(Error::ContextFailed(Failure::Unanswered)))));
    assert_eq!(second.wait().unwrap_err().message.map(|message| message.len()), Some(1000));
    assert!(matches!(connection.flush(), Err(Error::ContextFailed(Failure::Unanswered))));
    assert!(matches!(connection.recv(), Err(Error::ContextFailed(Failure::Unanswered))));
    assert!(matches!(connection.send(vec![1]).unwrap_err().error, Error::ContextFailed(Failure::Unanswered)));
    block.service = Service::AckDgram;
    let unsent = client.datagram_with(to, vec![1], block, &SendOptions::MESSAGE).unwrap().wait().unwrap_err();
    assert!(matches!(unsent.error, Error::ContextFailed(Failure::Unanswered)), "{unsent}");
}

#[test]
fn a_peer_that_dies_in_the_middle_is_noticed() {
    let (server, listener, client) = pair(&options(Codec::Xtp40), HOSTS[0]);
    let mut block = client.block(Service::Connection);
    (block.retry_count, block.wtimer) = (3, Duration::from_millis(10));
    let connection = client.connect_with(server.local_addr(), block).unwrap();
    connection.send(pattern(100, 1)).unwrap().wait().unwrap();
    let taken = accepted(&listener);
    server.abort();
    assert!(matches!(taken.recv(), Err(Error::Endpoint(_))));
    let unsent = connection.send(pattern(100_000, 1)).unwrap().wait().unwrap_err();
    assert!(matches!(unsent.error, Error::ContextFailed(Failure::Abandoned)), "{unsent}");
    assert_eq!(unsent.message.map(|message| message.len()), Some(100_000));
}

#[test]
fn an_endpoint_that_shuts_down_tells_its_peers() {
    let (server, listener, client) = pair(&options(Codec::Xtp40), HOSTS[0]);
    let connection = client.connect(server.local_addr()).unwrap();
    connection.establish_timeout(LONG).unwrap();
    let _taken = accepted(&listener);
    server.shut_down();
    let ended = connection.recv_timeout(LONG).unwrap_err();
    assert!(matches!(ended, Error::ContextFailed(Failure::GivenUpByPeer { value: 10 })), "{ended}");
    assert!(ended.to_string().contains("connect again"), "{ended}");
}

//= X-20 test
#[test]
fn streams_close_in_three_ways() {
    everywhere(|options, host| {
        let (server, listener, client) = pair(options, host);
        for how in [Close::Abbreviated, Close::Full, Close::Forced] {
            let connection = client.connect(server.local_addr()).unwrap();
            connection.send(pattern(1000, 1)).unwrap().wait().unwrap();
            let taken = accepted(&listener);
            connection.close(how).unwrap();
            assert_eq!(taken.recv_timeout(LONG).unwrap().map(|received| received.data), Some(pattern(1000, 1)));
            let end = taken.recv_timeout(LONG);
            if how == Close::Full {
                assert!(end.unwrap().is_none());
                drop(taken.send(b"still".to_vec()).unwrap());
                taken.finish().unwrap();
                assert_eq!(
                    connection.recv_timeout(LONG).unwrap().map(|received| received.data),
                    Some(b"still".to_vec())
                );
            }
            if how == Close::Forced {
                assert!(matches!(taken.wait_closed_timeout(LONG), Err(Error::ContextFailed(Failure::Forced))));
                assert!(matches!(connection.wait_closed(), Err(Error::ContextFailed(Failure::Aborted))));
            } else {
                connection.wait_closed_timeout(LONG).unwrap();
                taken.wait_closed_timeout(LONG).unwrap();
            }
        }
    });
}

#[test]
fn what_is_dropped_goes_on_by_itself() {
    let (server, listener, client) = pair(&options(Codec::Xtp40), HOSTS[0]);
    let connection = client.connect(server.local_addr()).unwrap();
    for seed in 0..10 {
        drop(connection.send(pattern(100_000, seed)).unwrap());
    }
    drop(connection);
    // The last handle but for the listener's: it waits for what is under way.
    let reading = thread::spawn(move || {
        let taken = accepted(&listener);
        for seed in 0..10 {
            let received = taken.recv_timeout(LONG).unwrap().unwrap();
            assert!(received.data == pattern(100_000, seed));
        }
        assert!(taken.recv_timeout(LONG).unwrap().is_none());
    });
    drop(client);
    reading.join().unwrap();
}

#[test]
fn a_full_queue_makes_the_sender_wait_or_says_so() {
    let (server, listener, client) = pair(&options(Codec::Xtp40), HOSTS[0]);
    let mut block = client.block(Service::Connection);
    block.wbufsize = 200_000;
    let connection = Arc::new(client.connect_with(server.local_addr(), block).unwrap());
    connection.establish_timeout(LONG).unwrap();
    let taken = accepted(&listener);
    let mut full = None;
    for seed in 0..200u8 {
        match connection.try_send(pattern(50_000, seed), &SendOptions::MESSAGE) {
            Ok(sending) => drop(sending),
            Err(unsent) => {
                assert!(matches!(unsent.error, Error::ContextRefused(Refused::Full)), "{unsent}");
                full = Some((seed, unsent.message.expect("it comes back")));
                break;
            }
        }
    }
    let (count, message) = full.expect("nobody reads");
    let sending = thread::spawn({
        let connection = Arc::clone(&connection);
        move || connection.send(message).unwrap().wait().map(drop)
    });
    for seed in 0..=count {
        assert!(taken.recv_timeout(LONG).unwrap().unwrap().data == pattern(50_000, seed));
    }
    sending.join().unwrap().unwrap();
    let many = connection.send_all((0..40).map(|seed| pattern(20_000, seed).into()).collect());
    // More than the queue takes: somebody has to read meanwhile.
    assert!(many.is_ok_and(|sendings| sendings.len() == 40));
    for seed in 0..40 {
        assert!(taken.recv_timeout(LONG).unwrap().unwrap().data == pattern(20_000, seed));
    }
}

#[test]
fn messages_that_were_queued_ahead_of_one_that_cannot_be_are_not_kept() {
    let (server, listener, client) = pair(&options(Codec::Xtp40), HOSTS[0]);
    let connection = client.connect(server.local_addr()).unwrap();
    let memory = Arc::new(std::sync::Mutex::new(pattern(1000, 0)));
    let base = memory.lock().unwrap().as_mut_ptr();
    // SAFETY: the message holds the vector, which nobody else touches.
    let first = unsafe { Message::from_owner(Arc::clone(&memory), base, 1000) };
    let sent = connection.send_all(vec![first, Message::from_vec(Vec::new()), pattern(1000, 1).into()]);
    let Err((left, error)) = sent else { panic!("an empty message was queued") };
    assert!(matches!(error, Error::ContextRefused(Refused::Empty)) && left.len() == 2, "{error}");
    let peer = accepted(&listener);
    assert_eq!(peer.recv().unwrap().map(|received| received.data), Some(pattern(1000, 0)));
    connection.flush().unwrap();
    assert_eq!(Arc::strong_count(&memory), 1, "nobody can ask for it");
}

/// Fills the queue of a connection that nobody reads, and the peer's window.
fn fill(connection: &Connection) {
    let end = Instant::now() + LONG;
    loop {
        let facts = connection.facts().unwrap();
        // From then on nothing makes room.
        let is_final = facts.in_flight == 0 && !facts.is_allocated;
        while connection.try_write(&[0; 1000]).unwrap().is_some() {}
        if is_final {
            return;
        }
        assert!(Instant::now() < end, "{facts:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn whoever_waits_for_room_learns_that_another_thread_has_ended_the_stream() {
    let (server, listener, client) = pair(&options(Codec::Xtp40), HOSTS[0]);
    type Wait = fn(&Connection) -> Result<(), Error>;
    let waits: [Wait; 3] = [
        |connection| connection.send(pattern(200_000, 0)).map(drop).map_err(|unsent| unsent.error),
        |connection| connection.write(&[0; 1000]).map(drop),
        |connection| connection.send_all(vec![pattern(200_000, 0).into()]).map(drop).map_err(|(_, error)| error),
    ];
    for wait in waits {
        let mut block = client.block(Service::Connection);
        block.wbufsize = 200_000;
        let connection = Arc::new(client.connect_with(server.local_addr(), block).unwrap());
        connection.establish_timeout(LONG).unwrap();
        let _unread = accepted(&listener);
        fill(&connection);
        let (tell, told) = std::sync::mpsc::channel();
        thread::spawn({
            let connection = Arc::clone(&connection);
            move || tell.send(wait(&connection))
        });
        thread::sleep(Duration::from_millis(100));
        connection.finish().unwrap();
        let result = told.recv_timeout(LONG).expect("it does not wait any more");
        assert!(matches!(result, Err(Error::ContextRefused(Refused::Closed))), "{result:?}");
    }
}

#[test]
fn a_control_block_programs_the_context() {
    let (server, listener, client) = pair(&options(Codec::Xtp40), HOSTS[0]);
    let mut block = client.block(Service::Connection);
    block.mode_flags = Flags::NOCHECK | Flags::SORT;
    (block.sort_value, block.maxdata) = (7, 1000);
    let connection = client.connect_with(server.local_addr(), block.clone()).unwrap();
    connection.send(pattern(10_000, 1)).unwrap().wait().unwrap();
    assert!(client.counters().data_packets_sent >= 10);
    assert_eq!(connection.block().unwrap().sort_value, 7);
    block.sort_value = 70_000;
    assert!(matches!(connection.set_block(block.clone()), Err(Error::ContextRefused(Refused::Sort))));
    // A packet every 100 ms.
    (block.sort_value, block.output_rate, block.output_burst) = (5, 10_000, 1000);
    connection.set_block(block).unwrap();
    let begin = Instant::now();
    connection.send(pattern(5000, 2)).unwrap().wait().unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(300), "{:?}", begin.elapsed());
    let facts = connection.facts().unwrap();
    assert_eq!((facts.sent.wrapping_sub(facts.start), facts.in_flight, facts.is_connected), (15_000, 0, true));
    let taken = accepted(&listener);
    assert!(taken.recv_timeout(LONG).unwrap().unwrap().data == pattern(10_000, 1));
    connection.ask(true).unwrap();
    assert!(taken.recv_timeout(LONG).unwrap().unwrap().data == pattern(5000, 2));
}

/// Whoever waits for ever says so with the longest time that there is.
#[test]
fn timers_without_an_end_overflow_nothing() {
    let block =
        ControlBlock { ctimeout: Duration::MAX, ctimer: Duration::MAX, wtimer: Duration::MAX, ..Default::default() };
    let options = Options { block: Some(block), ..options(Codec::Xtp40) };
    let (server, listener, client) = pair(&options, HOSTS[0]);
    let connection = client.connect(server.local_addr()).unwrap();
    connection.send(pattern(100_000, 1)).unwrap().wait().unwrap();
    let taken = accepted(&listener);
    assert!(taken.recv_timeout(LONG).unwrap().unwrap().data == pattern(100_000, 1));
    close(&connection, &taken);
    // Whoever answers a transaction at once ends before it has measured how long to wait.
    let address = server.local_addr();
    let asking =
        thread::spawn(move || client.transact_timeout(address, b"ahoy".to_vec(), LONG).map(|answer| answer.data));
    let incoming = listener.accept_timeout(LONG).unwrap().expect("a request");
    let transaction = incoming.into_transaction().expect("nothing else was sent");
    let request = transaction.request_timeout(LONG).unwrap().data;
    transaction.respond(request).unwrap().wait().unwrap();
    assert_eq!(asking.join().unwrap().unwrap(), b"ahoy");
}

#[test]
fn a_ring_for_which_there_is_no_memory_is_as_large_as_it_has_to_be() {
    let block = ControlBlock { rbufsize: u32::MAX, ..ControlBlock::default() };
    let (server, listener, client) = pair(&Options { block: Some(block), ..options(Codec::Xtp40) }, HOSTS[0]);
    let connection = client.connect(server.local_addr()).unwrap();
    let sending = connection.send(pattern(1_000_000, 1)).unwrap();
    let taken = accepted(&listener);
    assert!(taken.recv_timeout(LONG).unwrap().unwrap().data == pattern(1_000_000, 1));
    sending.wait().unwrap();
    close(&connection, &taken);
}

#[test]
fn a_message_that_is_too_long_can_be_read_piece_by_piece() {
    let options = Options { longest_message: 100_000, ..options(Codec::Xtp40) };
    let (server, listener, client) = pair(&options, HOSTS[0]);
    let connection = client.connect(server.local_addr()).unwrap();
    let sent = pattern(500_000, 1);
    drop(connection.send(sent.clone()).unwrap());
    let taken = accepted(&listener);
    let long = taken.recv_timeout(LONG).unwrap_err();
    assert!(matches!(long, Error::MessageTooLong(100_000)), "{long}");
    let mut all = Vec::new();
    let mut piece = vec![0; 70_000];
    while all.len() < sent.len() {
        let taken = taken.read_timeout(&mut piece, LONG).unwrap();
        all.extend_from_slice(&piece[..taken]);
    }
    assert!(all == sent);
}

#[test]
fn one_endpoint_serves_many_and_both_ways() {
    let (server, listener, client) = pair(&options(Codec::Xtp36), HOSTS[0]);
    let connections: Vec<_> = (0..100).map(|_| client.connect(server.local_addr()).unwrap()).collect();
    for (number, connection) in connections.iter().enumerate() {
        drop(connection.send(pattern(100, number as u8)).unwrap());
    }
    let mut seen = Vec::new();
    let mut held = Vec::new();
    for _ in 0..100 {
        let taken = accepted(&listener);
        let received = taken.recv_timeout(LONG).unwrap().unwrap();
        seen.push(received[0]);
        drop(taken.send(received.data).unwrap());
        held.push(taken);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<u8>>());
    for (number, connection) in connections.iter().enumerate() {
        assert_eq!(connection.recv_timeout(LONG).unwrap().unwrap()[0], number as u8);
    }
    drop((connections, held));
    client.wait_quiet(LONG).unwrap();
    server.wait_quiet(LONG).unwrap();
}

#[test]
fn memory_goes_back_as_soon_as_it_is_not_needed() {
    let mut options = options(Codec::Xtp40);
    options.window_bytes = Some(1 << 20);
    // Four rings, although contexts wait for late packets for seconds.
    options.limits.bytes = 4 << 20;
    let (server, listener, client) = pair(&options, HOSTS[0]);
    let to = server.local_addr();
    let serving = thread::spawn(move || {
        for _ in 0..50 {
            let transaction = listener.accept_timeout(LONG).unwrap().unwrap().into_transaction().unwrap();
            let request = transaction.request_timeout(LONG).unwrap();
            drop(transaction.respond(request.data).unwrap());
        }
    });
    for number in 0..50 {
        assert!(client.transact_timeout(to, pattern(100, number), LONG).unwrap().data == pattern(100, number));
    }
    serving.join().unwrap();
    assert_eq!((server.counters().data_packets_dropped, client.counters().data_packets_dropped), (0, 0));
    assert!(client.contexts() > 10, "they wait");
}

#[test]
fn protocol_36_carries_it_too() {
    let options = Options { carrier: Carrier::Ip36, ..options(Codec::Xtp40) };
    let server = match Endpoint::bind("127.0.36.21:7000", &options) {
        Ok(server) => server,
        Err(error) if error.system().is_some_and(|why| why.kind() == std::io::ErrorKind::PermissionDenied) => {
            pinnace_testing::skip::host(format_args!("raw sockets need CAP_NET_RAW ({error})"));
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let listener = server.listen(Services::ALL).unwrap();
    let client = Endpoint::bind("127.0.36.22:7001", &options).unwrap();
    let to: SocketAddr = "127.0.36.21:7000".parse().unwrap();
    let connection = client.connect(to).unwrap();
    drop(connection.send(pattern(200_000, 4)).unwrap());
    let Incoming::Connection(taken) = listener.accept_timeout(LONG).unwrap().unwrap() else { panic!("a stream") };
    assert!(taken.recv_timeout(LONG).unwrap().unwrap().data == pattern(200_000, 4));
    assert_eq!((taken.address().source_port, taken.peer().ip()), (7001, client.local_addr().ip()));
    let refused = client.connect("127.0.36.21:7002").unwrap().establish_timeout(LONG).unwrap_err();
    assert!(matches!(refused, Error::ContextFailed(Failure::Refused { code: 1, value: 1 })), "{refused}");
    close(&connection, &taken);
}

#[test]
fn an_address_of_the_other_family_is_refused_and_the_next_one_of_the_name_is_tried() {
    let options = options(Codec::Xtp40);
    for (host, other) in [("127.0.0.1:0", "[::1]:9"), ("[::1]:0", "127.0.0.1:9")] {
        let server = Endpoint::bind(host, &options).unwrap();
        let listener = server.listen(Services::ALL).unwrap();
        let client = Endpoint::bind(host, &options).unwrap();
        let first = client.connect(server.local_addr()).unwrap();
        let other: SocketAddr = other.parse().unwrap();
        let error = client.connect(other).unwrap_err().to_string();
        assert!(error.contains(&format!("to {other}")) && error.contains("family"), "{error}");
        let names = [other, server.local_addr()];
        let second = client.connect(&names[..]).unwrap();
        for connection in [first, second] {
            connection.send(b"ahoy".to_vec()).unwrap();
            assert_eq!(accepted(&listener).recv_timeout(LONG).unwrap().unwrap().data, b"ahoy");
        }
    }
}
