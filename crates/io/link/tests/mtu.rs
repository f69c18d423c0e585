//! Paths with a small MTU, in a network namespace of the test's own thread. Without the privilege for one, the tests say
//! so and pass.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "a test that cannot run says why")]

mod support;

use pinnace_core::{Address, Ecn, Train, TrainLimits};
use pinnace_link::{Link, SendOutcome, UdpLink, UdpOptions};
use std::net::SocketAddr;
use std::process::Command;
use support::{Memory, collect, forge_icmp, receive_bytes, send_bytes, train_of};

fn set_mtu(mtu: usize) -> bool {
    let mtu = mtu.to_string();
    Command::new("ip").args(["link", "set", "lo", "up", "mtu", &mtu]).status().is_ok_and(|status| status.success())
}

/// A namespace of this thread, with a loopback interface of this MTU.
fn namespace(mtu: usize) -> bool {
    // SAFETY: changes this thread's namespace only, which ends with the test.
    let done = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 && set_mtu(mtu);
    if !done {
        pinnace_testing::skip::host(format_args!("no network namespace here ({})", std::io::Error::last_os_error()));
    }
    done
}

fn pair(local: &str) -> (UdpLink, UdpLink) {
    let options = UdpOptions::default();
    let mut a = UdpLink::bind(local.parse().unwrap(), &options).unwrap();
    let b = UdpLink::connect(None, a.local_address().unwrap(), &options).unwrap();
    a.connect_to(b.local_address().unwrap()).unwrap();
    (a, b)
}

fn train(link: &mut UdpLink, source: &Memory, size: usize) -> SendOutcome {
    let mut train = Train::new(link.train_limits());
    train_of(&mut train, source.id, 0, source.bytes().len(), size);
    link.send(&train, &source.table).unwrap()
}

#[test]
fn a_path_that_shrinks_says_so_and_then_fragments() {
    if !namespace(9000) {
        return;
    }
    for (local, headers) in [("127.0.0.1:0", 28), ("[::1]:0", 48)] {
        assert!(set_mtu(9000));
        let (mut a, mut b) = pair(local);
        assert_eq!(b.max_datagram(), 9000 - headers);
        let source = Memory::pattern(30_500);
        assert_eq!(train(&mut b, &source, 8000), SendOutcome::Sent);
        let target = Memory::zeros(30_500);
        assert_eq!(collect(&mut a, &target, 30_500, 8000).copied, 0);

        assert!(set_mtu(2000));
        let new = SendOutcome::TooLarge(Some(2000 - headers as u32));
        assert_eq!(train(&mut b, &source, 8000), new, "{local}");
        assert_eq!(send_bytes(&mut b, Address::Peer, &[0; 8000], Ecn::NotCapable), new);
        assert_eq!(b.max_datagram(), 2000 - headers);
        assert_eq!(b.counters().offload_fallbacks, 0, "the path has nothing against offload");

        assert!(Link::allow_fragmentation(&mut b) && b.fragments());
        assert!(!Link::allow_fragmentation(&mut b), "that is all it can do");
        let limits = b.train_limits();
        let target = Memory::zeros(30_500);
        for _ in 0..3 {
            assert_eq!(train(&mut b, &source, 8000), SendOutcome::Sent);
            let arrival = collect(&mut a, &target, 30_500, 8000);
            assert_eq!((arrival.copied, arrival.datagrams), (0, 4));
        }
        assert!(source.bytes() == target.bytes());
        // What fits is still sent with offload, in one call a train.
        assert_eq!(b.train_limits(), limits);
        let calls = b.counters().send_calls;
        assert_eq!(train(&mut b, &source, 1000), SendOutcome::Sent);
        assert_eq!(b.counters().send_calls, calls + 1);
        assert!(collect(&mut a, &Memory::zeros(30_500), 30_500, 1000).reads <= 2);
    }
}

#[test]
fn without_a_way_a_peer_is_unreachable() {
    if !namespace(1500) {
        return;
    }
    let options = UdpOptions::default();
    let mut link = UdpLink::bind("0.0.0.0:0".parse().unwrap(), &options).unwrap();
    let nowhere: SocketAddr = "192.0.2.1:9".parse().unwrap();
    assert_eq!(send_bytes(&mut link, nowhere.into(), b"x", Ecn::NotCapable), SendOutcome::Unreachable);
    assert!(UdpLink::connect(None, nowhere, &options).is_err());
    // The link itself is well.
    let (mut a, mut b) = pair("127.0.0.1:0");
    send_bytes(&mut b, Address::Peer, b"x", Ecn::NotCapable);
    assert_eq!(receive_bytes(&mut a).unwrap().0, b"x");
}

