//! The link of systems without offloads, over real sockets.

mod support;
#[cfg(target_os = "linux")]
#[path = "support/wire.rs"]
mod wire;

use pinnace_core::{Address, Ecn, ReceivePlan, Train};
use pinnace_link::{Link, PortableUdpLink, ReadBuffer, ReadOutcome, Received, SendOutcome, UdpOptions};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};
use support::{Memory, collect, receive_bytes, send_bytes, train_of};

fn transfer(from: &mut PortableUdpLink, to: &mut PortableUdpLink) {
    let (source, target) = (Memory::pattern(5_500), Memory::zeros(5_500));
    let mut train = Train::new(from.train_limits());
    for low in (0..5_500).step_by(1000) {
        train_of(&mut train, source.id, low, (low + 1000).min(5_500), 1000);
        assert_eq!(from.send(&train, &source.table).unwrap(), SendOutcome::Sent);
    }
    let arrival = collect(to, &target, 5_500, 1000);
    assert_eq!((arrival.reads, arrival.copied), (6, 0));
    assert!(source.bytes() == target.bytes());
}

fn empty(link: &mut PortableUdpLink) -> bool {
    let mut plan = ReceivePlan::new();
    plan.top_up(ReadBuffer::READ_BYTES);
    let outcome = link.receive(&plan, &Memory::zeros(1).table, &mut ReadBuffer::new()).unwrap();
    matches!(outcome, ReadOutcome::Empty)
}

#[test]
fn datagrams_arrive_from_a_known_sender() {
    for local in ["127.0.0.1:0", "[::1]:0"] {
        let options = UdpOptions::default();
        let mut a = PortableUdpLink::bind(local.parse().unwrap(), &options).unwrap();
        assert!(empty(&mut a));
        let to = a.local_address().unwrap();
        let mut b = PortableUdpLink::connect(None, to, &options).unwrap();
        send_bytes(&mut b, Address::Peer, b"hello", Ecn::NotCapable);
        let (bytes, read) = receive_bytes(&mut a).unwrap();
        assert_eq!((&bytes[..], read.meta.source), (&b"hello"[..], b.local_address().unwrap().into()));
        send_bytes(&mut a, read.meta.source, b"answer", Ecn::NotCapable);
        assert_eq!(receive_bytes(&mut b).unwrap().0, b"answer");

        let stranger = UdpSocket::bind(local).unwrap();
        stranger.send_to(b"stranger", to).unwrap();
        a.connect_to(b.local_address().unwrap()).unwrap();
        transfer(&mut b, &mut a);
        assert_eq!(a.counters().datagrams_from_strangers, 1);
        transfer(&mut a, &mut b);
        assert_eq!(send_bytes(&mut b, Address::Peer, &vec![0; 70_000], Ecn::NotCapable), SendOutcome::TooLarge(None));
        assert!(b.train_limits().segments == 1 && b.datagrams_per_read() == 1);
    }
}

#[test]
fn a_socket_of_both_families_knows_a_peer_of_ipv4_by_one_name() {
    let options = UdpOptions::default();
    let mut both = PortableUdpLink::bind("[::]:0".parse().unwrap(), &options).unwrap();
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let name = other.local_addr().unwrap();
    for to in [name.into(), Address::Inet(format!("[::ffff:127.0.0.1]:{}", name.port()).parse().unwrap())] {
        assert_eq!(send_bytes(&mut both, to, b"question", Ecn::NotCapable), SendOutcome::Sent);
        let (bytes, asker) = other.recv_from(&mut [0; 10]).unwrap();
        assert_eq!((bytes, asker.port()), (8, both.local_address().unwrap().port()));
        other.send_to(b"answer", asker).unwrap();
        let (bytes, Received { meta, .. }) = receive_bytes(&mut both).unwrap();
        assert_eq!((&bytes[..], meta.source), (&b"answer"[..], name.into()));
    }
    both.connect_to(name).unwrap();
    assert_eq!((both.peer_address(), both.local_address().map(|it| it.is_ipv4())), (Some(name), Some(true)));
    for to in [Address::Peer, name.into()] {
        assert_eq!(send_bytes(&mut both, to, b"question", Ecn::NotCapable), SendOutcome::Sent);
        let (_, asker) = other.recv_from(&mut [0; 10]).unwrap();
        other.send_to(b"answer", asker).unwrap();
        assert_eq!(receive_bytes(&mut both).unwrap().0, b"answer");
    }
    assert_eq!(both.counters().datagrams_from_strangers, 0);
}

#[test]
fn the_receive_buffer_is_asked_for_and_read_back() {
    for wanted in [50_000, 100_000] {
        let options = UdpOptions { receive_buffer: wanted, ..UdpOptions::default() };
        let link = PortableUdpLink::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        assert_eq!(link.receive_buffer_bytes(), wanted);
    }
}

