//! XTP's streams to a multicast group (specs/xtp.md, X-22), over real UDP sockets on the loopback interface.
#![cfg(target_os = "linux")]

#[path = "support/groups.rs"]
mod groups;

use groups::{has_groups, over_loopback};
use pinnace::link::{
    BufferTable, Descriptors, Fault, FaultOptions, GroupLink, Link, LinkCounters, ReadBuffer, ReadOutcome, SendOutcome,
    UdpOptions,
};
use pinnace::xtp::{
    Codec, Connection, ControlBlock, Endpoint, Failure, Listener, Options, Refused, SendOptions, Service,
};
use pinnace::{ControllerKind, Error, Idle};
use pinnace_core::{Random, ReceivePlan, Train, TrainLimits};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const LOCAL: &str = "127.0.0.1:0";
const MESSAGES: usize = 20;
const BYTES: usize = 50_000;

fn group(number: u8) -> SocketAddrV4 {
    groups::group(76, number)
}

fn options() -> Options {
    Options { idle: Idle::Block, ..Options::default() }
}

fn host() -> Endpoint {
    Endpoint::bind(LOCAL, &options()).unwrap()
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ (at >> 9) ^ seed) as u8).collect()
}

fn accepted(listener: &Listener) -> Connection {
    let incoming = listener.accept_timeout(LONG).unwrap().expect("somebody sends");
    incoming.into_connection().expect("a stream")
}

/// Reads a stream to its end, and stays until the sender knows.
fn all_of(listener: &Listener) -> Vec<Vec<u8>> {
    let stream = accepted(listener);
    let mut messages = Vec::new();
    while let Some(received) = stream.recv_timeout(LONG).unwrap() {
        assert!(received.holes.is_empty());
        messages.push(received.data);
    }
    stream.wait_closed_timeout(LONG).unwrap();
    messages
}

/// A link that does not hear some of what comes: each loses something else of what all are sent.
struct Deaf {
    inner: GroupLink,
    random: Random,
}

impl Link for Deaf {
    fn train_limits(&self) -> TrainLimits {
        self.inner.train_limits()
    }

    fn max_datagram(&self) -> usize {
        self.inner.max_datagram()
    }

    fn datagrams_per_read(&self) -> usize {
        self.inner.datagrams_per_read()
    }

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        self.inner.send(train, memory)
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        loop {
            let outcome = self.inner.receive(plan, memory, pool)?;
            if !matches!(outcome, ReadOutcome::Received(_)) || !self.random.chance(0.05) {
                return Ok(outcome);
            }
        }
    }

    fn descriptors(&self) -> Descriptors {
        self.inner.descriptors()
    }

    fn counters(&self) -> LinkCounters {
        self.inner.counters()
    }
}

/// A member of the group that hears 95 % of what comes to it, and 2 % of whose own packets are lost: of more, three answers in a
/// row would be lost now and then, and the stream would end without it.
fn deaf(group: SocketAddrV4, seed: u64) -> Endpoint {
    // Without offload every datagram is a read of its own.
    let udp = UdpOptions { offload: false, ..UdpOptions::default() };
    let link = GroupLink::bind(LOCAL.parse().unwrap(), group.into(), &udp, &over_loopback()).unwrap();
    let local = link.local_address().unwrap();
    let link = Deaf { inner: link, random: Random::from_seed(seed) };
    let link = Fault::new(link, FaultOptions { seed, loss: 0.02, ..FaultOptions::default() });
    let congestion = Some(ControllerKind::Fixed { window: 256 << 10 });
    Endpoint::over(Box::new(link), local, None, &Options { congestion, ..options() }).unwrap()
}

fn small(endpoint: &Endpoint, service: Service) -> ControlBlock {
    ControlBlock { maxdata: 1400, ..endpoint.block(service) }
}

//= X-22 test
#[test]
fn everything_arrives_at_three_that_lose_different_packets() {
    if !has_groups() {
        return;
    }
    let group = group(1);
    let receiving: Vec<_> = (1..=3)
        .map(|seed| {
            let listener = deaf(group, seed).join(group).unwrap();
            thread::spawn(move || all_of(&listener))
        })
        .collect();
    let sender = host();
    let stream = sender.open_group_with(group, small(&sender, Service::Multicast)).unwrap();
    assert_eq!((stream.peer(), stream.service()), (group.into(), Service::Multicast));
    let sent: Vec<_> = (0..MESSAGES).map(|number| stream.send(pattern(BYTES, number)).unwrap()).collect();
    stream.finish().unwrap();
    for sending in sent {
        sending.wait().unwrap();
    }
    stream.wait_closed_timeout(LONG).unwrap();
    sender.part();
    let expected: Vec<_> = (0..MESSAGES).map(|number| pattern(BYTES, number)).collect();
    for receiving in receiving {
        assert!(receiving.join().unwrap() == expected);
    }
    let counters = sender.counters();
    assert!(counters.data_packets_resent > 20, "{counters:?}");
    // To each alone they would have been three times as many.
    assert!(counters.data_packets_sent < 2 * (MESSAGES * BYTES / 1400) as u64, "{counters:?}");
}

