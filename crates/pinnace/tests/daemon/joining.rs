//! What the daemon is for: processes that find each other.

use crate::parts::{Named, Process, Served, exchange, wait_until};
use pinnace::daemon::{Client, Daemon, DaemonOptions};
use pinnace::qmp::PoolOptions;
use pinnace_qbuf::channel::ChannelError;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) fn tests() -> Vec<Named> {
    vec![
        ("two_processes_talk_through_the_pool", two_processes),
        ("one_process_talks_with_itself", itself),
        ("addresses_match_as_those_of_sockets", addresses),
        ("an_address_has_one_listener", one_listener),
        ("a_listener_that_is_dropped_tells_who_waits", unlisten),
        ("channels_that_are_closed_are_forgotten", forgotten),
        ("who_came_to_one_without_descriptors_is_told", poor),
        ("a_client_that_leaves_keeps_what_it_has", leaving),
        ("a_live_socket_is_not_replaced_and_a_stale_one_is", stale),
        ("a_directory_that_others_can_write_to_is_refused", directory),
        ("modes_that_let_everybody_in_are_refused", modes),
        ("a_pool_in_which_clients_could_make_others_fault_is_refused", guarded),
        ("another_network_namespace_is_refused", namespace),
        ("a_low_port_needs_the_right", low_port),
        ("the_client_of_a_process_is_found_and_found_again", current),
        ("the_daemon_counts", counts),
    ]
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

//= B-14 test
fn two_processes() {
    let served = Served::start(&[]);
    let mut echo = Process::start("echo", &[served.path(), "127.0.0.1:7001"]);
    echo.line();
    let client = Client::open(&served.socket).unwrap();
    let mut arrival = client.connect(at("127.0.0.1:7001")).unwrap().unwrap();
    assert_eq!((arrival.peer, arrival.local.ip()), (at("127.0.0.1:7001"), at("127.0.0.1:1").ip()));
    for len in [1, 100, 4096, 131_072] {
        exchange(&mut arrival, len);
    }
    let other = client.connect(at("127.0.0.1:7001")).unwrap().unwrap();
    assert_ne!(arrival.local.port(), other.local.port());
    drop((arrival, other, client));
    echo.kill();
    served.wait_until_unused();
}

fn itself() {
    let served = Served::start(&[]);
    let client = Client::open(&served.socket).unwrap();
    let registration = client.listen(at("127.0.0.1:7001")).unwrap();
    assert!(registration.try_accept().unwrap().is_none());
    for _ in 0..3 {
        let mut here = client.connect(at("127.0.0.1:7001")).unwrap().unwrap();
        let mut there = registration.try_accept().unwrap().unwrap();
        assert_eq!((here.local, here.peer), (there.peer, there.local));
        let qbuf = here.channel.pool().alloc(5000).unwrap();
        here.channel.try_send(qbuf).unwrap();
        // What was sent before the end is read before the end.
        drop(here);
        assert_eq!(there.channel.try_recv().unwrap().unwrap().len(), 5000);
        assert!(there.channel.try_recv().is_err());
    }
    drop((registration, client));
    served.wait_until_unused();
}

fn addresses() {
    let served = Served::start(&[]);
    let client = Client::open(&served.socket).unwrap();
    for (listen, connect, local, peer) in [
        ("127.0.0.1:7001", "127.0.0.1:7001", "127.0.0.1:7001", "127.0.0.1"),
        ("127.0.0.1:7001", "0.0.0.0:7001", "127.0.0.1:7001", "127.0.0.1"),
        ("127.0.0.1:7001", "[::ffff:127.0.0.1]:7001", "127.0.0.1:7001", "127.0.0.1"),
        ("0.0.0.0:7001", "127.0.0.1:7001", "127.0.0.1:7001", "127.0.0.1"),
        ("0.0.0.0:7001", "127.3.2.1:7001", "127.3.2.1:7001", "127.0.0.1"),
        ("[::]:7001", "127.0.0.1:7001", "[::ffff:127.0.0.1]:7001", "::ffff:127.0.0.1"),
        ("[::]:7001", "[::1]:7001", "[::1]:7001", "::1"),
        ("[::1]:7001", "[::]:7001", "[::1]:7001", "::1"),
    ] {
        let registration = client.listen(at(listen)).unwrap();
        let here = client.connect(at(connect)).unwrap().unwrap_or_else(|| panic!("{listen} does not take {connect}"));
        let there = registration.try_accept().unwrap().unwrap();
        assert_eq!((there.local, there.peer.ip().to_string()), (at(local), peer.to_owned()), "{listen} {connect}");
        assert_eq!(here.local.port(), there.peer.port());
        assert_eq!(here.peer.is_ipv6(), at(connect).is_ipv6());
        drop(registration);
        wait_until("nobody listens", || client.connect(at(connect)).unwrap().is_none());
    }
    for (listen, connect) in [
        ("127.0.0.1:7001", "127.0.0.1:7002"),
        ("127.0.0.1:7001", "127.0.0.2:7001"),
        ("127.0.0.1:7001", "[::1]:7001"),
        // Not of this host.
        ("0.0.0.0:7001", "192.0.2.1:7001"),
        ("[::]:7001", "[2001:db8::1]:7001"),
        ("0.0.0.0:7001", "224.0.0.1:7001"),
    ] {
        let registration = client.listen(at(listen)).unwrap();
        assert!(client.connect(at(connect)).unwrap().is_none(), "{listen} takes {connect}");
        drop(registration);
        // The daemon learns of it before it is asked again.
        wait_until("nobody listens", || served.statistics().totals.listeners == 0);
    }
    for no in ["127.0.0.1:0", "192.0.2.1:7001", "224.0.0.1:7001", "[2001:db8::1]:7001"] {
        assert_eq!(client.listen(at(no)).unwrap_err().kind(), ErrorKind::AddrNotAvailable, "{no}");
    }
}

fn one_listener() {
    let served = Served::start(&[]);
    let client = Client::open(&served.socket).unwrap();
    let first = client.listen(at("127.0.0.1:7001")).unwrap();
    for taken in ["127.0.0.1:7001", "0.0.0.0:7001", "[::]:7001", "[::ffff:127.0.0.1]:7001"] {
        assert_eq!(client.listen(at(taken)).unwrap_err().kind(), ErrorKind::AddrInUse, "{taken}");
    }
    let mut other = Process::start("listen", &[served.path(), "127.0.0.1:7001"]);
    assert_ne!(other.line(), "ready");
    assert_eq!(first.address(), at("127.0.0.1:7001"));
    drop(first);
    wait_until("it is free", || client.listen(at("0.0.0.0:7001")).is_ok());
}

fn unlisten() {
    let served = Served::start(&[]);
    let client = Client::open(&served.socket).unwrap();
    let registration = client.listen(at("127.0.0.1:7001")).unwrap();
    let mut waits = client.connect(at("127.0.0.1:7001")).unwrap().unwrap();
    let mut accepted = client.connect(at("127.0.0.1:7001")).unwrap().unwrap();
    let first = registration.try_accept().unwrap().unwrap();
    let mut second = registration.try_accept().unwrap().unwrap();
    let third = client.connect(at("127.0.0.1:7001")).unwrap().unwrap();
    let qbuf = third.channel.pool().alloc(50_000).unwrap();
    let mut third = third;
    third.channel.try_send(qbuf).unwrap();
    drop((registration, first));
    // Both that have nobody any more are told.
    for arrival in [&mut waits, &mut third] {
        let channel = &mut arrival.channel;
        assert!(channel.wait_readable(Duration::ZERO, Some(Instant::now() + Duration::from_secs(30))).unwrap());
        assert!(channel.try_recv().is_err());
    }
    // The one that was accepted goes on.
    accepted.channel.try_send_bytes(b"still").unwrap();
    assert_eq!(&second.channel.try_recv().unwrap().unwrap()[..], b"still");
    drop((waits, third, accepted, second));
    let pool = client.pool().stats();
    assert_eq!(pool.free_blocks, pool.blocks);
    drop(client);
    served.wait_until_unused();
}

fn forgotten() {
    let served = Served::start(&[]);
    let client = Client::open(&served.socket).unwrap();
    let registration = client.listen(at("127.0.0.1:7001")).unwrap();
    let before = served.process.descriptors();
    for _ in 0..2000 {
        drop(client.connect(at("127.0.0.1:7001")).unwrap().unwrap());
        drop(registration.try_accept().unwrap().unwrap());
    }
    wait_until("they are forgotten", || served.statistics().totals.channels == 0);
    assert_eq!(served.statistics().totals.connected, 2000);
    wait_until("their descriptors are closed", || served.process.descriptors() <= before + 1);
}

fn poor() {
    let served = Served::start(&[]);
    let mut listener = Process::start("poor", &[served.path(), "127.0.0.1:7001"]);
    assert_eq!(listener.line(), "ready");
    let client = Client::open(&served.socket).unwrap();
    let mut first = client.connect(at("127.0.0.1:7001")).unwrap().unwrap();
    let answer = listener.line();
    assert!(answer.contains("too many open"), "{answer}");
    let deadline = Instant::now() + Duration::from_secs(10);
    assert!(first.channel.wait_readable(Duration::ZERO, Some(deadline)).unwrap(), "nobody tells who came");
    assert!(matches!(first.channel.try_recv(), Err(ChannelError::Closed)));
    // With descriptors again all is as ever.
    let second = client.connect(at("127.0.0.1:7001")).unwrap().unwrap();
    assert_eq!(listener.line(), "accepted");
    listener.kill();
    drop((first, second, client));
    served.wait_until_unused();
}

fn leaving() {
    let served = Served::start(&[]);
    let mut echo = Process::start("echo", &[served.path(), "127.0.0.1:7001"]);
    echo.line();
    let client = Client::open(&served.socket).unwrap();
    let mut arrival = client.connect(at("127.0.0.1:7001")).unwrap().unwrap();
    let mut kept = client.pool().alloc(9000).unwrap();
    drop(client);
    wait_until("the daemon has noticed", || served.statistics().clients.iter().any(|client| client.channels == 1));
    std::thread::sleep(Duration::from_millis(600));
    exchange(&mut arrival, 10_000);
    kept.fill(1);
    assert!(kept.pool().owner(kept.first_block()).is_some(), "it was taken away");
    echo.kill();
    drop((arrival, kept));
    served.wait_until_unused();
}

fn stale() {
    let mut served = Served::start(&[]);
    let options = DaemonOptions { socket: Some(served.socket.clone()), ..DaemonOptions::default() };
    let error = Daemon::bind(&options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&served.process.pid().to_string()), "{error}");
    served.process.kill();
    assert!(served.socket.exists(), "it was killed, and could not clean up");
    let daemon = Daemon::bind(&options).expect("nobody serves there");
    let mode = std::fs::metadata(&served.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(daemon);
    assert!(!served.socket.exists());
    // What is no socket stays.
    std::fs::write(&served.socket, "precious").unwrap();
    assert_eq!(Daemon::bind(&options).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_to_string(&served.socket).unwrap(), "precious");
    // Nor does another program's, which does not speak as a daemon does.
    std::fs::remove_file(&served.socket).unwrap();
    let other = std::os::unix::net::UnixListener::bind(&served.socket).unwrap();
    assert_eq!(Daemon::bind(&options).unwrap_err().kind(), ErrorKind::AlreadyExists);
    std::os::unix::net::UnixStream::connect(&served.socket).expect("it is reached still");
    drop(other);
    drop(Daemon::bind(&options).expect("nobody serves there"));
}

fn directory() {
    let directory = tempfile::tempdir().unwrap();
    let open = directory.path().join("open");
    std::fs::create_dir(&open).unwrap();
    let options = |directory: &std::path::Path| DaemonOptions {
        socket: Some(directory.join("daemon.sock")),
        ..DaemonOptions::default()
    };
    for mode in [0o777, 0o770, 0o1777] {
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(Daemon::bind(&options(&open)).unwrap_err().kind(), ErrorKind::PermissionDenied, "{mode:o}");
    }
    // One that is not there is made.
    let made = directory.path().join("made");
    drop(Daemon::bind(&options(&made)).unwrap());
    assert_eq!(std::fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
    let long = directory.path().join("x".repeat(120));
    assert!(Daemon::bind(&DaemonOptions { socket: Some(long), ..DaemonOptions::default() }).is_err());
}

fn modes() {
    let directory = tempfile::tempdir().unwrap();
    let bind = |mode, group| {
        let socket = Some(directory.path().join("daemon.sock"));
        Daemon::bind(&DaemonOptions { socket, mode, group, ..DaemonOptions::default() })
    };
    for (mode, group) in [(0o666, None), (0o660, None), (0o666, Some(0)), (0o7600, None)] {
        assert_eq!(bind(mode, group).unwrap_err().kind(), ErrorKind::InvalidInput, "{mode:o}");
    }
    drop(bind(0o660, Some(rustix::process::getegid().as_raw())).unwrap());
}

//= B-13 test
fn guarded() {
    let directory = tempfile::tempdir().unwrap();
    let pool = PoolOptions { guarded: true, ..PoolOptions::default() };
    let options = DaemonOptions { socket: Some(directory.path().join("d.sock")), pool, ..DaemonOptions::default() };
    assert_eq!(Daemon::bind(&options).unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// A command that runs this program in a namespace of its own, where that is possible.
fn apart(arguments: &[&str]) -> Option<Command> {
    let works = Command::new("unshare").args(arguments).arg("true").status().is_ok_and(|status| status.success());
    works.then(|| {
        let mut command = Command::new("unshare");
        command.args(arguments).arg(std::env::current_exe().unwrap());
        command
    })
}

fn namespace() {
    let served = Served::start(&[]);
    let Some(command) = apart(&["--net", "--map-root-user"]) else {
        pinnace_testing::skip::host("this system gives nobody a namespace");
        return;
    };
    let mut apart = Process::start_by(command, "come", &[served.path()]);
    assert!(apart.line().contains("another network namespace"));
    assert_eq!(served.statistics().totals.refused_clients, 1);
    let mut here = Process::start("come", &[served.path()]);
    assert_eq!(here.line(), "welcome");
}

fn low_port() {
    let served = Served::start(&[]);
    let start = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    if start.trim() == "0" {
        pinnace_testing::skip::host("this system lets everybody bind to every port");
        return;
    }
    // Root of a user namespace has all capabilities there, and none over our ports.
    if let Some(command) = apart(&["--user", "--map-root-user"]) {
        let mut listener = Process::start_by(command, "listen", &[served.path(), "127.0.0.1:79"]);
        assert!(listener.line().contains("CAP_NET_BIND_SERVICE"));
    }
    let client = Client::open(&served.socket).unwrap();
    let ours = client.listen(at("127.0.0.1:79"));
    // As the system decides.
    let theirs = std::net::UdpSocket::bind("127.0.0.1:79");
    assert_eq!(ours.is_ok(), theirs.is_ok(), "{ours:?} {theirs:?}");
}

fn current() {
    let mut served = Served::start(&[]);
    let program = || Command::new(std::env::current_exe().unwrap());
    let mut off = program();
    off.env("PINNACE_DAEMON", "off");
    assert_eq!(Process::start_by(off, "current", &[]).ask("?"), "none");

    let mut named = program();
    named.env("PINNACE_DAEMON", served.path());
    let mut named = Process::start_by(named, "current", &[]);
    assert_eq!(named.ask("?"), "some");
    served.process.kill();
    assert_eq!(named.ask("?"), "none");
    served.again();
    wait_until("it is found again", || named.ask("?") == "some");

    // In the usual place.
    let runtime = served.directory().join("runtime");
    std::fs::create_dir(&runtime).unwrap();
    std::fs::create_dir(runtime.join("pinnace")).unwrap();
    std::fs::set_permissions(runtime.join("pinnace"), std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut usual = program();
    usual.env_remove("PINNACE_DAEMON").env("XDG_RUNTIME_DIR", &runtime);
    let socket = Some(runtime.join("pinnace/daemon.sock"));
    let daemon = std::sync::Arc::new(Daemon::bind(&DaemonOptions { socket, ..DaemonOptions::default() }).unwrap());
    let serving = std::thread::spawn({
        let daemon = std::sync::Arc::clone(&daemon);
        move || daemon.run()
    });
    assert_eq!(Process::start_by(usual, "current", &[]).ask("?"), "some");
    daemon.stop();
    serving.join().unwrap().unwrap();
}

fn counts() {
    let served = Served::start(&[]);
    let client = Client::open(&served.socket).unwrap();
    let registration = client.listen(at("127.0.0.1:7001")).unwrap();
    let here = client.connect(at("127.0.0.1:7001")).unwrap().unwrap();
    let held = client.pool().alloc(10_000).unwrap();
    // Counts of the pool may be a moment old.
    std::thread::sleep(Duration::from_millis(50));
    let found = served.statistics();
    let totals = found.totals;
    assert_eq!(totals.pid, u64::from(served.process.pid()));
    assert_eq!((totals.listeners, totals.channels, totals.connected, totals.dropped_clients), (1, 1, 1, 0));
    assert_eq!((totals.pool.blocks, totals.pool.user_blocks, totals.pool.clients), (64 * 32, 3, 3));
    let [one] = &found.clients[..] else { panic!("{found:?}") };
    assert_eq!((one.pid, one.listeners, one.channels, one.held_blocks), (u64::from(std::process::id()), 1, 1, 3));
    assert_eq!(one.uid, u64::from(rustix::process::getuid().as_raw()));
    drop((here, held, registration, client));
    served.wait_until_unused();
}
