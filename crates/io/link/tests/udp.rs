//! UDP links over real loopback sockets.
#![cfg(target_os = "linux")]

mod support;

use libc::c_int;
use pinnace_core::{Address, Ecn, ReceivePlan, Train, TrainLimits};
use pinnace_link::{Link, ReadBuffer, ReadOutcome, Received, SendOutcome, UdpLink, UdpOptions};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};
use support::{Memory, TRAILER, collect, fill, receive_bytes, send_bytes, train_of};

const V4: &str = "127.0.0.1:0";
const V6: &str = "[::1]:0";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Two links that know each other.
fn pair(local: &str, options: &UdpOptions) -> (UdpLink, UdpLink) {
    let mut a = UdpLink::bind(address(local), options).unwrap();
    let b = UdpLink::connect(None, a.local_address().unwrap(), options).unwrap();
    a.connect_to(b.local_address().unwrap()).unwrap();
    (a, b)
}

/// Sends `total` bytes in trains of `size` bytes a payload, and reads them with plans that guess `guess`.
fn transfer(from: &mut UdpLink, to: &mut UdpLink, total: usize, size: usize, guess: usize) -> support::Arrival {
    let source = Memory::pattern(total);
    let target = Memory::zeros(total);
    let limits = from.train_limits();
    let per_train = (limits.bytes / (size + TRAILER)).clamp(1, limits.segments) * size;
    let mut train = Train::new(limits);
    let mut arrival = support::Arrival::default();
    let mut low = 0;
    while low < total {
        let high = (low + per_train).min(total);
        train_of(&mut train, source.id, low, high, size);
        assert_eq!(from.send(&train, &source.table).unwrap(), SendOutcome::Sent);
        low = high;
    }
    let more = collect(to, &target, total, guess);
    arrival.reads += more.reads;
    arrival.copied += more.copied;
    arrival.datagrams += more.datagrams;
    assert!(target.bytes() == source.bytes(), "every byte is where it belongs");
    arrival
}

#[test]
fn every_size_arrives_in_place() {
    for local in [V4, V6] {
        let (mut a, mut b) = pair(local, &UdpOptions::default());
        assert!(b.train_limits().segments >= 64, "this kernel has UDP_SEGMENT");
        let largest = b.max_datagram();
        assert_eq!(largest, if local == V4 { 65_507 } else { 65_488 });
        for size in [1, 2, 100, 1024, 1444, 1472, 4096, 8192, 9000, 32_000, largest - TRAILER] {
            for total in [size * 40, size * 7 + 1, size * 3 + size / 2, size] {
                let total = total.min(200_000);
                let arrival = transfer(&mut b, &mut a, total, size, size);
                assert_eq!(arrival.copied, 0, "a right guess copies nothing ({size}, {total})");
                assert_eq!(arrival.datagrams, total.div_ceil(size));
                assert!(arrival.reads <= arrival.datagrams);
            }
        }
        assert_eq!(a.counters().datagrams_received, b.counters().datagrams_sent);
        assert_eq!(a.counters().bytes_received, b.counters().bytes_sent);
        assert_eq!(b.counters().offload_fallbacks + b.counters().send_errors, 0);
    }
}

#[test]
fn wrong_and_empty_plans_lose_nothing() {
    let (mut a, mut b) = pair(V4, &UdpOptions::default());
    for guess in [0, 1000, 1443, 1445, 3000, 60_000] {
        let arrival = transfer(&mut b, &mut a, 150_001, 1444, guess);
        assert!(arrival.copied > 0, "{guess}");
        assert!(arrival.reads < 10, "coalesced: {arrival:?}");
    }
}

#[test]
fn the_largest_train_crosses_as_one_packet() {
    for (local, bytes) in [(V4, 65_493), (V6, 65_473)] {
        let (mut a, mut b) = pair(local, &UdpOptions::default());
        assert_eq!(b.train_limits().bytes, bytes);
        let source = Memory::pattern(bytes);
        let mut train = Train::new(b.train_limits());
        let size = bytes.div_ceil(40);
        train.begin(Address::Peer, size);
        let mut low = 0;
        while low < bytes {
            let len = size.min(bytes - low);
            train.payload(pinnace_core::BufferRange::new(source.id, low as u64, len as u32));
            train.end_segment();
            low += len;
        }
        b.send(&train, &source.table).unwrap();
        let (got, read) = receive_bytes(&mut a).unwrap();
        assert_eq!((got.len(), read.segment), (bytes, size), "not cut into single packets");
        assert!(got == source.bytes());
    }
}

