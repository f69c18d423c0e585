//! Raw IP links, in network namespaces of the tests' own threads. Without the privilege for one, the tests say so and
//! pass.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "a test that cannot run says why")]

mod support;

use pinnace_core::{Address, BufferRange, Ecn, ReceivePlan, Train};
use pinnace_link::{BufferTable, Ip36Link, Ip36Options, Link, ReadBuffer, ReadOutcome, Received, SendOutcome};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixListener};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use support::{Memory, TRAILER, has_something_within, receive, receive_bytes, send_bytes, soon, train_of};

/// Two addresses of this host in each family.
const V4: [&str; 2] = ["127.0.0.2", "127.0.0.3"];
const V6: [&str; 2] = ["fd00:36::2", "fd00:36::3"];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at(text: &str) -> Address {
    SocketAddr::new(ip(text), 0).into()
}

fn run(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split(' ')).status().is_ok_and(|status| status.success())
}

/// Waits until an address of IPv6 that was given to this host is really there: the kernel routes to it a little later.
fn settle(local: &str) -> bool {
    let socket = UdpSocket::bind((ip(local), 0)).unwrap();
    let own = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    (0..500).any(|_| socket.send_to(b"?", own).is_ok() && socket.recv(&mut [0]).is_ok())
}

/// A namespace of this thread, with both families on its loopback interface.
fn namespace() -> bool {
    // SAFETY: changes this thread's namespace only, which ends with the test.
    let done = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
    if !done {
        pinnace_testing::skip::host(format_args!("no network namespace here ({})", std::io::Error::last_os_error()));
        return false;
    }
    if Command::new("ip").arg("-V").output().is_err() {
        pinnace_testing::skip::program("no `ip` here");
        return false;
    }
    if !std::path::Path::new("/proc/sys/net/ipv6").exists() {
        pinnace_testing::skip::host("no IPv6 here");
        return false;
    }
    if !run("link set lo up mtu 65536") {
        pinnace_testing::skip::host("interfaces may not be set up here");
        return false;
    }
    assert!(V6.iter().all(|ip| run(&format!("addr add {ip}/128 dev lo nodad")) && settle(ip)));
    true
}

/// A device in this namespace, if the kernel has such: nothing else about it is a reason to skip a test.
fn device(add: &str) -> bool {
    let made = run(add);
    if !made {
        pinnace_testing::skip::host(format_args!("no such device here: `ip {add}`"));
    }
    made
}

fn bind(local: &str) -> Ip36Link {
    soon(|| Ip36Link::bind(ip(local), &Ip36Options::default()))
}

fn connect(local: &str, peer: &str) -> Ip36Link {
    soon(|| Ip36Link::connect(Some(ip(local)), ip(peer), &Ip36Options::default()))
}

fn is_empty(link: &mut Ip36Link) -> bool {
    let mut plan = ReceivePlan::new();
    plan.reset(1);
    plan.top_up(ReadBuffer::READ_BYTES);
    matches!(link.receive(&plan, &BufferTable::new(), &mut ReadBuffer::new()).unwrap(), ReadOutcome::Empty)
}

/// As `is_empty`, where strangers' packets may wait, and nothing but them.
fn is_drained(link: &mut Ip36Link) -> bool {
    let before = link.counters().datagrams_from_strangers;
    assert!(is_empty(link), "a stranger's packet was handed up");
    link.counters().datagrams_from_strangers == before
}

/// Sends `total` bytes in trains of `size` bytes a payload, and reads them with plans that guess `guess`.
fn transfer(from: &mut Ip36Link, to: &mut Ip36Link, total: usize, size: usize, guess: usize) -> support::Arrival {
    support::transfer((from, Address::Peer), to, total, size, guess)
}

