//! Links over Ethernet, in network namespaces of the tests' own threads. Without the privilege for one, the tests say so
//! and pass.
#![cfg(target_os = "linux")]

mod support;
#[path = "support/wire.rs"]
mod wire;

use pinnace_core::{Address, BufferRange, Ecn, ReceivePlan, Train};
use pinnace_link::{BufferTable, EtherAddress, EtherLink, EtherOptions, Link, ReadBuffer, ReadOutcome, SendOutcome};
use std::io::ErrorKind;
use std::process::Command;
use support::{Memory, TRAILER, collect, receive, receive_bytes, send_bytes};
use wire::{MAC_A, MAC_B, Raw, carries, device, namespace, run, wire};

fn bind_with(interface: &str, options: &EtherOptions) -> EtherLink {
    support::soon(|| EtherLink::bind(interface, options))
}

fn bind(interface: &str) -> EtherLink {
    bind_with(interface, &EtherOptions::default())
}

fn pair() -> (EtherLink, EtherLink) {
    (bind("va"), bind("vb"))
}

/// The station of `other`, as `link` sees it.
fn station(link: &EtherLink, other: &EtherLink) -> Address {
    Address::Ethernet { interface: link.interface(), mac: other.mac() }
}

/// Sends `bytes` to the other end.
fn send(from: &mut EtherLink, to: &EtherLink, bytes: &[u8]) -> SendOutcome {
    let to = station(from, to);
    send_bytes(from, to, bytes, Ecn::NotCapable)
}

fn read_once(link: &mut EtherLink) -> std::io::Result<ReadOutcome> {
    let mut plan = ReceivePlan::new();
    plan.reset(1);
    plan.top_up(ReadBuffer::READ_BYTES);
    link.receive(&plan, &BufferTable::new(), &mut ReadBuffer::new())
}

fn is_empty(link: &mut EtherLink) -> bool {
    matches!(read_once(link).unwrap(), ReadOutcome::Empty)
}

/// A train of `source[low..high]` in segments of `size` bytes of payload.
fn train_to(train: &mut Train, to: Address, source: &Memory, low: usize, high: usize, size: usize) {
    train.begin(to, size + TRAILER);
    support::fill(train, source.id, low, high, size);
}

/// Sends `total` bytes in trains of `size` bytes a payload, and reads them with plans that guess `guess`.
fn transfer(from: &mut EtherLink, to: &mut EtherLink, total: usize, size: usize, guess: usize) -> support::Arrival {
    let there = station(from, to);
    support::transfer((from, there), to, total, size, guess)
}

#[test]
fn every_size_arrives_in_place() {
    for mtu in [1500, 9000] {
        if !wire(mtu) {
            return;
        }
        let (mut a, mut b) = pair();
        assert_eq!((a.max_datagram(), b.max_datagram()), (mtu, mtu));
        for size in [1, 2, 100, 1444, mtu - TRAILER - 1, mtu - TRAILER] {
            for total in [size * 40, size * 7 + 1, size * 3 + size / 2, size] {
                let arrival = transfer(&mut b, &mut a, total.min(200_000), size, size);
                assert_eq!(arrival.copied, 0, "a right guess copies nothing ({size}, {total})");
            }
        }
        for guess in [0, 1000, 1443, 1445, 8000] {
            let arrival = transfer(&mut a, &mut b, 50_001, 1444, guess);
            assert_eq!(arrival.copied > 0, guess < 1444, "{guess}: {arrival:?}");
        }
        for (from, to) in [(&a, &b), (&b, &a)] {
            assert_eq!(from.counters().datagrams_sent, to.counters().datagrams_received);
            assert_eq!(from.counters().bytes_sent, to.counters().bytes_received);
            assert_eq!(from.counters().datagrams_from_strangers + from.counters().send_errors, 0);
        }
    }
}

#[test]
fn a_header_and_two_areas_are_gathered_and_scattered() {
    if !wire(1500) {
        return;
    }
    let (mut a, mut b) = pair();
    let there = station(&b, &a);
    support::gather_and_scatter((&mut b, there), &mut a);
}