#[test]
fn staging_and_gathering_send_the_same() {
    for stage_below in [0, usize::MAX] {
        let (mut a, mut b) = pair(V4, &UdpOptions { stage_below, ..UdpOptions::default() });
        let arrival = transfer(&mut b, &mut a, 100_000, 1000, 1000);
        assert_eq!(arrival.copied, 0);
    }
}

/// Those of an Ethernet frame, with a tunnel's header or two, and larger ones leave from where they lie.
//= B-11 test
#[test]
fn only_small_segments_are_copied_together() {
    let (mut a, mut b) = pair(V4, &UdpOptions::default());
    for (size, is_staged) in [(1_472, false), (1_432, false), (1_400, false), (4_000, false), (1_000, true)] {
        let before = b.counters();
        transfer(&mut b, &mut a, size * 10, size - TRAILER, size - TRAILER);
        let sent = b.counters().bytes_sent - before.bytes_sent;
        assert_eq!(b.counters().bytes_staged - before.bytes_staged, if is_staged { sent } else { 0 }, "{size}");
    }
}

/// Some places of a page are staged.
#[test]
fn full_datagrams_arrive_whole_wherever_they_lie_in_a_page() {
    const HEADER: [u8; 6] = *b"header";
    let (mut a, mut b) = pair(V4, &UdpOptions::default());
    let len = b.max_datagram() - HEADER.len();
    let source = Memory::pattern(len + 4096);
    let mut train = Train::new(b.train_limits());
    for offset in (0..4096).step_by(8) {
        train.begin(Address::Peer, HEADER.len() + len);
        train.inline(&HEADER);
        train.payload(pinnace_core::BufferRange::new(source.id, offset as u64, len as u32));
        train.end_segment();
        assert_eq!(b.send(&train, &source.table).unwrap(), SendOutcome::Sent);
        let (got, _) = receive_bytes(&mut a).unwrap();
        assert!(got[..6] == HEADER && got[6..] == source.bytes()[offset..offset + len], "{offset}");
    }
}

#[test]
fn without_offload_datagrams_leave_and_arrive_singly() {
    let (mut a, mut b) = pair(V6, &UdpOptions { offload: false, ..UdpOptions::default() });
    assert_eq!(a.datagrams_per_read(), 1);
    let arrival = transfer(&mut b, &mut a, 100_000, 1000, 1000);
    assert_eq!((arrival.reads, arrival.copied), (100, 0));
    assert_eq!(b.counters().send_calls, b.counters().trains_sent, "one sendmmsg a train");
}

fn option(fd: RawFd, level: c_int, name: c_int) -> c_int {
    let (mut value, mut len) = (0, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: pointers to an int and its length.
    let done = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    assert_eq!(done, 0);
    value
}

fn set_option(fd: RawFd, level: c_int, name: c_int, value: c_int) {
    // SAFETY: a pointer to an int and its length.
    let done =
        unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), size_of::<c_int>() as libc::socklen_t) };
    assert_eq!(done, 0);
}

#[test]
fn a_path_that_refuses_offload_is_served_singly_and_remembered() {
    let (mut a, mut b) = pair(V4, &UdpOptions::default());
    // Without checksums the kernel does not segment (EINVAL), but sends single datagrams.
    set_option(b.descriptors().writable, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1);
    transfer(&mut b, &mut a, 100_000, 1000, 1000);
    let counters = b.counters();
    assert_eq!((counters.offload_fallbacks, counters.send_errors), (1, 0));
    assert_eq!(counters.datagrams_sent, 100, "the refused train was not lost, nor sent twice");
    assert!(b.train_limits().segments < 64, "trains are shorter from now on");
    let calls = counters.send_calls;
    transfer(&mut b, &mut a, 30_000, 1000, 1000);
    assert_eq!(b.counters().send_calls, calls + 1, "offload is not tried again");
}

#[test]
fn a_read_into_too_little_memory_is_marked() {
    let (mut a, mut b) = pair(V4, &UdpOptions::default());
    send_bytes(&mut b, Address::Peer, &[7; 100], Ecn::NotCapable);
    let mut plan = ReceivePlan::new();
    plan.reset(1);
    plan.pooled(60);
    let memory = Memory::zeros(1);
    let read = support::receive(&mut a, &plan, &memory.table, &mut ReadBuffer::new()).unwrap();
    assert!(read.truncated && read.bytes == 60);
    assert_eq!(a.counters().datagrams_truncated, 1);
}

