//! Links that join groups and leave them while they work.

use pinnace_core::{ReceivePlan, Train};
use pinnace_link::{
    BufferTable, GroupsLink, Link, Memberships, MulticastOptions, ReadBuffer, ReadOutcome, SendOutcome, UdpLink,
    UdpOptions,
};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

fn link() -> (GroupsLink, Memberships) {
    let multicast = MulticastOptions { interface: Ipv4Addr::LOCALHOST, ..MulticastOptions::default() };
    let own = UdpLink::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    GroupsLink::new(own, &UdpOptions::default(), &multicast).unwrap()
}

fn send(link: &mut GroupsLink, to: SocketAddr) {
    let mut train = Train::new(link.train_limits());
    train.begin(to.into(), 4);
    train.inline(b"ahoy");
    train.end_segment();
    assert_eq!(link.send(&train, &BufferTable::new()).unwrap(), SendOutcome::Sent);
}

/// Whether something comes in this time.
fn hears(link: &mut GroupsLink, time: Duration) -> bool {
    let (until, memory, mut pool) = (Instant::now() + time, BufferTable::new(), ReadBuffer::new());
    let mut plan = ReceivePlan::new();
    plan.reset(link.datagrams_per_read());
    plan.top_up(ReadBuffer::READ_BYTES);
    loop {
        let outcome = link.receive(&plan, &memory, &mut pool).unwrap();
        if matches!(outcome, ReadOutcome::Received(_)) || Instant::now() >= until {
            return matches!(outcome, ReadOutcome::Received(_));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_was_received_stays_counted_when_a_group_is_left_and_when_it_is_joined_again() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let group: SocketAddr = (Ipv4Addr::new(239, 77, 1, 2), port).into();
    let ((mut sender, _), (mut receiver, mut memberships)) = (link(), link());
    memberships.join(group).unwrap();
    for count in 1..=3 {
        send(&mut sender, group);
        assert!(hears(&mut receiver, Duration::from_secs(10)));
        assert_eq!(receiver.counters().datagrams_received, count);
        // Between two reads.
        memberships.leave(group);
        memberships.join(group).unwrap();
    }
    memberships.leave(group);
    assert!(!hears(&mut receiver, Duration::ZERO));
    assert_eq!((receiver.counters().datagrams_received, receiver.counters().bytes_received), (3, 12));
}