#[test]
fn an_address_is_an_interface_and_a_mac_address() {
    if !wire(1500) {
        return;
    }
    let (mut a, mut b) = pair();
    assert_eq!((a.mac(), a.interface_name(), b.mac(), b.interface_name()), (MAC_A, "va", MAC_B, "vb"));
    let there: EtherAddress = "02:00:00:00:00:0b%va".parse().unwrap();
    assert_eq!(there.resolve().unwrap(), station(&a, &b));
    assert_eq!(send_bytes(&mut a, there.resolve().unwrap(), b"question", Ecn::Capable0), SendOutcome::Sent);
    let (bytes, read) = receive_bytes(&mut b).unwrap();
    assert_eq!((&bytes[..], read.meta.source), (&b"question"[..], station(&b, &a)));
    assert_eq!((read.meta.destination, read.meta.ecn), (Some(b.local_address()), Ecn::NotCapable));
    assert_eq!(send_bytes(&mut b, read.meta.source, b"answer", Ecn::NotCapable), SendOutcome::Sent);
    assert_eq!(receive_bytes(&mut a).unwrap().0, b"answer");
    // Nothing of this was heard by its sender.
    assert!(is_empty(&mut a) && is_empty(&mut b));
    assert_eq!(a.counters().datagrams_from_strangers + b.counters().datagrams_from_strangers, 0);

    let inet: std::net::SocketAddr = "10.0.0.1:1".parse().unwrap();
    for (to, kind) in [
        (Address::Peer, ErrorKind::NotConnected),
        (inet.into(), ErrorKind::InvalidInput),
        (Address::Ethernet { interface: b.interface(), mac: MAC_B }, ErrorKind::InvalidInput),
    ] {
        let mut train = Train::new(a.train_limits());
        train.begin(to, 1);
        train.zeros(1);
        train.end_segment();
        assert_eq!(a.send(&train, &BufferTable::new()).unwrap_err().kind(), kind);
    }
}

#[test]
fn a_frame_has_no_tag_and_is_padded_by_the_medium_only() {
    if !wire(1500) {
        return;
    }
    let (raw, mut a) = (Raw::open("vb"), bind("va"));
    for bytes in [&b"x"[..], &[7; 45], &[8; 1500]] {
        let to = Address::Ethernet { interface: a.interface(), mac: MAC_B };
        assert_eq!(send_bytes(&mut a, to, bytes, Ecn::NotCapable), SendOutcome::Sent);
        assert_eq!(raw.receive(), [&MAC_B[..], &MAC_A, &[0x81, 0x7D], bytes].concat());
    }
    // What a real medium makes of 33 bytes.
    let packet = [5; 33];
    raw.send(&[&MAC_A, &MAC_B, &[0x81, 0x7D], &packet, &[0; 13]]);
    let target = Memory::zeros(1000);
    let mut plan = ReceivePlan::new();
    plan.reset(1);
    plan.pooled(32);
    plan.payload(BufferRange::new(target.id, 0, 1));
    plan.top_up(ReadBuffer::READ_BYTES);
    let mut pool = ReadBuffer::new();
    let read = receive(&mut a, &plan, &target.table, &mut pool).unwrap();
    assert_eq!((read.bytes, read.segment, read.truncated), (46, 46, false));
    let mut pieces = Vec::new();
    // SAFETY: the target stays, and nothing is written to it meanwhile.
    unsafe { pool.pieces(read.bytes, &mut pieces) };
    assert_eq!(pieces.concat(), [&packet[..], &[0; 13]].concat());
    assert_eq!(target.bytes()[..2], [5, 0], "the padding lies behind what was planned for");
}