#[test]
fn nothing_waiting_is_empty() {
    let (mut a, _b) = pair(V4, &UdpOptions::default());
    let mut plan = ReceivePlan::new();
    plan.reset(1);
    plan.top_up(ReadBuffer::READ_BYTES);
    let outcome = a.receive(&plan, &Memory::zeros(1).table, &mut ReadBuffer::new()).unwrap();
    assert!(matches!(outcome, ReadOutcome::Empty));
}

#[test]
fn a_datagram_beyond_the_limit_is_too_large() {
    for local in [V4, V6] {
        let (_a, mut b) = pair(local, &UdpOptions::default());
        let max = b.max_datagram();
        let outcome = send_bytes(&mut b, Address::Peer, &vec![0; max + 1], Ecn::NotCapable);
        assert_eq!(outcome, SendOutcome::TooLarge(Some(max as u32)), "{local}");
        assert_eq!(send_bytes(&mut b, Address::Peer, &vec![0; max], Ecn::NotCapable), SendOutcome::Sent);
    }
}

#[test]
fn a_closed_port_is_unreachable() {
    for local in [V4, V6] {
        let gone = UdpSocket::bind(local).unwrap().local_addr().unwrap();
        let mut link = UdpLink::connect(None, gone, &UdpOptions::default()).unwrap();
        assert_eq!(send_bytes(&mut link, Address::Peer, b"x", Ecn::NotCapable), SendOutcome::Sent);
        // On a busy machine a report takes a while. Each is told once: to who sends next, or to who receives.
        let eventually = |is_told: &mut dyn FnMut() -> bool| {
            let until = Instant::now() + Duration::from_secs(5);
            while !is_told() {
                assert!(Instant::now() < until, "nobody reports that the port is closed");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        eventually(&mut || send_bytes(&mut link, Address::Peer, b"x", Ecn::NotCapable) == SendOutcome::Unreachable);
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.top_up(ReadBuffer::READ_BYTES);
        eventually(&mut || {
            send_bytes(&mut link, Address::Peer, b"x", Ecn::NotCapable);
            std::thread::sleep(Duration::from_millis(5));
            let outcome = link.receive(&plan, &Memory::zeros(1).table, &mut ReadBuffer::new()).unwrap();
            matches!(outcome, ReadOutcome::Unreachable)
        });
        assert!(link.counters().unreachable_reports >= 2);
    }
}

#[test]
fn ecn_bits_cross() {
    // The last is IPv4 arriving at an IPv6 socket.
    for (listen, to) in [(V4, "127.0.0.1"), (V6, "::1"), ("[::]:0", "127.0.0.1"), ("[::]:0", "::1")] {
        let options = UdpOptions::default();
        let mut a = UdpLink::bind(address(listen), &options).unwrap();
        let port = a.local_address().unwrap().port();
        let mut b = UdpLink::connect(None, SocketAddr::new(to.parse().unwrap(), port), &options).unwrap();
        // Each of them once, and so often that the socket takes it over, after each of the others.
        let marks = [Ecn::NotCapable, Ecn::Capable0, Ecn::Capable1, Ecn::Congested];
        let often = marks.iter().flat_map(|first| marks.map(|then| [*first, *first, *first, then, *first])).flatten();
        for ecn in marks.into_iter().chain(often) {
            assert_eq!(send_bytes(&mut b, Address::Peer, b"x", ecn), SendOutcome::Sent);
            let (_, read) = receive_bytes(&mut a).unwrap();
            assert_eq!(read.meta.ecn, ecn, "{listen} {to}");
        }
    }
}

/// The kernel refuses what leaves the loopback address for another host as it refuses a control message.
#[test]
fn a_refusal_that_was_not_of_the_mark_is_no_reason_to_do_without_ecn() {
    let refused = UdpSocket::bind(V4).unwrap().send_to(b"x", "192.0.2.1:9").map_err(|error| error.kind());
    if refused != Err(std::io::ErrorKind::InvalidInput) {
        return pinnace_testing::skip::host("this host has no way to other networks");
    }
    for offload in [false, true] {
        let options = UdpOptions { offload, ..UdpOptions::default() };
        let mut a = UdpLink::bind(address(V4), &options).unwrap();
        let mut b = UdpLink::bind(address(V4), &options).unwrap();
        let source = Memory::pattern(300);
        let mut train = Train::new(b.train_limits());
        train.begin(address("192.0.2.1:9").into(), 100 + TRAILER);
        fill(&mut train, source.id, 0, 300, 100);
        train.set_ecn(Ecn::Capable0);
        assert_eq!(b.send(&train, &source.table).unwrap(), SendOutcome::Sent);
        assert_eq!(b.counters().send_errors, 3, "nothing has left");
        let to = a.local_address().unwrap();
        assert_eq!(send_bytes(&mut b, to.into(), b"x", Ecn::Capable0), SendOutcome::Sent);
        let (bytes, read) = receive_bytes(&mut a).unwrap();
        assert_eq!((&bytes[..], read.meta.ecn), (&b"x"[..], Ecn::Capable0), "offload {offload}");
    }
}

#[test]
fn nobody_at_port_0_is_no_reason_to_do_without_ecn() {
    for local in [V4, V6] {
        let [mut a, mut b] = [(); 2].map(|()| UdpLink::bind(address(local), &UdpOptions::default()).unwrap());
        let to = a.local_address().unwrap();
        // As of a datagram with a forged source.
        let nowhere = SocketAddr::new(to.ip(), 0);
        assert_eq!(send_bytes(&mut b, nowhere.into(), b"lost", Ecn::Capable0), SendOutcome::Sent);
        assert_eq!(b.counters().send_errors, 1);
        assert_eq!(send_bytes(&mut b, to.into(), b"x", Ecn::Capable0), SendOutcome::Sent);
        let (bytes, read) = receive_bytes(&mut a).unwrap();
        assert_eq!((&bytes[..], read.meta.ecn), (&b"x"[..], Ecn::Capable0), "{local}");
    }
}

#[test]
fn a_listener_answers_from_the_address_that_was_written_to() {
    for (listen, to) in [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "127.0.0.3"), ("[::]:0", "::1")] {
        let options = UdpOptions::default();
        let mut a = UdpLink::bind(address(listen), &options).unwrap();
        let port = a.local_address().unwrap().port();
        let to = SocketAddr::new(to.parse().unwrap(), port);
        let mut b = UdpLink::connect(None, to, &options).unwrap();
        send_bytes(&mut b, Address::Peer, b"hello", Ecn::NotCapable);
        let (_, read) = receive_bytes(&mut a).unwrap();
        assert_eq!(read.meta.source, Address::Inet(b.local_address().unwrap()));
        assert_eq!(read.meta.destination, Some(Address::Inet(to)));

        let mut train = Train::new(a.train_limits());
        train.begin(read.meta.source, 2);
        train.set_source(read.meta.destination);
        for _ in 0..3 {
            train.inline(b"ok");
            train.end_segment();
        }
        assert_eq!(a.send(&train, &Memory::zeros(1).table).unwrap(), SendOutcome::Sent);
        // `b` is connected to `to`: it would not hear another address.
        assert_eq!(receive_bytes(&mut b).unwrap().0, b"okokok");

        // And when it turns to this one peer, it still hears and answers at the address that the peer knows.
        a.connect_to(b.local_address().unwrap()).unwrap();
        send_bytes(&mut b, Address::Peer, b"again", Ecn::NotCapable);
        let (got, read) = receive_bytes(&mut a).unwrap();
        assert_eq!((&got[..], read.meta.source), (&b"again"[..], Address::Peer));
        send_bytes(&mut a, Address::Peer, b"yes", Ecn::NotCapable);
        assert_eq!(receive_bytes(&mut b).unwrap().0, b"yes");
    }
}

#[test]
fn what_strangers_queued_before_is_not_taken_for_the_peers() {
    for listen in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
        let options = UdpOptions::default();
        let mut a = UdpLink::bind(address(listen), &options).unwrap();
        let to = SocketAddr::new("127.0.0.1".parse().unwrap(), a.local_address().unwrap().port());
        let mut peer = UdpLink::connect(None, to, &options).unwrap();
        let stranger = UdpSocket::bind(V4).unwrap();
        for _ in 0..100 {
            stranger.send_to(b"stranger", to).unwrap();
        }
        send_bytes(&mut peer, Address::Peer, b"peer", Ecn::NotCapable);
        stranger.send_to(b"stranger", to).unwrap();
        a.connect_to(peer.local_address().unwrap()).unwrap();
        stranger.send_to(b"stranger", to).unwrap();
        assert_eq!(receive_bytes(&mut a).unwrap().0, b"peer");
        send_bytes(&mut peer, Address::Peer, b"more", Ecn::NotCapable);
        assert_eq!(receive_bytes(&mut a).unwrap().0, b"more");
        assert!(a.counters().datagrams_from_strangers > 0);
    }
}