#[test]
fn every_size_arrives_in_place() {
    if !namespace() {
        return;
    }
    for ([here, there], largest) in [(V4, 65_515), (V6, 65_496)] {
        let (mut a, mut b) = (bind(here), connect(there, here));
        assert_eq!((a.max_datagram(), b.max_datagram()), (if here == V4[0] { 65_515 } else { 1460 }, largest));
        for size in [1, 2, 100, 1444, 1472, 9000, 32_000, largest - TRAILER] {
            for total in [size * 40, size * 7 + 1, size * 3 + size / 2, size] {
                let arrival = transfer(&mut b, &mut a, total.min(200_000), size, size);
                assert_eq!(arrival.copied, 0, "a right guess copies nothing ({size}, {total})");
            }
        }
        for guess in [0, 1000, 1443, 1445, 60_000] {
            let arrival = transfer(&mut b, &mut a, 50_001, 1444, guess);
            assert_eq!(arrival.copied > 0, guess < 1444, "{guess}: {arrival:?}");
        }
        assert_eq!(a.counters().datagrams_received, b.counters().datagrams_sent);
        assert_eq!(a.counters().bytes_received, b.counters().bytes_sent);
        assert_eq!(a.counters().datagrams_from_strangers + b.counters().send_errors, 0);
    }
}

#[test]
fn a_header_and_two_areas_are_gathered_and_scattered() {
    if !namespace() {
        return;
    }
    for [here, there] in [V4, V6] {
        let (mut a, mut b) = (connect(here, there), connect(there, here));
        support::gather_and_scatter((&mut b, Address::Peer), &mut a);
    }
}

#[test]
fn an_address_is_the_host_alone() {
    if !namespace() {
        return;
    }
    for [here, there] in [V4, V6] {
        let (mut a, mut b) = (bind(here), connect(there, here));
        assert_eq!((a.local_address(), b.peer_address(), a.peer_address()), (ip(here), Some(ip(here)), None));
        send_bytes(&mut b, Address::Peer, b"question", Ecn::NotCapable);
        let (bytes, read) = receive_bytes(&mut a).unwrap();
        assert_eq!((&bytes[..], read.meta.source), (&b"question"[..], at(there)));
        assert_eq!(read.meta.destination, Some(at(here)));
        // A port in it means nothing, and does not disturb.
        for port in [0, 5000] {
            let to = SocketAddr::new(ip(there), port);
            assert_eq!(send_bytes(&mut a, to.into(), b"answer", Ecn::NotCapable), SendOutcome::Sent);
            let (bytes, read) = receive_bytes(&mut b).unwrap();
            assert_eq!((&bytes[..], read.meta.source), (&b"answer"[..], Address::Peer));
            assert_eq!(read.meta.destination, Some(at(there)));
        }
        let mut train = Train::new(b.train_limits());
        train.begin(at(there), 1);
        train.zeros(1);
        train.end_segment();
        assert!(b.send(&train, &BufferTable::new()).is_err(), "it has one peer");
        train.begin(Address::Peer, 1);
        train.zeros(1);
        train.end_segment();
        assert!(a.send(&train, &BufferTable::new()).is_err(), "it has none");
    }
}

#[test]
fn a_packet_to_oneself_is_heard_and_no_other_of_ones_own() {
    if !namespace() {
        return;
    }
    for own in ["::1", V4[0], V6[0]] {
        let mut link = bind(own);
        send_bytes(&mut link, at(own), b"echo", Ecn::NotCapable);
        let (bytes, read) = receive_bytes(&mut link).unwrap();
        assert_eq!((&bytes[..], read.meta.source, read.meta.destination), (&b"echo"[..], at(own), Some(at(own))));
    }
    for [here, there] in [V4, V6] {
        let (mut a, mut b) = (bind(here), bind(there));
        send_bytes(&mut a, at(there), b"away", Ecn::NotCapable);
        assert_eq!(receive_bytes(&mut b).unwrap().0, b"away");
        assert!(is_empty(&mut a));
    }
}

#[test]
fn a_connected_link_hears_its_peer_only() {
    if !namespace() {
        return;
    }
    for ([here, there], other) in [(V4, "127.0.0.4"), (V6, "::1")] {
        let (mut a, mut b, mut stranger) = (connect(here, there), bind(there), bind(other));
        send_bytes(&mut stranger, at(here), b"not for you", Ecn::NotCapable);
        send_bytes(&mut b, at(here), b"for you", Ecn::NotCapable);
        assert_eq!(receive_bytes(&mut a).unwrap().0, b"for you");
        assert!(is_empty(&mut a));
    }
}