#[test]
fn frames_for_others_are_strangers() {
    if !wire(1500) {
        return;
    }
    let (raw, mut a) = (Raw::open("vb"), bind("va"));
    assert!(run("link set va promisc on allmulticast on"));
    let other = [2, 0, 0, 0, 0, 0xC];
    let ours = [0x81, 0x7D];
    let strangers: [&[&[u8]]; 4] = [
        &[&other, &MAC_B, &ours, b"to another station"],
        &[&[0xFF; 6], &MAC_B, &ours, b"to everybody"],
        &[&[1, 0, 0x5E, 0, 0, 1], &MAC_B, &ours, b"to a group"],
        &[&MAC_A, &MAC_B, &[0x81, 0x00, 0, 5], &ours, b"on VLAN 5"],
    ];
    for (index, frame) in strangers.into_iter().enumerate() {
        raw.send(frame);
        raw.send(&[&MAC_A, &MAC_B, &ours, b"for you"]);
        assert_eq!(receive_bytes(&mut a).unwrap().0, b"for you");
        assert_eq!(a.counters().datagrams_from_strangers, index as u64 + 1);
    }
    // Other protocols do not come here at all.
    for ether_type in [0x0800u16, 0x86DD, 0x817C, 0x817E, 0x88B5] {
        raw.send(&[&MAC_A, &MAC_B, &ether_type.to_be_bytes(), &[0; 46]]);
    }
    raw.send(&[&MAC_A, &MAC_B, &ours, b"last"]);
    assert_eq!(receive_bytes(&mut a).unwrap().0, b"last");
    assert_eq!((a.counters().datagrams_from_strangers, a.counters().datagrams_received), (4, 5));
    // So many of them at once that a read gives the driver back before it has thrown them all away.
    for _ in 0..100 {
        raw.send(strangers[0]);
    }
    assert!(is_empty(&mut a) && is_empty(&mut a));
    assert_eq!(a.counters().datagrams_from_strangers, 104);
}

#[test]
fn what_belongs_to_an_interface_on_top_is_left_to_it() {
    if !wire(1500) || !device("link add mv0 link va address 02:00:00:00:00:0c type macvlan mode private") {
        return;
    }
    assert!(run("link set mv0 up"));
    let (raw, mut below, mut above) = (Raw::open("vb"), bind("va"), bind("mv0"));
    assert_eq!(above.mac(), [2, 0, 0, 0, 0, 0xC]);
    raw.send(&[&above.mac(), &MAC_B, &[0x81, 0x7D], b"above"]);
    raw.send(&[&MAC_A, &MAC_B, &[0x81, 0x7D], b"below"]);
    assert_eq!(receive_bytes(&mut above).unwrap().0, b"above");
    assert_eq!(receive_bytes(&mut below).unwrap().0, b"below");
    assert!(is_empty(&mut above) && is_empty(&mut below));
    assert_eq!((below.counters().datagrams_from_strangers, above.counters().datagrams_from_strangers), (1, 0));
}