#[test]
fn a_link_with_a_peer_sends_to_nobody_else() {
    let (_a, mut b) = pair(V4, &UdpOptions::default());
    let mut train = Train::new(TrainLimits::SINGLE);
    for to in [Address::Inet(address("127.0.0.1:9")), Address::Node(1)] {
        train.begin(to, 1);
        train.zeros(1);
        train.end_segment();
        assert!(b.send(&train, &Memory::zeros(1).table).is_err());
    }
    let mut listener = UdpLink::bind(address(V4), &UdpOptions::default()).unwrap();
    train.begin(Address::Peer, 1);
    train.zeros(1);
    train.end_segment();
    assert!(listener.send(&train, &Memory::zeros(1).table).is_err(), "nobody to send to yet");
}

#[test]
fn a_part_without_memory_is_a_lost_train() {
    let (_a, mut b) = pair(V4, &UdpOptions::default());
    let memory = Memory::zeros(10);
    let mut train = Train::new(b.train_limits());
    train.begin(Address::Peer, 11);
    train.payload(pinnace_core::BufferRange::new(memory.id, 0, 11));
    train.end_segment();
    assert_eq!(b.send(&train, &memory.table).unwrap(), SendOutcome::Sent);
    assert_eq!((b.counters().send_errors, b.counters().datagrams_sent), (1, 0));
}