#[test]
fn what_was_queued_before_a_socket_is_bound_and_connected_is_for_nobody() {
    if !namespace() {
        return;
    }
    // Until it is bound, a raw socket hears all packets of its protocol.
    for ([here, there], other) in [(V4, "127.0.0.4"), (V6, "::1")] {
        let stop = Arc::new(AtomicBool::new(false));
        let flood = std::thread::spawn({
            let stop = stop.clone();
            move || {
                let mut stranger = bind(other);
                while !stop.load(Ordering::Relaxed) {
                    send_bytes(&mut stranger, at(here), b"to another", Ecn::NotCapable);
                    send_bytes(&mut stranger, at(there), b"from another", Ecn::NotCapable);
                }
            }
        });
        let end = Instant::now() + Duration::from_secs(10);
        let mut strangers = 0;
        while strangers < 3 && Instant::now() < end {
            // Only the stranger sends: whatever waits was queued too early.
            let mut link = connect(here, there);
            while !is_drained(&mut link) {}
            strangers += link.counters().datagrams_from_strangers;
        }
        stop.store(true, Ordering::Relaxed);
        flood.join().unwrap();
        assert!(strangers > 0, "the test has tested something");
    }
}

#[test]
fn an_address_has_one_owner_in_a_namespace() {
    if !namespace() {
        return;
    }
    let options = Ip36Options::default();
    for [here, there] in [V4, V6] {
        let first = bind(here);
        let error = Ip36Link::bind(ip(here), &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&format!("@pinnace-ip36-{here}")), "{error}");
        let connected = connect(there, here);
        assert_eq!(Ip36Link::bind(ip(there), &options).unwrap_err().kind(), ErrorKind::AddrInUse);
        let other = Ip36Link::connect(Some(ip(here)), ip(there), &options);
        assert_eq!(other.unwrap_err().kind(), ErrorKind::AddrInUse);
        drop((first, connected));
        drop((bind(here), bind(there)));
    }
    // One address under two spellings is one address.
    let _first = bind(V4[0]);
    assert_eq!(Ip36Link::bind(ip("::ffff:127.0.0.2"), &options).unwrap_err().kind(), ErrorKind::AddrInUse);
    let elsewhere = std::thread::spawn(|| namespace() && Ip36Link::bind(ip(V4[0]), &Ip36Options::default()).is_ok());
    assert!(elsewhere.join().unwrap());
    // Other programs may hold the name with a socket of either kind.
    let name = |here: &str| UnixAddress::from_abstract_name(format!("pinnace-ip36-{here}")).unwrap();
    assert!(UnixListener::bind_addr(&name(V4[0])).is_err() && UnixDatagram::bind_addr(&name(V4[0])).is_err());
    let others = (UnixListener::bind_addr(&name("127.0.0.7")), UnixDatagram::bind_addr(&name("127.0.0.8")));
    for here in ["127.0.0.7", "127.0.0.8"] {
        assert_eq!(Ip36Link::bind(ip(here), &options).unwrap_err().kind(), ErrorKind::AddrInUse);
    }
    drop(others);
    // What could not be bound has no owner.
    let nobodys = || Ip36Link::bind(ip("192.0.2.1"), &Ip36Options::default());
    for _ in 0..2 {
        let found = soon(|| match nobodys() {
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => Ip36Link::bind(ip("127.0.0.9"), &options),
            other => other,
        });
        assert_eq!(found.local_address(), ip("127.0.0.9"), "{found:?}");
    }
}