#[test]
fn a_socket_of_ipv6_alone_leaves_the_port_of_ipv4_to_others() {
    let options = UdpOptions { v6_only: true, ..UdpOptions::default() };
    let link = PortableUdpLink::bind("[::]:0".parse().unwrap(), &options).unwrap();
    let port = link.local_address().unwrap().port();
    assert!(UdpSocket::bind(("0.0.0.0", port)).is_ok());
    let both = PortableUdpLink::bind("[::]:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    assert!(UdpSocket::bind(("0.0.0.0", both.local_address().unwrap().port())).is_err());
}

#[test]
fn a_closed_port_is_unreachable() {
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut link = PortableUdpLink::connect(None, gone, &UdpOptions::default()).unwrap();
    // On a busy machine the report takes a while.
    let until = Instant::now() + Duration::from_secs(5);
    while send_bytes(&mut link, Address::Peer, b"x", Ecn::NotCapable) != SendOutcome::Unreachable {
        assert!(Instant::now() < until, "nobody reports that the port is closed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_callers_sockets_stay_open_and_blocking() {
    let (a, b) = UnixDatagram::pair().unwrap();
    // SAFETY: the sockets outlive the links.
    let (mut link_a, mut link_b) = unsafe {
        let options = UdpOptions::default();
        (
            PortableUdpLink::from_borrowed_fd(a.as_raw_fd(), &options).unwrap(),
            PortableUdpLink::from_descriptors(b.as_raw_fd(), b.as_raw_fd(), &options).unwrap(),
        )
    };
    assert!(empty(&mut link_a), "a blocking socket does not block");
    transfer(&mut link_a, &mut link_b);
    assert!(link_a.connect_to("127.0.0.1:9".parse().unwrap()).is_err());
    drop((link_a, link_b));
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::fcntl(a.as_raw_fd(), libc::F_GETFL) } & libc::O_NONBLOCK, 0);
    a.send(b"still here").unwrap();
    assert_eq!(b.recv(&mut [0; 20]).unwrap(), 10);
}

#[test]
fn a_callers_unconnected_socket_hears_everybody_and_answers() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // SAFETY: the socket outlives the link.
    let mut link = unsafe { PortableUdpLink::from_unconnected_fd(socket.as_raw_fd(), &UdpOptions::default()) }.unwrap();
    assert!(empty(&mut link), "it does not block");
    for _ in 0..2 {
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        other.send_to(b"question", socket.local_addr().unwrap()).unwrap();
        let (bytes, Received { meta, .. }) = receive_bytes(&mut link).unwrap();
        assert_eq!((&bytes[..], meta.source), (&b"question"[..], other.local_addr().unwrap().into()));
        assert_eq!(send_bytes(&mut link, meta.source, b"answer", Ecn::NotCapable), SendOutcome::Sent);
        let mut answer = [0; 10];
        assert_eq!(other.recv_from(&mut answer).unwrap(), (6, socket.local_addr().unwrap()));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn whatever_icmp_says_the_link_goes_on() {
    if !wire::namespace() {
        return;
    }
    let options = UdpOptions::default();
    let mut a = PortableUdpLink::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let mut b = PortableUdpLink::connect(None, a.local_address().unwrap(), &options).unwrap();
    let (from, to) = (b.local_address().unwrap(), a.local_address().unwrap());
    let (mut plan, mut pool) = (ReceivePlan::new(), ReadBuffer::new());
    plan.top_up(ReadBuffer::READ_BYTES);
    // No such protocol, no such port, too large, no such host.
    for code in [2, 3, 4, 7] {
        support::forge_icmp(code, 8000, from, to);
        let outcome = b.receive(&plan, &Memory::zeros(1).table, &mut pool).unwrap();
        assert!(matches!(outcome, ReadOutcome::Unreachable), "{outcome:?} of {code}");
        assert!(empty(&mut b), "it is told once");
        assert_eq!(send_bytes(&mut b, Address::Peer, b"well", Ecn::NotCapable), SendOutcome::Sent);
        assert_eq!(receive_bytes(&mut a).unwrap().0, b"well");
    }
    assert_eq!(b.counters().unreachable_reports, 4);
}

#[cfg(target_os = "linux")]
#[test]
fn a_callers_unconnected_socket_that_is_full_does_not_block() {
    if !wire::wire(1500) {
        return;
    }
    assert!(wire::run("addr add 10.77.0.1/24 dev va"));
    let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
    let least: libc::c_int = 1;
    // SAFETY: the pointer and the length are those of `least`.
    let done = unsafe {
        let len = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, (&raw const least).cast(), len)
    };
    assert_eq!(done, 0);
    // SAFETY: the socket outlives the link.
    let mut link = unsafe { PortableUdpLink::from_unconnected_fd(socket.as_raw_fd(), &UdpOptions::default()) }.unwrap();
    // Nobody says where that is, so what is sent there stays in the socket's buffer.
    let silent: std::net::SocketAddr = "10.77.0.2:9".parse().unwrap();
    let is_blocked =
        (0..20).any(|_| send_bytes(&mut link, silent.into(), &[0; 1000], Ecn::NotCapable) == SendOutcome::Blocked);
    assert!(is_blocked);
}