#[test]
fn the_receive_buffer_is_read_back_and_drops_are_counted() {
    let options = UdpOptions { receive_buffer: 64 << 10, ..UdpOptions::default() };
    let mut a = UdpLink::bind(address(V4), &options).unwrap();
    assert!(a.receive_buffer_bytes() >= 64 << 10);
    let mut b = UdpLink::connect(None, a.local_address().unwrap(), &options).unwrap();
    set_option(a.descriptors().readable, libc::SOL_SOCKET, libc::SO_RCVBUF, 4096);
    for _ in 0..100 {
        send_bytes(&mut b, Address::Peer, &[0; 1000], Ecn::NotCapable);
    }
    let drain = |a: &mut UdpLink| {
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.top_up(ReadBuffer::READ_BYTES);
        let (memory, mut pool) = (Memory::zeros(1), ReadBuffer::new());
        while let ReadOutcome::Received(_) = a.receive(&plan, &memory.table, &mut pool).unwrap() {}
    };
    drain(&mut a);
    // The count comes with the next datagram that finds room.
    send_bytes(&mut b, Address::Peer, &[0; 10], Ecn::NotCapable);
    drain(&mut a);
    let counters = a.counters();
    assert!(counters.receive_buffer_drops > 0);
    assert_eq!(counters.receive_buffer_drops + counters.datagrams_received, 101);
}

#[test]
fn too_small_a_limit_is_said_with_the_command_that_raises_it() {
    let options = UdpOptions { receive_buffer: 1 << 30, ..UdpOptions::default() };
    let link = UdpLink::bind(address(V4), &options).unwrap();
    // A privileged process gets what it asks for.
    if link.receive_buffer_bytes() < 1 << 30 {
        assert!(link.warnings().iter().any(|warning| warning.contains("`sysctl -w net.core.rmem_max=1073741824`")));
    } else {
        assert!(!link.warnings().iter().any(|warning| warning.contains("rmem_max")));
    }
}

/// Every option and flag that a link might be tempted to change.
fn state(fd: RawFd, inet: bool) -> Vec<c_int> {
    // SAFETY: no pointers.
    let mut state = vec![unsafe { libc::fcntl(fd, libc::F_GETFL) }, unsafe { libc::fcntl(fd, libc::F_GETFD) }];
    for name in [libc::SO_RCVBUF, libc::SO_SNDBUF, libc::SO_RXQ_OVFL, libc::SO_BUSY_POLL] {
        state.push(option(fd, libc::SOL_SOCKET, name));
    }
    if inet {
        for name in [libc::IP_MTU_DISCOVER, libc::IP_RECVTOS, libc::IP_PKTINFO, libc::IP_TOS, libc::IP_RECVERR] {
            state.push(option(fd, libc::SOL_IP, name));
        }
        for name in [103, 104] {
            state.push(option(fd, libc::SOL_UDP, name));
        }
    }
    state
}