#[test]
fn an_interface_has_one_owner_in_a_namespace() {
    if !wire(1500) {
        return;
    }
    assert!(run("link property add dev va altname uplink"));
    let options = EtherOptions::default();
    let (first, _other) = pair();
    for name in ["va", "uplink"] {
        let error = EtherLink::bind(name, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        for part in ["0x817d of va has an owner", "@pinnace-ether-va", "`ss -xap`"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
    let elsewhere = std::thread::spawn(|| wire(1500) && EtherLink::bind("va", &EtherOptions::default()).is_ok());
    assert!(elsewhere.join().unwrap());
    drop(first);
    assert_eq!(bind("uplink").interface_name(), "va");
}

#[test]
fn what_is_no_ethernet_interface_is_refused() {
    if !namespace() {
        return;
    }
    for (name, kind, part) in [
        ("lo", ErrorKind::InvalidInput, "lo is not Ethernet"),
        ("nosuch0", ErrorKind::NotFound, "no interface nosuch0"),
        ("", ErrorKind::NotFound, "`ip link`"),
        ("a name that is too long", ErrorKind::NotFound, "`ip link`"),
    ] {
        let error = EtherLink::bind(name, &EtherOptions::default()).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_missing_capability_is_named() {
    let bound = support::without_capabilities(|| EtherLink::bind("lo", &EtherOptions::default()).map(drop));
    let error = bound.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("CAP_NET_RAW") && error.to_string().contains("setcap"), "{error}");
}

#[test]
fn a_read_into_too_little_memory_is_marked() {
    if !wire(1500) {
        return;
    }
    let (mut a, mut b) = pair();
    let there = station(&b, &a);
    support::reads_into_too_little(&mut a, |bytes| {
        send_bytes(&mut b, there, bytes, Ecn::NotCapable);
    });
}

#[test]
fn what_the_interface_does_not_carry_is_too_large() {
    if !wire(9000) {
        return;
    }
    let (mut a, mut b) = pair();
    assert_eq!(transfer(&mut b, &mut a, 30_500, 8000, 8000).copied, 0);
    assert_eq!(send(&mut b, &a, &[0; 9000]), SendOutcome::Sent);
    assert_eq!(send(&mut b, &a, &[0; 9001]), SendOutcome::TooLarge(Some(9000)));
    assert_eq!(receive_bytes(&mut a).unwrap().0.len(), 9000);
    assert!(run("link set vb mtu 2000"));
    assert_eq!(send(&mut b, &a, &[0; 8000]), SendOutcome::TooLarge(Some(2000)));
    assert_eq!(b.max_datagram(), 2000);
    assert!(!Link::allow_fragmentation(&mut b), "nobody cuts frames");
    assert_eq!(send(&mut b, &a, &[0; 2000]), SendOutcome::Sent);
    assert_eq!(receive_bytes(&mut a).unwrap().0.len(), 2000);
    assert!(is_empty(&mut a));
}

#[test]
fn an_interface_may_go_down_and_come_up_again() {
    if !wire(1500) {
        return;
    }
    let (mut a, mut b) = pair();
    assert!(a.warnings().iter().all(|warning| !warning.contains("down")), "{:?}", a.warnings());
    for round in 1..=2 {
        assert_eq!(transfer(&mut a, &mut b, 30_000, 1000, 1000).copied, 0);
        assert!(run("link set va down"));
        // The kernel says it once to the reader, and to every sender.
        assert!(support::wait(&a));
        assert!(matches!(read_once(&mut a).unwrap(), ReadOutcome::Unreachable));
        assert!(is_empty(&mut a));
        let before = a.counters();
        for _ in 0..3 {
            assert_eq!(send(&mut a, &b, b"lost"), SendOutcome::Unreachable);
        }
        assert_eq!(a.counters().unreachable_reports, before.unreachable_reports + 3);
        assert_eq!(a.counters().datagrams_sent, before.datagrams_sent);
        // The other end has no carrier: what it sends is lost, which nobody promised otherwise.
        assert_eq!(send(&mut b, &a, b"lost"), SendOutcome::Sent);
        assert!(run("link set va up") && carries([&Raw::open("va"), &Raw::open("vb")]), "round {round}");
    }
    assert_eq!(transfer(&mut b, &mut a, 30_000, 1000, 1000).copied, 0);
    assert!(is_empty(&mut a) && is_empty(&mut b));
    drop(a);
    assert!(run("link set va down"));
    let a = bind("va");
    assert!(a.warnings().iter().any(|warning| warning.contains("`ip link set va up`")), "{:?}", a.warnings());
}

#[test]
fn an_interface_that_is_gone_is_an_error_that_says_so() {
    if !wire(1500) {
        return;
    }
    let (mut a, b) = pair();
    let to = station(&a, &b);
    assert!(run("link del va"));
    let mut train = Train::new(a.train_limits());
    train.begin(to, 1);
    train.zeros(1);
    train.end_segment();
    assert!(support::wait(&a), "who sleeps is woken");
    for error in [read_once(&mut a).unwrap_err(), a.send(&train, &BufferTable::new()).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("the interface va is gone"), "{error}");
    }
    assert!(is_empty(&mut a));
    // One of the same name is another one.
    drop((a, b));
    assert!(run("link add va type veth peer name vb") && run("link set va up") && run("link set vb up"));
    assert!(carries([&Raw::open("va"), &Raw::open("vb")]));
    let (mut a, mut b) = pair();
    assert_eq!(transfer(&mut a, &mut b, 3000, 1000, 1000).copied, 0);
}

#[test]
fn a_part_without_memory_is_a_lost_train() {
    if !wire(1500) {
        return;
    }
    let (mut a, mut b) = pair();
    let source = Memory::pattern(100);
    let mut train = Train::new(b.train_limits());
    train_to(&mut train, station(&b, &a), &source, 0, 200, 50);
    assert_eq!(b.send(&train, &source.table).unwrap(), SendOutcome::Sent);
    assert_eq!((b.counters().send_errors, b.counters().datagrams_sent), (1, 0));
    assert!(is_empty(&mut a));
}

#[test]
fn a_full_receive_buffer_drops_and_the_drops_are_counted() {
    if !wire(1500) {
        return;
    }
    let mut a = bind_with("va", &EtherOptions { receive_buffer: 0, ..EtherOptions::default() });
    let mut b = bind("vb");
    assert!(a.receive_buffer_bytes() > 0 && a.warnings().is_empty());
    let mut received = 0;
    for round in 0..2 {
        for _ in 0..500 {
            send(&mut b, &a, &[round; 1400]);
        }
        while !is_empty(&mut a) {
            received += 1;
        }
    }
    // The kernel tells of drops with the next that arrives.
    send(&mut b, &a, &[1]);
    assert!(!is_empty(&mut a));
    assert!(received < 1000);
    assert_eq!(a.counters().receive_buffer_drops, 1000 - received);
}

/// 40 Mbit/s, and a queue of about twenty frames: much less than a send buffer.
fn slow_down(interface: &str) -> bool {
    let arguments = format!("qdisc replace dev {interface} root tbf rate 40mbit burst 3200 limit 32000");
    let is_slow = Command::new("tc").args(arguments.split(' ')).status().is_ok_and(|status| status.success());
    if !is_slow {
        pinnace_testing::skip::host("no token bucket here");
    }
    is_slow
}

#[test]
fn a_short_queue_of_the_interface_blocks_and_loses_nothing() {
    if !wire(1500) || !slow_down("va") {
        return;
    }
    let (mut a, mut b) = pair();
    let (total, size) = (400 * 1400, 1400);
    let (source, target) = (Memory::pattern(total), Memory::zeros(total));
    let mut train = Train::new(a.train_limits());
    let (mut blocked, mut sleeps) = (0, 0);
    for low in (0..total).step_by(20 * size) {
        train_to(&mut train, station(&a, &b), &source, low, low + 20 * size, size);
        while a.send(&train, &source.table).unwrap() == SendOutcome::Blocked {
            blocked += 1;
            let mut poll = libc::pollfd { fd: a.descriptors().writable, events: libc::POLLOUT, revents: 0 };
            // SAFETY: one valid `pollfd`.
            let is_ready = |poll: &mut libc::pollfd, wait| unsafe { libc::poll(&raw mut *poll, 1, wait) } == 1;
            sleeps += usize::from(!is_ready(&mut poll, 0));
            assert!(is_ready(&mut poll, 2000), "there is room again");
        }
    }
    assert_eq!(collect(&mut b, &target, total, size).datagrams, 400);
    assert!(target.bytes() == source.bytes());
    assert_eq!((a.counters().datagrams_sent, a.counters().send_errors), (400, 0));
    assert_eq!(a.counters().sends_blocked, blocked);
    // The first time the queue says so, and from then on the socket, which tells when there is room.
    assert!(blocked > 5 && sleeps + 2 >= blocked as usize, "{blocked} times, of which {sleeps} slept");
}

#[test]
fn a_queue_that_others_fill_loses_frames_and_counts_them() {
    if !wire(1500) || !slow_down("va") {
        return;
    }
    let (mut a, b) = pair();
    let raw = Raw::open("va");
    let mut lost = 0;
    for _ in 0..200 {
        // What the queue has no room for, this socket is not told of.
        raw.try_send(&[&MAC_B, &MAC_A, &[0x88, 0xB5], &[0; 1400]]);
        assert_eq!(send(&mut a, &b, &[0; 1400]), SendOutcome::Sent);
        lost = a.counters().send_errors;
    }
    assert!(lost > 0);
    assert_eq!(a.counters().datagrams_sent, 200 - lost);
}