//= X-22 test
#[test]
fn an_endpoint_joins_for_itself_and_is_heard_by_all_tasks_too() {
    if !has_groups() {
        return;
    }
    let group = group(2);
    // One of them sends, too.
    let (one, other) = (host(), host());
    let (at_one, at_other) = (
        one.join(group).unwrap(),
        other.join_with(group, Service::Multicast, small(&other, Service::Multicast)).unwrap(),
    );
    assert_eq!(at_one.local_addr(), group.into());
    let stream = one.open_group(group).unwrap();
    let receiving = thread::spawn(move || {
        let messages = all_of(&at_other);
        (at_other, messages)
    });
    pollster::block_on(async {
        stream.establish_async().await.unwrap();
        let sending = stream.send_async(pattern(100_000, 1), &SendOptions::MESSAGE).await.unwrap();
        assert_eq!(sending.await.unwrap().len(), 100_000);
        stream.finish().unwrap();
        stream.wait_closed_async().await.unwrap();
    });
    assert!(at_one.try_accept().unwrap().is_none(), "what an endpoint sends itself is for others");
    let (at_other, messages) = receiving.join().unwrap();
    assert!(messages == [pattern(100_000, 1)]);
    drop(at_one);
    // Two streams at once, of which each has a sender of its own.
    let senders = [host(), host()];
    let streams = [1, 2].map(|number| {
        let stream = senders[number - 1].open_group(group).unwrap();
        stream.send(pattern(1000, number)).unwrap();
        stream.finish().unwrap();
        stream
    });
    let mut come = [(); 2].map(|()| {
        let stream = accepted(&at_other);
        let sender = stream.peer();
        let data = stream.recv_timeout(LONG).unwrap().unwrap().data;
        assert!(stream.recv_timeout(LONG).unwrap().is_none());
        stream.wait_closed_timeout(LONG).unwrap();
        (sender, data)
    });
    let mut expected = [1, 2].map(|number| (senders[number - 1].local_addr(), pattern(1000, number)));
    come.sort_unstable();
    expected.sort_unstable();
    assert!(come == expected);
    for stream in streams {
        stream.wait_closed_timeout(LONG).unwrap();
    }
}

//= X-22 test
#[test]
fn who_dies_holds_up_nobody() {
    if !has_groups() {
        return;
    }
    let group = group(3);
    let (good, dying) = (host(), host());
    let (at_good, at_dying) = (good.join(group).unwrap(), dying.join(group).unwrap());
    let receiving = thread::spawn(move || all_of(&at_good));
    let sender = host();
    let stream = sender.open_group_with(group, small(&sender, Service::Multicast)).unwrap();
    stream.send(pattern(BYTES, 0)).unwrap();
    accepted(&at_dying).recv_timeout(LONG).unwrap().unwrap();
    dying.abort();
    for number in 1..MESSAGES {
        stream.send(pattern(BYTES, number)).unwrap();
    }
    stream.finish().unwrap();
    stream.wait_closed_timeout(LONG).unwrap();
    assert!(receiving.join().unwrap() == (0..MESSAGES).map(|number| pattern(BYTES, number)).collect::<Vec<_>>());
}

//= X-22 test
#[test]
fn who_does_not_read_holds_up_the_others_for_so_many_rounds_and_is_left_behind() {
    if !has_groups() {
        return;
    }
    let group = group(8);
    let (good, slow) = (host(), host());
    let narrow = ControlBlock { rwindow: 65_536, ..small(&slow, Service::Multicast) };
    let (at_good, at_slow) = (good.join(group).unwrap(), slow.join_with(group, Service::Multicast, narrow).unwrap());
    let receiving = thread::spawn(move || all_of(&at_good));
    let sender = host();
    // On a busy machine the other one needs more than a few of them, too.
    let block = ControlBlock { retry_count: 40, ..small(&sender, Service::Multicast) };
    let stream = sender.open_group_with(group, block).unwrap();
    for number in 0..MESSAGES {
        stream.send(pattern(BYTES, number)).unwrap();
    }
    let stays = accepted(&at_slow);
    stream.finish().unwrap();
    // Whether all have everything cannot be shown, unless the slow one has found out before that it cannot have it.
    let closed = stream.wait_closed_timeout(LONG);
    assert!(matches!(closed, Ok(()) | Err(Error::ContextFailed(Failure::Abandoned))), "{closed:?}");
    assert!(receiving.join().unwrap() == (0..MESSAGES).map(|number| pattern(BYTES, number)).collect::<Vec<_>>());
    // What it has not read is not held for it.
    let read = (0..=MESSAGES).map(|_| stays.recv_timeout(LONG)).find(|read| !matches!(read, Ok(Some(_))));
    assert!(matches!(read, Some(Err(Error::ContextFailed(_)))), "{read:?}");
}