#[test]
fn what_is_not_one_host_is_refused() {
    for text in ["0.0.0.0", "::", "::ffff:0.0.0.0", "224.0.0.1", "ff02::1"] {
        let error = Ip36Link::bind(ip(text), &Ip36Options::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("`ip address`"), "{error}");
        let error = Ip36Link::connect(None, ip(text), &Ip36Options::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    let without_link = Ip36Link::bind(ip("fe80::1"), &Ip36Options::default()).unwrap_err();
    assert_eq!(without_link.kind(), ErrorKind::InvalidInput);
    assert!(without_link.to_string().contains("fe80::1%INTERFACE"), "{without_link}");
    let mixed = Ip36Link::connect(Some(ip(V4[0])), ip("::1"), &Ip36Options::default()).unwrap_err();
    assert!(matches!(mixed.kind(), ErrorKind::InvalidInput | ErrorKind::PermissionDenied), "{mixed}");
}

#[test]
fn an_address_of_one_link_has_an_owner_for_each_link() {
    if !namespace() {
        return;
    }
    assert!(run("link add va index 61 type veth peer name vb index 62"));
    for device in ["va", "vb"] {
        assert!(
            run(&format!("link set {device} addrgenmode none"))
                && run(&format!("addr add fe80::7/64 dev {device} nodad"))
        );
        assert!(run(&format!("link set {device} up")));
    }
    let bind = |text: &str| Ip36Link::bind_at(text.parse().unwrap(), &Ip36Options::default());
    let mut link = soon(|| bind("[fe80::7%61]:0"));
    assert_eq!(bind("[fe80::7%61]:7001").unwrap_err().kind(), ErrorKind::AddrInUse);
    let _other = soon(|| bind("[fe80::7%62]:0"));
    // To itself: the link is part of where packets come from and go to.
    let own: SocketAddr = "[fe80::7%61]:0".parse().unwrap();
    send_bytes(&mut link, own.into(), b"ahoy", Ecn::NotCapable);
    assert!(has_something_within(&link, 2000));
    let (bytes, Received { meta, .. }) = receive_bytes(&mut link).unwrap();
    assert_eq!((&bytes[..], meta.source, meta.destination), (&b"ahoy"[..], own.into(), Some(own.into())));
}

#[test]
fn a_missing_capability_is_named() {
    let made = support::without_capabilities(|| {
        [
            Ip36Link::bind(ip("127.0.0.77"), &Ip36Options::default()),
            Ip36Link::connect(None, ip("::1"), &Ip36Options::default()),
        ]
        .map(|link| link.map(drop))
    });
    for result in made {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
    }
}

#[test]
fn a_read_into_too_little_memory_is_marked() {
    if !namespace() {
        return;
    }
    for [here, there] in [V4, V6] {
        let (mut a, mut b) = (bind(here), connect(there, here));
        support::reads_into_too_little(&mut a, |bytes| {
            send_bytes(&mut b, Address::Peer, bytes, Ecn::NotCapable);
        });
    }
}

#[test]
fn ecn_bits_cross() {
    if !namespace() {
        return;
    }
    for [here, there] in [V4, V6] {
        let (mut a, mut b) = (bind(here), connect(there, here));
        for ecn in [Ecn::Capable0, Ecn::NotCapable, Ecn::Capable1, Ecn::Congested] {
            send_bytes(&mut b, Address::Peer, b"x", ecn);
            assert_eq!(receive_bytes(&mut a).unwrap().1.meta.ecn, ecn, "{here}");
        }
    }
}

/// What the link says when asked until it says something.
fn next_outcome(link: &mut Ip36Link) -> Option<ReadOutcome> {
    let mut plan = ReceivePlan::new();
    plan.reset(1);
    plan.top_up(ReadBuffer::READ_BYTES);
    support::wait(link).then(|| link.receive(&plan, &BufferTable::new(), &mut ReadBuffer::new()).unwrap())
}

#[test]
fn a_host_that_does_not_know_the_protocol_is_unreachable() {
    if !namespace() {
        return;
    }
    for [here, there] in [V4, V6] {
        let mut link = connect(here, there);
        // The kernel heeds no report about a packet with fewer than 8 bytes behind its IP header.
        let header = [0; 32];
        for reports in 1..=3 {
            // Only a read tells: a send on a raw socket passes by what is pending.
            assert_eq!(send_bytes(&mut link, Address::Peer, &header, Ecn::NotCapable), SendOutcome::Sent);
            assert!(matches!(next_outcome(&mut link), Some(ReadOutcome::Unreachable)), "{here}");
            assert!(is_empty(&mut link));
            assert_eq!(link.counters().unreachable_reports, reports);
        }
        // A link that hears everybody has no use for it: it does not say which of them it is about.
        drop(link);
        let mut link = bind(here);
        send_bytes(&mut link, at(there), &header, Ecn::NotCapable);
        assert!(is_empty(&mut link));
    }
    let nowhere = ip("192.0.2.1");
    assert!(Ip36Link::connect(None, nowhere, &Ip36Options::default()).is_err());
    let mut link = bind(V4[0]);
    assert_eq!(
        send_bytes(&mut link, SocketAddr::new(nowhere, 0).into(), b"x", Ecn::NotCapable),
        SendOutcome::Unreachable
    );
}

#[test]
fn what_the_path_does_not_carry_is_too_large_until_it_may_be_cut() {
    if !namespace() {
        return;
    }
    for ([here, there], header) in [(V4, 20), (V6, 40)] {
        assert!(run("link set lo mtu 9000"));
        let (mut a, mut b) = (bind(here), connect(there, here));
        assert_eq!(b.max_datagram(), 9000 - header);
        transfer(&mut b, &mut a, 30_500, 8000, 8000);
        assert!(run("link set lo mtu 2000"));
        let fits = SendOutcome::TooLarge(Some(2000 - header as u32));
        assert_eq!(send_bytes(&mut b, Address::Peer, &[0; 8000], Ecn::NotCapable), fits, "{here}");
        assert_eq!(b.max_datagram(), 2000 - header);
        assert_eq!(send_bytes(&mut a, at(there), &[0; 8000], Ecn::NotCapable), fits, "the listener asks for the route");
        assert!(Link::allow_fragmentation(&mut b) && b.fragments());
        assert!(!Link::allow_fragmentation(&mut b), "that is all it can do");
        assert_eq!(transfer(&mut b, &mut a, 30_500, 8000, 8000).copied, 0);
        assert_eq!(
            send_bytes(&mut b, Address::Peer, &vec![0; 65_536], Ecn::NotCapable),
            SendOutcome::TooLarge(Some(2000 - header as u32))
        );
        assert!(run("link set lo mtu 65536"));
    }
}

#[test]
fn a_part_without_memory_is_a_lost_train() {
    if !namespace() {
        return;
    }
    let (mut a, mut b) = (bind(V4[0]), connect(V4[1], V4[0]));
    let source = Memory::pattern(100);
    let mut train = Train::new(b.train_limits());
    train_of(&mut train, source.id, 0, 200, 50);
    assert_eq!(b.send(&train, &source.table).unwrap(), SendOutcome::Sent);
    assert_eq!((b.counters().send_errors, b.counters().datagrams_sent), (1, 0));
    assert!(is_empty(&mut a));
}

#[test]
fn a_full_receive_buffer_drops_and_the_drops_are_counted() {
    if !namespace() {
        return;
    }
    for [here, there] in [V4, V6] {
        let options = Ip36Options { receive_buffer: 0, ..Ip36Options::default() };
        let mut a = Ip36Link::bind(ip(here), &options).unwrap();
        let mut b = connect(there, here);
        assert!(a.receive_buffer_bytes() > 0 && a.warnings().is_empty());
        let mut received = 0;
        for round in 0..2 {
            for _ in 0..500 {
                send_bytes(&mut b, Address::Peer, &[round; 1400], Ecn::NotCapable);
            }
            while !is_empty(&mut a) {
                received += 1;
            }
        }
        // The kernel tells of drops with the next that arrives.
        send_bytes(&mut b, Address::Peer, &[1], Ecn::NotCapable);
        assert!(!is_empty(&mut a));
        assert!(received < 1000);
        assert_eq!(a.counters().receive_buffer_drops, 1000 - received);
    }
}

/// A raw socket that sends IP options in front of everything.
fn with_options(options: &[u8], peer: IpAddr, bytes: &[u8]) {
    // SAFETY: no pointers; a fresh descriptor with no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 36)) };
    let fd = socket.as_raw_fd();
    let IpAddr::V4(peer) = peer else { panic!("options are of IPv4") };
    // SAFETY: every pointer is to a value of the length given, on this frame; all zeros is a `sockaddr_in`.
    let sent = unsafe {
        let set =
            libc::setsockopt(fd, libc::IPPROTO_IP, libc::IP_OPTIONS, options.as_ptr().cast(), options.len() as u32);
        assert_eq!(set, 0);
        let mut to: libc::sockaddr_in = std::mem::zeroed();
        to.sin_family = libc::AF_INET as u16;
        to.sin_addr.s_addr = u32::from_ne_bytes(peer.octets());
        libc::sendto(fd, bytes.as_ptr().cast(), bytes.len(), 0, (&raw const to).cast(), 16)
    };
    assert_eq!(sent, bytes.len() as isize);
}

#[test]
fn ip_options_do_not_shift_what_arrives() {
    if !namespace() {
        return;
    }
    let mut link = bind(V4[0]);
    let target = Memory::zeros(300);
    for options in [&[1, 1, 1, 0][..], &[1; 40]] {
        let bytes: Vec<u8> = (0..=255).chain([options.len() as u8; 44]).collect();
        with_options(options, ip(V4[0]), &bytes);
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.pooled(16);
        plan.payload(BufferRange::new(target.id, 0, 250));
        plan.pooled(14);
        plan.payload(BufferRange::new(target.id, 280, 20));
        plan.top_up(ReadBuffer::READ_BYTES);
        let mut pool = ReadBuffer::new();
        let read = receive(&mut link, &plan, &target.table, &mut pool).unwrap();
        assert_eq!((read.bytes, read.truncated), (300, false));
        let mut pieces = Vec::new();
        // SAFETY: the target stays, and nothing is written to it meanwhile.
        unsafe { pool.pieces(300, &mut pieces) };
        assert_eq!(pieces.concat(), bytes);
        assert!(target.bytes()[..250] == bytes[16..266] && target.bytes()[280..] == bytes[280..]);
        assert_eq!(link.counters().datagrams_from_strangers, 0);
    }
}

/// A veth queues packets for the processor that sends them, so a thread that moves meanwhile changes their order.
fn stay_on_one_processor() {
    // SAFETY: all zeros is an empty set, which the call only reads; it is about this thread alone.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Gives an interface the addresses of `host`, and waits until it has them.
fn bring_up(interface: &str, host: u8) {
    assert!(run(&format!("addr add 10.36.0.{host}/24 dev {interface}")));
    assert!(run(&format!("addr add fd36::{host}/64 dev {interface} nodad")));
    assert!(run(&format!("link set {interface} up")));
    assert!(settle(&format!("fd36::{host}")), "fd36::{host} never comes");
}

/// Two ends in two network namespaces with a veth between them.
fn veth(mtu: usize) -> Option<[[Ip36Link; 2]; 2]> {
    if !namespace() {
        return None;
    }
    // SAFETY: no arguments.
    let here = unsafe { libc::syscall(libc::SYS_gettid) };
    let (to_us, from_there) = mpsc::channel();
    let there = std::thread::spawn(move || {
        let made =
            namespace() && device(&format!("link add vb mtu {mtu} type veth peer name va mtu {mtu} netns {here}"));
        if made {
            bring_up("vb", 2);
        }
        to_us.send(made).unwrap();
        made.then(|| [("10.36.0.2", "10.36.0.1"), ("fd36::2", "fd36::1")].map(|(local, peer)| connect(local, peer)))
    });
    if from_there.recv().expect("it is up there") {
        bring_up("va", 1);
    }
    let there = there.join().unwrap()?;
    Some([["10.36.0.1", "fd36::1"].map(bind), there])
}

#[test]
fn both_ends_may_be_in_namespaces_of_their_own() {
    stay_on_one_processor();
    for mtu in [1500, 9000] {
        let Some([here, there]) = veth(mtu) else { return };
        for ((mut a, mut b), header) in here.into_iter().zip(there).zip([20, 40]) {
            assert_eq!(b.max_datagram(), mtu - header);
            // Until the neighbour is known, which may take seconds, the kernel queues a few packets only, and none before it
            // has found out that the other end is up.
            assert!((0..5).any(|_| {
                send_bytes(&mut b, Address::Peer, b"there?", Ecn::NotCapable);
                has_something_within(&a, 2000)
            }));
            while has_something_within(&a, 50) {
                assert_eq!(receive_bytes(&mut a).unwrap().0, b"there?");
            }
            let size = b.max_datagram() - TRAILER;
            let arrival = transfer(&mut b, &mut a, size * 70, size, size);
            assert_eq!((arrival.copied, arrival.datagrams), (0, 70));
            // And back, to the address that it came from.
            send_bytes(&mut b, Address::Peer, b"whose?", Ecn::Capable0);
            let (_, Received { meta, .. }) = receive_bytes(&mut a).unwrap();
            assert_eq!((meta.source, meta.ecn), (SocketAddr::new(b.local_address(), 0).into(), Ecn::Capable0));
            send_bytes(&mut a, meta.source, b"yours", Ecn::NotCapable);
            assert_eq!(receive_bytes(&mut b).unwrap().0, b"yours");
        }
    }
}

#[test]
fn nobody_of_another_family_can_be_reached_and_the_link_is_well() {
    if !namespace() {
        return;
    }
    for ([here, there], other) in [(V4, V6[0]), (V6, V4[0])] {
        let (mut a, mut b) = (bind(here), connect(there, here));
        assert_eq!(send_bytes(&mut a, at(other), b"x", Ecn::NotCapable), SendOutcome::Unreachable);
        send_bytes(&mut a, at(there), b"well", Ecn::NotCapable);
        assert_eq!(receive_bytes(&mut b).unwrap().0, b"well");
        assert_eq!((a.counters().unreachable_reports, a.counters().datagrams_sent), (1, 1));
    }
}

/// A link to another host, over 100 Mbit/s and a queue as long as that of a network card; and the other host's.
fn behind_a_queue() -> Option<(Ip36Link, Ip36Link)> {
    if !namespace() {
        return None;
    }
    // SAFETY: no pointers.
    let here = unsafe { libc::gettid() };
    // Of the other host its socket is what stays.
    let far = std::thread::spawn(move || {
        let has_wire = namespace() && device(&format!("link add q1 type veth peer name q0 netns {here}"));
        has_wire.then(|| {
            assert!(run("addr add 10.36.0.2/24 dev q1") && run("link set q1 up"));
            bind("10.36.0.2")
        })
    });
    let far = far.join().unwrap()?;
    let bucket = "qdisc replace dev q0 root tbf rate 100mbit burst 32kb limit 1514000";
    assert!(run("addr add 10.36.0.1/24 dev q0") && run("link set q0 up"));
    let is_slow = Command::new("tc").args(bucket.split(' ')).status().is_ok_and(|status| status.success());
    if !is_slow {
        pinnace_testing::skip::host("no token bucket here");
    }
    is_slow.then(|| (bind("10.36.0.1"), far))
}

#[test]
fn the_queue_of_an_interface_blocks_and_loses_nothing() {
    let Some((mut a, mut b)) = behind_a_queue() else { return };
    const PACKETS: u64 = 4000;
    let payload = [7; 1400];
    let reader = std::thread::spawn(move || {
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.top_up(ReadBuffer::READ_BYTES);
        (0..PACKETS)
            .take_while(|_| receive(&mut b, &plan, &BufferTable::new(), &mut ReadBuffer::new()).is_some())
            .count()
    });
    for _ in 0..PACKETS {
        while send_bytes(&mut a, at("10.36.0.2"), &payload, Ecn::NotCapable) == SendOutcome::Blocked {
            let mut poll = libc::pollfd { fd: a.descriptors().writable, events: libc::POLLOUT, revents: 0 };
            // SAFETY: one valid `pollfd`.
            assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 10_000) }, 1, "there is room again");
        }
    }
    assert_eq!((reader.join().unwrap(), a.counters().sends_blocked > 0), (PACKETS as usize, true));
}