#[test]
fn what_a_rule_of_this_host_forbids_is_lost_and_counted() {
    if !namespace(1500) {
        return;
    }
    let rule = Command::new("ip").args(["route", "add", "prohibit", "192.0.2.0/24"]).status();
    assert!(rule.unwrap().success());
    let mut link = UdpLink::bind("0.0.0.0:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let forbidden: SocketAddr = "192.0.2.1:9".parse().unwrap();
    let mut train = Train::new(link.train_limits());
    train.begin(forbidden.into(), 100);
    for _ in 0..5 {
        train.zeros(100);
        train.end_segment();
    }
    assert_eq!(link.send(&train, &Memory::zeros(1).table).unwrap(), SendOutcome::Sent);
    assert_eq!((link.counters().send_errors, link.counters().datagrams_sent), (1, 0));
}

/// Sets the MTU of the way to one of this namespace's own addresses.
fn set_path(to: &str, mtu: usize) -> bool {
    let arguments = format!("route replace local {to} dev lo table local mtu {mtu}");
    Command::new("ip").args(arguments.split(' ')).status().is_ok_and(|status| status.success())
}

#[test]
fn one_small_path_costs_the_other_peers_of_a_link_nothing() {
    if !namespace(9000) {
        return;
    }
    let options = UdpOptions::default();
    let mut link = UdpLink::bind("0.0.0.0:0".parse().unwrap(), &options).unwrap();
    let mut peers = ["127.9.0.1", "127.9.0.2"].map(|ip| {
        assert!(set_path(ip, 9000));
        UdpLink::bind(format!("{ip}:0").parse().unwrap(), &options).unwrap()
    });
    let to = [0, 1].map(|at: usize| Address::from(peers[at].local_address().unwrap()));
    let limits = link.train_limits();
    let source = Memory::pattern(30_500);
    // The outcome, how many calls it took, and in how many reads all of it came.
    let mut crosses = |link: &mut UdpLink, at: usize, size: usize| {
        let mut train = Train::new(link.train_limits());
        train.begin(to[at], size + support::TRAILER);
        support::fill(&mut train, source.id, 0, source.bytes().len(), size);
        let calls = link.counters().send_calls;
        let outcome = link.send(&train, &source.table).unwrap();
        let calls = link.counters().send_calls - calls;
        let reads = match outcome {
            SendOutcome::Sent => collect(&mut peers[at], &Memory::zeros(30_500), 30_500, size).reads,
            _ => 0,
        };
        (outcome, calls, reads)
    };
    for at in [0, 1] {
        assert_eq!(crosses(&mut link, at, 1400), (SendOutcome::Sent, 1, 1));
    }
    assert!(set_path("127.9.0.2", 1000));
    let (outcome, ..) = crosses(&mut link, 1, 1400);
    assert_eq!(outcome, SendOutcome::TooLarge(Some(1000 - 28)), "what fits on this path, not on a usual one");
    assert!(Link::allow_fragmentation(&mut link));
    assert_eq!(crosses(&mut link, 1, 1400), (SendOutcome::Sent, 2, 22), "refused to be segmented, and sent singly");
    assert_eq!(crosses(&mut link, 1, 1400), (SendOutcome::Sent, 1, 22), "singly at once");
    assert_eq!(crosses(&mut link, 1, 900), (SendOutcome::Sent, 1, 1), "these fit");
    assert_eq!(crosses(&mut link, 0, 1400), (SendOutcome::Sent, 1, 1), "this path has nothing against it");
    assert_eq!((link.train_limits(), link.counters().offload_fallbacks), (limits, 1));
}

#[test]
fn what_a_socket_tells_of_earlier_datagrams_is_not_taken_for_this_trains() {
    if !namespace(9000) {
        return;
    }
    let (mut a, mut b) = pair("127.0.0.1:0");
    let (from, to) = (b.local_address().unwrap(), a.local_address().unwrap());
    let (source, limits) = (Memory::pattern(9_500), b.train_limits());
    const FRAGMENTATION_NEEDED: (u8, u16) = (4, 8000);
    const NO_SUCH_PORT: (u8, u16) = (3, 0);
    for ((code, mtu), outcome) in [(FRAGMENTATION_NEEDED, SendOutcome::Sent), (NO_SUCH_PORT, SendOutcome::Unreachable)]
    {
        for size in [1000, 5000] {
            forge_icmp(code, mtu, from, to);
            assert_eq!(train(&mut b, &source, size), outcome);
            // All of it, once, and cut up by the kernel.
            assert_eq!(collect(&mut a, &Memory::zeros(9_500), 9_500, size).reads, 1);
        }
        forge_icmp(code, mtu, from, to);
        assert_eq!(send_bytes(&mut b, Address::Peer, b"alone", Ecn::NotCapable), outcome);
        assert_eq!(receive_bytes(&mut a).unwrap().0, b"alone");
        // More of them than one call takes: these go singly.
        forge_icmp(code, mtu, from, to);
        let many = Memory::pattern(200);
        let mut singly = Train::new(TrainLimits { segments: 200, ..limits });
        singly.begin(Address::Peer, 1 + support::TRAILER);
        support::fill(&mut singly, many.id, 0, 200, 1);
        assert_eq!(b.send(&singly, &many.table).unwrap(), outcome);
        assert_eq!(collect(&mut a, &Memory::zeros(200), 200, 1).datagrams, 200);
    }
    let counters = b.counters();
    assert_eq!((b.train_limits(), counters.offload_fallbacks, counters.unreachable_reports), (limits, 0, 4));
    assert_eq!(counters.datagrams_sent, 2 * (10 + 2 + 1 + 200));
}