#[test]
fn errors_queued_at_a_callers_socket_do_not_wake_whoever_waits_for_ever() {
    let socket = UdpSocket::bind(V4).unwrap();
    // At an address where nobody else takes the port.
    let nobody = UdpSocket::bind("127.0.0.44:0").unwrap().local_addr().unwrap();
    socket.connect(nobody).unwrap();
    let on: c_int = 1;
    // SAFETY: an option of four bytes.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_IP,
            libc::IP_RECVERR,
            (&raw const on).cast(),
            size_of_val(&on) as _,
        )
    };
    assert_eq!(set, 0);
    // SAFETY: the socket outlives the link.
    let mut link = unsafe { UdpLink::from_borrowed_fd(socket.as_raw_fd(), &UdpOptions::default()) }.unwrap();
    for _ in 0..20 {
        // Every second call tells what became of the one before.
        let _ = socket.send(b"is anybody there?");
    }
    let tells_of_an_error = || {
        let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor.
        assert!(unsafe { libc::poll(&mut poll, 1, 0) } >= 0);
        poll.revents & libc::POLLERR != 0
    };
    assert!(tells_of_an_error());
    let memory = Memory::zeros(100);
    let (mut plan, mut pool) = (ReceivePlan::new(), ReadBuffer::new());
    let until = Instant::now() + Duration::from_secs(5);
    while tells_of_an_error() {
        assert!(Instant::now() < until);
        plan.reset(link.datagrams_per_read());
        plan.top_up(ReadBuffer::READ_BYTES);
        assert!(!matches!(link.receive(&plan, &memory.table, &mut pool).unwrap(), ReadOutcome::Received(_)));
    }
}

#[test]
fn a_callers_sockets_are_left_as_they_are() {
    let (unix_a, unix_b) = UnixDatagram::pair().unwrap();
    let (inet_a, inet_b) = (UdpSocket::bind(V4).unwrap(), UdpSocket::bind(V4).unwrap());
    inet_a.connect(inet_b.local_addr().unwrap()).unwrap();
    inet_b.connect(inet_a.local_addr().unwrap()).unwrap();
    let cases = [(unix_a.as_raw_fd(), unix_b.as_raw_fd(), false), (inet_a.as_raw_fd(), inet_b.as_raw_fd(), true)];
    for (a_fd, b_fd, inet) in cases {
        let before = (state(a_fd, inet), state(b_fd, inet));
        // SAFETY: the sockets outlive the links.
        let (mut a, mut b) = unsafe {
            let options = UdpOptions::default();
            (
                UdpLink::from_borrowed_fd(a_fd, &options).unwrap(),
                UdpLink::from_descriptors(b_fd, b_fd, &options).unwrap(),
            )
        };
        assert_eq!(a.datagrams_per_read(), 1);
        assert!(a.max_datagram() >= 60_000);
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.top_up(ReadBuffer::READ_BYTES);
        let outcome = a.receive(&plan, &Memory::zeros(1).table, &mut ReadBuffer::new()).unwrap();
        assert!(matches!(outcome, ReadOutcome::Empty), "a blocking socket does not block");
        for _ in 0..5 {
            let arrival = transfer(&mut b, &mut a, 9_001, 1000, 1000);
            assert_eq!((arrival.copied, arrival.reads), (0, 10));
            transfer(&mut a, &mut b, 30_000, 30_000, 30_000);
        }
        assert!(a.allow_fragmentation().is_err() && a.connect_to(address("127.0.0.1:9")).is_err());
        drop((a, b));
        assert_eq!((state(a_fd, inet), state(b_fd, inet)), before, "nothing was changed, nothing closed");
    }
}

#[test]
fn a_train_that_left_in_part_goes_on_where_it_stopped() {
    let (here, there) = UnixDatagram::pair().unwrap();
    set_option(here.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, 8192);
    // SAFETY: the sockets outlive the links.
    let (mut a, mut b) = unsafe {
        let options = UdpOptions::default();
        (
            UdpLink::from_borrowed_fd(here.as_raw_fd(), &options).unwrap(),
            UdpLink::from_borrowed_fd(there.as_raw_fd(), &options).unwrap(),
        )
    };
    let source = Memory::pattern(30_000);
    let target = Memory::zeros(30_000);
    let mut train = Train::new(a.train_limits());
    train_of(&mut train, source.id, 0, 30_000, 1000);
    let mut blocked = 0;
    let mut arrived = 0;
    let mut sent = false;
    let (mut plan, mut pool, mut pieces_seen) = (ReceivePlan::new(), ReadBuffer::new(), Vec::new());
    while arrived < 30 {
        if !sent {
            match a.send(&train, &source.table).unwrap() {
                SendOutcome::Sent => sent = true,
                SendOutcome::Blocked => blocked += 1,
                other => panic!("{other:?}"),
            }
        }
        plan.reset(1);
        plan.top_up(ReadBuffer::READ_BYTES);
        while let ReadOutcome::Received(read) = b.receive(&plan, &target.table, &mut pool).unwrap() {
            pieces_seen.extend_from_slice(&pool.pooled(read.bytes)[..1000]);
            arrived += 1;
        }
    }
    assert!(blocked > 0, "the queue was full in between");
    assert!(sent && pieces_seen == source.bytes(), "each datagram once, in order");
}

