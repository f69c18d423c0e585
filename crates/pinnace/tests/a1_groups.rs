//! A1's sinks in a multicast group, over real UDP sockets on the loopback interface.
#![cfg(target_os = "linux")]

#[path = "support/groups.rs"]
mod groups;

use groups::has_groups;
use pinnace::a1::{Connection, Failure, Full, Options, Qos, Socket, group, raw, reliable};
use pinnace::{Error, Idle};
use std::net::SocketAddrV4;
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);
const LOCAL: &str = "127.0.0.1:0";

fn options() -> Options {
    Options { idle: Idle::Block, silence: Duration::from_secs(2), ..Options::default() }
}

fn address(number: u8) -> SocketAddrV4 {
    groups::group(78, number)
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ (at >> 9) ^ seed) as u8).collect()
}

fn listening(options: &Options, qos: Qos) -> Socket {
    let socket = Socket::bind_with(LOCAL, qos, options).unwrap();
    socket.listen(4).unwrap();
    socket
}

fn accepted(socket: &Socket) -> Connection {
    socket.accept_timeout(LONG).unwrap().expect("somebody comes")
}

//= A-15 test
#[test]
fn a_group_carries_the_blocks_once_and_who_cannot_join_gets_them_too() {
    if !has_groups() {
        return;
    }
    const MESSAGES: usize = 50;
    const BYTES: usize = 200_000;
    // The receive buffers hold what may be under way.
    let qos = Qos { outstanding: 4, block_size: 8000, ..reliable() };
    let source = Socket::bind_with(LOCAL, qos, &options()).unwrap();
    source.set_group(Some(group(address(1)).unwrap())).unwrap();
    let joining = options();
    let lonely = Options { multicast: None, ..options() };
    let listeners: Vec<_> = [&joining, &joining, &lonely].map(|options| listening(options, qos)).into();
    for listener in &listeners {
        source.add_sink_timeout(listener.local_addr(), qos, LONG).unwrap();
    }
    assert!(source.set_group(None).is_err());
    let joined: Vec<_> = source.sinks().iter().map(|sink| sink.facts().unwrap().has_joined).collect();
    assert_eq!(joined, [true, true, false]);
    thread::scope(|scope| {
        for listener in &listeners {
            scope.spawn(move || {
                let there = accepted(listener);
                for number in 0..MESSAGES {
                    let received = there.recv_timeout(LONG).unwrap().expect("not closed");
                    assert!(*received == pattern(BYTES, number), "message {number}");
                }
                assert!(there.recv_timeout(LONG).unwrap().is_none());
            });
        }
        for number in 0..MESSAGES {
            source.send_timeout(pattern(BYTES, number), LONG).unwrap();
        }
        source.close(LONG).unwrap();
    });
    let sent = source.counters();
    let blocks = (MESSAGES * BYTES / 8000) as u64;
    assert_eq!(sent.blocks_to_groups, blocks, "{sent:?}");
    // Once to the group, once to the lonely one; what a busy machine drops goes over the connections.
    let repeated = sent.blocks_repeated;
    assert_eq!(sent.blocks_sent, 2 * blocks + repeated, "{sent:?}");
}

//= A-15 test
#[test]
fn a_sink_that_joins_late_gets_what_is_sent_from_then_on_and_one_that_dies_stops_nobody() {
    if !has_groups() {
        return;
    }
    let qos = Qos { outstanding: 4, block_size: 8000, ..reliable() };
    let grouped = Options { group: Some(group(address(2)).unwrap()), ..options() };
    let source = Socket::bind_with(LOCAL, qos, &grouped).unwrap();
    let (first, second) = (listening(&options(), qos), listening(&options(), qos));
    source.add_sink_timeout(first.local_addr(), qos, LONG).unwrap();
    let early = accepted(&first);
    let send = |number| source.send_timeout(pattern(30_000, number), LONG).unwrap();
    let expect = |there: &Connection, number| {
        assert!(*there.recv_timeout(LONG).unwrap().expect("not closed") == pattern(30_000, number), "{number}");
    };
    for number in 0..10 {
        send(number);
        expect(&early, number);
    }
    let sink = source.add_sink_timeout(second.local_addr(), qos, LONG).unwrap();
    let late = accepted(&second);
    for number in 10..20 {
        send(number);
        expect(&early, number);
        expect(&late, number);
    }
    second.abort();
    for number in 20..40 {
        send(number);
        expect(&early, number);
    }
    source.flush_timeout(LONG).unwrap();
    assert_eq!(sink.result(), Some(Err(Failure::Abandoned)));
    assert_eq!(first.counters().datagrams_malformed, 0);
}

//= A-15, A-21 test
#[test]
fn a_group_carries_raw_blocks_and_two_sources_may_share_its_address() {
    if !has_groups() {
        return;
    }
    let qos = Qos { block_size: 1000, ..raw() };
    let listener = listening(&options(), qos);
    let sources: Vec<_> = (0..2)
        .map(|_| {
            let grouped = Options { group: Some(group(address(3)).unwrap()), ..options() };
            let source = Socket::bind_with(LOCAL, qos, &grouped).unwrap();
            source.add_sink_timeout(listener.local_addr(), qos, LONG).unwrap();
            let there = accepted(&listener);
            there.send_copy(b"aye", Full::Report).expect("who was accepted is connected");
            (source, there)
        })
        .collect();
    for number in 0..20 {
        for (seed, (source, there)) in sources.iter().enumerate() {
            source.send_copy(&pattern(5000, 100 * seed + number), Full::Block).unwrap();
            let received = there.recv_timeout(LONG).unwrap().expect("not closed");
            assert!(*received == pattern(5000, 100 * seed + number), "{number} of {seed}");
        }
    }
    for (source, there) in &sources {
        assert!(there.facts().unwrap().has_joined);
        source.close(LONG).unwrap();
        assert!(there.recv_timeout(LONG).unwrap().is_none());
    }
}

#[test]
fn the_records_of_a_group_are_alike() {
    let grouped = Options { group: Some(group(address(4)).unwrap()), ..options() };
    let source = Socket::bind_with(LOCAL, reliable(), &grouped).unwrap();
    let listener = listening(&options(), reliable());
    source.add_sink_timeout(listener.local_addr(), reliable(), LONG).unwrap();
    let other = Qos { block_size: 500, ..reliable() };
    let refused = source.add_sink_timeout(listener.local_addr(), other, LONG).unwrap_err();
    assert!(matches!(refused, Error::CallRefused(_)), "{refused}");
    assert!(group("10.0.0.1:5".parse().unwrap()).is_err());
}