//= X-22 test
#[test]
fn what_is_not_repeated_is_told() {
    if !has_groups() {
        return;
    }
    let group = group(4);
    let receivers: Vec<_> = (11..=16).map(|seed| deaf(group, seed)).collect();
    let listeners: Vec<_> = receivers
        .iter()
        .map(|receiver| receiver.join_with(group, Service::UnackMulticast, receiver.block(Service::Multicast)).unwrap())
        .collect();
    let sender = host();
    let block = ControlBlock { output_rate: 2_000_000, output_burst: 8000, ..small(&sender, Service::UnackMulticast) };
    let stream = sender.open_group_with(group, block).unwrap();
    stream.send(pattern(4 * BYTES, 3)).unwrap();
    stream.finish().unwrap();
    stream.wait_closed_timeout(LONG).unwrap();
    assert_eq!(sender.counters().statuses_received, 0);
    let mut told = 0;
    for listener in listeners {
        // Its first packet may be lost, too: then it begins later, or not at all. Of six that does not happen to all.
        let Some(incoming) = listener.accept_timeout(Duration::from_secs(1)).unwrap() else { continue };
        let stream = incoming.into_connection().unwrap();
        let Some(received) = stream.recv_timeout(LONG).unwrap() else { continue };
        told += 1;
        let expected = pattern(4 * BYTES, 3);
        let lost: usize = received.holes.iter().map(|hole| hole.len()).sum();
        assert!(lost > 0 && lost < BYTES, "{lost}");
        let is_hole = |at: usize| received.holes.iter().any(|hole| hole.contains(&at));
        assert_eq!(received.data.len(), expected.len());
        assert!(received.data.iter().enumerate().all(|(at, byte)| is_hole(at) || *byte == expected[at]));
    }
    assert!(told > 0, "nobody was told");
}

#[test]
fn groups_that_nobody_needs_are_left() {
    if !has_groups() {
        return;
    }
    // A link is a member of 64 at most.
    let host = host();
    let port = group(5).port();
    let each = |number: u8| SocketAddrV4::new(Ipv4Addr::new(239, 76, 5, number), port);
    for number in 0..100 {
        drop(host.open_group(each(number)).unwrap());
        drop(host.join(each(number)).unwrap());
    }
    let held: Vec<_> = (0..64).map(|number| host.join(each(number)).unwrap()).collect();
    let error = host.open_group(each(64)).unwrap_err().to_string();
    assert!(error.contains("64 groups"), "{error}");
    drop(held);
    assert!(host.open_group(each(64)).is_ok());
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let group = group(6);
    let refused = |endpoint: &Endpoint, group: SocketAddrV4, why: &str| {
        for error in [endpoint.open_group(group).map(drop), endpoint.join(group).map(drop)] {
            let error = error.unwrap_err();
            let text = error.to_string();
            assert!(text.contains(why) && text.contains(&group.to_string()), "{text}");
            assert!(matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::InvalidInput));
        }
    };
    let here = host();
    refused(&here, "10.1.2.3:7".parse().unwrap(), "224.0.0.0/4");
    refused(&here, SocketAddrV4::new(*group.ip(), 0), "a port");
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    refused(&Endpoint::client_of(nobody, &options()).unwrap(), group, "one peer only");
    let none = Options { multicast: None, ..options() };
    refused(&Endpoint::bind(LOCAL, &none).unwrap(), group, "Options::multicast");
    if let Ok(endpoint) = Endpoint::bind("[::1]:0", &options()) {
        refused(&endpoint, group, "IPv4 address");
    }
    if has_groups() {
        let old = Options { codec: Codec::Xtp36, ..options() };
        refused(&Endpoint::bind(LOCAL, &old).unwrap(), group, "xtp40");
    }
    let unsupported = Error::ContextRefused(Refused::Unsupported).to_string();
    let stream = here.open_group_with(group, here.block(Service::Connection));
    assert_eq!(stream.unwrap_err().to_string(), unsupported);
    let listener = here.join_with(group, Service::Connection, here.block(Service::Multicast));
    assert_eq!(listener.unwrap_err().to_string(), unsupported);
}

#[test]
fn a_group_without_receivers_is_given_up() {
    if !has_groups() {
        return;
    }
    let sender = host();
    let block = ControlBlock { retry_count: 1, wtimer: Duration::from_millis(20), ..sender.block(Service::Multicast) };
    let stream = sender.open_group_with(group(7), block).unwrap();
    stream.send(pattern(1000, 1)).unwrap();
    stream.finish().unwrap();
    let error = stream.wait_closed_timeout(LONG).unwrap_err();
    assert!(matches!(error, Error::ContextFailed(Failure::Unanswered)), "{error}");
}