#[test]
fn what_is_no_connected_datagram_socket_is_refused() {
    let unconnected = UdpSocket::bind(V4).unwrap();
    let stream = std::net::TcpListener::bind(V4).unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    for fd in [unconnected.as_raw_fd(), stream.as_raw_fd(), file.as_raw_fd()] {
        // SAFETY: open until the end of the test.
        assert!(unsafe { UdpLink::from_borrowed_fd(fd, &UdpOptions::default()) }.is_err());
    }
}

#[test]
fn a_closed_unix_peer_is_unreachable() {
    let (here, there) = UnixDatagram::pair().unwrap();
    // SAFETY: the socket outlives the link.
    let mut link = unsafe { UdpLink::from_borrowed_fd(here.as_raw_fd(), &UdpOptions::default()) }.unwrap();
    drop(there);
    for _ in 0..3 {
        assert_eq!(send_bytes(&mut link, Address::Peer, b"x", Ecn::NotCapable), SendOutcome::Unreachable);
    }
}

/// Sends bytes, and with them a descriptor.
fn send_with(socket: &UnixDatagram, bytes: &[u8], descriptor: RawFd) {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0_u64; 3];
    // SAFETY: all zeros is a message without anything; what is set points to what lives through the call, and a control message
    // with one descriptor has room in 24 bytes.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = message.msg_controllen;
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(descriptor);
        libc::sendmsg(socket.as_raw_fd(), &raw const message, 0)
    };
    assert_eq!(usize::try_from(sent), Ok(bytes.len()), "{}", std::io::Error::last_os_error());
}

