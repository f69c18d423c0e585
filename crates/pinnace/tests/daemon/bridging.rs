//! Links that the daemon has and its clients have not.

use crate::parts::{Named, PATIENCE, Process, Served, wait_until};
use pinnace::daemon::{Arrival, Client};
use pinnace::qmp::{Carrier, Listener, Options, Stream};
use pinnace_qbuf::channel::{Channel, ChannelError};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) fn tests() -> Vec<Named> {
    vec![
        ("clients_without_rights_talk_over_the_daemons_links", bridging),
        ("sockets_without_rights_use_the_daemons_links", sockets),
    ]
}

/// Without the right for it nothing can be tried here.
fn not_tried(why: &str) {
    let rights = capabilities(None).expect("every thread has some, or none").effective;
    assert!(!rights.contains(CapabilitySet::NET_RAW), "{why}");
    pinnace_testing::skip::host(why);
}

fn deadline() -> Option<Instant> {
    Some(Instant::now() + PATIENCE)
}

fn send(channel: &mut Channel, bytes: &[u8]) {
    let mut qbuf = channel.pool().alloc(bytes.len()).expect("room in the pool");
    qbuf.copy_from_slice(bytes);
    assert!(channel.wait_writable(Duration::ZERO, deadline()).unwrap(), "nobody takes it");
    channel.try_send(qbuf).unwrap();
}

/// Reads until there are `len` bytes.
fn receive(channel: &mut Channel, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        assert!(channel.wait_readable(Duration::ZERO, deadline()).unwrap(), "only {} bytes came", bytes.len());
        bytes.extend_from_slice(&channel.try_recv().unwrap().expect("it is readable"));
    }
    assert_eq!(bytes.len(), len);
    bytes
}

/// How a stream ends: in order, or not.
fn ends_in_order(channel: &mut Channel) -> bool {
    let mut in_order = false;
    loop {
        assert!(channel.wait_readable(Duration::ZERO, deadline()).unwrap(), "it does not end");
        match channel.try_recv() {
            Ok(Some(message)) => in_order = message.is_empty(),
            Ok(None) => {}
            Err(ChannelError::Closed) => return in_order,
            Err(error) => panic!("{error}"),
        }
    }
}

