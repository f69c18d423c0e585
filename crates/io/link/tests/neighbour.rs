//! Stations behind IP addresses, and links over Ethernet beside TCP/IP, between two network namespaces. Without the
//! privilege for them, the tests say so and pass.
#![cfg(target_os = "linux")]

mod support;
#[path = "support/wire.rs"]
mod wire;

use pinnace_core::{Address, Ecn};
use pinnace_link::{EtherLink, EtherOptions, Neighbour, SendOutcome, neighbour};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{receive_bytes, send_bytes};
use wire::{MAC_A, MAC_B, device, namespace, run, two_hosts};

const SOON: Duration = Duration::from_secs(5);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn refused(to: &str, within: Duration) -> std::io::Error {
    neighbour(ip(to), within).unwrap_err()
}

#[test]
fn a_neighbour_is_found_in_both_families() {
    let Some(far) = two_hosts(1500) else { return };
    for [there, here] in [["10.36.0.2", "10.36.0.1"], ["fd36::2", "fd36::1"], ["::ffff:10.36.0.2", "10.36.0.1"]] {
        let found = neighbour(ip(there), SOON).unwrap();
        let interface = found.interface;
        assert!(interface > 1);
        let expected = Neighbour { interface, name: "va".into(), mac: MAC_B, local: ip(here) };
        assert_eq!(found, expected);
        assert_eq!(found.address(), Address::Ethernet { interface, mac: MAC_B });
        // The other side has learnt of us by it.
        let back = far.call(move || neighbour(ip(here), SOON)).unwrap();
        assert_eq!((back.mac, &back.name[..]), (MAC_A, "vb"));
    }
    // Known before anybody asks: nothing has to answer.
    assert!(run("neigh add 10.36.0.77 lladdr 02:00:00:00:00:77 dev va nud permanent"));
    assert!(run("neigh replace fd36::77 lladdr 02:00:00:00:00:78 dev va nud stale"));
    assert_eq!(neighbour(ip("10.36.0.77"), Duration::ZERO).unwrap().mac, [2, 0, 0, 0, 0, 0x77]);
    assert_eq!(neighbour(ip("fd36::77"), Duration::ZERO).unwrap().mac, [2, 0, 0, 0, 0, 0x78]);
}

#[test]
fn a_link_is_made_from_what_was_found() {
    let Some(far) = two_hosts(9000) else { return };
    let mut there = far.call(|| EtherLink::bind("vb", &EtherOptions::default())).unwrap();
    let found = neighbour(ip("10.36.0.2"), SOON).unwrap();
    let mut here = EtherLink::bind(&found.name, &EtherOptions::default()).unwrap();
    assert_eq!(send_bytes(&mut here, found.address(), &[7; 9000], Ecn::NotCapable), SendOutcome::Sent);
    let (bytes, read) = receive_bytes(&mut there).unwrap();
    assert!(bytes == [7; 9000]);
    assert_eq!(read.meta.source, Address::Ethernet { interface: there.interface(), mac: MAC_A });
}

#[test]
fn a_neighbour_that_does_not_answer_has_a_limit_in_time() {
    let Some(_far) = two_hosts(1500) else { return };
    for to in ["10.36.0.99", "fd36::99"] {
        let start = Instant::now();
        let within = Duration::from_millis(300);
        let error = refused(to, within);
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().contains("nobody on va") && error.to_string().contains(to), "{error}");
        let took = start.elapsed();
        assert!(took >= within && took < within + Duration::from_secs(2), "{took:?}");
        // The kernel was asked: that is what its table says.
        let table = std::process::Command::new("ip").args(["neigh", "show", to, "dev", "va"]).output().unwrap();
        let table = String::from_utf8(table.stdout).unwrap();
        assert!(table.contains("INCOMPLETE") || table.contains("FAILED"), "{table:?}");
    }
}

#[test]
fn a_neighbour_that_comes_late_is_found_by_who_waits() {
    let Some(far) = two_hosts(1500) else { return };
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1200));
        (far.call(|| run("addr add 10.36.0.5/24 dev vb")), far)
    });
    assert_eq!(neighbour(ip("10.36.0.5"), Duration::from_secs(20)).unwrap().mac, MAC_B);
    assert!(late.join().unwrap().0);
}