#[test]
fn a_descriptor_that_comes_with_a_datagram_is_nobodys() {
    let (unix_a, unix_b) = UnixDatagram::pair().unwrap();
    let (inet_a, inet_b) = (UdpSocket::bind(V4).unwrap(), UdpSocket::bind(V4).unwrap());
    inet_a.connect(inet_b.local_addr().unwrap()).unwrap();
    // Whatever it writes to.
    for writes in [unix_a.as_raw_fd(), inet_a.as_raw_fd()] {
        // SAFETY: the sockets outlive the link.
        let link = unsafe { UdpLink::from_descriptors(unix_a.as_raw_fd(), writes, &UdpOptions::default()) };
        let mut link = link.unwrap();
        let (ours, theirs) = std::io::pipe().unwrap();
        send_with(&unix_b, b"keep this", theirs.as_raw_fd());
        drop(theirs);
        let (bytes, read) = receive_bytes(&mut link).unwrap();
        assert_eq!((&bytes[..], read.segment, read.truncated), (&b"keep this"[..], 9, false));
        let mut entry = libc::pollfd { fd: ours.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one entry, as the call is told.
        assert_eq!(unsafe { libc::poll(&raw mut entry, 1, 0) }, 1, "this process has it");
        assert_eq!(entry.revents, libc::POLLHUP);
    }
}

#[test]
fn a_callers_unconnected_socket_hears_everybody_and_answers() {
    let socket = UdpSocket::bind(V4).unwrap();
    // SAFETY: the socket outlives the link.
    let mut link = unsafe { UdpLink::from_unconnected_fd(socket.as_raw_fd(), &UdpOptions::default()) }.unwrap();
    assert_eq!((link.local_address(), link.peer_address()), (socket.local_addr().ok(), None));
    for _ in 0..2 {
        let other = UdpSocket::bind(V4).unwrap();
        other.send_to(b"question", socket.local_addr().unwrap()).unwrap();
        let (bytes, Received { meta, .. }) = receive_bytes(&mut link).unwrap();
        assert_eq!((&bytes[..], meta.source), (&b"question"[..], other.local_addr().unwrap().into()));
        assert_eq!(send_bytes(&mut link, meta.source, b"answer", Ecn::NotCapable), SendOutcome::Sent);
        let mut answer = [0; 10];
        assert_eq!(other.recv_from(&mut answer).unwrap(), (6, socket.local_addr().unwrap()));
    }
    let (unix, _other) = UnixDatagram::pair().unwrap();
    // SAFETY: open until the end of the test.
    assert!(unsafe { UdpLink::from_unconnected_fd(unix.as_raw_fd(), &UdpOptions::default()) }.is_err());
}

#[test]
fn nobody_of_another_family_can_be_reached_and_the_link_is_well() {
    for (local, other) in [(V4, "[::1]:9"), ("[::1]:0", "127.0.0.1:9")] {
        let mut link = UdpLink::bind(address(local), &UdpOptions::default()).unwrap();
        let mut peer = UdpLink::bind(address(local), &UdpOptions::default()).unwrap();
        let to = peer.local_address().unwrap().into();
        for _ in 0..2 {
            let outcome = send_bytes(&mut link, address(other).into(), b"x", Ecn::NotCapable);
            assert_eq!(outcome, SendOutcome::Unreachable, "{local}");
            send_bytes(&mut link, to, b"well", Ecn::NotCapable);
            assert_eq!(receive_bytes(&mut peer).unwrap().0, b"well");
        }
        assert_eq!((link.counters().unreachable_reports, link.counters().datagrams_sent), (2, 2));
    }
}

#[test]
fn peers_have_links_of_their_own_beside_one_that_hears_everybody() {
    for (listen, at) in [
        ("127.0.0.1:0", "127.0.0.1"),
        ("0.0.0.0:0", "127.0.0.1"),
        // Not the address that the system would answer from.
        ("0.0.0.0:0", "127.0.0.2"),
        ("[::]:0", "127.0.0.2"),
        ("[::]:0", "::1"),
        ("[::1]:0", "::1"),
    ] {
        let options = UdpOptions { local_address: true, ..UdpOptions::default() };
        let mut listening = UdpLink::bind(address(listen), &options).unwrap();
        let bound = listening.local_address().unwrap();
        let to = SocketAddr::new(at.parse().unwrap(), bound.port());
        let stranger = UdpSocket::bind(SocketAddr::new(at.parse().unwrap(), 0)).unwrap();
        let mut pairs = Vec::new();
        for said in [b"1", b"2", b"3"] {
            let mut peer = UdpLink::connect(None, to, &UdpOptions::default()).unwrap();
            send_bytes(&mut peer, Address::Peer, said, Ecn::NotCapable);
            assert_eq!(receive_bytes(&mut listening).unwrap().0, said);
            stranger.send_to(b"before", to).unwrap();
            let theirs = peer.local_address().unwrap();
            let own = listening.connect_beside(theirs, &UdpOptions::default()).unwrap();
            assert_eq!(receive_bytes(&mut listening).unwrap().0, b"before", "{listen} {at}");
            pairs.push((own, peer, said));
            for (own, peer, said) in &mut pairs {
                send_bytes(peer, Address::Peer, *said, Ecn::NotCapable);
                assert_eq!(receive_bytes(own).unwrap().0, *said, "{listen} {at}");
                send_bytes(own, Address::Peer, *said, Ecn::NotCapable);
                assert_eq!(receive_bytes(peer).unwrap().0, *said, "{listen} {at}");
            }
            stranger.send_to(b"stranger", to).unwrap();
            assert_eq!(receive_bytes(&mut listening).unwrap().0, b"stranger", "{listen} {at}");
            // Another user's program gets none of it, also if it would share the port: the kernel asks for the same user only
            // where both ask for SO_REUSEPORT.
            assert!(UdpSocket::bind(bound).is_err() && bind_shared(bound, libc::SO_REUSEADDR).is_err());
        }
        let mut again = listening.bind_again(bound, &options).unwrap();
        drop(listening);
        assert!(bind_shared(bound, libc::SO_REUSEADDR).is_err());
        stranger.send_to(b"again", to).unwrap();
        assert_eq!(receive_bytes(&mut again).unwrap().0, b"again", "{listen} {at}");
        drop((again, pairs));
        assert!(bind_shared(bound, libc::SO_REUSEADDR).is_ok(), "or this test says nothing");
    }
}

/// Another program's socket, which shares its port with any that do the same.
fn bind_shared(at: SocketAddr, option: c_int) -> std::io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::{FromRawFd, OwnedFd};
    let (family, name): (_, Vec<u8>) = match at {
        SocketAddr::V4(at) => {
            let port = at.port().to_be_bytes();
            (libc::AF_INET, [&(libc::AF_INET as u16).to_ne_bytes()[..], &port, &at.ip().octets(), &[0; 8]].concat())
        }
        SocketAddr::V6(at) => {
            let port = at.port().to_be_bytes();
            let family = (libc::AF_INET6 as u16).to_ne_bytes();
            (libc::AF_INET6, [&family[..], &port, &[0; 4], &at.ip().octets(), &[0; 4]].concat())
        }
    };
    // SAFETY: a new descriptor, which nobody else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)) };
    set_option(socket.as_raw_fd(), libc::SOL_SOCKET, option, 1);
    // SAFETY: a name of that family, and its length.
    match unsafe { libc::bind(socket.as_raw_fd(), name.as_ptr().cast(), name.len() as libc::socklen_t) } {
        0 => Ok(socket),
        _ => Err(std::io::Error::last_os_error()),
    }
}