fn bridging() {
    // Two hosts, as far as protocol 36 can see.
    let (near, far) = (Served::start(&[]), Served::start(&[]));
    let (client, server) = (Client::open(&near.socket).unwrap(), Client::open(&far.socket).unwrap());
    let at: SocketAddr = "127.0.0.36:7001".parse().unwrap();
    for carrier in [Carrier::Udp, Carrier::SharedMemory] {
        assert_eq!(client.connect_via(&carrier, at).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let begun = Instant::now();
    let registration = loop {
        match server.listen_via(&Carrier::Ip36, at) {
            Ok(registration) => break registration,
            Err(error) if error.kind() == ErrorKind::Unsupported => return not_tried(&error.to_string()),
            // Other tests use protocol 36 as well, and only one process can.
            Err(error) if error.kind() == ErrorKind::AddrInUse && begun.elapsed() < PATIENCE => {}
            Err(error) => panic!("{error}"),
        }
    };
    let connect = |port| loop {
        match client.connect_via(&Carrier::Ip36, SocketAddr::new(at.ip(), port)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && begun.elapsed() < PATIENCE => {}
            result => break result,
        }
    };
    let pair = || -> (Arrival, Arrival) {
        let here = connect(7001).unwrap();
        (here, registration.accept_timeout(PATIENCE).unwrap().expect("it arrives"))
    };

    // Both ways, and the end in order.
    let (mut here, mut there) = pair();
    assert_eq!((here.peer, there.local), (at, at));
    assert!(there.peer.ip().is_loopback());
    let pattern: Vec<u8> = (0..60_000u32).map(|byte| (byte % 251) as u8).collect();
    for _ in 0..20 {
        send(&mut here.channel, &pattern);
        assert!(receive(&mut there.channel, pattern.len()) == pattern);
        send(&mut there.channel, &pattern[..1000]);
        assert!(receive(&mut here.channel, 1000) == pattern[..1000]);
    }
    for channel in [&mut here.channel, &mut there.channel] {
        assert_eq!(channel.try_send_bytes(b"").unwrap(), 0);
        channel.finish();
    }
    assert!(ends_in_order(&mut here.channel) && ends_in_order(&mut there.channel));
    drop((here, there));

    // Who does not read holds up who sends, and loses nothing.
    let (mut here, mut there) = pair();
    let mut sent = 0;
    let mut last = Instant::now();
    while last.elapsed() < Duration::from_secs(1) {
        // Half of the pool is for what is under way.
        let stats = here.channel.pool().stats();
        if stats.free_blocks * 2 > stats.blocks
            && let Some(qbuf) = here.channel.pool().alloc(50_000)
            && here.channel.try_send(qbuf).is_ok()
        {
            sent += 50_000;
            last = Instant::now();
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(sent < 64 << 20, "{sent} bytes are under way");
    assert_eq!(receive(&mut there.channel, sent).len(), sent);
    // Who goes without a word resets the stream.
    drop(here);
    assert!(!ends_in_order(&mut there.channel));
    drop(there);

    // Nobody, and nobody any more.
    let error = connect(7002).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::TimedOut), "{error}");
    drop(registration);
    wait_until("nobody listens", || connect(7001).is_err());
    drop((client, server));
    near.wait_until_unused();
    far.wait_until_unused();
}

/// A process that may open no raw socket: answers whoever comes, or calls who does.
pub(crate) fn without_rights(role: &str, at: &str) -> Result<String, String> {
    use std::io::{Read, Write};
    let nothing = CapabilitySet::empty();
    let nothing = CapabilitySets { effective: nothing, permitted: nothing, inheritable: nothing };
    set_capabilities(None, nothing).map_err(|error| error.to_string())?;
    let said = |error: std::io::Error| format!("{:?}: {error}", error.kind());
    let options = Options { carrier: Carrier::Ip36, ..Options::default() };
    let mut bytes = vec![7; 100_000];
    if role == "call" {
        let mut stream = Stream::connect(at, &options).map_err(said)?;
        stream.write_all(&bytes).and_then(|()| stream.read_exact(&mut bytes)).map_err(said)?;
        return Ok(format!("{} {}", stream.way(), stream.endpoint().is_some()));
    }
    let listener = Listener::bind(at, &options).map_err(said)?;
    crate::parts::say("listening");
    let mut stream = listener.accept_timeout(PATIENCE).map_err(said)?.ok_or("nobody has come")?;
    stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&bytes)).map_err(said)?;
    // The other may close first.
    let _ = stream.read(&mut bytes);
    Ok(format!("{} {} {}", stream.way(), listener.local_addr(), listener.endpoint().is_some()))
}

fn sockets() {
    let at = "127.0.0.37:7001";
    let part = |daemon: &str, role| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("PINNACE_DAEMON", daemon);
        Process::start_by(command, "without rights", &[role, at])
    };
    let said = part("off", "listen").line();
    assert!(said.starts_with("PermissionDenied") && said.contains("CAP_NET_RAW"), "{said}");
    let (near, far) = (Served::start(&[]), Served::start(&[]));
    let begun = Instant::now();
    // Other tests use protocol 36 as well, and only one process can; and the daemon takes a moment to let a port go.
    let listen = || loop {
        let mut server = part(far.socket.to_str().unwrap(), "listen");
        let said = server.line();
        if said == "listening" {
            break Ok(server);
        }
        if !said.starts_with("AddrInUse") || begun.elapsed() > PATIENCE {
            break Err(said);
        }
    };
    let mut server = match listen() {
        Ok(server) => server,
        Err(said) => return not_tried(&said),
    };
    let call = || loop {
        let said = part(near.socket.to_str().unwrap(), "call").line();
        if !said.starts_with("AddrInUse") || begun.elapsed() > PATIENCE {
            break said;
        }
    };
    assert_eq!((call().as_str(), server.line().as_str()), ("ip36 false", "ip36 127.0.0.37:7001 false"));

    // The daemon has the address already: who has no right to it is still helped.
    let client = Client::open(&far.socket).unwrap();
    let _registration = client.listen_via(&Carrier::Ip36, "127.0.0.37:7002".parse().unwrap()).unwrap();
    let mut server = listen().expect("the daemon has the right");
    assert_eq!((call().as_str(), server.line().as_str()), ("ip36 false", "ip36 127.0.0.37:7001 false"));
}