#[test]
fn what_is_not_on_the_same_link_is_refused() {
    let Some(_far) = two_hosts(1500) else { return };
    assert!(run("route add 10.99.0.0/16 via 10.36.0.2") && run("route add fd99::/32 via fd36::2"));
    assert!(run("route add 10.98.0.0/16 via inet6 fd36::2") && run("route add unreachable 10.97.0.0/16"));
    assert!(run("route add blackhole fd97::/32") && run("link add bridge0 type bridge"));
    for (to, gateway) in [("10.99.1.2", "10.36.0.2"), ("fd99::1", "fd36::2"), ("10.98.1.2", "of another family")] {
        let error = refused(to, SOON);
        assert_eq!(error.kind(), ErrorKind::HostUnreachable);
        let text = error.to_string();
        assert!(text.contains(to) && text.contains(gateway) && text.contains("reach one link only"), "{text}");
    }
    for to in ["192.0.2.1", "2001:db8::1", "10.97.0.1", "fd97::1"] {
        let error = refused(to, SOON);
        assert!(error.to_string().contains(&format!("no route to {to}")), "{error}");
    }
    for (to, part) in [
        ("10.36.0.1", "an address of this host"),
        ("fd36::1", "an address of this host"),
        ("127.0.0.1", "an address of this host"),
        ("::1", "an address of this host"),
        ("10.36.0.255", "not one host"),
        ("224.0.0.1", "not one host"),
        ("ff02::1", "not one host"),
        ("0.0.0.0", "not one host"),
        ("::", "not one host"),
        ("fe80::1", "LINK-ADDRESS%INTERFACE"),
    ] {
        let error = refused(to, SOON);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{to} {error}");
        assert!(error.to_string().contains(part), "{to} {error}");
    }
}

#[test]
fn an_interface_that_has_or_asks_for_no_link_addresses_is_refused() {
    if !namespace() || !device("tuntap add dev tun9 mode tun") {
        return;
    }
    assert!(run("addr add 10.50.0.1/24 dev tun9") && run("link set tun9 up"));
    let error = refused("10.50.0.2", Duration::from_millis(200));
    assert_eq!(error.kind(), ErrorKind::HostUnreachable);
    assert!(error.to_string().contains("tun9 is not Ethernet"), "{error}");
    // Ethernet whose stations nobody asks for.
    assert!(run("link add va type veth peer name vb") && run("link set va arp off up") && run("link set vb up"));
    assert!(run("addr add 10.51.0.1/24 dev va"));
    let error = refused("10.51.0.2", Duration::from_millis(500));
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
    assert!(error.to_string().contains("NOARP"), "{error}");
}

/// Answers every frame with itself until told to stop; returns how many.
fn echo(link: &mut EtherLink, stop: &AtomicBool) -> u64 {
    let mut answers = 0;
    while !stop.load(Ordering::Relaxed) {
        if let Some((bytes, read)) = receive_bytes(link) {
            assert_eq!(send_bytes(link, read.meta.source, &bytes, Ecn::NotCapable), SendOutcome::Sent);
            answers += 1;
        }
    }
    answers
}

/// The bytes of a long transfer.
fn byte(at: usize) -> u8 {
    (at * 31 + at / 251) as u8
}

//= Q-1 test
#[test]
fn tcp_and_frames_share_an_interface_undisturbed() {
    const BYTES: usize = 64 << 20;
    let Some(far) = two_hosts(1500) else { return };
    let far = Arc::new(far);
    let listener = far.call(|| TcpListener::bind("10.36.0.2:0")).unwrap();
    let to = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut there = far.call(|| EtherLink::bind("vb", &EtherOptions::default())).unwrap();
    let echoing = std::thread::spawn({
        let stop = stop.clone();
        move || (echo(&mut there, &stop), there)
    });
    let sending = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let bytes: Vec<u8> = (0..BYTES).map(byte).collect();
        stream.write_all(&bytes).unwrap();
    });
    // Connected here: the namespace is this thread's.
    let mut stream = TcpStream::connect(to).unwrap();
    let receiving = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            stop.store(true, Ordering::Relaxed);
            bytes.len() == BYTES && bytes.iter().enumerate().all(|(at, &got)| got == byte(at))
        }
    });

    let found = neighbour(ip("10.36.0.2"), SOON).unwrap();
    let mut here = EtherLink::bind("va", &EtherOptions::default()).unwrap();
    let mut sent = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let question: Vec<u8> = sent.to_be_bytes().into_iter().chain((0..1400).map(byte)).collect();
        assert_eq!(send_bytes(&mut here, found.address(), &question, Ecn::NotCapable), SendOutcome::Sent);
        sent += 1;
        // Whoever shares a full queue may lose a frame; who is answered is answered right.
        if let Some((answer, _)) = receive_bytes(&mut here) {
            assert!(answer == question);
        }
    }
    assert!(receiving.join().unwrap(), "every byte of TCP came, and in its place");
    sending.join().unwrap();
    let (answers, there) = echoing.join().unwrap();
    assert!(sent >= 20 && answers + 2 >= sent, "{answers} of {sent}");
    // None of TCP's packets, nor ARP's, was taken for a frame of ours.
    for link in [&here, &there] {
        assert_eq!(pinnace_link::Link::counters(link).datagrams_from_strangers, 0);
    }
}
